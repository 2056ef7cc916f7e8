"""Rasters on other grids, in any CRS, brought onto a scene's grid by nearest neighbour: labels, masks."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.raster.area import window_of
from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window, same_crs
from uncover.raster.resample import axis
from uncover.raster.tiles import Source, TileCache, describe

#: Between CRSs positions are computed exactly on a lattice and interpolated, as long as that errs by less.
TOLERANCE = 1e-3  # source pixels

#: Rows that are aligned at a time: positions take more memory than labels.
STRIP = 256
CACHE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Aligned:
    """A raster's values on another grid, and where it has any, both (row, col).

    >>> Aligned(np.array([[3, 0]]), np.array([[True, False]])).filled(0).tolist()
    [[3, 0]]
    """

    values: NDArray[Any]
    valid: NDArray[np.bool_]

    def filled(self, value: float) -> NDArray[Any]:
        """The values, with `value` where there is none."""
        return np.where(self.valid, self.values, np.asarray(value, self.values.dtype))


def split_band(name: str | Path) -> tuple[str, int]:
    """File and band of `FILE:2`; band 1 where none is named.

    >>> split_band("lcm.tif:2"), split_band("lcm.tif")
    (('lcm.tif', 2), ('lcm.tif', 1))
    """
    text = str(name)
    head, colon, tail = text.rpartition(":")
    if colon and tail.isdigit() and not Path(text).exists():
        return head, int(tail)
    return text, 1


def align_raster(name: str | Path, grid: Grid, window: Window | None = None) -> Aligned:
    """Values of `FILE` or `FILE:band` at the pixel centres of a window of a grid (all of it by default).

    Nearest neighbour: a value is never mixed with another, and does not depend on the window.

    >>> align_raster("nowhere.tif:2", Grid("EPSG:32630", (10, 0, 0, 0, -10, 0), 2, 2))
    Traceback (most recent call last):
    ...
    uncover.raster.errors.SceneError: nowhere.tif does not exist; check the path
    """
    path, band = split_band(name)
    info = describe(path)
    window = grid.window if window is None else window
    grid.crop(window)
    check_overlap(path, grid, info.grid)
    values = np.zeros(window.shape, info.dtype)
    valid = np.zeros(window.shape, np.bool_)
    cache = TileCache(CACHE_BYTES)
    for top in range(0, window.height, STRIP):
        strip = Window(window.row + top, window.col, min(STRIP, window.height - top), window.width)
        pick = Pick.of(grid, strip, info.grid)
        part = values[top : top + STRIP]
        part[...] = pick.take(info.bands(band), cache)[0]
        valid[top : top + STRIP] = pick.inside & ~_is(part, info.nodata[band - 1])
    return Aligned(values, valid)


def _is(values: NDArray[Any], nodata: float | None) -> NDArray[np.bool_]:
    missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, np.bool_)
    return missing if nodata is None else missing | (values == nodata)


def check_overlap(name: str, grid: Grid, source: Grid, needed: str = "a raster") -> None:
    """Refuse what lies somewhere else than a scene."""
    try:
        window_of(source, grid.bounds, grid.crs)
    except SceneError as error:
        raise SceneError(
            f"{name} does not overlap the scene: its bounds are {source.bounds} ({source.crs}), the scene's "
            f"{grid.bounds} ({grid.crs}); give {needed} of the same place"
        ) from error


def check_cover(name: str | Path, grid: Grid) -> None:
    """Refuse a mask that lies somewhere else than a scene, and warn of one that covers a part of it."""
    path, _ = split_band(name)
    source = describe(path).grid
    check_overlap(path, grid, source, "a mask")
    warn_of_part(path, grid, source, "the rest of it is not masked")


def warn_of_part(path: str, grid: Grid, source: Grid, rest: str) -> None:
    """Warn of a raster that covers a part of a scene only, with the share; `rest` says what comes of it."""
    down, across = (np.linspace(0.5, length - 0.5, min(length, 32)) for length in grid.shape)
    row, col = _exact(grid, down[:, None], across[None, :], source)
    with np.errstate(invalid="ignore"):
        covered = (row >= 0) & (row < source.height) & (col >= 0) & (col < source.width)
    if covered.mean() < 0.99:  # a rim of pixels is lost by every warp
        warnings.warn(
            f"{path} covers about {covered.mean():.0%} of the scene; {rest}",
            stacklevel=5,
        )


@dataclass(frozen=True)
class Pick:
    """For each pixel of a window, the pixel of another grid that its centre lies in."""

    rows: NDArray[np.int64]  # (row, col), or (row, 1) where rows do not mix
    cols: NDArray[np.int64]  # (row, col), or (1, col)
    inside: NDArray[np.bool_]  # (row, col)

    @classmethod
    def of(cls, grid: Grid, window: Window, source: Grid) -> Pick:
        """Exact by axis where the grids run the same way, else by way of a lattice of exact positions."""
        if grid.aligned_with(source):
            a, _, c, _, e, f = grid.relation(source)
            rows = axis(e, f, window.row, window.height, source.height, "nearest")
            cols = axis(a, c, window.col, window.width, source.width, "nearest")
            inside = rows.inside[:, None] & cols.inside[None, :]
            return cls(rows.nearest[:, None], cols.nearest[None, :], inside)
        row, col = _positions(grid, window, source)
        with np.errstate(invalid="ignore"):
            inside = (row >= 0) & (row < source.height) & (col >= 0) & (col < source.width)
        rows_at, cols_at = (np.where(inside, p, 0).astype(np.int64) for p in (row, col))
        return cls(rows_at, cols_at, inside)

    def take(self, source: Source, cache: TileCache) -> NDArray[Any]:
        """The source's planes at the picked pixels, 0 outside, (plane, row, col)."""
        if not self.inside.any():
            plane = source.read(Window(0, 0, 1, 1), cache)
            return np.zeros((plane.shape[0], *self.inside.shape), plane.dtype)
        rows = np.broadcast_to(self.rows, self.inside.shape)
        cols = np.broadcast_to(self.cols, self.inside.shape)
        top, left = int(rows[self.inside].min()), int(cols[self.inside].min())
        bottom, right = int(rows[self.inside].max()) + 1, int(cols[self.inside].max()) + 1
        planes = source.read(Window(top, left, bottom - top, right - left), cache)
        where = np.clip(self.rows - top, 0, bottom - top - 1), np.clip(self.cols - left, 0, right - left - 1)
        picked: NDArray[Any] = planes[:, where[0], where[1]]
        picked[:, ~self.inside] = 0
        return picked


