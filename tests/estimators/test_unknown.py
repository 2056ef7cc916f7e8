"""The probability that an input is of none of the trained classes."""

import warnings

import numpy as np
import pytest
from scipy.stats import multivariate_t
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

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
)
from uncover.bayes.components import Components
from uncover.bayes.population import further_class

GAUSSIAN = [BayesianQDA, BayesianLDA, BayesianNB, BayesianMDA]
CENTRES = 5.0 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])


def samples(n=60, k=4, seed=0):
    """k classes that lie apart, and points half-way out of them."""
    rng = np.random.default_rng(seed)
    y = np.arange(n * k) % k
    return rng.normal(size=(n * k, 3)) + CENTRES[y], y, rng.normal(size=(40, 3)) + 6.0


@pytest.mark.parametrize("prior", ["weak", "evidence", "jeffreys"])
@pytest.mark.parametrize("estimator", GAUSSIAN)
def test_new_class_is_told_from_the_known(estimator, prior):
    X, y, new = samples()
    clf = estimator(prior=prior).fit(X, y)
    assert clf.unknown_proba(new).mean() > 0.5
    assert clf.unknown_proba(X).mean() < 0.05


def test_pool_sets_and_ensembles_have_it():
    X, y, new = samples(30)
    clf = BayesianClassifier().fit(X, y)
    sets = ConformalSets(BayesianQDA()).fit(X, y)
    ensemble = RealisationEnsemble(BayesianQDA()).fit(X[:, None].repeat(2, axis=1), y)
    assert np.array_equal(sets.unknown_proba(new), sets.estimator_.unknown_proba(new))
    np.testing.assert_allclose(ensemble.unknown_proba(new), BayesianQDA().fit(X, y).unknown_proba(new))
    for model in (clf, sets, ensemble):
        assert model.unknown_proba(new).mean() > 0.5 > 0.1 > model.unknown_proba(X).mean()


def test_estimators_without_densities_are_refused():
    X, y, _ = samples(30)
    for model in (ConformalSets(RandomForestClassifier(5)), RealisationEnsemble(RandomForestClassifier(5))):
        with pytest.raises(ValueError, match="RandomForestClassifier has no densities"):
            model.fit(X, y).unknown_proba(X)


@pytest.mark.filterwarnings("error")
def test_any_classifier_has_it_with_known_noise():
    """By the density of true values; without noise the classifier itself is asked."""
    X, y, new = samples(30)
    noise, forest = np.full(3, 0.3), RandomForestClassifier(5)
    model = MeasurementAware(forest).fit(X, y, X_cov=noise)
    expected = BayesianMDA().fit(X, y, X_cov=noise).unknown_proba(new, noise, share=0.1)
    np.testing.assert_array_equal(model.unknown_proba(new, noise, share=0.1), expected)
    assert expected.mean() > 0.5 > 0.1 > model.unknown_proba(X, noise).mean()
    with pytest.warns(UserWarning, match="taken as exact") as said:
        model.unknown_proba(new)
    assert len(said) == 1
    plain = MeasurementAware(BayesianQDA()).fit(X, y)
    np.testing.assert_allclose(plain.unknown_proba(new), BayesianQDA().fit(X, y).unknown_proba(new))
    with pytest.raises(ValueError, match="RandomForestClassifier has no densities"):
        MeasurementAware(forest).fit(X, y).unknown_proba(X)


def test_density_of_a_further_class_is_pooled_of_population_and_relatives():
    X, y, new = samples()
    clf = BayesianQDA(prior="evidence").fit(X, y)
    predictive = clf.model_.known_posterior(None).predictive()
    known, wide = (
        sum(
            multivariate_t(m, factor * root @ root.T, df=dof).pdf(new) / 4
            for m, root, dof in zip(*predictive._broadcast(), strict=True)
        )
        for factor in (1.0, 4.0)
    )
    population = np.exp(further_class(clf.model_.known_posterior(None), Components.single(4)).log_prob(new))
    odds = 0.05 / 0.95 * (np.sqrt(population * wide) / known) ** (3**-0.5)
    np.testing.assert_allclose(clf.unknown_proba(new), odds / (1 + odds), rtol=1e-8)


def test_share_that_most_samples_have_is_refused():
    X, y, new = samples()
    clf = BayesianQDA().fit(X, y)
    assert clf.unknown_share(new).share > 0.9
    with pytest.raises(ValueError, match="of the samples look like none of the classes"):
        clf.unknown_proba(new, share="estimate")


@pytest.mark.parametrize("estimator", [BayesianQDA, BayesianClassifier])
@pytest.mark.parametrize("noise", [None, np.full(3, 0.2)])
def test_share_of_none_and_of_all(estimator, noise):
    X, y, new = samples(20)
    clf = estimator().fit(X, y, X_cov=noise)
    assert (clf.unknown_proba(new, noise, share=0) == 0).all()
    assert (clf.unknown_proba(X, noise, share=1) == 1).all()


@pytest.mark.parametrize("share", [-0.1, 1.1, np.nan, "guess"])
def test_other_shares_are_refused(share):
    X, y, _ = samples()
    with pytest.raises(ValueError, match="share must be"):
        BayesianQDA().fit(X, y).unknown_proba(X, share=share)


