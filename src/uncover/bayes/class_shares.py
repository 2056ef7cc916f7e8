"""Class shares of a population, from probabilities of samples whose classes are not known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space

Array = NDArray[np.float64]

#: Pixels that every class is taken to have beside those that are seen, so that none has the share 0.
_BESIDE = 1.0
_STEPS, _CLOSE = 5000, 1e-9


@dataclass(frozen=True)
class ClassShares:
    """Shares of the classes among samples, with the covariance of their errors.

    >>> found = ClassShares(np.array([0.25, 0.75]), np.array([[0.01, -0.01], [-0.01, 0.01]]))
    >>> found.standard_uncertainty, found.concentration.round(2)
    (array([0.1, 0.1]), array([ 4.44, 13.31]))
    """

    shares: Array  # (class,)
    covariance: Array  # (class, class)
    of_model: Array | None = None  # (class, class), the part of it that is from the doubt in the model
    of_worlds: Array | None = None  # and from an error of the measurement that the samples share

    @property
    def standard_uncertainty(self) -> Array:
        """Standard uncertainty of each share: (class,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @property
    def concentration(self) -> Array:
        """Parameters of the Dirichlet distribution of this mean and this sum of variances: (class,)."""
        spread, least = (self.shares * (1.0 - self.shares)).sum(), np.finfo(float).tiny
        return np.asarray(self.shares * max(spread / max(np.trace(self.covariance), least) - 1.0, 1.0))


def likeliest_shares(likelihood: Array, start: Array | None = None, close: float = _CLOSE) -> Array:
    """Shares π of the largest likelihood Σ_i log Σ_k π_k L_ik, with one sample of each class beside.

    ``likelihood`` (sample, class) may have any factor of its own in each row. By expectation maximisation
    (Saerens, Latinne and Decaestecker 2002), from equal shares or from ``start`` until steps are ``close``.
    """
    n, K = likelihood.shape
    shares = np.full(K, 1.0 / K) if start is None else start
    for _ in range(_STEPS):
        own = shares / (likelihood @ shares)[:, None] * likelihood
        found = (own.sum(0) + _BESIDE) / (n + K * _BESIDE)
        if np.abs(found - shares).max() < close:
            return np.asarray(found)
        shares = found
    return np.asarray(shares)


def estimate_shares(
    likelihood: Array, groups: NDArray[np.intp] | None = None, read: float = 0.0
) -> ClassShares:
    """Class shares of a population, from the likelihoods (sample, class) of some of its members.

    Parameters
    ----------
    likelihood : array of shape (sample, class)
        p(x | class), with any factor in each row: probabilities over the class shares that they are for.
    groups : array of int, optional
        Samples of a group are alike, as pixels of one window; groups are independent.
    read : float
        Share of the population that the samples are. Of one that is read to the end, no more is unknown
        than what the classes' overlap hides.

    The covariance is the sum of two: what the overlap hides, the inverse of the information in x less that of
    labelled samples; and by how much the shares among samples differ from those of the population, from what
    the groups differ by, times the share that was not read.
    """
    shares = likeliest_shares(likelihood)
    n, K = likelihood.shape
    score = likelihood / (likelihood @ shares)[:, None]
    own = score * shares  # P(class | x) with these shares
    free = null_space(np.ones((1, K)))  # directions that keep the sum of 1
    information = score.T @ score + np.diag(_BESIDE / shares**2)
    of_labels = (np.diag(shares) - np.outer(shares, shares)) / n
    hidden = free @ np.linalg.inv(free.T @ information @ free) @ free.T - of_labels
    values, vectors = np.linalg.eigh(hidden)
    covariance = (vectors * np.maximum(values, 0.0)) @ vectors.T
    if read < 1.0:
        number = np.arange(n) if groups is None else groups
        away = np.zeros((int(number.max()) + 1, K))
        np.add.at(away, number, own - own.mean(0))
        count = len(np.unique(number))
        between = away.T @ away * (count / max(count - 1, 1))
        within = np.diag(own.sum(0)) - own.T @ own
        covariance = covariance + (1.0 - read) * (between + within) / n**2
    return ClassShares(shares, covariance)
