"""Classifiers that are told the noise of their inputs, against the same and others that are not.

On simulated problems and on real tables with standard uncertainties (`benchmarks.noise_problems`). Each run
is one line of a file, written when it is done: `python -m benchmarks.measured_noise --repeats 2 --only moons`
makes some of them, and shows the tables of what there is.
"""

import argparse
import time
import warnings
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from scipy.special import softmax
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.noise_problems import (
    MEASURED,
    NOISE,
    SIMULATED,
    SIMULATED_SIZES,
    draw_noisy_split,
    measured_cells,
    simulated_cells,
)
from benchmarks.registry import RESULTS, Table, benchmark, write_results
from benchmarks.runs import Runs, paired_interval, timed_scores
from uncover import BayesianClassifier, BayesianMDA, BayesianQDA
from uncover.bayes.streams import stream

RUNS = RESULTS / "measured-noise.jsonl"
REPEATS, REPEATS_OF_REAL = 20, 10
IMPUTATIONS, DRAWS = 4, 16  # of the true values of training samples, and of new ones
WITHIN = 1.1  # of the best other
SCORES = ("cross_entropy", "brier")

OWN = {"BayesianClassifier": BayesianClassifier, "BayesianQDA": BayesianQDA, "BayesianMDA": BayesianMDA}
OTHERS = {
    "random forest": lambda: RandomForestClassifier(100, random_state=0),
    "gradient boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)),
}
KNOWN, FEATURES, MONTE_CARLO, TRUE = " + X_cov", " + errors as features", " + Monte Carlo", " + true values"
RECOMMENDED, TOLD = "BayesianClassifier", "BayesianClassifier" + KNOWN
BEST_POSSIBLE = "classes known"


def ignoring(make, split, draws):
    """Take the values as exact."""
    return make().fit(split.X, split.y).predict_proba(split.X_test)


def told(make, split, draws):
    """Give the variances to fit and predict_proba."""
    model = make().fit(split.X, split.y, X_cov=split.variance)
    return model.predict_proba(split.X_test, X_cov=split.variance_test)


def with_features(make, split, draws):
    """Give the standard uncertainties as further features."""
    X, X_test = (
        np.concatenate([x, np.sqrt(variance)], axis=1)
        for x, variance in ((split.X, split.variance), (split.X_test, split.variance_test))
    )
    return make().fit(X, split.y).predict_proba(X_test)


def monte_carlo(make, split, draws):
    """Average over new values with their noise added once more, as is often done."""
    rng = stream(0, "Monte Carlo")
    model, deviation = make().fit(split.X, split.y), np.sqrt(split.variance_test)
    noisy = [split.X_test + deviation * rng.standard_normal(deviation.shape) for _ in range(DRAWS)]
    return np.mean([model.predict_proba(x) for x in noisy], axis=0)


def at_true_values(make, split, draws):
    """Fit to drawn true values of the training samples, and average over those of new ones."""
    of_training, of_new = draws()
    rows = of_training.reshape(-1, split.X.shape[1])
    model = make().fit(rows, np.repeat(split.y, IMPUTATIONS))
    P = model.predict_proba(of_new.reshape(-1, split.X.shape[1]))
    return P.reshape(len(split.X_test), DRAWS, -1).mean(1)


def draw_true_values(split):
    """True values (sample, draw, feature) of training samples, given their class, and of new ones.

    p(χ | x) = Σ_c P(c | x) N(χ; m_c + K(x − m_c), Σ_c − K Σ_c) with K = Σ_c(Σ_c + S)⁻¹, over the deconvolved
    Gaussian components of the classes.
    """
    model = BayesianMDA().fit(split.X, split.y, X_cov=split.variance)
    share = dict(zip(*np.unique(split.y, return_counts=True), strict=True))
    parts = [(c.label, share[c.label] * c.share, c.mean, c.covariance) for c in model.components_]
    labels, weights, means, covariances = (np.array(part) for part in zip(*parts, strict=True))
    rng = stream(0, "true values")
    own = split.y[:, None] == labels
    draw = partial(_draw_given, np.log(weights), means, covariances, rng=rng)
    allowed = np.ones((len(split.X_test), len(labels)), dtype=bool)
    return draw(split.X, split.variance, own, IMPUTATIONS), draw(
        split.X_test, split.variance_test, allowed, DRAWS
    )


