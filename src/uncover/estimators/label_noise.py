"""Labels that may be wrong: an annotator's certainty, and the confusion of labels, given or learned."""

import warnings
from dataclasses import replace

import numpy as np
from scipy.special import softmax

from uncover.measurement.prediction import predict
from uncover.models.fit import NoisyPoints, refit
from uncover.warn import warn

TOLERANCE = 1e-6
MAX_ITERATIONS = 500
MEANINGS = ("certainty", "posterior")
_START = 0.9
# Samples of a class below which learning which labels are wrong loses against ignoring it (docs/checks.md).
_FEW = 30


def learn_from_certainties(model, observation, membership):
    """Refit Gaussian classes to labels of which ρ_ik, the probability of class k, was judged without x.

    The base rate is in ρ already: r_ik ∝ ρ_ik p(x_i | k), by expectation–maximisation. Given ρ, the x_i tell
    nothing of how frequent the classes are: ``count`` stays Σ_i ρ_ik.
    """
    likelihood = _likelihood_of_certainties(model, membership)
    return _alternate(model, observation, membership, lambda _: likelihood, model.count)


def believed_labels(model, observation, membership):
    """P(class | x_i, label_i) by Gaussian classes that were learned from these labels, as soft labels."""
    if model.label_confusion is None:
        likelihood = _likelihood_of_certainties(model, membership)
    else:
        likelihood = model.label_confusion[:, membership.codes].T
    return membership.soft(_responsibilities(likelihood, model, observation, membership))


def _likelihood_of_certainties(model, membership):
    return membership.probability / (model.concentration / model.concentration.sum())


def learn_from_noisy_labels(model, label_noise, observation, membership):
    """Refit Gaussian classes to labels of which Θ_kj = P(label j | class k) are wrong.

    r_ik ∝ Θ_k,yᵢ P(k) p(xᵢ | k); a Θ that is to be learned follows from them, Θ_kj ∝ Σ_i r_ik [yᵢ = j]: the
    ``label_confusion`` of the result.
    """
    if membership.codes is None:
        raise ValueError("label_noise goes with labels y; label_proba says itself how sure its labels are.")
    learn, start = isinstance(label_noise, str), _start(label_noise, len(model.classes))
    confusion = start
    if learn and model.class_count.min() < _FEW:
        warn(
            f'label_noise="learn" has {model.class_count.min():g} samples of a class; with fewer than {_FEW} '
            "it was worse than ignoring wrong labels. Give more samples, or P(label | class) as a matrix.",
        )

    def likelihood(soft):
        nonlocal confusion
        if learn and soft is not None:
            confusion = _confusion_of(soft, membership.codes)
        return confusion[:, membership.codes].T

    found = _alternate(model, observation, membership, likelihood)
    return replace(found, label_confusion=confusion)


def _alternate(model, observation, membership, likelihood, counts=None):
    """Expectation–maximisation: the soft labels r_ik ∝ L_ik P(k) p(x_i | k) are those of the next fit.

    ``likelihood(soft)`` returns L_ik = P(label of sample i | class k), given the last soft labels or None.
    P(k) follows from them too, unless ``counts`` of the classes are given.
    The prior stays that of the labels as given, but for "evidence", which would keep the classes as wide as
    wrong labels make them.
    """
    kind, drawn = model.kind, model.statistics.drawn
    measured = kind.measured(observation.X, observation.noise, membership, drawn)
    soft = None
    for _ in range(MAX_ITERATIONS):
        before = soft
        soft = membership.soft(_responsibilities(likelihood(soft), model, observation, membership))
        points = None if measured is None else NoisyPoints.of(*measured, soft)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said at the first fit
            statistics = kind.collect(observation.X, soft, drawn)
            model = refit(model, statistics, points, keep_prior=model.prior_name != "evidence")
        if counts is not None:
            model = replace(model, count=counts)
        if before is not None and np.abs(soft.probability - before.probability).max() < TOLERANCE:
            break
    else:
        warn("learning from uncertain labels did not come to rest.")
    likelihood(soft)
    return model


def _responsibilities(likelihood, model, observation, membership):
    """r_ik ∝ L_ik P(k | x_i); where no class that a label allows is known, the label as given."""
    with np.errstate(divide="ignore"):
        joint = np.log(likelihood) + predict(model, observation).log_probability(np.float64)
    lost = ~np.isfinite(joint).any(1)
    joint[lost] = 0.0
    return np.where(lost[:, None], membership.targets(), softmax(joint, axis=1))


def _start(label_noise, K):
    """Θ as given, or mostly right."""
    if isinstance(label_noise, str):
        if label_noise != "learn":
            raise ValueError(
                f'label_noise must be None, "learn" or a matrix P(label | class); got {label_noise!r}.'
            )
        return np.where(np.eye(K) > 0, _START, (1.0 - _START) / (K - 1))
    confusion = np.asarray(label_noise, dtype=np.float64)
    if confusion.shape != (K, K):
        raise ValueError(
            f"label_noise needs the shape ({K}, {K}), a row for each class; got {confusion.shape}."
        )
    if not (np.all(confusion >= 0) and np.abs(confusion.sum(1) - 1.0).max() <= 1e-6):
        raise ValueError("each row of label_noise, P(label | class), must be probabilities that sum to 1.")
    return confusion


def _confusion_of(soft, codes):
    K = soft.n_classes
    weight = soft.probability if soft.weight is None else soft.probability * soft.weight[:, None]
    counts = np.stack([np.bincount(codes, weight[:, k], K) for k in range(K)])
    return counts / counts.sum(1, keepdims=True)
