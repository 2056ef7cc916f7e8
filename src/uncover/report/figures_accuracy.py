"""Figures and tables of how good a map is, with their words."""

from __future__ import annotations

import math
from typing import Any

from uncover.report.detection import LEVELS, Detection
from uncover.report.judged import Judged
from uncover.report.page import Figure, Table
from uncover.report.plots import detection_curve, percent
from uncover.report.plots_accuracy import confusion_matrix, rates, reliability
from uncover.report.style import figure_style, inline_svg
from uncover.report.summary import Summary


def confusion_figure(judged: Judged, number: int) -> Figure:
    """The confusion matrix of one evaluation, with rates."""
    counts, names = judged.counts, judged.classes
    with figure_style():
        svg = inline_svg(confusion_matrix(counts, names), f"Confusion matrix of {len(names)} classes")
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


def reliability_figure(judged: Judged, summary: Summary, number: int) -> Figure:
    """What was promised against what came true."""
    colours = dict(zip(summary.names, summary.colours, strict=True))
    with figure_style():
        svg = inline_svg(reliability(judged.curves, colours), "Reliability of the probabilities")
    error = judged.facts["calibration error"]["top label"]
    words = f"For the class decided for, promise and truth differ by {_interval(error)} on average."
    reading = (
        "A pixel with probability 0.8 should be right in 8 of 10 cases: on the dashed line it is. Below the "
        "line the map is too sure of itself, above it too cautious. Bars are intervals; below, how many "
        "samples there are."
    )
    rows = tuple(
        (f"{p:.3f}", f"{o:.3f}", f"{low:.3f} – {high:.3f}", f"{n:,}")
        for curve in judged.curves
        if curve.name == "top label"
        for p, o, low, high, n in zip(
            curve.promised, curve.observed, curve.lower, curve.upper, curve.samples, strict=True
        )
    )
    table = Table("The class decided for", ("promised", "came true", "interval", "samples"), rows)
    return Figure(f"reliability-{number}", "Reliability", svg, reading, words, table)


def scores_table(judged: Judged) -> Table:
    """Accuracy and scores with intervals."""
    facts = judged.facts
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


def rates_table(judged: Judged) -> Table:
    """Accuracy and rates of each class, and how often it is in the sets of its pixels."""
    facts = judged.facts["accuracy"]
    measures: tuple[str, ...] = (
        "user's accuracy", "producer's accuracy", "false positive rate", "false negative rate",
    )  # fmt: skip
    if "set coverage" in facts:
        measures += ("set coverage",)
    rows = tuple(
        (name, *(_interval(facts[m][name]) for m in measures), f"{facts[measures[1]][name]['samples']:,}")
        for name in judged.classes
    )
    return Table("Rates of each class", ("class", *measures, "samples"), rows)


def detection_figure(found: Detection) -> Figure:
    """How well pixels of untrained classes are found."""
    with figure_style():
        at = (found.known.share, found.unknown.share)
        figure = detection_curve(found.false_positive, found.true_positive, at, found.threshold)
        svg = inline_svg(figure, "True against false positives of the typicality")
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
