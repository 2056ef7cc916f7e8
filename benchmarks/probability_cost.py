"""What better probabilities cost: seconds of fitting and predicting, against QDA and a random forest."""

import time

import numpy as np
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier

import uncover
from benchmarks.registry import Table
from uncover.bayes.streams import stream

SAMPLES, FEATURES, CLASSES = 10_000, 10, 4
# Each with what it is measured against, and how many times as long it may take.
PAIRS = (
    (
        'BayesianQDA("evidence", "loo")',
        lambda: uncover.BayesianQDA(prior="evidence", calibration="loo"),
        "QDA",
        QuadraticDiscriminantAnalysis,
        5,
    ),
    (
        "BayesianClassifier",
        uncover.BayesianClassifier,
        "random forest of 100 trees",
        lambda: RandomForestClassifier(100, random_state=0),
        1,
    ),
)


def cost_table(repeats=5):
    """Time the models on skewed classes of positive values, which leave no member of the default out."""
    rng = stream(0, "cost of probabilities")
    y = np.arange(SAMPLES) % CLASSES
    X = np.exp(0.3 * (rng.normal(size=(SAMPLES, FEATURES)) * (1 + 0.3 * y[:, None]) + 0.5 * y[:, None]))
    rows = []
    for name, make, peer, make_peer, allowed in PAIRS:
        ours, its = [], []
        for _ in range(repeats):  # in turns, so that both have the same machine
            its.append(_seconds(make_peer(), X, y))
            ours.append(_seconds(make(), X, y))
        rows.append([name, min(ours), f"{peer} {min(its):.4f}", min(ours) / min(its), f"{allowed}"])
    caption = (
        f"Seconds of fit and predict_proba of {SAMPLES:,} samples, {FEATURES} features, {CLASSES} classes: "
        f"best of {repeats}"
    )
    columns = {"model": "", "seconds": ".4f", "against": "", "ratio": ".2f", "at most": ""}
    return Table("cost", caption, columns, rows)


def _seconds(model, X, y):
    start = time.perf_counter()
    model.fit(X, y).predict_proba(X)
    return time.perf_counter() - start


if __name__ == "__main__":
    print(cost_table().as_text())
