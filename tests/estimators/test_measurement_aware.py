"""Any classifier with known noise: the average over true values is the integral, and bad input is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from uncover import Measured, MeasuredScaler, MeasurementAware


class Step(ClassifierMixin, BaseEstimator):
    """P(1 | χ) is known: a steep step at 1."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        p = expit(4.0 * (X[:, 0] - 1.0))
        return np.column_stack([1.0 - p, p])


@parametrize_with_checks([MeasurementAware(LogisticRegression())])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def problem(rng):
    y = np.repeat([0, 1], 300)
    truth = rng.normal(size=600) + 2.0 * y
    return (truth + 0.7 * rng.normal(size=600))[:, None], y


@pytest.mark.parametrize("variance", [0.01, 0.5, 4.0])
def test_probability_is_the_integral_over_true_values(problem, variance):
    """Against quadrature over χ, with the Gaussian classes that the many samples make of the Student t's."""
    X, y = problem
    model = MeasurementAware(Step(), n_draws=2048).fit(X, y, X_cov=[0.49])
    truth = model.truth_.model_
    mean, spread = truth.means[:, 0], np.sqrt(truth.covariances[:, 0, 0])
    x = 1.3
    share = norm.pdf(x, mean, np.sqrt(spread**2 + variance))
    share /= share.sum()
    gain = spread**2 / (spread**2 + variance)
    centre, width = mean + gain * (x - mean), np.sqrt(gain * variance)
    expected = sum(
        weight * quad(lambda c, m=m, s=s: expit(4.0 * (c - 1.0)) * norm.pdf(c, m, s), m - 9 * s, m + 9 * s)[0]
        for weight, m, s in zip(share, centre, width, strict=True)
    )
    assert model.predict_proba([[x]], X_cov=[variance])[0, 1] == pytest.approx(expected, abs=4e-3)


def test_without_noise_it_is_the_classifier_itself(problem):
    X, y = problem
    plain = LogisticRegression().fit(X, y).predict_proba(X)
    assert_allclose(MeasurementAware(LogisticRegression()).fit(X, y).predict_proba(X), plain, rtol=1e-12)
    zero = MeasurementAware(LogisticRegression()).fit(X, y, X_cov=[0.0])
    assert_allclose(zero.predict_proba(X, X_cov=[0.0]), plain, atol=1e-10)


def test_noise_without_end_leaves_the_class_shares(problem):
    X, y = problem
    few = np.flatnonzero((y == 0) | (np.arange(600) % 3 == 0))
    model = MeasurementAware(LogisticRegression(), n_draws=1024).fit(X[few], y[few], X_cov=[0.49])
    assert_allclose(model.predict_proba([[40.0]], X_cov=[1e8])[0], [0.75, 0.25], atol=0.02)


def test_what_is_said_of_one_input_does_not_depend_on_the_others(problem):
    X, y = problem
    model = MeasurementAware(RandomForestClassifier(10)).fit(X, y, X_cov=[0.49])
    variances = np.linspace(0.1, 1.0, 600)[:, None]
    whole = model.predict_proba(X, X_cov=variances)
    assert_allclose(model.predict_proba(X[7:9], X_cov=variances[7:9]), whole[7:9], atol=1e-12)
    assert_array_equal(model.predict(X, X_cov=variances), model.classes_[whole.argmax(1)])


def test_knowing_the_noise_helps_on_moons():
    """The forest that knows the noise, against the same forest without it."""
    gains = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        truth, y = make_moons(1200, noise=0.1, random_state=seed)
        uncertainty = rng.uniform(0.05, 0.8, size=(1200, 1)) * np.ones(2)
        X = truth + uncertainty * rng.normal(size=truth.shape)
        forest = RandomForestClassifier(50, min_samples_leaf=3, random_state=0)
        aware = MeasurementAware(forest).fit(X[:400], y[:400], X_cov=uncertainty[:400] ** 2)
        told = aware.predict_proba(X[400:], X_cov=uncertainty[400:] ** 2)
        plain = forest.fit(X[:400], y[:400]).predict_proba(X[400:])
        gains.append(log_loss(y[400:], plain) - log_loss(y[400:], told))
    assert min(gains) > 0.02


def test_draws_and_repeats_carry_their_noise(rng):
    y = np.repeat([0, 1], 200)
    truth = rng.normal(size=(400, 2)) + 2.0 * y[:, None]
    measured = truth[:, None] + rng.normal(size=(400, 9, 2))
    x = measured[:, 0]
    draws = x[:, None] + rng.normal(size=(400, 25, 2))
    by_draws = MeasurementAware(LogisticRegression()).fit(draws, y)
    assert_alike(by_draws.predict_proba(draws), draws.mean(1), y, 26 / 25)
    by_repeats = MeasurementAware(LogisticRegression(), realisations="repeats").fit(measured, y)
    assert_alike(by_repeats.predict_proba(measured), measured.mean(1), y, 1 / 9)


