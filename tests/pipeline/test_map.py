"""Maps from the command line: the product as other programs see it, and input that cannot be mapped."""

import csv
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import rasterio
import xarray

from map_cases import BANDS, CLASSES, contents, fitted, grid, reflectance, save_model, write_scene
from uncover import ConformalSets, load_model
from uncover.raster import CubeBlock, CubeLayout, Grid, Quality, open_scene, write_cube

SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def model(tmp_path):
    return save_model(tmp_path / "m.uncover", fitted())


@pytest.fixture
def scene(tmp_path):
    """More than one unit wide, less than one high."""
    values = reflectance(60, 280)
    values[:, :20, :20] = np.nan
    values[0, 40:50, :20] = np.nan
    return write_scene(tmp_path / "scene.tif", values, nodata=np.nan)


def loaded(path):
    """A model that takes arrays without names."""
    model = load_model(path)
    del model.feature_names_in_
    return model


def read(path, band=None):
    with rasterio.open(path) as file:
        return file.read(band) if band else file.read()


def test_layers_say_what_the_model_says(run, model, scene):
    assert run("map", model, scene, "--out", "map").exit_code == 0
    pixels = np.moveaxis(read(scene), 0, 2)
    known = np.isfinite(pixels).all(axis=2)
    clf = loaded(model)
    P = clf.predict_proba(pixels[known].astype(float))
    stored = read("map/probability.tif")[:, known]
    np.testing.assert_allclose(stored * 1e-4, P.T, atol=5.1e-5)
    codes = read("map/class.tif", 1)
    np.testing.assert_array_equal(codes[known], P.argmax(axis=1) + 1)
    assert (codes[~known] == 0).all()
    total, measurement, from_model, overlap, margin, typicality = read("map/uncertainty.tif")[:, known] * 1e-4
    np.testing.assert_allclose(total, -(P * np.log(P + 1e-300)).sum(1), atol=6e-5)
    np.testing.assert_allclose(measurement + from_model + overlap, total, atol=2.1e-4)
    ranked = np.sort(P, axis=1)
    np.testing.assert_allclose(margin, ranked[:, -1] - ranked[:, -2], atol=6e-5)
    np.testing.assert_allclose(typicality, clf.typicality(pixels[known].astype(float)), atol=6e-5)


def test_nodata_and_partial_pixels_have_bits_and_no_class(run, model, scene):
    run("map", model, scene, "--out", "map")
    quality = read("map/quality.tif", 1)
    assert (quality[:20, :20] == Quality.NODATA).all()
    assert (quality[40:50, :20] == Quality.PARTIAL).all()
    assert (read("map/class.tif", 1)[40:50, :20] == 0).all()
    assert (read("map/probability.tif")[:, :20, :20] == 65535).all()


def test_partial_pixels_are_classified_by_what_they_have(run, model, scene):
    result = run("map", model, scene, "--out", "map", "--missing", "marginalise")
    assert result.exit_code == 0, result.output
    codes, quality = read("map/class.tif", 1), read("map/quality.tif", 1)
    assert (codes[40:50, :20] > 0).all()
    assert (quality[40:50, :20] & Quality.PARTIAL > 0).all()
    assert (codes[:20, :20] == 0).all()
    clf = loaded(model)
    clf.missing = "marginalise"
    pixels = np.moveaxis(read(scene), 0, 2)[40:50, :20].reshape(-1, 4)
    P = clf.predict_proba(pixels.astype(float))
    stored = read("map/probability.tif")[:, 40:50, :20].reshape(3, -1)
    np.testing.assert_allclose(stored * 1e-4, P.T, atol=6e-5)


