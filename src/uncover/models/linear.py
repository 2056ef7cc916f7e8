"""One covariance for all classes."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from uncover.bayes.covariances import Covariances
from uncover.bayes.evidence import ScatterEvidence, evidence_tied_prior, log_evidence_tied
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW
from uncover.bayes.priors import weak_tied_prior
from uncover.models.class_model import Array, ClassModel, too_small_for_jeffreys
from uncover.models.deconvolution import deconvolve_tied
from uncover.models.membership import Membership


class Linear(ClassModel):
    """Linear discriminant analysis: Σ_k = Σ."""

    name, estimator = "lda", "BayesianLDA"

    def weak_prior(self, moments: Moments, variance: Array | None = None) -> NIW:
        """Scale from the variance within classes."""
        return weak_tied_prior(moments, variance)

    def update(self, prior: NIW, moments: Moments) -> NIW:
        """The scatter of all classes together."""
        return prior.update_tied(moments)

    def given_prior(self, prior: NIW) -> NIW:
        """One scale and dof; refuses several."""
        if (prior.scale != prior.scale[:1]).any() or (prior.dof != prior.dof[:1]).any():
            raise ValueError(
                f"{self.estimator} has one covariance for all classes, so scale and dof of the priors must "
                "be equal; use BayesianQDA for different ones."
            )
        return NIW(prior.mean, prior.strength, prior.scale[:1], prior.dof[:1])

    def evidence_prior(self, moments: Moments, rows_per_sample: float) -> NIW:
        """The common covariance, drawn towards its diagonal."""
        return evidence_tied_prior(moments, rows_per_sample)

    def update_through_noise(
        self, prior: NIW, points: Any, noise: Covariances, membership: Membership
    ) -> NIW:
        """All classes together."""
        return deconvolve_tied(prior, points, noise, membership)

    def log_evidence(self, prior: NIW, moments: Moments) -> Array:
        """Of all classes together."""
        return log_evidence_tied(prior, moments)

    def scatter_evidence(self, prior: NIW, moments: Moments) -> ScatterEvidence:
        """Of the scatter within all classes."""
        return ScatterEvidence.of_tied(moments, prior.expected_covariance[..., 0, :, :])

    def lacking_for_jeffreys(self, classes: NDArray[Any], count: Array, p: int) -> str | None:
        """Too few samples for the common covariance."""
        empty, free = too_small_for_jeffreys(classes, count, 0), (count - 1).sum(-1).min()
        if empty or free >= p:
            return empty
        return (
            f"{count[0].sum():g} samples of {count.shape[1]} classes leave {free:g} for their common "
            f'covariance; prior="jeffreys" needs at least {p} for {p} features.'
        )

    def fewest_samples(self, count: Array) -> float:
        """All of them."""
        return float(count.sum())
