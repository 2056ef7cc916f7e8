"""Scenes from plain rasters, one stack or a list of band files; the user may know more than they say."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from uncover.engines.threads import in_order
from uncover.measurement.bands import canonical_band
from uncover.raster.errors import OffsetWarning, SceneError
from uncover.raster.grid import finest_grid
from uncover.raster.layers import BandGroup, Calibration
from uncover.raster.scene import Level, Scene, SceneOptions
from uncover.raster.tiles import RasterInfo, TileCache, describe

_BAND_IN_NAME = re.compile(r"(?:^|[_.\-])(B\d{1,2}A?)(?=[_.\-]|$)", re.IGNORECASE)

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
    chosen = choose_bands([choice for info in infos for choice in _offered(info)], options, str(paths[0]))
    groups = tuple(_group(info, chosen, options) for info in infos if any(c.info is info for c in chosen))
    scene = Scene(
        identity=options.scene_id or Path(str(paths[0])).stem,
        bands=tuple(choice.name for choice in chosen),
        grid=finest_grid([group.source.grid for group in groups]),
        groups=groups,
        level=_level(infos),
        resampling=options.resampling,
        cache=TileCache(options.cache_bytes),
        named=options.scene_id is not None,
    )
    if options.offset is None and all(c.offset == 0 for group in groups for c in group.calibrations):
        warn_of_offset(scene)
    if options.scale is not None:
        warn_of_scale(scene)
    return scene


def _level(infos: list[RasterInfo]) -> Level | None:
    """The level that all files state as GDAL does, which hands on the metadata of a product; else None."""
    stated = {info.tags.get("PROCESSING_LEVEL", "")[:8] for info in infos}
    levels: dict[str, Level] = {"Level-1C": "L1C", "Level-2A": "L2A"}
    return levels.get(stated.pop()) if len(stated) == 1 else None


def _offered(info: RasterInfo) -> list[BandChoice]:
    in_file_name = _BAND_IN_NAME.search(Path(info.path).stem)
    names = [canonical_band(name) if name else "" for name in info.names]
    if info.count == 1 and in_file_name:
        names = [canonical_band(in_file_name.group(1))]
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
    if silent and options.scale is None and np.issubdtype(np.dtype(info.dtype), np.integer):
        raise SceneError(
            f"{info.path} holds {info.dtype} numbers without a scale; give --scale 0.0001 for Sentinel-2 "
            "reflectance (and --offset -0.1 from baseline 04.00 on), or --scale 1 to take them as they are"
        )
    nodata = info.nodata[index - 1] if options.nodata is None else options.nodata
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
    near = (dark > 0.08 * unit) & (dark < 0.15 * unit)
    below = (typical < -0.01 * unit) & (typical > -0.12 * unit)
    if near.mean() >= 0.5 and dark.min() > 0.08 * unit:
        seen = (
            f"the darkest pixels of {int(near.sum())} of {dark.size} bands sit near {PRODUCT_OFFSET * unit:g}"
        )
        _warn(scene, seen, "had been left in", -PRODUCT_OFFSET * unit)
    elif below.mean() >= 0.3:
        seen = f"half of all pixels are negative in {int(below.sum())} of {dark.size} bands"
        _warn(scene, seen, "had been taken off twice", 0.0)


def warn_of_scale(scene: Scene) -> None:
    """Warn where reflectances hardly differ, as they do when what was reflectance already is scaled again."""
    dark, _, bright = _probe(scene)
    if dark.size and 0 < float((bright - dark).max()) < LEAST_RANGE:
        warnings.warn(
            f"scene {scene.identity}: in no band do reflectances differ by more than "
            f"{float((bright - dark).max()):.2g}; if the numbers are reflectance already, leave out scale",
            OffsetWarning,
            stacklevel=3,
        )


def _warn(scene: Scene, seen: str, what: str, remedy: float) -> None:
    warnings.warn(
        f"scene {scene.identity}: {seen}, as if the offset BOA_ADD_OFFSET/RADIO_ADD_OFFSET = -1000 (-0.1 in "
        f"reflectance) of baseline 04.00 on {what}; give --offset {remedy:g}, or another one if the numbers "
        "are right",
        OffsetWarning,
        stacklevel=6,
    )


def _probe(scene: Scene) -> tuple[NDArray[np.float32], ...]:
    """Per band, the dark end, the middle and the bright end of the values in nine small windows."""
    windows = scene.grid.spots(128)
    samples = np.concatenate(list(in_order(lambda window: scene.read(window).samples(), windows)))
    if len(samples) == 0:
        return (np.empty(0, np.float32),) * 3
    return tuple(np.percentile(samples, [0.5, 50, 99.5], axis=0).astype(np.float32))
