"""Comparison of classifiers on one's own data: repeated, grouped, paired, with intervals."""

import time
import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit
from sklearn.base import clone
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedGroupKFold
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from uncover.estimators.groups import groups_for, read_groups
from uncover.estimators.inputs import select_rows
from uncover.measurement.measured import Measured
from uncover.metrics.scores import ScoreSums

METRICS = ("cross_entropy", "brier", "error", "calibration_error")
_BINS = 15


@dataclass(frozen=True)
class Comparison:
    """Scores of several models on the same splits; lower is better for all.

    Attributes
    ----------
    names : tuple of str
    scores : dict of arrays of shape (model, split)
        "cross_entropy" in nats, "brier", "error" (share of wrong classes), "calibration_error" (mean
        difference of confidence and accuracy), "seconds" (fitting and predicting).
    folds : int
        Parts of one repeat.
    floor : float
        Under the probabilities, in the cross-entropy.

    Examples
    --------
    >>> scores = {name: np.array([[0.2, 0.4], [0.3, 0.6]]) for name in (*METRICS, "seconds")}
    >>> comparison = Comparison(("a", "b"), scores, folds=2, floor=1e-6)
    >>> comparison.best("brier")
    'a'
    >>> mean, low, high = comparison.difference("brier", "b", "a")
    >>> round(mean, 3), low < mean < high
    (0.15, True)
    """

    names: tuple
    scores: dict
    folds: int
    floor: float

    def mean(self, metric):
        """Mean score of each model: a dictionary by name."""
        return dict(zip(self.names, self._scores(metric).mean(1).tolist(), strict=True))

    def best(self, metric="cross_entropy"):
        """Name of the model with the lowest mean score."""
        return self.names[int(self._scores(metric).mean(1).argmin())]

    def _scores(self, metric):
        if metric not in self.scores:
            raise ValueError(f"there is no score {metric!r}; there are {', '.join(self.scores)}.")
        return self.scores[metric]

    def difference(self, metric, model, reference, level=0.95):
        """Mean difference of two models' scores and its interval: (mean, low, high).

        Splits share training samples, so their differences are not independent; with J splits of variance
        s², the variance of the mean is taken as s²(1/J + n_test/n_train) (Nadeau and Bengio 2003, Machine
        Learning 52, 239–281), and the interval is that of Student's t with J − 1 degrees of freedom.
        """
        unknown = [name for name in (model, reference) if name not in self.names]
        if unknown:
            raise ValueError(f"there is no model {unknown[0]!r}; there are {', '.join(self.names)}.")
        i, j = self.names.index(model), self.names.index(reference)
        scores = self._scores(metric)
        d = scores[i] - scores[j]
        J = len(d)
        spread = np.sqrt(d.var(ddof=1) * (1.0 / J + 1.0 / (self.folds - 1)))
        half = stdtrit(J - 1, 0.5 + 0.5 * level) * spread
        return float(d.mean()), float(d.mean() - half), float(d.mean() + half)

    def table(self, reference=None, level=0.95):
        """Rows for each model, the best first: dictionaries of scores, and differences with intervals."""
        reference = reference or self.best()
        order = np.argsort(self.scores["cross_entropy"].mean(1), kind="stable")
        rows = []
        for i in order:
            name = self.names[i]
            row = {"model": name, **{m: float(self.scores[m][i].mean()) for m in (*METRICS, "seconds")}}
            for metric in ("cross_entropy", "brier"):
                row[f"{metric}_difference"] = self.difference(metric, name, reference, level)
            rows.append(row)
        return rows

    def __str__(self):
        """The table as text."""
        reference = self.best()
        less = f"less {reference}"
        heading = ["model", "cross-entropy", less, "Brier", less, "error", "seconds"]
        lines = [heading]
        for row in self.table(reference):
            cells = [row["model"]]
            for metric in ("cross_entropy", "brier"):
                _, low, high = row[f"{metric}_difference"]
                interval = "" if row["model"] == reference else f"{low:+.4f} … {high:+.4f}"
                cells += [f"{row[metric]:.4f}", interval]
            lines.append([*cells, f"{row['error']:.3f}", f"{row['seconds']:.2f}"])
        width = [max(len(line[c]) for line in lines) for c in range(len(heading))]
        return "\n".join(
            "  ".join([line[0].ljust(width[0]), *map(str.rjust, line[1:], width[1:])]) for line in lines
        )


