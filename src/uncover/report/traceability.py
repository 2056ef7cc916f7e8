"""Section Traceability of a map's report: measurement model, input quantities, Monte Carlo convergence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from uncover.pipeline.map_facts import percent
from uncover.report.page import Figure, Note, Part, Section, Table
from uncover.report.style import FAINT, INK, MUTED, OKABE_ITO, figure_style, inline_svg, new_figure
from uncover.report.summary import Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def traceability_section(summary: Summary, quantities: Sequence[Part]) -> Section | None:
    """What enters the result, by which model, and how far the Monte Carlo method has converged.

    None where no measurement uncertainty was stated.
    """
    item = summary.item.get("properties", {})
    stated = item.get("uncover:measurement_uncertainty") or {}
    if not quantities or not stated.get("quantities"):
        return None
    lead = (
        "The measurands are the class of each pixel and the area of each class; what is stated of a class is "
        "its probability. The standard uncertainty of every input quantity is evaluated beforehand. "
        "Distributions of what all pixels share are propagated by draws through the measurement model "
        "(JCGM 101:2008), errors of single pixels as covariances."
    )
    shares, convergence = item.get("uncover:effect_shares"), _convergence(summary, item)
    parts: list[Part] = [_model_figure(item, stated)]
    parts += [_shares_figure(shares)] if shares else []
    parts += [part for part in convergence if isinstance(part, Figure)]
    parts += quantities
    parts += [part for part in convergence if not isinstance(part, Figure)]
    if not shares:
        parts.append(
            Note(
                "The measurement part is not split by effect in this map.",
                "uncover map --shares --effects … splits it, and says which measurement would have to be "
                "better.",
            )
        )
    return Section("traceability", "Traceability", lead, tuple(parts))


def _shares_figure(shares: Mapping[str, Any]) -> Figure:
    """Share of each effect in the mean measurement part."""
    ranked = sorted(shares.items(), key=lambda pair: -pair[1]["share"])
    names = [name for name, _ in ranked]
    of_mean = [float(row["share"]) for _, row in ranked]
    first = names[0]
    words = "; ".join(f"{name} {percent(share)}" for name, share in zip(names, of_mean, strict=True))
    with figure_style():
        svg = inline_svg(share_bars(names, of_mean), f"Share of each effect in the measurement part: {words}")
    reading = (
        f"Bars are shares of the mean measurement part of the uncertainty (Shapley values; they add up to "
        f"it). The longest bar is the measurement that would have to be better: known without error, "
        f"{first} would take about {percent(of_mean[0])} of the measurement part with it."
    )
    classes = list(dict.fromkeys(name for _, row in ranked for name in row.get("of_area_variance", {})))
    header = (
        "effect",
        "mean, nat",
        "share of the measurement part",
        *(f"area of {name}" for name in classes),
    )
    rows = tuple(
        (name, f"{row['mean_nat']:.3g}", percent(float(row["share"])),
         *(_of_area(row, c) for c in classes))
        for name, row in ranked
    )  # fmt: skip
    caption = (
        "Shares of the measurement part, and of the variance over the worlds of each class's counted area"
    )
    table = Table(caption, header, rows)
    return Figure("effects-figure", "Where does the doubt come from?", svg, reading, f"{words}.", table)


def _of_area(row: Mapping[str, Any], name: str) -> str:
    """Share of an effect in the variance of a class's area, with its Monte Carlo error where it is known."""
    if name not in row.get("of_area_variance", {}):
        return "–"
    error = row.get("of_area_variance_error", {}).get(name)
    said = percent(float(row["of_area_variance"][name]))
    return said if error is None else f"{said} ± {percent(float(error))}"


