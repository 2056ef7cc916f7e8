"""Priors whose weight the data decide, by their closed-form marginal likelihood, and the evidence itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.linalg import cholesky, invert_triangle, log_det_of_root
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW, DiagonalNIW
from uncover.bayes.priors import Spread
from uncover.bayes.special import log_gamma_ratio

Array = NDArray[np.float64]

# Degrees of freedom of a prior are at most this: the classes then share one covariance for all purposes.
LARGEST_DOF = 1e6
_SMALLEST_WEIGHT = 1e-6
# Differences of log evidence that say nothing.
_FLAT = 1e-9
# Of the correlation matrix of the classes' common covariance; below, it counts as singular.
_SMALLEST_EIGENVALUE = 1e-10
# Steps to the factors of a Kronecker product, and what each feature keeps for itself of its variance.
_KRONECKER_STEPS, _LEAST_ALONE = 12, 1e-4


@dataclass(frozen=True)
class ScatterEvidence:
    """Log marginal likelihood of scatter matrices S under Σ ~ IW(aC, a+d+1), as a function of the weight a.

    The prior expects the covariance C and counts for a observations of it. With n degrees of freedom behind S
    (N−1: the mean is flat), ν = a+d+1 and e the eigenvalues of C⁻¹S,

        log p(S | a) = log Γ_d((ν+n)/2) − log Γ_d(ν/2) − (nd/2) log a − ½(ν+n) Σ_j log(1+e_j/a)
                       − (n/2) log|C| − (nd/2) log π − (d/2) log N

    >>> x = np.array([[0.0], [1.0], [3.0]])
    >>> evidence = ScatterEvidence.of(Moments.of(x), np.array([[2.0]]))
    >>> after_first = NIW(x[0], 1.0, [[5 * 2.0]], 5 + 2.0)  # a = 5; the first sample gives the mean
    >>> bool(np.isclose(evidence.at(5.0), after_first.log_evidence(Moments.of(x[1:]))))
    True
    """

    eigenvalues: Array  #: (..., d), e of each scatter matrix
    dof: Array  #: (...), n of each
    constant: float  #: sum of the terms that do not depend on a

    @classmethod
    def of(cls, moments: Moments, target: Array) -> "ScatterEvidence":
        """Of the scatter of each member of the batch, about a target C of shape (..., d, d)."""
        return cls._of(moments.scatter, np.maximum(moments.count - 1.0, 0.0), moments.count, target)

    @classmethod
    def of_tied(cls, moments: Moments, target: Array) -> "ScatterEvidence":
        """Of the scatter that the classes along the last batch axis have together."""
        dof = np.maximum(moments.count - 1.0, 0.0).sum(-1)
        found = cls._of(moments.scatter.sum(-3), dof, np.ones_like(dof), target)
        means = 0.5 * moments.n_features * float(_log_of_counts(moments.count).sum())
        return cls(found.eigenvalues, found.dof, found.constant - means)

    @classmethod
    def of_features(cls, moments: Moments, variance: Array) -> "ScatterEvidence":
        """Of the variance of each feature alone, about a target of shape (..., feature)."""
        each = np.diagonal(moments.scatter, axis1=-2, axis2=-1)[..., None, None]
        count = np.broadcast_to(moments.count[..., None], each.shape[:-2])
        return cls._of(each, np.maximum(count - 1.0, 0.0), count, variance[..., None, None])

    @classmethod
    def _of(cls, scatter: Array, dof: Array, count: Array, target: Array) -> "ScatterEvidence":
        d = scatter.shape[-1]
        root = cholesky(np.asarray(target, np.float64), "the covariance that the prior expects")
        whitening = invert_triangle(root)
        e = np.linalg.eigvalsh(whitening @ scatter @ np.swapaxes(whitening, -1, -2))
        constant = dof * log_det_of_root(root) + 0.5 * d * (dof * np.log(np.pi) + _log_of_counts(count))
        return cls(np.maximum(e, 0.0), dof, -float(np.sum(constant)))

    def at(self, weight: float) -> float:
        """Sum of the log evidence over the batch, for one weight a > 0."""
        return float(self.at_each(np.array([weight]))[0])

    def at_each(self, weights: Array, counts: Array | None = None) -> Array:
        """The same for several weights: (weight,). ``counts`` says how often each scatter counts."""
        d = self.eigenvalues.shape[-1]
        e, n = self.eigenvalues.reshape(-1, d), self.dof.reshape(-1)
        a = weights[:, None]
        nu = a + d + 1.0
        halves = 0.5 * (nu[..., None] - np.arange(d))
        gammas = log_gamma_ratio(halves, 0.5 * n[:, None]).sum(-1)  # (weight, scatter)
        shrunk = 0.5 * (nu + n) * np.log1p(e / a[..., None]).sum(-1)
        each = gammas - shrunk - 0.5 * n * d * np.log(a)
        return np.asarray((each.sum(-1) if counts is None else each @ counts) + self.constant)

    def best_weight(self, largest: float) -> float:
        """The weight a in (0, largest] of the highest evidence: a grid, then Brent's method."""
        return _maximise(self.at_each, largest)


