"""The one door: whatever a scene is stored as, `open_scene` returns a Scene."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from uncover.files import reader
from uncover.raster.align import check_cover
from uncover.raster.area import Area, window_of
from uncover.raster.errors import NoScaleError, SceneError
from uncover.raster.grid import Grid
from uncover.raster.layers import BufferedMask, LeastMask, Mask, ValueMask
from uncover.raster.legends import read_legend
from uncover.raster.loose_files import SceneSource, expanded, open_files, open_folder, source_name
from uncover.raster.names import date_in, split_band
from uncover.raster.npy import is_npy, stem
from uncover.raster.quality import CLEAR, Quality
from uncover.raster.scene import Scene, SceneOptions
from uncover.raster.scene_file import StatedFacts, contradicted, own_name, scene_file_of, with_stated
from uncover.raster.tiles import RasterInfo, Source, TileCache, check_exists, describe
from uncover.warn import warn


@reader
def open_scene(source: SceneSource, options: SceneOptions | None = None) -> Scene:
    """Open a scene: SAFE folder or zip, raster, band files (folder, glob, list), STAC, Zarr, NetCDF, npy.

    Nothing but metadata is read, except nine small windows of a raster whose calibration nobody states. A
    `scene.toml` beside the data states what they do not; the day of a file may be in its name.

    >>> open_scene("nowhere.SAFE")
    Traceback (most recent call last):
    ...
    uncover.raster.errors.SceneError: nowhere.SAFE does not exist; check the path
    """
    options, source = options or SceneOptions(), expanded(source)
    if options.mask_buffer < 0:
        raise SceneError(f"--mask-buffer is {options.mask_buffer:g}; give metres, 0 or more")
    stated = StatedFacts.beside(source) if source else StatedFacts()
    scene = _open_stated(source, options, stated)
    if isinstance(source, str | Path) and not (scene.date or scene.sensing_time or stated.date):
        found = date_in(stem(source))
        stated = replace(stated, date=found)
        if found is not None and options.date is None:
            scene = replace(scene, dated_by="the name of the file")
    scene = with_stated(scene, options, stated)
    if options.mask is not None:
        options = replace(options, mask=_mask_of_day(options.mask, scene))
        scene = replace(scene, masks=(*scene.masks, _user_mask(options)))
    if options.cloud_probability is not None and not any(isinstance(m, LeastMask) for m in scene.masks):
        raise SceneError(
            f"scene {scene.identity} has no probabilities of cloud, which Level-2A products and some STAC "
            "items carry; leave out --cloud-probability"
        )
    if options.mask_buffer and scene.masks:
        scene = replace(scene, masks=(BufferedMask(scene.masks, options.mask_buffer),))
    elif options.mask_buffer:
        warn(
            f"scene {scene.identity} has no mask that --mask-buffer could widen; --mask gives one",
        )
    part = Area(options.bbox, options.bbox_crs, options.aoi).of(scene.grid)
    scene = replace(scene, grid=part.grid, area=part.polygons)
    if options.mask is not None:
        check_cover(options.mask, scene.grid)
        _check_mask_values(options, scene.grid)
    return scene


def write_scene_file(source: SceneSource, options: SceneOptions) -> Path:
    """Write what the options state, and what an earlier file stated, beside data that open with it."""
    with suppress(NoScaleError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        open_scene(source, options)
    path, earlier = scene_file_of(source), StatedFacts.beside(source)
    if path.is_file() and earlier == StatedFacts():
        raise SceneError(f"{path} is about another scene, or empty; give each scene a folder of its own")
    given = ((f.name, getattr(options, f.name, None)) for f in fields(StatedFacts))
    kept = {name: value for name, value in given if value is not None}
    found = replace(earlier, source=own_name(source), **kept)
    if found == StatedFacts(found.source):
        raise SceneError(
            f"nothing to write to {path}: give what the data do not state, such as --level L2A, --date "
            "2020-08-04, --sensor S2B, --scale 0.0001"
        )
    try:
        path.write_text(found.text(), "utf-8")
    except OSError as error:
        raise SceneError(
            f"{path} cannot be written: {error.strerror}; copy the data to a folder of yours"
        ) from None
    return path


def grid_of(name: SceneSource, options: SceneOptions | None = None) -> Grid:
    """Grid of a scene or of any raster; its numbers need no scale for that."""
    found = expanded(name)
    others = (".zip", ".json", ".geojson", ".nc", ".nc4", ".h5")
    if isinstance(found, str | Path) and not (Path(found).is_dir() or str(found).lower().endswith(others)):
        return describe(found if is_npy(found) else split_band(found)[0]).grid
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of bands and offsets, which do not matter here
        return open_scene(found, replace(options or SceneOptions(), assumed=(1.0, 0.0, "nobody"))).grid


def _open_stated(source: SceneSource, options: SceneOptions, stated: StatedFacts) -> Scene:
    """The source with the bands that a scene.toml states; if it has others, with its own."""
    how = stated.into(options)
    if stated.bands is None or options.bands is not None:
        return _open(source, how)
    try:
        return _open(source, replace(how, bands=stated.bands))
    except SceneError:
        scene = _open(source, how)  # says what is wrong, if it is not the bands
    contradicted(scene, "bands", ", ".join(stated.bands), ", ".join(scene.bands))
    return scene


def _open(source: SceneSource, options: SceneOptions) -> Scene:
    from uncover.raster.safe import is_safe, open_safe, product_around
    from uncover.raster.stack import open_stack

    if not isinstance(source, str | Path):
        if not source:
            raise SceneError("the list of band files is empty; give at least one file")
        return open_files(list(source), options, source_name(source))
    name = str(source)
    check_exists(name)
    if is_safe(source):
        return open_safe(source, options)
    if name.lower().endswith((".json", ".geojson")):
        from uncover.raster.stack import open_item

        return open_item(name, options)
    if name.rstrip("/").lower().endswith((".zarr", ".nc", ".nc4", ".h5")):
        from uncover.raster.arrays import open_array

        return open_array(name, options)
    if Path(source).is_dir():
        product = product_around(Path(source))
        if product is not None:
            raise SceneError(f"{source} is a part of the product {product}; give the product")
        return open_folder(Path(source), options)
    return open_stack([source], options)


def _mask_of_day(path: str | Path, scene: Scene) -> str | Path:
    """The path of a mask, with the day of the scene in place of {date}."""
    if "{date}" not in str(path):
        return path
    day = scene.date if scene.sensing_time is None else scene.sensing_time.date().isoformat()
    if day is None:
        raise SceneError(
            f"--mask {path} names files by the day, and scene {scene.identity} states none; --date does"
        )
    return str(path).replace("{date}", day[:10])


def _user_mask(options: SceneOptions) -> Mask:
    path, band = split_band(str(options.mask))
    info = describe(path)
    if info.count > 1 and path == str(options.mask):
        raise SceneError(
            f"{path} has {info.count} bands; a mask is one: say which with --mask {path}:1 (or {path}:2 ...)"
        )
    source = info.bands(band)
    if options.mask_values is not None:
        return ValueMask(source, tuple(options.mask_values.items()))
    codes = _codes_of(source)
    if _is_classification(info, band, codes):
        listed = ", ".join(map(str, sorted(codes)))
        raise SceneError(
            f"{path} looks like a scene classification (SCL) with the codes {listed}, "
            "and as a mask it would leave out all that is not 0: say which codes with --mask-values 3,8-10, "
            "--mask-values scl for cloud, shadow, snow and saturated, or --mask-values 1-255 for all"
        )
    return ValueMask(source, ((0, CLEAR),), other=Quality.MASKED)


def _is_classification(info: RasterInfo, band: int, codes: set[int]) -> bool:
    """True for classes of the ground by the names or the codes of a raster: a mask of yes and no has a 0."""
    legend = read_legend(info.path, band).values()
    named = "SCL" in f"{Path(info.path).name} {info.names[band - 1]}".upper()
    classes = named or any("vegetat" in name.lower() for name in legend)
    return len(codes - {0}) > 3 or (len(codes) > 1 and 0 not in codes) or bool(classes and codes - {0, 1})


def _check_mask_values(options: SceneOptions, grid: Grid) -> None:
    """Warn where the mask has none of the numbers that are to be left out, in the place of the scene."""
    if options.mask_values is None:
        return
    path, band = split_band(str(options.mask))
    source, wanted, found = describe(path).bands(band), list(options.mask_values), set[float]()
    for window in window_of(source.grid, grid.bounds, grid.crs).cut((1024, 1024)):
        found |= set(np.unique(source.read(window, TileCache(0))).tolist())
        if found & set(wanted):
            return
    listed = ", ".join(f"{number:g}" for number in sorted(found)[:8])
    warn(
        f"--mask-values names {', '.join(map(str, wanted))}, and {options.mask} holds none of them in the "
        f"place of the scene (it holds {listed}): it masks nothing",
    )


def _codes_of(source: Source) -> set[int]:
    """Codes of Sen2Cor's classes in nine windows of a raster; none where it has other numbers as well."""
    cache = TileCache(0)
    found = np.unique([v for window in source.grid.spots(256) for v in np.unique(source.read(window, cache))])
    return {int(v) for v in found} if set(found.tolist()) <= set(range(12)) else set()
