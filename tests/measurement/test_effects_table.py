import tracemalloc

import numpy as np
import pytest
import xarray as xr

from effects_tables import BANDS, RANDOM, SYSTEMATIC, R, attributes, make_table
from uncover.measurement.effects_table import EffectsTable

DIMS = ("band", "y", "x")


@pytest.fixture
def dataset(rng):
    return make_table(rng, components=("u_noise", "u_gain", "u_stripes"))


def pixels(variable):
    """(band, y, x) as (pixel, band)."""
    return variable.values.reshape(3, -1).T


def full_matrix(standard, along):
    """The (pixels·bands)² covariance: the Kronecker product over the dimensions, scaled on both sides."""
    correlation = np.kron(np.kron(along["band"], along["y"]), along["x"])
    u = standard.values.ravel()
    return correlation * (u[:, None] * u)


def band_block(matrix, i, n):
    """The covariance between the bands of pixel i."""
    at = i + n * np.arange(3)
    return matrix[np.ix_(at, at)]


def test_blocks_are_those_of_the_full_matrix(dataset):
    table = EffectsTable.read(dataset)
    eye, one = np.eye, lambda n: np.ones((n, n))
    noise = full_matrix(dataset.u_noise, {"band": R, "y": eye(6), "x": eye(8)})
    gain = full_matrix(dataset.u_gain / 100 * dataset.reflectance, {"band": one(3), "y": one(6), "x": one(8)})
    stripes = full_matrix(dataset.u_stripes, {"band": eye(3), "y": eye(6), "x": one(8)})
    random = table.random(dataset).of_each(48)
    for i in range(48):
        np.testing.assert_allclose(random[i], band_block(noise, i, 48), rtol=1e-12)
    shared = np.mean([band_block(gain + stripes, i, 48) for i in range(48)], axis=0)
    np.testing.assert_allclose(table.systematic(dataset), shared, rtol=1e-12)
    for block in (1, 7, 20):
        np.testing.assert_allclose(table.systematic(dataset, block=block), shared, rtol=1e-12)


def test_simulated_errors_have_these_moments(rng):
    """Within a pixel errors have both covariances, between pixels the systematic one alone."""
    dataset = make_table(rng, height=1, width=3)
    dataset["reflectance"].values[:] = 0.2  # so that the mean over pixels is each pixel's own
    dataset["u_gain"].values[:] = 3.0
    table = EffectsTable.read(dataset)
    random, shared = table.random(dataset).matrices(), table.systematic(dataset)
    worlds = 40_000
    u = pixels(dataset.u_noise)
    noise = u * (rng.normal(size=(worlds, 3, 3)) @ np.linalg.cholesky(R).T)  # (world, pixel, band)
    errors = noise + 0.03 * 0.2 * rng.normal(size=(worlds, 1, 1))  # fully correlated between bands
    for i in range(3):
        for j in range(3):
            found = errors[:, i].T @ errors[:, j] / worlds
            wanted = shared + (random[i] if i == j else 0.0)
            size = np.sqrt(np.diagonal(shared + random[i])[:, None] * np.diagonal(shared + random[j]))
            assert np.abs((found - wanted) / size).max() < 5 * np.sqrt(2 / worlds)


def test_memory_is_that_of_a_block(rng):
    """The full matrix of these 90,000 pixels would take 583 GB."""
    dataset = make_table(rng, height=300, width=300)
    table = EffectsTable.read(dataset)
    tracemalloc.start()
    table.systematic(dataset, block=3000)
    for top in range(0, 300, 10):
        assert len(table.random(dataset, {"y": slice(top, top + 10)}).own) == 3000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


def test_structured_components_count_as_asked(dataset):
    kinds = [effect.between_pixels for effect in EffectsTable.read(dataset).effects]
    assert kinds == ["random", "systematic", "structured"]
    careful = EffectsTable.read(dataset, structured="random")
    assert [effect.name for effect in careful.random_effects()] == ["u_noise", "u_stripes"]
    u = pixels(dataset.u_noise)[:, :, None] * pixels(dataset.u_noise)[:, None, :]
    expected = u * R + pixels(dataset.u_stripes)[:, :, None] ** 2 * np.eye(3)
    np.testing.assert_allclose(careful.random(dataset).matrices(), expected, rtol=1e-12)