def test_files_are_what_readers_expect(run, model, tmp_path):
    from rio_cogeo import cog_validate

    scene = write_scene(tmp_path / "large.tif", reflectance(1100, 700))
    assert run("map", model, scene, "--out", "map").exit_code == 0
    for name in ("class", "probability", "uncertainty", "quality"):
        valid, errors, warnings = cog_validate(f"map/{name}.tif", strict=True)
        assert valid, (name, errors, warnings)
        with rasterio.open(f"map/{name}.tif") as file:
            assert Grid.of(file) == grid(1100, 700)
            assert file.overviews(1)
            assert all("STATISTICS_MEAN" in file.tags(i + 1) for i in range(file.count))
    with rasterio.open("map/class.tif") as file:
        assert file.nodata == 0
        assert file.colormap(1)[1][:3] != (0, 0, 0)
    with rasterio.open("map/probability.tif") as file:
        assert file.descriptions == CLASSES
        assert set(file.scales) == {1e-4}
        assert file.nodata == 65535
        numbers = file.read(1)
        assert float(file.tags(1)["STATISTICS_MAXIMUM"]) == numbers.max()
        np.testing.assert_allclose(float(file.tags(1)["STATISTICS_MEAN"]), numbers.mean())
    assert "forest" in Path("map/class.tif.aux.xml").read_text()


def test_styles_are_parsed(run, model, scene):
    run("map", model, scene, "--out", "map")
    found = {path.name: ET.parse(path).getroot() for path in Path("map").rglob("*.qml")}
    assert {"class.qml", "probability.qml", "uncertainty.qml", "quality.qml"} < set(found)
    assert len(list(Path("map/styles").iterdir())) == 9
    entries = found["class.qml"].findall(".//paletteEntry")
    assert [entry.get("label") for entry in entries] == list(CLASSES)
    values = {int(entry.get("value")) for entry in found["quality.qml"].findall(".//paletteEntry")}
    assert values == set(np.unique(read("map/quality.tif")).tolist())
    for name in ("probability.qml", "uncertainty.qml"):
        items = found[name].findall(".//colorrampshader/item")
        assert [float(item.get("value")) for item in items] == sorted(float(i.get("value")) for i in items)


def test_items_are_valid(run, tmp_path, scene):
    folder = SHARED / "stac_schemas"
    if not folder.exists():
        pytest.skip("no schemas of STAC extensions in ../shared/data/stac_schemas")
    import jsonschema
    import pystac
    from referencing import Registry, Resource

    plain = fitted()
    del plain.feature_names_in_
    pixels = np.moveaxis(reflectance(60, 280), 0, 2).reshape(-1, 4)[::40].astype(float)
    sets = ConformalSets(plain, coverage=0.8).calibrate(pixels, plain.predict(pixels))
    plain.feature_names_in_ = np.array(BANDS, dtype=object)
    model = save_model(tmp_path / "sets.uncover", sets)
    assert run("map", model, scene, "--out", "map", "--date", "2020-06-01").exit_code == 0
    assert Path("map/sets.tif").exists()
    # What the schemas refer to elsewhere (geometries, PROJJSON) is not what is tested here.
    elsewhere = {"definitions": {"bands": {"items": {"properties": {"data_type": {}}}}}}

    def retrieve(uri):
        file = folder / f"{uri.split('/')[3]}.json"
        found = json.loads(file.read_text()) if file.exists() and "raster/v1" not in uri else elsewhere
        return Resource.from_contents(found, _draft())

    registry = Registry(retrieve=retrieve)
    for name in ("item", "model"):
        item = json.loads(Path(f"map/{name}.json").read_text())
        assert pystac.Item.from_dict(item).id == item["id"]
        for address in item["stac_extensions"]:
            schema = json.loads((folder / f"{address.split('/')[-3]}.json").read_text())
            validator = jsonschema.Draft7Validator(schema, registry=registry)
            assert [error.message for error in validator.iter_errors(item)] == []
    for asset in json.loads(Path("map/item.json").read_text())["assets"].values():
        assert Path("map", asset["href"]).exists()


def _draft():
    from referencing.jsonschema import DRAFT7

    return DRAFT7


