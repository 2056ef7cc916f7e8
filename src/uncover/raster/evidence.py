"""Evidence on a scene's pixels: values, realisations of them, or values with their noise; by windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.covariances import Covariances
from uncover.measurement.features import Features
from uncover.measurement.summary import corrected
from uncover.raster.common_effects import CommonEffect, common_of
from uncover.raster.cube import Cube
from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window
from uncover.raster.layers import Flags
from uncover.raster.pixel_kernels import take
from uncover.raster.product import CHUNK
from uncover.raster.quality import Quality
from uncover.raster.realised import RealisedScene
from uncover.raster.scene import Block, OfScene, Raster, Scene
from uncover.raster.uncertainty import Uncertainty

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


class WindowReading(Protocol):
    """A window that has been read; some of its pixels at a time become numbers to classify."""

    @property
    def quality(self) -> Flags:
        """Quality bits, (row, col)."""

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which bands have a value, (band, row, col)."""

    def parts(self, where: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
        """Places in the window, counted row by row, cut into pieces that `pixels` takes."""

    def pixels(self, where: NDArray[np.intp]) -> Pixels:
        """Pixels by their place in the window."""


class Evidence(Raster, Protocol):
    """A scene with what is known of its errors."""

    @property
    def realisations(self) -> int:
        """Number of realisations of each pixel."""

    @property
    def worlds(self) -> Mapping[str, Any] | None:
        """Draws that made the realisations, or what else tells them from others; None for one."""

    @property
    def systematic(self) -> NDArray[np.float64] | None:
        """Covariance of an error that all pixels share, (band, band), where it is not in realisations."""

    @property
    def bytes_per_pixel(self) -> int:
        """Memory, in bytes per pixel, of a window that has been read, at most."""

    def read(self, window: Window) -> WindowReading:
        """Read a window."""

    def facts(self) -> dict[str, Any]:
        """Where the uncertainty comes from, in plain words and numbers: recorded in the product."""


@dataclass(frozen=True)
class SceneReading:
    """Values of a scene as they are."""

    block: Block

    @property
    def quality(self) -> Flags:
        """Quality bits, (row, col)."""
        return self.block.quality

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which bands have a value, (band, row, col)."""
        return np.isfinite(self.block.reflectance)

    def parts(self, where: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
        """Any pixels go together."""
        return _chunks(where)

    def pixels(self, where: NDArray[np.intp]) -> Pixels:
        """The values, once."""
        return Pixels(take(self.block.reflectance, where)[None])


@dataclass(frozen=True)
class Exact(OfScene):
    """A scene without any uncertainty of its own; what noise it has is part of the classes' spread."""

    scene: Scene
    realisations: int = 1
    systematic: NDArray[np.float64] | None = None

    @property
    def worlds(self) -> None:
        """None: there is one realisation."""
        return None

    @property
    def bytes_per_pixel(self) -> int:
        """Values, and what reading them takes."""
        return 24 * len(self.bands) + 32

    def read(self, window: Window) -> WindowReading:
        """Read a window."""
        return SceneReading(self.scene.read(window))

    def facts(self) -> dict[str, Any]:
        """Nothing to say but that there is none."""
        return {"source": "none"}


@dataclass(frozen=True)
class NoisyReading(SceneReading):
    """Values of a scene with the noise of each pixel, which is made when it is asked for."""

    uncertainty: Uncertainty

    def pixels(self, where: NDArray[np.intp]) -> Pixels:
        """The values, and their covariances; pixels without a known uncertainty are left out."""
        window, width = self.block.window, self.block.window.width
        top, bottom = int(where[0]) // width, int(where[-1]) // width + 1
        asked = np.zeros((bottom - top) * width, np.bool_)
        asked[where - top * width] = True
        rows = Window(window.row + top, window.col, bottom - top, width)
        here = self.uncertainty.read(rows, self.block.reflectance[:, top:bottom], asked.reshape(-1, width))
        known = here.valid.ravel()[where - top * width]
        planes = take(self.block.reflectance, where[known])[None]
        return Pixels(planes, None, here.covariances, known)


@dataclass(frozen=True)
class Noisy(Exact):
    """A scene whose uncertainty is stated, as `open_uncertainty` gives it.

    `systematic` is the scene's own; `with_common` adds what does not cancel against a model.
    """

    uncertainty: Uncertainty | None = None
    cancelled: tuple[str, ...] = ()  # effects that all scenes have in common, and the model too
    different: tuple[str, ...] = ()  # of those, effects of another size: the difference counts

    @classmethod
    def of(cls, scene: Scene, uncertainty: Uncertainty) -> Noisy:
        """With what the scene's pixels share, once for the whole scene."""
        return cls(scene, 1, uncertainty.systematic, uncertainty)

    def with_common(self, of_model: Mapping[str, CommonEffect]) -> Noisy:
        """With the effects common to all scenes that only one of model and scene has.

        Those that both have cancel, but for the difference of their sizes.
        """
        assert self.uncertainty is not None
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
        assert self.uncertainty is not None
        return NoisyReading(self.scene.read(window), self.uncertainty)

    def facts(self) -> dict[str, Any]:
        """Facts on the effects, and the covariance of the errors that the scene's pixels share."""
        assert self.uncertainty is not None
        shared = None if self.systematic is None else np.asarray(self.systematic).tolist()
        facts = {"source": "stated uncertainty", **self.uncertainty.facts(), "systematic": shared}
        named = {"cancelled": self.cancelled, "cancelled_but_for_size": self.different}
        return facts | {key: list(names) for key, names in named.items() if names}


@dataclass(frozen=True)
class CubeReading:
    """All realisations of a window of a cube."""

    values: NDArray[np.float32]  # (realisation, band, row, col)
    quality: Flags

    @property
    def present(self) -> NDArray[np.bool_]:
        """Bands that have a value in every realisation, (band, row, col)."""
        return np.asarray(np.isfinite(self.values).all(axis=0))

    def parts(self, where: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
        """Any pixels go together."""
        return _chunks(where)

    def pixels(self, where: NDArray[np.intp]) -> Pixels:
        """All realisations."""
        return Pixels(take(self.values, where))


@dataclass(frozen=True)
class UncorrectedReading(SceneReading):
    """Reflectance at the top of the atmosphere: what makes its realisations is the same for each cell."""

    coefficients: NDArray[np.float64]  # (cell, realisation, 3, band)
    cells: NDArray[np.intp]  # number of the cell of each pixel

    @classmethod
    def of(cls, block: Block, source: RealisedScene) -> UncorrectedReading:
        """With the cells of the block, and how each is corrected."""
        cells, window = list(source.cells(block.window)), block.window
        numbers = np.empty(window.shape, np.intp)
        for number, cell in enumerate(cells):
            numbers[cell.shifted(-window.row, -window.col).slices] = number
        return cls(block, source.coefficients(cells), numbers.ravel())

    def parts(self, where: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
        """Pixels of one cell go together."""
        here = self.cells[where]
        for number in range(len(self.coefficients)):
            yield from _chunks(where[here == number])

    def pixels(self, where: NDArray[np.intp]) -> Pixels:
        """Measured values, and the coefficients of their correction in each world."""
        coefficients = self.coefficients[self.cells[where[0]]]
        return Pixels(take(self.block.reflectance, where)[None], coefficients)


@dataclass(frozen=True)
class Stored:
    """Realisations that were stored before, as a cube."""

    cube: Cube
    systematic: NDArray[np.float64] | None = None
    choice: tuple[int, ...] | None = None  # places of the bands in the cube; all by default

    def __post_init__(self) -> None:
        _check_weights(self.identity, self.cube.coordinates.get("weight"))

    @property
    def identity(self) -> str:
        """Identity of the scene that the cube was made of."""
        return self.cube.identity

    @property
    def source_id(self) -> str:
        """Identity of the scene that the cube was made of."""
        return self.cube.source_id

    @property
    def bands(self) -> tuple[str, ...]:
        """Bands of the cube, or those chosen."""
        return tuple(self.cube.bands[i] for i in self._choice)

    @property
    def _choice(self) -> tuple[int, ...]:
        return tuple(range(len(self.cube.bands))) if self.choice is None else self.choice

    @property
    def grid(self) -> Grid:
        """Grid of the cube."""
        return self.cube.grid

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
        whole = self._choice == tuple(range(len(self.cube.bands)))
        return CubeReading(block.values if whole else block.values[:, list(self._choice)], block.quality)

    def facts(self) -> dict[str, Any]:
        """The realisations and what the cube says of them."""
        worlds = {name: np.asarray(v).tolist() for name, v in self.cube.coordinates.items()}
        return {"source": "cube", "realisations": self.realisations, **worlds, **dict(self.cube.attributes)}


@dataclass(frozen=True)
class Realised(OfScene):
    """A scene seen through an uncertain atmosphere: its worlds are made as a window is read, and not kept.

    The numbers are those that `uncover fit` trains on, and that a cube of the scene holds.
    """

    source: RealisedScene
    description: Mapping[str, Any] = field(default_factory=dict)
    systematic: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        _check_weights(self.identity, self.source.draws.weights)

    @property
    def scene(self) -> Scene:
        """The scene itself."""
        return self.source.scene

    @property
    def features(self) -> Features:
        """Features of the realisations."""
        return self.source.features

    @property
    def realisations(self) -> int:
        """Number of drawn optical depths."""
        return len(self.source.draws.values)

    @property
    def worlds(self) -> Mapping[str, Any]:
        """Drawn optical depths."""
        return self.source.worlds

    @property
    def bytes_per_pixel(self) -> int:
        """Values that were measured; where they are not corrected in machine code, in all worlds."""
        worlds = 0 if self.source.direct else 4 * self.realisations
        return (worlds + 24) * len(self.bands) + 32

    def read(self, window: Window) -> WindowReading:
        """Read a window; its worlds are made pixel by pixel as they are classified, if that can be."""
        if self.source.direct:
            return UncorrectedReading.of(self.scene.read(window), self.source)
        block = self.source.read(window)
        return CubeReading(block.values, block.quality)

    def facts(self) -> dict[str, Any]:
        """The worlds, and the correction that makes them."""
        layout = self.source.layout
        return {
            "source": "aerosol optical depth",
            **dict(self.description),
            **dict(layout.attributes),
            "worlds": self.source.draws.values.tolist(),
        }


def _check_weights(identity: str, weights: NDArray[Any] | None) -> None:
    if weights is not None and np.ptp(weights) > 1e-9 * np.max(weights):
        raise SceneError(
            f"the realisations of {identity} have unequal weights, and a map counts them equally; "
            "draw them by mc or quantile"
        )


def _chunks(where: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    """Pieces of a bounded number of pixels."""
    return (where[start : start + CHUNK] for start in range(0, len(where), CHUNK))


def probe(evidence: Evidence, windows: int = 3, size: int = 64) -> Values:
    """A few complete pixels from all over the scene, (pixel, band); of the first realisation."""
    found: list[Values] = []
    for window in evidence.grid.spots(size, windows):
        reading = evidence.read(window)
        incomplete = np.uint16(Quality.NODATA | Quality.PARTIAL)
        where = np.flatnonzero((reading.quality & incomplete).ravel() == 0)
        if len(where):
            found.extend(reading.pixels(part).realised()[0].T for part in reading.parts(where))
    return np.concatenate(found) if found else np.empty((0, len(evidence.bands)))
