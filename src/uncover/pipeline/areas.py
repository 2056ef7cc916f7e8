"""Areas of interest on a grid: a bounding box or the polygons of a vector file, in any reference system."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from uncover.raster.align import split_band
from uncover.raster.area import window_of
from uncover.raster.errors import SceneError
from uncover.raster.grid import Bounds, Grid, Window
from uncover.raster.layers import inside_polygons
from uncover.raster.opening import open_scene
from uncover.raster.tiles import describe
from uncover.raster.vectors import read_features


@dataclass(frozen=True)
class Area:
    """The part of a grid that is wanted: all of it, a box (longitude and latitude by default), or polygons.

    >>> grid = Grid("EPSG:32633", (10, 0, 300000, 0, -10, 5000000), width=100, height=100)
    >>> Area(bbox=(300000, 4999900, 300040, 5000000), bbox_crs="EPSG:32633").cut(grid).shape
    (10, 4)
    """

    bbox: Bounds | None = None
    bbox_crs: str = "EPSG:4326"
    aoi: str | Path | None = None

    def cut(self, grid: Grid) -> Grid:
        """The smallest part of the grid that covers the area."""
        if self.bbox is not None:
            grid = grid.crop(window_of(grid, self.bbox, self.bbox_crs))
        if self.aoi is not None:
            import shapely

            shapes = [shapely.from_wkb(shape) for shape in _polygons(str(self.aoi), grid.crs)]
            left, bottom, right, top = (float(v) for v in shapely.total_bounds(shapes))
            grid = grid.crop(window_of(grid, (left, bottom, right, top)))
        return grid

    def inside(self, grid: Grid, window: Window) -> NDArray[np.bool_] | None:
        """Pixels of a window inside the polygons; None where there are no polygons to be inside of."""
        if self.aoi is None:
            return None
        return inside_polygons(list(_polygons(str(self.aoi), grid.crs)), grid, window)


@lru_cache(maxsize=4)
def _polygons(path: str, crs: str | None) -> tuple[bytes, ...]:
    import shapely

    shapes = [feature.shape for feature in read_features(path, crs)]
    polygons = tuple(shapely.to_wkb(shape) for shape in shapes if "Polygon" in shape.geom_type)
    if not polygons:
        raise SceneError(f"{path} holds no polygon; an area of interest needs one")
    return polygons


def grid_of(name: str | Path) -> Grid:
    """Grid of a scene or of any raster: where labels are to lie.

    >>> grid_of("nowhere.tif")
    Traceback (most recent call last):
    ...
    uncover.raster.errors.SceneError: nowhere.tif does not exist; check the path
    """
    text = str(name).rstrip("/").lower()
    if Path(name).is_dir() or text.endswith((".zip", ".json", ".geojson", ".nc", ".nc4", ".h5")):
        return open_scene(name).grid
    return describe(split_band(name)[0]).grid
