"""Vectors as values: what is computed in lanes is what NumPy computes number by number."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

numba = pytest.importorskip("numba", reason="lanes are values of numba")

from uncover.engines.compiled.functions import (  # noqa: E402
    exponential,
    log_one_plus,
    one_less_exponential,
)
from uncover.engines.compiled.simd import OPTIONS, any_above, load, simd_width, store, sum_of, transpose  # noqa: E402

KINDS = pytest.mark.parametrize("kind", [np.float32, np.float64])
QUICKLY = OPTIONS | {"cache": False}


@numba.njit(**QUICKLY)
def functions(x, out):
    for b in range(0, len(x), simd_width(x)):
        each = load(x, (b,))
        store(out, (0, b), exponential(-each))
        store(out, (1, b), log_one_plus(each))
        store(out, (2, b), one_less_exponential(each))


@KINDS
def test_functions_are_right_to_rounding(kind):
    x = np.concatenate([[0.0], np.geomspace(1e-12, 80.0, 511)]).astype(kind)
    out = np.empty((3, len(x)), kind)
    functions(x, out)
    exact = x.astype(np.longdouble)
    expected = np.exp(-exact), np.log1p(exact), -np.expm1(-exact)
    # The last is a difference where the series ends, which takes digits.
    bounds = np.finfo(kind).eps * np.array([3, 3, 30 if kind == np.float32 else 2000])
    for found, truth, bound in zip(out, expected, bounds, strict=True):
        assert_allclose(found, truth.astype(np.float64), rtol=bound, atol=0)


@numba.njit(**QUICKLY)
def turned(x, out):
    transpose(x, (1, 2, 3), out, (0, 1))


@KINDS
def test_a_square_is_turned_in_its_place(kind):
    size = 32 // np.dtype(kind).itemsize
    x = np.random.default_rng(0).normal(size=(10, 4, 12)).astype(kind)
    out = np.full((size, size + 2), np.nan, kind)
    turned(x, out)
    assert_array_equal(out[:, 1:-1], x[1 : 1 + size, 2, 3 : 3 + size].T)
    assert np.isnan(out[:, [0, -1]]).all()


@numba.njit(**QUICKLY)
def sum_and_alarm(x, limit):
    return sum_of(load(x, (0,))), any_above(load(x, (0,)), limit)


@KINDS
def test_one_number_in_many_is_noticed(kind):
    count = 64 // np.dtype(kind).itemsize
    x = np.arange(count, dtype=kind)
    assert sum_and_alarm(x, kind(count)) == (x.sum(), False)
    for i in range(count):
        for strange in (count + 1, np.nan, np.inf):
            altered = x.copy()
            altered[i] = strange
            assert sum_and_alarm(altered, kind(count))[1]