def test_items_pass_the_core_schema(run, model, scene):
    import pystac.validation

    where = Grid("EPSG:32601", (10.0, 0.0, 165_000.0, 0.0, -10.0, 100_000.0), 280, 60)
    across = write_scene("across.tif", reflectance(60, 280), where)
    for i, (source, date) in enumerate(
        [(scene, "2020-06-01T11:06:31Z"), (scene, "2020-06"), (across, "2019-05-01/2020-04-30")]
    ):
        result = run("map", model, source, "--out", f"map{i}", "--date", date)
        assert result.exit_code == 0, result.output
        assert result.stderr.count("date") == 0
        for name in ("item", "model"):
            item = json.loads(Path(f"map{i}/{name}.json").read_text())
            pystac.validation.validate_dict({**item, "stac_extensions": []})
            assert pystac.Item.from_dict(item).bbox == item["bbox"]
    assert item["properties"]["start_datetime"] == "2019-05-01T00:00:00Z"
    assert item["properties"]["end_datetime"] == "2020-04-30T23:59:59Z"
    assert item["geometry"]["type"] == "MultiPolygon"


def test_a_cube_knows_the_date_of_its_scene(run, scene, tmp_path):
    model = save_model(tmp_path / "shared.uncover", fitted("shared", worlds=2), scene="s")
    opened = open_scene(scene)

    def produce(window):
        block = opened.read(window)
        return CubeBlock(window, np.stack([block.reflectance] * 2), block.quality)

    facts = {"sensing_time": "2020-06-01T11:06:31+00:00"}
    layout = CubeLayout(opened.grid, BANDS, 2, "s", attributes=facts)
    write_cube(tmp_path / "cube.zarr", layout, produce)
    result = run("map", model, "cube.zarr", "--level", "L2A", "--paired", "--out", "map")
    assert result.exit_code == 0, result.output
    said = json.loads(Path("map/item.json").read_text())["properties"]
    assert said["datetime"] == "2020-06-01T11:06:31.000000Z"
    assert "--date" not in result.stderr


def test_an_unknown_date_stays_unknown(run, model, scene):
    result = run("map", model, scene, "--out", "map")
    assert result.exit_code == 0
    assert "--date" in result.stderr
    for name in ("item", "model"):
        said = json.loads(Path(f"map/{name}.json").read_text())["properties"]
        assert said["datetime"] is None
        assert not {"start_datetime", "end_datetime"} & set(said)


@pytest.mark.parametrize("date", ["1 June 2020", "2020-13", "2020-06-31", "2021/2020", "/", "June"])
def test_what_is_no_date_is_refused(refused, model, scene, date):
    assert f"--date {date}" in refused("map", model, scene, "--out", "map", "--date", date)


def test_a_date_for_a_scene_that_has_one_is_refused(refused, model, scene, tmp_path):
    item = {
        "type": "Feature", "id": "s",
        "properties": {"datetime": "2020-06-01T11:06:31Z", "processing:level": "L2A"},
        "assets": {band: {"href": f"{band}.tif"} for band in BANDS},
    }  # fmt: skip
    for i, band in enumerate(BANDS):
        write_scene(tmp_path / f"{band}.tif", read(scene)[i : i + 1], names=(band,), nodata=np.nan)
    (tmp_path / "s.json").write_text(json.dumps(item))
    line = refused("map", model, tmp_path / "s.json", "--out", "map", "--date", "2020-06-02")
    assert "has the date 2020-06-01T11:06:31Z by its metadata and --date 2020-06-02 came" in line


def test_areas_add_up(run, model, scene):
    pyproj = pytest.importorskip("pyproj")
    utm = pyproj.Proj("EPSG:32633")
    scale = utm.get_factors(*utm(300000, 5000000, inverse=True)).areal_scale
    run("map", model, scene, "--out", "map")
    with open("map/areas.csv") as file:
        rows = list(csv.DictReader(file))
    codes = read("map/class.tif", 1)
    assert [row["class"] for row in rows] == [
        *CLASSES,
        "no class: no data",
        "no class: some bands are missing",
    ]
    assert int(rows[-2]["pixels"]) + int(rows[-1]["pixels"]) == (codes == 0).sum()
    for row in rows[: len(CLASSES)]:
        count = (codes == int(row["code"])).sum()
        assert int(row["pixels"]) == count
        assert float(row["area_ha"]) == pytest.approx(count * 0.01 / scale, rel=3e-5)


