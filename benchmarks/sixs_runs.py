"""The embedded table against direct runs of 6S at random states: errors and their percentiles."""

from pathlib import Path

import numpy as np

from uncover.atmosphere import BANDS, Geometry, LookupTable, State
from uncover.atmosphere.lookup_table import AEROSOL_MODELS

RUNS = Path(__file__).parents[1] / "tests" / "atmosphere" / "sixs_runs.npz"
MODEL_RUNS = RUNS.with_name("sixs_models.npz")


def read_runs(path=RUNS):
    """The stored runs: one array per field; ``apparent`` is (state, band), NaN where a band was not run."""
    with np.load(path) as file:
        return dict(file)


def model_errors(model):
    """Errors at the top of the atmosphere, what continental aerosol changes, and where AOD ≤ 0.5."""
    runs = read_runs(MODEL_RUNS)
    found = []
    for i in np.flatnonzero(runs["model"] == model):
        table = LookupTable(str(runs["sensor"][i]))
        geometry = Geometry(*(runs[name][i] for name in ("sun", "view", "azimuth", "altitude")))
        kinds = [AEROSOL_MODELS.index(model), 0]
        state = State(runs["aod"][i], runs["water"][i], 1000 * runs["ozone"][i], aerosol=kinds)
        surface = np.full(len(BANDS), runs["reflectance"][i])
        away = table.simulate(surface, state, geometry) - runs["apparent"][i][None]
        known = np.isfinite(away[0])
        clear = runs["aod"][i] <= 0.5 and runs["sun"][i] <= 65
        found.append(np.vstack([away[:, known], np.full(known.sum(), clear)]))
    error, other, clear = np.hstack(found)
    return error, other - error, clear == 1


def model_rows():
    """Rows of a table: model, runs, errors where AOD ≤ 0.5 and elsewhere, difference from continental."""
    rows = []
    for model in AEROSOL_MODELS[1:]:
        error, difference, clear = model_errors(model)
        inside, outside = np.abs(error[clear]), np.abs(error[~clear])
        rms = float(np.sqrt(np.mean(difference[clear] ** 2)))
        rows.append((model, error.size, *np.percentile(inside, (50, 95)), inside.max(), outside.max(), rms))
    return rows


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
