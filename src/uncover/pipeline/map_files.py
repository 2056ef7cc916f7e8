"""The files of a finished map: layers, tables and STAC items, restartable, and the same bytes every time."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uncover import __version__
from uncover.files import json_text
from uncover.labels import Scheme
from uncover.models.record import ModelRecord
from uncover.pipeline.effect_split import effect_split, split_table
from uncover.pipeline.map_facts import MapFacts
from uncover.pipeline.map_styles import styles, write_overview
from uncover.pipeline.map_table import Doubts, area_table, none_of, uncertainty_of
from uncover.progress import in_units, step
from uncover.raster.errors import SceneError
from uncover.raster.footprint import footprint
from uncover.raster.grid import Grid
from uncover.raster.map_formats import (
    COLOURED,
    LAYER_TAG,
    category_names,
    check_cog,
    class_tags,
    effect_variables,
    number_counts,
    statistics,
    write_cog,
    write_dataset,
)
from uncover.raster.mapper import Mapper
from uncover.raster.names import span
from uncover.raster.product import Layer, Product
from uncover.raster.quality import FLAGGED, REASONS, Quality
from uncover.raster.scene import Scene
from uncover.raster.scratch import Scratch
from uncover.raster.series import SceneSeries
from uncover.warn import warn

_EXTENSIONS = "https://stac-extensions.github.io"
_MAP_EXTENSIONS = [
    f"{_EXTENSIONS}/classification/v1.1.0/schema.json",
    f"{_EXTENSIONS}/raster/v2.0.0/schema.json",
    f"{_EXTENSIONS}/processing/v1.2.0/schema.json",
    f"{_EXTENSIONS}/projection/v2.0.0/schema.json",
]
_MODEL_EXTENSIONS = [f"{_EXTENSIONS}/mlm/v1.5.2/schema.json"]
_COG = "image/tiff; application=geotiff; profile=cloud-optimized"

Item = dict[str, Any]
_TYPES = {"zarr": "application/vnd+zarr", "netcdf": "application/netcdf"}


@dataclass(frozen=True)
class Finish:
    """All that follows once every unit is computed."""

    mapper: Mapper  # of several tiles that of the first
    product: Product
    identity: str
    scenes: tuple[Scene | SceneSeries, ...]  # none for a cube
    model: bytes  # the file
    record: Mapping[str, Any]
    when: dict[str, Any]  # from `time_of`
    key: str
    format: Literal["cog", "zarr", "netcdf"]
    threads: int = 1
    doubts: Doubts = field(default_factory=Doubts)

    def write(self, store: Path, scratch: Scratch, areas: NDArray[np.float64]) -> None:
        """Write all files; those that the journal knows are there already."""
        store.mkdir(parents=True, exist_ok=True)
        counted = areas[1, : self.product.classes]
        facts = self._layers(store, scratch, counted / max(counted.sum(), 1e-300))
        if not facts.mapped_pixels:
            warn(self._emptiness(facts))
        pairs, why = self.mapper.world_pairs, self.mapper.without_spread
        uncertainty = uncertainty_of(areas, self.product, self.mapper.model.model_, self.doubts)
        table = area_table(areas, pairs, self.product.scheme, facts, why, uncertainty)
        _write(store / "areas.csv", table)
        (store / "model.uncover").write_bytes(self.model)
        none = none_of(list(csv.DictReader(table.splitlines())))
        extra: dict[str, Any] = {"none_of_the_classes": none} if none else {}
        if split := effect_split(scratch, self.mapper, areas):
            _write(store / "shares.csv", split_table(split))
            extra["effect_shares"] = split
        self._items(store, facts, extra)

    def _emptiness(self, facts: MapFacts) -> str:
        lost = ", ".join(f"{name} {n:,}" for name, n in facts.unmapped_pixels.items())
        partial = REASONS[Quality.PARTIAL] in facts.unmapped_pixels and self.record["missing"] == "nodata"
        hint = "; --missing marginalise classifies by the bands that are there" if partial else ""
        masked = any(REASONS[bit] in facts.unmapped_pixels for bit in Quality if bit & FLAGGED)
        hint += "; --mask-classes says what is masked" if masked else ""
        return f"no pixel of scene {self.identity} has a class ({lost}){hint}"

    @property
    def _dataset(self) -> str:
        return "map.zarr" if self.format == "zarr" else "map.nc"

    def _layers(self, store: Path, scratch: Scratch, shares: NDArray[np.float64]) -> MapFacts:
        """Write layers and picture while the facts are added up, as many at a time as there are threads."""
        has_mask = all(scene.masks for scene in self.scenes) if self.scenes else None
        scene = self.scenes[0] if len(self.scenes) == 1 else None
        shown = scene.pictured() if isinstance(scene, SceneSeries) else scene
        done, layers = scratch.journal.done, self.product.layers if self.format == "cog" else ()
        missing = [layer for layer in layers if f"{layer.name}.tif" not in done]
        missing.sort(key=lambda layer: -len(layer.bands))  # the largest first
        with ThreadPoolExecutor(self.threads) as pool:
            found = pool.submit(MapFacts.of, scratch, self.mapper.reader.masked, has_mask)
            running = {pool.submit(self._layer, store, scratch, layer): layer for layer in missing}
            if self.format != "cog" and "dataset" not in done:
                table = self.mapper.effects_table()
                bands = self.mapper.observed.bands
                columns = [] if table is None else effect_variables(bands, *table)
                about = self._attributes(found.result())
                write_dataset(store / self._dataset, scratch, self.format, about, columns)
                scratch.journal.add("dataset")
            picture = store / "overview.png"
            drawn = pool.submit(write_overview, picture, scratch, shown, self.identity, shares)
            self._check(store, scratch, running, pool)
            drawn.result()
            return found.result()

    def _check(
        self, store: Path, scratch: Scratch, written: dict[Future[None], Layer], pool: ThreadPoolExecutor
    ) -> None:
        """Read files back as they are written: then they are done."""
        sizes = {layer.name: len(layer.bands) * layer.itemsize for layer in written.values()}
        done, total, pixels = 0, 4 * sum(sizes.values()), self.product.grid.window.pixels
        running = {file: (layer, False) for file, layer in written.items()}
        with in_units() as may_stop:
            while running:
                may_stop()
                for file in wait(running, return_when=FIRST_COMPLETED).done:
                    layer, checked = running.pop(file)
                    file.result()
                    done += sizes[layer.name] * (1 if checked else 3)  # to compress takes longest
                    step("writing", pixels * done // total, pixels)
                    path = store / f"{layer.name}.tif"
                    if checked:
                        scratch.journal.add(path.name)
                    else:
                        running[pool.submit(check_cog, path, scratch, layer)] = layer, True

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

    def _attributes(self, facts: MapFacts) -> dict[str, Any]:
        """Global attributes by CF and ACDD; people, licence and dates of making are not known here."""
        observed = self.mapper.observed
        classes = ", ".join(self.product.scheme.names)
        found: dict[str, Any] = {
            "title": f"Land cover of {self.identity}",
            "summary": f"Most probable class of each pixel ({classes}), the probability of each class, and "
            "the uncertainty of the class with its causes.",
            "keywords": "land cover, classification, uncertainty, remote sensing",
            "source": f"scene {self.identity}, bands {', '.join(observed.bands)}; {observed.features}",
            "history": f"uncover {__version__}: {self.identity} by {self.mapper.model.estimator_name}",
            "processing_level": "classification of reflectance",
            "comment": "; ".join([f"{name}: {line}" for name, line in facts.lines().items()]),
            "id": self.key,
            "references": "Bilson, McCrory and Pustogvar (2025), An uncertainty-aware Bayesian framework for "
            "machine learning classification models",
            "standard_name_vocabulary": "CF Standard Name Table",
            "uncover": dict(self.record),
        }
        begin, end = (self.when.get(f"{name}_datetime") or self.when["datetime"] for name in ("start", "end"))
        if begin is not None:
            found |= {"time_coverage_start": begin, "time_coverage_end": end}
        outline = footprint(self.product.grid)
        if outline is not None:
            west, south, east, north = outline[1]
            found |= {"geospatial_lat_min": south, "geospatial_lat_max": north}
            found |= {"geospatial_lon_min": west, "geospatial_lon_max": east}
            corners = ((south, west), (south, east), (north, east), (north, west), (south, west))
            ring = ", ".join(f"{lat} {lon}" for lat, lon in corners)
            found |= {"geospatial_bounds": f"POLYGON (({ring}))", "geospatial_bounds_crs": "EPSG:4326"}
        return found

    def _items(self, store: Path, facts: MapFacts, extra: Mapping[str, Any]) -> None:
        assets: dict[str, Any] = {}
        if self.format == "cog":
            for layer in self.product.layers:
                found = statistics(store / f"{layer.name}.tif")
                assets[layer.name] = layer_asset(layer, self.product, found)
        else:
            assets["map"] = self._dataset_asset()
        assets["areas"] = {"href": "./areas.csv", "type": "text/csv", "roles": ["metadata"]}
        if "effect_shares" in extra:
            assets["shares_table"] = {"href": "./shares.csv", "type": "text/csv", "roles": ["metadata"]}
        assets["overview"] = {"href": "./overview.png", "type": "image/png", "roles": ["overview"]}
        record = {**self.record, **extra, "run": self.key}
        item = map_item(self.product, self.identity, self.when, record, assets)
        item["properties"] |= facts.as_property()
        _write(store / "item.json", json_text(item))
        bands = self.mapper.observed.bands
        model = model_item(self.mapper.model, self.product.scheme, self.product.grid, self.when, bands)
        _write(store / "model.json", json_text(model))

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
        """Write facts of the run that have no influence on the product, apart from it."""
        _write(store / "run.json", json_text({"run": self.key, **facts}))


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")


def map_item(
    product: Product,
    identity: str,
    when: Item,
    record: Mapping[str, Any],
    assets: Mapping[str, Item],
) -> Item:
    """The item of a map. `when` is from `time_of`; `record` says what was assumed, it goes in as it is."""
    properties = {
        **when,
        "title": f"Land cover of {identity}, with its uncertainty",
        "processing:software": {"uncover": __version__},
        "processing:lineage": _lineage(record),
        **_projection(product.grid),
        **{f"uncover:{key}": value for key, value in record.items()},
    }
    links = [
        {"rel": "self", "href": "./item.json", "type": "application/geo+json"},
        {"rel": "derived_from", "href": "./model.json", "type": "application/geo+json", "title": "model"},
    ]
    return _item(f"map-{_slug(identity)}", product.grid, properties, links, assets, _MAP_EXTENSIONS)


def model_item(model: ModelRecord, scheme: Scheme, grid: Grid, when: Item, bands: Sequence[str]) -> Item:
    """The item of the model, with what it takes and what it gives."""
    K, p = len(scheme.classes), len(bands)
    name = model.estimator_name
    task = {"name": "pixels", "bands": [{"name": band} for band in bands]}
    properties = {
        **when,
        "bands": [{"name": band} for band in bands],
        "mlm:name": f"uncover {name}",
        "mlm:architecture": f"{name}, Bayesian generative classifier",
        "mlm:tasks": ["classification"],
        "mlm:framework": "uncover",
        "mlm:framework_version": ".".join(__version__.split(".")[:3]),
        "mlm:input": [
            {
                **task,
                "input": {
                    "shape": [-1, -1, p],
                    "dim_order": ["batch", "realisation", "bands"],
                    "data_type": "float32",
                },
                "description": f"{p} bands, units: {model.units_ or 'unknown'}",
            }
        ],
        "mlm:output": [
            {
                "name": "probability",
                "tasks": ["classification"],
                "result": {"shape": [-1, K], "dim_order": ["batch", "class"], "data_type": "float32"},
                "classification:classes": _classes(scheme)[1:],
            }
        ],
        "mlm:hyperparameters": {
            name: value if isinstance(value, str | int | float | None) else str(value)
            for name, value in sorted(model.parameters.items())
        },
    }
    assets = {
        "model": {
            "href": "./model.uncover",
            "type": "application/zip",
            "roles": ["mlm:model"],
            "mlm:artifact_type": "uncover.save",
            "bands": [{"name": band} for band in bands],
        }
    }
    links = [{"rel": "self", "href": "./model.json", "type": "application/geo+json"}]
    return _item("model", grid, properties, links, assets, _MODEL_EXTENSIONS)


def stac_item(name: str, grid: Grid, properties: Item, assets: Mapping[str, Item]) -> Item:
    """An item of layers on a grid that are no map of classes."""
    links = [{"rel": "self", "href": "./item.json", "type": "application/geo+json"}]
    return _item(name, grid, {**properties, **_projection(grid)}, links, assets, _MAP_EXTENSIONS)


def _item(
    name: str,
    grid: Grid,
    properties: Item,
    links: list[Item],
    assets: Mapping[str, Item],
    extensions: list[str],
) -> Item:
    item: Item = {
        "type": "Feature",
        "stac_version": "1.1.0",
        "stac_extensions": extensions,
        "id": name,
        "geometry": None,
        "properties": properties,
        "links": links,
        "assets": dict(assets),
    }
    outline = footprint(grid)
    if outline is not None:
        item["geometry"], item["bbox"] = outline
    return item


def time_of(scene_time: datetime | None, stated: str | None) -> Item:
    """Time properties of an item: the scene's own, or what was stated for a scene that has none.

    A day, month or year, or two of them with a slash between, is an interval: so STAC says it.
    Without both the time is null: catalogues refuse such an item, and a guess would be worse.

    >>> time_of(None, "2020-06")["end_datetime"]
    '2020-06-30T23:59:59Z'
    >>> time_of(None, "2020-06-01T11:06:31Z")
    {'datetime': '2020-06-01T11:06:31.000000Z'}
    >>> time_of(None, None)
    {'datetime': None}
    """
    if stated is None:
        return {"datetime": None if scene_time is None else _instant(scene_time)}
    if scene_time is not None:
        raise SceneError(
            f"--date {stated}: the scene states its own time, {_instant(scene_time)}; leave --date out"
        )
    begin, end = span(stated)
    if begin == end:
        return {"datetime": _instant(begin)}
    start, stop = (f"{time:%Y-%m-%dT%H:%M:%SZ}" for time in (begin, end))
    return {"datetime": None, "start_datetime": start, "end_datetime": stop}


def _instant(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _projection(grid: Grid) -> Item:
    known = grid.crs is not None and re.fullmatch(r"[A-Za-z]+:\w+", grid.crs) is not None
    found: Item = {"proj:code": grid.crs if known else None}
    if grid.crs is not None and not known:
        found["proj:wkt2"] = grid.crs
    found |= {
        "proj:shape": list(grid.shape),
        "proj:transform": [float(value) for value in grid.transform],
        "proj:bbox": [float(value) for value in grid.bounds],
    }
    return found


def _lineage(record: Mapping[str, Any]) -> str:
    source = record["measurement_uncertainty"]["source"]
    same = "the scene that trained it" if record["paired"] else "another scene than the one that trained it"
    return f"Model applied to {same}; measurement uncertainty: {source}."


def layer_asset(layer: Layer, product: Product, statistics: Sequence[Mapping[str, float]]) -> Item:
    """The asset of one layer, with its bands."""
    bands = []
    for name, numbers in zip(layer.bands, statistics, strict=True):
        band: Item = {"name": name, "data_type": layer.dtype}
        if layer.nodata is not None:
            band["nodata"] = "nan" if layer.nodata != layer.nodata else int(layer.nodata)
        if layer.scale != 1.0:
            band |= {"raster:scale": layer.scale, "raster:offset": 0}
        if numbers and layer.resampling == "average":
            band["statistics"] = dict(numbers)
        bands.append(band)
    asset: Item = {
        "href": f"./{layer.name}.tif",
        "type": _COG,
        "title": layer.title,
        "roles": ["data"],
        "raster:sampling": "area",
        "bands": bands,
    }
    if layer.name in COLOURED:
        asset["classification:classes"] = _classes(product.scheme)
    if layer.name == "quality":
        asset["classification:bitfields"] = _bitfields()
    return asset


def _classes(scheme: Scheme) -> list[Item]:
    nothing: Item = {"value": 0, "name": "nodata", "nodata": True}
    return [
        nothing,
        *(
            {"value": c.code, "name": _slug(c.name), "title": c.name, "color_hint": c.colour[1:]}
            for c in scheme.classes
        ),
    ]


def _bitfields() -> list[Item]:
    return [
        {
            "name": str(bit.name).lower(),
            "offset": int(bit).bit_length() - 1,
            "length": 1,
            "classes": [
                {"value": 0, "name": "no"},
                {"value": 1, "name": "yes"},
            ],
        }
        for bit in Quality
    ]


def _slug(text: str) -> str:
    return re.sub(r"[^0-9A-Za-z_-]+", "_", text).strip("_") or "unnamed"
