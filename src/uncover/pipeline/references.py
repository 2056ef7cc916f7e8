"""Reference data for a map: class raster, points or polygons on its grid, and their sampling design."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uncover.files import TextTable, reader, table_rows
from uncover.labels import Translation, load_translation
from uncover.pipeline.ground import Squares, pixel_metres
from uncover.pipeline.label_sources import (
    NUMBERED,
    ClassChoice,
    RasterLabels,
    RasterOnGrid,
    is_vector,
    open_labels,
)
from uncover.pipeline.map_product import MapProduct
from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window
from uncover.raster.points import is_points
from uncover.raster.tiles import TileCache
from uncover.raster.vectors import (
    Feature,
    burn,
    class_field_of,
    fields_of,
    pixels_of,
    read_features,
    texts_of,
)

Kind = Literal["raster", "points", "polygons"]
DesignName = Literal["random", "poststratified", "stratified"]
Index = NDArray[np.intp]
Floats = NDArray[np.float64]

_BLOCK = 512
#: Columns of a sample that `uncover sample` drew: its design is in the file.
STRATUM, STRATUM_AREA, STRATUM_SAMPLES = "stratum", "stratum_area_ha", "stratum_samples"
PROBABILITY = "inclusion_probability"
_LISTED = 5  # pixels with contradictory points that a warning names


@dataclass(frozen=True)
class Matches:
    """Reference samples in a window: place in the window, class, what belongs together, stratum."""

    rows: Index
    cols: Index
    classes: Index  # numbers in the legend
    groups: Index | None = None  # None: each sample stands for itself
    strata: Index | None = None  # numbers in `strata` of the reference


@dataclass(frozen=True)
class Legend:
    """Classes of a map, followed by those that only its reference has.

    >>> Legend(("forest", "water"), (1, 2)).with_values(["Water", "1", "ice"]).names
    ('forest', 'water', 'ice')
    """

    names: tuple[str, ...]
    codes: tuple[int, ...]  # of the map's classes
    mapped: int = field(default=-1)  # how many are the map's

    def __post_init__(self) -> None:
        if self.mapped < 0:
            object.__setattr__(self, "mapped", len(self.names))

    def number(self, value: str) -> int | None:
        """Number of the class that a value means: by name whatever the case, else by code."""
        wanted = value.strip().casefold()
        for number, name in enumerate(self.names):
            if name.casefold() == wanted:
                return number
        return self.codes.index(int(wanted)) if wanted.isdigit() and int(wanted) in self.codes else None

    def numbers(self, values: Iterable[str]) -> Index:
        """Numbers of values that are in the legend."""
        return np.array([self.number(value) for value in values], np.intp)

    def with_values(self, values: Iterable[str]) -> Legend:
        """The legend with classes that it did not know."""
        new = [value.strip() for value in values if self.number(value) is None]
        return Legend(self.names + tuple(dict.fromkeys(new)), self.codes, self.mapped)

    @property
    def strangers(self) -> tuple[str, ...]:
        """Classes that the map does not have."""
        return self.names[self.mapped :]


@dataclass(frozen=True)
class DrawnStrata:
    """What a drawn sample states of its strata, in their order."""

    areas: Floats  # m²
    samples: Floats
    probability: Floats  # that a pixel is drawn, NaN where it is not stated


@dataclass(frozen=True, kw_only=True)
class Reference(ABC):
    """Reference samples on the grid of a map."""

    name: str  # of the file
    kind: Kind
    legend: Legend
    group_count: int = 0  # groups of samples that belong together, at most; 0 where each stands for itself
    strata: tuple[str, ...] = ()  # that the file itself states
    drawn: DrawnStrata | None = None  # where the file was drawn by `uncover sample`
    outside: int = 0  # samples outside the grid
    notes: tuple[str, ...] = ()  # sentences on samples that do not count

    @abstractmethod
    def samples(self, window: Window, cache: TileCache) -> Matches:
        """Samples in a window."""


@dataclass(frozen=True, kw_only=True)
class RasterReference(Reference):
    """A class raster, by nearest neighbour; pixels of a square of ground belong together."""

    labels: RasterOnGrid
    numbers: Index  # (256,) number in the legend of each label
    squares: Squares

    @classmethod
    def open(
        cls, path: str, product: MapProduct, scheme: str | None, choice: ClassChoice, block_metres: float
    ) -> RasterReference:
        """Classes of the raster are found by a first pass: its scheme may name many that it does not hold."""
        source = open_labels(path, scheme, choice=choice)
        assert isinstance(source, RasterLabels)
        labels = source.on(product.grid)
        cache = TileCache()
        seen = np.zeros(256, bool)
        for window in product.grid.blocks(_BLOCK):
            seen[labels.labels(window, cache)] = True
        present = [int(code) for code in np.flatnonzero(seen) if code]
        if not present:
            raise SceneError(f"{path} has no label on the map; check that they show the same place")
        plain = source.scheme.name == NUMBERED
        names = {code: str(code) if plain else source.scheme[code].name for code in present}
        legend = Legend(product.names, product.codes).with_values(names.values())
        numbers = np.full(256, -1, np.intp)
        for code, name in names.items():
            numbers[code] = legend.numbers([name])[0]
        squares = Squares.of(product.grid, max(block_metres, *pixel_metres(product.grid)))
        down, across = squares.shape
        return cls(
            name=Path(source.layer.info.path).name,
            kind="raster",
            legend=legend,
            group_count=down * across,
            labels=labels,
            numbers=numbers,
            squares=squares,
        )

    def samples(self, window: Window, cache: TileCache) -> Matches:
        """Labelled pixels."""
        labels = self.labels.labels(window, cache)
        rows, cols = np.nonzero(labels)
        groups = self.squares.numbers(window)[rows, cols]
        return Matches(rows, cols, self.numbers[labels[rows, cols]], groups)


@dataclass(frozen=True, kw_only=True)
class PointReference(Reference):
    """Points, each the pixel that it lies in; of several in one pixel the last one counts."""

    rows: Index
    cols: Index
    classes: Index
    stratum: Index | None = None

    @classmethod
    def of(
        cls, path: str, features: list[Feature], values: list[str], product: MapProduct, stratified: bool
    ) -> PointReference:
        """Points of features; parts of a multipoint count one by one."""
        import shapely

        shapes = np.array([feature.shape for feature in features], dtype=object)
        xy, owner = shapely.get_coordinates(shapes, return_index=True)
        rows, cols, inside = pixels_of(product.grid, xy)
        if not inside.any():
            raise SceneError(
                f"no point of {path} lies on the map, whose bounds are {product.grid.bounds} "
                f"({product.grid.crs}); check that they show the same place"
            )
        legend = Legend(product.names, product.codes).with_values(values[i] for i in owner[inside])
        classes = legend.numbers(values[i] for i in owner[inside])
        strata: tuple[str, ...] = ()
        stratum = None
        if stratified:
            texts = np.array([_field_text(features[i].values[1]) for i in owner[inside]])
            names, numbers = np.unique(texts, return_inverse=True)
            strata, stratum = tuple(str(n) for n in names), numbers.reshape(-1).astype(np.intp)
        return cls(
            name=Path(path).name,
            kind="points",
            legend=legend,
            strata=strata,
            outside=int((~inside).sum()),
            rows=rows[inside],
            cols=cols[inside],
            classes=classes,
            stratum=stratum,
        )._one_a_pixel(product.grid)

    def _one_a_pixel(self, grid: Grid) -> PointReference:
        """The last point of each pixel, and a note on the others."""
        place = self.rows * grid.width + self.cols
        _, backwards, points = np.unique(place[::-1], return_index=True, return_counts=True)
        keep = np.sort(place.size - 1 - backwards)
        if keep.size == place.size:
            return self
        note = (
            f"{place.size - keep.size} points of {self.name} do not count: {(points > 1).sum()} pixels hold "
            f"several points, and a pixel is one sample, of the class of its last point"
        )
        stratum = None if self.stratum is None else self.stratum[keep]
        return replace(
            self,
            rows=self.rows[keep],
            cols=self.cols[keep],
            classes=self.classes[keep],
            stratum=stratum,
            notes=(note + self._contradictions(grid.width, place),),
        )

    def _contradictions(self, width: int, place: Index) -> str:
        """The pixels whose points have several classes, as the end of a sentence; "" where there are none."""
        names = len(self.legend.names)
        found = np.unique(place * names + self.classes)
        pixels, classes = np.unique(found // names, return_counts=True)
        pixels = pixels[classes > 1]
        if pixels.size == 0:
            return ""
        listed = []
        for pixel in pixels[:_LISTED]:
            met = ", ".join(self.legend.names[k] for k in found[found // names == pixel] % names)
            listed.append(f"row {pixel // width}, column {pixel % width}: {met}")
        more = f"; and {pixels.size - _LISTED} more" if pixels.size > _LISTED else ""
        return (
            f"; classes contradict each other in {pixels.size} of them (rows and columns from 0; "
            f"{'; '.join(listed)}{more})"
        )

    def samples(self, window: Window, cache: TileCache) -> Matches:
        """Points in the window."""
        row, col = self.rows - window.row, self.cols - window.col
        here = np.flatnonzero((row >= 0) & (row < window.height) & (col >= 0) & (col < window.width))
        strata = None if self.stratum is None else self.stratum[here]
        return Matches(row[here], col[here], self.classes[here], None, strata)


@dataclass(frozen=True, kw_only=True)
class PolygonReference(Reference):
    """Polygons: the pixels whose centres they hold; those of one polygon belong together."""

    grid: Grid
    shapes: tuple[Any, ...]
    classes: Index  # (polygon,)
    tree: Any = field(repr=False)

    @classmethod
    def of(
        cls, path: str, features: list[Feature], values: list[str], product: MapProduct
    ) -> PolygonReference:
        """Polygons of features."""
        import shapely

        legend = Legend(product.names, product.codes).with_values(values)
        shapes = tuple(feature.shape for feature in features)
        return cls(
            name=Path(path).name,
            kind="polygons",
            legend=legend,
            group_count=len(shapes),
            grid=product.grid,
            shapes=shapes,
            classes=legend.numbers(values),
            tree=shapely.STRtree(shapes),
        )

    def samples(self, window: Window, cache: TileCache) -> Matches:
        """Pixels of the polygons in a window; where they overlap, the later one counts."""
        import shapely

        part = self.grid.crop(window)
        near = np.sort(self.tree.query(shapely.box(*part.bounds)))
        if near.size == 0:
            empty = np.empty(0, np.intp)
            return Matches(empty, empty, empty, empty)
        burnt = burn([(self.shapes[i], int(i) + 1) for i in near], part)
        rows, cols = np.nonzero(burnt)
        owner = burnt[rows, cols].astype(np.intp) - 1
        return Matches(rows, cols, self.classes[owner], owner)


@reader
def open_reference(
    path: str | Path,
    product: MapProduct,
    *,
    class_field: str | None = None,
    stratum_field: str | None = None,
    scheme: str | None = None,
    choice: ClassChoice | None = None,
    block_metres: float = 1000.0,
) -> Reference:
    """Reference data of a file, on the grid of a map."""
    name, choice = str(path), choice or ClassChoice()
    if not is_vector(name):
        if stratum_field is not None:
            raise SceneError(f"{name} is a raster and has no fields; strata by a field need a file of points")
        return RasterReference.open(name, product, scheme, choice, block_metres)
    class_field = class_field_of(name, class_field)
    drawn = stratum_field is None and {STRATUM, STRATUM_AREA, STRATUM_SAMPLES} <= set(fields_of(name))
    if drawn:
        stated = (PROBABILITY,) if PROBABILITY in fields_of(name) else ()
        fields: tuple[str, ...] = (class_field, STRATUM, STRATUM_AREA, STRATUM_SAMPLES, *stated)
    else:
        fields = (class_field,) if stratum_field is None else (class_field, stratum_field)
    features = read_features(name, product.grid, fields)
    said: list[str] = []
    if drawn:
        features, said = _visited(name, class_field, features)
    texts = [texts_of((f.values[i] for f in features), name, used) for i, used in enumerate(fields)]
    every = _translated(texts[0], scheme, choice, name)
    lost = sum(value is None for value in every)
    features = [feature for feature, value in zip(features, every, strict=True) if value is not None]
    found = _of_features(
        name, features, [v for v in every if v is not None], product, drawn or stratum_field is not None
    )
    if drawn:
        found, more = _with_design(name, found, features)
        said += more
    if lost:
        said.append(f"{lost} features of {name} are of values that are no class")
    return replace(found, notes=(*found.notes, *said))


def _visited(name: str, class_field: str, features: list[Feature]) -> tuple[list[Feature], list[str]]:
    """Points of a drawn sample that have a class by now, and what has to be said of the others."""
    there = [f for f in features if f.values[0] is not None and str(f.values[0]).strip() not in ("", "nan")]
    if not there:
        raise SceneError(f"no point of {name} has a class yet; fill in the field {class_field!r}")
    lost = len(features) - len(there)
    note = f"{lost} points of {name} have no class and are left out: right only if these are like the others"
    return there, [note] if lost else []


def _with_design(path: str, reference: Reference, features: list[Feature]) -> tuple[Reference, list[str]]:
    """The design that a drawn sample states of its strata; and what has to be said of lost points."""
    stated: dict[str, tuple[float, ...]] = {}
    points: dict[str, int] = {}
    comma = TextTable.of(path).decimal if is_points(path) else "."  # tables have it where all of them has
    for feature in features:
        stratum, *numbers = feature.values[1:]
        key, facts = _field_text(stratum), tuple(_number(str(each).replace(comma, ".")) for each in numbers)
        if not (0 < facts[0] < np.inf and facts[1] > 0 and all(0 < each <= 1 for each in facts[2:])):
            raise SceneError(
                f"{reference.name}: {', '.join(map(repr, numbers))} of the stratum {stratum!r} are no "
                f"{', '.join((STRATUM_AREA, STRATUM_SAMPLES, PROBABILITY)[: len(facts)])}; take these "
                "columns from the file that was drawn, with decimal points"
            )
        if stated.setdefault(key, facts) != facts:
            raise SceneError(
                f"{reference.name} states two areas, numbers of samples or probabilities for the stratum "
                f"{key!r}; take these columns from the file that was drawn"
            )
        points[key] = points.get(key, 0) + 1
    missing = [
        f"{n[1] - points[s]:.0f} of {n[1]:.0f} of {s!r}" for s, n in stated.items() if points[s] < n[1]
    ]
    note = (
        f"points of {reference.name} are missing ({', '.join(missing)}): estimates are right only if these "
        "are like the others of their stratum"
    )
    areas, samples, *rest = np.array([stated[name] for name in reference.strata]).T
    drawn = DrawnStrata(areas * _UNITS["area_ha"], samples, rest[0] if rest else np.full(len(areas), np.nan))
    return replace(reference, drawn=drawn), [note] if missing else []


def _number(text: str) -> float:
    """The number that a text is; NaN where it is none."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def check_drawn(reference: Reference, areas: Floats, pixels: Floats, cells: Floats, lost: int) -> None:
    """Refuse a drawn sample that was changed, where it is compared with the map that it was drawn from.

    That is the map most of whose area is of classes with the areas that the strata state. ``areas`` (class,)
    in m² and ``pixels`` (class,) are those of the map, ``cells`` (stratum, mapped class) counts points,
    ``lost`` those where the map has no class.
    """
    if (drawn := reference.drawn) is None:
        return
    numbers, legend = [reference.legend.number(name) for name in reference.strata], reference.legend
    known = [i for i, number in enumerate(numbers) if number is not None and number < legend.mapped]
    own = np.array([numbers[i] for i in known], np.intp)
    alike = np.abs(areas[own] / drawn.areas[known] - 1) < _SAME
    if areas[own][alike].sum() <= areas.sum() / 2:
        return  # it was drawn from another map
    back = "take the columns and rows from the file that was drawn"
    if strange := [name for i, name in enumerate(reference.strata) if i not in known]:
        raise SceneError(
            f"{reference.name} has points of the stratum {strange[0]!r}, which is no class of the map that "
            f"they were drawn from; {back}"
        )
    gone = [name for i, name in enumerate(legend.names[: legend.mapped]) if areas[i] > 0 and i not in own]
    if gone:
        raise SceneError(
            f"{reference.name} has no point with a class of the stratum {gone[0]!r}, whose points were drawn "
            "too; visit them, and " + back
        )
    for name, right, stated in zip(reference.strata, areas[own], drawn.areas, strict=True):
        if abs(right / stated - 1) >= _SAME:
            raise SceneError(
                f"{reference.name}: {STRATUM_AREA} of {name!r} is {stated / 1e4:g}, and that of the map is "
                f"{right / 1e4:g}; {back}"
            )
    expected = drawn.samples / pixels[own]
    for name, right, stated in zip(reference.strata, expected, drawn.probability, strict=True):
        if abs(right / stated - 1) > _SAME:
            raise SceneError(
                f"{reference.name}: {PROBABILITY} of {name!r} is {stated:g}, and that of its "
                f"{STRATUM_SAMPLES} on the map is {right:g}; {back}"
            )
    moved = int(cells.sum() - cells[np.arange(len(own)), own].sum()) + lost
    if moved:
        raise SceneError(
            f"{moved} points of {reference.name} lie where the map has another class than their stratum, or "
            f"none: their coordinates or strata were changed; {back}"
        )


