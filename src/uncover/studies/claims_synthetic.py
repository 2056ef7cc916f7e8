"""The claims about the synthetic study, as data; and the tests that compare its variants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from uncover.studies.claims import (
    NOTHING,
    Alike,
    Claim,
    Growth,
    Leads,
    Results,
    Scores,
    Test,
    Worsens,
    decided,
)
from uncover.studies.claims_landcover import cheaper, forest_dearest
from uncover.studies.findings import METRIC_NAMES, Contrast, Finding, Outcome, Verdict, all_alike, all_better
from uncover.studies.models import PAPER
from uncover.studies.tables import Tables

#: Differences below these count as none.
MARGIN = {"f1": 0.02, "f2": 0.02, "cross_entropy": 0.05, "brier": 0.01}
METRICS = tuple(MARGIN)
#: Least size of the study for claims about scores; the paper's has 1,000 points, 100 realisations.
ENOUGH = {"points a class": 1000, "realisations": 25, "data sets": 3}
_OTHERS = tuple(name for name in PAPER if name != "BQDA")


def synthetic_findings(tables: Tables, size: Mapping[str, int]) -> list[Finding]:
    """All findings, in the order of the report.

    `size` has the points of a class and the realisations; data sets are counted.
    """
    scores = tables["scores"]
    sets = scores.groupby("p")["data_set"].nunique()
    results = Results(tables, Scores.of_data_sets(scores))
    return [claim.judge(results, {**size, "data sets": int(sets.min())}) for claim in SYNTHETIC_CLAIMS]


def kinds_alike(results: Results) -> Outcome:
    """Gaussian and uniform noise give the same Brier scores."""
    found: dict[str, Contrast] = {}
    rows = results.scores.rows("brier", {"covariance": True})
    for p, mine in rows.groupby("p"):
        for model in [m for m in PAPER if m in mine]:
            side = mine["kind"].map({"gaussian": -2.0, "uniform": 2.0})  # rows hold −Brier
            both = results.scores.contrast(mine, mine[model] * side)
            found |= {} if both is None else {f"{model} at p = {p}": both}
    if not found or rows["kind"].nunique() < 2:
        return NOTHING
    largest = max(found, key=lambda name: abs(found[name].value))
    margin = MARGIN["brier"]
    return Outcome(
        all_alike(found.values(), margin),
        f"The largest difference of the Brier score is that of {largest}: {found[largest]}.",
        f"It holds if it lies within ±{margin} with its interval for every model and p, mean over the noise "
        "levels.",
    )


def covariance_alike(results: Results) -> Outcome:
    """BQDA is better, or worse, than the same models with and without covariance between variables."""
    shared = _shared_noise(results.scores.table)
    pairs: dict[str, tuple[Contrast, Contrast]] = {}
    for p in sorted(results.scores.table["p"].unique()) if shared else ():
        for other in _OTHERS:
            leads = [
                results.scores.lead("brier", "BQDA", other, {"p": p, "covariance": having, **shared})
                for having in (True, False)
            ]
            known = [lead for lead in leads if lead is not None]
            if len(known) == 2 and max(abs(lead.value) for lead in known) >= _SMALL:
                pairs[f"p = {p}, {other}"] = known[0], known[1]
    if not pairs:
        return NOTHING
    text = "; ".join(f"{name}: {a} and {b}" for name, (a, b) in pairs.items())
    return Outcome(
        _same_order(list(pairs.values())),
        f"Lead of BQDA in the Brier score with and without covariance: {text}.",
        f"It holds if both have the same sign for every model and p ({shared['kind']} noise, σ = "
        f"{shared['noise']:g}, leads below {_SMALL} left out); undecided where signs differ within the "
        "intervals.",
    )


_SMALL = 0.001


def _shared_noise(table: pd.DataFrame) -> dict[str, Any]:
    """Kind and factor of the noise that both variants have: the middle one of the first kind."""
    seen = {
        having: set(zip(rows["kind"], rows["noise"], strict=True))
        for having, rows in table.groupby("covariance")
    }
    both = sorted(seen.get(True, set()) & seen.get(False, set()))
    first = [pair for pair in both if pair[0] == both[0][0]]
    return dict(zip(("kind", "noise"), first[len(first) // 2], strict=True)) if first else {}


def _same_order(pairs: list[tuple[Contrast, Contrast]]) -> Verdict:
    """Both of every pair have one sign; without intervals it is undecided."""
    if any((a.above(0) and b.below(0)) or (a.below(0) and b.above(0)) for a, b in pairs):
        return "does not hold"
    certain = all(a.has_interval and b.has_interval for a, b in pairs)
    return "holds" if certain and all((a.value > 0) == (b.value > 0) for a, b in pairs) else "undecided"


def prior_regularises(results: Results) -> Outcome:
    """At p = 50 most of the lead of BQDA over QDA is lost without the prior."""
    rows = results.scores.rows("brier", {"p": 50, "covariance": True})
    if rows.empty or not {"QDA", "QDA pooled", "BQDA"} <= set(rows):
        return NOTHING
    parts = {
        other: results.scores.contrast(rows, rows["BQDA"] - rows[other]) for other in ("QDA", "QDA pooled")
    }
    rest = results.scores.contrast(
        rows, (rows["BQDA"] - rows["QDA pooled"]) - (rows["BQDA"] - rows["QDA"]) / 2
    )
    if rest is None or parts["QDA"] is None or parts["QDA pooled"] is None:
        return NOTHING
    return Outcome(
        all_better([parts["QDA"], rest]),
        "Lead of BQDA in the Brier score over one QDA per realisation, which has neither prior nor pooling, "
        f"{parts['QDA'].value:.2e} [{parts['QDA'].low:.2e}, {parts['QDA'].high:.2e}]; over QDA on all "
        f"realisations pooled, which lacks the prior only, {parts['QDA pooled'].value:.2e} "
        f"[{parts['QDA pooled'].low:.2e}, {parts['QDA pooled'].high:.2e}].".replace("e-", "e−"),
        "It holds if the lead over pooled QDA is more than half of that over QDA, with its interval: then "
        "the prior, not pooling, makes the difference.",
    )


def pooled_equals(limit: float) -> Test:
    """Plain QDA on all realisations pooled has the scores of BQDA."""

    def test(results: Results) -> Outcome:
        table = results.scores.table
        if "QDA pooled" not in table:
            return NOTHING
        gaps = table[["QDA pooled", "QDA"]].sub(table["BQDA"], axis=0).abs().groupby(table["metric"]).max()
        text = "; ".join(
            f"{METRIC_NAMES[m]} {gaps.loc[m, 'QDA pooled']:.1e} (one QDA per realisation: "
            f"{gaps.loc[m, 'QDA']:.1e})".replace("e-", "e−")
            for m in METRICS
        )
        return Outcome(
            decided(bool(gaps.loc["brier", "QDA pooled"] < limit)),
            f"Largest difference from BQDA, over all cells: {text}.",
            f"It holds if no Brier score differs by {limit:g} or more. The prior counts for p + 2 "
            "observations, against R times as many as there are training points.",
        )

    return test


def repeats_beat_pooling(results: Results) -> Outcome:
    """Taking the realisations for repeats of one value beats pooling them."""
    leads, parts = [], []
    for p in sorted(results.scores.table["p"].unique()):
        where = {"p": p, "covariance": True}
        lead = results.scores.lead("brier", "BQDA repeats", "BQDA", where)
        if lead is not None:
            each = results.tables["scores"].query("metric == 'brier' and covariance and p == @p")
            a, b = (each.loc[each["model"] == m, "value"].mean() for m in ("BQDA", "BQDA repeats"))
            leads.append(lead)
            parts.append(f"p = {p}: {a:.4f} against {b:.4f}, lead {lead}")
    return Outcome(
        all_better(leads),
        "Brier score of BQDA pooled against repeats: " + "; ".join(parts) + ".",
        "The mean of R repeats has R times less noise; pooling throws that away.",
    )


def _at(p: int) -> dict[str, Any]:
    return {"p": p, "covariance": True}


def _claims_at(p: int) -> tuple[Claim, ...]:
    """What the paper says for every number of variables."""
    return (
        Claim(
            f"p-{p}-worsens", "4.4", f"scores-p{p}-gaussian",
            f"At p = {p} every model gets worse as the noise grows.",
            Worsens(PAPER, "brier", "noise", _at(p)), ENOUGH,
        ),
    )  # fmt: skip


SYNTHETIC_CLAIMS: tuple[Claim, ...] = (
    *_claims_at(2),
    Claim(
        "p-2-trend", "4.4", "scores-p2-gaussian",
        "At p = 2 the models follow the same trend: noise changes little between them.",
        Growth("BQDA", _OTHERS, "brier", "noise", _at(2), margin=MARGIN["brier"]), ENOUGH,
    ),
    Claim(
        "p-2-network", "4.4", "scores-p2-gaussian", "At p = 2 NN is as good as BQDA.",
        Alike("BQDA", ("NN",), MARGIN, _at(2)), ENOUGH,
    ),
    *_claims_at(10),
    Claim(
        "p-10-trend", "4.4", "scores-p10-gaussian", "At p = 10 the models follow the same trend.",
        Growth("BQDA", _OTHERS, "brier", "noise", _at(10), margin=MARGIN["brier"]), ENOUGH,
    ),
    Claim(
        "p-10-best", "4.4", "scores-p10-gaussian", "At p = 10 BQDA always has the best scores.",
        Leads("BQDA", _OTHERS, METRICS, _at(10), by="noise"), ENOUGH,
    ),
    *_claims_at(50),
    Claim(
        "p-50-best", "4.4", "scores-p50-gaussian", "At p = 50 BQDA has the best scores.",
        Leads("BQDA", _OTHERS, METRICS, _at(50), by="noise"), ENOUGH,
    ),
    Claim(
        "p-50-slower", "4.4", "scores-p50-gaussian", "At p = 50 BQDA gets worse more slowly than the others.",
        Growth("BQDA", _OTHERS, "brier", "noise", _at(50)), ENOUGH,
    ),
    Claim(
        "p-50-prior", "4.4", "ours-brier",
        "At p = 50 it is the prior that keeps BQDA from the over-fitting of QDA.", prior_regularises, ENOUGH,
    ),
    Claim(
        "kinds-of-noise", "4.4", "scores-p2-uniform", "Gaussian and uniform noise behave alike.", kinds_alike,
        ENOUGH,
    ),
    Claim(
        "no-covariance", "4.4", "", "Without covariance between variables the results are very similar.",
        covariance_alike, ENOUGH,
    ),
    Claim(
        "cost", "5", "cost", "On synthetic data, too, LDA, QDA and BQDA cost less to compute than RF and NN.",
        cheaper("p"), ENOUGH,
    ),
    Claim(
        "forest-dearest", "4.3", "cost", "RF is the dearest, here at every number of variables.",
        forest_dearest("p"), ENOUGH,
    ),
    Claim(
        "pooling", "", "ours-brier",
        "With many pooled realisations plain QDA equals BQDA to four digits: what is gained over one QDA per "
        "realisation comes from pooling, not from the prior.",
        pooled_equals(5e-5), ENOUGH,
    ),
    Claim(
        "repeats", "", "ours-brier",
        'Realisations of this study are repeats of one true value: realisations="repeats" beats pooling.',
        repeats_beat_pooling, ENOUGH,
    ),
)  # fmt: skip
