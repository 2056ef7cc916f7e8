"""Predictions by Gaussian classes: every answer, averaged over the readings of an observation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from uncover.bayes.budget import UncertaintyBudget, entropy
from uncover.bayes.class_densities import Pairs
from uncover.bayes.population import UnknownOdds
from uncover.bayes.second_order import below_entropy, squared_distances
from uncover.bayes.streams import stream
from uncover.engines.class_densities import FastClassDensities
from uncover.measurement.attribution import ModelDraws, average_budgets, split_entropy
from uncover.measurement.observation import Observation
from uncover.measurement.predictor import ClassModels, MeasuredPoints, Predictor
from uncover.models.gaussian import GaussianClasses
from uncover.models.realisations import Structure
from uncover.models.typical import bounded_where_new

Array = NDArray[np.float64]

# Draws of class models and of true values behind the budget, unless asked for otherwise.
DRAWS, TRUE_VALUES = 1600, 8192


class Prediction:
    """Predictions of a fitted model for an observation; each method is one pass over the samples."""

    def __init__(self, predictor: Predictor, observation: Observation) -> None:
        self.predictor, self.observation = predictor, observation
        self.model = predictor.model

    @classmethod
    def of(
        cls, model: GaussianClasses, observation: Observation, *, paired: bool = True, method: str = "exact"
    ) -> Prediction:
        """Prediction of classes, in the scene that trained them (``paired``) or another."""
        return cls(Predictor.of(model, paired=paired, method=method), observation)

    def probability(self) -> NDArray[Any]:
        """P(class | x, D): (sample, class)."""
        fast = self._fast_path
        if fast is None:
            return self._in_blocks(self._mean_probability)
        X, densities, pairs = fast
        return self.model.among_all_classes(densities.probability(X, pairs), 0.0)

    def by_view(self) -> Array:
        """P(class | x, D) by each reading, of which `probability` is the mean: (sample, reading, class)."""
        if self._fast_path is not None:
            X, densities, pairs = self._fast_path
            views = (Pairs(np.zeros(1, np.int64), world[None]) for world in pairs.worlds)
            planes = np.asarray(X[:, pairs.realisations], np.float64).swapaxes(0, 1)[:, :, None]
            found = [densities.probability(*each) for each in zip(planes, views, strict=True)]
            return self.model.among_all_classes(np.stack(found, axis=1), 0.0)

        noisy = self._through_noise()
        if noisy is not None:
            return self.model.among_all_classes(noisy, 0.0)

        def each(readings: list[MeasuredPoints]) -> Array:
            found = [softmax(points.log_odds(), axis=1) for points in readings]
            return np.stack([self.model.among_all_classes(P, 0.0) for P in found], axis=1)

        return self._in_blocks(each, np.float64)

    def _through_noise(self) -> Array | None:
        """By each reading through known noise of matched covariance; None where machine code has none."""
        seen, predictor, used = self.observation, self.predictor, self.model.used_features
        if seen.noise is None or predictor.method != "fast" or seen.lacks_features:
            return None
        readings = predictor.readings(seen.structure)
        each = [seen.noise_of(reading, self.model.statistics.drawn, used) for reading in readings]
        densities = predictor.views_with_noise(seen.structure, used, predictor.systematic(seen.systematic))
        if densities is None or any(len(noise) != 1 for noise in each):
            return None
        n, out = len(seen), np.empty((len(seen), len(readings), len(self.model.known_classes)))
        for one in dict.fromkeys(densities):  # readings of the same class models at once
            mine = [i for i, other in enumerate(densities) if other is one]
            points = np.concatenate([seen.points(readings[i])[:, used] for i in mine])
            noise = np.concatenate([each[i][0].of_each(n) for i in mine])
            found = one.read(np.ascontiguousarray(points.T)[None], covariances=noise).probability
            out[:, mine] = found.reshape(-1, len(mine), n).transpose(2, 1, 0)
        return out

    def log_probability(self, dtype: Any = None) -> NDArray[Any]:
        """log P(class | x, D), exact where the probability underflows to 0: (sample, class)."""
        return self._in_blocks(self._mean_log_probability, dtype)

    def log_joint(self) -> Array:
        """log P(class) + log p(x | class) by each reading: (sample, reading, class)."""
        return self._in_blocks(self._log_joints, np.float64)

    def component_log_joint(self) -> Array:
        """The same of the components: (sample, reading, component)."""
        return self._in_blocks(self._component_log_joints, np.float64)

    def log_density(self) -> NDArray[Any]:
        """log p(x | D); of several readings the densities are averaged: (sample,)."""
        factor = np.log(self.model.class_factor[self.model.known])

        def mean(readings: list[MeasuredPoints]) -> Array:
            logs = [logsumexp(points.log_joint() - factor, axis=1) for points in readings]
            return np.asarray(logsumexp(logs, axis=0) - np.log(len(logs)))

        return self._in_blocks(mean)

    def typicality(self, *, per_class: bool = False) -> NDArray[Any]:
        """p-value of each sample: the largest over the classes, (sample,), or of each, (sample, class)."""

        def mean(readings: list[MeasuredPoints]) -> Array:
            each = [points.typicality() for points in readings]
            of_components = np.asarray(sum(each) / len(each))
            of_classes = self.predictor.components.largest(of_components)
            p_value = self.model.among_all_classes(of_classes, 0.0)
            return np.asarray(p_value if per_class else p_value.max(axis=1))

        found = self._in_blocks(mean)
        if self.observation.noise is not None:
            return found
        return bounded_where_new(self.model, found, self.observation.X)

    def unknown(self) -> UnknownOdds:
        """Density of a further class of the population that the trained ones are draws of, over theirs."""
        own, X = Prediction(self.predictor.of_one_population, self.observation), self.observation.X
        ratio = own._in_blocks(lambda readings: np.stack([r.log_unknown() for r in readings], 1), np.float64)
        present = ~np.isnan(X) if X.ndim == 2 else ~np.isnan(X).any(1)
        n_features = present[:, self.model.used_features].sum(1)
        if self.observation.noise is None:
            # A feature differs that never varied: in none of n samples, and in none of K classes.
            bound = bounded_where_new(self.model, np.ones(len(ratio)), X)
            odds = np.where(bound < 1.0, 1.0 / (bound * (len(self.model.known) + 2.0)), 1.0)
            ratio += (np.sqrt(n_features) * np.log(odds))[:, None, None]
        return UnknownOdds(ratio, n_features)

    def budget(self, n_draws: int = DRAWS, n_true_values: int = TRUE_VALUES) -> UncertaintyBudget:
        """Where the uncertainty of each prediction comes from, by draws of models and of true values."""
        drawn: dict[ClassModels, ModelDraws] = {}
        parts = np.empty((4, len(self.observation)))
        realisations = self.observation.structure.realisations or 1
        extra = max(n_draws // realisations, n_true_values)
        for rows, readings in self.predictor.blocks(self.observation, extra):
            found = []
            for i, points in enumerate(readings):
                if points.models not in drawn and points.points.shape[1]:
                    drawn[points.models] = self._draw_models(points, n_draws)
                models = drawn.get(points.models)  # none where no feature is left
                share = None if models is None else models.share(i, len(readings))
                rng = stream(self.model.seed, "true values", i)
                found.append(split_entropy(points, share, n_true_values, rng))
            budget = average_budgets(found)
            parts[:, rows] = budget.total, budget.model, budget.measurement, budget.overlap
        return UncertaintyBudget(*parts)

    def model_part(self, numbers: NDArray[np.intp], weights: Array) -> Array:
        """Model part of the budget in closed form, as in maps, the average over some readings: (sample,)."""

        def mean(readings: list[MeasuredPoints]) -> Array:
            parts = (w * _closed_model_part(readings[i]) for i, w in zip(numbers, weights, strict=True))
            return np.asarray(sum(parts))

        return self._in_blocks(mean, np.float64)

    def _draw_models(self, points: MeasuredPoints, n: int) -> ModelDraws:
        n = 5 * n if points.noisy else n  # each of several true values has models of its own
        return draw_models(self.model, points.models, points.world, n)

    # ---- averages over readings ----------------------------------------------------------------------

    def _mean_probability(self, readings: list[MeasuredPoints]) -> Array:
        P = sum(softmax(points.log_odds(), axis=1) for points in readings) / len(readings)
        return self.model.among_all_classes(P, 0.0)

    def _mean_log_probability(self, readings: list[MeasuredPoints]) -> Array:
        joints = (points.log_odds() for points in readings)
        logs = [joint - logsumexp(joint, axis=1, keepdims=True) for joint in joints]
        mean = logs[0] if len(logs) == 1 else logsumexp(logs, axis=0) - np.log(len(logs))
        return self.model.among_all_classes(mean, -np.inf)

    def _log_joints(self, readings: list[MeasuredPoints]) -> Array:
        each = [self.predictor.components.log_joint(points.log_joint()) for points in readings]
        return self.model.among_all_classes(np.stack(each, axis=1), -np.inf)

    def _component_log_joints(self, readings: list[MeasuredPoints]) -> Array:
        out = np.full((len(readings[0].points), len(readings), len(self.model.count)), -np.inf)
        for i, points in enumerate(readings):
            out[:, i, self.model.known] = points.log_joint()
        return out

    def _in_blocks(self, combine: Callable[[list[MeasuredPoints]], Array], dtype: Any = None) -> NDArray[Any]:
        """Results of ``combine(readings)`` for blocks of samples, in the samples' order."""
        X, out = self.observation.X, None
        kind = dtype or (np.float32 if X.dtype == np.float32 else np.float64)
        for rows, readings in self.predictor.blocks(self.observation):
            result = combine(readings)
            if out is None:
                out = np.empty((len(X), *result.shape[1:]), kind)
            out[rows] = result
        assert out is not None
        return out

    @cached_property
    def _fast_path(self) -> tuple[NDArray[Any], FastClassDensities, Pairs] | None:
        """Samples (sample, realisation, feature), densities and worlds; None where it does not reach."""
        observation, used = self.observation, self.model.used_features
        X = observation.X
        common = self.predictor.systematic(observation.systematic)
        if observation.noise is not None or common is not None or observation.lacks_features:
            return None
        found = self.predictor.densities(observation.structure.realisations, used)
        X = X if X.ndim == 3 else X[:, None, :]
        return None if found is None else (X if used.all() else X[..., used], *found)


