"""Components of classes: sums over the Gaussians of a class, and how many of them the evidence asks for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from uncover.bayes.linalg import cholesky, invert_triangle
from uncover.bayes.moments import Moments

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

# Fraley and Raftery (2007): a mean of a component is worth this many observations beforehand.
_STRENGTH = 0.01
_MAX_ITERATIONS = 50
MOST_COMPONENTS = 12


@dataclass(frozen=True, eq=False)
class Components:
    """The class that each component belongs to; components of one class stand together, along the last axis.

    Mostly each class has one component, and what is said of components is said of classes.

    >>> components = Components(np.array([0, 0, 1]))
    >>> np.exp(components.log_odds(np.log([[0.2, 0.3, 0.5]])))
    array([[0.5, 0.5]])
    >>> components.shares(np.log([[0.2, 0.3, 0.5]]))
    array([[0.4, 0.6, 1. ]])
    """

    owner: NDArray[np.intp]  #: (component,), its class, from 0, in ascending order; each class has one
    temperature: float = 1.0  #: divisor of the log joints of the classes

    @classmethod
    def single(cls, n_classes: int, temperature: float = 1.0) -> Components:
        """One component for each class."""
        return cls(np.arange(n_classes), temperature)

    @cached_property
    def trivial(self) -> bool:
        """True where each class has one component."""
        return len(self.owner) == self.n_classes

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.owner[-1]) + 1 if len(self.owner) else 0

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """First component of each class, and the number of components: (class + 1,)."""
        return np.searchsorted(self.owner, np.arange(self.n_classes + 1)).astype(np.int64)

    def select(self, chosen: NDArray[np.intp]) -> Components:
        """Some of the components, by number; their classes are numbered anew."""
        owner = self.owner[chosen]
        return Components(np.searchsorted(np.unique(owner), owner), self.temperature)

    def without_temperature(self) -> tuple[float, Components]:
        """Divisor that may be applied to log joints of components, and the components that remain after it.

        A temperature applies to classes: to components only where these are the classes.
        """
        return (self.temperature, Components(self.owner)) if self.trivial else (1.0, self)

    def log_joint(self, of_components: Array) -> Array:
        """Log joint of the classes: log Σ exp over their components."""
        if self.trivial:
            return of_components
        top = self.largest(of_components)
        safe = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            return np.asarray(safe + np.log(self.total(np.exp(of_components - safe[..., self.owner]))))

    def log_odds(self, of_components: Array) -> Array:
        """The log joint as class probabilities are made of it: over the temperature."""
        joint = self.log_joint(of_components)
        return joint if self.temperature == 1.0 else np.asarray(joint / self.temperature)

    def shares(self, of_components: Array) -> Array:
        """Share of each component in the density of its class, from log joints of the components."""
        if self.trivial:
            return np.ones_like(of_components)
        return np.asarray(np.exp(of_components - self.log_joint(of_components)[..., self.owner]))

    def probability(self, of_classes: Array, of_components: Array) -> Array:
        """Probabilities of components: those of their classes, shared out by the components' log joints."""
        return of_classes if self.trivial else of_classes[..., self.owner] * self.shares(of_components)

    def variance(self, of_components: Array, variance: Array) -> Array:
        """Variance of the log odds of the classes, Σ_c r_c² v_c / T² to first order, from the components'.

        ``of_components`` are their log joints, from which the shares r follow.
        """
        if not self.trivial:
            variance = self.total(self.shares(of_components) ** 2 * variance)
        return np.asarray(variance / self.temperature**2)

    def largest(self, of_components: NDArray[Any]) -> NDArray[Any]:
        """The largest number of the components of each class."""
        if self.trivial:
            return of_components
        return np.asarray(np.maximum.reduceat(of_components, self.first[:-1], axis=-1))

    def total(self, of_components: Array) -> Array:
        """Sum over the components of each class."""
        if self.trivial:
            return of_components
        return np.asarray(np.add.reduceat(of_components, self.first[:-1], axis=-1))


def find_components(points: Array, weight: Array | None = None, most: int = MOST_COMPONENTS) -> Codes:
    """Number of the component of each sample of one class: (sample,).

    Beginning with one component, the one whose splitting raises the evidence of all most is split: cut at its
    mean along its longest axis, then samples move to the component that predicts them best until none does.
    It ends where no split raises the evidence. Nothing is drawn.

    The evidence is that of G components with the prior of Fraley and Raftery (2007), their parameters
    integrated out, and of the assignment, its proportions integrated out (Dirichlet with 1 for each one).
    A sample of weight 2 is the same as having it twice.

    >>> rng = np.random.default_rng(0)
    >>> two = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 8.0])
    >>> np.bincount(find_components(two))
    array([60, 60])
    >>> np.bincount(find_components(rng.normal(size=(120, 2))))
    array([120])
    """
    w = np.ones(len(points)) if weight is None else weight
    x = _standardised(points, w)
    codes, p = np.zeros(len(x), dtype=np.intp), x.shape[1]
    if w.sum() < 2 * (p + 2) or p == 0:
        return codes
    spread = _spread(x, w)
    codes, best = _refined(x, codes, w, spread)
    while codes.max() + 1 < most:
        tried = [_refined(x, _split(x, codes, c, w), w, spread) for c in range(codes.max() + 1)]
        found, value = max(tried, key=lambda one: one[1])
        if value <= best:
            break
        codes, best = found, value
    return codes


