"""Class models of true values from measurements with known noise: the noise is taken out of the spread."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.covariances import Covariances
from uncover.bayes.deconvolved import DeconvolvedNIW
from uncover.bayes.linalg import cholesky, invert_triangle, log_det_of_root, slices
from uncover.bayes.niw import NIW
from uncover.bayes.small_matrices import cholesky_of_many, invert_triangles_of_many

Array = NDArray[np.float64]

TOLERANCE = 1e-8
MAX_ITERATIONS = 2000
# Above this number of features the effective counts of the variances are worked out along the axes of the
# mean information only: the full one is a matrix of p⁴/4 numbers.
FULL_INFORMATION_UP_TO = 30
_BLOCK_NUMBERS = 1 << 17


@dataclass(frozen=True)
class NoisySamples:
    """Measured samples with known noise, in groups that have a mean each and share one covariance."""

    x: Array  #: (sample, feature)
    noise: Covariances
    weight: Array  #: (sample,)
    group: NDArray[np.intp]  #: (sample,)
    n_groups: int

    def blocks(self) -> Iterator["NoisySamples"]:
        """Cut into blocks that stay in a core's cache."""
        rows = max(64, _BLOCK_NUMBERS // self.x.shape[1] ** 2)
        for part in slices(len(self.x), rows):
            yield NoisySamples(
                self.x[part], self.noise[part], self.weight[part], self.group[part], self.n_groups
            )

    @property
    def counts(self) -> Array:
        """Sum of weights of each group."""
        return np.asarray(np.bincount(self.group, self.weight, self.n_groups), np.float64)


@dataclass(frozen=True)
class _State:
    """Current estimate: means (group, feature) and the covariance that the groups share."""

    mean: Array
    covariance: Array


@dataclass(frozen=True)
class _Sums:
    """Sums of one pass over the samples; T_i = Σ + Σ_i, v_i = T_i⁻¹(x_i − μ)."""

    precision: Array  # (group, feature, feature), Σ w T⁻¹
    pull: Array  # (group, feature), Σ w v
    spread: Array  # (feature, feature), Σ w v vᵀ
    log_likelihood: float


def deconvolve(
    samples: NoisySamples, prior: NIW, *, max_iterations: int = MAX_ITERATIONS, tolerance: float = TOLERANCE
) -> DeconvolvedNIW:
    """Posterior of the means and the common covariance of the true values.

    Expectation–maximisation over the true values (extreme deconvolution, Bovy, Hogg and Roweis 2011, Annals
    of Applied Statistics 5, 1657) with the whole NIW prior, its fixed point being

        Σ = [Ψ + Σ_i ((b_i−μ)(b_i−μ)ᵀ + B_i) + λ(μ−μ₀)(μ−μ₀)ᵀ] / (ν+n−p−1)

    with b_i, B_i the mean and covariance of the true value of sample i. The divisor is that of the posterior
    mean of Σ: with that of the mode, ν+n+p+2, 2p+3 extra pseudo-observations pull Σ down, which is
    harmless beside n samples but not beside the few that noisy samples are worth. Without noise both give
    the same posterior, that of the plain update.

    The posterior has direction-wise counts from the information of the samples: the mean's covariance
    is (Σ_i T_i⁻¹ + λΣ⁻¹)⁻¹, and variance j counts as many noise-free samples as give it the same precision.

    The prior has the batch (group,) for the means, and () or (1,) for scale and dof, which are shared; the
    posterior has the batch (group,). It ends after ``max_iterations`` passes over the samples, or where one
    iteration changes less than ``tolerance`` standard deviations of the features.
    """
    problem = _Problem(samples, prior)
    state, converged = _accelerate(problem, problem.start(), max_iterations, tolerance)
    return problem.posterior(state, converged)


def expectation_maximisation(samples: NoisySamples, prior: NIW, n_iterations: int) -> tuple[Array, Array]:
    """Run a fixed number of plain iterations; return the means (group, feature) and the covariance."""
    problem = _Problem(samples, prior)
    state = problem.start()
    for _ in range(n_iterations):
        state = problem.step(state, problem.sums(state))
    return state.mean, state.covariance


@dataclass(frozen=True)
class _Problem:
    samples: NoisySamples
    prior: NIW

    @property
    def _shared(self) -> tuple[Array, float]:
        """Ψ and ν, without batch axes."""
        p = self.prior.n_features
        return self.prior.scale.reshape(-1, p, p)[0], float(self.prior.dof.ravel()[0])

    @property
    def _pseudo_count(self) -> float:
        """ν−p−1, what the prior of Σ counts for in its mean."""
        return self._shared[1] - self.prior.n_features - 1

    def start(self) -> _State:
        """Group means, and the scatter about them less the mean noise, kept positive definite."""
        s, p = self.samples, self.prior.n_features
        n = max(float(s.weight.sum()), 1.0)
        counts = np.maximum(s.counts, np.finfo(np.float64).tiny)
        mean = np.zeros((s.n_groups, p))
        np.add.at(mean, s.group, s.weight[:, None] * s.x)
        mean /= counts[:, None]
        scatter = np.zeros((p, p))
        for block in s.blocks():
            r = block.x - mean[block.group]
            scatter += (block.weight[:, None] * r).T @ r
        scale, _ = self._shared
        total = (scatter + scale) / (n + max(self._pseudo_count, 0.0))
        root = cholesky(total, "the scatter of the samples")
        whitening = invert_triangle(root)
        noise = whitening @ self._mean_noise() @ whitening.T
        value, axes = np.linalg.eigh(noise)
        root = root @ (axes * np.sqrt(np.maximum(1.0 - value, 0.05)))
        return _State(mean, root @ root.T)

    def _mean_noise(self) -> Array:
        noise, weight = self.samples.noise, self.samples.weight
        share = weight / weight.sum()
        if noise.own is not None:
            matrix = np.tensordot(share, noise.own, axes=1)
            return matrix if matrix.ndim == 2 else np.diag(matrix)
        assert noise.base is not None
        factor = 1.0 if noise.factor is None else float(share @ noise.factor)
        return factor * noise.base

    def sums(self, state: _State) -> _Sums:
        """One pass over the samples."""
        G, p = state.mean.shape
        precision, pull, spread = np.zeros((G, p, p)), np.zeros((G, p)), np.zeros((p, p))
        log_likelihood = 0.0
        for block in self.samples.blocks():
            residual = (block.x - state.mean[block.group]).T
            whitening, log_det = _whiten(block, state.covariance)
            z = np.einsum("ijn,jn->in", whitening, residual)
            v = np.einsum("jin,jn->in", whitening, z)
            w = block.weight
            spread += (w * v) @ v.T
            log_likelihood += float(w @ (log_det - 0.5 * np.einsum("in,in->n", z, z)))
            for g in np.unique(block.group):
                mine = np.flatnonzero(block.group == g) if G > 1 else slice(None)
                scaled = (np.sqrt(w[mine]) * whitening[:, :, mine]).transpose(1, 0, 2).reshape(p, -1)
                precision[g] += scaled @ scaled.T
                pull[g] += v[:, mine] @ w[mine]
        return _Sums(precision, pull, spread, log_likelihood)

    def step(self, state: _State, sums: _Sums) -> _State:
        """Next estimate: Σ by expectation–maximisation, then μ by weighted least squares given the old Σ."""
        sigma, n = state.covariance, float(self.samples.weight.sum())
        scale, _ = self._shared
        strength = np.broadcast_to(self.prior.strength, (len(state.mean),))
        offset = state.mean - self.prior.mean
        seen = sigma @ (sums.spread - sums.precision.sum(0)) @ sigma + n * sigma
        seen += scale + (strength[:, None] * offset).T @ offset
        inverse = np.linalg.inv(sigma)
        weight = sums.precision + strength[:, None, None] * inverse
        pull = sums.pull - strength[:, None] * (offset @ inverse)
        known = np.trace(weight, axis1=1, axis2=2) > 0
        mean = state.mean.copy()
        mean[known] += np.linalg.solve(weight[known], pull[known][..., None])[..., 0]
        covariance = seen / (n + self._pseudo_count)
        return _State(mean, 0.5 * (covariance + covariance.T))

    def objective(self, state: _State, sums: _Sums) -> float:
        """Objective that the iteration increases: log likelihood plus the prior's share."""
        scale, _ = self._shared
        root = cholesky(state.covariance, "the covariance of the true values")
        whitening = invert_triangle(root)
        strength = np.broadcast_to(self.prior.strength, (len(state.mean),))
        offset = (state.mean - self.prior.mean) @ whitening.T
        prior = self._pseudo_count * float(log_det_of_root(root))
        prior += 0.5 * float(np.trace(whitening @ scale @ whitening.T))
        prior += 0.5 * float(strength @ np.einsum("gi,gi->g", offset, offset))
        return sums.log_likelihood - prior

    def posterior(self, state: _State, converged: bool) -> DeconvolvedNIW:
        """NIW with the counts that the noisy samples are worth."""
        p = self.prior.n_features
        _, dof = self._shared
        sums = self.sums(state)
        strength = np.broadcast_to(self.prior.strength, (len(state.mean),))
        inverse = np.linalg.inv(state.covariance)
        precision = sums.precision + strength[:, None, None] * inverse
        known = np.trace(precision, axis1=1, axis2=2) > 0
        mean_covariance = np.zeros_like(precision)
        mean_covariance[known] = np.linalg.inv(precision[known])
        worth = np.trace(precision @ state.covariance, axis1=1, axis2=2) / p  # λ + n without noise
        variance_count = self._variance_counts(state.covariance)
        posterior_dof = dof + float(np.mean(variance_count))
        return DeconvolvedNIW(
            state.mean,
            worth,
            (posterior_dof - p - 1) * state.covariance[None],
            np.array([posterior_dof]),
            mean_covariance,
            (dof - p + 1 + variance_count)[None],
            np.array([converged]),
        )

    def _variance_counts(self, sigma: Array) -> Array:
        """Number of noise-free samples that would determine each variance Σ_jj as well: (feature,).

        In coordinates where Σ = I, the samples' information about a change H of it is
        ½ Σ_i tr(A_i H A_i H′), A_i = LᵀT_i⁻¹L; without noise A_i = I and the count is n.
        """
        p = len(sigma)
        root = cholesky(sigma, "the covariance of the true values")
        direction = root / np.sqrt(np.diagonal(sigma))[:, None]  # rows u_j with Σ_jj ∝ u_jᵀ(I+H)u_j
        if p > FULL_INFORMATION_UP_TO:
            return self._variance_counts_along_axes(root, sigma, direction)
        products = np.zeros((p * p, p * p))
        for block in self.samples.blocks():
            a = _information(block, sigma, root).reshape(p * p, -1)
            products += (block.weight * a) @ a.T
        # products[(a,b),(c,d)] = Σ A_ab A_cd; the operator H -> A H A has the entries A_ab A_dc.
        operator = 0.5 * products.reshape(p, p, p, p).transpose(0, 2, 1, 3).reshape(p * p, p * p)
        symmetric = _symmetric_basis(p)
        information = symmetric.T @ operator @ symmetric
        gradient = symmetric.T @ np.einsum("ja,jb->abj", direction, direction).reshape(p * p, p)
        relative_variance = np.einsum("ij,ij->j", gradient, np.linalg.solve(information, gradient))
        return 2.0 / relative_variance

    def _variance_counts_along_axes(self, root: Array, sigma: Array, direction: Array) -> Array:
        p = len(sigma)
        precision = self.sums(_State(np.zeros((self.samples.n_groups, p)), sigma)).precision.sum(0)
        _, axes = np.linalg.eigh(root.T @ precision @ root)
        counts = np.zeros((p, p))
        for block in self.samples.blocks():
            a = np.einsum("abn,ak,bk->kn", _information(block, sigma, root), axes, axes, optimize=True)
            counts += (block.weight * a) @ a.T
        u2 = (direction @ axes) ** 2
        return 1.0 / np.einsum("ja,jb,ab->j", u2, u2, 1.0 / counts)


def _whiten(block: NoisySamples, sigma: Array) -> tuple[Array, Array]:
    """T_i^(−1/2) as lower triangles (feature, feature, sample), and log |T_i^(−1/2)|."""
    matrices = block.noise.matrices()
    if len(matrices) == 1:
        inverse = invert_triangle(cholesky(sigma + matrices[0], "Σ plus the noise"))
        whitening = np.broadcast_to(inverse[:, :, None], (*inverse.shape, len(block.x)))
    else:
        total = np.ascontiguousarray((sigma + matrices).transpose(1, 2, 0))
        whitening = invert_triangles_of_many(cholesky_of_many(total))
    diagonal = np.diagonal(whitening, axis1=0, axis2=1)  # (sample, feature)
    return whitening, np.log(diagonal).sum(1)


def _information(block: NoisySamples, sigma: Array, root: Array) -> Array:
    """A_i = LᵀT_i⁻¹L: shape (feature, feature, sample)."""
    whitening, _ = _whiten(block, sigma)
    q = np.einsum("kan,ab->kbn", whitening, root, optimize=True)
    return np.asarray(np.einsum("kan,kbn->abn", q, q, optimize=True))


def _symmetric_basis(p: int) -> Array:
    """Orthonormal basis of symmetric matrices, as columns of length p²."""
    rows, columns = np.tril_indices(p)
    basis = np.zeros((p * p, len(rows)))
    size = np.where(rows == columns, 0.5, np.sqrt(0.5))
    basis[rows * p + columns, np.arange(len(rows))] += size
    basis[columns * p + rows, np.arange(len(rows))] += size
    return basis


def _accelerate(problem: _Problem, state: _State, max_passes: int, tolerance: float) -> tuple[_State, bool]:
    """Squared extrapolation of the iteration (Varadhan and Roland 2008, scheme S3), never downhill."""
    sums = problem.sums(state)
    best = problem.objective(state, sums)
    passes = 1
    while passes < max_passes:
        unit = np.sqrt(np.diagonal(state.covariance))
        unit = unit[:, None] * unit
        first = problem.step(state, sums)
        if _distance(first, state, unit) < tolerance:
            return first, True
        first_sums = problem.sums(first)
        second = problem.step(first, first_sums)
        change = (first.covariance - state.covariance) / unit
        curve = (second.covariance - first.covariance) / unit - change
        norm = float(np.linalg.norm(curve))
        length = max(1.0, float(np.linalg.norm(change)) / norm) if norm > 0 else 1.0
        state, sums, best, used = _try_jump(problem, state, second, change, curve, unit, length, best)
        passes += 1 + used
    return state, False


def _try_jump(
    problem: _Problem,
    state: _State,
    second: _State,
    change: Array,
    curve: Array,
    unit: Array,
    length: float,
    best: float,
) -> tuple[_State, _Sums, float, int]:
    """Take the extrapolated point where it is a covariance and no worse, else two plain steps."""
    used = 0
    while length > 1.0:
        covariance = state.covariance + unit * (2.0 * length * change + length**2 * curve)
        trial = _State(second.mean, 0.5 * (covariance + covariance.T))
        sums, value = _evaluate(problem, trial)
        used += 1
        if sums is not None and value >= best - 1e-10 * abs(best):
            return trial, sums, value, used
        length = 1.0 if length < 1.5 else 0.5 * (length + 1.0)
    sums = problem.sums(second)
    return second, sums, problem.objective(second, sums), used + 1


def _evaluate(problem: _Problem, trial: _State) -> tuple[_Sums | None, float]:
    try:
        cholesky(trial.covariance, "the extrapolated covariance")
        sums = problem.sums(trial)
        return sums, problem.objective(trial, sums)
    except ValueError:
        return None, -np.inf


def _distance(a: _State, b: _State, unit: Array) -> float:
    """Largest change, in standard deviations of the features."""
    mean = np.abs((a.mean - b.mean) / np.sqrt(np.diagonal(unit))).max()
    return float(max(mean, np.abs((a.covariance - b.covariance) / unit).max()))


def noise_free_variances(samples: NoisySamples) -> Array:
    """Variance of the true values, feature by feature, by restricted maximum likelihood: (feature,).

    Without noise S_jj/(n−1). Where the noise explains all of the spread, what the samples could just not
    have resolved, √(2/n) of the variance seen.
    """
    x, w = samples.x, samples.weight
    s = np.broadcast_to(samples.noise.variances(), x.shape)
    centre = np.zeros((samples.n_groups, x.shape[1]))
    np.add.at(centre, samples.group, w[:, None] * x)
    centre /= np.maximum(samples.counts, np.finfo(np.float64).tiny)[:, None]
    residual2 = (x - centre[samples.group]) ** 2
    n = float(w.sum())
    dof = max(n - int((samples.counts > 0).sum()), np.finfo(np.float64).tiny)
    seen = w @ residual2 / dof

    def score(v: Array) -> Array:
        """Derivative of the restricted likelihood; the group means are kept at the plain ones."""
        t = v + s
        lost = np.zeros_like(v)
        for g in range(samples.n_groups):
            mine = samples.group == g
            inverse = w[mine] @ (1.0 / t[mine])
            lost += np.where(inverse > 0, w[mine] @ (1.0 / t[mine] ** 2) / np.maximum(inverse, 1e-300), 0.0)
        return np.asarray(w @ (residual2 / t**2 - 1.0 / t) + lost)

    found = _bisect(score, 1e-9 * seen, 2.0 * seen) if np.any(s) else seen
    floor = np.minimum(np.sqrt(2.0 / max(n, 2.0)) * seen, w @ s / max(n, 1e-300))
    return np.maximum(np.where(seen > 0, found, 0.0), floor)


def _bisect(decreasing: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Root of a decreasing function of each feature, by bisection of the logarithm."""
    low, high = np.log(np.maximum(low, 1e-300)), np.log(np.maximum(high, 1e-300))
    for _ in range(50):
        middle = 0.5 * (low + high)
        above = decreasing(np.exp(middle)) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.exp(0.5 * (low + high))
