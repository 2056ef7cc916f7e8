"""Labels that may be wrong: an annotator's certainty, and the confusion of labels, given or learned."""

import warnings

import numpy as np
from scipy.special import softmax

TOLERANCE = 1e-6
MAX_ITERATIONS = 500
MEANINGS = ("certainty", "posterior")
_START = 0.9


def learn_from_certainties(model, inputs, membership):
    """Refit a model to labels of which ρ_ik, the probability of class k, was judged without looking at x.

    The base rate is in ρ already: r_ik ∝ ρ_ik p(x_i | k), by expectation–maximisation. Given ρ, the x_i tell
    nothing of how frequent the classes are: ``class_count_`` stays Σ_i ρ_ik.
    """
    counts, P = model.class_count_, model.class_posterior_ / model.class_posterior_.sum()
    _alternate(model, inputs, membership, lambda _: membership.probability / P, counts)


def learn_from_noisy_labels(model, inputs, membership):
    """Refit a model to labels of which Θ_kj = P(label j | class k) are wrong.

    r_ik ∝ Θ_k,yᵢ P(k) p(xᵢ | k); a Θ that is to be learned follows from them, Θ_kj ∝ Σ_i r_ik [yᵢ = j]. Sets
    ``label_confusion_``.
    """
    if membership.codes is None:
        raise ValueError("label_noise goes with labels y; label_proba says itself how sure its labels are.")
    learn = isinstance(model.label_noise, str)
    model.label_confusion_ = _start(model)

    def likelihood(soft):
        if learn and soft is not None:
            model.label_confusion_ = _confusion_of(soft, membership.codes)
        return model.label_confusion_[:, membership.codes].T

    _alternate(model, inputs, membership, likelihood)


def _alternate(model, inputs, membership, likelihood, counts=None):
    """Expectation–maximisation: the soft labels r_ik ∝ L_ik P(k) p(x_i | k) are those of the next fit.

    ``likelihood(soft)`` returns L_ik = P(label of sample i | class k), given the last soft labels or None.
    P(k) follows from them too, unless ``counts`` of the classes are given.
    The prior stays that of the labels as given, but for "evidence", which would keep the classes as wide as
    wrong labels make them.
    """
    kind = model._kind()
    measured = kind.measured(inputs, membership.weight)
    keep_prior = not (isinstance(model.prior, str) and model.prior == "evidence")
    soft = None
    for _ in range(MAX_ITERATIONS):
        before, soft = soft, membership.soft(_responsibilities(likelihood(soft), model, inputs, membership))
        model.statistics_ = kind.collect(inputs.X, soft)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said at the first fit
            model._conclude(measured, soft, keep_prior=keep_prior)
        if counts is not None:
            model.class_count_ = counts
        if before is not None and np.abs(soft.probability - before.probability).max() < TOLERANCE:
            break
    else:
        warnings.warn("learning from uncertain labels did not come to rest.", UserWarning, stacklevel=4)
    likelihood(soft)


def _responsibilities(likelihood, model, inputs, membership):
    """r_ik ∝ L_ik P(k | x_i); where no class that a label allows is known, the label as given."""
    with np.errstate(divide="ignore"):
        joint = np.log(likelihood) + model._log_probability_of(inputs)
    lost = ~np.isfinite(joint).any(1)
    joint[lost] = 0.0
    return np.where(lost[:, None], membership.targets(), softmax(joint, axis=1))


def _start(model):
    """Θ as given, or mostly right."""
    K = len(model.classes_)
    if isinstance(model.label_noise, str):
        if model.label_noise != "learn":
            raise ValueError(
                f'label_noise must be None, "learn" or a matrix P(label | class); got {model.label_noise!r}.'
            )
        return np.where(np.eye(K) > 0, _START, (1.0 - _START) / (K - 1))
    confusion = np.asarray(model.label_noise, dtype=np.float64)
    if confusion.shape != (K, K):
        raise ValueError(
            f"label_noise needs the shape ({K}, {K}), a row for each class; got {confusion.shape}."
        )
    if np.any(confusion < 0) or np.abs(confusion.sum(1) - 1.0).max() > 1e-6:
        raise ValueError("each row of label_noise, P(label | class), must be probabilities that sum to 1.")
    return confusion


def _confusion_of(soft, codes):
    K = soft.n_classes
    weight = soft.probability if soft.weight is None else soft.probability * soft.weight[:, None]
    counts = np.stack([np.bincount(codes, weight[:, k], K) for k in range(K)])
    return counts / counts.sum(1, keepdims=True)
