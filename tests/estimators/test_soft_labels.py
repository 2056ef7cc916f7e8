"""Labels that are not certain: probabilities of classes, and labels that are wrong."""

import numpy as np
import pytest
from benchmarks.known_noise import flipped_labels
from sklearn.metrics import log_loss

from uncover import BayesianLDA, BayesianNB, BayesianQDA

ESTIMATORS = [BayesianQDA, BayesianLDA, BayesianNB]


@pytest.fixture
def problem(rng):
    y = np.arange(150) % 3
    X = 2.0 * rng.standard_normal((3, 3))[y] + rng.standard_normal((150, 3)) @ rng.standard_normal((3, 3))
    return X, y


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("X_cov", [None, [0.1, 0.2, 0.3]])
def test_hard_labels_are_the_special_case(cls, X_cov, problem):
    X, y = problem
    hard = cls().fit(X, y, X_cov=X_cov)
    soft = cls().fit(X, label_proba=np.eye(3)[y], X_cov=X_cov)
    np.testing.assert_allclose(soft.class_count_, hard.class_count_)
    np.testing.assert_allclose(
        soft.predict_log_proba(X, X_cov=X_cov), hard.predict_log_proba(X, X_cov=X_cov), atol=1e-9
    )


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_probabilities_are_shares_of_a_sample(cls, problem, rng):
    """A soft label is the sample once in each class, with the share as weight."""
    X, _ = problem
    W = rng.dirichlet([0.5, 1.0, 2.0], len(X))
    soft = cls().fit(X, label_proba=W)
    spread = cls().fit(np.repeat(X, 3, axis=0), np.tile([0, 1, 2], len(X)), sample_weight=W.ravel())
    np.testing.assert_allclose(soft.means_, spread.means_, atol=1e-10)
    np.testing.assert_allclose(soft.covariances_, spread.covariances_, atol=1e-10)
    np.testing.assert_allclose(soft.predict_log_proba(X), spread.predict_log_proba(X), atol=1e-8)
    np.testing.assert_allclose(soft.predict_proba(X).sum(1), 1.0)


def test_moments_of_soft_labels_are_weighted_averages(problem, rng):
    X, _ = problem
    W = rng.dirichlet([1.0, 1.0, 1.0], len(X))
    clf = BayesianQDA().fit(X, label_proba=W)
    np.testing.assert_allclose(clf.class_count_, W.sum(0))
    np.testing.assert_allclose(clf.means_, [np.average(X, axis=0, weights=w) for w in W.T])


def test_columns_follow_the_names_of_the_classes(problem, rng):
    X, _ = problem
    W = rng.dirichlet([1.0, 1.0, 1.0], len(X))
    one = BayesianQDA().fit(X, label_proba=W, classes=["forest", "grass", "water"])
    two = BayesianQDA().fit(X, label_proba=W[:, [2, 0, 1]], classes=["water", "forest", "grass"])
    assert one.classes_.tolist() == two.classes_.tolist() == ["forest", "grass", "water"]
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), rtol=1e-12)


def test_bad_labels_are_refused_with_their_reason(problem):
    X, y = problem
    W = np.eye(3)[y]
    for options, message in (
        ({"label_proba": W * 1.1}, r"row 0 of label_proba sums to 1.1; .* sum to 1"),
        ({"label_proba": W[:10]}, r"needs the shape \(150, class\), one row a sample, got \(10, 3\)"),
        ({"label_proba": y}, r"needs the shape \(150, class\)"),
        ({"label_proba": W - 0.1}, "negative or non-finite"),
        ({"label_proba": W * np.nan}, "negative or non-finite"),
        ({"label_proba": W, "y": y}, "give y or label_proba, not both"),
        ({"label_proba": W, "classes": ["a", "b"]}, "label_proba has 3 columns and classes has 2 names"),
        ({"label_proba": W, "classes": ["a", "b", "a"]}, "names one class twice"),
    ):
        with pytest.raises(ValueError, match=message):
            BayesianQDA().fit(X, **options)
    for noise, message in (
        ("guess", 'None, "learn" or a matrix'),
        (np.eye(2), r"needs the shape \(3, 3\)"),
        (np.full((3, 3), 0.5), "probabilities that sum to 1"),
    ):
        with pytest.raises(ValueError, match=message):
            BayesianQDA(label_noise=noise).fit(X, y)
    with pytest.raises(ValueError, match="label_noise goes with labels y"):
        BayesianQDA(label_noise="learn").fit(X, label_proba=W)


def test_labels_that_are_never_wrong_change_nothing(problem):
    X, y = problem
    plain, sure = BayesianQDA().fit(X, y), BayesianQDA(label_noise=np.eye(3)).fit(X, y)
    np.testing.assert_allclose(sure.predict_log_proba(X), plain.predict_log_proba(X), atol=1e-9)


def test_a_known_confusion_is_kept_and_helps(problem, rng):
    X, y = problem
    X, y = np.concatenate([X] * 4), np.concatenate([y] * 4)
    X = X + 0.3 * rng.standard_normal(X.shape)
    confusion = np.array([[0.7, 0.3, 0.0], [0.1, 0.8, 0.1], [0.0, 0.0, 1.0]])
    labels = np.array([rng.choice(3, p=confusion[k]) for k in y])
    clf = BayesianQDA(label_noise=confusion).fit(X, labels)
    np.testing.assert_array_equal(clf.label_confusion_, confusion)
    ignoring = BayesianQDA().fit(X, labels)
    assert log_loss(y, clf.predict_proba(X)) < 0.8 * log_loss(y, ignoring.predict_proba(X))


def test_one_step_of_learning_is_the_rule_of_bayes(problem, rng):
    """At rest, soft labels r_ik ∝ Θ_k,y P(k|x) give back the model and the confusion."""
    X, y = problem
    labels = np.where(rng.random(len(y)) < 0.2, rng.integers(0, 3, len(y)), y)
    clf = BayesianQDA(label_noise="learn").fit(X, labels)
    r = clf.label_confusion_[:, labels].T * clf.predict_proba(X)
    r /= r.sum(1, keepdims=True)
    counts = np.stack([np.bincount(labels, r[:, k], 3) for k in range(3)])
    np.testing.assert_allclose(clf.label_confusion_, counts / counts.sum(1, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(clf.class_count_, r.sum(0), atol=1e-3)
    np.testing.assert_allclose(clf.means_, [np.average(X, axis=0, weights=w) for w in r.T], atol=1e-5)


def test_one_label_in_five_wrong():
    """A short run of `benchmarks.known_noise.flipped_labels`."""
    found = flipped_labels(n_problems=3)
    assert found["ratio, learned"] < 1.05
    assert found["ratio, ignored"] > 1.5
    assert found["rmse of the confusion"] < 0.02
    assert found["largest z"] < 3.5  # of 48 entries
    assert found["largest difference from the flips drawn"] < 0.01
