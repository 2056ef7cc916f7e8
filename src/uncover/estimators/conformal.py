"""Sets of classes that hold the true one with a stated probability, for each class, whatever the model."""

from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from uncover.estimators.fitted import SaveMixin, learned
from uncover.estimators.groups import groups_for, read_groups
from uncover.estimators.inputs import encode, select_rows
from uncover.estimators.unknown import UnknownMixin, unknown_odds_of
from uncover.labels.training import main_class
from uncover.models.record import record_of
from uncover.models.sets import WithSets, samples_needed


class ConformalSets(UnknownMixin, SaveMixin, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Prediction sets with class-conditional (Mondrian) coverage.

    Part of the samples is kept from the model. A new input x is compared, class by class, with the kept
    samples of that class: with s = P(k | x),

        p_k(x) = (1 + #{i kept, y_i = k : P(k | x_i) ≤ s}) / (1 + n_k)

    is a p-value, and the set of x has the classes with p_k > 1 − coverage. Among inputs of any class, at
    least the share ``coverage`` has its class in the set, exactly and for every model, as long as new and
    kept samples of the class are exchangeable. Samples of a group are not, but groups are: with ``groups``,
    p_k is 1 and, for each of the G_k kept groups with class k, the share of its samples of the class with
    P(k | x_i) ≤ s, over 1 + G_k, and the coverage is that of samples of other groups. A set may be empty: no
    class is then as probable as it is for nearly all of its kept samples. Probabilities count in steps of
    1e-4, as maps store them, so that rounding decides nothing; equal ones count for the class.

    Parameters
    ----------
    estimator : classifier with predict_proba
    coverage : float
    kept : float
        Share of the samples that calibrates; the others train.
    random_state : int

    Attributes
    ----------
    classes_ : array of shape (class,)
    estimator_ : the fitted classifier
    model_ : WithSets
        The fitted value: the model and the kept samples.
    scores_ : tuple of arrays
        P(k | x_i) of the kept samples of each class, in steps of 1e-4, sorted.
    counts_ : tuple of arrays
        How much each of them counts: 1, or its share in its group.

    References
    ----------
    Vovk, Gammerman and Shafer (2005), Algorithmic Learning in a Random World, chapter 4.
    Lee, Barber and Willett (2023), Distribution-free inference with hierarchical data, arXiv:2306.06342.

    Examples
    --------
    >>> from uncover import BayesianLDA
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(300) % 2
    >>> X = rng.normal(size=(300, 1)) + 3.0 * y[:, None]
    >>> sets = ConformalSets(BayesianLDA(), coverage=0.95).fit(X, y)
    >>> sets.predict_set([[0.0], [1.5], [3.0]])
    array([[ True, False],
           [ True,  True],
           [False,  True]])
    """

    def __init__(self, estimator, coverage=0.9, kept=0.3, random_state=0):
        self.estimator = estimator
        self.coverage = coverage
        self.kept = kept
        self.random_state = random_state

    def fit(self, X, y, *, X_cov=None, groups=None):
        """Fit the model to part of the samples, and calibrate with the others.

        Parameters
        ----------
        X, y, X_cov
            As for the estimator. A covariance for each sample goes with ``Measured`` or as an array whose
            first axis is the sample.
        groups : array of shape (sample,), optional
            Samples that belong together (a polygon, a field). They are kept together, and estimators that
            leave groups out get them.
        """
        if not 0 < self.coverage < 1:
            raise ValueError(f"coverage must be between 0 and 1, got {self.coverage}.")
        y, groups = np.asarray(y), read_groups(groups, len(y))
        train, kept = self._split(y, groups)
        own, others = (None, None) if groups is None else (groups[train], groups[kept])
        options = {**_noise(X_cov, train, len(y)), **groups_for(self.estimator, own)}
        self.estimator_ = clone(self.estimator).fit(select_rows(X, train), y[train], **options)
        return self.calibrate(select_rows(X, kept), y[kept], **_noise(X_cov, kept, len(y)), groups=others)

    def _split(self, y, groups):
        """Samples that train, and samples that are kept: whole groups, a share of those of each class."""
        from sklearn.model_selection import StratifiedShuffleSplit

        if groups is None:
            splitter = StratifiedShuffleSplit(1, test_size=self.kept, random_state=self.random_state)
            return next(splitter.split(np.zeros(len(y)), y))
        rng = check_random_state(self.random_state)
        classes = main_class(np.unique(y, return_inverse=True)[1], groups)
        chosen = np.zeros(len(classes), dtype=bool)
        for k in np.unique(classes):
            mine = rng.permutation(np.flatnonzero(classes == k))
            chosen[mine[: min(max(round(self.kept * len(mine)), 1), len(mine) - 1)]] = True
        return np.flatnonzero(~chosen[groups]), np.flatnonzero(chosen[groups])

    def calibrate(self, X, y, *, X_cov=None, groups=None):
        """Calibrate with samples that the model has not seen; takes a fitted ``estimator`` as it is.

        With ``groups``, of shape (sample,), none of them may be a group that the model has seen.
        """
        if not hasattr(self, "estimator_"):
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator
        codes = encode(np.asarray(y), self.classes_)
        of_samples = None if groups is None else np.asarray(groups)
        sets = WithSets.of(self.estimator_, self._probability(X, X_cov), codes, self.coverage, of_samples)
        self._check_enough(sets.counts, "samples" if groups is None else "groups")
        self.model_ = sets
        return self

    def _check_enough(self, counts_of_classes, units):
        need = samples_needed(self.coverage)
        for name, counts in zip(self.classes_, counts_of_classes, strict=True):
            n = round(counts.sum())
            if n < need:
                raise ValueError(
                    f"class {str(name)!r} has {n} {units} to calibrate with; sets of coverage "
                    f"{self.coverage:g} need {need} of each class. Keep more, or lower the coverage."
                )

    classes_ = property(lambda self: self.estimator_.classes_)
    scores_, counts_ = learned("scores"), learned("counts")
    thresholds_ = learned("thresholds", "Probability from which on each class is in the set: shape (class,).")

    def p_values(self, X, X_cov=None):
        """Return the p-value of each class: shape (sample, class)."""
        probability = self.predict_proba(X, X_cov)
        return self.model_.p_values(probability)

    def predict_set(self, X, X_cov=None):
        """Return which classes are in the set of each sample: booleans of shape (sample, class)."""
        return self.inside(self.predict_proba(X, X_cov))

    def inside(self, probability):
        """Return which classes are in the set, from probabilities of the classes (..., class)."""
        check_is_fitted(self)
        return self.model_.inside(probability)

    def predict_proba(self, X, X_cov=None):
        """Return the probabilities of the estimator."""
        check_is_fitted(self)
        return self._probability(X, X_cov)

    def predict(self, X, X_cov=None):
        """Return the most probable class of each sample."""
        return self.classes_[self.predict_proba(X, X_cov).argmax(axis=1)]

    def _unknown_odds(self, X, X_cov, paired):
        return unknown_odds_of(self.estimator_, X, X_cov, paired)

    def _probability(self, X, X_cov):
        noise = {} if X_cov is None else {"X_cov": X_cov}
        return np.asarray(self.estimator_.predict_proba(X, **noise))

    def _record(self):
        inner = record_of(self.estimator_)
        parameters = {name: getattr(self, name) for name in ("coverage", "kept", "random_state")}
        return replace(inner, value=replace(self.model_, model=inner.value), set_parameters=parameters)


def _noise(X_cov, rows, n_samples):
    """Known noise of some samples, as an argument; what is common to all stays."""
    if X_cov is None:
        return {}
    noise = np.asarray(X_cov)
    own = noise.ndim == 3 or (noise.ndim == 2 and len(noise) == n_samples != noise.shape[1])
    return {"X_cov": noise[rows] if own else noise}
