"""Stated uncertainty of scenes of several dates: which errors are one, and what formulas make of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from uncover.bayes.covariances import Covariances
from uncover.measurement.formulas import jacobian, propagated
from uncover.raster.errors import SceneError
from uncover.raster.grid import Window
from uncover.raster.quality import INCOMPLETE, without
from uncover.raster.scene import Block, Scene
from uncover.raster.series import SceneSeries
from uncover.raster.uncertainty import Uncertainty
from uncover.raster.uncertainty_layers import SPOT, SPOTS, UncertaintyBlock

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SeriesUncertainty:
    """Stated uncertainty of a series: errors of two dates are independent, but for effects common to scenes.

    Covariances of computed features are those of the bands by their derivatives; what a scene shares is taken
    at the mean of its clear pixels.
    """

    series: SceneSeries
    dates: tuple[Uncertainty | None, ...]

    @property
    def bands(self) -> tuple[str, ...]:
        """Features of the series."""
        return self.series.bands

    def _each(self) -> Iterator[tuple[slice, Scene | None, Uncertainty | None]]:
        size = len(self.series.formulas)
        for i, (scene, stated) in enumerate(zip(self.series.parts, self.dates, strict=True)):
            yield slice(i * size, (i + 1) * size), scene, stated

    def read(
        self, window: Window, reflectance: NDArray[np.floating[Any]], where: NDArray[np.bool_] | None = None
    ) -> UncertaintyBlock:
        """Covariances of the errors of single pixels; features that are missing have none that counts."""
        asked = np.isfinite(reflectance).all(axis=0) if where is None else where
        valid, found = asked.copy(), []
        for mine, scene, stated in self._each():
            if scene is None or stated is None:
                continue
            block = scene.read(window)
            seen = np.isfinite(reflectance[mine]).any(axis=0)
            here = stated.read(window, np.where(seen, block.reflectance, np.nan), asked)
            valid &= here.valid | ~seen
            found.append((mine, self._propagated(here, scene, block, asked)))
        size, n = len(self.bands), int(valid.sum())
        if not found or all(own is None for _, own in found):
            return UncertaintyBlock(window, valid, None)
        total, kept = np.zeros((n, size, size)), valid[asked]
        for mine, own in found:
            if own is not None:
                total[:, mine, mine] = own[kept]
        return UncertaintyBlock(window, valid, Covariances(None, None, total))

    def _propagated(
        self, here: UncertaintyBlock, scene: Scene, block: Block, asked: NDArray[np.bool_]
    ) -> Array | None:
        """Covariances of the features of all pixels asked for, 0 where the date states none."""
        if here.covariances is None:
            return None
        values = np.nan_to_num(block.reflectance[:, here.valid].astype(np.float64))
        slopes = jacobian(
            self.series.formulas, dict(zip(scene.bands, values, strict=True)), list(scene.bands)
        )
        found = propagated(here.covariances, slopes).matrices()
        out = np.zeros((int(asked.sum()), *found.shape[1:]))
        out[here.valid[asked]] = found
        return out

    @cached_property
    def _slopes(self) -> tuple[Array | None, ...]:
        """Derivatives of each date's features at the mean of its clear pixels: (feature, band)."""
        return tuple(None if scene is None else self._mean_slopes(scene) for scene in self.series.parts)

    def _mean_slopes(self, scene: Scene) -> Array:
        if all(formula.is_band for formula in self.series.formulas):
            values = np.ones(len(scene.bands))
        else:
            blocks = [scene.read(window) for window in scene.grid.spots(SPOT, SPOTS)]
            found = [
                block.samples(without(block.quality, INCOMPLETE | self.series.masked)) for block in blocks
            ]
            pixels = np.concatenate(found)
            if not len(pixels):
                raise SceneError(f"no clear pixel of scene {scene.identity} to take the derivatives at")
            values = pixels.mean(axis=0, dtype=np.float64)
        named = {band: np.asarray(value) for band, value in zip(scene.bands, values, strict=True)}
        return jacobian(self.series.formulas, named, list(scene.bands))

    @cached_property
    def systematic(self) -> Array | None:
        """Covariance of the errors that each date shares, date by date."""
        size, found, any_stated = len(self.series.formulas), [], False
        for slopes, (_, _, stated) in zip(self._slopes, self._each(), strict=True):
            own = None if stated is None else stated.systematic
            any_stated |= own is not None
            found.append(np.zeros((size, size)) if own is None or slopes is None else slopes @ own @ slopes.T)
        return np.asarray(block_diag(*found)) if any_stated else None

    @cached_property
    def common(self) -> dict[str, Array]:
        """Covariances of effects that all scenes share: one error z, so dates are as tied as bands are.

        R ∘ u uᵀ for all dates at once, with R the correlation between bands and u of each date.
        """
        names = dict.fromkeys(name for each in self.dates if each is not None for name in each.common)
        return {name: self._common(name) for name in names}

    def _common(self, name: str) -> Array:
        count = next(len(scene.bands) for scene in self.series.scenes)
        u, slopes, R = [], [], np.eye(count)
        for matrix, (_, _, stated) in zip(self._slopes, self._each(), strict=True):
            own = None if stated is None else stated.common.get(name)
            spread = np.zeros(count) if own is None else np.sqrt(np.diagonal(own))
            if own is not None:
                both = spread[:, None] * spread
                R = np.divide(own, both, out=np.eye(count), where=both > 0)
            u.append(spread)
            slopes.append(np.zeros((len(self.series.formulas), count)) if matrix is None else matrix)
        spread, J = np.concatenate(u), block_diag(*slopes)
        whole = np.tile(R, (len(u), len(u))) * (spread[:, None] * spread)
        return np.asarray(J @ whole @ J.T)

    def facts(self) -> dict[str, Any]:
        """Assumptions of each date; sizes in per cent are those of bands, and are named as such."""
        found: dict[str, Any] = {"bands": list(self.bands), "dates": {}}
        quantities = []
        for when, stated in zip(self.series.dates, self.dates, strict=True):
            if stated is None:
                continue
            facts = stated.facts()
            found["dates"][when] = {key: value for key, value in facts.items() if key != "quantities"}
            for quantity in facts["quantities"]:
                name = quantity["name"] if when == "" else f"{quantity['name']}, {when}"
                quantities.append({**quantity, "name": name})
        return {**found, "quantities": quantities}
