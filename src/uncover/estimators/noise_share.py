"""Noise that is small beside the classes: how far it counts, so that the limit of no noise is continuous."""

from dataclasses import dataclass

import numpy as np

# Noise of this share of the variance within classes counts in full; less, in proportion.
COUNTS_IN_FULL = 0.01


@dataclass(frozen=True)
class NoiseShare:
    """Share t of answers that allow for known noise, beside 1 − t of those that do not.

    With r the largest, over features, of the noise variance over that within classes, of the training samples
    on average or of the input, whichever is larger: t = min(1, r / 0.01).

    Attributes
    ----------
    within : array of shape (feature,)
        Variance within classes.
    trained : float
        r of the training samples.
    """

    within: np.ndarray
    trained: float

    @classmethod
    def of(cls, inputs, covariances, counts):
        """Of training inputs, whose classes have these covariances and counts."""
        free = np.maximum(counts - 1.0, 0.0)
        variances = np.diagonal(covariances, axis1=1, axis2=2)
        within = (free[:, None] * variances).sum(0) / max(free.sum(), 1.0)
        total = inputs.X.astype(np.float64).var(axis=0)
        within = np.where(within > 1e-12 * total, within, total)
        return cls(within, float(_ratio(_variances(inputs).mean(0), within)))

    def __call__(self, inputs):
        """t of each input: (sample,)."""
        ratio = np.maximum(self.trained, _ratio(_variances(inputs), self.within))
        return np.minimum(1.0, np.broadcast_to(ratio, len(inputs.X)) / COUNTS_IN_FULL)

    @property
    def can_be_small(self):
        """Whether any input can have a share below 1."""
        return self.trained < COUNTS_IN_FULL


def _variances(inputs):
    """Variances of the known errors, those that samples have in common too: (sample or 1, feature)."""
    own = np.zeros((1, inputs.X.shape[-1])) if inputs.noise is None else inputs.noise.variances()
    return own if inputs.systematic is None else own + np.diagonal(inputs.systematic)


def _ratio(variances, within):
    """The largest ratio over features that vary: (...)."""
    return np.divide(variances, within, out=np.zeros_like(variances), where=within > 0).max(-1)
