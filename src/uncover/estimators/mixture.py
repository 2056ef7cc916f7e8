"""Classes made of several Gaussian components, such as cropland = bare soil + green crop."""

import warnings
from copy import copy
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from uncover.bayes.streams import stream
from uncover.engines.arrays import on_device, to_host
from uncover.estimators.base import learn
from uncover.estimators.calibration import calibrate, held_out_log_joint, scored_weight
from uncover.estimators.choices import check_choice
from uncover.estimators.fitted import SaveMixin
from uncover.estimators.groups import read_groups
from uncover.estimators.inputs import read_inputs, takes_gaps, to_learn_from
from uncover.estimators.membership import read_membership
from uncover.estimators.predicting import PredictionMixin
from uncover.models.fit import components_of_classes
from uncover.models.registry import CLASS_MODELS


class Component(NamedTuple):
    """One Gaussian of a class."""

    label: object  # the class
    share: float  # of the class's samples
    mean: np.ndarray  # (feature,)
    covariance: np.ndarray  # (feature, feature)


class BayesianMDA(PredictionMixin, SaveMixin, ClassifierMixin, BaseEstimator):
    """Bayesian mixture discriminant analysis: each class is a mixture of Gaussians.

    The number of components of each class is the one of the highest evidence; they are found by splitting,
    without chance and without settings. Samples that lack features (NaN) are filled in once for that, by
    draws from one Gaussian a class. Given the components, each is a class model as in
    :class:`BayesianQDA`, and the density of a class is the sum over its components:

        P(y=k | x, D) ∝ Σ_{c of class k} (N_c + α_k/G_k) · T(x | c)

    Parameters
    ----------
    prior : "evidence", "weak", "jeffreys" or NIW
        Prior of the components, as in :class:`BayesianQDA`.
    class_prior : float or array of shape (class,)
    realisations : "pooled", "repeats", "draws" or "shared"
    calibration : None or "loo"
    missing : "marginalise" or "error"
    random_state : int or None
        Seed of the draws behind ``uncertainty``.

    Attributes
    ----------
    classes_ : array of shape (class,)
    components_ : list of Component
        Class, share, mean and covariance of each.
    model_ : GaussianClasses
        The fitted value: class models of the components, and the class of each.
    temperature_ : float
    class_scale_ : array of shape (class,)
    n_features_in_ : int
    feature_names_in_ : array of str
        Where X has names.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> crop = np.concatenate([rng.normal(size=(50, 2)), rng.normal(size=(50, 2)) + [8, 0]])
    >>> X = np.concatenate([crop, rng.normal(size=(80, 2)) + [4, 0]])
    >>> clf = BayesianMDA().fit(X, ["crop"] * 100 + ["grass"] * 80)
    >>> [(str(part.label), round(part.share, 2)) for part in clf.components_]
    [('crop', 0.5), ('crop', 0.5), ('grass', 1.0)]
    >>> clf.predict([[0, 0], [4, 0], [8, 0]])
    array(['crop', 'grass', 'crop'], dtype='<U5')
    """

    class_model = CLASS_MODELS["qda"]

    def __init__(
        self,
        prior="evidence",
        class_prior=1.0,
        realisations="pooled",
        calibration=None,
        missing="marginalise",
        random_state=0,
    ):
        self.prior = prior
        self.class_prior = class_prior
        self.realisations = realisations
        self.calibration = calibration
        self.missing = missing
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None, *, X_cov=None, groups=None, scored=None):
        """Find the components of the classes, and fit their models.

        Parameters are those of :meth:`BayesianQDA.fit`.
        """
        observation = read_inputs(self, to_host(X), X_cov, reset=True, allow_nan=takes_gaps(self))
        membership, classes = read_membership(self, to_host(y), None, None, sample_weight, observation.X)
        observation = to_learn_from(self, observation, membership)
        check_choice("calibration", self.calibration, (None, "loo"))
        groups = read_groups(groups, len(observation.X))
        points = (
            filled_in(self, observation, membership, classes) if observation.lacks_features else observation.X
        )
        of_components, components = components_of_classes(points, membership)
        model = learn(self, observation, of_components, classes, components)
        if self.calibration is not None:
            joint = components.log_joint(held_out_log_joint(model, observation, of_components, groups))
            weight = scored_weight(scored, membership.weight, len(observation.X))
            model = model.calibrated(*calibrate(joint, membership.targets(), weight))
        self.model_ = model
        return self

    @property
    def components_(self):
        """The components of the classes."""
        model = self.model_
        share = model.count / model.class_count[model.components.owner]
        columns = zip(model.labels, share, model.component_means, model.component_covariances, strict=True)
        return [Component(label, float(part), mean, cov) for label, part, mean, cov in columns]

    def predict_log_proba(self, X, X_cov=None, *, paired=True, method="exact"):
        """Return log P(class | x, D); exact where the probability underflows to 0."""
        out = super().predict_log_proba(X, X_cov, paired=paired, method=method)
        if on_device(X):
            return out
        # What is 1 in the precision of the result has the logarithm 0.
        return np.where(out > -0.5 * np.finfo(out.dtype).eps, out.dtype.type(0.0), out)


def filled_in(estimator, observation, membership, classes):
    """Return samples with what they lack drawn once, from one Gaussian a class, given what is there.

    So the number of components of a class is not a matter of which features were missing.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said of the components
        one = learn(copy(estimator).set_params(prior="evidence"), observation, membership, classes)
    codes = membership.codes
    return one.true_values(observation.X, observation.noise, 1, stream(0, "filled in"), codes)[:, 0]
