"""Class probabilities against the usual classifiers, on real data split as maps are used.

Each run (problem, number of training samples, repeat, model) is one line of a file, written when it is done:
a benchmark that was stopped goes on where it was. `python -m benchmarks.probabilities --models peers` makes
only the runs of some models, for what takes longer than one sitting.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.probability_cost import cost_table
from benchmarks.probability_models import CALIBRATED_QDA, OWN, UNCALIBRATED, fit_model, model_names
from benchmarks.probability_problems import DATA, PROBLEMS, SIZES, draw_split
from benchmarks.registry import Table, benchmark
from uncover.bayes.streams import stream
from uncover.estimators.comparison import calibration_error
from uncover.metrics.scores import ScoreSums

RUNS = Path(__file__).parent / "results" / "probabilities.jsonl"
REPEATS = 20
MISCALIBRATED = 0.05  # calibration error that calls for calibration
FLOOR = 1e-6  # under the probabilities, for every model: a 0 that comes true would cost infinitely much


def one_run(problem, size, repeat, name):
    """Fit one model to one split, and score its probabilities of the test samples."""
    split = draw_split(problem, size, repeat)
    classes = np.unique(split.y)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peers warn of collinear features and of unfinished iterations
        probability = _probability(name, split, classes)
    seconds = time.perf_counter() - start
    code = np.searchsorted(classes, split.y_test)
    sums = ScoreSums.of(code, probability / probability.sum(1, keepdims=True), floor=FLOOR)
    return {
        "cross_entropy": float(sums.cross_entropy),
        "brier": float(sums.brier),
        "accuracy": float(np.mean(probability.argmax(1) == code)),
        "calibration_error": float(calibration_error(code, probability)),
        "seconds": round(seconds, 3),
    }


def _probability(name, split, classes):
    """Probabilities of the test samples; of a peer that cannot be fitted, the shares of the classes."""
    try:
        return fit_model(name, split).predict_proba(split.X_test)
    except ValueError:  # among them LinAlgError
        if name in OWN:
            raise
        share = np.mean(split.y[:, None] == classes, axis=0)
        return np.tile(share, (len(split.X_test), 1))


class Runs:
    """Results by (problem, size, repeat, model), one line of a file each; the last of a run counts."""

    def __init__(self, file):
        self.file = Path(file)
        lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []
        self.found = {tuple(entry["run"]): entry for entry in map(json.loads, lines)}

    def get(self, *run):
        """Return the result of a run, computed and written down if it is not there yet."""
        if run not in self.found:
            entry = {"run": run, **one_run(*run)}
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
            self.found[run] = entry
        return self.found[run]


def all_runs(runs, sizes, repeats, names):
    """Results by (problem, size, model) of all repeats, computed repeat by repeat: any part is useful."""
    cells = [(problem, size) for problem in PROBLEMS for size in sizes]
    found = {(*cell, name): [] for cell in cells for name in names}
    for repeat in range(repeats):
        for *cell, name in found:
            found[(*cell, name)].append(runs.get(*cell, repeat, name))
    return found


@benchmark("probabilities")
def run(quick=False):
    """Score all models on all problems, and compare the recommended one with the best of the others."""
    _check_data()
    sizes, repeats = SIZES, 3 if quick else REPEATS
    names, cells = model_names(), [(problem, size) for problem in PROBLEMS for size in sizes]
    found = all_runs(Runs(RUNS), sizes, repeats, names)
    scores = ("cross_entropy", "brier", "calibration_error")
    tables = [_score_table(score, cells, names, found, repeats) for score in scores]
    summary = _summary_table(cells, names, found, repeats)
    return [summary, *tables, _calibration_table(cells, found), cost_table(repeats=2 if quick else 5)]


def _check_data():
    if not DATA.exists():
        raise SystemExit(f"the data sets of this benchmark are not there: {DATA}")


def main(arguments=None):
    """Make the runs of some models, and no tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.probabilities", description=main.__doc__)
    parser.add_argument("--models", choices=("all", "peers", "own"), default="all")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--runs", type=Path, default=RUNS, metavar="FILE", help="where the runs are kept")
    parser.add_argument("--again", action="store_true", help="also those that are there already")
    options = parser.parse_args(arguments)
    _check_data()
    runs, names = Runs(options.runs), model_names(options.models)
    if options.again:
        runs.found = {run: entry for run, entry in runs.found.items() if run[-1] not in names}
    all_runs(runs, SIZES, options.repeats, names)


def _values(found, cell, name, score):
    return np.array([run[score] for run in found[(*cell, name)]])


def _score_table(score, cells, names, found, repeats):
    rows = []
    for name in names:
        means = [_values(found, cell, name, score).mean() for cell in cells]
        rows.append([name, *(float(m) for m in means)])
    columns = {"model": "", **{f"{problem} {size}": ".4f" for problem, size in cells}}
    what = score.replace("_", " ")
    return Table(score, f"Mean {what} over {repeats} repeats, by problem and training samples", columns, rows)


def _summary_table(cells, names, found, repeats):
    """The recommended model against the best of the others in each cell, with intervals of the difference."""
    own, others = next(iter(OWN)), [name for name in names if name not in OWN]
    rows = []
    for cell in cells:
        row = [f"{cell[0]}, {cell[1]}"]
        for score in ("cross_entropy", "brier"):
            best = min(others, key=lambda name: _values(found, cell, name, score).mean())
            mine, its = _values(found, cell, own, score), _values(found, cell, best, score)
            low, high = paired_interval(mine - its)
            row += [f"{mine.mean():.4f}", f"{best} {its.mean():.4f}", f"{low:+.4f} … {high:+.4f}"]
        rows.append(row)
    caption = (
        f"{own} against the best of the {len(others)} others in each cell, mean over {repeats} repeats; an "
        "interval (95 %, bootstrap of the paired differences) below 0: ours is better"
    )
    headings = ("cross-entropy", "best other", "difference", "Brier", "best other ", "difference ")
    return Table("against the best", caption, dict.fromkeys(("problem, samples", *headings), ""), rows)


def _calibration_table(cells, found):
    """Calibration errors with and without calibration, where it is more than 0.05 without."""
    pairs = (("BayesianQDA (the paper's)", "BayesianClassifier"), (UNCALIBRATED, CALIBRATED_QDA))
    rows = []
    for cell in cells:
        row = [f"{cell[0]}, {cell[1]}"]
        for before, after in pairs:
            errors = [_values(found, cell, name, "calibration_error").mean() for name in (before, after)]
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


def paired_interval(difference, draws=2000, level=0.95):
    """Percentile interval of the mean of paired differences."""
    rng = stream(0, "paired")
    index = rng.integers(len(difference), size=(draws, len(difference)))
    tail = 50 * (1 - level)
    return np.percentile(difference[index].mean(1), [tail, 100 - tail])


if __name__ == "__main__":
    main()
