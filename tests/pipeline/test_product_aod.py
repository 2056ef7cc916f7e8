"""`--product-aod` of an L1C product: worlds around the CAMS forecast that it carries."""

import shutil
from datetime import timedelta

import numpy as np
import pytest
import rasterio

from fit_cases import contents_of
from uncover.atmosphere.grib import constant_aod
from uncover.raster import open_cube, open_scene
from uncover.studies.landscape import LandscapeOptions, write_scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return write_scene(tmp_path_factory.mktemp("scene"), LandscapeOptions(size=100))


@pytest.fixture
def product(scene, tmp_path):
    """A copy of the product of 2020 that a test may change."""
    return shutil.copytree(scene.product(2020), tmp_path / scene.product(2020).name)


def forecast_of(product):
    return next(product.glob("GRANULE/*/AUX_DATA/AUX_CAMSFO"))


def test_realise_fit_and_map_take_it_alike(run, tmp_path, scene):
    own, said = ["--product-aod"], ["--aod", scene.facts["years"]["2020"]["reported_aod"]]
    truth = ["--labels", scene.truth(2020)]
    made = {}
    for name, centre in {"own": own, "said": said}.items():
        worlds = [*centre, "--draws", 3]
        for command in (
            ["realise", scene.product(2020), *worlds, "--out", f"{name}.zarr"],
            ["fit", "--model", "published", scene.product(2020), *truth, *worlds, "--out", f"{name}.uncover"],
            ["map", "own.uncover", scene.product(2020), *worlds, "--out", f"{name}-map"],
        ):
            result = run(*command)
            assert result.exit_code == 0, result.output
        made[name] = open_cube(tmp_path / f"{name}.zarr")
    np.testing.assert_array_equal(made["own"].coordinates["aod"], made["said"].coordinates["aod"])
    np.testing.assert_array_equal(made["own"].read().values, made["said"].read().values)
    assert made["own"].attributes["aod_estimate"] == 0.12
    assert contents_of(tmp_path / "own.uncover") == contents_of(tmp_path / "said.uncover")
    layers = sorted(path.name for path in (tmp_path / "own-map").glob("*.tif"))
    assert layers
    for layer in layers:
        own, said = (rasterio.open(tmp_path / folder / layer) for folder in ("own-map", "said-map"))
        with own, said:
            np.testing.assert_array_equal(own.read(), said.read())


def test_without_an_optical_depth_it_is_offered(refused, scene):
    complaint = refused("realise", scene.product(2020), "--out", "cube.zarr")
    assert "give --aod, or --product-aod to take the CAMS forecast that the product carries" in complaint


def no_file(product):
    forecast_of(product).unlink()


def another_date(product):
    late = open_scene(product).sensing_time + timedelta(days=1)
    forecast_of(product).write_bytes(constant_aod(0.2, late, -3.0, 50.0, 1.0, 54.0))


def another_place(product):
    taken = open_scene(product).sensing_time
    forecast_of(product).write_bytes(constant_aod(0.2, taken, 10.0, 50.0, 12.0, 54.0))


def cut_short(product):
    forecast_of(product).write_bytes(forecast_of(product).read_bytes()[:30])


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (no_file, "give --aod, as the product carries no CAMS forecast (AUX_DATA/AUX_CAMSFO"),
        (another_date, "is for 2020-06-25 11:06 and the scene was taken at 2020-06-24 11:06"),
        (another_place, "covers longitudes from 10 to 12; the scene is at -1.2"),
        (cut_short, "the GRIB file is cut short; fetch the product again"),
    ],
)
def test_a_forecast_that_says_nothing_is_one_clear_line(refused, product, spoil, complaint):
    spoil(product)
    assert complaint in refused("realise", product, "--product-aod", "--out", "cube.zarr")
    assert complaint in refused("fit", product, "--labels", "none.tif", "--product-aod", "--out", "m.uncover")


def test_one_centre_only(refused, scene):
    complaint = refused("realise", scene.product(2020), "--aod", 0.1, "--product-aod", "--out", "c.zarr")
    assert "--aod and --product-aod came" in complaint
