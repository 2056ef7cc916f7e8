"""A pool: members of several kinds whose probabilities are averaged geometrically, as a frozen value.

What is said here follows from the log joints of the members; ``measurement.pooled`` asks the members.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from uncover.bayes.budget import UncertaintyBudget, entropy
from uncover.bayes.covariances import Covariances
from uncover.models.members import BY_RELEVANCE, AnyMember, ClassRanks, GaussianMember, KernelMember

Array = NDArray[np.float64]
Rng = np.random.Generator

# No member may rule a class out: its probabilities count as at least this.
LEAST_PROBABILITY = np.exp(-12.0)
# Where less than this share of the samples is stranger, members that extrapolate are heard the less.
STRANGE = 0.1
# Noise of this share of the variance within classes counts in full; less, in proportion.
COUNTS_IN_FULL = 0.01


class PoolMember(NamedTuple):
    """A member, what it is asked about, and the temperature that makes its probabilities honest."""

    model: AnyMember
    transform: str  # "" or "log "
    temperature: float

    @property
    def name(self) -> str:
        """Name of the member, with its transform."""
        return self.transform + self.model.name

    @property
    def gaussian(self) -> bool:
        """True where the member has Gaussian classes, which can take known noise."""
        return isinstance(self.model, GaussianMember)


@dataclass(frozen=True, eq=False)
class Pool:
    """Members and their weights w: P(k | x) ∝ [Π_m P_m(k | x)^(w_m g_m(x))]^(1 / (T Σ_m w_m g_m(x)))."""

    classes: NDArray[Any]
    members: tuple[PoolMember, ...]
    weights: Array  # (member,), w, which add up to 1
    temperature: float  # T
    class_count: Array  # (class,), number of training samples
    means: Array  # (class, feature), of the training samples
    covariances: Array  # (class, feature, feature)
    realisations: str  # what several realisations of a sample mean
    n_realisations: int  # of each training sample
    floor: Array | None = None  # (feature,), smallest values that members of logarithms tell apart
    ranks: ClassRanks | None = None  # behind the typicality; None where all members are Gaussian
    disagreement: float = 0.0  # share of the members' differences that errors of parameters do not explain
    trusts: bool = False  # whether members that extrapolate are heard wherever a training sample is near
    without_noise: Pool | None = None  # takes inputs as exact, where known noise may be small
    within: Array | None = None  # (feature,), variance within classes, beside which it is
    noise_ratio: float = 0.0  # r of the training samples, see ``noise_share``

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.means.shape[1]

    @property
    def features(self) -> NDArray[Any]:
        """Numbers of the features."""
        return np.arange(self.n_features)

    @property
    def takes_noise(self) -> bool:
        """True where inputs may have known noise: all members are Gaussian."""
        return all(member.gaussian for member in self.members)

    @property
    def takes_systematic(self) -> bool:
        """True where an error common to a scene may be known: no member is of logarithms either."""
        return self.takes_noise and not any(member.transform for member in self.members)

    # The noise of the training samples was stated, or repeated; errors that they share were stated.
    knows_noise, states_common_errors, takes_missing = takes_noise, takes_systematic, False

    @property
    def first_gaussian(self) -> int:
        """Number of the first Gaussian member on the features as they are."""
        return next(i for i, m in enumerate(self.members) if m.gaussian and not m.transform)

    @property
    def by_relevance(self) -> int | None:
        """Number of the kernels that say how near training samples are; None where there are no kernels."""
        found = (i for i, member in enumerate(self.members) if member.model.name == BY_RELEVANCE)
        return next(found, None)

    # ---- probabilities, from log joints of the members, each (sample, view, class) -----------------

    def views(self, joints: list[Array]) -> list[Array]:
        """Calibrated probabilities of each member and view: (sample, view, class) each."""
        return [softmax(j / m.temperature, axis=-1) for j, m in zip(joints, self.members, strict=True)]

    def probabilities(self, joints: list[Array]) -> Array:
        """Calibrated probabilities, the mean over views: (member, sample, class)."""
        lost = [~np.isfinite(joint).any(-1, keepdims=True) for joint in joints]
        known = [np.where(gone, 0.0, joint) for gone, joint in zip(lost, joints, strict=True)]
        return np.stack([view.mean(1) for view in self.views(known)])

    def gates(self, joints: list[Array]) -> Array:
        """Gate, the weight in [0, 1], of each member for each sample: (member, sample)."""
        gate = np.ones((len(joints), len(joints[0])))
        if self.by_relevance is None:
            return gate
        kernels = self.members[self.by_relevance].model
        assert isinstance(kernels, KernelMember)
        near = kernels.nearness(joints[self.by_relevance])
        typical = {
            member.transform: np.minimum(member.model.resemblance(joint) / STRANGE, 1.0)
            for joint, member in zip(joints, self.members, strict=True)
            if isinstance(member.model, GaussianMember)
        }
        for i, member in enumerate(self.members):
            heard = member.model.heard
            if heard == "everywhere":  # the logarithm ends at a floor, and all below is alike
                gate[i] = near if member.transform else 1.0
            else:
                gate[i] = near if self.trusts or heard == "near" else typical[member.transform]
        return gate

    def mean(self, probability: Array, gate: Array) -> Array:
        """The pooled probabilities, from those of the members: (sample, class)."""
        return pool(probability, gate, self.weights, self.temperature)

    def noise_share(self, variances: Array) -> Array:
        """Share t of the answers that allow for known noise, beside those that take inputs as exact.

        With r the largest ratio, over features, of the noise variance (sample or 1, feature) to that within
        classes, of the training samples on average or of the input, whichever is larger: t = min(1, r/0.01).
        Noise that goes to nothing thus changes nothing.
        """
        assert self.within is not None
        ratio = np.maximum(self.noise_ratio, largest_ratio(variances, self.within))
        return np.asarray(np.minimum(1.0, ratio / COUNTS_IN_FULL))

    def log_joint(self, points: NDArray[Any]) -> Array:
        """log P(class | x) of exact points (n, feature), in the average world: (n, class)."""
        logs = points if self.floor is None else np.log(np.maximum(points, self.floor))
        joints = [m.model.log_joint(logs if m.transform else points)[:, None] for m in self.members]
        return np.log(self.mean(self.probabilities(joints), self.gates(joints)))

    def true_values(
        self,
        points: NDArray[Any],
        covariances: Covariances | None,
        n: int,
        rng: Rng,
        codes: NDArray[np.intp] | None = None,
    ) -> Array:
        """Draws of the true value of each point, by the Gaussians: (n_points, n, feature)."""
        gaussians = self.members[self.first_gaussian].model
        assert isinstance(gaussians, GaussianMember)
        return gaussians.model.true_values(points, covariances, n, rng, codes)

    # ---- typicality ----------------------------------------------------------------------------------

    def typical_scores(self, joints: list[Array]) -> Array | None:
        """Log densities of the classes, of Gaussians and kernels together: (sample, view, class)."""
        if self.by_relevance is None:
            return None
        return np.asarray(joints[self.first_gaussian] + joints[self.by_relevance])

    def typicality(self, joints: list[Array], tail: Array) -> Array:
        """p-value of samples by their ranks; beyond the last, that of the Gaussians: (sample,).

        ``tail`` (sample, class) is the typicality by the first Gaussian member.
        """
        scores = self.typical_scores(joints)
        assert self.ranks is not None
        assert scores is not None
        p_value, beyond = self.ranks.p_value(scores), self.ranks.below(scores, "right") == 0
        each = np.where(beyond, np.minimum(p_value, tail[:, None, :]), p_value)
        return np.asarray(each.mean(axis=1).max(axis=1))

    # ---- budget --------------------------------------------------------------------------------------

    def budget(self, probability: Array, gate: Array, measurement: Array, model: Array) -> UncertaintyBudget:
        """Divide the entropy of the mean in the proportions in which the members' average has its own.

        ``measurement`` and ``model`` (member, sample) are shares of the members' entropies.
        """
        total, whole = entropy(self.mean(probability, gate)), entropy(mix(probability, gate, self.weights))
        own, between, share = self._apart(probability, gate, model)
        known = share_of(pooled_information(own, share) + self.disagreement * between, whole)
        inner = (share * entropy(probability) * measurement).sum(0)
        measured = np.minimum(share_of(inner, whole), 1.0 - known)
        return UncertaintyBudget(total, total * known, total * measured, total * (1.0 - known - measured))

    def unexplained(self, probability: Array, gate: Array, model: Array) -> float:
        """Share of the differences between members that the errors of their parameters do not explain."""
        own, between, share = self._apart(probability, gate, model)
        bound = (share * own).sum() - pooled_information(own, share).sum()
        return float(np.clip(1.0 - bound / between.sum(), 0.0, 1.0)) if between.sum() > 0 else 0.0

    def _apart(self, probability: Array, gate: Array, model: Array) -> tuple[Array, Array, Array]:
        """Information of each member's parameters, how far the members lie apart, and their weights."""
        share, inner = local_weights(self.weights, gate), entropy(probability)
        mixed = entropy(mix(probability, gate, self.weights))
        return inner * model, np.maximum(mixed - (share * inner).sum(0), 0.0), share


