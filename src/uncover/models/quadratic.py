"""A Gaussian with its own covariance for each class."""

from __future__ import annotations

from typing import Any

from uncover.bayes.covariances import Covariances
from uncover.bayes.evidence import ScatterEvidence, echo_of_samples, evidence_prior
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW
from uncover.bayes.priors import weak_prior
from uncover.models.class_model import Array, ClassModel
from uncover.models.deconvolution import deconvolve_each
from uncover.models.membership import Membership


class Quadratic(ClassModel):
    """Quadratic discriminant analysis: Σ_k of each class by itself."""

    name, estimator = "qda", "BayesianQDA"

    def weak_prior(self, moments: Moments, variance: Array | None = None) -> NIW:
        """Scale from the data (Fraley and Raftery 2007)."""
        return weak_prior(moments, variance)

    def update(self, prior: NIW, moments: Moments) -> NIW:
        """Each class by itself."""
        return prior.update(moments)

    def evidence_prior(self, moments: Moments, rows_per_sample: float) -> NIW:
        """Covariances drawn towards their average."""
        return evidence_prior(moments, rows_per_sample)

    def echo(self, prior: NIW, moments: Moments, rows_per_sample: float) -> float:
        """Every sample is in the average covariance."""
        return echo_of_samples(prior, moments, rows_per_sample)

    def update_through_noise(
        self, prior: NIW, points: Any, noise: Covariances, membership: Membership
    ) -> NIW:
        """Each class by itself."""
        return deconvolve_each(prior, points, noise, membership)

    def scatter_evidence(self, prior: NIW, moments: Moments) -> ScatterEvidence:
        """Of the scatter of each class."""
        return ScatterEvidence.of(moments, prior.expected_covariance)


class RoughQuadratic(Quadratic):
    """The same, taking the noise out to 10⁻³ standard deviations: as good for members of a pool, and fast."""

    def update_through_noise(
        self, prior: NIW, points: Any, noise: Covariances, membership: Membership
    ) -> NIW:
        """Each class by itself."""
        return deconvolve_each(prior, points, noise, membership, tolerance=1e-3)
