"""Every ``predict*`` of an estimator: the input is checked, and its fitted model asked."""

from typing import NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from uncover.bayes.budget import UncertaintyBudget
from uncover.bayes.streams import stream
from uncover.engines.arrays import like, on_device, to_host
from uncover.estimators.choices import check_choice
from uncover.estimators.class_shares import ClassSharesMixin, in_population
from uncover.estimators.fitted import LearnedAttributes
from uncover.estimators.inputs import read_device_samples, read_inputs, takes_gaps, warn_of_units
from uncover.estimators.unknown import UnknownMixin
from uncover.measurement.class_prediction import DRAWS, TRUE_VALUES
from uncover.measurement.device import DevicePrediction
from uncover.measurement.prediction import predict
from uncover.warn import warn


class PosteriorDraws(NamedTuple):
    """Draws from the posterior of a fitted model."""

    phi: np.ndarray  # (draw, class), class proportions
    mu: np.ndarray  # (draw, class, feature)
    Sigma: np.ndarray  # (draw, class, feature, feature)


class PredictionMixin(ClassSharesMixin, UnknownMixin, LearnedAttributes):
    """Prediction with fitted Gaussian classes: what an estimator has beside its fitting."""

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
            counts for nothing. With False the errors of the two scenes are independent, and both count.
        method : "exact" or "fast"
            With known noise: the integral over the class models, or the Student t of the same covariance.
        """
        probability = self.predict_proba(X, X_cov, paired=paired, method=method)
        if on_device(X):
            best = probability.argmax(axis=1)
            return (
                like(self.classes_, X)[best]
                if self.classes_.dtype.kind in "iufb"
                else self.classes_[to_host(best)]
            )
        return self.classes_[probability.argmax(axis=1)]

    def predict_proba(self, X, X_cov=None, *, paired=True, method="exact", class_prior=None):
        """Return P(class | x, D): shape (sample, class), columns as in ``classes_``.

        Parameters are those of ``predict``. With ``class_prior``, the class shares of the population that X
        is from, (class,) or what ``class_shares`` found, these count in place of those of the training
        samples.
        """
        if on_device(X):
            return self._read_on_device(X, X_cov, paired, class_prior).probability()
        return self._predict(X, X_cov, paired, method, class_prior).probability()

    def predict_log_proba(self, X, X_cov=None, *, paired=True, method="exact"):
        """Return log P(class | x, D); as in ``predict_proba``, and exact where that underflows to 0."""
        if on_device(X):
            reader = self._read_on_device(X, X_cov, paired)
            return reader.xp.log(reader.probability())
        return self._predict(X, X_cov, paired, method).log_probability()

    def score_samples(self, X, X_cov=None, *, paired=True, method="exact"):
        """Return log p(x | D), the log density of each sample under the whole model.

        Of several realisations the densities are averaged; repeats and draws count by their mean.
        Parameters are those of ``predict``.
        """
        if on_device(X):
            return self._read_on_device(X, X_cov, paired).log_density()
        return self._predict(X, X_cov, paired, method).log_density()

    def typicality(self, X, X_cov=None, *, per_class=False, paired=True):
        """Return how typical each sample is of the classes: a p-value in [0, 1].

        The probability that a new member of the class lies at least as far out as the sample, over training
        sets too and whatever the prior. For a Gaussian class of n samples, more than p features, a fraction a
        of its new members is below a: the distance is Hotelling's T², of F(p, n−p); with a common covariance
        of F(p, N−K−p+1), with independent features of F(1, n−1) each. With n ≤ p, or features that depend on
        each other, at most a is below a. With known noise it is exact for inputs as noisy as the samples, and
        near for others: with noise as large as the class 3 to 6 % are below 0.05 where the inputs have as
        much or more, and 1 to 6 % where they have less, few with few samples, which hardly tell the class
        from its noise.
        Realisations of a sample count as one sample, and of their p-values the mean is taken. The largest
        over the classes says whether the sample looks like anything the model was trained on. A sample that
        differs in a feature that was constant in training, or breaks the dependence of an ignored feature on
        the others, has at most 1/(N+1); one without any feature has NaN.

        Parameters
        ----------
        X, X_cov, paired
            As in ``predict``.
        per_class : bool
            Return one column for each class, instead of the largest. A class without samples has 0.
        """
        if on_device(X):
            reader = self._read_on_device(X, X_cov, paired)
            return reader.typicality() if per_class else reader.xp.max(reader.typicality(), axis=1)
        return self._predict(X, X_cov, paired, "exact").typicality(per_class=per_class)

    def _unknown_odds(self, X, X_cov, paired):
        return self._predict(X, X_cov, paired, "exact").unknown()

    def uncertainty(self, X, X_cov=None, *, paired=True, n_draws=DRAWS, n_true_values=TRUE_VALUES):
        """Return where the uncertainty of each prediction comes from.

        Parameters
        ----------
        X, X_cov, paired
            As in ``predict``.
        n_draws : int
            Draws of the model's parameters behind the model part, shared out among realisations and true
            values; five times as many where the noise is known. They are the same for all samples: the same
            input has the same budget in any batch.
        n_true_values : int
            Draws of the input's true value behind the measurement part, where its noise is known. The model
            part is in closed form at all of them, times its ratio to drawn models at one in 64, 8 to 128.

        Returns
        -------
        UncertaintyBudget
            total = measurement + model + overlap, in nats, an array each. With known noise, ``"draws"`` and
            ``"repeats"`` the measurement part is what a perfect measurement would take away. With
            ``"pooled"`` and ``"shared"`` it is what averaging over the realisations adds, which is less: with
            ``"pooled"`` the classes hold the noise too. For one value without covariance it is 0, and the
            noise is in overlap. What a missing feature would tell is in overlap.
        """
        if min(n_draws, n_true_values) < 1:
            raise ValueError(
                f"n_draws and n_true_values must be at least 1, got {n_draws} and {n_true_values}."
            )
        if on_device(X):
            if X_cov is None and DevicePrediction.reaches(self.fitted_value(), X, paired):
                return self._read_on_device(X, None, paired).budget(n_draws)
            budget = self.uncertainty(
                to_host(X), X_cov, paired=paired, n_draws=n_draws, n_true_values=n_true_values
            )
            dtype = np.float32 if "float32" in str(X.dtype) else np.float64
            return UncertaintyBudget(*(like(part.astype(dtype), X) for part in vars(budget).values()))
        return self._predict(X, X_cov, paired, "exact").budget(n_draws, n_true_values)

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
        return PosteriorDraws(*self.model_.sample(n, rng))

    def _read_on_device(self, X, X_cov, paired, class_prior=None):
        check_is_fitted(self)
        if X_cov is not None:
            raise ValueError("X_cov is not taken with arrays on a device; copy X to the host.")
        model = in_population(self.fitted_value(), class_prior)
        reader = DevicePrediction(model, read_device_samples(self, X, reset=False), paired)
        if self.model_.describes_true_values:
            warn_of_exactness()
        return reader

    def _predict(self, X, X_cov, paired, method="exact", class_prior=None):
        """Check new inputs, and combine them with the fitted model."""
        check_is_fitted(self)
        check_choice("method", method, ("exact", "fast"))
        observation = read_inputs(self, X, X_cov, reset=False, allow_nan=takes_gaps(self))
        model = in_population(self.fitted_value(), class_prior)
        if observation.noise is not None:
            model.class_model.check_noise(observation.noise)
            warn_of_units(observation.noise, model.training_spread, self._feature_names(), training=False)
        repeated = model.realisations == "repeats" and model.statistics.noise is not None
        if model.describes_true_values and not (repeated or model.kind.knows_noise(observation.structure)):
            warn_of_exactness()
        if self.missing == "marginalise":
            warn_of_empty_samples(observation.X)
        return predict(model, observation, paired=paired, method=method)

    def _feature_names(self):
        return getattr(self, "feature_names_in_", np.arange(self.n_features_in_))


def warn_of_empty_samples(X):
    """Warn of samples without any feature."""
    empty = np.isnan(X).any(axis=1).all(axis=-1) if X.ndim == 3 else np.isnan(X).all(axis=1)
    if empty.any():
        warn(
            f"{int(empty.sum())} sample(s) have no feature at all (the first: {int(empty.argmax())}); "
            "they get the class proportions as probabilities, and NaN as typicality.",
        )


def warn_of_exactness():
    """Warn that a model of true values takes new values as exact."""
    warn(
        "the model was fitted with known noise and describes true values; X has no X_cov and is "
        "taken as exact.",
    )
