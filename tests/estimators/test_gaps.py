"""Training samples that lack features: laws, simulations, and what is said where little is there."""

import warnings

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from uncover import (
    NIW,
    BayesianClassifier,
    BayesianLDA,
    BayesianMDA,
    BayesianNB,
    BayesianQDA,
    ConformalSets,
    MeasurementAware,
    RealisationEnsemble,
    load_model,
)

SINGLE = [BayesianQDA, BayesianLDA, BayesianNB]
P, K = 4, 3


def draw(n, rng):
    """Samples of three Gaussian classes, with their means and covariances."""
    roots, means = (
        np.random.default_rng(5).normal(size=(K, P, P)),
        2.0 * np.random.default_rng(6).normal(size=(K, P)),
    )
    y = np.arange(n) % K
    return means[y] + np.einsum("nij,nj->ni", roots[y], rng.normal(size=(n, P))), y, means, roots @ roots.mT


def hide(X, share, rng):
    """Values missing at random, one of each sample kept."""
    gone = rng.random(X.shape) < share
    gone[np.arange(len(X)), rng.integers(X.shape[1], size=len(X))] = False
    return np.where(gone, np.nan, X)


def log_loss(P, y):
    return -np.log(np.maximum(P[np.arange(len(y)), y], 1e-9)).mean()


@pytest.fixture
def problem(rng):
    X, y, _, _ = draw(150, rng)
    return hide(X, 0.3, rng), y


# ---- laws ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", SINGLE)
@pytest.mark.parametrize("prior", ["weak", "jeffreys"])
def test_samples_without_any_feature_tell_of_proportions_only(cls, prior, problem):
    """Far from all samples being filled in: means, covariances and degrees of freedom stay."""
    X, y = problem
    more = np.concatenate([X, np.full((60, P), np.nan)])
    labels = np.concatenate([y, np.zeros(60, int)])
    plain, longer = cls(prior=prior).fit(X, y), cls(prior=prior).fit(more, labels)
    np.testing.assert_allclose(longer.means_, plain.means_, atol=1e-6)
    np.testing.assert_allclose(longer.covariances_, plain.covariances_, atol=1e-5)
    for name in ("dof", "strength", "mean_covariance"):
        found, expected = (getattr(clf.posterior_, name) for clf in (longer, plain))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(longer.class_count_, plain.class_count_ + 60.0 * (np.arange(K) == 0))


@pytest.mark.parametrize("cls", SINGLE)
@pytest.mark.parametrize("prior", ["weak", "evidence", "jeffreys"])
def test_the_fit_without_gaps_is_the_limit(cls, prior, rng):
    X, y, _, _ = draw(600, rng)
    new, away = draw(200, rng)[0], []
    whole = cls(prior=prior).fit(X, y).predict_proba(new)
    for n in (60, 6, 1):
        some = X.copy()
        some[:n, 1] = np.nan
        away.append(np.abs(cls(prior=prior).fit(some, y).predict_proba(new) - whole).max())
    assert away[2] < 0.01
    assert away[2] < 0.5 * away[0]


@pytest.mark.parametrize("cls", [*SINGLE, BayesianMDA, BayesianClassifier])
def test_whole_samples_are_learned_from_as_ever(cls, rng):
    X, y, _, _ = draw(90, rng)
    found = [cls(missing=missing).fit(X, y).predict_proba(X) for missing in ("error", "marginalise")]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("cls", SINGLE)
def test_partial_fit_on_any_split_is_fit(cls, problem):
    X, y = problem
    X = X.copy()
    X[:40] = np.nan_to_num(X[:40])  # a batch without gaps
    whole = cls().fit(X, y)
    for edges in ((40,), (30, 40, 100), (75,)):
        clf = cls()
        for rows in np.split(np.arange(len(y)), edges):
            clf.partial_fit(X[rows], y[rows], classes=[0, 1, 2])
        np.testing.assert_allclose(clf.means_, whole.means_, atol=1e-6)
        np.testing.assert_allclose(clf.covariances_, whole.covariances_, atol=1e-5)
        np.testing.assert_allclose(clf.posterior_.dof, whole.posterior_.dof, rtol=1e-6)


