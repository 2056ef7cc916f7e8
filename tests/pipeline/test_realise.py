"""Realisations of a scene at drawn optical depths: stored or on the fly, the same numbers."""

from dataclasses import replace

import numpy as np
import pytest

from fit_cases import contents_of, safe_with_labels
from uncover import load_model
from uncover.atmosphere import Geometry, LookupTable, State
from uncover.pipeline import RealiseOptions, realise_scene
from uncover.raster import Window, open_cube, open_scene

# The metadata of the L1C sample come without a cloud mask, and the scene says so.
pytestmark = pytest.mark.filterwarnings("ignore::uncover.raster.MaskWarning")

OPTIONS = RealiseOptions(aod=0.12, draws=5, method="quantile", seed=3)


@pytest.fixture(scope="module")
def l1c(tmp_path_factory):
    return safe_with_labels(tmp_path_factory.mktemp("l1c"), "L1C_03.01")


def test_stored_and_on_the_fly_give_identical_models(run, tmp_path, l1c):
    tree, maps, _ = l1c
    worlds = ("--aod", "0.12", "--draws", "5", "--seed", "3")
    fit = ("--labels", maps[0], "--scheme", "ukceh-lulucf", "--realisations", "shared", "--seed", "3")
    for command in (
        ("realise", tree.path, *worlds, "--out", "cube.zarr"),
        ("fit", "--model", "published", "cube.zarr", *fit, "--out", "stored.uncover"),
        ("fit", "--model", "published", tree.path, *fit, *worlds[:4], "--out", "flying.uncover"),
    ):
        made = run(*command)
        assert made.exit_code == 0, made.output
    assert contents_of(tmp_path / "stored.uncover") == contents_of(tmp_path / "flying.uncover")
    assert load_model(tmp_path / "flying.uncover").n_features_in_ == 10


def test_worlds_around_the_optical_depth_of_the_product_itself(run, tmp_path):
    tree, maps, _ = safe_with_labels(tmp_path, "L2A_05.09")
    own = open_scene(tree.path).atmosphere.aot
    fit = (
        "fit",
        "--model",
        "published",
        tree.path,
        "--labels",
        maps[0],
        "--scheme",
        "ukceh-lulucf",
        "--draws",
        2,
        "--count",
        500,
    )
    made = {}
    for name, centre in {"own": ["--product-aod"], "said": ["--aod", own], "else": ["--aod", 0.4]}.items():
        result = run(*fit, *centre, "--out", name)
        assert result.exit_code == 0, result.output
        made[name] = contents_of(tmp_path / name)
    assert made["own"] == made["said"] != made["else"]


def test_a_cube_says_where_its_worlds_come_from(run, tmp_path, l1c):
    made = run("realise", l1c[0].path, "--aod", "0.12", "--draws", "5", "--out", "cube.zarr")
    assert made.exit_code == 0, made.output
    assert "5 realisations of 10 bands" in made.output
    cube = open_cube(tmp_path / "cube.zarr")
    scene = open_scene(l1c[0].path)
    expected = realise_scene(scene, RealiseOptions(aod=0.12, draws=5)).draws
    np.testing.assert_allclose(cube.coordinates["aod"], expected.values)
    assert cube.identity == scene.identity
    assert cube.attributes["aerosol_model"] == "6S continental"
    assert cube.sensing_time == scene.sensing_time is not None


def test_the_numbers_are_those_of_the_table(l1c):
    scene = open_scene(l1c[0].path)
    realised = realise_scene(scene, OPTIONS)
    window = Window(64, 64, 1, 1)
    angles = scene.angles(window)
    exact = LookupTable("S2A", scene.bands).correct(
        scene.read(window).reflectance[:, 0, 0],
        State(realised.draws.values, realised.water_vapour, realised.ozone),
        Geometry(angles.sun_zenith.item(), angles.view_zenith.item(), angles.relative_azimuth.item()),
    )
    np.testing.assert_allclose(realised.read(window).values[:, :, 0, 0], exact, atol=2e-6)


def test_numbers_do_not_depend_on_the_window_nor_on_the_crop(l1c):
    whole = realise_scene(open_scene(l1c[0].path), OPTIONS).read()
    realised = realise_scene(open_scene(l1c[0].path), OPTIONS)
    for window in (Window(0, 0, 240, 100), Window(100, 130, 40, 7), Window(200, 200, 40, 40)):
        part = realised.read(window).values
        np.testing.assert_array_equal(part, whole.values[(slice(None), slice(None), *window.slices)])
    cropped = realise_scene(open_scene(l1c[0].path).crop(Window(30, 50, 200, 180)), OPTIONS).read()
    np.testing.assert_allclose(cropped.values, whole.values[:, :, 30:230, 50:230], atol=1e-4)


def test_one_world_is_shared_by_the_scene_and_named_by_it(l1c):
    scene = open_scene(l1c[0].path)
    other = replace(scene, identity="another")
    drawn = RealiseOptions(aod=0.12, method="mc")
    a, b = (realise_scene(s, drawn).draws.values for s in (scene, other))
    assert (a == realise_scene(scene, drawn).draws.values).all()
    assert (a != b).all()


