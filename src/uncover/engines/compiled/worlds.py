"""Machine code for the class of noisy pixels in many worlds (:mod:`uncover.bayes.worlds_with_noise`)."""

import numpy as np
from numba import njit

from uncover.engines.compiled.noise import LANES, _distance, _factorise, _make_workspace, _take_in, log_joints
from uncover.engines.compiled.scores import probabilities_of_joints
from uncover.engines.compiled.simd import OPTIONS


@njit(**OPTIONS)
def _put_best(t, start, m, best):
    """The class of the highest log odds, the first of equals."""
    for b in range(m):
        first = 0
        for k in range(1, t.shape[0]):
            if t[k, b] > t[first, b]:
                first = k
        best[start + b] = first


@njit(**OPTIONS)
def best_in_worlds(planes, coefficients, given, spread, worlds, numbers, components, pairs, best):
    """The most probable class (pair, pixel) of planes (realisation, feature, pixel), or one and coefficients.

    ``pairs`` are (realisation, world), those of one world one after the other: its densities with the noise
    of a pixel are made once.
    """
    n, p, n_components, K = planes.shape[2], planes.shape[1], numbers.dof.shape[1], len(components.first) - 1
    R = coefficients.shape[0] if coefficients.shape[0] > 0 else planes.shape[0]
    work = _make_workspace(p, n_components, K, R)
    moved, wide = np.empty((p, LANES)), np.sqrt(R - 1.0)
    for start in range(0, n, LANES):
        m = min(LANES, n - start)
        _take_in(planes, coefficients, given, spread, numbers, start, m, work)
        for i in range(len(pairs)):
            r, w = pairs[i]
            if i == 0 or pairs[i - 1, 1] != w:
                for k in range(n_components):
                    scale, shrink, pivots = worlds.scale[w, k], worlds.shrink[w, k], worlds.pivots[w, k]
                    _factorise(scale, shrink, pivots, work.C, work.L[k], work.log_det[k])
            for j in range(p):
                for b in range(LANES):
                    moved[j, b] = work.x[j, b] + (wide * work.f[r, j, b] if spread else 0.0)
            for k in range(n_components):
                _distance(work.L[k], moved, worlds.location[w, k], work.z, work.scores.q[k])
            log_joints(work.log_det, numbers, w, work.scores)
            probabilities_of_joints(components, work.scores)
            _put_best(work.scores.t, start, m, best[i])
