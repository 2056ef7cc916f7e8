"""Processor time and memory of maps of six dates with gaps, against one date without."""

import multiprocessing
import resource
import tempfile
import time
import warnings

import numpy as np
from scipy.ndimage import gaussian_filter

from benchmarks.registry import Table, benchmark

CLASSES, BANDS, DATES, SHARE = 6, 10, 6, 0.4
SIDE, REPEATS = 1024, 3
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


class Place:
    """Rasters of six dates with clouds or without, and models of one date and of six."""

    def __init__(self, folder, side):
        self.folder, rng = folder, np.random.default_rng(0)
        patches = rng.integers(CLASSES, size=(side // 16 + 1, side // 16 + 1))
        self.truth = np.kron(patches, np.ones((16, 16), int))[:side, :side]
        self.means = rng.uniform(0.02, 0.4, (DATES, CLASSES, BANDS))
        for date, day in enumerate(DAYS):
            values = self._values(rng, date, self.truth)
            self._write(f"{folder}/clear_{day}.tif", values)
            values[:, clouds(rng, (side, side))] = np.nan
            self._write(f"{folder}/cloudy_{day}.tif", values)
        for dates in (1, DATES):
            self._model(rng, dates)

    def _values(self, rng, date, truth):
        spread = 0.02 * rng.normal(size=(*truth.shape, BANDS)).astype(np.float32)
        return np.moveaxis(self.means[date].astype(np.float32)[truth] + spread, -1, 0)

    def _write(self, path, values):
        import rasterio

        size = {"count": BANDS, "height": values.shape[1], "width": values.shape[2]}
        tiles = {"tiled": True, "blockxsize": 256, "blockysize": 256}
        where = {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 300000, 0, -10, 5000000)}
        with rasterio.open(path, "w", driver="GTiff", dtype="float32", **size, **tiles, **where) as file:
            file.update_tags(PROCESSING_LEVEL="Level-2A")
            file.descriptions = NAMES
            file.write(values)

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
