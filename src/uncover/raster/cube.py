"""Cubes: realisations of a scene in Zarr format 2, written and read block by block, resumable."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from uncover.files import reader, typed
from uncover.measurement.features import EMBEDDED, Features, Level
from uncover.progress import in_units
from uncover.raster.cluster import computed
from uncover.raster.errors import ReadError, SceneError, require
from uncover.raster.fingerprints import content_identity
from uncover.raster.grid import Grid, Progress, Window
from uncover.raster.journal import fingerprint, unfinished, writing
from uncover.raster.layers import Flags
from uncover.raster.quality import Flagged, flag_attributes
from uncover.raster.tiles import check_exists
from uncover.remote import is_address

#: A chunk holds all realisations and bands of a window; about this many bytes before compression.
CHUNK_BYTES = 16 * 1024 * 1024

_TILE = 1024  # pixels along a tile of a Sentinel-2 band at 10 m
_AXES = ["realisation", "band", "y", "x"]

_BLOSC_HEADER = 16  # bytes; the last four are the size of the chunk


@dataclass(frozen=True)
class CubeBlock(Flagged):
    """All realisations and bands of one window.

    >>> values = np.ones((2, 3, 1, 2), np.float32)
    >>> block = CubeBlock(Window(0, 0, 1, 2), values, np.array([[0, 1]], np.uint16))
    >>> block.samples().shape
    (1, 2, 3)
    """

    window: Window
    values: NDArray[np.float32]  # (realisation, band, row, col), NaN where there is none
    quality: Flags  # (row, col)

    def samples(self, where: NDArray[np.bool_] | None = None) -> NDArray[np.float32]:
        """Values of some pixels, the valid ones by default, (pixel, realisation, band), row by row."""
        chosen = self.valid if where is None else where
        return np.ascontiguousarray(np.moveaxis(self.values[:, :, chosen], 2, 0))


@dataclass(frozen=True)
class CubeLayout:
    """Layout of a cube. `coordinates` run along the realisations, for instance the AOD of each.

    >>> grid = Grid("EPSG:32633", (10, 0, 0, 0, -10, 0), width=5000, height=5000)
    >>> CubeLayout(grid, ("B02",) * 10, realisations=25).edge
    128
    """

    grid: Grid
    bands: tuple[str, ...]
    realisations: int
    identity: str = ""
    coordinates: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def edge(self) -> int:
        """Rows and columns of a chunk: a power of two, so that chunks nest in blocks."""
        pixels = CHUNK_BYTES / (4 * self.realisations * len(self.bands))
        return int(np.clip(2 ** int(np.log2(max(pixels, 1)) / 2), 16, 1024))

    def blocks(self) -> list[Window]:
        """The windows of the chunks, in order."""
        return list(self.grid.blocks(self.edge))

    def key(self, more: Mapping[str, Any]) -> str:
        """Fingerprint of the layout and of whatever else decides the numbers."""
        coordinates = {name: np.asarray(values).tolist() for name, values in self.coordinates.items()}
        grid = {name: getattr(self.grid, name) for name in ("crs", "transform", "width", "height")}
        return fingerprint(
            {
                "grid": grid,
                "bands": self.bands,
                "realisations": self.realisations,
                "identity": self.identity,
                "coordinates": coordinates,
                "attributes": dict(self.attributes),
                "more": dict(more),
            }
        )


def write_cube(
    path: str | Path,
    layout: CubeLayout,
    produce: Callable[[Window], CubeBlock],
    *,
    inputs: Mapping[str, Any] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    check: Callable[[], None] = lambda: None,
    scheduler: str | None = None,
) -> Cube:
    """Write a cube block by block. `produce` makes the block of a window; one at a time is in memory.

    Or the workers of a dask.distributed `scheduler` make the blocks, which are written here.

    The cube grows in `PATH.partial` and gets its name when it is complete. A run that was stopped goes on
    with `resume=True`, if layout and `inputs` (what else decides the numbers) are the same. `check` raises
    where inputs have changed.

    >>> import tempfile
    >>> layout = CubeLayout(Grid(None, (1, 0, 0, 0, -1, 0), 3, 2), ("B02", "B03"), realisations=5)
    >>> def produce(window):
    ...     values = np.zeros((5, 2, *window.shape), np.float32)
    ...     return CubeBlock(window, values, np.zeros(window.shape, np.uint16))
    >>> cube = write_cube(tempfile.mkdtemp() + "/cube.zarr", layout, produce)
    >>> [block.samples().shape for block in cube]
    [(6, 5, 2)]
    """
    key = layout.key(inputs or {})
    with unfinished(path, key, resume, check=check) as (store, journal), in_units() as may_stop:
        if not (store / ".zmetadata").exists():
            with writing(path):
                _create(store, layout)
        arrays = open_arrays(store, "reflectance", "quality")
        windows = layout.blocks()
        # Chunks of one tile of a product follow each other, so that each of its tiles is decoded once.
        order = sorted(range(len(windows)), key=lambda i: (windows[i].row // _TILE, windows[i].col // _TILE))
        todo = (windows[i] for i in order if str(i) not in journal.done)
        made = computed(produce, todo, scheduler)
        for done, i in enumerate(order, start=1):
            if str(i) not in journal.done:
                block = next(made)
                with writing(path):
                    _store(arrays, layout, block, windows[i])
                    journal.add(str(i))
                may_stop()
            if progress is not None:
                progress(done, len(windows))
    return open_cube(path)


def _create(store: Path, layout: CubeLayout) -> None:
    """Arrays, coordinates and CF attributes; no pixels yet."""
    require("zarr", "rasterio")
    import zarr

    shutil.rmtree(store, ignore_errors=True)
    group = zarr.open_group(str(store), mode="w", zarr_format=2)
    group.attrs.update({"Conventions": "CF-1.11", "scene_id": layout.identity, **layout.attributes})
    edge, shape = layout.edge, layout.grid.shape
    chunk = (min(edge, shape[0]), min(edge, shape[1]))
    wide = (layout.realisations, len(layout.bands))
    spatial = _spatial(layout.grid)
    create_array(
        group, "reflectance", (*wide, *shape), (*wide, *chunk), "float32", _AXES, fill=float("nan"),
        standard_name="surface_bidirectional_reflectance", units="1",
        coordinates=" ".join(layout.coordinates), **spatial,
    )  # fmt: skip
    create_array(group, "quality", shape, chunk, "uint16", ["y", "x"], **flag_attributes(), **spatial)
    for name, values in _coordinates(layout).items():
        put_array(group, name, *values)
    if layout.grid.crs:
        put_array(group, "spatial_ref", np.int32(0), [], crs_attributes(layout.grid))
    zarr.consolidate_metadata(str(store), zarr_format=2)


def create_array(
    group: Any,
    name: str,
    shape: Any,
    chunks: Any,
    dtype: Any,
    axes: list[str],
    fill: Any = None,
    **attributes: Any,
) -> Any:
    """An array of format 2 that GDAL and xarray read; both take `fill` for nodata: None, there is none."""
    from numcodecs import Blosc

    return group.create_array(
        name,
        shape=shape,
        chunks=chunks,
        dtype=dtype,
        fill_value=fill,
        compressors=Blosc(cname="zstd", clevel=1, shuffle=Blosc.SHUFFLE),
        attributes={"_ARRAY_DIMENSIONS": axes, **{k: v for k, v in attributes.items() if v != ""}},
    )


def put_array(group: Any, name: str, values: Any, axes: list[str], attributes: Mapping[str, Any]) -> None:
    """A small array with its values."""
    values = np.asarray(values)
    shape = values.shape
    array = create_array(group, name, shape, shape, values.dtype, axes, **attributes)
    array[...] = values


def _spatial(grid: Grid) -> dict[str, Any]:
    if grid.crs is None:
        return {}
    from rasterio.crs import CRS

    # GDAL looks for _CRS, everybody else for the CF grid mapping.
    return {"grid_mapping": "spatial_ref", "_CRS": {"wkt": CRS.from_user_input(grid.crs).to_wkt()}}


def time_text(time: datetime | None) -> str | None:
    """A time as the attribute `sensing_time` of a cube has it."""
    return None if time is None else time.isoformat()


def crs_attributes(grid: Grid) -> dict[str, Any]:
    """Attributes of the grid mapping of a grid: its transform, and its reference system if it has one."""
    a, b, c, d, e, f = grid.transform
    numbers = " ".join(repr(float(value)) for value in (c, a, b, f, d, e))
    if grid.crs is None:
        return {"GeoTransform": numbers}
    wkt = _spatial(grid)["_CRS"]["wkt"]
    named = {key: value for key, value in _cf_system(wkt).to_cf().items() if value not in (None, "unknown")}
    return {**named, "crs_wkt": wkt, "spatial_ref": wkt, "GeoTransform": numbers}


def axis_attributes(grid: Grid, axis: str) -> dict[str, str]:
    """CF attributes of the coordinate x or y: its standard name and its units, if it has a reference system.

    >>> axis_attributes(Grid("EPSG:32633", (10, 0, 0, 0, -10, 0), 2, 1), "x")["standard_name"]
    'projection_x_coordinate'
    """
    if grid.crs is None:
        words = {"x": "column", "y": "row"}
        return {"axis": axis.upper(), "long_name": f"{words[axis]} of the pixels", "units": "1"}
    described = _cf_system(_spatial(grid)["_CRS"]["wkt"]).cs_to_cf()
    return next(
        (dict(each) for each in described if each.get("axis") == axis.upper()), {"axis": axis.upper()}
    )


def _cf_system(wkt: str) -> Any:
    require("pyproj")
    from pyproj import CRS

    return CRS.from_wkt(wkt)


def _coordinates(layout: CubeLayout) -> dict[str, tuple[Any, list[str], dict[str, Any]]]:
    grid = layout.grid
    _, b, _, d, _, _ = grid.transform
    if b != 0 or d != 0:
        raise SceneError(
            "a cube needs a grid that runs along its CRS; this one is rotated, warp the scene first"
        )
    x, y = grid.axes()
    found: dict[str, tuple[Any, list[str], dict[str, Any]]] = {
        "x": (x, ["x"], axis_attributes(grid, "x")),
        "y": (y, ["y"], axis_attributes(grid, "y")),
        "band": (np.array(layout.bands, dtype=np.str_), ["band"], {}),
        "realisation": (np.arange(layout.realisations), ["realisation"], {}),
    }
    for name, values in layout.coordinates.items():
        if np.shape(values) != (layout.realisations,):
            raise SceneError(
                f"coordinate {name} has shape {np.shape(values)}; ({layout.realisations},) is needed"
            )
        found[name] = (values, ["realisation"], {})
    return found


@reader
def open_arrays(store: Path, *names: str) -> dict[str, Any]:
    """Arrays to write to, whose chunks are written also when they are empty."""
    import zarr

    with zarr.config.set({"array.write_empty_chunks": True}):
        group = zarr.open_group(str(store), mode="r+", zarr_format=2, use_consolidated=False)
        return {name: group[name] for name in names}


def _store(arrays: dict[str, Any], layout: CubeLayout, block: CubeBlock, window: Window) -> None:
    needed = (layout.realisations, len(layout.bands), *window.shape)
    if block.values.shape != needed or block.quality.shape != window.shape:
        raise SceneError(f"a block of shape {block.values.shape} came for {window}; {needed} is needed")
    arrays["reflectance"][:, :, *window.slices] = block.values
    arrays["quality"][window.slices] = block.quality


@dataclass(frozen=True)
class Cube:
    """A finished cube: what it holds, and its blocks. `write_cube` and `open_cube` make it.

    Iterating gives one block after the other: enough to accumulate statistics without loading the cube.
    """

    path: Path | str  # or its address
    grid: Grid
    bands: tuple[str, ...]
    realisations: int
    identity: str
    coordinates: Mapping[str, NDArray[Any]]
    attributes: Mapping[str, Any]
    chunk: tuple[int, int]
    level: Level | None = None  # the user's word, where the cube does not say it

    @property
    def features(self) -> Features:
        """Kind of the values, as far as the cube or the user states it."""
        return stated_features(self.attributes, self.bands, self.level)

    @property
    def source_id(self) -> str:
        """Identity of the scene that it was made of, or a hash of the cube."""
        return self.identity or content_identity(self)

    @property
    def worlds(self) -> dict[str, Any]:
        """Draws that made the realisations, by quantity; a hash of the cube where it does not have them."""
        drawn = {name: np.asarray(v).tolist() for name, v in self.coordinates.items() if name != "weight"}
        return drawn or {"content": content_identity(self)}

    @property
    def sensing_time(self) -> datetime | None:
        """When its scene was measured, where it says so."""
        stated = self.attributes.get("sensing_time")
        return None if stated is None else datetime.fromisoformat(str(stated))

    def blocks(self) -> Iterator[Window]:
        """Windows of the chunks, in order: the natural unit of work."""
        return self.grid.window.cut(self.chunk)

    def read(self, window: Window | None = None) -> CubeBlock:
        """All realisations and bands of a window."""
        window = self.grid.window if window is None else window
        self.grid.crop(window)
        self._check_chunks(window)
        import zarr

        try:
            group = zarr.open_group(str(self.path), mode="r", zarr_format=2)
            values: Any = group["reflectance"][:, :, *window.slices]
            quality: Any = group["quality"][window.slices]
        except (OSError, ValueError, RuntimeError, MemoryError) as error:
            raise ReadError(f"{self.path}: {window} cannot be read ({error}); the cube is damaged") from error
        return CubeBlock(window, values, quality)

    def _check_chunks(self, window: Window) -> None:
        height, width = self.chunk
        for i in range(window.row // height, -(-(window.row + window.height) // height)):
            for j in range(window.col // width, -(-(window.col + window.width) // width)):
                check_chunks(self.path, f"reflectance/0.0.{i}.{j}", f"quality/{i}.{j}")

    def __iter__(self) -> Iterator[CubeBlock]:
        """All blocks, one at a time."""
        return (self.read(window) for window in self.blocks())


class _Attributes(TypedDict, total=False):
    scene_id: str
    sensing_time: str | None
    level: Level | None
    correction: str | None
    features: dict[str, Any]


#: Coordinates are read whole.
_MOST_NUMBERS = 1 << 22


@reader
def open_cube(path: str | Path) -> Cube:
    """Open a cube that `write_cube` made."""
    group = open_store(path)
    if "reflectance" not in group or group["reflectance"].ndim != 4:
        raise SceneError(
            f"{path} has no reflectance over realisation, band, y, x; it is not a cube of a scene"
        )
    array: Any = group["reflectance"]
    said = typed(dict(group.attrs), _Attributes, f"the attributes of {path}")
    names = [n for n, a in group.arrays() if a.attrs.get("_ARRAY_DIMENSIONS") == ["realisation"]]
    if any(array.size > _MOST_NUMBERS for name, array in group.arrays() if array.ndim < 2):
        raise SceneError(f"{path} has an axis of more than {_MOST_NUMBERS:,} places; it is damaged")
    cube = Cube(
        path=str(path) if is_address(path) else Path(path),
        grid=_grid(group),
        bands=tuple(str(band) for band in group["band"][...]),
        realisations=int(array.shape[0]),
        identity=said.get("scene_id", ""),
        coordinates={name: group[name][...] for name in names if name != "realisation"},
        attributes={k: v for k, v in group.attrs.items() if k not in ("Conventions", "scene_id")},
        chunk=(int(array.chunks[2]), int(array.chunks[3])),
    )
    if cube.grid.shape != array.shape[2:] or len(cube.bands) != array.shape[1] or 0 in array.shape:
        raise SceneError(f"{path} has reflectance of another size than its axes; it is damaged")
    _ = cube.features, cube.sensing_time  # say at once what is wrong with them
    return cube


def stated_features(attributes: Mapping[str, Any], bands: Sequence[str], level: Level | None) -> Features:
    """Kind of values by the attributes of their store, else by the user's word."""
    if "features" in attributes:
        return Features.from_dict(attributes["features"]).chosen(bands)
    said = Features.of_level(bands, attributes.get("level") or level)
    ours = said.level != "L2A" and attributes.get("correction") == EMBEDDED
    return said.corrected(EMBEDDED) if ours else said


