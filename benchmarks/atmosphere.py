"""How fast realisations are made from a look-up table, against the memory that they fill."""

import time

import numpy as np

from benchmarks.registry import Table, benchmark
from benchmarks.sixs_runs import model_rows, percentiles
from uncover.atmosphere import Geometry, LookupTable, State

BANDS = ("B2", "B3", "B4", "B5", "B6", "B7", "B8", "B8A", "B11", "B12")


def correction_against_memory(pixels=1_000_000, realisations=25, repeats=3):
    """Time of correcting float32 pixels at many AODs over the time of filling the result once.

    The result is allocated afresh in both cases. Returns the times in seconds and their ratio, the best of
    some repeats each: the target is at most 15.
    """
    rng = np.random.default_rng(0)
    toa = rng.uniform(0.05, 0.5, (len(BANDS), pixels)).astype(np.float32)
    table, state = LookupTable("S2A", BANDS), State(aod=np.linspace(0.02, 0.6, realisations))
    geometry = Geometry(40, 5, 100)
    shape = (realisations, len(BANDS), pixels)
    fill = min(_seconds(lambda: np.full(shape, 0.5, dtype=np.float32)) for _ in range(repeats))
    planes = min(_seconds(lambda: table.correct(toa, state, geometry, band_axis=0)) for _ in range(repeats))
    samples = np.ascontiguousarray(toa.T)
    rows = min(_seconds(lambda: table.correct(samples, state, geometry)) for _ in range(repeats))
    return {
        "fill_s": fill,
        "band_first_s": planes,
        "band_first_ratio": planes / fill,
        "sample_first_s": rows,
        "sample_first_ratio": rows / fill,
    }


def _seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@benchmark("atmosphere")
def run(quick=False):
    """Speed of the correction, and its errors against direct runs of 6S."""
    pixels = 50_000 if quick else 1_000_000
    speed = correction_against_memory(pixels)
    rows = [[name, speed[f"{key}_s"], speed[f"{key}_ratio"]] for name, key in (("bands first", "band_first"),
            ("samples first", "sample_first"))]  # fmt: skip
    caption = f"Correction of {pixels} pixels, 25 realisations, 10 bands, over the time of filling the result"
    against_6s = [list(row) for row in percentiles()]
    formats = {"domain": "", "quantity": "", "runs": "d"}
    formats |= dict.fromkeys(("50 %", "95 %", "99 %", "largest"), ".1e")
    of_models = {"aerosol model": "", "runs": "d"}
    columns = ("median", "95 %", "largest", "largest elsewhere", "from continental, rms")
    of_models |= dict.fromkeys(columns, ".1e")
    said = "Absolute errors of TOA reflectance of other aerosol models, where AOD ≤ 0.5 and sun zenith ≤ 65°"
    return [
        Table("models", said, of_models, [list(row) for row in model_rows()]),
        Table("correction", caption, {"layout": "", "s": ".2f", "times the fill": ".1f"}, rows),
        Table("6S", "Absolute errors of reflectance against direct runs of 6S", formats, against_6s),
    ]
