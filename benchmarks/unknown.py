"""P(none of the classes) for classes that were not trained: ranking, calibration, log loss, and smoke."""

import tempfile
import warnings
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.metrics import roc_auc_score

from benchmarks.probability_problems import DATA, _embedded_scene
from benchmarks.registry import Table, benchmark
from uncover import BayesianClassifier, BayesianLDA, BayesianMDA, BayesianNB, BayesianQDA, ConformalSets
from uncover.bayes.population import UnknownOdds
from uncover.bayes.student_t import StudentT
from uncover.studies.landscape.acquisition import OVERPASSES, Overpass

MODELS = {
    "qda, weak": lambda: BayesianQDA(prior="weak"),
    "qda, evidence": lambda: BayesianQDA(prior="evidence"),
    "lda": BayesianLDA,
    "nb": BayesianNB,
    "mda": BayesianMDA,
    "recommended": BayesianClassifier,
}
# Samples of each class that train, and that test; the recommended model is fitted to fewer.
MOST, MOST_RECOMMENDED = 100, 40
SHARE = 0.05
# Splits of their own: the method was chosen by looking at those of seed 0.
SEEDS = (101, 102, 103)
POWERS = (0.0, 0.25, 0.5, 0.75)
BINS = (0.0, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 1.0)


# Rules reject this share of the known samples.
REJECTED = 0.05
# The embedded scene under smoke: pixels of a side, and the optical depth on top.
SIDE, SMOKE = 300, 0.8


@benchmark("unknown")
def run(quick):
    """Leave each class out in turn; it is then the unknown of the test samples. Then fen, water and smoke."""
    rows, pairs, powers, members = [], {}, [], []
    for name, (X, y) in problems(quick).items():
        for model, make in MODELS.items():
            if model == "recommended" and (quick or name in ("digits", "statlog")):
                continue
            most = MOST_RECOMMENDED if model == "recommended" else MOST
            seeds = SEEDS[:1] if quick else SEEDS
            found = [_left_out(make, X, y, k, most, seed) for seed in seeds for k in np.unique(y)]
            each = np.array([each[0] for each in found])
            ahead = (each[:, 0] - each[:, 1]).reshape(len(seeds), -1).mean(1)
            error = ahead.std(ddof=1) / np.sqrt(len(seeds)) if len(seeds) > 1 else np.nan
            rows.append([name, model, *each[:, :2].mean(0), ahead.mean(), error, *each[:, 2:].mean(0)])
            others = np.mean([each[2] for each in found], axis=0)
            if model == "qda, evidence":
                pairs[name] = np.concatenate([each[1] for each in found])
                powers.append([name, *others])
            if model == "recommended":
                members.append([name, *others])
            print(name, model, flush=True)
    tables = [_scores(rows), *_reliability(pairs), _powers(powers)]
    return tables if quick else [*tables, _members(members), _smoke_table()]


def problems(quick):
    """Samples and classes of each set of data that is here, by name."""
    found = {"iris": load_iris(return_X_y=True), "wine": load_wine(return_X_y=True)}
    if quick:
        return found
    found["digits"] = load_digits(return_X_y=True)
    files = {"amazon": DATA / "sen2_amazon/pixels_sen2.csv", "statlog": DATA / "statlog/Satellite.csv.gz"}
    for name, path in files.items():
        if not path.exists():
            print(f"{name}: skipped, {path.name} is not here")
            continue
        table = np.genfromtxt(path, delimiter=",", skip_header=1, dtype=str, encoding="utf-8")
        first, last = (1, 13) if name == "amazon" else (0, 36)
        found[name] = table[:, first:last].astype(float), np.char.strip(table[:, -1], '"')
    found |= _scenes()
    try:
        values, label = _embedded_scene()
    except (OSError, ImportError) as error:
        print(f"embedded scene: skipped, {error}")
    else:
        found["embedded scene"] = values[0], label
    return found


