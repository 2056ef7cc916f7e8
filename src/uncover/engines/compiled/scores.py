"""From points to class probabilities: of a block, and of samples averaged over realisations.

In single precision, and recomputed in double where that is not enough.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from uncover.engines.compiled.functions import exponential, log_one_plus, surface_reflectance
from uncover.engines.compiled.simd import (
    INNER,
    OPTIONS,
    any_above,
    borrowed,
    full,
    larger,
    lesser,
    load,
    number,
    prefetch,
    simd_width,
    store,
    transpose,
)

# Points scored together: their scores stay in the nearest cache.
BLOCK = 128
# Probabilities whose error in single precision may exceed this, by a bound that is twice the largest error
# that was found, are recomputed in double precision.
TOLERANCE = np.float32(2e-5)
# Number of points recomputed together.
FEW = 8
# Bytes of points, so that they and the class model they meet stay in the cache next to the processor.
_NEAR = 16384


@njit(**INNER)
def centre_points(source, coefficients, centre, x):
    """Values less the common centre (two numbers a feature: what the first loses is in the second).

    With coefficients (3, feature) the values are at the top of the atmosphere, and become those of the
    surface: y/(B + S·y) with y = value − A.
    """
    p, n = x.shape
    for j in range(p):
        c, low = centre[0, j], centre[1, j]
        if coefficients.shape[0] > 0:
            path, slope, albedo = coefficients[0, j], coefficients[1, j], coefficients[2, j]
            for b in range(0, n, simd_width(x)):
                surface = surface_reflectance(load(source, (j, b)), path, slope, albedo)
                store(x, (j, b), (surface - c) - low)
        else:
            for b in range(0, n, simd_width(x)):
                store(x, (j, b), (load(source, (j, b)) - c) - low)


@njit(**INNER)
def _four_rows(x, W, shift, i, b):
    """Sum of squares of rows i … i+3 of Wx − shift: each number that is loaded is used four times."""
    z0, z1 = full(-number(shift, (i,))), full(-number(shift, (i + 1,)))
    z2, z3 = full(-number(shift, (i + 2,))), full(-number(shift, (i + 3,)))
    for j in range(i):
        at = load(x, (j, b))
        z0 += number(W, (i, j)) * at
        z1 += number(W, (i + 1, j)) * at
        z2 += number(W, (i + 2, j)) * at
        z3 += number(W, (i + 3, j)) * at
    x0, x1, x2, x3 = load(x, (i, b)), load(x, (i + 1, b)), load(x, (i + 2, b)), load(x, (i + 3, b))
    z0 += number(W, (i, i)) * x0
    z1 += number(W, (i + 1, i)) * x0
    z2 += number(W, (i + 2, i)) * x0
    z3 += number(W, (i + 3, i)) * x0
    z1 += number(W, (i + 1, i + 1)) * x1
    z2 += number(W, (i + 2, i + 1)) * x1
    z3 += number(W, (i + 3, i + 1)) * x1
    z2 += number(W, (i + 2, i + 2)) * x2
    z3 += number(W, (i + 3, i + 2)) * x2
    z3 += number(W, (i + 3, i + 3)) * x3
    return (z0 * z0 + z1 * z1) + (z2 * z2 + z3 * z3)


@njit(**INNER)
def _two_rows(x, W, shift, i, b):
    """The same of the last two rows, where there are two beside the fours."""
    z0, z1 = full(-number(shift, (i,))), full(-number(shift, (i + 1,)))
    for j in range(i):
        at = load(x, (j, b))
        z0 += number(W, (i, j)) * at
        z1 += number(W, (i + 1, j)) * at
    x0, x1 = load(x, (i, b)), load(x, (i + 1, b))
    z0 += number(W, (i, i)) * x0
    z1 += number(W, (i + 1, i)) * x0
    z1 += number(W, (i + 1, i + 1)) * x1
    return z0 * z0 + z1 * z1


@njit(**INNER)
def squared_distance(x, W, shift, q):
    """q = |Wx − shift|² of points x (feature, point), W lower triangular; the number of features is even."""
    p, n = x.shape
    fours = p - p % 4
    for b in range(0, n, simd_width(x)):
        total = full(q.dtype.type(0))
        for i in range(0, fours, 4):
            total += _four_rows(x, W, shift, i, b)
        if fours < p:
            total += _two_rows(x, W, shift, fours, b)
        store(q, (b,), total)


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


@njit(**INNER)
def _points_together(p, X):
    """Number of points of p features that make a block."""
    width = BLOCK
    while width > simd_width(X) and width * p * X.itemsize > _NEAR:
        width //= 2
    return width


@njit(**INNER)
def _features_first(X, start, m, r, raw):
    """A block of samples (sample, realisation, feature) as (feature, sample); the last one fills it."""
    p, square = X.shape[2], simd_width(X) // 2
    whole = m - m % square if p >= square else 0
    for b in range(0, whole, square):
        for c in range(b, b + square):
            for j in range(0, p, 2 * square):
                prefetch(X, (start + m + c, r, j))
        for j in range(0, p - square, square):
            transpose(X, (start + b, r, j), raw, (j, b))
        transpose(X, (start + b, r, p - square), raw, (p - square, b))
    for b in range(whole, raw.shape[1]):
        for j in range(p):
            raw[j, b] = X[start + min(b, m - 1), r, j]


class Deferred(NamedTuple):
    """Points to be recomputed in double precision: many together, whatever their realisation."""

    work: Workspace  # x is what was measured of them, and chosen are their places in the block
    total: NDArray[np.float64]  # (class, point), sums of their probabilities


@njit(**INNER)
def _defer(raw, found, work, deferred, waiting):
    """Defer the chosen points; until they are recomputed they count nothing."""
    for i in range(found):
        b = work.chosen[i]
        deferred.work.chosen[waiting + i] = b
        for j in range(raw.shape[0]):
            deferred.work.x[j, waiting + i] = raw[j, b]
        for k in range(work.scores.e.shape[0]):
            work.scores.e[k, b] = 0
    return waiting + found


@njit(**INNER)
def _recompute_deferred(exact, w, components, waiting, deferred):
    """Recompute the deferred points in double precision, and add their probabilities."""
    width = waiting + (-waiting) % simd_width(deferred.total)
    x, (q, v, r, t, e, s), error, chosen = deferred.work
    for b in range(waiting, width):
        for j in range(x.shape[0]):
            x[j, b] = x[j, waiting - 1]
    scores = BlockScores(q[:, :width], v[:, :width], r[:, :width], t[:, :width], e[:, :width], s[:width])
    score(
        x[:, :width], exact.centre[:0], exact, w, components, Workspace(x[:, :width], scores, error, chosen)
    )
    for i in range(waiting):
        for k in range(e.shape[0]):
            deferred.total[k, chosen[i]] += e[k, i]


@njit(**OPTIONS)
def average_probability(X, realisations, worlds, densities, exact, components, recompute, out):
    """Probabilities of X (sample, realisation, feature), averaged over pairs of realisation and world.

    ``densities`` has the type of X; ``exact`` is the same in double precision, for recomputing.
    """
    even = X.shape[2] + X.shape[2] % 2
    width = min(_points_together(even, X), len(X) + (-len(X)) % simd_width(X))
    raw, total = np.zeros((even, width), X.dtype), np.empty((out.shape[1], width), X.dtype)
    work = make_workspace(even, width, densities, components)
    deferred = Deferred(make_workspace(even, width, exact, components), np.empty((out.shape[1], width)))
    _average(
        X, (realisations, worlds), densities, exact, components, recompute, raw, total, work, deferred, out
    )


@njit(**INNER)
def _average(X, pairs, densities, exact, components, recompute, raw, total, work, deferred, out):
    X, densities, exact, components, out = (
        borrowed(X),
        borrowed(densities),
        borrowed(exact),
        borrowed(components),
        borrowed(out),
    )
    raw, total, work, deferred = borrowed(raw), borrowed(total), borrowed(work), borrowed(deferred)
    realisations, worlds = borrowed(pairs)
    width = total.shape[1]
    share = 1.0 / len(worlds)
    for start in range(0, len(X), width):
        m = min(width, len(X) - start)
        total[:] = 0
        deferred.total[:] = 0
        waiting = 0
        for i in range(len(worlds)):
            _features_first(X, start, m, realisations[i], raw)
            score(raw, raw[:0], densities, worlds[i], components, work)
            found = find_inexact(densities, worlds[i], components, work) if recompute else 0
            if waiting and (worlds[i] != worlds[i - 1] or waiting + found > width):
                _recompute_deferred(exact, worlds[i - 1], components, waiting, deferred)
                waiting = 0
            waiting = _defer(raw, found, work, deferred, waiting)
            _add(work.scores.e, total)
        if waiting:
            _recompute_deferred(exact, worlds[-1], components, waiting, deferred)
        for b in range(m):
            for k in range(out.shape[1]):
                out[start + b, k] = (total[k, b] + deferred.total[k, b]) * share


@njit(**INNER)
def _add(e, total):
    for k in range(e.shape[0]):
        for b in range(0, e.shape[1], simd_width(e)):
            store(total, (k, b), load(total, (k, b)) + load(e, (k, b)))
