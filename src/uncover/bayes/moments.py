"""Sufficient statistics of weighted samples, mergeable in any order. No prior and no class model here."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uncover.bayes.linalg import slices

Array = NDArray[np.float64]

# Bytes of one float64 block: it stays in a core's cache, and fixed, so that the result is too.
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Moments:
    """Weighted count, mean and centred scatter of samples, batched over leading axes.

    n = Σ wᵢ,  x̄ = Σ wᵢxᵢ / n,  S = Σ wᵢ (xᵢ − x̄)(xᵢ − x̄)ᵀ

    ``a + b`` are the moments of both sets of samples together (Chan, Golub and LeVeque 1983),
    whatever their sizes. The mean is kept as ``mean + residual``, two floats for each number: data
    like 10⁶ ± 1 would otherwise lose digits of the scatter in each merge.

    >>> a, b = Moments.of([[1.0], [2.0]]), Moments.of([[6.0]])
    >>> total = a + b
    >>> float(total.count), float(total.mean[0]), float(total.scatter[0, 0])
    (3.0, 3.0, 14.0)
    """

    count: Array  #: (...), sum of weights
    mean: Array  #: (..., feature)
    scatter: Array  #: (..., feature, feature), centred sum of products
    residual: Array  #: (..., feature), what rounding took from the mean

    @classmethod
    def empty(cls, n_features: int, batch: tuple[int, ...] = ()) -> Self:
        """Moments of no samples: the neutral element of ``+``."""
        zeros = np.zeros((*batch, n_features))
        return cls(np.zeros(batch), zeros, np.zeros((*batch, n_features, n_features)), zeros)

    @classmethod
    def of(cls, samples: ArrayLike, weight: ArrayLike | None = None) -> Self:
        """Moments of samples of shape (..., sample, feature), with weights of shape (..., sample).

        Read in blocks, in float64 whatever comes: memory does not grow with the number of samples.
        """
        x = np.asarray(samples)
        w = None if weight is None else np.broadcast_to(np.asarray(weight, np.float64), x.shape[:-1])

        blocks = (
            cls._of_block(x[..., rows, :], None if w is None else w[..., rows])
            for rows in row_blocks(x.shape)
        )
        return cls._total(blocks, x)

    @classmethod
    def by_group(
        cls, samples: ArrayLike, group: ArrayLike, n_groups: int, weight: ArrayLike | None = None
    ) -> Self:
        """Moments of each group of samples (..., sample, feature): batch shape (..., group).

        ``group`` and ``weight`` have one number for each sample; groups are 0 … n_groups − 1.
        """
        x, groups = np.asarray(samples), np.asarray(group)
        w = None if weight is None else np.asarray(weight, np.float64)
        if n_groups <= np.iinfo(np.uint16).max:
            groups = groups.astype(np.uint16)  # short numbers are sorted digit by digit, which is faster
        order = np.argsort(groups, kind="stable")
        edges = np.searchsorted(groups[order], np.arange(n_groups + 1))
        each = []
        for start, stop in pairwise(edges):
            members = order[start:stop]
            blocks = (
                cls._of_block(x[..., members[rows], :], None if w is None else w[members[rows]])
                for rows in row_blocks((*x.shape[:-2], len(members), x.shape[-1]))
            )
            each.append(cls._total(blocks, x))
        return cls.stack(each, axis=-1)

    @classmethod
    def _total(cls, blocks: Iterable[Self], samples: NDArray[Any]) -> Self:
        """Moments of all blocks of samples, of which there may be none."""
        found = list(blocks)
        return reduce(add, found) if found else cls.empty(samples.shape[-1], samples.shape[:-2])

    @classmethod
    def _of_block(cls, block: NDArray[Any], weight: Array | None) -> Self:
        """Two passes over one block; the second removes what rounding left in the first mean."""
        x = block.astype(np.float64)
        batch, n = x.shape[:-2], x.shape[-2]
        if weight is None:
            count, weighted = np.full(batch, float(n)), x
        else:
            weight = np.broadcast_to(weight, x.shape[:-1])
            count, weighted = weight.sum(-1), weight[..., None] * x
        safe = np.where(count > 0, count, 1.0)[..., None]
        mean = weighted.sum(-2) / safe
        x -= mean[..., None, :]
        weighted = x if weight is None else weight[..., None] * x
        residual = weighted.sum(-2) / safe
        scatter = np.swapaxes(weighted, -1, -2) @ x
        scatter -= count[..., None, None] * _outer(residual)
        return cls(count, mean, scatter, residual)

    @classmethod
    def stack(cls, parts: "list[Self]", axis: int = 0) -> Self:
        """Join moments of equal batch shape along a new batch axis (negative: from the last one)."""

        def join(name: str, trailing: int) -> Array:
            position = axis if axis >= 0 else axis - trailing
            return np.stack([getattr(part, name) for part in parts], axis=position)

        return cls(join("count", 0), join("mean", 1), join("scatter", 2), join("residual", 1))

    def __add__(self, other: Self) -> Self:
        n, m = self.count, other.count
        total = n + m
        share = m / np.where(total > 0, total, 1.0)
        delta = (other.mean - self.mean) + (other.residual - self.residual)
        mean, low = _two_sum(self.mean, delta * share[..., None])
        mean, low = _two_sum(mean, low + self.residual)
        scatter = self.scatter + other.scatter + (n * share)[..., None, None] * _outer(delta)
        # An empty side has no mean to be near to: the other side is taken as it is.
        for empty, side in ((n == 0, other), (m == 0, self)):
            mean = np.where(empty[..., None], side.mean, mean)
            low = np.where(empty[..., None], side.residual, low)
        return type(self)(total, mean, scatter, low)

    def __getitem__(self, index: Any) -> Self:
        """Select from the batch axes."""
        return type(self)(self.count[index], self.mean[index], self.scatter[index], self.residual[index])

    def sum(self, axis: int = -1) -> Self:
        """Merge along one batch axis."""
        length = self.count.shape[axis]
        axis = axis % self.count.ndim
        before = (slice(None),) * axis
        parts = (self[(*before, i)] for i in range(length))
        batch = self.count.shape[:axis] + self.count.shape[axis + 1 :]
        return reduce(add, parts, type(self).empty(self.n_features, batch))

    def select_features(self, keep: NDArray[Any]) -> Self:
        """Moments of some of the features, by index or mask."""
        scatter = self.scatter[..., keep, :][..., keep]
        return type(self)(self.count, self.mean[..., keep], scatter, self.residual[..., keep])

    @property
    def n_features(self) -> int:
        """Number of features, p."""
        return int(self.mean.shape[-1])

    @property
    def variance(self) -> Array:
        """S_jj / (n − 1) of each feature; NaN where n ≤ 1. Shape (..., feature)."""
        dof = np.where(self.count > 1, self.count - 1, np.nan)
        return np.diagonal(self.scatter, axis1=-2, axis2=-1) / dof[..., None]

    @property
    def covariance(self) -> Array:
        """S / (n − 1); NaN where n ≤ 1. Shape (..., feature, feature)."""
        dof = np.where(self.count > 1, self.count - 1, np.nan)
        return self.scatter / dof[..., None, None]


def row_blocks(shape: tuple[int, ...]) -> list[slice]:
    """Cut the sample axis (last but one) into blocks of a fixed number of bytes."""
    *batch, n, p = shape
    rows = max(64, _BLOCK_BYTES // (8 * max(1, p) * max(1, int(np.prod(batch)))))
    return slices(n, rows)


def _outer(vector: Array) -> Array:
    product: Array = vector[..., :, None] * vector[..., None, :]
    return product


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b as a float and the rounding error of it, exactly (Knuth)."""
    total = a + b
    rest = total - a
    return total, (a - (total - rest)) + (b - rest)
