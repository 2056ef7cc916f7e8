"""The embedded table: laws of the arithmetic, the comparison with direct runs of 6S, and physics."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks import sixs_runs
from hypothesis import given, settings
from hypothesis import strategies as st

from uncover.atmosphere import BANDS, Geometry, LookupTable, State, recorrect
from uncover.atmosphere import lookup_table as module
from uncover.atmosphere.lookup_table import AEROSOL_MODELS, BandTable, _arrays

SENSORS = ("S2A", "S2B")
TABLES = {sensor: LookupTable(sensor) for sensor in SENSORS}
STATE = State(aod=0.2, water_vapour=1.5, ozone=320)
GEOMETRY = Geometry(40, 6, 110)

states = st.builds(State, st.floats(0, 2), st.floats(0, 8), st.floats(0, 600))
geometries = st.builds(Geometry, st.floats(0, 75), st.floats(0, 12), st.floats(-360, 720), st.floats(0, 3))


@pytest.fixture
def surface(rng):
    return rng.uniform(0.0, 0.6, (7, 5, len(BANDS)))


# ---- laws


@settings(deadline=None)
@given(states, geometries, st.sampled_from(SENSORS), st.floats(0, 0.9))
def test_correction_undoes_simulation(state, geometry, sensor, reflectance):
    surface = np.full(len(BANDS), reflectance)
    toa = TABLES[sensor].simulate(surface, state, geometry)
    assert np.abs(TABLES[sensor].correct(toa, state, geometry) - surface).max() < 1e-6


def test_float32_goes_through_and_comes_back(rng):
    table = TABLES["S2A"]
    surface = rng.uniform(0, 0.6, (500, len(BANDS))).astype(np.float32)
    toa = table.simulate(surface, STATE, GEOMETRY)
    back = table.correct(toa, STATE, GEOMETRY)
    assert toa.dtype == back.dtype == np.float32
    assert np.abs(back - surface).max() < 1e-6
    precise = table.correct(toa.astype(float), STATE, GEOMETRY)
    assert np.abs(back - precise).max() < 1e-6


def test_both_layouts_agree(surface):
    table, state = TABLES["S2A"], State(aod=[0.05, 0.2, 0.5])
    samples = table.correct(surface, state, GEOMETRY)
    planes = table.correct(np.moveaxis(surface, -1, 0).copy(), state, GEOMETRY, band_axis=0)
    assert samples.shape == (7, 5, 3, len(BANDS))
    assert planes.shape == (3, len(BANDS), 7, 5)
    np.testing.assert_allclose(np.moveaxis(planes, (0, 1), (-2, -1)), samples, rtol=1e-12)


def test_realisations_are_the_single_states_side_by_side(surface):
    table = TABLES["S2B"]
    aods, waters = [0.05, 0.2, 0.5], [1.0, 2.0, 3.0]
    together = table.correct(surface, State(aods, waters), GEOMETRY)
    for r, (aod, water) in enumerate(zip(aods, waters, strict=True)):
        alone = table.correct(surface, State(aod, water), GEOMETRY)
        np.testing.assert_allclose(together[..., r, :], alone, rtol=1e-12)


def test_angles_per_pixel_are_the_single_angles_side_by_side(surface, rng):
    table, state = TABLES["S2A"], State(aod=[0.1, 0.4])
    angles = [rng.uniform(0, high, (7, 5)) for high in (70, 12, 180, 3)]
    together = table.correct(surface, state, Geometry(*angles))
    for i, j in np.ndindex(7, 5):
        alone = table.correct(surface[i, j], state, Geometry(*(a[i, j] for a in angles)))
        np.testing.assert_allclose(together[i, j], alone, atol=1e-10)


def test_some_angles_per_pixel_and_some_for_all(surface, rng):
    altitude = rng.uniform(0, 3, (7, 5))
    mixed = TABLES["S2A"].correct(surface, STATE, Geometry(40, 6, 110, altitude))
    full = np.broadcast_to
    each = Geometry(full(40.0, (7, 5)), full(6.0, (7, 5)), full(110.0, (7, 5)), altitude)
    np.testing.assert_allclose(mixed, TABLES["S2A"].correct(surface, STATE, each), atol=1e-12)


@pytest.mark.parametrize("varying", [False, True])
def test_results_do_not_depend_on_the_block(rng, monkeypatch, varying):
    toa = rng.uniform(0.05, 0.5, (len(BANDS), 1000)).astype(np.float32)
    geometry = Geometry(rng.uniform(30, 40, 1000), 5, 100) if varying else GEOMETRY
    results = []
    for elements in (1 << 17, 1 << 12):
        monkeypatch.setattr(module, "BLOCK_ELEMENTS", elements)
        monkeypatch.setattr(module, "BLOCK_ELEMENTS_WITH_ANGLES", elements)
        results.append(TABLES["S2A"].correct(toa, State(aod=[0.1, 0.3]), geometry, band_axis=0))
    # Matrix products of other sizes round differently: the last bits only.
    np.testing.assert_allclose(results[0], results[1], rtol=0, atol=1e-6 if varying else 0)


def test_bands_are_chosen_by_name_in_any_order(surface):
    chosen = LookupTable("S2A", ["B8A", "B02"])
    columns = [BANDS.index("B8A"), BANDS.index("B2")]
    np.testing.assert_allclose(
        chosen.correct(surface[..., columns], STATE, GEOMETRY),
        TABLES["S2A"].correct(surface, STATE, GEOMETRY)[..., columns],
    )


def test_realisations_of_other_aerosols_are_their_tables_side_by_side(surface):
    state = State([0.1, 0.3, 0.3, 0.2], aerosol=[0, 3, 1, 2], height=[0.0, 0.1, 0.0, -0.1])
    together = TABLES["S2A"].correct(surface, state, GEOMETRY)
    plain = BandTable.load("S2A", BANDS)
    for r in range(4):
        kind, here = AEROSOL_MODELS[int(state.aerosol[r])], replace(GEOMETRY, altitude=state.height[r])
        table = plain if kind == "continental" else plain.with_aerosol(kind)
        assert table.aerosol_model == f"6S {kind}"
        found = table.coefficients(State(state.aod[r]), here)
        alone = found.correct(surface.reshape(-1, len(BANDS)).T)[0].T.reshape(surface.shape)
        np.testing.assert_allclose(together[..., r, :], alone, rtol=1e-12)


def test_without_aerosol_its_kind_does_not_matter(surface):
    clear = [TABLES["S2B"].correct(surface, State(0.0, aerosol=kind), GEOMETRY) for kind in range(4)]
    for other in clear[1:]:
        np.testing.assert_allclose(other, clear[0], atol=1e-6)


@pytest.mark.parametrize("model", AEROSOL_MODELS[1:])
def test_other_aerosols_agree_with_6s(model):
    errors, differences, inside = sixs_runs.model_errors(model)
    assert np.percentile(np.abs(errors[inside]), 50) < 4e-4 and np.abs(errors[inside]).max() < 4e-3
    assert np.percentile(np.abs(errors), 95) < 6e-3
    # The errors are small beside what the kind of aerosol changes.
    assert np.sqrt((errors**2).mean()) < 0.06 * np.sqrt((differences**2).mean())


def test_azimuth_is_symmetric_and_periodic(surface):
    table = TABLES["S2A"]
    results = [table.simulate(surface, STATE, Geometry(40, 6, azimuth)) for azimuth in (110, -110, 250, 470)]
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], rtol=1e-12)


def test_missing_pixels_stay_missing(surface):
    surface[2, 3] = np.nan
    result = TABLES["S2A"].correct(surface, STATE, GEOMETRY)
    assert np.isnan(result[2, 3]).all()
    assert np.isfinite(np.delete(result.reshape(35, -1), 13, axis=0)).all()


# ---- surface reflectance products


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("band_axis", [0, -1])
def test_a_product_corrected_at_its_own_optical_depth_is_unchanged(surface, dtype, band_axis):
    values = (surface if band_axis == -1 else np.moveaxis(surface, -1, 0)).astype(dtype)
    drawn = State(aod=[0.1, 0.2, 0.35], water_vapour=1.5, ozone=320)
    worlds = recorrect(TABLES["S2A"], values, STATE, drawn, GEOMETRY, band_axis=band_axis)
    same = worlds[1] if band_axis == 0 else worlds[..., 1, :]
    assert same.dtype == dtype
    assert np.abs(same - values).max() < 1e-6


@pytest.mark.parametrize("band_axis", [0, -1])
def test_with_an_aot_band_each_pixel_has_its_own_depth(surface, rng, band_axis):
    values = surface if band_axis == -1 else np.moveaxis(surface, -1, 0)
    aot = rng.integers(50, 400, (7, 5)) * 1e-3
    geometry = Geometry(rng.uniform(20, 60, (7, 5)), 6, 110)
    drawn = State(aod=[0.15, 0.2, 0.3])
    options = {"aod_map": aot, "band_axis": band_axis}
    worlds = recorrect(TABLES["S2A"], values, State(aod=0.2), drawn, geometry, **options)
    same = worlds[1] if band_axis == 0 else worlds[..., 1, :]
    assert np.abs(same - values).max() < 1e-6  # no error, no change, whatever the depth of the pixel
    pixel = surface[3, 2]
    here = Geometry(geometry.sun_zenith[3, 2], 6, 110)
    alone = recorrect(
        TABLES["S2A"], pixel, State(aot[3, 2]), State(aot[3, 2] + np.array([-0.05, 0, 0.1])), here
    )
    together = worlds[:, :, 3, 2] if band_axis == 0 else worlds[3, 2]
    np.testing.assert_allclose(together, alone, atol=1e-10)


def test_more_haze_assumed_makes_dark_surfaces_darker():
    worlds = recorrect(TABLES["S2A"], np.full(12, 0.05), STATE, State(aod=[0.1, 0.2, 0.3]), GEOMETRY)
    visible = worlds[:, : BANDS.index("B5")]
    assert (np.diff(visible, axis=0) < 0).all()


# ---- direct runs of 6S


@pytest.fixture(scope="module")
def runs():
    return sixs_runs.read_runs()


@pytest.fixture(scope="module")
def errors(runs):
    return sixs_runs.errors(runs)


def test_the_stored_runs_are_many_and_random(runs):
    assert runs["bands"].tolist() == list(BANDS)
    assert runs["apparent"].shape == (200, len(BANDS))
    assert (np.isfinite(runs["apparent"]).sum(axis=1) >= 4).all()
    assert (np.isfinite(runs["apparent"]).sum(axis=0) >= 60).all()
    assert set(runs["sensor"]) == set(SENSORS)
    assert runs["sun"].max() > 70
    assert runs["aod"].max() > 1.9


def test_top_of_atmosphere_is_that_of_6s_within_1e_3(errors):
    assert np.nanmax(np.abs(errors[0])) < 1e-3


def test_surface_is_that_of_6s_within_2e_3_where_it_is_clear(runs, errors):
    clear = sixs_runs.domains(runs)["AOD ≤ 0.5, sun zenith ≤ 65°"]
    assert clear.sum() > 100
    assert np.nanmax(np.abs(errors[1][clear])) < 2e-3


# ---- physics


def test_rayleigh_optical_depth_at_550_nm():
    wavelength = 0.55  # Hansen and Travis (1974), eq. 2.30, at the standard pressure of 1013.25 hPa
    published = 0.008569 * wavelength**-4 * (1 + 0.0113 * wavelength**-2 + 0.00013 * wavelength**-4)
    assert float(_arrays()["molecular_depth_550"]) == pytest.approx(published, rel=0.01)


def test_rayleigh_optical_depth_falls_with_the_fourth_power_of_the_wavelength():
    depth = dict(zip(BANDS, _arrays()["molecular_depth"], strict=True))
    assert depth["B2"] / depth["B4"] == pytest.approx((664.6 / 492.4) ** 4, rel=0.05)
    assert depth["B4"] / depth["B8A"] == pytest.approx((864.7 / 664.6) ** 4, rel=0.05)


def test_thin_molecular_scattering_is_single_scattering():
    table, geometry = TABLES["S2A"], Geometry(40, 0, 0)
    path = table.coefficients(State(0, 0, 0), geometry).path[0, BANDS.index("B8A"), 0]
    depth = float(_arrays()["molecular_depth"][BANDS.index("B8A")])
    cosine = np.cos(np.radians(40))
    once = 0.75 * (1 + cosine**2) / (4 * (1 + cosine)) * -np.expm1(-depth * (1 + 1 / cosine))
    assert once < path < 1.1 * once


@pytest.mark.parametrize("band", ["B1", "B2", "B3", "B4", "B8A"])
def test_molecules_conserve_energy(band):
    """Without absorption, the spherical albedo is what the mean transmittance leaves: S = 1 - 2∫T(μ)μdμ."""
    table = BandTable.load("S2A", (band,))
    cosines = np.linspace(np.cos(np.radians(75)), 1, 400)
    weights = table.splines["sun"](1 - cosines)
    down = weights @ table.values["transmittance"][0, 0, 0]
    up = 2 * np.trapezoid(down * cosines, cosines)
    # Below 75 degrees the table ends: there T is between 0 and its last value.
    rest = cosines[0] ** 2 * down[0]
    assert up + 0.5 * rest < 1 - float(table.values["albedo"][0, 0, 0]) < up + rest


@pytest.mark.parametrize("sensor", SENSORS)
def test_nothing_is_gained_between_sun_and_sensor(sensor):
    aods = np.linspace(0, 2, 9)
    for sun in (0, 30, 60, 75):
        c = TABLES[sensor].coefficients(State(aods), Geometry(sun, 6, 90))
        assert ((c.slope > 0) & (c.slope < 1)).all()
        assert ((c.albedo >= 0) & (c.albedo < 1)).all()
        assert ((c.path >= 0) & (c.path < 1)).all()
        assert (c.path + c.slope < 1.02).all()  # reflectance is directional: a little above 1 is possible


def test_a_white_surface_under_a_clear_sky_stays_white():
    toa = TABLES["S2A"].simulate(np.ones(len(BANDS)), State(0, 0, 0), Geometry(45, 0, 0))
    np.testing.assert_allclose(toa[:4], 1, atol=0.03)


@pytest.mark.parametrize("sensor", SENSORS)
@pytest.mark.parametrize("sun", [0, 35, 60, 75])
@pytest.mark.parametrize("altitude", [0, 3])
def test_more_aerosol_transmits_less_and_scatters_more(sensor, sun, altitude):
    c = TABLES[sensor].coefficients(State(np.linspace(0, 2, 81)), Geometry(sun, 6, 90, altitude))
    assert (np.diff(c.slope, axis=0) < 0).all()
    assert (np.diff(c.albedo, axis=0) > 0).all()
    assert (np.diff(c.path, axis=0) > 0).all()


def test_the_higher_the_ground_the_less_air_scatters():
    c = TABLES["S2A"].coefficients(State(0.1), Geometry(40, 6, 90, np.linspace(0, 3, 31)))
    assert (np.diff(c.path[0, :4], axis=-1) < 0).all()
    assert (np.diff(c.slope[0, :4], axis=-1) > 0).all()


def test_gases_absorb_where_they_must():
    surface, geometry = np.full(len(BANDS), 0.3), Geometry(40, 0, 0)

    def toa(**columns):
        return TABLES["S2A"].simulate(surface, State(0.1, **columns), geometry)

    ozone = 1 - toa(ozone=420) / toa(ozone=250)
    assert ozone[BANDS.index("B3")] == pytest.approx(0.04, abs=0.01)
    assert abs(ozone[BANDS.index("B8A")]) < 1e-3
    water = 1 - toa(water_vapour=4.0) / toa(water_vapour=1.0)
    for band in ("B6", "B8", "B12"):
        assert 0.02 < water[BANDS.index(band)] < 0.08
    assert water[BANDS.index("B9")] > 0.3
    assert abs(water[BANDS.index("B2")]) < 1e-3


def test_the_two_sensors_differ_little_but_differ(surface):
    a, b = (TABLES[s].correct(surface, STATE, GEOMETRY) for s in SENSORS)
    without_water = [i for i, band in enumerate(BANDS) if band != "B9"]
    assert 1e-5 < np.abs(a - b)[..., without_water].max() < 0.02


def test_what_the_table_was_made_with_is_recorded():
    assert TABLES["S2A"].aerosol_model == "6S continental"
    assert LookupTable("Sentinel-2B").response == "S2B"
    third = LookupTable("S2C")
    assert (third.sensor, third.response) == ("S2C", "S2A")


# ---- bad input


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda t: t.correct(np.zeros(12), STATE, Geometry(76, 5, 0)), "sun zenith angle 76 is outside"),
        (lambda t: t.correct(np.zeros(12), STATE, Geometry(-3, 5, 0)), "sun zenith angle -3 is outside"),
        (lambda t: t.correct(np.zeros(12), STATE, Geometry(40, 13, 0)), "view zenith angle 13 is outside"),
        (lambda t: t.correct(np.zeros(12), STATE, Geometry(40, 5, 0, 4.0)), "altitude 4 is outside"),
        (lambda t: t.correct(np.zeros(12), State(2.5), GEOMETRY), "aerosol optical depth 2.5 is outside"),
        (lambda t: t.correct(np.zeros(12), State(0.1, 9.0), GEOMETRY), "water vapour 9 is outside"),
        (lambda t: t.correct(np.zeros(12), State(0.1, 2.0, 700), GEOMETRY), "ozone 700 is outside"),
        (lambda t: State(-0.1), "aod is -0.1; an aerosol optical depth is 0 or more"),
        (lambda t: State(np.nan), "aod is missing"),
        (lambda t: State([0.1, 0.2], [1.0, 2.0, 3.0]), "2 and 3 realisations"),
        (lambda t: State(np.zeros((2, 2))), "aod has 2 dimensions"),
        (lambda t: Geometry(np.nan, 5, 0), "sun_zenith is missing"),
        (lambda t: t.correct(np.zeros(4), STATE, GEOMETRY), "shape \\(4,\\), the table 12 bands"),
        (lambda t: t.correct(np.full(12, 900), STATE, GEOMETRY), "look like digital numbers"),
        (lambda t: t.correct(np.full(12, 900.0), STATE, GEOMETRY), "look like digital numbers"),
        (lambda t: t.correct(np.zeros((3, 12)), STATE, Geometry([1, 2], 5, 0)), "angles have shape \\(2,\\)"),
        (lambda t: LookupTable("Landsat-8"), "sensor 'Landsat-8' is not in the look-up table"),
        (lambda t: LookupTable("S2A", ["B13"]), "band 'B13' is not in the look-up table"),
        (lambda t: LookupTable("S2A", ["B10"]), "B10 sees no surface"),
        (
            lambda t: recorrect(t, np.zeros((3, 12)), STATE, STATE, GEOMETRY, aod_map=np.zeros(2)),
            "AOT band has shape \\(2,\\)",
        ),
        (
            lambda t: recorrect(t, np.zeros((1, 12)), STATE, STATE, GEOMETRY, aod_map=[np.nan]),
            "AOT band has missing values",
        ),
        (lambda t: recorrect(t, np.zeros(12), State([0.1, 0.2]), STATE, GEOMETRY), "it is one state"),
    ],
)
def test_bad_input_is_one_clear_line(act, message):
    with pytest.raises(ValueError, match=message) as error:
        act(TABLES["S2A"])
    assert "\n" not in str(error.value)
