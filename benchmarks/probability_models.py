"""The classifiers whose probabilities are compared, each made for the training samples at hand."""

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import uncover

PEERS: dict[str, Callable[[], Any]] = {
    "QDA": lambda: make_pipeline(
        StandardScaler(), QuadraticDiscriminantAnalysis(solver="eigen", shrinkage="auto")
    ),
    "LDA": lambda: make_pipeline(
        StandardScaler(), LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    ),
    "random forest": lambda: RandomForestClassifier(100, random_state=0),
    "neural network": lambda: make_pipeline(StandardScaler(), MLPClassifier(max_iter=1000, random_state=0)),
    "gradient boosting": lambda: HistGradientBoostingClassifier(min_samples_leaf=5, random_state=0),
    "logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)),
}
if importlib.util.find_spec("catboost"):  # in the extra `bench`
    PEERS["CatBoost"] = lambda: CatBoost()
UNCALIBRATED, CALIBRATED_QDA = 'BayesianQDA("evidence")', 'BayesianQDA("evidence", "loo")'
OWN: dict[str, Callable[[], Any]] = {
    "BayesianClassifier": lambda: uncover.BayesianClassifier(),
    CALIBRATED_QDA: lambda: uncover.BayesianQDA(prior="evidence", calibration="loo"),
    UNCALIBRATED: lambda: uncover.BayesianQDA(prior="evidence"),
    "BayesianQDA (the paper's)": lambda: uncover.BayesianQDA(),
}
CALIBRATED = " + calibration"
AS_IT_IS = ("CatBoost",)  # too slow to be fitted for every fold


class CatBoost:
    """CatBoost with its defaults, in one thread and without files of its own."""

    def fit(self, X, y):
        """Fit it; the classes are those of ``np.unique``."""
        from catboost import CatBoostClassifier

        codes = np.unique(y, return_inverse=True)[1]
        options = {"random_seed": 0, "verbose": False, "allow_writing_files": False, "thread_count": 1}
        self._model = CatBoostClassifier(loss_function="MultiClass", **options).fit(X, codes)
        return self

    def predict_proba(self, X):
        """Probabilities (sample, class)."""
        return self._model.predict_proba(X)


def model_names(which="all"):
    """Names of the models: all, peers (with scikit-learn's calibration and without), our own, or one."""
    peers = [*PEERS, *(name + CALIBRATED for name in PEERS if name not in AS_IT_IS)]
    sets = {"all": [*peers, *OWN], "peers": peers, "own": [*OWN]}
    if which not in sets and which not in sets["all"]:
        raise ValueError(f"no model is called {which!r}; there are: {', '.join([*sets, *sets['all']])}")
    return sets.get(which, [which])


def fit_model(name, split):
    """Return a model fitted to the training samples of a split; whoever calibrates knows their groups."""
    if name in PEERS:
        return PEERS[name]().fit(split.X, split.y)
    if name not in OWN:
        model = CalibratedClassifierCV(PEERS[name.removesuffix(CALIBRATED)](), cv=_folds(split))
        return model.fit(split.X, split.y)
    model = OWN[name]()
    grouped = split.groups is not None and getattr(model, "calibration", "loo") is not None
    return model.fit(split.X, split.y, **({"groups": split.groups} if grouped else {}))


def _folds(split):
    """As many folds, up to 5, as the rarest class has samples; by groups, where each class is in enough."""
    folds = min(5, int(np.unique(split.y, return_counts=True)[1].min()))
    if split.groups is None:
        return folds
    by_group = StratifiedGroupKFold(min(folds, 3), shuffle=True, random_state=0)
    parts = list(by_group.split(split.X, split.y, split.groups))
    whole = all(len(np.unique(split.y[train])) == len(np.unique(split.y)) for train, _ in parts)
    return parts if whole else folds
