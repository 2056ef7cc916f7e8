"""How maps run: the same bytes whoever computes them, whatever stops them."""

import errno
import json
import os
import pickle
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import rasterio

from map_cases import BANDS, contents, fitted, grid, reflectance, save_model, write_scene
from uncover.pipeline import MapOptions, SourceOptions, map_scene
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
from uncover.raster.classify import make_mapper
from uncover.raster.evidence import Exact
from uncover.raster.journal import Journal
from uncover.raster.memory import MEGABYTE, Plan, parse_memory


@pytest.fixture
def small_units(monkeypatch):
    """Units of 64 pixels: many of them in a small scene."""
    monkeypatch.setattr("uncover.raster.product.UNIT", 64)
    monkeypatch.setattr("uncover.raster.mapper.UNIT", 64)
    monkeypatch.setattr("uncover.raster.scratch.SECONDS_BETWEEN_SYNCS", 0.02)


@pytest.fixture
def case(tmp_path, small_units):
    """A model and a scene of seven by six units."""
    values = reflectance(370, 420)
    values[:, 100:200, 50:90] = np.nan
    model = save_model(tmp_path / "m.uncover", fitted())
    return model, write_scene(tmp_path / "scene.tif", values, nodata=np.nan)


@pytest.fixture
def undisturbed(case, tmp_path):
    map_scene(*case, tmp_path / "undisturbed")
    return contents(tmp_path / "undisturbed")


# ---- who computes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        MapOptions(threads=1),
        MapOptions(threads=3, block=64),
        MapOptions(threads=2, block=100),
        MapOptions(threads=2, block=97, memory=140 * MEGABYTE),
    ],
)
def test_bytes_do_not_depend_on_blocks_threads_or_memory(case, undisturbed, tmp_path, options):
    map_scene(*case, tmp_path / "map", options)
    assert contents(tmp_path / "map") == undisturbed


def test_bytes_do_not_depend_on_a_cluster(tmp_path):
    # Workers are processes of their own, with units of the usual size.
    distributed = pytest.importorskip("distributed")
    model = save_model(tmp_path / "m.uncover", fitted("shared", worlds=4))
    scene = write_scene(tmp_path / "scene.tif", reflectance(300, 530))
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

    mapper = make_mapper(load_model(model), Exact(open_scene(path)))
    there = pickle.loads(pickle.dumps(mapper))
    here, other = mapper.compute(3, mapper.read(3)), there.compute(3, there.read(3))
    for name, planes in here.layers.items():
        np.testing.assert_array_equal(planes, other.layers[name])


# ---- what stops it -------------------------------------------------------------------------------


def start(case, out, delay):
    """Run a map in a process of its own that dies after some steps and seconds; its exit status."""
    ready, done = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            map_scene(*case, out, MapOptions(resume=True), lambda *_: os.write(done, b"."))
        finally:
            os._exit(0 if Path(out).exists() else 1)
    os.close(done)
    steps, seconds = delay
    for _ in range(steps):
        if not os.read(ready, 1):
            break
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(ready)
    return status


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_killed_at_twenty_random_moments(tmp_path, small_units):
    case = (
        save_model(tmp_path / "m.uncover", fitted()),
        write_scene(tmp_path / "s.tif", reflectance(760, 760)),
    )
    map_scene(*case, tmp_path / "undisturbed")
    rng = np.random.default_rng(int(os.environ.get("UNCOVER_KILL_SEED", "4")))
    out, killed = tmp_path / "map", 0
    for _ in range(20):
        status = start(case, out, (int(rng.integers(0, 4)), float(rng.uniform(0, 0.05))))
        killed += os.WIFSIGNALED(status)
        assert not out.exists() or (out / "run.json").exists()
    assert killed == 20
    map_scene(*case, out, MapOptions(resume=True))
    assert contents(out) == contents(tmp_path / "undisturbed")
    assert not (tmp_path / "map.partial").exists()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_killed_while_the_files_are_made(case, undisturbed, tmp_path):
    rng = np.random.default_rng(7)
    out, units = tmp_path / "map", 42
    for _ in range(6):
        start(case, out, (units + 1, float(rng.uniform(0, 0.4))))
        units = 0
    map_scene(*case, out, MapOptions(resume=True))
    assert contents(out) == undisturbed


class FullDisk:
    """Every place where something is written fails once: the disk is full there."""

    def __init__(self, monkeypatch):
        self.failed = set()
        for owner, name in ((os, "pwrite"), (os, "fdatasync"), (os, "fsync")):
            monkeypatch.setattr(owner, name, self.wrap(getattr(os, name), name))
        monkeypatch.setattr(Path, "write_text", self.wrap(Path.write_text, "text"))
        monkeypatch.setattr(Journal, "_append", self.wrap(Journal._append, "journal"))
        monkeypatch.setattr(shutil, "copyfile", self.wrap(shutil.copyfile, "copy"))
        monkeypatch.setattr(rasterio.shutil, "copy", self.wrap(rasterio.shutil.copy, "cog"))

    def wrap(self, function, name):
        def write(*args, **options):
            key = name, self.place(name, args)
            if key not in self.failed:
                self.failed.add(key)
                raise OSError(errno.ENOSPC, "No space left on device")
            return function(*args, **options)

        return write

    def place(self, name, args):
        if name in ("pwrite", "fdatasync", "fsync"):
            file = os.readlink(f"/proc/self/fd/{args[0]}").rsplit("/", 1)[-1]
            return file, args[2] // 30_000 if name == "pwrite" else 0
        return str(args[1]) if name in ("journal", "copy", "cog") else str(args[0])


