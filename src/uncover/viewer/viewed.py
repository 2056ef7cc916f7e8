"""A map that is being viewed: what the page is told of it, its tiles, and answers about pixels and areas."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.files import reader
from uncover.measurement.observation import Observation
from uncover.measurement.prediction import predict
from uncover.models.files import load_fitted
from uncover.models.record import ModelRecord
from uncover.pipeline.contents import Contents, reopen
from uncover.pipeline.label_sources import open_labels
from uncover.pipeline.map_product import SET_SIZE, MapProduct, StoredLayer
from uncover.pipeline.map_styles import RAMP
from uncover.raster.grid import Window
from uncover.raster.map_formats import share_variable
from uncover.raster.observed import ObservedScene
from uncover.raster.pixel_area import pixel_areas, pixel_sides
from uncover.raster.quality import Quality
from uncover.raster.resample import move
from uncover.raster.tiles import TileCache
from uncover.report.pixels import pictured, quality_words
from uncover.report.summary import class_summary, renumbered
from uncover.report.viewer import FLAGS, TITLES, entropy_top, model_data, short_crs
from uncover.viewer.areas import areas_of
from uncover.viewer.colours import ScenePlane, colour_titles
from uncover.viewer.planes import (
    LargestPlane,
    Numbers,
    Plane,
    ThinnedPlane,
    level_shape,
    levels_of,
    open_files,
    plane_of,
    whole_tile,
)

#: Errors that are listed, the most confident first, at most one of a square of so many pixels.
_ERRORS, _APART = 200, 16
Answer = dict[str, Any]


def _title(name: str) -> tuple[str, str, str]:
    """Title, unit and reading of a layer of numbers."""
    if name.startswith(share_variable("")):
        effect = name.removeprefix(share_variable("")).replace("_", " ")
        return f"… from the measurement: {effect}", "nats", "its part of the measurement part"
    return TITLES.get(name, (name.replace("_", " ").capitalize(), "", ""))


@dataclass(frozen=True)
class Shown:
    """One layer that the page may show: where its numbers come from, and how they are to be read."""

    plane: Plane
    about: Answer
    fill: float = 0  # stored beyond the map


class ViewedMap:
    """A finished map with its layers, its scene and its labels."""

    @reader
    def __init__(
        self, folder: str | Path, labels: Sequence[str] = (), class_field: str | None = None
    ) -> None:
        self.contents = Contents.of(folder)
        self.stamp = stamp_of(self.contents.map)
        self.product = MapProduct.open(self.contents.map)
        self.classes = self.contents.classes(self.product.names)
        self.grid, self.files = self.product.grid, open_files()
        self.sources = labelled = tuple(labels) or tuple(filter(None, [self.contents.labels]))
        self._labels = [open_labels(name, class_field=class_field) for name in labelled]
        self._opening = threading.Lock()
        self.layers = self._layers()

    def close(self) -> None:
        """Close the files."""
        self.files.close()

    @cached_property
    def _on_grid(self) -> list[Any]:
        return [labels.on(self.grid) for labels in self._labels]

    # ---- layers ---------------------------------------------------------------------------------------

    def _layers(self) -> dict[str, Shown]:
        stored, found = self.product.layers, {}
        planes = self.planes = {name: plane_of(stored[name], self.files) for name in stored}
        top = entropy_top(self._glance("total"), len(self.classes)) if "total" in stored else 1.0
        found["class"] = self._shown(planes["class"], stored["class"], "Most probable class", "class")
        probability = stored["probability"]
        largest = LargestPlane(planes["probability"], probability)
        words = "probability of the most probable class"
        found["largest"] = self._shown(largest, probability, "Probability of the class", reading=words)
        for k, name in enumerate(self.product.names):
            plane, title = _OnePlane(planes["probability"], k), f"Probability of {name}"
            found[f"p{k + 1}"] = self._shown(plane, probability, title, group="Probabilities")
        for name, layer in stored.items():
            if name in ("class", "probability", "quality", "sets"):
                continue
            title, unit, reading = _title(name)
            limits: Answer = {
                "top": top if unit else 1.0,
                "unit": unit,
                "reading": reading,
                "group": "Uncertainty",
            }
            if name == "dates_used":
                limits |= {"top": float(np.nanmax(self._glance(name), initial=1.0)), "group": "Map"}
            if name == SET_SIZE:
                title, limits["top"] = "Size of the set of classes", float(len(self.classes))
            found[name] = self._shown(planes[name], layer, title, **limits)
        if "quality" in stored:
            found["quality"] = self._shown(planes["quality"], stored["quality"], "Flags", "flags")
        return found | self._label_layers() | self._scene_layers()

    def _shown(
        self, plane: Plane, layer: StoredLayer, title: str, kind: str = "number", **more: Any
    ) -> Shown:
        nodata = None if layer.nodata is None or np.isnan(layer.nodata) else int(layer.nodata)
        about = {"title": title, "kind": kind, "dtype": layer.dtype, "nodata": nodata, "scale": layer.scale}
        fill = Quality.NODATA if kind == "flags" else 0 if layer.nodata is None else layer.nodata
        return Shown(plane, {"top": 1.0, "unit": "", "reading": "", "group": "Map", **about, **more}, fill)

    def _glance(self, name: str) -> NDArray[Any]:
        """Values of a layer: of its coarsest overview, or of some places where it has none."""
        plane, z = self.planes[name], levels_of(self.grid) - 1
        windows = [Window(0, 0, *level_shape(self.grid, z))]
        if isinstance(plane, ThinnedPlane):
            windows, z = self.grid.spots(256), 0
        return np.concatenate([self.product.layers[name].values(plane.read(z, w)).ravel() for w in windows])

    def _label_layers(self) -> dict[str, Shown]:
        found = {}
        for i, name in enumerate(self.sources):
            about = {"dtype": "uint8", "nodata": 0, "scale": 1.0, "group": "Labels", "reading": ""}
            file = Path(name).name
            for kind, words in (("labels", "labels"), ("agreement", "right and wrong")):
                full = _LabelReader(self, i, kind == "agreement")
                plane = ThinnedPlane(self.grid, full, "largest")
                found[f"{kind}{i + 1}"] = Shown(plane, about | {"title": f"{file}: {words}", "kind": kind})
        return found

    def _scene_layers(self) -> dict[str, Shown]:
        if self.contents.model is None or "source" not in self.contents.run():
            return {}
        about = {"dtype": "uint8", "kind": "colours", "group": "Scene", "reading": ""}
        return {
            name: Shown(ScenePlane(self._pictured, self.grid, name), about | {"title": title})
            for name, title in colour_titles(self.contents.model_bands()).items()
        }

    def tile(self, layer: str, z: int, row: int, col: int) -> Numbers | None:
        """Numbers of a tile, as they are stored: (row, col), of colours (colour, row, col); None outside."""
        shown = self.layers.get(layer)
        if shown is None or not 0 <= z < levels_of(self.grid) or row < 0 or col < 0:
            return None
        return whole_tile(shown.plane, self.grid, z, row, col, shown.fill)

    # ---- the scene and the model, opened when they are asked for ----------------------------------------

    @cached_property
    def _opened(self) -> tuple[ModelRecord | None, ObservedScene | None, str]:
        model = None if self.contents.model is None else load_fitted(self.contents.model)
        if model is None:
            return None, None, "the model is lost"
        return model, *reopen(self.contents, model, self.grid, for_clicks=True)

    @property
    def opened(self) -> tuple[ModelRecord | None, ObservedScene | None, str]:
        """The model, the scene, and why it is not there."""
        with self._opening:
            return self._opened

    def _pictured(self) -> ObservedScene | None:
        """The scene to be shown; None without one."""
        evidence = self.opened[1]
        return None if evidence is None else pictured(evidence)

    # ---- what the page is told -------------------------------------------------------------------------

    def description(self) -> Answer:
        """Everything about the map that is not pixels."""
        grid, item = self.grid, self.contents.item()
        _, across = pixel_sides(grid, np.array(grid.height / 2), np.array(grid.width / 2))
        return {
            "name": self.product.name,
            "title": str(item["properties"].get("uncover:scene", self.product.name)),
            "version": self.stamp,
            "size": [grid.width, grid.height],
            "levels": levels_of(grid),
            "transform": [float(v) for v in grid.transform],
            "crs": short_crs(grid.crs),
            "metres": None if grid.crs is None else float(np.hypot(*across)),
            "pixelArea": None if grid.crs is None else float(pixel_areas(grid, grid.middle(1))[0, 0]),
            "classes": [{"code": c.code, "name": c.name, "colour": c.colour} for c in self.classes],
            "layers": [{"name": name, **shown.about} for name, shown in self.layers.items()],
            "flags": [
                {"bit": int(bit), "name": quality_words(bit)[0], "colour": FLAGS.get(bit, "#ffffff00")}
                for bit in sorted(Quality, key=lambda bit: list(FLAGS).index(bit) if bit in FLAGS else 99)
            ],
            "labels": [
                {"name": Path(name).name, "remedy": self._remedy(n)} for n, name in enumerate(self.sources)
            ],
            "ramp": [colour for _, colour in RAMP],
        }

    def model_facts(self) -> Answer | None:
        """What the training classes look like in each band; None without a model."""
        model, _, _ = self.opened
        return None if model is None else model_data(class_summary(model, self.product))

    # ---- one pixel -------------------------------------------------------------------------------------

    def story(self, row: int, col: int) -> Answer:
        """Numbers of a pixel as they are stored; they need no scene."""
        window = self._pixel(row, col)
        x, y = self.grid.coordinates(row + 0.5, col + 0.5)
        numbers = {
            name: shown.plane.read(0, window)[0, 0, 0].item()
            for name, shown in self.layers.items()
            if shown.about["kind"] != "colours"
        }
        return {
            "row": row,
            "col": col,
            "x": x,
            "y": y,
            "place": self._place(x, y),
            "numbers": {key: None if n != n else n for key, n in numbers.items()},
            "flags": quality_words(int(numbers.get("quality", 0))),
        }

    def _pixel(self, row: int, col: int) -> Window:
        window = Window(row, col, 1, 1)
        if (window & self.grid.window) != window:
            raise IndexError(f"row {row}, column {col} lies outside the map")
        return window

    def _place(self, x: float, y: float) -> list[float] | None:
        """Longitude and latitude; None without a reference system."""
        if self.grid.crs is None:
            return None
        longitude, latitude = move(self.grid.crs, "EPSG:4326", np.array([x]), np.array([y]))
        found = [float(longitude[0]), float(latitude[0])]
        return found if np.isfinite(found).all() else None

    def place_of(self, latitude: float, longitude: float) -> Answer:
        """Row and column of a place, with fractions, on the map or beside it; {} where there are none."""
        if self.grid.crs is None:
            raise ValueError("the map has no reference system; give row and column")
        x, y = move("EPSG:4326", self.grid.crs, np.array([longitude]), np.array([latitude]))
        row, col = self.grid.places(float(x[0]), float(y[0]))
        return {"row": row, "col": col} if np.isfinite([row, col]).all() else {}

    def measured(self, row: int, col: int) -> Answer:
        """What the model knows of the classes, and what was measured at a pixel."""
        window = self._pixel(row, col)
        return {"model": self.model_facts(), **self._measured(window)}

    def _measured(self, window: Window) -> Answer:
        """The spectrum in all realisations, its noise, and the probabilities in each world."""
        model, evidence, lost = self.opened
        if model is None or evidence is None:
            return {"lost": lost}
        flags = int(self.planes["quality"].read(0, window).item()) if "quality" in self.planes else 0
        if flags & (Quality.NODATA | Quality.PARTIAL):
            return {"lost": "no complete measurement"}
        reading = evidence.read(window)
        where = np.zeros(1, np.intp)
        values = reading.values[..., 0, 0]
        if not np.isfinite(values).all():
            return {"lost": "no complete measurement"}
        pixels = reading.pixels(where)
        if pixels.known is not None and not pixels.known.any():
            return {"lost": "no stated uncertainty"}
        realised = pixels.realised()[..., 0].astype(np.float64)  # (realisation, band)
        found: Answer = {"measured": realised.mean(axis=0).tolist()}
        if pixels.noise is not None:
            found["deviation"] = np.sqrt(pixels.noise.variances()[0]).tolist()
        if len(realised) > 1:
            found["realised"] = realised.tolist()
            if model.realisations in ("pooled", "shared"):
                order = [[str(c) for c in model.classes_].index(name) for name in self.product.names]
                found["worlds"] = self._in_worlds(model, realised)[:, order].tolist()
        return found

    def _in_worlds(self, model: ModelRecord, realised: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities (world, class): of a training scene by the model of each world, else by all of it."""
        if self.contents.item()["properties"].get("uncover:paired"):
            return predict(model.model_, Observation(realised[None]), paired=True).by_view()[0]
        return np.asarray(predict(model.model_, Observation(realised), paired=False).probability())

    # ---- areas and errors ------------------------------------------------------------------------------

    def areas(self, outline: Sequence[tuple[float, float]]) -> Answer:
        """Areas of the classes inside an outline of rows and columns."""
        return areas_of(self.product, self.planes, outline)

    def errors(self, number: int) -> Answer:
        """Labels that the map contradicts, the most confident first."""
        cache, on_grid = TileCache(16 << 20), self._on_grid[number]
        table, largest = renumbered(self._labels[number], self.product), self.layers["largest"]
        counts, lacking, found = np.zeros(3, np.int64), np.zeros(256, np.int64), []
        for window in self.grid.blocks(1024):
            codes = on_grid.labels(window, cache)
            truth = table[codes]
            lacking += np.bincount(codes[(truth == 0) & (codes > 0)], minlength=256)
            if not truth.any():
                continue
            mapped = self.product.numbered(self.layers["class"].plane.read(0, window)[0])
            both = (truth > 0) & (mapped > 0)
            wrong = both & (truth != mapped)
            counts += [both.sum() - wrong.sum(), wrong.sum(), ((truth > 0) & (mapped == 0)).sum()]
            rows, cols = np.nonzero(wrong)
            if not len(rows):
                continue
            layer = self.product.layers["probability"]
            sure = layer.values(largest.plane.read(0, window)[0])[rows, cols]
            best = np.argsort(-sure, kind="stable")[: 20 * _ERRORS]
            found += [
                (float(sure[i]), window.row + int(rows[i]), window.col + int(cols[i]),
                 int(mapped[rows[i], cols[i]]), int(truth[rows[i], cols[i]]))
                for i in best
            ]  # fmt: skip
        names = ("p", "row", "col", "mapped", "label")
        listed = [dict(zip(names, each, strict=True)) for each in _apart(found)]
        return {
            "right": int(counts[0]),
            "wrong": int(counts[1]),
            "unmapped": int(counts[2]),
            "unknown": int(lacking.sum()),
            "lacking": self._names_of(number, np.flatnonzero(lacking)),
            "errors": listed,
        }

    def _names_of(self, number: int, codes: NDArray[np.intp]) -> list[str]:
        """Names of some codes of labels, eight at most."""
        named = {c.code: c.name for c in self._labels[number].scheme.classes}
        return [named.get(int(code), str(code)) for code in codes[:8]] + ["…"] * (len(codes) > 8)

    def _remedy(self, number: int) -> str:
        """What to do with labels of which no class is one of the map; empty where one is."""
        labels, mine = self._labels[number], self.product.names
        if renumbered(labels, self.product).any() or not labels.scheme.classes:
            return ""
        value, file = labels.scheme.names[0].removeprefix("class "), Path(self.sources[number]).name
        return (
            f"None of the classes of {file} is one of the map ({', '.join(mine)}); give them their names: "
            f"uncover labels {file} --classes {value}={mine[0]},… --out labels.tif"
        )


