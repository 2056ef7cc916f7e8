"""A finished map as `uncover map` writes it: classes and their probabilities, read window by window."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.labels import Scheme
from uncover.pipeline.label_file import scheme_in
from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window
from uncover.raster.tiles import RasterInfo, TileCache, describe

CLASS_FILE = "class.tif"
PROBABILITY_FILE = "probability.tif"


@dataclass(frozen=True)
class MapProduct:
    """The class layer and the probability layer of a map; classes in the order of the probability bands.

    >>> MapProduct.open("nowhere")
    Traceback (most recent call last):
    ...
    uncover.raster.errors.SceneError: nowhere is not a folder; give the folder that `uncover map` wrote
    """

    name: str
    classes: RasterInfo
    probability: RasterInfo
    names: tuple[str, ...]
    codes: tuple[int, ...]
    scheme: Scheme | None = None

    @classmethod
    def open(cls, folder: str | Path) -> MapProduct:
        """Open a folder that holds class.tif and probability.tif on one grid."""
        place = Path(folder)
        if not place.is_dir():
            raise SceneError(f"{folder} is not a folder; give the folder that `uncover map` wrote")
        for name in (CLASS_FILE, PROBABILITY_FILE):
            if not (place / name).is_file():
                raise SceneError(f"{folder} holds no {name}; give the folder of a finished map")
        classes, probability = describe(place / CLASS_FILE), describe(place / PROBABILITY_FILE)
        if classes.grid != probability.grid:
            raise SceneError(f"{CLASS_FILE} and {PROBABILITY_FILE} in {folder} are not on the same grid")
        scheme = scheme_in(classes)
        names = tuple(name or f"class {i}" for i, name in enumerate(probability.names, start=1))
        codes = range(1, len(names) + 1) if scheme is None else [scheme.code_of(name) for name in names]
        return cls(place.resolve().name, classes, probability, names, tuple(codes), scheme)

    @property
    def grid(self) -> Grid:
        """Where the pixels lie."""
        return self.classes.grid

    @property
    def floor(self) -> float:
        """Half the step in which probabilities are stored; 0 where they are stored as floating-point."""
        whole = np.dtype(self.probability.dtype).kind in "ui"
        return self.probability.scales[0] / 2 if whole else 0.0

    def class_numbers(self, window: Window, cache: TileCache) -> NDArray[np.int16]:
        """Number of the class of each pixel, from 0 in the order of `names`, −1 without data; (row, col)."""
        codes = self.classes.bands(1).read(window, cache)[0]
        table = np.full(256, -2, np.int16)
        table[list(self.codes)] = np.arange(len(self.codes), dtype=np.int16)
        nodata = self.classes.nodata[0]
        table[0 if nodata is None else int(nodata)] = -1
        numbers = table[codes]
        if (numbers == -2).any():
            wrong = int(codes[numbers == -2].flat[0])
            raise SceneError(
                f"{self.name}/{CLASS_FILE} holds the code {wrong}, which none of its classes has "
                f"({', '.join(f'{c} {n}' for c, n in zip(self.codes, self.names, strict=True))})"
            )
        return numbers

    def probabilities(
        self, window: Window, rows: NDArray[np.intp], cols: NDArray[np.intp], cache: TileCache
    ) -> NDArray[np.float64]:
        """Probabilities (pixel, class) at rows and columns of a window; an error where there are none."""
        info = self.probability
        raw: NDArray[Any] = info.bands(*range(1, info.count + 1)).read(window, cache)[:, rows, cols].T
        values = raw * np.array(info.scales) + np.array(info.offsets)
        missing = ~np.isfinite(values)
        if info.nodata[0] is not None:
            missing |= raw == info.nodata[0]
        if missing.any():
            raise SceneError(
                f"{self.name}/{PROBABILITY_FILE} has no value at {int(missing.any(axis=1).sum())} pixels "
                f"that have a class; the map is not whole, make it again"
            )
        return values
