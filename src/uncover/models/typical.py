"""Typicality of a fitted model: the densities it is read from, and what bounds it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.deconvolved import DeconvolvedDiagonal, DeconvolvedNIW, GappyNIW, UnevenDiagonal
from uncover.bayes.evidence import per_sample
from uncover.bayes.hotelling import (
    reference_of_classes,
    reference_of_features,
    reference_of_tied,
    scatter_suffices,
)
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW, DiagonalNIW
from uncover.bayes.priors import Spread
from uncover.models.gaussian import GaussianClasses
from uncover.models.realisations import MEAN_WORLD

Array = NDArray[np.float64]


def reference_posterior(
    model: GaussianClasses, world: int | None, used: NDArray[np.bool_], posterior: NIW
) -> NIW:
    """Return the posterior of the known classes that typicality in one world is read from.

    ``used`` says which of all features count; ``posterior`` is the model's own for them.
    """
    known = model.known
    moments = _moments_of_world(model, world).select_features(used)[known]
    if isinstance(posterior, GappyNIW):
        moments = _as_seen(model, posterior, moments)
    independent = isinstance(posterior, DiagonalNIW | UnevenDiagonal)
    if Spread.of(moments).constant.any():  # only the prior knows how far such a feature varies
        return (DiagonalNIW if independent else NIW)(*(getattr(posterior, name) for name in NIW.parameters()))
    if independent:
        found: NIW = reference_of_features(moments)
    elif _tied(posterior, known):
        found = reference_of_tied(moments)
    else:
        found = reference_of_classes(moments)
    if isinstance(posterior, DeconvolvedNIW):
        found = _as_even(found, _evenness(model, posterior, known))
    if _tied(posterior, known):
        return found
    trusted = _by_own_prior(model, moments)
    if not trusted.any():
        return found
    return type(found)(*(np.where(_wide(trusted, b), a, b) for a, b in _parameters(posterior, found)))


def reference_noise(model: GaussianClasses, used: NDArray[np.bool_], posterior: NIW) -> Array:
    """Return the mean noise of the samples behind :func:`reference_posterior`: (class, feature, feature).

    None is taken out of a class whose own scatter says too little: typicality is then rather too high.
    """
    known, p = model.known, int(used.sum())
    if not isinstance(posterior, DeconvolvedNIW) or model.class_noise is None:
        return np.zeros((len(known), p, p))
    kept = used[model.used_features]
    noise = model.class_noise[known][:, kept][:, :, kept]
    moments = _moments_of_world(model, None).select_features(used)[known]
    if _tied(posterior, known):
        # The mean of class k has the noise of its own samples, their common scatter that of all.
        free = np.maximum(moments.count - 1.0, 0.0)
        if not scatter_suffices(moments.scatter.sum(0), free.sum()):
            return np.zeros_like(noise)
        pooled = np.tensordot(free / free.sum(), noise, axes=1)
        return np.asarray(pooled - (noise - pooled) / np.maximum(moments.count, 1.0)[:, None, None])
    if isinstance(posterior, DeconvolvedDiagonal):
        suffices = moments.count >= 2
    else:
        pairs = zip(moments.scatter, moments.count - 1.0, strict=True)
        suffices = np.array([scatter_suffices(scatter, free) for scatter, free in pairs])
    return np.asarray(noise * (suffices & ~_by_own_prior(model, moments))[:, None, None])


def _tied(posterior: NIW, known: NDArray[np.intp]) -> bool:
    """True where the classes share one covariance."""
    return posterior.scale.ndim == 3 and len(posterior.scale) < len(known)


def _evenness(model: GaussianClasses, posterior: NIW, known: NDArray[np.intp]) -> Array:
    """Return how many samples of equal noise each sample of the classes is worth: (class,), or (1,)."""
    if model.noise_evenness is None:
        return np.ones(1)
    each, count = model.noise_evenness[known], model.count[known]
    return np.array([each @ count / count.sum()]) if _tied(posterior, known) else each


def _as_even(reference: NIW, evenness: Array) -> NIW:
    """Return a reference of fewer degrees of freedom, because the noise of its samples is not the same."""
    p = reference.n_features
    other, least = (p - 1.0, 1.0) if isinstance(reference, DiagonalNIW) else (0.0, p)
    free = reference.dof - other
    left = np.maximum(free * evenness, np.minimum(free, least))
    scale = reference.scale * (left / free)[..., None, None]
    return type(reference)(reference.mean, reference.strength, scale, left + other)


def _as_seen(model: GaussianClasses, posterior: GappyNIW, moments: Moments) -> Moments:
    """Completed moments of some of the features that count what was seen of these."""
    p, prior = moments.n_features, model.prior
    own = posterior.dof - p - 1.0 - (prior.dof.ravel()[0] - prior.n_features - 1.0)
    n = moments.count if not _tied(posterior, model.known) else moments.count.sum()
    share = np.clip(own / np.where(n > 0, n, 1.0), 0.0, 1.0)
    count = np.maximum(share * moments.count, np.minimum(moments.count, 2.0))
    ratio = (count - 1.0) / np.maximum(moments.count - 1.0, 1.0)
    return Moments(
        count, moments.mean, moments.scatter * np.maximum(ratio, 0.0)[:, None, None], moments.residual
    )


def _moments_of_world(model: GaussianClasses, world: int | None) -> Moments:
    """Moments of all classes, a sample of several rows counting once."""
    moments = model.statistics.classes
    if moments.count.ndim == 2:
        if world is None or world == MEAN_WORLD:
            parts = (moments.count, moments.mean, moments.scatter, moments.residual)
            moments = Moments(*(part.mean(0) for part in parts))
        else:
            moments = moments[world]
    return per_sample(moments, model.rows_per_sample)


def _by_own_prior(model: GaussianClasses, moments: Moments) -> NDArray[np.bool_]:
    """Return the classes that only the prior knows: it is the user's, and samples are few."""
    given = model.prior_name is None
    return np.asarray((moments.count == 0) | (given & (moments.count <= moments.n_features)))


