"""What the estimators say by the fast path is what their log-joint says, view by view."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from uncover import BayesianLDA, BayesianNB, BayesianQDA
from uncover.engines import class_densities
from uncover.engines.kernels import load
from uncover.measurement import summary
from uncover.measurement.observation import Observation
from uncover.measurement.predictor import Predictor
from uncover.measurement.summary import Planes, Summariser

N, R, P = 700, 3, 6
MODELS = [
    (BayesianQDA, "pooled", R),
    (BayesianQDA, "shared", R),
    (BayesianQDA, "repeats", None),
    (BayesianQDA, "pooled", None),
    (BayesianLDA, "pooled", R),
    (BayesianLDA, "shared", R),
]
PATHS = pytest.mark.parametrize("how", ["compiled", "numpy"])


@pytest.fixture
def data(rng):
    y = rng.integers(0, 4, N)
    mixing = rng.normal(size=(4, P, P)) / np.sqrt(P)
    truth = 0.7 * rng.normal(size=(4, P))[y] + np.einsum("nij,nj->ni", mixing[y], rng.normal(size=(N, P)))
    return truth[:, None, :] + 0.3 * rng.normal(size=(N, R, P)), y


@pytest.fixture
def take(monkeypatch):
    """Choose the path, however little there is to compute."""

    def choose(how):
        monkeypatch.setattr(class_densities, "_FEW", 0)
        if how == "numpy":
            monkeypatch.setattr(class_densities, "machine_code", lambda: None)
            monkeypatch.setattr(summary, "machine_code", lambda: None)

    return choose


def slowly(model, X, used=None):
    """Averaged softmax of the log-joint of each view."""
    predictor, observation = Predictor(model.model_), Observation(np.asarray(X, np.float64))
    used = ~model.ignored_features_ if used is None else used
    readings = predictor.readings(observation.structure)
    points = [predictor.measured(observation, reading, used) for reading in readings]
    return np.mean([softmax(each.log_joint(), axis=1) for each in points], axis=0)


@PATHS
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(("estimator", "realisations", "n"), MODELS)
def test_probabilities_are_those_of_the_log_joint(take, how, kind, estimator, realisations, n, data):
    X, y = data
    model = estimator(realisations=realisations).fit(X, y)
    new = X if n else np.ascontiguousarray(X[:, 0])
    if realisations == "repeats":
        new, model = X.mean(axis=1), BayesianQDA().fit(X.mean(axis=1), y)
    take(how)
    found = model.predict_proba(new.astype(kind))
    assert found.dtype == kind
    expected = slowly(model, new.astype(kind))
    assert_allclose(found, expected, rtol=0, atol=1e-5 if kind == np.float32 else 1e-12)


@PATHS
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(("estimator", "realisations"), [(BayesianQDA, "pooled"), (BayesianLDA, "shared")])
def test_summaries_are_those_of_the_views(take, how, kind, estimator, realisations, data):
    X, y = data
    model = estimator(realisations=realisations).fit(X, y)
    planes = np.ascontiguousarray(X.transpose(1, 2, 0)).astype(kind)
    summariser = Summariser(model)
    expected = summariser._by_readings(Planes(planes), np.ones(P, bool), None)
    take(how)
    found = summariser.summarise(planes)
    # Entropies have the slope log p where p is small.
    bound = 1e-4 if kind == np.float32 else 1e-11
    for name in ("total", "measurement", "model", "overlap", "margin", "typicality"):
        close = max(bound, 2e-6) if name == "typicality" else bound
        assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=close, err_msg=name)
    assert_allclose(found.probability, expected.probability, atol=1e-5 if kind == np.float32 else 1e-12)
    assert np.mean(found.world_classes != expected.world_classes) < 0.001


@PATHS
def test_ignored_features_and_unknown_classes_have_their_places(take, how, data):
    """A constant feature is left out, and a class without samples has probability 0."""
    X, y = data
    X = X.copy()
    X[..., 2] = 5.0
    with pytest.warns(UserWarning):
        model = BayesianQDA().fit(X, y, classes=[0, 1, 2, 3, 9])
    take(how)
    with np.errstate(all="raise"):
        found = model.predict_proba(X)
    assert_array_equal(found[:, 4], 0)
    assert_allclose(found[:, :4], slowly(model, X), atol=1e-12)
    summary = Summariser(model).summarise(np.ascontiguousarray(X.transpose(1, 2, 0)))
    assert_allclose(summary.probability.T, found, atol=1e-12)
    assert summary.world_classes.max() < 4


def test_what_the_fast_path_does_not_reach_goes_the_other_way(data):
    X, y = data
    reach = {
        "naive Bayes": BayesianNB().fit(X, y),
        "means of draws": BayesianQDA(realisations="repeats").fit(X, y),
    }
    for name, model in reach.items():
        assert Predictor(model.model_).densities(R, np.ones(P, bool)) is None, name
        assert_allclose(model.predict_proba(X).sum(axis=1), 1)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(("classes", "points"), [(1, 3), (2, 512), (5, 1300)])
def test_the_budget_in_machine_code_is_that_of_the_formulas(rng, kind, classes, points):
    conclude = load().conclude

    P = rng.dirichlet(np.full(classes, 0.2), points).T.astype(kind)
    P[:, 0], P[0, 0], P[:, 1] = 0, 1, 1 / classes  # sure, and no idea
    typicality, inner, model = (rng.random(shape).astype(kind) for shape in (P.shape, points, points))
    worlds = rng.integers(0, classes, (7, points)).astype(np.uint8)
    out, disagreement, best = (
        np.full((6, points), np.nan, kind),
        np.full(points, np.nan),
        np.full(points, 99, np.uint8),
    )
    conclude(np.ascontiguousarray(P), typicality, model, inner, worlds, out, disagreement, best)
    exact = P.astype(np.float64)
    total = -np.sum(exact * np.log(np.where(exact > 0, exact, 1)), axis=0)
    measurement = np.maximum(total - inner, 0)
    part = np.minimum(model, total - measurement)
    ordered = np.sort(np.vstack([exact, np.zeros(points)]), axis=0)
    expected = (
        total,
        measurement,
        part,
        total - measurement - part,
        ordered[-1] - ordered[-2],
        typicality.max(0),
    )
    assert_allclose(out, np.stack(expected), rtol=0, atol=1e-6 if kind == np.float32 else 1e-14)
    assert_array_equal(best, exact.argmax(axis=0))
    assert_allclose(disagreement, (worlds != best).mean(axis=0), rtol=1e-15)
