"""A scene in many worlds: corrected at every drawn state, window by window, never stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.atmosphere import Geometry, LookupTable, State, recorrect
from uncover.atmosphere.lookup_table import AEROSOL_MODELS
from uncover.measurement import Draws
from uncover.measurement.features import EMBEDDED, Features
from uncover.measurement.quantity import EFFECTS, Choice, effects_of
from uncover.measurement.radiometry import Radiometry
from uncover.raster.align import align_raster
from uncover.raster.cube import CubeBlock, CubeLayout, time_text
from uncover.raster.errors import SceneError
from uncover.raster.grid import Window
from uncover.raster.scene import Block, OfRaster, Scene

#: Pixels of the product's own grid, along and across, that share one set of angles: 1.28 km at 10 m, in which
#: sun and view change by less than 0.1 degrees.
CELL = 128
#: Metres: the table reaches down to the first, and no land is as high as the second.
LOWEST_GROUND, HIGHEST_GROUND = -500.0, 9000.0
_ROWS = 16  # of cells, as many as two rows of blocks have
_ANGLES = tuple(Geometry.__dataclass_fields__)
#: Draws that are fields of `State`, and those that have another name there.
_OF_STATE = {"water_vapour": "water_vapour", "ozone": "ozone", "height": "height", "aerosol_model": "aerosol"}


@dataclass(frozen=True)
class RealisedScene(OfRaster):
    """Scene in many realisations, as `Scene` is one in a single measurement.

    L1C scenes are corrected at the drawn states; L2A scenes are taken back to the top of the atmosphere at
    their own state first (at each pixel's own optical depth, where the product has an AOT band). The numbers
    of a pixel do not depend on the window that it is read with.

    draws
        Of the optical depth; those of other effects are in ``others``, by name: fields of `State`, and errors
        of the sensor in standard units, which ``signal`` is made of.
    aod
        Of an L2A product the depth at which it was corrected; else the estimate that the draws are of.
    """

    scene: Scene
    table: LookupTable
    draws: Draws
    aod: float
    water_vapour: float
    ozone: float
    others: Mapping[str, Draws] = field(default_factory=dict)
    signal: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None  # (realisation, band) each
    radiometry: Radiometry | None = None  # of the sensor, where its errors are drawn
    misplaced: float | None = None  # metres: standard uncertainty of where pixels lie, if it is counted
    altitude: float = 0.0  # km, where there is no elevation model
    dem: str | None = None  # raster of heights in metres; each cell takes its mean
    quantities: tuple[Mapping[str, Any], ...] = ()  # record of what the draws are of

    def __post_init__(self) -> None:
        if self.scene.level is None:
            raise SceneError(
                f"scene {self.identity} does not say whether it is L1C (top of atmosphere) or L2A (surface); "
                "give --level L1C or --level L2A"
            )
        if self.scene.angle_grids is None:
            raise SceneError(
                f"scene {self.identity} has no sun and view angles; give --angles SUN VIEW RELATIVE"
            )

    @property
    def raster(self) -> Scene:
        """The scene."""
        return self.scene

    @property
    def worlds(self) -> dict[str, list[float]]:
        """Draws of each effect, in the order of the realisations."""
        return {name: draws.values.tolist() for name, draws in self._drawn.items()}

    @property
    def _drawn(self) -> dict[str, Draws]:
        return {"aod": self.draws, **self.others}

    @property
    def effect_scores(self) -> dict[str, NDArray[np.float64]]:
        """Draws of each effect in standard units, and of kinds which it is: (realisation, quantity)."""
        each = {
            name: (draws.values[:, None] == np.unique(draws.values)[1:]) * 1.0
            if isinstance(draws.quantity, Choice)
            else draws.scores
            for name, draws in self._drawn.items()
        }
        found = {
            effect: [scores for name in names if (scores := each.get(name)) is not None]
            for effect, names in EFFECTS.items()
        }
        drawn = set(effects_of(self.worlds))
        return {effect: np.column_stack(z) for effect, z in found.items() if effect in drawn}

    def alone(self, effect: str) -> RealisedScene:
        """The same worlds with the draws of one effect; all else is at its estimate."""
        own = self.draws
        if effect != "aod" and own.quantity is not None:
            known = replace(own.quantity, standard_uncertainty=0.0)
            own = replace(own, values=np.full(self.realisations, known.estimate), quantity=known)
        others = {name: draws for name, draws in self.others.items() if name in EFFECTS[effect]}
        return replace(self, draws=own, others=others, signal=self.signal if effect == "radiometry" else None)

    def covariance_of(self, effect: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Covariance of the error of one effect, from values (realisation, band) in its worlds.

        What is linear in Gaussian scores has the variance of the distribution, not that of the few draws.
        """
        z, deviation = self.effect_scores[effect], values - values.mean(axis=0)
        z = z - z.mean(axis=0)
        slope = np.linalg.pinv(z) @ deviation
        kinds = any(isinstance(self._drawn[name].quantity, Choice) for name in EFFECTS[effect])
        spread = z.T @ z / (len(z) - 1) if kinds else np.eye(z.shape[1])
        left = deviation - z @ slope
        return np.asarray(slope.T @ spread @ slope + left.T @ left / max(len(z) - 1 - z.shape[1], 1))

    @property
    def realisations(self) -> int:
        """Number of worlds."""
        return len(self.draws.values)

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weights of the worlds."""
        return self.draws.weights

    @property
    def is_uncertain(self) -> bool:
        """True where any drawn quantity is uncertain."""
        drawn = [each.quantity for each in self._drawn.values()]
        return any(each is not None and each.standard_uncertainty > 0 for each in drawn)

    @property
    def bytes_per_pixel(self) -> int:
        """Memory of a window: values that were measured; where machine code does not correct, all worlds."""
        return self.scene.bytes_per_pixel + (0 if self.direct else 4 * self.realisations * len(self.bands))

    def world_facts(self) -> dict[str, Any]:
        """The correction, and the worlds."""
        others = {name: draws.values.tolist() for name, draws in self.others.items()}
        facts = {**dict(self.layout.attributes), "worlds": self.draws.values.tolist()}
        return {**facts, **({"other_effects": others} if others else {})}

    @property
    def layout(self) -> CubeLayout:
        """The cube that holds the same numbers."""
        return CubeLayout(
            self.grid,
            self.bands,
            realisations=len(self.draws.values),
            identity=self.source_id,
            coordinates={
                **{name: draws.values for name, draws in self._drawn.items()},
                "weight": self.draws.weights,
            },
            attributes={
                "correction": EMBEDDED,
                "aerosol_model": self.table.aerosol_model,
                **({"aerosol_models": list(AEROSOL_MODELS)} if "aerosol_model" in self.others else {}),
                "spectral_response": self.table.response,
                "aod_estimate": self.draws.mean
                if self.draws.quantity is None
                else self.draws.quantity.estimate,
                **({"product_aod": self.aod} if self.scene.level == "L2A" else {}),
                "water_vapour_cm": self.water_vapour,
                "ozone_du": self.ozone,
                "altitude_km": "elevation model" if self.dem else self.altitude,
                "level": self.scene.level,
                **({"quantities": [dict(each) for each in self.quantities]} if self.quantities else {}),
                "features": self.features.as_dict(),
                "sensing_time": time_text(self.scene.sensing_time),
            },
        )

    @property
    def features(self) -> Features:
        """Surface reflectance; an L2A product keeps its own correction, which is redone at other depths."""
        own = self.scene.features
        return own.corrected(EMBEDDED) if self.scene.level == "L1C" else own

    def blocks(self) -> Iterator[Window]:
        """The windows of the cube's chunks: what is read on the fly is read in the same order as from it."""
        return iter(self.layout.blocks())

    def read(self, window: Window | None = None) -> CubeBlock:
        """All realisations of a window."""
        window = self.grid.window if window is None else window
        block = self.scene.read(window)
        values = np.empty((len(self.draws.values), *block.reflectance.shape), np.float32)
        depths = self._depths(window)
        for cell in self.cells(window):
            inside = cell.shifted(-window.row, -window.col).slices
            here = None if depths is None else depths[inside]
            values[(slice(None), slice(None), *inside)] = self._realise(block, cell, inside, here)
        return CubeBlock(window, values, block.quality)

    def _realise(
        self, block: Block, cell: Window, inside: tuple[slice, slice], depths: NDArray[np.float64] | None
    ) -> NDArray[np.float32]:
        reflectance = np.ascontiguousarray(block.reflectance[(slice(None), *inside)])
        place = self._cell_of(cell)
        drawn, geometry = self._drawn_state, self._geometry(place[0], place[1:])
        geometry = Geometry(*(np.asarray(getattr(geometry, name)).item() for name in _ANGLES))
        if self.scene.level == "L1C":
            return self.table.correct(reflectance, drawn, geometry, band_axis=0)
        product = self.product_state
        return recorrect(
            self.table,
            reflectance,
            product,
            drawn,
            geometry,
            aod_map=depths,
            worlds_at=None if self.draws.quantity is None else self._worlds_at,
            band_axis=0,
        ).astype(np.float32, copy=False)

    def _worlds_at(self, depth: float) -> NDArray[np.float64]:
        """Drawn optical depths of a pixel whose own, in the product, is `depth`."""
        assert self.draws.quantity is not None
        return self.draws.around(depth + self.draws.quantity.estimate - self.aod)

    @property
    def product_state(self) -> State:
        """The estimates; of an L2A product, the state at which it was corrected."""
        return State(self.aod, self.water_vapour, self.ozone)

    @property
    def middle(self) -> Geometry:
        """Angles in the middle of the scene, and the altitude there."""
        row, col = self._cell_of(Window(self.grid.height // 2, self.grid.width // 2, 1, 1))
        found = self._geometry(row, (col,))
        return Geometry(*(np.asarray(getattr(found, name)).item() for name in _ANGLES))

    @property
    def _drawn_state(self) -> State:
        drawn = {name: self.others[own].values for own, name in _OF_STATE.items() if own in self.others}
        estimates = {"water_vapour": self.water_vapour, "ozone": self.ozone}
        return State(self.draws.values, **(estimates | drawn), signal=self.signal)

    def _cell_of(self, window: Window) -> tuple[int, int]:
        """Row and column of the cell of the product's grid in which a window begins."""
        return (window.row + self._offset[0]) // CELL, (window.col + self._offset[1]) // CELL

    def _geometry(self, row: int, cols: Sequence[int]) -> Geometry:
        """Angles in the middle of cells of one row, or as near to it as the scene reaches: (cell,)."""
        assert self.scene.angle_grids is not None
        down = min(max(row * CELL - self._offset[0] + CELL // 2, 0), self.grid.height - 1)
        across = np.array(cols) * CELL - self._offset[1] + CELL // 2
        across = np.clip(across, 0, self.grid.width - 1) + 0.5
        a, b, c, d, e, f = self.grid.transform
        x, y = a * across + b * (down + 0.5) + c, d * across + e * (down + 0.5) + f
        angles = self.scene.angle_grids.at(x, y)
        heights = self.altitude if self.dem is None else np.array([self._height(row, col) for col in cols])
        return Geometry(angles.sun_zenith, angles.view_zenith, angles.relative_azimuth, heights)

    def _height(self, row: int, col: int) -> float:
        """Mean height of a cell in km: of the whole cell of the product, however the scene is cut."""
        product = self.scene.product_grid
        whole = Window(row * CELL, col * CELL, CELL, CELL) & product.window
        found = align_raster(str(self.dem), product, whole)
        if not found.valid.any():
            raise SceneError(
                f"{self.dem} has no height at rows {whole.row}-{whole.row + whole.height}, columns "
                f"{whole.col}-{whole.col + whole.width} of scene {self.identity}; "
                "give a raster in metres that covers it"
            )
        heights = found.values[found.valid]
        lowest, highest = float(heights.min()), float(heights.max())
        if lowest < LOWEST_GROUND or highest > HIGHEST_GROUND:
            raise SceneError(
                f"{self.dem} has heights from {lowest:g} to {highest:g} on scene {self.identity}; metres "
                f"from {LOWEST_GROUND:g} to {HIGHEST_GROUND:g} are needed: set the nodata of its voids, "
                "convert feet to metres"
            )
        return float(heights.mean(dtype=np.float64)) / 1000.0

    def _depths(self, window: Window) -> NDArray[np.float64] | None:
        """The AOT band of an L2A product, the estimate where it has no value."""
        depths = self.scene.aot(window) if self.scene.level == "L2A" else None
        return None if depths is None else np.where(np.isfinite(depths), depths, self.aod)

    @property
    def _offset(self) -> tuple[int, int]:
        """Row and column of the scene in its product, so that a crop has the cells of the whole."""
        return self.grid.offset_in(self.scene.product_grid)

    @property
    def direct(self) -> bool:
        """True where a realisation follows from the measured value alone, the same way in a whole cell."""
        return self.scene.level == "L1C"

    def correction(self, window: Window) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Coefficients of the cells of a window, and the cell of each pixel, counted row by row."""
        cells, numbers = list(self.cells(window)), np.empty(window.shape, np.intp)
        for number, cell in enumerate(cells):
            numbers[cell.shifted(-window.row, -window.col).slices] = number
        return self.coefficients(cells), numbers.ravel()

    def coefficients(self, cells: Sequence[Window]) -> NDArray[np.float64]:
        """Correction of cells in each world: path, slope, albedo (cell, realisation, 3, band)."""
        first = self._offset[1] // CELL
        places = [self._cell_of(cell) for cell in cells]
        return np.stack([self._rows_of_cells(row)[col - first] for row, col in places])

    def estimated(self, cell: Window) -> NDArray[np.float64]:
        """Correction of a cell at the mean of the draws and the measured signal: (3, band)."""
        row, col = self._cell_of(cell)
        return np.asarray(self._rows_of_cells(row, True)[col - self._offset[1] // CELL, 0])

    @cached_property
    def _rows_of_cells(self) -> Callable[..., NDArray[np.float64]]:
        """The same for a whole row of cells, which takes hardly longer than for one; the last are kept."""
        return lru_cache(maxsize=2 * _ROWS)(self._row_of_cells)

    def _row_of_cells(self, row: int, estimated: bool = False) -> NDArray[np.float64]:
        last = (self._offset[1] + self.grid.width - 1) // CELL
        geometry = self._geometry(row, range(self._offset[1] // CELL, last + 1))
        middle = State(self.draws.mean, self.water_vapour, self.ozone)
        found = self.table.coefficients(middle if estimated else self._drawn_state, geometry)
        parts = np.broadcast_arrays(found.path, found.slope, found.albedo)
        return np.ascontiguousarray(np.transpose(np.stack(parts), (3, 1, 0, 2)))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_rows_of_cells"}

    def cells(self, window: Window) -> Iterator[Window]:
        """The parts of a window that share their angles."""
        return window.cut((CELL, CELL), (-self._offset[0], -self._offset[1]))
