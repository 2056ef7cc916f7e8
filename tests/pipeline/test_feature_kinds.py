"""Top-of-atmosphere and surface reflectance are told apart: in models, scenes, cubes and tables."""

import json
import zipfile

import numpy as np
import pandas
import pytest
import rasterio

from map_cases import BANDS, CLASSES, MEANS, SPREAD, fitted, reflectance, write_scene
from uncover import load_model
from uncover.labels import LandClass, Scheme
from uncover.measurement.features import EMBEDDED, SEN2COR, Features
from uncover.models import files as model_files
from uncover.raster import Grid, classify, open_scene, scene_from_array


def stack(path, level=None, seed=0):
    """A stack that states its level as GDAL does, or nothing."""
    write_scene(path, reflectance(60, 70, seed))
    with rasterio.open(path, "r+") as file:
        file.update_tags(PROCESSING_LEVEL={"L1C": "Level-1C", "L2A": "Level-2A"}.get(level, ""))
    return path


def table(path, n=300):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, n)
    frame = pandas.DataFrame(MEANS[y] + rng.normal(size=(n, 4)) * SPREAD, columns=list(BANDS))
    frame.assign(**{"class": np.array(CLASSES)[y]}).to_csv(path, index=False)
    return path


@pytest.fixture
def fit(run, tmp_path):
    """Fit a model to a table with the level that is said of it."""

    def command(*more):
        made = run("fit", "--model", "published", table(tmp_path / "pixels.csv"), *more, "--out", "m.uncover")
        assert made.exit_code == 0, made.output
        return made

    return command


@pytest.mark.parametrize("trained", ["L1C", "L2A"])
@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.parametrize("here", ["L1C", "L2A"])
def test_a_model_takes_what_it_was_trained_on_and_nothing_else(run, fit, tmp_path, trained, stated, here):
    fit("--level", trained)
    scene = stack(tmp_path / "scene.tif", here if stated else None)
    made = run("map", "m.uncover", scene, *(() if stated else ("--level", here)), "--out", "map")
    if trained == here:
        assert (made.exit_code, made.stderr.count("Warning")) == (0, 0), made.output
        return
    assert made.exit_code == 1
    (line,) = made.stderr.splitlines()
    remedy = "Give --aod AOD" if here == "L1C" else "Map a Level-1C scene without --aod"
    assert "the model was trained on" in line and remedy in line


def test_a_silent_scene_is_asked_for_its_level(fit, refused, tmp_path):
    fit("--level", "L2A")
    line = refused("map", "m.uncover", stack(tmp_path / "scene.tif"), "--out", "map")
    assert "does not say whether it is top-of-atmosphere or surface reflectance" in line
    assert "--level L1C (top of atmosphere) or L2A (surface)" in line


@pytest.mark.parametrize("level", [None, "L1C"])
def test_a_silent_model_is_used_with_a_warning(run, fit, tmp_path, level):
    assert "not stated whether at the top of the atmosphere or at the surface (--level)" in fit().stdout
    made = run("map", "m.uncover", stack(tmp_path / "scene.tif", level), "--out", "map")
    assert made.exit_code == 0
    (line,) = (each for each in made.stderr.splitlines() if each.startswith("Warning: "))
    assert "the model does not say whether" in line and "--level" in line


def test_the_scene_that_trained_a_silent_model_needs_no_word(run, tmp_path):
    scene = stack(tmp_path / "scene.tif")
    labels = np.argmin(((reflectance(60, 70)[:, None] - MEANS.T[:, :, None, None]) ** 2).sum(0), 0) + 1
    write_scene(tmp_path / "labels.tif", labels[None].astype(np.uint8), names=None)
    assert (
        run("fit", "--model", "published", scene, "--labels", "labels.tif", "--out", "m.uncover").exit_code
        == 0
    )
    made = run("map", "m.uncover", scene, "--out", "map")
    assert (made.exit_code, made.stderr.count("Warning")) == (0, 0), made.output


