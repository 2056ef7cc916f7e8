"""Commands that write, with small inputs; and a process that runs them in forked children, to be killed."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import rasterio

from map_cases import CLASSES, contents, fitted, grid, reflectance, save_model, write_scene

#: Seconds that any run may take.
PATIENCE = 300


@dataclass(frozen=True)
class Command:
    """A command line that writes `out`; the same line with `again` goes on after a kill."""

    name: str
    arguments: tuple[str, ...]
    out: str = "new"
    again: tuple[str, ...] = ()

    @property
    def in_steps(self):
        """The output is a folder that grows step by step."""
        return self.name in ("demo", "scenes")


_MAP = ("map", "model.uncover", "scene.tif", "--threads", "1", "--out", "new")
COMMANDS = {
    command.name: command
    for command in (
        Command("labels", ("labels", "labels.tif", "--test-out", "new-test.tif", "--block", "100",
                           "--buffer", "0", "--report", "new.json", "--out", "new.tif"), "new.tif",
                again=("--overwrite",)),
        Command("fit", ("fit", "scene.tif", "--labels", "labels.tif", "--model", "published", "--block", "0",
                        "--out", "new.uncover"), "new.uncover"),
        Command("map", _MAP, again=("--resume",)),
        Command("map-zarr", (*_MAP, "--format", "zarr"), again=("--resume",)),
        Command("map-netcdf", (*_MAP, "--format", "netcdf"), again=("--resume",)),
        Command("realise", ("realise", "top.tif", "--level", "L1C", "--sensor", "S2A", "--aod", "0.1",
                            "--angles", "35", "5", "120", "--draws", "2", "--out", "new"),
                again=("--resume",)),
        Command("evaluate", ("evaluate", "map", "--reference", "labels.tif", "--draws", "20", "--block", "50",
                             "--out", "new")),
        Command("areas", ("areas", "map", "--regions", "regions.gpkg", "--field", "class", "--out", "new"),
                again=("--resume",)),
        Command("change", ("change", "map", "map-after", "--out", "new"), again=("--resume",)),
        Command("sample", ("sample", "map", "--for", "areas", "-n", "100", "--out", "new.gpkg"), "new.gpkg",
                again=("--overwrite",)),
        Command("sample-training", ("sample", "map", "--for", "training", "-n", "9", "--out", "new.gpkg"),
                "new.gpkg", again=("--overwrite",)),
        Command("report", ("report", "map", "--out", "new.html"), "new.html"),
        Command("view", ("view", "map", "--export", "new")),
        Command("demo", ("demo", "--size", "120", "--draws", "2", "--out", "new")),
    )
}  # fmt: skip


def make_inputs(folder):
    """The files that the commands read."""
    from map_products import write_polygons
    from uncover.labels import Scheme
    from uncover.pipeline import MapOptions, map_scene, write_labels

    folder.mkdir(parents=True, exist_ok=True)
    save_model(folder / "model.uncover", fitted())
    write_scene(folder / "scene.tif", reflectance(264, 260))
    write_top(folder / "top.tif", (264, 260))
    codes = np.random.default_rng(1).integers(1, 4, (15, 14)).astype(np.uint8)
    codes = np.kron(codes, np.ones((20, 20), np.uint8))[:264, :260]
    write_labels(folder / "labels.tif", codes, grid(264, 260), Scheme.of_names(CLASSES))
    write_scene(folder / "after.tif", reflectance(264, 260, seed=3))
    for name, scene, day in (("map", "scene.tif", "2020-06-01"), ("map-after", "after.tif", "2021-06-01")):
        map_scene(folder / "model.uncover", folder / scene, folder / name, MapOptions(date=day))
    parcels = [(0, 0, 40, 40), (50, 60, 150, 90), (250, 200, 264, 260)]
    write_polygons(folder / "regions.gpkg", parcels, list(CLASSES), grid=grid(264, 260))


def write_top(path, shape):
    """A scene of top-of-atmosphere reflectance."""
    write_scene(path, reflectance(*shape, seed=2))
    with rasterio.open(path, "r+") as file:
        file.update_tags(PROCESSING_LEVEL="Level-1C")


def state(folder, inputs):
    """Hashes of all files that a command has made, and the names of folders of unfinished work."""
    every = {name: digest for name, digest in contents(folder).items() if name.split("/")[0] not in inputs}
    made = {name: digest for name, digest in every.items() if ".partial/" not in name}
    return made, {path.name for path in Path(folder).rglob("*.partial")}


@dataclass(frozen=True)
class End:
    """How a run ended: exit code (negative: signal), events of the file system, and what it said."""

    code: int
    events: int
    seconds: float
    said: str


class Launcher:
    """A process that has imported the package and runs command lines in forked children, one or several."""

    def __init__(self, small=None):
        """With `small`, a file system of few bytes lies there, which `resize` makes larger."""
        here = [sys.executable, "-u", __file__]
        if small is not None:
            rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
            here = ["unshare", *rights, "--mount", *here, str(small)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            here, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(60)

    def ask(self, **request):
        """Send a request; its answer."""
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        assert ready, f"no answer to {request}"
        return json.loads(self._process.stdout.readline())

    def run(self, folder, *lines, kill_at=None, kill_after=None, number=signal.SIGKILL):
        """Run command lines in a folder, all at once; the end of each.

        The first gets the signal before its event number `kill_at`, or `kill_after` seconds after it began.
        """
        when = {"kill_at": kill_at, "kill_after": kill_after, "number": int(number)}
        ends = self.ask(folder=str(folder), lines=lines, **when)
        return [End(**end) for end in ends]

    def listing(self, folder):
        """Hashes of the files below a folder."""
        return self.ask(listing=str(folder))

    def resize(self, size):
        """Give the small file system so many bytes."""
        self.ask(size=size)

    def clear(self, folder):
        """Remove all that lies in a folder."""
        self.ask(remove=str(folder))


# ---- in the process that forks ---------------------------------------------------------------------------


def _serve(small):
    import contextlib
    import importlib
    import time

    from uncover.cli import main

    def child(folder, line, kill_at, number, said, counted, loaded):
        os.chdir(folder)
        os.dup2(said, 1)
        os.dup2(said, 2)
        events = [0]

        def hook(name, given):
            writes = name == "open" and isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR)
            if writes or name in ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate"):
                events[0] += 1
                os.pwrite(counted, b"%012d" % events[0], 0)
                if events[0] == kill_at:
                    os.kill(os.getpid(), number)

        sys.addaudithook(hook)
        sync = os.fsync
        os.fsync = lambda handle: (hook("os.remove", ()), sync(handle))[1]
        code = 70
        try:
            main(line, prog_name="uncover")
        except SystemExit as stop:
            code = stop.code or 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.write(loaded, "\n".join(sys.modules).encode())
            os._exit(code)

    def started(request):
        runs = []
        for i, line in enumerate(request["lines"]):
            told = [os.memfd_create(name) for name in ("said", "counted", "loaded")]
            process = os.fork()
            if process == 0:
                kill_at = request["kill_at"] if i == 0 else None
                child(request["folder"], line, kill_at, request["number"], *told)
            runs.append((process, *told, time.monotonic()))
        return runs

    def ended(run):
        process, said, counted, loaded, began = run
        _, status = os.waitpid(process, 0)
        seconds = time.monotonic() - began
        text = os.pread(said, 1 << 20, 0).decode("utf-8", "replace")
        events = int(os.pread(counted, 12, 0) or 0)
        for name in os.pread(loaded, 1 << 20, 0).decode().splitlines():
            if name not in sys.modules:  # the next child has it from the start
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
        for handle in (said, counted, loaded):
            os.close(handle)
        return {"code": os.waitstatus_to_exitcode(status), "events": events, "seconds": seconds, "said": text}

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for text in sys.stdin:
        request = json.loads(text)
        if "size" in request:
            subprocess.run(["mount", "-o", f"remount,size={request['size']}", small], check=True)
            answer = []
        elif "listing" in request:
            answer = contents(request["listing"])
        elif "remove" in request:
            for path in Path(request["remove"]).iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            answer = []
        else:
            runs = started(request)
            if request["kill_after"] is not None:
                time.sleep(request["kill_after"])
                with contextlib.suppress(ProcessLookupError):
                    os.kill(runs[0][0], request["number"])
            answer = [ended(run) for run in runs]
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", sys.argv[1]], check=True)
    _serve(sys.argv[1] if len(sys.argv) > 1 else None)


def copy_inputs(originals, folder):
    """Inputs as hard links: quick, and no run may change them."""
    shutil.copytree(originals, folder, copy_function=os.link)
    return {path.name for path in Path(originals).iterdir()}
