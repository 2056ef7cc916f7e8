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
    """Areas in m² of the pixels of a window (all by default), (row, col); 1 without a reference system.

    In projected systems it is the area in the projection. In degrees it is that on the ellipsoid: exact for
    north-up grids, and for turned ones to the second order in the size of a pixel.

    >>> pixel_areas(Grid("EPSG:32630", (10, 0, 500000, 0, -10, 5700000), width=2, height=1))
    array([[100., 100.]])
    >>> pixel_areas(Grid("EPSG:4326", (0.5, 0, 0, 0, -0.5, 60), width=1, height=2)).round(-6) / 1e6
    array([[1566.],
           [1589.]])
    """
    window = grid.window if window is None else window
    a, b, _, d, e, _ = grid.transform
    units = _units(grid.crs)
    if units is None:
        return np.broadcast_to(1.0, window.shape)
    if isinstance(units, float):
        return np.broadcast_to(abs(a * e - b * d) * units**2, window.shape)
    _, latitude = grid.centres(window)
    _check_latitudes(latitude, grid)
    if b != 0 or d != 0:
        return np.asarray(abs(a * e - b * d) * area_element(latitude, units))
    # Grids of global models may have half a pixel beyond the pole: nothing is there.
    south, north = (np.clip(latitude[:, :1] + side * abs(e) / 2, -90, 90) for side in (-1, 1))
    return np.broadcast_to(band_area(south, north, abs(a), units), window.shape)


def _check_latitudes(latitude: NDArray[np.float64], grid: Grid) -> None:
    if latitude.min() < -90.001 or latitude.max() > 90.001:
        raise SceneError(
            f"the latitudes of the grid go from {latitude.min():g} to {latitude.max():g} degrees "
            f"({grid.crs}); check its georeferencing"
        )


@lru_cache(maxsize=64)
def _units(crs: str | None) -> float | tuple[float, float] | None:
    """Metres per unit of a projected system; semi-major axis and inverse flattening of a geographic one."""
    if crs is None:
        return None
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
