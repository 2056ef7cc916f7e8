"""The fast path for pixels whose noise is known: all that a map says of them, a few microseconds each.

A pixel of value x and noise covariance C has, under class k, the Student t that matches the covariance of
what is measured (``method="fast"``): scale matrix M = S + (ν−2)/ν·(N + C), with N the noise that all pixels
have in common. What the true value χ would tell is an integral over χ given x and k, which is Gaussian where
the class and the noise are,

    χ | x, k ~ N(m + Σ(Σ + N + C)⁻¹(x − m),  V = Σ − Σ(Σ + N + C)⁻¹Σ),

and is summed over a few points μ + A z_d, AAᵀ = V (:func:`true_value_points`). The first column of A is the
direction in which the log odds of class k change most at μ, and the points are stratified along it; they come
in pairs of opposite sign and have the covariance 1, so that terms up to third order are exact. Class k has a
number of points that grows with √P(k), and each the weight P(k) over it. Nothing is drawn at random: a result
depends on the pixel alone.

Classes of several parts, and a temperature, come in by a folding: densities and draws are then those of the
parts, probabilities and what is told of the class those of the classes.

Two implementations give the same answers: machine code (:mod:`uncover.bayes.compiled.noise`) and NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from uncover.bayes.budget import entropy, joint_table, split_by_draw
from uncover.bayes.covariances import Covariances
from uncover.bayes.folding import Folding
from uncover.bayes.hotelling import Reference
from uncover.bayes.kernels import Fold, Lens, tail_coefficients
from uncover.bayes.linalg import cholesky
from uncover.bayes.noise import _shrink
from uncover.bayes.second_order import LogDensityVariance, second_order
from uncover.bayes.small_matrices import cholesky_of_many, invert_triangles_of_many
from uncover.bayes.speed import machine_code
from uncover.bayes.student_t import StudentT

Array = NDArray[np.float64]

# Numbers of one chunk of pixels in NumPy.
_NUMBERS = 1 << 20
# The information of a true value is at most the entropy: below this much of it, a tenth of the step in which
# maps store it, none is looked for.
CERTAIN = 1e-5
# Classes below this probability get no points of their own.
SMALL = 1e-3
# A pixel of this entropy has all points, one of less in proportion, and a quarter of them at least.
UNSURE = 0.2
# Points of a pixel come in multiples of this many, the last of them without weight.
FILL = 16
# Directions in which the true value is known to this share of the class's variance have no spread.
KNOWN = 1e-12


class Readings(NamedTuple):
    """What is known of pixels with noise, before the parts of the budget are put together."""

    probability: Array  # (class, pixel)
    typicality: Array  # (class, pixel), or (part, pixel) where classes have parts
    inner: Array  # (pixel,), entropy
    measurement: Array  # (pixel,), what the true value would tell of the class
    information: Array  # (pixel,), what the class models would, to second order


class Points(NamedTuple):
    """Standard normal points in the place of true values, in sets of 1, 2, … n of them."""

    n: int  # points of a pixel at most
    padded: int  # the same as a multiple of FILL
    first: NDArray[np.int64]  # (n + 1,), where the set of so many points begins
    z: Array  # (feature, place)


@lru_cache(maxsize=32)
def true_value_points(n: int, p: int) -> Points:
    """Points that stand for a standard normal vector of p numbers, in sets of 1 to n.

    The first number is at the quantiles (i + ½)/m, the others follow an additive recurrence (Roberts' R
    sequence). Points come in pairs of opposite sign; numbers have variance 1 and, as far as m/2 directions
    allow it, no correlation.

    >>> points = true_value_points(16, 3)
    >>> z = points.z[:, points.first[16] : points.first[16] + 16]
    >>> bool(np.allclose(z @ z.T / 16, np.eye(3)) and np.allclose(z.sum(axis=1), 0))
    True
    """
    ratio = 2.0
    for _ in range(60):  # x^p = x + 1: the golden ratio for p = 2
        ratio = (1.0 + ratio) ** (1.0 / p) if p > 1 else ratio
    step = ratio ** -np.arange(1.0, p)
    sizes = np.arange(n + 1)
    first = np.concatenate([[0], np.cumsum(sizes)])[: n + 1]
    z = np.concatenate([_point_set(m, step) for m in range(1, n + 1)], axis=1)
    return Points(n, n + -n % FILL, first.astype(np.int64), np.ascontiguousarray(z))


def _point_set(m: int, step: Array) -> Array:
    """m points (feature, point)."""
    half = m // 2
    level = (np.arange(half) + 0.5) / m
    others = (0.5 + step[:, None] * np.arange(1, half + 1)) % 1.0
    z = ndtri(np.vstack([level[None], np.clip(others, 1e-4, 1 - 1e-4)]))
    for j in range(len(z)):
        if 0 < j < half:
            for _ in range(2):
                z[j] -= ((z[:j] @ z[j]) / (z[:j] ** 2).sum(axis=1)) @ z[:j]
        size = (z[j] ** 2).sum() * 2.0 / m
        z[j] *= 1.0 / np.sqrt(size) if size > 1e-9 else 0.0
    return np.concatenate([z, np.zeros((len(z), m % 2)), -z[:, ::-1]], axis=1)


def points_of_pixels(entropy: Array, n: int) -> NDArray[np.int64]:
    """How many of at most n points a pixel gets, the more the less sure its class is: (pixel,).

    >>> points_of_pixels(np.array([0.0, 0.1, 0.7]), 192).tolist()
    [48, 96, 192]
    """
    return np.ceil(n * np.clip(entropy / UNSURE, 0.25, 1.0)).astype(np.int64)


def points_of_parts(probability: Array, n: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of at most n points each part gets, (part, pixel): 2 and more where it is not negligible.

    >>> points_of_parts(np.array([[0.64], [0.36], [0.0]]), 32).ravel().tolist()
    [18, 14, 0]
    """
    small = np.full(probability.shape[1], SMALL)
    for _ in range(60):
        taken = probability >= small
        count = taken.sum(axis=0)
        small = np.where(2 * count > n, 2.0 * small, small)
    alone = count * 2 > n
    best = np.arange(len(probability))[:, None] == probability.argmax(axis=0)
    taken = np.where((count == 0) | alone, best, taken)
    least = np.minimum(2, n)
    root = np.sqrt(np.where(taken, probability, 0.0))
    free = n - least * taken.sum(axis=0)
    return np.where(taken, least + np.floor(free * root / root.sum(axis=0) + 1e-9), 0).astype(np.int64)


