"""Trees, kernels and calibrated views by compiled kernels, where the work is worth it."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax

from uncover.bayes.forest import Forest
from uncover.bayes.kernel_mixture import KernelMixture
from uncover.bayes.linalg import slices
from uncover.bayes.niw import Gaussians
from uncover.bayes.student_t import IndependentT, StudentT, kept_finite
from uncover.engines.kernels import Kernels
from uncover.engines.machine import machine_code
from uncover.engines.threads import in_order, processors

Array = NDArray[np.float64]

# Fewer leaves, differences, products, or log joints than this are not worth a call of compiled code.
FEW_LEAVES, FEW_DIFFERENCES, FEW_PRODUCTS, FEW_JOINTS = 200_000, 10_000_000, 400_000, 100_000
# Points that one thread takes at a time; of trees, which divide many together, at least and at most.
_PIECE, _FEWEST, _MOST = 4096, 1 << 12, 1 << 15
# Kernels are summed so many times as large: their squares do not underflow in single precision.
_ENLARGED = 2.0**50


class FastStudentT(StudentT):
    """Student t with machine code: the same squared distances as the reference, to rounding."""

    @classmethod
    def of(cls, density: StudentT | IndependentT) -> StudentT | IndependentT:
        """A density with machine code, where there is some for its kind."""
        return cls(density.location, density.root, density.dof) if isinstance(density, StudentT) else density

    def squared_distance(self, points: ArrayLike) -> Array:
        """q = |L⁻¹(x − m)|² of each point and member of the batch: shape (..., *batch)."""
        x = np.asarray(points, np.float64)
        n, p = x.size // max(1, x.shape[-1]), x.shape[-1]
        code = machine_code() if n * self.whitening.size >= FEW_PRODUCTS else None
        if code is None:
            return super().squared_distance(points)
        found = _squared_distances(code, x.reshape(n, p), *self._stacked)
        return kept_finite(found).reshape(x.shape[:-1] + self.batch_shape)

    @cached_property
    def _stacked(self) -> tuple[Array, Array]:
        """Locations and whitening matrices of the members of the batch."""
        location, whitening = (np.stack(part) for part in zip(*self._members(), strict=True))
        return location, whitening


class FastGaussians(Gaussians):
    """Drawn Gaussians with machine code, whose whitening matrices are lower triangles."""

    def squared_distances(self, points: Array) -> Array:
        """Squared Mahalanobis distance of each point to each Gaussian: (point, Gaussian)."""
        code = machine_code() if len(points) * self.whitening.size >= FEW_PRODUCTS else None
        if code is None:
            return super().squared_distances(points)
        return _squared_distances(code, points, *self.stacked)


def _squared_distances(code: Kernels, points: Array, location: Array, whitening: Array) -> Array:
    """Squares of W(x − m) with lower triangles W: (point, Gaussian)."""
    x, out = np.ascontiguousarray(points, np.float64), np.empty((len(location), len(points)))

    def work_on(rows: slice) -> None:
        code.squared_distances(x, location, whitening, rows.start, rows.stop, out)

    _in_pieces(work_on, len(x))
    return out.T


class FastForest(Forest):
    """Trees with machine code: the same probabilities as the reference."""

    def probabilities(self, points: Array, shares: Array | None = None) -> Array:
        """Class probabilities of points, (point, class); ``shares`` saves computing those of the nodes."""
        work = len(points) * len(self.roots) + (self.count.size if shares is None else 0)
        worth = work >= FEW_LEAVES and points.dtype == np.float32
        code = machine_code() if worth and points.shape[1] <= 256 else None
        if code is None:
            return super().probabilities(points, shares)
        order, *arrays = self._packed
        said = self._said if shares is None else shares[order]
        out = np.empty((len(points), said.shape[1]))

        def work_on(rows: slice) -> None:
            code.sums_of_leaves(points[rows], *arrays, said, out[rows])

        share = -(-len(points) // processors())
        _in_pieces(work_on, len(points), min(max(share, _FEWEST), _MOST))
        return out / len(self.roots)

    @cached_property
    def _said(self) -> Array:
        """Shares of the nodes in the order of those."""
        return self.shares()[self._packed[0]]

    @cached_property
    def _packed(self) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
        """Order of the nodes, siblings side by side; in this order children with features, thresholds; roots.

        Thresholds are rounded down: a number in single precision is above one if it is above the other.
        """
        parts, roots, number = [], [], 0
        for root in self.roots:
            level, tree = np.array([root]), []
            while len(level):
                tree.append(level)
                inner = level[self.left[level] != level]
                level = np.stack([self.left[inner], self.right[inner]], axis=1).ravel()
            parts += tree
            roots.append(number)
            number += sum(map(len, tree))
        order = np.concatenate(parts)
        place = np.empty(len(self.left), np.int64)
        place[order] = np.arange(len(order))
        leaf = self.left[order] == order
        near = self.threshold[order].astype(np.float32)
        down = np.where(near > self.threshold[order], np.nextafter(near, np.float32(-np.inf)), near)
        threshold = np.where(leaf, np.float32(np.inf), down)
        feature = np.where(leaf, 0, self.feature[order])
        return order, 256 * place[self.left[order]] + feature, threshold, np.array(roots)


class FastKernelMixture(KernelMixture):
    """Kernels with machine code: the same densities as the reference, to rounding."""

    def sums(self, points: NDArray[Any], *, single: bool = False) -> tuple[Array, Array]:
        """Sums of the kernels of each class, and of their squares: (point, class) each."""
        enough = len(points) * self.centres.size >= FEW_DIFFERENCES and self._arranged is not None
        code = machine_code() if enough else None
        if code is None or self._arranged is None:
            return super().sums(points)
        kind = np.float32 if single else np.float64
        middle, numbers, first = self._arranged
        arrays = [part.astype(kind) for part in numbers]
        out = np.empty((2, len(points), self.share.shape[1]))

        def work_on(rows: slice) -> None:
            part = ((points[rows] - middle) / self.bandwidth).astype(kind)
            code.kernel_sums(part, *arrays, first, *out[:, rows])

        _in_pieces(work_on, len(points))
        return out[0] / _ENLARGED, out[1] / _ENLARGED**2

    @cached_property
    def _arranged(self) -> tuple[Array, list[Array], NDArray[np.int64]] | None:
        """The middle of the centres; −2c, 1 + |c|² and weights, class by class; where each class begins.

        None where a centre is in several classes.
        """
        if ((self.share > 0).sum(axis=1) > 1).any():
            return None
        owner = self.share.argmax(axis=1)
        order, middle = np.argsort(owner, kind="stable"), self.centres.mean(0)
        c = (self.centres[order] - middle) / self.bandwidth
        first = np.searchsorted(owner[order], np.arange(self.share.shape[1] + 1))
        weight = _ENLARGED * self.share.max(axis=1)[order]
        return middle, [-2.0 * c, 1.0 + (c**2).sum(1), weight], first.astype(np.int64)


class Views(NamedTuple):
    """A member's probabilities at all views of each point, calibrated by its temperature."""

    probability: Array  # (point, class), mean over views
    logs: Array  # (point, view, class), logarithms of the probabilities
    best: NDArray[np.uint8]  # (point, view), the most probable class

    @classmethod
    def of(cls, joint: Array, temperature: float, offset: Array) -> "Views":
        """Of log joints (point, view, class) plus an offset (class,); impossible classes alone are alike."""
        n, R, K = joint.shape
        code = machine_code() if joint.size >= FEW_JOINTS else None
        if code is None:
            known = np.where(np.isfinite(joint).any(-1, keepdims=True), joint, 0.0) + offset
            logs = log_softmax(known / temperature, axis=-1)
            return cls(np.exp(logs).mean(1), logs, known.argmax(-1).astype(np.uint8))
        out = cls(np.empty((n, K)), np.empty((n, R, K)), np.empty((n, R), np.uint8))

        def work_on(rows: slice) -> None:
            code.temper(joint[rows], 1.0 / temperature, offset, *(each[rows] for each in out))

        _in_pieces(work_on, n)
        return out


