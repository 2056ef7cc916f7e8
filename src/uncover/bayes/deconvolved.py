"""Posteriors of classes that were learned through noise, or through gaps: counts that differ by direction."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uncover.bayes.linalg import cholesky
from uncover.bayes.niw import NIW, Gaussians
from uncover.bayes.student_t import IndependentT, StudentT

Array = NDArray[np.float64]


@dataclass(frozen=True)
class UnevenNIW(NIW):
    """A NIW of which more is known in some directions than in others.

    The mean has a covariance of its own, where a plain NIW has Σ/λ, and each variance its own degrees of
    freedom ``variance_dof``, where a plain NIW has ν−p+1. ``strength`` and ``dof`` are averages.
    """

    mean_covariance: Array  #: (..., feature, feature), posterior covariance of μ

    def predictive(self) -> StudentT:
        """Predictive of a new true value: Student t whose covariance is E[Σ] + Cov[μ]."""
        _ = self._inverse_strength("predictive distribution")
        return self._with_covariance(self.expected_covariance + self.mean_covariance)

    def mean_marginal(self) -> StudentT:
        """Marginal distribution of μ: Student t with the mean's own covariance."""
        _ = self._inverse_strength("marginal distribution of the mean")
        return self._with_covariance(self.mean_covariance)

    def variance_marginal(self) -> tuple[Array, Array]:
        """Marginal distribution of the variances: Σ_jj ~ scale_j / χ²(dof_j), each with its own count."""
        dof: Array = self.variance_dof  # type: ignore[attr-defined]  # which subclasses have
        variance = np.diagonal(self.expected_covariance, axis1=-2, axis2=-1)
        return dof, (dof - 2) * variance

    def exchange_noise(self, covariance: Array, present: float, wanted: float) -> Self:
        """Not defined: this distribution describes true values, or has no noise of realisations."""
        raise TypeError("a class model that was learned through noise or gaps has no noise left to exchange.")

    def _with_covariance(self, covariance: Array) -> StudentT:
        dof = self.dof - self.n_features + 1
        scale = ((dof - 2) / dof)[..., None, None] * covariance
        root = cholesky(scale, "the covariance of the mean")
        return StudentT(self.mean, root, np.broadcast_to(dof, self.batch_shape))

    def draw(self, n: int, rng: np.random.Generator) -> Gaussians:
        """Draw n Gaussians: Σ as from a NIW of the average dof, μ with its own covariance."""
        drawn = super().draw(n, rng)
        root = cholesky(self.mean_covariance, "the covariance of the mean")
        normal = rng.standard_normal((*drawn.mean.shape, 1))
        return drawn._replace(mean=self.mean + (root @ normal)[..., 0])


class UnevenDiagonal(UnevenNIW):
    """The same for features that are independent: what is drawn and predicted, feature by feature."""

    variance_dof: Array

    def predictive(self) -> IndependentT:  # type: ignore[override]
        """Predictive of a new true value: a product of univariate Student t."""
        return self._product(self.expected_covariance + self.mean_covariance)

    def mean_marginal(self) -> IndependentT:  # type: ignore[override]
        """Marginal distribution of μ: a product of univariate Student t."""
        return self._product(self.mean_covariance)

    def _product(self, covariance: Array) -> IndependentT:
        variance = np.diagonal(covariance, axis1=-2, axis2=-1)
        dof = self.variance_dof
        return IndependentT(self.mean, np.sqrt((dof - 2) / dof * variance), dof)

    def draw(self, n: int, rng: np.random.Generator) -> Gaussians:
        """Draw n Gaussians with diagonal covariance."""
        p, batch = self.n_features, self.batch_shape
        dof, scale = self.variance_marginal()
        inverse_deviation = np.sqrt(rng.chisquare(dof, (n, *batch, p)) / scale)
        spread = np.sqrt(np.diagonal(self.mean_covariance, axis1=-2, axis2=-1))
        mean = self.mean + spread * rng.standard_normal((n, *batch, p))
        whitening = inverse_deviation[..., None] * np.eye(p)
        return Gaussians(mean, whitening, np.log(inverse_deviation).sum(-1))


@dataclass(frozen=True)
class DeconvolvedNIW(UnevenNIW):
    """A NIW learned through noise: its expected covariance is that of the true values."""

    variance_dof: Array  #: (..., feature), degrees of freedom of each variance Σ_jj
    converged: Array  #: (...), 1 where the iteration that found it came to rest


@dataclass(frozen=True)
class DeconvolvedDiagonal(UnevenDiagonal, DeconvolvedNIW):
    """As :class:`DeconvolvedNIW`, for features that are independent."""


@dataclass(frozen=True)
class GappyNIW(UnevenNIW):
    """A NIW learned from samples that lack features.

    With w_jl = ν₀−p−1+n_jl, n_jl being the samples that show both j and l, a pair of features is known as
    well as a NIW with ν−p−1 = w_jl knows it. For some of the features together 1/(ν−p−1) is the mean of
    1/w_jl over their pairs, which are known no better than that on average; ``dof`` is that of all features,
    and :meth:`select_features` finds that of some.
    """

    pair_weight: Array  #: (..., feature, feature), w

    @classmethod
    def of(cls, mean: Array, covariance: Array, mean_covariance: Array, pair_weight: Array) -> Self:
        """From E[Σ], the covariance of the mean, and the weights of pairs of features."""
        p = mean.shape[-1]
        weight = 1.0 / cls._average(1.0 / pair_weight)
        worth = np.linalg.solve(mean_covariance, np.broadcast_to(covariance, mean_covariance.shape))
        strength = np.trace(worth, axis1=-2, axis2=-1) / p
        scale = weight[..., None, None] * covariance
        return cls(mean, strength, scale, weight + p + 1.0, mean_covariance, pair_weight)

    @classmethod
    def _average(cls, of_pairs: Array) -> Array:
        """Mean over pairs of features, of which those of a feature with itself count as others."""
        return np.asarray(of_pairs.mean((-2, -1)))

    @property
    def variance_dof(self) -> Array:
        """Degrees of freedom of each variance: (..., feature)."""
        return np.asarray(np.diagonal(self.pair_weight, axis1=-2, axis2=-1) + 2.0)

    def select_features(self, keep: ArrayLike) -> Self:
        """Marginal distribution of some of the features, with the counts of their pairs."""
        plain = super().select_features(keep)
        expected = self.expected_covariance
        index = np.asarray(keep)
        index = np.flatnonzero(index) if index.dtype == bool else index
        covariance = expected[..., index, :][..., index]
        return type(self).of(plain.mean, covariance, plain.mean_covariance, plain.pair_weight)

    def exchanged(self, covariance: Array, more: Array) -> Self:
        """The same with another E[Σ], by a prior of ``more`` degrees of freedom."""
        weight = self.pair_weight + more[..., None, None]
        return type(self).of(self.mean, covariance, self.mean_covariance, weight)


@dataclass(frozen=True)
class GappyDiagonal(UnevenDiagonal, GappyNIW):
    """As :class:`GappyNIW`, for features that are independent: no pair but that of a feature with itself."""

    @classmethod
    def _average(cls, of_pairs: Array) -> Array:
        return np.asarray(np.diagonal(of_pairs, axis1=-2, axis2=-1).mean(-1))
