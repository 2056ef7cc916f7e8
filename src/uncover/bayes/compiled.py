"""Machine code for the fast path, by numba: blocks of points, features first, that never leave the cache.

What it computes, and how, is said in :mod:`uncover.bayes.kernels`; here are loops only. They are written for
vectors of eight: the innermost loop runs over the points of a block, whose number is fixed and padded, so
that a point's result does not depend on its neighbours.
"""

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload
from numpy.typing import NDArray

Array = NDArray[Any]

BLOCK = 512
# A multiply and an add may become one instruction. Nothing else is allowed: sums in another order would
# cancel the corrections that log1p and the split means consist of.
OPTIONS = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
INNER = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
# Probabilities whose error in single precision may exceed this, by a bound that is five times too large in
# the worst case that was found, are computed again in double precision.
TOLERANCE = np.float32(2e-5)


def exponential(x):
    """e^x for x <= 0, by the series of e^r with x = n·log 2 + r; 0 far below."""
    raise NotImplementedError


@overload(exponential, jit_options=INNER)
def _exponential(x):
    if x == types.float32:

        def single(x):
            f = np.float32
            x = x if x > f(-87.0) else f(-87.0)
            shifted = x * f(1.4426950408889634) + f(12582912.0)
            n = shifted - f(12582912.0)
            r = (x - n * f(0.693359375)) - n * f(-2.12194440054690583e-4)
            y = f(1 / 5040)
            y = y * r + f(1 / 720)
            y = y * r + f(1 / 120)
            y = y * r + f(1 / 24)
            y = y * r + f(1 / 6)
            y = y * r + f(0.5)
            y = y * r + f(1.0)
            y = y * r + f(1.0)
            bits = np.int32((np.float32(shifted).view(np.int32) + np.int32(127)) << np.int32(23))
            return y * bits.view(np.float32)

        return single

    def double(x):
        x = x if x > -700.0 else -700.0
        shifted = x * 1.4426950408889634 + 6755399441055744.0
        n = shifted - 6755399441055744.0
        r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10
        y = 1.0 / 6227020800
        y = y * r + 1.0 / 479001600
        y = y * r + 1.0 / 39916800
        y = y * r + 1.0 / 3628800
        y = y * r + 1.0 / 362880
        y = y * r + 1.0 / 40320
        y = y * r + 1.0 / 5040
        y = y * r + 1.0 / 720
        y = y * r + 1.0 / 120
        y = y * r + 1.0 / 24
        y = y * r + 1.0 / 6
        y = y * r + 0.5
        y = y * r + 1.0
        y = y * r + 1.0
        bits = np.int64((np.float64(shifted).view(np.int64) + np.int64(1023)) << np.int64(52))
        return y * bits.view(np.float64)

    return double


def log_one_plus(u):
    """log(1 + u) for u >= 0, by the series of artanh; what rounding takes from 1 + u is given back."""
    raise NotImplementedError


@overload(log_one_plus, jit_options=INNER)
def _log_one_plus(u):
    if u == types.float32:

        def single(u):
            f = np.float32
            w = f(1.0) + u
            bits = np.float32(w).view(np.int32)
            e = np.int32(np.int32(bits - np.int32(0x3F3504F3)) >> np.int32(23))
            m = np.int32(bits - np.int32(e << np.int32(23))).view(np.float32)
            a = m - f(1.0)
            both = f(1.0) / ((a + f(2.0)) * w)  # one division for 1/(a + 2) and 1/w
            s = a * (w * both)
            s2 = s * s
            y = f(2 / 11)
            y = y * s2 + f(2 / 9)
            y = y * s2 + f(2 / 7)
            y = y * s2 + f(2 / 5)
            y = y * s2 + f(2 / 3)
            y = y * s2 + f(2.0)
            lost = (u - (w - f(1.0))) * ((a + f(2.0)) * both)
            n = f(e)
            return n * f(0.693359375) + ((s * y + lost) + n * f(-2.12194440054690583e-4))

        return single

    def double(u):
        w = 1.0 + u
        bits = np.uint64(np.float64(w).view(np.uint64))
        e = np.uint64((bits - np.uint64(0x3FE6A09E667F3BCD)) >> np.uint64(52))
        m = np.uint64(bits - np.uint64(e << np.uint64(52))).view(np.float64)
        # 2^52 + e as bits, less 2^52: a conversion that vectors have.
        n = np.uint64(e | np.uint64(0x4330000000000000)).view(np.float64) - 4503599627370496.0
        a = m - 1.0
        s = a / (a + 2.0)
        s2 = s * s
        y = 2.0 / 21
        y = y * s2 + 2.0 / 19
        y = y * s2 + 2.0 / 17
        y = y * s2 + 2.0 / 15
        y = y * s2 + 2.0 / 13
        y = y * s2 + 2.0 / 11
        y = y * s2 + 2.0 / 9
        y = y * s2 + 2.0 / 7
        y = y * s2 + 2.0 / 5
        y = y * s2 + 2.0 / 3
        y = y * s2 + 2.0
        lost = (u - (w - 1.0)) / w
        return n * 6.93147180369123816490e-01 + ((s * y + lost) + n * 1.90821492927058770002e-10)

    return double


