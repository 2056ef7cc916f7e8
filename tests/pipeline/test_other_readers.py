"""Maps and cubes as xarray, rioxarray and GDAL read them: the values of the GeoTIFFs, and nothing masked."""

from pathlib import Path

import numpy as np
import pytest
import rasterio
import xarray

from map_cases import CLASSES, fitted, reflectance, save_model, write_scene
from uncover.raster import CubeBlock, CubeLayout, Grid, SampleBlock, Window, write_cube, write_samples

DATASETS = {"zarr": "map.zarr", "netcdf": "map.nc"}
PARTS = ("total", "measurement", "model", "overlap", "margin", "typicality")


@pytest.fixture(params=DATASETS)
def dataset(request, run, tmp_path):
    """A map as GeoTIFFs in the folder `cog`, and as one dataset whose path is returned."""
    values = reflectance(60, 280)
    values[:, :20, :20] = np.nan
    scene = write_scene(tmp_path / "scene.tif", values, nodata=np.nan)
    model = save_model(tmp_path / "m.uncover", fitted())
    for kind in ("cog", request.param):
        result = run("map", model, scene, "--out", kind, "--format", kind)
        assert result.exit_code == 0, result.output
    return Path(request.param, DATASETS[request.param])


def engine(path):
    return "zarr" if path.suffix == ".zarr" else None


def scaled(file, numbers):
    return numbers if file.scales[0] == 1 else numbers * file.scales[0]


def truth():
    """Values of the GeoTIFFs by variable: numbers as they are meant, NaN where there is nodata."""
    found = {}
    for name in ("class", "probability", "uncertainty", "quality"):
        with rasterio.open(f"cog/{name}.tif") as file:
            numbers = scaled(file, file.read(masked=file.nodata is not None))
        found[name] = numbers.astype(float).filled(np.nan) if np.ma.isMaskedArray(numbers) else numbers
    parts = dict(zip(PARTS, found.pop("uncertainty"), strict=True))
    return {**parts, "probability": found["probability"]} | {n: found[n][0] for n in ("class", "quality")}


def test_xarray_reads_a_map_as_it_is(dataset):
    with xarray.open_dataset(dataset, engine=engine(dataset), decode_coords="all") as data:
        assert set(data.data_vars) == set(truth())
        for name, values in truth().items():
            np.testing.assert_allclose(data[name].values, values, rtol=1e-6, err_msg=name)
        assert data["quality"].dtype == np.uint16
        assert data["class_name"].values.tolist() == list(CLASSES)
        assert data["spatial_ref"].dtype == np.int32


def test_rioxarray_reads_a_map_as_it_is(dataset):
    pytest.importorskip("rioxarray")
    with xarray.open_dataset(dataset, engine=engine(dataset), decode_coords="all") as data:
        with rasterio.open("cog/quality.tif") as file:
            assert data.rio.crs == file.crs
            assert data.rio.transform() == file.transform
            np.testing.assert_array_equal(data["quality"].rio.reproject_match(data["quality"]), file.read(1))
        assert data["quality"].rio.nodata is None
        assert data["quality"].rio.encoded_nodata is None
        for name in ("probability", *PARTS):
            assert data[name].rio.encoded_nodata == 65535, name


def test_gdal_reads_a_map_as_it_is(dataset):
    form = 'ZARR:"{}":/{}' if dataset.suffix == ".zarr" else "netcdf:{}:{}"
    for name, values in truth().items():
        with rasterio.open(form.format(dataset, name)) as file, rasterio.open("cog/class.tif") as other:
            assert (file.crs, file.transform) == (other.crs, other.transform), name
            known = np.isfinite(values)
            np.testing.assert_array_equal(file.read_masks() > 0, known if known.ndim == 3 else known[None])
            numbers = scaled(file, file.read() if values.ndim == 3 else file.read(1))
            np.testing.assert_allclose(numbers[known], values[known], rtol=1e-6, err_msg=name)


#: The centre of a pixel lies at 0 on both axes, and the first realisation is number 0.
GRID = Grid("EPSG:32633", (10.0, 0.0, -35.0, 0.0, -10.0, 25.0), 8, 6)


def block(window):
    values = np.arange(3 * 2 * 48, dtype=np.float32).reshape(3, 2, 6, 8)
    quality = np.zeros(GRID.shape, np.uint16)
    quality[0, 0], values[:, :, 0, 0] = 1, np.nan
    return CubeBlock(window, values[:, :, *window.slices], quality[window.slices])


def test_coordinates_and_flags_of_a_cube_have_no_nodata(tmp_path):
    path = tmp_path / "cube.zarr"
    layout = CubeLayout(GRID, ("B02", "B03"), 3, coordinates={"aod": np.array([0.0, 0.1, 0.2])})
    write_cube(path, layout, block)
    expected = block(Window(0, 0, *GRID.shape))
    with xarray.open_dataset(path, engine="zarr", decode_coords="all") as data:
        np.testing.assert_array_equal(data["x"], np.arange(-30, 50, 10))
        np.testing.assert_array_equal(data["y"], np.arange(20, -40, -10))
        assert data["realisation"].dtype.kind == "i"
        assert data["realisation"].values.tolist() == [0, 1, 2]
        assert data["aod"].values.tolist() == [0.0, 0.1, 0.2]
        np.testing.assert_array_equal(data["quality"], expected.quality)
        np.testing.assert_array_equal(data["reflectance"], expected.values)
    with rasterio.open(f'ZARR:"{path}":/quality') as file:
        assert file.nodata is None
        assert (file.read_masks(1) == 255).all()
        np.testing.assert_array_equal(file.read(1), expected.quality)


def test_columns_of_samples_have_no_nodata(tmp_path):
    samples = SampleBlock(np.zeros((3, 2, 1), np.float32), {"label": np.array([0, 1, 2], np.uint8)})
    write_samples(tmp_path / "s.zarr", ("B02",), [Window(0, 0, 1, 3)], lambda window: samples)
    with xarray.open_dataset(tmp_path / "s.zarr", engine="zarr") as data:
        assert data["label"].values.tolist() == [0, 1, 2]
        assert data["label"].dtype == np.uint8
        np.testing.assert_array_equal(data["reflectance"], samples.values)