def _scenes():
    """Labelled pixels of two real scenes: Level-1C of one date, and a tile in Canada at 60 m."""
    found, folder = {}, DATA / "s2_l1c_reference"
    if folder.exists():
        values, codes = np.load(folder / "l1c_reflectance.npy")[3], np.load(folder / "lulc.npy").squeeze()
        enough = np.isin(codes, [2, 3, 4, 8])
        found["l1c"] = values[enough].astype(float), codes[enough]
    folder = DATA / "tile_t11upt"
    if folder.exists():
        import rasterio
        from rasterio.warp import Resampling, reproject

        with rasterio.open(folder / "reflectance_60m.tif") as file:
            values, place = file.read() * 1e-4, {"dst_transform": file.transform, "dst_crs": file.crs}
        codes = np.zeros(values.shape[1:], np.int16)
        with rasterio.open(folder / "landcover.tif") as file:
            reproject(rasterio.band(file, 1), codes, **place, resampling=Resampling.mode, dst_nodata=0)
        enough = (codes > 0) & (values > 0).all(0)
        found["t11upt"] = values[:, enough].T, codes[enough]
    return found


def split(y, k, most, seed):
    """Rows that train, none of class k, and rows that test: at most ``most`` of each class in both."""
    rng = np.random.default_rng(seed)
    rows = np.concatenate([rng.permutation(np.flatnonzero(y == c))[: 2 * most] for c in np.unique(y)])
    rng.shuffle(rows)
    train, test = rows[::2], rows[1::2]
    return train[y[train] != k], test


