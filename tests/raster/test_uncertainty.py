import json
import pickle

import numpy as np
import pytest
import rasterio
from rasterio.transform import from_origin

from effects_tables import BANDS, R, attributes, make_table
from safe_trees import shared
from uncover.raster import (
    Grid,
    SceneError,
    UncertaintyOptions,
    UncertaintyWarning,
    Window,
    open_uncertainty,
    scene_from_array,
)
from uncover.raster.common_effects import common_of
from uncover.raster.observed import SceneWithNoise

GRID = Grid("EPSG:32633", (10, 0, 300000, 0, -10, 5000000), width=8, height=6)
RANDOM = UncertaintyOptions(between_pixels="random")


@pytest.fixture
def reflectance(rng):
    return rng.uniform(0.02, 0.5, (3, 6, 8)).astype(np.float32)


def write(path, planes, names=BANDS, origin=(300000, 5000000), metres=10, crs="EPSG:32633", **options):
    count, height, width = planes.shape
    scale = options.pop("scale", None)
    with rasterio.open(
        path, "w", driver="GTiff", width=width, height=height, count=count, dtype=planes.dtype, crs=crs,
        transform=from_origin(*origin, metres, metres), **options,
    ) as dataset:  # fmt: skip
        dataset.write(planes)
        if names is not None:
            dataset.descriptions = names
        if scale is not None:
            dataset.scales = (scale,) * count
    return path


def correlation_file(folder):
    lines = [
        "," + ",".join(BANDS),
        *(f"{b}," + ",".join(map(str, row)) for b, row in zip(BANDS, R, strict=True)),
    ]
    path = folder / "corr.csv"
    path.write_text("\n".join(lines))
    return path


def expected(u):
    """Covariances (row, col, band, band) from standard uncertainties (band, row, col)."""
    u = np.moveaxis(u.astype(np.float64), 0, -1)
    return R * u[..., :, None] * u[..., None, :]


# Rasters


def test_a_raster_with_a_band_for_each(tmp_path, rng, reflectance):
    u = rng.uniform(0.001, 0.01, (3, 6, 8)).astype(np.float32)
    path = write(tmp_path / "u.tif", u[[2, 0, 1]], names=("B4", "B2", "B3"))
    options = UncertaintyOptions(between_pixels="random", correlation=correlation_file(tmp_path))
    uncertainty = open_uncertainty(path, GRID, BANDS, options)
    assert uncertainty.systematic is None
    window = Window(1, 2, 3, 4)
    block = uncertainty.read(window, reflectance[:, *window.slices])
    found = block.covariances.matrices().reshape(3, 4, 3, 3)
    np.testing.assert_allclose(found, expected(u)[window.slices], rtol=1e-12)
    assert block.valid.all()
    assert uncertainty.facts()["quantities"][0]["between_pixels"] == "random"


def test_windows_do_not_matter(tmp_path, rng, reflectance):
    path = write(tmp_path / "u.tif", rng.uniform(0.001, 0.01, (3, 6, 8)).astype(np.float32))
    uncertainty = open_uncertainty(path, GRID, BANDS, RANDOM)
    whole = uncertainty.read(GRID.window, reflectance).covariances.variances().reshape(6, 8, 3)
    for window in GRID.blocks(3):
        part = uncertainty.read(window, reflectance[:, *window.slices]).covariances.variances()
        np.testing.assert_array_equal(part.reshape(*window.shape, 3), whole[window.slices])


def test_one_band_for_all_gives_multiples_of_one_matrix(tmp_path, rng, reflectance):
    u = rng.uniform(0.001, 0.01, (1, 6, 8)).astype(np.float32)
    path = write(tmp_path / "u.tif", u, names=None)
    options = UncertaintyOptions(between_pixels="random", correlation=correlation_file(tmp_path))
    covariances = open_uncertainty(path, GRID, BANDS, options).read(GRID.window, reflectance).covariances
    assert covariances.own is None
    found = covariances.matrices().reshape(6, 8, 3, 3)
    np.testing.assert_allclose(found, expected(np.repeat(u, 3, 0)), rtol=1e-12)


def test_per_cent_is_of_the_scene(tmp_path, reflectance):
    path = write(tmp_path / "u.tif", np.full((3, 6, 8), 5, np.float32))
    options = UncertaintyOptions(between_pixels="random", units="%")
    found = open_uncertainty(path, GRID, BANDS, options).read(GRID.window, reflectance).covariances
    wanted = (0.05 * reflectance.astype(np.float64)).reshape(3, -1).T ** 2
    np.testing.assert_allclose(found.variances(), wanted, rtol=1e-12)


