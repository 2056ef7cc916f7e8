"""Class layers of files, brought onto the grid of a scene by nearest neighbour, window by window."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window, same_crs
from uncover.raster.resample import Resampler
from uncover.raster.tiles import RasterInfo, TileCache, describe

Array = NDArray[Any]

#: Coordinates are transformed exactly at every 16th pixel and interpolated between: projections are smooth.
LATTICE = 16


@dataclass(frozen=True)
class LayerName:
    """A file and the band that is meant: `FILE` is its first band, `FILE:2` its second.

    >>> LayerName.parse("lcm2020.tif:2")
    LayerName(path='lcm2020.tif', band=2)
    """

    path: str
    band: int = 1

    @classmethod
    def parse(cls, text: str | Path) -> LayerName:
        """Layer as it is written on the command line; a file that exists under the whole text wins."""
        match = re.fullmatch(r"(.+):(\d+)", str(text))
        if match is None or Path(text).exists():
            return cls(str(text))
        return cls(match.group(1), int(match.group(2)))


@dataclass(frozen=True)
class Layer:
    """One band of a raster, to be read on other grids than its own."""

    info: RasterInfo
    band: int

    @classmethod
    def open(cls, name: str | Path) -> Layer:
        """Layer of a file, given as `FILE` or `FILE:BAND`."""
        layer = LayerName.parse(name)
        info = describe(layer.path)
        info.bands(layer.band)  # says what is wrong where the file has no such band
        return cls(info, layer.band)

    @property
    def name(self) -> str:
        """What to call it in a message."""
        return self.info.path + (f":{self.band}" if self.band > 1 else "")

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its numbers."""
        return np.dtype(self.info.dtype)

    def check_overlap(self, grid: Grid) -> None:
        """Raise SceneError where the layer and the grid have no pixel in common."""
        own = bounds_in(self.info.grid, grid.crs)
        left, bottom, right, top = grid.bounds
        if own[0] >= right or own[2] <= left or own[1] >= top or own[3] <= bottom:
            raise SceneError(
                f"{self.name} does not overlap the area of the labels: it covers {_text(own)} and the area "
                f"is {_text(grid.bounds)} ({grid.crs}); give maps of one place, or another area"
            )

    def read(self, grid: Grid, window: Window, cache: TileCache) -> tuple[Array, NDArray[np.bool_]]:
        """Numbers of a window of `grid` by nearest neighbour, and where there is one; both (row, col)."""
        source = self.info.bands(self.band)
        if grid.aligned_with(self.info.grid):
            how = Resampler.between(grid, window, self.info.grid, "nearest", self.name)
            values, known = how.nearest(source.read(how.needed, cache)[0]), how.inside
        else:
            rows, columns, known = nearest_pixels(grid, window, self.info.grid)
            values = np.zeros(window.shape, self.dtype)
            if known.any():
                values[known] = self._scattered(rows[known], columns[known], cache)
        nodata = self.info.nodata[self.band - 1]
        if nodata is not None:
            known = known & ~(np.isnan(values) if np.isnan(nodata) else values == nodata)
        return values, known

    def _scattered(self, rows: NDArray[np.int64], columns: NDArray[np.int64], cache: TileCache) -> Array:
        top, left = int(rows.min()), int(columns.min())
        part = Window(top, left, int(rows.max()) - top + 1, int(columns.max()) - left + 1)
        values: Array = self.info.bands(self.band).read(part, cache)[0]
        return values[rows - top, columns - left]


def nearest_pixels(
    grid: Grid, window: Window, source: Grid
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Row and column of the `source` pixel that each pixel centre of a window lies in, and if there is one.

    >>> fine = Grid(None, (10, 0, 0, 0, -10, 0), 4, 2)
    >>> rows, columns, inside = nearest_pixels(fine, fine.window, Grid(None, (20, 0, 0, 0, -20, 0), 1, 1))
    >>> columns.tolist(), inside.tolist()
    ([[0, 0, 1, 1], [0, 0, 1, 1]], [[True, True, False, False], [True, True, False, False]])
    """
    x, y = _centres_in(grid, window, source.crs)
    inverse = np.linalg.inv(np.array([source.transform[:3], source.transform[3:], (0, 0, 1)], dtype=float))
    column = inverse[0, 0] * x + inverse[0, 1] * y + inverse[0, 2]
    row = inverse[1, 0] * x + inverse[1, 1] * y + inverse[1, 2]
    inside = (row >= 0) & (row < source.height) & (column >= 0) & (column < source.width)
    # Infinite where a projection ends: not inside, and not a number to be rounded.
    rows, columns = (np.floor(np.where(np.isfinite(v), v, -1)).astype(np.int64) for v in (row, column))
    return rows, columns, inside


def bounds_in(grid: Grid, crs: str | None) -> tuple[float, float, float, float]:
    """Bounds of a grid in another reference system."""
    if same_crs(grid.crs, crs):
        return grid.bounds
    from rasterio.warp import transform_bounds

    left, bottom, right, top = transform_bounds(grid.crs, crs, *grid.bounds, densify_pts=21)
    return float(left), float(bottom), float(right), float(top)


def _centres_in(
    grid: Grid, window: Window, crs: str | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pixel centres in another CRS. The lattice is the grid's, so that blocks agree with the whole."""
    if same_crs(grid.crs, crs):
        return grid.centres(window)
    from rasterio.warp import transform

    rows, at_rows = _lattice(window.row, window.height)
    columns, at_columns = _lattice(window.col, window.width)
    a, b, c, d, e, f = grid.transform
    node_x = a * (columns[None, :] + 0.5) + b * (rows[:, None] + 0.5) + c
    node_y = d * (columns[None, :] + 0.5) + e * (rows[:, None] + 0.5) + f
    x, y = transform(grid.crs, crs, node_x.ravel(), node_y.ravel())
    shape = node_x.shape
    x, y = np.asarray(x).reshape(shape), np.asarray(y).reshape(shape)
    return _between(x, at_rows, at_columns), _between(y, at_rows, at_columns)


def _lattice(start: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Lattice nodes that enclose `count` pixels from `start` on, and the place of each pixel between them."""
    first = start // LATTICE
    last = (start + count - 1) // LATTICE + 1
    return np.arange(first, last + 1) * LATTICE, (np.arange(start, start + count) / LATTICE) - first


def _between(
    nodes: NDArray[np.float64], rows: NDArray[np.float64], columns: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Bilinear interpolation of node values at row and column places."""
    i, j = np.floor(rows).astype(np.int64), np.floor(columns).astype(np.int64)
    u, v = rows - i, columns - j
    along = nodes[i] * (1 - u)[:, None] + nodes[i + 1] * u[:, None]
    return np.asarray(along[:, j] * (1 - v) + along[:, j + 1] * v)


def _text(bounds: tuple[float, ...]) -> str:
    return "(" + ", ".join(f"{value:.7g}" for value in bounds) + ")"
