"""Noise of samples that is known by a few draws: what the draws of all samples tell of that of one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.covariances import Covariances
from uncover.bayes.evidence import ScatterEvidence
from uncover.bayes.linalg import slices
from uncover.bayes.moments import Moments
from uncover.models.membership import Membership

Array = NDArray[np.float64]

# Numbers of one block of samples while sums over realisations are taken.
_BLOCK_NUMBERS = 1 << 18
# Noise that counts for this many times the draws of a sample has the same shape for all samples.
_ALIKE = 1e4
# Weights that are tried: a finer choice changes nothing, and would depend on rounding.
_WEIGHTS = np.geomspace(1e-2, 1e6, 33)
# Sizes that the noise of a sample may have, relative to that of its class; 1 is one of them.
_SIZES = np.geomspace(1e-3, 1e3, 277)
_AVERAGE = len(_SIZES) // 2
# Shares of the sizes before any sample is seen, as much as one sample tells: any, but not above all measure.
_ANY_SIZE = 1.0 / (1.0 + _SIZES**2) / (1.0 / (1.0 + _SIZES**2)).sum()
# The sizes of all classes count for so many samples of each.
_SAMPLES_OF_ALL = 10.0
# Noise differs, between classes or between samples, where the log Bayes factor is above this (strong
# evidence; Kass and Raftery 1995, Journal of the American Statistical Association 90, 773).
_STRONG = 3.0
_MOST_GROUPS = 500
_SIZE_ITERATIONS = 300


@dataclass(frozen=True)
class DrawnNoise:
    """Noise of samples of which R draws each are given: Σ_i ~ IW(a s_i C_k, a+p+1) in class k.

    The size s_i of a sample's noise is one of many, whose shares π_k in the class are learned (nonparametric
    empirical Bayes): all p features of the draws tell of it, t_i = tr C_k⁻¹S_i ~ s_i χ²(p(R − 1)) for draws
    of scatter S_i. The shape is told by fewer numbers. The mean of the draws lies (1 + 1/R) Σ_i from the
    truth: once for the measurement that they are drawn around, and 1/R for the draws. Σ_i is the expected
    one, with s_i = E[s | t_i]:

        (1 + 1/R) (a s_i C_k + S_i) / (a + R − 1)

    Given the draws, that is right on average whatever the sizes are, and so are the class variances that are
    learned through it.

    Attributes
    ----------
    covariance : array of shape (class, feature, feature)
        C_k; one where the noise of all classes is alike.
    sizes : array of shape (class, size)
        π_k, likewise.
    weight : float
        a, how many draws of a sample the shape of its noise is worth before they are seen.
    """

    covariance: Array
    sizes: Array
    weight: float

    @classmethod
    def of(cls, X: Any, membership: Membership | None = None) -> DrawnNoise:
        """Of draws (sample, draw, feature) of labelled samples; without labels, of one class."""
        R, scatter = X.shape[1], scatter_of_draws(X)
        share = np.ones((len(X), 1)) if membership is None else membership.shares(slice(None))
        C = _covariances_of_classes(scatter, share, R - 1.0)
        share = share if len(C) > 1 else share.sum(1, keepdims=True)
        axes = [_unit_axes(one) for one in C]
        if axes[0].shape[1] == 0:
            return cls.alike(C[0])
        freedom = axes[0].shape[1] * (R - 1.0)
        size = np.stack([_sizes_of_draws(scatter, own) for own in axes])
        everywhere = _shares_of_sizes(size.T.ravel(), share.ravel(), freedom, _ANY_SIZE, 1.0)
        sizes = np.stack([everywhere])
        if len(C) > 1:
            each = zip(size, share.T, strict=True)
            sizes = np.stack([_shares_of_sizes(*own, freedom, everywhere, _SAMPLES_OF_ALL) for own in each])
        expected = np.stack([_expected_sizes(*own, freedom) for own in zip(size, sizes, strict=True)])
        return cls(C, sizes, _weight_of_shape(scatter, expected, share, axes, R - 1.0))

    @classmethod
    def alike(cls, covariance: Array, weight: float = _WEIGHTS[-1], b: float = np.inf) -> DrawnNoise:
        """Noise that all classes have, of sizes 1, or with the inverse gamma distribution IW(b, b + 2)."""
        log_share = -0.5 * (b + 2.0) * np.log(_SIZES) - 0.5 * b / _SIZES if np.isfinite(b) else None
        share = _average_size() if log_share is None else np.exp(log_share - log_share.max())
        return cls(covariance[None], (share / share.sum())[None], weight)

    def fits(self, n_classes: int, n_features: int) -> bool:
        """True where it can be that of so many classes and features."""
        number = len(self.covariance)
        return (
            number in (1, n_classes)
            and self.covariance.shape == (number, n_features, n_features)
            and self.sizes.shape == (number, len(_SIZES))
        )

    def select_features(self, keep: Any) -> DrawnNoise:
        """The same of some of the features."""
        return replace(self, covariance=self.covariance[:, keep][:, :, keep])

    def of_classes(self, X: Any) -> list[Covariances]:
        """Covariances of the distances of the draws' means from the truth, for each class; or one for all."""
        R = X.shape[1]
        if self.weight > _ALIKE * (R - 1) and all(_are_average(share) for share in self.sizes):
            return [Covariances((1.0 + 1.0 / R) * C, None, None) for C in self.covariance]
        scatter = scatter_of_draws(X)
        return [self._of_class(k, scatter, R) for k in range(len(self.sizes))]

    def _of_class(self, k: int, scatter: Array, R: int) -> Covariances:
        C, axes, stretch = self.covariance[k], _unit_axes(self.covariance[k]), 1.0 + 1.0 / R
        expected = np.ones(len(scatter))
        if axes.shape[1]:
            size = _sizes_of_draws(scatter, axes)
            expected = _expected_sizes(size, self.sizes[k], axes.shape[1] * (R - 1.0))
        if self.weight > _ALIKE * (R - 1):
            return Covariances(stretch * C, expected, None)
        own = self.weight * expected[:, None, None] * C + scatter
        return Covariances(None, None, stretch / (self.weight + R - 1) * own)

    def of_labelled(self, X: Any, membership: Membership) -> Covariances:
        """The same of labelled samples: the mean over their classes."""
        each = self.of_classes(X)
        if len(each) == 1:
            return each[0]
        share = membership.targets()
        parts = (share[:, k, None, None] * one.of_each(len(X)) for k, one in enumerate(each))
        return Covariances(None, None, np.sum(list(parts), axis=0))


