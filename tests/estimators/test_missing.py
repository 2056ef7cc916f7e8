"""Samples that lack features: classified on the others, exactly."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

from uncover import BayesianLDA, BayesianNB, BayesianQDA, Measured

ESTIMATORS = [BayesianQDA, BayesianLDA, BayesianNB]
PATTERNS = [(0,), (1, 3), (0, 2, 3)]


@pytest.fixture
def problem(rng):
    y = np.arange(120) % 3
    X = rng.standard_normal((3, 4))[y] + rng.standard_normal((120, 4)) @ rng.standard_normal((4, 4))
    return X, y


@pytest.mark.parametrize("lacking", PATTERNS)
def test_against_the_marginal_student_t(lacking, problem):
    """The marginal of a multivariate t, by SciPy."""
    X, y = problem
    keep = [j for j in range(4) if j not in lacking]
    clf = BayesianQDA(missing="marginalise").fit(X, y)
    t = clf.posterior_.predictive()
    scale = t.root @ np.swapaxes(t.root, 1, 2)
    log_density = [
        stats.multivariate_t(t.location[k][keep], scale[k][np.ix_(keep, keep)], df=t.dof[k]).logpdf(
            X[:, keep]
        )
        for k in range(3)
    ]
    expected = softmax(np.log(clf.class_posterior_) + np.stack(log_density, axis=1), axis=1)
    new = X.copy()
    new[:, lacking] = np.nan
    np.testing.assert_allclose(clf.predict_proba(new), expected, atol=1e-12)


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("trained_with_noise", [False, True])
def test_with_known_noise_it_is_the_model_of_the_other_features(cls, trained_with_noise, problem, rng):
    """Against endless noise in the features that are lacking, which says nothing about the class."""
    X, y = problem
    variance = rng.uniform(0.1, 1.0, X.shape)
    clf = cls(missing="marginalise").fit(X, y, X_cov=variance if trained_with_noise else None)
    new, noisy = X.copy(), variance.copy()
    new[:, [1, 2]], noisy[:, [1, 2]] = np.nan, 1e9
    with pytest.warns(UserWarning, match="same units"):
        expected = clf.predict_proba(X, X_cov=noisy)
    np.testing.assert_allclose(clf.predict_proba(new, X_cov=variance), expected, atol=1e-3)
    parts = clf.uncertainty(new[:5], X_cov=variance[:5], n_draws=10, n_true_values=8)
    np.testing.assert_allclose(parts.model + parts.measurement + parts.overlap, parts.total, atol=1e-12)


def test_samples_that_lack_different_features_keep_their_order(problem, rng):
    X, y = problem
    variance = rng.uniform(0.1, 1.0, X.shape)
    clf = BayesianQDA(missing="marginalise").fit(X, y)
    new = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    new[np.isnan(new).all(1)] = 0.0
    for noise in (None, variance):
        together = clf.predict_proba(new, X_cov=noise)
        alone = [
            clf.predict_proba(new[[i]], X_cov=None if noise is None else noise[[i]])[0] for i in range(40)
        ]
        np.testing.assert_allclose(together[:40], alone, atol=1e-12)
    whole = ~np.isnan(new).any(1)
    np.testing.assert_allclose(
        clf.predict_proba(new)[whole], BayesianQDA().fit(X, y).predict_proba(X[whole]), atol=1e-12
    )
    np.testing.assert_allclose(
        clf.predict_proba(Measured(new, variance)), clf.predict_proba(new, X_cov=variance), atol=0
    )


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_a_sample_without_features_is_flagged(cls, problem):
    X, y = problem
    clf = cls(missing="marginalise", class_prior=2.0).fit(X[:100], y[:100])
    new = X[:3].copy()
    new[1] = np.nan
    with pytest.warns(UserWarning, match=r"1 sample\(s\) have no feature at all \(the first: 1\)"):
        P = clf.predict_proba(new)
    np.testing.assert_allclose(P[1], clf.class_posterior_ / clf.class_posterior_.sum())
    with pytest.warns(UserWarning, match="no feature at all"):
        assert np.isnan(clf.typicality(new)[1])
    with pytest.warns(UserWarning, match="no feature at all"):
        budget = clf.uncertainty(new, n_draws=5)
    assert budget.total[1] == pytest.approx(stats.entropy(P[1]))
    with pytest.warns(UserWarning, match="no feature at all"):
        np.testing.assert_allclose(clf.predict_proba(new, X_cov=np.ones(4))[1], P[1])


def test_a_gap_is_refused_where_it_is_an_error(problem):
    X, y = problem
    new = X.copy()
    new[0, 0] = np.nan
    strict = BayesianQDA(missing="error")
    for call in (lambda: strict.fit(new, y), lambda: strict.fit(X, y).predict_proba(new)):
        with pytest.raises(ValueError, match=r'contains NaN: BayesianQDA.missing="marginalise". takes NaN'):
            call()
    with pytest.raises(ValueError, match='missing must be "error" or "marginalise"'):
        BayesianQDA(missing="skip").fit(X, y)
