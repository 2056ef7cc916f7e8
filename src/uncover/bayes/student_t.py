"""The multivariate Student t: density, typicality, sampling, and its sum with Gaussian noise."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincc, chdtrc

from uncover.bayes.linalg import cholesky, invert_triangle, log_det_of_root
from uncover.bayes.special import log_gamma_ratio

Array = NDArray[np.float64]

_FAR = 1e300


@dataclass(frozen=True)
class StudentT:
    """Multivariate Student t, batched over leading axes.

    T(x | m, LLᵀ, ν) ∝ |LLᵀ|^(−1/2) · (1 + q/ν)^(−(ν+p)/2),  q = |L⁻¹(x − m)|²

    Methods that take points compare *each* point with *each* member of the batch: points of shape
    (..., feature) give an array of shape (..., *batch). The covariance is ν/(ν−2) times the scale matrix LLᵀ
    (Kotz and Nadarajah 2004, Multivariate t Distributions and Their Applications, section 1.1).

    >>> t = StudentT.from_scale(location=[0.0, 0.0], scale=[[2.0, 0.0], [0.0, 1.0]], dof=5.0)
    >>> t.log_prob([[0.0, 0.0], [1.0, -1.0]]).round(4)
    array([-2.1845, -3.1027])
    """

    location: Array  #: (..., feature)
    root: Array  #: (..., feature, feature), lower Cholesky factor L of the scale matrix
    dof: Array  #: (...), degrees of freedom ν > 0

    @classmethod
    def from_scale(cls, location: ArrayLike, scale: ArrayLike, dof: ArrayLike) -> Self:
        """Make one from the scale matrix LLᵀ instead of its root."""
        root = cholesky(np.asarray(scale, np.float64), "the scale matrix of a Student t")
        return cls(np.asarray(location, np.float64), root, np.asarray(dof, np.float64))

    @property
    def n_features(self) -> int:
        """Number of features, p."""
        return int(self.location.shape[-1])

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch of distributions."""
        return np.broadcast_shapes(self.location.shape[:-1], self.root.shape[:-2], self.dof.shape)

    def __getitem__(self, index: Any) -> Self:
        """Select from the batch axes."""
        location, root, dof = self._broadcast()
        return type(self)(location[index], root[index], dof[index])

    def widened(self, factor: float) -> Self:
        """The same with all deviations from the location times a factor."""
        return type(self)(self.location, factor * self.root, self.dof)

    def log_prob(self, points: ArrayLike) -> Array:
        """Log density of each point under each member of the batch: shape (..., *batch)."""
        return log_density(self._log_constant, self.dof, self.n_features, self.squared_distance(points))

    def squared_distance(self, points: ArrayLike) -> Array:
        """q = |L⁻¹(x − m)|² of each point and member of the batch: shape (..., *batch)."""
        x = np.asarray(points, np.float64)
        members = list(self._members())
        out = np.empty((*x.shape[:-1], len(members)))
        with np.errstate(over="ignore", invalid="ignore"):
            for i, (location, whitening) in enumerate(members):
                z = (x - location) @ whitening.T
                out[..., i] = np.einsum("...j,...j->...", z, z)
        return kept_finite(out).reshape(x.shape[:-1] + self.batch_shape)

    def typicality(self, points: ArrayLike) -> Array:
        """p-value of each point: the probability that a draw is at least as far out.

        Exactly, q/p ~ F(p, ν). Uniform on [0, 1] for draws from this distribution.
        """
        return self.tail(self.squared_distance(points), self.dof)

    def tail(self, square: Array, dof: Array) -> Array:
        """P(p·F > square) for F ~ F(p, dof): the p-value of a squared distance."""
        return f_tail(square, self.n_features, dof)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n points from each member of the batch: shape (n, *batch, feature)."""
        shape = (n, *self.batch_shape)
        normal = rng.standard_normal((*shape, self.n_features))
        chi2 = rng.chisquare(np.broadcast_to(self.dof, self.batch_shape), shape)
        stretch = np.sqrt(self.dof / chi2)[..., None]
        return self.location + stretch * np.einsum("...ij,...j->...i", self.root, normal)

    @cached_property
    def _log_constant(self) -> Array:
        dof, p = self.dof, self.n_features
        log_gammas = log_gamma_ratio(0.5 * dof, 0.5 * p)
        return np.asarray(log_gammas - 0.5 * p * np.log(np.pi * dof) - log_det_of_root(self.root))

    @cached_property
    def whitening(self) -> Array:
        """L⁻¹, which turns x − m into uncorrelated numbers of unit scale."""
        return invert_triangle(self.root)

    def _members(self) -> Iterator[tuple[Array, Array]]:
        """Location and whitening of every member of the batch."""
        batch, p = self.batch_shape, self.n_features
        location = np.broadcast_to(self.location, (*batch, p)).reshape(-1, p)
        whitening = np.broadcast_to(self.whitening, (*batch, p, p)).reshape(-1, p, p)
        return zip(location, whitening, strict=True)

    def _broadcast(self) -> tuple[Array, Array, Array]:
        batch, p = self.batch_shape, self.n_features
        return (
            np.broadcast_to(self.location, (*batch, p)),
            np.broadcast_to(self.root, (*batch, p, p)),
            np.broadcast_to(self.dof, batch),
        )


@dataclass(frozen=True)
class IndependentT:
    """A product of univariate Student t, one for each feature, batched over leading axes.

    p(x) = Π_j T(x_j | m_j, s_j², ν_j)

    Has the same methods as :class:`StudentT`, for class models whose features are independent.

    >>> t = IndependentT(np.zeros(2), np.ones(2), np.ones(2))
    >>> t.log_prob([[0.0, 0.0]]).round(4)  # two Cauchy densities: 2 · log(1/π)
    array([-2.2895])
    """

    location: Array  #: (..., feature)
    scale: Array  #: (..., feature), standard scale s_j > 0 of each feature
    dof: Array  #: (..., feature)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch of distributions."""
        return np.broadcast_shapes(self.location.shape, self.scale.shape, self.dof.shape)[:-1]

    def __getitem__(self, index: Any) -> Self:
        """Select from the batch axes."""
        return type(self)(self.location[index], self.scale[index], self.dof[index])

    def widened(self, factor: float) -> Self:
        """The same with all deviations from the location times a factor."""
        return type(self)(self.location, factor * self.scale, self.dof)

    def log_prob(self, points: ArrayLike) -> Array:
        """Log density of each point under each member of the batch: shape (..., *batch)."""
        dof = self.dof
        constant = log_gamma_ratio(0.5 * dof, 0.5) - 0.5 * np.log(np.pi * dof) - np.log(self.scale)
        return constant.sum(-1) + log_density(0.0, dof, 1, self.squared_deviations(points)).sum(-1)

    def typicality(self, points: ArrayLike) -> Array:
        """p-value of each point, by Fisher's combination of the features' own.

        Under this distribution the two-sided p-values u_j of the features are independent and uniform, so
        −2 Σ log u_j ~ χ²(2p) exactly.
        """
        u = f_tail(self.squared_deviations(points), 1, self.dof)
        with np.errstate(divide="ignore"):
            statistic = -2.0 * np.log(u).sum(-1)
        return np.asarray(chdtrc(2 * self.location.shape[-1], statistic))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n points from each member of the batch: shape (n, *batch, feature)."""
        shape = (n, *self.batch_shape, self.location.shape[-1])
        return np.asarray(self.location + self.scale * rng.standard_t(self.dof, shape))

    def feature(self, j: int) -> StudentT:
        """The Student t of one feature; of one member of a batch."""
        dof = np.broadcast_to(self.dof, self.location.shape)
        return StudentT(self.location[[j]], self.scale[[j]][:, None], dof[j])

    def squared_deviations(self, points: ArrayLike) -> Array:
        """((x_j − m_j) / s_j)²: shape (..., *batch, feature)."""
        x = np.asarray(points, np.float64)
        x = x.reshape(x.shape[:-1] + (1,) * len(self.batch_shape) + x.shape[-1:])
        with np.errstate(over="ignore"):
            return kept_finite(((x - self.location) / self.scale) ** 2)


def log_density(constant: Array | float, dof: Array, p: int, q: Array) -> Array:
    """Log density of a Student t of p features at squared distances q, from the constant of its density."""
    return np.asarray(constant - 0.5 * (dof + p) * np.log1p(q / dof))


def f_tail(square: Array, p: Array | int, dof: Array) -> Array:
    """P(p·F > square) for F ~ F(p, dof).

    dof/(dof+square) is 1 but for rounding where dof is large: there the complement, which takes ten times
    as long, keeps the digits.
    """
    square, dof, half = np.broadcast_arrays(square, dof, 0.5 * np.asarray(p))
    plain = (dof < 1e4) | (square > dof)
    out = np.empty(square.shape)
    q, v = square[plain], dof[plain]
    out[plain] = betainc(0.5 * v, half[plain], v / (v + q))
    q, v = square[~plain], dof[~plain]
    out[~plain] = betaincc(half[~plain], 0.5 * v, q / (v + q))
    return out


def kept_finite(square: Array) -> Array:
    """Squares that left the range of floats, kept finite: so far out, only their being far counts."""
    return np.nan_to_num(square, copy=False, nan=_FAR, posinf=_FAR)
