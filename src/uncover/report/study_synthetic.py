"""Figures of the synthetic study: scores against noise, one figure for each p and kind of noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure as Drawing

from uncover.report.page import Section, Table
from uncover.report.study_style import (
    LOOKS,
    PAPER,
    StudyFigure,
    caution,
    dodged,
    draw_model,
    fit_score_axis,
    logarithmic,
    name_score,
    one_legend,
    rounded,
    score_table,
)
from uncover.report.style import WIDE, new_figure

METRICS = ("f1", "f2", "cross_entropy", "brier")


def synthetic_figures(tables: Mapping[str, pd.DataFrame]) -> list[StudyFigure]:
    """One for each p and kind of noise, and one of our own models for each p."""
    means = tables["means"]
    correlated = means[means["covariance"]]
    figures = [
        _scores_figure(rows, int(p), str(kind), "")
        for (p, kind), rows in correlated.groupby(["p", "kind"], sort=True)
    ]
    without = means[~means["covariance"]]
    if without["noise"].nunique() > 1:
        figures += [
            _scores_figure(rows, int(p), str(kind), "-without-covariance")
            for (p, kind), rows in without.groupby(["p", "kind"], sort=True)
        ]
    return [*figures, _ours_figure(correlated), _cost_figure(tables["cost"])]


def _scores_figure(rows: pd.DataFrame, p: int, kind: str, variant: str) -> StudyFigure:
    models = [name for name in PAPER if name in set(rows["model"])]
    n = int(rows["n"].max())
    which = "" if not variant else ", without covariance between variables"
    zeros = int(rows.loc[rows["model"].isin(models) & (rows["metric"] == "f1"), "zeros"].sum())
    note = f" In {zeros:,} cases a true class was given the probability 0." if zeros else ""
    return StudyFigure(
        name=f"scores-p{p}-{kind}{variant}",
        title=f"p = {p}, {kind} noise{which}",
        reading=f"Mean over {n} data sets with its 95 % interval (bars), against the noise factor σ. An "
        f"open triangle at the lower edge stands for a value below it.{note}",
        alternative=_in_words(rows[rows["model"].isin(models)], p, kind),
        draw=lambda: _draw_scores(rows, models),
        numbers=score_table(f"p = {p}, {kind} noise{which}", rows, METRICS, models, {"noise": "σ"}),
    )


def _draw_scores(rows: pd.DataFrame, models: list[str]) -> Drawing:
    drawing = new_figure(height=5.6, width=8.2)
    axes = drawing.subplots(2, 2, sharex=True)
    for ax, metric in zip(axes.flat, METRICS, strict=True):
        mine = rows[rows["metric"] == metric]
        for i, model in enumerate(models):
            one = mine[mine["model"] == model].sort_values("noise")
            x = dodged(one["noise"].tolist(), i, len(models), 0.03)
            draw_model(ax, model, x, one["value"], one["low"].clip(lower=0), _possible(one["high"], metric))
        shown = mine[mine["model"].isin(models)]
        fit_score_axis(ax, metric, shown["value"])
        _keep_to_values(ax, metric, shown)
        name_score(ax, metric)
    for ax in axes[1]:
        ax.set_xlabel("noise factor σ")
    one_legend(drawing, axes.flat)
    return drawing


def _possible(high: pd.Series, metric: str) -> pd.Series:
    """No F is above 1, whatever Student's interval says."""
    return high.clip(upper=1) if metric in ("f1", "f2") else high


def _keep_to_values(ax: Any, metric: str, shown: pd.DataFrame) -> None:
    """Intervals over few data sets may leave the range of a score; the axis follows them only so far."""
    low, high = shown["value"].min(), shown["value"].max()
    if metric in ("f1", "f2"):
        room = max(0.15 * (high - low), 0.005)
        ends = shown["low"].fillna(shown["value"])  # one data set has no interval
        bottom = max(ends.clip(lower=low - (high - low)).min() - room, 0)
        ax.set_ylim(bottom, min(high + room, 1 + 0.06 * (1 - bottom)))  # no F above 1, and no number for it


def _in_words(rows: pd.DataFrame, p: int, kind: str) -> str:
    """Sentence on the best model at the least and at the most noise."""
    brier = rows[rows["metric"] == "brier"]
    parts = []
    for noise in sorted({brier["noise"].min(), brier["noise"].max()}):
        best = brier[brier["noise"] == noise].sort_values("value")
        parts.append(
            f"at σ = {noise:g} {best['model'].iloc[0]} has the lowest Brier score "
            f"({best['value'].iloc[0]:.4f}) and {best['model'].iloc[-1]} the highest "
            f"({best['value'].iloc[-1]:.4f})"
        )
    return (
        f"Scores of {rows['model'].nunique()} models for p = {p} and {kind} noise: " + "; ".join(parts) + "."
    )


def _ours_figure(means: pd.DataFrame) -> StudyFigure:
    """Models that the paper does not have, beside BQDA and the best of them."""
    rows = means[(means["kind"] == means["kind"].iloc[0]) & (means["metric"] == "brier")]
    models = ["BQDA", "QDA", *(name for name in LOOKS if name not in PAPER and name in set(rows["model"]))]
    return StudyFigure(
        name="ours-brier",
        title="Models that the paper does not have (ours)",
        reading=f"Brier score for {rows['kind'].iloc[0]} noise, dashed; BQDA and QDA of the paper are solid. "
        f"{_pooled_in_words(rows)}An open triangle at the lower edge stands for a value below it."
        f"{caution(models)}",
        alternative="Brier score of further models against the noise factor, one panel for each p: "
        + _ours_in_words(rows[rows["model"].isin(models)]),
        draw=lambda: _draw_ours(rows, models),
        numbers=_ours_table(rows, models),
    )


