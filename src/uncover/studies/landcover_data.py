"""Labelled pixels of one or several years, with all their realisations: tables, cubes, the embedded scene."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover import pipeline
from uncover.bayes.streams import stream
from uncover.pipeline import SampleTable, read_table
from uncover.pipeline.tables import is_table
from uncover.raster.cube import Cube, open_cube
from uncover.raster.grid import Window
from uncover.raster.opening import open_scene
from uncover.raster.realised import RealisedScene
from uncover.raster.tiles import TileCache
from uncover.studies.landscape import LandscapeOptions, SceneFiles, write_scene

Array = NDArray[Any]
#: Realisations of a scene: stored in a cube, or made when they are read.
Worlds = Cube | RealisedScene

#: Pixels of one block of so many rows and columns are drawn together by the bootstrap.
BLOCK = 50
YEARS = (2020, 2021)
_TRUE_COLOUR = ("B04", "B03", "B02")
_CACHE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Picture:
    """The scene that the pixels come from, for a figure."""

    rgb: Array  # (row, col, 3), uint8
    labels: Array  # (row, col), int16: code of each labelled pixel, −1 where there is none


@dataclass(frozen=True)
class LandCoverData:
    """The pixels that have the same class in every year.

    >>> data = LandCoverData("tiny", ("2020",), (np.zeros((4, 3, 2)),), np.array([0, 0, 1, 1]),
    ...     ("grass", "water"), ("B02", "B03"))
    >>> data.pixels, data.realisations, data.shares.tolist()
    (4, 3, [0.5, 0.5])
    """

    name: str
    years: tuple[str, ...]
    values: tuple[Array, ...]  # (pixel, realisation, band) of each year, the same pixels in the same order
    codes: Array  # (pixel,), place of each pixel's class in `classes`
    classes: tuple[str, ...]
    bands: tuple[str, ...]
    groups: Array | None = None  # (pixel,), the same number for dependent pixels, such as of one polygon
    picture: Picture | None = None
    notes: tuple[str, ...] = ()  # for readers

    @property
    def pixels(self) -> int:
        """Number of pixels."""
        return len(self.codes)

    @property
    def realisations(self) -> int:
        """Number of realisations of each pixel."""
        return int(self.values[0].shape[1])

    @property
    def shares(self) -> Array:
        """Share of each class among all labelled pixels: the prior of the scores."""
        return np.bincount(self.codes, minlength=len(self.classes)) / self.pixels

    def select(self, pixels: Array) -> LandCoverData:
        """Some of the pixels."""
        return replace(
            self,
            values=tuple(values[pixels] for values in self.values),
            codes=self.codes[pixels],
            groups=None if self.groups is None else self.groups[pixels],
        )

    def limited(self, most_pixels: int | None, most_realisations: int | None, seed: int) -> LandCoverData:
        """At most so many pixels, drawn at random, and realisations, the first ones; with a note of it.

        A class that would vanish keeps its share of at least ten pixels, if it has as many.
        """
        found, notes = self, []
        if most_pixels is not None and self.pixels > most_pixels:
            order = nested_order(self.codes, stream(seed, "pixels of the study"), least=10)
            found = found.select(np.sort(order[:most_pixels]))
            notes.append(f"{most_pixels:,} of {self.pixels:,} pixels, drawn at random")
        if most_realisations is not None and self.realisations > most_realisations:
            found = replace(found, values=tuple(v[:, :most_realisations] for v in found.values))
            notes.append(f"the first {most_realisations} of {self.realisations} realisations")
        return replace(found, notes=(*self.notes, *notes))


def nested_order(codes: Array, rng: np.random.Generator, least: int = 1) -> Array:
    """Pixels in an order whose every beginning has the classes in proportion, random within each class.

    The first pixels are `least` of each class, so that no class is missing from a training set.

    >>> codes = np.repeat([0, 1, 2], [90, 9, 1])
    >>> order = nested_order(codes, np.random.default_rng(0))
    >>> np.bincount(codes[order[:3]]).tolist(), np.bincount(codes[order[:20]]).tolist()
    ([1, 1, 1], [17, 2, 1])
    """
    place = np.empty(len(codes))
    for code in np.unique(codes):
        at = np.flatnonzero(codes == code)
        rank = rng.permutation(len(at))
        place[at] = np.where(rank < least, rank - least, (rank + 0.5) / len(at))
    return np.lexsort((rng.permutation(len(codes)), place))


def year_name(path: str | Path) -> str:
    """Name of the year of one of several files."""
    return Path(path).stem if is_table(path) else Path(path).name.removesuffix(".zarr")


def read_tables_of_years(paths: Sequence[str | Path], class_field: str | None = None) -> LandCoverData:
    """Sample tables: one with a column of dates, or one for each year.

    Pixels are known by their column `sample` (or pixel, id), else by their place among the rows of a year.
    """
    tables = [read_table(path, class_field, incomplete="refuse") for path in paths]
    if len(tables) == 1:
        return _joined(tables[0].name, _by_date(tables[0]))
    for table in tables:
        dates = [] if table.dates is None else np.unique(table.dates).tolist()
        if len(dates) > 1:
            raise ValueError(
                f"{table.name} has rows of {len(dates)} dates ({dates[0]}, {dates[1]}); of several tables "
                "each is one year: give one table with all dates, or one for each"
            )
    return _joined(
        " and ".join(table.name for table in tables),
        {year_name(path): table for path, table in zip(paths, tables, strict=True)},
    )


def _by_date(table: SampleTable) -> dict[str, SampleTable]:
    if table.dates is None:
        return {"": table}
    parts = {}
    for date in np.unique(table.dates):
        mine = table.dates == date
        parts[str(date)] = replace(
            table,
            values=table.values[mine],
            classes=table.classes[mine],
            dates=None,
            groups=None if table.groups is None else table.groups[mine],
            samples=None if table.samples is None else table.samples[mine],
        )
    return parts


def _joined(name: str, years: dict[str, SampleTable]) -> LandCoverData:
    """The pixels that are in every year with the same class."""
    _check_alike(name, years)
    first = next(iter(years.values()))
    ids = {year: _identities(name, year, table, len(years)) for year, table in years.items()}
    common = ids[next(iter(years))]
    for year, other in ids.items():
        common = common[np.isin(common, other)]
        if not len(common):
            raise ValueError(
                f"{name}: no sample of {next(iter(years))} is in {year}, too; a pixel has the same name in "
                "the column 'sample' of every year"
            )
    rows = {year: _rows_of(ids[year], common) for year in years}
    labels = np.stack([table.classes[rows[year]] for year, table in years.items()])
    stable = (labels == labels[0]).all(axis=0)
    notes = _stability_notes(len(first), len(common), int(stable.sum()), len(years))
    at = {year: rows[year][stable] for year in years}
    classes, codes = np.unique(labels[0, stable], return_inverse=True)
    groups = [table.groups[at[year]] for year, table in years.items() if table.groups is not None]
    data = LandCoverData(
        name=name,
        years=tuple(years),
        values=tuple(
            table.select(first.bands).values[at[year]].reshape(-1, first.realisations, len(first.bands))
            for year, table in years.items()
        ),
        codes=codes.reshape(-1),
        classes=tuple(str(c) for c in classes),
        bands=first.bands,
        groups=np.unique(groups[0], return_inverse=True)[1] if groups else None,
        notes=notes,
    )
    return checked(data)


def _identities(name: str, year: str, table: SampleTable, n_years: int) -> Array:
    """Identity of each pixel of a year; only several years need names."""
    if table.samples is None or n_years == 1:
        return np.arange(len(table))
    names, counts = np.unique(table.samples, return_counts=True)
    if (counts > 1).any():
        twice = names[counts > 1][0]
        raise ValueError(
            f"{name}: sample {twice} occurs {counts.max()} times in {year}; a pixel is known by its column "
            "'sample', once in each year"
        )
    return table.samples


def _rows_of(names: Array, wanted: Array) -> Array:
    order = np.argsort(names, kind="stable")
    return order[np.searchsorted(names[order], wanted)]


def _check_layers(years: Mapping[str, tuple[Sequence[str], int]], of: str = "") -> None:
    """Refuse years whose bands, or whose numbers of realisations, differ."""
    (year, (bands, count)), *others = years.items()
    for other, (its_bands, its_count) in others:
        differ = sorted({*its_bands} ^ {*bands})
        if differ:
            raise ValueError(
                f"{of}{year} and {other} differ in the bands {', '.join(differ)}; make both with the same, "
                "cubes by --bands"
            )
        if its_count != count:
            raise ValueError(
                f"{of}{year} has {count} realisations and {other} has {its_count}; make both with as many, "
                "cubes by --draws"
            )


def _check_alike(name: str, years: dict[str, SampleTable]) -> None:
    """Years have the same bands, as many realisations, the same classes, and pixels that can be matched."""
    _check_layers({year: (table.bands, table.realisations) for year, table in years.items()}, f"{name}: ")
    (year, first), *others = years.items()
    for other, table in others:
        unnamed = first.samples is None or table.samples is None
        if unnamed and len(first) != len(table):
            raise ValueError(
                f"{name}: {year} has {len(first)} pixels and {other} has {len(table)}, so that their order "
                "does not say which are the same; add a column 'sample' that names them"
            )
        if (first.samples is None) != (table.samples is None):
            raise ValueError(
                f"{name}: of {year} and {other} only one names its pixels in a column 'sample'; add it to "
                "both, or leave it out of both"
            )
        lonely = sorted({*table.classes.tolist()} ^ {*first.classes.tolist()})
        if lonely:
            where = year if lonely[0] in first.classes else other
            raise ValueError(
                f"{name}: class {lonely[0]!r} occurs in {where} only; a model cannot be tested on a class "
                "that one year lacks: remove it, or label it in both"
            )


def _stability_notes(first: int, common: int, stable: int, n_years: int) -> tuple[str, ...]:
    if n_years == 1:
        return ("one date only: training and test pixels are of the same date",)
    notes = [f"{stable:,} of {common:,} pixels have the same class in every year; the others are left out"]
    if common < first:
        notes.append(f"{first - common:,} pixels of the first year are missing from another")
    return tuple(notes)


def checked(data: LandCoverData) -> LandCoverData:
    """Refuse data that cannot be divided into training and test pixels of every class."""
    K, n = len(data.classes), data.pixels
    if K < 2:
        raise ValueError(f"{data.name} has {K} class; a classification needs at least 2")
    if round(0.1 * n) < K:
        raise ValueError(
            f"{data.name} has {n} usable pixels: 10 % of them, {round(0.1 * n)}, are for training, and there "
            f"are {K} classes; give at least {10 * K} pixels"
        )
    counts = np.bincount(data.codes, minlength=K)
    if counts.min() < 2:
        rare = data.classes[int(counts.argmin())]
        raise ValueError(
            f"{data.name}: class {rare!r} has {counts.min()} usable pixel; it needs at least 2, one for "
            "training and one for testing"
        )
    return data


def read_cubes_of_years(
    paths: Sequence[str | Path], labels: str | Path | None, class_field: str | None = None
) -> LandCoverData:
    """Cubes that `uncover realise` wrote, one for each year, which is called as its file is."""
    if labels is None:
        raise ValueError(f"{paths[0]} is a cube: say with --labels which file holds the labels of its pixels")
    rasters = {year_name(path): open_cube(path) for path in paths}
    return read_rasters(" and ".join(rasters), rasters, labels, class_field)


def embedded_scene(size: int, draws: int, seed: int) -> LandCoverData:
    """The embedded scene: simulated products of two years, each in worlds of drawn optical depths.

    Labels are those of `uncover labels` from the land cover maps of all years before, so that a pixel had the
    same class in all of them.
    """
    with tempfile.TemporaryDirectory() as folder:
        scene = write_scene(folder, LandscapeOptions(size=size, seed=seed))
        maps = [str(path) for path in dict.fromkeys(p for year in YEARS for p in scene.previous_maps(year))]
        options = pipeline.LabelOptions(scheme=scene.scheme)
        found = pipeline.collect_labels(maps, [f"{path}:2" for path in maps], options)
        labels = Path(folder) / "labels.tif"
        found.write(labels)
        rasters = {str(year): _realised(scene, year, draws, seed) for year in YEARS}
        return read_rasters("The embedded scene, which is simulated", rasters, labels)


def _realised(scene: SceneFiles, year: int, draws: int, seed: int) -> Worlds:
    """A year in the worlds that a user would draw, from what the product's data sheet says."""
    known = scene.facts["years"][str(year)]
    options = pipeline.RealiseOptions(
        aod=known["reported_aod"],
        draws=draws,
        method="mc",  # as in the paper
        seed=seed,
        water_vapour=known["water_vapour_cm"],
        ozone=known["ozone_du"],
    )
    return pipeline.realise_scene(open_scene(scene.product(year)), options)


