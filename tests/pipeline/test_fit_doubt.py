"""Labels that may be wrong, from the command line: the model of the arrays, better than believing them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from command_lines import replaced
from fit_cases import names_of, table_of
from label_maps import GRID, write_map
from uncover import BayesianLDA, BayesianQDA, load_model
from uncover.pipeline import FitOptions, LabelDoubt, fit_model
from uncover.raster import CubeBlock, CubeLayout, write_cube


@pytest.fixture
def sure(problem, tmp_path):
    """Percent of certainty beside the labels of the problem, some unknown (0, the file's nodata)."""
    codes = problem[0]
    percent = np.random.default_rng(5).integers(60, 101, GRID.shape).astype(np.uint8)
    percent[:, 40:44] = 0
    write_map(tmp_path / "sure.tif", codes, percent, nodata=0)
    return percent


def by_hand(codes, share):
    """Soft labels, one by one: the label has its probability, the others share the rest."""
    names = sorted(set(names_of(codes)))
    soft = np.zeros((len(codes), len(names)))
    for i, (name, q) in enumerate(zip(names_of(codes), share, strict=True)):
        for k, other in enumerate(names):
            soft[i, k] = q if other == name else (1 - q) / (len(names) - 1)
    return names, soft


def assert_same(one, other):
    assert list(one.classes_) == list(other.classes_)
    for name in ("mean", "strength", "scale", "dof"):
        wanted = np.asarray(getattr(other.posterior_, name))
        assert_allclose(getattr(one.posterior_, name), wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())


@pytest.mark.parametrize("meaning", ["certainty", "posterior"])
@pytest.mark.parametrize("model", ["qda", "lda"])
def test_the_command_gives_the_model_of_soft_labels(run, problem, sure, tmp_path, meaning, model):
    codes, values, options = problem
    result = run(
        "fit",
        tmp_path / "scene.tif", "--labels", options.labels, "--scheme", "lulucf", "--model", model,
        "--label-probability", "sure.tif:2", "--label-meaning", meaning, "--out", "m.uncover",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    where = (codes > 0) & (sure > 0)
    names, soft = by_hand(codes[where], sure[where] / 100)
    kind = {"qda": BayesianQDA, "lda": BayesianLDA}[model]
    expected = kind().fit(values[where][:, 0], label_proba=soft, label_meaning=meaning, classes=names)
    found = load_model(tmp_path / "m.uncover")
    assert_same(found, expected)
    assert found.provenance_["label probability"] == {"file": "sure.tif:2", "meaning": meaning}


@pytest.mark.parametrize("kind", ["pooled", "repeats", "draws", "shared"])
def test_cubes_take_them_with_every_kind_of_realisations(problem, sure, tmp_path, kind):
    codes, values, options = problem

    def produce(window):
        part = np.moveaxis(values[window.slices], (2, 3), (0, 1))
        return CubeBlock(window, part, np.zeros(window.shape, np.uint16))

    write_cube(tmp_path / "cube.zarr", CubeLayout(GRID, ("a", "b", "c", "d"), 3, "scene-1"), produce)
    doubt = LabelDoubt(tmp_path / "sure.tif:2")
    fitted = fit_model(
        [tmp_path / "cube.zarr"],
        FitOptions(model="published", labels=options.labels, scheme="lulucf", realisations=kind, doubt=doubt),
    )
    where = (codes > 0) & (sure > 0)
    names, soft = by_hand(codes[where], sure[where] / 100)
    expected = BayesianQDA(realisations=kind).fit(values[where], label_proba=soft, classes=names)
    assert_same(fitted.model, expected)


@pytest.mark.parametrize("noise", ["0.2", "learn"])
def test_a_share_of_wrong_labels_is_a_confusion_of_labels(run, problem, tmp_path, noise):
    codes, values, options = problem
    scene = tmp_path / "scene.tif"
    given = ("--labels", options.labels, "--scheme", "lulucf", "--label-noise", noise)
    result = run("fit", "--model", "published", scene, *given, "--out", "m.uncover")
    assert result.exit_code == 0, result.output
    X, y = values[codes > 0][:, 0], names_of(codes[codes > 0])
    K = len(set(y))
    matrix = "learn" if noise == "learn" else np.where(np.eye(K) > 0, 0.8, 0.2 / (K - 1))
    found = load_model(tmp_path / "m.uncover")
    assert_same(found, BayesianQDA(label_noise=matrix).fit(X, y))
    assert found.provenance_["label noise"] == (noise if noise == "learn" else float(noise))


def test_wrong_labels_that_are_known_to_be_doubtful_do_less_harm(run, tmp_path):
    """Two of five labels are flipped where the map is 60 % sure, none where it is 100 % sure."""
    rng = np.random.default_rng(0)
    truth = np.where(rng.random(GRID.shape) < 0.5, 1, 5).astype(np.uint8)
    values = np.where(truth == 1, 0.1, 0.2)[..., None] + rng.normal(size=(*GRID.shape, 2)) * 0.03
    doubtful = rng.random(GRID.shape) < 0.5
    labels = np.where(doubtful & (rng.random(GRID.shape) < 0.4), 6 - truth, truth).astype(np.uint8)
    write_map(tmp_path / "map.tif", labels, np.where(doubtful, 60, 100).astype(np.uint8))
    _write_stack(tmp_path / "scene.tif", values)
    common = ("fit", "--model", "published", "scene.tif", "--labels", "map.tif", "--scheme", "lulucf")
    assert run(*common, "--out", "plain.uncover").exit_code == 0
    assert run(*common, "--label-probability", "map.tif:2", "--out", "soft.uncover").exit_code == 0
    assert run(*common, "--label-noise", "learn", "--out", "learned.uncover").exit_code == 0
    off = {}
    for name in ("plain", "soft", "learned"):
        means = load_model(f"{name}.uncover").means_
        off[name] = np.abs(means - [[0.1, 0.1], [0.2, 0.2]]).max()
    assert off["plain"] > 0.015  # a fifth of each class is of the other
    assert off["soft"] < 0.003
    assert off["learned"] < 0.003


def _write_stack(path, values):
    import rasterio
    from rasterio.transform import Affine

    with rasterio.open(
        path, "w", driver="GTiff", width=GRID.width, height=GRID.height, count=2, dtype="float32",
        crs=GRID.crs, transform=Affine(*GRID.transform),
    ) as file:  # fmt: skip
        file.write(np.moveaxis(values, 2, 0).astype(np.float32))
        file.descriptions = ("a", "b")


# ---- bad input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--label-noise", "2"), "--label-noise is 2"),
        (("--label-noise", "lots"), "--label-noise is lots"),
        (("--label-noise", "0.1", "--label-probability", "sure.tif:2"), "give one of the two"),
        (("--label-noise", "0.1", "--model", "mda"), "--model published, lda, nb or recommended"),
        (("--label-probability", "sure.tif:2", "--calibrate"), "--calibrate compares"),
        (("--label-probability", "sure.tif:2", "--coverage", "0.9"), "--coverage compares"),
        (("--label-noise", "learn", "--calibrate"), "--calibrate compares"),
        (("--label-probability", "sure.tif:3"), "sure.tif"),
        (("--label-probability", "nowhere.tif"), "nowhere.tif does not exist"),
        (("--label-probability", "sure.tif:2", "--probability-scale", "50"), "--probability-scale"),
        (("--probability-scale", "50"), "without --label-probability"),
        (("--label-meaning", "posterior"), "without --label-probability"),
    ],
)
def test_what_does_not_go_together_is_refused(refused, problem, sure, tmp_path, more, said):
    given = ("--labels", problem[2].labels, "--scheme", "lulucf", "--out", "m.uncover")
    assert said in refused("fit", tmp_path / "scene.tif", *replaced("--model", "published", *given, *more))


def test_a_layer_of_another_place_is_refused(refused, problem, tmp_path):
    import rasterio
    from rasterio.transform import from_origin

    with rasterio.open(
        tmp_path / "far.tif", "w", driver="GTiff", width=9, height=9, count=1, dtype="uint8", crs=GRID.crs,
        transform=from_origin(700_000, 5_000_000, 10, 10),
    ) as file:  # fmt: skip
        file.write(np.full((1, 9, 9), 90, np.uint8))
    given = ("--labels", problem[2].labels, "--scheme", "lulucf", "--out", "m.uncover")
    line = refused(
        "fit", "--model", "published", tmp_path / "scene.tif", *given, "--label-probability", "far.tif"
    )
    assert "does not overlap" in line


def test_tables_have_no_place_on_a_raster(refused, problem, sure, tmp_path):
    codes, values, _ = problem
    table_of(values, codes).to_csv(tmp_path / "pixels.csv", index=False)
    line = refused(
        "fit", "--model", "published",
        "pixels.csv", "--class-field", "land_cover", "--label-probability", "sure.tif:2",
        "--out", "m.uncover",
    )  # fmt: skip
    assert "--label-probability is a raster" in line
