"""The recommended classifier: class models pooled by how well they predict what they have not seen."""

from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from uncover.estimators.choices import check_choice
from uncover.estimators.class_shares import ClassSharesMixin, in_population
from uncover.estimators.discriminant import BayesianQDA
from uncover.estimators.fit_members import Training
from uncover.estimators.fit_pool import fit_pool
from uncover.estimators.fitted import SaveMixin, learned
from uncover.estimators.groups import read_groups, read_scored
from uncover.estimators.inputs import read_inputs, takes_gaps, to_learn_from, warn_of_single, warn_of_units
from uncover.estimators.label_noise import MEANINGS, believed_labels
from uncover.estimators.membership import read_membership
from uncover.estimators.predicting import warn_of_empty_samples, warn_of_exactness
from uncover.estimators.unknown import UnknownMixin
from uncover.measurement.class_prediction import DRAWS, TRUE_VALUES
from uncover.measurement.prediction import predict
from uncover.models.realisations import KINDS, REALISATIONS_WITH_GAPS

# Of a soft label, classes of less than this share are left out.
LEAST_SHARE = 1e-3


class BayesianClassifier(ClassSharesMixin, UnknownMixin, SaveMixin, ClassifierMixin, BaseEstimator):
    """The recommended default: class models of several kinds, pooled; nothing to choose.

    Members are Gaussian class models with ``prior="evidence"``, logistic regression, and densities of one
    kernel a sample (features by their relevance to the classes), each on the features and on their logarithm
    where all are positive, and randomised trees. Each predicts training samples that it has not seen (in
    closed form, or by folds); a temperature makes its probabilities honest. By the score of those predictions
    the exponents b of their geometric mean are known, more or less: the answer is the mean over 8 draws of

        P(k | x, b) ∝ [Π_m P_m(k | x)^(b_m g_m(x))]^(Σ_m b_m / Σ_m b_m g_m(x))

    Members that extrapolate count as far as x resembles the training samples, g: Gaussians and logistic
    regression by the share of training samples to which the Gaussians give less than to x, of all samples or
    of those of a class, if that is below 0.1; trees by the density at x, if no training sample lies in so
    empty a place. Where nothing like x was seen, what is said about it comes from the kernels, which
    are then not sure. With ``groups``, groups left out show whether Gaussians and logistic regression can be
    trusted as far as trees; then they are, if that predicts these groups better. Samples of a group are right
    or wrong together: n in groups of sizes n_g count as (Σ n_g)²/Σ n_g² (Kish).

    Known noise (X_cov, ``Measured``, ``"draws"``, ``"repeats"``) is for all members. Gaussian class models,
    of one component a class and of several, see it in closed form. The others learn from drawn true values
    of the training samples and are asked about draws of the true value of x, by the Gaussians that describe
    the samples best: P(k | x) = E[P(k | χ)]. Beside them stand members that take values as they are, and
    logistic regression and trees that see log standard uncertainties as features, where these vary; such
    members count as far as the noise of x is like that of the training samples. A missing feature (NaN) is
    left out of the formula by Gaussians, in training too, and drawn for the others: in training given the
    rest and the class, in prediction given the rest. With ``"shared"`` Gaussians are read world by world,
    the others at the mean over the worlds. Noise of training samples below a thousandth of the variance
    within classes is taken as none.

    With soft labels a sample stands for one of each class, weighted by its probability, all of which are left
    out together. What certainties say, and labels that may be wrong (``label_noise``), is first combined
    with X by :class:`BayesianQDA`.

    Parameters
    ----------
    class_prior : float or array of shape (class,)
        Dirichlet parameters α of the class proportions: log odds are those of shares N_k + α_k.
    realisations : "pooled", "repeats", "draws" or "shared"
        What several realisations of a sample mean, as in :class:`BayesianQDA`.
    missing : "marginalise" or "error"
        Whether samples may lack features (NaN), in training and prediction.
    label_noise : array of shape (class, class), "learn" or None
        P(label | class), where labels may be wrong, as in :class:`BayesianQDA`.
    random_state : int or None
        Seed of folds, trees and the choice of samples where there are very many; None counts as 0, so that
        a fit can always be repeated.

    Attributes
    ----------
    classes_ : array of shape (class,)
    means_, covariances_ : arrays of shape (class, feature) and (class, feature, feature)
        Of the training samples of each class.
    realisations_ : int
        Of each training sample.
    members_ : list of str
        Names of the members; those of less than 1 % weight are dropped, unless typicality or draws of true
        values come from them.
    weights_ : array of shape (member,)
        Their mean exponents b where x is typical, brought to the sum 1.
    temperature_ : float
        One over the sum of the mean exponents.
    trusts_ : bool
        Whether all members that extrapolate are trusted as far as trees.
    model_ : Pool
        The fitted value; the attributes above are read from it.
    n_features_in_ : int
    feature_names_in_ : array of str
        Where X has names.

    References
    ----------
    Genest and Zidek (1986), Combining probability distributions: a critique and an annotated bibliography,
    Statistical Science 1, 114–135.
    Kish (1965), Survey Sampling, Wiley: the effective number of samples that belong together.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(90) % 3
    >>> X = rng.normal(size=(90, 2)) + 3.0 * y[:, None]
    >>> clf = BayesianClassifier().fit(X, y)
    >>> clf.predict([[0.0, 0.0], [6.0, 6.0]])
    array([0, 2])
    >>> bool(clf.predict_proba([[0.0, 0.0]]).max() > 0.95)
    True
    """

    def __init__(
        self, class_prior=1.0, realisations="pooled", missing="marginalise", random_state=0, label_noise=None
    ):
        self.class_prior = class_prior
        self.realisations = realisations
        self.missing = missing
        self.random_state = random_state
        self.label_noise = label_noise

    def fit(
        self,
        X,
        y=None,
        sample_weight=None,
        *,
        X_cov=None,
        groups=None,
        scored=None,
        label_proba=None,
        label_meaning="certainty",
        classes=None,
    ):
        """Fit all members, and find temperature and weights by what they say of samples left out.

        Parameters
        ----------
        X : array of shape (sample, feature) or (sample, realisation, feature), or Measured
        y : array of shape (sample,)
        sample_weight : array of shape (sample,), optional
            How many samples each stands for; one of weight 2 is left out as one. Weight 0 is no sample.
        X_cov : array, optional
            Known noise of X, in the shapes of :meth:`BayesianQDA.fit`.
        groups : array of shape (sample,), optional
            Samples that belong together (a polygon, a field) are left out together: weights and temperature
            are then those for predicting other polygons.
        scored : array of bool of shape (sample,), optional
            Samples that count when they are left out, such as those far from samples of other groups.
        label_proba, label_meaning, classes
            Soft labels in place of y, as in :meth:`BayesianQDA.fit`. Classes without samples are left out.
        """
        check_choice("realisations", self.realisations, sorted(KINDS))
        check_choice("label_meaning", label_meaning, MEANINGS)
        observation = read_inputs(self, X, X_cov, reset=True, allow_nan=takes_gaps(self))
        if observation.X.ndim == 3 and observation.lacks_features:
            raise ValueError(REALISATIONS_WITH_GAPS)
        labels, classes = read_membership(self, y, label_proba, classes, sample_weight, observation.X)
        observation = to_learn_from(self, observation, labels)
        if self.label_noise is not None or (labels.uncertain and label_meaning == "certainty"):
            given = {"label_proba": labels.probability} if y is None else {"y": y}
            gaussians = BayesianQDA("evidence", realisations=self.realisations, label_noise=self.label_noise)
            gaussians.fit(X, sample_weight=sample_weight, X_cov=X_cov, classes=classes, **given)
            labels = believed_labels(gaussians.model_, observation, labels)
        groups, scored = read_groups(groups, len(observation)), read_scored(scored, len(observation))
        seed = 0 if self.random_state is None else self.random_state
        codes = labels.targets().argmax(1) if labels.codes is None else labels.codes
        training = Training(
            observation, codes, classes, groups, seed, scored, self.realisations, labels.weight
        )
        if labels.uncertain:
            training = _one_of_each_class(training, labels)
        training = _of_positive_weight(training)
        _check_enough(len(training.codes), training.groups)
        warn_of_single(KINDS[self.realisations], observation.X)
        if observation.noise is not None:
            names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
            warn_of_units(observation.noise, np.nanstd(observation.X, axis=0), names)
        self.model_ = fit_pool(training, self.class_prior)
        return self

    classes_ = learned("classes")
    class_count_ = learned("class_count")
    means_ = learned("means")
    covariances_ = learned("covariances")
    realisations_ = learned("n_realisations")
    weights_ = learned("weights")
    temperature_ = learned("temperature")
    trusts_ = learned("trusts")
    members_ = property(lambda self: [member.name for member in self.model_.members])

    def predict_proba(self, X, X_cov=None, *, paired=True, class_prior=None):
        """Return P(class | x, D): shape (sample, class), columns as in ``classes_``.

        Parameters are those of :meth:`BayesianQDA.predict_proba`.
        """
        out = self._predict(X, X_cov, paired, class_prior).probability()
        return out.astype(np.float32) if getattr(X, "dtype", None) == np.float32 else out

    def predict_log_proba(self, X, X_cov=None, *, paired=True):
        """Return the logarithms of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, X_cov, paired=paired))

    def predict(self, X, X_cov=None, *, paired=True):
        """Return the most probable class of each sample."""
        probability = self.predict_proba(X, X_cov, paired=paired)
        return self.classes_[probability.argmax(axis=1)]

    def typicality(self, X, X_cov=None, *, paired=True):
        """Return how typical each sample is of the classes: a p-value in [0, 1].

        The largest over the classes of (1 + samples of the class that its densities give no more)/(1 + n):
        Gaussians and kernels together, each training sample seen by models without it (or its group). Of new
        members of each class, rare ones too, at most a share a is below a, whatever the class looks like.
        Below 1/(1 + n), where no sample of the class lies, it is the p-value of :class:`BayesianQDA`, and
        never more. With known noise of more than 1 % of the variance within classes, missing features, and
        ``"shared"`` all is that of :class:`BayesianQDA`.
        """
        return self._predict(X, X_cov, paired).typicality()

    def _unknown_odds(self, X, X_cov, paired):
        return self._predict(X, X_cov, paired).unknown()

    def uncertainty(self, X, X_cov=None, *, paired=True, n_draws=DRAWS, n_true_values=TRUE_VALUES):
        """Return where the uncertainty of each prediction comes from, in nats.

        Model is what knowing all parameters, and which member is right, would take away: what the drawn
        exponents differ by, and the errors of the members' parameters, as far as the mean has them too.
        Measurement is what
        knowing the true value would tell each member, or what averaging over realisations adds; overlap is
        the rest. They add up to the total.

        Parameters
        ----------
        X, X_cov, paired
            As in ``predict``.
        n_draws, n_true_values : int
            Draws behind the budgets of Gaussian members, as in :meth:`BayesianQDA.uncertainty`; what is known
            of the parameters of the others is in closed form, to second order.
        """
        if min(n_draws, n_true_values) < 1:
            raise ValueError(
                f"n_draws and n_true_values must be at least 1, got {n_draws} and {n_true_values}."
            )
        return self._predict(X, X_cov, paired).budget(n_draws, n_true_values)

    def _predict(self, X, X_cov, paired, class_prior=None):
        """Check new inputs, and combine them with the pool."""
        check_is_fitted(self)
        model = in_population(self.model_, class_prior)
        observation = read_inputs(self, X, X_cov, reset=False, allow_nan=takes_gaps(self))
        warn_of_empty_samples(observation.X)
        found = predict(model, observation, paired=paired)
        if model.truth_model.describes_true_values and found.observation.noise is None:
            warn_of_exactness()
        return found


def _one_of_each_class(training, labels):
    """Training samples with soft labels as weighted ones of each class, which are left out together."""
    share = np.where(labels.targets() < LEAST_SHARE, 0.0, labels.targets())
    share /= share.sum(1, keepdims=True)
    share *= 1.0 if labels.weight is None else labels.weight[:, None]
    rows, codes = np.nonzero(share)
    return replace(
        training,
        observation=training.observation[rows],
        codes=codes,
        groups=(rows if training.groups is None else training.groups[rows]),
        scored=None if training.scored is None else training.scored[rows],
        weight=share[rows, codes],
        ranked=codes == training.codes[rows],
    )


def _of_positive_weight(training):
    """The training samples without those of weight 0, and without classes that have no sample."""
    kept = np.ones(len(training.codes), bool) if training.weight is None else training.weight > 0
    present, codes = np.unique(training.codes[kept], return_inverse=True)
    if len(present) < 2:
        name = training.classes.tolist()[present[0]]
        raise ValueError(f"only class {name!r} has samples of positive weight; give two classes.")

    def some(values):
        return None if values is None else values[kept]

    return replace(
        training,
        observation=training.observation if kept.all() else training.observation[kept],
        codes=codes,
        classes=training.classes[present],
        groups=None if training.groups is None else np.unique(some(training.groups), return_inverse=True)[1],
        scored=some(training.scored),
        weight=some(training.weight),
        ranked=some(training.ranked),
    )


def _check_enough(n, groups):
    largest = 1 if groups is None else np.bincount(groups).max()
    if n < 4 or n - largest < 2:
        besides = "" if groups is None else f", {n - largest} besides the largest group,"
        raise ValueError(
            f"{n} samples{besides} are too few to leave some out and learn from the others; give at least 4, "
            "and 2 besides each group, or use BayesianQDA."
        )
