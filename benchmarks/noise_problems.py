"""Problems with known noise: simulated classes, and real tables whose values have standard uncertainties."""

import csv
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import logsumexp
from scipy.stats import rankdata
from sklearn.datasets import load_breast_cancer

from benchmarks.probability_problems import DATA, Pool, cells_of
from uncover.bayes.streams import stream

SIMULATED_SIZES, N_TEST = (100, 400), 1000
# Standard uncertainty of training and test samples, in units of the problem's; None: of each value its own.
NOISE = {
    "equal": (1.0, 1.0),
    "lower in test": (1.0, 1 / 3),
    "higher in test": (1.0, 2.0),
    "heteroscedastic": (None, None),
}
TRUE_VALUES = 10_000  # of each class, which stand for its distribution
MOSTLY_POSITIVE = (
    0.999  # share of the values of a feature that has logarithms; samples of the others are dropped
)


@dataclass(frozen=True)
class NoisySplit:
    """Training and test samples of one repeat, with the variances of their errors (sample, feature)."""

    X: np.ndarray
    y: np.ndarray
    variance: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    variance_test: np.ndarray


@dataclass(frozen=True)
class Simulated:
    """Classes whose true values can be drawn: ``draw(rng, y)`` has the shape (sample, feature)."""

    draw: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    deviation: float  # standard uncertainty of a feature
    classes: int = 2
    independent: bool = False  # features, within a class

    def split(self, noise, size, rng):
        """Training and test samples, the classes in equal shares."""
        parts = [self._measure(rng, n, of) for n, of in zip((size, N_TEST), NOISE[noise], strict=True)]
        return NoisySplit(*parts[0], *parts[1])

    def _measure(self, rng, n, factor):
        """Values, classes and variances of n samples."""
        y = np.arange(n) % self.classes
        truth = self.draw(rng, y)
        sizes = np.exp(rng.uniform(np.log(0.2), np.log(2.0), truth.shape)) if factor is None else factor
        deviation = np.broadcast_to(self.deviation * sizes, truth.shape)
        return truth + deviation * rng.standard_normal(truth.shape), y, deviation**2

    def known_classes(self, split, rng):
        """Probabilities of the test samples by the true distributions: (sample, class).

        p(x | k) is the mean of N(x; χ, S) over many true values χ of the class, feature by feature where they
        are independent.
        """
        log_density = []
        for k in range(self.classes):
            truth = self.draw(rng, np.full(TRUE_VALUES, k))
            log_density.append(np.concatenate([self._log_density(*one, truth) for one in _in_parts(split)]))
        joint = np.stack(log_density, axis=1)
        return np.exp(joint - logsumexp(joint, axis=1, keepdims=True))

    def _log_density(self, x, variance, truth):
        """log p(x | k) up to a constant, from true values of the class: (sample,)."""
        each = -0.5 * (x[:, None] - truth) ** 2 / variance[:, None]  # (sample, true value, feature)
        if self.independent:
            return logsumexp(each, axis=1).sum(-1)
        return logsumexp(each.sum(-1), axis=1)


def _in_parts(split, rows=100):
    cuts = range(rows, len(split.X_test), rows)
    return zip(np.split(split.X_test, cuts), np.split(split.variance_test, cuts), strict=True)


def moons(rng, y):
    """Two half circles, one inside the other."""
    angle = rng.uniform(0.0, np.pi, len(y))
    upper = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.where(y[:, None] == 0, upper, [1.0, 0.5] - upper) + 0.1 * rng.standard_normal((len(y), 2))


def rings(rng, y):
    """Two circles around one point."""
    angle, radius = rng.uniform(0.0, 2 * np.pi, len(y)), 1.0 + y + 0.15 * rng.standard_normal(len(y))
    return radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def skewed(rng, y):
    """Log-normal values."""
    return np.exp(0.7 * rng.standard_normal((len(y), 3)) + 0.6 * y[:, None])


def heavy_tails(rng, y):
    """Student t of two degrees of freedom."""
    return rng.standard_t(2, (len(y), 3)) + 1.5 * y[:, None]


def bimodal(rng, y):
    """One class on both sides of the other."""
    centre = np.where(y == 0, rng.choice([-2.0, 2.0], len(y)), 0.0)
    return np.stack([centre, np.zeros(len(y))], axis=1) + 0.5 * rng.standard_normal((len(y), 2))


