"""Machine code for drawing the true values of pixels whose noise is known, and for what they would tell.

One pixel after the other, whose draws are the lanes of the innermost loops.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from uncover.bayes.compiled.functions import log_one_plus
from uncover.bayes.compiled.lanes import INNER, OPTIONS
from uncover.bayes.compiled.weighing import Seen


class RoomForDraws(NamedTuple):
    """Room for the true values of a block of pixels."""

    noise: NDArray[Any]  # (feature, draw)
    A: NDArray[Any]  # (feature, feature), a factor and its mirror image
    inverse: NDArray[Any]  # (feature,), of its diagonal
    ends: NDArray[np.int64]  # (part,), where the draws of each end
    u: NDArray[Any]  # (feature, draw)
    chi: NDArray[Any]  # (feature, pixel · draw), true values
    seen: Seen
    w: NDArray[Any]  # (draw,), as the next two
    rows: NDArray[Any]
    terms: NDArray[Any]


@njit(**INNER)
def make_seen(parts, K, n):
    """Room for what is found out of n points."""
    q, v, r = np.empty((parts, n)), np.empty((parts, n)), np.empty((parts, n))
    return Seen(q, v, r, np.empty((K, n)), np.empty((K, n)), np.empty(n))


@njit(**OPTIONS)
def make_room_for_draws(p, parts, K, padded, n):
    """Room for draws, padded, of n pixels of p features; rows of the factors are by fours, and four more."""
    even, fours = p + p % 2, p + (-p) % 4
    A, inverse, ends = np.zeros((p, fours + 4)), np.empty(p), np.empty(parts, np.int64)
    noise, u, chi = np.zeros((even, padded)), np.zeros((fours + 4, padded)), np.zeros((even, n * padded))
    seen = make_seen(parts, K, n * padded)
    w, rows, terms = np.empty(padded), np.empty(padded), np.empty(padded)
    return RoomForDraws(noise, A, inverse, ends, u, chi, seen, w, rows, terms)


@njit(**OPTIONS)
def _noise_of_draws(f, lane, weights, g, noise):
    """Drawn noise of a pixel, Σ_r f_r w_r: (feature, draw), features by twos."""
    even, n = noise.shape
    for i in range(0, even, 2):
        for d in range(n):
            noise[i, d] = 0.0
            noise[i + 1, d] = 0.0
        for r in range(0, weights.shape[1], 4):
            a0, a1, a2, a3 = f[r, i, lane], f[r + 1, i, lane], f[r + 2, i, lane], f[r + 3, i, lane]
            c0, c1 = f[r, i + 1, lane], f[r + 1, i + 1, lane]
            c2, c3 = f[r + 2, i + 1, lane], f[r + 3, i + 1, lane]
            for d in range(n):
                w0, w1 = weights[g, r, d], weights[g, r + 1, d]
                w2, w3 = weights[g, r + 2, d], weights[g, r + 3, d]
                noise[i, d] += a0 * w0 + a1 * w1 + a2 * w2 + a3 * w3
                noise[i + 1, d] += c0 * w0 + c1 * w1 + c2 * w2 + c3 * w3


@njit(**OPTIONS)
def _solve(A, inverse, low, high, u):
    """Solve L Lᵀ y = u in place, u (feature, draw), from draw low to high.

    A has the lower triangle of L and its mirror image, without the diagonal, which is inverted apart. Rows
    are padded to fours by zeros: what is not known yet counts nothing.
    """
    p = len(inverse)
    for i in range(p):
        for k in range(0, i, 4):
            a0, a1, a2, a3 = A[i, k], A[i, k + 1], A[i, k + 2], A[i, k + 3]
            if k + 4 > i:
                a1, a2, a3 = (
                    (a1 if k + 1 < i else 0.0),
                    (a2 if k + 2 < i else 0.0),
                    (a3 if k + 3 < i else 0.0),
                )
            for d in range(low, high):
                u[i, d] -= a0 * u[k, d] + a1 * u[k + 1, d] + a2 * u[k + 2, d] + a3 * u[k + 3, d]
        scale = inverse[i]
        for d in range(low, high):
            u[i, d] *= scale
    for i in range(p - 1, -1, -1):
        for k in range(i + 1, p, 4):
            a0, a1, a2, a3 = A[i, k], A[i, k + 1], A[i, k + 2], A[i, k + 3]
            for d in range(low, high):
                u[i, d] -= a0 * u[k, d] + a1 * u[k + 1, d] + a2 * u[k + 2, d] + a3 * u[k + 3, d]
        scale = inverse[i]
        for d in range(low, high):
            u[i, d] *= scale


@njit(**OPTIONS)
def _true_values(x, lane, A, inverse, g, k, prior, common, gain, noise, first, last, u, place, chi):
    """Draws first … last of the true value by Matheron's rule: drawn before, moved by what was measured."""
    p = len(inverse)
    low, high = first - first % 8, last + (-last) % 8
    for i in range(p):
        value = x[i, lane]
        for d in range(low, high):
            u[i, d] = value - prior[g, k, i, d] - noise[i, d] - common[g, k, i, d]
    _solve(A, inverse, low, high, u)
    for i in range(p):
        for d in range(first, last):
            chi[i, place + d] = prior[g, k, i, d]
        for j in range(0, p, 4):
            a0, a1, a2, a3 = gain[k, i, j], gain[k, i, j + 1], gain[k, i, j + 2], gain[k, i, j + 3]
            for d in range(first, last):
                chi[i, place + d] += a0 * u[j, d] + a1 * u[j + 1, d] + a2 * u[j + 2, d] + a3 * u[j + 3, d]


