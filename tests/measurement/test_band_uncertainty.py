import json

import numpy as np
import pytest

from safe_trees import shared
from uncover import BayesianQDA
from uncover.measurement.band_files import read_band_uncertainty, read_correlation_table
from uncover.measurement.band_uncertainty import BandUncertainty, block_covariances

BANDS = ("B02", "B03", "B04")
R = np.array([[1.0, 0.8, 0.3], [0.8, 1.0, 0.5], [0.3, 0.5, 1.0]])


@pytest.fixture
def values(rng):
    return rng.uniform(0.01, 0.6, size=(7, 5, 3))


def by_hand(effects, rho):
    """Σ_e D R D, pixel by pixel."""
    out = np.zeros((len(rho), 3, 3))
    for u, correlation, relative in effects:
        for i, pixel in enumerate(rho):
            d = np.diag(u * np.abs(pixel) if relative else u)
            out[i] += d @ correlation @ d
    return out


@pytest.mark.parametrize(
    "kinds",
    [
        [(False, R)],
        [(True, R)],
        [(True, np.eye(3))],
        [(False, R), (True, R)],
        [(True, R), (False, R)],
        [(True, np.eye(3)), (False, np.eye(3))],
        [(True, R), (True, np.eye(3)), (False, np.ones((3, 3)))],
    ],
)
def test_random_effects_add_up_pixel_by_pixel(kinds, values, rng):
    total, expected = None, []
    for relative, correlation in kinds:
        u = rng.uniform(0.01, 0.1, 3)
        part = BandUncertainty.of(BANDS, 100 * u if relative else u, correlation, units="1%"[relative])
        total = part if total is None else total + part
        expected.append((u, correlation, relative))
    rho = values.reshape(-1, 3)
    found = total.random(values)
    np.testing.assert_allclose(found.of_each(35), by_hand(expected, rho), rtol=1e-12, atol=1e-18)


def test_forms_are_as_compact_as_they_can_be(values):
    absolute = BandUncertainty.of(BANDS, [0.1, 0.2, 0.3], R).random(values)
    assert absolute.own is None and absolute.factor is None
    uncorrelated = BandUncertainty.of(BANDS, [5, 5, 5], units="%").random(values)
    assert uncorrelated.own.shape == (35, 3)
    shades = np.linspace(0.1, 1, 9)[:, None] * np.array([0.1, 0.2, 0.3])
    multiples = BandUncertainty.of(BANDS, [5, 5, 5], R, units="%").random(shades)
    assert multiples.own is None and multiples.factor.shape == (9,)
    np.testing.assert_allclose(multiples.factor, np.linspace(1, 10, 9) ** 2)
    equal = BandUncertainty.of(BANDS, [5, 5, 5], R, units="%").random(np.full((4, 3), 0.2))
    assert equal.factor is None and equal.own is None


def test_dark_pixels_have_no_relative_uncertainty():
    rho = np.array([[0.0, 0.0, 0.0], [0.1, 0.2, 0.3]])
    found = BandUncertainty.of(BANDS, [5, 5, 5], R, units="%").random(rho)
    assert not np.any(found.of_each(2)[0])
    assert np.all(np.isfinite(found.of_each(2)))
    nothing = BandUncertainty.of(BANDS, [5, 5, 5], R, units="%").random(np.zeros((3, 3)))
    assert not np.any(nothing.of_each(3))


def test_blocks_together_are_the_whole(values):
    noise = BandUncertainty.of(BANDS, [5, 4, 3], R, units="%")
    whole = noise.random(values).of_each(35)
    blocks = [noise.random(row).of_each(5) for row in values]
    np.testing.assert_allclose(np.concatenate(blocks), whole, rtol=1e-12)


def test_systematic_is_one_matrix_the_mean_over_pixels(values):
    shared = BandUncertainty.of(BANDS, [5, 4, 3], R, units="%", between_pixels="systematic")
    assert shared.random(values) is None
    expected = by_hand([(np.array([0.05, 0.04, 0.03]), R, True)], values.reshape(-1, 3)).mean(0)
    np.testing.assert_allclose(shared.systematic(values), expected, rtol=1e-12)
    assert BandUncertainty.of(BANDS, [1, 1, 1]).systematic(values) is None
    with pytest.raises(ValueError, match="needs values to be taken at"):
        shared.systematic()


