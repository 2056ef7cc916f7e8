"""Classes made of several Gaussian parts, such as cropland = bare soil + green crop."""

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from uncover.bayes.components import Components, find_components
from uncover.estimators.arrays import on_device, to_host
from uncover.estimators.base import concentration
from uncover.estimators.calibration import calibrate, held_out_log_joint, scored_weight
from uncover.estimators.discriminant import BayesianQDA
from uncover.estimators.groups import read_groups
from uncover.estimators.inputs import read_inputs
from uncover.estimators.membership import Membership, read_membership
from uncover.estimators.predicting import PredictionMixin
from uncover.estimators.values import check_choice


class Component(NamedTuple):
    """One part of a class."""

    label: object  # the class
    share: float  # of the class's samples
    mean: np.ndarray  # (feature,)
    covariance: np.ndarray  # (feature, feature)


class BayesianMDA(PredictionMixin, ClassifierMixin, BaseEstimator):
    """Bayesian mixture discriminant analysis: each class is a mixture of Gaussian parts.

    The number of parts of each class is the one of the highest evidence; they are found by splitting, without
    chance and without settings. Given the parts, each is a class model as in :class:`BayesianQDA`, and the
    density of a class is the sum over its parts:

        P(y=k | x, D) ∝ Σ_{c of class k} (N_c + α_k/G_k) · T(x | c)

    Parameters
    ----------
    prior : "evidence", "weak", "jeffreys" or NIW
        Prior of the parts, as in :class:`BayesianQDA`.
    class_prior : float or array of shape (class,)
    realisations : "pooled", "repeats", "draws" or "shared"
    calibration : None or "loo"
    missing : "error" or "marginalise"
    random_state : int or None
        Seed of the draws behind ``uncertainty``.

    Attributes
    ----------
    classes_ : array of shape (class,)
    components_ : list of Component
        The parts: class, share, mean and covariance of each.
    model_ : BayesianQDA
        The class models of the parts, numbered.
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

    def __init__(
        self,
        prior="evidence",
        class_prior=1.0,
        realisations="pooled",
        calibration=None,
        missing="error",
        random_state=0,
    ):
        self.prior = prior
        self.class_prior = class_prior
        self.realisations = realisations
        self.calibration = calibration
        self.missing = missing
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None, *, X_cov=None, groups=None, scored=None):
        """Find the parts of the classes, and fit their models.

        Parameters are those of :meth:`BayesianQDA.fit`.
        """
        X, y = to_host(X), to_host(y)
        inputs = read_inputs(self, X, X_cov, reset=True)
        membership, self.classes_ = read_membership(self, y, None, None, sample_weight, inputs.X)
        check_choice("calibration", self.calibration, (None, "loo"))
        groups = read_groups(groups, len(inputs.X))
        parts, self.class_of_part_ = _find_parts(inputs.X, membership)
        alpha = concentration(self.class_prior, len(self.classes_))
        number = np.bincount(self.class_of_part_, minlength=len(self.classes_))
        self.model_ = BayesianQDA(
            prior=self.prior,
            class_prior=(alpha / number)[self.class_of_part_],
            realisations=self.realisations,
            missing=self.missing,
            random_state=self.random_state,
        )
        with warnings.catch_warnings():
            # The parts of the classes stand in for classes here, and may be many.
            warnings.filterwarnings("ignore", "The number of unique classes is greater", UserWarning)
            names = np.arange(len(self.class_of_part_))
            self.model_.fit(X, parts, sample_weight, X_cov=X_cov, classes=names)
        if self.calibration is not None:
            of_parts = Membership(len(self.class_of_part_), parts, None, membership.weight)
            left_out = held_out_log_joint(self.model_, inputs, of_parts, groups)
            joint = Components(self.class_of_part_).log_joint(left_out)
            weight = scored_weight(scored, membership.weight, len(inputs.X))
            found = calibrate(joint, membership.targets(), weight)
            self.model_.temperature_, scale = found
            self.model_.class_scale_ = scale[self.class_of_part_]
        return self

    @property
    def temperature_(self):
        """What the log joint is divided by."""
        return self.model_.temperature_

    @property
    def class_scale_(self):
        """Factor of the joint density of each class that calibration found."""
        _, first = np.unique(self.class_of_part_, return_index=True)
        return self.model_.class_scale_[first]

    @property
    def components_(self):
        """The parts of the classes."""
        count, cls = self.model_.class_count_, self.class_of_part_
        total = np.bincount(cls, count)[cls]
        columns = zip(cls, count / total, self.model_.means_, self.model_.covariances_, strict=True)
        return [Component(self.classes_[k], float(share), mean, cov) for k, share, mean, cov in columns]

    @property
    def class_count_(self):
        """N_k, the sum of weights of each class."""
        return np.bincount(self.class_of_part_, self.model_.class_count_)

    @property
    def means_(self):
        """Mean of each class, over its parts."""
        return self._of_classes(self.model_.means_)

    @property
    def covariances_(self):
        """Covariance of each class: within its parts, and between them."""
        away = self.model_.means_ - self.means_[self.class_of_part_]
        return self._of_classes(self.model_.covariances_ + away[:, :, None] * away[:, None, :])

    def _of_classes(self, of_parts):
        """Weighted mean over the parts of each class."""
        count, K = self.model_.class_count_, len(self.classes_)
        share = np.where(self.class_of_part_ == np.arange(K)[:, None], count, 0.0)
        share = share / np.maximum(share.sum(1, keepdims=True), np.finfo(float).tiny)
        return np.tensordot(share, of_parts, axes=1)

    def describe(self):
        """Return a page of text on the fitted model: its parts, and their class models."""
        check_is_fitted(self)
        parts = [f"   {i}: {c.label}, {100 * c.share:.0f} %" for i, c in enumerate(self.components_)]
        return "\n".join([f"BayesianMDA: {len(parts)} parts", *parts, "", self.model_.describe()])

    def sample_posterior(self, n=1, random_state=None):
        """Draw proportions, means and covariances of the parts, as :meth:`BayesianQDA.sample_posterior`."""
        check_is_fitted(self)
        return self.model_.sample_posterior(n, random_state)

    def predict_log_proba(self, X, X_cov=None, *, paired=True, method="exact"):
        """Return log P(class | x, D); exact where the probability underflows to 0."""
        out = super().predict_log_proba(X, X_cov, paired=paired, method=method)
        if on_device(X):
            return out
        # What is 1 in the precision of the result has the logarithm 0.
        return np.where(out > -0.5 * np.finfo(out.dtype).eps, out.dtype.type(0.0), out)

    def save(self, path, *, units=None, provenance=None, features=None):
        """Write the fitted model to a file of arrays and JSON; :func:`uncover.load_model` reads it."""
        from uncover.estimators.persistence import save_model

        check_is_fitted(self)
        save_model(self, path, units=units, provenance=provenance, features=features)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "model_")

    # ---- what reads inputs: the class models of the parts ---------------------

    def _class_models(self):
        owner = self.class_of_part_[self.model_._known_classes()]
        numbers = np.searchsorted(self._known_classes(), owner)
        return self.model_, Components(numbers, self.model_.temperature_)

    def _known_classes(self):
        return np.unique(self.class_of_part_[self.model_._known_classes()])

    @property
    def ignored_features_(self):
        """Which features are constant, and not used."""
        return self.model_.ignored_features_

    @property
    def posterior_(self):
        """Posteriors of the parts."""
        return self.model_.posterior_

    @property
    def statistics_(self):
        """Statistics of the parts."""
        return self.model_.statistics_

    def _kind(self):
        return self.model_._kind()

    def _check_noise(self, noise):
        self.model_._check_noise(noise)

    def _training_spread(self):
        return self.model_._training_spread()

    def _feature_names(self):
        return self.model_._feature_names()


def _find_parts(X, membership):
    """Number of the part of each sample, over all classes, and the class of each part."""
    points = X.mean(axis=1, dtype=np.float64) if X.ndim == 3 else X.astype(np.float64)
    parts, owner = np.empty(len(points), dtype=np.intp), []
    for k in range(membership.n_classes):
        mine = np.flatnonzero(membership.codes == k)
        weight = None if membership.weight is None else membership.weight[mine]
        codes = find_components(points[mine], weight)
        parts[mine] = len(owner) + codes
        owner += [k] * (int(codes.max()) + 1)
    return parts, np.array(owner)
