"""How a fitted model reads new inputs: views of them, and the class models that apply to each view."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from uncover.bayes.covariances import Covariances
from uncover.bayes.deconvolved import DeconvolvedNIW
from uncover.bayes.folding import Folding
from uncover.bayes.hotelling import Reference, alike
from uncover.bayes.kernels import Lens, Pairs
from uncover.bayes.niw import NIW
from uncover.bayes.noise import log_prob_with_noise
from uncover.bayes.noisy_lens import NoisyLens, Seen
from uncover.bayes.noisy_worlds import NoisyWorlds
from uncover.bayes.second_order import LogDensityVariance
from uncover.bayes.student_t import IndependentT, StudentT
from uncover.estimators.realisations import Pairing, View
from uncover.estimators.typical import reference_noise, reference_posterior
from uncover.estimators.values import Inputs

# Numbers (float64) that one block of samples may need.
_BLOCK_NUMBERS = 1 << 20


@dataclass(frozen=True, eq=False)
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
    class_noise : array of shape (class, feature, feature) or None
        What the points carry against the models of each class: how these differ between worlds.
    make_reference : callable or None
        Makes the densities that typicality is read from; None: those of the posterior above.
    """

    posterior: NIW
    noise: np.ndarray | None = None
    truth: NIW | None = None
    full_noise: np.ndarray | None = None
    class_noise: np.ndarray | None = None
    make_reference: Callable[[], Reference] | None = None

    @cached_property
    def predictive(self) -> StudentT | IndependentT:
        """Predictive densities of the classes."""
        return self.posterior.predictive()

    @cached_property
    def reference(self) -> Reference:
        """Densities that the typicality of points with known noise is read from."""
        if self.make_reference is not None:
            return self.make_reference()
        p = self.predictive.location.shape[-1]
        return Reference(self.predictive, np.zeros((*self.predictive.batch_shape, p, p)))

    @cached_property
    def typical(self) -> StudentT | IndependentT:
        """The same for points without noise: the predictive ones, where these say the same."""
        found = self.reference.without_noise()
        return self.predictive if alike(found, self.predictive) else found


@dataclass(frozen=True)
class Sight:
    """A view of some samples together with the class models for it.

    With a folding the models are those of the parts of classes.
    """

    points: np.ndarray  # (sample, feature), of the features in use
    models: ClassModels
    sample_noise: Covariances | None
    systematic: np.ndarray | None  # (feature, feature), of an error common to all samples
    log_prior: np.ndarray  # (class,), of the known classes
    world: int | None
    method: str
    temperature: float = 1.0
    folding: Folding | None = None

    @property
    def noisy(self) -> bool:
        """Whether the noise of the points is known, and true values can be drawn."""
        return self.full_noise(0) is not None

    @property
    def truth(self) -> NIW:
        """Class models that the noise comes on top of."""
        return self.models.posterior if self.models.truth is None else self.models.truth

    def noise(self, k: int) -> Covariances | None:
        """Known noise of the points beyond the posterior of class k."""
        return self._sum(self.models.noise, k)

    def full_noise(self, k: int) -> Covariances | None:
        """Known noise of the points beyond the true values of class k."""
        return self._sum(self.models.full_noise, k)

    def _sum(self, common: np.ndarray | None, k: int) -> Covariances | None:
        of_class = None if self.models.class_noise is None else self.models.class_noise[k]
        parts = [part for part in (common, of_class, self.systematic) if part is not None]
        if not parts:
            return self.sample_noise
        total = np.sum(parts, axis=0)
        return Covariances(total, None, None) if self.sample_noise is None else self.sample_noise.plus(total)

    def log_joint(self) -> np.ndarray:
        """log P(class) + log p(x | class) of the known classes, or of their parts: (sample, class)."""
        if self.points.shape[1] == 0:
            return np.broadcast_to(self.log_prior, (len(self.points), len(self.log_prior))).copy()
        predictive = self.models.predictive
        noises = [noise for k in range(len(self.log_prior)) if (noise := self.noise(k)) is not None]
        if not noises:
            return self.log_prior + predictive.log_prob(self.points)
        densities = [
            log_prob_with_noise(predictive[k], self.points, noise, self.method)
            for k, noise in enumerate(noises)
        ]
        return self.log_prior + np.stack(densities, axis=-1)

    def log_odds(self) -> np.ndarray:
        """The log joint as class probabilities are made of it: over the temperature of calibration."""
        return self.odds_of(self.log_joint())

    def odds_of(self, joint: np.ndarray) -> np.ndarray:
        """Log odds of the classes from log joints, which may be those of their parts."""
        if self.folding is not None:
            return self.folding.log_odds(joint)
        return joint if self.temperature == 1.0 else joint / self.temperature

    def of_parts(self, probability: np.ndarray, joint: np.ndarray) -> np.ndarray:
        """Probabilities of the parts of classes from those of the classes, shared out by the log joints."""
        if self.folding is None:
            return probability
        return probability[:, self.folding.owner] * self.folding.shares(joint)

    def largest_of_parts(self, values: np.ndarray) -> np.ndarray:
        """The largest of the numbers of a class's parts, where classes have parts: (sample, class)."""
        return values if self.folding is None else self.folding.largest(values)

    def typicality(self) -> np.ndarray:
        """p-value of each point for each known class, or each of their parts: (sample, class)."""
        if self.points.shape[1] == 0:
            return np.full((len(self.points), len(self.log_prior)), np.nan)
        noises = [noise for k in range(len(self.log_prior)) if (noise := self.noise(k)) is not None]
        if not noises:
            return self.models.typical.typicality(self.points)
        each = [self.models.reference.p_value(k, self.points, noise) for k, noise in enumerate(noises)]
        return np.stack(each, axis=-1)


