"""Class densities of pixels whose noise is known: all that a map says of them.

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

Classes of several components, and a temperature, come in by ``Components``: densities and draws are those of
the components, probabilities and what is told of the class those of the classes.

This is the reference in NumPy; machine code (:mod:`uncover.engines.class_densities_with_noise`) gives
the same answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from uncover.bayes.budget import entropy, joint_table, split_by_draw
from uncover.bayes.class_densities import ClassDensities, softmax, tail_coefficients
from uncover.bayes.components import Components
from uncover.bayes.covariances import Covariances
from uncover.bayes.hotelling import TypicalityReference
from uncover.bayes.inversion import surface_reflectance
from uncover.bayes.linalg import cholesky, slices
from uncover.bayes.noise import _shrink
from uncover.bayes.second_order import LogDensityVariance
from uncover.bayes.small_matrices import cholesky_of_many, invert_triangles_of_many
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


class NoisyScores(NamedTuple):
    """Scores of pixels with known noise, before the parts of the budget are put together."""

    probability: Array  # (class, pixel)
    typicality: Array  # (component, pixel)
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
    """Number of points of each pixel, of at most n: the more, the less sure its class is."""
    return np.ceil(n * np.clip(entropy / UNSURE, 0.25, 1.0)).astype(np.int64)


def points_of_components(probability: Array, n: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of points of each component, of at most n: (component, pixel), 2 or more if not negligible."""
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


class NoiseNumbers(NamedTuple):
    """Class densities with noise as arrays, which machine code takes too."""

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


