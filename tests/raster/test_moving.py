import numpy as np
import pytest

from uncover.raster import moving
from uncover.raster.product import Layer

PLACES = [np.arange(300), np.array([5]), np.random.default_rng(0).permutation(300)[:177]]


@pytest.fixture(params=["machine code", "NumPy"])
def how(request, monkeypatch):
    if request.param == "NumPy":
        monkeypatch.setattr(moving, "_code", lambda: None)
    elif moving._code() is None:
        pytest.skip("numba is not installed")


@pytest.mark.parametrize("where", PLACES)
def test_pixels_come_back_to_their_places(how, where):
    planes = np.random.default_rng(1).normal(size=(2, 3, 20, 15)).astype(np.float32)
    taken = moving.take(planes, where)
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
    moving.put(layer, values, where, out)
    np.testing.assert_array_equal(out[:, where], layer.encode(values))
    elsewhere = np.setdiff1d(np.arange(300), where)
    np.testing.assert_array_equal(out[:, elsewhere], layer.empty(len(elsewhere)))


@pytest.mark.parametrize("where", PLACES)
def test_areas_add_up_class_by_class_and_world_by_world(how, where):
    rng = np.random.default_rng(3)
    best, worlds = (rng.integers(0, 4, shape).astype(np.uint8) for shape in (len(where), (3, len(where))))
    weight, areas = rng.random(300), np.ones((5, 4))
    moving.add_areas(areas, best, worlds, weight, where)
    for k in range(4):
        assert areas[0, k] == 1 + (best == k).sum()
        for row, classes in zip(areas[1:], [best, *worlds], strict=True):
            assert row[k] == pytest.approx(1 + weight[where][classes == k].sum())


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_numbers_are_counted(how, dtype):
    planes = np.random.default_rng(4).integers(0, 256, (2, 20, 15)).astype(dtype)
    counts = np.ones((2, np.iinfo(dtype).max + 1), np.int64)
    moving.count(planes, counts)
    for band, plane in zip(counts, planes, strict=True):
        assert band.sum() == 300 + len(band)
        assert all(band[n] == 1 + (plane == n).sum() for n in range(256))
