"""Areas of interest and bands of rasters on the grid of a scene."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.raster.align import Pick, split_band
from uncover.raster.area import window_of
from uncover.raster.errors import SceneError
from uncover.raster.grid import Bounds, Grid, Window
from uncover.raster.layers import inside_polygons
from uncover.raster.opening import open_scene
from uncover.raster.tiles import RasterInfo, TileCache, describe
from uncover.raster.vectors import read_polygons


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
        left, bottom, right, top = (float(v) for v in shapely.total_bounds(polygons))
        window = window_of(grid, (left, bottom, right, top))
        return Part(grid.crop(window), tuple(shapely.to_wkb(polygon) for polygon in polygons))


@dataclass(frozen=True)
class Part:
    """A part of a grid, and the polygons (WKB, in its CRS) outside of which nothing is wanted."""

    grid: Grid
    polygons: tuple[bytes, ...] | None = None

    def inside(self, window: Window) -> NDArray[np.bool_] | None:
        """Pixels of a window of `grid` inside the polygons; None where there are no polygons."""
        if self.polygons is None:
            return None
        return inside_polygons(list(self.polygons), self.grid, window)


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


@dataclass(frozen=True)
class RasterBand:
    """One band of a raster, to be read on other grids than its own."""

    info: RasterInfo
    band: int

    @classmethod
    def open(cls, name: str | Path) -> RasterBand:
        """Layer of a file, given as `FILE` or `FILE:BAND`."""
        path, band = split_band(name)
        info = describe(path)
        info.bands(band)  # says what is wrong where the file has no such band
        return cls(info, band)

    @property
    def name(self) -> str:
        """Name in messages."""
        return self.info.path + (f":{self.band}" if self.band > 1 else "")

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its numbers."""
        return np.dtype(self.info.dtype)

    def check_overlap(self, grid: Grid) -> None:
        """Raise SceneError where the layer and the grid have no pixel in common."""
        own = self.info.grid
        try:
            window_of(own, grid.bounds, grid.crs)
        except SceneError:
            raise SceneError(
                f"{self.name} does not overlap the area of the labels: its bounds are {_bounds(own)}, those "
                f"of the area {_bounds(grid)}; give maps of one place, or another area"
            ) from None

    def read(self, grid: Grid, window: Window, cache: TileCache) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Numbers of a window of `grid` by nearest neighbour, and where there is one; both (row, col)."""
        pick = Pick.of(grid, window, self.info.grid)
        values = pick.take(self.info.bands(self.band), cache)[0]
        known = pick.inside
        if values.dtype.kind == "f":
            known = known & ~np.isnan(values)
        nodata = self.info.nodata[self.band - 1]
        return values, known if nodata is None else known & (values != nodata)


def _bounds(grid: Grid) -> str:
    return "(" + ", ".join(f"{value:.7g}" for value in grid.bounds) + f") {grid.crs or 'without a CRS'}"
