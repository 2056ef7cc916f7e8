"""Change between two years of the embedded scene that is known: calibration, areas, and two common ways."""

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import rasterio

from benchmarks.registry import RESULTS, Table, benchmark
from benchmarks.runs import Runs
from benchmarks.twin import MODES, SIZE, YEARS, twin
from uncover import pipeline
from uncover.files import read_json
from uncover.studies.landscape.kinds import CLASSES

SEEDS, TREES, RUNS = 30, 100, RESULTS / "change.jsonl"
MODEL, BINS = "published", np.linspace(0, 1, 6)
BEFORE, AFTER = YEARS.values()


@benchmark("change")
def run(quick):
    """Tables of scores, calibration and areas of change."""
    seeds, size = (2, 100) if quick else (SEEDS, SIZE)
    runs = Runs(RUNS.with_suffix(".quick") if quick else RUNS, one_run)
    names = [(mode, size, seed, MODEL) for seed in range(seeds) for mode in MODES]
    found = {mode: [runs.get(*name) for name in names if name[0] == mode] for mode in MODES}
    if quick:
        RUNS.with_suffix(".quick").unlink()
    return [_scores(found), _calibration(found), _areas(found), _shares(found)]


def one_run(mode, size, seed, model):
    """Scores of P(change) and of its rivals, sums by bins, and areas of transitions of one seed."""
    made = twin(mode, size, seed, model, changed=True)
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what they say is in the facts
        folder = pipeline.change_of_maps(made.map(BEFORE), made.map(AFTER), Path(place) / "change")
        with rasterio.open(folder / "change.tif") as file:
            P = file.read(1).astype(float) * file.scales[0]
        table = np.genfromtxt(folder / "change.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
        facts = read_json(folder / "item.json", dict[str, Any])["properties"]["uncover:change"]
    before, after = made.truth(BEFORE), made.truth(AFTER)
    mapped = (made.mapped(BEFORE) > 0) & (made.mapped(AFTER) > 0)
    changed = (before != after)[mapped]
    P, compared = P[mapped], (made.mapped(BEFORE) != made.mapped(AFTER))[mapped]
    forest = _forest(made)
    difference = 0.5 * np.abs(forest[0] - forest[1]).sum(-1)[mapped]
    bins = np.digitize(P, BINS[1:-1])
    total = table["expected_ha"].sum()
    codes = [CLASSES.code_of(name) for name in table["from"]], [CLASSES.code_of(name) for name in table["to"]]
    right = (
        np.array([((before == i) & (after == j))[mapped].mean() for i, j in zip(*codes, strict=True)]) * total
    )
    inside = (table["lower_ha"] <= right) & (right <= table["upper_ha"])
    scores = {name: float(np.mean((p - changed) ** 2)) for name, p in
              (("joint", P), ("compared", compared * 1.0), ("forest", difference))}  # fmt: skip
    return {
        "brier": scores,
        "share": float(changed.mean()),
        "expected": float(P.mean()),
        "stated": float(compared.mean()),
        "interval": [facts["changed"]["lower"], facts["changed"]["upper"]],
        "unexplained": facts["unexplained"],
        "doubted": float(any(each.startswith("do not believe") for each in facts["doubts"])),
        "bins": [np.bincount(bins, w, minlength=5).tolist() for w in (None, P, changed)],
        "inside": inside.astype(float).tolist(),
        "occurs": (right > 0).astype(float).tolist(),
        "error": ((table["expected_ha"] - right) / total).tolist(),
        "u": (table["standard_uncertainty_ha"] / total).tolist(),
    }


def _forest(made):
    """Probabilities of a random forest of the labelled pixels of the first year, in both years."""
    from sklearn.ensemble import RandomForestClassifier

    with rasterio.open(made.folder / "labels.tif") as file:
        labels = file.read(1)
    values = [_values(made, year) for year in (BEFORE, AFTER)]
    forest = RandomForestClassifier(TREES, min_samples_leaf=3, n_jobs=1, random_state=0)
    forest.fit(values[0][labels > 0], labels[labels > 0])
    return [forest.predict_proba(x.reshape(-1, x.shape[-1])).reshape(*labels.shape, -1) for x in values]


def _values(made, year):
    """Reflectance at the reported optical depth, (row, col, band)."""
    from uncover.raster import open_scene

    known = made.scene.facts["years"][str(year)]
    sky = {"water_vapour": known["water_vapour_cm"], "ozone": known["ozone_du"]}
    how = pipeline.RealiseOptions(aod=known["reported_aod"], uncertainty=0.0, draws=1, **sky)
    block = pipeline.realise_scene(open_scene(made.scene.product(year)), how).read()
    return np.moveaxis(block.values[0], 0, -1)


def _scores(found):
    rows = []
    titles = {
        "joint": "uncover change",
        "compared": "comparison of the two maps",
        "forest": "difference of random forests",
    }
    for mode, runs in found.items():
        best = np.array([min(run["brier"]["compared"], run["brier"]["forest"]) for run in runs])
        for name, title in titles.items():
            each = np.array([run["brier"][name] for run in runs])
            half = 1.96 * each.std(ddof=1) / np.sqrt(len(each))
            interval = f"{each.mean() - half:.3f} to {each.mean() + half:.3f}"
            rows.append([mode, title, each.mean(), interval, (each / best).mean()])
        share = np.mean([run["share"] for run in runs])
        constant = np.array([run["share"] * (1 - run["share"]) for run in runs])
        title = f"the share of change, {share:.3f}, everywhere"
        rows.append([mode, title, constant.mean(), "", (constant / best).mean()])
    columns = {"scene": "", "P(change) by": "", "Brier score": ".4f", "95 %": "",
               "over the better rival": ".2f"}  # fmt: skip
    return Table("change-scores", f"Change between two years, {_seeds(found)} seeds", columns, rows)


def _seeds(found):
    return len(next(iter(found.values())))


def _calibration(found):
    rows = []
    for mode, runs in found.items():
        n, P, changed = np.sum([run["bins"] for run in runs], axis=0)
        rows += [
            [mode, f"{BINS[i]:.1f} to {BINS[i + 1]:.1f}", int(n[i]), P[i] / max(n[i], 1),
             changed[i] / max(n[i], 1)]
            for i in range(5)
        ]  # fmt: skip
    columns = {"scene": "", "P(change)": "", "pixels": ",d", "mean P(change)": ".3f", "changed": ".3f"}
    return Table("change-calibration", f"Calibration of P(change), {_seeds(found)} seeds", columns, rows)


def _areas(found):
    rows = []
    for mode, runs in found.items():
        each = {key: np.concatenate([run[key] for run in runs]) for key in ("inside", "occurs", "error", "u")}
        there = each["occurs"] > 0
        for name, some in (("that occur", there), ("that do not occur", ~there)):
            rms = [100 * float(np.sqrt(np.mean(each[key][some] ** 2))) for key in ("error", "u")]
            rows.append([mode, name, int(some.sum()), float(each["inside"][some].mean()), *rms])
    columns = {"scene": "", "transitions": "", "number": "d", "95 % intervals that hold the truth": ".3f",
               "rms error, % of the area": ".2f", "rms standard uncertainty, %": ".2f"}  # fmt: skip
    return Table("change-areas", f"Areas of transitions, {_seeds(found)} seeds", columns, rows)


def _shares(found):
    rows = []
    for mode, runs in found.items():
        low, high = np.array([run["interval"] for run in runs]).T
        share, expected, stated = (
            np.array([run[key] for run in runs]) for key in ("share", "expected", "stated")
        )
        held = (low <= share) & (share <= high)
        before, after = 100 * np.mean([run["unexplained"] for run in runs], axis=0)
        parts = (100 * np.mean(each) for each in (share, expected, stated))
        doubted = float(np.mean([run["doubted"] for run in runs]))
        rows.append([mode, *parts, held.mean(), 100 * (high - low).mean(), before, after, doubted])
    columns = {"scene": "", "changed, %": ".1f", "expected, %": ".1f", "maps differ, %": ".1f",
               "95 % intervals that hold the truth": ".3f", "their mean length, %": ".1f",
               "not explained before, %": ".1f", "after, %": ".1f", "warned": ".2f"}  # fmt: skip
    caption = f"Share of the land that changed, {_seeds(found)} seeds, and how often the change is doubted"
    return Table("change-shares", caption, columns, rows)
