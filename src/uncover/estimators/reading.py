"""How a fitted model reads new inputs: views of them, and the class models that apply to each view."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from uncover.bayes.covariances import Covariances
from uncover.bayes.deconvolved import DeconvolvedNIW
from uncover.bayes.niw import NIW
from uncover.bayes.noise import log_prob_with_noise, typicality_with_noise
from uncover.bayes.streams import stream
from uncover.bayes.student_t import IndependentT, StudentT
from uncover.estimators.inputs import Inputs
from uncover.estimators.realisations import Pairing, View

# Worlds that stand for a common error given by its covariance.
SYSTEMATIC_WORLDS = 64
# Numbers (float64) that one block of samples may need.
_BLOCK_NUMBERS = 1 << 20


@dataclass(frozen=True)
class ClassModels:
    """Posteriors of the known classes for one view, without the samples.

    Attributes
    ----------
    posterior : NIW
        What the view's points come from, less the noise that is known.
    noise : array of shape (feature, feature) or None
        What the points carry beyond the posterior's own noise, for every sample the same.
    truth : NIW or None
        Class models of true values, where they can be told from measured ones.
    full_noise : array of shape (feature, feature) or None
        What the points carry beyond the true values, for every sample the same.
    """

    posterior: NIW
    noise: np.ndarray | None = None
    truth: NIW | None = None
    full_noise: np.ndarray | None = None

    @cached_property
    def predictive(self) -> StudentT | IndependentT:
        """Predictive densities of the classes."""
        return self.posterior.predictive()


@dataclass(frozen=True)
class Sight:
    """A view of some samples together with the class models for it."""

    points: np.ndarray  # (sample, feature), of the features in use
    models: ClassModels
    sample_noise: Covariances | None
    log_prior: np.ndarray  # (class,), of the known classes
    world: int | None
    method: str

    @property
    def noise(self) -> Covariances | None:
        """Known noise of the points beyond the posterior's own."""
        common = self.models.noise
        return self.sample_noise if common is None else Covariances(common, None, None)

    @property
    def full_noise(self) -> Covariances | None:
        """Known noise of the points beyond the true values."""
        common = self.models.full_noise
        return self.sample_noise if common is None else Covariances(common, None, None)

    def log_joint(self) -> np.ndarray:
        """log P(class) + log p(x | class) of the known classes: (sample, class)."""
        if self.points.shape[1] == 0:
            return np.broadcast_to(self.log_prior, (len(self.points), len(self.log_prior))).copy()
        predictive, noise = self.models.predictive, self.noise
        if noise is None:
            return self.log_prior + predictive.log_prob(self.points)
        densities = [
            log_prob_with_noise(predictive[k], self.points, noise, self.method)
            for k in range(len(self.log_prior))
        ]
        return self.log_prior + np.stack(densities, axis=-1)

    def typicality(self) -> np.ndarray:
        """p-value of each point for each known class: (sample, class)."""
        if self.points.shape[1] == 0:
            return np.full((len(self.points), len(self.log_prior)), np.nan)
        predictive, noise = self.models.predictive, self.noise
        if noise is None:
            return predictive.typicality(self.points)
        each = [typicality_with_noise(predictive[k], self.points, noise) for k in range(len(self.log_prior))]
        return np.stack(each, axis=-1)


