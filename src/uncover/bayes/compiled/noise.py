"""Machine code for pixels whose noise is known, by numba: what :mod:`uncover.bayes.noisy_lens` computes.

The densities of a few pixels at a time, which are the lanes of the innermost loops; then their true values
(:mod:`uncover.bayes.compiled.true_values`). Blocks are padded, so that a pixel's result depends
neither on its place nor on its neighbours.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from uncover.bayes.compiled.distances import squared_distance
from uncover.bayes.compiled.functions import log_one_plus
from uncover.bayes.compiled.lanes import OPTIONS
from uncover.bayes.compiled.summaries import add_typicality, add_typicality_by_table, find_entropy
from uncover.bayes.compiled.true_values import (
    information_of_points,
    make_room_for_points,
    make_seen,
    place_true_values,
)
from uncover.bayes.compiled.weighing import Seen, weigh, weigh_parts
from uncover.bayes.noisy_lens import CERTAIN

LANES = 32


class Room(NamedTuple):
    """Room for a block of pixels."""

    raw: NDArray[Any]  # (feature, lane), values as they came
    x: NDArray[Any]  # (feature, lane), their mean, less the centre
    f: NDArray[Any]  # (realisation, feature, lane), values, then their deviations
    C: NDArray[Any]  # (feature, feature, lane), covariances
    z: NDArray[Any]  # (feature, lane), whitened
    L: NDArray[Any]  # (part, feature, feature, lane), factors
    log_det: NDArray[Any]  # (part, lane)
    far: NDArray[Any]  # (part, lane), squared distances without noise
    seen: Seen
    of_parts: NDArray[Any]  # (part, lane), probabilities
    p_value: NDArray[Any]  # (part, lane)
    inner: NDArray[Any]  # (lane,), entropy
    information: NDArray[Any]  # (lane,)
    doubtful: NDArray[np.int64]  # (lane,), which pixels are in doubt


@njit(**OPTIONS)
def _make_room(p, parts, K, columns):
    """Room for pixels of p features, by twos; realisations by fours."""
    even = p + p % 2
    doubtful = np.empty(LANES, np.int64)
    raw, x, z = np.empty((p, LANES)), np.zeros((even, LANES)), np.empty((p, LANES))
    f, C, L = (
        np.zeros((columns + (-columns) % 4, even, LANES)),
        np.zeros((p, p, LANES)),
        np.empty((parts, p, p, LANES)),
    )
    log_det, far = np.empty((parts, LANES)), np.empty((parts, LANES))
    of_parts, p_value = np.empty((parts, LANES)), np.empty((parts, LANES))
    inner, information, seen = np.empty(LANES), np.empty(LANES), make_seen(parts, K, LANES)
    return Room(raw, x, f, C, z, L, log_det, far, seen, of_parts, p_value, inner, information, doubtful)


@njit(**OPTIONS)
def _values(planes, coefficients, start, m, raw, x, f):
    """Values of all realisations, f (realisation, feature, lane), and their mean; the last pixel fills up."""
    corrected = coefficients.shape[0] > 0
    R, p = coefficients.shape[0] if corrected else planes.shape[0], planes.shape[1]
    x[:] = 0.0
    for r in range(R):
        for j in range(p):
            if r == 0 or not corrected:
                for b in range(m):
                    raw[j, b] = planes[r, j, start + b]
                for b in range(m, LANES):
                    raw[j, b] = raw[j, m - 1]
            if corrected:
                path, slope, albedo = coefficients[r, 0, j], coefficients[r, 1, j], coefficients[r, 2, j]
                for b in range(LANES):
                    y = raw[j, b] - path
                    f[r, j, b] = y / (slope + albedo * y)
            else:
                for b in range(LANES):
                    f[r, j, b] = raw[j, b]
            for b in range(LANES):
                x[j, b] += f[r, j, b]
    share = 1.0 / R
    for j in range(p):
        for b in range(LANES):
            x[j, b] *= share


@njit(**OPTIONS)
def _spread(R, x, f, C):
    """Deviations over √(R − 1), in the place of the values, and their covariances C = Σ_r f_r f_rᵀ."""
    p = C.shape[0]
    share = 1.0 / np.sqrt(R - 1.0)
    for r in range(R):
        for j in range(p):
            for b in range(LANES):
                f[r, j, b] = (f[r, j, b] - x[j, b]) * share
    for i in range(p):
        for j in range(i + 1):
            for b in range(LANES):
                C[i, j, b] = 0.0
            for r in range(0, f.shape[0], 4):  # there are fours, the last ones may be zero
                for b in range(LANES):
                    C[i, j, b] += (
                        f[r, i, b] * f[r, j, b]
                        + f[r + 1, i, b] * f[r + 1, j, b]
                        + f[r + 2, i, b] * f[r + 2, j, b]
                        + f[r + 3, i, b] * f[r + 3, j, b]
                    )


@njit(**OPTIONS)
def _given(given, start, m, C):
    """Covariances that are given."""
    one = given.shape[0] == 1
    for b in range(LANES):
        matrix = given[0 if one else start + min(b, m - 1)]
        for i in range(C.shape[0]):
            for j in range(i + 1):
                C[i, j, b] = matrix[i, j]


@njit(**OPTIONS)
def _factorise(scale, shrink, pivots, C, L, log_det):
    """Lower Cholesky factors of scale + shrink·C, the diagonal inverted; ½ log of how the determinant grew.

    No pivot is smaller than without noise, whatever rounding did to C.
    """
    p = L.shape[0]
    log_det[:] = 0.0
    for j in range(p):
        for i in range(j, p):
            constant = scale[i, j]
            for b in range(LANES):
                L[i, j, b] = constant + shrink * C[i, j, b]
            for k in range(0, j - 1, 2):
                for b in range(LANES):
                    L[i, j, b] -= L[i, k, b] * L[j, k, b] + L[i, k + 1, b] * L[j, k + 1, b]
            if j % 2:
                for b in range(LANES):
                    L[i, j, b] -= L[i, j - 1, b] * L[j, j - 1, b]
        smallest, inverse = pivots[j], 1.0 / pivots[j]
        for b in range(LANES):
            pivot = L[j, j, b] if L[j, j, b] > smallest else smallest
            log_det[b] += 0.5 * log_one_plus((pivot - smallest) * inverse)
            L[j, j, b] = 1.0 / np.sqrt(pivot)
        for i in range(j + 1, p):
            for b in range(LANES):
                L[i, j, b] *= L[j, j, b]


@njit(**OPTIONS)
def _distance(L, x, location, z, q):
    """q = |L⁻¹(x − m)|² of each lane."""
    p = L.shape[0]
    q[:] = 0.0
    for i in range(p):
        m = location[i]
        for b in range(LANES):
            z[i, b] = x[i, b] - m
        for k in range(i):
            for b in range(LANES):
                z[i, b] -= L[i, k, b] * z[k, b]
        for b in range(LANES):
            z[i, b] *= L[i, i, b]
            q[b] += z[i, b] * z[i, b]


@njit(**OPTIONS)
def _probabilities(log_det, numbers, fold, seen, parts):
    """Depths, log odds and probabilities of the classes, and the probabilities of their parts."""
    q, v, r, _, e, _ = seen
    C, n = q.shape
    for c in range(C):
        weight, h, inverse = numbers.log_weight[0, c], numbers.slope[0, c], numbers.inverse_dof[0, c]
        for b in range(n):
            far = q[c, b] if q[c, b] < numbers.largest[0] else numbers.largest[0]
            depth = log_one_plus(far * inverse)
            v[c, b] = depth
            r[c, b] = weight - log_det[c, b] - h * depth
    weigh_parts(fold, seen)
    for k in range(e.shape[0]):
        for c in range(fold.first[k], fold.first[k + 1]):
            for b in range(n):
                parts[c, b] = e[k, b] * r[c, b]


@njit(**OPTIONS)
def _information(q, seen, fold, variance, inverse_dof, largest, information):
    """½ Σ_k p(1−p) Σ_c r² V / T² with V = a + b·log(1 + u) − c·u/(1 + u), u = q/ν, of each lane."""
    information[:] = 0.0
    half = 0.5 * fold.sharpness[0] * fold.sharpness[0]
    for k in range(seen.e.shape[0]):
        for c in range(fold.first[k], fold.first[k + 1]):
            constant, growth, pull = half * variance[c, 0], half * variance[c, 1], half * variance[c, 2]
            for b in range(q.shape[1]):
                u = (q[c, b] if q[c, b] < largest else largest) * inverse_dof[c]
                share = seen.r[c, b] * seen.r[c, b]
                v = share * (constant + growth * np.log1p(u) - pull * (u / (1.0 + u)))
                information[b] += v * (seen.e[k, b] * (1.0 - seen.e[k, b]))


@njit(**OPTIONS)
def _information_of_pairs(q, seen, fold, plain, information):
    """½ Σ_{k<l} p_k p_l (KL_kl + KL_lk) / T² of each lane, for classes that have one covariance."""
    information[:] = 0.0
    half = 0.5 * fold.sharpness[0] * fold.sharpness[0]
    for k in range(seen.e.shape[0]):
        for other in range(k):
            constant = plain.variance[0, k, 0] + plain.variance[0, other, 0]
            growth, apart = 0.5 * plain.variance[0, k, 1], plain.between[0, k, other]
            first, second = plain.variance[0, k, 2], plain.variance[0, other, 2]
            for b in range(q.shape[1]):
                u = min(q[k, b], plain.largest[0]) * plain.inverse_dof[0, k]
                v = min(q[other, b], plain.largest[0]) * plain.inverse_dof[0, other]
                s, t = u / first, v / second
                gram = max(0.5 * apart * (s + t) - 0.25 * (apart * apart + (s - t) * (s - t)), 0.0)
                moved = (t + first * (gram - u)) / (1.0 + u) + (s + second * (gram - v)) / (1.0 + v)
                information[b] += half * seen.e[k, b] * seen.e[other, b] * (constant + growth * moved)


@njit(**OPTIONS)
def _take_in(planes, coefficients, given, spread, plain, start, m, room):
    """Values of a block of pixels, less the centre, and their noise."""
    _values(planes, coefficients, start, m, room.raw, room.x, room.f)
    if spread:
        R = coefficients.shape[0] if coefficients.shape[0] > 0 else planes.shape[0]
        _spread(R, room.x, room.f, room.C)
    elif given.shape[0] > 0:
        _given(given, start, m, room.C)
    for j in range(planes.shape[1]):
        for b in range(LANES):
            room.x[j, b] -= plain.centre[0, j]


@njit(**OPTIONS)
def _look(lens, plain, fold, room):
    """Probabilities, p-values, entropy and what the class models' uncertainty does to them."""
    seen = room.seen
    for k in range(len(room.L)):
        squared_distance(room.x, plain.whitening[0, k], plain.shift[0, k], room.far[k])
        _factorise(lens.scale[k], lens.shrink[k], lens.pivots[k], room.C, room.L[k], room.log_det[k])
        _distance(room.L[k], room.x, lens.location[k], room.z, seen.q[k])
    _probabilities(room.log_det, plain, fold, seen, room.of_parts)
    room.p_value[:] = 0.0
    if len(room.z) % 2:
        add_typicality_by_table(seen.v, plain.table_scale[0], plain.table[0], room.p_value)
    else:
        add_typicality(seen.v, plain.dof[0], plain.tail[0], room.p_value)
    find_entropy(seen, room.inner)
    if plain.between.shape[1] > 0:
        _information_of_pairs(room.far, seen, fold, plain, room.information)
        return
    _information(
        room.far, seen, fold, plain.variance[0], plain.inverse_dof[0], plain.largest[0], room.information
    )


