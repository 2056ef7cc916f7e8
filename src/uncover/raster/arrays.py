"""Scenes from Zarr and NetCDF by xarray: one variable with a band axis, or one variable per band."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.measurement.bands import canonical_band
from uncover.raster.errors import ReadError, SceneError, require
from uncover.raster.grid import Grid, Transform, Window
from uncover.raster.layers import BandGroup, Calibration
from uncover.raster.scene import Scene, SceneOptions
from uncover.raster.stack import warn_of_offset
from uncover.raster.tiles import TileCache, assemble

_ROWS = ("y", "lat", "latitude", "northing", "row")
_COLS = ("x", "lon", "longitude", "easting", "col")
_TIMES = ("time", "t", "date")


@dataclass(frozen=True)
class Plane:
    """One band in a dataset: its variable, and its place on the other axes."""

    name: str
    variable: Hashable
    at: tuple[tuple[Hashable, int], ...]


@dataclass(frozen=True)
class ArraySource:
    """Planes of a Zarr or NetCDF dataset, opened for each read so that processes and threads can share it.

    `decoded` applies the scale, offset and fill value of CF; without it numbers come as they are stored.
    """

    path: str
    planes: tuple[Plane, ...]
    axes: tuple[Hashable, Hashable]
    grid: Grid
    tile: tuple[int, int]
    decoded: bool = True
    moment: str = ""  # of a dataset with several: dates of one file are different scenes

    @property
    def name(self) -> str:
        """The file's own name."""
        return Path(self.path).name

    def read(self, window: Window, cache: TileCache) -> NDArray[Any]:
        """Numbers of a window, (plane, row, col)."""
        with ExitStack() as stack:
            opened: list[Any] = []

            def load(tile: Window) -> NDArray[Any]:
                if not opened:  # once for all tiles: it takes longer than to read one
                    opened.append(stack.enter_context(open_dataset(self.path, self.decoded)))
                rows, cols = tile.slices
                found = [
                    opened[0][plane.variable]
                    .isel({**dict(plane.at), self.axes[0]: rows, self.axes[1]: cols})
                    .transpose(*self.axes)
                    .values
                    for plane in self.planes
                ]
                return np.stack(found)

            def get(tile: Window) -> NDArray[Any]:
                try:
                    return cache.get((self.path, self.planes, self.decoded, tile), lambda: load(tile))
                except (OSError, ValueError, RuntimeError) as error:
                    raise ReadError(
                        f"{self.path}: {tile} cannot be read ({error}); the file is damaged"
                    ) from error

            return assemble(window, self.grid, self.tile, get)


@contextmanager
def open_dataset(path: str, decoded: bool = True) -> Iterator[Any]:
    """Open a Zarr or NetCDF dataset, with its CF scaling applied or with numbers as they are stored."""
    require("xarray", "zarr", "h5netcdf", "h5py")
    import xarray

    engine = "zarr" if path.rstrip("/").lower().endswith(".zarr") else None  # xarray tells NetCDF 3 from 4
    try:
        dataset = xarray.open_dataset(path, engine=engine, decode_coords="all", mask_and_scale=decoded)
    except Exception as error:  # the backends raise whatever they please
        raise ReadError(f"{path} cannot be opened by xarray ({type(error).__name__}: {error})") from error
    with dataset:
        yield dataset


