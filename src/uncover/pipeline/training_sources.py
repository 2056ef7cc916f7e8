"""Sources of training samples, read batch by batch: pixels of scenes and cubes, sample cubes, tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.covariances import Covariances
from uncover.bayes.streams import stream
from uncover.labels import Draw, Scheme, Translation, autocorrelation_length, draw, load_translation
from uncover.labels.scheme import one_spelling
from uncover.measurement.band_files import read_band_uncertainty
from uncover.measurement.band_uncertainty import BandUncertainty
from uncover.measurement.bands import canonical_band, is_sentinel2
from uncover.measurement.features import Features
from uncover.measurement.quantity import named_effects
from uncover.pipeline.file_kinds import check_scene
from uncover.pipeline.ground import (
    Blocks,
    Groups,
    Squares,
    choose_blocks,
    first_number,
    numbered,
    pixel_metres,
)
from uncover.pipeline.label_sources import (
    Certainty,
    ClassChoice,
    LabelDoubt,
    LabelSource,
    numbered_scheme,
    open_labels,
)
from uncover.pipeline.scene_sources import SourceOptions, observe
from uncover.pipeline.series_sources import series_to_fit, with_formulas
from uncover.pipeline.tables import GROUP_COLUMNS, SampleTable, is_table, read_table
from uncover.raster.align import RasterBand
from uncover.raster.area import Area
from uncover.raster.cluster import computed
from uncover.raster.cube import Cube, CubeBlock, is_zarr, open_cube, stated_features, zarr_kind
from uncover.raster.errors import OffsetWarning, SceneError
from uncover.raster.fingerprints import content_identity
from uncover.raster.grid import Grid, Window
from uncover.raster.loose_files import SceneSource, gathered, source_name
from uncover.raster.observed import ObservedScene, SceneWithNoise, SceneWithWorlds, StoredWorlds
from uncover.raster.opening import open_scene
from uncover.raster.points import is_points, point_dates
from uncover.raster.quality import CLEAR, FLAGGED, INCOMPLETE, Quality, reasons, without
from uncover.raster.realised import RealisedScene
from uncover.raster.samples import Samples, open_samples
from uncover.raster.scene import Block, Scene, SceneOptions
from uncover.raster.series import RealisedSeries, SceneSeries
from uncover.raster.stack import near_offset
from uncover.raster.tiles import TileCache
from uncover.raster.uncertainty import (
    about_file,
    band_records,
)
from uncover.raster.world_noise import WorldNoise
from uncover.warn import warn

#: Numbers of one batch that is worth a call: 32 MiB of float32.
BATCH_NUMBERS = 1 << 23

_BLOCK = 1024
#: Typical values above this are not reflectance.
_BRIGHTEST = 2.0
#: Samples of a source that the recommended model takes where nothing is asked for: more cost memory and
#: time, and its members learn little from them; and of a class at least, as far as it has so many.
MOST_DRAWN, LEAST_DRAWN = 50_000, 500


@dataclass(frozen=True)
class FitOptions(SourceOptions):
    """Options of a fit: training data and model; how scenes are read is in `SourceOptions`.

    labels, class_field, scheme
        Labels of scenes: a raster or a vector file with its field; translated by `scheme` where that is
        given. For sample tables `class_field` is the column of the class.
    ignore, classes
        Values that are no class; (value, name) of those that are, others then being none.
    pixel_purity
        Share of a pixel that its label covers at least, where a label raster is finer than the scene; the
        label of most of a pixel counts.
    draw
        How many of the labelled pixels are used. Which ones depends on the labels and the seed alone: scenes
        of several years on one grid give the same pixels. Where nothing is asked for, "recommended" takes at
        most `MOST_DRAWN` of each source, by their shares, and of a rare class at least `LEAST_DRAWN`.
    model
        "recommended" (`BayesianClassifier`, which has no prior and calibrates itself), "published" or "qda"
        (the published method), "lda", "nb" or "mda" (classes of several parts).
    prior, class_prior, realisations, calibration
        As in `BayesianQDA`; without a prior it is the model's own, "evidence" for "mda", which is always
        calibrated. Class shares by name stand in the place of those of the training samples.
    coverage
        Make sets of classes that hold the true one with this probability; part of the samples is kept from
        the model for that.
    block
        Side in metres of squares whose pixels belong together: calibration and the final check leave them
        out together, and sets keep them together. By default the range of the labels' autocorrelation; 0 for
        single pixels. Tables and sample cubes have a column `group`, `polygon` or `block` for it.
    buffer
        Metres: pixels nearer to another square train the model, but do not count where they are left out or
        kept. By default the autocorrelation length of the labels, at most a quarter of a block.
    seed
        Decides the draw, and which samples are kept.
    doubt
        What is known of wrong labels.
    as_features
        Scenes of several dates of one place are features of one sample, not further samples.
    scheduler
        Address of a dask.distributed scheduler whose workers read the pixels; they see the same files.
    """

    labels: str | Path | None = None
    class_field: str | None = None
    scheme: str | None = None
    ignore: tuple[str, ...] = ()
    classes: tuple[tuple[str, str], ...] = ()
    pixel_purity: float = 0.0
    draw: Draw = field(default_factory=Draw)
    model: str = "recommended"
    prior: str | None = None
    class_prior: float | Mapping[str, float] = 1.0
    realisations: str = "pooled"
    calibration: str | None = None
    coverage: float | None = None
    block: float | None = None
    buffer: float | None = None
    seed: int = 0
    doubt: LabelDoubt = field(default_factory=LabelDoubt)
    as_features: bool = False
    scheduler: str | None = None

    def __post_init__(self) -> None:
        if self.model == "published":
            object.__setattr__(self, "model", "qda")
        if self.block is not None and self.block < 0:
            raise ValueError(f"--block is {self.block:g}; give metres, or 0 to leave out single pixels")
        if self.buffer is not None and self.block == 0:
            raise ValueError("--buffer is between blocks, and --block 0 makes none: leave one of them out")


@dataclass(frozen=True)
class Stated:
    """Stated covariance of the errors that all samples of a source share, and its record."""

    record: dict[str, Any]
    systematic: NDArray[np.float64] | None = None  # (band, band), the source's own
    common: dict[str, NDArray[np.float64]] = field(default_factory=dict)  # the same in all scenes, by name
    noise: bool = True  # whether samples have covariances, or an error in common, that are no worlds

    def facts(self) -> dict[str, Any]:
        """Plain values for the provenance of a model."""
        shared = None if self.systematic is None else self.systematic.tolist()
        common = {name: matrix.tolist() for name, matrix in self.common.items()}
        return {**self.record, "systematic": shared, **({"common": common} if common else {})}


@dataclass(frozen=True)
class Batch:
    """Some labelled samples: values (sample, band) or (sample, realisation, band), and the class of each."""

    values: NDArray[Any]
    classes: NDArray[np.str_]
    groups: Groups | None = None  # (sample,), which belong together
    covariances: Covariances | None = None  # of the random errors of each sample, where they are stated
    sure: NDArray[np.float64] | None = None  # (sample,), probability that the class is right
    inner: NDArray[np.bool_] | None = None  # (sample,), which are far from other groups; all where None
    lost: Mapping[str, int] = field(default_factory=dict)  # drawn pixels that are not used, by the reason

    def take(self, mask: NDArray[np.bool_] | slice) -> Batch:
        """Some of the samples."""

        def some(part: Any) -> Any:
            return None if part is None else part[mask]

        return Batch(**{f.name: some(getattr(self, f.name)) for f in fields(self) if f.name != "lost"})


def whole_in_worlds(batch: Batch) -> Batch:
    """Leave out samples of several realisations that lack a feature, and count them: no fit takes both."""
    if batch.values.ndim == 2:
        return batch
    whole = np.isfinite(batch.values).all(axis=(1, 2))
    if whole.all():
        return batch
    lost = {**batch.lost, "some dates are missing": int((~whole).sum())}
    return replace(batch.take(whole), lost=lost)


@dataclass(frozen=True, kw_only=True)
class TrainingSource:
    """Labelled samples of a scene, a cube or a table, of which some are drawn; read batch by batch.

    Attributes
    ----------
    name : of the scene, or of the file
    features : physical meaning of the values, as far as somebody states it
    drawn : samples of each class
    available : labelled samples, drawn or not
    size : samples or pixels that are read, labelled or not
    stated : errors that the samples share
    calibrated_by : who states scale and offset of the numbers
    columns : those of a table by their use, for the provenance of a model
    place : grid of pixels; two tiles of one datatake have one identity
    """

    name: str
    bands: tuple[str, ...]
    features: Features
    drawn: Mapping[str, int]
    available: int
    size: int
    scheme: Scheme | None = None
    units: str | None = None
    stated: Stated | None = None
    calibrated_by: str = "metadata"
    columns: Mapping[str, Any] | None = None
    place: Grid | None = None

    @property
    def identity(self) -> str:
        """Identity, which another source may share only at another place."""
        raise NotImplementedError

    def batches(self) -> Iterator[tuple[int, Batch]]:
        """Drawn samples, batch by batch, each with the part of `size` that it covers."""
        raise NotImplementedError


def open_sources(sources: Sequence[str | Path], options: FitOptions) -> list[TrainingSource]:
    """Open all of them; they must have the same bands, and none may be there twice."""
    if not sources:
        raise ValueError("nothing to fit to: name at least one scene or sample table")
    opened: list[TrainingSource] = []
    if options.as_features:
        opened = [_series(gathered(sources), options)]
    elif options.dates is not None:
        raise ValueError("--dates came without --as features, whose dates it names; give that too")
    for name in [] if options.as_features else gathered(sources):
        bands = opened[0].bands if opened else options.scene.bands
        if isinstance(name, str) and is_table(name):
            source: TrainingSource = TableRows.open(Path(name), bands, options)
        else:
            source = _raster(name, options)
        if opened and source.bands != opened[0].bands:
            raise ValueError(
                f"{source.name} has the bands {', '.join(source.bands)} and {opened[0].name} has "
                f"{', '.join(opened[0].bands)}; several scenes add samples, so they need the same bands "
                f"(--bands)"
            )
        # Tiles of one datatake have one identity: it is the place that tells them apart.
        if any((source.identity, source.place) == (other.identity, other.place) for other in opened):
            raise ValueError(f"{source.name} is given twice; each scene or table counts once")
        opened.append(source)
    _check_use(opened, options)
    _check_stated(opened)
    return opened


def _check_stated(opened: Sequence[TrainingSource]) -> None:
    """Refuse one systematic covariance for several scenes, each of which has an error of its own."""
    shared = [s for s in opened if s.stated is not None and s.stated.systematic is not None]
    if shared and len(opened) > 1:
        raise ValueError(
            f"--uncertainty has systematic effects and {len(opened)} scenes or tables came, whose errors are "
            "not one; fit a model to one of them, or say --between-scenes common where they share the error"
        )


def _check_use(opened: Sequence[TrainingSource], options: FitOptions) -> None:
    """Refuse options that none of the sources takes."""
    scene, pixels = options.scene, [source for source in opened if isinstance(source, LabelledPixels)]
    if options.features is not None and any(
        not isinstance(s, LabelledPixels) or isinstance(s.raster, Cube) for s in opened
    ):
        raise ValueError(
            "--features computes features of scenes; tables and cubes have theirs: leave it out, or give "
            "scenes"
        )
    if not pixels:
        words = {"labels": options.labels, "bbox": scene.bbox, "aoi": scene.aoi, "block": options.block}
        chosen = {} if options.mask_classes == FLAGGED else {"mask-classes": options.mask_classes}
        _refuse("scene or cube", **words, **chosen)
    if options.doubt.probability is not None and len(pixels) < len(opened):
        raise ValueError("--label-probability is a raster, for scenes and cubes; tables have no place on it")
    if all(isinstance(source.raster, Cube) for source in pixels):
        words = {"mask": scene.mask, "scene-id": scene.scene_id}
        words |= {"cloud-probability": scene.cloud_probability, "mask-buffer": scene.mask_buffer or None}
        if not any(isinstance(source, TableRows) for source in opened):
            words |= {"scale": scene.scale, "offset": scene.offset}
        _refuse("scene", aod=options.realise, **words)


def _refuse(needed: str, **given: Any) -> None:
    came = ", ".join(f"--{name}" for name, value in given.items() if value is not None)
    if came:
        raise ValueError(f"{came} came, and no {needed} to use it on; name one, or leave it out")


def _series(names: Sequence[str | tuple[str, ...]], options: FitOptions) -> LabelledPixels:
    """The labelled pixels of scenes of several dates, each a sample with the features of all dates."""
    for name in names:
        if isinstance(name, str) and (is_table(name) or (is_zarr(name) and zarr_kind(name) != "scene")):
            raise ValueError(
                f"{name} is no scene; --as features takes scenes of several dates of one place: a table has "
                "its features in its columns, and cubes are made of one scene"
            )
        if isinstance(name, str):
            check_scene(name, "uncover fit --as features takes scenes")
    series = series_to_fit(names, options.scene, options.dates, options.features, options.mask_classes)
    observed = observe(series, options)
    return LabelledPixels.of(observed, observed.identity, _labels(observed.identity, options), options)


def _one_scene(name: SceneSource, options: FitOptions) -> ObservedScene:
    """A scene with its uncertainty, and with computed features where they are asked for."""
    scene = open_scene(name, options.scene)
    if options.features is None:
        return observe(scene, options)
    return observe(with_formulas(scene, name, options.features, options.scene, options.mask_classes), options)


def _raster(name: SceneSource, options: FitOptions) -> TrainingSource:
    if not isinstance(name, str | Path):
        observed = _one_scene(name, options)
        return LabelledPixels.of(observed, observed.identity, _labels(source_name(name), options), options)
    kind = zarr_kind(name) if is_zarr(name) else "scene"
    if options.uncertainty is not None and kind != "scene":
        raise ValueError(
            f"{name} has its uncertainty in its realisations; leave out --uncertainty, or give the scene"
        )
    if kind == "samples":
        return SampleCubeRows.of(open_samples(name), options)
    if kind == "cube":
        observed = StoredWorlds(replace(open_cube(name), level=options.scene.level))
    else:
        check_scene(name, "uncover fit takes scenes, cubes and tables of samples")
        observed = _one_scene(name, options)
    return LabelledPixels.of(observed, observed.identity or Path(name).name, _labels(name, options), options)


def _labels(name: str | Path, options: FitOptions) -> LabelSource:
    if options.labels is None:
        raise ValueError(f"{name} is a scene: say with --labels which file holds the labels of its pixels")
    choice = ClassChoice(options.ignore, options.classes)
    return open_labels(options.labels, options.scheme, options.class_field, options.pixel_purity, choice)


def _warn_of_table_offset(table: SampleTable) -> None:
    """Say where the lowest values of most bands lie near the offset of a product."""
    values = table.values.reshape(-1, len(table.bands))
    if len(table.bands) < 4 or not all(map(is_sentinel2, table.bands)):
        return
    dark, unit = np.percentile(values, 0.5, axis=0), 10_000.0 if np.median(values) > _BRIGHTEST else 1.0
    if near := near_offset(dark, unit):
        warn(
            f"{table.name}: the lowest values of {near} of {dark.size} columns lie near {0.1 * unit:g}, as "
            "if the offset of Sentinel-2 from baseline 04.00 on had been left in; give --offset "
            f"{-0.1 * unit:g}, or --offset 0 if the values are right",
            OffsetWarning,
        )


def _of_table(table: SampleTable, options: FitOptions) -> tuple[BandUncertainty, Stated] | tuple[None, None]:
    """Uncertainty of a table's columns by their names, and what its samples share of it, at their values."""
    if options.uncertainty is None:
        return None, None
    path, how = Path(options.uncertainty), options.uncertainty_options
    if path.suffix.lower() not in (".csv", ".json"):
        raise ValueError(
            f"{path.name} lies on a grid, and {table.name} is a table; give a CSV or JSON of bands"
        )
    if table.values.ndim == 3:
        raise ValueError(f"{table.name} has its uncertainty in its realisations; leave out --uncertainty")
    found, about = read_band_uncertainty(path, table.bands, **how.of_bands()), about_file(path, "bands")
    record = {"source": "stated uncertainty", **about, "quantities": band_records(found, about)}
    return found, Stated(record, found.systematic(table.values), found.common(table.values))


