"""Fitting of models to labelled scenes or sample tables, and samples held out to calibrate sets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtr
from sklearn.base import ClassifierMixin

from uncover.bayes.covariances import Covariances
from uncover.bayes.streams import stream
from uncover.estimators.classifier import BayesianClassifier
from uncover.estimators.conformal import ConformalSets
from uncover.estimators.describe import fitted_in_words
from uncover.estimators.discriminant import estimator_of
from uncover.estimators.mixture import BayesianMDA
from uncover.files import whole_or_nothing
from uncover.measurement.features import Features, common_features
from uncover.measurement.measured import Measured
from uncover.models.record import FittedEstimator, record_of
from uncover.models.registry import CLASS_MODELS
from uncover.models.sets import samples_needed
from uncover.pipeline import training_sources
from uncover.pipeline.class_shares import known_shares
from uncover.pipeline.ground import Groups, together
from uncover.pipeline.label_sources import LabelDoubt, soft_labels
from uncover.pipeline.left_out import Checked, left_out_check, left_out_in_words, warn_of_excess
from uncover.pipeline.scene_sources import files_with
from uncover.pipeline.training_sources import (
    Batch,
    FitOptions,
    LabelledPixels,
    TrainingSource,
    open_sources,
)
from uncover.raster.fingerprints import unchanged
from uncover.raster.grid import Progress
from uncover.raster.loose_files import gathered, source_name
from uncover.raster.series import SceneSeries
from uncover.raster.uncertainty import UncertaintyWarning
from uncover.warn import warn

#: Probability of a warning where the pixels of all classes have no spread but the stated noise.
_LEVEL = 1e-3
#: Bands that a warning names.
_NAMED = 3


@dataclass(frozen=True)
class TrainedModel:
    """A fitted model with the record of what it was fitted to.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "pixels.csv"
    >>> _ = path.write_text("B4,class\\n0.03,forest\\n0.02,forest\\n0.11,village\\n0.13,village\\n")
    >>> print(fit_model([path], FitOptions(model="published")).summary())
    pixels.csv
      class: column class; features: columns B04
      class         drawn        used
      forest            2           2
      village           2           2
    features: reflectance, not stated whether at the top of the atmosphere or at the surface (--level)
    model: BayesianQDA
    not checked with samples left out: 4 samples are too few
    """

    model: ClassifierMixin  # an estimator, or ConformalSets of one
    units: str | None
    provenance: dict[str, Any]
    features: Features

    def save(self, path: str | Path) -> None:
        """Write the model file, whole or not at all."""
        with whole_or_nothing(path) as out:
            features = self.features.as_dict()
            self.model.save(out, units=self.units, provenance=self.provenance, features=features)

    def summary(self) -> str:
        """Samples of each class, drawn and used, for each source, as lines of text."""
        names = [str(name) for name in self.model.classes_]
        wide = max(len(name) for name in [*names, "class"])
        lines = []
        for source in self.provenance["sources"]:
            lines += [source["name"], *_columns_of(source)]
            lines.append(f"  {'class':<{wide}}{'drawn':>12}{'used':>12}")
            counts = ((name, source["drawn"].get(name, 0), source["used"].get(name, 0)) for name in names)
            lines += [f"  {name:<{wide}}{drawn:>12,}{used:>12,}" for name, drawn, used in counts]
            lost = ", ".join(f"{name} {n:,}" for name, n in source.get("not used", {}).items())
            lines += [f"  not used: {lost}"] if lost else []
        for source in self.provenance["sources"]:
            if "available" in source:
                drawn, there = sum(source["drawn"].values()), source["available"]
                lines.append(f"drawn are {drawn:,} of {there:,} labelled pixels; --fraction 1 takes all")
        lines.append(f"features: {self.features}")
        kept = self.provenance.get("kept for sets")
        if kept:
            listed = ", ".join(f"{name} {n:,}" for name, n in kept.items())
            lines.append(f"kept from the model, to calibrate sets of classes: {listed}")
        lines.append(f"model: {fitted_in_words(record_of(self.model))}")
        lines += [f"left out together: {words}" for words in self.provenance.get("blocks", ())]
        lines += self.provenance.get("edges of blocks", ())
        lines.append(left_out_in_words(self.provenance["left out"]))
        return "\n".join(lines)


def _columns_of(source: Mapping[str, Any]) -> list[str]:
    """Line on the columns that a table was read by; none for scenes."""
    columns = source.get("columns")
    if not columns:
        return []
    unused = f"; not used: {', '.join(columns['unused'])}" if columns["unused"] else ""
    return [f"  class: column {columns['class']}; features: columns {', '.join(columns['features'])}{unused}"]


def fit_model(
    sources: Sequence[str | Path],
    options: FitOptions | None = None,
    progress: Progress | None = None,
    phase: Callable[[str], None] = lambda name: None,
) -> TrainedModel:
    """Fit a model to labelled pixels of scenes and to sample tables.

    Several add samples; with `as_features`, scenes of several dates of one place add features.

    Reading is block by block, and only blocks that hold a drawn pixel are read; cloud, shadow, snow,
    saturation and nodata are left out. What is kept in memory is the statistics, and the drawn pixels'
    positions; `realisations="draws"`, calibration, and the models "mda" and "recommended" need all drawn
    samples at once, and keep them.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "pixels.csv"
    >>> rows = ["0.03,forest", "0.04,forest", "0.02,forest", "0.11,village", "0.13,village", "0.10,village"]
    >>> _ = path.write_text("\\n".join(["B4,class", *rows]))
    >>> training = fit_model([path], FitOptions(model="published"))
    >>> training.model.class_count_
    array([3., 3.])
    """
    options = options or FitOptions()
    labels = (options.labels, options.scheme, options.doubt.probability)
    with unchanged(*files_with(tuple(sources), options), *labels) as check:
        found = _fitted(sources, options, progress, phase)
        check()
    return found


def _fitted(
    sources: Sequence[str | Path],
    options: FitOptions,
    progress: Progress | None,
    phase: Callable[[str], None],
) -> TrainedModel:
    model = make_model(options)
    if options.coverage is not None:
        check_coverage(options.coverage)
    phase("opening")
    opened = open_sources(sources, options)
    features = common_features({source.name: source.features for source in opened})
    classes = sorted({name for source in opened for name, n in source.drawn.items() if n})
    if len(classes) < 2:
        raise ValueError(
            f"the training samples are of {len(classes)} class ({', '.join(classes) or 'none'}); a "
            f"classifier needs at least two: check that the labels cover the scene"
        )
    keeper = None if options.coverage is None else HeldOut.of(opened, options)
    if options.doubt.noise is not None:
        model.label_noise = options.doubt.confusion(len(classes))
    if isinstance(options.class_prior, Mapping):
        model.class_prior = known_shares(options.class_prior, classes)
    phase("reading")
    checked = Checked.of(opened, options)
    used, lost = _accumulate(model, opened, classes, progress, keeper, options.doubt, checked, phase)
    units = {source.units for source in opened}
    provenance = _provenance(opened, used, lost, options)
    phase("checking")
    provenance["left out"] = _left_out(make_model(options), checked, opened, options)
    if options.scene.scene_id is not None and not options.as_features:
        # else the name of the source is that of its file or datatake, or of dates
        for record, source in zip(provenance["sources"], gathered(sources), strict=True):
            record["file"] = Path(source_name(source).rstrip("/")).name
    fitted = model
    if keeper is not None:
        fitted = keeper.calibrated(model)
        provenance["kept for sets"] = keeper.count
    model.feature_names_in_ = np.array(opened[0].bands, dtype=object)
    return TrainedModel(fitted, units.pop() if len(units) == 1 else None, provenance, features)


def make_model(options: FitOptions) -> Any:
    """The estimator that is asked for, not fitted yet."""
    options.doubt.check(options.model, options.calibration is not None, options.coverage)
    known = isinstance(options.class_prior, Mapping)  # by name: once the classes are known
    common = {"class_prior": 1.0 if known else options.class_prior, "realisations": options.realisations}
    if options.model == "recommended":
        if options.prior is not None or options.calibration is not None:
            raise ValueError(
                'the model "recommended" chooses prior and calibration itself; leave out --prior and '
                "--calibrate, or choose --model published, lda, nb or mda"
            )
        return BayesianClassifier(**common)
    kinds = {name: estimator_of(model) for name, model in CLASS_MODELS.items()} | {"mda": BayesianMDA}
    if options.model not in kinds:
        listed = ", ".join(["recommended", "published", *kinds])
        raise ValueError(f"there is no model {options.model!r}; choose one of {listed}")
    prior, calibration = ("evidence", "loo") if options.model == "mda" else ("weak", None)
    return kinds[options.model](
        prior=options.prior or prior, calibration=options.calibration or calibration, **common
    )


def _accumulate(
    model: ClassifierMixin,
    sources: Sequence[TrainingSource],
    classes: list[str],
    progress: Progress | None,
    keeper: HeldOut | None,
    doubt: LabelDoubt,
    checked: Checked,
    phase: Callable[[str], None],
) -> tuple[list[dict[str, int]], list[dict[str, int]]]:
    """Fold all batches into the model.

    Returns the number of samples that each source gave by class, and of those not used by the reason.
    """
    used, lost = [dict.fromkeys(classes, 0) for _ in sources], [Counter[str]() for _ in sources]
    batches = _counted(sources, used, lost, progress)
    if keeper is not None:
        batches = (batch for batch in map(keeper.rest, batches) if len(batch.classes))
    batches = map(checked.seen, batches)
    if _needs_all(model) or _uncertain(sources) or _lack_dates(sources) or doubt.probability is not None:
        held = list(batches)
        _check_used(sources, used, lost, classes, keeper)
        everything = all_at_once(held)
        warn_of_too_much_noise(everything, sources[0].bands)
        phase(f"fitting to {len(everything.classes):,} samples")
        groups: dict[str, Any] = {}
        if everything.groups is not None and _calibrates(model):
            groups = {"groups": everything.groups, "scored": everything.inner}
        model.fit(_measured(everything, sources), **_labels(everything, classes, doubt), **groups)
        return used, [dict(each) for each in lost]
    statistics = None
    for batch in _large_batches(batches):
        statistics = model.collect(batch.values, batch.classes, classes, after=statistics)
    _check_used(sources, used, lost, classes, keeper)
    model.fit_statistics(classes, statistics)
    return used, [dict(each) for each in lost]


def _labels(samples: Batch, classes: list[str], doubt: LabelDoubt) -> dict[str, Any]:
    """Labels as they are, or how probable each class is."""
    if samples.sure is None:
        return {"y": samples.classes}
    soft = soft_labels(samples.classes, samples.sure, classes)
    return {"label_proba": soft, "label_meaning": doubt.meaning, "classes": classes}


def _uncertain(sources: Sequence[TrainingSource]) -> bool:
    """Return whether samples have covariances, or an error in common."""
    return any(s.stated is not None and s.stated.noise for s in sources)


def _lack_dates(sources: Sequence[TrainingSource]) -> bool:
    """Return whether samples may lack some of several dates."""
    return any(isinstance(s, LabelledPixels) and len(s.observed.dates) > 1 for s in sources)


def _measured(samples: Batch, sources: Sequence[TrainingSource]) -> Any:
    """Values with their covariances, where these are stated; systematic effects are those of one source."""
    if not _uncertain(sources):
        return samples.values
    systematic = sources[0].stated.systematic if sources[0].stated is not None else None
    return Measured(samples.values, samples.covariances, systematic)


def _calibrates(model: ClassifierMixin) -> bool:
    """Return whether a model is calibrated by cross-validation."""
    return isinstance(model, BayesianClassifier) or model.calibration is not None


def _needs_all(model: ClassifierMixin) -> bool:
    """Return whether a model needs all samples at once: for its parts, cross-validation, or known noise."""
    noisy = getattr(model, "label_noise", None) is not None
    return not hasattr(model, "partial_fit") or _calibrates(model) or model.realisations == "draws" or noisy


def _counted(
    sources: Sequence[TrainingSource],
    used: list[dict[str, int]],
    lost: list[Counter[str]],
    progress: Progress | None,
) -> Iterator[Batch]:
    """All batches that hold a sample, counted into `used` and `lost` as they pass."""
    total, done = sum(source.size for source in sources), 0
    for source, counts, not_used in zip(sources, used, lost, strict=True):
        for covered, batch in source.batches():
            done += covered
            if progress is not None:
                progress(done, total)
            not_used.update(batch.lost)
            for name, n in zip(*np.unique(batch.classes, return_counts=True), strict=True):
                counts[str(name)] += int(n)
            if len(batch.classes):
                yield batch


def _large_batches(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Small batches of one shape joined: fewer and larger sums."""
    held: list[Batch] = []
    for batch in batches:
        if held and (
            held[0].values.shape[1:] != batch.values.shape[1:]
            or sum(b.values.size for b in held) >= training_sources.BATCH_NUMBERS
        ):
            yield joined(held)
            held = []
        held.append(batch)
    if held:
        yield joined(held)