def test_a_disk_that_is_full_at_every_write(tmp_path, small_units, monkeypatch):
    case = save_model(tmp_path / "m.uncover", fitted()), write_scene(tmp_path / "s.tif", reflectance(70, 130))
    map_scene(*case, tmp_path / "undisturbed")
    FullDisk(monkeypatch)
    failures = 0
    while not (tmp_path / "map").exists():
        try:
            map_scene(*case, tmp_path / "map", MapOptions(resume=True, threads=1))
        except SceneError as error:
            failures += 1
            assert "No space left" in str(error)
            assert "\n" not in str(error)
            assert failures < 200
    assert failures > 30
    assert contents(tmp_path / "map") == contents(tmp_path / "undisturbed")


def test_a_real_disk_that_is_full(case, undisturbed, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        for size in ("1m", "2m", "3m", "4m"):
            subprocess.run(["mount", "-o", f"remount,size={size}", str(small)], check=True)
            with pytest.raises(SceneError, match="cannot be written"):
                map_scene(*case, small / "map", MapOptions(resume=True))
            assert not (small / "map").exists()
        subprocess.run(["mount", "-o", "remount,size=30m", str(small)], check=True)
        map_scene(*case, small / "map", MapOptions(resume=True))
        assert contents(small / "map") == undisturbed
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_block_that_cannot_be_read(case, tmp_path):
    model, _ = case
    scene = write_scene(tmp_path / "damaged.tif", reflectance(370, 420), names=None)
    content = scene.read_bytes()
    scene.write_bytes(content[: len(content) * 2 // 3])
    options = MapOptions(source=SourceOptions(scene=SceneOptions(bands=BANDS)))
    with pytest.raises(SceneError, match="cannot be decoded") as caught:
        map_scene(model, scene, tmp_path / "map", options)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "map").exists()


def test_an_error_while_reading_once_is_resumed(case, undisturbed, tmp_path, monkeypatch):
    from uncover.raster.scene import Scene

    calls, read = [0], Scene.read

    def fail_once(self, window=None):
        calls[0] += 1
        if calls[0] == 30:
            raise SceneError("the network is gone")
        return read(self, window)

    monkeypatch.setattr(Scene, "read", fail_once)
    with pytest.raises(SceneError, match=r"the network is gone; finished work is kept, go on with --resume"):
        map_scene(*case, tmp_path / "map")
    assert not (tmp_path / "map").exists()
    with pytest.raises(SceneError, match="unfinished run"):
        map_scene(*case, tmp_path / "map")
    map_scene(*case, tmp_path / "map", MapOptions(resume=True, block=64))
    assert contents(tmp_path / "map") == undisturbed


def test_resuming_a_finished_run_changes_nothing(case, undisturbed, tmp_path):
    map_scene(*case, tmp_path / "undisturbed", MapOptions(resume=True))
    assert contents(tmp_path / "undisturbed") == undisturbed
    other = MapOptions(resume=True, source=SourceOptions(scene=SceneOptions(scene_id="another")))
    with pytest.raises(SceneError, match="another map"):
        map_scene(*case, tmp_path / "undisturbed", other)


@pytest.mark.parametrize("what", ["model", "scene", "options"])
def test_other_inputs_do_not_resume(case, tmp_path, monkeypatch, what):
    from uncover.raster.scratch import Scratch

    def stop(self, unit):
        self.journal.add("0")
        raise SceneError("stop")

    with monkeypatch.context() as patch:
        patch.setattr(Scratch, "put", stop)
        with pytest.raises(SceneError, match="stop"):
            map_scene(*case, tmp_path / "map")
    model, scene = case
    options = MapOptions(resume=True)
    if what == "model":
        save_model(model, fitted(seed=9))
    elif what == "scene":
        with rasterio.open(scene, "r+") as file:
            values = file.read()
            values[0, -1, -1] += 1e-3
            file.write(values)
    else:
        options = MapOptions(resume=True, missing="marginalise")
    with pytest.raises(SceneError, match="other inputs"):
        map_scene(model, scene, tmp_path / "map", options)


def test_two_runs_do_not_share_a_folder(case, tmp_path, monkeypatch):
    partial = tmp_path / "map.partial"

    def run_meanwhile(*_):
        if not hasattr(run_meanwhile, "done"):
            run_meanwhile.done = True
            with pytest.raises(SceneError, match="another run"):
                map_scene(*case, tmp_path / "map", MapOptions(resume=True))

    map_scene(*case, tmp_path / "map", progress=run_meanwhile)
    assert run_meanwhile.done
    assert not partial.exists()


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
    evidence = Exact(scene)
    product = make_mapper(fitted(), evidence, reader=Reader()).product
    plenty, little = (Plan.of(parse_memory(m), evidence, product, 8) for m in ("4GB", "180MB"))
    assert plenty.threads == 8
    assert 1 <= little.threads < 8
    assert little.bytes_needed <= parse_memory("180MB")
    with pytest.raises(SceneError, match="too few"):
        Plan.of(10 * MEGABYTE, evidence, product)
