"""Draws of the true value of measured points, against numerical integration of their distribution."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, multivariate_t, norm

from uncover import BayesianMDA, BayesianNB, BayesianQDA
from uncover.bayes.covariances import Covariances


def stream():
    return np.random.default_rng(5)


@pytest.fixture(scope="module")
def line():
    """Two classes on a line, one of two components, learned through noise."""
    rng = np.random.default_rng(1)
    y = np.arange(150) % 3 > 0
    truth = np.where(y, np.where(rng.random(150) < 0.5, -3.0, 3.0), 0.0) + 0.7 * rng.normal(size=150)
    X = (truth + 0.5 * rng.normal(size=150))[:, None]
    model = BayesianMDA().fit(X, y, X_cov=[0.25]).model_
    assert len(model.count) == 3
    return model


@pytest.fixture(scope="module")
def plane():
    rng = np.random.default_rng(2)
    y = np.arange(40) % 2
    truth = rng.normal(size=(40, 2)) @ [[1.0, 0.6], [0.0, 0.8]] + 2.0 * y[:, None]
    return (
        BayesianQDA(prior="evidence")
        .fit(truth + 0.4 * rng.normal(size=(40, 2)), y, X_cov=[0.16, 0.16])
        .model_
    )


def joint_on_grid(model, grid):
    """P(c) p(χ | c) of each component on a grid, by SciPy: (grid, component)."""
    t = model.known_posterior().predictive()
    share = model.concentration / model.concentration.sum()
    each = [
        multivariate_t(t.location[c], t.root[c] @ t.root[c].T, t.dof[c]).pdf(grid) for c in range(len(share))
    ]
    return share * np.stack(np.atleast_2d(each), axis=-1).reshape(len(grid), -1)


@pytest.mark.parametrize(("x", "sd"), [(1.5, 0.5), (-2.0, 1.5), (0.3, 0.1), (1.6, 3.0)])
@pytest.mark.parametrize("code", [None, 0, 1])
def test_on_a_line_they_follow_the_integral(line, x, sd, code):
    chi = np.linspace(-60, 60, 120_001)
    weight = joint_on_grid(line, chi[:, None]) * norm.pdf(x, chi, sd)[:, None]
    if code is not None:
        weight = weight[:, line.components.owner == code]
    density = weight.sum(1) / weight.sum()
    n = 4096
    codes = None if code is None else np.array([code])
    drawn = line.true_values(np.array([[x]]), Covariances.read([sd**2], 1, 1), n, stream(), codes)[0, :, 0]
    distribution = np.interp(np.sort(drawn), chi, density.cumsum())
    assert np.abs(distribution - (np.arange(n) + 0.5) / n).max() < 0.01  # by chance: 0.02
    f = np.tanh(drawn).mean() - (density * np.tanh(chi)).sum()
    assert abs(f) < 2e-3


def moments_on_grid(model, likelihood, code=None):
    side = np.linspace(-9, 9, 361)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    joint = joint_on_grid(model, grid)
    weight = (joint if code is None else joint[:, [code]]).sum(1) * likelihood(grid)
    weight /= weight.sum()
    mean = weight @ grid
    return mean, (grid - mean).T @ (weight[:, None] * (grid - mean))


@pytest.mark.parametrize("code", [None, 0, 1])
def test_in_a_plane_they_follow_the_integral(plane, code):
    x, noise = np.array([1.2, 0.4]), np.array([[0.7, 0.2], [0.2, 0.5]])
    mean, cov = moments_on_grid(plane, lambda grid: multivariate_normal(x, noise).pdf(grid), code)
    codes = None if code is None else np.array([code])
    drawn = plane.true_values(x[None], Covariances.read(noise, 1, 2), 8192, stream(), codes)[0]
    assert_allclose(drawn.mean(0), mean, atol=0.005)
    assert_allclose(np.cov(drawn.T), cov, rtol=0.02, atol=0.005)


@pytest.mark.parametrize("known", [None, 0.3])
def test_a_missing_feature_is_drawn_given_the_other(plane, known):
    """One feature without noise, or with; nothing else says what the missing one is."""
    x = np.array([[1.7, np.nan]])
    noise = None if known is None else Covariances.read([known**2, 1.0], 1, 2)
    width = known or 0.02  # of the grid: 0.05, so that the exact value is one line of it
    mean, cov = moments_on_grid(plane, lambda grid: norm.pdf(x[0, 0], grid[:, 0], width))
    drawn = plane.true_values(x, noise, 8192, stream())[0]
    assert_allclose(drawn.mean(0), mean, atol=0.01)
    assert_allclose(drawn[:, 1].var(), cov[1, 1], rtol=0.03)
    if known is None:
        assert_array_equal(drawn[:, 0], 1.7)


def test_without_any_feature_they_are_draws_of_the_classes(plane):
    drawn = plane.true_values(np.full((1, 2), np.nan), None, 8192, stream())[0]
    mean, cov = moments_on_grid(plane, lambda grid: np.ones(len(grid)))
    assert_allclose(drawn.mean(0), mean, atol=0.02)
    assert_allclose(drawn.var(0), cov.diagonal(), rtol=0.05)


def test_a_sample_has_the_same_draws_in_any_batch(plane):
    x = np.array([[1.2, 0.4], [np.nan, 1.0], [3.0, 3.0], [1.2, 0.4]])
    noise = Covariances.read(np.array([[0.7, 0.5], [0.1, 0.1], [2.0, 1.0], [0.7, 0.5]]), 4, 2)
    together = plane.true_values(x, noise, 32, stream())
    apart = [plane.true_values(x[[i]], noise[[i]], 32, stream())[0] for i in range(4)]
    assert_allclose(together, apart, atol=1e-10)
    assert_array_equal(together[0], together[3])


def test_imputed_values_of_equal_samples_differ(plane):
    x, noise = np.full((2, 2), 1.0), Covariances.read([0.5, 0.5], 2, 2)
    drawn = plane.true_values(x, noise, 16, stream(), np.array([0, 0]))
    assert np.abs(drawn[0] - drawn[1]).max() > 0.1


def test_exact_values_stay(plane):
    x = np.array([[1.2, 0.4]])
    assert_array_equal(plane.true_values(x, None, 3, stream())[0], np.repeat(x, 3, axis=0))


def test_independent_features(rng):
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 2)) * [1.0, 2.0] + 3.0 * y[:, None]
    model = BayesianNB(prior="evidence").fit(X, y, X_cov=[0.3, 0.3]).model_
    x = np.array([[1.0, 2.0]])
    drawn = model.true_values(x, Covariances.read([0.3, 0.5], 1, 2), 4096, stream(), np.array([0]))[0]
    t = model.known_posterior().predictive()[0]
    for j, variance in enumerate((0.3, 0.5)):
        of_feature = t.feature(j)
        chi = np.linspace(-30, 30, 60_001)
        density = np.exp(of_feature.log_prob(chi[:, None])) * norm.pdf(x[0, j], chi, np.sqrt(variance))
        density /= density.sum()
        assert_allclose(drawn[:, j].mean(), density @ chi, atol=0.01)
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.02
