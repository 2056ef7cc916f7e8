"""Errors of single pixels beside the worlds of a scene: sensor, misplaced pixels, what a file states."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.covariances import Covariances
from uncover.measurement.radiometry import REFINED, Radiometry
from uncover.raster.errors import SceneError
from uncover.raster.grid import Window, same_crs
from uncover.raster.layers import pixel_size
from uncover.raster.realised import RealisedScene
from uncover.raster.scene import Scene
from uncover.raster.uncertainty import Uncertainty
from uncover.raster.uncertainty_layers import SPOT, SPOTS, UncertaintyBlock, check_reflectance

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WorldNoise:
    """Random errors of the pixels of a scene that comes in worlds, as errors of its surface reflectance.

    Every world has them alike: they are taken at the estimated state of the atmosphere. Errors of the sensor,
    and of the values of an L1C scene that a file states, are errors at the top of the atmosphere; the slope
    of the correction makes those of the surface of them.

    radiometry
        Noise, stray light of pixels, non-linearity and quantisation of the sensor are counted.
    stated
        Uncertainty of the scene's own values, from a file.

    A pixel that lies elsewhere by (dx, dy) has errors J·(dx, dy), J being the gradients of the bands: with u
    metres along either axis their covariance is u² J Jᵀ, in all bands of a pixel by one shift. Shifts of
    different pixels count as independent.
    """

    realised: RealisedScene
    radiometry: Radiometry | None = None
    stated: Uncertainty | None = None

    def read(
        self, window: Window, reflectance: NDArray[np.floating[Any]], where: NDArray[np.bool_] | None = None
    ) -> UncertaintyBlock:
        """Covariances of the errors of single pixels, for the mean of their worlds (band, row, col)."""
        check_reflectance(reflectance, self.realised.bands, window)
        asked = np.isfinite(reflectance).all(axis=0) if where is None else where
        surface = np.nan_to_num(reflectance.astype(np.float64))
        toa, slope = np.empty((2, *surface.shape))
        for cell in self.realised.cells(window):
            inside = (slice(None), *cell.shifted(-window.row, -window.col).slices)
            toa[inside], slope[inside] = _at_top(surface[inside], self.realised.estimated(cell))
        known, parts = asked, []
        if self.stated is not None:
            own = toa if self.realised.direct else surface
            block = self.stated.read(window, np.where(np.isfinite(reflectance), own, np.nan), asked)
            known = block.valid
            if block.covariances is not None:
                factor = slope[:, known].T if self.realised.direct else 1.0
                parts.append(_scaled(block.covariances, factor, int(known.sum())))
        if self.realised.misplaced:
            J = _gradients(self.realised.scene, window)[:, :, known].T * self.realised.misplaced
            if self.realised.direct:
                J *= slope[:, known].T[..., None]
            parts.append(Covariances(None, None, J @ np.swapaxes(J, 1, 2)))
        if self.radiometry is not None:
            variance = self.radiometry.random_variance(toa[:, known]) * slope[:, known] ** 2
            parts.append(Covariances(None, None, np.ascontiguousarray(variance.T)))
        return UncertaintyBlock(window, known, _sum(parts))

    @cached_property
    def causes(self) -> dict[str, WorldNoise]:
        """Each cause of errors of single pixels alone, by name."""
        settled = replace(self.realised, misplaced=None)
        found = {"radiometry-noise": replace(self, realised=settled, stated=None)} if self.radiometry else {}
        if self.realised.misplaced:
            found["geolocation"] = replace(self, radiometry=None, stated=None)
        if self.stated is not None:
            found["file"] = replace(self, realised=settled, radiometry=None)
        return found

    @cached_property
    def systematic(self) -> Array | None:
        """Covariance of the stated error that the scene's pixels share, at the mean of the scene."""
        own = None if self.stated is None else self.stated.systematic
        if own is None or not self.realised.direct:
            return own
        slope = self._mean[1]
        return np.asarray(own * (slope[:, None] * slope))

    @cached_property
    def _mean(self) -> tuple[Array, Array]:
        """Mean reflectance of the scene at the top of the atmosphere, and the slope of the correction."""
        scene = self.realised.scene
        blocks = [scene.read(window) for window in scene.grid.spots(SPOT, SPOTS)]
        pixels = np.concatenate([block.samples(block.valid) for block in blocks])
        if not len(pixels):
            raise SceneError(f"no pixel of scene {scene.identity} has a value to take its noise at")
        mean = pixels.mean(axis=0, dtype=np.float64)
        middle = Window(scene.grid.height // 2, scene.grid.width // 2, 1, 1)
        A, B, S = self.realised.estimated(middle)
        if not self.realised.direct:
            return A + B * mean / (1 - S * mean), (1 - S * mean) ** 2 / B
        return mean, B / (B + S * (mean - A)) ** 2

    def facts(self) -> dict[str, Any]:
        """What the errors are, and the file that states some."""
        facts: dict[str, Any] = {} if self.stated is None else dict(self.stated.facts())
        quantities = list(facts.pop("quantities", ()))
        if self.radiometry is not None:
            quantities.append(self.radiometry.random_record(self._mean[0]))
        if self.realised.misplaced is not None:
            quantities.append(_geolocation_record(self.realised.misplaced))
        shared = None if self.systematic is None else self.systematic.tolist()
        stated = {"stated": facts, "systematic": shared} if facts else {}
        return {**stated, "quantities": quantities}


def _at_top(surface: Array, coefficients: Array) -> tuple[Array, Array]:
    """Reflectance at the top of the atmosphere (band, row, col), and dρ/dy there."""
    A, B, S = coefficients[:, :, None, None]
    left = 1 - S * surface
    return A + B * surface / left, left**2 / B


def _scaled(noise: Covariances, factor: Array | float, n: int) -> Covariances:
    """Covariances D Σ D of n pixels, D being diagonal: (pixel, band)."""
    if np.ndim(factor) == 0:
        return noise
    factor = np.asarray(factor)
    return Covariances(None, None, noise.of_each(n) * (factor[:, :, None] * factor[:, None, :]))


def _sum(parts: list[Covariances]) -> Covariances | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    return Covariances(None, None, np.asarray(sum(part.matrices() for part in parts)))


def _gradients(scene: Scene, window: Window) -> Array:
    """Change of the scene's own values per metre down the rows and along the columns: (axis, band, row, col).

    Differences reach as far to either side as a pixel of the band's own images is large. Where a neighbour
    has no value, or lies outside the scene, the pixel itself takes its place; alone, it has no gradient.
    """
    found = np.empty((2, len(scene.bands), *window.shape))
    reach = _pixels_of_bands(scene)
    margin = max(max(each) for each in reach.values())
    wide = window.grown(margin, margin) & scene.grid.window
    values = np.full((len(scene.bands), *(length + 2 * margin for length in window.shape)), np.nan)
    place = wide.shifted(margin - window.row, margin - window.col)
    values[(slice(None), *place.slices)] = scene.read(wide).reflectance
    inside = Window(margin, margin, *window.shape)
    for axis, metres in enumerate(pixel_size(scene.grid)):
        for at, band in enumerate(scene.bands):
            step, plane = reach[band][axis], values[at]
            rows, cols = (step, 0) if axis == 0 else (0, step)
            here, after, before = (plane[inside.shifted(k * rows, k * cols).slices] for k in (0, 1, -1))
            ahead, behind = np.isfinite(after), np.isfinite(before)
            change = np.where(ahead, after, here) - np.where(behind, before, here)
            found[axis, at] = change / (step * metres * np.maximum(ahead.astype(int) + behind, 1))
    return found


def _pixels_of_bands(scene: Scene) -> dict[str, tuple[int, int]]:
    """Rows and columns of the scene's grid that a pixel of each band's own images has, at least one."""
    found: dict[str, tuple[int, int]] = {}
    for group in scene.groups:
        own = group.source.grid
        alike = same_crs(own.crs, scene.grid.crs)
        sizes = zip(own.resolution, scene.grid.resolution, strict=True)
        across, down = (max(1, round(a / b)) if alike else 1 for a, b in sizes)
        found |= dict.fromkeys(group.bands, (down, across))
    return found


def _geolocation_record(metres: float) -> dict[str, Any]:
    """The place of a pixel as an input quantity."""
    return {
        "name": "geolocation of single pixels",
        "estimate": 0.0,
        "standard_uncertainty": metres,
        "standard_uncertainty_is": "of the place along either axis; times the gradient of each band",
        "units": "m",
        "distribution": "Gaussian",
        "between_pixels": "random",
        "source": "default" if metres == REFINED else "--geolocation-uncertainty",
    }
