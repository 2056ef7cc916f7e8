"""What realisations mean: the four kinds against simulations in which the truth is known."""

import numpy as np
import pytest
from benchmarks.realisations import brier_of_repeats, common_error, coverage_of_means
from scipy import stats

from uncover import BayesianLDA, BayesianNB, BayesianQDA

ESTIMATORS = [BayesianQDA, BayesianLDA, BayesianNB]


# ---- the published problem ---------------------------------------------------------------------------


def test_repeats_beat_pooling_on_the_published_problem():
    """Two data sets of p = 10, noise 1, 100 repeats; the ratio over 12 is measured by the slow test."""
    assert brier_of_repeats(2)["ratio"] > 20


@pytest.mark.slow
def test_repeats_beat_pooling_twentyfold_over_twelve_data_sets():
    assert brier_of_repeats(12)["ratio"] >= 20


def test_credible_regions_of_repeats_cover_and_pooled_ones_do_not():
    """160 regions with n = 800, p = 10: within four standard errors of 0.90, and far from it."""
    covered = coverage_of_means(160, kinds=("repeats", "pooled"))
    assert abs(covered["repeats"] - 0.90) < 4 * np.sqrt(0.9 * 0.1 / 160)
    assert covered["pooled"] < 0.25


@pytest.mark.slow
def test_credible_regions_of_repeats_cover_nine_in_ten():
    assert 0.88 <= coverage_of_means(4000)["repeats"] <= 0.92


def test_the_weak_prior_under_covers_with_few_samples_of_many_features():
    """Stated, not hidden: at n = p + 2 the regions are too small; at n = 50 p they are right."""
    few = coverage_of_means(800, p=10, n=12, n_repeats=2)["repeats"]
    many = coverage_of_means(800, p=2, n=100, n_repeats=2)["repeats"]
    assert few < 0.85
    assert abs(many - 0.90) < 4 * np.sqrt(0.9 * 0.1 / 800)


# ---- an error common to a scene ------------------------------------------------------------------------


def test_a_common_error_cancels_within_its_scene_and_is_averaged_in_another():
    table = {name: mean for name, (mean, _) in common_error(6, n_worlds=25, n=150).items()}
    assert table["same scene, shared"] == pytest.approx(table["same scene, no error"], rel=1e-10)
    assert table["other scene, shared"] < 0.5 * table["other scene, ignored"]
    assert table["other scene, shared"] < table["other scene, draws"]


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_within_its_scene_a_common_error_changes_no_probability(cls, rng):
    y = np.arange(60) % 3
    X, new = rng.normal(size=(60, 2)) + y[:, None], rng.normal(size=(8, 2))
    error = 3.0 * rng.normal(size=(10, 2))
    shared = cls(realisations="shared").fit(X[:, None, :] + error, y)
    plain = cls().fit(X, y)
    np.testing.assert_allclose(
        shared.predict_proba(new[:, None, :] + error), plain.predict_proba(new), atol=1e-10
    )


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_each_world_is_a_model_of_its_own(cls, rng):
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 4, 2)) + y[:, None, None]
    new = rng.normal(size=(8, 4, 2))
    worlds = [cls().fit(X[:, r], y) for r in range(4)]
    shared = cls(realisations="shared").fit(X, y)
    paired = np.mean([worlds[r].predict_proba(new[:, r]) for r in range(4)], axis=0)
    np.testing.assert_allclose(shared.predict_proba(new), paired, atol=1e-12)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_without_an_error_another_scene_is_no_other(cls, rng):
    y = np.arange(60) % 3
    X, new = rng.normal(size=(60, 2)) + y[:, None], rng.normal(size=(8, 2))
    shared = cls(realisations="shared").fit(np.repeat(X[:, None], 5, axis=1), y)
    found = shared.predict_proba(np.repeat(new[:, None], 5, axis=1), paired=False)
    np.testing.assert_allclose(found, cls().fit(X, y).predict_proba(new), atol=1e-8)


def test_worlds_and_realisations_of_different_number(rng):
    y = np.arange(30) % 2
    X = rng.normal(size=(30, 4, 2)) + y[:, None, None]
    clf = BayesianQDA(realisations="shared").fit(X, y)
    with pytest.raises(ValueError, match=r"X has 3 realisations and the model 4 worlds.*paired=False"):
        clf.predict(X[:, :3])
    assert clf.predict_proba(X[:, :3], paired=False).shape == (30, 2)


# ---- repeats ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_repeats_count_by_their_means(cls, rng):
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 5, 3)) + y[:, None, None]
    new = rng.normal(size=(6, 5, 3))
    repeats, plain = cls(realisations="repeats").fit(X, y), cls().fit(X.mean(1), y)
    np.testing.assert_allclose(repeats.predict_proba(new), plain.predict_proba(new.mean(1)), atol=1e-12)
    np.testing.assert_array_equal(repeats.class_count_, [20, 20])


