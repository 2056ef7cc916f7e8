"""Labelled pixels of cubes of realisations, one cube for each year, on one grid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.pipeline import open_labels
from uncover.raster import Cube, open_cube
from uncover.raster.tiles import TileCache
from uncover.studies.landcover_data import LandCoverData, Picture, checked

Array = NDArray[Any]

#: Pixels of one block of so many rows and columns are drawn together by the bootstrap.
BLOCK = 50
_TRUE_COLOUR = ("B04", "B03", "B02")
_CACHE_BYTES = 64 * 1024 * 1024


def read_cubes_of_years(
    paths: Sequence[str | Path],
    labels: str | Path | None,
    class_field: str | None = None,
    years: Sequence[str] | None = None,
) -> LandCoverData:
    """Pixels that are labelled, and usable in every year: no cloud, shadow, snow or saturation in any.

    Labels that `uncover labels` collected over several years are of pixels whose class was the same in all.
    """
    if labels is None:
        raise ValueError(f"{paths[0]} is a cube: say with --labels which file holds the labels of its pixels")
    cubes = [open_cube(path) for path in paths]
    _check_alike(cubes)
    codes, names = _codes_on(cubes[0], labels, class_field)
    usable = np.all([_usable(cube) for cube in cubes], axis=0)
    chosen = (codes >= 0) & usable
    present = np.unique(codes[chosen])
    codes = np.where(chosen, np.searchsorted(present, codes), -1)
    rows, cols = np.nonzero(chosen)
    width = -(-codes.shape[1] // BLOCK)
    return checked(
        LandCoverData(
            name=" and ".join(cube.path.name for cube in cubes),
            years=tuple(years or _names_of_years(cubes)),
            values=tuple(_values(cube, chosen) for cube in cubes),
            codes=codes[chosen],
            classes=tuple(names[k] for k in present),
            bands=cubes[0].bands,
            groups=np.unique(rows // BLOCK * width + cols // BLOCK, return_inverse=True)[1],
            picture=Picture(_picture(cubes[0]), codes.astype(np.int16)),
            notes=(
                f"{chosen.sum():,} labelled pixels are usable in every year",
                f"intervals draw blocks of {BLOCK} by {BLOCK} pixels",
            ),
        )
    )


def _check_alike(cubes: Sequence[Cube]) -> None:
    first, *others = cubes
    for other in others:
        pair = f"{first.path.name} and {other.path.name}"
        if other.grid != first.grid:
            raise ValueError(f"{pair} are on different grids; make both with the same area and resolution")
        if other.bands != first.bands:
            differ = sorted({*other.bands} ^ {*first.bands})
            raise ValueError(f"{pair} differ in the bands {', '.join(differ)}; make both with --bands")
        if other.realisations != first.realisations:
            raise ValueError(
                f"{first.path.name} has {first.realisations} realisations and {other.path.name} has "
                f"{other.realisations}; make both with the same --draws"
            )


def _names_of_years(cubes: Sequence[Cube]) -> list[str]:
    return [cube.path.name.removesuffix(".zarr") for cube in cubes]


def _codes_on(
    cube: Cube, labels: str | Path, class_field: str | None
) -> tuple[NDArray[np.intp], tuple[str, ...]]:
    """Place of each pixel's class among the names of the scheme, −1 where there is no label."""
    source = open_labels(labels, None, class_field)
    here, cache = source.on(cube.grid), TileCache(_CACHE_BYTES)
    place = np.full(256, -1)
    place[list(source.scheme.codes)] = np.arange(len(source.scheme.names))
    codes = np.full(cube.grid.shape, -1)
    for window in cube.blocks():
        codes[window.slices] = place[here.labels(window, cache)]
    return codes, tuple(source.scheme.names)


def _usable(cube: Cube) -> NDArray[np.bool_]:
    usable = np.zeros(cube.grid.shape, bool)
    for block in cube:
        usable[block.window.slices] = block.usable
    return usable


def _values(cube: Cube, chosen: NDArray[np.bool_]) -> Array:
    """Values of the chosen pixels in the order of rows and columns: (pixel, realisation, band)."""
    place = np.cumsum(chosen).reshape(chosen.shape) - 1
    values = np.empty((int(chosen.sum()), cube.realisations, len(cube.bands)), np.float32)
    for block in cube:
        here = chosen[block.window.slices]
        values[place[block.window.slices][here]] = np.moveaxis(block.values[:, :, here], 2, 0)
    return values


def _picture(cube: Cube) -> Array:
    """The first realisation in natural colours, stretched; the first bands where it has no such."""
    bands = _TRUE_COLOUR if set(_TRUE_COLOUR) <= set(cube.bands) else (cube.bands * 3)[:3]
    at = [cube.bands.index(band) for band in bands]
    image = np.zeros((*cube.grid.shape, 3), np.float32)
    for block in cube:
        image[block.window.slices] = np.moveaxis(block.values[0, at], 0, 2)
    low, high = np.nanquantile(image, [0.01, 0.99], axis=(0, 1))
    return (255 * np.clip((image - low) / np.maximum(high - low, 1e-9), 0, 1)).astype(np.uint8)
