"""Typicality of a fitted model: the distances it is read from, and what bounds it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.deconvolved import DeconvolvedDiagonal, DeconvolvedNIW
from uncover.bayes.evidence import per_sample
from uncover.bayes.hotelling import reference_of_classes, reference_of_features, reference_of_tied
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW, DiagonalNIW
from uncover.bayes.priors import Spread
from uncover.models.gaussian import GaussianClasses
from uncover.models.realisations import MEAN_WORLD

Array = NDArray[np.float64]

# Degrees of freedom of a Student t whose covariance is to exist, at least.
_FEWEST = 2.2


def reference_posterior(
    model: GaussianClasses, world: int | None, used: NDArray[np.bool_], posterior: NIW
) -> NIW:
    """Return the posterior of the known classes that typicality in one world is read from.

    ``used`` says which of all features count; ``posterior`` is the model's own for them.
    """
    known = model.known
    if isinstance(posterior, DeconvolvedNIW):
        return _through_noise(model, posterior)
    moments = _moments_of_world(model, world).select_features(used)[known]
    if isinstance(posterior, DiagonalNIW):
        found: NIW = reference_of_features(moments)
    elif posterior.scale.ndim == 3 and len(posterior.scale) < len(known):
        return reference_of_tied(moments)
    else:
        found = reference_of_classes(moments)
    trusted = _by_own_prior(model, moments)
    if not trusted.any():
        return found
    return type(found)(*(np.where(_wide(trusted, b), a, b) for a, b in _parameters(posterior, found)))


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


def _through_noise(model: GaussianClasses, posterior: DeconvolvedNIW) -> NIW:
    """Return a posterior of true values, the prior's samples taken out of its degrees of freedom.

    As many noise-free samples as told as much, c, stand for n in Hotelling's distribution.
    """
    known = model.known
    prior = model.prior.take(known)
    p, tied = posterior.n_features, len(np.atleast_1d(posterior.dof)) < len(known)
    full = model.prior.n_features
    count = posterior.dof - p - (prior.dof - full)
    free = count - (len(known) if tied else 1.0)
    weight = np.minimum(posterior.dof - p - 1.0, count + 1.0)
    if isinstance(posterior, DeconvolvedDiagonal):
        own = posterior.variance_dof - (np.atleast_1d(posterior.dof) - p - count)[..., None] - 2.0
        features = np.maximum(own, _FEWEST)
        grown = ((own + 2.0) / (features - 2.0))[..., None] * np.eye(p)
        expected = posterior.expected_covariance * np.maximum(grown, np.eye(p))
        scale = expected * (posterior.dof - p - 1.0)[..., None, None]
        return _changed(posterior, scale=scale, variance_dof=features)
    dof = np.maximum(free, p - 1.0 + _FEWEST)
    return _changed(posterior, scale=posterior.expected_covariance * weight[..., None, None], dof=dof)


def _changed(posterior: DeconvolvedNIW, **changes: Array) -> NIW:
    fields = {name: getattr(posterior, name) for name in posterior.parameters()} | changes
    return type(posterior)(**fields)


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
