"""Pixels of a scene, read again along some of its lines: their stories, and a sample of the labelled ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover import progress
from uncover.measurement.pooled import AnySummariser
from uncover.pipeline.label_sources import LabelsOnGrid
from uncover.pipeline.map_product import Floats, Lines, MapProduct, block_means, crossing
from uncover.pipeline.map_styles import band_reader, pictured_bands, stretched
from uncover.raster.grid import Window
from uncover.raster.observed import ObservedScene, PlainScene, StoredWorlds
from uncover.raster.quality import INCOMPLETE, UNUSABLE, Quality, without
from uncover.raster.series import SceneSeries
from uncover.raster.tiles import TileCache

#: Pixels with a story, at most; and numbers of realisations in all of them, at most.
_MOST, _MOST_NUMBERS = 4096, 1_100_000
#: Labelled pixels of each class that are looked at.
_OF_EACH = 500


@dataclass(frozen=True)
class Spectra:
    """Measurements of the pixels with a story: (row, col, …) over the lattice, NaN where there are none."""

    mean: Floats  # (row, col, band), over realisations
    realisations: Floats  # (row, col, realisation, band); one realisation where there is no more
    deviation: Floats | None  # (row, col, band), standard deviation of known noise
    worlds: NDArray[np.uint8] | None  # (row, col, world), number of the class from 1, 0 for none


@dataclass(frozen=True)
class Stories:
    """Layers of the map and measurements at each pixel of a lattice."""

    rows: Lines
    cols: Lines
    classes: NDArray[np.uint8]  # (row, col), number from 1, 0 for none
    probability: Floats  # (class, row, col)
    uncertainty: Floats  # (part, row, col), parts of UNCERTAINTY, then "unknown" where the map has it
    quality: NDArray[np.uint16]  # (row, col)
    spectra: Spectra | None = None


@dataclass(frozen=True)
class LabelledSample:
    """Values of labelled pixels (pixel, band), averaged over realisations, and the number of their class."""

    values: Floats
    classes: NDArray[np.uint8]


def choose(product: MapProduct, evidence: ObservedScene | None) -> tuple[Lines, Lines]:
    """Rows and columns of the lattice: fewer pixels where each has more numbers."""
    each = 1 if evidence is None else evidence.realisations * len(evidence.bands)
    return crossing(product.grid.shape, max(100, min(_MOST, _MOST_NUMBERS // each)))


def read_stories(product: MapProduct, rows: Lines, cols: Lines, uncertainty: tuple[str, ...]) -> Stories:
    """Stories from the layers of the map alone."""
    return Stories(
        rows,
        cols,
        product.numbered(product.pixels("class", rows, cols)),
        product.pixels("probability", rows, cols),
        np.stack([product.pixels(name, rows, cols) for name in uncertainty]),
        product.pixels("quality", rows, cols).astype(np.uint16),
    )


def read_spectra(
    evidence: ObservedScene,
    rows: Lines,
    cols: Lines,
    labels: LabelsOnGrid | None,
    summariser: AnySummariser | None,
) -> tuple[Spectra, LabelledSample | None]:
    """Read the lines of the lattice: all realisations where rows and columns cross, and labelled pixels."""
    R, p = evidence.realisations, len(evidence.bands)
    values = np.full((len(rows), len(cols), R, p), np.nan, np.float32)
    deviation = np.full((len(rows), len(cols), p), np.nan, np.float32)
    labelled: list[tuple[Floats, NDArray[np.uint8]]] = []
    cache = TileCache(64 << 20)
    windows = list(_windows(evidence, rows))
    for number, window in enumerate(windows):
        progress.step("reading pixels", number, len(windows))
        reading = evidence.read(window)
        quality = reading.quality
        for at in np.flatnonzero((rows >= window.row) & (rows < window.row + window.height)):
            inside = (cols >= window.col) & (cols < window.col + window.width)
            line = int(rows[at]) - window.row
            complete = without(quality[line], INCOMPLETE)
            mine = np.flatnonzero(inside)[complete[cols[inside] - window.col]]
            where = line * window.width + cols[mine] - window.col
            for part in reading.parts(where):
                pixels = reading.pixels(part)
                places = mine[np.searchsorted(where, part)]
                places = places if pixels.known is None else places[pixels.known]
                values[at, places] = np.moveaxis(pixels.realised(), 2, 0)  # (pixel, realisation, band)
                if pixels.noise is not None:
                    deviation[at, places] = np.sqrt(pixels.noise.variances())
            if labels is not None:
                here = labels.labels(Window(int(rows[at]), window.col, 1, window.width), cache)[0]
                taken = np.flatnonzero((here > 0) & without(quality[line], UNUSABLE))
                for part in reading.parts(line * window.width + taken):
                    pixels = reading.pixels(part)
                    kept = part if pixels.known is None else part[pixels.known]
                    labelled.append((pixels.realised().mean(axis=0).T, here[kept - line * window.width]))
    spectra = Spectra(
        mean=values.mean(axis=2),
        realisations=values,
        deviation=deviation if np.isfinite(deviation).any() else None,
        worlds=None if summariser is None else _worlds(values, summariser),
    )
    return spectra, _sample(labelled) if labelled else None


def _windows(evidence: ObservedScene, rows: Lines) -> Iterator[Window]:
    """Single lines; whole chunks of a cube, which are decoded as a whole whatever is wanted of them."""
    if not isinstance(evidence, StoredWorlds):
        yield from (Window(int(row), 0, 1, evidence.grid.width) for row in rows)
        return
    for window in evidence.cube.blocks():
        if ((rows >= window.row) & (rows < window.row + window.height)).any():
            yield window


def _worlds(values: Floats, summariser: AnySummariser) -> NDArray[np.uint8]:
    """Number of the model's class from 1 in each world, (row, col, world); 0 where nothing was measured."""
    known = np.isfinite(values).all(axis=(2, 3))
    pixels = values[known]  # (pixel, realisation, band)
    if not len(pixels):
        return np.zeros(values.shape[:3], np.uint8)
    classes = summariser.summarise(np.moveaxis(pixels, 0, 2)).world_classes.T
    found = np.zeros((*known.shape, classes.shape[1]), np.uint8)  # of another scene more than realisations
    found[known] = classes + 1
    return found