def test_blocks_and_bands_are_cut_by_name_and_slice(dataset):
    whole = EffectsTable.read(dataset).random(dataset).matrices().reshape(6, 8, 3, 3)
    table = EffectsTable.read(dataset, ["B4", "B2"])
    part = table.random(dataset, {"y": slice(2, 5), "x": slice(1, 3)}).matrices()
    expected = whole[2:5, 1:3][..., [2, 0], :][..., [2, 0]].reshape(-1, 2, 2)
    np.testing.assert_allclose(part, expected)
    where = np.arange(6).reshape(3, 2) % 2 == 0
    chosen = table.random(dataset, {"y": slice(2, 5), "x": slice(1, 3)}, where).matrices()
    np.testing.assert_allclose(chosen, expected[[0, 2, 4]])


def test_the_order_of_dimensions_does_not_matter(dataset):
    turned = dataset.transpose("y", "band", "x", ...)
    one, other = EffectsTable.read(dataset), EffectsTable.read(turned)
    np.testing.assert_array_equal(one.random(dataset).own, other.random(turned).own)
    np.testing.assert_allclose(one.systematic(dataset), other.systematic(turned), rtol=1e-12)


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_a_file_says_the_same(dataset, tmp_path, suffix):
    path = tmp_path / f"table.{suffix}"
    if suffix == "nc":
        dataset.to_netcdf(path, engine="h5netcdf")
    else:
        dataset.to_zarr(path, zarr_format=2)
    with xr.open_dataset(path, engine="h5netcdf" if suffix == "nc" else "zarr") as stored:
        table = EffectsTable.read(stored)
        np.testing.assert_array_equal(
            table.random(stored).own, EffectsTable.read(dataset).random(dataset).own
        )
        expected = EffectsTable.read(dataset).systematic(dataset)
        np.testing.assert_array_equal(table.systematic(stored), expected)


