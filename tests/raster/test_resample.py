import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uncover.raster import Grid, SceneError, Window
from uncover.raster.resample import Resampler

COARSE = Grid("EPSG:32633", (20.0, 0.0, 0.0, 0.0, -20.0, 0.0), 12, 10)
FINE = Grid("EPSG:32633", (10.0, 0.0, 0.0, 0.0, -10.0, 0.0), 24, 20)
METHODS = ["nearest", "bilinear", "cubic"]


def resample(planes, window, method, target=FINE, source=COARSE):
    how = Resampler.between(target, window, source, method, "test")
    return how.interpolate(planes[:, *how.needed.slices])


@pytest.mark.parametrize("method", METHODS)
@given(st.integers(0, 19), st.integers(0, 23), st.integers(1, 20), st.integers(1, 24))
def test_a_pixel_does_not_depend_on_the_window(method, row, col, height, width):
    planes = np.random.default_rng(1).normal(size=(2, *COARSE.shape))
    planes[0, 3, 4] = np.nan
    window = Window(row, col, height, width) & FINE.window
    whole = resample(planes, FINE.window, method)
    np.testing.assert_array_equal(resample(planes, window, method), whole[:, *window.slices])


def test_nearest_repeats_pixels():
    planes = np.arange(COARSE.width * COARSE.height, dtype=float).reshape(1, *COARSE.shape)
    expected = planes.repeat(2, axis=1).repeat(2, axis=2)
    np.testing.assert_array_equal(resample(planes, FINE.window, "nearest"), expected)


@pytest.mark.parametrize("method", ["bilinear", "cubic"])
def test_a_plane_comes_back_exactly(method):
    x, y = COARSE.centres(COARSE.window)
    fx, fy = FINE.centres(FINE.window)
    inner = np.s_[4:-4, 4:-4]
    found = resample((0.3 * x - 0.2 * y + 1)[None], FINE.window, method)[0]
    np.testing.assert_allclose(found[inner], (0.3 * fx - 0.2 * fy + 1)[inner], rtol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_missing_pixels_stay_missing_and_do_not_spread(method):
    planes = np.ones((1, *COARSE.shape))
    planes[0, 5, 5] = np.nan
    found = resample(planes, FINE.window, method)[0]
    missing = np.zeros(FINE.shape, bool)
    missing[10:12, 10:12] = True
    np.testing.assert_array_equal(np.isnan(found), missing)
    np.testing.assert_allclose(found[~missing], 1.0)


def test_the_same_grid_is_a_copy_also_when_it_is_rotated():
    rotated = Grid("EPSG:32633", (7.0, 7.0, 100.0, 7.0, -7.0, 50.0), 6, 5)
    planes = np.random.default_rng(0).normal(size=(1, *rotated.shape))
    window = Window(1, 2, 3, 4)
    found = resample(planes, Window(0, 0, 3, 4), "cubic", target=rotated.crop(window), source=rotated)
    np.testing.assert_allclose(found, planes[:, *window.slices], rtol=1e-12)


def test_other_orientation_and_unknown_methods_are_refused():
    rotated = Grid("EPSG:32633", (7.0, 7.0, 100.0, 7.0, -7.0, 50.0), 6, 5)
    with pytest.raises(SceneError, match="another grid"):
        Resampler.between(FINE, FINE.window, rotated, "nearest", "x")
    with pytest.raises(SceneError, match=r"nearest, bilinear, cubic"):
        Resampler.between(FINE, FINE.window, COARSE, "magic", "x")
