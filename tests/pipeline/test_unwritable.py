"""Places that cannot be written: every command finds out before its work, in one line, and leaves nothing."""

import builtins
import errno
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from label_maps import write_map
from map_cases import CLASSES, fitted, grid, reflectance, save_model, write_scene
from safe_trees import build_safe
from uncover.labels import Scheme
from uncover.pipeline import map_scene, write_labels


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """What every command needs."""
    place = tmp_path_factory.mktemp("inputs")
    save_model(place / "m.uncover", fitted())
    write_scene(place / "scene.tif", reflectance(30, 40))
    codes = np.kron(np.arange(6).reshape(2, 3) % 3 + 1, np.ones((16, 16), np.uint8))[:30, :40]
    write_labels(place / "labels.tif", codes.astype(np.uint8), grid(30, 40), Scheme.of_names(CLASSES))
    write_map(place / "lcm.tif", codes.astype(np.uint8), grid=grid(30, 40), nodata=0)
    map_scene(place / "m.uncover", place / "scene.tif", place / "map")
    return place


COMMANDS = {
    "labels": ("labels", "lcm.tif"),
    "fit": ("fit", "scene.tif", "--labels", "labels.tif"),
    "map": ("map", "m.uncover", "scene.tif"),
    "map as a dataset": ("map", "m.uncover", "scene.tif", "--format", "zarr"),
    "evaluate": ("evaluate", "map", "--reference", "labels.tif", "--draws", 20),
}


@pytest.fixture(params=COMMANDS)
def command(request, inputs):
    return arguments(request.param, inputs)


def arguments(name, inputs):
    """A command with its inputs where they lie."""
    words = COMMANDS[name]
    return (
        words[0],
        *(inputs / word if str(word) == "map" or "." in str(word) else word for word in words[1:]),
    )


class Locked:
    """A folder in which nothing can be made or written, whoever runs the test."""

    def __init__(self, monkeypatch, folder, number):
        self.folder, self.number = str(folder), number
        for owner, name in ((os, "open"), (os, "mkdir"), (builtins, "open")):
            monkeypatch.setattr(owner, name, self.wrap(getattr(owner, name)))

    def wrap(self, function):
        def refuse(path, mode="r", *args, **options):
            inside = isinstance(path, str | Path) and str(Path(path).absolute()).startswith(self.folder)
            reads = (
                mode in ("r", "rb", os.O_RDONLY, os.O_RDONLY | os.O_CLOEXEC) and function.__name__ == "open"
            )
            if inside and not reads:
                raise OSError(self.number, os.strerror(self.number), str(path))
            return function(path, mode, *args, **options)

        refuse.__name__ = function.__name__
        return refuse


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EDQUOT])
def test_a_folder_that_is_locked(refused, command, tmp_path, monkeypatch, number):
    (tmp_path / "locked").mkdir()
    Locked(monkeypatch, tmp_path / "locked", number)
    line = refused(*command, "--out", "locked/out")
    assert "locked/out cannot be written" in line
    assert os.strerror(number) in line


@pytest.mark.parametrize("place", ["file/out", "/proc/out", "nowhere/out"])
def test_a_place_that_is_no_folder_for_files(refused, command, tmp_path, place):
    (tmp_path / "file").write_text("")
    assert f"{place} cannot be written" in refused(*command, "--out", place)
    assert not Path("/proc/out").exists()


def test_a_read_only_file_system(refused, command, tmp_path):
    (tmp_path / "fixed").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(tmp_path / "fixed")]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        line = refused(*command, "--out", "fixed/out")
        assert "fixed/out cannot be written" in line and "Read-only" in line
    finally:
        subprocess.run(["umount", str(tmp_path / "fixed")], check=True)


@pytest.mark.parametrize("place", ["file/cube.zarr", "/proc/cube.zarr", "nowhere/cube.zarr"])
def test_realisations_need_a_folder_too(refused, tmp_path, place):
    (tmp_path / "file").write_text("")
    tree = build_safe(tmp_path, "L2A_04.00")
    line = refused("realise", tree.path, "--aod", 0.1, "--draws", 2, "--out", place)
    assert f"{place} cannot be written" in line


def test_a_folder_for_results_that_is_there_is_tried(refused, inputs, tmp_path, monkeypatch):
    (tmp_path / "locked").mkdir()
    Locked(monkeypatch, tmp_path / "locked", errno.EROFS)
    line = refused(*arguments("evaluate", inputs), "--out", "locked")
    assert "cannot be written" in line and "Read-only" in line
