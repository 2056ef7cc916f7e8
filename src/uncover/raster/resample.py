"""From a raster's pixels to another grid's, in any CRS; a pixel's value never depends on the window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window, same_crs
from uncover.raster.tiles import Source, TileCache

Resampling = Literal["nearest", "bilinear", "cubic"]

#: Between CRSs positions are computed exactly on a lattice and interpolated, as long as that errs by less.
TOLERANCE = 1e-3  # source pixels

Floats = NDArray[np.float64]
Positions = tuple[Floats, Floats]
Exact = Callable[[NDArray[Any], NDArray[Any]], tuple[Floats, ...]]

_TAPS = {"nearest": (0, 1), "bilinear": (0, 2), "cubic": (-1, 3)}


@dataclass(frozen=True)
class Axis:
    """For every target pixel of one axis: the source pixel it lies in, and the taps of the interpolation."""

    nearest: NDArray[np.int64]  # (target,)
    taps: NDArray[np.int64]  # (tap, target)
    weights: NDArray[np.float64]  # (tap, target)
    inside: NDArray[np.bool_]  # (target,)

    @property
    def span(self) -> tuple[int, int]:
        """First and one past the last source pixel that is needed."""
        return int(self.taps.min()), int(self.taps.max()) + 1


def axis(scale: float, shift: float, start: int, count: int, size: int, method: Resampling) -> Axis:
    """Taps and weights along one axis: target pixel t has its centre at source coordinate scale·(t+½)+shift.

    >>> a = axis(0.5, 0.0, 0, 4, 2, "bilinear")
    >>> a.nearest.tolist(), a.weights[1].tolist()
    ([0, 0, 1, 1], [0.75, 0.25, 0.75, 0.25])
    """
    if method not in get_args(Resampling):
        raise SceneError(f"resampling {method!r} is not known; use one of {', '.join(get_args(Resampling))}")
    centre = scale * (np.arange(start, start + count) + 0.5) + shift
    nearest = np.floor(centre).astype(np.int64)
    low, high = _TAPS[method]
    base = nearest if method == "nearest" else np.floor(centre - 0.5).astype(np.int64)
    taps = base + np.arange(low, high)[:, None]
    distance = centre - 0.5 - base
    inside = (nearest >= 0) & (nearest < size)
    return Axis(
        np.clip(nearest, 0, size - 1),
        np.clip(taps, 0, size - 1),  # beyond the edge the edge pixel goes on
        _weights(distance, method),
        inside,
    )


def _weights(t: NDArray[np.float64], method: Resampling) -> NDArray[np.float64]:
    if method == "nearest":
        return np.ones((1, t.size))
    if method == "bilinear":
        return np.stack([1 - t, t])
    # Catmull-Rom: passes through the samples and reproduces straight lines.
    return 0.5 * np.stack(
        [-t + 2 * t**2 - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, -(t**2) + t**3]
    )


@dataclass(frozen=True)
class Resampler:
    """Resampling of a window of one grid from another grid that runs the same way."""

    rows: Axis
    cols: Axis

    @classmethod
    def between(cls, target: Grid, window: Window, source: Grid, method: Resampling, name: str) -> Resampler:
        """The resampler for a window of `target` from `source`; `name` is for the message."""
        if not target.aligned_with(source):
            raise SceneError(
                f"{name} lies on another grid (its CRS {source.crs}, needed {target.crs}, same orientation); "
                "warp it to the scene's CRS first"
            )
        return _between(target, window, source, method)

    @cached_property
    def needed(self) -> Window:
        """The source window that holds everything needed."""
        (top, bottom), (left, right) = self.rows.span, self.cols.span
        return Window(top, left, bottom - top, right - left)

    @cached_property
    def inside(self) -> NDArray[np.bool_]:
        """Target pixels that lie on the source, (row, col); read-only, as others have it too."""
        found = self.rows.inside[:, None] & self.cols.inside[None, :]
        found.setflags(write=False)
        return found

    @cached_property
    def everywhere(self) -> bool:
        """True where all of them do."""
        return bool(self.rows.inside.all() and self.cols.inside.all())

    @cached_property
    def _is_copy(self) -> bool:
        """True where the nearest pixels are those needed, one by one."""
        rows, cols = self.rows.nearest - self.needed.row, self.cols.nearest - self.needed.col
        return _counts_up(rows, self.needed.height) and _counts_up(cols, self.needed.width)

    @property
    def copies(self) -> bool:
        """True where interpolating is copying, pixel by pixel."""
        return self._is_copy and len(self.rows.weights) == 1

    def nearest(self, planes: NDArray[Any]) -> NDArray[Any]:
        """The value of the source pixel that each target pixel's centre lies in; planes (..., row, col)."""
        if self._is_copy:
            return planes
        window = self.needed
        rows, cols = self.rows.nearest - window.row, self.cols.nearest - window.col
        picked: NDArray[Any] = planes[..., rows[:, None], cols[None, :]]
        return picked

    def interpolate(self, planes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Interpolated values; NaN stays NaN, and next to NaN the nearest value is taken."""
        nearest: NDArray[np.float64] = self.nearest(planes)
        if len(self.rows.weights) == 1:
            return nearest
        window = self.needed
        half = _weighted(planes, self.rows.taps - window.row, self.rows.weights, axis=-2)
        full = _weighted(half, self.cols.taps - window.col, self.cols.weights, axis=-1)
        usable = np.isfinite(full) & np.isfinite(nearest)
        return np.where(usable, full, nearest)


@lru_cache(maxsize=64)
def _between(target: Grid, window: Window, source: Grid, method: Resampling) -> Resampler:
    """Bands of one scene mostly lie on one grid: what fills a window from it is found once."""
    a, _, c, _, e, f = target.relation(source)
    return Resampler(
        axis(e, f, window.row, window.height, source.height, method),
        axis(a, c, window.col, window.width, source.width, method),
    )


def _counts_up(index: NDArray[np.int64], size: int) -> bool:
    return index.size == size and bool((index == np.arange(size)).all())


def _weighted(
    planes: NDArray[np.float64], taps: NDArray[np.int64], weights: NDArray[np.float64], axis: int
) -> NDArray[np.float64]:
    shape = (-1, 1) if axis == -2 else (-1,)
    total: NDArray[np.float64] = np.take(planes, taps[0], axis=axis) * weights[0].reshape(shape)
    for tap, weight in zip(taps[1:], weights[1:], strict=True):
        total += np.take(planes, tap, axis=axis) * weight.reshape(shape)
    return total


def read_nearest(
    source: Source, grid: Grid, window: Window, cache: TileCache
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Planes of a source at the pixel centres of a window of any grid, and where it reaches.

    Nearest neighbour: a number is never mixed with another. (plane, row, col), 0 outside; and (row, col).
    """
    if grid.aligned_with(source.grid):
        how = _between(grid, window, source.grid, "nearest")
        planes, inside = how.nearest(source.read(how.needed, cache)), how.inside
        return (planes if how.everywhere else np.where(inside, planes, planes.dtype.type(0))), inside
    row, col = _positions(grid, window, source.grid)
    with np.errstate(invalid="ignore"):
        inside = (row >= 0) & (row < source.grid.height) & (col >= 0) & (col < source.grid.width)
    if not inside.any():
        plane = source.read(Window(0, 0, 1, 1), cache)
        return np.zeros((plane.shape[0], *window.shape), plane.dtype), inside
    rows, cols = (place[inside].astype(np.int64) for place in (row, col))
    top, left = int(rows.min()), int(cols.min())
    needed = Window(top, left, int(rows.max()) + 1 - top, int(cols.max()) + 1 - left)
    found = source.read(needed, cache)
    out = np.zeros((found.shape[0], *window.shape), found.dtype)
    out[:, inside] = found[:, rows - top, cols - left]
    return out, inside


def pixels_within(grid: Grid, source: Grid) -> tuple[int, int]:
    """Rows and columns of another grid's pixels in a pixel of this one, about; 1 at least.

    >>> scene = Grid(None, (60, 0, 0, 0, -60, 0), 10, 10)
    >>> pixels_within(scene, Grid(None, (20, 0, 0, 0, -10, 0), 30, 60))
    (6, 3)
    """
    middle = np.array([0.0, 1.0, 0.0]) + grid.height / 2, np.array([0.0, 0.0, 1.0]) + grid.width / 2
    row, col = positions(grid, *middle, source)
    sides = [max(abs(row[i] - row[0]), abs(col[i] - col[0])) for i in (1, 2)]
    down, across = (max(1, round(side)) if np.isfinite(side) else 1 for side in sides)
    return down, across


def _positions(grid: Grid, window: Window, source: Grid) -> Positions:
    """Source row and column of each pixel centre of a window, fractional."""
    step = _lattice_step(grid, source)
    rows = np.arange(window.row, window.row + window.height) + 0.5
    cols = np.arange(window.col, window.col + window.width) + 0.5
    if step == 0:
        return positions(grid, rows[:, None], cols[None, :], source)
    row, col = on_lattice(lambda r, c: positions(grid, r, c, source), rows, cols, step)
    return row, col


def on_lattice(exact: Exact, rows: NDArray[Any], cols: NDArray[Any], step: int) -> tuple[Floats, ...]:
    """Functions of rows and columns, exact at the nodes of a lattice and bilinear between them: (row, col).

    The lattice is fixed to the grid, not to the window: every window sees the same.
    """
    (i, fi), (j, fj) = np.divmod(rows, step), np.divmod(cols, step)
    first = int(i[0]), int(j[0])
    nodes = exact(
        np.arange(first[0], int(i[-1]) + 2)[:, None] * float(step),
        np.arange(first[1], int(j[-1]) + 2)[None, :] * float(step),
    )
    at = i.astype(np.int64) - first[0], j.astype(np.int64) - first[1]
    with np.errstate(invalid="ignore"):
        return tuple(_bilinear(each, at, (fi / step, fj / step)) for each in nodes)


def _bilinear(nodes: NDArray[np.float64], at: Any, fraction: Any) -> NDArray[np.float64]:
    """Values between nodes (row, col), at rows and columns of nodes and fractions of the way to the next."""
    (i, j), (fi, fj) = at, fraction
    lines = nodes[i] * (1 - fi)[:, None] + nodes[i + 1] * fi[:, None]
    values: NDArray[np.float64] = lines[:, j] * (1 - fj) + lines[:, j + 1] * fj
    return values


def positions(grid: Grid, rows: NDArray[Any], cols: NDArray[Any], source: Grid) -> Positions:
    """Source row and column of pixel coordinates, through both CRSs."""
    x, y = np.broadcast_arrays(*grid.coordinates(rows, cols))
    if not same_crs(grid.crs, source.crs):
        x, y = (values.reshape(x.shape) for values in move(grid.crs, source.crs, x.ravel(), y.ravel()))
    return source.places(x, y)


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
    truth = np.stack(positions(grid, rows, cols, source))
    for step in (64, 32, 16, 8, 4):
        half = step / 2
        ends = [(rows + dr, cols + dc) for dr in (-half, half) for dc in (-half, half)]
        corners = [positions(grid, *end, source) for end in ends]
        # Places that the other CRS does not reach have infinite positions, and say nothing.
        with np.errstate(invalid="ignore"):
            error = np.abs(truth - np.mean(corners, axis=0))[np.isfinite(truth)]
        if error.size and (error < TOLERANCE).all():
            return step
    return 0