class Reader:
    """Cuts inputs into blocks of samples, and gives the sights of each block.

    Samples that lack features are read block by block with the marginal models of the others.
    """

    def __init__(self, model, *, paired: bool, method: str) -> None:
        # Where classes have parts, the class models are those of the parts.
        self.model, self.folding = model._class_models()
        self.kind = self.model._kind()
        known = self.model.statistics_
        self.pairing = Pairing(known.realisations, paired, self.model.random_state, known.drawn_noise)
        self.method = method
        self._models: dict = {}
        self._lenses: dict = {}

    @cached_property
    def _log_prior(self) -> np.ndarray:
        return self.model._log_class_prior()

    def lens(self, n_realisations: int | None, used: np.ndarray) -> tuple[Lens, Pairs] | None:
        """The class models arranged for speed, with the world of each realisation (None: one value).

        None where the fast path does not reach: where a view is not a realisation as it came, or its noise is
        known, or the densities are not Student t.
        """
        key = (n_realisations, used.tobytes())
        if key not in self._lenses:
            self._lenses[key] = self._arrange(n_realisations, used)
        return self._lenses[key]

    def _arrange(self, n_realisations: int | None, used: np.ndarray) -> tuple[Lens, Pairs] | None:
        shape = (1, len(used)) if n_realisations is None else (1, n_realisations, len(used))
        several = (n_realisations or 1) > 1
        if not used.any() or (several and not self.kind.by_realisation):
            return None
        views = self.views(Inputs(np.zeros(shape)))
        pairs = self.kind.pairs(n_realisations, self.pairing) if several else [(0, None)]
        systematic = self.systematic(Inputs(np.zeros(shape)))
        sights = [self.sight(view, used, systematic) for view in views]
        if len(views) != len(pairs) or any(s.noise(0) is not None for s in sights):
            return None
        models = list({id(s.models): s.models for s in sights}.values())
        numbers = [models.index(s.models) for s in sights]
        concentration = self.model.class_posterior_[self.model._known_classes()]
        variances = [LogDensityVariance.of(each.posterior, concentration) for each in models]
        densities = [each.predictive for each in models if isinstance(each.predictive, StudentT)]
        if len(densities) < len(models):
            return None
        temperature = self.model.temperature_ if self.folding is None else 1.0
        lens = Lens.of(densities, sights[0].log_prior, variances, temperature, self.folding)
        lens = replace(lens, typical=self._typical_lens(models, sights[0].log_prior))
        return lens, Pairs(np.array([r for r, _ in pairs]), np.array(numbers))

    def _typical_lens(self, models: list[ClassModels], log_prior: np.ndarray) -> Lens | None:
        """The densities of typicality, where they are not the predictive ones."""
        densities = [each.typical for each in models if isinstance(each.typical, StudentT)]
        if all(each.typical is each.predictive for each in models):
            return None
        return Lens.of(densities, log_prior, folding=self.folding)

    def noisy_lens(
        self, view: View, used: np.ndarray, systematic: np.ndarray | None, n_points: int
    ) -> NoisyLens | None:
        """The class models of a view whose noise is known, arranged for speed; None if not Student t.

        The points and the noise of the view do not count.
        """
        sight = replace(self.sight(view, used, systematic), sample_noise=None)
        predictive, truth = sight.models.predictive, sight.truth.predictive()
        if not isinstance(predictive, StudentT) or not isinstance(truth, StudentT):
            return None
        measured = Seen(predictive, self._common(sight.noise, predictive.n_features))
        same = sight.models.truth is None
        concentration = self.model.class_posterior_[self.model._known_classes()]
        folding = self.folding
        if folding is None and self.model.temperature_ != 1.0:  # each class is its only part
            folding = Folding(np.arange(len(sight.log_prior)), self.model.temperature_)
        return NoisyLens(
            folding=folding,
            measured=measured,
            truth=measured if same else Seen(truth, self._common(sight.full_noise, truth.n_features)),
            log_prior=sight.log_prior,
            variance=LogDensityVariance.of(sight.models.posterior, concentration),
            n_points=n_points,
            reference=sight.models.reference,
        )

    def _common(self, noise: Callable[[int], Covariances | None], p: int) -> np.ndarray:
        """Noise of each known class that all samples share, (class, feature, feature)."""
        found = [noise(k) for k in range(len(self.model._known_classes()))]
        return np.stack([np.zeros((p, p)) if each is None else each.matrices()[0] for each in found])

    def noisy_worlds(
        self, n_realisations: int, used: np.ndarray, systematic: np.ndarray | None
    ) -> NoisyWorlds | None:
        """Class models of all worlds, seen as the average world is seen from another scene.

        None where there is one world only, or where densities are not Student t.
        """
        pairs = self.kind.pairs(n_realisations, self.pairing)
        worlds = sorted({world for _, world in pairs})
        nowhere = np.zeros((1, len(used)))
        sights = [self.sight(View(nowhere, world, other_scene=True), used, systematic) for world in worlds]
        seen = [
            Seen(density, self._common(sight.noise, density.n_features))
            for sight in sights
            if isinstance(density := sight.models.predictive, StudentT)
        ]
        if len(pairs) < 2 or len(seen) < len(sights):
            return None
        numbers = [worlds.index(world) for _, world in pairs]
        return NoisyWorlds(
            seen,
            sights[0].log_prior,
            Pairs(np.array([r for r, _ in pairs]), np.array(numbers)),
            self.folding,
        )

    def blocks(self, inputs: Inputs, extra: int = 1) -> Iterator[tuple[np.ndarray, list[Sight]]]:
        """Index of the samples and their sights, block by block; ``extra`` numbers more for each sample."""
        n_views = len(self.views(_rows_of(inputs, slice(0, 1))))
        per_row = n_views * extra * (len(self.model.classes_) + self.model.n_features_in_)
        size = max(1, _BLOCK_NUMBERS // per_row)
        systematic = self.systematic(inputs)
        for rows, used in self._patterns(inputs.X):
            for start in range(0, len(rows), size):
                block = rows[start : start + size]
                views = self.views(_rows_of(inputs, block))
                yield block, [self.sight(view, used, systematic) for view in views]

    def views(self, inputs: Inputs) -> list[View]:
        """Views of the samples."""
        return self.kind.views(inputs, self.pairing)

    def systematic(self, inputs: Inputs) -> np.ndarray | None:
        """Covariance of the difference of two scenes' common errors; None where they cancel."""
        known = [c for c in (self.model.systematic_, inputs.systematic) if c is not None]
        return None if self.pairing.paired or not known else np.sum(known, axis=0)

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

    def sight(self, view: View, used: np.ndarray, systematic: np.ndarray | None = None) -> Sight:
        """A view with the class models of the features in use."""
        points = view.points if used.all() else view.points[:, used]
        noise = view.noise if view.noise is None or used.all() else view.noise.select_features(used)
        common = None if systematic is None else systematic[used][:, used]
        key = (view.world, view.other_scene, view.repeats, noise is None, used.tobytes())
        if key not in self._models:
            self._models[key] = self._class_models(view, used)
        return Sight(
            points,
            self._models[key],
            noise,
            common,
            self._log_prior,
            view.world,
            self.method,
            self.model.temperature_,
            self.folding,
        )

    def _class_models(self, view: View, used: np.ndarray) -> ClassModels:
        models = self._models_for(view, used)
        if not used.any():
            return models
        return replace(models, make_reference=lambda: self._reference(view, used, models.posterior))

    def _reference(self, view: View, used: np.ndarray, posterior: NIW) -> Reference:
        """The densities that typicality is read from, for the same view."""
        found = reference_posterior(self.model, view.world, used, posterior)
        noise = self.model.statistics_.noise if view.repeats is not None else None
        if noise is not None and not isinstance(posterior, DeconvolvedNIW):
            found = self._models_of_repeats(found, noise[used][:, used], view).posterior
        return Reference(found.predictive(), reference_noise(self.model, used, posterior))

    def _models_for(self, view: View, used: np.ndarray) -> ClassModels:
        fitted = self.model._posterior_of_world(view.world)
        kept = used[~self.model.ignored_features_]
        posterior = fitted if kept.all() or not kept.any() else fitted.select_features(kept)
        if view.other_scene:
            return ClassModels(posterior, class_noise=self._spread_over_worlds(kept))
        repeat_noise = self.model.statistics_.noise if view.repeats is not None else None
        if repeat_noise is None:
            return ClassModels(posterior)
        return self._models_of_repeats(posterior, repeat_noise[used][:, used], view)

    def _models_of_repeats(self, posterior: NIW, noise: np.ndarray, view: View) -> ClassModels:
        """Class models for means of another number of repeats than in the training data."""
        before, now = 1.0 / self.model.statistics_.realisations, 1.0 / (view.repeats or 1)
        if isinstance(posterior, DeconvolvedNIW):  # it describes true values
            seen = None if view.noise is not None else now * noise
            return ClassModels(posterior, seen, None, seen)
        truth = posterior.exchange_noise(noise, present=before, wanted=0.0)
        if view.noise is not None:
            return ClassModels(truth)
        if now > before:
            return ClassModels(posterior, (now - before) * noise, truth, now * noise)
        if now < before:
            posterior = posterior.exchange_noise(noise, present=before, wanted=now)
        return ClassModels(posterior, None, truth, now * noise)

    def _spread_over_worlds(self, kept: np.ndarray) -> np.ndarray | None:
        """Covariance over the worlds of the mean of each known class: (class, feature, feature)."""
        means = self.model.posterior_.mean[:, self.model._known_classes()][..., kept]
        if len(means) < 2:
            return None
        deviation = means - means.mean(0)
        return np.einsum("rki,rkj->kij", deviation, deviation) / (len(means) - 1)


def _rows_of(inputs: Inputs, rows) -> Inputs:
    noise = None if inputs.noise is None else inputs.noise[rows]
    return Inputs(inputs.X[rows], noise, inputs.systematic)
