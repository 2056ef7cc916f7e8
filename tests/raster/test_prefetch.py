"""What is read ahead is there when it is asked for, within its limit; errors wait for whoever asks."""

import time

import numpy as np
import pytest

from map_cases import reflectance, write_scene
from uncover.raster import ReadError, Window, open_scene
from uncover.raster.scene import prefetch
from uncover.raster.tiles import BandFile


@pytest.fixture
def scene(tmp_path):
    return open_scene(write_scene(tmp_path / "scene.tif", reflectance(1100, 1100)))


def wait_for(condition):
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def test_the_cache_is_filled_and_the_numbers_are_the_same(scene, monkeypatch):
    wanted = scene.read(Window(0, 0, 1100, 1100)).reflectance
    scene = open_scene(scene.groups[0].source.path)
    whole = 1100 * 1100 * sum(len(group.bands) for group in scene.groups) * 4
    before = scene.cache.nbytes
    with prefetch(scene, 10**9):
        wait_for(lambda: scene.cache.nbytes >= whole > before)
    monkeypatch.setattr(BandFile, "_load", lambda *_: pytest.fail("a tile was decoded twice"))
    np.testing.assert_array_equal(scene.read(Window(0, 0, 1100, 1100)).reflectance, wanted)


def test_the_limit_is_kept(scene):
    tile = 512 * 512 * sum(len(group.bands) for group in scene.groups) * 4
    with prefetch(scene, scene.cache.nbytes + 1):
        time.sleep(0.2)
    assert scene.cache.nbytes <= 12 * tile  # the nine spots that are looked at on opening, and a block


def test_an_error_waits_for_whoever_asks(scene, monkeypatch):
    def broken(*_):
        raise ReadError("cannot be decoded")

    monkeypatch.setattr(BandFile, "_load", broken)
    scene.cache.__init__(scene.cache.capacity)
    with prefetch(scene, 10**9):
        pass
    with pytest.raises(ReadError, match="cannot be decoded"):
        scene.read(Window(0, 0, 10, 10))
