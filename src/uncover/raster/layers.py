"""Layers of a scene: calibrated bands and the masks that go with them, brought onto the scene's grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from uncover.raster.grid import Grid, Window
from uncover.raster.pixel_area import pixel_sides
from uncover.raster.pixel_kernels import calibrate
from uncover.raster.quality import CLEAR, FLAGGED, Quality
from uncover.raster.resample import Resampler, Resampling, read_nearest
from uncover.raster.tiles import Source, TileCache

Flags = NDArray[np.uint16]


class Mask(Protocol):
    """Anything that gives quality bits for a window of a grid."""

    def flags(self, grid: Grid, window: Window, cache: TileCache) -> Flags:
        """Quality bits of a window, (row, col)."""


@dataclass(frozen=True)
class ValueMask:
    """A class layer such as SCL: each value stands for some bits; values not listed stand for `other`."""

    source: Source
    meaning: tuple[tuple[int, Quality], ...]
    other: Quality = CLEAR

    def flags(self, grid: Grid, window: Window, cache: TileCache) -> Flags:
        """Bits by value; where the layer does not reach, none."""
        (values,), inside = read_nearest(self.source, grid, window, cache)
        out = np.full(window.shape, self.other, np.uint16)
        for value, bits in self.meaning:
            out[values == value] = bits
        out[~inside] = 0
        return out


@dataclass(frozen=True)
class PlaneMask:
    """A layer with one plane per condition, such as MSK_CLASSI: a plane that is not 0 sets its bits."""

    source: Source
    meaning: tuple[Quality, ...]  # one per plane

    def flags(self, grid: Grid, window: Window, cache: TileCache) -> Flags:
        """Bits of all planes together."""
        planes, _ = read_nearest(self.source, grid, window, cache)
        out = np.zeros(window.shape, np.uint16)
        for plane, bits in zip(planes, self.meaning, strict=True):
            out[plane != 0] |= np.uint16(bits)
        return out


@dataclass(frozen=True)
class PlaneBits:
    """A layer whose numbers are quality bits already."""

    source: Source

    def flags(self, grid: Grid, window: Window, cache: TileCache) -> Flags:
        """The bits; none where the layer does not reach."""
        (bits,), _ = read_nearest(self.source, grid, window, cache)
        return np.asarray(bits, np.uint16)


@dataclass(frozen=True)
class LeastMask:
    """A layer of shares such as a probability of cloud: pixels with so much or more get the bits."""

    source: Source
    least: float
    bits: Quality

    def flags(self, grid: Grid, window: Window, cache: TileCache) -> Flags:
        """The bits; none where the layer does not reach."""
        (values,), inside = read_nearest(self.source, grid, window, cache)
        return np.asarray(((values >= self.least) & inside) * np.uint16(self.bits), np.uint16)


@dataclass(frozen=True)
class BufferedMask:
    """Masks whose bits for cloud, shadow, snow and saturation grow by so many metres on every side."""

    masks: tuple[Mask, ...]
    metres: float

    def flags(self, grid: Grid, window: Window, cache: TileCache) -> Flags:
        """Bits of pixels nearer than that to one which has them, from centre to centre."""
        from scipy.ndimage import distance_transform_edt

        size = pixel_size(grid)
        reach = tuple(int(np.ceil(self.metres / each)) for each in size)
        wide = window.grown(*reach) & grid.window
        here = wide.shifted(-window.row, -window.col)
        out = np.zeros(wide.shape, np.uint16)
        for mask in self.masks:
            out |= mask.flags(grid, wide, cache)
        inner = Window(-here.row, -here.col, *window.shape).slices
        for bit in FLAGGED:
            has = out & np.uint16(bit) > 0
            if has.any() and not has.all():
                out[distance_transform_edt(~has, sampling=size) <= self.metres] |= np.uint16(bit)
        return np.ascontiguousarray(out[inner])


@dataclass(frozen=True)
class PolygonMask:
    """Polygons that set bits, such as the GML masks of older products; (WKB, bits) in the scene's CRS."""

    polygons: tuple[tuple[bytes, Quality], ...]

    def flags(self, grid: Grid, window: Window, cache: TileCache) -> Flags:
        """Bits of the polygons that a pixel's centre lies in."""
        out = np.zeros(window.shape, np.uint16)
        for bits in {bits for _, bits in self.polygons}:
            shapes = [shape for shape, its in self.polygons if its == bits]
            out[inside_polygons(shapes, grid, window)] |= np.uint16(bits)
        return out


