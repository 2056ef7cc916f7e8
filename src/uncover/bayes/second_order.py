"""The model part of the uncertainty budget in closed form, for maps where drawing models is too slow."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import polygamma

from uncover.bayes.deconvolved import DeconvolvedDiagonal
from uncover.bayes.niw import NIW, DiagonalNIW
from uncover.bayes.student_t import IndependentT, StudentT

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LogDensityVariance:
    """Posterior variance of a class's log density at x, a polynomial of the squared distance q.

    For Σ⁻¹ ~ Wishart and μ | Σ ~ N(μ_N, Σ/λ), with s = (x−μ_N)ᵀΨ⁻¹(x−μ_N):

        Var[log N(x|μ,Σ)] = ¼ [Σ_i ψ′((ν+1−i)/2) + 2νs² + 4νs/λ + 2p/λ² − 4s]

    from the moments of the Wishart distribution: Var[log|A|] = Σψ′, zᵀAz ~ |z|²χ²_ν, and
    Cov[log|A|, zᵀAz] = 2 ∂E[zᵀAz]/∂ν = 2|z|². To it comes ψ′(N_k+α_k), the variance of log φ_k.
    """

    constant: Array  # (class,)
    linear: Array  # (class,)
    quadratic: Array  # (class,)
    independent: bool = False  # whether the polynomial is in the squared distance of each feature

    @classmethod
    def of(cls, posterior: NIW, concentration: Array) -> "LogDensityVariance":
        """Polynomial for each class along the last batch axis; s is expressed by the predictive's q.

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
        p = posterior.n_features
        batch = posterior.batch_shape
        dof = np.broadcast_to(posterior.dof, batch)
        strength = np.broadcast_to(posterior.strength, batch)
        # q is the distance under the predictive's scale matrix (1+1/λ)/(ν−p+1) · Ψ.
        to_s = (1.0 + 1.0 / strength) / (dof - p + 1)
        independent = isinstance(posterior, DiagonalNIW | DeconvolvedDiagonal)
        if independent:
            dof = dof - p + 1  # each feature has a chi-squared of its own
            log_det = p * polygamma(1, 0.5 * dof)
        else:
            log_det = polygamma(1, 0.5 * (dof[..., None] - np.arange(p))).sum(-1)
        constant = 0.25 * (log_det + 2.0 * p / strength**2) + polygamma(1, concentration)
        linear = (dof / strength - 1.0) * to_s
        return cls(constant, linear, 0.5 * dof * to_s**2, independent)

    def at(self, squared_distance: Array) -> Array:
        """Variance at points of squared distance q under the predictive densities: (..., class).

        Takes (..., class), or where features are independent (..., class, feature): their variances add.
        """
        q = squared_distance
        if self.independent:
            each = q * (self.linear[..., None] + q * self.quadratic[..., None])
            return self.constant + each.sum(-1)
        return self.constant + q * (self.linear + q * self.quadratic)


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
