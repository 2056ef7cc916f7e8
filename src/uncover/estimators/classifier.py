"""The recommended classifier: class models averaged by how well each predicts what it has not seen."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from uncover.bayes.budget import UncertaintyBudget, entropy
from uncover.estimators.calibration import fit_temperature, read_groups
from uncover.estimators.discriminant import BayesianLDA, BayesianQDA
from uncover.estimators.inputs import Inputs, check_choice, read_inputs
from uncover.estimators.members import BY_RELEVANCE, GaussianMember, KernelMember, LogisticMember, Training
from uncover.estimators.membership import Membership, read_membership
from uncover.estimators.realisations import KINDS
from uncover.measurement.transforms import MeasuredLog, carry_covariances

# A member of less weight than this costs time and says nothing.
LEAST_WEIGHT = 0.01
_TINY = np.finfo(float).tiny


class Answers(NamedTuple):
    """All that the recommended classifier says of some inputs."""

    probability: np.ndarray  # (sample, class)
    budget: UncertaintyBudget
    best_of_views: np.ndarray  # (view, sample), number of the most probable class
    typicality: np.ndarray  # (sample,)


class BayesianClassifier(ClassifierMixin, BaseEstimator):
    """The recommended default: class models of several kinds, averaged; nothing to choose.

    Members are Gaussian class models with ``prior="evidence"``, logistic regression, and densities of one
    kernel a sample (of all features alike, and by their relevance to the classes), each on the features and
    on their logarithm where all are positive. Each predicts training samples that it has not seen (in closed
    form, or by folds); a temperature makes its probabilities honest, and the weights of the average maximise
    the score of those predictions:

        P(k | x) ∝ [Σ_m w_m g_m(x) P_m(k | x) / Σ_m w_m g_m(x)]^(1/T)

    Members that extrapolate (all but the kernels) count in proportion to the typicality g of x: where nothing
    like x was seen, what is said about it comes from the kernels, which are then not sure.

    Known noise (X_cov, ``Measured``, ``"draws"``), ``"repeats"`` and ``"shared"`` have a meaning for Gaussian
    class models only: with them these are averaged alone. Weights of samples and soft labels are not taken:
    what a sample left out says would have to be weighed too; :class:`BayesianQDA` and :class:`BayesianMDA`
    take them.

    Parameters
    ----------
    class_prior : float or array of shape (class,)
        Dirichlet parameters of the class proportions, of the Gaussian members.
    realisations : "pooled", "repeats", "draws" or "shared"
        What several realisations of a sample mean, as in :class:`BayesianQDA`.
    random_state : int or None
        Seed of folds and of the choice of samples where there are very many.

    Attributes
    ----------
    classes_ : array of shape (class,)
    means_, covariances_ : arrays of shape (class, feature) and (class, feature, feature)
        Of the training samples of each class.
    realisations_ : int
        Of each training sample.
    members_ : list of str
        Names of the members; those of less than 1 % weight are dropped.
    weights_ : array of shape (member,)
        Their weights where x is typical.
    temperature_ : float
        T, of the average.
    n_features_in_ : int
    feature_names_in_ : array of str
        Where X has names.

    References
    ----------
    Yao, Vehtari, Simpson and Gelman (2018), Using stacking to average Bayesian predictive distributions,
    Bayesian Analysis 13, 917–1007.

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

    def fit(self, X, y, *, X_cov=None, groups=None):
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
        """
        check_choice("realisations", self.realisations, sorted(KINDS))
        inputs = read_inputs(self, X, X_cov, reset=True)
        membership, self.classes_ = read_membership(self, y, None, None, None, inputs.X)
        groups = read_groups(groups, len(inputs.X))
        seed = 0 if self.random_state is None else self.random_state
        training = Training(inputs, membership.codes, self.classes_, groups, seed)
        self.class_count_ = np.bincount(training.codes, minlength=len(self.classes_)).astype(float)
        self.realisations_ = inputs.X.shape[1] if inputs.X.ndim == 3 else 1
        self.means_, self.covariances_ = _moments(inputs.X, training.codes, len(self.classes_))
        self.logarithm_ = _logarithm(inputs.X)
        self.members_, self._fitted, held_out = [], [], []
        for transform in ("", "log ")[: 1 if self.logarithm_ is None else 2]:
            seen = Training(self._transformed(inputs, transform), training.codes, self.classes_, groups, seed)
            for make in self._makers(inputs):
                member, joint = make(seen)
                temperature = fit_temperature(joint, training.targets[training.chosen()])
                self.members_.append(transform + member.name)
                self._fitted.append((transform, member, temperature))
                held_out.append(joint)
        self._average(held_out, training.targets[training.chosen()])
        return self

    def _makers(self, inputs):
        """Functions that fit a member to training samples and return it with its held-out log joint."""
        options = {"prior": "evidence", "class_prior": self.class_prior, "realisations": self.realisations}
        models = [BayesianQDA(**options), BayesianLDA(**options)]
        several = inputs.X.ndim == 3 and inputs.X.shape[1] > 1
        if inputs.noise is not None or (several and self.realisations != "pooled"):
            return [lambda t, m=m: GaussianMember.fit(t, m) for m in models]
        return [
            KernelMember.fit,
            lambda t: KernelMember.fit(t, by_relevance=True),
            LogisticMember.fit,
            lambda t: GaussianMember.fit(t, models[0]),
        ]

    def _average(self, held_out, targets):
        """Find the weights and the temperature of the average."""
        P, gate = self._probabilities(held_out)
        weights = _stacking_weights((P * targets).sum(-1).T, gate.T)
        heard = weights >= LEAST_WEIGHT
        heard[self._by_relevance()] = True  # it says how typical an input is
        self.weights_ = weights[heard] / weights[heard].sum()
        self._fitted = [one for one, used in zip(self._fitted, heard, strict=True) if used]
        self.members_ = [name for name, used in zip(self.members_, heard, strict=True) if used]
        pooled = _pool(P[heard], gate[heard], self.weights_)
        with np.errstate(divide="ignore"):
            self.temperature_ = fit_temperature(np.log(pooled)[:, None], targets)

    # ---- prediction ------------------------------------------------------------------------------

    def predict_proba(self, X, X_cov=None, *, paired=True):
        """Return P(class | x, D): shape (sample, class), columns as in ``classes_``.

        Parameters are those of :meth:`BayesianQDA.predict`.
        """
        P, gate = self._members_at(self._read(X, X_cov), paired)
        out = self._tempered(_pool(P, gate, self.weights_))
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
        """Return how typical each sample is of the training data: a p-value in [0, 1].

        The share of training samples that lie, seen by the others (by other groups), in places as empty; with
        known noise, ``"repeats"`` and ``"shared"`` that of :class:`BayesianQDA`.
        """
        inputs = self._read(X, X_cov)
        kernels = self._by_relevance()
        if kernels:
            _, member, _ = self._fitted[kernels[0]]
            return member.typicality(member.log_joint(inputs))
        return self._typicality_of_models(inputs, paired)

    def _typicality_of_models(self, inputs, paired):
        """Typicality where all members are Gaussian: that of the first."""
        transform, member, _ = self._fitted[0]
        seen = self._transformed(inputs, transform)
        return member.model.typicality(seen.X, seen.noise, paired=paired)

    def uncertainty(self, X, X_cov=None, *, paired=True):
        """Return where the uncertainty of each prediction comes from, in nats.

        measurement is what averaging over realisations adds, model what averaging over members adds (how far
        they disagree), overlap the rest; the parts add up to the total.
        """
        return self._answers(self._read(X, X_cov), paired=paired).budget

    def _answers(self, inputs, *, paired=True):
        """All that is said of inputs that have been read, in one pass: what a map is made of."""
        P, gate, views = self._members_at(inputs, paired, views=True)
        pooled = _pool(P, gate, self.weights_)
        share = _local_weights(gate, self.weights_)
        whole = entropy(pooled)
        safe = np.where(whole > 0, whole, 1.0)
        inner = (share * entropy(P)).sum(0)
        within = (share * np.stack([entropy(v).mean(1) for v in views])).sum(0)
        model = np.clip((whole - inner) / safe, 0.0, 1.0)
        measurement = np.clip((inner - within) / safe, 0.0, 1.0)
        probability = self._tempered(pooled)
        total = entropy(probability)
        return Answers(
            probability=probability,
            budget=UncertaintyBudget(
                total, total * model, total * measurement, total * (1 - model - measurement)
            ),
            best_of_views=np.einsum("ms,msrk->rsk", share, np.stack(views)).argmax(-1),
            typicality=self._typicality_at(gate, inputs, paired),
        )

    def _typicality_at(self, gate, inputs, paired):
        """Typicality of inputs; where a member that extrapolates was asked, it is that one's gate."""
        if not self._by_relevance():
            return self._typicality_of_models(inputs, paired)
        for mine, (_, member, _) in zip(gate, self._fitted, strict=True):
            if member.extrapolates:
                return mine
        member = self._fitted[self._by_relevance()[0]][1]
        return member.typicality(member.log_joint(inputs))

    def describe(self):
        """Return a page of text on the fitted model: its members and their weights."""
        check_is_fitted(self)
        counts = zip(self.classes_, self.class_count_, strict=True)
        members = zip(self.members_, self.weights_, self._fitted, strict=True)
        lines = [
            f"BayesianClassifier: {len(self.classes_)} classes, {self.n_features_in_} features",
            "Samples: " + ", ".join(f"{name} {count:g}" for name, count in counts),
            f"Temperature of the average: {self.temperature_:.3g}. Members, with weight and temperature:",
            *(f"   {name:<26} {weight:.3f}  {T:.3g}" for name, weight, (_, _, T) in members),
        ]
        return "\n".join(lines) + "\n"

    def save(self, path, *, units=None, provenance=None):
        """Write the fitted model to a file of arrays and JSON; :func:`uncover.load_model` reads it."""
        from uncover.estimators.persistence import save_model

        check_is_fitted(self)
        save_model(self, path, units=units, provenance=provenance)

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

    def _members_at(self, inputs, paired, views=False):
        """Probabilities of the members (member, sample, class) and their gates (member, sample)."""
        joints = []
        for transform, member, _ in self._fitted:
            seen = self._transformed(inputs, transform)
            gaussian = isinstance(member, GaussianMember)
            joints.append(member.log_joint(seen, paired=paired) if gaussian else member.log_joint(seen))
        P, gate = self._probabilities(joints)
        if not views:
            return P, gate
        each = [softmax(j / T, axis=-1) for j, (_, _, T) in zip(joints, self._fitted, strict=True)]
        return P, gate, each

    def _probabilities(self, joints):
        """Calibrated probabilities of the members, averaged over views, and how far each is to be heard."""
        kernels = self._by_relevance()
        typicality = self._fitted[kernels[0]][1].typicality(joints[kernels[0]]) if kernels else 1.0
        P, gate = [], []
        for joint, (_, member, temperature) in zip(joints, self._fitted, strict=True):
            heard = typicality if member.extrapolates else 1.0
            lost = ~np.isfinite(joint).any(-1, keepdims=True)
            P.append(softmax(np.where(lost, 0.0, joint / temperature), axis=-1).mean(1))
            gate.append(np.broadcast_to(heard, len(joint)))
        return np.stack(P), np.stack(gate)

    def _by_relevance(self):
        """Number of the member whose typicality counts, in a list; none where there are no kernels."""
        return [i for i, (_, member, _) in enumerate(self._fitted) if member.name == BY_RELEVANCE][:1]

    def _tempered(self, probability):
        with np.errstate(divide="ignore"):
            return softmax(np.log(probability) / self.temperature_, axis=1)

    def _transformed(self, inputs, transform):
        if not transform:
            return inputs
        X, log = inputs.X, self.logarithm_
        rows = X.reshape(-1, X.shape[-1]).astype(np.float64)
        noise = None if inputs.noise is None else carry_covariances(inputs.noise, log._jacobian(rows))
        return Inputs(log._values(rows).reshape(X.shape), noise)


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


