"""Exact coverage of the intervals of a stratified sample, where errors sit in one stratum or in all.

All counts that can be drawn are listed with their binomial probability; nothing is simulated but the limits
themselves, which are quantiles of draws.
"""

from contextlib import contextmanager
from itertools import product

import numpy as np
import scipy.stats

from benchmarks.registry import Table, benchmark
from benchmarks.statistics import NEARLY_RIGHT
from uncover.bayes.streams import stream
from uncover.metrics import estimation

RAREST = 1e-4  # counts less probable than this are left out, less than 0.001 in all
SMALL = 14 * [0.05]
# Name, W_h, samples of each stratum, share of each that is wrong (or, for an area, in the class).
CASES = [
    *(
        (f"0.3 and 14 of 0.05, 50; {100 * p:g} %", [0.3, *SMALL], 50, [p, *14 * [0]])
        for p in (0.04, 0.045, 0.05)
    ),
    ("0.4 and 10 of 0.06, 50; 5 %", [0.4, *10 * [0.06]], 50, [0.05, *10 * [0]]),
    ("0.5 and 5 of 0.1, 50; 5.5 %", [0.5, *5 * [0.1]], 50, [0.055, *5 * [0]]),
    ("0.5 and 5 of 0.1, 30; 10 %", [0.5, *5 * [0.1]], 30, [0.1, *5 * [0]]),
    ("area of a class of 1 % beside 39 and 60 %, 50; 98 % right", [0.01, 0.39, 0.6], 50, [0.98, 0, 0]),
    ("in one of the 14 small strata, 50; 5 %", [0.3, *SMALL], 50, [0, 0.05, *13 * [0]]),
    ("0.9 and 0.1, 10 and 90; 5 % in each", [0.9, 0.1], (10, 90), [0.05, 0.05]),
    ("0.1, 0.3, 0.6, 25; 1 % in each", [0.1, 0.3, 0.6], 25, 3 * [0.01]),
]


def possible_counts(n, shares):
    """Numbers of samples in the part, by stratum, and their probability."""
    ranges = []
    for size, p in zip(n, shares, strict=True):
        x = np.arange(int(size) + 1)
        chance = scipy.stats.binom.pmf(x, size, p)
        ranges.append([pair for pair in zip(x, chance, strict=True) if pair[1] > RAREST])
    for combined in product(*ranges):
        chance = float(np.prod([c for _, c in combined]))
        if chance > RAREST:
            yield np.array([x for x, _ in combined], float), chance


def exact_coverage(sizes, n, shares):
    """Probability that the 95 % interval of Σ W_h p_h holds it, and the mean width of the interval."""
    sizes, shares = np.asarray(sizes, float), np.asarray(shares, float)
    n = np.broadcast_to(n, sizes.shape).astype(float)
    possible = np.repeat([[True], [True], [False]], len(sizes), axis=1)
    found = []
    for part, chance in possible_counts(n, shares):
        low, high = estimation.ratio_limits(np.stack([part, n - part, 0 * part]), possible, sizes, 0.95)
        found.append((chance, chance * (low <= sizes @ shares <= high), chance * (high - low)))
    listed, held, width = np.sum(found, axis=0)
    assert listed > 0.999
    return float(held / listed), float(width / listed)


@contextmanager
def shared_out_only():
    """Limits as they were at first: the unseen sample is shared out over all strata."""
    kept = estimation._one_by_one
    estimation._one_by_one = lambda *_: iter(())
    try:
        yield
    finally:
        estimation._one_by_one = kept


def errors_of_one_stratum(quick):
    """Coverage and width with the unseen sample shared out, and with it in each stratum in turn."""
    rows = []
    for name, sizes, n, shares in CASES[:2] if quick else CASES:
        with shared_out_only():
            before = exact_coverage(sizes, n, shares)
        rows.append([name, *before, *exact_coverage(sizes, n, shares)])
    columns = {
        "strata (W_h), samples; wrong": "",
        "before": ".3f",
        "width": ".3f",
        "now": ".3f",
        "width ": ".3f",
    }
    caption = f"Exact coverage and mean width of nominal 95 % intervals, {estimation.DRAWS:,} draws a limit."
    return Table("one stratum", caption, columns, rows)


def dirichlet_posteriors(quick):
    """Coverage of overall accuracy by a Dirichlet(1/K) posterior of each stratum: an alternative."""
    rows, repeats = [], 100 if quick else 1000
    for sizes, right in (([0.1, 0.3, 0.6], NEARLY_RIGHT[0, 0]), (8 * [0.125], 0.99)):
        K, held = len(sizes), 0
        for i in range(repeats):
            rng = stream(i, "Dirichlet posteriors", K)
            x = rng.binomial(10, right, K)
            draws = rng.beta(x + 1 / K, 10 - x + 1 - 1 / K, (1000, K)) @ sizes
            low, high = np.quantile(draws, [0.025, 0.975])
            held += low <= right <= high
        share = held / repeats
        rows.append([K, share, float(np.sqrt(share * (1 - share) / repeats))])
    caption = f"Overall accuracy held by 95 % intervals: 99 % right, 10 a stratum, {repeats} samples."
    return Table("Dirichlet", caption, {"classes": "d", "held": ".3f", "±": ".3f"}, rows)


@benchmark("strata")
def strata(quick):
    """Return the tables of intervals from strata."""
    return [errors_of_one_stratum(quick), dirichlet_posteriors(quick)]
