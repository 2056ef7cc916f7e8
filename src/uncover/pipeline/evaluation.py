"""What an evaluation is asked for, sums up and finds; values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.metrics.calibration import Reliability
from uncover.metrics.estimation import SampleCells
from uncover.metrics.scores import ScoreSums
from uncover.pipeline.sampling_design import DesignName

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EvaluateOptions:
    """What the reference is, and how the evaluation is made.

    class_field, stratum_field, scheme
        For vector files: the fields with the class and the stratum. `scheme` translates the classes.
    design
        How the sample was drawn: "random", "stratified" (strata are the map's classes, or those of the
        stratum field), or "poststratified" (drawn at random, estimated by the map's classes). None: nothing
        is assumed, and no areas are estimated.
    stratum_areas
        A CSV table with the columns stratum and area_ha (or area_m2, area_km2, pixels).
    level, bins, draws, seed
        Confidence level; bins of the reliability curves; bootstrap draws and their seed.
    block
        Side in metres of the blocks of a reference raster that are resampled as a whole.
    training, buffer
        Labels that the model was trained on, a raster or a vector file with the same class field: reference
        samples nearer than `buffer` metres to one are left out; by default as far as the map's classes are
        alike, at most half a block.

    >>> EvaluateOptions(design="random").level
    0.95
    """

    class_field: str | None = None
    stratum_field: str | None = None
    scheme: str | None = None
    design: DesignName | None = None
    stratum_areas: str | Path | None = None
    level: float = 0.95
    bins: int = 10
    draws: int = 1000
    seed: int = 0
    block: float = 1000.0
    training: str | Path | None = None
    buffer: float | None = None

    def __post_init__(self) -> None:
        if self.buffer is not None and self.training is None:
            raise ValueError("--buffer is a distance from training labels: give them with --training")
        if self.buffer is not None and not self.buffer >= 0:
            raise ValueError(f"--buffer is {self.buffer:g} m; give 0 or more")
        if not 0 < self.level < 1:
            raise ValueError(f"the confidence level is {self.level}; it lies between 0 and 1")
        if self.bins < 2 or self.draws < 20:
            raise ValueError(f"{self.bins} bins and {self.draws} draws are too few; use 2 and 20 at least")
        if self.block <= 0:
            raise ValueError(f"blocks of {self.block} m are empty; give a positive length")


@dataclass(frozen=True)
class Tally:
    """Sums over the map and over the samples that were met so far."""

    pixels: Floats  # (class,) of the map's clear land
    areas: Floats  # (class,) of it, m²
    nodata: int  # samples where the map has no class
    scores: ScoreSums  # (group, ...)
    reliability: Reliability  # (group, ...)
    cells: SampleCells  # (stratum, ...)
    #: (group, class, 2), weight of samples in whose set their class is, and of all
    covered: Floats | None = None
    near: int = 0  # samples next to training labels
    buffer: float = 0.0  # metres that are next to them
    flagged: int = 0  # samples where the map is flagged as cloud, shadow, snow or saturated
    flagged_area: float = 0.0  # m² that have a class and such a flag

    @property
    def taken(self) -> Floats:
        """Samples of each stratum."""
        return np.asarray(self.cells.count.sum(axis=(1, 2)))

    @property
    def samples(self) -> int:
        """Samples where the map has a class."""
        return int(self.cells.count.sum())

    def with_map(self, pixels: Floats, areas: Floats) -> Tally:
        """More of the map."""
        return replace(self, pixels=self.pixels + pixels, areas=self.areas + areas)

    def with_nodata(self, samples: int) -> Tally:
        """More samples without a class."""
        return replace(self, nodata=self.nodata + samples)

    def with_near(self, samples: int) -> Tally:
        """More samples next to training labels."""
        return replace(self, near=self.near + samples)

    def with_flagged(self, samples: int, area: float) -> Tally:
        """More samples and land under a flag."""
        return replace(self, flagged=self.flagged + samples, flagged_area=self.flagged_area + area)

    def with_covered(self, covered: Floats) -> Tally:
        """More samples of a map with sets of classes."""
        return replace(self, covered=covered if self.covered is None else self.covered + covered)

    def with_samples(self, scores: ScoreSums, reliability: Reliability, cells: SampleCells) -> Tally:
        """More samples."""
        return replace(
            self,
            scores=self.scores + scores,
            reliability=self.reliability + reliability,
            cells=self.cells + cells,
        )


@dataclass(frozen=True)
class Result:
    """A number with its interval, and its standard error where it has one.

    >>> Result(0.9, 0.85, 0.94).lower
    0.85
    """

    value: float
    lower: float
    upper: float
    error: float = float("nan")


@dataclass(frozen=True)
class Evaluation:
    """All that was found out about a map; `write` makes files of it, `summary` a page to read.

    measures
        Overall, user's and producer's accuracy and the rates, by (name, class); where the map has sets of
        classes, how many samples of each class have it in their set.
    areas
        Estimated areas in m² by class; empty where the reference is no probability sample.
    curves
        Reliability curves: curve 0 is the class decided for, then the classes.
    """

    classes: tuple[str, ...]
    facts: Mapping[str, Any]
    scores: Mapping[str, Result]
    shares: Floats
    zeros: int
    floor: float
    calibration: Mapping[str, Result]
    measures: Mapping[tuple[str, str], tuple[Result, int]]
    pixels: Floats
    mapped: Floats
    areas: Mapping[str, Result]
    curves: Reliability
    curve_interval: tuple[Floats, Floats]
    counts: Floats  # (map, reference)
    area_shares: Floats | None  # (map, reference)
    warnings: tuple[str, ...]

    def write(self, folder: str | Path) -> None:
        """Write evaluation.json and the tables as CSV into a folder."""
        from uncover.pipeline.evaluation_files import write_evaluation

        write_evaluation(self, folder)

    def summary(self) -> str:
        """The results as text."""
        from uncover.pipeline.evaluation_files import summarise

        return summarise(self)
