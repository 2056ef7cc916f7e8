"""Labels that users pass, hard or soft, as a membership."""

import numpy as np

from uncover.estimators.inputs import different, encode, read_labels, read_weights
from uncover.models.membership import Membership


def read_membership(estimator, y, label_proba, classes, sample_weight, X):
    """Return the membership and the classes, from hard labels y or soft ones."""
    weight = read_weights(sample_weight, X)
    if label_proba is None:
        y = read_labels(estimator, y, len(X))
        classes = different(y) if classes is None else np.unique(classes)
        _check_number(classes, estimator)
        return Membership(len(classes), encode(y, classes), None, weight), classes
    if y is not None:
        raise ValueError("give y or label_proba, not both: hard labels are label_proba of 0 and 1.")
    probability = _read_probability(label_proba, len(X))
    K = probability.shape[1]
    classes = np.arange(K) if classes is None else np.asarray(classes)
    if classes.shape != (K,):
        raise ValueError(f"label_proba has {K} columns and classes has {classes.size} names.")
    order = np.argsort(classes, kind="stable")
    if len(np.unique(classes)) < K:
        raise ValueError("classes names one class twice.")
    _check_number(classes, estimator)
    return Membership(K, None, probability[:, order], weight), classes[order]


def _check_number(classes, estimator):
    if len(classes) < 2:
        later = (
            " (partial_fit takes classes= where more come later)" if hasattr(estimator, "partial_fit") else ""
        )
        raise ValueError(
            f"y has 1 class, {classes.tolist()[0]!r}; a classifier needs at least 2 classes{later}."
        )


def _read_probability(label_proba, n_samples):
    probability = np.asarray(label_proba, dtype=np.float64)
    if probability.ndim != 2 or len(probability) != n_samples:
        raise ValueError(
            f"label_proba needs the shape ({n_samples}, class), one row a sample, got {probability.shape}."
        )
    outside = ~((probability >= 0) & (probability <= 1 + 1e-6))  # NaN too
    if outside.any():
        i, k = np.argwhere(outside)[0]
        raise ValueError(
            f"row {i} of label_proba has the value {probability[i, k]:g} for class {k}; probabilities and "
            "certainties lie between 0 and 1."
        )
    total = probability.sum(1)
    worst = int(np.argmax(np.abs(total - 1.0)))
    if abs(total[worst] - 1.0) > 1e-6:
        raise ValueError(
            f"row {worst} of label_proba sums to {total[worst]:.6g}; rows are probabilities of the classes "
            "and sum to 1. (Use sample_weight to weigh samples.)"
        )
    return probability / total[:, None]
