"""The synthetic problem of the published study: Gaussian classes, and measurements of them with noise."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import f1_score

from uncover.estimators.discriminant import BayesianQDA

Array = NDArray[np.float64]

_MOST_DRAWS = 500
#: A problem is kept where the F₁ score without noise is at least this.
LEAST_F1 = 0.9


@dataclass(frozen=True)
class SyntheticProblem:
    """Gaussian classes with known parameters, and true values drawn from them.

    Attributes
    ----------
    mean : array of shape (class, feature)
    covariance : array of shape (class, feature, feature)
    X : array of shape (sample, feature)
        True values.
    y : array of int of shape (sample,)
    train : array of bool of shape (sample,)
        The 80 % of the samples that are for training.
    """

    mean: Array
    covariance: Array
    X: Array
    y: NDArray[np.int64]
    train: NDArray[np.bool_]


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

    Examples
    --------
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
    """Return independent measurements of true values: shape (sample, realisation, feature).

    Parameters
    ----------
    X : array of shape (sample, feature)
    noise : float
        Standard deviation σ of the noise, the same for every feature.
    n_realisations : int
    rng : numpy.random.Generator
    kind : "gaussian" or "uniform"
        N(0, σ²), or uniform on ±√3σ.

    Examples
    --------
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
