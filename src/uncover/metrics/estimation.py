"""Accuracy and area from a probability sample: simple random or stratified, by the map's classes or others.

One linearised variance serves all: Stehman (2014), Int. J. Remote Sensing 35, 4923-4939, of which Olofsson et
al. (2014), Remote Sensing of Environment 148, 42-57, is the case where the strata are the map's classes. Its
root is the usual standard error. It is 0 where no error was seen: intervals come from `ratio_limits`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uncover.bayes.streams import stream
from uncover.metrics.confusion import Floats, GroupSums, codes_of, ratio
from uncover.warn import warn

_ROUNDING = 1e-12  # a standard error below it is 0

DRAWS = 20_000
_PART, _OTHER, _OUTSIDE = 0, 1, 2


@dataclass(frozen=True)
class Estimate:
    """Values with their usual standard errors, and the number of samples that each rests on."""

    value: Floats
    error: Floats  # the usual standard error, NaN where it cannot be estimated
    count: Floats  # samples
    #: Limits at a level, of estimates from a stratified sample
    limits: Callable[[float], tuple[Floats, Floats]] | None = None

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Limits that hold with few samples and without errors seen; else value ± z·error."""
        z_of(level)
        return self.normal_interval(level) if self.limits is None else self.limits(level)

    def normal_interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Value ± z·error, as the published examples have it; too narrow where few errors were seen."""
        half = z_of(level) * self.error
        return self.value - half, self.value + half

    def share_interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """For shares: Clopper and Pearson's, with the number of samples that would give this standard error.

        So Korn and Graubard (1998). Where no error is to be seen, all samples being right, they are counted.
        """
        spread = self.value * (1 - self.value)
        unseen = self.error <= _ROUNDING  # a bootstrap of equal values has an error of 1e-17, not of 0
        with np.errstate(divide="ignore", invalid="ignore"):
            n = np.where(unseen, self.count, spread / self.error**2)
        return clopper_pearson_interval(self.value, n, level)

    def scaled(self, factor: float) -> Estimate:
        """The same in another unit: shares times the total area are areas."""
        return self._changed(lambda value: factor * value, self.error * factor)

    def complement(self) -> Estimate:
        """The share that is left."""
        return self._changed(lambda value: 1 - value, self.error)

    def _changed(self, change: Callable[[Floats], Floats], error: Floats) -> Estimate:
        """The same after a change that is linear."""
        limits = self.limits

        def changed(level: float) -> tuple[Floats, Floats]:
            assert limits is not None
            ends = [change(end) for end in limits(level)]
            return np.minimum(*ends), np.maximum(*ends)

        return Estimate(change(self.value), error, self.count, None if limits is None else changed)


def z_of(level: float) -> float:
    """Return the quantile of the normal distribution that an interval of this level reaches to."""
    if not 0 < level < 1:
        raise ValueError(f"the confidence level is {level}; it lies between 0 and 1, for instance 0.95")
    from scipy.special import ndtri

    return float(ndtri((1 + level) / 2))


def clopper_pearson_interval(share: ArrayLike, n: ArrayLike, level: float = 0.95) -> tuple[Any, Any]:
    """Clopper and Pearson's interval of a share seen in n samples, whole or not; NaN without samples."""
    from scipy.special import betaincinv, ndtr

    p, n = np.asarray(share, np.float64), np.asarray(n, np.float64)
    tail = 1 - ndtr(z_of(level))
    n = np.where(n > 0, n, np.nan)
    part, rest = np.clip(n * p, 0, n), np.clip(n * (1 - p), 0, n)
    low = np.where(part == 0, 0.0, betaincinv(part, rest + 1, tail))
    high = np.where(rest == 0, 1.0, betaincinv(part + 1, rest, 1 - tail))
    return low[()], high[()]


def wilson_interval(share: ArrayLike, n: ArrayLike, level: float = 0.95) -> tuple[Any, Any]:
    """Wilson's score interval of a share seen in n samples; NaN without samples."""
    p, n = np.asarray(share, np.float64), np.asarray(n, np.float64)
    z2 = z_of(level) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = np.sqrt(z2) * np.sqrt(p * (1 - p) / n + z2 / (4 * n**2)) / (1 + z2 / n)
    low, high = np.maximum(middle - half, 0), np.minimum(middle + half, 1)
    return np.where(p == 0, 0 * low, low)[()], np.where(p == 1, 1 + 0 * high, high)[()]