class Reader:
    """Cuts inputs into blocks of samples, and gives the sights of each block.

    Samples that lack features are read block by block with the marginal models of the others.
    """

    def __init__(self, model, *, paired: bool, method: str) -> None:
        self.model = model
        self.kind = model._kind()
        self.pairing = Pairing(model.statistics_.realisations, paired, model.random_state)
        self.method = method
        self._models: dict = {}

    def blocks(self, inputs: Inputs, extra: int = 1) -> Iterator[tuple[np.ndarray, list[Sight]]]:
        """Index of the samples and their sights, block by block; ``extra`` numbers more for each sample."""
        n_views = len(self.views(_rows_of(inputs, slice(0, 1))))
        per_row = n_views * extra * (len(self.model.classes_) + self.model.n_features_in_)
        size = max(1, _BLOCK_NUMBERS // per_row)
        for rows, used in self._patterns(inputs.X):
            for start in range(0, len(rows), size):
                block = rows[start : start + size]
                views = self.views(_rows_of(inputs, block))
                yield block, [self.sight(view, used) for view in views]

    def views(self, inputs: Inputs, world: int | None = None) -> list[View]:
        """Views of the samples, shifted by the worlds of a systematic error where there is one.

        With a world given, X is the realisation that belongs to it.
        """
        views = self.kind.views(inputs, self.pairing) if world is None else [View(inputs.X, world)]
        shifts = self._systematic_shifts(inputs)
        if shifts is None:
            return views
        return [replace(view, points=view.points - shift) for view in views for shift in shifts]

    def _systematic_shifts(self, inputs: Inputs) -> np.ndarray | None:
        """Draws of the difference of two scenes' common errors; None where they cancel or there are none."""
        known = [c for c in (self.model.systematic_, inputs.systematic) if c is not None]
        if self.pairing.paired or not known:
            return None
        p = self.model.n_features_in_
        rng = stream(self.model.random_state, "systematic")
        uniform = qmc.Sobol(p, rng=rng).random(SYSTEMATIC_WORLDS)
        value, axes = np.linalg.eigh(sum(known))
        normal = ndtri(np.clip(uniform, 1e-12, 1 - 1e-12))
        normal -= normal.mean(0)
        return normal @ (axes * np.sqrt(np.maximum(value, 0.0))).T

    def _patterns(self, X: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Samples that lack the same features, and the features that they have."""
        lacking = np.isnan(X)
        used = ~self.model.ignored_features_
        if not lacking.any():
            yield np.arange(len(X)), used
            return
        lacking = lacking.any(axis=1) if X.ndim == 3 else lacking
        patterns, which = np.unique(lacking, axis=0, return_inverse=True)
        for i, pattern in enumerate(patterns):
            yield np.flatnonzero(which.ravel() == i), used & ~pattern

    def sight(self, view: View, used: np.ndarray) -> Sight:
        """A view with the class models of the features in use."""
        points = view.points if used.all() else view.points[:, used]
        noise = view.noise if view.noise is None or used.all() else view.noise.select_features(used)
        key = (view.world, view.repeats, noise is None, used.tobytes())
        if key not in self._models:
            self._models[key] = self._class_models(view, used)
        log_prior = self.model._log_class_prior()
        return Sight(points, self._models[key], noise, log_prior, view.world, self.method)

    def _class_models(self, view: View, used: np.ndarray) -> ClassModels:
        fitted = self.model._posterior_of_world(view.world)
        kept = used[~self.model.ignored_features_]
        posterior = fitted if kept.all() or not kept.any() else fitted.select_features(kept)
        repeat_noise = self.model.statistics_.noise if view.repeats is not None else None
        if repeat_noise is None or isinstance(posterior, DeconvolvedNIW):
            return ClassModels(posterior, truth=None if view.noise is None else posterior)
        noise = repeat_noise[used][:, used]
        before, now = 1.0 / self.model.statistics_.realisations, 1.0 / (view.repeats or 1)
        truth = posterior.exchange_noise(noise, present=before, wanted=0.0)
        if view.noise is not None:
            return ClassModels(truth, truth=truth)
        if now > before:
            return ClassModels(posterior, (now - before) * noise, truth, now * noise)
        if now < before:
            posterior = posterior.exchange_noise(noise, present=before, wanted=now)
        return ClassModels(posterior, None, truth, now * noise)


def _rows_of(inputs: Inputs, rows) -> Inputs:
    noise = None if inputs.noise is None else inputs.noise[rows]
    return Inputs(inputs.X[rows], noise, inputs.systematic)
