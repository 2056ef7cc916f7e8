"""What users passed, once it has been read, and options that have a few values. Needs no scikit-learn."""

from dataclasses import dataclass

import numpy as np

from uncover.bayes.covariances import Covariances


@dataclass(frozen=True)
class Inputs:
    """Values with what is known of their errors.

    Attributes
    ----------
    X : array of shape (sample, feature) or (sample, realisation, feature)
    noise : Covariances or None
        Of the errors of each sample.
    systematic : array of shape (feature, feature) or None
        Covariance of an error that all samples share.
    """

    X: np.ndarray
    noise: Covariances | None = None
    systematic: np.ndarray | None = None


def check_choice(name, value, choices, otherwise=None):
    """Refuse a value that is not among the choices."""
    if value not in choices:
        names = ("None" if choice is None else f'"{choice}"' for choice in choices)
        wanted = " or ".join([*names, *([otherwise] if otherwise else [])])
        raise ValueError(f"{name} must be {wanted}; got {value!r}.")