def test_both_parts_reach_a_classifier(rng):
    X = np.concatenate([rng.normal(0.2, 0.02, (80, 3)), rng.normal(0.3, 0.02, (80, 3))])
    y = np.repeat(["a", "b"], 80)
    noise = BandUncertainty.of(BANDS, [5, 4, 3], R, units="%")
    both = noise + BandUncertainty.of(BANDS, [0.01] * 3, R, between_pixels="systematic")
    model = BayesianQDA().fit(both.measured(X), y)
    sure = BayesianQDA().fit(X, y).predict_proba(X[:5])
    unsure = model.predict_proba(both.measured(X[:5]))
    assert unsure.shape == sure.shape and np.all(np.isfinite(unsure))


def test_block_covariances_of_no_pixels():
    assert len(block_covariances([(np.ones((0, 3)), R), (np.ones((1, 3)), R)], 0).matrices()) <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((BANDS, [0.1, 0.2]), "one number for each of 3 bands"),
        ((BANDS, [0.1, 0.2, np.nan]), "NaN or infinity in band B04"),
        ((BANDS, [0.1, -0.2, 0.1]), "-0.2 in band B03"),
        ((BANDS, [0.1, 0.2, 0.3], np.eye(2)), "shape (2, 2) for 3 bands"),
        ((("B02", "B2", "B3"), [0.1, 0.2, 0.3]), "B02 more than once"),
    ],
)
def test_bad_arguments_are_one_clear_line(arguments, message):
    with pytest.raises(ValueError) as error:
        BandUncertainty.of(*arguments)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_values_need_the_bands():
    with pytest.raises(ValueError, match="the last axis needs the 3 bands B02, B03, B04"):
        BandUncertainty.of(BANDS, [1, 1, 1]).random(np.ones((3, 2)))


# Files