@dataclass(frozen=True, kw_only=True)
class LabelledPixels(TrainingSource):
    """The drawn, labelled pixels of one scene or cube."""

    observed: ObservedScene
    codes: NDArray[np.uint8]  # (row, col), 0 where no sample is taken
    blocks: Blocks | None  # squares of pixels that belong together
    certainty: Certainty | None
    masked: Quality  # pixels with any of these bits are not used
    scheduler: str | None = None  # whose workers read

    @property
    def raster(self) -> Scene | Cube | RealisedScene | SceneSeries:
        """Source of the values."""
        return self.observed.raster

    @property
    def identity(self) -> str:
        """Identity of the scene or cube."""
        return self.raster.source_id

    @classmethod
    def of(
        cls, observed: ObservedScene, name: str, labels: LabelSource, options: FitOptions
    ) -> LabelledPixels:
        """Labels on the raster's grid, and the draw among them."""
        grid, raster, scene = observed.grid, observed.raster, observed.own_scene
        own = None if isinstance(raster, SceneSeries) else options.scene.bands
        bands = tuple(canonical_band(band) for band in own or observed.bands)
        if missing := [band for band in bands if band not in raster.bands]:
            raise SceneError(f"{name} has no band {', '.join(missing)}; it has {', '.join(raster.bands)}")
        codes = _codes_on(grid, labels)
        if isinstance(observed, StoredWorlds):
            _blank_outside(codes, grid, options.scene)
        if not codes.any():
            raise SceneError(
                f"{labels.name} has no label on {name}, whose bounds are {grid.bounds} ({grid.crs}); check "
                f"that they show the same place"
            )
        if observed.sensing_time is not None and is_points(labels.name):
            _warn_of_years(labels.name, observed.sensing_time.year)
        available, length = int(np.count_nonzero(codes)), autocorrelation_length(codes, pixel_metres(grid))
        codes[~_drawn(codes, options)] = 0
        doubt = options.doubt
        sure = None if doubt.probability is None else RasterBand.open(doubt.probability)
        return cls(
            name=name,
            bands=bands,
            features=raster.features.chosen(bands),
            drawn={name: n for name, n in labels.scheme.counts(codes).items() if n},
            available=available,
            size=grid.window.pixels,
            scheme=labels.scheme,
            units="reflectance",
            stated=_stated_errors(observed),
            calibrated_by="metadata" if scene is None else scene.calibrated_by,
            place=grid,
            observed=observed,
            codes=codes,
            blocks=choose_blocks(codes, grid, length, options.block, options.buffer),
            certainty=None if sure is None else Certainty.on(grid, sure, doubt.scale),
            masked=options.mask_classes,
            scheduler=options.scheduler,
        )

    @property
    def _noise(self) -> WorldNoise | None:
        """Errors of single pixels beside those of the worlds."""
        return self.observed.noise if isinstance(self.observed, SceneWithWorlds) else None

    @property
    def _left_out(self) -> Quality:
        """Quality bits of pixels that are not used; pixels of a series may lack some of its dates."""
        gaps = Quality.PARTIAL if isinstance(self.raster, SceneSeries) and not self.raster.single else CLEAR
        return (INCOMPLETE | self.masked) & ~gaps

    def batches(self) -> Iterator[tuple[int, Batch]]:
        """Usable drawn pixels, block by block; blocks without any are not read."""
        windows = list(self.raster.blocks())
        labelled = ((w, self.codes[w.slices]) for w in windows if self.codes[w.slices].any())
        reader = replace(self, codes=self.codes[:0])  # what workers are sent has no labels but the block's
        found = computed(reader.samples_of, labelled, self.scheduler)
        none = Batch(np.empty((0, len(self.bands)), np.float32), np.empty(0, np.str_))
        for window in windows:
            yield window.pixels, next(found) if self.codes[window.slices].any() else none

    def samples_of(self, part: tuple[Window, NDArray[np.uint8]]) -> Batch:
        """Usable samples of a window, of which the codes of the labels come with it."""
        assert self.scheme is not None
        names, (window, codes) = np.array(self.scheme.names), part
        table = np.zeros(256, np.intp)
        table[list(self.scheme.codes)] = np.arange(len(names))
        at = [self.raster.bands.index(band) for band in self.bands]
        block = self.raster.read(window)
        where, noise = (codes > 0) & without(block.quality, self._left_out), None
        lost = reasons(block.quality[(codes > 0) & ~where], self.masked)
        sure = None if self.certainty is None else self.certainty.read(window)
        if sure is not None:  # of a label without a probability nothing is known
            where = where & np.isfinite(sure)
        if isinstance(self.observed, SceneWithNoise) and isinstance(block, Block):
            known = self.observed.uncertainty.read(window, block.reflectance, where)
            where, noise = known.valid, known.covariances
        elif isinstance(block, CubeBlock) and self._noise is not None:
            known = self._noise.read(window, block.values.mean(axis=0), where)
            where, noise = known.valid, known.covariances
        values, groups, inner = block.samples(where)[..., at], None, None
        if self.blocks is not None:
            squares = Squares.of(self.raster.grid, self.blocks.side)
            # Scenes of one grid, such as those of several years, have the same squares.
            groups = first_number(f"{self.raster.grid}") + squares.numbers(window)[where]
            inner = squares.inner(window, self.blocks.buffer)[where]
        sure = None if sure is None else sure[where]
        return whole_in_worlds(Batch(values, names[table[codes[where]]], groups, noise, sure, inner, lost))


