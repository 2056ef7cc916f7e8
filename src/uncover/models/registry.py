"""The class models, for estimators, model files, ``uncover fit --model`` and contract tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.covariances import Covariances
from uncover.bayes.evidence import (
    ScatterEvidence,
    Seen,
    echo_of_samples,
    evidence_independent_prior,
    evidence_prior,
    evidence_tied_prior,
    log_evidence_tied,
)
from uncover.bayes.jeffreys import JeffreysPrior
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW, DiagonalNIW
from uncover.bayes.priors import weak_prior, weak_tied_prior
from uncover.models.class_model import Array, ClassModel, too_small_for_jeffreys
from uncover.models.deconvolution import deconvolve_each, deconvolve_features, deconvolve_tied
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

    def evidence_prior_of_gaps(self, moments: Moments, seen: Seen) -> NIW:
        """The same, their average drawn towards its diagonal by what was lost."""
        return evidence_prior(moments, seen=seen)

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
    """The same, to 10⁻³ standard deviations with noise or gaps: as good for members of a pool, and fast."""

    tolerance = 1e-3

    def update_through_noise(
        self, prior: NIW, points: Any, noise: Covariances, membership: Membership
    ) -> NIW:
        """Each class by itself."""
        return deconvolve_each(prior, points, noise, membership, tolerance=1e-3)


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

    def evidence_prior_of_gaps(self, moments: Moments, seen: Seen) -> NIW:
        """The same by what was seen."""
        return evidence_tied_prior(moments, seen=seen)

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

    def evidence_prior_of_gaps(self, moments: Moments, seen: Seen) -> NIW:
        """The same by what was seen."""
        return evidence_independent_prior(moments, seen=seen)

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


#: Class models by the name that ``uncover fit --model`` takes.
CLASS_MODELS: dict[str, ClassModel] = {
    model.name: model
    for model in (
        Quadratic(),
        Linear(),
        Naive(),
    )
}


def of_estimator(name: str) -> ClassModel | None:
    """The class model of an estimator by its name; None where there is none.

    >>> of_estimator("BayesianLDA").name
    'lda'
    """
    return next((model for model in CLASS_MODELS.values() if model.estimator == name), None)
