"""Confidence limits of shares and ratios from a stratified sample, also where no error was seen.

A stratum of n samples, x of them in the part, says of its share p what Clopper and Pearson (1934) make of it:
the lower limits are quantiles of Beta(x, n−x+1), the upper ones of Beta(x+1, n−x). One more sample, unseen,
stands behind each limit. In a weighted sum over strata one such sample is enough for all (Fay and Feuer 1997,
Statistics in Medicine 16, 791-801, put it where it weighs most); here it is shared out by the weight W_h/n_h
that one sample of each stratum has. The limits are quantiles of the sum, or of the ratio of two sums.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.streams import stream
from uncover.metrics.confusion import Floats

DRAWS = 20_000
_PART, _OTHER, _OUTSIDE = 0, 1, 2


def ratio_limits(
    counts: Floats, possible: NDArray[np.bool_], sizes: Floats, level: float
) -> tuple[float, float]:
    """Limits of Σ_h W_h p_h / Σ_h W_h (p_h + q_h), from samples in the part, in its other side, and outside.

    Parameters
    ----------
    counts : array of shape (3, stratum)
        Samples in the part (share p), in the rest of the whole (q), and outside the whole.
    possible : array of bool of shape (3, stratum)
        Whether a sample of the stratum can be there at all.
    sizes : array of shape (stratum,)
        W_h.
    level : float

    Examples
    --------
    Ten of ten right in a stratum of nine tenths of the area, ninety of ninety in the other:

    >>> counts, possible = np.array([[10.0, 90.0], [0.0, 0.0], [0.0, 0.0]]), np.array([[True] * 2] * 3)
    >>> low, high = ratio_limits(counts, possible, np.array([0.9, 0.1]), 0.95)
    >>> 0.70 < low < 0.74, high
    (True, 1.0)
    """
    tail = (1 - level) / 2
    low = _draw(counts + _unseen(counts, possible, sizes, _OTHER, _PART), sizes, empty=0.0)
    high = _draw(counts + _unseen(counts, possible, sizes, _PART, _OTHER), sizes, empty=1.0)
    return float(np.quantile(low, tail)), float(np.quantile(high, 1 - tail))


def _unseen(
    counts: Floats, possible: NDArray[np.bool_], sizes: Floats, adverse: int, favourable: int
) -> Floats:
    """One sample on the adverse side, shared out over the strata; where that side cannot be, one outside."""
    weight = sizes / counts.sum(axis=0)
    extra = np.zeros_like(counts)
    there = possible[adverse]
    instead = possible[favourable] & ~there & possible[_OUTSIDE]
    for side, strata in ((adverse, there), (_OUTSIDE, instead)):
        if strata.any():
            extra[side] += np.where(strata, weight, 0.0) / weight[strata].sum()
    return extra


def _draw(counts: Floats, sizes: Floats, empty: float) -> Floats:
    """Draws of the ratio, the shares of each stratum being Dirichlet distributed."""
    rng = stream(0, "limits of shares")
    gamma = rng.standard_gamma(counts[:, np.newaxis, :], (3, DRAWS, counts.shape[1]))
    share = gamma / np.maximum(gamma.sum(axis=0), np.finfo(np.float64).tiny)
    part, other = (share[side] @ sizes for side in (_PART, _OTHER))
    return np.divide(part, part + other, out=np.full(DRAWS, empty), where=part + other > 0)
