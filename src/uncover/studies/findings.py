"""What a study found about a claim of the paper, and the comparisons behind it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

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
    """One claim, and what was found.

    Attributes
    ----------
    name : str
        Short and unique.
    claim : str
        What the paper says; for findings of our own, what is asserted.
    verdict : str
    found : str
        The numbers, with their intervals.
    why : str
        How it was decided, and why it may differ from the paper.
    section : str
        Where the paper says it.
    figure : str
        The study's figure that shows it.
    ours : bool
        Not a claim of the paper.

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


class Outcome(NamedTuple):
    """What a test found: the verdict, the numbers, and how it was decided."""

    verdict: Verdict
    found: str
    why: str = ""


@dataclass(frozen=True)
class Contrast:
    """A difference with its interval of 95 %.

    Examples
    --------
    >>> c = Contrast(-0.02, -0.03, -0.01)
    >>> str(c), c.below(0), c.within(0.05)
    ('−0.0200 [−0.0300, −0.0100]', True, True)
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
        """Whether there was more than one value."""
        return bool(np.isfinite([self.low, self.high]).all())

    def below(self, limit: float) -> bool:
        """Whether all of the interval lies below a limit."""
        return self.high < limit

    def above(self, limit: float) -> bool:
        """Whether all of the interval lies above a limit."""
        return self.low > limit

    def within(self, margin: float) -> bool:
        """Whether all of the interval is so close to zero."""
        return -margin < self.low and self.high < margin

    def outside(self, margin: float) -> bool:
        """Whether all of the interval is farther from zero than that."""
        return self.low > margin or self.high < -margin

    def __str__(self) -> str:
        if not self.has_interval:
            return f"{self.value:.4f} (one value, no interval)".replace("-", "−")
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]".replace("-", "−")


def all_better(leads: Iterable[Contrast]) -> Verdict:
    """Holds where every lead is above zero, does not where one is below; else it is undecided.

    Examples
    --------
    >>> all_better([Contrast(1, 0.5, 2), Contrast(0.1, -0.1, 0.3)])
    'undecided'
    """
    every = list(leads)
    if every and all(lead.above(0) for lead in every):
        return "holds"
    return "does not hold" if any(lead.below(0) for lead in every) else "undecided"


def all_alike(differences: Iterable[Contrast], margin: float) -> Verdict:
    """Holds where every difference is within the margin, does not where one is outside; else undecided.

    Examples
    --------
    >>> all_alike([Contrast(0.001, -0.004, 0.006)], margin=0.01)
    'holds'
    """
    every = list(differences)
    if every and all(difference.within(margin) for difference in every):
        return "holds"
    return "does not hold" if any(difference.outside(margin) for difference in every) else "undecided"


def at_least(values: ArrayLike, limit: float) -> Verdict:
    """Holds where every value is so large, does not where one is smaller; undecided where one is unknown.

    Examples
    --------
    >>> at_least([7.0, 5.0], 5), at_least([7.0, float("nan")], 5), at_least([], 5)
    ('holds', 'undecided', 'undecided')
    """
    every = np.asarray(values, np.float64)
    if (every < limit).any():
        return "does not hold"
    return "holds" if every.size and (every >= limit).all() else "undecided"


def percent(share: float) -> str:
    """A share in words.

    Examples
    --------
    >>> percent(0.1234)
    '12.3 %'
    """
    return f"{100 * share:.1f} %"
