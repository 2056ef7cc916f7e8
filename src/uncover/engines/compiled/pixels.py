"""Machine code for taking, putting and counting the pixels of a map; see `uncover.raster.pixel_kernels`."""

import numpy as np
from numba import njit

from uncover.engines.compiled.simd import OPTIONS

# A product and a sum stay two steps where NumPy's numbers are to come out to the last bit.
PLAIN = {"nogil": True, "cache": True, "error_model": "numpy"}


@njit(**PLAIN)
def calibrate(numbers, scale, offset, nodata, saturated, bit, out, flags):
    """scale·number + offset (row, col) in single precision; NaN and the bit for numbers that are none."""
    for i in range(numbers.shape[0]):
        for j in range(numbers.shape[1]):
            number = numbers[i, j]
            value = number * scale + offset
            full = number == saturated
            out[i, j] = np.nan if full or number == nodata else value
            flags[i, j] |= bit if full else np.uint16(0)


@njit(**PLAIN)
def complete(planes, nothing, some, flags):
    """Set the bits of pixels that have a finite value in no or only in some of the planes (band, pixel)."""
    missing = np.zeros(len(flags), np.int32)
    for j in range(len(planes)):
        for i in range(len(flags)):
            missing[i] += np.int32(not np.isfinite(planes[j, i]))
    for i in range(len(flags)):
        if missing[i] == len(planes):
            flags[i] |= nothing
        elif missing[i] > 0:
            flags[i] |= some


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
def mark(best, typicality, disagreement, margin, limits, bits, codes, where, classes, quality):
    """Code of the class, and the bits of what lies beyond the limits of the three, at each pixel's place."""
    for i in range(len(where)):
        place = where[i]
        classes[place] = codes[best[i]]
        if not typicality[i] >= limits[0]:
            quality[place] |= bits[0]
        if disagreement[i] > limits[1]:
            quality[place] |= bits[1]
        if margin[i] < limits[2]:
            quality[place] |= bits[2]


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
