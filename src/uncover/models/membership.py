"""Which sample belongs to which class, and with what weight: hard or soft labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.moments import Moments
from uncover.engines.arrays import on_device
from uncover.engines.device_moments import moments_on_device
from uncover.engines.moments import moments_by_group

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Membership:
    """Labels of samples: the number of a class for each, or a probability of each class."""

    n_classes: int
    codes: NDArray[np.integer[Any]] | None  # (sample,), hard labels
    probability: Array | None  # (sample, class), soft labels
    weight: Array | None  # (sample,)

    @property
    def uncertain(self) -> bool:
        """True where any label is a probability other than 0 and 1."""
        P = self.probability
        return P is not None and bool(np.any((P > 0) & (P < 1)))

    def of_class(self, k: int) -> tuple[NDArray[np.intp], Array]:
        """Samples with a share in class k, and their weights (sample,)."""
        if self.codes is not None:
            rows = np.flatnonzero(self.codes == k)
            return rows, np.ones(len(rows)) if self.weight is None else self.weight[rows]
        assert self.probability is not None
        share = self.probability[:, k] if self.weight is None else self.probability[:, k] * self.weight
        rows = np.flatnonzero(share > 0)
        return rows, share[rows]

    def __getitem__(self, rows: Any) -> Membership:
        """Labels and weights of some samples, by index."""
        return Membership(
            self.n_classes,
            None if self.codes is None else self.codes[rows],
            None if self.probability is None else self.probability[rows],
            None if self.weight is None else self.weight[rows],
        )

    def targets(self) -> Array:
        """Probability of each class for each sample: (sample, class)."""
        if self.codes is not None:
            return np.asarray(np.eye(self.n_classes)[self.codes])
        assert self.probability is not None
        return self.probability

    def shares(self, rows: Any) -> Array:
        """Weight of some samples in each class: (sample, class)."""
        share = self[rows].targets()
        return share if self.weight is None else np.asarray(share * self.weight[rows][:, None])

    def moments(self, samples: Any) -> Moments:
        """Moments of samples (..., sample, feature) for each class: batch (..., class)."""
        if on_device(samples):
            return moments_on_device(samples, self)
        if self.codes is not None:
            return moments_by_group(samples, self.codes, self.n_classes, self.weight)
        each = (self.of_class(k) for k in range(self.n_classes))
        return Moments.stack([Moments.of(samples[..., rows, :], weight) for rows, weight in each], axis=-1)

    def total_weight(self, n_samples: int) -> float:
        """Sum of weights of all samples."""
        return float(n_samples if self.weight is None else self.weight.sum())

    def soft(self, probability: Array) -> Membership:
        """The same samples and weights with other labels."""
        return Membership(self.n_classes, None, probability, self.weight)
