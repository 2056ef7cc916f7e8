"""Typicality is an exact p-value for each class, and a safe one for all classes together."""

import numpy as np
import pytest
from scipy import stats

from uncover import BayesianLDA, BayesianNB, BayesianQDA

CHANCE = 1e-4
ESTIMATORS = [BayesianQDA, BayesianLDA, BayesianNB]


def fit(cls, rng, p=4):
    y = np.repeat([0, 1, 2], [3, 8, 40])
    root = rng.normal(size=(p, p))
    X = rng.normal(size=(len(y), p)) @ root.T + 2.0 * y[:, None]
    return cls().fit(X, y)


def draw_from_class(clf, k, n, rng):
    """A new observation: parameters from the posterior, then a Gaussian with these."""
    drawn = clf.sample_posterior(n, random_state=int(rng.integers(2**31)))
    root = np.linalg.cholesky(drawn.Sigma[:, k])
    return drawn.mu[:, k] + np.einsum("nij,nj->ni", root, rng.normal(size=drawn.mu[:, k].shape))


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_the_p_value_of_each_class_is_uniform_on_new_members(cls, rng):
    clf = fit(cls, rng)
    for k in range(3):
        p_value = clf.typicality(draw_from_class(clf, k, 8000, rng), per_class=True)[:, k]
        assert stats.kstest(p_value, "uniform").pvalue > CHANCE


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_draws_from_the_predictive_itself(cls, rng):
    clf = fit(cls, rng)
    fresh = clf.posterior_.predictive().sample(8000, rng)
    for k in range(3):
        p_value = clf.typicality(fresh[:, k], per_class=True)[:, k]
        assert stats.kstest(p_value, "uniform").pvalue > CHANCE


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_few_known_samples_look_strange(cls, rng):
    """The largest over the classes: at most a fraction a falls below a."""
    clf = fit(cls, rng)
    n = 8000
    k = rng.choice(3, n, p=[0.2, 0.5, 0.3])
    x = np.stack([draw_from_class(clf, j, n, rng) for j in range(3)])[k, np.arange(n)]
    largest = clf.typicality(x)
    np.testing.assert_array_equal(largest, clf.typicality(x, per_class=True).max(1))
    for a in (0.001, 0.01, 0.05, 0.1, 0.3, 0.5, 0.9):
        assert (largest <= a).mean() <= a + 4 * np.sqrt(a * (1 - a) / n)


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("kind", ["pooled", "repeats", "draws", "shared"])
def test_what_looks_like_nothing_is_seen(cls, kind, rng):
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 4, 2)) * 0.2 + y[:, None, None] + rng.normal(size=(90, 1, 2))
    clf = cls(realisations=kind).fit(X, y)
    far, near = clf.typicality(np.full((1, 4, 2), 100.0)), clf.typicality(np.full((1, 4, 2), 1.0))
    assert far < 1e-6
    assert near > 0.3
    everything = clf.typicality(X, per_class=True)
    assert ((everything >= 0) & (everything <= 1)).all()


def test_of_realisations_the_mean_is_taken(rng):
    clf = fit(BayesianQDA, rng)
    x = 3 * rng.normal(size=(5, 7, 4))
    each = np.stack([clf.typicality(x[:, r], per_class=True) for r in range(7)])
    np.testing.assert_allclose(clf.typicality(x, per_class=True), each.mean(0), rtol=1e-12)


def test_repeats_are_typical_at_any_number_of_repeats():
    """New members measured with fewer or more repeats than the training data: still near uniform."""
    rng = np.random.default_rng(5)
    y = np.repeat([0, 1], 3000)
    truth = rng.normal(size=(6000, 2)) + 2.0 * y[:, None]
    X = truth[:, None, :] + 1.0 * rng.normal(size=(6000, 4, 2))
    clf = BayesianQDA(realisations="repeats").fit(X, y)
    new = rng.normal(size=(8000, 2))
    for R in (1, 2, 4, 8, 50):
        x = new[:, None, :] + 1.0 * rng.normal(size=(8000, R, 2))
        p_value = clf.typicality(x, per_class=True)[:, 0]
        for a in (0.05, 0.5):
            assert (p_value <= a).mean() == pytest.approx(a, abs=0.02)
