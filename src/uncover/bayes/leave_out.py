"""Predictive densities of samples by the posterior without them: downdates in closed form, no refits.

Taking moments (n, m, S) out of a posterior NIW(μ, λ, Ψ, ν), the prior held fixed, is an update backwards:

    λ' = λ−n,  ν' = ν−n,  μ' = μ − (n/λ')(m−μ),  Ψ' = Ψ − S − (λn/λ')(m−μ)(m−μ)ᵀ

A prior made of the same samples, Ψ₀ = ρ·ΣS_k (:func:`uncover.bayes.evidence.evidence_prior`), has an echo of
each in every class: ρ of what its own class loses is taken out of all classes, and ρn of their ν.
"""

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.linalg import invert_triangle, log_det_of_root
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW, DiagonalNIW
from uncover.bayes.special import log_gamma_ratio
from uncover.bayes.student_t import log_density

Array = NDArray[np.float64]

# What is left of a class counts as nothing below this weight, and of a determinant below this share.
_NOTHING = 1e-9
_SMALLEST = 1e-12


def leave_one_out(
    posterior: NIW, points: Array, codes: NDArray[np.intp], weight: Array | None = None, echo: float = 0.0
) -> Array:
    """Log density of each point for each class, with the point itself taken out of its own class.

    Ψ' differs from Ψ by one vector: its determinant and its inverse follow without a decomposition
    (Sherman and Morrison 1950).

    The posterior has the batch (class,), and a scale of shape (1, feature, feature) where classes share one
    covariance; ``points`` (sample, feature), of classes ``codes``, are the samples behind it; ``echo`` is ρ,
    of classes with a covariance each. The result (sample, class) is −inf for a sample's own class where
    nothing is left of it.

    >>> x = np.array([[0.0], [1.0], [3.0], [9.0], [8.0]])
    >>> codes = np.array([0, 0, 0, 1, 1])
    >>> prior = NIW(np.zeros((2, 1)), np.ones(2), np.ones((2, 1, 1)), np.full(2, 3.0))
    >>> posterior = prior.update(Moments.by_group(x, codes, 2))
    >>> without_first = prior.update(Moments.by_group(x[1:], codes[1:], 2))
    >>> bool(np.allclose(leave_one_out(posterior, x, codes)[0], without_first.predictive().log_prob(x[0])))
    True
    """
    w = np.ones(len(points)) if weight is None else weight
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if isinstance(posterior, DiagonalNIW):
            return _independent(posterior, points, codes, w)
        if posterior.scale.shape[-3] == 1 and len(posterior.mean) > 1:
            return _tied(posterior, points, codes, w)
        if echo > 0:
            return _each_with_echo(posterior, points, codes, w, echo)
        return _each(posterior, points, codes, w)


def _each(posterior: NIW, points: Array, codes: NDArray[np.intp], w: Array) -> Array:
    """A covariance for each class: only the own class changes."""
    p = posterior.n_features
    predictive = posterior.predictive()
    q = predictive.squared_distance(points)
    out = log_density(predictive._log_constant, predictive.dof, p, q)
    own = np.arange(len(points)), codes
    strength, nu = posterior.strength[codes], posterior.dof[codes]
    s = q[own] * ((1.0 + 1.0 / strength) / (nu - p + 1))
    left = strength - w
    share = np.maximum(1.0 - (w * strength / left) * s, _SMALLEST)
    square = (strength / left) ** 2 * s / share
    half_log_det = log_det_of_root(posterior.root)[codes] + 0.5 * np.log(share)
    density = _log_student(square, half_log_det, left, nu - w - p + 1, p)
    out[own] = np.where(_something_left(left, nu - w, p), density, -np.inf)
    return np.asarray(out)


