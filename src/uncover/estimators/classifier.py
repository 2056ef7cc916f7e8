"""The recommended classifier: class models pooled by how well they predict what they have not seen."""

import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from uncover.bayes.budget import UncertaintyBudget, entropy
from uncover.bayes.streams import stream
from uncover.estimators.calibration import fit_temperature, warn_of_lonely_classes
from uncover.estimators.discriminant import BayesianLDA, BayesianQDA
from uncover.estimators.groups import read_groups, read_scored
from uncover.estimators.inputs import read_inputs
from uncover.estimators.members import (
    BY_RELEVANCE,
    ClassRanks,
    GaussianMember,
    KernelMember,
    LogisticMember,
    Training,
    one_realisation,
    take,
)
from uncover.estimators.membership import Membership, read_membership
from uncover.estimators.noise_share import NoiseShare
from uncover.estimators.pooling import fit_pool, local_weights, mix, pool, pooled_information
from uncover.estimators.predicting import DRAWS, TRUE_VALUES
from uncover.estimators.realisations import KINDS
from uncover.estimators.trees import TreeMember
from uncover.estimators.values import Inputs, check_choice
from uncover.measurement.measured import Measured
from uncover.measurement.transforms import MeasuredLog, carry_covariances

# A member of less weight than this costs time and says nothing.
LEAST_WEIGHT = 0.01
# Where less than this share of the samples is stranger, members that extrapolate are heard the less.
STRANGE = 0.1
# Samples by which it is seen how far members lie apart.
MOST_COMPARED = 256
# Draws behind the budget of a pixel.
MAP_DRAWS = {"n_draws": 100, "n_true_values": 256}


class Answers(NamedTuple):
    """All that the recommended classifier says of some inputs."""

    probability: np.ndarray  # (sample, class)
    budget: UncertaintyBudget
    best_of_views: np.ndarray  # (view, sample), number of the most probable class
    typicality: np.ndarray  # (sample,)


