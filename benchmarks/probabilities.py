"""Class probabilities against the usual classifiers, on real data split as maps are used.

Each run (problem, number of training samples, repeat, model) is one line of a file, written when it is done:
a benchmark that was stopped goes on where it was. `python -m benchmarks.probabilities --models peers` makes
only the runs of some models, for what takes longer than one sitting; `--rival NAME=COMMAND` those of a
classifier that has an environment of its own (`benchmarks.rivals`).
"""

import argparse
import warnings
from pathlib import Path

import numpy as np

from benchmarks.probability_cost import cost_table, map_table
from benchmarks.probability_models import CALIBRATED_QDA, OWN, UNCALIBRATED, fit_model, model_names
from benchmarks.probability_problems import PROBLEMS, cells_of, draw_split
from benchmarks.registry import RESULTS, Table, benchmark, renew_results
from benchmarks.rivals import parse_rival, rival_runs, run_rival, split_digest
from benchmarks.runs import Runs, paired_interval, timed_scores

RUNS = RESULTS / "probabilities.jsonl"
REPEATS = 20
MISCALIBRATED = 0.05  # calibration error that calls for calibration
RECOMMENDED = next(iter(OWN))


def one_run(problem, size, repeat, name):
    """Fit one model to one split, and score its probabilities of the test samples."""
    split = draw_split(problem, size, repeat)
    classes = np.unique(split.y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peers warn of collinear features and of unfinished iterations
        return timed_scores(lambda: _probability(name, split, classes), split.y_test, classes)


def _probability(name, split, classes):
    """Probabilities of the test samples; of a peer that cannot be fitted, the shares of the classes."""
    try:
        return fit_model(name, split).predict_proba(split.X_test)
    except ValueError:  # among them LinAlgError
        if name in OWN:
            raise
        share = np.mean(split.y[:, None] == classes, axis=0)
        return np.tile(share, (len(split.X_test), 1))


@benchmark("probabilities")
def run(quick=False):
    """Score all models on all problems, and compare the recommended one with the best of the others."""
    repeats, names = 2 if quick else REPEATS, model_names()
    cells = cells_of(PROBLEMS, ["iris"])[:1] if quick else cells_of(PROBLEMS)
    runs = Runs(RUNS, one_run)
    runs.make(cells, repeats, names)
    tables = tables_of(runs, cells, names, repeats)
    size = {"pixels": 4_096, "repeats": 1} if quick else {}
    return [*tables, cost_table(repeats=2 if quick else 5), map_table(**size)]


def tables_of(runs, cells, names, repeats):
    """All tables, of the cells in which every model was run at least twice."""
    kept = {cell: runs.complete(cell, names, repeats) for cell in cells}
    kept = {cell: found for cell, found in kept.items() if len(found) > 1}
    means = [
        _score_table(runs, kept, names, score) for score in ("cross_entropy", "brier", "calibration_error")
    ]
    rivals = _rival_table(runs, rival_runs(), cells, repeats)
    return [_summary_table(runs, kept, names), rivals, *means, _calibration_table(runs, kept)]


def main(arguments=None):
    """Make the runs of some models in some problems, and show how they compare in what there is."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.probabilities", description=main.__doc__)
    parser.add_argument("--models", default="all", help="all, peers, own, or the name of one (default: all)")
    parser.add_argument("--only", action="append", choices=[*PROBLEMS], metavar="PROBLEM")
    parser.add_argument("--sizes", type=int, nargs="+", metavar="N", help="numbers of training samples")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="0 makes no runs (default: %(default)s)")
    parser.add_argument("--runs", type=Path, default=RUNS, metavar="FILE", help="where the runs are kept")
    parser.add_argument("--again", action="store_true", help="also those that are there already")
    parser.add_argument("--rival", type=parse_rival, action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--write", action="store_true", help="renew the tables that there are runs for")
    options = parser.parse_args(arguments)
    try:
        names = model_names(options.models)
    except ValueError as error:
        parser.error(str(error))
    runs, cells = Runs(options.runs, one_run), cells_of(PROBLEMS, options.only)
    cells = [cell for cell in cells if options.sizes is None or cell[1] in options.sizes]
    if options.again:
        runs.forget(names)
    runs.make(cells, options.repeats, names)
    for name, command in options.rival:
        run_rival(rival_runs(), name, command, cells, options.repeats, draw_split)
    tables = tables_of(runs, cells, model_names(), options.repeats or REPEATS)
    for table in tables[:2]:
        print(table.as_text() + "\n")
    if options.write:
        renew_results(RESULTS, "probabilities", [table for table in tables if table.rows])


def _score_table(runs, kept, names, score):
    rows = []
    for cell, repeats in kept.items():
        means = [float(runs.values(cell, name, score, repeats).mean()) for name in names]
        rows.append([f"{cell[0]}, {cell[1]}", *means])
    columns = {"problem, samples": "", **dict.fromkeys(names, ".4f")}
    caption = f"Mean {score.replace('_', ' ')} over {_counts(kept)} repeats, by problem and training samples"
    return Table(score, caption, columns, rows)


def _counts(kept):
    """Numbers of repeats, in words."""
    counts = sorted({len(repeats) for repeats in kept.values()})
    return str(counts[0]) if len(counts) == 1 else f"{min(counts, default=0)} to {max(counts, default=0)}"


def _summary_table(runs, kept, names):
    """The recommended model against the best of the others in each cell, with intervals of the difference."""
    others = [name for name in names if name not in OWN]
    rows = []
    for cell, repeats in kept.items():
        row = [f"{cell[0]}, {cell[1]}"]
        for score in ("cross_entropy", "brier"):
            best = min(others, key=lambda name: runs.values(cell, name, score, repeats).mean())
            row += _against(*(runs.values(cell, name, score, repeats) for name in (RECOMMENDED, best)), best)
        rows.append(row)
    caption = (
        f"{RECOMMENDED} against the best of the {len(others)} others in each cell, mean over {_counts(kept)} "
        "repeats; an interval (95 %, bootstrap of the paired differences) below 0: ours is better"
    )
    headings = ("cross-entropy", "best other", "difference", "Brier", "best other ", "difference ")
    return Table("against the best", caption, dict.fromkeys(("problem, samples", *headings), ""), rows)


def _against(mine, its, name):
    """Our mean, that of another, and the interval of the difference."""
    low, high = paired_interval(mine - its)
    return [f"{mine.mean():.4f}", f"{name} {its.mean():.4f}".lstrip(), f"{low:+.4f} … {high:+.4f}"]


def _rival_table(runs, rivals, cells, repeats):
    """The recommended model against each rival by command, on the splits that both have seen."""
    rows = []
    for name in sorted({run[-1] for run in rivals.found}):
        for cell in cells:
            both = [r for r in range(repeats) if _same_split(runs, rivals, cell, r, name)]
            if len(both) < 2:
                continue
            row = [name, f"{cell[0]}, {cell[1]}", len(both)]
            for score in ("cross_entropy", "brier"):
                pair = (runs.values(cell, RECOMMENDED, score, both), rivals.values(cell, name, score, both))
                row += _against(*pair, "")
            rows.append(row)
    headings = ("cross-entropy", "rival's", "difference", "Brier", "rival's ", "difference ")
    columns = {"rival": "", "problem, samples": "", "repeats": "d", **dict.fromkeys(headings, "")}
    caption = f"{RECOMMENDED} against rivals by command; an interval below 0: ours is better"
    return Table("against rivals", caption, columns, rows)


def _same_split(runs, rivals, cell, repeat, name):
    """True where both were run, and the rival's split is the one that is drawn now."""
    if (*cell, repeat, RECOMMENDED) not in runs.found or (*cell, repeat, name) not in rivals.found:
        return False
    return rivals.found[(*cell, repeat, name)]["split"] == split_digest(draw_split(*cell, repeat))


def _calibration_table(runs, kept):
    """Calibration errors with and without calibration, where it is more than 0.05 without."""
    pairs = (("BayesianQDA (the paper's)", RECOMMENDED), (UNCALIBRATED, CALIBRATED_QDA))
    rows = []
    for cell, repeats in kept.items():
        row = [f"{cell[0]}, {cell[1]}"]
        for pair in pairs:
            errors = [float(runs.values(cell, name, "calibration_error", repeats).mean()) for name in pair]
            row += [*errors, errors[1] / errors[0] if errors[0] > MISCALIBRATED else "–"]
        rows.append(row)
    caption = (
        "Calibration error of the published model and of BayesianClassifier, and of "
        'BayesianQDA(prior="evidence") without and with calibration="loo"; ratios where the first of the two '
        f"is above {MISCALIBRATED}"
    )
    columns = {"problem, samples": ""}
    for what in ("", " "):
        columns |= {f"before{what}": ".4f", f"after{what}": ".4f", f"ratio{what}": ".2f"}
    return Table("calibration", caption, columns, rows)


if __name__ == "__main__":
    main()