def _pooled_in_words(rows: pd.DataFrame) -> str:
    """Sentence on the distance of pooled QDA, and of one QDA per realisation, from BQDA."""
    wide = rows.pivot_table(index=["p", "noise"], columns="model", values="value")
    if not {"BQDA", "QDA", "QDA pooled"} <= set(wide):
        return ""
    pooled, apart = ((wide[name] - wide["BQDA"]).abs().max() for name in ("QDA pooled", "QDA"))
    return (
        f"The largest distance to BQDA is {rounded(pooled)} of pooled QDA, and {rounded(apart)} of one QDA "
        "per realisation. "
    )


def _ours_in_words(rows: pd.DataFrame) -> str:
    """Best and worst model at the most noise, for each p."""
    parts = []
    for p, mine in rows[rows["noise"] == rows["noise"].max()].groupby("p", sort=True):
        ranked = mine.sort_values("value")
        best, worst = ranked.iloc[0], ranked.iloc[-1]
        parts.append(
            f"for p = {p} {best['model']} is lowest ({rounded(best['value'])}) and {worst['model']} highest "
            f"({rounded(worst['value'])})"
        )
    return f"at σ = {rows['noise'].max():g} " + "; ".join(parts) + "."


def _draw_ours(rows: pd.DataFrame, models: list[str]) -> Drawing:
    every = sorted(rows["p"].unique())
    drawing = new_figure(height=3.9, width=WIDE)
    axes = drawing.subplots(1, len(every), squeeze=False)[0]
    for ax, p in zip(axes, every, strict=True):
        for model in models:
            one = rows[(rows["p"] == p) & (rows["model"] == model)].sort_values("noise")
            if len(one):
                draw_model(ax, model, one["noise"], one["value"])
        fit_score_axis(ax, "brier", rows.loc[(rows["p"] == p) & rows["model"].isin(models), "value"])
        ax.set_title(f"p = {p}")
        ax.set_xlabel("noise factor σ")
    axes[0].set_ylabel("Brier score")
    one_legend(drawing, axes, columns=8)
    return drawing


def _ours_table(rows: pd.DataFrame, models: list[str]) -> Table:
    wide = rows.pivot_table(index=["p", "noise"], columns="model", values="value")
    return Table(
        "Brier score, ours",
        ("p", "σ", *models),
        tuple(
            (str(p), f"{noise:g}", *(rounded(row.get(model, float("nan"))) for model in models))
            for (p, noise), row in wide.iterrows()
        ),
    )


def _cost_figure(cost: pd.DataFrame) -> StudyFigure:
    kinds = ["fit_seconds", "predict_seconds"]
    seconds = cost.groupby(["p", "model"], sort=True)[kinds].median().reset_index()
    models = [name for name in LOOKS if name in set(seconds["model"])]
    return StudyFigure(
        name="cost",
        title="Computing cost",
        reading="Median CPU seconds of one cell, training (full) and evaluation (light), one thread, "
        "logarithmic.",
        alternative="CPU seconds of training and evaluation of each model for each p.",
        draw=lambda: _draw_cost(seconds, models),
        numbers=Table(
            "CPU seconds, training + evaluation",
            ("p", *models),
            tuple(
                (str(p), *(_seconds(rows, model) for model in models))
                for p, rows in seconds.groupby("p", sort=True)
            ),
        ),
    )


def _seconds(rows: pd.DataFrame, model: str) -> str:
    one = rows[rows["model"] == model]
    if one.empty:
        return "–"
    return f"{one['fit_seconds'].iloc[0]:.3g} + {one['predict_seconds'].iloc[0]:.3g}"


def _draw_cost(seconds: pd.DataFrame, models: list[str]) -> Drawing:
    every = sorted(seconds["p"].unique())
    drawing = new_figure(height=3.6, width=WIDE)
    axes = drawing.subplots(1, len(every), sharex=True, sharey=True, squeeze=False)[0]
    for ax, p in zip(axes, every, strict=True):
        rows = seconds[seconds["p"] == p].set_index("model")
        for i, model in enumerate(models):
            if model in rows.index:
                fit, ask = rows.loc[model, ["fit_seconds", "predict_seconds"]]
                ax.barh(i - 0.2, fit, 0.38, color=LOOKS[model][0])
                ax.barh(i + 0.2, ask, 0.38, color=LOOKS[model][0], alpha=0.45)
        logarithmic(ax, "x")
        ax.set_title(f"p = {p}")
        ax.set_xlabel("CPU seconds")
        ax.grid(axis="y", visible=False)
    axes[0].set_yticks(range(len(models)), models)
    axes[0].invert_yaxis()
    return drawing


def synthetic_sections(facts: Mapping[str, Any], figures: Mapping[str, Any]) -> tuple[Section, ...]:
    """Figures in the order of the page."""
    scores = tuple(part for name, part in figures.items() if name.startswith("scores-"))
    return (
        Section(
            "noise",
            "Scores against noise",
            f"{facts['points'] * 4:,} points in 4 classes, {facts['realisations']} realisations of each, "
            "four fifths for training. F₁ and F₂ are means over the classes; intervals are Student's over "
            "the data sets.",
            scores,
        ),
        Section("ours", "Further models", "Not in the paper.", (figures["ours-brier"],)),
        Section("cost-section", "Computing cost", "", (figures["cost"],)),
    )
