"""The synthetic study: classifiers on Gaussian classes measured with more and more noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.metrics import f1_score

from uncover.bayes.streams import stream
from uncover.estimators.discriminant import BayesianQDA
from uncover.studies.cells import Result, extended
from uncover.studies.claims import Finding
from uncover.studies.claims_synthetic import synthetic_findings
from uncover.studies.models import PAPER, cell_groups, study_facts, study_models
from uncover.studies.protocol import BootstrapPlan, CellOfModels, Split, assess, cpu_seconds
from uncover.studies.tables import Tables, cost_rows, frame, score_rows, training_row

Array = NDArray[np.float64]

_MOST_DRAWS = 500
#: A problem is kept where the F₁ score without noise is at least this.
LEAST_F1 = 0.9


@dataclass(frozen=True)
class SyntheticProblem:
    """Gaussian classes with known parameters, and true values drawn from them."""

    mean: Array  # (class, feature)
    covariance: Array  # (class, feature, feature)
    X: Array  # (sample, feature), true values
    y: NDArray[np.int64]  # (sample,)
    train: NDArray[np.bool_]  # (sample,), the 80 % that are for training


def draw_problem(
    n_features: int,
    rng: np.random.Generator,
    *,
    n_classes: int = 4,
    n_per_class: int = 1000,
    correlated: bool = True,
) -> SyntheticProblem:
    """Draw a problem as in the paper, until its classes overlap as little as the paper asks.

    Means are N(0, 1), times p² for p = 2 and over 2 for p = 50; Σ_k = A_kA_kᵀ/p with A_k of N(0, 1). A
    problem is kept when the F₁ score of BayesianQDA on the test split, without noise, is in 0.9 … 1.

    >>> problem = draw_problem(2, np.random.default_rng(0), n_per_class=50)
    >>> problem.X.shape, int(problem.train.sum())
    ((200, 2), 160)
    """
    for _ in range(_MOST_DRAWS):
        problem = _draw_once(n_features, rng, n_classes, n_per_class, correlated)
        clf = BayesianQDA().fit(problem.X[problem.train], problem.y[problem.train])
        predicted = clf.predict(problem.X[~problem.train])
        if f1_score(problem.y[~problem.train], predicted, average="macro") >= LEAST_F1:
            return problem
    raise ValueError(
        f"in {_MOST_DRAWS} draws no problem of {n_features} features had an F₁ of {LEAST_F1:g}; "
        f"{n_per_class} points of each class are too few to learn so many parameters, give more."
    )


def _draw_once(
    p: int, rng: np.random.Generator, n_classes: int, n_per_class: int, correlated: bool
) -> SyntheticProblem:
    spread = {2: float(p**2), 50: 0.5}.get(p, 1.0)
    mean = spread * rng.standard_normal((n_classes, p))
    a = rng.standard_normal((n_classes, p, p))
    covariance = a @ np.swapaxes(a, -1, -2) / p
    if not correlated:
        covariance = covariance * np.eye(p)
    root = np.linalg.cholesky(covariance)
    normal = rng.standard_normal((n_classes, n_per_class, p))
    X = (mean[:, None, :] + normal @ np.swapaxes(root, -1, -2)).reshape(-1, p)
    y = np.repeat(np.arange(n_classes), n_per_class)
    train = np.zeros(len(y), dtype=bool)
    train[rng.permutation(len(y))[: round(0.8 * len(y))]] = True
    return SyntheticProblem(mean, covariance, X, y, train)


def measure(
    X: Array, noise: float, n_realisations: int, rng: np.random.Generator, *, kind: str = "gaussian"
) -> Array:
    """Return independent measurements (sample, realisation, feature) of true values (sample, feature).

    `noise` is the standard deviation σ, the same for every feature: N(0, σ²), or uniform on ±√3σ.

    >>> measure(np.zeros((4, 2)), 0.1, 3, np.random.default_rng(0)).shape
    (4, 3, 2)
    """
    shape = (len(X), n_realisations, X.shape[1])
    if kind == "gaussian":
        return X[:, None, :] + noise * rng.standard_normal(shape)
    if kind == "uniform":
        half = np.sqrt(3.0) * noise
        return X[:, None, :] + rng.uniform(-half, half, shape)
    raise ValueError(f'kind must be "gaussian" or "uniform", got {kind!r}.')


N_CLASSES = 4
SHARES = np.full(N_CLASSES, 1 / N_CLASSES)
#: Columns that say which cell a row comes from.
WHERE = ("p", "covariance", "kind", "noise", "data_set")

#: Extra rows that all scales but the paper's leave out where there are many features.
COSTLY = ("BQDA draws", "GB pooled")

_PROBED_POINTS = (150, 300)
_TENTHS = tuple(round(0.1 * i, 1) for i in range(1, 11))


@dataclass(frozen=True)
class SyntheticScale:
    """Amount of the study that is computed."""

    data_sets: Mapping[int, int]  # by the number of features
    noises: tuple[float, ...]  # factors σ
    noises_without_covariance: tuple[float, ...]  # between variables
    kinds: tuple[str, ...] = ("gaussian", "uniform")
    kinds_without_covariance: tuple[str, ...] = ("gaussian",)
    points: int = 1000  # of each class
    realisations: int = 100  # of each point
    costly_up_to: int = 10  # most features for our models whose cost grows fastest with them (`COSTLY`)

    def variants(self) -> Iterator[tuple[int, bool, str, float, int]]:
        """Number of features, with covariance or not, kind of noise, its factor, number of the data set.

        Data set by data set, so that what is computed of an unfinished study is whole data sets.
        """
        both = (
            (True, self.kinds, self.noises),
            (False, self.kinds_without_covariance, self.noises_without_covariance),
        )
        for data_set in range(max(self.data_sets.values())):
            for p in [p for p, n_sets in self.data_sets.items() if data_set < n_sets]:
                for covariance, kinds, noises in both:
                    for kind in kinds:
                        yield from ((p, covariance, kind, noise, data_set) for noise in noises)

    def first(self, data_sets: int | None) -> SyntheticScale:
        """The same with so many data sets at most."""
        if data_sets is None:
            return self
        return replace(self, data_sets={p: min(n, data_sets) for p, n in self.data_sets.items()})


SCALES = {
    "quick": SyntheticScale(
        dict.fromkeys((2, 10, 50), 3), (0.2, 0.6, 1.0), (0.6,), points=250, realisations=6
    ),
    "standard": SyntheticScale({2: 30, 10: 30, 50: 3}, (0.2, 0.6, 1.0), (0.6,), realisations=25),
    "paper": SyntheticScale(
        {2: 60, 10: 30, 50: 30},
        _TENTHS,
        _TENTHS,
        kinds_without_covariance=("gaussian", "uniform"),
        costly_up_to=50,
    ),
}


@dataclass(frozen=True)
class SyntheticCell(CellOfModels):
    """Some models on one data set with one noise."""

    p: int
    covariance: bool
    kind: str
    noise: float
    data_set: int
    models: tuple[str, ...]
    points: int = 1000
    realisations: int = 100
    seed: int = 0

    @property
    def where(self) -> dict[str, Any]:
        """The columns of its rows that say where they come from."""
        return {name: getattr(self, name) for name in WHERE}

    @property
    def key(self) -> str:
        """Its name."""
        spread = "covariance" if self.covariance else "independent"
        return f"p{self.p}-{spread}-set{self.data_set:02}-{self.kind}-{self.noise:g}-{self.who}"

    @property
    def like(self) -> str:
        """Features and models decide how long it takes."""
        return f"p{self.p} {' '.join(self.models)}"

    def split(self) -> Split:
        """Training and test points: all realisations of a point are on one side."""
        return _split(replace(self, models=()))

    def compute(self) -> Result:
        """Scores of each model."""
        split = self.split()
        plan = BootstrapPlan(seed=self.seed)
        return {"models": [assess(name, split, self.seed, plan) for name in self.models]}

    def probe(self) -> float:
        """From the times of few points in few realisations, extended."""
        few = [(n, r) for n in _PROBED_POINTS for r in (1, 2)]
        cells = {(n, r): replace(self, points=n, realisations=r) for n, r in few}
        cpu_seconds(self.models, [cells[few[0]].split()], self.seed)  # warm up
        seconds = {
            (float(n), float(r)): sum(cpu_seconds(self.models, [cell.split()], self.seed))
            for (n, r), cell in cells.items()
        }
        return extended(seconds)(self.points, self.realisations)


@lru_cache(maxsize=1)
def _split(cell: SyntheticCell) -> Split:
    """The data of a cell; the next cell of a worker often needs the same."""
    problem = problem_of(cell.p, cell.covariance, cell.data_set, cell.points, cell.seed)
    name = ("noise", cell.p, cell.covariance, cell.data_set, cell.kind, f"{cell.noise:g}")
    X = measure(problem.X, cell.noise, cell.realisations, stream(cell.seed, *name), kind=cell.kind)
    train = problem.train
    return Split(X[train], problem.y[train], X[~train], problem.y[~train], SHARES, paired=True)


def problem_of(p: int, covariance: bool, data_set: int, points: int, seed: int) -> SyntheticProblem:
    """A data set by its number; kinds of noise and noise factors see the same one."""
    rng = stream(seed, "synthetic problem", p, covariance, data_set)
    return draw_problem(p, rng, n_classes=N_CLASSES, n_per_class=points, correlated=covariance)


def synthetic_cells(scale: SyntheticScale, seed: int, further: bool = False) -> list[SyntheticCell]:
    """All cells of the study at a scale."""
    cells = []
    for p, covariance, kind, noise, data_set in scale.variants():
        names = study_models(further) if covariance else PAPER
        names = tuple(name for name in names if name not in COSTLY or p <= scale.costly_up_to)
        cells += [
            SyntheticCell(p, covariance, kind, noise, data_set, group, scale.points, scale.realisations, seed)
            for group in cell_groups(names)
        ]
    return cells


def noise_free_cells(scale: SyntheticScale, seed: int) -> list[SyntheticCell]:
    """The models of the paper on every data set without noise: how well they can tell the classes."""
    sets = dict.fromkeys((p, covariance, data_set) for p, covariance, _, _, data_set in scale.variants())
    return [
        SyntheticCell(p, covariance, "gaussian", 0.0, data_set, PAPER, scale.points, 1, seed)
        for p, covariance, data_set in sets
    ]


def _data_set(cell: SyntheticCell) -> tuple[int, bool, int]:
    return cell.p, cell.covariance, cell.data_set


def _easy_data_sets(
    cells: Sequence[SyntheticCell], results: Mapping[str, Result]
) -> set[tuple[int, bool, int]] | None:
    """Data sets on which every model has the F₁ that is asked for without noise; None if that is unknown."""
    plain = [cell for cell in cells if cell.noise == 0]
    easy = {
        _data_set(cell)
        for cell in plain
        if all(one["trained"] and one["scores"]["f1"] >= LEAST_F1 for one in results[cell.key]["models"])
    }
    return easy if plain else None


def means_over_data_sets(scores: pd.DataFrame, level: float = 0.95) -> pd.DataFrame:
    """Mean of each score over the data sets, with Student's interval; one data set alone has none.

    >>> where = {"p": 2, "covariance": True, "kind": "gaussian", "noise": 0.1, "data_set": [0, 1]}
    >>> found = {"model": "LDA", "ours": False, "metric": "f1", "value": [0.8, 0.9], "zeros": 0}
    >>> scores = pd.DataFrame({**where, **found})
    >>> means_over_data_sets(scores)[["value", "low", "high"]].round(3).values.tolist()
    [[0.85, 0.215, 1.485]]
    """
    by = [name for name in (*WHERE, "model", "ours", "metric") if name != "data_set"]
    grouped = scores.groupby(by, sort=False)
    table = grouped.agg(
        value=("value", "mean"), sd=("value", "std"), n=("value", "size"), zeros=("zeros", "sum")
    )
    half = student.ppf((1 + level) / 2, np.maximum(table["n"] - 1, 1)) * table["sd"] / np.sqrt(table["n"])
    table["low"], table["high"] = table["value"] - half, table["value"] + half
    return table.drop(columns="sd").reset_index()


@dataclass(frozen=True)
class SyntheticStudy:
    """The synthetic study at a scale.

    At most `data_sets` of each number of features are computed and summarised now; the folder can be finished
    with all of them later. `every_model` leaves out data sets on which a model of the paper has an F₁ below
    0.9 without noise, else BQDA alone decides; what is computed of the others stays in the folder.

    >>> SyntheticStudy("quick").facts["realisations"]
    6
    >>> len(SyntheticStudy("standard", data_sets=1).cells())
    87
    """

    scale: str = "quick"
    seed: int = 0
    data_sets: int | None = None
    every_model: bool = False
    further: bool = False  # with the models that are computed on request

    def __post_init__(self) -> None:
        if self.data_sets is not None and self.data_sets < 1:
            raise ValueError(f"{self.data_sets} data sets say nothing; give at least 1 with --data-sets")

    @property
    def facts(self) -> dict[str, Any]:
        """Scale, seed, version."""
        scale = SCALES[self.scale]
        sets = {str(p): n for p, n in scale.data_sets.items()}
        known = {**asdict(scale), "data_sets": sets, "seed": self.seed}
        return study_facts("synthetic", self.scale, known, self.further)

    def cells(self, out: Path | None = None) -> Sequence[Any]:
        """All cells; they need no files."""
        scale = SCALES[self.scale].first(self.data_sets)
        extra = noise_free_cells(scale, self.seed) if self.every_model else []
        return [*synthetic_cells(scale, self.seed, self.further), *extra]

    def tables(self, cells: Sequence[Any], results: Mapping[str, Result]) -> Tables:
        """Scores of every cell, their means over the data sets, training and cost.

        Where there are cells without noise, only the data sets that are easy for every model are left.
        """
        easy = _easy_data_sets(cells, results)
        found = [
            (cell.where, one)
            for cell in cells
            if cell.noise > 0 and (easy is None or _data_set(cell) in easy)
            for one in results[cell.key]["models"]
        ]
        if not found:
            raise ValueError(
                f"no data set has an F₁ of {LEAST_F1:g} for every model; take more --data-sets, or "
                "--f1-filter bqda"
            )
        scores = frame(found, score_rows)
        return {
            "scores": scores,
            "means": means_over_data_sets(scores),
            "training": pd.DataFrame([training_row(where, one) for where, one in found]),
            "cost": frame(found, cost_rows),
        }

    def findings(self, tables: Tables) -> list[Finding]:
        """Findings of the tables about each claim."""
        scale = SCALES[self.scale]
        return synthetic_findings(
            tables, {"points a class": scale.points, "realisations": scale.realisations}
        )
