"""The training set: which labelled pixels to learn from, which to keep for testing. Arrays in, masks out."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uncover.labels.criteria import Labels, Mask

Allocation = Literal["proportional", "stratified"]


@dataclass(frozen=True)
class Draw:
    """How many labelled pixels to take: a fraction of them or a count; none of the two takes all.

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
    main = _main_class(codes, member, names.size)
    held = np.zeros(names.size, bool)
    for code in np.unique(main):
        mine = np.flatnonzero(main == code)
        mine = mine[rng.permutation(mine.size)]
        reached = np.concatenate([[0], np.cumsum(sizes[mine])])
        held[mine[: int(np.argmin(np.abs(reached - share * reached[-1])))]] = True
    return np.asarray(held[member])


def _main_class(codes: Labels, member: NDArray[np.intp], groups: int) -> NDArray[np.intp]:
    """The class that most pixels of each group have."""
    present, index = np.unique(codes, return_inverse=True)
    counts = np.bincount(member * present.size + index.ravel(), minlength=groups * present.size)
    return np.asarray(counts.reshape(groups, present.size).argmax(axis=1))
