"""The criteria applied together, and the count of what each one removed. Arrays in, arrays out."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.labels.criteria import Labels, Mask, confident, interior, purity, stable
from uncover.labels.scheme import Scheme

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
        if self.window < 1 or self.window % 2 == 0:
            raise ValueError(
                f"window is {self.window} pixels; it needs an odd number, so that it has a centre"
            )
        if self.erosion < 0:
            raise ValueError(f"erosion is {self.erosion} pixels; it is a whole number from 0 (none)")

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
    def start(cls, labels: Labels) -> "Report":
        """Report before any criterion."""
        return cls((), _count(labels)[np.newaxis])

    def then(self, step: str, labels: Labels) -> "Report":
        """Report with one criterion more, after which `labels` are left."""
        return Report((*self.steps, step), np.vstack([self.left, _count(labels)]))

    def __add__(self, other: "Report") -> "Report":
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
    """The labels that passed (0 elsewhere), and the report of what did not.

    >>> passed = screen([np.array([[1, 2]], np.uint8), np.array([[1, 1]], np.uint8)])
    >>> passed.labels.tolist(), passed.report.steps
    ([[1, 0]], ('stability',))
    """

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
