"""Are class probabilities right where four effects of the measurement are at work, and some are left out?

The well-specified embedded scene over many seeds. Each scene has an error of its own of the optical depth,
of water vapour, of ozone and of the radiometry; the two years are of two satellites, whose diffusers have
errors of their own.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.coverage import YEARS, _raster, _span, draw_test, interval, seed_sums
from benchmarks.registry import RESULTS, Table, benchmark
from benchmarks.runs import Runs
from uncover import BayesianQDA
from uncover.bayes.streams import stream
from uncover.measurement.quantity import water_vapour_uncertainty
from uncover.pipeline import LabelOptions, RealiseOptions, collect_labels, realise_scene
from uncover.pipeline.realisations import OZONE_SHARE
from uncover.raster import open_scene
from uncover.studies.landscape import LandscapeOptions, write_scene

SEEDS, SIZE, DRAWS = 30, 240, 25
EFFECTS = ("aod", "water-vapour", "ozone", "radiometry")
#: Effects that are drawn, by what the table calls them.
STATED = {
    "all four": EFFECTS,
    **{f"without {left}": tuple(name for name in EFFECTS if name != left) for left in EFFECTS},
    "none": (),
}
RUNS = RESULTS / "coverage-effects.jsonl"


def reported_columns(known, z):
    """Water vapour and ozone as reported, whose errors are z standard uncertainties: truth = w + z·u(w)."""
    true_water, true_ozone = known["water_vapour_cm"], known["ozone_du"]
    places = np.linspace(0.05, 7.9, 20_000)
    water = np.interp(true_water, places + z[0] * water_vapour_uncertainty(places), places)
    return float(water), float(true_ozone / (1 + OZONE_SHARE * z[1]))


def sensor_errors(scene, known, columns, seed):
    """Gain and offset (band,) of the measured values that a sensor with errors of its own has."""
    aod = known["reported_aod"]
    draws = {"effects": ("radiometry",), "aod": aod, "draws": 1, "method": "mc"}
    names = {"water_vapour": columns[0], "ozone": columns[1], "seed": 1_000_003 + seed}
    gain, offset = realise_scene(scene, RealiseOptions(**draws, **names)).signal
    return gain[0], offset[0]


def read_worlds(files, year, masks, seed):
    """Values of the pixels of each mask, (pixel, world, band), by what is stated."""
    known = files.facts["years"][str(year)]
    scene = open_scene(files.product(year))
    z = stream(seed, "coverage of effects", year).standard_normal(2)
    columns = reported_columns(known, np.clip(z, -2.5, 2.5))
    gain, offset = sensor_errors(scene, known, columns, seed)
    found = {}
    for name, effects in STATED.items():
        n = DRAWS if effects else 1
        how = {"effects": effects or ("aod",), "draws": n, "seed": seed}
        if not effects:
            how["uncertainty"] = 0.0
        options = RealiseOptions(aod=known["reported_aod"], water_vapour=columns[0], ozone=columns[1], **how)
        realised = realise_scene(scene, options)
        one = np.ones((n, len(scene.bands)))
        drawn = (one, 0.0 * one) if realised.signal is None else realised.signal
        # The file has what was; what was measured is (what was - offset) / gain.
        realised = replace(realised, signal=(drawn[0] / gain, drawn[1] - drawn[0] * offset / gain))
        block = realised.read()
        found[name] = [block.samples(mask).astype(float) for mask in masks]
    truth = _raster(files.truth(year))
    return found, [truth[mask] for mask in masks]


def one_seed(size, seed, _):
    """Sums of what each model says, by place and by what is stated."""
    with tempfile.TemporaryDirectory() as folder:
        files = write_scene(Path(folder), LandscapeOptions(size, seed, "well-specified"))
        maps = [str(path) for path in files.previous_maps(2020)]
        labels = collect_labels(maps, [f"{path}:2" for path in maps], LabelOptions(scheme=files.scheme)).codes
        sums, models = {}, {}
        for where, year in YEARS.items():
            masks = [labels > 0, draw_test(_raster(files.truth(year)), labels, seed)[0]]
            worlds, classes = read_worlds(files, year, masks, seed)
            for name, (training, test) in worlds.items():
                if name not in models:
                    kind = "shared" if STATED[name] else "pooled"
                    models[name] = BayesianQDA(realisations=kind).fit(training, labels[labels > 0])
                paired = {"paired": where == "same scene"} if STATED[name] else {}
                truth = np.searchsorted(models[name].classes_, classes[1])
                sums[f"{where}, {name}"] = seed_sums(models[name].predict_proba(test, **paired), truth)
    return {"sums": sums}


@benchmark("coverage-effects")
def run(quick=False):
    """Calibration with four effects, and with each left out."""
    seeds, size = (2, 120) if quick else (SEEDS, SIZE)
    runs = Runs(RUNS, one_seed)
    results = [runs.get(size, seed, "all") for seed in range(seeds)]
    rows = []
    for where in YEARS:
        for name in STATED:
            sums = [one["sums"][f"{where}, {name}"] for one in results]
            gap = interval(sums, lambda s: (s["stated"] - s["right"]) / s["n"])
            covered = interval(sums, lambda s: s["covered"] / s["n"])
            total = {key: sum(s[key] for s in sums) for key in ("right", "loss", "n")}
            rows.append(
                [where, name, total["right"] / total["n"], gap[0], _span(gap, "+.4f"), covered[0],
                 _span(covered, ".3f"), total["loss"] / total["n"]]
            )  # fmt: skip
    about = f"{seeds} scenes of {size} x {size} pixels, {DRAWS} worlds; intervals by scenes"
    columns = {"asked about": "", "effects stated": "", "right": ".3f", "over-stated": "+.4f"}
    columns |= {"95 % of it": "", "90 % sets hold": ".3f", "95 % of that": "", "log loss": ".3f"}
    caption = f"Class probabilities where four effects are at work. {about}"
    return [Table("coverage", caption, columns, rows)]
