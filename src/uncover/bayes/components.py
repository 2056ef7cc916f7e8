"""Components of classes: sums over the Gaussians of a class, and how many of them the evidence asks for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW

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
    whole = Moments.of(x, w)
    best = log_evidence_of_components(x, codes, w, whole)
    while codes.max() + 1 < most:
        tried = [_refined(x, _split(x, codes, c, w), w, whole) for c in range(codes.max() + 1)]
        values = [log_evidence_of_components(x, each, w, whole) for each in tried]
        if max(values) <= best:
            break
        best, codes = max(values), tried[int(np.argmax(values))]
    return codes


def log_evidence_of_components(
    points: Array, codes: Codes, weight: Array | None = None, whole: Moments | None = None
) -> float:
    """Log marginal likelihood of samples, whose moments are ``whole``, and of their assignment to components.

    >>> x = np.array([[0.0], [0.1], [9.0], [9.1], [0.2], [9.2]])
    >>> two, one = np.array([0, 0, 1, 1, 0, 1]), np.zeros(6, dtype=int)
    >>> log_evidence_of_components(x, two) > log_evidence_of_components(x, one)
    True
    """
    w = np.ones(len(points)) if weight is None else weight
    G, n = int(codes.max()) + 1, float(w.sum())
    moments = Moments.by_group(points, codes, G, w)
    prior = _prior(Moments.of(points, w) if whole is None else whole, G)
    log_assignment = gammaln(G) - gammaln(n + G) + gammaln(moments.count + 1.0).sum()
    # Which component has which number does not matter: G! assignments are one.
    return float(prior.log_evidence(moments).sum() + log_assignment + gammaln(G + 1.0))


def _prior(whole: Moments, n_components: int) -> NIW:
    """μ₀ the mean of the class, λ = 0.01, ν = p+2, Ψ = C/G^(2/p)."""
    p, G = whole.mean.shape[-1], n_components
    scale = (whole.covariance + 1e-6 * np.diag(whole.variance)) / G ** (2.0 / p)
    return NIW(
        np.repeat(whole.mean[None], G, axis=0),
        np.full(G, _STRENGTH),
        np.repeat(scale[None], G, axis=0),
        np.full(G, p + 2.0),
    )


def _split(points: Array, codes: Codes, component: int, weight: Array) -> Codes:
    """Cut one component at its mean, along its longest axis."""
    mine = np.flatnonzero(codes == component)
    moments = Moments.of(points[mine], weight[mine])
    x = points[mine] - moments.mean
    axis = np.linalg.eigh(moments.scatter)[1][:, -1]
    out = codes.copy()
    out[mine[x @ axis > 0]] = codes.max() + 1
    return out


def _refined(points: Array, codes: Codes, weight: Array, whole: Moments) -> Codes:
    """Move samples to the component that predicts them best, until none moves; empty ones vanish."""
    for _ in range(_MAX_ITERATIONS):
        codes = _renumbered(codes)
        G = int(codes.max()) + 1
        moments = Moments.by_group(points, codes, G, weight)
        predictive = _prior(whole, G).update(moments).predictive()
        joint = np.log(moments.count + 1.0) + predictive.log_prob(points)
        new = joint.argmax(axis=1).astype(np.intp)
        if np.array_equal(new, codes):
            break
        codes = new
    return _renumbered(codes)


def _renumbered(codes: Codes) -> Codes:
    return np.unique(codes, return_inverse=True)[1].ravel().astype(np.intp)


def _standardised(points: Array, weight: Array) -> Array:
    """Features of unit variance; those that are constant are left out."""
    moments = Moments.of(points, weight)
    deviation = np.sqrt(np.diagonal(moments.scatter) / max(float(moments.count), 1.0))
    varies = deviation > 1e-12 * np.maximum(np.abs(points).max(0, initial=0.0), np.finfo(float).tiny)
    return np.asarray((points[:, varies] - moments.mean[varies]) / deviation[varies])
