"""Scenes of several dates as one: features of each date on one grid, clouded dates left out of a pixel."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from uncover.measurement.dates import feature_name
from uncover.measurement.features import Features, common_features
from uncover.measurement.formulas import Formula
from uncover.raster.align import check_overlap
from uncover.raster.cube import CubeBlock
from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window, finest_grid
from uncover.raster.layers import Flags, Mask
from uncover.raster.quality import CLEAR, FLAGGED, Quality, without
from uncover.raster.realised import RealisedScene
from uncover.raster.scene import Block, Scene
from uncover.raster.tiles import TileCache

Array = NDArray[np.float64]

#: Bytes of the values of one block that trains a model.
_BLOCK_BYTES = 64 * 1024 * 1024
#: Quality bits of one date that say that it has no value.
_NOTHING = Quality.NODATA | Quality.MASKED


@dataclass(frozen=True)
class SceneSeries:
    """One scene made of several dates, or of one with computed features; read as a scene is.

    The features of a date are missing (NaN) where it has no value, and where its masks show no land. A pixel
    without any date has the bit NO_CLEAR_DATE and those of its clouds; one that lacks some has PARTIAL alone.

    Attributes
    ----------
    parts : scene of each date, on one grid; None for a date of the model of which no scene came
    dates : names of the dates, in order of time; one empty name for a scene without a date
    formulas : features of each date
    masked : bits that make a date of a pixel missing
    whole : whether a date that lacks one band is left out; else its other bands count
    name : the user's own, for all of them

    Examples
    --------
    >>> from uncover.raster import scene_from_array
    >>> place = Grid("EPSG:32633", (10, 0, 300000, 0, -10, 5000000), width=2, height=1)
    >>> june = scene_from_array(np.array([[[0.1, 0.2]]]), place, ("B04",), identity="june")
    >>> cloud = np.array([[0, Quality.CLOUD]], np.uint16)
    >>> may = scene_from_array(np.array([[[0.3, 0.4]]]), place, ("B04",), quality=cloud, identity="may")
    >>> series = SceneSeries((may, june), ("2024-05", "2024-06"), (Formula("B04"),))
    >>> print(series.bands, series.read().reflectance[:, 0])
    ('2024-05:B04', '2024-06:B04') [[0.3 nan]
     [0.1 0.2]]
    """

    parts: tuple[Scene | None, ...]
    dates: tuple[str, ...]
    formulas: tuple[Formula, ...]
    masked: Quality = FLAGGED
    whole: bool = True
    name: str | None = None  # the user's own, for all of them

    @property
    def scenes(self) -> tuple[Scene, ...]:
        """Scenes that came."""
        return tuple(part for part in self.parts if part is not None)

    @property
    def single(self) -> bool:
        """True for one scene without a date: its quality bits are its own."""
        return self.dates == ("",)

    @property
    def identity(self) -> str:
        """Name: the user's, that of the only scene, or number and dates of the scenes."""
        if self.name is not None or self.single:
            return self.name or self.scenes[0].identity
        return f"{len(self.scenes)} dates {self.date}"

    @property
    def source_id(self) -> str:
        """Identities of the scenes, of which no other series has the same."""
        return self.name or " + ".join(sorted(scene.source_id for scene in self.scenes))

    @cached_property
    def bands(self) -> tuple[str, ...]:
        """Features, date by date: 2024-06-03:B04."""
        return tuple(feature_name(when, each.name) for when in self.dates for each in self.formulas)

    @property
    def grid(self) -> Grid:
        """Grid that all of them lie on."""
        return self.scenes[0].grid

    @property
    def product_grid(self) -> Grid:
        """Grid of the finest band of the first scene, as it is stored."""
        return self.scenes[0].product_grid

    @property
    def level(self) -> str | None:
        """Processing level of the first scene."""
        return self.scenes[0].level

    @property
    def cache(self) -> TileCache:
        """Decoded tiles of all scenes."""
        return self.scenes[0].cache

    @property
    def masks(self) -> tuple[Mask, ...]:
        """Masks of the scenes; none where one of them has none, whose clouds are not known."""
        each = [scene.masks for scene in self.scenes]
        return tuple(mask for masks in each for mask in masks) if all(each) else ()

    @property
    def calibrated_by(self) -> str:
        """Who states scale and offset of the numbers, where it is one."""
        stated = {scene.calibrated_by for scene in self.scenes}
        return stated.pop() if len(stated) == 1 else "metadata"

    @property
    def sensing_time(self) -> datetime | None:
        """Time of the only scene."""
        return self.scenes[0].sensing_time if self.single else None

    @property
    def date(self) -> str | None:
        """First and last day, as an interval."""
        if self.single:
            return self.scenes[0].date
        days = sorted(day_of(scene) for scene in self.scenes)
        return days[0] if len(days) == 1 else f"{days[0]}/{days[-1]}"

    @cached_property
    def features(self) -> Features:
        """Kind of the values, which is that of all scenes."""
        kind = common_features({scene.identity: scene.features for scene in self.scenes})
        computed = any(not formula.is_band for formula in self.formulas) or not kind.scales
        terms = ((), ()) if computed else (kind.scales * len(self.dates), kind.offsets * len(self.dates))
        return replace(kind, bands=self.bands, scales=terms[0], offsets=terms[1])

    def facts(self) -> dict[str, Any]:
        """The scenes in plain numbers and words, for the fingerprint of a run."""
        scenes = [None if part is None else part.facts() for part in self.parts]
        return {"dates": self.dates, "features": [asdict(f) for f in self.formulas], "scenes": scenes}

    def date_records(self) -> list[dict[str, Any]]:
        """Each date with its scene, for the record of a model or map; none for a scene without a date."""
        if self.single:
            return []
        parts = zip(self.dates, self.parts, strict=True)
        return [
            {
                "date": when,
                "scene": None if p is None else p.identity,
                "day": None if p is None else day_of(p),
            }
            for when, p in parts
        ]

    def blocks(self) -> Iterator[Window]:
        """Windows to read one after the other."""
        return self.grid.blocks(self._side)

    @property
    def _side(self) -> int:
        pixels = _BLOCK_BYTES / (4 * len(self.bands))
        return int(np.clip(2 ** int(np.log2(pixels) / 2), 64, 1024))

    @property
    def bytes_per_pixel(self) -> int:
        """Memory of a window that is read: the features, and one date on its way."""
        return 4 * len(self.bands) + 32 * len(self.formulas) + 32

    # ---- reading -------------------------------------------------------------------------------------

    def read(self, window: Window | None = None) -> Block:
        """Features and quality bits of a window; the numbers of a pixel do not depend on the window."""
        window = self.grid.window if window is None else window
        values = np.empty((len(self.bands), *window.shape), np.float32)
        as_stored = all(formula.stored for formula in self.formulas)

        def planes(part: Scene, out: NDArray[np.float32]) -> Flags:
            plain = as_stored and part.bands == tuple(formula.name for formula in self.formulas)
            block = part.read(window, out if plain else None)
            if not plain:
                compute(self.formulas, part.bands, block.reflectance, out)
            return block.quality

        return Block(window, self.bands, values, self._stacked(values, self.parts, planes))

    def _stacked(
        self, values: NDArray[np.float32], parts: Sequence[Any], read: Callable[[Any, Any], Flags]
    ) -> Flags:
        """Fill features (..., feature, row, col) date by date with `read`, and return quality bits."""
        shape, size = values.shape[-2:], len(self.formulas)
        here, left_out = np.zeros((2, *shape), np.uint16)  # bits of clear dates, and of all
        clear, nowhere, lacking = np.zeros((3, *shape), np.bool_)
        nowhere[:] = True
        computed = [i for i, formula in enumerate(self.formulas) if not formula.is_band]
        for i, part in enumerate(parts):
            mine = values[..., i * size : (i + 1) * size, :, :]
            if part is None:
                mine[...], lacking[:] = np.nan, True
                continue
            quality = read(part, mine)
            if self.single:
                known = np.isfinite(mine).reshape(-1, *shape).all(axis=0)
                partial = without(quality, Quality.NODATA) & ~known
                return quality | np.where(partial, np.uint16(Quality.PARTIAL), np.uint16(0))
            usable = without(quality, _NOTHING | self.masked | (Quality.PARTIAL if self.whole else CLEAR))
            if self.whole and computed:
                usable &= np.isfinite(mine[..., computed, :, :]).reshape(-1, *shape).all(axis=0)
            elif not self.whole:
                known = np.isfinite(mine).reshape(-1, *shape)
                usable &= known.any(axis=0)
                lacking |= ~known.all(axis=0)
            gap = ~usable
            np.copyto(mine, np.nan, where=gap)
            lacking |= gap
            clear |= usable
            nowhere &= ~without(quality, Quality.NODATA)
            here |= np.where(usable, quality, np.uint16(0))
            left_out |= quality
        out = np.where(clear, here, left_out) & ~np.uint16(Quality.NODATA | Quality.PARTIAL)
        out[~clear] |= np.uint16(Quality.NO_CLEAR_DATE)
        out[nowhere] = np.uint16(Quality.NODATA)
        out[clear & lacking] |= np.uint16(Quality.PARTIAL)
        return out

    @property
    def together(self) -> int:
        """Number of successive features that a pixel lacks together, if it lacks any of them."""
        return len(self.formulas) if self.whole and not self.single else 1

    def crop(self, window: Window) -> Self:
        """The same series on a window of its grid."""
        return replace(self, parts=tuple(None if p is None else p.crop(window) for p in self.parts))

    def pictured(self) -> Scene | None:
        """A scene that shows the whole place, for a picture."""
        west, south, east, north = self.grid.bounds
        for scene in self.scenes:
            w, s, e, n = scene.product_grid.bounds
            if w <= west and s <= south and e >= east and n >= north:
                return scene
        return None


