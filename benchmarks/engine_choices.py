"""Gain of single precision and of SIMD vectors, over double precision and plain loops: one thread."""

import time

import numpy as np
from numba import njit

from benchmarks.registry import Table, benchmark
from uncover.bayes.student_t import StudentT
from uncover.engines.class_densities import FastClassDensities
from uncover.engines.compiled.functions import exponential, log_one_plus
from uncover.engines.compiled.simd import OPTIONS
from uncover.engines.machine import machine_code

P, K, WORLDS = 10, 8, 25
BLOCK = 128


@njit(**(OPTIONS | {"cache": False}))
def score_plainly(x, densities, w, z, t, e, total):
    """Add the probabilities of a block (feature, point) in world w to the total, by loops over arrays."""
    for k in range(len(t)):
        for b in range(BLOCK):
            e[k, b] = 0
        for i in range(len(x)):
            for b in range(BLOCK):
                z[b] = -densities.shift[w, k, i]
            for j in range(i + 1):
                factor = densities.whitening[w, k, i, j]
                for b in range(BLOCK):
                    z[b] += factor * x[j, b]
            for b in range(BLOCK):
                e[k, b] += z[b] * z[b]
        weight, slope, inverse = (
            densities.log_weight[w, k],
            densities.slope[w, k],
            densities.inverse_dof[w, k],
        )
        for b in range(BLOCK):
            t[k, b] = weight - slope * log_one_plus(e[k, b] * inverse)
    for b in range(BLOCK):
        z[b] = t[0, b]
    for k in range(1, len(t)):
        for b in range(BLOCK):
            z[b] = t[k, b] if t[k, b] > z[b] else z[b]
    for k in range(len(t)):
        for b in range(BLOCK):
            e[k, b] = exponential(t[k, b] - z[b])
    for b in range(BLOCK):
        z[b] = 0
    for k in range(len(t)):
        for b in range(BLOCK):
            z[b] += e[k, b]
    for k in range(len(t)):
        for b in range(BLOCK):
            total[k, b] += e[k, b] / z[b]


@njit(**(OPTIONS | {"cache": False}))
def average_plainly(X, worlds, densities, out):
    """Probabilities of X (sample, realisation, feature), averaged: what `average_probability` computes."""
    n, R, p = X.shape
    K = out.shape[1]
    x, z = np.empty((p, BLOCK), X.dtype), np.empty(BLOCK, X.dtype)
    t, e, total = np.empty((K, BLOCK), X.dtype), np.empty((K, BLOCK), X.dtype), np.empty((K, BLOCK), X.dtype)
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        total[:] = 0
        for r in range(R):
            for b in range(BLOCK):
                for j in range(p):
                    value = X[start + min(b, m - 1), r, j]
                    x[j, b] = (value - densities.centre[0, j]) - densities.centre[1, j]
            score_plainly(x, densities, worlds[r], z, t, e, total)
        for b in range(m):
            for k in range(K):
                out[start + b, k] = total[k, b] / R


def problem(rng, n):
    """Class densities of all worlds, coefficients, and surface reflectance (sample, feature)."""
    mixing = rng.normal(size=(K, P, P)) + 2.0 * np.eye(P)
    scale, location = 1e-3 * mixing @ mixing.swapaxes(1, 2) / P, 0.25 + 0.02 * rng.normal(size=(K, P))
    worlds = [
        StudentT.from_scale(location + 1e-3 * rng.normal(size=P), scale, np.full(K, 300.0))
        for _ in range(WORLDS)
    ]
    low, high = np.array([[0.02], [0.8], [0.05]]), np.array([[0.05], [0.9], [0.2]])
    surface = location[rng.integers(0, K, n)] + 0.03 * rng.normal(size=(n, P))
    densities = FastClassDensities.of(worlds, np.log(np.full(K, 1.0 / K)))
    return densities, rng.uniform(low, high, (WORLDS, 3, P)), surface


def least(first, second, repeats):
    """CPU seconds of two calls, taken in turns: the least of each."""
    found = [[], []]
    for _ in range(repeats + 1):  # the first compiles
        for times, call in zip(found, (first, second), strict=True):
            began = time.process_time()
            call()
            times.append(time.process_time() - began)
    return [min(times[1:]) for times in found]


@benchmark("engine-choices")
def run(quick=False):
    """Nanoseconds of a pixel in one world."""
    rng, n = np.random.default_rng(0), 1 << (12 if quick else 15)
    densities, coefficients, surface = problem(rng, n)
    pairs, code, repeats = densities.pairs(WORLDS), machine_code(), 1 if quick else 7
    planes = np.ascontiguousarray(surface.T)[None]
    short = planes.astype(np.float32)
    calls = [
        lambda each=each: densities.summarise(each, pairs, coefficients=coefficients)
        for each in (short, planes)
    ]
    rows = [["map: single precision, recomputed where needed; double", *least(*calls, repeats)]]
    for kind in (np.float32, np.float64):
        X = (surface[:, None] + 2e-3 * rng.normal(size=(n, WORLDS, P))).astype(kind)
        out, numbers, exact = (
            np.empty((2, n, K), kind),
            densities.numbers(kind),
            densities.numbers(np.float64),
        )
        simd = lambda X=X, out=out, numbers=numbers, exact=exact: code.average_probability(  # noqa: E731
            X, *pairs, numbers, exact, None, False, out[0]
        )
        loops = lambda X=X, out=out, numbers=numbers: average_plainly(X, pairs.worlds, numbers, out[1])  # noqa: E731
        rows.append([f"probabilities, {kind.__name__}: SIMD vectors; loops", *least(simd, loops, repeats)])
        assert np.abs(out[0] - out[1]).max() < 1e-5
    rows = [
        [name, *(1e9 * each / (n * WORLDS) for each in times), times[1] / times[0]] for name, *times in rows
    ]
    caption = f"{P} bands, {K} classes, {WORLDS} worlds, one thread: ns, least of {repeats}."
    return [
        Table("engine-choices", caption, {"what": "", "first": ".1f", "second": ".1f", "ratio": ".2f"}, rows)
    ]
