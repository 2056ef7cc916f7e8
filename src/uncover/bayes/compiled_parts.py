"""Machine code for classes of several parts, by numba: the loops of the fast path with a fold in between.

Distances, depths and p-values are those of the parts, as :mod:`uncover.bayes.compiled` computes them for
classes; log joints are folded into classes, t_k = log Σ_c exp(t_c) / T, before they become probabilities.
"""

import numpy as np
from numba import njit

from uncover.bayes.compiled import (
    BLOCK,
    OPTIONS,
    TOLERANCE,
    _centred,
    _entropy,
    _load,
    _most_probable,
    _squared_distance,
    _turned,
    _typicality,
    _typicality_by_table,
    exponential,
    log_one_plus,
)


@njit(**OPTIONS)
def _depths(q, log_weight, slope, inverse_dof, largest, v, t):
    """Depths v = log(1 + q/ν) and log joints t of the parts."""
    C, n = q.shape
    for c in range(C):
        weight, h, inverse = log_weight[c], slope[c], inverse_dof[c]
        for b in range(n):
            far = q[c, b] if q[c, b] < largest else largest
            depth = log_one_plus(far * inverse)
            v[c, b] = depth
            t[c, b] = weight - h * depth


@njit(**OPTIONS)
def _fold(t, first, sharpness, z, r, folded):
    """Log odds of the classes from log joints of their parts; r is the share of each part in its class."""
    n = t.shape[1]
    one = t.dtype.type(1)
    for k in range(len(first) - 1):
        start, end = first[k], first[k + 1]
        if end == start + 1:
            for b in range(n):
                r[start, b] = one
                folded[k, b] = t[start, b] * sharpness
            continue
        # The maximum goes from one row to another: in place it becomes a masked store, which is slow.
        for b in range(n):
            z[0, b] = t[start, b]
        for c in range(start + 1, end):
            before, after = z[(c - start - 1) % 2], z[(c - start) % 2]
            for b in range(n):
                after[b] = t[c, b] if t[c, b] > before[b] else before[b]
        top, total = z[(end - start - 1) % 2], z[2]
        for b in range(n):
            total[b] = 0
        for c in range(start, end):
            for b in range(n):
                r[c, b] = exponential(t[c, b] - top[b])
                total[b] += r[c, b]
        for b in range(n):
            folded[k, b] = (top[b] + log_one_plus(total[b] - one)) * sharpness
            total[b] = one / total[b]
        for c in range(start, end):
            for b in range(n):
                r[c, b] *= total[b]


@njit(**OPTIONS)
def _normalise(t, z, e, s):
    """Log odds t less their maximum, in their place, probabilities e, and s = 1/Σ exp(t)."""
    K, n = t.shape
    one = t.dtype.type(1)
    for b in range(n):
        z[0, b] = t[0, b]
    for k in range(1, K):
        before, after = z[(k - 1) % 2], z[k % 2]
        for b in range(n):
            after[b] = t[k, b] if t[k, b] > before[b] else before[b]
    top = z[(K - 1) % 2]
    for b in range(n):
        s[b] = 0
    for k in range(K):
        for b in range(n):
            t[k, b] -= top[b]
            e[k, b] = exponential(t[k, b])
            s[b] += e[k, b]
    for b in range(n):
        s[b] = one / s[b]
    for k in range(K):
        for b in range(n):
            e[k, b] *= s[b]


@njit(**OPTIONS)
def _doubtful(q, r, e, doubt, first, sharpness, error, chosen):
    """Number of points whose probabilities single precision may not give, and which they are.

    The error of a part's log joint is doubt[0] + doubt[1]·q, that of a class the mean over its parts.
    """
    n = q.shape[1]
    one = q.dtype.type(1)
    for b in range(n):
        error[b] = 0
    for k in range(len(first) - 1):
        for c in range(first[k], first[k + 1]):
            fixed, growing = sharpness * doubt[c, 0], sharpness * doubt[c, 1]
            for b in range(n):
                error[b] += r[c, b] * e[k, b] * (one - e[k, b]) * (fixed + growing * q[c, b])
    found = 0
    for b in range(n):
        if error[b] > TOLERANCE:
            chosen[found] = b
            found += 1
    return found


