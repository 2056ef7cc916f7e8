"""Commands on a real file system of few bytes: one line, nothing half under its name; at last the same."""

import os
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from survival_cases import COMMANDS, Launcher, copy_inputs, state

PAGE = 4096
QUICK = ("labels", "fit", "evaluate")
#: The model of `fit` has a few kB, on which no disk is too small but the first: this one has many.
LARGE_FIT = (
    "fit", "scene.tif", "--labels", "labels.tif", "--model", "recommended", "--block", "0", "--bbox",
    "300000", "4999400", "300600", "5000000", "--bbox-crs", "EPSG:32633", "--out", "new.uncover",
)  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A folder in which a process sees a small file system."""
    here = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    if subprocess.run(["unshare", *here, "--mount", "true"], capture_output=True).returncode:
        pytest.skip("no name space can be made here, in which a small file system is mounted")
    folder = tmp_path_factory.mktemp("small")
    with Launcher(folder) as started:
        yield folder, started


def too_small(files, count):
    """So many sizes in bytes, from one page on, of which none has room for files of these sizes."""
    pages = sum(-(-size // PAGE) for size in files)
    some = np.unique(np.geomspace(1, pages - 1, 1000).astype(int))
    return PAGE * some[np.linspace(0, len(some) - 1, count).round().astype(int)]


def on_small_disks(command, launcher, small, originals, tmp_path, sizes):
    """Run a command on disks that grow, until it fits."""
    inputs = copy_inputs(originals, tmp_path / "a")
    (usual,) = launcher.run(tmp_path / "a", command.arguments)
    assert usual.code == 0, usual.said
    whole, _ = state(tmp_path / "a", inputs)
    files = [(tmp_path / "a" / name).stat().st_size for name in whole]
    folder, started = small
    started.clear(folder)
    line = [str(folder / each) if each.startswith("new") else each for each in command.arguments]
    failed = 0
    for size in (*too_small(files, sizes), 1.3 * sum(files) + 30_000, 64 << 20):
        started.resize(int(size))
        (end,) = started.run(tmp_path / "a", [*line, *command.again])
        answer = started.listing(folder)
        if end.code == 0:
            break
        failed += 1
        assert end.code == 1, end.said
        # libtiff writes lines of its own to the terminal when GDAL closes a file.
        errors = [each for each in end.said.splitlines() if not each.startswith(("Warning: ", "_tiff"))]
        assert len(errors) == 1 and errors[0].startswith("Error: "), end.said
        assert "cannot be written" in errors[0] or "takes no files" in errors[0], errors[0]
        for name, digest in answer.items():
            assert ".partial" in name or whole.get(name) == digest, "half of a product has its name"
        if "--resume" not in command.again:
            assert not any(".partial" in name for name in answer), "unfinished work is left behind"
    made = {name: digest for name, digest in answer.items() if not name.endswith("run.json")}
    assert made == whole
    started.clear(folder)
    return failed


@pytest.mark.parametrize("name", QUICK)
def test_a_full_disk_is_one_line(name, launcher, small, originals, tmp_path):
    assert on_small_disks(COMMANDS[name], launcher, small, originals, tmp_path, 4) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "demo"])
def test_full_disks_of_twenty_sizes(name, launcher, small, originals, tmp_path):
    command = replace(COMMANDS["fit"], arguments=LARGE_FIT) if name == "fit" else COMMANDS[name]
    assert on_small_disks(command, launcher, small, originals, tmp_path, 20) >= 20