def log_evidence_of_components(points: Array, codes: Codes, weight: Array | None = None) -> float:
    """Log marginal likelihood of samples, and of their assignment to components.

    >>> x = np.array([[0.0], [0.1], [9.0], [9.1], [0.2], [9.2]])
    >>> two, one = np.array([0, 0, 1, 1, 0, 1]), np.zeros(6, dtype=int)
    >>> log_evidence_of_components(x, two) > log_evidence_of_components(x, one)
    True
    """
    w = np.ones(len(points)) if weight is None else weight
    x = points - Moments.of(points, w).mean
    spread = _spread(x, w)
    return _Learned.of(x, codes, w, spread).log_evidence(spread)


def _spread(points: Array, weight: Array) -> Array:
    """Covariance that the prior of one component expects."""
    whole = Moments.of(points, weight)
    return np.asarray(whole.covariance + 1e-6 * np.diag(whole.variance))


class _Learned(NamedTuple):
    """Normal-inverse-Wishart posteriors of G components, of samples that are centred.

    A priori μ₀ = 0, the mean of the class, λ = 0.01, ν = p+2, Ψ = C/G^(2/p). The formulas are those of NIW,
    which checks its parameters and would take longer.
    """

    counts: Array  # (component,)
    mean: Array  # (component, feature)
    root: Array  # (component, feature, feature), of Ψ

    @classmethod
    def of(cls, points: Array, codes: Codes, weight: Array, spread: Array) -> _Learned:
        """After the samples of each component."""
        G = int(codes.max()) + 1
        own = weight * (codes == np.arange(G)[:, None])  # (component, sample)
        count, mean = own.sum(1), own @ points / (own.sum(1) + _STRENGTH)[:, None]
        scale = (own[:, None] * points.T) @ points
        scale -= (count + _STRENGTH)[:, None, None] * (mean[:, :, None] * mean[:, None])
        return cls(count, mean, cholesky(spread / G ** (2.0 / points.shape[1]) + scale, "the spread"))

    @property
    def _log_det(self) -> Array:
        """½ log |Ψ|: (component,)."""
        return np.asarray(np.log(np.diagonal(self.root, axis1=1, axis2=2)).sum(1))

    def log_joint(self, points: Array) -> Array:
        """Log of the share of each component and its predictive density, a Student t: (sample, component)."""
        p, dof = points.shape[1], self.counts + 3.0
        stretch = (1.0 + 1.0 / (self.counts + _STRENGTH)) / dof
        z = invert_triangle(self.root) @ (points - self.mean[:, None]).swapaxes(1, 2)
        square = np.einsum("gin,gin->ng", z, z) / (stretch * dof)
        constant = gammaln(0.5 * (dof + p)) - gammaln(0.5 * dof) - 0.5 * p * np.log(dof * np.pi * stretch)
        log_t = constant - self._log_det - 0.5 * (dof + p) * np.log1p(square)
        return np.asarray(np.log(self.counts + 1.0) + log_t)

    def log_evidence(self, spread: Array) -> float:
        """That of the samples (Murphy 2012, eq. 4.214) and of their assignment."""
        G, p = self.mean.shape
        n, halves = self.counts, 0.5 * (p + 2.0 - np.arange(p))
        log_gammas = (gammaln(halves + 0.5 * n[:, None]) - gammaln(halves)).sum()
        before = 0.5 * float(np.linalg.slogdet(spread)[1]) - np.log(G)
        log_dets = ((p + 2.0) * before - (p + 2.0 + n) * self._log_det).sum()
        log_strengths = 0.5 * p * (np.log(_STRENGTH) - np.log(n + _STRENGTH)).sum()
        log_assignment = gammaln(G) - gammaln(n.sum() + G) + gammaln(n + 1.0).sum()
        # Which component has which number does not matter: G! assignments are one.
        rest = log_assignment + gammaln(G + 1.0) - 0.5 * p * np.log(np.pi) * n.sum()
        return float(log_gammas + log_dets + log_strengths + rest)


def _split(points: Array, codes: Codes, component: int, weight: Array) -> Codes:
    """Cut one component at its mean, along its longest axis."""
    mine = np.flatnonzero(codes == component)
    moments = Moments.of(points[mine], weight[mine])
    x = points[mine] - moments.mean
    axis = np.linalg.eigh(moments.scatter)[1][:, -1]
    out = codes.copy()
    out[mine[x @ axis > 0]] = codes.max() + 1
    return out


def _refined(points: Array, codes: Codes, weight: Array, spread: Array) -> tuple[Codes, float]:
    """Move samples to the component that predicts them best, until none moves; and the log evidence.

    Components that are empty vanish.
    """
    for _ in range(_MAX_ITERATIONS):
        learned = _Learned.of(points, codes, weight, spread)
        new = _renumbered(learned.log_joint(points).argmax(axis=1))
        if np.array_equal(new, codes):
            break
        codes = new
    else:
        learned = _Learned.of(points, codes, weight, spread)
    return codes, learned.log_evidence(spread)


def _renumbered(codes: Codes) -> Codes:
    return np.unique(codes, return_inverse=True)[1].ravel().astype(np.intp)


def _standardised(points: Array, weight: Array) -> Array:
    """Features of unit variance; those that are constant are left out."""
    moments = Moments.of(points, weight)
    deviation = np.sqrt(np.diagonal(moments.scatter) / max(float(moments.count), 1.0))
    varies = deviation > 1e-12 * np.maximum(np.abs(points).max(0, initial=0.0), np.finfo(float).tiny)
    return np.asarray((points[:, varies] - moments.mean[varies]) / deviation[varies])