@njit(**OPTIONS)
def _again(source, coefficients, exact, w, first, sharpness, chosen, found, q, v, r, t, e, s):
    """Compute some points of a block again, in double precision from what was measured."""
    p, C, K, few = source.shape[0], q.shape[0], e.shape[0], 16
    raw, x, z = np.empty((p, few)), np.empty((p, few)), np.empty((4, few))
    q2, v2, t2, r2 = np.empty((C, few)), np.empty((C, few)), np.empty((C, few)), np.empty((C, few))
    f2, e2, s2 = np.empty((K, few)), np.empty((K, few)), np.empty(few)
    for start in range(0, found, few):
        n = min(few, found - start)
        for i in range(few):
            b = chosen[start + min(i, n - 1)]
            for j in range(p):
                raw[j, i] = source[j, b]
        _centred(raw, coefficients, exact.centre, x)
        for c in range(C):
            _squared_distance(x, exact.whitening[w, c], exact.shift[w, c], z, q2[c])
        _depths(q2, exact.log_weight[w], exact.slope[w], exact.inverse_dof[w], exact.largest[0], v2, t2)
        _fold(t2, first, np.float64(sharpness), z, r2, f2)
        _normalise(f2, z, e2, s2)
        for i in range(n):
            b = chosen[start + i]
            s[b] = s2[i]
            for c in range(C):
                q[c, b], v[c, b], r[c, b] = q2[c, i], v2[c, i], r2[c, i]
            for k in range(K):
                t[k, b], e[k, b] = f2[k, i], e2[k, i]


@njit(**OPTIONS)
def _look(
    source, measured, coefficients, precise, lens, exact, w, single, first, sharpness,
    x, z, q, v, u, r, t, e, s, error, chosen,
):  # fmt: skip
    """Distances and depths of the parts, probabilities of the classes, of a block in world w.

    In double precision where it takes that; ``measured`` is the source before it was rounded.
    """
    _centred(source, coefficients, lens.centre, x)
    for c in range(q.shape[0]):
        _squared_distance(x, lens.whitening[w, c], lens.shift[w, c], z, q[c])
    _depths(q, lens.log_weight[w], lens.slope[w], lens.inverse_dof[w], lens.largest[0], v, u)
    _fold(u, first, sharpness[0], z, r, t)
    _normalise(t, z, e, s)
    if single:
        found = _doubtful(q, r, e, lens.doubt[w], first, sharpness[0], error, chosen)
        if found:
            _again(measured, precise, exact, w, first, sharpness[0], chosen, found, q, v, r, t, e, s)


@njit(**OPTIONS)
def average_probability(X, realisations, worlds, lens, exact, single, first, sharpness, out):
    """As :func:`uncover.bayes.compiled.average_probability`, with classes of several parts.

    The parts of class k are first[k] … first[k + 1] − 1; sharpness[0] is one over the temperature.
    """
    n, _, p = X.shape
    C, K, even, kind = lens.dof.shape[1], out.shape[1], p + p % 2, X.dtype
    raw = np.zeros((even, BLOCK), kind)
    x, z = np.empty((even, BLOCK), kind), np.empty((4, BLOCK), kind)
    q, v = np.empty((C, BLOCK), kind), np.empty((C, BLOCK), kind)
    u, r = np.empty((C, BLOCK), kind), np.empty((C, BLOCK), kind)
    t, e, total = np.empty((K, BLOCK), kind), np.empty((K, BLOCK), kind), np.empty((K, BLOCK), kind)
    s, error, chosen = np.empty(BLOCK, kind), np.empty(BLOCK, kind), np.empty(BLOCK, np.int64)
    none, nothing = np.empty((0, even), kind), np.empty((0, even))
    share = 1.0 / len(realisations)
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        total[:] = 0
        for i in range(len(realisations)):
            _turned(X, start, m, realisations[i], raw)
            _look(
                raw, raw, none, nothing, lens, exact, worlds[i], single, first, sharpness,
                x, z, q, v, u, r, t, e, s, error, chosen,
            )  # fmt: skip
            for k in range(K):
                for b in range(BLOCK):
                    total[k, b] += e[k, b]
        for b in range(m):
            for k in range(K):
                out[start + b, k] = total[k, b] * share


