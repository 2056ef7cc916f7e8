"""Levels of noise: pixels of nearly the same noise, which a map in many worlds reads together.

Read through the noise of each, 25 worlds would cost as much as 25 maps of pixels with noise. Pixels of one
level have one covariance, which widens the classes, and their worlds are then read as those of pixels without
noise. What is left to their own noise is made up for in the mean world.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.covariances import Covariances

Array = NDArray[np.float64]

#: A level spans this much of the logarithm of the variance of a class in a band, given the other bands, with
#: the noise; the mean over the bands counts.
STEP = 0.2


def groups_of_noise(noise: Covariances, n: int, least: Array) -> Iterator[tuple[NDArray[np.intp], Array]]:
    """Places of the pixels of each level, and their covariance: (feature, feature).

    ``least`` is the smallest variance of any class in each feature, given the others: (feature,).

    >>> noise = Covariances(None, None, np.repeat([[0.01], [4.0]], 100, axis=0))
    >>> for rows, one in groups_of_noise(noise, 200, np.ones(1)):
    ...     print(len(rows), one.squeeze().round(2))
    100 0.01
    100 4.0
    """
    variances = noise.variances()
    if len(variances) == 1:
        yield np.arange(n), noise.matrices()[0]
        return
    level = np.rint(np.log1p(variances / least).mean(axis=1) / STEP).astype(np.int64)
    for kind in np.unique(level):
        rows = np.flatnonzero(level == kind)
        yield rows, np.asarray(noise[rows].matrices().mean(axis=0))
