"""The page of the viewer as static files: tiles of stored numbers, compressed, for any web server."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from uncover.files import check_new, check_place, whole_folder
from uncover.raster.grid import Grid
from uncover.raster.resample import move
from uncover.viewer import open_maps
from uncover.viewer.planes import SIDE, level_shape, levels_of
from uncover.viewer.server import STATIC, little_endian, page, static_file
from uncover.viewer.viewed import ViewedMap

#: Points of a side that places are fitted at, and the powers of latitude and longitude.
_FITTED, _DEGREE = 25, 8
_POWERS = [[i, j] for i in range(_DEGREE + 1) for j in range(_DEGREE + 1 - i)]


def export_page(
    folders: Sequence[str | Path],
    out: str | Path,
    labels: Sequence[str] = (),
    class_field: str | None = None,
    *,
    overwrite: bool = False,
    say: Callable[[str], None] = lambda step: None,
) -> Path:
    """Write the page of maps to a folder, which appears whole or not at all.

    The same maps give the same bytes. What needs the scene or the whole map is left out: spectra of pixels,
    and areas of outlines.
    """
    goal = check_place(out)
    check_new(goal, overwrite=overwrite)
    if goal.exists() and not (goal / "index.html").is_file():
        raise ValueError(f"{goal} is no page of the viewer and is not overwritten; write somewhere else")
    for folder in folders:
        if goal.absolute() == Path(folder).absolute():
            raise ValueError(f"{goal} is the map itself; write somewhere else")
    maps = open_maps(folders, labels, class_field)
    viewed = [maps.current(i) for i in range(len(folders))]
    with whole_folder(goal, overwrite=overwrite) as made:
        descriptions = maps.descriptions(viewed)
        descriptions[0]["degrees"] = places_by_degrees(viewed[0].grid)
        for i, (each, about) in enumerate(zip(viewed, descriptions, strict=True)):
            about |= {"version": "files", "model": each.model_facts()}
            about["errors"] = [each.errors(number) for number in range(len(each.sources))]
            _tiles(each, made / "data" / str(i) / "files", say)
        for name in STATIC:
            (made / name).write_bytes(static_file(name))
        (made / "index.html").write_bytes(page({"static": True, "maps": descriptions}))
    maps.close()
    return goal


def places_by_degrees(grid: Grid) -> dict[str, Any] | None:
    """Polynomials of latitude and longitude for row and column, which a page without a server can compute.

    None without a reference system, and where they would be wrong by a tenth of a pixel somewhere on the map.
    """
    if grid.crs is None:
        return None
    share = (1 - np.cos(np.pi * (np.arange(_FITTED) + 0.5) / _FITTED)) / 2
    rows, cols = (each.ravel() for each in np.meshgrid(share * grid.height, share * grid.width))
    longitude, latitude = move(grid.crs, "EPSG:4326", *grid.coordinates(rows, cols))
    if not np.isfinite([longitude, latitude]).all():
        return None
    east = longitude[0] + (longitude - longitude[0] + 180) % 360 - 180  # across the antimeridian in one piece
    ends = np.array([[latitude.min(), latitude.max()], [east.min(), east.max()]])
    middle, half = ends.mean(axis=1), np.maximum(np.diff(ends).ravel() / 2, 1e-9)
    u, v = (latitude - middle[0]) / half[0], (east - middle[1]) / half[1]
    terms = np.stack([u**i * v**j for i, j in _POWERS], axis=1)
    every = np.arange(len(rows)) % 2 == 0  # the others show how wrong it is between them
    found = np.linalg.lstsq(terms[every], np.stack([rows, cols], axis=1)[every], rcond=None)[0]
    if np.abs(terms @ found - np.stack([rows, cols], axis=1)).max() > 0.1:
        return None
    numbers = {"middle": middle, "half": half, "row": found[:, 0], "col": found[:, 1]}
    return {"powers": _POWERS} | {name: np.round(each, 9).tolist() for name, each in numbers.items()}


def _tiles(viewed: ViewedMap, folder: Path, say: Callable[[str], None]) -> None:
    """All tiles of all layers of a map."""
    for name in viewed.layers:
        say(f"writing {viewed.product.name}: {viewed.layers[name].about['title']}")
        for z in range(levels_of(viewed.grid)):
            height, width = level_shape(viewed.grid, z)
            place = folder / name / str(z)
            place.mkdir(parents=True)
            for row in range(-(-height // SIDE)):
                for col in range(-(-width // SIDE)):
                    tile = viewed.tile(name, z, row, col)
                    assert tile is not None
                    packed = gzip.compress(little_endian(tile), 6, mtime=0)
                    (place / f"{row}-{col}.bin").write_bytes(packed)