def test_noise_of_repeats_is_the_pooled_within_sample_covariance(rng):
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 5, 3)) * [1.0, 2.0, 3.0] + 10 * rng.normal(size=(40, 1, 3))
    measurement = BayesianQDA(realisations="repeats").fit(X, y).measurement_
    centred = (X - X.mean(1, keepdims=True)).reshape(-1, 3)
    np.testing.assert_allclose(measurement.covariance, centred.T @ centred / (40 * 4), rtol=1e-12)
    assert measurement.dof == 160
    assert measurement.number == 5


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_fewer_repeats_are_calibrated(cls):
    """Trained on 8 repeats, asked with 1, 2, 8 or 40: as good as knowing the classes and the noise."""
    rng = np.random.default_rng(2)
    n, K, p, noise = 3000, 3, 2, 1.0
    y = np.repeat(np.arange(K), n)
    means = np.array([[0.0, 0.0], [2.0, 0.5], [0.5, 2.0]])
    truth = means[y] + 0.7 * rng.normal(size=(K * n, p))
    clf = cls(realisations="repeats").fit(truth[:, None, :] + noise * rng.normal(size=(K * n, 8, p)), y)
    fresh = means[y] + 0.7 * rng.normal(size=(K * n, p))
    for R in (1, 2, 8, 40):
        x = fresh[:, None, :] + noise * rng.normal(size=(K * n, R, p))
        variance = 0.7**2 + noise**2 / R
        d2 = ((x.mean(1)[:, None, :] - means) ** 2).sum(-1)
        ideal = np.exp(-0.5 * d2 / variance)
        ideal /= ideal.sum(1, keepdims=True)
        found = clf.predict_proba(x)
        rows = np.arange(len(y))
        loss, best = -np.log(found[rows, y]).mean(), -np.log(ideal[rows, y]).mean()
        assert loss < best + 0.01
        assert np.abs(found - ideal).mean() < 0.02


def test_one_repeat_after_many_is_the_convolved_predictive():
    """One feature: the predictive of a mean of R convolved with the missing noise, on a grid."""
    rng = np.random.default_rng(4)
    y = np.repeat([0, 1], [6, 9])
    X = rng.normal(size=(15, 1, 1)) + 1.5 * y[:, None, None] + 0.9 * rng.normal(size=(15, 4, 1))
    clf = BayesianQDA(realisations="repeats").fit(X, y)
    s2 = X[..., 0].var(axis=1, ddof=1).mean()
    missing = np.sqrt((1 / 1 - 1 / 4) * s2)
    grid = np.linspace(-40, 40, 80_001)
    x = np.array([-1.0, 0.6, 2.5])
    columns = []
    for k in (0, 1):
        mine = X[y == k, :, 0].mean(1)
        N, v = len(mine), mine.var(ddof=1)
        psi = v / 4 + (N - 1) * v
        t = stats.t(N + 3, mine.mean(), np.sqrt((N + 1) / (N * (N + 3)) * psi)).pdf(grid)
        columns.append([(N + 1) * (t * stats.norm.pdf(point, grid, missing)).sum() for point in x])
    expected = np.array(columns).T / np.sum(columns, 0)[:, None]
    np.testing.assert_allclose(clf.predict_proba(x[:, None]), expected, atol=1e-7)


# ---- draws and pooled --------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_pooled_realisations_are_rows(cls, rng):
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 5, 3)) + y[:, None, None]
    pooled, plain = cls().fit(X, y), cls().fit(X.reshape(-1, 3), np.repeat(y, 5))
    expected = np.mean([plain.predict_proba(X[:6, r]) for r in range(5)], axis=0)
    np.testing.assert_allclose(pooled.predict_proba(X[:6]), expected, atol=1e-12)
    np.testing.assert_array_equal(pooled.class_count_, [100, 100])


def test_pooling_counts_the_noise_of_draws_twice_and_draws_take_it_out(rng):
    """Draws around a measurement that has the noise already: pooled sees Σ + 2Σ_x, draws see Σ."""
    n = 3000
    truth, noise = rng.normal(size=(n, 1)), 0.8
    measured = truth + noise * rng.normal(size=(n, 1))
    X, y = measured[:, None, :] + noise * rng.normal(size=(n, 20, 1)), np.arange(n) % 2
    pooled, draws = (
        BayesianQDA(realisations=kind).fit(X, y).covariances_[0, 0, 0] for kind in ("pooled", "draws")
    )
    assert pooled == pytest.approx(1 + 2 * noise**2, rel=0.1)
    assert draws == pytest.approx(1, rel=0.15)