def _codes_on(grid: Grid, labels: LabelSource) -> NDArray[np.uint8]:
    """Codes of labels on a grid, (row, col)."""
    here, codes, cache = labels.on(grid), np.zeros(grid.shape, np.uint8), TileCache()
    for window in grid.blocks(_BLOCK):
        codes[window.slices] = here.labels(window, cache)
    return codes


def _stated_errors(observed: ObservedScene) -> Stated | None:
    """Stated errors; or the draws that made the worlds, and the quantities, where they are recorded."""
    if isinstance(observed, SceneWithNoise):
        found = observed.uncertainty
        return Stated({"source": "stated uncertainty", **found.facts()}, found.systematic, found.common)
    raster = observed.raster
    if not isinstance(raster, Cube | RealisedScene | RealisedSeries):
        return None
    drawn = raster.attributes.get("quantities") if isinstance(raster, Cube) else raster.quantities
    quantities = [dict(each) for each in drawn or ()]
    record: dict[str, Any] = {"source": named_effects(raster.worlds) if quantities else "cube"}
    beside = observed.noise if isinstance(observed, SceneWithWorlds) else None
    if beside is not None:
        quantities += beside.facts()["quantities"]
    record |= {"quantities": quantities, "worlds": raster.worlds}
    return Stated(record, None if beside is None else beside.systematic, noise=beside is not None)