def open_store(path: str | Path) -> Any:
    """The Zarr group of a finished cube."""
    if is_address(path):
        check_exists(str(path))
    elif not Path(path).exists():
        hint = "it is unfinished, go on with resume" if Path(f"{path}.partial").exists() else "check the path"
        raise SceneError(f"{path} does not exist; {hint}")
    require("zarr", "rasterio")
    import zarr

    try:
        return zarr.open_group(str(path), mode="r", zarr_format=2)
    except (OSError, ValueError, KeyError) as error:
        raise ReadError(f"{path} is not a readable Zarr store of format 2 ({error})") from error


def _grid(group: Any) -> Grid:
    x, y = group["x"][...], group["y"][...]
    crs = None
    if "spatial_ref" not in group:
        step = (x[1] - x[0] if len(x) > 1 else 1.0), (y[1] - y[0] if len(y) > 1 else -1.0)
        c, a, b, f, d, e = x[0] - step[0] / 2, step[0], 0.0, y[0] - step[1] / 2, 0.0, step[1]
    else:
        from rasterio.crs import CRS

        attributes = group["spatial_ref"].attrs
        crs = CRS.from_wkt(attributes["crs_wkt"]).to_string()
        c, a, b, f, d, e = (float(value) for value in attributes["GeoTransform"].split())
    return Grid(crs, (a, b, c, d, e, f), len(x), len(y))


