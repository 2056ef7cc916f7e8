"""Stated uncertainty from the command line: in training and in maps, counted once, recorded by name."""

import hashlib
import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import rasterio

from command_lines import replaced
from map_cases import BANDS, MEANS, SPREAD, grid, write_scene
from uncover import BayesianQDA, Measured, load_model
from uncover.bayes.covariances import Covariances
from uncover.pipeline.fitting import warn_of_too_much_noise
from uncover.pipeline.training_sources import Batch
from uncover.raster import Quality

U = 0.01


def truth_and_labels(seed, size=64, gap=0.4):
    """True reflectance (band, row, col) of classes that overlap, and codes 1 to 3."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(1, 4, (size, size)).astype(np.uint8)
    centre = MEANS.mean(0) + gap * (MEANS - MEANS.mean(0))
    values = centre[codes - 1] + rng.normal(size=(size, size, 4)) * SPREAD
    return np.moveaxis(values, 2, 0), codes


def with_errors(truth, seed, shared=0.0, u=U):
    rng = np.random.default_rng((7, seed))
    return (truth + rng.normal(0, u, truth.shape) + shared).astype(np.float32)


@pytest.fixture
def here(tmp_path):
    """A training scene with its labels, another scene, and files that state their uncertainty."""
    truth, codes = truth_and_labels(0)
    write_scene(tmp_path / "train.tif", with_errors(truth, 0))
    write_scene(tmp_path / "labels.tif", codes[None], names=None, nodata=0)
    other, _ = truth_and_labels(1)
    write_scene(tmp_path / "other.tif", with_errors(other, 1))
    (tmp_path / "noise.csv").write_text("band,u\n" + "".join(f"{band},{U}\n" for band in BANDS))
    (tmp_path / "gain.csv").write_text(
        "band,u,between_pixels\n" + "".join(f"{band},0.004,systematic\n" for band in BANDS)
    )
    return tmp_path


RANDOM = ("--uncertainty", "noise.csv", "--between-pixels", "random")
SYSTEMATIC = ("--uncertainty", "gain.csv")


def fit(run, *options, scene="train.tif", out="m.uncover"):
    given = replaced("--labels", "labels.tif", "--model", "published", *options)
    result = run("fit", scene, *given, "--out", out)
    assert result.exit_code == 0, result.output
    return load_model(out)


def mapped(run, *options, scene="other.tif", out="map", model="m.uncover"):
    result = run("map", model, scene, "--out", out, "--dtype", "float32", *options)
    assert result.exit_code == 0, result.output
    return result, json.loads(Path(out, "item.json").read_text())["properties"]


def samples(path):
    with rasterio.open(path) as file:
        return file.read().reshape(4, -1).T.astype(float)


def labels():
    with rasterio.open("labels.tif") as file:
        return file.read(1).ravel()


def probabilities(out="map"):
    with rasterio.open(Path(out, "probability.tif")) as file:
        return file.read().reshape(3, -1).T


def test_random_effects_are_taken_out_of_the_spread_of_the_classes(run, here):
    model = fit(run, *RANDOM)
    expected = BayesianQDA().fit(samples("train.tif"), labels(), X_cov=np.full(4, U**2))
    np.testing.assert_allclose(model.covariances_, expected.covariances_, rtol=1e-9)
    plain = fit(run, out="plain.uncover")
    grown = np.diagonal(plain.covariances_ - model.covariances_, axis1=1, axis2=2)
    np.testing.assert_allclose(grown, U**2, rtol=0.1)


def test_noise_that_the_training_pixels_contradict_is_a_warning(run, here):
    """Within classes the spread is about sqrt(SPREAD² + U²): less than 0.05 everywhere but in B08."""
    rows = "".join(f"{band},{u}\n" for band, u in zip(BANDS, (U, 0.05, 0.05, U), strict=True))
    Path("large.csv").write_text("band,u\n" + rows)
    given = ("--uncertainty", "large.csv", "--between-pixels", "random", "--out", "x.uncover")
    said = run("fit", "--model", "published", "train.tif", "--labels", "labels.tif", *given).stderr
    assert "larger than the spread of pixels that it is part of: B03 0.05, and" in said
    assert "; B04 0.05, and" in said and "B02" not in said and "B08" not in said
    values, codes = samples("train.tif"), labels()
    spreads = [values[codes == code, 1].std(ddof=1) for code in (1, 2, 3)]
    assert f"{min(spreads):.3g} (" in said
    quiet = run(
        "fit", "--model", "published", "train.tif", "--labels", "labels.tif", *RANDOM, "--out", "y.uncover"
    )
    assert "Warning" not in quiet.stderr


def test_true_noise_is_seldom_doubted():
    """Classes without a spread of their own: 0.1 % of the warnings that are possible, over 400 fits."""
    rng = np.random.default_rng(3)
    noise = Covariances(U**2 * np.eye(4), None, None)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(400):
            batch = Batch(rng.normal(0.2, U, (60, 4)), np.repeat(["a", "b"], 30), covariances=noise)
            warn_of_too_much_noise(batch, BANDS)
    assert len(said) <= 4


def test_the_model_records_its_input_quantities(run, here):
    fit(run, *RANDOM)
    source = load_model("m.uncover").provenance_["sources"][0]
    quantity = source["uncertainty"]["quantities"][0]
    assert quantity["name"] == "noise" and quantity["source"] == "noise.csv"
    assert quantity["standard_uncertainty"] == [U] * 4 and quantity["units"] == "1"
    assert (quantity["between_pixels"], quantity["distribution"]) == ("random", "Gaussian (assumed)")
    assert quantity["source_sha256"] == hashlib.sha256(Path("noise.csv").read_bytes()).hexdigest()
    assert source["identity"].startswith("sha256:")


def test_the_map_lists_the_quantities_of_both_scenes(run, here):
    Path("expanded.csv").write_text("band,U,k\n" + "".join(f"{band},0.03,3\n" for band in BANDS))
    fit(run, "--uncertainty", "expanded.csv", "--between-pixels", "random")
    _, properties = mapped(run, *RANDOM)
    (trained,) = properties["uncover:trained_on"]
    (quantity,) = trained["quantities"]
    assert quantity["expanded_uncertainty"] == [0.03] * 4 and quantity["coverage_factor"] == [3] * 4
    assert quantity["standard_uncertainty"] == [U] * 4 and quantity["source"] == "expanded.csv"
    assert trained["identity"] == load_model("m.uncover").provenance_["sources"][0]["identity"]
    (own,) = properties["uncover:measurement_uncertainty"]["quantities"]
    assert own["source"] == "noise.csv" and "coverage_factor" not in own


@pytest.mark.parametrize("kind", ["mda", "recommended"])
def test_other_models_take_it_too(run, here, kind):
    fit(run, *RANDOM, "--model", kind, "--count", 600)
    result, _ = mapped(run, *RANDOM)
    assert "Warning" not in result.stderr


def test_sets_are_calibrated_with_it(run, here):
    fit(run, *RANDOM, "--coverage", 0.9)
    result, _ = mapped(run, *RANDOM)
    assert "Warning" not in result.stderr
    with rasterio.open("map/sets.tif") as file:
        inside = file.read()[1:].reshape(3, -1).T
    held = inside[np.arange(len(inside)), truth_and_labels(1)[1].ravel() - 1].mean()
    assert abs(held - 0.9) < 0.03


def test_one_side_only_is_a_warning_that_says_what_to_do(run, here):
    fit(run, out="plain.uncover")
    result, _ = mapped(run, *RANDOM, model="plain.uncover", out="a")
    assert "counts twice here: fit it again by uncover fit --uncertainty FILE" in result.stderr
    result, _ = mapped(run, *SYSTEMATIC, model="plain.uncover", out="b")
    assert "nothing is stated of the training scene's" in result.stderr
    fit(run, *RANDOM)
    result, _ = mapped(run, out="c")
    assert "give the scene's own --uncertainty" in result.stderr
    result, _ = mapped(run, *RANDOM, out="d")
    assert "Warning" not in result.stderr
    result, _ = mapped(run, *SYSTEMATIC, out="e")
    assert "states systematic ones alone: state its random ones too" in " ".join(result.stderr.split())


def test_systematic_effects_of_both_scenes_count_for_another_scene(run, here):
    fit(run, *SYSTEMATIC)
    mapped(run, *SYSTEMATIC)
    S = np.full(4, 0.004**2)
    clf = BayesianQDA().fit(Measured(samples("train.tif"), None, S), labels())
    P = clf.predict_proba(Measured(samples("other.tif"), None, S), paired=False, method="fast")
    np.testing.assert_allclose(probabilities(), P, atol=1e-6)
    np.testing.assert_allclose(
        clf.predict_proba(Measured(samples("other.tif"), np.zeros(4), 2 * S), paired=False),
        BayesianQDA()
        .fit(samples("train.tif"), labels())
        .predict_proba(Measured(samples("other.tif"), np.zeros(4), 3 * S), paired=False),
        atol=1e-9,
    )


def test_an_effect_common_to_all_scenes_cancels(run, here):
    common = (*SYSTEMATIC, "--between-scenes", "common", "--effect-name", "gain")
    fit(run, *common)
    _, properties = mapped(run, *common, out="both")
    np.testing.assert_allclose(
        probabilities("both"),
        BayesianQDA().fit(samples("train.tif"), labels()).predict_proba(samples("other.tif")),
        atol=1e-6,
    )
    assert properties["uncover:measurement_uncertainty"]["cancelled"] == ["gain"]
    fit(run, out="plain.uncover")
    mapped(run, *common, model="plain.uncover", out="one")
    assert np.abs(probabilities("one") - probabilities("both")).max() > 0.01


@pytest.mark.parametrize("units", ["1", "%"])
def test_of_a_common_effect_of_two_sizes_the_difference_remains(run, here, units):
    """One error z of sizes u and u′ in the two scenes: u z − u′ z has the variance (u − u′)²."""
    sizes = {"small": 0.004, "large": 0.007} if units == "1" else {"small": 4, "large": 7}
    for name, u in sizes.items():
        rows = "".join(f"{band},{u},{units},systematic,common,gain\n" for band in BANDS)
        Path(f"{name}.csv").write_text("band,u,units,between_pixels,between_scenes,name\n" + rows)
    fit(run, "--uncertainty", "small.csv")
    _, properties = mapped(run, "--uncertainty", "large.csv")
    left = np.full(4, 0.003**2) if units == "1" else 0.03**2 * (samples("other.tif") ** 2).mean(0)
    facts = properties["uncover:measurement_uncertainty"]
    np.testing.assert_allclose(facts["systematic"], np.diag(left), rtol=1e-6)
    assert facts["cancelled_but_for_size"] == ["gain"] and "cancelled" not in facts
    clf = BayesianQDA().fit(samples("train.tif"), labels())
    P = clf.predict_proba(Measured(samples("other.tif"), None, left), paired=False, method="fast")
    np.testing.assert_allclose(probabilities(), P, atol=1e-6)


def test_a_common_effect_is_not_known_by_the_name_of_its_file(run, here, refused):
    common = (*SYSTEMATIC, "--between-scenes", "common")
    said = refused("fit", "train.tif", "--labels", "labels.tif", "--out", "m.uncover", *common)
    assert "--effect-name" in said
    fit(run, *common, "--effect-name", "gain")
    assert "--effect-name" in refused("map", "m.uncover", "other.tif", "--out", "map", *common)
    _, properties = mapped(run, *common, "--effect-name", "offset")
    systematic = properties["uncover:measurement_uncertainty"]["systematic"]
    np.testing.assert_allclose(systematic, np.diag(np.full(4, 2 * 0.004**2)), rtol=1e-9)


def test_a_common_effect_of_two_correlations_is_refused(run, here, refused):
    content = {"bands": list(BANDS), "standard_uncertainty": [0.004] * 4, "units": "1", "name": "gain"}
    for correlation in ("random", "systematic"):
        stated = content | {"between_pixels": "systematic", "between_scenes": "common"}
        Path(f"{correlation}.json").write_text(json.dumps(stated | {"correlation": correlation}))
    fit(run, "--uncertainty", "random.json")
    said = refused("map", "m.uncover", "other.tif", "--out", "map", "--uncertainty", "systematic.json")
    assert "two correlations" in said


def test_tables_take_uncertainty_of_their_columns(run, here):
    rows = np.column_stack([samples("train.tif"), labels()])
    np.savetxt("pixels.csv", rows, delimiter=",", header="B02,B03,B04,B08,class", comments="", fmt="%.8g")
    model = fit_table(run, *RANDOM)
    expected = BayesianQDA().fit(samples("train.tif"), labels(), X_cov=np.full(4, U**2))
    np.testing.assert_allclose(model.covariances_, expected.covariances_, rtol=1e-4)


def fit_table(run, *options):
    result = run(
        "fit", "--model", "published", "pixels.csv", "--class-field", "class", *options, "--out", "t.uncover"
    )
    assert result.exit_code == 0, result.output
    return load_model("t.uncover")


def test_the_error_of_the_measurement_layer_is_on_record(run, here):
    fit(run, *RANDOM)
    _, properties = mapped(run, *RANDOM)
    error = properties["uncover:measurement_error"]
    assert error["points"] == 192 and error["pixels"] >= 60
    with rasterio.open("map/uncertainty.tif") as file:
        measurement = file.read(2).mean()
    assert error["mean_nat"] == pytest.approx(measurement, rel=0.3)
    assert 0 < error["rms_difference_nat"] < 0.05 * error["mean_nat"]
    plain = fit(run, out="plain.uncover")
    assert plain.known_noise_ is None
    assert "uncover:measurement_error" not in mapped(run, model="plain.uncover", out="plain")[1]


# Identity


def test_scenes_are_told_apart_by_their_content(run, here):
    """Two files of one name are two scenes, two copies of a file are one."""
    fit(run)
    Path("elsewhere").mkdir()
    shutil.copy("other.tif", "elsewhere/train.tif")
    shutil.copy("train.tif", "copy.tif")
    assert mapped(run, scene="train.tif", out="same")[1]["uncover:paired"] is True
    assert mapped(run, scene="copy.tif", out="copy")[1]["uncover:paired"] is True
    assert mapped(run, scene="elsewhere/train.tif", out="other")[1]["uncover:paired"] is False


def test_the_users_word_for_a_scene_counts(run, here):
    fit(run, "--scene-id", "june")
    assert mapped(run, "--scene-id", "june", scene="other.tif", out="a")[1]["uncover:paired"] is True
    result, properties = mapped(run, scene="train.tif", out="b")
    assert properties["uncover:paired"] is False
    assert "train.tif has the name of the scene that trained the model" in result.stderr
    assert "Warning" not in mapped(run, "--unpaired", scene="train.tif", out="c")[0].stderr
    assert "Warning" not in mapped(run, scene="other.tif", out="d")[0].stderr


def test_scenes_of_one_name_can_train_a_model_together(run, here):
    Path("elsewhere").mkdir()
    shutil.copy("other.tif", "elsewhere/train.tif")
    result = run(
        "fit",
        "--model",
        "published",
        "train.tif",
        "elsewhere/train.tif",
        "--labels",
        "labels.tif",
        "--out",
        "two.uncover",
    )
    assert result.exit_code == 0, result.output
    shutil.copy("train.tif", "copy.tif")
    result = run(
        "fit",
        "--model",
        "published",
        "train.tif",
        "copy.tif",
        "--labels",
        "labels.tif",
        "--out",
        "twice.uncover",
    )
    assert result.exit_code == 1 and "given twice" in result.stderr


# Rasters and flags


def write_raster(name, planes, **profile):
    return write_scene(name, planes, names=profile.pop("names", BANDS), **profile)


def test_pixels_without_uncertainty_have_a_bit_of_their_own(run, here):
    u = np.full((4, 64, 64), U, np.float32)
    u[:, :5] = np.nan
    write_raster("u.tif", u, nodata=np.nan)
    options = ("--uncertainty", "u.tif", "--between-pixels", "random")
    model = fit(run, *options)
    assert model.class_count_.sum() == 59 * 64
    mapped(run, *options)
    with rasterio.open("map/quality.tif") as file:
        quality = file.read(1)
    assert (quality[:5] & int(Quality.NO_UNCERTAINTY) > 0).all()
    assert (quality & int(Quality.PARTIAL) == 0).all() and (quality[5:] < 512).all()


def test_a_raster_that_covers_a_part_of_the_scene_says_how_much(run, here):
    write_raster("u.tif", np.full((4, 32, 64), U, np.float32))
    given = ("--uncertainty", "u.tif", "--between-pixels", "random", "--out", "m.uncover")
    said = run("fit", "--model", "published", "train.tif", "--labels", "labels.tif", *given).stderr
    assert said.count("covers about") == 1 and "u.tif covers about 50% of the scene" in said


def test_integer_rasters_without_a_scale_are_usable(run, here, refused):
    write_raster("u.tif", np.full((4, 64, 64), 100, np.uint16), names=None)
    options = ("--uncertainty", "u.tif", "--between-pixels", "random", "--uncertainty-bands", ",".join(BANDS))
    said = refused("fit", "train.tif", "--labels", "labels.tif", "--out", "m.uncover", *options)
    assert "give --uncertainty-scale 0.0001" in said
    model = fit(run, *options, "--uncertainty-scale", "0.0001")
    np.testing.assert_allclose(model.known_noise_, np.diag(np.full(4, U**2)), rtol=1e-6)


def test_relative_systematic_rasters_are_taken_at_the_scene(run, here):
    write_raster("u.tif", np.full((4, 64, 64), 5, np.float32))
    options = ("--uncertainty", "u.tif", "--between-pixels", "systematic", "--uncertainty-units", "%")
    model = fit(run, *options)
    mean_square = (samples("train.tif") ** 2).mean(0)
    np.testing.assert_allclose(np.diagonal(model.systematic_), 0.05**2 * mean_square, rtol=1e-5)


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("band,u,colour\nB02,1,red\n", (), "column 'colour' is not understood"),
        ("band,U,k\n" + "".join(f"{b},0.1,0.9\n" for b in BANDS), (), "k of band B02 is 0.9"),
        (
            "band,u_pct,reflectance\n" + "".join(f"{b},5,-0.1\n" for b in BANDS),
            (),
            "of a negative reflectance",
        ),
        ("band,u\nB02,0.1\nB03,0.1\n", (), "has no band B04, B08"),
    ],
)
def test_bad_files_are_one_line(refused, here, content, options, words):
    Path("bad.csv").write_text(content)
    given = ("--uncertainty", "bad.csv", "--between-pixels", "random", *options)
    assert words in refused("fit", "train.tif", "--labels", "labels.tif", "--out", "x.uncover", *given)


def test_a_raster_of_another_place_is_one_line(refused, here):
    far = grid(64, 64)
    far = type(far)(far.crs, (10.0, 0.0, 900000.0, 0.0, -10.0, 5000000.0), 64, 64)
    write_raster("u.tif", np.full((4, 64, 64), U, np.float32), where=far)
    given = ("--uncertainty", "u.tif", "--between-pixels", "random")
    said = refused("fit", "train.tif", "--labels", "labels.tif", "--out", "x.uncover", *given)
    assert "u.tif" in said


def test_several_scenes_have_several_systematic_errors(refused, here):
    said = refused(
        "fit",
        "--model",
        "published",
        "train.tif",
        "other.tif",
        "--labels",
        "labels.tif",
        "--out",
        "x.uncover",
        *SYSTEMATIC,
    )
    assert "whose errors are not one" in said


def test_a_map_of_other_bands_than_the_files(run, here, refused):
    fit(run, *RANDOM)
    Path("few.csv").write_text("band,u\nB02,0.01\n")
    given = ("--uncertainty", "few.csv", "--between-pixels", "random")
    assert "has no band B03" in refused("map", "m.uncover", "other.tif", "--out", "map", *given)
