"""`uncover areas` and `uncover sample` on a large map: time, memory, a run that was killed and resumed."""

import os
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.gap_speed import DAYS, NAMES, Place, finished, stopped, sums
from benchmarks.registry import Table, benchmark
from uncover.bayes.streams import stream

SIDE, REGIONS, ACROSS, MEMORY = 10_000, 20_000, 10, 350
NOISE = 0.1  # of the reflectance of a class, so that classes overlap


@benchmark("areas-run")
def run(quick):
    """Processor time and memory on a map of one date with a systematic error of the scene.

    ``AREAS_RUN`` names a folder that keeps scene and map for the next time.
    """
    side, number, memory = (300, 2000, 260) if quick else (SIDE, REGIONS, MEMORY)
    with tempfile.TemporaryDirectory(dir=os.environ.get("AREAS_RUN")) as out:
        kept = Path(os.environ.get("AREAS_RUN") or out)
        made, regions = _map(kept, side), _regions(kept / "regions.gpkg", side, number)
        words = ["areas", made, "--regions", regions, "--memory", f"{memory}MB", "--out"]
        rows = [["areas", *finished(*words, f"{out}/whole")]]
        stopped(f"{out}/again", 1, *words, f"{out}/again")
        rows.append(["areas, killed after a part and resumed: the rest"])
        rows[-1] += finished(*words, f"{out}/again", "--resume")
        equal = sums(f"{out}/whole") == sums(f"{out}/again")
        for how in (("areas", "--target-error", "0.02"), ("training", "-n", "200")):
            place = f"{out}/{how[0]}.gpkg"
            rows.append([f"sample --for {how[0]}", *finished("sample", made, "--for", *how, "--out", place)])
    same = "the same to the last byte" if equal else "NOT THE SAME"
    caption = (
        f"Whole commands on a map of {side:,} x {side:,} pixels; {number:,} regions of {ACROSS**2} pixels, "
        f"--memory {memory}MB. The results of the run that was killed and resumed are {same}."
    )
    columns = {"command": "", "processor time, s": ".0f", "peak memory, MB": ".0f"}
    return [Table("areas-run", caption, columns, rows)]


def _map(folder, side):
    """A map with worlds of a systematic error; one that is there is taken."""
    made = folder / "map"
    if not made.exists():
        place = Place(str(folder / "place"), side, np.uint16, dates=1, noise=NOISE)
        table = folder / "u.csv"
        table.write_text("band,u\n" + "".join(f"{name},0.005\n" for name in NAMES), "utf-8")
        scene = [f"{place.folder}/clear_{DAYS[0]}.tif", "--scale", "0.0001", "--offset", "0"]
        error = ["--uncertainty", str(table), "--between-pixels", "systematic"]
        finished("map", f"{place.folder}/1.uncover", *scene, *error, "--out", str(made))
    return str(made)


def _regions(path, side, number):
    """Squares at random places."""
    import shapely

    from uncover.raster.vectors import write_package

    if not path.exists():
        rng = stream(0, "regions of a large map")
        x = 300_000 + 10.0 * rng.integers(side - ACROSS, size=number)
        y = 5_000_000 - 10.0 * rng.integers(side - ACROSS, size=number)
        shapes = shapely.box(x, y - 10 * ACROSS, x + 10 * ACROSS, y)
        write_package(path, "regions", shapely.to_wkb(shapes), {}, "EPSG:32633", "Polygon")
    return str(path)
