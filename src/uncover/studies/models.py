"""The classifiers that the studies compare, each made for inputs of shape (sample, realisation, feature)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    BaggingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

from uncover import __version__
from uncover.estimators.discriminant import BayesianQDA
from uncover.estimators.ensemble import RealisationEnsemble


class AdaBoostM2(ClassifierMixin, BaseEstimator):
    """Boosted trees by the pseudo-loss of Freund and Schapire (1997), section 4.2, AdaBoost.M2.

    Tree t gives each class k a confidence h_t(x, k) from 0 to 1: the weighted share of the class in the leaf.
    With weights w_ik of the wrong labels k ≠ y_i, which begin equal and add up to 1,

        ε_t = ½ Σ_ik w_ik (1 − h_t(x_i, y_i) + h_t(x_i, k)),      β_t = ε_t / (1 − ε_t),
        w_ik ← w_ik β_t^((1 + h_t(x_i, y_i) − h_t(x_i, k)) / 2), normalised,
        score(x, k) = Σ_t log(1/β_t) h_t(x, k),

    and tree t is fitted with the sample weights Σ_k w_ik. MATLAB's `fitcensemble`, which the paper names,
    does this by default for more than two classes: 100 trees of at most 10 splits, learning rate 1.
    With two classes it does LogitBoost, which is not here; its trees grow by layers, these by the best split.

    **The scores are not probabilities.** `predict_proba` divides them by their sum, so that they stand beside
    probabilities; nothing makes them calibrated.

    Parameters
    ----------
    n_estimators : int, default 100
        Trees at most: it ends before if a tree has a pseudo-loss of 0, or is no better than guessing.
    max_splits : int, default 10
    random_state : int or None, default None
        Decides between equally good splits.

    Attributes
    ----------
    estimators_ : list of fitted trees
    weights_ : array of shape (tree,), log(1/β_t)
    pseudo_losses_ : array of shape (tree,), ε_t
    classes_ : array of shape (class,)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = AdaBoostM2(n_estimators=10, random_state=0).fit(X[::2], y[::2])
    >>> clf.score(X[1::2], y[1::2]) > 0.9
    True
    >>> clf.decision_function(X[:1]).shape
    (1, 3)
    """

    def __init__(self, n_estimators=100, max_splits=10, random_state=None):
        self.n_estimators = n_estimators
        self.max_splits = max_splits
        self.random_state = random_state

    def fit(self, X, y):
        """Fit trees one after the other, each to what those before it confuse."""
        X = np.asarray(X)
        self.classes_, k = np.unique(y, return_inverse=True)
        n, K = len(k), len(self.classes_)
        if K < 2:
            raise ValueError(f"boosting needs at least 2 classes, got {K}")
        rng = np.random.RandomState(self.random_state)
        samples = np.arange(n)
        w = np.full((n, K), 1.0 / (n * (K - 1)))
        w[samples, k] = 0.0
        self.estimators_, losses = [], []
        while len(losses) < self.n_estimators:
            tree = DecisionTreeClassifier(max_leaf_nodes=self.max_splits + 1, random_state=rng.randint(2**31))
            h = tree.fit(X, k, sample_weight=w.sum(axis=1)).predict_proba(X)
            margin = h[samples, k][:, None] - h
            loss = 0.5 * float((w * (1.0 - margin)).sum())
            if loss >= 0.5:
                break
            self.estimators_.append(tree)
            losses.append(loss)
            if loss <= 0.0:  # its weight is infinite: it decides alone
                self.estimators_, losses = [tree], [loss]
                break
            w *= (loss / (1.0 - loss)) ** (0.5 * (1.0 + margin))
            w /= w.sum()
        if not losses:
            raise ValueError("no tree does better than guessing: the features do not tell the classes apart")
        self.pseudo_losses_ = np.array(losses)
        with np.errstate(divide="ignore"):
            self.weights_ = np.log((1.0 - self.pseudo_losses_) / self.pseudo_losses_)
        return self

    def decision_function(self, X):
        """Scores Σ_t log(1/β_t) h_t(x, k), (sample, class); of a tree without loss its confidences."""
        check_is_fitted(self)
        weights = np.where(np.isinf(self.weights_), 1.0, self.weights_)
        return sum(
            weight * tree.predict_proba(X) for weight, tree in zip(weights, self.estimators_, strict=True)
        )

    def predict_proba(self, X):
        """Scores divided by their sum: not probabilities, see above."""
        scores = self.decision_function(X)
        return scores / scores.sum(axis=1, keepdims=True)

    def predict(self, X):
        """Class of the largest score."""
        return self.classes_[self.decision_function(X).argmax(axis=1)]


@dataclass(frozen=True)
class StudyModel:
    """A classifier under study.

    >>> [name for name, model in MODELS.items() if not model.ours]
    ['BQDA', 'QDA', 'RF', 'NN', 'LDA']
    """

    name: str  # as in tables and legends
    title: str  # one line on what it is
    make: Callable[[int], Any]  # from a seed to an unfitted classifier
    ours: bool = False  # not among the models of the paper: an extra row
    slow: bool = False  # worth a cell of its own
    further: bool = False  # on request only (--further): it takes as long as those of the paper


class FullRankQDA(QuadraticDiscriminantAnalysis):
    """Scikit-learn's QDA, refusing classes whose covariance is singular by a relative measure.

    Its own measure is absolute (variances below 1e-4 count as none), so that it calls most reflectances
    between 0 and 1 singular. QDA does not depend on units, so neither should this.

    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 20)
    >>> X = 1e-3 * rng.normal(size=(40, 2)) + 0.01 * y[:, None]
    >>> FullRankQDA().fit(X, y).score(X, y)
    1.0
    >>> FullRankQDA().fit(X[18:23], y[18:23])
    Traceback (most recent call last):
    ...
    ValueError: class 0 has 2 samples; QDA of 2 features needs at least 3 with a covariance of full rank.
    """

    def fit(self, X, y):
        """Fit, or say which class has too few samples."""
        X, y = np.asarray(X, np.float64), np.asarray(y)
        p = X.shape[1]
        for name in np.unique(y):
            centred = X[y == name] - X[y == name].mean(axis=0)
            spread = centred.std(axis=0)
            rank = np.linalg.matrix_rank(centred / np.where(spread > 0, spread, 1.0))
            if rank < p:
                raise ValueError(
                    f"class {name} has {len(centred)} samples; QDA of {p} features needs at least {p + 1} "
                    "with a covariance of full rank."
                )
        self.tol = 0.0
        return super().fit(X, y)


class PooledClassifier(ClassifierMixin, BaseEstimator):
    """One classifier for all realisations as samples; class probabilities of the realisations averaged.

    >>> y = np.repeat([0, 1], 20)
    >>> X = np.random.default_rng(0).normal(size=(40, 3, 2)) + y[:, None, None]
    >>> PooledClassifier(LinearDiscriminantAnalysis()).fit(X, y).predict_proba(X).shape
    (40, 2)
    """

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y):
        """Fit to the rows of all realisations."""
        rows = X.reshape(-1, X.shape[2])
        self.estimator_ = clone(self.estimator).fit(rows, np.repeat(y, X.shape[1]))
        self.classes_ = self.estimator_.classes_
        return self

    def predict_proba(self, X):
        """Mean over realisations: (sample, class)."""
        each = self.estimator_.predict_proba(X.reshape(-1, X.shape[2]))
        return each.reshape(*X.shape[:2], -1).mean(axis=1)


def _neural_network(seed):
    """Ten rectified linear units, without a penalty."""
    return MLPClassifier((10,), "relu", solver="lbfgs", alpha=0.0, max_iter=1000, random_state=seed)


def _deep_ensemble(seed):
    """Five networks that differ in where they begin (Lakshminarayanan, Pritzel and Blundell 2017)."""
    network = MLPClassifier(
        hidden_layer_sizes=(32, 32), batch_size=256, max_iter=100, n_iter_no_change=5, early_stopping=False
    )
    members = [(f"network {i}", clone(network).set_params(random_state=seed + i)) for i in range(5)]
    return PooledClassifier(make_pipeline(StandardScaler(), VotingClassifier(members, voting="soft")))


def _bootstrapped_forest(seed):
    """A forest on a bootstrap sample of the samples: another training set for each realisation."""
    return BaggingClassifier(RandomForestClassifier(n_estimators=100), n_estimators=1)


def _ensemble(make: Callable[[int], Any]) -> Callable[[int], Any]:
    return lambda seed: RealisationEnsemble(make(seed), random_state=seed)


def _bayesian(kind: str) -> Callable[[int], Any]:
    return lambda seed: BayesianQDA(realisations=kind, random_state=seed)


_PAPER = (
    StudyModel("BQDA", "Bayesian QDA fitted on all realisations pooled", _bayesian("pooled")),
    StudyModel("QDA", "standard QDA, one for each realisation", _ensemble(lambda seed: FullRankQDA())),
    StudyModel(
        "RF",
        "random forest of 100 trees, one for each realisation",
        _ensemble(lambda seed: RandomForestClassifier(n_estimators=100)),
        slow=True,
    ),
    StudyModel(
        "NN",
        "neural network of 10 rectified linear units, one for each realisation",
        _ensemble(_neural_network),
        slow=True,
    ),
    StudyModel(
        "LDA", "standard LDA, one for each realisation", _ensemble(lambda seed: LinearDiscriminantAnalysis())
    ),
)
_OURS = (
    StudyModel(
        "QDA pooled",
        "standard QDA fitted on all realisations pooled",
        lambda seed: PooledClassifier(FullRankQDA()),
    ),
    StudyModel("BQDA repeats", 'Bayesian QDA, realisations="repeats"', _bayesian("repeats")),
    StudyModel("BQDA draws", 'Bayesian QDA, realisations="draws"', _bayesian("draws"), slow=True),
    StudyModel("BQDA shared", 'Bayesian QDA, realisations="shared"', _bayesian("shared")),
    StudyModel(
        "LR",
        "logistic regression on standardised inputs, one for each realisation",
        _ensemble(lambda seed: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))),
    ),
    StudyModel(
        "GB pooled",
        "gradient boosting (histograms, 100 rounds) fitted on all realisations pooled",
        lambda seed: PooledClassifier(
            HistGradientBoostingClassifier(early_stopping=False, random_state=seed)
        ),
        slow=True,
    ),
)
_FURTHER = (
    StudyModel(
        "AdaBoost.M2 scores",
        "the other reading of the paper's random forest of 100 trees: 100 boosted trees (the default of "
        "MATLAB for several classes), one for each realisation; its scores are not probabilities",
        _ensemble(lambda seed: AdaBoostM2()),
    ),
    StudyModel(
        "NN deep",
        "deep ensemble: 5 neural networks of two layers of 32 units, fitted on all realisations pooled",
        _deep_ensemble,
    ),
    StudyModel(
        "RF bootstrap",
        "bootstrapped forest: 100 trees on a bootstrap sample of the samples, one for each realisation",
        _ensemble(_bootstrapped_forest),
    ),
)

#: All of them by name: those of the paper first, then ours.
MODELS = {
    model.name: model
    for model in (
        *_PAPER,
        *(replace(model, ours=True) for model in _OURS),
        *(replace(model, ours=True, slow=True, further=True) for model in _FURTHER),
    )
}

#: The models of the paper.
PAPER = tuple(name for name, model in MODELS.items() if not model.ours)


def study_models(further: bool = False) -> tuple[str, ...]:
    """Names of the models of a study, with those that are computed on request or without."""
    return tuple(name for name, model in MODELS.items() if further or not model.further)


def cell_groups(names: tuple[str, ...] = tuple(MODELS)) -> tuple[tuple[str, ...], ...]:
    """Models that share a cell: the fast ones together, each slow one alone.

    >>> cell_groups(("BQDA", "RF", "LDA"))
    (('BQDA', 'LDA'), ('RF',))
    """
    fast = tuple(name for name in names if not MODELS[name].slow)
    slow = tuple((name,) for name in names if MODELS[name].slow)
    return (fast, *slow) if fast else slow


def study_facts(study: str, scale: str, more: Mapping[str, Any], further: bool) -> dict[str, Any]:
    """Facts that decide the results of a study: its scale, our version, its models, and more."""
    models = {
        name: {"title": MODELS[name].title, "ours": MODELS[name].ours} for name in study_models(further)
    }
    return {"study": study, "scale": scale, "uncover": __version__, "models": models, **more}
