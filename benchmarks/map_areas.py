"""Areas of maps: do their 95 % intervals hold the truth, without a reference sample and with one?

The embedded scene over many seeds, mapped in the year of the training samples and a year later.
"""

import csv
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.registry import RESULTS, Table, benchmark
from benchmarks.runs import Runs
from benchmarks.twin import MODES, SIZE, YEARS, twin
from uncover.bayes.streams import stream
from uncover.metrics import SampleCells, StratifiedSample
from uncover.metrics.assisted import AssistedAreas, AssistedSums
from uncover.studies.landscape.kinds import CLASSES, TRAINED

SEEDS, POINTS, SAMPLES, RUNS = 30, 100, 50, RESULTS / "map-areas.jsonl"
MODEL = "published"


@benchmark("map-areas")
def run(quick):
    """Tables of coverage and length of the intervals of areas."""
    seeds, size = (2, 100) if quick else (SEEDS, SIZE)
    runs = Runs(Path(tempfile.mkdtemp()) / RUNS.name if quick else RUNS, one_run)
    runs.make([(mode, size) for mode in MODES], seeds, [MODEL])
    return tables(runs)


def tables(runs):
    """Tables of the runs that there are."""
    # A scene so small may have no label of a class, which is then no class of the map.
    found = {
        mode: [each for run, each in runs.found.items() if run[0] == mode and "lacks" not in each]
        for mode in MODES
    }
    return [_of_maps(found), _with_samples(found)]


def one_run(mode, size, seed, model):
    """Intervals of one seed that hold the truth, and their lengths, in shares of the mapped area, by year."""
    made, out = twin(mode, size, seed, model), {}
    for where, year in YEARS.items():
        with open(made.map(year) / "areas.csv", newline="", encoding="utf-8") as file:
            rows = {row["class"]: row for row in csv.DictReader(file) if row["share"]}
        names = sorted(rows, key=lambda name: int(rows[name]["code"]))
        if len(names) < len(TRAINED):
            return {"lacks": len(TRAINED) - len(names)}
        truth, mapped = made.truth(year), made.mapped(year) > 0
        codes = np.array([CLASSES.code_of(name) for name in names])
        value, u, low, high, old = (
            np.array([float(rows[name][column] or "nan") for name in names])
            for column in (
                "expected_ha",
                "standard_uncertainty_ha",
                "lower_ha",
                "upper_ha",
                "sd_over_worlds_ha",
            )
        )
        total = value.sum()
        right = np.array([(truth[mapped] == code).mean() for code in codes]) * total
        numbers = {
            "error": (value - right) / total,
            "u": u / total,
            "inside": (low <= right) & (right <= high),
            "length": (high - low) / total,
            "worlds": np.abs(value - right) <= 2 * old,
        }
        out[where] = {name: np.asarray(v, float).round(6).tolist() for name, v in numbers.items()}
        out[where]["samples"] = _samples(made, year, codes, seed)
    return out


def _samples(made, year, codes, seed):
    """Simple random samples: intervals by sample and map together, and by the sample alone."""
    truth, mapped = made.truth(year), made.mapped(year) > 0
    y, P = np.searchsorted(codes, truth[mapped]), made.probability(year)[:, mapped].T.astype(float)
    P, K, n = P / P.sum(1, keepdims=True), len(codes), int(mapped.sum())
    right, none, rng = (
        np.bincount(y, minlength=K),
        np.zeros(POINTS, int),
        stream(seed, "reference samples", year),
    )
    each = []
    for _ in range(SAMPLES):
        some = rng.choice(n, POINTS, replace=False)
        sums = AssistedSums.of(y[some], P[some], none, n_strata=1)
        both = AssistedAreas(sums, np.array([n]), P.sum(0), (P * (1 - P)).sum(0))
        alone = StratifiedSample(SampleCells.of(none, y[some], none, classes=K, n_strata=1), [n]).areas()
        ends = both.interval(), alone.normal_interval()
        each.append([[(low <= right) & (right <= high), (high - low) / n] for low, high in ends])
    inside, length = np.array(each, float).mean((0, 3)).T
    return {"inside": inside.round(5).tolist(), "length": length.round(5).tolist()}


def _seeds(found):
    return ", ".join(f"{len(runs)} seeds ({mode})" for mode, runs in found.items())


def _span(values, form):
    """Mean over seeds with its 95 % interval."""
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values) - 1.96 * error:{form}} to {np.mean(values) + 1.96 * error:{form}}"


def _of_maps(found):
    rows = []
    for mode, runs in found.items():
        for where in YEARS:
            here = [run[where] for run in runs]
            each = {
                key: np.array([one[key] for one in here])
                for key in ("error", "u", "inside", "length", "worlds")
            }
            seen = each["inside"].mean(1)
            rms = [100 * float(np.sqrt(np.mean(each[key] ** 2))) for key in ("error", "u")]
            before = "–" if where == "other year" and MODEL != "published" else f"{each['worlds'].mean():.3f}"
            rows.append(
                [
                    mode,
                    where,
                    float(seen.mean()),
                    _span(seen, ".3f"),
                    *rms,
                    100 * each["length"].mean(),
                    before,
                ]
            )
    columns = {
        "scene": "", "pixels": "", "95 % intervals that hold the truth": ".3f", "95 %": "",
        "rms error, % of the area": ".2f", "rms standard uncertainty, %": ".2f", "mean length, %": ".2f",
        "within 2 sd over the worlds": "",
    }  # fmt: skip
    caption = (
        f"Expected areas of four classes on maps of {SIZE} × {SIZE} pixels, {_seeds(found)}; published model"
    )
    return Table("map-areas", caption, columns, rows)


def _with_samples(found):
    rows = []
    for mode, runs in found.items():
        for where in YEARS:
            inside, length = (
                np.array([run[where]["samples"][key] for run in runs]) for key in ("inside", "length")
            )
            rows.append(
                [mode, where, float(inside[:, 0].mean()), _span(inside[:, 0], ".3f"),
                 float(inside[:, 1].mean()), *(100 * float(length[:, i].mean()) for i in (0, 1))]
            )  # fmt: skip
    columns = {
        "scene": "", "pixels": "", "with the map: hold the truth": ".3f", "95 %": "",
        "sample alone, ± 1.96 s.e.": ".3f", "length with the map, %": ".1f", "sample alone, %": ".1f",
    }  # fmt: skip
    caption = f"Areas from {POINTS} random points, {SAMPLES} samples for each of {_seeds(found)}"
    return Table("map-areas-samples", caption, columns, rows)
