"""Observations as a fitted model reads them: class models of each reading, exact or arranged for speed.

The readings of an observation, and the class models that apply to them, follow from its structure alone;
points come later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from uncover.bayes.class_densities import Pairs
from uncover.bayes.class_densities_with_noise import DensityWithNoise
from uncover.bayes.components import Components
from uncover.bayes.covariances import Covariances
from uncover.bayes.deconvolved import DeconvolvedNIW
from uncover.bayes.hotelling import TypicalityReference, alike
from uncover.bayes.niw import NIW
from uncover.bayes.noise import (
    log_prob_with_noise,
    places_needed,
    sample_true_value_of_mixture,
    sobol_places,
)
from uncover.bayes.population import RELATIVES, further_class
from uncover.bayes.second_order import LogDensityVariance
from uncover.bayes.student_t import IndependentT, StudentT
from uncover.engines.class_densities import FastClassDensities
from uncover.engines.class_densities_with_noise import (
    FastClassDensitiesWithNoise,
    FastWorldDensitiesWithNoise,
)
from uncover.engines.members import FastStudentT
from uncover.measurement.observation import Observation
from uncover.models.gaussian import GaussianClasses
from uncover.models.realisations import Pairing, Reading, Structure
from uncover.models.typical import reference_noise, reference_posterior

Array = NDArray[np.float64]
Features = NDArray[np.bool_]  # (feature,), which are in use

# Numbers (float64) that one block of samples may need.
_BLOCK_NUMBERS = 1 << 20
# Class models that a predictor keeps, of patterns of missing features and readings.
_PATTERNS_KEPT = 256


@dataclass(frozen=True, eq=False)
class ClassModels:
    """Posteriors of the known components for one reading, without the samples."""

    posterior: NIW  # distribution of the class parameters behind the points, less the noise that is known
    concentration: Array  # (component,), Dirichlet parameters of their proportions
    noise: Array | None = None  # (feature, feature), beyond the posterior, common to all samples
    truth: NIW | None = None  # class models of true values, where they can be told from measured ones
    full_noise: Array | None = None  # (feature, feature), beyond the true values, common to all samples
    class_noise: Array | None = None  # (component, feature, feature), how its mean differs between worlds
    # Makes the densities that typicality is read from; None: those of the posterior above.
    make_reference: Callable[[], TypicalityReference] | None = None
    components: Components | None = None  # classes of the components; None where each is a class

    @cached_property
    def further(self) -> StudentT:
        """Predictive density of a further class of the same population."""
        components = self.components or Components.single(len(self.concentration))
        return further_class(self.posterior, components)

    @cached_property
    def predictive(self) -> StudentT | IndependentT:
        """Predictive densities of the components."""
        return FastStudentT.of(self.posterior.predictive())

    @cached_property
    def reference(self) -> TypicalityReference:
        """Densities that the typicality of points with known noise is read from."""
        if self.make_reference is not None:
            return self.make_reference()
        p = self.predictive.location.shape[-1]
        return TypicalityReference(self.predictive, np.zeros((*self.predictive.batch_shape, p, p)))

    @cached_property
    def typical(self) -> StudentT | IndependentT:
        """The same for points without noise: the predictive ones, where these say the same."""
        found = self.reference.without_noise()
        return self.predictive if alike(found, self.predictive) else found

    @cached_property
    def log_density_variance(self) -> LogDensityVariance:
        """Variance of the log densities over the posterior, for the budget."""
        return LogDensityVariance.of(self.posterior, self.concentration)

    def common_noise(self, k: int, systematic: Array | None, *, beyond_truth: bool = False) -> Array | None:
        """Noise covariance that all points have beyond component k, or beyond its true values."""
        of_class = None if self.class_noise is None else self.class_noise[k]
        parts = (self.full_noise if beyond_truth else self.noise, of_class, systematic)
        present = [part for part in parts if part is not None]
        return np.asarray(np.sum(present, axis=0)) if present else None

    def common_noises(self, systematic: Array | None, *, beyond_truth: bool = False) -> Array:
        """The same for all components, 0 where there is none: (component, feature, feature)."""
        C, p = len(self.concentration), self.posterior.n_features
        found = [self.common_noise(k, systematic, beyond_truth=beyond_truth) for k in range(C)]
        return np.stack([np.zeros((p, p)) if each is None else each for each in found])


@dataclass(frozen=True)
class MeasuredPoints:
    """Points of one reading together with the class models for it."""

    points: NDArray[Any]  # (sample, feature), of the features in use
    models: ClassModels
    sample_noise: list[Covariances]  # of each known component, or one for all; empty where there is none
    systematic: Array | None  # (feature, feature), of an error common to all samples
    log_prior: Array  # (component,), of the known components
    world: int | None
    method: str
    components: Components

    @property
    def noisy(self) -> bool:
        """True where the noise of the points is known, and true values can be drawn."""
        return self.full_noise(0) is not None

    @property
    def truth(self) -> NIW:
        """Class models that the noise comes on top of."""
        return self.models.posterior if self.models.truth is None else self.models.truth

    def noise(self, k: int) -> Covariances | None:
        """Known noise of the points beyond the posterior of component k."""
        return self._plus(k, self.models.common_noise(k, self.systematic))

    def full_noise(self, k: int) -> Covariances | None:
        """Known noise of the points beyond the true values of component k."""
        return self._plus(k, self.models.common_noise(k, self.systematic, beyond_truth=True))

    def _plus(self, k: int, common: Array | None) -> Covariances | None:
        if not self.sample_noise:
            return None if common is None else Covariances(common, None, None)
        own = self.sample_noise[k if len(self.sample_noise) > 1 else 0]
        return own if common is None else own.plus(common)

    def _noises(self) -> list[Covariances]:
        """Noise of each component; empty where there is none."""
        each = (self.noise(k) for k in range(len(self.log_prior)))
        return [noise for noise in each if noise is not None]

    def log_joint(self) -> Array:
        """log P(component) + log p(x | component) of the known components: (sample, component)."""
        return self._log_joint(self.models.predictive)

    def _log_joint(self, predictive: StudentT | IndependentT) -> Array:
        if self.points.shape[1] == 0:
            return np.broadcast_to(self.log_prior, (len(self.points), len(self.log_prior))).copy()
        noises = self._noises()
        if not noises:
            return np.asarray(self.log_prior + predictive.log_prob(self.points))
        densities = [
            log_prob_with_noise(predictive[k], self.points, noise, self.method)
            for k, noise in enumerate(noises)
        ]
        return np.asarray(self.log_prior + np.stack(densities, axis=-1))

    def log_odds(self) -> Array:
        """Log odds of the known classes: their log joint over the temperature."""
        return self.components.log_odds(self.log_joint())

    def log_unknown(self) -> Array:
        """log p₀(x) − log p(x): p₀ is that of a further class, p(x) that of the known ones: (sample, 2).

        A further class is a draw of their population, or a relative of one of them.
        """
        if self.points.shape[1] == 0:
            return np.zeros((len(self.points), 2))
        further, noise = self.models.further, self._noise_of_further()
        if noise is None:
            new = further.log_prob(self.points)
        else:
            new = log_prob_with_noise(further, self.points, noise, self.method)
        relatives = logsumexp(self._log_joint(self.models.predictive.widened(RELATIVES)), axis=1)
        return np.stack([new, relatives], axis=1) - logsumexp(self.log_joint(), axis=1, keepdims=True)

    def _noise_of_further(self) -> Covariances | None:
        """Noise of the points beyond a further class: the mean over components."""
        common = None
        if self.models.common_noise(0, self.systematic) is not None:
            common = self.models.common_noises(self.systematic).mean(0)
        if len(self.sample_noise) < 2:
            return self._plus(0, common)
        own = np.mean([noise.of_each(len(self.points)) for noise in self.sample_noise], axis=0)
        return Covariances(None, None, own if common is None else own + common)

    def true_values(self, probability: Array, n: int, rng: np.random.Generator) -> Array:
        """Draw true values from Σ_c P_c p(χ | x, c), with P of the components: (sample, n, feature).

        All points have the same random numbers, spread evenly: equal points have equal draws in any batch.
        """
        truth = self.truth.predictive()
        noises = [noise for k in range(probability.shape[1]) if (noise := self.full_noise(k)) is not None]
        places = sobol_places(n, 1 + places_needed(truth), rng)
        return sample_true_value_of_mixture(truth, self.points, noises, probability, places)

    def typicality(self) -> Array:
        """p-value of each point for each known component: (sample, component)."""
        if self.points.shape[1] == 0:
            return np.full((len(self.points), len(self.log_prior)), np.nan)
        noises = self._noises()
        if not noises:
            return self.models.typical.typicality(self.points)
        each = [self.models.reference.p_value(k, self.points, noise) for k, noise in enumerate(noises)]
        return np.stack(each, axis=-1)


class Predictor:
    """Gaussian classes that read observations, block by block.

    Samples that lack features are read with the marginal models of the others.

    Parameters
    ----------
    model : GaussianClasses
    paired : bool
        Whether the samples come from the scene that trained the model: a common error then cancels.
    method : "exact" or "fast"
        With known noise: the integral over the class models, or the Student t of the same covariance.
    """

    def __init__(self, model: GaussianClasses, *, paired: bool = True, method: str = "exact") -> None:
        self.model, self.kind, self.method = model, model.kind, method
        self.components = model.known_components
        self.pairing = Pairing(model.statistics.realisations, paired, model.seed)
        self._models: dict[Any, ClassModels] = {}
        self._densities: dict[Any, tuple[FastClassDensities, Pairs] | None] = {}
        self._views: dict[Any, list[FastClassDensitiesWithNoise] | None] = {}

    @classmethod
    def of(cls, model: GaussianClasses, *, paired: bool = True, method: str = "exact") -> Predictor:
        """Return the predictor of a model, made once and kept with it."""
        key = cls, paired, method
        if key not in model.derived:
            model.derived[key] = cls(model, paired=paired, method=method)
        return model.derived[key]

    @cached_property
    def of_one_population(self) -> Predictor:
        """The same with classes that are draws of one population, made once for all blocks."""
        return Predictor(self.model.of_one_population(), paired=self.pairing.paired, method=self.method)

    # ---- structure ---------------------------------------------------------------------------------

    def readings(self, structure: Structure) -> list[Reading]:
        """The ways to read samples of this structure."""
        return self.kind.readings(structure, self.pairing)

    @property
    def between_scenes(self) -> bool:
        """True where the samples' worlds are independent of the model's: all are then read at once."""
        return self.kind.name == "shared" and not self.pairing.paired

    def n_worlds(self, n_realisations: int) -> int:
        """Number of worlds in which samples of so many realisations get a class."""
        if self.between_scenes:
            pairs = self.kind.pairs(n_realisations, self.pairing)
            if len(pairs) > 1:
                return len(pairs)
        return len(self.readings(Structure(n_realisations if n_realisations > 1 else None)))

    def systematic(self, systematic: Array | None) -> Array | None:
        """Covariance of the difference of two scenes' common errors; None where they cancel."""
        known = [c for c in (self.model.systematic, systematic) if c is not None]
        return None if self.pairing.paired or not known else np.asarray(np.sum(known, axis=0))

    def class_models(self, reading: Reading, used: Features) -> ClassModels:
        """The class models of the features in use, for a reading."""
        key = (replace(reading, realisation=None), used.tobytes())
        if key not in self._models:
            if len(self._models) >= _PATTERNS_KEPT:
                self._models.clear()
            models = self._models_for(reading, used)
            if used.any():
                models = self._with_reference(models, reading, used)
            self._models[key] = models
        return self._models[key]

    def _with_reference(self, models: ClassModels, reading: Reading, used: Features) -> ClassModels:
        return replace(models, make_reference=lambda: self._reference(reading, used, models.posterior))

    def _reference(self, reading: Reading, used: Features, posterior: NIW) -> TypicalityReference:
        """The densities that typicality is read from, for the same reading."""
        found = reference_posterior(self.model, reading.world, used, posterior)
        noise = self.model.statistics.noise if reading.repeats is not None else None
        if noise is not None and not isinstance(posterior, DeconvolvedNIW):
            found = self._models_of_repeats(found, noise[used][:, used], reading).posterior
        return TypicalityReference(found.predictive(), reference_noise(self.model, used, posterior))

    def _models_for(self, reading: Reading, used: Features) -> ClassModels:
        fitted = self.model.known_posterior(reading.world)
        kept = used[self.model.used_features]
        posterior = fitted if kept.all() or not kept.any() else fitted.select_features(kept)
        if reading.other_scene:
            return self._of(posterior, class_noise=self._spread_over_worlds(kept))
        repeat_noise = self.model.statistics.noise if reading.repeats is not None else None
        if repeat_noise is None or not kept.any():
            return self._of(posterior)
        return self._models_of_repeats(posterior, repeat_noise[used][:, used], reading)

    def _models_of_repeats(self, posterior: NIW, noise: Array, reading: Reading) -> ClassModels:
        """Class models for means of another number of repeats than in the training data."""
        before, now = 1.0 / self.model.statistics.realisations, 1.0 / (reading.repeats or 1)
        if isinstance(posterior, DeconvolvedNIW):  # it describes true values
            seen = None if reading.noise is not None else now * noise
            return self._of(posterior, noise=seen, full_noise=seen)
        truth = posterior.exchange_noise(noise, present=before, wanted=0.0)
        if reading.noise is not None:
            return self._of(truth)
        if now > before:
            return self._of(posterior, noise=(now - before) * noise, truth=truth, full_noise=now * noise)
        if now < before:
            posterior = posterior.exchange_noise(noise, present=before, wanted=now)
        return self._of(posterior, truth=truth, full_noise=now * noise)

    def _of(self, posterior: NIW, **others: Any) -> ClassModels:
        concentration = self.model.concentration[self.model.known]
        return ClassModels(posterior, concentration, components=self.components, **others)

    def _spread_over_worlds(self, kept: Features) -> Array | None:
        """Covariance over the worlds of the mean of each known component: (component, feature, feature)."""
        means = self.model.posterior.mean[:, self.model.known][..., kept]
        if len(means) < 2:
            return None
        deviation = means - means.mean(0)
        return np.asarray(np.einsum("rki,rkj->kij", deviation, deviation) / (len(means) - 1))

    # ---- points ------------------------------------------------------------------------------------

    def measured(
        self, observation: Observation, reading: Reading, used: Features, systematic: Array | None = None
    ) -> MeasuredPoints:
        """Points of a reading with the class models of the features in use.

        ``systematic`` is the covariance that :meth:`systematic` has found.
        """
        points = observation.points(reading)
        noise = observation.noise_of(reading, self.model.statistics.drawn, used)
        noise = noise if len(noise) < 2 else [noise[k] for k in self.model.known]
        if not used.all():
            points = points[:, used]
        return MeasuredPoints(
            points=points,
            models=self.class_models(reading, used),
            sample_noise=noise,
            systematic=None if systematic is None else systematic[used][:, used],
            log_prior=self._log_prior,
            world=reading.world,
            method=self.method,
            components=self.components,
        )

    @cached_property
    def _log_prior(self) -> Array:
        return self.model.log_prior

    def blocks(
        self, observation: Observation, extra: int = 1
    ) -> Iterator[tuple[NDArray[np.intp], list[MeasuredPoints]]]:
        """Index of the samples and the points of each reading, block by block.

        ``extra`` numbers more are needed for each sample.
        """
        readings = self.readings(observation.structure)
        per_row = len(readings) * extra * (len(self.model.classes) + self.model.n_features)
        size = max(1, _BLOCK_NUMBERS // per_row)
        systematic = self.systematic(observation.systematic)
        for rows, used in self._patterns(observation.X):
            for start in range(0, len(rows), size):
                block = rows[start : start + size]
                some = observation[block]
                yield block, [self.measured(some, reading, used, systematic) for reading in readings]

    def _patterns(self, X: NDArray[Any]) -> Iterator[tuple[NDArray[np.intp], Features]]:
        """Samples that lack the same features, and the features that they have."""
        lacking, used = np.isnan(X), self.model.used_features
        if not lacking.any():
            yield np.arange(len(X)), used
            return
        lacking = lacking.any(axis=1) if X.ndim == 3 else lacking
        patterns, which = np.unique(lacking, axis=0, return_inverse=True)
        for i, pattern in enumerate(patterns):
            yield np.flatnonzero(which.ravel() == i), used & ~pattern

    # ---- arranged for speed ------------------------------------------------------------------------

    def densities(
        self, n_realisations: int | None, used: Features
    ) -> tuple[FastClassDensities, Pairs] | None:
        """The class models arranged for speed, with the world of each realisation (None: one value).

        None where the fast path does not reach: where what is read is not a realisation as it came, or its
        noise is known, or the densities are not Student t.
        """
        key = (n_realisations, used.tobytes())
        if key not in self._densities:
            if len(self._densities) >= _PATTERNS_KEPT:
                self._densities.clear()
            self._densities[key] = self._arrange(n_realisations, used)
        return self._densities[key]

    def densities_through(
        self, n_realisations: int, used: Features, noise: Array
    ) -> tuple[FastClassDensities, Pairs] | None:
        """The same of realisations whose noise is ``noise``, by the Student t of matched covariance."""
        return self._arrange(n_realisations, used, noise[used][:, used])

    def _arrange(
        self, n_realisations: int | None, used: Features, noise: Array | None = None
    ) -> tuple[FastClassDensities, Pairs] | None:
        several = (n_realisations or 1) > 1
        if not used.any() or (several and not self.kind.by_realisation):
            return None
        readings = self.readings(Structure(n_realisations))
        each = [self.class_models(reading, used) for reading in readings]
        systematic = self.systematic(None) if noise is None else None
        read_as_they_came = all(reading.realisation is not None for reading in readings) or not several
        if not read_as_they_came or any(m.common_noise(0, systematic) is not None for m in each):
            return None
        models = list(dict.fromkeys(each))
        densities = [_seen(m.predictive, noise) for m in models if isinstance(m.predictive, StudentT)]
        if len(densities) < len(models):
            return None
        variances = [m.log_density_variance for m in models]
        found = FastClassDensities.of(densities, self._log_prior, variances, self.components)
        found = replace(found, typical=self._typical_densities(models, found.centre, noise))
        realisations = [reading.realisation or 0 for reading in readings]
        return found, Pairs(np.array(realisations), np.array([models.index(m) for m in each]))

    def _typical_densities(
        self, models: list[ClassModels], origin: Array, noise: Array | None
    ) -> FastClassDensities | None:
        """The densities of typicality, where they are not the predictive ones; of points less ``origin``."""
        densities = [_seen(each.typical, noise) for each in models if isinstance(each.typical, StudentT)]
        if all(each.typical is each.predictive for each in models):
            return None
        components = self.components.without_temperature()[1]
        found = FastClassDensities.of(densities, self._log_prior, components=components)
        return replace(found, origin=origin)

    def densities_with_noise(
        self, reading: Reading, used: Features, systematic: Array | None, n_points: int
    ) -> FastClassDensitiesWithNoise | None:
        """The class models of a reading with known noise, arranged for speed; None if not Student t."""
        models = self.class_models(reading, used)
        common = None if systematic is None else systematic[used][:, used]
        predictive = models.predictive
        truth = (models.posterior if models.truth is None else models.truth).predictive()
        if not isinstance(predictive, StudentT) or not isinstance(truth, StudentT):
            return None
        measured = DensityWithNoise(predictive, models.common_noises(common))
        same = models.truth is None
        return FastClassDensitiesWithNoise(
            components=self.components,
            measured=measured,
            truth=measured
            if same
            else DensityWithNoise(truth, models.common_noises(common, beyond_truth=True)),
            log_prior=self._log_prior,
            variance=models.log_density_variance,
            n_points=n_points,
            reference=models.reference,
        )

    def views_with_noise(
        self, structure: Structure, used: Features, systematic: Array | None
    ) -> list[FastClassDensitiesWithNoise] | None:
        """The class models of each reading, to be asked for probabilities alone; None if not Student t."""
        shared = None if systematic is None else systematic.tobytes()
        key = structure, used.tobytes(), shared
        if key not in self._views:
            if len(self._views) >= _PATTERNS_KEPT:
                self._views.clear()
            alike = [replace(reading, realisation=None) for reading in self.readings(structure)]
            each = {one: self.densities_with_noise(one, used, systematic, 2) for one in dict.fromkeys(alike)}
            known = {key: replace(found, reference=None) for key, found in each.items() if found is not None}
            whole = used.any() and len(known) == len(each)
            self._views[key] = [known[one] for one in alike] if whole else None
        return self._views[key]

    def worlds_with_noise(
        self, n_realisations: int, used: Features, systematic: Array | None
    ) -> FastWorldDensitiesWithNoise | None:
        """Class models of all worlds, with the noise that the average world has for another scene.

        None where there is one world only, or where densities are not Student t.
        """
        pairs = self.kind.pairs(n_realisations, self.pairing)
        worlds = sorted({world for _, world in pairs if world is not None})
        common = None if systematic is None else systematic[used][:, used]
        each = [self.class_models(Reading(0, world, other_scene=True), used) for world in worlds]
        seen = [
            DensityWithNoise(density, models.common_noises(common))
            for models in each
            if isinstance(density := models.predictive, StudentT)
        ]
        if len(pairs) < 2 or len(seen) < len(each):
            return None
        numbers = [worlds.index(world) for _, world in pairs if world is not None]
        realisations = np.array([r for r, _ in pairs])
        return FastWorldDensitiesWithNoise(
            seen, self._log_prior, Pairs(realisations, np.array(numbers)), self.components
        )


def _seen(density: StudentT, noise: Array | None) -> StudentT:
    """Densities of values with noise, by matched covariance."""
    if noise is None:
        return density
    size = (*density.batch_shape, *noise.shape)
    scale = DensityWithNoise(density, np.broadcast_to(noise, size)).scale
    return StudentT.from_scale(density.location, scale, density.dof)
