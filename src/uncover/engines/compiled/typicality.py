"""Machine code for p-values, without noise and with known noise (:mod:`uncover.bayes.hotelling`).

With noise, coordinates are such that the covariance C of a component's samples is the identity, and their
mean noise S diagonal. The pixels of a block are the lanes of the innermost loops.
"""

from math import lgamma
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from uncover.engines.compiled.functions import exponential, one_less_exponential
from uncover.engines.compiled.simd import INNER, OPTIONS, below, full, lesser, load, number, simd_width, store

# As in hotelling.py: standard errors that a variance counts as at least, and 1 − t that counts as none.
FEWEST_ERRORS, SAME_NOISE = 2.0, 1e-6
FAR = 1e300
# Relative error of the continued fraction, and its terms at most.
_PRECISION, _TERMS = 1e-15, 20_000


@njit(**INNER)
def add_typicality(v, dof, tail, total):
    """Add p-values: e^(−νv/2) Σ_j c_j w^j with w = ν/2·(1 − e^(−v)), for an even number of features."""
    highest = v.dtype.type(88)
    last = tail.shape[1] - 1
    for c in range(v.shape[0]):
        half = v.dtype.type(0.5) * dof[c]
        for b in range(0, v.shape[1], simd_width(v)):
            log1p_distance = load(v, (c, b))
            w = lesser(half * one_less_exponential(log1p_distance), highest)
            y = full(number(tail, (c, last)))
            for j in range(1, last + 1):
                y = y * w + number(tail, (c, last - j))
            store(total, (c, b), load(total, (c, b)) + exponential(-(half * log1p_distance)) * y)


@njit(**INNER)
def add_typicality_by_table(v, scale, table, total):
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


class Tails(NamedTuple):
    """Metric and distribution of distances for each component, or for one of them at a time."""

    half: NDArray[Any]  # (feature, feature, pixel), T·noise
    W: NDArray[Any]  # (feature, feature, pixel), noise
    L: NDArray[Any]  # (feature, feature, pixel), Cholesky factor of I + (1−t)W, the diagonal inverted
    t: NDArray[Any]  # (pixel,)
    sums: NDArray[Any]  # (4, pixel): tr M⁻¹, tr M⁻², tr M⁻¹E, tr (M⁻¹E)²
    root: NDArray[Any]  # (component or 1, feature, feature, pixel), L⁻¹
    size: NDArray[Any]  # (component or 1, pixel), as the next two
    features: NDArray[Any]
    dof: NDArray[Any]


@njit(**OPTIONS)
def make_tails(p, slots, n):
    """Allocate tails of n pixels of p features."""
    square, flat = (p, p, n), (slots, n)
    return Tails(
        np.empty(square), np.empty(square), np.empty(square), np.empty(n), np.empty((4, n)),
        np.empty((slots, p, p, n)), np.empty(flat), np.empty(flat), np.empty(flat),
    )  # fmt: skip


@njit(**INNER)
def _whiten(C, T, common, half, W):
    """W = T·C·Tᵀ + common, lower triangle, from the lower triangle of C."""
    p, n = C.shape[0], C.shape[2]
    for b in range(0, n, simd_width(C)):
        for i in range(p):
            for j in range(p):
                total = full(0.0)
                for m in range(j):
                    total += number(T, (i, m)) * load(C, (j, m, b))
                for m in range(j, p):
                    total += number(T, (i, m)) * load(C, (m, j, b))
                store(half, (i, j, b), total)
        for i in range(p):
            for j in range(i + 1):
                total = full(number(common, (i, j)))
                for m in range(p):
                    total += number(T, (j, m)) * load(half, (i, m, b))
                store(W, (i, j, b), total)


