"""A Student t seen through Gaussian noise, against integrals over the true value."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from uncover.bayes.covariances import Covariances
from uncover.bayes.noise import log_prob_with_noise, places_needed, sample_true_value, spread_evenly
from uncover.bayes.student_t import IndependentT, StudentT

CHANCE = 1e-4


def covariances(noise, x):
    return Covariances.read(noise, *np.shape(x))


def log_prob(density, x, noise):
    return log_prob_with_noise(density, np.asarray(x), covariances(noise, x))


def draw_truth(density, x, noise, n, rng):
    places = spread_evenly(n, places_needed(density), rng)
    return sample_true_value(density, np.asarray(x), covariances(noise, x), places)


def convolution(x, scale, dof, noise):
    """log ∫ t(χ) N(x − χ) dχ, by adaptive quadrature in 30 digits: not the integral that the code uses."""
    with mpmath.workdps(30):
        s, v, r, x = (mpmath.mpf(float(value)) for value in (scale, dof, noise, x))
        constant = mpmath.loggamma((v + 1) / 2) - mpmath.loggamma(v / 2) - mpmath.log(v * mpmath.pi) / 2

        def integrand(chi):
            log_t = constant - mpmath.log(s) - (v + 1) / 2 * mpmath.log1p((chi / s) ** 2 / v)
            return mpmath.exp(log_t) * mpmath.npdf(x, chi, r)

        breaks = sorted(
            {-60 * s, -8 * s, -2 * s, 0, 2 * s, 8 * s, *(x + k * r for k in (-30, -8, -3, 0, 3, 8, 30))}
        )
        return float(mpmath.log(mpmath.quad(integrand, breaks, maxdegree=8)))


@pytest.mark.parametrize("dof", [0.6, 1.0, 2.5, 4.0, 30.0, 1000.0])
@pytest.mark.parametrize("noise", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("sigmas", [0.0, 2.0, 10.0])
def test_one_feature_is_the_convolution(dof, noise, sigmas):
    x = sigmas * np.hypot(1.0, noise)
    t = StudentT.from_scale([0.0], [[1.0]], dof)
    found = float(log_prob(t, [[x]], [[noise**2]])[0])
    assert found == pytest.approx(convolution(x, 1.0, dof, noise), abs=1e-8)


def test_two_modes_are_both_counted():
    """Precise in one feature, far out there, and noisy in many others: the integrand has two modes."""
    p = 40
    t = StudentT.from_scale(np.zeros(p), np.eye(p), 3.0)
    noise = np.diag([0.0] + [1e4] * (p - 1))
    x = np.zeros((1, p))
    x[0, 0] = 60.0
    with mpmath.workdps(30):

        def integrand(u):
            h = mpmath.exp(u)
            gamma = mpmath.mpf(1.5) ** 1.5 / mpmath.gamma(1.5) * h**1.5 * mpmath.exp(-1.5 * h)
            first = mpmath.npdf(60, 0, 1 / mpmath.sqrt(h))
            rest = (2 * mpmath.pi * (1 / h + 10000)) ** (-mpmath.mpf(p - 1) / 2)
            return gamma * first * rest

        exact = mpmath.log(mpmath.quad(integrand, mpmath.linspace(-40, 10, 101)))
    assert float(log_prob(t, x, noise)[0]) == pytest.approx(float(exact), abs=1e-8)


@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 6), dof=st.floats(1.0, 1e6))
def test_no_noise_is_the_student_t(seed, p, dof):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(p, p + 2))
    t = StudentT.from_scale(rng.normal(size=p), a @ a.T, dof)
    x = 5 * rng.normal(size=(6, p))
    np.testing.assert_allclose(log_prob(t, x, np.zeros((p, p))), t.log_prob(x), atol=1e-8)


@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 5))
def test_many_degrees_of_freedom_are_a_gaussian(seed, p):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, p, p + 2))
    t = StudentT.from_scale(np.zeros(p), a @ a.T, 1e12)
    x = 3 * rng.normal(size=(5, p))
    expected = stats.multivariate_normal(np.zeros(p), a @ a.T + b @ b.T).logpdf(x)
    np.testing.assert_allclose(log_prob(t, x, b @ b.T), np.atleast_1d(expected), atol=1e-8)


def test_several_features_by_monte_carlo(rng):
    a, b = rng.normal(size=(2, 3, 5))
    scale, noise = a @ a.T / 5, b @ b.T / 5
    t = StudentT.from_scale([0.5, 0.0, -1.0], scale, 5.0)
    chi = stats.multivariate_t([0.5, 0.0, -1.0], scale, df=5.0).rvs(200_000, random_state=0)
    x = chi[:6] + rng.multivariate_normal(np.zeros(3), noise, 6)
    for point, found in zip(x, log_prob(t, x, noise), strict=True):
        density = stats.multivariate_normal(np.zeros(3), noise).pdf(point - chi)
        assert abs(np.exp(found) - density.mean()) < 4.5 * density.std() / np.sqrt(len(chi))


@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 4))
def test_mixed_scales_and_a_covariance_for_each_point(seed, p):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(p, p + 2))
    b = rng.normal(size=(5, p, p))
    b[:, :, : p // 2] = 0.0  # singular noise
    noise = b @ np.swapaxes(b, 1, 2)
    x, d = rng.normal(size=(5, p)), 10.0 ** rng.uniform(-8, 8, p)
    plain = StudentT.from_scale(np.zeros(p), a @ a.T, 6.0)
    scaled = StudentT.from_scale(np.zeros(p), a @ a.T * d * d[:, None], 6.0)
    one_by_one = [float(log_prob(plain, x[[i]], noise[i])[0]) for i in range(5)]
    np.testing.assert_allclose(log_prob(plain, x, noise), one_by_one, rtol=1e-11)
    together = log_prob(scaled, d * x, noise * d * d[:, None])
    np.testing.assert_allclose(together + np.log(d).sum(), one_by_one, atol=1e-8)


def test_independent_features_use_the_variances_of_the_noise(rng):
    t = IndependentT(np.array([0.0, 1.0]), np.array([1.0, 2.0]), np.full(2, 4.0))
    noise = np.array([[0.3, 0.2], [0.2, 0.5]])
    x = rng.normal(size=(3, 2))
    expected = [
        convolution(a, 1.0, 4.0, np.sqrt(0.3)) + convolution(b - 1.0, 2.0, 4.0, np.sqrt(0.5)) for a, b in x
    ]
    np.testing.assert_allclose(log_prob(t, x, noise), expected, atol=1e-8)


@pytest.mark.parametrize("dof", [1.0, 5.0, 500.0])
def test_the_truth_is_exchangeable_with_draws_of_it(dof, rng):
    """Simulate truth and measurement: the share of draws given the measurement below the truth is uniform."""
    p, n, L = 2, 2000, 1000
    a, b = rng.normal(size=(2, p, p + 1))
    scale, noise = a @ a.T, b @ b.T
    t = StudentT.from_scale(np.zeros(p), scale, dof)
    truth = stats.multivariate_t(np.zeros(p), scale, df=dof).rvs(n, random_state=4)
    x = truth + rng.multivariate_normal(np.zeros(p), noise, n)
    drawn = draw_truth(t, x, noise, L, rng)
    for direction in np.array([[1.0, 0.0], [0.3, -1.0]]):
        share = ((drawn @ direction) < (truth @ direction)[:, None]).mean(1)
        assert stats.kstest(share, "uniform").pvalue > CHANCE
    size = ((drawn**2).sum(-1) < (truth**2).sum(-1)[:, None]).sum(1)
    assert stats.chisquare(np.bincount(size, minlength=L + 1)).pvalue > CHANCE


def test_mean_of_the_truth_by_quadrature(rng):
    t = StudentT.from_scale([0.0], [[1.0]], 3.0)
    chi = np.linspace(-60, 60, 400_001)
    for x, noise in ((4.0, 1.0), (-2.0, 0.3)):
        weight = stats.t(3).pdf(chi) * stats.norm.pdf(x, chi, noise)
        weight /= weight.sum()
        mean = (weight * chi).sum()
        deviation = np.sqrt((weight * (chi - mean) ** 2).sum())
        drawn = draw_truth(t, [[x]], [[noise**2]], 100_000, rng)[0, :, 0]
        assert abs(drawn.mean() - mean) < 4.5 * deviation / np.sqrt(len(drawn))
        assert drawn.std() == pytest.approx(deviation, rel=0.02)
