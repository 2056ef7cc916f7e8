"""The fast path for pixels whose noise is known: all that a map says of them, a few microseconds each.

A pixel of value x and noise covariance C has, under class k, the Student t that matches the covariance of
what is measured (``method="fast"``): scale matrix M = S + (ν−2)/ν·(N + C), with N the noise that all pixels
have in common. What the true value χ would tell is found with a few draws of it. They are made from one of a
few sets of standard normal numbers, chosen by the bits of the pixel's own value, so that a result depends on
the pixel alone, by Matheron's rule,

    χ = χ₀ + Σ(Σ + N + C)⁻¹(x − χ₀ − ε₀),

where χ₀ is drawn from the class and ε₀ from the noise, both taken as Gaussian. The class of draw j is that
at the level (j + ½)/J of the cumulated probabilities.

Classes of several parts, and a temperature, come in by a folding: densities and draws are then those of the
parts, probabilities and what is told of the class those of the classes.

Two implementations give the same answers: machine code (:mod:`uncover.bayes.compiled.noise`) and NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.budget import entropy, joint_table, split_by_draw
from uncover.bayes.folding import Folding
from uncover.bayes.kernels import Fold, Lens, tail_coefficients
from uncover.bayes.linalg import cholesky
from uncover.bayes.noise import _shrink
from uncover.bayes.second_order import LogDensityVariance
from uncover.bayes.small_matrices import cholesky_of_many, invert_triangles_of_many
from uncover.bayes.speed import machine_code
from uncover.bayes.student_t import StudentT

Array = NDArray[np.float64]

# Numbers of one chunk of pixels in NumPy.
_NUMBERS = 1 << 20
# The information of a true value is at most the entropy: below this much of it, a tenth of the step in which
# maps store it, none is looked for.
CERTAIN = 1e-5
# Mixes the bits of a pixel's numbers (Knuth's multiplicative hashing, 2^64 over the golden ratio).
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class Readings(NamedTuple):
    """What is known of pixels with noise, before the parts of the budget are put together."""

    probability: Array  # (class, pixel)
    typicality: Array  # (class, pixel), or (part, pixel) where classes have parts
    inner: Array  # (pixel,), entropy
    measurement: Array  # (pixel,), what the true value would tell of the class
    information: Array  # (pixel,), what the class models would, to second order


class Draws(NamedTuple):
    """Standard normal numbers in the place of true values and noise; draws are padded to a multiple of 16."""

    n: int
    prior: Array  # (set, class, feature, draw), true values drawn from each class, less the lens's centre
    common: Array  # (set, class, feature, draw), noise that all pixels have in common
    weights: Array  # (set, factor, draw), of the noise of one pixel


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
    gain: Array  # (class, feature, feature), scale matrices of the true values; columns padded to fours


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
    normal : array of shape (set, draw, number)
        Standard normal numbers, two for each feature and then one for each column of the noise's factor.
    folding : Folding, optional
        What classes the densities are parts of.
    typical : Seen, optional
        What p-values are read from, where it is not ``measured``.

    Examples
    --------
    >>> t = StudentT.from_scale([[0.0, 0.0], [3.0, 3.0]], np.eye(2), [50.0, 80.0])
    >>> seen = Seen(t, np.zeros((2, 2, 2)))
    >>> variance = LogDensityVariance(*np.zeros((3, 2)))
    >>> normal = np.random.default_rng(0).standard_normal((1, 16, 8))
    >>> lens = NoisyLens(seen, seen, np.log([0.5, 0.5]), variance, normal)
    >>> pixel = np.array([[[1.5], [1.5]]])  # (realisation, feature, pixel), half-way
    >>> precise, noisy = (lens.read(pixel, covariances=c * np.eye(2)[None]) for c in (0.01, 1.0))
    >>> bool(precise.measurement[0] < noisy.measurement[0])
    True
    """

    measured: Seen
    truth: Seen
    log_prior: Array
    variance: LogDensityVariance
    normal: Array
    folding: Folding | None = None
    typical: Seen | None = None

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
        R = len(planes) if coefficients is None else len(coefficients)
        draws = self._draws(R if spread else p if covariances is not None else 0)
        if machine_code() is None:
            self._read(planes, coefficients, covariances, spread, draws, out)
            return self._with_typicality(out, planes, coefficients, covariances, spread)
        from uncover.bayes.compiled import noise

        noise.read(
            planes,
            np.zeros((0, 3, p)) if coefficients is None else np.ascontiguousarray(coefficients, np.float64),
            np.zeros((0, p, p)) if covariances is None else np.ascontiguousarray(covariances, np.float64),
            spread, self._numbers, self._plain._numbers(np.float64, p_values=True), self._truth_numbers,
            self._fold, draws, out,
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
        if self._typical is None:
            return found
        other = self._typical.read(planes, coefficients=coefficients, covariances=covariances, spread=spread)
        return found._replace(typicality=other.typicality)

    # ---- what is the same for all pixels -----------------------------------------------------------

    @cached_property
    def _typical(self) -> NoisyLens | None:
        """A lens for p-values only: one class is certain, and no true value is asked for."""
        if self.typical is None:
            return None
        certain = np.where(np.arange(len(self.log_prior)) == 0, 0.0, -1e6)
        return replace(self, measured=self.typical, truth=self.typical, log_prior=certain, typical=None)

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
            gain=np.pad(self.truth.plain_scale, [(0, 0), (0, 0), (0, -self._plain.n_features % 4)]),
        )

    @cached_property
    def _made(self) -> dict[int, Draws]:
        return {}

    def _draws(self, factors: int) -> Draws:
        """Draws for noise whose factor has so many columns."""
        if factors not in self._made:
            self._made[factors] = self._make(factors)
        return self._made[factors]

    def _make(self, factors: int) -> Draws:
        n, p = self.normal.shape[1], self.measured.density.n_features
        normal = np.pad(self.normal, [(0, 0), (0, -n % 16), (0, 0)]).swapaxes(1, 2)
        of_truth, of_common, of_pixel = np.split(normal[:, None, : 2 * p + factors], [p, 2 * p], axis=2)
        root = np.broadcast_to(self.truth.density.root, self.truth.noise.shape)
        root = root / np.sqrt(self.truth.shrink)[:, None, None]
        location = self._true.location[0] - self._plain._centre
        values, axes = np.linalg.eigh(self.truth.noise)
        noise_root = axes * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        return Draws(
            n=n,
            prior=np.ascontiguousarray(location[:, :, None] + root @ of_truth),
            common=np.ascontiguousarray(noise_root @ of_common),
            weights=np.pad(of_pixel[:, 0], [(0, 0), (0, -factors % 4), (0, 0)]),
        )

    # ---- the same in NumPy -------------------------------------------------------------------------

    def _read(
        self,
        planes: NDArray[Any],
        coefficients: Array | None,
        covariances: Array | None,
        spread: bool,
        draws: Draws,
        out: Readings,
    ) -> None:
        p, n = planes.shape[1:]
        size = max(16, _NUMBERS // (p * (self.normal.shape[1] * 4 + p * len(self.log_prior))))
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            values = _realised(planes[:, :, rows].astype(np.float64), coefficients)
            mean = values.mean(axis=0)
            factor, C = np.zeros((p, 0, mean.shape[1])), np.zeros((p, p, 1))
            if spread:
                factor = (values - mean).transpose(1, 0, 2) / np.sqrt(len(values) - 1.0)
                C = np.einsum("irn,jrn->ijn", factor, factor)
            elif covariances is not None:
                given = covariances if len(covariances) == 1 else covariances[rows]
                C = np.ascontiguousarray(given.transpose(1, 2, 0))
                root = _root_of_many(C)
                factor = np.broadcast_to(root, (*root.shape[:2], mean.shape[1]))
            x = mean - self._plain._centre[:, None]
            sets = _choose_set(planes[0][:, rows], len(self.normal))
            for place, part in zip(out, self._chunk(x, C, factor, sets, draws), strict=True):
                place[..., rows] = part

    def _chunk(
        self, x: Array, C: Array, factor: Array, sets: NDArray[np.uint64], draws: Draws
    ) -> tuple[Array, ...]:
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
        variance = self.variance.at(lens._distance((x + lens._centre[:, None]).T, 0))
        odds, shares = log_joint, None
        if self.folding is not None:
            odds, shares = self.folding.log_odds(log_joint.T).T, self.folding.shares(log_joint.T).T
            variance = self.folding.variance(log_joint.T, variance)
        P = np.exp(odds - odds.max(axis=0))
        P /= P.sum(axis=0)
        of_parts = P if shares is None else P[self.folding.owner] * shares  # type: ignore[union-attr]
        information = 0.5 * (variance * P.T * (1 - P.T)).sum(-1)
        inner = entropy(P.T)
        measurement = np.zeros_like(inner)
        for g in range(len(self.normal)):
            mine = np.flatnonzero((inner >= CERTAIN) & (sets == g))
            if len(mine):
                own = C if C.shape[-1] == 1 else C[..., mine]
                chosen = Draws(draws.n, *(part[g] for part in draws[1:]))
                measurement[mine] = self._measurement(
                    x[:, mine], own, factor[..., mine], P[:, mine], of_parts[:, mine], chosen
                )
        return P, self._p_values(depth), inner, measurement, information

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

    def _measurement(
        self, x: Array, C: Array, factor: Array, P: Array, of_parts: Array, draws: Draws
    ) -> Array:
        """Information that the true value would give, from draws of it."""
        n = draws.n
        levels = (np.arange(n) + 0.5) / n * of_parts.sum(axis=0)[:, None]
        chosen = (of_parts.cumsum(axis=0)[:-1, :, None] < levels).sum(axis=0)  # (pixel, draw)
        noise = np.einsum("irn,rd->ind", factor, draws.weights[: factor.shape[1], :n])
        inverses = self._inverses(self._numbers.truth_scale, self._numbers.truth_shrink, C)
        chi = np.empty((len(x), *chosen.shape))
        for k, inverse in enumerate(inverses):
            mine = (chosen == k).any(axis=1)
            own = inverse if inverse.shape[-1] == 1 else inverse[..., mine]
            prior = draws.prior[k][:, None, :n]
            u = x[:, mine, None] - prior - noise[:, mine] - draws.common[k][:, None, :n]
            y = np.einsum("jin,jnd->ind", own, np.einsum("ijn,jnd->ind", own, u))
            drawn = prior + np.einsum("ij,jnd->ind", self._numbers.gain[k, :, : len(x)], y)
            chi[:, mine] = np.where(chosen[mine] == k, drawn, chi[:, mine])
        points = chi.reshape(len(x), -1).T + self._plain._centre
        depth = self._true._depth(self._true._distance(points, 0), 0)
        log_joint = self._true._log_joint(depth, 0).reshape(*chosen.shape, -1)
        if self.folding is not None:
            log_joint = self.folding.log_odds(log_joint)
        log_joint -= log_joint.max(axis=-1, keepdims=True)
        log_joint -= np.log(np.exp(log_joint).sum(axis=-1, keepdims=True))
        return split_by_draw(joint_table(np.maximum(log_joint, -690.0), P.T))[0]


def _choose_set(plane: NDArray[Any], sets: int) -> NDArray[np.uint64]:
    """The set of draws of each pixel of a plane (feature, pixel): any will do, always the same."""
    total = np.zeros(plane.shape[1], np.uint64)
    for bits in np.ascontiguousarray(plane, np.float64).view(np.uint64):
        total = (total ^ bits) * MULTIPLIER
    return np.asarray((total >> np.uint64(40)) % np.uint64(sets))


def _realised(planes: Array, coefficients: Array | None) -> Array:
    if coefficients is None:
        return planes
    path, slope, albedo = np.moveaxis(coefficients, 1, 0)[..., None]
    y = planes[0] - path
    return np.asarray(y / (slope + albedo * y))


def _root_of_many(C: Array) -> Array:
    """Lower triangular roots of covariances (row, column, sample), which may be singular."""
    root = np.zeros_like(C)
    for j in range(len(C)):
        left = C[j, j] - (root[j, :j] ** 2).sum(axis=0)
        pivot = np.sqrt(np.where(left > 1e-12 * C[j, j], left, 0.0))
        inverse = np.divide(1.0, pivot, out=np.zeros_like(pivot), where=pivot > 0)
        root[j, j] = pivot
        column = C[j + 1 :, j] - np.einsum("ikn,kn->in", root[j + 1 :, :j], root[j, :j])
        root[j + 1 :, j] = column * inverse
    return root
