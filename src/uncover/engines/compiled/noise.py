"""Machine code for pixels whose noise is known: :mod:`uncover.bayes.class_densities_with_noise`.

The densities of a few pixels at a time, which are the lanes of the innermost loops; then their true values
(:mod:`uncover.engines.compiled.true_values`), and their class in many worlds
(:mod:`uncover.bayes.worlds_with_noise`). Blocks are padded, so that a pixel's result depends
neither on its place nor on its neighbours.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from uncover.bayes.class_densities_with_noise import CERTAIN
from uncover.engines.compiled.functions import log_one_plus, surface_reflectance
from uncover.engines.compiled.scores import (
    BlockScores,
    probabilities_of_distances,
    probabilities_of_joints,
    squared_distance,
    student_t,
)
from uncover.engines.compiled.simd import OPTIONS
from uncover.engines.compiled.summaries import find_entropy
from uncover.engines.compiled.true_values import (
    information_of_points,
    make_point_workspace,
    make_scores,
    place_true_values,
)
from uncover.engines.compiled.typicality import (
    add_typicality,
    add_typicality_by_table,
    find_tails,
    make_tails,
    p_values,
)

LANES = 32


class NoiseWorkspace(NamedTuple):
    """Workspace of a block of pixels."""

    raw: NDArray[Any]  # (feature, lane), values as they came
    x: NDArray[Any]  # (feature, lane), their mean, less the centre
    f: NDArray[Any]  # (realisation, feature, lane), values, then their deviations
    C: NDArray[Any]  # (feature, feature, lane), covariances
    z: NDArray[Any]  # (feature, lane), whitened
    L: NDArray[Any]  # (component, feature, feature, lane), factors
    log_det: NDArray[Any]  # (component, lane)
    far: NDArray[Any]  # (component, lane), squared distances without noise
    scores: BlockScores
    of_components: NDArray[Any]  # (component, lane), probabilities
    p_value: NDArray[Any]  # (component, lane)
    inner: NDArray[Any]  # (lane,), entropy
    information: NDArray[Any]  # (lane,)
    uncertain: NDArray[np.int64]  # (lane,), pixels whose class is not certain


@njit(**OPTIONS)
def _make_workspace(p, n_components, K, columns):
    """Allocate a workspace for pixels of p features, padded to twos; realisations to fours."""
    even = p + p % 2
    uncertain = np.empty(LANES, np.int64)
    raw, x, z = np.empty((p, LANES)), np.zeros((even, LANES)), np.empty((p, LANES))
    f, C, L = (
        np.zeros((columns + (-columns) % 4, even, LANES)),
        np.zeros((p, p, LANES)),
        np.empty((n_components, p, p, LANES)),
    )
    log_det, far = np.empty((n_components, LANES)), np.empty((n_components, LANES))
    of_components, p_value = np.empty((n_components, LANES)), np.empty((n_components, LANES))
    inner, information, scores = np.empty(LANES), np.empty(LANES), make_scores(n_components, K, LANES)
    return NoiseWorkspace(
        raw, x, f, C, z, L, log_det, far, scores, of_components, p_value, inner, information, uncertain
    )


@njit(**OPTIONS)
def _values(planes, coefficients, start, m, raw, x, f):
    """Values of all realisations, f (realisation, feature, lane), and their mean; the last pixel fills up."""
    corrected = coefficients.shape[0] > 0
    R, p = coefficients.shape[0] if corrected else planes.shape[0], planes.shape[1]
    x[:] = 0.0
    for r in range(R):
        for j in range(p):
            if r == 0 or not corrected:
                for b in range(m):
                    raw[j, b] = planes[r, j, start + b]
                for b in range(m, LANES):
                    raw[j, b] = raw[j, m - 1]
            if corrected:
                path, slope, albedo = coefficients[r, 0, j], coefficients[r, 1, j], coefficients[r, 2, j]
                for b in range(LANES):
                    f[r, j, b] = surface_reflectance(raw[j, b], path, slope, albedo)
            else:
                for b in range(LANES):
                    f[r, j, b] = raw[j, b]
            for b in range(LANES):
                x[j, b] += f[r, j, b]
    share = 1.0 / R
    for j in range(p):
        for b in range(LANES):
            x[j, b] *= share


@njit(**OPTIONS)
def _spread(R, x, f, C):
    """Deviations over √(R − 1), in the place of the values, and their covariances C = Σ_r f_r f_rᵀ."""
    p = C.shape[0]
    share = 1.0 / np.sqrt(R - 1.0)
    for r in range(R):
        for j in range(p):
            for b in range(LANES):
                f[r, j, b] = (f[r, j, b] - x[j, b]) * share
    for i in range(p):
        for j in range(i + 1):
            for b in range(LANES):
                C[i, j, b] = 0.0
            for r in range(0, f.shape[0], 4):  # there are fours, the last ones may be zero
                for b in range(LANES):
                    C[i, j, b] += (
                        f[r, i, b] * f[r, j, b]
                        + f[r + 1, i, b] * f[r + 1, j, b]
                        + f[r + 2, i, b] * f[r + 2, j, b]
                        + f[r + 3, i, b] * f[r + 3, j, b]
                    )


@njit(**OPTIONS)
def _given(given, start, m, C):
    """Covariances that are given."""
    one = given.shape[0] == 1
    for b in range(LANES):
        matrix = given[0 if one else start + min(b, m - 1)]
        for i in range(C.shape[0]):
            for j in range(i + 1):
                C[i, j, b] = matrix[i, j]


@njit(**OPTIONS)
def _factorise(scale, shrink, pivots, C, L, log_det):
    """Lower Cholesky factors of scale + shrink·C, the diagonal inverted; ½ log of how the determinant grew.

    No pivot is smaller than without noise, whatever rounding did to C.
    """
    p = L.shape[0]
    log_det[:] = 0.0
    for j in range(p):
        for i in range(j, p):
            constant = scale[i, j]
            for b in range(LANES):
                L[i, j, b] = constant + shrink * C[i, j, b]
            for k in range(0, j - 1, 2):
                for b in range(LANES):
                    L[i, j, b] -= L[i, k, b] * L[j, k, b] + L[i, k + 1, b] * L[j, k + 1, b]
            if j % 2:
                for b in range(LANES):
                    L[i, j, b] -= L[i, j - 1, b] * L[j, j - 1, b]
        smallest, inverse = pivots[j], 1.0 / pivots[j]
        for b in range(LANES):
            pivot = L[j, j, b] if L[j, j, b] > smallest else smallest
            log_det[b] += 0.5 * log_one_plus((pivot - smallest) * inverse)
            L[j, j, b] = 1.0 / np.sqrt(pivot)
        for i in range(j + 1, p):
            for b in range(LANES):
                L[i, j, b] *= L[j, j, b]


@njit(**OPTIONS)
def _distance(L, x, location, z, q):
    """q = |L⁻¹(x − m)|² of each lane."""
    p = L.shape[0]
    q[:] = 0.0
    for i in range(p):
        m = location[i]
        for b in range(LANES):
            z[i, b] = x[i, b] - m
        for k in range(i):
            for b in range(LANES):
                z[i, b] -= L[i, k, b] * z[k, b]
        for b in range(LANES):
            z[i, b] *= L[i, i, b]
            q[b] += z[i, b] * z[i, b]


@njit(**OPTIONS)
def log_joints(log_det, densities, w, scores):
    """log(1 + q/ν), and log joints of the components in world w, in the place of their shares."""
    q, v, r, largest = scores.q, scores.v, scores.r, densities.largest[0]
    for c in range(q.shape[0]):
        weight, slope = densities.log_weight[w, c], densities.slope[w, c]
        inverse = densities.inverse_dof[w, c]
        for b in range(q.shape[1]):
            v[c, b], r[c, b] = student_t(q[c, b], weight - log_det[c, b], slope, inverse, largest)


@njit(**OPTIONS)
def _probabilities(log_det, plain, components, scores, of_components):
    """Log odds and probabilities of the classes, and the probabilities of their components."""
    log_joints(log_det, plain, 0, scores)
    probabilities_of_joints(components, scores)
    r, e = scores.r, scores.e
    for k in range(e.shape[0]):
        for c in range(components.first[k], components.first[k + 1]):
            for b in range(e.shape[1]):
                of_components[c, b] = e[k, b] * r[c, b]


@njit(**OPTIONS)
def _information(q, scores, components, variance, inverse_dof, largest, information):
    """½ Σ_k p(1−p) Σ_c r² V / T² with V = a + b·log(1 + u) − c·u/(1 + u), u = q/ν, of each lane."""
    information[:] = 0.0
    half = 0.5 * components.sharpness[0] * components.sharpness[0]
    for k in range(scores.e.shape[0]):
        for c in range(components.first[k], components.first[k + 1]):
            constant, growth, pull = half * variance[c, 0], half * variance[c, 1], half * variance[c, 2]
            for b in range(q.shape[1]):
                u = (q[c, b] if q[c, b] < largest else largest) * inverse_dof[c]
                share = scores.r[c, b] * scores.r[c, b]
                v = share * (constant + growth * np.log1p(u) - pull * (u / (1.0 + u)))
                information[b] += v * (scores.e[k, b] * (1.0 - scores.e[k, b]))


@njit(**OPTIONS)
def _information_of_pairs(q, scores, components, plain, information):
    """½ Σ_{k<l} p_k p_l (KL_kl + KL_lk) / T² of each lane, for classes that have one covariance."""
    information[:] = 0.0
    half = 0.5 * components.sharpness[0] * components.sharpness[0]
    for k in range(scores.e.shape[0]):
        for other in range(k):
            constant = plain.variance[0, k, 0] + plain.variance[0, other, 0]
            growth, apart = 0.5 * plain.variance[0, k, 1], plain.between[0, k, other]
            first, second = plain.variance[0, k, 2], plain.variance[0, other, 2]
            for b in range(q.shape[1]):
                u = min(q[k, b], plain.largest[0]) * plain.inverse_dof[0, k]
                v = min(q[other, b], plain.largest[0]) * plain.inverse_dof[0, other]
                s, t = u / first, v / second
                gram = max(0.5 * apart * (s + t) - 0.25 * (apart * apart + (s - t) * (s - t)), 0.0)
                moved = (t + first * (gram - u)) / (1.0 + u) + (s + second * (gram - v)) / (1.0 + v)
                information[b] += half * scores.e[k, b] * scores.e[other, b] * (constant + growth * moved)


@njit(**OPTIONS)
def _take_in(planes, coefficients, given, spread, plain, start, m, work):
    """Values of a block of pixels, less the centre, and their noise."""
    _values(planes, coefficients, start, m, work.raw, work.x, work.f)
    if spread:
        R = coefficients.shape[0] if coefficients.shape[0] > 0 else planes.shape[0]
        _spread(R, work.x, work.f, work.C)
    elif given.shape[0] > 0:
        _given(given, start, m, work.C)
    for j in range(planes.shape[1]):
        for b in range(LANES):
            work.x[j, b] -= plain.centre[0, j]


@njit(**OPTIONS)
def _p_values(reference, fresh, tails, work):
    """p-values by the reference of each component; noise that all pixels share is factorised once."""
    for k in range(len(reference.free)):
        slot = k if len(tails.root) > 1 else 0
        if fresh:
            find_tails(work.C, reference, k, slot, tails)
        p_values(work.x, reference, k, slot, tails, work.z, work.p_value[k])


@njit(**OPTIONS)
def _score(densities, plain, components, reference, fresh, tails, work):
    """Probabilities, p-values, entropy and the information of the class models; ``fresh``: of other noise."""
    scores = work.scores
    for k in range(len(work.L)):
        squared_distance(work.x, plain.whitening[0, k], plain.shift[0, k], work.far[k])
        if fresh or not densities.same:
            scale, shrink, pivots = densities.scale[k], densities.shrink[k], densities.pivots[k]
            _factorise(scale, shrink, pivots, work.C, work.L[k], work.log_det[k])
        _distance(work.L[k], work.x, densities.location[k], work.z, scores.q[k])
    _probabilities(work.log_det, plain, components, scores, work.of_components)
    work.p_value[:] = 0.0
    if len(reference.free) > 0:
        _p_values(reference, fresh, tails, work)
    elif len(work.z) % 2:
        add_typicality_by_table(scores.v, plain.table_scale[0], plain.table[0], work.p_value)
    else:
        add_typicality(scores.v, plain.dof[0], plain.tail[0], work.p_value)
    find_entropy(scores, work.inner)
    if plain.between.shape[1] > 0:
        _information_of_pairs(work.far, scores, components, plain, work.information)
        return
    variance, inverse_dof, largest = plain.variance[0], plain.inverse_dof[0], plain.largest[0]
    _information(work.far, scores, components, variance, inverse_dof, largest, work.information)


@njit(**OPTIONS)
def _put_out(work, start, m, out):
    """Write the scores of the pixels, and list those whose class is not certain; return their number."""
    found = 0
    for b in range(m):
        for k in range(len(work.scores.e)):
            out.probability[k, start + b] = work.scores.e[k, b]
        for c in range(len(work.p_value)):
            out.typicality[c, start + b] = work.p_value[c, b]
        out.inner[start + b] = work.inner[b] if work.inner[b] > 0.0 else 0.0
        out.information[start + b] = work.information[b]
        out.measurement[start + b] = 0.0
        if work.inner[b] >= CERTAIN:
            work.uncertain[found] = b
            found += 1
    return found


@njit(**OPTIONS)
def _ask_true_values(densities, truth, components, points, found, work, here):
    """Place true values of the uncertain pixels, and score them as if there were no noise."""
    if not densities.same:
        for k in range(len(work.L)):
            scale, shrink = densities.truth_scale[k], densities.truth_shrink[k]
            pivots = densities.truth_pivots[k]
            _factorise(scale, shrink, pivots, work.C, work.L[k], work.log_det[k])
    place_true_values(densities, truth, components, points, found, work, here)
    used, scores = here.place[found], here.scores
    for k in range(len(work.L)):
        squared_distance(here.chi[:, :used], truth.whitening[0, k], truth.shift[0, k], scores.q[k, :used])
    q, v, r = scores.q[:, :used], scores.v[:, :used], scores.r[:, :used]
    t, e, s = scores.t[:, :used], scores.e[:, :used], scores.s[:used]
    probabilities_of_distances(truth, 0, components, BlockScores(q, v, r, t, e, s))


@njit(**OPTIONS)
def read(planes, coefficients, given, spread, densities, plain, truth, components, reference, points, out):
    """Scores of pixels with known noise: planes (realisation, feature, pixel), or one and coefficients.

    ``given`` are covariances (1 or pixel, feature, feature), or none; ``spread`` says that the realisations'
    spread is noise. ``plain`` and ``truth`` are densities in double precision, of the components of classes.
    p-values are those of the components by ``reference``; by ``plain`` where it is empty.
    """
    n, p, n_components, K = planes.shape[2], planes.shape[1], plain.dof.shape[1], out.probability.shape[0]
    R = coefficients.shape[0] if coefficients.shape[0] > 0 else planes.shape[0]
    work = _make_workspace(p, n_components, K, R)
    same_noise = not spread and given.shape[0] <= 1
    tails = make_tails(p, len(reference.free) if same_noise else 1, LANES)
    here = make_point_workspace(p, n_components, K, points.padded, LANES)
    for start in range(0, n, LANES):
        m = min(LANES, n - start)
        _take_in(planes, coefficients, given, spread, plain, start, m, work)
        _score(densities, plain, components, reference, start == 0 or not same_noise, tails, work)
        found = _put_out(work, start, m, out)
        if found == 0:
            continue
        _ask_true_values(densities, truth, components, points, found, work, here)
        for number in range(found):
            b, place = work.uncertain[number], here.place[number]
            out.measurement[start + b] = information_of_points(
                here.scores.e, here.weight, place, work.scores.e, b, work.inner[b],
                here.place[number + 1] - place, here.w, here.rows, here.terms,
            )  # fmt: skip


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
