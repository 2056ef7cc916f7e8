"""Class densities made of one kernel at each training sample: no shape is assumed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.linalg import slices

Array = NDArray[np.float64]

# Numbers of one block of kernel values: they stay in the cache.
_BLOCK_NUMBERS = 1 << 20


@dataclass(frozen=True)
class KernelMixture:
    """Joint density of value and class, p(x, k) ∝ Σ_i w_i t_ik (1 + |x − x_i|²/h²)^(−6), sample by sample.

    The kernels are of Student's kind: far from all samples the classes approach their proportions, so that
    what was never seen is not sure. Features are to be of comparable scale.

    >>> model = KernelMixture(np.array([[0.0], [1.0]]), np.eye(2), 0.5)
    >>> odds = np.exp(model.log_joint(np.array([[0.0], [0.5], [100.0]])))
    >>> (odds / odds.sum(1, keepdims=True)).round(2)
    array([[1.  , 0.  ],
           [0.5 , 0.5 ],
           [0.47, 0.53]])
    """

    centres: Array  #: (sample, feature)
    share: Array  #: (sample, class), weight of each sample in each class
    bandwidth: float  #: h

    def log_joint(self, points: NDArray[Any]) -> Array:
        """log p(x, k) up to a constant: (point, class)."""
        return self.log_joint_and_variance(points)[0]

    def log_joint_and_variance(self, points: NDArray[Any], *, single: bool = False) -> tuple[Array, Array]:
        """The same, and its variance had the samples been others (Bayesian bootstrap): (point, class) each.

        The variance is Σ_i w_i² k_i² / (Σ_i w_i k_i)² over the samples of the class.
        """
        total, squares = self.sums(points, single=single)
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = np.minimum(squares / total**2, 1.0)
            return np.log(total), np.nan_to_num(variance, copy=False, nan=1.0)

    def sums(self, points: NDArray[Any], *, single: bool = False) -> tuple[Array, Array]:
        """Sums of the kernels of each class, and of their squares: (point, class) each.

        ``single`` precision is allowed; NumPy does not use it.
        """
        parts = [self._kernels(squares) for _, squares in _squares(points, self.centres)]
        return (
            np.concatenate([kernels @ self.share for kernels in parts]),
            np.concatenate([kernels**2 @ self.share**2 for kernels in parts]),
        )

    def held_out(self, points: Array, groups: NDArray[np.intp], of_centres: NDArray[np.intp]) -> Array:
        """The same at points of groups, without the kernels of centres of their group: (point, class)."""
        parts = held_out_squares(points, groups, self.centres, of_centres)
        with np.errstate(divide="ignore"):
            return np.log(np.concatenate([self._kernels(squares) @ self.share for squares in parts]))

    def log_joint_at(self, squares: Array) -> Array:
        """The same from squared distances of points from the centres: (point, centre) -> (point, class)."""
        with np.errstate(divide="ignore"):
            return np.log(self._kernels(squares.copy()) @ self.share)

    def _kernels(self, squares: Array) -> Array:
        """Kernels of squared distances, which are changed."""
        squares *= 1.0 / self.bandwidth**2
        squares += 1.0
        np.reciprocal(squares, out=squares)
        squares *= squares  # ²
        cube = squares * squares  # ⁴
        cube *= squares  # ⁶
        return cube


def held_out_squares(
    points: Array, groups: NDArray[np.intp], centres: Array, of_centres: NDArray[np.intp]
) -> Iterator[Array]:
    """Squared distances of points from all centres, in blocks; infinite from centres of their own group.

    >>> x, one_each = np.array([[0.0], [2.0]]), np.arange(2)
    >>> list(held_out_squares(x, one_each, x, one_each))
    [array([[inf,  4.],
           [ 4., inf]])]
    """
    for block, squares in _squares(points, centres):
        squares[groups[block][:, None] == of_centres] = np.inf
        yield squares


def _squares(points: Array, centres: Array) -> Iterator[tuple[slice, Array]]:
    """Squared distances of blocks of points from all centres."""
    norms = np.einsum("ij,ij->i", centres, centres)
    size = max(1, _BLOCK_NUMBERS // max(1, len(centres)))
    for block in slices(len(points), size):
        x = points[block]
        squares = np.einsum("ij,ij->i", x, x)[:, None] + norms - 2.0 * (x @ centres.T)
        yield block, np.maximum(squares, 0.0, out=squares)


def median_square(points: Array) -> float:
    """Median of the squared distances between points, a scale for bandwidths.

    >>> median_square(np.array([[0.0], [1.0], [3.0]]))
    4.0
    """
    squares = np.concatenate([s for _, s in _squares(points, points)])
    apart = squares[np.triu_indices(len(points), 1)]
    apart = apart[apart > 0]
    return float(np.median(apart)) if len(apart) else 1.0
