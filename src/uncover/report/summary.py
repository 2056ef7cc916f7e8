"""All that a report of a map says, as values: no figure and no HTML is made here."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.labels.scheme import LandClass
from uncover.measurement.pooled import make_summariser
from uncover.models.files import load_fitted
from uncover.models.record import ModelRecord
from uncover.pipeline.contents import Contents, reopen
from uncover.pipeline.evaluation import StoredEvaluation
from uncover.pipeline.label_sources import LabelSource, open_labels
from uncover.pipeline.map_facts import MapFacts
from uncover.pipeline.map_product import SET_SIZE, Floats, MapProduct
from uncover.pipeline.map_table import none_of, uncertainty_columns
from uncover.progress import step
from uncover.raster.grid import Grid
from uncover.raster.observed import ObservedScene
from uncover.raster.product import UNCERTAINTY
from uncover.raster.tiles import TileCache
from uncover.report.detection import Detection, detect, true_areas
from uncover.report.pixels import LabelledSample, Stories, choose, natural_colours, read_spectra, read_stories

#: Pixels of the longer side of the pictures.
SIDE = 800


@dataclass(frozen=True)
class ClassSummary:
    """The parameters of the class models: what the classifier knows of each class."""

    kind: str
    realisations: str
    bands: tuple[str, ...]
    count: Floats  # (class,)
    mean: Floats  # (class, band)
    covariance: Floats  # (class, band, band)
    units: str | None

    @property
    def deviation(self) -> Floats:
        """Standard deviation of each band, (class, band)."""
        return np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2))


@dataclass(frozen=True)
class Areas:
    """Area of each class on mapped land, and in each world; unit ha or pixels."""

    unit: str
    pixels: NDArray[np.int64]  # (class,), of mapped land
    area: Floats  # (class,), pixels counted
    share: Floats  # (class,)
    expected: Floats  # (class,), probabilities added up
    worlds: Floats  # (class, world)
    spread: Floats  # (class,), standard deviation over the worlds; NaN without
    spread_error: Floats  # (class,), its Monte Carlo error
    note: str  # what is in these numbers
    none: Mapping[str, float] = field(default_factory=dict)  # of none of the classes, as `none_of` has it
    uncertainty: Mapping[str, Floats] = field(default_factory=dict)  # of the expected areas, by column


@dataclass(frozen=True)
class Pictures:
    """Thinned layers: one value stands for step × step pixels of the map."""

    step: int
    classes: NDArray[np.uint8]  # number of the class from 1, 0 for none
    layers: Mapping[str, Floats]  # parts of UNCERTAINTY, perhaps SET_SIZE, "unknown"; NaN where there is none
    quality: NDArray[np.uint16]
    colours: NDArray[np.uint8] | None = None  # (row, col, 3)
    colour_bands: tuple[str, ...] = ()
    labels: NDArray[np.uint8] | None = None  # number of the class from 1


@dataclass(frozen=True)
class Summary:
    """Contents of a report of a map.

    `missing` has what is not there and how to get it, by the section that lacks it.
    """

    identity: str
    classes: tuple[LandClass, ...]
    grid: Grid
    pixel: str
    pictures: Pictures
    areas: Areas
    stories: Stories
    facts: MapFacts  # what is mapped, masked, unlike anything trained, uncertain
    model: ClassSummary | None = None
    label_counts: Mapping[str, int] = field(default_factory=dict)
    sample: LabelledSample | None = None
    evaluations: tuple[StoredEvaluation, ...] = ()
    beside: tuple[tuple[str, str, StoredEvaluation], ...] = ()  # place, model and evaluation, to compare
    detection: Detection | None = None
    true_areas: Mapping[str, float] = field(default_factory=dict)
    item: Mapping[str, Any] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    missing: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    remark: str = ""  # what the scene says of itself

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the classes."""
        return tuple(c.name for c in self.classes)

    @property
    def colours(self) -> tuple[str, ...]:
        """Colours of the classes."""
        return tuple(c.colour for c in self.classes)


