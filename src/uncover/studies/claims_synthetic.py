"""The claims about the synthetic study, as data; and the measurements that compare its variants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from uncover.studies.claims import (
    METRIC_NAMES,
    Claim,
    Contrast,
    Criterion,
    Finding,
    Lacking,
    Measured,
    Results,
    ScoreTable,
    alike,
    claims_of,
    exact,
    growth,
    holds_if,
    leads,
    worsens,
)
from uncover.studies.claims_landcover import cheaper, forest_dearest
from uncover.studies.models import PAPER
from uncover.studies.tables import Tables

#: Differences below these count as none.
MARGIN = {"f1": 0.02, "f2": 0.02, "cross_entropy": 0.05, "brier": 0.01}
#: Least size of the study for claims about scores; the paper's has 1,000 points, 100 realisations.
ENOUGH = {"points a class": 1000, "realisations": 25, "data sets": 3}
_OTHERS = tuple(name for name in PAPER if name != "BQDA")
#: Leads below this have no sign, and pooled QDA that is so near equals BQDA.
_SMALL, _EQUAL = 0.001, 5e-5


def synthetic_findings(tables: Tables, size: Mapping[str, int]) -> list[Finding]:
    """All findings, in the order of the report; `size` has the points of a class and the realisations."""
    scores = tables["scores"]
    sets = int(scores.groupby("p")["data_set"].nunique().min())
    results = Results(tables, ScoreTable.of_data_sets(scores))
    return [claim.judge(results, {**size, "data sets": sets}) for claim in SYNTHETIC_CLAIMS]


@holds_if(
    f"It holds if it lies within ±{MARGIN['brier']} with its interval for every model and p, mean over the "
    "noise levels.",
    margin=MARGIN["brier"],
)
def _kinds(results: Results) -> Measured:
    """By how much the Brier score is larger with uniform noise, for every model and p."""
    found: dict[str, Contrast] = {}
    rows = results.rows("brier", {"covariance": True}, ())
    if rows["kind"].nunique() < 2:
        raise Lacking
    for p, mine in rows.groupby("p"):
        side = mine["kind"].map({"gaussian": -2.0, "uniform": 2.0})  # rows hold −Brier
        for model in [m for m in PAPER if m in mine]:
            both = results.scores.contrast(mine, mine[model] * side)
            found |= {} if both is None else {f"{model} at p = {p}": both}
    largest = max(found, key=lambda name: abs(found[name].value))
    return (
        found.values(),
        f"The largest difference of the Brier score is that of {largest}: {found[largest]}.",
    )


@holds_if(
    f"It holds if both have the same sign for every model and p (leads below {_SMALL} left out); undecided "
    "where signs differ within the intervals."
)
def _order(results: Results) -> Measured:
    """Compare BQDA's order among the models, better or worse, with and without covariance of variables."""
    shared = _shared_noise(results.scores.table)
    signs, parts = [], []
    for p in sorted(results.scores.table["p"].unique()):
        for other in _OTHERS:
            a, b = (
                results.scores.lead("brier", "BQDA", other, {"p": p, "covariance": having, **shared})
                for having in (True, False)
            )
            if a is not None and b is not None and max(abs(a.value), abs(b.value)) >= _SMALL:
                signs.append(_agreement(a, b))
                parts.append(f"p = {p}, {other}: {a} and {b}")
    return (
        signs,
        f"Lead of BQDA in the Brier score with and without covariance ({shared['kind']} noise, σ = "
        f"{shared['noise']:g}): {'; '.join(parts)}.",
    )


