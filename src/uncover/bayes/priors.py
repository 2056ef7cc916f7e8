"""The default prior of the class models, made from the data's own spread."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW

Array = NDArray[np.float64]

# A standard deviation this small, relative to the values, is rounding and not spread.
_ROUNDING = 16 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Spread:
    """Variances that a weak prior is made of, and which of them had to be borrowed.

    Where a class has no variance of its own (one sample, a constant feature) the pooled within-class
    variance ΣS_k/(N−K) stands in, else the variance of all samples together.
    """

    variance: Array  # (..., class, feature)
    pooled: Array  # (..., feature), ΣS_k/(N−K), or the total variance where that is zero
    borrowed: NDArray[np.bool_]  # (..., class, feature)
    constant: NDArray[np.bool_]  # (..., feature)
    centre: Array  # (..., feature), mean of all samples

    @classmethod
    def of(cls, moments: Moments, variance: Array | None = None) -> "Spread":
        """Spread of classes along the last batch axis; given variances stand in for those of the moments.

        >>> moments = Moments.by_group([[0.0], [2.0], [9.0]], [0, 0, 1], 2)
        >>> spread = Spread.of(moments)
        >>> spread.variance.ravel(), spread.borrowed.ravel()
        (array([2., 2.]), array([False,  True]))
        """
        total = moments.sum(-1)
        size2 = total.mean**2 + np.nan_to_num(total.variance)
        floor = _ROUNDING**2 * size2  # (..., feature)

        filled = (moments.count > 0).sum(-1)
        dof = (moments.count.sum(-1) - filled)[..., None]
        own = np.nan_to_num(moments.variance) if variance is None else variance
        scatters = (np.maximum(moments.count - 1, 0.0)[..., None] * own).sum(-2)
        pooled = np.where(dof > 0, scatters / np.where(dof > 0, dof, 1.0), 0.0)
        whole = np.nan_to_num(total.variance)
        pooled = np.where(pooled > floor, pooled, whole)

        borrowed = own <= floor[..., None, :]
        variance = np.where(borrowed, pooled[..., None, :], own)
        return cls(variance, pooled, borrowed, whole <= floor, total.mean)


def weak_prior(moments: Moments, variance: Array | None = None) -> NIW:
    """Return a prior for each class that leaves its mean free and barely bounds its covariance.

    μ₀ = x̄_k, λ = 0, ν = p+2, Ψ = diag(C_k)/K^(2/p): the choice of Fraley and Raftery (2007), Journal of
    Classification 24, 155–181, with their small λ taken to 0. K counts all classes, the empty ones too.
    Classes are along the last batch axis, and no feature may be constant (see :class:`Spread`). ``variance``
    (class, feature) stands in for that of the moments, which may hold noise.

    >>> prior = weak_prior(Moments.by_group([[0.0], [2.0], [5.0], [9.0]], [0, 0, 1, 1], 2))
    >>> prior.scale.ravel(), prior.dof  # variances 2 and 8, over K² = 4
    (array([0.5, 2. ]), array([3., 3.]))
    """
    spread = Spread.of(moments, variance)
    return _weak(moments, spread, spread.variance)


def weak_tied_prior(moments: Moments, variance: Array | None = None) -> NIW:
    """As :func:`weak_prior`, for classes that share one covariance: Ψ = diag(pooled C)/K^(2/p).

    >>> prior = weak_tied_prior(Moments.by_group([[0.0], [2.0], [5.0], [9.0]], [0, 0, 1, 1], 2))
    >>> prior.scale.ravel(), prior.mean.ravel()  # (2 + 8)/2 over K² = 4
    (array([1.25]), array([1., 7.]))
    """
    spread = Spread.of(moments, variance)
    return _weak(moments, spread, spread.pooled[..., None, :])


def _weak(moments: Moments, spread: Spread, variance: Array) -> NIW:
    p, n_classes = moments.n_features, moments.count.shape[-1]
    mean = np.where((moments.count > 0)[..., None], moments.mean, spread.centre[..., None, :])
    scale = variance[..., None] * np.eye(p) / n_classes ** (2.0 / p)
    return NIW(mean, np.zeros(mean.shape[:-1]), scale, np.full(variance.shape[:-1], p + 2.0))
