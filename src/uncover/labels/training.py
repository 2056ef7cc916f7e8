"""The training set: labelled pixels to learn from, those held out, and how far labels are alike."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uncover.labels.criteria import Labels, Mask

Allocation = Literal["proportional", "stratified"]

#: Fewest pairs of labelled pixels that say how alike labels are at a distance.
_FEWEST_PAIRS = 100
#: Most labels that are looked at for that.
_MOST_LABELS = 1 << 22
#: Most pixels whose distances are computed at a time.
_MOST_PIXELS = 1 << 24


@dataclass(frozen=True)
class Draw:
    """Size of the training set: a fraction of the labelled pixels or a count; none of the two takes all.

    `proportional` keeps the shares of the classes; `stratified` takes the same number of each class, as far
    as a class has so many.

    >>> Draw(fraction=0.1).size_of(190_000)
    19000
    """

    fraction: float | None = None
    count: int | None = None
    allocation: Allocation = "proportional"

    def __post_init__(self) -> None:
        if self.fraction is not None and self.count is not None:
            raise ValueError("both a fraction and a count of training pixels are given; give one of them")
        if self.fraction is not None and not 0 < self.fraction <= 1:
            raise ValueError(
                f"the fraction of training pixels is {self.fraction}; it is above 0 and at most 1"
            )
        if self.count is not None and self.count < 1:
            raise ValueError(f"the count of training pixels is {self.count}; it is at least 1")
        if self.allocation not in ("proportional", "stratified"):
            raise ValueError(f"the allocation is {self.allocation!r}; it is 'proportional' or 'stratified'")

    def size_of(self, available: int) -> int:
        """Number of pixels to draw out of `available`."""
        if self.count is not None:
            if self.count > available:
                raise ValueError(
                    f"{self.count} training pixels are wanted and {available} are labelled; ask for fewer"
                )
            return self.count
        return available if self.fraction is None else max(1, round(self.fraction * available))


def draw(labels: Labels, how: Draw, rng: np.random.Generator) -> Mask:
    """Mask of the drawn pixels among the labelled ones (label 0 is never drawn).

    Every labelled pixel gets a place in a queue and the first ones are taken, so that with the same random
    numbers a smaller draw is a part of a larger one.

    >>> labels = np.repeat(np.array([1, 2], np.uint8), [90, 10])
    >>> taken = draw(labels, Draw(fraction=0.2), np.random.default_rng(0))
    >>> np.bincount(labels[taken])
    array([ 0, 18,  2])
    """
    labelled: Mask = labels != 0
    if not labelled.any():
        raise ValueError("no pixel is labelled, so there is nothing to draw a training set from")
    if how.fraction is None and how.count is None:
        return labelled
    flat = labels.ravel()
    at = np.flatnonzero(flat)
    queue = np.argsort(_places(flat[at], how.allocation, rng), kind="stable")
    taken = np.zeros(flat.size, bool)
    taken[at[queue[: how.size_of(at.size)]]] = True
    return taken.reshape(labels.shape)


def split(labels: Labels, share: float, rng: np.random.Generator, groups: NDArray[Any] | None = None) -> Mask:
    """Mask of the labelled pixels that are held out for testing, about `share` of each class.

    Without `groups` pixels are split one by one. With groups (polygons, spatial blocks) whole groups go to
    one side, so that no test pixel has a neighbour of its own field among the training pixels.

    >>> labels = np.ones(8, np.uint8)
    >>> test = split(labels, 0.5, np.random.default_rng(0), groups=np.arange(8) // 2)
    >>> test.reshape(4, 2).all(axis=1).sum(), test.reshape(4, 2).any(axis=1).sum()
    (np.int64(2), np.int64(2))
    """
    if not 0 < share < 1:
        raise ValueError(f"the share of pixels held out is {share}; it lies between 0 and 1")
    at = np.flatnonzero(labels)
    if groups is None:
        test = draw(labels, Draw(fraction=share), rng)
    else:
        test = np.zeros(labels.size, bool)
        test[at] = _whole_groups(labels.ravel()[at], groups.ravel()[at], share, rng)
        test = test.reshape(labels.shape)
    held = int(test.sum())
    if held in (0, at.size):
        one = "pixel is" if groups is None else "group (polygon or block) is"
        raise ValueError(
            f"a share of {share} held out of {at.size} labelled pixels leaves one side empty: every {one} "
            f"too large a part of its class; label more, use smaller blocks, or split by pixel"
        )
    return test


def _places(codes: Labels, allocation: Allocation, rng: np.random.Generator) -> NDArray[np.float64]:
    """Place of each pixel in the queue: the j-th of a class is at (j + ½)/n by proportion, else at j.

    Taking the first ones by proportion is Webster's method of apportionment, which never takes a seat back
    when the house grows: that makes the draws nested.
    """
    places = np.empty(codes.size)
    for code in np.unique(codes):
        mine = codes == code
        n = int(mine.sum())
        j = rng.permutation(n)
        places[mine] = (j + 0.5) / n if allocation == "proportional" else j
    return places


def _whole_groups(codes: Labels, groups: NDArray[Any], share: float, rng: np.random.Generator) -> Mask:
    """Per class, whole groups in random order until their pixels come nearest to the share of the class."""
    names, member = np.unique(groups, return_inverse=True)
    member = member.ravel()
    sizes = np.bincount(member, minlength=names.size)
    main = main_class(codes, member)
    held = np.zeros(names.size, bool)
    for code in np.unique(main):
        mine = np.flatnonzero(main == code)
        mine = mine[rng.permutation(mine.size)]
        reached = np.concatenate([[0], np.cumsum(sizes[mine])])
        held[mine[: int(np.argmin(np.abs(reached - share * reached[-1])))]] = True
    return np.asarray(held[member])


def main_class(codes: NDArray[Any], groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """The class that most samples of each group have, by its place among those present: (group,)."""
    present, index = np.unique(codes, return_inverse=True)
    shape = int(groups.max()) + 1, present.size
    counts = np.bincount(groups * present.size + index.ravel(), minlength=shape[0] * shape[1])
    return np.asarray(counts.reshape(shape).argmax(axis=1))


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
    from scipy.ndimage import distance_transform_edt

    near = np.zeros_like(mask)
    margin, rows = int(distance / sides[0]) + 1, max(1, _MOST_PIXELS // mask.shape[1])
    for top in range(0, len(mask), rows):
        start = max(top - margin, 0)
        part = mask[start : top + rows + margin]
        if part.any():
            far: NDArray[Any] = distance_transform_edt(~part, sampling=sides)
            near[top : top + rows] = (far < distance)[top - start : top - start + rows]
    return near