def test_share_is_estimated():
    X, y, new = samples(200)
    clf = BayesianQDA().fit(X[:400], y[:400])
    mixed = np.concatenate([X[-160:], new])  # 40 of 200
    found = clf.unknown_share(mixed)
    assert abs(found.share - 0.2) < 3 * found.standard_uncertainty < 0.15
    np.testing.assert_array_equal(
        clf.unknown_proba(mixed, share="estimate"), clf.unknown_proba(mixed, share=found.share)
    )


@pytest.mark.parametrize("estimator", [BayesianQDA, BayesianLDA, BayesianNB])
def test_missing_features_are_left_out(estimator):
    X, y, new = samples()
    prior = NIW(np.zeros(3), 0.1, 5 * np.eye(3), 8.0)
    clf = estimator(prior=prior, missing="marginalise").fit(X, y)
    two = estimator(prior=prior.select_features([0, 2])).fit(X[:, [0, 2]], y)
    lacking = new.copy()
    lacking[:, 1] = np.nan
    np.testing.assert_allclose(clf.unknown_proba(lacking), two.unknown_proba(new[:, [0, 2]]), rtol=1e-7)


def test_sample_without_features_has_the_share():
    X, y, _ = samples()
    clf = BayesianQDA(missing="marginalise").fit(X, y)
    with pytest.warns(UserWarning, match="no feature at all"):
        assert clf.unknown_proba(np.full((2, 3), np.nan), share=0.2) == pytest.approx([0.2, 0.2])


@pytest.mark.parametrize("k", [1, 2])
def test_few_classes(k):
    X, y, new = samples(k=k)
    clf = BayesianQDA().partial_fit(X, y, classes=[0, 1])  # no sample of class 1 has come, or some have
    P = clf.unknown_proba(np.concatenate([X, new, [[1e3, 1e3, 1e3]]]))
    assert P[: len(X)].mean() < 0.05 < 0.5 < P[len(X) : -1].mean() < P[-1]


def test_classes_of_one_sample():
    X, y, new = samples()
    few = np.flatnonzero((y > 0) | (np.arange(len(y)) == 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = BayesianQDA().fit(X[few], y[few])
    assert clf.unknown_proba(new).mean() > 0.5 > 0.1 > clf.unknown_proba(X[few]).mean()


@pytest.mark.parametrize("estimator", GAUSSIAN)
def test_huge_noise_leaves_the_share(estimator):
    X, y, new = samples()
    clf = estimator().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        P = clf.unknown_proba(new, X_cov=np.full(3, 1e8), share=0.1)
    assert pytest.approx(0.1, abs=2e-3) == P


def test_no_noise_changes_nothing_and_some_lowers_it():
    X, y, new = samples()
    clf = BayesianQDA().fit(X, y)
    exact = clf.unknown_proba(new)
    np.testing.assert_allclose(clf.unknown_proba(new, X_cov=np.zeros(3)), exact, rtol=0, atol=1e-10)
    assert clf.unknown_proba(new, X_cov=np.full(3, 9.0)).mean() < exact.mean()


@pytest.mark.parametrize("kind", ["pooled", "repeats", "draws", "shared"])
@pytest.mark.parametrize("paired", [True, False])
def test_every_meaning_of_realisations(kind, paired):
    X, y, new = samples()
    rng = np.random.default_rng(5)
    errors = rng.normal(size=(1 if kind == "shared" else len(X), 6, 3)) * 0.3
    clf = BayesianQDA(realisations=kind).fit(X[:, None] + errors, y)
    wide = new[:, None] + errors[: len(new)]
    known = clf.unknown_proba(X[:, None] + errors, paired=paired)
    assert clf.unknown_proba(wide, paired=paired).mean() > 0.5 > 0.05 > known.mean()


def test_units_of_features_do_not_matter():
    X, y, new = samples()
    unit = np.array([1e-3, 1.0, 1e5])
    a, b = BayesianQDA().fit(X, y), BayesianQDA().fit(X * unit, y)
    np.testing.assert_allclose(a.unknown_proba(new), b.unknown_proba(new * unit), rtol=1e-5)


def test_feature_that_was_constant_in_training():
    X, y, _ = samples()
    X[:, 2] = 7.0
    with pytest.warns(UserWarning, match="constant"):
        clf = BayesianQDA().fit(X, y)
    same, other = clf.unknown_proba(X[:1]), clf.unknown_proba(X[:1] + np.array([0, 0, 1.0]))
    assert same < 0.05 < 0.3 < other


@pytest.mark.parametrize("prior", ["weak", "evidence"])
def test_left_out_class_of_iris_is_ranked_no_worse_than_by_typicality(prior):
    X, y = load_iris(return_X_y=True)
    areas = []
    for k in range(3):
        train = (np.arange(len(y)) % 2 == 0) & (y != k)
        test = np.arange(len(y)) % 2 == 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf = BayesianQDA(prior=prior).fit(X[train], y[train])
        new = y[test] == k
        unknown, typical = clf.unknown_proba(X[test]), clf.typicality(X[test])
        areas.append((roc_auc_score(new, unknown), roc_auc_score(new, -typical)))
    ours, theirs = np.mean(areas, axis=0)
    assert ours >= theirs
