"""Moments of groups of samples."""

import numpy as np
from numba import njit

from uncover.bayes.compiled.lanes import OPTIONS


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
