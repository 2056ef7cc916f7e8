"""The claims about the synthetic study: each a function from its tables to a finding."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from uncover.studies.findings import (
    METRIC_NAMES,
    Contrast,
    Finding,
    Verdict,
    all_alike,
    all_better,
    better_by,
)
from uncover.studies.models import PAPER
from uncover.studies.tables import Tables

#: Differences below these count as none.
MARGIN = {"f1": 0.02, "f2": 0.02, "cross_entropy": 0.05, "brier": 0.01}
_METRICS = tuple(MARGIN)
_OTHERS = tuple(name for name in PAPER if name != "BQDA")
_BOOSTED = (
    "Where the random forest differs: MATLAB's fitcensemble boosts trees by default for several classes, so "
    "that the paper's may be boosted trees."
)


def synthetic_findings(tables: Tables) -> list[Finding]:
    """All findings, in the order of the report."""
    claims = (
        alike_in_two_dimensions,
        best_in_ten_dimensions,
        lead_grows_in_fifty_dimensions,
        kinds_of_noise_alike,
        covariance_makes_no_difference,
        cost,
        pooling_not_the_prior,
        repeats_beat_pooling,
    )
    return [claim(tables) for claim in claims]


def difference(scores: pd.DataFrame, metric: str, model: str, other: str, **where: object) -> Contrast | None:
    """Mean difference of two models over the data sets; None where there is none of them."""
    per_set = _per_data_set(scores, metric, **where)
    if model not in per_set or other not in per_set:
        return None
    values = (per_set[model] - per_set[other]).dropna()
    return Contrast.of_values(values) if len(values) else None


def _per_data_set(scores: pd.DataFrame, metric: str, **where: object) -> pd.DataFrame:
    """Scores of each data set (row) and model (column), averaged over kinds and factors of noise."""
    rows = scores[scores["metric"] == metric]
    for name, value in {"covariance": True, **where}.items():
        rows = rows[rows[name] == value]
    return rows.pivot_table(index="data_set", columns="model", values="value", aggfunc="mean")


def _leads(scores: pd.DataFrame, others: Sequence[str], **where: object) -> dict[tuple[str, str], Contrast]:
    """By how much BQDA is better than others, by metric and model; above zero is better."""
    found = {}
    for metric in _METRICS:
        for other in others:
            d = difference(scores, metric, "BQDA", other, **where)
            if d is not None:
                found[metric, other] = better_by(metric, d)
    return found


def alike_in_two_dimensions(tables: Tables) -> Finding:
    """At p = 2 all models are alike, and the neural network equals BQDA."""
    scores = tables["scores"]
    found = {other: difference(scores, "brier", "BQDA", other, p=2) for other in _OTHERS}
    f1 = {other: difference(scores, "f1", "BQDA", other, p=2) for other in _OTHERS}
    brier = {other: d for other, d in found.items() if d is not None}
    margin = MARGIN["brier"]
    text = "; ".join(f"{other} {d} (F₁ {f1[other]})" for other, d in brier.items())
    return Finding(
        "p-2-alike",
        "At p = 2 all models are alike, and the neural network equals BQDA.",
        all_alike(brier.values(), margin),
        f"Brier score of BQDA less that of: {text}.",
        f"Alike: the interval of the Brier score's difference lies within ±{margin}, over all noise. "
        f"{_BOOSTED}",
    )


def best_in_ten_dimensions(tables: Tables) -> Finding:
    """At p = 10 BQDA is best at every noise level."""
    scores = tables["scores"]
    noises = sorted(scores.loc[scores["p"] == 10, "noise"].unique())
    at_noise = {noise: _leads(scores, _OTHERS, p=10, noise=noise) for noise in noises}
    overall = [lead for (metric, _), lead in _leads(scores, _OTHERS, p=10).items() if metric == "brier"]
    parts = []
    for noise, found in at_noise.items():
        (metric, other), least = min(found.items(), key=lambda item: item[1].value / MARGIN[item[0][0]])
        parts.append(f"σ = {noise:g}: {least} in {METRIC_NAMES[metric]} over {other}")
    won, cases = _times_best(scores[(scores["p"] == 10) & scores["covariance"]])
    return Finding(
        "p-10-best",
        "At p = 10 BQDA is best at every noise level.",
        _best_verdict([lead for found in at_noise.values() for lead in found.values()], overall),
        f"BQDA has the lowest Brier score of the five in {won} of {cases} cases (data set, noise). Its "
        "smallest lead in F₁, F₂, cross-entropy and Brier score: " + "; ".join(parts) + ".",
        "It holds if the mean lead is above zero over every model in all four scores at every noise level, "
        "and that in the Brier score over all noise is so with its interval; it does not if one lead is "
        f"below zero with its interval. {_BOOSTED}",
    )


def _best_verdict(at_noise: list[Contrast], overall: list[Contrast]) -> Verdict:
    if any(lead.below(0) for lead in at_noise):
        return "does not hold"
    everywhere = all(lead.value > 0 for lead in at_noise)
    return "holds" if everywhere and all_better(overall) == "holds" else "undecided"


def _times_best(scores: pd.DataFrame) -> tuple[int, int]:
    """How often BQDA has the lowest Brier score among the models of the paper, of how many cases."""
    brier = scores[(scores["metric"] == "brier") & scores["model"].isin(PAPER)]
    wide = brier.pivot_table(index=["kind", "noise", "data_set"], columns="model", values="value")
    return int((wide.idxmin(axis=1) == "BQDA").sum()), len(wide)


def lead_grows_in_fifty_dimensions(tables: Tables) -> Finding:
    """At p = 50 the lead of BQDA grows with the noise."""
    scores = tables["scores"]
    noises = sorted(scores.loc[scores["p"] == 50, "noise"].unique())
    least, most = (_per_data_set(scores, "brier", p=50, noise=noise) for noise in (noises[0], noises[-1]))
    growth = {}
    for other in _OTHERS:
        if other in least and other in most:
            values = (most[other] - most["BQDA"]) - (least[other] - least["BQDA"])
            growth[other] = Contrast.of_values(values.dropna())
    text = "; ".join(f"over {other} by {c}" for other, c in growth.items())
    return Finding(
        "p-50-lead-grows",
        "At p = 50 the lead of BQDA grows with the noise.",
        all_better(growth.values()),
        f"From σ = {noises[0]:g} to {noises[-1]:g} the lead in the Brier score grows {text}.",
        f"It holds if the growth is above zero over every other model. {_BOOSTED}",
    )


def kinds_of_noise_alike(tables: Tables) -> Finding:
    """Gaussian and uniform noise behave alike."""
    scores, margin = tables["scores"], MARGIN["brier"]
    found = {}
    for p in sorted(scores["p"].unique()):
        for model in PAPER:
            kinds = [_per_data_set(scores, "brier", p=p, kind=kind) for kind in ("gaussian", "uniform")]
            if all(model in kind for kind in kinds):
                found[p, model] = Contrast.of_values((kinds[0][model] - kinds[1][model]).dropna())
    (p, model), largest = max(found.items(), key=lambda item: abs(item[1].value))
    return Finding(
        "kinds-of-noise",
        "Gaussian and uniform noise behave alike.",
        all_alike(found.values(), margin),
        f"The largest difference of the Brier score between Gaussian and uniform noise is that of {model} at "
        f"p = {p}: {largest}.",
        f"Alike: within ±{margin} for every model and p, mean over the noise levels.",
    )


def covariance_makes_no_difference(tables: Tables) -> Finding:
    """Without covariance between variables the results are alike."""
    scores = tables["scores"]
    without = scores[~scores["covariance"]]
    if without.empty:
        return Finding("no-covariance", _NO_COVARIANCE, "undecided", "The variant was not computed.", "")
    kind, noise = without["kind"].iloc[0], float(without["noise"].median())
    parts, same, opposite = [], True, False
    for p in sorted(without["p"].unique()):
        for other in _OTHERS:
            where = {"p": p, "kind": kind, "noise": noise}
            having = difference(scores, "brier", "BQDA", other, **where)
            lacking = difference(scores, "brier", "BQDA", other, covariance=False, **where)
            if having is None or lacking is None or max(abs(having.value), abs(lacking.value)) < _NOTHING:
                continue
            parts.append(f"p = {p}, {other}: {having} and {lacking}")
            same = same and (having.value > 0) == (lacking.value > 0)
            opposite = (
                opposite or (having.above(0) and lacking.below(0)) or (having.below(0) and lacking.above(0))
            )
    return Finding(
        "no-covariance",
        _NO_COVARIANCE,
        "does not hold" if opposite else "holds" if same else "undecided",
        "Brier score of BQDA less that of another model, with and without covariance: "
        + "; ".join(parts)
        + ".",
        f"Alike: BQDA is better, or worse, than the same models in both variants ({kind} noise, σ = "
        f"{noise:g}, differences below {_NOTHING} left out); undecided where signs differ within the "
        "intervals.",
    )


_NOTHING = 0.001
_NO_COVARIANCE = "Without covariance between variables the results are alike."


def cost(tables: Tables) -> Finding:
    """LDA, QDA and BQDA cost far less than the random forest and the neural network."""
    seconds = tables["cost"].groupby(["p", "model"])["seconds"].mean().unstack()
    dear = seconds[["RF", "NN"]].min(axis=1)
    cheap = seconds.reindex(columns=["LDA", "QDA", "BQDA"]).max(axis=1)
    ratios = dear / cheap
    text = "; ".join(
        f"p = {p}: {ratios[p]:.0f} times (BQDA {seconds.loc[p, 'BQDA']:.2f} s, "
        f"RF {seconds.loc[p, 'RF']:.1f} s, NN {seconds.loc[p, 'NN']:.1f} s)"
        for p in seconds.index
    )
    return Finding(
        "cost",
        "LDA, QDA and BQDA cost far less than the random forest and the neural network.",
        "holds" if (ratios >= 5).all() else "does not hold",
        f"CPU time of the cheaper of RF and NN over the dearest of LDA, QDA and BQDA: {text}.",
        "Far less: at least five times, training and evaluation together, one thread.",
    )


def pooling_not_the_prior(tables: Tables) -> Finding:
    """With many pooled realisations plain QDA equals BQDA: the gain comes from pooling, not the prior."""
    scores = tables["scores"]
    wide = scores[scores["metric"].isin(_METRICS)].pivot_table(
        index=["p", "covariance", "kind", "noise", "data_set", "metric"], columns="model", values="value"
    )
    pooled = (wide["QDA pooled"] - wide["BQDA"]).abs().dropna()
    apart = (wide["QDA"] - wide["BQDA"]).abs().dropna()
    largest = {
        metric: (pooled.xs(metric, level="metric").max(), apart.xs(metric, level="metric").max())
        for metric in _METRICS
    }
    text = "; ".join(
        f"{METRIC_NAMES[m]} {a:.1e} (one QDA per realisation: {b:.1e})" for m, (a, b) in largest.items()
    )
    return Finding(
        "pooling",
        "With many pooled realisations plain QDA equals BQDA to four digits: the gain over one QDA per "
        "realisation comes from pooling, not from the prior.",
        "holds" if largest["brier"][0] < 5e-5 else "does not hold",
        f"Largest difference between BQDA and QDA fitted on all realisations pooled, over all cells: {text}.",
        "It holds if no Brier score differs by 0.00005 or more. The prior counts for p + 2 observations, "
        "against R times as many as there are training points: with fewer realisations and points the "
        "difference is larger.",
        ours=True,
    )


def repeats_beat_pooling(tables: Tables) -> Finding:
    """Taking the realisations for what they are, repeats of one value, beats pooling them."""
    scores = tables["scores"]
    ratios, leads = [], []
    for p in sorted(scores["p"].unique()):
        each = _per_data_set(scores, "brier", p=p)
        if "BQDA repeats" in each:
            lead = Contrast.of_values((each["BQDA"] - each["BQDA repeats"]).dropna())
            leads.append(lead)
            ratios.append(
                f"p = {p}: {each['BQDA'].mean():.4f} against {each['BQDA repeats'].mean():.4f}, lead {lead}"
            )
    return Finding(
        "repeats",
        'Realisations of this study are repeats of one true value: realisations="repeats" beats pooling.',
        all_better(leads),
        "Brier score of BQDA pooled against repeats: " + "; ".join(ratios) + ".",
        "The mean of R repeats has R times less noise; pooling throws that away.",
        ours=True,
    )
