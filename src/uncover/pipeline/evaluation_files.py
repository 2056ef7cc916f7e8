"""Evaluations as files (JSON and CSV) and as text."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from uncover.pipeline.evaluation import Evaluation, Result
from uncover.pipeline.files import check_apart, check_place, whole_or_nothing

FILES = ("confusion.csv", "accuracy.csv", "areas.csv", "reliability.csv", "evaluation.json")

_SCORES = {
    "f1": "F1",
    "f2": "F2",
    "cross_entropy": "cross-entropy",
    "brier": "Brier",
    "cross_entropy_norm": "cross-entropy, normalised",
    "brier_norm": "Brier, normalised",
}


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
    for path in (goal, *(goal / name for name in FILES)):
        check_apart(path, *inputs)
    if goal.exists() and not goal.is_dir():
        raise ValueError(f"{goal} is a file; name a folder to write to")
    check_place(goal / FILES[-1] if goal.is_dir() else goal)
    return goal


def write_evaluation(found: Evaluation, folder: str | Path) -> None:
    """Write the tables, and evaluation.json last."""
    goal = Path(folder)
    goal.mkdir(exist_ok=True)
    tables = {
        "confusion.csv": _confusion(found),
        "accuracy.csv": _accuracy(found),
        "areas.csv": _areas(found),
        "reliability.csv": _reliability(found),
    }
    for name, rows in tables.items():
        with whole_or_nothing(goal / name) as path, open(path, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([_cell(v) for v in row] for row in rows)
    with whole_or_nothing(goal / "evaluation.json") as path:
        text = json.dumps(_plain(as_dict(found)), indent=2, ensure_ascii=False, allow_nan=False)
        path.write_text(text + "\n", "utf-8")


def _cell(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return "" if math.isnan(value) else f"{value:.10g}"
    return value


def _plain(value: Any) -> Any:
    """Values that JSON knows: what is not a number is null, and infinity is a word."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, float | np.floating):
        if math.isnan(value):
            return None
        return float(value) if math.isfinite(value) else "infinity"
    return value


def as_dict(found: Evaluation) -> dict[str, Any]:
    """The evaluation as plain values."""
    measures: dict[str, Any] = {}
    for (measure, name), (value, n) in found.measures.items():
        entry = _entry(value) | {"samples": n}
        if name:
            measures.setdefault(measure, {})[name] = entry
        else:
            measures[measure] = entry
    return {
        **found.facts,
        "classes": list(found.classes),
        "scores": {name: _entry(value) for name, value in found.scores.items()}
        | {
            "prior class shares": dict(zip(found.classes, found.shares.tolist(), strict=True)),
            "samples with probability 0 for the true class": found.zeros,
            "floor of probabilities": found.floor,
        },
        "calibration error": {name: _entry(value) for name, value in found.calibration.items()},
        "accuracy": measures,
        "mapped area": dict(zip(found.classes, found.mapped.tolist(), strict=True)),
        "estimated area": {name: _entry(value) for name, value in found.areas.items()} or None,
        "confusion (map class, reference class)": {
            "counts": found.counts.astype(int).tolist(),
            "area shares": found.area_shares,
        },
        "warnings": list(found.warnings),
    }


def _entry(found: Result) -> dict[str, Any]:
    return {
        "value": found.value,
        "standard error": found.error,
        "lower": found.lower,
        "upper": found.upper,
    }


Rows = Iterable[Sequence[Any]]


def _confusion(found: Evaluation) -> Rows:
    yield ["quantity", "map class", *(f"reference {name}" for name in found.classes)]
    for name, row in zip(found.classes, found.counts.astype(int).tolist(), strict=True):
        yield ["samples", name, *row]
    if found.area_shares is not None:
        for name, row in zip(found.classes, found.area_shares.tolist(), strict=True):
            yield ["share of area", name, *row]


def _accuracy(found: Evaluation) -> Rows:
    yield ["measure", "class", "value", "standard_error", "lower", "upper", "samples"]
    for (measure, name), (v, n) in found.measures.items():
        yield [measure, name, v.value, v.error, v.lower, v.upper, n]
    for score, v in found.scores.items():
        yield [_SCORES[score], "", v.value, v.error, v.lower, v.upper, int(found.counts.sum())]


