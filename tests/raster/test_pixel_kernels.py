import numpy as np
import pytest

from uncover.measurement.summary import PixelSummary
from uncover.raster import pixel_kernels
from uncover.raster.layers import Calibration
from uncover.raster.product import Layer, Thresholds
from uncover.raster.quality import Quality

PLACES = [np.arange(300), np.array([5]), np.random.default_rng(0).permutation(300)[:177]]


@pytest.fixture(params=["machine code", "NumPy"])
def how(request, monkeypatch):
    if request.param == "NumPy":
        monkeypatch.setattr(pixel_kernels, "machine_code", lambda: None)


@pytest.mark.parametrize("where", PLACES)
def test_pixels_come_back_to_their_places(how, where):
    planes = np.random.default_rng(1).normal(size=(2, 3, 20, 15)).astype(np.float32)
    taken = pixel_kernels.take(planes, where)
    np.testing.assert_array_equal(taken, planes.reshape(2, 3, 300)[..., where])


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "layer", [Layer("a", ("x", "y"), "uint16", 65535, 1e-4), Layer("b", ("x", "y"), "float32", np.nan)]
)
def test_numbers_are_put_as_the_layer_stores_them(how, where, dtype, layer):
    rng = np.random.default_rng(2)
    values = rng.random((2, len(where))).astype(dtype)
    values[rng.random(values.shape) < 0.1] = np.nan
    values[:, 0] = 0.00005, 0.00015  # half a step, which goes to the even one
    out = layer.empty(300)
    pixel_kernels.put(layer, values, where, out)
    np.testing.assert_array_equal(out[:, where], layer.encode(values))
    elsewhere = np.setdiff1d(np.arange(300), where)
    np.testing.assert_array_equal(out[:, elsewhere], layer.empty(len(elsewhere)))


@pytest.mark.parametrize("where", PLACES)
def test_areas_add_up_class_by_class_and_world_by_world(how, where):
    rng = np.random.default_rng(3)
    best, worlds = (rng.integers(0, 4, shape).astype(np.uint8) for shape in (len(where), (3, len(where))))
    weight, areas = rng.random(300), np.ones((5, 4))
    pixel_kernels.add_areas(areas, best, worlds, weight, where)
    for k in range(4):
        assert areas[0, k] == 1 + (best == k).sum()
        for row, classes in zip(areas[1:], [best, *worlds], strict=True):
            assert row[k] == pytest.approx(1 + weight[where][classes == k].sum())


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_numbers_are_counted(how, dtype):
    planes = np.random.default_rng(4).integers(0, 256, (2, 20, 15)).astype(dtype)
    counts = np.ones((2, np.iinfo(dtype).max + 1), np.int64)
    pixel_kernels.count(planes, counts)
    for band, plane in zip(counts, planes, strict=True):
        assert band.sum() == 300 + len(band)
        assert all(band[n] == 1 + (plane == n).sum() for n in range(256))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32"])
@pytest.mark.parametrize(("nodata", "saturated"), [(None, None), (0, None), (0, 200), (np.nan, 7)])
def test_calibrating_in_machine_code_gives_the_same_bits(dtype, nodata, saturated):
    calibration = Calibration(1.1e-4, -0.1, nodata, saturated)
    numbers = np.random.default_rng(5).integers(0, 250, (40, 30)).astype(dtype)
    out, flags = np.full((40, 30), 9, np.float32), np.full((40, 30), 4, np.uint16)
    assert pixel_kernels.calibrate(numbers, calibration.terms, 32, out, flags)
    values, full = calibration.apply(numbers)
    np.testing.assert_array_equal(out, values.astype(np.float32))
    np.testing.assert_array_equal(flags, 4 + 32 * full)


def test_pixels_that_lack_bands_get_their_bits(how):
    rng = np.random.default_rng(6)
    planes = rng.normal(size=(3, 20, 15)).astype(np.float32)
    planes[rng.random(planes.shape) < 0.5] = np.nan
    planes[0, 0, 0] = np.inf  # not a value either
    flags = np.full((20, 15), 4, np.uint16)
    pixel_kernels.complete(planes, 1, 2, flags)
    there = np.isfinite(planes).sum(axis=0)
    np.testing.assert_array_equal(flags, np.select([there == 0, there < 3], [5, 6], 4))


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_classes_and_quality_bits_go_to_their_places(how, where, dtype):
    rng, n = np.random.default_rng(7), len(where)
    parts, limits = rng.random((6, n)).astype(dtype), Thresholds(0.3, 0.4, 0.5)
    parts[5, 0] = np.nan  # not known to be typical
    best = rng.integers(0, 3, n).astype(np.uint8)
    summary = PixelSummary(np.empty((3, n)), parts, rng.random(n), best[None], best)
    classes, quality = np.full(300, 77, np.uint8), np.full(300, Quality.CLOUD, np.uint16)
    pixel_kernels.mark(summary, limits, np.array([10, 20, 30], np.uint8), where, classes, quality)
    expected = np.full(300, Quality.CLOUD, np.uint16)
    for i, place in enumerate(where):
        assert classes[place] == 10 * (best[i] + 1)
        expected[place] += 0 if parts[5, i] >= 0.3 else Quality.OUTSIDE_DOMAIN
        expected[place] += Quality.DISAGREE if summary.disagreement[i] > 0.4 else 0
        expected[place] += Quality.LOW_MARGIN if parts[4, i] < 0.5 else 0
    np.testing.assert_array_equal(quality, expected)
    assert (classes == 77).sum() == 300 - n
