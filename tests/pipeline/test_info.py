"""What `uncover info` says of each kind of file, and that it refuses what is none of them."""

import fcntl
import json
import os

import numpy as np
import pytest

from label_maps import GRID, patchy, write_map
from map_cases import fitted, grid, reflectance, save_model, write_scene
from safe_trees import build_safe, shared
from uncover.labels import load_scheme
from uncover.pipeline import FitOptions, LabelOptions, collect_labels, fit_model
from uncover.raster import CubeBlock, CubeLayout, SampleBlock, Window, write_cube, write_samples
from uncover.raster.journal import unfinished


@pytest.fixture
def facts(run):
    def command(*arguments):
        result = run("info", *arguments, "--json")
        assert result.exit_code == 0, result.output
        text = run("info", *arguments)
        assert text.exit_code == 0 and text.stderr == ""
        found = json.loads(result.stdout)
        assert text.stdout.splitlines()[0] == found["kind"]
        return found

    return command


def table(path, samples=40):
    rng = np.random.default_rng(0)
    rows = [f"{rng.normal():.4f},{rng.normal():.4f},{'ab'[i % 2]},g{i % 5}" for i in range(samples)]
    path.write_text("B2,B3,class,group\n" + "\n".join(rows) + "\n")
    return path


def test_a_table(facts, tmp_path):
    found = facts(table(tmp_path / "pixels.csv"))
    assert found["kind"] == "sample table"
    assert (found["samples"], found["realisations"], found["groups"]) == (40, 1, 5)
    assert found["bands"] == ["B02", "B03"] and found["classes"] == {"a": 20, "b": 20}


def test_a_model(facts, run, tmp_path):
    fit_model([table(tmp_path / "pixels.csv")], FitOptions(model="published")).save(tmp_path / "m.uncover")
    found = facts("m.uncover")
    assert found["kind"] == "model" and found["estimator"] == "BayesianQDA"
    assert found["classes"] == {"a": 20, "b": 20} and found["bands"] == ["B02", "B03"]
    assert found["provenance"]["sources"][0]["name"] == "pixels.csv"
    assert "Model prior" in run("info", "m.uncover").stdout  # the page of the model itself
    (tmp_path / "m.uncover").rename(tmp_path / "model.bin")
    assert facts("model.bin")["kind"] == "model"  # by what it is, not by its name


def test_labels(facts, tmp_path):
    maps = [write_map(tmp_path / "lcm.tif", patchy(0, GRID.shape, [1, 3, 13], noise=0))]
    labels = collect_labels(maps, options=LabelOptions(scheme="ukceh-lulucf"))
    labels.write(tmp_path / "labels.tif")
    found = facts("labels.tif")
    assert found["kind"] == "labels" and found["scheme"] == "lulucf"
    assert found["pixels"]["1 forest"] == (labels.codes == 1).sum()
    assert sum(found["pixels"].values()) + found["unlabelled"] == GRID.window.pixels
    assert found["crs"] == "EPSG:32630"


def test_a_model_of_numbered_classes_names_those_that_it_knows(facts, tmp_path):
    write_scene(tmp_path / "scene.tif", reflectance(32, 32))
    codes = np.repeat([[4], [7]], [16, 16], axis=0) * np.ones((1, 32), int)
    write_map(tmp_path / "codes.tif", codes.astype(np.uint8), grid=grid(32, 32))
    fit_model([tmp_path / "scene.tif"], FitOptions(tmp_path / "codes.tif", model="published")).save(
        tmp_path / "m.uncover"
    )
    assert facts("m.uncover")["provenance"]["scheme"]["classes"] == {"4": "class 4", "7": "class 7"}


def test_a_scene(facts, tmp_path):
    tree = build_safe(tmp_path, "L2A_04.00")
    found = facts(tree.path)
    assert (found["kind"], found["level"], found["processing baseline"]) == ("scene", "L2A", "04.00")
    assert len(found["bands"]) == 10 and found["crs"] == tree.crs
    assert len(facts(tree.path, "--bands", "B02,B8A")["bands"]) == 2


