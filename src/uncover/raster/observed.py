"""Scenes with what is known of their errors: values, worlds, or values with their noise; read by windows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.covariances import Covariances
from uncover.measurement.features import Features
from uncover.measurement.quantity import named_effects
from uncover.measurement.summary import corrected
from uncover.raster.common_effects import CommonEffect, common_of
from uncover.raster.cube import Cube
from uncover.raster.errors import SceneError
from uncover.raster.grid import Window
from uncover.raster.layers import Flags
from uncover.raster.pixel_kernels import take
from uncover.raster.product import CHUNK
from uncover.raster.quality import CLEAR, INCOMPLETE, Quality, without
from uncover.raster.realised import RealisedScene
from uncover.raster.scene import OfRaster, Scene
from uncover.raster.series import RealisedSeries, SceneSeries
from uncover.raster.series_uncertainty import SeriesUncertainty
from uncover.raster.uncertainty import Uncertainty
from uncover.raster.world_noise import WorldNoise

Values = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Pixels:
    """Some pixels: planes (realisation, band, pixel), and the known noise of each pixel where there is one.

    With coefficients (realisation, 3, band) the planes are one realisation, at the top of the atmosphere, of
    which the others are made: path, slope and albedo of `uncover.atmosphere.Coefficients`.
    """

    planes: Values
    coefficients: NDArray[np.float64] | None = None
    noise: Covariances | None = None
    known: NDArray[np.bool_] | None = None  # which of the pixels asked for these are; all where None

    def realised(self) -> Values:
        """All realisations, (realisation, band, pixel)."""
        if self.coefficients is None:
            return self.planes
        return corrected(self.planes[0], self.coefficients).astype(self.planes.dtype)


@dataclass(frozen=True)
class WindowReading:
    """A window that has been read; some of its pixels at a time become numbers to classify.

    Values at the top of the atmosphere come with the coefficients that make their worlds, the same for all
    pixels of a cell. The noise of a pixel is made when it is asked for.
    """

    window: Window
    values: NDArray[np.float32]  # (realisation, band, row, col)
    quality: Flags  # (row, col)
    uncertainty: Uncertainty | SeriesUncertainty | WorldNoise | None = None
    coefficients: NDArray[np.float64] | None = None  # (cell, realisation, 3, band)
    cells: NDArray[np.intp] | None = None  # number of the cell of each pixel

    def present(self, step: int = 1) -> NDArray[np.bool_]:
        """Bands, or every so many of them, that have a value in every realisation: (band, row, col)."""
        return np.asarray(np.isfinite(self.values[:, ::step]).all(axis=0))

    @property
    def complete(self) -> NDArray[np.intp]:
        """Places of pixels with a value in every band, counted row by row."""
        return self.clear()

    def clear(self, masked: Quality = CLEAR) -> NDArray[np.intp]:
        """Those of them that have none of the masked bits."""
        return np.flatnonzero(without(self.quality.ravel(), INCOMPLETE | masked))

    def parts(self, where: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
        """Places in the window, cut into pieces that `pixels` takes: of one cell, and not too many."""
        cells = [where]
        if self.cells is not None and self.coefficients is not None:
            here = self.cells[where]
            cells = [where[here == number] for number in range(len(self.coefficients))]
        return (each[i : i + CHUNK] for each in cells for i in range(0, len(each), CHUNK))

    def pixels(self, where: NDArray[np.intp]) -> Pixels:
        """Pixels by their place in the window; those without a known uncertainty are left out."""
        coefficients = None
        if self.cells is not None and self.coefficients is not None:
            coefficients = self.coefficients[self.cells[where[0]]]
        if self.uncertainty is None:
            return Pixels(take(self.values, where), coefficients)
        width = self.window.width
        top, bottom = int(where[0]) // width, int(where[-1]) // width + 1
        asked = np.zeros((bottom - top) * width, np.bool_)
        asked[where - top * width] = True
        rows = Window(self.window.row + top, self.window.col, bottom - top, width)
        values = self.values[:, :, top:bottom]
        if coefficients is not None:  # of one cell: what is made of other pixels is not asked for
            flat = values[0].reshape(len(values[0]), -1)
            mean = corrected(flat, coefficients.mean(axis=0, keepdims=True)).reshape(values.shape[1:])
        else:
            mean = values[0] if len(values) == 1 else values.mean(axis=0)
        here = self.uncertainty.read(rows, mean, asked.reshape(-1, width))
        known = here.valid.ravel()[where - top * width]
        return Pixels(take(self.values, where[known]), coefficients, here.covariances, known)


class ObservedScene(OfRaster, ABC):
    """A scene with what is known of its errors."""

    #: Covariance of an error that all pixels share, (band, band), where it is not in realisations.
    systematic: NDArray[np.float64] | None = None

    @property
    @abstractmethod
    def raster(self) -> Scene | RealisedScene | Cube | SceneSeries:
        """Source of the values."""

    @property
    def realisations(self) -> int:
        """Number of realisations of each pixel."""
        return 1

    @property
    def own_scene(self) -> Scene | SceneSeries | None:
        """The scene itself; None for a cube."""
        return getattr(self, "scene", None)

    @property
    def dates(self) -> tuple[str, ...]:
        """Names of the dates of a series; none for a single scene."""
        return tuple(filter(None, getattr(self.raster, "dates", ())))

    @property
    def worlds(self) -> Mapping[str, Any] | None:
        """Draws that made the realisations, or what else tells them from others; None for one."""
        return None

    @property
    @abstractmethod
    def bytes_per_pixel(self) -> int:
        """Memory, in bytes per pixel, of a window that has been read, at most."""

    @abstractmethod
    def read(self, window: Window) -> WindowReading:
        """Read a window."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Where the uncertainty comes from, in plain words and numbers: recorded in the product."""


