"""Claims as data: what the paper says, the comparison that tests it, and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from uncover.studies.findings import (
    METRIC_NAMES,
    MORE_IS_BETTER,
    Contrast,
    Finding,
    Outcome,
    Verdict,
    all_alike,
    all_better,
)
from uncover.studies.tables import Tables

Where = Mapping[str, Any]
#: Column of the table of scores that says which data set, or which bootstrap draw, a row is of.
UNIT = "unit"
#: More comparisons than these are summed up in the text.
_MANY = 8


@dataclass(frozen=True)
class Scores:
    """Scores of the models (columns) in each case, metric and unit.

    A unit is a data set, or a bootstrap draw of the test pixels. Differences are averaged over the cases
    within each unit; the interval is over the units.

    Examples
    --------
    >>> rows = [{"p": 2, "data_set": d, "model": m, "metric": "brier", "value": v + 0.01 * d}
    ...         for d in (0, 1, 2) for m, v in (("BQDA", 0.1), ("RF", 0.13))]
    >>> scores = Scores.of_data_sets(pd.DataFrame(rows))
    >>> str(scores.lead("brier", "BQDA", "RF", {"p": 2}))
    '0.0300 [0.0300, 0.0300]'
    """

    table: pd.DataFrame
    interval: Callable[[pd.Series], Contrast]

    @classmethod
    def of_data_sets(cls, scores: pd.DataFrame) -> Scores:
        """Student's interval over the data sets."""
        cases = [name for name in ("p", "covariance", "kind", "noise") if name in scores]
        return cls(
            _wide(scores.rename(columns={"data_set": UNIT}), [*cases, "metric", UNIT]), Contrast.of_values
        )

    @classmethod
    def of_draws(cls, scores: pd.DataFrame, replicates: pd.DataFrame) -> Scores:
        """Quantiles of the bootstrap draws, which are of the same pixels in all models and cases."""
        cases = ["train_year", "test_year", "pixels", "across", "few", "largest"]
        metrics = [name for name in METRIC_NAMES if name in replicates]
        drawn = replicates.rename(columns={"draw": UNIT}).melt(
            [*cases, "model", UNIT], metrics, "metric", "value"
        )
        return cls(
            _wide(pd.concat([scores.assign(**{UNIT: -1}), drawn]), [*cases, "metric", UNIT]), _of_draws
        )

    def rows(self, metric: str, where: Where) -> pd.DataFrame:
        """Rows of some cases, turned so that more is better."""
        table = self.table[self.table["metric"] == metric]
        for name, value in where.items():
            table = table[table[name] == value]
        models = table.columns.difference(_CASES)
        return table if metric in MORE_IS_BETTER else table.assign(**-table[models])

    def contrast(self, rows: pd.DataFrame, values: pd.Series) -> Contrast | None:
        """Mean of some values over the cases, with its interval; None where there is no value."""
        means = values.groupby(rows[UNIT]).mean().dropna()
        return self.interval(means) if len(means) else None

    def lead(self, metric: str, model: str, other: str, where: Where) -> Contrast | None:
        """By how much a model is better than another on average, in the cases that both have."""
        rows = self.rows(metric, where)
        if model not in rows or other not in rows:
            return None
        return self.contrast(rows, rows[model] - rows[other])

    def levels(self, name: str, where: Where, models: Sequence[str]) -> list[Any]:
        """Values of a column, such as the noise factor, at which all of the models were scored, in order."""
        rows = self.rows(self.table["metric"].iloc[0], where)
        if not set(models) <= set(rows):
            return []
        return sorted(rows.loc[rows[list(models)].notna().all(axis=1), name].unique())


_CASES = [
    *("p", "covariance", "kind", "noise"),
    *("train_year", "test_year", "pixels", "across", "few", "largest"),
    *("metric", UNIT),
]


def _wide(long: pd.DataFrame, index: list[str]) -> pd.DataFrame:
    return long.pivot_table("value", index, "model").reset_index()


def _of_draws(means: pd.Series) -> Contrast:
    return Contrast.of_replicates(means.loc[-1], means.drop(-1))


@dataclass(frozen=True)
class Results:
    """What the claims of a study are tested on: its tables, and the scores arranged for comparisons."""

    tables: Tables
    scores: Scores


Test = Callable[[Results], Outcome]


@dataclass(frozen=True)
class Claim:
    """One claim, and the test of it.

    Attributes
    ----------
    name, says : str
        Short and unique; the claim in our words.
    section : str
        Where the paper says it; empty for an assertion of our own.
    figure : str
        Name of the study's figure on which it can be seen.
    test : callable
        From the results of a study to an outcome.
    needs : mapping
        Least size of a study, by name, below which the outcome says nothing.
    """

    name: str
    section: str
    figure: str
    says: str
    test: Test
    needs: Mapping[str, int] = field(default_factory=dict)

    def judge(self, results: Results, size: Mapping[str, int]) -> Finding:
        """What the results say about it."""
        found = self.test(results)
        short = [name for name, least in self.needs.items() if size.get(name, 0) < least]
        verdict, why = found.verdict, found.why
        if short:
            verdict = "too small to say"
            least = ", ".join(f"{self.needs[name]:,} {name}" for name in short)
            have = ", ".join(f"{size.get(name, 0):,}" for name in short)
            why = f"{why} The claim needs at least {least}; here: {have}."
        return Finding(
            self.name, self.says, verdict, found.found, why.strip(), self.section, self.figure,
            ours=not self.section,
        )  # fmt: skip