@njit(**OPTIONS)
def _centred(source, coefficients, centre, x):
    """Values less the common centre (two numbers a feature: what the first loses is in the second).

    With coefficients (3, feature) the values are at the top of the atmosphere, and become those of the
    surface: y/(B + S·y) with y = value − A.
    """
    for j in range(source.shape[0]):
        c, low = centre[0, j], centre[1, j]
        if coefficients.shape[0] > 0:
            path, slope, albedo = coefficients[0, j], coefficients[1, j], coefficients[2, j]
            for b in range(x.shape[1]):
                y = source[j, b] - path
                x[j, b] = (y / (slope + albedo * y) - c) - low
        else:
            for b in range(x.shape[1]):
                x[j, b] = (source[j, b] - c) - low


@njit(**OPTIONS)
def _squared_distance(x, W, shift, z, q):
    """q = |Wx − shift|² with W lower triangular; the number of features is even.

    In tiles of four rows and four columns: each number that is loaded is used four times.
    """
    p, n = x.shape
    for b in range(n):
        q[b] = 0
    for i in range(0, p - 3, 4):
        s0, s1, s2, s3 = -shift[i], -shift[i + 1], -shift[i + 2], -shift[i + 3]
        if i > 0:
            _four_rows(i, 0, s0, s1, s2, s3, W, x, z)
            for j in range(4, i, 4):
                _four_more(i, j, W, x, z)
            s0 = s1 = s2 = s3 = q.dtype.type(0)
        _four_last(i, s0, s1, s2, s3, W, x, z, q)
    if p % 4:
        _two_rows(p - 2, W, shift, x, z, q)


@njit(**OPTIONS)
def _four_rows(i, j, s0, s1, s2, s3, W, x, z):
    """Begin rows i … i+3 of Wx − shift with columns j … j+3."""
    a0, a1, a2, a3 = W[i, j], W[i, j + 1], W[i, j + 2], W[i, j + 3]
    b0, b1, b2, b3 = W[i + 1, j], W[i + 1, j + 1], W[i + 1, j + 2], W[i + 1, j + 3]
    c0, c1, c2, c3 = W[i + 2, j], W[i + 2, j + 1], W[i + 2, j + 2], W[i + 2, j + 3]
    e0, e1, e2, e3 = W[i + 3, j], W[i + 3, j + 1], W[i + 3, j + 2], W[i + 3, j + 3]
    for b in range(x.shape[1]):
        x0, x1, x2, x3 = x[j, b], x[j + 1, b], x[j + 2, b], x[j + 3, b]
        z[0, b] = s0 + a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
        z[1, b] = s1 + b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3
        z[2, b] = s2 + c0 * x0 + c1 * x1 + c2 * x2 + c3 * x3
        z[3, b] = s3 + e0 * x0 + e1 * x1 + e2 * x2 + e3 * x3


@njit(**OPTIONS)
def _four_more(i, j, W, x, z):
    """Go on with columns j … j+3."""
    a0, a1, a2, a3 = W[i, j], W[i, j + 1], W[i, j + 2], W[i, j + 3]
    b0, b1, b2, b3 = W[i + 1, j], W[i + 1, j + 1], W[i + 1, j + 2], W[i + 1, j + 3]
    c0, c1, c2, c3 = W[i + 2, j], W[i + 2, j + 1], W[i + 2, j + 2], W[i + 2, j + 3]
    e0, e1, e2, e3 = W[i + 3, j], W[i + 3, j + 1], W[i + 3, j + 2], W[i + 3, j + 3]
    for b in range(x.shape[1]):
        x0, x1, x2, x3 = x[j, b], x[j + 1, b], x[j + 2, b], x[j + 3, b]
        z[0, b] = z[0, b] + a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
        z[1, b] = z[1, b] + b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3
        z[2, b] = z[2, b] + c0 * x0 + c1 * x1 + c2 * x2 + c3 * x3
        z[3, b] = z[3, b] + e0 * x0 + e1 * x1 + e2 * x2 + e3 * x3