def _of_features(
    name: str, features: list[Feature], values: list[str], product: MapProduct, stratified: bool
) -> Reference:
    """Points or polygons with the class of each."""
    kinds = {feature.shape.geom_type.removeprefix("Multi") for feature in features}
    if kinds == {"Point"}:
        return PointReference.of(name, features, values, product, stratified)
    if kinds != {"Polygon"}:
        raise SceneError(f"{name} holds {', '.join(sorted(kinds))}; a reference is points, or polygons")
    if stratified:
        raise SceneError(f"{name} holds polygons; strata by a field need points that were drawn in them")
    return PolygonReference.of(name, features, values, product)


def _translated(values: list[str], scheme: str | None, choice: ClassChoice, what: str) -> list[str | None]:
    """Names of classes, None for values that are none."""
    named = choice.named(list(dict.fromkeys(values)), what)
    if scheme is None:
        return [named[value] for value in values]
    translation: Translation = load_translation(scheme)
    codes = {value: 0 if name is None else translation.of_name(name) for value, name in named.items()}
    if not any(codes.values()):
        raise SceneError(f"{scheme} gives no class of {what} a label; check which codes it leaves out")
    return [translation.target[codes[value]].name if codes[value] else None for value in values]


def _field_text(value: Any) -> str:
    """A field's value as text; whole numbers without a decimal point."""
    if isinstance(value, float | np.floating) and value == int(value):
        return str(int(value))
    return str(value)


