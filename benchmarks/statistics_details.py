"""Statistical checks beside those of benchmarks.statistics: single claims of the same sections, all quick."""

import warnings
from collections.abc import Callable

import numpy as np

from benchmarks.registry import Table, benchmark
from benchmarks.statistics import _measured, _overstatement
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


# Each takes ``quick`` and returns one table.
CHECKS: list[Callable[[bool], Table]] = [
    draws_against_known_noise,
    base_rate,
    certainties_in_three_features,
    change_by_a_sum,
]


@benchmark("statistics-details")
def statistics_details(quick):
    """Return the tables of all checks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return [check(quick) for check in CHECKS]