@dataclass(frozen=True)
class SampleCells(GroupSums):
    """A sample by stratum, map class and reference class: numbers, weights and squared weights.

    The weight of a sample is the area it stands for, up to a factor: 1 where all pixels have the same area.
    Arrays (stratum, map, reference); a monoid under `+`.
    """

    count: Floats
    weight: Floats
    squares: Floats

    @classmethod
    def of(
        cls,
        mapped: ArrayLike,
        reference: ArrayLike,
        strata: ArrayLike,
        *,
        classes: int,
        n_strata: int,
        weights: ArrayLike | None = None,
    ) -> SampleCells:
        """Cells of samples: classes 0 … K−1, strata 0 … H−1."""
        i, j = codes_of(mapped, classes, "map"), codes_of(reference, classes, "reference")
        h = codes_of(strata, n_strata, "stratum")
        w = np.ones(h.size) if weights is None else np.asarray(weights, np.float64)
        at = (h * classes + i) * classes + j
        shape = n_strata, classes, classes
        sums = [np.bincount(at, w**power, minlength=n_strata * classes**2) for power in (0, 1, 2)]
        return cls(*(s.astype(np.float64).reshape(shape) for s in sums))

    @classmethod
    def of_counts(cls, counts: ArrayLike) -> SampleCells:
        """Cells from numbers of samples (stratum, map, reference), all of the same weight."""
        n = np.asarray(counts, np.float64)
        return cls(n, n, n)


