"""Metres on the ground, squares of it, and other groups of samples that belong together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from uncover.labels.training import autocorrelation_length
from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window
from uncover.raster.pixel_area import pixel_sides

Groups = NDArray[np.int64]

#: Lengths are kept to a part in a thousand, which is what the scale of UTM varies by.
TOLERANCE = 1e-3
#: Where a pixel's sides differ by more than this over a grid, distances cannot be counted in pixels.
_LARGEST_VARIATION = 0.1


def pixel_metres(grid: Grid) -> tuple[float, float]:
    """Smallest height and width of a pixel in metres on the ground: distances are at least what they give.

    √(rows²·height² + columns²·width²) is never more than the distance. A grid without a reference system is
    taken to be in metres.

    >>> pixel_metres(Grid(None, (10, 0, 0, 0, -10, 0), width=4, height=4))
    (10.0, 10.0)
    >>> height, width = pixel_metres(Grid("EPSG:3857", (10, 0, 0, 0, -10, 6621293), width=4, height=4))
    >>> round(height, 2), round(width, 2)
    (6.29, 6.31)
    """
    smallest, _ = _extremes(grid)
    return smallest


def steady_pixel_metres(grid: Grid) -> tuple[float, float]:
    """`pixel_metres` of a grid whose pixels are alike; an error where they are not.

    >>> steady_pixel_metres(Grid("EPSG:4326", (1, 0, 0, 0, -1, 80), width=10, height=80))
    Traceback (most recent call last):
    ...
    uncover.raster.errors.SceneError: a pixel of the grid (EPSG:4326) is 19.4 to 111 km wide, depending on ...
    """
    smallest, largest = _extremes(grid)
    for name, low, high in zip(("high", "wide"), smallest, largest, strict=True):
        if high > (1 + _LARGEST_VARIATION) * low:
            unit, word = (1e3, "km") if low >= 1e4 else (1.0, "m")
            raise SceneError(
                f"a pixel of the grid ({grid.crs}) is {low / unit:.3g} to {high / unit:.3g} {word} {name}, "
                "depending on the place: distances cannot be kept there; use a projection that keeps "
                "lengths, such as UTM, or a smaller area"
            )
    return smallest


def distance(grid: Grid, metres: float) -> str:
    """A length in words: in pixels where the grid has no reference system.

    >>> distance(Grid("EPSG:32630", (10, 0, 0, 0, -10, 0), 4, 4), 40.0)
    '40 m'
    >>> distance(Grid(None, (1, 0, 0, 0, 1, 0), 4, 4), 1.0)
    '1 pixel'
    """
    if grid.crs is not None:
        return f"{metres:.0f} m"
    pixels = f"{metres / max(pixel_metres(grid)):.3g}"
    return f"{pixels} pixel{'' if pixels == '1' else 's'}"


@dataclass(frozen=True)
class Squares:
    """Squares of ground that a grid is cut into from its first pixel on; pixels of one belong together.

    >>> squares = Squares.of(Grid("EPSG:32630", (10, 0, 500000, 0, -10, 5700000), width=4, height=2), 20)
    >>> squares.numbers(squares.grid.window)
    array([[0, 0, 1, 1],
           [0, 0, 1, 1]])
    """

    grid: Grid
    sides: tuple[int, int]  # rows and columns of a square

    @classmethod
    def of(cls, grid: Grid, metres: float) -> Squares:
        """Squares of at least so many metres on the ground, everywhere on the grid."""
        sides, least = pixel_metres(grid), metres * (1 - TOLERANCE)
        counts = [
            min(math.ceil(least / side), length) if side > 0 else length
            for side, length in zip(sides, grid.shape, strict=True)
        ]
        if least < max(sides):
            height, width = sides
            raise ValueError(
                f"a block of {distance(grid, metres)} is smaller than a pixel ({height:.3g} x {width:.3g} "
                f"{'m' if grid.crs else 'units of its grid'}); make it larger"
            )
        return cls(grid, (counts[0], counts[1]))

    @property
    def shape(self) -> tuple[int, int]:
        """Squares down and across the grid."""
        return -(-self.grid.height // self.sides[0]), -(-self.grid.width // self.sides[1])

    def numbers(self, window: Window) -> Groups:
        """Number of the square that each pixel of a window lies in, row by row from 0: (row, col)."""
        row, col = (
            np.arange(at.start, at.stop) // side for at, side in zip(window.slices, self.sides, strict=True)
        )
        return row[:, None] * self.shape[1] + col

    def inner(self, window: Window, buffer: float) -> NDArray[np.bool_]:
        """Pixels of a window at least `buffer` metres from all pixels of other squares: (row, col).

        >>> squares = Squares.of(Grid("EPSG:3035", (10, 0, 4000000, 0, -10, 3000000), width=8, height=1), 40)
        >>> squares.inner(squares.grid.window, 19.9).tolist()  # the edge of the grid is nobody's neighbour
        [[True, True, True, False, False, True, True, True]]
        """
        near = []
        for where, length, block, side in zip(
            window.slices, self.grid.shape, self.sides, pixel_metres(self.grid), strict=True
        ):
            at = np.arange(where.start, where.stop)
            before = np.where(
                at < block, np.inf, at % block + 1
            )  # pixels to the nearest one of another square
            after = np.where(at // block == (length - 1) // block, np.inf, block - at % block)
            near.append(np.minimum(before, after) * side >= buffer * (1 - TOLERANCE))
        return np.asarray(near[0][:, None] & near[1])


def default_buffer(codes: NDArray[np.uint8], grid: Grid, block: float) -> float:
    """Autocorrelation length of labels in metres, but at most half a block."""
    return min(autocorrelation_length(codes, pixel_metres(grid)), 0.5 * block)


#: Autocorrelation lengths in the range of autocorrelation: e^-3 is 5 %, from which on pixels count as
#: independent (the practical range of an exponential variogram).
LENGTHS = 3.0
#: Blocks with labels, and blocks of each class, that a scene is cut into at least.
FEWEST_BLOCKS, FEWEST_OF_A_CLASS = 60, 5
#: Blocks that say nothing; pixels of the side of the smallest; labelled pixels that are looked at to count.
_TOO_FEW, _SMALLEST, _MOST_COUNTED = 6, 4, 1 << 20


@dataclass(frozen=True)
class Blocks:
    """Squares whose pixels belong together, and where their size comes from; lengths in metres."""

    grid: Grid
    side: float
    buffer: float  # pixels nearer to another square do not count where they are left out
    reach: float | None = None  # range of the labels' autocorrelation; None where the side was given

    def __str__(self) -> str:
        words = f"blocks of {distance(self.grid, self.side)}"
        if self.reach is None:
            return words
        if self.side >= self.reach:
            return f"{words}, from the range of the scene's autocorrelation"
        return (
            f"{words}, as large as leaves {FEWEST_BLOCKS} of them and {FEWEST_OF_A_CLASS} of each class; the "
            f"range of the scene's autocorrelation is {distance(self.grid, self.reach)}"
        )

    @property
    def edge(self) -> str:
        """Sentence on the pixels next to other blocks."""
        buffer = distance(self.grid, self.buffer)
        if self.buffer * (1 - TOLERANCE) > min(pixel_metres(self.grid)):
            return f"pixels nearer than {buffer} to another block do not count where they are left out"
        return f"a buffer of {buffer} is no wider than a pixel: pixels beside another block count as well"


def choose_blocks(
    codes: NDArray[np.uint8], grid: Grid, length: float, side: float | None, buffer: float | None
) -> Blocks | None:
    """Blocks of a given side, or from the autocorrelation length of the labels; None for single pixels.

    Without a side it is the range of autocorrelation, `LENGTHS` autocorrelation lengths, halved until there
    are enough blocks with labels (row, col) and of each class, or as many as there are of four pixels a side;
    None where these are too few. The buffer is by default the autocorrelation length, but at most a quarter
    of a block.
    """
    if side == 0 or (side is None and length <= 0):
        return None
    reach = None
    if side is None:
        pixel = max(pixel_metres(grid))
        side = reach = max(math.ceil(LENGTHS * length / pixel), _SMALLEST) * pixel
        possible = _blocks_of_classes(codes, Squares.of(grid, _SMALLEST * pixel))
        if possible[0] < _TOO_FEW:
            return None
        wanted = np.minimum(possible, [FEWEST_BLOCKS] + [FEWEST_OF_A_CLASS] * (len(possible) - 1))
        while (_blocks_of_classes(codes, Squares.of(grid, side)) < wanted).any():
            side = max(math.floor(side / pixel / 2), _SMALLEST) * pixel
    if buffer is None:
        buffer = min(length, 0.25 * side)
    elif not 0 <= buffer < side / 2:
        raise ValueError(
            f"--buffer is {distance(grid, buffer)} and --block {distance(grid, side)}: no pixel of a block "
            "is so far from other blocks; give a buffer below half a block"
        )
    return Blocks(grid, side, buffer, reach)


def _blocks_of_classes(codes: NDArray[np.uint8], squares: Squares) -> NDArray[np.intp]:
    """Numbers of squares with a label: of any class, and of each class in turn."""
    at = np.flatnonzero(codes)
    at = at[:: -(-len(at) // _MOST_COUNTED)]
    row, col = np.divmod(at, codes.shape[1])
    number = row // squares.sides[0] * squares.shape[1] + col // squares.sides[1]
    pairs = np.unique(np.stack([codes.ravel()[at], number]), axis=1)
    of_each = np.unique(pairs[0], return_counts=True)[1]
    return np.concatenate([[len(np.unique(pairs[1]))], of_each])


def _extremes(grid: Grid) -> tuple[tuple[float, float], tuple[float, float]]:
    """Smallest and largest height and width of a pixel, from places all over the grid."""
    rows, cols = np.meshgrid(np.linspace(0, grid.height, 9), np.linspace(0, grid.width, 9), indexing="ij")
    down, across = pixel_sides(grid, rows, cols)
    lengths = np.stack([np.hypot(down[..., 0], down[..., 1]), np.hypot(across[..., 0], across[..., 1])])
    with np.errstate(invalid="ignore", divide="ignore"):
        lean = np.abs((down * across).sum(-1)) / lengths.prod(axis=0)
    lean = np.where(np.isfinite(lean), np.minimum(lean, 1.0), 0.0)
    if not np.isfinite(lengths).any():
        raise SceneError(f"the grid lies where its reference system ({grid.crs}) has no place on the ground")
    # |u·down + v·across|² lies within (1 ± lean)·(u²·height² + v²·width²).
    low = np.nanmin((lengths * np.sqrt(1 - lean)).reshape(2, -1), axis=1)
    high = np.nanmax((lengths * np.sqrt(1 + lean)).reshape(2, -1), axis=1)
    return (float(low[0]), float(low[1])), (float(high[0]), float(high[1]))


def numbered(names: NDArray[np.str_], source: str) -> Groups:
    """Numbers of groups that a source has names for.

    >>> found = numbered(np.array(["b", "a", "b"]), "pixels.csv")
    >>> (found - found.min()).tolist()
    [1, 0, 1]
    """
    return first_number(source) + np.unique(names, return_inverse=True)[1].ravel()


def first_number(name: str) -> int:
    """First number of the groups of a source: those of two sources do not meet."""
    return (crc32(name.encode()) >> 1) << 32


def together(groups: Sequence[Groups | None], sizes: Sequence[int]) -> Groups | None:
    """Groups of several batches; a sample of a batch that has none is a group of its own.

    >>> together([np.array([7, 7]), None], [2, 2]).tolist()
    [7, 7, -1, -2]
    """
    if all(each is None for each in groups):
        return None
    parts, single = [], 0
    for each, size in zip(groups, sizes, strict=True):
        if each is None:
            each = -1 - np.arange(single, single + size)
            single += size
        parts.append(each)
    return np.concatenate(parts)
