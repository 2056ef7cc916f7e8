"""How a scene is to be read: one frozen value instead of a dozen keywords."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from uncover.measurement.bands import canonical_band as canonical_band
from uncover.raster.grid import Bounds
from uncover.raster.quality import Quality
from uncover.raster.resample import Resampling
from uncover.raster.scene import CACHE_BYTES, Level


@dataclass(frozen=True)
class SceneOptions:
    """What the user says about a scene. Everything has a default; metadata win where they speak.

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
        A raster of the user's own. Where it is not 0 there is no data, unless `mask_values` says what each
        number means.
    scene_id
        Identity of the scene, in place of the one that the product or the file has.
    level
        For scenes that do not say it: "L1C", top-of-atmosphere reflectance, or "L2A", surface reflectance.
    granule
        For products with several tiles: the tile, for instance "T32TQM".

    >>> SceneOptions(bands=("B02", "B03"), offset=-0.1).resampling
    'nearest'
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
