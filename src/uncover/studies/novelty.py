"""Does typicality find what was never trained? Rates of pixels flagged, for a map whose truth is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from uncover.raster.grid import Window
from uncover.raster.tiles import TileCache, describe

Floats = NDArray[np.float64]

_BLOCK = 512
_STEPS = 10_000  # of typicality, as it is stored
_CACHE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Novelty:
    """Histograms of typicality by kind of ground, and the rates that follow.

    counts
        Pixels of each kind in each bin of typicality, which are equal steps from 0 to 1.

    >>> counts = np.zeros((2, 1000))
    >>> counts[0, 500], counts[1, 0] = 10, 4
    >>> found = Novelty(("wheat", "lake"), np.array([False, True]), counts)
    >>> found.rates(0.01)
    (1.0, 0.0)
    >>> found.separation
    1.0
    """

    kinds: tuple[str, ...]
    novel: NDArray[np.bool_]  # (kind,): whether it was never trained
    counts: Floats  # (kind, bin)

    def flagged(self, threshold: float) -> dict[str, float]:
        """Share of each kind's pixels below a threshold of typicality."""
        bins = round(threshold * self.counts.shape[1])
        total = np.maximum(self.counts.sum(1), 1)
        shares = self.counts[:, :bins].sum(1) / total
        return {
            kind: float(share)
            for kind, share, n in zip(self.kinds, shares, self.counts.sum(1), strict=True)
            if n
        }

    def rates(self, threshold: float) -> tuple[float, float]:
        """True-positive rate (never trained, flagged) and false-positive rate (trained, flagged)."""
        bins = round(threshold * self.counts.shape[1])
        below = self.counts[:, :bins].sum(1)
        total = self.counts.sum(1)
        return (
            float(below[self.novel].sum() / max(total[self.novel].sum(), 1)),
            float(below[~self.novel].sum() / max(total[~self.novel].sum(), 1)),
        )

    @property
    def separation(self) -> float:
        """Chance that a never-trained pixel is less typical than a trained one (area under the ROC curve)."""
        new, old = self.counts[self.novel].sum(0), self.counts[~self.novel].sum(0)
        above = old.sum() - np.cumsum(old)
        pairs = max(new.sum() * old.sum(), 1)
        return float((new * (above + old / 2)).sum() / pairs)

    def as_dict(self, thresholds: tuple[float, ...]) -> dict[str, object]:
        """For a JSON file."""
        rows = []
        for threshold in thresholds:
            tpr, fpr = self.rates(threshold)
            rows.append({"threshold": threshold, "true_positive_rate": tpr, "false_positive_rate": fpr,
                         "flagged": self.flagged(threshold)})  # fmt: skip
        pixels = {k: int(n) for k, n in zip(self.kinds, self.counts.sum(1), strict=True) if n}
        novel = [kind for kind, new in zip(self.kinds, self.novel, strict=True) if new]
        return {"never_trained": novel, "pixels": pixels, "area_under_roc": self.separation, "rates": rows}


def measure_novelty(map_folder: Path, truth: Path, kinds: Mapping[int, tuple[str, bool]]) -> Novelty:
    """The typicality layer of a map beside the true kinds of ground: code to name and "never trained"."""
    layer = describe(str(map_folder / "uncertainty.tif"))
    source = layer.bands(layer.names.index("typicality") + 1)
    ground = describe(str(truth)).bands(1)
    cache = TileCache(_CACHE_BYTES)
    codes = sorted(kinds)
    table = np.full(256, -1, np.intp)
    table[codes] = np.arange(len(codes))
    counts = np.zeros(len(codes) * _STEPS)
    for window in ground.grid.blocks(_BLOCK):
        counts += _block(source, ground, window, cache, table, len(counts))
    names = tuple(kinds[code][0] for code in codes)
    return Novelty(names, np.array([kinds[code][1] for code in codes]), counts.reshape(len(codes), _STEPS))


def _block(source, ground, window: Window, cache: TileCache, table, size: int) -> Floats:
    steps = source.read(window, cache)[0]
    kind = table[ground.read(window, cache)[0]]
    there = (steps != 65535) & (kind >= 0)
    at = np.minimum(steps[there].astype(np.intp), _STEPS - 1)
    return np.bincount(kind[there] * _STEPS + at, minlength=size).astype(np.float64)
