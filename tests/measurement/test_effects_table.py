from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from effects_tables import BANDS, R, attributes, make_table
from uncover.measurement.effects_table import EffectsTable

HYPERNETS = (
    Path(__file__).parents[3]
    / "shared/data/radcalnet/HYPERNETS_L_GHNA_L2A_REF_20231103T0901_20240124T2246_v2.0.nc"
)


def test_one_component_is_a_string_in_netcdf(rng, tmp_path):
    dataset = make_table(rng, components=("u_noise",))
    dataset.to_netcdf(tmp_path / "t.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "t.nc", engine="h5netcdf") as stored:
        assert stored.reflectance.attrs["unc_comps"] == "u_noise"
        assert [effect.name for effect in EffectsTable.read(stored).effects] == ["u_noise"]


def test_dimensions_that_are_not_named_are_random(rng):
    dataset = make_table(rng, components=("u_noise",))
    dataset["u_noise"].attrs = {"units": "1"}
    assert EffectsTable.read(dataset).effects[0].correlation.tolist() == np.eye(3).tolist()


def test_older_and_other_names_of_forms(rng):
    dataset = make_table(rng, components=("u_noise",))
    dataset["u_noise"].attrs = attributes("", ("band", "custom", "err_corr_band"), (["y", "x"], "random"))
    np.testing.assert_array_equal(EffectsTable.read(dataset).effects[0].correlation, R)
    endless = ("rectangle_absolute", -np.inf, np.inf)
    dataset["u_noise"].attrs = attributes("1", ("band", *endless), (["y", "x"], *endless))
    effect = EffectsTable.read(dataset).effects[0]
    assert effect.between_pixels == "systematic" and np.all(effect.correlation == 1)
    dataset["u_noise"].attrs = attributes(
        "1", ("y", "rectangle_absolute", -3, 3), ("x", "bell_relative", 5, 2)
    )
    assert EffectsTable.read(dataset).effects[0].between_pixels == "structured"


def unc(entries):
    """The same attributes in the names of the UNC, which leave out what is empty."""
    names = {"dim": "name", "form": "form", "params": "params", "units": "units"}
    return {
        f"err_corr_dim{key.split('_')[2]}_{names[key.split('_')[3]]}": value
        for key, value in entries.items()
        if key.startswith("err_corr_") and len(value)
    }


def test_names_of_the_unc_say_the_same(rng):
    dataset, plain = make_table(rng), make_table(rng)
    for name in ("u_noise", "u_gain"):
        attrs = dataset[name].attrs
        dataset[name].attrs = {"units": attrs["units"], **unc(attrs)}
    both = make_table(rng)
    both["u_noise"].attrs |= unc(both["u_noise"].attrs)
    for other in (dataset, both):
        for mine, theirs in zip(
            EffectsTable.read(other).effects, EffectsTable.read(plain).effects, strict=True
        ):
            np.testing.assert_array_equal(mine.correlation, theirs.correlation)
            assert (mine.name, mine.share, mine.between_pixels) == (
                theirs.name, theirs.share, theirs.between_pixels
            )  # fmt: skip
    del dataset["u_gain"].attrs["units"]  # which is a fraction there
    assert [effect.share for effect in EffectsTable.read(dataset).effects] == [None, 1.0]
    assert EffectsTable.read(dataset, units="%").effects[1].share == 0.01
    del dataset["u_noise"].attrs["err_corr_dim1_form"]
    with pytest.raises(ValueError, match="correlation 1 needs err_corr_dim1_name and err_corr_dim1_form"):
        EffectsTable.read(dataset)


@pytest.mark.skipif(not HYPERNETS.exists(), reason="the HYPERNETS file is not there")
@pytest.mark.filterwarnings("ignore:Duplicate dimension names")
def test_a_real_table_of_hypernets():
    with xr.open_dataset(HYPERNETS, engine="h5netcdf", decode_times=False) as table:
        names = [f"{nm:.2f} nm" for nm in table.wavelength.values]
        places = [200, 700, 1200]
        found = EffectsTable.read(table, [names[i] for i in places], band_names=names)
        assert found.variable == "reflectance" and found.pixel_dims == ("series",)
        random, systematic = found.effects
        assert (random.between_pixels, systematic.between_pixels) == ("random", "systematic")
        assert random.share == systematic.share == 0.01
        np.testing.assert_array_equal(random.correlation, np.eye(3))
        matrix = np.asarray(table.variables["err_corr_systematic_reflectance"], float)
        np.testing.assert_allclose(systematic.correlation, matrix[np.ix_(places, places)], atol=5e-3)


def test_bands_without_names_can_be_named(rng):
    dataset = make_table(rng).assign_coords(band=[490.0, 560.0, 665.0])
    with pytest.raises(ValueError, match="bands along band have no names"):
        EffectsTable.read(dataset)
    assert EffectsTable.read(dataset, ["B03"], band_names=BANDS).places == (1,)
    with pytest.raises(ValueError, match="has 3 bands; 2 names"):
        EffectsTable.read(dataset, band_names=BANDS[:2])


def change(dataset, name, **attrs):
    dataset[name].attrs = {**dataset[name].attrs, **attrs}


def without(dataset, name, key):
    dataset[name].attrs = {k: v for k, v in dataset[name].attrs.items() if k != key}


@pytest.mark.parametrize(
    ("spoil", "options", "message"),
    [
        (lambda d: without(d, "reflectance", "unc_comps"), {}, "no variable has the attribute unc_comps"),
        (lambda d: change(d, "reflectance", unc_comps=["u_a"]), {}, "names u_a; there is no such variable"),
        (
            lambda d: change(d, "u_noise", unc_comps=["u_gain"]),
            {},
            "say of which with --uncertainty-variable",
        ),
        (lambda d: None, {"variable": "u_noise"}, "u_noise has no unc_comps; reflectance have"),
        (lambda d: None, {"bands": ["B02", "B08"]}, "has no band B08; it has B02, B03, B04"),
        (lambda d: None, {"structured": "ignored"}, "is 'ignored'; use random"),
        (lambda d: without(d, "u_noise", "units"), {}, "u_noise has no units"),
        (lambda d: change(d, "u_noise", units="K"), {}, "u_noise has the units 'K', reflectance has '1'"),
        (lambda d: change(d, "reflectance", units="%"), {}, "has the units '1', reflectance has '%'"),
        (lambda d: without(d, "u_noise", "err_corr_1_form"), {}, "needs err_corr_1_dim and err_corr_1_form"),
        (
            lambda d: change(d, "u_noise", err_corr_2_dim=["band", "y"]),
            {},
            "two error correlations along band",
        ),
        (
            lambda d: change(d, "u_noise", err_corr_1_params=["R"]),
            {},
            "it is R, and there is no such variable",
        ),
        (lambda d: change(d, "u_noise", err_corr_1_params=[]), {}, "it is empty, and there is no such"),
        (lambda d: change(d, "u_noise", err_corr_1_params=["u_gain"]), {}, "u_gain has shape (3, 6, 8)"),
        (
            lambda d: change(d, "u_noise", err_corr_1_form="ensemble"),
            {},
            "'ensemble' along band; known there",
        ),
        (
            lambda d: change(d, "u_noise", err_corr_1_dim=["band", "x"], err_corr_2_dim=["y"]),
            {},
            "the dimension band needs one of its own",
        ),
        (lambda d: d.err_corr_band.values.__setitem__((0, 1), 1.5), {}, "correlations lie in [-1, 1]"),
        (lambda d: d.err_corr_band.values.__setitem__((0, 1), 0.5), {}, "is not symmetric"),
    ],
)
def test_bad_tables_are_one_clear_line(rng, spoil, options, message):
    dataset = make_table(rng)
    dataset["err_corr_band"] = dataset.err_corr_band.copy(data=R.copy())
    spoil(dataset)
    with pytest.raises(ValueError) as error:
        EffectsTable.read(dataset, **{"name": "t.nc", **options})
    assert message in str(error.value) and "\n" not in str(error.value)
    assert str(error.value).startswith("t.nc")


def test_wrong_dimensions(rng):
    dataset = make_table(rng)
    dataset["u_noise"] = dataset.u_noise.rename(y="row")
    with pytest.raises(
        ValueError, match=r"u_noise has the dimensions band, row, x; those of reflectance are"
    ):
        EffectsTable.read(dataset)
    with pytest.raises(ValueError, match="one of them has to count the bands"):
        EffectsTable.read(make_table(rng).rename(band="k").drop_vars("k"))


def test_units_can_be_said(rng):
    dataset = make_table(rng)
    without(dataset, "u_noise", "units")
    assert EffectsTable.read(dataset, units="%").effects[0].relative
    assert not EffectsTable.read(dataset, units="1").effects[0].relative


def test_flags(rng):
    dataset = make_table(rng)
    flags = {"flag_meanings": "cloud glint shadow", "flag_masks": "1, 2, 4"}
    dataset["quality"] = (("y", "x"), np.zeros((6, 8), np.uint8), flags)
    table = EffectsTable.read(dataset)
    assert table.flag_bits(dataset, ["cloud", "shadow"]) == {"quality": 5}
    with pytest.raises(ValueError, match="no flag is called haze; there are cloud, glint, shadow"):
        table.flag_bits(dataset, ["haze"])


def test_a_component_without_pixels_says_how_its_errors_are_correlated_along_them(rng):
    dataset = make_table(rng)
    dataset["u_noise"] = (("band",), [0.01, 0.02, 0.03], attributes("1", ("band", "random")))
    with pytest.raises(ValueError, match="is one number for all of y and does not say"):
        EffectsTable.read(dataset)
