"""Class shares of the mapped place: estimated from it, against known ones and those of the training samples.

Simulated Gaussian classes, where all that the intervals claim is true but for the prior; and the embedded
scene, whose training samples have other shares than the land.
"""

import tempfile
from pathlib import Path

import numpy as np

from benchmarks.coverage import YEARS, draw_test, interval, read_pixels, seed_sums
from benchmarks.registry import RESULTS, Table, benchmark
from benchmarks.runs import Runs
from uncover import BayesianClassifier, BayesianQDA
from uncover.bayes.streams import stream
from uncover.pipeline import LabelOptions, collect_labels
from uncover.studies.landscape import LandscapeOptions, write_scene

SEEDS, SIZE, LEARNED, RUNS = 30, 400, 2000, RESULTS / "class-shares.jsonl"
MODES = ("well-specified", "realistic")
HOW = ("training", "estimated", "known")
MODELS = {
    "published, shared worlds": lambda: BayesianQDA(realisations="shared"),
    "recommended": BayesianClassifier,
}
# Training samples, standard deviation between class means, features; repeats, samples of unknown class.
SIMULATED = [(60, 0.5, 4), (60, 1.0, 4), (400, 0.5, 4), (400, 1.0, 4), (400, 0.5, 10)]
REPEATS, POPULATION = 175, 3000
Z90 = 1.6449


@benchmark("class-shares")
def run(quick):
    """Tables of coverage in simulation, and of probabilities on the embedded scene."""
    seeds, size, repeats = (2, 96, 10) if quick else (SEEDS, SIZE, REPEATS)
    runs = Runs(Path(tempfile.mkdtemp()) / RUNS.name if quick else RUNS, one_run)
    cells = [("simulated", *cell) for cell in SIMULATED]
    runs.make(cells, repeats, ["evidence"])
    places = [(mode, size) for mode in MODES]
    runs.make(places, seeds, list(MODELS))
    return tables(runs, cells, places)


def tables(runs, cells, places):
    """Tables of the runs that there are."""
    return [_simulated_table(runs, cells), *_place_tables(runs, places)]


def one_run(*key):
    """One repeat of a simulation, or one seed of the embedded scene."""
    return _simulate(*key[1:-1]) if key[0] == "simulated" else _place(*key)


def _simulate(n, apart, p, seed):
    """Errors of estimated shares in their standard uncertainties, and these: of the samples themselves."""
    rng = stream(seed, "class shares", str((n, apart, p)))
    means = apart * rng.normal(size=(3, p))
    roots = [np.linalg.cholesky(np.cov(rng.normal(size=(p, 3 * p)))) for _ in range(3)]

    def draw(count, shares):
        y = rng.choice(3, count, p=shares)
        return means[y] + np.einsum("nij,nj->ni", np.stack(roots)[y], rng.normal(size=(count, p))), y

    clf = BayesianQDA(prior="evidence").fit(*draw(n, np.full(3, 1 / 3)))
    X, y = draw(POPULATION, rng.dirichlet(np.full(3, 2.0)))
    found = clf.class_shares(X, population=POPULATION)
    away = found.shares - np.bincount(y, minlength=3) / POPULATION
    return {"z": (away / found.standard_uncertainty).tolist(), "u": found.standard_uncertainty.tolist()}