def test_the_product_says_what_was_assumed(run, model, scene):
    run("map", model, scene, "--out", "other")
    run("map", model, scene, "--out", "same", "--scene-id", "trained-here")
    said = [json.loads(Path(name, "item.json").read_text())["properties"] for name in ("other", "same")]
    assert [each["uncover:paired"] for each in said] == [False, True]
    assert said[0]["uncover:measurement_uncertainty"] == {"source": "none"}
    assert "another scene" in said[0]["processing:lineage"]


@pytest.mark.parametrize("kind", ["zarr", "netcdf"])
def test_a_dataset_holds_the_same(run, model, scene, kind):
    assert run("map", model, scene, "--out", "map").exit_code == 0
    result = run("map", model, scene, "--out", "cf", "--format", kind)
    assert result.exit_code == 0, result.output
    path = "cf/map.zarr" if kind == "zarr" else "cf/map.nc"
    with xarray.open_dataset(path, engine=None if kind == "netcdf" else "zarr", mask_and_scale=False) as data:
        np.testing.assert_array_equal(data["class"], read("map/class.tif", 1))
        np.testing.assert_array_equal(data["probability"], read("map/probability.tif"))
        np.testing.assert_array_equal(data["typicality"], read("map/uncertainty.tif", 6))
        np.testing.assert_array_equal(data["quality"], read("map/quality.tif", 1))
        assert data["class_name"].values.tolist() == list(CLASSES)
        assert data.attrs["Conventions"].startswith("CF")
        np.testing.assert_allclose(data["x"].values[:2], [300005, 300015])
    with xarray.open_dataset(path, engine=None if kind == "netcdf" else "zarr") as data:
        assert np.isnan(data["total"].values[:20, :20]).all()
        assert float(data["probability"].sum("class_name").max()) == pytest.approx(1, abs=3e-4)
    assert {"areas.csv", "overview.png", "item.json", "run.json"} < {p.name for p in Path("cf").iterdir()}
    run_facts = json.loads(Path("cf/run.json").read_text())
    assert list(run_facts["stages"]) == ["open", "compute", "write"]
    assert sum(run_facts["stages"].values()) == pytest.approx(run_facts["seconds"], abs=0.01)


def test_floating_point_layers(run, model, scene):
    assert run("map", model, scene, "--out", "map").exit_code == 0
    assert run("map", model, scene, "--out", "floats", "--dtype", "float32").exit_code == 0
    whole, floats = read("map/probability.tif"), read("floats/probability.tif")
    known = whole[0] != 65535
    np.testing.assert_allclose(whole[:, known] * 1e-4, floats[:, known], atol=5.1e-5)
    assert np.isnan(floats[:, ~known]).all()


def test_a_dry_run_writes_nothing(run, model, scene, tmp_path):
    before = sorted(tmp_path.iterdir())
    result = run("map", model, scene, "--out", "map", "--dry-run")
    assert result.exit_code == 0, result.output
    words = [line.split()[0] for line in result.stdout.splitlines()]
    assert words == ["units", "threads", "memory", "disk", "time"]
    assert sorted(tmp_path.iterdir()) == before


# ---- sources of uncertainty ----------------------------------------------------------------------


def test_noise_of_bands_from_a_table(run, model, scene):
    Path("noise.csv").write_text("band,u\n" + "".join(f"{band},0.02\n" for band in BANDS))
    result = run(
        "map", model, scene, "--out", "map", "--uncertainty", "noise.csv", "--between-pixels", "random"
    )
    assert result.exit_code == 0, result.output
    pixels = np.moveaxis(read(scene), 0, 2)
    known = np.isfinite(pixels).all(axis=2)
    P = loaded(model).predict_proba(
        pixels[known][:500].astype(float), X_cov=np.full(4, 0.02**2), method="fast"
    )
    stored = read("map/probability.tif")[:, known][:, :500]
    np.testing.assert_allclose(stored * 1e-4, P.T, atol=6e-5)
    assert read("map/uncertainty.tif", 2)[known].mean() > 0
    said = json.loads(Path("map/item.json").read_text())["properties"]["uncover:measurement_uncertainty"]
    assert said["source"] == "stated uncertainty"
    assert said["file"] == "noise.csv"


