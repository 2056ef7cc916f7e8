"""Scenes from loose files: a folder, a glob or a list of band files, with the layers that lie beside them."""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from uncover.measurement.bands import canonical_band, is_sentinel2
from uncover.raster.errors import ReadError, SceneError
from uncover.raster.layers import BandGroup, Calibration, ValueMask
from uncover.raster.names import LAYERS, NamedFacts, instant, nearest_size
from uncover.raster.quality import SCL_MEANING
from uncover.raster.safe import TEN_BANDS
from uncover.raster.scene import Scene, SceneOptions
from uncover.raster.stack import open_stack
from uncover.raster.tiles import RasterInfo, describe
from uncover.remote import is_address, matches

RASTER_SUFFIXES = (".jp2", ".j2k", ".tif", ".tiff", ".vrt", ".img")

SceneSource = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class SeveralScenes:
    """Sources of several scenes that are read as one.

    >>> files_of(SeveralScenes(("a.SAFE", ("b/B02.tif", "b/B03.tif"))))
    ['a.SAFE', 'b/B02.tif', 'b/B03.tif']
    """

    scenes: tuple[SceneSource, ...]


def files_of(source: SceneSource | SeveralScenes) -> list[str]:
    """Paths of a source as they were given."""
    if isinstance(source, SeveralScenes):
        return [path for scene in source.scenes for path in files_of(scene)]
    return [str(source)] if isinstance(source, str | Path) else [str(path) for path in source]


def expanded(source: SceneSource) -> SceneSource:
    """A source with its glob resolved: one path, or a list of files."""
    if not isinstance(source, str | Path):
        return [file for each in source for file in _matches(each)]
    found = _matches(source)
    return found[0] if len(found) == 1 else found


def _matches(name: str | Path) -> list[str | Path]:
    if not re.search(r"[*?\[]", str(name)) or Path(name).exists() or str(name).startswith("/vsi"):
        return [name]
    if is_address(name):
        found: list[str | Path] = [*matches(str(name))]
    else:
        found = [*sorted(glob.glob(str(name), recursive=True))]
    if not found:
        raise SceneError(f"no file matches {name}; check the pattern")
    return found


def gathered(sources: Sequence[str | Path]) -> list[str | tuple[str, ...]]:
    """Scenes of several names: files of one band each whose names differ in the band alone make one scene.

    >>> gathered(["a/B02.tif", "a/B03.tif", "stack.tif"])
    [('a/B02.tif', 'a/B03.tif'), 'stack.tif']
    """
    scenes: dict[object, list[str]] = {}
    for name in (str(file) for each in sources for file in _matches(each)):
        path = Path(name)
        facts = NamedFacts.of(name)
        if path.suffix.lower() not in RASTER_SUFFIXES or facts.band is None or path.is_dir():
            scenes[name, len(scenes)] = [name]  # a scene of its own; twice is for the caller to refuse
            continue
        folder = path.parent.parent if re.fullmatch(r"R\d0m", path.parent.name) else path.parent
        scenes.setdefault((folder, facts.tile, facts.date, facts.rest), []).append(name)
    return [files[0] if len(files) == 1 else tuple(files) for files in scenes.values()]


def source_name(source: SceneSource) -> str:
    """A source in a few words, for messages and records."""
    if isinstance(source, str | Path):
        return str(source)
    return f"{source[0]} and {len(source) - 1} more" if len(source) > 1 else str(source[0])


@dataclass(frozen=True)
class LooseFiles:
    """Files of one scene by what they hold."""

    bands: dict[str, str]  # finest file of each band
    layers: dict[str, dict[int, str]]  # SCL, AOT, WVP by their pixel sizes
    facts: NamedFacts  # that all files agree on

    @classmethod
    def of(cls, files: Sequence[str], what: str, resolution: int | None = None) -> LooseFiles:
        """Files of bands and layers of one date; the finest, or those of a pixel size and coarser."""
        named = [(file, NamedFacts.of(file)) for file in files]
        bands = [(file, f) for file, f in named if f.band is not None and f.band not in LAYERS]
        dates = sorted({f.date or "none" for _, f in bands})
        if len(dates) > 1:
            day = dates[0][:10].replace("-", "")
            raise SceneError(
                f"{what} holds band files of {len(dates)} dates ({', '.join(dates[:4])}); a scene is of one: "
                f"give those of one, for instance '{Path(files[0]).parent}/*{day}*'"
            )
        tiles = sorted({f.tile or "none" for _, f in bands})
        if len(tiles) > 1:
            raise SceneError(f"{what} holds the tiles {', '.join(tiles)}; a scene is of one: give its files")
        wanted = [
            (file, f) for file, f in named if resolution is None or (f.metres or resolution) >= resolution
        ]
        found: dict[str, dict[int, str]] = {}
        for file, f in wanted:
            size, same = f.metres or 10, found.setdefault(f.band or "", {})
            if f.band is not None and size in same:
                raise SceneError(
                    f"{what} holds band {f.band} twice: {same[size]} and {file}; give one of them"
                )
            same[size] = file
        layers = {key: found.pop(key) for key in LAYERS if key in found}
        chosen = {band: sizes[min(sizes)] for band, sizes in found.items() if band}
        return cls(chosen, layers, _common([f for _, f in bands] or [NamedFacts()]))


