"""A finished map together with the model and the scene that made it, to ask what the layers do not say."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.files import reader
from uncover.measurement.class_shares import log_share_covariance
from uncover.models.files import load_fitted
from uncover.models.gaussian import KNOWN_SHARES
from uncover.models.record import ModelRecord
from uncover.pipeline.contents import Contents, reopen
from uncover.pipeline.map_product import MapProduct
from uncover.pipeline.scene_sources import source_options
from uncover.raster.classification import make_mapper
from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window
from uncover.raster.mapper import Mapper, Reader
from uncover.raster.resample import read_nearest
from uncover.raster.tiles import TileCache


@dataclass(frozen=True)
class MappedScene:
    """A map, and the mapper that made it: pixels can be read again, in worlds and by drawn models.

    Classes are in the order of the planes of the map, which is that of their codes.
    """

    folder: Path
    product: MapProduct
    mapper: Mapper
    properties: Mapping[str, Any]  # of the map's item

    @classmethod
    @reader
    def open(cls, folder: str | Path) -> MappedScene:
        """Open a map with its model and its scene, or say in one line what is lost."""
        product, contents = MapProduct.open(folder), Contents.of(folder)
        if contents.model is None:
            raise SceneError(
                f"{folder} holds no model.uncover, which the map was made by; make the map again"
            )
        model, properties = load_fitted(contents.model), contents.item()["properties"]
        observed, why = reopen(contents, model, product.grid, other_grid=True)
        if observed is None:
            raise SceneError(
                f"the scene of {folder} is needed, whose pixels are read in worlds and by drawn models; {why}"
            )
        model = _with_shares(model, properties.get("uncover:class_shares"))
        options = source_options(contents.run()["source"])
        given = {name: properties[f"uncover:{name}"] for name in ("missing", "method")}
        how = Reader(**given, masked=options.mask_classes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the map's run has said them
            mapper = make_mapper(model, observed, bool(properties["uncover:paired"]), how)
        return cls(Path(folder), product, mapper, properties)

    def draw(self, window: Window, wanted: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """`Mapper.draw` of wanted pixels (row, col) of a window of the map, which may have its own grid."""
        scene = self.mapper.product.grid
        if scene == self.product.grid:
            return self.mapper.draw(window, wanted)
        found, inside = read_nearest(_Numbers(scene), self.product.grid, window, TileCache(0))
        asked = np.flatnonzero(wanted & inside)
        numbers = found[0].ravel()[asked]
        rows, cols = np.divmod(numbers, scene.width)
        if not len(rows):
            return asked, np.empty((self.mapper.product.drawn, 0, self.mapper.product.classes))
        top, left = int(rows.min()), int(cols.min())
        there = Window(top, left, int(rows.max()) + 1 - top, int(cols.max()) + 1 - left)
        mask = np.zeros(there.shape, np.bool_)
        mask[rows - top, cols - left] = True
        places, drawn = self.mapper.draw(there, mask)
        at = np.full(there.pixels, -1)
        at[places] = np.arange(len(places))
        mine = at[(rows - top) * there.width + cols - left]
        return asked[mine >= 0], drawn[:, mine[mine >= 0]]

    @property
    def order(self) -> list[int]:
        """Places of the model's classes in the order of the planes."""
        return self.mapper.product.by_code

    @property
    def worlds(self) -> int:
        """Worlds that pixels are read in; 0 where no shared error of the measurement is known."""
        return self.mapper.common.n_worlds

    @cached_property
    def log_share_covariance(self) -> NDArray[np.float64]:
        """Covariance of the logarithms of the class shares of the map: (class, class), in the map's order."""
        known = self.properties.get("uncover:class_shares", {})
        names = [str(name) for name in self.mapper.model.classes_]
        if (errors := known.get("standard_uncertainty")) is not None:
            relative = [errors[name] / max(known["shares"][name], errors[name]) for name in names]
            found = np.diag(np.square(relative))
        else:
            found = log_share_covariance(self.mapper.model.model_)
        return np.asarray(found[np.ix_(self.order, self.order)])


@dataclass(frozen=True)
class _Numbers:
    """Numbers of the pixels of a grid, row by row: a raster that says which pixel is the nearest."""

    grid: Grid
    name: str = "pixel numbers"
    tile: tuple[int, int] = (256, 256)

    def read(self, window: Window, cache: TileCache) -> NDArray[Any]:
        """Numbers of the pixels of a window, (1, row, col)."""
        rows, cols = np.arange(window.height) + window.row, np.arange(window.width) + window.col
        return np.asarray((rows[:, None] * self.grid.width + cols)[None], np.int64)


def _with_shares(model: ModelRecord, known: Mapping[str, Any] | None) -> ModelRecord:
    """The model for the class shares that the map states; it was saved with those of training."""
    if known is None or known["how"] == "training":
        return model
    alpha = KNOWN_SHARES * np.array([known["shares"][str(name)] for name in model.classes_])
    return replace(model, value=model.model_.with_class_shares(alpha))