def summarise(contents: Contents) -> Summary:
    """Look at everything that a folder holds."""
    evaluations = _evaluations(contents)
    step("reading the map")
    product = MapProduct.open(contents.map)
    classes = contents.classes(product.names)
    item, areas = contents.item(), _areas(contents.map / "areas.csv", product)
    facts = MapFacts.in_item(item)
    if not areas.pixels.sum():
        raise ValueError(
            f"no pixel of {contents.map} has a class ({', '.join(facts.unmapped_pixels)}): there is nothing "
            "to report"
        )
    model = None if contents.model is None else load_fitted(contents.model)
    evidence, lost = (None, "the model is lost") if model is None else reopen(contents, model, product.grid)
    labels = (
        None if contents.labels is None else open_labels(contents.labels, class_field=contents.class_field)
    )
    stories, sample = _pixels(contents, product, evidence, labels, model)
    pictures, label_counts = _pictures(product, evidence, labels)
    truth = contents.truth()
    threshold = item["properties"].get("uncover:thresholds", {}).get("typicality", 0.001)
    step("comparing")
    return Summary(
        identity=str(item["properties"].get("uncover:scene", contents.folder.name)),
        classes=classes,
        grid=product.grid,
        pixel=_pixel(product),
        pictures=pictures,
        areas=areas,
        stories=stories,
        facts=facts,
        model=None if model is None else class_summary(model, product),
        label_counts=label_counts,
        sample=sample,
        evaluations=evaluations,
        beside=contents.beside(),
        detection=None if truth is None else detect(product, truth, threshold),
        true_areas={} if truth is None else true_areas(product, truth),
        item=item,
        run=contents.run(),
        provenance=getattr(model, "provenance_", None) or {},
        missing=_missing(contents, lost, truth),
        remark=_sentence(str(contents.scene_facts().get("title", ""))),
    )


def _sentence(text: str) -> str:
    return text + "." if text and text[-1] not in ".!?" else text


def _evaluations(contents: Contents) -> tuple[StoredEvaluation, ...]:
    """All evaluations, those of this map first."""
    found = [StoredEvaluation.read(folder) for folder in contents.evaluations]
    mine = contents.map.resolve().name
    return tuple(sorted(found, key=lambda each: each.facts["map"] != mine))


def _pixels(
    contents: Contents,
    product: MapProduct,
    evidence: ObservedScene | None,
    labels: LabelSource | None,
    model: ModelRecord | None,
) -> tuple[Stories, LabelledSample | None]:
    """Stories of a lattice of pixels, and labelled pixels."""
    from dataclasses import replace

    rows, cols = choose(product, evidence)
    parts = (*UNCERTAINTY, *(name for name in ("unknown",) if name in product.layers))
    stories = read_stories(product, rows, cols, parts)
    if evidence is None or model is None:
        return stories, None
    paired = bool(contents.item()["properties"].get("uncover:paired"))
    by_world = model.realisations in ("pooled", "shared")
    read = by_world and evidence.realisations > 1
    summariser = make_summariser(model, paired=paired, method="fast") if read else None
    on_grid = None if labels is None else labels.on(evidence.grid)
    spectra, sample = read_spectra(evidence, rows, cols, on_grid, summariser)
    if sample is not None and labels is not None:
        numbers = renumbered(labels, product)[sample.classes]
        sample = LabelledSample(sample.values[numbers > 0], numbers[numbers > 0])
    if spectra.worlds is not None:
        spectra = replace(spectra, worlds=_numbers_of(model, product)[spectra.worlds])
    return replace(stories, spectra=spectra), sample


def _numbers_of(model: ModelRecord, product: MapProduct) -> NDArray[np.uint8]:
    """Number of the map's class for each number of the model's, both from 1; 0 for none."""
    return np.array([0, *(product.names.index(str(name)) + 1 for name in model.classes_)], np.uint8)


def renumbered(labels: LabelSource, product: MapProduct) -> NDArray[np.uint8]:
    """Number of the map's class, from 1, for each code of the labels; 0 where the map has no such class."""
    numbers = {name.casefold(): i for i, name in enumerate(product.names, start=1)}
    table = np.zeros(256, np.uint8)
    for entry in labels.scheme.classes:
        table[entry.code] = numbers.get(entry.name.casefold(), 0)
    return table