@njit(**OPTIONS)
def _put_out(room, start, m, out):
    """Write what is known of the pixels, and list those that are in doubt: how many there are."""
    found = 0
    for b in range(m):
        for k in range(len(room.seen.e)):
            out.probability[k, start + b] = room.seen.e[k, b]
        for c in range(len(room.p_value)):
            out.typicality[c, start + b] = room.p_value[c, b]
        out.inner[start + b] = room.inner[b] if room.inner[b] > 0.0 else 0.0
        out.information[start + b] = room.information[b]
        out.measurement[start + b] = 0.0
        if room.inner[b] >= CERTAIN:
            room.doubtful[found] = b
            found += 1
    return found


@njit(**OPTIONS)
def _ask_true_values(lens, truth, fold, points, found, room, here):
    """Place true values of the doubtful pixels, and look at them as if there were no noise."""
    if not lens.same:
        for k in range(len(room.L)):
            scale, shrink, pivots = lens.truth_scale[k], lens.truth_shrink[k], lens.truth_pivots[k]
            _factorise(scale, shrink, pivots, room.C, room.L[k], room.log_det[k])
    place_true_values(lens, truth, fold, points, found, room, here)
    used, seen = here.place[found], here.seen
    for k in range(len(room.L)):
        squared_distance(here.chi[:, :used], truth.whitening[0, k], truth.shift[0, k], seen.q[k, :used])
    q, v, r, t, e = seen.q[:, :used], seen.v[:, :used], seen.r[:, :used], seen.t[:, :used], seen.e[:, :used]
    weigh(truth, 0, fold, Seen(q, v, r, t, e, seen.s[:used]))


