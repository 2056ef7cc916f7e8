"""Samples that lack features: sums by pattern of gaps, and expectation–maximisation over what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lapack
from scipy.special import gammaincinv, ndtri

from uncover.bayes.deconvolved import GappyDiagonal, GappyNIW
from uncover.bayes.evidence import Seen
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW, DiagonalNIW
from uncover.bayes.student_t import StudentT

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
Numbers = NDArray[np.intp]

TOLERANCE = 1e-8
MAX_ITERATIONS = 3000
# Variance of a feature that no sample has: nothing is too far out for it.
_BOUNDLESS = 1e200
# Of the correlation matrix that filling in gaps begins with.
_LEAST_EIGENVALUE = 1e-3
# The least that a pair of features counts for, where the prior has no expectation.
_LEAST_WEIGHT = 0.5


@dataclass(frozen=True, eq=False)
class Gaps:
    """Sums over samples of classes, by pattern of gaps: of each class and pattern of features that lack.

    A group of samples has a count, a mean, and rows whose squares sum to its scatter, S = Σ r rᵀ: the
    weighted deviations themselves, or the triangle of a QR decomposition where these are more than 2p. Means
    and rows are 0 where the group lacks the feature. ``a + b`` are the sums of both sets of samples, in one
    order of groups whichever comes first.

    >>> x = np.array([[0.0, 1.0], [2.0, np.nan], [4.0, 3.0]])
    >>> gaps = Gaps.of(x, [(np.arange(3), np.ones(3))])
    >>> gaps.lacking.astype(int), gaps.count
    (array([[0, 0],
           [0, 1]]), array([2., 1.]))
    >>> gaps.pair_counts[0]
    array([[3., 2.],
           [2., 2.]])
    """

    lacking: Bools  #: (group, feature)
    owner: Numbers  #: (group,), class
    count: Array  #: (group,), sum of weights
    mean: Array  #: (group, feature)
    rows: Array  #: (row, feature)
    first: Numbers  #: (group + 1,), first row of each group
    n_classes: int

    @classmethod
    def of(cls, samples: NDArray[np.floating], classes: Iterable[tuple[Numbers, Array]]) -> Gaps:
        """Of samples (sample, feature) with NaN, given the members of each class and their weights."""
        groups, k = [], -1
        for k, (members, weight) in enumerate(classes):
            missing = np.isnan(samples[members])
            packed = np.packbits(missing, axis=1)
            _, start, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
            order = np.argsort(which.ravel(), kind="stable")
            edges = np.searchsorted(which.ravel()[order], np.arange(len(start) + 1))
            for one, (low, high) in zip(start, pairwise(edges), strict=True):
                mine = order[low:high]
                x = np.where(missing[one], 0.0, samples[members[mine]].astype(np.float64))
                groups.append(_Group.of(k, missing[one], x, weight[mine]))
        return cls._joined(groups, samples.shape[1], k + 1)

    @classmethod
    def of_moments(cls, moments: Moments) -> Gaps:
        """Of samples without gaps, by the moments of each class."""
        groups, none = [], np.zeros(moments.n_features, bool)
        for k, (count, scatter) in enumerate(zip(moments.count, moments.scatter, strict=True)):
            value, axes = np.linalg.eigh(scatter)
            rows = (axes * np.sqrt(np.maximum(value, 0.0))).T
            groups.append(_Group(k, none, float(count), moments.mean[k] + moments.residual[k], rows))
        return cls._joined(groups, moments.n_features, len(moments.count))

    @classmethod
    def _joined(cls, groups: list[_Group], p: int, n_classes: int) -> Gaps:
        groups = sorted((one for one in groups if one.count > 0), key=lambda one: one.key)
        sizes = [len(one.rows) for one in groups]
        return cls(
            np.array([one.lacking for one in groups], bool).reshape(-1, p),
            np.array([one.owner for one in groups], np.intp),
            np.array([one.count for one in groups], np.float64),
            np.array([one.mean for one in groups], np.float64).reshape(-1, p),
            np.concatenate([np.zeros((0, p)), *(one.rows for one in groups)]),
            np.cumsum([0, *sizes]),
            n_classes,
        )

    def _groups(self) -> Iterator[_Group]:
        for g, (low, high) in enumerate(pairwise(self.first)):
            parts = self.lacking[g], float(self.count[g]), self.mean[g], self.rows[low:high]
            yield _Group(int(self.owner[g]), *parts)

    def __add__(self, other: Gaps) -> Gaps:
        found: dict[tuple[int, bytes], _Group] = {}
        for one in (*self._groups(), *other._groups()):
            found[one.key] = found[one.key] + one if one.key in found else one
        return self._joined(list(found.values()), self.n_features, max(self.n_classes, other.n_classes))

    def select_features(self, keep: Bools) -> Gaps:
        """The same with some of the features; groups that then lack the same stay apart."""
        return Gaps(
            self.lacking[:, keep], self.owner, self.count, self.mean[:, keep], self.rows[:, keep],
            self.first, self.n_classes,
        )  # fmt: skip

    @property
    def n_features(self) -> int:
        """Number of features, p."""
        return int(self.lacking.shape[1])

    @cached_property
    def class_count(self) -> Array:
        """Sum of weights of each class: (class,)."""
        return np.asarray(np.bincount(self.owner, self.count, self.n_classes), np.float64)

    @cached_property
    def pair_counts(self) -> Array:
        """Sum of the weights of the samples that show both of two features: (class, feature, feature)."""
        there = (~self.lacking).astype(np.float64)
        own = (self.owner == np.arange(self.n_classes)[:, None]) * self.count  # (class, group)
        return np.asarray((there.T * own[:, None]) @ there)

    @property
    def counts(self) -> Array:
        """Sum of the weights of the samples that show a feature: (class, feature)."""
        return np.asarray(np.diagonal(self.pair_counts, axis1=1, axis2=2))

    @cached_property
    def lost(self) -> float:
        """Share of the pairs of features that samples lack."""
        return 1.0 - float(self.pair_counts.sum()) / max(float(self.count.sum()) * self.n_features**2, 1.0)

    @property
    def unseen(self) -> Bools:
        """Features that no sample has: (feature,)."""
        return np.asarray(self.counts.sum(0) == 0)

    @cached_property
    def available(self) -> tuple[Array, Array]:
        """Means and variances of the values that there are: (class, feature); 0 where there are too few."""
        n, p = self.counts, self.n_features
        mean, scatter = np.zeros((2, self.n_classes, p))
        each = np.where(self.lacking, 0.0, self.count[:, None])
        np.add.at(mean, self.owner, each * self.mean)
        mean /= np.where(n > 0, n, 1.0)
        np.add.at(scatter, self.owner, each * (self.mean - mean[self.owner]) ** 2)
        np.add.at(scatter, np.repeat(self.owner, np.diff(self.first)), self.rows**2)
        return mean, scatter / np.where(n > 1, n - 1.0, np.inf)

    def start(self, unseen: ArrayLike = _BOUNDLESS) -> Moments:
        """Moments with what is missing filled in by mean and variance of its class, and pooled correlations.

        Where a class has fewer than 2 values the variance within all classes stands in, for the mean of none
        that of all samples. Features that no sample has get a variance, by default one without bound.
        """
        n, (mean, variance) = self.counts, self.available
        whole = n.sum(0)
        centre = (n * mean).sum(0) / np.where(whole > 0, whole, 1.0)
        mean = np.where(n > 0, mean, centre)
        free = np.maximum(n - 1.0, 0.0)
        within = (free * variance).sum(0) / np.where(free.sum(0) > 0, free.sum(0), 1.0)
        total = (free * variance + n * (mean - centre) ** 2).sum(0) / np.maximum(whole - 1.0, 1.0)
        pooled = np.where(within > 0, within, total)
        pooled = np.where(self.unseen, unseen, pooled)
        each = np.sqrt(np.where(variance > 0, variance, np.where((n > 1) & (variance == 0), 0.0, pooled)))
        return self.completed(mean, each[:, :, None] * self._correlation(mean) * each[:, None, :])

    def _correlation(self, mean: Array) -> Array:
        """Correlation within classes by the samples that show both features, made positive definite."""
        deviation = np.where(self.lacking, 0.0, self.mean - mean[self.owner])
        between = np.sqrt(self.count)[:, None] * deviation
        products = between.T @ between + self.rows.T @ self.rows
        products /= np.maximum(self.pair_counts.sum(0), 1.0)
        unit = np.sqrt(np.diagonal(products))
        unit = np.where(unit > 0, unit, np.inf)
        values, axes = np.linalg.eigh(products / (unit[:, None] * unit) + np.diag(np.isinf(unit)))
        found = (axes * np.maximum(values, _LEAST_EIGENVALUE)) @ axes.T
        unit = np.sqrt(np.diagonal(found))
        return np.asarray(found / (unit[:, None] * unit))

    def completed(self, mean: Array, covariance: Array) -> Moments:
        """Expected moments of the whole samples: (class,), for Gaussians of these means and covariances.

        The expectation step: what is missing has its mean given what is there, and adds its covariance to the
        scatter. ``mean`` is (class, feature), ``covariance`` (class or 1, feature, feature).
        """
        K, p = self.n_classes, self.n_features
        shared = len(covariance) == 1
        rows, away, added = self.rows.copy(), self.mean - mean[self.owner], np.zeros((K, p, p))
        for members, there, gone, k in self._patterns(shared):
            if not len(gone):
                continue
            slopes, left = _regression(covariance[k], there, gone)
            for g in members:
                low, high = self.first[g], self.first[g + 1]
                if high > low:
                    rows[low:high, gone] = self.rows[low:high, there] @ slopes
                away[g, gone] = away[g, there] @ slopes
                added[self.owner[g], gone[:, None], gone] += self.count[g] * left
        return self._moments(mean, rows, away, added)

    def _moments(self, mean: Array, rows: Array, away: Array, added: Array) -> Moments:
        shift = np.zeros_like(mean)
        np.add.at(shift, self.owner, self.count[:, None] * away)
        n = self.class_count
        shift /= np.where(n > 0, n, 1.0)[:, None]
        together = np.sqrt(self.count)[:, None] * (away - shift[self.owner])
        owner = np.repeat(self.owner, np.diff(self.first))
        for k in range(self.n_classes):
            mine, own = together[self.owner == k], rows[owner == k]
            added[k] += mine.T @ mine + own.T @ own
        return Moments(n, mean + shift, added, np.zeros_like(mean))

    def seen(self, moments: Moments, covariance: Array | None) -> Seen:
        """What was seen, by moments that were completed with this covariance (class or 1, feature, feature).

        As many samples as show a pair of features, on average over pairs. Of the scatter that part is taken
        out which the others have in it by having been filled in. Without a covariance it is a share of it.
        """
        n, count = moments.count, self.pair_counts.mean((1, 2))
        if covariance is None:
            ratio = np.maximum(count - 1.0, 0.0) / np.where(n > 1, n - 1.0, 1.0)
            scatter = moments.scatter * ratio[:, None, None]
        else:
            scatter = moments.scatter - (n - count)[:, None, None] * covariance
        return Seen(Moments(count, moments.mean, scatter, moments.residual), self.lost, self.blocks)

    @cached_property
    def blocks(self) -> Numbers | None:
        """Features that are always missing together, (block, place), in blocks of as many; None: none such.

        >>> x = np.array([[0.0, 1.0, 2.0, 3.0], [1.0, 2.0, np.nan, np.nan], [np.nan, np.nan, 1.0, 0.0]])
        >>> Gaps.of(x, [(np.arange(3), np.ones(3))]).blocks
        array([[0, 1],
               [2, 3]])
        """
        _, which, size = np.unique(self.lacking, axis=1, return_inverse=True, return_counts=True)
        if len(size) < 2 or size[0] < 2 or np.ptp(size):
            return None
        blocks = np.argsort(which.ravel(), kind="stable").reshape(len(size), -1)
        return np.asarray(blocks[np.argsort(blocks[:, 0])])

    def information(self, covariance: Array) -> Array:
        """Precision that the samples give the mean of their class, Σ w T⁺: (class, feature, feature).

        T⁺ is the inverse of the covariance of the features that a sample has, and 0 in the others.
        """
        out = np.zeros((self.n_classes, self.n_features, self.n_features))
        for members, there, _, k in self._patterns(len(covariance) == 1):
            inverse = np.linalg.inv(covariance[k][there[:, None], there])
            for g in members:
                out[self.owner[g], there[:, None], there] += self.count[g] * inverse
        return out

    def _patterns(self, shared: bool) -> list[_Pattern]:
        """Patterns of all classes together, if these share a covariance, or of each."""
        return self._of_all if shared else self._of_each

    @cached_property
    def _of_each(self) -> list[_Pattern]:
        return [_Pattern.of([g], self.lacking[g], int(self.owner[g])) for g in range(len(self.owner))]

    @cached_property
    def _of_all(self) -> list[_Pattern]:
        patterns, which = np.unique(self.lacking, axis=0, return_inverse=True)
        return [_Pattern.of(np.flatnonzero(which.ravel() == i), one, 0) for i, one in enumerate(patterns)]


class _Pattern(NamedTuple):
    """Groups with the same gaps whose classes have one covariance."""

    groups: Numbers
    there: Numbers
    gone: Numbers
    covariance: int  # its number

    @classmethod
    def of(cls, groups: ArrayLike, lacking: Bools, covariance: int) -> _Pattern:
        return cls(np.asarray(groups, np.intp), np.flatnonzero(~lacking), np.flatnonzero(lacking), covariance)


@dataclass(frozen=True, eq=False)
class _Group:
    owner: int
    lacking: Bools  # (feature,)
    count: float
    mean: Array  # (feature,)
    rows: Array  # (row, feature)

    @classmethod
    def of(cls, owner: int, lacking: Bools, x: Array, weight: Array) -> _Group:
        count = float(weight.sum())
        mean = weight @ x / max(count, np.finfo(float).tiny)
        rows = np.sqrt(weight)[:, None] * (x - mean)
        return cls(owner, lacking, count, mean, _fewer(rows) if len(x) > 1 else rows[:0])

    @property
    def key(self) -> tuple[int, bytes]:
        return self.owner, np.packbits(self.lacking).tobytes()

    def __add__(self, other: _Group) -> _Group:
        count = self.count + other.count
        delta = other.mean - self.mean
        between = np.sqrt(self.count * other.count / count) * delta
        rows = _fewer(np.concatenate([self.rows, other.rows, between[None]]))
        return _Group(self.owner, self.lacking, count, self.mean + other.count / count * delta, rows)


def _fewer(rows: Array) -> Array:
    """Rows of the same sum of squares; at most 2p."""
    return rows if len(rows) <= 2 * rows.shape[1] else np.asarray(np.linalg.qr(rows, mode="r"))


def _regression(sigma: Array, there: Numbers, gone: Numbers) -> tuple[Array, Array]:
    """Slopes of the features that lack on those that are there, and the covariance that these leave."""
    own = sigma[gone[:, None], gone]
    if not len(there):
        return np.zeros((0, len(gone))), own
    onto = sigma[there[:, None], gone]
    _, slopes, failed = lapack.dposv(sigma[there[:, None], there], onto, lower=True)
    if failed:
        raise ValueError(
            "the covariance of a class became singular while gaps were filled in: features depend on each "
            'other. Leave some out, or use prior="evidence".'
        )
    return slopes, own - onto.T @ slopes


Conclude = Callable[[Moments, Array | None], tuple[NIW, NIW]]
# Iterates that the next one is made of; a step so much longer than the last begins anew.
_MEMORY, _TOO_FAR = 20, 3.0
_State = tuple[Array, Array]  # means (class, feature), covariances (class or 1, feature, feature)


def fill_in(
    gaps: Gaps,
    begin: Moments,
    conclude: Conclude,
    tolerance: float = TOLERANCE,
    max_iterations: int = MAX_ITERATIONS,
) -> tuple[Moments, NIW, NIW, bool]:
    """Moments, prior and posterior of samples with gaps, and whether the iteration came to rest.

    Expectation–maximisation: the moments are those expected of the whole samples given the posterior mean
    of μ and Σ, and ``conclude`` makes prior and posterior of them and of the last E[Σ]. The fixed point is

        Σ = [Ψ + Σ_i ((b_i−μ)(b_i−μ)ᵀ + B_i) + λ(μ−μ₀)(μ−μ₀)ᵀ] / (ν+n−p−1)

    with b_i, B_i the mean and covariance of the whole sample given what is there; in a feature seen n_j times
    it is the variance after n_j samples. The iteration is accelerated; where that does not come to rest, it
    is done again without.
    """

    for accelerated in (True, False):
        _, posterior = conclude(begin, None)
        state, path = _state_of(posterior), _Path()
        for _ in range(max_iterations):
            moments = gaps.completed(*state)
            prior, posterior = conclude(moments, state[1])
            after = _state_of(posterior)
            if _far(after, state) < tolerance:
                return moments, prior, posterior, True
            state = path.next(state, after) if accelerated else after
    return moments, prior, posterior, False


def _state_of(posterior: NIW) -> _State:
    covariance = posterior.expected_covariance
    if not np.isfinite(covariance).all():
        raise ValueError(
            "the prior has no expected covariance after the samples, which filling in gaps needs; "
            'raise its dof, or use prior="weak" or "evidence".'
        )
    return np.asarray(posterior.mean), np.asarray(covariance)


def _far(one: _State, other: _State) -> float:
    """Largest change, in standard deviations of the features."""
    unit = np.sqrt(np.diagonal(other[1], axis1=1, axis2=2))
    mean = np.abs(one[0] - other[0]) / unit
    covariance = np.abs(one[1] - other[1]) / (unit[:, :, None] * unit[:, None, :])
    return float(max(mean.max(), covariance.max()))


class _Path:
    """Anderson's acceleration of a fixed-point iteration (Walker and Ni 2011), kept among covariances.

    The next point is the combination of the last images whose steps, combined alike, are shortest.
    """

    def __init__(self) -> None:
        self.images: list[Array] = []
        self.steps: list[Array] = []

    def next(self, state: _State, image: _State) -> _State:
        """The point to go on from, after ``state`` was taken to ``image``."""
        unit = np.sqrt(np.diagonal(state[1], axis1=1, axis2=2))
        scale = (unit, unit[:, :, None] * unit[:, None, :])
        step = np.concatenate([((b - a) / s).ravel() for a, b, s in zip(state, image, scale, strict=True)])
        if self.steps and np.linalg.norm(step) > _TOO_FAR * np.linalg.norm(self.steps[-1]):
            self.images, self.steps = [], []
        self.images.append(np.concatenate([part.ravel() for part in image]))
        self.steps.append(step)
        self.images, self.steps = self.images[-_MEMORY:], self.steps[-_MEMORY:]
        if len(self.steps) == 1:
            return image
        changes = np.diff(self.steps, axis=0)
        share = np.linalg.lstsq(changes.T, step, rcond=1e-10)[0]
        values = self.images[-1] - share @ np.diff(self.images, axis=0)
        mean, covariance = values[: image[0].size].reshape(image[0].shape), values[image[0].size :]
        covariance = covariance.reshape(image[1].shape)
        try:
            np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            self.images, self.steps = [], []
            return image
        return mean, 0.5 * (covariance + covariance.swapaxes(1, 2))


def posterior_of_gaps(gaps: Gaps, prior: NIW, posterior: NIW) -> NIW:
    """Posterior of classes with what is missing taken out of its counts.

    ``posterior`` counts the completed samples. The covariance of μ is (Σ_i T_i⁺ + λΣ⁻¹)⁻¹, with the inverse
    of the covariance of what sample i has; a mean of a feature that a class never shows has the variance of
    the feature over all samples. The pair (j, l) counts the samples that show both.
    """
    covariance, n, p = posterior.expected_covariance, gaps.class_count, gaps.n_features
    lost = n[:, None, None] - gaps.pair_counts
    if len(covariance) == 1 < len(n):
        lost = lost.sum(0, keepdims=True)
    weight = np.maximum(posterior.dof[:, None, None] - lost - p - 1.0, _LEAST_WEIGHT)
    strength = np.broadcast_to(prior.strength, n.shape)[:, None, None]
    precision = gaps.information(covariance) + strength * np.linalg.inv(covariance)
    empty = (n == 0) & (strength[:, 0, 0] == 0)
    unseen = (gaps.counts == 0) & (strength[:, 0] == 0) | empty[:, None]
    precision += (unseen / _whole_variance(gaps, covariance))[:, None] * np.eye(p)
    kind = GappyDiagonal if isinstance(posterior, DiagonalNIW) else GappyNIW
    found = kind.of(posterior.mean, covariance, np.asarray(np.linalg.inv(precision), np.float64), weight)
    return replace(found, strength=np.where(empty, 0.0, found.strength))


def _whole_variance(gaps: Gaps, covariance: Array) -> Array:
    """Variance of each feature over the samples of all classes, and within classes: (feature,)."""
    n, (mean, variance) = gaps.counts, gaps.available
    whole = np.maximum(n.sum(0), 1.0)
    centre = (n * mean).sum(0) / whole
    between = (n * (mean - centre) ** 2 + np.maximum(n - 1.0, 0.0) * variance).sum(0) / whole
    return np.maximum(between, np.diagonal(covariance, axis1=1, axis2=2).mean(0))


class Missing:
    """Features that points lack, given those that they have, ``there``, by Student t distributions.

    Given the others, a Student t of ν degrees of freedom and scale matrix S is one of ν+p_o, with the scale
    matrix (S_mm − S_mo S_oo⁻¹ S_om)(ν+q_o)/(ν+p_o). What depends on the features alone is made once.
    """

    def __init__(self, density: StudentT, there: Bools) -> None:
        self.density, self.there = density, np.flatnonzero(there)
        self.gone, self._given = np.flatnonzero(~there), {}  # type: ignore[var-annotated]

    def draw(self, points: Array, probability: Array, places: Array) -> Array:
        """Draw what points lack from Σ_k P_k p(χ | x, k): (point, n, feature).

        ``probability`` (point, component) is P_k; ``places`` (n, 2+p) or (point, n, 2+p) of the unit cube say
        which component it is, how far out it lies, and where.
        """
        (n, _), size = places.shape[-2:], len(points)
        places = np.broadcast_to(places, (size, *places.shape[-2:]))
        cumulated = probability.cumsum(1)
        level = places[..., 0] * cumulated[:, -1:]
        chosen = np.minimum((cumulated[:, :, None] < level[:, None, :]).sum(1), probability.shape[1] - 1)
        out = np.repeat(points[:, None], n, axis=1)
        for k in np.unique(chosen):
            mine = np.nonzero(chosen == k)
            centre, stretch, root = self._of_component(int(k), points[mine[0]], places[..., 1][mine])
            normal = ndtri(places[mine][:, 2 + self.gone]) @ root.T
            out[mine[0][:, None], mine[1][:, None], self.gone] = centre + stretch[:, None] * normal
        return out

    def _of_component(self, k: int, points: Array, level: Array) -> tuple[Array, Array, Array]:
        """Locations (point, feature), stretches (point,) and root (feature, feature) of what is missing."""
        if k not in self._given:
            one = self.density[k]
            scale = one.root @ one.root.T
            slopes, left = _regression(scale, self.there, self.gone)
            whitening = np.linalg.inv(np.linalg.cholesky(scale[self.there[:, None], self.there]))
            self._given[k] = one.location, float(one.dof), slopes, whitening, np.linalg.cholesky(left)
        location, dof, slopes, whitening, root = self._given[k]
        away = points[:, self.there] - location[self.there]
        square = ((away @ whitening.T) ** 2).sum(1)
        chi2 = 2.0 * gammaincinv(0.5 * (dof + len(self.there)), level)
        return location[self.gone] + away @ slopes, np.sqrt((dof + square) / chi2), root