@dataclass(frozen=True)
class WarpedSource:
    """Another source seen on this grid, nearest neighbour, 0 where it does not reach."""

    source: Source
    grid: Grid

    @property
    def name(self) -> str:
        """The name of what is behind."""
        return self.source.name

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns that are read at a time."""
        return self.source.tile

    def read(self, window: Window, cache: TileCache) -> NDArray[Any]:
        """Planes of a window of this grid."""
        return Pick.of(self.grid, window, self.source.grid).take(self.source, cache)


def pixels_within(grid: Grid, source: Grid) -> tuple[int, int]:
    """How many rows and columns of another grid's pixels lie in a pixel of this one, about; 1 at least.

    >>> scene = Grid(None, (60, 0, 0, 0, -60, 0), 10, 10)
    >>> pixels_within(scene, Grid(None, (20, 0, 0, 0, -10, 0), 30, 60))
    (6, 3)
    """
    middle = np.array([0.0, 1.0, 0.0]) + grid.height / 2, np.array([0.0, 0.0, 1.0]) + grid.width / 2
    row, col = _exact(grid, *middle, source)
    sides = [max(abs(row[i] - row[0]), abs(col[i] - col[0])) for i in (1, 2)]
    down, across = (max(1, round(side)) if np.isfinite(side) else 1 for side in sides)
    return down, across


Positions = tuple[NDArray[np.float64], NDArray[np.float64]]


def _positions(grid: Grid, window: Window, source: Grid) -> Positions:
    """Source row and column of each pixel centre of a window, fractional."""
    step = _lattice_step(grid, source)
    rows = np.arange(window.row, window.row + window.height) + 0.5
    cols = np.arange(window.col, window.col + window.width) + 0.5
    if step == 0:
        return _exact(grid, rows[:, None], cols[None, :], source)
    # The lattice is fixed to the grid, not to the window: every window sees the same positions.
    i, fi = np.divmod(rows, step)
    j, fj = np.divmod(cols, step)
    first = int(i[0]), int(j[0])
    lattice = _exact(
        grid,
        np.arange(first[0], int(i[-1]) + 2)[:, None] * step,
        np.arange(first[1], int(j[-1]) + 2)[None, :] * step,
        source,
    )
    at = i.astype(np.int64) - first[0], j.astype(np.int64) - first[1]
    with np.errstate(invalid="ignore"):
        row, col = (bilinear(nodes, at, (fi / step, fj / step)) for nodes in lattice)
    return row, col


def bilinear(nodes: NDArray[np.float64], at: Any, fraction: Any) -> NDArray[np.float64]:
    """Values between nodes (row, col), at rows and columns of nodes and fractions of the way to the next."""
    (i, j), (fi, fj) = at, fraction
    lines = nodes[i] * (1 - fi)[:, None] + nodes[i + 1] * fi[:, None]
    values: NDArray[np.float64] = lines[:, j] * (1 - fj) + lines[:, j + 1] * fj
    return values


def _exact(grid: Grid, rows: NDArray[Any], cols: NDArray[Any], source: Grid) -> Positions:
    """Source row and column of pixel coordinates, through both CRSs."""
    a, b, c, d, e, f = grid.transform
    x, y = np.broadcast_arrays(a * cols + b * rows + c, d * cols + e * rows + f)
    if not same_crs(grid.crs, source.crs):
        x, y = (values.reshape(x.shape) for values in move(grid.crs, source.crs, x.ravel(), y.ravel()))
    inverse = np.linalg.inv(np.array([source.transform[:3], source.transform[3:], (0, 0, 1)], dtype=float))
    with np.errstate(invalid="ignore"):
        col, row = (inverse[k, 0] * x + inverse[k, 1] * y + inverse[k, 2] for k in (0, 1))
    return row, col


def move(source: str | None, target: str | None, x: NDArray[Any], y: NDArray[Any]) -> Positions:
    """Coordinates in another CRS, infinite where it does not reach."""
    from rasterio.warp import transform

    try:
        moved = transform(source, target, x, y)
    except Exception:  # one bad point fails them all, with GDAL's own kinds of error: find it by halves
        if len(x) == 1:
            return np.full(1, np.inf), np.full(1, np.inf)
        half = len(x) // 2
        parts = move(source, target, x[:half], y[:half]), move(source, target, x[half:], y[half:])
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
    return np.asarray(moved[0], np.float64), np.asarray(moved[1], np.float64)


@lru_cache(maxsize=64)
def _lattice_step(grid: Grid, source: Grid) -> int:
    """The widest lattice that errs by less than the tolerance in nine places of the grid; 0 if none does."""
    rows = np.linspace(0, grid.height, 3)[:, None]
    cols = np.linspace(0, grid.width, 3)[None, :]
    truth = np.stack(_exact(grid, rows, cols, source))
    for step in (64, 32, 16, 8, 4):
        half = step / 2
        corners = [_exact(grid, rows + dr, cols + dc, source) for dr in (-half, half) for dc in (-half, half)]
        # Places that the other CRS does not reach have infinite positions, and say nothing.
        with np.errstate(invalid="ignore"):
            error = np.abs(truth - np.mean(corners, axis=0))[np.isfinite(truth)]
        if error.size and (error < TOLERANCE).all():
            return step
    return 0
