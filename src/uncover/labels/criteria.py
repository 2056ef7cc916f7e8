"""Criteria for pixels of old land cover maps to serve as labels; labels are uint8, 0 is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.labels.scheme import Scheme

Labels = NDArray[np.uint8]
Mask = NDArray[np.bool_]


def stable(years: Sequence[Labels]) -> Mask:
    """Pixels that carry one and the same label in every year.

    >>> stable([np.array([1, 1, 0], np.uint8), np.array([1, 2, 0], np.uint8)])
    array([ True, False, False])
    """
    first = years[0]
    kept: Mask = first != 0
    for other in years[1:]:
        kept &= other == first
    return kept


def confident(probabilities: Sequence[NDArray[Any]], threshold: float = 0.95, scale: float = 1.0) -> Mask:
    """Pixels whose probability is above the threshold in every year; `scale` is the value of certainty.

    The threshold is compared in the units of the map, so that 95 of 100 is exactly 95 % and not above it.

    >>> confident([np.array([96, 95, 0], np.uint8)], threshold=0.95, scale=100)
    array([ True, False, False])
    """
    kept = np.ones(probabilities[0].shape, bool)
    least = round(threshold * scale, 9)  # 0.58 · 100 is not 58 in floating point
    for values in probabilities:
        kept &= values > least  # NaN is above nothing
    return kept


def purity(labels: Labels, window: int) -> NDArray[np.float32]:
    """Share of the `window` × `window` pixels around each pixel that have its label (those inside the array).

    >>> purity(np.array([[1, 1, 2]], np.uint8), window=3)
    array([[1. , 0.6666667, 0.5 ]], dtype=float32)
    """
    _check_window(window)
    share = np.zeros(labels.shape, np.float32)
    inside = _box_sums(np.ones(labels.shape, bool), window)
    for code in np.unique(labels[labels != 0]):
        same = labels == code
        share[same] = _box_sums(same, window)[same] / inside[same]
    return share


def interior(regions: NDArray[Any], pixels: int) -> Mask:
    """Pixels farther than `pixels` from any other value of `regions`, along rows, columns and diagonals.

    The border of the array is no edge: what lies behind it is unknown, not different.

    >>> interior(np.array([[1, 1, 1, 2, 2]], np.uint8), pixels=1)
    array([[ True,  True, False, False,  True]])
    """
    _check_erosion(pixels)
    if pixels == 0:
        return np.ones(regions.shape, bool)
    size = 2 * pixels + 1
    from scipy import ndimage

    lowest = ndimage.minimum_filter(regions, size=size, mode="nearest")
    highest = ndimage.maximum_filter(regions, size=size, mode="nearest")
    return np.asarray(lowest == highest)


def spaced(
    y: NDArray[Any],
    x: NDArray[Any],
    distance: float,
    rng: np.random.Generator,
) -> Mask:
    """Subset of different points, every two at least `distance` apart, to which none can be added.

    In rounds: each point draws a rank once; in every cell of a grid the best rank is a candidate, a candidate
    that beats all candidates nearer than `distance` stays, and every point too near to one that stays goes.

    >>> x = np.arange(10)
    >>> kept = spaced(np.zeros(10), x, 3, np.random.default_rng(0))
    >>> bool(np.diff(x[kept]).min() >= 3)
    True
    """
    if not distance >= 0:
        raise ValueError(f"the distance between samples is {distance}; it cannot be negative")
    kept = np.zeros(y.size, bool)
    if y.size == 0 or distance <= min(_smallest_gap(y), _smallest_gap(x)):
        kept[:] = True
        return kept
    thinning = _Thinning(y.astype(np.float64), x.astype(np.float64), distance, rng.permutation(y.size))
    waiting = np.arange(y.size)
    while waiting.size:
        stay, waiting = thinning.round(waiting)
        kept[stay] = True
    return kept


class _Thinning:
    """Points sorted into cells so small that each can keep one only, so that neighbours are found by cell."""

    def __init__(
        self, y: NDArray[np.float64], x: NDArray[np.float64], distance: float, rank: NDArray[np.int64]
    ) -> None:
        self.y, self.x, self.rank = y, x, rank
        self.distance = distance
        side = distance / np.sqrt(2.0) * (1 - 1e-9)  # two points of one cell are too near, rounding or not
        reach = 2  # cells: distance is √2 sides, so a neighbour is at most two cells away
        row = ((y - y.min()) / side).astype(np.int64) + reach
        column = ((x - x.min()) / side).astype(np.int64) + reach
        width = int(column.max()) + reach + 1
        places, index = np.unique(row * width + column, return_inverse=True)
        steps = range(-reach, reach + 1)
        self.cell = index.ravel()
        self.occupied = np.full(places.size + 1, -1, np.int64)  # the last is for cells without points
        self.around = [_place_of(places, places + i * width + j) for i in steps for j in steps]

    def round(self, waiting: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The pixels that stay by this round, and those that still wait after it."""
        candidates = self._best_of_cells(waiting)
        self.occupied[self.cell[candidates]] = candidates
        beaten = self._has_near(candidates, better=True)
        self.occupied[self.cell[candidates[beaten]]] = -1
        stay = candidates[~beaten]
        left = waiting[~self._has_near(waiting, better=False)]
        self.occupied[self.cell[stay]] = -1
        return stay, left

    def _best_of_cells(self, waiting: NDArray[np.int64]) -> NDArray[np.int64]:
        order = np.argsort(self.rank[waiting])
        _, first = np.unique(self.cell[waiting][order], return_index=True)
        return np.asarray(waiting[order][first])

    def _has_near(self, pixels: NDArray[np.int64], *, better: bool) -> Mask:
        """True where the occupied cells around a pixel hold one (of better rank) within the distance."""
        found = np.zeros(pixels.size, bool)
        for neighbour in self.around:
            other = self.occupied[neighbour[self.cell[pixels]]]
            dy, dx = self.y[pixels] - self.y[other], self.x[pixels] - self.x[other]
            near = (other >= 0) & (np.sqrt(dy * dy + dx * dx) < self.distance)
            found |= near & (self.rank[other] < self.rank[pixels]) if better else near
        return found


