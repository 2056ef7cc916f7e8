"""Priors by name in the estimators: evidence and Jeffreys, with all kinds of realisations."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

from uncover import NIW, BayesianLDA, BayesianNB, BayesianQDA, load_model
from uncover.bayes.moments import Moments

every_estimator = pytest.mark.parametrize("cls", [BayesianQDA, BayesianLDA, BayesianNB])
every_kind = pytest.mark.parametrize("kind", ["pooled", "repeats", "draws", "shared"])
every_prior = pytest.mark.parametrize("prior", ["evidence", "jeffreys"])


def draw(rng, n=60, R=4, p=3):
    y = np.arange(n) % 3
    X = rng.normal(size=(n, 1, p)) * (1.0 + y[:, None, None]) + y[:, None, None]
    return X + 0.2 * rng.normal(size=(n, R, p)), y, 2.0 * rng.normal(size=(9, R, p))


@every_estimator
@every_prior
@pytest.mark.parametrize("kind", ["pooled", "repeats", "shared"])
def test_partial_fit_over_a_split_is_fit(cls, prior, kind, rng):
    X, y, new = draw(rng)
    whole = cls(prior=prior, realisations=kind).fit(X, y)
    parts = cls(prior=prior, realisations=kind).fit(X[:40], y[:40]).partial_fit(X[40:], y[40:])
    np.testing.assert_allclose(parts.predict_proba(new), whole.predict_proba(new), atol=1e-8)
    np.testing.assert_allclose(parts.prior_.dof, whole.prior_.dof, rtol=1e-6)


@every_estimator
@every_kind
def test_permutation_and_scale_change_nothing(cls, kind, rng):
    X, y, new = draw(rng)
    names, scale, shift = np.array([2, 0, 1]), 10.0 ** rng.uniform(-4, 4, 3), rng.normal(size=3)
    a = cls(prior="evidence", realisations=kind).fit(X, y)
    b = cls(prior="evidence", realisations=kind).fit(scale * (X + shift), names[y])
    moved = b.predict_proba(scale * (new + shift))[:, names]
    np.testing.assert_allclose(moved, a.predict_proba(new), atol=1e-6)
    if kind != "draws":
        jacobian = (len(y) - 3) * np.log(scale).sum()
        assert b.log_evidence_ + jacobian == pytest.approx(a.log_evidence_, abs=1e-6)


@every_prior
def test_any_affine_map_changes_nothing(prior, rng):
    X, y, new = draw(rng, R=1)
    A, shift = rng.normal(size=(3, 3)), rng.normal(size=3)
    a = BayesianQDA(prior=prior).fit(X[:, 0], y)
    b = BayesianQDA(prior=prior).fit(X[:, 0] @ A + shift, y)
    np.testing.assert_allclose(b.predict_proba(new[:, 0] @ A + shift), a.predict_proba(new[:, 0]), atol=1e-7)


@every_estimator
@every_kind
@every_prior
def test_saved_and_loaded(cls, kind, prior, rng, tmp_path):
    if (kind, prior) == ("draws", "jeffreys"):
        pytest.skip("refused: see the test of known noise")
    X, y, new = draw(rng)
    clf = cls(prior=prior, realisations=kind).fit(X, y)
    clf.save(tmp_path / "m.uncover")
    back = load_model(tmp_path / "m.uncover")
    np.testing.assert_array_equal(back.predict_proba(new), clf.predict_proba(new))
    assert f'"{prior}"' in back.describe()
    if prior == "evidence" and kind != "draws":
        assert back.log_evidence_ == clf.log_evidence_


def test_evidence_becomes_lda_and_qda(rng):
    """With many samples: close to scikit-learn's, whichever is right for the data."""
    y = np.arange(6000) % 3
    new = 2.0 * rng.normal(size=(200, 2)) + 1.0
    common = rng.normal(size=(6000, 2)) @ [[1.0, 0.4], [0.0, 0.7]] + y[:, None]
    own = common + rng.normal(size=(6000, 2)) * y[:, None]
    for X, peer in ((common, LinearDiscriminantAnalysis()), (own, QuadraticDiscriminantAnalysis())):
        ours = BayesianQDA(prior="evidence").fit(X, y).predict_proba(new)
        np.testing.assert_allclose(ours, peer.fit(X, y).predict_proba(new), atol=0.02)


