"""Covariances from digital effects tables, against the full matrix over all pixels and bands."""

import tracemalloc

import numpy as np
import pytest

from effects_tables import BANDS, RANDOM, SYSTEMATIC, R, attributes, make_table
from uncover.raster import Grid, SceneError, UncertaintyOptions, Window, open_uncertainty

DIMS = ("band", "y", "x")


@pytest.fixture
def dataset(rng):
    return make_table(rng, components=("u_noise", "u_gain", "u_stripes"))


@pytest.fixture
def opened(tmp_path):
    """Stores a dataset and opens it for its own grid; a NetCDF of its own each time."""
    count = iter(range(100))

    def open_it(dataset, bands=BANDS, suffix="nc", **options):
        path = tmp_path / f"t{next(count)}.{suffix}"
        stored = dataset.copy()
        for variable in stored.variables.values():  # xarray writes the fill value itself
            variable.attrs.pop("_FillValue", None)
        to_file = stored.to_netcdf if suffix == "nc" else stored.to_zarr
        to_file(path, **({"engine": "h5netcdf"} if suffix == "nc" else {"zarr_format": 2}))
        height, width = dataset.sizes["y"], dataset.sizes["x"]
        grid = Grid("EPSG:32633", (10, 0, 300000, 0, -10, 5000000), width, height)
        return open_uncertainty(path, grid, bands, UncertaintyOptions(**options))

    return open_it


def random_of(uncertainty, dataset, window=None):
    """Covariances of the random errors of a window's pixels, at the measured values of the table."""
    window = window or uncertainty.grid.window
    height, width = dataset.sizes["y"], dataset.sizes["x"]
    values = dataset.reflectance.sel(band=list(uncertainty.bands)).transpose(..., "band", "y", "x").values
    return uncertainty.read(window, values.reshape(-1, height, width)[:, *window.slices])


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


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_blocks_are_those_of_the_full_matrix(dataset, opened, suffix):
    uncertainty = opened(dataset, suffix=suffix)
    eye, one = np.eye, lambda n: np.ones((n, n))
    noise = full_matrix(dataset.u_noise, {"band": R, "y": eye(6), "x": eye(8)})
    gain = full_matrix(dataset.u_gain / 100 * dataset.reflectance, {"band": one(3), "y": one(6), "x": one(8)})
    stripes = full_matrix(dataset.u_stripes, {"band": eye(3), "y": eye(6), "x": one(8)})
    random = random_of(uncertainty, dataset).covariances.of_each(48)
    for i in range(48):
        np.testing.assert_allclose(random[i], band_block(noise, i, 48), rtol=1e-12)
    shared = np.mean([band_block(gain + stripes, i, 48) for i in range(48)], axis=0)
    np.testing.assert_allclose(uncertainty.systematic, shared, rtol=1e-12)


def test_fractions_in_the_names_of_the_unc_are_per_cent_by_another_name(dataset, opened):
    per_cent = opened(dataset.copy(deep=True))
    gain = {"err_corr_dim1_name": ["band", "y", "x"], "err_corr_dim1_form": "systematic"}
    dataset["u_gain"] = (dataset.u_gain.dims, dataset.u_gain.values / 100, gain)
    fractions = opened(dataset)
    np.testing.assert_allclose(fractions.systematic, per_cent.systematic, rtol=1e-12)
    one, other = (
        next(each for each in table.facts()["quantities"] if each["name"].endswith("u_gain"))
        for table in (per_cent, fractions)
    )
    assert one["units"] == other["units"] == "%"
    np.testing.assert_allclose(one["standard_uncertainty"], other["standard_uncertainty"])


def test_simulated_errors_have_these_moments(rng, opened):
    """Within a pixel errors have both covariances, between pixels the systematic one alone."""
    dataset = make_table(rng, height=2, width=2)
    dataset["reflectance"].values[:] = 0.2  # so that the mean over pixels is each pixel's own
    dataset["u_gain"].values[:] = 3.0
    uncertainty = opened(dataset)
    random, shared = random_of(uncertainty, dataset).covariances.matrices(), uncertainty.systematic
    worlds = 40_000
    u = pixels(dataset.u_noise)
    noise = u * (rng.normal(size=(worlds, 4, 3)) @ np.linalg.cholesky(R).T)  # (world, pixel, band)
    errors = noise + 0.03 * 0.2 * rng.normal(size=(worlds, 1, 1))  # fully correlated between bands
    for i in range(4):
        for j in range(4):
            found = errors[:, i].T @ errors[:, j] / worlds
            wanted = shared + (random[i] if i == j else 0.0)
            size = np.sqrt(np.diagonal(shared + random[i])[:, None] * np.diagonal(shared + random[j]))
            assert np.abs((found - wanted) / size).max() < 5 * np.sqrt(2 / worlds)