def largest_ratio(variances: Array, within: Array) -> Array:
    """The largest ratio over features that vary: (...)."""
    return np.divide(variances, within, out=np.zeros_like(variances), where=within > 0).max(-1)


def share_of(part: Array, whole: Array) -> Array:
    """part/whole in [0, 1]; 0 of nothing."""
    return np.clip(np.divide(part, whole, out=np.zeros_like(part), where=whole > 0), 0.0, 1.0)


def local_weights(weights: Array, gate: Array) -> Array:
    """Weights of the members at each sample, (member, sample): w_m g_m(x) / Σ_m w_m g_m(x)."""
    local = weights[:, None] * gate
    return np.asarray(local / local.sum(0))


def mix(probability: Array, gate: Array, weights: Array) -> Array:
    """Weighted average of probabilities (member, sample, class): (sample, class).

    Examples
    --------
    >>> mix(np.array([[[0.8, 0.2]], [[0.4, 0.6]]]), np.ones((2, 1)), np.array([0.5, 0.5]))
    array([[0.6, 0.4]])
    """
    return np.asarray(np.einsum("ms,msk->sk", local_weights(weights, gate), probability))


def pool(probability: Array, gate: Array, weights: Array, temperature: float) -> Array:
    """Weighted geometric mean of probabilities (member, sample, class), to the power 1/T: (sample, class).

    Examples
    --------
    >>> pool(np.array([[[0.8, 0.2]], [[0.2, 0.8]]]), np.ones((2, 1)), np.array([0.5, 0.5]), 1.0)
    array([[0.5, 0.5]])
    >>> pool(np.array([[[0.8, 0.2]], [[0.8, 0.2]]]), np.ones((2, 1)), np.array([0.5, 0.5]), 0.5).round(2)
    array([[0.94, 0.06]])
    """
    log_P = np.log(np.maximum(probability, LEAST_PROBABILITY))
    return softmax(np.einsum("ms,msk->sk", local_weights(weights, gate), log_P) / temperature, axis=1)


def pooled_information(information: Array, share: Array) -> Array:
    """Information about the class from the parameters of all members, by their geometric mean: (sample,).

    To second order, information is half the variance of log odds. Members learn from the same samples: of
    two, the one that knows more has nothing to learn from the other, and the covariance of their errors is
    the smaller variance (Hausman 1978). With weights u the errors of the mean come to
    I = Σ_mn u_m u_n min(I_m, I_n), and the members lie Σ_m u_m I_m − I apart though all are right.
    ``information`` I_m and ``share`` u have the shape (member, sample).

    Examples
    --------
    >>> pooled_information(np.array([[0.01], [0.03]]), np.full((2, 1), 0.5))
    array([0.015])
    """
    together = np.zeros(information.shape[1])
    for own, weight in zip(information, share, strict=True):
        together += weight * (share * np.minimum(own, information)).sum(0)
    return together