def test_the_evidence_of_a_given_prior_is_the_sum_over_classes(rng):
    X, y, _ = draw(rng, R=1)
    prior = NIW(np.zeros(3), 0.5, np.eye(3), 5.0)
    each = [float(prior.log_evidence(Moments.of(X[y == k, 0]))) for k in range(3)]
    assert BayesianQDA(prior=prior).fit(X[:, 0], y).log_evidence_ == pytest.approx(sum(each))


def test_evidence_prefers_the_model_that_made_the_data(rng):
    y = np.arange(600) % 2
    noise = rng.normal(size=(600, 3))
    tied, own = noise @ rng.normal(size=(3, 3)), noise * np.array([[1, 1, 3], [1, 4, 1]])[y]
    assert _evidence(BayesianLDA, tied, y) > _evidence(BayesianNB, tied, y)
    assert _evidence(BayesianQDA, own, y) > _evidence(BayesianLDA, own, y)
    assert _evidence(BayesianNB, own, y) > _evidence(BayesianQDA, own, y)


def _evidence(cls, X, y):
    return cls(prior="evidence").fit(X, y).log_evidence_


@every_estimator
def test_where_there_is_no_evidence_asking_is_an_error(cls, rng):
    X, y, _ = draw(rng)
    for clf in (cls(), cls(prior="jeffreys")):
        clf.fit(X, y)
        with pytest.raises(ValueError, match="evidence does not exist for a prior of strength 0"):
            clf.log_evidence_
        assert not hasattr(clf, "log_evidence_")
    noisy = cls(prior="evidence").fit(X[:, 0], y, X_cov=[0.01, 0.01, 0.01])
    with pytest.raises(ValueError, match="known noise has no evidence in closed form"):
        noisy.log_evidence_


@every_estimator
def test_known_noise_leaves_the_prior_of_true_values(cls, rng):
    y = np.arange(3000) % 3
    truth = rng.normal(size=(3000, 2)) + 3.0 * y[:, None]
    X = truth + rng.normal(size=(3000, 2)) * [1.0, 0.5]
    clf = cls(prior="evidence").fit(X, y, X_cov=[1.0, 0.25])
    variance = np.diagonal(clf.prior_.expected_covariance, axis1=-2, axis2=-1)
    np.testing.assert_allclose(variance, np.broadcast_to(1.0, variance.shape), atol=0.12)
    with pytest.raises(ValueError, match='use prior="weak" or "evidence" with X_cov'):
        cls(prior="jeffreys").fit(X, y, X_cov=[1.0, 0.25])


def test_equal_realisations_are_one(rng):
    X, y, _ = draw(rng, R=1)
    one = BayesianQDA(prior="evidence").fit(X[:, 0], y)
    many = BayesianQDA(prior="evidence").fit(np.repeat(X, 6, axis=1), y)
    np.testing.assert_allclose(many.covariances_, one.covariances_, rtol=1e-6)
    assert BayesianQDA(prior="evidence", realisations="repeats").fit(
        np.repeat(X, 6, axis=1), y
    ).log_evidence_ == pytest.approx(one.log_evidence_)


def test_jeffreys_says_which_class_is_too_small(rng):
    X, y = rng.normal(size=(30, 4)), np.repeat([0, 1, 2], [20, 7, 3])
    with pytest.raises(ValueError, match=r"class '2' has 3 samples; .*more than 4 of each class"):
        BayesianQDA(prior="jeffreys").fit(X, y)
    BayesianLDA(prior="jeffreys").fit(X, y)
    BayesianNB(prior="jeffreys").fit(X, y)
    with pytest.raises(ValueError, match=r"6 samples of 3 classes leave 3 .* at least 4 for 4"):
        BayesianLDA(prior="jeffreys").fit(X[:6], np.arange(6) % 3)
    with pytest.raises(ValueError, match="class '3' has 0 samples"):
        BayesianLDA(prior="jeffreys").fit(X, y, classes=[0, 1, 2, 3])


def test_few_samples_of_many_features(rng):
    X, y = rng.normal(size=(12, 30)), np.arange(12) % 3
    for cls in (BayesianQDA, BayesianLDA, BayesianNB):
        P = cls(prior="evidence").fit(X, y).predict_proba(rng.normal(size=(5, 30)))
        np.testing.assert_allclose(P.sum(1), 1.0)


def test_classes_of_one_sample_and_of_none(rng):
    X, y = rng.normal(size=(20, 2)), np.array([0] * 10 + [1] * 9 + [2])
    clf = BayesianQDA(prior="evidence").partial_fit(X, y, classes=[0, 1, 2, 3])
    P = clf.predict_proba(X)
    assert (P[:, 3] == 0).all()
    assert (P[:, 2] > 0).all()
