"""Comparison of a map with reference data: sums over its blocks, and the results that follow from them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.streams import stream
from uncover.labels import within
from uncover.metrics.assisted import AssistedAreas, AssistedSums
from uncover.metrics.bootstrap import MOST_GROUPS, Bootstrap, percentile_interval
from uncover.metrics.calibration import Reliability
from uncover.metrics.confusion import Outcomes, overall_accuracy
from uncover.metrics.estimation import Estimate, SampleCells, StratifiedSample
from uncover.metrics.scores import SCORE_NAMES, ScoreSums
from uncover.pipeline.evaluation import (
    AREA,
    ASSISTED,
    CALIBRATION,
    EvaluateOptions,
    Evaluation,
    Floats,
    Result,
)
from uncover.pipeline.ground import default_buffer, distance, pixel_metres
from uncover.pipeline.label_sources import ClassChoice, LabelsOnGrid, open_labels
from uncover.pipeline.map_product import MapProduct
from uncover.pipeline.references import (
    Design,
    Index,
    Matches,
    Reference,
    check_drawn,
    check_strata,
    open_reference,
)
from uncover.raster.cluster import computed
from uncover.raster.fingerprints import unchanged
from uncover.raster.grid import Grid, Progress, Window
from uncover.raster.pixel_area import pixel_areas
from uncover.raster.tiles import TileCache
from uncover.warn import warn

_BLOCK = 512
_LOOKED_AT = 1024  # rows and columns whose likeness says how large a buffer is


def evaluate_map(
    folder: str | Path,
    reference: str | Path,
    options: EvaluateOptions | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Compare a map (a folder with class.tif and probability.tif) with reference data.

    Memory holds one block of the map and sums over at most 2,000 groups of samples, whatever the size of the
    map and of the reference.
    """
    options = options or EvaluateOptions()
    inputs = (folder, reference, options.stratum_areas, options.training, options.scheme)
    with unchanged(*inputs) as check:
        found = _evaluated(folder, reference, options, progress)
        check()
    for message in found.warnings:
        warn(message)
    return found


def _evaluated(
    folder: str | Path, reference: str | Path, options: EvaluateOptions, progress: Progress | None
) -> Evaluation:
    product = MapProduct.open(folder)
    ground = open_reference(
        reference,
        product,
        class_field=options.class_field,
        stratum_field=options.stratum_field,
        scheme=options.scheme,
        choice=ClassChoice(options.ignore, options.classes),
        block_metres=options.block,
    )
    design = Design.of(options.design, ground, options.stratum_areas)
    tally = _all_blocks(_Comparison.of(product, ground, design, options), options.scheduler, progress)
    if tally.samples == 0:
        raise ValueError(
            f"no sample of {ground.name} lies where the map has a class and no flag (cloud, shadow, snow, "
            "saturated) and far enough from training labels; nothing can be compared"
        )
    return conclude(product, ground, design, tally, options)


@dataclass(frozen=True)
class _Training:
    """Labels that trained the model, and the distance from them at which a reference is independent."""

    labels: LabelsOnGrid
    grid: Grid
    buffer: float  # metres

    @classmethod
    def of(cls, product: MapProduct, options: EvaluateOptions) -> _Training:
        assert options.training is not None
        choice = ClassChoice(options.ignore, options.classes)
        labels = open_labels(options.training, options.scheme, options.class_field, 0.0, choice).on(
            product.grid
        )
        buffer = _alike(product, options.block) if options.buffer is None else options.buffer
        return cls(labels, product.grid, buffer)

    def near(self, window: Window, cache: TileCache) -> NDArray[np.bool_]:
        """Pixels of a window nearer than the buffer to a training label, (row, col)."""
        height, width = pixel_metres(self.grid)
        rows, cols = int(self.buffer / height) + 1, int(self.buffer / width) + 1
        wide = window.grown(rows, cols) & self.grid.window
        trained = self.labels.labels(wide, cache) > 0
        return within(trained, self.buffer, (height, width))[window.shifted(-wide.row, -wide.col).slices]


