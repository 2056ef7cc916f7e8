"""P(none of the classes) when a class is left out of the training: ranking, calibration and log loss."""

import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.metrics import roc_auc_score

from benchmarks.probability_problems import DATA, _embedded_scene
from benchmarks.registry import Table, benchmark
from uncover import BayesianClassifier, BayesianLDA, BayesianMDA, BayesianNB, BayesianQDA, ConformalSets
from uncover.bayes.population import UnknownOdds
from uncover.bayes.student_t import StudentT

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


@benchmark("unknown")
def run(quick):
    """Leave each class out in turn; it is then the unknown of the test samples."""
    rows, bins, powers = [], [], []
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
            if model == "qda, evidence":
                bins += [each[1] for each in found]
                powers.append([name, *np.mean([each[2] for each in found], axis=0)])
    return [_scores(rows), _reliability(np.concatenate(bins)), _powers(powers)]


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
    try:
        values, label = _embedded_scene()
    except (OSError, ImportError) as error:
        print(f"embedded scene: skipped, {error}")
    else:
        found["embedded scene"] = values[0], label
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
        sets = ConformalSets(make(), coverage=0.8, kept=0.5).fit(X[train], y[train])
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
        _log_loss_of_rule(~sets.predict_set(x).any(1), own, new),
        min(_log_loss_of_rule(inner.max(1) < t, own, new) for t in (0.5, 0.7, 0.9, 0.97, 0.99)),
        abs(estimate - share),
    ]
    odds = clf._unknown_odds(x, None, True)
    tempered = [_none_or_known(odds, share, power, new) for power in POWERS]
    if type(clf) is BayesianQDA:
        simple = UnknownOdds((_three_dof(clf, x) - clf.score_samples(x))[:, None], np.ones(len(x)))
        tempered.append(_none_or_known(simple, share, 0.0, new))
    return scores, np.column_stack([at_share, new]), tempered


def _three_dof(clf, x):
    """Log density of a simple rival: a Student t with the scatter within and between classes."""
    used = clf.model_.used_features
    means, within = clf.means_[:, used], clf.covariances_[:, used][:, :, used].mean(0)
    scatter = np.cov(means.T) if len(means) > 1 else 0.0
    return StudentT.from_scale(means.mean(0), (within + scatter) / 3.0, 3.0).log_prob(x[:, used])


def _none_or_known(odds, share, power, new):
    """Log loss of none against known, where the ratio counts by another power of the number of features."""
    ratio = odds.log_ratio * odds.n_features[:, None] ** (0.5 - power)
    P = np.clip(replace(odds, log_ratio=ratio).probability(share), 1e-9, 1 - 1e-9)
    return float(-np.where(new, np.log(P), np.log1p(-P)).mean())


def _log_loss(P, own, new):
    """Mean log loss over K + 1 answers: none with probability P, and the true class with (1 − P) own."""
    P, own = np.clip(P, 1e-9, 1 - 1e-9), np.clip(own, 1e-9, 1.0)
    return float(-np.where(new, np.log(P), np.log1p(-P) + np.log(own)).mean())


def _log_loss_of_rule(called, own, new):
    """The same of a rule that calls samples unknown, with the frequencies of the test itself."""
    P = np.where(called, new[called].mean() if called.any() else 0.5, new[~called].mean())
    return _log_loss(P, own, new)


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
            "error of the share",
        ],
        ".3f",
    )
    caption = (
        "Each class left out in turn, mean over the classes and 3 splits (± standard error of the difference "
        "over the splits); half of at most 200 samples of each class train "
        "(80 for the recommended model). Area under the ROC curve; mean P(none) at a share of 0.05; log loss "
        "over K + 1 answers at the right share, in nats. The rules (empty conformal set at 80 %, largest "
        "probability below the best of five thresholds) get the frequencies of the test itself."
    )
    return Table("left out", caption, {"data": "", "model": "", **columns}, rows)


def _reliability(pairs):
    P, new = pairs.T
    rows = []
    for low, high in pairwise(BINS):
        mine = (low <= P) & ((high > P) | (high == 1.0))
        if mine.any():
            n, share = int(mine.sum()), new[mine].mean()
            spread = np.sqrt(share * (1 - share) / n)
            rows.append([f"{low:g} to {high:g}", n, P[mine].mean(), share, spread])
    caption = (
        "P(none) at the right share against what came true, all data and classes, qda with evidence prior."
    )
    columns = {"P(none)": "", "samples": ",d", "mean P(none)": ".3f", "of the new class": ".3f", "±": ".3f"}
    return Table("reliability", caption, columns, rows)


def _powers(rows):
    caption = (
        "Log loss of none against known at the right share, in nats, by the power of the density ratio: qda, "
        "evidence prior. The power in use is p^(-1/2). Last column: a Student t of three degrees of freedom "
        "with the scatter within and between classes in place of the further class, power 1."
    )
    names = ["1" if power == 0 else f"p^(-{power:g})" for power in POWERS]
    return Table("powers", caption, {"data": "", **dict.fromkeys([*names, "t of 3 dof"], ".3f")}, rows)
