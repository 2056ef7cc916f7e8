"""A fitted model and an observation together: every answer, averaged over the readings of the observation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from uncover.bayes.budget import UncertaintyBudget, entropy
from uncover.bayes.covariances import Covariances
from uncover.bayes.population import UnknownOdds
from uncover.bayes.second_order import below_entropy, squared_distances
from uncover.bayes.streams import stream
from uncover.engines.members import Views, class_probabilities
from uncover.measurement.attribution import ModelDraws, average_budgets, split_entropy
from uncover.measurement.observation import Observation
from uncover.measurement.predictor import ClassModels, MeasuredPoints, Predictor
from uncover.models.drawn_noise import scatter_of_draws
from uncover.models.gaussian import GaussianClasses
from uncover.models.members import GaussianMember, KernelMember, TreeMember
from uncover.models.pool import COUNTS_IN_FULL, Pool, PoolMember, local_weights, share_of
from uncover.models.realisations import Structure
from uncover.models.typical import bounded_where_new

Array = NDArray[np.float64]

# Draws of class models and of true values behind the budget, unless asked for otherwise.
DRAWS, TRUE_VALUES = 1600, 8192
# Draws of the true value that members of a pool are asked about, more where the standard error of independent
# draws would be above this (that of Sobol's points is a third), and numbers of these at a time.
ASKED_VALUES, ASKED_IN_DOUBT, _TOLERABLE, _DRAWN_NUMBERS = 128, 1024, 3e-3, 1 << 21
# The same in maps.
ASKED_QUICKLY = 32
# One in so many of them tells what the parameters of these members are worth.
_OF_INFORMATION = 8


class Nodes(NamedTuple):
    """Worlds at which members are read, and the weights by which log joints in all worlds follow."""

    worlds: NDArray[np.intp]  # (node,)
    weights: Array  # (world, node)

    @classmethod
    def along(cls, place: Array, n: int) -> Nodes:
        """Worlds along a line, (world,): those next to n places at equal distances, joined by a cubic spline.

        >>> Nodes.along(np.array([0.0, 2.0, 1.0]), 2).weights
        array([[1. , 0. ],
               [0. , 1. ],
               [0.5, 0.5]])
        """
        wanted = np.linspace(place.min(), place.max(), n)
        worlds = np.unique(np.abs(place - wanted[:, None]).argmin(1))
        worlds = worlds[np.argsort(place[worlds])]
        from scipy.interpolate import CubicSpline

        return cls(worlds, CubicSpline(place[worlds], np.eye(len(worlds)), bc_type="natural")(place))

    def spread(self, joint: Array) -> Array:
        """Log joints (sample, node, class) in all worlds: (sample, world, class)."""
        possible = np.maximum(joint, -1e300)  # 0·∞ is no number
        return np.asarray(np.matmul(self.weights, possible))


@overload
def predict(
    model: GaussianClasses, observation: Observation, *, paired: bool = ..., method: str = ...
) -> Prediction: ...
@overload
def predict(
    model: Pool, observation: Observation, *, paired: bool = ..., method: str = ...
) -> PoolPrediction: ...
def predict(
    model: GaussianClasses | Pool, observation: Observation, *, paired: bool = True, method: str = "exact"
) -> Prediction | PoolPrediction:
    """Combine a fitted model with an observation.

    Realisations, known noise, missing features (NaN), temperature and averaging are handled here, and
    nowhere else; maps, whose pixels come as planes, go through
    :class:`~uncover.measurement.summary.Summariser`.

    Parameters
    ----------
    model : GaussianClasses or Pool
    observation : Observation
    paired : bool
        Whether the samples come from the scene that trained the model: a common error then cancels.
    method : "exact" or "fast"
        With known noise: the integral over the class models, or the Student t of the same covariance.

    Returns
    -------
    Prediction or PoolPrediction
        What is asked of it is computed then.

    Examples
    --------
    >>> from uncover import BayesianQDA
    >>> model = BayesianQDA().fit([[0.0], [0.2], [2.0], [2.3]], ["a", "a", "b", "b"]).model_
    >>> predict(model, Observation(np.array([[1.0]]))).probability().round(2)
    array([[0.38, 0.62]])
    """
    if isinstance(model, Pool):
        return PoolPrediction(model, observation, paired=paired)
    return Prediction(Predictor.of(model, paired=paired, method=method), observation)


class Prediction:
    """Predictions of a fitted model for an observation; each method is one pass over the samples."""

    def __init__(self, predictor: Predictor, observation: Observation) -> None:
        self.predictor, self.observation = predictor, observation
        self.model = predictor.model

    def probability(self) -> NDArray[Any]:
        """P(class | x, D): (sample, class)."""
        fast = self._fast_probability()
        return self._in_blocks(self._mean_probability) if fast is None else fast

    def by_view(self) -> Array:
        """P(class | x, D) by each reading, of which `probability` is the mean: (sample, reading, class)."""

        def each(readings: list[MeasuredPoints]) -> Array:
            found = [softmax(points.log_odds(), axis=1) for points in readings]
            return np.stack([self.model.among_all_classes(P, 0.0) for P in found], axis=1)

        return self._in_blocks(each, np.float64)

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

    def _fast_probability(self) -> NDArray[Any] | None:
        """P(class | x, D) by the fast path; None where it does not reach."""
        observation, used = self.observation, self.model.used_features
        X = observation.X
        common = self.predictor.systematic(observation.systematic)
        if observation.noise is not None or common is not None or observation.lacks_features:
            return None
        found = self.predictor.densities(observation.structure.realisations, used)
        if found is None:
            return None
        densities, pairs = found
        X = X if X.ndim == 3 else X[:, None, :]
        P = densities.probability(X if used.all() else X[..., used], pairs)
        return self.model.among_all_classes(P, 0.0)


class PoolPrediction:
    """Prediction of a pool for an observation, in the scene that trained it (``paired``) or another.

    Draws and repeats are read as their means with known noise. Gaussian members see the noise in closed form;
    others are asked about draws of the true value (:meth:`true_values`), and what they say is averaged, or
    take the values as they are, if that is how they have learned.

    Of true values there are ``asked`` draws, by default 128, and 1,024 of samples for which these do not
    suffice. Maps are read ``quick``: fewer draws
    of true values, kernels in single precision, budgets in closed form, and trees and kernels in some of many
    worlds (``nodes``).

    Examples
    --------
    >>> from uncover import BayesianClassifier
    >>> y = np.arange(90) % 3
    >>> X = np.random.default_rng(0).normal(size=(90, 2)) + 3.0 * y[:, None]
    >>> clf = BayesianClassifier().fit(X, y)
    >>> bool(np.allclose(predict(clf.model_, Observation(X)).probability(), clf.predict_proba(X)))
    True
    """

    def __init__(
        self,
        pool: Pool,
        observation: Observation,
        *,
        paired: bool = True,
        quick: bool = False,
        nodes: Nodes | None = None,
        asked: int | None = None,
    ) -> None:
        self.pool, self.given, self.paired = pool, observation, paired
        self.quick, self.nodes = quick, nodes
        self.asked = asked or (ASKED_QUICKLY if quick else ASKED_VALUES)
        self._true_joints: dict[str, Array] = {}  # (sample, view, class), of Gaussian members
        self._variance_of: dict[int, Array] = {}  # (sample, view, class), of the log joints of kernels

    # ---- what members are asked about -----------------------------------------------------------------

    @cached_property
    def observation(self) -> Observation:
        """Values and noise, from draws or repeats too; the difference of two scenes' errors is noise."""
        pool, given = self.pool, self.given.by_spread(self.pool.realisations, self.pool.spread)
        known = [c for c in (pool.systematic, given.systematic) if c is not None and not self.paired]
        return given.with_common_error(np.sum(known, axis=0) if known else None)

    @cached_property
    def measured(self) -> Observation:
        """The same for members that are not Gaussian: errors that worlds share are left out, or noise."""
        seen = self.observation
        if self.pool.realisations != "shared":
            return seen
        X, R = seen.X, seen.structure.realisations
        mean = X if R is None else X.mean(axis=1, dtype=np.float64)
        if self.paired:
            return Observation(mean, seen.noise)
        worlds = self.pool.truth_model.posterior.mean.mean(axis=1)  # (world, feature in use)
        p, used = X.shape[-1], self.pool.truth_model.used_features
        common = np.zeros((p, p))
        if len(worlds) > 1:
            common[np.ix_(used, used)] = np.cov(worlds.T)
        own = Covariances(common, None, None) if seen.noise is None else seen.noise.plus(common)
        if (R or 1) > 1:
            own = Covariances(None, None, scatter_of_draws(X) / (R - 1) + own.matrices())  # type: ignore[operator]
        return Observation(mean, own)

    @cached_property
    def noisy(self) -> bool:
        """True where true values have to be drawn: of known noise, or of features that are missing."""
        noise = self.measured.noise
        return (noise is not None and bool(noise.variances().any())) or self.measured.lacks_features

    @cached_property
    def true_values(self) -> Array:
        """Values that members are asked about, draws or the values themselves: (sample, view, feature)."""
        X = self.measured.X
        points = X[:, None] if X.ndim == 2 else X
        if not self.noisy:
            return points
        n = max(1, self.asked // points.shape[1])
        views = [
            self.pool.true_values(points[:, r], self.measured.noise, n, stream(0, "true values", r))
            for r in range(points.shape[1])
        ]
        return np.concatenate(views, axis=1)

    def _points(self, member: PoolMember) -> Array:
        """Values that a member is asked about: (sample, view, feature)."""
        X = self.measured.X
        if member.through_noise or self.measured.lacks_features:
            points = self.true_values
            if not member.through_noise:  # as measured, where they were
                points = np.where(np.isnan(X)[:, None], points, X[:, None])
        else:
            points = X[:, None] if X.ndim == 2 else X
        if member.transform:
            assert self.pool.floor is not None
            points = np.log(np.maximum(points, self.pool.floor))
        if member.reading == "uncertainties":
            assert self.pool.told is not None
            seen = self.pool.log_uncertainties(self.measured.variances(), len(X))
            seen = np.broadcast_to(seen[:, None], (*points.shape[:2], seen.shape[1]))
            points = np.concatenate([points, seen], axis=2)
        if (nodes := self._nodes_of(member)) is not None:
            points = points[:, nodes.worlds]
        return np.ascontiguousarray(points)

    def _nodes_of(self, member: PoolMember) -> Nodes | None:
        """Worlds in which a member is read, None: in all; those whose reading takes time are read in few."""
        return self.nodes if isinstance(member.model, KernelMember | TreeMember) else None

    # ---- what they say -----------------------------------------------------------------------------------

    @cached_property
    def joints(self) -> list[Array]:
        """Log joints of the members, not calibrated: (sample, view, class) each."""
        return [self._log_joint(i, member) for i, member in enumerate(self.pool.members)]

    def _log_joint(self, i: int, member: PoolMember) -> Array:
        if member.gaussian:
            return self._of_gaussian(member).log_joint()
        points = self._points(member)
        n, V, p = points.shape
        if self.quick and isinstance(member.model, KernelMember):
            found, variance = member.model.log_joint_and_variance(points.reshape(-1, p), single=True)
            self._variance_of[i] = variance.reshape(n, V, -1)
        else:
            found = member.model.log_joint(points.reshape(-1, p))
        joint, nodes = found.reshape(n, V, -1), self._nodes_of(member)
        return joint if nodes is None else nodes.spread(joint)

    def _of_gaussian(self, member: PoolMember, method: str = "exact") -> Prediction:
        assert isinstance(member.model, GaussianMember)
        seen = self._seen[member.transform]
        seen = Observation(seen.X) if member.reading == "exact" else seen
        return predict(member.model.model, seen, paired=self.paired, method=method)

    @cached_property
    def _seen(self) -> dict[str, Observation]:
        """Observations that Gaussian members are given, by their transform."""
        plain, floor = self.observation, self.pool.floor
        return {"": plain} if floor is None else {"": plain, "log ": plain.log(floor)}

    @cached_property
    def probabilities(self) -> Array:
        """Calibrated probabilities of the members: (member, sample, class)."""
        return np.stack([view.probability.T for view in self._views]).swapaxes(1, 2)  # points lie together

    @cached_property
    def _entropies(self) -> Array:
        """Of the probabilities of the members: (member, sample)."""
        return np.stack([entropy(P) for P in self.probabilities])

    @cached_property
    def _views(self) -> list[Views]:
        return [self._view_of(member, joint) for member, joint in self._members()]

    def _view_of(self, member: PoolMember, joint: Array) -> Views:
        return Views.of(joint, member.temperature, (member.temperature - 1.0) * self.pool.log_shares)

    @cached_property
    def gates(self) -> Array:
        """Gate, the weight in [0, 1], of each member for each sample: (member, sample)."""
        pool, joints = self.pool, self.joints
        if self.noisy and pool.by_relevance is not None:
            joints = [self._at_truth(m) if m.reading == "closed" else j for m, j in self._members()]
        return pool.gates(joints, self._variances)

    @cached_property
    def _variances(self) -> Array:
        """Variances of the noise, infinite for what is missing: (sample or 1, feature)."""
        return self.measured.variances_with_gaps()

    def _members(self) -> list[tuple[PoolMember, Array]]:
        return list(zip(self.pool.members, self.joints, strict=True))

    def _at_truth(self, member: PoolMember) -> Array:
        """Log joint of Gaussian classes at the true values: (sample, view, class)."""
        if member.name not in self._true_joints:
            points = self._points(member)
            found = member.model.log_joint(points.reshape(-1, points.shape[2]))
            self._true_joints[member.name] = found.reshape(*points.shape[:2], -1)
        return self._true_joints[member.name]

    def probability(self) -> Array:
        """P(class | x, D): (sample, class)."""
        if (blocks := self._blocks()) is not None:
            return np.concatenate([block.probability() for block in blocks])
        return self._answers[0]

    @cached_property
    def _answers(self) -> tuple[Array, Array]:
        """P(class | x, D), and information from the exponents: (sample, class), (sample,)."""
        found, doubtful = self.pool.answers(self.probabilities, self.gates), self._doubtful()
        if len(doubtful):
            some = self.given[doubtful]
            again = PoolPrediction(self.pool, some, paired=self.paired, asked=ASKED_IN_DOUBT)
            found[0][doubtful] = again.probability()
        return found

    def _doubtful(self) -> NDArray[np.intp]:
        """Numbers of the samples for which more draws of the true value are needed: (sample,)."""
        if not self.noisy or self.quick or self.asked >= ASKED_IN_DOUBT:
            return np.empty(0, dtype=np.intp)
        share, spread = local_weights(self.pool.weights, self.gates), np.zeros(len(self.given))
        for weight, (member, joint) in zip(share, self._members(), strict=True):
            if member.reading == "draws":
                spread += weight * self.pool.probability_of(member, joint).std(axis=1).max(axis=-1)
        return np.flatnonzero(spread > _TOLERABLE * np.sqrt(self.asked))

    def _blocks(self) -> list[PoolPrediction] | None:
        """Predictions for blocks of the samples, where drawn true values would need much memory at once."""
        size = max(1, _DRAWN_NUMBERS // (self.asked * (self.pool.n_features + len(self.pool.classes))))
        if "joints" in vars(self) or len(self.given) <= size or not self.noisy:
            return None
        starts = range(0, len(self.given), size)
        parts = (self.given[i : i + size] for i in starts)
        return [
            PoolPrediction(self.pool, part, paired=self.paired, quick=self.quick, asked=self.asked)
            for part in parts
        ]

    def by_view(self) -> Array:
        """P(class | x, D) in each world that a Gaussian member reads: (sample, view, class)."""
        pool = self.pool
        each = [pool.probability_of(member, joint) for member, joint in self._members()]
        views = max(P.shape[1] for P, member in zip(each, pool.members, strict=True) if member.gaussian)
        one = [P if P.shape[1] == views else P.mean(axis=1, keepdims=True) for P in each]
        found = [
            pool.answers(np.stack([P[:, min(i, P.shape[1] - 1)] for P in one]), self.gates)[0]
            for i in range(views)
        ]
        return np.stack(found, axis=1)

    def best_of_views(self) -> NDArray[np.intp]:
        """Number of the most probable class: (view, sample); draws of true values are not views."""
        pool, views = self.pool, self._views
        R = max(v.best.shape[1] for v, m in zip(views, pool.members, strict=True) if m.gaussian)
        if R == 1:
            return self.probability().argmax(-1)[None]
        each = [v.best if v.best.shape[1] == R else v.probability.argmax(-1)[:, None] for v in views]
        found = np.broadcast_to(each[0], (len(each[0]), R)).T.astype(np.intp)
        alike = np.all([one == found.T for one in each], axis=0) & (pool.log_odds_shift is None)
        rows, worlds = np.nonzero(~alike)  # what all members agree upon is so for their mean
        if len(rows):
            some = [
                pool.probability_of(m, joint[rows, worlds]) if joint.shape[1] == R else P[rows]
                for (m, joint), P in zip(self._members(), self.probabilities, strict=True)
            ]
            found[worlds, rows] = pool.answers(np.stack(some), self.gates[:, rows])[0].argmax(-1)
        return found

    def typicality(self) -> Array:
        """p-value of each sample, the largest over the classes: (sample,)."""
        pool = self.pool
        gaussian = self._of_gaussian(pool.members[pool.first_gaussian])
        if pool.ranks is None:
            return gaussian.typicality()
        noisy = np.minimum((1.0 - pool.reliability(self._variances)) / COUNTS_IN_FULL, 1.0)
        if noisy.min() == 1.0:
            return gaussian.typicality()
        if noisy.max() == 0.0:
            return pool.typicality(self.joints, self._tail)
        each = gaussian.typicality(per_class=True)
        ranked = pool.typicality(self.joints, lambda rows: each[rows])
        return np.asarray((1.0 - noisy) * ranked + noisy * each.max(axis=1))

    def _tail(self, rows: NDArray[np.intp]) -> Array:
        """Typicality of some samples by the first Gaussian member: (sample, class)."""
        some = PoolPrediction(self.pool, self.given[rows], paired=self.paired)
        gaussian = some._of_gaussian(self.pool.members[self.pool.first_gaussian])
        return gaussian.typicality(per_class=True)

    def unknown(self) -> UnknownOdds:
        """Density of a class that was never trained, by the first Gaussian member."""
        return self._of_gaussian(self.pool.members[self.pool.first_gaussian]).unknown()

    def budget(self, n_draws: int, n_true_values: int) -> UncertaintyBudget:
        """Where the uncertainty comes from; the draws are those of the budgets of Gaussian members."""
        if (blocks := self._blocks()) is not None:
            each = [vars(block.budget(n_draws, n_true_values)).values() for block in blocks]
            return UncertaintyBudget(*(np.concatenate(part) for part in zip(*each, strict=True)))
        model = self._model_shares(n_draws, n_true_values)
        return self.pool.budget(
            self._answers, self.probabilities, self.gates, self._measurement_share(), model
        )

    def _measurement_share(self) -> Array:
        """Share of the entropy that a perfect measurement would take away: (sample,).

        Members that know nothing of noise say nothing of it. Of worlds with noise, the share of the worlds
        comes first, and that of the noise in the mean world is one of what is left. What missing features
        would tell is not measurement: they are averaged over.
        """
        members, gates, share_of_views = self._members(), self.gates, self.pool.measurement_share
        if not self.noisy:
            if max(joint.shape[1] for joint in self.joints) == 1:
                return np.zeros(len(self.given))
            return share_of_views(self._views, np.ones(len(members), dtype=bool), gates)
        heard = np.array([member.through_noise for member in self.pool.members])
        closed = np.array([member.reading == "closed" for member in self.pool.members])
        at_truth = self._views_with(lambda member: self._at_truth(member))
        X, noise = self.measured.X, self.measured.noise
        if noise is None or not noise.variances().any():
            return share_of_views(at_truth, heard, gates, 1 if X.ndim == 2 else X.shape[1])
        share, lacking = share_of_views(at_truth, heard, gates), np.flatnonzero(_lacks_features(X))
        if len(lacking):
            at_truth = self._views_with(lambda member: self._where_present(member, lacking))
            share[lacking] = share_of_views(at_truth, closed, gates[:, lacking])
        if self.pool.realisations == "shared":
            of_worlds = share_of_views(self._views, closed, gates)
            share = of_worlds + (1.0 - of_worlds) * share
        return share

    def _views_with(self, of_closed: Callable[[PoolMember], Array]) -> list[Views]:
        """What members say, those in closed form by other log joints."""
        own = zip(self.pool.members, self._views, strict=True)
        return [self._view_of(m, of_closed(m)) if m.reading == "closed" else views for m, views in own]

    def _where_present(self, member: PoolMember, rows: NDArray[np.intp]) -> Array:
        """Log joint of Gaussian classes at the true values of the features that samples have."""
        assert isinstance(member.model, GaussianMember)
        points, X = self._points(member)[rows], self.measured.X[rows]
        absent = np.isnan(X[:, None] if X.ndim == 2 else np.repeat(X, points.shape[1] // X.shape[1], axis=1))
        some = np.where(absent, np.nan, points)
        found = predict(member.model.model, Observation(some.reshape(-1, points.shape[2]))).log_joint()
        return found.mean(1).reshape(*points.shape[:2], -1)

    def _model_shares(self, n_draws: int, n_true_values: int) -> Array:
        """Shares of each member's entropy due to its parameters: (member, sample)."""
        model = np.zeros((len(self.joints), len(self.given)))
        for i, member in enumerate(self.pool.members):
            if not isinstance(member.model, GaussianMember):
                model[i] = share_of(self._information(i, member), self._entropies[i])
            elif self.quick:
                total = entropy(class_probabilities(self.joints[i]))
                some = self._informed(self.joints[i].shape[1])
                model[i] = share_of(self._of_gaussian(member, "fast").model_part(*some), total)
            else:
                budget = self._of_gaussian(member).budget(n_draws, n_true_values)
                model[i] = share_of(budget.model, budget.total)
        return model

    def _information(self, i: int, member: PoolMember) -> Array:
        """Information from knowing the parameters of a member that is not Gaussian: (sample,)."""
        assert not isinstance(member.model, GaussianMember)
        points, read, joint = self._points(member), self._nodes_of(member), self.joints[i]
        found = np.zeros(len(points))
        for r, weight in zip(*self._informed(joint.shape[1]), strict=True):
            at = r if read is None else int(np.flatnonzero(read.worlds == r)[0])
            P, total = self.probabilities[i], self._entropies[i]
            if joint.shape[1] > 1:
                P = np.exp(np.asfortranarray(self._views[i].logs[:, r]))
                total = entropy(P)
            given = P, joint[:, r], points[:, at], member.temperature, total
            if isinstance(member.model, KernelMember) and i in self._variance_of:
                found += weight * member.model.information(*given, self._variance_of[i][:, at])
            else:
                found += weight * member.model.information(*given)
        return found

    def _informed(self, n: int) -> tuple[NDArray[np.intp], Array]:
        """Views of n that tell what parameters are worth, which varies little between them; their weights."""
        if self.nodes is not None and n > 1:
            return self.nodes.worlds, self.nodes.weights.mean(0)
        few = self.noisy or (self.quick and self.pool.realisations == "shared")  # its worlds have own models
        views = np.arange(0, n, _OF_INFORMATION if few else 1)
        return views, np.full(len(views), 1.0 / len(views))


def _lacks_features(X: NDArray[Any]) -> NDArray[np.bool_]:
    """True for samples (sample, realisation, feature) or (sample, feature) that lack a feature: (sample,)."""
    return np.isnan(X).reshape(len(X), -1).any(1)


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