def share_bars(names: Sequence[str], shares: Sequence[float]) -> Drawing:
    """Horizontal bars of shares, the first on top.

    >>> with figure_style():
    ...     figure = share_bars(("aod", "ozone"), (0.9, 0.1))
    >>> [round(bar.get_width()) for bar in figure.axes[0].patches]
    [90, 10]
    """
    figure = new_figure(0.9 + 0.36 * len(names))
    axes = figure.subplots()
    places = range(len(names))
    axes.barh(places, [100 * s for s in shares], 0.6, color=OKABE_ITO[0], edgecolor=INK, linewidth=0.6)
    for y, share in zip(places, shares, strict=True):
        axes.annotate(percent(share), (100 * share, y), (4, 0), textcoords="offset points", va="center",
                      fontsize=9, color=MUTED)  # fmt: skip
    axes.set_yticks(list(places), list(names))
    axes.invert_yaxis()
    axes.set_xlim(0, 118 * max(*shares, 1e-3))
    axes.set_xlabel("share of the measurement part, %")
    axes.grid(axis="y", visible=False)
    return figure


def _model_figure(item: Mapping[str, Any], stated: Mapping[str, Any]) -> Figure:
    """The measurement model as a diagram."""
    names = list(dict.fromkeys(str(q["name"]).split(", ")[0] for q in stated["quantities"]))
    random = [
        str(q["name"]).split(", ")[0] for q in stated["quantities"] if q.get("between_pixels") == "random"
    ]
    worlds = int(item.get("uncover:worlds", 1))
    corrected = str(stated.get("correction", ""))
    steps = []
    if corrected:
        steps.append(("Correction: ρ = y / (B + S·y),  y = ρ_toa − A", "A, B, S of the atmosphere’s state"))
    drawn = (
        f"{worlds} realisations of each pixel" if worlds > 1 else "one value of each pixel, and covariances"
    )
    steps.append(("Surface reflectance ρ" if corrected else "Measured values", drawn))
    steps.append(("Class model: P(class | ρ)", "Bayes’ rule, averaged over the realisations"))
    steps.append(("Probability of each class; area of each class", "with their uncertainty"))
    with figure_style():
        svg = inline_svg(model_diagram(names, steps), "Measurement model: " + ", ".join(names) + " enter it")
    words = (
        f"Input quantities: {', '.join(names)}. "
        + (f"Random between pixels: {', '.join(dict.fromkeys(random))}. " if random else "")
        + " Then: ".join(first for first, _ in steps)
        + "."
    )
    reading = (
        "Input quantities on top, with their distributions in the table; below, the model that makes the "
        "result of them. A realisation has one draw of every quantity that the scene shares."
    )
    return Figure("model-diagram", "Measurement model", svg, reading, words)


def model_diagram(names: Sequence[str], steps: Sequence[tuple[str, str]]) -> Drawing:
    """Boxes of input quantities over boxes of steps, one below the other.

    >>> with figure_style():
    ...     figure = model_diagram(("aod", "ozone", "noise"), (("model", "of them"),))
    >>> len(figure.axes[0].patches)
    4
    """
    rows = [names[i : i + 2] for i in range(0, len(names), 2)]
    height = 0.42 * len(rows) + 0.75 * len(steps) + 0.1
    figure = new_figure(height)
    axes = figure.subplots()
    axes.set(xlim=(0, 2), ylim=(-height, 0))
    axes.set_axis_off()

    def box(x: float, y: float, width: float, tall: float, colour: str) -> None:
        axes.add_patch(_box(x, y, width, tall, colour))

    for r, row in enumerate(rows):
        wide = 2 / len(row)
        for c, name in enumerate(row):
            box(c * wide + 0.02, -0.42 * r - 0.36, wide - 0.04, 0.32, OKABE_ITO[0])
            axes.text((c + 0.5) * wide, -0.42 * r - 0.2, _cut(name), ha="center", va="center", fontsize=8.5)
    for s, (first, second) in enumerate(steps):
        top = -0.42 * len(rows) - 0.75 * s
        axes.annotate("", (1, top - 0.22), (1, top - 0.02), arrowprops={"arrowstyle": "->", "color": MUTED})
        box(0.02, top - 0.72, 1.96, 0.5, OKABE_ITO[1] if s < len(steps) - 1 else OKABE_ITO[2])
        axes.text(1, top - 0.39, first, ha="center", va="center", fontsize=9, weight="bold")
        axes.text(1, top - 0.59, second, ha="center", va="center", fontsize=8.5, color=MUTED)
    return figure


