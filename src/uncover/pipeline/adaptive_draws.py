"""Number of worlds of a map: blocks are added until results are stable (JCGM 101:2008, 7.9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from uncover.raster.errors import SceneError
from uncover.raster.mapper import Mapper
from uncover.warn import warn

Array = NDArray[np.float64]

#: Blocks at most; every so many of the clear pixels of windows spread over the scene are read.
MOST_BLOCKS, EVERY = 40, 7
#: Layers store steps of 1e-4. Shares of area are known to the second digit where worlds are read together.
_FINEST, _TOGETHER = 5e-5, 5e-3


@dataclass(frozen=True)
class AdaptiveDraws:
    """Results of blocks of worlds, each of them drawn by itself: shares of area, and the measurement part.

    The quantities are the expected share of area of each class, its standard uncertainty over the worlds
    (where they are read one by one), and the mean measurement part. Of each the mean over the blocks is
    known to half the width of its 95 % interval, t·s/√h; it is stable where that is at most half a unit of
    the last of `digits` significant digits of the standard uncertainty (of the measurement part itself).

    >>> few = AdaptiveDraws(1, 25).add(np.array([0.6, 0.4]), np.array([0.021, 0.021]), 0.031)
    >>> few.stable
    False
    >>> more = few.add(np.array([0.6, 0.4]), np.array([0.022, 0.022]), 0.031)
    >>> more.tolerances()
    array([0.005, 0.005, 0.005, 0.005, 0.005])
    >>> more.errors().round(4), more.stable
    (array([0.    , 0.    , 0.0064, 0.0064, 0.    ]), False)
    """

    digits: int
    worlds: int  # of a block
    blocks: tuple[Array, ...] = field(default=(), repr=False)

    def add(self, shares: Array, spread: Array, measurement: float) -> AdaptiveDraws:
        """With one more block: (class,) each, and a number."""
        found = np.concatenate([shares, spread, [measurement]])
        return AdaptiveDraws(self.digits, self.worlds, (*self.blocks, found))

    @property
    def means(self) -> Array:
        """Of the quantities over the blocks."""
        return np.asarray(np.mean(self.blocks, axis=0))

    def errors(self) -> Array:
        """Half the width of the 95 % interval of each mean."""
        h = len(self.blocks)
        return np.asarray(stdtrit(h - 1, 0.975) * np.std(self.blocks, axis=0, ddof=1) / np.sqrt(h))

    def tolerances(self) -> Array:
        """Half a unit of the last digit that is asked for."""
        shares, spread, part = np.split(self.means, [len(self.means) // 2, len(self.means) - 1])
        of_spread = np.where(
            np.isnan(spread), _TOGETHER * 10.0 ** (1 - self.digits), self._half_digit(spread)
        )
        return np.concatenate([of_spread[: len(shares)], of_spread, self._half_digit(part)])

    def _half_digit(self, values: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            last = np.floor(np.log10(np.abs(values))) - (self.digits - 1)
        return np.asarray(np.maximum(0.5 * 10.0 ** np.nan_to_num(last, nan=-9.0, neginf=-9.0), _FINEST))

    @property
    def stable(self) -> bool:
        """True where all quantities have the digits that are asked for."""
        return len(self.blocks) > 1 and bool(np.nanmax(self.errors() / self.tolerances()) <= 1.0)

    def facts(self, classes: list[str]) -> dict[str, Any]:
        """The record: what was asked for, and the errors after each block."""
        steps = [
            AdaptiveDraws(self.digits, self.worlds, self.blocks[:h]) for h in range(2, len(self.blocks) + 1)
        ]
        history = [
            {
                "worlds": self.worlds * len(step.blocks),
                "mean_measurement": _short(step.means[-1]),
                "error": _short(step.errors()[-1]),
                "worst_error_over_tolerance": _short(np.nanmax(step.errors() / step.tolerances())),
            }
            for step in steps
        ]
        numbers = zip(self.means, self.errors(), self.tolerances(), strict=True)
        names = [f"share of {name}" for name in classes]
        names += [f"standard uncertainty of the share of {name}" for name in classes] + [
            "mean measurement part"
        ]
        return {
            "digits": self.digits,
            "worlds_of_a_block": self.worlds,
            "blocks": len(self.blocks),
            "stable": self.stable,
            "quantities": {
                name: {"mean": _short(mean), "error": _short(error), "tolerance": _short(tolerance)}
                for name, (mean, error, tolerance) in zip(names, numbers, strict=True)
                if not np.isnan(mean)
            },
            "history": history,
        }


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def settle_draws(make: Callable[[tuple[int, ...]], Mapper], digits: int, worlds: int) -> AdaptiveDraws:
    """Read sampled pixels of a scene in one block of worlds after the other, until results are stable.

    `make` gives the mapper of some blocks, by their numbers.
    """
    found = AdaptiveDraws(digits, worlds)
    while not found.stable and len(found.blocks) < MOST_BLOCKS:
        found = found.add(*_block(make((len(found.blocks),))))
    if not found.stable:
        worst = float(np.nanmax(found.errors() / found.tolerances()))
        warn(
            f"{worlds * MOST_BLOCKS} worlds are not enough for --draws auto:{digits}: the worst error is "
            f"{worst:.1f} times what the digit allows; the map has these worlds, and the report says how far "
            "its numbers are known"
        )
    return found


def _block(mapper: Mapper) -> tuple[Array, Array, float]:
    """Expected shares of area, their spread over the worlds, and the mean measurement part, of one block."""
    shares, part, pixels = np.zeros(mapper.product.classes), 0.0, 0
    counts: Array | None = None
    for _, some, features in mapper._samples(EVERY):
        summary = mapper._summarise(some, features)
        shares += summary.probability.sum(axis=1)
        part += float(summary.measurement.sum())
        pixels += summary.probability.shape[1]
        if len(summary.world_classes) > 1:
            each = [np.bincount(one, minlength=len(shares)) for one in summary.world_classes]
            here = np.array(each, float)
            counts = here if counts is None else counts + here
    if not pixels:
        raise SceneError("no clear pixel to settle the number of worlds with; give --draws a number")
    spread = np.full(len(shares), np.nan) if counts is None else np.std(counts / pixels, axis=0, ddof=1)
    return shares / pixels, spread, part / pixels