def test_scale_of_the_file_and_of_the_user(tmp_path, reflectance):
    numbers = np.full((3, 6, 8), 50, np.uint16)
    path = write(tmp_path / "u.tif", numbers, scale=1e-4)
    found = open_uncertainty(path, GRID, BANDS, RANDOM).read(GRID.window, reflectance).covariances
    np.testing.assert_allclose(found.variances()[0], 0.005**2)
    path = write(tmp_path / "v.tif", numbers)
    with pytest.raises(SceneError, match="uint16 numbers without a scale"):
        open_uncertainty(path, GRID, BANDS, RANDOM)
    options = UncertaintyOptions(between_pixels="random", scale=1e-4)
    found = open_uncertainty(path, GRID, BANDS, options).read(GRID.window, reflectance).covariances
    np.testing.assert_allclose(found.variances()[0], 0.005**2)


@pytest.mark.filterwarnings("ignore:.* covers about")
def test_nodata_is_no_uncertainty_of_zero(tmp_path, reflectance):
    u = np.full((3, 6, 8), 0.01, np.float32)
    u[1, 2, 3] = -1
    path = write(tmp_path / "u.tif", u[:, :, :6], nodata=-1)  # two columns of the scene are not covered
    reflectance[0, 0, 0] = np.nan
    block = open_uncertainty(path, GRID, BANDS, RANDOM).read(GRID.window, reflectance)
    valid = np.ones((6, 8), bool)
    valid[:, 6:] = valid[2, 3] = valid[0, 0] = False
    np.testing.assert_array_equal(block.valid, valid)
    scene = scene_from_array(reflectance, GRID, BANDS)
    assert len(scene.read().samples(block.valid)) == valid.sum()


def test_a_band_without_a_value_needs_no_uncertainty(tmp_path, rng, reflectance):
    u = rng.uniform(0.01, 0.02, (3, 6, 8)).astype(np.float32)
    u[1, 2, 3] = np.nan
    reflectance[1, 2, 3] = np.nan
    reflectance[2, 4, 4] = np.nan
    path = write(tmp_path / "u.tif", u)
    uncertainty = open_uncertainty(path, GRID, BANDS, RANDOM)
    assert uncertainty.read(GRID.window, reflectance).valid.sum() == 46
    block = uncertainty.read(GRID.window, reflectance, where=np.isfinite(reflectance).any(0))
    assert block.valid.all()
    assert np.all(np.isfinite(block.covariances.variances()))


def test_coarser_pixels_and_other_projections(tmp_path, rng, reflectance):
    u = rng.uniform(0.001, 0.01, (3, 3, 4)).astype(np.float32)
    path = write(tmp_path / "u.tif", u, metres=20)
    found = open_uncertainty(path, GRID, BANDS, RANDOM).read(GRID.window, reflectance).covariances
    fine = np.repeat(np.repeat(u, 2, 1), 2, 2).astype(np.float64)
    np.testing.assert_allclose(found.variances(), fine.reshape(3, -1).T ** 2, rtol=1e-12)
    constant = np.full((3, 40, 40), 0.01, np.float32)
    path = write(tmp_path / "v.tif", constant, origin=(12.45, 45.2), metres=0.005, crs="EPSG:4326")
    block = open_uncertainty(path, GRID, BANDS, RANDOM).read(GRID.window, reflectance)
    assert block.valid.all()
    np.testing.assert_allclose(block.covariances.variances(), 1e-4, rtol=1e-6)


def test_a_systematic_raster_is_one_matrix(tmp_path, rng, reflectance):
    u = rng.uniform(0.001, 0.01, (3, 6, 8)).astype(np.float32)
    u[:, 5] = np.nan
    path = write(tmp_path / "u.tif", u)
    corr = correlation_file(tmp_path)
    options = UncertaintyOptions(between_pixels="systematic", correlation=corr)
    uncertainty = open_uncertainty(path, GRID, BANDS, options)
    assert uncertainty.read(GRID.window, reflectance).covariances is None
    wanted = expected(u[:, :5]).reshape(-1, 3, 3).mean(0)
    np.testing.assert_allclose(uncertainty.systematic, wanted, rtol=1e-12)
    assert uncertainty.systematic is uncertainty.systematic
    crop = open_uncertainty(path, GRID.crop(Window(2, 2, 2, 2)), BANDS, options)
    np.testing.assert_allclose(
        crop.systematic, expected(u[:, 2:4, 2:4]).reshape(-1, 3, 3).mean(0), rtol=1e-12
    )