def _pictures(
    product: MapProduct, evidence: ObservedScene | None, labels: LabelSource | None
) -> tuple[Pictures, dict[str, int]]:
    step = max(1, -(-max(product.grid.shape) // SIDE))  # pixels of the map for one of a picture
    classes = product.numbered(product.thinned("class", step))
    names = (*UNCERTAINTY, *(name for name in (SET_SIZE, "unknown") if name in product.layers))
    layers = {name: product.thinned(name, step) for name in names}
    quality = product.thinned("quality", step).astype(np.uint16)
    colours, bands = (None, ()) if evidence is None else natural_colours(evidence, step)
    if labels is None:
        return Pictures(step, classes, layers, quality, colours, bands), {}
    picture, counts = _labels(labels, product, step)
    named = {name: int(counts[i]) for i, name in enumerate(product.names, start=1)}
    return Pictures(step, classes, layers, quality, colours, bands, picture), named


def _labels(
    labels: LabelSource, product: MapProduct, step: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Labels as a picture, any of step × step pixels being enough to be seen, and how many there are."""
    grid, cache = product.grid, TileCache(64 << 20)
    table, on_grid = renumbered(labels, product), labels.on(grid)
    picture = np.zeros((-(-grid.height // step), -(-grid.width // step)), np.uint8)
    counts = np.zeros(256, np.int64)
    size = step * max(1, 1024 // step)
    for window in grid.blocks(size):
        numbers = table[on_grid.labels(window, cache)]
        counts += np.bincount(numbers.ravel(), minlength=256)
        padded = np.zeros((-(-window.height // step) * step, -(-window.width // step) * step), np.uint8)
        padded[: window.height, : window.width] = numbers
        tiles = padded.reshape(padded.shape[0] // step, step, -1, step).max(axis=(1, 3))
        top, left = window.row // step, window.col // step
        picture[top : top + tiles.shape[0], left : left + tiles.shape[1]] = tiles
    return picture, counts


def _areas(path: Path, product: MapProduct) -> Areas:
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = {row["class"]: row for row in csv.DictReader(file)}
        mine = [rows[name] for name in product.names]
        unit = "ha" if "area_ha" in mine[0] else "pixels"
        worlds = [key for key in mine[0] if key.startswith("world_")]
        named = ("area_{}", "share", "expected_{}", "sd_over_worlds_{}", "sd_over_worlds_mc_error_{}")
        area, share, expected, spread, error = (
            np.array([float(row[name.format(unit)] or "nan") for row in mine]) for name in named
        )
        return Areas(
            unit,
            np.array([int(row["pixels"]) for row in mine]),
            area,
            share,
            expected,
            np.array([[float(row[key]) for key in worlds] for row in mine]).reshape(len(mine), -1),
            spread,
            error,
            next(row["note"] for row in rows.values() if row["note"]),
            none_of(list(rows.values())),
            uncertainty_columns(mine, unit),
        )
    except (OSError, KeyError, ValueError, IndexError, StopIteration) as error:
        raise ValueError(
            f"{path} is not the table of areas of this map ({error}); make the map again"
        ) from None


def class_summary(model: ModelRecord, product: MapProduct) -> ClassSummary:
    """The parameters of the class models, in the order of the classes of a map."""
    order = [[str(name) for name in model.classes_].index(name) for name in product.names]
    bands = model.feature_names_in_
    p = model.n_features_in_
    return ClassSummary(
        kind=model.estimator_name,
        realisations=model.realisations,
        bands=tuple(f"feature {i}" for i in range(1, p + 1)) if bands is None else tuple(map(str, bands)),
        count=np.asarray(model.class_count_, float)[order],
        mean=np.asarray(model.means_, float)[order],
        covariance=np.asarray(model.covariances_, float)[order],
        units=model.units_,
    )


def _pixel(product: MapProduct) -> str:
    across, down = product.grid.resolution
    if product.grid.crs is None:
        return "without a reference system"
    unit = "°" if "4326" in product.grid.crs or "GEOGCRS" in product.grid.crs[:9] else " m"
    sides = [np.format_float_positional(side, 3, fractional=False, trim="-") for side in (across, down)]
    return f"of {sides[0]}{unit} × {sides[1]}{unit}"


def _missing(contents: Contents, lost: str, truth: Path | None) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    if lost:
        found["scene"] = (
            f"The scene itself is not shown, and pixels have no spectrum: {lost}.",
            "Put the scene back to where it was, or make the map again, and run uncover report again.",
        )
    if contents.labels is None:
        found["labels"] = (
            "The labelled pixels are not shown: no labels are there.",
            "Give them with --labels, or put labels.tif beside the folder of the map.",
        )
    if not contents.evaluations:
        found["evaluation"] = (
            "Nothing says how good this map is: it has not been compared with a reference.",
            "Run uncover evaluate with reference data, and give its folder with --evaluation.",
        )
    if truth is None:
        found["truth"] = (
            "How well pixels of unknown kinds are found cannot be said: there is no map of the truth.",
            "Where one exists with classes that were never trained, put it beside the map as truth.tif.",
        )
    return found
