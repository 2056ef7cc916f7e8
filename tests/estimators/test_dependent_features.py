"""Features that follow from others (a sum, a scaled copy, fractions of one): ignored, with a warning."""

import numpy as np
import pytest

from uncover import BayesianClassifier, BayesianLDA, BayesianMDA, BayesianQDA
from uncover.bayes.linalg import independent_features


def problem(rng, kind, n=150):
    """Features of which one follows from the others, the classes, and the others alone."""
    y = np.arange(n) % 3
    x = rng.standard_normal((n, 3)) + 2.0 * rng.standard_normal((3, 3))[y]
    if kind == "fractions":
        parts = np.exp(0.5 * np.c_[x, np.zeros(n)])
        parts /= parts.sum(1, keepdims=True)
        return parts, y, parts[:, :3]
    return np.c_[x, x.sum(1) if kind == "sum" else 3.7 * x[:, 0]], y, x


every_kind = pytest.mark.parametrize("kind", ["sum", "copy", "fractions"])
says_so = pytest.mark.filterwarnings("ignore:feature.s. .* follow from the others")


@says_so
@every_kind
@pytest.mark.parametrize("prior", ["evidence", "jeffreys"])
@pytest.mark.parametrize("cls", [BayesianQDA, BayesianLDA])
def test_a_feature_that_follows_from_others_changes_nothing(cls, prior, kind, rng):
    """With it, 5 to 8 of 8 fits stopped, and probabilities of the others were off by 0.2 to 0.6."""
    for _ in range(4):
        X, y, others = problem(rng, kind)
        found = cls(prior=prior).fit(X[:120], y[:120])
        assert found.ignored_features_.tolist() == [False, False, False, True]
        expected = cls(prior=prior).fit(others[:120], y[:120]).predict_proba(others[120:])
        np.testing.assert_allclose(found.predict_proba(X[120:]), expected, atol=1e-9)


@says_so
@every_kind
@pytest.mark.parametrize("cls", [BayesianMDA, BayesianClassifier])
def test_models_of_several_parts_are_not_stopped(cls, kind, rng):
    X, y, _ = problem(rng, kind, 60)
    assert np.isfinite(cls().fit(X[:45], y[:45]).predict_proba(X[45:])).all()


@says_so
@every_kind
def test_few_samples_do_not_make_features_dependent(kind, rng):
    X, y, _ = problem(rng, kind, 36)
    wide = np.c_[X, rng.standard_normal((36, 4))]
    clf = BayesianQDA(prior="evidence").fit(wide[:9], y[:9])
    assert not clf.ignored_features_.any()
    assert np.isfinite(clf.predict_proba(wide[9:])).all()


def test_ignoring_is_said_and_single_precision_is_seen_through(rng):
    X, y, _ = problem(rng, "sum")
    X32 = (0.1 + 0.01 * X).astype(np.float32)
    X32[:, 3] = X32[:, :3].sum(1)
    with pytest.warns(UserWarning, match=r"feature\(s\) 3 follow from the others"):
        BayesianQDA(prior="evidence").fit(X32, y)


def test_parts_of_the_data_give_the_same_model(rng):
    X, y, _ = problem(rng, "sum")
    with pytest.warns(UserWarning, match="follow from the others"):
        whole = BayesianQDA(prior="evidence").fit(X, y)
        parts = BayesianQDA(prior="evidence").partial_fit(X[:70], y[:70], classes=[0, 1, 2])
        parts.partial_fit(X[70:], y[70:])
    np.testing.assert_allclose(parts.predict_proba(X), whole.predict_proba(X), atol=1e-9)


def test_nearly_dependent_features_stay(rng):
    x = rng.standard_normal((200, 2))
    near = np.c_[x, x.sum(1) + 1e-4 * rng.standard_normal(200)]
    assert independent_features(np.cov(near.T)).all()
    assert independent_features(np.diag([1.0, 1e-20, 0.0])).tolist() == [True, True, False]