@njit(**OPTIONS)
def read(planes, coefficients, given, spread, lens, plain, truth, fold, points, out):
    """All that is to be known of pixels: planes (realisation, feature, pixel), or one and coefficients.

    ``given`` are covariances (1 or pixel, feature, feature), or none; ``spread`` says that the realisations'
    spread is noise. ``plain`` and ``truth`` are the numbers of lenses in double precision, of the parts that
    ``fold`` makes classes of; p-values are put out for the parts.
    """
    n, p, parts, K = planes.shape[2], planes.shape[1], plain.dof.shape[1], out.probability.shape[0]
    R = coefficients.shape[0] if coefficients.shape[0] > 0 else planes.shape[0]
    room = _make_room(p, parts, K, R)
    here = make_room_for_points(p, parts, K, points.padded, LANES)
    for start in range(0, n, LANES):
        m = min(LANES, n - start)
        _take_in(planes, coefficients, given, spread, plain, start, m, room)
        _look(lens, plain, fold, room)
        found = _put_out(room, start, m, out)
        if found == 0:
            continue
        _ask_true_values(lens, truth, fold, points, found, room, here)
        for number in range(found):
            b, place = room.doubtful[number], here.place[number]
            out.measurement[start + b] = information_of_points(
                here.seen.e, here.weight, place, room.seen.e, b, room.inner[b],
                here.place[number + 1] - place, here.w, here.rows, here.terms,
            )  # fmt: skip
