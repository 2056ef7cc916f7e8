"""Labels that are wrong with some probability: the confusion of labels, given or learned."""

import warnings

import numpy as np

TOLERANCE = 1e-6
MAX_ITERATIONS = 500
_START = 0.9


def learn_from_noisy_labels(model, inputs, membership):
    """Refit a model to labels of which Θ_kj = P(label j | class k) are wrong.

    Expectation–maximisation: r_ik ∝ Θ_k,yᵢ P(k | xᵢ) are soft labels for the next fit; a Θ that is to be
    learned follows from them, Θ_kj ∝ Σ_i r_ik [yᵢ = j]. The prior of the class models stays that of the
    labels as given. Sets ``label_confusion_``.
    """
    if membership.codes is None:
        raise ValueError("label_noise goes with labels y; label_proba says itself how sure its labels are.")
    learn = isinstance(model.label_noise, str)
    confusion = _start(model)
    kind, measured = model._kind(), model._kind().measured(inputs)
    probability = np.full((len(inputs.X), len(model.classes_)), np.nan)
    for _ in range(MAX_ITERATIONS):
        weight = confusion[:, membership.codes].T * model._probability_of(inputs)
        before, probability = probability, weight / weight.sum(1, keepdims=True)
        soft = membership.soft(probability)
        model.statistics_ = kind.collect(inputs.X, soft)
        model._conclude(measured, soft, keep_prior=True)
        if learn:
            confusion = _confusion_of(soft, membership.codes)
        if np.abs(probability - before).max() < TOLERANCE:
            break
    else:
        warnings.warn("learning from noisy labels did not come to rest.", UserWarning, stacklevel=3)
    model.label_confusion_ = confusion


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
