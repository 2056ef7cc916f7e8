"""Runs of a long benchmark: each is a line of a file, so that one that was stopped goes on where it was.

Finished runs come with the project, compressed, and are read first; `python -m benchmarks.runs FILE.jsonl`
writes FILE.jsonl.xz with all that there are.
"""

import hashlib
import json
import lzma
import sys
import time
from pathlib import Path

import numpy as np

from uncover.bayes.streams import stream
from uncover.estimators.comparison import calibration_error
from uncover.metrics.scores import ScoreSums

FLOOR = 1e-6  # under the probabilities, for every model: a 0 that comes true would cost infinitely much


class Runs:
    """Results by (cell …, repeat, model), one line of a file each; the last of a run counts."""

    def __init__(self, file, compute):
        self.file, self.compute = Path(file), compute
        self.kept = self.file.with_name(self.file.name + ".xz")
        before = lzma.decompress(self.kept.read_bytes()) if self.kept.exists() else b""
        text = self.file.read_bytes() if self.file.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        if whole != text:  # stopped while it wrote a line
            self.file.write_bytes(whole)
        entries = map(json.loads, (before + whole).splitlines())
        self.found = {tuple(entry["run"]): entry for entry in entries}

    def get(self, *run):
        """Return the result of a run, computed and written down if it is not there yet."""
        if run not in self.found:
            self.put(run, self.compute(*run))
        return self.found[run]

    def put(self, run, result):
        """Write down the result of a run."""
        entry = {"run": run, **result}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        self.found[run] = entry

    def keep(self):
        """Write all runs to the compressed file."""
        lines = "".join(json.dumps(entry) + "\n" for _, entry in sorted(self.found.items(), key=str))
        self.kept.write_bytes(lzma.compress(lines.encode()))

    def make(self, cells, repeats, names):
        """Make all runs that are not there yet, repeat by repeat: any part is useful."""
        for repeat in range(repeats):
            self.make_repeat(repeat, cells, names)

    def make_repeat(self, repeat, cells, names):
        """Make the runs of one repeat that are not there yet."""
        for cell in cells:
            for name in names:
                self.get(*cell, repeat, name)

    def values(self, cell, name, score, repeats):
        """Scores of a model in one cell, of the repeats that are there: (repeat,)."""
        runs = [self.found.get((*cell, repeat, name)) for repeat in repeats]
        return np.array([run[score] for run in runs if run is not None])

    def complete(self, cell, names, most):
        """Repeats of a cell in which all models were run."""
        return [r for r in range(most) if all((*cell, r, name) in self.found for name in names)]

    def forget(self, names):
        """Make the runs of these models again."""
        self.found = {run: entry for run, entry in self.found.items() if run[-1] not in names}


def timed_scores(predict, y_test, classes):
    """Scores of the probabilities (sample, class) that a function returns, and the seconds it takes."""
    start = time.perf_counter()
    probability = predict()
    seconds = time.perf_counter() - start
    return {**scores(probability, y_test, classes), "seconds": round(seconds, 3)}


def scores(probability, y_test, classes):
    """Scores of probabilities (sample, class), to six digits after the point."""
    code = np.searchsorted(classes, y_test)
    sums = ScoreSums.of(code, probability / probability.sum(1, keepdims=True), floor=FLOOR)
    found = {
        "cross_entropy": sums.cross_entropy,
        "brier": sums.brier,
        "accuracy": np.mean(probability.argmax(1) == code),
        "calibration_error": calibration_error(code, probability),
    }
    return {name: round(float(value), 6) for name, value in found.items()}


def digest(*arrays):
    """Short name of arrays by their contents: the same split has the same."""
    found = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        found.update(f"{array.dtype.kind}{array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()[:16]


def paired_interval(difference, draws=2000, level=0.95):
    """Percentile interval of the mean of paired differences."""
    rng = stream(0, "paired")
    index = rng.integers(len(difference), size=(draws, len(difference)))
    tail = 50 * (1 - level)
    return np.percentile(difference[index].mean(1), [tail, 100 - tail])


if __name__ == "__main__":
    Runs(sys.argv[1], compute=None).keep()