@dataclass(frozen=True)
class StratifiedSample:
    """A stratified random sample of a map; with a single stratum, a simple random one.

    `sizes` are the areas of the strata, in any unit. `units` are their numbers of pixels; where they are
    given, the finite population correction 1 − n_h/N_h is applied, as in Stehman (2014). `by_map` says that
    the strata are classes of the map: a sample of a stratum cannot be mapped as anything else.

    For a quantity c of each cell (map class, reference class), with c̄_h its weighted mean in stratum h,

        Ŷ = Σ_h W_h c̄_h,   V(Ŷ) = Σ_h W_h² (1−f_h) n_h/(n_h−1) · Σ_{u∈h} w_u² (c_u − c̄_h)² / (Σ_{u∈h} w_u)²,

    and a ratio R = Y/X has the variance of the quantity (y − R x)/X. The published estimators follow.
    """

    cells: SampleCells
    sizes: ArrayLike  # (stratum,)
    units: ArrayLike | None = None  # (stratum,)
    by_map: bool = False

    def __post_init__(self) -> None:
        sizes = np.asarray(self.sizes, np.float64)
        if sizes.shape != self.cells.count.shape[:1] or not (sizes > 0).all():
            raise ValueError(
                f"{self.cells.count.shape[0]} strata have the sizes {sizes.tolist()}; each needs one above 0"
            )
        n = self.cells.count.sum(axis=(1, 2))
        if (n == 0).any():
            raise ValueError(
                f"stratum {int(np.flatnonzero(n == 0)[0])} has no sample: nothing is known about it; join it "
                f"with another stratum"
            )
        if (n == 1).any():
            warn(
                f"stratum {int(np.flatnonzero(n == 1)[0])} has one sample: standard errors are unknown",
            )

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.cells.count.shape[-1])

    @property
    def total(self) -> float:
        """Size of all strata together."""
        return float(np.sum(np.asarray(self.sizes, np.float64)))

    @property
    def _shares(self) -> Floats:
        """W_h times the weighted share of each cell in its stratum, (stratum, map, reference)."""
        w = self.cells.weight
        stratum = np.asarray(self.sizes, np.float64) / self.total
        return np.asarray(stratum[:, None, None] * w / w.sum(axis=(1, 2), keepdims=True))

    def _variance(self, quantity: Floats) -> Floats:
        """V(Ŷ) of quantities (..., map, reference)."""
        n, w = (values.sum(axis=(1, 2)) for values in (self.cells.count, self.cells.weight))
        stratum = np.asarray(self.sizes, np.float64) / self.total
        c = quantity[..., np.newaxis, :, :]  # (..., stratum, map, reference)
        mean = (c * self.cells.weight).sum(axis=(-2, -1)) / w
        spread = (self.cells.squares * (c - mean[..., np.newaxis, np.newaxis]) ** 2).sum(axis=(-2, -1))
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(n > 1, n / (n - 1), np.nan) * (stratum / w) ** 2
        if self.units is not None:
            factor = factor * np.clip(1 - n / np.asarray(self.units, np.float64), 0, None)
        return np.asarray((factor * spread).sum(axis=-1))

    def mean(self, quantity: ArrayLike) -> Estimate:
        """Mean over the map of quantities of each cell, (..., map, reference)."""
        c = np.asarray(quantity, np.float64)
        value = (c * self._shares.sum(axis=0)).sum(axis=(-2, -1))
        count = np.broadcast_to(self.cells.count.sum(), value.shape)
        return Estimate(value, np.sqrt(self._variance(c)), count, self._limits(c, np.ones_like(c)))

    def ratio(self, part: ArrayLike, whole: ArrayLike) -> Estimate:
        """Ratio of two means; NaN where the whole was not met."""
        y, x = np.asarray(part, np.float64), np.asarray(whole, np.float64)
        cells = self._shares.sum(axis=0)
        below = (x * cells).sum(axis=(-2, -1))
        value = np.asarray(ratio((y * cells).sum(axis=(-2, -1)), below))
        residual = (y - np.nan_to_num(value)[..., None, None] * x) * np.nan_to_num(ratio(1, below))[
            ..., None, None
        ]
        error = np.where(below > 0, np.sqrt(self._variance(residual)), np.nan)
        count = (x * self.cells.count.sum(axis=0)).sum(axis=(-2, -1))
        return Estimate(value, error, count, self._limits(y, x))

    def _limits(self, part: Floats, whole: Floats) -> Callable[[float], tuple[Floats, Floats]] | None:
        """Limits of the ratio of part and whole, as a function of the level; of cells as a whole only."""
        sides = np.stack(np.broadcast_arrays(part, whole - part, 1 - whole), axis=-3)
        if not np.isin(sides, (0, 1)).all():
            return None
        cells = self.cells.weight / self.cells.weight.sum(axis=(1, 2), keepdims=True)
        samples = self._effective_samples()[:, None, None] * cells
        can_be = np.ones_like(cells) * (cells.sum(axis=2, keepdims=True) > 0 if self.by_map else 1)
        sizes = np.asarray(self.sizes, np.float64) / self.total

        def limits(level: float) -> tuple[Floats, Floats]:
            ends = np.full((2, *sides.shape[:-3]), np.nan)
            for at in np.ndindex(sides.shape[:-3]):
                counts, possible = (np.einsum("smr,hmr->sh", sides[at], v) for v in (samples, can_be))
                if counts[:2].sum() > 0:  # else the whole was not met
                    ends[(slice(None), *at)] = ratio_limits(counts, possible > 0, sizes, level)
            return ends[0], ends[1]

        return limits

    def _effective_samples(self) -> Floats:
        """Samples of each stratum that would tell as much, if all had the same weight: Kish's number."""
        n, w, w2 = (v.sum(axis=(1, 2)) for v in (self.cells.count, self.cells.weight, self.cells.squares))
        if self.units is None:
            return np.asarray(w**2 / w2)
        left = np.clip(1 - n / np.asarray(self.units, np.float64), np.finfo(np.float64).eps, None)
        return np.asarray(w**2 / w2 / left)

    def overall_accuracy(self) -> Estimate:
        """Share of the area that is mapped as what it is."""
        return self.mean(np.eye(self.classes))

    def users_accuracy(self) -> Estimate:
        """For each map class, the share of its area that is of that class in the reference."""
        rows, _, both = self._indicators()
        return self.ratio(both, rows)

    def producers_accuracy(self) -> Estimate:
        """For each reference class, the share of its area that is mapped as it."""
        _, columns, both = self._indicators()
        return self.ratio(both, columns)

    def false_positive_rate(self) -> Estimate:
        """For each class, the share of the area of all others that is mapped as it."""
        rows, columns, both = self._indicators()
        return self.ratio(rows - both, 1 - columns)

    def shares(self) -> Estimate:
        """Share of the area that is of each class in the reference: the error-adjusted estimate."""
        return self.mean(self._indicators()[1])

    def areas(self) -> Estimate:
        """Area of each reference class, in the unit of `sizes`."""
        return self.shares().scaled(self.total)

    def matrix(self) -> Estimate:
        """Error matrix in shares of the area, (map, reference)."""
        k = self.classes
        return self.mean(np.eye(k * k).reshape(k, k, k, k))

    def _indicators(self) -> tuple[Floats, Floats, Floats]:
        """Of each class: its row, its column, its cell on the diagonal; all (class, map, reference)."""
        eye = np.eye(self.classes)
        k = self.classes
        rows = np.broadcast_to(eye[:, :, None], (k, k, k))
        columns = np.broadcast_to(eye[:, None, :], (k, k, k))
        return rows, columns, rows * columns


