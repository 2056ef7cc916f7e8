"""Area of pixels in square metres: on the ellipsoid where coordinates are degrees, else by the transform."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from uncover.metrics.ellipsoid import area_element, band_area
from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window


def pixel_areas(grid: Grid, window: Window | None = None) -> NDArray[np.float64]:
    """Areas in m² of the pixels of a window (all by default), in a shape that broadcasts to (row, col).

    In degrees each row of a north-up grid has its own area, exact on the ellipsoid of its reference system:
    the shape is (row, 1). Elsewhere all pixels have that of the transform, (1, 1). A grid without a
    reference system is taken to be in metres.

    >>> pixel_areas(Grid("EPSG:32630", (10, 0, 500000, 0, -10, 5700000), width=4, height=4))
    array([[100.]])
    >>> pixel_areas(Grid("EPSG:4326", (0.5, 0, 0, 0, -0.5, 60), width=4, height=2)).round(-6) / 1e6
    array([[1566.],
           [1589.]])
    """
    window = grid.window if window is None else window
    a, b, _, d, e, f = grid.transform
    units = _units(grid.crs)
    if isinstance(units, float):
        return np.full((1, 1), abs(a * e - b * d) * units**2)
    if b == 0 and d == 0:
        edges = np.float64(f) + e * np.arange(window.row, window.row + window.height + 1, dtype=np.float64)
        _check_latitudes(edges, grid)
        south, north = np.minimum(edges[:-1], edges[1:]), np.maximum(edges[:-1], edges[1:])
        return np.asarray(band_area(south, north, abs(a), units))[:, np.newaxis]
    _, latitude = grid.centres(window)
    _check_latitudes(latitude, grid)
    return np.asarray(abs(a * e - b * d) * area_element(latitude, units))


def _check_latitudes(latitude: NDArray[np.float64], grid: Grid) -> None:
    if latitude.min() < -90.001 or latitude.max() > 90.001:
        raise SceneError(
            f"the latitudes of the grid go from {latitude.min():g} to {latitude.max():g} degrees "
            f"({grid.crs}); check its georeferencing"
        )


@lru_cache(maxsize=64)
def _units(crs: str | None) -> float | tuple[float, float]:
    """Metres per unit of a projected system; semi-major axis and inverse flattening of a geographic one."""
    if crs is None:
        return 1.0
    from rasterio.crs import CRS

    system = CRS.from_user_input(crs)
    if not system.is_geographic:
        return float(system.linear_units_factor[1])
    unit, _ = system.units_factor
    if unit != "degree":
        raise SceneError(f"the reference system {crs} counts in {unit}; areas need degrees or a projection")
    text = system.to_wkt(version="WKT2_2019")
    found = re.search(r'ELLIPSOID\["[^"]*",\s*([0-9.eE+]+),\s*([0-9.eE+]+)', text)
    if found is None:
        raise SceneError(f"the reference system {crs} does not say which ellipsoid it uses; choose another")
    return float(found[1]), float(found[2])
