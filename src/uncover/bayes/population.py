"""The population that classes come from: the density of a class that was never trained, and its share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, expit, logsumexp, polygamma

from uncover.bayes.components import Components
from uncover.bayes.linalg import cholesky, invert_triangle
from uncover.bayes.niw import NIW
from uncover.bayes.special import log_gamma_ratio
from uncover.bayes.student_t import StudentT

Array = NDArray[np.float64]

# Values of τ², the variance between classes over that within, and of b, the weight of the prior B ~ τ²W.
_RATIOS = 2.0 ** np.arange(-4, 21)
_WEIGHTS = 2.0 ** np.arange(8)
# A share is estimated to this much of 0 and 1.
_SMALLEST = 1e-9
# An estimate above this says that the trained classes are not those of the samples.
_MOST = 0.5
#: Members of a class that is a relative of a trained one lie this many times as far from its mean.
RELATIVES = 2.0


def further_class(posterior: NIW, components: Components) -> StudentT:
    """Predictive density of a further class of the population that the trained ones are draws of.

    The class means are draws of N(m, B) with m flat and B ~ IW(bτ²W, b+p−1), W being the mean of the expected
    covariances within classes. A mean of n samples adds W/n to B: the harmonic mean of n counts for all. With
    S the scatter of the K means, given τ² and b a further mean has a Student t of d = b+K−1 degrees of
    freedom and scale matrix (1+1/K)(b(τ²+1/n)W + S)/d, and a member of that class W more. τ² and b are
    averaged over grids by their evidence, and the mixture is replaced by the one Student t of the same mean
    and variance of the log scale: it has heavy tails where classes are few.

    The posterior is that of the components, batch (component,); a class counts once, however many it has.
    """
    means, within, count = _classes(posterior, components)
    K = len(means)
    error = float(np.mean(1.0 / count))  # of a mean, in units of W
    root = cholesky(within, "the mean covariance within classes")
    whitening = invert_triangle(root)
    away = (means - means.mean(0)) @ whitening.T
    scatter, axes = np.linalg.eigh(away.T @ away)
    scatter = np.maximum(scatter, 0.0)
    b, between = (each.ravel() for each in np.meshgrid(_WEIGHTS, _RATIOS + error))
    weight = _posterior_of(b, between, scatter, K - 1)
    d = b + K - 1.0
    mean_scale = (1.0 + 1.0 / K) * (b[:, None] * between[:, None] + scatter) / d[:, None]
    log_scale = np.log(mean_scale * np.exp(-_log_chi2(d))[:, None] + 1.0 - error)  # (grid, axis)
    middle = weight @ log_scale
    spread = weight @ polygamma(1, 0.5 * d) + weight @ (log_scale - middle).mean(1) ** 2
    dof = _dof_of_spread(float(spread))
    half = root @ axes * np.exp(0.5 * (middle + _log_chi2(dof)))
    return StudentT.from_scale(means.mean(0), half @ half.T, dof)


def _classes(posterior: NIW, components: Components) -> tuple[Array, Array, Array]:
    """Means of the classes, the mean of their expected covariances, and their counts."""
    p, C = posterior.n_features, len(components.owner)
    divisor = np.maximum(posterior.dof - p - 1.0, 1.0)  # E[Σ] where it exists
    covariance = np.broadcast_to(posterior.scale / divisor[..., None, None], (C, p, p))
    mean = np.broadcast_to(posterior.mean, (C, p))
    count = np.broadcast_to(posterior.strength, (C,))
    member = components.owner == np.arange(components.n_classes)[:, None]
    of_class = member.astype(np.float64) @ count
    share = member * count / of_class[:, None]  # (class, component)
    means = share @ mean
    away = mean - means[components.owner]
    inner = np.tensordot(share, covariance + away[:, :, None] * away[:, None, :], axes=1)
    return means, inner.mean(0), np.maximum(of_class, 1.0)


def _posterior_of(b: Array, between: Array, scatter: Array, n: int) -> Array:
    """Posterior weights of the grid by the evidence of the scatter S, of n degrees of freedom, in units of W.

    log p(S | b, t) = log Γ_p((ν+n)/2) − log Γ_p(ν/2) + ½νp log(bt) − ½(ν+n) Σ_j log(bt+s_j),  ν = b+p−1
    """
    p = len(scatter)
    nu, scale = b + p - 1.0, b * between
    gammas = log_gamma_ratio(0.5 * (nu[:, None] - np.arange(p)), np.asarray(0.5 * n)).sum(-1)
    shrunk = 0.5 * (nu + n) * np.log(scale[:, None] + scatter).sum(-1)
    log_evidence = gammas + 0.5 * nu * p * np.log(scale) - shrunk
    return np.asarray(np.exp(log_evidence - logsumexp(log_evidence)))


def _log_chi2(dof: Array | float) -> Array:
    """E[log χ²(ν)/ν]."""
    return np.asarray(digamma(0.5 * np.asarray(dof)) - np.log(0.5 * np.asarray(dof)))


def _dof_of_spread(variance: float) -> float:
    """ν with Var[log χ²(ν)] = ψ'(ν/2) equal to the variance."""
    from scipy.optimize import brentq

    found = brentq(lambda u: float(polygamma(1, np.exp(u))) - variance, -10.0, 20.0, xtol=1e-13)
    return 2.0 * float(np.exp(found))


