"""Planes of a map as square tiles of stored numbers, at full resolution and thinned by powers of two."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from uncover.pipeline.map_product import StoredLayer, block_means
from uncover.raster.errors import ReadError
from uncover.raster.grid import Grid, Window
from uncover.raster.tiles import BandFile, TileCache

#: Rows and columns of a tile: those of the tiles of the product's own files.
SIDE = 512
#: Levels up to this one are thinned from full resolution for each tile; coarser ones are kept in memory.
KEPT = 3
#: Decoded tiles that are kept for the planes of the same file, and for neighbours.
_CACHE_BYTES = 16 << 20
#: Files that stay open, each with the memory of a decoded tile of all its bands.
_SPARE_FILES = 6

Numbers = NDArray[Any]  # (plane, row, col), as they are stored
Thinning = Literal["nearest", "mean", "largest"]


class Plane(Protocol):
    """Numbers of a map at every level: level z stands for 2^z × 2^z pixels."""

    def read(self, z: int, window: Window) -> Numbers:
        """Stored numbers of a window of level z."""


def level_shape(grid: Grid, z: int) -> tuple[int, int]:
    """Rows and columns of a level.

    >>> level_shape(Grid(None, (1, 0, 0, 0, -1, 0), width=10980, height=5), 3)
    (1, 1373)
    """
    return -(-grid.height // 2**z), -(-grid.width // 2**z)


def levels_of(grid: Grid) -> int:
    """Number of levels: the coarsest fits one tile.

    >>> levels_of(Grid(None, (1, 0, 0, 0, -1, 0), width=10980, height=10980))
    6
    """
    z = 0
    while max(level_shape(grid, z)) > SIDE:
        z += 1
    return z + 1


def open_files() -> TileCache:
    """Rasters and their overviews, open for one reader at a time each, and few decoded tiles."""
    return TileCache(_CACHE_BYTES, _SPARE_FILES)


@dataclass(frozen=True)
class FilePlane:
    """Bands of a GeoTIFF whose overviews halve each other, as those of a product do."""

    cache: TileCache
    source: BandFile

    def read(self, z: int, window: Window) -> Numbers:
        """Numbers of the file or of an overview, as they are: all bands are decoded once for their planes."""
        path, places = self.source.path, [i - 1 for i in self.source.indexes]
        return self.cache.get((path, z, window), lambda: self._all_bands(z, window))[places]

    def _all_bands(self, z: int, window: Window) -> Numbers:
        from rasterio.errors import RasterioError

        try:
            with self.cache.opened(self.source.path, z) as file:
                # GDAL rounds the sides of overviews down: the last row or column may be lacking.
                there = window & Window(0, 0, *file.shape)
                rows, cols = there.slices
                found: Numbers = file.read(window=((rows.start, rows.stop), (cols.start, cols.stop)))
        except RasterioError as error:
            raise ReadError(
                f"{self.source.path} cannot be read, it is damaged or cut short; make the map again "
                f"({error.__cause__ or error})"
            ) from error
        lacking = [(0, wanted - n) for wanted, n in zip(window.shape, there.shape, strict=True)]
        return np.pad(found, [(0, 0), *lacking], "edge") if any(n for _, n in lacking) else found


@dataclass
class ThinnedPlane:
    """Numbers that are read at full resolution, and thinned here: of stores without overviews."""

    grid: Grid
    full: Callable[[Window], Numbers]
    thinning: Thinning
    layer: StoredLayer | None = None  # what the numbers mean, for their mean
    _kept: dict[int, Numbers] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, z: int, window: Window) -> Numbers:
        """Numbers of a window of level z."""
        if z < KEPT:
            return self._thinned(z, window)
        with self._lock:
            if z not in self._kept:
                self._kept[z] = self._whole(z)
        return self._kept[z][:, *window.slices]

    def _whole(self, z: int) -> Numbers:
        height, width = level_shape(self.grid, z)
        if z > KEPT:
            if z - 1 not in self._kept:
                self._kept[z - 1] = self._whole(z - 1)
            return self._fewer(self._kept[z - 1], 2)
        parts = [(part, self._thinned(z, part)) for part in Window(0, 0, height, width).cut((64, SIDE))]
        whole = np.empty((len(parts[0][1]), height, width), parts[0][1].dtype)
        for part, numbers in parts:
            whole[:, *part.slices] = numbers
        return whole

    def _thinned(self, z: int, window: Window) -> Numbers:
        step = 2**z
        fine = Window(window.row * step, window.col * step, window.height * step, window.width * step)
        return self._fewer(self.full(fine & self.grid.window), step)

    def _fewer(self, numbers: Numbers, step: int) -> Numbers:
        if step == 1:
            return numbers
        _, height, width = numbers.shape
        if self.thinning == "mean" and self.layer is not None:
            return encoded(block_means(self.layer.values(numbers), step), self.layer)
        if self.thinning == "largest":
            padded = np.pad(numbers, ((0, 0), (0, -height % step), (0, -width % step)))
            shape = len(padded), padded.shape[1] // step, step, -1, step
            return np.asarray(padded.reshape(shape).max(axis=(2, 4)))
        rows, cols = (np.minimum(np.arange(0, n, step) + step // 2, n - 1) for n in (height, width))
        return numbers[:, rows[:, None], cols]


def encoded(values: NDArray[Any], layer: StoredLayer) -> Numbers:
    """Numbers of a layer for values, nodata for NaN."""
    if np.dtype(layer.dtype).kind == "f":
        return values.astype(layer.dtype)
    numbers = np.rint(np.where(np.isnan(values), 0, values) / layer.scale)
    numbers[np.isnan(values)] = layer.nodata or 0
    return numbers.astype(layer.dtype)


def plane_of(layer: StoredLayer, cache: TileCache) -> Plane:
    """A layer of a product at every level: by the overviews of its file where it has them."""
    source = layer.source
    if isinstance(source, BandFile):
        with cache.opened(source.path) as file:
            wanted = [2**z for z in range(1, levels_of(source.grid))]
            if file.overviews(1)[: len(wanted)] == wanted:
                return FilePlane(cache, source)
    thinning: Thinning = "nearest" if layer.codes else "mean"
    return ThinnedPlane(source.grid, lambda window: source.read(window, cache), thinning, layer)


@dataclass(frozen=True)
class LargestPlane:
    """The largest of the probabilities, which is that of the class; nodata where there are none."""

    planes: Plane
    layer: StoredLayer

    def read(self, z: int, window: Window) -> Numbers:
        """The largest number of each pixel that is not nodata."""
        numbers = self.planes.read(z, window)
        if np.dtype(self.layer.dtype).kind == "f":
            return np.asarray(np.max(numbers, axis=0, keepdims=True))
        none = (numbers == self.layer.nodata).any(axis=0, keepdims=True)
        largest = numbers.max(axis=0, keepdims=True)
        largest[none] = self.layer.nodata
        return np.asarray(largest)


def whole_tile(plane: Plane, grid: Grid, z: int, row: int, col: int, fill: float) -> Numbers | None:
    """A tile of `SIDE` rows and columns, filled beyond the map; None where it lies outside."""
    height, width = level_shape(grid, z)
    window = Window(row * SIDE, col * SIDE, SIDE, SIDE) & Window(0, 0, height, width)
    if not window.pixels:
        return None
    numbers = plane.read(z, window)
    if window.shape == (SIDE, SIDE):
        return numbers
    out = np.full((len(numbers), SIDE, SIDE), fill, numbers.dtype)
    out[:, : window.height, : window.width] = numbers
    return out