def class_probabilities(joint: Array) -> Array:
    """Class probabilities of log joints (point, view, class), means over views: (point, class)."""
    found = Views.of(joint, 1.0, np.zeros(joint.shape[-1])).probability
    return np.asfortranarray(found)  # sums over few classes are quick where points lie together


def pool_answers(
    probability: Array, gate: Array, exponents: Array, log_shares: Array
) -> tuple[Array, Array] | None:
    """Answers of a pool and mean entropies of its draws by machine code, as `models.pool` has them."""
    code = machine_code() if probability.size >= FEW_JOINTS else None
    if code is None:
        return None
    _, n, K = probability.shape
    mean, inner = np.empty((n, K)), np.empty(n)

    def work_on(rows: slice) -> None:
        own = probability[:, rows].swapaxes(1, 2), gate[:, rows]
        code.pool_answers(*own, exponents, log_shares, mean[rows], inner[rows])

    _in_pieces(work_on, n)
    return mean, inner


def pool_views(logs: Array, power: Array, base: Array) -> tuple[Array, Array] | None:
    """Answers in each view and their entropies, both averaged, by machine code; `models.pool` has the same.

    From log probabilities (member, point, view, class), powers (member, point), and what is added (class,).
    """
    code = machine_code() if logs.size >= FEW_JOINTS else None
    if code is None:
        return None
    _, n, _, K = logs.shape
    mean, inner = np.empty((n, K)), np.empty(n)

    def work_on(rows: slice) -> None:
        code.pool_views(logs[:, rows], power[:, rows], base, mean[rows], inner[rows])

    _in_pieces(work_on, n)
    return mean, inner


def _in_pieces(work_on: Callable[[slice], None], n: int, size: int = _PIECE) -> None:
    for _ in in_order(work_on, slices(n, size)):
        pass
