"""A pool: members of several kinds whose probabilities are averaged geometrically, as a frozen value.

What is said here follows from the log joints of the members; ``measurement.pool_prediction`` asks for these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from uncover.bayes.budget import UncertaintyBudget, entropy
from uncover.bayes.covariances import Covariances
from uncover.bayes.linalg import slices
from uncover.bayes.second_order import below_entropy
from uncover.engines.members import Views, pool_answers, pool_views
from uncover.models.drawn_noise import DrawnNoise
from uncover.models.gaussian import GaussianClasses
from uncover.models.members import AnyMember, ClassRanks, GaussianMember, KernelMember

Array = NDArray[np.float64]
Rng = np.random.Generator

# No member may rule a class out: its probabilities count as at least this.
LEAST_LOG = -12.0
LEAST_PROBABILITY = np.exp(LEAST_LOG)
# Where less than this share of the samples is stranger, members that extrapolate are heard the less.
STRANGE = 0.1
# Share of noise in the variance within classes from which on typicality is that of Gaussians alone.
COUNTS_IN_FULL = 0.01
# Logarithm of the ratio of variances that members which have learned to live with noise bear.
BEARABLE = 0.3
# Power of the trust in those that see the noise, which bear twice as much.
SEES_NOISE = 0.25
# Reliability, of that in training, below which members at draws count less.
LEAST_RELIABLE = 0.25
# Numbers (float64) of drawn answers that are held at once.
_DRAWN_NUMBERS = 1 << 17
# A member: of Gaussian classes seen through noise; at draws of the true value; of values taken as exact; of
# these and of the logarithms of their standard uncertainties.
Reading = Literal["closed", "draws", "exact", "uncertainties"]
_SAID = {"closed": "", "draws": "", "exact": ", noise ignored", "uncertainties": " with uncertainties"}


class PoolMember(NamedTuple):
    """A member, what it is asked about, and the temperature that makes its probabilities honest."""

    model: AnyMember
    transform: str  # "" or "log "
    temperature: float
    reading: Reading

    @property
    def name(self) -> str:
        """Name of the member, with its transform."""
        return self.transform + self.model.name + _SAID[self.reading]

    @property
    def gaussian(self) -> bool:
        """True where the member has Gaussian classes."""
        return isinstance(self.model, GaussianMember)

    @property
    def through_noise(self) -> bool:
        """True where the member describes true values, and is asked about these."""
        return self.reading in ("closed", "draws")


class TrainingNoise(NamedTuple):
    """Variances of the noise of most training samples, beside those of true values within classes."""

    low: Array  # (feature,)
    high: Array  # (feature,)
    within: Array  # (feature,)

    @classmethod
    def of(cls, variances: Array, within: Array) -> TrainingNoise:
        """Of noise (sample or 1, feature), and the variance within classes with the noise, (feature,)."""
        low, high = np.quantile(variances, [0.025, 0.975], axis=0)
        return cls(low, high, np.maximum(within - variances.mean(0), 0.1 * within))

    def resemblance(self, variances: Array) -> Array:
        """Trust in members that know values with such noise only, for noise (sample or 1, feature): (...).

        exp(−½(d/0.3)²) with d = |log (τ² + s²)/(τ² + s₀²)|, the largest over the features, of the variance τ²
        of true values, s² of the noise, and s₀² of that training sample whose noise is most like it. τ² is at
        most twice the noise of training: classes may have a finer structure than their variance tells.
        Less noise than in training counts half: members are then too cautious, with more they are too sure.
        """
        within = np.where(self.high > 0, np.minimum(self.within, 2.0 * self.high), self.within)
        safe = np.where(within > 0, within, 1.0)
        total, low, high = (np.log1p(each / safe) for each in (variances, self.low, self.high))
        away = np.maximum(np.maximum(total - high, 0.5 * (low - total)), 0.0).max(-1)
        return np.asarray(np.exp(-0.5 * (away / BEARABLE) ** 2))


@dataclass(frozen=True, eq=False)
class Pool:
    """Members and draws of their exponents b, over which the pooled probabilities are averaged.

    P(k | x) = E_b P(k | x, b), P(k | x, b) ∝ π_k [Π_m (P_m(k | x)/π_k)^(b_m g_m(x))]^s with the class shares
    π and s = Σ_m b_m / Σ_m b_m g_m(x).
    """

    classes: NDArray[Any]
    members: tuple[PoolMember, ...]
    exponents: Array  # (draw, member), b
    class_count: Array  # (class,), number of training samples
    means: Array  # (class, feature), of the training samples
    covariances: Array  # (class, feature, feature)
    realisations: str  # what several realisations of a sample mean
    n_realisations: int  # of each training sample
    floor: Array | None = None  # (feature,), smallest values that members of logarithms tell apart
    ranks: ClassRanks | None = None  # behind the typicality; None where all members are Gaussian
    trusts: bool = False  # whether members that extrapolate are heard wherever a training sample is near
    truth: int = 0  # number of the Gaussian member that true values are drawn from
    noise: TrainingNoise | None = None  # of the training samples; None where their values are exact
    spread: DrawnNoise | None = None  # noise of one of the draws or repeats of the training samples
    systematic: Array | None = None  # (feature, feature), covariance of an error the samples share
    told: NDArray[np.bool_] | None = None  # (feature,), those whose uncertainties are features too
    log_odds_shift: Array | None = None  # (class,), of class shares other than those of the samples

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.means.shape[1]

    @property
    def features(self) -> NDArray[Any]:
        """Numbers of the features."""
        return np.arange(self.n_features)

    @property
    def weights(self) -> Array:
        """Mean exponents of the members, brought to the sum 1: (member,)."""
        return np.asarray(self.exponents.mean(0) * self.temperature)

    @property
    def temperature(self) -> float:
        """One over the sum of the mean exponents."""
        return float(1.0 / self.exponents.mean(0).sum())

    @property
    def log_shares(self) -> Array:
        """Logarithms of the class shares that the members have learned: (class,)."""
        learned = self.class_count + 1.0
        return np.asarray(np.log(learned / learned.sum()))

    @property
    def knows_noise(self) -> bool:
        """True where the noise of the training samples was stated, or repeated."""
        return self.noise is not None

    @property
    def states_common_errors(self) -> bool:
        """True where anything was stated of errors that the training samples share."""
        return self.systematic is not None or self.knows_noise or self.n_realisations > 1

    @property
    def first_gaussian(self) -> int:
        """Number of the first Gaussian member on the features as they are, or else of the truth."""
        plain = (i for i, m in enumerate(self.members) if m.gaussian and not m.transform)
        return next((i for i in plain if self.members[i].reading == "closed"), self.truth)

    @property
    def truth_model(self) -> GaussianClasses:
        """Gaussian classes that true values are drawn from."""
        member = self.members[self.truth].model
        assert isinstance(member, GaussianMember)
        return member.model

    @property
    def by_relevance(self) -> int | None:
        """Number of the kernels that say how near training samples are; None where there are no kernels."""
        kernels = (isinstance(m.model, KernelMember) and not m.transform for m in self.members)
        return next((i for i, found in enumerate(kernels) if found), None)

    # ---- probabilities, from log joints of the members, each (sample, view, class) -----------------

    def tempered(self, member: PoolMember, joint: Array) -> Array:
        """Log probabilities times the member's temperature, but for a constant: (..., class).

        The temperature T is the power of what the features say, not of the class shares π:
        P_m(k | x) ∝ π_k (p(x, k)/π_k)^(1/T). Where no class is possible, all are alike.
        """
        known = np.where(np.isfinite(joint).any(-1, keepdims=True), joint, 0.0)
        return np.asarray(known + (member.temperature - 1.0) * self.log_shares)

    def probability_of(self, member: PoolMember, joint: Array) -> Array:
        """Calibrated probabilities of a member, from its log joint (..., class)."""
        return np.asarray(softmax(self.tempered(member, joint) / member.temperature, axis=-1))

    def probabilities(self, joints: list[Array]) -> Array:
        """Calibrated probabilities, the mean over views: (member, sample, class)."""
        each = zip(self.members, joints, strict=True)
        return np.stack([self.probability_of(member, joint).mean(1) for member, joint in each])

    def gates(self, joints: list[Array], variances: Array | None = None) -> Array:
        """Gate, the weight in [0, 1], of each member for each sample: (member, sample).

        ``joints`` of members that describe true values are at these. ``variances`` (sample or 1, feature) are
        those of the samples' noise, infinite for a missing feature. The more of it there is, the more draws
        of true values come from the Gaussians: where the share τ²/(τ² + s²) of true values in the variance
        within classes is below a quarter of that in training, members at draws count in proportion.
        """
        gate = np.ones((len(joints), len(joints[0])))
        if self.by_relevance is not None:
            kernels = self.members[self.by_relevance].model
            assert isinstance(kernels, KernelMember)
            near = kernels.nearness(joints[self.by_relevance])
            typical = {
                member.transform: np.minimum(member.model.resemblance(joint, STRANGE) / STRANGE, 1.0)
                for joint, member in zip(reversed(joints), reversed(self.members), strict=True)
                if isinstance(member.model, GaussianMember)
            }
            for i, member in enumerate(self.members):
                heard = member.model.heard
                if heard == "everywhere":  # the logarithm ends at a floor, and all below is alike
                    gate[i] = near if member.transform else 1.0
                else:
                    gate[i] = near if self.trusts or heard == "near" else typical[member.transform]
        if variances is None or not variances.any():
            variances = np.zeros((1, self.n_features))
        known = 1.0 if self.noise is None else self.reliability(self.noise.high[None])
        trusted = np.minimum(self.reliability(variances) / (LEAST_RELIABLE * known), 1.0)
        gate[[member.reading == "draws" for member in self.members]] *= trusted
        if self.noise is not None:
            alike = self.noise.resemblance(variances)
            gate[[member.reading == "exact" for member in self.members]] *= alike
            gate[[member.reading == "uncertainties" for member in self.members]] *= alike**SEES_NOISE
        return gate

    def reliability(self, variances: Array) -> Array:
        """Share of true values in the variance within classes, the mean over features: (sample or 1,)."""
        if self.noise is not None:
            within = self.noise.within
        else:
            free = np.maximum(self.class_count - 1.0, 0.0)
            within = free @ np.diagonal(self.covariances, axis1=1, axis2=2) / max(free.sum(), 1.0)
        return np.asarray((1.0 / (1.0 + variances / np.where(within > 0, within, 1.0))).mean(-1))

    def answers(self, probability: Array, gate: Array) -> tuple[Array, Array]:
        """The pooled probabilities (sample, class), and information from knowing the exponents (sample,)."""
        mean, inner = average_of_draws(probability, gate, self.exponents, self.log_shares)
        if self.log_odds_shift is None:
            return mean, np.maximum(entropy(mean) - inner, 0.0)
        drawn = self.shifted(of_draws(probability, gate, self.exponents, self.log_shares))
        return self.shifted(mean), np.maximum(entropy(drawn.mean(0)) - entropy(drawn).mean(0), 0.0)

    def shifted(self, probability: Array) -> Array:
        """Probabilities (..., class) for other class shares than those of the samples."""
        if self.log_odds_shift is None:
            return probability
        with np.errstate(divide="ignore"):
            return np.asarray(softmax(np.log(probability) + self.log_odds_shift, axis=-1))

    def true_values(
        self,
        points: NDArray[Any],
        covariances: Covariances | None,
        n: int,
        rng: Rng,
        codes: NDArray[np.intp] | None = None,
        method: str = "exact",
    ) -> Array:
        """Draws of the true value of each point, by Gaussian classes: (n_points, n, feature)."""
        if not self.members[self.truth].transform:
            return self.truth_model.true_values(points, covariances, n, rng, codes, method=method)
        assert self.floor is not None
        logs, carried = log_of(points, covariances, self.floor)
        drawn = np.exp(self.truth_model.true_values(logs, carried, n, rng, codes, method=method))
        exact = np.isfinite(points)
        if covariances is not None:
            exact = exact & (covariances.variances() == 0)
        return np.where(exact[:, None], points[:, None], drawn)

    def log_uncertainties(self, variances: Array, n: int) -> Array:
        """Log standard uncertainties of features, no farther out than in training: (n, feature told)."""
        assert self.noise is not None
        assert self.told is not None
        low = np.maximum(self.noise.low, np.finfo(float).tiny)
        seen = np.broadcast_to(np.clip(variances, low, self.noise.high), (n, self.n_features))
        return np.asarray(0.5 * np.log(seen[:, self.told]))

    def with_class_shares(self, shares: Array) -> Pool:
        """The same for a population with other class shares: (class,), of any sum."""
        return replace(self, log_odds_shift=np.log(shares / shares.sum()) - self.log_shares)

    # ---- typicality ----------------------------------------------------------------------------------

    def typical_scores(self, joints: list[Array]) -> Array | None:
        """Log densities of the classes, of Gaussians and kernels together: (sample, view, class)."""
        if self.by_relevance is None:
            return None
        gaussian, kernels = joints[self.first_gaussian], joints[self.by_relevance]
        drawn = max(kernels.shape[1] // gaussian.shape[1], 1)  # true values in each world
        return np.asarray(np.repeat(gaussian, drawn, axis=1) + kernels)

    def typicality(self, joints: list[Array], tail: Callable[[NDArray[np.intp]], Array]) -> Array:
        """p-value of samples by their ranks; beyond the last, that of the Gaussians: (sample,).

        ``tail`` gives the typicality of some samples by the first Gaussian member, (sample, class). It is
        asked where it may count: seldom, since it counts for classes that a sample is strange to.
        """
        scores = self.typical_scores(joints)
        assert self.ranks is not None
        assert scores is not None
        below = self.ranks.below(scores, "right")
        p_value, beyond = self.ranks.p_value_of(below), below == 0
        found = np.where(beyond, 0.0, p_value).mean(axis=1).max(axis=1)
        few = np.flatnonzero(p_value.mean(axis=1).max(axis=1) > found)
        if len(few):
            each = np.minimum(p_value[few], np.where(beyond[few], tail(few)[:, None, :], np.inf))
            found[few] = each.mean(axis=1).max(axis=1)
        return found

    # ---- budget --------------------------------------------------------------------------------------

    def measurement_share(
        self, members: list[Views], heard: NDArray[np.bool_], gate: Array, parts: int | None = None
    ) -> Array:
        """Share of the entropy that knowing the view would take away: (sample,).

        I(y; view)/H = 1 − E H[P(· | view)]/H[E P(· | view)] of pooled answers, from what the members that are
        ``heard`` say at draws of the true value or in each world. A member of one view says the same in all;
        where no other counts, the share is 0. Only the part of the views is known where there are so many
        ``parts``.
        """
        b = self.exponents.mean(0)
        powers = np.where(heard, b, 0.0)[:, None] * gate
        total = powers.sum(0)
        powers *= b.sum() / np.where(total > 0, total, 1.0)
        base = (1.0 - b.sum()) * self.log_shares
        if self.log_odds_shift is not None:
            base = base + self.log_odds_shift
        known = [i for i, power in enumerate(powers) if power.any()]
        if not known:  # what counts here is heard in one view only
            return np.zeros(powers.shape[1])
        logs = np.stack(np.broadcast_arrays(*(members[i].logs for i in known)))
        found = pool_views(logs, powers[known], base) if parts is None else None
        if found is None:
            odds = base + np.einsum("mn,mnvk->nvk", powers[known], np.maximum(logs, LEAST_LOG))
            answers = softmax(odds, axis=-1)
            if parts is not None:
                answers = answers.reshape(len(answers), parts, -1, answers.shape[-1]).mean(2)
            found = answers.mean(1), entropy(answers).mean(1)
        whole = entropy(found[0])
        return share_of(whole - found[1], whole)

    def budget(
        self, answers: tuple[Array, Array], probability: Array, gate: Array, measured: Array, model: Array
    ) -> UncertaintyBudget:
        """Divide the entropy of the answers (sample, class).

        Measurement has the share ``measured`` (sample,) of it. Model is the information of the exponents,
        which say what member is right, and of the members' parameters: ``model`` (member, sample) are
        shares of the members' entropies.
        """
        answer, which = answers
        total, share, probability = (
            entropy(answer),
            local_weights(self.weights, gate),
            self.shifted(probability),
        )
        own = entropy(probability) * model / np.maximum(_spread(probability), np.finfo(float).tiny)
        errors = pooled_information(own, share / self.temperature)
        known = share_of(which + below_entropy(_spread(answer) * errors, total), total)
        measured = np.minimum(measured, 1.0 - known)
        return UncertaintyBudget(total, total * known, total * measured, total * (1.0 - known - measured))


def log_of(
    points: NDArray[Any], covariances: Covariances | None, floor: Array
) -> tuple[Array, Covariances | None]:
    """log(max(x, floor)), and covariances to first order, Σ → Σ/(x xᵀ), of realisations at their mean."""
    x = np.maximum(np.asarray(points, np.float64), floor)
    if covariances is None:
        return np.log(x), None
    middle = x if x.ndim == 2 else x.mean(axis=1)
    slope = np.where(np.isnan(middle), 1.0, 1.0 / middle)
    carried = slope[:, :, None] * covariances.of_each(len(x)) * slope[:, None, :]
    return np.log(x), Covariances(None, None, carried)


def share_of(part: Array, whole: Array) -> Array:
    """part/whole in [0, 1]; 0 of nothing."""
    return np.clip(np.divide(part, whole, out=np.zeros_like(part), where=whole > 0), 0.0, 1.0)


def _spread(probability: Array) -> Array:
    """1 − Σ_k P_k², by which information is half the variance of log densities: (...).

    From what the other classes leave to the most probable one: near 1 the difference would have no digits.

    >>> _spread(np.array([[0.5, 0.5], [1.0, 1e-20]]))
    array([5.e-01, 2.e-20])
    """
    others = np.sort(probability, axis=-1)[..., :-1]
    rest = others.sum(-1)
    return np.asarray(rest * (2.0 - rest) - (others**2).sum(-1))


def local_weights(weights: Array, gate: Array) -> Array:
    """Weights of the members at each sample, (member, sample): w_m g_m(x) / Σ_m w_m g_m(x)."""
    local = weights[:, None] * gate
    return np.asarray(local / local.sum(0))


def pool(probability: Array, gate: Array, exponents: Array, log_shares: Array) -> Array:
    """Weighted geometric means of probabilities (member, sample, class), averaged: (sample, class).

    ``exponents`` (draw, member) are draws b of the powers of the members, which are those of P/π with the
    class shares π; ``gate`` (member, sample) leaves the sum of the powers as it is.

    Examples
    --------
    >>> apart, alike = np.array([[[0.8, 0.2]], [[0.2, 0.8]]]), np.array([[[0.8, 0.2]], [[0.8, 0.2]]])
    >>> even, gate = np.log([0.5, 0.5]), np.ones((2, 1))
    >>> pool(apart, gate, np.array([[0.5, 0.5]]), even)
    array([[0.5, 0.5]])
    >>> pool(alike, gate, np.array([[1.0, 1.0]]), even).round(2)
    array([[0.94, 0.06]])
    >>> pool(alike, gate, np.array([[1.0, 1.0], [0.5, 0.5]]), even).round(2)
    array([[0.87, 0.13]])
    >>> pool(alike, gate, np.array([[1.0, 1.0]]), np.log([0.8, 0.2])).round(2)
    array([[0.8, 0.2]])
    """
    return average_of_draws(probability, gate, exponents, log_shares)[0]


def average_of_draws(
    probability: Array, gate: Array, exponents: Array, log_shares: Array
) -> tuple[Array, Array]:
    """The same, (sample, class), and the mean entropy of the answers by each draw, (sample,)."""
    found = pool_answers(probability, gate, exponents, log_shares)
    if found is not None:
        return found
    _, n, K = probability.shape
    mean, inner = np.empty((n, K)), np.empty(n)
    for rows in slices(n, max(1, _DRAWN_NUMBERS // (len(exponents) * K))):
        drawn = of_draws(probability[:, rows], gate[:, rows], exponents, log_shares)
        mean[rows], inner[rows] = drawn.mean(0), entropy(drawn).mean(0)
    return mean, inner


def of_draws(probability: Array, gate: Array, exponents: Array, log_shares: Array) -> Array:
    """Geometric means by each draw of the exponents: (draw, sample, class)."""
    _, n, K = probability.shape
    log_odds, local = np.zeros((len(exponents), n, K)), np.zeros((len(exponents), n, 1))
    heard = gate[..., None] * np.log(np.maximum(probability, LEAST_PROBABILITY))
    for b, g, log_P in zip(exponents.T[..., None, None], gate[..., None], heard, strict=True):
        log_odds += b * log_P  # one by one: the same bits in any batch
        local += b * g
    whole = exponents.sum(1)[:, None, None]
    return np.asarray(softmax(log_odds * (whole / local) + (1.0 - whole) * log_shares, axis=-1))


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
