"""Statistical checks beside those of benchmarks.statistics: single claims of the same sections, all quick."""

import warnings
from collections.abc import Callable

import numpy as np
from scipy.special import expit, xlogy
from sklearn.metrics import roc_auc_score

from benchmarks.registry import Table, benchmark
from benchmarks.statistics import _measured, _overstatement
from benchmarks.unknown import problems, split
from uncover import BayesianClassifier, BayesianQDA
from uncover.bayes.streams import stream


def _with_errors(found):
    """Mean and standard error of each column, one after the other."""
    found = np.asarray(found)
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    return np.stack([found.mean(axis=0), error], axis=1).ravel().tolist()


def draws_against_known_noise(quick):
    """Over-statement by draws less that by known noise, on the same samples."""
    found = []
    for i in range(10 if quick else 60):
        X, y = _measured(stream(i, "over-statement", "draws"), 800, 3, True)
        noise = [1.0 + 1.0 / 3.0]  # of the mean of three draws
        drawn = BayesianQDA(realisations="draws").fit(X[:600], y[:600]).predict_proba(X[600:])
        known = BayesianQDA().fit(X[:600].mean(1), y[:600], X_cov=noise)
        known = known.predict_proba(X[600:].mean(1), X_cov=noise)
        found.append([_overstatement(drawn, y[600:]) - _overstatement(known, y[600:])])
    caption = "Over-statement by draws less that by known noise, nats; 600 samples, R = 3."
    row = [len(found), *_with_errors(found)]
    return Table("draws less known", caption, {"runs": "d", "difference": ".4f", "±": ".4f"}, [row])


def base_rate(quick):
    """Class share and means where all certainties are (0.95, 0.05) and one sample in 20 is of the second."""
    rows = []
    for prior in ("weak", "evidence"):
        found = []
        for i in range(3 if quick else 10):
            rng = stream(i, "base rate")
            y = (np.arange(300) % 20 == 0).astype(int)
            X, rho = rng.standard_normal((300, 1)) + 2.0 * y[:, None], np.tile([0.95, 0.05], (300, 1))
            clf = BayesianQDA(prior=prior).fit(X, label_proba=rho, label_meaning="certainty")
            share = clf.class_posterior_[1] / clf.class_posterior_.sum()
            found.append([share, *clf.means_[:, 0]])
        rows.append([prior, *_with_errors(found)])
    columns = {"prior": "", "share": ".3f", "±": ".3f"}
    columns |= {"first mean": ".2f", "± ": ".2f", "second mean": ".2f", "±  ": ".2f"}
    caption = f"Certainties that all say 0.05, n = 300, means 0 and 2, {len(found)} problems."
    return Table("base rate", caption, columns, rows)


def certainties_in_three_features(quick):
    """Log loss of 40 samples in three features, by the meaning of their soft labels."""
    rows = []
    for prior, meaning in (("weak", "certainty"), ("evidence", "certainty"), ("weak", "posterior")):
        found = []
        for i in range(6 if quick else 60):
            rng = stream(i, "certainties in three features")
            y, c = rng.integers(0, 2, 2040), rng.uniform(0.5, 1.0, 2040)
            said = np.where(rng.random(2040) < c, y, 1 - y)
            rho = np.where(said[:, None] == [0, 1], c[:, None], 1.0 - c[:, None])
            X = rng.standard_normal((2040, 3)) + 2.0 * y[:, None] * [1.0, 0.0, 0.0]
            clf = BayesianQDA(prior=prior).fit(X[:40], label_proba=rho[:40], label_meaning=meaning)
            P = clf.predict_proba(X[40:])
            found.append([-np.log(P[np.arange(2000), y[40:]]).mean()])
        rows.append([prior, meaning, *_with_errors(found)])
    caption = f"Log loss of certainties, 40 samples, three features, {len(found)} problems."
    columns = {"prior": "", "label_meaning": "", "log loss": ".3f", "±": ".3f"}
    return Table("three features", caption, columns, rows)


def change_by_a_sum(quick):
    """Largest change of probabilities by a feature that is the sum of the three others."""
    models = {"BayesianQDA, weak prior": BayesianQDA, "BayesianClassifier": BayesianClassifier}
    rows = []
    for name, model in models.items():
        changes = []
        for i in range(1 if quick else 6):
            rng, y = stream(i, "change by a sum"), np.arange(150) % 3
            x = rng.standard_normal((150, 3)) + 2.0 * rng.standard_normal((3, 3))[y]
            P = [model().fit(X[:120], y[:120]).predict_proba(X[120:]) for X in (x, np.c_[x, x.sum(1)])]
            changes.append(np.abs(P[1] - P[0]).max())
        rows.append([name, len(changes), float(np.median(changes)), float(max(changes))])
    columns = {"model": "", "fits": "d", "median": ".2f", "largest": ".2f"}
    return Table("sum", "Change of 30 probabilities by a feature that is a sum, n = 120.", columns, rows)


def measurement_part(quick):
    """Measurement part of the budget where noise is as large as the classes, or larger, against the truth."""
    rows = []
    for variance in (0.5, 2.0, 9.0):
        for n in (300, 1500):
            found = []
            for i in range(2 if quick else 12):
                rng = stream(i, "measurement part", variance, n)
                X, y, _ = _two_classes(n, variance, rng)
                new, _, truth = _two_classes(20_000, variance, rng)
                expected = _class_entropy(new, 1.0 + variance) - _class_entropy(truth, 1.0)
                noise, row = [variance, variance], [expected]
                for make in (BayesianClassifier, lambda: BayesianQDA(prior="evidence")):
                    clf = make().fit(X, y, X_cov=noise)
                    row.append(clf.uncertainty(new[:200], X_cov=noise).measurement.mean())
                found.append(row)
            rows.append([variance, n, *_with_errors(found)])
    columns = {"noise variance": "g", "samples": "d", "true": ".3f", "±": ".3f"}
    columns |= {"BayesianClassifier": ".3f", "± ": ".3f", "BayesianQDA": ".3f", "±  ": ".3f"}
    caption = (
        f"Two Gaussian classes of variance 1 in two features, means 1.5 apart in each: {len(found)} training "
        "sets; true: the information of the true value on the class, nats, the classes being known."
    )
    return Table("measurement part", caption, columns, rows)


