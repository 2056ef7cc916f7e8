"""AdaBoost.M2 with decision trees: the other reading of the paper's "random forest with 100 trees"."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted


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