def _areas(found: Evaluation) -> Rows:
    unit, size = _unit(found)
    columns = ("mapped", "estimated", "standard_error", "lower", "upper")
    yield ["class", "pixels", *(f"{column}_{unit}" for column in columns)]
    nothing = Result(*[float("nan")] * 4)
    for name, pixels, mapped in zip(found.classes, found.pixels, found.mapped, strict=True):
        v = found.areas.get(name, nothing)
        yield [name, int(pixels), *(float(x) / size for x in (mapped, v.value, v.error, v.lower, v.upper))]


def _reliability(found: Evaluation) -> Rows:
    yield [
        "curve",
        "from",
        "to",
        "samples",
        "mean_probability",
        "observed_frequency",
        "lower",
        "upper",
    ]
    curves = found.curves
    edges = np.linspace(0, 1, curves.count.shape[-1] + 1)
    promised, observed = curves.mean_probability, curves.observed_frequency
    low, high = found.curve_interval
    for c, name in enumerate(("top label", *(f"class {name}" for name in found.classes))):
        for b in range(curves.count.shape[-1]):
            values = (float(v[c, b]) for v in (promised, observed, low, high))
            yield [name, float(edges[b]), float(edges[b + 1]), int(curves.count[c, b]), *values]


def _unit(found: Evaluation) -> tuple[str, float]:
    """Unit in which areas are shown, and how many of the unit of the evaluation it holds."""
    return ("ha", 1e4) if found.facts["unit of areas"] == "m2" else ("pixels", 1.0)


def summarise(found: Evaluation) -> str:
    """A page to read: the sample, accuracy by class, areas, scores, calibration."""
    reference, design = found.facts["reference"], found.facts["design"]
    how = design["name"] or "not a probability sample"
    strata = f", strata: {design['strata']}" if design["strata"] else ""
    overall, n = found.measures["overall accuracy", ""]
    lines = [
        f"{found.facts['map']} against {reference['name']}: {n:,} samples ({reference['kind']})",
        f"design: {how}{strata}",
        f"overall accuracy {_text(overall)}, at {100 * found.facts['level']:g} % confidence",
        "",
        *_class_lines(found),
        "",
    ]
    numbers = {_SCORES[name]: value for name, value in found.scores.items()} | {
        f"calibration error, {name}": found.calibration[name] for name in ("top label", "class-wise")
    }
    lines += [f"{name:<30} {_text(value)}" for name, value in numbers.items()]
    return "\n".join([*lines, _zeros_line(found)])


def _class_lines(found: Evaluation) -> list[str]:
    unit, size = _unit(found)
    width = max(len(name) for name in (*found.classes, "class"))
    head = f"{'class':<{width}}  {'user’s accuracy':<22}{'producer’s accuracy':<22}{'mapped ' + unit:>14}"
    sets = any(measure == "set coverage" for measure, _ in found.measures)
    lines = [head + ("  set coverage" if sets else "") + (f"  estimated {unit}" if found.areas else "")]
    for name, mapped in zip(found.classes, found.mapped, strict=True):
        user, producer = (found.measures[m, name][0] for m in ("user's accuracy", "producer's accuracy"))
        line = f"{name:<{width}}  {_text(user):<22}{_text(producer):<22}{mapped / size:>14,.1f}"
        if sets:
            line += f"  {found.measures['set coverage', name][0].value:>12.3f}"
        if found.areas:
            area = found.areas[name]
            line += "  {:,.1f} ({:,.1f}-{:,.1f})".format(
                *(v / size for v in (area.value, area.lower, area.upper))
            )
        lines.append(line)
    return lines


def _zeros_line(found: Evaluation) -> str:
    line = f"{found.zeros} samples have probability 0 for their true class"
    if found.floor:
        return line + f"; probabilities below half a stored step count as {found.floor:g}"
    return line + ("; the cross-entropy is infinite" if found.zeros else "")


def _text(found: Result) -> str:
    if math.isnan(found.value):
        return "-"
    return f"{found.value:.3f} ({found.lower:.3f}-{found.upper:.3f})"