#: By which an area may differ from that in a table of six digits.
_SAME = 1e-5
_UNITS = {"area_m2": 1.0, "area_ha": 1e4, "area_km2": 1e6}


@dataclass(frozen=True)
class Design:
    """A sampling design; its strata come from nowhere, the map's classes, or a field of the points."""

    name: DesignName | None = None  # None: not a probability sample, as far as anybody said
    strata: Literal["none", "map", "field"] = "none"
    areas_file: str | Path | None = None

    @classmethod
    def of(
        cls, name: DesignName | None, reference: Reference, areas_file: str | Path | None = None
    ) -> Design:
        """The design that the options state, refused where the reference cannot have it."""
        by_field = bool(reference.strata)
        if by_field and name not in (None, "stratified"):
            raise ValueError(
                f"a stratum field is given, and the design is {name!r}; it would be 'stratified'"
            )
        if areas_file is not None and not by_field:
            raise ValueError(
                "areas of strata are given; say with --stratum-field which field holds the strata"
            )
        if name is not None and reference.kind == "polygons":
            raise ValueError(
                f"{reference.name} holds polygons, whose pixels are no independent sample; a {name} design "
                f"needs points or single pixels"
            )
        if by_field:
            return cls("stratified", "field", areas_file)
        return cls(name, "none" if name in (None, "random") else "map")

    def names(self, legend: Legend, reference: Reference) -> tuple[str, ...]:
        """Names of the strata."""
        if self.strata == "none":
            return ("all",)
        return legend.names[: legend.mapped] if self.strata == "map" else reference.strata

    def sizes(
        self, legend: Legend, reference: Reference, mapped: Floats, pixels: Floats
    ) -> tuple[Floats, str | None]:
        """Areas of the strata in m², and what has to be said about them."""
        if self.strata == "none":
            return np.array([mapped.sum()]), None
        if self.strata == "map":
            return mapped[: legend.mapped], None
        if self.areas_file is not None or reference.drawn is not None:
            source, sizes = reference.name, None if reference.drawn is None else reference.drawn.areas
            if self.areas_file is not None:
                source = Path(self.areas_file).name
                sizes = _read_areas(self.areas_file, reference.strata, float(mapped.sum() / pixels.sum()))
            assert sizes is not None
            part = sizes.sum() / mapped.sum()
            if abs(part - 1) < 0.01:
                return sizes, None
            return sizes, (
                f"the strata of {source} cover {part:.3g} times the area of the map; estimates are for "
                "the strata"
            )
        numbers = [legend.number(stratum) for stratum in reference.strata]
        unknown = [
            s for s, n in zip(reference.strata, numbers, strict=True) if n is None or n >= legend.mapped
        ]
        if unknown:
            raise ValueError(
                f"the stratum {unknown[0]!r} is no class of the map, and its area is not known: give a table "
                f"with the columns stratum and area_ha (--stratum-areas)"
            )
        return mapped[np.array(numbers)], (
            "areas of the strata are taken from this map: right only if the sample was drawn from its classes"
        )


