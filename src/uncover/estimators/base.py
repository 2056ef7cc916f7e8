"""What all generative classifiers share: fitting, by one pass of statistics and an update of the prior."""

import warnings
from abc import ABC, abstractmethod

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from uncover.bayes.deconvolved import DeconvolvedNIW
from uncover.bayes.linalg import independent_features
from uncover.bayes.niw import NIW
from uncover.bayes.priors import Spread
from uncover.estimators.arrays import on_device, to_host
from uncover.estimators.atomic import all_or_nothing
from uncover.estimators.calibration import (
    calibrate,
    check_calibration,
    held_out_log_joint,
    scored_weight,
)
from uncover.estimators.deconvolution import (
    noise_of_classes,
    points_of_repeats,
    variances_without_noise,
    without_noise,
)
from uncover.estimators.describe import advice_on_prior
from uncover.estimators.evidence import EvidenceMixin, jeffreys_prior, too_small_for_jeffreys
from uncover.estimators.inputs import read_device_samples, read_inputs, warn_of_units
from uncover.estimators.label_noise import MEANINGS, learn_from_certainties, learn_from_noisy_labels
from uncover.estimators.membership import read_membership
from uncover.estimators.predicting import PredictionMixin
from uncover.estimators.sources import SourcesMixin
from uncover.estimators.values import Inputs, check_choice

PRIORS = ("weak", "evidence", "jeffreys")
# Samples a feature below which the weak prior calls for a warning.
_FAR_TOO_FEW = 0.25
_PRIOR_NAMES = ", ".join(f'"{name}"' for name in PRIORS)


