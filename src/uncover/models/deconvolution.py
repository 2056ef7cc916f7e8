"""Learning class models through known noise, for each family of class models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.covariances import Covariances
from uncover.bayes.deconvolution import TOLERANCE, NoisySamples, deconvolve, noise_free_variances
from uncover.bayes.deconvolved import DeconvolvedDiagonal, DeconvolvedNIW
from uncover.bayes.niw import NIW
from uncover.models.membership import Membership
from uncover.models.realisations import Statistics

Array = NDArray[np.float64]


def variances_without_noise(points: Any, noise: Covariances, membership: Membership) -> Array:
    """Variance of the true values of each class and feature: (class, feature); 0 where it is unknown."""
    out = np.zeros((membership.n_classes, points.shape[1]))
    for k, samples in _samples_of_classes(points, noise, membership):
        if samples.weight.sum() > 1:
            out[k] = noise_free_variances(samples)
    return out


def without_noise(prior: NIW, points: Any, noise: Covariances, membership: Membership) -> NIW:
    """Return a prior that was made from noisy samples, for their true values.

    The covariance that it expects loses the average noise; how much it weighs stays.
    """
    weights = np.zeros(len(points))
    for k in range(membership.n_classes):
        rows, weight = membership.of_class(k)
        weights[rows] += weight
    each = noise.of_each(len(points))
    average = np.tensordot(weights / weights.sum(), each, axes=1)
    return prior.exchange_noise(average, present=1.0, wanted=0.0)


#: Samples of a class, in multiples of the features, from which on its own spread says what is noise; and the
#: share of a direction's variance that is left at least.
_ENOUGH, _LEAST_LEFT = 5, 0.01


def worlds_without_noise(X: Any, noise: Covariances, membership: Membership) -> Array:
    """Samples of several realisations (sample, realisation, feature) with the moments of their true values.

    Moment reconstruction (Freedman et al. 2004, Biometrics 60, 172-181): about its class mean in its world a
    sample is multiplied by A with A S Aᵀ = S − N̄, S being the covariance of the class in the mean world and
    N̄ the mean noise of its samples, which every world has alike. A class of few samples has the covariance
    within all classes. What the noise hides of the shape of a class stays hidden.

    >>> rng = np.random.default_rng(0)
    >>> measured = rng.normal(size=(4000, 1, 1)) + 0.6 * rng.normal(size=(4000, 1, 1))
    >>> worlds = measured + np.array([[0.0], [1.0]])
    >>> known = Covariances(np.array([[0.36]]), None, None)
    >>> found = worlds_without_noise(worlds, known, Membership(1, np.zeros(4000, int), None, None))
    >>> found.std(axis=0).ravel().round(2).tolist()
    [1.0, 1.0]
    """
    if membership.codes is None:
        raise ValueError(
            "labels that may be wrong came with X_cov and several realisations of each sample; give hard "
            "labels, or leave X_cov out"
        )
    out, each = X.astype(np.float64), noise.of_each(len(X))
    mean, p = out.mean(axis=1), X.shape[-1]
    spread = membership.moments(mean)
    within = spread.scatter.sum(0) / max(spread.count.sum() - len(spread.count), 1.0)
    for k in range(membership.n_classes):
        rows, weight = membership.of_class(k)
        if not weight.sum() > 0:
            continue
        share, n = weight / weight.sum(), spread.count[k]
        S = spread.scatter[k] / (n - 1.0) if n > _ENOUGH * p else within
        A = _without(S, np.tensordot(share, each[rows], axes=1))
        middle = np.tensordot(share, out[rows], axes=1)  # (realisation, feature)
        out[rows] = middle + (out[rows] - middle) @ A.T
    return out


def _without(S: Array, N: Array) -> Array:
    """A with A S Aᵀ = S − N, of which a little is left in every direction."""
    scale = np.sqrt(np.where(np.diagonal(S) > 0, np.diagonal(S), 1.0))
    values, axes = np.linalg.eigh(S / (scale[:, None] * scale))
    values = np.maximum(values, 1e-12)
    root, inverse = (scale[:, None] * axes * np.sqrt(values), (axes / np.sqrt(values)).T / scale)
    noise, turned = np.linalg.eigh(inverse @ N @ inverse.T)
    left = np.sqrt(np.maximum(1.0 - noise, _LEAST_LEFT))
    return np.asarray(root @ (turned * left) @ turned.T @ inverse)


def noise_of_classes(points: Any, noise: Covariances, membership: Membership) -> tuple[Array, Array]:
    """Return the mean noise of each class's samples (class, feature, feature), and how even it is (class,).

    A sample of noise f_i, relative to the variance of the class, tells of the variance as if n·e samples with
    the same noise did, e = T̄²/mean(T_i²) with T_i = τ + f_i, τ being the share of the true values.
    """
    K, p = membership.n_classes, points.shape[1]
    mean, even = np.zeros((K, p, p)), np.ones(K)
    for k, samples in _samples_of_classes(points, noise, membership):
        share = samples.weight / samples.weight.sum()
        mean[k] = np.tensordot(share, samples.noise.of_each(len(share)), axes=1)
        variance = share @ (samples.x - share @ samples.x) ** 2
        size = (samples.noise.variances() / np.where(variance > 0, variance, np.inf)).mean(1)
        if len(size) > 1:
            average = share @ size
            even[k] = 1.0 / (1.0 + share @ (size - average) ** 2 / max(average, 1.0) ** 2)
    return mean, even


def deconvolve_each(
    prior: NIW, points: Any, noise: Covariances, membership: Membership, tolerance: float = TOLERANCE
) -> DeconvolvedNIW:
    """Posterior of classes that have a covariance each."""
    found = dict(_samples_of_classes(points, noise, membership))
    each = [
        deconvolve(found[k], prior.take([k]), tolerance=tolerance)
        if k in found
        else _unlearned(prior.take([k]))
        for k in range(membership.n_classes)
    ]
    return _join(DeconvolvedNIW, each)


def deconvolve_tied(prior: NIW, points: Any, noise: Covariances, membership: Membership) -> DeconvolvedNIW:
    """Posterior of classes that share one covariance."""
    parts = [(k, *membership.of_class(k)) for k in range(membership.n_classes)]
    rows = np.concatenate([rows for _, rows, _ in parts])
    group = np.concatenate([np.full(len(rows), k) for k, rows, _ in parts])
    weight = np.concatenate([weight for _, _, weight in parts])
    samples = NoisySamples(points[rows].astype(np.float64), noise[rows], weight, group, membership.n_classes)
    return deconvolve(samples, prior)


def deconvolve_features(
    prior: NIW, points: Any, noise: Covariances, membership: Membership
) -> DeconvolvedDiagonal:
    """Posterior of classes whose features are independent: one problem for each class and feature."""
    p = points.shape[1]
    marginal = [prior.select_features([j]) for j in range(p)]
    posteriors = [
        deconvolve_each(marginal[j], points[:, [j]], noise.select_features(np.array([j])), membership)
        for j in range(p)
    ]
    strength = np.mean([one.strength for one in posteriors], axis=0)
    dof = np.mean([one.dof for one in posteriors], axis=0) + p - 1
    variance = np.stack([one.expected_covariance[:, 0, 0] for one in posteriors], axis=1)
    mean_variance = np.stack([one.mean_covariance[:, 0, 0] for one in posteriors], axis=1)
    return DeconvolvedDiagonal(
        np.concatenate([one.mean for one in posteriors], axis=1),
        strength,
        ((dof - p - 1)[:, None] * variance)[..., None] * np.eye(p),
        dof,
        mean_variance[..., None] * np.eye(p),
        np.concatenate([one.variance_dof for one in posteriors], axis=1),
        np.min([one.converged for one in posteriors], axis=0),
    )


def points_of_repeats(statistics: Statistics) -> tuple[Array, Covariances, Membership]:
    """Points, the noise of a mean of R repeats, and the membership, of samples that have these statistics.

    Where all have the same noise, learning through it needs no more than their moments: 2p points of each
    class, its mean ± √p times the columns of a root of its covariance, have them.
    """
    moments = statistics.classes
    K, p = moments.mean.shape
    value, axes = np.linalg.eigh(moments.scatter)
    count = np.where(moments.count > 0, moments.count, 1.0)
    root = axes * np.sqrt(np.maximum(value, 0.0) * p / count[:, None])[:, None, :]
    columns = np.swapaxes(np.concatenate([root, -root], axis=-1), -1, -2)
    assert statistics.noise is not None
    noise = Covariances(statistics.noise / statistics.realisations, None, None)
    weight = np.repeat(moments.count / (2 * p), 2 * p)
    membership = Membership(K, np.repeat(np.arange(K), 2 * p), None, weight)
    return (moments.mean[:, None] + columns).reshape(-1, p), noise, membership


def _samples_of_classes(
    points: Any, noise: Covariances, membership: Membership
) -> Iterator[tuple[int, NoisySamples]]:
    """Number and samples of each class that has any."""
    for k in range(membership.n_classes):
        rows, weight = membership.of_class(k)
        if weight.sum() > 0:
            x = points[rows].astype(np.float64)
            yield k, NoisySamples(x, noise[rows], weight, np.zeros(len(rows), dtype=np.intp), 1)


def _unlearned(prior: NIW) -> DeconvolvedNIW:
    """A class without samples: the prior itself, in the form of the others."""
    p = prior.n_features
    strength = np.where(prior.strength > 0, prior.strength, 1.0)
    spread = np.nan_to_num(prior.expected_covariance)
    return DeconvolvedNIW(
        prior.mean,
        prior.strength,
        prior.scale,
        prior.dof,
        spread / strength[:, None, None],
        np.broadcast_to((prior.dof - p + 1)[:, None], prior.mean.shape),
        np.ones(1),
    )


def _join(cls: type[DeconvolvedNIW], each: list[DeconvolvedNIW]) -> DeconvolvedNIW:
    return cls(*(np.concatenate([getattr(one, name) for one in each]) for name in cls.parameters()))