def _sample(labelled: list[tuple[Floats, NDArray[np.uint8]]]) -> LabelledSample:
    """Some pixels of each class, evenly chosen."""
    values, classes = (np.concatenate(part) for part in zip(*labelled, strict=True))
    kept = [np.flatnonzero(classes == code) for code in np.unique(classes)]
    kept = [mine[np.linspace(0, len(mine) - 1, min(len(mine), _OF_EACH)).astype(int)] for mine in kept]
    chosen = np.concatenate(kept)
    return LabelledSample(values[chosen], classes[chosen])


def quality_words(bits: int) -> list[str]:
    """Names of the bits that are set, as words.

    >>> quality_words(320)
    ['outside domain', 'low margin']
    """
    return [str(bit.name).lower().replace("_", " ") for bit in Quality if bits & bit]


def natural_colours(evidence: ObservedScene, step: int) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    """The scene as people would see it, one pixel for step × step, and the bands in red, green and blue."""
    evidence = pictured(evidence)
    bands = pictured_bands(evidence.bands)
    grid = evidence.grid
    picture = np.full((3, -(-grid.height // step), -(-grid.width // step)), np.nan, np.float32)
    size = step * max(1, 512 // step)
    read = scene_reader(evidence, bands)
    windows = list(grid.blocks(size))
    for number, window in enumerate(windows):
        progress.step("reading pictures", number, len(windows))
        values = read(window)
        part = block_means(values, step)
        top, left = window.row // step, window.col // step
        picture[:, top : top + part.shape[1], left : left + part.shape[2]] = part
    return stretched(picture), bands


def pictured(evidence: ObservedScene) -> ObservedScene:
    """The scene to be shown: of a series one of its dates."""
    series = evidence.own_scene
    if isinstance(series, SceneSeries):
        return PlainScene(series.pictured() or series.scenes[0])
    return evidence


def scene_reader(evidence: ObservedScene, bands: tuple[str, ...]) -> Any:
    """Reader of three bands of a window, (3, row, col), of the measured scene or the mean of a cube."""
    if isinstance(evidence, StoredWorlds):
        places = [evidence.cube.bands.index(band) for band in bands]
        return lambda window: evidence.cube.read(window).values[:, places].mean(axis=0)
    return band_reader(evidence.scene, bands)  # type: ignore[attr-defined]
