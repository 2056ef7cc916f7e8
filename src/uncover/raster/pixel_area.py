"""Area and sides of pixels in metres on the ellipsoid, whatever the projection."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.metrics.ellipsoid import band_area, radii
from uncover.raster.errors import SceneError, require
from uncover.raster.grid import Grid, Window
from uncover.raster.resample import move, on_lattice

Floats = NDArray[np.float64]

#: In a projection the scale is computed at nodes so far apart, in metres, and interpolated between them.
_NODES = 1000.0
#: Half the difference from which the scale at a node is computed, in metres.
_STEP = 50.0


def pixel_areas(grid: Grid, window: Window | None = None) -> Floats:
    """Areas in m² of the pixels of a window (all by default), (row, col); 1 without a reference system.

    They are areas on the ellipsoid of the reference system. For north-up grids in degrees they are exact;
    for all others they are right to the second order in the size of a pixel.

    >>> pixel_areas(Grid("EPSG:3035", (10, 0, 4e6, 0, -10, 3e6), width=2, height=1)).round(6)  # equal area
    array([[100., 100.]])
    >>> pixel_areas(Grid("EPSG:3857", (10, 0, 0, 0, -10, 6621293), width=1, height=1)).round(2)  # 51° N
    array([[39.66]])
    >>> pixel_areas(Grid("EPSG:4326", (0.5, 0, 0, 0, -0.5, 60), width=1, height=2)).round(-6) / 1e6
    array([[1566.],
           [1589.]])
    """
    window = grid.window if window is None else window
    if grid.crs is None:
        return np.broadcast_to(1.0, window.shape)
    system = _system(grid.crs)
    a, b, _, d, e, _ = grid.transform
    if system.base is None and b == d == 0:
        _, latitude = grid.centres(Window(window.row, window.col, window.height, 1))
        _check_latitudes(latitude, grid)
        # Grids of global models may have half a pixel beyond the pole: nothing is there.
        south, north = (np.clip(latitude + side * abs(e) / 2, -90, 90) for side in (-1, 1))
        return np.broadcast_to(band_area(south, north, abs(a), system.ellipsoid), window.shape)
    rows, cols = (
        np.arange(window.row, window.row + window.height),
        np.arange(window.col, window.col + window.width),
    )
    found = _interpolated(grid, rows + 0.5, cols + 0.5, system)
    lost = ~np.isfinite(found)
    if lost.any():  # next to the edge of the projection, beyond which nothing lies
        at = np.nonzero(lost)
        exact = _areas_at(grid, rows[at[0]], cols[at[1]])
        found[lost] = np.where(np.isfinite(exact), exact, 0.0)
    return found


def pixel_sides(grid: Grid, rows: Floats, cols: Floats) -> tuple[Floats, Floats]:
    """Steps on the ground of one row and of one column, in metres to the east and north: (..., 2) each.

    At rows and columns that are counted from the corner of the grid; NaN where the projection does not
    reach. Without a reference system, coordinates are taken to be metres.

    >>> grid = Grid("EPSG:3857", (10, 0, 0, 0, -10, 6621293), width=1, height=1)
    >>> down, across = pixel_sides(grid, np.array(0.5), np.array(0.5))
    >>> np.hypot(*down).round(2), np.hypot(*across).round(2)
    (np.float64(6.29), np.float64(6.31))
    """
    a, b, _, d, e, _ = grid.transform
    if grid.crs is None:
        shape = np.broadcast_shapes(np.shape(rows), np.shape(cols))
        return np.broadcast_to((b, e), (*shape, 2)), np.broadcast_to((a, d), (*shape, 2))
    system = _system(grid.crs)
    x, y = np.broadcast_arrays(*grid.coordinates(rows, cols))
    jacobian = _jacobian(grid, system, x, y)  # (..., ground, coordinate)
    return jacobian @ np.array([b, e]), jacobian @ np.array([a, d])


@dataclass(frozen=True)
class _System:
    """A reference system: its ellipsoid, metres per unit, and the geographic system that it projects."""

    ellipsoid: tuple[float, float]
    unit: float = 1.0
    base: str | None = None  # None: it is geographic itself, in degrees
    base_unit: float = 1.0  # degrees per unit of the base


def _interpolated(grid: Grid, rows: NDArray[Any], cols: NDArray[Any], system: _System) -> Floats:
    """Areas of pixels between nodes that are fixed to the grid: every window sees the same."""
    side = max(grid.resolution) * (system.unit if system.base else np.radians(1.0) * system.ellipsoid[0])
    step = max(1, int(_NODES / side))
    (areas,) = on_lattice(lambda r, c: (_areas_at(grid, r, c),), rows, cols, step)
    return areas


def _areas_at(grid: Grid, rows: Any, cols: Any) -> Floats:
    down, across = pixel_sides(grid, rows, cols)
    return np.asarray(np.abs(down[..., 0] * across[..., 1] - down[..., 1] * across[..., 0]))


def _jacobian(grid: Grid, system: _System, x: Floats, y: Floats) -> Floats:
    """Metres to the east and north for a unit of each coordinate: (..., ground, coordinate)."""
    if system.base is None:
        _check_latitudes(y, grid)
        north, east = (np.radians(each) for each in radii(y, system.ellipsoid))
        zero = np.zeros_like(north)
        return np.stack([np.stack([east, zero], -1), np.stack([zero, north], -1)], -2)
    h = _STEP / system.unit
    places = np.stack([x + h, x - h, x, x, x]), np.stack([y, y, y + h, y - h, y])
    moved = move(grid.crs, system.base, *(place.ravel() for place in places))
    with np.errstate(invalid="ignore"):
        longitude, latitude = (np.reshape(m, places[0].shape) * system.base_unit for m in moved)
        longitude, latitude = (np.where(np.isfinite(v), v, np.nan) for v in (longitude, latitude))
        turn = (np.stack([longitude[0] - longitude[1], longitude[2] - longitude[3]], -1) + 180) % 360 - 180
        climb = np.stack([latitude[0] - latitude[1], latitude[2] - latitude[3]], -1)
        north, east = radii(latitude[4], system.ellipsoid)
        return np.radians(np.stack([turn * east[..., None], climb * north[..., None]], -2)) / (2 * h)


def _check_latitudes(latitude: Floats, grid: Grid) -> None:
    if latitude.min() < -90.001 or latitude.max() > 90.001:
        raise SceneError(
            f"the latitudes of the grid go from {latitude.min():g} to {latitude.max():g} degrees "
            f"({grid.crs}); check its georeferencing"
        )


@lru_cache(maxsize=64)
def _system(crs: str) -> _System:
    require("pyproj")
    from pyproj import CRS

    system = CRS.from_user_input(crs)
    base, shape = system.geodetic_crs, system.ellipsoid
    if base is None or shape is None or not base.is_geographic:
        raise SceneError(
            f"the reference system {crs} does not say which latitudes and longitudes it projects, so that "
            "areas and distances on the ground are not known; choose another"
        )
    ellipsoid = shape.semi_major_metre, shape.inverse_flattening
    unit, degrees = system.axis_info[0], np.degrees(base.axis_info[0].unit_conversion_factor)
    if not system.is_geographic:
        return _System(ellipsoid, unit.unit_conversion_factor, base.to_wkt(), float(degrees))
    if unit.unit_name != "degree":
        raise SceneError(
            f"the reference system {crs} counts in {unit.unit_name}; areas need degrees or a projection"
        )
    return _System(ellipsoid)
