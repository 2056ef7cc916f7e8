"""Files of labels: class rasters and vector files on any grid, their certainty, and label rasters written."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.files import parse_json, reader, whole_or_nothing
from uncover.labels import LandClass, Scheme, Translation, load_translation
from uncover.labels.colours import distinct
from uncover.labels.scheme import HIGHEST_LABEL, Rule, UnknownCodeError, codes_in_words, one_spelling
from uncover.pipeline.file_kinds import check_labels
from uncover.raster.align import RasterBand, check_overlap
from uncover.raster.area import window_of
from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window, warn_of_unknown_crs
from uncover.raster.legends import read_colours, read_legend
from uncover.raster.map_formats import SCHEME_TAG, category_names, class_tags
from uncover.raster.names import split_band, split_layer
from uncover.raster.points import is_points
from uncover.raster.resample import pixels_within
from uncover.raster.tiles import RasterInfo, TileCache
from uncover.raster.vectors import Burned, burn_vector, class_field_of, read_features, texts_of
from uncover.warn import warn

VECTOR_SUFFIXES = (".gpkg", ".geojson", ".json", ".shp", ".fgb", ".gml", ".kml", ".sqlite", ".gdb", ".tab")

Floats = NDArray[np.float64]
# Labels finer than a scene that are looked at together.
_MOST_FINE = 1 << 22

NUMBERED = "codes"  # name of the scheme of nameless codes
_VALUES = "values"  # that of whole numbers in a field


def codes_in(layer: RasterBand, part: Window | None = None) -> dict[int, int]:
    """Codes in a window of a raster, and their pixels; none where its numbers are no codes."""
    source, nodata = layer.info.bands(layer.band), layer.info.nodata[layer.band - 1]
    counts: Counter[int] = Counter()
    cache = TileCache()
    for window in (part or source.grid.window).cut((512, 512)):
        values = source.read(window, cache)[0]
        for code, n in zip(*np.unique(values, return_counts=True), strict=True):
            if code == nodata or np.isnan(code):
                continue
            if not float(code).is_integer() or len(counts) > 2 * HIGHEST_LABEL:
                return {}
            counts[int(code)] += int(n)
    return dict(sorted(counts.items()))


@dataclass(frozen=True)
class RasterLabels:
    """Labels from one band of a class raster."""

    layer: RasterBand
    translation: Translation
    purity: float = 0.0  # share of a pixel that its label covers at least, where labels are finer
    choice: ClassChoice = field(default_factory=lambda: ClassChoice())

    @property
    def scheme(self) -> Scheme:
        """Class scheme of the labels: the target of the translation."""
        return self.translation.target

    @property
    def name(self) -> str:
        """The file's name."""
        return self.layer.name

    def on(self, grid: Grid) -> RasterOnGrid:
        """The raster on a grid that it overlaps: by majority where it is finer, else by nearest neighbour."""
        check_overlap(self.name, grid, self.layer.info.grid, "labels")
        own = self.layer.info.grid
        warn_of_unknown_crs(self.name, own.crs, grid)
        self._say_what_is_no_class(codes_in(self.layer, window_of(own, grid.bounds, grid.crs)))
        return RasterOnGrid(self, grid, pixels_within(grid, own))

    def labelled(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Which numbers are labels: not ignored, named, and of nameless codes positive and not 255."""
        found: NDArray[np.bool_] = ~np.isin(values, self.choice.codes())
        if self.choice.classes:
            found &= np.isin(values, self.translation.source.codes)
        elif self.translation.source.name == NUMBERED:
            found &= (values >= 0) & (values != HIGHEST_LABEL + 1)
        return found

    def _say_what_is_no_class(self, counts: Mapping[int, int]) -> None:
        """Warn of codes that are taken to be no class, and of options that match none of them."""
        if not counts:
            return
        self.choice.named([str(code) for code in counts], self.name)
        codes = np.array(list(counts))
        lost = ~self.labelled(codes) | np.isin(codes, [*self.translation.source.nodata])
        lost &= ~np.isin(codes, [*self.choice.codes(), *read_legend(self.layer.info.path, self.layer.band)])
        if lost.any():
            listed, some = codes_in_words({code: counts[code] for code in codes[lost].tolist()})
            warn(
                f"{self.name}: codes {listed} are taken to be no class; --ignore {some} says so, and "
                "--classes CODE=NAME,… names all that are classes",
            )

    def about_unknown(self) -> str:
        """Message on all codes of the raster that are no class, with their counts."""
        known = (*self.translation.source.codes, *self.translation.source.nodata, *self.choice.codes())
        counts = codes_in(self.layer)
        unknown = {code: n for code, n in counts.items() if code not in known}
        return self.translation.about_unknown(unknown, self.name, "")


@dataclass(frozen=True)
class RasterOnGrid:
    """A class raster seen on another grid, read window by window."""

    source: RasterLabels
    grid: Grid
    finer: tuple[int, int] = (1, 1)  # rows and columns of the raster's pixels in one of the grid's

    def labels(self, window: Window, cache: TileCache) -> NDArray[np.uint8]:
        """Translated codes: that of most of a pixel, if it covers enough of it."""
        down, across = self.finer
        if self.finer == (1, 1):
            return self._nearest(self.grid, window, cache)
        a, b, c, d, e, f = self.grid.transform
        fine = Grid(
            self.grid.crs,
            (a / across, b / down, c, d / across, e / down, f),
            self.grid.width * across,
            self.grid.height * down,
        )
        found = np.zeros(window.shape, np.uint8)
        rows = max(1, _MOST_FINE // (window.width * down * across))
        for top in range(0, window.height, rows):
            height = min(rows, window.height - top)
            at = Window((window.row + top) * down, window.col * across, height * down, window.width * across)
            parts = self._nearest(fine, at, cache).reshape(height, down, window.width, across)
            found[top : top + height] = majority(parts.transpose(0, 2, 1, 3), self.source.purity)
        return found

    def _nearest(self, grid: Grid, window: Window, cache: TileCache) -> NDArray[np.uint8]:
        """Translated codes by nearest neighbour."""
        values, known = self.source.layer.read(grid, window, cache)
        labels = np.zeros(window.shape, np.uint8)
        known = known.copy()  # it may be shared between windows
        known[known] = self.source.labelled(values[known])
        try:
            labels[known] = self.source.translation(values[known], self.source.name)
        except UnknownCodeError:
            raise SceneError(self.source.about_unknown()) from None
        return labels

    def regions(self, window: Window) -> NDArray[np.int32] | None:
        """None: a raster does not know its parcels."""
        return None


def majority(labels: NDArray[np.uint8], purity: float = 0.0) -> NDArray[np.uint8]:
    """The label that most parts of each pixel (row, col, part, part) have, 0 where it covers too little.

    Parts without a label count as such; of labels that cover the same, the one of the lowest code is taken.

    >>> parts = np.array([[[[3, 3], [2, 0]]]], np.uint8)
    >>> majority(parts), majority(parts, purity=0.6)
    (array([[3]], dtype=uint8), array([[0]], dtype=uint8))
    """
    best, most = np.zeros(labels.shape[:2], np.uint8), np.zeros(labels.shape[:2], np.int64)
    for code in np.unique(labels):
        count = (labels == code).sum(axis=(2, 3))
        more = count > most
        best[more], most[more] = code, count[more]
    best[most < purity * labels[0, 0].size - 1e-9] = 0
    return best


@dataclass(frozen=True)
class ClassChoice:
    """Values that are no class, and names of those that are; values not named are none where some are.

    >>> ClassChoice(ignore=("9",), classes=(("1", "Built"),)).named(["1", "3", "9"], "lcm.tif")
    {'1': 'Built', '3': None, '9': None}
    """

    ignore: tuple[str, ...] = ()
    classes: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if both := [value for value, _ in self.classes if value in self.ignore]:
            raise ValueError(
                f"--classes and --ignore both name {', '.join(both)}; a value is a class or is ignored: take "
                "it out of one of them"
            )

    def named(self, values: Sequence[str], what: str) -> dict[str, str | None]:
        """Name of the class of each value, None for no class."""
        new = dict(self.classes)
        found = {v: None if v in self.ignore else new.get(v, None if new else v) for v in values}
        if not any(found.values()):
            raise SceneError(
                f"{what} holds {', '.join(values[:8])}, and none of them is left a class; check --classes "
                "and --ignore"
            )
        for option, given in (("--ignore", self.ignore), ("--classes", new)):
            if strange := [v for v in given if v not in found]:
                warn(
                    f"{option} names {', '.join(strange)}, which {what} does not hold (it holds "
                    f"{', '.join(values[:8])}{', …' if len(values) > 8 else ''})",
                )
        return found

    def of_codes(self) -> ClassChoice:
        """The same with numbers as those of a raster are written: 1 for 01 and 1.0."""

        def plain(value: str) -> str:
            try:
                return str(int(float(value))) if float(value).is_integer() else value
            except ValueError:
                return value

        named = tuple((plain(value), name) for value, name in self.classes)
        return ClassChoice(tuple(map(plain, self.ignore)), named)

    def codes(self) -> tuple[int, ...]:
        """Codes of a raster that are ignored."""
        return tuple(int(value) for value in self.ignore if value.lstrip("-").isdigit())

    def translation(self) -> Translation:
        """Codes of a raster to the classes that are named."""
        wrong = [value for value, _ in self.classes if not value.lstrip("-").isdigit()]
        if wrong:
            raise ValueError(
                f"--classes names {wrong[0]!r}, and a raster has whole numbers: --classes 1=NAME,…"
            )
        codes, names = [int(value) for value, _ in self.classes], [name for _, name in self.classes]
        target = Scheme.of_names(dict.fromkeys(names))
        first = [codes[names.index(each.name)] for each in target.classes]
        if all(1 <= code <= HIGHEST_LABEL for code in first):  # a class keeps its code
            kept = [replace(each, code=code) for each, code in zip(target.classes, first, strict=True)]
            target = replace(target, classes=tuple(sorted(kept, key=lambda each: each.code)))
        source = Scheme("codes named here", tuple(LandClass(c, str(c)) for c in codes), nodata=())
        rules = tuple(Rule((int(value),), target.code_of(name)) for value, name in self.classes)
        return Translation("--classes", source, target, rules)


def _order(name: str) -> tuple[int, str]:
    """Whole numbers by their size, then names."""
    return (int(name), "") if re.fullmatch(r"-?\d+", name) else (HIGHEST_LABEL + 1, name)


@dataclass(frozen=True)
class VectorLabels:
    """Labels from the features of a vector file."""

    path: str
    field: str
    scheme: Scheme
    codes: Mapping[str, int]  # label of each value of the field

    @classmethod
    def open(
        cls,
        path: str,
        field: str,
        translation: Translation | None = None,
        choice: ClassChoice | None = None,
    ) -> VectorLabels:
        """Values of the field translated, named anew, or taken as classes themselves; 0 for those ignored."""
        choice = choice or ClassChoice()
        named = choice.named(_values(path, field), f"field {field!r} of {path}")
        if left := [value for value, name in named.items() if name is None and value not in choice.ignore]:
            some = ", ".join(left[:8]) + (", …" if len(left) > 8 else "")
            warn(
                f"{path}: {some} of field {field!r} are taken to be no class; --ignore says so, and "
                "--classes VALUE=NAME,… names all that are classes",
            )
        if translation is not None:
            codes = {v: 0 if name is None else translation.of_name(name) for v, name in named.items()}
            return cls(path, field, translation.target, codes)
        names = sorted({name for name in named.values() if name is not None}, key=_order)
        scheme = _scheme_of_values(names, f"field {field!r} of {path}")
        return cls(
            path, field, scheme, {v: 0 if name is None else scheme.code_of(name) for v, name in named.items()}
        )

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path

    def on(self, grid: Grid) -> VectorOnGrid:
        """Features by pixel centre; an error where none covers a pixel."""
        burnt = burn_vector(self.path, grid, self.field, keep_codes=False)
        _warn_of_lost(self.path, burnt)
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


#: Labels of one scheme, not yet on a grid; and for windows of one grid: codes, 0 where there is no label.
LabelSource = RasterLabels | VectorLabels
LabelsOnGrid = RasterOnGrid | VectorOnGrid


def _warn_of_lost(path: str, burnt: Burned) -> None:
    """Say what gives no label, by reason and class."""
    if not burnt.lost:
        return
    reasons = []
    for reason, by_class in burnt.lost.items():
        listed = ", ".join(f"{name} {n}" for name, n in sorted(by_class.items()))
        reasons.append(f"{sum(by_class.values())} {reason} ({listed})")
    gone = ", ".join(repr(name) for name in burnt.vanished)
    end = f"; no label is left of the class {gone}" if gone else ""
    warn(f"{path}: no label from {', '.join(reasons)}{end}")


def is_vector(name: str | Path) -> bool:
    """True for a vector file, and for a CSV with coordinates: points."""
    file = split_layer(name)[0]
    return file.lower().endswith(VECTOR_SUFFIXES) or is_points(name) or _zipped(Path(file))


def _zipped(path: Path) -> bool:
    """True for an archive with a vector file, as shapefiles are sent around."""
    if path.suffix.lower() != ".zip" or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as file:
        return any(name.lower().endswith((".shp", ".gpkg", ".geojson")) for name in file.namelist())


@reader
def open_labels(
    name: str | Path,
    scheme: str | None = None,
    class_field: str | None = None,
    purity: float = 0.0,
    choice: ClassChoice | None = None,
) -> LabelSource:
    """Labels of a file: a vector file or points by a field, a raster by `scheme` or by the legend it carries.

    Without either, the codes 1 to 254 of a raster are classes of their own, called by their numbers. Where a
    raster is finer than the grid of a scene, the label of most of a pixel counts, if it covers the share
    `purity` of it.
    """
    choice = choice or ClassChoice()
    if scheme is not None and choice.classes:
        raise ValueError("--scheme and --classes came, and both name the classes; give one of them")
    translation = None if scheme is None else load_translation(scheme)
    if is_vector(name):
        return VectorLabels.open(str(name), class_field_of(name, class_field), translation, choice)
    check_labels(name)
    layer, choice = RasterBand.open(name), choice.of_codes()
    if layer.info.count > 2 and split_band(name)[0] == str(name):  # the second may be a probability
        raise SceneError(
            f"{name} has {layer.info.count} bands, as pictures have; labels are one band of class codes: "
            f"name it, {name}:1, or export the codes"
        )
    if choice.classes:
        return RasterLabels(layer, choice.translation(), purity, choice)
    own = scheme_in(layer.info) or legend_in(layer)
    if translation is None and own is not None:
        translation = Translation.identity(own)
    elif translation is not None and own is not None:
        _check_source(layer.name, own, translation)
    if not 0 <= purity <= 1:
        raise ValueError(f"the share of a pixel that its label covers is {purity:g}; it lies between 0 and 1")
    translation = translation or Translation.identity(numbered_scheme())
    return RasterLabels(layer, translation, purity, choice)


def _check_source(name: str, own: Scheme, translation: Translation) -> None:
    """Refuse to translate codes that mean something else already, as those of labels that were translated."""
    source = translation.source
    meant = {c.code: c.name for c in source.classes}
    if own.name in (source.name, NUMBERED, _VALUES) or all(meant.get(c.code) == c.name for c in own.classes):
        return
    more = ", …" if len(own.names) > 4 else ""
    raise SceneError(
        f"{name} has classes of the scheme {own.name!r} ({', '.join(own.names[:4])}{more}), and --scheme "
        f"{translation.name} is for codes of {source.name!r}; leave --scheme out to take them as they are"
    )


def numbered_scheme(codes: tuple[int, ...] = tuple(range(1, HIGHEST_LABEL + 1))) -> Scheme:
    """Scheme of nameless codes."""
    colours = distinct(HIGHEST_LABEL)
    return Scheme(NUMBERED, tuple(LandClass(c, f"class {c}", colours[c - 1]) for c in codes))


def _scheme_of_values(values: list[str], what: str) -> Scheme:
    if all(re.fullmatch(r"-?\d+", v) for v in values) and (low := [v for v in values if int(v) < 1]):
        some = ",".join(low)
        raise SceneError(
            f"{what} holds {some}, and class codes start at 1: --ignore {some} leaves these out, --classes "
            f"{low[0]}=NAME,… names them"
        )
    try:
        one_spelling(values)
    except ValueError as error:
        raise SceneError(f"{what}: {error}") from None
    if all(v.isdigit() for v in values):
        codes = sorted(int(v) for v in values)
        if codes[-1] > HIGHEST_LABEL:
            raise SceneError(
                f"{what} holds {codes[-1]}; without --scheme class codes go from 1 to {HIGHEST_LABEL}"
            )
        colours = distinct(len(codes))
        return Scheme(_VALUES, tuple(LandClass(c, str(c), h) for c, h in zip(codes, colours, strict=True)))
    if len(values) > HIGHEST_LABEL:
        raise SceneError(
            f"{what} holds {len(values)} different values; at most {HIGHEST_LABEL} classes are possible"
        )
    return Scheme.of_names(values)


def _values(path: str, field: str) -> list[str]:
    """The different values of a field, sorted, as text."""
    features = read_features(path, None, (field,))
    return sorted(set(texts_of((feature.values[0] for feature in features), path, field)), key=_order)


@dataclass(frozen=True)
class LabelDoubt:
    """Knowledge of wrong labels; none by default.

    probability, scale
        `FILE` or `FILE:BAND` of the probability that each pixel's label is right, and the value that means
        certainty; None: 100 for whole numbers, 1 for others.
    meaning
        "certainty": judged without the scene, such as the probability of a land cover map of another year;
        "posterior": P(label | pixel), made from the scene itself.
    noise
        Share of the labels that are wrong, each other class equally often, or "learn".

    >>> LabelDoubt(noise=0.1).confusion(3)[0].tolist()
    [0.9, 0.05, 0.05]
    >>> LabelDoubt(noise=1.5)
    Traceback (most recent call last):
    ...
    ValueError: --label-noise is 1.5; it is the share of wrong labels, between 0 and 1, or "learn"
    """

    probability: str | Path | None = None
    scale: float | None = None
    meaning: str = "certainty"
    noise: float | str | None = None

    def __post_init__(self) -> None:
        if self.noise is not None and self.noise != "learn":
            object.__setattr__(self, "noise", _share(self.noise))
        if self.noise is not None and self.probability is not None:
            raise ValueError(
                "--label-probability says of each label how sure it is, and --label-noise of all of them; "
                "give one of the two"
            )

    def confusion(self, classes: int) -> Floats | str | None:
        """P(label j | class k) as `BayesianQDA` takes it: (class, class), "learn" or None."""
        if self.noise is None or self.noise == "learn":
            return self.noise
        share = _share(self.noise)
        matrix = np.full((classes, classes), share / (classes - 1))
        np.fill_diagonal(matrix, 1.0 - share)
        return matrix

    def check(self, model: str, calibrates: bool, coverage: float | None) -> None:
        """Refuse what does not go with labels that may be wrong."""
        came = "--label-probability" if self.probability is not None else "--label-noise"
        if self.probability is None and self.noise is None:
            return
        from uncover.models.registry import CLASS_MODELS

        if model not in (*CLASS_MODELS, "recommended"):
            names = ("published" if name == "qda" else name for name in CLASS_MODELS)
            wanted = f"{', '.join(names)} or recommended"
            raise ValueError(f"{came} goes with --model {wanted}; {model} takes labels as they are")
        if coverage is not None or (calibrates and self.meaning == "certainty"):
            other = "--calibrate" if coverage is None else "--coverage"
            raise ValueError(
                f"{other} compares predictions with labels, and {came} says that these may be wrong; leave "
                "one of them out"
            )

    def facts(self) -> dict[str, Any]:
        """Plain values for the provenance of a model; none where nothing is in doubt."""
        if self.noise is not None:
            return {"label noise": self.noise}
        if self.probability is None:
            return {}
        return {"label probability": {"file": Path(self.probability).name, "meaning": self.meaning}}


def _share(value: float | str) -> float:
    try:
        share = float(value)
    except ValueError:
        share = np.nan
    if not 0 < share < 1:
        raise ValueError(
            f'--label-noise is {value}; it is the share of wrong labels, between 0 and 1, or "learn"'
        )
    return share


@dataclass(frozen=True)
class Certainty:
    """The probability of the labels on a grid, read window by window."""

    layer: RasterBand
    grid: Grid
    scale: float
    cache: TileCache = field(default_factory=TileCache)

    @classmethod
    def on(cls, grid: Grid, layer: RasterBand, scale: float | None, place: str = "the scene") -> Certainty:
        """The layer by nearest neighbour on a grid that it overlaps."""
        check_overlap(layer.name, grid, layer.info.grid, "probabilities", place)
        return cls(layer, grid, scale or (100.0 if layer.dtype.kind in "ui" else 1.0))

    def numbers(self, window: Window) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Numbers as they are stored, and where there is one; (row, col) each."""
        values, known = self.layer.read(self.grid, window, self.cache)
        low, high = (end(values[known], initial=0) for end in (np.min, np.max))
        if low < 0 or high > self.scale:
            raise SceneError(
                f"{self.layer.name} holds probabilities from {values[known].min():g} to {high:g}, and "
                f"{self.scale:g} was taken to mean certainty; give the right value with --probability-scale"
            )
        return values, known

    def read(self, window: Window) -> Floats:
        """Probabilities (row, col) from 0 to 1, NaN where the layer has none."""
        values, known = self.numbers(window)
        return np.where(known, values / self.scale, np.nan)


def soft_labels(names: NDArray[np.str_], sure: Floats, classes: Sequence[str]) -> Floats:
    """Probability of each class for labels that are right with probability `sure`: (sample, class).

    The rest goes to the other classes, equally.

    >>> soft_labels(np.array(["b", "a"]), np.array([0.8, 1.0]), ["a", "b", "c"]).round(2).tolist()
    [[0.1, 0.8, 0.1], [1.0, 0.0, 0.0]]
    """
    own = names[:, None] == np.asarray(classes)[None, :]
    return np.where(own, sure[:, None], (1.0 - sure[:, None]) / (len(classes) - 1))


NODATA = 0


def write_labels(path: str | Path, labels: NDArray[np.uint8], grid: Grid, scheme: Scheme) -> None:
    """Write labels as a Cloud-Optimised GeoTIFF with colours and names; whole, or not at all.

    The names go where each reader looks: into a tag of the file, and as GDAL category names into the
    `.aux.xml` file beside it.

    >>> import tempfile
    >>> from uncover.labels import load_scheme
    >>> grid = Grid("EPSG:32630", (10, 0, 500000, 0, -10, 5700000), width=2, height=1)
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_labels(folder / "labels.tif", np.array([[1, 5]], np.uint8), grid, load_scheme("lulucf"))
    >>> sorted(path.name for path in folder.iterdir())
    ['labels.tif', 'labels.tif.aux.xml']
    """
    import rasterio
    import rasterio.shutil
    from rasterio._err import CPLE_BaseError
    from rasterio.errors import RasterioError

    scheme.check_labels()
    profile = {
        "driver": "GTiff", "width": grid.width, "height": grid.height, "count": 1, "dtype": "uint8",
        "nodata": NODATA, "crs": grid.crs, "transform": rasterio.Affine(*grid.transform), "tiled": True,
        "photometric": "palette",
    }  # fmt: skip
    with whole_or_nothing(path) as out:
        plain = out.with_name(f"{out.name}.plain")  # no name that out itself may have
        try:
            with rasterio.open(plain, "w", **profile) as dataset:
                dataset.write(labels, 1)
                dataset.write_colormap(1, scheme.colour_table())
                dataset.update_tags(**class_tags(scheme))
            rasterio.shutil.copy(
                plain, out, driver="COG", compress="DEFLATE", blocksize=512, overview_resampling="nearest"
            )
        except (RasterioError, CPLE_BaseError) as error:
            why = str(error.__cause__ or error).splitlines()[0]
            raise SceneError(
                f"{Path(path).name} cannot be written ({why}); make room or write elsewhere"
            ) from error
        plain.unlink()
        out.with_name(out.name + ".aux.xml").write_text(category_names(scheme), "utf-8")


#: Names in legends that are no class.
_NO_CLASS = ("", "nodata", "no data", "unclassified", "background", "none", "unknown", "no label")


def legend_in(layer: RasterBand) -> Scheme | None:
    """Scheme of a raster's own legend: category names or attribute table, in its own colours."""
    names = {code: name for code, name in read_legend(layer.info.path, layer.band).items() if name}
    labels = {code: name for code, name in names.items() if name.strip().casefold() not in _NO_CLASS}
    if not labels:
        return None
    wrong = [code for code in labels if not 1 <= code <= HIGHEST_LABEL]
    if wrong:
        raise SceneError(
            f"{layer.name} calls the code {wrong[0]} {labels[wrong[0]]!r} in its legend, and labels go "
            "from 1 to "
            f"{HIGHEST_LABEL}; name its classes: --classes "
            f"{','.join(f'{c}={n}' for c, n in [*labels.items()][:3])},…"
        )
    colours = read_colours(layer.info.path, layer.band)
    entries = [
        {"code": c, "name": n} | ({"colour": colours[c]} if c in colours else {}) for c, n in labels.items()
    ]
    nodata = sorted({0, *(code for code in names if code not in labels)})
    return Scheme.from_dict({"name": "legend", "classes": entries, "nodata": nodata})


def scheme_in(info: RasterInfo) -> Scheme | None:
    """The scheme that a label raster carries, None where it carries none."""
    text = info.tags.get(SCHEME_TAG)
    if text is None:
        return None
    try:
        return Scheme.from_dict(parse_json(text, dict[str, Any], "its scheme"))
    except ValueError as error:
        raise SceneError(f"{info.path} carries a class scheme that cannot be read: {error}") from error
