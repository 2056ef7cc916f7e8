"""What a drawn sample is worth: intervals of areas and accuracies, and labels where they teach most.

Designs: the map of the embedded scene by the recommended model, whose truth is known. Drawing without
replacement from a stratum is drawing from the pairs (map, truth) of its pixels: counts are multivariate
hypergeometric. Training: labels are added to a few, chosen in four ways, and the model meets other pixels.
"""

import tempfile
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import rasterio
from scipy.special import stdtrit
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.preprocessing import StandardScaler

from benchmarks.probability_problems import DATA
from benchmarks.registry import RESULTS, Table, benchmark
from benchmarks.runs import FLOOR, Runs
from uncover import BayesianClassifier
from uncover.bayes.streams import stream
from uncover.measurement.pooled import PoolSummariser
from uncover.metrics.allocation import class_variances, samples_for_target, samples_of_total
from uncover.metrics.estimation import SampleCells, StratifiedSample
from uncover.pipeline.sampling import spread_out
from uncover.raster import open_scene
from uncover.studies.landscape import LandscapeOptions, write_scene
from uncover.studies.landscape.kinds import CLASSES, TRAINED

DESIGNS, TARGETS, LEVEL = 500, (0.01, 0.02), 0.95
#: Shares of a map, and share of each mapped class (row) that is of each class in truth: made up, hard cases.
MAPS = {
    "four classes, 85 to 95 % right": (
        [0.4, 0.3, 0.2, 0.1],
        [
            [0.95, 0.03, 0.01, 0.01],
            [0.05, 0.9, 0.04, 0.01],
            [0.04, 0.08, 0.87, 0.01],
            [0.05, 0.05, 0.05, 0.85],
        ],
    ),
    "a rare class of 1 %": (
        [0.6, 0.39, 0.01],
        [[0.97, 0.028, 0.002], [0.04, 0.955, 0.005], [0.2, 0.1, 0.7]],
    ),
    "nearly right, 99.5 %": (
        [0.7, 0.2, 0.1],
        [[0.995, 0.004, 0.001], [0.004, 0.995, 0.001], [0.003, 0.002, 0.995]],
    ),
}
PIXELS = 1_000_000
FIRST, STEP, STEPS, REPEATS, POOL = 40, 20, 5, 20, 1500
WAYS = ("uncover", "random", "entropy", "margin")
RUNS = RESULTS / "sampling.jsonl"


@benchmark("sampling")
def run(quick):
    """Tables of designs and of added labels."""
    designs, repeats = (50, 2) if quick else (DESIGNS, REPEATS)
    runs = Runs(Path(tempfile.mkdtemp()) / RUNS.name if quick else RUNS, one_run)
    cells = [(name,) for name in problems()]
    runs.make(cells, repeats, WAYS)
    return [designs_table(designs), *training_tables(runs, cells, repeats)]


# ---- designs ------------------------------------------------------------------------------------------


def designs_table(designs):
    """Coverage of 95 % intervals, and the spread of the estimates against the target."""
    rows = []
    for name, (shares, truth) in MAPS.items():
        rows += [[f"{name}; {t:g}", *_designs(shares, truth, t, designs)] for t in TARGETS]
    spread = {"spread, accuracy": ".4f", "spread, areas": ".4f", "at random": ".4f"}
    held = {"coverage, accuracy": ".3f", "coverage, areas": ".3f", "usual intervals, areas": ".3f"}
    columns = {"map; target": "", "points": ",d", **spread, **held}
    caption = (
        f"{designs} designs of `uncover sample --for areas --target-error`, with the errors of the map: "
        "standard deviation of the estimates (the largest of the classes), that of as many points drawn at "
        "random from the whole map, and coverage of 95 % intervals (areas: mean over classes)."
    )
    return Table("designs", caption, columns, rows)