def check_strata(names: Sequence[str], sizes: Floats, counts: Floats) -> NDArray[np.bool_]:
    """Strata that exist; an error where one of them has no sample."""
    there = sizes > 0
    for name, size, count in zip(names, sizes, counts, strict=True):
        if size > 0 and count == 0:
            raise ValueError(
                f"the stratum {name!r} has {size / 1e4:,.0f} ha and no reference sample, so that nothing can "
                f"be estimated for it; add samples, or use --design random where the sample was drawn so"
            )
        if size <= 0 and count > 0:
            raise ValueError(
                f"the stratum {name!r} has samples and an area of 0; mend the areas of the strata"
            )
    return there


def _read_areas(path: str | Path, strata: Sequence[str], pixel: float) -> Floats:
    """Areas in m² of the strata, from a CSV file with a column `stratum` and one of areas or pixels."""
    try:
        rows = table_rows(path)
    except (OSError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read as a CSV table: {error}") from None
    units = {**_UNITS, "pixels": pixel}
    column = next((name for name in units if rows and name in rows[0]), None)
    if column is None or "stratum" not in rows[0]:
        raise ValueError(
            f"{path} needs a column 'stratum' and one of {', '.join(units)}; it has "
            f"{', '.join(rows[0]) if rows else 'no rows'}"
        )
    try:
        found = {str(row["stratum"]).strip(): float(row[column]) * units[column] for row in rows}
    except (TypeError, ValueError):
        raise ValueError(f"{path}: the column {column!r} holds something that is no number") from None
    if len(found) < len(rows) or not all(0 <= area < np.inf for area in found.values()):
        raise ValueError(f"{path} names a stratum twice, or has an area below 0 or without end; mend it")
    missing = [name for name in strata if name.strip() not in found]
    if missing:
        raise ValueError(f"{path} has no row for the stratum {missing[0]!r}; it has {', '.join(found)}")
    unsampled = [name for name in found if name not in {s.strip() for s in strata}]
    if unsampled:
        raise ValueError(
            f"{path} names the stratum {unsampled[0]!r}, which has no reference sample on the map: nothing "
            f"can be estimated for it; join it with another"
        )
    return np.array([found[name.strip()] for name in strata])
