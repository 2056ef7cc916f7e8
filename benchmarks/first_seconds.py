"""First seconds: of the demonstration, of a prediction in a new process, and of `uncover info`.

Run it with `python -m benchmarks first-seconds`. Every process is a new one, and kernels were compiled at the
installation.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import uncover
from benchmarks.registry import Table, benchmark

COLUMNS = {"what": "", "s": ".2f", "at most": ""}
PREDICT = """
import sys, time
import numpy as np
X = np.load(sys.argv[2])
from uncover import load_model
model, began = load_model(sys.argv[1]), time.perf_counter()
model.predict_proba(X)
print(time.perf_counter() - began)
"""
# rasterio imports boto3 where it is, as in an environment of tests: it is no part of the package.
INFO = "import sys; sys.modules['boto3'] = None; from uncover.cli import main; main()"


@benchmark("first-seconds")
def run(quick=False):
    """Seconds until something is there."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        demo = _demo(folder / "demo", 100 if quick else 400)
        waiting = [*demo, *_predictions(folder, 2_000 if quick else 100_000)]
        told = _descriptions(folder, 1 if quick else 5)
    return [
        Table("waiting", "Seconds by the clock, two threads.", COLUMNS, waiting),
        Table(
            "info",
            "Seconds of processor time beyond Python's own start, least of several.",
            COLUMNS,
            told,
        ),
    ]


def _kept():
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _demo(folder, size):
    """From the scene to the first pixel of a map, and from that map's end to the first of the next."""
    command = [sys.executable, "-m", "uncover.cli", "demo", "--size", str(size), "--out", str(folder)]
    subprocess.run(command, check=True, env=_kept(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ended = sorted((path.stat().st_mtime, path) for path in folder.glob("*/run.json"))
    first, second = ((end, end - _after_opening(path)) for end, path in ended[:2])
    scene = (folder / "scene" / "scene.json").stat().st_mtime
    return [
        ["`uncover demo`: from the scene to the first pixel of a map", first[1] - scene, "10"],
        ["from the end of that map to the first pixel of the next", second[1] - first[0], "3"],
    ]


def _after_opening(path):
    stages = json.loads(path.read_text())["stages"]
    return stages["compute"] + stages["write"]


def _predictions(folder, n):
    """The first `predict_proba` in a process that has loaded a model."""
    rng, rows = np.random.default_rng(0), []
    y = np.arange(2000) % 4
    X = rng.normal(size=(2000, 10)) + y[:, None]
    np.save(folder / "X.npy", (rng.normal(size=(n, 10)) + 1.5).astype(np.float32))
    for kind in (uncover.BayesianQDA, uncover.BayesianClassifier):
        kind().fit(X, y).save(file := folder / f"{kind.__name__}.uncover")
        command = [sys.executable, "-c", PREDICT, str(file), str(folder / "X.npy")]
        found = subprocess.run(command, check=True, env=_kept(), stdout=subprocess.PIPE, text=True).stdout
        rows.append([f"first `predict_proba` of {n:,} samples, `{kind.__name__}`", float(found), "2"])
    return rows


def _descriptions(folder, repeats):
    demo = folder / "demo"
    product = next((demo / "scene" / "2020").glob("*.SAFE"))
    table = folder / "table.csv"
    table.write_text("B02,B03,class\n" + "0.1,0.2,a\n0.3,0.2,b\n" * 20)
    maps = sorted(path.parent for path in demo.glob("*/class.tif"))
    shutil.copy(maps[0] / "class.tif", folder / "labels.tif")
    asked = {
        "`uncover --help`": ["--help"],
        "`uncover info` of a map": ["info", maps[0]],
        "of a label raster": ["info", folder / "labels.tif"],
        "of a Level-1C product": ["info", product],
        "of a model (SciPy)": ["info", folder / "BayesianQDA.uncover"],
        "of a table (pandas)": ["info", table],
    }
    bare = _processor_time(["-c", "pass"], repeats)
    return [
        [name, _processor_time(["-c", INFO, *map(str, words)], repeats) - bare, "0.3"]
        for name, words in asked.items()
    ]


def _processor_time(arguments, repeats):
    """Least seconds of a new process."""
    found = []
    for _ in range(repeats + 1):  # the first keeps byte code
        child = subprocess.Popen([sys.executable, *arguments], env=_kept(), stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        assert status == 0, arguments
        found.append(used.ru_utime + used.ru_stime)
    return min(found[1:])
