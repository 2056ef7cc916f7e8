"""A scene: what was measured, where, when, and how well; how it is read, window by window."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from uncover.measurement.features import SEN2COR, Features
from uncover.measurement.features import Level as Level
from uncover.raster.angles import AngleGrids, Angles
from uncover.raster.errors import SceneError
from uncover.raster.fingerprints import content_identity
from uncover.raster.grid import Bounds, Grid, Window, finest_grid
from uncover.raster.layers import BandGroup, Calibration, Flags, Mask, PlaneBits, inside_polygons
from uncover.raster.pixel_kernels import complete
from uncover.raster.quality import Flagged, Quality
from uncover.raster.resample import Resampling
from uncover.raster.tiles import ArrayPlanes, TileCache

#: Enough for one row of Sentinel-2 blocks: each tile is then decoded once per pass.
CACHE_BYTES = 256 * 1024 * 1024


class Raster(Protocol):
    """Common properties of scenes, cubes and whatever is made of them."""

    @property
    def identity(self) -> str:
        """Name: the datatake, the user's name for it, or the file's."""

    @property
    def source_id(self) -> str:
        """Identity by which errors are shared: datatake, the user's --scene-id, or a hash of the content."""

    @property
    def bands(self) -> tuple[str, ...]:
        """Names of the bands, in order."""

    @property
    def grid(self) -> Grid:
        """Where the pixels lie."""

    @property
    def features(self) -> Features:
        """Kind of the values, as far as it is stated."""

    @property
    def sensing_time(self) -> datetime | None:
        """When it was measured, where that is stated."""


@dataclass(frozen=True)
class Atmosphere:
    """The atmosphere as the product's metadata give it; None where they are silent.

    `aot` is the mean aerosol optical thickness at 550 nm, `water_vapour` in cm, `ozone` in Dobson units;
    `aot_method` is the product's AOT_RETRIEVAL_METHOD, for instance CAMS or SEN2COR_DDV.
    """

    aot: float | None = None
    water_vapour: float | None = None
    ozone: float | None = None
    aot_method: str | None = None


@dataclass(frozen=True)
class Block(Flagged):
    """Reflectance and quality bits of one window.

    >>> block = Block(Window(0, 0, 1, 2), ("B02",), np.array([[[0.1, np.nan]]], np.float32),
    ...               np.array([[0, 1]], np.uint16))
    >>> block.valid.tolist(), block.samples().tolist() == [[np.float32(0.1)]]
    ([[True, False]], True)
    """

    window: Window
    bands: tuple[str, ...]
    reflectance: NDArray[np.float32]  # (band, row, col), NaN where there is none
    quality: Flags  # (row, col), bits of Quality

    def samples(self, where: NDArray[np.bool_] | None = None) -> NDArray[np.float32]:
        """Reflectance of some pixels, the valid ones by default, (pixel, band), row by row."""
        chosen = self.valid if where is None else where
        return np.ascontiguousarray(self.reflectance[:, chosen].T)


