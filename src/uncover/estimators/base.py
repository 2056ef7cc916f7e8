"""Common base of all generative classifiers: samples in, one pass of statistics, a fitted value out."""

from dataclasses import replace
from functools import wraps

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from uncover.engines.arrays import on_device, to_host
from uncover.estimators.calibration import (
    calibrate,
    check_calibration,
    held_out_log_joint,
    scored_weight,
)
from uncover.estimators.choices import check_choice
from uncover.estimators.describe import advice_on_prior, measurement_of
from uncover.estimators.fitted import SaveMixin
from uncover.estimators.inputs import (
    read_device_samples,
    read_inputs,
    takes_gaps,
    to_learn_from,
    warn_of_single,
    warn_of_units,
)
from uncover.estimators.label_noise import MEANINGS, learn_from_certainties, learn_from_noisy_labels
from uncover.estimators.membership import read_membership
from uncover.estimators.predicting import PredictionMixin
from uncover.measurement.observation import Observation
from uncover.models.class_model import ClassModel
from uncover.models.fit import PRIORS, NoisyPoints, check_range, constant_features, fit
from uncover.models.realisations import KINDS
from uncover.warn import warn

# Samples a feature below which the weak prior calls for a warning.
_FAR_TOO_FEW = 0.25


def all_or_nothing(method):
    """Put an estimator back as it was where a method raises."""

    @wraps(method)
    def call(self, *args, **kwargs):
        before = dict(vars(self))
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return call