def _covariances_of_classes(scatter: Array, share: Array, freedom: float) -> Array:
    """Covariance of the noise of each class, drawn towards that of all; one where they are alike.

    ``scatter`` is that of samples, of as many degrees of freedom each; ``share`` is (sample, class).
    """
    p, dof = scatter.shape[-1], freedom * share.sum(0)
    each = (share.T @ scatter.reshape(len(scatter), -1)).reshape(-1, p, p)
    C = each.sum(0) / dof.sum()
    axes = _unit_axes(C)
    if len(dof) == 1 or axes.shape[1] == 0:
        return np.asarray(C[None])
    evidence = _evidence(axes.T @ each @ axes, dof).at_each(_WEIGHTS)
    best = int(np.argmax(evidence))
    if evidence[best] - evidence[-1] < _STRONG:
        return np.asarray(C[None])
    m = _WEIGHTS[best]
    return np.asarray((m * C + each) / (m + dof)[:, None, None])


def _evidence(scatter: Array, freedom: Array) -> ScatterEvidence:
    """Evidence of scatters (..., direction, direction) whose covariance is expected to be 1."""
    zeros = np.zeros(scatter.shape[:-1])
    return ScatterEvidence.of(Moments(freedom + 1.0, zeros, scatter, zeros), np.eye(scatter.shape[-1]))


def _weight_of_shape(
    scatter: Array, expected: Array, share: Array, axes: list[Array], freedom: float
) -> float:
    """Draws that the shape of noise is worth, by the evidence; ``expected`` are sizes (class, sample)."""
    if axes[0].shape[1] == 1:
        return float(_WEIGHTS[-1])
    total = np.zeros(len(_WEIGHTS))
    for own, size, weight in zip(axes, expected, share.T, strict=True):
        rows = np.flatnonzero(weight)
        seen = own.T @ scatter[rows] @ own / size[rows, None, None]
        evidence = _evidence(seen, np.full(len(rows), freedom))
        total += [evidence.at_each(np.array([a]), weight[rows])[0] for a in _WEIGHTS]
    return float(_WEIGHTS[np.argmax(total)])