def _check_used(
    sources: Sequence[TrainingSource],
    used: list[dict[str, int]],
    lost: list[Counter[str]],
    classes: list[str],
    keeper: HeldOut | None,
) -> None:
    """Refuse classes that have no sample, or too few to keep some of them."""
    total = {name: sum(counts[name] for counts in used) for name in classes}
    empty = [name for name, n in total.items() if n == 0]
    if empty:
        drawn = sum(source.drawn.get(empty[0], 0) for source in sources)
        why = sum(lost, Counter())
        listed = ", ".join(f"{reason} {n:,}" for reason, n in why.most_common()) or "no values"
        remedy = (
            "say with --mask-values what --mask leaves out"
            if "own mask" in why
            else ("say with --mask-classes what is masked")
        )
        raise ValueError(
            f"class {empty[0]!r} has {drawn} labelled pixels and none of them is usable (labelled pixels of "
            f"all classes: {listed}); add a scene that shows it, leave the class out of the labels, or "
            f"{remedy}"
        )
    if keeper is not None:
        keeper.check(total)


def _provenance(
    sources: Sequence[TrainingSource],
    used: list[dict[str, int]],
    lost: list[dict[str, int]],
    options: FitOptions,
) -> dict[str, Any]:
    """Provenance of the model: names and counts of its sources; no path, no clock."""
    schemes = [source.scheme.as_dict() for source in sources if source.scheme is not None]
    return {
        "sources": [
            {
                "name": source.name,
                "identity": source.identity,
                **_dates_of(source),
                "drawn": source.drawn,
                **_drawn_by_default(source, options),
                "used": {k: v for k, v in counts.items() if v},
                **({"not used": not_used} if not_used else {}),
                **({} if source.stated is None else {"uncertainty": source.stated.facts()}),
                **({"columns": source.columns} if source.columns else {}),
                **({"calibration": source.calibrated_by} if source.calibrated_by != "metadata" else {}),
            }
            for source, counts, not_used in zip(sources, used, lost, strict=True)
        ],
        "labels": None if options.labels is None else Path(options.labels).name,
        "scheme": schemes[0] if schemes else None,
        "draw": {
            "fraction": options.draw.fraction,
            "count": options.draw.count,
            "allocation": options.draw.allocation,
            "seed": options.seed,
        },
        **_blocks(sources),
        **options.doubt.facts(),
    }