def assert_alike(probability, points, y, variance):
    """Nearly those of points whose noise is given."""
    model = MeasurementAware(LogisticRegression()).fit(points, y, X_cov=[variance] * 2)
    assert_allclose(probability, model.predict_proba(points, [variance] * 2), atol=0.05)


def test_it_works_in_pipelines_and_cross_validation(problem):
    X, y = problem
    pipeline = make_pipeline(MeasuredScaler(), MeasurementAware(LogisticRegression()))
    measured = Measured(X, cov=np.linspace(0.1, 1.0, 600)[:, None])
    assert cross_val_score(pipeline, measured, y, cv=3, error_score="raise").min() > 0.7


def test_a_missing_feature_is_drawn_given_the_others(rng):
    y = np.repeat([0, 1], 200)
    X = rng.normal(size=(400, 2)) + [3.0, 0.0] * y[:, None]
    model = MeasurementAware(LogisticRegression()).fit(X, y, X_cov=[0.01, 0.01])
    with pytest.warns(UserWarning, match="taken as exact"):
        P = model.predict_proba([[np.nan, 0.0], [0.0, np.nan], [3.0, np.nan]])
    assert P[0, 1] == pytest.approx(0.5, abs=0.1) and P[1, 1] < 0.05 and P[2, 1] > 0.95


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_draws": 4}, "n_imputations must be at least 1 and at most n_draws, got 8 and 4"),
        ({"n_imputations": 0}, "n_imputations must be at least 1"),
        ({"realisations": "shared"}, "realisations"),
        ({"estimator": Perceptron()}, "Perceptron has no predict_proba"),
    ],
)
def test_bad_parameters_are_refused(problem, change, message):
    X, y = problem
    with pytest.raises(ValueError, match=message):
        MeasurementAware(**{"estimator": LogisticRegression(), **change}).fit(X, y, X_cov=[0.1])


def test_bad_inputs_are_refused(problem):
    X, y = problem
    model = MeasurementAware(LogisticRegression())
    with pytest.raises(ValueError, match="does not fit 600 samples of 1 features"):
        model.fit(X, y, X_cov=[0.1, 0.2])
    with pytest.raises(ValueError, match="systematic covariance"):
        model.fit(Measured(X, cov=[0.1], systematic=[0.1]), y)
    with pytest.raises(ValueError, match="the model was fitted without"):
        model.fit(X, y).predict_proba(X, X_cov=[0.1])
    with pytest.warns(UserWarning, match="1 realisation of each sample"):
        model.fit(X[:, None], y)
    with pytest.raises(ValueError, match=r"y has 1 class, 0\.0; a classifier needs at least 2"):
        model.fit(X, np.zeros(600), X_cov=[0.1])


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        (np.ones((4, 2)), "does not fit"),
        (-np.ones(2), "negative"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "indefinite"),
        (np.array([1.0, np.nan]), "NaN"),
    ],
)
def test_covariances_that_are_none_are_refused(noise, words, rng):
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 2)) + 2.0 * y[:, None]
    model = MeasurementAware(LogisticRegression()).fit(X, y, X_cov=[0.1, 0.1])
    with pytest.raises(ValueError, match=words):
        MeasurementAware(LogisticRegression()).fit(X, y, X_cov=noise)
    with pytest.raises(ValueError, match=words):
        model.predict_proba(X, X_cov=noise)


def test_ten_samples(rng):
    y = np.arange(10) % 2
    X = rng.normal(size=(10, 2)) + 3.0 * y[:, None]
    model = MeasurementAware(RandomForestClassifier(10)).fit(X, y, X_cov=[0.2, 0.2])
    P = model.predict_proba(X, X_cov=[0.2, 0.2])
    assert np.isfinite(P).all() and (P[np.arange(10), y] > 0.5).sum() >= 8


def test_noise_in_training_only_is_said(problem):
    """New values are then exact: the answer is that of noise that vanishes."""
    X, y = problem
    model = MeasurementAware(LogisticRegression()).fit(X, y, X_cov=[0.49])
    with pytest.warns(UserWarning, match="taken as exact"):
        found = model.predict_proba(X[:20])
    assert_allclose(found, model.predict_proba(X[:20], X_cov=[1e-12]), atol=1e-5)
