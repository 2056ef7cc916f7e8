"""Machine code for kernels and trees, by numba: no table of distances or of leaves is ever made."""

import numpy as np
from numba import njit

from uncover.engines.compiled.simd import OPTIONS

# Points computed together, by kernels and by trees; blocks are padded.
BLOCK, LANES = 64, 8


@njit(**OPTIONS)
def kernel_sums(points, centres, owner, weight, inverse_square, out):
    """Sums Σ_c weight_c (1 + |x − c|²/h²)⁻⁶ over the centres of each class.

    Points are (point, feature), centres (centre, feature); ``owner`` is the class of each centre, and
    ``inverse_square`` 1/h². ``out`` is (point, class).
    """
    n, p = points.shape
    K = out.shape[1]
    x, square, total = np.empty((p, BLOCK)), np.empty(BLOCK), np.empty((K, BLOCK))
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        for j in range(p):
            for b in range(BLOCK):
                x[j, b] = points[start + min(b, m - 1), j]
        total[:] = 0.0
        for c in range(len(centres)):
            for b in range(BLOCK):
                square[b] = 0.0
            for j in range(p):
                at = centres[c, j]
                for b in range(BLOCK):
                    away = x[j, b] - at
                    square[b] += away * away
            share, sums = weight[c], total[owner[c]]
            for b in range(BLOCK):
                near = 1.0 / (1.0 + inverse_square * square[b])
                two = near * near
                sums[b] += share * (two * two * two)
        for b in range(m):
            for k in range(K):
                out[start + b, k] = total[k, b]


@njit(**OPTIONS)
def sums_of_leaves(points, child, feature, threshold, shares, roots, out):
    """Sums over the trees of what the leaf of each point says; ``child`` is (node, 2), left and right.

    Tree by tree for all points, in the order in which NumPy would add them.
    """
    n = len(points)
    at = np.empty(LANES, np.int64)
    out[:] = 0.0
    for root in roots:
        for start in range(0, n, LANES):  # several points at a time: one waits for memory, others go on
            for b in range(LANES):
                at[b] = root
            moved = True
            while moved:
                moved = False
                for b in range(LANES):
                    node = at[b]
                    right = points[min(start + b, n - 1), feature[node]] > threshold[node]
                    at[b] = child[node, np.int64(right)]
                    moved |= at[b] != node
            for b in range(min(LANES, n - start)):
                for k in range(out.shape[1]):
                    out[start + b, k] += shares[at[b], k]
