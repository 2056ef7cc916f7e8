"""From points to probabilities: log joints, their softmax, and a second look in double precision."""

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
# Probabilities whose error in single precision may exceed this, by a bound that is five times too large in
# the worst case that was found, are computed again in double precision.
TOLERANCE = np.float32(2e-5)
# How many of these are taken together.
FEW = 8


class Seen(NamedTuple):
    """What is found out of points, all of it written by :func:`weigh` but for q."""

    q: NDArray[Any]  # (class, point), squared distances
    v: NDArray[Any]  # (class, point), depths log(1 + q/ν)
    t: NDArray[Any]  # (class, point), log joints less the largest
    e: NDArray[Any]  # (class, point), probabilities
    s: NDArray[Any]  # (point,), 1/Σ exp(t)


class Room(NamedTuple):
    """Room for a block of points."""

    x: NDArray[Any]  # (feature, point), values less the centre
    seen: Seen
    error: NDArray[Any]  # (point,), bound of what single precision does to the probabilities
    chosen: NDArray[np.int64]  # (point,), which points need a second look


@njit(**INNER)
def make_room(p, K, n, like):
    """Room for n points of p features and K classes, in the type of an array."""
    kind = like.dtype
    seen = Seen(
        np.empty((K, n), kind), np.empty((K, n), kind), np.empty((K, n), kind), np.empty((K, n), kind),
        np.empty(n, kind),
    )  # fmt: skip
    return Room(np.empty((p, n), kind), seen, np.empty(n, kind), np.empty(n, np.int64))


@njit(**INNER)
def weigh(lens, w, seen):
    """Depths, log joints and probabilities in world w, from distances."""
    q, v, t, e, s = seen
    K, n = q.shape
    one = q.dtype.type(1)
    largest = lens.largest[0]
    for b in range(0, n, lanes_of(q)):
        top = full(q.dtype.type(-np.inf))
        for k in range(K):
            depth = log_one_plus(lesser(load(q, (k, b)), largest) * number(lens.inverse_dof, (w, k)))
            joint = number(lens.log_weight, (w, k)) - number(lens.slope, (w, k)) * depth
            top = larger(joint, top)
            store(v, (k, b), depth)
            store(t, (k, b), joint)
        total = full(q.dtype.type(0))
        for k in range(K):
            joint = load(t, (k, b)) - top
            odds = exponential(joint)
            total += odds
            store(t, (k, b), joint)
            store(e, (k, b), odds)
        share = one / total
        store(s, (b,), share)
        for k in range(K):
            store(e, (k, b), load(e, (k, b)) * share)


@njit(**INNER)
def _doubtful(lens, w, room):
    """Number of points whose probabilities single precision may not give, and which they are.

    The error of a class's log joint is doubt[0] + doubt[1]·q; that of the probabilities Σ p(1−p) times it.
    """
    q, e = room.seen.q, room.seen.e
    K, n = q.shape
    one = q.dtype.type(1)
    found = 0
    for b in range(0, n, lanes_of(q)):
        error = full(q.dtype.type(0))
        for k in range(K):
            fixed, growing = number(lens.doubt, (w, k, 0)), number(lens.doubt, (w, k, 1))
            probability = load(e, (k, b))
            error += probability * (one - probability) * (fixed + growing * load(q, (k, b)))
        if any_above(error, q.dtype.type(TOLERANCE)):
            store(room.error, (b,), error)
            for c in range(b, b + lanes_of(q)):
                if room.error[c] > TOLERANCE:
                    room.chosen[found] = c
                    found += 1
    return found


@njit(**INNER)
def _look_again(measured, coefficients, exact, w, found, room, again):
    """Compute some points of a block again, in double precision from what was measured."""
    p, K = measured.shape[0], room.seen.q.shape[0]
    for first in range(0, found, FEW):
        n = min(FEW, found - first)
        for c in range(FEW):
            b = room.chosen[first + min(c, n - 1)]
            for j in range(p):
                again.x[j, c] = measured[j, b]
        centre_points(again.x, coefficients, exact.centre, again.x)
        for k in range(K):
            squared_distance(again.x, exact.whitening[w, k], exact.shift[w, k], again.seen.q[k])
        weigh(exact, w, again.seen)
        for c in range(n):
            b = room.chosen[first + c]
            room.seen.s[b] = again.seen.s[c]
            for k in range(K):
                room.seen.q[k, b], room.seen.v[k, b] = again.seen.q[k, c], again.seen.v[k, c]
                room.seen.t[k, b], room.seen.e[k, b] = again.seen.t[k, c], again.seen.e[k, c]


@njit(**INNER)
def look(raw, measured, coefficients, precise, lens, exact, w, twice, room, again):
    """Distances and probabilities of a block in world w, in double precision where it takes that.

    ``measured`` is ``raw`` before it was rounded, and ``precise`` are the coefficients before they were.
    """
    centre_points(raw, coefficients, lens.centre, room.x)
    for k in range(room.seen.q.shape[0]):
        squared_distance(room.x, lens.whitening[w, k], lens.shift[w, k], room.seen.q[k])
    weigh(lens, w, room.seen)
    if twice:
        found = _doubtful(lens, w, room)
        if found:
            _look_again(measured, precise, exact, w, found, room, again)