def _local_weights(gate, weights):
    """Weights of the members at each sample: (member, sample)."""
    local = weights[:, None] * gate
    return local / local.sum(0)


def _pool(P, gate, weights):
    """Weighted average of the members' probabilities: (sample, class)."""
    return np.einsum("ms,msk->sk", _local_weights(gate, weights), P)


def _stacking_weights(hit, gate):
    """Weights of the highest held-out score, with a prior of one sample in favour of each member.

    Maximises Σ_i log(Σ_m w_m g_im a_im / Σ_m w_m g_im) + Σ_m log w_m over w = softmax(v), where a_im is the
    probability that member m gives to the true class of sample i (sample, member).
    """
    known = hit.max(axis=1) > 0
    hit, gate = hit[known], gate[known]
    M = hit.shape[1]

    def loss(v):
        w = softmax(v)
        heard = w * gate
        right = np.maximum(heard * hit, _TINY)
        value = np.log(right.sum(1)).sum() - np.log(heard.sum(1)).sum() + np.log(w).sum()
        slope = (right / right.sum(1, keepdims=True) - heard / heard.sum(1, keepdims=True)).sum(0)
        return -value, -(slope + 1.0 - M * w)

    return softmax(minimize(loss, np.zeros(M), jac=True, method="L-BFGS-B").x)
