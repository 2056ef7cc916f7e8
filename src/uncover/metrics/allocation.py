"""Sizes of a stratified random sample: the fewest samples that reach a target error, or the best use of many.

Neyman's allocation for several quantities at once (Bethel 1989, Survey Methodology 15, 47-57): a weight for
each quantity makes one quantity of them, and the weights move to those whose error is too large.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

_ROUNDS = 300


def class_variances(shares: ArrayLike, expected: ArrayLike) -> Floats:
    """Variances of one sample of each stratum, (quantity, stratum): overall accuracy, then class shares.

    ``shares`` (K,) are the strata's shares of the area, ``expected`` (K, K) the expected share of each class
    in each stratum; stratum k is what the map says is of class k. A quantity that is the weighted sum of
    shares p of the strata has the variance Σ W² p (1 − p) / n (Olofsson et al. 2014, equations 11 and 13).

    >>> class_variances([0.25, 0.75], [[1.0, 0.0], [0.5, 0.5]])[0]
    array([0.      , 0.140625])
    """
    weight, p = np.asarray(shares, np.float64), np.asarray(expected, np.float64)
    quantities = np.vstack([np.diag(p), p.T])
    return np.asarray(weight**2 * quantities * (1 - quantities))


def standard_errors(variances: Floats, counts: ArrayLike, pixels: ArrayLike) -> Floats:
    """Standard error of each quantity from n samples of each stratum of N pixels, without replacement.

    >>> standard_errors(np.array([[0.25]]), [25], [1_000_000]).round(4)
    array([0.1])
    """
    n, N = np.asarray(counts, np.float64), np.asarray(pixels, np.float64)
    left = np.where(N > 1, (N - n) / np.maximum(N - 1, 1), 0.0)
    return np.asarray(np.sqrt((variances * left / n).sum(axis=-1)))


def samples_for_target(variances: Floats, pixels: ArrayLike, target: float, least: int = 0) -> Counts:
    """The fewest samples of each stratum with which no quantity has a standard error above the target.

    At least ``least`` of each stratum, or all its pixels where it has fewer. ``variances`` is that of
    `class_variances`, with the chosen quantities alone.

    >>> samples_for_target(np.array([[0.25 * 0.09, 0.49 * 0.21]]), [1000, 1000], 0.02).tolist()
    [135, 288]
    """
    N = np.asarray(pixels, np.int64)
    low = np.minimum(least, N)
    allowed = np.full(len(variances), float(target))

    def enough(weights: Floats) -> Counts:
        size = np.sqrt(weights @ variances)
        lower, upper = 0.0, float((N / np.where(size > 0, size, np.inf)).max(initial=1.0))
        for _ in range(60):
            middle = (lower + upper) / 2
            n = np.clip(middle * size, np.maximum(low, 1e-9), N)
            if (standard_errors(variances, n, N) <= allowed).all():
                upper = middle
            else:
                lower = middle
        return np.clip(np.ceil(upper * size - 1e-9), np.maximum(low, 1), N).astype(np.int64)

    return _best(variances, N, enough)


def samples_of_total(variances: Floats, pixels: ArrayLike, total: int, least: int = 0) -> Counts:
    """``total`` samples, spread over the strata so that the largest standard error is as small as can be.

    >>> samples_of_total(np.array([[0.25 * 0.09, 0.49 * 0.21]]), [1000, 1000], 100).tolist()
    [32, 68]
    """
    N = np.asarray(pixels, np.int64)
    low = np.maximum(np.minimum(least, N), 1)
    if not low.sum() <= total <= N.sum():
        raise ValueError(
            f"{total} samples cannot be spread over {len(N)} strata with {N.sum():,} pixels: give "
            f"{low.sum():,} or more, and not more than there are pixels"
        )

    def spread(weights: Floats) -> Counts:
        size = np.sqrt(weights @ variances) + 1e-12
        lower, upper = 0.0, float((N / size).max())
        for _ in range(100):
            middle = (lower + upper) / 2
            lower, upper = (
                (lower, middle) if np.clip(middle * size, low, N).sum() > total else (middle, upper)
            )
        n = np.clip(lower * size, low, N)
        whole = np.floor(n).astype(np.int64)
        room = np.flatnonzero(whole < N)
        first = room[np.argsort((whole - n)[room], kind="stable")]
        whole[first[: total - whole.sum()]] += 1
        return whole

    return _best(variances, N, spread, total)


def _best(variances: Floats, pixels: Counts, counts_for: object, total: int | None = None) -> Counts:
    """Move the weights of the quantities towards those of the largest error; keep the best counts met."""
    assert callable(counts_for)
    scale = variances.max()
    if not scale > 0:
        scale = 1.0
    weights, best, smallest = np.full(len(variances), 1 / len(variances)), None, np.inf
    for _ in range(_ROUNDS):
        counts = counts_for(weights)
        errors = standard_errors(variances, counts, pixels)
        score = float(counts.sum()) if total is None else float(errors.max())
        if score < smallest:
            best, smallest = counts, score
        if not errors.max() > 0:
            break
        weights = weights * (errors / errors.max()) ** 2 + 1e-9
        weights /= weights.sum()
    assert best is not None
    return np.asarray(best)