def _apart(found: list[tuple[float, int, int, int, int]]) -> list[tuple[float, int, int, int, int]]:
    """The most confident errors, one of each square of the map and pair of classes."""
    chosen: dict[tuple[int, ...], tuple[float, int, int, int, int]] = {}
    for each in sorted(found, key=lambda e: (-e[0], e[1], e[2])):
        _, row, col, mapped, label = each
        chosen.setdefault((row // _APART, col // _APART, mapped, label), each)
        if len(chosen) == _ERRORS:
            break
    return list(chosen.values())


@dataclass(frozen=True)
class _OnePlane:
    """One of several planes."""

    planes: Plane
    number: int

    def read(self, z: int, window: Window) -> Numbers:
        """Its numbers."""
        return self.planes.read(z, window)[self.number : self.number + 1]


@dataclass(frozen=True)
class _LabelReader:
    """Labels of a window: numbers of the map's classes from 1 (255: a class that it lacks), or agreement.

    Agreement is 1 for right, 2 where the map has no class, 3 for a class that it lacks, 4 for wrong, and 0
    without a label.
    """

    map: ViewedMap
    number: int
    agreement: bool

    def __call__(self, window: Window) -> Numbers:
        codes = self.map._on_grid[self.number].labels(window, self.map.files)
        labels = renumbered(self.map._labels[self.number], self.map.product)[codes]
        labels[(labels == 0) & (codes > 0)] = 255
        if not self.agreement:
            return labels[None]
        mapped = self.map.product.numbered(self.map.layers["class"].plane.read(0, window)[0])
        found = np.where(labels == mapped, 1, 4).astype(np.uint8)
        found[labels == 255] = 3
        found[mapped == 0] = 2
        found[labels == 0] = 0
        return found[None]


def stamp_of(folder: Path) -> str:
    """What tells a map from another one in its place: sizes and times of its files."""
    parts = []
    for name in ("item.json", "class.tif", "probability.tif", "map.zarr", "map.nc"):
        path = folder / name
        if path.exists():
            facts = path.stat()
            parts.append(f"{name}{facts.st_ino}-{facts.st_size}-{facts.st_mtime_ns}")
    if not parts:
        raise FileNotFoundError(f"{folder} was removed")
    import hashlib

    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:12]
