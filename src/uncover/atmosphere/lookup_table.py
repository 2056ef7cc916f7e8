"""Atmospheric correction by the embedded 6SV look-up table: its interpolation, and its use on arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from uncover.atmosphere.coefficients import Coefficients
from uncover.atmosphere.state import Geometry, State

Array = npt.NDArray[Any]
BandAxis = Literal[0, -1]

BANDS = ("B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B8A", "B9", "B11", "B12")
# Elements of a block: a few arrays of this size stay in the second-level cache. Where every pixel has its own
# angles the coefficients are arrays too, and larger blocks save more than the cache does.
BLOCK_ELEMENTS = 1 << 17
BLOCK_ELEMENTS_WITH_ANGLES = 1 << 20
# Nothing on Earth reflects this much: digital numbers do.
HIGHEST_REFLECTANCE = 5.0
#: Aerosol models of 6S, by number; the table is that of the first, of the others it has the differences.
AEROSOL_MODELS = ("continental", "maritime", "urban", "desert")
# The step of the AOT band of L2A products: optical depths that differ by less are corrected alike.
AOD_STEP = 1e-3


class LookupTable:
    """Correction with the embedded table of the 6SV code, for a Lambertian, uniform, flat surface.

    Arrays are (..., band), and with R realisations in the state the result is (..., realisation, band); with
    ``band_axis=0`` they are (band, ...) and (realisation, band, ...), which is faster. The type of float goes
    through. Angles and altitude are one number each, or one per pixel.
    """

    def __init__(self, sensor: str = "S2A", bands: Sequence[str] = BANDS) -> None:
        self.sensor = _sensor(sensor)
        self.bands = tuple(_band(name) for name in bands)
        self.table = BandTable.load(self.sensor, self.bands)
        self.response = self.table.response  # the sensor whose spectral response the table was computed with
        self.aerosol_model = self.table.aerosol_model

    def __repr__(self) -> str:
        return f"LookupTable({self.sensor!r}, bands={self.bands!r})"

    def coefficients(self, state: State, geometry: Geometry, dtype: npt.DTypeLike = float) -> Coefficients:
        """The coefficients of every band: arrays (realisation, band, pixel)."""
        return self.table.coefficients(state, geometry.flat(), dtype)

    def correct(
        self, toa: npt.ArrayLike, state: State, geometry: Geometry, *, band_axis: BandAxis = -1
    ) -> Array:
        """Surface reflectance from top-of-atmosphere reflectance, block by block."""
        return self._apply(Coefficients.correct, toa, state, geometry, band_axis)

    def simulate(
        self, surface: npt.ArrayLike, state: State, geometry: Geometry, *, band_axis: BandAxis = -1
    ) -> Array:
        """Top-of-atmosphere reflectance from surface reflectance, block by block."""
        return self._apply(Coefficients.simulate, surface, state, geometry, band_axis)

    def _apply(
        self, verb: _Verb, values: npt.ArrayLike, state: State, geometry: Geometry, band_axis: BandAxis
    ) -> Array:
        array = _reflectance(values, self.bands, band_axis)
        pixels = array.shape[1:] if band_axis == 0 else array.shape[:-1]
        _check_pixels(pixels, geometry)
        self.table.check(state, geometry)
        worlds, bands = state.realisations or 1, len(self.bands)
        shape = (worlds, bands, *pixels) if band_axis == 0 else (*pixels, worlds, bands)
        result = np.empty(shape, dtype=array.dtype)
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
        for start in range(0, pixels, step):
            block = slice(start, min(start + step, pixels))
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
    """
    if product.realisations is not None:
        raise ValueError(f"the state of the product has {product.realisations} realisations; it is one state")
    if aod_map is None:
        toa = correction.simulate(surface, product, geometry, band_axis=band_axis)
        return correction.correct(toa, drawn, geometry, band_axis=band_axis)
    surface, aod_map = np.asarray(surface), np.asarray(aod_map)
    pixels = surface.shape[1:] if band_axis == 0 else surface.shape[:-1]
    if aod_map.shape != pixels:
        raise ValueError(f"the AOT band has shape {aod_map.shape}, the pixels {pixels}; resample it to them")
    if not np.isfinite(aod_map).all():
        raise ValueError("the AOT band has missing values; fill them with the mean of the scene")
    bands = surface.shape[band_axis]
    planes = surface.reshape(bands, -1) if band_axis == 0 else surface.reshape(-1, bands).T
    worlds = () if drawn.realisations is None else (drawn.realisations,)
    errors = np.asarray(drawn.aod) - np.asarray(product.aod)
    steps = np.round(aod_map.ravel() / AOD_STEP).astype(int)
    result = np.empty((*worlds, *planes.shape), dtype=surface.dtype)
    for step in np.unique(steps):  # pixels of one optical depth at a time: an AOT band holds few
        here, depth = np.flatnonzero(steps == step), step * AOD_STEP
        angles = geometry if geometry.shape == () else geometry.flat().block(here)
        toa = correction.simulate(planes[:, here], replace(product, aod=depth), angles, band_axis=0)
        aod = np.maximum(depth + errors, 0.0) if worlds_at is None else worlds_at(float(depth))
        state = replace(drawn, aod=aod)
        result[..., here] = correction.correct(toa, state, angles, band_axis=0)
    if band_axis == 0:
        return result.reshape(*worlds, *surface.shape)
    return np.moveaxis(result, -1, 0).reshape(*pixels, *worlds, bands)