def test_a_product_knows_its_level_better(fit, refused, tmp_path):
    fit("--level", "L2A")
    scene = stack(tmp_path / "scene.tif", "L2A")
    line = refused("map", "m.uncover", scene, "--level", "L1C", "--out", "map")
    assert "scene scene has the level L2A by its metadata and --level L1C came; leave it out" in line


def test_levels_are_not_mixed_in_one_model(run, refused, tmp_path):
    air, ground, silent = (stack(tmp_path / f"{x}.tif", x) for x in ("L1C", "L2A", "none"))
    write_scene(
        tmp_path / "labels.tif", np.kron([[1, 2]], np.ones((60, 35)))[None].astype(np.uint8), names=None
    )
    fit = ("--labels", "labels.tif", "--out", "m.uncover")
    line = refused("fit", air, ground, *fit)
    assert "L1C has top-of-atmosphere reflectance and L2A surface reflectance" in line and "--aod" in line
    made = run("fit", "--model", "published", ground, silent, *fit)
    assert made.exit_code == 0
    assert "none: not stated" in made.stderr and "taken to be surface reflectance as in L2A" in made.stderr
    assert "features: surface reflectance (L2A)" in made.stdout
    assert "surface reflectance (L2A)" in run("info", "m.uncover").stdout


def test_cubes_say_what_they_are():
    kind = Features.of_level(("B02", "B03"), "L1C", [1e-4, 1e-4], [-0.1, -0.1]).corrected(EMBEDDED)
    assert Features.from_dict(json.loads(json.dumps(kind.as_dict()))) == kind
    assert kind.chosen(("B03",)).offsets == (-0.1,)


def test_a_cube_of_another_quantity_is_named_by_its_path(run, fit, refused, tmp_path):
    fit("--level", "L1C")
    scene = stack(tmp_path / "s.tif", "L1C")
    angles = ("--angles", 40, 5, 60)
    made = run("realise", scene, "--aod", 0.1, "--draws", 3, *angles, "--out", "cube.zarr")
    assert made.exit_code == 0, made.output
    line = refused("map", "m.uncover", "cube.zarr", "--out", "map")
    assert "cube cube.zarr is surface reflectance" in line and "--aod" not in line
    assert "Fit a model to corrected scenes or cubes" in line and "map the L1C scene" in line
    assert run("map", "m.uncover", scene, "--out", "map").exit_code == 0  # the remedy settles it


def test_digital_numbers_are_not_reflectance(refused, tmp_path):
    path = table(tmp_path / "pixels.csv")
    frame = pandas.read_csv(path)
    frame[list(BANDS)] *= 10_000
    frame.to_csv(path, index=False)
    assert "divide digital numbers by 10000" in refused("fit", path, "--level", "L2A", "--out", "m.uncover")


def kinds(correction):
    return Features.of_level(BANDS, "L2A", correction=correction)


@pytest.mark.parametrize("pair", [(EMBEDDED, SEN2COR), (SEN2COR, SEN2COR), (None, SEN2COR)])
def test_two_corrections_to_the_surface_go_together_with_a_warning(recwarn, pair):
    from dataclasses import replace

    model = fitted()
    model.features_ = kinds(pair[0]).as_dict()
    grid = Grid("EPSG:32633", (10, 0, 300000, 0, -10, 5000000), width=70, height=60)
    scene = replace(scene_from_array(reflectance(60, 70), grid, BANDS), level="L2A", baseline="05.09")
    assert scene.features.correction == SEN2COR
    classify(scene, model)
    said = [str(each.message) for each in recwarn]
    assert len(said) == (pair[0] == EMBEDDED)
    assert all("was corrected to the surface by Sen2Cor" in each for each in said)


def test_a_model_file_without_a_record_of_its_features(run, refused, fit, tmp_path):
    fit("--level", "L2A")
    document, arrays = model_files.read_model_file(tmp_path / "m.uncover")
    del document["features"]
    model_files.write_model_file(tmp_path / "m.uncover", document | {"format_version": 1}, arrays)
    with zipfile.ZipFile(tmp_path / "m.uncover") as file:
        assert b'"format_version": 1' in file.read("model.json")
    line = refused("map", "m.uncover", stack(tmp_path / "scene.tif", "L2A"), "--out", "map")
    assert "written in format version 1" in line and "fit the model again" in line