class DensityWithNoise(NamedTuple):
    """Class densities, and the noise (class, feature, feature) that all pixels have beyond them."""

    density: StudentT  # of batch shape (class,)
    noise: Array

    @property
    def shrink(self) -> Array:
        """Ratio of scale matrices to covariances: (class,)."""
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
class ClassDensitiesWithNoise:
    """Student t densities of classes, arranged for very many pixels whose noise is known."""

    measured: DensityWithNoise  # densities of the measured values, and the noise beyond them
    truth: DensityWithNoise  # densities of the true values, and the noise beyond these; often the same
    log_prior: Array  # (class,)
    variance: LogDensityVariance  # of the densities in `measured`
    n_points: int  # in the place of true values, of a pixel at most
    components: Components  # classes of the densities
    reference: TypicalityReference | None = None  # what p-values are read from, where not `measured`
    of_densities: ClassVar[type[ClassDensities]] = ClassDensities

    def read(
        self,
        planes: NDArray[Any],
        *,
        coefficients: Array | None = None,
        covariances: Array | None = None,
        spread: bool = False,
    ) -> NoisyScores:
        """Read planes (realisation, feature, pixel), of which the mean counts.

        With coefficients (realisation, 3, feature) there is one plane for each feature, as in
        :meth:`ClassDensities.summarise`. The noise is ``covariances`` (1 or pixel, feature, feature), or with
        ``spread`` the covariance of the realisations.
        """
        out = self._allocate(planes.shape[2])
        for rows, _, mean, C in values_and_noise(planes, coefficients, covariances, spread, self._chunk_size):
            x = mean - self.plain.centre[:, None]
            for place, part in zip(out, self._chunk(x, C), strict=True):
                place[..., rows] = part
            if self.reference is not None:
                out.typicality[:, rows] = self._reference_p_values(self.reference, mean, C)
        return out

    def _allocate(self, n: int) -> NoisyScores:
        C, K = len(self.log_prior), self.components.n_classes
        return NoisyScores(np.empty((K, n)), np.empty((C, n)), np.empty(n), np.empty(n), np.empty(n))

    @property
    def _chunk_size(self) -> int:
        p = self.measured.density.n_features
        return max(16, _NUMBERS // (p * (self.n_points * 4 + p * len(self.log_prior))))

    def _reference_p_values(self, reference: TypicalityReference, x: Array, C: Array) -> Array:
        """p-values of values (feature, pixel) by the reference of each component."""
        out = np.empty((len(self.log_prior), x.shape[1]))
        for k, common in enumerate(self.measured.noise):
            noise = np.moveaxis(C, 2, 0) + common
            same = len(noise) == 1
            known = Covariances(noise[0] if same else None, None, None if same else noise)
            out[k] = reference.p_value(k, x.T, known)
        return out

    # ---- what is the same for all pixels -----------------------------------------------------------

    @cached_property
    def plain(self) -> ClassDensities:
        """Densities of measured values without noise, but with the constants of those with common noise."""
        densities = self.of_densities.of([self.measured.density], self.log_prior, [self.variance])
        before = np.log(np.diagonal(self.measured.density.root, axis1=-2, axis2=-1)).sum(-1)
        after = 0.5 * np.log(pivots_of(self.measured)).sum(-1)
        return replace(densities, log_weight=densities.log_weight + before - after)

    @cached_property
    def true(self) -> ClassDensities:
        """Densities of the true values, without noise."""
        return self.of_densities.of([self.truth.density], self.log_prior)

    @cached_property
    def numbers(self) -> NoiseNumbers:
        """The densities with common noise as arrays."""
        return NoiseNumbers(
            location=self.plain.location[0] - self.plain.centre,
            scale=self.measured.scale,
            shrink=np.array(self.measured.shrink),
            pivots=pivots_of(self.measured),
            same=self.measured is self.truth,
            truth_scale=self.truth.scale,
            truth_shrink=np.array(self.truth.shrink),
            truth_pivots=pivots_of(self.truth),
            truth_location=self.true.location[0] - self.plain.centre,
            plain_scale=np.ascontiguousarray(self.truth.plain_scale),
        )

    # ---- the formulas ------------------------------------------------------------------------------

    def _chunk(self, x: Array, C: Array) -> tuple[Array, ...]:
        """Scores of some pixels, from values (feature, pixel) less the centre."""
        densities, numbers = self.plain, self.numbers
        q, log_joint = distances_with_noise(
            x, C, numbers.location, numbers.scale, numbers.shrink, numbers.pivots
        )
        log1p_distance = densities.log1p_distance(q.T, 0).T
        log_joint += densities.log_joint(log1p_distance.T, 0).T
        far = densities.squared_distance((x + densities.centre[:, None]).T, 0)
        P = softmax(self.components.log_odds(log_joint.T.copy())).T
        of_components = self.components.probability(P.T, log_joint.T).T
        information = self.variance.of_classes(self.components, P.T, far, log_joint.T)
        inner = entropy(P.T)
        measurement = np.zeros_like(inner)
        mine = np.flatnonzero(inner >= CERTAIN)
        if len(mine):
            own = C if C.shape[-1] == 1 else C[..., mine]
            measurement[mine] = self._measurement(x[:, mine], own, P[:, mine], of_components[:, mine])
        return P, self._p_values(log1p_distance), inner, measurement, information

    def _p_values(self, log1p_distance: Array) -> Array:
        densities, p = self.plain, len(self.plain.centre)
        if p % 2:
            return densities.p_values(log1p_distance.T, 0).T
        half = 0.5 * densities.dof[0][:, None]
        w = np.minimum(-half * np.expm1(-log1p_distance), 88.0)
        tail = tail_coefficients(p, densities.dof[0])
        powers = w[..., None] ** np.arange(tail.shape[1])
        return np.asarray(np.exp(-half * log1p_distance) * (tail[:, None] * powers).sum(-1))

    def _measurement(self, x: Array, C: Array, P: Array, of_components: Array) -> Array:
        """Information that the true value would give, from points in its place."""
        p, n = x.shape
        points = true_value_points(self.n_points, p)
        counts = points_of_components(of_components, points_of_pixels(entropy(P.T), points.n))
        before = np.cumsum(counts, axis=0) - counts
        chi, weight = np.zeros((p, n, points.n)), np.zeros((n, points.n))
        roots = inverse_roots(self.numbers.truth_scale, self.numbers.truth_shrink, C)
        for k, inverse in enumerate(roots):
            mine = np.flatnonzero(counts[k])
            own = inverse if inverse.shape[-1] == 1 else inverse[..., mine]
            middle, A = self._true_value(k, x[:, mine], own, P[:, mine], of_components[:, mine])
            for m in np.unique(counts[k, mine]):
                these = counts[k, mine] == m
                z = points.z[:, points.first[m] : points.first[m] + m]
                at = before[k, mine[these]][:, None] + np.arange(m)
                drawn = middle[:, these, None] + np.einsum("ijn,jd->ind", A[..., these], z)
                chi[:, mine[these][:, None], at] = drawn
                weight[mine[these][:, None], at] = of_components[k, mine[these]][:, None] / m
        places = chi.reshape(p, -1).T + self.plain.centre
        log1p_distance = self.true.log1p_distance(self.true.squared_distance(places, 0), 0)
        log_joint = self.true.log_joint(log1p_distance, 0).reshape(n, points.n, -1)
        log_joint = self.components.log_odds(log_joint)
        log_joint -= log_joint.max(axis=-1, keepdims=True)
        log_joint -= np.log(np.exp(log_joint).sum(axis=-1, keepdims=True))
        with np.errstate(divide="ignore"):
            log_weight = np.log(weight)[..., None] + np.maximum(log_joint, -690.0)
        return split_by_draw(joint_table(log_weight, P.T))[0]

    def _true_value(
        self, k: int, x: Array, inverse: Array, P: Array, of_components: Array
    ) -> tuple[Array, Array]:
        """Mean (feature, pixel) of the true values of component k, and a root of their covariance.

        The first column of the root is where the log odds of the class change most.
        """
        scale, shrink = self.numbers.plain_scale[k], self.numbers.truth_shrink[k]
        location = self.numbers.truth_location[k][:, None]
        T = np.einsum("ijn,jm->imn", inverse, scale)
        T = np.broadcast_to(T, (*T.shape[:2], x.shape[1]))
        middle = location + np.einsum("imn,in->mn", T, np.einsum("ijn,jn->in", inverse, x - location))
        V = (scale[:, :, None] - np.einsum("imn,iln->mln", T, T)) / shrink
        root = _root_of_many(V, KNOWN * np.diagonal(scale) / shrink)
        a = np.einsum("ijn,in->jn", root, self._steepest(k, middle, P, of_components))
        size = np.sqrt((a**2).sum(axis=0))
        v = np.divide(a, size, out=np.zeros_like(a), where=size > 0)
        v[0] += np.where(v[0] < 0, -1.0, 1.0)
        along = np.einsum("ijn,jn->in", root, v) * (2.0 / (v**2).sum(axis=0))
        return middle, root - along[:, None, :] * v[None]

    def _steepest(self, k: int, middle: Array, P: Array, of_components: Array) -> Array:
        """Gradient of the log odds of the class of component k at its mean true value, (feature, pixel)."""
        densities, owner = self.true, self.components.owner
        total = np.zeros_like(middle)
        for c in range(len(of_components)):
            same = owner[c] == owner[k]
            share = of_components[c] / np.maximum(P[owner[k]], 1e-300) if same else 0.0
            whitening = densities.whitening[0, c]
            z = whitening @ (middle + (self.plain.centre - densities.location[0, c])[:, None])
            dof = densities.dof[0, c]
            factor = (share - of_components[c]) * (dof + len(z)) / (dof + (z**2).sum(axis=0))
            total -= factor * (whitening.T @ z)
        return total


def values_and_noise(
    planes: NDArray[Any], coefficients: Array | None, covariances: Array | None, spread: bool, size: int
) -> Iterator[tuple[slice, Array, Array, Array]]:
    """Some pixels at a time: values (realisation, feature, pixel), their mean, and their noise.

    The noise is (feature, feature, 1 or pixel): the covariance of the realisations with ``spread``, else the
    covariances, which are (1 or pixel, feature, feature); 0 without any.
    """
    p, n = planes.shape[1:]
    for rows in slices(n, size):
        values = planes[:, :, rows].astype(np.float64)
        if coefficients is not None:
            values = surface_reflectance(values[0], *np.moveaxis(coefficients, 1, 0)[..., None])
        mean = values.mean(axis=0)
        C = np.zeros((p, p, 1))
        if spread:
            factor = (values - mean).transpose(1, 0, 2) / np.sqrt(len(values) - 1.0)
            C = np.einsum("irn,jrn->ijn", factor, factor)
        elif covariances is not None:
            given = covariances if len(covariances) == 1 else covariances[rows]
            C = np.ascontiguousarray(given.transpose(1, 2, 0))
        yield rows, values, mean, C


def pivots_of(noisy: DensityWithNoise) -> Array:
    """Squared diagonals of the Cholesky factors of the scale matrices: (class, feature)."""
    root = cholesky(noisy.scale, "the scale matrix of a class with noise")
    return np.ascontiguousarray(np.diagonal(root, axis1=1, axis2=2) ** 2)


def distances_with_noise(
    x: Array, C: Array, location: Array, scale: Array, shrink: Array, pivots: Array
) -> tuple[Array, Array]:
    """Squared distances of values (feature, pixel) of noise C from each class, and what C adds to log joints.

    Both are (class, pixel); the second is half the log ratio of the determinants without and with C.
    """
    q, log_ratio = np.empty((2, len(location), x.shape[1]))
    for k, inverse in enumerate(inverse_roots(scale, shrink, C)):
        z = np.einsum("ijn,jn->in", inverse, x - location[k][:, None])
        q[k] = np.einsum("in,in->n", z, z)
        log_ratio[k] = 0.5 * np.log(np.diagonal(inverse, axis1=0, axis2=1) ** 2 * pivots[k]).sum(-1)
    return q, log_ratio


def inverse_roots(scale: Array, shrink: Array, C: Array) -> list[Array]:
    """L⁻¹ of each class, (feature, feature, 1 or pixel), with LLᵀ = scale + shrink·C."""
    return [
        invert_triangles_of_many(cholesky_of_many(S[:, :, None] + factor * C))
        for S, factor in zip(scale, shrink, strict=True)
    ]


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
