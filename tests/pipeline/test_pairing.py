"""Pairing of a scene with the model that it trained: only where both have the same worlds."""

import json
from pathlib import Path

import numpy as np
import pytest
import zarr

from command_lines import replaced
from map_cases import reflectance
from map_cases import write_scene as write_stack
from uncover.pipeline import RealiseOptions
from uncover.pipeline.realisations import realise_scene
from uncover.raster import SceneOptions, open_cube, open_scene
from uncover.studies.landscape import LandscapeOptions, write_scene

DRAWN = ("--aod", 0.12, "--draws", 4)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return write_scene(tmp_path_factory.mktemp("scene"), LandscapeOptions(size=100))


@pytest.fixture
def trained(run, scene):
    """A model of the worlds of the scene."""
    result = run(
        "fit", "--model", "published",
        scene.product(2020), "--labels", scene.truth(2020), *DRAWN, "--realisations", "shared",
        "--out", "model.uncover",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    return scene.product(2020)


def pairing(folder):
    return json.loads(Path(folder, "item.json").read_text())["properties"]["uncover:paired"]


@pytest.mark.parametrize(
    "other",
    [("--seed", 1), ("--draw-method", "mc"), ("--aod", 0.15), ("--aod-uncertainty", 0.02), ("--draws", 5)],
)
def test_other_worlds_of_the_training_scene_are_not_paired(run, refused, trained, other):
    line = refused("map", "model.uncover", trained, *replaced(*DRAWN, *other), "--out", "map")
    assert "trained the model" in line and "--unpaired" in line
    result = run("map", "model.uncover", trained, *replaced(*DRAWN, *other), "--unpaired", "--out", "map")
    assert result.exit_code == 0, result.output
    assert pairing("map") is False


def test_the_same_worlds_are_paired_on_the_fly_and_from_a_cube(run, refused, trained):
    assert run("realise", trained, *DRAWN, "--out", "cube.zarr").exit_code == 0
    assert run("realise", trained, *DRAWN, "--seed", 1, "--out", "other.zarr").exit_code == 0
    assert run("map", "model.uncover", trained, *DRAWN, "--out", "map").exit_code == 0
    assert run("map", "model.uncover", "cube.zarr", "--out", "of-cube").exit_code == 0
    assert pairing("map") is True and pairing("of-cube") is True
    line = refused("map", "model.uncover", "other.zarr", "--out", "of-other")
    for name in ("cube", "other"):
        drawn = ", ".join(f"{depth:.4g}" for depth in open_cube(f"{name}.zarr").coordinates["aod"][:3])
        assert f"aod {drawn}, ..." in line


def test_a_cube_that_says_nothing_of_its_draws_is_known_by_its_content(run, refused, trained, scene):
    for seed in (0, 1):
        made = run("realise", trained, *DRAWN, "--seed", seed, "--out", f"{seed}.zarr")
        assert made.exit_code == 0, made.output
        del zarr.open_group(f"{seed}.zarr", mode="r+")["aod"]
    labels = ("--labels", scene.truth(2020), "--realisations", "shared")
    assert run("fit", "--model", "published", "0.zarr", *labels, "--out", "of-cube.uncover").exit_code == 0
    assert run("map", "of-cube.uncover", "0.zarr", "--out", "map").exit_code == 0
    assert pairing("map") is True
    assert "trained the model" in refused("map", "of-cube.uncover", "1.zarr", "--out", "other")


@pytest.mark.filterwarnings("ignore:scene .* does not say at which optical depth")
def test_worlds_do_not_depend_on_the_name_of_a_file(tmp_path):
    first = write_stack(tmp_path / "first.tif", reflectance(20, 20))
    copy = tmp_path / "copy.tif"
    copy.write_bytes(Path(first).read_bytes())
    options = RealiseOptions(aod=0.12, draws=25, angles=(30.0, 5.0, 90.0))
    one, two = (
        realise_scene(open_scene(path, SceneOptions(level="L2A")), options).draws.values
        for path in (first, copy)
    )
    np.testing.assert_array_equal(one, two)


def test_the_band_files_of_the_training_scene_are_paired_with_it(run, scene, tmp_path):
    """Names of a product's files state the time of its datatake; files that somebody named state nothing."""
    product, labels = scene.product(2020), ("--labels", scene.truth(2020), "--fraction", 0.2)
    made = run("fit", "--model", "published", product, *labels, "--out", "model.uncover")
    assert made.exit_code == 0, made.output
    for folder, named in (("official", True), ("own", False)):
        (tmp_path / folder).mkdir()
        for file in product.glob("GRANULE/*/IMG_DATA/*.jp2"):
            name = file.name if named else f"mine_{file.name.rsplit('_', 1)[-1]}"
            (tmp_path / folder / name).symlink_to(file)
        stated = () if named else ("--scale", 1e-4, "--offset", 0, "--level", "L1C")
        made = run("map", "model.uncover", folder, *stated, "--out", f"map-{folder}")
        assert made.exit_code == 0, made.output
        assert pairing(f"map-{folder}") is named
