"""Few worlds from which what class densities say in all of them follows, if one smooth effect makes these."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

from uncover.bayes.class_densities import ClassDensities, Pairs, softmax
from uncover.bayes.inversion import surface_reflectance
from uncover.bayes.linalg import invert_triangle
from uncover.bayes.streams import stream

Array = NDArray[np.float64]

# How many worlds are tried, and how many worlds each of them must spare at least.
_TRIED, _SPARED = (3, 4, 5, 6, 7, 8, 10), 2
# Points at which the worlds are compared, and how far off means over worlds may be there: of probabilities,
# and of p-values and the model part of the budget.
_POINTS, _PROBABILITY, _OTHER = 512, 2e-6, 3e-5


class FewWorlds(NamedTuple):
    """Pairs of realisation and world from which the others follow."""

    pairs: Pairs  # (node + 1,), the last is the one at which the others are most wrong
    check: int  # its place among all pairs
    weights: Array  # (pair, node)


def few_worlds(densities: ClassDensities, pairs: Pairs, coefficients: Array) -> FewWorlds | None:
    """Choose the fewest pairs from which log joints in all pairs follow; None where there are none.

    Coefficients (realisation, 3, feature) correct values as in :meth:`ClassDensities.summarise`. Log joints
    of a component in all pairs are taken as linear in those at the nodes. Nodes are the columns that a QR
    decomposition with pivots takes first, weights are those of least squares, both at points drawn around the
    components: they do not depend on what is mapped.
    """
    return _few_worlds(densities, *(np.asarray(each).tobytes() for each in pairs), coefficients.tobytes())


@lru_cache(maxsize=32)
def _few_worlds(densities: ClassDensities, *given: bytes) -> FewWorlds | None:
    from scipy.linalg import qr

    pairs = Pairs(*(np.frombuffer(each, np.int64) for each in given[:2]))
    coefficients = np.frombuffer(given[2]).reshape(-1, 3, densities.n_features)
    joint, variance, p_values = _said(densities, pairs, coefficients)
    odds = joint - joint.mean(axis=2, keepdims=True)
    P = _probability(densities, joint)
    doubtful = (P * (1 - P))[:, :, densities.components.owner]
    # Errors count where the class is in doubt, and a little elsewhere.
    doubt = np.sqrt(doubtful.mean(axis=0).sum(axis=1) + 1e-4)
    table = (odds * doubt[:, None]).reshape(len(odds), -1)
    order = qr(table.T, mode="r", pivoting=True)[1]
    for n in (n for n in _TRIED if n * _SPARED < len(odds)):
        nodes = np.sort(order[:n])
        weights = np.linalg.lstsq(table[nodes].T, table.T)[0].T
        found, about, tail = (np.tensordot(weights, each[nodes], 1) for each in (joint, variance, p_values))
        off = np.abs(_probability(densities, found).mean(axis=0) - P.mean(axis=0)).max()
        information = 0.5 * (doubtful * np.abs(about - variance)).sum(axis=2).mean(axis=0).max()
        apart = np.abs(tail.mean(axis=0) - p_values.mean(axis=0)).max()
        if off <= _PROBABILITY and max(information, apart) <= _OTHER:
            wrong = ((found - found.mean(axis=2, keepdims=True) - odds) ** 2 * doubt[:, None] ** 2).sum(
                (1, 2)
            )
            check = int(wrong.argmax())
            some = np.append(nodes, check)
            return FewWorlds(Pairs(pairs.realisations[some], pairs.worlds[some]), check, weights)
    return None


def _probability(densities: ClassDensities, joint: Array) -> Array:
    """Class probabilities (pair, point, class)."""
    return np.stack([softmax(densities.components.log_odds(each.copy())) for each in joint])


def _said(densities: ClassDensities, pairs: Pairs, coefficients: Array) -> tuple[Array, Array, Array]:
    """Log joints of points, their variances, and p-values nearly: each (pair, point, component)."""
    path, slope, albedo = coefficients[pairs.realisations[0]]
    x = _points(densities, int(pairs.worlds[0]))
    toa = path + slope * x / (1 - albedo * x)
    found = []
    for r, w in zip(*pairs, strict=True):
        q = densities.squared_distance(surface_reflectance(toa, *coefficients[r]), w)
        v = densities.log1p_distance(q, w)
        constant, growth, pull = densities.variance[w].T
        p_value = gammaincc(0.5 * densities.n_features, 0.5 * densities.dof[w] * v)
        found.append((densities.log_joint(v, w), constant + growth * v + pull * np.expm1(-v), p_value))
    joint, variance, p_values = (np.stack(each) for each in zip(*found, strict=True))
    return joint, variance, p_values


def _points(densities: ClassDensities, world: int) -> Array:
    """Points in and far around the components of a world, and half of them mixed: (point, feature)."""
    rng, p = stream(0, "points of few worlds"), densities.n_features
    k = np.arange(_POINTS) % densities.n_components
    spread = invert_triangle(densities.whitening[world])[k]
    drawn = 1.5 * rng.standard_t(5, (_POINTS, p, 1))
    x = densities.location[world][k] + (spread @ drawn)[..., 0]
    share = np.where(rng.random((_POINTS, 1)) < 0.5, 1.0, rng.random((_POINTS, 1)))
    return share * x + (1 - share) * x[rng.permutation(_POINTS)]
