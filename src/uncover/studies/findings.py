"""Findings of a study about a claim of the paper, and the comparisons behind them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

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

    Examples
    --------
    >>> Finding("cost", "RF costs more.", "holds", "40 times as much.").as_dict()["verdict"]
    'holds'
    """

    name: str
    claim: str
    verdict: Verdict
    found: str
    why: str = ""
    section: str = ""
    figure: str = ""
    ours: bool = False

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Contrast:
    """A difference with its interval of 95 %.

    Examples
    --------
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
    """Four digits after the point; of what would be written as zero, the first two that are none.

    Examples
    --------
    >>> _digits(-0.25), _digits(0.0), _digits(-0.0000012)
    ('−0.2500', '0.0000', '−1.2e−06')
    """
    return f"{value:{'.1e' if 0 < abs(value) < 5e-5 else '.4f'}}".replace("-", "−")


def exact(values: Iterable[float]) -> list[Contrast]:
    """Numbers that are known, as contrasts: their interval has no width."""
    return [Contrast(float(value), float(value), float(value)) for value in values]


def signs(true: Iterable[bool]) -> list[Contrast]:
    """Comparisons without an interval, as contrasts: above zero where they are true, else below."""
    return exact(1.0 if each else -1.0 for each in true)


def all_better(leads: Iterable[Contrast], limit: float = 0.0) -> Verdict:
    """Holds where every lead is above a limit, does not where one is below; else it is undecided.

    Examples
    --------
    >>> all_better([Contrast(1, 0.5, 2), Contrast(0.1, -0.1, 0.3)])
    'undecided'
    """
    every = list(leads)
    if every and all(lead.above(limit) for lead in every):
        return "holds"
    return "does not hold" if any(lead.below(limit) for lead in every) else "undecided"


def all_alike(differences: Iterable[Contrast], margin: float) -> Verdict:
    """Holds where every difference is within the margin, does not where one is outside; else undecided.

    Examples
    --------
    >>> all_alike([Contrast(0.001, -0.004, 0.006)], margin=0.01)
    'holds'
    """
    every = list(differences)
    if every and all(one.above(-margin) and one.below(margin) for one in every):
        return "holds"
    apart = any(one.above(margin) or one.below(-margin) for one in every)
    return "does not hold" if apart else "undecided"


def percent(share: float) -> str:
    """A share in words.

    Examples
    --------
    >>> percent(0.1234)
    '12.3 %'
    """
    return f"{100 * share:.1f} %"
