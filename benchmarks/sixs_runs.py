"""The embedded table against direct runs of 6S at random states: errors and their percentiles."""

from pathlib import Path

import numpy as np

from uncover.atmosphere import BANDS, Geometry, LookupTable, State

RUNS = Path(__file__).parents[1] / "tests" / "atmosphere" / "sixs_runs.npz"


def read_runs(path=RUNS):
    """The stored runs: one array per field; ``apparent`` is (state, band), NaN where a band was not run."""
    with np.load(path) as file:
        return dict(file)


def errors(runs):
    """Errors of the table in top-of-atmosphere and in surface reflectance: (state, band) each."""
    tables = {sensor: LookupTable(sensor) for sensor in set(runs["sensor"].tolist())}
    toa, surface = np.empty_like(runs["apparent"]), np.empty_like(runs["apparent"])
    for i, sensor in enumerate(runs["sensor"].tolist()):
        geometry = Geometry(*(runs[name][i] for name in ("sun", "view", "azimuth", "altitude")))
        state = State(runs["aod"][i], runs["water"][i], 1000 * runs["ozone"][i])
        reflectance, direct = runs["reflectance"][i], runs["apparent"][i]
        toa[i] = tables[sensor].simulate(np.full(len(BANDS), reflectance), state, geometry) - direct
        surface[i] = tables[sensor].correct(direct, state, geometry) - reflectance
    return toa, surface


def domains(runs):
    """Where the table promises most, and elsewhere."""
    clear = (runs["aod"] <= 0.5) & (runs["sun"] <= 65) & (runs["reflectance"] <= 0.5)
    return {"AOD ≤ 0.5, sun zenith ≤ 65°": clear, "elsewhere": ~clear}


def percentiles():
    """Rows of a table: domain, quantity, number of runs, 50th, 95th and 99th percentile, largest error."""
    runs = read_runs()
    rows = []
    for domain, inside in domains(runs).items():
        for quantity, error in zip(("TOA", "surface"), errors(runs), strict=True):
            size = np.abs(error[inside])
            size = size[np.isfinite(size)]
            rows.append((domain, quantity, size.size, *np.percentile(size, (50, 95, 99)), size.max()))
    return rows
