"""Machine code that needs no class densities: pixels of a map, moments of groups, kernels and trees.

Pixels are taken, put and counted as :mod:`uncover.raster.pixel_kernels` says. Moments take two passes over a
block that stays in the cache, the second centred. No table of distances or of leaves is ever made.
"""

import numpy as np
from numba import njit

from uncover.engines.compiled.functions import exponential
from uncover.engines.compiled.simd import (
    INNER,
    OPTIONS,
    borrowed,
    full,
    larger,
    load,
    number,
    simd_width,
    store,
    sum_of,
)

# A product and a sum stay two steps where NumPy's numbers are to come out to the last bit.
PLAIN = {"nogil": True, "cache": True, "error_model": "numpy"}
# Numbers of one group that are turned and multiplied at a time.
_AT_A_TIME = 8192
# Points that stay in the cache while trees are read, and those that go down a tree together.
_TREE_BLOCK, _TOGETHER = 256, 16


@njit(**PLAIN)
def calibrate(numbers, scale, offset, nodata, saturated, bit, out, flags):
    """scale·number + offset (row, col) in single precision; NaN and the bit for numbers that are none."""
    for i in range(numbers.shape[0]):
        for j in range(numbers.shape[1]):
            number = numbers[i, j]
            value = number * scale + offset
            full = number == saturated
            out[i, j] = np.nan if full or number == nodata else value
            flags[i, j] |= bit if full else np.uint16(0)


@njit(**PLAIN)
def complete(planes, nothing, some, flags):
    """Set the bits of pixels that have a finite value in no or only in some of the planes (band, pixel)."""
    missing = np.zeros(len(flags), np.int32)
    for j in range(len(planes)):
        for i in range(len(flags)):
            missing[i] += np.int32(not np.isfinite(planes[j, i]))
    for i in range(len(flags)):
        if missing[i] == len(planes):
            flags[i] |= nothing
        elif missing[i] > 0:
            flags[i] |= some


@njit(**OPTIONS)
def gather(planes, where, out):
    """Pixels of planes (band, pixel) by their place: (band, place)."""
    for j in range(len(planes)):
        for i in range(len(where)):
            out[j, i] = planes[j, where[i]]


@njit(**OPTIONS)
def put_steps(values, step, nothing, where, row, out):
    """Numbers (band, place) as whole steps, NaN as `nothing`, to their places in planes (band, pixel).

    ``row`` is room for the steps of one band.
    """
    for j in range(len(values)):
        for i in range(len(where)):
            number = np.rint(values[j, i] / step)
            row[i] = np.int32(number) if number == number else nothing
        for i in range(len(where)):
            out[j, where[i]] = row[i]


@njit(**OPTIONS)
def mark(best, typicality, disagreement, margin, limits, bits, codes, where, classes, quality):
    """Code of the class, and the bits of what lies beyond the limits of the three, at each pixel's place."""
    for i in range(len(where)):
        place = where[i]
        classes[place] = codes[best[i]]
        if not typicality[i] >= limits[0]:
            quality[place] |= bits[0]
        if disagreement[i] > limits[1]:
            quality[place] |= bits[1]
        if margin[i] < limits[2]:
            quality[place] |= bits[2]


@njit(**OPTIONS)
def add_areas(areas, best, worlds, weight, where):
    """Add pixels and areas of classes, and their areas in each world, to (2 + world, class)."""
    for i in range(len(where)):
        areas[0, best[i]] += 1.0
        areas[1, best[i]] += weight[where[i]]
    for w in range(len(worlds)):
        for i in range(len(where)):
            areas[2 + w, worlds[w, i]] += weight[where[i]]


@njit(**OPTIONS)
def count(planes, counts):
    """Add how often each number occurs in planes (band, pixel) to (band, number)."""
    for j in range(planes.shape[0]):
        for i in range(planes.shape[1]):
            counts[j, planes[j, i]] += 1


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


@njit(**OPTIONS)
def kernel_sums(points, centres, offset, weight, first, sums, squares):
    """Sums of w·k and of (w·k)² over the centres of each class, with kernels k = (1 + |x − c|²)⁻⁶.

    Points are (point, feature), in units of the bandwidth and about the middle of the centres. ``centres``
    (centre, feature) holds −2c, ``offset`` 1 + |c|², ``weight`` w; those of class k are ``first[k]`` …
    ``first[k + 1] − 1``. Results are (point, class). Far out, at |x|² > s = 1 + max|c|², 1 + |x − c|² is
    divided by |x|²/s, lest single precision underflow.
    """
    points, centres = borrowed(points), borrowed(centres)
    (n, p), kind = points.shape, points.dtype.type
    spread = kind(max(offset.max(), kind(1)))
    x, norm, unit = np.empty((p, 64), kind), np.empty(64, kind), np.empty(64, kind)
    found, again = np.empty(64, kind), np.empty(64, kind)
    for start in range(0, n, 64):
        m = min(64, n - start)
        for b in range(64):
            square = kind(0)
            for j in range(p):
                square += points[start + min(b, m - 1), j] ** 2
            unit[b] = kind(1) / max(square / spread, kind(1))
            norm[b] = square * unit[b]
            for j in range(p):
                x[j, b] = points[start + min(b, m - 1), j] * unit[b]
        for k in range(sums.shape[1]):
            for b in range(0, 64, 2 * simd_width(x)):
                _sum_kernels(x, norm, unit, b, centres, offset, weight, first[k], first[k + 1], found, again)
            for b in range(m):
                far = np.float64(unit[b]) ** 6
                sums[start + b, k], squares[start + b, k] = found[b] * far, again[b] * far * far