def test_a_systematic_error_counts_for_another_scene_only(run, model, scene):
    Path("noise.csv").write_text("band,u\n" + "".join(f"{band},0.01\n" for band in BANDS))
    noise = ("--uncertainty", "noise.csv", "--between-pixels", "systematic")
    run("map", model, scene, "--out", "other", *noise)
    run("map", model, scene, "--out", "same", *noise, "--paired")
    run("map", model, scene, "--out", "none")
    known = read("none/class.tif", 1) > 0
    assert read("other/uncertainty.tif", 2)[known].mean() > 10
    np.testing.assert_array_equal(read("same/probability.tif"), read("none/probability.tif"))


def test_realisations_from_a_cube(run, scene, tmp_path):
    from uncover.raster import CubeBlock, CubeLayout, write_cube

    model = save_model(tmp_path / "shared.uncover", fitted("shared", worlds=5), scene="s")
    opened = open_scene(scene)
    shift = np.linspace(-0.01, 0.01, 5, dtype=np.float32)[:, None, None, None]

    def produce(window):
        block = opened.read(window)
        return CubeBlock(window, block.reflectance[None] + shift, block.quality)

    write_cube(tmp_path / "cube.zarr", CubeLayout(opened.grid, BANDS, 5, "s"), produce)
    assert "give --level" in run("map", model, "cube.zarr", "--out", "map").output.lower()
    result = run("map", model, "cube.zarr", "--level", "L2A", "--paired", "--out", "map")
    assert result.exit_code == 0, result.output
    pixels = np.moveaxis(read(scene), 0, 2)
    known = np.isfinite(pixels).all(axis=2)
    X = pixels[known][:300, None, :] + shift[:, 0, 0, 0][None, :, None]
    P = loaded(model).predict_proba(X.astype(float))
    np.testing.assert_allclose(read("map/probability.tif")[:, known][:, :300] * 1e-4, P.T, atol=6e-5)
    said = json.loads(Path("map/item.json").read_text())["properties"]
    assert said["uncover:paired"] is True
    assert said["uncover:worlds"] == 5


# ---- input that cannot be mapped -----------------------------------------------------------------


def test_other_bands_are_refused(refused, model, tmp_path):
    scene = write_scene(tmp_path / "s.tif", reflectance(40, 30), names=("B05", "B06", "B07", "B08"))
    assert "B02" in refused("map", model, scene, "--out", "map")


def test_another_order_is_refused(refused, model, scene):
    line = refused("map", model, scene, "--out", "map", "--bands", "B08,B04,B03,B02")
    assert "another order" in line


def test_bands_are_found_by_name(run, model, scene, tmp_path):
    turned = write_scene(tmp_path / "turned.tif", read(scene)[::-1], names=BANDS[::-1], nodata=np.nan)
    run("map", model, scene, "--out", "map")
    run("map", model, turned, "--out", "turned")
    np.testing.assert_array_equal(read("map/probability.tif"), read("turned/probability.tif"))


def test_another_number_of_bands_without_names_is_refused(refused, model, tmp_path):
    scene = write_scene(tmp_path / "s.tif", reflectance(40, 30)[:3], names=None)
    assert "--bands" in refused("map", model, scene, "--out", "map")


def test_digital_numbers_are_refused(refused, model, tmp_path):
    numbers = (reflectance(40, 30) * 10_000).astype(np.uint16)
    scene = write_scene(tmp_path / "s.tif", numbers)
    line = refused("map", model, scene, "--scale", "1", "--offset", "0", "--out", "map")
    assert "digital numbers" in line


@pytest.mark.parametrize("dtype", ["uint16", "int16", "float32"])
def test_scale_and_offset_give_the_same_map(run, model, tmp_path, dtype):
    values = np.rint(reflectance(60, 50) * 10_000) / 10_000
    numbers = np.rint(np.maximum(values, 0) * 10_000 + 1000).astype(dtype)
    plain = write_scene(tmp_path / "plain.tif", numbers.astype(np.float32) / np.float32(10_000) - 0.1)
    scaled = write_scene(tmp_path / "scaled.tif", numbers, scale=1e-4, offset=-0.1)
    assert run("map", model, plain, "--out", "a").exit_code == 0
    assert run("map", model, scaled, "--out", "b").exit_code == 0
    difference = read("a/probability.tif").astype(int) - read("b/probability.tif")
    assert np.abs(difference).max() <= 2


