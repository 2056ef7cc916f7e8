"""Sentinel-2 over Gobabeb: reflectance at the top of the atmosphere against what the site states.

Match-ups and the spectrum of the surface are of comet-toolkit/comet_training (../shared/data/radcalnet).
"""

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from benchmarks.registry import Table, benchmark
from uncover.atmosphere import Geometry, LookupTable, State
from uncover.atmosphere.lookup_table import pressure_ratio
from uncover.measurement.radiometry import RANDOM, SHARED, Radiometry

DATA = Path(__file__).parents[2] / "shared" / "data" / "radcalnet"
MATCH_UPS = "cs_ds_all_matchups_S2_rcn_GONA_geomcorrectedRPV.nc"
SURFACE = "HYPERNETS_L_GHNA_L2A_REF_20231103T0901_20240124T2246_v2.0.nc"
#: Bands in the three groups of the match-ups, and the width in nm over which the smooth surface is averaged.
GROUPS = {"10m": "B02 B03 B04 B08", "20m": "B05 B06 B07 B8A B11 B12", "60m": "B01 B09 B10"}
WIDTHS = {"B01": 20, "B02": 65, "B03": 35, "B04": 30, "B05": 15, "B06": 15, "B07": 20, "B08": 105, "B8A": 20,
          "B09": 20, "B11": 90}  # fmt: skip
BANDS = tuple(WIDTHS)
#: Sentinel-2A and 2B differ in the centre of B02, in nm.
CENTRE_OF_2A = 492.3
#: Standard uncertainty of the site's optical depth, of its water vapour and ozone as shares.
AOD, WATER, OZONE = 0.01, 0.10, 0.03


def _open(name):
    import warnings

    import xarray

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a dimension that is there twice, times without a calendar
        return xarray.open_dataset(DATA / name, engine="h5netcdf", decode_times=False).load()


def match_ups():
    """Arrays (match-up, band) and states (match-up,) by name, without impossible angles; number of all."""
    data, found = _open(MATCH_UPS), {}
    for kind in ("reflectance_sensor1", "corrected_reflectance_sensor1", "reflectance_sensor2",
                 "reflectance_unc_sensor2", "band_central_wavelength_sensor1"):  # fmt: skip
        columns = {}
        for group, bands in GROUPS.items():
            values = data[f"{kind}_{group}_insitu"].values.reshape(len(data.samples), -1)
            columns |= dict(zip(bands.split(), values.T, strict=True))
        found[kind] = np.stack([columns[band] for band in BANDS], axis=1)
    state = {name: data[f"{name}_sensor2"].values for name in ("aod_550nm", "pressure", "ozone", "h2o")}
    for side in ("solar", "viewing"):
        for angle in ("zenith", "azimuth"):
            state[f"{side}_{angle}"] = data[f"{side}_{angle}_angle_sensor1_10m_insitu"].values
    state["days"] = data.matchup_date_30m_insitu.values
    kept = state["viewing_zenith"] < 90
    return {name: each[kept] for name, each in (found | state).items()}, len(kept)


def surface(wavelengths):
    """Reflectance of the site on one day, averaged over bands, and its standard uncertainty as a share of it.

    Views at 20 and 30 degrees: nearer to nadir the instrument sees the foot of its mast. What they differ by
    counts as uncertainty, since the satellite looks from another direction.
    """
    data = _open(SURFACE)
    oblique = np.abs(data.viewing_zenith_angle.values - 25) < 7
    spectra, at = data.reflectance.values[:, oblique], data.wavelength.values
    systematic = data.u_rel_systematic_reflectance.values[:, oblique].mean(1) / 100
    found = []
    for band, centre in zip(BANDS, wavelengths, strict=True):
        inside = np.abs(at - centre) <= WIDTHS[band] / 2
        views = spectra[inside].mean(0)
        found.append((views.mean(), np.hypot(systematic[inside].mean(), views.std() / views.mean())))
    return np.array(found).T


def radiometric(m, i, satellite):
    """Standard uncertainty of the satellite's reflectance in a match-up: all components but geolocation."""
    day = datetime(2018, 1, 15) + timedelta(days=int(m["days"][i]))
    known = Radiometry.of(satellite, BANDS, m["solar_zenith"][i], day)
    parts = known.components(m["reflectance_sensor1"][i][:, None])
    return np.sqrt(sum(parts[name] ** 2 for name in (*RANDOM, *SHARED)))[:, 0]


