"""Any scikit-learn classifier on inputs with realisations: one clone for each, probabilities averaged."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from uncover.bayes.population import UnknownOdds
from uncover.bayes.streams import stream
from uncover.estimators.inputs import read_labels, read_samples, read_weights
from uncover.estimators.unknown import UnknownMixin, unknown_odds_of


class RealisationEnsemble(UnknownMixin, MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """One clone of a classifier for each training realisation; each predicts one of the new realisations.

    With a random permutation π of the realisations of the new inputs, model r predicts realisation π(r), and
    the class probabilities are averaged:

        P(y | x) = (1/m) Σ_i P_{i mod R}(y | x_{π(i mod R')}),   i = 0 … m−1,   m = max(R, R'),

    with R realisations in training and R' of the new inputs.
    So every model and every realisation takes part, each as often as any other, give or take one; where
    there are as many of them, each takes part once. X of shape (sample, feature) is one realisation.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        Cloned, never fitted itself. Its ``random_state``, and those of its parts, are set for each clone.
    random_state : int or None, default 0
        Decides the permutation and the clones.

    Attributes
    ----------
    estimators_ : list of fitted classifiers, in the order of the realisations
    classes_ : array of shape (class,)
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 50)
    >>> X = rng.normal(size=(100, 5, 2)) + 2.0 * y[:, None, None]
    >>> ensemble = RealisationEnsemble(LogisticRegression()).fit(X, y)
    >>> len(ensemble.estimators_), ensemble.predict_proba(X[:3]).shape
    (5, (3, 2))
    >>> ensemble.predict_proba(X[:3, :2]).shape  # other numbers of realisations will do
    (3, 2)
    """

    def __init__(self, estimator, random_state=0):
        self.estimator = estimator
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        """Fit one clone to each realisation.

        Parameters
        ----------
        X : array of shape (sample, realisation, feature) or (sample, feature)
        y : array of shape (sample,)
        sample_weight : array of shape (sample,), optional

        Returns
        -------
        self
        """
        if not hasattr(self.estimator, "predict_proba"):
            raise ValueError(
                f"estimator {type(self.estimator).__name__} has no predict_proba, and the ensemble averages "
                "class probabilities. Choose one that has, or wrap it in CalibratedClassifierCV."
            )
        values = _with_realisations(read_samples(self, X, reset=True))
        y = read_labels(self, y, len(values))
        weight = read_weights(sample_weight, values[:, 0])
        options = {} if weight is None else {"sample_weight": weight}
        self.classes_ = np.unique(y)
        self.estimators_ = [self._clone(r).fit(values[:, r], y, **options) for r in range(values.shape[1])]
        return self

    def _clone(self, r):
        """A clone whose random numbers depend on the seed and the number of the realisation alone."""
        one = clone(self.estimator)
        rng = stream(self.random_state, "ensemble", r)
        names = [name for name in one.get_params() if name.split("__")[-1] == "random_state"]
        return one.set_params(**{name: int(rng.integers(2**31)) for name in sorted(names)})

    def predict_proba(self, X):
        """Class probabilities, averaged over pairs of models and realisations: (sample, class)."""
        check_is_fitted(self)
        values = _with_realisations(read_samples(self, X, reset=False))
        total = np.zeros((len(values), len(self.classes_)))
        pairs = self.pairs(values.shape[1])
        for model, realisation in pairs:
            total += self.estimators_[model].predict_proba(values[:, realisation])
        return total / len(pairs)

    def pairs(self, n_realisations):
        """Which model predicts which realisation of inputs that have so many of them.

        Returns
        -------
        list of (int, int)
            Numbers of a model and of a realisation.
        """
        order = stream(self.random_state, "permutation", n_realisations).permutation(n_realisations)
        count = max(len(self.estimators_), n_realisations)
        return [(i % len(self.estimators_), int(order[i % n_realisations])) for i in range(count)]

    def _unknown_odds(self, X, X_cov, paired):
        values = _with_realisations(read_samples(self, X, reset=False))
        pairs = self.pairs(values.shape[1])
        each = [unknown_odds_of(self.estimators_[m], values[:, r], X_cov, paired) for m, r in pairs]
        return UnknownOdds(np.concatenate([odds.log_ratio for odds in each], axis=1), each[0].n_features)

    def predict_log_proba(self, X):
        """Logarithms of the class probabilities: (sample, class)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X):
        """The most probable class: (sample,)."""
        probability = self.predict_proba(X)
        return self.classes_[probability.argmax(axis=1)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.classifier_tags = inner.classifier_tags
        tags.non_deterministic = inner.non_deterministic and self.random_state is None
        return tags


def _with_realisations(X):
    return X if X.ndim == 3 else X[:, None, :]