def test_memory_is_that_of_the_layers(rng, opened):
    """The full matrix of these 90,000 pixels would take 583 GB; a layer takes 2 MB."""
    dataset = make_table(rng, height=300, width=300)
    uncertainty = opened(dataset)
    tracemalloc.start()
    assert uncertainty.systematic is not None
    for top in range(0, 300, 10):
        assert len(random_of(uncertainty, dataset, Window(top, 0, 10, 300)).covariances.own) == 3000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16_000_000


def test_structured_components_count_as_asked(dataset, opened):
    careful = opened(dataset, structured="random")
    kinds = {each["name"]: each["between_pixels"] for each in careful.facts()["quantities"]}
    assert kinds == {"u_noise": "random", "u_gain": "systematic", "u_stripes": "random"}
    u = pixels(dataset.u_noise)[:, :, None] * pixels(dataset.u_noise)[:, None, :]
    expected = u * R + pixels(dataset.u_stripes)[:, :, None] ** 2 * np.eye(3)
    np.testing.assert_allclose(random_of(careful, dataset).covariances.matrices(), expected, rtol=1e-12)


def test_blocks_and_bands_are_cut_by_name_and_window(dataset, opened):
    whole = random_of(opened(dataset), dataset).covariances.matrices().reshape(6, 8, 3, 3)
    part = random_of(opened(dataset, ["B4", "B2"]), dataset, Window(2, 1, 3, 2)).covariances.matrices()
    expected = whole[2:5, 1:3][..., [2, 0], :][..., [2, 0]].reshape(-1, 2, 2)
    np.testing.assert_allclose(part, expected)


def test_the_order_of_dimensions_does_not_matter(dataset, opened):
    turned = dataset.transpose("y", "band", "x", ...)
    one, other = opened(dataset), opened(turned)
    found = [random_of(each, dataset).covariances.own for each in (one, other)]
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(one.systematic, other.systematic, rtol=1e-12)


def test_components_can_be_one_number_for_all_pixels_or_bands(rng, opened):
    dataset = make_table(rng)
    random = attributes("1", ("band", "err_corr_matrix", "err_corr_band"), (["y", "x"], "random"))
    dataset["u_noise"] = (("band",), [0.01, 0.02, 0.03], random)
    found = random_of(opened(dataset), dataset).covariances.of_each(48)
    np.testing.assert_allclose(found, np.broadcast_to(R * np.outer([1, 2, 3], [1, 2, 3]) * 1e-4, found.shape))
    dataset["u_noise"] = (("y", "x"), rng.uniform(0.01, 0.02, (6, 8)), random)
    found = random_of(opened(dataset), dataset).covariances
    np.testing.assert_allclose(found.variances()[:, 1], dataset.u_noise.values.ravel() ** 2, rtol=1e-12)


def test_a_dimension_of_length_one_correlates_nothing(rng, opened):
    dataset = make_table(rng, components=("u_noise",)).expand_dims("time")
    dataset["u_noise"].attrs = attributes("1", ("time", "systematic"), (["band", "y", "x"], "random"))
    dataset = dataset.assign_coords(err_corr_band=(("band1", "band2"), R))
    uncertainty = opened(dataset)
    assert uncertainty.systematic is None
    assert random_of(uncertainty, dataset).covariances.own.shape == (48, 3)


def test_pixels_without_uncertainty(dataset, opened):
    expected = opened(dataset).systematic
    dataset["u_noise"][1, 2, 3] = np.nan
    uncertainty = opened(dataset)
    block = random_of(uncertainty, dataset)
    np.testing.assert_array_equal(block.valid, np.isfinite(dataset.u_noise.values).all(0))
    assert len(block.covariances.own) == 47
    np.testing.assert_array_equal(uncertainty.systematic, expected)
    dataset["u_gain"][:, 1:] = np.nan
    row = dataset.isel(y=0)
    gain, stripes = (row.u_gain / 100 * row.reflectance).values, row.u_stripes.values
    expected = gain @ gain.T / 8 + np.diag((stripes**2).mean(axis=1))
    np.testing.assert_allclose(opened(dataset).systematic, expected, rtol=1e-12)
    dataset["u_gain"][:] = np.nan
    with pytest.raises(SceneError, match="no pixel of the scene has an uncertainty in u_gain"):
        _ = opened(dataset).systematic


@pytest.mark.filterwarnings("ignore")
def test_tables_that_obsarray_makes(rng, opened):
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
    uncertainty = opened(dataset)
    random, shared = random_of(uncertainty, dataset).covariances.matrices(), uncertainty.systematic
    noise = dataset.unc["reflectance"]["u_noise"].err_cov_matrix().values
    gain = dataset.unc["reflectance"]["u_gain"].err_cov_matrix().values
    for i in range(12):
        np.testing.assert_allclose(random[i], band_block(noise, i, 12), rtol=1e-10)
    np.testing.assert_allclose(shared, np.mean([band_block(gain, i, 12) for i in range(12)], 0), rtol=1e-10)
