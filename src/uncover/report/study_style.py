"""Common parts of the figures of studies: the look of each model, axes of scores, legends, tables, files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal

from uncover.report.page import Table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

#: Colour, mark and line of each model. Those of the paper are drawn solid, ours dashed.
LOOKS = {
    "BQDA": ("#0072B2", "o", "-"),
    "QDA": ("#56B4E9", "s", "-"),
    "RF": ("#009E73", "^", "-"),
    "NN": ("#D55E00", "D", "-"),
    "LDA": ("#CC79A7", "v", "-"),
    "QDA pooled": ("#56B4E9", "s", "--"),
    "BQDA repeats": ("#332288", "P", "--"),
    "BQDA draws": ("#AA4499", "X", "--"),
    "BQDA shared": ("#0072B2", "*", "--"),
    "LR": ("#999933", "<", "--"),
    "GB pooled": ("#E69F00", ">", "--"),
    "AdaBoost.M2 scores": ("#117733", "h", "--"),
    "NN deep": ("#D55E00", "d", "--"),
    "RF bootstrap": ("#009E73", "p", "--"),
}
PAPER = ("BQDA", "QDA", "RF", "NN", "LDA")

SCORES = {
    "f1": "F₁",
    "f2": "F₂",
    "cross_entropy": "cross-entropy in nats",
    "brier": "Brier score",
    "cross_entropy_norm": "normalised cross-entropy",
    "brier_norm": "normalised Brier score",
}
_MORE_IS_BETTER = ("f1", "f2")
#: Logarithmic axes end at this share of the largest value; lines that go on leave the frame.
LEAST_SHARE = 1e-5


def caution(models: Iterable[str]) -> str:
    """Sentence that a reader of the scores of these models needs; mostly none."""
    if "AdaBoost.M2 scores" not in models:
        return ""
    return " What AdaBoost.M2 gives are scores divided by their sum, not probabilities."


@dataclass(frozen=True)
class StudyFigure:
    """A figure of a study before it is drawn: what it is called, how it is read, and who draws it."""

    name: str
    title: str
    reading: str
    alternative: str
    draw: Callable[[], Drawing]
    numbers: Table | None = None
    wide: bool = True


def draw_model(ax: Axes, model: str, x: Any, y: Any, low: Any = None, high: Any = None) -> None:
    """A line of one model with its intervals; values of no number leave a gap."""
    colour, mark, line = LOOKS[model]
    ax.plot(
        x, y, line, color=colour, marker=mark, markersize=4.5, markeredgecolor="white", markeredgewidth=0.5,
        zorder=4 if model == "BQDA" else 3, label=model,
    )  # fmt: skip
    if low is not None:
        ax.vlines(x, low, high, color=colour, linewidth=1.0, alpha=0.55, zorder=2)


def dodged(x: Sequence[float], i: int, n: int, width: float) -> list[float]:
    """Places beside each other, so that intervals of several models can be told apart."""
    shift = 0.0 if n == 1 else width * (i / (n - 1) - 0.5)
    return [value + shift for value in x]


def name_score(ax: Axes, metric: str) -> None:
    """Title of a panel: the score, and which way is better."""
    name = SCORES[metric]
    ax.set_title(
        f"{name[0].upper()}{name[1:]} ({'higher' if metric in _MORE_IS_BETTER else 'lower'} is better)"
    )


def logarithmic(ax: Axes, which: Literal["x", "y"], values: Any = None) -> None:
    """A logarithmic axis with plain numbers: at the given values, or at 1, 2 and 5 times powers of ten.

    Where the axis spans many decades only the powers of ten have a number.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

    getattr(ax, f"set_{which}scale")("log")
    axis = ax.xaxis if which == "x" else ax.yaxis
    if values is not None:
        axis.set_major_locator(FixedLocator(sorted(set(values))))
        axis.set_minor_locator(NullLocator())
        ax.tick_params(axis=which, labelrotation=40)
    else:
        low, high = sorted(axis.get_view_interval())
        wide = high > 300 * low
        axis.set_major_locator(LogLocator(10, (1.0,) if wide else (1.0, 2.0, 5.0)))
        axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))


