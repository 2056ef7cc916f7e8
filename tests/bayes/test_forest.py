"""Trees as arrays: against scikit-learn's own, and the shrinkage against its formula."""

import numpy as np
import pytest
from sklearn.tree import ExtraTreeClassifier

from uncover.estimators.fit_members import _grow, _joined


@pytest.fixture
def grown(rng):
    x, codes = rng.normal(size=(300, 5)).astype(np.float32), rng.integers(0, 3, 300)
    rows = [rng.permutation(300)[:200] for _ in range(4)]
    return x, codes, rows, _joined([_grow(x[r], codes[r], 3, seed)[0] for seed, r in enumerate(rows)])


def test_points_reach_the_leaves_that_scikit_learn_says(grown, rng):
    x, codes, rows, forest = grown
    new = rng.normal(size=(400, 5)).astype(np.float32)
    for seed, kept in enumerate(rows):
        tree = ExtraTreeClassifier(max_features="sqrt", random_state=seed).fit(x[kept], codes[kept])
        np.testing.assert_array_equal(forest.leaves(new)[:, seed] - forest.roots[seed], tree.apply(new))
    unshrunk = forest.with_strength(1e-9).probabilities(new)
    trees = [
        ExtraTreeClassifier(max_features="sqrt", random_state=s).fit(x[r], codes[r])
        for s, r in enumerate(rows)
    ]
    expected = np.mean([tree.predict_proba(new) for tree in trees], axis=0)
    np.testing.assert_allclose(unshrunk, expected, atol=1e-6)


def test_a_node_is_a_dirichlet_posterior_about_its_parent(grown):
    forest = grown[3].with_strength(2.5)
    shares = forest.shares()
    np.testing.assert_allclose(shares.sum(1), 1.0)
    for root in forest.roots:
        n = forest.count[root].sum()
        np.testing.assert_allclose(shares[root], (forest.count[root] + 2.5 / 3) / (n + 2.5))
    for node in np.flatnonzero(forest.left != np.arange(len(forest.left))):
        for child in (forest.left[node], forest.right[node]):
            count = forest.count[child]
            expected = (count + 2.5 * shares[node]) / (count.sum() + 2.5)
            np.testing.assert_allclose(shares[child], expected)


def test_children_have_the_samples_of_their_parent(grown):
    forest = grown[3]
    inner = np.flatnonzero(forest.left != np.arange(len(forest.left)))
    children = forest.count[forest.left[inner]] + forest.count[forest.right[inner]]
    np.testing.assert_allclose(children, forest.count[inner], atol=1e-9)


def test_blocks_do_not_matter(grown, rng, monkeypatch):
    forest, new = grown[3], rng.normal(size=(50, 5)).astype(np.float32)
    whole = forest.probabilities(new)
    monkeypatch.setattr("uncover.bayes.forest._BLOCK_NUMBERS", 12)
    np.testing.assert_array_equal(forest.probabilities(new), whole)


def test_machine_code_says_the_same_to_the_last_bit(grown, rng, monkeypatch):
    forest, new = grown[3], rng.normal(size=(130, 5)).astype(np.float32)
    new[0] = forest.threshold[forest.roots[0]]
    plain = forest.probabilities(new)
    monkeypatch.setattr("uncover.engines.members.FEW_LEAVES", 0)
    np.testing.assert_array_equal(forest.probabilities(new), plain)