@pytest.mark.parametrize("cls", SINGLE)
def test_a_weight_of_two_is_two_samples(cls, problem):
    X, y = problem
    weight = np.where(np.arange(len(y)) < 50, 2.0, 1.0)
    twice = cls().fit(np.concatenate([X, X[:50]]), np.concatenate([y, y[:50]]))
    weighed = cls().fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(weighed.predict_proba(X), twice.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("cls", SINGLE)
@pytest.mark.parametrize("prior", ["weak", "evidence"])
def test_known_noise_that_vanishes_leaves_the_fit_through_gaps(cls, prior, problem):
    """Another iteration, in which what is missing has noise of 10⁸ variances."""
    X, y = problem
    plain = cls(prior=prior).fit(X, y)
    with pytest.warns(UserWarning, match="same units"):
        noisy = cls(prior=prior).fit(X, y, X_cov=np.full(P, 1e-10))
    size = np.abs(plain.covariances_).max()
    atol = 1e-6 if prior == "evidence" else 0.05  # the weak prior has the variance by restricted likelihood
    np.testing.assert_allclose(noisy.means_, plain.means_, atol=atol)
    np.testing.assert_allclose(noisy.covariances_ / size, plain.covariances_ / size, atol=atol)


def test_features_that_are_missing_at_prediction_are_those_of_a_model_of_the_others(problem):
    """Of a model that was itself learned through gaps; the others show what they showed."""
    X, y = problem
    whole = BayesianNB().fit(X, y)
    others = BayesianNB(class_prior=1.0).fit(X[:, [0, 2]], y)
    new = X.copy()
    new[:, [1, 3]] = np.nan
    some = ~np.isnan(new).all(1)
    # The weak prior of p features has K^(2/p) in it: compared are priors of the same scale.
    prior = NIW(np.zeros(P), 1.0, np.eye(P), P + 2.0)
    whole = BayesianNB(prior=prior).fit(X, y)
    others = BayesianNB(prior=prior.select_features([0, 2])).fit(X[:, [0, 2]], y)
    found, expected = whole.predict_proba(new[some]), others.predict_proba(X[some][:, [0, 2]])
    np.testing.assert_allclose(found, expected, atol=1e-8)


# ---- simulations --------------------------------------------------------------------------------------


def test_values_missing_at_random_leave_no_bias():
    """A feature hides where another is large. Samples that are whole, alone, would be biased by far."""
    rng, means, covariances, of_whole = np.random.default_rng(1), [], [], []
    for _ in range(30):
        X, y, mean, covariance = draw(1500, rng)
        high = X[:, 0] > mean[y, 0]
        X[high & (rng.random(len(X)) < 0.8), 1:3] = np.nan
        X[~high & (rng.random(len(X)) < 0.3), 3] = np.nan
        clf, unit = BayesianQDA().fit(X, y), np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        means.append((clf.means_ - mean) / unit)
        covariances.append((clf.covariances_ - covariance) / (unit[:, :, None] * unit[:, None, :]))
        good = ~np.isnan(X).any(1)
        of_whole.append((np.stack([X[good & (y == k)].mean(0) for k in range(K)]) - mean) / unit)
    for found, prior in ((means, 0.0), (covariances, 0.004)):  # the weak prior is worth 2 of 500 samples
        error = np.std(found, axis=0) / np.sqrt(len(found))
        assert np.all(np.abs(np.mean(found, axis=0)) < 4.0 * error + prior)
    assert np.abs(np.mean(of_whole, axis=0)).max() > 0.2


@pytest.mark.parametrize(
    ("cls", "prior"), [(BayesianQDA, "weak"), (BayesianQDA, "evidence"), (BayesianLDA, "weak")]
)
@pytest.mark.parametrize("share", [0.4, 0.7])
def test_a_class_seen_through_gaps_is_known_less(cls, prior, share):
    """It is no surer than the fit to as many whole samples as show a pair of features."""
    n, surplus = 40, {"gaps": [], "fewer": [], "ignored": []}
    for seed in range(15):
        rng = np.random.default_rng(seed)
        (X, y, _, _), (new, truth, _, _) = draw(K * n, rng), draw(600, rng)
        few = K * max(round((1.0 - share) ** 2 * n), 3)
        cases = {"gaps": (np.where(rng.random(X.shape) < share, np.nan, X), y), "fewer": (X[:few], y[:few])}
        for name, (values, labels) in cases.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                P_k = cls(prior=prior).fit(values, labels).predict_proba(new)
            surplus[name].append(P_k.max(1).mean() - (P_k.argmax(1) == truth).mean())
    assert np.mean(surplus["gaps"]) < np.mean(surplus["fewer"]) + 0.01


def test_typicality_of_new_members(rng):
    below = []
    for _ in range(20):
        X, y, _, _ = draw(240, rng)
        new, truth, _, _ = draw(300, rng)
        p = BayesianQDA().fit(hide(X, 0.4, rng), y).typicality(hide(new, 0.4, rng), per_class=True)
        below.append((p[np.arange(300), truth] < 0.1).mean())
    assert 0.05 < np.mean(below) < 0.115


# ---- the recommended classifier, and any other ------------------------------------------------------------


def test_the_pool_learns_more_than_from_values_that_are_filled_in(rng):
    X, y, _, _ = draw(300, rng)
    new, truth, _, _ = draw(600, rng)
    X, new = hide(X, 0.5, rng), hide(new, 0.5, rng)
    centre = np.nanmean(X, axis=0)
    ours = BayesianClassifier().fit(X, y).predict_proba(new)
    filled = [np.where(np.isnan(each), centre, each) for each in (X, new)]
    assert log_loss(ours, truth) < 0.9 * log_loss(
        BayesianClassifier().fit(filled[0], y).predict_proba(filled[1]), truth
    )


def test_labels_do_not_leak_into_what_members_are_asked(rng):
    """Where X tells nothing of the class, draws that know the class would make members look right."""
    X, y = rng.normal(size=(120, 3)), np.arange(120) % 2
    X[rng.random(X.shape) < 0.6] = np.nan
    new = rng.normal(size=(400, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = BayesianClassifier().fit(X, y)
    assert log_loss(clf.predict_proba(new), np.arange(400) % 2) < np.log(2.0) + 0.05


def test_the_pool_is_the_same_again_and_in_any_batch(problem):
    X, y = problem
    one, two = (BayesianClassifier().fit(X, y) for _ in range(2))
    together = one.predict_proba(X)
    np.testing.assert_array_equal(together, two.predict_proba(X))
    np.testing.assert_allclose(
        np.concatenate([one.predict_proba(X[[i]]) for i in range(8)]), together[:8], atol=1e-12
    )
    np.testing.assert_allclose(one.means_, BayesianQDA(prior="evidence").fit(X, y).means_, atol=0.02)
    budget = one.uncertainty(X[:10])
    np.testing.assert_allclose(budget.model + budget.measurement + budget.overlap, budget.total, atol=1e-12)
    assert (one.typicality(X) > 0).all()
    assert (one.unknown_proba(X) < 1).all()


@pytest.mark.parametrize(
    "options", [{"groups": np.arange(150) // 6}, {"sample_weight": np.arange(150) % 4.0}]
)
def test_the_pool_takes_gaps_with_groups_and_weights(options, problem):
    X, y = problem
    assert log_loss(BayesianClassifier().fit(X, y, **options).predict_proba(X), y) < 0.7


@pytest.mark.parametrize("cls", [*SINGLE, BayesianMDA, BayesianClassifier])
def test_gaps_and_known_noise_together(cls, problem, rng):
    X, y = problem
    noise = rng.uniform(0.05, 0.3, X.shape)
    assert log_loss(cls().fit(X, y, X_cov=noise).predict_proba(X, X_cov=noise), y) < 0.7


@pytest.mark.parametrize("noise", [None, 0.1])
def test_any_classifier_learns_through_gaps(noise, problem, rng):
    X, y = problem
    X_cov = None if noise is None else np.full(P, noise)
    new, truth, _, _ = draw(300, rng)
    new = hide(new, 0.3, rng)
    forest = MeasurementAware(RandomForestClassifier(30)).fit(X, y, X_cov=X_cov)
    assert log_loss(forest.predict_proba(new, X_cov=X_cov), truth) < 0.6
    if noise is None:
        with pytest.raises(ValueError, match="fit with X_cov too"):
            forest.predict_proba(new, X_cov=np.ones(P))
        with pytest.raises(ValueError, match="what is missing is not known"):
            MeasurementAware(RandomForestClassifier(5)).fit(np.nan_to_num(X), y).predict_proba(new)


def test_components_are_found_through_gaps(rng):
    y = np.arange(300) % 2
    X = rng.normal(size=(300, 2)) + np.where(y == 0, rng.choice([-6.0, 6.0], 300), 0.0)[:, None]
    clf = BayesianMDA().fit(hide(X, 0.2, rng), y)
    assert [part.label for part in clf.components_] == [0, 0, 1]


@pytest.mark.parametrize("options", [{"calibration": "loo"}, {"label_noise": "learn"}])
def test_calibration_and_wrong_labels(options, problem):
    X, y = problem
    clf = BayesianLDA(**options).fit(X, y)
    assert log_loss(clf.predict_proba(X), y) < 0.9
    soft = BayesianQDA().fit(X, label_proba=0.8 * np.eye(K)[y] + 0.2 / K)
    assert log_loss(soft.predict_proba(X), y) < 0.8


def test_pipelines_and_tags(problem):
    X, y = problem
    for clf in (
        BayesianQDA(),
        BayesianClassifier(),
        BayesianMDA(),
        MeasurementAware(RandomForestClassifier()),
    ):
        assert get_tags(clf).input_tags.allow_nan
    assert not get_tags(BayesianQDA(missing="error")).input_tags.allow_nan
    pipe = make_pipeline(StandardScaler(), BayesianQDA(prior="evidence")).fit(X, y)
    expected = BayesianQDA(prior="evidence").fit(X, y).predict_proba(X)
    np.testing.assert_allclose(pipe.predict_proba(X), expected, atol=1e-6)
    sets = ConformalSets(BayesianQDA(), coverage=0.8).fit(X, y)
    assert sets.predict_set(X).any()


# ---- where little is there, or nothing ---------------------------------------------------------------------


def test_a_feature_that_no_sample_has_is_ignored(problem):
    X, y = problem
    X = np.concatenate([X, np.full((len(X), 1), np.nan)], axis=1)
    new = np.nan_to_num(X, nan=0.5)
    for cls in (*SINGLE, BayesianClassifier):
        with pytest.warns(UserWarning, match=r"feature\(s\) 4 have no value in any sample and are ignored"):
            clf = cls().fit(X, y)
        without = cls().fit(X[:, :P], y)
        atol = 0.1 if cls is BayesianClassifier else 1e-9  # its trees and draws have other random numbers
        np.testing.assert_allclose(clf.predict_proba(new), without.predict_proba(new[:, :P]), atol=atol)
        np.testing.assert_allclose(clf.typicality(new), without.typicality(new[:, :P]), atol=atol)
    with pytest.raises(ValueError, match=r"every feature of X is constant, .* or has no value"):
        BayesianQDA().fit(np.full((6, 2), np.nan), [0, 1] * 3)


@pytest.mark.parametrize("cls", SINGLE)
@pytest.mark.parametrize("prior", ["weak", "evidence"])
def test_a_feature_that_a_class_never_shows(cls, prior, problem):
    """Its mean is that of all samples, as uncertain as one of these: it speaks neither for nor against."""
    X, y = problem
    X = np.where((y == 2)[:, None] & (np.arange(P) == 1), np.nan, X)
    X, y = (each[~np.isnan(X).all(1)] for each in (X, y))
    with pytest.warns(UserWarning, match=r"class\(es\) 2 have no value in feature\(s\) 1"):
        clf = cls(prior=prior).fit(X, y)
    spread = np.nanvar(X[:, 1])
    assert clf.posterior_.mean_covariance[2, 1, 1] > 0.9 * spread
    assert np.isfinite(clf.predict_proba(np.nan_to_num(X))).all()
    shown = clf.predict_proba(X)
    assert log_loss(shown, y) < 0.9


def test_a_prior_says_what_no_sample_does(problem):
    X, y = problem
    X = X.copy()
    X[:, 3] = np.nan
    prior = NIW(np.full(P, 7.0), 2.0, np.eye(P), P + 4.0)
    posterior = BayesianQDA(prior=prior).fit(X, y).posterior_
    np.testing.assert_allclose(posterior.mean[:, 3], 7.0, atol=1e-3)
    np.testing.assert_allclose(posterior.dof - P - 1, 1 / np.mean(1 / posterior.pair_weight, axis=(1, 2)))
    np.testing.assert_allclose(posterior.pair_weight[:, 3, 3], 3.0)


def test_a_class_of_few_values(problem):
    X, y = problem
    rows = np.flatnonzero(y == 2)
    X = X.copy()
    X[rows[2:]] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = BayesianQDA(prior="evidence").fit(X, y)
        pool = BayesianClassifier().fit(X, y)
    assert clf.posterior_.strength[2] < 4
    for each in (clf, pool):
        assert np.isfinite(each.predict_proba(np.nan_to_num(X))).all()


def test_samples_without_any_feature_in_the_pool(problem):
    X, y = problem
    X = np.concatenate([X, np.full((6, P), np.nan)])
    y = np.concatenate([y, np.arange(6) % K])
    clf = BayesianClassifier().fit(X, y)
    with pytest.warns(UserWarning, match="no feature at all"):
        found = clf.predict_proba(X[-2:])
    np.testing.assert_allclose(found, 1.0 / K, atol=0.1)


def test_jeffreys_needs_samples_that_show_any_two_features(problem):
    X, y = problem
    X = np.where((np.arange(len(y)) % 2 == 0)[:, None] == (np.arange(P) < 2), X, np.nan)
    with pytest.raises(ValueError, match=r"0 samples that show any two features together"):
        BayesianQDA(prior="jeffreys").fit(X, y)


def test_one_clear_line_where_gaps_cannot_be(problem, tmp_path):
    X, y = problem
    with pytest.raises(
        ValueError, match=r'^Input X contains NaN: BayesianQDA\(missing="marginalise"\) takes NaN'
    ):
        BayesianQDA(missing="error").fit(X, y)
    with pytest.raises(ValueError, match="RealisationEnsemble needs all features; MeasurementAware"):
        RealisationEnsemble(RandomForestClassifier()).fit(X, y)
    for clf in (BayesianQDA(realisations="shared"), BayesianNB(), BayesianClassifier(realisations="draws")):
        with pytest.raises(ValueError, match="several realisations must have all features"):
            clf.fit(np.stack([X, X], axis=1), y)
    clf = BayesianQDA(prior="evidence").fit(X, y)
    with pytest.raises(ValueError, match="no evidence in closed form"):
        _ = clf.log_evidence_
    clf.save(tmp_path / "model.uncover")
    with pytest.raises(ValueError, match="a model file keeps no sums; partial_fit cannot add"):
        load_model(tmp_path / "model.uncover").partial_fit(X, y)


@pytest.mark.parametrize("cls", [*SINGLE, BayesianMDA, BayesianClassifier])
def test_a_model_file_says_the_same(cls, problem, tmp_path):
    X, y = problem
    clf = cls().fit(X, y)
    clf.save(tmp_path / "model.uncover")
    again = load_model(tmp_path / "model.uncover")
    for ask in ("predict_proba", "typicality", "unknown_proba"):
        np.testing.assert_array_equal(getattr(again, ask)(X), getattr(clf, ask)(X))


def test_filling_in_comes_to_rest_where_its_acceleration_runs_away():
    """Twenty samples of two classes, of which three in five values are there."""
    S = np.array([[1.0, 0.7, 0.3], [0.7, 1.0, 0.5], [0.3, 0.5, 1.0]])
    rng, y = np.random.default_rng(3), np.arange(20) % 2
    X = np.array([[0.0, 0.0, 0.0], [1.2, 0.4, -0.6]])[y] + rng.normal(size=(20, 3)) @ np.linalg.cholesky(S).T
    X[rng.random((20, 3)) < 0.4] = np.nan
    assert np.abs(BayesianQDA().fit(X, y).means_).max() < 3.0
