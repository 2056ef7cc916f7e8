"""Time and peak memory of `uncover map`, beside what reading the input and writing the output alone take.

Run it with `python -m benchmarks map`; `--quick` takes small scenes. The scene is an L1C stack with an
uncertain aerosol optical depth: forest, cropland, grassland and settlements, and a model trained on it.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import rasterio
import rasterio.shutil
from rasterio.transform import Affine
from rasterio.windows import Window

from benchmarks.gpu import problem
from benchmarks.registry import Table, benchmark
from uncover import BayesianClassifier, BayesianQDA
from uncover.raster.map_formats import WRITING, cog_options
from uncover.raster.product import Layer

BANDS = ("B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B11", "B12")
ANGLES = ("35", "4", "120")
WORLDS, MEMORY, BEYOND = 25, 1024, 300  # worlds, megabytes of --memory, and what libraries may take
PATCH, THREADS = 512, 2
LAYERS = ("class", "probability", "uncertainty", "quality")


def make_scene(folder: Path, size: int, measure) -> Path:
    """A scene as a STAC item: patches of land at the top of the atmosphere, in whole numbers."""
    numbers = measure(PATCH * PATCH).reshape(len(BANDS), PATCH, PATCH)
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
    """One band that repeats a patch."""
    with rasterio.open(
        path, "w", driver="GTiff", width=size, height=size, count=1, dtype="uint16", crs="EPSG:32633",
        transform=Affine(10, 0, 300_000, 0, -10, 5_000_000), tiled=True, blockxsize=PATCH, blockysize=PATCH,
        compress="deflate", zlevel=1, predictor=2, bigtiff="if_safer", nodata=0,
    ) as file:  # fmt: skip
        file.scales = (1e-4,)
        for row in range(0, size, PATCH):
            for col in range(0, size, PATCH):
                height, width = min(PATCH, size - row), min(PATCH, size - col)
                file.write(plane[:height, :width], 1, window=Window(col, row, width, height))


def save_model(folder: Path, model, scene: str) -> Path:
    """The model file, which says which scene trained it."""
    model.feature_names_in_ = np.array(BANDS, dtype=object)
    path = folder / "model.uncover"
    model.save(path, units="reflectance", provenance={"sources": [{"name": scene}]})
    return path


def measure_command(command: list[str]) -> tuple[float, float, float]:
    """Seconds, seconds of computing, and peak resident megabytes of a program, whose byte code is kept."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    child = subprocess.Popen(command, env=kept, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    if status != 0:
        raise SystemExit(f"{' '.join(command)} failed with status {status}")
    megabytes = used.ru_maxrss / 1024 / (1024 if sys.platform == "darwin" else 1)
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, megabytes


def unavoidable(folder: Path, product: Path) -> tuple[float, float]:
    """Seconds to read the bands, and for GDAL's COG driver to write the four layers from plain rasters."""
    start = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(_read_band, [folder / f"{band}.tif" for band in BANDS]))
    reading = time.perf_counter() - start
    raw = [_plain(product / f"{name}.tif", folder / f"{name}.img") for name in LAYERS]
    start = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(_write_cog, sorted(raw, key=lambda pair: -pair[0].stat().st_size)))
    return reading, time.perf_counter() - start


def _read_band(path: Path) -> None:
    with rasterio.open(path) as file:
        for _, window in file.block_windows(1):
            file.read(1, window=window)


def _plain(source: Path, target: Path) -> tuple[Path, Layer]:
    """The layer as a plain file."""
    with rasterio.open(source) as file:
        profile = {k: file.profile[k] for k in ("width", "height", "count", "dtype", "crs", "transform")}
        resampling = "nearest" if file.dtypes[0] == "uint8" or file.count == 1 else "average"
        layer = Layer(source.stem, ("",) * file.count, file.dtypes[0], file.nodata, resampling=resampling)
        with rasterio.open(target, "w", driver="ENVI", nodata=file.nodata, **profile) as plain:
            for _, window in file.block_windows(1):
                plain.write(file.read(window=window), window=window)
    return target, layer


def _write_cog(pair: tuple[Path, Layer]) -> None:
    source, layer = pair
    with rasterio.Env(**WRITING):
        rasterio.shutil.copy(source, source.with_suffix(".cog"), driver="COG", **cog_options(layer))