class GenerativeClassifier(PredictionMixin, SaveMixin, ClassifierMixin, BaseEstimator):
    """Base of the Bayesian generative classifiers.

    A subclass has a ``class_model``, a :class:`~uncover.models.class_model.ClassModel`.
    What is learned is a frozen value, ``model_``; the learned attributes are read from it.
    """

    class_model: ClassModel

    def __init__(
        self,
        prior="weak",
        class_prior=1.0,
        realisations="pooled",
        calibration=None,
        label_noise=None,
        missing="marginalise",
        random_state=0,
    ):
        self.prior = prior
        self.class_prior = class_prior
        self.realisations = realisations
        self.calibration = calibration
        self.label_noise = label_noise
        self.missing = missing
        self.random_state = random_state

    def fit(
        self,
        X,
        y=None,
        sample_weight=None,
        *,
        X_cov=None,
        label_proba=None,
        label_meaning="certainty",
        classes=None,
        groups=None,
        scored=None,
    ):
        """Fit the class models.

        Parameters
        ----------
        X : array of shape (sample, feature) or (sample, realisation, feature), or Measured
            Also a pandas data frame, or an xarray data array with dimensions ``band``, ``realisation``.
        y : array of shape (sample,)
            Class labels.
        sample_weight : array of shape (sample,), optional
            Weight 2 is the same as having the sample twice; not with ``calibration="loo"``, where it is left
            out as one, while of two equal samples one tells of the other.
        X_cov : array, optional
            Known noise of X: (feature,) or (sample, feature) variances, (feature, feature) or
            (sample, feature, feature) covariances. The class models then describe true values. Worlds
            (``"pooled"`` and ``"shared"``) have it too, beside the error that samples share.
        label_proba : array of shape (sample, class), optional
            Probability of each class for each sample, in place of y.
        label_meaning : "certainty" or "posterior"
            Whether ``label_proba`` was judged without X (an annotator who says how sure a label is), so that
            what X tells comes on top; or is P(class | X), from another model say, and X tells no more.
        classes : array, optional
            Names of the columns of ``label_proba``; with y, all classes that there are.
        groups : array of shape (sample,), optional
            Samples that belong together (a polygon, a field): with ``calibration="loo"`` they are left out
            together, because one tells much about the others.
        scored : array of bool of shape (sample,), optional
            Samples that count when they are left out, such as those far from samples of other groups.

        Returns
        -------
        self
        """
        check_choice("label_meaning", label_meaning, MEANINGS)
        judged = label_proba is not None and label_meaning == "certainty"
        observation = self._read_training(X, X_cov, reset=True, only_moments=not judged)
        membership, classes = read_membership(
            self, to_host(y), label_proba, classes, sample_weight, observation.X
        )
        observation = to_learn_from(self, observation, membership)
        uncertain = judged and membership.uncertain
        groups = check_calibration(self, groups, len(observation.X), uncertain)
        model = learn(self, observation, membership, classes)
        if self.label_noise is not None:
            model = learn_from_noisy_labels(model, self.label_noise, observation, membership)
        elif uncertain:
            model = learn_from_certainties(model, observation, membership)
        if self.calibration is not None:
            held_out = held_out_log_joint(model, observation, membership, groups)
            weight = scored_weight(scored, membership.weight, len(observation.X))
            model = model.calibrated(*calibrate(held_out, membership.targets(), weight))
        return self._keep(model)

    @all_or_nothing
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Add samples to the fit. Any split of the data gives the model of ``fit``, to rounding.

        Known noise and noisy labels need all samples at once: use ``fit`` for them.

        Parameters
        ----------
        X, y, sample_weight
            As in ``fit``.
        classes : array, optional
            All classes that will ever come; needed in the first call. A class that has had no sample gets
            probability 0 with ``prior="weak"``, which has nothing to say about it.

        Returns
        -------
        self
        """
        before = self._collected()
        if before is None and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        known = np.unique(classes) if before is None else before[0]
        if classes is not None and not np.array_equal(np.unique(classes), known):
            raise ValueError(
                f"classes are {np.unique(classes).tolist()} in this call to partial_fit and were "
                f"{known.tolist()} in the first one."
            )
        new = self.collect(X, y, known, sample_weight, after=None if before is None else before[1])
        return self.fit_statistics(known, new)

    def collect(self, X, y, classes, sample_weight=None, *, after=None):
        """Return statistics of samples, for :meth:`fit_statistics` when all have come.

        Parameters
        ----------
        X, y, sample_weight
            As in ``fit``.
        classes : array
            All classes that there are.
        after : Statistics, optional
            Of samples before these, which are added; they had the same features.

        Returns
        -------
        Statistics
        """
        observation = self._read_training(X, None, reset=after is None)
        kind = check_kind(self)
        if self.calibration is not None:
            raise ValueError('partial_fit cannot calibrate: calibration="loo" needs all samples. Use fit.')
        if after is None:
            warn_of_single(kind, observation.X)
        known = observation.noise is not None or observation.systematic is not None
        if known or kind.knows_noise(observation.structure) or self.label_noise is not None:
            raise ValueError(
                "partial_fit cannot take known noise (X_cov, Measured, draws) or label_noise: they need "
                "all samples at once. Use fit."
            )
        classes = np.unique(classes)
        membership, _ = read_membership(self, to_host(y), None, classes, sample_weight, observation.X)
        new = kind.collect(observation.X, membership)
        return new if after is None else kind.add(after, new)

    def fit_statistics(self, classes, statistics):
        """Fit the class models to statistics of samples, as :meth:`collect` returns them.

        Parameters
        ----------
        classes : array
            All classes that there are.
        statistics : Statistics

        Returns
        -------
        self

        Examples
        --------
        >>> from uncover import BayesianQDA
        >>> clf, labels = BayesianQDA(), ["high", "low"]
        >>> statistics = clf.collect([[0.0], [0.2], [2.0]], ["low", "low", "high"], labels)
        >>> statistics = clf.collect([[0.1], [2.3]], ["low", "high"], labels, after=statistics)
        >>> clf.fit_statistics(labels, statistics).class_count_
        array([2., 3.])
        """
        classes = np.unique(classes)
        check_range(statistics.classes)
        if isinstance(self.prior, str) and constant_features(statistics.classes).all():
            warn(
                "every feature has been constant so far: nothing can be predicted until samples that "
                "differ have come.",
            )
            self._waiting = classes, statistics
            return self
        return self._keep(conclude(self, classes, statistics))

    def _keep(self, model):
        self.model_ = model
        vars(self).pop("_waiting", None)
        return self

    def _collected(self):
        """Classes and statistics of the samples so far, or None."""
        if hasattr(self, "_waiting"):
            return self._waiting
        if not hasattr(self, "model_"):
            return None
        model = self.model_
        through_repeats = model.prior_name is None and model.realisations == "repeats"
        if model.describes_true_values and not (through_repeats and model.statistics.noise is not None):
            raise ValueError("this model was fitted with known noise; partial_fit cannot add to it. Use fit.")
        if model.has_gaps and model.statistics.gaps is None:
            raise ValueError(
                "this model was fitted to samples that lack features, of which a model file keeps no sums; "
                "partial_fit cannot add to it. Fit it again."
            )
        return model.classes, model.statistics

    def _read_training(self, X, X_cov, *, reset, only_moments=True):
        """Samples to learn from; on a device they stay, if all that is needed of them are moments."""
        only_moments &= X_cov is None and self.label_noise is None and self.calibration is None
        if on_device(X) and only_moments and self.realisations != "draws":
            return Observation(read_device_samples(self, X, reset=reset))
        return read_inputs(self, X, X_cov, reset=reset, allow_nan=takes_gaps(self))

    @property
    def measurement_(self):
        """Measurement uncertainty of the training data, as far as it is known."""
        return measurement_of(self.model_)

    @property
    def sources_(self):
        """The five sources of uncertainty of the method, by name."""
        return {
            "class prior": self.class_prior_,
            "model prior": self.prior_,
            "measurement": self.measurement_,
            "model posterior": self.posterior_,
            "class posterior": self.class_posterior_,
        }

    @property
    def log_evidence_(self):
        """Log marginal likelihood of the training samples given their classes, log p(X | y).

        With a prior of strength > 0 it is that of the samples. With ``prior="evidence"``, whose means are
        free, it is that of the deviations from the class means (as many as samples less classes): comparable
        between models of the same samples and features with that prior. Where a sample counts for several
        rows (``"pooled"``), they count as one; over worlds (``"shared"``) it is the mean.
        """
        check_is_fitted(self)
        return self.model_.log_evidence


def learn(estimator, observation, membership, classes, components=None):
    """Fit the class model of an estimator to samples that have been read: the value that it keeps.

    ``membership`` is that of the components of the classes, which are the classes where None are given.
    """
    kind = check_kind(estimator)
    warn_of_single(kind, observation.X)
    if observation.noise is not None:
        estimator.class_model.check_noise(observation.noise)
        warn_of_units(observation.noise, np.nanstd(observation.X, axis=0), estimator._feature_names())
    statistics = kind.collect(observation.X, membership)
    found = kind.measured(observation.X, observation.noise, membership, statistics.drawn)
    measured = None if found is None else NoisyPoints.of(*found, membership)
    model = conclude(estimator, classes, statistics, measured, components)
    known_noise = None if observation.noise is None else observation.noise.matrices().mean(0)
    model = replace(model, systematic=observation.systematic, known_noise=known_noise)
    _warn_of_empty_classes(model)
    _warn_of_the_weak_prior(model)
    return model


def conclude(estimator, classes, statistics, measured=None, components=None):
    """Fit the class model of an estimator to statistics."""
    if isinstance(estimator.prior, str):
        check_choice("prior", estimator.prior, PRIORS, "a NIW, or one NIW for each class")
    return fit(
        statistics,
        class_model=estimator.class_model,
        classes=classes,
        prior=estimator.prior,
        class_prior=estimator.class_prior,
        realisations=estimator.realisations,
        measured=measured,
        components=components,
        feature_names=getattr(estimator, "feature_names_in_", None),
        seed=estimator.random_state,
    )


def check_kind(estimator):
    """Return the meaning of several realisations of a sample to an estimator."""
    check_choice("realisations", estimator.realisations, sorted(KINDS))
    return KINDS[estimator.realisations]


def _warn_of_empty_classes(model):
    """Weight 0 is the same as no sample: allowed, but a class that never wins should not surprise."""
    empty = model.classes[model.class_count == 0].tolist()
    if empty and model.prior_name == "weak":
        warn(
            f"class(es) {', '.join(map(repr, empty))} have no sample of positive weight and get "
            "probability 0; give samples or weights, or a prior of your own.",
        )


def _warn_of_the_weak_prior(model):
    """Say what to use where the weak prior knows too little of the covariances."""
    advice = advice_on_prior(model, samples=_FAR_TOO_FEW)
    if advice:
        warn(advice)
