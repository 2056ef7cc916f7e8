"""Classes made of several Gaussian parts, such as cropland = bare soil + green crop."""

import warnings
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from uncover.bayes.budget import UncertaintyBudget
from uncover.bayes.components import find_components
from uncover.bayes.streams import stream
from uncover.estimators.attribution import average_budgets, split_sight
from uncover.estimators.base import concentration
from uncover.estimators.calibration import calibrate, held_out_log_joint, read_groups
from uncover.estimators.discriminant import BayesianQDA
from uncover.estimators.inputs import check_choice, read_inputs
from uncover.estimators.membership import Membership, read_membership


class Component(NamedTuple):
    """One part of a class."""

    label: object  # the class
    share: float  # of the class's samples
    mean: np.ndarray  # (feature,)
    covariance: np.ndarray  # (feature, feature)


class BayesianMDA(ClassifierMixin, BaseEstimator):
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

    def fit(self, X, y, sample_weight=None, *, X_cov=None, groups=None):
        """Find the parts of the classes, and fit their models.

        Parameters are those of :meth:`BayesianQDA.fit`.
        """
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
            joint = self._merged(held_out_log_joint(self.model_, inputs, of_parts, groups))
            found = calibrate(joint, membership.targets(), membership.weight)
            self.model_.temperature_, scale = found
            self.model_.class_scale_ = scale[self.class_of_part_]
        return self

    @property
    def temperature_(self):
        """What the log joint is divided by."""
        return self.model_.temperature_

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

    def describe(self):
        """Return a page of text on the fitted model: its parts, and their class models."""
        check_is_fitted(self)
        parts = [f"   {i}: {c.label}, {100 * c.share:.0f} %" for i, c in enumerate(self.components_)]
        return "\n".join([f"BayesianMDA: {len(parts)} parts", *parts, "", self.model_.describe()])

    # ---- prediction ------------------------------------------------------------------------------

    def predict_proba(self, X, X_cov=None, *, paired=True, method="exact"):
        """Return P(class | x, D): shape (sample, class). Parameters are those of ``predict``."""
        return self._in_blocks(
            lambda odds: sum(softmax(o, axis=1) for o in odds) / len(odds), X, X_cov, paired, method
        )

    def predict_log_proba(self, X, X_cov=None, *, paired=True, method="exact"):
        """Return log P(class | x, D); exact where the probability underflows to 0."""

        def average(odds):
            logs = [o - logsumexp(o, axis=1, keepdims=True) for o in odds]
            return logs[0] if len(logs) == 1 else logsumexp(logs, axis=0) - np.log(len(logs))

        out = self._in_blocks(average, X, X_cov, paired, method)
        # What is 1 in the precision of the result has the logarithm 0.
        return np.where(out > -0.5 * np.finfo(out.dtype).eps, out.dtype.type(0.0), out)

    def predict(self, X, X_cov=None, *, paired=True, method="exact"):
        """Return the most probable class of each sample; parameters as in :meth:`BayesianQDA.predict`."""
        probability = self.predict_proba(X, X_cov, paired=paired, method=method)
        return self.classes_[probability.argmax(axis=1)]

    def score_samples(self, X, X_cov=None, *, paired=True, method="exact"):
        """Return log p(x | D), the log density of each sample under the whole model."""
        check_is_fitted(self)
        return self.model_.score_samples(X, X_cov, paired=paired, method=method)

    def typicality(self, X, X_cov=None, *, per_class=False, paired=True):
        """Return how typical each sample is of a part of a class, a p-value: the largest over the parts."""
        check_is_fitted(self)
        each = self.model_.typicality(X, X_cov, per_class=True, paired=paired)
        by_class = np.stack([each[:, self.class_of_part_ == k].max(1) for k in range(len(self.classes_))], 1)
        return by_class if per_class else by_class.max(axis=1)

    def uncertainty(self, X, X_cov=None, *, paired=True, n_draws=100, n_true_values=32):
        """Return where the uncertainty of each prediction comes from, as :meth:`BayesianQDA.uncertainty`."""
        check_is_fitted(self)
        inputs, reader = self.model_._open(X, X_cov, paired, "exact")
        models: dict = {}
        parts = np.empty((4, len(inputs.X)))
        extra = n_draws * self.model_._true_values_needed(inputs, paired, n_true_values)
        for rows, sights in reader.blocks(inputs, extra=extra):
            views = []
            for i, sight in enumerate(sights):
                key = id(sight.models)
                if key not in models:
                    models[key] = self.model_._draw_models(sight, n_draws)
                rng = stream(self.random_state, "true values", i, int(rows[0]))
                views.append(split_sight(sight, models[key], n_true_values, rng, self._merged))
            budget = average_budgets(views)
            parts[:, rows] = budget.total, budget.model, budget.measurement, budget.overlap
        return UncertaintyBudget(*parts)

    def save(self, path, *, units=None, provenance=None):
        """Write the fitted model to a file of arrays and JSON; :func:`uncover.load_model` reads it."""
        from uncover.estimators.persistence import save_model

        check_is_fitted(self)
        save_model(self, path, units=units, provenance=provenance)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "model_")

    def _in_blocks(self, combine, X, X_cov, paired, method):
        """Apply a function to the log odds of the classes, a list of views, block by block."""
        check_is_fitted(self)
        read_inputs(self, X, X_cov, reset=False, allow_nan=self.missing == "marginalise")
        return self.model_._predict_in_blocks(
            lambda sights: combine([self._merged(s.log_joint()) / self.temperature_ for s in sights]),
            X,
            X_cov,
            paired,
            method,
        )

    def _merged(self, log_joint):
        """Log joint of the classes from that of their parts, along the last axis."""
        owner = self.class_of_part_[self.model_._known_classes()]
        if log_joint.shape[-1] != len(owner):
            owner = self.class_of_part_
        each = [logsumexp(log_joint[..., owner == k], axis=-1) for k in range(len(self.classes_))]
        return np.stack(each, axis=-1)


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
