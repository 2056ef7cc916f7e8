"""Rasters of the same ground in other geometries, and their values at points, found by pyproj and by hand."""

import numpy as np
import rasterio
from pyproj import Transformer
from rasterio.transform import Affine

KINDS = ("same", "zone", "size", "rotated", "south-up")


def affine_of(kind, grid, step=20.0):
    """CRS and transform of a raster that covers a grid with room to spare, and its height and width."""
    left, bottom, right, top = grid.bounds
    side = int(max(right - left, top - bottom) * 2 / step)
    x, y = (left + right) / 2, (bottom + top) / 2
    crs = grid.crs
    if kind == "zone":
        zone = int(crs.split(":")[1])
        crs = f"EPSG:{zone - 1 if zone % 100 > 1 else zone + 1}"
        x, y = Transformer.from_crs(grid.crs, crs, always_xy=True).transform(x, y)
    turn = Affine.rotation(33.0) if kind == "rotated" else Affine.identity()
    flip = step if kind == "south-up" else -step
    if kind == "same":
        return crs, Affine(*grid.transform), grid.shape
    if kind == "size":
        step = 3 * step
        side, flip = side // 3, -step
    return (
        crs,
        Affine.translation(x, y) * turn * Affine.scale(step, flip) * Affine.translation(-side / 2, -side / 2),
        (side, side),
    )


def write(path, kind, grid, values, dtype, **profile):
    """A raster whose pixels have the value of a function of the grid's coordinates at their centres."""
    crs, transform, shape = affine_of(kind, grid)
    rows, cols = np.indices(shape) + 0.5
    x, y = transform * (cols, rows)
    x, y = Transformer.from_crs(crs, grid.crs, always_xy=True).transform(x, y)
    plane = values(np.asarray(x), np.asarray(y)).astype(dtype)
    with rasterio.open(
        path, "w", driver="GTiff", width=shape[1], height=shape[0], count=1, dtype=dtype, crs=crs,
        transform=transform, **profile,
    ) as out:  # fmt: skip
        out.write(plane, 1)
    return path


def at_centres(path, grid):
    """The value of the pixel that each pixel centre of a grid lies in, 0 outside."""
    rows, cols = np.indices(grid.shape) + 0.5
    with rasterio.open(path) as source:
        plane = source.read(1)
        x, y = Affine(*grid.transform) * (cols, rows)
        x, y = Transformer.from_crs(grid.crs, source.crs, always_xy=True).transform(x, y)
        col, row = (np.floor(v).astype(int) for v in ~source.transform * (np.asarray(x), np.asarray(y)))
    inside = (row >= 0) & (row < plane.shape[0]) & (col >= 0) & (col < plane.shape[1])
    return np.where(inside, plane[np.where(inside, row, 0), np.where(inside, col, 0)], 0)