@njit(**INNER)
def _sum_kernels(x, norm, unit, b, centres, offset, weight, start, stop, found, again):
    """Sums over some centres for two vectors of points: each number of a centre is used twice."""
    c, one = b + simd_width(x), x.dtype.type(1)
    norm0, norm1, unit0, unit1 = load(norm, (b,)), load(norm, (c,)), load(unit, (b,)), load(unit, (c,))
    sum0 = sum1 = square0 = square1 = full(x.dtype.type(0))
    for i in range(start, stop):
        a0, a1 = norm0 + number(offset, (i,)) * unit0, norm1 + number(offset, (i,)) * unit1
        for j in range(x.shape[0]):
            at = number(centres, (i, j))
            a0 += at * load(x, (j, b))
            a1 += at * load(x, (j, c))
        near0, near1 = one / larger(a0, unit0), one / larger(a1, unit1)
        two0, two1 = near0 * near0, near1 * near1
        w = number(weight, (i,))
        k0, k1 = w * (two0 * two0 * two0), w * (two1 * two1 * two1)
        sum0 += k0
        sum1 += k1
        square0 += k0 * k0
        square1 += k1 * k1
    store(found, (b,), sum0)
    store(found, (c,), sum1)
    store(again, (b,), square0)
    store(again, (c,), square1)


@njit(**OPTIONS)
def sums_of_leaves(points, node, threshold, roots, shares, out):
    """Sums over the trees of what the leaf of each point says.

    ``node`` holds 256 times the number of the left child, which the right one follows, plus the feature; a
    leaf is its own left child and has no point to its right. Tree by tree for a block of points that stays in
    the nearest cache, in the order in which NumPy would add them.
    """
    node, threshold, shares = borrowed(node), borrowed(threshold), borrowed(shares)
    n, p = points.shape
    at, x = np.empty(_TOGETHER, np.int64), np.empty((_TREE_BLOCK + _TOGETHER) * p, points.dtype)
    out[:] = 0.0
    for begin in range(0, n, _TREE_BLOCK):
        m = min(_TREE_BLOCK, n - begin)
        for b in range(m + _TOGETHER):
            for j in range(p):
                x[b * p + j] = points[begin + min(b, m - 1), j]
        for root in roots:
            for start in range(0, m, _TOGETHER):
                _descend(x[start * p :], p, node, threshold, root, at)
                for b in range(min(_TOGETHER, m - start)):
                    for k in range(out.shape[1]):
                        out[begin + start + b, k] += shares[at[b], k]


@njit(**INNER)
def _descend(x, p, node, threshold, root, at):
    """Leaves of some points of one tree: while one waits for memory, others go on."""
    at[:] = root
    moved = True
    while moved:
        moved = False
        for b in range(_TOGETHER):
            i = at[b]
            packed = number(node, (i,))
            right = number(x, (b * p + (packed & 255),)) > number(threshold, (i,))
            at[b] = (packed >> 8) + np.int64(right)
            moved |= at[b] != i


@njit(**OPTIONS)
def temper(joint, sharpness, probability, inner, best):
    """Probabilities and entropies of log joints (point, view, class) over a temperature, means over views.

    ``best`` (point, view) is the first class of the largest. Where no class is possible, all are alike.
    """
    n, R, K = joint.shape
    e = np.empty(K)
    for i in range(n):
        probability[i] = 0.0
        total = 0.0
        for r in range(R):
            top, number_of_top = joint[i, r, 0], 0
            for k in range(1, K):
                if joint[i, r, k] > top:
                    top, number_of_top = joint[i, r, k], k
            best[i, r] = number_of_top
            whole, along = 0.0, 0.0
            for k in range(K):
                t = larger(sharpness * (joint[i, r, k] - top), -700.0) if np.isfinite(top) else 0.0
                e[k] = exponential(t)
                whole += e[k]
                along += e[k] * t
            total += np.log(whole) - along / whole
            for k in range(K):
                probability[i, k] += e[k] / whole
        inner[i] = max(total, 0.0) / R
        for k in range(K):
            probability[i, k] /= R
