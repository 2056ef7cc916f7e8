"""Grids and windows: where pixels lie. Values only; nothing here opens a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.raster.errors import SceneError
from uncover.warn import warn

#: x = a·col + b·row + c, y = d·col + e·row + f, for the corner of a pixel.
Transform = tuple[float, float, float, float, float, float]
Bounds = tuple[float, float, float, float]
#: Called with how much is done, and how much there is.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Window:
    """A rectangle of pixels: `height` rows from `row` on, `width` columns from `col` on.

    >>> Window(0, 0, 10, 10) & Window(5, 8, 10, 10)
    Window(row=5, col=8, height=5, width=2)
    """

    row: int
    col: int
    height: int
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.height, self.width

    @property
    def pixels(self) -> int:
        """Number of pixels."""
        return max(self.height, 0) * max(self.width, 0)

    @property
    def slices(self) -> tuple[slice, slice]:
        """Index of the window in an array that covers the whole grid.

        >>> np.arange(12).reshape(3, 4)[Window(1, 1, 1, 2).slices]
        array([[5, 6]])
        """
        return slice(self.row, self.row + self.height), slice(self.col, self.col + self.width)

    def __and__(self, other: Window) -> Window:
        """The common part; it has no pixels where there is none."""
        row, col = max(self.row, other.row), max(self.col, other.col)
        bottom = min(self.row + self.height, other.row + other.height)
        right = min(self.col + self.width, other.col + other.width)
        return Window(row, col, max(bottom - row, 0), max(right - col, 0))

    def shifted(self, rows: int, cols: int) -> Window:
        """The same rectangle elsewhere.

        >>> Window(1, 1, 2, 2).shifted(-1, 4)
        Window(row=0, col=5, height=2, width=2)
        """
        return Window(self.row + rows, self.col + cols, self.height, self.width)

    def grown(self, rows: int, cols: int) -> Window:
        """The rectangle with so many more rows and columns on each side."""
        return Window(self.row - rows, self.col - cols, self.height + 2 * rows, self.width + 2 * cols)

    def cut(self, size: tuple[int, int], origin: tuple[int, int] = (0, 0)) -> Iterator[Window]:
        """Parts of at most so many rows and columns, row by row, cut where place ≡ origin (mod size).

        >>> [(part.row, part.height) for part in Window(1, 0, 5, 2).cut((3, 2))]
        [(1, 2), (3, 3)]
        """
        for top, bottom in _cuts(self.row, self.height, size[0], origin[0]):
            for left, right in _cuts(self.col, self.width, size[1], origin[1]):
                yield Window(top, left, bottom - top, right - left)


@dataclass(frozen=True, slots=True)
class Grid:
    """A raster's geometry: coordinate reference system, affine transform, size.

    `crs` is an authority code or WKT, None where the file has none.

    >>> grid = Grid("EPSG:32633", (10, 0, 300000, 0, -10, 5000040), width=100, height=50)
    >>> grid.bounds
    (300000, 4999540, 301000, 5000040)
    >>> len(list(grid.blocks(32)))
    8
    """

    crs: str | None
    transform: Transform
    width: int
    height: int

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1:
            raise SceneError(
                f"a grid of {self.width} x {self.height} pixels is empty; it needs at least one pixel"
            )
        a, b, _, d, e, _ = self.transform
        if a * e == b * d:
            raise SceneError(
                f"the geotransform {self.transform} is singular; set the georeferencing of the file"
            )

    @classmethod
    def of(cls, dataset: Any) -> Grid:
        """The grid of an open rasterio dataset."""
        crs = dataset.crs.to_string() if dataset.crs else None
        return cls(crs, tuple(dataset.transform)[:6], dataset.width, dataset.height)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.height, self.width

    @property
    def window(self) -> Window:
        """The window of the whole grid."""
        return Window(0, 0, self.height, self.width)

    @property
    def resolution(self) -> tuple[float, float]:
        """Length of a pixel's sides along its column and row directions, in units of the CRS."""
        a, b, _, d, e, _ = self.transform
        return float(np.hypot(a, d)), float(np.hypot(b, e))

    @property
    def bounds(self) -> Bounds:
        """Smallest x, smallest y, largest x, largest y."""
        corners = [(0, 0), (0, self.width), (self.height, 0), (self.height, self.width)]
        xs, ys = zip(*(self.coordinates(row, col) for row, col in corners), strict=True)
        return min(xs), min(ys), max(xs), max(ys)

    def coordinates(self, row: Any, col: Any) -> tuple[Any, Any]:
        """Coordinates x and y of fractional rows and columns; the first pixel goes from 0 to 1.

        >>> Grid(None, (10, 0, 300, 0, -10, 500), 8, 8).coordinates(0.5, 2)
        (320.0, 495.0)
        """
        a, b, c, d, e, f = self.transform
        return a * col + b * row + c, d * col + e * row + f

    def places(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Fractional rows and columns of coordinates: the inverse of `coordinates`.

        >>> Grid(None, (10, 0, 300, 0, -10, 500), 8, 8).places(320, 495)
        (0.5, 2.0)
        """
        a, b, c, d, e, f = self.transform
        size = a * e - b * d
        with np.errstate(invalid="ignore"):  # what has no place is infinite
            return (a * (y - f) - d * (x - c)) / size, (e * (x - c) - b * (y - f)) / size

    def crop(self, window: Window) -> Grid:
        """The grid of a window of this grid.

        >>> Grid(None, (10, 0, 0, 0, -10, 0), 8, 8).crop(Window(1, 2, 3, 4)).transform
        (10, 0, 20, 0, -10, -10)
        """
        if (window & self.window) != window:
            raise SceneError(
                f"{window} does not lie inside a grid of {self.height} rows, {self.width} columns"
            )
        x, y = self.coordinates(window.row, window.col)
        a, b, _, d, e, _ = self.transform
        return Grid(self.crs, (a, b, x, d, e, y), window.width, window.height)

    def centres(self, window: Window) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Coordinates x and y of the pixel centres of a window, each (row, col).

        >>> x, y = Grid(None, (10, 0, 0, 0, -10, 0), 8, 8).centres(Window(0, 0, 1, 2))
        >>> x.tolist(), y.tolist()
        ([[5.0, 15.0]], [[-5.0, -5.0]])
        """
        rows = np.arange(window.row, window.row + window.height)[:, None] + 0.5
        cols = np.arange(window.col, window.col + window.width)[None, :] + 0.5
        return self.coordinates(rows, cols)

    def axes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Coordinates x (col,) and y (row,) of the pixel centres of a grid that runs along its CRS.

        >>> [values.tolist() for values in Grid(None, (10, 0, 0, 0, -10, 0), 2, 1).axes()]
        [[5.0, 15.0], [-5.0]]
        """
        x, _ = self.centres(Window(0, 0, 1, self.width))
        _, y = self.centres(Window(0, 0, self.height, 1))
        return x[0], y[:, 0]

    def blocks(self, size: int = 1024, origin: tuple[int, int] = (0, 0)) -> Iterator[Window]:
        """Windows that cover the grid row by row, cut where row or column ≡ origin (mod size).

        >>> [w.width for w in Grid(None, (1, 0, 0, 0, -1, 0), 10, 4).blocks(4, origin=(0, 2))]
        [2, 4, 4]
        """
        if size < 1:
            raise SceneError(f"block size {size} is not a number of pixels; use 1 or more")
        return self.window.cut((size, size), origin)

    def watched_blocks(self, size: int, progress: Progress | None) -> Iterator[Window]:
        """Blocks, of which the pixels that are done are reported."""
        done = 0
        for window in self.blocks(size):
            yield window
            done += window.pixels
            if progress is not None:
                progress(done, self.window.pixels)

    def spots(self, size: int, count: int = 3) -> list[Window]:
        """Small windows from all over the grid, at multiples of their size: few tiles of a file hold them.

        >>> [w.row for w in Grid(None, (1, 0, 0, 0, -1, 0), 10, 1000).spots(64)]
        [0, 448, 896]
        """
        rows, cols = (
            sorted({int(place) // size * size for place in np.linspace(0, max(length - size, 0), count)})
            for length in self.shape
        )
        return [Window(row, col, size, size) & self.window for row in rows for col in cols]

    def middle(self, size: int) -> Window:
        """The window of at most so many rows and columns in the middle of the grid.

        >>> Grid(None, (1, 0, 0, 0, -1, 0), 10, 1000).middle(64)
        Window(row=468, col=0, height=64, width=10)
        """
        height, width = (min(length, size) for length in self.shape)
        return Window((self.height - height) // 2, (self.width - width) // 2, height, width)

    def relation(self, other: Grid) -> Transform:
        """Affine map from pixel coordinates of this grid to those of `other` (same CRS).

        >>> fine = Grid(None, (10, 0, 0, 0, -10, 0), 8, 8)
        >>> fine.relation(Grid(None, (20, 0, 0, 0, -20, 0), 4, 4))
        (0.5, 0.0, 0.0, 0.0, 0.5, 0.0)
        """
        return _relation(self.transform, other.transform)

    def aligned_with(self, other: Grid) -> bool:
        """True where rows and columns run the same way, so that each axis is resampled alone.

        >>> a = Grid(None, (10, 0, 0, 0, -10, 0), 8, 8)
        >>> a.aligned_with(Grid(None, (9, 1, 0, 1, -9, 0), 8, 8))
        False
        """
        if not same_crs(self.crs, other.crs):
            return False
        _, b, _, d, _, _ = self.relation(other)
        return b == 0.0 and d == 0.0

    def offset_in(self, other: Grid) -> tuple[int, int]:
        """Row and column of this grid's first pixel in `other`, rounded down.

        >>> a = Grid(None, (10, 0, 0, 0, -10, 0), 8, 8)
        >>> a.crop(Window(3, 2, 1, 1)).offset_in(a)
        (3, 2)
        """
        _, _, c, _, _, f = self.relation(other)
        return int(np.floor(f + 1e-6)), int(np.floor(c + 1e-6))


def finest_grid(grids: Sequence[Grid]) -> Grid:
    """The grid with the smallest pixels; the first of equals.

    >>> coarse = Grid(None, (20, 0, 0, 0, -20, 0), 5, 5)
    >>> finest_grid([coarse, Grid(None, (10, 0, 0, 0, -10, 0), 10, 10)]).width
    10
    """
    return min(grids, key=lambda grid: grid.resolution[0] * grid.resolution[1])


def _cuts(start: int, length: int, size: int, origin: int) -> Iterator[tuple[int, int]]:
    end = start + length
    return pairwise([start, *range(start + ((origin - start) % size or size), end, size), end])


@lru_cache(maxsize=256)
def _relation(one: Transform, other: Transform) -> Transform:
    matrix = np.linalg.solve(_matrix(other), _matrix(one))
    # Nine decimals: far below a thousandth of a pixel, and above the rounding of degrees.
    return tuple(float(v) + 0.0 for v in np.round(matrix[:2].ravel(), 9))  # type: ignore[return-value]


def _matrix(transform: Transform) -> NDArray[np.float64]:
    return np.array([transform[:3], transform[3:], (0.0, 0.0, 1.0)], dtype=np.float64)


def same_crs(one: str | None, other: str | None) -> bool:
    """True where two reference systems are the same; an unknown one is taken to be the other's.

    >>> same_crs("EPSG:32633", None), same_crs("EPSG:32633", "EPSG:4326")
    (True, False)
    """
    if one is None or other is None or one == other:
        return True
    from rasterio.crs import CRS

    return bool(CRS.from_user_input(one) == CRS.from_user_input(other))


def warn_of_unknown_crs(name: str | Path, own: str | None, grid: Grid) -> None:
    """Say that a file without a reference system is taken to be in that of a scene."""
    if not own and grid.crs is not None:
        warn(f"{name} states no reference system; that of the scene is taken, {grid.crs}")


def middle_of(grid: Grid) -> tuple[float, float]:
    """Longitude and latitude of the middle of a grid, in degrees.

    >>> east, north = middle_of(Grid("EPSG:32633", (10, 0, 499950, 0, -10, 50), width=10, height=10))
    >>> round(east, 6), abs(round(north, 6))
    (15.0, 0.0)
    """
    from rasterio.warp import transform

    x, y = grid.coordinates(grid.height / 2, grid.width / 2)
    xs, ys = transform(grid.crs, "EPSG:4326", [x], [y])
    return float(xs[0]), float(ys[0])
