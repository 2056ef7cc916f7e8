"""Maps of a place whose class shares are not those of the training samples."""

import csv
import json

import numpy as np
import pytest
import rasterio
from click.testing import CliRunner

from map_cases import BANDS, CLASSES, MEANS, SPREAD, contents, fitted, reflectance, save_model, write_scene
from uncover import BayesianQDA, pipeline
from uncover.cli import main
from uncover.cli.map import map_command
from uncover.estimators.conformal import ConformalSets
from uncover.pipeline.class_shares import known_shares, read_class_shares
from uncover.raster.errors import SceneError

STATED, SHARES = "forest=0.2,grassland=0.7,water=0.1", np.array([0.2, 0.7, 0.1])


@pytest.fixture
def model_file(tmp_path):
    model = fitted()
    spread = 4.0 * SPREAD  # classes overlap
    rng, y = np.random.default_rng(1), np.arange(600) % 3
    model.fit(MEANS[y] + rng.normal(size=(600, 4)) * spread, np.array(CLASSES)[y])
    model.feature_names_in_ = np.array(BANDS, dtype=object)
    return save_model(tmp_path / "model.uncover", model)


@pytest.fixture
def truth():
    """Classes of the pixels: the third is rare here."""
    blocks = np.random.default_rng(3).choice(3, (16, 20), p=SHARES)
    return np.kron(blocks, np.ones((10, 10), int))


@pytest.fixture
def scene(tmp_path, truth):
    noise = np.random.default_rng(4).normal(size=(*truth.shape, 4))
    values = (MEANS[truth] + noise * 4.0 * SPREAD).transpose(2, 0, 1).astype(np.float32)
    return write_scene(tmp_path / "scene.tif", values, nodata=np.nan)


def mapped(model_file, scene, out, **options):
    return pipeline.map_scene(model_file, scene, out, pipeline.MapOptions(date="2020-06-01", **options))


def properties(folder):
    return json.loads((folder / "item.json").read_text("utf-8"))["properties"]


def probabilities(folder):
    with rasterio.open(folder / "probability.tif") as file:
        return file.read()


def test_stated_shares_change_probabilities_by_their_ratio(model_file, scene, tmp_path):
    plain = mapped(model_file, scene, tmp_path / "plain", dtype="float32")
    folder = mapped(model_file, scene, tmp_path / "map", dtype="float32", class_shares=STATED)
    expected = probabilities(plain) * (SHARES / (201 / 603))[:, None, None]
    np.testing.assert_allclose(probabilities(folder), expected / expected.sum(0), atol=1e-6)
    assert properties(folder)["uncover:class_shares"] == {
        "how": "stated",
        "shares": {"forest": 0.2, "grassland": 0.7, "water": 0.1},
    }
    assert "uncover:class_shares" not in properties(plain)
    assert properties(folder)["uncover:run"] != properties(plain)["uncover:run"]


def test_shares_are_estimated_from_the_scene_and_areas_follow(model_file, scene, truth, tmp_path):
    folder = mapped(model_file, scene, tmp_path / "map", class_shares="estimate")
    again = mapped(model_file, scene, tmp_path / "again", class_shares="estimate", block=256, threads=2)
    assert contents(folder) == contents(again)
    found, right = properties(folder)["uncover:class_shares"], np.bincount(truth.ravel()) / truth.size
    shares, errors = (np.array(list(found[key].values())) for key in ("shares", "standard_uncertainty"))
    assert found["how"] == "estimated"
    assert (np.abs(shares - right) < 3 * errors).all()
    assert (errors < 0.05).all()
    with open(folder / "areas.csv", newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["share"]]
    expected = np.array([float(row["expected_ha"]) for row in rows]) / (truth.size / 100)
    assert expected == pytest.approx(shares, abs=0.01)
    assert (
        f"estimated: forest {shares[0]:.3g} ± {errors[0]:.2g}, "
        in pipeline.describe_file(folder).facts["class shares"]
    )