def _parameters(one: NIW, other: NIW) -> Iterator[tuple[Array, Array]]:
    """Parameters of two distributions, each with the axis of classes."""
    K, p = len(other.mean), other.n_features
    for name, trailing in other.parameters().items():
        shape = (K, *(p,) * trailing)
        yield np.broadcast_to(getattr(one, name), shape), getattr(other, name)


def _wide(mask: NDArray[np.bool_], like: Array) -> NDArray[np.bool_]:
    return mask.reshape(-1, *(1,) * (like.ndim - 1))


def bounded_where_new(model: GaussianClasses, p_value: NDArray[Any], X: NDArray[Any]) -> NDArray[Any]:
    """Bound p-values of samples that differ in an ignored feature as no training sample does.

    It was constant, or followed from the others. Of n + 1 samples that are exchangeable, the new one has
    the largest residual with a probability of at most 1/(n + 1). ``X`` has all features, realisations
    before them; NaN is no difference. A sample differs where it does in every realisation and world.
    """
    ignored, moments = model.ignored_features, model.statistics.classes
    if not ignored.any():
        return p_value
    total, constant = moments.sum(-1), Spread.of(moments).constant
    n = float(np.ravel(total.count)[0]) / model.rows_per_sample
    differs = [
        _off_regression(X, ignored, constant[world], total[world]) for world in np.ndindex(total.count.shape)
    ]
    off = np.all(differs, axis=0)
    off = off.all(-1) if off.ndim == 2 else off
    bound = np.where(off, 1.0 / (n + 1.0), 1.0)
    return np.minimum(p_value, bound.reshape(-1, *(1,) * (p_value.ndim - 1)).astype(p_value.dtype))


def _off_regression(
    X: NDArray[Any], ignored: NDArray[np.bool_], constant: NDArray[np.bool_], total: Moments
) -> NDArray[np.bool_]:
    """Return which samples lie off the regression of an ignored feature on the used ones: (...).

    ``total`` are the moments of all samples. No training sample has a residual above the root of their sum of
    squares; the rounding of that sum and of the numbers comes on top. Constant features have slopes of 0.
    """
    used, rest = np.flatnonzero(~ignored), np.flatnonzero(ignored)
    slopes = np.zeros((len(ignored), len(rest)))
    slopes[rest, np.arange(len(rest))] = 1.0  # of the residual: its feature less the regression on the others
    unit = np.sqrt(np.diagonal(total.scatter))[used]
    following = ~constant[rest]
    if following.any():  # else features in use may depend on each other: the weak prior keeps them
        correlation = total.scatter[np.ix_(used, used)] / (unit[:, None] * unit)
        onto = total.scatter[np.ix_(used, rest[following])] / unit[:, None]
        slopes[np.ix_(used, following)] = -np.linalg.solve(correlation, onto) / unit[:, None]
    eps = np.finfo(np.float64).eps
    squares = np.maximum((slopes * (total.scatter @ slopes)).sum(0), 0.0)
    squares += 8 * len(ignored) * eps * (np.abs(slopes) * (np.abs(total.scatter) @ np.abs(slopes))).sum(0)
    lacking = np.isnan(X)
    values = np.where(lacking, 0.0, X)
    residual = np.where(lacking, 0.0, values - total.mean - total.residual) @ slopes
    rounding = (1e-6 if X.dtype == np.float32 else 1e-12) * (np.abs(values) @ np.abs(slopes))
    unknown = lacking @ (slopes != 0)
    return np.asarray((~unknown & (np.abs(residual) > np.sqrt(squares) + rounding)).any(-1))
