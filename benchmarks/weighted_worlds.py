"""Does a scene itself say in which of its worlds it is? Worlds weighted by the evidence of the pixels.

Another year than that of the training, whose optical depth is reported too high by 0 to 3 standard
uncertainties, or as it was drawn. The training scene is corrected at its true optical depth: what is left is
the doubt of the other year. Worlds have the weights w ∝ exp(τ Σ log p(measured pixel | world)), the sum over
all pixels, or over those that are typical of a class in some world; τ is the share of independent pixels, by
the correlation of labels or of what the pixels say.
"""

import tempfile
from pathlib import Path

import numpy as np
from scipy.special import logsumexp, softmax

from benchmarks.coverage import _raster, _span, interval, read_pixels, seed_sums
from benchmarks.registry import RESULTS, Table, benchmark
from benchmarks.runs import Runs
from uncover import BayesianQDA
from uncover.labels import autocorrelation_length
from uncover.measurement.observation import Observation
from uncover.measurement.prediction import predict
from uncover.measurement.summary import corrected
from uncover.pipeline import LabelOptions, RealiseOptions, SourceOptions, collect_labels
from uncover.pipeline.scene_sources import observe
from uncover.raster import open_scene
from uncover.studies.landscape import LandscapeOptions, write_scene

SEEDS, SIZE, DRAWS, SIDE = 20, 96, 25, 10.0
MODES, ERRORS = ("well-specified", "realistic"), ("as drawn", 0, 1, 2, 3)
TEMPERED = (
    "equally",
    "all pixels, by residuals",
    "typical pixels, by residuals",
    "typical pixels, by labels",
)
RUNS, NEGLIGIBLE, TYPICAL = RESULTS / "weighted-worlds.jsonl", 0.05, 0.01


def read_worlds(files, known, error, seed):
    """All pixels in the worlds, (pixel, world, band), log |dx/dρ| (pixel, world), depths, u and truth."""
    u = known["aod_standard_uncertainty"]
    aod = known["reported_aod"] if error == "as drawn" else known["true_aod"] + error * u
    sky = {"water_vapour": known["water_vapour_cm"], "ozone": known["ozone_du"], "seed": seed}
    options = RealiseOptions(aod=aod, uncertainty=u, draws=DRAWS, **sky)
    observed = observe(open_scene(files.product(2021)), SourceOptions(realise=options))
    reading = observed.read(observed.grid.window)
    shape = reading.quality.size, DRAWS
    values, slope = np.full((*shape, len(observed.bands)), np.nan), np.zeros(shape)
    for part in reading.parts(reading.complete):
        pixels = reading.pixels(part)
        toa, factors = pixels.planes[0].astype(float), pixels.coefficients
        values[part] = corrected(toa, factors).transpose(2, 0, 1)
        A, B, S = factors.transpose(1, 0, 2)[..., None]
        slope[part] = np.log(B / (B + S * (toa - A)) ** 2).sum(axis=1).T
    return values, slope, np.array(observed.source.draws.values)


