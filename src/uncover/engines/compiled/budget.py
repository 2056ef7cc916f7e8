"""Machine code for what follows from averages over worlds: entropy, the budget, first and second class.

The formulas are those of :mod:`uncover.bayes.budget`; here they are one pass over the points, in blocks that
stay in the cache.
"""

import numpy as np
from numba import njit

from uncover.engines.compiled.functions import artanh_series
from uncover.engines.compiled.simd import INNER, OPTIONS

BLOCK = 512


@njit(**INNER)
def _surprise(p):
    """−p·log p in double precision, 0 for 0: by the series of artanh, p = 2^e·m with m from 1/√2 to √2."""
    x = p if p > 1e-300 else 1e-300
    bits = np.uint64(np.float64(x).view(np.uint64))
    raised = np.uint64((bits - np.uint64(0x3FE6A09E667F3BCD)) + np.uint64(0x3FF0000000000000))
    e = np.uint64(raised >> np.uint64(52))
    m = np.uint64(bits - np.uint64(np.uint64(e - np.uint64(1023)) << np.uint64(52))).view(np.float64)
    # 2^52 + e as bits, less 2^52: a conversion that vectors have.
    n = np.uint64(e | np.uint64(0x4330000000000000)).view(np.float64) - 4503599627371519.0
    s = (m - 1.0) / (m + 1.0)
    y = artanh_series(s * s)
    return -p * (n * 6.93147180369123816490e-01 + (s * y + n * 1.90821492927058770002e-10))


@njit(**OPTIONS)
def _entropy(probability, start, total):
    """Entropies of a block of points (class, point)."""
    kind = total.dtype.type
    for b in range(len(total)):
        total[b] = kind(_surprise(np.float64(probability[0, start + b])))
    for k in range(1, len(probability)):
        for b in range(len(total)):
            total[b] += kind(_surprise(np.float64(probability[k, start + b])))
    for b in range(len(total)):
        total[b] = total[b] if total[b] > 0 else kind(0)


@njit(**OPTIONS)
def _rank(probability, start, first, second, number):
    """The most probable class, the first of equals; its probability and the next."""
    for b in range(len(first)):
        first[b] = probability[0, start + b]
        second[b] = 0
        number[b] = 0
    for k in range(1, len(probability)):
        here = np.int32(k)
        for b in range(len(first)):
            p, most = probability[k, start + b], first[b]
            less = p if p < most else most
            second[b] = less if less > second[b] else second[b]
            number[b] = here if p > most else number[b]
            first[b] = p if p > most else most


@njit(**OPTIONS)
def _split(total, inner, model, start, out):
    """Measurement, model and overlap of a block of points: never negative, and the total together."""
    zero = out.dtype.type(0)
    for b in range(len(total)):
        between = total[b] - inner[start + b]
        between = between if between > zero else zero
        rest = total[b] - between
        rest = rest if rest > zero else zero
        part = model[start + b] if model[start + b] < rest else rest
        overlap = total[b] - between - part
        out[0, start + b] = total[b]
        out[1, start + b] = between
        out[2, start + b] = part
        out[3, start + b] = overlap if overlap > zero else zero


@njit(**OPTIONS)
def conclude(probability, typicality, model, inner, worlds, out, disagreement, best):
    """From averages over worlds, classes first, to all that is said of a point.

    ``worlds`` (world, point) has the class in each world. Written to: ``out``, whose rows are total,
    measurement, model, overlap, margin and typicality; ``disagreement`` and ``best`` (point,).
    """
    K, n = probability.shape
    kind = probability.dtype
    total, first, second = np.empty(BLOCK, kind), np.empty(BLOCK, kind), np.empty(BLOCK, kind)
    number, others = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.int32)
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        _entropy(probability, start, total[:m])
        _split(total[:m], inner, model, start, out)
        _rank(probability, start, first[:m], second[:m], number[:m])
        others[:] = 0
        for w in range(len(worlds)):
            for b in range(m):
                others[b] += np.int32(worlds[w, start + b] != number[b])
        for b in range(m):
            out[4, start + b] = first[b] - second[b]
            disagreement[start + b] = others[b] / len(worlds)
            best[start + b] = number[b]
        for b in range(m):
            out[5, start + b] = typicality[0, start + b]
        for k in range(1, K):
            for b in range(m):
                here, most = typicality[k, start + b], out[5, start + b]
                out[5, start + b] = here if here > most else most
