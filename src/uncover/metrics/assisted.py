"""Areas from a probability sample and a map together: model-assisted estimation.

The map's probabilities are known everywhere, the classes of the sample are right: the difference of the two
in the sample corrects the sum of the probabilities. It is unbiased whatever the map is worth, and the better
the map the less uncertain (Särndal, Swensson and Wretman 1992; prediction-powered inference is its modern
name).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from uncover.metrics.confusion import Floats, GroupSums
from uncover.metrics.estimation import z_of

#: Samples that the map's own expectation counts for, where the spread of its errors is found.
_BEFORE = 5.0
#: Errors that are taken to be met in each stratum at least, as by Jeffreys's prior of a proportion.
_ERRORS = 0.5


@dataclass(frozen=True)
class AssistedSums(GroupSums):
    """Sums over samples of weights w, reference y (1 or 0 of each class) and probability P: (stratum, ...).

    The weight of a sample is the area that it stands for, up to a factor. A monoid under `+`.
    """

    count: Floats  # (stratum,)
    weight: Floats  # (stratum,), Σ w
    first: Floats  # (stratum, class, 2), Σ w (y, P)
    squares: Floats  # (stratum,), Σ w²
    second: Floats  # (stratum, class, 2), Σ w² (y, P)
    cross: Floats  # (stratum, class, 2, 2), Σ w² (y, P)(y, P)ᵀ

    @classmethod
    def of(
        cls,
        reference: NDArray[np.intp],
        probability: Floats,
        strata: NDArray[np.intp],
        *,
        n_strata: int,
        weights: ArrayLike | None = None,
    ) -> AssistedSums:
        """Sums of samples, from numbers of their classes and probabilities (sample, class)."""
        n, K = probability.shape
        w = np.ones(n) if weights is None else np.asarray(weights, np.float64)
        z = np.stack([np.eye(K)[reference], probability], axis=-1)  # (sample, class, 2)
        member = np.zeros((n_strata, n))
        member[strata, np.arange(n)] = 1.0
        return cls(
            member.sum(1),
            member @ w,
            np.einsum("hn,nkj->hkj", member * w, z),
            member @ w**2,
            np.einsum("hn,nkj->hkj", member * w**2, z),
            np.einsum("hn,nki,nkj->hkij", member * w**2, z, z),
        )


@dataclass(frozen=True)
class AssistedAreas:
    """Areas of classes by the regression estimator, of a stratified random sample or a simple one.

    With means of a stratum h of size A_h marked by a bar, and T the sum of area times probability of the map,

        Â = Σ_h A_h ȳ_h + λ (T − Σ_h A_h P̄_h)

    λ = 1 is the difference estimator. The one of the smallest variance is taken, Cov(y, P)/V(P), between 0
    (the sample alone) and 1.

    Attributes
    ----------
    sums : AssistedSums
    sizes : array of shape (stratum,)
        Areas of the strata.
    mapped : array of shape (class,)
        Σ a P over all pixels of the strata.
    spread : array of shape (class,)
        Σ a P (1 − P) over them, by which the map itself expects to be wrong.
    """

    sums: AssistedSums
    sizes: Floats
    mapped: Floats
    spread: Floats

    @property
    def _covariance(self) -> Floats:
        """Covariance of (y, P) within each stratum, as weighted: (stratum, class, 2, 2)."""
        s, w = self.sums, self.sums.weight[:, None, None]
        mean = s.first / w
        outer = mean[..., :, None] * mean[..., None, :]
        sides = s.second[..., :, None] * mean[..., None, :]
        squares = s.cross - sides - np.swapaxes(sides, -1, -2) + s.squares[:, None, None, None] * outer
        with np.errstate(divide="ignore", invalid="ignore"):
            free = np.where(s.count > 1, s.count / (s.count - 1), np.nan)
        return np.asarray(squares * (free / s.weight**2)[:, None, None, None])

    @property
    def slope(self) -> Floats:
        """λ of each class: (class,)."""
        joint = np.einsum("h,hkij->kij", np.asarray(self.sizes) ** 2, np.nan_to_num(self._covariance))
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(joint[:, 1, 1] > 0, joint[:, 0, 1] / joint[:, 1, 1], 1.0)
        return np.clip(found, 0.0, 1.0)

    @property
    def value(self) -> Floats:
        """Estimated areas: (class,)."""
        y, P = np.moveaxis(self.sums.first / self.sums.weight[:, None, None], -1, 0)
        sizes = np.asarray(self.sizes)
        return np.asarray(sizes @ y + self.slope * (self.mapped - sizes @ P))

    @property
    def error(self) -> Floats:
        """Standard errors of the areas, NaN where a stratum has one sample: (class,).

        The variance of the residual y − λP within a stratum is that of the sample and, as if of some samples
        more, the one that the map itself expects: a sample may have met none of the rare errors. A map may be
        surer than it should be, so it is no less than that of half an error in each stratum: from a class of
        the map, by its mean probability there, to any other.
        """
        s, side = self.sums, np.stack([np.ones_like(self.slope), -self.slope], axis=-1)
        seen = np.einsum("ki,hkij,kj->hk", side, self._covariance, side)  # of the mean of a stratum
        n = s.count[:, None]
        expected = self.spread / np.sum(self.sizes) / n
        combined = ((n - 1) * seen + _BEFORE * np.maximum(expected, seen)) / (n - 1 + _BEFORE)
        P = s.first[..., 1] / s.weight[:, None]
        concerned = P + (1 - P) / max(P.shape[1] - 1, 1)  # part of the errors that are from or to a class
        combined = np.maximum(combined, _ERRORS * concerned / n**2)
        return np.sqrt((np.asarray(self.sizes)[:, None] ** 2 * combined).sum(axis=0))

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Limits by Student's t, within what a part of the total can be: (class,) each."""
        z_of(level)
        dof = max(float(self.sums.count.sum() - len(self.sums.count)), 1.0)
        half = float(stdtrit(dof, (1 + level) / 2)) * self.error
        return np.maximum(self.value - half, 0.0), np.minimum(self.value + half, float(np.sum(self.sizes)))
