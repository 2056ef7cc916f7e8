"""Outlines of grids in longitude and latitude as GeoJSON (RFC 7946): curves, antimeridian and poles."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.raster.errors import require
from uncover.raster.grid import Grid
from uncover.raster.resample import move

#: Points that follow a side: doubled until the line between two of them is this near to the side, in pixels.
TOLERANCE = 0.1
_FEWEST, _MOST = 4, 1024


def footprint(grid: Grid) -> tuple[dict[str, Any], list[float]] | None:
    """Geometry and bounding box of a grid; None where it has no place on Earth.

    GeoJSON draws straight lines between longitudes and latitudes, so points follow the sides. What crosses
    the antimeridian is cut there, and its box has a western edge that is larger than its eastern one.

    >>> geometry, box = footprint(Grid("EPSG:32601", (10, 0, 160_000, 0, -10, 100_000), 2000, 100))
    >>> geometry["type"], [round(value, 2) for value in box]
    ('MultiPolygon', [179.95, 0.89, -179.87, 0.9])
    """
    ring = _ring(grid)
    if ring is None:
        return None
    require("shapely")
    import shapely

    turned = [shapely.Polygon(ring - [turn, 0.0]) for turn in (-360.0, 0.0, 360.0)]
    shape = shapely.union_all(shapely.clip_by_rect(turned, -180.0, -90.0, 180.0, 90.0))
    parts = [part for part in shapely.get_parts(shape) if part.area > 0]
    outlines = (shapely.geometry.polygon.orient(part).exterior for part in parts)
    polygons = [[shapely.get_coordinates(outline).round(7).tolist()] for outline in outlines]
    if len(polygons) == 1:
        return {"type": "Polygon", "coordinates": polygons[0]}, _box(ring)
    return {"type": "MultiPolygon", "coordinates": polygons}, _box(ring)


def _box(ring: NDArray[np.float64]) -> list[float]:
    """West, south, east and north; where the antimeridian is crossed, west is larger than east."""
    (west, south), (east, north) = ring.min(axis=0), ring.max(axis=0)
    if east - west >= 360.0:
        west, east = -180.0, 180.0
    west, east = (west + 360.0 if west < -180.0 else west), (east - 360.0 if east > 180.0 else east)
    return [round(float(value), 7) for value in (west, south, east, north)]


def _ring(grid: Grid) -> NDArray[np.float64] | None:
    """Closed outline whose longitudes run on beyond ±180° instead of jumping; (point, 2)."""
    if grid.crs is None:
        return None
    n = _FEWEST
    while (
        (points := outline(grid, n, "EPSG:4326")) is not None and n < _MOST and _off(grid, points) > TOLERANCE
    ):
        n *= 2
    if points is None:
        return None
    longitudes = np.unwrap(points[:, 0], period=360.0)
    ring = np.column_stack([longitudes, points[:, 1]])
    if abs(longitudes[-1] - longitudes[0]) > 180.0:  # around a pole: it is inside, so go there and back
        pole = float(np.copysign(90.0, points[:, 1].mean()))
        ring = np.vstack([ring, [longitudes[-1], pole], [longitudes[0], pole], ring[0]])
    ring[-1] = ring[0]  # to the last bit, so that the outline does not cross itself
    middle = (ring[:, 0].min() + ring[:, 0].max()) / 2
    return ring - [360.0 * np.round(middle / 360.0), 0.0]


def outline(grid: Grid, n: int, crs: str) -> NDArray[np.float64] | None:
    """Places of n points a side in a CRS, and the first once more: (point, 2); None if one has no place."""
    along = np.arange(n) / n
    zero, one = np.zeros(n), np.ones(n)
    cols = grid.width * np.concatenate([zero, along, one, 1 - along, [0.0]])
    rows = grid.height * np.concatenate([along, one, 1 - along, zero, [0.0]])
    return moved(np.column_stack(grid.coordinates(rows, cols)), str(grid.crs), crs)


def moved(points: NDArray[np.float64], source: str, target: str) -> NDArray[np.float64] | None:
    """Points (point, 2) in another CRS; None if one of them has no place there."""
    place = np.column_stack(move(source, target, points[:, 0], points[:, 1]))
    return place if np.isfinite(place).all() else None


def _off(grid: Grid, points: NDArray[np.float64]) -> float:
    """Largest distance from the middles between neighbours to the middles of the sides' parts, in pixels."""
    from rasterio.warp import transform

    longitudes = np.unwrap(points[:, 0], period=360.0)
    middles = (longitudes[1:] + longitudes[:-1]) / 2, (points[1:, 1] + points[:-1, 1]) / 2
    x, y = (np.array(values) for values in transform("EPSG:4326", grid.crs, *middles)[:2])
    rows, cols = grid.places(x, y)
    beyond = np.minimum.reduce([abs(cols), abs(rows), abs(cols - grid.width), abs(rows - grid.height)])
    return float(np.nan_to_num(beyond, nan=np.inf).max())