def write(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def test_csv_and_json_say_the_same(tmp_path, values):
    table = write(tmp_path, "unc.csv", "band,u_pct,reflectance\nB4,3,0.3\nB3,4,0.2\nB2,5,0.1\n")
    matrix = write(tmp_path, "corr.csv", ",B4,B2,B3\nB2,.3,1,.8\nB3,.5,.8,1\nB4,1,.3,.5\n")
    one = read_band_uncertainty(table, BANDS, correlation=matrix, between_pixels="random")
    content = {
        "bands": BANDS,
        "units": "%",
        "standard_uncertainty": [5, 4, 3],
        "correlation": [[1, 0.8, 0.3], [0.8, 1, 0.5], [0.3, 0.5, 1]],
        "between_pixels": "random",
    }
    other = read_band_uncertainty(write(tmp_path, "unc.json", json.dumps(content)))
    assert one.bands == other.bands == BANDS
    np.testing.assert_array_equal(one.random(values).own, other.random(values).own)
    np.testing.assert_array_equal(one.reference, [0.1, 0.2, 0.3])
    by_array = read_band_uncertainty(table, BANDS, correlation=R[::-1, ::-1], between_pixels="random")
    np.testing.assert_allclose(by_array.random(values).own, one.random(values).own)


def test_json_with_several_effects(tmp_path):
    content = {
        "bands": ["B2", "B3"],
        "reference": [0.1, 0.2],
        "effects": [
            {"name": "noise", "units": "1", "standard_uncertainty": [0.01, 0.02], "between_pixels": "random"},
            {
                "name": "gain",
                "units": "%",
                "standard_uncertainty": [10, 10],
                "correlation": "systematic",
                "between_pixels": "systematic",
            },
        ],
    }
    found = read_band_uncertainty(write(tmp_path, "u.json", json.dumps(content)), ["B03", "B02"])
    np.testing.assert_allclose(found.random(np.ones((1, 2))).variances(), [[4e-4, 1e-4]])
    np.testing.assert_allclose(found.systematic(), [[4e-4, 2e-4], [2e-4, 1e-4]])


@pytest.mark.parametrize(
    ("text", "units", "expected"),
    [
        ("band,U,k\nB2,0.02,2\nB3,0.03,3\n", "1", [0.01, 0.01]),
        ("band,U_pct,k\nB2,10,2\nB3,9,3\n", "%", [0.05, 0.03]),
        ("band,U,k,units\nB2,10,2,%\nB3,9,3,%\n", "%", [0.05, 0.03]),
        ("band,u,units\nB2,5,%\nB3,3,%\n", "%", [0.05, 0.03]),
        ("band,u,U,k,comment\nB2,0.01,0.02,2,lab\nB3,0.02,0.04,2,lab\n", "1", [0.01, 0.02]),
        ("band,u,k\nB2,0.01,1\nB3,0.02,1\n", "1", [0.01, 0.02]),
    ],
)
def test_expanded_uncertainty_is_divided_and_units_are_honoured(tmp_path, text, units, expected):
    """U = k·u (GUM 6.2): a capital U is expanded, whatever its letter's small twin means."""
    found = read_band_uncertainty(write(tmp_path, "u.csv", text), between_pixels="random")
    np.testing.assert_allclose(found.effects[0].standard, expected, rtol=1e-12)
    assert found.effects[0].relative is (units == "%")


def test_expanded_uncertainty_in_json(tmp_path):
    content = {"bands": ["B2"], "expanded_uncertainty": [0.02], "k": 2, "units": "1", "name": "noise"}
    path = write(tmp_path, "u.json", json.dumps(content))
    effect = read_band_uncertainty(path, between_pixels="random").effects[0]
    assert effect.standard.tolist() == [0.01] and effect.name == "noise"


def test_effects_common_to_all_scenes_are_kept_apart(tmp_path):
    table = "band,u,between_pixels,between_scenes\nB2,0.01,systematic,common\nB3,0.02,systematic,common\n"
    found = read_band_uncertainty(write(tmp_path, "u.csv", table), effect_name="gain")
    assert found.systematic() is None and list(found.common()) == ["gain"]
    np.testing.assert_allclose(np.diagonal(found.common()["gain"]), [1e-4, 4e-4])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gain.csv", "band,u,name\nB2,0.01,blue\nB3,0.02,green\n"),  # names of bands, not of the effect
        ("gain.csv", "band,u\nB2,0.01\nB3,0.02\n"),
        ("gain.json", '{"bands": ["B2", "B3"], "standard_uncertainty": [0.01, 0.02], "units": "1"}'),
    ],
)
def test_a_common_effect_needs_a_stated_name(tmp_path, name, text):
    path, how = write(tmp_path, name, text), {"between_pixels": "systematic", "between_scenes": "common"}
    with pytest.raises(ValueError, match=r"known by its name, and none is stated; .* --effect-name NAME"):
        read_band_uncertainty(path, **how)
    assert list(read_band_uncertainty(path, **how, effect_name="MSI gain").common()) == ["MSI gain"]
    assert read_band_uncertainty(path, between_pixels="systematic").effects[0].name == "gain"


def test_the_name_of_an_effect_is_read_from_the_file(tmp_path):
    table = write(tmp_path, "u.csv", "band,u,name\nB2,0.01,gain\nB3,0.02,gain\n")
    how = {"between_pixels": "systematic", "between_scenes": "common"}
    assert list(read_band_uncertainty(table, **how).common()) == ["gain"]
    with pytest.raises(ValueError, match="names the effect 'gain'; --effect-name offset was asked for"):
        read_band_uncertainty(table, **how, effect_name="offset")


def test_units_and_scale_that_the_user_states_count(tmp_path):
    table = write(tmp_path, "u.csv", "band,u\nB2,10\nB3,7\n")
    percent = read_band_uncertainty(table, between_pixels="random", units="%").effects[0]
    assert percent.relative and percent.standard.tolist() == [0.1, 0.07]
    scaled = read_band_uncertainty(table, between_pixels="random", scale=0.0001).effects[0]
    np.testing.assert_allclose(scaled.standard, [0.001, 0.0007])
    assert not scaled.relative
    both = write(tmp_path, "both.csv", "band,u,u_pct\nB2,0.01,20\n")
    assert read_band_uncertainty(both, between_pixels="random", units="%").effects[0].standard == 0.2


