"""Labels from earlier land cover maps or polygons: translated, screened, thinned, split, written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.streams import stream
from uncover.labels import Criteria, Report, Scheme, Screened, screen, spaced, split, within
from uncover.pipeline.ground import (
    TOLERANCE,
    Squares,
    default_buffer,
    distance,
    pixel_metres,
    steady_pixel_metres,
)
from uncover.pipeline.label_sources import (
    NUMBERED,
    Certainty,
    ClassChoice,
    LabelsOnGrid,
    LabelSource,
    RasterLabels,
    open_labels,
    write_labels,
)
from uncover.raster.align import RasterBand
from uncover.raster.area import Area, Part
from uncover.raster.cluster import computed
from uncover.raster.errors import SceneError
from uncover.raster.fingerprints import unchanged
from uncover.raster.grid import Grid, Progress, Window
from uncover.raster.tiles import TileCache

SplitBy = Literal["pixel", "polygon", "block"]

_BLOCK = 1024


@dataclass(frozen=True)
class HoldOut:
    """The share of labels kept for testing, and what stays together: pixels, polygons or square blocks.

    Training labels nearer than `buffer` metres to a test label are left out. By default that is, for blocks,
    the autocorrelation length of the labels, but at most half a block.
    """

    share: float = 0.2
    by: SplitBy = "block"
    block: float = 1000.0  # side of a block in metres
    buffer: float | None = None

    def __post_init__(self) -> None:
        if self.buffer is not None and not self.buffer >= 0:
            raise ValueError(f"the buffer is {self.buffer:g} m; it is 0 or more")
        if not 0 < self.share < 1:
            raise ValueError(f"the share held out for testing is {self.share}; it lies between 0 and 1")
        if self.by not in ("pixel", "polygon", "block"):
            raise ValueError(f"labels are split by pixel, polygon or block, not by {self.by!r}")


@dataclass(frozen=True)
class LabelOptions:
    """Options of the collection of labels; the defaults are those of the published study.

    scheme
        A translation table or a class scheme: shipped, by its name; your own, by the path of its TOML file.
    class_field
        For vector files and points: the field that holds the class.
    ignore, classes
        Values that are no label; (value, name) of those that are, others then being none.
    criteria
        Quality threshold, purity, erosion.
    pixel_purity
        Share of a pixel that its label covers at least, where a map is finer than the grid; the label of most
        of a pixel counts.
    probability_scale
        The value that means certainty in the probability layers. None: 100 for whole numbers, 1 for others.
    spacing
        Smallest distance between two labels in metres; 0 keeps all.
    like
        A raster or scene whose grid the labels take; the first map's own otherwise.
    area
        Bounding box or polygons that the labels are cut to.
    scheduler
        Address of a dask.distributed scheduler whose workers read the maps; they see the same files.
    seed
        Decides which pixels the spacing and the split take.
    """

    scheme: str | None = None
    ignore: tuple[str, ...] = ()
    classes: tuple[tuple[str, str], ...] = ()
    class_field: str | None = None
    criteria: Criteria = field(default_factory=Criteria)
    pixel_purity: float = 0.0
    probability_scale: float | None = None
    spacing: float = 0.0
    like: Grid | None = None
    area: Area = field(default_factory=Area)
    seed: int = 0
    scheduler: str | None = None


@dataclass(frozen=True)
class Labels:
    """Labels on a grid: what passed the criteria, what the codes mean, what was removed."""

    codes: NDArray[np.uint8]  # (row, col), 0 is no label
    grid: Grid
    scheme: Scheme
    report: Report
    regions: NDArray[np.int32] | None = None  # (row, col), polygons of the last map

    def with_codes(self, codes: NDArray[np.uint8]) -> Labels:
        """The same labels, fewer of them."""
        return Labels(codes, self.grid, self.scheme, self.report, self.regions)

    def write(self, path: str | Path) -> None:
        """Write a Cloud-Optimised GeoTIFF, whole or not at all."""
        write_labels(path, self.codes, self.grid, self.scheme)


def collect_labels(
    maps: Sequence[str | Path],
    probabilities: Sequence[str | Path] = (),
    options: LabelOptions | None = None,
    progress: Progress | None = None,
) -> Labels:
    """Labels that all maps agree on and are sure of; maps of several years, oldest first.

    Maps are rasters (`FILE` or `FILE:BAND`) or vector files; `probabilities` go with them one by one. Reading
    is block by block: memory holds one byte per pixel of the result and a few blocks.

    >>> import tempfile
    >>> from uncover.labels import load_scheme
    >>> grid = Grid("EPSG:32630", (10, 0, 500000, 0, -10, 5700000), width=3, height=1)
    >>> maps = [f"{tempfile.mkdtemp()}/lcm{year}.tif" for year in (2019, 2020)]
    >>> write_labels(maps[0], np.array([[1, 3, 4]], np.uint8), grid, load_scheme("ukceh"))
    >>> write_labels(maps[1], np.array([[2, 3, 3]], np.uint8), grid, load_scheme("ukceh"))
    >>> collect_labels(maps, options=LabelOptions(scheme="ukceh-lulucf")).codes
    array([[1, 2, 0]], dtype=uint8)
    """
    options = options or LabelOptions()
    with unchanged(*maps, *probabilities, options.scheme, options.area.aoi) as check:
        found = _collected(maps, probabilities, options, progress)
        check()
    return found


def _collected(
    maps: Sequence[str | Path],
    probabilities: Sequence[str | Path],
    options: LabelOptions,
    progress: Progress | None,
) -> Labels:
    choice = ClassChoice(options.ignore, options.classes)
    how = (options.scheme, options.class_field, options.pixel_purity, choice)
    sources = [open_labels(name, *how) for name in maps]
    sure = [RasterBand.open(name) for name in probabilities]
    _check_bands(sources, sure)
    _check_counts(sources, sure)
    part = options.area.of(options.like or _grid_of(sources))
    years, scale = [source.on(part.grid) for source in sources], options.probability_scale
    certain = [Certainty.on(part.grid, layer, scale, "the area of the labels") for layer in sure]
    stack = _Stack(years, certain, part, options.criteria)
    codes, report = _screen_blocks(stack, options.scheduler, progress)
    scheme = _used_scheme(sources[-1].scheme, report)
    labels = Labels(codes, part.grid, scheme, report, stack.years[-1].regions(part.grid.window))
    if not labels.codes.any():
        raise ValueError(_nothing_left(labels))
    return _thin(labels, options) if options.spacing > 0 else labels


def hold_out(labels: Labels, how: HoldOut, seed: int = 0) -> tuple[Labels, Labels]:
    """Labels for training and labels for testing; polygons and blocks go to one side as a whole.

    >>> codes = np.ones((4, 4), np.uint8)
    >>> grid = Grid(None, (10, 0, 0, 0, -10, 0), width=4, height=4)
    >>> labels = Labels(codes, grid, Scheme.of_names(["wheat"]), Report.start(codes))
    >>> train, test = hold_out(labels, HoldOut(share=0.25, by="block", block=20))
    >>> int(train.codes.sum()), int(test.codes.sum())
    (12, 4)
    """
    rng = stream(seed, "hold out", how.by)
    if how.by == "polygon" and labels.regions is None:
        raise ValueError("labels from rasters have no polygons to split by; split by block or by pixel")
    groups: NDArray[np.int64] | NDArray[np.int32] | None = None
    if how.by == "polygon":
        groups = labels.regions
    elif how.by == "block":
        groups = Squares.of(labels.grid, how.block).numbers(labels.grid.window)
    test = split(labels.codes, how.share, rng, groups)
    buffer = buffer_between(labels, how)
    near = within(test, buffer, pixel_metres(labels.grid))
    zero = np.uint8(0)
    if not (labels.codes[~near] > 0).any():
        raise ValueError(
            f"no training label is farther than {distance(labels.grid, buffer)} from a test label; use a "
            "smaller --buffer"
        )
    return (
        labels.with_codes(np.where(near, zero, labels.codes)),
        labels.with_codes(np.where(test, labels.codes, zero)),
    )


def buffer_between(labels: Labels, how: HoldOut) -> float:
    """Metres between training and test labels: what is asked for, or the default."""
    if how.buffer is not None or how.by != "block":
        return how.buffer or 0.0
    return default_buffer(labels.codes, labels.grid, how.block)


def _check_counts(sources: Sequence[LabelSource], sure: Sequence[RasterBand]) -> None:
    if not sources:
        raise ValueError("no label map is given; name at least one raster or vector file")
    if sure and len(sure) != len(sources):
        raise ValueError(
            f"{len(sources)} label maps and {len(sure)} probability layers are given; give one per map, in "
            f"the same order, or none"
        )
    schemes = {source.scheme.names for source in sources}
    if len(schemes) > 1:
        raise ValueError(
            "the label maps have different classes: "
            + "; ".join(", ".join(names) for names in sorted(schemes))
            + ". Translate them to one scheme with --scheme"
        )


def _check_bands(sources: Sequence[LabelSource], sure: Sequence[RasterBand]) -> None:
    """Refuse the classes themselves in the place of their probabilities."""
    classes = {(s.layer.info.path, s.layer.band) for s in sources if isinstance(s, RasterLabels)}
    for layer in sure:
        if (layer.info.path, layer.band) in classes:
            raise ValueError(
                f"--probability {layer.name} is the band of the classes themselves; name that of the "
                f"probabilities, such as {layer.info.path}:{layer.band + 1}"
            )


def _grid_of(sources: Sequence[LabelSource]) -> Grid:
    for source in sources:
        if isinstance(source, RasterLabels):
            return source.layer.info.grid
    raise SceneError(
        f"{sources[0].name} is a vector file and has no pixels: say with --like which scene or raster gives "
        f"the grid"
    )


@dataclass(frozen=True)
class _Stack:
    """All that goes into the labels, on one grid."""

    years: Sequence[LabelsOnGrid]
    sure: Sequence[Certainty]
    part: Part
    criteria: Criteria
    cache: TileCache = field(default_factory=TileCache)

    def screen(self, window: Window) -> Screened:
        """Labels of a window that meet the criteria."""
        margin = self.criteria.margin
        wide = window.grown(margin, margin) & self.part.grid.window
        years = [year.labels(wide, self.cache) for year in self.years]
        inside = self.part.inside(wide)
        if inside is not None:
            years = [np.where(inside, year, np.uint8(0)) for year in years]
        sure = (layer.numbers(wide) for layer in self.sure)
        return screen(
            years,
            [np.where(known, values, np.zeros((), values.dtype)) for values, known in sure],
            self.criteria,
            scales=[layer.scale for layer in self.sure],
            regions=self.years[-1].regions(wide),
            core=window.shifted(-wide.row, -wide.col).slices,
        )


def _screen_blocks(
    stack: _Stack, scheduler: str | None, progress: Progress | None
) -> tuple[NDArray[np.uint8], Report]:
    grid = stack.part.grid
    codes = np.zeros(grid.shape, np.uint8)
    reports = []
    screened = computed(stack.screen, grid.blocks(_BLOCK), scheduler)
    for window in grid.watched_blocks(_BLOCK, progress):
        passed = next(screened)
        codes[window.slices] = passed.labels
        reports.append(passed.report)
    return codes, reduce(add, reports)


def _used_scheme(scheme: Scheme, report: Report) -> Scheme:
    """The scheme itself; of nameless codes those that were found."""
    if scheme.name != NUMBERED:
        return scheme
    present = tuple(c for c in scheme.classes if report.left[0, c.code])
    return Scheme(NUMBERED, present or scheme.classes[:1])


def _nothing_left(labels: Labels) -> str:
    report = labels.report
    found = int(report.left[0].sum())
    lost = ", ".join(f"{step} {int(report.removed(step).sum())}" for step in report.steps)
    if found == 0:
        return "the last map has no label in the area; check the area, and which codes the scheme leaves out"
    return f"no pixel meets all criteria: of {found} labelled pixels the criteria removed {lost}; relax them"


def _thin(labels: Labels, options: LabelOptions) -> Labels:
    """Labels at least `spacing` apart, and the report of it."""
    rows, columns = np.nonzero(labels.codes)
    height, width = steady_pixel_metres(labels.grid)
    apart = options.spacing * (1 - TOLERANCE)
    kept = spaced(rows * height, columns * width, apart, stream(options.seed, "spacing"))
    codes = np.zeros_like(labels.codes)
    codes[rows[kept], columns[kept]] = labels.codes[rows[kept], columns[kept]]
    return Labels(codes, labels.grid, labels.scheme, labels.report.then("spacing", codes), labels.regions)