def _dates_of(source: TrainingSource) -> dict[str, Any]:
    """Dates of a series with their scenes, and the buffer of its masks."""
    series = source.raster if isinstance(source, LabelledPixels) else None
    records = series.date_records() if isinstance(series, SceneSeries) else []
    return {"dates": records} if records else {}


def _drawn_by_default(source: TrainingSource, options: FitOptions) -> dict[str, int]:
    """Labelled pixels of a source, where not all were drawn and nobody had asked for fewer."""
    asked = options.draw.fraction is not None or options.draw.count is not None
    drawn = sum(source.drawn.values())
    return {} if asked or drawn == source.available else {"available": source.available}


def _blocks(sources: Sequence[TrainingSource]) -> dict[str, Any]:
    """Squares of the scenes whose pixels belong together: sides and buffers in metres, and in words."""
    found = [s.blocks for s in sources if isinstance(s, LabelledPixels) and s.blocks is not None]
    if not found:
        return {}
    sides, words = sorted({blocks.side for blocks in found}), dict.fromkeys(str(blocks) for blocks in found)
    return {
        "block": sides[0] if len(sides) == 1 else sides,
        "buffer": [round(blocks.buffer, 1) for blocks in found],
        "blocks": list(words),
        "edges of blocks": list(dict.fromkeys(blocks.edge for blocks in found if blocks.buffer)),
    }


