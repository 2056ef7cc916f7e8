"""A finished map, GeoTIFFs or one CF dataset: layers thinned out for pictures, and single pixels of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from uncover.labels.scheme import LandClass
from uncover.raster.errors import SceneError, require
from uncover.raster.grid import Grid
from uncover.raster.product import UNCERTAINTY
from uncover.report.contents import Contents

Floats = NDArray[np.floating[Any]]
Lines = NDArray[np.intp]


#: The layer with the number of classes that cannot be excluded, where a map has sets.
SET_SIZE = "set_size"


class Store(Protocol):
    """Where the layers of a map are kept: class, quality, probability, those of UNCERTAINTY, set size."""

    def grid(self) -> Grid:
        """Where the pixels lie."""

    def class_names(self) -> tuple[str, ...]:
        """Names of the classes in the order of the probabilities."""

    def thinned(self, layer: str, step: int) -> NDArray[Any]:
        """A layer with one value for step × step pixels: the middle one of codes, else their mean."""

    def pixels(self, layer: str, rows: Lines, cols: Lines) -> NDArray[Any]:
        """A layer where rows and columns cross, (…, row, col); NaN where there is no number."""


@dataclass(frozen=True)
class ReportProduct:
    """A map as a report reads it."""

    store: Store
    grid: Grid
    classes: tuple[LandClass, ...]  # in the order of the probabilities
    has_sets: bool = False  # whether there is a layer SET_SIZE

    @classmethod
    def open(cls, contents: Contents) -> ReportProduct:
        """Open the map of a folder."""
        folder = contents.map
        item = contents.item()
        store: Store = Geotiffs(folder)
        if not (folder / "class.tif").is_file():
            store = Dataset(next(p for p in (folder / "map.zarr", folder / "map.nc") if p.exists()))
        classes = _in_order(_classes(item, folder), store.class_names(), folder)
        return cls(store, store.grid(), classes, "uncover:coverage" in item["properties"])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the classes."""
        return tuple(c.name for c in self.classes)

    def class_numbers(self, codes: NDArray[Any]) -> NDArray[np.uint8]:
        """Number of the class of each code, from 1 in the order of `classes`; 0 where there is none."""
        table = np.zeros(256, np.uint8)
        for number, entry in enumerate(self.classes, start=1):
            table[entry.code] = number
        return table[np.nan_to_num(codes).astype(np.uint8)]

    def step(self, side: int) -> int:
        """How many pixels one pixel of a picture stands for, so that it is at most `side` long."""
        return max(1, -(-max(self.grid.shape) // side))


def _classes(item: dict[str, Any], folder: Path) -> tuple[LandClass, ...]:
    """Classes of the product, as its STAC item lists them."""
    for asset in item.get("assets", {}).values():
        found = asset.get("classification:classes")
        if found:
            kept = [entry for entry in found if not entry.get("nodata")]
            return tuple(
                LandClass(int(e["value"]), str(e.get("title") or e["name"]), f"#{e['color_hint']}")
                for e in kept
            )
    raise SceneError(f"{folder / 'item.json'} lists no classes; it is not the item of a map, make it again")


def _in_order(classes: tuple[LandClass, ...], names: tuple[str, ...], folder: Path) -> tuple[LandClass, ...]:
    """Classes in the order of the probabilities, which need not be that of the item."""
    found = {entry.name: entry for entry in classes}
    if sorted(found) != sorted(names):
        raise SceneError(
            f"the probabilities in {folder} are of {', '.join(names)}, its item.json lists "
            f"{', '.join(found)}; make the map again"
        )
    return tuple(found[name] for name in names)


def _band(layer: str) -> tuple[str, int | None]:
    """File and band of a layer; None for all bands."""
    if layer in UNCERTAINTY:
        return "uncertainty", UNCERTAINTY.index(layer) + 1
    if layer == SET_SIZE:
        return "sets", 1
    return layer, None if layer == "probability" else 1


@dataclass(frozen=True)
class Geotiffs:
    """Layers as Cloud-Optimised GeoTIFFs; thinned ones come from their overviews."""

    folder: Path

    def grid(self) -> Grid:
        """Grid of the class layer."""
        with self._open("class") as file:
            return Grid.of(file)

    def class_names(self) -> tuple[str, ...]:
        """Descriptions of the bands."""
        with self._open("probability") as file:
            return tuple(str(name) for name in file.descriptions)

    def thinned(self, layer: str, step: int) -> NDArray[Any]:
        """One value for step × step pixels."""
        from rasterio.enums import Resampling

        name, band = _band(layer)
        how = Resampling.nearest if layer in ("class", "quality") else Resampling.average
        with self._open(name) as file:
            shape = (-(-file.height // step), -(-file.width // step))
            raw = file.read(band, out_shape=shape if band else (file.count, *shape), resampling=how)
            return _physical(file, raw, layer)

    def pixels(self, layer: str, rows: Lines, cols: Lines) -> NDArray[Any]:
        """Strip by strip."""
        from rasterio.windows import Window

        name, band = _band(layer)
        with self._open(name) as file:
            parts = []
            for top, height, inside in strips(rows):
                window = Window(0, top, file.width, height)
                parts.append(file.read(band, window=window)[..., inside[:, None], cols])
            return _physical(file, np.concatenate(parts, axis=-2), layer)

    @contextmanager
    def _open(self, name: str) -> Any:
        require("rasterio")
        import rasterio
        from rasterio.errors import RasterioError

        try:
            with (
                rasterio.Env(GDAL_CACHEMAX=64 * 1024 * 1024),
                rasterio.open(self.folder / f"{name}.tif") as file,
            ):
                yield file
        except RasterioError as error:
            raise SceneError(
                f"{self.folder / name}.tif cannot be read: {error}; make the map again"
            ) from error


def _physical(file: Any, raw: NDArray[Any], layer: str) -> NDArray[Any]:
    if layer in ("class", "quality"):
        return raw
    values = raw.astype(np.float32) * np.float32(file.scales[0])
    if file.nodata is not None:
        values[raw == file.nodata] = np.nan
    return values


@dataclass(frozen=True)
class Dataset:
    """Layers as one CF dataset, Zarr or NetCDF."""

    path: Path

    def grid(self) -> Grid:
        """Grid of the class layer."""
        from uncover.raster.arrays import grid_of

        with self._open() as data:
            return grid_of(data, data["class"], ("y", "x"))

    def class_names(self) -> tuple[str, ...]:
        """Coordinate of the classes."""
        with self._open() as data:
            return tuple(str(name) for name in data["class_name"].values)

    def thinned(self, layer: str, step: int) -> NDArray[Any]:
        """One value for step × step pixels."""
        with self._open() as data:
            array = data[layer]
            if layer in ("class", "quality"):
                middle = [np.minimum(np.arange(0, n, step) + step // 2, n - 1) for n in array.shape[-2:]]
                return np.asarray(array.isel(y=middle[0], x=middle[1]).values)
            return np.asarray(array.coarsen(y=step, x=step, boundary="pad").mean().values)

    def pixels(self, layer: str, rows: Lines, cols: Lines) -> NDArray[Any]:
        """Chunk by chunk, as the library reads them."""
        with self._open() as data:
            return np.asarray(data[layer].isel(y=rows, x=cols).values)

    @contextmanager
    def _open(self) -> Any:
        require("xarray")
        import xarray

        engine = "zarr" if self.path.suffix == ".zarr" else "h5netcdf"
        try:
            with xarray.open_dataset(self.path, engine=engine) as data:
                for name in ("class", "quality"):
                    data[name] = data[name].fillna(0).astype(np.uint16)
                yield data
        except (OSError, ValueError, KeyError) as error:
            raise SceneError(f"{self.path} cannot be read as a map: {error}; make it again") from error


def lattice(length: int, count: int) -> Lines:
    """Numbers of `count` lines (or all) spread evenly over a length, each in the middle of its part.

    >>> lattice(10, 5).tolist(), lattice(3, 5).tolist()
    ([1, 3, 5, 7, 9], [0, 1, 2])
    """
    n = min(count, length)
    return ((np.arange(n) + 0.5) * length / n).astype(np.intp)


def strips(rows: Lines, most: int = 256) -> Iterator[tuple[int, int, Lines]]:
    """Strips of at most that many lines that hold all rows: first line, height, and the rows inside of it.

    >>> [(top, height, inside.tolist()) for top, height, inside in strips(np.array([3, 7, 300]))]
    [(3, 5, [0, 4]), (300, 1, [0])]
    """
    start = 0
    while start < len(rows):
        stop = int(np.searchsorted(rows, rows[start] + most))
        mine = rows[start:stop]
        yield int(mine[0]), int(mine[-1] - mine[0] + 1), mine - mine[0]
        start = stop


def crossing(shape: Sequence[int], most: int) -> tuple[Lines, Lines]:
    """Rows and columns of a square lattice with at most `most` crossings.

    >>> rows, cols = crossing((100, 200), 200)
    >>> len(rows), len(cols)
    (10, 20)
    """
    height, width = shape
    step = max(1.0, float(np.sqrt(height * width / most)))
    return lattice(height, max(1, int(height / step))), lattice(width, max(1, int(width / step)))
