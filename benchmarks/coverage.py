"""Are stated class probabilities right? The embedded scene over many seeds: well-specified, and realistic.

Every seed has its own land, its own error of the optical depth in each year, its own noise. The model is
trained on labels of 2020 and asked about other pixels of 2020, and about pixels of 2021.
"""

import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.registry import RESULTS, Table, benchmark
from benchmarks.runs import Runs
from uncover import BayesianClassifier, BayesianQDA
from uncover.bayes.streams import stream
from uncover.labels import autocorrelation_length
from uncover.pipeline import LabelOptions, RealiseOptions, collect_labels, realise_scene
from uncover.pipeline.ground import Squares, choose_blocks, pixel_metres
from uncover.raster import open_scene
from uncover.studies.landscape import LandscapeOptions, write_scene
from uncover.studies.landscape.kinds import CLASSES, TRAINED

SEEDS, SIZE, DRAWS, TESTED = 30, 400, 25, 4000
YEARS = {"same scene": 2020, "other year": 2021}
MODES, RUNS = ("well-specified", "realistic"), RESULTS / "coverage.jsonl"
KINDS = ("shared", "pooled", "ignored", "known")
RECOMMENDED, LEARNED = "recommended", 5000  # and pixels that it learns from, of those with labels
LEVEL, RESAMPLED = 0.9, 2000
BINS = np.linspace(0, 1, 11)
TYPICALITY, TYPICAL, FLAGGED = (0.001, 0.01, 0.05), ("shared", "ignored", RECOMMENDED), 1000


@dataclass(frozen=True)
class Pixels:
    """Drawn pixels of a scene: realisations, values corrected at the reported and at the true depth."""

    worlds: np.ndarray  # (pixel, realisation, band)
    reported: np.ndarray  # (pixel, band)
    true: np.ndarray  # (pixel, band)
    classes: np.ndarray  # (pixel,) codes

    def of(self, kind):
        """What a model of some kind is given."""
        return {"ignored": self.reported, "known": self.true}.get(kind, self.worlds)


def read_pixels(files, year, masks, seed):
    """Pixels of a year at each of some masks, corrected in three ways."""
    known = files.facts["years"][str(year)]
    sky = {"water_vapour": known["water_vapour_cm"], "ozone": known["ozone_du"], "seed": seed}
    scene = open_scene(files.product(year))

    def corrected(**how):
        block = realise_scene(scene, RealiseOptions(**how, **sky, method="mc")).read()
        return [block.samples(mask).astype(float) for mask in masks]

    worlds = corrected(aod=known["reported_aod"], draws=DRAWS)
    reported = corrected(aod=known["reported_aod"], uncertainty=0.0, draws=1)
    true = corrected(aod=known["true_aod"], uncertainty=0.0, draws=1)
    truth = _raster(files.truth(year))
    return [Pixels(worlds[i], reported[i][:, 0], true[i][:, 0], truth[mask]) for i, mask in enumerate(masks)]


def _raster(path):
    import rasterio

    with rasterio.open(path) as dataset:
        return dataset.read(1)


