"""Machine code for pixels whose noise is known, by numba: what :mod:`uncover.bayes.noisy_lens` computes.

The densities of a few pixels at a time, which are the lanes of the innermost loops; then the true values of
one pixel after the other, whose draws are the lanes. Blocks are padded, so that a pixel's result depends
neither on its place nor on its neighbours.
"""

import numpy as np
from numba import njit

from uncover.bayes.compiled.distances import squared_distance
from uncover.bayes.compiled.functions import log_one_plus
from uncover.bayes.compiled.lanes import OPTIONS
from uncover.bayes.compiled.summaries import add_typicality, add_typicality_by_table, find_entropy
from uncover.bayes.compiled.weighing import Seen, weigh, weigh_parts
from uncover.bayes.noisy_lens import CERTAIN, MULTIPLIER

LANES = 32


@njit(**OPTIONS)
def _choose_set(planes, start, m, sets, chosen):
    """The set of draws of each pixel, by the bits of its first numbers: any will do, always the same."""
    for b in range(m):
        total = np.uint64(0)
        for j in range(planes.shape[1]):
            bits = np.float64(planes[0, j, start + b]).view(np.uint64)
            total = np.uint64(np.uint64(total ^ bits) * MULTIPLIER)
        chosen[b] = np.int64((total >> np.uint64(40)) % np.uint64(sets))


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
def _root(given, start, m, f, C):
    """Covariances that are given, and f (column, feature, lane), a root of them that may be singular."""
    p = C.shape[0]
    one = given.shape[0] == 1
    for b in range(LANES):
        matrix = given[0 if one else start + min(b, m - 1)]
        for i in range(p):
            for j in range(i + 1):
                C[i, j, b] = matrix[i, j]
        for j in range(p):
            left = matrix[j, j]
            for k in range(j):
                left -= f[k, j, b] * f[k, j, b]
            pivot = np.sqrt(left) if left > 1e-12 * matrix[j, j] else 0.0
            inverse = 1.0 / pivot if pivot > 0.0 else 0.0
            for i in range(p):
                f[j, i, b] = 0.0
            f[j, j, b] = pivot
            for i in range(j + 1, p):
                rest = matrix[i, j]
                for k in range(j):
                    rest -= f[k, i, b] * f[k, j, b]
                f[j, i, b] = rest * inverse


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
def _information(q, seen, fold, variance, largest, information):
    """½ Σ_k p(1−p) Σ_c r² v / T² with v = a + q·(b + q·c), of each lane."""
    information[:] = 0.0
    half = 0.5 * fold.sharpness[0] * fold.sharpness[0]
    for k in range(seen.e.shape[0]):
        for c in range(fold.first[k], fold.first[k + 1]):
            constant, linear, square = half * variance[c, 0], half * variance[c, 1], half * variance[c, 2]
            for b in range(q.shape[1]):
                far = q[c, b] if q[c, b] < largest else largest
                share = seen.r[c, b] * seen.r[c, b]
                v = share * (constant + far * (linear + far * square))
                information[b] += v * (seen.e[k, b] * (1.0 - seen.e[k, b]))


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
def _split(at_truth, place, probability, lane, entropy, n, w, rows, terms):
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
def _draw(x, f, L, e, lens, draws, sets, doubtful, found, noise, A, inverse, ends, u, chi):
    """True values of the doubtful pixels of a block, chi (feature, pixel · draw)."""
    p, K, J, padded = L.shape[1], L.shape[0], draws.n, draws.prior.shape[3]
    for number in range(found):
        lane, place = doubtful[number], number * padded
        g = sets[lane]
        if draws.weights.shape[1] > 0:
            _noise_of_draws(f, lane, draws.weights, g, noise)
        _chosen(e, lane, J, ends)
        first = 0
        for k in range(K):
            if ends[k] > first:
                _mirrored(L, k, lane, A, inverse)
                _true_values(
                    x, lane, A, inverse, g, k, draws.prior, draws.common, lens.gain, noise,
                    first, ends[k], u, place, chi,
                )  # fmt: skip
                first = ends[k]
        for i in range(p):
            for d in range(J, padded):
                chi[i, place + d] = chi[i, place + J - 1]


