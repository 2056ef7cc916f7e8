"""Probabilities in worlds and by drawn models: against the model itself, and drawn parameters in SciPy."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from uncover import BayesianClassifier, BayesianQDA
from uncover.bayes.niw import NIW
from uncover.engines.members import FastGaussians
from uncover.measurement.class_prediction import Prediction
from uncover.measurement.common_errors import MODELS, CommonErrors
from uncover.measurement.observation import Observation
from uncover.measurement.summary import Planes

RNG = np.random.default_rng(0)
Y = np.arange(120) % 3
X = RNG.normal(size=(120, 2)) + 1.2 * Y[:, None]
SHIFTS = np.linspace(-0.4, 0.4, 5)[:, None]
POINTS = RNG.normal(size=(40, 2)) + 1.2


def planes(values):
    """(pixel, realisation, feature) as planes."""
    return Planes(np.ascontiguousarray(values.transpose(1, 2, 0)))


@pytest.mark.parametrize("kind", [BayesianQDA, BayesianClassifier])
def test_worlds_of_the_training_scene_are_read_one_by_one(kind):
    model = kind(realisations="shared").fit(X[:, None] + SHIFTS, Y)
    errors = CommonErrors(model.model_, 5, paired=True)
    worlds, models = errors.read(planes(POINTS[:, None] + SHIFTS))
    assert worlds.shape == (5, 40, 3) and models.shape == (MODELS, 40, 3)
    np.testing.assert_allclose(worlds.sum(-1), 1.0)
    averaged = model.predict_proba(POINTS[:, None] + SHIFTS)
    np.testing.assert_allclose(worlds.mean(0), averaged, atol=1e-3 if kind is BayesianClassifier else 1e-9)
    # an error that the model shares cancels: worlds differ by rounding
    assert np.ptp(worlds, axis=0).max() < (0.05 if kind is BayesianClassifier else 1e-9)


@pytest.mark.parametrize("kind", [BayesianQDA, BayesianClassifier])
def test_worlds_of_another_scene_differ(kind):
    model = kind(realisations="shared").fit(X[:, None] + SHIFTS, Y)
    worlds, _ = CommonErrors(model.model_, 5, paired=False).read(planes(POINTS[:, None] + SHIFTS))
    assert worlds.shape == (5, 40, 3)
    assert worlds.mean(1).std(0).max() > 0.01


def test_systematic_effects_are_drawn():
    model = BayesianQDA().fit(X, Y).model_
    errors = CommonErrors(model, 1, paired=False, systematic=0.09 * np.ones((2, 2)))
    worlds, _ = errors.read(Planes(POINTS.T[None], systematic=0.09 * np.ones((2, 2))))
    assert len(worlds) == errors.n_worlds == 50
    error = errors._errors
    np.testing.assert_allclose(error[:, 0], error[:, 1], atol=1e-12)  # of rank one
    np.testing.assert_allclose(error.mean(0), 0.0, atol=1e-12)
    assert error.std() == pytest.approx(0.3, rel=0.25)


def test_drawn_models_are_those_of_the_posterior():
    """Log odds move by what the drawn means and covariances change, computed with SciPy."""
    value = BayesianQDA(prior="evidence").fit(X, Y).model_
    _, models = CommonErrors(value, 1, paired=True).read(Planes(POINTS.T[None]))
    drawn, _ = value.derived["drawn parameters", MODELS]
    for d in (0, 7):
        log = np.stack(
            [multivariate_normal.logpdf(POINTS, drawn.mean[d, k], drawn.covariance[d, k]) for k in range(3)],
            axis=1,
        )
        odds = np.log(value.concentration / value.concentration.sum()) + log
        P = np.exp(odds - odds.max(1, keepdims=True))
        np.testing.assert_allclose(models[d], P / P.sum(1, keepdims=True), rtol=1e-6, atol=1e-9)


def test_pixels_do_not_depend_on_their_block():
    value = BayesianClassifier().fit(X, Y).model_
    errors = CommonErrors(value, 1, paired=True)
    whole = errors.read(Planes(POINTS.T[None]))[1]
    parts = [errors.read(Planes(POINTS[i : i + 10].T[None]))[1] for i in range(0, 40, 10)]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, atol=1e-9)


def test_missing_features_are_drawn():
    value = BayesianQDA().fit(X, Y).model_
    gappy = POINTS.copy()
    gappy[:5, 0] = np.nan
    _, models = CommonErrors(value, 1, paired=True).read(Planes(gappy.T[None]))
    assert np.isfinite(models).all()


def test_pooled_realisations_do_not_count_as_samples():
    """Five copies of each sample leave the doubt in the model as large as one copy does."""
    one = BayesianQDA(prior="evidence").fit(X, Y).model_
    five = BayesianQDA(prior="evidence", realisations="pooled").fit(np.repeat(X[:, None], 5, 1), Y).model_
    spreads = []
    for value, count in ((one, 1), (five, 5)):
        given = planes(np.repeat(POINTS[:, None], count, 1))
        spreads.append(CommonErrors(value, count, paired=True).read(given)[1].mean(1).std(0))
    np.testing.assert_allclose(spreads[0], spreads[1], rtol=0.35)


@pytest.mark.parametrize("kind", ["pooled", "shared"])
def test_worlds_by_compiled_code_are_those_of_the_formulas(kind):
    model = BayesianQDA(realisations=kind).fit(X[:, None] + SHIFTS, Y).model_
    seen = Observation(np.repeat(POINTS, 500, axis=0)[:, None] + SHIFTS)
    fast, plain = (Prediction.of(model, seen) for _ in range(2))
    vars(plain)["_fast_path"] = None
    np.testing.assert_allclose(fast.by_view(), plain.by_view(), atol=1e-12)


def test_triangles_whiten_as_the_matrices_that_they_come_from():
    rng = np.random.default_rng(3)
    root = rng.normal(size=(3, 6, 6))
    posterior = NIW(rng.normal(size=(3, 6)), np.full(3, 5.0), root @ root.swapaxes(1, 2), np.full(3, 20.0))
    drawn, points = posterior.draw(64, rng), rng.normal(size=(500, 6))
    fast = FastGaussians(*drawn.triangular())
    assert not np.triu(fast.whitening, 1).any()
    np.testing.assert_allclose(fast.covariance, drawn.covariance, rtol=1e-6)
    np.testing.assert_allclose(fast.log_prob(points), drawn.log_prob(points), rtol=1e-9)