def _each_with_echo(posterior: NIW, points: Array, codes: NDArray[np.intp], w: Array, echo: float) -> Array:
    """A covariance for each class and a prior made of the samples: all classes change, by one vector each."""
    p, strength = posterior.n_features, posterior.strength
    deviation = points - posterior.mean[codes]
    lost = w * strength[codes] / (strength[codes] - w)
    out = np.empty((len(points), len(posterior.mean)))
    for k, mean in enumerate(posterior.mean):
        own, whitening = codes == k, invert_triangle(posterior.root[k])
        u = deviation @ whitening.T
        norm = np.einsum("ij,ij->i", u, u)
        away = (posterior.mean - mean) @ whitening.T
        along = np.take_along_axis(u @ away.T, codes[:, None], axis=1)[:, 0]
        echoes = np.where(own, 1.0 + echo, echo)
        a = lost * echoes
        share = np.maximum(1.0 - a * norm, _SMALLEST)
        left = strength[k] - np.where(own, w, 0.0)
        square = norm + 2.0 * along + np.einsum("ij,ij->i", away, away)[codes]
        square = np.maximum(square, 0.0) + a / share * (norm + along) ** 2
        square = np.where(own, (strength[k] / left) ** 2 * norm / share, square)
        nu, half_log_det = posterior.dof[k] - w * echoes, log_det_of_root(posterior.root[k])
        density = _log_student(square, half_log_det + 0.5 * np.log(share), left, nu - p + 1, p)
        out[:, k] = np.where(_something_left(left, nu, p), density, -np.inf)
    return out


def _tied(posterior: NIW, points: Array, codes: NDArray[np.intp], w: Array) -> Array:
    """One covariance for all classes: a sample taken out changes the densities of all of them."""
    p, n = posterior.n_features, len(points)
    whitening = invert_triangle(posterior.root[0])
    z = (points[:, None, :] - posterior.mean) @ whitening.T  # (sample, class, feature)
    own = np.arange(n), codes
    strength = np.broadcast_to(posterior.strength, (n, len(posterior.mean))).copy()
    before = strength[own]
    left = before - w
    a = w * before / left
    share = np.maximum(1.0 - a * np.einsum("ij,ij->i", z[own], z[own]), _SMALLEST)
    across = np.einsum("ikj,ij->ik", z, z[own])
    square = np.einsum("ikj,ikj->ik", z, z) + (a / share)[:, None] * across**2
    square[own] = (before / left) ** 2 * across[own] / share
    strength[own] = left
    nu = posterior.dof[0] - w
    half_log_det = log_det_of_root(posterior.root[0]) + 0.5 * np.log(share)
    out = _log_student(square, half_log_det[:, None], strength, (nu - p + 1)[:, None], p)
    return np.where(_something_left(strength, nu[:, None], p), out, -np.inf)


def _independent(posterior: NIW, points: Array, codes: NDArray[np.intp], w: Array) -> Array:
    """Independent features: as in one dimension, for each feature alone."""
    p = posterior.n_features
    out = np.array(posterior.predictive().log_prob(points))
    scale = np.diagonal(posterior.scale, axis1=-2, axis2=-1)[codes]
    s = (points - posterior.mean[codes]) ** 2 / scale
    strength, nu = posterior.strength[codes], posterior.dof[codes] - p + 1
    left = strength - w
    share = np.maximum(1.0 - (w * strength / left)[:, None] * s, _SMALLEST)
    square = ((strength / left) ** 2)[:, None] * s / share
    half_log_det = 0.5 * (np.log(scale) + np.log(share))
    density = _log_student(square, half_log_det, left[:, None], (nu - w)[:, None], 1).sum(-1)
    out[np.arange(len(points)), codes] = np.where(_something_left(left, nu - w, 1), density, -np.inf)
    return out