def check_chunks(store: Path | str, *files: str) -> None:
    """Refuse chunks that are not there or have been cut.

    Zarr reads a chunk that is not there as empty. And Blosc believes the size in a chunk's header: of one
    that was cut it reads on in memory, where the rest may still lie from before, or anything else.
    """
    for name in files:
        if is_address(store):  # where a file is whole or not there
            check_exists(f"{store}/{name}")
            continue
        file = Path(store) / name
        if not file.exists():
            raise ReadError(f"{store} lacks {name}; it is damaged, write it again")
        if _is_blosc(file.parent / ".zarray") and not _is_whole(file):
            raise ReadError(f"{store}: {name} has been cut; it is damaged, write it again")


@lru_cache(maxsize=256)
def _is_blosc(metadata: Path) -> bool:
    try:
        compressor = json.loads(metadata.read_text("utf-8"))["compressor"] or {}
    except (OSError, ValueError, KeyError) as error:
        raise ReadError(
            f"{metadata} cannot be read ({error}); the store is damaged, write it again"
        ) from error
    return bool(compressor.get("id") == "blosc")


def _is_whole(file: Path) -> bool:
    """True where a chunk is as long as its header says."""
    with open(file, "rb") as stream:
        header = stream.read(_BLOSC_HEADER)
    return len(header) == _BLOSC_HEADER and struct.unpack("<I", header[12:])[0] == file.stat().st_size


def is_zarr(name: str | Path) -> bool:
    """True for a Zarr store, by its name."""
    return str(name).rstrip("/").lower().endswith(".zarr")


def zarr_kind(path: str | Path) -> Literal["cube", "samples", "scene"]:
    """Kind of a Zarr store by the axes of its reflectance: with samples, with realisations, or neither."""
    group = open_store(path)
    if "reflectance" not in group:
        return "scene"
    axes = group["reflectance"].attrs.get("_ARRAY_DIMENSIONS", [])
    if "sample" in axes:
        return "samples"
    return "cube" if "realisation" in axes else "scene"
