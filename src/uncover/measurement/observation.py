"""An observation: values of samples with what is known of their errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.covariances import Covariances
from uncover.models.drawn_noise import DrawnNoise, scatter_of_draws
from uncover.models.pool import log_of
from uncover.models.realisations import Noise, Reading, Structure, lacks_values

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Observation:
    """Values with what is known of their errors.

    Attributes
    ----------
    X : array of shape (sample, feature) or (sample, realisation, feature)
    noise : Covariances or None
        Of the errors of each sample; of several realisations, that of each of them.
    systematic : array of shape (feature, feature) or None
        Covariance of an error that all samples share.
    complete : bool
        True where it is known that no value is missing: it is not looked for again.

    Examples
    --------
    >>> Observation(np.zeros((10, 25, 4))).structure
    Structure(realisations=25, noise=False)
    """

    X: NDArray[Any]
    noise: Covariances | None = None
    systematic: Array | None = None
    complete: bool = False

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, rows: Any) -> Observation:
        """Some of the samples."""
        noise = None if self.noise is None else self.noise[rows]
        return Observation(self.X[rows], noise, self.systematic, self.complete)

    @property
    def structure(self) -> Structure:
        """Structure of the samples, without their values."""
        return Structure(self.X.shape[1] if self.X.ndim == 3 else None, self.noise is not None)

    @property
    def lacks_features(self) -> bool:
        """True where any value is missing (NaN)."""
        return not self.complete and lacks_values(self.X)

    def points(self, reading: Reading) -> NDArray[Any]:
        """The values that a reading is of: (sample, feature)."""
        if self.X.ndim == 2:
            return self.X
        if reading.realisation is None:
            return np.asarray(self.X.mean(axis=1, dtype=np.float64))
        return np.asarray(self.X[:, reading.realisation])

    def noise_of(self, reading: Reading, drawn: DrawnNoise | None, used: Any) -> list[Covariances]:
        """Known covariances of the errors of those values, in the features in use; empty if there are none.

        There is one of each component, or one for all. ``drawn`` is what training draws tell of them.
        """
        if reading.noise is Noise.GIVEN and self.noise is not None:
            return [self.noise if used.all() else self.noise.select_features(used)]
        values = self.X if used.all() else self.X[..., used]
        if reading.noise is Noise.DRAWN:
            none = DrawnNoise.alike(np.zeros((values.shape[2],) * 2), 0.0)
            return (none if drawn is None else drawn.select_features(used)).of_classes(values)
        if reading.noise is Noise.SPREAD:
            spread = scatter_of_draws(values) / (values.shape[1] - 1)
            if self.noise is not None:
                spread = spread + self.noise.matrices()[:, used][:, :, used]
            return [Covariances(None, None, spread)]
        return []

    def by_spread(self, realisations: str, spread: DrawnNoise | None) -> Observation:
        """Means of draws or repeats with their noise, in place of the realisations; others as they are.

        ``spread`` is the noise of one realisation of the training samples.
        """
        X, R = self.X, self.structure.realisations
        if realisations == "repeats" and spread is not None and self.noise is None:
            mean = X if R is None else X.mean(axis=1, dtype=np.float64)
            return Observation(
                mean, Covariances(spread.covariance[0] / (R or 1), None, None), self.systematic
            )
        if realisations not in ("draws", "repeats") or R is None:
            return self
        if R == 1 or realisations == "repeats":
            return Observation(X.mean(axis=1, dtype=np.float64), None, self.systematic)
        noise = (spread or DrawnNoise.alike(np.zeros((X.shape[2],) * 2), 0.0)).of_classes(X)[0]
        return Observation(X.mean(axis=1, dtype=np.float64), noise, self.systematic)

    def with_common_error(self, covariance: Array | None) -> Observation:
        """The same with an error of this covariance as noise of every sample, and none in common."""
        if covariance is None:
            return Observation(self.X, self.noise)
        noise = Covariances(covariance, None, None) if self.noise is None else self.noise.plus(covariance)
        return Observation(self.X, noise)

    def log(self, floor: Array) -> Observation:
        """The observation of log(max(x, floor)); covariances to first order, Σ → Σ/(x xᵀ)."""
        return Observation(*log_of(self.X, self.noise, floor))

    def variances(self) -> Array:
        """Variances of the noise, 0 where it is not known: (sample or 1, feature)."""
        return np.zeros((1, self.X.shape[-1])) if self.noise is None else self.noise.variances()

    def variances_with_gaps(self) -> Array:
        """The same, infinite for what is missing: (sample or 1, feature)."""
        known, X = self.variances(), self.X
        if not self.lacks_features:
            return known
        return np.where(np.isnan(X) if X.ndim == 2 else np.isnan(X).any(1), np.inf, known)