def _sizes_of_draws(scatter: Array, axes: Array) -> Array:
    """t = tr C⁻¹S of each sample."""
    return np.asarray(np.einsum("nij,ij->n", scatter, axes @ axes.T))


def _average_size() -> Array:
    return np.asarray(np.arange(len(_SIZES)) == _AVERAGE, np.float64)


def _are_average(share: Array) -> bool:
    return bool(share[_AVERAGE] == share.sum())


def _log_likelihood(t: Array, freedom: float) -> Array:
    """log p(t | size) of t/s ~ χ²(freedom), less what does not depend on s: (t, size)."""
    return np.asarray(-0.5 * freedom * np.log(_SIZES) - 0.5 * t[:, None] / _SIZES)


def _shares_of_sizes(t: Array, weight: Array, freedom: float, expected: Array, count: float) -> Array:
    """Shares of the sizes that noise has, by expectation–maximisation; 1 alone where that says as much.

    ``expected`` are the shares before, which count for ``count`` samples. Samples of nearly the same t count
    together.
    """
    t, weight = _in_groups(t, weight)
    log_likelihood = _log_likelihood(t, freedom)
    most = log_likelihood.max(1, keepdims=True)
    likelihood = np.exp(log_likelihood - most)
    share = expected
    for _ in range(_SIZE_ITERATIONS):
        share = count * expected + share * ((weight / (likelihood @ share)) @ likelihood)
        share = share / share.sum()
    gain = weight @ (np.log(likelihood @ share) + (most - log_likelihood[:, [_AVERAGE]])[:, 0])
    return share if gain > _STRONG else _average_size()


def _in_groups(t: Array, weight: Array) -> tuple[Array, Array]:
    """The values t and their weights; where there are many, quantiles of equal weight stand for them."""
    t, weight = t[weight > 0], weight[weight > 0]
    if len(t) <= _MOST_GROUPS:
        return t, weight
    order = np.argsort(t)
    level = (np.cumsum(weight[order]) - 0.5 * weight[order]) / weight.sum()
    t = np.interp((np.arange(_MOST_GROUPS) + 0.5) / _MOST_GROUPS, level, t[order])
    return t, np.full(_MOST_GROUPS, weight.sum() / _MOST_GROUPS)


def _expected_sizes(t: Array, share: Array, freedom: float) -> Array:
    """E[s | t]."""
    out = np.ones(len(t))
    used = share > 0
    if used.sum() < 2:
        return out
    for rows in blocks(len(t), len(share)):
        log_posterior = np.log(share[used]) + _log_likelihood(t[rows], freedom)[:, used]
        posterior = np.exp(log_posterior - log_posterior.max(1, keepdims=True))
        out[rows] = (posterior @ _SIZES[used]) / posterior.sum(1)
    return out


def _unit_axes(covariance: Array) -> Array:
    """Directions in which a covariance is not 0, scaled so that it is 1 along each: (feature, direction)."""
    unit = np.sqrt(np.diagonal(covariance))
    unit = np.where(unit > 0, unit, 1.0)
    value, axes = np.linalg.eigh(covariance / (unit[:, None] * unit))
    keep = value > 1e-10 * max(float(value[-1]), np.finfo(float).tiny)
    return np.asarray(axes[:, keep] / np.sqrt(value[keep]) / unit[:, None])


def scatter_of_draws(X: Any) -> Array:
    """Scatter of the draws of each sample about their mean: (sample, feature, feature)."""
    n, R, p = X.shape
    out = np.empty((n, p, p))
    for rows in blocks(n, R * p):
        x = X[rows].astype(np.float64)
        x -= x.mean(1, keepdims=True)
        out[rows] = np.swapaxes(x, 1, 2) @ x
    return out


def blocks(n_rows: int, numbers_per_row: int) -> list[slice]:
    """Slices of rows that hold a fixed quantity of numbers."""
    return slices(n_rows, max(1, _BLOCK_NUMBERS // max(1, numbers_per_row)))
