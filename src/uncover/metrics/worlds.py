"""Spread of a number over worlds, and how far it depends on which worlds were drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def spread_over_worlds(values: ArrayLike, pairs: ArrayLike) -> tuple[Floats, Floats]:
    """Standard deviation over worlds, and its Monte Carlo standard error.

    The error is by the jackknife over draws: each draw of each quantity is left out in turn, with all worlds
    that it is part of, and the variances of the quantities add up. It is that of random draws of a number
    that depends on its own world alone. It is an upper limit for quantiles, which spread evenly, and for
    areas of another scene: classes are broadened by the spread of all draws, so that draws that spread more
    move the areas less. Measured for areas of another scene in 25 worlds of each of two scenes, crossed: 2.2
    times the error over seeds by random draws, 4.2 times by quantiles (``python -m benchmarks areas``).

    Parameters
    ----------
    values : array of shape (world, ...)
    pairs : array of int of shape (world, quantity)
        Which draw of each quantity a world has: (realisation, world of the model) of a map.

    Returns
    -------
    (array, array)
        NaN where there are fewer than two worlds; the error NaN where there are fewer than three draws.

    Examples
    --------
    >>> sd, error = spread_over_worlds([1.0, 2.0, 3.0, 4.0], [[0], [1], [2], [3]])
    >>> float(sd.round(3)), float(error.round(3))
    (1.291, 0.457)
    """
    x, drawn = np.asarray(values, np.float64), np.asarray(pairs)
    nothing = np.full(x.shape[1:], np.nan)
    if len(x) < 2:
        return nothing, nothing
    variance = np.zeros(x.shape[1:])
    known = False
    for draws in drawn.reshape(len(x), -1).T:
        names = np.unique(draws)
        if len(names) < 3:
            continue
        left = np.stack([_deviation(x[draws != name]) for name in names])
        variance += (len(names) - 1) / len(names) * ((left - left.mean(axis=0)) ** 2).sum(axis=0)
        known = True
    return _deviation(x), np.sqrt(variance) if known else nothing


def _deviation(x: Any) -> Floats:
    return np.asarray(np.std(x, axis=0, ddof=1))