def _warn_of_years(name: str, year: int) -> None:
    """Say how many points were seen in other years than the scene."""
    dates = point_dates(name)
    others = sum(not date.startswith(str(year)) for date in dates)
    if others:
        warn(
            f"{others} of {len(dates)} points of {name} are of other years than the scene ({year}); leave "
            "them out where the land changed",
        )


def _drawn(labels: NDArray[np.uint8], options: FitOptions) -> NDArray[np.bool_]:
    """Mask of the labelled pixels or samples that are used."""
    how, rng = options.draw, stream(options.seed, "draw")
    asked = how.fraction is not None or how.count is not None
    if asked or options.model != "recommended" or np.count_nonzero(labels) <= MOST_DRAWN:
        return draw(labels, how, rng)
    some = draw(labels, replace(how, count=MOST_DRAWN), rng)
    for code in np.unique(labels[labels > 0]):
        lacking = LEAST_DRAWN - np.count_nonzero(some & (labels == code))
        if lacking > 0:
            others = np.flatnonzero((labels == code) & ~some)
            some.ravel()[rng.permutation(others)[:lacking]] = True
    return some


def _blank_outside(codes: NDArray[np.uint8], grid: Grid, options: SceneOptions) -> None:
    """Take away labels outside the area of interest; scenes are cut to it when they are opened."""
    part = Area(options.bbox, options.bbox_crs, options.aoi).of(grid)
    window = Window(*part.grid.offset_in(grid), *part.grid.shape)
    polygons = part.inside(part.grid.window)
    inside = np.zeros(grid.shape, bool)
    inside[window.slices] = True if polygons is None else polygons
    codes[~inside] = 0