@njit(**OPTIONS)
def _four_last(i, s0, s1, s2, s3, W, x, z, q):
    """End with the triangle on the diagonal, and add the squares to q."""
    a0, b0, b1 = W[i, i], W[i + 1, i], W[i + 1, i + 1]
    c0, c1, c2 = W[i + 2, i], W[i + 2, i + 1], W[i + 2, i + 2]
    e0, e1, e2, e3 = W[i + 3, i], W[i + 3, i + 1], W[i + 3, i + 2], W[i + 3, i + 3]
    if i == 0:
        for b in range(x.shape[1]):
            x0, x1, x2, x3 = x[i, b], x[i + 1, b], x[i + 2, b], x[i + 3, b]
            z0 = s0 + a0 * x0
            z1 = s1 + b0 * x0 + b1 * x1
            z2 = s2 + c0 * x0 + c1 * x1 + c2 * x2
            z3 = s3 + e0 * x0 + e1 * x1 + e2 * x2 + e3 * x3
            q[b] = z0 * z0 + z1 * z1 + z2 * z2 + z3 * z3
        return
    for b in range(x.shape[1]):
        x0, x1, x2, x3 = x[i, b], x[i + 1, b], x[i + 2, b], x[i + 3, b]
        z0 = z[0, b] + a0 * x0
        z1 = z[1, b] + b0 * x0 + b1 * x1
        z2 = z[2, b] + c0 * x0 + c1 * x1 + c2 * x2
        z3 = z[3, b] + e0 * x0 + e1 * x1 + e2 * x2 + e3 * x3
        q[b] = q[b] + z0 * z0 + z1 * z1 + z2 * z2 + z3 * z3


@njit(**OPTIONS)
def _two_rows(i, W, shift, x, z, q):
    """The last two rows, where there are two beside the fours."""
    n, s0, s1 = x.shape[1], -shift[i], -shift[i + 1]
    for b in range(n):
        z[0, b] = s0
        z[1, b] = s1
    for j in range(0, i, 4):
        a0, a1, a2, a3 = W[i, j], W[i, j + 1], W[i, j + 2], W[i, j + 3]
        b0, b1, b2, b3 = W[i + 1, j], W[i + 1, j + 1], W[i + 1, j + 2], W[i + 1, j + 3]
        for b in range(n):
            x0, x1, x2, x3 = x[j, b], x[j + 1, b], x[j + 2, b], x[j + 3, b]
            z[0, b] = z[0, b] + a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
            z[1, b] = z[1, b] + b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3
    a0, b0, b1 = W[i, i], W[i + 1, i], W[i + 1, i + 1]
    for b in range(n):
        z0 = z[0, b] + a0 * x[i, b]
        z1 = z[1, b] + b0 * x[i, b] + b1 * x[i + 1, b]
        q[b] = q[b] + z0 * z0 + z1 * z1


@njit(**OPTIONS)
def _weigh(q, log_weight, slope, inverse_dof, largest, z, v, t, e, s):
    """Depths v = log(1 + q/ν), log joints t less their maximum, probabilities e, and s = 1/Σ exp(t)."""
    K, n = q.shape
    one = q.dtype.type(1)
    for k in range(K):
        c, h, inverse = log_weight[k], slope[k], inverse_dof[k]
        for b in range(n):
            far = q[k, b] if q[k, b] < largest else largest
            depth = log_one_plus(far * inverse)
            v[k, b] = depth
            t[k, b] = c - h * depth
    # The maximum goes from one row to another: in place it becomes a masked store, which is slow.
    for b in range(n):
        z[0, b] = t[0, b]
    for k in range(1, K):
        before, after = z[(k - 1) % 2], z[k % 2]
        for b in range(n):
            after[b] = t[k, b] if t[k, b] > before[b] else before[b]
    top = z[(K - 1) % 2]
    for k in range(K):
        for b in range(n):
            t[k, b] -= top[b]
            e[k, b] = exponential(t[k, b])
    for b in range(n):
        s[b] = e[0, b]
    for k in range(1, K):
        for b in range(n):
            s[b] += e[k, b]
    for b in range(n):
        s[b] = one / s[b]
    for k in range(K):
        for b in range(n):
            e[k, b] *= s[b]


