"""The figure of a comparison of classifiers: how far each is from the best, one panel for each score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from uncover.report.style import FAINT, INK, MUTED, OKABE_ITO, figure_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from uncover.estimators.comparison import Comparison

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
            _panel(ax, found, metric, names, level)
        panels[0].set_yticks(range(len(names)), names)
        panels[0].set_ylim(len(names) - 0.4, -0.6)
        splits = found.scores["brier"].shape[1]
        figure.supxlabel(
            f"difference to the best: mean of {splits} splits and {100 * level:g} % interval, filled where "
            "it does not hold 0; scores on the right",
            fontsize=9, color=MUTED,
        )  # fmt: skip
    return figure


def _panel(ax: Axes, found: Comparison, metric: str, names: list[str], level: float) -> None:
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
