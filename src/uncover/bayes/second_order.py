"""The model part of the uncertainty budget in closed form, for maps where drawing models is too slow."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from uncover.bayes.deconvolved import DeconvolvedDiagonal
from uncover.bayes.niw import NIW, DiagonalNIW
from uncover.bayes.special import log_gamma_ratio
from uncover.bayes.student_t import IndependentT, StudentT

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LogDensityVariance:
    """How uncertain a class's log density at x is, from the squared distance q.

    If x is of class k, it changes what is known of the class's parameters θ by the information

        c = KL[p(θ | D, x) ‖ p(θ | D)] = E[log N(x|θ) | D, x] − log T(x)

    which is half the variance of log N(x|θ) where that is small, and grows less where it is not. For a NIW
    with b = λ/(λ+1), the predictive's ν' = ν−p+1 and v = log(1 + q/ν'):

        2c = Σ_i ψ((ν+2−i)/2) − 2 log Γ((ν+1)/2)/Γ(ν'/2) − p log b − p/(λ+1) + νv − (ν+1) b (1 − e^(−v))

    To it come 2ψ(N_k+α_k+1) − 2 log(N_k+α_k), of the class's proportion.
    """

    constant: Array  # (class,)
    growth: Array  # (class,), of v
    pull: Array  # (class,), of e^(−v) − 1
    dof: Array  # (class,), ν'
    independent: bool = False  # whether each feature has a v of its own

    @classmethod
    def of(cls, posterior: NIW, concentration: Array) -> "LogDensityVariance":
        """Numbers for each class along the last batch axis.

        Parameters
        ----------
        posterior : NIW
        concentration : array of shape (class,)
            Dirichlet parameters N_k + α_k of the class proportions.

        Examples
        --------
        >>> posterior = NIW(np.zeros((1, 2)), np.array([50.0]), np.eye(2)[None], np.array([60.0]))
        >>> v = LogDensityVariance.of(posterior, np.array([50.0]))
        >>> v.at(np.array([[0.0], [4.0]])).shape
        (2, 1)
        """
        p, batch = posterior.n_features, posterior.batch_shape
        dof = np.broadcast_to(posterior.dof, batch)
        strength = np.broadcast_to(posterior.strength, batch)
        share = strength / (strength + 1.0)
        independent = isinstance(posterior, DiagonalNIW | DeconvolvedDiagonal)
        times, each = (p, 1) if independent else (1, p)  # p features of one dimension, or one of p
        dof = dof - p + each
        own = dof - each + 1.0
        digammas = digamma(0.5 * (dof[..., None] + 1.0 - np.arange(each))).sum(-1)
        density = digammas - 2.0 * log_gamma_ratio(0.5 * own, 0.5 * each)
        density = times * (density - each * np.log(share) - each / (strength + 1.0))
        proportion = 2.0 * (digamma(concentration + 1.0) - np.log(concentration))
        return cls(density + proportion, dof, (dof + 1.0) * share, own, independent)

    def at(self, squared_distance: Array) -> Array:
        """Variance at points of squared distance q under the predictive densities: (..., class).

        Takes (..., class), or where features are independent (..., class, feature): their variances add.
        """
        q = squared_distance
        numbers = (self.growth, self.pull, self.dof)
        growth, pull, dof = (part[..., None] for part in numbers) if self.independent else numbers
        each = growth * np.log1p(q / dof) - pull * (q / (dof + q))
        return self.constant + (each.sum(-1) if self.independent else each)


def model_information(probability: Array, variance: Array, total: Array) -> Array:
    """Second-order mutual information of class and model, ½ Σ_k v_k p_k(1−p_k), kept below the entropy.

    The series is for small variances; H(1 − e^(−I/H)) is its beginning, and never exceeds the entropy H.

    Examples
    --------
    >>> p = np.array([0.5, 0.5])
    >>> float(model_information(p, np.array([0.02, 0.02]), np.log(2.0)).round(5))
    0.00498
    """
    return below_entropy(0.5 * (variance * probability * (1.0 - probability)).sum(-1), total)


def below_entropy(information: Array, total: Array) -> Array:
    """H(1 − e^(−I/H)): small information as it is, and never more than the entropy.

    Examples
    --------
    >>> below_entropy(np.array([0.001, 9.0]), np.array([0.5, 0.5])).round(4)
    array([0.001, 0.5  ])
    """
    safe = np.where(total > 0, total, 1.0)
    return np.asarray(np.where(total > 0, -safe * np.expm1(-information / safe), 0.0))


def squared_distances(predictive: StudentT | IndependentT, points: Array) -> Array:
    """Distances for :meth:`LogDensityVariance.at`: (point, class), or (point, class, feature)."""
    if isinstance(predictive, StudentT):
        return predictive.squared_distance(points)
    return predictive.squared_deviations(points)
