"""Cost of fitting and of mapping as the number of classes grows to the 254 that a map can hold."""

import time
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.registry import Table, benchmark
from uncover import BayesianClassifier, BayesianQDA
from uncover.engines import threads
from uncover.measurement.pooled import make_summariser

CLASSES, SAMPLES, BANDS, PIXELS, REPEATS = (64, 128, 254), 4000, 10, 4000, 3
MODELS = {"BayesianQDA": lambda: BayesianQDA("evidence"), "recommended": BayesianClassifier}


def draw(classes, n, seed):
    """Samples of overlapping classes, and their classes."""
    means = np.random.default_rng(0).normal(size=(CLASSES[-1], BANDS))
    y = np.arange(n) % classes
    return np.abs(3.0 + means[y] + 0.8 * np.random.default_rng(seed).normal(size=(n, BANDS))), y


def measured(make, classes, samples):
    """Seconds of the processor for a fit, microseconds for a pixel with its budget, and number of members."""
    X, y = draw(classes, samples, 0)
    start = time.process_time()
    model = make().fit(X, y).model_
    fit = time.process_time() - start
    planes = np.ascontiguousarray(draw(classes, PIXELS, 1)[0].T[None], np.float32)
    summariser, each = make_summariser(model), []
    summariser.summarise(planes)  # makes once what all pixels need
    for _ in range(REPEATS):
        start = time.process_time()
        summariser.summarise(planes)
        each.append(time.process_time() - start)
    return fit, 1e6 * min(each) / PIXELS, len(getattr(model, "members", [1]))


@benchmark("many-classes")
def run(quick):
    """Processor time of 64, 128 and 254 classes, one thread, and what proportion would be."""
    counts, samples = ((4, 8, 16), 400) if quick else (CLASSES, SAMPLES)
    rows = []
    with threadpool_limits(1), mock.patch.object(threads, "processors", lambda: 1):
        for name, make in MODELS.items():
            found = [measured(make, K, samples) for K in counts]
            for K, (fit, pixel, members) in zip(counts, found, strict=True):
                times = fit / found[0][0], pixel / found[0][1]
                rows.append([name, K, members, K / counts[0], fit, times[0], pixel, times[1]])
    columns = {"model": "", "classes": "d", "members": "d", "times": ".2f", "fit, s": ".2f"}
    columns |= {"fit, times": ".2f"}
    columns |= {"map, µs a pixel": ".0f", "map, times": ".2f"}
    caption = (
        f"Processor time, one thread: fit of {samples:,} samples in {BANDS} bands, and class, probabilities "
        f"and budget of a pixel; times those of {counts[0]} classes"
    )
    return [Table("many-classes", caption, columns, rows)]
