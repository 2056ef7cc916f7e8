"""Randomised trees as arrays: class shares of the leaves, shrunk along the path, averaged over trees."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Places of one block of points in the trees: they stay in the cache.
_BLOCK_NUMBERS = 1 << 18
_STEPS = 4  # down the trees, before those that have arrived are set aside


@dataclass(frozen=True)
class Forest:
    """Trees that divide the features at thresholds; what a node says comes from its samples and its parent.

    The class shares of a node with n samples are those of a Dirichlet posterior whose prior is what its
    parent says, worth λ samples (the root's is uniform):

        P(k | node) = (n_k + λ·P(k | parent)) / (n + λ)

    A point's probabilities are those of its leaf, averaged over the trees.
    """

    left: Index  # (node,), of all trees, one after the other; a leaf is its own left and right
    right: Index  # (node,)
    feature: Index  # (node,)
    threshold: Array  # (node,), a point goes left where its feature is at most this
    count: Array  # (node, class)
    roots: Index  # (tree,)
    strength: float  # λ

    def leaves(self, points: Array) -> Index:
        """Leaf of each point in each tree: (point, tree)."""
        size = max(1, _BLOCK_NUMBERS // len(self.roots))
        blocks = [self._descend(points[i : i + size]) for i in range(0, len(points), size)]
        return np.concatenate(blocks) if blocks else np.empty((0, len(self.roots)), dtype=np.intp)

    def _descend(self, points: Array) -> Index:
        """Some steps for all, then those that have not reached a leaf go on."""
        x, trees = np.ascontiguousarray(points).ravel(), len(self.roots)
        child = np.stack([self.left, self.right], axis=1).ravel().astype(np.int32)
        feature = self.feature.astype(np.int32)
        found = np.tile(self.roots.astype(np.int32), len(points))
        node = found.copy()
        start = np.repeat(np.arange(len(points), dtype=np.int32) * np.int32(points.shape[1]), trees)
        place = np.arange(len(found), dtype=np.int32)
        while len(place):
            for _ in range(_STEPS):
                goes_right = x[start + feature[node]] > self.threshold[node]
                node = child[2 * node + goes_right]
            found[place] = node
            inner = np.flatnonzero(child[2 * node] != node)
            place, node, start = place[inner], node[inner], start[inner]
        return found.reshape(len(points), trees).astype(np.intp)

    def shares(self) -> Array:
        """Share of each class in each node, shrunk towards that of its parent: (node, class)."""
        return self.averages(self.count, 1.0 / self.count.shape[1])

    def averages(self, sums: Array, first: float = 0.0) -> Array:
        """Average of values other than classes in each node, shrunk likewise, from sums: (node, value).

        ``first`` is the prior of the roots.
        """
        n = self.count.sum(1, keepdims=True)
        out = np.empty_like(sums)
        level, above = self.roots, np.full((len(self.roots), sums.shape[1]), first)
        while len(level):
            out[level] = (sums[level] + self.strength * above) / (n[level] + self.strength)
            inner = level[self.left[level] != level]
            level = np.concatenate([self.left[inner], self.right[inner]])
            above = np.concatenate([out[inner]] * 2)
        return out

    def with_strength(self, strength: float) -> Self:
        """The same trees with another λ."""
        return replace(self, strength=strength)

    def probabilities(self, points: Array, shares: Array | None = None) -> Array:
        """Class probabilities of points, (point, class); ``shares`` saves computing those of the nodes."""
        shares = self.shares() if shares is None else shares
        out = np.zeros((len(points), shares.shape[1]))
        size = max(1, _BLOCK_NUMBERS // len(self.roots))
        for i in range(0, len(points), size):
            for leaves in self._descend(points[i : i + size]).T:
                out[i : i + size] += shares[leaves]
        return out / len(self.roots)
