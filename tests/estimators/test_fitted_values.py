"""Fitted models as values: frozen, without scikit-learn; the structure of inputs apart from their points."""

import dataclasses
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, multivariate_t

from uncover import NIW, BayesianClassifier, BayesianLDA, BayesianMDA, BayesianNB, BayesianQDA
from uncover.bayes.covariances import Covariances
from uncover.measurement.observation import Observation
from uncover.measurement.pooled import make_summariser
from uncover.measurement.prediction import predict
from uncover.models.realisations import Structure

KINDS = ["pooled", "repeats", "draws", "shared"]


def draw(rng, n=90, R=4):
    y = np.arange(n) % 3
    X = rng.normal(size=(n, 1, 2)) + 2.0 * np.stack([y, -y], axis=1)[:, None]
    return X + 0.3 * rng.normal(size=(1, R, 2)) + 0.1 * rng.normal(size=(n, R, 2)), y


@pytest.mark.parametrize("cls", [BayesianQDA, BayesianLDA, BayesianNB, BayesianMDA])
def test_a_fitted_value_is_frozen_and_says_what_its_estimator_says(cls, rng):
    X, y = draw(rng)
    clf = cls().fit(X[:, 0], y)
    model = pickle.loads(pickle.dumps(clf.model_))
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.count = 0
    assert_array_equal(predict(model, Observation(X[:, 1])).probability(), clf.predict_proba(X[:, 1]))
    P = np.exp(model.log_joint(X[:, 1]))
    assert_allclose(P / P.sum(1, keepdims=True), clf.predict_proba(X[:, 1]), atol=1e-10)
    assert_allclose(np.log(P.sum(1)), clf.score_samples(X[:, 1]), atol=1e-10)


def test_a_pool_is_frozen_and_says_what_its_estimator_says(rng):
    X, y = draw(rng)
    X = np.exp(0.3 * X[:, 0])  # members of logarithms too
    clf = BayesianClassifier().fit(X[:60], y[:60])
    model = pickle.loads(pickle.dumps(clf.model_))
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.weights = 0
    assert_array_equal(predict(model, Observation(X)).probability(), clf.predict_proba(X))
    noise = Covariances(np.diag([0.04, 0.09]), None, None)
    drawn = model.true_values(X[:5], noise, 4000, rng)
    assert_allclose(drawn.mean(1), X[:5], atol=0.3)  # drawn towards the classes, within the noise
    assert (drawn.std(1) < 1.1 * np.array([0.2, 0.3])).all()


def test_the_log_joint_is_that_of_scipy(rng):
    X, y = draw(rng, R=1)
    model = BayesianQDA(class_prior=[1.0, 2.0, 3.0]).fit(X[:, 0], y).model_
    new, t = X[:7, 0] + 0.5, model.posterior.predictive()
    densities = [
        multivariate_t(t.location[k], t.root[k] @ t.root[k].T, t.dof[k]).logpdf(new) for k in range(3)
    ]
    expected = np.log([31 / 96, 32 / 96, 33 / 96]) + np.stack(densities, axis=1)
    assert_allclose(model.log_joint(new), expected, atol=1e-10)


def test_true_values_follow_their_distribution(rng):
    """Two Gaussian classes that are known exactly: a mixture of N(m + G(x − m), (1 − G)Σ), G = Σ(Σ + C)⁻¹."""
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 2)) + 3.0 * y[:, None]
    sigma, C, sure = np.array([[1.0, 0.3], [0.3, 0.8]]), np.array([[0.5, -0.1], [-0.1, 0.7]]), 1e7
    means = np.array([[0.0, 0.0], [3.0, 3.0]])
    prior = [NIW(mean, sure, sure * sigma, sure) for mean in means]
    model = BayesianQDA(prior=prior).fit(X, y).model_
    x = np.array([[1.4, 1.3], [1.7, 1.9]])
    drawn = model.true_values(x, Covariances(C, None, None), 40_000, rng)
    gain = sigma @ np.linalg.inv(sigma + C)
    for point, found in zip(x, drawn, strict=True):
        density = np.array([multivariate_normal(m, sigma + C).pdf(point) for m in means])
        P, centre = density / density.sum(), np.array([m + gain @ (point - m) for m in means])
        mean = P @ centre
        cov = (
            sigma
            - gain @ sigma
            + sum(p * np.outer(c - mean, c - mean) for p, c in zip(P, centre, strict=True))
        )
        assert_allclose(found.mean(0), mean, atol=0.02)
        assert_allclose(np.cov(found.T), cov, atol=0.03)


@pytest.mark.parametrize("method", ["exact", "fast"])
@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cls", [BayesianQDA, BayesianNB, BayesianMDA])
def test_the_number_of_worlds_follows_from_the_structure(cls, kind, paired, method, rng):
    X, y = draw(rng)
    model = cls(realisations=kind).fit(X, y)
    summariser = make_summariser(model, paired=paired, method=method, n_true_values=4)
    for n in (1, 4) if paired else (1, 3, 4):
        found = summariser.summarise(np.moveaxis(X[:5, :n], 0, 2))
        assert len(found.world_classes) == summariser.n_worlds(n), n


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_worlds_of_the_recommended_classifier(kind, rng):
    X, y = draw(rng)
    summariser = make_summariser(BayesianClassifier(realisations=kind).fit(X, y), paired=True)
    found = summariser.summarise(np.moveaxis(X[:5], 0, 2))
    assert len(found.world_classes) == summariser.n_worlds(4)


@pytest.mark.parametrize("kind", KINDS)
def test_readings_follow_from_the_structure_alone(kind, rng):
    X, y = draw(rng)
    predictor = predict(BayesianQDA(realisations=kind).fit(X, y).model_, Observation(X)).predictor
    assert Observation(X).structure == Structure(4)
    readings = predictor.readings(Structure(4))
    assert len(readings) == {"pooled": 4, "repeats": 1, "draws": 1, "shared": 4}[kind]
    models = {id(predictor.class_models(reading, np.ones(2, bool))) for reading in readings}
    assert len(models) == (4 if kind == "shared" else 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:the model was fitted with known noise:UserWarning")
def test_a_sample_without_features_has_the_class_proportions(kind, rng):
    X, y = draw(rng)
    clf = BayesianQDA(realisations=kind, missing="marginalise").fit(X, y)
    nothing = np.full((2, 2), np.nan)
    with pytest.warns(UserWarning, match="no feature at all"):
        P = clf.predict_proba(nothing)
    assert_allclose(P, np.tile(clf.class_posterior_ / clf.class_posterior_.sum(), (2, 1)), atol=1e-12)
