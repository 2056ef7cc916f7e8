"""Whether pixels of classes that were never trained stand out: typicality against a map of the truth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.pipeline.label_sources import open_labels
from uncover.raster.grid import Window
from uncover.raster.quality import Quality
from uncover.raster.tiles import TileCache
from uncover.report.product import Lines, ReportProduct, crossing

_MOST = 300_000  # pixels that are looked at
#: Thresholds of the typicality: p-values, so that a share t of ordinary pixels lies below t at most.
LEVELS = np.concatenate([[0.0], np.logspace(-4, 0, 41)])


@dataclass(frozen=True)
class Rate:
    """How many pixels of a kind there are, and how many of them are flagged."""

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
        names: dict[int, str],
        trained: set[str],
        threshold: float,
    ) -> Detection | None:
        """From pixels (any shape) with the code of their true class; None where all or none are trained."""
        known = np.isfinite(typicality) & np.isin(truth, list(names))
        typicality, flagged, truth = typicality[known], flagged[known], truth[known]
        familiar = np.isin(truth, [code for code, name in names.items() if name.casefold() in trained])
        if familiar.all() or not familiar.any():
            return None

        def rate(name: str, mine: NDArray[np.bool_]) -> Rate:
            return Rate(name, int(mine.sum()), int(flagged[mine].sum()))

        strange, ordinary = rate("untrained classes", ~familiar), rate("trained classes", familiar)
        each = [(name.casefold() in trained, rate(name, truth == code)) for code, name in names.items()]
        each = [(is_trained, found) for is_trained, found in each if found.pixels]
        rates = [r for is_trained, r in each if not is_trained] + [r for is_trained, r in each if is_trained]
        below = [_below(typicality[mine]) for mine in (~familiar, familiar)]
        return cls(threshold, strange, ordinary, tuple(rates), below[0], below[1])


def _below(values: NDArray[Any]) -> NDArray[np.float64]:
    return np.searchsorted(np.sort(values), LEVELS, side="left") / len(values)


def detect(product: ReportProduct, truth: Path, threshold: float) -> Detection | None:
    """Compare the typicality of a lattice of pixels with a raster of true classes that carries its scheme."""
    rows, cols = crossing(product.grid.shape, _MOST)
    source = open_labels(truth)
    codes = _codes(source.on(product.grid), product, rows, cols)
    bits = product.store.pixels("quality", rows, cols).astype(np.uint16)
    return Detection.of(
        product.store.pixels("typicality", rows, cols),
        bits & np.uint16(Quality.OUTSIDE_DOMAIN) > 0,
        codes,
        {entry.code: entry.name for entry in source.scheme.classes},
        {name.casefold() for name in product.names},
        threshold,
    )


def _codes(labels: Any, product: ReportProduct, rows: Lines, cols: Lines) -> NDArray[np.uint8]:
    cache, width = TileCache(64 << 20), product.grid.width
    return np.stack([labels.labels(Window(int(row), 0, 1, width), cache)[0, cols] for row in rows])