def _smallest_gap(values: NDArray[Any]) -> float:
    return float(np.diff(np.unique(values).astype(np.float64)).min(initial=np.inf))


def _place_of(places: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.intp]:
    """Index of each wanted number among sorted ones; one past the end where it is not there."""
    at = np.searchsorted(places, wanted)
    found = at < places.size
    found[found] = places[at[found]] == wanted[found]
    return np.where(found, at, places.size)


def _box_sums(mask: Mask, window: int) -> NDArray[np.uint32]:
    """Sums of a mask over squares of `window` pixels, of which those outside the array are 0."""
    from scipy import ndimage

    sums = mask.astype(np.uint32)
    for axis in (0, 1):
        ndimage.convolve1d(sums, np.ones(window), axis, sums, mode="constant")
    return sums


def _check_window(window: int) -> None:
    if window < 1 or window % 2 == 0:
        raise ValueError(
            f"the purity window is {window} pixels wide; it needs an odd number, so that it has a centre"
        )


def _check_erosion(pixels: int) -> None:
    if pixels < 0:
        raise ValueError(f"erosion is {pixels} pixels; it is a whole number from 0 (none)")


_CODES = 256


@dataclass(frozen=True)
class Criteria:
    """Criteria that a pixel must meet to serve as a label; `purity` and `erosion` are off by default.

    >>> Criteria(purity=0.9, window=5, erosion=1).margin
    2
    """

    threshold: float = 0.95  # each year's probability must be above it
    purity: float | None = None  # least share of the window with the same label
    window: int = 3  # pixels, odd
    erosion: int = 0  # pixels taken off at the edges of parcels

    def __post_init__(self) -> None:
        for name, value in (("threshold", self.threshold), ("purity", self.purity)):
            if value is not None and not 0 <= value <= 1:
                raise ValueError(f"{name} is {value}; it is a share from 0 to 1 (95 % is 0.95)")
        _check_window(self.window)
        _check_erosion(self.erosion)

    @property
    def margin(self) -> int:
        """Number of pixels around a block on which its result depends."""
        return max(self.window // 2 if self.purity is not None else 0, self.erosion)


@dataclass(frozen=True)
class Report:
    """Pixels of each class at the start and after each criterion; reports of disjoint blocks add up with `+`.

    A pixel is counted under the class of the last year given. Criteria act in the order of `steps`, so a
    pixel that fails several is counted for the first of them.

    >>> one = Report.start(np.array([1, 1, 2], np.uint8)).then("stability", np.array([1, 0, 2], np.uint8))
    >>> int(one.removed("stability")[1]), int((one + one).removed("stability")[1])
    (1, 2)
    """

    steps: tuple[str, ...]
    left: NDArray[np.int64]  # (step + 1, code): what is there before the first step, and after each

    @classmethod
    def start(cls, labels: Labels) -> Report:
        """Report before any criterion."""
        return cls((), _count(labels)[np.newaxis])

    def then(self, step: str, labels: Labels) -> Report:
        """Report with one criterion more, after which `labels` are left."""
        return Report((*self.steps, step), np.vstack([self.left, _count(labels)]))

    def __add__(self, other: Report) -> Report:
        if self.steps != other.steps:
            raise ValueError(f"reports of different criteria do not add up: {self.steps} and {other.steps}")
        return Report(self.steps, self.left + other.left)

    @property
    def kept(self) -> NDArray[np.int64]:
        """Pixels left in the end, indexed by code."""
        return np.asarray(self.left[-1])

    def removed(self, step: str) -> NDArray[np.int64]:
        """Pixels that one criterion took away, indexed by code."""
        at = self.steps.index(step)
        return np.asarray(self.left[at] - self.left[at + 1])

    def as_dict(self, scheme: Scheme) -> dict[str, dict[str, int]]:
        """Counts by class name: `found`, each criterion, `kept`."""
        present = [c for c in scheme.classes if self.left[0, c.code]]
        return {
            c.name: {"found": int(self.left[0, c.code])}
            | {step: int(self.removed(step)[c.code]) for step in self.steps}
            | {"kept": int(self.kept[c.code])}
            for c in present
        }

    def table(self, scheme: Scheme) -> str:
        """The report as lines of text, one per class, with a last line for all."""
        rows = self.as_dict(scheme)
        heads = ["found", *(f"-{step}" for step in self.steps), "kept"]
        everything = [sum(column) for column in zip(*(row.values() for row in rows.values()), strict=True)]
        lines = [(name, list(row.values())) for name, row in rows.items()]
        lines.append(("all classes", everything or [0] * len(heads)))
        wide = max(len(name) for name, _ in lines)
        text = [" " * wide + "".join(f"{head:>12}" for head in heads)]
        text += [name.ljust(wide) + "".join(f"{value:>12,}" for value in values) for name, values in lines]
        return "\n".join(text)


@dataclass(frozen=True)
class Screened:
    """The labels that passed (0 elsewhere), and the report of what did not."""

    labels: Labels
    report: Report


def screen(
    years: Sequence[Labels],
    probabilities: Sequence[NDArray[Any]] = (),
    criteria: Criteria | None = None,
    *,
    scales: Sequence[float] = (),
    regions: NDArray[Any] | None = None,
    core: tuple[slice, slice] = (slice(None), slice(None)),
) -> Screened:
    """Labels that meet the criteria in every year, from translated maps of the same pixels, oldest first.

    `probabilities` go with the maps one by one, in units of `scales` (100 for percent); `regions` are parcels
    whose edges count besides those between classes; only the pixels of `core` are answered and counted, the
    others are the margin that windows and erosion look into.

    >>> maps = [np.array([[1, 1, 2]], np.uint8), np.array([[1, 2, 2]], np.uint8)]
    >>> sure = [np.array([[0.99, 0.99, 0.6]]), np.array([[0.99, 0.99, 0.99]])]
    >>> passed = screen(maps, sure)
    >>> passed.labels
    array([[1, 0, 0]], dtype=uint8)
    >>> int(passed.report.removed("quality")[2])
    1
    """
    criteria = criteria or Criteria()
    _check_shapes(years, probabilities, scales)
    last = years[-1][core]
    labels, report = last, Report.start(last)
    for step, mask in _masks(years, probabilities, criteria, scales or [1.0] * len(probabilities), regions):
        labels = np.where(mask[core], labels, np.uint8(0))
        report = report.then(step, labels)
    return Screened(labels, report)


def _masks(
    years: Sequence[Labels],
    probabilities: Sequence[NDArray[Any]],
    criteria: Criteria,
    scales: Sequence[float],
    regions: NDArray[Any] | None,
) -> list[tuple[str, Mask]]:
    masks: list[tuple[str, Mask]] = [("stability", stable(years))]
    if probabilities:
        sure = (confident([p], criteria.threshold, s) for p, s in zip(probabilities, scales, strict=True))
        masks.append(("quality", reduce(and_, sure)))
    if criteria.purity is not None:
        least = criteria.purity
        masks.append(("purity", reduce(and_, (purity(y, criteria.window) >= least for y in years))))
    if criteria.erosion:
        layers: list[NDArray[Any]] = [*years, *([] if regions is None else [regions])]
        masks.append(("erosion", reduce(and_, (interior(layer, criteria.erosion) for layer in layers))))
    return masks


def _check_shapes(
    years: Sequence[Labels], probabilities: Sequence[NDArray[Any]], scales: Sequence[float]
) -> None:
    if not years:
        raise ValueError("there is no label map; at least one is needed")
    if probabilities and len(probabilities) != len(years):
        raise ValueError(
            f"there are {len(years)} label maps and {len(probabilities)} probability layers; "
            "give one probability layer per map, in the same order, or none"
        )
    if scales and len(scales) != len(probabilities):
        raise ValueError(
            f"there are {len(probabilities)} probability layers and {len(scales)} scales for them"
        )
    shapes = {layer.shape for layer in (*years, *probabilities)}
    if len(shapes) > 1:
        raise ValueError(
            f"the layers have different shapes, {sorted(shapes)}; bring them onto one grid first"
        )


def _count(labels: Labels) -> NDArray[np.int64]:
    counts = np.bincount(labels.ravel(), minlength=_CODES)
    counts[0] = 0  # no label is no class
    return counts
