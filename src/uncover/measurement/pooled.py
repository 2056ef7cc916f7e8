"""A pool and an observation together: the answers of all members, pooled; and the layers of a map by them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.budget import UncertaintyBudget, entropy
from uncover.bayes.covariances import Covariances
from uncover.bayes.streams import stream
from uncover.measurement.observation import Observation
from uncover.measurement.prediction import Prediction, predict
from uncover.measurement.predictor import Predictor
from uncover.measurement.summary import PixelSummary, Summariser, corrected
from uncover.models.gaussian import GaussianClasses
from uncover.models.members import GaussianMember
from uncover.models.pool import Pool, PoolMember, TrainingNoise, local_weights, log_of, share_of
from uncover.models.realisations import Structure, scatter_of_draws
from uncover.models.record import FittedEstimator, ModelRecord, record_of

Array = NDArray[np.float64]

# Draws of class models and of true values behind the budget of a pixel.
MAP_DRAWS = (100, 256)
# Draws of the true value that members are asked about, and numbers of these at a time.
TRUE_VALUES, _DRAWN_NUMBERS = 128, 1 << 23
# Numbers (float64) that one block of pixels may need, and pixels of a block at least.
_BLOCK_NUMBERS, _FEWEST = 1 << 20, 64


class PoolPrediction:
    """Prediction of a pool for an observation, in the scene that trained it (``paired``) or another.

    Draws and repeats are read as their means with known noise. Gaussian members see the noise in closed form;
    others are asked about draws of the true value (:meth:`true_values`), and what they say is averaged, or
    take the values as they are, if that is how they have learned.

    ``joints``, the log joints (sample, view, class) of the members, are asked for unless they are given,
    at draws of true values (sample, draw, feature) that are given too.

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
        joints: list[Array] | None = None,
        true_values: Array | None = None,
    ) -> None:
        self.pool, self.given, self.paired = pool, observation, paired
        if joints is not None:
            self.joints = joints
        if true_values is not None:
            self.true_values = true_values

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
        n = max(1, TRUE_VALUES // points.shape[1])
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
            seen = log_uncertainties(self.measured, self.pool.told, self.pool.noise)
            seen = np.broadcast_to(seen[:, None], (*points.shape[:2], seen.shape[1]))
            points = np.concatenate([points, seen], axis=2)
        return np.asarray(points)

    # ---- what they say -----------------------------------------------------------------------------------

    @cached_property
    def joints(self) -> list[Array]:
        """Log joints of the members, not calibrated: (sample, view, class) each."""
        return [self._log_joint(member) for member in self.pool.members]

    def _log_joint(self, member: PoolMember) -> Array:
        if member.gaussian:
            return self._of_gaussian(member).log_joint()
        points = self._points(member)
        flat = np.ascontiguousarray(points.swapaxes(0, 1)).reshape(-1, points.shape[2])
        found = member.model.log_joint(flat).reshape(points.shape[1], len(points), -1)
        return np.ascontiguousarray(found.swapaxes(0, 1))

    def _of_gaussian(self, member: PoolMember) -> Prediction:
        assert isinstance(member.model, GaussianMember)
        seen = self._seen[member.transform]
        seen = Observation(seen.X) if member.reading == "exact" else seen
        return predict(member.model.model, seen, paired=self.paired)

    @cached_property
    def _seen(self) -> dict[str, Observation]:
        """Observations that Gaussian members are given, by their transform."""
        plain, floor = self.observation, self.pool.floor
        return {"": plain} if floor is None else {"": plain, "log ": logarithm(plain, floor)}

    @cached_property
    def probabilities(self) -> Array:
        """Calibrated probabilities of the members: (member, sample, class)."""
        return self.pool.probabilities(self.joints)

    @cached_property
    def gates(self) -> Array:
        """Gate, the weight in [0, 1], of each member for each sample: (member, sample)."""
        pool, joints, alike = self.pool, self.joints, None
        if self.noisy and pool.by_relevance is not None:
            joints = [self._at_truth(m) if m.reading == "closed" else j for m, j in self._members()]
        if pool.noise is not None and not all(member.through_noise for member in pool.members):
            alike = pool.noise.resemblance(error_variances(self.measured))
        return pool.gates(joints, alike)

    def _members(self) -> list[tuple[PoolMember, Array]]:
        return list(zip(self.pool.members, self.joints, strict=True))

    def _at_truth(self, member: PoolMember) -> Array:
        """Log joint of Gaussian classes at the true values: (sample, view, class)."""
        points = self._points(member)
        found = member.model.log_joint(points.reshape(-1, points.shape[2]))
        return found.reshape(*points.shape[:2], -1)

    def probability(self) -> Array:
        """P(class | x, D): (sample, class)."""
        if (blocks := self._blocks()) is not None:
            return np.concatenate([block.probability() for block in blocks])
        return self.pool.mean(self.probabilities, self.gates)

    def _blocks(self) -> list[PoolPrediction] | None:
        """Predictions for blocks of the samples, where drawn true values would need much memory at once."""
        size = max(1, _DRAWN_NUMBERS // (TRUE_VALUES * (self.pool.n_features + len(self.pool.classes))))
        if "joints" in vars(self) or len(self.given) <= size or not self.noisy:
            return None
        starts = range(0, len(self.given), size)
        return [PoolPrediction(self.pool, self.given[i : i + size], paired=self.paired) for i in starts]

    def best_of_views(self) -> NDArray[np.intp]:
        """Number of the most probable class: (view, sample); draws of true values are not views."""
        views = self.pool.views(self.joints)
        R = max(len(view[0]) for view, m in zip(views, self.pool.members, strict=True) if m.gaussian)
        if R == 1:
            return self.probability().argmax(-1)[None]
        each = [view if view.shape[1] == R else view.mean(1, keepdims=True) for view in views]
        stacked = [np.stack([view[:, min(r, view.shape[1] - 1)] for view in each]) for r in range(R)]
        return np.stack([self.pool.mean(one, self.gates) for one in stacked]).argmax(-1)

    def typicality(self) -> Array:
        """p-value of each sample, the largest over the classes: (sample,)."""
        pool, ranked = self.pool, self.pool.ranks is not None and not self.noisy
        own = self._of_gaussian(pool.members[pool.first_gaussian]).typicality(per_class=ranked)
        return pool.typicality(self.joints, own) if ranked else own

    def budget(self, n_draws: int, n_true_values: int) -> UncertaintyBudget:
        """Where the uncertainty comes from; the draws are those of the budgets of Gaussian members."""
        if (blocks := self._blocks()) is not None:
            each = [vars(block.budget(n_draws, n_true_values)).values() for block in blocks]
            return UncertaintyBudget(*(np.concatenate(part) for part in zip(*each, strict=True)))
        parts = self.own_parts(n_draws, n_true_values)
        return self.pool.budget(self.probabilities, self.gates, *parts)

    def own_parts(self, n_draws: int, n_true_values: int) -> tuple[Array, Array]:
        """Shares of each member's entropy due to measurement and parameters: (member, sample) each.

        Members that know nothing of noise have the measurement part of the others.
        """
        measurement, model = np.zeros((2, len(self.joints), len(self.given)))
        views = self.pool.views(self.joints)
        for i, member in enumerate(self.pool.members):
            whole = entropy(views[i].mean(1))
            measurement[i] = share_of(whole - entropy(views[i]).mean(1), whole)
            if member.gaussian:
                budget = self._of_gaussian(member).budget(n_draws, n_true_values)
                model[i] = share_of(budget.model, budget.total)
                if self.noisy:
                    measurement[i] = share_of(budget.measurement, budget.total)
            else:
                told, T, points = member.model.information, member.temperature, self._points(member)
                each = [told(self.joints[i][:, r], points[:, r], T) for r in range(points.shape[1])]
                model[i] = share_of(np.mean(each, axis=0), whole)
        deaf = np.array([not member.through_noise for member in self.pool.members])
        if deaf.any() and self.noisy:
            share = local_weights(self.pool.weights, self.gates)[~deaf]
            measurement[deaf] = (share * measurement[~deaf]).sum(0) / share.sum(0)
        return measurement, model


def log_uncertainties(
    observation: Observation, told: NDArray[np.bool_], noise: TrainingNoise | None
) -> Array:
    """Logarithms of the standard uncertainties of some features, within those of training: (sample, told)."""
    assert noise is not None
    found = np.broadcast_to(error_variances(observation), (len(observation), len(told)))
    tiny = np.finfo(float).tiny
    return np.asarray(0.5 * np.log(np.clip(found, np.maximum(noise.low, tiny), noise.high)[:, told]))


def logarithm(observation: Observation, floor: Array) -> Observation:
    """The observation of log(max(x, floor)); covariances to first order, Σ → Σ/(x xᵀ)."""
    return Observation(*log_of(observation.X, observation.noise, floor))


def error_variances(observation: Observation) -> Array:
    """Variances of the known errors: (sample or 1, feature)."""
    p = observation.X.shape[-1]
    return np.zeros((1, p)) if observation.noise is None else observation.noise.variances()


class PoolSummariser:
    """Layers of a map by a pool, block by block; ``paired``: of the scene that trained it."""

    n_true_values = None  # the measurement part is no sum over points

    def check_device(self, n_realisations: int, *, noisy: bool) -> None:
        """Refuse a graphics processor: the members of a pool have no kernels for it."""
        raise ValueError(
            "--device cuda maps models of one kind (uncover fit --model qda, lda or mda), not a pool of "
            "several; leave it out"
        )

    def __init__(self, pool: Pool, *, paired: bool = True) -> None:
        self.pool, self.paired = pool, paired

    def summarise(
        self,
        planes: NDArray[Any],
        *,
        coefficients: NDArray[Any] | None = None,
        noise: Covariances | None = None,
        systematic: Array | None = None,
        features: NDArray[np.bool_] | None = None,
    ) -> PixelSummary:
        """Summarise pixels, as :meth:`Summariser.summarise`."""
        if features is not None and not features.all():
            planes = np.where(features[:, None], planes, np.nan)
        p, n = planes.shape[1:]
        R = len(planes) if coefficients is None else len(coefficients)
        numbers = R * (p + len(self.pool.members) * len(self.pool.classes))
        size, parts = max(_FEWEST, _BLOCK_NUMBERS // numbers), []
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            block = planes[:, :, rows]
            values = block if coefficients is None else corrected(block[0], coefficients)
            parts.append(self._block(values, None if noise is None else noise[rows], systematic))
        each = zip(*(vars(part).values() for part in parts), strict=True)
        return PixelSummary(*(np.concatenate(arrays, axis=-1) for arrays in each))

    def n_worlds(self, n_realisations: int) -> int:
        """Number of worlds in which pixels get a class: as many as a Gaussian member reads."""
        if self.pool.realisations in ("draws", "repeats"):
            return 1
        structure = Structure(n_realisations if n_realisations > 1 else None)
        return len(Predictor(self.pool.truth_model, paired=self.paired).readings(structure))

    def world_pairs(self, n_realisations: int) -> NDArray[np.int64]:
        """Draws that make each world: the realisations."""
        return np.arange(n_realisations)[:, None]

    def _block(
        self, values: NDArray[Any], noise: Covariances | None, systematic: Array | None
    ) -> PixelSummary:
        points = np.moveaxis(values, 2, 0)  # (pixel, realisation, feature)
        observation = Observation(points[:, 0] if len(values) == 1 else points, noise, systematic)
        found = PoolPrediction(self.pool, observation, paired=self.paired)
        P, budget = found.probability(), found.budget(*MAP_DRAWS)
        order, best = np.sort(P, axis=1), P.argmax(axis=1).astype(np.uint8)
        worlds, margin = found.best_of_views().astype(np.uint8), order[:, -1] - order[:, -2]
        parts = (budget.total, budget.measurement, budget.model, budget.overlap, margin, found.typicality())
        return PixelSummary(P.T, np.stack(parts), (worlds != best).mean(axis=0), worlds, best)


AnySummariser = Summariser | PoolSummariser


def make_summariser(
    model: GaussianClasses | Pool | ModelRecord | FittedEstimator,
    *,
    paired: bool = True,
    method: str = "exact",
    n_true_values: int = 192,
    device: str = "cpu",
) -> AnySummariser:
    """Return what reads pixels with a fitted value, or with a model that has one."""
    value = model if isinstance(model, GaussianClasses | Pool) else record_of(model).model_
    if isinstance(value, Pool):
        return PoolSummariser(value, paired=paired)
    return Summariser(value, paired=paired, method=method, n_true_values=n_true_values, device=device)
