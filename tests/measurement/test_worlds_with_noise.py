"""Worlds of a shared error whose pixels have noise of their own: training, exact and fast predictions."""

import numpy as np
import pytest
from scipy.special import softmax

from uncover import BayesianClassifier, BayesianMDA, BayesianQDA, Measured, MeasurementAware
from uncover.bayes.covariances import Covariances
from uncover.measurement.noise_groups import STEP, groups_of_noise
from uncover.measurement.observation import Observation
from uncover.measurement.prediction import predict
from uncover.measurement.summary import Summariser

MEANS = np.array([[0.0, 0.0, 0.0], [1.2, 0.0, 0.5], [0.0, 1.2, -0.5]])
SPREAD = np.array([0.5, 0.4, 0.6])
WORLDS = 0.15 * np.random.default_rng(99).normal(size=(6, 3))


def samples(n, seed):
    """Values in worlds, classes, and the variances of the noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    sd = 0.5 * rng.uniform(0.3, 1.5, (n, 3))
    x = MEANS[y] + rng.normal(size=(n, 3)) * SPREAD + sd * rng.normal(size=(n, 3))
    return x[:, None] + WORLDS, y, sd**2


def scores(P, y):
    """Over-statement and log loss."""
    right = P.argmax(1) == y
    return P.max(1).mean() - right.mean(), -np.log(P[np.arange(len(y)), y]).mean()


@pytest.mark.parametrize("kind", ["pooled", "shared"])
def test_noise_in_worlds_is_learned_and_read(kind):
    (X, y, S), (T, z, U) = samples(4000, 0), samples(4000, 1)
    both = BayesianQDA(realisations=kind).fit(X, y, X_cov=S)
    plain = BayesianQDA(realisations=kind).fit(X, y)
    one = BayesianQDA().fit(X.mean(1), y, X_cov=S)
    over, loss = scores(both.predict_proba(T, U), z)
    assert abs(over) < 0.02 and loss < scores(plain.predict_proba(T), z)[1] - 0.015
    assert loss == pytest.approx(scores(one.predict_proba(T.mean(1), U), z)[1], abs=0.01)
    assert scores(plain.predict_proba(T, U), z)[0] < -0.07  # the noise of training pixels counted twice
    fast = both.predict_proba(T[:200], U[:200], method="fast")
    np.testing.assert_allclose(fast, both.predict_proba(T[:200], U[:200]), atol=2e-3)


def test_classes_are_those_of_true_values():
    X, y, S = samples(20_000, 2)
    model = BayesianQDA(realisations="shared").fit(X, y, X_cov=S)
    variances = np.diagonal(model.covariances_, axis1=1, axis2=2)
    for k in range(3):
        # A moment estimate is the mean of r² − s²; its standard error is 4 to 5 % of the variance here.
        residuals = X[y == k].mean(axis=1)
        found = (residuals - residuals.mean(axis=0)) ** 2 - S[y == k]
        error = found.std(axis=0) / np.sqrt(len(found))
        assert (error < 0.06 * SPREAD**2).all()
        assert (np.abs(variances[k] - SPREAD**2) < 4 * error).all()


@pytest.mark.parametrize(("kind", "paired"), [("pooled", False), ("shared", True), ("shared", False)])
def test_maps_read_groups_of_noise_nearly_as_single_pixels(kind, paired):
    X, y, S = samples(3000, 3)
    T, _, _ = samples(120, 4)
    U = np.array([0.02, 0.05, 0.1])[np.random.default_rng(0).integers(0, 3, 120)][:, None] * np.ones(3)
    model = BayesianQDA(realisations=kind).fit(X, y, X_cov=S)
    planes, noise = np.ascontiguousarray(np.moveaxis(T, 0, 2)), Covariances(None, None, U)
    fast = Summariser(model, paired=paired, method="fast").summarise(planes, noise=noise)
    exact = Summariser(model, paired=paired, method="exact").summarise(planes, noise=noise)
    np.testing.assert_allclose(fast.probability, exact.probability, atol=0.005)
    np.testing.assert_allclose(fast.measurement, exact.measurement, atol=0.04)
    np.testing.assert_allclose(fast.parts[1:4].sum(0), fast.total, atol=1e-9)
    # Classes can differ only where two are as probable as probabilities are near: not in 99.5 % of 720.
    assert (fast.world_classes == exact.world_classes).mean() > 0.995
    some = np.arange(0, 120, 2)  # what is said of a pixel hardly depends on the others
    again = Summariser(model, paired=paired, method="fast").summarise(planes[:, :, some], noise=noise[some])
    np.testing.assert_allclose(again.probability, fast.probability[:, some], atol=1e-3)
    none = Summariser(model, paired=paired, method="fast").summarise(planes)
    assert exact.measurement.mean() > none.measurement.mean() + 0.01  # noise adds to what worlds hide


@pytest.mark.parametrize(("kind", "paired"), [("pooled", False), ("shared", True)])
def test_readings_through_noise_are_the_same_in_machine_code(kind, paired):
    X, y, S = samples(500, 3)
    T, _, U = samples(40, 4)
    model = BayesianQDA(realisations=kind).fit(X, y, X_cov=S).model_
    seen = Observation(T, Covariances(None, None, U))
    fast = predict(model, seen, paired=paired, method="fast")
    found = fast.by_view()
    for r, points in enumerate(next(fast.predictor.blocks(seen))[1]):
        np.testing.assert_allclose(found[:, r], softmax(points.log_odds(), axis=1), atol=1e-12)
    noise = Covariances(np.diag(U[0]), None, None)  # of all pixels alike, and one feature less
    gappy = T.copy()
    gappy[:, :, 1] = np.nan
    for given in (Observation(T, noise), Observation(gappy, noise)):
        fast = predict(model, given, paired=paired, method="fast")
        np.testing.assert_allclose(fast.by_view().mean(1), fast.probability(), atol=1e-12)


def test_levels_of_noise_are_near_and_all_pixels_are_in_one():
    rng = np.random.default_rng(1)
    variances, least = 10 ** rng.uniform(-4, 1, (4000, 2)), np.array([0.5, 2.0])
    found = list(groups_of_noise(Covariances(None, None, variances), 4000, least))
    assert sorted(np.concatenate([rows for rows, _ in found])) == list(range(4000))
    for rows, one in found:
        level = np.log1p(variances[rows] / least).mean(axis=1)
        assert np.ptp(level) <= STEP
        np.testing.assert_allclose(np.diagonal(one), variances[rows].mean(axis=0))


def test_any_model_takes_noise_in_worlds():
    X, y, S = samples(400, 5)
    given = Measured(X, S, np.eye(3) * 0.01)
    assert given[3:5].shape == (2, 6, 3)
    for model in (BayesianMDA(realisations="shared"), BayesianClassifier(realisations="pooled")):
        P = model.fit(given, y).predict_proba(given)
        assert P.shape == (400, 3) and abs(scores(P, y)[0]) < 0.15


def test_noise_in_worlds_that_makes_no_sense_is_refused():
    X, y, S = samples(60, 6)
    with pytest.raises(ValueError, match="whose spread is their noise here"):
        BayesianQDA(realisations="draws").fit(X, y, X_cov=S)
    with pytest.raises(ValueError, match="whose spread is their noise here"):
        MeasurementAware(BayesianQDA()).fit(X, y, X_cov=S)
    with pytest.raises(ValueError, match="one value of each sample"):
        BayesianQDA(realisations="shared").fit(X[:, 0], y, X_cov=S)
    sure = np.full((60, 3), 0.2) + 0.4 * np.eye(3)[y]
    with pytest.raises(ValueError, match="give hard labels"):
        BayesianQDA().fit(X, label_proba=sure, classes=[0, 1, 2], X_cov=S)
    with pytest.raises(ValueError, match="partial_fit cannot take known noise"):
        BayesianQDA(realisations="shared").partial_fit(Measured(X, S), y, [0, 1, 2])
