"""A map as one CF dataset, Zarr or NetCDF, from the same scratch as the GeoTIFFs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uncover.raster.cube import create_array, crs_attributes, open_arrays, put_array
from uncover.raster.errors import SceneError, require
from uncover.raster.grid import Grid
from uncover.raster.product import Layer, Product
from uncover.raster.quality import flag_attributes
from uncover.raster.scratch import Scratch

Format = Literal["zarr", "netcdf"]
_CHUNK = 512


def write_dataset(path: Path, scratch: Scratch, kind: Format, attributes: Mapping[str, Any]) -> None:
    """Write all layers as one dataset, in place of what may lie there from a run that was stopped."""
    product = scratch.product
    if product.grid.transform[1] != 0 or product.grid.transform[3] != 0:
        raise SceneError("a CF dataset needs a grid that runs along its axes; this one is rotated, use cog")
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    opener = _open_zarr if kind == "zarr" else _open_netcdf
    with opener(path, product, {"Conventions": "CF-1.11", **attributes}) as arrays:
        for layer in product.layers:
            for name, band in _variables(layer):
                for i in range(len(layer.bands)) if band is None else (band,):
                    for window in scratch.strips(_CHUNK):
                        where = window.slices if band is not None else (i, *window.slices)
                        arrays[name][where] = scratch.read(layer, window, [i])[0]


def _variables(layer: Layer) -> list[tuple[str, int | None]]:
    """Variables of a layer: the probabilities are one with an axis, the others one for each band."""
    if layer.name == "probability":
        return [("probability", None)]
    return [(band, i) for i, band in enumerate(layer.bands)]


def _attributes(layer: Layer, name: str, product: Product) -> dict[str, Any]:
    found: dict[str, Any] = {"long_name": name if layer.name in ("uncertainty", "sets") else layer.title}
    if layer.name == "class":
        ordered = product.scheme.in_code_order()  # that of class_name
        found["flag_values"] = [int(code) for code in ordered.codes]
        found["flag_meanings"] = " ".join(word.replace(" ", "_") for word in ordered.names)
    if layer.name == "quality":
        found |= flag_attributes()
    if name in ("total", "measurement", "model", "overlap"):
        found["units"] = "nat"
    elif layer.name in ("probability", "uncertainty", "unknown"):
        found["units"] = "1"
    if layer.scale != 1.0:
        found["scale_factor"] = layer.scale
    if product.grid.crs is not None:
        found["grid_mapping"] = "spatial_ref"
    return found


def _shape(layer: Layer, band: int | None, grid: Grid) -> tuple[list[str], tuple[int, ...], tuple[int, ...]]:
    """Axes, shape and chunks of a variable."""
    chunks = min(_CHUNK, grid.height), min(_CHUNK, grid.width)
    if band is not None:
        return ["y", "x"], grid.shape, chunks
    return ["class_name", "y", "x"], (len(layer.bands), *grid.shape), (1, *chunks)


@contextmanager
def _open_zarr(path: Path, product: Product, attributes: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    require("zarr")
    import zarr

    group = zarr.open_group(str(path), mode="w", zarr_format=2)
    group.attrs.update(dict(attributes))
    names = []
    for layer in product.layers:
        for name, band in _variables(layer):
            axes, shape, chunks = _shape(layer, band, product.grid)
            more = _attributes(layer, name, product)
            if layer.nodata is not None:
                more["_FillValue"] = "NaN" if np.isnan(layer.nodata) else int(layer.nodata)
            create_array(group, name, shape, chunks, layer.dtype, axes, layer.nodata, **more)
            names.append(name)
    for name, values in zip("xy", product.grid.axes(), strict=True):
        put_array(group, name, values, [name], {"axis": name.upper()})
    put_array(group, "class_name", np.array(product.scheme.in_code_order().names), ["class_name"], {})
    put_array(group, "spatial_ref", np.int32(0), [], crs_attributes(product.grid))
    yield open_arrays(path, *names)
    zarr.consolidate_metadata(str(path), zarr_format=2)


@contextmanager
def _open_netcdf(path: Path, product: Product, attributes: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    require("h5netcdf", "h5py")
    import h5netcdf

    with h5netcdf.File(path, "w") as file:
        file.attrs.update({key: _plain(value) for key, value in attributes.items()})
        height, width = product.grid.shape
        file.dimensions = {"y": height, "x": width, "class_name": product.classes}
        for name, values in zip("xy", product.grid.axes(), strict=True):
            file.create_variable(name, (name,), values.dtype, data=values).attrs["axis"] = name.upper()
        names = np.array(product.scheme.in_code_order().names, dtype=object)
        _text_variable(file, names)
        mapping = file.create_variable("spatial_ref", (), np.int32)
        mapping.attrs.update(crs_attributes(product.grid))
        arrays = {}
        for layer in product.layers:
            for name, band in _variables(layer):
                axes, _, chunks = _shape(layer, band, product.grid)
                arrays[name] = file.create_variable(
                    name,
                    tuple(axes),
                    layer.dtype,
                    chunks=chunks,
                    compression="gzip",
                    compression_opts=4,
                    shuffle=True,
                    fillvalue=None if layer.nodata is None else np.dtype(layer.dtype).type(layer.nodata),
                )
                more = _attributes(layer, name, product).items()
                arrays[name].attrs.update({key: _typed(key, value, layer) for key, value in more})
        yield arrays


def _text_variable(file: Any, names: NDArray[Any]) -> None:
    import h5py

    variable = file.create_variable("class_name", ("class_name",), h5py.string_dtype())
    variable[...] = names


def _typed(key: str, value: Any, layer: Layer) -> Any:
    return np.array(value, layer.dtype) if key in ("flag_values", "flag_masks") else value


def _plain(value: Any) -> Any:
    import json

    return value if isinstance(value, str | int | float) else json.dumps(value)