@dataclass(frozen=True)
class PlainScene(ObservedScene):
    """A scene without any uncertainty of its own; what noise it has is part of the classes' spread."""

    scene: Scene | SceneSeries

    @property
    def raster(self) -> Scene | SceneSeries:
        """The scene."""
        return self.scene

    @property
    def bytes_per_pixel(self) -> int:
        """Values, and what reading them takes."""
        return self.scene.bytes_per_pixel

    def read(self, window: Window) -> WindowReading:
        """Read a window."""
        block = self.scene.read(window)
        return WindowReading(window, block.reflectance[None], block.quality)

    def facts(self) -> dict[str, Any]:
        """Nothing to say but that there is none."""
        return {"source": "none"}


@dataclass(frozen=True, kw_only=True)
class SceneWithNoise(PlainScene):
    """A scene whose uncertainty is stated, as `open_uncertainty` gives it.

    `systematic` is the scene's own; `with_common` adds what does not cancel against a model.
    """

    systematic: NDArray[np.float64] | None = None
    uncertainty: Uncertainty | SeriesUncertainty
    cancelled: tuple[str, ...] = ()  # effects that all scenes have in common, and the model too
    different: tuple[str, ...] = ()  # of those, effects of another size: the difference counts

    @classmethod
    def of(cls, scene: Scene | SceneSeries, uncertainty: Uncertainty | SeriesUncertainty) -> SceneWithNoise:
        """With what the scene's pixels share, once for the whole scene."""
        return cls(scene=scene, systematic=uncertainty.systematic, uncertainty=uncertainty)

    def with_common(self, of_model: Mapping[str, CommonEffect]) -> SceneWithNoise:
        """With the effects common to all scenes that only one of model and scene has.

        Those that both have cancel, but for the difference of their sizes.
        """
        mine = common_of(self.uncertainty.common, self.uncertainty.facts()["quantities"])
        alone = [effect.covariance for name, effect in mine.items() if name not in of_model]
        alone += [effect.covariance for name, effect in of_model.items() if name not in mine]
        both = {name: effect.without(of_model[name]) for name, effect in mine.items() if name in of_model}
        left = {name: matrix for name, matrix in both.items() if matrix.any()}
        parts = [*([] if self.systematic is None else [self.systematic]), *alone, *left.values()]
        total = np.sum(parts, axis=0) if parts else None
        cancelled = tuple(name for name in both if name not in left)
        return replace(self, systematic=total, cancelled=cancelled, different=tuple(left))

    def read(self, window: Window) -> WindowReading:
        """Read a window."""
        return replace(super().read(window), uncertainty=self.uncertainty)

    def facts(self) -> dict[str, Any]:
        """Facts on the effects, and the covariance of the errors that the scene's pixels share."""
        shared = None if self.systematic is None else np.asarray(self.systematic).tolist()
        facts = {"source": "stated uncertainty", **self.uncertainty.facts(), "systematic": shared}
        named = {"cancelled": self.cancelled, "cancelled_but_for_size": self.different}
        return facts | {key: list(names) for key, names in named.items() if names}


