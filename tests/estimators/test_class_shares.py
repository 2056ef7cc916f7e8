"""Class shares of another population: given, and estimated from samples of unknown class."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from uncover import BayesianClassifier, BayesianLDA, BayesianMDA, BayesianNB, BayesianQDA, MeasurementAware
from uncover.bayes.class_shares import ClassShares, estimate_shares, likeliest_shares

MEANS = np.array([[0.0, 0.0], [1.5, 0.5], [-0.5, 1.8]])
TRAINED = np.array([0.5, 0.3, 0.2])


def draw(n, shares, rng):
    y = rng.choice(3, n, p=shares)
    return MEANS[y] + rng.normal(size=(n, 2)) * (1.0, 0.7), y


@pytest.fixture(scope="module")
def samples():
    return draw(300, TRAINED, np.random.default_rng(1))


MODELS = [
    BayesianQDA(),
    BayesianQDA(calibration="loo"),
    BayesianLDA(),
    BayesianNB(),
    BayesianMDA(),
    BayesianClassifier(),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_probabilities_change_by_the_ratio_of_the_shares(model, samples):
    clf, X = model.fit(*samples), draw(200, TRAINED, np.random.default_rng(2))[0]
    P, shares = clf.predict_proba(X), np.array([0.1, 0.2, 0.7])
    learned = (np.bincount(samples[1]) + 1.0) / (300 + 3)
    expected = P * shares / learned
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(clf.predict_proba(X, class_prior=shares), expected, atol=1e-12)
    np.testing.assert_allclose(clf.predict_proba(X, class_prior=5 * shares), expected, atol=1e-12)
    np.testing.assert_array_equal(clf.predict_proba(X), P)  # nothing is kept


def test_shares_are_those_of_the_largest_likelihood():
    rng = np.random.default_rng(3)
    X, _ = draw(500, [0.2, 0.2, 0.6], rng)
    likelihood = np.stack([multivariate_normal(m, np.diag([1.0, 0.49])).pdf(X) for m in MEANS], axis=1)

    def loss(odds):
        shares = np.exp(odds - np.logaddexp.reduce(odds))
        return -np.log(likelihood @ shares).sum() - np.log(shares).sum()

    best = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-8}).x
    expected = np.exp(best - np.logaddexp.reduce(best))
    factor = rng.random((500, 1))
    np.testing.assert_allclose(likeliest_shares(likelihood * factor), expected, atol=1e-6)


@pytest.mark.parametrize("whole", [True, False])
def test_known_densities_give_intervals_that_cover(whole):
    """Densities are known: 90 % intervals cover, of the samples themselves and of where they come from."""
    inside, true = [], np.array([0.6, 0.3, 0.1])
    for seed in range(300):
        X, y = draw(400, true, np.random.default_rng([4, seed]))
        likelihood = np.stack([multivariate_normal(m, np.diag([1.0, 0.49])).pdf(X) for m in MEANS], axis=1)
        found = estimate_shares(likelihood, read=float(whole))
        right = np.bincount(y, minlength=3) / 400 if whole else true
        inside.append(np.abs(found.shares - right) < 1.645 * found.standard_uncertainty)
    assert np.mean(inside) == pytest.approx(0.9, abs=0.035)


def test_groups_that_are_alike_make_the_shares_less_certain():
    """Windows of one class each: their number counts, not that of the pixels."""
    rng, z = np.random.default_rng(5), []
    for _ in range(200):
        y = np.repeat(rng.choice(3, 40, p=[0.5, 0.3, 0.2]), 50)
        likelihood = np.where(np.arange(3) == y[:, None], 1.0, 1e-4)
        found = estimate_shares(likelihood, groups=np.repeat(np.arange(40), 50))
        z.append((found.shares - [0.5, 0.3, 0.2]) / found.standard_uncertainty)
    assert np.sqrt(np.mean(np.square(z))) == pytest.approx(1.0, abs=0.12)


def test_estimates_count_the_doubt_in_the_model():
    """Of few training samples the shares are wrong by more than the overlap hides, and they say so."""
    z, plain = [], []
    for seed in range(60):
        rng, shares = np.random.default_rng([6, seed]), np.array([0.1, 0.3, 0.6])
        clf = BayesianQDA(prior="evidence").fit(*draw(90, np.full(3, 1 / 3), rng))
        X, y = draw(3000, shares, rng)
        found = clf.class_shares(X, population=len(X))
        right = np.bincount(y, minlength=3) / len(y)
        alone = estimate_shares(clf.predict_proba(X), read=1.0)
        z.append((found.shares - right) / found.standard_uncertainty)
        plain.append(alone.standard_uncertainty / found.standard_uncertainty)
    assert 0.75 < np.sqrt(np.mean(np.square(z))) < 1.3
    assert np.mean(plain) < 0.6


def test_estimates_count_an_error_that_all_samples_share():
    """Of another scene, whose error is not that of training: without its worlds, intervals do not cover."""
    z, alone = [], []
    for seed in range(12):
        rng = np.random.default_rng([9, seed])
        (X, y), (new, own) = draw(300, TRAINED, rng), draw(1500, [0.3, 0.3, 0.4], rng)
        errors = 0.15 * rng.normal(size=(2, 10, 2))  # of the scenes; the first is the true one
        X, new = (points[:, None] + e[:1] - e for points, e in zip((X, new), errors, strict=True))
        found = BayesianQDA(realisations="shared").fit(X, y).class_shares(new, population=1500, paired=False)
        away = np.abs(found.shares - np.bincount(own, minlength=3) / 1500)
        z.append(away / found.standard_uncertainty)
        alone.append(away / np.sqrt(np.diag(found.covariance - found.of_worlds)))
    assert 0.8 < np.mean(np.array(z) < 1.645) < 0.98
    assert np.mean(np.array(alone) < 1.645) < 0.65


def test_an_estimate_is_taken_as_class_prior(samples):
    clf = BayesianClassifier().fit(*samples)
    X, y = draw(2000, [0.05, 0.15, 0.8], np.random.default_rng(7))
    found = clf.class_shares(X)
    P, known = clf.predict_proba(X), clf.predict_proba(X, class_prior=found)
    np.testing.assert_allclose(known, clf.predict_proba(X, class_prior=found.shares), atol=1e-12)
    np.testing.assert_allclose(known.mean(0), found.shares, atol=2e-3)  # what the likelihood asks for

    def loss(P):
        return -np.log(P[np.arange(len(y)), y]).mean()

    assert loss(known) < 0.8 * loss(P)


def test_dirichlet_has_the_mean_and_the_spread():
    found = ClassShares(np.array([0.2, 0.3, 0.5]), np.diag([0.01, 0.012, 0.02]))
    alpha = found.concentration
    spread = found.shares * (1 - found.shares) / (alpha.sum() + 1)
    np.testing.assert_allclose(alpha / alpha.sum(), found.shares)
    assert spread.sum() == pytest.approx(0.042)


def test_noise_and_gaps_are_taken(samples):
    X, y = samples
    noise = np.full(X.shape, 0.2)
    clf = BayesianQDA().fit(X, y, X_cov=noise)
    assert clf.class_shares(X, X_cov=noise).shares == pytest.approx(np.bincount(y) / 300, abs=0.08)
    gaps = np.where((np.random.default_rng(8).random(300) < 0.3)[:, None] & (np.arange(2) == 0), np.nan, X)
    assert BayesianQDA().fit(X, y).class_shares(gaps).shares == pytest.approx(np.bincount(y) / 300, abs=0.08)


def test_shares_that_are_none_are_refused(samples):
    clf = BayesianQDA().fit(*samples)
    with pytest.raises(ValueError, match="class_prior must be a number or one number for each"):
        clf.predict_proba(samples[0], class_prior=[0.5, 0.5])
    with pytest.raises(ValueError, match="positive and finite"):
        clf.predict_proba(samples[0], class_prior=[0.5, 0.5, 0.0])
    with pytest.raises(ValueError, match="population is 10, and X has 300 samples"):
        clf.class_shares(samples[0], population=10)


def test_any_classifier_takes_them(samples):
    from sklearn.linear_model import LogisticRegression

    X, y = samples
    clf, shares = MeasurementAware(LogisticRegression()).fit(X, y), np.array([0.1, 0.2, 0.7])
    expected = clf.predict_proba(X) * shares / (np.bincount(y) / len(y))
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(clf.predict_proba(X, class_prior=shares), expected, atol=1e-12)
