"""Claims as data: what the paper says, the comparison that tests it, and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import t as student

from uncover.studies.tables import Tables

Verdict = Literal["holds", "does not hold", "undecided", "too small to say"]

#: Scores of which more is better; less is better of the others.
MORE_IS_BETTER = ("f1", "f2")
#: How scores are written.
METRIC_NAMES = {
    "f1": "F₁",
    "f2": "F₂",
    "cross_entropy": "cross-entropy",
    "brier": "Brier score",
    "cross_entropy_norm": "normalised cross-entropy",
    "brier_norm": "normalised Brier score",
}


@dataclass(frozen=True)
class Finding:
    """One claim (of the paper, of the named section, or ours), and what was found.

    `found` has the numbers with their intervals, `why` says how it was decided, `figure` which one shows it.
    """

    name: str
    claim: str
    verdict: Verdict
    found: str
    why: str = ""
    section: str = ""
    figure: str = ""
    ours: bool = False


@dataclass(frozen=True)
class Contrast:
    """A difference with its interval of 95 %.

    >>> c = Contrast(-0.02, -0.03, -0.01)
    >>> str(c), c.below(0), str(-c)
    ('−0.0200 [−0.0300, −0.0100]', True, '0.0200 [0.0100, 0.0300]')
    """

    value: float
    low: float
    high: float

    @classmethod
    def of_values(cls, values: ArrayLike, level: float = 0.95) -> Contrast:
        """Mean of independent values, with Student's interval; of one value alone there is no interval."""
        v = np.asarray(values, np.float64)
        if v.size < 2:
            return cls(float(v.mean()), -np.inf, np.inf)
        half = student.ppf((1 + level) / 2, v.size - 1) * v.std(ddof=1) / np.sqrt(v.size)
        return cls(float(v.mean()), float(v.mean() - half), float(v.mean() + half))

    @classmethod
    def of_replicates(cls, value: float, replicates: ArrayLike, level: float = 0.95) -> Contrast:
        """A value with the middle part of its bootstrap replicates."""
        tail = (1 - level) / 2
        low, high = np.quantile(np.asarray(replicates, np.float64), [tail, 1 - tail])
        return cls(float(value), float(low), float(high))

    @property
    def has_interval(self) -> bool:
        """True where there was more than one value."""
        return bool(np.isfinite([self.low, self.high]).all())

    def below(self, limit: float) -> bool:
        """True where all of the interval lies below a limit."""
        return self.high < limit

    def above(self, limit: float) -> bool:
        """True where all of the interval lies above a limit."""
        return self.low > limit

    def __neg__(self) -> Contrast:
        return Contrast(-self.value, -self.high, -self.low)

    def __sub__(self, limit: float) -> Contrast:
        return Contrast(self.value - limit, self.low - limit, self.high - limit)

    def __truediv__(self, unit: float) -> Contrast:
        return Contrast(self.value / unit, self.low / unit, self.high / unit)

    def __str__(self) -> str:
        if not self.has_interval:
            return f"{_digits(self.value)} (one value, no interval)"
        return f"{_digits(self.value)} [{_digits(self.low)}, {_digits(self.high)}]"


def _digits(value: float) -> str:
    """Four digits after the point; of what would be written as zero, the first two that are none."""
    return f"{value:{'.1e' if 0 < abs(value) < 5e-5 else '.4f'}}".replace("-", "−")


def exact(values: Iterable[float]) -> list[Contrast]:
    """Numbers that are known, as contrasts: their interval has no width."""
    return [Contrast(float(value), float(value), float(value)) for value in values]


def signs(true: Iterable[bool]) -> list[Contrast]:
    """Comparisons without an interval, as contrasts: above zero where they are true, else below."""
    return exact(1.0 if each else -1.0 for each in true)


def verdict_of(contrasts: Iterable[Contrast], low: float = 0.0, high: float = np.inf) -> Verdict:
    """Holds where every contrast is between two limits, does not where one is beyond; else undecided.

    >>> verdict_of([Contrast(1, 0.5, 2), Contrast(0.1, -0.1, 0.3)])
    'undecided'
    >>> verdict_of([Contrast(0.001, -0.004, 0.006)], -0.01, 0.01)
    'holds'
    """
    every = list(contrasts)
    if every and all(c.above(low) and (high == np.inf or c.below(high)) for c in every):
        return "holds"
    return "does not hold" if any(c.below(low) or c.above(high) for c in every) else "undecided"


