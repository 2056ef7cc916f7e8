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
    at_least,
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
    shared = _noises_of_both_variants(scores)
    if not shared:
        return Finding("no-covariance", _NO_COVARIANCE, "undecided", "The variant was not computed.", "")
    kind, noise = shared[len(shared) // 2]
    pairs = {}
    for p in sorted(scores["p"].unique()):
        for other in _OTHERS:
            where = {"p": p, "kind": kind, "noise": noise}
            having = difference(scores, "brier", "BQDA", other, **where)
            lacking = difference(scores, "brier", "BQDA", other, covariance=False, **where)
            if having is None or lacking is None or max(abs(having.value), abs(lacking.value)) < _NOTHING:
                continue
            pairs[p, other] = having, lacking
    text = "; ".join(f"p = {p}, {other}: {a} and {b}" for (p, other), (a, b) in pairs.items())
    return Finding(
        "no-covariance",
        _NO_COVARIANCE,
        _same_order(list(pairs.values())),
        "Brier score of BQDA less that of another model, with and without covariance: "
        f"{text or 'none of them is as large as ' + str(_NOTHING)}.",
        f"Alike: BQDA is better, or worse, than the same models in both variants ({kind} noise, σ = "
        f"{noise:g}, differences below {_NOTHING} left out); undecided where signs differ within the "
        "intervals.",
    )


def _noises_of_both_variants(scores: pd.DataFrame) -> list[tuple[str, float]]:
    """Kind and factor of the noise that both variants have, of the first such kind, by factor."""
    with_it, without = (scores[scores["covariance"] == having] for having in (True, False))
    seen = set(zip(with_it["kind"], with_it["noise"], strict=True))
    shared = [pair for pair in zip(without["kind"], without["noise"], strict=True) if pair in seen]
    return sorted({(kind, noise) for kind, noise in shared if kind == shared[0][0]})


def _same_order(pairs: Sequence[tuple[Contrast, Contrast]]) -> Verdict:
    """Whether the differences of each pair have one sign; of nothing, or without intervals, undecided."""
    if any((a.above(0) and b.below(0)) or (a.below(0) and b.above(0)) for a, b in pairs):
        return "does not hold"
    decided = bool(pairs) and all(a.has_interval and b.has_interval for a, b in pairs)
    return "holds" if decided and all((a.value > 0) == (b.value > 0) for a, b in pairs) else "undecided"


_NOTHING = 0.001
_NO_COVARIANCE = "Without covariance between variables the results are alike."


def cost(tables: Tables) -> Finding:
    """LDA, QDA and BQDA cost far less than the random forest and the neural network."""
    seconds = tables["cost"].groupby(["p", "model"])["seconds"].mean().unstack()
    seconds = seconds.reindex(columns=PAPER)
    ratios = seconds[["RF", "NN"]].min(axis=1) / seconds[["LDA", "QDA", "BQDA"]].max(axis=1)
    text = "; ".join(
        f"p = {p}: {ratios[p]:.0f} times (BQDA {seconds.loc[p, 'BQDA']:.2f} s, "
        f"RF {seconds.loc[p, 'RF']:.1f} s, NN {seconds.loc[p, 'NN']:.1f} s)"
        for p in seconds.index
    )
    return Finding(
        "cost",
        "LDA, QDA and BQDA cost far less than the random forest and the neural network.",
        at_least(ratios, 5),
        f"CPU time of the cheaper of RF and NN over the dearest of LDA, QDA and BQDA: {text}.",
        "Far less: at least five times, training and evaluation together, one thread.",
    )


def pooling_not_the_prior(tables: Tables) -> Finding:
    """With many pooled realisations plain QDA equals BQDA: the gain comes from pooling, not the prior."""
    scores = tables["scores"]
    wide = scores[scores["metric"].isin(_METRICS)].pivot_table(
        index=["p", "covariance", "kind", "noise", "data_set", "metric"], columns="model", values="value"
    )
    gaps = wide.reindex(columns=["QDA pooled", "QDA"]).sub(wide["BQDA"], axis=0).abs()
    if gaps["QDA pooled"].isna().all():
        return Finding("pooling", _POOLING, "undecided", "Pooled QDA could not be trained.", ours=True)
    largest = {m: tuple(gaps.xs(m, level="metric").max()) for m in _METRICS}
    text = "; ".join(
        f"{METRIC_NAMES[m]} {a:.1e} (one QDA per realisation: {b:.1e})" for m, (a, b) in largest.items()
    )
    return Finding(
        "pooling",
        _POOLING,
        "holds" if largest["brier"][0] < 5e-5 else "does not hold",
        f"Largest difference between BQDA and QDA fitted on all realisations pooled, over all cells: {text}.",
        "It holds if no Brier score differs by 0.00005 or more. The prior counts for p + 2 observations, "
        "against R times as many as there are training points: with fewer realisations and points the "
        "difference is larger.",
        ours=True,
    )


_POOLING = (
    "With many pooled realisations plain QDA equals BQDA to four digits: the gain over one QDA per "
    "realisation comes from pooling, not from the prior."
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