def compute(
    formulas: Sequence[Formula],
    bands: Sequence[str],
    values: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Features (..., feature, row, col) from bands (..., band, row, col)."""
    named = {band: values[..., i, :, :] for i, band in enumerate(bands)}
    for i, formula in enumerate(formulas):
        out[..., i, :, :] = formula.values(named)


def day_of(scene: Scene) -> str:
    """Day, or the first one that a stated month or interval has."""
    if scene.sensing_time is not None:
        return scene.sensing_time.date().isoformat()
    match = re.match(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?", scene.date or "")
    if match is None:
        raise SceneError(
            f"scene {scene.identity} does not say when it was measured, which the dates of a series need; "
            "name its file with its day (…_2024-06-03.tif), or write date in a scene.toml beside it"
        )
    return "-".join([match.group(1), match.group(2) or "01", match.group(3) or "01"])


def aligned(scenes: Sequence[tuple[str, Scene]], cache: TileCache) -> list[Scene]:
    """Scenes, each with the name of its source, on one grid: the finest, and of equals the first one's."""
    grid = finest_grid([scene.grid for _, scene in scenes])
    home = next(name for name, scene in scenes if scene.grid == grid)
    found = []
    for name, scene in scenes:
        check_overlap(name, grid, scene.grid, "scenes", home)
        if not grid.aligned_with(scene.grid):
            raise SceneError(
                f"{name} lies on another grid than {home} (its CRS {scene.grid.crs}, needed {grid.crs}, same "
                "orientation); warp it first"
            )
        found.append(replace(scene, grid=grid, cache=cache))
    return found


@dataclass(frozen=True)
class RealisedSeries(SceneSeries):
    """A series in many worlds: each date with draws of its own, which all of its pixels share."""

    realised: tuple[RealisedScene | None, ...] = ()

    @classmethod
    def of(cls, series: SceneSeries, realise: Callable[[Scene], RealisedScene]) -> RealisedSeries:
        """Realise each date on its own."""
        made = tuple(None if part is None else realise(part) for part in series.parts)
        parts = tuple(None if each is None else each.scene for each in made)
        given = {name: getattr(series, name) for name in SceneSeries.__dataclass_fields__}
        return cls(**(given | {"parts": parts, "realised": made}))

    @property
    def scene(self) -> SceneSeries:
        """The series as it was measured."""
        return SceneSeries(*(getattr(self, name) for name in SceneSeries.__dataclass_fields__))

    @property
    def _some(self) -> list[RealisedScene]:
        return [each for each in self.realised if each is not None]

    @property
    def realisations(self) -> int:
        """Number of worlds."""
        return self._some[0].realisations

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weights of the worlds."""
        return self._some[0].weights

    @property
    def is_uncertain(self) -> bool:
        """True where the drawn quantity of any date is uncertain."""
        return any(each.is_uncertain for each in self._some)

    @property
    def quantities(self) -> tuple[Mapping[str, Any], ...]:
        """What each date's draws are of, with its date."""
        pairs = zip(self.dates, self.realised, strict=True)
        return tuple(
            {**quantity, "name": f"{quantity['name']}, {when}" if when else quantity["name"]}
            for when, each in pairs
            if each is not None
            for quantity in each.quantities
        )

    @property
    def worlds(self) -> dict[str, list[float]]:
        """Draws of each date, in the order of the worlds."""
        pairs = zip(self.dates, self.realised, strict=True)
        return {
            f"{name} {when}".strip(): values
            for when, each in pairs
            if each is not None
            for name, values in each.worlds.items()
        }

    def world_facts(self) -> dict[str, Any]:
        """The correction of each date and its worlds."""
        pairs = zip(self.dates, self.realised, strict=True)
        return {"dates": {when: each.world_facts() for when, each in pairs if each is not None}}

    @cached_property
    def features(self) -> Features:
        """Surface reflectance, and what is computed from it."""
        kind = common_features({each.identity: each.features for each in self._some})
        terms = super().features
        return replace(kind, bands=self.bands, scales=terms.scales, offsets=terms.offsets)

    @property
    def _side(self) -> int:
        pixels = _BLOCK_BYTES / (4 * len(self.bands) * self.realisations)
        return int(np.clip(2 ** int(np.log2(max(pixels, 1)) / 2), 16, 1024))

    @property
    def bytes_per_pixel(self) -> int:
        """Values as they were measured; else all worlds, and those of one date twice on their way."""
        if self.direct:
            return super().bytes_per_pixel
        return 4 * self.realisations * (len(self.bands) + 4 * len(self.formulas)) + 32

    def read(self, window: Window | None = None) -> CubeBlock:  # type: ignore[override]
        """All realisations of a window."""
        window = self.grid.window if window is None else window
        values = np.empty((self.realisations, len(self.bands), *window.shape), np.float32)

        def planes(part: RealisedScene, out: NDArray[np.float32]) -> Flags:
            block = part.read(window)
            compute(self.formulas, part.bands, block.values, out)
            return block.quality

        return CubeBlock(window, values, self._stacked(values, self.realised, planes))

    @property
    def direct(self) -> bool:
        """True where worlds follow from measured values band by band, the same way in a whole cell."""
        return all(each.direct for each in self._some) and all(each.is_band for each in self.formulas)

    def correction(self, window: Window) -> tuple[Array, NDArray[np.intp]]:
        """Coefficients of cells (cell, realisation, 3, feature), and the cell of each pixel of a window."""
        parts = [None if each is None else each.correction(window) for each in self.realised]
        known = [part for part in parts if part is not None]
        cells, which = np.unique(np.stack([cell for _, cell in known]), axis=1, return_inverse=True)
        found, rows = [], iter(cells)
        size = len(self.formulas)
        nothing = np.broadcast_to([[0.0], [1.0], [0.0]], (cells.shape[1], self.realisations, 3, size))
        for part, scene in zip(parts, self.parts, strict=True):
            if part is None or scene is None:
                found.append(nothing)  # of a missing value it does not matter
                continue
            at = [scene.bands.index(formula.bands[0]) for formula in self.formulas]
            found.append(part[0][next(rows)][..., at])
        return np.concatenate(found, axis=-1), which.ravel()
