"""The Student t against SciPy, arbitrary precision and its own draws."""

import equicorrelation
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from uncover.bayes.student_t import IndependentT, StudentT

# A test of a distribution fails when its outcome is rarer than this: many draws, few false alarms.
CHANCE = 1e-4


def random_scale(p, rng):
    a = rng.normal(size=(p, p + 2))
    return a @ a.T / p


@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 8), dof=st.floats(0.5, 200.0))
def test_log_prob_is_that_of_scipy(seed, p, dof):
    rng = np.random.default_rng(seed)
    location, scale = rng.normal(size=p), random_scale(p, rng)
    x = location + 3.0 * rng.normal(size=(6, p))
    expected = stats.multivariate_t(location, scale, df=dof).logpdf(x)
    found = StudentT.from_scale(location, scale, dof).log_prob(x)
    np.testing.assert_allclose(found, np.atleast_1d(expected), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("p", [1, 2, 30, 500])
@pytest.mark.parametrize("dof", [1.0, 4.0, 1e3, 1e9])
@pytest.mark.parametrize("b", [0.0, 19.0])  # no correlation, and correlation 0.95
def test_log_prob_with_mixed_scales_is_that_of_arbitrary_precision(p, dof, b):
    """Scales from 1e-8 to 1e8 in one matrix; points near and far."""
    rng = np.random.default_rng(p)
    scale = 10.0 ** np.linspace(-8, 8, p) if p > 1 else np.array([1e-8])
    t = StudentT.from_scale(np.zeros(p), equicorrelation.matrix(1.0, b, scale), dof)
    for far in (0.1, 1.0, 30.0):
        x = far * scale * rng.normal(size=p)
        with mpmath.workdps(equicorrelation.DIGITS):
            exact = equicorrelation.student_t_log_prob(x, 1, b, scale, dof)
        # The log density is a sum of p terms of the size of q and of the log scales: so is its rounding.
        size = abs(float(exact)) + p * 20 + (0.0 if dof < 1e8 else far**2 * p)
        assert float(t.log_prob(x)) == pytest.approx(float(exact), abs=1e-13 * size)


@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 6), dof=st.floats(1.0, 1e9))
def test_rescaling_a_feature_adds_its_log(seed, p, dof):
    rng = np.random.default_rng(seed)
    location, scale, x = rng.normal(size=p), random_scale(p, rng), rng.normal(size=(4, p))
    d = 10.0 ** rng.uniform(-8, 8, p)
    plain = StudentT.from_scale(location, scale, dof)
    scaled = StudentT.from_scale(d * location, scale * d * d[:, None], dof)
    np.testing.assert_allclose(
        scaled.log_prob(d * x) + np.log(d).sum(), plain.log_prob(x), rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(scaled.typicality(d * x), plain.typicality(x), rtol=1e-9)


@pytest.mark.parametrize("dof", [0.7, 3.0, 80.0])
def test_density_integrates_to_one(dof):
    t = StudentT.from_scale([0.3], [[0.25]], dof)
    total, _ = quad(lambda x: np.exp(t.log_prob([x])), -np.inf, np.inf, epsabs=1e-10)
    assert total == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("p", [1, 3, 10, 500])
@pytest.mark.parametrize("dof", [1.0, 5.0, 300.0, 1e9])
@pytest.mark.parametrize("q_over_p", [1e-6, 0.5, 1.0, 3.0, 20.0, 1e6])
def test_typicality_is_the_upper_tail_of_the_f_distribution(p, dof, q_over_p):
    t = StudentT(np.zeros(p), np.eye(p), np.array(dof))
    x = np.zeros(p)
    x[0] = np.sqrt(p * q_over_p)
    with mpmath.workdps(40):
        q = mpmath.mpf(float(x[0])) ** 2
        exact = (
            mpmath.betainc(mpmath.mpf(dof) / 2, mpmath.mpf(p) / 2, 0, dof / (dof + q), regularized=True)
            if dof < 1e8
            else mpmath.gammainc(mpmath.mpf(p) / 2, q / 2, mpmath.inf, regularized=True)
        )
    # At a dof of 1e9 the reference is the chi-squared limit, which is off by q²/dof or so.
    tolerance = 1e-9 if dof < 1e8 else 1e-8 + (p * q_over_p + p) ** 2 / dof
    if tolerance < 1 and float(exact) > 1e-280:
        assert float(t.typicality(x)) == pytest.approx(float(exact), rel=tolerance)
    elif float(exact) <= 1e-280:
        assert float(t.typicality(x)) <= 1e-250


def test_typicality_is_one_in_the_centre_and_falls_outwards():
    t = StudentT.from_scale([0.0, 0.0], np.eye(2), 5.0)
    along = t.typicality(np.outer(np.linspace(0, 1e6, 200), [1.0, 0.0]))
    assert along[0] == 1.0
    assert (np.diff(along) < 0).all()
    assert (along > 0).all()


@pytest.mark.parametrize(("p", "dof"), [(1, 1.0), (2, 4.0), (10, 7.5), (40, 1e9)])
def test_typicality_is_uniform_on_draws(p, dof, rng):
    t = StudentT.from_scale(rng.normal(size=p), random_scale(p, rng), dof)
    p_values = t.typicality(t.sample(40_000, rng))
    assert stats.kstest(p_values, "uniform").pvalue > CHANCE


def test_a_direction_of_the_draws_is_a_univariate_t(rng):
    location, scale, dof = np.array([1.0, -2.0]), np.array([[2.0, 0.6], [0.6, 0.5]]), 5.0
    drawn = StudentT.from_scale(location, scale, dof).sample(300_000, rng)
    for direction in np.array([[0.7, -1.3], [1.0, 0.0], [0.2, 1.0]]):
        along = stats.t(dof, location @ direction, np.sqrt(direction @ scale @ direction))
        assert stats.kstest(drawn @ direction, along.cdf).pvalue > CHANCE


def test_each_point_meets_each_member_of_the_batch(rng):
    location = rng.normal(size=(3, 2, 4))
    scale = np.stack([random_scale(4, rng) for _ in range(6)]).reshape(3, 2, 4, 4)
    dof = rng.uniform(2, 9, (3, 2))
    t = StudentT.from_scale(location, scale, dof)
    x = rng.normal(size=(5, 7, 4))
    table = t.log_prob(x)
    assert table.shape == (5, 7, 3, 2)
    for i, j in np.ndindex(3, 2):
        expected = stats.multivariate_t(location[i, j], scale[i, j], df=dof[i, j]).logpdf(x.reshape(-1, 4))
        np.testing.assert_allclose(table[..., i, j].ravel(), expected, rtol=1e-10)
        np.testing.assert_array_equal(t[i, j].log_prob(x), table[..., i, j])
    assert t.sample(11, rng).shape == (11, 3, 2, 4)


def test_points_beyond_the_range_of_floats_are_merely_far():
    t = StudentT.from_scale([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]], 3.0)
    x = np.array([[1e300, -1e300], [1e200, 1e200]])
    assert np.isfinite(t.log_prob(x)).all()
    np.testing.assert_array_equal(t.typicality(x), 0.0)


