"""Maps by a pool are read quickly: they say what the plain reading says, within what is promised."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from uncover import BayesianClassifier
from uncover.bayes.budget import entropy
from uncover.bayes.covariances import Covariances
from uncover.bayes.forest import Forest
from uncover.bayes.student_t import StudentT
from uncover.engines import members
from uncover.measurement.observation import Observation
from uncover.measurement.pool_prediction import PoolPrediction
from uncover.measurement.pooled import TOLERANCE, make_summariser
from uncover.models.members import single_precision
from uncover.models.pool import of_draws
from uncover.models.pool import pool as pooled


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
    for name in ("FEW_LEAVES", "FEW_DIFFERENCES", "FEW_PRODUCTS", "FEW_JOINTS"):
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


def test_noise_beside_worlds_is_nearly_the_exact_one(pool, machine, monkeypatch):
    X = smooth_worlds(skewed(60, 6)[0], R=6)
    noise = Covariances(None, None, 0.01**2 * (1 + 9 * np.random.default_rng(2).random(X[:, 0].shape)))
    planes, reader = np.moveaxis(X, 0, 2), make_summariser(pool)
    found = reader.summarise(planes, noise=noise)
    monkeypatch.setattr(PoolPrediction, "_method", "exact")
    exact, without = reader.summarise(planes, noise=noise), reader.summarise(planes)
    apart = np.abs(found.probability - exact.probability).max()
    assert apart < 1e-3 and apart < 0.05 * np.abs(without.probability - exact.probability).max()


def test_views_are_calibrated_probabilities(rng, machine):
    joint = 5.0 * rng.normal(size=(50, 3, 4))
    joint[0, 0] = -np.inf
    joint[1, 1, 2] = -np.inf
    offset = np.log([0.1, 0.2, 0.3, 0.4])
    found = members.Views.of(joint, 0.5, offset)
    known = np.where(np.isfinite(joint).any(-1, keepdims=True), joint, 0.0) + offset
    P = softmax(known / 0.5, axis=-1)
    assert_allclose(found.probability, P.mean(1), atol=1e-12)
    assert_allclose(np.exp(found.logs), P, atol=1e-12)
    assert_allclose(found.logs[2:], np.log(P[2:]), atol=1e-9)
    assert_array_equal(found.best, P.argmax(-1))


@pytest.mark.parametrize(("n", "K"), [(1, 2), (64, 3), (333, 7)])
def test_answers_are_those_of_numpy(rng, machine, n, K):
    """Members that rule classes out, that are not heard at all, and shares that differ."""
    P = rng.dirichlet(np.full(K, 0.05), size=(4, n))
    gate = rng.uniform(size=(4, n)) * (rng.uniform(size=(4, n)) < 0.7)
    gate[0] = 0.1
    b, log_shares = rng.uniform(size=(8, 4)), np.log(rng.dirichlet(np.ones(K)))
    mean, inner = members.pool_answers(P, gate, b, log_shares)
    drawn = of_draws(P, gate, b, log_shares)
    assert_allclose(mean, drawn.mean(0), atol=1e-12)
    assert_allclose(inner, entropy(drawn).mean(0), atol=1e-12)
    assert_array_equal(pooled(P, gate, b, log_shares), mean)


@pytest.mark.parametrize(("R", "K"), [(2, 2), (5, 3), (25, 4)])
def test_answers_of_views_are_those_of_numpy(rng, machine, R, K):
    logs = np.log(rng.dirichlet(np.full(K, 0.2), size=(3, 90, R)))
    power, base = rng.uniform(size=(3, 90)), rng.normal(size=K)
    power[1] = 0.0
    mean, inner = members.pool_views(logs, power, base)
    answers = softmax(base + np.einsum("mn,mnrk->nrk", power, np.maximum(logs, -12.0)), axis=-1)
    assert_allclose(mean, answers.mean(1), atol=1e-12)
    assert_allclose(inner, entropy(answers).mean(1), atol=1e-12)


@pytest.mark.parametrize("p", [1, 3, 10, 17])
def test_squared_distances_are_those_of_numpy(rng, machine, p):
    A = rng.normal(size=(3, p, p + 2)) * 10.0 ** rng.integers(-3, 3, size=(3, p, 1))
    t = StudentT.from_scale(rng.normal(size=(3, p)), A @ A.swapaxes(1, 2), np.array([3.0, 30.0, 3e5]))
    x = rng.normal(size=(150, p)) * 10.0 ** rng.integers(-2, 8, size=(150, 1))
    x[0], x[1, 0] = 1e200, np.inf
    found = members.FastStudentT.of(t)
    assert_allclose(found.squared_distance(x), t.squared_distance(x), rtol=1e-9)
    assert_allclose(found.log_prob(x[None, :, None]), t.log_prob(x[None, :, None]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("block", [1, 300, 4096])
def test_trees_say_to_the_last_bit_what_the_reference_says(pool, machine, block, monkeypatch):
    (trees,) = (m.model for m in pool.members if m.name == "trees")
    points = single_precision(trees.scale(skewed(700, 6)[0]))
    points[:3] = np.array([[np.inf], [-np.inf], [trees.forest.threshold[trees.forest.roots[0]]]])
    monkeypatch.setattr(members, "_FEWEST", block)
    monkeypatch.setattr(members, "_MOST", block)
    assert_array_equal(trees.forest.probabilities(points), Forest.probabilities(trees.forest, points))


def test_probabilities_of_each_world_have_its_class(pool):
    seen = PoolPrediction(pool, Observation(smooth_worlds(skewed(60, 2)[0], R=6)))
    found = seen.by_view()
    assert found.shape == (60, 6, 3)
    assert_allclose(found.sum(axis=2), 1.0)
    assert_array_equal(found.argmax(axis=2).T, seen.best_of_views())
