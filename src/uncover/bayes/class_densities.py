"""Student t densities of classes, arranged for very many points: all that a map says, in one pass.

Everything follows from the squared distances q to the classes. With v = log(1 + q/ν) the log density is
linear in v, and so is, but for e^(−v), what the model part of the budget is made of; the p-value of a class
is a function of v alone.

Classes may have several components: everything is computed for the components, and summed into classes before
it is normalised (:class:`uncover.bayes.components.Components`).

This is the reference in NumPy, by one matrix product for all classes;
:class:`uncover.engines.class_densities.FastClassDensities` gives the same answers by machine code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.special import betaincc, betainccinv, gammaln

from uncover.bayes.budget import entropy
from uncover.bayes.components import Components
from uncover.bayes.inversion import surface_reflectance
from uncover.bayes.linalg import slices
from uncover.bayes.second_order import LogDensityVariance, below_entropy
from uncover.bayes.student_t import StudentT

Array = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]

# Steps of the table of p-values, and the smallest p-value that it holds: beyond, it says 0.
_STEPS = 8192
_SMALLEST = 1e-8


class SummedScores(NamedTuple):
    """Scores of points, summed over pairs of realisation and world: what a map is made of."""

    probability: Floats  # (class, point)
    typicality: Floats  # (class, point)
    inner: Floats  # (point,), entropies
    model: Floats  # (point,), second-order information
    best: NDArray[np.uint8]  # (pair, point), the most probable class

    @classmethod
    def empty(cls, classes: int, components: int, points: int, pairs: int, dtype: DTypeLike) -> SummedScores:
        """Allocate the sums; p-values are those of the components at first."""
        return cls(
            probability=np.empty((classes, points), dtype),
            typicality=np.empty((components, points), dtype),
            inner=np.empty(points, dtype),
            model=np.empty(points, dtype),
            best=np.empty((pairs, points), np.uint8),
        )


class Pairs(NamedTuple):
    """Pairs of a realisation and the world whose class models it is read with."""

    realisations: NDArray[np.int64]
    worlds: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ClassDensities:
    """Student t densities of the classes of several worlds, arranged for very many points.

    Where classes have several components, the axis of classes is one of components.

    >>> t = StudentT.from_scale([[0.0, 0.0], [3.0, 3.0]], np.eye(2), [5.0, 8.0])
    >>> densities = ClassDensities.of([t], log_prior=np.log([0.5, 0.5]))
    >>> points = np.array([[0.5, 0.0], [3.0, 2.0]])
    >>> odds = np.exp(np.diff(t.log_prob(points))[:, 0])
    >>> np.allclose(densities.probability(points[:, None, :], densities.pairs(1))[:, 1], odds / (1 + odds))
    True
    """

    location: Array  # (world, class, feature)
    whitening: Array  # (world, class, feature, feature)
    log_weight: Array  # (world, class), log prior and constant of the density
    slope: Array  # (world, class), (ν + p)/2: what v takes from the log joint
    dof: Array  # (world, class)
    variance: Array  # (world, class, 3), of the variance of the log density: constant, growth, pull
    components: Components
    between: Array | None = None  # (world, class, class), of the means where classes have one covariance
    typical: ClassDensities | None = None  # what p-values are read from, where it is not these densities
    origin: Array | None = None  # (feature,), subtracted from points first; None: the mean location

    @classmethod
    def of(
        cls,
        worlds: Sequence[StudentT],
        log_prior: Array,
        variances: Sequence[LogDensityVariance] = (),
        components: Components | None = None,
    ) -> Self:
        """Arrange the densities of each world, of batch shape (component,); by default one for each class."""
        K, p = worlds[0].batch_shape[0], worlds[0].n_features
        temperature, components = (components or Components.single(K)).without_temperature()
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
            components=components,
            between=np.stack(between) if between else None,
        )

    @property
    def n_features(self) -> int:
        """Number of features, p."""
        return int(self.location.shape[-1])

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return self.components.n_classes

    @property
    def n_components(self) -> int:
        """Number of densities: one for each component of a class."""
        return int(self.location.shape[1])

    def pairs(self, n_realisations: int) -> Pairs:
        """Every realisation with its own world, or all with the only one."""
        numbers = np.arange(n_realisations)
        return Pairs(numbers, numbers if len(self.location) > 1 else 0 * numbers)

    # ---- probabilities of samples ------------------------------------------------------------------

    def probability(self, X: Floats, pairs: Pairs) -> Floats:
        """P(class) of samples (sample, realisation, feature), averaged over pairs: (sample, class).

        In the type of X.
        """
        out = np.empty((len(X), self.n_classes), X.dtype)
        for rows in slices(len(X), max(64, (1 << 18) // (self.n_components * self.n_features))):
            total = np.zeros((len(X[rows]), self.n_classes))
            for r, w in zip(*pairs, strict=True):
                joint = self.log_joint(self.log1p_distance(self.squared_distance(X[rows, r], w), w), w)
                total += softmax(self.components.log_odds(joint))
            out[rows] = total / len(pairs.worlds)
        return out

    # ---- all that a map says -----------------------------------------------------------------------

    def summarise(
        self,
        planes: NDArray[Any],
        pairs: Pairs,
        *,
        coefficients: Array | None = None,
        scale: Array | None = None,
        offset: Array | None = None,
    ) -> SummedScores:
        """SummedScores of probabilities, entropies and p-values of planes (realisation, feature, pixel).

        Numbers become physical by scale and offset, one for each feature. With coefficients (realisation, 3,
        feature) there is one plane for each feature, of reflectance at the top of the atmosphere, which is
        corrected in each realisation as y/(B + S·y), y = ρ − A. The result is of single precision, but for
        planes in double.
        """
        p, n = planes.shape[1:]
        kind = np.float64 if planes.dtype == np.float64 else np.float32
        rounded = any(part is not None for part in (coefficients, scale, offset))
        scale = np.ones(p) if scale is None else np.asarray(scale, np.float64)
        offset = np.zeros(p) if offset is None else np.asarray(offset, np.float64)
        sums = SummedScores.empty(self.n_classes, self.n_components, n, len(pairs.worlds), kind)
        self._add_up(planes, scale, offset, coefficients, pairs, rounded, sums)
        return self._typical_of_classes(sums, planes, pairs, coefficients, scale, offset)

    def _typical_of_classes(
        self,
        sums: SummedScores,
        planes: NDArray[Any],
        pairs: Pairs,
        coefficients: Array | None,
        scale: Array,
        offset: Array,
    ) -> SummedScores:
        """P-values of the classes: a class is as typical as the most typical of its components."""
        if self.typical is not None:
            found = self.typical.summarise(
                planes, pairs, coefficients=coefficients, scale=scale, offset=offset
            )
            return sums._replace(typicality=found.typicality)
        return self._most_typical(sums)

    def _most_typical(self, sums: SummedScores) -> SummedScores:
        return sums._replace(typicality=self.components.largest(sums.typicality.T).T)

    def _add_up(
        self,
        planes: NDArray[Any],
        scale: Array,
        offset: Array,
        coefficients: Array | None,
        pairs: Pairs,
        rounded: bool,
        sums: SummedScores,
    ) -> None:
        """Write the sums; ``rounded``: values are scaled or corrected first, which rounds them."""
        for rows in slices(planes.shape[2], max(64, (1 << 18) // (self.n_components * self.n_features))):
            totals = [np.zeros(part[..., rows].shape) for part in sums[:4]]
            for i, (r, w) in enumerate(zip(*pairs, strict=True)):
                plane = planes[0 if coefficients is not None else r][:, rows]
                x = plane.astype(np.float64) * scale[:, None] + offset[:, None]
                if coefficients is not None:
                    x = surface_reflectance(x, *coefficients[r][:, :, None])
                q = self.squared_distance(x.T, w)
                v = self.log1p_distance(q, w)
                joint = self.log_joint(v, w)
                of_components = joint
                joint = self.components.log_odds(joint)
                sums.best[i, rows] = joint.argmax(axis=1)
                known = softmax(joint)
                inner = entropy(known)
                variance = self._variance_of(w)
                information = variance.of_classes(self.components, known, q, of_components)
                information = below_entropy(information, inner)
                parts = known.T, self.p_values(v, w).T, inner, information
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
    def centre(self) -> Array:
        """What is subtracted from points before they are whitened: (feature,)."""
        return np.asarray(self.location.mean(axis=(0, 1))) if self.origin is None else self.origin

    @cached_property
    def stacked(self) -> tuple[Array, Array]:
        """Whitening of all classes of a world as one matrix (world, feature, class · feature), and shifts."""
        W, K, p = self.location.shape
        whitening = np.ascontiguousarray(self.whitening.reshape(W, K * p, p).swapaxes(1, 2))
        shift = np.einsum("wkij,wkj->wki", self.whitening, self.location - self.centre)
        return whitening, shift.reshape(W, K * p)

    def squared_distance(self, points: Floats, w: int) -> Array:
        """q of each point and class: (point, class)."""
        whitening, shift = self.stacked
        n, p = points.shape
        with np.errstate(over="ignore", invalid="ignore"):
            z = (points - self.centre) @ whitening[w]
            z -= shift[w]
            q = np.einsum("nkp,nkp->nk", z.reshape(n, -1, p), z.reshape(n, -1, p))
        return np.nan_to_num(q, copy=False, nan=1e30, posinf=1e30)

    def log1p_distance(self, q: Array, w: int) -> Array:
        """v = log(1 + q/ν) in world w."""
        return np.asarray(np.log1p(q / self.dof[w]))

    def log_joint(self, v: Array, w: int) -> Array:
        """Log joint of the components in world w: linear in v = log(1 + q/ν)."""
        return np.asarray(self.log_weight[w] - self.slope[w] * v)

    def p_values(self, v: Array, w: int) -> Array:
        """p-values of the components in world w, from a table over √v."""
        scale, table = self.p_value_tables
        place = np.minimum(np.sqrt(v) * scale[w], _STEPS - 1.0)
        left = place.astype(np.intp)
        k = np.arange(self.n_components)
        before, after = table[w][k, left], table[w][k, left + 1]
        return np.asarray(before + (place - left) * (after - before))

    @cached_property
    def p_value_tables(self) -> tuple[Array, Array]:
        """p-values over √v: steps per unit (world, class), and values (world, class, step)."""
        found = [_table(self.n_features, float(nu)) for nu in self.dof.ravel()]
        scale = np.array([each for each, _ in found]).reshape(self.dof.shape)
        return scale, np.stack([values for _, values in found]).reshape(*self.dof.shape, -1)


def softmax(joint: Array) -> Array:
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
