"""Processor time and memory of maps of six dates with gaps, against one date without."""

import hashlib
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

from benchmarks.registry import Table, benchmark

CLASSES, BANDS, DATES, SHARE = 6, 10, 6, 0.4
SIDE, REPEATS = 1024, 3
# Side of the large map, and its --memory in MB.
LARGE, MEMORY = 4000, 1000
NAMES = ("B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B11", "B12")
DAYS = tuple(f"2024-{month:02}-15" for month in range(4, 4 + DATES))
#: Rows of the table: dates, and share that is hidden.
CASES = {"one date, no gaps": (1, 0.0), "six dates, no gaps": (6, 0.0), "six dates, 40 % hidden": (6, SHARE)}


@benchmark("gap-speed")
def run(quick):
    """Processor time of `uncover map` per pixel: all of it, and of the units alone; one thread, 1 GB."""
    side, repeats = (256, 1) if quick else (SIDE, REPEATS)
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder, side)
        found = {name: [] for name in CASES}
        for _ in range(repeats):  # in turn: a machine that becomes busy is so for all
            for name, case in CASES.items():
                found[name].append(_apart(place, *case))
    rows, base = [], np.median(found[next(iter(CASES))], axis=0)
    for name, each in found.items():
        seconds, units, megabytes = np.median(each, axis=0)
        per_pixel = [1e6 * value / side**2 for value in (seconds, units)]
        rows.append([name, *per_pixel, seconds / base[0], units / base[1], megabytes])
    columns = {"scenes": "", "µs a pixel": ".2f", "of these in units": ".2f", "times one date": ".2f"}
    columns |= {"in units, times one date": ".2f", "peak memory, MB": ".0f"}
    caption = (
        f"Processor time of maps of {side} x {side} pixels, {BANDS} bands a date, {CLASSES} classes, "
        f"published model, one thread, --memory 1GB; median of {repeats}, each in a process of its own."
    )
    return [Table("gap-speed", caption, columns, rows)]


