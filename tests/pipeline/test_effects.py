"""Worlds of several effects: one draw of each in every world, and what the values then are."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import rasterio

from fit_cases import contents_of, safe_with_labels
from uncover import BayesianQDA, load_model
from uncover.atmosphere import Geometry, LookupTable, State
from uncover.measurement import Quantity
from uncover.measurement.quantity import DIMENSIONS, draw_together
from uncover.measurement.radiometry import Radiometry
from uncover.pipeline import EFFECTS, RealiseOptions, realise_scene
from uncover.pipeline.scene_sources import SourceOptions, observe
from uncover.raster import Atmosphere, Grid, Window, open_cube, scene_from_array
from uncover.raster.angles import AngleGrids
from uncover.raster.classification import make_mapper
from uncover.raster.layers import PlaneBits
from uncover.raster.observed import SceneWithWorlds
from uncover.raster.tiles import ArrayPlanes

pytestmark = pytest.mark.filterwarnings("ignore::uncover.raster.MaskWarning")

GRID = Grid("EPSG:32633", (10, 0, 300000, 0, -10, 5000000), width=150, height=40)
BANDS = ("B02", "B04", "B8A", "B11")
GEOMETRY = Geometry(40, 5, 140, 0.3)
ALL = RealiseOptions(effects=("all", "aerosol-model"), aod=0.15, altitude=0.3, draws=6, seed=2)


def scene(level="L1C", seed=0, **atmosphere):
    values = np.random.default_rng(seed).uniform(0.05, 0.4, (len(BANDS), *GRID.shape)).astype(np.float32)
    made = scene_from_array(values, GRID, BANDS)
    known = Atmosphere(**({"water_vapour": 1.5, "ozone": 320.0, "aot_method": "CAMS"} | atmosphere))
    angles = AngleGrids.everywhere(40.0, 5.0, 140.0)
    return replace(made, level=level, platform="Sentinel-2B", angle_grids=angles, atmosphere=known)


def state_of(realised, r):
    """The atmosphere of one world, and the altitude there."""
    drawn = realised.others
    columns = drawn["water_vapour"].values[r], drawn["ozone"].values[r]
    found = State(realised.draws.values[r], *columns, aerosol=drawn["aerosol_model"].values[r])
    return found, replace(GEOMETRY, altitude=0.3 + drawn["height"].values[r])


def test_a_world_is_the_scene_at_its_state_and_its_signal():
    realised, values = realise_scene(scene(), ALL), scene().read().reflectance.astype(float)
    gain, offset = realised.signal
    assert gain.shape == offset.shape == (6, 4)
    found, table = realised.read().values, LookupTable("S2B", BANDS)
    for r in range(6):
        signal = gain[r, :, None, None] * values + offset[r, :, None, None]
        state, geometry = state_of(realised, r)
        expected = table.correct(signal, state, geometry, band_axis=0)
        np.testing.assert_allclose(found[r], expected, atol=2e-6)


def test_a_surface_product_goes_back_to_its_sensor_and_its_own_state():
    own = scene("L2A", aot=0.3)
    realised, values = realise_scene(own, ALL), own.read().reflectance.astype(float)
    table, (gain, offset) = LookupTable("S2B", BANDS), realised.signal
    toa = table.simulate(values, State(0.3, 1.5, 320.0), GEOMETRY, band_axis=0)
    for r, found in enumerate(realised.read().values):
        state, geometry = state_of(realised, r)
        signal = gain[r, :, None, None] * toa + offset[r, :, None, None]
        np.testing.assert_allclose(found, table.correct(signal, state, geometry, band_axis=0), atol=2e-6)


@pytest.mark.parametrize("method", ["quantile", "mc"])
def test_an_effect_that_is_left_out_leaves_the_others_as_they_were(method):
    whole = realise_scene(scene(), replace(ALL, method=method)).worlds
    assert set(whole) == {name for names in EFFECTS.values() for name in names}
    for left in EFFECTS:
        some = tuple(name for name in EFFECTS if name != left)
        found = realise_scene(scene(), replace(ALL, method=method, effects=some)).worlds
        for name in set(found) - set(EFFECTS[left]):
            assert found[name] == whole[name], (left, name)
        if left == "aod":
            assert set(found["aod"]) == {0.15}
    alone = realise_scene(scene(), replace(ALL, method=method, effects=("aod",))).worlds
    assert alone == {"aod": whole["aod"]}


@pytest.mark.parametrize(
    ("words", "effects", "models"),
    [
        ("there is no aerosol model 'volcanic'; choose among ", ("aerosol-model",), ("urban", "volcanic")),
        ("--aerosol-models urban came, and --effects aod does not draw it; add ", ("aod",), ("urban",)),
    ],
)
def test_aerosol_models_that_cannot_be_drawn_are_refused(words, effects, models):
    with pytest.raises(ValueError, match=words) as caught:
        RealiseOptions(aod=0.1, effects=effects, aerosol_models=models)
    assert "\n" not in str(caught.value)


def test_the_design_is_even_in_each_effect_and_between_them():
    names, n = DIMENSIONS[:-1], 64  # kinds of aerosol have an order of their own
    quantities = [Quantity(name, 0.0, 1.0, lowest=-np.inf) for name in names]

    def correlations(method, seed):
        drawn = draw_together(quantities, n, scene="s", seed=seed, method=method)
        return np.corrcoef([draws.values for draws in drawn.values()])

    def errors(method):
        return np.array([correlations(method, seed) for seed in range(20)])

    apart = ~np.eye(len(names), dtype=bool)
    assert errors("quantile")[:, apart].std() < 0.6 * errors("mc")[:, apart].std()
    drawn = draw_together(quantities, n, scene="s", seed=0)
    first = np.sort(drawn["aod"].values)
    assert all(np.array_equal(np.sort(draws.values), first) for draws in drawn.values())
    with pytest.raises(ValueError, match='"quadrature", and 8 quantities are uncertain'):
        draw_together(quantities, n, scene="s", seed=0, method="quadrature")


def test_errors_of_the_satellite_are_common_to_its_scenes_and_others_are_not():
    here = realise_scene(scene(), ALL).worlds
    there = realise_scene(scene(seed=1), ALL).worlds
    same = {name for name in here if here[name] == there[name]}
    assert same == {"diffuser_vnir", "diffuser_swir", "diffuser"}


def test_the_spread_of_worlds_is_that_of_the_components():
    many = replace(ALL, effects=("radiometry",), draws=4096)
    realised = realise_scene(scene(), many)
    radiometry = Radiometry.of("S2B", BANDS, 40.0)
    value = np.array([0.3, 0.1, 0.2, 0.15])
    gain, offset = realised.signal
    spread = (gain * value + offset).std(axis=0)
    mean = scene().read().reflectance.mean(axis=(1, 2), dtype=float)
    parts = radiometry.components(value, mean=mean)
    names = ["stray light of the scene", "dark signal", *(n for n in parts if n.startswith("diffuser, "))]
    names.remove("diffuser, ageing")
    np.testing.assert_allclose(spread, np.sqrt(sum(parts[n] ** 2 for n in names)), rtol=0.03)
    gains = np.corrcoef(gain.T)
    assert gains[0, 1] > gains[0, 3] > 0.05  # one focal plane, and two that share the diffuser's angle


def test_kinds_of_aerosol_are_equally_probable_and_recorded_by_name():
    realised = realise_scene(scene(), replace(ALL, draws=8, effects=("aerosol-model",)))
    kinds = realised.others["aerosol_model"].values
    assert sorted(kinds) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert realised.effect_scores["aerosol-model"].shape == (8, 3)  # which of the others it is
    (record,) = realised.quantities
    assert record["distribution"] == "equal probabilities of continental, maritime, urban, desert"
    values = realised.read().values
    plain = realise_scene(scene(), replace(ALL, draws=8, effects=("aod",), uncertainty=0.0)).read().values
    same = [np.array_equal(a, b) for a, b in zip(values, plain, strict=True)]
    assert same == [kind == 0 for kind in kinds]
    assert set(values[kinds == 1].std(axis=0).ravel()) == {0.0}  # nothing else differs


def test_all_leaves_out_the_kind_of_aerosol_until_it_is_asked_for():
    plain = realise_scene(scene(), replace(ALL, effects=("all",)))
    asked = realise_scene(scene(), ALL)
    assert "aerosol_model" not in plain.others and "aerosol_model" in asked.others
    for name, draws in plain.others.items():  # what else is drawn stays as it was
        np.testing.assert_array_equal(draws.values, asked.others[name].values)
    with pytest.raises(ValueError, match="add aerosol-model to --effects"):
        replace(ALL, effects=("all",), aerosol_models=("desert",))


@pytest.mark.parametrize(
    ("effect", "field", "u"),
    [
        ("aod", "uncertainty", 3.0),
        ("ozone", "ozone_uncertainty", 500.0),
        ("altitude", "altitude_uncertainty", 5.0),
    ],
)
def test_an_uncertainty_as_wide_as_the_table_is_warned_of(effect, field, u):
    wide = RealiseOptions(effects=(effect,), aod=0.12, draws=4, **{field: u})
    with pytest.warns(UserWarning, match=f"--{effect}-uncertainty {u:g} is wide for a quantity from"):
        made = realise_scene(scene(), wide)
    heights = made.others["height"].values if effect == "altitude" else np.zeros(1)
    assert heights.min() >= -0.5 and heights.max() <= 3.0


def test_a_record_says_where_values_and_uncertainties_come_from():
    options = RealiseOptions(
        effects=("aod", "ozone", "water-vapour"), aod=0.12, ozone=300.0, ozone_uncertainty=9.0
    )
    said = {each["name"]: each["source"] for each in realise_scene(scene(), options).quantities}
    assert said["aerosol optical depth at 550 nm"] == "--aod, uncertainty by default: the formula of CAMS"
    assert said["ozone"] == "--ozone, --ozone-uncertainty"
    assert said["water vapour"] == "the product, uncertainty by default"


def test_the_source_of_uncertainty_is_named_by_its_effects():
    found = SceneWithWorlds(realise_scene(scene(), replace(ALL, effects=("ozone", "radiometry")))).facts()
    assert found["source"] == "ozone, radiometry"


def test_numbers_do_not_depend_on_the_window():
    realised = realise_scene(scene(), ALL)
    whole = realised.read().values
    for window in (Window(0, 0, 40, 20), Window(3, 120, 30, 30)):
        part = realised.read(window).values
        np.testing.assert_array_equal(part, whole[(slice(None), slice(None), *window.slices)])


def test_a_cube_and_the_fly_give_one_model_and_both_state_their_effects(run, tmp_path):
    tree, maps, _ = safe_with_labels(tmp_path, "L1C_03.01")
    worlds = ("--aod", 0.12, "--draws", 4, "--effects", "aod,water-vapour,ozone,altitude")
    fit = (
        "--labels",
        maps[0],
        "--scheme",
        "ukceh-lulucf",
        "--realisations",
        "shared",
        "--model",
        "published",
    )
    for command in (
        ("realise", tree.path, *worlds, "--out", "cube.zarr"),
        ("fit", "cube.zarr", *fit, "--out", "stored.uncover"),
        ("fit", tree.path, *fit, *worlds, "--out", "flying.uncover"),
        ("map", "flying.uncover", tree.path, *worlds, "--out", "map"),
        ("map", "stored.uncover", "cube.zarr", "--out", "of-cube"),
    ):
        made = run(*command)
        assert made.exit_code == 0, made.output
    assert contents_of(tmp_path / "stored.uncover") == contents_of(tmp_path / "flying.uncover")
    for layer in ("probability.tif", "uncertainty.tif"):
        one, other = (
            rasterio.open(tmp_path / made / layer).read().astype(int) for made in ("map", "of-cube")
        )
        assert np.abs(one - other).max() <= 2  # steps of 1e-4: a cube has its values in single precision
    names = {record["name"] for record in open_cube(tmp_path / "cube.zarr").attributes["quantities"]}
    assert {"aerosol optical depth at 550 nm", "water vapour", "ozone", "altitude"} <= names


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--effects", "aod,wind"), "there is no effect 'wind'; choose among aod, water-vapour, ozone"),
        (("--effects", ","), "no effect came; choose among aod"),
        (("--effects", ""), "no effect came; choose among aod"),
        (("--ozone-uncertainty", 5), "--ozone-uncertainty 5 came, and --effects aod does not draw it; add"),
        (("--effects", "ozone", "--aod-uncertainty", 0.1), "--aod-uncertainty 0.1 came, and --effects ozone"),
    ],
)
def test_what_cannot_be_drawn(refused, tmp_path, more, words):
    tree, _, _ = safe_with_labels(tmp_path, "L1C_03.01")
    assert words in refused("realise", tree.path, "--aod", 0.1, *more, "--out", "cube.zarr")


@pytest.mark.parametrize(
    ("level", "more", "words"),
    [
        ("L1C", {"water_vapour": 9.0}, "water_vapour is 9; it must be from 0 to 8"),
        ("L1C", {"method": "quadrature"}, 'is "quadrature", and 6 quantities are uncertain'),
        ("L1C", {"product_aod_value": 0.2}, "--product-aod-value 0.2 came, and scene .* is not corrected"),
        ("L2A", {"product_aod_value": 0.2}, "--product-aod-value 0.2 came, and scene .* states its own, 0.3"),
        (None, {}, "does not say whether it is L1C .* give --level L1C or --level L2A"),
    ],
)
def test_what_a_scene_cannot_have(level, more, words):
    with pytest.raises(ValueError, match=words) as caught:
        realise_scene(scene(level, aot=0.3), replace(ALL, **more))
    assert "\n" not in str(caught.value)


def test_effects_without_data_at_this_level():
    dark = replace(scene(), masks=(PlaneBits(ArrayPlanes(np.ones((1, *GRID.shape), np.uint16), GRID)),))
    bare = replace(scene(), angle_grids=None)
    for made, words in (
        (
            dark,
            "no clear pixel of scene array has a value to take its stray light from; leave radiometry out",
        ),
        (bare, "scene array has no sun and view angles; give --angles SUN VIEW RELATIVE"),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            realise_scene(made, ALL)
        assert "\n" not in str(caught.value)


def test_a_scene_that_does_not_name_its_satellite():
    with pytest.raises(ValueError, match=r"does not say which satellite .* give --sensor S2A, S2B or S2C"):
        realise_scene(replace(scene(), platform=None), ALL)


def test_a_model_of_other_effects_is_used_with_a_warning(tmp_path):
    one = realise_scene(scene(), replace(ALL, effects=("aod",)))
    values, record = one.read().values, {"worlds": one.worlds}
    X = np.moveaxis(values, 0, -1).reshape(len(BANDS), -1, 6).transpose(1, 2, 0)[:400]
    clf = BayesianQDA().fit(X, np.where(X[:, 0, 0] > 0.2, "bright", "dark"))
    clf.feature_names_in_ = np.array(BANDS, object)
    clf.save(tmp_path / "m.uncover", provenance={"sources": [{"name": "here", "uncertainty": record}]})
    model, same = load_model(tmp_path / "m.uncover"), SceneWithWorlds(one)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_mapper(model, same)
    with pytest.warns(
        UserWarning, match="in worlds of aod, and those of the scene are of aod, ozone: .* --effects"
    ):
        make_mapper(model, SceneWithWorlds(realise_scene(scene(), replace(ALL, effects=("aod", "ozone")))))
    beside = replace(ALL, effects=("aod", "geolocation"))
    with pytest.warns(UserWarning, match="those of the scene are of aod, geolocation: .* --effects"):
        make_mapper(model, observe(scene(), SourceOptions(realise=beside)))


def test_a_satellite_without_known_radiometry():
    with pytest.raises(
        ValueError, match=r"of satellite 'Sentinel-2D' is not known, only that .* of S2A, S2B and"
    ):
        Radiometry.of("Sentinel-2D", BANDS, 30.0)
    with pytest.raises(ValueError, match="of bands NDVI is not known"):
        Radiometry.of("S2A", ("B02", "NDVI"), 30.0)