def test_an_expanded_uncertainty_keeps_its_coverage_factor(tmp_path):
    table = write(tmp_path, "u.csv", "band,U,k\nB2,0.02,2\nB3,0.06,3\n")
    (effect,) = read_band_uncertainty(table, ["B03", "B02"], between_pixels="random").effects
    assert effect.coverage_factor.tolist() == [3, 2] and effect.standard.tolist() == [0.02, 0.01]


@pytest.mark.parametrize(
    ("name", "text", "options", "message"),
    [
        ("a.csv", "", {}, "is empty"),
        ("a.csv", "wavelength,u\n490,0.1\n", {}, "it needs a column `band`"),
        ("a.csv", "band,u_k2\nB2,0.1\n", {}, "column 'u_k2' is not understood"),
        ("a.csv", "band,reflectance\nB2,0.1\n", {}, "it needs `standard_uncertainty`"),
        ("a.csv", "band,U\nB2,0.1\n", {}, "expanded uncertainties (U) and no column k"),
        ("a.csv", "band,U,k\nB2,0.1,0.5\n", {}, "k of band B2 is 0.5; it is 1 or more"),
        ("a.csv", "band,U,k\nB2,0.1,nan\n", {}, "k of band B2 is nan"),
        ("a.csv", "band,u,k\nB2,0.1,2\n", {}, "has k = 2 beside standard uncertainties"),
        ("a.csv", "band,u,U,k\nB2,0.1,0.1,2\n", {}, "make them agree"),
        ("a.csv", "band,u,u_abs\nB2,0.01,0.02\n", {}, "column u gives 0.01 and u_abs gives 0.02"),
        ("a.csv", "band,u,u\nB2,0.01,0.02\n", {}, "column 'u' comes twice"),
        ("a.csv", "band,u_pct,units\nB2,5,1\n", {}, "in other units"),
        ("a.csv", "band,u_abs,units\nB2,5,%\n", {}, "in other units"),
        ("a.csv", "band,u,units\nB2,5,K\n", {}, "has the units 'K'"),
        ("a.csv", "band,u,units\nB2,5,%\nB3,0.1,1\n", {}, "units differs between rows"),
        ("a.csv", "band,u_pct,reflectance\nB2,5,-0.1\n", {}, "in per cent of a negative reflectance"),
        ("a.csv", "band,u,between_scenes\nB2,5,common\n", {}, "a random effect has another error"),
        ("a.csv", "band,u,between_scenes\nB2,5,all\n", {}, "between_scenes (--between-scenes) is 'all'"),
        ("a.csv", "band,u\nB2,0.1\nB3\n", {}, "row of B3 has 1 of 2 columns"),
        ("a.csv", "band,u\nB2,0.1\nB3,many\n", {}, "'many' in the row of B3"),
        ("a.csv", "band,u\nB2,0.1\n", {"bands": ["B02", "B8A"]}, "a.csv has no band B8A; it has B2"),
        (
            "a.csv",
            "band,u\nB2,0.1\n",
            {"between_pixels": None},
            "does not say whether errors are independent",
        ),
        (
            "a.csv",
            "band,u\nB2,0.1\n",
            {"between_pixels": "both"},
            "between_pixels (--between-pixels) is 'both'",
        ),
        ("a.csv", "band,u_abs\nB2,0.1\n", {"units": "%"}, "units='%' was asked for"),
        ("a.csv", "band,u\nB2,0.1\n", {"between_scenes": "common"}, "a random effect has another error"),
        (
            "a.json",
            '{"bands": ["B2"], "standard_uncertainty": [0.01], "units": "1"}',
            {"between_scenes": "common"},
            "a random effect has another error",
        ),
        ("a.csv", "band,u,u_pct,reflectance\nB2,0.01,20,0.1\n", {}, "make them agree"),
        ("a.csv", "band,u,between_pixels\nB2,0.01,systematic\n", {}, "states between_pixels='systematic'"),
        ("a.csv", "band,u\nB2,0.1\n", {"correlation": "nowhere.csv"}, "nowhere.csv does not exist"),
        ("a.csv", "band,u\nB2,0.1\n", {"correlation": np.eye(2)}, "came with 1 bands"),
        ("a.json", "{", {}, "not the JSON it should be"),
        ("a.json", "[]", {}, 'needs an object with "bands"'),
        ("a.json", '{"bands": ["B2"], "standard_uncertainty": [1]}', {}, 'and "units"'),
        ("a.json", '{"bands": ["B2"], "standard_uncertainty": [1], "units": "K"}', {}, "has the units 'K'"),
        (
            "a.json",
            '{"bands": ["B2"], "standard_uncertainty": [1], "units": "1", "k": 2}',
            {},
            'has k = 2 beside "standard_uncertainty"',
        ),
        ("a.json", '{"bands": ["B2"], "expanded_uncertainty": [1], "units": "1"}', {}, 'coverage factor "k"'),
        (
            "a.json",
            '{"bands": ["B2"], "expanded_uncertainty": [1], "k": 0.5, "units": "1"}',
            {},
            "1 or more (got 0.5)",
        ),
        ("a.json", '{"bands": ["B2"], "effects": []}', {}, "at least one effect"),
        ("a.json", '{"bands": ["B2"], "units": "1", "effects": [{}]}', {}, 'has units beside "effects"'),
        (
            "a.json",
            '{"bands": ["B2"], "standard_uncertainty": [1], "units": "1", "correlation": "some"}',
            {},
            "correlation is 'some'",
        ),
    ],
)
def test_bad_files_are_one_clear_line(tmp_path, name, text, options, message):
    path = write(tmp_path, name, text)
    with pytest.raises(ValueError) as error:
        read_band_uncertainty(path, **{"between_pixels": "random", **options})
    assert message in str(error.value) and "\n" not in str(error.value)


