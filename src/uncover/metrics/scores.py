"""Scores of class probabilities against reference classes: F₁, F₂, cross-entropy, Brier, and their sums.

Everything is a function of sums over samples (`ScoreSums`), so that scores come block by block, by group, and
by bootstrap from the same few lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uncover.metrics.confusion import Floats, GroupSums, codes_of, f_beta, ratio, shares_of


@dataclass(frozen=True)
class Scores:
    """The scores of one set of samples; arrays where there are several sets.

    `zeros` counts the samples whose true class was given the probability 0. With one of them the
    cross-entropy is infinite, unless a `floor` was put under the probabilities.
    """

    f1: Any
    f2: Any
    cross_entropy: Any  # nats
    brier: Any
    cross_entropy_norm: Any  # 1: no better than the prior shares
    brier_norm: Any
    zeros: Any
    floor: float = 0.0


#: The scores that are numbers to be compared, in the order in which they are shown.
SCORE_NAMES = ("f1", "f2", "cross_entropy", "brier", "cross_entropy_norm", "brier_norm")


@dataclass(frozen=True)
class ScoreSums(GroupSums):
    """Sums over samples from which all scores follow; leading axes are groups. A monoid under `+`."""

    weight: Floats  # (...)
    log_loss: Floats  # (...) Σ w·(−log p), of samples for which it is finite
    impossible: Floats  # (...) weight of the samples for which it is not
    squares: Floats  # (...) Σ w Σ_k (y−p)²
    zeros: Floats  # (...) number of samples with p = 0 for the true class, before any floor
    confusion: Floats  # (..., map, reference)
    floor: float = 0.0

    @classmethod
    def of(
        cls,
        reference: ArrayLike,
        probabilities: ArrayLike,
        *,
        mapped: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        n_groups: int | None = None,
        floor: float = 0.0,
        log_probabilities: ArrayLike | None = None,
    ) -> ScoreSums:
        """Sums of samples: reference classes 0 … K−1 and probabilities (sample, class).

        mapped
            The class that was decided for; the most probable one by default.
        groups, n_groups
            Number of the group of each sample: the sums get a leading axis of that length.
        floor
            Probabilities below it count as this much, in the cross-entropy alone.
        log_probabilities
            Their logarithms, where they are known better: a probability of 1e-400 is a 0, its logarithm is
            not.
        """
        p = check_probabilities(probabilities)
        n, k = p.shape
        y = codes_of(reference, k, "reference")
        if y.size != n:
            raise ValueError(f"{y.size} reference classes and {n} rows of probabilities; give one for each")
        decided = p.argmax(axis=1) if mapped is None else codes_of(mapped, k, "map")
        w = np.ones(n) if weights is None else np.asarray(weights, np.float64)
        p_true = p[np.arange(n), y]
        loss = _log_loss(p_true, floor) if log_probabilities is None else _given(log_probabilities, y, floor)
        possible = np.isfinite(loss)
        loss = np.where(possible, loss, 0.0)
        squares = (p**2).sum(axis=1) - 2 * p_true + 1
        g, size = numbered_groups(groups, n_groups, n)
        cells = np.bincount((g * k + decided) * k + y, w, minlength=size * k * k)
        found = cls(
            weight=_by_group(g, w, size),
            log_loss=_by_group(g, w * loss, size),
            impossible=_by_group(g, w * ~possible, size),
            squares=_by_group(g, w * squares, size),
            zeros=_by_group(g, p_true == 0, size),
            confusion=cells.astype(np.float64).reshape(size, k, k),
            floor=floor,
        )
        return found if groups is not None else found.total()

    def __add__(self, other: ScoreSums) -> ScoreSums:
        if self.floor != other.floor:
            raise ValueError(f"sums with the floors {self.floor} and {other.floor} cannot be added")
        return super().__add__(other)

    def scaled(self, factors: Floats) -> ScoreSums:
        """The groups, each times its factor (group,). Zeros stay counts."""
        return self._each(
            lambda v, name: v if name == "zeros" else v * factors.reshape(-1, *[1] * (v.ndim - 1))
        )

    @property
    def cross_entropy(self) -> Any:
        """−(1/N) Σ_i Σ_k y log p, infinite where a true class has probability 0."""
        return np.where(self.impossible > 0, np.inf, ratio(self.log_loss, self.weight))[()]

    @property
    def brier(self) -> Any:
        """(1/NK) Σ_i Σ_k (y−p)²."""
        return ratio(self.squares, self.weight * self.confusion.shape[-1])[()]

    @property
    def reference_shares(self) -> Floats:
        """Share of each class in the reference, (..., class)."""
        classes = self.confusion.sum(axis=-2)
        return np.asarray(ratio(classes, classes.sum(axis=-1, keepdims=True)))

    def scores(self, shares: ArrayLike) -> Scores:
        """All scores, with the prior class shares q that weight F and normalise the others."""
        k = self.confusion.shape[-1]
        q = shares_of(shares, k)
        entropy = -np.sum(q[q > 0] * np.log(q[q > 0]))
        return Scores(
            f1=f_beta(self.confusion, 1, q),
            f2=f_beta(self.confusion, 2, q),
            cross_entropy=self.cross_entropy,
            brier=self.brier,
            cross_entropy_norm=_normalised(self.cross_entropy, entropy),
            brier_norm=_normalised(self.brier * k, np.sum(q * (1 - q))),
            zeros=self.zeros,
            floor=self.floor,
        )


def _normalised(value: Any, scale: Any) -> Any:
    """NaN where the prior shares leave nothing to be uncertain about."""
    return value / scale if scale > 0 else np.full(np.shape(value), np.nan)[()]


def score(
    reference: ArrayLike,
    probabilities: ArrayLike,
    shares: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    floor: float = 0.0,
    log_probabilities: ArrayLike | None = None,
) -> Scores:
    """Scores of probabilities (sample, class) against reference classes 0 … K−1, with prior shares q.

    F_β = Σ_k q_k (β²+1)TP/((β²+1)TP+β²FN+FP), XE = −(1/N)ΣΣ y log p, BS = (1/NK)ΣΣ (y−p)²,
    XE_norm = XE / −Σ q log q, BS_norm = K·BS / Σ q(1−q): for both, 1 is no better than the prior.
    """
    sums = ScoreSums.of(
        reference, probabilities, weights=weights, floor=floor, log_probabilities=log_probabilities
    )
    return sums.scores(shares)


def check_probabilities(probabilities: ArrayLike) -> Floats:
    """Probabilities (sample, class) as float64, refused where they are not between 0 and 1."""
    p = np.asarray(probabilities, np.float64)
    if p.ndim != 2 or p.shape[1] < 1:
        raise ValueError(f"probabilities have the shape {p.shape}; (sample, class) is needed")
    if p.size and not ((p >= 0) & (p <= 1 + 1e-6)).all():
        raise ValueError(
            f"probabilities go from {p.min():g} to {p.max():g}; they lie between 0 and 1 (are these "
            f"logarithms, or scaled numbers?)"
        )
    return p


def _log_loss(p: Floats, floor: float) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(np.maximum(p, floor)))


def _given(log_probabilities: ArrayLike, y: NDArray[np.intp], floor: float) -> Floats:
    logs = np.asarray(log_probabilities, np.float64)[np.arange(y.size), y]
    return np.asarray(-np.maximum(logs, np.log(floor) if floor > 0 else -np.inf))


def numbered_groups(groups: ArrayLike | None, n_groups: int | None, n: int) -> tuple[NDArray[np.intp], int]:
    """Number of the group of each of n samples, and the number of groups; one group where none are given."""
    if groups is None:
        return np.zeros(n, np.intp), 1
    g = np.asarray(groups)
    return g.astype(np.intp), int(g.max(initial=-1)) + 1 if n_groups is None else n_groups


def _by_group(groups: NDArray[np.intp], values: Any, size: int) -> Floats:
    return np.bincount(groups, values, minlength=size).astype(np.float64)
