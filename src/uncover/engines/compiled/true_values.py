"""Machine code for points in the place of the true values of pixels whose noise is known.

One pixel after the other, whose points are the lanes of the innermost loops; what it computes is said in
:mod:`uncover.bayes.class_densities_with_noise`.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from uncover.bayes.class_densities_with_noise import FILL, KNOWN, SMALL, UNSURE
from uncover.engines.compiled.functions import log_one_plus
from uncover.engines.compiled.scores import BlockScores
from uncover.engines.compiled.simd import INNER, OPTIONS


class PointWorkspace(NamedTuple):
    """Workspace for the true values of a block of pixels."""

    counts: NDArray[np.int64]  # (component,), points of each
    T: NDArray[Any]  # (feature, feature), L⁻¹ S of a component
    root: NDArray[Any]  # (feature, feature), of the covariance of its true values
    vectors: NDArray[Any]  # (5, feature): mean, whitened value, gradient, reflection, its image
    place: NDArray[np.int64]  # (pixel + 1,), where the points of each begin
    chi: NDArray[Any]  # (feature, point), true values of all pixels
    weight: NDArray[Any]  # (point,)
    scores: BlockScores
    w: NDArray[Any]  # (point,), as the next two
    rows: NDArray[Any]
    terms: NDArray[Any]


@njit(**INNER)
def make_scores(n_components, K, n):
    """Allocate scores of n points."""
    q, v, r = np.empty((n_components, n)), np.empty((n_components, n)), np.empty((n_components, n))
    return BlockScores(q, v, r, np.empty((K, n)), np.empty((K, n)), np.empty(n))


@njit(**OPTIONS)
def make_point_workspace(p, n_components, K, padded, n):
    """Allocate a workspace for points, padded, of n pixels of p features."""
    even = p + p % 2
    counts, T, root, vectors = (
        np.empty(n_components, np.int64),
        np.empty((p, p)),
        np.empty((p, p)),
        np.empty((5, p)),
    )
    place = np.zeros(n + 1, np.int64)
    chi, weight, scores = (
        np.zeros((even, n * padded)),
        np.zeros(n * padded),
        make_scores(n_components, K, n * padded),
    )
    w, rows, terms = np.empty(padded), np.empty(padded), np.empty(padded)
    return PointWorkspace(counts, T, root, vectors, place, chi, weight, scores, w, rows, terms)


@njit(**OPTIONS)
def _share_out(probability, lane, n, counts):
    """Points of each component: 2 and more where it is not negligible, by the root of its probability."""
    n_components, small, taken = len(counts), SMALL, 0
    for _ in range(60):
        taken = 0
        for k in range(n_components):
            taken += probability[k, lane] >= small
        if 2 * taken <= n:
            break
        small *= 2.0
    best, total = 0, 0.0
    for k in range(n_components):
        if probability[k, lane] > probability[best, lane]:
            best = k
        total += np.sqrt(probability[k, lane]) if probability[k, lane] >= small else 0.0
    alone = taken == 0 or 2 * taken > n
    least = min(2, n)
    for k in range(n_components):
        mine = k == best if alone else probability[k, lane] >= small
        share = 1.0 if alone else np.sqrt(probability[k, lane]) / total
        free = n - least * (1 if alone else taken)
        counts[k] = least + np.int64(np.floor(free * share + 1e-9)) if mine else 0


@njit(**OPTIONS)
def _mean_and_covariance(x, lane, L, k, location, scale, shrink, T, V, vectors):
    """Mean of the true values of component k, in vectors[0], and the lower half of their covariance.

    T = L⁻¹S by forward substitution, rows at a time; the covariance is (S − TᵀT)/shrink.
    """
    p = len(T)
    for i in range(p):
        inverse = L[k, i, i, lane]
        z = x[i, lane] - location[i]
        for j in range(p):
            T[i, j] = scale[i, j]
        for m in range(i):
            factor = L[k, i, m, lane]
            z -= factor * vectors[1, m]
            for j in range(p):
                T[i, j] -= factor * T[m, j]
        vectors[1, i] = z * inverse
        for j in range(p):
            T[i, j] *= inverse
    for j in range(p):
        vectors[0, j] = location[j]
        for i in range(p):
            V[j, i] = scale[j, i]
    for m in range(p):
        z = vectors[1, m]
        for i in range(p):
            vectors[0, i] += T[m, i] * z
            at = T[m, i]
            for j in range(p):
                V[i, j] -= at * T[m, j]
    inverse = 1.0 / shrink
    for i in range(p):
        for j in range(p):
            V[i, j] *= inverse


@njit(**OPTIONS)
def _root_in_place(scale, shrink, V):
    """Lower triangular root of a covariance that may be singular, zeros above it."""
    p = len(V)
    for j in range(p):
        left = V[j, j]
        for m in range(j):
            left -= V[j, m] * V[j, m]
        pivot = np.sqrt(left) if left > KNOWN * scale[j, j] / shrink else 0.0
        inverse = 1.0 / pivot if pivot > 0.0 else 0.0
        V[j, j] = pivot
        for i in range(j + 1, p):
            rest = V[i, j]
            for m in range(j):
                rest -= V[i, m] * V[j, m]
            V[i, j] = rest * inverse
        for i in range(j):
            V[i, j] = 0.0


@njit(**OPTIONS)
def _steepest(k, lane, truth, components, of_components, vectors):
    """Gradient of the log odds of the class of component k at the mean true value, in vectors[2]."""
    p, start, end = vectors.shape[1], 0, 0
    for each in range(len(components.first) - 1):
        if components.first[each] <= k < components.first[each + 1]:
            start, end = components.first[each], components.first[each + 1]
    of_class = 0.0
    for c in range(start, end):
        of_class += of_components[c, lane]
    for i in range(p):
        vectors[2, i] = 0.0
    for c in range(of_components.shape[0]):
        share = of_components[c, lane] / max(of_class, 1e-300) if start <= c < end else 0.0
        if abs(share - of_components[c, lane]) < 1e-12:
            continue
        q = 0.0
        for i in range(p):
            z = -truth.shift[0, c, i]
            for j in range(i + 1):
                z += truth.whitening[0, c, i, j] * vectors[0, j]
            vectors[1, i] = z
            q += z * z
        dof = truth.dof[0, c]
        factor = (share - of_components[c, lane]) * (dof + p) / (dof + q)
        for i in range(p):
            z = factor * vectors[1, i]
            for j in range(i + 1):
                vectors[2, j] -= truth.whitening[0, c, i, j] * z


@njit(**OPTIONS)
def _turn(root, vectors):
    """Reflect the root so that its first column is the direction of the gradient in vectors[2]."""
    p, size = len(root), 0.0
    for j in range(p):
        a = 0.0
        for i in range(j, p):
            a += root[i, j] * vectors[2, i]
        vectors[3, j] = a
        size += a * a
    inverse = 1.0 / np.sqrt(size) if size > 0.0 else 0.0
    for j in range(p):
        vectors[3, j] *= inverse
    vectors[3, 0] += -1.0 if vectors[3, 0] < 0.0 else 1.0
    size = 0.0
    for j in range(p):
        size += vectors[3, j] * vectors[3, j]
    for i in range(p):
        along = 0.0
        for j in range(i + 1):
            along += root[i, j] * vectors[3, j]
        vectors[4, i] = along * (2.0 / size)
    for i in range(p):
        for j in range(p):
            root[i, j] -= vectors[4, i] * vectors[3, j]


@njit(**OPTIONS)
def _place(root, middle, z, first, m, place, chi):
    """Points μ + A z from a place on."""
    p = len(root)
    for i in range(p):
        for d in range(m):
            chi[i, place + d] = middle[i]
        for j in range(p):
            a = root[i, j]
            for d in range(m):
                chi[i, place + d] += a * z[j, first + d]


@njit(**OPTIONS)
def _plogp(w, n, terms):
    """Σ −w log w; the terms are kept apart so that they are vectors."""
    for d in range(n):
        safe = w[d] if w[d] > 1e-300 else 1e-300
        terms[d] = safe * log_one_plus(1.0 / safe - 1.0 if safe < 1.0 else 0.0)
    total = 0.0
    for d in range(n):
        total += terms[d]
    return total


@njit(**OPTIONS)
def information_of_points(at_truth, weight, place, probability, lane, entropy, n, w, rows, terms):
    """I(point; class) of the table whose columns are normalised to the probabilities."""
    for d in range(n):
        rows[d] = 0.0
    rest = 0.0
    for k in range(at_truth.shape[0]):
        total = 0.0
        for d in range(n):
            total += weight[place + d] * at_truth[k, place + d]
        share = probability[k, lane] / total if total > 1e-290 else 0.0
        even = 0.0 if total > 1e-290 else probability[k, lane]
        for d in range(n):
            w[d] = weight[place + d] * (even + share * at_truth[k, place + d])
            rows[d] += w[d]
        rest += _plogp(w, n, terms)
    rest -= _plogp(rows, n, terms)
    return min(max(entropy - rest, 0.0), entropy)


@njit(**OPTIONS)
def place_true_values(densities, truth, components, points, found, work, here):
    """Place true values of the uncertain pixels, one pixel after the other."""
    p, K = work.L.shape[1], work.L.shape[0]
    for number in range(found):
        lane, place = work.uncertain[number], here.place[number]
        share = min(max(work.inner[lane] / UNSURE, 0.25), 1.0)
        _share_out(work.of_components, lane, np.int64(np.ceil(points.n * share)), here.counts)
        used = 0.0
        for k in range(K):
            used += work.of_components[k, lane] if here.counts[k] > 0 else 0.0
        at = place
        for k in range(K):
            m = here.counts[k]
            if m == 0:
                continue
            scale, shrink = densities.plain_scale[k], densities.truth_shrink[k]
            location = densities.truth_location[k]
            _mean_and_covariance(
                work.x, lane, work.L, k, location, scale, shrink, here.T, here.root, here.vectors
            )
            _root_in_place(scale, shrink, here.root)
            _steepest(k, lane, truth, components, work.of_components, here.vectors)
            _turn(here.root, here.vectors)
            _place(here.root, here.vectors[0], points.z, points.first[m], m, at, here.chi)
            for d in range(at, at + m):
                here.weight[d] = work.of_components[k, lane] / (m * used)
            at += m
        end = at + (place - at) % FILL
        for d in range(at, end):
            here.weight[d] = 0.0
            for i in range(p):
                here.chi[i, d] = here.chi[i, place]
        here.place[number + 1] = end
