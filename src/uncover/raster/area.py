"""Areas of interest on a grid: a bounding box or the polygons of a vector file, in any reference system."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.raster.errors import SceneError
from uncover.raster.grid import Bounds, Grid, Window
from uncover.raster.layers import inside_polygons
from uncover.raster.vectors import read_polygons


def window_of(grid: Grid, bounds: Bounds, crs: str | None = None) -> Window:
    """The smallest window of a grid that covers a bounding box given in `crs` (the grid's own by default).

    In degrees a box whose west lies east of its east goes across the antimeridian, as in RFC 7946.

    >>> grid = Grid("EPSG:32633", (10, 0, 300000, 0, -10, 5000000), width=100, height=100)
    >>> window_of(grid, (300015, 4999900, 300040, 4999990))
    Window(row=1, col=1, height=9, width=3)
    """
    degrees, given = _is_geographic(crs or grid.crs), bounds
    bounds, scene = (_unwrapped(box) if degrees else box for box in (bounds, _bounds_in(grid, crs)))
    _check_box(grid, bounds, crs)
    if degrees:
        bounds = _turned(bounds, scene)
    if _apart(bounds, scene):
        raise _outside(grid, given, crs)
    left, bottom, right, top = _in_grid_crs(grid, _near(bounds, scene), crs)
    if not np.isfinite((left, bottom, right, top)).all():
        raise _outside(grid, given, crs)
    corners = np.array([(x, y) for x in (left, right) for y in (bottom, top)]).T
    rows, cols = np.round(grid.places(*corners), 6)
    first_row, first_col = int(np.floor(rows.min())), int(np.floor(cols.min()))
    height, width = int(np.ceil(rows.max())) - first_row, int(np.ceil(cols.max())) - first_col
    window = Window(first_row, first_col, height, width) & grid.window
    if window.pixels == 0:
        raise _outside(grid, given, crs)
    return window


def _is_geographic(crs: str | None) -> bool:
    from rasterio.crs import CRS

    return crs is not None and bool(CRS.from_user_input(crs).is_geographic)


def _unwrapped(bounds: Bounds) -> Bounds:
    """A box across the antimeridian with its east beyond 180 degrees."""
    left, bottom, right, top = bounds
    if left > right + 180.0:  # by less, somebody has mistaken west for east
        return left, bottom, right + 360.0, top
    return bounds


def _turned(bounds: Bounds, scene: Bounds) -> Bounds:
    """A box in degrees, by whole turns as near to the scene as it can be; one around the world by any."""
    turn = (scene[0] + scene[2] - bounds[0] - bounds[2]) / 2
    if bounds[2] - bounds[0] < 360.0:
        turn = 360.0 * round(turn / 360.0)
    return bounds[0] + turn, bounds[1], bounds[2] + turn, bounds[3]


def _apart(bounds: Bounds, scene: Bounds) -> bool:
    """True where two boxes are apart, in the CRS of the box: far from its zone a projection folds back."""
    left, bottom, right, top = scene
    return bounds[3] <= bottom or bounds[1] >= top or bounds[2] <= left or bounds[0] >= right


def _near(bounds: Bounds, scene: Bounds) -> Bounds:
    """The part of a box that lies in the scene or not further away than it is large."""
    wide, high = scene[2] - scene[0], scene[3] - scene[1]
    left, bottom = max(bounds[0], scene[0] - wide), max(bounds[1], scene[1] - high)
    return left, bottom, min(bounds[2], scene[2] + wide), min(bounds[3], scene[3] + high)


def _outside(grid: Grid, bounds: Bounds, crs: str | None) -> SceneError:
    return SceneError(
        f"the area {bounds_text(bounds)} ({crs or grid.crs}) lies outside the scene, whose bounds are "
        f"{bounds_text(_bounds_in(grid, crs))}; check the coordinates and their reference system (--bbox-crs)"
    )


def _check_box(grid: Grid, bounds: Bounds, crs: str | None) -> None:
    left, bottom, right, top = bounds
    if not (left < right and bottom < top):
        raise SceneError(
            f"the bounding box {bounds} is empty; it needs smallest x, smallest y, largest x, largest y"
        )
    far = max(abs(left), abs(right)) > 360 or max(abs(bottom), abs(top)) > 90
    if far and crs is not None and grid.crs is not None and crs.upper() == "EPSG:4326":
        raise SceneError(
            f"the bounding box {bounds} is not in degrees, longitude before latitude; give it so, "
            f"or its CRS, --bbox-crs {grid.crs}"
        )


def _in_grid_crs(grid: Grid, bounds: Bounds, crs: str | None) -> Bounds:
    if crs is None or grid.crs is None:
        return bounds
    return transform_bounds(crs, grid.crs, bounds)


def _bounds_in(grid: Grid, crs: str | None) -> Bounds:
    if crs is None or grid.crs is None:
        return grid.bounds
    return transform_bounds(grid.crs, crs, grid.bounds)


def transform_bounds(source: str, target: str, bounds: Bounds) -> Bounds:
    """Bounds of a box in another reference system."""
    from rasterio import warp

    try:
        found: Any = warp.transform_bounds(source, target, *bounds, densify_pts=21)
    except Exception as error:  # rasterio lets GDAL's own kinds of error through
        raise SceneError(f"bounds {bounds} cannot be brought from {source} to {target}: {error}") from error
    left, bottom, right, top = (float(value) for value in found)
    return left, bottom, right, top


def bounds_text(bounds: Bounds) -> str:
    """Bounds for messages."""
    return "(" + ", ".join(f"{value:.7g}" for value in bounds) + ")"


@dataclass(frozen=True)
class Area:
    """The part of a grid that is wanted: all of it, a box (longitude and latitude by default), or polygons.

    >>> grid = Grid("EPSG:32633", (10, 0, 300000, 0, -10, 5000000), width=100, height=100)
    >>> Area(bbox=(300000, 4999900, 300040, 5000000), bbox_crs="EPSG:32633").of(grid).grid.shape
    (10, 4)
    """

    bbox: Bounds | None = None
    bbox_crs: str = "EPSG:4326"
    aoi: str | Path | None = None

    def of(self, grid: Grid) -> Part:
        """The smallest part of the grid that covers the area, and the polygons on it."""
        if self.bbox is not None:
            grid = grid.crop(window_of(grid, self.bbox, self.bbox_crs))
        if self.aoi is None:
            return Part(grid)
        import shapely

        polygons = read_polygons(self.aoi, grid)
        left, bottom, right, top = (float(value) for value in shapely.total_bounds(polygons))
        cut = grid.crop(window_of(grid, (left, bottom, right, top)))
        part = Part(cut, tuple(shapely.to_wkb(polygon) for polygon in polygons))
        if not any(np.any(part.inside(window)) for window in cut.blocks()):
            raise SceneError(
                f"the area of {self.aoi} holds no centre of a pixel of the scene; make it larger"
            )
        return part


@dataclass(frozen=True)
class Part:
    """A part of a grid, and the polygons (WKB, in its CRS) outside of which nothing is wanted."""

    grid: Grid
    polygons: tuple[bytes, ...] | None = None

    def inside(self, window: Window) -> NDArray[np.bool_] | None:
        """Pixels of a window of `grid` inside the polygons; None where there are no polygons."""
        return None if self.polygons is None else inside_polygons(self.polygons, self.grid, window)
