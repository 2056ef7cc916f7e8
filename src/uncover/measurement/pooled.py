"""Layers of a map by a pool, and the choice of what reads pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.streams import stream
from uncover.measurement.observation import Observation
from uncover.measurement.pool_prediction import ASKED_QUICKLY, Nodes, PoolPrediction
from uncover.measurement.predictor import Predictor
from uncover.measurement.summary import PixelSummary, PlaneReader, Planes, Summariser
from uncover.models.gaussian import GaussianClasses
from uncover.models.pool import Pool
from uncover.models.realisations import Structure
from uncover.models.record import FittedEstimator, ModelRecord, record_of

Array = NDArray[np.float64]

# Draws of class models and of true values behind the budget of a pixel.
MAP_DRAWS = (100, 256)
# Of many worlds, members that are not Gaussian are read in as few as suffice: so many are tried, on so many
# pixels of a unit, none of which may get a probability that differs by more than this.
_NODES, _TRIED, TOLERANCE = (5, 9, 13), 512, 1e-3
# Numbers (float64) that one block of pixels may need, and pixels of a block at least.
_BLOCK_NUMBERS, _FEWEST = 1 << 21, 64


class PoolSummariser(PlaneReader):
    """Layers of a map by a pool, block by block; ``paired``: of the scene that trained it."""

    n_true_values = None  # the measurement part is no sum over points
    approximation = (  # for the record of a map
        f"kernels in single precision; of more than {_NODES[0]} worlds, trees and kernels in the fewest of "
        f"{', '.join(map(str, _NODES))} or all that keep the probabilities of {_TRIED} pixels of a unit "
        f"within {TOLERANCE:g}; {ASKED_QUICKLY} draws of a true value; model part in closed form"
    )

    def check_device(self, n_realisations: int, *, noisy: bool) -> None:
        """Refuse a graphics processor: the members of a pool have no kernels for it."""
        raise ValueError(
            "--device cuda maps models of one kind (uncover fit --model qda, lda or mda), not a pool of "
            "several; leave it out"
        )

    def __init__(self, pool: Pool, *, paired: bool = True) -> None:
        self.value = self.pool = pool
        self.paired = paired

    def _summarise(self, given: Planes) -> PixelSummary:
        given, R = given.marked(), len(given)
        p, n = given.numbers.shape[1:]
        drawn = given.noise is not None or given.systematic is not None or bool(np.isnan(given.numbers).any())
        numbers = R * (p + len(self.pool.members) * len(self.pool.classes)) * (ASKED_QUICKLY if drawn else 1)
        size = max(_FEWEST, _BLOCK_NUMBERS // numbers)
        several = self.pool.realisations == "pooled" and not drawn and _NODES[0] < R
        nodes = None
        if several and n > 2 * _TRIED:
            nodes = self._nodes(given.pixels(stream(0, "pixels tried").permutation(n)[:_TRIED]).values)
        starts = range(0, n, size)
        parts = [self._block(given.pixels(slice(i, min(i + size, n))).observation, nodes) for i in starts]
        each = zip(*(vars(part).values() for part in parts), strict=True)
        return PixelSummary(*(np.concatenate(arrays, axis=-1) for arrays in each))

    def _nodes(self, values: NDArray[Any]) -> Nodes | None:
        """The fewest worlds at which some pixels get the probabilities of all; None where that takes all.

        Worlds lie along the line on which they differ most: mostly one effect makes them, and smoothly.
        """
        mean = values.mean(axis=2, dtype=np.float64)  # (world, feature)
        apart = (mean - mean.mean(0)) / np.maximum(values.std(axis=(0, 2)), np.finfo(np.float32).tiny)
        place = apart @ np.linalg.svd(apart, full_matrices=False)[2][0]
        if len(np.unique(place)) < len(place):
            return None
        seen = Observation(np.moveaxis(values, 2, 0))
        exact = self._predict(seen).probability()
        for n in (n for n in _NODES if n < len(mean)):
            nodes = Nodes.along(place, n)
            if np.abs(self._predict(seen, nodes).probability() - exact).max() <= TOLERANCE:
                return nodes
        return None

    def n_worlds(self, n_realisations: int) -> int:
        """Number of worlds in which pixels get a class: as many as a Gaussian member reads."""
        if self.pool.realisations in ("draws", "repeats"):
            return 1
        structure = Structure(n_realisations if n_realisations > 1 else None)
        return len(Predictor(self.pool.truth_model, paired=self.paired).readings(structure))

    def world_pairs(self, n_realisations: int) -> NDArray[np.int64]:
        """Draws that make each world: the realisations."""
        return np.arange(n_realisations)[:, None]

    def _predict(self, seen: Observation, nodes: Nodes | None = None) -> PoolPrediction:
        return PoolPrediction(self.pool, seen, paired=self.paired, quick=True, nodes=nodes)

    def _block(self, observation: Observation, nodes: Nodes | None) -> PixelSummary:
        found = self._predict(observation, nodes)
        P, budget = found.probability(), found.budget(*MAP_DRAWS)
        order, best = np.sort(P, axis=1), P.argmax(axis=1).astype(np.uint8)
        worlds, margin = found.best_of_views().astype(np.uint8), order[:, -1] - order[:, -2]
        parts = (budget.total, budget.measurement, budget.model, budget.overlap, margin, found.typicality())
        return PixelSummary(P.T, np.stack(parts), (worlds != best).mean(axis=0), worlds, best)


AnySummariser = Summariser | PoolSummariser


def make_summariser(
    model: GaussianClasses | Pool | ModelRecord | FittedEstimator,
    *,
    paired: bool = True,
    method: str = "exact",
    n_true_values: int = 192,
    device: str = "cpu",
) -> AnySummariser:
    """Return what reads pixels with a fitted value, or with a model that has one."""
    value = model if isinstance(model, GaussianClasses | Pool) else record_of(model).model_
    if isinstance(value, Pool):
        return PoolSummariser(value, paired=paired)
    return Summariser(value, paired=paired, method=method, n_true_values=n_true_values, device=device)
