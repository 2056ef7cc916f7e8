"""The class models, for estimators, model files, ``uncover fit --model`` and contract tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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


class Evidential(ClassModel):
    """Base of the class models here, whose ``evidence_prior`` takes what was seen of samples with gaps."""

    def evidence_prior_of_gaps(self, moments: Moments, seen: Seen) -> NIW:
        """The same prior, its weight by what was seen."""
        make: Callable[..., NIW] = self.evidence_prior
        return make(moments, seen=seen)


class Quadratic(Evidential):
    """Quadratic discriminant analysis: Σ_k of each class by itself.

    The weak prior takes its scale from the data (Fraley and Raftery 2007), that of the highest evidence draws
    covariances towards their average, which has every sample in it.
    """

    name, estimator = "qda", "BayesianQDA"
    weak_prior = staticmethod(weak_prior)
    evidence_prior = staticmethod(evidence_prior)
    echo = staticmethod(echo_of_samples)
    update_through_noise = staticmethod(deconvolve_each)

    def update(self, prior: NIW, moments: Moments) -> NIW:
        """Each class by itself."""
        return prior.update(moments)

    def scatter_evidence(self, prior: NIW, moments: Moments) -> ScatterEvidence:
        """Of the scatter of each class."""
        return ScatterEvidence.of(moments, prior.expected_covariance)


class RoughQuadratic(Quadratic):
    """The same, to 10⁻³ standard deviations with noise or gaps: as good for members of a pool, and fast."""

    tolerance = 1e-3
    update_through_noise = staticmethod(partial(deconvolve_each, tolerance=tolerance))


class Linear(Evidential):
    """Linear discriminant analysis: Σ_k = Σ, learned from the scatter of all classes together.

    The weak prior takes its scale from the variance within classes, that of the highest evidence draws the
    common covariance towards its diagonal.
    """

    name, estimator = "lda", "BayesianLDA"
    weak_prior = staticmethod(weak_tied_prior)
    evidence_prior = staticmethod(evidence_tied_prior)
    update_through_noise = staticmethod(deconvolve_tied)
    log_evidence = staticmethod(log_evidence_tied)

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


class RoughLinear(Linear):
    """The same, as `RoughQuadratic`."""

    tolerance = RoughQuadratic.tolerance


class Naive(Evidential):
    """Naive Bayes: Σ_k diagonal, each feature of each class by itself.

    The weak prior is the diagonal of that of `Quadratic`, that of the highest evidence draws variances
    towards their average.
    """

    name, estimator = "nb", "BayesianNB"
    distributions = (DiagonalNIW,)
    evidence_prior = staticmethod(evidence_independent_prior)
    update_through_noise = staticmethod(deconvolve_features)

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