@dataclass(frozen=True)
class Scene:
    """Bands of one acquisition on one grid; made by `open_scene`, read by windows.

    A scene holds no pixels, only where they come from. `source_id` says which scenes share an error: the
    datatake of the product, the user's own name, or a hash of the content where `identity` is only the name
    of a file (`named` is False).

    >>> grid = Grid("EPSG:32633", (10, 0, 300000, 0, -10, 5000000), width=4, height=3)
    >>> scene = scene_from_array(np.full((2, 3, 4), 0.1, np.float32), grid, ("B02", "B03"))
    >>> block = scene.read(Window(0, 0, 2, 2))
    >>> block.reflectance.shape, bool(block.valid.all())
    ((2, 2, 2), True)
    """

    identity: str
    bands: tuple[str, ...]
    grid: Grid
    groups: tuple[BandGroup, ...]
    masks: tuple[Mask, ...] = ()
    level: Level | None = None
    platform: str | None = None
    sensing_time: datetime | None = None
    baseline: str | None = None
    atmosphere: Atmosphere = Atmosphere()
    angle_grids: AngleGrids | None = None
    aot_layer: BandGroup | None = None
    water_vapour_layer: BandGroup | None = None
    aerosol_forecast: bytes | None = field(default=None, repr=False)  # AUX_CAMSFO of an L1C product, in GRIB
    area: tuple[bytes, ...] | None = None  # polygons (WKB) in the CRS of the grid; outside them is nodata
    resampling: Resampling = "nearest"
    cache: TileCache = field(default_factory=lambda: TileCache(CACHE_BYTES), compare=False, repr=False)
    named: bool = True  # whether the identity is more than the name of a file
    date: str | None = None  # day, month or interval that a name or a person states, where no time is known
    dated_by: str = "metadata"  # who states time or date: else the name of the file
    calibrated_by: str = (
        "metadata"  # who states scale and offset: else "options", scene.toml, the model, nobody
    )

    @cached_property
    def source_id(self) -> str:
        """Identity that no other scene has: the name, or a hash of the content where that is a file's."""
        return self.identity if self.named else content_identity(self.groups)

    def __post_init__(self) -> None:
        if not self.bands or len(set(self.bands)) < len(self.bands):
            raise SceneError(
                f"scene {self.identity} has the bands {', '.join(self.bands) or 'none'}; every band needs "
                "a name of its own, give them with bands="
            )

    def read(self, window: Window | None = None, out: NDArray[np.float32] | None = None) -> Block:
        """Reflectance and quality bits of a window of `grid` (all of it by default), into `out` if given.

        The numbers of a pixel do not depend on the window that it is read with.
        """
        window = self.grid.window if window is None else window
        self._check(window)
        reflectance = np.empty((len(self.bands), *window.shape), np.float32) if out is None else out
        quality = np.zeros(window.shape, np.uint16)
        # Neighbours, which are read at the same time, begin at either end: none waits for tiles of the other.
        for group in self.groups if window.col // window.width % 2 == 0 else self.groups[::-1]:
            planes = [reflectance[self.bands.index(band)] for band in group.bands]
            group.fill(self.grid, window, self.resampling, self.cache, planes, quality)
        for mask in self.masks:
            quality |= mask.flags(self.grid, window, self.cache)
        left_out = (quality & np.uint16(Quality.NODATA)) != 0
        if left_out.any():
            reflectance[:, left_out] = np.nan
        if self.area is not None:
            outside = ~inside_polygons(self.area, self.grid, window)
            reflectance[:, outside] = np.nan
        complete(reflectance, Quality.NODATA, Quality.PARTIAL, quality)
        return Block(window, self.bands, reflectance, quality)

    @property
    def bytes_per_pixel(self) -> int:
        """Memory of a window: its values, and what reading them takes."""
        return 24 * len(self.bands) + 32

    def _check(self, window: Window) -> None:
        if window.pixels == 0 or (window & self.grid.window) != window:
            raise SceneError(
                f"{window} does not lie inside scene {self.identity} of {self.grid.height} rows, "
                f"{self.grid.width} columns"
            )

    def blocks(self, size: int = 1024) -> Iterator[Window]:
        """Windows that cover the scene, cut along the tiles of its files where `size` allows."""
        row, col = self.grid.offset_in(self.product_grid)
        return self.grid.blocks(size, origin=(-row, -col))

    @property
    def product_grid(self) -> Grid:
        """The grid of the finest band as it is stored, of which a crop is a part."""
        return finest_grid([group.source.grid for group in self.groups])

    def angles(self, window: Window | None = None) -> Angles | None:
        """Sun and view angles per pixel, None where the product does not carry them."""
        window = self.grid.window if window is None else window
        self._check(window)
        return None if self.angle_grids is None else self.angle_grids.on(self.grid, window)

    def aot(self, window: Window | None = None) -> NDArray[np.float32] | None:
        """Aerosol optical thickness per pixel: the product's layer, NaN where it has no value; or None."""
        return self._layer(self.aot_layer, window)

    def mean_aot(self) -> float | None:
        """Mean of the AOT layer of the whole product, however the scene is cut; None where it has none."""
        if self.aot_layer is None:
            return None
        whole, total, count = self.aot_layer.source.grid, 0.0, 0
        for window in whole.blocks():
            values, _ = self.aot_layer.read(whole, window, "nearest", self.cache)
            total += float(np.nansum(values, dtype=np.float64))
            count += int(np.isfinite(values).sum())
        return total / count if count else None

    def water_vapour(self, window: Window | None = None) -> NDArray[np.float32] | None:
        """Water vapour column per pixel in cm: the product's layer, NaN where it has no value; or None."""
        return self._layer(self.water_vapour_layer, window)

    def _layer(self, layer: BandGroup | None, window: Window | None) -> NDArray[np.float32] | None:
        window = self.grid.window if window is None else window
        self._check(window)
        if layer is None:
            return None
        values, _ = layer.read(self.grid, window, "nearest", self.cache)
        plane: NDArray[np.float32] = values[0]
        return plane

    @property
    def features(self) -> Features:
        """Kind of the values: quantity, level, correction, and the calibration of each band."""
        found = {b: c for g in self.groups for b, c in zip(g.bands, g.calibrations, strict=True)}
        calibrations = [found[band] for band in self.bands]
        correction = SEN2COR if self.level == "L2A" and self.baseline is not None else None
        return Features.of_level(
            self.bands,
            self.level,
            [each.scale for each in calibrations],
            [each.offset for each in calibrations],
            correction,
        )

    def facts(self) -> dict[str, Any]:
        """The scene in plain numbers and words: for people, and for the fingerprint of a run."""
        return {
            "identity": self.identity,
            "level": self.level,
            "platform": self.platform,
            "baseline": self.baseline,
            "sensing_time": None if self.sensing_time is None else self.sensing_time.isoformat(),
            "bands": list(self.bands),
            "grid": asdict(self.grid),
            "resampling": self.resampling,
            "atmosphere": asdict(self.atmosphere),
            "area": None if self.area is None else [shape.hex() for shape in self.area],
            "sources": [
                {"file": group.source.name, "band": band, "calibration": asdict(calibration)}
                for group in self.groups
                for band, calibration in zip(group.bands, group.calibrations, strict=True)
            ],
        }

    def crop(self, window: Window) -> Scene:
        """The same scene on a window of its grid."""
        return replace(self, grid=self.grid.crop(window))