def _left_out(
    model: ClassifierMixin, checked: Checked, sources: Sequence[TrainingSource], options: FitOptions
) -> dict[str, Any]:
    """Check a model like the fitted one with samples that it has not seen, and warn if it is too sure."""
    if options.doubt.noise is not None or options.doubt.probability is not None:
        return {"not checked": "the labels to compare with may be wrong"}
    try:
        samples = all_at_once(checked.batches)
        found = left_out_check(
            model,
            samples,
            lambda part: _measured(part, sources),
            calibrates=_calibrates(model),
        )
    except ValueError as error:  # too few samples of a class, or of one kind
        return {"not checked": str(error)}
    warn_of_excess(found, options.model)
    return found


def warn_of_too_much_noise(samples: Batch, bands: tuple[str, ...]) -> None:
    """Warn where stated noise is larger than the spread of the pixels of a class, of which it is a part.

    If a class of n pixels had no spread but Gaussian noise of the stated variance σ², then (n − 1) s²/σ²
    would be χ² of n − 1 degrees of freedom. Classes with a spread of their own have a larger s².
    """
    if samples.covariances is None:
        return
    values = samples.values.mean(axis=1) if samples.values.ndim == 3 else samples.values
    stated = np.broadcast_to(samples.covariances.variances(), values.shape)
    names = np.unique(samples.classes)
    found: dict[str, tuple[float, str]] = {}  # ratio of variances and words, by band
    for name in names:
        mine = samples.classes == name
        n = int(mine.sum())
        if n < 3:
            continue
        own, noise = values[mine].astype(np.float64).var(axis=0, ddof=1), stated[mine].mean(axis=0)
        for band, seen, said in zip(bands, own, noise, strict=True):
            level = _LEVEL / (len(names) * len(bands))
            if said <= 0 or chdtr(n - 1, (n - 1) * seen / said) >= level:
                continue
            words = f"{band} {np.sqrt(said):.3g}, and {name} {np.sqrt(seen):.3g} ({n:,} pixels)"
            found[band] = min(found.get(band, (np.inf, "")), (seen / said, words))
    if found:
        _warn([words for _, words in found.values()])