def test_bad_correlation_tables(tmp_path):
    with pytest.raises(ValueError, match="row B3 is too short"):
        read_correlation_table(write(tmp_path, "c.csv", ",B2,B3\nB2,1,0\nB3,0\n"))
    with pytest.raises(ValueError, match=r"c.csv has no band B04"):
        read_correlation_table(write(tmp_path, "c.csv", ",B2,B3\nB2,1,0\nB3,0,1\n"), ["B04"])


@pytest.mark.parametrize("site", ["amazon", "libya4"])
def test_published_uncertainty_of_level_2a(site):
    folder = shared("l2a_uncertainty")
    ten = ["B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B11", "B12"]
    options = {"correlation": folder / f"corr_L2A_{site}.csv", "between_pixels": "systematic"}
    path = folder / f"unc_L2A_{site}_digitised.csv"
    absolute = read_band_uncertainty(path, ten, **options)
    percent = read_band_uncertainty(path, ten, units="%", **options)
    assert absolute.bands == tuple(ten)
    u = np.sqrt(np.diagonal(absolute.systematic()))
    np.testing.assert_allclose(np.sqrt(np.diagonal(percent.systematic())), u, rtol=0.02)
    blue_red = absolute.systematic()[0, 2] / (u[0] * u[2])
    assert blue_red == pytest.approx({"amazon": 0.91, "libya4": 0.74}[site])
    assert np.linalg.eigvalsh(absolute.systematic())[0] > 0
    assert len(read_band_uncertainty(path, **options).bands) == 12


def entropy(probabilities):
    return -(probabilities * np.log(np.maximum(probabilities, 1e-300))).sum(axis=1).mean()


def test_published_uncertainty_on_real_pixels():
    """What is random makes answers less sure; what the scene shares does so for another scene only."""
    table = np.genfromtxt(shared("sen2_amazon") / "pixels_sen2.csv", delimiter=",", dtype=str)
    table = np.char.strip(table, '"')
    bands, rows = table[0, 1:-1], table[1::4]
    X, y = rows[:, 1:-1].astype(float) - 0.1, rows[:, -1]
    folder = shared("l2a_uncertainty")
    model = BayesianQDA(random_state=0).fit(X, y)
    sure = entropy(model.predict_proba(X))

    def read(kind):
        path, matrix = folder / "unc_L2A_amazon_digitised.csv", folder / "corr_L2A_amazon.csv"
        return read_band_uncertainty(path, bands, correlation=matrix, between_pixels=kind).measured(X)

    assert entropy(model.predict_proba(read("random"))) > 2 * sure
    assert entropy(model.predict_proba(read("systematic"), paired=True)) == pytest.approx(sure)
    assert entropy(model.predict_proba(read("systematic"), paired=False)) > 2 * sure
