"""A pool and an observation together: the answers of all members, pooled; and the layers of a map by them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.budget import UncertaintyBudget, entropy
from uncover.bayes.covariances import Covariances
from uncover.bayes.population import UnknownOdds
from uncover.measurement.observation import Observation
from uncover.measurement.prediction import Prediction, predict
from uncover.measurement.predictor import Predictor
from uncover.measurement.summary import PixelSummary, Summariser, corrected, observed
from uncover.models.gaussian import GaussianClasses
from uncover.models.members import GaussianMember
from uncover.models.pool import Pool, PoolMember, share_of
from uncover.models.realisations import Structure
from uncover.models.record import FittedEstimator, ModelRecord, record_of

Array = NDArray[np.float64]

# Draws of class models and of true values behind the budget of a pixel.
MAP_DRAWS = (100, 256)
# Numbers (float64) that one block of pixels may need, and pixels of a block at least.
_BLOCK_NUMBERS, _FEWEST = 1 << 20, 64


class PoolPrediction:
    """Prediction of a pool for an observation, in the scene that trained it (``paired``) or another.

    ``joints``, the log joints (sample, view, class) of the members, are asked for unless they are given.

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
        self, pool: Pool, observation: Observation, *, paired: bool = True, joints: list[Array] | None = None
    ) -> None:
        self.pool, self.observation, self.paired = pool, observation, paired
        if joints is not None:
            self.joints = joints

    @cached_property
    def joints(self) -> list[Array]:
        """Log joints of the members, not calibrated: (sample, view, class) each."""
        if self.observation.systematic is not None and not self.paired and not self.pool.takes_systematic:
            raise ValueError(
                "X has a systematic covariance, and this model was fitted to samples without one. Fit with "
                "a Measured that has it (zeros, if these samples have no such error), or use BayesianQDA."
            )
        return [self._log_joint(member) for member in self.pool.members]

    @cached_property
    def probabilities(self) -> Array:
        """Calibrated probabilities of the members: (member, sample, class)."""
        return self.pool.probabilities(self.joints)

    @cached_property
    def gates(self) -> Array:
        """Gate, the weight in [0, 1], of each member for each sample: (member, sample)."""
        return self.pool.gates(self.joints)

    def probability(self) -> Array:
        """P(class | x, D): (sample, class)."""
        own = self.pool.mean(self.probabilities, self.gates)
        if self.exact is None:
            return own
        exact = self.exact.probability()
        return np.asarray(exact + self.noise_share[:, None] * (own - exact))

    def best_of_views(self) -> NDArray[np.intp]:
        """Number of the most probable class: (view, sample)."""
        if self.exact is not None:
            return self.probability().argmax(-1)[None]
        views = np.moveaxis(np.stack(self.pool.views(self.joints)), 2, 0)
        return np.stack([self.pool.mean(view, self.gates) for view in views]).argmax(-1)

    def typicality(self) -> Array:
        """p-value of each sample, the largest over the classes: (sample,)."""
        pool, ranked = self.pool, self.pool.ranks is not None
        gaussian = pool.members[pool.first_gaussian if ranked else 0]
        own = self._of_gaussian(gaussian).typicality(per_class=ranked)
        own = pool.typicality(self.joints, own) if ranked else own
        return own if self.exact is None else self._between(self.exact.typicality(), own)

    def unknown(self) -> UnknownOdds:
        """Density of a class that was never trained, by the first Gaussian member."""
        return self._of_gaussian(self.pool.members[self.pool.first_gaussian]).unknown()

    def budget(self, n_draws: int, n_true_values: int) -> UncertaintyBudget:
        """Where the uncertainty comes from; the draws are those of the budgets of Gaussian members."""
        parts = self.own_parts(n_draws, n_true_values)
        own = self.pool.budget(self.probabilities, self.gates, *parts)
        if self.exact is None:
            return own
        exact, total = self.exact.budget(n_draws, n_true_values), entropy(self.probability())
        pairs = zip(_shares(exact), _shares(own), strict=True)
        model, measurement = (total * self._between(*pair) for pair in pairs)
        return UncertaintyBudget(total, model, measurement, total - model - measurement)

    def _between(self, exact: Array, noisy: Array) -> Array:
        return np.asarray((1 - self.noise_share) * exact + self.noise_share * noisy)

    @cached_property
    def exact(self) -> PoolPrediction | None:
        """Prediction for the values taken as exact, where noise may be small beside the classes."""
        if self.pool.without_noise is None:
            return None
        return PoolPrediction(self.pool.without_noise, Observation(self.observation.X))

    @cached_property
    def noise_share(self) -> Array:
        """Share of the answers that allow for noise, beside those that take values as exact: (sample,)."""
        share = self.pool.noise_share(error_variances(self.observation))
        return np.broadcast_to(share, len(self.observation))

    def own_parts(self, n_draws: int, n_true_values: int) -> tuple[Array, Array]:
        """Shares of each member's entropy due to measurement and parameters: (member, sample) each."""
        measurement, model = np.zeros((2, len(self.joints), len(self.observation)))
        views = self.pool.views(self.joints)
        for i, member in enumerate(self.pool.members):
            whole = entropy(views[i].mean(1))
            measurement[i] = share_of(whole - entropy(views[i]).mean(1), whole)
            if isinstance(member.model, GaussianMember):
                budget = self._of_gaussian(member).budget(n_draws, n_true_values)
                model[i] = share_of(budget.model, budget.total)
                if self.pool.takes_noise:
                    measurement[i] = share_of(budget.measurement, budget.total)
            else:
                told, T = member.model.information, member.temperature
                points = enumerate(self._points(member))
                each = [told(self.joints[i][:, r], x, T) for r, x in points]
                model[i] = share_of(np.mean(each, axis=0), whole)
        return measurement, model

    def _log_joint(self, member: PoolMember) -> Array:
        if isinstance(member.model, GaussianMember):
            return self._of_gaussian(member).log_joint()
        return np.stack([member.model.log_joint(x) for x in self._points(member)], axis=1)

    def _of_gaussian(self, member: PoolMember) -> Prediction:
        assert isinstance(member.model, GaussianMember)
        return predict(member.model.model, self._seen[member.transform], paired=self.paired)

    def _points(self, member: PoolMember) -> NDArray[Any]:
        """Points that a member is asked about: (view, sample, feature)."""
        X = self._seen[member.transform].X
        return X[None] if X.ndim == 2 else X.swapaxes(0, 1)

    @cached_property
    def _seen(self) -> dict[str, Observation]:
        """Observations that the members are given, by their transform."""
        plain, floor = self.observation, self.pool.floor
        return {"": plain} if floor is None else {"": plain, "log ": logarithm(plain, floor)}