def read_rasters(
    name: str, rasters: dict[str, Any], labels: str | Path, class_field: str | None = None
) -> LandCoverData:
    """Pixels that are labelled, and usable in every year: no cloud, shadow, snow or saturation in any.

    Labels that `uncover labels` collected over several years are of pixels whose class was the same in all.
    """
    (year, first), *others = rasters.items()
    for other, raster in others:
        if raster.grid != first.grid:
            raise ValueError(f"{year} and {other} are on different grids; make both of the same area")
    _check_layers({year: (raster.bands, _realisations(raster)) for year, raster in rasters.items()})
    codes, names = _codes_on(first, labels, class_field)
    read = [_labelled(raster, codes >= 0, first.bands) for raster in rasters.values()]
    usable = np.all([good for _, good in read], axis=0)
    if not usable.any():
        raise ValueError(
            f"none of the {usable.size:,} pixels that {labels} labels in {name} is usable in every year; "
            "labels must be of the place of the cubes, where these have no cloud, shadow or snow"
        )
    rows, cols = (at[usable] for at in np.nonzero(codes >= 0))
    present = np.unique(codes[rows, cols])
    kept = np.full_like(codes, -1)
    kept[rows, cols] = np.searchsorted(present, codes[rows, cols])
    block = rows // BLOCK * codes.shape[1] + cols // BLOCK
    return checked(
        LandCoverData(
            name=name,
            years=tuple(rasters),
            values=tuple(values[usable] for values, _ in read),
            codes=kept[rows, cols],
            classes=tuple(names[k] for k in present),
            bands=first.bands,
            groups=np.unique(block, return_inverse=True)[1],
            picture=Picture(_picture(first), kept.astype(np.int16)),
            notes=(
                f"{usable.sum():,} of {usable.size:,} labelled pixels are usable in every year",
                f"intervals draw blocks of {BLOCK} by {BLOCK} pixels",
            ),
        )
    )


