"""Time and peak memory of `uncover map`: an L1C scene with an uncertain AOD, 25 worlds made on the fly.

Run it with `python -m benchmarks map`: scenes of 2,000 and 12,000 pixels a side; `--quick` takes small ones.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import rasterio
from rasterio.transform import Affine
from rasterio.windows import Window

from benchmarks.registry import Table, benchmark
from uncover import BayesianQDA

BANDS = ("B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B11", "B12")
QUICK, FULL = (512, 1024), (2000, 12_000)
DRAWS, MEMORY, BEYOND = 25, 1024, 300  # worlds, megabytes of --memory, and what libraries may take


def make_scene(folder: Path, size: int) -> Path:
    """A scene as a STAC item: patches of five kinds of land, at the top of the atmosphere."""
    rng = np.random.default_rng(0)
    kinds = rng.uniform(0.06, 0.35, (5, len(BANDS)))
    patch = kinds[np.kron(rng.integers(0, 5, (32, 32)), np.ones((16, 16), int))]
    patch = patch + rng.normal(0, 0.01, patch.shape)
    numbers = np.moveaxis(np.rint(patch * 10_000), 2, 0).astype(np.uint16)
    for band, plane in zip(BANDS, numbers, strict=True):
        _write_band(folder / f"{band}.tif", plane, size)
    properties = {"datetime": "2021-09-08T04:27:01Z", "platform": "sentinel-2a", "processing:level": "L1C"}
    assets = {band: {"href": f"./{band}.tif", "roles": ["data"]} for band in BANDS}
    item = {
        "type": "Feature", "stac_version": "1.1.0", "id": "bench", "geometry": None, "links": [],
        "properties": properties, "assets": assets,
    }  # fmt: skip
    path = folder / "scene.json"
    path.write_text(json.dumps(item))
    return path


def _write_band(path: Path, plane: np.ndarray, size: int) -> None:
    """One band that repeats a patch of 512 x 512 pixels."""
    with rasterio.open(
        path, "w", driver="GTiff", width=size, height=size, count=1, dtype="uint16", crs="EPSG:32633",
        transform=Affine(10, 0, 300_000, 0, -10, 5_000_000), tiled=True, blockxsize=512, blockysize=512,
        compress="deflate", zlevel=1, bigtiff="if_safer", nodata=0,
    ) as file:  # fmt: skip
        file.scales = (1e-4,)
        for row in range(0, size, 512):
            for col in range(0, size, 512):
                height, width = min(512, size - row), min(512, size - col)
                file.write(plane[:height, :width], 1, window=Window(col, row, width, height))


def make_model(folder: Path) -> Path:
    """Five classes of surface reflectance with 25 worlds."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 5, 2000)
    X = rng.uniform(0.05, 0.35, (5, len(BANDS)))[y] + rng.normal(0, 0.02, (2000, len(BANDS)))
    worlds = X[:, None, :] + rng.normal(0, 0.005, (1, DRAWS, len(BANDS)))
    model = BayesianQDA(realisations="shared").fit(worlds, y)
    model.feature_names_in_ = np.array(BANDS, dtype=object)
    path = folder / "model.uncover"
    model.save(path, units="reflectance", provenance={"sources": [{"name": "bench"}]})
    return path


def measure(command: list[str]) -> tuple[float, float, float]:
    """Seconds, seconds of computing, and peak resident megabytes of a program."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    if status != 0:
        raise SystemExit(f"{' '.join(command)} failed with status {status}")
    megabytes = used.ru_maxrss / 1024 / (1024 if sys.platform == "darwin" else 1)
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, megabytes


@benchmark("map")
def run(quick=False, sizes=None):
    """Time and peak memory for each size, beside the limits."""
    rows = []
    for size in sizes or (QUICK if quick else FULL):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            scene, model = make_scene(folder, size), make_model(folder)
            command = [sys.executable, "-m", "uncover.cli", "map", str(model), str(scene), "--aod", "0.12"]
            command += ["--draws", str(DRAWS), "--angles", "35", "4", "120", "--memory", f"{MEMORY}MB"]
            seconds, computing, megabytes = measure([*command, "--out", str(folder / "map")])
        kept = "yes" if megabytes < MEMORY + BEYOND else "NO"
        rows.append([f"{size} x {size}", seconds, computing, 1e6 * computing / size**2, megabytes, kept])
    caption = (
        f"uncover map of an L1C scene, {len(BANDS)} bands, {DRAWS} worlds made on the fly, "
        f"--memory {MEMORY}MB (limit: {MEMORY + BEYOND} MB; linear if the CPU time per pixel is the same)"
    )
    columns = {"pixels": "", "s": ".1f", "CPU s": ".1f", "CPU us/pixel": ".1f", "MB": ".0f", "kept": ""}
    return [Table("map", caption, columns, rows)]