class _Numbers(NamedTuple):
    """A lens as machine code takes it."""

    location: Array  # (class, feature), less the centre
    scale: Array  # (class, feature, feature), S + shrink·N
    shrink: Array  # (class,)
    pivots: Array  # (class, feature), squared diagonals of the Cholesky factor of the scale
    same: bool  # whether the next three are those above
    truth_scale: Array
    truth_shrink: Array
    truth_pivots: Array
    truth_location: Array  # (class, feature), less the centre
    plain_scale: Array  # (class, feature, feature), scale matrices of the true values without noise


class Seen(NamedTuple):
    """Class densities and the noise (class, feature, feature) that they are seen through by all pixels."""

    density: StudentT  # of batch shape (class,)
    noise: Array

    @property
    def shrink(self) -> Array:
        """What turns covariances into scale matrices: (class,)."""
        return np.asarray(np.broadcast_to(_shrink(self.density.dof), self.density.batch_shape))

    @property
    def scale(self) -> Array:
        """Scale matrices with noise: (class, feature, feature)."""
        return np.asarray(self.plain_scale + self.shrink[:, None, None] * self.noise)

    @property
    def plain_scale(self) -> Array:
        """Scale matrices without."""
        root = np.broadcast_to(self.density.root, self.noise.shape)
        return np.asarray(root @ root.swapaxes(1, 2))