def test_a_scene_without_any_data(run, model, tmp_path):
    scene = write_scene(tmp_path / "s.tif", np.full((4, 50, 40), np.nan, np.float32), nodata=np.nan)
    result = run("map", model, scene, "--out", "map", "--date", "2020")
    assert result.exit_code == 0, result.output
    assert (read("map/class.tif") == 0).all()
    assert (read("map/quality.tif") == Quality.NODATA).all()
    assert result.stderr.startswith("Warning: no pixel of scene s has a class (no data 2,000)")
    assert result.stderr.count("Warning") == 1


def test_a_scene_of_one_pixel(run, model, tmp_path):
    scene = write_scene(tmp_path / "s.tif", np.full((4, 1, 1), 0.05, np.float32))
    result = run("map", model, scene, "--out", "map")
    assert result.exit_code == 0, result.output
    assert read("map/class.tif").shape == (1, 1, 1)


def test_a_rotated_scene_keeps_its_georeferencing(run, model, tmp_path):
    place = Grid("EPSG:32633", (8.0, 3.0, 300000.0, 3.0, -8.0, 5000000.0), 50, 40)
    scene = write_scene(tmp_path / "s.tif", reflectance(40, 50), where=place)
    result = run("map", model, scene, "--out", "map")
    assert result.exit_code == 0, result.output
    with rasterio.open("map/class.tif") as file:
        assert Grid.of(file).transform == pytest.approx(place.transform)
    assert "rotated" in run("map", model, scene, "--out", "cf", "--format", "zarr").stderr


def test_a_scene_without_reference_system(run, model, tmp_path):
    scene = write_scene(tmp_path / "s.tif", reflectance(40, 50), where=grid(40, 50, crs=None))
    result = run("map", model, scene, "--out", "map")
    assert result.exit_code == 0, result.output
    with open("map/areas.csv") as file:
        assert "area_pixels" in next(csv.reader(file))
    assert json.loads(Path("map/item.json").read_text())["geometry"] is None


def test_areas_of_degrees_are_those_on_the_ellipsoid(run, model, tmp_path):
    place = Grid("EPSG:4326", (1e-4, 0.0, 10.0, 0.0, -1e-4, 60.0), 50, 40)
    scene = write_scene(tmp_path / "s.tif", reflectance(40, 50), where=place)
    assert run("map", model, scene, "--out", "map").exit_code == 0
    with open("map/areas.csv") as file:
        area = sum(float(row["area_ha"]) for row in csv.DictReader(file))
    assert area == pytest.approx(40 * 50 * 11.1414 * 5.5800 / 1e4, rel=2e-3)  # metres of 1e-4° at 60° N
    with rasterio.open("map/class.tif") as file:
        assert Grid.of(file).bounds == pytest.approx(place.bounds)


def test_a_model_of_another_version_is_refused(refused, model, scene, monkeypatch):
    from uncover.models import files as model_files

    monkeypatch.setattr(model_files, "FORMAT_VERSION", 99)
    assert "version" in refused("map", model, scene, "--out", "map")


def test_a_folder_that_cannot_be_written_is_refused(refused, model, scene):
    assert "no folder" in refused("map", model, scene, "--out", "nowhere/map")


def test_a_product_that_is_there_is_not_touched(run, refused, model, scene):
    run("map", model, scene, "--out", "map")
    before = contents("map")
    assert "exists already" in refused("map", model, scene, "--out", "map")
    assert contents("map") == before


def test_a_map_is_replaced_on_request_and_nothing_else(run, refused, model, scene):
    run("map", model, scene, "--out", "map")
    before = read("map/class.tif")
    made = run("map", model, scene, "--out", "map", "--overwrite", "--dtype", "float32")
    assert made.exit_code == 0, made.output
    assert read("map/probability.tif").dtype == np.float32 and not Path("map.partial").exists()
    np.testing.assert_array_equal(read("map/class.tif"), before)
    Path("notes").mkdir()
    assert "replaces maps only" in refused("map", model, scene, "--out", "notes", "--overwrite")
    assert "an input lies in map" in refused("map", "map/model.uncover", scene, "--out", "map", "--overwrite")


