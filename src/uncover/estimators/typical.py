"""Which distances the typicality of a fitted model is read from: those whose distribution is known."""

import numpy as np

from uncover.bayes.deconvolved import DeconvolvedDiagonal, DeconvolvedNIW
from uncover.bayes.evidence import per_sample
from uncover.bayes.hotelling import reference_of_classes, reference_of_features, reference_of_tied
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW, DiagonalNIW
from uncover.estimators.realisations import MEAN_WORLD

# Degrees of freedom of a Student t whose covariance is to exist, at least.
_FEWEST = 2.2


def reference_posterior(model, world, used, posterior: NIW) -> NIW:
    """Return the posterior of the known classes that typicality in one world is read from.

    ``used`` says which of all features count; ``posterior`` is the model's own for them.
    """
    known = model._known_classes()
    if isinstance(posterior, DeconvolvedNIW):
        return _through_noise(model, posterior, known)
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


def _through_noise(model, posterior, known):
    """Return a posterior of true values, the prior's samples taken out of its degrees of freedom.

    As many noise-free samples as told as much, c, stand for n in Hotelling's distribution.
    """
    prior = model.prior_.take(known)
    p, tied = posterior.n_features, len(np.atleast_1d(posterior.dof)) < len(known)
    full = model.prior_.n_features
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


def _changed(posterior, **changes):
    fields = {name: getattr(posterior, name) for name in posterior.parameters()} | changes
    return type(posterior)(**fields)
