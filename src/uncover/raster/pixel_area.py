"""The area of pixels on the ground, in square metres."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from uncover.raster.grid import Grid, Window


def pixel_areas(grid: Grid, window: Window) -> NDArray[np.float64]:
    """Area of each pixel of a window in m², (row, col); 1 where the grid has no reference system.

    In projected systems it is the area in the projection; in geographic ones the area on the ellipsoid.

    >>> grid = Grid("EPSG:4326", (0.001, 0, 10, 0, -0.001, 60), width=2, height=1)
    >>> [round(float(a)) for a in pixel_areas(grid, grid.window)[0]]
    [6217, 6217]
    """
    a, b, _, d, e, _ = grid.transform
    det = abs(a * e - b * d)
    if grid.crs is None:
        return np.ones(window.shape)
    from rasterio.crs import CRS

    crs = CRS.from_user_input(grid.crs)
    if not crs.is_geographic:
        return np.full(window.shape, det * float(crs.linear_units_factor[1]) ** 2)
    major, flattening = _ellipsoid(crs.to_wkt())
    square = flattening * (2.0 - flattening)  # eccentricity squared
    _, y = grid.centres(window)
    latitude = np.radians(y)
    curvature = 1.0 - square * np.sin(latitude) ** 2
    # Radii of curvature M·N·cos φ: the area of one radian of longitude by one of latitude.
    element = major**2 * (1.0 - square) / curvature**2 * np.abs(np.cos(latitude))
    return np.broadcast_to(element * det * np.radians(1.0) ** 2, window.shape)


def _ellipsoid(wkt: str) -> tuple[float, float]:
    """Major axis in metres and flattening, from WKT 1."""
    import re

    found = re.search(r'(?:SPHEROID|ELLIPSOID)\["[^"]*",([0-9.eE+-]+),([0-9.eE+-]+)', wkt)
    if found is None:
        return 6378137.0, 1 / 298.257223563
    inverse = float(found.group(2))
    return float(found.group(1)), 0.0 if inverse == 0 else 1.0 / inverse