def _realisations(raster: Worlds) -> int:
    return int(raster.read(Window(0, 0, 1, 1)).values.shape[0])


def _codes_on(
    raster: Worlds, labels: str | Path, class_field: str | None
) -> tuple[NDArray[np.intp], tuple[str, ...]]:
    """Place of each pixel's class among the names of the scheme, −1 where there is no label."""
    source = pipeline.open_labels(labels, None, class_field)
    here, cache = source.on(raster.grid), TileCache(_CACHE_BYTES)
    place = np.full(256, -1)
    place[list(source.scheme.codes)] = np.arange(len(source.scheme.names))
    codes = np.full(raster.grid.shape, -1)
    for window in raster.blocks():
        codes[window.slices] = place[here.labels(window, cache)]
    return codes, tuple(source.scheme.names)


def _labelled(
    raster: Worlds, wanted: NDArray[np.bool_], bands: Sequence[str]
) -> tuple[Array, NDArray[np.bool_]]:
    """Values of the wanted pixels by row and column, (pixel, realisation, band), and which are usable."""
    place = np.cumsum(wanted).reshape(wanted.shape) - 1
    count, good = int(wanted.sum()), np.zeros(int(wanted.sum()), bool)
    values = np.empty((count, _realisations(raster), len(bands)), np.float32)
    order = [raster.bands.index(band) for band in bands]
    for window in raster.blocks():
        here = wanted[window.slices]
        if here.any():
            block = raster.read(window)
            at = place[window.slices][here]
            values[at] = np.moveaxis(block.values[:, :, here], 2, 0)[:, :, order]
            good[at] = block.usable[here]
    return values, good


