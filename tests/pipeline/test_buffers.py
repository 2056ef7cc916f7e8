"""Distance between training and test: the default fits simulated fields, and blocks are kept apart by it."""

import numpy as np
import pytest
from scipy.ndimage import distance_transform_edt
from scipy.signal import fftconvolve

from map_cases import fitted, reflectance, save_model, write_scene
from uncover.labels import Report, Scheme, autocorrelation_length, within
from uncover.pipeline import EvaluateOptions, HoldOut, evaluate_map, hold_out, map_scene
from uncover.pipeline.ground import Squares
from uncover.pipeline.label_collection import Labels, buffer_between
from uncover.raster import Grid

UTM = Grid("EPSG:32630", (10, 0, 500000, 0, -10, 5700000), 400, 400)


def field(length, seed, shape=(400, 400)):
    """Two classes: the sign of a Gaussian field of correlation exp(−h²/4s²) with s the length, in pixels."""
    rng = np.random.default_rng(seed)
    reach = int(5 * length)
    at = np.arange(-reach, reach + 1)
    kernel = np.exp(-(at[:, None] ** 2 + at**2) / (2 * length**2))
    noise = rng.normal(size=tuple(n + 2 * reach for n in shape))
    return 1 + (fftconvolve(noise, kernel, "valid") > 0).astype(np.uint8)


@pytest.mark.parametrize("length", [2.0, 5.0, 12.0])
def test_the_autocorrelation_length_is_that_of_a_simulated_field(length):
    """Of the sign of a Gaussian field the correlation is 2/π·arcsin ρ: 1/e where ρ = sin(π/2e)."""
    expected = 2 * length * np.sqrt(-np.log(np.sin(np.pi / (2 * np.e)))) * 10
    found = [autocorrelation_length(field(length, seed), (10.0, 10.0)) for seed in range(6)]
    assert np.mean(found) == pytest.approx(expected, rel=0.15)


def test_sparse_labels_have_the_same_length():
    codes = field(8.0, 3)
    whole = autocorrelation_length(codes, (10.0, 10.0))
    codes[np.random.default_rng(0).random(codes.shape) > 0.1] = 0
    assert autocorrelation_length(codes, (10.0, 10.0)) == pytest.approx(whole, rel=0.15)


def test_labels_that_are_all_alike_or_too_few_have_none():
    assert autocorrelation_length(np.ones((50, 50), np.uint8), (10.0, 10.0)) == 0
    assert autocorrelation_length(np.eye(5, dtype=np.uint8), (10.0, 10.0)) == 0


@pytest.mark.parametrize("rows", [1, 7, 400])
def test_nearness_does_not_depend_on_strips(rows, monkeypatch):
    mask = np.random.default_rng(0).random((60, 50)) < 0.01
    monkeypatch.setattr("uncover.labels.training._MOST_PIXELS", rows * 50)
    expected = distance_transform_edt(~mask, sampling=(10, 20)) < 75
    np.testing.assert_array_equal(within(mask, 75.0, (10.0, 20.0)), expected)


def shares_near(train, test, sides=(10.0, 10.0)):
    """Share of test labels that touch a training label, and share within 200 m."""
    far = distance_transform_edt(train.codes == 0, sampling=sides)[test.codes > 0]
    return (far < 15).mean(), (far <= 200).mean()


def test_the_default_buffer_keeps_training_away_from_testing():
    codes = field(8.0, 1)
    labels = Labels(codes, UTM, Scheme.of_names(["a", "b"]), Report.start(codes))
    how = HoldOut(0.2, "block", 1000)
    before = shares_near(*hold_out(labels, HoldOut(0.2, "block", 1000, buffer=0)))
    train, test = hold_out(labels, how)
    buffer = buffer_between(labels, how)
    assert 80 < buffer < 200
    far = distance_transform_edt(train.codes == 0, sampling=(10, 10))[test.codes > 0]
    assert far.min() >= buffer * 0.999
    assert before[0] > 0.02 and shares_near(train, test)[0] == 0
    assert (test.codes == hold_out(labels, HoldOut(0.2, "block", 1000, buffer=0))[1].codes).all()


def test_a_buffer_that_leaves_nothing_is_refused():
    codes = field(8.0, 1, (40, 40))
    place = Grid("EPSG:32630", (10, 0, 500000, 0, -10, 5700000), 40, 40)
    labels = Labels(codes, place, Scheme.of_names(["a", "b"]), Report.start(codes))
    with pytest.raises(ValueError, match="smaller --buffer"):
        hold_out(labels, HoldOut(0.2, "block", 100, buffer=5000))
    with pytest.raises(ValueError, match="0 or more"):
        HoldOut(buffer=-1)


@pytest.mark.parametrize("buffer", [15, 100, 240])
def test_inner_pixels_are_far_from_all_other_squares(buffer):
    place = Grid("EPSG:32630", (10, 0, 500000, 0, -10, 5700000), 130, 110)
    squares = Squares.of(place, 500)
    groups, inner = squares.numbers(place.window), squares.inner(place.window, buffer)
    for number in np.unique(groups):
        far = distance_transform_edt(groups == number, sampling=(10, 10))
        mine = groups == number
        np.testing.assert_array_equal(inner[mine], far[mine] >= buffer * 0.9985)


@pytest.mark.filterwarnings("ignore:.*probability sample:UserWarning")
@pytest.mark.filterwarnings("ignore:errors rest on:UserWarning")
def test_evaluate_leaves_out_samples_next_to_training_labels(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shape = (60, 80)
    scene = write_scene("scene.tif", reflectance(*shape))
    save_model("model.uncover", fitted())
    map_scene("model.uncover", scene, "map")
    train, test = np.zeros((2, 1, *shape), np.uint8)
    train[0, :, :40], test[0, :, 40:] = 1, 2
    write_scene("train.tif", train, names=None, nodata=0)
    write_scene("test.tif", test, names=None, nodata=0)
    options = EvaluateOptions(draws=20, block=100, training="train.tif", buffer=55)
    with pytest.warns(UserWarning, match="300 samples nearer than 55 m to a training label are left out"):
        found = evaluate_map("map", "test.tif", options)
    assert found.facts["reference"]["near training labels"] == 60 * 5
    with pytest.warns(UserWarning, match="to a training label are left out"):
        default = evaluate_map("map", "test.tif", EvaluateOptions(draws=20, training="train.tif"))
    assert 20 < default.facts["reference"]["buffer"] < 160  # patches of 160 m, with noise
    with pytest.raises(ValueError, match="--training"):
        EvaluateOptions(buffer=10)
