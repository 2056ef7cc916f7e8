"""Time and memory of `uncover labels`: 20 km × 20 km at 10 m, three years with probabilities."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import rasterio
from rasterio.transform import Affine

from benchmarks.registry import Table, benchmark

SECONDS, MEGABYTES = 20.0, 500.0
YEARS = (2018, 2019, 2020)


def make_maps(
    folder: Path, size: int, crs: str = "EPSG:27700", origin: tuple[float, float] = (4e5, 3e5)
) -> list[Path]:
    """Three years of a map of UKCEH classes with parcels and errors; probabilities in band 2."""
    rng = np.random.default_rng(0)
    parcels = np.kron(rng.integers(1, 22, (size // 20 + 1,) * 2), np.ones((20, 20), int))[:size, :size]
    files = []
    for year in YEARS:
        codes = np.where(rng.random((size, size)) < 0.05, rng.integers(1, 22, (size, size)), parcels)
        percent = 100 - np.minimum(rng.exponential(4, (size, size)), 80)
        files.append(folder / f"lcm{year}.tif")
        with rasterio.open(
            files[-1], "w", driver="GTiff", width=size, height=size, count=2, dtype="uint8", crs=crs,
            nodata=0, transform=Affine(10, 0, origin[0], 0, -10, origin[1]), tiled=True, compress="deflate",
        ) as file:  # fmt: skip
            file.write(codes.astype(np.uint8), 1)
            file.write(percent.astype(np.uint8), 2)
    return files


def measure(command: list[str]) -> tuple[float, float, float]:
    """Seconds, seconds of computing, and peak resident megabytes of a program, on two cores at most."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    start = time.perf_counter()
    child = subprocess.Popen(
        command, preexec_fn=lambda: os.sched_setaffinity(0, cores), stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(child.pid, 0)
    if status != 0:
        raise SystemExit(f"{' '.join(command)} failed with status {status}")
    megabytes = used.ru_maxrss / 1024 / (1024 if sys.platform == "darwin" else 1)
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, megabytes


def cases(folder: Path, size: int) -> dict[str, list[str]]:
    """Commands to measure, by what they do."""
    files, like = make_maps(folder, size), folder / "utm.tif"
    with rasterio.open(
        like, "w", driver="GTiff", width=size, height=size, count=1, dtype="uint8", crs="EPSG:32630",
        sparse_ok=True, transform=Affine(10, 0, 568_000, 0, -10, 5_828_000),
    ):  # fmt: skip
        pass
    base = [sys.executable, "-m", "uncover.cli", "labels", *map(str, files), "--scheme", "ukceh-lulucf"]
    base += [a for file in files for a in ("--probability", f"{file}:2")]
    base += ["--out", str(folder / "labels.tif")]
    more = ["--purity", "0.8", "--erosion", "1", "--spacing", "30"]
    return {
        "stability and quality": base,
        "and purity, erosion, spacing": [*base, *more],
        "the same on a UTM grid": [*base, *more, "--like", str(like)],
    }


@benchmark("labels")
def run(quick=False):
    """Time and memory of each case, beside the limits."""
    size = 400 if quick else 2000
    with tempfile.TemporaryDirectory() as name:
        rows = [[what, *measure(command)] for what, command in cases(Path(name), size).items()]
    caption = (
        f"uncover labels on {size} × {size} pixels, three years with probabilities "
        f"(limits: {SECONDS:.0f} s, {MEGABYTES:.0f} MB)"
    )
    return [Table("labels", caption, {"criteria": "", "s": ".1f", "CPU s": ".1f", "MB": ".0f"}, rows)]
