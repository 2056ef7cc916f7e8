"""Confusion matrices, map class by reference class, and the rates that follow from them. No probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def codes_of(values: ArrayLike, classes: int, what: str) -> NDArray[np.intp]:
    """Class codes as an index, refused where one is not among 0 … K−1."""
    codes = np.asarray(values)
    if codes.dtype.kind not in "iu" or codes.ndim != 1:
        raise ValueError(
            f"{what} classes come as {codes.dtype} of shape {codes.shape}; "
            f"whole numbers from 0 to {classes - 1} in one dimension are needed"
        )
    if codes.size and (codes.min() < 0 or codes.max() >= classes):
        raise ValueError(
            f"{what} classes go from {codes.min()} to {codes.max()}; with {classes} classes they go from 0 "
            f"to {classes - 1}"
        )
    return codes.astype(np.intp)


def ratio(part: Any, whole: Any) -> Any:
    """part / whole, NaN where there is no whole: what was not seen has no rate."""
    part, whole = np.broadcast_arrays(np.asarray(part, np.float64), np.asarray(whole, np.float64))
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole != 0)


class GroupSums:
    """Sums over samples, a dataclass of arrays whose leading axis is groups. A monoid under `+`."""

    def __add__(self, other: Self) -> Self:
        return self._each(lambda values, name: values + getattr(other, name))

    def total(self) -> Self:
        """The sum over the leading axis."""
        return self._each(lambda values, name: values.sum(axis=0))

    def chosen(self, where: NDArray[np.bool_]) -> Self:
        """Some of the groups."""
        return self._each(lambda values, name: values[where])

    def combined(self, factors: Floats) -> Self:
        """Sums over groups, each times its factor: `factors` (..., group), for weights and for resampling."""
        return self._each(lambda values, name: np.tensordot(factors, values, axes=1))

    def _each(self, change: Callable[[Floats, str], Floats]) -> Self:
        """A change of every array, by its name."""
        named: Any = {f.name: getattr(self, f.name) for f in fields(cast(Any, self)) if f.name != "floor"}
        return cast(Self, replace(cast(Any, self), **{name: change(v, name) for name, v in named.items()}))


@dataclass(frozen=True)
class Outcomes:
    """Each class against all others: counts or weights, and rates; arrays (..., class)."""

    true_positive: Floats
    false_positive: Floats  # mapped as the class, and it is another
    false_negative: Floats  # it is the class, and mapped as another
    true_negative: Floats

    @classmethod
    def of(cls, confusion: ArrayLike) -> Outcomes:
        """From confusion matrices (..., map, reference)."""
        cells = np.asarray(confusion, np.float64)
        right = np.diagonal(cells, axis1=-2, axis2=-1)
        wrong_in_map = cells.sum(axis=-1) - right
        missed = cells.sum(axis=-2) - right
        rest = cells.sum(axis=(-2, -1))[..., np.newaxis] - right - wrong_in_map - missed
        return cls(right.copy(), wrong_in_map, missed, rest)

    @property
    def true_positive_rate(self) -> Floats:
        """Share of the class that is mapped as it: recall, producer's accuracy."""
        return np.asarray(ratio(self.true_positive, self.true_positive + self.false_negative))

    @property
    def false_negative_rate(self) -> Floats:
        """Share of the class that is mapped as another: omission."""
        return np.asarray(ratio(self.false_negative, self.true_positive + self.false_negative))

    @property
    def false_positive_rate(self) -> Floats:
        """Share of the other classes that is mapped as this one."""
        return np.asarray(ratio(self.false_positive, self.false_positive + self.true_negative))

    @property
    def true_negative_rate(self) -> Floats:
        """Share of the other classes that is mapped as others."""
        return np.asarray(ratio(self.true_negative, self.false_positive + self.true_negative))

    @property
    def precision(self) -> Floats:
        """Share of what is mapped as the class that is of it: user's accuracy."""
        return np.asarray(ratio(self.true_positive, self.true_positive + self.false_positive))

    def f_beta(self, beta: float) -> Floats:
        """(β²+1)TP / ((β²+1)TP + β²FN + FP); NaN for a class that is neither mapped nor there."""
        hits = (beta**2 + 1) * self.true_positive
        return np.asarray(ratio(hits, hits + beta**2 * self.false_negative + self.false_positive))


def overall_accuracy(confusion: ArrayLike) -> Any:
    """Share of all that is mapped as what it is."""
    cells = np.asarray(confusion, np.float64)
    return ratio(np.trace(cells, axis1=-2, axis2=-1), cells.sum(axis=(-2, -1)))[()]


def f_beta(confusion: ArrayLike, beta: float, shares: ArrayLike) -> Any:
    """F_β averaged over the classes with their prior shares: Σ_k q_k F_β,k.

    A class that is neither mapped nor in the reference has no F_β; the shares of the others are then scaled
    to one. A class that is in one of them only has F_β = 0.
    """
    values = Outcomes.of(confusion).f_beta(beta)
    q = shares_of(shares, values.shape[-1])
    seen = ~np.isnan(values)
    total = np.where(seen, q * np.nan_to_num(values), 0).sum(axis=-1)
    return ratio(total, np.where(seen, q, 0).sum(axis=-1))[()]


def shares_of(shares: ArrayLike, classes: int) -> Floats:
    """Prior class shares: not negative, one per class, scaled to one."""
    q = np.asarray(shares, np.float64)
    if q.shape != (classes,) or not np.isfinite(q).all() or (q < 0).any() or q.sum() == 0:
        raise ValueError(
            f"prior class shares {q.tolist()} are given for {classes} classes; each needs one, not negative "
            f"and not all of them zero"
        )
    return np.asarray(q / q.sum())
