"""Whatever stops a map, it goes on: kills in every phase, disks that are full, files that cannot be read."""

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import rasterio
from watched_runs import PHASES, killed_in, rehearse

from map_cases import BANDS, contents, fitted, reflectance, save_model, write_scene
from uncover.pipeline import MapOptions, SourceOptions, map_scene
from uncover.raster import SceneError, SceneOptions
from uncover.raster.journal import Journal

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


# ---- kills ---------------------------------------------------------------------------------------


def test_killed_at_twenty_moments_of_all_phases(case, tmp_path):
    """Ten times as a phase begins, ten times at random moments inside one; one run in all."""
    model, scene = case
    # One thread writes one file after the other; several write several at a time.
    durations = rehearse("map", model, scene, "--threads", 1, "--out", tmp_path / "undisturbed")
    phases = [phase for phase in PHASES if phase != "dataset"]
    assert list(durations) == phases
    rng = np.random.default_rng(int(os.environ.get("UNCOVER_KILL_SEED", "4")))
    inside = ["opening", *["units"] * 4, *(phase for phase in phases if phase.endswith((".tif", ".png")))]
    moments = [(phase, 0.0) for phase in phases]
    moments += [(phase, rng.uniform(0, durations[phase])) for phase in inside]
    moments.sort(key=lambda moment: (PHASES.index(moment[0]), moment[1]))
    out, killed = tmp_path / "map", []
    for phase, seconds in moments:
        killed.append(
            killed_in(phase, seconds, "map", model, scene, "--threads", 1, "--out", out, "--resume")
        )
        assert not out.exists() or killed[-1] == "clean up"
    assert len(killed) == 20 and set(killed) == set(phases)
    map_scene(*case, out, MapOptions(resume=True))
    assert contents(out) == contents(tmp_path / "undisturbed")
    assert not (tmp_path / "map.partial").exists()


@pytest.mark.parametrize("kind", ["zarr", "netcdf"])
def test_a_dataset_survives_kills(case, tmp_path, kind):
    model, scene = case
    durations = rehearse("map", model, scene, "--format", kind, "--out", tmp_path / "undisturbed")
    command = ("map", model, scene, "--format", kind, "--out", tmp_path / "map", "--resume")
    for share in (0.2, 0.7):
        killed_in("dataset", share * durations["dataset"], *command)
        assert not (tmp_path / "map").exists()
    map_scene(*case, tmp_path / "map", MapOptions(resume=True, format=kind))
    assert contents(tmp_path / "map") == contents(tmp_path / "undisturbed")


@pytest.mark.slow
def test_the_program_killed_at_twenty_random_moments(tmp_path):
    """The installed program as a user runs it, killed at any time between its start and its end."""
    case = (
        save_model(tmp_path / "m.uncover", fitted()),
        write_scene(tmp_path / "s.tif", reflectance(700, 900)),
    )
    program = [sys.executable, "-m", "uncover.cli", "map", *map(str, case), "--threads", "1", "--out"]
    began = time.monotonic()
    subprocess.run([*program, str(tmp_path / "undisturbed")], check=True, capture_output=True)
    longest, rng, kills = time.monotonic() - began, np.random.default_rng(5), 0
    out = tmp_path / "map"
    while kills < 20:
        run = subprocess.Popen([*program, str(out), "--resume"], stdout=subprocess.DEVNULL)
        time.sleep(rng.uniform(0, longest))
        run.kill()
        if run.wait() == -signal.SIGKILL:
            kills += 1
        else:  # it was faster: the next kills are for another one
            assert run.returncode == 0
            assert contents(out) == contents(tmp_path / "undisturbed")
            shutil.rmtree(out)
    subprocess.run([*program, str(out), "--resume"], check=True, capture_output=True)
    assert contents(out) == contents(tmp_path / "undisturbed")


# ---- full disks ----------------------------------------------------------------------------------


class FullDisk:
    """Every place where something is written fails once: the disk is full there."""

    def __init__(self, monkeypatch):
        self.failed = set()
        for owner, name in ((os, "pwrite"), (os, "fdatasync"), (os, "fsync")):
            monkeypatch.setattr(owner, name, self.wrap(getattr(os, name), name))
        monkeypatch.setattr(Path, "write_text", self.wrap(Path.write_text, "text"))
        monkeypatch.setattr(Path, "write_bytes", self.wrap(Path.write_bytes, "bytes"))
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
            assert "No space left" in str(error) and "resume" in str(error)
            assert "\n" not in str(error)
            assert not (tmp_path / "map").exists()
            assert failures < 200
    assert failures > 30
    assert contents(tmp_path / "map") == contents(tmp_path / "undisturbed")


@pytest.mark.parametrize("kind", ["cog", "zarr", "netcdf"])
def test_files_that_may_not_grow(tmp_path, small_units, kind):
    """A limit on the size of files stops GDAL and HDF5 inside a file, as a full disk does, and root, too."""
    case = save_model(tmp_path / "m.uncover", fitted()), write_scene(tmp_path / "s.tif", reflectance(70, 130))
    map_scene(*case, tmp_path / "undisturbed", MapOptions(format=kind))
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    stopped = 0
    for limit in (*np.geomspace(300, 150_000, 25).astype(int).tolist(), usual[0]):
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, usual[1]))
            map_scene(*case, tmp_path / "map", MapOptions(resume=True, format=kind, threads=1))
            break
        except SceneError as error:
            stopped += 1
            assert "cannot be written" in str(error) and "\n" not in str(error)
            assert not (tmp_path / "map").exists()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert stopped > 5
    assert contents(tmp_path / "map") == contents(tmp_path / "undisturbed")


def test_a_real_disk_that_is_full(case, undisturbed, tmp_path):
    """A file system of a few megabytes, mounted in a name space of its own where the user is not root."""
    small = tmp_path / "small"
    small.mkdir()
    script = tmp_path / "script.py"
    script.write_text(SMALL_DISK)
    command = [sys.executable, script, small, *case]
    here = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    if subprocess.run(["unshare", *here, "--mount", "true"], capture_output=True).returncode:
        pytest.skip("no name space can be made here, in which a small file system is mounted")
    done = subprocess.run(
        ["unshare", *here, "--mount", *map(str, command)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == undisturbed


SMALL_DISK = """
import json, subprocess, sys
from pathlib import Path
import uncover.raster.mapper, uncover.raster.product
from map_cases import contents
from uncover.pipeline import MapOptions, map_scene
from uncover.raster import SceneError

uncover.raster.mapper.UNIT = uncover.raster.product.UNIT = uncover.raster.scratch.UNIT = 64
small, model, scene = map(Path, sys.argv[1:])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], check=True)
for size in ("1m", "2m", "3m", "4m"):
    subprocess.run(["mount", "-o", f"remount,size={size}", small], check=True)
    try:
        map_scene(model, scene, small / "map", MapOptions(resume=True))
        sys.exit(f"{size} should have been too small")
    except SceneError as error:
        assert "cannot be written" in str(error) and "resume" in str(error), error
    assert not (small / "map").exists()
subprocess.run(["mount", "-o", "remount,size=30m", small], check=True)
map_scene(model, scene, small / "map", MapOptions(resume=True))
print(json.dumps(contents(small / "map")))
"""


# ---- files that cannot be read, and other runs ---------------------------------------------------


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