def test_a_systematic_raster_in_per_cent_needs_a_reference(tmp_path):
    path = write(tmp_path / "u.tif", np.full((3, 6, 8), 10, np.float32))
    options = UncertaintyOptions(between_pixels="systematic", units="%")
    with pytest.raises(SceneError, match="it needs the scene's values, or a reference spectrum"):
        open_uncertainty(path, GRID, BANDS, options).systematic
    options = UncertaintyOptions(between_pixels="systematic", units="%", reference=(0.1, 0.2, 0.3))
    found = open_uncertainty(path, GRID, BANDS, options).systematic
    np.testing.assert_allclose(found, np.diag([1e-4, 4e-4, 9e-4]), rtol=1e-12)


@pytest.mark.parametrize("kind", ["raster", "table"])
def test_systematic_uncertainty_in_per_cent_is_taken_at_the_scene(tmp_path, reflectance, kind):
    """The mean over pixels of (u·|ρ|)², by hand."""
    scene = scene_from_array(reflectance.astype(np.float32), GRID, BANDS)
    path = tmp_path / "u.csv"
    path.write_text("band,u_pct\nB02,10\nB03,10\nB04,10\n")
    if kind == "raster":
        path = write(tmp_path / "u.tif", np.full((3, 6, 8), 10, np.float32))
    options = UncertaintyOptions(between_pixels="systematic", units="%")
    found = open_uncertainty(path, GRID, BANDS, options, scene).systematic
    rows = reflectance.astype(np.float32).reshape(3, -1)
    rows = rows[:, np.isfinite(rows).all(axis=0)]
    np.testing.assert_allclose(np.diagonal(found), ((0.1 * rows.astype(float)) ** 2).mean(1), rtol=1e-6)


def test_effects_common_to_all_scenes_cancel_only_where_the_model_has_them(tmp_path, reflectance):
    path = tmp_path / "gain.csv"
    path.write_text("band,u\nB02,0.01\nB03,0.02\nB04,0.03\n")
    options = UncertaintyOptions("systematic", "common", effect_name="gain")
    scene = scene_from_array(reflectance.astype(np.float32), GRID, BANDS)
    noisy = SceneWithNoise.of(scene, open_uncertainty(path, GRID, BANDS, options, scene))
    assert noisy.systematic is None
    square = np.diag([1e-4, 4e-4, 9e-4])
    np.testing.assert_allclose(noisy.with_common({}).systematic, square)
    assert noisy.with_common(common_of({"gain": square}, ())).systematic is None
    np.testing.assert_allclose(noisy.with_common(common_of({"other": square}, ())).systematic, 2 * square)
    assert noisy.with_common(common_of({"gain": square}, ())).facts()["cancelled"] == ["gain"]


def test_digital_numbers_are_named(tmp_path):
    path = write(tmp_path / "u.tif", np.full((3, 6, 8), 80, np.float32))
    with pytest.warns(UncertaintyWarning, match="near 80, and reflectance lies between 0 and 1"):
        open_uncertainty(path, GRID, BANDS, RANDOM)


@pytest.mark.parametrize(
    ("names", "bands", "options", "message"),
    [
        (BANDS, ("B02", "B08"), RANDOM, "has no band B08; it has B02, B03, B04"),
        (None, BANDS, RANDOM, "some without a name; give their names in order"),
        (None, BANDS, UncertaintyOptions("random", bands=("B02",)), "has 3 bands; 1 names were given"),
        (BANDS, BANDS, None, "does not say whether errors are independent between pixels"),
        (BANDS, BANDS, UncertaintyOptions("both"), "is 'both'; use random"),
        (BANDS, BANDS, UncertaintyOptions("random", units="K"), "has the units 'K'"),
        (BANDS, BANDS, UncertaintyOptions("random", correlation="no.csv"), "no.csv does not exist"),
        (BANDS, BANDS, UncertaintyOptions("random", reference=(1.0,)), "reference has 1 numbers"),
    ],
)
def test_bad_rasters_are_one_clear_line(tmp_path, names, bands, options, message):
    path = write(tmp_path / "u.tif", np.full((3, 6, 8), 0.01, np.float32), names=names)
    with pytest.raises(SceneError) as error:
        open_uncertainty(path, GRID, bands, options)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_elsewhere_absent_negative_or_of_another_shape(tmp_path, reflectance):
    path = write(tmp_path / "u.tif", np.full((3, 6, 8), -0.01, np.float32))
    with pytest.raises(SceneError, match=r"standard uncertainty of -0\.01"):
        open_uncertainty(path, GRID, BANDS, RANDOM).read(GRID.window, reflectance)
    with pytest.raises(SceneError, match=r"\(3, 2, 2\) is needed"):
        open_uncertainty(path, GRID, BANDS, RANDOM).read(Window(0, 0, 2, 2), reflectance)
    elsewhere = Grid("EPSG:32633", (10, 0, 500000, 0, -10, 5000000), width=8, height=6)
    with pytest.raises(SceneError, match="does not overlap the scene"):
        open_uncertainty(path, elsewhere, BANDS, RANDOM)
    with pytest.raises(SceneError, match="does not exist"):
        open_uncertainty(tmp_path / "no.tif", GRID, BANDS, RANDOM)


