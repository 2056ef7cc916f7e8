"""Multinomial logistic regression with a Gaussian prior, and its predictions of samples left out."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from uncover.bayes.linalg import slices

Array = NDArray[np.float64]

# Precision of the prior of the intercepts: all but free, and no direction is left undetermined.
_INTERCEPT = 1e-3
# Points whose covariances are computed together.
_BLOCK = 2048
_TOLERANCE = 1e-8
_MAX_ITERATIONS = 100
# Of more classes than this, second derivatives are those of each class by itself: the cost of all classes
# together grows with the cube of their number. Information about the class is then 5 % too large.
MOST_TOGETHER = 32
# Conjugate gradients for a Newton step: residual, of that at the start, and products with the Hessian.
_RESIDUAL, _MAX_PRODUCTS = 1e-3, 200


@dataclass(frozen=True)
class Logistic:
    """Class probabilities softmax(B·[x, 1]), the coefficients B at the maximum of their posterior.

    B_kj ~ N(0, 1/precision) for the features; the likelihood is Π_i Π_k P_ik^(w_i t_ik). The negative log
    posterior is convex; Newton's method finds its minimum. What is known of the coefficients is the inverse
    of the Hessian there, or of its blocks of single classes where there are many.

    >>> x = np.array([[-1.0], [-0.5], [0.5], [1.0]])
    >>> model = Logistic.fit(x, np.eye(2)[[0, 0, 1, 1]], precision=1.0)
    >>> softmax(model.log_odds(np.array([[0.0], [2.0]])), axis=1).round(2)
    array([[0.5 , 0.5 ],
           [0.05, 0.95]])
    """

    coefficients: Array  #: (class, feature + 1), the last column has the intercepts
    precision: float
    #: of the negative log posterior, by row of coefficients (row, row); of many classes, that of each by
    #: itself, (class, feature + 1, feature + 1)
    hessian: Array

    @classmethod
    def fit(
        cls,
        points: Array,
        target: Array,
        precision: float,
        weight: Array | None = None,
        start: Array | None = None,
    ) -> "Logistic":
        """Fit to points (sample, feature) whose class probabilities are (sample, class)."""
        x = _with_one(points)
        w = np.ones(len(x)) if weight is None else weight
        penalty = np.full(x.shape[1], precision)
        penalty[-1] = _INTERCEPT
        B = np.zeros((target.shape[1], x.shape[1])) if start is None else start
        value = _loss(B, x, target, w, penalty)
        for _ in range(_MAX_ITERATIONS):
            P = softmax(x @ B.T, axis=1)
            gradient = ((P - target) * w[:, None]).T @ x + penalty * B
            step = _newton_step(gradient, P, x, w, penalty)
            decrease = float((gradient * step).sum())
            if decrease < _TOLERANCE:
                break
            B, value = _line_search(B, step, decrease, value, x, target, w, penalty)
        P = softmax(x @ B.T, axis=1)
        return cls(B, precision, _hessian(P, x, w, penalty))

    def log_odds(self, points: Array) -> Array:
        """Log probabilities up to a constant of each point: (point, class)."""
        return np.asarray(points @ self.coefficients[:, :-1].T + self.coefficients[:, -1])

    @cached_property
    def _inverse(self) -> Array:
        """Of the Hessian: its cost grows with the cube of the number of rows, that of a point does not."""
        return np.asarray(np.linalg.inv(self.hessian), np.float64)

    @property
    def _apart(self) -> bool:
        """True where only second derivatives of each class by itself are known."""
        return self.hessian.ndim == 3

    def information(self, points: Array, probability: Array) -> Array:
        """½ (Σ_k P_k V_kk − Σ_kl P_k V_kl P_l), with the posterior covariance V of the log odds: (point,)."""
        P = probability
        if self._apart:
            return np.asarray(0.5 * (P * (1.0 - P) * self._variance_of_log_odds(points)).sum(1))
        V = self.covariance_of_log_odds(points)
        return np.asarray(0.5 * (np.einsum("nk,nkk->n", P, V) - np.einsum("nj,njk,nk->n", P, V, P)))

    def _variance_of_log_odds(self, points: Array) -> Array:
        """[x,1]ᵀH_k⁻¹[x,1] of each class by itself: (point, class)."""
        x = _with_one(points)
        return np.stack([((x @ own) * x).sum(1) for own in self._inverse], axis=1)

    def covariance_of_log_odds(self, points: Array) -> Array:
        """V = [x,1]ᵀH⁻¹[x,1], posterior covariance of the log odds of each point: (point, class, class)."""
        x, (K, d) = _with_one(points), self.coefficients.shape
        inverse = self._inverse.reshape(K, d, K, d)
        rows, columns = np.triu_indices(K)
        pairs, V = inverse[rows, :, columns, :].swapaxes(-1, -2), np.empty((K, K, len(x)))
        for block in slices(len(x), _BLOCK):  # that stay in the cache; points lie together
            z = np.ascontiguousarray(x[block].T)
            V[rows, columns, block] = V[columns, rows, block] = np.einsum("ajn,jn->an", pairs @ z, z)
        return np.moveaxis(V, 2, 0)

    def leave_one_out(self, points: Array, target: Array, weight: Array | None = None) -> Array:
        """Log odds of each training point by the model without it: (sample, class).

        One Newton step from the coefficients, exact to second order (Rad and Maleki 2020, Journal of the
        Royal Statistical Society B 82, 965–996): with V = [x,1]ᵀH⁻¹[x,1] and W, g the second and first
        derivative of the sample's own loss, z + V(I − WV)⁻¹g.
        """
        z = self.log_odds(points)
        n, K = z.shape
        w = np.ones(n) if weight is None else weight
        P = softmax(z, axis=1)
        if self._apart:
            v = w[:, None] * self._variance_of_log_odds(points)
            return np.asarray(z + v * (P - target) / (1.0 - v * P * (1.0 - P)))
        V = self.covariance_of_log_odds(points)
        W = w[:, None, None] * (P[:, :, None] * np.eye(K) - P[:, :, None] * P[:, None, :])
        g = w[:, None] * (P - target)
        shift = V @ np.linalg.solve(np.eye(K) - W @ V, g[..., None])
        return np.asarray(z + shift[..., 0])

    def leave_groups_out(
        self, points: Array, target: Array, groups: NDArray[np.intp], weight: Array | None = None
    ) -> Array:
        """As :meth:`leave_one_out`, for whole groups of samples: one Newton step without each group.

        A large group under a weak prior is farther away than one step goes: an approximation then.
        """
        x, z = _with_one(points), self.log_odds(points)
        w = np.ones(len(x)) if weight is None else weight
        P = softmax(z, axis=1)
        out = np.empty_like(z)
        for g in np.unique(groups):
            mine = groups == g
            own = _hessian(P[mine], x[mine], w[mine], np.zeros(x.shape[1]))
            gradient = ((P[mine] - target[mine]) * w[mine][:, None]).T @ x[mine]
            rows = gradient[..., None] if self._apart else gradient.reshape(-1, 1)
            step = np.linalg.solve(self.hessian - own, rows).reshape(gradient.shape)
            out[mine] = x[mine] @ (self.coefficients + step).T
        return out


def _with_one(points: Array) -> Array:
    return np.concatenate([points, np.ones((len(points), 1))], axis=1)


def _loss(B: Array, x: Array, target: Array, w: Array, penalty: Array) -> float:
    log_P = log_softmax(x @ B.T, axis=1)
    return float(-(w @ (target * log_P).sum(1)) + 0.5 * (penalty * B**2).sum())


def _line_search(
    B: Array, step: Array, decrease: float, value: float, x: Array, target: Array, w: Array, penalty: Array
) -> tuple[Array, float]:
    """Halve the Newton step until the loss falls as it should (Armijo's rule)."""
    length = 1.0
    while length > 1e-10:
        new = B - length * step
        found = _loss(new, x, target, w, penalty)
        if found <= value - 1e-4 * length * decrease:
            return new, found
        length *= 0.5
    return B, value


def _newton_step(gradient: Array, P: Array, x: Array, w: Array, penalty: Array) -> Array:
    """H⁻¹ times the gradient (class, feature + 1), of many classes by conjugate gradients."""
    from scipy.linalg import cho_factor, cho_solve

    H = _hessian(P, x, w, penalty)
    if H.ndim == 2:
        return np.asarray(cho_solve(cho_factor(H), gradient.ravel()).reshape(gradient.shape))
    inverse = np.linalg.inv(H)

    def product(B: Array) -> Array:
        z = x @ B.T
        return np.asarray((w[:, None] * P * (z - (P * z).sum(1, keepdims=True))).T @ x + penalty * B)

    step, rest = np.zeros_like(gradient), gradient.copy()
    near = np.matmul(inverse, rest[..., None])[..., 0]
    way, length = near, float((rest * near).sum())
    enough = _RESIDUAL**2 * length
    for _ in range(_MAX_PRODUCTS):
        along = product(way)
        by = length / float((way * along).sum())
        step, rest = step + by * way, rest - by * along
        near = np.matmul(inverse, rest[..., None])[..., 0]
        before, length = length, float((rest * near).sum())
        if length <= enough:
            break
        way = near + (length / before) * way
    return step


def _hessian(P: Array, x: Array, w: Array, penalty: Array) -> Array:
    """Second derivative of the loss: blocks Σ_i w_i P_ia([a=b] − P_ib) x_i x_iᵀ, plus the prior.

    All of them, (row, row), or of many classes those of a = b, (class, feature + 1, feature + 1).
    """
    K, d = P.shape[1], x.shape[1]
    if K > MOST_TOGETHER:
        own = np.stack([(x * (w * p * (1.0 - p))[:, None]).T @ x for p in P.T])
        own[:, np.arange(d), np.arange(d)] += penalty
        return own
    H = np.empty((K, d, K, d))
    for a in range(K):
        for b in range(a, K):
            curvature = w * P[:, a] * ((a == b) - P[:, b])
            block = (x * curvature[:, None]).T @ x
            H[a, :, b, :], H[b, :, a, :] = block, block.T
    flat = H.reshape(K * d, K * d)
    flat[np.diag_indices(K * d)] += np.tile(penalty, K)
    return flat