def _draw_given(log_weights, means, covariances, x, variance, allowed, n, *, rng):
    """Draws from the mixture of what each component says of the true values: (sample, draw, feature)."""
    noise = variance[:, None, :, None] * np.eye(x.shape[1])
    total = covariances + noise  # (sample, component, feature, feature)
    apart = (x[:, None] - means)[..., None]
    gain = covariances @ np.linalg.inv(total)
    square = (apart * np.linalg.solve(total, apart)).sum((-1, -2))
    log_joint = log_weights - 0.5 * square - 0.5 * np.linalg.slogdet(total)[1]
    P = softmax(np.where(allowed, log_joint, -np.inf), axis=1)
    centre, spread = means + (gain @ apart)[..., 0], covariances - gain @ covariances
    values, vectors = np.linalg.eigh(0.5 * (spread + np.swapaxes(spread, -1, -2)))
    root = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    chosen = (rng.random((len(x), n, 1)) > np.cumsum(P, axis=1)[:, None, :-1]).sum(-1)
    row = np.arange(len(x))[:, None]
    normal = rng.standard_normal((len(x), n, x.shape[1], 1))
    return centre[row, chosen] + (root[row, chosen] @ normal)[..., 0]


def methods(simulated):
    """How each method makes probabilities, by name: (what is fitted, how the noise is taken)."""
    own = OWN if simulated else {RECOMMENDED: OWN[RECOMMENDED]}
    found = {
        name + kind: (make, how)
        for name, make in own.items()
        for kind, how in (("", ignoring), (KNOWN, told))
    }
    ways = {"": ignoring, TRUE: at_true_values}
    if not simulated:
        ways |= {FEATURES: with_features, MONTE_CARLO: monte_carlo}
    others = {name: make for name, make in OTHERS.items() if not simulated or name != "gradient boosting"}
    return found | {name + kind: (make, how) for name, make in others.items() for kind, how in ways.items()}


@lru_cache(maxsize=1)
def _true_values(*cell):
    return draw_true_values(draw_noisy_split(*cell))


def one_run(problem, kind, size, repeat, name):
    """Fit one method to one split, and score its probabilities of the test samples."""
    cell = problem, kind, size, repeat
    split = draw_noisy_split(*cell)
    if name == BEST_POSSIBLE:
        predict = partial(SIMULATED[problem].known_classes, split, stream(0, "classes known", problem))
    else:
        make, how = methods(kind in NOISE)[name]
        predict = partial(how, make, split, partial(_true_values, *cell))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return timed_scores(predict, split.y_test, np.unique(split.y))


@benchmark("measured-noise")
def run(quick=False):
    """Make all runs, and compare the recommended classifier with itself and with the others."""
    simulated, measured = simulated_cells(), measured_cells()
    if quick:
        simulated, measured = simulated[:1], measured[-2:-1]
    runs = Runs(RUNS, one_run)
    tables = make_tables(runs, simulated, measured, *((2, 2) if quick else (REPEATS, REPEATS_OF_REAL)))
    return [*tables, fit_table([*simulated, *measured])]


def make_tables(runs, simulated, measured, repeats, repeats_of_real):
    """Make the runs that are not there yet, and the tables."""
    for repeat in range(max(repeats, repeats_of_real)):
        if repeat < repeats:
            runs.make_repeat(repeat, simulated, [*methods(True), BEST_POSSIBLE])
        if repeat < repeats_of_real:
            runs.make_repeat(repeat, measured, [*methods(False)])
    return tables_of(runs, simulated, measured)


def tables_of(runs, simulated, measured):
    """Tables of the cells in which every method was run at least twice."""
    tables = []
    for score in SCORES:
        tables.append(_simulated_table(runs, simulated, score))
        tables.append(_measured_table(runs, measured, score))
    return [_verdicts(tables), *tables]


def _complete(runs, cells, names):
    found = {cell: runs.complete(cell, names, REPEATS) for cell in cells}
    return {cell: repeats for cell, repeats in found.items() if len(repeats) > 1}


def _simulated_table(runs, cells, score):
    """The recommended classifier told the noise, against itself without and the best of the others."""
    names = [*methods(True), BEST_POSSIBLE]
    others, rows = [name for name in methods(True) if not name.startswith(RECOMMENDED)], []
    for cell, repeats in _complete(runs, cells, names).items():
        each = {name: runs.values(cell, name, score, repeats) for name in names}
        low, high = paired_interval(each[TOLD] - each[RECOMMENDED])
        best = min(others, key=lambda name: each[name].mean())
        ratio = float(each[TOLD].mean() / each[best].mean())
        row = [_words(cell), len(repeats), *(float(each[name].mean()) for name in (RECOMMENDED, TOLD))]
        row += [f"{low:+.4f} … {high:+.4f}", _yes(low <= 0), f"{best} {each[best].mean():.4f}", ratio]
        rows.append([*row, _yes(ratio <= WITHIN), float(each[BEST_POSSIBLE].mean())])
    columns = {"problem, noise, samples": "", "repeats": "d", "noise ignored": ".4f", "known": ".4f"}
    columns |= {"difference": "", NOT_WORSE: "", "best other": "", "ratio": ".2f", CLOSE: ""}
    caption = (
        f"{_in_words(score)} of {RECOMMENDED} on simulated problems; interval: 95 %, bootstrap of repeats"
    )
    return Table(f"simulated, {_in_words(score)}", caption, columns | {"classes known": ".4f"}, rows)


