"""Posteriors that typicality is measured by: their distances have a known distribution, whatever the prior.

For n samples of a Gaussian class, more than it has features, T² = n/(n+1)·dᵀC⁻¹d with d = x − mean of a new
member x has the distribution p(n−1)/(n−p)·F(p, n−p) (Hotelling 1931). It is q of the predictive of the prior
that prefers nothing, a Student t: all that is computed for predictives can be computed for it.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, fdtri

from uncover.bayes.covariances import Covariances
from uncover.bayes.jeffreys import JeffreysPrior
from uncover.bayes.linalg import slices
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW, DiagonalNIW
from uncover.bayes.priors import Spread
from uncover.bayes.small_matrices import cholesky_of_many, invert_triangles_of_many, squares_of_triangles
from uncover.bayes.student_t import IndependentT, StudentT, f_tail

Array = NDArray[np.float64]

# Eigenvalue of a correlation matrix below which features count as linearly dependent.
_DEPENDENT = 1e-10
# p-value at which the tail of a class of few samples is put on the safe side.
_TAIL = 1e-3
# Degrees of freedom of a scale that is that of other classes: classes of one kind differ in it by a factor.
_BORROWED = 2.0
# Two densities whose p-values differ by no more than this share, where these are small, count as one.
_ALIKE = 0.05
# Standard errors that the variance left by taking noise out counts as, at least.
_FEWEST_ERRORS = 2.0
# p-value at which an F distribution of other degrees of freedom is replaced by that of a Student t.
_MATCHED = 0.01
# Numbers of one block of points.
_BLOCK_NUMBERS = 1 << 15
_FAR = 1e140


def reference_of_classes(moments: Moments) -> NIW:
    """Posterior of each class (batch of one axis), by its own scatter alone where that is possible.

    Where a class has no more samples than features, or its features depend on each other, the metric M is
    that of the other classes (else the variances of all), its scale that of the class, and the tail the
    heaviest one that a Gaussian class can have in any metric: dᵀM⁻¹d over its mean in the class has no
    heavier a tail than F(1, n−1) (Székely and Bakirov 2003): typicality is rather too high than too low. A
    class without a scale of its own has that of all classes, with a tail of F(1, 2).
    """
    p, n = moments.n_features, moments.count
    scale, dof = np.array(moments.scatter), n - 1.0
    spread, free = Spread.of(moments).pooled, float(np.maximum(n - 1, 0).sum())
    for k in range(len(n)):
        if scatter_suffices(scale[k], float(dof[k])):
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


def scatter_suffices(scatter: Array, free: float) -> bool:
    """Check that a scatter of so many degrees of freedom makes a metric: no direction is empty."""
    return free > len(scatter) - 1 and _regular(scatter)


def reference_of_tied(moments: Moments) -> NIW:
    """The same for classes that share one covariance: F(p, N−K−p+1)."""
    p = moments.n_features
    free = float((moments.count - (moments.count > 0)).sum())
    if scatter_suffices(moments.scatter.sum(0), free):
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
    """Check that p-values of two batches of densities are the same for all practical purposes.

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


class _Tail(NamedTuple):
    """Distribution of q = zᵀM⁻¹z of new members: q/size ~ F(features, dof); arrays of shape (point,)."""

    root: Array  # (feature, feature, point), a lower triangle whose square is M⁻¹
    size: Array
    features: Array
    dof: Array


def _tail(new: Array, own: Array, free: float) -> _Tail:
    """Metric and distribution of distances in the units of C, the covariance of a noisy sample's distance.

    ``new`` (feature, feature, point) and ``own`` (feature, feature) are the noise W of a point and that S of
    the samples behind C, which has ``free`` degrees of freedom: the distance has the covariance I + W − S.
    With t = min(1, tr S/tr W) its metric is M = I + (1−t)W, and what that leaves out, E = tW − S, counts by
    its mean and its spread over the directions. With W = S all is Hotelling's.
    """
    p, trace = len(own), np.trace(new)
    least = max(float(np.trace(own)), np.finfo(np.float64).tiny)
    t = np.trace(own) / np.maximum(trace, least)
    one = np.eye(p)[..., None]
    root = invert_triangles_of_many(cholesky_of_many(one + (1.0 - t) * new))
    inverse = squares_of_triangles(root)
    first, second = np.trace(inverse), (inverse**2).sum((0, 1))
    # Degrees of freedom of a sum with a known matrix are so many times more (Krishnamoorthy and Yu 2004,
    # after Nel and van der Merwe 1986). Found from C itself, which flatters them where it has few, most where
    # it is small by chance: root and power keep p-values from being too small then (docs/checks.md).
    times = (p + p * p) / (second + first**2)
    power = max(free * p - 0.5, 0.0) / (free * p + 3.5)
    nu = free + np.sqrt((free - p + 1.0) / free) * free * (times**power - 1.0)
    seen = np.where(1.0 - t > 1e-6, (one - inverse) / np.maximum(1.0 - t, 1e-6), new)  # M⁻¹W
    rest = t * seen - np.tensordot(own, inverse, axes=1)  # M⁻¹E, transposed
    unbiased = max(free - p - 1.0, 0.0) / free  # E[C⁻¹] is larger than the inverse of E[C]
    mean = np.trace(rest) / p
    left = np.maximum(1.0 + unbiased * mean, min(_FEWEST_ERRORS * np.sqrt(2.0 / (free * p)), 1.0))
    square = (rest * rest.swapaxes(0, 1)).sum((0, 1)) / p - mean**2 * free / max(free - p, 1e-6)
    spread = np.maximum(unbiased**2 * square, 0.0) / left**2
    dof = nu - p + 1.0
    lost = (1.0 / np.minimum(left, 1.0) ** 2 - 1.0) / (free * p)
    known = np.maximum(1.0 / (1.0 / dof + lost), np.minimum(dof, 1.0))
    return _Tail(root, nu * p * left / dof, np.maximum(p / (1.0 + spread), 1.0), known)