def percent(share: float) -> str:
    """A share in words."""
    return f"{100 * share:.1f} %"


Where = Mapping[str, Any]
#: Column of the table of scores that says which data set, or which bootstrap draw, a row is of.
UNIT = "unit"
#: Few training pixels are at most so many.
FEW = 1000
#: More comparisons than these are summed up in the text.
_MANY = 8
#: Where classes are told apart without error, scores of two models differ by less than that.
_ROUNDING = 1e-6
_SYNTHETIC = ("p", "covariance", "kind", "noise")
_LAND_COVER = ("train_year", "test_year", "pixels", "across", "few", "largest")


@dataclass(frozen=True)
class ScoreTable:
    """Scores of the models (columns) in each case, metric and unit.

    A unit is a data set, or a bootstrap draw of the test pixels. Differences are averaged over the cases
    within each unit; the interval is over the units.
    """

    table: pd.DataFrame
    interval: Callable[[pd.Series], Contrast]

    @classmethod
    def of_data_sets(cls, scores: pd.DataFrame) -> ScoreTable:
        """Student's interval over the data sets."""
        cases = [name for name in _SYNTHETIC if name in scores]
        return cls(_wide(scores.rename(columns={"data_set": UNIT}), cases), Contrast.of_values)

    @classmethod
    def of_draws(cls, scores: pd.DataFrame, replicates: pd.DataFrame) -> ScoreTable:
        """Quantiles of the bootstrap draws, which are of the same pixels in all models and cases."""
        drawn = _with_cases(replicates).rename(columns={"draw": UNIT})
        metrics = [name for name in METRIC_NAMES if name in replicates]
        drawn = drawn.melt([*_LAND_COVER, "model", UNIT], metrics, "metric", "value")
        both = pd.concat([_with_cases(scores).assign(**{UNIT: -1}), drawn])
        return cls(_wide(both, [*_LAND_COVER]), lambda m: Contrast.of_replicates(m.loc[-1], m.drop(-1)))

    def rows(self, metric: str, where: Where) -> pd.DataFrame:
        """Rows of some cases, turned so that more is better."""
        table = self.table[self.table["metric"] == metric]
        for name, value in where.items():
            table = table[table[name] == value]
        models = table.columns.difference([*_SYNTHETIC, *_LAND_COVER, "metric", UNIT])
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


def _wide(long: pd.DataFrame, cases: list[str]) -> pd.DataFrame:
    return long.pivot_table("value", [*cases, "metric", UNIT], "model").reset_index()


def _with_cases(table: pd.DataFrame) -> pd.DataFrame:
    pixels = table["pixels"]
    across = table["train_year"] != table["test_year"]
    return table.assign(across=across, few=pixels <= FEW, largest=pixels == pixels.max())


class Lacking(Exception):
    """The data lack what is compared."""

    def __init__(self, why: str = "a model that could be trained, two years, or the class") -> None:
        super().__init__(f"The data lack what is compared: {why}.")


@dataclass(frozen=True)
class Results:
    """Results that a study's claims are tested on: its tables, and the scores arranged for comparisons."""

    tables: Tables
    scores: ScoreTable

    def table(self, name: str) -> pd.DataFrame:
        """One of the tables, if the study has it."""
        if name not in self.tables or self.tables[name].empty:
            raise Lacking
        return self.tables[name]

    def rows(self, metric: str, where: Where, models: Iterable[str]) -> pd.DataFrame:
        """Rows of the scores of some cases, if there are any, and of these models."""
        rows = self.scores.rows(metric, where)
        if rows.empty or not set(models) <= set(rows):
            raise Lacking
        return rows


#: Numbers to be judged, and the text about them.
Measured = tuple[Iterable[Contrast], str]


@dataclass(frozen=True)
class Criterion:
    """A measurement; its numbers must be above a limit, or within a margin; and that rule in words."""

    measure: Callable[[Results], Measured]
    why: str
    limit: float = 0.0
    margin: float | None = None

    def judge(self, results: Results) -> tuple[Verdict, str, str]:
        """Verdict, numbers, and how it was decided."""
        try:
            contrasts, text = self.measure(results)
            every = list(contrasts)
            if not every:
                raise Lacking
        except Lacking as lacking:
            return "undecided", str(lacking), ""
        low, high = (self.limit, np.inf) if self.margin is None else (-self.margin, self.margin)
        return verdict_of(every, low, high), text, self.why.strip()


