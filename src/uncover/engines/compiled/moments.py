"""Moments of groups of samples: two passes over a block that stays in the cache, the second centred."""

import numpy as np
from numba import njit

from uncover.engines.compiled.simd import INNER, OPTIONS, borrowed, full, load, simd_width, sum_of

# Numbers of one group that are turned and multiplied at a time.
_AT_A_TIME = 8192


@njit(**OPTIONS)
def grouped_moments(x, groups, weight, count, mean, scatter, residual):
    """Moments of each group of one block of samples (sample, feature).

    ``weight`` may be empty. The rest is written to: count (group,), mean and residual (group, feature), and
    scatter (group, feature, feature).
    """
    p = x.shape[1]
    width = max(simd_width(mean), _AT_A_TIME // p - _AT_A_TIME // p % simd_width(mean))
    d = np.zeros((p + p % 2, width))
    weighted = np.zeros((p + p % 2, width if len(weight) > 0 else 0))
    edges, order = np.zeros(len(count) + 1, np.int64), np.empty(len(x), np.int64)
    _moments(x, groups, weight, d, weighted, edges, order, (count, mean, scatter, residual))


@njit(**INNER)
def _moments(x, groups, weight, d, weighted, edges, order, out):
    count, mean, scatter, residual = borrowed(out)
    x, groups, weight, order = borrowed(x), borrowed(groups), borrowed(weight), borrowed(order)
    d, weighted, edges = borrowed(d), borrowed(weighted), borrowed(edges)
    _means(x, groups, weight, count, mean)
    _sort(groups, edges, order)
    scatter[:] = 0.0
    residual[:] = 0.0
    for g in range(len(count)):
        for start in range(edges[g], edges[g + 1], d.shape[1]):
            members = order[start : min(start + d.shape[1], edges[g + 1])]
            _turn(x, members, mean[g], d)
            if len(weight) > 0:
                _weigh(d, members, weight, weighted)
                _add_products(weighted, d, scatter[g], residual[g])
            else:
                _add_products(d, d, scatter[g], residual[g])
        if count[g] > 0.0:
            _finish(count[g], scatter[g], residual[g])


@njit(**INNER)
def _means(x, groups, weight, count, mean):
    """Counts and means of the groups."""
    p = x.shape[1]
    count[:] = 0.0
    mean[:] = 0.0
    for i in range(len(x)):
        g, w = groups[i], weight[i] if len(weight) > 0 else 1.0
        count[g] += w
        for j in range(p):
            mean[g, j] += w * x[i, j]
    for g in range(len(count)):
        if count[g] > 0.0:
            for j in range(p):
                mean[g, j] /= count[g]


@njit(**INNER)
def _sort(groups, edges, order):
    """Numbers of the samples by group, and where each group begins."""
    edges[:] = 0
    for i in range(len(groups)):
        edges[groups[i] + 1] += 1
    for g in range(1, len(edges)):
        edges[g] += edges[g - 1]
    for i in range(len(groups)):
        order[edges[groups[i]]] = i
        edges[groups[i]] += 1
    for g in range(len(edges) - 1, 0, -1):  # each has moved to where the next begins
        edges[g] = edges[g - 1]
    edges[0] = 0


@njit(**INNER)
def _turn(x, members, mean, d):
    """Samples of one group less their mean, features first; zeros fill the lines."""
    p, n = x.shape[1], len(members)
    for b in range(n):
        i = members[b]
        for j in range(p):
            d[j, b] = x[i, j] - mean[j]
    for b in range(n, d.shape[1]):
        for j in range(p):
            d[j, b] = 0.0


@njit(**INNER)
def _weigh(d, members, weight, weighted):
    for j in range(d.shape[0]):
        for b in range(len(members)):
            weighted[j, b] = weight[members[b]] * d[j, b]
        for b in range(len(members), d.shape[1]):
            weighted[j, b] = 0.0


@njit(**INNER)
def _add_products(weighted, d, scatter, residual):
    """Add sums of products to the lower triangle, two rows by two columns at a time, and sums to the rest."""
    p = len(residual)
    for i in range(0, p, 2):
        _add_sums(weighted, i, residual)
        for j in range(0, i + 1, 2):
            a, b, c, e = full(0.0), full(0.0), full(0.0), full(0.0)
            for s in range(0, d.shape[1], simd_width(d)):
                w0, w1 = load(weighted, (i, s)), load(weighted, (i + 1, s))
                d0, d1 = load(d, (j, s)), load(d, (j + 1, s))
                a += w0 * d0
                b += w0 * d1
                c += w1 * d0
                e += w1 * d1
            scatter[i, j] += sum_of(a)
            if j < i:
                scatter[i, j + 1] += sum_of(b)
            if i + 1 < p:
                scatter[i + 1, j] += sum_of(c)
                scatter[i + 1, j + 1] += sum_of(e)


@njit(**INNER)
def _add_sums(weighted, i, residual):
    a, b = full(0.0), full(0.0)
    for s in range(0, weighted.shape[1], simd_width(weighted)):
        a += load(weighted, (i, s))
        b += load(weighted, (i + 1, s))
    residual[i] += sum_of(a)
    if i + 1 < len(residual):
        residual[i + 1] += sum_of(b)


@njit(**INNER)
def _finish(count, scatter, residual):
    """Take out what rounding left in the mean, and mirror the triangle."""
    for i in range(len(residual)):
        residual[i] /= count
    for i in range(len(residual)):
        for j in range(i + 1):
            scatter[i, j] -= count * residual[i] * residual[j]
            scatter[j, i] = scatter[i, j]
