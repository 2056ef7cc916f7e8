"""Features that are independent within each class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.covariances import Covariances
from uncover.bayes.evidence import ScatterEvidence, evidence_independent_prior
from uncover.bayes.jeffreys import JeffreysPrior
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW, DiagonalNIW
from uncover.bayes.priors import weak_prior
from uncover.models.class_model import Array, ClassModel, too_small_for_jeffreys
from uncover.models.deconvolution import deconvolve_features
from uncover.models.membership import Membership


class Naive(ClassModel):
    """Naive Bayes: Σ_k diagonal."""

    name, estimator = "nb", "BayesianNB"
    distributions = (DiagonalNIW,)

    def weak_prior(self, moments: Moments, variance: Array | None = None) -> NIW:
        """The diagonal of the weak prior."""
        return self.given_prior(weak_prior(moments, variance))

    def update(self, prior: NIW, moments: Moments) -> NIW:
        """Each feature by itself."""
        if isinstance(prior, JeffreysPrior):
            return prior.update_independent(moments)
        return prior.update(moments)

    def given_prior(self, prior: NIW) -> NIW:
        """By its diagonal."""
        return DiagonalNIW(prior.mean, prior.strength, prior.scale, prior.dof)

    def evidence_prior(self, moments: Moments, rows_per_sample: float) -> NIW:
        """Variances drawn towards their average."""
        return evidence_independent_prior(moments, rows_per_sample)

    def update_through_noise(
        self, prior: NIW, points: Any, noise: Covariances, membership: Membership
    ) -> NIW:
        """Each class and feature by itself."""
        return deconvolve_features(prior, points, noise, membership)

    def check_noise(self, noise: Covariances) -> None:
        """Refuse covariances between features."""
        if not noise.is_diagonal:
            raise ValueError(
                f"{self.estimator} treats features as independent and takes variances as X_cov; for "
                "covariances between features use BayesianQDA or BayesianLDA."
            )

    def scatter_evidence(self, prior: NIW, moments: Moments) -> ScatterEvidence:
        """Of the scatter of each feature."""
        variance = np.diagonal(prior.expected_covariance, axis1=-2, axis2=-1)
        return ScatterEvidence.of_features(moments, variance)

    def lacking_for_jeffreys(self, classes: NDArray[Any], count: Array, p: int) -> str | None:
        """Too few samples for a variance."""
        return too_small_for_jeffreys(classes, count, 1)

    def fewest_samples(self, count: Array) -> float:
        """No covariance is estimated: there are always enough."""
        return np.inf