def test_too_little_memory_is_refused(refused, model, scene):
    line = refused("map", model, scene, "--out", "map", "--memory", "20MB")
    assert "--memory" in line


def test_real_polygons_of_one_half_map_the_others(run, tmp_path):
    folder = SHARED / "sen2_amazon"
    if not folder.exists():
        pytest.skip("no Amazon scene in ../shared/data/sen2_amazon")
    scene, polygons = folder / "sen2.tif", folder / "trainingPolygons_sen2.gpkg"
    labels = ("labels", polygons, "--class-field", "class", "--like", scene, "--offset", "-0.1")
    # Not a half of the scene: no half of it shows all four classes.
    split = ("--split", "polygon", "--test-share", "0.5", "--seed", "0")
    result = run(*labels[:-2], *split, "--out", "train.tif", "--test-out", "test.tif")
    assert result.exit_code == 0, result.output
    assert (
        run(
            "fit",
            "--model",
            "published",
            scene,
            "--labels",
            "train.tif",
            "--offset",
            "-0.1",
            "--out",
            "m.uncover",
        ).exit_code
        == 0
    )
    result = run("map", "m.uncover", scene, "--offset", "-0.1", "--out", "map")
    assert result.exit_code == 0, result.output
    truth, mapped = read("test.tif", 1), read("map/class.tif", 1)
    tested = truth > 0
    assert tested.sum() > 500
    assert (truth[tested] == mapped[tested]).mean() > 0.95


def test_a_mask_of_the_whole_scene_is_named_as_the_cause(run, model, scene, tmp_path):
    with rasterio.open(scene) as file:
        shape, place = file.shape, {"crs": file.crs, "transform": file.transform}
    size = {"count": 1, "height": shape[0], "width": shape[1], "dtype": "uint8"}
    with rasterio.open(tmp_path / "mask.tif", "w", driver="GTiff", **size, **place) as file:
        file.write(np.ones((1, *shape), np.uint8))
    made = run("map", model, scene, "--mask", tmp_path / "mask.tif", "--out", "masked")
    assert "has a class (no data 400, own mask 16,400)" in made.stderr


def test_the_overview_has_the_scene_the_map_and_what_is_known_of_it(run, model, scene, monkeypatch):
    from uncover.pipeline import map_styles
    from uncover.raster import open_scene

    made, draw = [], map_styles._overview
    monkeypatch.setattr(map_styles, "_overview", lambda *given: made.append(draw(*given)) or made[0])
    assert run("map", model, scene, "--out", "map").exit_code == 0
    titles = [ax.get_title(loc="left") for ax in made[0].axes if ax.get_title(loc="left")]
    assert titles == [
        "(a) Scene", "(b) Class", "(c) Probability of the class", "(d) Total uncertainty, nats",
        "(e) Typicality",
    ]  # fmt: skip
    colours = made[0].axes[0].images[0].get_array()
    opened = open_scene(scene)
    known = opened.read().valid
    np.testing.assert_array_equal(map_styles.thumbnail(opened, opened.grid.shape)[~known] == 200, True)
    assert colours.shape[2] == 3 and colours.std() > 10


def test_arrays_are_in_the_overview_as_files_are(tmp_path):
    from uncover.pipeline.map_styles import stretched, thumbnail
    from uncover.raster import SceneOptions, open_scene

    values = np.random.default_rng(0).uniform(0, 0.5, (40, 50, 3)).astype(np.float32)
    np.save(tmp_path / "scene.npy", values)
    opened = open_scene(tmp_path / "scene.npy", SceneOptions(bands=("B02", "B03", "B8A"), level="L2A"))
    shown = thumbnail(opened, (80, 25))  # each row twice, every other column
    expected = stretched(np.moveaxis(values[np.arange(80) // 2][:, 1::2, ::-1], 2, 0))
    np.testing.assert_array_equal(shown, expected)