@njit(**OPTIONS)
def read(planes, coefficients, given, spread, lens, plain, truth, fold, draws, out):
    """All that is to be known of pixels: planes (realisation, feature, pixel), or one and coefficients.

    ``given`` are covariances (1 or pixel, feature, feature), or none; ``spread`` says that the realisations'
    spread is noise. ``plain`` and ``truth`` are the numbers of lenses in double precision, of the parts that
    ``fold`` makes classes of; p-values are put out for the parts.
    """
    n, p, parts, K = planes.shape[2], planes.shape[1], plain.dof.shape[1], out.probability.shape[0]
    R = coefficients.shape[0] if coefficients.shape[0] > 0 else planes.shape[0]
    even, fours, J, padded = p + p % 2, p + (-p) % 4, draws.n, draws.prior.shape[3]
    sets = np.zeros(LANES, np.int64)
    f = np.zeros((max(draws.weights.shape[1], R), even, LANES))
    raw, x = np.empty((p, LANES)), np.zeros((even, LANES))
    C, z, L = np.zeros((p, p, LANES)), np.empty((p, LANES)), np.empty((parts, p, p, LANES))
    of_parts, far, log_det = np.empty((parts, LANES)), np.empty((parts, LANES)), np.empty((parts, LANES))
    p_value, e = np.empty((parts, LANES)), np.empty((K, LANES))
    q, v, r = np.empty((parts, LANES)), np.empty((parts, LANES)), np.empty((parts, LANES))
    seen = Seen(q, v, r, np.empty((K, LANES)), e, np.empty(LANES))
    inner, information, doubtful = np.empty(LANES), np.empty(LANES), np.empty(LANES, np.int64)
    A, inverse, ends = np.zeros((p, fours + 4)), np.empty(p), np.empty(parts, np.int64)
    noise, u, chi = np.zeros((even, padded)), np.zeros((fours + 4, padded)), np.zeros((even, LANES * padded))
    q2, t2, s2 = np.empty((parts, LANES * padded)), np.empty((K, LANES * padded)), np.empty(LANES * padded)
    v2, r2, e2 = np.empty_like(q2), np.empty_like(q2), np.empty_like(t2)
    w, rows, terms = np.empty(padded), np.empty(padded), np.empty(padded)
    for start in range(0, n, LANES):
        m = min(LANES, n - start)
        _choose_set(planes, start, m, draws.prior.shape[0], sets)
        _values(planes, coefficients, start, m, raw, x, f)
        if spread:
            _spread(R, x, f, C)
        elif given.shape[0] > 0:
            _root(given, start, m, f, C)
        for j in range(p):
            for b in range(LANES):
                x[j, b] -= plain.centre[0, j]
        for k in range(parts):
            squared_distance(x, plain.whitening[0, k], plain.shift[0, k], far[k])
            _factorise(lens.scale[k], lens.shrink[k], lens.pivots[k], C, L[k], log_det[k])
            _distance(L[k], x, lens.location[k], z, q[k])
        _probabilities(log_det, plain, fold, seen, of_parts)
        p_value[:] = 0.0
        if p % 2:
            add_typicality_by_table(v, plain.table_scale[0], plain.table[0], p_value)
        else:
            add_typicality(v, plain.dof[0], plain.tail[0], p_value)
        find_entropy(seen, inner)
        _information(far, seen, fold, plain.variance[0], plain.largest[0], information)
        found = 0
        for b in range(m):
            for k in range(K):
                out.probability[k, start + b] = e[k, b]
            for c in range(parts):
                out.typicality[c, start + b] = p_value[c, b]
            out.inner[start + b] = inner[b] if inner[b] > 0.0 else 0.0
            out.information[start + b] = information[b]
            out.measurement[start + b] = 0.0
            if inner[b] >= CERTAIN:
                doubtful[found] = b
                found += 1
        if found == 0:
            continue
        if not lens.same:
            for k in range(parts):
                _factorise(
                    lens.truth_scale[k], lens.truth_shrink[k], lens.truth_pivots[k], C, L[k], log_det[k]
                )
        _draw(x, f, L, of_parts, lens, draws, sets, doubtful, found, noise, A, inverse, ends, u, chi)
        for k in range(parts):
            squared_distance(chi, truth.whitening[0, k], truth.shift[0, k], q2[k])
        weigh(truth, 0, fold, Seen(q2, v2, r2, t2, e2, s2))
        for number in range(found):
            b = doubtful[number]
            out.measurement[start + b] = _split(e2, number * padded, e, b, inner[b], J, w, rows, terms)
