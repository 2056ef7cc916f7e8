"""Trees and kernels by machine code, where numba is installed and the work is worth it."""

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.class_densities import slices
from uncover.bayes.forest import Forest
from uncover.bayes.kernel_mixture import KernelMixture
from uncover.engines.machine import machine_code
from uncover.engines.threads import in_order

Array = NDArray[np.float64]

# Fewer leaves, or differences, than this are not worth machine code, which takes its time to load.
FEW_LEAVES, FEW_DIFFERENCES = 1_000_000, 10_000_000
# Points that one thread takes at a time.
_PIECE = 1024


class FastForest(Forest):
    """Trees with machine code: the same probabilities as the reference."""

    def probabilities(self, points: Array, shares: Array | None = None) -> Array:
        """Class probabilities of points, (point, class); ``shares`` saves computing those of the nodes."""
        code = machine_code() if len(points) * len(self.roots) >= FEW_LEAVES else None
        if code is None:
            return super().probabilities(points, shares)
        said = self.shares() if shares is None else shares
        child = np.stack([self.left, self.right], axis=1)
        out = np.empty((len(points), said.shape[1]))

        def work_on(rows: slice) -> None:
            part = np.ascontiguousarray(points[rows])
            code.sums_of_leaves(part, child, self.feature, self.threshold, said, self.roots, out[rows])

        _in_pieces(work_on, len(points))
        return out / len(self.roots)


class FastKernelMixture(KernelMixture):
    """Kernels with machine code: the same densities as the reference, to rounding."""

    def _sums_at(self, points: Array) -> Array:
        enough = len(points) * self.centres.size >= FEW_DIFFERENCES and self._owner is not None
        code = machine_code() if enough else None
        if code is None or self._owner is None:
            return super()._sums_at(points)
        owner, weight = self._owner
        out = np.empty((len(points), self.share.shape[1]))
        centres, inverse_square = np.ascontiguousarray(self.centres, np.float64), 1.0 / self.bandwidth**2

        def work_on(rows: slice) -> None:
            part = np.ascontiguousarray(points[rows], np.float64)
            code.kernel_sums(part, centres, owner, weight, inverse_square, out[rows])

        _in_pieces(work_on, len(points))
        return out

    @cached_property
    def _owner(self) -> tuple[NDArray[np.int64], Array] | None:
        """The class of each centre and its weight; None where one is in several classes."""
        if ((self.share > 0).sum(axis=1) > 1).any():
            return None
        return self.share.argmax(axis=1).astype(np.int64), self.share.max(axis=1)


def _in_pieces(work_on: Callable[[slice], None], n: int) -> None:
    for _ in in_order(work_on, slices(n, _PIECE)):
        pass