class BayesianClassifier(ClassifierMixin, BaseEstimator):
    """The recommended default: class models of several kinds, pooled; nothing to choose.

    Members are Gaussian class models with ``prior="evidence"``, logistic regression, and densities of one
    kernel a sample (of all features alike, and by their relevance to the classes), each on the features and
    on their logarithm where all are positive, and randomised trees. Each predicts training samples that it
    has not seen (in closed form, or by folds); a temperature makes its probabilities honest, and weights w
    and temperature T of their geometric mean maximise the score of those predictions:

        P(k | x) ∝ [Π_m P_m(k | x)^(w_m g_m(x))]^(1 / (T Σ_m w_m g_m(x)))

    Members that extrapolate count as far as x resembles the training samples, g: Gaussians and logistic
    regression by the share of training samples to which the Gaussians give less than to x, of all samples or
    of those of a class, if that is below 0.1; trees by the density at x, if no training sample lies in so
    empty a place. Where nothing like x was seen, what is said about it comes from the kernels, which
    are then not sure. With ``groups``, groups left out show whether Gaussians and logistic regression can be
    trusted as far as trees; then they are, if that predicts these groups better. Samples of a group are right
    or wrong together: n in groups of sizes n_g count as (Σ n_g)²/Σ n_g² (Kish).

    Known noise (X_cov, ``Measured``, ``"draws"``), ``"repeats"`` and ``"shared"`` have a meaning for Gaussian
    class models only: with them these are pooled alone, and not on logarithms where an error is common to all
    samples (the systematic covariance of a ``Measured``). Noise of less than a hundredth of the variance
    within classes counts in proportion, beside the answers of all members to X as it is, so that noise that
    goes to nothing changes nothing. Weights of samples and soft labels are not taken:
    what a sample left out says would have to be weighed too; :class:`BayesianQDA` takes both.

    Parameters
    ----------
    class_prior : float or array of shape (class,)
        Dirichlet parameters of the class proportions, of the Gaussian members.
    realisations : "pooled", "repeats", "draws" or "shared"
        What several realisations of a sample mean, as in :class:`BayesianQDA`.
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
        Names of the members; those of less than 1 % weight are dropped, unless typicality comes from them.
    weights_ : array of shape (member,)
        w, their weights where x is typical.
    temperature_ : float
        T, of the mean.
    without_noise_ : BayesianClassifier or None
        Where known noise is as small as that: the classifier that takes X as exact.
    disagreement_ : float
        Share of the differences between members that the errors of their parameters do not explain.
    trusts_ : bool
        Whether all members that extrapolate are trusted as far as trees.
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

    def __init__(self, class_prior=1.0, realisations="pooled", random_state=0):
        self.class_prior = class_prior
        self.realisations = realisations
        self.random_state = random_state

    # ---- fitting ---------------------------------------------------------------------------------

    def fit(self, X, y, *, X_cov=None, groups=None, scored=None):
        """Fit all members, and find temperature and weights by what they say of samples left out.

        Parameters
        ----------
        X : array of shape (sample, feature) or (sample, realisation, feature), or Measured
        y : array of shape (sample,)
        X_cov : array, optional
            Known noise of X, in the shapes of :meth:`BayesianQDA.fit`.
        groups : array of shape (sample,), optional
            Samples that belong together (a polygon, a field) are left out together: weights and temperature
            are then those for predicting other polygons.
        scored : array of bool of shape (sample,), optional
            Samples that count when they are left out, such as those far from samples of other groups.
        """
        check_choice("realisations", self.realisations, sorted(KINDS))
        inputs = read_inputs(self, X, X_cov, reset=True)
        membership, self.classes_ = read_membership(self, y, None, None, None, inputs.X)
        groups = read_groups(groups, len(inputs.X))
        _check_enough(len(inputs.X), groups)
        seed = 0 if self.random_state is None else self.random_state
        scored = read_scored(scored, len(inputs.X))
        training = Training(inputs, membership.codes, self.classes_, groups, seed, scored)
        self.class_count_ = np.bincount(training.codes, minlength=len(self.classes_)).astype(float)
        self.realisations_ = inputs.X.shape[1] if inputs.X.ndim == 3 else 1
        self.means_, self.covariances_ = _moments(inputs.X, training.codes, len(self.classes_))
        self.logarithm_ = None if inputs.systematic is not None else _logarithm(inputs.X)
        targets, weight = training.targets[training.chosen()], training.held_out_weight()
        if not weight.any():
            warn_of_lonely_classes(3)
        self.members_, self._fitted, held_out = [], [], []
        for transform in ("", "log ")[: 1 if self.logarithm_ is None else 2]:
            seen = replace(training, inputs=self._transformed(inputs, transform))
            for make in self._makers(inputs, transform):
                member, joint = make(seen)
                temperature = fit_temperature(joint, targets, weight)
                self.members_.append(transform + member.name)
                self._fitted.append((transform, member, temperature))
                held_out.append(joint)
        self._ranks = self._rank(held_out, training.codes[training.chosen()])
        held_out = self._average(held_out, targets, weight, groups is not None)
        self.disagreement_ = self._unexplained(held_out, training)
        self._fit_without_noise(inputs, y, groups)
        return self

    def _rank(self, held_out, codes):
        """Scores of the training samples behind the typicality; None where all members are Gaussian."""
        scores = self._typical_scores(held_out)
        return None if scores is None else ClassRanks.of(scores, codes)

    def _typical_scores(self, joints):
        """Log densities of the classes, of Gaussians and kernels together: (sample, view, class)."""
        gaussians = [i for i, (t, m, _) in enumerate(self._fitted) if isinstance(m, GaussianMember) and not t]
        for kernels in self._by_relevance():
            return joints[gaussians[0]] + joints[kernels]
        return None

    def _fit_without_noise(self, inputs, y, groups):
        """Fit a classifier that takes X as exact, if noise that is known is small beside the classes."""
        self.noise_share_ = self.without_noise_ = None
        if (inputs.noise is None and inputs.systematic is None) or inputs.X.ndim == 3:
            return
        share = NoiseShare.of(inputs, self.covariances_, self.class_count_)
        if share.can_be_small:
            self.noise_share_ = share
            self.without_noise_ = clone(self).fit(inputs.X, y, groups=groups)

    def _makers(self, inputs, transform):
        """Functions that fit a member to training samples and return it with its held-out log joint."""
        options = {"prior": "evidence", "class_prior": self.class_prior, "realisations": self.realisations}
        models = [BayesianQDA(**options), BayesianLDA(**options)]
        several = inputs.X.ndim == 3 and inputs.X.shape[1] > 1
        known = inputs.noise is not None or inputs.systematic is not None
        if known or (several and self.realisations != "pooled"):
            return [lambda t, m=m: GaussianMember.fit(t, m) for m in models]
        return [
            KernelMember.fit,
            lambda t: KernelMember.fit(t, by_relevance=True),
            LogisticMember.fit,
            lambda t: GaussianMember.fit(t, models[0]),
            *([] if transform else [TreeMember.fit]),  # a logarithm would not change the order of values
        ]

    def _average(self, held_out, targets, weight, grouped):
        """Find the weights and the temperature of the mean, and whether strange inputs can be left to all."""
        tried = []
        for self.trusts_ in (False, True) if grouped else (False,):
            P, gate = self._probabilities(held_out)
            tried.append((*fit_pool(P, gate, targets, weight), self.trusts_))
        weights, temperature, _, self.trusts_ = max(tried, key=lambda one: one[2])
        heard = weights >= LEAST_WEIGHT
        heard[self._by_relevance()] = True  # these say how typical an input is
        for i, (transform, member, _) in enumerate(self._fitted):
            if isinstance(member, GaussianMember):
                alike = [transform == other for other, _, _ in self._fitted]
                heard[i] |= any(heard[alike])
        total = weights[heard].sum()
        self.weights_, self.temperature_ = weights[heard] / total, temperature / total
        self._fitted = [one for one, used in zip(self._fitted, heard, strict=True) if used]
        self.members_ = [name for name, used in zip(self.members_, heard, strict=True) if used]
        return [joint for joint, used in zip(held_out, heard, strict=True) if used]

    def _unexplained(self, held_out, training):
        """Share of the members' disagreement on samples left out that their parameters do not explain."""
        rows = stream(training.seed, "disagreement").permutation(len(held_out[0]))[:MOST_COMPARED]
        rows = rows[[all(np.isfinite(joint[i]).any(-1).all() for joint in held_out) for i in rows]]
        if len(rows) == 0:
            return 0.0
        samples, joints = training.chosen()[rows], [joint[rows] for joint in held_out]
        inputs = take(training.inputs, samples)
        if inputs.X.ndim == 3 and not self.takes_noise_:  # others than Gaussians have seen one realisation
            seen = one_realisation(training.inputs.X, training.seed)[samples][:, None, None]
            inputs = Inputs(np.take_along_axis(inputs.X, seen, 1)[:, 0])
            joints = [j if j.shape[1] == 1 else np.take_along_axis(j, seen, 1) for j in joints]
        P, gate = self._probabilities(joints)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said of the samples already
            _, model = self._own_parts(inputs, joints, self._views(joints), True, MAP_DRAWS)
        own, between, share = self._apart(P, gate, model)
        bound = (share * own).sum() - pooled_information(own, share).sum()
        return float(np.clip(1.0 - bound / between.sum(), 0.0, 1.0)) if between.sum() > 0 else 0.0

    def _apart(self, P, gate, model):
        """Information of each member's parameters, how far the members lie apart, and their weights."""
        share, inner = local_weights(self.weights_, gate), entropy(P)
        between = np.maximum(entropy(mix(P, gate, self.weights_)) - (share * inner).sum(0), 0.0)
        return inner * model, between, share

    def _views(self, joints):
        """Calibrated probabilities of each view: arrays of shape (sample, view, class)."""
        return [softmax(j / T, axis=-1) for j, (_, _, T) in zip(joints, self._fitted, strict=True)]

    # ---- prediction ------------------------------------------------------------------------------

    def predict_proba(self, X, X_cov=None, *, paired=True):
        """Return P(class | x, D): shape (sample, class), columns as in ``classes_``.

        Parameters are those of :meth:`BayesianQDA.predict`.
        """
        inputs = self._read(X, X_cov)
        P, gate = self._probabilities(self._joints(inputs, paired))
        out = pool(P, gate, self.weights_, self.temperature_)
        if self.without_noise_ is not None:
            exact = self.without_noise_.predict_proba(inputs.X)
            out = exact + self.noise_share_(inputs)[:, None] * (out - exact)
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
        never more. With known noise, ``"repeats"`` and ``"shared"`` all is that of :class:`BayesianQDA`.
        """
        inputs = self._read(X, X_cov)
        if self.without_noise_ is not None:
            return self._answers(inputs, paired=paired).typicality
        joints = None if self._ranks is None else self._joints(inputs, paired)
        return self._typicality_at(joints, inputs, paired)

    def _by_model(self, i, inputs, question, paired, **options):
        """What the class models of a Gaussian member say of inputs by themselves."""
        transform, member, _ = self._fitted[i]
        seen = self._transformed(inputs, transform)
        X, noise = seen.X, seen.noise
        if seen.systematic is not None:
            X, noise = Measured(X, noise, seen.systematic), None
        return getattr(member.model, question)(X, noise, paired=paired, **options)

    def uncertainty(self, X, X_cov=None, *, paired=True, n_draws=DRAWS, n_true_values=TRUE_VALUES):
        """Return where the uncertainty of each prediction comes from, in nats.

        The entropy of the probabilities, divided as that of the members' average is. Model is what knowing
        all parameters, and which member is right, would take away: the errors of the members' parameters, as
        far as the mean has them too, and of their differences what these do not explain. Measurement is what
        each member's own budget gives it, or what averaging over realisations adds; overlap is the rest. They
        add up to the total.

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
        draws = {"n_draws": n_draws, "n_true_values": n_true_values}
        return self._answers(self._read(X, X_cov), paired=paired, draws=draws).budget

    def _answers(self, inputs, *, paired=True, draws=None):
        """All that is said of inputs that have been read, in one pass: what a map is made of."""
        found = self._answers_of_members(inputs, paired, draws or MAP_DRAWS)
        if self.without_noise_ is None:
            return found
        exact = self.without_noise_._answers(Inputs(inputs.X), draws=draws)
        return _between(exact, found, self.noise_share_(inputs))

    def _answers_of_members(self, inputs, paired, draws):
        joints = self._joints(inputs, paired)
        P, gate = self._probabilities(joints)
        views = self._views(joints)
        probability = pool(P, gate, self.weights_, self.temperature_)
        of_views = [
            pool(v, gate, self.weights_, self.temperature_) for v in np.moveaxis(np.stack(views), 2, 0)
        ]
        parts = self._own_parts(inputs, joints, views, paired, draws)
        return Answers(
            probability=probability,
            budget=self._budget(entropy(probability), P, gate, *parts),
            best_of_views=np.stack(of_views).argmax(-1),
            typicality=self._typicality_at(joints, inputs, paired),
        )

    def _own_parts(self, inputs, joints, views, paired, draws):
        """Shares of each member's entropy due to measurement and parameters: (member, sample) each."""
        measurement, model = np.zeros((2, len(joints), len(inputs.X)))
        for i, (_, member, _) in enumerate(self._fitted):
            whole = entropy(views[i].mean(1))
            measurement[i] = _share(whole - entropy(views[i]).mean(1), whole)
            if isinstance(member, GaussianMember):
                budget = self._by_model(i, inputs, "uncertainty", paired, **draws)
                model[i] = _share(budget.model, budget.total)
                if self.takes_noise_:
                    measurement[i] = _share(budget.measurement, budget.total)
            else:
                model[i] = _share(self._information(i, joints, inputs), whole)
        return measurement, model

    def _information(self, i, joints, inputs):
        """What knowing the parameters of a member that is not Gaussian would tell of the class: (sample,)."""
        transform, member, temperature = self._fitted[i]
        if isinstance(member, TreeMember):
            return member.information(joints[i], temperature)
        return member.information(joints[i], self._transformed(inputs, transform), temperature)

    def _budget(self, total, P, gate, measurement, model):
        """The entropy ``total`` in the proportions in which the members' average has that of its own."""
        own, between, share = self._apart(P, gate, model)
        whole, inner = entropy(mix(P, gate, self.weights_)), entropy(P)
        known = _share(pooled_information(own, share) + self.disagreement_ * between, whole)
        measured = np.minimum(_share((share * inner * measurement).sum(0), whole), 1.0 - known)
        return UncertaintyBudget(total, total * known, total * measured, total * (1.0 - known - measured))

    def _typicality_at(self, joints, inputs, paired):
        """Typicality of inputs, of which the members have said ``joints``."""
        if self._ranks is None:
            return self._by_model(0, inputs, "typicality", paired)
        p_value = self._ranks.p_value(scores := self._typical_scores(joints))
        first = next(i for i, (t, m, _) in enumerate(self._fitted) if isinstance(m, GaussianMember) and not t)
        tail = self._by_model(first, inputs, "typicality", paired, per_class=True)[:, None, :]
        beyond = self._ranks.below(scores, "right") == 0
        return np.where(beyond, np.minimum(p_value, tail), p_value).mean(axis=1).max(axis=1)

    def describe(self):
        """Return a page of text on the fitted model: its members and their weights."""
        check_is_fitted(self)
        counts = zip(self.classes_, self.class_count_, strict=True)
        members = zip(self.members_, self.weights_, self._fitted, strict=True)
        lines = [
            f"BayesianClassifier: {len(self.classes_)} classes, {self.n_features_in_} features",
            "Samples: " + ", ".join(f"{name} {count:g}" for name, count in counts),
            f"Temperature of the mean: {self.temperature_:.3g}. Members, with weight and temperature:",
            *(f"   {name:<26} {weight:.3f}  {T:.3g}" for name, weight, (_, _, T) in members),
        ]
        return "\n".join(lines) + "\n"

    def save(self, path, *, units=None, provenance=None, features=None):
        """Write the fitted model to a file of arrays and JSON; :func:`uncover.load_model` reads it."""
        from uncover.estimators.persistence import save_model

        check_is_fitted(self)
        save_model(self, path, units=units, provenance=provenance, features=features)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "weights_")

    def _read(self, X, X_cov):
        check_is_fitted(self)
        inputs = read_inputs(self, X, X_cov, reset=False)
        if inputs.noise is not None and not self.takes_noise_:
            raise ValueError(
                "X_cov is given, and this model was fitted without: only Gaussian class models can take it. "
                "Fit with X_cov too, or give realisations."
            )
        return inputs

    @property
    def takes_noise_(self):
        """Whether inputs may have known noise: all members are Gaussian class models."""
        return all(isinstance(member, GaussianMember) for _, member, _ in self._fitted)

    @property
    def takes_systematic_(self):
        """Whether an error common to a scene may be known: none of these class models is of logarithms."""
        return self.takes_noise_ and not any(transform for transform, _, _ in self._fitted)

    def _joints(self, inputs, paired):
        """What each member says, uncalibrated: arrays of shape (sample, view, class)."""
        if inputs.systematic is not None and not paired and not self.takes_systematic_:
            raise ValueError(
                "X has a systematic covariance, and this model was fitted to samples without one. Fit with "
                "a Measured that has it (zeros, if these samples have no such error), or use BayesianQDA."
            )
        joints = []
        for transform, member, _ in self._fitted:
            seen = self._transformed(inputs, transform)
            gaussian = isinstance(member, GaussianMember)
            joints.append(member.log_joint(seen, paired=paired) if gaussian else member.log_joint(seen))
        return joints

    def _probabilities(self, joints):
        """Calibrated probabilities of the members (member, sample, class), over views, and their gates."""
        P = []
        for joint, (_, _, temperature) in zip(joints, self._fitted, strict=True):
            lost = ~np.isfinite(joint).any(-1, keepdims=True)
            P.append(softmax(np.where(lost, 0.0, joint / temperature), axis=-1).mean(1))
        return np.stack(P), self._gates(joints)

    def _gates(self, joints):
        """How far each member is to be heard of each sample: (member, sample)."""
        gate = np.ones((len(joints), len(joints[0])))
        for kernels in self._by_relevance():
            near = self._fitted[kernels][1].nearness(joints[kernels])
            typical = {
                transform: np.minimum(member.resemblance(joint) / STRANGE, 1.0)
                for joint, (transform, member, _) in zip(joints, self._fitted, strict=True)
                if isinstance(member, GaussianMember)
            }
            for i, (transform, member, _) in enumerate(self._fitted):
                if isinstance(member, KernelMember):  # the logarithm ends at a floor, and all below is alike
                    gate[i] = near if transform else 1.0
                else:
                    trusted = self.trusts_ or isinstance(member, TreeMember)
                    gate[i] = near if trusted else typical[transform]
        return gate

    def _by_relevance(self):
        """Number of the member whose typicality counts, in a list; none where there are no kernels."""
        return [i for i, (_, member, _) in enumerate(self._fitted) if member.name == BY_RELEVANCE][:1]

    def _transformed(self, inputs, transform):
        if not transform:
            return inputs
        X, log = inputs.X, self.logarithm_
        rows = X.reshape(-1, X.shape[-1]).astype(np.float64)
        noise = None if inputs.noise is None else carry_covariances(inputs.noise, log._jacobian(rows))
        return Inputs(log._values(rows).reshape(X.shape), noise)


