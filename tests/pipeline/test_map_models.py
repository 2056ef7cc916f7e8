"""Maps of models that are made of other models, and of sets of classes: from samples to evaluation."""

import json
from pathlib import Path

import numpy as np
import pytest
import rasterio
import xarray

from map_cases import BANDS, CLASSES, MEANS, SPREAD, contents, reflectance, write_scene
from uncover import BayesianClassifier, BayesianMDA, ConformalSets, load_model
from uncover.measurement.pooled import PoolSummariser, make_summariser
from uncover.pipeline.info import _model
from uncover.raster import classify, open_scene

HEIGHT, WIDTH = 60, 280
MODELS = {"mda": BayesianMDA, "recommended": BayesianClassifier}


@pytest.fixture
def samples(tmp_path, rng):
    """A table of pixels in which grassland is of two kinds."""
    lines = [",".join([*BANDS, "class"])]
    for i in range(360):
        k = i % 3
        values = MEANS[k] + rng.normal(size=4) * SPREAD + 0.08 * (k == 1) * (i % 2)
        lines.append(",".join([*(f"{v:.6f}" for v in values), CLASSES[k]]))
    path = tmp_path / "samples.csv"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def scene(tmp_path):
    values = reflectance(HEIGHT, WIDTH)
    values[:, :20, :20] = np.nan
    return write_scene(tmp_path / "scene.tif", values, nodata=np.nan)


