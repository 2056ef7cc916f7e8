"""Kernels that gather pixels of a window into chunks, scatter results back, and count them.

In compiled code where there is, else in NumPy; the numbers are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uncover.engines.machine import machine_code
from uncover.raster.quality import Quality

if TYPE_CHECKING:
    from uncover.measurement.summary import PixelSummary
    from uncover.raster.product import Layer, Thresholds

Places = NDArray[np.intp]
Values = NDArray[np.float32]
Flags = NDArray[np.uint16]


def take(planes: NDArray[Any], where: Places) -> NDArray[Any]:
    """Pixels of planes (..., row, col) by their place: (..., pixel)."""
    code, flat = machine_code(), planes.reshape(-1, planes.shape[-2] * planes.shape[-1])
    if code is None:
        taken: NDArray[Any] = flat[:, where]
    else:
        taken = np.empty((len(flat), len(where)), planes.dtype)
        code.gather(flat, where, taken)
    return taken.reshape(*planes.shape[:-2], -1)


def calibrate(
    numbers: NDArray[Any], terms: tuple[float, float, float, float], bit: int, out: Values, flags: Flags
) -> bool:
    """scale·number + offset (row, col), NaN for nodata and for saturated numbers, whose flags get the bit.

    `terms` are scale, offset, nodata and the saturated number, NaN where there is none. Without compiled code
    nothing is done, and False returned.
    """
    code = machine_code()
    if code is None or not all(each.flags.c_contiguous for each in (numbers, out, flags)):
        return False
    kind = numbers.dtype.type if numbers.dtype.kind == "f" else np.float64
    scale, offset, *others = terms
    nodata, saturated = (np.float64(kind(number)) for number in others)
    code.calibrate(numbers, scale, offset, nodata, saturated, bit, out, flags)
    return True


def complete(planes: Values, nothing: int, some: int, flags: Flags) -> None:
    """Set bits where no plane of (band, row, col), or not every one, has a finite value."""
    code = machine_code()
    if code is not None and planes.flags.c_contiguous and flags.flags.c_contiguous:
        code.complete(planes.reshape(len(planes), -1), nothing, some, flags.reshape(-1))
        return
    missing = ~np.isfinite(planes)
    empty = missing.all(axis=0)
    flags |= empty * np.uint16(nothing) | (missing.any(axis=0) & ~empty) * np.uint16(some)


def put(layer: Layer, values: NDArray[Any], where: Places, out: NDArray[Any]) -> None:
    """Numbers (band, place) as a layer stores them, to their places in `out` (band, pixel)."""
    code = machine_code()
    if code is None or layer.dtype != "uint16" or layer.nodata is None:
        out[:, where] = layer.encode(values)
        return
    step, row = values.dtype.type(layer.scale), np.empty(len(where), np.uint16)
    code.put_steps(values, step, layer.nodata, where, row, out)


def mark(
    summary: PixelSummary,
    thresholds: Thresholds,
    codes: NDArray[np.uint8],
    where: Places,
    classes: NDArray[np.uint8],
    quality: Flags,
) -> None:
    """Codes of the classes, and the quality bits that a map adds, to their places (pixel,)."""
    code, kind = machine_code(), summary.typicality.dtype.type
    bits = np.array([Quality.OUTSIDE_DOMAIN, Quality.DISAGREE, Quality.LOW_MARGIN], np.uint16)
    limits = kind(thresholds.typicality), float(thresholds.disagreement), kind(thresholds.margin)
    found = summary.typicality, summary.disagreement, summary.margin
    if code is not None:
        code.mark(summary.best, *found, limits, bits, codes, where, classes, quality)
        return
    beyond = ~(found[0] >= limits[0]), found[1] > limits[1], found[2] < limits[2]
    classes[where] = codes[summary.best]
    quality[where] |= np.bitwise_or.reduce([bit * each for bit, each in zip(bits, beyond, strict=True)])


def add_areas(
    areas: NDArray[np.float64],
    best: NDArray[np.uint8],
    worlds: NDArray[np.uint8],
    weight: NDArray[np.float64],
    where: Places,
) -> None:
    """Add pixels and areas of classes, and their areas in each world, to (2 + world, class).

    `weight` has the area of every pixel of the window, `best` and `worlds` (world, place) the classes of
    those in question.
    """
    code, K = machine_code(), areas.shape[1]
    if code is not None:
        code.add_areas(areas, best, worlds, weight, where)
        return
    areas[0] += np.bincount(best, minlength=K)
    for row, classes in enumerate([best, *worlds], start=1):
        areas[row] += np.bincount(classes, weights=weight[where], minlength=K)


def count(planes: NDArray[Any], counts: NDArray[np.int64]) -> None:
    """Add how often each whole number occurs in planes (band, row, col) to (band, number)."""
    code, flat = machine_code(), planes.reshape(len(planes), -1)
    if code is not None:
        code.count(flat, counts)
        return
    for band, plane in zip(counts, flat, strict=True):
        band += np.bincount(plane, minlength=len(band))