def _shared_noise(table: pd.DataFrame) -> dict[str, Any]:
    """Kind and factor of the noise that both variants have: the middle one of the first kind."""
    seen = table.groupby(["kind", "noise"])["covariance"].nunique()
    both = sorted(seen[seen == 2].index)
    if not both:
        raise Lacking
    first = [pair for pair in both if pair[0] == both[0][0]]
    return dict(zip(("kind", "noise"), first[len(first) // 2], strict=True))


def _agreement(a: Contrast, b: Contrast) -> Contrast:
    """Above zero where both have one sign, below where clearly not; without intervals it is open."""
    if (a.above(0) and b.below(0)) or (a.below(0) and b.above(0)):
        return Contrast(-1, -1, -1)
    one = a.has_interval and b.has_interval and (a.value > 0) == (b.value > 0)
    return Contrast(1, 1, 1) if one else Contrast(0, -1, 1)


@holds_if(
    "It holds if the lead over pooled QDA is more than half of that over QDA, with its interval: then the "
    "prior, not pooling, makes the difference."
)
def _without_prior(results: Results) -> Measured:
    """Lead of BQDA over QDA at p = 50, and how much more than half of it is lost without the prior."""
    rows = results.rows("brier", {"p": 50, "covariance": True}, ("QDA", "QDA pooled", "BQDA"))
    over, pooled = rows["BQDA"] - rows["QDA"], rows["BQDA"] - rows["QDA pooled"]
    whole, part, rest = (results.scores.contrast(rows, lead) for lead in (over, pooled, pooled - over / 2))
    if whole is None or part is None or rest is None:
        raise Lacking
    return (
        [whole, rest],
        "Lead of BQDA in the Brier score over one QDA per realisation, which has neither prior nor pooling, "
        f"{whole.value:.2e} [{whole.low:.2e}, {whole.high:.2e}]; over QDA on all realisations pooled, which "
        f"lacks the prior only, {part.value:.2e} [{part.low:.2e}, {part.high:.2e}].".replace("-", "−"),
    )


@holds_if(
    f"It holds if no Brier score differs by {_EQUAL:g} or more. The prior counts for p + 2 observations, "
    "against R times as many as there are training points.",
    margin=_EQUAL,
)
def _pooled_gaps(results: Results) -> Measured:
    """Largest difference of the Brier score between BQDA and plain QDA on all realisations pooled."""
    table = results.scores.table
    if "QDA pooled" not in table:
        raise Lacking
    gaps = table[["QDA pooled", "QDA"]].sub(table["BQDA"], axis=0).abs().groupby(table["metric"]).max()
    text = "; ".join(
        f"{METRIC_NAMES[m]} {gaps.loc[m, 'QDA pooled']:.1e} (one QDA per realisation: "
        f"{gaps.loc[m, 'QDA']:.1e})".replace("e-", "e−")
        for m in MARGIN
    )
    return exact([gaps.loc["brier", "QDA pooled"]]), f"Largest difference from BQDA, over all cells: {text}."


@holds_if("The mean of R repeats has R times less noise; pooling throws that away.")
def _repeats(results: Results) -> Measured:
    """Lead of taking the realisations for repeats of one value over pooling them."""
    leads_, parts = [], []
    for p in sorted(results.scores.table["p"].unique()):
        lead = results.scores.lead("brier", "BQDA repeats", "BQDA", _at(p))
        if lead is not None:
            each = results.tables["scores"].query("metric == 'brier' and covariance and p == @p")
            a, b = (each.loc[each["model"] == m, "value"].mean() for m in ("BQDA", "BQDA repeats"))
            leads_.append(lead)
            parts.append(f"p = {p}: {a:.4f} against {b:.4f}, lead {lead}")
    return leads_, "Brier score of BQDA pooled against repeats: " + "; ".join(parts) + "."


def _at(p: int) -> dict[str, Any]:
    return {"p": p, "covariance": True}


def _worsens(p: int) -> tuple[str, str, Criterion]:
    """Claim of the paper for every number of variables."""
    says = f"At p = {p} every model gets worse as the noise grows."
    return f"p-{p}-worsens", says, worsens(PAPER, "brier", "noise", _at(p))


def _same_trend(p: int) -> Criterion:
    return growth("BQDA", _OTHERS, "brier", "noise", _at(p), margin=MARGIN["brier"])


SYNTHETIC_CLAIMS: tuple[Claim, ...] = (
    *claims_of("4.4", "scores-p2-gaussian", ENOUGH,
        _worsens(2),
        ("p-2-trend", "At p = 2 the models follow the same trend: noise changes little between them.",
         _same_trend(2)),
        ("p-2-network", "At p = 2 NN is as good as BQDA.", alike("BQDA", ("NN",), MARGIN, _at(2))),
    ),
    *claims_of("4.4", "scores-p10-gaussian", ENOUGH,
        _worsens(10),
        ("p-10-trend", "At p = 10 the models follow the same trend.", _same_trend(10)),
        ("p-10-best", "At p = 10 BQDA always has the best scores.",
         leads("BQDA", _OTHERS, tuple(MARGIN), _at(10), by="noise")),
    ),
    *claims_of("4.4", "scores-p50-gaussian", ENOUGH,
        _worsens(50),
        ("p-50-best", "At p = 50 BQDA has the best scores.",
         leads("BQDA", _OTHERS, tuple(MARGIN), _at(50), by="noise")),
        ("p-50-slower", "At p = 50 BQDA gets worse more slowly than the others.",
         growth("BQDA", _OTHERS, "brier", "noise", _at(50))),
    ),
    *claims_of("4.4", "ours-brier", ENOUGH,
        ("p-50-prior", "At p = 50 it is the prior that keeps BQDA from the over-fitting of QDA.",
         _without_prior),
    ),
    *claims_of("4.4", "scores-p2-uniform", ENOUGH,
        ("kinds-of-noise", "Gaussian and uniform noise behave alike.", _kinds),
    ),
    *claims_of("4.4", "", ENOUGH,
        ("no-covariance", "Without covariance between variables the results are very similar.", _order),
    ),
    Claim(
        "cost", "5", "cost", "On synthetic data, too, LDA, QDA and BQDA cost less to compute than RF and NN.",
        cheaper("p"), ENOUGH,
    ),
    Claim(
        "forest-dearest", "4.3", "cost", "RF is the dearest, here at every number of variables.",
        forest_dearest("p"), ENOUGH,
    ),
    *claims_of("", "ours-brier", ENOUGH,
        ("pooling",
         "With many pooled realisations plain QDA equals BQDA to four digits: what is gained over one QDA "
         "per realisation comes from pooling, not from the prior.",
         _pooled_gaps),
        ("repeats",
         'Realisations of this study are repeats of one true value: realisations="repeats" beats pooling.',
         _repeats),
    ),
)  # fmt: skip
