"""Compile the machine code of the fast path once, so that test processes side by side load it from the cache.

`make test` runs it for float32 and for float64. Whatever is missing here is compiled by the first test that
needs it.
"""

import sys

import numpy as np

from uncover import BayesianMDA, BayesianQDA
from uncover.measurement.summary import Summariser

N, R, P = 60_000, 2, 10


def main(dtype):
    """Ask plain and mixed class models for probabilities and for layers of a map, in one precision."""
    rng = np.random.default_rng(0)
    y = np.arange(600) % 3
    train = rng.normal(size=(600, R, P)) + 3.0 * y[:, None, None]
    train[::2] += 8.0  # classes of two parts
    for model in (BayesianQDA().fit(train, y), BayesianMDA().fit(train, y)):
        X = rng.normal(size=(N, R, P)).astype(dtype)
        model.predict_proba(X)
        Summariser(model).summarise(np.ascontiguousarray(np.moveaxis(X, 0, 2)))
    BayesianQDA().fit(rng.normal(size=(1 << 17, P)).astype(dtype), np.arange(1 << 17) % 3)


if __name__ == "__main__":
    main(sys.argv[1])