def leave_units_out(posterior: NIW, removed: Moments, rows: Array, echo: float = 0.0) -> Array:
    """Log density of the rows of several units, each by the posterior without that unit.

    For units of several rows, of several classes, or of soft labels: one decomposition a unit and class.

    ``posterior`` and ``echo`` are those of :func:`leave_one_out`, ``removed`` of batch (unit, class) is what
    each unit has brought to each class; rows (unit, row, feature) give (unit, row, class).

    >>> x = np.array([[0.0], [1.0], [3.0], [9.0]])
    >>> prior = NIW(np.zeros((1, 1)), np.ones(1), np.ones((1, 1, 1)), np.full(1, 3.0))
    >>> pair = Moments.stack([Moments.stack([Moments.of(x[:2])])])
    >>> left = leave_units_out(prior.update(Moments.stack([Moments.of(x)])), pair, x[None, :2])
    >>> rest = prior.update(Moments.stack([Moments.of(x[2:])])).predictive().log_prob(x[:2])
    >>> bool(np.allclose(left, rest))
    True
    """
    p, n = posterior.n_features, removed.count
    strength = np.broadcast_to(posterior.strength, n.shape)
    left = strength - n
    safe = np.where(left > _NOTHING, left, 1.0)
    delta = (removed.mean - posterior.mean) + removed.residual
    outer = delta[..., :, None] * delta[..., None, :]
    lost = removed.scatter + (strength * n / safe)[..., None, None] * outer
    mean = posterior.mean - (n / safe)[..., None] * delta
    tied = posterior.scale.shape[-3] == 1 and posterior.mean.shape[-2] > 1
    gone = lost + echo * lost.sum(-3, keepdims=True) if echo else lost
    scale = posterior.scale - (lost.sum(-3, keepdims=True) if tied else gone)
    dof = posterior.dof - (n.sum(-1, keepdims=True) if tied else n + echo * n.sum(-1, keepdims=True))
    deviation = rows[:, :, None, :] - mean[:, None]  # (unit, row, class, feature)
    known = _something_left(left, dof, p)
    with np.errstate(divide="ignore", invalid="ignore"):
        if isinstance(posterior, DiagonalNIW):
            density = _independent_without(scale, deviation, safe, dof - p + 1)
        else:
            # A class of which nothing is left has a scale of rounding errors: any will do.
            some = np.asarray(known.any(-1, keepdims=True) if tied else known)
            scale = np.where(some[..., None, None], scale, np.eye(p))
            density = _without(scale, deviation, safe, dof, p)
    return np.where(known[:, None], density, -np.inf)


def _without(scale: Array, deviation: Array, strength: Array, dof: Array, p: int) -> Array:
    root = _root(scale)
    whitening = invert_triangle(root)
    z = np.einsum("ukij,urkj->urki", np.broadcast_to(whitening, (*strength.shape, p, p)), deviation)
    square = np.einsum("urki,urki->urk", z, z)
    return _log_student(square, log_det_of_root(root)[:, None], strength[:, None], (dof - p + 1)[:, None], p)


def _independent_without(scale: Array, deviation: Array, strength: Array, dof: Array) -> Array:
    variance = np.diagonal(scale, axis1=-2, axis2=-1)[:, None]  # (unit, 1, class, feature)
    strength, dof = (each[:, None, :, None] for each in (strength, dof))
    return np.asarray(_log_student(deviation**2 / variance, 0.5 * np.log(variance), strength, dof, 1).sum(-1))


def _log_student(square: Array, half_log_det: Array, strength: Array, dof: Array, p: int) -> Array:
    """Log predictive density: |z|² and ½log|Ψ| of the posterior, its λ, and the ν−p+1 of the Student t."""
    factor = (1.0 + 1.0 / strength) / dof
    usable = np.where(dof > 0, dof, 1.0)
    constant = log_gamma_ratio(0.5 * usable, 0.5 * p) - 0.5 * p * np.log(np.pi * usable * factor)
    return log_density(constant - half_log_det, usable, p, square / factor)


def _something_left(strength: Array, dof: Array, p: int) -> NDArray[np.bool_]:
    return np.asarray((strength > _NOTHING) & (dof > p - 1 + _NOTHING))


def _root(scale: Array) -> Array:
    """Cholesky factors; a scale that has lost its rank by rounding gets back the smallest that counts."""
    try:
        return np.asarray(np.linalg.cholesky(scale))
    except np.linalg.LinAlgError:
        values, axes = np.linalg.eigh(scale)
        floored = np.maximum(values, _SMALLEST * values[..., -1:])
        return np.asarray(np.linalg.cholesky((axes * floored[..., None, :]) @ np.swapaxes(axes, -1, -2)))
