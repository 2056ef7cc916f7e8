"""Evaluations of maps: their options, their results as one table, and their files, written and read."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, Required, TypedDict

import numpy as np
from numpy.typing import NDArray

from uncover.files import check_place, json_text, read_json, typed, whole_folder, whole_or_nothing
from uncover.pipeline.file_kinds import EVALUATION_FILES, check_apart
from uncover.pipeline.references import DesignName

if TYPE_CHECKING:
    from uncover.metrics.calibration import Reliability

Floats = NDArray[np.float64]
Rows = Iterable[Sequence[Any]]

#: Scores by their names in files and on the screen.
SCORES = {
    "f1": "F1",
    "f2": "F2",
    "cross_entropy": "cross-entropy",
    "brier": "Brier",
    "cross_entropy_norm": "cross-entropy, normalised",
    "brier_norm": "Brier, normalised",
}
_MOST_BINS = 1000
CALIBRATION, AREA = "calibration error", "estimated area"
ASSISTED = "area from sample and map"
#: File beside a map that lists evaluations to be shown side by side: place, model and folder of each.
BESIDE = "comparison.json"


@dataclass(frozen=True)
class EvaluateOptions:
    """Options of an evaluation: the kind of reference, and the method.

    class_field, stratum_field, scheme, ignore, classes
        For vector files: the fields with the class and the stratum. `scheme` translates the classes,
        `classes` are (value, name) of those that count, `ignore` values that do not.
    design
        How the sample was drawn: "random", "stratified" (strata are the map's classes, or those of the
        stratum field), or "poststratified" (drawn at random, estimated by the map's classes). None: nothing
        is assumed, and no areas are estimated.
    stratum_areas
        A CSV table with the columns stratum and area_ha (or area_m2, area_km2, pixels).
    level, bins, draws, seed
        Confidence level; bins of the reliability curves; bootstrap draws and their seed.
    block
        Side in metres of the blocks of a reference raster that are resampled as a whole.
    training, buffer
        Labels that the model was trained on, a raster or a vector file with the same class field: reference
        samples nearer than `buffer` metres to one are left out; by default as far as the map's classes are
        alike, at most half a block.
    scheduler
        Address of a dask.distributed scheduler whose workers read map and reference; they see the same files.
    """

    class_field: str | None = None
    stratum_field: str | None = None
    scheme: str | None = None
    ignore: tuple[str, ...] = ()
    classes: tuple[tuple[str, str], ...] = ()
    design: DesignName | None = None
    stratum_areas: str | Path | None = None
    level: float = 0.95
    bins: int = 10
    draws: int = 1000
    seed: int = 0
    block: float = 1000.0
    training: str | Path | None = None
    buffer: float | None = None
    scheduler: str | None = None

    def __post_init__(self) -> None:
        if self.buffer is not None and self.training is None:
            raise ValueError("--buffer is a distance from training labels: give them with --training")
        if self.buffer is not None and not self.buffer >= 0:
            raise ValueError(f"--buffer is {self.buffer:g} m; give 0 or more")
        if not 0 < self.level < 1:
            raise ValueError(f"the confidence level is {self.level}; it lies between 0 and 1")
        if self.bins > _MOST_BINS:
            raise ValueError(f"{self.bins} bins came; a curve has {_MOST_BINS} at most")
        if self.bins < 2 or self.draws < 20:
            raise ValueError(f"{self.bins} bins and {self.draws} draws are too few; use 2 and 20 at least")
        if self.block <= 0:
            raise ValueError(f"blocks of {self.block} m are empty; give a positive length")


@dataclass(frozen=True)
class Result:
    """A number with its interval, its standard error where it has one, and the samples that it rests on."""

    value: float
    lower: float
    upper: float
    error: float = float("nan")
    samples: int | None = None

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "-"
        if math.isnan(self.lower):
            return f"{self.value:.3f} (no interval)"
        return f"{self.value:.3f} ({self.lower:.3f}-{self.upper:.3f})"

    def as_dict(self) -> dict[str, Any]:
        """The numbers by their names in evaluation.json."""
        entry = {"value": self.value, "standard error": self.error, "lower": self.lower, "upper": self.upper}
        return entry if self.samples is None else entry | {"samples": self.samples}


@dataclass(frozen=True)
class Evaluation:
    """Results of the comparison of a map with a reference.

    results
        One table by (measure, class), the class "" for the whole map: overall, user's and producer's accuracy
        and the rates; the coverage of sets of classes; the scores; the calibration error ("top label",
        "class-wise" or "class NAME" in place of a class); estimated areas in m², where the reference is a
        probability sample.
    curves
        Reliability curves: curve 0 is the class decided for, then the classes.
    """

    classes: tuple[str, ...]
    facts: Mapping[str, Any]
    results: Mapping[tuple[str, str], Result]
    shares: Floats
    zeros: int
    floor: float
    pixels: Floats
    mapped: Floats
    curves: Reliability
    curve_interval: tuple[Floats, Floats]
    counts: Floats  # (map, reference)
    area_shares: Floats | None  # (map, reference)
    warnings: tuple[str, ...]

    def of(self, measure: str) -> dict[str, Result]:
        """Results of one measure by class."""
        return {name: result for (mine, name), result in self.results.items() if mine == measure}

    def write(self, folder: str | Path) -> None:
        """Write the tables as CSV into a folder, and evaluation.json last: all of them or none."""
        tables = (_confusion(self), _accuracy(self), _areas(self), _reliability(self))
        with results_folder(folder) as place:
            for name, rows in zip(EVALUATION_FILES, tables, strict=False):
                with open(place / name, "w", newline="", encoding="utf-8") as file:
                    csv.writer(file, lineterminator="\n").writerows([_cell(v) for v in row] for row in rows)
            (place / EVALUATION_FILES[-1]).write_text(json_text(self.as_dict()), "utf-8")

    def as_dict(self) -> dict[str, Any]:
        """The evaluation as plain values."""
        measures: dict[str, Any] = {}
        for (measure, name), result in self.results.items():
            group = measures.setdefault(measure, {}) if name else measures
            group[name or measure] = result.as_dict()
        scores = {name: measures.pop(name) for name in SCORES}
        calibration, areas = measures.pop(CALIBRATION), measures.pop(AREA, None)
        assisted = measures.pop(ASSISTED, None)
        return {
            **self.facts,
            "classes": list(self.classes),
            "scores": scores
            | {
                "prior class shares": dict(zip(self.classes, self.shares.tolist(), strict=True)),
                "samples with probability 0 for the true class": self.zeros,
                "floor of probabilities": self.floor,
            },
            CALIBRATION: calibration,
            "accuracy": measures,
            "mapped area": dict(zip(self.classes, self.mapped.tolist(), strict=True)),
            AREA: areas,
            ASSISTED: assisted,
            "confusion (map class, reference class)": {
                "counts": self.counts.astype(int).tolist(),
                "area shares": self.area_shares,
            },
            "warnings": list(self.warnings),
        }

    def summary(self) -> str:
        """A page to read: the sample, accuracy by class, areas, scores, calibration."""
        reference, design = self.facts["reference"], self.facts["design"]
        how = design["name"] or "not a probability sample"
        strata = f", strata: {design['strata']}" if design["strata"] else ""
        overall = self.results["overall accuracy", ""]
        numbers = {title: self.results[name, ""] for name, title in SCORES.items()}
        for name in ("top label", "class-wise"):
            numbers[f"{CALIBRATION}, {name}"] = self.results[CALIBRATION, name]
        return "\n".join(
            [
                f"{self.facts['map']} against {reference['name']}: {overall.samples:,} samples "
                f"({reference['kind']})",
                f"design: {how}{strata}",
                f"overall accuracy {overall}, at {100 * self.facts['level']:g} % confidence",
                "",
                *_class_lines(self),
                "",
                *(f"{name:<30} {result}" for name, result in numbers.items()),
                _zeros_line(self),
            ]
        )

    @property
    def unit(self) -> tuple[str, float]:
        """Unit in which areas are shown, and how many of the unit of the results it holds."""
        return ("ha", 1e4) if self.facts["unit of areas"] == "m2" else ("pixels", 1.0)


@dataclass(frozen=True)
class Curve:
    """A reliability curve: mean probability and observed frequency of the bins that hold samples."""

    name: str
    promised: Floats
    observed: Floats
    lower: Floats
    upper: Floats
    samples: NDArray[np.int64]


_Entry = TypedDict(
    "_Entry",
    {
        "value": Required[float | None],
        "lower": Required[float | None],
        "upper": Required[float | None],
        "standard error": float | None,
        "samples": int,
    },
    total=False,
)
_Entries = dict[str, _Entry]
_Accuracy = TypedDict(
    "_Accuracy",
    {
        "overall accuracy": Required[_Entry],
        "user's accuracy": Required[_Entries],
        "producer's accuracy": Required[_Entries],
        "true positive rate": _Entries,
        "false negative rate": _Entries,
        "false positive rate": _Entries,
        "true negative rate": _Entries,
        "set coverage": _Entries,
    },
    total=False,
)
_Counts = TypedDict("_Counts", {"counts": list[list[int]], "area shares": Any})


class _Reference(TypedDict, total=False):
    name: Required[str]
    kind: Required[str]


class _Scores(TypedDict):
    f1: _Entry
    f2: _Entry
    cross_entropy: _Entry
    brier: _Entry
    cross_entropy_norm: _Entry
    brier_norm: _Entry


class _Design(TypedDict):
    name: str | None


#: What is read of evaluation.json.
_File = TypedDict(
    "_File",
    {
        "map": str,
        "reference": _Reference,
        "design": _Design,
        "classes": list[str],
        "level": float,
        "unit of areas": str,
        "scores": _Scores,
        "calibration error": _Entries,
        "accuracy": _Accuracy,
        "estimated area": _Entries | None,
        "area from sample and map": NotRequired[_Entries | None],
        "confusion (map class, reference class)": _Counts,
        "warnings": list[str],
    },
)


def read_facts(folder: Path) -> dict[str, Any]:
    """Content of evaluation.json, if its values are of the types that they should be."""
    found = read_json(folder / EVALUATION_FILES[-1], dict[str, Any])
    typed(found, _File, folder / EVALUATION_FILES[-1])
    return found


@dataclass(frozen=True)
class StoredEvaluation:
    """An evaluation read from its folder. `facts` is evaluation.json: numbers have value, lower and upper."""

    name: str
    facts: Mapping[str, Any]
    curves: tuple[Curve, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """Classes of map and reference."""
        return tuple(self.facts["classes"])

    @property
    def counts(self) -> NDArray[np.int64]:
        """Samples by true class (row) and map class (column)."""
        counts = self.facts["confusion (map class, reference class)"]["counts"]
        return np.asarray(counts, np.int64).T

    @property
    def claimed(self) -> float:
        """Mean probability of the mapped class."""
        curve = next(curve for curve in self.curves if curve.name == "top label")
        return float(curve.samples @ curve.promised / curve.samples.sum())

    def population(self, trained: Iterable[str]) -> str:
        """Samples that were compared, in words; ``trained`` are the classes of the map."""
        unit = "pixels" if self.facts["reference"].get("kind") == "raster" else "samples"
        return population_words(not set(self.classes) <= set(trained), unit)

    @property
    def areas(self) -> Mapping[str, Mapping[str, float]]:
        """Estimated areas in hectares or pixels by class, with the map where it helped; empty without any."""
        size = 1e4 if self.facts["unit of areas"] == "m2" else 1.0
        return {
            name: {key: value / size for key, value in entry.items() if value is not None}
            for name, entry in (self.facts.get(ASSISTED) or self.facts.get(AREA) or {}).items()
        }

    @classmethod
    def read(cls, folder: Path) -> StoredEvaluation:
        """Read a folder that `uncover evaluate` wrote."""
        try:
            facts = read_facts(folder)
            found = cls(folder.name, facts, tuple(_curves(folder / "reliability.csv")))
            if found.counts.shape != (len(found.classes),) * 2:
                raise ValueError("its confusion matrix does not fit its classes")
            if all(curve.name != "top label" for curve in found.curves):
                raise ValueError("its reliability.csv has no curve of the top label")
        except Exception as error:  # whatever its tables make of numbers
            what = f"it has no {error}" if isinstance(error, KeyError) else error
            raise ValueError(f"{folder} is not a readable evaluation: {what}") from None
        return found


def population_words(every: bool, unit: str) -> str:
    """Samples of all classes, or of those that were trained.

    >>> population_words(False, "pixels")
    'pixels of trained classes'
    """
    return f"all {unit}, never-trained classes included" if every else f"{unit} of trained classes"


def _curves(path: Path) -> list[Curve]:
    bins: dict[str, list[list[float]]] = {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if int(row["samples"]):
                columns = ("mean_probability", "observed_frequency", "lower", "upper", "samples")
                numbers = [float(row[column] or "nan") for column in columns]
                bins.setdefault(row["curve"], []).append(numbers)
    curves = []
    for name, rows in bins.items():
        promised, observed, lower, upper, samples = np.array(rows).T
        curves.append(Curve(name, promised, observed, lower, upper, samples.astype(np.int64)))
    return curves


@contextmanager
def results_folder(out: str | Path, *, overwrite: bool = True) -> Iterator[Path]:
    """A folder to write results to, for one run alone; they appear in `out` together or not at all.

    >>> import tempfile
    >>> out = Path(tempfile.mkdtemp()) / "evaluation"
    >>> with results_folder(out) as place:
    ...     _ = (place / "evaluation.json").write_text("{}")
    >>> (out / "evaluation.json").exists()
    True
    """
    goal = Path(out)
    if goal.is_dir():
        with whole_or_nothing(goal / EVALUATION_FILES[-1], overwrite=overwrite) as last:
            yield last.parent
    else:
        with whole_folder(goal) as place:
            yield place


def check_folder(out: str | Path, product: str | Path, *inputs: str | Path | None) -> Path:
    """The folder to write to, if that is possible, it is not the map's own, and no input is lost.

    >>> check_folder("nowhere/deeper", "map")
    Traceback (most recent call last):
    ...
    ValueError: nowhere/deeper cannot be written: there is no folder nowhere; make it first
    """
    goal = Path(out)
    if goal.resolve() == Path(product).resolve():
        raise ValueError(f"{goal} is the folder of the map, whose own files have these names; name another")
    for path in (goal, *(goal / name for name in EVALUATION_FILES)):
        check_apart(path, *inputs)
    if goal.exists() and not goal.is_dir():
        raise ValueError(f"{goal} is a file; name a folder to write to")
    check_place(goal / EVALUATION_FILES[-1] if goal.is_dir() else goal)
    return goal


def _cell(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return "" if math.isnan(value) else f"{value:.10g}"
    return value


def _confusion(found: Evaluation) -> Rows:
    yield ["quantity", "map class", *(f"reference {name}" for name in found.classes)]
    for name, row in zip(found.classes, found.counts.astype(int).tolist(), strict=True):
        yield ["samples", name, *row]
    if found.area_shares is not None:
        for name, row in zip(found.classes, found.area_shares.tolist(), strict=True):
            yield ["share of area", name, *row]


def _accuracy(found: Evaluation) -> Rows:
    yield ["measure", "class", "value", "standard_error", "lower", "upper", "samples"]
    for (measure, name), v in found.results.items():
        if measure not in (CALIBRATION, AREA):
            n = int(found.counts.sum()) if v.samples is None else v.samples
            yield [SCORES.get(measure, measure), name, v.value, v.error, v.lower, v.upper, n]


def _areas(found: Evaluation) -> Rows:
    unit, size = found.unit
    columns = ("estimated", "standard_error", "lower", "upper")
    both = (*columns, *(f"with_map_{column}" for column in columns))
    yield ["class", "pixels", *(f"{column}_{unit}" for column in ("mapped", *both))]
    nan = float("nan")
    nothing = Result(nan, nan, nan)
    for name, pixels, mapped in zip(found.classes, found.pixels, found.mapped, strict=True):
        each = (found.results.get((measure, name), nothing) for measure in (AREA, ASSISTED))
        numbers = (x for v in each for x in (v.value, v.error, v.lower, v.upper))
        yield [name, int(pixels), *(float(x) / size for x in (mapped, *numbers))]


def _reliability(found: Evaluation) -> Rows:
    yield ["curve", "from", "to", "samples", "mean_probability", "observed_frequency", "lower", "upper"]
    curves = found.curves
    edges = np.linspace(0, 1, curves.count.shape[-1] + 1)
    numbers = (curves.mean_probability, curves.observed_frequency, *found.curve_interval)
    for c, name in enumerate(("top label", *(f"class {name}" for name in found.classes))):
        for b in range(curves.count.shape[-1]):
            values = (float(v[c, b]) for v in numbers)
            yield [name, float(edges[b]), float(edges[b + 1]), int(curves.count[c, b]), *values]


def _class_lines(found: Evaluation) -> list[str]:
    unit, size = found.unit
    width = max(len(name) for name in (*found.classes, "class"))
    head = f"{'class':<{width}}  {'user’s accuracy':<22}{'producer’s accuracy':<22}{'mapped ' + unit:>14}"
    sets, estimates = found.of("set coverage"), [found.of(measure) for measure in (AREA, ASSISTED)]
    heads = (f"  {title} {unit:<20}" for title, each in zip(_ESTIMATES, estimates, strict=True) if each)
    lines = [(head + ("  set coverage" if sets else "") + "".join(heads)).rstrip()]
    for name, mapped in zip(found.classes, found.mapped, strict=True):
        user, producer = (str(found.results[m, name]) for m in ("user's accuracy", "producer's accuracy"))
        line = f"{name:<{width}}  {user:<22}{producer:<22}{mapped / size:>14,.1f}"
        if sets:
            line += f"  {sets[name].value:>12.3f}"
        for title, areas in zip(_ESTIMATES, estimates, strict=True):
            if areas:
                low, value, high = (
                    v / size for v in (areas[name].lower, areas[name].value, areas[name].upper)
                )
                line += f"  {f'{value:,.1f} ({low:,.1f}-{high:,.1f})':<{len(title) + 21}}"
        lines.append(line.rstrip())
    return lines


_ESTIMATES = ("estimated", "with the map")  # from the sample alone, and from sample and map


def _zeros_line(found: Evaluation) -> str:
    line = f"{found.zeros} samples have probability 0 for their true class"
    if found.floor:
        return line + f"; probabilities below half a stored step count as {found.floor:g}"
    return line + ("; the cross-entropy is infinite" if found.zeros else "")
