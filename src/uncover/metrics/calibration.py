"""Calibration: does what is given a probability of 70 % come true in 70 % of the cases? Curves and errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from uncover.metrics.confusion import Floats, GroupSums, codes_of, ratio
from uncover.metrics.estimation import wilson_interval
from uncover.metrics.scores import check_probabilities, numbered_groups


@dataclass(frozen=True)
class Reliability(GroupSums):
    """Sums by bin of the probability; arrays (..., curve, bin). A monoid under `+`.

    Curve 0 is that of the top label: the probability of the class decided for, and whether it was right.
    Curve k+1 is that of class k: its probability, and whether the reference is of that class.
    """

    count: Floats  # samples
    weight: Floats  # Σ w
    squares: Floats  # Σ w²
    probability: Floats  # Σ w p
    observed: Floats  # Σ w (it came true)

    @classmethod
    def of(
        cls,
        reference: ArrayLike,
        probabilities: ArrayLike,
        *,
        bins: int = 10,
        mapped: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        n_groups: int | None = None,
    ) -> Reliability:
        """Sums of samples in bins of equal width; `groups` put a leading axis in front."""
        p = check_probabilities(probabilities)
        n, k = p.shape
        y = codes_of(reference, k, "reference")
        decided = p.argmax(axis=1) if mapped is None else codes_of(mapped, k, "map")
        w = np.ones(n) if weights is None else np.asarray(weights, np.float64)
        g, size = numbered_groups(groups, n_groups, n)
        sums = np.zeros((5, size, k + 1, bins))
        for curve in range(k + 1):
            value = p[np.arange(n), decided] if curve == 0 else p[:, curve - 1]
            true = y == (decided if curve == 0 else curve - 1)
            at = g * bins + bin_of(value, bins)
            for total, v in zip(sums, (np.ones(n), w, w**2, w * value, w * true), strict=True):
                total[:, curve] = np.bincount(at, v, minlength=size * bins).reshape(size, bins)
        return cls(*(s[0] if groups is None else s for s in sums))

    def scaled(self, factors: Floats) -> Reliability:
        """The groups, each with its weights times its factor (group,)."""
        powers = {"count": 0, "squares": 2}
        return self._each(lambda v, name: v * (factors ** powers.get(name, 1))[:, np.newaxis, np.newaxis])

    @property
    def mean_probability(self) -> Floats:
        """Mean predicted probability in each bin; NaN where it is empty."""
        return np.asarray(ratio(self.probability, self.weight))

    @property
    def observed_frequency(self) -> Floats:
        """Observed frequency in each bin; NaN where it is empty."""
        return np.asarray(ratio(self.observed, self.weight))

    @property
    def calibration_error(self) -> Floats:
        """Expected calibration error of each curve, Σ_b (w_b/w)·|observed − promised|: (..., curve)."""
        gap = np.abs(self.observed - self.probability).sum(axis=-1)
        return np.asarray(ratio(gap, self.weight.sum(axis=-1)))

    @property
    def top_label_error(self) -> Any:
        """Expected calibration error of the class decided for (Guo et al. 2017)."""
        return self.calibration_error[..., 0]

    @property
    def class_wise_error(self) -> Any:
        """Expected calibration error averaged over the classes (Kull et al. 2019)."""
        return self.calibration_error[..., 1:].mean(axis=-1)

    def effective_count(self) -> Floats:
        """Kish's number of equally weighted samples in each bin, (Σw)²/Σw²."""
        return np.asarray(np.nan_to_num(ratio(self.weight**2, self.squares)))

    def interval(self, level: float = 0.95, effective: Floats | None = None) -> tuple[Floats, Floats]:
        """Wilson's interval of the observed frequency; `effective` counts for dependent samples."""
        n = self.effective_count() if effective is None else effective
        return wilson_interval(self.observed_frequency, n, level)


def bin_of(probabilities: Floats, bins: int) -> Any:
    """Number of the bin of each probability; bins are closed on the left, the last one on both sides."""
    # Rounding must not decide about 0.7, which is 7000 steps of 1e-4, too.
    edges = np.linspace(0, 1, bins + 1)[1:-1] - 1e-9
    return np.searchsorted(edges, probabilities, side="right")


def unexplained_share(typicality: Floats, counts: Floats | None = None) -> float:
    """Share of the samples, at least, that a model does not explain: the largest of F(t) − t.

    F(t) is the share of samples whose typicality is t or less, which is t or less where the model is right.
    ``counts`` are the numbers of samples of each value; NaN is no value.

    >>> unexplained_share(np.linspace(0, 1, 100_000)), unexplained_share(np.full(9, np.nan))
    (0.0, 0.0)
    >>> round(unexplained_share(np.r_[np.zeros(1000), np.linspace(0, 1, 3000)]), 2)
    0.25
    """
    known = np.isfinite(typicality)
    p, inverse = np.unique(typicality[known], return_inverse=True)
    n = np.bincount(inverse.ravel(), None if counts is None else counts[known], minlength=len(p))
    total = n.sum()
    if not total > 0:
        return 0.0
    found = float((np.cumsum(n) / total - p).max())
    return found if found > 1.36 / np.sqrt(total) else 0.0  # as in a Kolmogorov-Smirnov test
