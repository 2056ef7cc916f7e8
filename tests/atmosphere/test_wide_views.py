"""View zeniths beyond the outermost nodes of the table, as real products have them (up to 12.13 degrees)."""

import csv
from pathlib import Path

import numpy as np
import pytest

from uncover.atmosphere import Geometry, LookupTable, State


def test_up_to_12_and_a_half_degrees_the_table_is_as_good_as_it_promises():
    # Runs of 6SV 1.1 with the responses of S2A (SixS.terms of tools/build_lut.py): random states, AOD ≤ 0.5.
    with open(Path(__file__).parent / "sixs_wide_views.csv") as file:
        runs = list(csv.DictReader(file))
    errors = []
    for run in runs:
        sun, view, azimuth, altitude = (
            float(run[k]) for k in ("sun_zenith", "view_zenith", "relative_azimuth", "altitude_km")
        )
        assert 12 < view <= 12.5
        state = State(float(run["aod"]), float(run["water_vapour_cm"]), float(run["ozone_du"]))
        geometry = Geometry(sun, view, azimuth, altitude)
        surface = np.array([float(run["reflectance"])])
        toa = LookupTable("S2A", [run["band"]]).simulate(surface, state, geometry)
        errors.append(toa.item() - float(run["apparent"]))
    assert len(runs) == 80
    assert np.abs(errors).max() < 5e-4  # measured: 4.0e-4, and 2.4e-4 from 11.5 to 12 degrees
    assert np.sqrt(np.mean(np.square(errors))) < 1.5e-4


def test_beyond_it_is_refused():
    with pytest.raises(ValueError, match=r"view zenith angle 12\.6 is outside the look-up table"):
        LookupTable("S2A", ["B2"]).coefficients(State(0.1), Geometry(30, 12.6, 0))
