"""Which distances the typicality of a fitted model is read from: those whose distribution is known."""

import numpy as np

from uncover.bayes.deconvolved import DeconvolvedDiagonal, DeconvolvedNIW
from uncover.bayes.evidence import per_sample
from uncover.bayes.hotelling import (
    reference_of_classes,
    reference_of_features,
    reference_of_tied,
    scatter_suffices,
)
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW, DiagonalNIW
from uncover.estimators.realisations import MEAN_WORLD


def reference_posterior(model, world, used, posterior: NIW) -> NIW:
    """Return the posterior of the known classes that typicality in one world is read from.

    ``used`` says which of all features count; ``posterior`` is the model's own for them.
    """
    known = model._known_classes()
    moments = _moments_of_world(model, world).select_features(used)[known]
    if isinstance(posterior, DiagonalNIW | DeconvolvedDiagonal):
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


def reference_noise(model, used, posterior: NIW) -> np.ndarray:
    """Return the mean noise of the samples behind :func:`reference_posterior`: (class, feature, feature).

    None is taken out of a class whose own scatter says too little: typicality is then rather too high.
    """
    known, p = model._known_classes(), int(used.sum())
    if not isinstance(posterior, DeconvolvedNIW) or getattr(model, "class_noise_", None) is None:
        return np.zeros((len(known), p, p))
    kept = used[~model.ignored_features_]
    noise = model.class_noise_[known][:, kept][:, :, kept]
    moments = _moments_of_world(model, None).select_features(used)[known]
    if _tied(posterior, known):
        # The mean of class k has the noise of its own samples, their common scatter that of all.
        free = np.maximum(moments.count - 1.0, 0.0)
        if not scatter_suffices(moments.scatter.sum(0), free.sum()):
            return np.zeros_like(noise)
        pooled = np.tensordot(free / free.sum(), noise, axes=1)
        return pooled - (noise - pooled) / np.maximum(moments.count, 1.0)[:, None, None]
    if isinstance(posterior, DeconvolvedDiagonal):
        suffices = moments.count >= 2
    else:
        pairs = zip(moments.scatter, moments.count - 1.0, strict=True)
        suffices = np.array([scatter_suffices(scatter, free) for scatter, free in pairs])
    return noise * (suffices & ~_by_own_prior(model, moments))[:, None, None]


def _tied(posterior, known) -> bool:
    """Whether the classes share one covariance."""
    return posterior.scale.ndim == 3 and len(posterior.scale) < len(known)


def _evenness(model, posterior, known):
    """Return how many samples of equal noise each sample of the classes is worth: (class,), or (1,)."""
    each = getattr(model, "noise_evenness_", None)
    if each is None:
        return 1.0
    each = each[known]
    count = model.class_count_[known]
    return np.array([each @ count / count.sum()]) if _tied(posterior, known) else each


def _as_even(reference: NIW, evenness) -> NIW:
    """Return a reference of fewer degrees of freedom, because the noise of its samples is not the same."""
    p = reference.n_features
    other, least = (p - 1.0, 1.0) if isinstance(reference, DiagonalNIW) else (0.0, p)
    free = reference.dof - other
    left = np.maximum(free * evenness, np.minimum(free, least))
    scale = reference.scale * (left / free)[..., None, None]
    return type(reference)(reference.mean, reference.strength, scale, left + other)


def _moments_of_world(model, world) -> Moments:
    """Moments of all classes, a sample of several rows counting once."""
    moments = model.statistics_.classes
    if moments.count.ndim == 2:
        if world is None or world == MEAN_WORLD:
            parts = (moments.count, moments.mean, moments.scatter, moments.residual)
            moments = Moments(*(part.mean(0) for part in parts))
        else:
            moments = moments[world]
    return per_sample(moments, model.statistics_.rows_per_sample(model._kind()))


def _by_own_prior(model, moments):
    """Return the classes that only the prior knows: it is the user's, and samples are few."""
    given = not isinstance(model.prior, str)
    return (moments.count == 0) | (given & (moments.count <= moments.n_features))


def _parameters(one, other):
    """Parameters of two distributions, each with the axis of classes."""
    K, p = len(other.mean), other.n_features
    for name, trailing in other.parameters().items():
        shape = (K, *(p,) * trailing)
        yield np.broadcast_to(getattr(one, name), shape), getattr(other, name)


def _wide(mask, like):
    return mask.reshape(-1, *(1,) * (like.ndim - 1))