def _check_reflectance(table: SampleTable) -> None:
    """Refuse digital numbers where the user says by a level that values are reflectance."""
    typical = float(np.nanmedian(np.abs(table.values))) if table.values.size else 0.0
    if typical > _BRIGHTEST:
        raise ValueError(
            f"{table.name} holds values around {typical:.3g}, and --level says that they are reflectance, "
            "which lies below 2: divide digital numbers by 10000 (from baseline 04.00 on less 1000 first)"
        )


def _chosen(table: SampleTable, options: FitOptions) -> tuple[NDArray[np.str_], Scheme | None]:
    """Names of the classes of a table, translated, empty for values that are none; and their scheme."""
    values = sorted({str(value) for value in table.classes})
    named = ClassChoice(options.ignore, options.classes).named(values, table.name)
    try:
        one_spelling(name for name in named.values() if name)
    except ValueError as error:
        raise ValueError(f"{table.name}: {error}") from None
    if options.scheme is None:
        return np.array([named[str(value)] or "" for value in table.classes]), None
    translation = load_translation(options.scheme)
    names = {each.code: each.name for each in translation.target.classes} | {0: ""}
    into = {value: names[translation.of_name(name)] if name else "" for value, name in named.items()}
    return np.array([into[str(value)] for value in table.classes]), translation.target