def test_the_terminal_says_which_shares(model_file, scene, tmp_path):
    out = str(tmp_path / "map")
    arguments = [str(model_file), str(scene), "--out", out, "--class-shares", STATED, "--date", "2020"]
    done = CliRunner().invoke(map_command, arguments)
    assert "shares       stated: forest 0.2, grassland 0.7, water 0.1" in done.output


def test_shares_are_not_estimated_where_the_scene_is_another(model_file, tmp_path):
    strange = write_scene(tmp_path / "other.tif", reflectance(64, 64) + np.float32(0.6), nodata=np.nan)
    with pytest.warns(UserWarning, match="class shares are not estimated, as 100 % of the scene is unlike"):
        folder = mapped(model_file, strange, tmp_path / "map", class_shares="estimate")
    found = properties(folder)["uncover:class_shares"]
    assert found == {"how": "training", "shares": dict.fromkeys(CLASSES, 0.33333)}
    plain = mapped(model_file, strange, tmp_path / "plain")
    np.testing.assert_array_equal(probabilities(folder), probabilities(plain))


def test_shares_of_a_scene_that_the_model_does_not_explain_are_doubted(model_file, tmp_path):
    values = reflectance(64, 64)
    values[:, :8] += np.float32(0.6)  # an eighth of the scene
    strange = write_scene(tmp_path / "other.tif", values, nodata=np.nan)
    with pytest.warns(UserWarning, match=r"do not believe the estimated class shares: .* at least 1[12]"):
        folder = mapped(model_file, strange, tmp_path / "map", class_shares="estimate")
    assert properties(folder)["uncover:class_shares"]["how"] == "estimated"


@pytest.mark.parametrize(
    ("shares", "complaint"),
    [
        ("forest=0.5,water=0.5", "give each of forest, grassland, water a share above 0, that add up to 1"),
        ("forest=0.5,grassland=0.5,water=0.5", "with the sum 1.5"),
        ("forest=0.5,grassland=0.5,lake=0", "give each of forest, grassland, water"),
        ("forest=much,grassland=0.5,water=0", "'much' is no number; give forest=0.6,water=0.4, or a CSV"),
        ("forest=nan,grassland=0.5,water=0.5", "with the sum nan, and forest has nan; give each of"),
        ("forest=0,grassland=0.5,water=0.5", "with the sum 1, and forest has 0; give each of"),
        ("forest=0.4,grassland=0.3,Forest=0.3", "names Forest twice"),
        ("shares.csv", "this file does not exist"),
        ("guess", "give"),
        ("0.5", "give estimate, forest=SHARE,... or a CSV"),
    ],
)
def test_other_shares_are_refused(model_file, scene, tmp_path, shares, complaint, capsys):
    with pytest.raises(SystemExit):
        main(["map", str(model_file), str(scene), "--out", str(tmp_path / "map"), "--class-shares", shares])
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "map").exists()


def test_a_table_of_shares(model_file, scene, tmp_path):
    table = tmp_path / "shares.csv"
    table.write_text("class,share\nwater,0.1\nforest,0.2\ngrassland,0.7\n", "utf-8")
    folder = mapped(model_file, scene, tmp_path / "map", class_shares=str(table))
    assert properties(folder)["uncover:class_shares"]["shares"]["grassland"] == 0.7


def test_shares_as_spreadsheets_write_them(tmp_path):
    table = tmp_path / "shares.csv"
    table.write_text("class;share\nWATER;0,1\nforest;0,2\ngrassland;0,7\n", "utf-8")
    found = known_shares(read_class_shares(str(table)), CLASSES)
    np.testing.assert_allclose(found / found.sum(), [0.2, 0.7, 0.1])


def test_sets_hold_for_the_shares_of_training(scene, tmp_path):
    rng, y = np.random.default_rng(1), np.arange(600) % 3
    X = MEANS[y] + rng.normal(size=(600, 4)) * SPREAD
    model = ConformalSets(BayesianQDA(), coverage=0.9).fit(X, np.array(CLASSES)[y])
    model.feature_names_in_ = np.array(BANDS, dtype=object)
    file = save_model(tmp_path / "sets.uncover", model)
    with pytest.raises(SceneError, match="leave out --class-shares"):
        mapped(file, scene, tmp_path / "map", class_shares="estimate")