def test_an_l2a_product_comes_back_at_its_own_optical_depth(tmp_path):
    tree, _, _ = safe_with_labels(tmp_path, "L2A_05.09")
    scene = open_scene(tree.path)
    assert scene.level == "L2A"
    own = scene.atmosphere.aot
    realised = realise_scene(scene, RealiseOptions(uncertainty=0.0, draws=2))
    assert set(realised.draws.values) == {own}
    block, worlds = scene.read(), realised.read()
    np.testing.assert_allclose(worlds.values[0], block.reflectance, atol=1e-6)
    moved = realise_scene(scene, RealiseOptions(aod=own + 0.1, uncertainty=0.0, draws=1)).read()
    dark = block.reflectance[0] < 0.1
    assert (moved.values[0, 0] < block.reflectance[0])[dark].all()  # more haze assumed: a darker blue


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ((), "the aerosol optical depth is missing; give --aod"),
        (("--aod", "-0.1"), "aod is -0.1; it must be from 0 to 2"),
        (("--aod", "2.5"), "aod is 2.5; it must be from 0 to 2"),
        (("--aod", "0.1", "--altitude", "5"), "altitude 5 is outside the look-up table"),
        (("--aod", "0.1", "--draws", "0"), "number of draws is 0"),
        (("--aod", "0.1", "--impossible", "refuse", "--draws", "99"), "draws of aod are beyond 0 to 2"),
        (("--aod", "0.1", "--water-vapour", "-1"), "water_vapour is -1"),
    ],
)
def test_bad_input_is_one_clear_line(run, tmp_path, l1c, more, complaint):
    assert complaint in _complaint(run("realise", l1c[0].path, *more, "--out", "cube.zarr"))
    assert not list(tmp_path.glob("cube.zarr*"))


def _complaint(made):
    """The one line that a refused command prints, beside the warning that the sample has no cloud mask."""
    assert made.exit_code == 1, made.output
    lines = [line for line in made.stderr.splitlines() if not line.startswith("Warning: ")]
    assert len(lines) == 1, lines
    return lines[0]


def test_a_raster_without_angles_is_refused(run, l1c):
    stack = ("--bands", "B02,B03", "--scale", "0.0001")
    made = run("realise", l1c[1][0], *stack, "--aod", "0.1", "--out", "cube.zarr")
    assert "does not say whether it is L1C" in _complaint(made)


def test_nodes_of_a_quadrature_are_stored_and_not_fitted(run, l1c):
    tree, maps, _ = l1c
    nodes = ("--aod", "0.12", "--draws", "5", "--draw-method", "quadrature")
    labels = ("--labels", maps[0], "--scheme", "ukceh-lulucf")
    made = run("fit", "--model", "published", tree.path, *labels, *nodes, "--out", "m.uncover")
    assert made.exit_code == 2 and "is not one of 'quantile', 'mc'" in made.stderr
    assert run("realise", tree.path, *nodes, "--out", "cube.zarr").exit_code == 0
    made = run("fit", "--model", "published", "cube.zarr", *labels, "--out", "m.uncover")
    assert "unequal weights" in _complaint(made)


def _write_dem(path, grid, metres):
    import rasterio

    with rasterio.open(
        path, "w", driver="GTiff", width=grid.width, height=grid.height, count=1, dtype="float32",
        crs=grid.crs, transform=rasterio.Affine(*grid.transform), nodata=-9999.0,
    ) as out:  # fmt: skip
        out.write(metres.astype("float32"), 1)


def test_heights_come_from_an_elevation_model(l1c, tmp_path):
    scene = open_scene(l1c[0].path)
    flat = np.full(scene.grid.shape, 800.0)
    _write_dem(tmp_path / "flat.tif", scene.grid, flat)
    by_dem = realise_scene(scene, RealiseOptions(aod=0.12, draws=3, dem=str(tmp_path / "flat.tif")))
    by_number = realise_scene(scene, RealiseOptions(aod=0.12, draws=3, altitude=0.8))
    np.testing.assert_array_equal(by_dem.read().values, by_number.read().values)
    sea = realise_scene(scene, RealiseOptions(aod=0.12, draws=3)).read().values
    assert np.abs(sea - by_dem.read().values).max() > 1e-3


def test_heights_do_not_depend_on_the_window(l1c, tmp_path):
    scene = open_scene(l1c[0].path)
    rows, cols = np.indices(scene.grid.shape)
    _write_dem(tmp_path / "slope.tif", scene.grid, 3.0 * rows + cols)
    realised = realise_scene(scene, RealiseOptions(aod=0.12, draws=2, dem=str(tmp_path / "slope.tif")))
    whole = realised.read().values
    part = Window(40, 30, 70, 60)
    np.testing.assert_array_equal(realised.read(part).values, whole[:, :, *part.slices])


def test_an_elevation_model_without_heights_is_one_clear_line(run, l1c, tmp_path):
    scene, dem = open_scene(l1c[0].path), tmp_path / "empty.tif"
    _write_dem(dem, scene.grid, np.full(scene.grid.shape, -9999.0))
    made = run("realise", l1c[0].path, "--aod", "0.1", "--dem", dem, "--out", "c.zarr")
    assert "has no height at rows" in _complaint(made)
