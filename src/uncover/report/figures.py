"""Figures of a map's report with their words: how to read them, what they show, the numbers behind them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from uncover.metrics.class_areas import CAUSES
from uncover.pipeline.evaluation import Curve, StoredEvaluation
from uncover.report.detection import LEVELS, Detection
from uncover.report.page import Figure, Table
from uncover.report.plots import (
    area_intervals,
    band_statistics,
    class_shares,
    confusion_matrices,
    detection_curve,
    model_reliability,
    percent,
    principal_components,
    rates,
    reliability,
    world_spread,
)
from uncover.report.style import figure_style, inline_svg
from uncover.report.summary import Summary


def _drawn(label: str, plot: Callable[..., Any], *values: Any) -> str:
    """A plot as SVG, with a label for readers who do not see it."""
    with figure_style():
        return inline_svg(plot(*values), label)


def shares_figure(summary: Summary) -> Figure:
    """Shares of the classes among the labels and on the map."""
    shares = {"of the map": summary.areas.share}
    total = sum(summary.label_counts.values())
    if total:
        labelled = np.array([summary.label_counts[name] for name in summary.names]) / total
        shares = {"of the labels": labelled, **shares}
    words = "; ".join(
        f"{name}: " + ", ".join(f"{percent(float(s[k]))} {kind}" for kind, s in shares.items())
        for k, name in enumerate(summary.names)
    )
    rows = tuple(
        (name, *(percent(float(s[k])) for s in shares.values()), f"{summary.areas.pixels[k]:,}")
        for k, name in enumerate(summary.names)
    )
    svg = _drawn(f"Class shares. {words}", class_shares, shares, summary.names, summary.colours)
    reading = "Each bar is the share of one class of the mapped area."
    if total:
        reading = (
            "Each bar is the share of one class: plain among the labelled pixels, hatched on the map. The "
            "two need not agree: labels are taken where classes are certain, not everywhere alike."
        )
    numbers = Table("Class shares", ("class", *shares, "pixels on the map"), rows)
    return Figure("class-shares", "Class shares", svg, reading, words + ".", numbers)


def bands_figure(summary: Summary) -> Figure:
    """Mean ± 2 s of each band and class: the model's parameters."""
    model = summary.model
    assert model is not None
    label = model.units or "value"
    with figure_style():
        figure = band_statistics(
            model.bands, {"": (model.mean, model.deviation)}, summary.names, summary.colours, label
        )
        svg = inline_svg(figure, f"Mean and spread of {len(model.bands)} bands for {_list(summary.names)}")
    wide = figure.get_figwidth() > 6
    cells = [
        [f"{m:.3g} ± {2 * s:.2g}" for m, s in zip(mean, deviation, strict=True)]
        for mean, deviation in zip(model.mean, model.deviation, strict=True)
    ]
    rows = tuple((name, *row) for name, row in zip(summary.names, cells, strict=True))
    words = " ".join(
        f"{name}: {', '.join(f'{b} {cell}' for b, cell in zip(model.bands, row, strict=True))}."
        for name, row in zip(summary.names, cells, strict=True)
    )
    reading = (
        "These are the model's own parameters, not a picture of the data: the mark is the mean of a class "
        "in a band, the bar reaches from mean − 2 s to mean + 2 s, with s the square root of the variance "
        "in the class's covariance matrix. About 95 % of a class lies within its bar. Where bars of two "
        "classes overlap in all bands, only correlations between bands can tell them apart."
    )
    table = Table("Mean ± 2 s", ("class", *model.bands), rows)
    return Figure("band-statistics", "What the model knows of each class", svg, reading, words, table, wide)


def components_figure(summary: Summary) -> Figure | None:
    """Scatter of labelled pixels (or of mapped ones) in the plane of the first two principal components."""
    model, found = summary.model, _points(summary)
    if model is None or found is None:
        return None
    values, classes, what = found
    with figure_style():
        figure, shares = principal_components(
            values, classes, model.mean, model.covariance, summary.names, summary.colours
        )
        label = f"Scatter of {len(values):,} {what} in two principal components"
        svg = inline_svg(figure, label)
    reading = (
        f"Each point is one of {len(values):,} {what}, seen from the direction in which they differ most. "
        "Ellipses hold 95 % of each class as the model has it. Classes whose ellipses overlap here may "
        "still differ in other directions."
    )
    words = (
        f"{label}; the axes hold {percent(float(shares[0]))} and {percent(float(shares[1]))} of the variance."
    )
    return Figure("principal-components", "Classes in two dimensions", svg, reading, words)