def draw_test(truth, labels, seed):
    """Masks of test pixels, trained classes and never-trained ones; no 20 m square is shared with a label."""
    used = labels.reshape(len(labels) // 2, 2, -1, 2).any((1, 3))
    free = ~np.repeat(np.repeat(used, 2, 0), 2, 1)
    trained = np.isin(truth, [CLASSES.code_of(name) for name in TRAINED])
    masks = []
    for name, wanted in (("trained", free & trained), ("novel", free & ~trained)):
        at = np.flatnonzero(wanted)
        chosen = stream(seed, "coverage", name).permutation(at)[:TESTED]
        mask = np.zeros(truth.size, bool)
        mask[chosen] = True
        masks.append(mask.reshape(truth.shape))
    return masks


def one_seed(mode, size, seed, _):
    """Sums of what each kind of model says, and numbers of pixels that its typicality flags, by place."""
    with tempfile.TemporaryDirectory() as folder:
        files = write_scene(Path(folder), LandscapeOptions(size, seed, mode))
        maps = [str(path) for path in files.previous_maps(2020)]
        options = LabelOptions(scheme=files.scheme)
        collected = collect_labels(maps, [f"{path}:2" for path in maps], options)
        labels = collected.codes
        sums, flagged, models = {}, {}, {}
        for where, year in YEARS.items():
            masks = [labels > 0, *draw_test(_raster(files.truth(year)), labels, seed)]
            training, test, novel = read_pixels(files, year, masks, seed)
            if not models:
                models = {kind: _fit(kind, training, labels[labels > 0]) for kind in KINDS}
                models[RECOMMENDED] = _fit_recommended(training, labels, collected.grid, seed)
            truth = np.searchsorted(models["shared"].classes_, test.classes)
            for kind, model in models.items():
                paired = {"paired": where == "same scene"} if kind in ("shared", RECOMMENDED) else {}
                sums[f"{where}, {kind}"] = seed_sums(model.predict_proba(test.of(kind), **paired), truth)
                if kind in TYPICAL:
                    flagged[f"{where}, {kind}"] = [
                        _flagged(model, pixels.of(kind)[:FLAGGED], paired) for pixels in (test, novel)
                    ]
    return {"sums": sums, "flagged": flagged}


def _flagged(model, X, paired):
    """Numbers of pixels, all and those below each threshold of typicality."""
    p = model.typicality(X, **paired) if len(X) else np.empty(0)
    return [len(p), *(int((p < limit).sum()) for limit in TYPICALITY)]


def _fit(kind, training, labels):
    how = kind if kind in ("shared", "pooled") else "pooled"
    return BayesianQDA(realisations=how).fit(training.of(kind), labels)


def _fit_recommended(training, labels, grid, seed):
    """The recommended model in shared worlds, with blocks left out as `uncover fit` does."""
    blocks = choose_blocks(labels, grid, autocorrelation_length(labels, pixel_metres(grid)), None, None)
    number = Squares.of(grid, blocks.side).numbers(grid.window)[labels > 0]
    inner = Squares.of(grid, blocks.side).inner(grid.window, blocks.buffer)[labels > 0]
    some = np.sort(stream(seed, "coverage", "learned").permutation(len(number))[:LEARNED])
    model = BayesianClassifier(realisations="shared")
    codes = labels[labels > 0][some]
    return model.fit(training.worlds[some], codes, groups=number[some], scored=inner[some])


def seed_sums(p, truth):
    """Sums of one seed that all numbers follow from."""
    top = p.max(1)
    hit = p.argmax(1) == truth
    own = np.maximum(p[np.arange(len(p)), truth], 1e-300)
    entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(1)
    bins = np.clip(np.digitize(p.ravel(), BINS) - 1, 0, 9)
    true = (np.arange(p.shape[1]) == truth[:, None]).ravel()
    found = {
        "n": len(p),
        "stated": top.sum(),
        "right": hit.sum(),
        "covered": _covered(p, truth).sum(),
        "loss": -np.log(own).sum(),
        "entropy": entropy.sum(),
        "bin_n": np.bincount(bins, minlength=10),
        "bin_stated": np.bincount(bins, p.ravel(), minlength=10),
        "bin_true": np.bincount(bins, true, minlength=10),
    }
    return {key: np.asarray(value).tolist() for key, value in found.items()}


def _covered(p, truth):
    """Whether the smallest set of classes with probability LEVEL holds the true one; its last class counts by
    the part of it that the level needs, so that the nominal coverage is exact."""
    order = np.argsort(-p, axis=1)
    ranked = np.take_along_axis(p, order, 1)
    before = np.cumsum(ranked, axis=1) - ranked
    needed = np.clip((LEVEL - before) / np.maximum(ranked, 1e-300), 0, 1)
    rank = np.argmax(order == truth[:, None], axis=1)
    return needed[np.arange(len(p)), rank]


def interval(sums, statistic):
    """A statistic of summed seeds with its 95 % interval, seeds resampled."""
    stacked = {key: np.stack([s[key] for s in sums]) for key in sums[0]}
    drawn = np.random.default_rng(0).integers(0, len(sums), (RESAMPLED, len(sums)))
    values = [statistic({key: v[rows].sum(0) for key, v in stacked.items()}) for rows in drawn]
    total = statistic({key: v.sum(0) for key, v in stacked.items()})
    return total, *np.nanpercentile(values, [2.5, 97.5], axis=0)


def coverage_rows(mode, results):
    """One row for each place and kind."""
    rows = []
    for where in YEARS:
        for kind in (*KINDS, RECOMMENDED):
            sums = _sums(results, where, kind)
            gap = interval(sums, lambda s: (s["stated"] - s["right"]) / s["n"])
            covered = interval(sums, lambda s: s["covered"] / s["n"])
            excess = interval(sums, lambda s: (s["loss"] - s["entropy"]) / s["n"])
            total = {key: sum(s[key] for s in sums) for key in ("right", "loss", "n")}
            rows.append(
                [
                    *(mode, where, _NAMES[kind], total["right"] / total["n"]),
                    *(gap[0], _span(gap, "+.4f"), covered[0], _span(covered, ".3f")),
                    *(total["loss"] / total["n"], excess[0], _span(excess, "+.4f")),
                ]
            )
    return rows


def _span(found, form):
    return f"{found[1]:{form}} to {found[2]:{form}}"


_NAMES = {
    "shared": '"shared"',
    "pooled": '"pooled"',
    "ignored": "no measurement uncertainty",
    "known": "true optical depth known",
    "recommended": 'recommended model, "shared"',
}


def reliability_rows(results):
    """Stated and observed frequency of each bin of probability, all classes."""
    rows = []
    for where in YEARS:
        sums = _sums(results, where, "shared")
        with np.errstate(invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            stated = interval(sums, lambda s: s["bin_stated"] / s["bin_n"])[0]
            observed = interval(sums, lambda s: s["bin_true"] / s["bin_n"])
            gap = interval(sums, lambda s: (s["bin_true"] - s["bin_stated"]) / s["bin_n"])
        counts = np.sum([s["bin_n"] for s in sums], axis=0)
        for b in np.flatnonzero(counts):
            part = [values[b] for values in gap]
            label = f"{BINS[b]:.1f} to {BINS[b + 1]:.1f}"
            rows.append(
                [where, label, float(counts[b]), stated[b], observed[0][b], part[0], _span(part, "+.4f")]
            )
    return rows


def typicality_rows(mode, results):
    """Share flagged of never-trained pixels and of others, at some thresholds."""
    rows = []
    for where in YEARS:
        for kind in TYPICAL:
            old, new = np.sum([one["flagged"][f"{where}, {kind}"] for one in results], axis=0)
            rows += [
                [mode, where, _NAMES[kind], limit, new[i] / max(new[0], 1), old[i] / old[0]]
                for i, limit in enumerate(TYPICALITY, 1)
            ]
    return rows


def _sums(results, where, kind):
    return [one["sums"][f"{where}, {kind}"] for one in results]


@benchmark("coverage")
def run(quick=False):
    """Calibration over seeds in both modes, and what typicality finds."""
    seeds, size = (4, 120) if quick else (SEEDS, SIZE)
    runs = Runs(RUNS, one_seed)
    for seed in range(seeds):
        for mode in MODES:
            runs.get(mode, size, seed, "all")
    coverage, reliability, typicality = [], [], []
    for mode in MODES:
        results = [runs.get(mode, size, seed, "all") for seed in range(seeds)]
        coverage += coverage_rows(mode, results)
        typicality += typicality_rows(mode, results)
        if mode == "well-specified":
            reliability = reliability_rows(results)
    about = f"{seeds} scenes of {size} x {size} pixels, {TESTED} test pixels of each; intervals by scenes"
    columns = {"scene": "", "asked about": "", "uncertainty": "", "right": ".3f", "over-stated": "+.4f"}
    columns |= {"95 % of it": "", "90 % sets hold": ".3f", "95 % of that": "", "log loss": ".3f"}
    columns |= {"beyond stated": "+.4f", "95 % of this": ""}
    bins = {"asked about": "", "probability": "", "n": ",.0f", "stated": ".3f", "observed": ".3f"}
    bins |= {"difference": "+.4f", "95 %": ""}
    rates = {"scene": "", "asked about": "", "uncertainty": "", "below": "g", "never trained": ".3f"}
    rates |= {"trained": ".3f"}
    return [
        Table("coverage", f"Stated class probabilities. {about}", columns, coverage),
        Table("reliability", f"Well-specified scene, shared. {about}", bins, reliability),
        Table(
            "typicality", f"Share flagged by typicality, {FLAGGED} pixels of each scene", rates, typicality
        ),
    ]