@njit(**OPTIONS)
def _doubtful(q, e, doubt, error, chosen):
    """Number of points whose probabilities single precision may not give, and which they are.

    The error of a class's log joint is doubt[0] + doubt[1]·q; that of the probabilities Σ p(1−p) times it.
    """
    K, n = q.shape
    one = q.dtype.type(1)
    for b in range(n):
        error[b] = 0
    for k in range(K):
        fixed, growing = doubt[k, 0], doubt[k, 1]
        for b in range(n):
            error[b] += e[k, b] * (one - e[k, b]) * (fixed + growing * q[k, b])
    found = 0
    for b in range(n):
        found += np.int32(error[b] > TOLERANCE)
    if found:
        found = 0
        for b in range(n):
            if error[b] > TOLERANCE:
                chosen[found] = b
                found += 1
    return found


@njit(**OPTIONS)
def _again(source, coefficients, exact, w, chosen, found, q, v, t, e, s):
    """Compute some points of a block again, in double precision from what was measured."""
    p, K, few = source.shape[0], q.shape[0], 16
    raw, x, z = np.empty((p, few)), np.empty((p, few)), np.empty((4, few))
    q2, v2, t2, e2, s2 = (
        np.empty((K, few)), np.empty((K, few)), np.empty((K, few)), np.empty((K, few)), np.empty(few),
    )  # fmt: skip
    for first in range(0, found, few):
        n = min(few, found - first)
        for c in range(few):
            b = chosen[first + min(c, n - 1)]
            for j in range(p):
                raw[j, c] = source[j, b]
        _centred(raw, coefficients, exact.centre, x)
        for k in range(K):
            _squared_distance(x, exact.whitening[w, k], exact.shift[w, k], z, q2[k])
        _weigh(
            q2, exact.log_weight[w], exact.slope[w], exact.inverse_dof[w], exact.largest[0], z, v2, t2, e2, s2
        )
        for c in range(n):
            b = chosen[first + c]
            s[b] = s2[c]
            for k in range(K):
                q[k, b], v[k, b], t[k, b], e[k, b] = q2[k, c], v2[k, c], t2[k, c], e2[k, c]


@njit(**OPTIONS)
def _look(
    source, measured, coefficients, precise, lens, exact, w, single, x, z, q, v, t, e, s, error, chosen
):
    """Distances and probabilities of a block in world w, in double precision where it takes that.

    ``measured`` is the source before it was rounded.
    """
    _centred(source, coefficients, lens.centre, x)
    for k in range(q.shape[0]):
        _squared_distance(x, lens.whitening[w, k], lens.shift[w, k], z, q[k])
    _weigh(q, lens.log_weight[w], lens.slope[w], lens.inverse_dof[w], lens.largest[0], z, v, t, e, s)
    if single:
        found = _doubtful(q, e, lens.doubt[w], error, chosen)
        if found:
            _again(measured, precise, exact, w, chosen, found, q, v, t, e, s)


@njit(**OPTIONS)
def _turned(X, start, m, r, raw):
    """Features first, from samples first; the last sample fills the block."""
    p = X.shape[2]
    for first in range(0, m - 7, 8):
        for j in range(p):
            for b in range(8):
                raw[j, first + b] = X[start + first + b, r, j]
    for b in range(m - m % 8, BLOCK):
        for j in range(p):
            raw[j, b] = X[start + min(b, m - 1), r, j]