def _maximise(evidence: Callable[[Array], Array], largest: float) -> float:
    grid = np.linspace(np.log(_SMALLEST_WEIGHT), np.log(largest), 81)
    values = evidence(np.exp(grid))
    best = int(np.argmax(values))
    if values[best] - values.min() < _FLAT:  # no deviation was seen: one observation's worth
        return 1.0
    ends = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(
        lambda u: -float(evidence(np.exp([u]))[0]), bounds=ends, method="bounded", options={"xatol": 1e-9}
    )
    return min(float(np.exp(found.x if -found.fun > values[best] else grid[best])), largest)


def _log_of_counts(count: Array) -> Array:
    return np.log(np.where(count > 0, count, 1.0))


class Seen(NamedTuple):
    """What was seen of samples that lack features, as moments of fewer samples that lack none.

    These tell of the scatter what the samples tell: fill-ins, which a prior has made, are no evidence for it.
    """

    moments: Moments
    lost: float  # share of the pairs of features that samples lack
    blocks: NDArray[np.intp] | None = None  # features missing together, (block, place); None: no such blocks


def evidence_prior(moments: Moments, rows_per_sample: float = 1.0, seen: Seen | None = None) -> NIW:
    """Prior of classes that resemble each other as much as the data say.

    λ = 0, Ψ = (ν₀−p−1)·C with C = ΣS_k/(N−K), and ν₀ in (p+1, 10⁶] maximises the marginal likelihood of the
    scatters S_k. Few degrees of freedom leave each class its own covariance; many make all the same.
    Classes are along the last batch axis; a batch axis before it (worlds) has one ν₀ in common. The rows of
    one sample are not independent: where there are ``rows_per_sample``, evidence is taken of the samples, and
    the prior's weight counted in rows like theirs. Where
    samples lack features, ``moments`` are those expected of whole ones, and evidence is taken of what was
    ``seen``.

    >>> x, y = np.random.default_rng(0).normal(size=(400, 2)), np.arange(400) % 2
    >>> alike = evidence_prior(Moments.by_group(x, y, 2))
    >>> different = evidence_prior(Moments.by_group(x * (1.0 + 4.0 * y[:, None]), y, 2))
    >>> bool(different.dof[0] < 20 < 200 < alike.dof[0])
    True
    """
    samples = per_sample(moments, rows_per_sample)
    C = common_covariance(samples, seen)
    weight = ScatterEvidence.of(seen.moments if seen else samples, C[..., None, :, :]).best_weight(
        _largest(moments)
    )
    return _with_weight(NIW, moments, _for_each_class(C, moments), weight * rows_per_sample)


def echo_of_samples(prior: NIW, moments: Moments, rows_per_sample: float = 1.0) -> float:
    """ρ of a prior by :func:`evidence_prior`, whose scale is Ψ₀ = ρ·ΣS_k: how much each sample is behind it.

    Where ΣS_k is singular and C drawn towards its diagonal, ρ of the part that is ΣS_k.

    >>> moments = Moments.by_group([[0.0], [2.0], [5.0], [9.0]], [0, 0, 1, 1], 2)
    >>> prior = evidence_prior(moments)
    >>> bool(np.allclose(echo_of_samples(prior, moments) * moments.scatter.sum(0), prior.scale))
    True
    """
    samples = per_sample(moments, rows_per_sample)
    freedom = float(np.maximum(samples.count - (samples.count > 0), 0.0).sum(-1).flat[0])
    if freedom < moments.n_features or not _is_regular(samples.scatter.sum(-3) / freedom):
        freedom += prior_weight(evidence_tied_prior(samples))
    return prior_weight(prior) / (freedom * rows_per_sample)