class OfRaster:
    """Whatever has the identity, the bands, the grid and the date of its `raster`."""

    if TYPE_CHECKING:

        @property
        def raster(self) -> Raster:
            """Scene or cube that the values come from."""

    @property
    def identity(self) -> str:
        """Name of the scene."""
        return self.raster.identity

    @property
    def source_id(self) -> str:
        """Identity of the scene: what decides who shares an error."""
        return self.raster.source_id

    @property
    def bands(self) -> tuple[str, ...]:
        """Bands of the scene."""
        return self.raster.bands

    @property
    def grid(self) -> Grid:
        """Grid of the scene."""
        return self.raster.grid

    @property
    def features(self) -> Features:
        """Kind of the values of the scene."""
        return self.raster.features

    @property
    def sensing_time(self) -> datetime | None:
        """When the scene was measured, where it says so."""
        return self.raster.sensing_time


def scene_from_array(
    reflectance: NDArray[np.floating[Any]],
    grid: Grid,
    bands: tuple[str, ...],
    *,
    quality: Flags | None = None,
    identity: str = "array",
) -> Scene:
    """A scene whose pixels are in memory: reflectance (band, row, col), NaN where there is none.

    `quality` adds bits of its own; the nodata and partial bits follow from the NaNs. Everything else that a
    scene carries can be set with `dataclasses.replace`.

    >>> grid = Grid(None, (10, 0, 0, 0, -10, 0), width=2, height=1)
    >>> values = np.array([[[0.1, np.nan]], [[0.2, 0.3]]])
    >>> scene_from_array(values, grid, ("B02", "B03")).read().quality.tolist()
    [[0, 2]]
    """
    if reflectance.shape != (len(bands), *grid.shape):
        raise SceneError(f"an array of shape {reflectance.shape} came; {(len(bands), *grid.shape)} is needed")
    group = BandGroup(ArrayPlanes(reflectance, grid), bands, (Calibration(),) * len(bands))
    masks = () if quality is None else (PlaneBits(ArrayPlanes(quality[None], grid)),)
    return Scene(identity, bands, grid, (group,), masks, named=identity != "array")


