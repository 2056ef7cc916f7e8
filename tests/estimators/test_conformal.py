"""Prediction sets: coverage for every class by simulation, with realisations and covariances."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from uncover import BayesianLDA, BayesianNB, BayesianQDA, ConformalSets, Measured


def draw(rng, n, shares=(0.6, 0.3, 0.1)):
    y = rng.choice(3, size=n, p=shares)
    X = rng.standard_t(3, size=(n, 2)) * [1.0, 2.0] + 1.5 * y[:, None]
    return X, y


def assert_covered(hits, number, kept, simulations, coverage=0.8):
    """Exact up to 1/(n_k+1) of the n_k kept samples; between simulations it varies by √(c(1−c)/n_k)."""
    spread = coverage * (1 - coverage)
    for k, n in enumerate(kept):
        error = np.sqrt(spread / n / simulations + spread / number[k])
        assert coverage - 4 * error < hits[k] / number[k] < coverage + 1 / (n + 1) + 4 * error


def test_every_class_is_covered(rng):
    """A model that is wrong (Gaussian and independent, for Student's t): the sets hold nevertheless."""
    hits, number = np.zeros(3), np.zeros(3)
    for _ in range(60):
        X, y = draw(rng, 500)
        sets = ConformalSets(BayesianNB(), coverage=0.8, random_state=1).fit(X, y)
        new, truth = draw(rng, 300)
        inside = sets.predict_set(new)[np.arange(300), truth]
        hits += np.bincount(truth, inside, 3)
        number += np.bincount(truth, minlength=3)
    assert_covered(hits, number, (90, 45, 15), 60)


@pytest.mark.parametrize("kind", ["pooled", "repeats", "draws", "shared", "covariances"])
def test_every_class_is_covered_with_known_uncertainty(kind, rng):
    """Realisations of each meaning, and a covariance of each sample's own, in calibration and prediction."""
    hits, number, simulations = np.zeros(3), np.zeros(3), 25

    def measured(n):
        X, y = draw(rng, n)
        if kind == "covariances":
            variance = rng.uniform(0.05, 1.0, (n, 2))
            return Measured(X + np.sqrt(variance) * rng.normal(size=(n, 2)), variance), y
        shift = 0.3 * np.random.default_rng(1).normal(size=(1, 3, 2))  # the same for all, in "shared" worlds
        noise = shift if kind == "shared" else 0.5 * rng.normal(size=(n, 3, 2))
        return X[:, None] + noise, y

    model = BayesianQDA() if kind == "covariances" else BayesianQDA(realisations=kind)
    for _ in range(simulations):
        X, y = measured(300)
        sets = ConformalSets(model, coverage=0.8, random_state=1).fit(X, y)
        new, truth = measured(200)
        inside = sets.predict_set(new)[np.arange(200), truth]
        hits += np.bincount(truth, inside, 3)
        number += np.bincount(truth, minlength=3)
    assert_covered(hits, number, (54, 27, 9), simulations)


def test_p_values_are_ranks_among_the_kept_samples(rng):
    X, y = draw(rng, 400)
    model = BayesianQDA().fit(X[:200], y[:200])
    sets = ConformalSets(model, coverage=0.7).calibrate(X[200:], y[200:])
    new = X[:5]
    P, Q = (model.predict_proba(each).round(4) for each in (new, X[200:]))
    for k in range(3):
        kept = Q[y[200:] == k, k]
        expected = [(1 + (kept <= P[i, k]).sum()) / (1 + len(kept)) for i in range(5)]
        np.testing.assert_allclose(sets.p_values(new)[:, k], expected)
    np.testing.assert_array_equal(sets.predict_set(new), sets.p_values(new) > 0.3)


def test_a_higher_coverage_never_makes_a_set_smaller(rng):
    X, y = draw(rng, 900)
    low, high = (ConformalSets(BayesianLDA(), coverage=c).fit(X, y).predict_set(X) for c in (0.6, 0.9))
    assert (high >= low).all()
    assert high.sum() > low.sum()


@pytest.mark.parametrize("kind", ["pooled", "repeats", "draws", "shared"])
def test_realisations(kind, rng):
    X, y = draw(rng, 600)
    several = X[:, None] + 0.2 * rng.normal(size=(600, 3, 2))
    sets = ConformalSets(BayesianQDA(realisations=kind), coverage=0.8).fit(several, y)
    inside = sets.predict_set(several)[np.arange(600), y]
    assert inside.mean() > 0.7


def test_covariances(rng):
    X, y = draw(rng, 600)
    common, own = np.array([0.1, 0.1]), rng.uniform(0.05, 0.2, (600, 2))
    for noise in (common, own):
        sets = ConformalSets(BayesianQDA(), coverage=0.8).fit(X, y, X_cov=noise)
        same = ConformalSets(BayesianQDA(), coverage=0.8).fit(Measured(X, noise), y)
        np.testing.assert_allclose(sets.p_values(X, X_cov=noise), same.p_values(Measured(X, noise)))


class Memory(ClassifierMixin, BaseEstimator):
    """Remembers the samples that it was fitted to and asked about, by their number in X."""

    def fit(self, X, y):
        self.classes_, self.trained_, self.asked_ = np.unique(y), X[:, 0], np.empty(0)
        return self

    def predict_proba(self, X):
        self.asked_ = np.append(self.asked_, X[:, 0])
        return np.full((len(X), len(self.classes_)), 0.5)


def test_groups_are_kept_together():
    groups, y = np.arange(200) // 5, np.arange(200) % 2
    model = ConformalSets(Memory()).fit(np.arange(200.0)[:, None], y, groups=groups).estimator_
    train, kept = groups[model.trained_.astype(int)], groups[model.asked_.astype(int)]
    assert not set(train) & set(kept)
    assert len(train) + len(kept) == 200


def test_other_groups_are_covered(rng):
    """Samples of a group have an error in common: the sets hold for samples of groups never seen."""
    hits, number, simulations, kept = np.zeros(2), np.zeros(2), 150, 12

    def draw_groups(n):
        groups, y = np.repeat(np.arange(n), 10), np.repeat(np.arange(n) % 2, 10)
        common = rng.normal(size=(n, 2))[groups]
        return 1.5 * y[:, None] + common + 0.3 * rng.normal(size=(10 * n, 2)), y, groups

    for _ in range(simulations):
        X, y, groups = draw_groups(80)
        sets = ConformalSets(BayesianLDA(), coverage=0.8, kept=0.3).fit(X, y, groups=groups)
        assert [round(counts.sum()) for counts in sets.counts_] == [kept, kept]
        new, truth, _ = draw_groups(20)
        inside = sets.predict_set(new)[np.arange(200), truth]
        hits += np.bincount(truth, inside)
        number += np.bincount(truth) / 10  # groups
    assert_covered(hits / 10, number, (kept, kept), simulations)


def test_p_values_of_groups_are_mean_shares(rng):
    X, y = draw(rng, 400)
    groups = rng.integers(40, size=400)
    model = BayesianQDA().fit(X[:200], y[:200])
    sets = ConformalSets(model, coverage=0.7).calibrate(X[200:], y[200:], groups=groups[200:])
    P, Q, g = model.predict_proba(X[:5]).round(4), model.predict_proba(X[200:]).round(4), groups[200:]
    for k in range(3):
        mine = y[200:] == k
        own = [Q[mine & (g == one), k] for one in np.unique(g[mine])]
        expected = [(1 + sum((q <= P[i, k]).mean() for q in own)) / (1 + len(own)) for i in range(5)]
        np.testing.assert_allclose(sets.p_values(X[:5])[:, k], expected)
    np.testing.assert_array_equal(sets.predict_set(X[:5]), sets.p_values(X[:5]) > 0.3)


def test_groups_of_each_class_train_and_are_kept(rng):
    """A class of few groups is never kept, or left to the model, as a whole; the model gets the groups."""
    y = np.repeat([0, 1, 2], [300, 300, 80])
    groups = np.arange(680) // 10
    X = rng.normal(size=(680, 2)) + 2.0 * y[:, None]
    for seed in range(10):
        sets = ConformalSets(BayesianLDA(calibration="loo"), coverage=0.6, random_state=seed)
        sets.fit(X, y, groups=groups)
        assert [round(counts.sum()) for counts in sets.counts_] == [9, 9, 2]
    alone = BayesianLDA(calibration="loo")
    train, _ = sets._split(y, groups)
    alone.fit(X[train], y[train], groups=groups[train])
    assert sets.estimator_.temperature_ == alone.temperature_


def test_as_many_samples_as_the_definition_needs_are_enough(rng):
    """p > 0.1 can be false for one of 9 kept samples: (1 + 0)/(1 + 9)."""
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 1)) + 3.0 * y[:, None]
    model = BayesianLDA().fit(X[:20], y[:20])
    nine = ConformalSets(model, coverage=0.9).calibrate(X[20:38], y[20:38])
    assert [len(scores) for scores in nine.scores_] == [9, 9]
    assert nine.predict_set([[0.0], [30.0]])[0].any()
    with pytest.raises(
        ValueError, match=r"has 8 samples to calibrate with; sets of coverage 0.9 need 9 of each"
    ):
        ConformalSets(model, coverage=0.9).calibrate(X[20:36], y[20:36])


def test_too_few_samples_and_bad_coverage_are_refused(rng):
    X, y = draw(rng, 60, shares=(0.5, 0.4, 0.1))
    with pytest.raises(ValueError, match=r"samples to calibrate with; sets of coverage 0.99 need 99 of each"):
        ConformalSets(BayesianLDA(), coverage=0.99).fit(X, y)
    with pytest.raises(ValueError, match="coverage must be between 0 and 1, got 90"):
        ConformalSets(BayesianLDA(), coverage=90).fit(X, y)
