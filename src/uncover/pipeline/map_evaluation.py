"""Comparison of a map's classes and probabilities with reference data, block by block."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.streams import stream
from uncover.labels import within
from uncover.metrics.bootstrap import MOST_GROUPS
from uncover.metrics.calibration import Reliability
from uncover.metrics.estimation import SampleCells
from uncover.metrics.scores import ScoreSums
from uncover.pipeline.evaluation import EvaluateOptions, Evaluation, Floats
from uncover.pipeline.evaluation_statistics import Tally, conclude
from uncover.pipeline.ground import default_buffer, pixel_metres
from uncover.pipeline.label_sources import LabelsOnGrid, open_labels
from uncover.pipeline.map_product import MapProduct
from uncover.pipeline.references import Index, Matches, Reference, open_reference
from uncover.pipeline.sampling_design import Design
from uncover.raster.grid import Grid, Window
from uncover.raster.pixel_area import pixel_areas
from uncover.raster.tiles import TileCache

Progress = Callable[[int, int], None]  # pixels done, pixels in all

_BLOCK = 512
_LOOKED_AT = 1024  # rows and columns whose likeness says how large a buffer is
_CACHE_BYTES = 64 * 1024 * 1024


def evaluate_map(
    folder: str | Path,
    reference: str | Path,
    options: EvaluateOptions | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Compare a map (a folder with class.tif and probability.tif) with reference data.

    Memory holds one block of the map and sums over at most 2,000 groups of samples, whatever the size of the
    map and of the reference.

    >>> evaluate_map("nowhere", "points.gpkg")
    Traceback (most recent call last):
    ...
    uncover.raster.errors.SceneError: nowhere is not a folder; give the folder that `uncover map` wrote
    """
    options = options or EvaluateOptions()
    product = MapProduct.open(folder)
    ground = open_reference(
        reference,
        product,
        class_field=options.class_field,
        stratum_field=options.stratum_field,
        scheme=options.scheme,
        block_metres=options.block,
    )
    design = Design.of(options.design, ground, options.stratum_areas)
    tally = _all_blocks(_Comparison.of(product, ground, design, options), progress)
    if tally.samples == 0:
        raise ValueError(
            f"no sample of {ground.name} lies where the map has a class and no flag (cloud, shadow, snow, "
            "saturated) and far enough from training labels; nothing can be compared"
        )
    found = conclude(product, ground, design, tally, options)
    for message in found.warnings:
        warnings.warn(message, UserWarning, stacklevel=2)
    return found


@dataclass(frozen=True)
class _Training:
    """Labels that trained the model, and the distance from them at which a reference is independent."""

    labels: LabelsOnGrid
    grid: Grid
    buffer: float  # metres

    @classmethod
    def of(cls, product: MapProduct, options: EvaluateOptions) -> _Training:
        assert options.training is not None
        labels = open_labels(options.training, options.scheme, options.class_field).on(product.grid)
        buffer = _alike(product, options.block) if options.buffer is None else options.buffer
        return cls(labels, product.grid, buffer)

    def near(self, window: Window, cache: TileCache) -> NDArray[np.bool_]:
        """Pixels of a window nearer than the buffer to a training label, (row, col)."""
        height, width = pixel_metres(self.grid)
        rows, cols = int(self.buffer / height) + 1, int(self.buffer / width) + 1
        wide = Window(window.row - rows, window.col - cols, window.height + 2 * rows, window.width + 2 * cols)
        wide &= self.grid.window
        trained = self.labels.labels(wide, cache) > 0
        return within(trained, self.buffer, (height, width))[window.shifted(-wide.row, -wide.col).slices]


def _alike(product: MapProduct, block: float) -> float:
    """Autocorrelation length of the map's classes in its middle, in metres; at most half a block."""
    grid, cache = product.grid, TileCache(_CACHE_BYTES)
    codes = (product.class_numbers(grid.middle(_LOOKED_AT), cache) + 1).astype(np.uint8)
    return default_buffer(codes, grid, block, part=0.5)


