"""Areas of classes from probabilities, with their uncertainty: what pixels share, and what averages out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uncover.metrics.estimation import z_of

Array = NDArray[np.float64]

#: Causes of the uncertainty of an area. All but the overlap are common to pixels and do not average out.
CAUSES = ("measurement", "model", "class_shares", "unknown", "overlap")

#: Least parameter of a beta distribution that limits are read from.
_LEAST = 0.5


@dataclass(frozen=True)
class AreaSums:
    """Sums over pixels of area a and class probabilities P, from which areas and their uncertainty follow.

    A monoid under `+`. Sums in each world and by each drawn model are over some of the pixels.
    """

    expected: Array  # (class,), Σ a P
    own: Array  # (class,), Σ a² P (1 − P)
    products: Array  # (class, class), Σ a P Pᵀ
    sampled: float  # Σ a of the pixels that were read in worlds and by models
    worlds: Array  # (world, class), Σ a P of these in each world
    models: Array  # (draw, class), and by each drawn model

    @classmethod
    def of(cls, probability: NDArray[np.floating], area: Array) -> AreaSums:
        """Sums of pixels, (class, pixel), that were not read in worlds."""
        P = np.asarray(probability, np.float64)
        weighted, K = P * area, len(P)
        own, none = (weighted * area * (1 - P)).sum(1), np.zeros((0, K))
        return cls(weighted.sum(1), own, weighted @ P.T, 0.0, none, none)

    @classmethod
    def of_rows(cls, rows: Array, models: int) -> AreaSums:
        """Sums from the rows of a table of areas, (row, class): the inverse of `as_rows`."""
        K = rows.shape[1]
        head, draws = rows[: K + 3], rows[K + 3 :]
        split = len(draws) - models
        sampled = float(head[K + 2, 0])
        return cls(head[0], head[1], head[2 : K + 2], sampled, draws[:split], draws[split:])

    def as_rows(self) -> Array:
        """The sums as rows of one number for each class."""
        sampled = np.where(np.arange(len(self.expected)) == 0, self.sampled, 0.0)
        return np.vstack([self.expected, self.own, self.products, sampled, self.worlds, self.models])

    @property
    def area(self) -> float:
        """Area of all pixels."""
        return float(self.expected.sum())

    def uncertainty(
        self,
        log_shares: Array | None = None,
        shares: tuple[Array, Array, Array] | None = None,
        unknown: float = 0.0,
    ) -> AreaUncertainty:
        """The expected areas with the variances that each cause gives them.

        Parameters
        ----------
        log_shares : array of shape (class, class), optional
            Covariance of the logarithms of the class shares that the probabilities are for.
        shares : three arrays of shape (class, class), optional
            Where shares were estimated from these pixels: covariance of the shares for the classes' overlap,
            for the model and over the worlds. The areas are as uncertain as they are.
        unknown : float
            Standard uncertainty of the log odds of the share of none of the classes, the last column.
        """
        parts = {cause: np.zeros(len(self.expected)) for cause in CAUSES}
        scale = self.area / self.sampled if self.sampled else 0.0
        for cause, draws in (("measurement", self.worlds), ("model", self.models)):
            if len(draws) > 1:
                parts[cause] = scale**2 * draws.var(axis=0, ddof=1)
        parts["overlap"] = self.own
        slope = np.diag(self.expected) - self.products  # of the areas, by log shares
        if log_shares is not None:
            K = len(log_shares)
            parts["class_shares"][:K] = np.einsum("ij,jk,ik->i", slope[:K, :K], log_shares, slope[:K, :K])
        if shares is not None:
            K, known = len(shares[0]), self.expected[: len(shares[0])].sum()
            hidden, model, worlds = (known**2 * np.diag(each) for each in shares)
            parts["class_shares"][:K] = np.maximum(hidden - self.own[:K], 0.0)
            parts["model"][:K], parts["measurement"][:K] = model, worlds
        parts["unknown"] = (unknown * slope[:, -1]) ** 2
        # Of a part between 0 and A with the mean m no variance is above m (A − m) (Bhatia and Davis 2000).
        most = self.expected * np.maximum(self.area - self.expected, 0.0)
        total = np.maximum(np.sum(list(parts.values()), axis=0), np.finfo(float).tiny)
        with np.errstate(over="ignore"):  # of areas that are certain
            bounded = np.minimum(1.0, most / total)
        parts = {cause: part * bounded for cause, part in parts.items()}
        return AreaUncertainty(self.expected, self.area, parts)


@dataclass(frozen=True)
class AreaUncertainty:
    """Expected areas of classes among a total area, with the variance of each cause."""

    expected: Array  # (class,)
    total: float
    variances: Mapping[str, Array]  # of CAUSES, (class,) each

    @property
    def standard(self) -> Array:
        """Combined standard uncertainty: (class,)."""
        return np.sqrt(np.sum(list(self.variances.values()), axis=0))

    def part(self, cause: str) -> Array:
        """Standard uncertainty from one of CAUSES: (class,)."""
        return np.sqrt(self.variances[cause])

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Limits from a beta distribution of this mean and variance: never below 0 or above the total."""
        return share_limits(self.expected, self.standard, self.total, level)


def share_limits(
    value: Array, error: Array, total: Array | float, level: float = 0.95
) -> tuple[Array, Array]:
    """Limits of parts of a total, from beta distributions of their means and standard uncertainties.

    >>> low, high = share_limits(np.array([50.0]), np.array([5.0]), 100.0)
    >>> low.round(1), high.round(1)
    (array([40.2]), array([59.8]))
    """
    from scipy.special import betaincinv, ndtr

    z = z_of(level)
    tail, whole = 1 - ndtr(z), np.maximum(total, np.finfo(float).tiny)
    share, spread = np.clip(value / whole, 0.0, 1.0), error / whole
    with np.errstate(divide="ignore", invalid="ignore"):
        n = np.clip(share * (1 - share) / spread**2 - 1, 1e-3, 1e12)
        ends = [whole * betaincinv(n * share, n * (1 - share), at) for at in (tail, 1 - tail)]
    # A part that is nearly nothing, and less certain than large, has no such distribution.
    wide = (spread == 0) | (n * np.minimum(share, 1 - share) < _LEAST)
    plain = np.maximum(value - z * error, 0.0), np.minimum(value + z * error, whole)
    low, high = (np.where(wide, limit, end) for limit, end in zip(plain, ends, strict=True))
    return low, high