def _warn(bands: list[str]) -> None:
    more = f" and {len(bands) - _NAMED} more bands" if len(bands) > _NAMED else ""
    warn(
        "the stated random uncertainty is larger than the spread of pixels that it is part of: "
        f"{'; '.join(bands[:_NAMED])}{more}. State less, or --between-pixels systematic if pixels share it",
        UncertaintyWarning,
    )


# Share of the samples of a class that is kept, and samples that are enough.
_SHARE, _ENOUGH = 0.3, 2000


@dataclass
class HeldOut:
    """Keeps some samples of each class, at random, and lets the others through; groups as a whole."""

    coverage: float
    share: dict[str, float]  # of each class
    seed: int
    rng: np.random.Generator
    kept: list[Batch] = field(default_factory=list)

    @classmethod
    def of(cls, sources: Sequence[TrainingSource], options: FitOptions) -> HeldOut:
        """Keep 30 % of the samples of each class, of many samples fewer: about 2,000 of each are enough."""
        assert options.coverage is not None
        drawn: dict[str, int] = {}
        for source in sources:
            for name, n in source.drawn.items():
                drawn[name] = drawn.get(name, 0) + n
        share = {name: min(_SHARE, _ENOUGH / max(n, 1)) for name, n in drawn.items()}
        return cls(options.coverage, share, options.seed, stream(options.seed, "kept for sets"))

    def rest(self, batch: Batch) -> Batch:
        """Samples of a batch that are left for the model."""
        share = np.array([self.share[str(name)] for name in batch.classes])
        mine = self.rng.random(len(share)) < share
        rest = ~mine
        if batch.groups is not None:  # of a group that is kept, no sample is for the model
            whole = self._kept_groups(batch.groups)
            mine, rest = whole & (self.rng.random(len(share)) < share / _SHARE), ~whole
            if batch.inner is not None:  # next to another group, a sample is too easily predicted
                mine &= batch.inner
        if mine.any():
            self.kept.append(batch.take(mine))
        return batch.take(rest)

    def _kept_groups(self, groups: Groups) -> NDArray[np.bool_]:
        """Samples of groups that are kept, as a mask; the same groups in every batch."""
        numbers, which = np.unique(groups, return_inverse=True)
        drawn = [stream(self.seed, "kept group", int(number)).random() for number in numbers]
        return (np.array(drawn) < _SHARE)[which.ravel()]

    @property
    def count(self) -> dict[str, int]:
        """Samples of each class that were kept."""
        names = np.concatenate([batch.classes for batch in self.kept] or [np.empty(0, np.str_)])
        return {str(name): int(n) for name, n in zip(*np.unique(names, return_counts=True), strict=True)}

    def check(self, samples: Mapping[str, int]) -> None:
        """Refuse classes, given with all their samples, of which too few were kept or none is left."""
        need, kept, groups = samples_needed(self.coverage), self.count, self._groups()
        for name, n in samples.items():
            mine = kept.get(name, 0)
            units = mine if groups is None else groups.get(name, 0)
            if units < need or mine == n:
                enough = math.ceil(1.5 * need / _SHARE)
                of, unit, such, do = "", "samples", "", "label more"
                if groups is not None:
                    of, unit, such = f" in {units} group(s)", "groups", " (polygons, or squares of --block)"
                    do = "label more, make --block smaller"
                raise ValueError(
                    f"class {name!r} has {n} samples, of which {mine}{of} were kept to calibrate sets of "
                    f"classes; a coverage of {self.coverage:g} needs {need} kept {unit} of each class, so "
                    f"about {enough} {unit}{such}: {do}, or lower --coverage"
                )

    def _groups(self) -> dict[str, int] | None:
        """Groups of each class that were kept; None where samples belong to none."""
        if all(batch.groups is None for batch in self.kept):
            return None
        everything = joined(self.kept)
        assert everything.groups is not None
        names = {str(name): everything.classes == name for name in np.unique(everything.classes)}
        return {name: len(np.unique(everything.groups[mine])) for name, mine in names.items()}

    def calibrated(self, model: FittedEstimator) -> ConformalSets:
        """The fitted model with its sets."""
        everything = all_at_once(self.kept)
        sets = ConformalSets(model, self.coverage, _SHARE)
        noise = {} if everything.covariances is None else {"X_cov": everything.covariances}
        return sets.calibrate(everything.values, everything.classes, groups=everything.groups, **noise)


