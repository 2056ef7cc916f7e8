"""From the spectra that 6S printed to the band table of the package. No 6S here, only NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import build_lut as nodes
import numpy as np
from build_lut import State
from scipy.interpolate import CubicSpline

Array = np.ndarray[Any, Any]
Views = tuple[tuple[float, float], ...]

# What the band averages are weighted by: a common state, so that averages of products and products of
# averages differ in second order only.
REFERENCE_GAS = {"sun": 51, "water": 1.7, "ozone": 0.35}
REFERENCE_AOD = 0.25
# Share of the molecules above the aerosol: scale heights of 8 and 2 km, as in 6S.
ABOVE_AEROSOL = 0.8
VIEW_LIMIT = 12.0
# Centres of the bands in micrometres.
CENTRES = (0.443, 0.492, 0.56, 0.665, 0.704, 0.74, 0.783, 0.833, 0.865, 0.945, 1.61, 2.19)


@dataclass(frozen=True)
class Cache:
    """The results of the runs."""

    folder: Path

    def load(self, stage: str, name: str) -> dict[str, Array]:
        """One result."""
        with np.load(self.folder / stage / f"{name}.npz") as file:
            return dict(file)

    def spectrum(self, stage: str, state: State, field: str) -> Array:
        """One printed spectrum: (step,)."""
        return self.load(stage, state.key)["steps"][:, nodes.FIELDS.index(field)] * 1e-4

    def grid(self, stage: str, states: Callable[..., State], field: str, *axes: tuple[float, ...]) -> Array:
        """Spectra over the product of axes: (*axes, step)."""
        flat = [self.spectrum(stage, states(*point), field) for point in _product(axes)]
        return np.array(flat).reshape([len(a) for a in axes] + [-1])


def _product(axes: tuple[tuple[float, ...], ...]) -> list[tuple[float, ...]]:
    return [tuple(p) for p in np.array(np.meshgrid(*axes, indexing="ij")).reshape(len(axes), -1).T.tolist()]


def responses(wavelength: Array, sun: Array) -> Array:
    """Response times solar irradiance, placed as 6S places it: (sensor, band, step), summing to one."""
    weights = np.zeros((len(nodes.SENSORS), len(nodes.BANDS), len(wavelength)))
    first = round((wavelength[0] - 0.25) / 0.0025)
    for s, sensor in enumerate(nodes.SENSORS):
        for b, band in enumerate(nodes.BANDS):
            start, _, values = nodes.response(sensor, band)
            at = int((start - 0.25) / 0.0025 + 0.5) - first
            ends = np.ones(len(values))
            ends[[0, -1]] = 0.5  # 6S integrates by the trapezoidal rule
            weights[s, b, at : at + len(values)] = values * ends
    weights *= sun
    return weights / weights.sum(axis=-1, keepdims=True)


def average(spectra: Array, weights: Array) -> Array:
    """Band means: (sensor, band, ...)."""
    flat = spectra.reshape(-1, spectra.shape[-1])
    means = weights @ flat.T / weights.sum(axis=-1, keepdims=True)
    return means.reshape(*weights.shape[:2], *spectra.shape[:-1])


@dataclass(frozen=True)
class Weights:
    """What each term is averaged with: (sensor, band, step)."""

    gas: Array  # gas transmittances
    molecules: Array  # light that the molecules scatter: it misses the water vapour
    aerosol: Array  # light that the aerosol scatters: half the water vapour is above it
    surface: Array  # light that has met the surface


def reference_weights(cache: Cache) -> Weights:
    """The weights of the averages, from the common state."""
    first = cache.load("molecules", State(0).key)
    base = responses(first["wavelength"], first["sun"])
    sun = REFERENCE_GAS["sun"]

    def gas(water: float, ozone: float) -> Array:
        return cache.spectrum("gases", State(sun, water=water, ozone=ozone), "gas")

    fixed = gas(0.0, 0.0)
    ozone = gas(0.0, REFERENCE_GAS["ozone"]) / np.maximum(fixed, 1e-4)
    clear = cache.spectrum("aerosol", State(42, aod=REFERENCE_AOD), "down") ** 2
    surface = base * ozone * gas(REFERENCE_GAS["water"], 0.0)
    return Weights(
        gas=base * clear,
        molecules=base * ozone * fixed,
        aerosol=base * ozone * gas(0.8, 0.0),
        surface=surface * cache.spectrum("aerosol", State(0, aod=REFERENCE_AOD), "down"),
    )


def view_terms(view: Array, azimuth: Array) -> Array:
    """Polynomials over the disc of view directions, even across the principal plane: (..., term)."""
    size = np.sin(np.radians(view)) / np.sin(np.radians(VIEW_LIMIT))
    x, y2 = size * np.cos(np.radians(azimuth)), (size * np.sin(np.radians(azimuth))) ** 2
    return np.stack([np.ones_like(x), x, x * x, y2, x**3, x * y2], axis=-1)


# What few views can tell apart, as combinations of the six terms: with r^2 = x^2 + y^2 they are
# 1 | 1, x, r^2 | 1, x, x^2, y^2 | all six.
VIEW_COMBINATIONS = {
    1: np.eye(6)[:1],
    3: np.array([[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0]]),
    4: np.eye(6)[:4],
    8: np.eye(6),
}


def fit_view(values: Array, views: Views) -> Array:
    """Coefficients of the view polynomials: (..., view) to (..., 6)."""
    view, azimuth = np.array(views, dtype=float).T
    combinations = VIEW_COMBINATIONS[len(views)]
    return values @ np.linalg.pinv(view_terms(view, azimuth) @ combinations.T).T @ combinations


def pressure_ratio(altitude: Array) -> Array:
    """Pressure over pressure at sea level, US Standard Atmosphere 1976 below 11 km."""
    return (1 - 0.0065 * 1000 * np.asarray(altitude) / 288.15) ** 5.25588


def optical_properties(
    cache: Cache,
    model: str = "continental",
    at: tuple[float, ...] = nodes.PHASE_ANGLES,
    bands: tuple[str, ...] = nodes.BANDS,
) -> dict[str, Array]:
    """Per band: optical depths, single scattering albedo and phase function of the aerosol."""
    angles = np.array(at)
    runs = [
        [cache.load("phase", f"S2A_{band}_{State(180.0 - a, aod=0.3, model=model).key}") for a in angles]
        for band in bands
    ]
    depth = np.array([row[0]["optical depth total"] for row in runs])
    order = np.argsort(angles)
    phase = np.array([[run["phase function I"][1] for run in row] for row in runs])
    return {
        "molecular_depth": depth[:, 0],
        "molecular_depth_550": cache.load("phase", "550nm")["optical depth total"][0],
        "aerosol_depth": depth[:, 1] / 0.3,
        "aerosol_albedo": np.array([row[0]["sing. scat. albedo"][1] for row in runs]),
        "phase_angle": angles[order],
        "phase": phase[:, order],
    }


def single_scattering(optics: dict[str, Array], state: State) -> Array:
    """Light scattered once, by the aerosol: (band,). What is left after it is smooth in the angles."""
    sun, view = np.cos(np.radians([state.sun, state.view]))
    sines = np.sin(np.radians(state.sun)) * np.sin(np.radians(state.view))
    angle = 180 - np.degrees(
        np.arccos(np.clip(sun * view + sines * np.cos(np.radians(state.azimuth)), -1, 1))
    )
    phase = CubicSpline(optics["phase_angle"], optics["phase"], axis=1)(angle)
    airmass = 1 / sun + 1 / view
    above = ABOVE_AEROSOL * optics["molecular_depth"] * pressure_ratio(np.array(state.altitude))
    lost = 1 - np.exp(-airmass * optics["aerosol_depth"] * state.aod)
    return optics["aerosol_albedo"] * phase / (4 * (sun + view)) * lost * np.exp(-airmass * above)


def backscatter(cache: Cache, optics: dict[str, Array], weights: Weights) -> dict[str, Array]:
    """The phase function with its last two angles, 178.5 and 180 degrees, as the scattering code has it.

    What 6S prints beyond its last quadrature angle is extrapolated: up to 5 % above what it computes with.
    Beyond single scattering the path is flat around the backscatter direction: what is missing there is the
    error of the printed phase function.
    """

    def beyond(view: float) -> tuple[Array, Array]:
        hazy, clear = State(0, view, aod=nodes.BACKSCATTER_AOD), State(0, view)
        path = cache.spectrum("aerosol", hazy, "path") - cache.spectrum("molecules", clear, "path")
        once = single_scattering(optics, hazy)
        return average(path, weights.aerosol)[0] - once, once

    exact, beside, away = (beyond(view) for view in nodes.BACKSCATTER_VIEWS)
    phase = optics["phase"].copy()
    for column, (rest, once) in ((-1, exact), (-2, beside)):
        phase[:, column] *= 1 + (rest - away[0]) / once
    return optics | {"phase": phase}


def aerosol_path(cache: Cache, optics: dict[str, Array], weights: Weights) -> Array:
    """What the aerosol adds to the path beyond single scattering: (sensor, band, aod, altitude, sun, 6)."""

    def added(aod: float, sun: float, view: float, azimuth: float, altitude: float) -> Array:
        hazy, clear = State(sun, view, azimuth, aod, altitude), State(sun, view, azimuth, altitude=altitude)
        path = cache.spectrum("aerosol", hazy, "path") - cache.spectrum("molecules", clear, "path")
        return average(path, weights.aerosol) - single_scattering(optics, hazy)

    def over(views: Views, aods: tuple[float, ...], suns: tuple[float, ...], altitude: float) -> Array:
        values = [[[added(a, s, *v, altitude) for v in views] for s in suns] for a in aods]
        return np.moveaxis(np.array(values), (-2, -1), (0, 1))  # (sensor, band, aod, sun, view)

    def change(altitude: float) -> Array:
        few = nodes.HIGH_VIEWS[altitude], nodes.HIGH_AODS, nodes.HIGH_SUN_ZENITHS
        return fill_in(fit_view(over(*few, altitude) - over(*few, 0.0), few[0]))

    ground = fit_view(over(nodes.AEROSOL_VIEWS, nodes.AODS, nodes.SUN_ZENITHS, 0.0), nodes.AEROSOL_VIEWS)
    ground = np.concatenate(
        [np.zeros_like(ground[:, :, :1]), ground], axis=2
    )  # none where there is no aerosol
    top, middle = change(3.0), change(1.5)
    # In the middle only nadir was run: its dependence on the view is a share of that at the top.
    low, half, high = pressure_ratio(np.array([0.0, 1.5, 3.0]))
    middle[..., 1:] = top[..., 1:] * (low - half) / (low - high)
    return np.stack([ground, ground + middle, ground + top], axis=3)


def fill_in(change: Array) -> Array:
    """From the nodes run at altitude to all nodes: (sensor, band, aod, sun, ...); no change at aod 0."""
    whole = np.concatenate([np.zeros_like(change[:, :, :1]), change], axis=2)
    aods, suns = np.array([0.0, *nodes.HIGH_AODS]), np.radians(nodes.HIGH_SUN_ZENITHS)
    at_aods = CubicSpline(np.log(0.3 + aods), whole, axis=2)(np.log(0.3 + np.array([0.0, *nodes.AODS])))
    return CubicSpline(1 - np.cos(suns), at_aods, axis=3)(1 - np.cos(np.radians(nodes.SUN_ZENITHS)))


def molecular_path(cache: Cache, weights: Weights) -> Array:
    """Path reflectance of the molecules: (sensor, band, altitude, sun, 6)."""

    def at(altitude: float, sun: float, view: float, azimuth: float) -> Array:
        spectrum = cache.spectrum("molecules", State(sun, view, azimuth, altitude=altitude), "path")
        return average(spectrum, weights.molecules)

    values = [[[at(h, s, *v) for v in nodes.VIEWS] for s in nodes.SUN_ZENITHS] for h in nodes.ALTITUDES]
    return fit_view(np.moveaxis(np.array(values), (-2, -1), (0, 1)), nodes.VIEWS)


def transmittance(cache: Cache, weights: Weights) -> tuple[Array, Array]:
    """Transmittance (sensor, band, aod, altitude, sun) and spherical albedo (sensor, band, aod, altitude).

    The band transmittances are scaled such that the product of downward and (nadir) upward ones is the band
    mean of the product.
    """

    def scattering(field: str, sun: float, aod: float, altitude: float) -> Array:
        return cache.spectrum(
            "aerosol" if aod else "molecules", State(sun, aod=aod, altitude=altitude), field
        )

    def down(aod: float, altitude: float, sun: float) -> Array:
        nadir = scattering("down", 0, aod, altitude)
        spectrum = scattering("down", sun, aod, altitude)
        return average(spectrum * nadir, weights.surface) / np.sqrt(average(nadir * nadir, weights.surface))

    def albedo(aod: float, altitude: float) -> Array:
        nadir = scattering("down", 0, aod, altitude) ** 2
        spectrum = scattering("albedo", 0, aod, altitude)
        return average(spectrum * nadir, weights.surface) / average(nadir, weights.surface)

    def by_sun(aods: tuple[float, ...], suns: tuple[float, ...], altitude: float) -> Array:
        values = np.array([[down(a, altitude, s) for s in suns] for a in aods])
        return np.moveaxis(values, (-2, -1), (0, 1))

    def albedos(aods: tuple[float, ...], altitude: float) -> Array:
        return np.moveaxis(np.array([albedo(a, altitude) for a in aods]), (-2, -1), (0, 1))

    clear, hazy, suns = (0.0,), nodes.HIGH_AODS, nodes.HIGH_SUN_ZENITHS
    t = [by_sun((0.0, *nodes.AODS), nodes.SUN_ZENITHS, 0.0)]
    s = [albedos((0.0, *nodes.AODS), 0.0)]
    for altitude in nodes.ALTITUDES[1:]:
        # Less molecules: the clear sky exactly, and what the aerosol changes of that from few nodes.
        gain = np.log(by_sun(clear, nodes.SUN_ZENITHS, altitude) / by_sun(clear, nodes.SUN_ZENITHS, 0.0))
        base = np.log(by_sun(clear, suns, altitude) / by_sun(clear, suns, 0.0))
        change = np.log(by_sun(hazy, suns, altitude) / by_sun(hazy, suns, 0.0)) - base
        t.append(t[0] * np.exp(gain + fill_in(change)))
        less = albedos(clear, altitude) - albedos(clear, 0.0)
        change = albedos(hazy, altitude) - albedos(hazy, 0.0) - less
        s.append(s[0] + less + fill_in(np.repeat(change[..., None], len(suns), axis=-1))[..., 0])
    return np.stack(t, axis=3), np.stack(s, axis=3)


def gases(cache: Cache, weights: Weights) -> dict[str, Array]:
    """Absorption as -ln of the transmittance: water with the fixed gases, and ozone (linear and square)."""
    suns = tuple(float(s) for s in nodes.GAS_SUN_ZENITHS)
    water = cache.grid(
        "gases", lambda h, u, s: State(s, altitude=h, water=u), "gas", nodes.GAS_ALTITUDES, nodes.WATER, suns
    )
    depth = -np.log(average(water, weights.gas))
    airmass = 1 / np.cos(np.radians(suns)) + 1 / np.cos(np.radians(nodes.GAS_VIEW_ZENITH))
    ozone = cache.grid("gases", lambda o, s: State(s, water=0.0, ozone=o), "gas", nodes.OZONE, suns)
    excess = -np.log(average(ozone, weights.gas)) - depth[:, :, :1, 0]
    slant = np.array(nodes.OZONE)[:, None] * airmass
    design = np.stack([slant.ravel(), slant.ravel() ** 2], axis=-1)
    coefficients = excess.reshape(*excess.shape[:2], -1) @ np.linalg.pinv(design).T
    return {
        "gas_airmass": airmass,
        "gas_water": np.array(nodes.WATER),
        "gas_altitude": np.array(nodes.GAS_ALTITUDES),
        "gas_depth": depth,
        "ozone_depth": coefficients,
        "ozone_above": ozone_above(cache, weights, depth),
    }


def ozone_above(cache: Cache, weights: Weights, depth: Array) -> Array:
    """The share of the ozone above each altitude, from the band that ozone absorbs in most."""
    sun, band = nodes.GAS_SUN_ZENITHS[3], nodes.BANDS.index("B3")

    def absorbed(altitude: float) -> float:
        state = State(sun, altitude=altitude, water=0.0, ozone=nodes.OZONE[1])
        both = average(cache.spectrum("gases", state, "gas"), weights.gas)[0, band]
        return float(-np.log(both) - depth[0, band, nodes.GAS_ALTITUDES.index(altitude), 0, 3])

    return np.array([absorbed(altitude) for altitude in nodes.GAS_ALTITUDES]) / absorbed(0.0)


def compile_table(folder: Path) -> dict[str, Array]:
    """Everything that the package needs at run time."""
    cache = Cache(folder)
    weights = reference_weights(cache)
    optics = backscatter(cache, optical_properties(cache), weights)
    down, albedo = transmittance(cache, weights)
    axes = {"sun_zenith": nodes.SUN_ZENITHS, "aod": (0.0, *nodes.AODS), "altitude": nodes.ALTITUDES}
    table = {
        **optics,
        **gases(cache, weights),
        **{name: np.array(values, dtype=float) for name, values in axes.items()},
        "molecular_path": molecular_path(cache, weights),
        "aerosol_path": aerosol_path(cache, optics, weights),
        "transmittance": down,
        "albedo": albedo,
    }
    packed = {name: np.asarray(values, dtype=np.float32) for name, values in table.items()}
    labels = {
        "bands": nodes.BANDS,
        "sensors": nodes.SENSORS,
        "aerosol_model": "6S continental",
        "code": "6SV 1.1",
    }
    return packed | {name: np.array(value) for name, value in labels.items()}


def compile_models(folder: Path, continental: dict[str, Array]) -> dict[str, Array]:
    """Differences of the other aerosol models from the table of the continental one, at sea level."""
    cache, models = Cache(folder), tuple(nodes.AEROSOL_MODELS)[1:]
    weights = reference_weights(cache)
    each = [model_difference(cache, weights, continental, model) for model in models]
    packed = {name: np.stack([one[name] for one in each]).astype(np.float32) for name in each[0]}
    axes = {"sun_zenith": nodes.MODEL_SUN_ZENITHS, "aod": (0.0, *nodes.MODEL_AODS)}
    packed |= {name: np.array(values, np.float32) for name, values in axes.items()}
    return packed | {"phase_angle": np.sort(nodes.MODEL_PHASE_ANGLES), "models": np.array(models)}


def model_optics(cache: Cache, model: str, continental: dict[str, Array]) -> dict[str, Array]:
    """Optical properties of another model: between the bands that were run, lines over ln wavelength."""
    few = optical_properties(cache, model, nodes.MODEL_PHASE_ANGLES, nodes.MODEL_BANDS)
    centres = dict(zip(nodes.BANDS, np.log(CENTRES), strict=True))
    run = [centres[band] for band in nodes.MODEL_BANDS]

    def everywhere(values: Array) -> Array:
        columns = values.reshape(len(run), -1).T
        between = [np.interp(np.log(CENTRES), run, column) for column in columns]
        return np.array(between).T.reshape(len(CENTRES), *values.shape[1:])

    names = ("aerosol_depth", "aerosol_albedo", "phase")
    found = {name: np.exp(everywhere(np.log(few[name]))) for name in names}
    return found | {"phase_angle": few["phase_angle"], "molecular_depth": continental["molecular_depth"]}


def model_difference(
    cache: Cache, weights: Weights, continental: dict[str, Array], model: str
) -> dict[str, Array]:
    """Optics of a model, and what it changes of path, ln of transmittance and albedo in the table.

    The path is that beyond single scattering, seen from above. The continental values are those of the table,
    whose nodes include these; without aerosol there is no difference.
    """
    optics = model_optics(cache, model, continental)
    aods, suns = nodes.MODEL_AODS, nodes.MODEL_SUN_ZENITHS

    def added(aod: float, sun: float) -> Array:
        hazy = State(sun, aod=aod, model=model)
        path = cache.spectrum("models", hazy, "path") - cache.spectrum("molecules", State(sun), "path")
        return average(path, weights.aerosol) - single_scattering(optics, hazy)

    def down(aod: float, sun: float) -> Array:
        nadir, spectrum = (cache.spectrum("models", State(s, aod=aod, model=model), "down") for s in (0, sun))
        return average(spectrum * nadir, weights.surface) / np.sqrt(average(nadir * nadir, weights.surface))

    def albedo(aod: float) -> Array:
        state = State(0, aod=aod, model=model)
        nadir = cache.spectrum("models", state, "down") ** 2
        seen = average(cache.spectrum("models", state, "albedo") * nadir, weights.surface)
        return seen / average(nadir, weights.surface)

    depths = [int(np.abs(continental["aod"] - a).argmin()) for a in aods]
    angles = [int(np.abs(continental["sun_zenith"] - s).argmin()) for s in suns]
    at = np.ix_(range(len(nodes.SENSORS)), range(len(nodes.BANDS)), depths, [0], angles)
    path = continental["aerosol_path"][..., 0]  # the first term: the view from above
    there = {"aerosol_path": path[at], "transmittance": np.log(continental["transmittance"][at])}
    here = {
        "aerosol_path": _leading([[added(a, s) for s in suns] for a in aods]),
        "transmittance": np.log(_leading([[down(a, s) for s in suns] for a in aods])),
    }
    differences = {name: here[name] - there[name][:, :, :, 0] for name in here}
    differences["albedo"] = _leading([albedo(a) for a in aods]) - continental["albedo"][:, :, depths, 0]
    clear = {name: np.concatenate([0 * d[:, :, :1], d], axis=2) for name, d in differences.items()}
    return clear | {name: optics[name] for name in ("aerosol_depth", "aerosol_albedo", "phase")}


def _leading(values: Any) -> Array:
    """With sensor and band, the last two axes, in front."""
    return np.moveaxis(np.array(values), (-2, -1), (0, 1))


def compile_checks(folder: Path) -> dict[str, Array]:
    """The direct runs at random states, which the table is compared with; NaN where a band was not run."""
    return _checks(Cache(folder), nodes.check_states())


def compile_model_checks(folder: Path) -> dict[str, Array]:
    """The same for the other aerosol models, one after the other."""
    models = tuple(nodes.AEROSOL_MODELS)[1:]
    states = [each for model in models for each in nodes.check_states(21, model, nodes.N_MODEL_CHECKS)]
    return _checks(Cache(folder), states) | {"model": np.array([state.model for _, state in states])}


def _checks(cache: Cache, states: list[tuple[str, State]]) -> dict[str, Array]:
    fields = ("sun", "view", "azimuth", "aod", "altitude", "water", "ozone", "reflectance")

    def apparent(sensor: str, band: str, state: State) -> float:
        name = f"{sensor}_{band}_{state.key}"
        done = (cache.folder / "checks" / f"{name}.npz").exists()
        return float(cache.load("checks", name)["apparent"]) if done else np.nan

    return {
        **{f: np.array([getattr(state, f) for _, state in states]) for f in fields},
        "sensor": np.array([sensor for sensor, _ in states]),
        "bands": np.array(nodes.BANDS),
        "apparent": np.array([[apparent(sensor, b, state) for b in nodes.BANDS] for sensor, state in states]),
    }