@lru_cache(maxsize=64)
def pixel_size(grid: Grid) -> tuple[float, float]:
    """Height and width of the middle pixel of a grid on the ground."""
    down, across = pixel_sides(grid, np.array(grid.height / 2), np.array(grid.width / 2))
    return float(np.hypot(*down)), float(np.hypot(*across))


def inside_polygons(shapes: Sequence[bytes], grid: Grid, window: Window) -> NDArray[np.bool_]:
    """Which pixel centres of a window lie in one of the polygons (WKB, in the grid's CRS)."""
    if not shapes:
        return np.zeros(window.shape, np.bool_)
    import shapely
    from affine import Affine
    from rasterio.features import geometry_mask

    inside: NDArray[np.bool_] = geometry_mask(
        [shapely.from_wkb(shape) for shape in shapes],
        out_shape=window.shape,
        transform=Affine(*grid.crop(window).transform),
        invert=True,
    )
    return inside


@dataclass(frozen=True)
class Calibration:
    """From stored numbers to physical ones: scale·number + offset; some numbers mean something else.

    >>> sentinel = Calibration(1e-4, -0.1, nodata=0, saturated=65535)
    >>> values, saturated = sentinel.apply(np.array([[0, 1000, 65535]]))
    >>> values.tolist(), saturated.tolist()
    ([[nan, 0.0, nan]], [[False, False, True]])
    """

    scale: float = 1.0
    offset: float = 0.0
    nodata: float | None = None
    saturated: float | None = None

    @property
    def terms(self) -> tuple[float, float, float, float]:
        """Scale, offset, nodata and the saturated number; NaN where there is none."""
        special = (np.nan if number is None else number for number in (self.nodata, self.saturated))
        return (self.scale, self.offset, *special)  # type: ignore[return-value]

    def apply(self, numbers: NDArray[np.generic]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Physical values with NaN where there is none, and where the detector was saturated."""
        values = numbers.astype(np.float64)
        values *= self.scale
        values += self.offset
        full = np.zeros(numbers.shape, np.bool_)
        if self.saturated is not None:
            full = numbers == self.saturated
        values[full] = np.nan
        if self.nodata is not None:
            values[numbers == self.nodata] = np.nan
        return values, full


@dataclass(frozen=True)
class BandGroup:
    """Bands that live in one source, with their calibration; `detector` masks pixels of these bands alone."""

    source: Source
    bands: tuple[str, ...]
    calibrations: tuple[Calibration, ...]
    detector: Mask | None = None

    def fetch(self, grid: Grid, window: Window, method: Resampling, cache: TileCache) -> NDArray[np.generic]:
        """Numbers as they are stored, of all pixels that a window needs; the cache has their tiles then."""
        how = Resampler.between(grid, window, self.source.grid, method, self.source.name)
        numbers: NDArray[np.generic] = self.source.read(how.needed, cache)
        return numbers

    def read(
        self, grid: Grid, window: Window, method: Resampling, cache: TileCache
    ) -> tuple[NDArray[np.float32], Flags]:
        """Values (band, row, col) with NaN where there is none, and the saturation bit (row, col)."""
        out = np.empty((len(self.bands), *window.shape), np.float32)
        flags = np.zeros(window.shape, np.uint16)
        self.fill(grid, window, method, cache, list(out), flags)
        return out, flags

    def fill(
        self,
        grid: Grid,
        window: Window,
        method: Resampling,
        cache: TileCache,
        planes: Sequence[NDArray[np.float32]],
        flags: Flags,
    ) -> None:
        """The same into planes (row, col) that are there, and flags of which others may have set some."""
        numbers = self.fetch(grid, window, method, cache)
        how = Resampler.between(grid, window, self.source.grid, method, self.source.name)
        for plane, number, calibration in zip(planes, numbers, self.calibrations, strict=True):
            if how.copies and calibrate(number, calibration.terms, Quality.SATURATED, plane, flags):
                continue
            values, saturated = calibration.apply(number)
            plane[...] = how.interpolate(values)
            if saturated.any():
                flags[how.nearest(saturated)] |= np.uint16(Quality.SATURATED)
        defects = None if self.detector is None else self.detector.flags(grid, window, cache)
        for plane in planes:
            if not how.everywhere:
                plane[~how.inside] = np.nan
            if defects is not None:
                plane[defects & np.uint16(Quality.NODATA) != 0] = np.nan
        if defects is not None:
            flags |= defects & np.uint16(Quality.SATURATED)