def check_coverage(coverage: float) -> None:
    """Refuse what is no share, and what would need more samples than are kept.

    >>> check_coverage(1.0)
    Traceback (most recent call last):
    ...
    ValueError: the coverage is 1; it lies between 0 and 1, such as 0.9
    """
    if not 0 < coverage < 1:
        raise ValueError(f"the coverage is {coverage:g}; it lies between 0 and 1, such as 0.9")
    if 2 * samples_needed(coverage) > _ENOUGH:
        highest = 1 - 2 / _ENOUGH
        raise ValueError(
            f"the coverage is {coverage:g}; at most {highest:g} is possible with the {_ENOUGH:,} samples of "
            "each class that are kept to calibrate sets"
        )


def all_at_once(batches: Sequence[Batch]) -> Batch:
    """All samples in one batch; they need the same number of realisations."""
    numbers = sorted({1 if b.values.ndim == 2 else b.values.shape[1] for b in batches})
    if len(numbers) > 1:
        raise ValueError(
            f"the samples have {' and '.join(map(str, numbers))} realisations; this needs the same number of "
            "each; --model published without --realisations draws, --calibrate and --coverage does not"
        )
    return joined(batches)


def joined(batches: Sequence[Batch]) -> Batch:
    """Batches of one kind as one."""
    if len(batches) == 1:
        return batches[0]
    stated = [(b.covariances, len(b.classes)) for b in batches if b.covariances is not None]
    inner = [np.ones(len(b.classes), bool) if b.inner is None else b.inner for b in batches]
    return Batch(
        np.concatenate([b.values for b in batches]),
        np.concatenate([b.classes for b in batches]),
        together([b.groups for b in batches], [len(b.classes) for b in batches]),
        Covariances.join(stated) if stated else None,
        None if any(b.sure is None for b in batches) else np.concatenate([b.sure for b in batches]),
        None if all(b.inner is None for b in batches) else np.concatenate(inner),
    )
