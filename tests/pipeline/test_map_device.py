"""Maps on a graphics processor: refusals in one line; with a device, the map of the processor."""

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import rasterio

from emulated_cuda import COMPILER, emulated
from map_cases import fitted, reflectance, save_model, write_scene
from uncover import BayesianClassifier, BayesianNB, BayesianQDA
from uncover.cli import main

try:
    import cupy

    DEVICES = cupy.cuda.runtime.getDeviceCount()
except Exception:
    DEVICES = 0


@pytest.fixture
def scene(tmp_path):
    write_scene(tmp_path / "scene.tif", reflectance(300, 200))
    save_model(tmp_path / "model.uncover", fitted(n=60))
    return tmp_path


def on_device(*more):
    return "map", "model.uncover", "scene.tif", "--device", "cuda", "--out", "map", *more


class NoDevice(Exception):
    """The error of a driver that is not there."""


def cupy_without_device(monkeypatch):
    def count():
        raise NoDevice

    runtime = SimpleNamespace(getDeviceCount=count, CUDARuntimeError=NoDevice)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))


def test_without_cupy_it_says_what_to_install(scene, refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert "--device cuda needs CuPy, which is not installed: pip install" in refused(*on_device())


def test_without_a_device_it_says_so(scene, refused, monkeypatch):
    cupy_without_device(monkeypatch)
    assert "--device cuda found no GPU of NVIDIA" in refused(*on_device())


class OutOfMemory(Exception):
    """The error of CuPy where its memory does not suffice."""


@pytest.mark.parametrize(
    "problem", [OutOfMemory("1 byte"), NoDevice("cudaErrorMemoryAllocation: out of memory")], ids=str
)
def test_a_device_without_memory_is_refused(scene, refused, monkeypatch, problem):
    def fail(*_, **__):
        raise problem

    runtime = SimpleNamespace(getDeviceCount=lambda: 1, CUDARuntimeError=NoDevice)
    memory = SimpleNamespace(OutOfMemoryError=OutOfMemory)
    cuda = SimpleNamespace(runtime=runtime, memory=memory, Stream=fail)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda, empty=lambda n: n))
    assert "the free memory of the GPU does not suffice" in refused(*on_device())


def test_an_old_driver_is_named(scene, refused, monkeypatch):
    def count():
        raise NoDevice("cudaErrorInsufficientDriver: driver version is insufficient")

    runtime = SimpleNamespace(getDeviceCount=count, CUDARuntimeError=NoDevice)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
    assert "older than the CUDA that CuPy was built for" in refused(*on_device())


def test_a_cluster_is_another_place(scene, refused):
    assert "--device cuda computes on this machine" in refused(*on_device("--scheduler", "tcp://127.0.0.1:1"))


def test_a_pool_needs_a_device_too(scene, refused, monkeypatch):
    cupy_without_device(monkeypatch)
    save_model(scene / "model.uncover", fitted(n=60, cls=BayesianClassifier))
    assert "--device cuda found no GPU of NVIDIA" in refused(*on_device())


def test_independent_features_have_no_kernel(scene, refused, monkeypatch):
    cupy_without_device(monkeypatch)
    monkeypatch.setattr("uncover.engines.cuda.check_cuda", lambda: None)
    save_model(scene / "model.uncover", fitted(n=60, cls=BayesianNB))
    assert "by qda, lda or mda" in refused(*on_device())


@pytest.mark.parametrize("cls", [BayesianQDA, BayesianClassifier])
def test_the_map_is_that_of_the_processor(scene, cls, monkeypatch):
    if DEVICES == 0 and (cls is BayesianClassifier or COMPILER is None):
        pytest.skip("there is no device with CuPy, and no quick way to emulate one")
    monkeypatch.chdir(scene)
    if DEVICES == 0:
        write_scene(scene / "scene.tif", reflectance(40, 30))
    save_model(scene / "model.uncover", fitted(n=60, cls=cls))
    for device in ("cpu", "cuda"):
        with nullcontext() if DEVICES else emulated(), pytest.raises(SystemExit) as stop:
            main(["map", "model.uncover", "scene.tif", "--device", device, "--out", device])
        assert not stop.value.code
    for layer, steps in (("probability", 1), ("uncertainty", 2)):
        planes = [rasterio.open(f"{device}/{layer}.tif").read().astype(int) for device in ("cpu", "cuda")]
        assert np.abs(planes[0] - planes[1]).max() <= steps