@benchmark("gap-run")
def large_run(quick):
    """A large map of six dates with gaps by the command line, stopped in the middle too, against one date.

    One process and thread each. ``GAP_RUN`` names a folder that keeps the scenes for the next time.
    """
    side = 512 if quick else LARGE
    with tempfile.TemporaryDirectory(dir=os.environ.get("GAP_RUN")) as out:
        place = Place(os.environ.get("GAP_RUN") or f"{out}/place", side, np.uint16)
        one = finished(*_map(place, f"{out}/one", 1, "clear"))
        whole = finished(*_map(place, f"{out}/whole", DATES, "cloudy"))
        units = (side // 256 + bool(side % 256)) ** 2
        stopped(f"{out}/again", units // 2, *_map(place, f"{out}/again", DATES, "cloudy"))
        resumed = finished(*_map(place, f"{out}/again", DATES, "cloudy"), "--resume")
        equal = sums(f"{out}/whole") == sums(f"{out}/again")
    names = ("one date, no gaps", f"six dates, {SHARE:.0%} hidden", "the same, killed and resumed: the rest")
    rows = [
        [name, 1e6 * seconds / side**2, seconds / one[0], peak, peak - MEMORY]
        for name, (seconds, peak) in zip(names, (one, whole, resumed), strict=True)
    ]
    columns = {"scenes": "", "µs a pixel": ".2f", "times one date": ".2f", "peak memory, MB": ".0f"}
    columns |= {"less --memory, MB": "+.0f"}
    same = "the same to the last byte" if equal else "NOT THE SAME"
    caption = (
        f"Processor time of `uncover map` of {side} x {side} pixels, {BANDS} bands a date, {CLASSES} "
        f"classes, published model, one thread, --memory {MEMORY}MB, whole command. A map that was "
        f"killed when half of its units were done, and resumed, is {same}."
    )
    return [Table("gap-run", caption, columns, rows)]


def _map(place, out, dates, kind):
    """Words of `uncover map`."""
    scenes = [f"{place.folder}/{kind}_{day}.tif" for day in DAYS[:dates]]
    options = ["--scale", "0.0001", "--offset", "0", "--threads", "1", "--memory", f"{MEMORY}MB"]
    return ["map", f"{place.folder}/{dates}.uncover", *scenes, "--out", out, *options]


def finished(*words):
    """Run a command to its end: (processor seconds, peak memory in MB)."""
    process, peak = subprocess.Popen([sys.executable, "-m", "uncover.cli", *words]), 0
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        # The peak that the system gives a finished process is also that of the one that began it.
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        peak = max([peak, *(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))])
        time.sleep(0.1)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"uncover {words[0]} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, peak / 1024


def stopped(out, pieces, *words):
    """Begin a command, and kill it when the journal of what it makes has more than so many pieces."""
    process = subprocess.Popen([sys.executable, "-m", "uncover.cli", *words])
    journal = Path(f"{out}.partial/journal")
    while process.poll() is None:
        time.sleep(0.05)
        if journal.exists() and journal.read_bytes().count(b"\n") > pieces:
            break
    if process.poll() is not None:
        raise RuntimeError(f"uncover {words[0]} was done before it could be stopped")
    process.send_signal(signal.SIGKILL)
    process.wait()


def sums(folder):
    """Checksums of a product's files, but for the record of the run."""
    files = sorted(file for file in Path(folder).rglob("*") if file.is_file() and file.name != "run.json")
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


class Place:
    """Rasters of six dates with clouds, of one or all without, models of one and of six; or of one date.

    Reflectances, or with ``dtype`` np.uint16 whole numbers, 0 for none. What a folder has is taken.
    """

    def __init__(self, folder, side, dtype=np.float32, dates=DATES, noise=0.02):
        self.folder, self.side, self.dtype, rng = folder, side, dtype, np.random.default_rng(0)
        self.noise = noise
        patches = rng.integers(CLASSES, size=(side // 16 + 1, side // 16 + 1)).astype(np.uint8)
        truth = np.kron(patches, np.ones((16, 16), np.uint8))[:side, :side]
        self.means = rng.uniform(0.02, 0.4, (DATES, CLASSES, BANDS)).astype(np.float32)
        if Path(f"{folder}/{dates}.uncover").exists():
            return
        Path(folder).mkdir(parents=True, exist_ok=True)
        for date, day in enumerate(DAYS[:dates]):
            values = self._values(rng, date, truth)
            self._write(f"{folder}/clear_{day}.tif", values)
            if dates == 1:
                continue
            values[:, clouds(rng, (side, side))] = np.nan
            self._write(f"{folder}/cloudy_{day}.tif", values)
        for number in sorted({1, dates}):
            self._model(rng, number)

    def _values(self, rng, date, truth):
        values = np.empty((BANDS, *truth.shape), np.float32)
        for band, plane in enumerate(values):
            rng.standard_normal(dtype=np.float32, out=plane)
            plane *= self.noise
            plane += self.means[date, :, band][truth]
        return values

    def _write(self, path, values):
        import rasterio

        size = {"count": BANDS, "height": values.shape[1], "width": values.shape[2]}
        tiles = {"tiled": True, "blockxsize": 256, "blockysize": 256, "dtype": self.dtype}
        where = {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 300000, 0, -10, 5000000)}
        if whole := self.dtype is np.uint16:
            tiles["nodata"] = 0
        with rasterio.open(path, "w", driver="GTiff", **size, **tiles, **where) as file:
            file.update_tags(PROCESSING_LEVEL="Level-2A")
            file.descriptions = NAMES
            for band, plane in enumerate(values, start=1):
                numbers = np.clip(np.rint(1e4 * np.nan_to_num(plane)), np.isfinite(plane), None)
                file.write(numbers.astype(np.uint16) if whole else plane, band)

    def _model(self, rng, dates):
        """A model of samples without gaps; with one of several dates the map reads gaps all the same."""
        import pandas

        y = rng.integers(CLASSES, size=3000)
        values = [self._values(rng, date, y[:, None])[..., 0].T for date in range(dates)]
        names = [f"{day}:{band}" if dates > 1 else band for day in DAYS[:dates] for band in NAMES]
        table = pandas.DataFrame(np.hstack(values), columns=names)
        table["class"] = [f"class {k}" for k in y]
        table.to_csv(f"{self.folder}/{dates}.csv", index=False)
        from uncover.pipeline import FitOptions, SceneOptions, fit_model

        options = FitOptions(model="published", scene=SceneOptions(level="L2A"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit_model([f"{self.folder}/{dates}.csv"], options).save(f"{self.folder}/{dates}.uncover")


def clouds(rng, shape):
    """Clouds in patches of a kilometre or so with ragged rims, over the share that is hidden on average."""
    field = gaussian_filter(rng.normal(size=shape), 40, mode="wrap") * 40
    field += 0.4 * gaussian_filter(rng.normal(size=shape), 6, mode="wrap") * 6
    return field > np.quantile(field, 1 - SHARE)


def _apart(place, dates, share):
    """Processor seconds of a map, those of its units, and its peak memory, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(map_once, (place.folder, dates, share))


def map_once(folder, dates, share):
    """Map a place: (processor seconds, those of its units, peak memory in MB)."""
    from uncover.pipeline import MapOptions, SeveralScenes, map_scene, parse_memory

    kind = "cloudy" if share else "clear"
    scenes = tuple(f"{folder}/{kind}_{day}.tif" for day in DAYS[:dates])
    options = MapOptions(threads=1, memory=parse_memory("1GB"))
    marks = {}
    with tempfile.TemporaryDirectory() as out, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        map_scene(
            f"{folder}/{dates}.uncover",
            scenes[0] if dates == 1 else SeveralScenes(scenes),
            f"{out}/map",
            options,
            None,
            lambda name: marks.setdefault(name, time.process_time()),
        )
        end = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return end - marks["opening"], marks["writing"] - marks["mapping"], peak