def _two_classes(n, variance, rng):
    """Measured values, classes and true values."""
    y = np.arange(n) % 2
    truth = rng.standard_normal((n, 2)) + 1.5 * y[:, None]
    return truth + np.sqrt(variance) * rng.standard_normal((n, 2)), y, truth


def _class_entropy(x, variance):
    """Mean entropy of the class given x, which has this variance within classes."""
    P = expit((1.5 * x.sum(1) - 2.25) / variance)
    return float(-(xlogy(P, P) + xlogy(1.0 - P, 1.0 - P)).mean())


_MODELS = {
    "BayesianQDA, weak": BayesianQDA,
    "BayesianQDA, evidence": lambda: BayesianQDA(prior="evidence"),
    "BayesianClassifier": BayesianClassifier,
}


def few_samples(quick):
    """Log loss, over-statement and typicality with few samples for the features, and what is said of it."""
    rows = []
    for p, n, sets in ((3, 8, 100), (3, 20, 100), (100, 5, 40)):
        for name, make in _MODELS.items():
            found = [
                _with_few(make, p, n, stream(i, "few samples", p, n)) for i in range(5 if quick else sets)
            ]
            numbers, said = zip(*found, strict=True)
            rows.append([p, n, name, *_with_errors(numbers), ", ".join(sorted(set().union(*said))) or "none"])
    columns = {"features": "d", "samples a class": "d", "model": ""}
    columns |= {"log loss": ".3f", "±": ".3f", "over-statement": ".3f", "± ": ".3f"}
    columns |= {"typicality below 0.05": ".3f", "±  ": ".3f", "said": ""}
    caption = (
        "New members of three classes of unlike covariances, whose means have about the same distances "
        "whatever the number of features; 100 training sets, 40 of 100 features."
    )
    return Table("few samples", caption, columns, rows)


def _with_few(make, p, n, rng, each=100):
    """Log loss, over-statement, share below 0.05; and whether `describe` or `fit` names the prior."""
    y, mixing, centre = np.arange(3 * (n + each)) % 3, rng.normal(size=(3, p, p)), rng.normal(size=(3, p))
    X = (np.sqrt(3.0) * centre[y] + (mixing[y] @ rng.normal(size=(len(y), p, 1)))[..., 0]) / np.sqrt(p)
    train, test = slice(3 * n), slice(3 * n, None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf = make().fit(X[train], y[train])
    said = {"warning"} if any("too sure" in str(w.message) for w in caught) else set()
    said |= {"note"} if "too sure" in clf.describe() else set()
    P = np.clip(clf.predict_proba(X[test]), 1e-12, 1.0)
    loss = -np.log(P[np.arange(3 * each), y[test]]).mean()
    return [loss, _overstatement(P, y[test]), np.mean(clf.typicality(X[test]) < 0.05)], said


def ranking_of_new_classes(quick):
    """Typicality of a class that was left out, by the recommended classifier and by BayesianQDA."""
    rows = []
    for name, (X, y) in problems(quick).items():
        splits = 2 if quick else 20 if len(y) < 200 else 6  # small sets differ more from split to split
        found = np.array([_left_out(X, y, 201 + i) for i in range(splits)])  # (split, model, number)
        ahead = found[:, :, :1] - found[:, :1, :1]
        numbers = np.concatenate([found[:, :, :1], ahead, found[:, :, 1:]], axis=2)
        for m, model in enumerate((BayesianQDA, BayesianClassifier)):
            rows.append([name, splits, model.__name__, *_with_errors(numbers[:, m])])
    names = ("area", "to BayesianQDA", "new below 0.01", "known below 0.05")
    columns = {key: ".3f" for i, name in enumerate(names) for key in (name, "±" + " " * i)}
    caption = (
        "Area under the ROC curve of typicality, each class left out in turn, mean over the classes; at most "
        "40 samples of a class train; ± standard error over the splits."
    )
    return Table("new classes", caption, {"data": "", "splits": "d", "model": "", **columns}, rows)


def _left_out(X, y, seed):
    """Mean over the classes of area, share of the new below 0.01 and of the known below 0.05, by model."""
    found = []
    for k in np.unique(y):
        train, test = split(y, k, 40, seed)
        new = y[test] == k
        models = [model().fit(X[train], y[train]) for model in (BayesianQDA, BayesianClassifier)]
        p_values = [model.typicality(X[test]) for model in models]
        found.append(
            [[roc_auc_score(new, -p), (p[new] < 0.01).mean(), (p[~new] < 0.05).mean()] for p in p_values]
        )
    return np.mean(found, axis=0)


# Each takes ``quick`` and returns one table.
CHECKS: list[Callable[[bool], Table]] = [
    draws_against_known_noise,
    base_rate,
    certainties_in_three_features,
    change_by_a_sum,
    few_samples,
    ranking_of_new_classes,
    measurement_part,
]


@benchmark("statistics-details")
def statistics_details(quick):
    """Return the tables of all checks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return [check(quick) for check in CHECKS]
