"""All layers of a map from one pass over the realisations of its pixels, none of which is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from uncover.bayes.budget import entropy, joint_table, split_by_draw
from uncover.bayes.class_densities import Pairs
from uncover.bayes.class_densities_with_noise import (
    ClassDensitiesWithNoise,
    points_of_components,
    points_of_pixels,
)
from uncover.bayes.covariances import Covariances
from uncover.bayes.inversion import surface_reflectance
from uncover.bayes.noise import places_needed, sample_true_value, spread_evenly
from uncover.bayes.population import UnknownOdds
from uncover.bayes.second_order import below_entropy, squared_distances
from uncover.bayes.streams import stream
from uncover.bayes.worlds_with_noise import WorldDensitiesWithNoise
from uncover.engines.class_densities import FastClassDensities
from uncover.engines.machine import machine_code
from uncover.measurement.noise_groups import groups_of_noise
from uncover.measurement.observation import Observation
from uncover.measurement.prediction import predict
from uncover.measurement.predictor import MeasuredPoints, Predictor
from uncover.models.drawn_noise import scatter_of_draws
from uncover.models.gaussian import GaussianClasses
from uncover.models.pool import Pool
from uncover.models.realisations import MEAN_WORLD, Reading, Structure
from uncover.models.typical import bounded_where_new

Floats = NDArray[Any]  # of float32 or float64
Features = NDArray[np.bool_]
Numbers = NDArray[np.uint8]

_TINY = 1e-300
# Class models seen through the noise of a group that are kept.
_GROUPS_KEPT = 1024
# One in so many points stands for the true value of a pixel in worlds: its noise is a part among others.
_FEWER_POINTS = 6


@dataclass(frozen=True)
class PixelSummary:
    """Map values of each pixel.

    Attributes
    ----------
    probability : array of shape (class, pixel)
    parts : array of shape (6, pixel)
        The uncertainty budget in nats: total, measurement, model, overlap; the last three add up to the
        total. Then the margin, which is the probability of the first class less that of the second, and the
        typicality, the largest p-value over the classes.
    disagreement : array of shape (pixel,)
        Share of worlds whose most probable class is not that of the average.
    world_classes : array of int of shape (world, pixel)
        Number of the most probable class in each world, for areas world by world.
    best : array of int of shape (pixel,)
        Number of the most probable class.
    """

    probability: Floats
    parts: Floats
    disagreement: Floats
    world_classes: Numbers
    best: Numbers

    total = property(lambda self: self.parts[0])
    measurement = property(lambda self: self.parts[1])
    model = property(lambda self: self.parts[2])
    overlap = property(lambda self: self.parts[3])
    margin = property(lambda self: self.parts[4])
    typicality = property(lambda self: self.parts[5])


@dataclass(frozen=True)
class Planes:
    """Pixels with what is known of their errors, as :meth:`PlaneReader.summarise` takes them."""

    numbers: Floats
    coefficients: Floats | None = None
    noise: Covariances | None = None
    systematic: Floats | None = None
    features: Features | None = None

    def __len__(self) -> int:
        """Number of realisations."""
        return len(self.numbers if self.coefficients is None else self.coefficients)

    @cached_property
    def values(self) -> Floats:
        """Values of all realisations: (realisation, feature, pixel)."""
        return self.numbers if self.coefficients is None else corrected(self.numbers[0], self.coefficients)

    @property
    def observation(self) -> Observation:
        """The same as samples of one value or of several realisations."""
        points = np.moveaxis(self.values, 2, 0)  # (pixel, realisation, feature)
        return Observation(points[:, 0] if len(self) == 1 else points, self.noise, self.systematic)

    def mean_world(self) -> Floats:
        """Values in the mean world: (1, feature, pixel)."""
        if self.coefficients is None:
            return np.asarray(self.numbers.mean(axis=0, keepdims=True))
        return corrected(self.numbers[0], self.coefficients.mean(axis=0, keepdims=True))

    def marked(self) -> Planes:
        """The same with NaN for features that the pixels lack."""
        if self.features is None or self.features.all():
            return self
        return replace(self, numbers=np.where(self.features[:, None], self.numbers, np.nan))

    def pixels(self, rows: slice | NDArray[np.intp]) -> Planes:
        """Some of the pixels."""
        noise = None if self.noise is None else self.noise[rows]
        return replace(self, numbers=self.numbers[:, :, rows], noise=noise)

    def select_features(self, used: Features) -> Planes:
        """The same with some of the features."""
        if used.all():
            return self
        coefficients = None if self.coefficients is None else self.coefficients[..., used]
        noise = None if self.noise is None else self.noise.select_features(used)
        return Planes(self.numbers[:, used], coefficients, noise)


class PlaneReader:
    """Reads planes with a fitted value: all realisations in one pass, none of which is kept."""

    value: GaussianClasses | Pool
    paired: bool
    method = "exact"
    approximation: str | None = None  # for the record of a map; None: ``method`` says all

    def summarise(
        self,
        planes: Floats,
        *,
        coefficients: Floats | None = None,
        noise: Covariances | None = None,
        systematic: Floats | None = None,
        features: Features | None = None,
    ) -> PixelSummary:
        """Summarise pixels.

        Parameters
        ----------
        planes : array of shape (realisation, feature, pixel)
            Finite numbers, of float32 or float64: the result has their type.
        coefficients : array of shape (realisation, 3, feature), optional
            The planes are then one, of reflectance at the top of the atmosphere, whose realisations are
            made here: y/(B + S·y) with y = ρ − A.
        noise : Covariances, optional
            Known noise of the pixels, which every realisation has alike.
        systematic : array of shape (feature, feature), optional
        features : array of bool of shape (feature,), optional
            Which features the pixels have; the others are marginalised, and may be NaN.
        """
        return self._summarise(Planes(planes, coefficients, noise, systematic, features))

    def unknown(
        self,
        planes: Floats,
        *,
        coefficients: Floats | None = None,
        noise: Covariances | None = None,
        systematic: Floats | None = None,
        features: Features | None = None,
    ) -> UnknownOdds:
        """Odds that pixels are of none of the classes; parameters are those of :meth:`summarise`."""
        given = Planes(planes, coefficients, noise, systematic, features).marked()
        return predict(self.value, given.observation, paired=self.paired, method=self.method).unknown()

    def _summarise(self, given: Planes) -> PixelSummary:
        raise NotImplementedError


class Summariser(PlaneReader):
    """Reads pixels with Gaussian classes: all realisations in one pass, none of which is kept.

    The model part of the budget is the closed second-order one; with known noise the measurement part is from
    drawn true values, otherwise it is what averaging over realisations adds.

    Parameters
    ----------
    model : GaussianClasses, or a fitted estimator that has some
    paired : bool
        Whether the pixels are of the scene that trained the model.
    method : "exact" or "fast"
        How pixels whose noise is known are read: through it exactly, or by the Student t of matched
        covariance, with true values drawn from Gaussians; other pixels are read the same by both.
    n_true_values : int
        Points in the place of the true value of a pixel whose noise is known; with "exact", draws of it.
    device : "cpu" or "cuda"
        Where pixels are computed: :meth:`check_device` says what a graphics processor cannot do.

    Examples
    --------
    >>> from uncover import BayesianQDA
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> X = rng.normal(size=(60, 5, 2)) * 0.1 + rng.normal(size=(60, 1, 2)) + 3.0 * y[:, None, None]
    >>> clf = BayesianQDA().fit(X, y)
    >>> summary = Summariser(clf).summarise(X.transpose(1, 2, 0))
    >>> bool(np.allclose(summary.probability.T, clf.predict_proba(X)))
    True
    """

    def __init__(
        self,
        model: GaussianClasses | Any,
        *,
        paired: bool = True,
        method: str = "exact",
        n_true_values: int = 192,
        device: str = "cpu",
    ) -> None:
        self.model: GaussianClasses = model.fitted_value() if hasattr(model, "fitted_value") else model
        self.value, self.paired, self.method = self.model, paired, method
        self.predictor = Predictor.of(self.model, paired=paired, method=method)
        self.n_true_values, self.device = n_true_values, device
        self._with_noise: dict[Any, tuple[list[ClassDensitiesWithNoise], bool] | None] = {}
        self._worlds_with_noise: dict[Any, WorldDensitiesWithNoise | None] = {}
        self._of_groups: dict[Any, Any] = {}

    def _summarise(self, given: Planes) -> PixelSummary:
        summary = self._read_planes(given)
        if given.coefficients is None and given.noise is None:
            points = np.moveaxis(given.numbers, 2, 0)
            summary.parts[5] = bounded_where_new(self.model, summary.typicality, points)
        return summary

    def _read_planes(self, given: Planes) -> PixelSummary:
        used = self.model.used_features
        if given.features is not None:
            used = used & given.features
        drawn = self.predictor.kind.name == "draws" and len(given) > 1
        if drawn and used.all() and not self.model.statistics.noise_of_each_class:
            given, drawn = self._measured(given), False
        common = self.predictor.systematic(given.systematic)
        if given.noise is None and common is None:
            fast = self.predictor.densities(len(given), used)
            if fast is not None:
                return self._by_densities(*fast, given.select_features(used))
        if self.predictor.method == "fast" and not drawn:
            worlds_with_noise = given.noise is not None and len(given) > 1
            if worlds_with_noise and self.predictor.kind.by_realisation and used.any():
                found = self._in_groups(given, common, used)
                if found is not None:
                    return found
            arranged = self._densities_for_noise(given, used)
            if arranged is not None:
                worlds = self._noisy_worlds(len(given), given.systematic, used)
                return self._by_densities_with_noise(*arranged, given, used, worlds)
        summary = self._by_readings(given, used, common)
        return self._with_worlds(given, summary, used) if self.predictor.between_scenes else summary

    def _measured(self, given: Planes) -> Planes:
        """Draws around measurements as these, (1, feature, pixel), and the noise that the draws tell of."""
        observation = given.observation
        (reading,) = self.predictor.readings(observation.structure)
        (noise,) = observation.noise_of(reading, self.model.statistics.drawn, self.model.used_features)
        points = observation.points(reading).T[None].astype(given.numbers.dtype)
        return replace(given, numbers=points, coefficients=None, noise=noise)

    def check_device(self, n_realisations: int, *, noisy: bool) -> None:
        """Refuse a graphics processor where there is none, or where its kernel does not reach."""
        from uncover.engines.cuda import check_cuda

        check_cuda()
        if noisy or self.predictor.densities(n_realisations, self.model.used_features) is None:
            raise ValueError(
                "--device cuda maps pixels as they are, or in the worlds of the model's own scene, by qda, "
                "lda or mda; it takes no stated uncertainty, worlds of another scene, repeats or draws: "
                "leave it out"
            )

    def n_worlds(self, n_realisations: int) -> int:
        """Number of worlds in which pixels of so many realisations get a class."""
        return self.predictor.n_worlds(n_realisations)

    def world_pairs(self, n_realisations: int) -> NDArray[np.int64]:
        """Draws that make each world: (world, quantity), the realisation and perhaps the model's world."""
        kind = self.predictor.kind
        if not kind.by_realisation:
            return np.zeros((1, 1), int)
        pairs = np.array(
            [[r, -1 if w is None else w] for r, w in kind.pairs(n_realisations, self.predictor.pairing)]
        )
        return pairs if self.predictor.between_scenes else pairs[:, :1]

    def _by_densities(self, densities: FastClassDensities, pairs: Pairs, given: Planes) -> PixelSummary:
        if self.device == "cuda":
            return self._on_device(densities, pairs, given)
        sums = densities.summarise(given.numbers, pairs, coefficients=given.coefficients)
        n, best = len(pairs.worlds), sums.best
        probability, typicality, inner, model = (part if n == 1 else part / n for part in sums[:4])
        if len(probability) < len(self.model.classes):
            best = self.model.known_classes.astype(np.uint8)[best]
            probability, typicality = self._spread_rows(probability), self._spread_rows(typicality)
        return _conclude(probability, typicality, 0.0, model, inner, best)

    def _on_device(self, densities: FastClassDensities, pairs: Pairs, given: Planes) -> PixelSummary:
        """The same on a graphics processor, in single precision but for doubtful pixels."""
        from uncover.engines.cuda import layers_on_host

        several = given.coefficients is None and len(given) > 1
        source = given.numbers if several else given.numbers[0]
        found = layers_on_host(densities, source, pairs, given.coefficients)
        probability, worlds = found.probability, found.world_classes
        if len(probability) < len(self.model.classes):
            worlds = self.model.known_classes.astype(np.uint8)[worlds]
            probability = self._spread_rows(probability)
        parts = (found.total, found.measurement, found.model, found.overlap, found.margin, found.typicality)
        best = probability.argmax(axis=0).astype(np.uint8)
        disagreement = found.disagreement.astype(np.float64)
        return PixelSummary(probability, np.stack(parts), disagreement, worlds, best)

    def _densities_for_noise(
        self, given: Planes, used: Features
    ) -> tuple[list[ClassDensitiesWithNoise], bool] | None:
        """Densities of each reading, and whether realisations spread by noise; None if not Student t."""
        n, systematic = len(given), given.systematic
        shared = None if systematic is None else systematic.tobytes()
        key = n, given.noise is None, shared, used.tobytes()
        if key not in self._with_noise:
            readings = self.predictor.readings(Structure(n if n > 1 else None, given.noise is not None))
            common = self.predictor.systematic(systematic)
            found = [
                self.predictor.densities_with_noise(reading, used, common, self.n_true_values)
                for reading in (readings if used.any() else [])
            ]
            spread = n > 1 and len(found) == 1 and readings[0].noise is not None
            known: list[ClassDensitiesWithNoise] = [each for each in found if each is not None]
            self._with_noise[key] = (known, spread) if found and len(known) == len(found) else None
        return self._with_noise[key]

    def _in_groups(self, given: Planes, common: Floats | None, used: Features) -> PixelSummary | None:
        """Worlds of pixels whose noise is known, in groups of nearly the same noise.

        What the noise of a pixel makes of the mean world, beyond that of its group, holds for all worlds.
        None where densities are not Student t.
        """
        p, n = given.numbers.shape[1:]
        noise = given.noise or Covariances(np.zeros((p, p)), None, None)
        noise = noise if common is None else noise.plus(common)
        own = self._arranged(self._mean_through, len(given), used, None)
        if own is None:
            return None
        least, given = np.full(p, np.inf), given.select_features(used)
        least[used] = (1.0 / (own.measured.density.whitening**2).sum(axis=-2)).min(axis=0)
        groups = list(groups_of_noise(noise, n, least))
        noise = noise if used.all() else noise.select_features(used)
        if self.predictor.between_scenes:
            return self._mean_of_worlds(own, given, noise, groups, used)
        parts, plain = [], np.empty((len(self.model.known), n))
        mean = given.mean_world()
        for rows, covariance in groups:
            fast = self._arranged(self.predictor.densities_through, len(given), used, covariance)
            middle = self._arranged(self._mean_through, len(given), used, covariance)
            densities, pairs = fast
            parts.append((rows, self._by_densities(densities, pairs, given.pixels(rows))))
            plain[:, rows] = middle.read(np.ascontiguousarray(mean[:, :, rows])).probability
        exact = own.read(mean, covariances=noise.matrices())
        known = np.divide(exact.measurement, exact.inner, out=np.zeros(n), where=exact.inner > 0)
        change = self._spread_rows(exact.probability / np.maximum(plain, _TINY))
        return _with_own_noise(_joined(parts, n), change, known)

    def _mean_of_worlds(
        self,
        own: ClassDensitiesWithNoise,
        given: Planes,
        noise: Covariances,
        groups: list[tuple[NDArray[np.intp], Floats]],
        used: Features,
    ) -> PixelSummary:
        """Pixels of another scene: the mean of their worlds, whose spread is noise with that of each."""
        values = np.moveaxis(given.values, 2, 0)
        spread = scatter_of_draws(values) / (len(given) - 1) + noise.matrices()
        found = own.read(np.asarray(values.mean(axis=1, dtype=np.float64)).T[None], covariances=spread)
        model = below_entropy(found.information, found.inner - found.measurement)
        summary = self._averaged([(*found[:2], found.measurement, model, found.inner)])
        moved = []
        for rows, covariance in groups:
            worlds = self._arranged(self.predictor.worlds_with_noise, len(given), used, covariance)
            if worlds is None:
                return summary
            some = given.pixels(rows)
            moved.append(worlds.best(some.numbers, coefficients=some.coefficients, spread=True))
        classes = np.empty((len(moved[0]), given.numbers.shape[2]), np.uint8)
        for (rows, _), best in zip(groups, moved, strict=True):
            classes[:, rows] = self.model.known_classes.astype(np.uint8)[best]
        return _replace_worlds(summary, classes)

    def _arranged(self, make: Callable[..., Any], n: int, used: Features, noise: Floats | None) -> Any:
        """Class models seen through the noise of a group; those of the last groups are kept."""
        key = make.__name__, n, used.tobytes(), None if noise is None else noise.tobytes()
        if key not in self._of_groups:
            while len(self._of_groups) >= _GROUPS_KEPT:
                self._of_groups.pop(next(iter(self._of_groups)))
            self._of_groups[key] = make(n, used, noise)
        return self._of_groups[key]

    def _mean_through(self, n: int, used: Features, noise: Floats | None) -> ClassDensitiesWithNoise | None:
        """The class models that the mean of the worlds is read with, through noise that pixels have alike."""
        predictor = self.predictor
        if predictor.between_scenes:
            (reading,) = predictor.readings(Structure(n))
            return predictor.densities_with_noise(reading, used, noise, self.n_true_values)
        reading = Reading(None, None if predictor.kind.counts_rows else MEAN_WORLD)
        points = max(self.n_true_values // _FEWER_POINTS, 16) if noise is None else 2
        found = predictor.densities_with_noise(reading, used, noise, points)
        return None if found is None else replace(found, reference=None)  # not asked for p-values

    def _by_densities_with_noise(
        self,
        arranged: list[ClassDensitiesWithNoise],
        spread: bool,
        given: Planes,
        used: Features,
        worlds: WorldDensitiesWithNoise | None,
    ) -> PixelSummary:
        """With known noise, by the matched Student t; classes in ``worlds`` where these are read at once."""
        given = given.select_features(used)
        planes, coefficients = given.numbers, given.coefficients
        covariances = None if given.noise is None else given.noise.matrices()
        parts = []
        for i, densities in enumerate(arranged):
            mine = slice(i, i + 1) if len(arranged) > 1 else slice(None)
            found = densities.read(
                planes[mine] if coefficients is None else planes,
                coefficients=None if coefficients is None else coefficients[mine],
                covariances=covariances,
                spread=spread,
            )
            model = below_entropy(found.information, found.inner - found.measurement)
            parts.append((found.probability, found.typicality, found.measurement, model, found.inner))
        summary = self._averaged(parts)
        if worlds is None:
            return summary
        moved = worlds.best(planes, coefficients=coefficients, covariances=covariances, spread=spread)
        return _replace_worlds(summary, self.model.known_classes.astype(np.uint8)[moved])

    def _averaged(self, parts: Sequence[tuple[Floats, ...]]) -> PixelSummary:
        """From the scores of each reading, of the known classes (typicality: of components)."""
        classes = np.stack([part[0].argmax(axis=0).astype(np.uint8) for part in parts])
        sums = (sum(each) / len(parts) for each in zip(*parts, strict=True))
        probability, typicality, measurement, model, inner = sums
        typicality = self._spread_rows(self.predictor.components.largest(typicality.T).T)
        known = self.model.known_classes.astype(np.uint8)
        return _conclude(
            self._spread_rows(probability), typicality, measurement, model, inner, known[classes]
        )

    def _noisy_worlds(
        self, n: int, systematic: Floats | None, used: Features
    ) -> WorldDensitiesWithNoise | None:
        if not self.predictor.between_scenes:
            return None
        key = n, None if systematic is None else systematic.tobytes(), used.tobytes()
        if key not in self._worlds_with_noise:
            common = self.predictor.systematic(systematic)
            self._worlds_with_noise[key] = self.predictor.worlds_with_noise(n, used, common)
        return self._worlds_with_noise[key]

    def _spread_rows(self, values: Floats) -> Floats:
        """Put the rows of the known classes among all classes."""
        return self.model.among_all_classes(values.T, 0.0).T

    def _by_readings(self, given: Planes, used: Features, common: Floats | None) -> PixelSummary:
        """Reading by reading, for what the fast path does not reach; ``common`` is beside the noise."""
        observation = given.observation
        readings = self.predictor.readings(observation.structure)
        return self._averaged(
            [self._read(self.predictor.measured(observation, each, used, common)) for each in readings]
        )

    def _with_worlds(self, given: Planes, summary: PixelSummary, used: Features) -> PixelSummary:
        """With the most probable class in pairs of worlds of the two scenes, and how often it is another.

        Each is read through the noise of both, by matched covariance.
        """
        observation, common = given.observation, self.predictor.systematic(given.systematic)
        (mean,) = self.predictor.readings(observation.structure)
        of_mean = self.predictor.measured(observation, mean, used, common)
        known, worlds = self.model.known_classes, []
        for realisation, world in self.predictor.kind.pairs(len(given), self.predictor.pairing):
            moved = replace(
                of_mean,
                points=given.values[realisation].T[:, used],
                models=self.predictor.class_models(replace(mean, world=world), used),
                world=world,
                method="fast",
            )
            worlds.append(known[moved.log_odds().argmax(axis=1)])
        return summary if len(worlds) < 2 else _replace_worlds(summary, np.stack(worlds).astype(np.uint8))

    def _read(self, measured: MeasuredPoints) -> tuple[Floats, ...]:
        """Probabilities, typicality and the parts of the budget of one reading, for the known classes.

        Typicality is that of their components.
        """
        distance, joint = squared_distances(measured.models.predictive, measured.points), measured.log_joint()
        known = softmax(measured.components.log_odds(joint), axis=1)
        measurement = np.zeros(len(known))
        if measured.noisy:
            measurement = self._measurement(measured, known, measured.components.probability(known, joint))
        inner = entropy(known)
        variance = measured.models.log_density_variance
        information = variance.of_classes(measured.components, known, distance, joint)
        model = below_entropy(information, inner - measurement)
        return known.T, measured.typicality().T, measurement, model, inner

    def _measurement(self, measured: MeasuredPoints, P: Floats, parts: Floats) -> Floats:
        """Information that the true value would give, from draws of it that lie evenly.

        P are probabilities of the classes, ``parts`` those of their components. All pixels have the
        same random numbers: what is said of one does not depend on others.
        """
        truth, n = measured.truth.predictive(), self.n_true_values
        counts = points_of_components(parts.T, points_of_pixels(entropy(P), n)).T
        last = counts.cumsum(axis=1)
        chi, weight = np.zeros((len(P), n, measured.points.shape[1])), np.zeros((len(P), n))
        for k in range(parts.shape[1]):
            mine, noise = np.flatnonzero(counts[:, k]), measured.full_noise(k)
            assert noise is not None
            if not len(mine):
                continue
            rng = stream(self.model.seed, "true values of pixels", k, measured.world)
            most = int(counts[:, k].max())
            places = spread_evenly(most, places_needed(truth), rng)
            drawn = sample_true_value(truth[k], measured.points[mine], noise[mine], places)
            number, draw = np.nonzero(np.arange(most) < counts[mine, k, None])
            i = mine[number]
            at = last[i, k] - counts[i, k] + draw
            chi[i, at], weight[i, at] = drawn[number, draw], parts[i, k] / counts[i, k]
        at_truth = measured.components.log_odds(measured.log_prior + truth.log_prob(chi))
        with np.errstate(divide="ignore"):
            log_weight = np.log(weight)[..., None] + np.log(softmax(at_truth, axis=-1) + 1e-300)
        return split_by_draw(joint_table(log_weight, P))[0]


def _with_own_noise(summary: PixelSummary, change: Floats, known: Floats) -> PixelSummary:
    """With probabilities changed by the factors (class, pixel), and what noise hides.

    That is the share ``known`` of the entropy that is left once the world is known.
    """
    kind = summary.probability.dtype
    probability = summary.probability * change
    probability = (probability / probability.sum(axis=0)).astype(kind)
    total, before = entropy(probability.T), np.maximum(summary.total, _TINY)
    between, model = (part * np.minimum(total / before, 1.0) for part in (summary.measurement, summary.model))
    measurement = between + (total - between) * known
    model = np.minimum(model, np.maximum(total - measurement, 0.0))
    overlap = np.maximum(total - measurement - model, 0.0)
    best, first, second = _ranked(probability)
    parts = np.stack([total, measurement, model, overlap, first - second, summary.typicality]).astype(kind)
    found = replace(summary, probability=probability, parts=parts, best=best)
    return _replace_worlds(found, summary.world_classes)


def _joined(parts: Sequence[tuple[NDArray[np.intp], PixelSummary]], n: int) -> PixelSummary:
    """Summaries of some pixels each, by their places, as one of n pixels."""
    if len(parts) == 1:
        return parts[0][1]
    whole = {}
    for name, first in vars(parts[0][1]).items():
        whole[name] = np.empty((*first.shape[:-1], n), first.dtype)
        for rows, part in parts:
            whole[name][..., rows] = getattr(part, name)
    return PixelSummary(**whole)


def corrected(toa: Floats, coefficients: Floats) -> Floats:
    """Surface reflectance (realisation, feature, pixel) from one plane a feature, in double precision."""
    return surface_reflectance(toa, *np.moveaxis(coefficients, 1, 0)[..., None])


def _replace_worlds(summary: PixelSummary, classes: Floats) -> PixelSummary:
    """With the classes in other worlds (world, pixel), and how often they are not that of the average."""
    return replace(summary, world_classes=classes, disagreement=(classes != summary.best).mean(axis=0))


def _conclude(
    probability: Floats,
    typicality: Floats,
    measurement: Floats | float,
    model: Floats,
    inner: Floats,
    worlds: Numbers,
) -> PixelSummary:
    """From averages over readings, classes first, to the budget.

    By machine code where all that is known of the measurement is how worlds differ.
    """
    code = machine_code()
    if code is not None and np.ndim(measurement) == 0:
        n, kind = probability.shape[1], probability.dtype
        parts, disagreement, best = np.empty((6, n), kind), np.empty(n), np.empty(n, np.uint8)
        code.conclude(probability, typicality, model, inner, worlds, parts, disagreement, best)
        return PixelSummary(probability, parts, disagreement, worlds, best)
    total = entropy(probability.T)
    between = np.maximum(total - inner, 0.0)
    measurement = between + measurement
    model = np.minimum(model, np.maximum(total - measurement, 0.0))
    best, first, second = _ranked(probability)
    overlap = np.maximum(total - measurement - model, 0.0)
    return PixelSummary(
        probability=probability,
        parts=np.stack([total, measurement, model, overlap, first - second, typicality.max(axis=0)]),
        disagreement=(worlds != best).mean(axis=0),
        world_classes=worlds,
        best=best,
    )


def _ranked(probability: Floats) -> tuple[Numbers, Floats, Floats]:
    """The most probable class, the first of equals; its probability and the next: row by row."""
    first, second = probability[0].copy(), np.zeros_like(probability[0])
    best = np.zeros(probability.shape[1], np.uint8)
    for k in range(1, len(probability)):
        np.maximum(second, np.minimum(first, probability[k]), out=second)
        best[probability[k] > first] = k
        np.maximum(first, probability[k], out=first)
    return best, first, second