def _designs(shares, truth, target, designs):
    shares, truth = np.array(shares), np.array(truth)
    pixels = np.rint(shares * PIXELS).astype(np.int64)
    pairs = np.rint(pixels[:, None] * truth).astype(np.int64)
    pixels, area = pairs.sum(axis=1), pairs.sum(axis=0) / pairs.sum()
    variances = class_variances(pixels / pixels.sum(), pairs / pixels[:, None])
    counts = samples_for_target(variances, pixels, target, least=30)
    assert (samples_of_total(variances, pixels, int(counts.sum()), 30) > 0).all()
    right = np.trace(pairs) / pairs.sum()
    rng, k = stream(0, "designs", str(target)), len(pixels)
    found, held, usual = [], [], []
    for _ in range(designs):
        drawn = np.stack([rng.multivariate_hypergeometric(pairs[i], counts[i]) for i in range(k)])
        cells = SampleCells.of_counts(np.eye(k)[:, :, None] * drawn)
        sample = StratifiedSample(cells, pixels.astype(float), pixels, by_map=True)
        accuracy, areas = sample.overall_accuracy(), sample.shares()
        found.append([accuracy.value, *areas.value])
        held.append(_inside(accuracy.interval(LEVEL), right) + _inside(areas.interval(LEVEL), area))
        usual.append(_inside(areas.normal_interval(LEVEL), area))
    spread, held = np.std(found, axis=0), np.mean(held, axis=0)
    p = np.array([right, *area])
    alone = np.sqrt(p * (1 - p) / counts.sum()).max()
    return [int(counts.sum()), spread[0], spread[1:].max(), alone, held[0], held[1:].mean(), np.mean(usual)]


def _inside(limits, truth):
    low, high = (np.atleast_1d(each) for each in limits)
    return [float(a <= t <= b) for a, b, t in zip(low, high, np.atleast_1d(truth), strict=True)]


# ---- training -----------------------------------------------------------------------------------------


def problems():
    """Samples with features and classes, by name."""
    found = {name: load(return_X_y=True) for name, load in SKLEARN.items()}
    return found | {"embedded scene": None, "t11upt": None} if shared() is not None else found


SKLEARN = {"wine": load_wine, "breast cancer": load_breast_cancer}


def shared():
    """Folder of real data; None where it is not there."""
    return DATA if (DATA / "tile_t11upt").is_dir() else None


def samples_of(name):
    """Features and classes of a problem."""
    if name in SKLEARN:
        X, y = SKLEARN[name](return_X_y=True)
        return StandardScaler().fit_transform(X), y
    return _scene() if name == "embedded scene" else _tile()


def _tile():
    folder = shared() / "tile_t11upt"
    with rasterio.open(folder / "reflectance_60m.tif") as file:
        values, grid = file.read().astype(np.float64) / 1e4, file.transform
        shape = file.shape
    with rasterio.open(folder / "landcover.tif") as file:
        rows, cols = np.indices(shape)
        x, y = grid @ (cols.ravel() + 0.5, rows.ravel() + 0.5)
        classes = np.array([value[0] for value in file.sample(zip(x, y, strict=True))])
    known = classes > 0
    return values.reshape(len(values), -1).T[known], classes[known]


def _scene():
    with tempfile.TemporaryDirectory() as folder:
        files = write_scene(Path(folder), LandscapeOptions(200, 0, "realistic"))
        with rasterio.open(files.truth(2020)) as file:
            truth = file.read(1)
        known = np.isin(truth, [CLASSES.code_of(each) for each in TRAINED])
        return open_scene(files.product(2020)).read().samples(known).astype(float), truth[known]


def one_run(problem, repeat, way):
    """Log loss on other samples: with the first labels, and after each step while there are any to add."""
    X, y = _problem(problem)
    pool, test, known = _split(problem, repeat)
    clf, losses = _first(problem, repeat), []
    for step in range(STEPS + 1):
        P = clf.predict_proba(X[test])
        of_true = P[np.arange(len(test)), np.searchsorted(clf.classes_, y[test])]
        losses.append(float(-np.log(np.maximum(of_true, FLOOR)).mean()))
        rest = np.setdiff1d(pool, known)
        if step == STEPS or len(rest) < STEP:
            break
        known = np.concatenate([known, rest[_chosen(clf, X[rest], way, stream(repeat, way, step))]])
        clf = BayesianClassifier(random_state=0).fit(X[known], y[known])
    return {"losses": losses}


