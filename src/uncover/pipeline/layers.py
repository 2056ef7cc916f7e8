"""Bands of rasters seen on the grid of a scene by nearest neighbour, window by window."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.raster.align import Pick, split_band
from uncover.raster.area import window_of
from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window
from uncover.raster.tiles import RasterInfo, TileCache, describe


@dataclass(frozen=True)
class Layer:
    """One band of a raster, to be read on other grids than its own."""

    info: RasterInfo
    band: int

    @classmethod
    def open(cls, name: str | Path) -> Layer:
        """Layer of a file, given as `FILE` or `FILE:BAND`."""
        path, band = split_band(name)
        info = describe(path)
        info.bands(band)  # says what is wrong where the file has no such band
        return cls(info, band)

    @property
    def name(self) -> str:
        """What to call it in a message."""
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
                f"{self.name} does not overlap the area of the labels: its bounds are {_text(own)}, those "
                f"of the area {_text(grid)}; give maps of one place, or another area"
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


def _text(grid: Grid) -> str:
    return "(" + ", ".join(f"{value:.7g}" for value in grid.bounds) + f") {grid.crs or 'without a CRS'}"
