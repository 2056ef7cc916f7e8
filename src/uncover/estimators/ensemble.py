"""Any scikit-learn classifier on inputs with realisations, or with known noise: averages over clones."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from uncover.bayes.population import UnknownOdds
from uncover.bayes.streams import stream
from uncover.estimators.choices import check_choice
from uncover.estimators.class_shares import shares_of
from uncover.estimators.inputs import (
    encode,
    read_inputs,
    read_labels,
    read_samples,
    read_weights,
    warn_of_single,
    warn_of_units,
)
from uncover.estimators.mixture import BayesianMDA
from uncover.estimators.predicting import warn_of_exactness
from uncover.estimators.unknown import UnknownMixin, unknown_odds_of
from uncover.models.drawn_noise import DrawnNoise
from uncover.models.realisations import KINDS, REALISATIONS_WITH_GAPS

_NOISE_ONLY_NOW = (
    "X has known noise, and the model was fitted without: fit with X_cov too (zeros, if the training samples "
    "are exact)."
)


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
        _check_estimator(self.estimator)
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


class MeasurementAware(UnknownMixin, MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Any scikit-learn classifier for inputs whose measurement errors are known.

    A classifier f that is trained on true values χ knows P(y | χ). For a measurement x of χ

        P(y | x) = E[f(y | χ)],   χ ~ p(χ | x) = Σ_k P(k | x) p(χ | x, k)

    with p(χ | k) of :class:`BayesianMDA`, from which the known noise is taken out. True values of the
    training samples are not known either: one clone of the classifier is trained on each of several drawn
    sets of them, χ_i ~ p(χ | x_i, y_i) (multiple imputation, Rubin 1987), and predicts its share of the draws
    of a new true value. Perturbing x with its own noise instead would count the noise twice.

    A missing feature (NaN) is drawn likewise: in training given the others and the class, in prediction given
    the others. Without known noise and missing features this is the classifier itself.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        Cloned, never fitted itself. Its ``random_state``, and those of its parts, are set for each clone.
    n_imputations : int, default 8
        Sets of true values of the training samples, and so clones.
    n_draws : int, default 64
        Draws of the true value of a new input, at least ``n_imputations``. All inputs have the same random
        numbers, and these lie evenly: what is said of one input does not depend on the others.
    realisations : "draws" or "repeats"
        Meaning of X of shape (sample, realisation, feature): draws of the error about a measurement, or
        repeated measurements. Worlds of a shared error are for :class:`RealisationEnsemble`.
    random_state : int or None, default 0
        Decides the draws and the clones.

    Attributes
    ----------
    ensemble_ : RealisationEnsemble
        The fitted clones.
    truth_ : BayesianMDA or None
        Density of the true values of each class; None where no noise was known and no feature missing.
    classes_ : array of shape (class,)
    n_features_in_ : int

    References
    ----------
    Rubin (1987), Multiple Imputation for Nonresponse in Surveys, Wiley.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 50)
    >>> X = rng.normal(size=(100, 2)) + 3.0 * y[:, None] + rng.normal(size=(100, 2))
    >>> forest = MeasurementAware(RandomForestClassifier(20)).fit(X, y, X_cov=[1.0, 1.0])
    >>> precise = forest.predict_proba([[3.0, 3.0]], X_cov=[0.01, 0.01])[0, 1]
    >>> rough = forest.predict_proba([[3.0, 3.0]], X_cov=[9.0, 9.0])[0, 1]
    >>> bool(precise > rough > 0.5)
    True
    """

    def __init__(self, estimator, n_imputations=8, n_draws=64, realisations="draws", random_state=0):
        self.estimator = estimator
        self.n_imputations = n_imputations
        self.n_draws = n_draws
        self.realisations = realisations
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None, *, X_cov=None):
        """Find the density of true values, draw those of the samples, and fit the clones to them.

        Parameters
        ----------
        X : array of shape (sample, feature) or (sample, realisation, feature), or Measured
        y : array of shape (sample,)
        sample_weight : array of shape (sample,), optional
        X_cov : array, optional
            Known noise of X, in the shapes of :meth:`BayesianQDA.fit`.

        Returns
        -------
        self
        """
        check_choice("realisations", self.realisations, ("draws", "repeats"))
        if not 1 <= self.n_imputations <= self.n_draws:
            raise ValueError(
                f"n_imputations must be at least 1 and at most n_draws, got {self.n_imputations} and "
                f"{self.n_draws}."
            )
        _check_estimator(self.estimator)
        self.drawn_noise_ = None
        given = read_inputs(self, X, X_cov, reset=True, allow_nan=True)
        warn_of_single(KINDS[self.realisations], given.X)
        if given.X.ndim == 3 and given.X.shape[1] > 1:
            self.drawn_noise_ = DrawnNoise.of(given.X)
        points, noise = self._measured(given)
        y = read_labels(self, y, len(points))
        sample_weight = read_weights(sample_weight, points)
        self.classes_, self.truth_, values = np.unique(y), None, points
        counts = np.bincount(encode(y, self.classes_), sample_weight)
        self.class_shares_ = counts / counts.sum()
        if noise is not None:
            names = getattr(self, "feature_names_in_", range(points.shape[1]))
            warn_of_units(noise, np.nanstd(points, axis=0), names)
        if noise is not None or np.isnan(points).any():
            self.truth_ = BayesianMDA().fit(points, y, sample_weight, X_cov=noise)
            rng, codes = stream(self.random_state, "imputed values"), encode(y, self.classes_)
            values = self.truth_.model_.true_values(points, noise, self.n_imputations, rng, codes)
        ensemble = RealisationEnsemble(self.estimator, self.random_state)
        self.ensemble_ = ensemble.fit(values, y, sample_weight)
        return self

    def predict_proba(self, X, X_cov=None, *, class_prior=None):
        """Class probabilities, averaged over true values of X: (sample, class).

        Where the model was fitted with known noise, X without it is taken as exact, and a missing feature
        (NaN) is drawn given the others. With ``class_prior``, class shares of the population that X is from,
        these count in place of those of the training samples.
        """
        P = self._probability(X, X_cov)
        if class_prior is None:
            return P
        P = P * shares_of(class_prior, len(self.classes_)) / self.class_shares_
        return P / P.sum(axis=1, keepdims=True)

    def _probability(self, X, X_cov):
        points, noise = self._read_new(X, X_cov)
        if noise is None and self._knows_noise:
            warn_of_exactness()
        if noise is None and not np.isnan(points).any():
            return self.ensemble_.predict_proba(points)
        rng = stream(self.random_state, "true values")
        return self.ensemble_.predict_proba(self.truth_.model_.true_values(points, noise, self.n_draws, rng))

    def _read_new(self, X, X_cov):
        """Measured values of new samples and their noise, if the model knows what to do with it."""
        check_is_fitted(self)
        given = read_inputs(self, X, X_cov, reset=False, allow_nan=True)
        if self.truth_ is None and given.lacks_features:
            raise ValueError(
                "X has NaN, and the model was fitted to samples that lack no feature and without known "
                "noise: what is missing is not known to it. Fit with X_cov (zeros, if these are exact)."
            )
        points, noise = self._measured(given)
        if noise is not None and not self._knows_noise:
            raise ValueError(_NOISE_ONLY_NOW)
        return points, noise

    @property
    def _knows_noise(self):
        return self.truth_ is not None and self.truth_.model_.describes_true_values

    def _unknown_odds(self, X, X_cov, paired):
        """Those of the density of true values; where none was needed, of the classifier, if it has them."""
        points, noise = self._read_new(X, X_cov)
        source = self.ensemble_ if self.truth_ is None else self.truth_
        return unknown_odds_of(source, points, noise, paired)

    def predict_log_proba(self, X, X_cov=None):
        """Logarithms of the class probabilities: (sample, class)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, X_cov))

    def predict(self, X, X_cov=None):
        """The most probable class: (sample,)."""
        probability = self.predict_proba(X, X_cov)
        return self.classes_[probability.argmax(axis=1)]

    def _measured(self, given):
        """Measured values of samples, (sample, feature), and the covariances of their errors."""
        if given.systematic is not None:
            raise ValueError(
                "X has a systematic covariance, an error that all samples share, and only those "
                "of single samples are taken. Use BayesianClassifier, or worlds of it in RealisationEnsemble."
            )
        if given.X.ndim == 2:
            return given.X, given.noise
        if given.lacks_features:
            raise ValueError(REALISATIONS_WITH_GAPS)
        points, R = given.X.mean(axis=1), given.X.shape[1]
        if self.drawn_noise_ is None:
            return points, None
        noise = self.drawn_noise_.of_classes(given.X)[0]  # (1 + 1/R) times that of one draw
        if self.realisations == "repeats":
            noise = noise.divided_by(np.full(points.shape[1], np.sqrt(R + 1.0)))
        return points, noise

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags.allow_nan = True
        tags.classifier_tags = inner.classifier_tags
        tags.non_deterministic = inner.non_deterministic and self.random_state is None
        return tags


def _check_estimator(estimator):
    if not hasattr(estimator, "predict_proba"):
        raise ValueError(
            f"estimator {type(estimator).__name__} has no predict_proba, and class probabilities are "
            "averaged. Choose one that has, or wrap it in CalibratedClassifierCV."
        )


def _with_realisations(X):
    return X if X.ndim == 3 else X[:, None, :]