# ---- the product of univariate Student t ------------------------------------------------------------


def product_of_t(location, scale, dof):
    return IndependentT(np.asarray(location), np.asarray(scale), np.full(len(location), dof))


@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 6), dof=st.floats(0.5, 1e6))
def test_independent_t_is_a_product(seed, p, dof):
    rng = np.random.default_rng(seed)
    location, scale = rng.normal(size=p), 10.0 ** rng.uniform(-8, 8, p)
    x = location + scale * rng.normal(size=(5, p))
    expected = stats.t(dof, location, scale).logpdf(x).sum(-1)
    found = product_of_t(location, scale, dof).log_prob(x)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-8)


@pytest.mark.parametrize("p", [1, 2, 10])
def test_typicality_of_a_product_is_uniform_on_draws(p, rng):
    t = product_of_t(rng.normal(size=p), rng.uniform(0.1, 9.0, p), 4.0)
    assert stats.kstest(t.typicality(t.sample(40_000, rng)), "uniform").pvalue > CHANCE


def test_typicality_of_a_product_of_one_is_that_of_the_t(rng):
    x = rng.normal(size=(50, 1)) * 5
    product = product_of_t(np.zeros(1), np.ones(1), 3.0)
    single = StudentT.from_scale([0.0], [[1.0]], 3.0)
    np.testing.assert_allclose(product.typicality(x), single.typicality(x), rtol=1e-12)
    np.testing.assert_allclose(product.log_prob(x), single.log_prob(x), rtol=1e-12)
    assert product.typicality([[0.0]]) == 1.0
    assert product.typicality([[1e200]]) == 0.0
