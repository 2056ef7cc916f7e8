"""Probabilities of samples, averaged over realisations."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from uncover.engines.compiled.scores import BLOCK, BlockScores, Workspace, find_inexact, make_workspace, score
from uncover.engines.compiled.simd import (
    INNER,
    OPTIONS,
    borrowed,
    load,
    prefetch,
    simd_width,
    store,
    transpose,
)

# Bytes of points, so that they and the class model they meet stay in the cache next to the processor.
_NEAR = 16384


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
