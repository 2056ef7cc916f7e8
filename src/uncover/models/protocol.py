"""The interface of fitted models: whatever can be combined with an observation."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.covariances import Covariances

Array = NDArray[np.float64]


class FittedModel(Protocol):
    """A frozen value that knows classes by densities or probabilities."""

    @property
    def classes(self) -> NDArray[Any]:
        """Labels of the classes: (class,)."""

    @property
    def features(self) -> NDArray[Any]:
        """Names of the features, or their numbers: (feature,)."""

    def log_joint(self, points: NDArray[Any]) -> Array:
        """log P(class) + log p(x | class), or log P(class | x), of points (n, feature): (n, class)."""

    def log_unknown(self, points: NDArray[Any]) -> Array:
        """Log density of a class that was never trained, on the scale of ``log_joint``: (n,).

        P(none | x) = s₀ u/(s₀ u + (1 − s₀) Σ_k exp(log_joint_k)), u being its exponential and s₀ the share.
        """

    def true_values(
        self,
        points: NDArray[Any],
        covariances: Covariances | None,
        n: int,
        rng: np.random.Generator,
        codes: NDArray[np.intp] | None = None,
    ) -> Array:
        """Draws of the true value of each point, of its class where ``codes`` say it: (n_points, n, feature).

        A missing feature is drawn given the others; ``covariances`` of None are those of exact values.
        """
