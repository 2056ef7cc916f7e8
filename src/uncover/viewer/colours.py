"""The scene behind a map in true and false colours, read by the overviews of its files where it has them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.pipeline.map_styles import pictured_bands
from uncover.raster.grid import Grid, Window
from uncover.raster.observed import ObservedScene
from uncover.raster.scene import Scene
from uncover.raster.tiles import BandFile, open_raster
from uncover.report.pixels import scene_reader
from uncover.viewer.planes import KEPT, SIDE, Numbers, level_shape

_WANTED = {"true": (("B04",), ("B03",), ("B02",)), "false": (("B08", "B8A"), ("B04",), ("B03",))}
#: Pixels that are read for a tile at most where there are no overviews; above it the picture is left out.
_MOST = 2048 * 2048
Floats = NDArray[np.floating[Any]]


def colour_bands(bands: tuple[str, ...], kind: str) -> tuple[str, ...] | None:
    """Bands in red, green and blue; of a series those of its first date. None where one is missing.

    >>> colour_bands(("B02", "B03", "B04", "B8A"), "false")
    ('B8A', 'B04', 'B03')
    """
    found = []
    for names in _WANTED[kind]:
        mine = [band for name in names for band in bands if band.rsplit(":", 1)[-1] == name]
        found += mine[:1]
    return tuple(found) if len(found) == 3 else None


def colour_titles(bands: tuple[str, ...]) -> dict[str, str]:
    """Pictures of a scene by kind, with titles that say what they show.

    >>> colour_titles(("B02", "B03", "B04", "B8A"))
    {'true': 'Scene, true colour', 'false': 'Scene, false colour (near infrared)'}
    >>> colour_titles(("B02", "B04", "B8A", "B11"))
    {'true': 'Scene: B8A, B04, B02'}
    """
    true, false = (colour_bands(bands, kind) for kind in _WANTED)
    shown = ", ".join(dict.fromkeys(pictured_bands(bands)))
    titles = {"true": f"Scene: {shown}".removesuffix(": ") if true is None else "Scene, true colour"}
    return titles | ({} if false is None else {"false": "Scene, false colour (near infrared)"})


@dataclass
class ScenePlane:
    """Red, green and blue of a scene from 1 to 255, stretched alike everywhere; 0 where there is nothing."""

    evidence: Callable[[], ObservedScene | None]
    grid: Grid
    kind: str
    _ends: NDArray[np.float64] | None = field(default=None)  # (colour, 2): darkest and brightest value
    _kept: dict[int, Numbers] = field(default_factory=dict)  # whole levels: files may have no overviews
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stretching: threading.Lock = field(default_factory=threading.Lock)

    def read(self, z: int, window: Window) -> Numbers:
        """Colours of a window of level z: (colour, row, col)."""
        if z < KEPT:
            return self._painted(z, window)
        with self._lock:
            if z not in self._kept:
                finer = [level for level in self._kept if level < z]
                steps = [slice(None, None, 2 ** (z - level)) for level in finer[:1]] * 2
                self._kept[z] = self._kept[finer[0]][:, *steps] if finer else self._whole(z)
            return self._kept[z][:, *window.slices]

    def _whole(self, z: int) -> Numbers:
        """All of a level, painted in strips: the measured values need far more memory than their colours."""
        height, width = level_shape(self.grid, z)
        strips = Window(0, 0, height, width).cut((SIDE, width))
        return np.concatenate([self._painted(z, strip) for strip in strips], axis=1)

    def _painted(self, z: int, window: Window) -> Numbers:
        evidence = self.evidence()
        bands = None if evidence is None else self.bands(evidence)
        if evidence is None or bands is None:
            return np.zeros((3, *window.shape), np.uint8)
        values = _values(evidence, bands, self.grid, z, window)
        picture = np.empty(values.shape, np.uint8)
        for plane, out, (low, high) in zip(values, picture, self._stretch(evidence, bands), strict=True):
            share = np.clip(
                (np.nan_to_num(plane) - np.float32(low)) / np.float32(max(high - low, 1e-9)), 0, 1
            )
            out[...] = 1 + np.rint(254 * share**0.7)
        picture[:, ~np.isfinite(values).all(axis=0)] = 0
        return picture

    def bands(self, evidence: ObservedScene) -> tuple[str, ...] | None:
        """Bands in red, green and blue."""
        found = colour_bands(evidence.bands, self.kind)
        return pictured_bands(evidence.bands) if found is None and self.kind == "true" else found

    def _stretch(self, evidence: ObservedScene, bands: tuple[str, ...]) -> NDArray[np.float64]:
        """Ends that leave out the darkest and the brightest percent of nine windows."""
        with self._stretching:
            if self._ends is None:
                windows = self.grid.spots(256)
                values = [_values(evidence, bands, self.grid, 0, w).reshape(3, -1) for w in windows]
                known = [plane[np.isfinite(plane)] for plane in np.concatenate(values, axis=1)]
                self._ends = np.array([np.percentile(v, [1, 99]) if v.size else (0.0, 1.0) for v in known])
        return self._ends


def _values(evidence: ObservedScene, bands: tuple[str, ...], grid: Grid, z: int, window: Window) -> Floats:
    """Values of three bands at a level, NaN where there are none: the middle pixel of 2^z × 2^z."""
    step = 2**z
    rows = np.minimum(np.arange(window.row, window.row + window.height) * step + step // 2, grid.height - 1)
    cols = np.minimum(np.arange(window.col, window.col + window.width) * step + step // 2, grid.width - 1)
    scene = evidence.own_scene
    planes = [_from_file(scene, band, rows, cols) for band in bands] if isinstance(scene, Scene) else None
    if planes is not None and all(plane is not None for plane in planes):
        return np.stack([plane for plane in planes if plane is not None])
    fine = Window(rows[0], cols[0], int(rows[-1] - rows[0]) + 1, int(cols[-1] - cols[0]) + 1)
    if fine.pixels > _MOST:
        return np.full((3, *window.shape), np.nan, np.float32)
    read = scene_reader(evidence, bands)
    return np.asarray(read(fine)[:, (rows - rows[0])[:, None], cols - cols[0]])


def _from_file(scene: Scene, band: str, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> Floats | None:
    """A band at rows and columns of the scene, read as coarsely as they lie; None where that cannot be."""
    group = next(group for group in scene.groups if band in group.bands)
    source, at = group.source, group.bands.index(band)
    if not isinstance(source, BandFile) or not scene.grid.aligned_with(source.grid):
        return None
    a, _, c, _, e, f = scene.grid.relation(source.grid)
    there = np.floor(e * (rows + 0.5) + f).astype(int), np.floor(a * (cols + 0.5) + c).astype(int)
    inside = [(lines >= 0) & (lines < n) for lines, n in zip(there, source.grid.shape, strict=True)]
    out = np.full((len(rows), len(cols)), np.nan, np.float32)
    if not all(lines.any() for lines in inside):
        return out
    mine = [lines[ok] for lines, ok in zip(there, inside, strict=True)]
    ends = [(int(lines.min()), int(lines.max()) + 1) for lines in mine]
    shape = [min(stop - start, len(n)) for (start, stop), n in zip(ends, mine, strict=True)]
    with open_raster(source.path) as file:
        numbers = file.read(source.indexes[at], window=tuple(ends), out_shape=tuple(shape))
    values = group.calibrations[at].apply(numbers)[0]
    places = [
        (lines - start) * n // (stop - start)
        for lines, (start, stop), n in zip(mine, ends, shape, strict=True)
    ]
    out[np.ix_(*inside)] = values[np.ix_(*places)]
    return out
