"""The claims about the land cover study: each a function from its tables to a finding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from uncover.metrics import wilson_interval
from uncover.studies.findings import (
    METRIC_NAMES,
    MORE_IS_BETTER,
    Contrast,
    Finding,
    Verdict,
    all_better,
    at_least,
    better_by,
    percent,
)
from uncover.studies.models import PAPER
from uncover.studies.tables import Tables

#: Few training pixels are at most so many.
FEW = 1000
METRICS = ("f1", "f2", "cross_entropy_norm", "brier_norm")
_PLACE = ["train_year", "test_year", "fraction"]
_ONE_DATE = "The data are of one date; the claim is about two years."


def land_cover_findings(tables: Tables) -> list[Finding]:
    """All findings, in the order of the report."""
    claims = (
        cropland_false_positives,
        lda_is_worst,
        within_a_year,
        few_pixels,
        qda_converges,
        qda_cannot_be_trained,
        network_leads_cross_entropy,
        forest_suffers_most,
        steady_across_years,
        cost,
        pooling_not_the_prior,
    )
    return [claim(tables) for claim in claims]


@dataclass(frozen=True)
class Place:
    """One pair of years at one training size."""

    train_year: str
    test_year: str
    fraction: float
    pixels: int

    @property
    def across(self) -> bool:
        """Whether training and test are of different years."""
        return self.train_year != self.test_year

    def rows(self, table: pd.DataFrame) -> pd.DataFrame:
        """Rows of a table that belong here."""
        here = table["fraction"].to_numpy() == self.fraction
        for name in ("train_year", "test_year"):
            here &= table[name].to_numpy() == getattr(self, name)
        return table[here]


def places(tables: Tables) -> list[Place]:
    """All pairs of years and training sizes, small sizes first."""
    keys = tables["training"][[*_PLACE, "pixels"]].drop_duplicates()
    found = [Place(*row) for row in keys.itertuples(index=False)]
    return sorted(found, key=lambda place: place.pixels)


def lead(tables: Tables, place: Place, metric: str, model: str, other: str) -> Contrast | None:
    """By how much a model is better than another; None where one could not be trained."""
    scores = place.rows(tables["scores"])
    values = scores[scores["metric"] == metric].set_index("model")["value"]
    if model not in values or other not in values:
        return None
    draws = place.rows(tables["replicates"]).pivot(index="draw", columns="model", values=metric)
    found = Contrast.of_replicates(values[model] - values[other], draws[model] - draws[other])
    return better_by(metric, found)


def _values(tables: Tables, place: Place, metric: str) -> pd.Series:
    """Score of each model of the paper that could be trained."""
    scores = place.rows(tables["scores"])
    rows = scores[(scores["metric"] == metric) & scores["model"].isin(PAPER)]
    return rows.set_index("model")["value"]


def _best(values: pd.Series, metric: str) -> str:
    return str(values.idxmax() if metric in MORE_IS_BETTER else values.idxmin())


def _largest(tables: Tables) -> list[Place]:
    """Places with the most training pixels."""
    every = places(tables)
    return [place for place in every if place.pixels == every[-1].pixels]


def _across_or_any(every: list[Place]) -> list[Place]:
    return [place for place in every if place.across] or every


def cropland_false_positives(tables: Tables) -> Finding:
    """All classifiers have many false positives for cropland."""
    claim = "All classifiers have many false positives for cropland."
    names = [name for name in tables["shares"]["class"] if name.lower() in ("cropland", "crops", "arable")]
    if not names:
        return Finding("cropland", claim, "undecided", "The data have no class that is called cropland.")
    place = _across_or_any(_largest(tables))[0]
    table = place.rows(tables["confusion"])
    most, parts, most_of = [], [], []
    for model in [name for name in PAPER if name in set(table["model"])]:
        mine = table[(table["model"] == model)]
        wrong = mine[mine["predicted"] != mine["true"]].groupby("predicted")["count"].sum()
        total = mine[mine["predicted"] == names[0]]["count"].sum()
        most.append(wrong[names[0]] > wrong.drop(names[0]).max())
        most_of.append(f"{model} {wrong.idxmax() if wrong.any() else 'none'}")
        if total:
            share = wrong[names[0]] / total
            low, high = wilson_interval(share, total)
            parts.append(f"{model} {percent(share)} [{100 * low:.1f}, {100 * high:.1f}]")
    return Finding(
        "cropland",
        claim,
        "holds" if most and all(most) else "does not hold" if most else "undecided",
        f"Of the pixels that were called {names[0]} these shares were something else: {'; '.join(parts)}.",
        f"Many: more than for any other class, in every classifier; {_where(place)}. The intervals take "
        f"pixels for independent. Most false positives: {'; '.join(most_of)}.",
    )


def _where(place: Place) -> str:
    years = f"trained in {place.train_year}, tested in {place.test_year}, " if place.train_year else ""
    return f"{years}{place.pixels:,} training pixels"


def lda_is_worst(tables: Tables) -> Finding:
    """LDA is worst."""
    every, parts = [], []
    for place in _largest(tables):
        found = {other: lead(tables, place, "brier_norm", other, "LDA") for other in PAPER if other != "LDA"}
        leads = {other: c for other, c in found.items() if c is not None}
        if not leads:
            continue
        every += list(leads.values())
        closest = min(leads, key=lambda other: leads[other].value)
        parts.append(f"{_where(place)}: {closest} {leads[closest]}")
    if not every:
        why = "LDA could not be trained at the largest training size."
        return Finding("lda-worst", "LDA is worst.", "undecided", why)
    return Finding(
        "lda-worst",
        "LDA is worst.",
        all_better(every),
        "The smallest lead of another model over LDA in the normalised Brier score: "
        + "; ".join(parts)
        + ".",
        "It holds if every other model is better than LDA at the largest training size.",
    )


def within_a_year(tables: Tables) -> Finding:
    """The random forest and the neural network do better within a year."""
    claim = "Within a year the random forest and the neural network do better than across years, and best."
    largest = _largest(tables)
    if not any(place.across for place in largest):
        return Finding("within-a-year", claim, "undecided", _ONE_DATE)
    parts, every, drops = [], [], []
    for model in ("RF", "NN"):
        for place in [p for p in largest if not p.across]:
            ahead = lead(tables, place, "brier_norm", model, "BQDA")
            if ahead is not None:
                every.append(ahead)
                parts.append(f"{model} over BQDA in {place.train_year} {ahead}")
        drop = _mean(tables, model, largest, across=True) - _mean(tables, model, largest, across=False)
        drops.append(drop)
        parts.append(f"{model} loses {drop:.4f} across years".replace("-", "−"))
    return Finding(
        "within-a-year",
        claim,
        "does not hold" if min(drops) <= 0 else all_better(every),
        "Lead in the normalised Brier score: " + "; ".join(parts) + ".",
        "It holds if both are better than BQDA in the same year at the largest training size, and lose "
        "across years.",
    )


def _mean(tables: Tables, model: str, every: list[Place], *, across: bool) -> float:
    values = [_values(tables, p, "brier_norm").get(model, np.nan) for p in every if p.across == across]
    return float(np.mean(values))


def few_pixels(tables: Tables) -> Finding:
    """With few training pixels BQDA leads most metrics."""
    claim = f"With few training pixels (at most {FEW:,}) BQDA leads most metrics."
    few = [place for place in places(tables) if place.pixels <= FEW]
    parts = [(place, _only(tables, place)) for place in few]
    winners = [(m, _best(_values(part, place, m), m)) for place, part in parts for m in METRICS]
    if not winners:
        return Finding("few-pixels", claim, "undecided", f"No training set is as small as {FEW:,} pixels.")
    won = sum(best == "BQDA" for _, best in winners)
    by_metric = {m: sum(b == "BQDA" for n, b in winners if n == m) for m in METRICS}
    text = ", ".join(f"{METRIC_NAMES[m]} {n} of {len(few)}" for m, n in by_metric.items())
    clear = sum(_clear_lead(part, place, m) for place, part in parts for m in METRICS)
    leading = sum(2 * n > len(few) for n in by_metric.values())
    return Finding(
        "few-pixels",
        claim,
        "holds" if leading > len(METRICS) / 2 else "does not hold",
        f"BQDA has the best value in {won} of {len(winners)} comparisons, {clear} of them with an interval "
        f"clear of every other model: {text}.",
        "It holds if BQDA is best in most training sets for most metrics, among the paper's five.",
    )


def _only(tables: Tables, place: Place) -> Tables:
    """The tables of one place, where there is much to be looked up in it."""
    return {**tables, **{name: place.rows(tables[name]) for name in ("scores", "replicates")}}


def _clear_lead(tables: Tables, place: Place, metric: str) -> bool:
    others = [lead(tables, place, metric, "BQDA", other) for other in PAPER if other != "BQDA"]
    known = [c for c in others if c is not None]
    return bool(known) and all(c.above(0) for c in known)


def qda_converges(tables: Tables) -> Finding:
    """QDA and BQDA converge as training grows."""
    means = _distance_to_bqda(tables, "QDA")
    if len(means) < 2:
        return Finding(
            "qda-converges", _CONVERGE, "undecided", "QDA could be trained at fewer than two training sizes."
        )
    pooled = _distance_to_bqda(tables, "QDA pooled")
    first, *_, last = means.values()
    return Finding(
        "qda-converges",
        _CONVERGE,
        "holds" if last < 0.5 * first and last < 0.02 else "does not hold",
        f"Difference of the normalised Brier score between QDA and BQDA, mean over pairs of years: "
        f"{_by_size(means)}."
        + (f" Ours, one QDA on all realisations pooled: {_by_size(pooled)}." if pooled else ""),
        "It holds if the difference at the largest size is below 0.02 and less than half of that at the "
        "smallest. One QDA for each realisation does not see the spread between them, however large the "
        "training set is; fitted to all of them pooled, it does.",
    )


def _distance_to_bqda(tables: Tables, model: str) -> dict[int, float]:
    """Distance of the normalised Brier score of a model to that of BQDA by size, mean over pairs of years."""
    gaps: dict[int, list[float]] = {}
    for place in places(tables):
        values = _with_ours(tables, place)
        if {model, "BQDA"} <= set(values.index):
            gaps.setdefault(place.pixels, []).append(abs(values[model] - values["BQDA"]))
    return {size: float(np.mean(each)) for size, each in gaps.items()}


def _by_size(values: dict[int, float]) -> str:
    return "; ".join(f"{size:,} pixels {value:.4f}" for size, value in values.items())


_CONVERGE = "QDA and BQDA converge as training grows."


def qda_cannot_be_trained(tables: Tables) -> Finding:
    """At 0.1 % of the pixels QDA cannot be trained, and BQDA can."""
    training = tables["training"]
    size = training["fraction"].min()
    mine = training[training["fraction"] == size]
    trained = mine.groupby("model")["trained"].mean()
    why = mine.loc[(mine["model"] == "QDA") & ~mine["trained"], "why"]
    reason = f" QDA says: {why.iloc[0]}" if len(why) else ""
    found: Verdict = "holds" if trained["QDA"] == 0 and trained["BQDA"] == 1 else "does not hold"
    first = "" if size == 0.001 else f" The smallest training set here has {percent(size)} of the pixels."
    return Finding(
        "qda-not-trained",
        "At 0.1 % of the pixels QDA cannot be trained, and BQDA can.",
        "undecided" if first else found,
        f"At {percent(size)} ({mine['pixels'].iloc[0]:,} pixels) QDA could be trained in "
        f"{percent(trained['QDA'])} and BQDA in {percent(trained['BQDA'])} of the cases.{reason}",
        f"A class needs more pixels than there are bands for its covariance to be invertible.{first}",
    )


def network_leads_cross_entropy(tables: Tables) -> Finding:
    """The neural network leads cross-entropy."""
    every = places(tables)
    values = [_values(tables, place, "cross_entropy_norm") for place in every]
    won = [_best(v, "cross_entropy_norm") == "NN" for v in values]
    finite = {m: np.median([v.get(m, np.nan) for v in values]) for m in ("NN", "BQDA", "RF")}
    text = ", ".join(f"{m} {value:.3f}" for m, value in finite.items())
    zeros = tables["scores"].drop_duplicates([*_PLACE, "model"]).groupby("model")["zeros"].sum()
    return Finding(
        "network-cross-entropy",
        "The neural network leads cross-entropy.",
        "holds" if 2 * sum(won) > len(won) else "does not hold",
        f"NN has the lowest normalised cross-entropy in {sum(won)} of {len(won)} pairs of years and sizes; "
        f"medians: {text}. True classes that were given the probability 0: "
        + ", ".join(f"{m} {int(zeros[m]):,}" for m in PAPER if m in zeros)
        + ".",
        "It holds if NN is lowest in most cases. Probabilities below 2.2e-16 count as that much: a true "
        "class that was given 0 costs 36 nats.",
    )


def forest_suffers_most(tables: Tables) -> Finding:
    """The random forest suffers most from little data."""
    claim = "The random forest suffers most from little data."
    every = places(tables)
    if every[0].pixels == every[-1].pixels:
        return Finding("forest-suffers", claim, "undecided", "There is one training size only.")
    ends = [[p for p in every if p.pixels == size] for size in (every[0].pixels, every[-1].pixels)]
    f1 = [pd.DataFrame([_values(tables, p, "f1") for p in end]).mean() for end in ends]
    both = [model for model in PAPER if model in f1[0] and model in f1[1]]
    losses = {model: float(f1[1][model] - f1[0][model]) for model in both}
    worst = max(losses, key=lambda model: losses[model])
    return Finding(
        "forest-suffers",
        claim,
        "holds" if worst == "RF" and losses["RF"] > 0 else "does not hold",
        "F₁ lost from the largest to the smallest training set, mean over pairs of years: "
        + "; ".join(f"{model} {loss:.3f}".replace("-", "−") for model, loss in losses.items())
        + ".",
        "Among the models that could be trained at the smallest size. The paper's forest may be boosted "
        "trees (MATLAB's fitcensemble boosts by default for several classes), which need more data.",
    )


def steady_across_years(tables: Tables) -> Finding:
    """Across years BQDA has the lowest and steadiest Brier score."""
    claim = "Across years BQDA has the lowest and steadiest Brier score."
    across = [place for place in places(tables) if place.across]
    if not across:
        return Finding("across-years", claim, "undecided", _ONE_DATE)
    table = pd.DataFrame([_values(tables, place, "brier_norm") for place in across])
    means, ranges = table.mean(), table.max() - table.min()
    complete = table.notna().all()
    best = means[complete].idxmin() == "BQDA" and ranges[complete].idxmin() == "BQDA"
    leads = [
        c
        for place in across
        for other in ("RF", "NN", "LDA")
        if (c := lead(tables, place, "brier_norm", "BQDA", other)) is not None
    ]
    ahead = sum(c.above(0) for c in leads)
    return Finding(
        "across-years",
        claim,
        "holds" if best else "does not hold",
        "Mean (and range) of the normalised Brier score over the training sizes and both directions: "
        + "; ".join(f"{m} {means[m]:.3f} ({ranges[m]:.3f})" for m in PAPER if m in means)
        + f". BQDA is clearly ahead in {ahead} of {len(leads)} comparisons with RF, NN and LDA."
        + _said_of_worlds(tables, across),
        "It holds if BQDA has both the lowest mean and the smallest range among the models that could be "
        "trained at every size.",
    )


def _said_of_worlds(tables: Tables, across: list[Place]) -> str:
    """The same of BQDA that knows what realisations are worlds, where it was fitted."""
    found = [_with_ours(tables, place).get("BQDA shared", np.nan) for place in across]
    if np.isnan(found).any():
        return ""
    return f" Ours, told that realisations are worlds: {np.mean(found):.3f} ({np.ptp(found):.3f})."


def cost(tables: Tables) -> Finding:
    """LDA, QDA and BQDA cost far less than the random forest and the neural network."""
    seconds = tables["cost"].groupby(["pixels", "model"])["seconds"].mean().unstack().reindex(columns=PAPER)
    dearest = seconds[["LDA", "QDA", "BQDA"]].max(axis=1)  # of those that could be trained
    ratios = seconds[["RF", "NN"]].min(axis=1) / dearest
    dear, cheap = seconds["RF"] / seconds["BQDA"], seconds["NN"] / seconds["BQDA"]
    return Finding(
        "cost",
        "LDA, QDA and BQDA cost far less than the random forest and the neural network.",
        at_least(ratios, 5),
        "CPU time over that of BQDA: "
        + "; ".join(f"{size:,} pixels RF {dear[size]:.0f}, NN {cheap[size]:.0f}" for size in seconds.index)
        + f". Cheaper of these two over dearest of the three: {ratios.min():.1f} to {ratios.max():.1f}.",
        "Far less: at least five times at every size, training and evaluation together, one thread.",
    )


def pooling_not_the_prior(tables: Tables) -> Finding:
    """With many pooled realisations plain QDA nears BQDA."""
    claim = "Pooled plain QDA nears BQDA: what is gained over one QDA per realisation comes from pooling."
    gaps: dict[int, list[tuple[float, float]]] = {}
    for place in places(tables):
        values = _with_ours(tables, place)
        if {"QDA pooled", "BQDA", "QDA"} <= set(values.index):
            pair = (abs(values["QDA pooled"] - values["BQDA"]), abs(values["QDA"] - values["BQDA"]))
            gaps.setdefault(place.pixels, []).append(pair)
    if not gaps:
        tried = "QDA pooled" in set(tables["training"]["model"])
        why = "QDA could not be trained" if tried else "The data have no realisations to pool"
        return Finding("pooling", claim, "undecided", f"{why}.", ours=True)
    largest = {size: np.max(pairs, axis=0) for size, pairs in gaps.items()}
    return Finding(
        "pooling",
        claim,
        "holds" if all(a <= b for a, b in largest.values()) else "does not hold",
        "Largest difference of the normalised Brier score from BQDA, of pooled QDA and of one QDA per "
        "realisation: "
        + "; ".join(f"{size:,} pixels {a:.4f} and {b:.4f}" for size, (a, b) in largest.items())
        + ".",
        "It holds if pooled QDA is nearer to BQDA than one QDA per realisation at every size.",
        ours=True,
    )


def _with_ours(tables: Tables, place: Place) -> pd.Series:
    scores = place.rows(tables["scores"])
    return scores[scores["metric"] == "brier_norm"].set_index("model")["value"]
