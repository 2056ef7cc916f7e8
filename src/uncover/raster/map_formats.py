"""Files of a map from its scratch: Cloud-Optimised GeoTIFFs, or one CF dataset (Zarr, NetCDF)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uncover.labels import Scheme
from uncover.raster.cube import axis_attributes, create_array, crs_attributes, open_arrays, put_array
from uncover.raster.errors import SceneError, require
from uncover.raster.grid import Grid, Window
from uncover.raster.pixel_kernels import count
from uncover.raster.product import UNIT, Layer, Product
from uncover.raster.quality import flag_attributes
from uncover.raster.scratch import Scratch
from uncover.raster.tiles import GDAL_OPTIONS, open_raster

_GDAL_TYPES = {"uint8": "Byte", "uint16": "UInt16", "float32": "Float32"}
_SIDE = 1024  # of the windows that are read back
#: GDAL's settings while it writes. What it keeps of overviews meanwhile is not worth compressing.
WRITING = {**GDAL_OPTIONS, "GDAL_PAM_ENABLED": "NO", "COG_TMP_COMPRESSION": "NONE"}
_STATISTICS = ("minimum", "maximum", "mean", "stddev")
SCHEME_TAG = "UNCOVER_SCHEME"
LAYER_TAG = "UNCOVER_LAYER"


#: Layers whose numbers are classes of the product's scheme, in their colours.
COLOURED = ("class", "transition")


def write_cog(path: Path, scratch: Scratch, layer: Layer, tags: Mapping[str, str]) -> None:
    """Write one layer with overviews, statistics, names and georeferencing."""
    import rasterio
    import rasterio.shutil

    description = scratch.folder / f"{layer.name}.vrt"
    description.write_text(_vrt(scratch, layer, tags), "utf-8")
    path.unlink(missing_ok=True)
    with _whole(path), rasterio.Env(**WRITING):
        rasterio.shutil.copy(description, path, driver="COG", **cog_options(layer))


def check_cog(path: Path, scratch: Scratch, layer: Layer) -> None:
    """Read a layer back: GDAL does not report every write that a full disk refuses."""
    bits = f"u{layer.itemsize}"  # numbers that are not numbers are equal, too
    with _whole(path), open_raster(str(path)) as dataset:
        for window in Grid.of(dataset).blocks(_SIDE):
            found, wanted = _window(dataset, window), scratch.read(layer, window)
            if not np.array_equal(found.view(bits), wanted.view(bits)):
                raise OSError(f"{window} differs from what was computed; is the disk full?")
        for level in range(len(dataset.overviews(1))):
            _read_overview(path, level)


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Say which file it was; of some of GDAL's errors rasterio makes none of its own."""
    from rasterio._err import CPLE_BaseError
    from rasterio.errors import RasterioError

    try:
        yield
    except (RasterioError, CPLE_BaseError, OSError) as error:
        why = str(error.__cause__ or error).splitlines()[0]
        raise OSError(f"{path.name} was not written whole ({why})") from error


def cog_options(layer: Layer) -> dict[str, Any]:
    """Options of GDAL's COG driver. One thread for each file: several files are written at a time.

    Bands lie pixel by pixel, and neighbouring pixels are less alike than what a pixel repeats: whole numbers
    are smaller without a predictor. At level 1 files are as large as by the usual 6 with one, in a quarter of
    the time.
    """
    return {
        "compress": "DEFLATE",
        "level": 1,
        "predictor": "FLOATING_POINT" if layer.dtype == "float32" else "NO",
        "blocksize": 512,
        "overview_resampling": layer.resampling.upper(),
        "overview_predictor": "NO",
        "bigtiff": "IF_SAFER",
        "num_threads": 1,
    }


def _window(dataset: Any, window: Window) -> NDArray[Any]:
    rows, cols = window.slices
    found: NDArray[Any] = dataset.read(window=((rows.start, rows.stop), (cols.start, cols.stop)))
    return found


def _read_overview(path: Path, level: int) -> None:
    import rasterio

    with rasterio.open(path, overview_level=level) as dataset:
        for window in Grid.of(dataset).blocks(_SIDE):
            _window(dataset, window)


def _vrt(scratch: Scratch, layer: Layer, tags: Mapping[str, str]) -> str:
    """The plain file of a layer, described for GDAL."""
    grid = scratch.product.grid
    numbers = band_statistics(scratch, layer)
    bands = "".join(_band(scratch, layer, i, numbers[i]) for i in range(len(layer.bands)))
    items = "".join(f'<MDI key="{escape(key)}">{escape(value)}</MDI>' for key, value in sorted(tags.items()))
    return (
        f'<VRTDataset rasterXSize="{grid.width}" rasterYSize="{grid.height}">'
        f"{_georeference(grid)}<Metadata>{items}</Metadata>{bands}</VRTDataset>"
    )


