"""All layers of a map from one pass over the realisations of its pixels, none of which is kept."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from uncover.bayes.budget import entropy, joint_table, split_by_draw
from uncover.bayes.covariances import Covariances
from uncover.bayes.noise import sample_true_value
from uncover.bayes.noisy_lens import NoisyLens, points_of_parts, points_of_pixels
from uncover.bayes.second_order import (
    LogDensityVariance,
    below_entropy,
    second_order,
    squared_distances,
)
from uncover.bayes.speed import machine_code
from uncover.bayes.streams import stream
from uncover.estimators.reading import Reader, Sight
from uncover.estimators.values import Inputs


@dataclass(frozen=True)
class PixelSummary:
    """What a map says of each pixel.

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

    probability: np.ndarray
    parts: np.ndarray
    disagreement: np.ndarray
    world_classes: np.ndarray
    best: np.ndarray

    total = property(lambda self: self.parts[0])
    measurement = property(lambda self: self.parts[1])
    model = property(lambda self: self.parts[2])
    overlap = property(lambda self: self.parts[3])
    margin = property(lambda self: self.parts[4])
    typicality = property(lambda self: self.parts[5])


class Summariser:
    """Reads pixels with a fitted model: all realisations in one pass, none of which is kept.

    The model part of the budget is the closed second-order one; with known noise the measurement part is from
    drawn true values, otherwise it is what averaging over realisations adds.

    Parameters
    ----------
    model : fitted estimator
    paired : bool
        Whether the pixels are of the scene that trained the model.
    method : "exact" or "fast"
        How pixels whose noise is known are read: through it exactly, or by the Student t of matched
        covariance, with true values drawn from Gaussians; other pixels are read the same by both.
    n_true_values : int
        Points in the place of the true value of a pixel whose noise is known; with "exact", draws of it.

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
        self, model, *, paired: bool = True, method: str = "exact", n_true_values: int = 192
    ) -> None:
        self.model = model
        self.reader = Reader(model, paired=paired, method=method)
        self.n_true_values = n_true_values
        self._variances: dict = {}
        self._noisy_lenses: dict = {}
        self._world_lenses: dict = {}

    def summarise(
        self,
        planes: np.ndarray,
        *,
        coefficients: np.ndarray | None = None,
        noise: Covariances | None = None,
        systematic: np.ndarray | None = None,
        features: np.ndarray | None = None,
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
            Known noise of the pixels; only with one realisation.
        systematic : array of shape (feature, feature), optional
        features : array of bool of shape (feature,), optional
            Which features the pixels have; the others are marginalised, and may be NaN.
        """
        summary = self._summarise(planes, coefficients, noise, systematic, features)
        if coefficients is None and noise is None:
            bounded = self.model._bounded_where_new(summary.typicality, np.moveaxis(planes, 2, 0))
            summary.parts[5] = bounded
        return summary

    def _summarise(self, planes, coefficients, noise, systematic, features) -> PixelSummary:
        used = ~self.model.ignored_features_
        if features is not None:
            used = used & features
        n = len(planes) if coefficients is None else len(coefficients)
        if self.reader.kind.name == "draws" and n > 1:
            planes, noise = self._measured(planes, coefficients)
            n, coefficients = 1, None
        single = Inputs(np.zeros((1, len(used))), None, systematic)
        if noise is None and self.reader.systematic(single) is None:
            fast = self.reader.lens(n, used)
            if fast is not None:
                return self._by_lens(*fast, planes, coefficients, used)
        if self.reader.method == "fast":
            lenses = self._lenses_for_noise(n, noise, systematic, used)
            if lenses is not None:
                return self._by_noisy_lenses(*lenses, planes, coefficients, noise, systematic, used)
        values = planes if coefficients is None else corrected(planes[0], coefficients)
        summary = self._by_sights(values, noise, systematic, used)
        return (
            self._with_worlds(values, summary, noise, systematic, used) if self._between_scenes else summary
        )

    def _measured(self, planes, coefficients) -> tuple[np.ndarray, Covariances | None]:
        """Draws around measurements as these, (1, feature, pixel), and the noise that the draws tell of."""
        values = planes if coefficients is None else corrected(planes[0], coefficients)
        (view,) = self.reader.views(Inputs(np.moveaxis(values, 2, 0), None, None))
        return view.points.T[None].astype(planes.dtype), view.noise

    def world_pairs(self, n_realisations: int) -> np.ndarray:
        """Draws that make each world: (world, quantity), the realisation and perhaps the model's world."""
        kind = self.reader.kind
        if not kind.by_realisation:
            return np.zeros((1, 1), int)
        pairs = np.array(
            [[r, -1 if w is None else w] for r, w in kind.pairs(n_realisations, self.reader.pairing)]
        )
        return pairs if self._between_scenes else pairs[:, :1]

    def _by_lens(self, lens, pairs, planes, coefficients, used) -> PixelSummary:
        if not used.all():
            planes = planes[:, used]
            coefficients = None if coefficients is None else coefficients[..., used]
        sums = lens.summarise(planes, pairs, coefficients=coefficients)
        n, best = len(pairs.worlds), sums.best
        probability, typicality, inner, model = (part if n == 1 else part / n for part in sums[:4])
        if len(probability) < len(self.model.classes_):
            best = self.model._known_classes().astype(np.uint8)[best]
            probability, typicality = self._spread_rows(probability), self._spread_rows(typicality)
        return _conclude(probability, typicality, 0.0, model, inner, best)

    def _lenses_for_noise(self, n, noise, systematic, used) -> tuple[list[NoisyLens], bool] | None:
        """A lens for each view, and whether the spread of realisations is noise; None if not Student t."""
        shared = None if systematic is None else systematic.tobytes()
        key = n, noise is None, shared, used.tobytes()
        if key not in self._noisy_lenses:
            nowhere = np.zeros((1, n, len(used)) if n > 1 else (1, len(used)))
            inputs = Inputs(nowhere, None if noise is None else noise[:1], systematic)
            common, views = self.reader.systematic(inputs), self.reader.views(inputs)
            found = [
                self.reader.noisy_lens(view, used, common, self.n_true_values)
                for view in (views if used.any() else [])
            ]
            spread = n > 1 and len(found) == 1 and views[0].noise is not None
            known = [lens for lens in found if lens is not None]
            self._noisy_lenses[key] = (known, spread) if found and len(known) == len(found) else None
        return self._noisy_lenses[key]

    def _by_noisy_lenses(self, lenses, spread, planes, coefficients, noise, systematic, used) -> PixelSummary:
        """With known noise, by the matched Student t."""
        if not used.all():
            planes = planes[:, used]
            coefficients = None if coefficients is None else coefficients[..., used]
            noise = None if noise is None else noise.select_features(used)
        covariances = None if noise is None else noise.matrices()
        parts = []
        for i, lens in enumerate(lenses):
            mine = slice(i, i + 1) if len(lenses) > 1 else slice(None)
            found = lens.read(
                planes[mine] if coefficients is None else planes,
                coefficients=None if coefficients is None else coefficients[mine],
                covariances=covariances,
                spread=spread,
            )
            model = below_entropy(found.information, found.inner - found.measurement)
            parts.append((found.probability, found.typicality, found.measurement, model, found.inner))
        best = np.stack([part[0].argmax(axis=0) for part in parts])
        probability, typicality, measurement, model, inner = (
            sum(x) / len(x) for x in zip(*parts, strict=True)
        )
        spread_rows, known = self._spread_rows, self.model._known_classes().astype(np.uint8)
        if self.reader.folding is not None:
            typicality = self.reader.folding.largest(typicality.T).T
        summary = _conclude(
            spread_rows(probability), spread_rows(typicality), measurement, model, inner, known[best]
        )
        n = len(planes) if coefficients is None else len(coefficients)
        worlds = self._noisy_worlds(n, systematic, used) if self._between_scenes else None
        if worlds is None:
            return summary
        moved = worlds.best(planes, coefficients=coefficients, covariances=covariances, spread=spread)
        return _replace_worlds(summary, known[moved])

    def _noisy_worlds(self, n, systematic, used):
        key = n, None if systematic is None else systematic.tobytes(), used.tobytes()
        if key not in self._world_lenses:
            common = self.reader.systematic(Inputs(np.zeros((1, len(used))), None, systematic))
            self._world_lenses[key] = self.reader.noisy_worlds(n, used, common)
        return self._world_lenses[key]

    def _spread_rows(self, values: np.ndarray) -> np.ndarray:
        """Put the rows of the known classes among all classes."""
        return self.model._spread_classes(values.T, 0.0).T

    def _by_sights(self, values, noise, systematic, used) -> PixelSummary:
        """View by view, for what the fast path does not reach."""
        points = np.moveaxis(values, 2, 0)  # (pixel, realisation, feature)
        inputs = Inputs(points[:, 0] if len(values) == 1 else points, noise, systematic)
        common = self.reader.systematic(inputs)
        totals: tuple = ()
        classes = []
        for view in self.reader.views(inputs):
            parts = self._read(self.reader.sight(view, used, common))
            totals = tuple(a + b for a, b in zip(totals, parts, strict=True)) if totals else parts
            classes.append(parts[0].argmax(axis=0).astype(np.uint8))
        probability, typicality, measurement, model, inner = (total / len(classes) for total in totals)
        folding, spread = self.reader.folding, self._spread_rows
        if folding is not None:
            typicality = folding.largest(typicality.T).T
        known = self.model._known_classes().astype(np.uint8)
        return _conclude(
            spread(probability), spread(typicality), measurement, model, inner, known[np.stack(classes)]
        )

    @property
    def _between_scenes(self) -> bool:
        """Whether the pixels' worlds are independent of the model's: all are then read in one view."""
        return self.reader.kind.name == "shared" and not self.reader.pairing.paired

    def _with_worlds(self, values, summary, noise, systematic, used) -> PixelSummary:
        """With the most probable class in pairs of worlds of the two scenes, and how often it is another.

        Each is read through the noise of both, by matched covariance.
        """
        points = np.moveaxis(values, 2, 0)  # (pixel, realisation, feature)
        inputs = Inputs(points[:, 0] if len(values) == 1 else points, noise, systematic)
        (view,), common = self.reader.views(inputs), self.reader.systematic(inputs)
        known, worlds = self.model._known_classes(), []
        for realisation, world in self.reader.kind.pairs(len(values), self.reader.pairing):
            moved = replace(view, points=points[:, realisation], world=world)
            sight = replace(self.reader.sight(moved, used, common), method="fast")
            worlds.append(known[sight.log_odds().argmax(axis=1)])
        return summary if len(worlds) < 2 else _replace_worlds(summary, np.stack(worlds).astype(np.uint8))

    def _read(self, sight: Sight):
        """Probabilities, typicality and the parts of the budget of one sight, for the known classes.

        Typicality is that of the parts of classes, where they have some.
        """
        distance, joint = squared_distances(sight.models.predictive, sight.points), sight.log_joint()
        known, folding = softmax(sight.odds_of(joint), axis=1), sight.folding
        measurement = np.zeros(len(known))
        if sight.noisy:
            measurement = self._measurement(sight, known, sight.of_parts(known, joint))
        variance, inner = self._variance(sight).tempered(sight.temperature), entropy(known)
        if folding is None:
            information = variance.information(known, distance)
        else:
            information = second_order(known, folding.variance(joint, self._variance(sight).at(distance)))
        model = below_entropy(information, inner - measurement)
        return known.T, sight.typicality().T, measurement, model, inner

    def _variance(self, sight: Sight) -> LogDensityVariance:
        key = id(sight.models)
        if key not in self._variances:
            models = self.reader.model
            concentration = models.class_posterior_[models._known_classes()]
            # The models are kept with it: an id is theirs as long as they live.
            self._variances[key] = sight.models, LogDensityVariance.of(sight.models.posterior, concentration)
        return self._variances[key][1]

    def _measurement(self, sight: Sight, P: np.ndarray, parts: np.ndarray) -> np.ndarray:
        """Information that the true value would give, from draws of it that lie evenly.

        P are probabilities of the classes, ``parts`` those of their parts, or the same. All pixels have the
        same random numbers: what is said of one does not depend on others.
        """
        truth, n = sight.truth.predictive(), self.n_true_values
        counts = points_of_parts(parts.T, points_of_pixels(entropy(P), n)).T
        last = counts.cumsum(axis=1)
        chi, weight = np.zeros((len(P), n, sight.points.shape[1])), np.zeros((len(P), n))
        for k in range(parts.shape[1]):
            mine, noise = np.flatnonzero(counts[:, k]), sight.full_noise(k)
            assert noise is not None
            if not len(mine):
                continue
            rng = stream(self.model.random_state, "true values of pixels", k, sight.world)
            most = int(counts[:, k].max())
            drawn = sample_true_value(truth[k], sight.points[mine], noise[mine], most, rng)
            number, draw = np.nonzero(np.arange(most) < counts[mine, k, None])
            i = mine[number]
            at = last[i, k] - counts[i, k] + draw
            chi[i, at], weight[i, at] = drawn[number, draw], parts[i, k] / counts[i, k]
        at_truth = sight.odds_of(sight.log_prior + truth.log_prob(chi))
        with np.errstate(divide="ignore"):
            log_weight = np.log(weight)[..., None] + np.log(softmax(at_truth, axis=-1) + 1e-300)
        return split_by_draw(joint_table(log_weight, P))[0]