@njit(**OPTIONS)
def average_probability(X, realisations, worlds, lens, exact, single, out):
    """Probabilities of X (sample, realisation, feature), averaged over pairs of realisation and world.

    ``lens`` has the type of X; ``exact`` is the same in double precision, for what single precision cannot.
    """
    n, _, p = X.shape
    K, even, kind = out.shape[1], p + p % 2, X.dtype
    raw = np.zeros((even, BLOCK), kind)
    x, z = np.empty((even, BLOCK), kind), np.empty((4, BLOCK), kind)
    q, v, t = np.empty((K, BLOCK), kind), np.empty((K, BLOCK), kind), np.empty((K, BLOCK), kind)
    e, s, total = np.empty((K, BLOCK), kind), np.empty(BLOCK, kind), np.empty((K, BLOCK), kind)
    error, chosen = np.empty(BLOCK, kind), np.empty(BLOCK, np.int64)
    none, nothing = np.empty((0, even), kind), np.empty((0, even))
    share = 1.0 / len(realisations)
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        total[:] = 0
        for i in range(len(realisations)):
            r, w = realisations[i], worlds[i]
            _turned(X, start, m, r, raw)
            _look(raw, raw, none, nothing, lens, exact, w, single, x, z, q, v, t, e, s, error, chosen)
            for k in range(K):
                for b in range(BLOCK):
                    total[k, b] += e[k, b]
        for b in range(m):
            for k in range(K):
                out[start + b, k] = total[k, b] * share


@njit(**OPTIONS)
def _typicality(v, dof, tail, z, total):
    """Add p-values: e^(−νv/2) Σ_j c_j w^j with w = ν/2·(1 − e^(−v)), for an even number of features."""
    K, n = v.shape
    one, highest, limit = (
        v.dtype.type(1),
        v.dtype.type(88),
        v.dtype.type(0.0625 if v.itemsize == 4 else 0.001),
    )
    c2, c3, c4 = v.dtype.type(1 / 2), v.dtype.type(1 / 6), v.dtype.type(1 / 24)
    last = tail.shape[1] - 1
    for k in range(K):
        half = v.dtype.type(0.5) * dof[k]
        highest_term = tail[k, last]
        for b in range(n):
            d = v[k, b]
            # 1 − e^(−v) cancels where v is small, which it is where ν is large.
            small = d * (one - d * (c2 - d * (c3 - d * c4)))
            w = half * (small if d < limit else one - exponential(-d))
            z[0, b] = w if w < highest else highest
            z[1, b] = highest_term
        for j in range(last - 1, -1, -1):
            term = tail[k, j]
            for b in range(n):
                z[1, b] = z[1, b] * z[0, b] + term
        for b in range(n):
            total[k, b] += exponential(-half * v[k, b]) * z[1, b]


@njit(**OPTIONS)
def _typicality_by_table(v, scale, table, total):
    """Add p-values read from a table over √v, for an odd number of features."""
    K, n = v.shape
    last = v.dtype.type(table.shape[1] - 2)
    for k in range(K):
        for b in range(n):
            place = np.sqrt(v[k, b]) * scale[k]
            place = place if place < last else last
            left = np.int64(place)
            before = table[k, left]
            total[k, b] += before + (place - v.dtype.type(left)) * (table[k, left + 1] - before)


@njit(**OPTIONS)
def _entropy(e, t, s, inner):
    """Entropies −Σ p log p = log Σ exp(t) − Σ p t."""
    K, n = e.shape
    one = e.dtype.type(1)
    for b in range(n):
        inner[b] = log_one_plus(one / s[b] - one)
    for k in range(K):
        for b in range(n):
            inner[b] -= e[k, b] * t[k, b]


@njit(**OPTIONS)
def _model_part(q, e, variance, largest, inner, z, model):
    """Add H·(1 − e^(−I/H)) with I = ½ Σ v p(1−p), v = a + q·(b + q·c) and H the entropy."""
    K, n = q.shape
    one, half, tiny = q.dtype.type(1), q.dtype.type(0.5), q.dtype.type(1e-30)
    for b in range(n):
        z[0, b] = 0
    for k in range(K):
        constant, linear, square = half * variance[k, 0], half * variance[k, 1], half * variance[k, 2]
        for b in range(n):
            far = q[k, b] if q[k, b] < largest else largest
            z[0, b] += (constant + far * (linear + far * square)) * (e[k, b] * (one - e[k, b]))
    for b in range(n):
        h = inner[b] if inner[b] > tiny else tiny
        model[b] += h * (one - exponential(-z[0, b] / h))


@njit(**OPTIONS)
def _most_probable(t, found, best):
    """The first class whose log joint is the maximum, which is 0."""
    K, n = t.shape
    for b in range(n):
        found[b] = 0
        best[b] = 0
    for k in range(K):
        number = np.int32(k)
        for b in range(n):
            hit = np.int32(t[k, b] == 0) * (np.int32(1) - found[b])
            best[b] += hit * number
            found[b] += hit