def simple_random_sample(counts: ArrayLike, size: float = 1.0) -> StratifiedSample:
    """A simple random sample of a map from its confusion matrix (map, reference) of numbers."""
    n = np.asarray(counts, np.float64)[np.newaxis]
    return StratifiedSample(SampleCells.of_counts(n), [size])


def stratified_by_map(counts: ArrayLike, sizes: ArrayLike) -> StratifiedSample:
    """A sample whose strata are the map's classes, from its confusion matrix and the mapped areas.

    For a simple random or systematic sample this is the poststratified estimator.
    """
    n = np.asarray(counts, np.float64)
    strata: NDArray[np.float64] = np.eye(n.shape[0])[:, :, np.newaxis] * n
    return StratifiedSample(SampleCells.of_counts(strata), sizes, by_map=True)


def ratio_limits(
    counts: Floats, possible: NDArray[np.bool_], sizes: Floats, level: float
) -> tuple[float, float]:
    """Limits of Σ_h W_h p_h / Σ_h W_h (p_h + q_h), from samples in the part, in its other side, and outside.

    They hold also where no error was seen. A stratum of n samples, x of them in the part, says of its share p
    what Clopper and Pearson (1934) make of it: the lower limits are quantiles of Beta(x, n−x+1), the upper
    ones of Beta(x+1, n−x). One more sample, unseen, stands behind each limit. In a weighted sum over strata
    one such sample is enough for all (Fay and Feuer 1997, Statistics in Medicine 16, 791-801). Nobody knows
    where it lies: it is put into each stratum in turn, and shared out over all by the weight W_h/n_h that one
    sample has; the least favourable of these is taken. The limits are quantiles of the sum, or of the ratio
    of two sums.

    ``counts`` (3, stratum) are samples in the part (share p), in the rest of the whole (q), and outside the
    whole; ``possible`` says whether a sample of the stratum can be there; ``sizes`` (stratum,) are W_h.
    """
    tail = (1 - level) / 2
    rng = stream(0, "limits of shares")
    seen = rng.standard_gamma(counts[:, np.newaxis, :], (3, DRAWS, counts.shape[1]))
    weight = sizes / counts.sum(axis=0)

    def ends(adverse: int, favourable: int, at: float, empty: float) -> list[float]:
        there = possible[adverse]
        instead = possible[favourable] & ~there & possible[_OUTSIDE]
        known = _with(seen, _OUTSIDE, rng.standard_gamma(_shared(weight, instead), seen.shape[1:]))
        shared = _with(known, adverse, rng.standard_gamma(_shared(weight, there), seen.shape[1:]))
        whole = _with(known, adverse, rng.standard_exponential(seen.shape[1:]))
        sums = [_areas(shared, sizes).sum(axis=-1), *_one_by_one(known, whole, there, sizes)]
        return [float(np.quantile(_ratio(pair, empty), at)) for pair in sums]

    return min(ends(_OTHER, _PART, tail, 0.0)), max(ends(_PART, _OTHER, 1 - tail, 1.0))


def _shared(weight: Floats, strata: NDArray[np.bool_]) -> Floats:
    """One sample shared out over some strata by weight; none where there are none."""
    part = np.where(strata, weight, 0.0)
    return np.asarray(part / part.sum() if strata.any() else part)


def _with(gamma: Floats, side: int, more: Floats) -> Floats:
    added = gamma.copy()
    added[side] += more
    return added


def _areas(gamma: Floats, sizes: Floats) -> Floats:
    """Area of the part and of its other side, (2, draw, stratum): Dirichlet shares times W_h."""
    return np.asarray(sizes * gamma[:_OUTSIDE] / np.maximum(gamma.sum(axis=0), np.finfo(np.float64).tiny))


def _one_by_one(known: Floats, whole: Floats, strata: NDArray[np.bool_], sizes: Floats) -> Iterator[Floats]:
    """Area of the part and of its other side, (2, draw), with the unseen sample in one stratum at a time."""
    before, after = _areas(known, sizes), _areas(whole, sizes)
    total = before.sum(axis=-1)
    for h in np.flatnonzero(strata):
        yield np.maximum(total - before[..., h] + after[..., h], 0.0)


def _ratio(areas: Floats, empty: float) -> Floats:
    part, other = areas
    return np.divide(part, part + other, out=np.full(part.shape, empty), where=part + other > 0)
