"""The posterior of a class that was learned through noise: counts that differ between directions."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.linalg import cholesky
from uncover.bayes.niw import NIW, Gaussians
from uncover.bayes.student_t import IndependentT, StudentT

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DeconvolvedNIW(NIW):
    """A NIW learned through noise: how much is known differs between directions.

    The expected covariance is that of the true values. The mean has a covariance of its own, where a
    plain NIW has Σ/λ, and each variance its own degrees of freedom, where a plain NIW has ν−p+1.
    ``strength`` and ``dof`` are averages over the directions.
    """

    mean_covariance: Array  #: (..., feature, feature), posterior covariance of μ
    variance_dof: Array  #: (..., feature), degrees of freedom of each variance Σ_jj
    converged: Array  #: (...), 1 where the iteration that found it came to rest

    @classmethod
    def parameters(cls) -> dict[str, int]:
        """Names of the parameters in order, with the number of their feature axes."""
        return {**super().parameters(), "mean_covariance": 2, "variance_dof": 1, "converged": 0}

    def predictive(self) -> StudentT:
        """Predictive of a new true value: Student t whose covariance is E[Σ] + Cov[μ]."""
        _ = self._inverse_strength("predictive distribution")
        return self._with_covariance(self.expected_covariance + self.mean_covariance)

    def mean_marginal(self) -> StudentT:
        """Marginal distribution of μ: Student t with the mean's own covariance."""
        _ = self._inverse_strength("marginal distribution of the mean")
        return self._with_covariance(self.mean_covariance)

    def _with_covariance(self, covariance: Array) -> StudentT:
        dof = self.dof - self.n_features + 1
        scale = ((dof - 2) / dof)[..., None, None] * covariance
        root = cholesky(scale, "the covariance of the mean")
        return StudentT(self.mean, root, np.broadcast_to(dof, self.batch_shape))

    def variance_marginal(self) -> tuple[Array, Array]:
        """Marginal distribution of the variances: Σ_jj ~ scale_j / χ²(dof_j), each with its own count."""
        variance = np.diagonal(self.expected_covariance, axis1=-2, axis2=-1)
        return self.variance_dof, (self.variance_dof - 2) * variance

    def exchange_noise(self, covariance: Array, present: float, wanted: float) -> Self:
        """Not defined: this distribution describes true values already."""
        raise TypeError("a class model that was learned through noise has no noise left to exchange.")

    def draw(self, n: int, rng: np.random.Generator) -> Gaussians:
        """Draw n Gaussians: Σ as from a NIW of the average dof, μ with its own covariance."""
        drawn = super().draw(n, rng)
        root = cholesky(self.mean_covariance, "the covariance of the mean")
        normal = rng.standard_normal((*drawn.mean.shape, 1))
        return drawn._replace(mean=self.mean + (root @ normal)[..., 0])


@dataclass(frozen=True)
class DeconvolvedDiagonal(DeconvolvedNIW):
    """As :class:`DeconvolvedNIW`, for features that are independent."""

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