def open_array(path: str | Path, options: SceneOptions) -> Scene:
    """A scene from a dataset whose variables lie on one grid."""
    name = str(path)
    with open_dataset(name) as dataset:
        axes = spatial_axes(dataset, name)
        times, moment = _times(dataset, name), options.moment
        if len(times) > 1 and moment is None:
            raise SceneError(
                f"{name} has {len(times)} dates, {times[0]:%Y-%m-%d} to {times[-1]:%Y-%m-%d}; take them as "
                "features (uncover fit --as features), or store one of them alone"
            )
        offered = list(_planes(dataset, axes, name, moment or 0))
        planes = _choose(offered, options, name)
        first = dataset[planes[0].variable]
        grid = grid_of(dataset, first, axes)
        integer = any(np.issubdtype(dataset[p.variable].dtype, np.integer) for p in planes)
        said = options.scene_id or dataset.attrs.get("scene_id")
    if integer and options.scale is None:
        raise SceneError(
            f"{name} holds integers without a scale; give --scale 0.0001, or --scale 1 to take them as is"
        )
    when = times[moment or 0] if times else None
    several = f"{when:%Y%m%dT%H%M%S}" if when is not None and len(times) > 1 else ""
    source = ArraySource(name, planes, axes, grid, (512, 512), moment=several)
    nodata = options.assumed_nodata if options.nodata is None else options.nodata
    chosen = Calibration(options.scale or 1.0, options.offset or 0.0, nodata)
    bands = tuple(plane.name for plane in planes)
    scene = Scene(
        identity="_".join(filter(None, (str(said or Path(name).stem), several))),
        named=bool(said),
        sensing_time=when,
        bands=bands,
        grid=grid,
        groups=(BandGroup(source, bands, (chosen,) * len(bands)),),
        resampling=options.resampling,
        cache=TileCache(options.cache_bytes),
    )
    if options.offset is None:
        warn_of_offset(scene)
    return scene


def moments(path: str | Path) -> int:
    """Number of dates of a Zarr or NetCDF dataset: the length of its time axis; 1 without one.

    >>> moments("scene.tif")
    1
    """
    name = str(path)
    if not name.rstrip("/").lower().endswith((".zarr", ".nc", ".nc4", ".h5")):
        return 1
    with open_dataset(name) as dataset:
        return max(1, len(_times(dataset, name)))


def _time_axis(dataset: Any) -> Hashable | None:
    lower = {str(dim).lower(): dim for dim in dataset.dims}
    return next((lower[key] for key in _TIMES if key in lower), None)


def _times(dataset: Any, name: str) -> list[datetime]:
    """Times along the time axis, in UTC; none where there is no such axis, or one step without a time."""
    axis = _time_axis(dataset)
    if axis is None or (axis not in dataset.coords and dataset.sizes[axis] == 1):
        return []
    try:
        values = np.asarray(dataset[axis].values).astype("datetime64[us]")
        if axis not in dataset.coords or np.isnat(values).any():
            raise ValueError("no dates")
        seconds = values.astype("int64") / 1e6
    except (TypeError, ValueError) as error:
        if dataset.sizes[axis] == 1:
            return []
        raise SceneError(
            f"{name}: the axis {axis} has no dates ({error}); store them as CF times (days since ...)"
        ) from error
    return [datetime.fromtimestamp(float(each), UTC) for each in seconds]


def spatial_axes(dataset: Any, name: str) -> tuple[Hashable, Hashable]:
    """Names of the row and column axes of a dataset."""
    lower = {str(dim).lower(): dim for dim in dataset.dims}
    row = next((lower[key] for key in _ROWS if key in lower), None)
    col = next((lower[key] for key in _COLS if key in lower), None)
    if row is None or col is None:
        raise SceneError(f"{name} has dimensions {', '.join(map(str, dataset.dims))}; y and x are needed")
    return row, col


def _planes(dataset: Any, axes: tuple[Hashable, Hashable], name: str, moment: int = 0) -> Iterator[Plane]:
    """Every plane that can be a band: other axes are one long, except one of bands, and one of times."""
    time = _time_axis(dataset)
    for variable, array in dataset.data_vars.items():
        if not set(axes) <= set(array.dims) or not np.issubdtype(array.dtype, np.number):
            continue
        others = [dim for dim in array.dims if dim not in (*axes, time)]
        if "realisation" in others:
            raise SceneError(f"{name} has realisations: it is a cube; open it with open_cube")
        long = [dim for dim in others if array.sizes[dim] > 1 or str(dim).lower() in ("band", "bands")]
        if len(long) > 1:
            raise SceneError(
                f"{name}: {variable} has axes {', '.join(map(str, long))}; one of them, the bands, is read"
            )
        fixed = tuple((dim, 0) for dim in others if dim not in long)
        fixed += ((time, moment),) if time is not None and time in array.dims else ()
        if not long:
            yield Plane(canonical_band(str(variable)), variable, fixed)
            continue
        labels = array[long[0]].values if long[0] in array.coords else range(1, array.sizes[long[0]] + 1)
        for i, label in enumerate(labels):
            text = label.decode() if isinstance(label, bytes) else str(label)
            band = canonical_band(text) if not text.isdigit() else f"band_{text}"
            yield Plane(band, variable, (*fixed, (long[0], i)))


