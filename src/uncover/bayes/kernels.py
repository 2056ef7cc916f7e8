"""The fast path: probabilities, entropies and typicality of very many points, in one pass, nothing kept.

Everything follows from the squared distances q to the classes. With v = log(1 + q/ν) the log density is
linear in v, and so is, but for e^(−v), what the model part of the budget is made of; the p-value of a class
is a function of v alone. Two implementations give the same answers: machine code, where numba is installed
(:mod:`uncover.bayes.compiled`), in blocks that stay in the cache, and NumPy, by one matrix product for all
classes.

In single precision probabilities are within 1e-5 of those in double precision: each point carries a bound of
its error, and points beyond it are computed again in double precision, from what was measured.

A class may consist of several parts (a mixture): everything is then computed for the parts, as it is for
classes otherwise, and folded into classes before it is normalised (:mod:`uncover.bayes.folding`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.special import betaincc, betainccinv, gammaln

from uncover.bayes.budget import entropy
from uncover.bayes.folding import Folding
from uncover.bayes.linalg import invert_triangle
from uncover.bayes.second_order import LogDensityVariance, below_entropy, second_order
from uncover.bayes.speed import in_order, machine_code
from uncover.bayes.student_t import StudentT

Array = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]

# Steps of the table of p-values, and the smallest p-value that it holds: beyond, it says 0.
_STEPS = 8192
_SMALLEST = 1e-8
# Fewer multiply-adds than this are not worth machine code, which takes half a second to load, or threads.
_FEW, _MANY = 2_000_000, 10_000_000
# Multiply-adds that one thread takes at a time, in whole blocks of points.
_CHUNK, _BLOCKS = 15_000_000, 256


class Sums(NamedTuple):
    """Sums over pairs of realisation and world: what a map is made of."""

    probability: Floats  # (class, point)
    typicality: Floats  # (class, point)
    inner: Floats  # (point,), entropies
    model: Floats  # (point,), second-order information
    best: NDArray[np.uint8]  # (pair, point), the most probable class

    @classmethod
    def empty(cls, classes: int, parts: int, points: int, pairs: int, dtype: DTypeLike) -> Sums:
        """Room for the sums; p-values are those of the parts of classes at first."""
        return cls(
            probability=np.empty((classes, points), dtype),
            typicality=np.empty((parts, points), dtype),
            inner=np.empty(points, dtype),
            model=np.empty(points, dtype),
            best=np.empty((pairs, points), np.uint8),
        )


class Pairs(NamedTuple):
    """Which realisation is read with the class models of which world."""

    realisations: NDArray[np.int64]
    worlds: NDArray[np.int64]


class _Numbers(NamedTuple):
    """A lens in one floating-point type, as machine code takes it; features padded to an even number."""

    centre: Floats  # (2, feature), and what rounding takes from it
    whitening: Floats  # (world, class, feature, feature), lower triangles
    shift: Floats  # (world, class, feature)
    log_weight: Floats  # (world, class)
    slope: Floats  # (world, class)
    dof: Floats  # (world, class)
    inverse_dof: Floats  # (world, class)
    doubt: Floats  # (world, class, 2)
    variance: Floats  # (world, class, 3)
    between: Floats  # (world, class, class), or of no classes
    tail: Floats  # (world, class, term)
    table_scale: Floats  # (world, class)
    table: Floats  # (world, class, step)
    largest: Floats  # (1,)


class Fold(NamedTuple):
    """A folding, as machine code takes it."""

    first: NDArray[np.int64]  # (class + 1,), the parts of class k are first[k] … first[k + 1] − 1
    sharpness: Array  # (1,), one over the temperature


@dataclass(frozen=True, eq=False)
class Lens:
    """Student t densities of the classes of several worlds, arranged for very many points.

    With a folding they are densities of the parts of classes: its axis of classes is one of parts.

    Examples
    --------
    >>> t = StudentT.from_scale([[0.0, 0.0], [3.0, 3.0]], np.eye(2), [5.0, 8.0])
    >>> lens = Lens.of([t], log_prior=np.log([0.5, 0.5]))
    >>> points = np.array([[0.5, 0.0], [3.0, 2.0]])
    >>> odds = np.exp(np.diff(t.log_prob(points))[:, 0])
    >>> np.allclose(lens.probability(points[:, None, :], lens.pairs(1))[:, 1], odds / (1 + odds))
    True
    """

    location: Array  # (world, class, feature)
    whitening: Array  # (world, class, feature, feature)
    log_weight: Array  # (world, class), log prior and constant of the density
    slope: Array  # (world, class), (ν + p)/2: what v takes from the log joint
    dof: Array  # (world, class)
    variance: Array  # (world, class, 3), of the variance of the log density: constant, growth, pull
    folding: Folding | None = None
    between: Array | None = None  # (world, class, class), of the means where classes have one covariance
    typical: Lens | None = None  # what p-values are read from, where it is not these densities

    @classmethod
    def of(
        cls,
        worlds: Sequence[StudentT],
        log_prior: Array,
        variances: Sequence[LogDensityVariance] = (),
        temperature: float = 1.0,
        folding: Folding | None = None,
    ) -> Lens:
        """Arrange the densities of each world, of batch shape (class,); log joints over a temperature.

        With a folding, of batch shape (part,); the temperature is then the folding's.
        """
        K, p = worlds[0].batch_shape[0], worlds[0].n_features
        none = np.zeros((len(worlds), K, 3))
        variances = [v.tempered(temperature) for v in variances]
        polynomials = [np.stack([v.constant, v.growth, v.pull], axis=-1) for v in variances]
        between = [v.between for v in variances if v.between is not None]
        return cls(
            location=np.stack([np.broadcast_to(t.location, (K, p)) for t in worlds]),
            whitening=np.stack([np.broadcast_to(t.whitening, (K, p, p)) for t in worlds]),
            log_weight=np.stack([log_prior + np.broadcast_to(t._log_constant, (K,)) for t in worlds])
            / temperature,
            slope=np.stack([0.5 * (np.broadcast_to(t.dof, (K,)) + p) for t in worlds]) / temperature,
            dof=np.stack([np.broadcast_to(t.dof, (K,)) for t in worlds]),
            variance=np.stack(polynomials) if polynomials else none,
            folding=folding,
            between=np.stack(between) if between else None,
        )

    @property
    def n_features(self) -> int:
        """Number of features, p."""
        return int(self.location.shape[-1])

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return self.n_parts if self.folding is None else self.folding.n_classes

    @property
    def n_parts(self) -> int:
        """Number of densities: of classes, or of their parts."""
        return int(self.location.shape[1])

    def pairs(self, n_realisations: int) -> Pairs:
        """Every realisation with its own world, or all with the only one."""
        numbers = np.arange(n_realisations)
        return Pairs(numbers, numbers if len(self.location) > 1 else 0 * numbers)

    # ---- probabilities of samples ------------------------------------------------------------------

    def probability(self, X: Floats, pairs: Pairs) -> Floats:
        """P(class) of samples (sample, realisation, feature), averaged over pairs: (sample, class).

        In the type of X: single precision to 1e-5, double precision to rounding.
        """
        out = np.empty((len(X), self.n_classes), X.dtype)
        each = len(pairs.worlds) * self.n_parts * self.n_features * (self.n_features + 20) // 2
        work = len(X) * each
        code = machine_code() if work >= _FEW else None
        if code is None:
            work_on: Callable[[slice], None] = lambda rows: self._fill(X[rows], pairs, out[rows])  # noqa: E731
        else:
            single = bool(X.dtype == np.float32)
            lens, exact = self._numbers(X.dtype), self._numbers(np.float64)

            def work_on(rows: slice) -> None:
                # In one order of memory: another would be compiled anew.
                part = np.ascontiguousarray(X[rows])
                code.average_probability(part, *pairs, lens, exact, self._fold, single, out[rows])

        # NumPy's matrix products have threads of their own, which would be in the way of ours.
        many = code is not None and work >= _MANY
        size = _BLOCKS * max(1, _CHUNK // (each * _BLOCKS)) if many else len(X)
        pieces = _slices(len(X), size)
        for _ in in_order(work_on, pieces):
            pass
        return out

    def _fill(self, X: Floats, pairs: Pairs, out: Floats) -> None:
        """The same in NumPy, in double precision."""
        for rows in _slices(len(X), max(64, (1 << 18) // (self.n_parts * self.n_features))):
            total = np.zeros((len(X[rows]), self.n_classes))
            for r, w in zip(*pairs, strict=True):
                joint = self._log_joint(self._depth(self._distance(X[rows, r], w), w), w)
                total += _softmax(joint if self.folding is None else self.folding.log_odds(joint))
            out[rows] = total / len(pairs.worlds)

    # ---- all that a map says -----------------------------------------------------------------------

    def summarise(
        self,
        planes: NDArray[Any],
        pairs: Pairs,
        *,
        coefficients: Array | None = None,
        scale: Array | None = None,
        offset: Array | None = None,
    ) -> Sums:
        """Sums of probabilities, entropies and p-values of planes (realisation, feature, pixel).

        Numbers become physical by scale and offset, one for each feature. With coefficients (realisation, 3,
        feature) there is one plane for each feature, of reflectance at the top of the atmosphere, which is
        corrected in each realisation as y/(B + S·y), y = ρ − A. Single precision, but for planes in double.
        """
        p, n = planes.shape[1:]
        kind = np.float64 if planes.dtype == np.float64 else np.float32
        rounded = any(part is not None for part in (coefficients, scale, offset))
        scale = np.ones(p) if scale is None else np.asarray(scale, np.float64)
        offset = np.zeros(p) if offset is None else np.asarray(offset, np.float64)
        sums = Sums.empty(self.n_classes, self.n_parts, n, len(pairs.worlds), kind)
        code = machine_code()
        if code is None:
            self._summarise(planes, scale, offset, coefficients, pairs, sums)
            return self._typical_of_classes(sums, planes, pairs, coefficients, scale, offset)
        exact = np.zeros((0, 3, p)) if coefficients is None else coefficients
        # A feature that only fills up to an even number stays 0: path 0, slope 1, albedo 0.
        filling = np.broadcast_to([[0.0], [1.0], [0.0]], (len(exact), 3, p % 2))
        exact = np.concatenate([exact, filling], axis=-1)
        lens = self._numbers(kind, p_values=True)
        if rounded:
            lens = lens._replace(doubt=self._doubt_of_rounded.astype(kind))
        code.summarise(
            np.ascontiguousarray(planes), (scale, offset), (exact.astype(kind), exact), *pairs,
            lens, self._numbers(np.float64), self._fold, bool(kind == np.float32), sums,
        )  # fmt: skip
        return self._typical_of_classes(sums, planes, pairs, coefficients, scale, offset)

    def _typical_of_classes(
        self,
        sums: Sums,
        planes: NDArray[Any],
        pairs: Pairs,
        coefficients: Array | None,
        scale: Array,
        offset: Array,
    ) -> Sums:
        """P-values of the classes: a class is as typical as the most typical of its parts."""
        if self.typical is not None:
            found = self.typical.summarise(
                planes, pairs, coefficients=coefficients, scale=scale, offset=offset
            )
            return sums._replace(typicality=found.typicality)
        if self.folding is None:
            return sums
        first = self.folding.first[:-1]
        return sums._replace(typicality=np.maximum.reduceat(sums.typicality, first, axis=0))

    @cached_property
    def _fold(self) -> Fold | None:
        if self.folding is None:
            return None
        return Fold(self.folding.first, np.array([1.0 / self.folding.temperature]))

    def _summarise(
        self,
        planes: NDArray[Any],
        scale: Array,
        offset: Array,
        coefficients: Array | None,
        pairs: Pairs,
        sums: Sums,
    ) -> None:
        """The same in NumPy, in double precision."""
        for rows in _slices(planes.shape[2], max(64, (1 << 18) // (self.n_parts * self.n_features))):
            totals = [np.zeros(part[..., rows].shape) for part in sums[:4]]
            for i, (r, w) in enumerate(zip(*pairs, strict=True)):
                plane = planes[0 if coefficients is not None else r][:, rows]
                x = plane.astype(np.float64) * scale[:, None] + offset[:, None]
                if coefficients is not None:
                    path, slope, albedo = coefficients[r][:, :, None]
                    x = (x - path) / (slope + albedo * (x - path))
                q = self._distance(x.T, w)
                v = self._depth(q, w)
                joint = self._log_joint(v, w)
                variance = self._variance_of(w)
                at = None if self.folding is None else self.folding.variance(joint, variance.at(q))
                joint = joint if self.folding is None else self.folding.log_odds(joint)
                sums.best[i, rows] = joint.argmax(axis=1)
                known = _softmax(joint)
                inner = entropy(known)
                information = variance.information(known, q) if at is None else second_order(known, at)
                information = below_entropy(information, inner)
                parts = known.T, self._p_values(v, w).T, inner, information
                for total, part in zip(totals, parts, strict=True):
                    total += part
            for place, total in zip(sums[:4], totals, strict=True):
                place[..., rows] = total

    # ---- the formulas, in NumPy --------------------------------------------------------------------

    def _variance_of(self, w: int) -> LogDensityVariance:
        between = None if self.between is None else self.between[w]
        constant, growth, pull = self.variance[w].T
        return LogDensityVariance(constant, growth, pull, self.dof[w], between=between)

    @cached_property
    def _centre(self) -> Array:
        return np.asarray(self.location.mean(axis=(0, 1)))

    @cached_property
    def _stacked(self) -> tuple[Array, Array]:
        """Whitening of all classes of a world as one matrix (world, feature, class · feature), and shifts."""
        W, K, p = self.location.shape
        whitening = np.ascontiguousarray(self.whitening.reshape(W, K * p, p).swapaxes(1, 2))
        shift = np.einsum("wkij,wkj->wki", self.whitening, self.location - self._centre)
        return whitening, shift.reshape(W, K * p)

    def _distance(self, points: Floats, w: int) -> Array:
        """q of each point and class: (point, class)."""
        whitening, shift = self._stacked
        n, p = points.shape
        with np.errstate(over="ignore", invalid="ignore"):
            z = (points - self._centre) @ whitening[w]
            z -= shift[w]
            q = np.einsum("nkp,nkp->nk", z.reshape(n, -1, p), z.reshape(n, -1, p))
        return np.nan_to_num(q, copy=False, nan=1e30, posinf=1e30)

    def _depth(self, q: Array, w: int) -> Array:
        return np.asarray(np.log1p(q / self.dof[w]))

    def _log_joint(self, v: Array, w: int) -> Array:
        return np.asarray(self.log_weight[w] - self.slope[w] * v)

    def _p_values(self, v: Array, w: int) -> Array:
        scale, table = self._tables
        place = np.minimum(np.sqrt(v) * scale[w], _STEPS - 1.0)
        left = place.astype(np.intp)
        k = np.arange(self.n_parts)
        before, after = table[w][k, left], table[w][k, left + 1]
        return np.asarray(before + (place - left) * (after - before))

    @cached_property
    def _tables(self) -> tuple[Array, Array]:
        """p-values over √v: steps per unit (world, class), and values (world, class, step)."""
        found = [_table(self.n_features, float(nu)) for nu in self.dof.ravel()]
        scale = np.array([each for each, _ in found]).reshape(self.dof.shape)
        return scale, np.stack([values for _, values in found]).reshape(*self.dof.shape, -1)

    # ---- what machine code takes -------------------------------------------------------------------

    @cached_property
    def _cache(self) -> dict[tuple[np.dtype[Any], bool], _Numbers]:
        return {}

    def _numbers(self, dtype: DTypeLike, p_values: bool = False) -> _Numbers:
        """The lens in one type; what p-values are read from takes its time, and is there only for them."""
        key = np.dtype(dtype), p_values
        if key not in self._cache:
            given = self._arranged if not p_values else self._arranged._replace(**self._for_p_values)
            centre = np.stack([near := given.centre[0].astype(dtype), given.centre[0] - near])
            largest = np.array([1e15 if key[0] == np.float32 else 1e30])
            numbers = given._replace(centre=centre, largest=largest)
            self._cache[key] = _Numbers(*(np.ascontiguousarray(part, dtype=dtype) for part in numbers))
        return self._cache[key]

    @cached_property
    def _arranged(self) -> _Numbers:
        """The lens in double precision, without what p-values are read from."""
        odd = self.n_features % 2
        nothing = np.zeros((*self.dof.shape, 2))
        return _Numbers(
            centre=_filled(self._centre[None], odd),
            whitening=_filled(_filled(self.whitening, odd).swapaxes(-2, -1), odd).swapaxes(-2, -1),
            shift=_filled(self._stacked[1].reshape(self.location.shape), odd),
            # Only differences between classes count, and small numbers lose less.
            log_weight=self.log_weight - self.log_weight.max(axis=1, keepdims=True),
            slope=self.slope,
            dof=self.dof,
            inverse_dof=1.0 / self.dof,
            doubt=self._doubt(np.abs(self.location - self._centre)),
            variance=self.variance,
            between=np.zeros((len(self.dof), 0, 0)) if self.between is None else self.between,
            tail=nothing,
            table_scale=self.dof,
            table=nothing,
            largest=np.zeros(1),
        )

    @cached_property
    def _for_p_values(self) -> dict[str, Array]:
        """A polynomial for an even number of features, a table for an odd one."""
        if self.n_features % 2 == 0:
            return {"tail": tail_coefficients(self.n_features, self.dof)}
        scale, table = self._tables
        return {"table_scale": scale, "table": table}

    @cached_property
    def _doubt_of_rounded(self) -> Array:
        """The doubt of values that were scaled or corrected, and are rounded themselves."""
        rounded = np.abs(self.location - self._centre) + np.abs(self.location)
        return self._doubt(rounded)

    def _doubt(self, rounded: Array) -> Array:
        """How far single precision moves the log joint of a class, as d₀ + d₁·q: (world, class, 2).

        Rounding moves z = W(x − c) − shift by ε·g·(κ|z| + a). Roundings are independent, and their squares
        add up: κ² is the norm of (W∘W)(W⁻¹∘W⁻¹), a² the sum of (W∘W)(r∘r) with r what is rounded near the
        class, and g² = 1 + p/6 is for the sums of p terms on their way, which cancel in the end. So q moves
        by 2√q of that, and √q ≤ q/(2√p) + √p/2; the rest is rounding of v.
        """
        W, p = self.whitening**2, self.n_features
        spread = W @ invert_triangle(self.whitening) ** 2
        growth = np.sqrt(1 + p / 6)
        # √(‖·‖₁‖·‖∞) is a bound of the 2-norm that needs no decomposition.
        kappa = growth * (spread.sum(-1).max(-1) * spread.sum(-2).max(-1)) ** 0.25
        size = growth * np.sqrt((W @ (rounded**2)[..., None]).sum((-2, -1)))
        steep = 2 * self.slope / self.dof
        root = np.sqrt(p)
        return np.stack([steep * size * root / 2, steep * (kappa + 2 + size / (2 * root))], -1) * 2.0**-24


def _filled(array: Array, odd: int) -> Array:
    """The last axis with one more number, 0, where it is odd."""
    return np.concatenate([array, np.zeros((*array.shape[:-1], 1))], axis=-1) if odd else array


def _slices(n: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _softmax(joint: Array) -> Array:
    """Probabilities from log joints, in their place."""
    joint -= joint.max(axis=1, keepdims=True)
    np.exp(joint, out=joint)
    joint /= joint.sum(axis=1, keepdims=True)
    return joint


def _table(p: int, dof: float) -> tuple[float, Array]:
    """Steps per unit of √v, and the p-values at the steps; past the last they are below what is shown."""
    x = float(betainccinv(0.5 * p, 0.5 * dof, _SMALLEST))
    furthest = np.sqrt(-np.log1p(-min(x, 1 - 1e-15)))
    v = np.linspace(0.0, furthest, _STEPS) ** 2
    p_values = betaincc(0.5 * p, 0.5 * dof, -np.expm1(-v))
    return (_STEPS - 1) / furthest, np.append(p_values, 0.0)


def tail_coefficients(p: int, dof: Array) -> Array:
    """c_j = Γ(ν/2+j) / (Γ(ν/2) (ν/2)^j j!), j < p/2: p-values of F(p, ν) for even p (DLMF 8.17.21)."""
    half, j = 0.5 * dof[..., None], np.arange(max(p // 2, 1))
    return np.asarray(np.exp(gammaln(half + j) - gammaln(half) - j * np.log(half) - gammaln(j + 1)))