def test_a_raster_of_whole_numbers_says_what_it_lacks(facts, tmp_path):
    write_map(tmp_path / "numbers.tif", np.ones(GRID.shape, np.uint16))
    assert "--scale" in facts("numbers.tif")["note"]
    assert facts("numbers.tif", "--scale", 0.0001)["kind"] == "scene"


def test_a_cube_and_a_sample_cube(facts, tmp_path):
    layout = CubeLayout(GRID, ("B02",), 3, "scene-1", {"aod": np.array([0.1, 0.2, 0.3])}, {"seed": 4})

    def produce(window):
        return CubeBlock(
            window, np.ones((3, 1, *window.shape), np.float32), np.zeros(window.shape, np.uint16)
        )

    write_cube(tmp_path / "cube.zarr", layout, produce)
    found = facts("cube.zarr")
    assert (found["kind"], found["scene"], found["realisations"]) == ("cube", "scene-1", 3)
    assert found["aod"] == [0.1, 0.2, 0.3] and found["seed"] == 4

    def samples(window):
        return SampleBlock(np.ones((5, 3, 1), np.float32), {"label": np.arange(5)})

    write_samples(tmp_path / "samples.zarr", ("B02",), [Window(0, 0, 1, 5)], samples)
    found = facts("samples.zarr")
    assert (found["kind"], found["samples"], found["columns"]) == ("sample cube", 5, ["label"])


def test_a_vector_file(facts):
    found = facts(shared("sen2_amazon") / "trainingPolygons_sen2.gpkg")
    assert (found["kind"], found["features"], found["fields"]) == ("vector file", 25, ["class"])


def test_schemes_and_tables(facts, tmp_path):
    listed = facts("schemes")
    assert "lulucf" in listed["class schemes"] and "ukceh-lulucf" in listed["translation tables"]
    assert facts("worldcover")["classes"]["95"] == "Mangroves"
    rules = facts("ukceh-lulucf")["rules"]
    assert rules["11 Bog"].startswith("wetlands — peatland")
    assert any(rule.startswith("no label") for rule in rules.values())
    assert "Table A3.4.4" in facts("ukceh-lulucf")["note"]
    assert "note" not in facts("worldcover-lulucf")
    own = 'name = "mine"\nsource = "lulucf"\ntarget = "lulucf"\n'
    own += '[[rules]]\nfrom = [1, 2, 3, 4, 5, 6]\nto = "other"\n'
    (tmp_path / "mine.toml").write_text(own)
    assert facts("mine.toml")["kind"] == "translation table mine"
    assert len(facts("lulucf")["classes"]) == len(load_scheme("lulucf").classes)


@pytest.mark.parametrize("name", ["m.uncover", "x.tif", "x.gpkg", "x.parquet", "x.zip", "x.zarr"])
def test_what_is_none_of_them_is_refused(refused, tmp_path, name):
    assert "does not exist" in refused("info", name)
    (tmp_path / name).write_bytes(b"nothing of the kind")
    assert name in refused("info", name)


@pytest.fixture
def mapped(run, tmp_path):
    """Run `uncover map` on a small scene with some nodata; returns the folder."""
    model = save_model(tmp_path / "m.uncover", fitted("shared", worlds=3))
    values = reflectance(40, 50)
    values[:, :10, :10] = np.nan
    scene = write_scene(tmp_path / "scene.tif", values, nodata=np.nan)

    def command(*options):
        result = run("map", model, scene, "--out", "map", *options)
        assert result.exit_code == 0, result.output
        return tmp_path / "map"

    return command