# Effects tables


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_a_table_can_be_stored_as_netcdf_or_zarr_and_pickled(tmp_path, rng, suffix):
    dataset = make_table(rng, components=("u_noise", "u_gain", "u_stripes"))
    path = tmp_path / f"table.{suffix}"
    dataset.to_netcdf(path, engine="h5netcdf") if suffix == "nc" else dataset.to_zarr(path, zarr_format=2)
    uncertainty = open_uncertainty(path, GRID, ("B4", "B2"))
    values = dataset.reflectance.sel(band=["B04", "B02"]).values
    window = Window(1, 2, 4, 5)
    block = uncertainty.read(window, values[:, *window.slices])
    u = dataset.u_noise.sel(band=["B04", "B02"]).values[:, *window.slices].reshape(2, -1).T
    noise = R[np.ix_([2, 0], [2, 0])] * u[:, :, None] * u[:, None, :]
    np.testing.assert_allclose(block.covariances.matrices(), noise, rtol=1e-12)
    again = pickle.loads(pickle.dumps(uncertainty))
    np.testing.assert_array_equal(again.read(window, values[:, *window.slices]).valid, block.valid)
    assert [effect["between_pixels"] for effect in uncertainty.facts()["quantities"]] == [
        "random",
        "systematic",
        "systematic",
    ]
    json.dumps(uncertainty.facts())


@pytest.mark.filterwarnings("ignore:t.nc covers about 42% of the scene")
def test_a_part_of_a_table_and_a_part_of_a_scene(tmp_path, rng, reflectance):
    dataset = make_table(rng, height=4, width=5, grid=(300020.0, 4999990.0, 10.0))
    dataset.to_netcdf(tmp_path / "t.nc", engine="h5netcdf")
    block = open_uncertainty(tmp_path / "t.nc", GRID, BANDS).read(GRID.window, reflectance)
    covered = np.zeros((6, 8), bool)
    covered[1:5, 2:7] = True
    np.testing.assert_array_equal(block.valid, covered)
    u = dataset.u_noise.values.reshape(3, -1).T
    np.testing.assert_allclose(block.covariances.matrices(), R * u[:, :, None] * u[:, None, :], rtol=1e-12)


def test_components_with_fewer_dimensions(tmp_path, rng, reflectance):
    dataset = make_table(rng)
    along = attributes("1", ("band", "err_corr_matrix", "err_corr_band"), (["y", "x"], "random"))
    dataset["u_noise"] = (
        ("band",),
        [0.01, 0.02, 0.03],
        {k: v for k, v in along.items() if k != "_FillValue"},
    )
    dataset.to_netcdf(tmp_path / "t.nc", engine="h5netcdf")
    found = open_uncertainty(tmp_path / "t.nc", GRID, BANDS).read(GRID.window, reflectance).covariances
    np.testing.assert_allclose(found.of_each(48)[7], R * np.outer([1, 2, 3], [1, 2, 3]) * 1e-4)
    dataset["u_noise"] = (("y",), np.full(6, 0.01), {k: v for k, v in along.items() if k != "_FillValue"})
    dataset.to_netcdf(tmp_path / "s.nc", engine="h5netcdf")
    with pytest.raises(SceneError, match="u_noise runs along y only"):
        open_uncertainty(tmp_path / "s.nc", GRID, BANDS)