def _tick(value: float) -> str:
    """A number without powers of ten where it is not too small or large for that."""
    if value and not 1e-4 <= abs(value) < 1e7:
        mantissa, exponent = f"{value:.0e}".split("e")
        return f"{mantissa}e{int(exponent)}".replace("-", "−")
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def fit_score_axis(ax: Axes, metric: str, values: Any) -> None:
    """A logarithmic axis where values differ by more than a factor of 20, else one from zero."""
    import numpy as np

    finite = np.asarray(values, float)
    finite = finite[np.isfinite(finite) & (finite > 0)]
    if metric not in _MORE_IS_BETTER and finite.size and finite.max() > 20 * finite.min():
        ax.set_ylim(max(0.6 * finite.min(), LEAST_SHARE * finite.max()), 1.6 * finite.max())
        logarithmic(ax, "y")
        _mark_what_lies_below(ax)
    elif metric not in _MORE_IS_BETTER and finite.size:
        ax.set_ylim(0, 1.08 * finite.max())


def _mark_what_lies_below(ax: Axes) -> None:
    """Lines end at the lower edge, with an open triangle, where their values are below it."""
    import numpy as np

    edge = ax.get_ylim()[0]
    for line in list(ax.lines):
        x, y = np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)
        below = y < edge
        if below.any():
            line.set_ydata(np.where(below, edge, y))
            line.set_markevery(np.flatnonzero(~below).tolist())
            ax.plot(
                x[below], np.full(below.sum(), edge), "v", color=line.get_color(), markersize=6,
                markerfacecolor="white", clip_on=False, zorder=5,
            )  # fmt: skip


def one_legend(drawing: Drawing, axes: Iterable[Axes], columns: int | None = None) -> None:
    """One legend below all panels, each model once."""
    found: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    drawing.legend(
        found.values(), found.keys(), loc="outside lower center", ncols=columns or min(len(found), 6)
    )


def score_table(
    caption: str, rows: pd.DataFrame, metrics: Sequence[str], models: Sequence[str], keys: Mapping[str, str]
) -> Table:
    """Scores by metric and keys, a column for each model; `keys` has the header of each column of `rows`.

    Rows are in the order of the last key.
    """
    wide = rows.pivot_table(index=["metric", *keys], columns="model", values="value", sort=False)
    wide = wide.sort_index(level=[*keys][-1], sort_remaining=False)
    parts = [wide[wide.index.get_level_values("metric") == metric] for metric in metrics]
    named = [part.rename(index=SCORES, level="metric") for part in parts]
    found = [table_by_model("", (), part, models).rows for part in named]
    header = ("score", *keys.values(), *models)
    return Table(caption, header, tuple(row for part in found for row in part))


def table_by_model(caption: str, header: Sequence[str], wide: pd.DataFrame, models: Sequence[str]) -> Table:
    """Numbers of the models (columns) by what the index of `wide` says; `header` names its levels."""
    rows = []
    for place, row in wide.iterrows():
        names = [_key(part) for part in (place if isinstance(place, tuple) else (place,))]
        rows.append((*names, *(rounded(row.get(model, float("nan"))) for model in models)))
    return Table(caption, (*header, *models), tuple(rows))


def _key(value: Any) -> str:
    """A name as it is, a count with commas, another number with the digits that it has."""
    return value if isinstance(value, str) else f"{value:,}" if isinstance(value, Integral) else f"{value:g}"


def present(names: Iterable[str], table: pd.DataFrame) -> list[str]:
    """The models of a table, in the order of the names."""
    found = set(table["model"])
    return [name for name in names if name in found]


def lowest_and_highest(values: pd.Series, form: str) -> tuple[str, str, str, str]:
    """The model of the lowest and that of the highest value, each with it."""
    ranked = values.sort_values()
    low, high = (format(end, form) if form else rounded(end) for end in (ranked.iloc[0], ranked.iloc[-1]))
    return ranked.index[0], low, ranked.index[-1], high


def rounded(value: float) -> str:
    """A number for a table."""
    return "–" if value != value else f"{value:.4g}".replace("-", "−")
