"""Gaussian classes: posteriors of the components of classes, as a frozen value."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from uncover.bayes.components import Components
from uncover.bayes.covariances import Covariances
from uncover.bayes.deconvolved import DeconvolvedNIW, GappyNIW
from uncover.bayes.evidence import per_sample, prior_weight
from uncover.bayes.gaps import Missing
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW
from uncover.bayes.noise import (
    log_prob_with_noise,
    places_needed,
    sample_true_value_of_mixture,
    sobol_places,
)
from uncover.bayes.student_t import StudentT
from uncover.engines.members import FastStudentT
from uncover.models.class_model import ClassModel, NoEvidenceError
from uncover.models.realisations import KINDS, MEAN_WORLD, Kind, Statistics

Array = NDArray[np.float64]

# Variance of the noise of a missing feature, in units of the variance of the training samples.
ENDLESS = 1e8
# Dirichlet parameters of class shares that are known add up to this.
KNOWN_SHARES = 1e12
# Patterns of missing features whose regressions are kept.
_PATTERNS_KEPT = 256


@dataclass(frozen=True, eq=False)
class GaussianClasses:
    """Normal-inverse-Wishart posteriors of the components of classes; most classes have one component.

    Attributes
    ----------
    class_model : ClassModel
        What the components have in common, and how their posteriors follow from samples.
    classes : array of shape (class,)
        Labels.
    components : Components
        Class of each component, and the temperature: the divisor of the log joints of the classes.
    ignored_features : array of bool of shape (feature,)
        Features that are not used: constant, or following from others.
    statistics : Statistics
        Of the training samples, all features: batch (component,) or (world, component).
    prior, posterior : NIW
        Of the features in use, with the same batch shapes; the prior's may be shorter.
    prior_name : str or None
        "weak", "evidence" or "jeffreys"; None where the prior was given.
    alpha : array of shape (component,)
        Dirichlet parameters of the proportions before samples were seen.
    count : array of shape (component,)
        N_c, the sum of weights.
    class_factor : array of shape (component,)
        Factor of the joint density that calibration found.
    realisations : str
        What several realisations of a sample mean: a name of ``KINDS``.
    known_noise : array of shape (feature, feature) or None
        Mean covariance of the noise that was given with the training samples.
    systematic : array of shape (feature, feature) or None
        Covariance of an error that all training samples share.
    class_noise : array of shape (component, feature, feature) or None
        Mean noise of the samples of each component, of the features in use, where it is known.
    noise_evenness : array of shape (component,) or None
        How even that noise is: samples of equal noise that tell as much of the variance as one of them.
    label_confusion : array of shape (class, class) or None
        P(label j | class k), where labels may be wrong.
    feature_names : array of str or None
    seed : int or None
        Of the draws behind budgets, and of the pairing of scenes.
    shares : array of shape (class,) or None
        Dirichlet parameters of the class shares of another population than that of the samples.
    """

    class_model: ClassModel
    classes: NDArray[Any]
    components: Components
    ignored_features: NDArray[np.bool_]
    statistics: Statistics
    prior: NIW
    posterior: NIW
    prior_name: str | None
    alpha: Array
    count: Array
    class_factor: Array
    realisations: str = "pooled"
    known_noise: Array | None = None
    systematic: Array | None = None
    class_noise: Array | None = None
    noise_evenness: Array | None = None
    label_confusion: Array | None = None
    feature_names: NDArray[Any] | None = None
    seed: int | None = 0
    shares: Array | None = None

    # ---- what follows from it, made once --------------------------------------------------------------

    @cached_property
    def derived(self) -> dict[Any, Any]:
        """Cache of what others make of this value; no part of a pickle or of a model file."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    # ---- features, kinds, worlds -------------------------------------------------------------------

    @property
    def n_features(self) -> int:
        """Number of features, the ignored ones too."""
        return len(self.ignored_features)

    @property
    def features(self) -> NDArray[Any]:
        """Names of the features, or their numbers."""
        return np.arange(self.n_features) if self.feature_names is None else self.feature_names

    @property
    def used_features(self) -> NDArray[np.bool_]:
        """Features that are not ignored."""
        return ~self.ignored_features

    @property
    def kind(self) -> Kind:
        """Meaning of several realisations of a sample."""
        return KINDS[self.realisations]

    @property
    def n_worlds(self) -> int | None:
        """Number of worlds, None where the posterior has no axis of worlds."""
        count = self.statistics.classes.count
        return None if count.ndim == 1 else len(count)

    @property
    def describes_true_values(self) -> bool:
        """True where the noise of the training samples was taken out of the spread of the classes."""
        return isinstance(self.posterior, DeconvolvedNIW)

    @property
    def has_gaps(self) -> bool:
        """True where training samples lack features; the posterior does not count what was missing."""
        return self.statistics.gaps is not None or isinstance(self.posterior, GappyNIW)

    @property
    def rows_per_sample(self) -> float:
        """Rows of the moments that a sample has on average."""
        return self.statistics.rows_per_sample(self.kind)

    @property
    def n_realisations(self) -> int:
        """Realisations of each training sample."""
        return self.statistics.realisations

    @property
    def knows_noise(self) -> bool:
        """True where the noise of the training samples was stated, or repeated: classes are free of it."""
        by_spread = self.realisations in ("draws", "repeats") and self.n_realisations > 1
        return self.known_noise is not None or by_spread

    @property
    def states_common_errors(self) -> bool:
        """True where anything was stated of errors that the training samples share."""
        stated = self.systematic is not None or self.known_noise is not None
        return stated or self.n_realisations > 1

    @property
    def used_moments(self) -> Moments:
        """Moments of the components, of the features in use."""
        return self.statistics.classes.select_features(self.used_features)

    @property
    def training_spread(self) -> Array:
        """Standard deviation of each feature over all training samples."""
        total = self.statistics.classes.sum(-1)
        return np.asarray(np.sqrt(total.variance.reshape(-1, self.n_features)[0]))

    # ---- components --------------------------------------------------------------------------------

    @property
    def labels(self) -> NDArray[Any]:
        """Label of the class of each component."""
        return np.asarray(self.classes[self.components.owner])

    @property
    def temperature(self) -> float:
        """Divisor of the log joint of the classes."""
        return self.components.temperature

    @property
    def concentration(self) -> Array:
        """Dirichlet parameters of the proportions of the components, N_c + α_c.

        In another population those of the classes, shared out by N_c + α_c.
        """
        learned = self.count + self.alpha
        if self.shares is None:
            return learned
        return np.asarray(learned * (self.shares / self.components.total(learned))[self.components.owner])

    @property
    def component_means(self) -> Array:
        """Posterior mean of each component, the average over worlds: (component, feature)."""
        posterior, C = self.posterior, len(self.count)
        mean = np.broadcast_to(posterior.mean, (*posterior.batch_shape, posterior.n_features))
        moments = self.statistics.classes
        out = np.repeat(moments.mean.reshape(-1, self.n_features)[:1], C, axis=0)
        out[:, self.used_features] = mean.reshape(-1, C, mean.shape[-1]).mean(0)
        return out

    @property
    def component_covariances(self) -> Array:
        """Posterior expectation of Σ of each component, Ψ/(ν−p−1), the average over worlds."""
        expected, C = self.posterior.expected_covariance, len(self.count)
        p = expected.shape[-1]
        each = np.broadcast_to(expected, (*self.posterior.batch_shape, p, p))
        out = np.zeros((C, self.n_features, self.n_features))
        keep = np.flatnonzero(self.used_features)
        out[:, keep[:, None], keep] = each.reshape(-1, C, p, p).mean(0)
        return out

    # ---- classes -----------------------------------------------------------------------------------

    @property
    def class_count(self) -> Array:
        """N_k, the sum of weights of each class."""
        return self.components.total(self.count)

    @property
    def class_alpha(self) -> Array:
        """Dirichlet parameters of the class proportions before samples were seen."""
        return self.components.total(self.alpha)

    @property
    def means(self) -> Array:
        """Mean of each class, over its components: (class, feature)."""
        return self._of_classes(self.component_means)

    @property
    def covariances(self) -> Array:
        """Covariance of each class: within its components, and between them."""
        if self.components.trivial:
            return self.component_covariances
        away = self.component_means - self.means[self.components.owner]
        return self._of_classes(self.component_covariances + away[:, :, None] * away[:, None, :])

    def _of_classes(self, of_components: Array) -> Array:
        """Weighted mean over the components of each class."""
        if self.components.trivial:
            return of_components
        share = np.where(self.components.owner == np.arange(len(self.classes))[:, None], self.count, 0.0)
        share = share / np.maximum(share.sum(1, keepdims=True), np.finfo(float).tiny)
        return np.asarray(np.tensordot(share, of_components, axes=1))

    # ---- what is known: components with a mean -----------------------------------------------------

    @cached_property
    def known(self) -> NDArray[np.intp]:
        """Components with a mean, from samples or a prior of strength > 0."""
        strength = np.broadcast_to(self.posterior.strength, self.posterior.batch_shape)
        return np.flatnonzero(strength.reshape(-1, len(self.count))[0] > 0)

    @cached_property
    def known_classes(self) -> NDArray[np.intp]:
        """Classes with a known component."""
        return np.unique(self.components.owner[self.known])

    @cached_property
    def known_components(self) -> Components:
        """The known components of the known classes."""
        return self.components.select(self.known)

    @property
    def log_prior(self) -> Array:
        """log P(component) of the known components, with the factor that calibration found."""
        share = self.class_factor * self.concentration / self.concentration.sum()
        return np.asarray(np.log(share[self.known]))

    def known_posterior(self, world: int | None = None) -> NIW:
        """Posterior of the known components in one world; of all together where there is one only."""
        posterior = self.posterior
        if world == MEAN_WORLD:
            posterior = posterior.mean_over_leading_axis()
        elif world is not None:
            posterior = posterior.member(world)
        return posterior.take(self.known)

    def among_all_classes(self, values: NDArray[Any], fill: float) -> NDArray[Any]:
        """Put the columns of the known classes (..., known class) among all classes."""
        if len(self.known_classes) == len(self.classes):
            return values
        out = np.full((*values.shape[:-1], len(self.classes)), fill, values.dtype)
        out[..., self.known_classes] = values
        return out

    # ---- points ------------------------------------------------------------------------------------

    def log_joint(self, points: NDArray[Any]) -> Array:
        """log P(class) + log p(x | class) of exact points (n, feature), in the average world: (n, class).

        −∞ for classes of which nothing is known. Noise, realisations and missing features are for
        :func:`uncover.measurement.prediction.predict`.
        """
        used = np.asarray(points, np.float64)[:, self.used_features]
        joint = self.log_prior + FastStudentT.of(self._average_world().predictive()).log_prob(used)
        return self.among_all_classes(self.known_components.log_joint(joint), -np.inf)

    def true_values(
        self,
        points: NDArray[Any],
        covariances: Covariances | None,
        n: int,
        rng: np.random.Generator,
        codes: NDArray[np.intp] | None = None,
        apart: bool = False,
        method: str = "exact",
    ) -> Array:
        """Draw true values of measured points, in the average world: (n_points, n, feature).

        From Σ_k P(k | x) p(χ | x, k), by the same random numbers for all points: equal points have equal
        draws in any batch. For imputed values of training samples each point has numbers of its own
        (``apart``); with ``codes``, numbers of the points' classes, also from p(χ | x, k) of that class. The
        random numbers lie evenly.

        The classes have to describe true values. A missing feature (NaN) is one of endless noise: it is drawn
        given the others. ``covariances`` of None are those of exact values. Features that the model ignores
        stay as measured. With the method "fast" P(k | x) is that of the matched Student t.
        """
        used, full = self.used_features, np.asarray(points, np.float64)
        lacking = np.isnan(full)
        if covariances is None and lacking.any() and isinstance(self._average_world().predictive(), StudentT):
            return self._filled_in(full, lacking, n, rng, codes, apart)
        x, noise = self._with_missing(full[:, used], covariances)
        predictive = self._average_world().predictive()
        densities = [log_prob_with_noise(predictive[k], x, noise, method) for k in range(len(self.known))]
        joint, components = self.log_prior + np.stack(densities, axis=-1), self.known_components
        places = sobol_places(n, 1 + places_needed(predictive), rng)
        of_class = self._of_class(joint, codes)
        apart = apart or codes is not None
        if apart:
            places = _moved(places, len(x), rng)
        P = components.probability(of_class, joint)
        drawn = sample_true_value_of_mixture(predictive, x, [noise] * len(self.known), P, places)
        exact = (noise.variances() == 0.0)[:, None]
        out = np.repeat(self._without_ignored_gaps(full)[:, None], n, axis=1)
        out[:, :, used] = np.where(exact, x[:, None], drawn)
        return out

    def _of_class(self, joint: Array, codes: NDArray[np.intp] | None) -> Array:
        """Probabilities of the known classes, from log joints of components or numbers of classes."""
        if codes is None:
            return np.asarray(softmax(self.known_components.log_odds(joint), axis=1))
        return np.asarray(np.eye(len(self.classes))[codes][:, self.known_classes])

    def _filled_in(
        self,
        points: Array,
        lacking: NDArray[np.bool_],
        n: int,
        rng: np.random.Generator,
        codes: NDArray[np.intp] | None,
        apart: bool,
    ) -> Array:
        """Draws of what points without noise lack, pattern by pattern."""
        used, components = self.used_features, self.known_components
        places = sobol_places(n, 2 + int(used.sum()), rng)
        apart = apart or codes is not None
        if apart:
            places = _moved(places, len(points), rng)
        out = np.repeat(self._without_ignored_gaps(points)[:, None], n, axis=1)
        patterns, which = np.unique(lacking[:, used], axis=0, return_inverse=True)
        for i, pattern in enumerate(patterns):
            rows, there = np.flatnonzero(which.ravel() == i), ~pattern
            if there.all():
                continue
            x = points[np.ix_(rows, used)]
            joint = np.broadcast_to(self.log_prior, (len(rows), len(self.known)))
            marginal, missing = self._pattern(there)
            if marginal is not None:
                joint = joint + marginal.log_prob(x[:, there])
            P = components.probability(self._of_class(joint, None if codes is None else codes[rows]), joint)
            own = places[rows] if apart else places
            out[np.ix_(rows, np.arange(n), used)] = missing.draw(x, P, own)
        return out

    def _pattern(self, there: NDArray[np.bool_]) -> tuple[StudentT | None, Missing]:
        """Densities of the features that are there, and of the others given these; of the last patterns."""
        kept = self.derived.setdefault("patterns of gaps", {})
        key = there.tobytes()
        found = kept.get(key)
        if found is None:
            posterior = self._average_world()
            marginal = posterior.select_features(there).predictive() if there.any() else None
            if len(kept) >= _PATTERNS_KEPT:
                kept.clear()
            found = kept[key] = marginal, Missing(posterior.predictive(), there)
        return found

    def _without_ignored_gaps(self, points: Array) -> Array:
        """Points with means for what they lack among the features that the model ignores."""
        gone = np.isnan(points) & self.ignored_features
        if not gone.any():
            return points
        total = self.statistics.classes.sum(-1)
        return np.where(gone, total.mean.reshape(-1, self.n_features)[0], points)

    def _with_missing(self, x: Array, covariances: Covariances | None) -> tuple[Array, Covariances]:
        """Points and noise of the features in use; a missing one is anywhere, by noise of 10⁸ variances."""
        p = x.shape[1]
        noise = Covariances(np.zeros((p, p)), None, None)
        if covariances is not None:
            noise = covariances.select_features(self.used_features)
        missing = np.isnan(x)
        if not missing.any():
            return x, noise
        moments = self.used_moments.sum(-1)
        mean, variance = (part.reshape(-1, p)[0] for part in (moments.mean, moments.variance))
        there = ~missing
        each = np.where(there[:, :, None] & there[:, None, :], noise.of_each(len(x)), 0.0)
        each += np.where(missing, ENDLESS * variance, 0.0)[:, :, None] * np.eye(p)
        return np.where(missing, mean, x), Covariances(None, None, each)

    def _average_world(self) -> NIW:
        return self.known_posterior(None if self.n_worlds is None else MEAN_WORLD)

    # ---- other values ------------------------------------------------------------------------------

    def of_one_population(self) -> GaussianClasses:
        """The same with classes that are draws of one population, their covariances too.

        A weak prior says nothing of what covariances have in common: where each class has its own, it is
        replaced by the prior of the highest evidence. Proportions are those of the samples, without the
        factors of a calibration.
        """
        model = replace(self, class_factor=np.ones_like(self.class_factor))
        own_covariances = self.class_model.name == "qda" and not self.describes_true_values
        if not own_covariances or self.prior_name not in ("weak", "jeffreys"):
            return model
        moments, gappy = self.used_moments, self.posterior if isinstance(self.posterior, GappyNIW) else None
        prior = self.class_model.evidence_prior(moments, self.rows_per_sample)
        posterior = self.class_model.update(prior, moments)
        if gappy is not None:
            posterior = gappy.exchanged(posterior.expected_covariance, prior.dof - self.prior.dof)
        return replace(model, prior=prior, posterior=posterior, prior_name="evidence")

    def calibrated(self, temperature: float, class_factor: Array) -> GaussianClasses:
        """The same with a temperature and a factor of each class."""
        owner = self.components.owner
        return replace(self, components=Components(owner, temperature), class_factor=class_factor[owner])

    def with_class_shares(self, alpha: Array) -> GaussianClasses:
        """The same for a population whose class shares have these Dirichlet parameters: (class,).

        Probabilities change by the ratio of the shares, whatever the temperature.
        """
        learned = self.components.total(self.concentration)
        ratio = alpha / alpha.sum() / (learned / learned.sum())
        beside = ratio ** (self.components.temperature - 1.0)
        factor = self.class_factor * beside[self.components.owner]
        return replace(self, shares=np.asarray(alpha, float), class_factor=factor)

    @property
    def echo(self) -> float:
        """Share of the scatter of each training sample that is in the prior of every class."""
        if self.prior_name != "evidence" or self.has_gaps:
            return 0.0
        return self.class_model.echo(self.prior, self.used_moments, self.rows_per_sample)

    @property
    def log_evidence(self) -> float:
        """Log marginal likelihood of the training samples given their classes, log p(X | y)."""
        if self.describes_true_values:
            raise NoEvidenceError(
                "a model that was learned through known noise has no evidence in closed form; compare models "
                "by held-out samples."
            )
        if self.has_gaps:
            raise NoEvidenceError(
                "a model that was learned from samples that lack features has no evidence in closed form; "
                "compare models by held-out samples."
            )
        rows, moments = self.rows_per_sample, self.used_moments
        if self.prior_name == "evidence":
            evidence = self.class_model.scatter_evidence(self.prior, per_sample(moments, rows))
            total = evidence.at(prior_weight(self.prior, rows))
        elif np.all(self.prior.strength > 0):
            total = float(np.sum(self.class_model.log_evidence(self.prior, moments)))
        else:
            raise NoEvidenceError(
                "the evidence does not exist for a prior of strength 0 (a flat prior of the mean is not a "
                'distribution). Use prior="evidence" or a NIW with strength > 0.'
            )
        return float(total) / (self.n_worlds or 1)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """Draw proportions, means and covariances of the components, ``draw`` first.

        A component of which nothing is known has NaN. With several worlds, each draw comes from one of them.
        """
        phi = rng.dirichlet(self.concentration, n)
        C, p = len(self.count), self.posterior.n_features
        mu, sigma = np.full((n, C, p), np.nan), np.full((n, C, p, p), np.nan)
        worlds = self.n_worlds
        chosen = np.zeros(n, dtype=int) if worlds is None else rng.integers(worlds, size=n)
        for world in np.unique(chosen):
            mine = chosen == world
            posterior = self.known_posterior(None if worlds is None else world)
            index = np.ix_(mine, self.known)
            mu[index], sigma[index] = posterior.sample(int(mine.sum()), rng)
        return phi, mu, sigma


def _moved(places: Array, n: int, rng: np.random.Generator) -> Array:
    """Places (place, dimension), moved round the unit cube by numbers of each of n: (n, place, dimension)."""
    places = (places + rng.random((n, 1, places.shape[1]))) % 1.0
    return np.asarray(np.clip(places, 1e-12, 1.0 - 1e-12))
