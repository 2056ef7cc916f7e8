"""Class densities for arrays on a device, torch and CuPy, by the array API: computed where the arrays lie."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from uncover.bayes.class_densities import Pairs
from uncover.bayes.linalg import slices
from uncover.engines.arrays import namespace
from uncover.engines.class_densities import FastClassDensities

# As in the compiled kernels: probabilities that may be further off are recomputed in double precision.
_TOLERANCE = 2e-5
# Numbers of one block of distances.
BLOCK_NUMBERS = 1 << 26


class DeviceDensities:
    """Class densities that score samples (sample, realisation, feature) where they lie.

    Only the sums that predictions consist of are kept; of the samples, one block at a time.
    """

    def __init__(self, densities: FastClassDensities, pairs: Pairs, X: Any) -> None:
        self.densities, self.pairs, self.X, self.xp = densities, pairs, X, namespace(X)

    def average(self, of_pair: Callable[[Any, Any, int], Any], columns: int) -> Any:
        """Average of ``of_pair(log joint, log(1 + q/ν), world)`` over the pairs: (sample, column)."""
        xp, X = self.xp, self.X
        out = xp.zeros((X.shape[0], columns), dtype=X.dtype, device=X.device)
        size = max(1, BLOCK_NUMBERS // (self.densities.n_components * self.densities.n_features))
        for rows in slices(X.shape[0], size):
            for r, w in zip(*self.pairs, strict=True):
                out[rows] += of_pair(*self.scores(X[rows, int(r)], int(w)), int(w))
        return out / len(self.pairs.worlds)

    def p_values(self) -> Any:
        """p-values of the classes, averaged over the pairs: (sample, class)."""
        if self.densities.typical is not None:
            assert isinstance(self.densities.typical, FastClassDensities)
            return DeviceDensities(self.densities.typical, self.pairs, self.X).p_values()
        scale, table = (self.here(part, self.X) for part in self.densities.p_value_tables)

        def of_pair(joint: Any, log1p_distance: Any, w: int) -> Any:
            place = self.xp.sqrt(log1p_distance) * scale[w]
            place = self.xp.clip(place, max=table.shape[-1] - 2.0)
            left = self.xp.astype(place, self.xp.int64)
            columns = [
                (before := table[w, k][left[:, k]])
                + (place[:, k] - self.xp.astype(left[:, k], place.dtype))
                * (table[w, k][left[:, k] + 1] - before)
                for k in range(self.densities.n_components)
            ]
            return self.xp.stack(columns, axis=1)

        return self._largest(self.average(of_pair, self.densities.n_components))

    def scores(self, points: Any, w: int) -> tuple[Any, Any]:
        """Log joint and log(1 + q/ν) in a world; in double precision where single is not enough."""
        joint, log1p_distance, q = self.log_joint(points, w)
        if points.dtype == self.xp.float64:
            return joint, log1p_distance
        P = self._sensitivity(joint)
        bound = self.here(
            self.densities.rounding_bound(np.abs(self.densities.location - self.densities.centre))[w], points
        )
        error = self.xp.sum(P * (bound[:, 0] + bound[:, 1] * q), axis=1)
        inexact = error > _TOLERANCE
        if bool(self.xp.any(inexact)):
            better, further, _ = self.log_joint(self.xp.astype(points[inexact], self.xp.float64), w)
            # Only differences between classes survive in single precision.
            top = self.xp.max(better, axis=1, keepdims=True)
            base = self.xp.max(joint[inexact], axis=1, keepdims=True)
            joint[inexact] = self.xp.astype(better - top, points.dtype) + base
            log1p_distance[inexact] = self.xp.astype(further, points.dtype)
        return joint, log1p_distance

    def log_joint(self, points: Any, w: int) -> tuple[Any, Any, Any]:
        """Log joint, log(1 + q/ν) and q of points in a world, in their precision."""
        densities, xp = self.densities, self.xp
        near = densities.centre.astype(np.float32)
        x = (points - self.here(near, points)) - self.here(densities.centre - near, points)
        whitening, shift = (self.here(part[w], points) for part in densities.stacked)
        z = xp.reshape(x @ whitening - shift, (x.shape[0], densities.n_components, densities.n_features))
        q = xp.clip(xp.sum(z * z, axis=2), max=1e15)
        log1p_distance = xp.log1p(q / self.here(densities.dof[w], points))
        slope = self.here(densities.slope[w], points)
        return self.here(densities.log_weight[w], points) - slope * log1p_distance, log1p_distance, q

    def log_odds(self, joint: Any) -> Any:
        """Log odds of the classes, from log joints that may be those of their components: (..., class)."""
        if self.densities.components.trivial:
            return joint
        xp, columns = self.xp, []
        for part in self._classes(joint):
            top = xp.max(part, axis=-1)
            columns.append(top + xp.log(xp.sum(xp.exp(part - top[..., None]), axis=-1)))
        return xp.stack(columns, axis=-1) / self.densities.components.temperature

    def _sensitivity(self, joint: Any) -> Any:
        """Effect of an error of each log joint on the probabilities: p(1 − p), shared among components."""
        P = self.softmax(self.log_odds(joint))
        if self.densities.components.trivial:
            return P * (1 - P)
        share = [self.softmax(part) for part in self._classes(joint)]
        P = P * (1 - P) / self.densities.components.temperature
        return self.xp.concat([P[:, k, None] * each for k, each in enumerate(share)], axis=1)

    def _largest(self, values: Any) -> Any:
        """The largest number of the components of each class."""
        if self.densities.components.trivial:
            return values
        return self.xp.stack([self.xp.max(part, axis=1) for part in self._classes(values)], axis=1)

    def _classes(self, values: Any) -> list[Any]:
        """Columns of the components of each class."""
        first = self.densities.components.first
        return [values[..., int(a) : int(b)] for a, b in pairwise(first)]

    def entropy(self, P: Any) -> Any:
        """−Σ p log p over the last axis."""
        xp = self.xp
        safe = xp.where(P > 0, P, xp.ones_like(P))
        return xp.clip(-xp.sum(P * xp.log(safe), axis=-1), min=0.0)

    def here(self, values: Any, array: Any) -> Any:
        """Values in the type and the place of an array."""
        return self.xp.asarray(np.ascontiguousarray(values), dtype=array.dtype, device=array.device)

    def softmax(self, joint: Any) -> Any:
        """Shares along the second axis: classes of a log joint, draws of a table."""
        e = self.xp.exp(joint - self.xp.max(joint, axis=1, keepdims=True))
        return e / self.xp.sum(e, axis=1, keepdims=True)
