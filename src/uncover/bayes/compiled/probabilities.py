"""Probabilities of samples, averaged over realisations."""

import numpy as np
from numba import njit

from uncover.bayes.compiled.lanes import INNER, OPTIONS, borrowed, lanes_of, load, store, turn
from uncover.bayes.compiled.weighing import BLOCK, FEW, look, make_room


@njit(**INNER)
def _features_first(X, start, m, r, raw):
    """A block of samples (sample, realisation, feature) as (feature, sample); the last one fills it."""
    p, square = X.shape[2], lanes_of(X) // 2
    whole = m - m % square if p >= square else 0
    for b in range(0, whole, square):
        for j in range(0, p - square, square):
            turn(X, (start + b, r, j), raw, (j, b))
        turn(X, (start + b, r, p - square), raw, (p - square, b))
    for b in range(whole, raw.shape[1]):
        for j in range(p):
            raw[j, b] = X[start + min(b, m - 1), r, j]


@njit(**OPTIONS)
def average_probability(X, realisations, worlds, lens, exact, twice, out):
    """Probabilities of X (sample, realisation, feature), averaged over pairs of realisation and world.

    ``lens`` has the type of X; ``exact`` is the same in double precision, for what single precision cannot.
    """
    even, K = X.shape[2] + X.shape[2] % 2, out.shape[1]
    width = min(BLOCK, len(X) + (-len(X)) % lanes_of(X))
    raw, total = np.zeros((even, width), X.dtype), np.empty((K, width), X.dtype)
    room, again = make_room(even, K, width, X), make_room(even, K, FEW, exact.centre)
    _average(X, realisations, worlds, lens, exact, twice, raw, total, room, again, out)


@njit(**INNER)
def _average(X, realisations, worlds, lens, exact, twice, raw, total, room, again, out):
    X, lens, exact, out = borrowed(X), borrowed(lens), borrowed(exact), borrowed(out)
    raw, total, room, again = borrowed(raw), borrowed(total), borrowed(room), borrowed(again)
    K, width = total.shape
    none, nothing = raw[:0], exact.centre[:0]
    share = X.dtype.type(1.0 / len(realisations))
    for start in range(0, len(X), width):
        m = min(width, len(X) - start)
        total[:] = 0
        for i in range(len(realisations)):
            _features_first(X, start, m, realisations[i], raw)
            look(raw, raw, none, nothing, lens, exact, worlds[i], twice, room, again)
            for k in range(K):
                for b in range(0, width, lanes_of(X)):
                    store(total, (k, b), load(total, (k, b)) + load(room.seen.e, (k, b)))
        for b in range(m):
            for k in range(K):
                out[start + b, k] = total[k, b] * share