def _closed_model_part(points: MeasuredPoints) -> Array:
    """Model part of the budget of one reading to second order: (sample,)."""
    if points.points.shape[1] == 0:
        return np.zeros(len(points.points))
    joint, far = points.log_joint(), squared_distances(points.models.predictive, points.points)
    P = softmax(points.components.log_odds(joint), axis=1)
    variance = points.models.log_density_variance
    return below_entropy(variance.of_classes(points.components, P, far, joint), entropy(P))


def draw_models(model: GaussianClasses, models: ClassModels, world: int | None, n: int) -> ModelDraws:
    """Draw n class models of a reading."""
    truth = models.posterior if models.truth is None else models.truth
    rng = stream(model.seed, "models", world)
    return ModelDraws.of(truth, model.concentration, model.known, n, rng)


def draws_of_readings(predictor: Predictor, structure: Structure, n_draws: int) -> list[ModelDraws]:
    """The drawn models of each reading of all features, a share of them each."""
    used, readings = predictor.model.used_features, predictor.readings(structure)
    models = [(predictor.class_models(reading, used), reading.world) for reading in readings]
    drawn = {m: draw_models(predictor.model, m, world, n_draws) for m, world in dict.fromkeys(models)}
    return [drawn[m].share(i, len(models)) for i, (m, _) in enumerate(models)]
