"""Machine code for the class of noisy pixels in many worlds (:mod:`uncover.bayes.noisy_worlds`)."""

import numpy as np
from numba import njit

from uncover.bayes.compiled.functions import log_one_plus
from uncover.bayes.compiled.lanes import OPTIONS
from uncover.bayes.compiled.noise import LANES, _distance, _factorise, _make_room, _take_in
from uncover.bayes.compiled.weighing import weigh_parts


@njit(**OPTIONS)
def _joints(log_det, numbers, w, seen):
    """Log joints of the parts in world w, in the place of their shares."""
    for c in range(seen.q.shape[0]):
        weight, h, inverse = numbers.log_weight[w, c], numbers.slope[w, c], numbers.inverse_dof[w, c]
        for b in range(seen.q.shape[1]):
            far = seen.q[c, b] if seen.q[c, b] < numbers.largest[0] else numbers.largest[0]
            seen.r[c, b] = weight - log_det[c, b] - h * log_one_plus(far * inverse)


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
def best_in_worlds(planes, coefficients, given, spread, worlds, numbers, fold, pairs, best):
    """The most probable class (pair, pixel) of planes (realisation, feature, pixel), or one and coefficients.

    ``pairs`` are (realisation, world), those of one world one after the other: its densities with the noise
    of a pixel are made once.
    """
    n, p, parts, K = planes.shape[2], planes.shape[1], numbers.dof.shape[1], len(fold.first) - 1
    R = coefficients.shape[0] if coefficients.shape[0] > 0 else planes.shape[0]
    room = _make_room(p, parts, K, R)
    moved, wide = np.empty((p, LANES)), np.sqrt(R - 1.0)
    for start in range(0, n, LANES):
        m = min(LANES, n - start)
        _take_in(planes, coefficients, given, spread, numbers, start, m, room)
        for i in range(len(pairs)):
            r, w = pairs[i]
            if i == 0 or pairs[i - 1, 1] != w:
                for k in range(parts):
                    scale, shrink, pivots = worlds.scale[w, k], worlds.shrink[w, k], worlds.pivots[w, k]
                    _factorise(scale, shrink, pivots, room.C, room.L[k], room.log_det[k])
            for j in range(p):
                for b in range(LANES):
                    moved[j, b] = room.x[j, b] + (wide * room.f[r, j, b] if spread else 0.0)
            for k in range(parts):
                _distance(room.L[k], moved, worlds.location[w, k], room.z, room.seen.q[k])
            _joints(room.log_det, numbers, w, room.seen)
            weigh_parts(fold, room.seen)
            _put_best(room.seen.t, start, m, best[i])
