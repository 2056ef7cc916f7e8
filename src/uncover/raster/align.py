"""Rasters on other grids, in any CRS, brought onto a scene's grid by nearest neighbour: labels, masks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.raster.area import bounds_text, window_of
from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window
from uncover.raster.names import split_band
from uncover.raster.resample import positions, read_nearest
from uncover.raster.tiles import RasterInfo, TileCache, describe
from uncover.warn import warn

#: Rows that are aligned at a time: positions take more memory than labels.
STRIP = 256


@dataclass(frozen=True)
class Aligned:
    """A raster's values on another grid, and where it has any, both (row, col)."""

    values: NDArray[Any]
    valid: NDArray[np.bool_]

    def filled(self, value: float) -> NDArray[Any]:
        """The values, with `value` where there is none."""
        return np.where(self.valid, self.values, np.asarray(value, self.values.dtype))


@dataclass(frozen=True)
class RasterBand:
    """One band of a raster, to be read on other grids than its own."""

    info: RasterInfo
    band: int

    @classmethod
    def open(cls, name: str | Path) -> RasterBand:
        """Band of a file, given as `FILE` or `FILE:BAND`."""
        path, band = split_band(name)
        info = describe(path)
        info.bands(band)  # says what is wrong where the file has no such band
        return cls(info, band)

    @property
    def name(self) -> str:
        """Path, with the band where it is not the first."""
        return self.info.path + (f":{self.band}" if self.band > 1 else "")

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its numbers."""
        return np.dtype(self.info.dtype)

    def read(self, grid: Grid, window: Window, cache: TileCache) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Numbers of a window of `grid` by nearest neighbour, and where there is one; both (row, col)."""
        (values,), known = read_nearest(self.info.bands(self.band), grid, window, cache)
        if values.dtype.kind == "f":
            known = known & ~np.isnan(values)
        nodata = self.info.nodata[self.band - 1]
        return values, known if nodata is None else known & (values != nodata)


def align_raster(name: str | Path, grid: Grid, window: Window | None = None) -> Aligned:
    """Values of `FILE` or `FILE:band` at the pixel centres of a window of a grid (all of it by default).

    Nearest neighbour: a value is never mixed with another, and does not depend on the window.
    """
    layer = RasterBand.open(name)
    window = grid.window if window is None else window
    grid.crop(window)
    check_overlap(layer.name, grid, layer.info.grid)
    values, valid = np.zeros(window.shape, layer.dtype), np.zeros(window.shape, np.bool_)
    cache = TileCache()
    for strip in window.cut((STRIP, window.width), (window.row, window.col)):
        rows = strip.shifted(-window.row, -window.col).slices[0]
        values[rows], valid[rows] = layer.read(grid, strip, cache)
    return Aligned(values, valid)


def check_overlap(
    name: str, grid: Grid, source: Grid, needed: str = "a raster", place: str = "the scene"
) -> None:
    """Refuse a raster that lies somewhere else than the place of a grid."""
    try:
        window_of(source, grid.bounds, grid.crs)
    except SceneError as error:
        raise SceneError(
            f"{name} does not overlap {place}: its bounds are {bounds_text(source.bounds)} ({source.crs}), "
            f"those of {place} {bounds_text(grid.bounds)} ({grid.crs}); give {needed} of the same place"
        ) from error


def check_cover(name: str | Path, grid: Grid) -> None:
    """Refuse a mask that lies somewhere else than a scene, and warn of one that covers a part of it."""
    path, _ = split_band(name)
    source = describe(path).grid
    check_overlap(path, grid, source, "a mask")
    warn_of_part(path, grid, source, "the rest of it is not masked")


def warn_of_part(path: str, grid: Grid, source: Grid, rest: str) -> None:
    """Warn of a raster that covers a part of a scene only, with the share; `rest` says what comes of it."""
    down, across = (np.linspace(0.5, length - 0.5, min(length, 32)) for length in grid.shape)
    row, col = positions(grid, down[:, None], across[None, :], source)
    with np.errstate(invalid="ignore"):
        covered = (row >= 0) & (row < source.height) & (col >= 0) & (col < source.width)
    if covered.mean() < 0.99:  # a rim of pixels is lost by every warp
        warn(
            f"{path} covers about {covered.mean():.0%} of the scene; {rest}",
        )
