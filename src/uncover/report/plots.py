"""Drawn figures of classes, models, areas, accuracy and comparisons: values in, figures out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uncover.pipeline.map_facts import percent as percent
from uncover.report.style import (
    FAINT,
    INK,
    MARKERS,
    MUTED,
    OKABE_ITO,
    WIDE,
    WIDTH,
    figure_style,
    legend_above,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from uncover.estimators.comparison import Comparison
    from uncover.pipeline.evaluation import Curve

Floats = NDArray[np.floating[Any]]
Counts = NDArray[np.integer[Any]]

_RIGHT, _WRONG = OKABE_ITO[0], OKABE_ITO[5]  # blue and vermilion
_MODELS = (OKABE_ITO[0], OKABE_ITO[5], OKABE_ITO[2], OKABE_ITO[3])  # told apart by all readers


def class_shares(shares: Mapping[str, Floats], names: Sequence[str], colours: Sequence[str]) -> Figure:
    """Bars of the share of each class: a group for each class, in it a bar for each of the named `shares`.

    >>> figure = class_shares({"labels": np.array([0.4, 0.6])}, ("a", "b"), ("#0072B2", "#E69F00"))
    >>> [round(bar.get_width()) for bar in figure.axes[0].patches]
    [40, 60]
    """
    kinds = list(shares)
    figure = new_figure(0.9 + 0.27 * len(names) * (len(kinds) + 0.5))
    axes = figure.subplots()
    height = 0.8 / len(kinds)
    for i, kind in enumerate(kinds):
        at = np.arange(len(names)) + (i - (len(kinds) - 1) / 2) * height
        bars = axes.barh(at, 100 * shares[kind], height * 0.9, edgecolor=INK, linewidth=0.6)
        for bar, colour, share in zip(bars, colours, shares[kind], strict=True):
            bar.set_facecolor(colour)
            if i:  # the first bar is full, the others are hatched
                bar.set_hatch(("//", "..")[(i - 1) % 2])
            label = f"{percent(share)} {kind}".strip()
            axes.annotate(label, (100 * share, bar.get_y() + bar.get_height() / 2), (4, 0),
                          textcoords="offset points", va="center", fontsize=8, color=MUTED)  # fmt: skip
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(0, 100 * max(float(max(s.max() for s in shares.values())) * 1.45, 0.05))
    axes.set_xticks([tick for tick in axes.get_xticks() if tick <= 100])  # beyond is room for words
    axes.set_xlabel(f"share of the mapped area{' or of the labels' if len(kinds) > 1 else ''}, %")
    axes.grid(axis="y", visible=False)
    return figure


def band_statistics(
    bands: Sequence[str], panels: Mapping[str, tuple[Floats, Floats]], names: Sequence[str],
    colours: Sequence[str], label: str = "reflectance",
) -> Figure:  # fmt: skip
    """Mean ± 2 s of each band, the classes side by side; panels by title: mean and s, (class, band) each.

    >>> figure = band_statistics(["B02"], {"": (np.array([[0.1]]), np.array([[0.01]]))}, ["a"], ["#0072B2"])
    >>> figure.axes[0].get_ylabel()
    'reflectance'
    """
    width = WIDE if len(bands) * len(names) > 36 else WIDTH
    figure = new_figure(0.5 + 2.9 * len(panels), width=width)
    rows = figure.subplots(len(panels), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    offsets = (np.arange(len(names)) - (len(names) - 1) / 2) * 0.7 / max(len(names), 1)
    for axes, (title, (mean, deviation)) in zip(rows, panels.items(), strict=True):
        for k, (name, colour) in enumerate(zip(names, colours, strict=True)):
            at = np.arange(len(bands)) + offsets[k]
            low, high = mean[k] - 2 * deviation[k], mean[k] + 2 * deviation[k]
            axes.vlines(at, low, high, color=INK, linewidth=4.4)  # a rim: dark colours on a dark page
            axes.vlines(at, low, high, color=colour, linewidth=3.2)
            axes.plot(at, mean[k], MARKERS[k % len(MARKERS)], color=colour, markersize=5, label=name,
                      markeredgecolor=INK, markeredgewidth=0.7)  # fmt: skip
        for edge in np.arange(len(bands) - 1) + 0.5:
            axes.axvline(edge, color=FAINT, linewidth=0.7)
        axes.grid(axis="x", visible=False)
        axes.set(ylabel=label, title=title)
    rows[-1].set_xticks(range(len(bands)), bands, rotation=90 if len(bands) > 16 else 0)
    rows[-1].set_xlim(-0.6, len(bands) - 0.4)
    legend_above(figure, rows[0])
    return figure


def component_scatter(
    panels: Mapping[str, tuple[Floats, NDArray[Any], Any]], names: Sequence[str],
    colours: Sequence[str],
) -> Figure:  # fmt: skip
    """Samples in the plane of two principal components, in the colours and marks of their classes.

    Panels by title: points (sample, 2), their classes numbered from 0, the share of variance of each axis.

    >>> panel = np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([0, 0]), (0.9, 0.1)
    >>> component_scatter({"": panel}, ["a"], ["#0072B2"]).axes[0].get_ylabel()
    '2nd, 10 %'
    """
    figure = new_figure(3.7, width=WIDE if len(panels) > 1 else WIDTH)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, (title, (points, classes, shares)) in zip(axes, panels.items(), strict=True):
        many = len(points) > 3000
        turn = np.random.default_rng(0).integers(8 if many else 1, size=len(points))
        for part, k in np.ndindex(8 if many else 1, len(names)):  # in turns: no class hides all others
            x, y = points[(classes == k) & (turn == part)].T
            ax.scatter(
                x, y, s=6 if many else 11, marker=MARKERS[k % len(MARKERS)], color=colours[k],
                alpha=0.55 if many else 0.7, edgecolors=INK, linewidths=0.25,  # a rim: dark on a dark page
                label="" if part else names[k], rasterized=many,
            )  # fmt: skip
        ax.set_xlabel(f"1st principal component, {100 * shares[0]:.0f} % of the variance")
        ax.set_ylabel(f"2nd, {100 * shares[1]:.0f} %")
        ax.set_title(title)
    legend_above(figure, axes[0])
    return figure


def principal_components(
    values: Floats, classes: NDArray[Any], mean: Floats, covariance: Floats,
    names: Sequence[str], colours: Sequence[str],
) -> tuple[Figure, Floats]:  # fmt: skip
    """Scatter of samples (pixel, band) of classes numbered from 0, in the plane in which they differ most.

    Ellipses hold 95 % of each class as the model (mean, covariance) has it. Also returns the share of the
    variance along each of the two axes.

    >>> rng = np.random.default_rng(0)
    >>> figure, shares = principal_components(
    ...     rng.normal(size=(40, 3)) * [3, 1, 0.1], np.arange(40) % 2, np.zeros((2, 3)),
    ...     np.stack([np.eye(3)] * 2), ("a", "b"), ("#0072B2", "#E69F00"))
    >>> bool(shares[0] > shares[1] > 0)
    True
    """
    from matplotlib.patches import Ellipse

    middle = values.mean(axis=0)
    _, size, directions = np.linalg.svd(values - middle, full_matrices=False)
    plane = directions[:2].T * np.sign(directions[:2].sum(axis=1) + 1e-12)
    shares = size[:2] ** 2 / max(float((size**2).sum()), 1e-300)
    figure = component_scatter({"": ((values - middle) @ plane, classes, shares)}, names, colours)
    axes, centres = figure.axes[0], (mean - middle) @ plane
    for k, colour in enumerate(colours):
        spread, turn = np.linalg.eigh(plane.T @ covariance[k] @ plane)
        wide = 2 * np.sqrt(5.991 * np.maximum(spread, 0))  # the 95 % point of chi-squared with 2 degrees
        angle = float(np.degrees(np.arctan2(turn[1, 1], turn[0, 1])))
        for edge, width in ((INK, 2.2), (colour, 1.4)):
            ellipse = Ellipse(centres[k], wide[1], wide[0], angle=angle, fill=False, edgecolor=edge, lw=width)
            axes.add_patch(ellipse)
    axes.autoscale_view()
    return figure, shares


def confusion_matrices(matrices: Mapping[str, Counts], names: Sequence[str]) -> Figure:
    """Samples by true class (row) and predicted class (column), with the shares right and wrong of each.

    Shares of each true class are at the right, those of each predicted class below. Panels by title.

    >>> figure = confusion_matrices({"": np.array([[8, 2], [1, 9]])}, ("a", "b"))
    >>> [text.get_text() for text in figure.axes[0].texts][:4]
    ['8', '2', '1', '9']
    """
    k = len(names)
    columns = 1 if len(matrices) == 1 else 2 if len(matrices) <= 4 or k > 5 else 3
    rows = -(-len(matrices) // columns)
    width = WIDTH if columns == 1 and k <= 7 else WIDE
    figure = new_figure((1.3 + (0.45 if columns == 1 else 0.36) * (k + 2)) * rows, width=width)
    panels = figure.subplots(rows, columns, squeeze=False).reshape(-1)
    for axes, (title, counts) in zip(panels, matrices.items(), strict=False):
        _confusion(axes, counts, names)
        axes.set_title(title)
    for axes in panels[len(matrices) :]:
        axes.axis("off")
    return figure


def _confusion(axes: Axes, counts: Counts, names: Sequence[str]) -> None:
    """Cells, and two more rows and columns with shares, apart by a gap."""
    k, end = len(names), len(names) + 0.3
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    for i, j in np.ndindex(k, k):
        _cell(axes, j, i, shares[i, j], _RIGHT if i == j else _WRONG, _short(int(counts[i, j])))
    for i, (true, predicted) in enumerate(zip(*rates(counts), strict=True)):
        for m, colour in enumerate((_RIGHT, _WRONG)):
            for share, x, y in ((true, end + m, i), (predicted, i, end + m)):
                share = 1 - share if m else share
                _cell(axes, x, y, share, colour, percent(float(share)).removesuffix(" %"))
    places = [*(np.arange(k) + 0.5), end + 0.5, end + 1.5]
    labels = [*names, "right, %", "wrong, %"]
    axes.set(xlim=(-0.02, end + 2.02), ylim=(end + 2.02, -0.02))
    axes.set_yticks(places, labels)
    axes.set_xticks(places, labels, rotation=40, ha="right", rotation_mode="anchor")
    axes.tick_params(length=0)
    axes.set_ylabel("true class")
    axes.set_xlabel("predicted class")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def _cell(axes: Axes, x: float, y: float, share: float, colour: str, text: str) -> None:
    """A square, stronger in colour for a larger share; its text shrinks to fit."""
    from matplotlib.patches import Rectangle

    strength = float(np.nan_to_num(share))
    box = Rectangle((x + 0.02, y + 0.02), 0.96, 0.96, color=colour, alpha=0.06 + 0.7 * strength, linewidth=0)
    axes.add_patch(box)
    size = min(8.0, 38 / max(len(text), 1))
    axes.text(x + 0.5, y + 0.5, text, ha="center", va="center", fontsize=size, zorder=3,
              color="white" if strength > 0.75 else INK)  # fmt: skip


def rates(counts: Counts) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Share that is right of each true class (rows), and of each predicted class (columns); NaN of none.

    >>> true, predicted = rates(np.array([[8, 2], [1, 9]]))
    >>> true.tolist(), predicted.round(3).tolist()
    ([0.8, 0.9], [0.889, 0.818])
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        hits = np.diagonal(counts).astype(float)
        return hits / counts.sum(axis=1), hits / counts.sum(axis=0)


def _short(n: int) -> str:
    """A number that fits into a cell: thousands from 100,000 on."""
    return f"{n:,}" if n < 100_000 else f"{n / 1000:,.0f} k"


def area_intervals(
    names: Sequence[str], colours: Sequence[str], mapped: Floats, worlds: Floats, unit: str,
    expected: Mapping[str, Mapping[str, float]], estimated: Mapping[str, Mapping[str, float]],
    true: Mapping[str, float],
) -> Figure:  # fmt: skip
    """Areas of classes: on the map, in each world (class, world), expected and estimated, and true.

    >>> worlds = np.array([[2.9, 3.1]])
    >>> figure = area_intervals(("a",), ("#0072B2",), np.array([3.0]), worlds, "ha", {}, {}, {})
    >>> figure.axes[0].get_xlabel()
    'area, ha'
    """
    figure = new_figure(1.1 + 0.5 * len(names))
    axes = figure.subplots()
    for k, (name, colour) in enumerate(zip(names, colours, strict=True)):
        if worlds.shape[1] > 1:
            at = np.full(worlds.shape[1], k + 0.12)
            _ticks(axes, worlds[k], at, colour)
        axes.plot(mapped[k], k + 0.12, "D", color=colour, markeredgecolor=INK, markersize=6)
        for found, height, marker in ((expected, k - 0.08, "s"), (estimated, k - 0.28, "o")):
            if name in found:
                e = found[name]
                axes.plot([e["lower"], e["upper"]], [height] * 2, color=INK, linewidth=1.4)
                axes.plot(e["value"], height, marker, color=colour, markeredgecolor=INK, markersize=6)
        if name in true:
            axes.plot(true[name], k + 0.12, "x", color=INK, markersize=7, markeredgewidth=1.8)
    axes.plot([], [], "D", color="none", markeredgecolor=INK, label="on the map")
    if worlds.shape[1] > 1:
        axes.plot([], [], "|", color=INK, markersize=11, label="in each world")
    if expected:
        axes.plot([], [], "s-", color=INK, markerfacecolor="none", label="expected, with interval")
    if estimated:
        axes.plot([], [], "o-", color=INK, markerfacecolor="none", label="estimated, with interval")
    if true:
        axes.plot([], [], "x", color=INK, markeredgewidth=1.8, label="true")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.6)
    axes.set_xlim(left=-0.02 * axes.get_xlim()[1])
    axes.set_xlabel(f"area, {unit}")
    axes.grid(axis="y", visible=False)
    legend_above(figure, axes)
    return figure


def _ticks(axes: Any, x: Floats, y: Floats, colour: str) -> None:
    """Upright ticks with a rim, so that dark colours are seen on a dark page."""
    axes.plot(x, y, "|", color=INK, markersize=13, markeredgewidth=3.0, alpha=0.55)
    axes.plot(x, y, "|", color=colour, markersize=12, markeredgewidth=1.8)


def world_spread(names: Sequence[str], colours: Sequence[str], worlds: Floats) -> Figure:
    """Deviation of the area of each class in each world (class, world) from its mean, in per cent.

    >>> figure = world_spread(("a",), ("#0072B2",), np.array([[2.0, 4.0]]))
    >>> figure.axes[0].lines[0].get_xdata().round(1).tolist()
    [-33.3, 33.3]
    """
    mean = worlds.mean(axis=1, keepdims=True)
    away = 100 * np.divide(worlds - mean, mean, out=np.zeros_like(worlds), where=mean > 0)
    figure = new_figure(1.3 + 0.5 * len(names))
    axes = figure.subplots()
    for k, colour in enumerate(colours):
        _ticks(axes, away[k], np.full(len(away[k]), k), colour)
        s = away[k].std(ddof=1)
        axes.annotate(f"s = {s:.2g} %", (1, k), (0, 9), xycoords=("axes fraction", "data"), ha="right",
                      textcoords="offset points", fontsize=8.5, color=MUTED)  # fmt: skip
    axes.axvline(0, color=MUTED, linewidth=1)
    most = max(float(np.abs(away).max()) * 1.1, 0.1)
    axes.set(
        xlim=(-most, most), ylim=(len(names) - 0.4, -0.6), xlabel="away from the mean over the worlds, %"
    )
    axes.set_yticks(range(len(names)), names)
    axes.grid(axis="y", visible=False)
    return figure


def detection_curve(
    false_positive: Floats, true_positive: Floats, at: tuple[float, float], threshold: float
) -> Figure:
    """Share of untrained pixels found against the share of trained ones flagged, for every threshold.

    >>> figure = detection_curve(np.array([0.0, 1.0]), np.array([0.0, 1.0]), (0.01, 0.8), 0.001)
    >>> figure.axes[0].get_xlabel()
    'trained pixels flagged'
    """
    figure = new_figure(3.6)
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], "--", color=MUTED, linewidth=1, label="guessing")
    axes.plot(false_positive, true_positive, color=OKABE_ITO[0], label="all thresholds")
    axes.plot(
        *at, "o", color=OKABE_ITO[5], markeredgecolor=INK, markersize=8, label=f"typicality < {threshold:g}"
    )
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="trained pixels flagged", ylabel="untrained pixels found")
    axes.legend(loc="lower right")
    return figure


def reliability(curves: Sequence[Curve], colours: dict[str, str]) -> Figure:
    """Observed frequency against probability: the class decided for with intervals, and every class.

    >>> from uncover.pipeline.evaluation import Curve
    >>> one = np.array([0.9])
    >>> figure = reliability([Curve("top label", one, one, one - 0.1, one, np.array([50]))], {})
    >>> len(figure.axes)
    2
    """
    figure = new_figure(4.2)
    axes, bars = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    axes.plot([0, 1], [0, 1], "--", color=MUTED, linewidth=1, label="ideal")
    for k, curve in enumerate(c for c in curves if c.name != "top label"):
        name = curve.name.removeprefix("class ")
        axes.plot(
            curve.promised,
            curve.observed,
            MARKERS[k % len(MARKERS)] + "-",
            linewidth=1.2,
            markersize=5,
            markeredgecolor=INK,
            markeredgewidth=0.6,
            color=colours.get(name, MUTED),
            label=name,
        )
    for curve in (c for c in curves if c.name == "top label"):
        low = np.nan_to_num(curve.observed - curve.lower).clip(min=0)
        high = np.nan_to_num(curve.upper - curve.observed).clip(min=0)
        how = {"fmt": "o-", "color": INK, "capsize": 3, "markersize": 6, "label": "class decided for"}
        axes.errorbar(curve.promised, curve.observed, (low, high), **how)
        bars.bar(curve.promised, curve.samples, width=0.05, color=MUTED)
    axes.set(xlim=(0, 1.02), ylim=(0, 1.04), ylabel="share that came true")
    legend_above(figure, axes)
    bars.set(xlabel="probability that was promised", ylabel="samples")
    bars.ticklabel_format(axis="y", style="plain")
    return figure


def model_reliability(panels: Mapping[str, Mapping[str, Curve]]) -> Figure:
    """Observed frequency against claimed probability of several models: a panel for each place.

    >>> from uncover.pipeline.evaluation import Curve
    >>> one = np.array([0.9])
    >>> figure = model_reliability({"here": {"a": Curve("top label", one, one, one - 0.1, one, one)}})
    >>> len(figure.axes)
    2
    """
    figure = new_figure(4.2, WIDE)
    grid = figure.subplots(2, len(panels), sharex=True, sharey="row", height_ratios=(4, 1), squeeze=False)
    for (place, curves), (axes, bars) in zip(panels.items(), grid.T, strict=True):
        axes.plot([0, 1], [0, 1], "--", color=MUTED, linewidth=1, label="claims come true")
        for k, (model, curve) in enumerate(curves.items()):
            low = np.nan_to_num(curve.observed - curve.lower).clip(min=0)
            high = np.nan_to_num(curve.upper - curve.observed).clip(min=0)
            how = {
                "fmt": f"{MARKERS[k % len(MARKERS)]}-",
                "color": _MODELS[k % len(_MODELS)],
                "capsize": 3,
                "label": model,
            }
            axes.errorbar(curve.promised, curve.observed, (low, high), markersize=5, **how)
            share, width = curve.samples / curve.samples.sum(), 0.07 / len(curves)
            at = curve.promised + (k - (len(curves) - 1) / 2) * width
            bars.bar(at, share, width=width, color=_MODELS[k % len(_MODELS)])
        axes.set_title(place)
        axes.set(xlim=(0.2, 1.02), ylim=(0, 1.04))
        bars.set(xlabel="claimed probability", ylim=(0, 1), xticks=(0.4, 0.6, 0.8, 1.0))
    grid[0, 0].set_ylabel("share that came true")
    grid[1, 0].set_ylabel("pixels")
    legend_above(figure, grid[0, 0])
    return figure


_TITLES = {
    "cross_entropy": "Cross-entropy in nats",
    "brier": "Brier score",
    "error": "Share of wrong classes",
    "calibration_error": "Calibration error",
    "seconds": "Seconds",
}
# Differences that span more than this share of each other get a logarithmic axis beyond the smaller ones.
_WIDE = 12.0


def comparison_figure(
    found: Comparison, metrics: Sequence[str] = ("cross_entropy", "brier"), level: float = 0.95
) -> Figure:
    """Draw a comparison: mean differences to the best model of each score, with intervals.

    Parameters
    ----------
    found : Comparison
        What :func:`uncover.compare` returned.
    metrics : sequence of str
        Scores, one panel each: "cross_entropy", "brier", "error", "calibration_error", "seconds".
    level : float
        Of the intervals.

    Returns
    -------
    matplotlib.figure.Figure
        To be written by :func:`uncover.report.save_figure`, or shown by a notebook.

    Examples
    --------
    >>> from uncover.estimators.comparison import METRICS, Comparison
    >>> scores = {name: np.array([[0.2, 0.4, 0.3], [0.3, 0.6, 0.4]]) for name in (*METRICS, "seconds")}
    >>> figure = comparison_figure(Comparison(("a", "b"), scores, folds=3, floor=1e-6))
    >>> [axes.get_title(loc="left") for axes in figure.axes]
    ['Cross-entropy in nats', 'Brier score']
    """
    unknown = [name for name in metrics if name not in _TITLES]
    if unknown or not metrics:
        raise ValueError(f"there is no score {unknown}; choose from {', '.join(_TITLES)}.")
    order = np.argsort(found.scores[metrics[0]].mean(1), kind="stable")
    names = [found.names[i] for i in order]
    labels = 0.075 * max(map(len, names))  # inches
    with figure_style():
        figure = new_figure(height=1.15 + 0.3 * len(names), width=labels + 3.3 * len(metrics))
        panels = figure.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
        for ax, metric in zip(panels, metrics, strict=True):
            _differences(ax, found, metric, names, level)
        panels[0].set_yticks(range(len(names)), names)
        panels[0].set_ylim(len(names) - 0.4, -0.6)
        splits = found.scores["brier"].shape[1]
        figure.supxlabel(
            f"difference to the best: mean of {splits} splits and {100 * level:g} % interval, filled where "
            "it does not hold 0; scores on the right",
            fontsize=9, color=MUTED,
        )  # fmt: skip
    return figure


def _differences(ax: Axes, found: Comparison, metric: str, names: list[str], level: float) -> None:
    """Intervals of all models, those that hold 0 hollow: they cannot be told from the best."""
    best, means = found.best(metric), found.mean(metric)
    ax.axvline(0, color=MUTED, linewidth=1.0, zorder=1)
    ends = []
    for row, name in enumerate(names):
        ax.text(
            1.0, row, f"{means[name]:#.3g}", transform=ax.get_yaxis_transform(), ha="left",
            va="center_baseline", fontsize=8.5, color=INK, fontweight="bold" if name == best else "normal",
        )  # fmt: skip
        if name == best:
            ax.plot([0], [row], marker="D", color=INK, markersize=6, linestyle="none", zorder=4)
            continue
        mean, low, high = found.difference(metric, name, best, level)
        ends += [mean, low, high]
        told = low > 0
        colour = OKABE_ITO[5] if told else OKABE_ITO[0]
        ax.hlines(row, low, high, color=colour, linewidth=1.8, zorder=2)
        ax.plot(
            [mean], [row], marker="o", color=colour, markerfacecolor=colour if told else "white",
            markersize=6, markeredgewidth=1.4, linestyle="none", zorder=3,
        )  # fmt: skip
    ax.set_title(_TITLES[metric])
    ax.grid(False, axis="y")
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_color(FAINT)
    _fit_axis(ax, np.array(ends))


def _fit_axis(ax: Axes, ends: np.ndarray[Any, Any]) -> None:
    """Linear, or logarithmic beyond the middle of the differences where some are far larger."""
    if not ends.size:
        return
    highs = np.sort(np.abs(ends.reshape(-1, 3)).max(axis=1))
    middle = highs[(len(highs) - 1) // 2]
    if middle > 0 and highs[-1] > _WIDE * middle:
        ax.set_xscale("symlog", linthresh=float(f"{2 * middle:.1g}"), linscale=1.4)
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        return
    room = 0.06 * (max(ends.max(), 0.0) - min(ends.min(), 0.0))
    ax.set_xlim(min(ends.min(), 0.0) - room, max(ends.max(), 0.0) + room)
