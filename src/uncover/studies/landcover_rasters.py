"""Labelled pixels of rasters of realisations, one for each year, on one grid: cubes, the embedded scene."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from uncover import pipeline
from uncover.raster import Window, open_cube, open_scene
from uncover.raster.cube import CubeBlock
from uncover.raster.scene import Raster
from uncover.raster.tiles import TileCache
from uncover.studies.landcover_data import LandCoverData, Picture, checked, year_name
from uncover.studies.landscape import LandscapeOptions, SceneFiles, write_scene

Array = NDArray[Any]

#: Pixels of one block of so many rows and columns are drawn together by the bootstrap.
BLOCK = 50
YEARS = (2020, 2021)
_TRUE_COLOUR = ("B04", "B03", "B02")
_CACHE_BYTES = 64 * 1024 * 1024


class Worlds(Raster, Protocol):
    """Realisations of a scene: a cube, or a scene that is realised when it is read."""

    def blocks(self) -> Iterator[Window]:
        """Windows that are read at a time."""

    def read(self, window: Window | None = None) -> CubeBlock:
        """All realisations of a window."""


def read_cubes_of_years(
    paths: Sequence[str | Path], labels: str | Path | None, class_field: str | None = None
) -> LandCoverData:
    """Cubes that `uncover realise` wrote, one for each year, which is called as its file is."""
    if labels is None:
        raise ValueError(f"{paths[0]} is a cube: say with --labels which file holds the labels of its pixels")
    rasters = {year_name(path): open_cube(path) for path in paths}
    return read_rasters(" and ".join(rasters), rasters, labels, class_field)


def embedded_scene(size: int, draws: int, seed: int) -> LandCoverData:
    """The embedded scene: simulated products of two years, each in worlds of drawn optical depths.

    Labels are those of `uncover labels` from the land cover maps of all years before, so that a pixel had the
    same class in all of them.
    """
    with tempfile.TemporaryDirectory() as folder:
        scene = write_scene(folder, LandscapeOptions(size=size, seed=seed))
        maps = [str(path) for path in dict.fromkeys(p for year in YEARS for p in scene.previous_maps(year))]
        options = pipeline.LabelOptions(scheme=scene.scheme)
        found = pipeline.collect_labels(maps, [f"{path}:2" for path in maps], options)
        labels = Path(folder) / "labels.tif"
        found.write(labels)
        rasters = {str(year): _realised(scene, year, draws, seed) for year in YEARS}
        return read_rasters("The embedded scene, which is simulated", rasters, labels)


def _realised(scene: SceneFiles, year: int, draws: int, seed: int) -> Worlds:
    """A year in the worlds that a user would draw, from what the product's data sheet says."""
    known = scene.facts["years"][str(year)]
    options = pipeline.RealiseOptions(
        aod=known["reported_aod"],
        draws=draws,
        method="mc",  # as in the paper
        seed=seed,
        water_vapour=known["water_vapour_cm"],
        ozone=known["ozone_du"],
    )
    return pipeline.realise_scene(open_scene(scene.product(year)), options)


