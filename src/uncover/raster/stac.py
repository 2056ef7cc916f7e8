"""Scenes from STAC items: the assets that are bands, calibrated as the item or the product baseline says."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from uncover.measurement.bands import canonical_band, is_sentinel2
from uncover.raster.errors import ReadError, SceneError
from uncover.raster.grid import finest_grid
from uncover.raster.layers import BandGroup, Calibration, ValueMask
from uncover.raster.safe import SCL_MEANING, TEN_BANDS
from uncover.raster.safe_metadata import datatake_of
from uncover.raster.scene import Level, Scene, SceneOptions
from uncover.raster.stack import calibration, warn_of_offset
from uncover.raster.tiles import RasterInfo, TileCache, describe

#: Names that catalogues give to the bands of Sentinel-2.
COMMON_NAMES = {
    "coastal": "B01",
    "blue": "B02",
    "green": "B03",
    "red": "B04",
    "rededge1": "B05",
    "rededge2": "B06",
    "rededge3": "B07",
    "nir": "B08",
    "nir08": "B8A",
    "nir09": "B09",
    "swir16": "B11",
    "swir22": "B12",
}


@dataclass(frozen=True)
class Item:
    """A STAC item as far as it is needed here."""

    identity: str
    folder: str
    properties: dict[str, Any]
    assets: dict[str, dict[str, Any]]

    @property
    def is_sentinel2(self) -> bool:
        """True where the usual names of Sentinel-2 bands apply."""
        said = [self.properties.get(key, "") for key in ("constellation", "platform")]
        return any(str(text).lower().startswith("sentinel-2") for text in said)

    @property
    def level(self) -> Level | None:
        """Processing level, where the item states it."""
        keys = ("s2:product_type", "s2:processing_level", "product:type", "processing:level")
        said = " ".join(str(self.properties.get(key, "")) for key in keys)
        match = re.search(r"1C|2A", said)
        return None if match is None else "L1C" if match.group() == "1C" else "L2A"

    @property
    def baseline(self) -> str | None:
        """Processing baseline of the product, such as 04.00."""
        said = self.properties.get("s2:processing_baseline", self.properties.get("processing:version"))
        return None if said is None else str(said)

    def href(self, key: str) -> str:
        """Where an asset lies, relative names resolved against the item."""
        href = str(self.assets[key]["href"])
        if "://" in href or href.startswith("/"):
            return href.removeprefix("file://")
        return str(Path(self.folder) / href)


def read_item(path: str | Path) -> Item:
    """Read an item from a local file."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ReadError(f"{path} cannot be read as JSON ({error}); it may be truncated") from error
    if not isinstance(content, dict) or content.get("type") != "Feature" or not content.get("assets"):
        raise SceneError(
            f"{path} is not a STAC item with assets; give an item, not a catalogue or collection"
        )
    return Item(
        identity=str(content.get("id", Path(path).stem)),
        folder=str(Path(path).parent),
        properties=content.get("properties", {}),
        assets=content["assets"],
    )


def open_item(path: str | Path, options: SceneOptions) -> Scene:
    """A scene from an item's band assets."""
    item = read_item(path)
    assets = _band_assets(item)
    bands = _choose(item, assets, options)
    groups = tuple(_group(item, band, assets[band], options) for band in bands)
    masks = [_extra(item, "SCL")]
    scene = Scene(
        identity=options.scene_id or datatake_of(item.properties.get("s2:datatake_id")) or item.identity,
        bands=bands,
        grid=finest_grid([group.source.grid for group in groups]),
        groups=groups,
        masks=tuple(ValueMask(info.bands(1), SCL_MEANING) for info in masks if info is not None),
        level=item.level,
        platform=item.properties.get("platform"),
        sensing_time=_time(item.properties.get("datetime")),
        baseline=item.baseline,
        aot_layer=_auxiliary(item, "AOT"),
        water_vapour_layer=_auxiliary(item, "WVP"),
        resampling=options.resampling,
        cache=TileCache(options.cache_bytes),
    )
    # Catalogues often say the wrong thing about the offset: the numbers themselves are asked.
    if options.offset is None:
        warn_of_offset(scene)
    return scene


