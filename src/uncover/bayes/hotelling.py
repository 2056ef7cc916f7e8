"""Posteriors that typicality is measured by: their distances have a known distribution, whatever the prior.

For n samples of a Gaussian class, more than it has features, T² = n/(n+1)·dᵀC⁻¹d with d = x − mean of a new
member x has the distribution p(n−1)/(n−p)·F(p, n−p) (Hotelling 1931). It is q of the predictive of the prior
that prefers nothing, a Student t: all that is computed for predictives can be computed for it.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtri

from uncover.bayes.jeffreys import JeffreysPrior
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW, DiagonalNIW
from uncover.bayes.priors import Spread
from uncover.bayes.student_t import IndependentT, StudentT

Array = NDArray[np.float64]

# Eigenvalue of a correlation matrix below which features count as linearly dependent.
_DEPENDENT = 1e-10
# p-value at which the tail of a class of few samples is put on the safe side.
_TAIL = 1e-3
# Degrees of freedom of a scale that is that of other classes: classes of one kind differ in it by a factor.
_BORROWED = 2.0
# Two densities whose p-values differ by no more than this share, where these are small, count as one.
_ALIKE = 0.05


def reference_of_classes(moments: Moments) -> NIW:
    """Posterior of each class (batch of one axis), by its own scatter alone where that is possible.

    Where a class has no more samples than features, or its features depend on each other, the metric M is
    that of the other classes (else the variances of all), its scale that of the class, and the tail the
    heaviest one that a Gaussian class can have in any metric: dᵀM⁻¹d over its mean in the class has no
    heavier a tail than F(1, n−1) (Székely and Bakirov 2003): typicality is rather too high than too low. A
    class without a scale of its own has that of all classes, with a tail of F(1, 2).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> moments = Moments.by_group(rng.normal(size=(23, 3)), np.repeat([0, 1], [20, 3]), 2)
    >>> reference_of_classes(moments).predictive().dof  # n − p, and n − 1
    array([17.,  2.])
    """
    p, n = moments.n_features, moments.count
    scale, dof = np.array(moments.scatter), n - 1.0
    spread, free = Spread.of(moments).pooled, float(np.maximum(n - 1, 0).sum())
    for k in range(len(n)):
        if n[k] > p and _regular(scale[k]):
            continue
        others = moments.scatter.sum(0) - moments.scatter[k]
        metric = others if free - max(n[k] - 1, 0) >= p and _regular(others) else np.diag(spread)
        own = float(np.trace(np.linalg.solve(metric, moments.scatter[k])))
        few = n[k] < 2 or own <= 0  # nothing is known of its own scale: that of all classes together
        size = _borrowed_size(metric, moments, free) if few else own
        freedom = _BORROWED if few else n[k] - 1.0
        scale[k] = metric * (max(size, 1e-12) * _safe(p, freedom))
        dof[k] = freedom + p - 1.0
    return NIW(moments.mean + moments.residual, np.maximum(n, 1.0), scale, dof)


def reference_of_tied(moments: Moments) -> NIW:
    """The same for classes that share one covariance: F(p, N−K−p+1)."""
    p = moments.n_features
    free = float((moments.count - (moments.count > 0)).sum())
    if free >= p and _regular(moments.scatter.sum(0)):
        return JeffreysPrior.of(moments).update_tied(moments)
    metric, free = np.diag(Spread.of(moments).pooled), max(free, 1.0)
    size = max(float(np.trace(np.linalg.solve(metric, moments.scatter.sum(0)))), 1e-12)
    scale = (metric * (size * _safe(p, free)))[None]
    return NIW(
        moments.mean + moments.residual, np.maximum(moments.count, 1.0), scale, np.array([free + p - 1.0])
    )


def reference_of_features(moments: Moments) -> DiagonalNIW:
    """As above for independent features: each has F(1, n−1).

    With one sample F(1, 1) of the variance of all: that a class is wider than others shows in every feature.
    """
    n, p = moments.count, moments.n_features
    free = np.where(n >= 2, n - 1, 1.0)
    spread = Spread.of(moments)
    variance = np.where((n >= 2)[:, None], spread.variance, spread.pooled)
    scale = (variance * free[:, None])[..., None] * np.eye(p)
    return DiagonalNIW(moments.mean + moments.residual, np.maximum(n, 1.0), scale, free + p - 1.0)


def alike(one: StudentT | IndependentT, other: StudentT | IndependentT) -> bool:
    """Whether p-values of two batches of densities are the same for all practical purposes.

    They are compared where one of them says 0.05 and 0.001, in the directions in which the two differ most.
    """
    if isinstance(one, IndependentT) or isinstance(other, IndependentT):
        return False
    K, p = one.batch_shape[0], one.n_features
    if not np.allclose(one.location, other.location, rtol=0, atol=1e-9 * np.abs(one.root).max()):
        return False
    both = np.broadcast_to(other.whitening @ one.root, (K, p, p))
    stretch = np.linalg.eigvalsh(both @ both.swapaxes(-1, -2))[:, [0, -1]]
    dof = [np.broadcast_to(t.dof, (K,))[:, None] for t in (one, other)]
    for level in (0.05, 0.001):
        square = p * fdtri(p, dof[0], 1.0 - level)
        found = other.tail(square * stretch, dof[1])
        if np.any(np.abs(found - level) > _ALIKE * level):
            return False
    return True


def _borrowed_size(metric: Array, moments: Moments, free: float) -> float:
    """tr M⁻¹S as it would be of the scale that all classes have together, with few degrees of freedom."""
    together = float(np.trace(np.linalg.solve(metric, moments.scatter.sum(0))))
    return together * _BORROWED / max(free, 1.0)


def _safe(p: int, freedom: float) -> float:
    """Factor that puts p·F(p, d) above F(1, d) at every p-value from 0.001 on."""
    return float(fdtri(1, freedom, 1 - _TAIL) / (p * fdtri(p, freedom, 1 - _TAIL)))


def _regular(scatter: Array) -> bool:
    """Whether no feature is constant or follows from the others."""
    deviation = np.sqrt(np.diagonal(scatter))
    if not np.all(deviation > 0):
        return False
    return bool(np.linalg.eigvalsh(scatter / np.outer(deviation, deviation))[0] > _DEPENDENT)