def _measured_table(runs, cells, score):
    """The recommended classifier told the noise, against the best of the others, on real tables."""
    others, rows = [name for name in methods(False) if not name.startswith(RECOMMENDED)], []
    for cell, repeats in _complete(runs, cells, [*methods(False)]).items():
        each = {name: runs.values(cell, name, score, repeats) for name in methods(False)}
        best = min(others, key=lambda name: each[name].mean())
        low, high = paired_interval(each[TOLD] - each[best])
        row = [_words(cell), len(repeats), *(float(each[name].mean()) for name in (RECOMMENDED, TOLD))]
        rows.append([*row, f"{best} {each[best].mean():.4f}", f"{low:+.4f} … {high:+.4f}", _yes(low <= 0)])
    columns = {"problem, split, samples": "", "repeats": "d", "noise ignored": ".4f", "known": ".4f"}
    columns |= {"best other": "", "difference": "", TIED: ""}
    caption = f"{_in_words(score)} of {RECOMMENDED} on real tables with standard uncertainties"
    return Table(f"real, {_in_words(score)}", caption, columns, rows)


def fit_table(cells, repeats=2):
    """Processor time of fits of the recommended classifier that know the noise, and of others."""
    rows, kinds = [], ("equal", "random")
    for cell in (cell for cell in cells if cell[1] in kinds and cell[2] > SIMULATED_SIZES[0]):
        split, seconds = draw_noisy_split(*cell, 0), {"ignored": [], "known": []}
        for _ in range(repeats):  # in turns, so that both have the same machine
            for noise, given in (("ignored", {}), ("known", {"X_cov": split.variance})):
                start = time.process_time()
                BayesianClassifier().fit(split.X, split.y, **given)
                seconds[noise].append(time.process_time() - start)
        ignored, known = (min(each) for each in seconds.values())
        rows.append([_words(cell), split.X.shape[1], ignored, known, known / ignored])
    caption = f"Seconds of processor time of a fit of {RECOMMENDED}, best of {repeats}"
    columns = {"problem, kind, samples": "", "features": "d", "noise ignored": ".2f", "known": ".2f"}
    return Table("fit", caption, columns | {"ratio": ".1f"}, rows)


NOT_WORSE, CLOSE, TIED = "not worse", "within 10 %", "lowest or tied"


def _verdicts(tables):
    """In how many cells each verdict holds."""
    rows = []
    for table in tables:
        for heading in (NOT_WORSE, CLOSE, TIED):
            if heading in table.columns:
                column = [*table.columns].index(heading)
                rows.append(
                    [table.name, heading, sum(row[column] == "yes" for row in table.rows), len(table.rows)]
                )
    return Table(
        "verdicts", "Cells in which it holds", {"table": "", "verdict": "", "cells": "d", "of": "d"}, rows
    )


def _yes(holds):
    return "yes" if holds else "no"


def _words(cell):
    return ", ".join(map(str, cell))


def _in_words(score):
    return score.replace("_", "-")


def main(arguments=None):
    """Make the runs of some problems, and show the tables of what there is."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.measured_noise", description=main.__doc__)
    parser.add_argument("--only", action="append", choices=[*{**SIMULATED, **MEASURED}], metavar="PROBLEM")
    parser.add_argument("--sizes", type=int, nargs="+", metavar="N", help="numbers of training samples")
    parser.add_argument(
        "--repeats", type=int, help=f"default: {REPEATS}, of real tables {REPEATS_OF_REAL}; 0 makes no runs"
    )
    parser.add_argument("--runs", type=Path, default=RUNS, metavar="FILE", help="where the runs are kept")
    parser.add_argument("--again", nargs="+", default=[], metavar="METHOD", help="make its runs again")
    parser.add_argument(
        "--write", action="store_true", help="write the tables of what there is to the results"
    )
    options = parser.parse_args(arguments)
    runs = Runs(options.runs, one_run)
    runs.forget(options.again)
    cells = [
        [cell for cell in of(options.only) if options.sizes is None or cell[-1] in options.sizes]
        for of in (simulated_cells, measured_cells)
    ]
    repeats = (REPEATS, REPEATS_OF_REAL) if options.repeats is None else (options.repeats, options.repeats)
    tables = make_tables(runs, *cells, *repeats)
    print("\n\n".join(table.as_text() for table in tables))
    if options.write:
        tables.append(fit_table([*cells[0], *cells[1]]))
        write_results(RESULTS, "measured-noise", tables, sum(run["seconds"] for run in runs.found.values()))


if __name__ == "__main__":
    main()
