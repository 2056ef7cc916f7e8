"""Metres on a grid, also where its coordinates are degrees."""

from __future__ import annotations

from math import cos, radians

from uncover.raster.grid import Grid


def pixel_metres(grid: Grid) -> tuple[float, float]:
    """Height and width of a pixel in metres: at the centre of the grid where its coordinates are degrees.

    A grid without a reference system is taken to be in metres.

    >>> pixel_metres(Grid("EPSG:32630", (10, 0, 500000, 0, -10, 5700000), width=4, height=4))
    (10.0, 10.0)
    >>> height, width = pixel_metres(Grid("EPSG:4326", (0.001, 0, 0, 0, -0.001, 60), width=4, height=4))
    >>> round(height, 1), round(width, 1)
    (111.4, 55.8)
    """
    width, height = grid.resolution
    if grid.crs is None:
        return height, width
    from rasterio.crs import CRS

    crs = CRS.from_user_input(grid.crs)
    if crs.is_geographic:
        _, bottom, _, top = grid.bounds
        north, east = _metres_per_degree((bottom + top) / 2)
        return height * north, width * east
    _, factor = crs.linear_units_factor
    return height * factor, width * factor


def block_pixels(metres: float, grid: Grid) -> tuple[int, int]:
    """Rows and columns of a square of so many metres."""
    height, width = pixel_metres(grid)
    rows, columns = round(metres / height), round(metres / width)
    if min(rows, columns) < 1:
        raise ValueError(
            f"a block of {metres:g} m is smaller than a pixel ({height:.3g} x {width:.3g} m); make it larger"
        )
    return rows, columns


def _metres_per_degree(latitude: float) -> tuple[float, float]:
    """Length of a degree of latitude and of longitude on WGS 84, by the usual series in the latitude."""
    phi = radians(latitude)
    north = 111132.92 - 559.82 * cos(2 * phi) + 1.175 * cos(4 * phi) - 0.0023 * cos(6 * phi)
    east = 111412.84 * cos(phi) - 93.5 * cos(3 * phi) + 0.118 * cos(5 * phi)
    return north, east
