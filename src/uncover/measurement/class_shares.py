"""Class shares of the population that samples are from, by a fitted model, with the doubt in the model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.class_shares import ClassShares, estimate_shares, likeliest_shares
from uncover.bayes.streams import stream
from uncover.measurement.observation import Observation
from uncover.models.gaussian import GaussianClasses
from uncover.models.pool import Pool
from uncover.models.realisations import MEAN_WORLD

Array = NDArray[np.float64]

#: Drawn models whose shares are compared, and samples that these are asked about.
_DRAWS, _ASKED = 48, 3000


def trained_shares(model: GaussianClasses | Pool) -> Array:
    """Class shares that the probabilities of a model are for: (class,)."""
    if isinstance(model, Pool):
        log = model.log_shares if model.log_odds_shift is None else model.log_shares + model.log_odds_shift
        return np.asarray(np.exp(log))
    shares = model.components.total(model.concentration)
    return np.asarray(shares / shares.sum())


def class_shares(
    model: GaussianClasses | Pool,
    probability: Array,
    values: Array,
    groups: NDArray[np.intp] | None = None,
    read: float = 0.0,
) -> ClassShares:
    """Estimate class shares from probabilities (sample, class), and `true_values` of the samples.

    The parameters of the model are in doubt, and for all samples alike: shares are found by drawn parameters
    too, those of the Gaussian classes in the model, and the covariance over the draws is added.
    """
    likelihood = np.asarray(probability, np.float64) / trained_shares(model)
    found = estimate_shares(likelihood, groups, read)
    rows = np.unique(np.linspace(0, len(likelihood) - 1, min(_ASKED, len(likelihood))).astype(np.intp))
    gaussians = model.truth_model if isinstance(model, Pool) else model
    if len(gaussians.known) < len(gaussians.count):
        return found
    changes = _log_changes(gaussians, values[rows])
    drawn = np.log(np.maximum(likelihood[rows], np.finfo(float).tiny)) + changes
    each = np.stack([likeliest_shares(np.exp(one - one.max(1, keepdims=True))) for one in drawn])
    return ClassShares(found.shares, found.covariance + np.cov(each, rowvar=False))


def true_values(model: GaussianClasses | Pool, observation: Observation) -> Array:
    """One draw of the true value of each sample, as the Gaussian classes of a model take it."""
    X = observation.X if observation.X.ndim == 2 else observation.X.mean(axis=1)
    values = X
    if observation.noise is not None or np.isnan(X).any():
        values = model.true_values(X, observation.noise, 1, stream(0, "true values of class shares"))[:, 0]
    if isinstance(model, Pool) and model.members[model.truth].transform:
        assert model.floor is not None
        return np.asarray(np.log(np.maximum(values, model.floor)))
    return np.asarray(values)


def _log_changes(model: GaussianClasses, points: Array) -> Array:
    """Log densities of classes with drawn parameters, less the mean density: (draw, sample, class)."""
    posterior, components = (
        model.known_posterior(None if model.n_worlds is None else MEAN_WORLD),
        model.known_components,
    )
    used = points[:, model.used_features]
    drawn = posterior.draw(_DRAWS, stream(model.seed, "models of class shares")).log_prob(used)
    within = np.log(model.count / components.total(model.count)[components.owner])
    mean = posterior.predictive().log_prob(used)
    each, mean = (components.log_joint(within + log) for log in (drawn, mean))
    return np.asarray(np.moveaxis(each - mean[:, None], 1, 0) / components.temperature)
