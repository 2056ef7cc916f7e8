"""Areas of the classes inside an outline that was drawn on a map, with their uncertainty and mean budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.pipeline.map_product import MapProduct
from uncover.raster.grid import Grid, Window
from uncover.raster.layers import inside_polygons
from uncover.raster.pixel_area import pixel_areas
from uncover.viewer.planes import Plane, level_shape, levels_of

#: Pixels that are read for an answer, at most: of larger outlines overviews are read.
_MOST = 1 << 22
_BLOCK = 256
_PARTS = ("total", "measurement", "model", "overlap")


class NoAreaError(ValueError):
    """An outline that has no area on the map."""


def areas_of(
    product: MapProduct, planes: Mapping[str, Plane], outline: Sequence[tuple[float, float]]
) -> dict[str, Any]:
    """Area of each class inside an outline of (row, column), counted and expected.

    The standard deviation of an expected area is that of a sum of Bernoulli variables: `least` if the errors
    of pixels are independent, `most` if they are all of one piece. The truth lies between.
    """
    shape = _polygon(product.grid, outline)
    left, top, right, bottom = shape.bounds
    z = 0
    while (right - left) * (bottom - top) / 4**z > _MOST and z < levels_of(product.grid) - 1:
        z += 1
    grid, K = _level_grid(product.grid, z), len(product.names)
    box = Window(
        int(top / 2**z), int(left / 2**z), int((bottom - top) / 2**z) + 2, int((right - left) / 2**z) + 2
    )
    counted, expected, variance, spread, budget = (np.zeros(n) for n in (K, K, K, K, len(_PARTS)))
    pixels = covered = mapped = 0.0
    for window in (box & grid.window).cut((_BLOCK, _BLOCK)):
        inside = inside_polygons([shape.wkb], _pixels(grid, z), window)
        if not inside.any():
            continue
        area = np.broadcast_to(pixel_areas(grid, window), window.shape)[inside]
        classes = product.numbered(planes["class"].read(z, window)[0])[inside]
        known = classes > 0
        area_known = area[known]
        counted += np.bincount(classes[known] - 1, area_known, minlength=K)
        P = _values(product, planes, "probability", z, window, inside)[:, known]
        expected += np.nansum(P * area_known, axis=1)
        variance += np.nansum(P * (1 - P) * area_known**2, axis=1) / 4**z
        spread += np.nansum(np.sqrt(np.maximum(P * (1 - P), 0)) * area_known, axis=1)
        if all(name in planes for name in _PARTS):
            parts = [_values(product, planes, name, z, window, inside)[0, known] for name in _PARTS]
            budget += np.nansum(np.stack(parts) * area_known, axis=1)
        pixels, covered = pixels + len(area) * 4**z, covered + area.sum()
        mapped += area_known.sum()
    if not pixels:
        raise NoAreaError("the outline has the middle of no pixel in it; draw it larger")
    unit, size = ("pixels", 4.0**-z) if product.grid.crs is None else ("ha", 1e4)
    names = zip(
        product.names, counted / size, expected / size, np.sqrt(variance) / size, spread / size, strict=True
    )
    return {
        "unit": unit,
        "step": 2**z,
        "pixels": int(pixels),
        "area": covered / size,
        "mapped": mapped / size,
        "classes": [
            {"name": n, "counted": c, "expected": e, "least": least, "most": most}
            for n, c, e, least, most in names
        ],
        "budget": dict(zip(_PARTS, (budget / max(mapped, 1e-300)).tolist(), strict=True)) if mapped else None,
    }


def _polygon(grid: Grid, outline: Sequence[tuple[float, float]]) -> Any:
    """The part of the outline on the map, in columns and rows; an error where it is no area."""
    import shapely

    if len(outline) < 3:
        raise NoAreaError(f"{len(outline)} corner(s) came; an area has three or more")
    shape = shapely.Polygon([(col, row) for row, col in outline])
    if not shape.is_valid:
        raise NoAreaError("the outline crosses itself; draw it without crossing")
    shape = shape.intersection(shapely.box(0, 0, grid.width, grid.height))
    if shape.area == 0:
        raise NoAreaError("the outline lies outside the map; draw it on the map")
    return shape


def _level_grid(grid: Grid, z: int) -> Grid:
    """The grid of a level."""
    a, b, c, d, e, f = grid.transform
    height, width = level_shape(grid, z)
    across, down = grid.width / width, grid.height / height
    return Grid(grid.crs, (a * across, b * down, c, d * across, e * down, f), width, height)


def _pixels(grid: Grid, z: int) -> Grid:
    """The same pixels in rows and columns of the map, in which outlines are drawn."""
    return Grid(None, (2**z, 0, 0, 0, 2**z, 0), grid.width, grid.height)


def _values(
    product: MapProduct,
    planes: Mapping[str, Plane],
    name: str,
    z: int,
    window: Window,
    inside: NDArray[np.bool_],
) -> NDArray[np.float64]:
    layer = product.layers[name]
    return np.asarray(layer.values(planes[name].read(z, window)[:, inside]), np.float64)
