"""Where the classifier meets ordinary discriminant analysis, and where that one has to give up."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB

from uncover import BayesianLDA, BayesianNB, BayesianQDA


def draw(n, rng, p=3, K=3):
    means = np.arange(K)[:, None] * 0.8 * np.ones(p)
    roots = rng.normal(size=(K, p, p))
    X = np.concatenate([means[k] + rng.normal(size=(n, p)) @ roots[k].T for k in range(K)])
    return X, np.repeat(np.arange(K), n)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (BayesianQDA, QuadraticDiscriminantAnalysis),
        (BayesianLDA, LinearDiscriminantAnalysis),
        (BayesianNB, GaussianNB),
    ],
)
def test_with_many_samples_it_is_ordinary_discriminant_analysis(mine, theirs):
    gaps = []
    for n in (300, 3000, 30_000, 300_000):
        X, y = draw(n, np.random.default_rng(1))
        x, _ = draw(200, np.random.default_rng(1))
        gaps.append(np.abs(mine().fit(X, y).predict_proba(x) - theirs().fit(X, y).predict_proba(x)).max())
    # The difference is of the order 1/N: ten times the samples, a tenth of it.
    ratio = np.array(gaps[:-1]) / np.array(gaps[1:])
    assert (ratio > 7).all()
    assert gaps[-1] < 3e-4


def test_fewer_samples_than_features():
    """N_k = p/2, where the covariance of a class has no inverse."""
    rng = np.random.default_rng(0)
    p, K = 20, 3
    means = 3.0 * rng.normal(size=(K, p))
    X = np.concatenate([m + rng.normal(size=(p // 2, p)) for m in means])
    y = np.repeat(np.arange(K), p // 2)
    with pytest.raises(np.linalg.LinAlgError, match="not full rank"):
        QuadraticDiscriminantAnalysis().fit(X, y)
    x = np.concatenate([m + rng.normal(size=(200, p)) for m in means])
    probability = BayesianQDA().fit(X, y).predict_proba(x)
    assert np.isfinite(probability).all()
    assert (probability.argmax(1) == np.repeat(np.arange(K), 200)).mean() > 0.99


def test_reflectances_work_as_they_are():
    """Standard deviation 0.02 and correlation 0.95: variances near 1e-5 are below what scikit-learn takes
    for zero, so that its QDA refuses data that are perfectly regular.
    """
    rng = np.random.default_rng(0)
    p, K, n = 10, 3, 500
    C = 0.02**2 * (0.05 * np.eye(p) + 0.95)
    means = 0.2 + 0.02 * rng.normal(size=(K, p))
    X = np.concatenate([rng.multivariate_normal(m, C, 2 * n) for m in means])
    y = np.repeat(np.arange(K), 2 * n)
    train = np.arange(len(y)) % 2 == 0
    with pytest.raises(np.linalg.LinAlgError, match="not full rank"):
        QuadraticDiscriminantAnalysis().fit(X[train], y[train])
    clf = BayesianQDA().fit(X[train], y[train])
    standard = (X - X.mean(0)) / X.std(0)
    scaled = BayesianQDA().fit(standard[train], y[train])
    np.testing.assert_allclose(
        clf.predict_proba(X[~train]), scaled.predict_proba(standard[~train]), atol=1e-9
    )
    assert clf.score(X[~train], y[~train]) > 0.95
    in_float32 = BayesianQDA().fit(X[train].astype(np.float32), y[train])
    assert in_float32.score(X[~train].astype(np.float32), y[~train]) > 0.95


def test_one_sample_of_each_class_is_enough_to_say_something():
    with pytest.warns(UserWarning, match="no variance of their own"):
        clf = BayesianQDA().fit([[0.0, 1.0], [5.0, 2.0]], ["a", "b"])
    assert clf.predict([[0.5, 1.0], [4.0, 2.0]]).tolist() == ["a", "b"]
    assert clf.predict_proba([[2.5, 1.5]]) == pytest.approx(0.5)
