"""AdaBoost.M2 against plain loops over mislabels, and the theorem on its training error."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.tree import DecisionTreeClassifier

from uncover.studies.models import AdaBoostM2


def problem(n=150, seed=0, apart=0.9):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n)
    return rng.normal(size=(n, 3)) + apart * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 1]])[y], y


def mislabel_by_mislabel(X, y, rounds, leaves, seed):
    """AdaBoost.M2 as it was first written: a distribution over pairs (i, k) with k ≠ y_i, in plain loops."""
    classes = sorted(set(y.tolist()))
    pairs = [(i, k) for i in range(len(y)) for k in classes if k != y[i]]
    D = dict.fromkeys(pairs, 1 / len(pairs))
    rng = np.random.RandomState(seed)
    trees, betas = [], []
    for _ in range(rounds):
        weight = np.zeros(len(y))
        for (i, _), d in D.items():
            weight[i] += d
        tree = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=rng.randint(2**31))
        h = tree.fit(X, y, sample_weight=weight).predict_proba(X)
        loss = 0.0
        for (i, k), d in D.items():
            loss += d * (1 - h[i, y[i]] + h[i, k]) / 2
        beta = loss / (1 - loss)
        for i, k in pairs:
            D[i, k] *= beta ** ((1 + h[i, y[i]] - h[i, k]) / 2)
        total = sum(D.values())
        D = {pair: d / total for pair, d in D.items()}
        trees.append(tree)
        betas.append(beta)
    return trees, np.array(betas)


def test_scores_are_those_of_the_plain_loops():
    X, y = problem()
    clf = AdaBoostM2(n_estimators=12, random_state=3).fit(X, y)
    trees, betas = mislabel_by_mislabel(X, y, 12, 11, seed=3)
    np.testing.assert_allclose(clf.weights_, np.log(1 / betas), rtol=1e-10)
    new, _ = problem(80, seed=1)
    expected = sum(
        np.log(1 / beta) * tree.predict_proba(new) for tree, beta in zip(trees, betas, strict=True)
    )
    np.testing.assert_allclose(clf.decision_function(new), expected, rtol=1e-9)
    np.testing.assert_array_equal(clf.predict(new), expected.argmax(axis=1))


def test_training_error_is_below_its_bound():
    """Freund and Schapire (1997), theorem 11: at most (K − 1) Π 2 √(ε_t (1 − ε_t))."""
    X, y = problem(apart=2.0)
    for rounds in (1, 5, 20, 100):
        clf = AdaBoostM2(n_estimators=rounds, random_state=0).fit(X, y)
        loss = clf.pseudo_losses_
        bound = 3 * np.prod(2 * np.sqrt(loss * (1 - loss)))
        assert (clf.predict(X) != y).mean() <= bound
    assert bound < 0.1  # it says something


def test_trees_are_small_and_there_are_a_hundred():
    X, y = load_wine(return_X_y=True)
    rng = np.random.default_rng(0)
    noisy = X + rng.normal(size=X.shape) * 2 * X.std(axis=0)
    clf = AdaBoostM2(random_state=0).fit(noisy, y)
    assert len(clf.estimators_) == 100
    assert max(tree.get_n_leaves() for tree in clf.estimators_) == 11


def test_a_tree_without_loss_decides_alone():
    X = np.array([[0.0], [1.0], [2.0]] * 5)
    y = np.array([0, 1, 2] * 5)
    clf = AdaBoostM2(random_state=0).fit(X, y)
    assert len(clf.estimators_) == 1
    np.testing.assert_array_equal(clf.predict(X), y)
    np.testing.assert_array_equal(clf.predict_proba(X[:3]), np.eye(3))


def test_scores_are_not_probabilities():
    """They add up to 1, and yet what they say of themselves is far from what is so."""
    X, y = problem(600, seed=2)
    P = AdaBoostM2(random_state=0).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    right = (P.argmax(axis=1) == y).mean()
    assert abs(P.max(axis=1).mean() - right) > 0.2


def test_what_cannot_be_learned_is_refused():
    with pytest.raises(ValueError, match="at least 2 classes"):
        AdaBoostM2().fit(np.zeros((4, 1)), [1, 1, 1, 1])
    with pytest.raises(ValueError, match="better than guessing"):
        AdaBoostM2().fit(np.zeros((4, 1)), [0, 1, 0, 1])
