"""Rivals by command: classifiers of another environment, which read a split and write probabilities.

`--rival NAME=COMMAND`: the command is run as `COMMAND IN.npz OUT.npy`. IN.npz has X_train (sample, feature),
y_train (sample,) as numbers 0 … K−1, and X_test; OUT.npy gets the probabilities (test sample, class). Scores
are kept with a digest of the split, and are computed again only where the split has changed.
"""

import shlex
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.registry import RESULTS
from benchmarks.runs import Runs, digest, timed_scores

RIVALS = RESULTS / "rivals.jsonl"  # kept with the project: who repeats the benchmark may not have the rivals


def parse_rival(text):
    """Name and command of NAME=COMMAND."""
    name, separator, command = text.partition("=")
    if not (separator and name and command):
        raise ValueError(f"a rival is NAME=COMMAND, got {text!r}")
    return name, command


def predict_by_command(command, split):
    """Probabilities of the test samples by another program: (sample, class)."""
    classes, codes = np.unique(split.y, return_inverse=True)
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder) / "in.npz", Path(folder) / "out.npy"
        np.savez(given, X_train=split.X, y_train=codes, X_test=split.X_test)
        done = subprocess.run([*shlex.split(command), given, answer], capture_output=True, text=True)
        if done.returncode != 0 or not answer.exists():
            raise RuntimeError(f"{command} failed ({done.returncode}): {done.stderr[-500:]}")
        probability = np.load(answer)
    expected = (len(split.X_test), len(classes))
    if probability.shape != expected or not np.isfinite(probability).all():
        raise RuntimeError(f"{command} wrote an array {probability.shape}; {expected} finite ones are needed")
    return probability


def split_digest(split):
    """Digest of a split; classes count by their numbers."""
    return digest(split.X, np.unique(split.y, return_inverse=True)[1], split.X_test)


def rival_runs(file=RIVALS):
    """What is kept of rivals; nothing is computed."""
    return Runs(file, compute=None)


def run_rival(runs, name, command, cells, repeats, draw_split):
    """Score a rival in cells (problem, size): what is there, of the same split, is kept."""
    for repeat in range(repeats):
        for cell in cells:
            split, run = draw_split(*cell, repeat), (*cell, repeat, name)
            key = split_digest(split)
            if runs.found.get(run, {}).get("split") == key:
                continue
            ask = lambda split=split: predict_by_command(command, split)  # noqa: E731
            runs.put(run, {**timed_scores(ask, split.y_test, np.unique(split.y)), "split": key})
