"""Maps by a pool are read quickly: they say what the plain reading says, within what is promised."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from uncover import BayesianClassifier
from uncover.bayes.budget import entropy
from uncover.bayes.covariances import Covariances
from uncover.engines import members
from uncover.measurement.observation import Observation
from uncover.measurement.pool_prediction import PoolPrediction
from uncover.measurement.pooled import TOLERANCE, make_summariser


def skewed(n, seed):
    """Overlapping classes of positive values, which leave no kind of member out."""
    rng, y = np.random.default_rng(seed), np.arange(n) % 3
    return np.exp(0.3 * (rng.normal(size=(n, 4)) * (1 + 0.3 * y[:, None]) + 0.8 * y[:, None])), y


@pytest.fixture(scope="module")
def pool():
    return BayesianClassifier(random_state=0).fit(*skewed(300, 0)).model_


@pytest.fixture
def machine(monkeypatch):
    """Machine code from the first point on."""
    for name in ("FEW_LEAVES", "FEW_DIFFERENCES", "FEW_JOINTS"):
        monkeypatch.setattr(members, name, 0)


def plain(pool, X, noise=None):
    """The reference: no machine code, double precision, all worlds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(members, "machine_code", lambda: None)
        found = PoolPrediction(pool, Observation(X, noise))
        return found.probability(), found.budget(400, 512), found.typicality(), found.best_of_views()


def smooth_worlds(X, R=25):
    """Values (sample, world, feature) that one effect moves, to some extent in each world."""
    rng = np.random.default_rng(1)
    size, direction = rng.normal(size=(R, 1)), 0.03 * rng.normal(size=X.shape[1])
    return X[:, None] * (1 + 0.02 * size) + size * direction * (1 + 0.1 * size)


def test_pixels_have_the_probabilities_of_the_reference(pool, machine):
    X = skewed(700, 1)[0]
    found = make_summariser(pool).summarise(X.T[None])
    P, budget, typicality, best = plain(pool, X)
    assert_allclose(found.probability.T, P, atol=1e-5)
    assert_array_equal(found.world_classes, best)
    assert_allclose(found.total, budget.total, atol=1e-4)
    assert np.abs(found.model - budget.model).mean() < 0.05 * budget.model.mean()
    steps = np.abs(found.typicality - typicality) * (pool.class_count.min() + 1)
    assert steps.max() < 1.5  # of a rank: single precision may exchange neighbours
    assert (steps > 1e-6).mean() < 0.005


def test_smooth_worlds_are_read_in_few_of_them(pool, machine):
    X = smooth_worlds(skewed(1200, 2)[0])
    summariser = make_summariser(pool)
    planes = np.moveaxis(X, 0, 2)
    nodes = summariser._nodes(planes[:, :, :512])
    assert nodes is not None
    assert len(nodes.worlds) < 25
    found, some = summariser.summarise(planes), slice(0, 300)
    P, budget, _, best = plain(pool, X[some])
    error = np.abs(found.probability.T[some] - P).max(axis=1)
    assert np.quantile(error, 0.999) <= TOLERANCE
    assert error.max() > 0  # it is an approximation
    assert_allclose(found.measurement[some], budget.measurement, atol=3e-3)
    assert (found.world_classes[:, some] != best).mean() < 2e-3


def test_worlds_that_follow_no_line_are_all_read(pool, machine):
    X = skewed(512, 3)[0]
    apart = X[:, None] * np.exp(0.3 * np.random.default_rng(4).normal(size=(512, 25, 4)))
    assert make_summariser(pool)._nodes(np.moveaxis(apart, 0, 2)) is None


def test_known_noise_has_the_probabilities_of_the_reference(pool, machine, monkeypatch):
    X, noise = skewed(60, 5)[0], Covariances(0.1**2 * np.eye(4), None, None)
    found = make_summariser(pool).summarise(X.T[None], noise=noise)
    for name in ("ASKED_VALUES", "ASKED_IN_DOUBT"):
        monkeypatch.setattr(f"uncover.measurement.pool_prediction.{name}", 32)
    P, budget, *_ = plain(pool, X, noise)
    assert_allclose(found.probability.T, P, atol=1e-5)
    assert np.abs(found.measurement - budget.measurement).mean() < 0.2 * budget.measurement.mean()


def test_views_are_calibrated_probabilities(rng, machine):
    joint = 5.0 * rng.normal(size=(50, 3, 4))
    joint[0, 0] = -np.inf
    joint[1, 1, 2] = -np.inf
    found = members.Views.of(joint, 0.5)
    known = np.where(np.isfinite(joint).any(-1, keepdims=True), joint, 0.0)
    P = softmax(known / 0.5, axis=-1)
    assert_allclose(found.probability, P.mean(1), atol=1e-12)
    assert_allclose(found.inner, entropy(P).mean(1), atol=1e-12)
    assert_array_equal(found.best, P.argmax(-1))


def test_probabilities_of_each_world_have_its_class(pool):
    seen = PoolPrediction(pool, Observation(smooth_worlds(skewed(60, 2)[0], R=6)))
    found = seen.by_view()
    assert found.shape == (60, 6, 3)
    assert_allclose(found.sum(axis=2), 1.0)
    assert_array_equal(found.argmax(axis=2).T, seen.best_of_views())
