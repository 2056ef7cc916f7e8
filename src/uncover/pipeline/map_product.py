"""A finished map as `uncover map` writes it: classes and their probabilities, read window by window."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.pipeline.label_file import scheme_in
from uncover.raster.arrays import ArraySource, Plane, grid_of, open_dataset
from uncover.raster.cube import check_chunks, open_store
from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window
from uncover.raster.product import set_bands
from uncover.raster.quality import FLAGGED, without
from uncover.raster.tiles import Source, TileCache, describe

CLASS_FILE = "class.tif"
PROBABILITY_FILE = "probability.tif"
SETS_FILE = "sets.tif"
QUALITY_FILE = "quality.tif"
DATASETS = ("map.zarr", "map.nc")
_TILE = (512, 512)


@dataclass(frozen=True)
class StoredLayer:
    """Planes of numbers as they are stored, and what they mean: value = scale · number."""

    source: Source
    dtype: str
    nodata: float | None
    scale: float = 1.0

    @property
    def step(self) -> float:
        """Step between two values; 0 where they are stored as floating-point."""
        return self.scale if np.dtype(self.dtype).kind in "ui" else 0.0


@dataclass(frozen=True)
class MapProduct:
    """The class layer and the probability layer of a map; classes in the order of the probability planes.

    `sets` has a plane for each class too, 1 where it cannot be excluded; None where the map has no sets.
    `quality` has the bits of each pixel; None where the folder has no such layer.

    >>> MapProduct.open("nowhere")
    Traceback (most recent call last):
    ...
    uncover.raster.errors.SceneError: nowhere is not a folder; give the folder that `uncover map` wrote
    """

    name: str
    classes: StoredLayer
    probability: StoredLayer
    names: tuple[str, ...]
    codes: tuple[int, ...]
    sets: StoredLayer | None = None
    quality: StoredLayer | None = None

    @classmethod
    def open(cls, folder: str | Path) -> MapProduct:
        """Open a folder that holds a map: GeoTIFFs, or one dataset."""
        place = Path(folder)
        if Path(f"{place}.partial").is_dir() and not place.exists():
            raise SceneError(f"{folder} is not finished; go on with `uncover map … --out {folder} --resume`")
        if not place.is_dir():
            raise SceneError(f"{folder} is not a folder; give the folder that `uncover map` wrote")
        for name in DATASETS:
            if (place / name).exists():
                return _open_dataset(place / name)
        for name in (CLASS_FILE, PROBABILITY_FILE):
            if not (place / name).is_file():
                raise SceneError(f"{folder} holds no {name}; give the folder of a finished map")
        return _open_rasters(place)

    @property
    def grid(self) -> Grid:
        """Where the pixels lie."""
        return self.classes.source.grid

    @property
    def floor(self) -> float:
        """Half the step in which probabilities are stored; 0 where they are stored as floating-point."""
        return self.probability.step / 2

    def class_numbers(self, window: Window, cache: TileCache) -> NDArray[np.int16]:
        """Number of the class of each pixel, from 0 in the order of `names`, −1 without data; (row, col)."""
        codes = self.classes.source.read(window, cache)[0]
        table = np.full(256, -2, np.int16)
        table[list(self.codes)] = np.arange(len(self.codes), dtype=np.int16)
        table[int(self.classes.nodata or 0)] = -1
        numbers = table[codes]
        if (numbers == -2).any():
            wrong = int(codes[numbers == -2].flat[0])
            raise SceneError(
                f"{self.name}/{self.classes.source.name} holds the code {wrong}, which none of its classes "
                f"has ({', '.join(f'{c} {n}' for c, n in zip(self.codes, self.names, strict=True))})"
            )
        return numbers

    def clear(self, window: Window, cache: TileCache) -> NDArray[np.bool_]:
        """Pixels that are not flagged as cloud, shadow, snow or saturated, (row, col)."""
        if self.quality is None:
            return np.ones(window.shape, np.bool_)
        return without(self.quality.source.read(window, cache)[0], FLAGGED)

    def probabilities(
        self, window: Window, rows: NDArray[np.intp], cols: NDArray[np.intp], cache: TileCache
    ) -> NDArray[np.float64]:
        """Probabilities (pixel, class) at rows and columns of a window; an error where there are none."""
        layer = self.probability
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
        """Which classes are in the sets of pixels, (pixel, class); None where the map has no sets."""
        if self.sets is None:
            return None
        return np.asarray(self.sets.source.read(window, cache)[:, rows, cols].T == 1)


def _open_rasters(place: Path) -> MapProduct:
    classes, probability = describe(place / CLASS_FILE), describe(place / PROBABILITY_FILE)
    if classes.grid != probability.grid:
        raise SceneError(f"{CLASS_FILE} and {PROBABILITY_FILE} in {place} are not on the same grid")
    names = tuple(name or f"class {i}" for i, name in enumerate(probability.names, start=1))
    scheme = scheme_in(classes)
    codes = range(1, len(names) + 1) if scheme is None else [scheme.code_of(name) for name in names]
    planes = probability.bands(*range(1, probability.count + 1))
    return MapProduct(
        place.resolve().name,
        StoredLayer(classes.bands(1), classes.dtype, classes.nodata[0]),
        StoredLayer(planes, probability.dtype, probability.nodata[0], probability.scales[0]),
        names,
        tuple(codes),
        _sets_of(place / SETS_FILE, classes.grid, len(names)),
        _quality_of(place / QUALITY_FILE, classes.grid),
    )


def _quality_of(path: Path, grid: Grid) -> StoredLayer | None:
    if not path.is_file():
        return None
    info = describe(path)
    if info.grid != grid:
        raise SceneError(f"{path} does not belong to this map: it has another grid")
    return StoredLayer(info.bands(1), info.dtype, None)


def _sets_of(path: Path, grid: Grid, classes: int) -> StoredLayer | None:
    """The planes of the classes: those after the first, which is the size of the sets."""
    if not path.is_file():
        return None
    info = describe(path)
    if info.grid != grid or info.count != classes + 1:
        raise SceneError(f"{path} does not belong to this map: another grid, or another number of classes")
    return StoredLayer(info.bands(*range(2, info.count + 1)), info.dtype, info.nodata[0])


def _open_dataset(path: Path) -> MapProduct:
    if path.is_dir():
        _check_chunks(path)
    with open_dataset(str(path), decoded=False) as dataset:
        try:
            classes, probability = dataset["class"], dataset["probability"]
            names = tuple(str(name) for name in dataset["class_name"].values)
            codes = tuple(int(code) for code in np.atleast_1d(classes.attrs["flag_values"]))
        except KeyError as error:
            raise SceneError(f"{path} has no {error}; give the folder of a finished map") from None
        grid = grid_of(dataset, classes, ("y", "x"))
        planes = [Plane(name, "probability", (("class_name", i),)) for i, name in enumerate(names)]
        layers = (
            _variable(path, classes, [Plane("class", "class", ())], grid),
            _variable(path, probability, planes, grid),
        )
        members = set_bands(names, codes)  # the variables of a dataset have no order of their own
        planes = [Plane(name, name, ()) for name in members]
        sets = _variable(path, dataset[members[0]], planes, grid) if members[0] in dataset else None
        flags = [Plane("quality", "quality", ())]
        quality = _variable(path, dataset["quality"], flags, grid) if "quality" in dataset else None
    return MapProduct(path.resolve().parent.name, *layers, names, codes, sets, quality)


def _variable(path: Path, array: Any, planes: list[Plane], grid: Grid) -> StoredLayer:
    source = ArraySource(str(path), tuple(planes), ("y", "x"), grid, _TILE, decoded=False)
    about = array.attrs
    nodata = about.get("_FillValue")
    return StoredLayer(
        source,
        str(array.dtype),
        None if nodata is None else float(nodata),
        float(about.get("scale_factor", 1)),
    )


def _check_chunks(path: Path) -> None:
    """Nothing of the layers may be lost: read as nodata it would be left out in silence."""
    for name, array in open_store(path).arrays():
        if array.ndim > 1:
            places = np.ndindex(*(-(-n // size) for n, size in zip(array.shape, array.chunks, strict=True)))
            check_chunks(path, *(f"{name}/{'.'.join(map(str, place))}" for place in places))