def _split(problem, repeat):
    """Samples to choose from, those that measure the loss, and the first labels."""
    y = _problem(problem)[1]
    order = stream(repeat, "sampling", problem).permutation(len(y))
    pool = order[: min(POOL, len(y) // 2)]
    first = [pool[y[pool] == k][: max(3, FIRST // len(np.unique(y)))] for k in np.unique(y)]
    return pool, order[len(y) // 2 :][:POOL], np.concatenate(first)


@lru_cache(1)
def _first(problem, repeat):
    """Model of the first labels: the same for all ways."""
    X, y = _problem(problem)
    known = _split(problem, repeat)[2]
    return BayesianClassifier(random_state=0).fit(X[known], y[known])


@cache
def _problem(name):
    return samples_of(name)


def _chosen(clf, X, way, rng):
    """Places whose label is asked for."""
    if way == "random":
        return rng.permutation(len(X))[:STEP]
    if way in ("entropy", "margin"):
        P = np.sort(clf.predict_proba(X), axis=1)
        worth = P[:, -2] - P[:, -1] if way == "margin" else -(P * np.log(np.maximum(P, 1e-300))).sum(axis=1)
        return np.argsort(-worth, kind="stable")[:STEP]
    part = np.maximum(PoolSummariser(clf.model_).summarise(X.T[None]).model, 0.0)
    return spread_out(part, StandardScaler().fit_transform(X), np.zeros((len(X), 2)), STEP, 0.0, rng)


def training_tables(runs, cells, repeats):
    """Log loss of ours against each other way, and step by step, from the repeats that all ways have."""
    rows, steps = [], []
    for (name,) in cells:
        done = runs.complete((name,), WAYS, repeats)
        if len(done) < 2:
            continue
        losses = {way: np.array([runs.get(name, r, way)["losses"] for r in done]) for way in WAYS}
        row = [
            name,
            len(done),
            losses["uncover"][:, 0].mean(),
            *(each[:, -1].mean() for each in losses.values()),
        ]
        for way in WAYS[1:]:
            apart = losses["uncover"][:, 1:].mean(axis=1) - losses[way][:, 1:].mean(axis=1)
            row.append(f"{apart.mean():+.3f} ± {_half(apart):.3f}")
        rows.append(row)
        for way, each in losses.items():
            steps += [[name, way, FIRST + STEP * i, at.mean(), _half(at)] for i, at in enumerate(each.T)]
    columns = {"problem": "", "repeats": "d", "before": ".3f", **dict.fromkeys(WAYS, ".3f")}
    columns |= {f"uncover − {way}, all steps": "" for way in WAYS[1:]}
    caption = (
        f"Log loss on other samples: with about {FIRST} labels, and after {STEPS} times {STEP} more, chosen "
        "in four ways; recommended classifier. Differences with 95 % intervals."
    )
    curves = {"problem": "", "way": "", "labels": "d", "log loss": ".3f", "±": ".3f"}
    return [
        Table("training", caption, columns, rows),
        Table("training-steps", "Log loss by number of labels, with 95 % intervals.", curves, steps),
    ]


def _half(values):
    """Half of the 95 % interval of a mean."""
    return stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / np.sqrt(len(values))


def draw_training(steps, path):
    """Log loss against the number of labels, a panel for each problem."""
    from uncover.report.style import MARKERS, OKABE_ITO, WIDE, figure_style, new_figure, save_figure

    names = list(dict.fromkeys(row[0] for row in steps["rows"]))
    with figure_style():
        figure = new_figure(height=3.0, width=WIDE)
        panels = np.atleast_1d(figure.subplots(1, len(names)))
        for panel, name in zip(panels, names, strict=True):
            for i, way in enumerate(WAYS):
                labels, loss, half = np.array(
                    [row[2:] for row in steps["rows"] if row[:2] == [name, way]], float
                ).T
                how = {"color": OKABE_ITO[i], "marker": MARKERS[i], "markersize": 4, "label": way}
                panel.errorbar(labels + 1.5 * i, loss, half, linewidth=1, elinewidth=0.7, **how)
            panel.set_title(name)
            panel.set_xlabel("labels")
        panels[0].set_ylabel("log loss, nats")
        handles, titles = panels[0].get_legend_handles_labels()
        figure.legend(handles, titles, loc="outside lower center", ncols=4)
        save_figure(figure, path)
