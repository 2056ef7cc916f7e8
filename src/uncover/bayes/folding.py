"""From the parts of classes to classes: sums of densities, where a class is a mixture of several parts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Folding:
    """Which class each part belongs to; parts of one class stand together, along the last axis.

    Parameters
    ----------
    owner : array of int of shape (part,)
        Class of each part, from 0, in ascending order; each class has a part.
    temperature : float
        What the log joints of the classes are divided by.

    Examples
    --------
    >>> folding = Folding(np.array([0, 0, 1]))
    >>> np.exp(folding.log_odds(np.log([[0.2, 0.3, 0.5]])))
    array([[0.5, 0.5]])
    >>> folding.shares(np.log([[0.2, 0.3, 0.5]]))
    array([[0.4, 0.6, 1. ]])
    """

    owner: NDArray[np.intp]
    temperature: float = 1.0

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """First part of each class, and the number of parts: (class + 1,)."""
        return np.searchsorted(self.owner, np.arange(self.n_classes + 1)).astype(np.int64)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.owner[-1]) + 1

    def log_joint(self, of_parts: Array) -> Array:
        """Log joint of the classes: log Σ exp over their parts."""
        top = self.largest(of_parts)
        safe = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            return np.asarray(safe + np.log(self._sum(np.exp(of_parts - safe[..., self.owner]))))

    def log_odds(self, of_parts: Array) -> Array:
        """The log joint as class probabilities are made of it: over the temperature."""
        return np.asarray(self.log_joint(of_parts) / self.temperature)

    def shares(self, of_parts: Array) -> Array:
        """Share of each part in the density of its class, from log joints of the parts."""
        return np.asarray(np.exp(of_parts - self.log_joint(of_parts)[..., self.owner]))

    def variance(self, of_parts: Array, variance: Array) -> Array:
        """Variance of the log odds of the classes, Σ_c r_c² v_c / T² to first order, from that of the parts.

        ``of_parts`` are their log joints, from which the shares r follow.
        """
        return np.asarray(self._sum(self.shares(of_parts) ** 2 * variance) / self.temperature**2)

    def largest(self, of_parts: Array) -> Array:
        """The largest number of the parts of each class."""
        return np.asarray(np.maximum.reduceat(of_parts, self.first[:-1], axis=-1))

    def _sum(self, of_parts: Array) -> Array:
        return np.asarray(np.add.reduceat(of_parts, self.first[:-1], axis=-1))
