"""What all generative classifiers share: fitting from statistics, and ``predict*`` from one log-joint."""

import warnings
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from uncover.bayes.budget import UncertaintyBudget
from uncover.bayes.deconvolved import DeconvolvedNIW
from uncover.bayes.niw import NIW
from uncover.bayes.priors import Spread
from uncover.bayes.streams import stream
from uncover.estimators.attribution import ModelDraws, average_budgets, split_sight
from uncover.estimators.deconvolution import variances_without_noise
from uncover.estimators.describe import describe
from uncover.estimators.inputs import read_inputs, warn_of_units
from uncover.estimators.label_noise import learn_from_noisy_labels
from uncover.estimators.membership import read_membership
from uncover.estimators.reading import Reader
from uncover.estimators.realisations import KINDS


class PosteriorDraws(NamedTuple):
    """Draws from the posterior of a fitted model."""

    phi: np.ndarray  # (draw, class), class proportions
    mu: np.ndarray  # (draw, class, feature)
    Sigma: np.ndarray  # (draw, class, feature, feature)


class Measurement(NamedTuple):
    """What a fitted model knows of the measurement uncertainty of its training data."""

    realisations: str  # what several realisations of one sample were taken to mean
    number: int  # R, of each sample; 0 where it varied
    covariance: np.ndarray | None  # (feature, feature) of one realisation; of the common error if "shared"
    dof: float  # degrees of freedom of that estimate


