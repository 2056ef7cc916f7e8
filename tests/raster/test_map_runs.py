"""How maps run: the same bytes whoever computes them, in the memory that they may take."""

import json
import pickle

import numpy as np
import pytest
import rasterio

from map_cases import BANDS, contents, fitted, grid, reflectance, save_model, write_scene
from uncover.pipeline import MapOptions, SourceOptions, UncertaintyOptions, map_scene
from uncover.raster import (
    Reader,
    SceneError,
    SceneOptions,
    Serial,
    Threads,
    classify,
    open_scene,
    scene_from_array,
)
from uncover.raster.classification import make_mapper
from uncover.raster.executors import MEGABYTE, ComputePlan, parse_memory
from uncover.raster.observed import PlainScene

# ---- who computes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        MapOptions(threads=1),
        MapOptions(threads=3, block=64),
        MapOptions(threads=2, block=150),  # two by two units
        MapOptions(threads=5, block=200, memory=140 * MEGABYTE),
    ],
)
def test_bytes_do_not_depend_on_blocks_threads_or_memory(case, undisturbed, tmp_path, options):
    map_scene(*case, tmp_path / "map", options)
    assert contents(tmp_path / "map") == undisturbed


@pytest.mark.filterwarnings("ignore:the model was fitted without --uncertainty")
@pytest.mark.parametrize("kind", ["noise", "zarr", "netcdf"])
def test_bytes_of_other_sources_and_formats_do_not_depend_on_them_either(tmp_path, small_units, kind):
    model = save_model(tmp_path / "m.uncover", fitted())
    scene = write_scene(tmp_path / "scene.tif", reflectance(70, 130))
    (tmp_path / "noise.csv").write_text("band,u\n" + "".join(f"{band},0.02\n" for band in BANDS))
    noise = SourceOptions(
        uncertainty=tmp_path / "noise.csv", uncertainty_options=UncertaintyOptions(between_pixels="random")
    )
    what = {"source": noise} if kind == "noise" else {"format": kind}
    map_scene(model, scene, tmp_path / "a", MapOptions(threads=1, **what))
    map_scene(model, scene, tmp_path / "b", MapOptions(threads=3, block=64, **what))
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_bytes_do_not_depend_on_a_cluster(tmp_path):
    # Workers are processes of their own, with units of the usual size.
    distributed = pytest.importorskip("distributed")
    model = save_model(tmp_path / "m.uncover", fitted("shared", worlds=4))
    scene = write_scene(tmp_path / "scene.tif", reflectance(30, 530))
    map_scene(model, scene, tmp_path / "here")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50
        ) as cluster,
    ):
        map_scene(model, scene, tmp_path / "there", MapOptions(scheduler=cluster.scheduler_address))
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def test_no_scheduler_is_one_line(case, tmp_path):
    pytest.importorskip("distributed")
    with pytest.raises(SceneError, match="no dask scheduler"):
        map_scene(*case, tmp_path / "map", MapOptions(scheduler="tcp://127.0.0.1:9"))
    assert not (tmp_path / "map.partial").exists()


def test_the_library_gives_what_the_files_hold(case, undisturbed, tmp_path):
    model, path = case
    from uncover import load_model

    layers = classify(open_scene(path), load_model(model), executor=Serial())
    for name, planes in layers.items():
        with rasterio.open(tmp_path / "undisturbed" / f"{name}.tif") as file:
            np.testing.assert_array_equal(planes, file.read())
    again = classify(open_scene(path), load_model(model), executor=Threads(3), block=97)
    for name, planes in layers.items():
        np.testing.assert_array_equal(planes, again[name])


def test_a_cut_out_has_the_same_classes(case, tmp_path):
    model, path = case
    from uncover import load_model

    options = SceneOptions(bbox=(300700, 4998000, 302000, 4999000), bbox_crs="EPSG:32633")
    cut = classify(open_scene(path, options), load_model(model))
    whole = classify(open_scene(path), load_model(model))
    np.testing.assert_array_equal(cut["class"], whole["class"][:, 100:200, 70:200])


@pytest.mark.parametrize("worlds", [None, 3])
def test_lazy_arrays(worlds):
    xarray = pytest.importorskip("xarray")
    dask = pytest.importorskip("dask.array")
    values = reflectance(90, 70)
    values[1, 5:9, 5] = np.nan
    values[:, 20, 20] = np.nan
    model = fitted("shared", worlds) if worlds else fitted()
    dims = ("band", "y", "x")
    if worlds:
        values = values[None] + np.linspace(0, 0.01, worlds, dtype=np.float32)[:, None, None, None]
        dims = ("realisation", *dims)
    array = xarray.DataArray(values, dims=dims, coords={"band": list(BANDS), "x": np.arange(70.0)})
    eager = classify(array, model, paired=True)
    chunks = {"y": 32, "x": 41}
    lazy = classify(array.chunk(chunks), model, paired=True)
    assert isinstance(lazy["probability"].data, dask.Array)
    xarray.testing.assert_equal(lazy.compute(), eager)
    assert eager["class"].values[20, 20] == 0
    assert eager["quality"].values[5, 5] == 2
    if not worlds:
        scene = scene_from_array(values, grid(90, 70), BANDS)
        np.testing.assert_array_equal(classify(scene, model)["class"][0], eager["class"])


def test_lazy_arrays_with_other_bands_are_refused():
    xarray = pytest.importorskip("xarray")
    array = xarray.DataArray(np.zeros((4, 2, 2)), dims=("band", "y", "x"), coords={"band": list(BANDS[::-1])})
    with pytest.raises(SceneError, match="trained on"):
        classify(array, fitted())


def test_a_mapper_travels(case):
    model, path = case
    from uncover import load_model

    mapper = make_mapper(load_model(model), PlainScene(open_scene(path)))
    there = pickle.loads(pickle.dumps(mapper))
    here, other = mapper.compute(3, mapper.read(3)), there.compute(3, there.read(3))
    for name, planes in here.layers.items():
        np.testing.assert_array_equal(planes, other.layers[name])


def test_no_clock_and_no_path_in_the_product(case, undisturbed, tmp_path):
    run = json.loads((tmp_path / "undisturbed" / "run.json").read_text())
    assert {"began", "seconds", "host", "threads", "block", "scene"} < set(run)
    for path in (tmp_path / "undisturbed").rglob("*"):
        if path.is_file() and path.name != "run.json":
            content = path.read_bytes()
            assert str(tmp_path).encode() not in content
            assert run["began"][:13].encode() not in content


# ---- memory --------------------------------------------------------------------------------------


def test_less_memory_means_fewer_threads():
    scene = scene_from_array(np.zeros((4, 300, 300), np.float32), grid(300, 300), BANDS)
    observed = PlainScene(scene)
    product = make_mapper(fitted(), observed, reader=Reader()).product
    plenty, little = (ComputePlan.of(parse_memory(m), observed, product, 8) for m in ("4GB", "180MB"))
    assert plenty.threads == 8
    assert 1 <= little.threads < 8
    assert little.bytes_needed <= parse_memory("180MB")
    with pytest.raises(SceneError, match="too few"):
        ComputePlan.of(10 * MEGABYTE, observed, product)