def _georeference(grid: Grid) -> str:
    a, b, c, d, e, f = (repr(float(value)) for value in grid.transform)
    place = f"<GeoTransform>{c}, {a}, {b}, {f}, {d}, {e}</GeoTransform>"
    if grid.crs is None:
        return place
    from rasterio.crs import CRS

    wkt = CRS.from_user_input(grid.crs).to_wkt()
    return f'<SRS dataAxisToSRSAxisMapping="{_axes(grid.crs)}">{escape(wkt)}</SRS>{place}'


def _axes(crs: str) -> str:
    """GDAL's word for "x first": geographic systems of EPSG put latitude first by themselves."""
    from rasterio.crs import CRS

    found = CRS.from_user_input(crs)
    return "2,1" if found.is_geographic and found.to_epsg() else "1,2"


def _band(scratch: Scratch, layer: Layer, i: int, numbers: Mapping[str, float]) -> str:
    items = "".join(
        f'<MDI key="STATISTICS_{name.upper()}">{value:.10g}</MDI>' for name, value in numbers.items()
    )
    parts = [f"<Metadata>{items}</Metadata><Description>{escape(layer.bands[i])}</Description>"]
    if layer.nodata is not None:
        parts.append(f"<NoDataValue>{'nan' if np.isnan(layer.nodata) else int(layer.nodata)}</NoDataValue>")
    if layer.scale != 1.0:
        parts.append(f"<Offset>0</Offset><Scale>{layer.scale!r}</Scale>")
    if layer.name in COLOURED:
        parts.append(_colours(scratch.product.scheme))
    return (
        f'<VRTRasterBand dataType="{_GDAL_TYPES[layer.dtype]}" band="{i + 1}" '
        f'blockXSize="{UNIT}" blockYSize="{UNIT}">{"".join(parts)}<SimpleSource>'
        f'<SourceFilename relativeToVRT="1">{scratch.path(layer.name).name}</SourceFilename>'
        f"<SourceBand>{i + 1}</SourceBand></SimpleSource></VRTRasterBand>"
    )


def _colours(scheme: Scheme) -> str:
    table = scheme.colour_table()
    entries = "".join(_entry(table.get(code, (0, 0, 0, 0))) for code in range(256))
    return f"<ColorInterp>Palette</ColorInterp><ColorTable>{entries}</ColorTable>"


def _entry(colour: tuple[int, ...]) -> str:
    red, green, blue, *alpha = colour
    return f'<Entry c1="{red}" c2="{green}" c3="{blue}" c4="{alpha[0] if alpha else 255}"/>'


def class_tags(scheme: Scheme) -> dict[str, str]:
    """Tags that carry the class scheme."""
    return {SCHEME_TAG: json.dumps(scheme.as_dict(), ensure_ascii=True)}


def category_names(scheme: Scheme) -> str:
    """GDAL's own side file with the name of each code; TIFF itself has no place for them."""
    names = "".join(f"      <Category>{escape(name)}</Category>\n" for name in scheme.category_names())
    return (
        '<PAMDataset>\n  <PAMRasterBand band="1">\n    <CategoryNames>\n'
        f"{names}    </CategoryNames>\n  </PAMRasterBand>\n</PAMDataset>\n"
    )


def band_statistics(scratch: Scratch, layer: Layer) -> list[dict[str, float]]:
    """Minimum, maximum, mean and standard deviation of each band's stored numbers; empty where it has none.

    Not left to GDAL: its COG driver writes zeros when it computes statistics of plain files.
    """
    if np.dtype(layer.dtype).kind == "u":
        return [_of_counts(counts, layer) for counts in number_counts(scratch, layer)]
    found = [_RunningStatistics() for _ in layer.bands]
    for window in scratch.units:
        for numbers, plane in zip(found, scratch.read(layer, window), strict=True):
            numbers.add(_known(plane, layer).astype(np.float64))
    return [numbers.statistics() for numbers in found]


def number_counts(scratch: Scratch, layer: Layer) -> NDArray[np.int64]:
    """Count of each whole number: (band, number)."""
    counts = np.zeros((len(layer.bands), np.iinfo(layer.dtype).max + 1), np.int64)
    for window in scratch.units:
        count(scratch.read(layer, window), counts)
    return counts