def compare(X, y, models=None, *, groups=None, folds=5, repeats=4, floor=1e-6, random_state=0):
    """Compare classifiers by repeated cross-validation on the same splits.

    Parameters
    ----------
    X : array of shape (sample, feature) or (sample, realisation, feature), data frame, or Measured
    y : array of shape (sample,)
    models : dict of estimators by name, or list of estimators, optional
        Default: the recommended classifier, the published method, and common ones of scikit-learn; these
        last not for realisations or a ``Measured``, which they do not take.
    groups : array of shape (sample,), optional
        Samples that belong together (a polygon, a field, a date) never train and test in one split; models
        whose ``fit`` takes groups get them.
    folds, repeats : int
        At most as many folds as the rarest class has samples, or groups.
    floor : float
        Probabilities below it count as this much in the cross-entropy, for every model.
    random_state : int

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    >>> from uncover import BayesianQDA
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(90) % 3
    >>> X = rng.normal(size=(90, 2)) * (1 + y[:, None]) + y[:, None]
    >>> found = compare(X, y, {"QDA": BayesianQDA(), "LDA": LinearDiscriminantAnalysis()}, repeats=2)
    >>> found.best()
    'QDA'
    """
    y, n = np.asarray(y), len(X)
    if y.shape != (n,):
        raise ValueError(f"y needs one label for each of the {n} samples of X, got shape {y.shape}.")
    models = _named(models, several=isinstance(X, Measured) or np.ndim(X) == 3)
    groups = read_groups(groups, n)
    classes, codes = np.unique(y, return_inverse=True)
    folds = _possible_folds(folds, codes, groups, classes)
    splits = list(_splits(codes, groups, folds, repeats, random_state))
    scores = {name: np.empty((len(models), len(splits))) for name in (*METRICS, "seconds")}
    for s, (train, test) in enumerate(splits):
        for m, model in enumerate(models.values()):
            own_groups = None if groups is None else groups[train]
            start = time.perf_counter()
            P = _predict(model, select_rows(X, train), y[train], own_groups, select_rows(X, test), classes)
            scores["seconds"][m, s] = time.perf_counter() - start
            for name, value in _scores(codes[test], P, floor).items():
                scores[name][m, s] = value
    return Comparison(tuple(models), scores, folds, floor)


def _named(models, several):
    if models is None:
        return {name: model for name, model in default_models().items() if not several or "Bayesian" in name}
    if isinstance(models, dict):
        return models
    names = [type(m.steps[-1][1] if isinstance(m, Pipeline) else m).__name__ for m in models]
    if len(set(names)) < len(names):
        raise ValueError(f"several of the models are of one kind, {names}: give a dictionary with names.")
    return dict(zip(names, models, strict=True))


def default_models():
    """Return the models that are compared where none are given."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from uncover.estimators.classifier import BayesianClassifier
    from uncover.estimators.discriminant import BayesianQDA

    return {
        "BayesianClassifier": BayesianClassifier(),
        "BayesianQDA": BayesianQDA(),
        "LDA": LinearDiscriminantAnalysis(),
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)),
        "random forest": RandomForestClassifier(100, random_state=0),
    }


def _possible_folds(folds, codes, groups, classes):
    fewest = np.bincount(codes).min()
    unit = "samples"
    if groups is not None:
        of_class = [np.unique(groups[codes == k]) for k in range(len(classes))]
        fewest, unit = min(map(len, of_class)), "groups"
    if fewest < 2:
        raise ValueError(f"a class has {fewest} of the {unit}; each needs 2, one to train and one to test.")
    return min(folds, int(fewest))


def _splits(codes, groups, folds, repeats, seed):
    if groups is None:
        splitter = RepeatedStratifiedKFold(n_splits=folds, n_repeats=repeats, random_state=seed)
        yield from splitter.split(np.zeros(len(codes)), codes)
        return
    rng = check_random_state(seed)
    for state in rng.randint(2**31 - 1, size=repeats):
        splitter = StratifiedGroupKFold(n_splits=folds, shuffle=True, random_state=int(state))
        yield from splitter.split(np.zeros(len(codes)), codes, groups)


def _predict(model, X, y, groups, X_test, classes):
    """Probabilities of all classes; one that was not in the training part has 0."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of collinear features and the like, once for every split
        fitted = clone(model).fit(X, y, **groups_for(model, groups))
        P = np.asarray(fitted.predict_proba(X_test), dtype=np.float64)
    out = np.zeros((len(P), len(classes)))
    out[:, np.searchsorted(classes, fitted.classes_)] = P
    return out / out.sum(1, keepdims=True)


def _scores(codes, P, floor):
    sums = ScoreSums.of(codes, P, floor=floor)
    return {
        "cross_entropy": sums.cross_entropy,
        "brier": sums.brier,
        "error": np.mean(P.argmax(1) != codes),
        "calibration_error": calibration_error(codes, P),
    }


def calibration_error(codes, probability, bins=_BINS):
    """Mean difference of confidence and accuracy, over bins of equally many samples sorted by confidence.

    Examples
    --------
    >>> float(calibration_error(np.array([0, 0, 1, 0]), np.array([[0.75, 0.25]] * 4), bins=1))
    0.0
    """
    sure, right = probability.max(1), probability.argmax(1) == codes
    parts = np.array_split(np.argsort(sure, kind="stable"), min(bins, len(codes)))
    return sum(abs(sure[part].mean() - right[part].mean()) * len(part) for part in parts) / len(codes)