@contextmanager
def prefetch(scene: Scene, limit: int) -> Iterator[None]:
    """Prefetch tiles into the scene's cache, up to so many bytes, in the order in which a map reads it.

    What cannot be read is left to whoever needs it: that reader gets the error.
    """
    stop = threading.Event()

    def fetch(*windows: Window) -> None:
        with suppress(SceneError, OSError):
            for window in windows:
                for group in scene.groups:
                    if stop.is_set() or scene.cache.nbytes >= limit:
                        return
                    group.fetch(scene.grid, window, scene.resampling, scene.cache)

    # Files are opened here: that changes warning filters for a moment, which all threads share.
    fetch(Window(0, 0, 1, 1))
    reader = threading.Thread(target=fetch, args=tuple(scene.grid.blocks()), name="read ahead")
    reader.start()
    try:
        yield
    finally:
        stop.set()
        reader.join()


@dataclass(frozen=True)
class SceneOptions:
    """Options for reading a scene. Everything has a default; metadata win where they speak.

    bands
        Names, in order. For a product: which bands. For a stack whose bands have names: which of them.
        For a stack without names: their names.
    scale, offset
        reflectance = scale · number + offset; they replace what the metadata say.
    nodata
        The number that means "no value"; it replaces what the file says.
    bbox, bbox_crs
        Area of interest: smallest x, smallest y, largest x, largest y; longitude and latitude by default.
    aoi
        A vector file: the scene is cut to its extent, and pixels outside its polygons become nodata.
    mask, mask_values
        A raster of the user's own. Pixels where it is not 0 are left out, unless `mask_values` says what each
        number means (`uncover.raster.quality.mask_values` reads "3,8-10" and "scl").
    scene_id
        Identity of the scene, in place of the one that the product or the file has.
    level
        For scenes that do not say it: "L1C", top-of-atmosphere reflectance, or "L2A", surface reflectance.
    granule
        For products with several tiles: the tile, for instance "T32TQM".
    sensor, date, angles
        For scenes that do not say it: "S2A", "S2B" or "S2C"; a time, day, month, year, or two with a slash
        between; sun zenith, view zenith and relative azimuth in degrees.
    resolution
        For products and band files: images of this pixel size (10, 20 or 60 m) and coarser ones.
    assumed
        Scale and offset of numbers that no metadata explain, and who states them; options come first.
    mask_buffer
        Metres around cloud, shadow, snow and saturated pixels that count as these do.
    cloud_probability
        For Level-2A products: pixels whose probability of cloud, in per cent, is this or more are cloud.
    moment
        Of a dataset with a time axis: the place on it, from 0.
    assumed_nodata
        The number that means "no value" in files that state none.
    band_names
        Names of all bands of a stack that has none; `bands` then chooses among them.
    """

    bands: tuple[str, ...] | None = None
    scale: float | None = None
    offset: float | None = None
    nodata: float | None = None
    resampling: Resampling = "nearest"
    bbox: Bounds | None = None
    bbox_crs: str = "EPSG:4326"
    aoi: Path | str | None = None
    mask: Path | str | None = None
    mask_values: Mapping[int, Quality] | None = None
    detector_masks: bool = True
    scene_id: str | None = None
    level: Level | None = None
    granule: str | None = None
    cache_bytes: int = field(default=CACHE_BYTES)
    sensor: str | None = None
    date: str | None = None
    angles: tuple[float, float, float] | None = None
    resolution: int | None = None
    assumed: tuple[float, float, str] | None = None
    mask_buffer: float = 0.0
    cloud_probability: float | None = None
    moment: int | None = None
    assumed_nodata: float | None = None
    band_names: tuple[str, ...] | None = None