# Share of the molecules above the aerosol: scale heights of 8 km and 2 km, as in 6S. Compiled into the table.
ABOVE_AEROSOL = 0.8
# The offset under the logarithm of the optical depth that makes the table straightest in it.
AOD_OFFSET = 0.3
# The polynomials over the view directions were fitted up to the first; up to the second they err by 4e-4.
VIEW_NODE, VIEW_LIMIT = 12.0, 12.5
OZONE_LIMIT, WATER_LIMIT = 600.0, 8.0
LOWEST, HIGHEST = -0.5, 3.0  # km, altitude of the ground
# Py6S has no response of Sentinel-2C: that of 2A is used, and the table says so.
RESPONSES = {"S2A": "S2A", "S2B": "S2B", "S2C": "S2A"}


def pressure_ratio(altitude: npt.ArrayLike) -> Array:
    """Pressure at an altitude in km over that at sea level (US Standard Atmosphere 1976, below 11 km)."""
    return np.asarray((1 - 6.5 * np.asarray(altitude, dtype=float) / 288.15) ** 5.25588)


@cache
def _arrays(name: str = "continental") -> dict[str, Array]:
    with resources.files("uncover.atmosphere").joinpath(f"data/{name}.npz").open("rb") as file:
        return dict(np.load(file))


