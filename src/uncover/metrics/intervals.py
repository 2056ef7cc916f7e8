"""Confidence limits of shares and ratios from a stratified sample, also where no error was seen.

A stratum of n samples, x of them in the part, says of its share p what Clopper and Pearson (1934) make of it:
the lower limits are quantiles of Beta(x, n−x+1), the upper ones of Beta(x+1, n−x). One more sample, unseen,
stands behind each limit. In a weighted sum over strata one such sample is enough for all (Fay and Feuer 1997,
Statistics in Medicine 16, 791-801). Nobody knows where it lies: it is put into each stratum in turn, and
shared out over all by the weight W_h/n_h that one sample has; the least favourable of these is taken. The
limits are quantiles of the sum, or of the ratio of two sums.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    rng = stream(0, "limits of shares")
    seen = rng.standard_gamma(counts[:, np.newaxis, :], (3, DRAWS, counts.shape[1]))
    weight = sizes / counts.sum(axis=0)

    def ends(adverse: int, favourable: int, at: float, empty: float) -> list[float]:
        there = possible[adverse]
        instead = possible[favourable] & ~there & possible[_OUTSIDE]
        known = _with(seen, _OUTSIDE, rng.standard_gamma(_shared(weight, instead), seen.shape[1:]))
        shared = _with(known, adverse, rng.standard_gamma(_shared(weight, there), seen.shape[1:]))
        whole = _with(known, adverse, rng.standard_exponential(seen.shape[1:]))
        sums = [_areas(shared, sizes).sum(axis=-1), *_one_by_one(known, whole, there, sizes)]
        return [float(np.quantile(_ratio(pair, empty), at)) for pair in sums]

    return min(ends(_OTHER, _PART, tail, 0.0)), max(ends(_PART, _OTHER, 1 - tail, 1.0))


def _shared(weight: Floats, strata: NDArray[np.bool_]) -> Floats:
    """One sample shared out over some strata by weight; none where there are none."""
    part = np.where(strata, weight, 0.0)
    return np.asarray(part / part.sum() if strata.any() else part)


def _with(gamma: Floats, side: int, more: Floats) -> Floats:
    added = gamma.copy()
    added[side] += more
    return added


def _areas(gamma: Floats, sizes: Floats) -> Floats:
    """Area of the part and of its other side, (2, draw, stratum): Dirichlet shares times W_h."""
    return np.asarray(sizes * gamma[:_OUTSIDE] / np.maximum(gamma.sum(axis=0), np.finfo(np.float64).tiny))


def _one_by_one(known: Floats, whole: Floats, strata: NDArray[np.bool_], sizes: Floats) -> Iterator[Floats]:
    """Area of the part and of its other side, (2, draw), with the unseen sample in one stratum at a time."""
    before, after = _areas(known, sizes), _areas(whole, sizes)
    total = before.sum(axis=-1)
    for h in np.flatnonzero(strata):
        yield np.maximum(total - before[..., h] + after[..., h], 0.0)


def _ratio(areas: Floats, empty: float) -> Floats:
    part, other = areas
    return np.divide(part, part + other, out=np.full(part.shape, empty), where=part + other > 0)
