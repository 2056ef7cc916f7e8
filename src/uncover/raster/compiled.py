"""Machine code for moving and counting the pixels of a map; `uncover.raster.moving` says what it does."""

import numpy as np
from numba import njit

from uncover.bayes.compiled.lanes import OPTIONS


@njit(**OPTIONS)
def gather(planes, where, out):
    """Pixels of planes (band, pixel) by their place: (band, place)."""
    for j in range(len(planes)):
        for i in range(len(where)):
            out[j, i] = planes[j, where[i]]


@njit(**OPTIONS)
def put_steps(values, step, nothing, where, row, out):
    """Numbers (band, place) as whole steps, NaN as `nothing`, to their places in planes (band, pixel).

    ``row`` is room for the steps of one band.
    """
    for j in range(len(values)):
        for i in range(len(where)):
            number = np.rint(values[j, i] / step)
            row[i] = np.int32(number) if number == number else nothing
        for i in range(len(where)):
            out[j, where[i]] = row[i]


@njit(**OPTIONS)
def add_areas(areas, best, worlds, weight, where):
    """Add pixels and areas of classes, and their areas in each world, to (2 + world, class)."""
    for i in range(len(where)):
        areas[0, best[i]] += 1.0
        areas[1, best[i]] += weight[where[i]]
    for w in range(len(worlds)):
        for i in range(len(where)):
            areas[2 + w, worlds[w, i]] += weight[where[i]]


@njit(**OPTIONS)
def count(planes, counts):
    """Add how often each number occurs in planes (band, pixel) to (band, number)."""
    for j in range(planes.shape[0]):
        for i in range(planes.shape[1]):
            counts[j, planes[j, i]] += 1