@dataclass(frozen=True)
class StoredWorlds(ObservedScene):
    """Realisations that were stored before, as a cube."""

    cube: Cube
    choice: tuple[int, ...] | None = None  # places of the bands in the cube; all by default

    def __post_init__(self) -> None:
        _check_weights(self.identity, self.cube.coordinates.get("weight"))

    @property
    def raster(self) -> Cube:
        """The cube."""
        return self.cube

    @property
    def bands(self) -> tuple[str, ...]:
        """Bands of the cube, or those chosen."""
        return self.cube.bands if self.choice is None else tuple(self.cube.bands[i] for i in self.choice)

    @property
    def features(self) -> Features:
        """Features of the cube's values."""
        return self.cube.features.chosen(self.bands)

    @property
    def realisations(self) -> int:
        """Realisations of the cube."""
        return self.cube.realisations

    @property
    def worlds(self) -> Mapping[str, Any]:
        """Draws that made the cube."""
        return self.cube.worlds

    @property
    def bytes_per_pixel(self) -> int:
        """All realisations, twice while they are decoded."""
        return 8 * self.realisations * len(self.cube.bands) + 16

    def read(self, window: Window) -> WindowReading:
        """Read a window."""
        block = self.cube.read(window)
        values = block.values if self.bands == self.cube.bands else block.values[:, list(self.choice or ())]
        return WindowReading(window, values, block.quality)

    def facts(self) -> dict[str, Any]:
        """The realisations and what the cube says of them."""
        worlds = {name: np.asarray(v).tolist() for name, v in self.cube.coordinates.items()}
        return {"source": "cube", "realisations": self.realisations, **worlds, **dict(self.cube.attributes)}


@dataclass(frozen=True)
class SceneWithWorlds(ObservedScene):
    """A scene seen through an uncertain atmosphere: its worlds are made as a window is read, and not kept.

    The numbers are those that `uncover fit` trains on, and that a cube of the scene holds.
    """

    source: RealisedScene | RealisedSeries
    description: Mapping[str, Any] = field(default_factory=dict)
    noise: WorldNoise | None = None  # errors beside those of the worlds

    def __post_init__(self) -> None:
        _check_weights(self.identity, self.source.weights)

    @property
    def raster(self) -> RealisedScene | RealisedSeries:
        """The scene in all worlds."""
        return self.source

    @property
    def systematic(self) -> NDArray[np.float64] | None:  # type: ignore[override]
        """Covariance of a stated error that all pixels share, beside the worlds."""
        return None if self.noise is None else self.noise.systematic

    @property
    def scene(self) -> Scene | SceneSeries:
        """The scene itself."""
        return self.source.scene

    @property
    def realisations(self) -> int:
        """Number of drawn optical depths."""
        return self.source.realisations

    @property
    def worlds(self) -> Mapping[str, Any]:
        """Drawn optical depths."""
        return self.source.worlds

    @property
    def bytes_per_pixel(self) -> int:
        """Values that were measured; where they are not corrected in machine code, in all worlds."""
        return self.source.bytes_per_pixel

    def read(self, window: Window) -> WindowReading:
        """Read a window; its worlds are made pixel by pixel as they are classified, if that can be."""
        if not self.source.direct:
            worlds = self.source.read(window)
            return WindowReading(window, worlds.values, worlds.quality, self.noise)
        block, (coefficients, cells) = self.scene.read(window), self.source.correction(window)
        return WindowReading(window, block.reflectance[None], block.quality, self.noise, coefficients, cells)

    def facts(self) -> dict[str, Any]:
        """The worlds, and the correction that makes them."""
        source = named_effects(self.worlds)
        facts = {"source": source, **dict(self.description), **self.source.world_facts()}
        if self.noise is None:
            return facts
        beside = self.noise.facts()
        return {**facts, **beside, "quantities": [*facts.get("quantities", ()), *beside["quantities"]]}


def _check_weights(identity: str, weights: NDArray[Any] | None) -> None:
    if weights is not None and np.ptp(weights) > 1e-9 * np.max(weights):
        raise SceneError(
            f"the realisations of {identity} have unequal weights, and models and maps count them equally; "
            "draw them with --draw-method mc or quantile"
        )


def probe(observed: ObservedScene, windows: int = 3, size: int = 64) -> Values:
    """A few complete pixels from all over the scene, (pixel, band); of the first realisation."""
    readings = (observed.read(window) for window in observed.grid.spots(size, windows))
    found = [r.pixels(part).realised()[0].T for r in readings for part in r.parts(r.complete)]
    return np.concatenate(found) if found else np.empty((0, len(observed.bands)))
