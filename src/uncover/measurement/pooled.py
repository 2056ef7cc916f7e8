"""Layers of a map by a pool, and the choice of what reads pixels."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.streams import stream
from uncover.engines.cuda import in_memory
from uncover.measurement.observation import Observation
from uncover.measurement.pool_prediction import ASKED_QUICKLY, Nodes, PoolPrediction
from uncover.measurement.predictor import Predictor
from uncover.measurement.summary import PixelSummary, PlaneReader, Planes, Summariser
from uncover.models.gaussian import GaussianClasses
from uncover.models.pool import Pool
from uncover.models.realisations import Structure
from uncover.models.record import FittedEstimator, ModelRecord, record_of

if TYPE_CHECKING:
    from uncover.measurement.device_pool import DevicePool

Array = NDArray[np.float64]

# Draws of class models and of true values behind the budget of a pixel.
MAP_DRAWS = (100, 256)
# Of many worlds, members that are not Gaussian are read in as few as suffice: so many are tried, on so many
# pixels of a unit, none of which may get a probability that differs by more than this.
_NODES, _TRIED, TOLERANCE = (5, 9, 13), 512, 1e-3
# The same on a graphics processor: this share of so many pixels may differ by more.
_TRIED_ON_DEVICE, _FEW = 4096, 1e-3
# Numbers (float64) that one block of pixels may need, and pixels of a block at least.
_BLOCK_NUMBERS, _FEWEST = 1 << 21, 64


class PoolSummariser(PlaneReader):
    """Layers of a map by a pool, block by block; ``paired``: of the scene that trained it."""

    n_true_values = None  # the measurement part is no sum over points

    def __init__(self, pool: Pool, *, paired: bool = True, device: str = "cpu") -> None:
        self.value = self.pool = pool
        self.paired, self.device = paired, device
        tried = f"of {1 - _FEW:.1%} of {_TRIED_ON_DEVICE}" if device == "cuda" else f"of {_TRIED}"
        self.approximation = (
            f"kernels in single precision; of more than {_NODES[0]} worlds, trees and kernels in the fewest "
            f"of {', '.join(map(str, _NODES))} or all that keep the probabilities {tried} pixels of a unit "
            f"within {TOLERANCE:g}; {ASKED_QUICKLY} draws of a true value; noise beside worlds by matched "
            "covariance; model part in closed form"
        )

    @cached_property
    def on_device(self) -> DevicePool:
        """The pool on a graphics processor."""
        from uncover.measurement.device_pool import DevicePool

        return DevicePool(self.pool, self.paired)

    def check_device(self, n_realisations: int, *, noisy: bool) -> None:
        """Refuse a graphics processor where there is none, or where its kernels do not reach."""
        self.on_device.check(n_realisations, noisy=noisy)

    def _summarise(self, given: Planes) -> PixelSummary:
        given, R = given.marked(), len(given)
        if self.device == "cuda" and not np.isnan(given.numbers).any():
            return self._summarise_on_device(given)
        p, n = given.numbers.shape[1:]
        drawn = given.noise is not None or given.systematic is not None or bool(np.isnan(given.numbers).any())
        views = max(R, ASKED_QUICKLY) if drawn else R  # true values are drawn in all worlds together
        numbers = views * (p + len(self.pool.members) * len(self.pool.classes))
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
        place = _along(values)
        if place is None:
            return None
        seen = Observation(np.moveaxis(values, 2, 0))
        return self._fewest(place, lambda nodes: self._predict(seen, nodes).probability(), classes=1)

    def _fewest(
        self, place: Array, probability: Callable[[Nodes | None], Any], classes: int, few: float = 0.0
    ) -> Nodes | None:
        """The fewest worlds along a line at which probabilities are those of all, but for few pixels.

        ``classes`` is the axis of these in what ``probability`` returns.
        """
        exact = probability(None)
        for n in (n for n in _NODES if n < len(place)):
            nodes = Nodes.along(place, n)
            apart = abs(probability(nodes) - exact).max(axis=classes)
            if int((apart > TOLERANCE).sum()) <= few * apart.size:
                return nodes
        return None

    def nodes_on_device(self, given: Planes) -> Nodes | None:
        """The fewest worlds at which the device has to read some of the pixels, None for all."""
        pool, R, n = self.on_device, len(given), given.numbers.shape[2]
        some = given.pixels(stream(0, "pixels tried").permutation(n)[:_TRIED_ON_DEVICE])
        if self.pool.realisations != "pooled" or _NODES[0] >= R or (place := _along(some.values)) is None:
            return None

        def probability(nodes: Nodes | None) -> Array:
            def work(rows: slice) -> list[Any]:
                views = pool.views(some.numbers[:, :, rows], some.coefficients)
                return [pool.layers(views, nodes, typicality=False).rows[:-6].get()]

            return np.concatenate([part for (part,) in in_memory(work, some.numbers.shape[2], n)], axis=1)

        return self._fewest(place, probability, 0, _FEW)

    def _summarise_on_device(self, given: Planes) -> PixelSummary:
        """The same on a graphics processor, in single precision."""
        pool, R, n = self.on_device, len(given), given.numbers.shape[2]

        def work(rows: slice) -> list[Any]:
            block = given.pixels(rows)
            found = pool.layers(pool.views(block.numbers, block.coefficients), nodes)
            return [part.get() for part in found]

        nodes = self.nodes_on_device(given)
        parts = in_memory(work, n, pool.block(R))
        each, worlds, typicality = (np.concatenate(one, axis=-1) for one in zip(*parts, strict=True))
        probability, layers, disagreement = each[:-6], each[-6:-1], each[-1].astype(np.float64)
        best = probability.argmax(axis=0).astype(np.uint8)
        return PixelSummary(probability, np.vstack([layers, typicality]), disagreement, worlds, best)

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


def _along(values: NDArray[Any]) -> Array | None:
    """Places of worlds along the line on which they differ most; None where two have the same."""
    mean = values.mean(axis=2, dtype=np.float64)  # (world, feature)
    apart = (mean - mean.mean(0)) / np.maximum(values.std(axis=(0, 2)), np.finfo(np.float32).tiny)
    place = apart @ np.linalg.svd(apart, full_matrices=False)[2][0]
    return place if len(np.unique(place)) == len(place) else None


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
        return PoolSummariser(value, paired=paired, device=device)
    return Summariser(value, paired=paired, method=method, n_true_values=n_true_values, device=device)