def _common(facts: list[NamedFacts]) -> NamedFacts:
    """What all names state alike."""
    first = facts[0]
    same: dict[str, Any] = {
        key: getattr(first, key) if len({getattr(f, key) for f in facts}) == 1 else None
        for key in ("tile", "date", "sensor", "level", "baseline", "rest")
    }
    same["rest"] = (same["rest"] or "").strip("-_. ")
    return NamedFacts(**same, official=all(f.official for f in facts))


def open_files(files: Sequence[str | Path], options: SceneOptions, what: str) -> Scene:
    """A scene from a list of files: band files with the layers beside them, or files of several bands."""
    names = [str(file) for file in files]
    loose = LooseFiles.of(names, what, options.resolution)
    if not loose.bands or any(NamedFacts.of(name).band is None for name in names):
        return open_stack(files, options)  # files whose names say nothing: their bands in the order given
    facts = loose.facts
    if facts.official:
        options = replace(
            options,
            nodata=0.0 if options.nodata is None else options.nodata,
            assumed=options.assumed or (1e-4, facts.offset, "the names of its files"),
        )
    scene = open_stack(list(loose.bands.values()), options)
    if facts.official and facts.tile and facts.date and options.scene_id is None:
        scene = replace(scene, identity=f"{facts.tile}_{re.sub('[-:Z]', '', facts.date)}", named=True)
    elif facts.rest and options.scene_id is None:
        scene = replace(scene, identity=facts.rest)  # the name of the files but for their bands
    return beside(scene, loose)


def beside(scene: Scene, loose: LooseFiles) -> Scene:
    """The scene with the layers beside it, and what names state."""
    facts, size = loose.facts, scene.grid.resolution[0]
    found = {key: describe(sizes[nearest_size(sizes, size)]) for key, sizes in loose.layers.items()}
    masks = (ValueMask(found["SCL"].bands(1), SCL_MEANING),) if "SCL" in found else ()
    return replace(
        scene,
        masks=(*scene.masks, *masks),
        level=scene.level or facts.level,
        platform=scene.platform or (None if facts.sensor is None else f"Sentinel-2{facts.sensor[-1]}"),
        sensing_time=scene.sensing_time or instant(facts.date),
        date=facts.date,
        baseline=scene.baseline or facts.baseline,
        aot_layer=_layer(found, "AOT"),
        water_vapour_layer=_layer(found, "WVP"),
    )


def _layer(found: dict[str, RasterInfo], key: str) -> BandGroup | None:
    if key not in found:
        return None
    info = found[key]
    silent = info.scales[0] == 1 and info.dtype[0] in "ui"
    scale = 1e-3 if silent else info.scales[0]
    return BandGroup(info.bands(1), (key,), (Calibration(scale, info.offsets[0], nodata=0),))


def open_folder(folder: Path, options: SceneOptions) -> Scene:
    """A scene from a folder of band files, or of one raster with bands and its layers."""
    files = folder_files(folder)
    loose = LooseFiles.of(
        [f for f in files if NamedFacts.of(f).band is not None], str(folder), options.resolution
    )
    if loose.bands:
        usual = tuple(band for band in TEN_BANDS if band in loose.bands) or tuple(sorted(loose.bands))
        options = replace(options, bands=options.bands or usual)
        layers = [file for sizes in loose.layers.values() for file in sizes.values()]
        return open_files([*loose.bands.values(), *layers], options, str(folder))
    stacks = [file for file in files if len(_band_names(file)) > 1]
    if len(stacks) == 1:
        named = [file for file in files if NamedFacts.of(file).band in LAYERS]
        beside_it = replace(LooseFiles.of(named, str(folder)), facts=NamedFacts.of(stacks[0]))
        return beside(open_stack(stacks, options), beside_it)
    if stacks:
        listed = ", ".join(Path(file).name for file in stacks[:5])
        raise SceneError(f"{folder} holds {len(stacks)} rasters with bands ({listed}); give one of them")
    listed = ", ".join(Path(file).name for file in files[:5]) or "none"
    raise SceneError(
        f"{folder} is no scene: it has no product metadata (MTD_MSIL….xml), no files of Sentinel-2 bands "
        f"(…_B02.jp2, B02.tif) and no raster whose bands are named so (rasters: {listed}); name the files "
        "instead"
    )


def folder_files(folder: Path) -> list[str]:
    """Rasters of a folder; where it has none, those of the folders in it."""
    for pattern in ("*", "**/*"):
        files = [str(f) for f in sorted(folder.glob(pattern)) if f.suffix.lower() in RASTER_SUFFIXES]
        if files:
            return files
    return []


def _band_names(file: str) -> list[str]:
    """Sentinel-2 bands that a raster names."""
    try:
        return [
            name for name in map(canonical_band, filter(None, describe(file).names)) if is_sentinel2(name)
        ]
    except ReadError:
        return []
