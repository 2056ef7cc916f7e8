"""The spline in weights against SciPy's, and against what it must reproduce exactly."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import CubicSpline

from uncover.atmosphere.spline import Spline


@settings(deadline=None)
@given(st.integers(4, 15), st.integers(0, 10_000))
def test_weights_give_the_not_a_knot_spline(n, seed):
    rng = np.random.default_rng(seed)
    nodes = np.cumsum(rng.uniform(0.2, 1.0, n))
    values = rng.standard_normal((n, 3))
    x = np.linspace(nodes[0], nodes[-1], 40)
    np.testing.assert_allclose(Spline(nodes).weights(x) @ values, CubicSpline(nodes, values)(x), atol=1e-10)


def test_weights_at_a_node_pick_it():
    nodes = np.array([0.0, 0.3, 1.0, 1.1, 2.0])
    np.testing.assert_allclose(Spline(nodes).weights(nodes), np.eye(5), atol=1e-12)


def test_weights_sum_to_one():
    nodes = np.array([0.0, 0.3, 1.0, 1.1, 2.0])
    np.testing.assert_allclose(Spline(nodes).weights(np.linspace(0, 2, 30)).sum(-1), 1)
