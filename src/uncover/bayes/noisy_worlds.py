"""The class of pixels in many worlds, read as a map reads them: through the same noise, in every world.

A map of another scene than the one that trained its model reads the mean of a pixel's realisations with the
average class models, through the noise of both (:mod:`uncover.bayes.noisy_lens`). In world (r, s) the pixel
has its realisation r and the class models are those of world s; the noise stays what it is. Areas that are
counted in such worlds move as the mapped area would if the shared errors were others.

Two implementations give the same answers: machine code (:mod:`uncover.bayes.compiled.worlds`) and NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.components import Components
from uncover.bayes.kernels import Fold, Lens, Pairs
from uncover.bayes.noisy_lens import NoisyLens, Seen, _realised
from uncover.bayes.speed import machine_code

Array = NDArray[np.float64]

# Numbers of one chunk of pixels in NumPy.
_NUMBERS = 1 << 20


class _Numbers(NamedTuple):
    """The worlds as machine code takes them."""

    location: Array  # (world, class, feature), less the centre
    scale: Array  # (world, class, feature, feature)
    shrink: Array  # (world, class)
    pivots: Array  # (world, class, feature)


@dataclass(frozen=True, eq=False)
class NoisyWorlds:
    """Student t densities of classes in several worlds, seen through noise.

    Parameters
    ----------
    worlds : list of Seen
        Densities of each world, and the noise beyond them that all pixels share.
    log_prior : array of shape (class,)
    pairs : Pairs
        Which realisation of the pixels is read with which world.
    components : Components
        Classes of the densities.

    Examples
    --------
    >>> from uncover.bayes.student_t import StudentT
    >>> here = StudentT.from_scale([[0.0, 0.0], [3.0, 3.0]], np.eye(2), [50.0, 80.0])
    >>> there = StudentT.from_scale([[1.0, 1.0], [4.0, 4.0]], np.eye(2), [50.0, 80.0])
    >>> none = np.zeros((2, 2, 2))
    >>> worlds = NoisyWorlds([Seen(here, none), Seen(there, none)], np.log([0.5, 0.5]),
    ...     Pairs(np.array([0, 0]), np.array([0, 1])), Components.single(2))
    >>> worlds.best(np.full((1, 2, 1), 2.0)).ravel()  # nearer to the second class, but for the other world
    array([1, 0], dtype=uint8)
    """

    worlds: list[Seen]
    log_prior: Array
    pairs: Pairs
    components: Components

    def best(
        self,
        planes: NDArray[Any],
        *,
        coefficients: Array | None = None,
        covariances: Array | None = None,
        spread: bool = False,
    ) -> NDArray[np.uint8]:
        """Number of the most probable class in each pair: (pair, pixel).

        Parameters are those of :meth:`NoisyLens.read`.
        """
        order = np.argsort(self.pairs.worlds, kind="stable")
        pairs = np.stack([self.pairs.realisations[order], self.pairs.worlds[order]], axis=1)
        p, n = planes.shape[1:]
        found = np.empty((len(pairs), n), np.uint8)
        if machine_code() is None:
            self._best(planes, coefficients, covariances, spread, pairs, found)
        else:
            from uncover.bayes.compiled.worlds import best_in_worlds

            none = np.zeros((0, 3, p)), np.zeros((0, p, p))
            best_in_worlds(
                np.ascontiguousarray(planes),
                none[0] if coefficients is None else np.ascontiguousarray(coefficients, np.float64),
                none[1] if covariances is None else np.ascontiguousarray(covariances, np.float64),
                spread, self._numbers, self._lens._numbers(np.float64), self._fold, pairs, found,
            )  # fmt: skip
        out = np.empty_like(found)
        out[order] = found
        return out

    @cached_property
    def _fold(self) -> Fold:
        return Fold(self.components.first, np.array([1.0 / self.components.temperature]))

    @cached_property
    def _lens(self) -> Lens:
        """The densities, with the constants of those that are seen through the common noise."""
        lens = Lens.of([world.density for world in self.worlds], self.log_prior)
        roots = np.stack([np.broadcast_to(w.density.root, w.noise.shape) for w in self.worlds])
        before = np.log(np.diagonal(roots, axis1=-2, axis2=-1)).sum(-1)
        after = 0.5 * np.log([NoisyLens._pivots(world) for world in self.worlds]).sum(-1)
        return replace(lens, log_weight=lens.log_weight + before - after)

    @cached_property
    def _numbers(self) -> _Numbers:
        return _Numbers(
            location=np.ascontiguousarray(self._lens.location - self._lens._centre),
            scale=np.stack([world.scale for world in self.worlds]),
            shrink=np.stack([world.shrink for world in self.worlds]),
            pivots=np.stack([NoisyLens._pivots(world) for world in self.worlds]),
        )

    def _best(
        self,
        planes: NDArray[Any],
        coefficients: Array | None,
        covariances: Array | None,
        spread: bool,
        pairs: NDArray[np.int64],
        found: NDArray[np.uint8],
    ) -> None:
        """The same in NumPy."""
        p, n = planes.shape[1:]
        for start in range(0, n, max(16, _NUMBERS // (p * p * len(self.log_prior)))):
            rows = slice(start, min(start + max(16, _NUMBERS // (p * p * len(self.log_prior))), n))
            values = _realised(planes[:, :, rows].astype(np.float64), coefficients)
            mean = values.mean(axis=0)
            C = np.zeros((p, p, 1))
            if spread:
                factor = (values - mean).transpose(1, 0, 2) / np.sqrt(len(values) - 1.0)
                C = np.einsum("irn,jrn->ijn", factor, factor)
            elif covariances is not None:
                given = covariances if len(covariances) == 1 else covariances[rows]
                C = np.ascontiguousarray(given.transpose(1, 2, 0))
            for i, (r, w) in enumerate(pairs):
                joint = self._joint(values[r] if spread else mean, C, int(w))
                odds = self.components.log_odds(joint.T).T
                found[i, rows] = odds.argmax(axis=0)

    def _joint(self, x: Array, C: Array, w: int) -> Array:
        """Log joint of values (feature, pixel) in a world: (class, pixel)."""
        numbers, lens = self._numbers, self._lens
        joint = np.empty((len(self.log_prior), x.shape[1]))
        inverses = NoisyLens._inverses(numbers.scale[w], numbers.shrink[w], C)
        for k, inverse in enumerate(inverses):
            z = np.einsum("ijn,jn->in", inverse, x - lens.location[w, k][:, None])
            q = np.einsum("in,in->n", z, z)
            grown = np.log(np.diagonal(inverse, axis1=0, axis2=1) ** 2 * numbers.pivots[w, k]).sum(-1)
            joint[k] = lens.log_weight[w, k] + 0.5 * grown - lens.slope[w, k] * np.log1p(q / lens.dof[w, k])
        return joint