class GenerativeClassifier(PredictionMixin, SourcesMixin, EvidenceMixin, ClassifierMixin, BaseEstimator, ABC):
    """Base of the Bayesian generative classifiers.

    A subclass says what its class model is by two methods: ``_weak_prior(moments, variance)``, the default
    prior, and ``_update(prior, moments)``, the posterior: a :class:`~uncover.NIW` or a subclass of it. If it
    can learn through known noise, ``_update_through_noise(prior, points, noise, membership)`` says how.
    """

    def __init__(
        self,
        prior="weak",
        class_prior=1.0,
        realisations="pooled",
        calibration=None,
        label_noise=None,
        missing="error",
        random_state=0,
    ):
        self.prior = prior
        self.class_prior = class_prior
        self.realisations = realisations
        self.calibration = calibration
        self.label_noise = label_noise
        self.missing = missing
        self.random_state = random_state

    # ---- what a class model has to say -----------------------------------------------------------

    @abstractmethod
    def _weak_prior(self, moments, variance=None):
        """Return the default prior for classes with these moments; no feature is constant.

        ``variance`` (class, feature) stands in for that of the moments where noise is known.
        """

    @abstractmethod
    def _update(self, prior, moments):
        """Return the posterior: the prior updated with the moments of the classes."""

    def _evidence_prior(self, moments, rows_per_sample):
        """Return the prior of the highest evidence; ``rows_per_sample`` rows are one sample."""
        raise ValueError(f'{type(self).__name__} has no prior="evidence"; use "weak" or a NIW.')

    def _echo_in_prior(self):
        """Return how much of the scatter of each sample is in the prior of every class."""
        return 0.0

    def _update_through_noise(self, prior, points, noise, membership):
        """Return the posterior of true values, from points whose noise is known."""
        raise ValueError(f"{type(self).__name__} cannot learn through known noise; fit it without X_cov.")

    def _check_noise(self, noise):
        """Refuse known noise that the class model cannot take."""

    def _given_prior(self, prior, classes):
        """Return a prior given by the user, as one NIW with a batch axis of classes."""
        if isinstance(prior, NIW) and prior.batch_shape in ((), (len(classes),)):
            each = [prior if prior.batch_shape == () else prior[k] for k in range(len(classes))]
        elif isinstance(prior, dict):
            each = _in_order_of_classes(prior, classes)
        elif isinstance(prior, (list, tuple)):
            each = list(prior)
        else:
            raise ValueError(
                f"prior must be {_PRIOR_NAMES}, a NIW, or one NIW for each class (a list in the order of "
                f"classes_, or a dictionary); got {prior!r}."
            )
        strange = [type(one).__name__ for one in each if not isinstance(one, NIW)]
        if len(each) != len(classes) or strange:
            what = f"{len(each)} entries" + (f", among them {strange[0]}" if strange else "")
            raise ValueError(f"prior needs one NIW for each of the {len(classes)} classes, got {what}.")
        if any(one.n_features != self.n_features_in_ for one in each):
            sizes = sorted({one.n_features for one in each})
            raise ValueError(f"prior is for {sizes} features, X has {self.n_features_in_}.")
        return NIW(*(np.stack([getattr(one, name) for one in each]) for name in NIW.parameters()))

    # ---- fitting ---------------------------------------------------------------------------------

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
            (sample, feature, feature) covariances. The class models then describe true values.
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
        inputs = self._read_training(X, X_cov, reset=True, only_moments=not judged)
        y = to_host(y)
        membership, self.classes_ = read_membership(self, y, label_proba, classes, sample_weight, inputs.X)
        kind = self._kind()
        kind.warn_of_single(inputs.X)
        check_choice("missing", self.missing, ("error", "marginalise"))
        uncertain = judged and membership.uncertain
        groups = check_calibration(self, groups, len(inputs.X), uncertain)
        self.systematic_ = inputs.systematic
        self.known_noise_ = None if inputs.noise is None else inputs.noise.matrices().mean(0)
        if inputs.noise is not None:
            self._check_noise(inputs.noise)
            warn_of_units(inputs.noise, inputs.X.std(0), self._feature_names())
        self.statistics_ = kind.collect(inputs.X, membership)
        self._conclude(kind.measured(inputs, membership.weight), membership)
        self._warn_of_empty_classes()
        self._warn_of_the_weak_prior()
        if self.label_noise is not None:
            learn_from_noisy_labels(self, inputs, membership)
        elif uncertain:
            learn_from_certainties(self, inputs, membership)
        if self.calibration is not None:
            held_out = held_out_log_joint(self, inputs, membership, groups)
            weight = scored_weight(scored, membership.weight, len(inputs.X))
            found = calibrate(held_out, membership.targets(), weight)
            self.temperature_, self.class_scale_ = found
        return self

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
        first = not hasattr(self, "statistics_")
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        inputs = self._read_training(X, None, reset=first)
        kind = self._kind()
        if self.calibration is not None:
            raise ValueError('partial_fit cannot calibrate: calibration="loo" needs all samples. Use fit.')
        kind.warn_of_single(inputs.X)
        if kind.knows_noise(inputs) or self.label_noise is not None or inputs.systematic is not None:
            raise ValueError(
                "partial_fit cannot take known noise (X_cov, Measured, draws) or label_noise: they need "
                "all samples at once. Use fit."
            )
        known = np.unique(classes) if first else self.classes_
        if classes is not None and not np.array_equal(np.unique(classes), known):
            raise ValueError(
                f"classes are {np.unique(classes).tolist()} in this call to partial_fit and were "
                f"{known.tolist()} in the first one."
            )
        membership, known = read_membership(self, to_host(y), None, known, sample_weight, inputs.X)
        new = kind.collect(inputs.X, membership)
        if not first:
            self._check_same_realisations(kind, new)
            new = self.statistics_ + new
        _check_range(new.classes)
        self.classes_, self.statistics_ = known, new
        self.systematic_ = self.known_noise_ = None
        if isinstance(self.prior, str) and _constant_features(Spread.of(new.classes)).all():
            warnings.warn(
                "every feature has been constant so far: nothing can be predicted until samples that "
                "differ have come.",
                UserWarning,
                stacklevel=3,
            )
            return self
        return self._conclude(None, membership)

    def _read_training(self, X, X_cov, *, reset, only_moments=True):
        """Inputs to learn from; on a device they stay, if all that is needed of them are moments."""
        only_moments &= X_cov is None and self.label_noise is None and self.calibration is None
        if on_device(X) and only_moments and self.realisations != "draws":
            return Inputs(read_device_samples(self, X, reset=reset))
        return read_inputs(self, X, X_cov, reset=reset)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "posterior_")

    def _check_same_realisations(self, kind, new):
        before = self.statistics_.realisations
        if (
            isinstance(getattr(self, "posterior_", None), DeconvolvedNIW)
            and not self._repeats_of_true_values()
        ):
            raise ValueError("this model was fitted with known noise; partial_fit cannot add to it. Use fit.")
        if kind.same_number and new.realisations != before:
            raise ValueError(
                f"X has {new.realisations} realisations, the samples before had {before}; "
                f'realisations="{kind.name}" needs the same number in every call.'
            )

    def _conclude(self, measured, membership, *, keep_prior=False):
        """Work out prior and posterior from the statistics, or from points of known noise."""
        moments, K = self.statistics_.classes, len(self.classes_)
        _check_range(moments)
        self.class_prior_ = concentration(self.class_prior, K)
        self.class_count_ = moments.count.reshape(-1, K)[0]
        self.temperature_, self.class_scale_ = 1.0, np.ones(K)
        if not keep_prior:
            self._set_ignored_features(moments)
        used = ~self.ignored_features_
        moments = moments.select_features(used)
        if measured is not None:
            points, noise = measured
            measured = (points[:, used], noise.select_features(used), membership)
        elif self._repeats_of_true_values():
            measured = points_of_repeats(self.statistics_)
        if not keep_prior:
            self.prior_ = self._make_prior(moments, measured)
        self.class_noise_ = self.noise_evenness_ = None
        if measured is None:
            self.posterior_ = self._update(self.prior_, moments)
        else:
            self.class_noise_, self.noise_evenness_ = noise_of_classes(*measured)
            self.posterior_ = self._update_through_noise(self.prior_, *measured)
            self._warn_of_convergence()
        return self

    def _repeats_of_true_values(self):
        """Whether a prior that a user gave for true values meets means of repeats, which have noise."""
        explicit = not isinstance(self.prior, str)
        return explicit and self.realisations == "repeats" and self.statistics_.noise is not None

    def _make_prior(self, moments, measured):
        if not isinstance(self.prior, str):
            return self._given_prior(self.prior, self.classes_)
        if self.prior == "evidence":
            prior = self._evidence_prior(moments, self.statistics_.rows_per_sample(self._kind()))
            return prior if measured is None else without_noise(prior, *measured)
        if self.prior == "jeffreys":
            return jeffreys_prior(self, moments, measured)
        variance = None if measured is None else variances_without_noise(*measured)
        return self._weak_prior(moments, variance)

    def _lacking_for_jeffreys(self, count, p):
        """Say which samples are too few for an improper prior, by their counts (world, class); or None."""
        return too_small_for_jeffreys(self.classes_, count, p)

    def _set_ignored_features(self, moments):
        """Find the features that the default prior cannot use, and say what it borrows."""
        self.ignored_features_ = np.zeros(self.n_features_in_, dtype=bool)
        if not isinstance(self.prior, str):
            return
        check_choice("prior", self.prior, PRIORS, "a NIW, or one NIW for each class")
        total = moments.count.reshape(-1, len(self.classes_))[0].sum()
        if total <= 1:
            raise ValueError(
                f"the samples (with weights, the sum of these) number {total:g} in all; a spread needs more "
                "than 1. Give more samples, or scale the weights up."
            )
        spread = Spread.of(moments)
        ignored = _constant_features(spread)
        if ignored.all():
            raise ValueError(
                "every feature of X is constant, or varies by rounding only: there is nothing to tell "
                "classes apart by."
            )
        self.ignored_features_ = ignored | self._following_features(moments, ignored)
        seen = moments.count > 0
        borrows = self.prior == "weak"
        self._warn_of_borrowing(ignored, spread.borrowed & seen[..., None] & ~ignored & borrows)

    def _following_features(self, moments, constant):
        """Find features that follow from others: a covariance that all classes share would be singular.

        The weak prior, which has none, uses them. With fewer samples than features nothing is known of it.
        """
        following = np.zeros_like(constant)
        samples = self.class_count_.sum() / self.statistics_.rows_per_sample(self._kind())
        used = np.flatnonzero(~constant)
        if self.prior == "weak" or samples - len(self.classes_) <= len(used):
            return following
        total = moments.select_features(used).sum(-1).scatter.reshape(-1, len(used), len(used))
        following[used] = ~np.any([independent_features(scatter) for scatter in total], axis=0)
        if following.any():
            warnings.warn(
                f"feature(s) {self._feature_list(following)} follow from the others, as a sum or a scaled "
                "copy does, and are ignored.",
                UserWarning,
                stacklevel=5,
            )
        return following

    def _warn_of_empty_classes(self):
        """Weight 0 is the same as no sample: allowed, but a class that never wins should not surprise."""
        empty = self.classes_[self.class_count_ == 0].tolist()
        if empty and isinstance(self.prior, str) and self.prior == "weak":
            warnings.warn(
                f"class(es) {', '.join(map(repr, empty))} have no sample of positive weight and get "
                "probability 0; give samples or weights, or a prior of your own.",
                UserWarning,
                stacklevel=3,
            )

    def _warn_of_the_weak_prior(self):
        """Say what to use where the weak prior knows too little of the covariances."""
        advice = advice_on_prior(self, samples=_FAR_TOO_FEW)
        if advice:
            warnings.warn(advice, UserWarning, stacklevel=3)

    def _warn_of_convergence(self):
        if not np.all(self.posterior_.converged):
            warnings.warn(
                "taking the noise out of the spread of the classes did not come to rest; the noise may be "
                "too large for the number of samples.",
                UserWarning,
                stacklevel=4,
            )

    def _warn_of_borrowing(self, ignored, borrowed):
        if ignored.any():
            warnings.warn(
                f"feature(s) {self._feature_list(ignored)} are constant and are ignored.",
                UserWarning,
                stacklevel=5,
            )
        each = borrowed.reshape(-1, len(self.classes_), self.n_features_in_).any(0)
        if each.any():
            names = [repr(name) for name in self.classes_[each.any(1)].tolist()]
            warnings.warn(
                f"class(es) {', '.join(names)} have no variance of their own in feature(s) "
                f"{self._feature_list(each.any(0))} (one sample, or equal values); the weak prior takes the "
                "variance within all classes instead.",
                UserWarning,
                stacklevel=5,
            )

    def _feature_names(self):
        return getattr(self, "feature_names_in_", np.arange(self.n_features_in_))

    def _feature_list(self, mask):
        chosen = [str(name) for name in self._feature_names()[mask]]
        return ", ".join(chosen[:8]) + (f", … ({len(chosen)} in all)" if len(chosen) > 8 else "")


def _check_range(moments):
    if not np.isfinite(moments.scatter).all():
        raise ValueError("squares of X leave the range of floating point numbers; rescale the features.")


def _constant_features(spread):
    """Return which features are constant, in any world."""
    return np.any(spread.constant.reshape(-1, spread.constant.shape[-1]), axis=0)


def _in_order_of_classes(prior, classes):
    missing = [name for name in classes.tolist() if name not in prior]
    if missing:
        raise ValueError(f"prior has no NIW for the class(es) {missing}.")
    return [prior[name] for name in classes.tolist()]


def concentration(class_prior, n_classes):
    """Dirichlet parameters α of the class proportions."""
    try:
        alpha = np.asarray(class_prior, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"class_prior must be a number or one number for each class, got {class_prior!r}."
        ) from None
    if alpha.shape not in ((), (n_classes,)):
        raise ValueError(
            f"class_prior must be a number or one number for each of the {n_classes} classes, "
            f"got shape {alpha.shape}."
        )
    if not np.all(np.isfinite(alpha) & (alpha > 0)):
        raise ValueError(f"class_prior must be positive and finite, got {class_prior!r}.")
    return np.broadcast_to(alpha, (n_classes,)).copy()