@njit(**INNER)
def _factorise(W, t, L):
    """Cholesky factor of I + (1−t)W; no pivot is smaller than without noise, whatever rounding did to W."""
    p, n = W.shape[0], W.shape[2]
    for j in range(p):
        for i in range(j, p):
            for b in range(0, n, simd_width(W)):
                total = load(W, (i, j, b)) * (1.0 - load(t, (b,)))
                for m in range(j):
                    total += -(load(L, (i, m, b)) * load(L, (j, m, b)))
                store(L, (i, j, b), total)
        for b in range(n):
            left = L[j, j, b] if L[j, j, b] > 0.0 else 0.0
            L[j, j, b] = 1.0 / np.sqrt(1.0 + left)
        for i in range(j + 1, p):
            for b in range(n):
                L[i, j, b] *= L[j, j, b]


@njit(**INNER)
def _invert(L, root):
    """L⁻¹ of a lower triangle whose diagonal is inverted."""
    p, n = L.shape[0], L.shape[2]
    for b in range(0, n, simd_width(L)):
        for j in range(p):
            store(root, (j, j, b), load(L, (j, j, b)))
            for i in range(j + 1, p):
                total = full(0.0)
                for m in range(j, i):
                    total += load(L, (i, m, b)) * load(root, (m, j, b))
                store(root, (i, j, b), -(total * load(L, (i, i, b))))


@njit(**INNER)
def _add_up(root, W, t, own, sums):
    """Traces of M⁻¹, of M⁻¹E with E = tW − S, and of their squares."""
    p, n = W.shape[0], W.shape[2]
    for b in range(0, n, simd_width(W)):
        share = load(t, (b,))
        rest = 1.0 - share
        first, second, mean, square = full(0.0), full(0.0), full(0.0), full(0.0)
        for i in range(p):
            for j in range(i + 1):
                inverse = full(0.0)
                for m in range(i, p):
                    inverse += load(root, (m, i, b)) * load(root, (m, j, b))
                one, times = (1.0, 1.0) if i == j else (0.0, 2.0)
                ratio = below(rest, SAME_NOISE, load(W, (i, j, b)), (one - inverse) / rest)  # M⁻¹W
                left, right = share * ratio - own[i] * inverse, share * ratio - own[j] * inverse
                second += (times * inverse) * inverse
                square += (times * left) * right
                if i == j:
                    first += inverse
                    mean += left
        store(sums, (0, b), first)
        store(sums, (1, b), second)
        store(sums, (2, b), mean)
        store(sums, (3, b), square)


@njit(**INNER)
def _distribution(p, free, sums, size, features, known):
    """Scale, and degrees of freedom of the F distribution, of each pixel."""
    unbiased = max(free - p - 1.0, 0.0) / free
    least = min(FEWEST_ERRORS * np.sqrt(2.0 / (free * p)), 1.0)
    root, power = np.sqrt((free - p + 1.0) / free), max(free * p - 0.5, 0.0) / (free * p + 3.5)
    for b in range(len(size)):
        first, second, mean = sums[0, b], sums[1, b], sums[2, b] / p
        nu = free + root * free * (((p + p * p) / (second + first * first)) ** power - 1.0)
        left = max(1.0 + unbiased * mean, least)
        square = sums[3, b] / p - mean * mean * free / max(free - p, 1e-6)
        spread = max(unbiased * unbiased * square, 0.0) / (left * left)
        dof = nu - p + 1.0
        small = min(left, 1.0)
        lost = (1.0 / (small * small) - 1.0) / (free * p)
        known[b] = max(1.0 / (1.0 / dof + lost), min(dof, 1.0))
        size[b] = nu * p * left / dof
        features[b] = max(p / (1.0 + spread), 1.0)


@njit(**OPTIONS)
def find_tails(C, reference, k, slot, tails):
    """Metric and distribution of distances from component k, of pixels with noise C."""
    p, n = C.shape[0], C.shape[2]
    _whiten(C, reference.transform[k], reference.common[k], tails.half, tails.W)
    own = reference.own[k].sum()
    for b in range(n):
        trace = 0.0
        for i in range(p):
            trace += tails.W[i, i, b]
        tails.t[b] = own / max(trace, max(own, 2.2250738585072014e-308))
    _factorise(tails.W, tails.t, tails.L)
    _invert(tails.L, tails.root[slot])
    _add_up(tails.root[slot], tails.W, tails.t, reference.own[k], tails.sums)
    _distribution(p, reference.free[k], tails.sums, tails.size[slot], tails.features[slot], tails.dof[slot])