@pytest.mark.parametrize(
    ("kind", "file", "title"),
    [
        ("cog", "item.json", "Cloud-Optimised GeoTIFF"),
        ("zarr", "map.zarr", "Zarr"),
        ("netcdf", "map.nc", "NetCDF"),
    ],
)
def test_a_map(facts, mapped, kind, file, title):
    folder = mapped("--format", kind)
    found = facts("map")
    assert (found["kind"], found["format"], found["scene"]) == ("map", title, "scene")
    assert list(found["pixels"]) == ["1 forest", "2 grassland", "3 water"]
    assert sum(found["pixels"].values()) == 40 * 50 - 100
    assert sum(found["area_ha"].values()) == pytest.approx(19, rel=2e-4)  # the scale of UTM
    assert sum(found["share"].values()) == pytest.approx(1)
    assert (found["size"], found["crs"]) == ("50 x 40 pixels of 10 x 10", "EPSG:32633")
    assert found["measurement uncertainty"] == {"source": "none"} and found["paired"] is False
    assert "lacks" not in found
    assert facts(f"map/{file}") == found  # the dataset or the item stand for the map
    (folder / "overview.png").unlink()
    assert facts("map")["lacks"] == ["./overview.png"]


def test_a_layer_of_a_map(facts, mapped):
    mapped()
    layer = facts("map/probability.tif")
    assert (layer["kind"], layer["bands"]) == ("layer of a map", ["forest", "grassland", "water"])
    assert facts("map/class.tif")["pixels"] == facts("map")["pixels"]


@pytest.mark.parametrize("name", ["map", "map.partial"])
def test_an_unfinished_map_says_how_it_goes_on(facts, mapped, monkeypatch, tmp_path, name):
    def stop(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("uncover.pipeline.map_files.write_overview", stop)
        with pytest.raises(AssertionError, match="No space left"):
            mapped()
    found = facts(name)
    assert found["kind"] == "unfinished map"
    assert found["blocks finished"] == 1
    assert set(found["files finished"]) == {"class.tif", "probability.tif", "uncertainty.tif", "quality.tif"}
    assert found["to go on"].startswith("uncover map MODEL SCENE --out map --resume")
    with (tmp_path / "map.partial" / "journal").open("a") as journal:
        journal.write('{"piece": "cut in the mid')
    assert facts(name) == found
    assert mapped("--resume").is_dir()
    assert facts("map")["kind"] == "map"


def test_a_run_at_work_is_not_called_stopped(facts, tmp_path):
    (tmp_path / "map.partial" / "scratch").mkdir(parents=True)
    folder = os.open(tmp_path / "map.partial", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    assert facts("map")["state"] == "a run is working on it"
    os.close(folder)
    assert "to go on" in facts("map")


def test_an_unfinished_cube_says_how_it_goes_on(facts, tmp_path):
    def produce(window):
        raise RuntimeError("stop")

    layout = CubeLayout(GRID, ("B02",), 3, "scene-1")
    with (
        pytest.raises(RuntimeError),
        unfinished(tmp_path / "cube.zarr", layout.key({}), False) as (_, journal),
    ):
        journal.add("0")
        produce(None)
    found = facts("cube.zarr")
    assert (found["kind"], found["blocks finished"]) == ("unfinished cube", 1)
    assert found["to go on"].startswith("uncover realise SCENE --out cube.zarr --resume")


def test_an_evaluation(facts, run, mapped, tmp_path):
    folder = mapped()
    options = ("--reference", folder / "class.tif", "--out", "evaluation", "--draws", 20)
    assert run("evaluate", "map", *options).exit_code == 0
    found = facts("evaluation")
    assert (found["kind"], found["map"], found["reference"]["kind"]) == ("evaluation", "map", "raster")
    assert found["overall accuracy"].startswith("1 (")
    assert "not a probability sample" in found["design"]
    assert found["classes"] == ["forest", "grassland", "water"]
    (tmp_path / "evaluation" / "areas.csv").unlink()
    assert facts("evaluation")["lacks"] == ["areas.csv"]


@pytest.mark.parametrize("file", ["map/item.json", "map/areas.csv", "evaluation/evaluation.json"])
def test_a_damaged_product_is_refused(refused, run, mapped, cut, file):
    mapped()
    run("evaluate", "map", "--reference", "map/class.tif", "--out", "evaluation", "--draws", 20)
    cut(file, 0.1)
    assert "damaged" in refused("info", file.split("/")[0])