@dataclass(frozen=True)
class _Comparison:
    """A map, its reference and the slots of groups that each stratum has."""

    product: MapProduct
    reference: Reference
    design: Design
    bins: int
    strata: int
    slots: int  # groups of each stratum
    places: Index | None  # slot of each natural group, where samples belong together
    first_area: float  # m²
    training: _Training | None = None

    @classmethod
    def of(
        cls, product: MapProduct, reference: Reference, design: Design, options: EvaluateOptions
    ) -> _Comparison:
        strata = len(design.names(reference.legend, reference))
        slots = max(2, MOST_GROUPS // strata)
        places = None
        if design.name is None and reference.group_count:
            slots = min(slots, reference.group_count)
            order = stream(options.seed, "joined groups").permutation(reference.group_count)
            places = np.asarray(order % slots, np.intp)
        first = float(pixel_areas(product.grid, Window(0, 0, 1, 1))[0, 0])
        training = None if options.training is None else _Training.of(product, options)
        return cls(product, reference, design, options.bins, strata, slots, places, first, training)

    def empty(self) -> Tally:
        k, groups = len(self.reference.legend.names), self.strata * self.slots
        none = np.empty(0, np.intp)
        p = np.empty((0, k))
        return Tally(
            pixels=np.zeros(k),
            areas=np.zeros(k),
            nodata=0,
            scores=ScoreSums.of(none, p, groups=none, n_groups=groups, floor=self.product.floor),
            reliability=Reliability.of(none, p, bins=self.bins, groups=none, n_groups=groups),
            cells=SampleCells.of(none, none, none, classes=k, n_strata=self.strata),
            buffer=0.0 if self.training is None else self.training.buffer,
        )

    def block(self, window: Window, so_far: Tally, cache: TileCache) -> Tally:
        """The tally with a block added."""
        k = len(self.reference.legend.names)
        numbers = self.product.class_numbers(window, cache)
        area = pixel_areas(self.product.grid, window)
        clear = self.product.clear(window, cache)
        there = (numbers >= 0) & clear
        known = numbers[there]
        pixels, areas = (np.bincount(known, w, minlength=k) for w in (None, area[there]))
        so_far = so_far.plus(pixels=pixels.astype(np.float64), areas=areas.astype(np.float64))
        found = self.reference.samples(window, cache)
        on_map, known_class = there[found.rows, found.cols], (numbers >= 0)[found.rows, found.cols]
        so_far = so_far.plus(
            nodata=int((~known_class).sum()),
            flagged=int((known_class & ~on_map).sum()),
            flagged_area=float(area[(numbers >= 0) & ~clear].sum()),
        )
        if self.training is not None:
            near = on_map & self.training.near(window, cache)[found.rows, found.cols]
            so_far, on_map = so_far.plus(near=int(near.sum())), on_map & ~near
        if not on_map.any():
            return so_far
        found = _chosen(found, on_map)
        mapped = numbers[found.rows, found.cols].astype(np.intp)
        p = np.zeros((mapped.size, k))
        p[:, : self.reference.legend.mapped] = self.product.probabilities(
            window, found.rows, found.cols, cache
        )
        # A drawn pixel stands for its area, in units of the first one's: exactly 1 where all are alike.
        weights = area[found.rows, found.cols] / self.first_area if self.design.name else np.ones(mapped.size)
        inside = self.product.in_sets(window, found.rows, found.cols, cache)
        return self._with_samples(so_far, found, mapped, p, weights, inside)

    def _with_samples(
        self,
        so_far: Tally,
        found: Matches,
        mapped: Index,
        p: Floats,
        weights: Floats,
        inside: NDArray[np.bool_] | None,
    ) -> Tally:
        y, k = found.classes, p.shape[1]
        strata = self._strata(found, mapped)
        groups = strata * self.slots + self._slots(found, strata, so_far.taken)
        n = self.strata * self.slots
        if inside is not None:
            so_far = so_far.plus(covered=_covered(y, inside, weights, groups, n, k))
        common: dict[str, Any] = {"mapped": mapped, "weights": weights, "groups": groups, "n_groups": n}
        return so_far.plus(
            scores=ScoreSums.of(y, p, floor=self.product.floor, **common),
            reliability=Reliability.of(y, p, bins=self.bins, **common),
            cells=SampleCells.of(mapped, y, strata, classes=k, n_strata=self.strata, weights=weights),
        )

    def _strata(self, found: Matches, mapped: Index) -> Index:
        if self.design.strata == "map":
            return mapped
        if self.design.strata == "field":
            assert found.strata is not None
            return found.strata
        return np.zeros(mapped.size, np.intp)

    def _slots(self, found: Matches, strata: Index, taken: Floats) -> Index:
        """Slot of each sample: that of its natural group, or the next one of its stratum in turn."""
        if self.places is not None:
            assert found.groups is not None
            return self.places[found.groups]
        slots = np.empty(strata.size, np.intp)
        for stratum in np.unique(strata):
            mine = np.flatnonzero(strata == stratum)
            slots[mine] = (int(taken[stratum]) + np.arange(mine.size)) % self.slots
        return slots


def _covered(
    y: Index, inside: NDArray[np.bool_], weights: Floats, groups: Index, n_groups: int, k: int
) -> Floats:
    """Weight of samples in whose set their class is, and of all: (group, class, 2).

    A class that the map does not have is in no set.
    """
    known = np.pad(inside, [(0, 0), (0, k - inside.shape[1])])
    place = groups * k + y
    hit = known[np.arange(y.size), y]
    sums = [np.bincount(place, w, minlength=n_groups * k) for w in (weights * hit, weights)]
    return np.stack(sums, axis=-1).astype(np.float64).reshape(n_groups, k, 2)


def _chosen(found: Matches, where: NDArray[np.bool_]) -> Matches:
    parts = (found.rows, found.cols, found.classes, found.groups, found.strata)
    rows, cols, classes, groups, strata = (None if part is None else part[where] for part in parts)
    assert rows is not None and cols is not None and classes is not None
    return Matches(rows, cols, classes, groups, strata)


def _all_blocks(comparison: _Comparison, progress: Progress | None) -> Tally:
    grid = comparison.product.grid
    cache = TileCache(_CACHE_BYTES)
    tally = comparison.empty()
    done = 0
    for window in grid.blocks(_BLOCK):
        tally = comparison.block(window, tally, cache)
        done += window.pixels
        if progress is not None:
            progress(done, grid.window.pixels)
    return tally
