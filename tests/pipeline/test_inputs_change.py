"""An input that changes while it is read: one line, and no product."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from label_maps import write_map
from map_cases import CLASSES, contents, fitted, grid, reflectance, save_model, write_scene
from map_products import write_polygons
from safe_trees import build_safe
from uncover.labels import Scheme
from uncover.pipeline import (
    EvaluateOptions,
    FitOptions,
    LabelOptions,
    MapOptions,
    RealiseOptions,
    SampleOptions,
    SceneOptions,
    SourceOptions,
    UncertaintyOptions,
    areas_of_regions,
    change_of_maps,
    collect_labels,
    evaluate_map,
    fit_model,
    map_scene,
    sample_map,
    write_labels,
    write_realisations,
)
from uncover.raster.errors import ChangedError

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

SHAPE = (130, 200)


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    place = tmp_path_factory.mktemp("originals")
    save_model(place / "m.uncover", fitted())
    write_scene(place / "scene.tif", reflectance(*SHAPE))
    write_map(place / "mask.tif", np.zeros(SHAPE, np.uint8), grid=grid(*SHAPE))
    (place / "noise.csv").write_text("band,u,units\nB02,0.01,1\nB03,0.01,1\nB04,0.01,1\nB08,0.01,1\n")
    codes = np.kron(np.arange(117).reshape(9, 13) % 3 + 1, np.ones((16, 16), np.uint8))[:130, :200]
    write_labels(place / "labels.tif", codes.astype(np.uint8), grid(*SHAPE), Scheme.of_names(CLASSES))
    write_map(place / "sure.tif", np.full(SHAPE, 99, np.uint8), grid=grid(*SHAPE))
    dem = build_safe(place, "L2A_04.00").path
    dem.rename(place / "product.SAFE")
    map_scene(place / "m.uncover", place / "scene.tif", place / "map", MapOptions(date="2020-06-01"))
    write_scene(place / "after.tif", reflectance(*SHAPE, seed=3))
    map_scene(place / "m.uncover", place / "after.tif", place / "map-after", MapOptions(date="2021-06-01"))
    parcels = [(0, 0, 40, 40), (50, 60, 90, 120)]
    write_polygons(place / "regions.gpkg", parcels, list(CLASSES[:2]), grid=grid(*SHAPE))
    return place


@pytest.fixture
def here(originals, tmp_path, monkeypatch):
    shutil.copytree(originals, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("uncover.raster.product.UNIT", 64)
    monkeypatch.setattr("uncover.raster.scratch.UNIT", 64)
    monkeypatch.setattr("uncover.raster.scratch.SECONDS_BETWEEN_SYNCS", 0.0)
    return tmp_path


def change(file):
    """Some bytes in the middle, in place, as a program that writes into the file does."""
    with open(file, "r+b") as stream:
        stream.seek(file.stat().st_size // 2)
        content = stream.read(64)
        stream.seek(file.stat().st_size // 2)
        stream.write(bytes(255 - byte for byte in content))


def replace(file):
    other = file.with_name("other")
    shutil.copyfile(file, other)
    change(other)
    os.replace(other, file)


def truncate(file):
    os.truncate(file, file.stat().st_size // 2)


WAYS = {"change": change, "replace": replace, "truncate": truncate, "delete": os.unlink}


def run_map(progress):
    source = SourceOptions(
        scene=SceneOptions(mask="mask.tif"),
        uncertainty="noise.csv",
        uncertainty_options=UncertaintyOptions(between_pixels="random"),
    )
    map_scene("m.uncover", "scene.tif", "out", MapOptions(source=source, threads=1), progress)


def run_fit(progress):
    options = FitOptions(labels="labels.tif", model="published", scene=SceneOptions(mask="mask.tif"))
    fit_model(["scene.tif"], options, progress).save("out")


def run_realise(progress):
    options = RealiseOptions(aod=0.1, draws=2, angles=(35.0, 5.0, 120.0))
    write_realisations("product.SAFE", "out", options, SceneOptions(), progress=progress)


def run_evaluate(progress):
    evaluate_map("map", "labels.tif", EvaluateOptions(draws=20), progress).write("out")


def run_labels(progress):
    collect_labels(["labels.tif"], ["sure.tif"], LabelOptions(), progress).write("out")


def run_areas(progress):
    areas_of_regions("map", "regions.gpkg", "out", progress=progress)


def run_change(progress):
    change_of_maps("map", "map-after", "out", progress=progress)


def run_sample(progress):
    sample_map("map", SampleOptions(purpose="areas", n=90), progress).write(Path("out.gpkg"))


def run_sample_training(progress):
    sample_map("map", SampleOptions(purpose="training", n=9), progress).write(Path("out.gpkg"))


def band_of_product():
    return next(Path("product.SAFE").rglob("*_B02_10m.jp2"))


CASES = [
    (run_map, "scene.tif"),
    (run_map, "mask.tif"),
    (run_map, "noise.csv"),
    (run_fit, "scene.tif"),
    (run_fit, "labels.tif"),
    (run_fit, "mask.tif"),
    (run_realise, band_of_product),
    (run_evaluate, "map/class.tif"),
    (run_evaluate, "map/probability.tif"),
    (run_evaluate, "labels.tif"),
    (run_labels, "labels.tif"),
    (run_labels, "sure.tif"),
    (run_areas, "regions.gpkg"),
    (run_areas, "map/class.tif"),
    (run_change, "map/probability.tif"),
    (run_change, "map-after/class.tif"),
    (run_sample, "map/class.tif"),
    (run_sample_training, "map/probability.tif"),
]


def disturbed(run, file, how):
    """Run, and change a file once when some of the work is done."""
    state = {"done": False}

    def progress(done, total):
        if done and not state["done"]:
            state["done"] = True
            WAYS[how](file)

    try:
        run(progress)
    finally:
        assert state["done"]


def place_of(name):
    return name() if callable(name) else Path(name)


@pytest.mark.parametrize(
    ("case", "how"),
    [
        pytest.param(case, how, marks=[] if i % 4 == j else [pytest.mark.slow])
        for i, case in enumerate(CASES)
        for j, how in enumerate(WAYS)
    ],
)
def test_a_change_in_the_middle_is_one_line(here, case, how):
    run, name = case
    file = place_of(name)
    with pytest.raises(ChangedError) as caught:
        disturbed(run, file, how)
    what = "was removed" if how == "delete" else "changed"
    assert f"{file.name} {what} while it was read" in str(caught.value)
    assert not any(Path().glob("out*"))


@pytest.mark.parametrize("how", ["replace", "delete"])
def test_a_model_is_read_once(here, how):
    run_map(None)
    Path("out").rename("undisturbed")
    disturbed(run_map, Path("m.uncover"), how)
    assert contents("out") == contents("undisturbed")


def test_the_same_content_under_a_new_time_is_no_change(here):
    run_map(None)
    Path("out").rename("undisturbed")
    seen = []

    def touch(done, total):
        if done and not seen:
            seen.append(done)
            os.utime("scene.tif")

    run_map(touch)
    assert seen and contents("out") == contents("undisturbed")
