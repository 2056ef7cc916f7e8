"""Samples that belong together, by numbers: squares of a grid, polygons of a table."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from uncover.pipeline.distances import TOLERANCE, block_pixels, pixel_metres
from uncover.raster.grid import Grid, Window

Groups = NDArray[np.int64]


def squares(grid: Grid, window: Window, metres: float) -> Groups:
    """The square of a grid that each pixel of a window lies in: (row, col).

    Scenes of one grid, such as those of several years, have the same numbers in the same place.

    >>> grid = Grid("EPSG:32630", (10, 0, 500000, 0, -10, 5700000), width=4, height=2)
    >>> found = squares(grid, grid.window, 20)
    >>> (found - found[0, 0]).tolist()
    [[0, 0, 1, 1], [0, 0, 1, 1]]
    """
    height, width = block_pixels(metres, grid)
    row = np.arange(window.row, window.row + window.height, dtype=np.int64) // height
    col = np.arange(window.col, window.col + window.width, dtype=np.int64) // width
    across = -(-grid.width // width)
    return _of_source(f"{grid}") + row[:, None] * across + col


def inside_squares(grid: Grid, window: Window, metres: float, buffer: float) -> NDArray[np.bool_]:
    """Pixels of a window at least `buffer` metres from all pixels of other squares: (row, col).

    >>> grid = Grid("EPSG:3035", (10, 0, 4000000, 0, -10, 3000000), width=8, height=1)
    >>> inside_squares(grid, grid.window, 40, 19.9).tolist()  # the edge of the grid is nobody's neighbour
    [[True, True, True, False, False, True, True, True]]
    """
    blocks, sides = block_pixels(metres, grid), pixel_metres(grid)
    near = []
    for first, count, length, block, side in zip(
        (window.row, window.col), window.shape, grid.shape, blocks, sides, strict=True
    ):
        at = np.arange(first, first + count)
        before = np.where(at < block, np.inf, at % block + 1)  # pixels to the nearest one of another square
        after = np.where(at // block == (length - 1) // block, np.inf, block - at % block)
        near.append(np.minimum(before, after) * side >= buffer * (1 - TOLERANCE))
    return np.asarray(near[0][:, None] & near[1])


def numbered(names: NDArray[np.str_], source: str) -> Groups:
    """Numbers of groups that a source has names for.

    >>> found = numbered(np.array(["b", "a", "b"]), "pixels.csv")
    >>> (found - found.min()).tolist()
    [1, 0, 1]
    """
    return _of_source(source) + np.unique(names, return_inverse=True)[1].ravel()


def _of_source(name: str) -> int:
    """Where the numbers of a source begin, so that they are not those of another."""
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