def _band_assets(item: Item) -> dict[str, str]:
    """Asset keys by band name; of several files of a band the first and finest."""
    found: dict[str, tuple[int, str]] = {}
    for key, asset in item.assets.items():
        described = asset.get("eo:bands") or asset.get("bands") or [{}]
        if len(described) > 1 or {"overview", "thumbnail", "visual"} & set(asset.get("roles", ())):
            continue
        stem, _, metres = key.partition("_")
        size = int(metres[:2]) if re.fullmatch(r"\d0m", metres) else 10
        name = _name(item, key if size == 10 and not metres else stem, described[0])
        if name and size < found.get(name, (1000, ""))[0]:
            found[name] = (size, key)
    return {name: key for name, (_, key) in found.items()}


def _name(item: Item, key: str, described: dict[str, Any]) -> str:
    """The band's name: Sentinel-2's own where it can be told, else the item's."""
    candidates = [key, str(described.get("name", "")), str(described.get("eo:common_name", ""))]
    names = [canonical_band(COMMON_NAMES.get(c.lower(), c) if item.is_sentinel2 else c) for c in candidates]
    return next(filter(is_sentinel2, names), "" if item.is_sentinel2 else key)


def _choose(item: Item, assets: dict[str, str], options: SceneOptions) -> tuple[str, ...]:
    wanted = options.bands
    if wanted is None:
        wanted = TEN_BANDS if item.is_sentinel2 else tuple(assets)
    bands = tuple(canonical_band(band) for band in wanted)
    missing = [band for band in bands if band not in assets]
    if missing or not bands:
        raise SceneError(
            f"STAC item {item.identity} has no asset for band {', '.join(missing)}; it has "
            f"{', '.join(assets) or 'none'}. Choose bands among them"
        )
    return bands


def _group(item: Item, band: str, key: str, options: SceneOptions) -> BandGroup:
    info = describe(item.href(key))
    return BandGroup(info.bands(1), (band,), (_calibration(item, key, info, options),))


def _calibration(item: Item, key: str, info: RasterInfo, options: SceneOptions) -> Calibration:
    """The user's word, else the item's, else the baseline's, else the file's."""
    asset = item.assets[key]
    said = {**asset, **_prefixed(asset.get("raster:bands")), **((asset.get("bands") or [{}])[0])}
    scale, offset = said.get("raster:scale"), said.get("raster:offset")
    if item.is_sentinel2 and item.baseline and scale is None:
        scale, offset = 1e-4, (-0.1 if item.baseline >= "04.00" else 0.0)
    if any(v is True for k, v in item.properties.items() if k.endswith(":boa_offset_applied")):
        offset = 0.0
    if scale is None:
        return calibration(info, 1, options)
    nodata = said.get("raster:nodata", said.get("nodata", info.nodata[0]))
    if options.nodata is not None:
        nodata = options.nodata
    return Calibration(
        scale=float(scale) if options.scale is None else options.scale,
        offset=float(offset or 0.0) if options.offset is None else options.offset,
        nodata=(0.0 if item.is_sentinel2 else None) if nodata is None else float(nodata),
    )


def _prefixed(raster_bands: Any) -> dict[str, Any]:
    """Fields of the older raster extension under the names of the newer."""
    return {f"raster:{name}": value for name, value in ((raster_bands or [{}])[0]).items()}


def _extra(item: Item, name: str) -> RasterInfo | None:
    key = next((k for k in item.assets if k.upper() in (name, f"{name}_20M", f"{name}_10M")), None)
    return None if key is None else describe(item.href(key))


def _auxiliary(item: Item, name: str) -> BandGroup | None:
    info = _extra(item, name)
    return None if info is None else BandGroup(info.bands(1), (name,), (Calibration(1e-3, nodata=0),))


def _time(text: str | None) -> datetime | None:
    return None if not text else datetime.fromisoformat(text.replace("Z", "+00:00"))
