"""The spread over worlds and its Monte Carlo error, against repeated draws."""

import numpy as np
import pytest

from uncover.metrics import spread_over_worlds


def design(rng, n=25, turns=8):
    """Values of a sum with a product of two quantities, each drawn n times, and which draws they are of."""
    a, b = rng.normal(size=(2, n))
    pairs = np.array([(r, (r + turn * n // turns) % n) for turn in range(turns) for r in range(n)])
    return a[pairs[:, 0]] + b[pairs[:, 1]] + 0.3 * a[pairs[:, 0]] * b[pairs[:, 1]], pairs


def test_the_error_is_that_of_repeated_draws():
    rng = np.random.default_rng(0)
    found = np.array([spread_over_worlds(*design(rng)) for _ in range(400)])
    actual, stated = found[:, 0].std(ddof=1), np.sqrt((found[:, 1] ** 2).mean())
    assert found[:, 0].mean() == pytest.approx(np.sqrt(2.09), rel=0.03)
    assert stated == pytest.approx(actual, rel=0.15)


def test_one_quantity_drawn_once_each():
    rng = np.random.default_rng(1)
    found = np.array([spread_over_worlds(rng.normal(size=25), np.arange(25)[:, None]) for _ in range(400)])
    assert found[:, 1].mean() == pytest.approx(found[:, 0].std(ddof=1), rel=0.15)


def test_nothing_is_said_of_one_world():
    sd, error = spread_over_worlds(np.ones((1, 3)), [[0]])
    assert np.isnan(sd).all() and np.isnan(error).all()
    sd, error = spread_over_worlds(np.array([[1.0], [2.0]]), [[0], [1]])
    assert sd[0] == pytest.approx(np.sqrt(0.5)) and np.isnan(error[0])