@njit(**OPTIONS)
def _load(planes, r, start, m, scale, offset, measured, raw):
    """A block of planes (realisation, feature, pixel) as physical values, in double precision and rounded.

    The last pixel fills the block.
    """
    for j in range(planes.shape[1]):
        a, c = scale[j], offset[j]
        for b in range(m):
            measured[j, b] = planes[r, j, start + b] * a + c
        for b in range(m, BLOCK):
            measured[j, b] = measured[j, m - 1]
        for b in range(BLOCK):
            raw[j, b] = measured[j, b]


@njit(**OPTIONS)
def summarise(planes, scale, offset, coefficients, precise, realisations, worlds, lens, exact, single, out):
    """Sums over pairs of realisation and world of all that a map says of its pixels.

    ``planes`` are (realisation, feature, pixel) numbers, physical after scale and offset; with coefficients
    (realisation, 3, feature) there is one plane a feature, at the top of the atmosphere. ``out`` has the rows
    probability (class, pixel), typicality (class, pixel), inner (pixel), model (pixel), and the most probable
    class (pair, pixel).
    """
    n, p, K = planes.shape[2], planes.shape[1], out.probability.shape[0]
    even, kind = p + p % 2, lens.whitening.dtype
    measured = np.zeros((even, BLOCK))
    raw, x, z = np.zeros((even, BLOCK), kind), np.empty((even, BLOCK), kind), np.empty((4, BLOCK), kind)
    q, v, t = np.empty((K, BLOCK), kind), np.empty((K, BLOCK), kind), np.empty((K, BLOCK), kind)
    e, s, inner = np.empty((K, BLOCK), kind), np.empty(BLOCK, kind), np.empty(BLOCK, kind)
    p_value, probability = np.empty((K, BLOCK), kind), np.empty((K, BLOCK), kind)
    entropies, model = np.empty(BLOCK, kind), np.empty(BLOCK, kind)
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
            r, w = realisations[i], worlds[i]
            if corrected:
                _look(
                    raw, measured, coefficients[r], precise[r], lens, exact, w, single,
                    x, z, q, v, t, e, s, error, chosen,
                )  # fmt: skip
            else:
                _load(planes, r, start, m, scale, offset, measured, raw)
                _look(
                    raw, measured, none, nothing, lens, exact, w, single,
                    x, z, q, v, t, e, s, error, chosen,
                )  # fmt: skip
            for k in range(K):
                for b in range(BLOCK):
                    probability[k, b] += e[k, b]
            if p % 2:
                _typicality_by_table(v, lens.table_scale[w], lens.table[w], p_value)
            else:
                _typicality(v, lens.dof[w], lens.tail[w], z, p_value)
            _entropy(e, t, s, inner)
            _model_part(q, e, lens.variance[w], lens.largest[0], inner, z, model)
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
                out.typicality[k, start + b] = p_value[k, b]


@njit(**OPTIONS)
def grouped_moments(x, groups, weight, count, mean, scatter, residual):
    """Moments of each group of one block of samples (sample, feature): two passes, the second centred.

    ``weight`` may be empty. The rest is written to: count (group,), mean and residual (group, feature), and
    scatter (group, feature, feature).
    """
    n, p = x.shape
    weighted = len(weight) > 0
    count[:] = 0.0
    mean[:] = 0.0
    scatter[:] = 0.0
    residual[:] = 0.0
    for i in range(n):
        g, w = groups[i], weight[i] if weighted else 1.0
        count[g] += w
        for j in range(p):
            mean[g, j] += w * x[i, j]
    for g in range(len(count)):
        if count[g] > 0.0:
            mean[g] /= count[g]
    d = np.empty(p)
    for i in range(n):
        g, w = groups[i], weight[i] if weighted else 1.0
        for j in range(p):
            d[j] = x[i, j] - mean[g, j]
            residual[g, j] += w * d[j]
        for a in range(p):
            scaled = w * d[a]
            for b in range(a + 1):
                scatter[g, a, b] += scaled * d[b]
    for g in range(len(count)):
        if count[g] > 0.0:
            residual[g] /= count[g]
        for a in range(p):
            for b in range(a + 1):
                scatter[g, a, b] -= count[g] * residual[g, a] * residual[g, b]
                scatter[g, b, a] = scatter[g, a, b]