def _place(mode, size, seed, name):
    """Sums of each choice of shares, and errors of the estimated ones, by year."""
    with tempfile.TemporaryDirectory() as folder:
        files = write_scene(Path(folder), LandscapeOptions(size, seed, mode))
        maps = [str(path) for path in files.previous_maps(2020)]
        options = LabelOptions(scheme=files.scheme)
        labels = collect_labels(maps, [f"{path}:2" for path in maps], options).codes
        model, out = None, {}
        for where, year in YEARS.items():
            masks = [labels > 0, *draw_test(_truth(files, year), labels, seed)]
            training, test, _ = read_pixels(files, year, masks, seed)
            kind = "shared" if "shared" in name else "ignored"
            if model is None:
                some = stream(seed, "class shares").permutation(len(training.classes))[:LEARNED]
                model = MODELS[name]().fit(training.of(kind)[some], labels[labels > 0][some])
            X, truth = test.of(kind), np.searchsorted(model.classes_, test.classes)
            paired = where == "same scene"
            found = model.class_shares(X, paired=paired, population=len(X))
            right = np.bincount(truth, minlength=len(model.classes_)) / len(truth)
            known = np.maximum(right, 1e-3)
            priors = dict(zip(HOW, (None, found, known), strict=True))
            sums = {
                how: seed_sums(model.predict_proba(X, paired=paired, class_prior=prior), truth)
                for how, prior in priors.items()
            }
            z = (found.shares - right) / found.standard_uncertainty
            learned = model.predict_proba(X, paired=paired).mean(0)
            errors = {"estimated": found.shares - right, "training": learned - right}
            out[where] = {"sums": sums, "z": z.tolist(), **{k: v.tolist() for k, v in errors.items()}}
    return out


def _truth(files, year):
    import rasterio

    with rasterio.open(files.truth(year)) as dataset:
        return dataset.read(1)


def _simulated_table(runs, cells):
    rows = []
    for cell in cells:
        found = _found(runs, cell, "evidence")
        z, u = (np.array([each[key] for each in found]) for key in ("z", "u"))
        inside = (np.abs(z) < Z90).mean(1)
        error = float(inside.std(ddof=1) / np.sqrt(len(inside)))
        rows.append([*cell[1:], float(inside.mean()), error, float(np.sqrt((z**2).mean())), float(u.mean())])
    columns = {
        "training samples": "d",
        "between means": "g",
        "features": "d",
        "90 % intervals that cover": ".3f",
        "± (1 s.e.)": ".3f",
        "rms error / standard uncertainty": ".2f",
        "mean standard uncertainty": ".4f",
    }
    caption = f"Estimated shares of three Gaussian classes among {POPULATION} samples, {len(found)} repeats"
    return Table("class-shares-simulated", caption, columns, rows)


def _found(runs, cell, name):
    """Results of all repeats of a cell that there are."""
    return [entry for run, entry in runs.found.items() if (run[:-2], run[-1]) == (cell, name)]


def _place_tables(runs, places):
    scores, shares = [], []
    for mode, size in places:
        for name in MODELS:
            found = _found(runs, (mode, size), name)
            for where in YEARS:
                here = [each[where] for each in found]
                for how in HOW:
                    sums = [each["sums"][how] for each in here]
                    gap = interval(sums, lambda s: (s["stated"] - s["right"]) / s["n"])
                    loss = interval(sums, lambda s: s["loss"] / s["n"])
                    words = (f"{a[1]:{form}} to {a[2]:{form}}" for a, form in ((loss, ".3f"), (gap, "+.4f")))
                    span, gap_span = words
                    scores.append([mode, name, where, how, loss[0], span, gap[0], gap_span])
                z = np.array([each["z"] for each in here])
                rms = (np.sqrt(np.mean(np.square([e[how] for e in here]))) for how in HOW[:2])
                shares.append(
                    [mode, name, where, len(found), float((np.abs(z) < Z90).mean()), *map(float, rms)]
                )
    first = {"scene": "", "model": "", "pixels": ""}
    columns = first | {"shares": "", "log loss": ".4f", "95 %": "", "over-stated": "+.4f", "95 % ": ""}
    errors = first | {
        "seeds": "d",
        "90 % intervals that cover": ".3f",
        "rms error of mean probabilities": ".4f",
        "of estimated shares": ".4f",
    }
    where = "Embedded scene"
    caption = f"{where}: probabilities for the class shares of the training samples, estimated, and known"
    return [
        Table("class-shares-probabilities", caption, columns, scores),
        Table("class-shares-errors", f"{where}: estimated class shares", errors, shares),
    ]