def _points(summary: Summary) -> tuple[Any, Any, str] | None:
    if summary.sample is not None and len(summary.sample.values) > 2:
        return summary.sample.values, summary.sample.classes.astype(int) - 1, "labelled pixels"
    spectra = summary.stories.spectra
    if spectra is None:
        return None
    known = np.isfinite(spectra.mean).all(axis=2) & (summary.stories.classes > 0)
    chosen = np.flatnonzero(known)[:: max(1, int(known.sum()) // 1500)]
    if len(chosen) < 3:
        return None
    values = spectra.mean.reshape(-1, spectra.mean.shape[2])[chosen]
    return values, summary.stories.classes.ravel()[chosen].astype(int) - 1, "pixels by their mapped class"


def areas_figure(summary: Summary) -> Figure:
    """Areas on the map, in the worlds, estimated with intervals, and true where that is known."""
    areas, true = summary.areas, summary.true_areas
    evaluation = next((j for j in summary.evaluations if j.areas), None)
    estimated = {} if evaluation is None else dict(evaluation.areas)
    expected = {
        name: {"value": areas.expected[k], **{key: areas.uncertainty[key][k] for key in ("lower", "upper")}}
        for k, name in enumerate(summary.names)
        if areas.uncertainty
    }
    given = (areas.area, areas.worlds, areas.unit, expected, estimated, true)
    drawn = (summary.names, summary.colours, *given)
    svg = _drawn(f"Areas of {_list(summary.names)}", area_intervals, *drawn)
    n = areas.worlds.shape[1]
    words = "; ".join(
        f"{name} {_amount(areas.area[k])} {areas.unit} on the map"
        + (f" (sd over the worlds {_amount(areas.spread[k])})" if n > 1 else "")
        + (f", {_amount(true[name])} in truth" if true else "")
        for k, name in enumerate(summary.names)
    )
    reading = _areas_reading(n, None if evaluation is None else evaluation.facts["level"], bool(true))
    return Figure("areas-figure", "Areas", svg, reading, words + ".", _areas_table(summary, estimated))


def _areas_table(summary: Summary, estimated: Mapping[str, Mapping[str, float]]) -> Table:
    """Areas of the classes, and of none of them: it has an expected area, and none that is counted."""
    areas, u, unit = summary.areas, summary.areas.uncertainty, summary.areas.unit
    columns: dict[str, Iterable[str]] = {
        "class": summary.names,
        f"mapped, {unit}": map(_amount, areas.area),
        "share of the mapped area": [percent(float(share)) for share in areas.share],
        f"expected, {unit}": map(_amount, areas.expected),
    }
    if u:
        columns[f"standard uncertainty, {unit}"] = map(_amount, u["standard_uncertainty"])
        columns["95 % interval"] = map(_between, u["lower"], u["upper"])
    if areas.worlds.shape[1] > 1:
        columns["sd over the worlds"] = map(_amount, areas.spread)
        columns["its Monte Carlo error"] = map(_amount, areas.spread_error)
        columns["lowest world"] = map(_amount, areas.worlds.min(axis=1))
        columns["highest world"] = map(_amount, areas.worlds.max(axis=1))
    if estimated:
        found = [estimated.get(name) for name in summary.names]
        columns[f"estimated, {unit}"] = ["–" if e is None else _amount(e["value"]) for e in found]
        columns["interval"] = ["–" if e is None else _between(e["lower"], e["upper"]) for e in found]
    if summary.true_areas:
        columns[f"true, {unit}"] = [_amount(summary.true_areas[name]) for name in summary.names]
    rows = list(zip(*columns.values(), strict=True))
    if areas.none:
        spread = areas.none.get(f"sd_over_worlds_{unit}")
        none = {
            "class": "none of the classes",
            "share of the mapped area": percent(areas.none["share"]),
            f"expected, {unit}": _amount(areas.none[f"expected_{unit}"]),
            "sd over the worlds": "–" if spread is None else _amount(spread),
        }
        rows.append(tuple(none.get(name, "–") for name in columns))
    return Table("Areas", tuple(columns), tuple(rows))


def _areas_reading(worlds: int, level: float | None, true: bool) -> str:
    reading = (
        "The diamond is the area on the map. The square is the expected area, the sum of the probabilities, "
        "with its 95 % interval: what the measurement, the model and the class shares may be wrong by for "
        "all pixels together, and the overlap of the classes. It holds as far as the model is right."
    )
    if worlds > 1:
        reading += (
            f" Ticks are the areas in {worlds} worlds, each a way in which the measurement may be wrong for "
            "all pixels together: their spread is what that error does to the area, which no number of "
            "pixels averages out. It is a part of the area's uncertainty only."
        )
    if level is not None:
        reading += (
            " The circle is the area estimated from the reference sample, with the map's probabilities where "
            f"its strata are the mapped area, and its {100 * level:g} % interval: this, not the mapped area, "
            "is the estimate, because it corrects for what the map gets wrong."
        )
    if true:
        reading += (
            " The cross is the true area, which is known here. Where it lies outside the ticks, the rest is "
            "due to errors of classification, and to classes that the model was never trained on."
        )
    return reading


def worlds_figure(summary: Summary) -> Figure | None:
    """Spread of the areas over the worlds; None where there is one world."""
    areas = summary.areas
    n = areas.worlds.shape[1]
    if n < 2:
        return None
    label = f"Relative spread of the areas over {n} worlds"
    svg = _drawn(label, world_spread, summary.names, summary.colours, areas.worlds)
    relative = [
        areas.spread[k] / max(float(areas.worlds[k].mean()), 1e-300) for k in range(len(summary.names))
    ]
    words = "; ".join(f"{name} {percent(float(r))}" for name, r in zip(summary.names, relative, strict=True))
    reading = (
        f"Each tick is one of {n} worlds. The error of the measurement is the same for all pixels of a "
        "scene, so that the area of a class moves as a whole: s, its standard deviation, is what that error "
        "does to the area. Misclassification is not in it."
    )
    rows = tuple(
        (name, _amount(areas.worlds[k].mean()), _amount(areas.spread[k]), percent(float(relative[k])))
        for k, name in enumerate(summary.names)
    )
    header = ("class", f"mean, {areas.unit}", f"s, {areas.unit}", "s relative to the mean")
    table = Table("Areas over the worlds", header, rows)
    title = "Spread over the worlds"
    return Figure("worlds-figure", title, svg, reading, f"Relative standard deviation: {words}.", table)


def overlap_table(summary: Summary) -> Table:
    """Likeness of each pair of classes to the model."""
    model, names = summary.model, summary.names
    assert model is not None
    shared = bhattacharyya(model.mean, model.covariance)
    rows = tuple(
        (name, *("" if i == j else _likeness(shared[i, j]) for j in range(len(names))))
        for i, name in enumerate(names)
    )
    caption = "Likeness of classes (Bhattacharyya coefficient): 0 is wholly apart, 1 is the same"
    return Table(caption, ("class", *names), rows, wide=False)


def _likeness(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def bhattacharyya(mean: Any, covariance: Any) -> Any:
    """Bhattacharyya coefficients of normal distributions (class, …), a matrix over the classes.

    >>> bhattacharyya(np.array([[0.0], [2.0]]), np.ones((2, 1, 1))).round(3).tolist()  # exp(-4/8)
    [[1.0, 0.607], [0.607, 1.0]]
    """
    K = len(mean)
    found = np.eye(K)
    for i in range(K):
        for j in range(i):
            basis = _varying((covariance[i] + covariance[j]) / 2)
            one, other = (basis.T @ covariance[k] @ basis for k in (i, j))
            middle, apart = (one + other) / 2, (mean[i] - mean[j]) @ basis
            logs = [np.linalg.slogdet(c)[1] for c in (middle, one, other)]
            distance = apart @ np.linalg.solve(middle, apart) / 8 + (logs[0] - (logs[1] + logs[2]) / 2) / 2
            found[i, j] = found[j, i] = np.exp(-distance)
    return found


def _varying(covariance: Any) -> Any:
    """Directions (feature, direction) in which a class varies, unlike a constant band or a sum of others."""
    scale = np.sqrt(np.diagonal(covariance))
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    values, vectors = np.linalg.eigh(covariance * np.outer(inverse, inverse))
    return inverse[:, None] * vectors[:, values > 1e-10]


def _amount(value: float) -> str:
    """A number of hectares or pixels with three digits or all whole ones."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _between(low: float, high: float) -> str:
    return f"{_amount(low)} – {_amount(high)}"


def _list(names: tuple[str, ...]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def confusion_figure(evaluation: StoredEvaluation, number: int) -> Figure:
    """The confusion matrix of one evaluation, with rates."""
    counts, names = evaluation.counts, evaluation.classes
    svg = _drawn(f"Confusion matrix of {len(names)} classes", confusion_matrices, {"": counts}, names)
    true, predicted = rates(counts)
    words = "; ".join(
        f"of {counts[k].sum():,} true {name}, {percent(float(true[k]))} are mapped as such, and "
        f"{percent(float(predicted[k]))} of what is mapped as {name} is"
        for k, name in enumerate(names)
    )
    reading = (
        "Rows are true classes, columns are classes of the map; blue is right, vermilion is wrong, stronger "
        "for larger shares of a row. At the right: how much of each true class was found. Below: how much "
        "of what was predicted is right."
    )
    header = ("true class", *(f"mapped {name}" for name in names), "found", "missed")
    rows = [
        (name, *(f"{n:,}" for n in counts[k]), percent(float(true[k])), percent(float(1 - true[k])))
        for k, name in enumerate(names)
    ]
    rows.append(("right", *(percent(float(v)) for v in predicted), "", ""))
    rows.append(("wrong", *(percent(float(1 - v)) for v in predicted), "", ""))
    table = Table("Samples by true and mapped class", header, tuple(rows))
    wide = len(names) > 7
    return Figure(f"confusion-{number}", "Confusion matrix", svg, reading, words + ".", table, wide)


def reliability_figure(evaluation: StoredEvaluation, summary: Summary, number: int) -> Figure:
    """Reliability of the probabilities."""
    colours = dict(zip(summary.names, summary.colours, strict=True))
    svg = _drawn("Reliability of the probabilities", reliability, evaluation.curves, colours)
    error = evaluation.facts["calibration error"]["top label"]
    words = f"For the class decided for, promise and truth differ by {_interval(error)} on average."
    reading = (
        "A pixel with probability 0.8 should be right in 8 of 10 cases: on the dashed line it is. Below the "
        "line the map is too sure of itself, above it too cautious. Bars are intervals; below, how many "
        "samples there are."
    )
    rows = tuple(
        (f"{p:.3f}", f"{o:.3f}", f"{low:.3f} – {high:.3f}", f"{n:,}")
        for curve in evaluation.curves
        if curve.name == "top label"
        for p, o, low, high, n in zip(
            curve.promised, curve.observed, curve.lower, curve.upper, curve.samples, strict=True
        )
    )
    table = Table("The class decided for", ("promised", "came true", "interval", "samples"), rows)
    return Figure(f"reliability-{number}", "Reliability", svg, reading, words, table)


Compared = Sequence[tuple[str, str, StoredEvaluation]]  # place, model and evaluation


def claims_figure(compared: Compared) -> Figure:
    """Reliability of several models, a panel for each place."""
    panels: dict[str, dict[str, Curve]] = {}
    for place, model, evaluation in compared:
        top = next(curve for curve in evaluation.curves if curve.name == "top label")
        panels.setdefault(place, {})[model] = top
    svg = _drawn("Reliability of the class decided for, by model", model_reliability, panels)
    words = "; ".join(
        f"{place}, {model}: claims {percent(evaluation.claimed)}, right {percent(_right(evaluation))}"
        for place, model, evaluation in compared
    )
    reading = (
        "Pixels are grouped by the probability of the class that the map decided for; each mark is the share "
        "of a group that is right, with its 95 % interval. On the dashed line claims come true; below it the "
        "model is too sure. Below, the share of all pixels in each group."
    )
    rows = tuple(
        (place, model, f"{p:.3f}", f"{o:.3f}", f"{low:.3f} – {high:.3f}", f"{n:,}")
        for place, curves in panels.items()
        for model, c in curves.items()
        for p, o, low, high, n in zip(c.promised, c.observed, c.lower, c.upper, c.samples, strict=True)
    )
    header = ("place", "model", "promised", "came true", "interval", "pixels")
    table = Table("Groups of pixels", header, rows)
    return Figure("claims-figure", "Reliability, side by side", svg, reading, words + ".", table, True)


def claims_table(compared: Compared) -> Table:
    """Accuracy, claim, over-statement, log loss and calibration error of several models."""
    rows = tuple(
        (
            place,
            model,
            _interval(evaluation.facts["accuracy"]["overall accuracy"]),
            f"{evaluation.claimed:.3f}",
            f"{evaluation.claimed - _right(evaluation):+.3f}",
            _interval(evaluation.facts["scores"]["cross_entropy"]),
            _interval(evaluation.facts["calibration error"]["top label"]),
        )
        for place, model, evaluation in compared
    )
    level = f"{100 * compared[0][2].facts['level']:g} %"
    caption = f"Claims and outcomes ({level} intervals)"
    columns = ("right", "claimed, mean", "over-statement", "log loss, nats", "calibration error")
    return Table(caption, ("place", "model", *columns), rows)


def _right(evaluation: StoredEvaluation) -> float:
    return float(evaluation.facts["accuracy"]["overall accuracy"]["value"])


def scores_table(evaluation: StoredEvaluation) -> Table:
    """Accuracy and scores with intervals."""
    facts = evaluation.facts
    level = f"{100 * facts['level']:g} % interval"
    named = {
        "overall accuracy": facts["accuracy"]["overall accuracy"],
        "F₁": facts["scores"]["f1"],
        "F₂": facts["scores"]["f2"],
        "cross-entropy, 1 = no better than the class shares": facts["scores"]["cross_entropy_norm"],
        "Brier score, 1 = no better than the class shares": facts["scores"]["brier_norm"],
        "calibration error of the class decided for": facts["calibration error"]["top label"],
        "calibration error of all classes": facts["calibration error"]["class-wise"],
    }
    rows = tuple((name, _value(e["value"]), _ends(e)) for name, e in named.items())
    return Table("Scores", ("measure", "value", level), rows)


def rates_table(evaluation: StoredEvaluation) -> Table:
    """Accuracy and rates of each class, and how often it is in the sets of its pixels."""
    facts = evaluation.facts["accuracy"]
    measures: tuple[str, ...] = (
        "user's accuracy", "producer's accuracy", "false positive rate", "false negative rate",
    )  # fmt: skip
    if "set coverage" in facts:
        measures += ("set coverage",)
    rows = tuple(
        (name, *(_interval(facts[m][name]) for m in measures), f"{facts[measures[1]][name]['samples']:,}")
        for name in evaluation.classes
    )
    return Table("Rates of each class", ("class", *measures, "samples"), rows)


def detection_figure(found: Detection) -> Figure:
    """Detection of pixels of untrained classes."""
    drawn = found.false_positive, found.true_positive, (found.known.share, found.unknown.share)
    label = "True against false positives of the typicality"
    svg = _drawn(label, detection_curve, *drawn, found.threshold)
    words = detection_words(found)
    rows = tuple(
        (f"{LEVELS[i]:g}", percent(float(found.true_positive[i])), percent(float(found.false_positive[i])))
        for i, level in enumerate(LEVELS)
        if any(math.isclose(level, t) for t in (1e-4, 1e-3, 1e-2, 0.1))
    )
    reading = (
        "Typicality is a p-value: small where a pixel looks like no trained class. Moving the threshold "
        "moves along the curve; the mark is the threshold of this map. Up is better, left is better."
    )
    table = Table("Thresholds", ("typicality below", "untrained found", "trained flagged"), rows)
    return Figure("detection-figure", "Classes that were never trained", svg, reading, words, table)


def detection_words(found: Detection) -> str:
    """True and false positive rate at the threshold of the map."""
    return (
        f"At typicality below {found.threshold:g}, {percent(found.unknown.share)} of "
        f"{found.unknown.pixels:,} pixels of untrained classes are flagged (true positives), and "
        f"{percent(found.known.share)} of {found.known.pixels:,} pixels of trained ones (false positives)."
    )


def detection_table(found: Detection) -> Table:
    """Flagged pixels by their true class."""
    rows = tuple((rate.name, f"{rate.pixels:,}", percent(rate.share)) for rate in found.by_class)
    caption = "Flagged pixels by true class, the untrained ones first"
    return Table(caption, ("true class", "pixels", "flagged"), rows, wide=False)


def _value(value: Any) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:.3f}"


def _ends(entry: dict[str, Any]) -> str:
    if entry["lower"] is None:
        return "no interval"
    return f"{_value(entry['lower'])} – {_value(entry['upper'])}"


def _interval(entry: dict[str, Any]) -> str:
    if entry["value"] is None:
        return "–"
    return f"{_value(entry['value'])} ({_ends(entry)})"


def area_parts_table(summary: Summary) -> Table | None:
    """Standard uncertainty of each expected area by its causes; None in maps of earlier versions."""
    areas = summary.areas
    if not areas.uncertainty:
        return None
    causes = [cause for cause in CAUSES if areas.uncertainty[f"u_{cause}"].any()]
    header = ("class", *(f"{cause.replace('_', ' ')}, {areas.unit}" for cause in causes))
    rows = tuple(
        (name, *(_amount(areas.uncertainty[f"u_{cause}"][k]) for cause in causes))
        for k, name in enumerate(summary.names)
    )
    return Table("Standard uncertainty of the expected areas by its causes", header, rows, wide=False)