def _of_counts(counts: NDArray[np.int64], layer: Layer) -> dict[str, float]:
    if layer.nodata is not None:
        counts[int(layer.nodata)] = 0
    there, n = np.flatnonzero(counts), counts.sum()
    if not n:
        return {}
    mean = float(counts[there] @ there / n)
    spread = float(counts[there] @ (there - mean) ** 2 / n)
    numbers = (float(there[0]), float(there[-1]), mean, spread**0.5)
    return dict(zip(_STATISTICS, numbers, strict=True))


@dataclass
class _RunningStatistics:
    """Statistics of numbers that come in pieces."""

    n: int = 0
    lowest: float = np.inf
    highest: float = -np.inf
    mean: float = 0.0
    squares: float = 0.0

    def add(self, values: NDArray[np.float64]) -> None:
        if not len(values):
            return
        self.lowest, self.highest = min(self.lowest, values.min()), max(self.highest, values.max())
        together, here = self.n + len(values), float(values.mean())
        away = (here - self.mean) ** 2 * self.n * len(values) / together
        self.squares += float(((values - here) ** 2).sum()) + away
        self.mean += (here - self.mean) * len(values) / together
        self.n = together

    def statistics(self) -> dict[str, float]:
        numbers = (self.lowest, self.highest, self.mean, (self.squares / max(self.n, 1)) ** 0.5)
        return dict(zip(_STATISTICS, map(float, numbers), strict=True)) if self.n else {}


def _known(plane: NDArray[Any], layer: Layer) -> NDArray[Any]:
    if layer.nodata is None:
        return plane.ravel()
    known: NDArray[Any] = plane[~np.isnan(plane)] if np.isnan(layer.nodata) else plane[plane != layer.nodata]
    return known


def statistics(path: Path) -> list[dict[str, float]]:
    """Statistics of each band, as a file has them."""
    with open_raster(str(path)) as dataset:
        tags = [dataset.tags(i) for i in range(1, dataset.count + 1)]
    keys = {name: f"STATISTICS_{name.upper()}" for name in _STATISTICS}
    return [{name: float(band[key]) for name, key in keys.items() if key in band} for band in tags]


Format = Literal["zarr", "netcdf"]
_CHUNK = 512


@dataclass(frozen=True)
class Column:
    """A small variable of a dataset with its attributes."""

    name: str
    axes: tuple[str, ...]
    values: NDArray[Any]
    attributes: Mapping[str, Any]


def effect_variables(
    bands: Sequence[str],
    mean: NDArray[np.float64],
    effects: Mapping[str, tuple[NDArray[np.float64], str]],
) -> list[Column]:
    """A digital effects table of the scene's mean, in the names of obsarray and of the UNC.

    Of each effect the covariance between bands, and whether its errors are systematic or random between
    pixels.
    """
    names = [f"u_{name.replace('-', '_')}" for name in effects]
    title = "mean of the features at sampled pixels of the scene"
    said = {"units": "1", "long_name": title, "unc_comps": names}
    found = [
        Column("band", ("band",), np.array(list(bands)), {"long_name": "name of the feature"}),
        Column("scene_mean", ("band",), mean, said),
    ]
    for name, (covariance, between) in zip(names, effects.values(), strict=True):
        u = np.sqrt(np.diagonal(covariance))
        size = np.outer(u, u)
        R = np.divide(covariance, size, out=np.eye(len(u)), where=size > 0)
        np.fill_diagonal(R, 1.0)
        matrix = f"err_corr_{name[2:]}"
        entries: tuple[tuple[Any, str, list[str]], ...]
        entries = (("band", "err_corr_matrix", [matrix]), (["y", "x"], between, []))
        more: dict[str, Any] = {"units": "1"}
        more |= {} if name == "u_aerosol_model" else {"pdf_shape": "gaussian"}  # which is one of some kinds
        more["long_name"] = f"standard uncertainty by {name[2:].replace('_', ' ')}"
        for i, (dims, form, params) in enumerate(entries, start=1):
            for first, last in ((f"err_corr_{i}_", "dim"), (f"err_corr_dim{i}_", "name")):
                more |= {f"{first}{last}": dims, f"{first}form": form}
                more |= {f"{first}params": params} if params else {}
        found.append(Column(name, ("band",), u, more))
        found.append(Column(matrix, ("band", "band_2"), np.clip(R, -1, 1), {"units": "1"}))
    return found