def test_flagged_pixels_are_not_valid(tmp_path, rng, reflectance):
    dataset = make_table(rng)
    flags = rng.integers(0, 4, (6, 8)).astype(np.uint8)
    dataset["quality"] = (("y", "x"), flags, {"flag_meanings": "cloud glint", "flag_masks": "1, 2"})
    dataset.to_netcdf(tmp_path / "t.nc", engine="h5netcdf")
    options = UncertaintyOptions(exclude_flags=("glint",))
    block = open_uncertainty(tmp_path / "t.nc", GRID, BANDS, options).read(GRID.window, reflectance)
    np.testing.assert_array_equal(block.valid, flags & 2 == 0)
    with pytest.raises(SceneError, match="no flag is called haze; there are cloud, glint"):
        open_uncertainty(tmp_path / "t.nc", GRID, BANDS, UncertaintyOptions(exclude_flags=("haze",)))


def test_bad_tables_are_one_clear_line(tmp_path, rng):
    dataset = make_table(rng)
    twice = dataset.drop_vars("err_corr_band").expand_dims(time=[0, 1])
    twice["err_corr_band"] = dataset.err_corr_band
    twice.to_netcdf(tmp_path / "time.nc", engine="h5netcdf")
    with pytest.raises(SceneError, match="no other that is longer than one"):
        open_uncertainty(tmp_path / "time.nc", GRID, BANDS)
    radiance = make_table(rng, components=("u_gain",))
    radiance["reflectance"].attrs["units"] = "W m-2 sr-1 um-1"
    radiance.to_netcdf(tmp_path / "radiance.nc", engine="h5netcdf")
    with pytest.raises(SceneError, match="has the units 'W m-2 sr-1 um-1'; a scene has reflectance"):
        open_uncertainty(tmp_path / "radiance.nc", GRID, BANDS)
    dataset["reflectance"].attrs = {"units": "1"}
    dataset.to_netcdf(tmp_path / "bare.nc", engine="h5netcdf")
    with pytest.raises(SceneError, match="no variable has the attribute unc_comps") as error:
        open_uncertainty(tmp_path / "bare.nc", GRID, BANDS)
    assert "\n" not in str(error.value)


# CSV and JSON


def test_published_uncertainty_for_a_scene(reflectance):
    folder = shared("l2a_uncertainty")
    options = UncertaintyOptions(
        between_pixels="systematic", correlation=folder / "corr_L2A_amazon.csv", units="%"
    )
    uncertainty = open_uncertainty(folder / "unc_L2A_amazon_digitised.csv", GRID, BANDS, options)
    assert uncertainty.bands == BANDS
    assert uncertainty.read(GRID.window, reflectance).covariances is None
    np.testing.assert_allclose(
        np.sqrt(np.diagonal(uncertainty.systematic)), [0.00725, 0.00546, 0.00384], rtol=0.02
    )
    at = UncertaintyOptions("systematic", units="%", reference=(0.1, 0.1, 0.1))
    other = open_uncertainty(folder / "unc_L2A_amazon_digitised.csv", GRID, BANDS, at)
    np.testing.assert_allclose(np.sqrt(np.diagonal(other.systematic)), [0.0193, 0.0109, 0.0133], rtol=1e-9)


def test_relative_uncertainty_of_bands_follows_the_pixels(tmp_path, reflectance):
    (tmp_path / "u.csv").write_text("band,u_pct\nB2,5\nB3,5\nB4,5\n")
    reflectance[:, 0, 0] = np.nan
    block = open_uncertainty(tmp_path / "u.csv", GRID, BANDS, RANDOM).read(GRID.window, reflectance)
    values = reflectance[:, block.valid].T.astype(np.float64)
    np.testing.assert_allclose(block.covariances.variances(), (0.05 * values) ** 2)
    assert len(values) == 47
    shared_by_all = open_uncertainty(tmp_path / "u.csv", GRID, BANDS, UncertaintyOptions("systematic"))
    with pytest.raises(SceneError, match="reference spectrum"):
        shared_by_all.systematic


def test_band_files_in_per_cent_by_mistake(tmp_path):
    (tmp_path / "u.csv").write_text("band,u\nB2,5\nB3,5\nB4,5\n")
    with pytest.warns(UncertaintyWarning, match="near 5"):
        open_uncertainty(tmp_path / "u.csv", GRID, BANDS, RANDOM)
    with pytest.raises(SceneError, match=r"u\.csv has no band B08"):
        open_uncertainty(tmp_path / "u.csv", GRID, ("B08",), RANDOM)