@dataclass(frozen=True)
class BandTable:
    """The table of some bands of a sensor: arrays on their nodes, and the interpolation between them."""

    bands: tuple[str, ...]
    response: str
    aerosol_model: str
    nodes: dict[str, Array]
    values: dict[str, Array]  # band axis first
    splines: dict[str, Any]  # weights of the nodes (..., node) at a coordinate: splines are linear in values

    @classmethod
    def load(cls, sensor: str, bands: tuple[str, ...]) -> BandTable:
        """Read the table shipped with the package."""
        arrays, response = _arrays(), RESPONSES[sensor]
        row = arrays["sensors"].tolist().index(response)
        rows = [arrays["bands"].tolist().index(band) for band in bands]
        by_sensor = ("molecular_path", "aerosol_path", "transmittance", "albedo", "gas_depth", "ozone_depth")
        by_band = ("molecular_depth", "aerosol_depth", "aerosol_albedo", "phase")
        from scipy.interpolate import CubicSpline

        axes = ("sun_zenith", "aod", "altitude", "phase_angle", "gas_airmass", "gas_water", "gas_altitude")
        nodes = {name: arrays[name].astype(float) for name in axes}
        coordinates = {
            "sun": _of_sun(nodes["sun_zenith"]),
            "aod": np.log(AOD_OFFSET + nodes["aod"]),
            "phase": nodes["phase_angle"],
            "airmass": np.log(nodes["gas_airmass"]),
            "water": np.sqrt(nodes["gas_water"]),
            "gas": nodes["gas_altitude"],
        }
        return cls(
            bands=bands,
            response=response,
            aerosol_model=str(arrays["aerosol_model"]),
            nodes=nodes,
            values={name: arrays[name][row, rows].astype(float) for name in by_sensor}
            | {name: arrays[name][rows].astype(float) for name in by_band}
            | {"ozone_above": arrays["ozone_above"].astype(float)},
            splines={name: CubicSpline(at, np.eye(len(at))) for name, at in coordinates.items()},
        )

    def check(self, state: State, geometry: Geometry) -> None:
        """Refuse what the table does not cover."""
        _check_range("sun zenith angle", geometry.sun_zenith, self.nodes["sun_zenith"][-1], "degrees")
        _check_range("view zenith angle", geometry.view_zenith, VIEW_LIMIT, "degrees")
        _check_range("altitude", geometry.altitude, HIGHEST, "km", lowest=LOWEST)
        _check_range("aerosol optical depth", state.aod, self.nodes["aod"][-1], "at 550 nm")
        _check_range("water vapour", state.water_vapour, WATER_LIMIT, "cm")
        _check_range("ozone", state.ozone, OZONE_LIMIT, "DU")

    def coefficients(self, state: State, geometry: Geometry, dtype: npt.DTypeLike = float) -> Coefficients:
        """Path, slope and albedo: arrays (realisation, band, pixel)."""
        if state.signal is not None:
            gain, offset = (each.astype(dtype) for each in state.signal)
            return self.coefficients(replace(state, signal=None), geometry, dtype).of_signal(gain, offset)
        if np.any(state.height) or np.any(state.aerosol):
            return self._one_by_one(state, geometry, dtype)
        self.check(state, geometry)
        reader = _Reader.at(self, state, geometry, np.dtype(dtype))
        ozone = np.exp(-reader.ozone_depth())
        water = np.atleast_1d(np.asarray(state.water_vapour))
        behind_half, behind_none, behind_all = (
            ozone * np.exp(-reader.gas_depth(amount)) for amount in (water / 2, 0 * water, water)
        )
        hazy = reader.aerosol_path() + reader.single_scattering()
        return Coefficients(
            path=behind_none * reader.molecular_path() + behind_half * hazy,
            slope=behind_all * reader.transmittance(reader.sun) * reader.transmittance(reader.up),
            albedo=reader.albedo(),
        )

    def _one_by_one(self, state: State, geometry: Geometry, dtype: npt.DTypeLike) -> Coefficients:
        """Each realisation at a height of the ground, within the table's, and with an aerosol of its own."""
        found = []
        for r in range(state.realisations or 1):
            one = state.of(r)
            raised = np.asarray(geometry.altitude) + np.asarray(one.height)
            ground = np.clip(raised, LOWEST, HIGHEST)
            table = _of_model(self.response, self.bands, np.asarray(one.aerosol).item())
            here = replace(geometry, altitude=ground)
            found.append(table.coefficients(replace(one, height=0.0, aerosol=0), here, dtype))
        parts = zip(*((one.path, one.slope, one.albedo) for one in found), strict=True)
        return Coefficients(*(np.concatenate(part) for part in parts))

    def with_aerosol(self, model: str) -> BandTable:
        """The table of another aerosol model: its optics, and what it changes at sea level seen from above.

        Seen from elsewhere, light that is scattered more than once changes in proportion.
        """
        from scipy.interpolate import CubicSpline

        arrays = _arrays("models")
        number = arrays["models"].tolist().index(model)
        row = _arrays()["sensors"].tolist().index(self.response)
        rows = [_arrays()["bands"].tolist().index(band) for band in self.bands]
        aods, suns = np.log(AOD_OFFSET + arrays["aod"]), _of_sun(arrays["sun_zenith"])

        def change(name: str) -> Array:
            at_aods = CubicSpline(aods, arrays[name][number, row, rows], axis=1)
            return np.asarray(at_aods(np.log(AOD_OFFSET + self.nodes["aod"])))[:, :, None]

        def by_sun(values: Array) -> Array:
            return np.asarray(CubicSpline(suns, values, axis=3)(_of_sun(self.nodes["sun_zenith"])))

        path = self.values["aerosol_path"]
        above = path[:, :, :1, :, :1]  # at sea level, from above
        more_path = np.maximum(above + by_sun(change("aerosol_path"))[..., None], 0.0)
        path = path * np.divide(more_path, above, out=np.ones_like(above), where=above > 0)
        names = ("aerosol_depth", "aerosol_albedo")
        optics = {name: arrays[name][number, rows].astype(float) for name in names}
        phase = CubicSpline(arrays["phase_angle"], arrays["phase"][number, rows], axis=1)
        more = {
            "aerosol_path": path,
            "transmittance": self.values["transmittance"] * np.exp(by_sun(change("transmittance"))),
            "albedo": self.values["albedo"] + change("albedo"),
            "phase": phase(self.nodes["phase_angle"]),
        }
        return replace(self, aerosol_model=f"6S {model}", values=self.values | optics | more)


