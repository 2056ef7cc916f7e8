"""Logarithm and ratios of measured values, against simulated noise."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from uncover import BayesianQDA, Measured, MeasuredLog, MeasuredRatios

every_transform = pytest.mark.parametrize(
    "transform", [MeasuredLog(), MeasuredRatios([(0, 1), (2, 1)]), MeasuredRatios([(0, 2)], keep=True)]
)


def draw(rng, n=40):
    a = rng.normal(size=(3, 3))
    return rng.uniform(0.2, 0.6, (n, 3)), 1e-5 * (a @ a.T)


@every_transform
def test_covariances_are_those_of_transformed_noise(transform, rng):
    X, cov = draw(rng, n=3)
    carried = transform.fit_transform(Measured(X, cov)).covariances.matrices()
    noisy = X[:, None] + rng.multivariate_normal(np.zeros(3), cov, size=(3, 40_000))
    drawn = transform.transform(noisy)
    for i in range(3):
        np.testing.assert_allclose(carried[i], np.cov(drawn[i].T), atol=0.05 * np.abs(carried[i]).max())


@every_transform
def test_realisations_are_transformed_one_by_one(transform, rng):
    X, _ = draw(rng)
    several = np.stack([X, 1.1 * X], axis=1)
    out = transform.fit(several).transform(several)
    assert out.shape[:2] == (40, 2)
    np.testing.assert_allclose(out[:, 1], transform.transform(1.1 * X))
    np.testing.assert_allclose(out[:, 0], transform.transform(X))


@every_transform
def test_derivatives_are_right(transform, rng):
    X, _ = draw(rng, n=5)
    transform.fit(X)
    J, step = transform._jacobian(X), 1e-6
    for j in range(3):
        moved = X + step * np.eye(3)[j]
        np.testing.assert_allclose(
            J[:, :, j], (transform._values(moved) - transform._values(X)) / step, atol=1e-4
        )


def test_values(rng):
    X, _ = draw(rng)
    np.testing.assert_allclose(MeasuredLog().fit_transform(X), np.log(X))
    np.testing.assert_allclose(MeasuredLog(offset=0.1).fit_transform(X), np.log(X - 0.1))
    ndvi = (X[:, 0] - X[:, 1]) / (X[:, 0] + X[:, 1])
    np.testing.assert_allclose(MeasuredRatios([(0, 1)]).fit_transform(X)[:, 0], ndvi)


def test_new_values_below_the_floor_have_a_logarithm(rng):
    X, _ = draw(rng)
    log = MeasuredLog().fit(X)
    out = log.transform([[0.0, -1.0, 0.3]])
    np.testing.assert_allclose(out[0, :2], np.log(0.5 * X.min(0)[:2]))


def test_in_a_pipeline_with_a_model_that_learns_through_noise(rng):
    y = np.arange(120) % 2
    X = np.exp(rng.normal(size=(120, 2)) * 0.2 + 0.8 * y[:, None])
    model = make_pipeline(MeasuredLog(), BayesianQDA()).fit(Measured(X, [0.01, 0.01]), y)
    assert model.score(Measured(X, [0.01, 0.01]), y) > 0.9
    assert model[-1].known_noise_ is not None


def test_what_cannot_be_transformed_is_refused(rng):
    X, cov = draw(rng)
    with pytest.raises(ValueError, match="feature 1 has no value above 0"):
        MeasuredLog().fit(X * [1, -1, 1])
    with pytest.raises(ValueError, match="cannot carry a systematic covariance"):
        MeasuredLog().fit(X).transform(Measured(X, cov, systematic=[0.1, 0.1, 0.1]))
    with pytest.raises(ValueError, match=r"pairs needs columns 0 … 2, .* got \[\(0, 3\)\]"):
        MeasuredRatios([(0, 3)]).fit(X)
    with pytest.raises(ValueError, match="has a\\+b = 0"):
        MeasuredRatios([(0, 1)]).fit_transform([[1.0, -1.0]])
