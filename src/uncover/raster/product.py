"""Layers of a map, their numbers on disk, and the fixed units that a map is computed in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uncover.labels import Scheme
from uncover.raster.grid import Grid, Window

DType = Literal["uint16", "float32"]

#: Rows and columns of a unit. Part of the product's definition: other units give other last bits.
UNIT = 256
#: Pixels that are computed in one call, at most. Part of the definition, as the unit is.
CHUNK = 16384
#: Bytes of the numbers of all worlds that are in memory together where the measurement part is split.
SPLIT_BYTES = 32 << 20
#: One step of a layer stored in whole numbers, and the number that means "none".
QUANTUM = 1e-4
NOTHING = 65535

#: Rows of a table of areas before those of the worlds.
AREA_ROWS = ("pixels", "area", "expected")

#: One of so many pixels, at least, tells what errors that all share do to areas.
_EVERY = 97

UNCERTAINTY = ("total", "measurement", "model", "overlap", "margin", "typicality")


@dataclass(frozen=True)
class Thresholds:
    """When a pixel gets one of the quality bits that a map adds."""

    typicality: float = 0.001  #: below it: outside the training domain
    disagreement: float = 0.1  #: above this share of worlds with another class: they disagree
    margin: float = 0.1  #: below it: low margin


@dataclass(frozen=True)
class Layer:
    """One file of the product: named bands of one type.

    >>> layer = Layer("probability", ("forest", "water"), "uint16", nodata=65535, scale=1e-4)
    >>> layer.encode(np.array([0.25, np.nan])).tolist()
    [2500, 65535]
    """

    name: str
    bands: tuple[str, ...]
    dtype: str
    nodata: float | None
    scale: float = 1.0
    resampling: Literal["nearest", "average"] = "average"
    title: str = ""

    @property
    def itemsize(self) -> int:
        """Bytes of a number."""
        return np.dtype(self.dtype).itemsize

    def encode(self, values: NDArray[np.float64]) -> NDArray[Any]:
        """Numbers as they are stored; NaN becomes nodata."""
        if self.dtype == "float32":
            return values.astype(np.float32)
        numbers = np.rint(values / self.scale)
        numbers[np.isnan(numbers)] = self.nodata
        return numbers.astype(self.dtype)

    def empty(self, *shape: int) -> NDArray[Any]:
        """All bands without a value."""
        fill = 0 if self.nodata is None else self.nodata
        return np.full((len(self.bands), *shape), fill, self.dtype)


@dataclass(frozen=True)
class Product:
    """A map on a grid: classes with their codes, and the layers.

    `scheme` has the classes of the model, in the order of its `classes_`; `worlds` is their number.

    >>> grid = Grid(None, (10, 0, 0, 0, -10, 0), width=300, height=10)
    >>> product = Product.of(grid, Scheme.of_names(["forest", "water"]), worlds=1)
    >>> [layer.name for layer in product.layers], len(product.units())
    (['class', 'probability', 'uncertainty', 'quality'], 2)
    """

    grid: Grid
    scheme: Scheme
    worlds: int
    layers: tuple[Layer, ...]
    drawn: int = 0  # worlds and drawn models that some pixels are read in, for the uncertainty of areas

    @classmethod
    def of(
        cls,
        grid: Grid,
        scheme: Scheme,
        worlds: int,
        dtype: DType = "uint16",
        coverage: float | None = None,
        *,
        unknown: bool = False,
        dates: bool = False,
        drawn: int = 0,
        shares: Sequence[str] = (),
    ) -> Product:
        """The usual layers; with a coverage, also the sets of classes that cannot be excluded.

        ``unknown`` adds the probability of none of the classes, ``dates`` the number of clear dates,
        ``shares`` what the effects of these names have of the measurement part.
        """
        number = {"dtype": dtype, "nodata": NOTHING, "scale": QUANTUM}
        if dtype == "float32":
            number = {"dtype": dtype, "nodata": float("nan"), "scale": 1.0}
        layers: tuple[Layer, ...] = (
            Layer("class", ("class",), "uint8", 0, resampling="nearest", title="most probable class"),
            Layer("probability", scheme.in_code_order().names, **number, title="probability of each class"),  # type: ignore[arg-type]
            Layer("uncertainty", UNCERTAINTY, **number, title="entropies in nats, margin, typicality"),  # type: ignore[arg-type]
            Layer("quality", ("quality",), "uint16", None, resampling="nearest", title="quality bits"),
        )
        if coverage is not None:
            layers += (_sets_layer(scheme.in_code_order(), coverage),)
        if unknown:
            layers += (Layer("unknown", ("unknown",), **number, title="probability of none of the classes"),)  # type: ignore[arg-type]
        if dates:
            title = "number of dates that the class is read from"
            layers += (Layer("dates_used", ("dates_used",), "uint8", 255, resampling="nearest", title=title),)
        if shares:
            title = "parts of the measurement part in nats, by effect"
            layers += (Layer("shares", tuple(shares), **number, title=title),)  # type: ignore[arg-type]
        return cls(grid, scheme, worlds, layers, drawn)

    @property
    def share_names(self) -> tuple[str, ...]:
        """Effects that the measurement part is split by."""
        return next((layer.bands for layer in self.layers if layer.name == "shares"), ())

    @property
    def by_code(self) -> list[int]:
        """Places of the model's classes in the order of their codes, in which bands are stored."""
        return [self.scheme.codes.index(code) for code in sorted(self.scheme.codes)]

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.scheme.classes)

    @property
    def area_columns(self) -> int:
        """Columns of the table of areas: the classes, and none of them where the map has that layer."""
        return self.classes + any(layer.name == "unknown" for layer in self.layers)

    @property
    def area_rows(self) -> int:
        """Rows of the table of areas: `AREA_ROWS`, the worlds, and with draws those of `AreaSums`."""
        return len(AREA_ROWS) + self.worlds + (self.area_columns + 3 + self.drawn if self.drawn else 0)

    @property
    def every(self) -> int:
        """One of so many pixels is read in worlds and by drawn models."""
        return int(np.clip(self.grid.window.pixels // 2000, 1, _EVERY)) | 1

    def units(self) -> list[Window]:
        """The units, numbered row by row."""
        return list(self.grid.blocks(UNIT))

    def order(self, block: int) -> Iterator[int]:
        """Numbers of the units, block by block: which come after one another, not what is in them.

        >>> grid = Grid(None, (10, 0, 0, 0, -10, 0), width=700, height=600)
        >>> list(Product.of(grid, Scheme.of_names(["a", "b"]), 1).order(512))
        [0, 1, 3, 4, 2, 5, 6, 7, 8]
        """
        across, down = -(-self.grid.width // UNIT), -(-self.grid.height // UNIT)
        step = max(1, block // UNIT)
        for top in range(0, down, step):
            for left in range(0, across, step):
                for row in range(top, min(top + step, down)):
                    for col in range(left, min(left + step, across)):
                        yield row * across + col

    @property
    def bytes_per_pixel(self) -> int:
        """Bytes of all layers before compression."""
        return sum(layer.itemsize * len(layer.bands) for layer in self.layers)


def set_bands(names: Sequence[str], codes: Sequence[int]) -> tuple[str, ...]:
    """Names of the bands that say whether each class is in the set.

    >>> set_bands(["forest", "open water"], [1, 2])
    ('in_set_forest', 'in_set_open_water')
    """
    words = [re.sub(r"\W+", "_", name) for name in names]
    if len(set(words)) < len(words):
        words = [str(code) for code in codes]
    return tuple(f"in_set_{word}" for word in words)


def _sets_layer(scheme: Scheme, coverage: float) -> Layer:
    """Number of classes that cannot be excluded, and 1 for each class in the set."""
    bands = ("set_size", *set_bands(scheme.names, scheme.codes))
    title = f"number of classes that cannot be excluded, and whether each is one; coverage {coverage:g}"
    return Layer("sets", bands, "uint8", 255, resampling="nearest", title=title)


@dataclass(frozen=True)
class Unit:
    """One computed unit: its layers as they are stored, and the areas of its classes.

    `areas` has the `AREA_ROWS` of each class, and its area in each world: (row + world, class).
    """

    number: int
    layers: dict[str, NDArray[Any]]  # (band, row, col)
    areas: NDArray[np.float64]
