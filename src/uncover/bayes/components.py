"""Parts of a class: a mixture of Gaussians whose number the evidence decides, found by splitting."""

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


def find_components(points: Array, weight: Array | None = None, most: int = MOST_COMPONENTS) -> Codes:
    """Number of the component of each sample of one class: (sample,).

    Beginning with one component, the one whose splitting raises the evidence of all most is split: cut at its
    mean along its longest axis, then samples move to the component that predicts them best until none does.
    It ends where no split raises the evidence. Nothing is drawn.

    The evidence is that of G components with the prior of Fraley and Raftery (2007), their parameters
    integrated out, and of the assignment, its proportions integrated out (Dirichlet with 1 for each one).

    Parameters
    ----------
    points : array of shape (sample, feature)
    weight : array of shape (sample,), optional
        Weight 2 is the same as having the sample twice.
    most : int
        Largest number of components.

    Examples
    --------
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
    best = log_evidence_of_components(x, codes, w)
    while codes.max() + 1 < most:
        tried = [_refined(x, _split(x, codes, c, w), w) for c in range(codes.max() + 1)]
        values = [log_evidence_of_components(x, each, w) for each in tried]
        if max(values) <= best:
            break
        best, codes = max(values), tried[int(np.argmax(values))]
    return codes


def log_evidence_of_components(points: Array, codes: Codes, weight: Array | None = None) -> float:
    """Log marginal likelihood of samples and of their assignment to components.

    Examples
    --------
    >>> x = np.array([[0.0], [0.1], [9.0], [9.1], [0.2], [9.2]])
    >>> two, one = np.array([0, 0, 1, 1, 0, 1]), np.zeros(6, dtype=int)
    >>> log_evidence_of_components(x, two) > log_evidence_of_components(x, one)
    True
    """
    w = np.ones(len(points)) if weight is None else weight
    G, n = int(codes.max()) + 1, float(w.sum())
    moments = Moments.by_group(points, codes, G, w)
    prior = _prior(points, G, w)
    log_assignment = gammaln(G) - gammaln(n + G) + gammaln(moments.count + 1.0).sum()
    # Which component has which number does not matter: G! assignments are one.
    return float(prior.log_evidence(moments).sum() + log_assignment + gammaln(G + 1.0))


def _prior(points: Array, n_components: int, weight: Array) -> NIW:
    """μ₀ the mean of the class, λ = 0.01, ν = p+2, Ψ = C/G^(2/p)."""
    whole = Moments.of(points, weight)
    p, G = points.shape[1], n_components
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


def _refined(points: Array, codes: Codes, weight: Array) -> Codes:
    """Move samples to the component that predicts them best, until none moves; empty ones vanish."""
    for _ in range(_MAX_ITERATIONS):
        codes = _renumbered(codes)
        G = int(codes.max()) + 1
        moments = Moments.by_group(points, codes, G, weight)
        predictive = _prior(points, G, weight).update(moments).predictive()
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
