"""Atmospheric corrections: top-of-atmosphere reflectance and a state in, surface reflectance out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from uncover.atmosphere.coefficients import Coefficients
from uncover.atmosphere.state import Geometry, State
from uncover.atmosphere.table import RESPONSES, BandTable

Array = npt.NDArray[Any]
BandAxis = Literal[0, -1]

BANDS = ("B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B8A", "B9", "B11", "B12")
# Elements of a block: a few arrays of this size stay in the second-level cache. Where every pixel has its own
# angles the coefficients are arrays too, and larger blocks save more than the cache does.
BLOCK_ELEMENTS = 1 << 17
BLOCK_ELEMENTS_WITH_ANGLES = 1 << 20
# Nothing on Earth reflects this much: digital numbers do.
HIGHEST_REFLECTANCE = 5.0
# The step of the AOT band of L2A products: optical depths that differ by less are corrected alike.
AOD_STEP = 1e-3


class LookupTable:
    """Correction with the embedded table of the 6SV code, for a Lambertian, uniform, flat surface.

    Arrays are (..., band), and with R realisations in the state the result is (..., realisation, band); with
    ``band_axis=0`` they are (band, ...) and (realisation, band, ...), which is faster. The type of float goes
    through. Angles and altitude are one number each, or one per pixel.

    >>> import numpy as np
    >>> table = LookupTable("S2A", bands=("B2", "B4", "B8"))
    >>> geometry = Geometry(sun_zenith=40, view_zenith=5, relative_azimuth=120)
    >>> surface = np.array([[0.05, 0.08, 0.40], [0.03, 0.03, 0.25]])
    >>> toa = table.simulate(surface, State(aod=0.2), geometry)
    >>> bool(np.allclose(table.correct(toa, State(aod=0.2), geometry), surface, atol=1e-12))
    True
    >>> table.correct(toa, State(aod=[0.1, 0.2, 0.3]), geometry).shape
    (2, 3, 3)
    >>> LookupTable("S2C").response
    'S2A'
    """

    def __init__(self, sensor: str = "S2A", bands: Sequence[str] = BANDS) -> None:
        self.sensor = _sensor(sensor)
        self.bands = tuple(_band(name) for name in bands)
        self.table = BandTable.load(self.sensor, self.bands)

    def __repr__(self) -> str:
        return f"LookupTable({self.sensor!r}, bands={self.bands!r})"

    @property
    def response(self) -> str:
        """The sensor whose spectral response the table was computed with."""
        return self.table.response

    @property
    def aerosol_model(self) -> str:
        """The aerosol model the table was computed with."""
        return self.table.aerosol_model

    def coefficients(self, state: State, geometry: Geometry, dtype: npt.DTypeLike = float) -> Coefficients:
        """The coefficients of every band: arrays (realisation, band, pixel).

        >>> c = LookupTable("S2A", ["B2"]).coefficients(State(aod=[0.1, 0.4]), Geometry(30, 0, 0))
        >>> c.path.shape, bool(c.path[1, 0, 0] > c.path[0, 0, 0])
        ((2, 1, 1), True)
        """
        return self.table.coefficients(state, geometry.flat(), dtype)

    def correct(
        self,
        toa: npt.ArrayLike,
        state: State,
        geometry: Geometry,
        *,
        band_axis: BandAxis = -1,
        out: Array | None = None,
    ) -> Array:
        """Surface reflectance from top-of-atmosphere reflectance, block by block."""
        return self._apply(Coefficients.correct, toa, state, geometry, band_axis, out)

    def simulate(
        self,
        surface: npt.ArrayLike,
        state: State,
        geometry: Geometry,
        *,
        band_axis: BandAxis = -1,
        out: Array | None = None,
    ) -> Array:
        """Top-of-atmosphere reflectance from surface reflectance, block by block."""
        return self._apply(Coefficients.simulate, surface, state, geometry, band_axis, out)

    def _apply(
        self,
        verb: _Verb,
        values: npt.ArrayLike,
        state: State,
        geometry: Geometry,
        band_axis: BandAxis,
        out: Array | None,
    ) -> Array:
        array = _reflectance(values, self.bands, band_axis)
        pixels = array.shape[1:] if band_axis == 0 else array.shape[:-1]
        _check_pixels(pixels, geometry)
        self.table.check(state, geometry)
        worlds, bands = state.realisations or 1, len(self.bands)
        shape = (worlds, bands, *pixels) if band_axis == 0 else (*pixels, worlds, bands)
        result = _output(out, shape, array.dtype)
        # Both layouts become planes: views (band, pixel) in and (realisation, band, pixel) out.
        planes = array.reshape(bands, -1) if band_axis == 0 else array.reshape(-1, bands).T
        filled = (
            result.reshape(worlds, bands, -1)
            if band_axis == 0
            else result.reshape(-1, worlds, bands).transpose(1, 2, 0)
        )
        self._fill(verb, planes, state, geometry.flat(), filled)
        if state.realisations is None:
            return result[0] if band_axis == 0 else result[..., 0, :]
        return result

    def _fill(self, verb: _Verb, planes: Array, state: State, geometry: Geometry, filled: Array) -> None:
        worlds, bands, pixels = filled.shape
        varying = geometry.shape != ()
        step = max(64, (BLOCK_ELEMENTS_WITH_ANGLES if varying else BLOCK_ELEMENTS) // (worlds * bands))
        work = np.empty((2, worlds * bands * min(step, pixels)), dtype=filled.dtype)
        same = None if varying else self.table.coefficients(state, geometry).astype(filled.dtype)
        for block in _blocks(pixels, step):
            here = same or self.table.coefficients(state, geometry.block(block), filled.dtype)
            size = (worlds, bands, block.stop - block.start)
            done, scratch = (w[: np.prod(size)].reshape(size) for w in work)
            filled[:, :, block] = verb(here, planes[:, block], done, scratch)


_Verb = Callable[[Coefficients, Array, Array, Array], Array]


def _sensor(name: str) -> str:
    short = name.strip().upper().replace("SENTINEL-", "S").replace("SENTINEL", "S")
    if short not in RESPONSES:
        raise ValueError(f"sensor {name!r} is not in the look-up table; it knows {', '.join(RESPONSES)}")
    return short


def _band(name: str) -> str:
    """'B02' and 'B2' are one band."""
    short = name.strip().upper()
    short = f"B{short[2:]}" if short.startswith("B0") else short
    if short == "B10":
        raise ValueError("band B10 sees no surface through the water vapour: leave it out")
    if short not in BANDS:
        raise ValueError(f"band {name!r} is not in the look-up table; it has {', '.join(BANDS)}")
    return short


def _reflectance(values: npt.ArrayLike, bands: tuple[str, ...], band_axis: BandAxis) -> Array:
    array = np.asarray(values)
    if array.ndim == 0 or array.shape[band_axis] != len(bands):
        raise ValueError(
            f"the data have shape {array.shape}, the table {len(bands)} bands ({', '.join(bands)}) "
            f"on axis {band_axis}; select the bands or set band_axis"
        )
    highest = np.max(array, initial=0, where=array == array)  # missing pixels are not numbers
    if not np.issubdtype(array.dtype, np.floating) or highest > HIGHEST_REFLECTANCE:
        raise ValueError(
            f"the data are {array.dtype} up to {highest:g}, which look like digital numbers; "
            "give reflectance: (DN + offset) / 10000"
        )
    return array


def _check_pixels(pixels: tuple[int, ...], geometry: Geometry) -> None:
    if geometry.shape not in ((), pixels):
        raise ValueError(
            f"the angles have shape {geometry.shape}, the data pixels of shape {pixels}; "
            "give one angle for all pixels or one for each"
        )


def _output(out: Array | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    if out is None:
        return np.empty(shape, dtype=dtype)
    if out.shape != shape or out.dtype != dtype or not out.flags.c_contiguous:
        raise ValueError(
            f"out is {out.dtype} {out.shape}; it must be a contiguous {dtype} array of shape {shape}"
        )
    return out


def _blocks(pixels: int, step: int) -> Iterator[slice]:
    for start in range(0, pixels, step):
        yield slice(start, min(start + step, pixels))


def recorrect(
    correction: LookupTable,
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
    correction: LookupTable,
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
        angles = geometry if geometry.shape == () else geometry.flat().block(here)
        toa = correction.simulate(planes[:, here], replace(product, aod=depth), angles, band_axis=0)
        state = replace(drawn, aod=worlds_at(float(depth)))
        result[..., here] = correction.correct(toa, state, angles, band_axis=0)
    if band_axis == 0:
        return result.reshape(*worlds, *surface.shape)
    return np.moveaxis(result, -1, 0).reshape(*pixels, *worlds, bands)
