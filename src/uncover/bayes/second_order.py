"""The model part of the uncertainty budget in closed form, for maps where drawing models is too slow."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from uncover.bayes.components import Components
from uncover.bayes.deconvolved import UnevenDiagonal
from uncover.bayes.niw import NIW, DiagonalNIW
from uncover.bayes.special import log_gamma_ratio
from uncover.bayes.student_t import IndependentT, StudentT

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LogDensityVariance:
    """Uncertainty of a class's log density at x, from the squared distance q.

    If x is of class k, it changes what is known of the class's parameters θ by the information

        c = KL[p(θ | D, x) ‖ p(θ | D)] = E[log N(x|θ) | D, x] − log T(x)

    which is half the variance of log N(x|θ) where that is small, and grows less where it is not. For a NIW
    with b = λ/(λ+1), the predictive's ν' = ν−p+1 and v = log(1 + q/ν'):

        2c = Σ_i ψ((ν+2−i)/2) − 2 log Γ((ν+1)/2)/Γ(ν'/2) − p log b − p/(λ+1) + νv − (ν+1) b (1 − e^(−v))

    To it come 2ψ(N_k+α_k+1) − 2 log(N_k+α_k), of the class's proportion.

    Classes of one common covariance know of each other, and pairs of them count: :func:`pair_information`.
    Then ``constant`` is p/(2λ(λ+1)) + 1/(N_k+α_k), ``growth`` is ν+1 and ``pull`` is b.
    """

    constant: Array  # (class,)
    growth: Array  # (class,), of v
    pull: Array  # (class,), of e^(−v) − 1
    dof: Array  # (class,), ν'
    independent: bool = False  # whether each feature has a v of its own
    between: Array | None = None  # (class, class), (m_k−m_l)ᵀΨ⁻¹(m_k−m_l) where classes have one covariance

    @classmethod
    def of(cls, posterior: NIW, concentration: Array) -> "LogDensityVariance":
        """Numbers for each class along the last batch axis; ``concentration`` (class,) has N_k + α_k.

        >>> posterior = NIW(np.zeros((1, 2)), np.array([50.0]), np.eye(2)[None], np.array([60.0]))
        >>> v = LogDensityVariance.of(posterior, np.array([50.0]))
        >>> v.at(np.array([[0.0], [4.0]])).shape
        (2, 1)
        """
        p, batch = posterior.n_features, posterior.batch_shape
        dof = np.broadcast_to(posterior.dof, batch)
        strength = np.broadcast_to(posterior.strength, batch)
        share = strength / (strength + 1.0)
        independent = isinstance(posterior, DiagonalNIW | UnevenDiagonal)
        if not independent and posterior.scale.shape[-3:-2] == (1,) and batch[-1:] != (1,):
            return cls._of_common(posterior, strength, dof, concentration)
        times, each = (p, 1) if independent else (1, p)  # p features of one dimension, or one of p
        dof = dof - p + each
        own = dof - each + 1.0
        digammas = digamma(0.5 * (dof[..., None] + 1.0 - np.arange(each))).sum(-1)
        density = digammas - 2.0 * log_gamma_ratio(0.5 * own, 0.5 * each)
        density = times * (density - each * np.log(share) - each / (strength + 1.0))
        proportion = 2.0 * (digamma(concentration + 1.0) - np.log(concentration))
        return cls(density + proportion, dof, (dof + 1.0) * share, own, independent)

    @classmethod
    def _of_common(
        cls, posterior: NIW, strength: Array, dof: Array, concentration: Array
    ) -> "LogDensityVariance":
        p = posterior.n_features
        z = np.linalg.solve(posterior.root, posterior.mean[..., None])[..., 0]
        between = ((z[..., :, None, :] - z[..., None, :, :]) ** 2).sum(-1)
        constant = 0.5 * p / (strength * (strength + 1.0)) + 1.0 / concentration
        return cls(constant, dof + 1.0, strength / (strength + 1.0), dof - p + 1.0, between=between)

    def tempered(self, temperature: float) -> "LogDensityVariance":
        """The variance of log densities that are divided by a temperature."""
        by, pull = temperature**-2, self.pull if self.between is not None else self.pull / temperature**2
        return replace(self, constant=by * self.constant, growth=by * self.growth, pull=pull)

    def information(self, probability: Array, squared_distance: Array) -> Array:
        """Information about the class from knowing the parameters, to second order: (...)."""
        if self.between is None:
            return second_order(probability, self.at(squared_distance))
        numbers = self.constant, self.growth, self.pull, self.dof, self.between
        return pair_information(probability, squared_distance, *numbers)

    def of_classes(
        self, components: Components, probability: Array, squared_distance: Array, log_joint: Array
    ) -> Array:
        """The same where the densities are those of the components of classes, at a temperature.

        ``probability`` is that of the classes, ``log_joint`` that of the components.
        """
        if components.trivial:
            return self.tempered(components.temperature).information(probability, squared_distance)
        return second_order(probability, components.variance(log_joint, self.at(squared_distance)))

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

    >>> p = np.array([0.5, 0.5])
    >>> float(model_information(p, np.array([0.02, 0.02]), np.log(2.0)).round(5))
    0.00498
    """
    return below_entropy(second_order(probability, variance), total)


def second_order(probability: Array, variance: Array) -> Array:
    """½ Σ_k v_k p_k(1−p_k), for classes that know nothing of each other: (...)."""
    return np.asarray(0.5 * (variance * probability * (1.0 - probability)).sum(-1))


def pair_information(
    probability: Array, squared_distance: Array, constant: Array, growth: Array, share: Array, dof: Array,
    between: Array,
) -> Array:  # fmt: skip
    """Second-order mutual information of class and model, for classes that have one covariance.

    I = ½ Σ_{k<l} p_k p_l (KL_kl + KL_lk) with KL_kl = KL[p(θ | D, x of k) ‖ p(θ | D, x of l)]. With
    s_kl = (x−m_k)ᵀΨ⁻¹(x−m_l), u_k = b_k s_kk = q_k/ν', c_k = p/(2λ_k(λ_k+1)) + 1/(N_k+α_k)

        KL_kl + KL_lk = c_k + c_l + (ν+1)/2 · [f_kl + f_lk],   f_kl = (s_ll + b_k G − b_k u_k)/(1 + u_k)

    where G = s_kk s_ll − s_kl², of which Δ = s_kk + s_ll − 2 s_kl, the distance of the means, is ``between``.
    """
    u = squared_distance / dof
    s = u / share
    k, other = s[..., :, None], s[..., None, :]
    gram = np.maximum(0.5 * between * (k + other) - 0.25 * (between**2 + (k - other) ** 2), 0.0)
    b, depth = share[..., :, None], u[..., :, None]
    moved = (other + b * gram - b * depth) / (1.0 + depth)
    both = 0.5 * growth[..., :, None] * (moved + np.swapaxes(moved, -1, -2))
    both = both + constant[..., :, None] + constant[..., None, :]
    pairs = probability[..., :, None] * probability[..., None, :] * (1.0 - np.eye(probability.shape[-1]))
    return np.asarray(0.25 * (pairs * both).sum((-2, -1)))


def below_entropy(information: Array, total: Array) -> Array:
    """H(1 − e^(−I/H)): small information as it is, and never more than the entropy.

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