def gaussian(rng, y):
    """Gaussian classes of different covariances."""
    mean = np.array([[0.0, 0.0, 0.0], [1.5, 0.5, 0.0], [0.5, -1.0, 1.5]])[y]
    root = np.array(
        [np.eye(3), [[1, 0, 0], [0.8, 0.6, 0], [0, 0, 0.5]], [[0.5, 0, 0], [0, 1, 0], [0, -0.7, 0.7]]]
    )[y]
    return mean + np.einsum("nij,nj->ni", root, rng.standard_normal((len(y), 3)))


SIMULATED = {
    "moons": Simulated(moons, 0.3),
    "rings": Simulated(rings, 0.3),
    "skewed": Simulated(skewed, 0.7, independent=True),
    "heavy tails": Simulated(heavy_tails, 1.0, independent=True),
    "bimodal": Simulated(bimodal, 0.6),
    "Gaussian": Simulated(gaussian, 0.6, classes=3),
}


@dataclass(frozen=True)
class Measured:
    """A table with standard uncertainties: ``load()`` returns values, uncertainties and classes."""

    load: Callable[[], tuple[np.ndarray, np.ndarray, np.ndarray]]
    sizes: tuple[int, ...]
    folder: str | None = None

    def split(self, how, size, rng):
        """Two thirds train, at random or those of the smallest uncertainties, and the others test."""
        X, deviation, y = self.load()
        order = rng.permutation(len(y))
        if how == "low to high noise":
            order = order[np.argsort(rankdata(deviation, axis=0).mean(1)[order], kind="stable")]
        train, test = np.split(order, [round(2 * len(y) / 3)])
        both = np.concatenate([X, deviation**2], axis=1)
        drawn = Pool(both[train], y[train], both[test], y[test], most_tested=N_TEST).draw(size, rng)
        (X, variance), (X_test, of_test) = (np.split(part, 2, axis=1) for part in (drawn.X, drawn.X_test))
        return NoisySplit(X, drawn.y, variance, X_test, drawn.y_test, of_test)


def in_logarithms(X, deviation, y):
    """Positive features and their uncertainties on the logarithmic scale, to first order."""
    positive = (X > 0).mean(0) >= MOSTLY_POSITIVE
    whole = (X[:, positive] > 0).all(1)
    X, deviation, y = X[whole], deviation[whole], y[whole]
    unit = np.where(positive, X, 1.0)
    return np.where(positive, np.log(np.where(positive, X, 1.0)), X), deviation / unit, y


@lru_cache(maxsize=1)
def kepler():
    """Kepler objects of interest: quantities with errors, made symmetric; objects without are left out."""
    with gzip.open(DATA / "kepler_koi" / "cumulative.csv.gz", "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    names = [name.removesuffix("_err1") for name in rows[0] if name.endswith("_err1")]
    columns = [[name + part for name in names] for part in ("", "_err1", "_err2")]
    value, above, below = (
        np.array([[float(row[name] or "nan") for name in part] for row in rows]) for part in columns
    )
    deviation = 0.5 * (np.abs(above) + np.abs(below))
    given = np.isfinite(deviation).any(0)
    value, deviation = value[:, given], deviation[:, given]
    whole = np.isfinite(value + deviation).all(1)
    label = np.array([row["koi_disposition"] for row in rows])
    return in_logarithms(value[whole], deviation[whole], label[whole])


@lru_cache(maxsize=1)
def breast_cancer():
    """Ten means over the cells of a sample, with their standard errors."""
    X, y = load_breast_cancer(return_X_y=True)
    return in_logarithms(X[:, :10], X[:, 10:20], y)


MEASURED = {
    "Kepler": Measured(kepler, (100, 300, 1000, 6000), "kepler_koi"),
    "breast cancer": Measured(breast_cancer, (100, 300)),
}
SPLITS = ("random", "low to high noise")


@lru_cache(maxsize=1)
def draw_noisy_split(problem, kind, size, repeat):
    """Draw one repeat of a problem; the same arguments give the same split."""
    of = SIMULATED if kind in NOISE else MEASURED
    return of[problem].split(kind, size, stream(0, "known noise", problem, kind, size, repeat))


def simulated_cells(only=None):
    """(problem, noise, size) of the simulated problems."""
    chosen = [name for name in SIMULATED if only is None or name in only]
    return [(name, noise, size) for name in chosen for noise in NOISE for size in SIMULATED_SIZES]


def measured_cells(only=None):
    """(problem, split, size) of the real tables that are here."""
    return [(name, how, size) for name, size in cells_of(MEASURED, only) for how in SPLITS]