def write_dataset(
    path: Path,
    scratch: Scratch,
    kind: Format,
    attributes: Mapping[str, Any],
    table: Sequence[Column] = (),
) -> None:
    """Write all layers as one dataset, in place of what may lie there from a run that was stopped.

    `table` has further variables, such as those of `effect_variables`.
    """
    product = scratch.product
    if product.grid.transform[1] != 0 or product.grid.transform[3] != 0:
        raise SceneError("a CF dataset needs a grid that runs along its axes; this one is rotated, use cog")
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    opener = _open_zarr if kind == "zarr" else _open_netcdf
    with opener(path, product, {"Conventions": "CF-1.11, ACDD-1.3", **attributes}, table) as arrays:
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
    if layer.name == "shares":
        return [(share_variable(band), i) for i, band in enumerate(layer.bands)]
    return [(band, i) for i, band in enumerate(layer.bands)]


def share_variable(effect: str) -> str:
    """Name of the part that an effect has of the measurement part.

    >>> share_variable("water-vapour")
    'measurement_water_vapour'
    """
    return f"measurement_{effect.replace('-', '_')}"


_LONG_NAMES = {
    "total": "total uncertainty of the class: entropy of its probabilities, in nats",
    "measurement": "part of the total uncertainty that comes from the measurement, in nats",
    "model": "part of the total uncertainty that comes from the model, in nats",
    "overlap": "part of the total uncertainty that comes from classes that overlap, in nats",
    "margin": "probability of the most probable class less that of the second",
    "typicality": "p-value of the pixel among the training data, small where it is unlike all of them",
    "set_size": "number of classes that cannot be excluded",
}


def _attributes(layer: Layer, name: str, product: Product) -> dict[str, Any]:
    title = f"1 where the class cannot be excluded, {name.removeprefix('in_set_')}"
    several = layer.name in ("uncertainty", "sets")
    found: dict[str, Any] = {"long_name": _LONG_NAMES.get(name, title) if several else layer.title}
    if layer.name == "shares":
        found["long_name"] = (
            f"part of the measurement part by {name.removeprefix(share_variable(''))}, in nats"
        )
    found["coverage_content_type"] = "thematicClassification" if name == "class" else "qualityInformation"
    if layer.name == "class":
        ordered = product.scheme.in_code_order()  # that of class_name
        found["flag_values"] = [int(code) for code in ordered.codes]
        found["flag_meanings"] = " ".join(word.replace(" ", "_") for word in ordered.names)
    if layer.name == "quality":
        found |= flag_attributes()
    if layer.name in ("probability", "uncertainty", "unknown", "shares"):
        found["units"] = "1"  # entropies too: UDUNITS reads nat as a pressure
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


def _small_variables(product: Product, table: Sequence[Column]) -> list[Column]:
    """Coordinates, names of the classes and reference system of a map, and what a table adds."""
    axes = zip("xy", product.grid.axes(), strict=True)
    names = np.array(product.scheme.in_code_order().names)
    return [
        *(Column(name, (name,), values, axis_attributes(product.grid, name)) for name, values in axes),
        Column("class_name", ("class_name",), names, {"long_name": "name of the class"}),
        Column("spatial_ref", (), np.array(0, np.int32), crs_attributes(product.grid)),
        *table,
    ]


@contextmanager
def _open_zarr(
    path: Path, product: Product, attributes: Mapping[str, Any], table: Sequence[Column]
) -> Iterator[Mapping[str, Any]]:
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
    for column in _small_variables(product, table):
        put_array(group, column.name, column.values, list(column.axes), column.attributes)
    yield open_arrays(path, *names)
    zarr.consolidate_metadata(str(path), zarr_format=2)


@contextmanager
def _open_netcdf(
    path: Path, product: Product, attributes: Mapping[str, Any], table: Sequence[Column]
) -> Iterator[Mapping[str, Any]]:
    require("h5netcdf", "h5py")
    import h5netcdf
    import h5py

    with h5netcdf.File(path, "w") as file:
        file.attrs.update({key: _plain(value) for key, value in attributes.items()})
        height, width = product.grid.shape
        lengths = {axis: n for each in table for axis, n in zip(each.axes, each.values.shape, strict=True)}
        file.dimensions = {"y": height, "x": width, "class_name": product.classes, **lengths}
        for column in _small_variables(product, table):
            is_text = column.values.dtype.kind == "U"
            kind = h5py.string_dtype() if is_text else column.values.dtype
            made = file.create_variable(column.name, column.axes, kind)
            made[...] = column.values.astype(object) if is_text else column.values
            made.attrs.update(column.attributes)
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


def _typed(key: str, value: Any, layer: Layer) -> Any:
    return np.array(value, layer.dtype) if key in ("flag_values", "flag_masks") else value


def _plain(value: Any) -> Any:
    import json

    return value if isinstance(value, str | int | float) else json.dumps(value)
