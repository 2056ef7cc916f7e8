"""A class model: what it says of the classes' parameters before and after samples are seen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.covariances import Covariances
from uncover.bayes.evidence import ScatterEvidence, Seen
from uncover.bayes.gaps import TOLERANCE
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW
from uncover.models.membership import Membership

Array = NDArray[np.float64]


class NoEvidenceError(ValueError, AttributeError):
    """Raised where a model has no evidence: its prior is no distribution, or no closed form is known."""


class ClassModel(ABC):
    """Base of class models; stateless.

    A class model needs two methods: ``weak_prior``, the default prior, and ``update``, the posterior. Prior
    and posterior are :class:`~uncover.NIW` or a subclass, with the classes along the last batch axis. The
    other methods have defaults; a model that can learn through known noise has ``update_through_noise``.

    Attributes
    ----------
    name : str
        As `uncover fit --model` takes it.
    estimator : str
        Name of the scikit-learn estimator; model files have it too.
    distributions : tuple of subclasses of NIW
        What priors and posteriors may be, beside those of known noise and ``prior="jeffreys"``.
    tolerance : float
        Where filling in missing features ends, in standard deviations of the features.
    """

    name: str
    estimator: str
    distributions: tuple[type[NIW], ...] = (NIW,)
    tolerance = TOLERANCE

    @abstractmethod
    def weak_prior(self, moments: Moments, variance: Array | None = None) -> NIW:
        """Return the default prior for classes with these moments; no feature is constant.

        ``variance`` (class, feature) stands in for that of the moments where noise is known.
        """

    @abstractmethod
    def update(self, prior: NIW, moments: Moments) -> NIW:
        """Return the posterior: the prior updated with the moments of the classes."""

    def given_prior(self, prior: NIW) -> NIW:
        """Return the user's prior, one NIW with an axis of classes, in the form of this class model."""
        return prior

    def evidence_prior(self, moments: Moments, rows_per_sample: float) -> NIW:
        """Return the prior of the highest evidence; ``rows_per_sample`` rows are one sample."""
        raise ValueError(f'{self.estimator} has no prior="evidence"; use "weak" or a NIW.')

    def evidence_prior_of_gaps(self, moments: Moments, seen: Seen) -> NIW:
        """Return the same of samples that lack features, by moments expected of whole ones."""
        return self.evidence_prior(seen.moments, 1.0)

    def echo(self, prior: NIW, moments: Moments, rows_per_sample: float) -> float:
        """Return how much of the scatter of each sample is in the prior of every class."""
        return 0.0

    def update_through_noise(
        self, prior: NIW, points: Any, noise: Covariances, membership: Membership
    ) -> NIW:
        """Return the posterior of true values, from points whose noise is known."""
        raise ValueError(f"{self.estimator} cannot learn through known noise; fit it without X_cov.")

    def check_noise(self, noise: Covariances) -> None:  # noqa: B027 (most take all)
        """Refuse known noise that the class model cannot take."""

    def log_evidence(self, prior: NIW, moments: Moments) -> Array:
        """Return the log evidence under a proper prior; one number, or one for each class."""
        return prior.log_evidence(moments)

    def scatter_evidence(self, prior: NIW, moments: Moments) -> ScatterEvidence:
        """Return the evidence of the deviations from the class means, under ``prior="evidence"``."""
        raise NoEvidenceError(f"{self.estimator} has no closed-form evidence.")

    def lacking_for_jeffreys(self, classes: NDArray[Any], count: Array, p: int) -> str | None:
        """Say which samples are too few for an improper prior, by their counts (world, class); or None."""
        return too_small_for_jeffreys(classes, count, p)

    def fewest_samples(self, count: Array) -> float:
        """Samples behind the covariance of which least is known, by the counts of the classes."""
        return float(count[count > 0].min(initial=np.inf))


def too_small_for_jeffreys(classes: NDArray[Any], count: Array, least: int) -> str | None:
    """Say which class has ``least`` samples or fewer, by the counts (world, class); None if none has."""
    short = (count <= least).any(0)
    if not short.any():
        return None
    k = int(np.argmax(short))
    return (
        f'class {str(classes[k])!r} has {count[0, k]:g} samples; prior="jeffreys" needs more than {least:g} '
        "of each class."
    )