@njit(**OPTIONS)
def _mirrored(L, k, lane, A, inverse):
    """The factor of one pixel and its mirror image."""
    for i in range(len(inverse)):
        inverse[i] = L[k, i, i, lane]
        for j in range(i):
            A[i, j] = L[k, i, j, lane]
            A[j, i] = L[k, i, j, lane]


@njit(**OPTIONS)
def _plogp(w, n, terms):
    """Σ −w log w; the terms are kept apart so that they are vectors."""
    for d in range(n):
        safe = w[d] if w[d] > 1e-300 else 1e-300
        terms[d] = safe * log_one_plus(1.0 / safe - 1.0 if safe < 1.0 else 0.0)
    total = 0.0
    for d in range(n):
        total += terms[d]
    return total


@njit(**OPTIONS)
def information_of_draws(at_truth, place, probability, lane, entropy, n, w, rows, terms):
    """I(draw; class) of the table whose columns are normalised to the probabilities."""
    for d in range(n):
        rows[d] = 0.0
    rest = 0.0
    for k in range(at_truth.shape[0]):
        total = 0.0
        for d in range(n):
            total += at_truth[k, place + d]
        share = probability[k, lane] / total if total > 1e-290 else 0.0
        even = 0.0 if total > 1e-290 else probability[k, lane] / n
        for d in range(n):
            w[d] = even + share * at_truth[k, place + d]
            rows[d] += w[d]
        rest += _plogp(w, n, terms)
    rest -= _plogp(rows, n, terms)
    return min(max(entropy - rest, 0.0), entropy)


@njit(**OPTIONS)
def _chosen(probability, lane, n, ends):
    """Draws of class k are those before ends[k]: by their level in the cumulated probabilities."""
    total = 0.0
    for k in range(len(ends)):
        total += probability[k, lane]
    reached, end = 0.0, 0
    for k in range(len(ends)):
        reached += probability[k, lane]
        while end < n and (end + 0.5) / n * total <= reached:
            end += 1
        ends[k] = end
    ends[-1] = n


@njit(**OPTIONS)
def draw_true_values(gain, draws, found, room, drawn):
    """True values of the pixels in doubt, of which so many were found: chi (feature, pixel · draw)."""
    p, K, J, padded = room.L.shape[1], room.L.shape[0], draws.n, draws.prior.shape[3]
    chi, ends = drawn.chi, drawn.ends
    for number in range(found):
        lane, place = room.doubtful[number], number * padded
        g = room.sets[lane]
        if draws.weights.shape[1] > 0:
            _noise_of_draws(room.f, lane, draws.weights, g, drawn.noise)
        _chosen(room.of_parts, lane, J, ends)
        first = 0
        for k in range(K):
            if ends[k] > first:
                _mirrored(room.L, k, lane, drawn.A, drawn.inverse)
                _true_values(
                    room.x, lane, drawn.A, drawn.inverse, g, k, draws.prior, draws.common, gain,
                    drawn.noise, first, ends[k], drawn.u, place, chi,
                )  # fmt: skip
                first = ends[k]
        for i in range(p):
            for d in range(J, padded):
                chi[i, place + d] = chi[i, place + J - 1]
