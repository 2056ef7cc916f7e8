"""The normal-inverse-Wishart distribution of a class's mean and covariance: prior, posterior, predictive."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uncover.bayes.linalg import cholesky, invert_triangle, log_det_of_root
from uncover.bayes.moments import Moments
from uncover.bayes.special import log_gamma_ratio
from uncover.bayes.student_t import IndependentT, StudentT

Array = NDArray[np.float64]


# Feature axes of the parameters of a NIW, and of those that subclasses add; others have none.
_FEATURE_AXES = {"mean": 1, "scale": 2, "mean_covariance": 2, "variance_dof": 1, "pair_weight": 2}


class Gaussians(NamedTuple):
    """Drawn Gaussians, with what is needed to evaluate them without an inversion.

    The precision matrix is ``whitening.T @ whitening``.
    """

    mean: Array  # (draw, ..., feature)
    whitening: Array  # (draw, ..., feature, feature)
    log_det: Array  # (draw, ...), log |whitening|

    @property
    def covariance(self) -> Array:
        """Covariance matrices: shape (draw, ..., feature, feature)."""
        root = np.linalg.inv(self.whitening)
        return np.asarray(root @ np.swapaxes(root, -1, -2))

    def log_prob(self, points: Array) -> Array:
        """Log density of each point under each drawn Gaussian: (point, feature) -> (point, draw, ...)."""
        p = points.shape[-1]
        q = self.squared_distances(points).reshape(len(points), *self.mean.shape[:-1])
        return np.asarray(self.log_det - 0.5 * p * np.log(2 * np.pi) - 0.5 * q)

    def squared_distances(self, points: Array) -> Array:
        """Squared Mahalanobis distance of each point to each Gaussian: (point, Gaussian)."""
        mean, whitening = self.stacked
        q = np.empty((len(points), len(mean)))
        for j in range(len(mean)):
            z = (points - mean[j]) @ whitening[j].T
            q[:, j] = np.einsum("ij,ij->i", z, z)
        return q

    @property
    def stacked(self) -> tuple[Array, Array]:
        """Means (Gaussian, feature) and whitening matrices (Gaussian, feature, feature)."""
        p = self.mean.shape[-1]
        whitening = np.broadcast_to(self.whitening, (*self.mean.shape, p))
        return self.mean.reshape(-1, p), whitening.reshape(-1, p, p)

    def triangular(self) -> Self:
        """The same Gaussians with lower triangles as whitening matrices: W = QL, and |Lz| = |Wz|."""
        upper = np.asarray(np.linalg.qr(self.whitening[..., ::-1], mode="r"))
        return self._replace(whitening=upper[..., ::-1, ::-1])


@dataclass(frozen=True)
class NIW:
    """Normal-inverse-Wishart: Σ ~ IW(Ψ, ν), μ | Σ ~ N(μ₀, Σ/λ), batched over leading axes.

    The parameters broadcast against each other. Where a scale and its degrees of freedom stand for
    several means (shape (1, ...) against (K, ...)), these share one covariance Σ. See Gelman et al. (2013),
    Bayesian Data Analysis, section 3.6; Murphy (2012), Machine Learning: a Probabilistic Perspective, 4.6.3.

    Parameters
    ----------
    mean : array of shape (..., feature)
        μ₀, the expected mean.
    strength : array of shape (...)
        λ ≥ 0, how many observations the mean is worth; 0 leaves it free.
    scale : array of shape (..., feature, feature)
        Ψ, symmetric and positive definite; the expected covariance is Ψ/(ν−p−1).
    dof : array of shape (...)
        ν > p − 1, the degrees of freedom of the covariance.

    Examples
    --------
    >>> prior = NIW(mean=[0.0], strength=1.0, scale=[[1.0]], dof=3.0)
    >>> posterior = prior.update(Moments.of([[1.0], [2.0], [3.0]]))
    >>> posterior.mean, float(posterior.dof), posterior.scale
    (array([1.5]), 6.0, array([[6.]]))
    """

    mean: Array  # (..., feature)
    strength: Array  # (...)
    scale: Array  # (..., feature, feature)
    dof: Array  # (...)

    def __post_init__(self) -> None:
        for name in self.parameters():
            value = np.array(getattr(self, name), dtype=np.float64)
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        self._check()

    @classmethod
    def parameters(cls) -> dict[str, int]:
        """Names of the parameters in order, with the number of their feature axes."""
        return {each.name: _FEATURE_AXES.get(each.name, 0) for each in fields(cls)}

    def _check(self) -> None:
        if self.mean.ndim < 1 or self.scale.ndim < 2 or self.scale.shape[-2:] != (self.n_features,) * 2:
            raise ValueError(
                f"NIW needs a mean of shape (..., p) and a scale of shape (..., p, p); "
                f"got {self.mean.shape} and {self.scale.shape}."
            )
        p = self.n_features
        _ = self.batch_shape  # raises where the shapes do not broadcast
        for name in self.parameters():
            if not np.all(np.isfinite(getattr(self, name))):
                raise ValueError(f"NIW {name} has NaN or infinity; every parameter must be finite.")
        if np.any(self.strength < 0):
            raise ValueError(f"NIW strength must be at least 0, got {self.strength.min():.6g}.")
        if np.any(self.dof <= p - 1):
            raise ValueError(
                f"NIW needs dof > {p - 1} for {p} features, got {self.dof.min():.6g}. "
                f'Raise dof or use prior="weak".'
            )
        spread = np.sqrt(np.abs(np.diagonal(self.scale, axis1=-2, axis2=-1)))
        tolerance = 1e-8 * spread[..., :, None] * spread[..., None, :]
        if np.any(np.abs(self.scale - np.swapaxes(self.scale, -1, -2)) > tolerance):
            raise ValueError("NIW scale is not symmetric; use (scale + scale.T) / 2 if it is meant to be.")
        _ = self.root  # raises where the scale is not positive definite

    @property
    def n_features(self) -> int:
        """Number of features, p."""
        return int(self.mean.shape[-1])

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch of distributions."""
        shapes = (self.mean.shape[:-1], self.strength.shape, self.scale.shape[:-2], self.dof.shape)
        try:
            return np.broadcast_shapes(*shapes)
        except ValueError:
            raise ValueError(f"NIW parameters have batch shapes that do not fit: {shapes}.") from None

    def __getitem__(self, index: Any) -> Self:
        """Select from the batch axes, with the parameters broadcast against each other."""
        batch, p = self.batch_shape, self.n_features

        def pick(value: Array, trailing: int) -> Array:
            return np.asarray(np.broadcast_to(value, (*batch, *(p,) * trailing))[index])

        return self._map(pick)

    def take(self, members: ArrayLike, axis: int = -1) -> Self:
        """Select members along one batch axis, keeping a covariance that they share shared."""
        depth = len(self.batch_shape)

        def pick(value: Array, trailing: int) -> Array:
            if value.ndim - trailing < depth or value.shape[axis % depth] == 1:
                return value
            return np.take(value, np.asarray(members), axis=axis % depth)

        return self._map(pick)

    def select_features(self, keep: ArrayLike) -> Self:
        """Marginal distribution of some of the features, by index or mask; ν falls by the number dropped."""
        index = np.asarray(keep)
        index = np.flatnonzero(index) if index.dtype == bool else index

        def pick(value: Array, trailing: int) -> Array:
            for axis in range(trailing):
                value = np.take(value, index, axis=-1 - axis)
            return value

        chosen = {name: pick(getattr(self, name), axes) for name, axes in self.parameters().items()}
        chosen["dof"] = chosen["dof"] - (self.n_features - len(index))
        return type(self)(**chosen)

    def member(self, index: int) -> Self:
        """One member along the leading batch axis, which all parameters have."""
        return self._map(lambda value, _: value[index])

    def mean_over_leading_axis(self) -> Self:
        """Average of the parameters along the leading batch axis: one world in place of many."""
        return self._map(lambda value, _: value.mean(0))

    def _map(self, function: Callable[[Array, int], Array]) -> Self:
        """Apply a function to each parameter and the number of its feature axes."""
        return type(self)(
            *(function(getattr(self, name), trailing) for name, trailing in self.parameters().items())
        )

    @cached_property
    def root(self) -> Array:
        """Lower Cholesky factor of Ψ."""
        return cholesky(self.scale, "the NIW scale matrix")

    def update(self, moments: Moments) -> Self:
        """Posterior after observing samples with these moments (Murphy 2012, eq. 4.209–4.213).

        λ_N = λ+N,  ν_N = ν+N,  μ_N = (λμ₀+Nx̄)/λ_N,  Ψ_N = Ψ + S + (λN/λ_N)(x̄−μ₀)(x̄−μ₀)ᵀ
        """
        mean, strength, scatter = self._absorb(moments)
        return type(self)(mean, strength, self.scale + scatter, self.dof + moments.count)

    def update_tied(self, moments: Moments) -> Self:
        """Posterior where the last batch axis of the moments are classes that share one covariance.

        As :meth:`update` for the means; Ψ_N and ν_N collect the scatter and the counts of all classes.
        """
        mean, strength, scatter = self._absorb(moments)
        scale = self.scale + scatter.sum(-3, keepdims=True)
        return type(self)(mean, strength, scale, self.dof + moments.count.sum(-1, keepdims=True))

    def _absorb(self, moments: Moments) -> tuple[Array, Array, Array]:
        """μ_N, λ_N, and what is added to Ψ."""
        strength = self.strength + moments.count
        share = moments.count / np.where(strength > 0, strength, 1.0)
        delta = (moments.mean - self.mean) + moments.residual
        mean = self.mean + share[..., None] * delta
        outer = delta[..., :, None] * delta[..., None, :]
        return mean, strength, moments.scatter + (self.strength * share)[..., None, None] * outer

    def log_evidence(self, moments: Moments) -> Array:
        """Log marginal likelihood of samples with these moments, log p(D) (Murphy 2012, eq. 4.214)."""
        if np.any(self.strength <= 0):
            raise ValueError(
                "the evidence does not exist for strength 0: a flat prior of the mean is not a "
                "distribution. Use a NIW prior with strength > 0."
            )
        p, n = self.n_features, moments.count
        posterior = self.update(moments)
        halves = 0.5 * (self.dof[..., None] - np.arange(p))
        log_gammas = log_gamma_ratio(halves, 0.5 * n[..., None]).sum(-1)
        log_dets = self.dof * log_det_of_root(self.root) - posterior.dof * log_det_of_root(posterior.root)
        log_strengths = 0.5 * p * (np.log(self.strength) - np.log(posterior.strength))
        return np.asarray(log_gammas + log_dets + log_strengths - 0.5 * n * p * np.log(np.pi))

    def predictive(self) -> StudentT:
        """Predictive of a new observation: Student t with ν−p+1 degrees of freedom (Murphy 2012, §4.6.3.4).

        T(x | μ, (λ+1)/(λ(ν−p+1)) · Ψ, ν−p+1)
        """
        return self._marginal(1.0 + self._inverse_strength("predictive distribution"))

    def mean_marginal(self) -> StudentT:
        """Marginal distribution of μ: T(μ₀, Ψ/(λ(ν−p+1)), ν−p+1) (Murphy 2012, §4.6.3.3)."""
        return self._marginal(self._inverse_strength("marginal distribution of the mean"))

    def _marginal(self, factor: Array) -> StudentT:
        dof = self.dof - self.n_features + 1
        stretch = np.sqrt(factor / dof)
        return StudentT(self.mean, stretch[..., None, None] * self.root, np.broadcast_to(dof, stretch.shape))

    def _inverse_strength(self, what: str) -> Array:
        if np.any(self.strength <= 0):
            raise ValueError(
                f"a NIW of strength 0 has no {what}: its mean is free. Update it with samples first, "
                "or give strength > 0."
            )
        return np.asarray(1.0 / self.strength)

    def variance_marginal(self) -> tuple[Array, Array]:
        """Degrees of freedom and scales of the variances, Σ_jj ~ scale_j / χ²(dof_j): (..., feature) each."""
        scale = np.diagonal(self.scale, axis1=-2, axis2=-1)
        dof = np.broadcast_to((self.dof - self.n_features + 1)[..., None], scale.shape)
        return dof, scale

    @property
    def expected_covariance(self) -> Array:
        """E[Σ] = Ψ/(ν−p−1); NaN where ν ≤ p+1, where it does not exist."""
        divisor = self.dof - self.n_features - 1
        return self.scale / np.where(divisor > 0, divisor, np.nan)[..., None, None]

    def exchange_noise(self, covariance: Array, present: float, wanted: float) -> Self:
        """Return the class as it looks under another amount of measurement noise.

        The observations behind this distribution carried noise of covariance ``present · Σ_x``; the
        result describes observations that carry ``wanted · Σ_x``. Ψ changes by
        (ν−p−1)(wanted − present)Σ_x. In no direction may removing the noise leave less than 1/ν of
        the spread (one observation's worth): an estimate of the noise can exceed the spread by chance.
        """
        whitening = invert_triangle(self.root)
        noise, axes = np.linalg.eigh(whitening @ covariance @ np.swapaxes(whitening, -1, -2))
        weight = np.maximum(self.dof - self.n_features - 1, 0.0)[..., None] * np.maximum(noise, 0.0)
        left = np.maximum(1.0 - present * weight, 1.0 / self.dof[..., None]) + wanted * weight
        root = self.root @ (axes * np.sqrt(left)[..., None, :])
        return type(self)(self.mean, self.strength, root @ np.swapaxes(root, -1, -2), self.dof)

    def draw(self, n: int, rng: np.random.Generator) -> Gaussians:
        """Draw n Gaussians (μ, Σ) by Bartlett's decomposition, without inverting a matrix.

        With Ψ = LLᵀ and AAᵀ ~ Wishart(I, ν): Σ⁻¹ = (AᵀL⁻¹)ᵀ(AᵀL⁻¹).
        """
        p = self.n_features
        shared = np.broadcast_shapes(self.scale.shape[:-2], self.dof.shape)
        a = np.zeros((n, *shared, p, p))
        rows, columns = np.tril_indices(p, -1)
        a[..., rows, columns] = rng.standard_normal((n, *shared, len(rows)))
        freedom = np.broadcast_to(self.dof, shared)[..., None] - np.arange(p)
        chi = np.sqrt(rng.chisquare(freedom, (n, *shared, p)))
        a[..., np.arange(p), np.arange(p)] = chi
        whitening = np.swapaxes(a, -1, -2) @ invert_triangle(self.root)
        normal = rng.standard_normal((n, *self.batch_shape, p, 1))
        # Aᵀ L⁻¹ (μ − μ₀) √λ = z, solved from the right end: both factors are triangular.
        deviation = self.root @ np.linalg.solve(np.swapaxes(a, -1, -2), normal)
        stretch = np.sqrt(self._inverse_strength("distribution to draw from"))
        mean = self.mean + stretch[..., None] * deviation[..., 0]
        log_det = np.log(chi).sum(-1) - log_det_of_root(self.root)
        return Gaussians(mean, whitening, np.broadcast_to(log_det, mean.shape[:-1]))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draw n pairs (μ, Σ): shapes (n, *batch, feature) and (n, *batch, feature, feature)."""
        drawn = self.draw(n, rng)
        shape = (*drawn.mean.shape, self.n_features)
        return drawn.mean, np.broadcast_to(drawn.covariance, shape)


@dataclass(frozen=True)
class DiagonalNIW(NIW):
    """Features that are independent: each has the marginal of a NIW with diagonal Ψ.

    σ_j² ~ IG((ν−p+1)/2, Ψ_jj/2), μ_j | σ_j² ~ N(μ₀_j, σ_j²/λ)

    A NIW given as prior counts by its diagonal only.

    >>> prior = DiagonalNIW([0.0, 0.0], 1.0, [[1.0, 0.5], [0.5, 1.0]], 4.0)
    >>> prior.scale
    array([[1., 0.],
           [0., 1.]])
    """

    def __post_init__(self) -> None:
        scale = np.asarray(self.scale, np.float64)
        object.__setattr__(self, "scale", scale * np.eye(scale.shape[-1]))
        super().__post_init__()

    def predictive(self) -> IndependentT:  # type: ignore[override]
        """Predictive of a new observation: a product of univariate Student t."""
        return self._product(1.0 + self._inverse_strength("predictive distribution"))

    def mean_marginal(self) -> IndependentT:  # type: ignore[override]
        """Marginal distribution of μ: a product of univariate Student t."""
        return self._product(self._inverse_strength("marginal distribution of the mean"))

    def _product(self, factor: Array) -> IndependentT:
        dof = np.broadcast_to((self.dof - self.n_features + 1)[..., None], self.mean.shape)
        scale = np.sqrt(factor[..., None] / dof) * np.diagonal(self.root, axis1=-2, axis2=-1)
        return IndependentT(self.mean, scale, dof)

    def exchange_noise(self, covariance: Array, present: float, wanted: float) -> Self:
        """As for a NIW; noise that is correlated between features counts by its variances."""
        return super().exchange_noise(covariance * np.eye(self.n_features), present, wanted)

    def log_evidence(self, moments: Moments) -> Array:
        """Log marginal likelihood: the sum over the features' own."""
        features = (
            NIW(
                self.mean[..., [j]],
                self.strength,
                self.scale[..., [j], :][..., [j]],
                self.dof - self.n_features + 1,
            ).log_evidence(moments.select_features(np.array([j])))
            for j in range(self.n_features)
        )
        return np.asarray(sum(features))

    def draw(self, n: int, rng: np.random.Generator) -> Gaussians:
        """Draw n Gaussians with diagonal covariance."""
        p, batch = self.n_features, self.batch_shape
        freedom = np.broadcast_to(self.dof - p + 1, batch)[..., None]
        chi = np.sqrt(rng.chisquare(freedom, (n, *batch, p)))
        inverse_deviation = chi / np.diagonal(self.root, axis1=-2, axis2=-1)
        stretch = np.sqrt(self._inverse_strength("distribution to draw from"))[..., None]
        mean = self.mean + stretch * rng.standard_normal((n, *batch, p)) / inverse_deviation
        whitening = inverse_deviation[..., None] * np.eye(p)
        return Gaussians(mean, whitening, np.log(inverse_deviation).sum(-1))
