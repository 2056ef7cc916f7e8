"""Moments of groups of samples by compiled kernels, where the work is worth it."""

from functools import reduce
from operator import add

import numpy as np
from numpy.typing import ArrayLike

from uncover.bayes.moments import Moments, row_blocks
from uncover.engines.machine import machine_code
from uncover.engines.threads import in_order

# Fewer numbers than this are not worth threads.
_MANY = 1 << 20


def moments_by_group(
    samples: ArrayLike, group: ArrayLike, n_groups: int, weight: ArrayLike | None = None
) -> Moments:
    """Moments of each group of samples (..., sample, feature), as :meth:`Moments.by_group` has them.

    Block by block of all groups together, in several threads.

    >>> moments_by_group([[1.0], [3.0], [7.0]], [0, 0, 2], 3).count
    array([2., 0., 1.])
    """
    x = np.asarray(samples)
    x = x if x.dtype in (np.float32, np.float64) else x.astype(np.float64)
    code = machine_code() if x.size >= _MANY else None
    if code is None:
        return Moments.by_group(x, group, n_groups, weight)
    numbers = np.asarray(group).astype(np.int32, copy=False)
    w = np.empty(0) if weight is None else np.asarray(weight, np.float64)
    p, batch = x.shape[-1], x.shape[:-2]

    def block(rows: slice) -> Moments:
        part = Moments.empty(p, (*batch, n_groups))
        arrays = [part.count, part.mean, part.scatter, np.zeros_like(part.mean)]
        mine = w[rows] if len(w) else w
        for at in np.ndindex(*batch):
            code.grouped_moments(x[(*at, rows)], numbers[rows], mine, *(each[at] for each in arrays))
        return Moments(*arrays)

    return reduce(add, in_order(block, row_blocks((len(numbers), p))), Moments.empty(p, (*batch, n_groups)))