@njit(**OPTIONS)
def _model_part(q, r, e, variance, largest, first, sharpness, inner, z, model):
    """Add H·(1 − e^(−I/H)) with I = ½ Σ_k p(1−p) Σ_c r² v / T², v = a + q·(b + q·c) and H the entropy."""
    n = q.shape[1]
    one, tiny = q.dtype.type(1), q.dtype.type(1e-30)
    half = q.dtype.type(0.5) * sharpness * sharpness
    for b in range(n):
        z[0, b] = 0
    for k in range(len(first) - 1):
        for c in range(first[k], first[k + 1]):
            constant, linear, square = half * variance[c, 0], half * variance[c, 1], half * variance[c, 2]
            for b in range(n):
                far = q[c, b] if q[c, b] < largest else largest
                spread = r[c, b] * r[c, b] * (constant + far * (linear + far * square))
                z[0, b] += spread * (e[k, b] * (one - e[k, b]))
    for b in range(n):
        h = inner[b] if inner[b] > tiny else tiny
        model[b] += h * (one - exponential(-z[0, b] / h))


@njit(**OPTIONS)
def summarise(
    planes, scale, offset, coefficients, precise, realisations, worlds, lens, exact, single,
    first, sharpness, out,
):  # fmt: skip
    """As :func:`uncover.bayes.compiled.summarise`, with classes of several parts: typicality has their rows.

    The parts of class k are first[k] … first[k + 1] − 1; sharpness[0] is one over the temperature.
    """
    n, p, C, K = planes.shape[2], planes.shape[1], lens.dof.shape[1], out.probability.shape[0]
    even, kind = p + p % 2, lens.whitening.dtype
    measured = np.zeros((even, BLOCK))
    raw, x, z = np.zeros((even, BLOCK), kind), np.empty((even, BLOCK), kind), np.empty((4, BLOCK), kind)
    q, v = np.empty((C, BLOCK), kind), np.empty((C, BLOCK), kind)
    u, r = np.empty((C, BLOCK), kind), np.empty((C, BLOCK), kind)
    t, e, s = np.empty((K, BLOCK), kind), np.empty((K, BLOCK), kind), np.empty(BLOCK, kind)
    p_value, probability = np.empty((C, BLOCK), kind), np.empty((K, BLOCK), kind)
    entropies, inner, model = np.empty(BLOCK, kind), np.empty(BLOCK, kind), np.empty(BLOCK, kind)
    error, chosen = np.empty(BLOCK, kind), np.empty(BLOCK, np.int64)
    found, best = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.int32)
    corrected = coefficients.shape[0] > 0
    none, nothing = np.empty((0, even), kind), np.empty((0, even))
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        p_value[:] = 0
        probability[:] = 0
        entropies[:] = 0
        model[:] = 0
        if corrected:
            _load(planes, 0, start, m, scale, offset, measured, raw)
        for i in range(len(realisations)):
            number, w = realisations[i], worlds[i]
            if not corrected:
                _load(planes, number, start, m, scale, offset, measured, raw)
            rounded, given = (coefficients[number], precise[number]) if corrected else (none, nothing)
            _look(
                raw, measured, rounded, given, lens, exact, w, single, first, sharpness,
                x, z, q, v, u, r, t, e, s, error, chosen,
            )  # fmt: skip
            for k in range(K):
                for b in range(BLOCK):
                    probability[k, b] += e[k, b]
            if p % 2:
                _typicality_by_table(v, lens.table_scale[w], lens.table[w], p_value)
            else:
                _typicality(v, lens.dof[w], lens.tail[w], z, p_value)
            _entropy(e, t, s, inner)
            _model_part(q, r, e, lens.variance[w], lens.largest[0], first, sharpness[0], inner, z, model)
            _most_probable(t, found, best)
            for b in range(BLOCK):
                entropies[b] += inner[b]
            for b in range(m):
                out.best[i, start + b] = best[b]
        for b in range(m):
            out.inner[start + b] = entropies[b]
            out.model[start + b] = model[b]
        for k in range(K):
            for b in range(m):
                out.probability[k, start + b] = probability[k, b]
        for c in range(C):
            for b in range(m):
                out.typicality[c, start + b] = p_value[c, b]
