"""Where labels come from: a class raster or a vector file, read as codes of one scheme on any grid."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from uncover.labels import LandClass, Scheme, Translation, load_translation
from uncover.labels.colours import distinct
from uncover.labels.scheme import HIGHEST_LABEL
from uncover.pipeline.label_file import scheme_in
from uncover.pipeline.layers import Layer
from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window
from uncover.raster.tiles import TileCache
from uncover.raster.vectors import Burned, burn_vector, read_features

VECTOR_SUFFIXES = (".gpkg", ".geojson", ".json", ".shp", ".fgb", ".gml", ".kml", ".sqlite", ".gdb", ".tab")


class LabelSource(Protocol):
    """Anything that gives labels of one scheme for a window of a grid."""

    @property
    def scheme(self) -> Scheme:
        """What the labels mean."""

    @property
    def name(self) -> str:
        """What to call it in a message."""

    def check(self, grid: Grid) -> None:
        """Raise where it has nothing to say about the grid."""

    def labels(self, grid: Grid, window: Window, cache: TileCache) -> NDArray[np.uint8]:
        """Codes of `scheme` in a window, 0 where there is no label; (row, col)."""

    def regions(self, grid: Grid, window: Window) -> NDArray[np.int32] | None:
        """Numbers of the polygons in a window, None where there are none."""


@dataclass(frozen=True)
class RasterLabels:
    """Labels from one band of a class raster."""

    layer: Layer
    translation: Translation

    @property
    def scheme(self) -> Scheme:
        """What the labels mean: the target of the translation."""
        return self.translation.target

    @property
    def name(self) -> str:
        """The file's name."""
        return self.layer.name

    def check(self, grid: Grid) -> None:
        """Raise where the raster lies elsewhere."""
        self.layer.check_overlap(grid)

    def labels(self, grid: Grid, window: Window, cache: TileCache) -> NDArray[np.uint8]:
        """Translated codes by nearest neighbour."""
        values, known = self.layer.read(grid, window, cache)
        codes = np.where(known, values, np.zeros((), values.dtype))
        labels = self.translation(codes, self.name)
        labels[~known] = 0
        return labels

    def regions(self, grid: Grid, window: Window) -> NDArray[np.int32] | None:
        """None: a raster does not know its parcels."""
        return None


@dataclass(frozen=True)
class VectorLabels:
    """Labels from the features of a vector file.

    >>> VectorLabels("fields.gpkg", field="class").name
    'fields.gpkg'
    """

    path: str
    field: str
    translation: Translation | None = None
    all_touched: bool = False

    @property
    def scheme(self) -> Scheme:
        """What the labels mean: the target of the translation, or the values of the field themselves."""
        return self._classes()[0]

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path

    def check(self, grid: Grid) -> None:
        """Raise where no feature covers a pixel of the grid."""
        _burnt(self, grid)

    def labels(self, grid: Grid, window: Window, cache: TileCache) -> NDArray[np.uint8]:
        """Codes of the features, by pixel centre."""
        burnt = _burnt(self, grid)
        codes = np.zeros(max(burnt.names) + 1, np.uint8)
        for code, name in burnt.names.items():
            codes[code] = self._classes()[1][name]
        return codes[burnt.code[window.slices]]

    def regions(self, grid: Grid, window: Window) -> NDArray[np.int32] | None:
        """Numbers of the features."""
        return _burnt(self, grid).feature[window.slices]

    def _classes(self) -> tuple[Scheme, dict[str, int]]:
        """The scheme, and the label that each value of the field stands for."""
        values = _values(self.path, self.field)
        if self.translation is not None:
            return self.translation.target, {v: self.translation.of_name(v) for v in values}
        scheme = _scheme_of_values(values, f"field {self.field!r} of {self.path}")
        return scheme, {v: scheme.code_of(v) for v in values}


def open_labels(name: str | Path, scheme: str | None = None, class_field: str | None = None) -> LabelSource:
    """Labels of a file: a vector file by its field, a raster by `scheme` or by the scheme it carries.

    Without either, the codes 1 to 254 of a raster are classes of their own, called by their numbers.

    >>> open_labels("fields.gpkg")
    Traceback (most recent call last):
    ...
    uncover.raster.errors.SceneError: fields.gpkg is a vector file: say with --class-field ...
    """
    translation = None if scheme is None else load_translation(scheme)
    if str(name).lower().endswith(VECTOR_SUFFIXES):
        if class_field is None:
            raise SceneError(
                f"{name} is a vector file: say with --class-field which of its fields holds the class"
            )
        return VectorLabels(str(name), class_field, translation)
    layer = Layer.open(name)
    own = scheme_in(layer.info)
    if translation is None and own is not None:
        translation = Translation.identity(own)
    return RasterLabels(layer, translation or Translation.identity(numbered_scheme()))


def numbered_scheme(codes: tuple[int, ...] = tuple(range(1, HIGHEST_LABEL + 1))) -> Scheme:
    """Scheme of nameless codes.

    >>> numbered_scheme((3,)).names
    ('class 3',)
    """
    colours = distinct(HIGHEST_LABEL)
    return Scheme("codes", tuple(LandClass(c, f"class {c}", colours[c - 1]) for c in codes))


def _scheme_of_values(values: list[str], what: str) -> Scheme:
    if all(v.isdigit() for v in values):
        codes = sorted(int(v) for v in values)
        if codes[-1] > HIGHEST_LABEL:
            raise SceneError(
                f"{what} holds {codes[-1]}; without --scheme class codes go from 1 to {HIGHEST_LABEL}"
            )
        colours = distinct(len(codes))
        return Scheme("codes", tuple(LandClass(c, str(c), h) for c, h in zip(codes, colours, strict=True)))
    if len(values) > HIGHEST_LABEL:
        raise SceneError(
            f"{what} holds {len(values)} different values; at most {HIGHEST_LABEL} classes are possible"
        )
    return Scheme.of_names(values)


@lru_cache(maxsize=16)
def _values(path: str, field: str) -> list[str]:
    """The different values of a field, sorted, as text; whole numbers without a decimal point."""
    found = {feature.values[0] for feature in read_features(path, None, (field,))}
    if all(isinstance(v, int | float | np.number) and v == v and v == int(v) for v in found):
        return [str(v) for v in sorted({int(v) for v in found})]
    return sorted({str(v) for v in found})


@lru_cache(maxsize=4)
def _burnt(source: VectorLabels, grid: Grid) -> Burned:
    return burn_vector(source.path, grid, source.field, all_touched=source.all_touched)
