"""Class densities by compiled kernels; :mod:`uncover.bayes` has the reference.

In single precision probabilities are within 1e-5 of those in double precision: each point carries a bound of
its rounding error, and points beyond the tolerance are recomputed in double precision, from the measured
values.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from uncover.bayes.class_densities import ClassDensities, Pairs, SummedScores, tail_coefficients
from uncover.bayes.components import Components
from uncover.bayes.linalg import invert_triangle, slices
from uncover.engines.machine import machine_code
from uncover.engines.threads import in_order

Array = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]

# Fewer multiply-adds than this are not worth compiled code, whose numbers are arranged first, or threads.
_FEW, _MANY = 200_000, 10_000_000
# Multiply-adds that one thread takes at a time, in whole blocks of points.
_CHUNK, _BLOCKS = 15_000_000, 256


class DensityNumbers(NamedTuple):
    """Class densities in one floating-point type, as machine code takes them; an even number of features."""

    centre: Floats  # (2, feature), and what rounding takes from it
    whitening: Floats  # (world, class, feature, feature), lower triangles
    shift: Floats  # (world, class, feature)
    log_weight: Floats  # (world, class)
    slope: Floats  # (world, class)
    dof: Floats  # (world, class)
    inverse_dof: Floats  # (world, class)
    rounding_bound: Floats  # (world, class, 2)
    variance: Floats  # (world, class, 3)
    between: Floats  # (world, class, class), or of no classes
    tail: Floats  # (world, class, term)
    table_scale: Floats  # (world, class)
    table: Floats  # (world, class, step)
    largest: Floats  # (1,)


class ComponentNumbers(NamedTuple):
    """Components of classes, as machine code takes them."""

    first: NDArray[np.int64]  # (class + 1,), the components of class k are first[k] … first[k + 1] − 1
    sharpness: Array  # (1,), one over the temperature

    @classmethod
    def of(cls, components: Components) -> ComponentNumbers:
        """Arrange components."""
        return cls(components.first, np.array([1.0 / components.temperature]))


class FastClassDensities(ClassDensities):
    """Class densities with machine code: the same numbers as the reference, single precision to 1e-5.

    Examples
    --------
    >>> from uncover.bayes.student_t import StudentT
    >>> t = StudentT.from_scale([[0.0, 0.0], [3.0, 3.0]], np.eye(2), [5.0, 8.0])
    >>> fast, plain = (kind.of([t], np.log([0.5, 0.5])) for kind in (FastClassDensities, ClassDensities))
    >>> planes = np.random.default_rng(0).normal(size=(1, 2, 100))
    >>> one, other = (each.summarise(planes, each.pairs(1)) for each in (fast, plain))
    >>> np.allclose(one.probability, other.probability)
    True
    """

    def probability(self, X: Floats, pairs: Pairs) -> Floats:
        """P(class) of samples (sample, realisation, feature), averaged over pairs: (sample, class).

        In the type of X: single precision to 1e-5, double precision to rounding. NumPy takes few samples.
        """
        each = len(pairs.worlds) * self.n_components * self.n_features * (self.n_features + 20) // 2
        work = len(X) * each
        code = machine_code() if work >= _FEW else None
        if code is None:
            return super().probability(X, pairs)
        out = np.empty((len(X), self.n_classes), X.dtype)
        single = bool(X.dtype == np.float32)
        numbers, exact = self.numbers(X.dtype), self.numbers(np.float64)

        def work_on(rows: slice) -> None:
            arranged = numbers, exact, self.component_numbers
            code.average_probability(X[rows], *pairs, *arranged, single, out[rows])

        size = _BLOCKS * max(1, _CHUNK // (each * _BLOCKS)) if work >= _MANY else len(X)
        for _ in in_order(work_on, slices(len(X), size)):
            pass
        return out

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
        code = machine_code()
        if code is None:
            super()._add_up(planes, scale, offset, coefficients, pairs, rounded, sums)
            return
        p, kind = planes.shape[1], sums.probability.dtype
        exact = np.zeros((0, 3, p)) if coefficients is None else coefficients
        # A feature that only fills up to an even number stays 0: path 0, slope 1, albedo 0.
        filling = np.broadcast_to([[0.0], [1.0], [0.0]], (len(exact), 3, p % 2))
        exact = np.concatenate([exact, filling], axis=-1)
        numbers = self.numbers(kind)
        if rounded:
            numbers = numbers._replace(rounding_bound=self._bound_of_rounded.astype(kind))
        references = self if self.typical is None else self.typical
        assert isinstance(references, FastClassDensities)
        assert references.centre is self.centre or (references.centre == self.centre).all()
        typical = references.numbers(kind, p_values=True), self.typical is not None
        code.summarise(
            planes, (scale, offset), (exact.astype(kind), exact), *pairs, numbers,
            self.numbers(np.float64), typical, self.component_numbers, bool(kind == np.float32), sums,
        )  # fmt: skip

    def _typical_of_classes(self, sums: SummedScores, *given: Any) -> SummedScores:
        if machine_code() is None:
            return super()._typical_of_classes(sums, *given)
        return self._most_typical(sums)  # p-values were read from the right densities already

    # ---- what machine code takes -------------------------------------------------------------------

    @cached_property
    def component_numbers(self) -> ComponentNumbers | None:
        """None where each class has one component: that machine code is faster."""
        return None if self.components.trivial else ComponentNumbers.of(self.components)

    @cached_property
    def _cache(self) -> dict[tuple[np.dtype[Any], bool], DensityNumbers]:
        return {}

    def numbers(self, dtype: DTypeLike, p_values: bool = False) -> DensityNumbers:
        """Densities in one type; what p-values are read from takes its time, and is there only for them."""
        key = np.dtype(dtype), p_values
        if key not in self._cache:
            given = self._arranged if not p_values else self._arranged._replace(**self._for_p_values)
            centre = np.stack([near := given.centre[0].astype(dtype), given.centre[0] - near])
            largest = np.array([1e15 if key[0] == np.float32 else 1e30])
            numbers = given._replace(centre=centre, largest=largest)
            self._cache[key] = DensityNumbers(*(np.ascontiguousarray(part, dtype=dtype) for part in numbers))
        return self._cache[key]

    @cached_property
    def _arranged(self) -> DensityNumbers:
        """Densities in double precision, without what p-values are read from."""
        odd = self.n_features % 2
        nothing = np.zeros((*self.dof.shape, 2))
        return DensityNumbers(
            centre=_filled(self.centre[None], odd),
            whitening=_filled(_filled(self.whitening, odd).swapaxes(-2, -1), odd).swapaxes(-2, -1),
            shift=_filled(self.stacked[1].reshape(self.location.shape), odd),
            # Only differences between classes count, and small numbers lose less.
            log_weight=self.log_weight - self.log_weight.max(axis=1, keepdims=True),
            slope=self.slope,
            dof=self.dof,
            inverse_dof=1.0 / self.dof,
            rounding_bound=self.rounding_bound(np.abs(self.location - self.centre)),
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
        scale, table = self.p_value_tables
        return {"table_scale": scale, "table": table}

    @cached_property
    def _bound_of_rounded(self) -> Array:
        """Bound for values that were scaled or corrected, and are rounded themselves."""
        rounded = np.abs(self.location - self.centre) + np.abs(self.location)
        return self.rounding_bound(rounded)

    def rounding_bound(self, rounded: Array) -> Array:
        """Bound of the rounding error of log joints in single precision, b₀ + b₁·q: (world, class, 2).

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
