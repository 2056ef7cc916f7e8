import numpy as np
import pytest
import xarray as xr
from rasterio.crs import CRS

from uncover.raster import Quality, ReadError, SceneError, SceneOptions, Window, open_scene

WKT = CRS.from_epsg(32633).to_wkt()


@pytest.fixture
def values():
    return np.random.default_rng(0).uniform(0, 0.5, (4, 30, 40)).astype(np.float32)


def stacked(values, bands=("B2", "B3", "B4", "B8"), dims=("band", "y", "x")):
    array = xr.DataArray(
        values,
        dims=("band", "y", "x"),
        coords={
            "band": list(bands),
            "y": 5000000 - 5 - 10.0 * np.arange(values.shape[1]),
            "x": 300005 + 10.0 * np.arange(values.shape[2]),
            "spatial_ref": ((), 0, {"crs_wkt": WKT}),
        },
        attrs={"grid_mapping": "spatial_ref"},
    )
    return array.transpose(*dims).to_dataset(name="reflectance")


def save(dataset, path):
    if path.suffix == ".zarr":
        dataset.to_zarr(path, zarr_format=2)
    else:
        dataset.to_netcdf(path, engine="h5netcdf")
    return path


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
@pytest.mark.parametrize("dims", [("band", "y", "x"), ("y", "x", "band")])
def test_one_variable_with_a_band_axis_in_any_order(tmp_path, values, suffix, dims):
    values[0, 3, 4] = np.nan
    scene = open_scene(save(stacked(values, dims=dims), tmp_path / f"a{suffix}"))
    assert scene.bands == ("B02", "B03", "B04", "B08")
    assert scene.grid.crs == "EPSG:32633"
    assert scene.grid.bounds == (300000, 5000000 - 300, 300400, 5000000)
    block = scene.read(Window(2, 3, 10, 20))
    np.testing.assert_array_equal(block.reflectance, values[:, 2:12, 3:23])
    assert block.quality[1, 1] == Quality.PARTIAL


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
def test_one_variable_per_band_with_cf_scaling(tmp_path, values, suffix):
    dataset = stacked(values)
    separate = xr.Dataset({f"B{i}": dataset.reflectance.isel(band=i - 2, drop=True) for i in (2, 3)})
    packed = {"dtype": "uint16", "scale_factor": 1e-4, "add_offset": 0.0, "_FillValue": 65535}
    for name in separate:
        separate[name].attrs.pop("grid_mapping")
        separate[name].encoding = {**packed, "grid_mapping": "spatial_ref"}
    scene = open_scene(save(separate, tmp_path / f"a{suffix}"))
    assert scene.bands == ("B02", "B03")
    assert scene.grid.crs == "EPSG:32633"
    np.testing.assert_allclose(scene.read().reflectance, values[:2], atol=6e-5)


def test_degrees_and_rows_from_south_to_north(tmp_path, values):
    dataset = xr.DataArray(
        values,
        dims=("band", "lat", "lon"),
        coords={"lat": 45 + 0.1 * np.arange(30), "lon": 7 + 0.1 * np.arange(40)},
    ).to_dataset(name="r")
    scene = open_scene(save(dataset, tmp_path / "a.nc"))
    assert scene.grid.crs == "EPSG:4326"
    assert scene.bands == ("band_1", "band_2", "band_3", "band_4")
    x, y = scene.grid.centres(Window(0, 0, 1, 1))
    np.testing.assert_allclose((x.item(), y.item()), (7, 45))
    np.testing.assert_array_equal(scene.read().reflectance, values)


def test_netcdf_3_as_well(tmp_path, values):
    dataset = stacked(values)
    dataset.to_netcdf(tmp_path / "a.nc", engine="scipy", format="NETCDF3_64BIT")
    np.testing.assert_array_equal(open_scene(tmp_path / "a.nc").read().reflectance, values)


def test_what_cannot_be_read(tmp_path, values):
    dataset = stacked(values)
    with pytest.raises(SceneError, match="no band B11"):
        open_scene(save(dataset, tmp_path / "a.nc"), SceneOptions(bands=("B11",)))
    with pytest.raises(SceneError, match="without a scale"):
        open_scene(save((dataset * 10000).astype("int16"), tmp_path / "b.nc"))
    with pytest.raises(SceneError, match="is a cube"):
        open_scene(save(dataset.expand_dims(realisation=3), tmp_path / "c.nc"))
    with pytest.raises(SceneError, match="not evenly spaced"):
        open_scene(save(dataset.assign_coords(x=np.arange(40.0) ** 2), tmp_path / "d.nc"))
    with pytest.raises(SceneError, match="y and x are needed"):
        open_scene(save(dataset.rename(y="a", x="b"), tmp_path / "e.nc"))
    path = tmp_path / "a.nc"
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(ReadError, match="cannot be opened"):
        open_scene(path)


def test_a_stated_transform_counts_where_the_coordinates_agree(tmp_path, values):
    third = 10 / 3
    dataset = stacked(values).assign_coords(
        x=300000 + third * (np.arange(40) + 0.5), y=5000000 - third * (np.arange(30) + 0.5)
    )
    dataset.spatial_ref.attrs["GeoTransform"] = f"300000.0 {third!r} 0.0 5000000.0 0.0 {-third!r}"
    whole = open_scene(save(dataset, tmp_path / "whole.nc")).grid
    assert whole.transform == (third, 0.0, 300000.0, 0.0, -third, 5000000.0)  # to the last bit
    cut = open_scene(save(dataset.isel(x=slice(6, None)), tmp_path / "cut.nc")).grid
    assert cut.transform[2] == pytest.approx(300000 + 6 * third)
    pixel = open_scene(save(dataset.isel(x=[0], y=[0]), tmp_path / "pixel.nc")).grid
    assert pixel.transform == whole.transform and pixel.shape == (1, 1)
    with pytest.raises(SceneError, match="no coordinates to tell"):
        open_scene(save(dataset.isel(x=[3], y=[0]), tmp_path / "elsewhere.nc"))
