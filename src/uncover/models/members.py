"""Members of a pool, as frozen values: Gaussian classes, logistic regression, kernels and trees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, digamma, softmax

from uncover.bayes.budget import entropy
from uncover.bayes.forest import Forest
from uncover.bayes.kernel_mixture import KernelMixture
from uncover.bayes.logistic import Logistic
from uncover.bayes.second_order import below_entropy, model_information
from uncover.engines.members import class_probabilities
from uncover.models.gaussian import GaussianClasses

Array = NDArray[np.float64]
# Inputs of which a member is heard in full: all; those near a training sample; those that look typical.
Heard = Literal["everywhere", "near", "typical"]

# Share of the variance of a feature that counts as due to the classes, at least.
LEAST_RELEVANCE = 0.02
# Spread of a feature within classes, at least, of its whole spread: one that tells classes apart perfectly
# counts much, but not alone.
LEAST_SPREAD = 0.05
# With this confidence more of a class has lower scores than it is taken to have, by the samples seen.
CONFIDENCE = 0.95
_LARGEST = np.finfo(np.float32).max


@dataclass(frozen=True)
class Scale:
    """Features brought to mean 0 and standard deviation 1."""

    mean: Array
    deviation: Array

    @classmethod
    def of(cls, rows: Array) -> Scale:
        """Of rows (sample, feature); a constant feature keeps its unit."""
        return cls(rows.mean(0), np.where(_constant(rows), 1.0, rows.std(0)))

    @classmethod
    def by_relevance(cls, rows: Array, targets: Array) -> Scale:
        """Units of the spread σ within classes, over the correlation ratio η = √(1 − σ²/σ²_total).

        A feature that is the same in all classes hardly counts in distances, whatever it does.
        """
        total = cls.of(rows)
        means = (targets.T @ rows) / targets.sum(0)[:, None]
        freedom = max(len(rows) - len(means), 1)
        within = np.sqrt(((rows - targets @ means) ** 2).sum(0) / freedom)
        within = np.where(_constant(rows), total.deviation, within)
        relevance = np.sqrt(np.clip(1.0 - (within / total.deviation) ** 2, LEAST_RELEVANCE, 1.0))
        return cls(total.mean, np.maximum(within, LEAST_SPREAD * total.deviation) / relevance)

    def __call__(self, points: NDArray[Any]) -> NDArray[Any]:
        """Bring points to that scale."""
        return np.asarray((points - self.mean) / self.deviation)


def _constant(rows: Array) -> NDArray[np.bool_]:
    """Features that have one value only, but for rounding."""
    return np.asarray(rows.std(0) <= 16 * np.finfo(float).eps * np.abs(rows.mean(0)))


@dataclass(frozen=True)
class ClassRanks:
    """Scores of the training samples of each class for their class, by models that have not seen them.

    A class is ranked by itself: the members of a rare class are not strange because they are few.
    """

    scores: Array  # (score,), those of each class together, and sorted
    first: NDArray[np.intp]  # (class + 1,): scores of class k are first[k] … first[k + 1] − 1
    views: int  # scores of one sample

    @classmethod
    def of(cls, scores: Array, codes: NDArray[np.intp]) -> ClassRanks:
        """Of held-out scores (sample, view, class) and the classes of the samples.

        >>> ranks = ClassRanks.of(np.array([[[0.1, 9.0]], [[0.3, 9.0]], [[9.0, 0.2]]]), np.array([0, 0, 1]))
        >>> ranks.p_value(np.array([[[0.2, 0.1]]])).round(3)
        array([[[0.667, 0.5  ]]])
        """
        each = [np.sort(scores[codes == k, :, k].ravel()) for k in range(scores.shape[-1])]
        first = np.cumsum([0, *(len(part) for part in each)])
        return cls(np.concatenate(each), first, scores.shape[1])

    def below(self, scores: Array, side: Literal["left", "right"]) -> Array:
        """Number of samples of each class with lower scores than these, for scores (sample, view, class)."""
        found = np.empty(scores.shape)
        for k, (start, stop) in enumerate(pairwise(self.first)):
            found[..., k] = np.searchsorted(self.scores[start:stop], scores[..., k], side=side)
        return found / self.views

    def p_value(self, scores: Array) -> Array:
        """Conformal p-value for each class, (1 + samples whose score is no higher)/(1 + n): as ``scores``."""
        return self.p_value_of(self.below(scores, "right"))

    def p_value_of(self, below: Array) -> Array:
        """The same from the number of samples of each class whose score is no higher."""
        return (below + 1.0) / (self._sizes + 1.0)

    def surely_below(self, scores: Array) -> Array:
        """Share of each class that has lower scores, at least with 95 % confidence: as ``scores``.

        The r-th lowest of n scores has a share Beta(r, n + 1 − r) of the class below it (Clopper and Pearson
        1934): few samples show little.
        """
        below = self.below(scores, "left")
        for k, bounds in enumerate(self._bounds):
            below[..., k] = np.interp(below[..., k], np.arange(len(bounds)), bounds)
        return below

    @cached_property
    def _bounds(self) -> list[Array]:
        """Lower bounds of the shares, for each class and number of samples below: list of (n + 1,)."""
        sizes = [round(n) for n in self._sizes]
        above = [np.arange(n, 0, -1) for n in sizes]
        return [np.concatenate([[0.0], betaincinv(a[::-1], a, 1.0 - CONFIDENCE)]) for a in above]

    @property
    def _sizes(self) -> Array:
        return np.diff(self.first) / self.views


@dataclass(frozen=True, eq=False)
class KernelMember:
    """One kernel a sample, on features by their relevance to the classes."""

    scale: Scale
    mixture: KernelMixture
    lowest: float  # held-out log density of a training sample; infinite where none has another
    name: ClassVar[str] = "kernels by relevance"
    heard: ClassVar[Heard] = "everywhere"

    def log_joint(self, points: NDArray[Any]) -> Array:
        """Log joint density of points and classes: (point, class)."""
        return self.log_joint_and_variance(points)[0]

    def log_joint_and_variance(self, points: NDArray[Any], *, single: bool = False) -> tuple[Array, Array]:
        """The same and its variance, by machine code in single precision if allowed: (point, class) each."""
        return self.mixture.log_joint_and_variance(self.scale(points), single=single)

    def information(
        self,
        probability: Array,
        log_joint: Array,
        points: NDArray[Any],
        temperature: float,
        total: Array,
        variance: Array | None = None,
    ) -> Array:
        """Information about the class from knowing the density of each class, to second order: (point,).

        ``probability`` (point, class) is at the temperature, ``total`` (point,) its entropy. ``variance``
        (point, class) is that of the log joint, where it is known already; it is at the width that was
        chosen. A temperature above 1 shows errors beyond it: who knew the right width would be as sure as
        kernels are without the temperature.
        """
        variance = self.log_joint_and_variance(points)[1] if variance is None else variance
        known = class_probabilities(log_joint[:, None])
        own = model_information(probability, variance / temperature**2, total)
        return np.maximum(own, total - entropy(known))

    def nearness(self, log_joint: Array) -> Array:
        """Density over that of the training sample in the emptiest place, at most 1: (sample,)."""
        if np.isinf(self.lowest):
            return np.ones(len(log_joint))
        density = log_density(log_joint)
        return np.asarray(np.exp(np.minimum(density - self.lowest, 0.0)).mean(axis=1))


@dataclass(frozen=True, eq=False)
class LogisticMember:
    """Logistic regression."""

    scale: Scale
    model: Logistic
    name: ClassVar[str] = "logistic"
    heard: ClassVar[Heard] = "typical"

    def log_joint(self, points: NDArray[Any]) -> Array:
        """Log odds of points: (point, class)."""
        return self.model.log_odds(self.scale(points))

    def information(
        self, probability: Array, log_joint: Array, points: NDArray[Any], temperature: float, total: Array
    ) -> Array:
        """Information about the class from knowing the coefficients, to second order: (point,)."""
        found = self.model.information(self.scale(points).astype(np.float64), probability)
        return below_entropy(found / temperature**2, total)


@dataclass(frozen=True, eq=False)
class TreeMember:
    """Trees whose features and thresholds are drawn at random (Geurts, Ernst and Wehenkel 2006)."""

    scale: Scale
    forest: Forest
    samples: float  # of equal weight, that say as much as those a new point hears
    name: ClassVar[str] = "trees"
    heard: ClassVar[Heard] = "near"

    def log_joint(self, points: NDArray[Any]) -> Array:
        """Log shares of points: (point, class)."""
        return np.log(self.forest.probabilities(single_precision(self.scale(points))))

    def information(
        self, probability: Array, log_joint: Array, points: NDArray[Any], temperature: float, total: Array
    ) -> Array:
        """Information about the class from knowing the shares: (point,).

        Shares drawn from a Dirichlet distribution of mean P and concentration n have the mean entropy
        ψ(n + 1) − Σ P ψ(nP + 1). A temperature below 1 makes more of their deviations; one above 1 shows
        that they are as large, and takes nothing away.
        """
        n = self.samples * min(temperature, 1.0) ** 2
        mean = digamma(n + 1) - (probability * digamma(n * probability + 1)).sum(-1)
        return np.maximum(total - mean, 0.0)


def single_precision(points: NDArray[Any]) -> NDArray[Any]:
    """Points as trees are grown, in single precision, so that one at a threshold stays on its side."""
    return np.clip(points, -_LARGEST, _LARGEST).astype(np.float32)


@dataclass(frozen=True, eq=False)
class GaussianMember:
    """Gaussian classes, asked by ``measurement.class_prediction``, which carries noise and worlds."""

    model: GaussianClasses
    ranks: ClassRanks  # held-out log joints of the training samples
    typical: Array  # (score,), their held-out log densities, sorted
    heard: ClassVar[Heard] = "typical"

    @property
    def name(self) -> str:
        """Name of the estimator of these class models."""
        return self.model.class_model.estimator if self.model.components.trivial else "BayesianMDA"

    def log_joint(self, points: NDArray[Any]) -> Array:
        """Log joint density of points and classes, in the average world: (point, class)."""
        return self.model.log_joint(points)

    def resemblance(self, log_joint: Array, enough: float = np.inf) -> Array:
        """Share of training samples that are stranger, each by models without it: (sample,).

        Of all samples by density, or of those of a class by the class's joint density, mean over classes by
        probability, whichever is more: members of a rare class are not strange, though most samples lie where
        there are more. What is ``enough`` of all is not compared with that of the classes.
        """
        found = np.searchsorted(self.typical, log_density(log_joint), side="left").mean(axis=1)
        found /= len(self.typical)
        few = np.flatnonzero(found < enough)
        rest = log_joint[few]
        of_class = (softmax(rest, axis=-1) * self.ranks.surely_below(rest)).sum(axis=-1)
        found[few] = np.maximum(found[few], of_class.mean(axis=1))
        return found


def log_density(log_joint: Array) -> Array:
    """log p(x) from the log joint (..., class); of what is impossible for all classes, −∞."""
    top = log_joint.max(axis=-1)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(safe + np.log(np.exp(log_joint - safe[..., None]).sum(axis=-1)))


AnyMember = GaussianMember | KernelMember | LogisticMember | TreeMember