def _of_sun(zenith: Array) -> Array:
    """The coordinate in which values are splines of the sun's zenith angle in degrees."""
    return np.asarray(1 - np.cos(np.radians(zenith, dtype=float)))


@cache
def _of_model(sensor: str, bands: tuple[str, ...], number: int) -> BandTable:
    """The table of an aerosol model, by its place among `AEROSOL_MODELS`."""
    table = BandTable.load(sensor, bands)
    return table.with_aerosol(AEROSOL_MODELS[number]) if number else table


@dataclass(frozen=True)
class _Reader:
    """The table at one state and geometry: interpolation weights, one set for all bands."""

    table: BandTable
    aod: Array  # (realisation,)
    ozone: Array  # (realisation,), cm-atm
    aods: Array  # weights (realisation, node)
    sun: Array  # weights (pixel, node)
    up: Array  # weights (pixel, node) of the view zenith in the same nodes, by reciprocity
    heights: Array  # weights (pixel, node) for scattering
    gas_heights: Array  # weights (pixel, node) for absorption
    view: Array  # polynomials (pixel, term)
    airmass: Array  # (pixel,)
    cosines: Array  # sum of the two cosines (pixel,)
    angle: Array  # scattering angle (pixel,)
    pressure: Array  # (pixel,)

    @classmethod
    def at(cls, table: BandTable, state: State, geometry: Geometry, dtype: np.dtype[Any]) -> _Reader:
        """Interpolation weights at a state and a geometry of scalars or flat arrays."""
        aod = np.atleast_1d(np.asarray(state.aod, dtype=float))
        angles = (geometry.sun_zenith, geometry.view_zenith, geometry.relative_azimuth)
        sun, view, azimuth = (np.radians(np.atleast_1d(np.asarray(a, dtype=float))) for a in angles)
        altitude = np.atleast_1d(np.asarray(geometry.altitude, dtype=float))
        pressure = pressure_ratio(altitude)
        cosine = np.cos(sun) * np.cos(view) + np.sin(sun) * np.sin(view) * np.cos(azimuth)
        parts = {
            "aod": aod,
            "ozone": np.atleast_1d(np.asarray(state.ozone, dtype=float)) / 1000,
            "aods": table.splines["aod"](np.log(AOD_OFFSET + aod)),
            "sun": table.splines["sun"](1 - np.cos(sun)),
            "up": table.splines["sun"](1 - np.cos(view)),
            "heights": _quadratic_weights(pressure_ratio(table.nodes["altitude"]), pressure),
            "gas_heights": table.splines["gas"](altitude),
            "view": _view_polynomials(view, azimuth),
            "airmass": 1 / np.cos(sun) + 1 / np.cos(view),
            "cosines": np.cos(sun) + np.cos(view),
            "angle": 180 - np.degrees(np.arccos(np.clip(cosine, -1, 1))),
            "pressure": pressure,
        }
        return cls(table, **{name: value.astype(dtype, copy=False) for name, value in parts.items()})

    def molecular_path(self) -> Array:
        """Path reflectance of the molecules: (1, band, pixel)."""
        return self._over_pixels(self.table.values["molecular_path"][None], self.heights, self.sun, self.view)

    def aerosol_path(self) -> Array:
        """Path reflectance that the aerosol adds beyond single scattering: (realisation, band, pixel)."""
        return self._over_pixels(self._at_aod("aerosol_path"), self.heights, self.sun, self.view)

    def transmittance(self, zenith: Array) -> Array:
        """Scattering transmittance along a direction: (realisation, band, pixel)."""
        return self._over_pixels(self._at_aod("transmittance"), self.heights, zenith)

    def albedo(self) -> Array:
        """Spherical albedo: (realisation, band, pixel)."""
        return self._over_pixels(self._at_aod("albedo"), self.heights)

    def gas_depth(self, water: Array) -> Array:
        """-ln of the transmittance of water vapour and the fixed gases: (realisation, band, pixel)."""
        weights = self.table.splines["water"](np.sqrt(water))
        at_water = np.einsum("ru,bhum->rbhm", weights, self.table.values["gas_depth"])
        airmasses = self.table.splines["airmass"](np.log(self.airmass))
        return self._over_pixels(at_water, self.gas_heights, airmasses)

    def ozone_depth(self) -> Array:
        """-ln of the transmittance of ozone: (realisation, band, pixel)."""
        above = self.gas_heights @ self.table.values["ozone_above"].astype(self.airmass.dtype)
        slant = (self.ozone[:, None] * (above * self.airmass))[:, None]
        linear, square = self.table.values["ozone_depth"].astype(slant.dtype).T[:, None, :, None]
        return np.asarray(linear * slant + square * slant**2)

    def single_scattering(self) -> Array:
        """Light scattered once, by the aerosol: (realisation, band, pixel)."""
        values, dtype = self.table.values, self.angle.dtype
        optics = {
            n: values[n][:, None].astype(dtype)
            for n in ("aerosol_depth", "aerosol_albedo", "molecular_depth")
        }
        phase = values["phase"].astype(dtype) @ self.table.splines["phase"](self.angle).T.astype(dtype)
        above = ABOVE_AEROSOL * optics["molecular_depth"] * self.pressure
        bright = optics["aerosol_albedo"] * phase / (4 * self.cosines) * np.exp(-self.airmass * above)
        lost = -np.expm1(-self.aod[:, None, None] * (self.airmass * optics["aerosol_depth"]))
        return np.asarray(bright * lost)

    def _at_aod(self, name: str) -> Array:
        """Values at the optical depths: (realisation, band, ...)."""
        return np.tensordot(self.aods, self.table.values[name].astype(self.aods.dtype), (1, 1))

    def _over_pixels(self, values: Array, *weights: Array) -> Array:
        """Contract the trailing axes of (realisation, band, ...) with weights (pixel, ...).

        Weights that are the same for all pixels go first: they make the rest smaller.
        """
        dtype, axis, varying = self.airmass.dtype, 2, []
        values = values.astype(dtype, copy=False)
        for weight in (w.astype(dtype, copy=False) for w in weights):
            if len(weight) == 1:
                values = np.tensordot(values, weight[0], (axis, 0))
            else:
                varying.append(weight)
                axis += 1
        if not varying:
            return values[..., None]
        joint = varying[0]
        for more in varying[1:]:
            joint = (joint[:, :, None] * more[:, None, :]).reshape(len(joint), -1)
        return (values.reshape(-1, joint.shape[1]) @ joint.T).reshape(*values.shape[:2], -1)


