"""Predictions by a pool: what its members are asked about an observation, and what is said by all of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.budget import UncertaintyBudget, entropy
from uncover.bayes.covariances import Covariances
from uncover.bayes.population import UnknownOdds
from uncover.bayes.streams import stream
from uncover.engines.members import Views, class_probabilities
from uncover.measurement.class_prediction import Prediction
from uncover.measurement.observation import Observation
from uncover.models.drawn_noise import scatter_of_draws
from uncover.models.members import GaussianMember, KernelMember, TreeMember
from uncover.models.pool import COUNTS_IN_FULL, Pool, PoolMember, local_weights, share_of

Array = NDArray[np.float64]

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
    >>> bool(np.allclose(PoolPrediction(clf.model_, Observation(X)).probability(), clf.predict_proba(X)))
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
            self.pool.true_values(
                points[:, r], self.measured.noise, n, stream(0, "true values", r), method=self._method
            )
            for r in range(points.shape[1])
        ]
        return np.concatenate(views, axis=1)

    @property
    def _method(self) -> str:
        """How noise is seen: in many worlds of a map by the Student t of matched covariance."""
        return "fast" if self.quick and (self.given.structure.realisations or 1) > 1 else "exact"

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

    def _of_gaussian(self, member: PoolMember, method: str | None = None) -> Prediction:
        assert isinstance(member.model, GaussianMember)
        method = method or self._method
        seen = self._seen[member.transform]
        seen = Observation(seen.X) if member.reading == "exact" else seen
        return Prediction.of(member.model.model, seen, paired=self.paired, method=method)

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
                np.exp(v.logs[rows, worlds]) if v.logs.shape[1] == R else v.probability[rows] for v in views
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
        found = Prediction.of(member.model.model, Observation(some.reshape(-1, points.shape[2]))).log_joint()
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
        few = self.noisy or (self.quick and self.pool.realisations == "shared")  # its worlds have own models
        return informed_views(n, self.nodes, few)


def informed_views(n: int, nodes: Nodes | None, few: bool) -> tuple[NDArray[np.intp], Array]:
    """Views of n that tell what parameters are worth, and their weights: nodes, a few of them, or all."""
    if nodes is not None and n > 1:
        return nodes.worlds, nodes.weights.mean(0)
    views = np.arange(0, n, _OF_INFORMATION if few else 1)
    return views, np.full(len(views), 1.0 / len(views))


def _lacks_features(X: NDArray[Any]) -> NDArray[np.bool_]:
    """True for samples (sample, realisation, feature) or (sample, feature) that lack a feature: (sample,)."""
    return np.isnan(X).reshape(len(X), -1).any(1)
