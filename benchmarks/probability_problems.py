"""Data sets for comparing class probabilities, split as maps are used: other places, dates and years."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from uncover.bayes.streams import stream

DATA = Path(os.environ.get("UNCOVER_DATA", Path(__file__).parents[2] / "shared" / "data"))
SIZES = (40, 80, 200, 500, 2000)
SMALL_SIZES = (20, 50, 100, 300)  # of the tables of scikit-learn
# Each class has at least this many training samples, so that calibration by folds can be tried at all.
FEWEST = 4
MOST_TESTED = 3000
CLEAR_DATES = (2, 3, 4)  # of the L1C series: date 0 is cloudy, date 1 hazy
RAREST = 100  # a class with fewer pixels than this cannot be drawn twenty times
SCENE = Path(__file__).parent / "results" / "embedded-scene.npz"  # made once
SCENE_SIZE = 600


@dataclass(frozen=True)
class Split:
    """Training and test samples of one repeat; groups are polygons, where the data have them."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray | None
    X_test: np.ndarray
    y_test: np.ndarray


@dataclass(frozen=True)
class Pool:
    """Samples to draw from: training ones and test ones never overlap."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    groups: np.ndarray | None = None
    fewest: int = FEWEST
    most_tested: int = MOST_TESTED

    def draw(self, size, rng):
        """Draw training samples, at least a few of each class, and bound the number of test samples."""
        first = [rng.permutation(np.flatnonzero(self.y == k))[: self.fewest] for k in np.unique(self.y)]
        chosen = np.concatenate(first)
        rest = rng.permutation(np.setdiff1d(np.arange(len(self.y)), chosen))
        rows = np.concatenate([chosen, rest[: max(size - len(chosen), 0)]])
        test = rng.permutation(len(self.y_test))[: self.most_tested]
        groups = None if self.groups is None else self.groups[rows]
        return Split(self.X[rows], self.y[rows], groups, self.X_test[test], self.y_test[test])


@lru_cache(maxsize=1)
def draw_split(problem, size, repeat):
    """Draw one repeat of a problem; the same arguments give the same split."""
    rng = stream(0, "probabilities", problem, size, repeat)
    return PROBLEMS[problem].pool(rng).draw(size, rng)


def amazon(rng):
    """Sentinel-2, other polygons: half of the polygons of each class train, the others test."""
    X, y, polygon = _amazon_pixels()
    train = np.zeros(len(y), dtype=bool)
    for name in np.unique(y):
        own = rng.permutation(np.unique(polygon[y == name]))
        train |= (y == name) & np.isin(polygon, own[: (len(own) + 1) // 2])
    return Pool(X[train], y[train], X[~train], y[~train], polygon[train])


def same_polygons(rng):
    """Sentinel-2, a random split: pixels of the same polygons train and test."""
    X, y, _ = _amazon_pixels()
    return _at_random(rng, X, y)


def _amazon_pixels():
    """Values, classes and polygons of the labelled pixels."""
    table = np.genfromtxt(
        DATA / "sen2_amazon" / "pixels_sen2.csv", delimiter=",", skip_header=1, dtype=str, encoding="utf-8"
    )
    polygon, X, y = table[:, 0].astype(int), table[:, 1:13].astype(float), np.char.strip(table[:, 13], '"')
    return X, y, polygon


def _at_random(rng, X, y, share=0.5, fewest=FEWEST):
    """A random split, the first part for training."""
    train, test = np.split(rng.permutation(len(y)), [round(share * len(y))])
    return Pool(X[train], y[train], X[test], y[test], fewest=fewest)


def other_date(rng):
    """Sentinel-2 top of atmosphere: one date trains, other pixels of another date test."""
    return _dates(rng, *rng.permutation(CLEAR_DATES)[:2])


def same_date(rng):
    """Sentinel-2 top of atmosphere: other pixels of the same date test."""
    date = rng.permutation(CLEAR_DATES)[0]
    return _dates(rng, date, date)


def _dates(rng, before, after):
    folder = DATA / "s2_l1c_reference"
    series, label = np.load(folder / "l1c_reflectance.npy"), np.load(folder / "lulc.npy").ravel()
    codes, counts = np.unique(label, return_counts=True)
    used = np.isin(label, codes[(counts >= RAREST) & (codes > 0)])
    half = rng.permutation(np.flatnonzero(used))
    train, test = np.array_split(half, 2)
    X = series.reshape(len(series), -1, series.shape[-1]).astype(float)
    return Pool(X[before][train], label[train], X[after][test], label[test])


def statlog(rng):
    """Landsat, 36 features: a random half trains, the other tests."""
    table = np.genfromtxt(DATA / "statlog" / "Satellite.csv.gz", delimiter=",", skip_header=1, dtype=str)
    X, y = table[:, :36].astype(float), np.char.strip(table[:, -1], '"')
    return _at_random(rng, X, y)


def sklearn_table(load, fewest=FEWEST):
    """A table of scikit-learn: a random two thirds train, the others test."""

    def pool(rng):
        X, y = load(return_X_y=True)
        return _at_random(rng, X, y, 2 / 3, fewest)

    return pool


def other_year(rng):
    """The embedded scene: one year trains, other pixels of another test.

    Each year is corrected with one draw of its uncertain optical depth; labels are those that
    `uncover labels` makes of the land cover maps of earlier years.
    """
    values, label = _embedded_scene()
    before, after = rng.permutation(len(values))[:2]
    train, test = np.array_split(rng.permutation(len(label)), 2)
    return Pool(values[before][train], label[train], values[after][test], label[test])


@lru_cache(maxsize=1)
def _embedded_scene():
    """Pixels of each year, (year, pixel, band), and their classes."""
    if not SCENE.exists():
        from uncover.studies.landcover_data import embedded_scene

        data = embedded_scene(SCENE_SIZE, draws=1, seed=0)
        SCENE.parent.mkdir(parents=True, exist_ok=True)
        values = np.stack([of_year[:, 0] for of_year in data.values])
        np.savez_compressed(SCENE, values=values, label=np.array(data.classes)[data.codes])
    with np.load(SCENE) as kept:
        return kept["values"].astype(float), kept["label"]


@dataclass(frozen=True)
class Problem:
    """A data set that can be split, and the numbers of training samples that are tried."""

    pool: Callable[[np.random.Generator], Pool]
    sizes: tuple[int, ...] = SIZES
    folder: str | None = None  # of DATA, where it is read from one


PROBLEMS = {
    "amazon": Problem(amazon, folder="sen2_amazon"),
    "other date": Problem(other_date, folder="s2_l1c_reference"),
    "statlog": Problem(statlog, folder="statlog"),
    "other year": Problem(other_year),
    "same polygons": Problem(same_polygons, (200,), "sen2_amazon"),
    "same date": Problem(same_date, (200,), "s2_l1c_reference"),
    "iris": Problem(sklearn_table(load_iris), SMALL_SIZES[:3]),
    "wine": Problem(sklearn_table(load_wine), SMALL_SIZES[:3]),
    "digits": Problem(sklearn_table(load_digits, fewest=2), SMALL_SIZES),
    "breast cancer": Problem(sklearn_table(load_breast_cancer), SMALL_SIZES),
}


def cells_of(problems, only=None):
    """(problem, size) of the problems whose data are here; says which are not."""
    found = []
    for name, problem in problems.items():
        if problem.folder is not None and not (DATA / problem.folder).exists():
            print(f"{name} is left out: no {DATA / problem.folder}; UNCOVER_DATA names another folder")
        elif only is None or name in only:
            found += [(name, size) for size in problem.sizes]
    return found
