"""Finished maps, GeoTIFFs or one CF dataset, read by windows, by single pixels, or thinned for pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.files import reader
from uncover.pipeline.label_sources import scheme_in
from uncover.raster.arrays import ArraySource, Plane, grid_of, open_dataset
from uncover.raster.cube import check_chunks, open_store
from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window
from uncover.raster.map_formats import share_variable
from uncover.raster.product import UNCERTAINTY, set_bands
from uncover.raster.quality import FLAGGED, Quality, without
from uncover.raster.tiles import BandFile, RasterInfo, Source, TileCache, describe, open_raster

Floats = NDArray[np.floating[Any]]
Lines = NDArray[np.intp]

#: What a folder has one of, if it holds a map; and the formats.
FORMATS = {"class.tif": "Cloud-Optimised GeoTIFF", "map.zarr": "Zarr", "map.nc": "NetCDF"}
ITEM = "item.json"
#: The layer with the number of classes that cannot be excluded, where a map has sets.
SET_SIZE = "set_size"
_CODES = ("class", "quality")
#: Layers of one plane beside those of UNCERTAINTY.
_NUMBERS = ("quality", SET_SIZE, "unknown", "dates_used")
_TILE = (512, 512)


def is_map(folder: Path) -> bool:
    """Return whether a folder holds a map with its item."""
    return (folder / ITEM).is_file() and any((folder / name).exists() for name in FORMATS)


def check_finished(folder: str | Path) -> None:
    """Refuse a map whose run was stopped."""
    if Path(f"{folder}.partial").is_dir() and not Path(folder).exists():
        raise SceneError(f"{folder} is not finished; go on with `uncover map … --out {folder} --resume`")


@dataclass(frozen=True)
class StoredLayer:
    """Planes of numbers as they are stored, and what they mean: value = scale · number.

    The numbers of `codes` are names of classes or bits: they have no mean, and stay as they are.
    """

    source: Source
    dtype: str
    nodata: float | None
    scale: float = 1.0
    codes: bool = False

    @property
    def step(self) -> float:
        """Step between two values; 0 where they are stored as floating-point."""
        return self.scale if np.dtype(self.dtype).kind in "ui" else 0.0

    def values(self, raw: NDArray[Any]) -> NDArray[Any]:
        """Values of stored numbers, NaN where there is none; codes as they are."""
        if self.codes:
            return raw
        values = raw.astype(np.float32) * np.float32(self.scale)
        if self.nodata is not None:
            values[raw == self.nodata] = np.nan
        return values

    def pixels(self, rows: Lines, cols: Lines) -> NDArray[Any]:
        """Values where rows and columns cross, (plane, row, col), read strip by strip."""
        cache, width = TileCache(), self.source.grid.width
        parts = [
            self.source.read(Window(top, 0, height, width), cache)[:, inside[:, None], cols]
            for top, height, inside in strips(rows)
        ]
        return self.values(np.concatenate(parts, axis=1))

    def thinned(self, step: int) -> NDArray[Any]:
        """One value for step × step pixels, (plane, row, col): the middle one of codes, else their mean."""
        height, width = self.source.grid.shape
        if isinstance(self.source, BandFile):
            return self.values(_from_overviews(self.source, step, "nearest" if self.codes else "average"))
        if self.codes:
            middle = [np.minimum(np.arange(0, n, step) + step // 2, n - 1) for n in (height, width)]
            return self.pixels(*middle)
        cache, size = TileCache(), step * max(1, 512 // step)

        def means(window: Window) -> NDArray[Any]:
            return block_means(self.values(self.source.read(window, cache)), step)

        lines = self.source.grid.window.cut((size, width))
        rows = [np.concatenate([means(w) for w in line.cut((size, size))], axis=2) for line in lines]
        return np.concatenate(rows, axis=1)


def _from_overviews(source: BandFile, step: int, resampling: str) -> NDArray[Any]:
    """Bands of a GeoTIFF thinned by GDAL, which reads the overviews."""
    from rasterio.enums import Resampling

    height, width = source.grid.shape
    shape = (len(source.indexes), -(-height // step), -(-width // step))
    with open_raster(source.path) as file:
        how = Resampling[resampling]
        return np.asarray(file.read(list(source.indexes), out_shape=shape, resampling=how))


def block_means(values: Floats, step: int) -> Floats:
    """Means of step × step pixels, of fewer at the right and lower edges; NaN where there is nothing."""
    planes, height, width = values.shape
    edges = (0, 0), (0, -height % step), (0, -width % step)
    if any(map(any, edges)):
        values = np.pad(values, edges, constant_values=np.nan)
    known = np.isfinite(values)

    def sums(each: NDArray[Any], dtype: type) -> NDArray[Any]:  # first of whole rows: they lie together
        rows = each.reshape(planes, -1, step, each.shape[2]).sum(axis=2, dtype=dtype)
        return np.asarray(rows.reshape(planes, rows.shape[1], -1, step).sum(axis=3, dtype=dtype))

    count = sums(known, np.uint32)
    total = sums(np.where(known, values, np.float32(0)), np.float32)
    return np.where(count > 0, total / np.maximum(count, 1).astype(np.float32), np.float32(np.nan))


@dataclass(frozen=True)
class MapProduct:
    """The layers of a map; classes in the order of the probability planes.

    Layers by name: "class", "probability", those of UNCERTAINTY, "quality", SET_SIZE, "unknown", the
    measurement part by effect ("measurement_aod", …), and "sets", a plane for each class, 1 where it
    cannot be excluded. A map need not have all of them.
    """

    name: str
    layers: Mapping[str, StoredLayer]
    names: tuple[str, ...]
    codes: tuple[int, ...]

    @classmethod
    @reader
    def open(cls, folder: str | Path) -> MapProduct:
        """Open a folder that holds a map: GeoTIFFs, or one dataset."""
        place = Path(folder)
        check_finished(folder)
        if not place.is_dir():
            raise SceneError(f"{folder} is not a folder; give the folder that `uncover map` wrote")
        for name in ("map.zarr", "map.nc"):
            if (place / name).exists():
                return _open_dataset(place / name)
        for name in ("class.tif", "probability.tif"):
            if not (place / name).is_file():
                raise SceneError(f"{folder} holds no {name}; give the folder of a finished map")
        return _open_rasters(place)

    def layer(self, name: str) -> StoredLayer:
        """A layer by its name; an error where the map has none."""
        if name not in self.layers:
            raise SceneError(f"{self.name} has no layer {name}; the map is not whole, make the map again")
        return self.layers[name]

    def pixels(self, layer: str, rows: Lines, cols: Lines) -> NDArray[Any]:
        """A layer where rows and columns cross: (row, col), of the probability (class, row, col)."""
        found = self.layer(layer).pixels(rows, cols)
        return found if layer == "probability" else found[0]

    def thinned(self, layer: str, step: int) -> NDArray[Any]:
        """A layer with one value for step × step pixels, (row, col)."""
        return self.layer(layer).thinned(step)[0]

    @property
    def grid(self) -> Grid:
        """Grid of the pixels."""
        return self.layers["class"].source.grid

    @property
    def floor(self) -> float:
        """Half the step in which probabilities are stored; 0 where they are stored as floating-point."""
        return self.layers["probability"].step / 2

    def class_numbers(self, window: Window, cache: TileCache) -> NDArray[np.int16]:
        """Number of the class of each pixel, from 0 in the order of `names`, −1 without data; (row, col)."""
        layer = self.layers["class"]
        codes = layer.source.read(window, cache)[0]
        table = np.full(256, -2, np.int16)
        table[list(self.codes)] = np.arange(len(self.codes), dtype=np.int16)
        table[int(layer.nodata or 0)] = -1
        numbers = table[codes]
        if (numbers == -2).any():
            wrong = int(codes[numbers == -2].flat[0])
            raise SceneError(
                f"{self.name}/{layer.source.name} holds the code {wrong}, which none of its classes has "
                f"({', '.join(f'{c} {n}' for c, n in zip(self.codes, self.names, strict=True))})"
            )
        return numbers

    def numbered(self, codes: NDArray[Any]) -> NDArray[np.uint8]:
        """Number of the class of each code, from 1 in the order of `names`; 0 where there is none."""
        table = np.zeros(256, np.uint8)
        table[list(self.codes)] = np.arange(1, len(self.codes) + 1)
        return table[codes]

    def masked(self, window: Window, cache: TileCache) -> NDArray[np.bool_]:
        """Pixels without a class that are flagged as cloud, shadow, snow, saturated or masked, (row, col)."""
        if "quality" not in self.layers:
            return np.zeros(window.shape, np.bool_)
        flagged = ~without(self.layers["quality"].source.read(window, cache)[0], FLAGGED | Quality.MASKED)
        return flagged & (self.class_numbers(window, cache) < 0)

    def probabilities(
        self, window: Window, rows: NDArray[np.intp], cols: NDArray[np.intp], cache: TileCache
    ) -> NDArray[np.float64]:
        """Probabilities (pixel, class) at rows and columns of a window; an error where there are none."""
        layer = self.layers["probability"]
        raw: NDArray[Any] = layer.source.read(window, cache)[:, rows, cols].T
        values = raw.astype(np.float64) * layer.scale
        missing = ~np.isfinite(values)
        if layer.nodata is not None:
            missing |= raw == layer.nodata
        if missing.any():
            raise SceneError(
                f"{self.name}/{layer.source.name} has no value at {int(missing.any(axis=1).sum())} pixels "
                f"that have a class; the map is not whole, make it again"
            )
        return values

    def in_sets(
        self, window: Window, rows: NDArray[np.intp], cols: NDArray[np.intp], cache: TileCache
    ) -> NDArray[np.bool_] | None:
        """Membership of each class in the sets of pixels, (pixel, class); None where the map has no sets."""
        if "sets" not in self.layers:
            return None
        return np.asarray(self.layers["sets"].source.read(window, cache)[:, rows, cols].T == 1)


def _open_rasters(place: Path) -> MapProduct:
    infos = {name: _described(place / f"{name}.tif") for name in ("class", "probability")}
    grid, planes = infos["class"].grid, infos["probability"]
    if planes.grid != grid:
        raise SceneError(f"class.tif and probability.tif in {place} are not on the same grid")
    names = tuple(name or f"class {i}" for i, name in enumerate(planes.names, start=1))
    for name in ("uncertainty", "quality", "sets", "unknown", "dates_used", "shares"):
        if (place / f"{name}.tif").is_file():
            infos[name] = _described(place / f"{name}.tif")
            if infos[name].grid != grid:
                raise SceneError(f"{place / name}.tif does not belong to this map: it has another grid")
    bands: dict[str, tuple[str, Sequence[int]]] = {"class": ("class", [1])}  # of each layer: file and bands
    bands["probability"] = "probability", range(1, len(names) + 1)
    bands |= {"quality": ("quality", [1])} if "quality" in infos else {}
    if "uncertainty" in infos:
        bands |= {name: ("uncertainty", [i]) for i, name in enumerate(UNCERTAINTY, start=1)}
    bands |= {name: (name, [1]) for name in ("unknown", "dates_used") if name in infos}
    if "shares" in infos:
        effects = [share_variable(name or str(i)) for i, name in enumerate(infos["shares"].names, start=1)]
        bands |= {name: ("shares", [i]) for i, name in enumerate(effects, start=1)}
    if "sets" in infos:
        if infos["sets"].count != len(names) + 1:
            raise SceneError(f"{place / 'sets.tif'} does not belong to this map: another number of classes")
        bands |= {SET_SIZE: ("sets", [1]), "sets": ("sets", range(2, len(names) + 2))}
    layers = {}
    for layer, (file, mine) in bands.items():
        info, scale = infos[file], infos[file].scales[0]
        nodata = None if file == "quality" else info.nodata[0]
        layers[layer] = StoredLayer(info.bands(*mine), info.dtype, nodata, scale, layer in _CODES)
    scheme = scheme_in(infos["class"])
    codes = range(1, len(names) + 1) if scheme is None else [scheme.code_of(name) for name in names]
    return MapProduct(place.resolve().name, layers, names, tuple(codes))


def _described(path: Path) -> RasterInfo:
    try:
        return describe(path)
    except SceneError as error:
        raise SceneError(f"{str(error).rstrip('.')}; make the map again") from error


def _open_dataset(path: Path) -> MapProduct:
    if path.is_dir():
        _check_chunks(path)
    with open_dataset(str(path), decoded=False) as dataset:
        try:
            names = tuple(str(name) for name in dataset["class_name"].values)
            codes = tuple(int(code) for code in np.atleast_1d(dataset["class"].attrs["flag_values"]))
            planes = {
                "class": [Plane("class", "class", ())],
                "probability": [
                    Plane(name, "probability", (("class_name", i),)) for i, name in enumerate(names)
                ],
                **{name: [Plane(name, name, ())] for name in (*_NUMBERS, *UNCERTAINTY)},
                "sets": [
                    Plane(name, name, ()) for name in set_bands(names, codes)
                ],  # in the order of classes
            }
            by_effect = [str(name) for name in dataset.data_vars if str(name).startswith(share_variable(""))]
            planes |= {name: [Plane(name, name, ())] for name in by_effect}
            grid = grid_of(dataset, dataset["class"], ("y", "x"))
            layers = {
                name: _variables(path, dataset[mine[0].variable], mine, grid, name in _CODES)
                for name, mine in planes.items()
                if mine[0].variable in dataset or name == "probability"
            }
        except KeyError as error:
            raise SceneError(f"{path} has no {error}; give the folder of a finished map") from None
    return MapProduct(path.resolve().parent.name, layers, names, codes)


def _variables(path: Path, array: Any, planes: list[Plane], grid: Grid, codes: bool) -> StoredLayer:
    source = ArraySource(str(path), tuple(planes), ("y", "x"), grid, _TILE, decoded=False)
    fill, scale = array.attrs.get("_FillValue"), float(array.attrs.get("scale_factor", 1))
    return StoredLayer(source, str(array.dtype), None if fill is None else float(fill), scale, codes)


def _check_chunks(path: Path) -> None:
    """Nothing of the layers may be lost: read as nodata it would be left out in silence."""
    for name, array in open_store(path).arrays():
        if array.ndim > 1:
            places = np.ndindex(*(-(-n // size) for n, size in zip(array.shape, array.chunks, strict=True)))
            check_chunks(path, *(f"{name}/{'.'.join(map(str, place))}" for place in places))


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
