"""What a Zarr store is: a cube of a scene, a cube of samples, or a scene."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from uncover.raster.cube import open_store


def is_zarr(name: str | Path) -> bool:
    """Whether a path is a Zarr store, by its name.

    >>> is_zarr("cube.zarr"), is_zarr("scene.SAFE")
    (True, False)
    """
    return str(name).rstrip("/").lower().endswith(".zarr")


def zarr_kind(path: str | Path) -> Literal["cube", "samples", "scene"]:
    """By the axes of its reflectance: with samples, with realisations, or neither."""
    group = open_store(path)
    if "reflectance" not in group:
        return "scene"
    axes = group["reflectance"].attrs.get("_ARRAY_DIMENSIONS", [])
    if "sample" in axes:
        return "samples"
    return "cube" if "realisation" in axes else "scene"
