"""The figure of confusion matrices, with the shares right and wrong of each predicted and each true class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Drawing

from uncover.report.page import Table
from uncover.report.study_style import PAPER, StudyFigure
from uncover.report.style import INK, MUTED, WIDE, new_figure

_RIGHT, _WRONG = "#0072B2", "#D55E00"


def confusion_figure(table: pd.DataFrame) -> StudyFigure:
    """Models trained on the largest set of the first year and tested in the last one."""
    here = table[
        (table["fraction"] == table["fraction"].max())
        & (table["train_year"] == table["train_year"].unique()[0])
        & (table["test_year"] == table["test_year"].unique()[-1])
    ]
    classes = list(dict.fromkeys(here["true"]))
    matrices = {
        model: here[here["model"] == model]
        .pivot(index="true", columns="predicted", values="count")
        .loc[classes, classes]
        .to_numpy()
        for model in PAPER
        if model in set(here["model"])
    }
    matrices = _joined(matrices)
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
        draw=lambda: _draw(matrices, classes),
        numbers=_numbers(matrices, classes),
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


def _draw(matrices: dict[str, Any], classes: list[str]) -> Drawing:
    columns = 2 if len(matrices) <= 4 or len(classes) > 5 else 3
    rows = -(-len(matrices) // columns)
    drawing = new_figure(height=(1.3 + 0.36 * (len(classes) + 2)) * rows, width=WIDE)
    axes = drawing.subplots(rows, columns, squeeze=False).reshape(-1)
    for ax, (name, matrix) in zip(axes, matrices.items(), strict=False):
        _draw_one(ax, matrix, classes)
        ax.set_title(name)
    for ax in axes[len(matrices) :]:
        ax.axis("off")
    return drawing


def _draw_one(ax: Any, matrix: Any, classes: list[str]) -> None:
    """Cells, and two more rows and columns with shares, apart by a gap."""
    K, gap = len(classes), 0.3
    per_true = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    for i in range(K):
        for j in range(K):
            _cell(ax, j, i, per_true[i, j], _RIGHT if i == j else _WRONG, f"{int(matrix[i, j]):,}")
    right = np.diagonal(matrix)
    for k in range(K):
        for n, total in enumerate((matrix.sum(axis=1)[k], matrix.sum(axis=0)[k])):
            share = right[k] / total if total else np.nan
            for m, (value, colour) in enumerate(((share, _RIGHT), (1 - share, _WRONG))):
                x, y = (K + gap + m, k) if n == 0 else (k, K + gap + m)
                _cell(ax, x, y, value, colour, "–" if value != value else f"{100 * value:.1f}")
    end = K + gap + 2
    ax.set(xlim=(-0.02, end + 0.02), ylim=(end + 0.02, -0.02), aspect="auto")
    ax.set_yticks([*(np.arange(K) + 0.5), K + gap + 0.5, K + gap + 1.5], [*classes, "right, %", "wrong, %"])
    ax.set_xticks(
        [*(np.arange(K) + 0.5), K + gap + 0.5, K + gap + 1.5],
        [*classes, "right, %", "wrong, %"],
        rotation=40,
        ha="right",
        rotation_mode="anchor",
    )
    ax.tick_params(length=0)
    ax.set_ylabel("true class", color=MUTED)
    ax.set_xlabel("predicted class", color=MUTED)
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)


def _cell(ax: Any, x: float, y: float, share: float, colour: str, text: str) -> None:
    from matplotlib.patches import Rectangle

    strength = 0.0 if share != share else float(np.clip(share, 0, 1))
    ax.add_patch(
        Rectangle((x + 0.02, y + 0.02), 0.96, 0.96, color=colour, alpha=0.06 + 0.7 * strength, linewidth=0)
    )
    dark = strength > 0.75
    ax.text(
        x + 0.5, y + 0.5, text, ha="center", va="center", fontsize=min(7.5, 37 / len(text)), zorder=3,
        color="white" if dark else INK,
    )  # fmt: skip


def _numbers(matrices: dict[str, Any], classes: list[str]) -> Table:
    return Table(
        "Pixels by model, true class (row) and predicted class (column)",
        ("model and true class", *classes),
        tuple(
            (f"{name}: {truth}", *(f"{int(v):,}" for v in matrix[i]))
            for name, matrix in matrices.items()
            for i, truth in enumerate(classes)
        ),
    )