class GenerativeClassifier(ClassifierMixin, BaseEstimator, ABC):
    """Base of the Bayesian generative classifiers.

    A subclass says what its class model is by three methods: ``_weak_prior(moments, variance)``, the default
    prior; ``_update(prior, moments)``, the posterior: an object with ``predictive()`` and
    ``draw(n, rng)``; and ``_update_through_noise(prior, points, noise, membership)``, the same for
    samples of known noise.
    """

    def __init__(
        self,
        prior="weak",
        class_prior=1.0,
        realisations="pooled",
        label_noise=None,
        missing="error",
        random_state=0,
    ):
        self.prior = prior
        self.class_prior = class_prior
        self.realisations = realisations
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

    @abstractmethod
    def _update_through_noise(self, prior, points, noise, membership):
        """Return the posterior of true values, from points whose noise is known."""

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
                f'prior must be "weak", a NIW, or one NIW for each class (a list in the order of classes_, '
                f"or a dictionary); got {prior!r}."
            )
        if len(each) != len(classes) or not all(isinstance(one, NIW) for one in each):
            raise ValueError(f"prior needs one NIW for each of the {len(classes)} classes, got {len(each)}.")
        if any(one.n_features != self.n_features_in_ for one in each):
            sizes = sorted({one.n_features for one in each})
            raise ValueError(f"prior is for {sizes} features, X has {self.n_features_in_}.")
        return NIW(*(np.stack([getattr(one, name) for one in each]) for name in NIW.parameters()))

    # ---- fitting ---------------------------------------------------------------------------------

    def fit(self, X, y=None, sample_weight=None, *, X_cov=None, label_proba=None, classes=None):
        """Fit the class models.

        Parameters
        ----------
        X : array of shape (sample, feature) or (sample, realisation, feature), or Measured
            Also a pandas data frame, or an xarray data array with dimensions ``band``, ``realisation``.
        y : array of shape (sample,)
            Class labels.
        sample_weight : array of shape (sample,), optional
            Weight 2 is the same as having the sample twice.
        X_cov : array, optional
            Known noise of X: (feature,) or (sample, feature) variances, (feature, feature) or
            (sample, feature, feature) covariances. The class models then describe true values.
        label_proba : array of shape (sample, class), optional
            Probability of each class for each sample, in place of y.
        classes : array, optional
            Names of the columns of ``label_proba``; with y, all classes that there are.

        Returns
        -------
        self
        """
        inputs = read_inputs(self, X, X_cov, reset=True)
        membership, self.classes_ = read_membership(self, y, label_proba, classes, sample_weight, inputs.X)
        kind = self._kind()
        _check_choice("missing", self.missing, ("error", "marginalise"))
        self.systematic_ = inputs.systematic
        if inputs.noise is not None:
            self._check_noise(inputs.noise)
            warn_of_units(inputs.noise, inputs.X.std(0), self._feature_names())
        self.statistics_ = kind.collect(inputs.X, membership)
        self._conclude(kind.measured(inputs), membership)
        if self.label_noise is not None:
            learn_from_noisy_labels(self, inputs, membership)
        return self

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
        inputs = read_inputs(self, X, reset=first)
        kind = self._kind()
        if kind.measured(inputs) is not None or self.label_noise is not None or inputs.systematic is not None:
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
        membership, known = read_membership(self, y, None, known, sample_weight, inputs.X)
        new = kind.collect(inputs.X, membership)
        if not first:
            self._check_same_realisations(kind, new)
            new = self.statistics_ + new
        self.classes_, self.statistics_, self.systematic_ = known, new, None
        return self._conclude(None, membership)

    def _check_same_realisations(self, kind, new):
        before = self.statistics_.realisations
        if isinstance(getattr(self, "posterior_", None), DeconvolvedNIW):
            raise ValueError("this model was fitted with known noise; partial_fit cannot add to it. Use fit.")
        if kind.same_number and new.realisations != before:
            raise ValueError(
                f"X has {new.realisations} realisations, the samples before had {before}; "
                f'realisations="{kind.name}" needs the same number in every call.'
            )

    def _conclude(self, measured, membership, *, keep_prior=False):
        """Work out prior and posterior from the statistics, or from points of known noise."""
        moments, K = self.statistics_.classes, len(self.classes_)
        self.class_prior_ = _concentration(self.class_prior, K)
        self.class_count_ = moments.count.reshape(-1, K)[0]
        if not keep_prior:
            self._set_ignored_features(moments)
        used = ~self.ignored_features_
        moments = moments.select_features(used)
        if measured is not None:
            points, noise = measured
            measured = (points[:, used], noise.select_features(used), membership)
        if not keep_prior:
            self.prior_ = self._make_prior(moments, measured)
        if measured is None:
            self.posterior_ = self._update(self.prior_, moments)
        else:
            self.posterior_ = self._update_through_noise(self.prior_, *measured)
            self._warn_of_convergence()
        return self

    def _make_prior(self, moments, measured):
        if not isinstance(self.prior, str):
            return self._given_prior(self.prior, self.classes_)
        variance = None if measured is None else variances_without_noise(*measured)
        return self._weak_prior(moments, variance)

    def _set_ignored_features(self, moments):
        """Find the features that the default prior cannot use, and say what it borrows."""
        self.ignored_features_ = np.zeros(self.n_features_in_, dtype=bool)
        if not isinstance(self.prior, str):
            return
        _check_choice("prior", self.prior, ("weak",), "a NIW, or one NIW for each class")
        spread = Spread.of(moments)
        ignored = np.any(spread.constant.reshape(-1, self.n_features_in_), axis=0)
        if np.all(ignored):
            raise ValueError("every feature of X is constant: there is nothing to tell classes apart by.")
        self.ignored_features_ = np.asarray(ignored)
        seen = moments.count > 0
        self._warn_of_borrowing(ignored, spread.borrowed & seen[..., None] & ~ignored)

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

    def _kind(self):
        _check_choice("realisations", self.realisations, sorted(KINDS))
        return KINDS[self.realisations]

    # ---- prediction: everything from the log-joint of one view of the input ------------------------

    def predict(self, X, X_cov=None, *, paired=True, method="exact"):
        """Return the most probable class of each sample.

        Parameters
        ----------
        X : array of shape (sample, feature) or (sample, realisation, feature), or Measured
        X_cov : array, optional
            Known noise of X, in the shapes of ``fit``.
        paired : bool
            Whether X comes from the scene that trained the model. An error common to a scene then cancels:
            with ``realisations="shared"`` realisation r belongs to world r, and a systematic covariance
            counts for nothing. With False, errors of the two scenes are independent.
        method : "exact" or "fast"
            With known noise: the integral over the class models, or the Student t of the same covariance.
        """
        probability = self.predict_proba(X, X_cov, paired=paired, method=method)
        return self.classes_[probability.argmax(axis=1)]

    def predict_proba(self, X, X_cov=None, *, paired=True, method="exact"):
        """Return P(class | x, D): shape (sample, class), columns as in ``classes_``.

        Parameters are those of ``predict``.
        """

        def average(sights):
            P = sum(softmax(sight.log_joint(), axis=1) for sight in sights) / len(sights)
            return self._spread_classes(P, 0.0)

        return self._predict_in_blocks(average, X, X_cov, paired, method)

    def predict_log_proba(self, X, X_cov=None, *, paired=True, method="exact"):
        """Return log P(class | x, D); as in ``predict_proba``, and exact where that underflows to 0."""

        def average(sights):
            joints = (sight.log_joint() for sight in sights)
            logs = [joint - logsumexp(joint, axis=1, keepdims=True) for joint in joints]
            mean = logs[0] if len(logs) == 1 else logsumexp(logs, axis=0) - np.log(len(logs))
            return self._spread_classes(mean, -np.inf)

        return self._predict_in_blocks(average, X, X_cov, paired, method)

    def score_samples(self, X, X_cov=None, *, paired=True, method="exact"):
        """Return log p(x | D), the log density of each sample under the whole model.

        Of several realisations the densities are averaged; repeats and draws count by their mean.
        Parameters are those of ``predict``.
        """

        def evidence(sights):
            logs = [logsumexp(sight.log_joint(), axis=1) for sight in sights]
            return logsumexp(logs, axis=0) - np.log(len(logs))

        return self._predict_in_blocks(evidence, X, X_cov, paired, method)

    def typicality(self, X, X_cov=None, *, per_class=False, paired=True):
        """Return how typical each sample is of the classes: a p-value in [0, 1].

        The probability that a new member of the class lies at least as far out. The largest over the
        classes says whether the sample looks like anything the model was trained on; a fraction of at
        most a of known samples falls below a. Of several realisations the mean is taken. With known
        noise it is that of the Student t of the same covariance; NaN for a sample without any feature.

        Parameters
        ----------
        X, X_cov, paired
            As in ``predict``.
        per_class : bool
            Return one column for each class, instead of the largest. A class without samples has 0.
        """

        def average(sights):
            p_value = self._spread_classes(sum(sight.typicality() for sight in sights) / len(sights), 0.0)
            return p_value if per_class else p_value.max(axis=1)

        return self._predict_in_blocks(average, X, X_cov, paired, "exact")

    def uncertainty(self, X, X_cov=None, *, paired=True, n_draws=100, n_true_values=32):
        """Return where the uncertainty of each prediction comes from.

        Parameters
        ----------
        X, X_cov, paired
            As in ``predict``.
        n_draws : int
            Draws of the model's parameters behind the model part.
        n_true_values : int
            Draws of the input's true value behind the measurement part, where its noise is known.

        Returns
        -------
        UncertaintyBudget
            total = measurement + model + overlap, in nats, an array each. With ``"pooled"`` and ``"shared"``
            the measurement part is what averaging over the realisations adds; with known noise,
            ``"draws"`` and ``"repeats"`` it follows from the noise; for one value without covariance it is 0,
            and the noise is in overlap.
        """
        inputs, reader = self._open(X, X_cov, paired, "exact")
        models: dict = {}
        parts = np.empty((4, len(inputs.X)))
        for rows, sights in reader.blocks(
            inputs, extra=n_draws * self._true_values_needed(inputs, n_true_values)
        ):
            views = []
            for i, sight in enumerate(sights):
                key = id(sight.models)
                if key not in models:
                    models[key] = self._draw_models(sight, n_draws)
                rng = stream(self.random_state, "true values", i, int(rows[0]))
                views.append(split_sight(sight, models[key], n_true_values, rng))
            budget = average_budgets(views)
            parts[:, rows] = budget.total, budget.model, budget.measurement, budget.overlap
        return UncertaintyBudget(*parts)

    def _draw_models(self, sight, n):
        if sight.points.shape[1] == 0:
            return None
        posterior = sight.models.posterior if sight.models.truth is None else sight.models.truth
        rng = stream(self.random_state, "models", sight.world)
        return ModelDraws.of(posterior, self.class_posterior_, self._known_classes(), n, rng)

    def sample_posterior(self, n=1, random_state=None):
        """Draw class proportions, means and covariances from the posterior.

        Parameters
        ----------
        n : int
        random_state : int, optional
            Default: that of the estimator.

        Returns
        -------
        PosteriorDraws
            (phi, mu, Sigma), with ``draw`` as first axis. A class of which nothing is known has NaN. With
            ``realisations="shared"`` each draw comes from a world drawn at random.
        """
        check_is_fitted(self)
        rng = stream(self.random_state if random_state is None else random_state, "posterior")
        phi = rng.dirichlet(self.class_posterior_, n)
        K, p = len(self.classes_), self.posterior_.n_features
        mu, sigma = np.full((n, K, p), np.nan), np.full((n, K, p, p), np.nan)
        worlds = self._n_worlds()
        chosen = np.zeros(n, dtype=int) if worlds is None else rng.integers(worlds, size=n)
        for world in np.unique(chosen):
            mine = chosen == world
            posterior = self._posterior_of_world(None if worlds is None else world)
            index = np.ix_(mine, self._known_classes())
            mu[index], sigma[index] = posterior.sample(int(mine.sum()), rng)
        return PosteriorDraws(phi, mu, sigma)

    # ---- internals of prediction -------------------------------------------------------------------

    def _open(self, X, X_cov, paired, method):
        """Read new inputs, and say how they are to be read."""
        check_is_fitted(self)
        _check_choice("method", method, ("exact", "fast"))
        inputs = read_inputs(self, X, X_cov, reset=False, allow_nan=self.missing == "marginalise")
        reader = Reader(self, paired=paired, method=method)
        if inputs.noise is not None:
            self._check_noise(inputs.noise)
            warn_of_units(inputs.noise, self._training_spread(), self._feature_names())
        if isinstance(self.posterior_, DeconvolvedNIW) and self._kind().measured(inputs) is None:
            warnings.warn(
                "the model was fitted with known noise and describes true values; X has no X_cov and is "
                "taken as exact.",
                UserWarning,
                stacklevel=4,
            )
        return inputs, reader

    def _predict_in_blocks(self, combine, X, X_cov, paired, method):
        """Apply ``combine(sights)`` to blocks of samples, and put the results in the samples' order."""
        inputs, reader = self._open(X, X_cov, paired, method)
        self._warn_of_empty_samples(inputs.X)
        out = None
        for rows, sights in reader.blocks(inputs):
            result = combine(sights)
            if out is None:
                dtype = np.float32 if inputs.X.dtype == np.float32 else np.float64
                out = np.empty((len(inputs.X), *result.shape[1:]), dtype)
            out[rows] = result
        return out

    def _warn_of_empty_samples(self, X):
        empty = np.isnan(X).any(axis=1).all(axis=-1) if X.ndim == 3 else np.isnan(X).all(axis=1)
        if empty.any():
            warnings.warn(
                f"{int(empty.sum())} sample(s) have no feature at all (the first: {int(empty.argmax())}); they "
                "get the class proportions as probabilities, and NaN as typicality.",
                UserWarning,
                stacklevel=4,
            )

    def _probability_of(self, inputs):
        """P(class | x, D) of inputs that have been read."""
        out = np.empty((len(inputs.X), len(self.classes_)))
        for rows, sights in Reader(self, paired=True, method="exact").blocks(inputs):
            P = sum(softmax(sight.log_joint(), axis=1) for sight in sights) / len(sights)
            out[rows] = self._spread_classes(P, 0.0)
        return out

    def _true_values_needed(self, inputs, n):
        noisy = self.realisations == "repeats" or self._kind().measured(inputs) is not None
        return n if noisy else 1

    def _training_spread(self):
        """Standard deviation of each feature over all training samples."""
        moments = self.statistics_.classes
        total = moments.sum(-1)
        return np.sqrt(total.variance.reshape(-1, self.n_features_in_)[0])

    def _log_class_prior(self):
        """log P(class) of the known classes."""
        share = self.class_posterior_ / self.class_posterior_.sum()
        return np.log(share[self._known_classes()])

    def _n_worlds(self):
        moments = self.statistics_.classes
        return None if moments.count.ndim == 1 else moments.count.shape[0]

    def _posterior_of_world(self, world):
        """Return the posterior of the known classes, in one world."""
        posterior = self.posterior_ if world is None else self.posterior_.member(world)
        return posterior.take(self._known_classes())

    def _known_classes(self):
        """Return the classes with a mean, from samples or a prior of strength > 0."""
        strength = np.broadcast_to(self.posterior_.strength, self.posterior_.batch_shape)
        return np.flatnonzero(strength.reshape(-1, len(self.classes_))[0] > 0)

    def _spread_classes(self, values, fill):
        """Put the columns of the known classes among all classes."""
        known = self._known_classes()
        if len(known) == len(self.classes_):
            return values
        out = np.full((len(values), len(self.classes_)), fill)
        out[:, known] = values
        return out

    # ---- what a fitted model says about itself -----------------------------------------------------

    @property
    def means_(self):
        """Posterior mean μ_N of each class, the average over worlds if there are several."""
        mean = np.broadcast_to(
            self.posterior_.mean, (*self.posterior_.batch_shape, self.posterior_.n_features)
        )
        return self._all_features(mean.reshape(-1, len(self.classes_), mean.shape[-1]).mean(0))

    @property
    def covariances_(self):
        """Posterior expectation of Σ of each class, Ψ_N/(ν_N−p−1), the average over worlds."""
        expected = self.posterior_.expected_covariance
        p = expected.shape[-1]
        each = np.broadcast_to(expected, (*self.posterior_.batch_shape, p, p))
        used = each.reshape(-1, len(self.classes_), p, p).mean(0)
        out = np.zeros((len(self.classes_), self.n_features_in_, self.n_features_in_))
        keep = np.flatnonzero(~self.ignored_features_)
        out[:, keep[:, None], keep] = used
        return out

    def _all_features(self, mean):
        moments = self.statistics_.classes
        out = np.repeat(moments.mean.reshape(-1, self.n_features_in_)[:1], len(self.classes_), axis=0)
        out[:, ~self.ignored_features_] = mean
        return out

    @property
    def class_posterior_(self):
        """Dirichlet parameters N_k + α_k of the class proportions after fitting."""
        return self.class_count_ + self.class_prior_

    @property
    def measurement_(self):
        """What is known of the measurement uncertainty of the training data."""
        worlds = self._n_worlds()
        if worlds is None:
            statistics = self.statistics_
            return Measurement(
                self.realisations, statistics.realisations, statistics.noise, statistics.within_dof
            )
        centre = self.statistics_.classes.sum(-1).mean
        covariance = np.atleast_2d(np.cov(centre.T)) if worlds > 1 else None
        return Measurement(self.realisations, worlds, covariance, worlds - 1.0)

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

    def describe(self):
        """Return a page of text on the fitted model and its five sources of uncertainty."""
        check_is_fitted(self)
        return describe(self)

    def save(self, path, *, units=None, provenance=None):
        """Write the fitted model to a file of arrays and JSON; :func:`uncover.load_model` reads it.

        Parameters
        ----------
        path : str or path
        units : str, optional
            Units of the features, such as "reflectance".
        provenance : dict, optional
            Where the model comes from: anything that JSON can hold.
        """
        from uncover.estimators.persistence import save_model

        check_is_fitted(self)
        save_model(self, path, units=units, provenance=provenance)


def _check_choice(name, value, choices, otherwise=None):
    if value not in choices:
        wanted = " or ".join([*(f'"{choice}"' for choice in choices), *([otherwise] if otherwise else [])])
        raise ValueError(f"{name} must be {wanted}; got {value!r}.")


def _in_order_of_classes(prior, classes):
    missing = [name for name in classes.tolist() if name not in prior]
    if missing:
        raise ValueError(f"prior has no NIW for the class(es) {missing}.")
    return [prior[name] for name in classes.tolist()]


def _concentration(class_prior, n_classes):
    """Dirichlet parameters α of the class proportions."""
    alpha = np.asarray(class_prior, dtype=np.float64)
    if alpha.shape not in ((), (n_classes,)):
        raise ValueError(
            f"class_prior must be a number or one number for each of the {n_classes} classes, "
            f"got shape {alpha.shape}."
        )
    if not np.all(np.isfinite(alpha) & (alpha > 0)):
        raise ValueError(f"class_prior must be positive and finite, got {class_prior!r}.")
    return np.broadcast_to(alpha, (n_classes,)).copy()