@dataclass(frozen=True, eq=False)
class TypicalityReference:
    """Densities of classes whose distances have a known distribution, for points of any known noise."""

    density: StudentT | IndependentT  # Hotelling's, of the samples as they were measured: batch (class,)
    noise: Array  # (class, feature, feature), mean noise of these samples

    def p_value(self, k: int, points: ArrayLike, covariances: Covariances) -> Array:
        """p-value of points (point, feature) of known noise for class k."""
        x = np.asarray(points, np.float64)
        rows = max(16, _BLOCK_NUMBERS // x.shape[1] ** 2)
        out = np.empty(len(x))
        for part in slices(len(x), rows):
            out[part] = self._of_block(k, x[part], covariances[part])
        return out

    def _of_block(self, k: int, x: Array, covariances: Covariances) -> Array:
        if isinstance(self.density, StudentT):
            return _p_value(self.density[k], self.noise[k], x, covariances.matrices())
        t, variance = self.density[k], covariances.variances()
        u = [
            _p_value(t.feature(j), self.noise[k][j : j + 1, j : j + 1], x[:, [j]], variance[:, j, None, None])
            for j in range(x.shape[1])
        ]
        with np.errstate(divide="ignore"):
            return np.asarray(chdtrc(2 * len(u), -2.0 * np.log(u).sum(0)))

    def without_noise(self) -> StudentT | IndependentT:
        """Densities for points without noise: their p-values of 0.01 are those of :meth:`p_value`."""
        if not self.noise.any():
            return self.density
        if isinstance(self.density, StudentT):
            each = [_matched(self.density[k], noise) for k, noise in enumerate(self.noise)]
            return StudentT(self.density.location, *(np.stack(part) for part in zip(*each, strict=True)))
        K, p = self.density.location.shape
        single = [
            [_matched(self.density[k].feature(j), self.noise[k][j : j + 1, j : j + 1]) for j in range(p)]
            for k in range(K)
        ]
        scale, dof = (np.array([[np.squeeze(part[i]) for part in row] for row in single]) for i in (0, 1))
        return IndependentT(self.density.location, scale, dof)


def _p_value(density: StudentT, own: Array, x: Array, new: Array) -> Array:
    """p-values of points under one density, with the noise (1 or point, feature, feature) of the points."""
    free, whitening = _of_covariance(density)
    half = np.tensordot(whitening, np.moveaxis(new, 0, 2), axes=1)
    tail = _tail(np.tensordot(whitening, half.swapaxes(0, 1), axes=1), whitening @ own @ whitening.T, free)
    with np.errstate(over="ignore", invalid="ignore"):
        z = np.clip(np.nan_to_num(whitening @ (x - density.location).T, nan=_FAR), -_FAR, _FAR)
    root = tail.root[..., 0] @ z if len(new) == 1 else np.einsum("ijn,jn->in", tail.root, z)
    q, a, b = (root**2).sum(0) / tail.size, tail.features, tail.dof
    return f_tail(a * q, a, b)


def _of_covariance(density: StudentT) -> tuple[float, Array]:
    """Degrees of freedom of the covariance behind a density, and what whitens by that covariance."""
    free = float(density.dof) + density.n_features - 1.0
    return free, density.whitening * np.sqrt(free / float(density.dof))


def _matched(density: StudentT, own: Array) -> tuple[Array, float]:
    """Root and degrees of freedom of the Student t for points without noise."""
    p, (free, whitening) = density.n_features, _of_covariance(density)
    _, *numbers = _tail(np.zeros((p, p, 1)), whitening @ own @ whitening.T, free)
    size, features, dof = (part[0] for part in numbers)
    wider = fdtri(features, dof, 1.0 - _MATCHED) / fdtri(p, dof, 1.0 - _MATCHED)
    return density.root * np.sqrt(float(density.dof) / free * size / p * wider), float(dof)


def _borrowed_size(metric: Array, moments: Moments, free: float) -> float:
    """tr M⁻¹S as it would be of the scale that all classes have together, with few degrees of freedom."""
    together = float(np.trace(np.linalg.solve(metric, moments.scatter.sum(0))))
    return together * _BORROWED / max(free, 1.0)


def _safe(p: int, freedom: float) -> float:
    """Factor that puts p·F(p, d) above F(1, d) at every p-value from 0.001 on."""
    return float(fdtri(1, freedom, 1 - _TAIL) / (p * fdtri(p, freedom, 1 - _TAIL)))


def _regular(scatter: Array) -> bool:
    """Check that no feature is constant or follows from the others."""
    deviation = np.sqrt(np.diagonal(scatter))
    if not np.all(deviation > 0):
        return False
    return bool(np.linalg.eigvalsh(scatter / np.outer(deviation, deviation))[0] > _DEPENDENT)