def _box(x: float, y: float, width: float, tall: float, colour: str) -> Any:
    from matplotlib.patches import FancyBboxPatch

    style = "round,pad=0,rounding_size=0.03"
    return FancyBboxPatch((x, y), width, tall, style, facecolor="none", edgecolor=colour, linewidth=1.6)


def _cut(name: str) -> str:
    """A name that fits its box."""
    name = name.removesuffix(" at 550 nm")
    return name if len(name) <= 34 else name[:33] + "…"


def _convergence(summary: Summary, item: Mapping[str, Any]) -> list[Part]:
    """How far the Monte Carlo method has converged: by blocks of worlds, or by the spread of the areas."""
    adaptive = item.get("uncover:adaptive_draws")
    if adaptive:
        return _adaptive_parts(adaptive)
    areas, worlds = summary.areas, summary.areas.worlds.shape[1]
    if worlds < 2:
        return []
    rows = tuple(
        (name, f"{areas.worlds[k].mean():.5g}", f"{areas.spread[k]:.3g}", f"{areas.spread_error[k]:.2g}")
        for k, name in enumerate(summary.names)
    )
    words = "standard deviation over them", "its Monte Carlo error"
    header = ("class", f"counted area, mean over the worlds, {areas.unit}", *words)
    caption = f"Monte Carlo convergence: {worlds} worlds, a number that was stated beforehand"
    remark = Note(
        f"{worlds} worlds were drawn because so many were asked for.",
        "uncover map --draws auto adds worlds until the digits of the results are stable (JCGM 101, 7.9).",
    )
    return [Table(caption, header, rows), remark]


def _adaptive_parts(adaptive: Mapping[str, Any]) -> list[Part]:
    """Errors of the results after each block of worlds, and at the end."""
    history = adaptive["history"]
    worlds = [int(each["worlds"]) for each in history]
    ratio = [float(each["worst_error_over_tolerance"]) for each in history]
    digits = (
        "one significant digit" if adaptive["digits"] == 1 else f"{adaptive['digits']} significant digits"
    )
    reached = f"{digits} {'is' if adaptive['digits'] == 1 else 'are'} stable"
    end = reached if adaptive["stable"] else f"{digits} could not be reached"
    with figure_style():
        svg = inline_svg(convergence_curve(worlds, ratio), f"Worst error over its tolerance by worlds: {end}")
    reading = (
        f"Worlds were added in blocks of {adaptive['worlds_of_a_block']} until the 95 % half width of every "
        f"result was at most half a unit of the last digit (1 on the axis): {end} with {worlds[-1]} worlds."
    )
    words = "; ".join(f"{n} worlds {r:.3g}" for n, r in zip(worlds, ratio, strict=True))
    rows = tuple(
        (name, f"{each['mean']:.4g}", f"{each['error']:.2g}", f"{each['tolerance']:.1g}")
        for name, each in adaptive["quantities"].items()
    )
    header = ("result, of sampled pixels", "value", "95 % half width", "tolerance")
    table = Table(f"Results after {worlds[-1]} worlds", header, rows)
    title = "Monte Carlo convergence"
    return [Figure("convergence-figure", title, svg, reading, f"Worst error over tolerance: {words}.", table)]


def convergence_curve(worlds: Sequence[int], ratio: Sequence[float]) -> Drawing:
    """Worst error in units of its tolerance, by the number of worlds.

    >>> with figure_style():
    ...     figure = convergence_curve((50, 75), (4.0, 0.8))
    >>> figure.axes[0].lines[1].get_ydata().tolist()
    [4.0, 0.8]
    """
    figure = new_figure(2.6)
    axes = figure.subplots()
    axes.axhline(1.0, color=MUTED, linestyle="--", linewidth=1)
    axes.plot(worlds, ratio, "o-", color=OKABE_ITO[5])
    axes.set(xlabel="worlds", ylabel="worst error / tolerance", yscale="log")
    low, high = min(*ratio, 1.0), max(*ratio, 1.0)
    axes.set_ylim(low / 1.6, high * 1.6)
    ticks = [t for t in (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300) if low / 1.6 <= t <= high * 1.6]
    axes.set_yticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    axes.grid(axis="x", color=FAINT)
    return figure