@dataclass(frozen=True)
class UnknownShare:
    """Share of samples that are of none of the classes, with its standard uncertainty."""

    share: float
    standard_uncertainty: float

    def checked(self) -> float:
        """Return the share, or refuse one by which most samples are of no class.

        >>> UnknownShare(0.93, 0.01).checked()
        Traceback (most recent call last):
        ...
        ValueError: 93 % of the samples look like none of the classes: ...
        """
        if self.share <= _MOST:
            return self.share
        raise ValueError(
            f"{self.share:.0%} of the samples look like none of the classes: the training samples do not "
            "represent them (few polygons, another atmosphere, other units), and the share of untrained "
            "classes cannot be estimated. State it, such as 0.05, or train on more places.".replace("%", " %")
        )


@dataclass(frozen=True)
class UnknownOdds:
    """Ratios of the density p₀ of a further class to that of the trained ones, by samples and readings.

    There are two candidates for p₀: a draw of the population of the classes, and a relative of one of them,
    `RELATIVES` times as wide. For a sample their geometric mean counts. Samples depart from a Gaussian in all
    features together, so that the log ratio, a sum over p features, is in error by √p times more than a sum
    of independent terms would be: its power p^(−1/2) counts. The share of the unknown among many samples
    follows from the draw of the population alone, as it is.
    """

    log_ratio: Array  # (sample, reading, 2), log p₀(x) − log Σ_k P(k) p(x | k), by population and relatives
    n_features: NDArray[np.intp]  # (sample,), p, features that the sample has

    def probability(self, share: float) -> Array:
        """P(none | x), the mean over readings: (sample,)."""
        return np.asarray(self.by_reading(share).mean(1))

    def by_reading(self, share: float) -> Array:
        """P(none | x) by each reading: (sample, reading). A share of 0 or 1 leaves no doubt."""
        if share in (0.0, 1.0):
            return np.full(self.log_ratio.shape[:2], float(share))
        power = np.maximum(self.n_features, 1.0) ** -0.5
        return np.asarray(expit(np.log(share) - np.log1p(-share) + power[:, None] * self.log_ratio.mean(-1)))

    def share(self) -> UnknownShare:
        """Share s of the highest likelihood, Σ_i log(s ρ_i + 1 − s), with density ratios ρ.

        The mean is taken over readings. The standard uncertainty follows from the observed information, and
        is at most that of a share of which nothing is known, 12^(−1/2).
        """
        slope, ends = _slope_of_likelihood(self.log_ratio[..., 0]), (_SMALLEST, 1.0 - _SMALLEST)
        if slope(ends[0]).mean() <= 0:
            share = 0.0
        elif slope(ends[1]).mean() >= 0:
            share = 1.0
        else:
            from scipy.optimize import brentq

            share = float(brentq(lambda s: float(slope(s).mean()), *ends, xtol=1e-12))
        information = float((slope(min(max(share, ends[0]), ends[1])) ** 2).mean(axis=1).sum())
        return UnknownShare(share, float((12.0 + information) ** -0.5))


def _slope_of_likelihood(log_ratio: Array) -> Callable[[float], Array]:
    """(ρ − 1)/(sρ + 1 − s) as a function of s, in a form that no ρ takes out of range."""
    up, down = np.exp(np.minimum(log_ratio, 0.0)), np.exp(-np.maximum(log_ratio, 0.0))
    return lambda share: np.asarray((up - down) / (share * up + (1.0 - share) * down))
