"""What is written beside the figures of studies: it follows from their numbers."""

import numpy as np
import pandas as pd
import pytest

from uncover.report.study_figures import confusion_figure, land_cover_figures, synthetic_figures
from uncover.report.study_style import _key, _tick, caution, dodged, rounded

LOWEST = ("BQDA repeats", "QDA pooled", "LR")


def synthetic_tables(lowest, gap):
    """Brier scores in which one model is the lowest, and pooled QDA is so far from BQDA."""
    at = {"BQDA": 0.2, "QDA": 0.21, "QDA pooled": 0.2 + gap, "BQDA repeats": 0.19, "LR": 0.3, lowest: 0.001}
    rows = [
        {"p": p, "covariance": True, "kind": "gaussian", "noise": noise, "model": model, "metric": metric,
         "value": noise * value, "low": value, "high": value, "n": 3, "zeros": 0}
        for p in (2, 10) for noise in (0.2, 1.0) for model, value in at.items()
        for metric in ("f1", "f2", "cross_entropy", "brier")
    ]  # fmt: skip
    cost = pd.DataFrame([{"p": 2, "model": "BQDA", "fit_seconds": 1.0, "predict_seconds": 1.0}])
    return {"means": pd.DataFrame(rows), "cost": cost}


@pytest.mark.parametrize("lowest", LOWEST)
def test_the_figure_of_further_models_says_what_it_shows(lowest):
    figures = {figure.name: figure for figure in synthetic_figures(synthetic_tables(lowest, gap=0.05))}
    said = figures["ours-brier"].alternative
    highest = "LR" if lowest != "LR" else "QDA pooled"
    assert f"at σ = 1 for p = 2 {lowest} is lowest (0.001) and {highest} highest" in said
    assert said.count(f"{lowest} is lowest") == 2
    assert not any(f"{other} is lowest" in said for other in LOWEST if other != lowest)
    gap = 0.199 if lowest == "QDA pooled" else 0.05
    assert f"is {gap} of pooled QDA, and 0.01 of one QDA" in figures["ours-brier"].reading


def confusion(**matrices):
    """Counts by model, (true, predicted)."""
    names = ("crop", "wood")
    where = {"train_year": "", "test_year": "", "fraction": 0.1, "pixels": 10}
    return pd.DataFrame(
        [
            {**where, "model": model, "true": names[i], "predicted": names[j], "count": matrix[i][j]}
            for model, matrix in matrices.items() for i in range(2) for j in range(2)
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("other", "title"),
    [
        ([[900, 100], [50, 950]], "QDA and BQDA (the same numbers)"),
        ([[901, 99], [50, 950]], "BQDA (QDA differs in at least 1 pixel)"),
        ([[903, 97], [52, 948]], "BQDA (QDA differs in at least 5 pixels)"),
        ([[990, 10], [50, 950]], "BQDA"),
    ],
)
def test_equal_counts_are_not_called_equal_predictions(other, title):
    figure = confusion_figure(confusion(BQDA=[[900, 100], [50, 950]], QDA=other))
    assert figure.alternative.startswith(f"{title}: 92.5 % of the test pixels right")


def test_the_confusion_is_of_the_first_and_the_last_year_as_they_were_given():
    years = ("late", "early")
    parts = [
        confusion(BQDA=[[90 + i, 10], [5, 95]]).assign(train_year=before, test_year=after)
        for i, (before, after) in enumerate((a, b) for a in years for b in years)
    ]
    figure = confusion_figure(pd.concat(parts, ignore_index=True))
    assert "trained in late, tested in early" in figure.reading
    assert figure.numbers.rows[0] == ("BQDA: crop", "91", "10")


def test_names_of_models_keep_their_capitals(tmp_path):
    rng = np.random.default_rng(0)
    where = {"train_year": "", "test_year": "", "low": 0.0, "high": 1.0, "zeros": 0}
    scores = pd.DataFrame(
        [
            {**where, "pixels": n, "model": model, "metric": m, "value": value}
            for n in (12, 120) for model, value in (("BQDA", 0.1), ("RF", 0.2))
            for m in ("f1", "f2", "cross_entropy_norm", "brier_norm")
        ]
    )  # fmt: skip
    cost = scores.assign(fit_seconds=1.0, predict_seconds=1.0, seconds=2.0)
    bands = pd.DataFrame({"year": "", "class": ["crop"], "band": "B02", "mean": rng.random(1), "sd": 0.1})
    tables = {
        "shares": pd.DataFrame({"class": ["crop", "wood"], "pixels": 5, "share": 0.5}),
        "bands": bands,
        "scores": scores,
        "cost": cost,
        "confusion": confusion(BQDA=[[9, 1], [1, 9]]),
    }
    figures = {figure.name: figure for figure in land_cover_figures(tables, tmp_path)}
    said = figures["scores"].alternative
    assert said.startswith(
        "With 12 training pixels BQDA has the lowest normalised Brier score (0.100) and RF"
    )
    assert "QDA, NN, LDA could not be trained on the smallest set" in figures["scores"].reading


def test_numbers_and_names_as_readers_see_them():
    assert [_tick(value) for value in (20000, 0.002, 1e-7)] == ["20,000", "0.002", "1e−7"]
    assert [_key(value) for value in ("2020", 18914, 0.2)] == ["2020", "18,914", "0.2"]
    assert [rounded(value) for value in (0.123456, float("nan"))] == ["0.1235", "–"]
    assert [dodged([1.0], i, 3, 0.2) for i in (0, 2)] == [[0.9], [1.1]]


def test_scores_that_are_no_probabilities_are_named():
    assert caution(["RF"]) == ""
    assert "not probabilities" in caution(["RF", "AdaBoost.M2 scores"])