def evidence_tied_prior(moments: Moments, rows_per_sample: float = 1.0, seen: Seen | None = None) -> NIW:
    """Prior of one covariance for all classes: Ψ = (ν₀−p−1)·diag(C), ν₀ by evidence.

    Between a covariance of its own making (few degrees of freedom) and independent features (many): about C
    itself, which is the data's, the evidence would only ever ask for more. Where blocks of as many features
    are missing together, as bands of dates are, Ψ may be that of a Kronecker product of correlations between
    blocks and within them (:func:`kronecker_target`): the evidence decides.

    >>> x = np.random.default_rng(0).normal(size=(60, 3))
    >>> evidence_tied_prior(Moments.by_group(x, np.arange(60) % 2, 2)).scale.shape
    (1, 3, 3)
    """
    samples = per_sample(moments, rows_per_sample)
    shown, target = seen.moments if seen else samples, _diagonal_target(samples)
    evidence = ScatterEvidence.of_tied(shown, target)
    weight = evidence.best_weight(_largest(moments))
    if seen is not None and seen.blocks is not None:
        other = kronecker_target(samples, seen.blocks)
        of_other = ScatterEvidence.of_tied(shown, other)
        its_weight = of_other.best_weight(_largest(moments))
        # Its correlations were fitted to the samples: half the log of their number for each (Schwarz 1978).
        fitted = sum(n * (n - 1) // 2 for n in seen.blocks.shape)
        price = 0.5 * fitted * np.log(max(float(of_other.dof.sum()), 1.0))
        if of_other.at(its_weight) - price > evidence.at(weight):
            weight, target = its_weight, other
    return _with_weight(NIW, moments, target[..., None, :, :], weight * rows_per_sample)


def evidence_independent_prior(
    moments: Moments, rows_per_sample: float = 1.0, seen: Seen | None = None
) -> NIW:
    """Prior of independent features: Ψ = (ν₀−p−1)·diag(C), ν₀ by the evidence of each feature and class.

    >>> x = np.random.default_rng(0).normal(size=(60, 3))
    >>> evidence_independent_prior(Moments.by_group(x, np.arange(60) % 2, 2)).scale.shape
    (2, 3, 3)
    """
    samples = per_sample(moments, rows_per_sample)
    variance = Spread.of(samples).pooled
    weight = ScatterEvidence.of_features(
        seen.moments if seen else samples, variance[..., None, :]
    ).best_weight(_largest(moments))
    target = _for_each_class(_diagonal_target(samples), moments)
    return _with_weight(DiagonalNIW, moments, target, weight * rows_per_sample)


def common_covariance(moments: Moments, seen: Seen | None = None) -> Array:
    """C = ΣS_k/(N−K): (..., feature, feature). Where that is singular, it is drawn towards its diagonal.

    How far decides the evidence: the expected covariance after :func:`evidence_tied_prior`. Where samples
    lack features, pairs of which are then poorly known, C is drawn there by a share of that prior's weight,
    the share of pairs that were not seen.

    >>> common_covariance(Moments.by_group([[0.0], [2.0], [5.0], [9.0]], [0, 0, 1, 1], 2))
    array([[5.]])
    """
    scatter = moments.scatter.sum(-3)
    dof = np.maximum(moments.count - (moments.count > 0), 0.0).sum(-1)[..., None, None]
    enough = dof if seen is None else np.maximum(seen.moments.count - 1.0, 0.0).sum(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        C = scatter / dof
    if np.all(enough >= moments.n_features) and _is_regular(C):
        if seen is None:
            return C
        weight = seen.lost * prior_weight(evidence_tied_prior(moments, seen=seen))
        return np.asarray((weight * _diagonal_target(moments) + dof * C) / (weight + dof))
    posterior = evidence_tied_prior(moments, seen=seen).update_tied(moments)
    return posterior.expected_covariance[..., 0, :, :]


def _is_regular(covariance: Array) -> bool:
    variance = np.diagonal(covariance, axis1=-2, axis2=-1)
    if not np.all(variance > 0):
        return False
    spread = np.sqrt(variance)
    correlation = covariance / (spread[..., :, None] * spread[..., None, :])
    return bool(np.linalg.eigvalsh(correlation).min() > _SMALLEST_EIGENVALUE)


def _diagonal_target(moments: Moments) -> Array:
    variance = Spread.of(moments).pooled
    return np.asarray(variance[..., None] * np.eye(moments.n_features))


def kronecker_target(moments: Moments, blocks: NDArray[np.intp]) -> Array:
    """Variances within classes, with correlations A ⊗ B between and within blocks (block, place).

    A and B are those of the highest likelihood, step by step (Dutilleul 1999):

        A_ij ∝ tr(B⁻¹ R_ij),  B ∝ Σ_ij (A⁻¹)_ij R_ij,  R_ij the correlations of the blocks i and j.

    >>> both = np.kron([[1.0, 0.8], [0.8, 1.0]], [[1.0, -0.4], [-0.4, 1.0]])
    >>> root = np.sqrt(5.0) * np.linalg.cholesky(both)
    >>> moments = Moments(np.array([6.0]), np.zeros((1, 4)), (root @ root.T)[None], np.zeros((1, 4)))
    >>> np.allclose(kronecker_target(moments, np.arange(4).reshape(2, 2)), both, atol=1e-3)
    True
    """
    D, B = blocks.shape
    variance = Spread.of(moments).pooled
    unit = np.sqrt(np.where(variance > 0, variance, 1.0))
    order = blocks.ravel()
    scatter = moments.scatter.sum(-3) / (unit[:, None] * unit)
    R = scatter / max(float(np.trace(scatter)) / (D * B), np.finfo(float).tiny)
    R = (1.0 - _LEAST_ALONE) * R + _LEAST_ALONE * np.eye(D * B)
    each = R[order[:, None], order].reshape(D, B, D, B)
    within = np.eye(B)
    for _ in range(_KRONECKER_STEPS):
        between = _of_unit_trace(np.einsum("ibjc,bc->ij", each, np.linalg.inv(within)))
        within = _of_unit_trace(np.einsum("ibjc,ij->bc", each, np.linalg.inv(between)))
    found = np.empty((D * B, D * B))
    found[order[:, None], order] = np.kron(between, within)
    scale = unit / np.sqrt(np.diagonal(found))
    return np.asarray(scale[:, None] * found * scale)


def _of_unit_trace(matrix: Array) -> Array:
    return np.asarray(matrix * (len(matrix) / np.trace(matrix)))


def per_sample(moments: Moments, rows: float) -> Moments:
    """Moments in which a sample of several rows counts once.

    >>> float(per_sample(Moments.of([[0.0], [1.0], [2.0], [3.0]]), 2.0).count)
    2.0
    """
    if rows == 1.0:
        return moments
    return Moments(moments.count / rows, moments.mean, moments.scatter / rows, moments.residual)


def _largest(moments: Moments) -> float:
    return LARGEST_DOF - moments.n_features - 1.0


def _with_weight(kind: type[NIW], moments: Moments, target: Array, weight: float) -> NIW:
    """Prior with a free mean that expects the target, and counts for ``weight`` observations of it."""
    seen = (moments.count > 0)[..., None]
    mean = np.where(seen, moments.mean, Spread.of(moments).centre[..., None, :])
    dof = np.full(target.shape[:-2], weight + moments.n_features + 1.0)
    return kind(mean, np.zeros(mean.shape[:-1]), weight * target, dof)


def _for_each_class(target: Array, moments: Moments) -> Array:
    """A matrix that is common to the classes, (..., p, p), once for each: (..., class, p, p)."""
    p = moments.n_features
    return np.broadcast_to(target[..., None, :, :], (*moments.count.shape, p, p))


def prior_weight(prior: NIW, rows_per_sample: float = 1.0) -> float:
    """The weight a = (ν₀−p−1) in samples of a prior that the functions above made.

    >>> prior_weight(NIW([0.0], 0.0, [[1.0]], 5.0))
    3.0
    """
    return float(prior.dof.flat[0] - prior.n_features - 1.0) / rows_per_sample


def log_evidence_tied(prior: NIW, moments: Moments) -> Array:
    """Log marginal likelihood of classes along the last batch axis that share one covariance.

    >>> prior = NIW([[0.0]], [1.0], [[[1.0]]], [3.0])
    >>> moments = Moments.stack([Moments.of([[1.0], [2.0]])])
    >>> bool(np.isclose(log_evidence_tied(prior, moments), prior.log_evidence(moments)[0]))
    True
    """
    if np.any(prior.strength <= 0):
        raise ValueError("the evidence does not exist for strength 0: a flat prior is not a distribution.")
    p, n = prior.n_features, moments.count.sum(-1)
    posterior = prior.update_tied(moments)
    dof = np.broadcast_to(prior.dof, posterior.dof.shape)[..., 0]
    gammas = log_gamma_ratio(0.5 * (dof[..., None] - np.arange(p)), 0.5 * n[..., None]).sum(-1)
    before, after = log_det_of_root(prior.root)[..., 0], log_det_of_root(posterior.root)[..., 0]
    means = 0.5 * p * (np.log(prior.strength) - np.log(prior.strength + moments.count)).sum(-1)
    return np.asarray(gammas + dof * before - (dof + n) * after + means - 0.5 * n * p * np.log(np.pi))
