"""The layer of the probability of none of the classes, and its area."""

import csv
import json

import numpy as np
import pytest
import rasterio
import xarray

from map_cases import fitted, reflectance, save_model, write_scene
from uncover import pipeline
from uncover.cli import main
from uncover.pipeline.map_product import MapProduct
from uncover.report.map_report import make_report

HEIGHT, WIDTH = 60, 280


@pytest.fixture
def scene(tmp_path):
    """A scene with a corner without data and a patch of something that was never trained."""
    values = reflectance(HEIGHT, WIDTH)
    values[:, 40:, :60] += np.array([0.2, 0.2, 0.25, 0.1], np.float32)[:, None, None]
    values[:, :20, :20] = np.nan
    return write_scene(tmp_path / "scene.tif", values, nodata=np.nan)


@pytest.fixture
def model_file(tmp_path):
    return save_model(tmp_path / "model.uncover", fitted())


def mapped(model_file, scene, out, **options):
    return pipeline.map_scene(model_file, scene, out, pipeline.MapOptions(date="2020-06-01", **options))


def layer(folder):
    with rasterio.open(folder / "unknown.tif") as file:
        assert (file.nodata, file.scales, file.dtypes) == (65535, (1e-4,), ("uint16",))
        return file.read(1, masked=True)


def area_rows(folder):
    with open(folder / "areas.csv", newline="", encoding="utf-8") as file:
        return {row["class"]: row for row in csv.DictReader(file)}


def test_layer_is_what_the_estimator_says(model_file, scene, tmp_path):
    folder = mapped(model_file, scene, tmp_path / "map", unknown_share=0.1)
    with rasterio.open(scene) as file:
        pixels = file.read().reshape(4, -1).T
    known = np.isfinite(pixels).all(1)
    model = fitted()
    del model.feature_names_in_
    P = model.unknown_proba(pixels[known].astype(float), share=0.1)
    found = layer(folder).reshape(-1)
    assert np.array_equal(~np.ma.getmaskarray(found), known)
    np.testing.assert_allclose(found.compressed() * 1e-4, P, atol=6e-5)
    assert (found.reshape(HEIGHT, WIDTH)[40:, :60] > 9000).all()
    row = area_rows(folder)["none of the classes"]
    assert (row["code"], row["pixels"], float(row["area_ha"])) == ("0", "0", 0.0)
    assert float(row["expected_ha"]) == pytest.approx(P.sum() * 0.01, rel=2e-3)  # pixels of 10 m
    inner = model.predict_proba(pixels[known].astype(float)) * (1 - P[:, None])
    classes = [each for each in area_rows(folder).values() if each["code"] != "0"]
    expected = [float(each["expected_ha"]) for each in classes]
    np.testing.assert_allclose(sorted(expected), sorted(inner.sum(0) * 0.01), rtol=2e-3)
    clear = sum(float(each["area_ha"]) for each in classes)
    assert sum(expected) + float(row["expected_ha"]) == pytest.approx(clear, rel=1e-6)
    facts = json.loads((folder / "item.json").read_text("utf-8"))
    assert facts["assets"]["unknown"]["bands"][0]["raster:scale"] == 1e-4
    assert facts["properties"]["uncover:unknown_share"] == 0.1
    none = facts["properties"]["uncover:none_of_the_classes"]
    assert none == {"expected_ha": float(row["expected_ha"]), "share": float(row["share"])}
    said = pipeline.describe_file(folder).facts["none of the classes"]
    assert (said["expected_ha"], said["share assumed before"]) == (none["expected_ha"], "0.1")
    assert (folder / "unknown.qml").is_file()
    assert "unknown" in MapProduct.open(folder).layers


def report_of(folder, tmp_path):
    return make_report(folder, tmp_path / f"{folder.name}.html").read_text("utf-8")


def test_report_shows_it(model_file, scene, tmp_path):
    folder = mapped(model_file, scene, tmp_path / "map", unknown_share=0.05)
    page = report_of(folder, tmp_path)
    none = json.loads((folder / "item.json").read_text("utf-8"))["properties"]["uncover:none_of_the_classes"]
    assert f"None of the classes is expected on {none['expected_ha']:,.4g} ha" in page
    assert "with a share of 0.05 stated beforehand" in page
    assert "<td>none of the classes</td>" in page or "none of the classes</th>" in page
    assert '"typicality", "unknown"]' in page.replace('","', '", "')
    plain = report_of(mapped(model_file, scene, tmp_path / "plain"), tmp_path)
    assert "None of the classes is expected" not in plain


def test_layer_does_not_depend_on_blocks_and_is_not_there_unasked(model_file, scene, tmp_path):
    one = mapped(model_file, scene, tmp_path / "one", unknown_share=0.05, block=256)
    two = mapped(model_file, scene, tmp_path / "two", unknown_share=0.05, block=1024, threads=2)
    plain = mapped(model_file, scene, tmp_path / "plain")
    assert (one / "unknown.tif").read_bytes() == (two / "unknown.tif").read_bytes()
    assert (one / "class.tif").is_file()
    assert not (plain / "unknown.tif").exists()
    assert "none of the classes" not in area_rows(plain)


def test_dataset_and_info_have_it(model_file, scene, tmp_path):
    folder = mapped(model_file, scene, tmp_path / "map", unknown_share=0.05, format="zarr")
    with xarray.open_dataset(folder / "map.zarr", engine="zarr") as dataset:
        P = dataset["unknown"].values
    assert np.nanmean(P[40:, :60]) > 0.9 > 0.1 > np.nanmean(P[:40, 60:])
    assert "0 none of the classes" in pipeline.describe_file(folder).facts["expected_ha"]
    assert "unknown" in MapProduct.open(folder).layers


def test_share_is_estimated_from_the_scene(model_file, scene, tmp_path):
    folder = mapped(model_file, scene, tmp_path / "map", unknown_share="estimate")
    facts = json.loads((folder / "item.json").read_text("utf-8"))["properties"]
    true = 20 * 60 / (HEIGHT * WIDTH - 400)
    assert facts["uncover:unknown_share"] == pytest.approx(true, abs=0.03)
    assert 0 < facts["uncover:unknown_share_uncertainty"] < 0.01


def test_share_of_a_scene_that_the_model_does_not_know_is_refused(model_file, tmp_path, capsys):
    scene = write_scene(tmp_path / "other.tif", reflectance(64, 64) + np.float32(0.3), nodata=np.nan)
    out = tmp_path / "map"
    with pytest.raises(SystemExit):
        main(["map", str(model_file), str(scene), "--out", str(out), "--unknown-share", "estimate"])
    assert "look like none of the classes" in capsys.readouterr().err
    assert not out.exists()


def test_worlds_have_an_area_each(scene, tmp_path, model_file):
    from uncover.models.record import record_of
    from uncover.raster import open_scene
    from uncover.raster.classification import make_mapper
    from uncover.raster.mapper import Reader
    from uncover.raster.observed import PlainScene

    reader = Reader(unknown_share=0.05)
    mapper = make_mapper(record_of(fitted()), PlainScene(open_scene(scene)), reader=reader)
    unit = mapper.compute(0, mapper.read(0))
    expected, world = unit.areas[2, -1], unit.areas[3, -1]
    assert expected == world > 0


@pytest.mark.parametrize("share", ["2", "-0.1", "much"])
def test_other_shares_are_refused(model_file, scene, tmp_path, share, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["map", str(model_file), str(scene), "--out", str(tmp_path / "map"), "--unknown-share", share])
    assert stopped.value.code != 0
    assert "from 0 to 1" in capsys.readouterr().err
