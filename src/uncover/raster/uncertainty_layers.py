"""Uncertainty that is stored pixel by pixel, brought onto a scene's grid window by window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.covariances import Covariances
from uncover.measurement.band_uncertainty import BandEffect, BetweenPixels, BetweenScenes, block_covariances
from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window
from uncover.raster.layers import Calibration
from uncover.raster.resample import read_nearest
from uncover.raster.tiles import Source, TileCache

if TYPE_CHECKING:
    from uncover.raster.scene import Scene

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: Side of the blocks whose covariances are averaged into the systematic matrix.
BLOCK = 512

#: Windows along and across a scene, and their side, whose values stand for those of all pixels.
SPOTS, SPOT = 4, 64


@dataclass(frozen=True)
class UncertaintyBlock:
    """Covariances of the errors in one window.

    valid
        Pixels with a value and an uncertainty, (row, col).
    covariances
        Of the errors of each valid pixel alone, row by row, as `Block.samples(valid)` has its values; None
        where there are no such errors.
    """

    window: Window
    valid: Mask
    covariances: Covariances | None


@dataclass(frozen=True)
class CalibratedPlanes:
    """Planes of a source with their calibration; NaN where there is no value, never 0."""

    source: Source
    calibrations: tuple[Calibration, ...]

    def read(self, grid: Grid, window: Window, cache: TileCache) -> Array:
        """Values at the pixel centres of a window of a grid, nearest neighbour, (plane, row, col)."""
        numbers, inside = read_nearest(self.source, grid, window, cache)
        out = np.empty(numbers.shape, np.float64)
        for plane, number, calibration in zip(out, numbers, self.calibrations, strict=True):
            plane[...] = calibration.apply(number)[0]
        out[:, ~inside] = np.nan
        return out


@dataclass(frozen=True, eq=False)
class LayerEffect:
    """One source of error: standard uncertainties in a layer, or one for all pixels.

    standard
        One plane per band, one plane for all bands, or the numbers themselves, (band,).
    relative_to
        None where absolute; "scene" where a fraction of the scene's values; a layer of values otherwise.
    """

    name: str
    standard: CalibratedPlanes | Array
    correlation: Array  # (band, band)
    between_pixels: BetweenPixels
    relative_to: CalibratedPlanes | str | None = None
    factor: float = 1.0  # 0.01 for per cent
    between_scenes: BetweenScenes = "independent"
    coverage_factor: Array | None = None

    @property
    def relative(self) -> bool:
        """True where standard uncertainties are a fraction of values."""
        return self.relative_to is not None

    def read(self, grid: Grid, window: Window, values: Array | None, cache: TileCache) -> Array:
        """Standard uncertainty (band, row, col), or (1, row, col) where it is one for all bands."""
        u = self.standard.read(grid, window, cache) if isinstance(self.standard, CalibratedPlanes) else None
        if u is None:
            assert isinstance(self.standard, np.ndarray)
            u = np.broadcast_to(self.standard[:, None, None], (len(self.standard), *window.shape))
        if self.relative_to is not None:
            of = values if isinstance(self.relative_to, str) else self.relative_to.read(grid, window, cache)
            if of is None:
                raise SceneError(
                    f"{self.name} is in per cent and shared by the scene: it needs the scene's values, or a "
                    "reference spectrum"
                )
            u = u * np.abs(of)
        if np.any(u < 0):
            raise SceneError(
                f"{self.name} has a standard uncertainty of {np.nanmin(u):.6g}; it must be 0 or more"
            )
        return u * self.factor


@dataclass(frozen=True, eq=False)
class LayeredUncertainty:
    """Uncertainty from layers, one or several effects; made by `open_uncertainty`.

    A pixel is valid where the scene has a value and every random effect an uncertainty in each band (a band
    without a value needs none).
    """

    bands: tuple[str, ...]
    grid: Grid
    effects: tuple[LayerEffect, ...]
    flags: tuple[tuple[CalibratedPlanes, int], ...] = ()  # bits that make a pixel invalid
    reference: Array | None = None  # (band,)
    about: dict[str, Any] = field(default_factory=dict)
    scene: Scene | None = None  # whose values relative systematic effects are taken at without a reference
    cache: TileCache = field(default_factory=TileCache, repr=False)

    def read(
        self, window: Window, reflectance: NDArray[np.floating[Any]], where: Mask | None = None
    ) -> UncertaintyBlock:
        """Covariances in a window of the scene's grid, for its reflectance (band, row, col)."""
        check_reflectance(reflectance, self.bands, window)
        known = np.isfinite(reflectance)
        valid = known.all(axis=0) if where is None else where.copy()
        values = np.where(known, reflectance, 0.0).astype(np.float64)
        found = []
        for effect in self._of("random"):
            u = effect.read(self.grid, window, values, self.cache)
            valid &= (np.isfinite(u) | ~known).all(axis=0)
            found.append((u, effect.correlation))
        for layer, bits in self.flags:
            flags = layer.read(self.grid, window, self.cache)
            valid &= ~(np.nan_to_num(flags).astype(np.int64) & bits != 0).any(axis=0)
        if not found:
            return UncertaintyBlock(window, valid, None)
        # A band without a value needs no uncertainty: it is marginalised, whatever stands here.
        parts = [(np.nan_to_num(_rows(u, valid, len(self.bands))), R) for u, R in found]
        return UncertaintyBlock(window, valid, block_covariances(parts, int(valid.sum())))

    @cached_property
    def systematic(self) -> Array | None:
        """Covariance of the error that the scene shares: the mean over its pixels, by blocks, or None.

        Without the effects that all scenes have in common.
        """
        effects = [e for e in self._of("systematic") if e.between_scenes == "independent"]
        return self._mean_covariance(effects) if effects else None

    @cached_property
    def common(self) -> dict[str, Array]:
        """Covariances of systematic effects that all scenes have in common, by name."""
        effects = [e for e in self._of("systematic") if e.between_scenes == "common"]
        return {effect.name: self._mean_covariance([effect]) for effect in effects}

    def _mean_covariance(self, effects: list[LayerEffect]) -> Array:
        total, count = np.zeros((len(self.bands),) * 2), 0
        for window, values in self._values_of_windows(effects):
            every = np.ones(window.shape, np.bool_)
            parts = [
                (_rows(e.read(self.grid, window, values, self.cache), every, len(self.bands)), e.correlation)
                for e in effects
            ]
            added, number = sum_of_covariances(parts)
            total, count = total + added, count + number
        if count == 0:
            names = ", ".join(effect.name for effect in effects)
            raise SceneError(f"no pixel of the scene has an uncertainty in {names}")
        return total / count

    def _values_of_windows(self, effects: list[LayerEffect]) -> Iterator[tuple[Window, Array | None]]:
        """Windows to average over with the values that relative effects are taken at.

        The whole scene; or some of it, where its own values have to be read for that.
        """
        of_scene = any(effect.relative_to == "scene" for effect in effects)
        if of_scene and self.reference is None and self.scene is not None:
            for window in self.grid.spots(SPOT, SPOTS):
                yield window, self.scene.read(window).reflectance.astype(np.float64)
            return
        for window in self.grid.blocks(BLOCK):
            values = None
            if self.reference is not None:
                values = np.broadcast_to(self.reference[:, None, None], (len(self.bands), *window.shape))
            yield window, values

    def _of(self, kind: BetweenPixels) -> tuple[LayerEffect, ...]:
        return tuple(effect for effect in self.effects if effect.between_pixels == kind)

    def facts(self) -> dict[str, Any]:
        """Assumptions in plain words: for people, and for the fingerprint of a run."""
        effects = [effect_record(e, e.name, self._typical(e), self.about) for e in self.effects]
        return {**self.about, "bands": list(self.bands), "quantities": effects}

    def _typical(self, effect: LayerEffect) -> list[float | None]:
        """Median standard uncertainty of each band in the middle of the scene; of relative ones per cent."""
        scale = 100 * effect.factor if effect.relative else 1.0
        if not isinstance(effect.standard, CalibratedPlanes):
            return [scale * float(u) for u in np.broadcast_to(effect.standard, len(self.bands))]
        middle = effect.standard.read(self.grid, self.grid.middle(SPOT), self.cache)
        planes = [u[np.isfinite(u)] for u in middle]
        found = [scale * float(np.median(u)) if len(u) else None for u in planes]
        return found if len(found) > 1 else found * len(self.bands)


