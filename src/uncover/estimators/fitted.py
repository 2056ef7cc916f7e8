"""Fitted class models as prediction needs them. Nothing here learns, and scikit-learn is not imported."""

import numpy as np

from uncover.bayes.components import Components
from uncover.bayes.priors import Spread
from uncover.estimators.realisations import KINDS, MEAN_WORLD
from uncover.estimators.values import check_choice

# What the estimators of one kind of class model are made with.
PARAMETERS = ("prior", "class_prior", "realisations", "calibration", "label_noise", "missing", "random_state")


class FittedMixin:
    """What a fitted model says of its classes: means, covariances, posteriors, proportions."""

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

    def _bounded_where_new(self, p_value, X):
        """Bound p-values of samples that differ in an ignored feature as no training sample does.

        It was constant, or followed from the others. Of n + 1 samples that are exchangeable, the new one has
        the largest residual with a probability of at most 1/(n + 1). ``X`` has all features, realisations
        before them; NaN is no difference. A sample differs where it does in every realisation and world.
        """
        models = self._class_models()[0]
        ignored, statistics = models.ignored_features_, models.statistics_
        if not ignored.any():
            return p_value
        total, constant = statistics.classes.sum(-1), Spread.of(statistics.classes).constant
        n = float(np.ravel(total.count)[0]) / statistics.rows_per_sample(models._kind())
        differs = [
            _off_regression(X, ignored, constant[world], total[world])
            for world in np.ndindex(total.count.shape)
        ]
        off = np.all(differs, axis=0)
        off = off.all(-1) if off.ndim == 2 else off
        bound = np.where(off, 1.0 / (n + 1.0), 1.0)
        return np.minimum(p_value, bound.reshape(-1, *(1,) * (p_value.ndim - 1)).astype(p_value.dtype))

    def _class_models(self):
        """Return whose class models read inputs, and the classes that these are components of."""
        return self, Components.single(len(self._known_classes()), self.temperature_)

    def _log_class_prior(self):
        """log P(class) of the known classes, with the scale of each that calibration found."""
        share = self.class_scale_ * self.class_posterior_ / self.class_posterior_.sum()
        return np.log(share[self._known_classes()])

    def _log_class_scale(self):
        return np.log(self.class_scale_[self._known_classes()])

    def _kind(self):
        check_choice("realisations", self.realisations, sorted(KINDS))
        return KINDS[self.realisations]

    def _n_worlds(self):
        moments = self.statistics_.classes
        return None if moments.count.ndim == 1 else moments.count.shape[0]

    def _posterior_of_world(self, world):
        """Return the posterior of the known classes, in one world."""
        posterior = self.posterior_
        if world == MEAN_WORLD:
            posterior = posterior.mean_over_leading_axis()
        elif world is not None:
            posterior = posterior.member(world)
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
        out = np.full((len(values), len(self.classes_)), fill, values.dtype)
        out[:, known] = values
        return out


def _off_regression(X, ignored, constant, total):
    """Return which samples lie off the regression of an ignored feature on the used ones: (...).

    ``total`` are the moments of all samples. No training sample has a residual above the root of their sum of
    squares; the rounding of that sum and of the numbers comes on top. Constant features have slopes of 0.
    """
    used, rest = np.flatnonzero(~ignored), np.flatnonzero(ignored)
    slopes = np.zeros((len(ignored), len(rest)))
    slopes[rest, np.arange(len(rest))] = 1.0  # of the residual: its feature less the regression on the others
    unit = np.sqrt(np.diagonal(total.scatter))[used]
    following = ~constant[rest]
    correlation = total.scatter[np.ix_(used, used)] / (unit[:, None] * unit)
    onto = total.scatter[np.ix_(used, rest[following])] / unit[:, None]
    slopes[np.ix_(used, following)] = -np.linalg.solve(correlation, onto) / unit[:, None]
    eps = np.finfo(np.float64).eps
    squares = np.maximum((slopes * (total.scatter @ slopes)).sum(0), 0.0)
    squares += 8 * len(ignored) * eps * (np.abs(slopes) * (np.abs(total.scatter) @ np.abs(slopes))).sum(0)
    lacking = np.isnan(X)
    values = np.where(lacking, 0.0, X)
    residual = np.where(lacking, 0.0, values - total.mean - total.residual) @ slopes
    rounding = (1e-6 if X.dtype == np.float32 else 1e-12) * (np.abs(values) @ np.abs(slopes))
    unknown = lacking @ (slopes != 0)
    return (~unknown & (np.abs(residual) > np.sqrt(squares) + rounding)).any(-1)


class FittedModel(FittedMixin):
    """Class models of one kind as a model file has them, for whoever only reads pixels.

    Importing scikit-learn takes longer than reading the file: a map does without. The estimator of the same
    file is what :func:`uncover.load_model` returns.
    """

    def __init__(self, estimator_name, parameters):
        self.estimator_name = estimator_name
        vars(self).update(parameters)

    def get_params(self, deep=False):
        """Return what the estimator was made with."""
        return {name: getattr(self, name) for name in PARAMETERS}


def without_sets(model):
    """Return the model that makes the probabilities, and the sets, or None where there are none.

    >>> without_sets("any other model")
    ('any other model', None)
    """
    return (model.estimator_, model) if hasattr(model, "scores_") else (model, None)


def is_average(model):
    """Whether a model averages several kinds of class models, as a BayesianClassifier does."""
    return hasattr(model, "members_")