def corrected(toa, coefficients):
    """Surface reflectance (realisation, feature, pixel) from one plane a feature, in double precision."""
    path, slope, albedo = np.moveaxis(coefficients, 1, 0)[..., None]
    y = toa - path
    return y / (slope + albedo * y)


def _replace_worlds(summary: PixelSummary, classes: np.ndarray) -> PixelSummary:
    """With the classes in other worlds (world, pixel), and how often they are not that of the average."""
    return replace(summary, world_classes=classes, disagreement=(classes != summary.best).mean(axis=0))


def _conclude(probability, typicality, measurement, model, inner, worlds) -> PixelSummary:
    """From averages over views, classes first, to the budget."""
    if machine_code() is not None and np.ndim(measurement) == 0:
        return _conclude_in_machine_code(probability, typicality, model, inner, worlds)
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


def _conclude_in_machine_code(probability, typicality, model, inner, worlds) -> PixelSummary:
    """The same, where all that is known of the measurement is how worlds differ."""
    from uncover.bayes.compiled.budget import conclude

    n, kind = probability.shape[1], probability.dtype
    parts, disagreement, best = np.empty((6, n), kind), np.empty(n), np.empty(n, np.uint8)
    arrays = (np.ascontiguousarray(part) for part in (probability, typicality, model, inner, worlds))
    conclude(*arrays, parts, disagreement, best)
    return PixelSummary(probability, parts, disagreement, worlds, best)


def _ranked(probability):
    """The most probable class, the first of equals; its probability and the next: row by row."""
    first, second = probability[0].copy(), np.zeros_like(probability[0])
    best = np.zeros(probability.shape[1], np.uint8)
    for k in range(1, len(probability)):
        np.maximum(second, np.minimum(first, probability[k]), out=second)
        best[probability[k] > first] = k
        np.maximum(first, probability[k], out=first)
    return best, first, second
