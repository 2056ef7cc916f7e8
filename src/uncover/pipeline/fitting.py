"""From scenes and labels, or from sample tables, to a fitted model: one pass, batches into statistics."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.streams import stream
from uncover.estimators import BayesianQDA
from uncover.labels import Draw, Scheme, draw, load_translation
from uncover.pipeline.files import whole_or_nothing
from uncover.pipeline.label_sources import LabelSource, open_labels
from uncover.pipeline.tables import SampleTable, is_table, read_table
from uncover.raster.errors import SceneError
from uncover.raster.grid import Window
from uncover.raster.opening import open_scene
from uncover.raster.options import SceneOptions
from uncover.raster.scene import Scene
from uncover.raster.tiles import TileCache

Progress = Callable[[int, int], None]  # pixels done, pixels in all

_BLOCK = 1024
_BATCH_NUMBERS = 1 << 23  # float32 of one batch: 32 MiB


@dataclass(frozen=True)
class FitOptions:
    """What a model is fitted to, and how.

    labels, class_field, scheme
        Labels of scenes: a raster or a vector file with its field; translated by `scheme` where that is
        given. For sample tables `class_field` is the column of the class.
    scene
        How scenes are read: bands, area, scale and offset where metadata are silent.
    draw
        How many of the labelled pixels are used. Which ones depends on the labels and the seed alone: scenes
        of several years on one grid give the same pixels.
    prior, class_prior, realisations
        As in `BayesianQDA`.
    seed
        Decides the draw.
    """

    labels: str | Path | None = None
    class_field: str | None = None
    scheme: str | None = None
    scene: SceneOptions = field(default_factory=SceneOptions)
    draw: Draw = field(default_factory=Draw)
    prior: str = "weak"
    class_prior: float = 1.0
    realisations: str = "pooled"
    seed: int = 0


@dataclass(frozen=True)
class Batch:
    """Some labelled samples: values (sample, band) or (sample, realisation, band), and the class of each."""

    values: NDArray[Any]
    classes: NDArray[np.str_]


class Source(Protocol):
    """Anything that gives labelled samples batch by batch."""

    @property
    def name(self) -> str:
        """What it is called in messages and in the provenance of the model."""

    @property
    def bands(self) -> tuple[str, ...]:
        """Names of the features, in order."""

    @property
    def units(self) -> str | None:
        """Units of the values."""

    @property
    def drawn(self) -> dict[str, int]:
        """How many samples of each class were drawn, before clouds take theirs."""

    @property
    def size(self) -> int:
        """What progress counts up to."""

    def batches(self) -> Iterator[tuple[int, Batch]]:
        """Batches, each with the size that it covers."""


@dataclass(frozen=True)
class Training:
    """A fitted model with the record of what it was fitted to."""

    model: BayesianQDA
    units: str | None
    provenance: dict[str, Any]

    def save(self, path: str | Path) -> None:
        """Write the model file, whole or not at all."""
        with whole_or_nothing(path) as out:
            self.model.save(out, units=self.units, provenance=self.provenance)


def fit_model(
    sources: Sequence[str | Path], options: FitOptions | None = None, progress: Progress | None = None
) -> Training:
    """Fit `BayesianQDA` to labelled pixels of scenes and to sample tables; several add samples, not features.

    Reading is block by block, and only blocks that hold a drawn pixel are read; cloud, shadow, snow,
    saturation and nodata are left out. What is kept in memory is the statistics, and the drawn pixels'
    positions.
    """
    options = options or FitOptions()
    opened = _open_all(sources, options)
    classes = sorted({name for source in opened for name, n in source.drawn.items() if n})
    if len(classes) < 2:
        raise ValueError(
            f"the training samples are of {len(classes)} class ({', '.join(classes) or 'none'}); a "
            f"classifier needs at least two: check that the labels cover the scene"
        )
    model = BayesianQDA(
        prior=options.prior, class_prior=options.class_prior, realisations=options.realisations
    )
    used = _accumulate(model, opened, classes, progress)
    model.feature_names_in_ = np.array(opened[0].bands, dtype=object)
    units = {source.units for source in opened}
    return Training(model, units.pop() if len(units) == 1 else None, _provenance(opened, used, options))


def _open_all(sources: Sequence[str | Path], options: FitOptions) -> list[Source]:
    if not sources:
        raise ValueError("nothing to fit to: name at least one scene or sample table")
    opened: list[Source] = []
    for name in sources:
        bands = opened[0].bands if opened else options.scene.bands
        source = _table(name, bands, options) if is_table(name) else _scene(name, options)
        if opened and source.bands != opened[0].bands:
            raise ValueError(
                f"{source.name} has the bands {', '.join(source.bands)} and {opened[0].name} has "
                f"{', '.join(opened[0].bands)}; several scenes add samples, so they need the same bands "
                f"(--bands)"
            )
        if any(source.name == other.name for other in opened):
            raise ValueError(f"{source.name} is given twice; each scene or table counts once")
        opened.append(source)
    return opened


def _scene(name: str | Path, options: FitOptions) -> Source:
    if options.labels is None:
        raise ValueError(f"{name} is a scene: say with --labels which file holds the labels of its pixels")
    labels = open_labels(options.labels, options.scheme, options.class_field)
    return ScenePixels.of(open_scene(name, options.scene), labels, options)


def _table(name: str | Path, bands: Sequence[str] | None, options: FitOptions) -> Source:
    return TableRows.of(read_table(name, options.class_field, bands), options)


@dataclass(frozen=True)
class ScenePixels:
    """The drawn, labelled pixels of one scene."""

    scene: Scene
    scheme: Scheme
    codes: NDArray[np.uint8]  # (row, col), 0 where no sample is taken

    @classmethod
    def of(cls, scene: Scene, labels: LabelSource, options: FitOptions) -> ScenePixels:
        """Labels on the scene's grid, and the draw among them."""
        labels.check(scene.grid)
        codes = np.zeros(scene.grid.shape, np.uint8)
        cache = TileCache(64 * 1024 * 1024)
        for window in scene.grid.blocks(_BLOCK):
            codes[window.slices] = labels.labels(scene.grid, window, cache)
        if not codes.any():
            raise SceneError(
                f"{labels.name} has no label on scene {scene.identity} ({scene.grid.crs}, bounds "
                f"{scene.grid.bounds}); check that they show the same place"
            )
        codes[~draw(codes, options.draw, stream(options.seed, "draw"))] = 0
        return cls(scene, labels.scheme, codes)

    @property
    def name(self) -> str:
        """Identity of the scene: its datatake, or the user's own name."""
        return self.scene.identity

    @property
    def bands(self) -> tuple[str, ...]:
        """Bands of the scene."""
        return self.scene.bands

    @property
    def units(self) -> str | None:
        """Scenes are read as reflectance."""
        return "reflectance"

    @property
    def drawn(self) -> dict[str, int]:
        """Drawn pixels by class."""
        return {name: n for name, n in self.scheme.counts(self.codes).items() if n}

    @property
    def size(self) -> int:
        """Pixels of the scene."""
        return self.scene.grid.window.pixels

    def batches(self) -> Iterator[tuple[int, Batch]]:
        """Usable drawn pixels, block by block; blocks without any are not read."""
        names = np.array([c.name for c in self.scheme.classes])
        table = np.zeros(256, np.intp)
        table[list(self.scheme.codes)] = np.arange(len(names))
        for window in self.scene.blocks(_BLOCK):
            yield window.pixels, self._batch(window, names, table)

    def _batch(self, window: Window, names: NDArray[np.str_], table: NDArray[np.intp]) -> Batch:
        codes = self.codes[window.slices]
        if not codes.any():
            return Batch(np.empty((0, len(self.bands)), np.float32), np.empty(0, names.dtype))
        block = self.scene.read(window)
        where = (codes > 0) & block.usable
        return Batch(block.samples(where), names[table[codes[where]]])


