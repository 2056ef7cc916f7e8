"""Cubes of corrected products: by Sen2Cor (a stand-in for it), and of products corrected elsewhere."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import rasterio
from click.testing import CliRunner

from command_lines import replaced
from fake_l2a_process import HAZE, METRES
from sen2cor_stand_in import install
from uncover.atmosphere.grib import constant_aod
from uncover.cli import main
from uncover.pipeline import RealiseOptions, realise_scene
from uncover.raster import TEN_BANDS, cube, open_cube, open_scene
from uncover.studies.landscape import LandscapeOptions, write_scene

DRAWS = 4
BBOX = ("--bbox", 620200, 5779500, 620600, 5779900, "--bbox-crs", "EPSG:32630")


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return write_scene(tmp_path_factory.mktemp("scene"), LandscapeOptions(size=100))


@pytest.fixture(scope="module")
def sen2cor(tmp_path_factory):
    return install(tmp_path_factory.mktemp("programs"))


@pytest.fixture
def command(scene, sen2cor):
    def made(*more, product=None, out="cube.zarr", draws=DRAWS):
        how = ("--correction", "sen2cor", "--sen2cor", sen2cor, "--draws", draws)
        return ("realise", product or scene.product(2020), *replaced(*how, "--out", out, *more))

    return made


@pytest.fixture(scope="module")
def undisturbed(scene, sen2cor, tmp_path_factory):
    """The numbers of the cube that `command` makes."""
    cube = tmp_path_factory.mktemp("undisturbed") / "cube.zarr"
    how = ("--correction", "sen2cor", "--sen2cor", sen2cor, "--draws", DRAWS, "--out", cube)
    made = CliRunner().invoke(main, ["realise", *map(str, (scene.product(2020), *how))])
    assert made.exit_code == 0, made.output
    return open_cube(cube).read().values


def by_hand(product, depths, rows=slice(None), cols=slice(None)):
    """What the stand-in does, from the numbers of the L1C bands: (world, band, row, col)."""
    planes = []
    for band in TEN_BANDS:
        with rasterio.open(next(product.glob(f"GRANULE/*/IMG_DATA/*_{band}.jp2"))) as dataset:
            numbers = dataset.read(1).astype(float)
        whole = [np.round(numbers - 10000 * HAZE[band] * depth) / 10000 for depth in depths]
        step = METRES[band] // 10
        planes.append(np.stack([w.repeat(step, 0).repeat(step, 1)[rows, cols] for w in whole]))
    return np.stack(planes, axis=1)


def test_sen2cor_ends_in_the_cube_of_the_same_draws_as_the_table(run, tmp_path, scene, command):
    made = run(*command("--workers", 2))
    assert made.exit_code == 0, made.output
    assert made.stdout.endswith("4 realisations of 10 bands, 100 x 100\n")
    found = open_cube(tmp_path / "cube.zarr")
    l1c = open_scene(scene.product(2020))
    table = realise_scene(l1c, RealiseOptions(draws=DRAWS))
    assert (found.bands, found.grid, found.identity) == (l1c.bands, l1c.grid, l1c.identity)
    np.testing.assert_array_equal(found.coordinates["aod"], table.draws.values)
    np.testing.assert_array_equal(found.coordinates["weight"], table.draws.weights)
    np.testing.assert_allclose(found.attributes["aod_reached"], table.draws.values, atol=1e-6)
    assert found.attributes["correction"] == "Sen2Cor 2.11.0, optical depth of CAMS shifted"
    assert found.attributes["aod_estimate"] == 0.12
    assert found.attributes["quantities"] == table.layout.attributes["quantities"]
    np.testing.assert_allclose(
        found.read().values, by_hand(scene.product(2020), table.draws.values), atol=2e-4
    )
    assert (found.read().quality == 0).all()
    assert (found.features.quantity, found.features.correction) == ("surface reflectance", "Sen2Cor")
    assert not list(tmp_path.glob("cube.zarr.*"))


def test_around_an_optical_depth_of_ones_own_and_in_an_area(run, tmp_path, scene, command):
    """The field is shifted from what it has at the place to what was drawn, whatever the estimate is."""
    made = run(*command("--aod", 0.3, *BBOX, "--seed", 5, "--keep-products"))
    assert made.exit_code == 0, made.output
    found = open_cube(tmp_path / "cube.zarr")
    expected = realise_scene(open_scene(scene.product(2020)), RealiseOptions(aod=0.3, draws=DRAWS, seed=5))
    np.testing.assert_array_equal(found.coordinates["aod"], expected.draws.values)
    assert found.grid.shape == (40, 40)
    rows, cols = slice(10, 50), slice(20, 60)
    by_formula = by_hand(scene.product(2020), expected.draws.values, rows, cols)
    np.testing.assert_allclose(found.read().values, by_formula, atol=2e-4)
    assert len(list((tmp_path / "cube.zarr.sen2cor").glob("*/output/*.SAFE"))) == DRAWS


def test_sen2cor_gets_a_product_by_its_own_name(run, tmp_path, scene, command):
    renamed = shutil.copytree(scene.product(2020), tmp_path / "L1C-2020.SAFE")
    made = run(*command("--dry-run", product=renamed, draws=1))
    assert f"realisation-000/input/{scene.product(2020).name} --work_dir" in made.stdout


def test_a_dry_run_shows_all_and_writes_nothing(run, tmp_path, command):
    made = run(*command("--dry-run"))
    assert made.exit_code == 0, made.output
    commands = [line for line in made.stdout.splitlines() if not line.startswith("#")]
    assert len(commands) == DRAWS
    for r, line in enumerate(commands):
        assert f"cube.zarr.sen2cor/realisation-{r:03d}/output --resolution 10 --GIP_L2A" in line
    assert "cube.zarr: 4 worlds of 10 bands, EPSG:32630, 100 x 100 pixels" in made.stdout
    assert not list(tmp_path.iterdir())


def test_a_dry_run_needs_no_sen2cor(run, tmp_path, scene, command):
    nowhere = ("--correction", "sen2cor", "--sen2cor", "/nowhere", "--draws", DRAWS, "--out", "cube.zarr")
    made = run("realise", scene.product(2020), *nowhere, "--dry-run")
    assert made.exit_code == 0, made.output
    *lines, last = made.stdout.splitlines()
    assert last.startswith("# cannot be run yet: Sen2Cor was not found in /nowhere; install Sen2Cor 2.10")
    there = run(*command("--dry-run")).stdout.splitlines()
    depths, commands = (lambda line: line.startswith("# world")), (lambda line: not line.startswith("#"))
    assert [*filter(depths, lines)] == [*filter(depths, there)]
    assert len([*filter(commands, lines)]) == DRAWS and lines[-1] == there[-1]
    for mine, other in zip(filter(commands, lines), filter(commands, there), strict=True):
        assert mine.split()[0] == "L2A_Process" and mine.split()[1:] == other.split()[1:]
    assert (
        "realisation-003/L2A_CAL_AC_GIPP.xml: Sen2Cor/cfg/L2A_CAL_AC_GIPP.xml with AC_Min_Ddv_Area 100.0"
        in (made.stdout)
    )
    assert not list(tmp_path.iterdir())


def test_a_version_may_be_padded_with_zeros(run, command, monkeypatch, tmp_path):
    monkeypatch.setenv("FAKE_VERSION", "02.11.00")
    assert run(*command()).exit_code == 0
    assert open_cube(tmp_path / "cube.zarr").attributes["correction"].startswith("Sen2Cor 2.11.0,")


def test_an_l2a_product_is_said_to_be_corrected_already(run, command, scene, tmp_path):
    assert run(*command("--keep-products")).exit_code == 0
    product = next((tmp_path / "cube.zarr.sen2cor").glob("*/output/*.SAFE"))
    complaint = complaint_of(run(*command(product=product, out="other.zarr")))
    assert "is an L2A product, corrected to the surface already" in complaint and "unzip" not in complaint


def complaint_of(made):
    assert made.exit_code == 1, made.output
    lines = made.stderr.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def runs_of(folder):
    return {path.parent.name: path.read_text().count("run") for path in Path(folder).glob("*/runs.txt")}


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("FAKE_FAIL_IN", "no space left for the image database"),
        ("FAKE_FULL_IN", "No space left on device"),
    ],
)
def test_one_world_that_fails_leaves_the_others_to_go_on_with(
    run, tmp_path, command, undisturbed, monkeypatch, variable, words
):
    monkeypatch.setenv(variable, "realisation-002")
    complaint = complaint_of(run(*command()))
    assert "Sen2Cor stopped in realisation-002 (exit code 1" in complaint
    assert words in complaint
    assert "go on with --resume: finished worlds are kept" in complaint
    assert runs_of("cube.zarr.sen2cor") == {"realisation-000": 1, "realisation-001": 1}
    monkeypatch.delenv(variable)
    assert "is an unfinished run; go on with --resume" in complaint_of(run(*command()))
    assert "holds a run with other settings" in complaint_of(run(*command("--resume", "--seed", 9)))
    made = run(*command("--resume", "--keep-products"))
    assert made.exit_code == 0, made.output
    assert runs_of("cube.zarr.sen2cor") == {f"realisation-{r:03d}": 1 for r in range(DRAWS)}
    np.testing.assert_array_equal(open_cube(tmp_path / "cube.zarr").read().values, undisturbed)


def test_a_disk_that_fills_up_under_the_cube_keeps_the_worlds(run, tmp_path, command, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(cube, "_store", full)
        complaint = complaint_of(run(*command()))
    assert "cube.zarr cannot be written (No space left on device); make room and resume" in complaint
    made = run(*command("--resume", "--keep-products"))
    assert made.exit_code == 0, made.output
    assert set(runs_of("cube.zarr.sen2cor").values()) == {1}


def test_killed_and_resumed(run, tmp_path, command):
    """A run that is killed between worlds goes on with those that are missing."""
    arguments = [sys.executable, "-m", "uncover.cli", *(str(each) for each in command())]
    process = subprocess.Popen(arguments, cwd=tmp_path, env={**os.environ, "FAKE_SECONDS": "0.5"})
    folder = tmp_path / "cube.zarr.sen2cor"
    while len(list(folder.glob("*/done.json"))) < 2 and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = {path.parent.name for path in folder.glob("*/done.json")}
    assert 2 <= len(finished) < DRAWS
    while "still runs" in (made := run(*command("--resume", "--keep-products"))).stderr:
        time.sleep(0.1)  # the program itself outlives the run that was killed
    assert made.exit_code == 0, made.output
    assert all(runs_of(folder)[name] == 1 for name in finished)
    assert open_cube(tmp_path / "cube.zarr").realisations == DRAWS


def test_sen2cor_absent_or_of_another_version(refused, command, monkeypatch, scene):
    nowhere = ("--correction", "sen2cor", "--sen2cor", "/nowhere", "--out", "cube.zarr")
    complaint = refused("realise", scene.product(2020), *nowhere)
    assert "Sen2Cor was not found in /nowhere; install Sen2Cor 2.10 or 2.11 or 2.12" in complaint
    monkeypatch.setenv("FAKE_VERSION", "3.0.0")
    assert "L2A_Process is Sen2Cor 3.0.0; the command line and parameter files of 2.10" in refused(*command())


def test_a_product_without_a_forecast_or_with_one_of_another_date(refused, command, scene, tmp_path):
    product = shutil.copytree(scene.product(2020), tmp_path / scene.product(2020).name)
    forecast = next(product.glob("GRANULE/*/AUX_DATA/AUX_CAMSFO"))
    late = open_scene(scene.product(2021)).sensing_time
    forecast.write_bytes(constant_aod(0.2, late, -3.0, 50.0, 1.0, 54.0))
    assert "it is the file of another date" in refused(*command(product=product))
    forecast.unlink()
    assert "carries no CAMS forecast (AUX_DATA/AUX_CAMSFO" in refused(*command(product=product))
    assert "carries no CAMS forecast" in refused(*command("--aod", 0.1, product=product))


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (("--altitude", 1), "--altitude came with --correction sen2cor, which finds that out itself"),
        (("--workers", 0), "--workers is 0; it is 1 or more"),
        (("--correction", "table"), "--sen2cor came without --correction sen2cor"),
    ],
)
def test_options_that_say_nothing_are_refused(refused, command, more, complaint):
    assert complaint in refused(*command(*more))


@pytest.fixture(scope="module")
def products(scene, sen2cor, tmp_path_factory):
    """L2A products of two scenes, as somebody else would have made them."""
    folder = tmp_path_factory.mktemp("worlds")
    found = {}
    for year in (2020, 2021):
        how = ("--correction", "sen2cor", "--sen2cor", sen2cor, "--draws", 3, "--keep-products")
        out = folder / f"{year}.zarr"
        arguments = ["realise", scene.product(year), *how, "--out", out]
        subprocess.run([sys.executable, "-m", "uncover.cli", *map(str, arguments)], check=True)
        worlds = []
        for r, product in enumerate(sorted(Path(f"{out}.sen2cor").glob("*/output/*.SAFE"))):
            worlds.append(product.rename(folder / f"{year}-world{r}.SAFE"))
        found[year] = worlds
    return found


def test_products_corrected_elsewhere_make_the_same_cube(run, tmp_path, products):
    made = run("realise", *products[2020], "--as", "worlds", "--out", "cube.zarr")
    assert made.exit_code == 0, made.output
    assert "3 realisations of 10 bands" in made.output
    ours, theirs = open_cube(tmp_path / "cube.zarr"), open_cube(products[2020][0].parent / "2020.zarr")
    np.testing.assert_array_equal(ours.read().values, theirs.read().values)
    np.testing.assert_array_equal(ours.read().quality, theirs.read().quality)
    np.testing.assert_allclose(ours.coordinates["aod"], theirs.coordinates["aod"], atol=1e-6)
    np.testing.assert_allclose(ours.coordinates["weight"], 1 / 3)
    assert (ours.grid, ours.identity, ours.bands) == (theirs.grid, theirs.identity, theirs.bands)


def cropped(product, folder):
    """A world of the same scene on a smaller grid."""
    made = shutil.copytree(product, folder / "cropped.SAFE")
    for path in made.rglob("*.jp2"):
        with rasterio.open(path) as dataset:
            numbers, profile = dataset.read(1), dataset.profile
        half = numbers[: len(numbers) // 2]
        with rasterio.open(
            path, "w", **profile | {"height": len(half)}, QUALITY="100", REVERSIBLE="YES"
        ) as out:
            out.write(half, 1)
    return made


def without_a_band(product, folder):
    made = shutil.copytree(product, folder / "poor.SAFE")
    next(made.rglob("*_B08_10m.jp2")).unlink()
    return made


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        (lambda products, scene, folder: products[2021][0], "is of scene GS2B_"),
        (lambda products, scene, folder: scene.product(2020), "is not an L2A product (L1C)"),
        (
            lambda products, scene, folder: cropped(products[2020][1], folder),
            "lies on another grid than 2020",
        ),
        (lambda products, scene, folder: products[2020][0], "came twice; give each world once"),
        (lambda products, scene, folder: folder / "none.SAFE", "none.SAFE does not exist"),
    ],
)
def test_worlds_that_do_not_belong_together(refused, tmp_path, products, scene, other, complaint):
    world = other(products, scene, tmp_path)
    assert complaint in refused("realise", products[2020][0], world, "--as", "worlds", "--out", "cube.zarr")


def test_worlds_of_other_bands_are_refused(run, tmp_path, products):
    world = without_a_band(products[2020][1], tmp_path)
    made = run("realise", products[2020][0], world, "--as", "worlds", "--out", "cube.zarr")
    warning, error = made.stderr.splitlines()
    assert "has no image of B08" in warning and warning.startswith("Warning: ")
    assert made.exit_code == 1 and "2020-world0.SAFE has B02, B03" in error and error.startswith("Error: ")
    assert not (tmp_path / "cube.zarr").exists()


def test_several_scenes_are_worlds_only_if_said_so(refused, products):
    complaint = refused("realise", *products[2020], "--out", "cube.zarr")
    assert "3 scenes came; give one, or --as worlds if they are corrections of one" in complaint
    complaint = refused("realise", *products[2020], "--as", "worlds", "--aod", 0.1, "--out", "cube.zarr")
    assert "--aod came with --as worlds" in complaint
    complaint = refused("realise", products[2020][0], "--as", "worlds", "--out", "cube.zarr")
    assert "1 product came with --as worlds; give one for each world, at least 2" in complaint