def _choose(offered: list[Plane], options: SceneOptions, name: str) -> tuple[Plane, ...]:
    if not offered:
        raise SceneError(f"{name} holds no variable over its spatial axes")
    if options.bands is None:
        return tuple(plane for plane in offered if plane.name != "quality")
    named = {plane.name: plane for plane in offered}
    asked = [canonical_band(band) for band in options.bands]
    if all(band in named for band in asked):
        return tuple(named[band] for band in asked)
    if len(asked) == len(offered) and all(plane.name.startswith("band_") for plane in offered):
        return tuple(Plane(band, p.variable, p.at) for band, p in zip(asked, offered, strict=True))
    missing = ", ".join(band for band in asked if band not in named)
    raise SceneError(f"{name} has no band {missing}; it has {', '.join(named)}. Choose among them")


def grid_of(dataset: Any, array: Any, axes: tuple[Hashable, Hashable]) -> Grid:
    """The grid of a variable: CF grid mapping for the CRS, coordinates for the position."""
    height, width = (int(array.sizes[axis]) for axis in axes)
    stated = str(_mapping(dataset, array).get("GeoTransform", ""))
    transform = _stated_transform(stated, dataset, axes) or _transform(dataset, axes)
    return Grid(_crs(dataset, array, axes), transform, width, height)


def _mapping(dataset: Any, array: Any) -> dict[str, Any]:
    said = array.encoding.get("grid_mapping") or array.attrs.get("grid_mapping") or "spatial_ref"
    for name in (said, "spatial_ref", "crs"):
        if name in dataset.variables:
            return dict(dataset[name].attrs)
    return {}


def _crs(dataset: Any, array: Any, axes: tuple[Hashable, Hashable]) -> str | None:
    attributes = _mapping(dataset, array)
    text = attributes.get("crs_wkt") or attributes.get("spatial_ref") or dataset.attrs.get("crs")
    if text:
        from rasterio.crs import CRS

        return str(CRS.from_user_input(text).to_string())
    return "EPSG:4326" if str(axes[0]).lower().startswith("lat") else None


def _stated_transform(text: str, dataset: Any, axes: tuple[Hashable, Hashable]) -> Transform | None:
    """The transform that a grid mapping states, if the coordinates agree: a cut may leave it behind."""
    try:
        c, a, b, f, d, e = (float(number) for number in text.split())
    except ValueError:
        return None
    for axis, step, edge in ((axes[0], e, f), (axes[1], a, c)):
        if axis not in dataset.coords:
            return None
        values = np.asarray(dataset[axis].values, dtype=np.float64)
        line = edge + step * (np.arange(len(values)) + 0.5)
        if b != 0 or d != 0 or not np.abs(values - line).max() <= 0.01 * abs(step):
            return None
    return a, b, c, d, e, f


def _transform(dataset: Any, axes: tuple[Hashable, Hashable]) -> Transform:
    steps = []
    for axis in axes:
        if axis not in dataset.coords or dataset.sizes[axis] < 2:
            raise SceneError(f"the axis {axis} has no coordinates to tell where its pixels lie; add them")
        values = np.asarray(dataset[axis].values, dtype=np.float64)
        step = (values[-1] - values[0]) / (len(values) - 1)
        line = values[0] + step * np.arange(len(values))
        if step == 0 or np.abs(values - line).max() > 0.01 * abs(step):
            raise SceneError(f"the coordinates of axis {axis} are not evenly spaced; regrid the data first")
        steps.append((float(step), float(values[0] - step / 2)))
    (dy, y), (dx, x) = steps
    return dx, 0.0, x, 0.0, dy, y
