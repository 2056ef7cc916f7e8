"""Sufficient statistics of samples that lie on a device: formed there, and only they come to the host."""

from collections.abc import Iterator
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from uncover.bayes.linalg import slices
from uncover.bayes.moments import Moments
from uncover.engines.arrays import like, namespace, to_host

# Numbers (float64) of one block of samples.
_BLOCK_NUMBERS = 1 << 26


def moments_on_device(X: Any, membership: Any) -> Moments:
    """Moments of samples (..., sample, feature) for each class: batch (..., class)."""
    if X.ndim == 3:
        return Moments.stack([moments_on_device(X[r], membership) for r in range(X.shape[0])])
    n, p = X.shape
    blocks = (_of_block(X[rows], membership[rows]) for rows in slices(n, max(1, _BLOCK_NUMBERS // p)))
    return reduce(add, blocks, Moments.empty(p, (membership.n_classes,)))


def means_and_scatter_within(X: Any, membership: Any) -> tuple[Any, Any]:
    """Mean of each sample (sample, realisation, feature), and the scatter about it summed by class."""
    xp = namespace(X)
    n, R, p = X.shape
    means = xp.empty((n, p), dtype=xp.float64, device=X.device)
    within = np.zeros((membership.n_classes, p, p))
    for rows in slices(n, max(1, _BLOCK_NUMBERS // (R * p))):
        x = xp.astype(X[rows], xp.float64)
        means[rows] = xp.mean(x, axis=1)
        x = x - means[rows][:, None, :]
        for k, share in enumerate(_shares(membership[rows], x)):
            weighted = xp.reshape(x * share[:, None, None], (-1, p))
            within[k] += to_host(weighted.T @ xp.reshape(x, (-1, p)))
    return means, within


def _of_block(X: Any, membership: Any) -> Moments:
    """Moments of one block: two passes, the second about the mean of the first."""
    xp = namespace(X)
    x = xp.astype(X, xp.float64)
    parts = []
    for share in _shares(membership, x):
        count = xp.sum(share)
        safe = xp.where(count > 0, count, xp.ones_like(count))
        mean = share @ x / safe
        centred = x - mean
        residual = share @ centred / safe
        scatter = (centred * share[:, None]).T @ centred - count * residual[:, None] * residual[None, :]
        parts.append(Moments(*(to_host(part) for part in (count, mean, scatter, residual))))
    return Moments.stack(parts)


def _shares(membership: Any, x: Any) -> Iterator[Any]:
    """Weight of the samples in each class, one class after the other, beside the samples x."""
    xp = namespace(x)
    if membership.codes is None:
        yield from (like(np.ascontiguousarray(share), x) for share in membership.shares(slice(None)).T)
        return
    codes = like(membership.codes, x)
    weight = None if membership.weight is None else like(membership.weight, x)
    for k in range(membership.n_classes):
        share = xp.astype(codes == k, xp.float64)
        yield share if weight is None else share * weight