def one_map(size: int, worlds: int, compare: bool) -> list:
    """Numbers of one map."""
    model, _, measure, _ = problem(np.random.default_rng(0), worlds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scene, file = make_scene(folder, size, measure), save_model(folder, model, "bench")
        command = [sys.executable, "-m", "uncover.cli", "map", str(file), str(scene), "--aod", "0.12"]
        command += ["--draws", str(worlds), "--angles", *ANGLES, "--memory", f"{MEMORY}MB", "--paired"]
        seconds, computing, megabytes = measure_command([*command, "--out", str(folder / "map")])
        stages = json.loads((folder / "map" / "run.json").read_text())["stages"]
        reading, writing = unavoidable(folder, folder / "map") if compare else (np.nan, np.nan)
    ratio = seconds / (reading + writing)
    per_pixel = 1e6 * computing / size**2
    starting = seconds - stages["compute"] - stages["write"]
    parts = [starting, stages["compute"], stages["write"]]
    return [size, worlds, seconds, *parts, reading, writing, ratio, computing, per_pixel, megabytes]


#: Effects whose worlds are compared with those of the first alone; the last has errors of single pixels too.
SEVERAL = "aod,water-vapour,ozone,radiometry"


def map_of_effects(size: int, effects: str, estimator=BayesianQDA) -> tuple[float, float]:
    """Seconds of a map in worlds of some effects, and of its computing."""
    model, _, measure, _ = problem(
        np.random.default_rng(0), WORLDS, realisations="pooled", estimator=estimator
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scene, file = make_scene(folder, size, measure), save_model(folder, model, "bench")
        command = [sys.executable, "-m", "uncover.cli", "map", str(file), str(scene), "--aod", "0.12"]
        command += ["--effects", effects, "--draws", str(WORLDS), "--angles", *ANGLES]
        command += ["--memory", f"{MEMORY}MB", "--out", str(folder / "map")]
        return measure_command(command)[:2]


@benchmark("map-effects")
def run_effects(quick=False):
    """Time of a map of four effects and the noise of each pixel, beside one of the optical depth alone."""
    cases = [(BayesianQDA, size) for size in ((256,) if quick else (512, 1024, 2048, 4096))]
    cases += [] if quick else [(BayesianClassifier, 128), (BayesianClassifier, 256)]
    map_of_effects(256, "aod")  # imports are compiled once, and kept
    rows = []
    for estimator, size in cases:
        alone, several = (map_of_effects(size, effects, estimator) for effects in ("aod", SEVERAL))
        name = "published" if estimator is BayesianQDA else "recommended"
        rows.append([name, size, alone[0], several[0], several[0] / alone[0], alone[1], several[1]])
        rows[-1].append(several[1] / alone[1])
    caption = (
        f"uncover map of an L1C scene of {len(BANDS)} bands in {WORLDS} worlds: AOD alone, and {SEVERAL}"
    )
    columns = {"model": "", "side": "d", "AOD alone s": ".1f", "four effects and noise s": ".1f"}
    columns |= {"ratio": ".1f", "AOD alone CPU s": ".1f", "four effects CPU s": ".1f", "ratio of CPU": ".1f"}
    return [Table("effects", caption, columns, rows)]


def shortest_map(size: int, worlds: int, times: int = 2) -> list:
    """Numbers of the fastest of some maps, beside the fastest reading and writing."""
    rows = [one_map(size, worlds, True) for _ in range(times)]
    best, unavoidable = min(rows, key=lambda row: row[2]), np.array([row[6:8] for row in rows]).min(axis=0)
    return [*best[:6], *unavoidable.tolist(), best[2] / unavoidable.sum(), *best[9:]]


@benchmark("map")
def run(quick=False, sizes=None):
    """Time beside the unavoidable, and peak memory beside the limit."""
    compared = [(512, 1), (512, WORLDS)] if quick else [(4000, 1), (4000, WORLDS)]
    large = [(1024, WORLDS)] if quick else [(2000, WORLDS), (12_000, WORLDS)]
    one_map(512, WORLDS, False)  # machine code is compiled once, and kept
    rows = [shortest_map(size, worlds) for size, worlds in compared]
    rows += [one_map(size, worlds, False) for size, worlds in large]
    caption = (
        f"uncover map of an L1C scene, {len(BANDS)} bands, all layers, --memory {MEMORY}MB (limit: "
        f"{MEMORY + BEYOND} MB), and its stages: start (imports, opening), computing, files; "
        "ratio: time over that of reading the bands and writing COGs of plain files, each the shorter of two"
    )
    columns = {
        "side": "d", "worlds": "d", "s": ".1f", "start": ".1f", "compute": ".1f", "files": ".1f",
        "read s": ".1f", "write s": ".1f", "ratio": ".2f", "CPU s": ".1f", "CPU us/pixel": ".2f", "MB": ".0f",
    }  # fmt: skip
    return [Table("map", caption, columns, rows)]
