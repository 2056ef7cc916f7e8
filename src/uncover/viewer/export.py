"""The page of the viewer as static files: tiles of stored numbers, compressed, for any web server."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

from uncover.files import check_new, check_place, whole_folder
from uncover.viewer import open_maps
from uncover.viewer.planes import SIDE, level_shape, levels_of
from uncover.viewer.server import STATIC, describe, little_endian, page, static_file
from uncover.viewer.viewed import ViewedMap


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
        descriptions = []
        for i, each in enumerate(viewed):
            about = describe(each, viewed[0]) | {"version": "files", "model": each.model_facts()}
            about["errors"] = [each.errors(number) for number in range(len(each.sources))]
            descriptions.append(about)
            _tiles(each, made / "data" / str(i) / "files", say)
        for name in STATIC:
            (made / name).write_bytes(static_file(name))
        (made / "index.html").write_bytes(page({"static": True, "maps": descriptions}))
    maps.close()
    return goal


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