@dataclass(frozen=True, kw_only=True)
class TableRows(TrainingSource):
    """The drawn samples of a table."""

    table: SampleTable
    path: Path
    uncertainty: BandUncertainty | None

    @property
    def identity(self) -> str:
        """Hash of the file and of the samples."""
        return content_identity(self)

    @classmethod
    def open(cls, path: Path, bands: Sequence[str] | None, options: FitOptions) -> TableRows:
        """Read a table, translate its classes where a scheme is given, and draw among the samples."""
        table = read_table(path, options.class_field, bands)
        scale, offset = options.scene.scale, options.scene.offset
        stated = scale is not None or offset is not None
        scale, offset = 1.0 if scale is None else scale, offset or 0.0
        if stated:
            table = replace(table, values=table.values * scale + offset)
        else:
            _warn_of_table_offset(table)
        classes, scheme = _chosen(table, options)
        if options.scene.level is not None:
            _check_reflectance(table)
        known, codes = np.unique(classes, return_inverse=True)
        labels = (codes.ravel() + 1).astype(np.uint8)
        if known.size > 254:
            raise ValueError(f"{table.name} has {known.size} classes; at most 254 are possible")
        labels[classes == ""] = 0
        taken = _drawn(labels, options)
        groups = None if table.groups is None else table.groups[taken]
        drawn = replace(
            table, values=table.values[taken], classes=classes[taken], dates=None, groups=groups, samples=None
        )
        n, (uncertainty, stated_errors) = len(table.bands), _of_table(drawn, options)
        scales, offsets = ((scale,) * n, (offset,) * n) if stated else ((), ())
        counts = zip(*np.unique(drawn.classes, return_counts=True), strict=True)
        unused = list(table.unused)
        return cls(
            name=table.name,
            bands=table.bands,
            features=Features.of_level(table.bands, options.scene.level, scales, offsets),
            drawn={str(name): int(count) for name, count in counts},
            available=int(np.count_nonzero(labels)),
            size=len(drawn),
            scheme=scheme,
            stated=stated_errors,
            calibrated_by="options" if stated else "nobody",
            columns={"class": table.class_column, "features": list(table.bands), "unused": unused},
            table=drawn,
            path=path,
            uncertainty=uncertainty,
        )

    def batches(self) -> Iterator[tuple[int, Batch]]:
        """Samples in batches of bounded size."""
        per_sample = int(np.prod(self.table.values.shape[1:]))
        rows = max(1, BATCH_NUMBERS // per_sample)
        edges = [*range(0, self.size, rows), self.size]
        table, names = self.table, self.table.groups
        everything = Batch(
            table.values,
            table.classes,
            None if names is None else numbered(names, table.name),
            None if self.uncertainty is None else self.uncertainty.random(table.values),
        )
        for start, stop in pairwise(edges):
            yield stop - start, everything.take(slice(start, stop))


@dataclass(frozen=True, kw_only=True)
class SampleCubeRows(TrainingSource):
    """The drawn samples of a sample cube: values of all realisations, and a column with the class."""

    samples: Samples
    codes: NDArray[np.uint8]  # (sample,), 0 where no sample is taken
    groups: Groups | None  # (sample,)

    @property
    def identity(self) -> str:
        """Identity of the scene that the samples come from, or a hash of the cube."""
        return str(self.samples.attributes.get("scene_id") or content_identity(self.samples))

    @classmethod
    def of(cls, samples: Samples, options: FitOptions) -> SampleCubeRows:
        """Classes of the samples, and the draw among them."""
        column, file = options.class_field or "label", Path(samples.path).name
        if column not in samples.columns:
            listed = ", ".join(samples.columns) or "none"
            raise ValueError(
                f"{file} has no column {column!r}; it has {listed} (--class-field says which holds the class)"
            )
        bands = tuple(canonical_band(band) for band in options.scene.bands or samples.bands)
        if missing := [band for band in bands if band not in samples.bands]:
            raise ValueError(f"{file} has no band {', '.join(missing)}; it has {samples.bands}")
        own, scheme = samples.attributes.get("scheme"), options.scheme
        identical = Translation.identity(numbered_scheme() if own is None else Scheme.from_dict(own))
        translation = identical if scheme is None else load_translation(scheme)
        codes = translation(_column(samples, column), file)
        available = int(np.count_nonzero(codes))
        codes[~_drawn(codes, options)] = 0
        group = next((name for name in GROUP_COLUMNS if name in samples.columns), None)
        return cls(
            name=str(samples.attributes.get("scene_id") or file),
            bands=bands,
            features=stated_features(samples.attributes, samples.bands, options.scene.level).chosen(bands),
            drawn={name: n for name, n in translation.target.counts(codes).items() if n},
            available=available,
            size=samples.count,
            scheme=translation.target,
            units="reflectance",
            samples=samples,
            codes=codes,
            groups=None if group is None else numbered(_column(samples, group), file),
        )

    def batches(self) -> Iterator[tuple[int, Batch]]:
        """Drawn samples, a chunk at a time."""
        assert self.scheme is not None
        at = [self.samples.bands.index(band) for band in self.bands]
        start = 0
        for block in self.samples:
            rows = slice(start, start + len(block))
            codes, groups = self.codes[rows], None if self.groups is None else self.groups[rows]
            names = np.array([self.scheme[int(code)].name if code else "" for code in codes], dtype=np.str_)
            yield len(block), Batch(block.values[..., at], names, groups).take(codes > 0)
            start += len(block)


def _column(samples: Samples, name: str) -> NDArray[Any]:
    """A column of a sample cube, of all samples."""
    return np.concatenate([block.columns[name] for block in samples])