def test_one_component_is_a_string_in_netcdf(rng, tmp_path):
    dataset = make_table(rng, components=("u_noise",))
    dataset.to_netcdf(tmp_path / "t.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "t.nc", engine="h5netcdf") as stored:
        assert stored.reflectance.attrs["unc_comps"] == "u_noise"
        assert [effect.name for effect in EffectsTable.read(stored).effects] == ["u_noise"]


def test_components_can_be_one_number_for_all_pixels_or_bands(rng):
    dataset = make_table(rng)
    random = attributes("1", ("band", "err_corr_matrix", "err_corr_band"), (["y", "x"], "random"))
    dataset["u_noise"] = (("band",), [0.01, 0.02, 0.03], random)
    table = EffectsTable.read(dataset)
    found = table.random(dataset, {"y": slice(0, 2)})
    assert found.factor is None and found.own is None  # one matrix for all pixels
    dataset["u_noise"] = (("y", "x"), rng.uniform(0.01, 0.02, (6, 8)), random)
    found = EffectsTable.read(dataset).random(dataset)
    assert found.own is None and found.factor.shape == (48,)  # multiples of one matrix
    np.testing.assert_allclose(found.variances()[:, 1], dataset.u_noise.values.ravel() ** 2, rtol=1e-12)
    dataset["u_noise"] = (("y",), rng.uniform(0.01, 0.02, 6), random)
    found = EffectsTable.read(dataset).random(dataset)
    np.testing.assert_allclose(found.variances()[::8, 1], dataset.u_noise.values**2, rtol=1e-12)
    dataset["u_noise"] = (("band",), [0.01, 0.02, 0.03], attributes("1", ("band", "random")))
    with pytest.raises(ValueError, match="is one number for all of y and does not say"):
        EffectsTable.read(dataset)


def test_dimensions_that_are_not_named_are_random(rng):
    dataset = make_table(rng, components=("u_noise",))
    dataset["u_noise"].attrs = {"units": "1"}
    assert EffectsTable.read(dataset).random_effects()[0].correlation.tolist() == np.eye(3).tolist()


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


def test_a_dimension_of_length_one_correlates_nothing(rng):
    dataset = make_table(rng, components=("u_noise",)).expand_dims("time")
    dataset["u_noise"].attrs = attributes("1", ("time", "systematic"), (["band", "y", "x"], "random"))
    dataset = dataset.assign_coords(err_corr_band=(("band1", "band2"), R))
    table = EffectsTable.read(dataset)
    assert table.effects[0].between_pixels == "random"
    assert table.random(dataset).own.shape == (48, 3)


def test_pixels_without_uncertainty(dataset):
    table = EffectsTable.read(dataset)
    expected = table.systematic(dataset)
    dataset["u_noise"][1, 2, 3] = np.nan
    with pytest.raises(ValueError, match="u_noise has no value for some of the pixels"):
        table.random(dataset)
    where = np.isfinite(dataset.u_noise.values).all(0)
    assert len(table.random(dataset, where=where).own) == 47
    np.testing.assert_array_equal(table.systematic(dataset), expected)
    dataset["u_gain"][:, 1:] = np.nan
    one_row = {"y": slice(0, 1)}
    parts = [table.standard(dataset, effect, one_row) for effect in table.systematic_effects()]
    expected = parts[0].T @ parts[0] / 8 + np.diag((parts[1] ** 2).mean(0))
    np.testing.assert_allclose(table.systematic(dataset), expected, rtol=1e-12)
    dataset["u_gain"][:] = np.nan
    with pytest.raises(ValueError, match="no pixel has an uncertainty in u_gain"):
        table.systematic(dataset)


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
        (lambda d: None, {"structured": "ignored"}, "between_pixels is 'ignored'"),
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


def test_flags(dataset):
    flags = {"flag_meanings": "cloud glint shadow", "flag_masks": "1, 2, 4"}
    values = np.random.default_rng(1).integers(0, 8, (6, 8)).astype(np.uint8)
    dataset["quality"] = (("y", "x"), values, flags)
    table = EffectsTable.read(dataset)
    found = table.flagged(dataset, ["cloud", "shadow"], {"y": slice(1, 4)})
    np.testing.assert_array_equal(found, (values[1:4] & 5) != 0)
    with pytest.raises(ValueError, match="no flag is called haze; there are cloud, glint, shadow"):
        table.flagged(dataset, ["haze"])


@pytest.mark.filterwarnings("ignore")
def test_tables_that_obsarray_makes(rng, tmp_path):
    """Where obsarray is installed: it writes the table, and its full matrix holds our blocks."""
    pytest.importorskip("obsarray", reason="obsarray is not installed; its tables are written by hand above")
    made = make_table(rng, height=3, width=4)
    dataset = made[["reflectance", "err_corr_band"]]
    dataset["reflectance"].attrs = {"units": "1"}

    def entries(attrs):
        keys = [i for i in (1, 2, 3) if f"err_corr_{i}_dim" in attrs]
        return [{k: attrs[f"err_corr_{i}_{k}"] for k in ("dim", "form", "params", "units")} for i in keys]

    for name, attrs in (("u_noise", RANDOM), ("u_gain", SYSTEMATIC)):
        definition = {"units": attrs["units"], "pdf_shape": "gaussian", "err_corr": entries(attrs)}
        dataset.unc["reflectance"][name] = (list(DIMS), made[name].values, definition)
        assert dataset[name].attrs == made[name].attrs
    dataset.to_netcdf(tmp_path / "t.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "t.nc", engine="h5netcdf") as stored:
        table = EffectsTable.read(stored)
        random, shared = table.random(stored).matrices(), table.systematic(stored)
    noise = dataset.unc["reflectance"]["u_noise"].err_cov_matrix().values
    gain = dataset.unc["reflectance"]["u_gain"].err_cov_matrix().values
    for i in range(12):
        np.testing.assert_allclose(random[i], band_block(noise, i, 12), rtol=1e-10)
    np.testing.assert_allclose(shared, np.mean([band_block(gain, i, 12) for i in range(12)], 0), rtol=1e-10)