def logarithm(observation: Observation, floor: Array) -> Observation:
    """The observation of log(max(x, floor)); covariances to first order, Σ → Σ/(x xᵀ)."""
    x = np.maximum(observation.X.astype(np.float64), floor)
    if observation.noise is None:
        return Observation(np.log(x))
    slope = 1.0 / x
    carried = slope[:, :, None] * observation.noise.of_each(len(x)) * slope[:, None, :]
    return Observation(np.log(x), Covariances(None, None, carried))


def error_variances(observation: Observation) -> Array:
    """Variances of the known errors, those that samples have in common too: (sample or 1, feature)."""
    own = np.zeros((1, observation.X.shape[-1]))
    own = own if observation.noise is None else observation.noise.variances()
    return own if observation.systematic is None else own + np.diagonal(observation.systematic)


def _shares(budget: UncertaintyBudget) -> tuple[Array, Array]:
    """The model and the measurement part over the total; 0 of nothing."""
    total = np.where(budget.total > 0, budget.total, 1.0)
    return budget.model / total, budget.measurement / total


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
        """Summarise pixels, as :meth:`Summariser.summarise`; all features are needed, nothing is drawn."""
        if features is not None and not features.all():
            raise ValueError("a BayesianClassifier needs all features of a pixel.")
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

    def unknown(
        self,
        planes: NDArray[Any],
        *,
        coefficients: NDArray[Any] | None = None,
        noise: Covariances | None = None,
        systematic: Array | None = None,
        features: NDArray[np.bool_] | None = None,
    ) -> UnknownOdds:
        """Odds that pixels are of none of the classes, as :meth:`Summariser.unknown`."""
        observation = observed(planes, coefficients, noise, systematic, features)
        return PoolPrediction(self.pool, observation, paired=self.paired).unknown()

    def n_worlds(self, n_realisations: int) -> int:
        """Number of worlds in which pixels get a class: as many as a Gaussian member reads."""
        if self.pool.without_noise is not None:
            return 1
        gaussian = next(m.model for m in self.pool.members if isinstance(m.model, GaussianMember))
        structure = Structure(n_realisations if n_realisations > 1 else None)
        return len(Predictor(gaussian.model, paired=self.paired).readings(structure))

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
