"""Surface reflectance products: undo the correction that they had, and correct again at the drawn depths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from uncover.atmosphere.correction import BandAxis, Correction
from uncover.atmosphere.state import Geometry, State

Array = npt.NDArray[Any]

# The step of the AOT band of L2A products: optical depths that differ by less are corrected alike.
AOD_STEP = 1e-3


def recorrect(
    correction: Correction,
    surface: npt.ArrayLike,
    product: State,
    drawn: State,
    geometry: Geometry,
    *,
    aod_map: npt.ArrayLike | None = None,
    worlds_at: Callable[[float], Array] | None = None,
    band_axis: BandAxis = -1,
) -> Array:
    """Realisations of an L2A product: its top-of-atmosphere signal, corrected again at the drawn states.

    The signal is simulated at the product's own state. With ``aod_map`` (the AOT band of the product, one
    value per pixel) it is simulated at each pixel's own optical depth, and each drawn error, ``drawn.aod -
    product.aod``, is added to it: the error is what the scene shares. Optical depths never go below zero:
    ``worlds_at`` gives those of the worlds for a pixel's own depth (`Draws.around`), so that the rule that
    keeps draws positive holds at every pixel; without it, negative ones are set to zero.

    >>> import numpy as np
    >>> from uncover.atmosphere import LookupTable
    >>> table, angles = LookupTable("S2B", ["B2", "B8"]), Geometry(35, 4, 100)
    >>> surface = np.array([[0.04, 0.30], [0.10, 0.25]])
    >>> worlds = recorrect(table, surface, State(aod=0.15), State(aod=[0.05, 0.15, 0.25]), angles)
    >>> worlds.shape, bool(np.abs(worlds[:, 1] - surface).max() < 1e-12)
    ((2, 3, 2), True)
    """
    if product.realisations is not None:
        raise ValueError(f"the state of the product has {product.realisations} realisations; it is one state")
    if aod_map is None:
        toa = correction.simulate(surface, product, geometry, band_axis=band_axis)
        return correction.correct(toa, drawn, geometry, band_axis=band_axis)
    errors = np.asarray(drawn.aod) - np.asarray(product.aod)

    def shifted(depth: float) -> Array:
        return np.maximum(depth + errors, 0.0)

    return _by_depth(
        correction,
        np.asarray(surface),
        product,
        drawn,
        geometry,
        np.asarray(aod_map),
        worlds_at or shifted,
        band_axis,
    )


def _by_depth(
    correction: Correction,
    surface: Array,
    product: State,
    drawn: State,
    geometry: Geometry,
    aod_map: Array,
    worlds_at: Callable[[float], Array],
    band_axis: BandAxis,
) -> Array:
    """Pixels of one optical depth at a time: an AOT band holds few different ones."""
    pixels = surface.shape[1:] if band_axis == 0 else surface.shape[:-1]
    if aod_map.shape != pixels:
        raise ValueError(f"the AOT band has shape {aod_map.shape}, the pixels {pixels}; resample it to them")
    if not np.isfinite(aod_map).all():
        raise ValueError("the AOT band has missing values; fill them with the mean of the scene")
    bands = surface.shape[band_axis]
    planes = surface.reshape(bands, -1) if band_axis == 0 else surface.reshape(-1, bands).T
    worlds = np.shape(drawn.aod)
    steps = np.round(aod_map.ravel() / AOD_STEP).astype(int)
    result = np.empty((*worlds, *planes.shape), dtype=surface.dtype)
    for step in np.unique(steps):
        here, depth = np.flatnonzero(steps == step), step * AOD_STEP
        angles = geometry if geometry.shape == () else _take(geometry, here)
        toa = correction.simulate(planes[:, here], replace(product, aod=depth), angles, band_axis=0)
        state = replace(drawn, aod=worlds_at(float(depth)))
        result[..., here] = correction.correct(toa, state, angles, band_axis=0)
    if band_axis == 0:
        return result.reshape(*worlds, *surface.shape)
    return np.moveaxis(result, -1, 0).reshape(*pixels, *worlds, bands)


def _take(geometry: Geometry, pixels: Array) -> Geometry:
    flat = geometry.flat()
    fields = (flat.sun_zenith, flat.view_zenith, flat.relative_azimuth, flat.altitude)
    return Geometry(*(np.asarray(f)[pixels] if np.ndim(f) else f for f in fields))