def _picture(raster: Worlds) -> Array:
    """The first realisation in natural colours, stretched; the first bands where it has no such."""
    bands = _TRUE_COLOUR if set(_TRUE_COLOUR) <= set(raster.bands) else (raster.bands * 3)[:3]
    at = [raster.bands.index(band) for band in bands]
    image = np.zeros((*raster.grid.shape, 3), np.float32)
    for window in raster.blocks():
        image[window.slices] = np.moveaxis(raster.read(window).values[0, at], 0, 2)
    low, high = np.nanquantile(image[::3, ::3], [0.01, 0.99], axis=(0, 1))
    return (255 * np.clip((image - low) / np.maximum(high - low, 1e-9), 0, 1)).astype(np.uint8)


def _refuse_product(path: str | Path) -> None:
    """A product has no realisations yet: say which command makes them."""
    from uncover.raster.safe import is_safe

    if Path(path).exists() and is_safe(path):
        taken = re.search(r"_(\d{4})\d{4}T\d{6}_", Path(path).name)
        cube = f"{taken.group(1) if taken else Path(path).stem}.zarr"
        raise ValueError(
            f"{path} is a Sentinel-2 product, and the study takes cubes of realisations; make one first: "
            f"uncover realise {path} --product-aod --draws 25 --out {cube}"
        )


def read_data(
    paths: Sequence[str | Path], labels: str | None = None, class_field: str | None = None
) -> LandCoverData:
    """Labelled pixels of a user's own files: tables, or a cube for each year with a file of labels."""
    for path in paths:
        _refuse_product(path)
    kinds = {is_table(path) for path in paths}
    if len(kinds) > 1:
        raise ValueError("--data mixes tables and cubes; give tables only, or cubes only")
    names = [year_name(path) for path in paths]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(
            f"--data has several files called {twice}; years are called after their files: rename one"
        )
    if kinds == {True}:
        if labels is not None:
            raise ValueError("--labels came with tables, whose classes are in a column; leave it out")
        return read_tables_of_years(paths, class_field)
    return read_cubes_of_years(paths, labels, class_field)