NOTHING = Outcome(
    "undecided", "The data lack what is compared: a model that could be trained, two years, or the class."
)


@dataclass(frozen=True)
class Leads:
    """A model is better than each other one on average, and nowhere clearly worse; or worse, `behind`.

    `by` names the column of which every value is looked at alone as well, such as the noise factor.
    """

    model: str
    others: tuple[str, ...]
    metrics: tuple[str, ...]
    where: Where = field(default_factory=dict)
    by: str = ""
    behind: bool = False

    def __call__(self, results: Results) -> Outcome:
        """Compare with each other model, in each metric, over all cases and at each level."""
        scores = results.scores
        whole = self._leads(scores, self.where, "")
        levels = scores.levels(self.by, self.where, [self.model]) if self.by else []
        fine: dict[str, Contrast] = {}
        for level in levels:
            fine |= self._leads(scores, {**self.where, self.by: level}, f" at {_NAMES[self.by]} {level:g}")
        who = f"the others over {self.model}" if self.behind else self.model
        everywhere = "above zero at every level, and " if self.by else ""
        return (
            Outcome(
                _verdict_of_leads(list(whole.values()), list(fine.values())),
                f"Mean lead of {who}: {_listed(fine or whole)}.",
                f"It holds if the mean lead is {everywhere}above zero with its interval for each model and "
                "score; it does not if one lead is below zero with its interval.",
            )
            if whole
            else NOTHING
        )

    def _leads(self, scores: Scores, where: Where, at: str) -> dict[str, Contrast]:
        found: dict[str, Contrast] = {}
        for metric in self.metrics:
            for other in self.others:
                ahead, after = (other, self.model) if self.behind else (self.model, other)
                lead = scores.lead(metric, ahead, after, where)
                name = f"{METRIC_NAMES[metric]} {'of' if self.behind else 'over'} {other}{at}"
                found |= {} if lead is None else {name: lead}
        return found


_NAMES = {"noise": "σ =", "pixels": "training pixels"}


def _verdict_of_leads(whole: list[Contrast], fine: list[Contrast]) -> Verdict:
    if any(lead.below(0) for lead in fine):
        return "does not hold"
    verdict = all_better(whole)
    return "undecided" if verdict == "holds" and any(lead.value <= 0 for lead in fine) else verdict


def _listed(found: Mapping[str, Contrast]) -> str:
    """All of few, or the smallest of many and how many are clear."""
    if len(found) <= _MANY:
        return "; ".join(f"{name} {c}" for name, c in found.items())
    least = min(found, key=lambda name: found[name].value)
    clear = sum(c.above(0) for c in found.values())
    against = sum(c.below(0) for c in found.values())
    return (
        f"{clear} of {len(found)} comparisons above zero with their intervals, {against} below; the smallest "
        f"is in {least} {found[least]}"
    )


@dataclass(frozen=True)
class Alike:
    """Models are as good as another one within a margin."""

    model: str
    others: tuple[str, ...]
    margins: Mapping[str, float]
    where: Where = field(default_factory=dict)
    note: str = ""
    each: tuple[str, ...] = ()

    def __call__(self, results: Results) -> Outcome:
        """Compare with each other model, in each metric that has a margin, in each of the cases apart."""
        verdicts, parts = [], []
        for metric, margin in self.margins.items():
            for other, case in product(self.others, self._cases(results.scores)):
                lead = results.scores.lead(metric, self.model, other, {**self.where, **case})
                if lead is not None:
                    verdicts.append(all_alike([lead], margin))
                    at = " to ".join(str(value) for value in case.values())
                    parts.append(f"{METRIC_NAMES[metric]} over {other}{at and f', {at},'} {lead}")
        limits = ", ".join(f"{METRIC_NAMES[metric]} ±{margin:g}" for metric, margin in self.margins.items())
        return (
            Outcome(
                joined(verdicts),
                f"Mean lead of {self.model}: {'; '.join(parts)}.",
                f"It holds if every interval lies within the margin ({limits}). {self.note}".strip(),
            )
            if verdicts
            else NOTHING
        )

    def _cases(self, scores: Scores) -> list[dict[str, Any]]:
        if not self.each:
            return [{}]
        rows = scores.table[list(self.each)].drop_duplicates()
        return [dict(zip(self.each, row, strict=True)) for row in rows.itertuples(index=False, name=None)]