def read_rasters(
    name: str, rasters: dict[str, Any], labels: str | Path, class_field: str | None = None
) -> LandCoverData:
    """Pixels that are labelled, and usable in every year: no cloud, shadow, snow or saturation in any.

    Labels that `uncover labels` collected over several years are of pixels whose class was the same in all.
    """
    _check_alike(rasters)
    first = next(iter(rasters.values()))
    codes, names = _codes_on(first, labels, class_field)
    read = [_labelled(raster, codes >= 0, first.bands) for raster in rasters.values()]
    usable = np.all([good for _, good in read], axis=0)
    if not usable.any():
        raise ValueError(
            f"none of the {usable.size:,} pixels that {labels} labels in {name} is usable in every year; "
            "labels must be of the place of the cubes, where these have no cloud, shadow or snow"
        )
    rows, cols = (at[usable] for at in np.nonzero(codes >= 0))
    present = np.unique(codes[rows, cols])
    kept = np.full_like(codes, -1)
    kept[rows, cols] = np.searchsorted(present, codes[rows, cols])
    block = rows // BLOCK * codes.shape[1] + cols // BLOCK
    return checked(
        LandCoverData(
            name=name,
            years=tuple(rasters),
            values=tuple(values[usable] for values, _ in read),
            codes=kept[rows, cols],
            classes=tuple(names[k] for k in present),
            bands=first.bands,
            groups=np.unique(block, return_inverse=True)[1],
            picture=Picture(_picture(first), kept.astype(np.int16)),
            notes=(
                f"{usable.sum():,} of {usable.size:,} labelled pixels are usable in every year",
                f"intervals draw blocks of {BLOCK} by {BLOCK} pixels",
            ),
        )
    )


def _check_alike(rasters: dict[str, Any]) -> None:
    (year, first), *others = rasters.items()
    for other, raster in others:
        if raster.grid != first.grid:
            raise ValueError(f"{year} and {other} are on different grids; make both of the same area")
        differ = sorted({*raster.bands} ^ {*first.bands})
        if differ:
            raise ValueError(f"{year} and {other} differ in the bands {', '.join(differ)}; use --bands")
        counts = [_realisations(each) for each in (first, raster)]
        if counts[0] != counts[1]:
            raise ValueError(
                f"{year} has {counts[0]} realisations and {other} has {counts[1]}; make both with the same "
                "--draws"
            )


def _realisations(raster: Worlds) -> int:
    return int(raster.read(Window(0, 0, 1, 1)).values.shape[0])


def _codes_on(
    raster: Worlds, labels: str | Path, class_field: str | None
) -> tuple[NDArray[np.intp], tuple[str, ...]]:
    """Place of each pixel's class among the names of the scheme, −1 where there is no label."""
    source = pipeline.open_labels(labels, None, class_field)
    here, cache = source.on(raster.grid), TileCache(_CACHE_BYTES)
    place = np.full(256, -1)
    place[list(source.scheme.codes)] = np.arange(len(source.scheme.names))
    codes = np.full(raster.grid.shape, -1)
    for window in raster.blocks():
        codes[window.slices] = place[here.labels(window, cache)]
    return codes, tuple(source.scheme.names)


def _labelled(
    raster: Worlds, wanted: NDArray[np.bool_], bands: Sequence[str]
) -> tuple[Array, NDArray[np.bool_]]:
    """Values of the wanted pixels by row and column, (pixel, realisation, band), and which are usable."""
    place = np.cumsum(wanted).reshape(wanted.shape) - 1
    count, good = int(wanted.sum()), np.zeros(int(wanted.sum()), bool)
    values = np.empty((count, _realisations(raster), len(bands)), np.float32)
    order = [raster.bands.index(band) for band in bands]
    for window in raster.blocks():
        here = wanted[window.slices]
        if here.any():
            block = raster.read(window)
            at = place[window.slices][here]
            values[at] = np.moveaxis(block.values[:, :, here], 2, 0)[:, :, order]
            good[at] = block.usable[here]
    return values, good


def _picture(raster: Worlds) -> Array:
    """The first realisation in natural colours, stretched; the first bands where it has no such."""
    bands = _TRUE_COLOUR if set(_TRUE_COLOUR) <= set(raster.bands) else (raster.bands * 3)[:3]
    at = [raster.bands.index(band) for band in bands]
    image = np.zeros((*raster.grid.shape, 3), np.float32)
    for window in raster.blocks():
        image[window.slices] = np.moveaxis(raster.read(window).values[0, at], 0, 2)
    low, high = np.nanquantile(image[::3, ::3], [0.01, 0.99], axis=(0, 1))
    return (255 * np.clip((image - low) / np.maximum(high - low, 1e-9), 0, 1)).astype(np.uint8)
