"""Probabilities of samples, averaged over realisations."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from uncover.bayes.compiled.lanes import INNER, OPTIONS, borrowed, expect, lanes_of, load, store, turn
from uncover.bayes.compiled.weighing import BLOCK, Room, Seen, find_doubtful, make_room, see

# Bytes of points, so that they and the class model they meet stay in the cache next to the processor.
_NEAR = 16384


@njit(**INNER)
def _points_together(p, X):
    """How many points of p features make a block."""
    width = BLOCK
    while width > lanes_of(X) and width * p * X.itemsize > _NEAR:
        width //= 2
    return width


@njit(**INNER)
def _features_first(X, start, m, r, raw):
    """A block of samples (sample, realisation, feature) as (feature, sample); the last one fills it."""
    p, square = X.shape[2], lanes_of(X) // 2
    whole = m - m % square if p >= square else 0
    for b in range(0, whole, square):
        for c in range(b, b + square):
            for j in range(0, p, 2 * square):
                expect(X, (start + m + c, r, j))
        for j in range(0, p - square, square):
            turn(X, (start + b, r, j), raw, (j, b))
        turn(X, (start + b, r, p - square), raw, (p - square, b))
    for b in range(whole, raw.shape[1]):
        for j in range(p):
            raw[j, b] = X[start + min(b, m - 1), r, j]


class Late(NamedTuple):
    """Points that wait for a second look, in double precision: many together, whatever their realisation."""

    room: Room  # x is what was measured of them, and chosen are their places in the block
    total: NDArray[np.float64]  # (class, point), sums of their probabilities


@njit(**INNER)
def _put_off(raw, found, room, late, waiting):
    """Add the points that were chosen to those that wait; they count nothing until then."""
    for i in range(found):
        b = room.chosen[i]
        late.room.chosen[waiting + i] = b
        for j in range(raw.shape[0]):
            late.room.x[j, waiting + i] = raw[j, b]
        for k in range(room.seen.e.shape[0]):
            room.seen.e[k, b] = 0
    return waiting + found


@njit(**INNER)
def _catch_up(exact, w, fold, waiting, late):
    """Look at the points that wait, and add their probabilities."""
    width = waiting + (-waiting) % lanes_of(late.total)
    x, (q, v, r, t, e, s), error, chosen = late.room
    for b in range(waiting, width):
        for j in range(x.shape[0]):
            x[j, b] = x[j, waiting - 1]
    seen = Seen(q[:, :width], v[:, :width], r[:, :width], t[:, :width], e[:, :width], s[:width])
    see(x[:, :width], exact.centre[:0], exact, w, fold, Room(x[:, :width], seen, error, chosen))
    for i in range(waiting):
        for k in range(e.shape[0]):
            late.total[k, chosen[i]] += e[k, i]


@njit(**OPTIONS)
def average_probability(X, realisations, worlds, lens, exact, fold, twice, out):
    """Probabilities of X (sample, realisation, feature), averaged over pairs of realisation and world.

    ``lens`` has the type of X; ``exact`` is the same in double precision, for what single precision cannot.
    """
    even = X.shape[2] + X.shape[2] % 2
    width = min(_points_together(even, X), len(X) + (-len(X)) % lanes_of(X))
    raw, total = np.zeros((even, width), X.dtype), np.empty((out.shape[1], width), X.dtype)
    room = make_room(even, width, lens, fold)
    late = Late(make_room(even, width, exact, fold), np.empty((out.shape[1], width)))
    _average(X, (realisations, worlds), lens, exact, fold, twice, raw, total, room, late, out)


@njit(**INNER)
def _average(X, pairs, lens, exact, fold, twice, raw, total, room, late, out):
    X, lens, exact, fold, out = borrowed(X), borrowed(lens), borrowed(exact), borrowed(fold), borrowed(out)
    raw, total, room, late = borrowed(raw), borrowed(total), borrowed(room), borrowed(late)
    realisations, worlds = borrowed(pairs)
    width = total.shape[1]
    share = 1.0 / len(worlds)
    for start in range(0, len(X), width):
        m = min(width, len(X) - start)
        total[:] = 0
        late.total[:] = 0
        waiting = 0
        for i in range(len(worlds)):
            _features_first(X, start, m, realisations[i], raw)
            see(raw, raw[:0], lens, worlds[i], fold, room)
            found = find_doubtful(lens, worlds[i], fold, room) if twice else 0
            if waiting and (worlds[i] != worlds[i - 1] or waiting + found > width):
                _catch_up(exact, worlds[i - 1], fold, waiting, late)
                waiting = 0
            waiting = _put_off(raw, found, room, late, waiting)
            _add(room.seen.e, total)
        if waiting:
            _catch_up(exact, worlds[-1], fold, waiting, late)
        for b in range(m):
            for k in range(out.shape[1]):
                out[start + b, k] = (total[k, b] + late.total[k, b]) * share


@njit(**INNER)
def _add(e, total):
    for k in range(e.shape[0]):
        for b in range(0, e.shape[1], lanes_of(e)):
            store(total, (k, b), load(total, (k, b)) + load(e, (k, b)))
