"""How far labels are alike, and which lie near others. Arrays in, masks and metres out."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt

from uncover.labels.criteria import Labels, Mask

#: Fewest pairs of labelled pixels that say how alike labels are at a distance.
_FEWEST_PAIRS = 100
#: Most labels that are looked at for that.
_MOST_LABELS = 1 << 22
#: Most pixels whose distances are computed at a time.
_MOST_PIXELS = 1 << 24


def autocorrelation_length(labels: Labels, sides: tuple[float, float]) -> float:
    """Distance at which the correlation of labels (row, col) falls to 1/e, in the unit of a pixel's sides.

    The correlation at a distance is (P − Σp²)/(1 − Σp²), with P the share of pairs of labelled pixels so far
    apart, along rows or columns, that have the same label, and p the shares of the classes; between
    distances it is interpolated. 0 where labels are of one class, or where pairs are too few. Where
    it never falls so far, the largest distance that was looked at.

    >>> fields = np.random.default_rng(0).integers(1, 5, (40, 40)).repeat(10, 0).repeat(10, 1)
    >>> round(autocorrelation_length(fields.astype(np.uint8), (10.0, 10.0)))  # of 100 m: 1 − h/100 m
    64
    """
    shares = np.bincount(labels[labels > 0], minlength=2) / max(int((labels > 0).sum()), 1)
    chance = float((shares**2).sum())
    if not 0 < chance < 1:
        return 0.0
    before, known = (0.0, 1.0), False
    for lag in _lags(max(labels.shape) // 2):
        alike, pairs = np.zeros(2), np.zeros(2)
        for axis in (0, 1):
            alike[axis], pairs[axis] = _pairs_alike(labels, lag, axis)
        if pairs.sum() < _FEWEST_PAIRS:
            continue
        known = True
        distance = lag * float(pairs @ np.array(sides)) / float(pairs.sum())
        correlation = (float(alike.sum() / pairs.sum()) - chance) / (1 - chance)
        if correlation <= 1 / np.e:
            part = (before[1] - 1 / np.e) / (before[1] - correlation)
            return before[0] + part * (distance - before[0])
        before = distance, correlation
    return before[0] if known else 0.0


def _lags(largest: int) -> NDArray[np.intp]:
    """Distances in pixels, about a quarter further each time."""
    steps = np.arange(0, np.log(max(largest, 1)) / np.log(1.25) + 1)
    return np.unique(np.round(1.25**steps)).astype(np.intp)


def _pairs_alike(labels: Labels, lag: int, axis: int) -> tuple[int, int]:
    """Pairs of labelled pixels at a lag along an axis: with the same label, and all."""
    if lag >= labels.shape[axis]:
        return 0, 0
    turned = labels if axis == 0 else labels.T
    turned = turned[:, :: -(-labels.size // _MOST_LABELS)]  # fewer lines of a large raster say the same
    one, other = turned[lag:], turned[:-lag]
    both = (one > 0) & (other > 0)
    return int((both & (one == other)).sum()), int(both.sum())


def within(mask: Mask, distance: float, sides: tuple[float, float]) -> Mask:
    """Pixels nearer than a distance to one of a mask (row, col), from centre to centre; those of it too.

    >>> within(np.array([[True, False, False, False]]), 15.0, (10.0, 10.0))
    array([[ True,  True, False, False]])
    """
    if not mask.any() or distance <= 0:
        return mask.copy()
    near = np.zeros_like(mask)
    margin, rows = int(distance / sides[0]) + 1, max(1, _MOST_PIXELS // mask.shape[1])
    for top in range(0, len(mask), rows):
        start = max(top - margin, 0)
        part = mask[start : top + rows + margin]
        if part.any():
            far: NDArray[Any] = distance_transform_edt(~part, sampling=sides)
            near[top : top + rows] = (far < distance)[top - start : top - start + rows]
    return near
