"""Figures of the land cover study: the data, scores against training size, and what the models cost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Drawing

from uncover.labels.colours import natural
from uncover.report.page import Section, Table
from uncover.report.study_confusion import confusion_figure
from uncover.report.study_style import (
    LOOKS,
    PAPER,
    SCORES,
    StudyFigure,
    caution,
    draw_model,
    fit_score_axis,
    logarithmic,
    one_legend,
    rounded,
)
from uncover.report.style import INK, WIDE, new_figure

METRICS = ("f1", "f2", "cross_entropy_norm", "brier_norm")


def land_cover_figures(tables: Mapping[str, pd.DataFrame], folder: Path) -> list[StudyFigure]:
    """All figures that the tables, and the scene where there is one, give."""
    classes = tables["shares"]["class"].tolist()
    colours = dict(zip(classes, natural(classes), strict=True))
    scene = folder / "scene.npz"
    first = [_scene_figure(scene, colours)] if scene.is_file() else []
    ours = [name for name in LOOKS if name not in PAPER and name in set(tables["scores"]["model"])]
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
        draw=lambda: _draw_shares(rows, colours),
        numbers=Table(
            "Labelled pixels",
            ("class", "pixels", "share"),
            tuple(
                (r["class"], f"{int(r['pixels']):,}", f"{100 * r['share']:.1f} %") for _, r in rows.iterrows()
            ),
        ),
        wide=False,
    )


def _draw_shares(rows: pd.DataFrame, colours: Mapping[str, str]) -> Drawing:
    drawing = new_figure(height=0.9 + 0.36 * len(rows))
    ax = drawing.subplots()
    bars = ax.barh(rows["class"], 100 * rows["share"], color=[colours[name] for name in rows["class"]])
    ax.bar_label(bars, [f"{100 * share:.1f} %" for share in rows["share"]], padding=3)
    ax.set_xlabel("share of the labelled pixels in %")
    ax.margins(x=0.15)
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    return drawing


def _components_figure(table: pd.DataFrame, colours: Mapping[str, str]) -> StudyFigure:
    years = list(dict.fromkeys(table["year"]))
    return StudyFigure(
        name="components",
        title="Principal components of one realisation",
        reading="Each dot is a pixel of the first realisation; the axes are the two directions of most "
        "variance.",
        alternative=f"Scatter of the first two principal components of {len(table) // len(years):,} pixels"
        + (f" in each of the years {', '.join(years)}." if len(years) > 1 else "."),
        draw=lambda: _draw_components(table, years, colours),
        wide=len(years) > 1,
    )


def _draw_components(table: pd.DataFrame, years: list[str], colours: Mapping[str, str]) -> Drawing:
    drawing = new_figure(height=4.4, width=WIDE if len(years) > 1 else 5.0)
    axes = drawing.subplots(1, len(years), squeeze=False)[0]
    for ax, year in zip(axes, years, strict=True):
        rows = table[table["year"] == year]
        order = np.random.default_rng(0).permutation(len(rows))  # no class lies on top of all others
        mixed = rows.iloc[order]
        ax.scatter(
            mixed["pc1"], mixed["pc2"], s=4, c=[colours[name] for name in mixed["class"]],
            alpha=0.55, linewidths=0, rasterized=True,
        )  # fmt: skip
        ax.set_xlabel(f"component 1 ({100 * rows['pc1_share'].iloc[0]:.1f} % of the variance)")
        ax.set_ylabel(f"component 2 ({100 * rows['pc2_share'].iloc[0]:.1f} %)")
        ax.set_title(year)
    _class_legend(drawing, colours)
    return drawing


def _class_legend(drawing: Drawing, colours: Mapping[str, str]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colour, marker="o", linestyle="none", label=name)
        for name, colour in colours.items()
    ]
    drawing.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 4))


def _bands_figure(table: pd.DataFrame, colours: Mapping[str, str]) -> StudyFigure:
    years = list(dict.fromkeys(table["year"]))
    rows = tuple(
        (f"{r['year']} {r['class']}".strip(), r["band"], rounded(r["mean"]), rounded(r["sd"]))
        for _, r in table.iterrows()
    )
    return StudyFigure(
        name="bands",
        title="Bands of each class: mean ± 2 s",
        reading="Mean and twice the standard deviation over all pixels and realisations of a class.",
        alternative=f"Means and spreads of {table['band'].nunique()} bands for {len(colours)} classes.",
        draw=lambda: _draw_bands(table, years, colours),
        numbers=Table("Bands", ("class", "band", "mean", "s"), rows),
    )


def _draw_bands(table: pd.DataFrame, years: list[str], colours: Mapping[str, str]) -> Drawing:
    bands = list(dict.fromkeys(table["band"]))
    drawing = new_figure(height=1.0 + 2.9 * len(years), width=WIDE)
    axes = drawing.subplots(len(years), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for ax, year in zip(axes, years, strict=True):
        for i, (name, colour) in enumerate(colours.items()):
            rows = table[(table["year"] == year) & (table["class"] == name)]
            x = np.arange(len(bands)) + 0.7 * ((i + 0.5) / len(colours) - 0.5)
            ax.vlines(
                x, rows["mean"] - 2 * rows["sd"], rows["mean"] + 2 * rows["sd"], color=colour, linewidth=2
            )
            ax.plot(x, rows["mean"], "o", color=colour, markersize=4, markeredgecolor="white", label=name)
        ax.set_ylabel("value")
        ax.set_title(year)
        ax.grid(axis="x", visible=False)
        for edge in np.arange(len(bands) - 1) + 0.5:
            ax.axvline(edge, color=ax.yaxis.get_gridlines()[0].get_color(), linewidth=0.7, zorder=0)
    axes[-1].set_xticks(range(len(bands)), bands, rotation=90 if len(bands) > 16 else 0)
    axes[-1].set_xlim(-0.5, len(bands) - 0.5)
    one_legend(drawing, axes)
    return drawing


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
        numbers=_score_table(rows, [m for m in models if m in set(rows["model"])]),
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
        mean = brier[brier["pixels"] == size].groupby("model")["value"].mean().sort_values()
        parts.append(
            f"with {size:,} training pixels {mean.index[0]} has the lowest normalised Brier score "
            f"({mean.iloc[0]:.3f}) and {mean.index[-1]} the highest ({mean.iloc[-1]:.3f})"
        )
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _score_table(rows: pd.DataFrame, models: list[str]) -> Table:
    wide = rows.pivot_table(
        index=["metric", "train_year", "test_year", "pixels"], columns="model", values="value", sort=False
    ).sort_index(level="pixels", sort_remaining=False)
    return Table(
        "Scores",
        ("score", "train", "test", "pixels", *models),
        tuple(
            (SCORES[m], before, after, f"{size:,}", *(rounded(row.get(x, float("nan"))) for x in models))
            for metric in METRICS
            for (m, before, after, size), row in wide.iterrows()
            if m == metric
        ),
    )


def _cost_figure(cost: pd.DataFrame) -> StudyFigure:
    models = [name for name in LOOKS if name in set(cost["model"])]
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
        numbers=Table(
            "Relative computing cost, training and evaluation",
            ("pixels", *models),
            tuple(
                (f"{size:,}", *(rounded(row.get(m, float("nan"))) for m in models))
                for size, row in wide.iterrows()
            ),
        ),
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


def land_cover_sections(
    facts: Mapping[str, Any], tables: Mapping[str, pd.DataFrame], figures: Mapping[str, Any]
) -> tuple[Section, ...]:
    """Figures in the order of the page."""
    data = [figures[name] for name in ("scene", "class-shares", "components", "bands") if name in figures]
    sizes = ", ".join(f"{size:,}" for size in sorted(tables["training"]["pixels"].unique()))
    years = " and ".join(year for year in facts["years"] if year)
    scores = tuple(figure for name, figure in figures.items() if name.startswith("scores"))
    return (
        Section(
            "pixels",
            "The data",
            f"{facts['data']}: {facts['pixels']:,} pixels with "
            f"{facts['realisations']} realisations of {len(facts['bands'])} "
            f"bands{f' in {years}' if years else ''}. Training sets of {sizes} pixels, nested; the test set "
            "is the same 90 % of the pixels for all.",
            tuple(data),
        ),
        Section("confusion-section", "Confusion", "", (figures["confusion"],)),
        Section("scores-section", "Scores", "", scores),
        Section("cost-section", "Computing cost", "", (figures["cost"],)),
    )