def _share(part, whole):
    """part/whole in [0, 1]; 0 of nothing."""
    return np.clip(np.divide(part, whole, out=np.zeros_like(part), where=whole > 0), 0.0, 1.0)


def _between(exact, noisy, share):
    """Answers between those that take inputs as exact and those that allow for noise, by their share."""
    probability = exact.probability + share[:, None] * (noisy.probability - exact.probability)
    total = entropy(probability)

    def fraction(name):
        parts = (np.divide(getattr(b, name), np.where(b.total > 0, b.total, 1.0)) for b in budgets)
        return (1 - share) * next(parts) + share * next(parts)

    budgets = exact.budget, noisy.budget
    model, measurement = total * fraction("model"), total * fraction("measurement")
    return Answers(
        probability,
        UncertaintyBudget(total, model, measurement, total - model - measurement),
        probability.argmax(-1)[None],
        (1 - share) * exact.typicality + share * noisy.typicality,
    )


def _check_enough(n, groups):
    largest = 1 if groups is None else np.bincount(groups).max()
    if n < 4 or n - largest < 2:
        besides = "" if groups is None else f", {n - largest} besides the largest group,"
        raise ValueError(
            f"{n} samples{besides} are too few to leave some out and learn from the others; give at least 4, "
            "and 2 besides each group, or use BayesianQDA."
        )


def _moments(X, codes, K):
    """Mean and covariance of the training samples of each class."""
    points = X.mean(axis=1, dtype=np.float64) if X.ndim == 3 else X
    moments = Membership(K, codes, None, None).moments(points)
    free = np.maximum(moments.count - 1.0, 1.0)
    return moments.mean, moments.scatter / free[:, None, None]


def _logarithm(X):
    """The logarithm of the features, where all training values are positive."""
    rows = X.reshape(-1, X.shape[-1])
    return MeasuredLog().fit(rows) if np.all(rows > 0) else None