def test_bands_of_a_scene_have_their_own_scale_and_offset(tmp_path):
    scene = write_scene(tmp_path / "s.tif", np.full((4, 5, 5), 1500, np.uint16), scale=1e-4, offset=-0.1)
    found = open_scene(scene).features
    assert (found.scales, found.offsets) == ((1e-4,) * 4, (-0.1,) * 4)
    assert (found.bands, found.level, found.quantity) == (BANDS, "L2A", "surface reflectance")


@pytest.mark.parametrize("offset", [-0.1, 0.0, None])
def test_another_offset_than_that_of_the_training_is_refused(run, tmp_path, offset):
    numbers = np.rint(reflectance(60, 70) * 1e4 + 1000).astype(np.uint16)
    scene = write_scene(tmp_path / "scene.tif", numbers)
    labels = np.kron([[1, 2]], np.ones((60, 35), np.uint8))[None].astype(np.uint8)
    write_scene(tmp_path / "labels.tif", labels, names=None)
    stored = ("--scale", 1e-4, "--offset")
    made = run(
        "fit", "--model", "published", scene, *stored, -0.1, "--labels", "labels.tif", "--out", "m.uncover"
    )
    assert made.exit_code == 0, made.output
    made = run("map", "m.uncover", scene, *(() if offset is None else (*stored, offset)), "--out", "map")
    assert (made.exit_code == 1) == (offset == 0), made.output
    if offset == 0:
        assert "is read with scale 0.0001 and offset 0, the training data with 0.0001 and -0.1" in made.stderr
    taken = "those of the training data are taken, 0.0001 and -0.1"
    assert (taken in made.stderr) == (offset is None)


def test_bands_of_probabilities_are_in_the_order_of_codes(run, tmp_path):
    import xarray

    codes = {"forest": 7, "grassland": 2, "water": 5}
    scheme = Scheme("codes", tuple(LandClass(code, name, "#aabbcc") for name, code in codes.items()))
    model, provenance = fitted(), {"sources": [], "scheme": scheme.as_dict()}
    model.save(tmp_path / "m.uncover", provenance=provenance, features=kinds(None).as_dict())
    scene = write_scene(tmp_path / "scene.tif", reflectance(60, 70))
    del model.feature_names_in_
    expected = model.predict_proba(np.moveaxis(reflectance(60, 70), 0, 2).reshape(-1, 4).astype(float))
    order = [list(model.classes_).index(name) for name in ("grassland", "water", "forest")]
    expected = expected[:, order].T.reshape(3, 60, 70)
    for form in ("cog", "zarr", "netcdf"):
        assert run("map", "m.uncover", scene, "--format", form, "--out", form).exit_code == 0
    with rasterio.open(tmp_path / "cog" / "probability.tif") as file:
        assert file.descriptions == ("grassland", "water", "forest")  # codes 2, 5, 7
        np.testing.assert_allclose(file.read() * 1e-4, expected, atol=6e-5)
        codes = np.array([2, 5, 7])[file.read().argmax(0)]
    with rasterio.open(tmp_path / "cog" / "class.tif") as file:
        assert (file.read(1) == codes).mean() > 0.999  # but for ties in steps of 1e-4
    for name in ("zarr/map.zarr", "netcdf/map.nc"):
        with xarray.open_dataset(tmp_path / name) as data:
            assert list(data["class_name"].values) == ["grassland", "water", "forest"]
            np.testing.assert_allclose(data["probability"].values, expected, atol=6e-5)
    array = xarray.DataArray(reflectance(60, 70), dims=("band", "y", "x"), coords={"band": list(BANDS)})
    lazy = classify(array, load_model(tmp_path / "m.uncover"))
    assert list(lazy["class_name"].values) == ["grassland", "water", "forest"]
    np.testing.assert_allclose(lazy["probability"].values, expected, atol=1e-5)
