"""Maps and cubes as xarray, rioxarray and GDAL read them: the values of the GeoTIFFs, and nothing masked."""

import json
import os
import shutil
import subprocess
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


def test_a_dataset_describes_itself_by_cf(dataset):
    """Coordinates, grid mapping and history by CF; no clock, so that the same map is the same bytes."""
    with xarray.open_dataset(dataset, engine=engine(dataset), decode_coords="all") as data:
        assert (data.x.standard_name, data.y.standard_name) == tuple(
            f"projection_{a}_coordinate" for a in "xy"
        )
        assert data.x.units == data.y.units == "metre"
        mapping = data["spatial_ref"].attrs
        assert mapping["grid_mapping_name"] == "transverse_mercator"
        assert mapping["longitude_of_central_meridian"] == 15
        assert {"history", "summary", "keywords", "source", "geospatial_lat_min"} <= set(data.attrs)
        assert all(len(data[name].long_name) > len("total") for name in data.data_vars)
        assert all(data[name].attrs["units"] == "1" for name in PARTS)


#: Said by the checker, and no fault: it knows no unsigned numbers, which CF has had since 1.9.
_NO_FAULT = "Variable is not of type byte, short, or int"


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["netcdf"], indirect=True)
def test_the_compliance_checker_finds_nothing(dataset, tmp_path):
    """The checker of IOOS, from the environment or by the command that UNCOVER_COMPLIANCE_CHECKER names."""
    checker = os.environ.get("UNCOVER_COMPLIANCE_CHECKER") or shutil.which("compliance-checker")
    if checker is None:
        pytest.skip("compliance-checker is not installed (pip install compliance-checker)")
    words = [checker, "--test", "cf:1.11", "--format", "json", "--output", str(tmp_path / "cf.json")]
    alone = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    subprocess.run([*words, str(dataset)], env=alone, capture_output=True, check=False)
    (found,) = json.loads((tmp_path / "cf.json").read_text()).values()
    said = [
        m for part in ("high_priorities", "medium_priorities") for each in found[part] for m in each["msgs"]
    ]
    assert [message for message in said if not message.startswith(_NO_FAULT)] == []


#: Loads each layer with its style, and prints classes, ramps and the colours of a rendered picture.
_QGIS = """
import json, pathlib, sys
from qgis.core import QgsApplication, QgsMapRendererParallelJob, QgsMapSettings, QgsRasterLayer
from qgis.PyQt.QtCore import QSize
application = QgsApplication([], False)
application.initQgis()
def opened(name, style):
    layer = QgsRasterLayer(f"map/{name}.tif", name)
    said, done = layer.loadNamedStyle(style)
    assert layer.isValid() and done, (name, style, said)
    return layer
found = {}
for name in ("class", "probability", "uncertainty", "quality"):
    layer = opened(name, f"map/{name}.qml")
    settings = QgsMapSettings()
    settings.setLayers([layer])
    settings.setExtent(layer.extent())
    settings.setDestinationCrs(layer.crs())
    settings.setOutputSize(QSize(layer.width(), layer.height()))
    job = QgsMapRendererParallelJob(settings)
    job.start()
    job.waitForFinished()
    image, look = job.renderedImage(), layer.renderer()
    pixels = [[image.pixelColor(x, y).name() for x in range(image.width())] for y in range(image.height())]
    legend = [(c.value, c.label, c.color.name()) for c in look.classes()] if look.type() == "paletted" else [
        (c.value, c.label, c.color.name()) for c in look.shader().rasterShaderFunction().colorRampItemList()]
    found[name] = {"type": look.type(), "legend": legend, "pixels": pixels}
bands = {}
for style in sorted(pathlib.Path("map/styles").glob("*.qml")):
    bands[style.stem] = opened(style.stem.rsplit("-", 1)[0], str(style)).renderer().band()
print(json.dumps([found, bands]))
"""


@pytest.mark.slow
def test_qgis_shows_classes_and_numbers(run, tmp_path):
    """By Debian's python3-qgis, where it is installed: every style loads, and its colours are drawn."""
    python = Path("/usr/bin/python3")
    if (
        not python.exists()
        or subprocess.run([python, "-c", "import qgis.core"], capture_output=True).returncode
    ):
        pytest.skip("QGIS is not installed (apt install python3-qgis)")
    model = save_model(tmp_path / "m.uncover", fitted())
    values = reflectance(60, 80)
    values[:, :9] = np.nan
    run("map", model, write_scene(tmp_path / "scene.tif", values, nodata=np.nan), "--out", "map")
    alone = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-c", _QGIS], capture_output=True, text=True, env=alone | {"QT_QPA_PLATFORM": "offscreen"}
    )
    assert done.returncode == 0, done.stderr
    found, bands = json.loads(done.stdout.splitlines()[-1])
    assert [found[name]["type"] for name in ("class", "quality")] == ["paletted", "paletted"]
    with rasterio.open("map/class.tif") as file:
        codes, scheme = file.read(1), json.loads(file.tags()["UNCOVER_SCHEME"])["classes"]
    assert [tuple(entry) for entry in found["class"]["legend"]] == [
        (one["code"], one["name"], one["colour"].lower()) for one in scheme
    ]
    shown = np.array(found["class"]["pixels"])
    for one in scheme:
        assert (shown[codes == one["code"]] == one["colour"].lower()).all(), one
    assert (shown[codes == 0] == shown[0, 0]).all() and shown[0, 0] not in {
        one["colour"].lower() for one in scheme
    }
    for name, top in {"probability": 1.0, "uncertainty": np.log(len(CLASSES))}.items():
        look = found[name]
        assert look["type"] == "singlebandpseudocolor"
        assert look["legend"][-1][0] == pytest.approx(top, rel=1e-4)
        with rasterio.open(f"map/{name}.tif") as file:
            numbers = file.read(1, masked=True) * file.scales[0]
        pixels = np.array(look["pixels"])
        least, most = (numbers == numbers.min()).filled(False), (numbers == numbers.max()).filled(False)
        assert numbers.min() > 0.01 * top or set(pixels[least]) == {look["legend"][0][2]}
        assert not set(pixels[most]) & set(pixels[least])
    layers = {name.rsplit("-", 1)[0] for name in bands}
    assert layers == {"probability", "uncertainty"}
    assert all(band == int(name.rsplit("-", 1)[1]) for name, band in bands.items())
