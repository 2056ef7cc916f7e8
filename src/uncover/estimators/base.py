"""What all generative classifiers share: fitting from statistics, and ``predict*`` from one log-joint."""

import warnings
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from uncover.bayes.budget import UncertaintyBudget
from uncover.bayes.niw import NIW
from uncover.bayes.priors import Spread
from uncover.bayes.streams import stream
from uncover.estimators.attribution import ModelDraws, Parts, average_budgets, split_with_true_values
from uncover.estimators.describe import describe
from uncover.estimators.inputs import encode, read_labels, read_samples, read_weights
from uncover.estimators.reading import Reading
from uncover.estimators.realisations import KINDS, Fitted

# Numbers (float64) that one block of samples may need while predicting.
_BLOCK_NUMBERS = 1 << 20


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

    A subclass says what its class model is by two methods: ``_weak_prior(moments)``, the default prior,
    and ``_update(prior, moments)``, the posterior: an object with ``predictive()`` and ``draw(n, rng)``.
    """

    def __init__(self, prior="weak", class_prior=1.0, realisations="pooled", random_state=0):
        self.prior = prior
        self.class_prior = class_prior
        self.realisations = realisations
        self.random_state = random_state

    # ---- what a class model has to say -----------------------------------------------------------

    @abstractmethod
    def _weak_prior(self, moments):
        """Return the default prior for classes with these moments; no feature is constant."""

    @abstractmethod
    def _update(self, prior, moments):
        """Return the posterior: the prior updated with the moments of the classes."""

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
        strange = [type(one).__name__ for one in each if not isinstance(one, NIW)]
        if len(each) != len(classes) or strange:
            what = f"{len(each)} entries" + (f", among them {strange[0]}" if strange else "")
            raise ValueError(f"prior needs one NIW for each of the {len(classes)} classes, got {what}.")
        if any(one.n_features != self.n_features_in_ for one in each):
            sizes = sorted({one.n_features for one in each})
            raise ValueError(f"prior is for {sizes} features, X has {self.n_features_in_}.")
        return NIW(*(np.stack([getattr(one, name) for one in each]) for name in _NIW_FIELDS))

    # ---- fitting ---------------------------------------------------------------------------------

    def fit(self, X, y, sample_weight=None):
        """Fit the class models.

        Parameters
        ----------
        X : array of shape (sample, feature) or (sample, realisation, feature)
            Also a pandas data frame, or an xarray data array with dimensions ``band``, ``realisation``.
        y : array of shape (sample,)
        sample_weight : array of shape (sample,), optional
            Weight 2 is the same as having the sample twice.

        Returns
        -------
        self
        """
        X = read_samples(self, X, reset=True)
        y = read_labels(self, y, len(X))
        weight = read_weights(sample_weight, X)
        classes = np.unique(y)
        if len(classes) < 2:
            raise ValueError(
                f"y has 1 class, {classes.tolist()[0]!r}; a classifier needs at least 2 classes "
                "(partial_fit takes classes= where more come later)."
            )
        self.classes_ = classes
        self.statistics_ = self._kind().collect(X, encode(y, classes), len(classes), weight)
        return self._conclude()

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Add samples to the fit. Any split of the data gives the model of ``fit``, to rounding.

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
        X = read_samples(self, X, reset=first)
        y = read_labels(self, y, len(X))
        weight = read_weights(sample_weight, X)
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        known = np.unique(classes) if first else self.classes_
        if classes is not None and not np.array_equal(np.unique(classes), known):
            raise ValueError(
                f"classes are {np.unique(classes).tolist()} in this call to partial_fit and were "
                f"{known.tolist()} in the first one."
            )
        if len(known) < 2:
            raise ValueError(f"classes has 1 class, {known.tolist()[0]!r}; a classifier needs at least 2.")
        kind, codes = self._kind(), encode(y, known)
        new = kind.collect(X, codes, len(known), weight)
        if not first:
            self._check_same_realisations(kind, new)
            new = self.statistics_ + new
        self.classes_, self.statistics_ = known, new
        if isinstance(self.prior, str) and _constant_features(Spread.of(new.classes)).all():
            warnings.warn(
                "every feature has been constant so far: nothing can be predicted until samples that "
                "differ have come.",
                UserWarning,
                stacklevel=2,
            )
            return self
        return self._conclude()

    def __sklearn_is_fitted__(self):
        return hasattr(self, "posterior_")

    def _check_same_realisations(self, kind, new):
        before = self.statistics_.realisations
        if kind.same_number and new.realisations != before:
            raise ValueError(
                f"X has {new.realisations} realisations, the samples before had {before}; "
                f'realisations="{kind.name}" needs the same number in every call.'
            )

    def _conclude(self):
        """Work out prior and posterior from the statistics."""
        moments, K = self.statistics_.classes, len(self.classes_)
        if not np.isfinite(moments.scatter).all():
            raise ValueError("squares of X leave the range of floating point numbers; rescale the features.")
        self.class_prior_ = _concentration(self.class_prior, K)
        self.class_count_ = moments.count.reshape(-1, K)[0]
        if isinstance(self.prior, str):
            moments, self.prior_ = self._prior_from_data(moments)
        else:
            self.prior_ = self._given_prior(self.prior, self.classes_)
            self.ignored_features_ = np.zeros(self.n_features_in_, dtype=bool)
        self.posterior_ = self._update(self.prior_, moments)
        return self

    def _prior_from_data(self, moments):
        """Return the moments of the features that vary, and the default prior for them."""
        if self.prior != "weak":
            raise ValueError(f'prior must be "weak", a NIW, or one NIW for each class; got {self.prior!r}.')
        total = moments.count.reshape(-1, len(self.classes_))[0].sum()
        if total <= 1:
            raise ValueError(
                f"the samples have a weight of {total:g} in all; weights count samples, and a spread needs "
                "more than 1. Scale the weights up."
            )
        spread = Spread.of(moments)
        ignored = _constant_features(spread)
        if ignored.all():
            raise ValueError(
                "every feature of X is constant, or varies by rounding only: there is nothing to tell "
                "classes apart by."
            )
        self.ignored_features_ = ignored
        seen = moments.count > 0
        self._warn_of_borrowing(ignored, spread.borrowed & seen[..., None] & ~ignored)
        moments = moments.select_features(~ignored)
        return moments, self._weak_prior(moments)

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

    def _feature_list(self, mask):
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        chosen = [str(name) for name in names[mask]]
        return ", ".join(chosen[:8]) + (f", … ({len(chosen)} in all)" if len(chosen) > 8 else "")

    def _kind(self):
        if not isinstance(self.realisations, str) or self.realisations not in KINDS:
            raise ValueError(f"realisations must be one of {sorted(KINDS)}, got {self.realisations!r}.")
        return KINDS[self.realisations]

    # ---- prediction: everything from the log-joint of one view of the input ------------------------

    def predict(self, X, *, paired=True):
        """Return the most probable class of each sample.

        Parameters
        ----------
        X : array of shape (sample, feature) or (sample, realisation, feature)
        paired : bool
            Only for ``realisations="shared"``: whether realisation r belongs to world r of the training
            data (the same scene: the common error cancels) or not (another scene).
        """
        probability = self.predict_proba(X, paired=paired)
        return self.classes_[probability.argmax(axis=1)]

    def predict_proba(self, X, *, paired=True):
        """Return P(class | x, D): shape (sample, class), columns as in ``classes_``.

        Parameters
        ----------
        X, paired
            As in ``predict``.
        """

        def average(joints, _):
            return sum(softmax(joint, axis=1) for joint in joints) / len(joints)

        return self._predict_in_blocks(X, paired, average)

    def predict_log_proba(self, X, *, paired=True):
        """Return log P(class | x, D); as in ``predict_proba``, and exact where that underflows to 0."""

        def average(joints, _):
            logs = [joint - logsumexp(joint, axis=1, keepdims=True) for joint in joints]
            return logs[0] if len(logs) == 1 else logsumexp(logs, axis=0) - np.log(len(logs))

        return self._predict_in_blocks(X, paired, average)

    def score_samples(self, X, *, paired=True):
        """Return log p(x | D), the log density of each sample under the whole model.

        Of several realisations the densities are averaged; repeats and draws count by their mean.
        """

        def evidence(joints, _):
            logs = [logsumexp(joint, axis=1) for joint in joints]
            return logsumexp(logs, axis=0) - np.log(len(logs))

        return self._predict_in_blocks(X, paired, evidence)

    def typicality(self, X, *, per_class=False, paired=True):
        """Return how typical each sample is of the classes: a p-value in [0, 1].

        The probability that a new member of the class lies at least as far out. The largest over the
        classes says whether the sample looks like anything the model was trained on; a fraction of at
        most a of known samples falls below a. Of several realisations the mean is taken.

        Parameters
        ----------
        X, paired
            As in ``predict``.
        per_class : bool
            Return one column for each class, instead of the largest. A class without samples has 0.
        """

        def pick(_, views):
            p_value = sum(self._spread_classes(r.typicality(x), 0.0) for x, r in views) / len(views)
            return p_value if per_class else p_value.max(axis=1)

        return self._predict_in_blocks(X, paired, pick, joints=False)

    def uncertainty(self, X, *, paired=True, n_draws=100, n_true_values=32):
        """Return where the uncertainty of each prediction comes from.

        Parameters
        ----------
        X, paired
            As in ``predict``.
        n_draws : int
            Draws of the model's parameters behind the model part.
        n_true_values : int
            Draws of the input's true value behind the measurement part, where it is not given by
            realisations.

        Returns
        -------
        UncertaintyBudget
            total = measurement + model + overlap, in nats, an array each. With ``"pooled"`` and ``"shared"``
            the measurement part is what averaging over the realisations adds; with ``"repeats"`` it
            follows from the estimated noise; without realisations it is 0, and the noise is in overlap.
        """
        check_is_fitted(self)
        if min(n_draws, n_true_values) < 1:
            raise ValueError(
                f"n_draws and n_true_values must be at least 1, got {n_draws} and {n_true_values}."
            )
        X = read_samples(self, X, reset=False)
        kind, fitted = self._kind(), self._fitted(paired)
        readings: dict = {}
        models: dict = {}
        n_views = len(kind.views(X[:1], fitted))
        parts = []
        for start, stop in self._row_blocks(X, n_views * n_draws):
            block = []
            for view in kind.views(X[start:stop], fitted):
                reading = self._reading(view, readings)
                if view.world not in models:
                    models[view.world] = self._draw_models(reading, view.world, n_draws)
                rng = stream(self.random_state, "true values", view.world, start)
                points = self._points(view)
                block.append(self._budget_of_view(points, reading, models[view.world], n_true_values, rng))
            parts.append(average_budgets(block))
        return UncertaintyBudget.join(parts)

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
        phi = rng.dirichlet(self.class_count_ + self.class_prior_, n)
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

    def _predict_in_blocks(self, X, paired, combine, joints=True):
        """Apply ``combine(log-joints, views)`` to blocks of samples, and join the results."""
        check_is_fitted(self)
        X = read_samples(self, X, reset=False)
        fitted = self._fitted(paired)
        readings: dict = {}
        n_views = len(self._kind().views(X[:1], fitted))
        out = []
        for start, stop in self._row_blocks(X, n_views):
            views = [
                (self._points(view), self._reading(view, readings))
                for view in self._kind().views(X[start:stop], fitted)
            ]
            logs = [self._log_joint(*view) for view in views] if joints else None
            out.append(combine(logs, views))
        result = np.concatenate(out)
        return result.astype(np.float32) if X.dtype == np.float32 else result

    def _row_blocks(self, X, n_views):
        per_row = n_views * (len(self.classes_) + self.n_features_in_)
        rows = max(1, _BLOCK_NUMBERS // per_row)
        return [(start, min(start + rows, len(X))) for start in range(0, len(X), rows)]

    def _fitted(self, paired):
        return Fitted(self.statistics_.realisations, paired, self.random_state)

    def _points(self, view):
        return view.points[:, ~self.ignored_features_] if self.ignored_features_.any() else view.points

    def _log_joint(self, points, reading):
        """log P(class) + log p(x | class): shape (sample, class); −inf for classes nothing is known of."""
        return self._spread_classes(self._log_class_prior() + reading.log_density(points), -np.inf)

    def _log_class_prior(self):
        """log P(class) of the known classes."""
        share = self.class_posterior_ / self.class_posterior_.sum()
        return np.log(share[self._known_classes()])

    def _reading(self, view, cache):
        """Return the class models for a view; one and the same object for all blocks."""
        key = (view.world, view.repeats)
        if key not in cache:
            cache[key] = self._make_reading(view)
        return cache[key]

    def _make_reading(self, view):
        posterior = self._posterior_of_world(view.world)
        noise = self._repeat_noise()
        if view.repeats is None or noise is None:
            return Reading(posterior.predictive(), posterior)
        before, now = 1.0 / self.statistics_.realisations, 1.0 / view.repeats
        truth = posterior.exchange_noise(noise, present=before, wanted=0.0)
        if now > before:
            return Reading(posterior.predictive(), posterior, (now - before) * noise, truth, now * noise)
        if now < before:
            posterior = posterior.exchange_noise(noise, present=before, wanted=now)
        return Reading(posterior.predictive(), posterior, None, truth, now * noise)

    def _repeat_noise(self):
        """Σ̂_x of one repeat, of the features in use; None where it is not known."""
        noise = self.statistics_.noise
        used = ~self.ignored_features_
        return None if noise is None else noise[used][:, used]

    def _n_worlds(self):
        moments = self.statistics_.classes
        return None if moments.count.ndim == 1 else moments.count.shape[0]

    def _posterior_of_world(self, world):
        """Return the posterior of the known classes, in one world."""
        posterior = self.posterior_
        if world is not None:
            posterior = type(posterior)(*(getattr(posterior, name)[world] for name in _NIW_FIELDS))
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

    def _draw_models(self, reading, world, n):
        posterior = reading.posterior if reading.truth is None else reading.truth
        rng = stream(self.random_state, "models", world)
        return ModelDraws.of(posterior, self.class_posterior_, self._known_classes(), n, rng)

    def _budget_of_view(self, points, reading, models, n_true_values, rng):
        log_prior = self._log_class_prior()
        P = softmax(log_prior + reading.log_density(points), axis=1)
        if reading.truth is None:
            return Parts(P, np.zeros(len(P)), *models.split(points, P))
        return split_with_true_values(points, P, log_prior, reading, models, n_true_values, rng)

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


_NIW_FIELDS = ("mean", "strength", "scale", "dof")


def _constant_features(spread):
    """Return which features are constant, in any world."""
    return np.any(spread.constant.reshape(-1, spread.constant.shape[-1]), axis=0)


def _in_order_of_classes(prior, classes):
    missing = [name for name in classes.tolist() if name not in prior]
    if missing:
        raise ValueError(f"prior has no NIW for the class(es) {missing}.")
    return [prior[name] for name in classes.tolist()]


def _concentration(class_prior, n_classes):
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
