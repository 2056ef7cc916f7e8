"""Every ``predict*`` of a fitted model, derived from the log-joint of one view of the input."""

import warnings
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.utils.validation import check_is_fitted

from uncover.bayes.budget import UncertaintyBudget
from uncover.bayes.deconvolved import DeconvolvedNIW
from uncover.bayes.streams import stream
from uncover.estimators.arrays import like, on_device, to_host
from uncover.estimators.attribution import ModelDraws, average_budgets, split_sight
from uncover.estimators.device import DeviceReader
from uncover.estimators.fitted import FittedMixin
from uncover.estimators.inputs import read_inputs, warn_of_units
from uncover.estimators.reading import Reader
from uncover.estimators.values import Inputs, check_choice

# Draws of class models and of true values behind the budget, unless asked for otherwise.
DRAWS, TRUE_VALUES = 1600, 8192


class PosteriorDraws(NamedTuple):
    """Draws from the posterior of a fitted model."""

    phi: np.ndarray  # (draw, class), class proportions
    mu: np.ndarray  # (draw, class, feature)
    Sigma: np.ndarray  # (draw, class, feature, feature)


class PredictionMixin(FittedMixin):
    """Prediction with a fitted model: what GenerativeClassifier has beside its fitting."""

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

    def predict_proba(self, X, X_cov=None, *, paired=True, method="exact"):
        """Return P(class | x, D): shape (sample, class), columns as in ``classes_``.

        Parameters are those of ``predict``.
        """

        if on_device(X):
            return self._read_on_device(X, X_cov, paired).probability()
        inputs, reader = self._open(X, X_cov, paired, method)
        fast = self._fast_probability(inputs, reader)
        if fast is not None:
            return fast

        def average(sights):
            P = sum(softmax(sight.log_odds(), axis=1) for sight in sights) / len(sights)
            return self._spread_classes(P, 0.0)

        return self._in_blocks(average, inputs, reader)

    def predict_log_proba(self, X, X_cov=None, *, paired=True, method="exact"):
        """Return log P(class | x, D); as in ``predict_proba``, and exact where that underflows to 0."""
        if on_device(X):
            reader = self._read_on_device(X, X_cov, paired)
            return reader.xp.log(reader.probability())

        return self._predict_in_blocks(self._mean_log_probability, X, X_cov, paired, method)

    def _mean_log_probability(self, sights):
        """Logarithm of the class probabilities, averaged over views."""
        joints = (sight.log_odds() for sight in sights)
        logs = [joint - logsumexp(joint, axis=1, keepdims=True) for joint in joints]
        mean = logs[0] if len(logs) == 1 else logsumexp(logs, axis=0) - np.log(len(logs))
        return self._spread_classes(mean, -np.inf)

    def score_samples(self, X, X_cov=None, *, paired=True, method="exact"):
        """Return log p(x | D), the log density of each sample under the whole model.

        Of several realisations the densities are averaged; repeats and draws count by their mean.
        Parameters are those of ``predict``.
        """
        if on_device(X):
            return self._read_on_device(X, X_cov, paired).log_evidence()

        def evidence(sights):
            scale = self._class_models()[0]._log_class_scale()
            logs = [logsumexp(sight.log_joint() - scale, axis=1) for sight in sights]
            return logsumexp(logs, axis=0) - np.log(len(logs))

        return self._predict_in_blocks(evidence, X, X_cov, paired, method)

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

        def average(sights):
            mean = sum(sight.typicality() for sight in sights) / len(sights)
            p_value = self._spread_classes(sights[0].largest_of_parts(mean), 0.0)
            return p_value if per_class else p_value.max(axis=1)

        inputs, reader = self._open(X, X_cov, paired, "exact")
        found = self._in_blocks(average, inputs, reader)
        return found if inputs.noise is not None else self._bounded_where_new(found, inputs.X)

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
            noise is in overlap.
        """
        if min(n_draws, n_true_values) < 1:
            raise ValueError(
                f"n_draws and n_true_values must be at least 1, got {n_draws} and {n_true_values}."
            )
        if on_device(X):
            if X_cov is None and DeviceReader.reaches(self, X, paired):
                return self._budget_on_device(X, paired, n_draws)
            budget = self.uncertainty(
                to_host(X), X_cov, paired=paired, n_draws=n_draws, n_true_values=n_true_values
            )
            dtype = np.float32 if "float32" in str(X.dtype) else np.float64
            return UncertaintyBudget(*(like(part.astype(dtype), X) for part in vars(budget).values()))
        inputs, reader = self._open(X, X_cov, paired, "exact")
        self._warn_of_empty_samples(inputs.X)
        models: dict = {}
        parts = np.empty((4, len(inputs.X)))
        views = inputs.X.shape[1] if inputs.X.ndim == 3 else 1
        for rows, sights in reader.blocks(inputs, extra=max(n_draws // views, n_true_values)):
            views = []
            for i, sight in enumerate(sights):
                key = id(sight.models)
                if key not in models:
                    models[key] = self._draw_models(sight, n_draws)
                drawn = models[key] if models[key] is None else models[key].share(i, len(sights))
                rng = stream(self.random_state, "true values", i)
                views.append(split_sight(sight, drawn, n_true_values, rng))
            budget = average_budgets(views)
            parts[:, rows] = budget.total, budget.model, budget.measurement, budget.overlap
        return UncertaintyBudget(*parts)

    def _budget_on_device(self, X, paired, n_draws):
        """The budget of arrays on a device, of unknown noise: models are drawn here, and used there."""
        device = self._read_on_device(X, None, paired)
        reader = Reader(self, paired=paired, method="exact")
        views = reader.views(Inputs(np.zeros((1, *X.shape[1:]))))
        sights = [reader.sight(view, ~self.ignored_features_) for view in views]
        drawn = {id(sight.models): self._draw_models(sight, n_draws) for sight in sights}
        return device.budget([drawn[id(s.models)].share(i, len(sights)) for i, s in enumerate(sights)])

    def _draw_models(self, sight, n):
        if sight.points.shape[1] == 0:
            return None
        rng = stream(self.random_state, "models", sight.world)
        models, _ = self._class_models()
        n = 5 * n if sight.noisy else n  # each of several true values has models of its own
        return ModelDraws.of(sight.truth, models.class_posterior_, models._known_classes(), n, rng)

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

    def _read_on_device(self, X, X_cov, paired):
        check_is_fitted(self)
        if X_cov is not None:
            raise ValueError("X_cov is not taken with arrays on a device; copy X to the host.")
        reader = DeviceReader(self, X, paired)
        if isinstance(self.posterior_, DeconvolvedNIW):
            _warn_of_exactness()
        return reader

    # ---- internals of prediction -------------------------------------------------------------------

    def _open(self, X, X_cov, paired, method):
        """Read new inputs, and say how they are to be read."""
        check_is_fitted(self)
        check_choice("method", method, ("exact", "fast"))
        inputs = read_inputs(self, X, X_cov, reset=False, allow_nan=self.missing == "marginalise")
        reader = Reader(self, paired=paired, method=method)
        if inputs.noise is not None:
            self._check_noise(inputs.noise)
            warn_of_units(inputs.noise, self._training_spread(), self._feature_names())
        repeated = self.realisations == "repeats" and self.statistics_.noise is not None
        known = repeated or self._kind().knows_noise(inputs)
        if isinstance(self.posterior_, DeconvolvedNIW) and not known:
            _warn_of_exactness()
        return inputs, reader

    def _predict_in_blocks(self, combine, X, X_cov, paired, method):
        """Apply ``combine(sights)`` to blocks of samples, and put the results in the samples' order."""
        return self._in_blocks(combine, *self._open(X, X_cov, paired, method))

    def _in_blocks(self, combine, inputs, reader):
        self._warn_of_empty_samples(inputs.X)
        out = None
        for rows, sights in reader.blocks(inputs):
            result = combine(sights)
            if out is None:
                dtype = np.float32 if inputs.X.dtype == np.float32 else np.float64
                out = np.empty((len(inputs.X), *result.shape[1:]), dtype)
            out[rows] = result
        return out

    def _fast_probability(self, inputs, reader):
        """P(class | x, D) by the fast path; None where it does not reach."""
        X = inputs.X
        lacking = self.missing == "marginalise" and np.isnan(X).any()
        if inputs.noise is not None or reader.systematic(inputs) is not None or lacking:
            return None
        used = ~self.ignored_features_
        found = reader.lens(X.shape[1] if X.ndim == 3 else None, used)
        if found is None:
            return None
        lens, pairs = found
        X = X if X.ndim == 3 else X[:, None, :]
        P = lens.probability(X if used.all() else X[..., used], pairs)
        return self._spread_classes(P, 0.0)

    def _warn_of_empty_samples(self, X):
        empty = np.isnan(X).any(axis=1).all(axis=-1) if X.ndim == 3 else np.isnan(X).all(axis=1)
        if empty.any():
            warnings.warn(
                f"{int(empty.sum())} sample(s) have no feature at all (the first: {int(empty.argmax())}); "
                "they get the class proportions as probabilities, and NaN as typicality.",
                UserWarning,
                stacklevel=4,
            )

    def _log_probability_of(self, inputs):
        """log P(class | x, D) of inputs that have been read."""
        out = np.empty((len(inputs.X), len(self.classes_)))
        for rows, sights in Reader(self, paired=True, method="exact").blocks(inputs):
            out[rows] = self._mean_log_probability(sights)
        return out

    def _training_spread(self):
        """Standard deviation of each feature over all training samples."""
        moments = self.statistics_.classes
        total = moments.sum(-1)
        return np.sqrt(total.variance.reshape(-1, self.n_features_in_)[0])


def _warn_of_exactness():
    warnings.warn(
        "the model was fitted with known noise and describes true values; X has no X_cov and is "
        "taken as exact.",
        UserWarning,
        stacklevel=5,
    )
