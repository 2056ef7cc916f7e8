"""From points to probabilities: log joints, log odds, and a second look in double precision."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from uncover.bayes.compiled.distances import centre_points, squared_distance
from uncover.bayes.compiled.functions import exponential, log_one_plus
from uncover.bayes.compiled.lanes import (
    INNER,
    any_above,
    full,
    lanes_of,
    larger,
    lesser,
    load,
    number,
    store,
)

# Points that are looked at together: what is known of them stays in the cache next to the processor.
BLOCK = 128
# Probabilities whose error in single precision may exceed this, by a bound that is twice the largest error
# that was found, are computed again in double precision.
TOLERANCE = np.float32(2e-5)
# How many of these are taken together.
FEW = 8


class Seen(NamedTuple):
    """What is found out of points: all but q is written by :func:`weigh`.

    A class may consist of several parts, whose densities add up; otherwise it is its only part.
    """

    q: NDArray[Any]  # (part, point), squared distances
    v: NDArray[Any]  # (part, point), depths log(1 + q/ν)
    r: NDArray[Any]  # (part, point), the share of each part in its class; empty without a fold
    t: NDArray[Any]  # (class, point), log odds less the largest
    e: NDArray[Any]  # (class, point), probabilities
    s: NDArray[Any]  # (point,), 1/Σ exp(t)


class Room(NamedTuple):
    """Room for a block of points."""

    x: NDArray[Any]  # (feature, point), values less the centre
    seen: Seen
    error: NDArray[Any]  # (point,), bound of what single precision does to the probabilities
    chosen: NDArray[np.int64]  # (point,), which points need a second look


@njit(**INNER)
def make_room(p, n, lens, fold):
    """Room for n points of p features, in the type of the lens."""
    kind = lens.whitening.dtype
    parts = lens.dof.shape[1]
    K = parts if fold is None else len(fold.first) - 1
    seen = Seen(
        q=np.empty((parts, n), kind),
        v=np.empty((parts, n), kind),
        r=np.empty((0 if fold is None else parts, n), kind),
        t=np.empty((K, n), kind),
        e=np.empty((K, n), kind),
        s=np.empty(n, kind),
    )
    return Room(np.empty((p, n), kind), seen, np.empty(n, kind), np.empty(n, np.int64))


@njit(**INNER)
def weigh(lens, w, fold, seen):
    """Depths, log odds and probabilities in world w, from distances."""
    for b in range(0, seen.q.shape[1], lanes_of(seen.q)):
        if fold is None:
            _find_joints(lens, w, b, seen, seen.t)
        else:
            _find_joints(lens, w, b, seen, seen.r)
            _fold(fold, b, seen)
        _normalise(b, seen)


@njit(**INNER)
def weigh_parts(fold, seen):
    """Log odds and probabilities of the classes, from log joints of their parts in the place of shares."""
    for b in range(0, seen.r.shape[1], lanes_of(seen.r)):
        _fold(fold, b, seen)
        _normalise(b, seen)


@njit(**INNER)
def _find_joints(lens, w, b, seen, joints):
    """Depths and log joints of the parts."""
    largest = lens.largest[0]
    for c in range(seen.q.shape[0]):
        depth = log_one_plus(lesser(load(seen.q, (c, b)), largest) * number(lens.inverse_dof, (w, c)))
        store(seen.v, (c, b), depth)
        store(joints, (c, b), number(lens.log_weight, (w, c)) - number(lens.slope, (w, c)) * depth)


@njit(**INNER)
def _fold(fold, b, seen):
    """Log odds of the classes, t = log Σ exp over their parts / T; log joints of parts become shares."""
    one, sharpness = seen.t.dtype.type(1), seen.t.dtype.type(fold.sharpness[0])
    for k in range(seen.t.shape[0]):
        start, end = fold.first[k], fold.first[k + 1]
        top = load(seen.r, (start, b))
        for c in range(start + 1, end):
            top = larger(load(seen.r, (c, b)), top)
        total = full(seen.t.dtype.type(0))
        for c in range(start, end):
            share = exponential(load(seen.r, (c, b)) - top)
            total += share
            store(seen.r, (c, b), share)
        store(seen.t, (k, b), (top + log_one_plus(total - one)) * sharpness)
        inverse = one / total
        for c in range(start, end):
            store(seen.r, (c, b), load(seen.r, (c, b)) * inverse)


@njit(**INNER)
def _normalise(b, seen):
    """Probabilities from log odds."""
    t, e = seen.t, seen.e
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
    store(seen.s, (b,), share)
    for k in range(t.shape[0]):
        store(e, (k, b), load(e, (k, b)) * share)


@njit(**INNER)
def find_doubtful(lens, w, fold, room):
    """Number of points whose probabilities single precision may not give, and which they are.

    The error of a part's log joint is doubt[0] + doubt[1]·q, that of a class the mean over its parts; that of
    the probabilities is Σ p(1−p) times it.
    """
    q, e = room.seen.q, room.seen.e
    one, tolerance = q.dtype.type(1), q.dtype.type(TOLERANCE)
    found = 0
    for b in range(0, q.shape[1], lanes_of(q)):
        error = full(q.dtype.type(0))
        for k in range(e.shape[0]):
            p = load(e, (k, b))
            error += p * (one - p) * _doubt_of_class(lens, w, fold, k, b, room.seen)
        if any_above(error, tolerance):
            store(room.error, (b,), error)
            for c in range(b, b + lanes_of(q)):
                if room.error[c] > tolerance:
                    room.chosen[found] = c
                    found += 1
    return found


@njit(**INNER)
def _doubt_of_part(lens, w, c, b, q):
    return number(lens.doubt, (w, c, 0)) + number(lens.doubt, (w, c, 1)) * load(q, (c, b))


@njit(**INNER)
def _doubt_of_class(lens, w, fold, k, b, seen):
    """How far the log odds of a class may be off."""
    if fold is None:
        return _doubt_of_part(lens, w, k, b, seen.q)
    total = full(seen.q.dtype.type(0))
    for c in range(fold.first[k], fold.first[k + 1]):
        total += load(seen.r, (c, b)) * _doubt_of_part(lens, w, c, b, seen.q)
    return total * seen.q.dtype.type(fold.sharpness[0])


@njit(**INNER)
def _look_again(measured, coefficients, exact, w, fold, found, room, again):
    """Compute some points of a block again, in double precision from what was measured."""
    before, after = room.seen, again.seen
    for first in range(0, found, FEW):
        n = min(FEW, found - first)
        for i in range(FEW):
            b = room.chosen[first + min(i, n - 1)]
            for j in range(measured.shape[0]):
                again.x[j, i] = measured[j, b]
        see(again.x, coefficients, exact, w, fold, again)
        for i in range(n):
            b = room.chosen[first + i]
            before.s[b] = after.s[i]
            for c in range(before.q.shape[0]):
                before.q[c, b], before.v[c, b] = after.q[c, i], after.v[c, i]
            for c in range(before.r.shape[0]):
                before.r[c, b] = after.r[c, i]
            for k in range(before.t.shape[0]):
                before.t[k, b], before.e[k, b] = after.t[k, i], after.e[k, i]


@njit(**INNER)
def find_distances(lens, w, room):
    """Squared distances of a block to all parts."""
    for c in range(room.seen.q.shape[0]):
        squared_distance(room.x, lens.whitening[w, c], lens.shift[w, c], room.seen.q[c])


@njit(**INNER)
def see(raw, coefficients, lens, w, fold, room):
    """Distances and probabilities of a block in world w."""
    centre_points(raw, coefficients, lens.centre, room.x)
    find_distances(lens, w, room)
    weigh(lens, w, fold, room.seen)


@njit(**INNER)
def look(raw, measured, coefficients, precise, lens, exact, w, fold, twice, room, again):
    """Distances and probabilities of a block in world w, in double precision where it takes that.

    ``measured`` is ``raw`` before it was rounded, and ``precise`` are the coefficients before they were.
    """
    see(raw, coefficients, lens, w, fold, room)
    if twice:
        found = find_doubtful(lens, w, fold, room)
        if found:
            _look_again(measured, precise, exact, w, fold, found, room, again)
