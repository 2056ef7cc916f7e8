"""Sets of classes that hold the true one with a stated probability, as a frozen value beside any model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.models.gaussian import GaussianClasses
from uncover.models.pool import Pool

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WithSets:
    """A fitted model with the samples that were kept from it, which make sets of its probabilities."""

    model: GaussianClasses | Pool
    scores: tuple[Array, ...]  # for each class k: P(k | x_i) of its kept samples, in steps of 1e-4, sorted
    counts: tuple[Array, ...]  # how much each of them counts: 1, or its share in its group
    coverage: float

    @classmethod
    def of(
        cls, model: GaussianClasses | Pool, probability: Array, codes: Array, coverage: float, groups: Any
    ) -> WithSets:
        """Of the probabilities (sample, class) of kept samples, their classes, and their groups or None."""
        P, scores, counts = _in_steps(probability), [], []
        for k in range(P.shape[1]):
            mine = np.flatnonzero(codes == k)
            mine = mine[np.argsort(P[mine, k], kind="stable")]
            scores.append(P[mine, k])
            counts.append(np.ones(len(mine)) if groups is None else _shares_in_groups(groups[mine]))
        return cls(model, tuple(scores), tuple(counts), coverage)

    def p_values(self, probability: NDArray[Any]) -> Array:
        """p-value of each class, from probabilities (sample, class): as these."""
        P = _in_steps(probability)
        out = np.empty(P.shape)
        for k, (scores, counts) in enumerate(zip(self.scores, self.counts, strict=True)):
            below = np.append(0.0, np.cumsum(counts))[np.searchsorted(scores, P[:, k], side="right")]
            out[:, k] = (1.0 + below) / (1.0 + counts.sum())
        return out

    def inside(self, probability: NDArray[Any]) -> NDArray[np.bool_]:
        """Which classes are in the set, from probabilities (..., class): as these."""
        return np.asarray(_in_steps(probability) >= self.thresholds)

    @cached_property
    def thresholds(self) -> Array:
        """Probability from which on each class is in the set: (class,).

        The smallest score of a kept sample of the class whose own p-value is above 1 − coverage.
        """
        pairs = zip(self.scores, self.counts, strict=True)
        return np.array([scores[_first_inside(counts, self.coverage)] for scores, counts in pairs])


def _in_steps(probability: NDArray[Any]) -> Array:
    """Probabilities in whole steps of 1e-4."""
    return np.asarray(np.rint(np.asarray(probability, np.float64) * 1e4) / 1e4)


def samples_needed(coverage: float) -> int:
    """Fewest samples of a class by which it can be excluded from sets at all: 1/(n + 1) ≤ 1 − coverage.

    >>> samples_needed(0.9), samples_needed(0.95), samples_needed(0.5)
    (9, 19, 1)
    """
    return math.ceil(1.0 / (1.0 - coverage) - 1e-9) - 1


def _shares_in_groups(groups: NDArray[Any]) -> Array:
    """Share of each sample in its group."""
    _, number, size = np.unique(groups, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / size[number.ravel()])


def _first_inside(counts: Array, coverage: float) -> int:
    """First of the sorted samples with (1 + what counts up to it)/(1 + all) > 1 − coverage, but for rounding.

    >>> _first_inside(np.ones(9), 0.9), _first_inside(np.ones(30), 0.9), _first_inside(np.full(60, 0.5), 0.9)
    (0, 2, 4)
    """
    needed = (1.0 - coverage) * (1.0 + counts.sum()) - 1.0 + 1e-9
    return int(np.searchsorted(np.cumsum(counts), needed, side="right"))