def _alike(product: MapProduct, block: float) -> float:
    """Autocorrelation length of the map's classes in its middle, in metres; at most half a block."""
    grid, cache = product.grid, TileCache()
    codes = (product.class_numbers(grid.middle(_LOOKED_AT), cache) + 1).astype(np.uint8)
    return default_buffer(codes, grid, block)


@dataclass(frozen=True)
class _Samples:
    """Samples of a window with what the map says there."""

    found: Matches
    mapped: Index  # (sample,)
    p: Floats  # (sample, class)
    weights: Floats  # (sample,)
    inside: NDArray[np.bool_] | None  # (sample, class), of sets


@dataclass(frozen=True)
class _Seen:
    """Sums over the pixels of a window by their names in the tally, and its samples."""

    sums: dict[str, Any]
    samples: _Samples | None = None


@dataclass(frozen=True)
class _Comparison:
    """A map, its reference and the slots of groups that each stratum has."""

    product: MapProduct
    reference: Reference
    design: Design
    bins: int
    strata: int
    slots: int  # groups of each stratum
    places: Index | None  # slot of each natural group, where samples belong together
    first_area: float  # m²
    training: _Training | None = None
    cache: TileCache = field(default_factory=TileCache)

    @classmethod
    def of(
        cls, product: MapProduct, reference: Reference, design: Design, options: EvaluateOptions
    ) -> _Comparison:
        strata = len(design.names(reference.legend, reference))
        slots = max(2, MOST_GROUPS // strata)
        places = None
        if design.name is None and reference.group_count:
            slots = min(slots, reference.group_count)
            order = stream(options.seed, "joined groups").permutation(reference.group_count)
            places = np.asarray(order % slots, np.intp)
        first = float(pixel_areas(product.grid, Window(0, 0, 1, 1))[0, 0])
        training = None if options.training is None else _Training.of(product, options)
        return cls(product, reference, design, options.bins, strata, slots, places, first, training)

    def empty(self) -> Tally:
        k, groups = len(self.reference.legend.names), self.strata * self.slots
        none = np.empty(0, np.intp)
        p = np.empty((0, k))
        return Tally(
            pixels=np.zeros(k),
            areas=np.zeros(k),
            nodata=0,
            scores=ScoreSums.of(none, p, groups=none, n_groups=groups, floor=self.product.floor),
            reliability=Reliability.of(none, p, bins=self.bins, groups=none, n_groups=groups),
            cells=SampleCells.of(none, none, none, classes=k, n_strata=self.strata),
            buffer=0.0 if self.training is None else self.training.buffer,
        )

    def look(self, window: Window) -> _Seen:
        """Map and reference in a window."""
        k, cache = len(self.reference.legend.names), self.cache
        numbers = self.product.class_numbers(window, cache)
        area = pixel_areas(self.product.grid, window)
        masked = self.product.masked(window, cache)
        there = numbers >= 0
        known = numbers[there]
        pixels, areas = (np.bincount(known, w, minlength=k).astype(np.float64) for w in (None, area[there]))
        found = self.reference.samples(window, cache)
        on_map, hidden = there[found.rows, found.cols], masked[found.rows, found.cols]
        sums: dict[str, Any] = {"pixels": pixels, "areas": areas, "nodata": int((~on_map & ~hidden).sum())}
        sums |= {"masked": int(hidden.sum()), "masked_area": float(area[masked].sum())}
        if self.design.name is not None:
            sums |= self._sums_of_map(window, there, area, cache)
        if self.training is not None:
            near = on_map & self.training.near(window, cache)[found.rows, found.cols]
            sums["near"], on_map = int(near.sum()), on_map & ~near
        if not on_map.any():
            return _Seen(sums)
        found = _chosen(found, on_map)
        mapped = numbers[found.rows, found.cols].astype(np.intp)
        p = np.zeros((mapped.size, k))
        p[:, : self.reference.legend.mapped] = self.product.probabilities(
            window, found.rows, found.cols, cache
        )
        # A drawn pixel stands for its area, in units of the first one's: exactly 1 where all are alike.
        weights = area[found.rows, found.cols] / self.first_area if self.design.name else np.ones(mapped.size)
        inside = self.product.in_sets(window, found.rows, found.cols, cache)
        return _Seen(sums, _Samples(found, mapped, p, weights, inside))

    def _sums_of_map(
        self, window: Window, there: NDArray[np.bool_], area: Floats, cache: TileCache
    ) -> dict[str, Floats]:
        """Sums over mapped pixels of area times probability P, and times P (1 − P), in m²."""
        rows, cols = np.nonzero(there)
        P = self.product.probabilities(window, rows, cols, cache).astype(np.float64).T  # (class, pixel)
        out = np.zeros((2, len(self.reference.legend.names)))
        out[:, : len(P)] = P @ area[there], (P * (1 - P)) @ area[there]
        return {"claimed": out[0], "doubted": out[1]}

    def tallied(self, so_far: Tally, seen: _Seen) -> Tally:
        """The tally with a window added; of samples that are alone the next slots are those of the next."""
        so_far = so_far.plus(**seen.sums)
        return so_far if seen.samples is None else self._with_samples(so_far, seen.samples)

    def _with_samples(self, so_far: Tally, samples: _Samples) -> Tally:
        found, mapped, p, weights = samples.found, samples.mapped, samples.p, samples.weights
        y, k, inside = found.classes, p.shape[1], samples.inside
        strata = self._strata(found, mapped)
        groups = strata * self.slots + self._slots(found, strata, so_far.taken)
        n = self.strata * self.slots
        if inside is not None:
            so_far = so_far.plus(covered=_covered(y, inside, weights, groups, n, k))
        common: dict[str, Any] = {"mapped": mapped, "weights": weights, "groups": groups, "n_groups": n}
        return so_far.plus(
            scores=ScoreSums.of(y, p, floor=self.product.floor, **common),
            reliability=Reliability.of(y, p, bins=self.bins, **common),
            cells=SampleCells.of(mapped, y, strata, classes=k, n_strata=self.strata, weights=weights),
            assisted=AssistedSums.of(y, p, strata, n_strata=self.strata, weights=weights),
        )

    def _strata(self, found: Matches, mapped: Index) -> Index:
        if self.design.strata == "map":
            return mapped
        if self.design.strata == "field":
            assert found.strata is not None
            return found.strata
        return np.zeros(mapped.size, np.intp)

    def _slots(self, found: Matches, strata: Index, taken: Floats) -> Index:
        """Slot of each sample: that of its natural group, or the next one of its stratum in turn."""
        if self.places is not None:
            assert found.groups is not None
            return self.places[found.groups]
        slots = np.empty(strata.size, np.intp)
        for stratum in np.unique(strata):
            mine = np.flatnonzero(strata == stratum)
            slots[mine] = (int(taken[stratum]) + np.arange(mine.size)) % self.slots
        return slots


def _covered(
    y: Index, inside: NDArray[np.bool_], weights: Floats, groups: Index, n_groups: int, k: int
) -> Floats:
    """Weight of samples in whose set their class is, and of all: (group, class, 2).

    A class that the map does not have is in no set.
    """
    known = np.pad(inside, [(0, 0), (0, k - inside.shape[1])])
    place = groups * k + y
    hit = known[np.arange(y.size), y]
    sums = [np.bincount(place, w, minlength=n_groups * k) for w in (weights * hit, weights)]
    return np.stack(sums, axis=-1).astype(np.float64).reshape(n_groups, k, 2)


def _chosen(found: Matches, where: NDArray[np.bool_]) -> Matches:
    parts = (found.rows, found.cols, found.classes, found.groups, found.strata)
    rows, cols, classes, groups, strata = (None if part is None else part[where] for part in parts)
    assert rows is not None and cols is not None and classes is not None
    return Matches(rows, cols, classes, groups, strata)


def _all_blocks(comparison: _Comparison, scheduler: str | None, progress: Progress | None) -> Tally:
    grid, tally = comparison.product.grid, comparison.empty()
    seen = computed(comparison.look, grid.blocks(_BLOCK), scheduler)
    for _ in grid.watched_blocks(_BLOCK, progress):
        tally = comparison.tallied(tally, next(seen))
    return tally


_FEW = 10  # groups or samples, below which they say little
_ROUNDING = 1e-12  # by which draws that are alike may differ
_ALIKE = 0.01  # by which the strata may differ from the mapped area
_MUCH = 0.05  # of the area, that the samples of one stratum may have missed


Results = dict[tuple[str, str], Result]  # by measure and class


@dataclass(frozen=True)
class Tally:
    """Sums over the map and over the samples that were met so far."""

    pixels: Floats  # (class,) of the map
    areas: Floats  # (class,) of it, m²
    nodata: int  # samples where the map has no class and is not masked
    scores: ScoreSums  # (group, ...)
    reliability: Reliability  # (group, ...)
    cells: SampleCells  # (stratum, ...)
    #: (group, class, 2), weight of samples in whose set their class is, and of all
    covered: Floats | None = None
    near: int = 0  # samples next to training labels
    buffer: float = 0.0  # metres that are next to them
    masked: int = 0  # samples where the map is masked: cloud, shadow, snow, saturated, own mask
    masked_area: float = 0.0  # m² that are
    assisted: AssistedSums | None = None  # (stratum, ...)
    claimed: Floats | None = None  # (class,), sum of probabilities times area over the map, m²
    doubted: Floats | None = None  # (class,), the same of P (1 − P)

    @property
    def taken(self) -> Floats:
        """Samples of each stratum."""
        return np.asarray(self.cells.count.sum(axis=(1, 2)))

    @property
    def samples(self) -> int:
        """Samples where the map has a class."""
        return int(self.cells.count.sum())

    def plus(self, **more: Any) -> Tally:
        """The tally with more in the sums that are named."""
        before = {name: getattr(self, name) for name in more}
        return replace(
            self, **{key: v if before[key] is None else before[key] + v for key, v in more.items()}
        )


def conclude(
    product: MapProduct, reference: Reference, design: Design, tally: Tally, options: EvaluateOptions
) -> Evaluation:
    """Return the results that follow from the sums."""
    names = reference.legend.names
    lost = reference.outside + tally.nodata + tally.masked
    check_drawn(reference, tally.areas, tally.pixels, tally.cells.count.sum(axis=2), lost)
    sample, factors, said = _weighting(reference, design, tally)
    strata = np.repeat(np.arange(tally.taken.size), tally.scores.weight.size // tally.taken.size)
    used = tally.scores.weight > 0
    weights = factors[strata[used]]
    scores = tally.scores.chosen(used).scaled(weights)
    curves = tally.reliability.chosen(used).scaled(weights)
    drawn = Bootstrap(strata[used], options.draws, options.seed).factors()
    total, whole, level = scores.total(), curves.total(), options.level
    results = (
        _grouped_accuracy(names, scores, tally, drawn, level)
        if sample is None
        else _design_accuracy(names, sample, level)
    )
    if tally.covered is not None:
        sums = tally.covered[used] * weights[:, None, None]
        results |= _coverage(names, sums, tally, drawn, level)
    results |= _scores(scores, total.reference_shares, drawn, level)
    results |= _calibration(names, curves, drawn, level)
    if sample is not None:
        areas = sample.areas()
        results |= _by_class(AREA, names, areas, areas.interval(level))
        together = _assisted(tally, np.asarray(sample.sizes, np.float64))
        if together is not None:
            known = Estimate(together.value, together.error, tally.taken.sum() * np.ones(len(names)))
            results |= _by_class(ASSISTED, names, known, together.interval(level))
    groups = int(used.sum())
    return Evaluation(
        classes=names,
        facts=_facts(product, reference, design, tally, groups, options),
        results=results,
        shares=total.reference_shares,
        zeros=int(total.zeros),
        floor=total.floor,
        pixels=tally.pixels,
        mapped=tally.areas,
        curves=whole,
        curve_interval=whole.interval(level, _effective(curves, drawn)),
        counts=tally.cells.count.sum(axis=0),
        area_shares=None if sample is None else sample.matrix().value,
        warnings=tuple(_warnings(product.grid, reference, design, tally, groups) + said),
    )


def _assisted(tally: Tally, sizes: Floats) -> AssistedAreas | None:
    """Areas from sample and map together; None where the strata are not what was mapped."""
    total = tally.areas.sum()
    if len(sizes) != len(tally.taken) or abs(sizes.sum() / total - 1) > _ALIKE:
        return None
    assert tally.assisted is not None and tally.claimed is not None and tally.doubted is not None
    scale = sizes.sum() / total
    return AssistedAreas(tally.assisted, sizes, scale * tally.claimed, scale * tally.doubted)


def _weighting(
    reference: Reference, design: Design, tally: Tally
) -> tuple[StratifiedSample | None, Floats, list[str]]:
    """The sample as its design has it, what a weight of each stratum stands for, and what is to be said."""
    if design.name is None:
        return None, np.ones(1), []
    names = design.names(reference.legend, reference)
    sizes, message = design.sizes(reference.legend, reference, tally.areas, tally.pixels)
    keep = check_strata(names, sizes, tally.taken)
    cells = tally.cells
    kept = SampleCells(cells.count[keep], cells.weight[keep], cells.squares[keep])
    said = [] if message is None else [message]
    said += _too_small(names, sizes, tally.taken)
    weights = cells.weight.sum(axis=(1, 2))
    factors = np.divide(sizes, weights, out=np.zeros_like(weights), where=weights > 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it would not know the stratum's name
        sample = StratifiedSample(kept, sizes[keep], by_map=design.strata == "map")
    return sample, factors / sizes.sum(), said


def _too_small(names: Sequence[str], sizes: Floats, taken: Floats) -> list[str]:
    """A sentence on each stratum whose samples are too few to say much."""
    said = []
    for name, size, n in zip(names, sizes / sizes.sum(), taken, strict=True):
        if n == 0:
            continue
        missed = 1 - 0.025 ** (1 / n)  # a share that is seen in no sample with probability 0.025
        if n < _FEW or size * missed > _MUCH:
            samples = "one sample" if n == 1 else f"{n:.0f} samples"
            said.append(
                f"the stratum {name!r} has {samples} for {100 * size:.3g} % of the area, too few to say "
                f"much: a class on {100 * missed:.0f} % of it could have been missed"
                + ("; standard errors cannot be estimated" if n == 1 else "")
            )
    return said


def _by_class(
    measure: str, names: Sequence[str], estimate: Estimate, ends: tuple[Any, Any], counts: Any = None
) -> Results:
    """Results of one measure for each class; of one number for the whole map, whose class is ""."""
    value, low, high, error = (np.atleast_1d(v) for v in (estimate.value, *ends, estimate.error))
    samples = [None] * len(names) if counts is None else [int(n) for n in np.atleast_1d(counts)]
    return {
        (measure, name): Result(float(value[k]), float(low[k]), float(high[k]), float(error[k]), samples[k])
        for k, name in enumerate(names)
    }


def _design_accuracy(names: tuple[str, ...], sample: StratifiedSample, level: float) -> Results:
    overall = sample.overall_accuracy()
    found = _by_class("overall accuracy", [""], overall, overall.interval(level), overall.count)
    producers, false = sample.producers_accuracy(), sample.false_positive_rate()
    for measure, estimate in (
        ("user's accuracy", sample.users_accuracy()),
        ("producer's accuracy", producers),
        ("true positive rate", producers),
        ("false negative rate", producers.complement()),
        ("false positive rate", false),
        ("true negative rate", false.complement()),
    ):
        found |= _by_class(measure, names, estimate, estimate.interval(level), estimate.count)
    return found


def _grouped_accuracy(
    names: tuple[str, ...], sums: ScoreSums, tally: Tally, drawn: Floats, level: float
) -> Results:
    """Accuracy of the samples as they are; errors by resampling what belongs together."""
    total, replicates = sums.total().confusion, sums.combined(drawn).confusion
    n = tally.cells.count.sum(axis=0)
    rows_met = (sums.confusion.sum(axis=2) > 0).sum(axis=0)  # groups in which a class is mapped
    columns_met = (sums.confusion.sum(axis=1) > 0).sum(axis=0)
    others_met = (sums.confusion.sum(axis=(1, 2))[:, None] > sums.confusion.sum(axis=1)).sum(axis=0)
    mapped, there, elsewhere = n.sum(axis=1), n.sum(axis=0), n.sum() - n.sum(axis=0)
    overall = _resampled(overall_accuracy(total), overall_accuracy(replicates), len(sums.weight))
    found = _by_class("overall accuracy", [""], overall, overall.share_interval(level), n.sum())
    seen, again = Outcomes.of(total), Outcomes.of(replicates)
    for measure, name, groups, counts in (
        ("user's accuracy", "precision", rows_met, mapped),
        ("producer's accuracy", "true_positive_rate", columns_met, there),
        ("true positive rate", "true_positive_rate", columns_met, there),
        ("false negative rate", "false_negative_rate", columns_met, there),
        ("false positive rate", "false_positive_rate", others_met, elsewhere),
        ("true negative rate", "true_negative_rate", others_met, elsewhere),
    ):
        estimate = _resampled(getattr(seen, name), getattr(again, name), groups)
        found |= _by_class(measure, names, estimate, estimate.share_interval(level), counts)
    return found


def _coverage(names: tuple[str, ...], sums: Floats, tally: Tally, drawn: Floats, level: float) -> Results:
    """Share of the samples of each class in whose set the class is; sums (group, class, 2)."""

    def share(total: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            return np.asarray(total[..., 0] / total[..., 1])

    met = (sums[..., 1] > 0).sum(axis=0)
    estimate = _resampled(share(sums.sum(axis=0)), share(np.tensordot(drawn, sums, axes=1)), met)
    counts = tally.cells.count.sum(axis=(0, 1))
    return _by_class("set coverage", names, estimate, estimate.share_interval(level), counts)


def _resampled(value: Any, replicates: Floats, groups: Any) -> Estimate:
    return Estimate(np.asarray(value), _spread(replicates), np.asarray(groups, np.float64))


def _spread(replicates: Floats) -> Floats:
    """Standard deviation over the first axis, of the draws in which there is a value."""
    there = np.isfinite(replicates)
    n = there.sum(axis=0)
    values = np.where(there, replicates, 0)
    mean = values.sum(axis=0) / np.maximum(n, 1)
    squares = (np.where(there, values - mean, 0) ** 2).sum(axis=0)
    return np.where(n > 1, np.sqrt(squares / np.maximum(n - 1, 1)), np.nan)


def _scores(sums: ScoreSums, shares: Floats, drawn: Floats, level: float) -> Results:
    value, again = sums.total().scores(shares), sums.combined(drawn).scores(shares)
    pairs = {name: (getattr(value, name), getattr(again, name)) for name in SCORE_NAMES}
    return {(name, ""): _percentiles(*pair, level) for name, pair in pairs.items()}


def _percentiles(value: Any, replicates: Floats, level: float) -> Result:
    """Percentiles of the draws; no interval where all are alike, so that they say nothing."""
    if np.isfinite(replicates).all() and np.ptp(replicates) <= _ROUNDING:
        return Result(float(value), float("nan"), float("nan"))
    low, high = percentile_interval(replicates, level)
    error = float(np.std(replicates, ddof=1)) if np.isfinite(replicates).all() else float("nan")
    return Result(float(value), float(low), float(high), error)


def _calibration(names: tuple[str, ...], curves: Reliability, drawn: Floats, level: float) -> Results:
    whole, again = curves.total(), curves.combined(drawn)
    errors = {
        "top label": (whole.top_label_error, again.top_label_error),
        "class-wise": (whole.class_wise_error, again.class_wise_error),
    }
    for k, name in enumerate(names, start=1):
        errors[f"class {name}"] = whole.calibration_error[k], again.calibration_error[:, k]
    return {(CALIBRATION, name): _percentiles(*pair, level) for name, pair in errors.items()}


def _effective(curves: Reliability, drawn: Floats) -> Floats:
    """Independent samples that would spread as the groups do, in each bin of each curve.

    Where all samples of a bin agree nothing spreads: there the groups are counted.
    """
    whole = curves.total()
    frequency = whole.observed_frequency
    spread = _spread(curves.combined(drawn).observed_frequency)
    groups = (curves.count > 0).sum(axis=0).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        n = np.where(spread > 1e-12, frequency * (1 - frequency) / spread**2, groups)
    return np.minimum(n, whole.count)


def _facts(
    product: MapProduct,
    reference: Reference,
    design: Design,
    tally: Tally,
    groups: int,
    options: EvaluateOptions,
) -> dict[str, Any]:
    units = {
        "points": "point",
        "polygons": "polygon",
        "raster": f"block of {distance(product.grid, options.block)}",
    }
    unit = "sample" if design.name is not None else units[reference.kind]
    return {
        "map": product.name,
        "unit of areas": "pixels" if product.grid.crs is None else "m2",
        "reference": {
            "name": reference.name,
            "kind": reference.kind,
            "samples": tally.samples,
            "outside the map": reference.outside,
            "on nodata": tally.nodata,
            "on masked pixels": tally.masked,
            "near training labels": tally.near,
            "buffer": round(tally.buffer, 1),
        },
        "masked area": tally.masked_area,
        "design": {
            "name": design.name,
            "probability sample": design.name is not None,
            "strata": {"none": None, "map": "classes of the map", "field": "field of the reference"}[
                design.strata
            ],
            "samples by stratum": {
                name: int(n)
                for name, n in zip(design.names(reference.legend, reference), tally.taken, strict=True)
            },
        },
        "level": options.level,
        "bootstrap": {"draws": options.draws, "seed": options.seed, "unit": unit, "groups": groups},
    }


def _warnings(grid: Grid, reference: Reference, design: Design, tally: Tally, groups: int) -> list[str]:
    said = list(reference.notes)
    if np.trace(tally.cells.count.sum(axis=0)) == tally.samples:
        said.append(
            "no sample is wrong: F1 and F2 have no interval, because resampling cannot show errors that were "
            "not drawn; the lower limits of the accuracies say what may have been missed"
        )
    if design.name is None and reference.kind == "points":
        said.append(
            f"nothing says how the points of {reference.name} were drawn: the accuracy is that of these "
            f"points, and no areas are estimated; say with --design where they are a probability sample"
        )
    elif design.name is None:
        said.append(
            f"{reference.name} ({reference.kind}) is not a probability sample: the accuracy is that of its "
            f"pixels, not of the map, and no areas are estimated"
        )
    if reference.legend.strangers:
        said.append(
            f"the map has no class {', '.join(map(repr, reference.legend.strangers))}: all its samples count "
            f"as wrong, with probability 0"
        )
    if groups < _FEW:
        said.append(f"errors rest on {groups} independent parts of the reference; they are rough at best")
    if tally.masked_area:
        part = 100 * tally.masked_area / (tally.masked_area + tally.areas.sum())
        said.append(
            f"{part:.3g} % of the observed area is masked (cloud, shadow, snow, saturated or own mask) and "
            f"has no class; it is left out with {tally.masked} samples, estimates are for the mapped area"
        )
    if tally.near:
        said.append(
            f"{tally.near} samples nearer than {distance(grid, tally.buffer)} to a training label are left "
            f"out; {tally.samples} are compared"
        )
    lost = reference.outside + tally.nodata
    if lost and (reference.kind == "points" or design.name is not None):
        said.append(
            f"{lost} samples are left out: {reference.outside} outside the map, {tally.nodata} where it has "
            f"no class; estimates are for the area that has one"
        )
    return said
