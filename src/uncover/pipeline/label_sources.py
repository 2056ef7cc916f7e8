"""Where labels come from: a class raster or a vector file, read as codes of one scheme on any grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
from uncover.raster.vectors import burn_vector, read_features

VECTOR_SUFFIXES = (".gpkg", ".geojson", ".json", ".shp", ".fgb", ".gml", ".kml", ".sqlite", ".gdb", ".tab")

NUMBERED = "codes"  # name of the scheme of nameless codes


class LabelSource(Protocol):
    """Labels of one scheme, not yet on a grid."""

    @property
    def scheme(self) -> Scheme:
        """What the labels mean."""

    @property
    def name(self) -> str:
        """What to call it in a message."""

    def on(self, grid: Grid) -> LabelsOnGrid:
        """The labels on a grid; an error where it has nothing to say about the grid."""


class LabelsOnGrid(Protocol):
    """Labels for windows of one grid."""

    def labels(self, window: Window, cache: TileCache) -> NDArray[np.uint8]:
        """Codes in a window, 0 where there is no label; (row, col)."""

    def regions(self, window: Window) -> NDArray[np.int32] | None:
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

    def on(self, grid: Grid) -> RasterOnGrid:
        """The raster by nearest neighbour on a grid that it overlaps."""
        self.layer.check_overlap(grid)
        return RasterOnGrid(self, grid)


@dataclass(frozen=True)
class RasterOnGrid:
    """A class raster seen on another grid, read window by window."""

    source: RasterLabels
    grid: Grid

    def labels(self, window: Window, cache: TileCache) -> NDArray[np.uint8]:
        """Translated codes by nearest neighbour."""
        values, known = self.source.layer.read(self.grid, window, cache)
        labels = self.source.translation(
            np.where(known, values, np.zeros((), values.dtype)), self.source.name
        )
        labels[~known] = 0
        return labels

    def regions(self, window: Window) -> NDArray[np.int32] | None:
        """None: a raster does not know its parcels."""
        return None


@dataclass(frozen=True)
class VectorLabels:
    """Labels from the features of a vector file."""

    path: str
    field: str
    scheme: Scheme
    codes: Mapping[str, int]  # label of each value of the field

    @classmethod
    def open(cls, path: str, field: str, translation: Translation | None = None) -> VectorLabels:
        """Values of the field translated, or taken as classes themselves."""
        values = _values(path, field)
        if translation is not None:
            return cls(path, field, translation.target, {v: translation.of_name(v) for v in values})
        scheme = _scheme_of_values(values, f"field {field!r} of {path}")
        return cls(path, field, scheme, {v: scheme.code_of(v) for v in values})

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path

    def on(self, grid: Grid) -> VectorOnGrid:
        """Features by pixel centre; an error where none covers a pixel."""
        burnt = burn_vector(self.path, grid, self.field)
        codes = np.zeros(max(burnt.names) + 1, np.uint8)
        for code, name in burnt.names.items():
            codes[code] = self.codes[name]
        return VectorOnGrid(codes[burnt.code], burnt.feature)


@dataclass(frozen=True)
class VectorOnGrid:
    """Features burnt onto a grid: their labels and their numbers."""

    codes: NDArray[np.uint8]  # (row, col)
    features: NDArray[np.int32]  # (row, col)

    def labels(self, window: Window, cache: TileCache) -> NDArray[np.uint8]:
        """Codes of the features in a window."""
        return self.codes[window.slices]

    def regions(self, window: Window) -> NDArray[np.int32] | None:
        """Numbers of the features in a window."""
        return self.features[window.slices]


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
        return VectorLabels.open(str(name), class_field, translation)
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
    return Scheme(NUMBERED, tuple(LandClass(c, f"class {c}", colours[c - 1]) for c in codes))


def _scheme_of_values(values: list[str], what: str) -> Scheme:
    if all(v.isdigit() for v in values):
        codes = sorted(int(v) for v in values)
        if codes[-1] > HIGHEST_LABEL:
            raise SceneError(
                f"{what} holds {codes[-1]}; without --scheme class codes go from 1 to {HIGHEST_LABEL}"
            )
        colours = distinct(len(codes))
        return Scheme("values", tuple(LandClass(c, str(c), h) for c, h in zip(codes, colours, strict=True)))
    if len(values) > HIGHEST_LABEL:
        raise SceneError(
            f"{what} holds {len(values)} different values; at most {HIGHEST_LABEL} classes are possible"
        )
    return Scheme.of_names(values)


def _values(path: str, field: str) -> list[str]:
    """The different values of a field, sorted, as text; whole numbers without a decimal point."""
    found = {feature.values[0] for feature in read_features(path, None, (field,))}
    if all(isinstance(v, int | float | np.number) and v == v and v == int(v) for v in found):
        return [str(v) for v in sorted({int(v) for v in found})]
    return sorted({str(v) for v in found})
