"""Detection of classes that were never trained: typicality against a map of the truth."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.labels import Scheme
from uncover.pipeline.label_sources import open_labels
from uncover.pipeline.map_product import Lines, MapProduct, crossing, strips
from uncover.raster.grid import Window
from uncover.raster.pixel_area import pixel_areas
from uncover.raster.quality import Quality
from uncover.raster.tiles import TileCache

_MOST = 4_500_000  # pixels that are looked at
#: Thresholds of the typicality: p-values, so that a share t of ordinary pixels lies below t at most.
LEVELS = np.concatenate([[0.0], np.logspace(-4, 0, 41)])


@dataclass(frozen=True)
class Rate:
    """Pixels of a kind, and those of them that are flagged."""

    name: str
    pixels: int
    flagged: int

    @property
    def share(self) -> float:
        """Share of flagged ones; NaN where there are none at all."""
        return self.flagged / self.pixels if self.pixels else float("nan")


@dataclass(frozen=True)
class Detection:
    """Flagged pixels of untrained and of trained classes, and the same for other thresholds."""

    threshold: float
    unknown: Rate
    known: Rate
    by_class: tuple[Rate, ...]  # untrained classes first
    true_positive: NDArray[np.float64]  # (level,) share of untrained pixels below each of LEVELS
    false_positive: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        typicality: NDArray[Any],
        flagged: NDArray[np.bool_],
        truth: NDArray[Any],
        names: Mapping[int, str],
        trained: Collection[int],
        threshold: float,
    ) -> Detection | None:
        """Count pixels (any shape) by the code of their true class; None where all or none are trained.

        `names` of the codes, and which of them are `trained`.
        """
        known = np.isfinite(typicality) & np.isin(truth, list(names))
        typicality, flagged, truth = typicality[known], flagged[known], truth[known]
        familiar = np.isin(truth, list(trained))
        if familiar.all() or not familiar.any():
            return None

        def rate(name: str, mine: NDArray[np.bool_]) -> Rate:
            return Rate(name, int(mine.sum()), int(flagged[mine].sum()))

        strange, ordinary = rate("untrained classes", ~familiar), rate("trained classes", familiar)
        each = [(code in trained, rate(name, truth == code)) for code, name in names.items()]
        each = [(is_trained, found) for is_trained, found in each if found.pixels]
        rates = [r for is_trained, r in each if not is_trained] + [r for is_trained, r in each if is_trained]
        below = [_below(typicality[mine]) for mine in (~familiar, familiar)]
        return cls(threshold, strange, ordinary, tuple(rates), below[0], below[1])


def _below(values: NDArray[Any]) -> NDArray[np.float64]:
    return np.searchsorted(np.sort(values), LEVELS, side="left") / len(values)


def detect(product: MapProduct, truth: Path, threshold: float) -> Detection | None:
    """Compare the typicality of a lattice of pixels with a raster of true classes that carries its scheme."""
    rows, cols = crossing(product.grid.shape, _MOST)
    source = open_labels(truth)
    codes = _codes(source.on(product.grid), product, rows, cols)
    bits = product.pixels("quality", rows, cols).astype(np.uint16)
    return Detection.of(
        product.pixels("typicality", rows, cols),
        bits & np.uint16(Quality.OUTSIDE_DOMAIN) > 0,
        codes,
        {entry.code: entry.name for entry in source.scheme.classes},
        {code for code, name in map_classes(source.scheme, product).items() if name is not None},
        threshold,
    )


def map_classes(scheme: Scheme, product: MapProduct) -> dict[int, str | None]:
    """The map's class of each code: by its name, else by the broader class that it belongs to."""
    known = {name.casefold(): name for name in product.names}
    return {
        entry.code: known.get(entry.name.casefold()) or known.get((entry.parent or "").casefold())
        for entry in scheme.classes
    }


def true_areas(product: MapProduct, truth: Path) -> dict[str, float]:
    """True area of each of the map's classes, in hectares or pixels, on the land that has a class."""
    source, cache = open_labels(truth), TileCache(64 << 20)
    on_grid, areas = source.on(product.grid), np.zeros(256)
    for window in product.grid.blocks(1024):
        counted = product.class_numbers(window, cache) >= 0
        weights = np.where(counted, pixel_areas(product.grid, window), 0.0)
        areas += np.bincount(on_grid.labels(window, cache).ravel(), weights.ravel(), minlength=256)
    scale = 1.0 if product.grid.crs is None else 1e-4
    found = dict.fromkeys(product.names, 0.0)
    for code, name in map_classes(source.scheme, product).items():
        if name is not None:
            found[name] += float(areas[code] * scale)
    return found


def _codes(labels: Any, product: MapProduct, rows: Lines, cols: Lines) -> NDArray[np.uint8]:
    cache, width = TileCache(64 << 20), product.grid.width
    parts = [
        labels.labels(Window(top, 0, height, width), cache)[np.ix_(inside, cols)]
        for top, height, inside in strips(rows)
    ]
    return np.concatenate(parts)
