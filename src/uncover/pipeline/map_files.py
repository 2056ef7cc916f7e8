"""The files of a finished map, written from its scratch: restartable, and the same bytes every time."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uncover.pipeline.map_item import layer_asset, map_item, model_item
from uncover.pipeline.map_table import area_table
from uncover.pipeline.overview import write_overview
from uncover.pipeline.styles import styles
from uncover.raster.cf_dataset import write_dataset
from uncover.raster.geotiff import (
    LAYER_TAG,
    category_names,
    check_cog,
    class_tags,
    number_counts,
    statistics,
    write_cog,
)
from uncover.raster.mapper import Mapper
from uncover.raster.product import Layer, Product
from uncover.raster.scratch import Scratch

_TYPES = {"zarr": "application/vnd+zarr", "netcdf": "application/netcdf"}


@dataclass(frozen=True)
class Finish:
    """All that follows once every unit is computed."""

    mapper: Mapper
    model_file: Path
    record: Mapping[str, Any]
    when: dict[str, Any]  # from `time_of`
    key: str
    format: Literal["cog", "zarr", "netcdf"]
    threads: int = 1

    @property
    def product(self) -> Product:
        """The product."""
        return self.mapper.product

    def write(self, store: Path, scratch: Scratch) -> None:
        """Write all files; those that the journal knows are there already."""
        store.mkdir(parents=True, exist_ok=True)
        areas = scratch.areas()
        if self.format != "cog" and "dataset" not in scratch.journal.done:
            write_dataset(store / self._dataset, scratch, self.format, self._attributes())
            scratch.journal.add("dataset")
        self._rasters(store, scratch, areas[1] / max(areas[1].sum(), 1e-300))
        if not (areas[0] + areas[3]).any():
            warnings.warn(self._emptiness(), UserWarning, stacklevel=2)
        known = self.product.grid.crs is not None
        pairs, why = self.mapper.world_pairs, self.mapper.without_spread
        _write(store / "areas.csv", area_table(areas, pairs, self.product.scheme, known, why))
        shutil.copyfile(self.model_file, store / "model.uncover")
        self._items(store)

    def _emptiness(self) -> str:
        identity, scene = self.mapper.evidence.identity, getattr(self.mapper.evidence, "scene", None)
        if scene is not None and scene.masked_out():
            return f"no pixel of scene {identity} has a class: a mask (--mask) leaves out all of it"
        hint = "" if self.record["missing"] == "marginalise" else "; --missing marginalise classifies by some"
        return (
            f"no pixel of scene {identity} has a class: none has data in all bands that the model needs{hint}"
        )

    @property
    def _dataset(self) -> str:
        return "map.zarr" if self.format == "zarr" else "map.nc"

    def _rasters(self, store: Path, scratch: Scratch, shares: NDArray[np.float64]) -> None:
        """Several files at a time, the largest first; those that were written are read back at the end."""
        layers = self.product.layers if self.format == "cog" else ()
        missing = [x for x in layers if f"{x.name}.tif" not in scratch.journal.done]
        missing.sort(key=lambda layer: -len(layer.bands))

        def write(layer: Layer) -> Future[None]:
            self._layer(store, scratch, layer)
            return pool.submit(check_cog, store / f"{layer.name}.tif", scratch, layer)

        with ThreadPoolExecutor(self.threads) as pool:
            files = [pool.submit(write, layer) for layer in missing]
            title = self.mapper.evidence.identity
            picture = pool.submit(write_overview, store / "overview.png", scratch, title, shares)
            for layer, file in zip(missing, files, strict=True):
                file.result().result()
                scratch.journal.add(f"{layer.name}.tif")
            picture.result()

    def _layer(self, store: Path, scratch: Scratch, layer: Layer) -> None:
        tags = {"UNCOVER_RUN": self.key, LAYER_TAG: layer.title}
        if layer.name == "class":
            tags |= class_tags(self.product.scheme)
        write_cog(store / f"{layer.name}.tif", scratch, layer, tags)
        if layer.name == "class":
            _write(store / "class.tif.aux.xml", category_names(self.product.scheme))
        if layer.name == "quality":
            self._styles(store, scratch, layer)

    def _styles(self, store: Path, scratch: Scratch, quality: Layer) -> None:
        seen = {int(value) for value in np.flatnonzero(number_counts(scratch, quality)[0])}
        entropy = float(np.log(self.product.classes))
        largest = dict.fromkeys(("total", "measurement", "model", "overlap"), entropy)
        (store / "styles").mkdir(exist_ok=True)
        for name, text in styles(self.product, seen, largest):
            _write(store / name, text)

    def _attributes(self) -> dict[str, Any]:
        return {"title": f"Land cover of {self.mapper.evidence.identity}", "uncover": dict(self.record)}

    def _items(self, store: Path) -> None:
        assets: dict[str, Any] = {}
        if self.format == "cog":
            for layer in self.product.layers:
                found = statistics(store / f"{layer.name}.tif")
                assets[layer.name] = layer_asset(layer, self.product, found)
        else:
            assets["map"] = self._dataset_asset()
        assets["areas"] = {"href": "./areas.csv", "type": "text/csv", "roles": ["metadata"]}
        assets["overview"] = {"href": "./overview.png", "type": "image/png", "roles": ["overview"]}
        record = {**self.record, "run": self.key}
        item = map_item(self.product, self.mapper.evidence.identity, self.when, record, assets)
        _write(store / "item.json", _json(item))
        bands = self.mapper.evidence.bands
        model = model_item(self.mapper.model, self.product.scheme, self.product.grid, self.when, bands)
        _write(store / "model.json", _json(model))

    def _dataset_asset(self) -> dict[str, Any]:
        empty: list[Mapping[str, float]] = [{}]
        layers = [layer_asset(x, self.product, empty * len(x.bands)) for x in self.product.layers]
        asset: dict[str, Any] = {
            "href": f"./{self._dataset}",
            "type": _TYPES[self.format],
            "roles": ["data"],
            "bands": [band for layer in layers for band in layer["bands"]],
            "raster:sampling": "area",
        }
        for layer in layers:
            asset |= {key: value for key, value in layer.items() if key.startswith("classification:")}
        return asset

    def run_file(self, store: Path, facts: Mapping[str, Any]) -> None:
        """Write what has no influence on the product into a file of its own."""
        _write(store / "run.json", _json({"run": self.key, **facts}))


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    array: NDArray[Any] = np.asarray(value)
    return array.tolist() if array.dtype != object else str(value)


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
