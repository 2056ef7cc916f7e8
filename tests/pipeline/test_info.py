"""What `uncover info` says of each kind of file, and that it refuses what is none of them."""

import json

import numpy as np
import pytest

from label_maps import GRID, patchy, write_map
from safe_trees import build_safe, shared
from uncover.labels import load_scheme
from uncover.pipeline import LabelOptions, collect_labels, fit_model
from uncover.raster import CubeBlock, CubeLayout, SampleBlock, Window, write_cube, write_samples


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
    fit_model([table(tmp_path / "pixels.csv")]).save(tmp_path / "m.uncover")
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
