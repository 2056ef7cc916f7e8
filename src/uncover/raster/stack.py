"""Scenes from raster files: one stack, a list of band files, or the assets of a STAC item."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Required, TypedDict

import numpy as np
from numpy.typing import NDArray

from uncover import remote
from uncover.engines.threads import in_order
from uncover.files import read_json, typed
from uncover.measurement.bands import canonical_band, is_sentinel2
from uncover.raster.errors import NoScaleError, OffsetWarning, ReadError, SceneError
from uncover.raster.grid import finest_grid, same_crs
from uncover.raster.layers import BandGroup, Calibration, LeastMask, Mask, ValueMask
from uncover.raster.names import NamedFacts
from uncover.raster.npy import stem
from uncover.raster.quality import SCL_MEANING, Quality
from uncover.raster.safe import TEN_BANDS
from uncover.raster.safe_metadata import datatake_of
from uncover.raster.scene import Level, Scene, SceneOptions
from uncover.raster.tiles import RasterInfo, TileCache, describe
from uncover.warn import warn

#: From baseline 04.00 on Sentinel-2 numbers carry +1000, that is +0.1 in reflectance.
PRODUCT_OFFSET = 0.1


@dataclass(frozen=True)
class BandChoice:
    """A band as a stack offers it: its name and where it lies."""

    name: str
    info: RasterInfo
    index: int


def open_stack(paths: Sequence[str | Path], options: SceneOptions) -> Scene:
    """A scene from one raster with several bands, or from several files."""
    infos = [describe(path) for path in paths]
    every = [choice for info in infos for choice in _offered(info)]
    names = options.band_names or ()
    if len(names) == len(every) and not any(choice.name for choice in every):
        every = [replace(c, name=canonical_band(name)) for c, name in zip(every, names, strict=True)]
    chosen = choose_bands(every, options, str(paths[0]))
    groups = tuple(_group(info, chosen, options) for info in infos if any(c.info is info for c in chosen))
    _check_one_grid(groups)
    scene = Scene(
        identity=options.scene_id or stem(paths[0]),
        bands=tuple(choice.name for choice in chosen),
        grid=finest_grid([group.source.grid for group in groups]),
        groups=groups,
        level=_level(infos),
        resampling=options.resampling,
        cache=TileCache(options.cache_bytes),
        named=options.scene_id is not None,
        calibrated_by=_calibrated_by(infos, options),
    )
    if options.offset is None:
        warn_of_offset(scene)
    if options.scale is not None:
        warn_of_scale(scene)
    return scene


def _check_one_grid(groups: Sequence[BandGroup]) -> None:
    """Refuse bands of different places: pixel sizes may differ, reference system and extent may not."""
    first = groups[0].source
    for group in groups[1:]:
        other = group.source
        pixel = max(*first.grid.resolution, *other.grid.resolution)
        apart = max(abs(a - b) for a, b in zip(first.grid.bounds, other.grid.bounds, strict=True))
        if not same_crs(first.grid.crs, other.grid.crs) or apart > pixel:
            raise SceneError(
                f"{other.name} lies on another grid than {first.name} ({other.grid.crs}, "
                f"{_extent(other.grid.bounds)}; {first.grid.crs}, {_extent(first.grid.bounds)}); bands of a "
                "scene cover the same ground: warp it first"
            )


def _extent(bounds: tuple[float, ...]) -> str:
    return " ".join(f"{value:.10g}" for value in bounds)


def _calibrated_by(infos: list[RasterInfo], options: SceneOptions) -> str:
    """Who states scale and offset of the numbers."""
    if options.scale is not None or options.offset is not None:
        return "options"
    if any(scale != 1 for info in infos for scale in info.scales) or any(o for i in infos for o in i.offsets):
        return "metadata"
    return "nobody" if options.assumed is None else options.assumed[2]


def _level(infos: list[RasterInfo]) -> Level | None:
    """The level that all files state as GDAL does, which hands on the metadata of a product; else None."""
    stated = {info.tags.get("PROCESSING_LEVEL", "")[:8] for info in infos}
    levels: dict[str, Level] = {"Level-1C": "L1C", "Level-2A": "L2A"}
    return levels.get(stated.pop()) if len(stated) == 1 else None


def _offered(info: RasterInfo) -> list[BandChoice]:
    names = [canonical_band(name) if name else "" for name in info.names]
    if info.count == 1 and (band := NamedFacts.of(info.path).band):
        names = [band]
    return [BandChoice(name, info, i) for i, name in enumerate(names, start=1)]


def choose_bands(offered: list[BandChoice], options: SceneOptions, what: str) -> list[BandChoice]:
    """The bands asked for, by name; or all, named as asked where the file has no names."""
    named = {choice.name: choice for choice in offered if choice.name}
    if options.bands is None:
        return [
            choice if choice.name else BandChoice(f"band_{i}", choice.info, choice.index)
            for i, choice in enumerate(offered, start=1)
        ]
    asked = [canonical_band(band) for band in options.bands]
    if all(band in named for band in asked):
        return [named[band] for band in asked]
    if len(asked) == len(offered) and not any(band in named for band in asked):
        return [BandChoice(name, c.info, c.index) for name, c in zip(asked, offered, strict=True)]
    missing = [band for band in asked if band not in named]
    raise SceneError(
        f"{what} has no band {', '.join(missing)}; it has {len(offered)} band(s): "
        f"{', '.join(c.name or '(no name)' for c in offered)}. Choose among them, or name all {len(offered)}"
    )


def _group(info: RasterInfo, chosen: list[BandChoice], options: SceneOptions) -> BandGroup:
    mine = [choice for choice in chosen if choice.info is info]
    calibrations = tuple(calibration(info, choice.index, options) for choice in mine)
    source = info.bands(*(choice.index for choice in mine))
    return BandGroup(source, tuple(choice.name for choice in mine), calibrations)


def calibration(info: RasterInfo, index: int, options: SceneOptions) -> Calibration:
    """Scale, offset and nodata of one band: the user's word, else the file's."""
    scale, offset = info.scales[index - 1], info.offsets[index - 1]
    silent = scale == 1 and offset == 0
    whole = np.issubdtype(np.dtype(info.dtype), np.integer)
    if silent and options.assumed is not None:
        scale, offset, _ = options.assumed
    elif silent and options.scale is None and whole:
        raise NoScaleError(
            f"{info.path} holds {info.dtype} numbers without a scale; give --scale 0.0001 for Sentinel-2 "
            "reflectance (and --offset -0.1 from baseline 04.00 on), or --scale 1 to take them as they are"
        )
    own = info.nodata[index - 1]
    nodata = options.nodata if options.nodata is not None else options.assumed_nodata if own is None else own
    return Calibration(
        scale=scale if options.scale is None else options.scale,
        offset=offset if options.offset is None else options.offset,
        nodata=nodata,
    )


#: A scene whose reflectances differ by less than this in every band is in other units.
LEAST_RANGE = 0.002


def warn_of_offset(scene: Scene) -> None:
    """Warn where the numbers look as if the product's offset had been left in, or taken off twice.

    Left in: the darkest pixels of most bands sit near +0.1, and none is darker (water, shadow and, in some
    band or other, vegetation are). Taken off twice: half of all pixels are negative in many bands.
    """
    dark, typical, _ = _probe(scene)
    if dark.size < 4:
        return
    unit = 10_000.0 if np.median(typical) > 2 else 1.0
    below = (typical < -0.01 * unit) & (typical > -0.12 * unit)
    if near := near_offset(dark, unit):
        seen = f"the darkest pixels of {near} of {dark.size} bands sit near {PRODUCT_OFFSET * unit:g}"
        _warn(scene, seen, "had been left in", -PRODUCT_OFFSET * unit)
    elif below.mean() >= 0.3:
        seen = f"half of all pixels are negative in {int(below.sum())} of {dark.size} bands"
        _warn(scene, seen, "had been taken off twice", 0.0)


def near_offset(dark: NDArray[Any], unit: float) -> int:
    """Number of bands whose dark end is near the offset, where it is that of most and none is darker."""
    near = (dark > 0.08 * unit) & (dark < 0.15 * unit)
    return int(near.sum()) if near.mean() >= 0.5 and dark.min() > 0.08 * unit else 0


def warn_of_scale(scene: Scene) -> None:
    """Warn where reflectances hardly differ, as they do when what was reflectance already is scaled again."""
    dark, _, bright = _probe(scene)
    if dark.size and 0 < float((bright - dark).max()) < LEAST_RANGE:
        warn(
            f"scene {scene.identity}: in no band do reflectances differ by more than "
            f"{float((bright - dark).max()):.2g}; if the numbers are reflectance already, leave out scale",
            OffsetWarning,
        )


def _warn(scene: Scene, seen: str, what: str, remedy: float) -> None:
    warn(
        f"scene {scene.identity}: {seen}, as if the offset BOA_ADD_OFFSET/RADIO_ADD_OFFSET = -1000 (-0.1 in "
        f"reflectance) of baseline 04.00 on {what}; give --offset {remedy:g}, or another one if the numbers "
        "are right",
        OffsetWarning,
    )


def _probe(scene: Scene) -> tuple[NDArray[np.float32], ...]:
    """Per band, the dark end, the middle and the bright end of the values in nine small windows."""
    windows = scene.grid.spots(128)
    samples = np.concatenate(list(in_order(lambda window: scene.read(window).samples(), windows)))
    if len(samples) == 0:
        return (np.empty(0, np.float32),) * 3
    return tuple(np.percentile(samples, [0.5, 50, 99.5], axis=0).astype(np.float32))


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
    place: str
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
        if remote.is_address(self.place):
            return remote.beside(self.place, href)
        if "://" in href or href.startswith("/"):
            return href.removeprefix("file://")
        return str(Path(self.place).parent / href)


_Number = float | None
_Band = TypedDict(
    "_Band",
    {
        "name": str | None,
        "eo:common_name": str | None,
        "raster:scale": _Number,
        "raster:offset": _Number,
        "scale": _Number,
        "offset": _Number,
        "nodata": float | str | None,
    },
    total=False,
)
_Asset = TypedDict(
    "_Asset",
    {
        "href": Required[str],
        "roles": list[str] | None,
        "eo:bands": list[_Band] | None,
        "bands": list[_Band] | None,
        "raster:bands": list[_Band] | None,
        "raster:scale": _Number,
        "raster:offset": _Number,
        "nodata": float | str | None,
    },
    total=False,
)
_Properties = TypedDict(
    "_Properties",
    {
        "platform": str | None,
        "constellation": str | None,
        "datetime": str | None,
        "s2:datatake_id": str | None,
        "s2:product_type": str | None,
        "s2:processing_level": str | None,
        "s2:processing_baseline": str | None,
        "product:type": str | None,
        "processing:level": str | None,
        "processing:version": str | None,
    },
    total=False,
)


class _StacItem(TypedDict, total=False):
    id: str
    properties: _Properties
    assets: Required[dict[str, _Asset]]


def read_item(path: str | Path) -> Item:
    """Read an item from a file, or from an address."""
    try:
        content = read_json(path, dict[str, Any])
        if content.get("type") != "Feature" or not content.get("assets"):
            raise SceneError(
                f"{path} is not a STAC item with assets; give an item, not a catalogue or collection"
            )
        typed(content, _StacItem, path)
    except SceneError:
        raise
    except (OSError, ValueError) as error:
        raise ReadError(f"{path} cannot be read as JSON ({error}); it may be truncated") from error
    return Item(
        identity=content.get("id", Path(path).stem),
        place=str(path),
        properties=content.get("properties", {}),
        assets=content["assets"],
    )


def open_item(path: str | Path, options: SceneOptions) -> Scene:
    """A scene from an item's band assets."""
    item = read_item(path)
    assets = _band_assets(item)
    bands = _choose(item, assets, options)
    groups = tuple(_asset_group(item, band, assets[band], options) for band in bands)
    masks: list[Mask] = [ValueMask(info.bands(1), SCL_MEANING) for info in [_extra(item, "SCL")] if info]
    if options.cloud_probability is not None:
        clouds = _extra(item, "CLOUD") or _extra(item, "CLDPRB")
        if clouds is None:
            raise SceneError(
                f"STAC item {item.identity} has no asset cloud or cldprb with probabilities of cloud; leave "
                "out --cloud-probability"
            )
        masks.append(LeastMask(clouds.bands(1), options.cloud_probability, Quality.CLOUD))
    scene = Scene(
        identity=options.scene_id or datatake_of(item.properties.get("s2:datatake_id")) or item.identity,
        bands=bands,
        grid=finest_grid([group.source.grid for group in groups]),
        groups=groups,
        masks=tuple(masks),
        level=item.level,
        platform=item.properties.get("platform"),
        sensing_time=_time(item.properties.get("datetime")),
        baseline=item.baseline,
        **_auxiliaries(item),
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


def _asset_group(item: Item, band: str, key: str, options: SceneOptions) -> BandGroup:
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


def _auxiliaries(item: Item) -> dict[str, Any]:
    """Layers that few need: those that lie elsewhere and cannot be reached are done without."""
    found: dict[str, Any] = {}
    for name, field in (("AOT", "aot_layer"), ("WVP", "water_vapour_layer")):
        try:
            info = _extra(item, name)
        except ReadError as error:
            if "://" not in str(error):
                raise
            warn(f"{item.identity} is read without its layers AOT and WVP: {error}")
            return {}
        if info is not None:
            found[field] = BandGroup(info.bands(1), (name,), (Calibration(1e-3, nodata=0),))
    return found


def _time(text: str | None) -> datetime | None:
    return None if not text else datetime.fromisoformat(text.replace("Z", "+00:00"))
