"""Samples that belong together: left out together, kept together, and never on both sides."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.ndimage import distance_transform_edt

from fit_cases import SCHEME, names_of, table_of
from label_maps import GRID, write_map
from map_cases import reflectance
from uncover import BayesianClassifier, BayesianQDA, load_model
from uncover.labels import autocorrelation_length
from uncover.pipeline import FitOptions, fit_model
from uncover.pipeline.fitting import HeldOut, make_model
from uncover.pipeline.ground import Squares, together
from uncover.pipeline.training_sources import Batch
from uncover.raster import SampleBlock, Window, write_samples


def blocks(codes, rows, cols):
    """Number of the block of each pixel."""
    row, col = np.indices(codes.shape)
    return (row // rows) * codes.shape[1] + col // cols


def calibrated(values, codes, groups):
    """The model that is wanted, fitted to the arrays; its pixels are in the order of the grid."""
    where = codes > 0
    model = BayesianQDA(calibration="loo")
    return model.fit(
        values[where][:, 0], names_of(codes[where]), groups=None if groups is None else groups[where]
    )


def assert_same_calibration(one, other):
    assert_allclose(one.temperature_, other.temperature_, rtol=1e-9)
    assert_allclose(one.class_scale_, other.class_scale_, rtol=1e-6)


@pytest.mark.parametrize("pixels", [(8, 8), (16, 16)])
def test_pixels_of_a_square_are_left_out_together(problem, tmp_path, pixels):
    codes, values, options = problem
    metres = pixels[0] * GRID.resolution[0]
    options = replace(options, calibration="loo", block=metres, buffer=0)
    found = fit_model([tmp_path / "scene.tif"], options)
    wanted = calibrated(values, codes, blocks(codes, *pixels))
    assert_same_calibration(found.model, wanted)
    assert found.provenance["block"] == metres
    alone = calibrated(values, codes, None)
    assert abs(wanted.temperature_ - alone.temperature_) > 1e-4  # else the above would show nothing


@pytest.mark.parametrize("model", ["qda", "mda", "recommended"])
def test_pixels_next_to_another_square_train_and_do_not_count(problem, tmp_path, model):
    codes, values, options = problem
    few = np.where(np.random.default_rng(0).random(codes.shape) < 0.2, codes, 0)
    write_map(tmp_path / "labels.tif", few, nodata=0)
    calibration = None if model == "recommended" else "loo"
    options = replace(options, model=model, calibration=calibration, block=160, buffer=35)
    found = fit_model([tmp_path / "scene.tif"], options)
    where, groups = few > 0, blocks(codes, 16, 16)
    far = np.zeros(codes.shape)
    for group in np.unique(groups):
        far += np.where(groups == group, distance_transform_edt(groups == group, sampling=10), 0)
    chosen = {"groups": groups[where], "scored": far[where] >= 35 * 0.998}
    wanted = make_model(options).fit(values[where][:, 0], names_of(few[where]), **chosen)
    assert_allclose(found.model.temperature_, wanted.temperature_, rtol=1e-6)
    assert found.provenance["buffer"] == [35]
    assert "pixels nearer than 35 m to another block do not count where they are left out" in found.summary()
    everything = make_model(options).fit(values[where][:, 0], names_of(few[where]), groups=groups[where])
    assert abs(everything.temperature_ - wanted.temperature_) > 1e-4


def test_the_default_buffer_is_how_far_labels_are_alike(problem, tmp_path):
    codes, _, options = problem
    found = fit_model([tmp_path / "scene.tif"], replace(options, calibration="loo", block=400))
    assert found.provenance["buffer"][0] == pytest.approx(autocorrelation_length(codes, (10, 10)), rel=0.01)


@pytest.mark.parametrize(("buffer", "counts"), [(10, True), (10.1, False)])
def test_a_buffer_of_one_pixel_leaves_none_out_and_says_so(problem, tmp_path, buffer, counts):
    """The words are about what is done: the pixels of a square beside another one count, or do not."""
    _, _, options = problem
    found = fit_model([tmp_path / "scene.tif"], replace(options, calibration="loo", block=100, buffer=buffer))
    squares = Squares.of(GRID, 100)
    assert squares.inner(GRID.window, buffer).all() == counts
    lines = found.summary().splitlines()
    said = "a buffer of 10 m is no wider than a pixel: pixels beside another block count as well"
    other = "pixels nearer than 10 m to another block do not count where they are left out"
    assert (said in lines, other in lines) == (counts, not counts)


def test_lengths_are_pixels_where_the_scene_has_no_reference_system(run, tmp_path):
    np.save(tmp_path / "scene.npy", np.moveaxis(reflectance(60, 64), 0, 2))
    np.save(tmp_path / "labels.npy", np.kron([[1, 2], [2, 1]], np.ones((30, 32), np.uint8)))
    fit = ("fit", "scene.npy", "--bands", "B02,B03,B04,B08", "--labels", "labels.npy", "--level", "L2A")
    for edges, words in (
        (("--block", 8), "blocks of 8 pixels"),
        (("--block", 8, "--buffer", 1), "a buffer of 1 pixel is no wider than a pixel"),
        (("--block", 8, "--buffer", 3), "pixels nearer than 3 pixels to another block"),
    ):
        made = run(*fit, *edges, "--model", "published", "--overwrite", "--out", "m.uncover")
        assert made.exit_code == 0, made.output
        assert words in made.stdout and " m " not in made.stdout
    made = run(*fit, "--block", 0.5, "--model", "published", "--overwrite", "--out", "m.uncover")
    assert "a block of 0.5 pixels is smaller than a pixel (1 x 1 units of its grid)" in made.stderr
    made = run(*fit, "--block", 8, "--buffer", 4, "--model", "published", "--overwrite", "--out", "m.uncover")
    assert "--buffer is 4 pixels and --block 8 pixels" in made.stderr


def test_a_buffer_that_cannot_be_kept(problem, tmp_path):
    _, _, options = problem
    with pytest.raises(ValueError, match="below half a block"):
        fit_model([tmp_path / "scene.tif"], replace(options, calibration="loo", block=100, buffer=50))
    with pytest.raises(ValueError, match="--block 0 makes none"):
        fit_model([tmp_path / "scene.tif"], replace(options, block=0, buffer=50))
    with pytest.raises(ValueError, match="below half a block"):
        fit_model([tmp_path / "scene.tif"], replace(options, buffer=5000))


def test_scenes_of_one_grid_have_their_squares_in_common(problem, tmp_path):
    codes, values, options = problem
    write_map(tmp_path / "later.tif", *np.moveaxis(values[..., 1, :], -1, 0))
    options = replace(options, calibration="loo", block=8 * GRID.resolution[0], buffer=0)
    found = fit_model([tmp_path / "scene.tif", tmp_path / "later.tif"], options)
    where, group = codes > 0, blocks(codes, 8, 8)
    X = np.concatenate([values[where][:, r] for r in (0, 1)])
    y, groups = np.tile(names_of(codes[where]), 2), np.tile(group[where], 2)
    assert_same_calibration(found.model, BayesianQDA(calibration="loo").fit(X, y, groups=groups))


@pytest.mark.parametrize("column", ["group", "polygon", "block"])
def test_tables_say_what_belongs_together(run, problem, tmp_path, column):
    codes, values, _ = problem
    groups = blocks(codes, 16, 16)
    table = table_of(values, codes).assign(**{column: [f"no {g}" for g in groups[codes > 0]]})
    table.to_csv(tmp_path / "pixels.csv", index=False)
    made = run(
        "fit",
        "--model",
        "published",
        "pixels.csv",
        "--class-field",
        "land_cover",
        "--calibrate",
        "--out",
        "m.uncover",
    )
    assert made.exit_code == 0, made.output
    model = load_model("m.uncover")
    assert model.n_features_in_ == 4
    assert_same_calibration(model, calibrated(values.astype(float), codes, groups))


def test_the_recommended_model_is_told_of_them(problem, tmp_path):
    codes, values, options = problem
    few = np.where(np.random.default_rng(0).random(codes.shape) < 0.06, codes, 0)
    write_map(tmp_path / "labels.tif", few, nodata=0)
    options = replace(options, model="recommended", block=16 * GRID.resolution[0], buffer=0)
    found = fit_model([tmp_path / "scene.tif"], options).model
    where = few > 0
    wanted = BayesianClassifier().fit(
        values[where][:, 0], names_of(few[where]), groups=blocks(codes, 16, 16)[where]
    )
    assert found.members_ == wanted.members_
    assert_allclose(found.weights_, wanted.weights_, rtol=1e-6)
    assert_allclose(found.temperature_, wanted.temperature_, rtol=1e-6)


def test_sample_cubes_have_a_column_for_them(problem, tmp_path):
    codes, values, _ = problem
    where, groups = codes > 0, blocks(codes, 16, 16)

    def produce(window):
        rows = slice(window.row, window.row + window.height)
        columns = {"label": codes[where][rows], "polygon": groups[where][rows]}
        return SampleBlock(values[where][rows], columns)

    windows = [Window(0, 0, 700, 1), Window(700, 0, int(where.sum()) - 700, 1)]
    attributes = {"scheme": SCHEME.as_dict()}
    write_samples(tmp_path / "samples.zarr", ("a", "b", "c", "d"), windows, produce, attributes=attributes)
    found = fit_model([tmp_path / "samples.zarr"], FitOptions(model="published", calibration="loo"))
    wanted = BayesianQDA(calibration="loo").fit(values[where], names_of(codes[where]), groups=groups[where])
    assert_same_calibration(found.model, wanted)


def test_a_group_that_is_kept_is_kept_whole():
    rng = np.random.default_rng(0)
    keeper = HeldOut(0.9, {"a": 0.3, "b": 0.1}, 0, rng)
    groups = rng.integers(0, 60, (4, 500))
    batches = [Batch(rng.normal(size=(500, 2)), rng.choice(["a", "b"], 500), each) for each in groups]
    rest = [keeper.rest(batch) for batch in batches]
    used, kept = (np.unique(np.concatenate([b.groups for b in part])) for part in (rest, keeper.kept))
    assert not set(used) & set(kept)
    assert len(used) + len(kept) == 60 and 8 <= len(kept) <= 30
    share = {name: sum((b.classes == name).sum() for b in keeper.kept) for name in ("a", "b")}
    assert share["b"] < 0.55 * share["a"]  # of a class that has more than enough, some are left out


def test_samples_without_a_group_stand_alone():
    assert together([None, None], [2, 3]) is None
    found = together([None, np.array([5, 5]), None], [2, 2, 1])
    assert_array_equal(np.unique(found, return_counts=True)[1], [1, 1, 1, 2])


def test_squares_do_not_depend_on_the_window():
    squares = Squares.of(GRID, 7 * GRID.resolution[0])
    whole, part = squares.numbers(GRID.window), squares.numbers(Window(5, 9, 20, 30))
    assert_array_equal(part, whole[5:25, 9:39])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--block", -1), "--block is -1; give metres, or 0"),
        (("--block", 1, "--calibrate"), "smaller than a pixel"),
        (("--block", 1e6, "--calibrate"), "one group only"),
        (
            ("--block", 1e6, "--coverage", 0.9),
            "a coverage of 0.9 needs 9 kept groups of each class",
        ),
    ],
)
def test_blocks_that_make_no_sense_are_refused(refused, problem, more, words):
    fit = (
        "fit",
        "--model",
        "published",
        "scene.tif",
        "--labels",
        "labels.tif",
        "--scheme",
        "lulucf",
        "--bands",
        "a,b,c,d",
    )
    assert words in refused(*fit, "--out", "m.uncover", *more)


def test_blocks_of_a_table_are_refused(refused, problem, tmp_path):
    codes, values, _ = problem
    table_of(values, codes).to_csv(tmp_path / "pixels.csv", index=False)
    message = refused(
        "fit",
        "--model",
        "published",
        "pixels.csv",
        "--class-field",
        "land_cover",
        "--calibrate",
        "--block",
        90,
        "--out",
        "m",
    )
    assert "--block came, and no scene or cube" in message
