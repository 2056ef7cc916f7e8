"""The class of pixels in many worlds, read as a map reads them: through the same noise, in every world.

A map of another scene than the one that trained its model reads the mean of a pixel's realisations with the
average class models, through the noise of both (:mod:`uncover.bayes.class_densities_with_noise`). In world
(r, s) the pixel has its realisation r and the class models are those of world s; the noise stays what it is.
Areas that are counted in such worlds move as the mapped area would if the shared errors were others.

This is the reference in NumPy; machine code (:mod:`uncover.engines.class_densities_with_noise`) gives
the same answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.class_densities import ClassDensities, Pairs
from uncover.bayes.class_densities_with_noise import (
    DensityWithNoise,
    distances_with_noise,
    pivots_of,
    values_and_noise,
)
from uncover.bayes.components import Components

Array = NDArray[np.float64]

# Numbers of one chunk of pixels in NumPy.
_NUMBERS = 1 << 20


class WorldNumbers(NamedTuple):
    """The worlds as arrays, which machine code takes too."""

    location: Array  # (world, class, feature), less the centre
    scale: Array  # (world, class, feature, feature)
    shrink: Array  # (world, class)
    pivots: Array  # (world, class, feature)


@dataclass(frozen=True, eq=False)
class WorldDensitiesWithNoise:
    """Student t densities of classes in several worlds, for pixels whose noise is known.

    >>> from uncover.bayes.student_t import StudentT
    >>> here = StudentT.from_scale([[0.0, 0.0], [3.0, 3.0]], np.eye(2), [50.0, 80.0])
    >>> there = StudentT.from_scale([[1.0, 1.0], [4.0, 4.0]], np.eye(2), [50.0, 80.0])
    >>> none = np.zeros((2, 2, 2))
    >>> worlds = WorldDensitiesWithNoise([DensityWithNoise(t, none) for t in (here, there)],
    ...     np.log([0.5, 0.5]), Pairs(np.array([0, 0]), np.array([0, 1])), Components.single(2))
    >>> worlds.best(np.full((1, 2, 1), 2.0)).ravel()  # nearer to the second class, but for the other world
    array([1, 0], dtype=uint8)
    """

    worlds: list[DensityWithNoise]  #: densities of each world, and the noise beyond them that pixels share
    log_prior: Array  #: (class,)
    pairs: Pairs  #: which realisation of the pixels is read with which world
    components: Components  #: classes of the densities
    of_densities: ClassVar[type[ClassDensities]] = ClassDensities

    def best(
        self,
        planes: NDArray[Any],
        *,
        coefficients: Array | None = None,
        covariances: Array | None = None,
        spread: bool = False,
    ) -> NDArray[np.uint8]:
        """Number of the most probable class in each pair: (pair, pixel).

        Parameters are those of ``ClassDensitiesWithNoise.read``.
        """
        order = np.argsort(self.pairs.worlds, kind="stable")
        pairs = np.stack([self.pairs.realisations[order], self.pairs.worlds[order]], axis=1)
        found = np.empty((len(pairs), planes.shape[2]), np.uint8)
        self._find_best(planes, coefficients, covariances, spread, pairs, found)
        out = np.empty_like(found)
        out[order] = found
        return out

    @cached_property
    def densities(self) -> ClassDensities:
        """The densities, with the constants of those that are seen through the common noise."""
        densities = self.of_densities.of([world.density for world in self.worlds], self.log_prior)
        roots = np.stack([np.broadcast_to(w.density.root, w.noise.shape) for w in self.worlds])
        before = np.log(np.diagonal(roots, axis1=-2, axis2=-1)).sum(-1)
        after = 0.5 * np.log([pivots_of(world) for world in self.worlds]).sum(-1)
        return replace(densities, log_weight=densities.log_weight + before - after)

    @cached_property
    def numbers(self) -> WorldNumbers:
        """The densities of all worlds as arrays."""
        return WorldNumbers(
            location=np.ascontiguousarray(self.densities.location - self.densities.centre),
            scale=np.stack([world.scale for world in self.worlds]),
            shrink=np.stack([world.shrink for world in self.worlds]),
            pivots=np.stack([pivots_of(world) for world in self.worlds]),
        )

    def _find_best(
        self,
        planes: NDArray[Any],
        coefficients: Array | None,
        covariances: Array | None,
        spread: bool,
        pairs: NDArray[np.int64],
        found: NDArray[np.uint8],
    ) -> None:
        """Write the most probable classes of pairs (realisation, world), which are sorted by world."""
        p = planes.shape[1]
        size = max(16, _NUMBERS // (p * p * len(self.log_prior)))
        for rows, values, mean, C in values_and_noise(planes, coefficients, covariances, spread, size):
            for i, (r, w) in enumerate(pairs):
                joint = self._joint(values[r] if spread else mean, C, int(w))
                found[i, rows] = self.components.log_odds(joint.T).T.argmax(axis=0)

    def _joint(self, x: Array, C: Array, w: int) -> Array:
        """Log joint of values (feature, pixel) in a world: (class, pixel)."""
        numbers, densities = self.numbers, self.densities
        of_world = numbers.scale[w], numbers.shrink[w], numbers.pivots[w]
        q, joint = distances_with_noise(x, C, densities.location[w], *of_world)
        return np.asarray(joint + densities.log_joint(densities.log1p_distance(q.T, w), w).T)
