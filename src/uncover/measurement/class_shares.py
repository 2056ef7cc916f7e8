"""Class shares of the population that samples are from, by a fitted model, with the doubt in the model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import polygamma

from uncover.bayes.class_shares import ClassShares, estimate_shares, likeliest_shares
from uncover.bayes.streams import stream
from uncover.engines.members import FastGaussians, FastStudentT
from uncover.measurement.observation import Observation
from uncover.models.gaussian import GaussianClasses
from uncover.models.pool import Pool
from uncover.models.realisations import MEAN_WORLD

Array = NDArray[np.float64]

#: Samples that worlds and drawn models are asked about.
_ASKED = 3000


def trained_shares(model: GaussianClasses | Pool) -> Array:
    """Class shares that the probabilities of a model are for: (class,)."""
    if isinstance(model, Pool):
        log = model.log_shares if model.log_odds_shift is None else model.log_shares + model.log_odds_shift
        return np.asarray(np.exp(log))
    shares = model.components.total(model.concentration)
    return np.asarray(shares / shares.sum())


def log_share_covariance(model: GaussianClasses | Pool) -> Array:
    """Covariance of the logarithms of the class shares that probabilities are for: (class, class).

    Shares have the Dirichlet distribution that training samples give them, as if these were drawn at random
    from the land; shares that were stated have none.
    """
    if isinstance(model, Pool):
        alpha = (
            model.class_count + 1.0 if model.log_odds_shift is None else np.full(len(model.classes), np.inf)
        )
    else:
        alpha = model.components.total(model.concentration)
    return np.diag(polygamma(1, alpha))


def class_shares(
    model: GaussianClasses | Pool,
    probability: Array,
    common: tuple[Array, Array],
    groups: NDArray[np.intp] | None = None,
    read: float = 0.0,
) -> ClassShares:
    """Estimate class shares from probabilities (sample, class).

    Errors of the measurement that all samples share, and the doubt in the parameters of the model, do not
    average out: shares are found too from the probabilities of some samples in each world and by each drawn
    model, ``common`` (draw, sample, class), and the covariances over both are added.
    """
    trained = trained_shares(model)
    found = estimate_shares(probability / trained, groups, read)
    each = (
        [likeliest_shares(np.maximum(P, np.finfo(float).tiny) / trained, found.shares) for P in draws]
        for draws in common
    )
    of_worlds, of_model = (
        np.cov(shares, rowvar=False) if len(shares) > 1 else np.zeros_like(found.covariance)
        for shares in each
    )
    return ClassShares(found.shares, found.covariance + of_worlds + of_model, of_model, of_worlds)


def asked_of(n: int) -> NDArray[np.intp]:
    """Numbers of the samples, of n, that worlds and drawn models are asked about."""
    return np.unique(np.linspace(0, n - 1, min(_ASKED, n)).astype(np.intp))


def true_values(model: GaussianClasses | Pool, observation: Observation) -> Array:
    """One draw of the true value of each sample, as the Gaussian classes of a model take it."""
    X = observation.X if observation.X.ndim == 2 else observation.X.mean(axis=1)
    values = X
    if observation.noise is not None or np.isnan(X).any():
        rng = stream(0, "true values of class shares")
        values = model.true_values(X, observation.noise, 1, rng, method="fast")[:, 0]
    if isinstance(model, Pool) and model.members[model.truth].transform:
        assert model.floor is not None
        return np.asarray(np.log(np.maximum(values, model.floor)))
    return np.asarray(values)


def gaussians_of(model: GaussianClasses | Pool) -> GaussianClasses:
    """The Gaussian classes of a model, whose parameters are drawn."""
    return model.truth_model if isinstance(model, Pool) else model


def log_changes(model: GaussianClasses, points: Array, n: int) -> Array:
    """Log densities of the known classes with drawn parameters, less the mean density: (draw, sample, class).

    The draws are the same in every call.
    """
    key = "drawn parameters", n
    if key not in model.derived:
        posterior = model.known_posterior(None if model.n_worlds is None else MEAN_WORLD)
        drawn = posterior.draw(n, stream(model.seed, "models of class shares")).triangular()
        model.derived[key] = FastGaussians(*drawn), FastStudentT.of(posterior.predictive())
    drawn, predictive = model.derived[key]
    components, used = model.known_components, points[:, model.used_features]
    within = np.log(model.count[model.known] / components.total(model.count[model.known])[components.owner])
    each, mean = (components.log_joint(within + found.log_prob(used)) for found in (drawn, predictive))
    return np.asarray(np.moveaxis(each - mean[:, None], 1, 0) / components.temperature)