def effect_record(
    effect: BandEffect | LayerEffect, name: str, standard: Sequence[float | None], about: Mapping[str, Any]
) -> dict[str, Any]:
    """An effect as an input quantity: the error, its estimate 0, its standard uncertainty, what it shares.

    `about` has the file that states it and its hash. An uncertainty that was stated as an expanded one has
    U and k beside u.
    """
    k = effect.coverage_factor
    expanded = (
        {}
        if k is None
        else {
            "expanded_uncertainty": [float(f"{f * u:.12g}") for f, u in zip(k, standard, strict=True)],
            "coverage_factor": [float(f) for f in k],
        }
    )
    layer = isinstance(effect.standard, CalibratedPlanes)
    return {
        "name": name,
        "estimate": 0.0,
        "standard_uncertainty": list(standard),
        **({"standard_uncertainty_is": "the median in the middle of the scene"} if layer else {}),
        **expanded,
        "units": "%" if effect.relative else "1",
        "distribution": "Gaussian (assumed)",
        "between_pixels": effect.between_pixels,
        **({"between_scenes": effect.between_scenes} if effect.between_pixels == "systematic" else {}),
        "between_bands": np.asarray(effect.correlation).tolist(),
        "source": about.get("file"),
        **({"source_sha256": about["sha256"]} if "sha256" in about else {}),
    }


def check_reflectance(reflectance: NDArray[np.floating[Any]], bands: tuple[str, ...], window: Window) -> None:
    """Refuse an array that is not that of the window."""
    if reflectance.shape != (len(bands), *window.shape):
        raise SceneError(
            f"reflectance of shape {reflectance.shape} came; {(len(bands), *window.shape)} is needed: the "
            f"bands {', '.join(bands)} of {window}"
        )


def sum_of_covariances(parts: Sequence[tuple[Array, Array]]) -> tuple[Array, int]:
    """Sum of D R D over the pixels that have an uncertainty in every effect and band, and their number.

    `parts` are pairs of standard uncertainties (pixel, band), or (1, band), and correlations (band, band).

    >>> total, number = sum_of_covariances([(np.array([[1.0, 2.0], [np.nan, 1.0]]), np.eye(2))])
    >>> total.tolist(), number
    ([[1.0, 0.0], [0.0, 4.0]], 1)
    """
    valid = np.ones(max(len(u) for u, _ in parts), np.bool_)
    for u, _ in parts:
        valid &= np.isfinite(u).all(axis=1)
    number = int(valid.sum())
    total = np.zeros_like(parts[0][1])
    for u, R in parts:
        chosen = u[valid] if len(u) > 1 else u
        squares = chosen.T @ chosen * (1 if len(u) == len(valid) else number)
        total += R * (squares if number else 0.0)
    return total, number


def _rows(u: Array, valid: Mask, n_bands: int) -> Array:
    """(pixel, band) of some pixels, row by row."""
    rows = u[:, valid].T
    return np.broadcast_to(rows, (len(rows), n_bands))
