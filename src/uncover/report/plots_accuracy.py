"""Figures of how good a classification is: confusion matrices with rates, reliability of probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uncover.report.judged import Curve
from uncover.report.plots import percent
from uncover.report.style import INK, MARKERS, MUTED, OKABE_ITO, WIDE, WIDTH, legend_above, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Counts = NDArray[np.integer[Any]]

_RIGHT, _WRONG = OKABE_ITO[0], OKABE_ITO[5]  # blue and vermilion


def confusion_matrix(counts: Counts, names: Sequence[str]) -> Figure:
    """Samples by true class (row) and predicted class (column), and the shares that are right and wrong.

    Shares per true class are at the right, those per predicted class below.

    >>> figure = confusion_matrix(np.array([[8, 2], [1, 9]]), ("a", "b"))
    >>> sorted({text.get_text() for text in figure.axes[0].texts})
    ['1', '2', '8', '9']
    """
    k = len(names)
    figure = new_figure(1.2 + 0.52 * (k + 2), width=WIDTH if k <= 7 else WIDE)
    grid = figure.add_gridspec(2, 2, width_ratios=(k, 2), height_ratios=(k, 2), wspace=0.02, hspace=0.02)
    matrix, right, below = (figure.add_subplot(grid[at]) for at in ((0, 0), (0, 1), (1, 0)))
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    hit = np.eye(k, dtype=bool)
    _cells(matrix, np.array([[_short(int(n)) for n in row] for row in counts]), shares, hit)
    true, predicted = rates(counts)
    _cells(right, _text(np.stack([true, 1 - true], 1)), np.stack([true, 1 - true], 1), _first(k))
    _cells(
        below, _text(np.stack([predicted, 1 - predicted])), np.stack([predicted, 1 - predicted]), _first(k).T
    )
    matrix.set_yticks(range(k), names)
    matrix.set_xticks([])
    matrix.set_ylabel("true class")
    right.set_xticks(range(2), ("right", "wrong"))
    right.xaxis.tick_top()
    right.set_yticks([])
    below.set_yticks(range(2), ("right", "wrong"))
    upright = max(map(len, names)) * k < (42 if k <= 7 else 90)
    how: dict[str, Any] = {} if upright else {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
    below.set_xticks(range(k), names, **how)
    below.set_xlabel("predicted class")
    return figure


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
    """A number that fits into a cell: thousands from 100,000 on, nothing for 0."""
    return "" if n == 0 else f"{n:,}" if n < 100_000 else f"{n / 1000:,.0f} k"


def _first(k: int) -> NDArray[np.bool_]:
    return np.tile([True, False], (k, 1))


def _text(shares: NDArray[np.float64]) -> NDArray[Any]:
    return np.array([[percent(float(v)) for v in row] for row in shares])


def _cells(axes: Axes, text: NDArray[Any], shares: NDArray[np.float64], right: NDArray[np.bool_]) -> None:
    """Squares, blue where right and vermilion where wrong, stronger for larger shares."""
    from matplotlib.patches import Rectangle

    rows, cols = shares.shape
    for i in range(rows):
        for j in range(cols):
            strength = 0.0 if shares[i, j] != shares[i, j] else 0.08 + 0.72 * float(shares[i, j])
            strength = 0.0 if shares[i, j] == 0 else strength
            colour = _RIGHT if right[i, j] else _WRONG
            box = Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=colour, alpha=strength, linewidth=0)
            axes.add_patch(box)
            axes.text(j, i, text[i, j], ha="center", va="center", fontsize=8.5, color=INK)
    axes.set(xlim=(-0.5, cols - 0.5), ylim=(rows - 0.5, -0.5))
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(True)


def reliability(curves: Sequence[Curve], colours: dict[str, str]) -> Figure:
    """What came true against what was promised: the class decided for with intervals, and every class.

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
