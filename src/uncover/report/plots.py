"""Figures of scenes, labels, models and areas. Values in, matplotlib figures out; nothing is read here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uncover.report.style import FAINT, INK, MARKERS, MUTED, OKABE_ITO, WIDE, WIDTH, legend_above, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.floating[Any]]


def class_shares(shares: Mapping[str, Floats], names: Sequence[str], colours: Sequence[str]) -> Figure:
    """Bars of the share of each class, one group for each class and one bar for each of `shares`.

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
            label = f"{percent(share)} {kind}"
            axes.annotate(label, (100 * share, bar.get_y() + bar.get_height() / 2), (4, 0),
                          textcoords="offset points", va="center", fontsize=8, color=MUTED)  # fmt: skip
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(0, 100 * max(float(max(s.max() for s in shares.values())) * 1.45, 0.05))
    axes.set_xlabel("share, %")
    axes.grid(axis="y", visible=False)
    return figure


def band_statistics(
    bands: Sequence[str], mean: Floats, deviation: Floats, names: Sequence[str], colours: Sequence[str],
    label: str = "reflectance",
) -> Figure:  # fmt: skip
    """Mean ± 2 s of each band (class, band), the classes side by side.

    >>> figure = band_statistics(["B02"], np.array([[0.1]]), np.array([[0.01]]), ["a"], ["#0072B2"])
    >>> figure.axes[0].get_ylabel()
    'reflectance'
    """
    figure = new_figure(3.4, width=WIDE if len(bands) * len(names) > 36 else WIDTH)
    axes = figure.subplots()
    offsets = (np.arange(len(names)) - (len(names) - 1) / 2) * 0.7 / max(len(names), 1)
    for k, (name, colour) in enumerate(zip(names, colours, strict=True)):
        at = np.arange(len(bands)) + offsets[k]
        low, high = mean[k] - 2 * deviation[k], mean[k] + 2 * deviation[k]
        axes.vlines(at, low, high, color=INK, linewidth=4.4)  # a rim: dark colours are seen on a dark page
        axes.vlines(at, low, high, color=colour, linewidth=3.2)
        axes.plot(at, mean[k], MARKERS[k % len(MARKERS)], color=colour, markersize=5, markeredgecolor=INK,
                  markeredgewidth=0.7, label=name)  # fmt: skip
    for edge in np.arange(len(bands) - 1) + 0.5:
        axes.axvline(edge, color=FAINT, linewidth=0.7)
    axes.set_xticks(range(len(bands)), bands)
    axes.set_xlim(-0.6, len(bands) - 0.4)
    axes.grid(axis="x", visible=False)
    axes.set_ylabel(label)
    legend_above(figure, axes)
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
    _, size, axes_ = np.linalg.svd(values - middle, full_matrices=False)
    plane = axes_[:2].T * np.sign(axes_[:2].sum(axis=1) + 1e-12)
    shares = size[:2] ** 2 / max(float((size**2).sum()), 1e-300)
    figure = new_figure(3.7)
    axes = figure.subplots()
    points, centres = (values - middle) @ plane, (mean - middle) @ plane
    for k, (name, colour) in enumerate(zip(names, colours, strict=True)):
        mine = points[classes == k]
        axes.scatter(
            mine[:, 0],
            mine[:, 1],
            s=11,
            marker=MARKERS[k % len(MARKERS)],
            color=colour,
            alpha=0.7,
            edgecolors=INK,  # a rim: dark colours are seen on a dark page
            linewidths=0.25,
            label=name,
        )
        spread, turn = np.linalg.eigh(plane.T @ covariance[k] @ plane)
        wide = 2 * np.sqrt(5.991 * np.maximum(spread, 0))  # the 95 % point of chi-squared with 2 degrees
        angle = float(np.degrees(np.arctan2(turn[1, 1], turn[0, 1])))
        axes.add_patch(Ellipse(centres[k], wide[1], wide[0], angle=angle, fill=False, edgecolor=INK, lw=2.2))
        axes.add_patch(
            Ellipse(centres[k], wide[1], wide[0], angle=angle, fill=False, edgecolor=colour, lw=1.4)
        )
    axes.autoscale_view()
    axes.set_xlabel(f"1st principal component, {100 * shares[0]:.0f} % of the variance")
    axes.set_ylabel(f"2nd, {100 * shares[1]:.0f} %")
    legend_above(figure, axes)
    return figure, shares


def area_intervals(
    names: Sequence[str], colours: Sequence[str], mapped: Floats, worlds: Floats, unit: str,
    estimated: Mapping[str, Mapping[str, float]], true: Mapping[str, float],
) -> Figure:  # fmt: skip
    """Areas of classes: on the map, in each world (class, world), estimated with an interval, and true.

    >>> figure = area_intervals(("a",), ("#0072B2",), np.array([3.0]), np.array([[2.9, 3.1]]), "ha", {}, {})
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
        if name in estimated:
            e = estimated[name]
            axes.plot([e["lower"], e["upper"]], [k - 0.2] * 2, color=INK, linewidth=1.4)
            axes.plot(e["value"], k - 0.2, "o", color=colour, markeredgecolor=INK, markersize=6)
        if name in true:
            axes.plot(true[name], k + 0.12, "x", color=INK, markersize=7, markeredgewidth=1.8)
    axes.plot([], [], "D", color="none", markeredgecolor=INK, label="on the map")
    if worlds.shape[1] > 1:
        axes.plot([], [], "|", color=INK, markersize=11, label="in each world")
    if estimated:
        axes.plot([], [], "o-", color=INK, markerfacecolor="none", label="estimated, with interval")
    if true:
        axes.plot([], [], "x", color=INK, markeredgewidth=1.8, label="true")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.6)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"area, {unit}")
    axes.grid(axis="y", visible=False)
    legend_above(figure, axes)
    return figure


def _ticks(axes: Any, x: Floats, y: Floats, colour: str) -> None:
    """Upright ticks with a rim, so that dark colours are seen on a dark page."""
    axes.plot(x, y, "|", color=INK, markersize=13, markeredgewidth=3.0, alpha=0.55)
    axes.plot(x, y, "|", color=colour, markersize=12, markeredgewidth=1.8)


def world_spread(names: Sequence[str], colours: Sequence[str], worlds: Floats) -> Figure:
    """How far the area of each class in each world (class, world) lies from its mean, in per cent of it.

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


def percent(share: float) -> str:
    """A share in per cent, with the digits that it needs.

    >>> percent(0.1234), percent(0.0004), percent(0.0), percent(float("nan"))
    ('12.3 %', '<0.1 %', '0 %', '–')
    """
    if share != share:
        return "–"
    if share == 0 or share == 1:
        return f"{100 * share:.0f} %"
    if share < 0.001:
        return "<0.1 %"
    return f"{100 * share:.1f} %" if share <= 0.999 else ">99.9 %"