@dataclass(frozen=True, eq=False)
class NoisyLens:
    """Student t densities of classes, arranged for very many pixels whose noise is known.

    Parameters
    ----------
    measured : Seen
        What the pixels come from, and the noise beyond it.
    truth : Seen
        Classes of true values, and the noise beyond these; often the same.
    log_prior : array of shape (class,)
    variance : LogDensityVariance
        Of the densities in ``measured``.
    n_points : int
        Points in the place of true values that a pixel gets at most.
    folding : Folding, optional
        What classes the densities are parts of.
    reference : Reference, optional
        What p-values are read from, where it is not ``measured``.

    Examples
    --------
    >>> t = StudentT.from_scale([[0.0, 0.0], [3.0, 3.0]], np.eye(2), [50.0, 80.0])
    >>> seen = Seen(t, np.zeros((2, 2, 2)))
    >>> variance = LogDensityVariance(*np.zeros((3, 2)), dof=np.ones(2))
    >>> lens = NoisyLens(seen, seen, np.log([0.5, 0.5]), variance, 64)
    >>> pixel = np.array([[[1.5], [1.5]]])  # (realisation, feature, pixel), half-way
    >>> precise, noisy = (lens.read(pixel, covariances=c * np.eye(2)[None]) for c in (0.01, 1.0))
    >>> bool(precise.measurement[0] < noisy.measurement[0])
    True
    """

    measured: Seen
    truth: Seen
    log_prior: Array
    variance: LogDensityVariance
    n_points: int
    folding: Folding | None = None
    reference: Reference | None = None

    def read(
        self,
        planes: NDArray[Any],
        *,
        coefficients: Array | None = None,
        covariances: Array | None = None,
        spread: bool = False,
    ) -> Readings:
        """Read planes (realisation, feature, pixel), of which the mean counts.

        Parameters
        ----------
        planes : array
        coefficients : array of shape (realisation, 3, feature), optional
            There is then one plane for each feature, as in :meth:`Lens.summarise`.
        covariances : array of shape (1 or pixel, feature, feature), optional
        spread : bool
            Whether the covariance of the realisations is that of the noise.
        """
        p, n = planes.shape[1:]
        parts = len(self.log_prior)
        K = parts if self.folding is None else self.folding.n_classes
        out = Readings(np.empty((K, n)), np.empty((parts, n)), np.empty(n), np.empty(n), np.empty(n))
        if machine_code() is None:
            self._read(planes, coefficients, covariances, spread, out)
            return self._with_typicality(out, planes, coefficients, covariances, spread)
        points = true_value_points(self.n_points, p)
        from uncover.bayes.compiled import noise

        noise.read(
            planes,
            np.zeros((0, 3, p)) if coefficients is None else np.ascontiguousarray(coefficients, np.float64),
            np.zeros((0, p, p)) if covariances is None else np.ascontiguousarray(covariances, np.float64),
            spread, self._numbers, self._plain._numbers(np.float64, p_values=True), self._truth_numbers,
            self._fold, points, out,
        )  # fmt: skip
        return self._with_typicality(out, planes, coefficients, covariances, spread)

    def _with_typicality(
        self,
        found: Readings,
        planes: NDArray[Any],
        coefficients: Array | None,
        covariances: Array | None,
        spread: bool,
    ) -> Readings:
        """The same with p-values of the densities that they are read from."""
        if self.reference is None:
            return found
        for rows, x, C in self._chunks(planes, coefficients, covariances, spread):
            for k, common in enumerate(self.measured.noise):
                noise = np.moveaxis(C, 2, 0) + common
                same = len(noise) == 1
                known = Covariances(noise[0] if same else None, None, None if same else noise)
                found.typicality[k, rows] = self.reference.p_value(k, x.T, known)
        return found

    # ---- what is the same for all pixels -----------------------------------------------------------

    @cached_property
    def _fold(self) -> Fold:
        """What machine code makes classes with; without parts each class is its only one."""
        folding = self.folding or Folding(np.arange(len(self.log_prior)))
        return Fold(folding.first, np.array([1.0 / folding.temperature]))

    @cached_property
    def _plain(self) -> Lens:
        """The densities without noise, but for the constants, which are those with the common noise."""
        lens = Lens.of([self.measured.density], self.log_prior, [self.variance])
        before = np.log(np.diagonal(self.measured.density.root, axis1=-2, axis2=-1)).sum(-1)
        after = 0.5 * np.log(self._pivots(self.measured)).sum(-1)
        return replace(lens, log_weight=lens.log_weight + before - after)

    @cached_property
    def _true(self) -> Lens:
        return Lens.of([self.truth.density], self.log_prior)

    @cached_property
    def _truth_numbers(self) -> Any:
        """Numbers of the true values' lens, about the centre of the measured values' lens."""
        numbers = self._true._numbers(np.float64)
        shift = np.einsum("kij,kj->ki", self._true.whitening[0], self._true.location[0] - self._plain._centre)
        return numbers._replace(shift=np.pad(shift, [(0, 0), (0, len(shift.T) % 2)])[None])

    @staticmethod
    def _pivots(seen: Seen) -> Array:
        root = cholesky(seen.scale, "the scale matrix of a class with noise")
        return np.ascontiguousarray(np.diagonal(root, axis1=1, axis2=2) ** 2)

    @cached_property
    def _numbers(self) -> _Numbers:
        return _Numbers(
            location=self._plain.location[0] - self._plain._centre,
            scale=self.measured.scale,
            shrink=np.array(self.measured.shrink),
            pivots=self._pivots(self.measured),
            same=self.measured is self.truth,
            truth_scale=self.truth.scale,
            truth_shrink=np.array(self.truth.shrink),
            truth_pivots=self._pivots(self.truth),
            truth_location=self._true.location[0] - self._plain._centre,
            plain_scale=np.ascontiguousarray(self.truth.plain_scale),
        )

    # ---- the same in NumPy -------------------------------------------------------------------------

    def _read(
        self,
        planes: NDArray[Any],
        coefficients: Array | None,
        covariances: Array | None,
        spread: bool,
        out: Readings,
    ) -> None:
        for rows, mean, C in self._chunks(planes, coefficients, covariances, spread):
            x = mean - self._plain._centre[:, None]
            for place, part in zip(out, self._chunk(x, C), strict=True):
                place[..., rows] = part

    def _chunks(
        self, planes: NDArray[Any], coefficients: Array | None, covariances: Array | None, spread: bool
    ) -> Iterator[tuple[slice, Array, Array]]:
        """Some pixels at a time: values (feature, pixel), noise (feature, feature, 1 or pixel)."""
        p, n = planes.shape[1:]
        size = max(16, _NUMBERS // (p * (self.n_points * 4 + p * len(self.log_prior))))
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            values = _realised(planes[:, :, rows].astype(np.float64), coefficients)
            mean = values.mean(axis=0)
            C = np.zeros((p, p, 1))
            if spread:
                factor = (values - mean).transpose(1, 0, 2) / np.sqrt(len(values) - 1.0)
                C = np.einsum("irn,jrn->ijn", factor, factor)
            elif covariances is not None:
                given = covariances if len(covariances) == 1 else covariances[rows]
                C = np.ascontiguousarray(given.transpose(1, 2, 0))
            yield rows, mean, C

    def _chunk(self, x: Array, C: Array) -> tuple[Array, ...]:
        """All parts of readings of some pixels, from values (feature, pixel) less the centre."""
        lens = self._plain
        inverses = self._inverses(self._numbers.scale, self._numbers.shrink, C)
        q, log_joint = np.empty((2, len(self.log_prior), x.shape[1]))
        for k, inverse in enumerate(inverses):
            z = np.einsum("ijn,jn->in", inverse, x - self._numbers.location[k][:, None])
            q[k] = np.einsum("in,in->n", z, z)
            grown = np.log(np.diagonal(inverse, axis1=0, axis2=1) ** 2 * self._numbers.pivots[k]).sum(-1)
            log_joint[k] = lens.log_weight[0, k] + 0.5 * grown
        depth = np.log1p(q / lens.dof[0][:, None])
        log_joint -= 0.5 * (lens.dof[0][:, None] + len(x)) * depth
        far = lens._distance((x + lens._centre[:, None]).T, 0)
        odds, shares = log_joint, None
        if self.folding is not None:
            odds, shares = self.folding.log_odds(log_joint.T).T, self.folding.shares(log_joint.T).T
        P = np.exp(odds - odds.max(axis=0))
        P /= P.sum(axis=0)
        of_parts = P if shares is None else P[self.folding.owner] * shares  # type: ignore[union-attr]
        information = self._information(P.T, far, log_joint.T)
        inner = entropy(P.T)
        measurement = np.zeros_like(inner)
        mine = np.flatnonzero(inner >= CERTAIN)
        if len(mine):
            own = C if C.shape[-1] == 1 else C[..., mine]
            measurement[mine] = self._measurement(x[:, mine], own, P[:, mine], of_parts[:, mine])
        return P, self._p_values(depth), inner, measurement, information

    def _information(self, P: Array, far: Array, log_joint: Array) -> Array:
        """What the class models would tell of the class, from distances without noise: (pixel,)."""
        if self.folding is None:
            return self.variance.information(P, far)
        if self.variance.between is not None:
            return self.variance.tempered(self.folding.temperature).information(P, far)
        return second_order(P, self.folding.variance(log_joint, self.variance.at(far)))

    @staticmethod
    def _inverses(scale: Array, shrink: Array, C: Array) -> list[Array]:
        """L⁻¹ of each class, (feature, feature, 1 or pixel), with LLᵀ = scale + shrink·C."""
        return [
            invert_triangles_of_many(cholesky_of_many(S[:, :, None] + factor * C))
            for S, factor in zip(scale, shrink, strict=True)
        ]

    def _p_values(self, depth: Array) -> Array:
        lens, p = self._plain, len(self._plain._centre)
        if p % 2:
            return lens._p_values(depth.T, 0).T
        half = 0.5 * lens.dof[0][:, None]
        w = np.minimum(-half * np.expm1(-depth), 88.0)
        tail = tail_coefficients(p, lens.dof[0])
        powers = w[..., None] ** np.arange(tail.shape[1])
        return np.asarray(np.exp(-half * depth) * (tail[:, None] * powers).sum(-1))

    def _measurement(self, x: Array, C: Array, P: Array, of_parts: Array) -> Array:
        """Information that the true value would give, from points in its place."""
        p, n = x.shape
        points = true_value_points(self.n_points, p)
        counts = points_of_parts(of_parts, points_of_pixels(entropy(P.T), points.n))
        before = np.cumsum(counts, axis=0) - counts
        chi, weight = np.zeros((p, n, points.n)), np.zeros((n, points.n))
        inverses = self._inverses(self._numbers.truth_scale, self._numbers.truth_shrink, C)
        for k, inverse in enumerate(inverses):
            mine = np.flatnonzero(counts[k])
            own = inverse if inverse.shape[-1] == 1 else inverse[..., mine]
            middle, A = self._true_value(k, x[:, mine], own, P[:, mine], of_parts[:, mine])
            for m in np.unique(counts[k, mine]):
                these = counts[k, mine] == m
                z = points.z[:, points.first[m] : points.first[m] + m]
                at = before[k, mine[these]][:, None] + np.arange(m)
                drawn = middle[:, these, None] + np.einsum("ijn,jd->ind", A[..., these], z)
                chi[:, mine[these][:, None], at] = drawn
                weight[mine[these][:, None], at] = of_parts[k, mine[these]][:, None] / m
        places = chi.reshape(p, -1).T + self._plain._centre
        depth = self._true._depth(self._true._distance(places, 0), 0)
        log_joint = self._true._log_joint(depth, 0).reshape(n, points.n, -1)
        if self.folding is not None:
            log_joint = self.folding.log_odds(log_joint)
        log_joint -= log_joint.max(axis=-1, keepdims=True)
        log_joint -= np.log(np.exp(log_joint).sum(axis=-1, keepdims=True))
        with np.errstate(divide="ignore"):
            log_weight = np.log(weight)[..., None] + np.maximum(log_joint, -690.0)
        return split_by_draw(joint_table(log_weight, P.T))[0]

    def _true_value(self, k: int, x: Array, inverse: Array, P: Array, of_parts: Array) -> tuple[Array, Array]:
        """Mean (feature, pixel) of the true values of part k, and a root of their covariance.

        The first column of the root is where the log odds of the class change most.
        """
        scale, shrink = self._numbers.plain_scale[k], self._numbers.truth_shrink[k]
        location = self._numbers.truth_location[k][:, None]
        T = np.einsum("ijn,jm->imn", inverse, scale)
        T = np.broadcast_to(T, (*T.shape[:2], x.shape[1]))
        middle = location + np.einsum("imn,in->mn", T, np.einsum("ijn,jn->in", inverse, x - location))
        V = (scale[:, :, None] - np.einsum("imn,iln->mln", T, T)) / shrink
        root = _root_of_many(V, KNOWN * np.diagonal(scale) / shrink)
        a = np.einsum("ijn,in->jn", root, self._steepest(k, middle, P, of_parts))
        size = np.sqrt((a**2).sum(axis=0))
        v = np.divide(a, size, out=np.zeros_like(a), where=size > 0)
        v[0] += np.where(v[0] < 0, -1.0, 1.0)
        along = np.einsum("ijn,jn->in", root, v) * (2.0 / (v**2).sum(axis=0))
        return middle, root - along[:, None, :] * v[None]

    def _steepest(self, k: int, middle: Array, P: Array, of_parts: Array) -> Array:
        """Gradient of the log odds of the class of part k at its mean true value, (feature, pixel)."""
        lens, folding = self._true, self.folding or Folding(np.arange(len(self.log_prior)))
        total = np.zeros_like(middle)
        for c in range(len(of_parts)):
            same = folding.owner[c] == folding.owner[k]
            share = of_parts[c] / np.maximum(P[folding.owner[k]], 1e-300) if same else 0.0
            whitening = lens.whitening[0, c]
            z = whitening @ (middle + (self._plain._centre - lens.location[0, c])[:, None])
            dof = lens.dof[0, c]
            factor = (share - of_parts[c]) * (dof + len(z)) / (dof + (z**2).sum(axis=0))
            total -= factor * (whitening.T @ z)
        return total


def _realised(planes: Array, coefficients: Array | None) -> Array:
    if coefficients is None:
        return planes
    path, slope, albedo = np.moveaxis(coefficients, 1, 0)[..., None]
    y = planes[0] - path
    return np.asarray(y / (slope + albedo * y))


def _root_of_many(C: Array, least: Array) -> Array:
    """Lower triangular roots of covariances (row, column, sample), which may be singular.

    Variances that are left below `least` (row,) count as none.
    """
    root = np.zeros_like(C)
    for j in range(len(C)):
        left = C[j, j] - (root[j, :j] ** 2).sum(axis=0)
        pivot = np.sqrt(np.where(left > least[j], left, 0.0))
        inverse = np.divide(1.0, pivot, out=np.zeros_like(pivot), where=pivot > 0)
        root[j, j] = pivot
        column = C[j + 1 :, j] - np.einsum("ikn,kn->in", root[j + 1 :, :j], root[j, :j])
        root[j + 1 :, j] = column * inverse
    return root
