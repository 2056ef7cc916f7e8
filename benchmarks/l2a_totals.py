"""Uncertainty of surface reflectance by the effects of a scene, beside two sites of S2-L2A-RUT."""

from datetime import datetime
from pathlib import Path

import numpy as np

from benchmarks.registry import Table, benchmark
from uncover.atmosphere import Geometry, LookupTable, State, recorrect
from uncover.atmosphere.lookup_table import AEROSOL_MODELS
from uncover.measurement import aerosol_optical_depth
from uncover.measurement.quantity import (
    DIMENSIONS,
    Choice,
    Quantity,
    draw_together,
    water_vapour_uncertainty,
)
from uncover.measurement.radiometry import SATELLITE_FACTORS, SCENE_FACTORS, Radiometry

DATA = Path(__file__).parents[2] / "shared" / "data" / "l2a_uncertainty"
#: Day, and sun zenith at the time and place of the products of S2-L2A-RUT; optical depth, water vapour (cm)
#: and ozone (DU) are not published with them: these are typical of place and season.
SITES = {
    "amazon": (datetime(2022, 11, 7, 14, 47), 22.0, 0.15, 4.5, 265.0),
    "libya4": (datetime(2022, 6, 21, 8, 56), 19.5, 0.15, 2.0, 300.0),
}
VIEW, AZIMUTH = 5.0, 120.0
EFFECTS = ("aod", "water-vapour", "ozone", "altitude", "radiometry", "aerosol-model")
TOTALS = ("all", "one aerosol model", "that, 3 % and code")
PAIRS = (("B2", "B4"), ("B2", "B8A"), ("B4", "B8A"), ("B8A", "B11"), ("B11", "B12"))
#: Centres of the bands in nm, and the range of results of radiative transfer codes in per cent (S2-L2A-RUT).
CENTRES = {"B1": 443, "B2": 492, "B3": 559, "B4": 665, "B5": 704, "B6": 739, "B7": 780, "B8": 833, "B8A": 864,
           "B9": 943, "B11": 1610, "B12": 2186}  # fmt: skip
CODE = {"B1": 1.7, "B2": 1.8, "B3": 1.9, "B4": 1.3, "B5": 1.3, "B6": 1.3, "B7": 1.3, "B8": 1.2, "B8A": 0.8,
        "B9": 2.0, "B11": 2.9, "B12": 2.0}  # fmt: skip


def draws_of(site, n, seed=0):
    """Draws of all quantities of a site."""
    _, _, depth, water, ozone = SITES[site]
    quantities = [
        aerosol_optical_depth(depth, retrieval="SEN2COR_DDV", highest=2.0),
        Quantity("water_vapour", water, float(water_vapour_uncertainty(water)), highest=8.0),
        Quantity("ozone", ozone, 0.03 * ozone, highest=600.0),
        Quantity("height", 0.0, 0.08, lowest=-np.inf),
    ]
    quantities += [Quantity(name, 0.0, 1.0, lowest=-np.inf) for name in (*SCENE_FACTORS, *SATELLITE_FACTORS)]
    quantities += [Choice.of("aerosol_model", {name: i for i, name in enumerate(AEROSOL_MODELS)})]
    assert {each.name for each in quantities} == set(DIMENSIONS)
    return {name: d.values for name, d in draw_together(quantities, n, scene=site, seed=seed).items()}


def worlds(site, bands, surface, effects=EFFECTS, n=1024):
    """Surface reflectance in all worlds, (world, band), with some effects."""
    day, zenith, depth, water, ozone = SITES[site]
    drawn, table = draws_of(site, n), LookupTable("S2B", bands)
    geometry, product = Geometry(zenith, VIEW, AZIMUTH), State(depth, water, ozone)
    radiometry = Radiometry.of("S2B", bands, zenith, day)
    toa, dark = table.simulate(surface, product, geometry), radiometry.draw_dark_signal(n, site, 0)
    on = {name: name in effects for name in EFFECTS}
    state = State(
        drawn["aod"] if on["aod"] else np.full(n, depth),
        drawn["water_vapour"] if on["water-vapour"] else water,
        drawn["ozone"] if on["ozone"] else ozone,
        height=drawn["height"] if on["altitude"] else 0.0,
        aerosol=drawn["aerosol_model"] if on["aerosol-model"] else 0,
        signal=radiometry.signal(drawn, dark, toa) if on["radiometry"] else None,
    )
    return recorrect(table, surface, product, state, geometry)


def with_their_model_errors(bands, covariance, surface):
    """Covariance with what S2-L2A-RUT adds: 3 % for a surface that is not Lambertian, and the code's error.

    Both with its correlation between bands, exp(−400 |w|² (wᵢ − wⱼ)²/(Σw)⁴) of the centres w. Its error of
    the adjacency correction needs parts of the transmittance that the table does not have apart.
    """
    w = np.array([CENTRES[band] for band in bands], float)
    kernel = np.exp(-400 * (w @ w) / w.sum() ** 4 * np.subtract.outer(w, w) ** 2)
    u = np.array([np.hypot(3.0, CODE[band] / 2) for band in bands]) / 100 * surface
    return covariance + kernel * np.outer(u, u)


def tables_of(site, n):
    """Standard uncertainties, and correlations, beside the published ones."""
    rows = np.genfromtxt(
        DATA / f"unc_L2A_{site}_digitised.csv", delimiter=",", names=True, dtype=None, encoding="utf-8"
    )
    bands, surface, published = list(rows["band"]), rows["mean_rho"], rows["u_k1_approx"]
    each = [worlds(site, bands, surface, (effect,), n).std(0) for effect in EFFECTS]
    covariance, known = (
        np.cov(worlds(site, bands, surface, effects, n).T) for effects in (EFFECTS, EFFECTS[:-1])
    )
    found = covariance, known, with_their_model_errors(bands, known, surface)
    spreads = [*each, *(np.sqrt(np.diagonal(matrix)) for matrix in found), published]
    numbers = np.column_stack([surface, *(100 * spread / surface for spread in spreads)])
    columns = {"band": "", "reflectance": ".3f"}
    columns |= dict.fromkeys((*EFFECTS, *TOTALS, "S2-L2A-RUT"), ".2f")
    caption = f"{site}: standard uncertainty of surface reflectance in per cent, {n} worlds"
    table = [[band, *map(float, row)] for band, row in zip(bands, numbers, strict=True)]
    stated = np.genfromtxt(DATA / f"corr_L2A_{site}.csv", delimiter=",", skip_header=1)[:, 1:]
    ours = [matrix / np.sqrt(np.outer(*2 * [np.diagonal(matrix)])) for matrix in found]
    chosen = [
        [f"{a}, {b}", *(float(each[bands.index(a), bands.index(b)]) for each in (*ours, stated))]
        for a, b in PAIRS
    ]
    apart = np.triu_indices(len(bands), 1)
    rms = [float(np.sqrt(np.mean((each - stated)[apart] ** 2))) for each in ours]
    chosen.append(["difference, rms over all pairs", *rms, 0.0])
    columns_of_pairs = {"bands": ""} | dict.fromkeys((*TOTALS, "S2-L2A-RUT"), ".2f")
    pairs = Table(f"{site}-correlation", f"{site}: correlation between bands", columns_of_pairs, chosen)
    return [Table(site, caption, columns, table), pairs]


@benchmark("l2a-totals")
def run(quick=False):
    """Standard uncertainty by effect and in all, and correlation between bands, beside the published ones."""
    return [table for site in SITES for table in tables_of(site, 256 if quick else 4096)]
