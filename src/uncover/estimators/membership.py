"""Which sample belongs to which class, and with what weight: hard or soft labels."""

from dataclasses import dataclass

import numpy as np

from uncover.bayes.moments import Moments
from uncover.estimators.arrays import on_device
from uncover.estimators.device_moments import moments_on_device
from uncover.estimators.inputs import different, encode, read_labels, read_weights


@dataclass(frozen=True)
class Membership:
    """Labels of samples: the number of a class for each, or a probability of each class.

    Attributes
    ----------
    n_classes : int
    codes : array of int of shape (sample,) or None
        Hard labels.
    probability : array of shape (sample, class) or None
        Soft labels.
    weight : array of shape (sample,) or None
    """

    n_classes: int
    codes: np.ndarray | None
    probability: np.ndarray | None
    weight: np.ndarray | None

    @property
    def uncertain(self):
        """Whether any label is a probability other than 0 and 1."""
        return self.codes is None and bool(np.any((self.probability > 0) & (self.probability < 1)))

    def of_class(self, k):
        """Samples with a share in class k, and their weights (sample,)."""
        if self.codes is not None:
            rows = np.flatnonzero(self.codes == k)
            return rows, np.ones(len(rows)) if self.weight is None else self.weight[rows]
        assert self.probability is not None
        share = self.probability[:, k] if self.weight is None else self.probability[:, k] * self.weight
        rows = np.flatnonzero(share > 0)
        return rows, share[rows]

    def __getitem__(self, rows):
        """Labels and weights of some samples, by index."""
        return Membership(
            self.n_classes,
            None if self.codes is None else self.codes[rows],
            None if self.probability is None else self.probability[rows],
            None if self.weight is None else self.weight[rows],
        )

    def targets(self):
        """Probability of each class for each sample: (sample, class)."""
        return self.probability if self.codes is None else np.eye(self.n_classes)[self.codes]

    def shares(self, rows):
        """Weight of some samples in each class: (sample, class)."""
        share = self[rows].targets()
        return share if self.weight is None else share * self.weight[rows][:, None]

    def moments(self, samples):
        """Moments of samples (..., sample, feature) for each class: batch (..., class)."""
        if on_device(samples):
            return moments_on_device(samples, self)
        if self.codes is not None:
            return Moments.by_group(samples, self.codes, self.n_classes, self.weight)
        each = (self.of_class(k) for k in range(self.n_classes))
        return Moments.stack([Moments.of(samples[..., rows, :], weight) for rows, weight in each], axis=-1)

    def total_weight(self, n_samples):
        """Sum of weights of all samples."""
        return float(n_samples if self.weight is None else self.weight.sum())

    def soft(self, probability):
        """The same samples and weights with other labels."""
        return Membership(self.n_classes, None, probability, self.weight)


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
