"""A Student t seen through Gaussian noise of known covariance, by one-dimensional quadrature."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp, ndtri

from uncover.bayes.covariances import Covariances
from uncover.bayes.linalg import log_det_of_root, slices
from uncover.bayes.small_matrices import cholesky_of_many, solve_triangles_of_many
from uncover.bayes.special import log_gamma_ratio, stirling_correction
from uncover.bayes.student_t import IndependentT, StudentT, log_density

Array = NDArray[np.float64]

NODES = 48
# Where the integrand is wide for its smoothness (few degrees of freedom, two modes) nodes are doubled up to
# this many times.
_MOST_DOUBLINGS = 6
# The integrand is followed down to e⁻²⁴ of its maximum on both sides.
_DEPTH = 24.0
_SCAN = 17
_BISECTIONS = 30
_BLOCK_NUMBERS = 1 << 15
_FAR = 1e140


def log_prob_with_noise(
    density: StudentT | IndependentT, points: ArrayLike, covariances: Covariances, method: str = "exact"
) -> Array:
    """Log density of x = χ + ε with χ from one Student t and ε ~ N(0, Σ_i).

    A Student t is a Gaussian of random precision h, so that

        p(x) = ∫ N(x; m, LLᵀ/h + Σ) · Gamma(h; ν/2, ν/2) dh

    is one integral whatever the number of features. With L⁻¹ΣL⁻ᵀ diagonalised, once for all points where
    the covariances are multiples of one matrix, each node costs O(p). The trapezoid rule in log h has
    nodes placed for each point where the integrand is; Σ may be singular. Right to 10⁻⁸ nat out to ten
    standard deviations.

    The density has no batch axes; an IndependentT uses the variances of the noise only. The method "fast"
    takes the Student t that matches the covariance of x, and the degrees of freedom of χ.

    >>> t = StudentT.from_scale([0.0], [[1.0]], 4.0)
    >>> none = Covariances.read([0.0], n_samples=1, n_features=1)
    >>> bool(np.isclose(log_prob_with_noise(t, [[0.5]], none), t.log_prob([[0.5]]), rtol=0, atol=1e-10).all())
    True
    """
    x = np.asarray(points, np.float64)
    if method == "exact":
        return np.asarray(sum(part.log_prob() for part in through_noise(density, x, covariances)))
    if isinstance(density, IndependentT) or covariances.own is None:
        return np.asarray(sum(part.matched_log_prob() for part in through_noise(density, x, covariances)))
    return _matched_log_prob(density, x, covariances)


def sample_true_value(
    density: StudentT | IndependentT, points: ArrayLike, covariances: Covariances, places: Array
) -> Array:
    """True values χ given each measured point x = χ + ε, at places of the unit cube: (point, n, feature).

    ``places`` (n, d), or (point, n, d) for random numbers of each point's own, has the d of
    :func:`places_needed`. Places that lie evenly (:func:`spread_evenly`) give draws from p(χ | x).

    >>> t = StudentT.from_scale([0.0], [[1.0]], 50.0)
    >>> noise = Covariances.read([1.0], n_samples=1, n_features=1)
    >>> places = spread_evenly(4000, places_needed(t), np.random.default_rng(0))
    >>> drawn = sample_true_value(t, [[2.0]], noise, places)
    >>> bool(abs(drawn.mean() - 1.0) < 0.05)  # half-way between the class and the measurement
    True
    """
    x = np.asarray(points, np.float64)
    parts = through_noise(density, x, covariances)
    own = np.split(places, len(parts), axis=-1)
    drawn = [part.sample_true_value(at) for part, at in zip(parts, own, strict=True)]
    return np.concatenate(drawn, axis=-1)


def places_needed(density: StudentT | IndependentT) -> int:
    """Dimensions of the unit cube behind one true value: its features, and the precision h of each block."""
    p = density.location.shape[-1]
    return p + 1 if isinstance(density, StudentT) else 2 * p


def sample_true_value_of_mixture(
    densities: StudentT | IndependentT,
    points: ArrayLike,
    noises: list[Covariances],
    probability: Array,
    places: Array,
) -> Array:
    """True values χ of measured points from Σ_k P_k p(χ | x, k): (point, n, feature).

    ``densities`` has the components as batch axis, ``noises`` the noise of the points beyond each, and
    ``probability`` (point, component) is P_k. The first dimension of ``places`` chooses the component.
    """
    x, (n, d) = np.asarray(points, np.float64), places.shape[-2:]
    level, cumulated = places[..., 0], probability.cumsum(1)
    level = np.broadcast_to(level, (len(x), n)) * cumulated[:, -1:]
    chosen = np.minimum((cumulated[:, :, None] < level[:, None, :]).sum(1), len(noises) - 1)
    out = np.empty((len(x), n, x.shape[1]))
    for k, noise in enumerate(noises):
        rows = np.flatnonzero((chosen == k).any(1))
        if len(rows) == 0:
            continue
        own = places if places.ndim == 2 else places[rows]
        drawn = sample_true_value(densities[k], x[rows], noise[rows], own[..., 1:d])
        out[rows] = np.where((chosen[rows] == k)[..., None], drawn, out[rows])
    return out


def spread_evenly(n: int, dimensions: int, rng: np.random.Generator) -> Array:
    """Points (n, dimension) of the unit cube that lie more evenly than by chance, from a random start.

    Multiples of powers of 1/g, modulo 1, with g^(d+1) = g + 1: for one dimension the golden ratio. Successive
    points lie evenly too.

    >>> gaps = np.diff(np.sort(spread_evenly(8, 1, np.random.default_rng(0))[:, 0]))
    >>> bool(gaps.max() < 0.25)
    True
    """
    g = 2.0
    for _ in range(60):
        g = (1.0 + g) ** (1.0 / (dimensions + 1))
    steps = g ** -np.arange(1.0, dimensions + 1)
    places = (rng.random(dimensions) + np.arange(n)[:, None] * steps) % 1.0
    return np.asarray(np.clip(places, 1e-12, 1.0 - 1e-12))


def sobol_places(n: int, dimensions: int, rng: np.random.Generator) -> Array:
    """The same by Sobol's sequence, scrambled: even in every pair of many dimensions too.

    Most even where n is a power of 2.

    >>> places = sobol_places(256, 12, np.random.default_rng(0))
    >>> bool(np.abs(np.corrcoef(places.T) - np.eye(12)).max() < 0.05)
    True
    """
    if n == 1:  # which is anywhere
        return np.asarray(np.clip(rng.random((1, dimensions)), 1e-12, 1.0 - 1e-12))
    from scipy.stats.qmc import Sobol  # only where true values are drawn: it takes a while to import

    places = Sobol(dimensions, seed=rng).random_base2(max(n - 1, 0).bit_length())[:n]
    return np.asarray(np.clip(places, 1e-12, 1.0 - 1e-12))


def through_noise(
    density: StudentT | IndependentT, points: Array, covariances: Covariances
) -> "list[SeenThroughNoise]":
    """Independent blocks of features, each a Student t seen through noise."""
    if isinstance(density, StudentT):
        return [SeenThroughNoise.of(density, points, covariances)]
    return [
        SeenThroughNoise.of(density.feature(j), points[:, [j]], covariances.select_features(np.array([j])))
        for j in range(points.shape[-1])
    ]


def _matched_log_prob(density: StudentT, points: Array, covariances: Covariances) -> Array:
    """Log density of the matched Student t with a scale matrix for each point."""
    scale = density.root @ density.root.T
    p, dof, shrink = density.n_features, density.dof, _shrink(density.dof)
    constant = log_gamma_ratio(0.5 * dof, 0.5 * p) - 0.5 * p * np.log(np.pi * dof)
    out = np.empty(len(points))
    rows = max(64, 4 * _BLOCK_NUMBERS // p**2)
    for part in slices(len(points), rows):
        matrices = scale + shrink * covariances[part].matrices()
        root = cholesky_of_many(np.ascontiguousarray(matrices.transpose(1, 2, 0)))
        z = solve_triangles_of_many(root, np.ascontiguousarray((points[part] - density.location).T))
        q = np.einsum("in,in->n", z, z)
        log_det = np.log(np.diagonal(root, axis1=0, axis2=1)).sum(1)
        out[part] = log_density(constant - log_det, dof, p, q)
    return out


def _shrink(dof: Array) -> Array:
    """(ν−2)/ν, which turns a covariance to be added into a scale matrix to be added; 1 for ν ≤ 2."""
    return np.where(dof > 2, (dof - 2) / dof, 1.0)


@dataclass(frozen=True)
class SeenThroughNoise:
    """Points and noise in the coordinates where both the density and the noise are diagonal.

    With LLᵀ the scale matrix and L⁻¹ΣL⁻ᵀ = U diag(m) Uᵀ:  u = UᵀL⁻¹(χ − location).
    """

    density: StudentT
    value: Array  # (point, feature), the measurement in these coordinates
    noise: Array  # (1 or point, feature), variances m ≥ 0
    axes: Array  # (1 or point, feature, feature), U

    @classmethod
    def of(cls, density: StudentT, points: Array, covariances: Covariances) -> "SeenThroughNoise":
        """Turn measured points and their covariances into these coordinates."""
        whitening = density.whitening
        matrices = covariances.matrices() if covariances.base is None else covariances.base[None]
        noise, axes = np.linalg.eigh(whitening @ matrices @ whitening.T)
        if covariances.factor is not None:
            noise = covariances.factor[:, None] * noise
        with np.errstate(over="ignore"):
            z = (points - density.location) @ whitening.T
        z = np.clip(np.nan_to_num(z, nan=_FAR), -_FAR, _FAR)
        value = z @ axes[0] if len(axes) == 1 else np.einsum("ni,nij->nj", z, axes)
        return cls(density, value, np.maximum(noise, 0.0), axes)

    def _matched(self) -> tuple[Array, Array]:
        """Squared distance and log determinant in the Student t that matches the covariance of x."""
        scale = 1.0 + _shrink(self.density.dof) * self.noise
        return (self.value**2 / scale).sum(1), 0.5 * np.log(scale).sum(1)

    def matched_log_prob(self) -> Array:
        """Log density of each point under the matched Student t."""
        p, dof = self.density.n_features, self.density.dof
        q, log_det = self._matched()
        constant = log_gamma_ratio(0.5 * dof, 0.5 * p) - 0.5 * p * np.log(np.pi * dof)
        log_det = log_det + log_det_of_root(self.density.root)
        return log_density(constant - log_det, dof, p, q)

    def log_prob(self) -> Array:
        """Log density of each point."""
        p = self.density.n_features
        constant = -0.5 * p * np.log(2 * np.pi) - log_det_of_root(self.density.root)
        out = np.empty(len(self.value))
        for rows, integrand in self._blocks():
            for index, nodes, width in integrand.nodes():
                out[rows][index] = logsumexp(integrand.rows(index).value(nodes), axis=1) + np.log(width)
        return constant + out

    def sample_true_value(self, places: Array) -> Array:
        """True values χ for each measured point: shape (point, n, feature).

        First a node of log h by its weight, then χ | x, h, which is Gaussian.
        """
        points, n = len(self.value), places.shape[-2]
        u = np.empty((points, n, self.density.n_features))
        levels = np.broadcast_to(places[..., 0], (points, n))
        normal = np.broadcast_to(ndtri(places[..., 1:]), u.shape)
        for rows, integrand in self._blocks():
            h = integrand.sample(levels[rows])[:, :, None]
            m, z = integrand.noise[:, None, :], self.value[rows][:, None, :]
            spread = np.sqrt(m / (1.0 + m * h))
            u[rows] = z / (1.0 + m * h) + spread * normal[rows]
        rotated = u @ np.swapaxes(self.axes, -1, -2)
        return self.density.location + rotated @ self.density.root.T

    def _blocks(self) -> "list[tuple[slice, _Integrand]]":
        rows = max(1, _BLOCK_NUMBERS // self.density.n_features)
        shared = len(self.noise) == 1
        return [
            (b, _Integrand(self.value[b] ** 2, self.noise if shared else self.noise[b], self.density.dof))
            for b in slices(len(self.value), rows)
        ]


@dataclass(frozen=True)
class _Integrand:
    """Log integrand over t = log h, up to the constant of the Gaussian:

    f(t) = log Gamma(h; ν/2, ν/2) + t + ½ Σ_j [t − log(1 + m_j h) − z_j² h/(1 + m_j h)]
    """

    square: Array  # (point, feature), z²
    noise: Array  # (1 or point, feature), m
    dof: Array

    def value(self, t: Array) -> Array:
        """f at t of shape (point, node), or (point,)."""
        out, h = self._log_gamma_constant + 0.5 * self.dof * (t - np.expm1(t)), np.exp(t)
        for m, z2, each, at in self._features(t, h):
            damped = 1.0 + m * at
            out = out + 0.5 * _total(each - np.log(damped) - z2 * at / damped, t)
        return out

    def slope(self, t: Array) -> Array:
        """f′ at t of shape (point, node), or (point,)."""
        out, h = -0.5 * self.dof * np.expm1(t), np.exp(t)
        for m, z2, _, at in self._features(t, h):
            damped = 1.0 + m * at
            out = out + 0.5 * _total((1.0 - z2 * at / damped) / damped, t)
        return out

    def _features(self, t: Array, h: Array) -> Iterator[tuple[Array, Array, Array, Array]]:
        """Noise, squares, t and h feature by feature; all at once for one t of each point."""
        if t.ndim == 1:
            yield self.noise, self.square, t[:, None], h[:, None]
            return
        for j in range(self.square.shape[1]):
            yield self.noise[:, j, None], self.square[:, j, None], t, h

    def rows(self, index: NDArray[np.intp]) -> "_Integrand":
        noise = self.noise if len(self.noise) == 1 else self.noise[index]
        return _Integrand(self.square[index], noise, self.dof)

    def nodes(self) -> Iterator[tuple[NDArray[np.intp], Array, Array]]:
        """Equidistant nodes (point, node) that hold all of the integral, and their spacing (point,).

        Points that need more nodes than others come by themselves, after their index. In log h a Gamma
        density of shape a has the spectrum Γ(a+iω)/Γ(a), which is below 10⁻¹⁰ from ω = 15 + √(46a) on; the
        trapezoid rule errs by the spectrum at ω = 2π/spacing.
        """
        left, right, peak = self._modes()
        a = self._edge(left, peak - _DEPTH, -1.0)
        b = self._edge(right, peak - _DEPTH, +1.0)
        spacing = 2.0 * np.pi / (15.0 + np.sqrt(23.0 * (self.dof + self.square.shape[1])))
        needed = np.log2(((b - a) / spacing + 1.0) / NODES)
        doublings = np.clip(np.ceil(needed), 0, _MOST_DOUBLINGS).astype(int)
        for level in np.unique(doublings):
            mine, n = np.flatnonzero(doublings == level), NODES << level
            rows = max(1, len(a) >> level)
            for index in (mine[i : i + rows] for i in range(0, len(mine), rows)):
                width = (b[index] - a[index]) / (n - 1)
                yield index, a[index, None] + width[:, None] * np.arange(n), width

    def sample(self, levels: Array) -> Array:
        """Values of h among the nodes, at levels of the distribution of each point: as levels, (point, n)."""
        h = np.empty(levels.shape)
        for index, nodes, _ in self.nodes():
            height = self.rows(index).value(nodes)
            weight = np.cumsum(np.exp(height - height.max(1)[:, None]), axis=1)
            row = np.arange(len(index))[:, None]
            # One sorted list of all points: the levels of point i lie between i and i + 1.
            flat = np.searchsorted((weight / weight[:, -1:] + row).ravel(), (levels[index] + row).ravel())
            chosen = flat.reshape(len(index), -1) - row * nodes.shape[1]
            h[index] = np.exp(np.take_along_axis(nodes, np.clip(chosen, 0, nodes.shape[1] - 1), axis=1))
        return h

    def _modes(self) -> tuple[Array, Array, Array]:
        """Leftmost and rightmost mode that matters, and the highest value, for each point.

        Every stationary point lies between −log(1 + Σz²/ν) and log(1 + p/ν), and f′ changes on the
        scale of 1 there: a scan for its sign finds the modes (there can be two), bisection places them.
        """
        n, p = self.square.shape
        low, high = -np.log1p(self.square.sum(1) / self.dof), np.full(n, np.log1p(p / self.dof))
        grid = np.linspace(low, high, _SCAN, axis=1)
        slope = self.slope(grid)
        slope[:, 0], slope[:, -1] = 1.0, -1.0
        row, cell = np.nonzero((slope[:, :-1] > 0) & (slope[:, 1:] <= 0))
        mode = self.rows(row)._bisect(grid[row, cell], grid[row, cell + 1])
        height = self.rows(row).value(mode)
        peak = np.full(n, -np.inf)
        np.maximum.at(peak, row, height)
        matters = height >= peak[row] - _DEPTH
        left, right = np.full(n, np.inf), np.full(n, -np.inf)
        np.minimum.at(left, row[matters], mode[matters])
        np.maximum.at(right, row[matters], mode[matters])
        return left, right, peak

    def _bisect(self, low: Array, high: Array) -> Array:
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            rising = self.slope(middle) > 0
            low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        return 0.5 * (low + high)

    def _edge(self, start: Array, level: Array, direction: float) -> Array:
        """Where f has fallen to a level, on one side of a mode: outward by doubling, back by bisection."""
        step = np.sqrt(2.0 * _DEPTH / (0.5 * self.dof + 0.5 * self.square.shape[1])) * np.ones(len(start))
        for _ in range(60):
            inside = self.value(start + direction * step) > level
            if not inside.any():
                break
            step = np.where(inside, 2.0 * step, step)
        near, far = np.zeros(len(start)), step
        for _ in range(12):
            middle = 0.5 * (near + far)
            inside = self.value(start + direction * middle) > level
            near, far = np.where(inside, middle, near), np.where(inside, far, middle)
        return start + direction * far

    @property
    def _log_gamma_constant(self) -> Array:
        """(ν/2) log(ν/2) − ν/2 − log Γ(ν/2): what is left when t − e^t + 1 carries the rest."""
        half = 0.5 * self.dof
        large = half >= 32
        safe = np.where(large, half, 32.0)
        stirling = 0.5 * np.log(safe / (2 * np.pi)) - stirling_correction(safe)
        return np.where(large, stirling, half * np.log(half) - half - gammaln(half))


def _total(terms: Array, t: Array) -> Array:
    """Sum over the features, where the terms have all of them."""
    return np.asarray(terms.sum(1)) if terms.ndim > t.ndim else terms