@dataclass(frozen=True)
class TableRows:
    """The drawn samples of a table."""

    table: SampleTable

    @classmethod
    def of(cls, table: SampleTable, options: FitOptions) -> TableRows:
        """Classes translated where a scheme is given, and the draw among the samples."""
        classes = table.classes
        if options.scheme is not None:
            translation = load_translation(options.scheme)
            names = {c.code: c.name for c in translation.target.classes} | {0: ""}
            found, inverse = np.unique(classes, return_inverse=True)
            classes = np.array([names[translation.of_name(str(f))] for f in found])[inverse.ravel()]
        known, codes = np.unique(classes, return_inverse=True)
        labels = (codes.ravel() + 1).astype(np.uint8)
        if known.size > 254:
            raise ValueError(f"{table.name} has {known.size} classes; at most 254 are possible")
        labels[classes == ""] = 0
        taken = draw(labels, options.draw, stream(options.seed, "draw"))
        return cls(
            replace(table, values=table.values[taken], classes=classes[taken], dates=None, groups=None)
        )

    @property
    def name(self) -> str:
        """Name of the file, without its folder."""
        return self.table.name

    @property
    def bands(self) -> tuple[str, ...]:
        """Columns of measurements."""
        return self.table.bands

    @property
    def units(self) -> str | None:
        """A table does not say."""
        return None

    @property
    def drawn(self) -> dict[str, int]:
        """Drawn samples by class."""
        names, counts = np.unique(self.table.classes, return_counts=True)
        return {str(name): int(n) for name, n in zip(names, counts, strict=True)}

    @property
    def size(self) -> int:
        """Samples of the table."""
        return len(self.table)

    def batches(self) -> Iterator[tuple[int, Batch]]:
        """Samples in batches of bounded size."""
        per_sample = int(np.prod(self.table.values.shape[1:]))
        rows = max(1, _BATCH_NUMBERS // per_sample)
        edges = [*range(0, len(self.table), rows), len(self.table)]
        for start, stop in pairwise(edges):
            yield stop - start, Batch(self.table.values[start:stop], self.table.classes[start:stop])


def _accumulate(
    model: BayesianQDA, sources: Sequence[Source], classes: list[str], progress: Progress | None
) -> list[dict[str, int]]:
    """Fold all batches into the model; the number of samples that each source gave by class."""
    used = [dict.fromkeys(classes, 0) for _ in sources]
    waiting: Batch | None = None
    for batch in _large_batches(_counted(sources, used, progress)):
        if waiting is not None:
            _add(model, waiting, classes, last=False)
        waiting = batch
    _check_used(sources, used, classes)
    assert waiting is not None
    _add(model, waiting, classes, last=True)
    return used


def _counted(
    sources: Sequence[Source], used: list[dict[str, int]], progress: Progress | None
) -> Iterator[Batch]:
    """All batches that hold a sample, counted into `used` as they pass."""
    total, done = sum(source.size for source in sources), 0
    for source, counts in zip(sources, used, strict=True):
        for covered, batch in source.batches():
            done += covered
            if progress is not None:
                progress(done, total)
            for name, n in zip(*np.unique(batch.classes, return_counts=True), strict=True):
                counts[str(name)] += int(n)
            if len(batch.classes):
                yield batch


def _large_batches(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Small batches of one kind joined: a model has to be able to make sense of the first one alone."""
    held: list[Batch] = []
    for batch in batches:
        if held and (
            held[0].values.shape[1:] != batch.values.shape[1:]
            or sum(b.values.size for b in held) >= _BATCH_NUMBERS
        ):
            yield _joined(held)
            held = []
        held.append(batch)
    if held:
        yield _joined(held)


def _joined(batches: list[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    return Batch(np.concatenate([b.values for b in batches]), np.concatenate([b.classes for b in batches]))


def _add(model: BayesianQDA, batch: Batch, classes: list[str], *, last: bool) -> None:
    """Add a batch; what the model has to warn of is known with the last one only."""
    with warnings.catch_warnings():
        if not last:
            warnings.simplefilter("ignore", UserWarning)
        model.partial_fit(batch.values, batch.classes, classes=classes)


def _check_used(sources: Sequence[Source], used: list[dict[str, int]], classes: list[str]) -> None:
    empty = [name for name in classes if not any(counts[name] for counts in used)]
    if empty:
        drawn = sum(source.drawn.get(empty[0], 0) for source in sources)
        raise ValueError(
            f"class {empty[0]!r} has {drawn} labelled pixels and none of them is usable (cloud, shadow, "
            f"snow, saturation or nodata); add a scene that shows it, or leave the class out of the labels"
        )


def _provenance(sources: Sequence[Source], used: list[dict[str, int]], options: FitOptions) -> dict[str, Any]:
    """What the model was fitted to: names and counts; no path, no clock."""
    schemes = [source.scheme.as_dict() for source in sources if isinstance(source, ScenePixels)]
    return {
        "sources": [
            {"name": source.name, "drawn": source.drawn, "used": {k: v for k, v in counts.items() if v}}
            for source, counts in zip(sources, used, strict=True)
        ],
        "labels": None if options.labels is None else Path(options.labels).name,
        "scheme": schemes[0] if schemes else None,
        "draw": {
            "fraction": options.draw.fraction,
            "count": options.draw.count,
            "allocation": options.draw.allocation,
            "seed": options.seed,
        },
    }
