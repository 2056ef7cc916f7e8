"""The classifiers whose probabilities are compared, each made for the training samples at hand."""

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
UNCALIBRATED, CALIBRATED_QDA = 'BayesianQDA("evidence")', 'BayesianQDA("evidence", "loo")'
OWN: dict[str, Callable[[], Any]] = {
    "BayesianClassifier": lambda: uncover.BayesianClassifier(),
    CALIBRATED_QDA: lambda: uncover.BayesianQDA(prior="evidence", calibration="loo"),
    UNCALIBRATED: lambda: uncover.BayesianQDA(prior="evidence"),
    "BayesianQDA (the paper's)": lambda: uncover.BayesianQDA(),
}
CALIBRATED = " + calibration"


def model_names(which="all"):
    """Names of the models: peers, peers with scikit-learn's calibration ("peers"), and our own ("own")."""
    peers = [*PEERS, *(name + CALIBRATED for name in PEERS)]
    return {"all": [*peers, *OWN], "peers": peers, "own": [*OWN]}[which]


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
