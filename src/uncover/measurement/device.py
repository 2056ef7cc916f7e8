"""Prediction for arrays on a device: torch and CuPy by the array API, computed where they lie."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from uncover.bayes.budget import UncertaintyBudget
from uncover.bayes.class_densities import Pairs
from uncover.bayes.linalg import slices
from uncover.engines.cuda import (
    DrawnModels,
    entropy_given_draws,
    has_kernels,
    p_values_on_device,
    probability_on_device,
)
from uncover.engines.device import BLOCK_NUMBERS, DeviceDensities
from uncover.measurement.attribution import ModelDraws
from uncover.measurement.class_prediction import draws_of_readings
from uncover.measurement.predictor import Predictor
from uncover.models.gaussian import GaussianClasses
from uncover.models.realisations import Structure


class DevicePrediction:
    """Prediction of samples on a device: (sample, feature) or (sample, realisation, feature)."""

    def __init__(self, model: GaussianClasses, X: Any, paired: bool) -> None:
        self.model = model
        used, self.structure = model.used_features, _structure(X)
        self.predictor = Predictor.of(model, paired=paired)
        found = self.predictor.densities(self.structure.realisations, used)
        if found is None:
            raise ValueError(
                "on a device the class models must be Student t without known noise, one reading for each "
                "realisation; copy X to the host for this model."
            )
        densities, pairs = found
        self.scorer = DeviceDensities(densities, pairs, X if X.ndim == 3 else X[:, None, :])
        self.xp, self.kernels = self.scorer.xp, has_kernels(X)
        if not used.all():
            chosen = self.xp.asarray(np.flatnonzero(used), device=X.device)
            self.scorer.X = self.scorer.X[..., chosen]
        # The divisor of the log joints of the densities: those of components have none.
        self.temperature = model.temperature if densities.components.trivial else 1.0

    @staticmethod
    def reaches(model: GaussianClasses, X: Any, paired: bool) -> bool:
        """Tell whether predictions for X can be made on the device."""
        predictor = Predictor.of(model, paired=paired)
        return predictor.densities(_structure(X).realisations, model.used_features) is not None

    def probability(self) -> Any:
        """P(class | x, D)."""
        scorer = self.scorer
        if self.kernels:
            return self._among_all(probability_on_device(scorer.densities, scorer.X, scorer.pairs))
        return self._among_all(
            scorer.average(
                lambda joint, _, w: scorer.softmax(scorer.log_odds(joint)), scorer.densities.n_classes
            )
        )

    def log_density(self) -> Any:
        """log p(x | D), the densities of the readings averaged: (sample,)."""
        xp, X = self.xp, self.scorer.X
        scale, each = self.scorer.here(np.log(self.model.class_factor[self.model.known]), X), []
        for r, w in zip(*self.scorer.pairs, strict=True):
            joint = self.scorer.log_joint(X[:, int(r)], int(w))[0] * self.temperature - scale
            top = xp.max(joint, axis=1)
            each.append(top + xp.log(xp.sum(xp.exp(joint - top[:, None]), axis=1)))
        return reduce(xp.logaddexp, each) - float(np.log(len(self.scorer.pairs.worlds)))

    def typicality(self) -> Any:
        """p-value for each class."""
        scorer = self.scorer
        if self.kernels:
            return self._among_all(p_values_on_device(scorer.densities, scorer.X, scorer.pairs))
        return self._among_all(scorer.p_values())

    def budget(self, n_draws: int) -> UncertaintyBudget:
        """Where the uncertainty comes from: models are drawn on the host, and used on the device."""
        xp, X = self.xp, self.scorer.X
        draws = draws_of_readings(self.predictor, self.structure, n_draws)
        readings = list(zip(*self.scorer.pairs, draws, strict=True))
        parts = xp.zeros((4, X.shape[0]), dtype=X.dtype, device=X.device)
        size = X.shape[0] if self.kernels else max(1, BLOCK_NUMBERS // draws[0].gaussians.mean.size)
        for rows in slices(X.shape[0], size):
            each = [self._split(X[rows, int(r)], int(w), models) for r, w, models in readings]
            mean_P, inner, model, overlap = (sum(part) / len(readings) for part in zip(*each, strict=True))
            total = self.scorer.entropy(mean_P)
            between = xp.clip(total - inner, min=0.0)
            parts[:, rows] = xp.astype(xp.stack([total, model, between, overlap]), X.dtype)
        return UncertaintyBudget(*parts)

    def _split(self, points: Any, w: int, models: ModelDraws) -> tuple[Any, Any, Any, Any]:
        """Class probabilities of points in a world, their entropy, and its model and overlap part."""
        xp, scorer = self.xp, self.scorer
        if self.kernels:
            of_world = Pairs(np.zeros(1, int), np.full(1, w))
            P = probability_on_device(scorer.densities, points[:, None, :], of_world)
            P = xp.astype(P, xp.float64)
            rest = self._entropy_given(points, P, models)
        else:
            P = xp.astype(scorer.softmax(scorer.log_odds(scorer.scores(points, w)[0])), xp.float64)
            odds = scorer.log_odds(self._log_joint_of_draws(points, models) / self.temperature)
            table = P[:, None, :] * scorer.softmax(odds)
            rest = xp.sum(scorer.entropy(table), axis=1) - scorer.entropy(xp.sum(table, axis=2))
        entropy = scorer.entropy(P)
        rest = xp.minimum(xp.clip(rest, min=0.0), entropy)
        n = len(models.log_phi)  # to second order, n draws have (n − 1)/n of the information
        model = xp.minimum((entropy - rest) * (n / max(n - 1, 1)), entropy)
        return P, entropy, model, entropy - model

    def _entropy_given(self, points: Any, P: Any, models: ModelDraws) -> Any:
        """Mean entropy of the class once it is known which of the drawn models is right: (sample,)."""
        gaussians, densities = models.gaussians, self.scorer.densities
        n, K, p = gaussians.mean.shape
        whitening = np.broadcast_to(gaussians.whitening, (n, K, p, p))
        drawn = DrawnModels(gaussians.mean, whitening, models.log_phi + gaussians.log_det)
        components = densities.components
        temperature = self.temperature if components.trivial else components.temperature
        return entropy_given_draws(densities, self.xp.astype(points, self.xp.float64), P, drawn, temperature)

    def _log_joint_of_draws(self, points: Any, models: ModelDraws) -> Any:
        """log P(class) + log p(x | class) of drawn models, in double precision: (sample, draw, class)."""
        xp, gaussians = self.xp, models.gaussians
        n, K, p = gaussians.mean.shape
        x = xp.astype(points, xp.float64)
        centre = self.scorer.densities.centre
        whitening = np.broadcast_to(gaussians.whitening, (n, K, p, p))
        shift = np.einsum("nkij,nkj->nki", whitening, gaussians.mean - centre)
        stacked = self.scorer.here(whitening.reshape(n * K * p, p).T, x)
        z = (x - self.scorer.here(centre, x)) @ stacked - self.scorer.here(shift.reshape(-1), x)
        q = xp.sum(xp.reshape(z * z, (x.shape[0], n, K, p)), axis=3)
        return self.scorer.here(models.log_phi + gaussians.log_det, x) - 0.5 * q

    def _among_all(self, values: Any) -> Any:
        """Columns of the known classes among all classes; the others have 0."""
        known, K = self.model.known_classes, len(self.model.classes)
        if len(known) == K:
            return values
        out = self.xp.zeros((values.shape[0], K), dtype=values.dtype, device=values.device)
        for column, k in enumerate(known):
            out[:, int(k)] = values[:, column]
        return out


def _structure(X: Any) -> Structure:
    return Structure(X.shape[1] if X.ndim == 3 else None)
