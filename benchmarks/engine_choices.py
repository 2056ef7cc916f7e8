"""Gain of single precision, of compiled code and of its instruction sets: one thread."""

import time
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.registry import Table, benchmark
from uncover.bayes.class_densities import ClassDensities
from uncover.bayes.student_t import StudentT
from uncover.engines.class_densities import FastClassDensities
from uncover.engines.kernels import Kernels
from uncover.engines.kernels.build import library
from uncover.engines.machine import machine_code

P, K, WORLDS = 10, 8, 25
#: Levels of x86-64, from the oldest, with the instructions that they add.
NAMES = {"2": "SSE4.2", "3": "AVX2", "4": "AVX-512", "0": "all"}


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
    for _ in range(repeats + 1):  # the first loads
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
        numbers, out = (densities.numbers(kind), densities.numbers(np.float64)), np.empty((n, K), kind)
        arguments = X, *pairs, *numbers, None, kind == np.float32, out
        newest = partial(code.average_probability, *arguments)
        name = f"probabilities, {kind.__name__}: {NAMES[code.level]};"
        plain = partial(ClassDensities.probability, densities, X, pairs)
        rows.append([f"{name} NumPy", *least(newest, plain, min(repeats, 2))])
        for level in range(int(code.level) - 1, 1, -1):
            older = Kernels(library(), str(level))
            calls = newest, partial(older.average_probability, *arguments)
            rows.append([f"{name} {NAMES[older.level]}", *least(*calls, repeats)])
    rows = [
        [name, *(1e9 * each / (n * WORLDS) for each in times), times[1] / times[0]] for name, *times in rows
    ]
    caption = f"{P} bands, {K} classes, {WORLDS} worlds, one thread: ns, least of {repeats}."
    columns = {"what": "", "first": ".1f", "second": ".1f", "ratio": ".2f"}
    return [Table("engine-choices", caption, columns, rows), products(quick)]


def products(quick=False):
    """Probabilities of many features beside products of matrices of the same size."""
    rng, classes, n, rows = np.random.default_rng(0), 20, 500 if quick else 8000, []
    for p in (50, 100):
        mixing = np.eye(p) + 0.5 * rng.normal(size=(classes, p, p)) / np.sqrt(p)
        location = 0.3 * rng.normal(size=(classes, p))
        found = StudentT.from_scale(location, mixing @ mixing.swapaxes(1, 2), np.full(classes, 300.0))
        densities = FastClassDensities.of([found], np.log(np.full(classes, 1.0 / classes)))
        owner = rng.integers(0, classes, n)
        drawn = location[owner] + np.einsum("nij,nj->ni", mixing[owner], rng.normal(size=(n, p)))
        for kind in (np.float32, np.float64):
            X, all_classes = drawn.astype(kind), rng.normal(size=(p, p * classes)).astype(kind)
            work = partial(densities.probability, X[:, None], densities.pairs(1))
            with threadpool_limits(1):
                took = least(work, partial(np.matmul, X, all_classes), 1 if quick else 7)
            rows.append([f"{p} features, {kind.__name__}", *(1e9 * each / n for each in took)])
    caption = (
        f"{classes} classes, one thread: ns of a sample, and of a matrix product with all whitening matrices"
    )
    return Table("products", caption, {"what": "", "uncover": ".0f", "product": ".0f"}, rows)