def holds_if(why: str, **rule: float) -> Callable[[Callable[[Results], Measured]], Criterion]:
    """Make a measurement a test: `@holds_if("It is above 1.", limit=1)`."""
    return lambda measure: Criterion(measure, why, **rule)


@dataclass(frozen=True)
class Claim:
    """One claim of a section of the paper, or of our own (no section), in our words; and the test of it.

    `figure` names the study's figure on which it can be seen, `needs` the least size of a study below which
    the outcome says nothing.
    """

    name: str
    section: str
    figure: str
    says: str
    test: Criterion
    needs: Mapping[str, int] = field(default_factory=dict)

    def judge(self, results: Results, size: Mapping[str, int]) -> Finding:
        """Judge the claim by the results."""
        verdict, found, why = self.test.judge(results)
        short = [name for name, least in self.needs.items() if size.get(name, 0) < least]
        if short:
            verdict = "too small to say"
            least = ", ".join(f"{self.needs[name]:,} {name}" for name in short)
            have = ", ".join(f"{size.get(name, 0):,}" for name in short)
            why = f"{why} The claim needs at least {least}; here: {have}."
        return Finding(
            self.name, self.says, verdict, found, why.strip(), self.section, self.figure,
            ours=not self.section,
        )  # fmt: skip


def claims_of(section: str, figure: str, needs: Mapping[str, int], *rows: Any) -> tuple[Claim, ...]:
    """Claims of one section that can be seen on one figure: rows of name, sentence and test."""
    return tuple(Claim(name, section, figure, says, test, needs) for name, says, test in rows)


# ---- the kinds of tests of scores -------------------------------------------------------------------------


def leads(
    model: str,
    others: Sequence[str],
    metrics: Sequence[str],
    where: Where | None = None,
    by: str = "",
    behind: bool = False,
) -> Criterion:
    """A model is better than each other one on average, and nowhere clearly worse; or worse, `behind`.

    `by` names the column of which every value is looked at alone as well, such as the noise factor.
    """

    def found(scores: ScoreTable, where: Where, at: str = "") -> dict[str, Contrast]:
        each = {}
        for metric, other in product(metrics, others):
            pair = (other, model) if behind else (model, other)
            name = f"{METRIC_NAMES[metric]} {'of' if behind else 'over'} {other}{at}"
            each[name] = scores.lead(metric, *pair, where)
        return _known(each)

    everywhere = "above zero at every level, and " if by else ""
    slightly = f", by more than {_ROUNDING:g} at a level" if by else ""

    @holds_if(
        f"It holds if the mean lead is {everywhere}above zero with its interval for each model and score; "
        f"it does not if one lead is below zero with its interval{slightly}."
    )
    def test(results: Results) -> Measured:
        here = where or {}
        whole = found(results.scores, here)
        fine: dict[str, Contrast] = {}
        for level in results.scores.levels(by, here, [model]) if by else ():
            fine |= found(results.scores, {**here, by: level}, f" at {_NAMES[by]} {level:g}")
        who = f"the others over {model}" if behind else model
        ahead = [_at_least_level(c) for c in fine.values()]
        return [*whole.values(), *ahead], f"Mean lead of {who}: {_summed_up(fine or whole)}."

    return test


def _at_least_level(lead: Contrast) -> Contrast:
    """A lead that need not be clear: above zero where its value is; below only by more than rounding."""
    high = lead.high if lead.value < -_ROUNDING else max(lead.high, 0.0)
    return Contrast(lead.value, lead.value, high)


_NAMES = {"noise": "σ =", "pixels": "training pixels"}


def _known(found: Mapping[str, Contrast | None]) -> dict[str, Contrast]:
    return {name: contrast for name, contrast in found.items() if contrast is not None}


def listed(parts: Mapping[Any, Any]) -> str:
    """Names and values in a sentence."""
    return "; ".join(f"{name} {value}" for name, value in parts.items())


def _summed_up(found: Mapping[str, Contrast]) -> str:
    """All of few, or the smallest of many and how many are clear."""
    if len(found) <= _MANY:
        return listed(found)
    least = min(found, key=lambda name: found[name].value)
    clear = sum(c.above(0) for c in found.values())
    against = sum(c.below(0) for c in found.values())
    return (
        f"{clear} of {len(found)} comparisons above zero with their intervals, {against} below; the smallest "
        f"is in {least} {found[least]}"
    )