def temper(differences, shape):
    """1 / number of pixels that tell what one does: Σ of the correlations of log ratios of two worlds."""
    field = np.nan_to_num(differences - np.nanmean(differences)).reshape(shape)
    padded = [2 * side for side in shape]
    here = np.isfinite(differences).reshape(shape).astype(float)
    power, count = (np.fft.irfft2(abs(np.fft.rfft2(each, padded)) ** 2, padded) for each in (field, here))
    correlation = power / np.maximum(count, 1.0)
    correlation /= correlation[0, 0]
    along = (correlation[0, : shape[1] // 2] + correlation[: shape[0] // 2, 0]) / 2
    reach = int(np.argmax(along < NEGLIGIBLE)) or len(along)
    rows, cols = (np.minimum(np.arange(n), n - np.arange(n)) for n in padded)
    near = np.hypot(rows[:, None], cols) < reach
    return 1.0 / max(float(correlation[near].sum()), 1.0)


def covers(depths, weights, true):
    """True where the central 95 % of the weighted worlds, cells between their neighbours, hold the truth."""
    order = np.argsort(depths)
    depths, weights = depths[order], weights[order]
    middle = (depths[1:] + depths[:-1]) / 2
    edges = np.concatenate([[2 * depths[0] - middle[0]], middle, [2 * depths[-1] - middle[-1]]])
    low, high = np.interp([0.025, 0.975], np.concatenate([[0.0], np.cumsum(weights)]), edges)
    return bool(low <= true <= high)


def one_seed(mode, size, seed, _):
    """Sums of each error and tempering, and whether the weighted interval holds the true depth."""
    with tempfile.TemporaryDirectory() as folder:
        files = write_scene(Path(folder), LandscapeOptions(size, seed, mode))
        maps = [str(path) for path in files.previous_maps(2020)]
        codes = collect_labels(maps, [f"{path}:2" for path in maps], LabelOptions(scheme=files.scheme)).codes
        training = read_pixels(files, 2020, [codes > 0], seed)[0]
        model = BayesianQDA(realisations="pooled").fit(training.true, codes[codes > 0])
        known, truth = files.facts["years"]["2021"], _raster(files.truth(2021))
        by_labels = (SIDE / max(autocorrelation_length(_raster(maps[-1]), (SIDE, SIDE)), SIDE)) ** 2
        asked = np.isin(truth, model.classes_)
        right = np.searchsorted(model.classes_, truth[asked])
        at_truth = read_pixels(files, 2021, [asked], seed)[0].true
        found = {"true depth known": seed_sums(model.predict_proba(at_truth), right)}
        for error in ERRORS:
            values, slope, depths = read_worlds(files, known, error, seed)
            joint = predict(model.model_, Observation(values)).log_joint()
            logs = logsumexp(joint, axis=2) + slope
            p_values = model.typicality(values.reshape(-1, values.shape[2])).reshape(slope.shape)
            typical = p_values.max(axis=1) > TYPICAL
            apart = logs[:, depths.argmax()] - logs[:, depths.argmin()]
            by_all, by_typical = (
                temper(np.where(some, apart, np.nan), truth.shape) for some in (np.isfinite(apart), typical)
            )
            weights = [
                np.full(DRAWS, 1 / DRAWS),
                softmax(by_all * logs.sum(axis=0)),
                softmax(by_typical * logs[typical].sum(axis=0)),
                softmax(by_labels * logs[typical].sum(axis=0)),
            ]
            of_worlds = softmax(joint[asked.ravel()], axis=2)
            for name, each in zip(TEMPERED, weights, strict=True):
                sums = seed_sums(np.einsum("nwk,w->nk", of_worlds, each), right)
                held = float(covers(depths, each, known["true_aod"]))
                shift = (float(each @ depths) - known["true_aod"]) / known["aod_standard_uncertainty"]
                found[f"{error}, {name}"] = sums | {"held": held, "shift": shift}
    return {"sums": found}


def table_of(mode, results, size):
    """One row for each error and tempering."""
    rows = []
    for how in ("true depth known", *(f"{error}, {name}" for error in ERRORS for name in TEMPERED)):
        sums = [one["sums"][how] for one in results]
        error, _, name = how.partition(", ")
        gap = interval(sums, lambda s: (s["stated"] - s["right"]) / s["n"])
        total = {key: sum(s[key] for s in sums) for key in ("right", "loss", "n")}
        row = [error if not error.isdigit() else f"{error} u", name, total["right"] / total["n"]]
        row += [total["loss"] / total["n"], gap[0], _span(gap, "+.4f"), "", ""]
        if name:
            held, shift = sum(s["held"] for s in sums), np.mean([s["shift"] for s in sums])
            row[-2:] = f"{held:.0f} of {len(sums)}", f"{shift:+.2f}"
        rows.append(row)
    columns = {
        "reported AOD too high by": "", "worlds weighted": "", "right": ".3f", "log loss": ".3f",
        "over-stated": "+.4f", "95 % of it": "", "95 % interval holds the AOD": "", "mean AOD off, u": "",
    }  # fmt: skip
    caption = (
        f"Another year of the {mode} scene, {len(results)} seeds of {size} x {size} pixels, {DRAWS} worlds; "
        "intervals by scenes."
    )
    return Table(mode, caption, columns, rows)


@benchmark("weighted-worlds")
def run(quick=False):
    """Weights of worlds by the evidence of the scene's pixels, beside equal ones."""
    seeds, size = (2, 64) if quick else (SEEDS, SIZE)
    runs = Runs(RUNS, one_seed)
    runs.make([(mode, size) for mode in MODES], seeds, ["all"])
    found = {mode: [runs.get(mode, size, seed, "all") for seed in range(seeds)] for mode in MODES}
    return [table_of(mode, results, size) for mode, results in found.items()]
