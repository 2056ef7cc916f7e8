"""Class probabilities against the usual classifiers, on real data split as maps are used.

Each run (problem, number of training samples, repeat, model) is one line of a file, written when it is done:
a benchmark that was stopped goes on where it was.
"""

import json
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.probability_models import make_model
from benchmarks.probability_problems import draw_split
from uncover.metrics.scores import ScoreSums

RUNS = Path(__file__).parent / "results" / "probabilities.jsonl"
REPEATS = 20
FLOOR = 1e-6  # under the probabilities, for every model: a 0 that comes true would cost infinitely much


def one_run(problem, size, repeat, name):
    """Fit one model to one split, and score its probabilities of the test samples."""
    split = draw_split(problem, size, repeat)
    classes = np.unique(split.y)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peers warn of collinear features and of unfinished iterations
        probability = make_model(name, split.y).fit(split.X, split.y).predict_proba(split.X_test)
    seconds = time.perf_counter() - start
    code = np.searchsorted(classes, split.y_test)
    sums = ScoreSums.of(code, probability / probability.sum(1, keepdims=True), floor=FLOOR)
    return {
        "cross_entropy": float(sums.cross_entropy),
        "brier": float(sums.brier),
        "accuracy": float(np.mean(probability.argmax(1) == code)),
        "calibration_error": float(top_calibration_error(code, probability)),
        "seconds": round(seconds, 3),
    }


def top_calibration_error(code, probability, bins=15):
    """Mean difference of confidence and accuracy over bins of equally many samples."""
    sure, right = probability.max(1), probability.argmax(1) == code
    parts = np.array_split(np.argsort(sure, kind="stable"), bins)
    return sum(abs(sure[part].mean() - right[part].mean()) * len(part) for part in parts) / len(code)


class Runs:
    """Results by (problem, size, repeat, model), kept in a file of one line each."""

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