def simulated(m, i, table, rho, u_rho):
    """Reflectance at the top of the atmosphere by the embedded table, and its standard uncertainty."""
    # The altitude follows from the pressure. The columns of the site are those above it, the table's go down
    # to sea level: water vapour has a scale height of 2 km.
    heights = np.linspace(0, 1, 1001)
    height = float(np.interp(-m["pressure"][i] / 1013.25, -pressure_ratio(heights), heights))
    relative = m["viewing_azimuth"][i] - m["solar_azimuth"][i]
    geometry = Geometry(m["solar_zenith"][i], m["viewing_zenith"][i], relative, height)
    water = m["h2o"][i] * np.exp(height / 2)
    aod, ozone = m["aod_550nm"][i], m["ozone"][i]

    def toa(surface, tau=aod, w=water, o3=ozone):
        return table.simulate(surface, State(tau, w, o3), geometry)

    value = toa(rho)
    moved = (toa(rho * (1 + u_rho)), toa(rho, tau=aod + AOD), toa(rho, w=water * (1 + WATER)),
             toa(rho, o3=ozone * (1 + OZONE)))  # fmt: skip
    return value, np.sqrt(sum((each - value) ** 2 for each in moved))


def compared(x, u, reference, u_reference):
    """Of each band: median relative difference, its spread, sd of normalised deviations, share within 2."""
    ratio, z = x / reference - 1, (x - reference) / np.hypot(u, u_reference)
    spread = 1.4826 * np.median(np.abs(ratio - np.median(ratio, axis=0)), axis=0)
    return (
        np.median(ratio, axis=0),
        spread,
        z.mean(axis=0),
        z.std(axis=0, ddof=1),
        (np.abs(z) <= 2).mean(axis=0),
    )


@benchmark("match-ups")
def run(quick=False):
    """Bias and normalised deviations of each band, against RadCalNet and against the embedded table."""
    m, all_of_them = match_ups()
    n = len(m["days"])
    centres = m["band_central_wavelength_sensor1"]
    satellites = np.where(centres[:, BANDS.index("B02")] > CENTRE_OF_2A, "S2A", "S2B")
    u = np.array([radiometric(m, i, satellites[i]) for i in range(n)])
    to_nadir = m["corrected_reflectance_sensor1"] / m["reflectance_sensor1"]
    site = compared(m["corrected_reflectance_sensor1"], u * to_nadir, m["reflectance_sensor2"],
                    m["reflectance_unc_sensor2"])  # fmt: skip
    tables = {name: LookupTable(name, BANDS) for name in ("S2A", "S2B")}
    spectra = {name: surface(centres[satellites == name][0]) for name in tables}
    by_table = [simulated(m, i, tables[satellites[i]], *spectra[satellites[i]]) for i in range(n)]
    ours = compared(m["reflectance_sensor1"], u, *np.moveaxis(np.array(by_table), 1, 0))
    columns = {
        "band": "",
        "bias %": ".1f",
        "spread %": ".1f",
        "mean z": ".2f",
        "sd z": ".2f",
        "within 2, %": ".0f",
    }
    columns |= {"u satellite %": ".1f", "u reference %": ".1f"}
    tables_found = []
    u_reference = (
        m["reflectance_unc_sensor2"] / m["reflectance_sensor2"],
        np.array([s / x for x, s in by_table]),
    )
    for name, caption, found, other in (
        (
            "radcalnet",
            "Satellite, taken to nadir, against RadCalNet's top-of-atmosphere reflectance",
            site,
            0,
        ),
        ("embedded-table", "Satellite against the surface of one day by the embedded table", ours, 1),
    ):
        bias, spread, mean, sd, inside = found
        numbers = np.stack([100 * bias, 100 * spread, mean, sd, 100 * inside,
                            100 * np.median(u / m["reflectance_sensor1"], axis=0),
                            100 * np.median(u_reference[other], axis=0)], axis=1)  # fmt: skip
        rows = [[band, *map(float, row)] for band, row in zip(BANDS, numbers, strict=True)]
        tables_found.append(Table(name, f"{caption}: {n} of {all_of_them} match-ups", columns, rows))
    return tables_found