@njit(**OPTIONS)
def p_values(x, reference, k, slot, tails, z, out):
    """p-values of values x (feature, pixel) for component k; z is room for as many numbers."""
    p, n = len(z), len(out)
    T, root = reference.transform[k], tails.root[slot]
    for i in range(p):
        for b in range(0, n, simd_width(x)):
            total = full(0.0)
            for m in range(p):
                total += number(T, (i, m)) * (load(x, (m, b)) - reference.location[k, m])
            store(z, (i, b), total)
    for b in range(0, n, simd_width(x)):
        square = full(0.0)
        for i in range(p):
            total = full(0.0)
            for m in range(i + 1):
                total += load(root, (i, m, b)) * load(z, (m, b))
            square += total * total
        store(out, (b,), square)
    for b in range(n):
        q = out[b] / tails.size[slot, b] * tails.features[slot, b]
        out[b] = f_tail(q if q < FAR else FAR, tails.features[slot, b], tails.dof[slot, b])


@njit(**OPTIONS)
def f_tail(square, features, dof):
    """P(features·F > square) for F ~ F(features, dof): I_x(a, b) with x = dof/(dof + square)."""
    if not square > 0.0:
        return 1.0
    a, b, x, y = 0.5 * dof, 0.5 * features, dof / (dof + square), square / (dof + square)
    log_front = b * np.log(y) - a * np.log1p(square / dof) + _log_gamma_ratio(a, b) - lgamma(b)
    if x < (a + 1.0) / (a + b + 2.0):
        return np.exp(log_front) * _continued_fraction(a, b, x, y) if log_front > -745.0 else 0.0
    return 1.0 - np.exp(log_front) * _continued_fraction(b, a, y, x)


@njit(**OPTIONS)
def _log_gamma_ratio(a, b):
    """log Γ(a+b)/Γ(a), by Stirling's series where the difference of logarithms would cancel."""
    if a < 30.0:
        return lgamma(a + b) - lgamma(a)
    u, v = 1.0 / (a + b), 1.0 / a
    rest = (u - v) / 12.0 - (u**3 - v**3) / 360.0 + (u**5 - v**5) / 1260.0
    return (a - 0.5) * np.log1p(b / a) + b * np.log(a + b) - b + rest


@njit(**OPTIONS)
def _continued_fraction(a, b, x, y):
    """I_x(a, b)·B(a, b)/(x^a y^b) with y = 1 − x: the even part of DLMF 8.17.22, whose terms do not cancel.

    Convergents are ratios of two sums, formed and compared four terms at a time.
    """
    start = a * y - b * x + 1.0
    last_top, top, last_bottom, bottom = 0.0, 1.0, 1.0, a * start / (a + 1.0)
    before = value = 0.0
    for first in range(1, _TERMS, 4):
        for n in range(first, first + 4):
            inverse = 1.0 / (a + 2 * n - 1.0)
            up = (a + n - 1.0) * inverse * ((a + b + n - 1.0) * inverse) * n * (b - n) * x * x
            down = n + n * (b - n) * x * inverse + (a + n) * (start + n * (1.0 + y)) / (a + 2 * n + 1.0)
            last_top, top = top, down * top + up * last_top
            last_bottom, bottom = bottom, down * bottom + up * last_bottom
        scale = 1.0 / bottom
        value = top * scale
        if abs(value - before) <= _PRECISION * abs(value):
            break
        before = value
        last_top, top, last_bottom, bottom = last_top * scale, value, last_bottom * scale, 1.0
    return value
