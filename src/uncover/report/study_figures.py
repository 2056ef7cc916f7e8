"""Figures of the studies: land cover by training size and year, synthetic classes by noise; their cost."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Drawing

from uncover.labels.colours import natural
from uncover.report.page import Table
from uncover.report.plots import band_statistics, class_shares, component_scatter, confusion_matrices
from uncover.report.study_style import (
    LOOKS,
    PAPER,
    SCORES,
    StudyFigure,
    caution,
    dodged,
    draw_model,
    fit_score_axis,
    logarithmic,
    lowest_and_highest,
    name_score,
    one_legend,
    present,
    rounded,
    score_table,
    table_by_model,
)
from uncover.report.style import INK, WIDE, new_figure

SYNTHETIC_METRICS = ("f1", "f2", "cross_entropy", "brier")
METRICS = ("f1", "f2", "cross_entropy_norm", "brier_norm")  # of land cover
_KEYS = {"train_year": "train", "test_year": "test", "pixels": "pixels"}  # of a score, with their headers


def land_cover_figures(tables: Mapping[str, pd.DataFrame], folder: Path) -> list[StudyFigure]:
    """All figures that the tables, and the scene where there is one, give."""
    classes = tables["shares"]["class"].tolist()
    colours = dict(zip(classes, natural(classes), strict=True))
    scene = folder / "scene.npz"
    first = [_scene_figure(scene, colours)] if scene.is_file() else []
    ours = present((name for name in LOOKS if name not in PAPER), tables["scores"])
    return [
        *first,
        _shares_figure(tables["shares"], colours),
        *([_components_figure(tables["components"], colours)] if "components" in tables else []),
        _bands_figure(tables["bands"], colours),
        confusion_figure(tables["confusion"]),
        *_pair_figures(tables["scores"]),
        _scores_figure(tables["scores"], ["BQDA", *ours], "scores-ours", "Further models (ours)"),
        _cost_figure(tables["cost"]),
    ]


# ---- the data ----------------------------------------------------------------------------------------


def _scene_figure(file: Path, colours: Mapping[str, str]) -> StudyFigure:
    with np.load(file) as arrays:
        rgb, labels = arrays["rgb"], arrays["labels"]
    return StudyFigure(
        name="scene",
        title="Labelled pixels over the scene",
        reading="Left: the scene in natural colours. Right: the pixels whose class is known and the same in "
        "every year, in the colours of their classes.",
        alternative=f"A scene of {rgb.shape[0]} by {rgb.shape[1]} pixels, of which "
        f"{int((labels >= 0).sum()):,} have a label of one of {len(colours)} classes.",
        draw=lambda: _draw_scene(rgb, labels, colours),
    )


def _draw_scene(rgb: Any, labels: Any, colours: Mapping[str, str]) -> Drawing:
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    drawing = new_figure(height=5.4, width=WIDE)
    left, right = drawing.subplots(1, 2)
    left.imshow(rgb, interpolation="nearest")
    grey = np.repeat((0.55 + 0.45 * rgb.mean(axis=2, keepdims=True) / 255), 3, axis=2)
    palette = np.array([to_rgb(colour) for colour in colours.values()])
    right.imshow(np.where((labels >= 0)[..., None], palette[labels], grey), interpolation="nearest")
    for ax, title in ((left, "Scene"), (right, "Labelled pixels")):
        ax.set_title(title)
        ax.axis("off")
    handles = [Patch(facecolor=colour, label=name) for name, colour in colours.items()]
    drawing.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 6))
    return drawing


def _shares_figure(shares: pd.DataFrame, colours: Mapping[str, str]) -> StudyFigure:
    rows = shares.sort_values("share", ascending=False)
    return StudyFigure(
        name="class-shares",
        title="Class shares",
        reading="Share of each class among all labelled pixels: the prior that weights and normalises the "
        "scores.",
        alternative="; ".join(f"{r['class']} {100 * r['share']:.1f} %" for _, r in rows.iterrows()) + ".",
        draw=lambda: class_shares(
            {"": rows["share"].to_numpy()}, rows["class"].tolist(), [colours[name] for name in rows["class"]]
        ),
        numbers=Table(
            "Labelled pixels",
            ("class", "pixels", "share"),
            tuple(
                (r["class"], f"{int(r['pixels']):,}", f"{100 * r['share']:.1f} %") for _, r in rows.iterrows()
            ),
        ),
        wide=False,
    )


def _components_figure(table: pd.DataFrame, colours: Mapping[str, str]) -> StudyFigure:
    number = {name: k for k, name in enumerate(colours)}
    panels = {
        str(year): (
            rows[["pc1", "pc2"]].to_numpy(),
            rows["class"].map(number).to_numpy(),
            (rows["pc1_share"].iloc[0], rows["pc2_share"].iloc[0]),
        )
        for year, rows in table.groupby("year", sort=False)
    }
    return StudyFigure(
        name="components",
        title="Principal components of one realisation",
        reading="Each mark is a pixel of the first realisation; the axes are the two directions of most "
        "variance.",
        alternative=f"Scatter of the first two principal components of {len(table) // len(panels):,} pixels"
        + (f" in each of the years {', '.join(panels)}." if len(panels) > 1 else "."),
        draw=lambda: component_scatter(panels, list(colours), list(colours.values())),
        wide=len(panels) > 1,
    )


def _bands_figure(table: pd.DataFrame, colours: Mapping[str, str]) -> StudyFigure:
    bands = list(dict.fromkeys(table["band"]))
    panels = {
        str(year): (_by_class(rows, "mean", colours, bands), _by_class(rows, "sd", colours, bands))
        for year, rows in table.groupby("year", sort=False)
    }
    rows = tuple(
        (f"{r['year']} {r['class']}".strip(), r["band"], rounded(r["mean"]), rounded(r["sd"]))
        for _, r in table.iterrows()
    )
    return StudyFigure(
        name="bands",
        title="Bands of each class: mean ± 2 s",
        reading="Mean and twice the standard deviation over all pixels and realisations of a class.",
        alternative=f"Means and spreads of {len(bands)} bands for {len(colours)} classes.",
        draw=lambda: band_statistics(bands, panels, list(colours), list(colours.values()), "value"),
        numbers=Table("Bands", ("class", "band", "mean", "s"), rows),
    )


def _by_class(rows: pd.DataFrame, value: str, classes: Iterable[str], bands: list[str]) -> Any:
    """A column of a table as an array (class, band)."""
    wide = rows.pivot(index="class", columns="band", values=value)
    return wide.reindex(index=list(classes), columns=bands).to_numpy()


def confusion_figure(table: pd.DataFrame) -> StudyFigure:
    """Models trained on the largest set of the first year and tested in the last one."""
    here = table[
        (table["fraction"] == table["fraction"].max())
        & (table["train_year"] == table["train_year"].unique()[0])
        & (table["test_year"] == table["test_year"].unique()[-1])
    ]
    classes = list(dict.fromkeys(here["true"]))
    counts = here.pivot(index=["model", "true"], columns="predicted", values="count")[classes]
    matrices = _joined({model: counts.loc[model].loc[classes].to_numpy() for model in present(PAPER, here)})
    years = here[["train_year", "test_year", "pixels"]].iloc[0]
    where = (
        f"trained in {years['train_year']}, tested in {years['test_year']}"
        if years["train_year"]
        else "one date"
    )
    return StudyFigure(
        name="confusion",
        title="Confusion matrices",
        reading=f"{years['pixels']:,} training pixels, {where}. Numbers are pixels; below, the share right "
        "and wrong of each predicted class; at the right, of each true class.",
        alternative="; ".join(
            f"{name}: {100 * np.trace(m) / m.sum():.1f} % of the test pixels right"
            for name, m in matrices.items()
        )
        + ".",
        draw=lambda: confusion_matrices(matrices, classes),
        numbers=_confusion_table(matrices, classes),
    )


def _joined(matrices: dict[str, Any]) -> dict[str, Any]:
    """QDA and BQDA as one where their matrices, not each prediction, differ by a pixel of a hundred at most.

    Pixels that move between cells both ways cancel: half the sum of the differences is the least number of
    pixels that the models call otherwise.
    """
    both = matrices.get("QDA"), matrices.get("BQDA")
    if both[0] is None or both[1] is None:
        return matrices
    differ = np.abs(both[0] - both[1]).sum() / 2
    if differ > 0.01 * both[1].sum():
        return matrices
    at_least = f"BQDA (QDA differs in at least {int(differ):,} pixel{'s' if differ > 1 else ''})"
    name = "QDA and BQDA (the same numbers)" if differ == 0 else at_least
    return {name: both[1], **{m: v for m, v in matrices.items() if m not in ("QDA", "BQDA")}}


def _confusion_table(matrices: dict[str, Any], classes: list[str]) -> Table:
    return Table(
        "Pixels by model, true class (row) and predicted class (column)",
        ("model and true class", *classes),
        tuple(
            (f"{name}: {truth}", *(f"{int(v):,}" for v in matrix[i]))
            for name, matrix in matrices.items()
            for i, truth in enumerate(classes)
        ),
    )


# ---- scores and cost ---------------------------------------------------------------------------------


def _pair_figures(scores: pd.DataFrame) -> list[StudyFigure]:
    """One figure of the four scores for each pair of years, those of one year first."""
    pairs = scores[["train_year", "test_year"]].drop_duplicates()
    within = (pairs["train_year"] == pairs["test_year"]).to_numpy()
    figures = []
    for before, after in pd.concat([pairs[within], pairs[~within]]).itertuples(index=False, name=None):
        rows = scores[(scores["train_year"] == before) & (scores["test_year"] == after)]
        title = f"Trained in {before}, tested in {after}" if before else "Scores against training size"
        name = f"scores-{before}-{after}" if before else "scores"
        figures.append(_scores_figure(rows, list(PAPER), re.sub(r"[^\w-]+", "-", name), title))
    return figures


def _scores_figure(scores: pd.DataFrame, models: list[str], name: str, title: str) -> StudyFigure:
    pairs = list(scores[["train_year", "test_year"]].drop_duplicates().itertuples(index=False, name=None))
    rows = scores[scores["model"].isin(models) & scores["metric"].isin(METRICS)]
    smallest = set(rows.loc[rows["pixels"] == rows["pixels"].min(), "model"])
    missing = [m for m in models if m not in smallest]
    gap = f" {', '.join(missing)} could not be trained on the smallest set." if missing else ""
    zeros = rows[(rows["metric"] == "f1") & (rows["zeros"] > 0)].groupby("model")["zeros"].sum()
    count = ", ".join(f"{m} {int(z):,}" for m, z in zeros.items())
    hidden = f" True classes given the probability 0 (counted as 2.2e-16): {count}." if count else ""
    return StudyFigure(
        name=name,
        title=title,
        reading="Scores on the test pixels with 95 % bootstrap intervals; a normalised score of 1 is no "
        f"better than the class shares.{gap}{hidden}{caution(set(rows['model']))}",
        alternative=_in_words(rows),
        draw=lambda: _draw_scores(rows, models, pairs),
        numbers=score_table("Scores", rows, METRICS, present(models, rows), _KEYS),
    )


def _draw_scores(rows: pd.DataFrame, models: list[str], pairs: list[tuple[str, str]]) -> Drawing:
    drawing = new_figure(height=9.2 if len(pairs) > 1 else 5.6, width=WIDE if len(pairs) > 1 else 8.2)
    if len(pairs) == 1:
        axes = drawing.subplots(2, 2, sharex=True).reshape(4, 1)
    else:
        axes = drawing.subplots(4, len(pairs), sharex=True, sharey="row")
    for row, metric in zip(axes, METRICS, strict=True):
        mine = rows[rows["metric"] == metric]
        for ax, (before, after) in zip(row, pairs, strict=True):
            here = mine[(mine["train_year"] == before) & (mine["test_year"] == after)]
            for model in models:
                one = here[here["model"] == model].sort_values("pixels")
                if len(one):
                    draw_model(ax, model, one["pixels"], one["value"], one["low"], one["high"])
            logarithmic(ax, "x", rows["pixels"])
            if metric == METRICS[0] and len(pairs) > 1:
                ax.set_title(f"train {before}, test {after}")
            if metric.endswith("_norm"):
                ax.axhline(1, color=INK, linewidth=0.8, linestyle=":")
        fit_score_axis(row[0], metric, mine["value"])
        row[0].set_ylabel(SCORES[metric])
    for ax in axes[-1] if len(pairs) > 1 else axes[2:, 0]:
        ax.set_xlabel("training pixels")
    one_legend(drawing, axes.flat)
    return drawing


def _in_words(rows: pd.DataFrame) -> str:
    brier = rows[rows["metric"] == "brier_norm"]
    parts = []
    for size in sorted({brier["pixels"].min(), brier["pixels"].max()}):
        means = brier[brier["pixels"] == size].groupby("model")["value"].mean()
        parts.append(f"with {size:,} training pixels {_extremes(means, 'normalised Brier score', '.3f')}")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _extremes(values: pd.Series, score: str, form: str) -> str:
    """Models of the lowest and the highest value, in words."""
    best, low, worst, high = lowest_and_highest(values, form)
    return f"{best} has the lowest {score} ({low}) and {worst} the highest ({high})"


def _cost_figure(cost: pd.DataFrame) -> StudyFigure:
    models = present(LOOKS, cost)
    kinds = ["fit_seconds", "predict_seconds", "seconds"]
    means = cost.groupby(["model", "pixels"])[kinds].median().reset_index()
    unit = means[means["model"] == "BQDA"].sort_values("pixels").iloc[0]
    for name in kinds:
        means[name] = means[name] / unit["seconds"]
    wide = means.pivot_table(index="pixels", columns="model", values="seconds")
    return StudyFigure(
        name="cost",
        title="Relative computing cost",
        reading="CPU time of one thread, relative to training and evaluation of BQDA on the smallest "
        f"training set ({unit['seconds']:.3g} s); median over the pairs of years. Both axes are logarithmic.",
        alternative="; ".join(
            f"{m} up to {means.loc[means['model'] == m, 'seconds'].max():.3g}" for m in models
        )
        + " times as much as BQDA on the smallest training set.",
        draw=lambda: _draw_cost(means, models),
        numbers=table_by_model("Relative computing cost, training and evaluation", ("pixels",), wide, models),
    )


def _draw_cost(means: pd.DataFrame, models: list[str]) -> Drawing:
    drawing = new_figure(height=4.2, width=WIDE)
    axes = drawing.subplots(1, 3, sharex=True, sharey=True)
    titles = {
        "seconds": "Training and evaluation",
        "fit_seconds": "Training",
        "predict_seconds": "Evaluation",
    }
    for ax, (name, title) in zip(axes, titles.items(), strict=True):
        for model in models:
            one = means[means["model"] == model].sort_values("pixels")
            draw_model(ax, model, one["pixels"], one[name].clip(lower=1e-6))
        logarithmic(ax, "x", means["pixels"])
        logarithmic(ax, "y")
        ax.set_title(title)
        ax.set_xlabel("training pixels")
    axes[0].set_ylabel("CPU time relative to BQDA")
    one_legend(drawing, axes)
    return drawing


# ---- the synthetic study -------------------------------------------------------------------------------


def synthetic_figures(tables: Mapping[str, pd.DataFrame]) -> list[StudyFigure]:
    """One for each p and kind of noise, and one of our own models for each p."""
    means = tables["means"]
    correlated = means[means["covariance"]]
    variants = {"": correlated}
    without = means[~means["covariance"]]
    if without["noise"].nunique() > 1:
        variants["-without-covariance"] = without
    figures = [
        _noise_figure(rows, int(p), str(kind), variant)
        for variant, table in variants.items()
        for (p, kind), rows in table.groupby(["p", "kind"], sort=True)
    ]
    return [*figures, _ours_figure(correlated), _seconds_figure(tables["cost"])]


def _noise_figure(rows: pd.DataFrame, p: int, kind: str, variant: str) -> StudyFigure:
    models = present(PAPER, rows)
    n = int(rows["n"].max())
    which = "" if not variant else ", without covariance between variables"
    zeros = int(rows.loc[rows["model"].isin(models) & (rows["metric"] == "f1"), "zeros"].sum())
    note = f" In {zeros:,} cases a true class was given the probability 0." if zeros else ""
    return StudyFigure(
        name=f"scores-p{p}-{kind}{variant}",
        title=f"p = {p}, {kind} noise{which}",
        reading=f"Mean over {n} data sets with its 95 % interval (bars), against the noise factor σ. An "
        f"open triangle at the lower edge stands for a value below it.{note}",
        alternative=_noise_in_words(rows[rows["model"].isin(models)], p, kind),
        draw=lambda: _draw_noise(rows, models),
        numbers=score_table(f"p = {p}, {kind} noise{which}", rows, SYNTHETIC_METRICS, models, {"noise": "σ"}),
    )


def _draw_noise(rows: pd.DataFrame, models: list[str]) -> Drawing:
    drawing = new_figure(height=5.6, width=8.2)
    axes = drawing.subplots(2, 2, sharex=True)
    for ax, metric in zip(axes.flat, SYNTHETIC_METRICS, strict=True):
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


def _noise_in_words(rows: pd.DataFrame, p: int, kind: str) -> str:
    """Sentence on the best model at the least and at the most noise."""
    brier = rows[rows["metric"] == "brier"]
    parts = []
    for noise in sorted({brier["noise"].min(), brier["noise"].max()}):
        here = brier[brier["noise"] == noise].set_index("model")["value"]
        parts.append(f"at σ = {noise:g} {_extremes(here, 'Brier score', '.4f')}")
    return f"Scores of {rows['model'].nunique()} models for p = {p} and {kind} noise: {'; '.join(parts)}."


def _ours_figure(means: pd.DataFrame) -> StudyFigure:
    """Models that the paper does not have, beside BQDA and the best of them."""
    rows = means[(means["kind"] == means["kind"].iloc[0]) & (means["metric"] == "brier")]
    models = ["BQDA", "QDA", *present((name for name in LOOKS if name not in PAPER), rows)]
    wide = rows.pivot_table(index=["p", "noise"], columns="model", values="value")
    return StudyFigure(
        name="ours-brier",
        title="Models that the paper does not have (ours)",
        reading=f"Brier score for {rows['kind'].iloc[0]} noise, dashed; BQDA and QDA of the paper are solid. "
        f"{_pooled_in_words(wide)}An open triangle at the lower edge stands for a value below it."
        f"{caution(models)}",
        alternative="Brier score of further models against the noise factor, one panel for each p: "
        + _ours_in_words(rows[rows["model"].isin(models)]),
        draw=lambda: _draw_ours(rows, models),
        numbers=table_by_model("Brier score, ours", ("p", "σ"), wide, models),
    )


def _pooled_in_words(wide: pd.DataFrame) -> str:
    """Sentence on the distance of pooled QDA, and of one QDA per realisation, from BQDA."""
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
        best, low, worst, high = lowest_and_highest(mine.set_index("model")["value"], "")
        parts.append(f"for p = {p} {best} is lowest ({low}) and {worst} highest ({high})")
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


def _seconds_figure(cost: pd.DataFrame) -> StudyFigure:
    kinds = ["fit_seconds", "predict_seconds"]
    seconds = cost.groupby(["p", "model"], sort=True)[kinds].median().reset_index()
    models = present(LOOKS, seconds)
    return StudyFigure(
        name="cost",
        title="Computing cost",
        reading="Median CPU seconds of one cell, training (full) and evaluation (light), one thread, "
        "logarithmic.",
        alternative="CPU seconds of training and evaluation of each model for each p.",
        draw=lambda: _draw_seconds(seconds, models),
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


def _draw_seconds(seconds: pd.DataFrame, models: list[str]) -> Drawing:
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
