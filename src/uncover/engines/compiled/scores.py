"""From points to probabilities: in single precision, and recomputed in double where that is not enough."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from uncover.engines.compiled.distances import centre_points, squared_distance
from uncover.engines.compiled.functions import exponential, log_one_plus
from uncover.engines.compiled.simd import (
    INNER,
    any_above,
    full,
    larger,
    lesser,
    load,
    number,
    simd_width,
    store,
)

# Points scored together: their scores stay in the nearest cache.
BLOCK = 128
# Probabilities whose error in single precision may exceed this, by a bound that is twice the largest error
# that was found, are recomputed in double precision.
TOLERANCE = np.float32(2e-5)
# Number of points recomputed together.
FEW = 8


class BlockScores(NamedTuple):
    """Scores of points; all but q is written by :func:`probabilities_of_distances`.

    The densities of the components of a class add up; mostly a class has one component.
    """

    q: NDArray[Any]  # (component, point), squared distances
    v: NDArray[Any]  # (component, point), log(1 + q/ν)
    r: NDArray[Any]  # (component, point), share in the class; empty where each class has one
    t: NDArray[Any]  # (class, point), log odds less the largest
    e: NDArray[Any]  # (class, point), probabilities
    s: NDArray[Any]  # (point,), 1/Σ exp(t)


class Workspace(NamedTuple):
    """Workspace of a block of points."""

    x: NDArray[Any]  # (feature, point), values less the centre
    scores: BlockScores
    error: NDArray[Any]  # (point,), bound of the rounding error of the probabilities
    chosen: NDArray[np.int64]  # (point,), points to recompute


@njit(**INNER)
def make_workspace(p, n, densities, components):
    """Allocate a workspace for n points of p features, in the type of the densities."""
    kind = densities.whitening.dtype
    n_components = densities.dof.shape[1]
    K = n_components if components is None else len(components.first) - 1
    scores = BlockScores(
        q=np.empty((n_components, n), kind),
        v=np.empty((n_components, n), kind),
        r=np.empty((0 if components is None else n_components, n), kind),
        t=np.empty((K, n), kind),
        e=np.empty((K, n), kind),
        s=np.empty(n, kind),
    )
    return Workspace(np.empty((p, n), kind), scores, np.empty(n, kind), np.empty(n, np.int64))


@njit(**INNER)
def student_t(q, weight, slope, inverse_dof, largest):
    """log(1 + q/ν), and the log joint, which is linear in it: numbers or vectors."""
    log1p_distance = log_one_plus(lesser(q, largest) * inverse_dof)
    return log1p_distance, weight - slope * log1p_distance


@njit(**INNER)
def probabilities_of_distances(densities, w, components, scores):
    """log(1 + q/ν), log odds and probabilities in world w, from distances."""
    for b in range(0, scores.q.shape[1], simd_width(scores.q)):
        if components is None:
            _find_joints(densities, w, b, scores, scores.t)
        else:
            _find_joints(densities, w, b, scores, scores.r)
            _sum_components(components, b, scores)
        _normalise(b, scores)


@njit(**INNER)
def probabilities_of_joints(components, scores):
    """Log odds and probabilities of the classes, from log joints of components in the place of shares."""
    for b in range(0, scores.r.shape[1], simd_width(scores.r)):
        _sum_components(components, b, scores)
        _normalise(b, scores)


@njit(**INNER)
def _find_joints(densities, w, b, scores, joints):
    """log(1 + q/ν) and log joints of the components."""
    largest = densities.largest[0]
    for c in range(scores.q.shape[0]):
        weight, slope = number(densities.log_weight, (w, c)), number(densities.slope, (w, c))
        found = student_t(
            load(scores.q, (c, b)), weight, slope, number(densities.inverse_dof, (w, c)), largest
        )
        store(scores.v, (c, b), found[0])
        store(joints, (c, b), found[1])


@njit(**INNER)
def _sum_components(components, b, scores):
    """Sum components into log odds of classes, t = log Σ exp / T; their log joints become shares."""
    one, sharpness = scores.t.dtype.type(1), scores.t.dtype.type(components.sharpness[0])
    for k in range(scores.t.shape[0]):
        start, end = components.first[k], components.first[k + 1]
        top = load(scores.r, (start, b))
        for c in range(start + 1, end):
            top = larger(load(scores.r, (c, b)), top)
        total = full(scores.t.dtype.type(0))
        for c in range(start, end):
            share = exponential(load(scores.r, (c, b)) - top)
            total += share
            store(scores.r, (c, b), share)
        store(scores.t, (k, b), (top + log_one_plus(total - one)) * sharpness)
        inverse = one / total
        for c in range(start, end):
            store(scores.r, (c, b), load(scores.r, (c, b)) * inverse)


@njit(**INNER)
def _normalise(b, scores):
    """Probabilities from log odds."""
    t, e = scores.t, scores.e
    top = load(t, (0, b))
    for k in range(1, t.shape[0]):
        top = larger(load(t, (k, b)), top)
    total = full(t.dtype.type(0))
    for k in range(t.shape[0]):
        below = load(t, (k, b)) - top
        odds = exponential(below)
        total += odds
        store(t, (k, b), below)
        store(e, (k, b), odds)
    share = t.dtype.type(1) / total
    store(scores.s, (b,), share)
    for k in range(t.shape[0]):
        store(e, (k, b), load(e, (k, b)) * share)


@njit(**INNER)
def find_inexact(densities, w, components, work):
    """Find the points whose probabilities in single precision may be off; return their number.

    The rounding error of a component's log joint is at most b[0] + b[1]·q, that of a class the mean over
    its components; that of the probabilities is Σ p(1−p) times it.
    """
    q, e = work.scores.q, work.scores.e
    one, tolerance = q.dtype.type(1), q.dtype.type(TOLERANCE)
    found = 0
    for b in range(0, q.shape[1], simd_width(q)):
        error = full(q.dtype.type(0))
        for k in range(e.shape[0]):
            p = load(e, (k, b))
            error += p * (one - p) * _bound_of_class(densities, w, components, k, b, work.scores)
        if any_above(error, tolerance):
            store(work.error, (b,), error)
            for c in range(b, b + simd_width(q)):
                if work.error[c] > tolerance:
                    work.chosen[found] = c
                    found += 1
    return found


@njit(**INNER)
def _bound_of_component(densities, w, c, b, q):
    return number(densities.rounding_bound, (w, c, 0)) + number(densities.rounding_bound, (w, c, 1)) * load(
        q, (c, b)
    )


@njit(**INNER)
def _bound_of_class(densities, w, components, k, b, scores):
    """Bound of the rounding error of the log odds of a class."""
    if components is None:
        return _bound_of_component(densities, w, k, b, scores.q)
    total = full(scores.q.dtype.type(0))
    for c in range(components.first[k], components.first[k + 1]):
        total += load(scores.r, (c, b)) * _bound_of_component(densities, w, c, b, scores.q)
    return total * scores.q.dtype.type(components.sharpness[0])


@njit(**INNER)
def _recompute_in_double(measured, coefficients, exact, w, components, found, work, double):
    """Recompute some points of a block in double precision, from the measured values."""
    before, after = work.scores, double.scores
    for first in range(0, found, FEW):
        n = min(FEW, found - first)
        for i in range(FEW):
            b = work.chosen[first + min(i, n - 1)]
            for j in range(measured.shape[0]):
                double.x[j, i] = measured[j, b]
        score(double.x, coefficients, exact, w, components, double)
        for i in range(n):
            b = work.chosen[first + i]
            before.s[b] = after.s[i]
            for c in range(before.q.shape[0]):
                before.q[c, b], before.v[c, b] = after.q[c, i], after.v[c, i]
            for c in range(before.r.shape[0]):
                before.r[c, b] = after.r[c, i]
            for k in range(before.t.shape[0]):
                before.t[k, b], before.e[k, b] = after.t[k, i], after.e[k, i]


@njit(**INNER)
def find_distances(densities, w, work):
    """Squared distances of a block to all components."""
    for c in range(work.scores.q.shape[0]):
        squared_distance(work.x, densities.whitening[w, c], densities.shift[w, c], work.scores.q[c])


@njit(**INNER)
def score(raw, coefficients, densities, w, components, work):
    """Distances and probabilities of a block in world w."""
    centre_points(raw, coefficients, densities.centre, work.x)
    find_distances(densities, w, work)
    probabilities_of_distances(densities, w, components, work.scores)


@njit(**INNER)
def score_block(
    raw, measured, coefficients, precise, densities, exact, w, components, recompute, work, double
):
    """Distances and probabilities of a block in world w, recomputed in double precision where needed.

    ``measured`` is ``raw`` before it was rounded, and ``precise`` are the coefficients before they were.
    """
    score(raw, coefficients, densities, w, components, work)
    if recompute:
        found = find_inexact(densities, w, components, work)
        if found:
            _recompute_in_double(measured, precise, exact, w, components, found, work, double)
