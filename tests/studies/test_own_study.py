"""The page of commands for one's own products, run on those of the embedded scene."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from label_maps import GRID, write_map
from sen2cor_stand_in import install
from uncover.cli import main
from uncover.raster import open_cube
from uncover.studies import landcover
from uncover.studies.landcover import LandCoverScale
from uncover.studies.landscape import LandscapeOptions, write_scene
from uncover.studies.tables import read_tables

PAGE = Path(__file__).parents[2] / "docs" / "own-study.md"
SIZE, SEED = 160, 0
#: The page draws 25 worlds; fewer take less time.
DRAWS = {"25": "5"}
MEASURED = ("cost",)  # times are not the same in two runs


def commands():
    """The commands of the first block of the page, word by word but for the number of worlds."""
    block = PAGE.read_text().split("```")[1].replace("\\\n", " ")
    return [[DRAWS.get(word, word) for word in shlex.split(line)] for line in block.strip().splitlines()]


def obey(*arguments):
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder as the page asks for it, with the products and maps of the embedded scene."""
    folder = tmp_path_factory.mktemp("own")
    scene = write_scene(folder / "scene", LandscapeOptions(size=SIZE, seed=SEED))
    for year in (2020, 2021):
        shutil.copytree(scene.product(year), folder / f"L1C-{year}.SAFE")
    for path in scene.previous_maps(2020) + scene.previous_maps(2021):
        shutil.copy(path, folder / path.name)
    return folder


@pytest.fixture(autouse=True)
def small(small_models, monkeypatch):
    """One process, which has the small models, and a scene of the size that was made."""
    scale = LandCoverScale(None, None, scene_size=SIZE, scene_draws=5)
    monkeypatch.setitem(landcover.LAND_COVER_SCALES, "paper", scale)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)


def test_the_commands_of_the_page_agree_with_the_embedded_study_to_the_last_digit(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for program, *arguments in commands():
        assert program == "uncover"
        obey(*arguments)
    obey("reproduce", "landcover", "--scale", "paper", "--seed", SEED, "--out", "embedded")
    own, embedded = read_tables(Path("landcover/tables")), read_tables(Path("embedded/tables"))
    assert own.keys() == embedded.keys()
    for name in own.keys() - set(MEASURED):
        pd.testing.assert_frame_equal(own[name], embedded[name], check_exact=True, obj=name)
    assert len(own["scores"]) > 0
    figures = {path.name for path in Path("landcover/figures").glob("*.svg")}
    assert figures == {path.name for path in Path("embedded/figures").glob("*.svg")} != set()
    assert Path("landcover/report.html").exists()


def interrupted(arguments, folder):
    """Kill a command when two worlds are finished."""
    environment = {**os.environ, "FAKE_SECONDS": "0.3"}
    process = subprocess.Popen([sys.executable, "-m", "uncover.cli", *arguments], env=environment)
    while len(list(folder.glob("*/done.json"))) < 2 and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(list(folder.glob("*/done.json"))) >= 2


@pytest.mark.slow
def test_from_sen2cor_to_tables_and_figures_killed_and_resumed(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    sen2cor = install(tmp_path)
    if not Path("labels.tif").exists():
        obey(*commands()[0][1:])
    for year in (2020, 2021):
        cube = tmp_path / f"{year}.zarr"
        how = ("--correction", "sen2cor", "--sen2cor", sen2cor, "--draws", "5", "--out", cube)
        arguments = [str(each) for each in ("realise", f"L1C-{year}.SAFE", *how)]
        if year == 2020:
            interrupted(arguments, Path(f"{cube}.sen2cor"))
            assert not cube.exists()
            arguments.append("--resume")
        while (made := CliRunner().invoke(main, arguments)).exit_code:
            assert "still runs" in made.output, made.output  # the program outlives the run that was killed
            time.sleep(0.1)
    data = ("--data", tmp_path / "2020.zarr", "--data", tmp_path / "2021.zarr", "--labels", "labels.tif")
    obey("reproduce", "landcover", *data, "--scale", "paper", "--out", tmp_path / "study")
    tables = read_tables(tmp_path / "study" / "tables")
    assert {"BQDA", "LDA", "RF", "NN"} <= set(tables["scores"]["model"])
    assert tables["scores"]["value"].notna().any()
    assert len(list((tmp_path / "study" / "figures").glob("*.png"))) > 5
    assert (tmp_path / "study" / "report.html").stat().st_size > 10_000


def refused(*arguments):
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 1, result.output
    said = [line for line in result.stderr.splitlines() if line != "preparing"]
    lines = [line for line in said if "are taken to be no class" not in line]
    assert len(lines) == 1, lines
    return lines[0]


def test_a_product_is_told_its_next_step(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    product = next(path for path in (folder / "scene" / "2020").iterdir() if path.suffix == ".SAFE")
    complaint = refused("reproduce", "landcover", "--data", product, "--out", tmp_path / "study")
    assert f"uncover realise {product} --product-aod --draws 25 --out 2020.zarr" in complaint
    assert not (tmp_path / "study").exists()


def test_labels_that_do_not_overlap_are_one_clear_line(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    cube = tmp_path / "2020.zarr"
    obey("realise", "L1C-2020.SAFE", "--product-aod", "--draws", 2, "--out", cube)
    study = ("reproduce", "landcover", "--data", cube, "--out", tmp_path / "study")
    elsewhere = write_map(tmp_path / "elsewhere.tif", np.ones(GRID.shape, np.uint8))
    assert "elsewhere.tif does not overlap" in refused(*study, "--labels", elsewhere)
    grid = open_cube(cube).grid
    nothing = write_map(tmp_path / "nothing.tif", np.zeros(grid.shape, np.uint8), grid=grid)
    assert "none of the 0 pixels that" in refused(*study, "--labels", nothing)
    assert not (tmp_path / "study").exists()
