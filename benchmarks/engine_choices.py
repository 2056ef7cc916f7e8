"""Gain of single precision, of compiled code and of its instruction sets: one thread."""

import time
from functools import partial

import numpy as np

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
    return [
        Table("engine-choices", caption, {"what": "", "first": ".1f", "second": ".1f", "ratio": ".2f"}, rows)
    ]
