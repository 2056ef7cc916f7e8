"""Kinds of files, told by their names or contents; refusal of files in the place of others."""

from __future__ import annotations

import os
from pathlib import Path

from uncover.measurement.bands import is_sentinel2
from uncover.pipeline.tables import is_table
from uncover.raster.errors import SceneError
from uncover.raster.names import split_band
from uncover.raster.npy import is_npy

#: Files in the folder of an evaluation.
EVALUATION_FILES = ("confusion.csv", "accuracy.csv", "areas.csv", "reliability.csv", "evaluation.json")
_MODEL, _TABLE, _SCENE, _LABELS = "a model", "a table of samples", "a scene", "a raster of classes"


def kind_of(name: str | Path) -> str | None:
    """Kind of a file; None where nothing tells it.

    >>> kind_of("model.uncover"), kind_of("pixels.csv"), kind_of("stack.tif")
    ('a model', 'a table of samples', None)
    """
    path = Path(split_band(name)[0])
    if is_npy(name):
        return None
    if path.suffix == ".uncover":
        return _MODEL
    if is_table(path):
        return _TABLE
    if path.suffix.upper() == ".SAFE" or (path / ".zattrs").exists():
        return _SCENE
    if path.suffix.lower() in (".tif", ".tiff") and path.is_file():
        return _kind_of_raster(path)
    return None


def _kind_of_raster(path: Path) -> str | None:
    from uncover.raster.map_formats import SCHEME_TAG
    from uncover.raster.tiles import describe

    info = describe(str(path))
    if SCHEME_TAG in info.tags:
        return _LABELS
    bands = [name for name in info.names if name and is_sentinel2(name)]
    return _SCENE if len(bands) > 1 else None


def check_model_first(model: str | Path, scene: str | Path) -> None:
    """Refuse a model and a scene that are in each other's place, and what is neither.

    >>> check_model_first("S2A.SAFE", "model.uncover")
    Traceback (most recent call last):
    ...
    uncover.raster.errors.SceneError: S2A.SAFE is a scene; the model comes first: uncover map MODEL SCENE
    """
    found = kind_of(model)
    if found in (_SCENE, _TABLE, _LABELS) or (found is None and kind_of(scene) == _MODEL):
        raise SceneError(
            f"{model} is {found or 'no model file'}; the model comes first: uncover map MODEL SCENE"
        )
    check_scene(scene, "uncover map takes a scene or a cube")


def check_scene(name: str | Path, needed: str) -> None:
    """Refuse what is no scene; `needed` says what is."""
    found = kind_of(name)
    if found == _LABELS:
        needed += "; give labels by --labels"
    if found in (_MODEL, _TABLE, _LABELS):
        raise SceneError(f"{name} is {found}, not a scene; {needed}")


def check_labels(name: str | Path) -> None:
    """Refuse what is no label map."""
    found = kind_of(name)
    if found is None and Path(name).is_dir():
        found = "a folder"
    if found not in (None, _LABELS):
        points = " (a table of points has the columns lon and lat, or x and y)" if found == _TABLE else ""
        raise SceneError(
            f"{name} is {found}, not a label map; give a raster of classes, or polygons or points with "
            f"--class-field{points}"
        )


def check_apart(out: str | Path | None, *inputs: str | Path | None) -> None:
    """Refuse an output that is one of the inputs (`FILE` or `FILE:BAND`), or a file of an input's folder.

    The page of a folder may lie in it.

    >>> check_apart("lcm.tif", "scene.tif", "./lcm.tif:2")
    Traceback (most recent call last):
    ...
    ValueError: the output lcm.tif is an input too (./lcm.tif:2), which would be lost; name another file
    """
    if out is None:
        return
    goal = Path(out)
    for name in inputs:
        if name is None:
            continue
        given = Path(split_band(name)[0])
        same = goal.resolve() == given.resolve() or (
            goal.exists() and given.exists() and os.path.samefile(goal, given)
        )
        part = given.is_dir() and goal.is_file() and goal.resolve().is_relative_to(given.resolve())
        if same or (part and goal.suffix != ".html"):
            what = f"an input too ({name})" if same else f"a file of the input {name}"
            raise ValueError(f"the output {out} is {what}, which would be lost; name another file")