def _view_polynomials(view: Array, azimuth: Array) -> Array:
    """Polynomials over the disc of view directions, even across the principal plane: (pixel, term)."""
    size = np.sin(view) / np.sin(np.radians(VIEW_NODE))
    x, y2 = np.broadcast_arrays(size * np.cos(azimuth), (size * np.sin(azimuth)) ** 2)
    return np.stack([np.ones_like(x), x, x * x, y2, x**3, x * y2], axis=-1)


def _quadratic_weights(nodes: Array, x: Array) -> Array:
    """Lagrange weights of three nodes: (pixel, 3)."""
    a, b, c = nodes
    return np.stack(
        [
            (x - b) * (x - c) / (a - b) / (a - c),
            (x - a) * (x - c) / (b - a) / (b - c),
            (x - a) * (x - b) / (c - a) / (c - b),
        ],
        axis=-1,
    )


def _check_range(name: str, values: npt.ArrayLike, highest: float, unit: str, lowest: float = 0.0) -> None:
    worst_low, worst_high = float(np.min(values)), float(np.max(values))
    if worst_low < lowest or worst_high > highest * (1 + 1e-9):
        came = worst_low if worst_low < lowest else worst_high
        raise ValueError(
            f"{name} {came:g} is outside the look-up table, which covers {lowest:g} to {highest:g} {unit}; "
            "use data inside it, or correct with Sen2Cor"
        )