@dataclass(frozen=True)
class Growth:
    """The lead of a model over others grows from one end of a column to the other; or stays, by a margin."""

    model: str
    others: tuple[str, ...]
    metric: str
    along: str
    where: Where = field(default_factory=dict)
    margin: float | None = None
    downwards: bool = False
    note: str = ""

    def __call__(self, results: Results) -> Outcome:
        """Compare the lead at both ends."""
        growth: dict[str, Contrast] = {}
        text = ""
        for other in self.others:
            levels = results.scores.levels(self.along, self.where, [self.model, other])
            if len(levels) < 2:
                continue
            first, last = (levels[-1], levels[0]) if self.downwards else (levels[0], levels[-1])
            text = text or f"From {_NAMES[self.along]} {first:,g} to {last:,g}"
            found = self._between(results.scores, other, first, last)
            growth |= {} if found is None else {other: found}
        margin, every = self.margin, list(growth.values())
        verdict = all_better(every) if margin is None else all_alike(every, margin)
        rule = "is above zero" if margin is None else f"lies within ±{margin:g}"
        return (
            Outcome(
                verdict,
                f"{text} the lead of {self.model} in the {METRIC_NAMES[self.metric]} grows over "
                + "; ".join(f"{other} by {c}" for other, c in growth.items())
                + ".",
                f"It holds if the growth {rule} with its interval over each of them. {self.note}".strip(),
            )
            if growth
            else NOTHING
        )

    def _between(self, scores: Scores, other: str, first: Any, last: Any) -> Contrast | None:
        rows = scores.rows(self.metric, self.where)
        rows = rows[rows[self.along].isin([first, last])]
        side = np.where(rows[self.along] == last, 2.0, -2.0)  # a mean over both ends
        return scores.contrast(rows, (rows[self.model] - rows[other]) * side)


@dataclass(frozen=True)
class Worsens:
    """Every model gets worse from one end of a column to the other."""

    models: tuple[str, ...]
    metric: str
    along: str
    where: Where = field(default_factory=dict)

    def __call__(self, results: Results) -> Outcome:
        """Compare each model with itself."""
        scores = results.scores
        losses: dict[str, Contrast] = {}
        for model in self.models:
            levels = scores.levels(self.along, self.where, [model])
            if len(levels) < 2:
                continue
            rows = scores.rows(self.metric, self.where)
            rows = rows[rows[self.along].isin([levels[0], levels[-1]])]
            loss = scores.contrast(rows, rows[model] * np.where(rows[self.along] == levels[0], 2.0, -2.0))
            losses |= {} if loss is None else {model: loss}
        return (
            Outcome(
                all_better(losses.values()),
                f"Lost in the {METRIC_NAMES[self.metric]} from {_NAMES[self.along]} {levels[0]:g} to "
                f"{levels[-1]:g}: " + "; ".join(f"{model} {c}" for model, c in losses.items()) + ".",
                "It holds if every loss is above zero with its interval.",
            )
            if losses
            else NOTHING
        )


@dataclass(frozen=True)
class OftenBest:
    """A model is the best of several in more than a share of the cases; or in fewer (`seldom`)."""

    model: str
    among: tuple[str, ...]
    metrics: tuple[str, ...]
    share: float
    where: Where = field(default_factory=dict)
    seldom: bool = False

    def __call__(self, results: Results) -> Outcome:
        """Count the cases, in every unit."""
        won, parts = [], []
        for metric in self.metrics:
            rows = results.scores.rows(metric, self.where)
            have = [name for name in self.among if name in rows]
            if self.model not in have or rows.empty:
                return NOTHING
            best = (rows[have].idxmax(axis=1) == self.model).astype(float)
            won.append((rows[[UNIT]], best))
            one = results.scores.contrast(rows, best)
            parts.append(f"{METRIC_NAMES[metric]} {one and one.value:.0%}".replace("%", " %"))
        units = pd.concat([rows for rows, _ in won], ignore_index=True)
        whole = results.scores.contrast(units, pd.concat([best for _, best in won], ignore_index=True))
        assert whole is not None
        yes, no = whole.above(self.share), whole.below(self.share)
        holds = no if self.seldom else yes
        return Outcome(
            "holds" if holds else "does not hold" if (yes or no) else "undecided",
            f"Share of the cases in which {self.model} is best: {whole}; {', '.join(parts)}.",
            f"It holds if the share is {'below' if self.seldom else 'above'} {self.share:.0%} with its "
            f"interval, among {', '.join(self.among)}.".replace("%", " %"),
        )


def joined(verdicts: Iterable[Verdict]) -> Verdict:
    """Holds where all do, does not where one does not; else undecided.

    Examples
    --------
    >>> joined(["holds", "undecided"]), joined(["undecided", "does not hold"]), joined([])
    ('undecided', 'does not hold', 'undecided')
    """
    every = set(verdicts)
    if "does not hold" in every:
        return "does not hold"
    return "holds" if every == {"holds"} else "undecided"


def decided(true: bool) -> Verdict:
    """The verdict of a comparison without an interval."""
    return "holds" if true else "does not hold"