def alike(
    model: str,
    others: Sequence[str],
    margins: Mapping[str, float],
    where: Where,
    note: str = "",
    each: Sequence[str] = (),
) -> Criterion:
    """Models are as good as another one within a margin of each metric, in each of the cases apart."""
    limits = ", ".join(f"{METRIC_NAMES[metric]} ±{margin:g}" for metric, margin in margins.items())

    @holds_if(f"It holds if every interval lies within the margin ({limits}). {note}", margin=1.0)
    def test(results: Results) -> Measured:
        table, found, in_margins = results.scores.table, {}, []
        cases = table[list(each)].drop_duplicates().to_dict("records") if each else [{}]
        for metric, other, case in product(margins, others, cases):
            lead = results.scores.lead(metric, model, other, {**where, **case})
            at = " to ".join(str(value) for value in case.values())
            if lead is not None:
                found[f"{METRIC_NAMES[metric]} over {other}{at and f', {at},'}"] = lead
                in_margins.append(lead / margins[metric])
        return in_margins, f"Mean lead of {model}: {listed(found)}."

    return test


def growth(
    model: str,
    others: Sequence[str],
    metric: str,
    along: str,
    where: Where | None = None,
    margin: float | None = None,
    downwards: bool = False,
    note: str = "",
) -> Criterion:
    """The lead of a model over others grows from one end of a column to the other; or stays, by a margin."""

    def measure(results: Results) -> Measured:
        found, ends = _changes(results.scores, model, others, metric, along, where or {}, downwards)
        grown = "; ".join(f"{other} by {contrast}" for other, contrast in found.items())
        text = f"From {ends} the lead of {model} in the {METRIC_NAMES[metric]} grows over {grown}."
        return found.values(), text

    within = "is above zero" if margin is None else f"lies within ±{margin:g}"
    why = f"It holds if the growth {within} with its interval over each of them. {note}"
    return Criterion(measure, why, margin=margin)


def worsens(models: Sequence[str], metric: str, along: str, where: Where) -> Criterion:
    """Every model gets worse from one end of a column to the other."""

    @holds_if("It holds if every loss is above zero with its interval.")
    def test(results: Results) -> Measured:
        losses, ends = _changes(results.scores, "", models, metric, along, where)
        return losses.values(), f"Lost in the {METRIC_NAMES[metric]} from {ends}: {listed(losses)}."

    return test


def _changes(
    scores: ScoreTable, model: str, others: Sequence[str], metric: str, along: str, where: Where,
    downwards: bool = False,
) -> tuple[dict[str, Contrast], str]:  # fmt: skip
    """Growth of the lead of a model over each other one, or without it their losses; and both ends."""
    found, ends = {}, ""
    for other in others:
        levels = scores.levels(along, where, [name for name in (model, other) if name])
        if len(levels) < 2:
            continue
        first, last = (levels[-1], levels[0]) if downwards else (levels[0], levels[-1])
        ends = ends or f"{_NAMES[along]} {first:,g} to {last:,g}"
        rows = scores.rows(metric, where)
        rows = rows[rows[along].isin([first, last])]
        values = (rows[model] if model else 0.0) - rows[other]
        side = np.where(rows[along] == last, 2.0, -2.0)  # a mean over both ends
        found[other] = scores.contrast(rows, values * side)
    return _known(found), ends


def often_best(
    model: str, among: Sequence[str], metrics: Sequence[str], share: float, where: Where, seldom: bool = False
) -> Criterion:
    """A model is the best of several in more than a share of the cases; or in fewer (`seldom`)."""

    def measure(results: Results) -> Measured:
        won = {}
        for metric in metrics:
            rows = results.rows(metric, where, [model])
            best = rows[[name for name in among if name in rows]].idxmax(axis=1) == model
            won[METRIC_NAMES[metric]] = rows[[UNIT]].assign(best=best.astype(float))
        every = pd.concat(won.values(), ignore_index=True)
        whole = results.scores.interval(every.groupby(UNIT)["best"].mean())
        shares = (results.scores.interval(rows.groupby(UNIT)["best"].mean()) for rows in won.values())
        parts = ", ".join(f"{name} {c.value:.0%}" for name, c in zip(won, shares, strict=True))
        text = f"Share of the cases in which {model} is best: {whole}; {parts}.".replace("%", " %")
        over = whole - share
        return [-over if seldom else over], text

    than = "below" if seldom else "above"
    why = f"It holds if the share is {than} {share:.0%} with its interval, among {', '.join(among)}."
    return Criterion(measure, why.replace("%", " %"))