@pytest.fixture
def truth(tmp_path, scene):
    """The classes that the scene was made of."""
    rng = np.random.default_rng(0)
    patches = rng.integers(0, 3, (HEIGHT // 16 + 1, WIDTH // 16 + 1))
    codes = np.kron(patches, np.ones((16, 16), int))[:HEIGHT, :WIDTH] + 1
    with rasterio.open(scene) as file:
        profile = file.profile | {"count": 1, "dtype": "uint8", "nodata": 0}
    with rasterio.open(tmp_path / "truth.tif", "w", **profile) as file:
        file.write(codes.astype(np.uint8), 1)
    return tmp_path / "truth.tif"


def read(path):
    with rasterio.open(path) as file:
        return file.read()


def published(options):
    """The model to fit where options name none."""
    return () if "--model" in options else ("--model", "published")


def fit(run, samples, *more):
    result = run(
        "fit",
        *published(more),
        samples,
        "--class-field",
        "class",
        "--level",
        "L2A",
        "--out",
        "m.uncover",
        "--overwrite",
        *more,
    )
    assert result.exit_code == 0, result.output
    return load_model("m.uncover")


def nameless(model):
    """A model that takes arrays without names."""
    del model.feature_names_in_
    return model


@pytest.mark.parametrize("name", MODELS)
def test_layers_say_what_the_model_says(run, samples, scene, name):
    model = nameless(fit(run, samples, "--model", name))
    assert isinstance(model, MODELS[name])
    assert run("map", "m.uncover", scene, "--out", "map").exit_code == 0
    pixels = np.moveaxis(read(scene), 0, 2)
    known = np.isfinite(pixels).all(axis=2)
    P = model.predict_proba(pixels[known].astype(float))
    np.testing.assert_allclose(read("map/probability.tif")[:, known] * 1e-4, P.T, atol=6e-5)
    np.testing.assert_array_equal(read("map/class.tif")[0][known], P.argmax(axis=1) + 1)
    total, measurement, of_model, overlap, _, typicality = read("map/uncertainty.tif")[:, known] * 1e-4
    np.testing.assert_allclose(total, -(P * np.log(P + 1e-300)).sum(1), atol=1e-4)
    np.testing.assert_allclose(measurement + of_model + overlap, total, atol=2.1e-4)
    apart = np.abs(typicality - model.typicality(pixels[known].astype(float)))
    ranks = 1 / 60 if name == "recommended" else 0.0  # single precision may exchange neighbours
    assert apart.max() < 6e-5 + ranks
    assert (apart < 6e-5).mean() > 0.999
    assert not (read("map/class.tif")[0][~known]).any()


@pytest.mark.parametrize("name", MODELS)
def test_a_stopped_run_goes_on_to_the_same_bytes(run, samples, scene, name, monkeypatch):
    fit(run, samples, "--model", name, "--coverage", "0.9")
    assert run("map", "m.uncover", scene, "--out", "map", "--threads", "1").exit_code == 0
    from uncover.raster.mapper import Mapper

    compute = Mapper.compute

    def stop_at_the_second(self, number, reading):
        if number == 1:
            raise KeyboardInterrupt
        return compute(self, number, reading)

    monkeypatch.setattr(Mapper, "compute", stop_at_the_second)
    assert run("map", "m.uncover", scene, "--out", "again", "--threads", "1").exit_code != 0
    monkeypatch.setattr(Mapper, "compute", compute)
    assert run("map", "m.uncover", scene, "--out", "again", "--resume", "--block", "256").exit_code == 0
    assert contents("again") == contents("map")


def test_realisations_are_averaged_as_the_classifier_does(rng):
    """Made in the kernel or before: members are asked in each world."""
    y = np.arange(90) % 2
    X = rng.normal(size=(90, 3, 2)) * 0.1 + 0.5 + 0.5 * y[:, None, None] + 0.2 * rng.normal(size=(90, 1, 2))
    clf = BayesianClassifier().fit(X, y)
    summary = make_summariser(clf).summarise(np.moveaxis(X, 0, 2))
    assert isinstance(make_summariser(clf), PoolSummariser)
    budget = clf.uncertainty(X)
    np.testing.assert_allclose(summary.probability.T, clf.predict_proba(X))
    np.testing.assert_allclose(summary.measurement, budget.measurement)
    np.testing.assert_allclose(summary.typicality, clf.typicality(X))
    each = np.stack([clf.predict(X[:, r]) for r in range(3)])
    assert (summary.world_classes != each).mean() < 0.02  # gates are of all worlds together
    toa = np.moveaxis(X[:, :1], 0, 2)
    coefficients = np.array([[[0.01], [1.1], [0.05]], [[0.0], [1.0], [0.0]]]) * np.ones((1, 1, 2))
    path, slope, albedo = np.moveaxis(coefficients, 1, 0)[..., None]
    values = (toa - path) / (slope + albedo * (toa - path))
    made = make_summariser(clf).summarise(toa, coefficients=coefficients)
    np.testing.assert_allclose(made.probability.T, clf.predict_proba(np.moveaxis(values, 2, 0)))


def test_sets_are_a_layer_and_are_evaluated(run, samples, scene, truth):
    sets = fit(run, samples, "--model", "mda", "--coverage", "0.8")
    assert isinstance(sets, ConformalSets)
    assert run("map", "m.uncover", scene, "--out", "map").exit_code == 0
    planes = read("map/sets.tif")
    known = read("map/class.tif")[0] > 0
    pixels = np.moveaxis(read(scene), 0, 2)[known].astype(float)
    nameless(sets.estimator_)
    inside = sets.predict_set(pixels)
    np.testing.assert_array_equal(planes[0][known], planes[1:, known].sum(axis=0))
    assert (inside == planes[1:, known].T).mean() > 0.999
    assert (planes[:, ~known] == 255).all()
    with rasterio.open("map/sets.tif") as file:
        assert file.descriptions == ("set_size", "in_set_forest", "in_set_grassland", "in_set_water")
        assert file.nodata == 255
    item = json.loads(Path("map/item.json").read_text())
    assert item["properties"]["uncover:coverage"] == 0.8
    assert "0.8" in item["assets"]["sets"]["title"]
    assert run("evaluate", "map", "--reference", truth, "--out", "found").exit_code == 0
    found = json.loads(Path("found/evaluation.json").read_text())["accuracy"]["set coverage"]
    codes = read(truth)[0][known]
    for k, name in enumerate(CLASSES):
        assert found[name]["value"] == pytest.approx(inside[codes == k + 1, k].mean(), abs=1e-3)
    assert "set coverage" in Path("found/accuracy.csv").read_text()
    assert "coverage of sets of classes: 0.8" in run("info", "map").output


def test_sets_in_a_dataset_and_in_arrays(run, samples, scene, truth):
    sets = fit(run, samples, "--coverage", "0.8")
    assert run("map", "m.uncover", scene, "--out", "map", "--format", "zarr").exit_code == 0
    with xarray.open_zarr("map/map.zarr") as data:
        stored = data["set_size"].values
    layers = classify(open_scene(scene), sets)
    np.testing.assert_array_equal(np.nan_to_num(stored, nan=255), layers["sets"][0])
    array = xarray.DataArray(read(scene), dims=("band", "y", "x"), coords={"band": list(BANDS)})
    np.testing.assert_array_equal(
        np.nan_to_num(classify(array, sets)["set_size"], nan=255), layers["sets"][0]
    )
    assert run("evaluate", "map", "--reference", truth, "--out", "found").exit_code == 0
    assert "set coverage" in Path("found/evaluation.json").read_text()


def test_kept_samples_do_not_train(run, samples):
    sets = fit(run, samples, "--coverage", "0.9")
    words = ("fit", "--model", "published", samples, "--coverage", "0.9", "--out", "again.uncover")
    lines = run(*words).stdout.splitlines()
    said = next(line for line in lines if line.startswith("kept from the model"))
    assert f"water {len(sets.scores_[2])}" in said
    kept = sum(len(scores) for scores in sets.scores_)
    assert kept + sets.estimator_.class_count_.sum() == 360
    assert 60 < kept < 160
    assert sets.provenance_["kept for sets"].keys() == set(CLASSES)
    assert "sets of classes" in run("info", "m.uncover").output


def test_prior_and_calibration_are_those_asked_for(run, samples):
    model = fit(run, samples, "--prior", "evidence", "--calibrate")
    assert (model.prior, model.calibration) == ("evidence", "loo")
    assert model.temperature_ != 1.0
    assert (BayesianMDA().prior, fit(run, samples, "--model", "mda").calibration) == ("evidence", "loo")


@pytest.mark.parametrize("cls", [BayesianClassifier, BayesianMDA])
def test_info_describes(cls, rng, tmp_path):
    y = np.array(["a", "b"])[np.arange(60) % 2]
    X = rng.normal(size=(60, 2)) + 3.0 * (np.arange(60) % 2)[:, None]
    file = tmp_path / "m.uncover"
    cls().fit(X, y).save(file)
    found = _model(file)
    assert found.facts["estimator"] == cls.__name__
    assert found.facts["classes"] == {"a": 30, "b": 30}


@pytest.mark.parametrize(
    ("fitting", "words"),
    [
        (("--coverage", "1.2"), "lies between 0 and 1"),
        (("--coverage", "0.9999"), "at most 0.999 is possible"),
        (("--coverage", "0.999"), "needs 999 kept samples of each class"),
        (("--coverage", "0.9", "--count", "3"), "needs 9 kept samples of each class"),
        (("--coverage", "0.1", "--count", "3"), "were kept to calibrate sets"),
        (("--coverage", "0.1", "--count", "3", "--model", "mda"), "were kept to calibrate sets"),
        (("--prior", "jeffreys", "--count", "6"), "class 'forest' has 2 samples"),
        (("--model", "recommended", "--prior", "weak"), "leave out --prior and --calibrate"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(run, samples, fitting, words):
    result = run(
        "fit",
        *published(fitting),
        samples,
        "--class-field",
        "class",
        "--level",
        "L2A",
        "--out",
        "m.uncover",
        *fitting,
    )
    assert result.exit_code != 0
    assert words in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert not Path("m.uncover").exists()


@pytest.mark.parametrize(
    "options", [("--uncertainty", "noise.csv", "--between-pixels", "random"), ("--missing", "marginalise")]
)
def test_the_recommended_model_maps_with_noise_and_without_bands(run, samples, scene, options):
    given = ("--class-field", "class", "--level", "L2A", "--out", "m.uncover", "--model", "recommended")
    assert run("fit", samples, *given).exit_code == 0
    with open("noise.csv", "w") as file:
        file.write("band,u\n" + "\n".join(f"{band},0.01" for band in BANDS))
    result = run("map", "m.uncover", scene, "--out", "map", *options)
    assert result.exit_code == 0, result.output
    assert Path("map/class.tif").exists()
    refused = run("map", "m.uncover", scene, "--out", "other", "--method", "exact")
    assert refused.exit_code == 1 and "leave it out" in refused.stderr.splitlines()[-1]
    assert not Path("other").exists()
