"""All layers of a map from one pass over the realisations of its pixels, none of which is kept."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from uncover.bayes.budget import entropy, joint_table, split_by_draw
from uncover.bayes.covariances import Covariances
from uncover.bayes.kernels import Lens
from uncover.bayes.noise import sample_true_value
from uncover.bayes.second_order import LogDensityVariance, model_information, squared_distances
from uncover.bayes.streams import stream
from uncover.bayes.student_t import StudentT
from uncover.estimators.inputs import Inputs
from uncover.estimators.reading import Reader, Sight
from uncover.estimators.realisations import View


@dataclass(frozen=True)
class PixelSummary:
    """What a map says of each pixel, in float64.

    Attributes
    ----------
    probability : array of shape (pixel, class)
    total, measurement, model, overlap : arrays of shape (pixel,)
        The uncertainty budget in nats; the parts add up to the total.
    margin : array of shape (pixel,)
        Probability of the first class less that of the second.
    typicality : array of shape (pixel,)
        Largest p-value over the classes.
    disagreement : array of shape (pixel,)
        Share of worlds whose most probable class is not that of the average.
    world_classes : array of int of shape (world, pixel)
        Number of the most probable class in each world, for areas world by world.
    """

    probability: np.ndarray
    total: np.ndarray
    measurement: np.ndarray
    model: np.ndarray
    overlap: np.ndarray
    margin: np.ndarray
    typicality: np.ndarray
    disagreement: np.ndarray
    world_classes: np.ndarray


class Summariser:
    """Reads pixels with a fitted model, one realisation at a time.

    The model part of the budget is the closed second-order one; with known noise the measurement part is from
    drawn true values, otherwise it is what averaging over realisations adds.

    Parameters
    ----------
    model : fitted estimator
    paired : bool
        Whether the pixels are of the scene that trained the model.
    n_true_values : int
        Draws of the true value of a pixel whose noise is known.

    Examples
    --------
    >>> from uncover import BayesianQDA
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> X = rng.normal(size=(60, 5, 2)) * 0.1 + rng.normal(size=(60, 1, 2)) + 3.0 * y[:, None, None]
    >>> clf = BayesianQDA().fit(X, y)
    >>> summary = Summariser(clf).summarise(lambda r: X[:, r], n_realisations=5)
    >>> bool(np.allclose(summary.probability, clf.predict_proba(X)))
    True
    """

    def __init__(self, model, *, paired: bool = True, method: str = "exact", n_true_values: int = 16) -> None:
        self.model = model
        self.reader = Reader(model, paired=paired, method=method)
        self.n_true_values = n_true_values
        self._variances: dict = {}
        self._lenses: dict = {}

    def summarise(
        self,
        realise: Callable[[int], np.ndarray],
        *,
        n_realisations: int = 1,
        noise: Covariances | None = None,
        systematic: np.ndarray | None = None,
        first_pixel: int = 0,
        features: np.ndarray | None = None,
    ) -> PixelSummary:
        """Summarise pixels.

        Parameters
        ----------
        realise : function
            Gives realisation r of the pixels: (pixel, feature), finite.
        n_realisations : int
        noise : Covariances, optional
            Known noise of the pixels; only with one realisation.
        systematic : array of shape (feature, feature), optional
        first_pixel : int
            Number of the first pixel, from which the draws of true values are seeded.
        features : array of bool of shape (feature,), optional
            Which features the pixels have; the others are marginalised, and may be NaN.
        """
        total = _Running()
        used = ~self.model.ignored_features_
        if features is not None:
            used = used & features
        inputs = self._inputs(realise, n_realisations, noise, systematic)
        for sight in self._sights(realise, n_realisations, inputs, used):
            total.add(*self._read(sight, first_pixel))
        summary = total.summary()
        if self._between_scenes and n_realisations > 1:
            return replace(summary, **self._worlds_of_other_scene(realise, n_realisations, summary, used))
        return summary

    @property
    def _between_scenes(self) -> bool:
        """Whether the pixels' worlds are independent of the model's: all are then read in one view."""
        return self.reader.kind.name == "shared" and not self.reader.pairing.paired

    def _inputs(self, realise, n_realisations, noise, systematic) -> Inputs | None:
        """The pixels for kinds that need all realisations at once; None where one is read at a time."""
        if n_realisations == 1:
            return Inputs(realise(0), noise, systematic)
        if self.reader.kind.by_realisation and not self._between_scenes:
            return None
        return Inputs(_collect(realise, n_realisations), noise, systematic)

    def _sights(self, realise, n_realisations, inputs, used):
        """Sights of the pixels, one by one."""
        if inputs is not None:
            systematic = self.reader.systematic(inputs)
            for view in self.reader.views(inputs):
                yield self.reader.sight(view, used, systematic)
            return
        for realisation, world in self.reader.kind.pairs(n_realisations, self.reader.pairing):
            yield self.reader.sight(View(realise(realisation), world), used)

    def _worlds_of_other_scene(self, realise, n_realisations, summary, used) -> dict:
        """The most probable class in pairs of worlds of the two scenes, and how often it is another."""
        known = self.model._known_classes()
        worlds = []
        for realisation, world in self.reader.kind.pairs(n_realisations, self.reader.pairing):
            sight = self.reader.sight(View(realise(realisation), world), used)
            worlds.append(known[self._log_joint(sight).argmax(axis=1)])
        classes = np.stack(worlds)
        best = summary.probability.argmax(axis=1)
        return {"world_classes": classes, "disagreement": (classes != best).mean(axis=0)}

    def _read(self, sight: Sight, first_pixel: int):
        """Probabilities, typicality and the parts of the budget of one sight, for all classes."""
        lens = self._lens(sight)
        if lens is None:
            distance = squared_distances(sight.models.predictive, sight.points)
            known, p_value = softmax(sight.log_odds(), axis=1), sight.typicality()
        else:
            distance = lens.squared_distance(sight.points)
            depth = lens.depth(distance)
            joint = (sight.log_prior + lens.log_prob(depth)) / sight.temperature
            known, p_value = _softmax(joint), lens.typicality(depth)
        measurement = np.zeros(len(known))
        if sight.noisy:
            measurement = self._measurement(sight, known, first_pixel)
        variance = self._variance(sight).at(distance) / sight.temperature**2
        inner = entropy(known)
        model = model_information(known, variance, inner - measurement)
        spread = self.model._spread_classes
        return spread(known, 0.0), spread(p_value, 0.0), measurement, model, inner

    def _log_joint(self, sight: Sight) -> np.ndarray:
        lens = self._lens(sight)
        if lens is None:
            return sight.log_joint()
        return sight.log_prior + lens.log_prob(lens.depth(lens.squared_distance(sight.points)))

    def _lens(self, sight: Sight) -> Lens | None:
        """The class models arranged for speed; None where the noise of each pixel changes them."""
        if sight.noise(0) is not None or not isinstance(sight.models.predictive, StudentT):
            return None
        key = id(sight.models)
        if key not in self._lenses:
            # The models are kept with it: an id is theirs as long as they live.
            self._lenses[key] = sight.models, Lens.of(sight.models.predictive)
        return self._lenses[key][1]

    def _variance(self, sight: Sight) -> LogDensityVariance:
        key = id(sight.models)
        if key not in self._variances:
            known = self.model._known_classes()
            concentration = self.model.class_posterior_[known]
            # The models are kept with it: an id is theirs as long as they live.
            self._variances[key] = sight.models, LogDensityVariance.of(sight.models.posterior, concentration)
        return self._variances[key][1]

    def _measurement(self, sight: Sight, P: np.ndarray, first_pixel: int) -> np.ndarray:
        """Information that the true value would give, from draws of it."""
        truth = sight.truth.predictive()
        rng = stream(self.model.random_state, "true values of pixels", first_pixel, sight.world)
        n = self.n_true_values
        cumulated = P.cumsum(axis=1)
        level = rng.random((len(P), n)) * cumulated[:, -1:]
        chosen = np.minimum((cumulated[:, None, :] < level[:, :, None]).sum(-1), P.shape[1] - 1)
        chi = np.empty((len(P), n, sight.points.shape[1]))
        for k in range(P.shape[1]):
            mine = chosen == k
            noise = sight.full_noise(k)
            assert noise is not None
            chi[mine] = sample_true_value(truth[k], sight.points, noise, n, rng)[mine]
        at_truth = (sight.log_prior + truth.log_prob(chi)) / sight.temperature
        information, _ = split_by_draw(joint_table(np.log(softmax(at_truth, axis=-1) + 1e-300), P))
        return information


def _softmax(joint):
    """Probabilities from log joints, in their place."""
    joint -= joint.max(axis=1, keepdims=True)
    np.exp(joint, out=joint)
    joint /= joint.sum(axis=1, keepdims=True)
    return joint


def _collect(realise, n):
    """All realisations at once: (pixel, realisation, feature), for kinds that need their mean."""
    return np.stack([realise(r) for r in range(n)], axis=1)


class _Running:
    """Sums over sights."""

    def __init__(self) -> None:
        self.n = 0
        self.probability = self.typicality = self.measurement = self.model = self.inner = np.zeros(())
        self.world_classes: list = []

    def add(self, probability, typicality, measurement, model, inner) -> None:
        self.n += 1
        self.probability = self.probability + probability
        self.typicality = self.typicality + typicality
        self.measurement = self.measurement + measurement
        self.model = self.model + model
        self.inner = self.inner + inner
        self.world_classes.append(probability.argmax(axis=1).astype(np.uint8))

    def summary(self) -> PixelSummary:
        P = self.probability / self.n
        total = entropy(P)
        between = np.maximum(total - self.inner / self.n, 0.0)
        measurement = between + self.measurement / self.n
        model = np.minimum(self.model / self.n, np.maximum(total - measurement, 0.0))
        ranked = np.sort(P, axis=1)
        best, worlds = P.argmax(axis=1), np.stack(self.world_classes)
        return PixelSummary(
            probability=P,
            total=total,
            measurement=measurement,
            model=model,
            overlap=np.maximum(total - measurement - model, 0.0),
            margin=ranked[:, -1] - ranked[:, -2],
            typicality=(self.typicality / self.n).max(axis=1),
            disagreement=(worlds != best).mean(axis=0),
            world_classes=worlds,
        )
