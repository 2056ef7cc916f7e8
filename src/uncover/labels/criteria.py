"""Which pixels of old land cover maps to trust as labels: a mask per criterion. Labels: uint8, 0 is none."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

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
    if pixels < 0:
        raise ValueError(f"erosion is {pixels} pixels; it is a whole number from 0 (none)")
    if pixels == 0:
        return np.ones(regions.shape, bool)
    size = 2 * pixels + 1
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
    rows, columns = mask.shape
    padded = np.pad(mask, window // 2)
    along = np.zeros((rows, padded.shape[1]), np.uint32)
    for i in range(window):
        along += padded[i : i + rows]
    sums = np.zeros(mask.shape, np.uint32)
    for j in range(window):
        sums += along[:, j : j + columns]
    return sums


def _check_window(window: int) -> None:
    if window < 1 or window % 2 == 0:
        raise ValueError(
            f"the purity window is {window} pixels wide; it needs an odd number, so that it has a centre"
        )