def _left_out(make, X, y, k, most, seed):
    """Scores of P(none) for one class left out, and (P, truth) of the test samples at the right share."""
    train, test = split(y, k, most, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = make().fit(X[train], y[train])
        sets = ConformalSets(make(), kept=0.5).fit(X[train], y[train])
    new, x = y[test] == k, X[test]
    share = float(new.mean())
    P, at_share = (clf.unknown_proba(x, share=s) for s in (SHARE, share))
    inner = clf.predict_proba(x)
    own = inner[np.arange(len(x)), np.searchsorted(clf.classes_, y[test]) % len(clf.classes_)]
    estimate = clf.unknown_share(x).share
    scores = [
        roc_auc_score(new, P),
        roc_auc_score(new, -clf.typicality(x)),
        P[new].mean(),
        P[~new].mean(),
        _log_loss(at_share, own, new),
        _log_loss_of_rule(sets.p_values(x).max(1), own, new),
        _log_loss_of_rule(inner.max(1), own, new),
        _log_loss_of_rule(clf.typicality(x), own, new),
        abs(estimate - share),
    ]
    if type(clf) is BayesianClassifier:
        return scores, None, _of_members(clf, x, new, share)
    if type(clf) is not BayesianQDA or clf.prior != "evidence":
        return scores, None, [np.nan]
    odds = clf._unknown_odds(x, None, True)
    tempered = [_none_or_known(_tempered(odds, power), share, new) for power in POWERS]
    learned = _learned_factor(make, X[train], y[train], seed)
    tempered.append(_none_or_known(_scaled(odds, learned), share, new))
    for candidate in (0, 1):
        alone = odds.log_ratio[..., [candidate, candidate]]
        tempered.append(_none_or_known(replace(odds, log_ratio=alone), share, new))
    simple = np.repeat((_three_dof(clf, x) - clf.score_samples(x))[:, None, None], 2, axis=2)
    tempered.append(_none_or_known(UnknownOdds(simple, np.ones(len(x))), share, new))
    return scores, np.column_stack([at_share, new]), tempered


def _of_members(clf, x, new, share):
    """(Area, log loss) of P(none) by the first Gaussian member, and by all, averaged by their weights."""
    pool, predicted = clf.model_, clf._predict(x, None, True)
    mine = [i for i, member in enumerate(pool.members) if member.gaussian]
    each = [predicted._of_gaussian(pool.members[i]).unknown().probability(share) for i in mine]
    first = predicted._of_gaussian(pool.members[pool.first_gaussian]).unknown().probability(share)
    both = first, np.average(each, axis=0, weights=pool.weights[mine] + 1e-3)
    return [f(P) for f in (lambda P: roc_auc_score(new, P), lambda P: _two_answers(P, new)) for P in both]


def _learned_factor(make, X, y, seed):
    """Factor of the power in use, from the training samples: each class in turn is the unknown of the others.

    Half of the others train, half are the known ones; the log loss of each class counts as 10 samples, and
    the logarithm of the factor is N(0, 0.5²) before.
    """
    rng, classes = np.random.default_rng(seed), np.unique(y)
    half = np.zeros(len(y), bool)
    for k in classes:
        half[rng.permutation(np.flatnonzero(y == k))[::2]] = True
    found = []
    for k in classes:
        for train in (half & (y != k), ~half & (y != k)):
            clf = make().partial_fit(X[train], y[train], classes=classes)
            odds = clf._unknown_odds(X[~train], None, True)
            found.append((odds, y[~train] == k))

    def loss(log_factor):
        each = [_none_or_known(_scaled(o, np.exp(log_factor)), new.mean(), new) for o, new in found]
        return 5.0 * sum(each) + 0.5 * (log_factor / 0.5) ** 2

    return float(np.exp(minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded").x))


def _three_dof(clf, x):
    """Log density of a simple rival: a Student t with the scatter within and between classes."""
    used = clf.model_.used_features
    means, within = clf.means_[:, used], clf.covariances_[:, used][:, :, used].mean(0)
    scatter = np.cov(means.T) if len(means) > 1 else 0.0
    return StudentT.from_scale(means.mean(0), (within + scatter) / 3.0, 3.0).log_prob(x[:, used])


def _scaled(odds, factor):
    return replace(odds, log_ratio=factor * odds.log_ratio)


def _tempered(odds, power):
    """The same where the ratio counts by another power of the number of features."""
    return replace(odds, log_ratio=odds.log_ratio * odds.n_features[:, None, None] ** (0.5 - power))


def _none_or_known(odds, share, new):
    return _two_answers(odds.probability(share), new)


def _two_answers(P, new):
    """Log loss of none against known."""
    P = np.clip(P, 1e-9, 1 - 1e-9)
    return float(-np.where(new, np.log(P), np.log1p(-P)).mean())


def _log_loss(P, own, new):
    """Mean log loss over K + 1 answers: none with probability P, and the true class with (1 − P) own."""
    P, own = np.clip(P, 1e-9, 1 - 1e-9), np.clip(own, 1e-9, 1.0)
    return float(-np.where(new, np.log(P), np.log1p(-P) + np.log(own)).mean())


def _log_loss_of_rule(score, own, new):
    """The same of a rule that calls samples of low score unknown, with the frequencies of the test itself.

    The threshold is the one that rejects 5 % of the known samples of the test.
    """
    called = score < np.quantile(score[~new], REJECTED)
    share = {each: new[called == each].mean() if (called == each).any() else 0.5 for each in (True, False)}
    return _log_loss(np.where(called, share[True], share[False]), own, new)


def _scores(rows):
    columns = dict.fromkeys(
        [
            "area, P(none)",
            "area, typicality",
            "difference",
            "±",
            "mean P(none), new",
            "mean P(none), known",
            "log loss, P(none)",
            "log loss, conformal",
            "log loss, largest P",
            "log loss, typicality",
            "error of the share",
        ],
        ".3f",
    )
    caption = (
        "Each class left out in turn, mean over the classes and 3 splits (± standard error of the difference "
        "over the splits); half of at most 200 samples of each class train "
        "(80 for the recommended model). Area under the ROC curve; mean P(none) at a share of 0.05; log loss "
        "over K + 1 answers at the right share, in nats. The rules call a sample unknown by its conformal "
        "p-value, its largest probability or its typicality. They get the threshold that rejects 5 % of the "
        "known samples of the test, and the frequencies of the test itself."
    )
    return Table("left out", caption, {"data": "", "model": "", **columns}, rows)


def _reliability(pairs):
    """Two tables: all data, each counting the same, and each data set for itself."""
    each = [
        [name, f"{low:g} to {high:g}", *_bin(pairs[name], low, high)]
        for name in pairs
        for low, high in pairwise(BINS)
    ]
    each = [row for row in each if row[2]]
    rows = []
    for low, high in pairwise(BINS):
        mine = np.array([row[2:] for row in each if row[1] == f"{low:g} to {high:g}"])
        if len(mine):
            spread = mine[:, 2].std(ddof=1) / np.sqrt(len(mine)) if len(mine) > 1 else np.nan
            ends = mine[:, 2].min(), mine[:, 2].max()
            rows.append([f"{low:g} to {high:g}", int(mine[:, 0].sum()), *mine[:, 1:].mean(0), spread, *ends])
    caption = (
        "P(none) at the right share against what came true, qda with evidence prior: means over the data "
        "sets, their standard error, and the lowest and highest of them."
    )
    columns = {"P(none)": "", "samples": ",d", "mean P(none)": ".3f", "of the new class": ".3f"}
    more = {"± over the data": ".3f", "lowest": ".3f", "highest": ".3f"}
    of_each = Table("reliability by data", "The same for each data set.", {"data": "", **columns}, each)
    return Table("reliability", caption, {**columns, **more}, rows), of_each


def _bin(pairs, low, high):
    P, new = pairs.T
    mine = (low <= P) & ((high > P) | (high == 1.0))
    return (int(mine.sum()), P[mine].mean(), new[mine].mean()) if mine.any() else (0, np.nan, np.nan)


def draw_reliability(table, file):
    """Figure of the reliability by data: each set a line, their mean a thick one."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.2, 4.6), layout="constrained")
    axes.plot([0, 1], [0, 1], color="0.6", linestyle=":", linewidth=1)
    rows = table["rows"]
    for name in dict.fromkeys(row[0] for row in rows):
        mine = [row for row in rows if row[0] == name and row[2] >= 20]
        axes.plot(
            [r[3] for r in mine], [r[4] for r in mine], marker="o", markersize=3, linewidth=1, label=name
        )
    bins = dict.fromkeys(row[1] for row in rows)
    means = [np.mean([row[3:5] for row in rows if row[1] == each], axis=0) for each in bins]
    axes.plot(*np.transpose(sorted(map(tuple, means))), color="black", linewidth=2.5, label="mean")
    axes.set(
        xlabel="P(none of the classes)", ylabel="share that is of the new class", xlim=(0, 1), ylim=(0, 1)
    )
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(file, dpi=150, metadata={"Software": None})
    plt.close(figure)


def _powers(rows):
    caption = (
        "Log loss of none against known at the right share, in nats: qda, evidence prior. First by the power "
        "of the density ratio; the one in use is p^(-1/2). Learned: that power times a factor from the "
        "training samples, each class in turn the unknown of the others. Then one candidate of the density "
        "of a further class in place of both. Last: a Student t of three degrees of freedom with the scatter "
        "within and between classes, power 1."
    )
    names = ["1" if power == 0 else f"p^(-{power:g})" for power in POWERS]
    names += ["learned", "population alone", "relatives alone", "t of 3 dof"]
    return Table("powers", caption, {"data": "", **dict.fromkeys(names, ".3f")}, rows)


def _members(rows):
    caption = (
        "Recommended model: P(none) by its first Gaussian member, which is in use, or by all of them (those "
        "of log features too), averaged by their weights. Area under the ROC curve; log loss of none against "
        "known, in nats."
    )
    names = ("area, first", "area, all", "log loss, first", "log loss, all")
    return Table("members", caption, {"data": "", **dict.fromkeys(names, ".3f")}, rows)


# ---- the embedded scene, its untrained classes, and smoke ----------------------------------------------


@dataclass(frozen=True)
class _Smoked(Overpass):
    """An overpass under smoke that nobody reported."""

    def true_aod(self, seed):
        """The optical depth that was, and the smoke on top."""
        return super().true_aod(seed) + SMOKE


def _smoke_table():
    rows = [row for seed in (0, 1, 2) for row in _smoke(seed)]
    keys = dict.fromkeys((row[0], row[1]) for row in rows)
    means = [
        [*key, *np.nanmean([row[2:] for row in rows if (row[0], row[1]) == key], axis=0)] for key in keys
    ]
    caption = (
        f"Embedded scene, {SIDE} × {SIDE} pixels, trained on at most 200 labelled pixels of each class of "
        f"the clear scene; smoke is an optical depth of {SMOKE} more that the correction does not know. "
        "Means over 3 scenes. P(none) at a share of 0.05; flagged: typicality below 0.01. Area under the ROC "
        "curve against the trained classes of the clear scene."
    )
    columns = dict.fromkeys(
        (
            "mean P(none)",
            "P(none) above 0.5",
            "flagged",
            "right",
            "mean largest P",
            "area, P(none)",
            "area, typicality",
        ),
        ".3f",
    )
    rows = [["–" if value != value else value for value in row] for row in means]
    return Table("smoke", caption, {"model": "", "pixels": "", **columns}, rows)


def _smoke(seed):
    from uncover import pipeline
    from uncover.studies.landscape import LandscapeOptions, write_scene
    from uncover.studies.landscape.acquisition import observe, write_product
    from uncover.studies.landscape.geography import draw_geography, draw_history
    from uncover.studies.landscape.reflectance import draw_looks, render

    with tempfile.TemporaryDirectory() as folder:
        scene = write_scene(folder, LandscapeOptions(size=SIDE, seed=seed))
        land = draw_geography(SIDE, seed)
        looks = draw_looks(land, draw_history(land, seed).of(2020), 2020, seed)
        overpass = _Smoked(**vars(OVERPASSES[2020]))
        numbers = observe(render(land, looks, 2020, seed), overpass, seed)
        smoked = write_product(Path(folder) / "smoked", numbers, overpass)
        maps = [str(path) for path in scene.previous_maps(2020)]
        options = pipeline.LabelOptions(scheme=scene.scheme)
        pipeline.collect_labels(maps, [f"{path}:2" for path in maps], options).write(
            Path(folder) / "labels.tif"
        )
        clear, under = (_corrected(path, scene) for path in (scene.product(2020), smoked))
        names = [_read(path) for path in (Path(folder) / "labels.tif", scene.truth(2020), scene.kinds(2020))]
    return _scored(clear, under, *names, seed)


def _corrected(product, scene):
    """Surface reflectance at the reported optical depth: (pixel, band)."""
    from uncover import pipeline
    from uncover.raster import open_scene
    from uncover.raster.grid import Window

    known = scene.facts["years"]["2020"]
    options = pipeline.RealiseOptions(
        aod=known["reported_aod"], draws=1, method="mc", seed=0,
        water_vapour=known["water_vapour_cm"], ozone=known["ozone_du"],
    )  # fmt: skip
    worlds = pipeline.realise_scene(open_scene(product), options)
    values = worlds.read(Window(0, 0, SIDE, SIDE)).values[0]
    return values.reshape(len(values), -1).T.astype(float)


def _read(path):
    """Codes of a raster of labels: (pixel,)."""
    import rasterio

    with rasterio.open(path) as file:
        return file.read(1).ravel()


def _scored(clear, under, labels, truth, kinds, seed):
    """Rows of the table: what is called unknown of the trained classes, of fen, of water, and under smoke."""
    rng, rows = np.random.default_rng(seed), []
    train = np.concatenate(
        [rng.permutation(np.flatnonzero(labels == k))[:200] for k in np.unique(labels[labels > 0])]
    )
    rest = np.setdiff1d(np.arange(len(truth)), train)
    trained = np.isin(truth, np.unique(labels[train]))
    groups = {
        "trained classes": (clear, rest[trained[rest]]),
        "fen": (clear, rest[kinds[rest] == 41]),
        "water": (clear, rest[np.isin(kinds[rest], (42, 43))]),
        "trained classes, smoke": (under, rest[trained[rest]]),
        "fen and water, smoke": (under, rest[~trained[rest]]),
    }
    for name in ("qda, evidence", "recommended"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf = MODELS[name]().fit(clear[train], labels[train])
        of_known = None
        for group, (values, where) in groups.items():
            where = rng.permutation(where)[:4000]
            x = values[where]
            none, typicality, P = clf.unknown_proba(x, share=SHARE), clf.typicality(x), clf.predict_proba(x)
            if of_known is None:
                of_known = none, typicality
            new = np.repeat([False, True], [len(of_known[0]), len(x)])
            areas = [
                roc_auc_score(new, np.r_[a, b]) for a, b in ((of_known[0], none), (-of_known[1], -typicality))
            ]
            right = np.nan if not trained[where].any() else (clf.classes_[P.argmax(1)] == truth[where]).mean()
            counted = none.mean(), (none > 0.5).mean(), (typicality < 0.01).mean(), right, P.max(1).mean()
            rows.append([name, group, *counted, *(areas if group != "trained classes" else (np.nan, np.nan))])
    return rows
