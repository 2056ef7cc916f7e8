"""Areas of classes in regions: polygons by the million, each with the uncertainty that its pixels share."""

from __future__ import annotations

import csv
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.files import check_place, reader
from uncover.measurement.common_errors import MODELS
from uncover.metrics.class_areas import AreaSums
from uncover.pipeline.mapped import MappedScene
from uncover.progress import in_units
from uncover.raster.errors import SceneError, require
from uncover.raster.fingerprints import unchanged
from uncover.raster.grid import Grid, Progress, Window
from uncover.raster.journal import Journal, fingerprint, unfinished
from uncover.raster.pixel_area import pixel_areas
from uncover.raster.product import UNIT
from uncover.raster.tiles import TileCache
from uncover.raster.vectors import Regions, open_layer, read_regions, write_package
from uncover.warn import warn

Array = NDArray[np.float64]

#: Pixels of each region in a unit that are read in worlds and by drawn models, and those of all its regions.
_OF_REGION, _OF_UNIT = 24, 4096
#: Bytes that are left to the layers, the scene and the libraries.
_APART = 256 << 20


@dataclass(frozen=True)
class RegionOptions:
    """Options of areas in regions. Those from `memory` on have no influence on the result.

    field
        Field whose values name the regions.
    memory
        Bytes to stay below.
    resume, overwrite
        Go on with a run that was stopped; replace results that are there.
    """

    field: str | None = None
    memory: int = 1 << 30
    resume: bool = False
    overwrite: bool = False


def areas_of_regions(
    folder: str | Path,
    regions: str | Path,
    out: str | Path,
    options: RegionOptions | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write the areas of the classes of a map in each polygon of a vector file: regions.gpkg and regions.csv.

    The folder `out` appears at the end; until then the work lies in `OUT.partial`. Polygons are read some
    thousands at a time, and may overlap.
    """
    chosen = options or RegionOptions()
    check_place(out)
    if not Path(regions).exists():
        raise SceneError(f"{regions} does not exist; check the path")
    with unchanged(regions, folder) as check:
        mapped = MappedScene.open(folder)
        if not mapped.worlds:
            warn(
                f"{folder} has no worlds: {mapped.mapper.without_spread}; the uncertainty of the measurement "
                "is not in the results"
            )
        file, rules = Path(regions).stat(), [_OF_REGION, _OF_UNIT]
        facts = {"map": mapped.properties["uncover:run"], "field": chosen.field, "rules": rules}
        key = fingerprint({**facts, "regions": [Path(regions).name, file.st_size, file.st_mtime_ns]})
        with unfinished(out, key, chosen.resume, chosen.overwrite, check) as (store, journal):
            for _ in read_regions(regions, mapped.product.grid, chosen.field, _size(mapped, chosen.memory)):
                pass  # an invalid polygon is refused before anything is computed
            parts = store.parent / "parts"
            parts.mkdir(exist_ok=True)
            _compute(mapped, regions, chosen, parts, journal, progress or (lambda done, total: None))
            _write(mapped, regions, chosen, parts, store)
    return Path(out)


def _size(mapped: MappedScene, memory: int) -> int:
    """Polygons that are in memory together."""
    K = len(mapped.product.names)
    numbers = 8 * K * (mapped.worlds + MODELS + K + 8) + 4096  # and a geometry
    left = memory - _APART
    if left < 100 * numbers:
        least = (_APART + 100 * numbers >> 20) + 1
        raise SceneError(f"{memory >> 20} MB are too few; give --memory {least}MB or more")
    return min(left // (2 * numbers), 100_000)


def _compute(
    mapped: MappedScene,
    regions: str | Path,
    options: RegionOptions,
    parts: Path,
    journal: Journal,
    progress: Progress,
) -> None:
    """Compute the parts that are missing, each some thousands of polygons."""
    import pyogrio

    file, layer = open_layer(regions)
    info, grid, done, found = pyogrio.read_info(file, layer=layer), mapped.product.grid, 0, 0
    total = int(info["features"])
    if bool(info["crs"]) != bool(grid.crs):
        lacking, other = (mapped.folder, regions) if info["crs"] else (regions, mapped.folder)
        warn(
            f"{lacking} states no reference system: its coordinates are taken for those of {other}, "
            f"{info['crs'] or grid.crs}"
        )
    with in_units() as may_stop:
        for some in read_regions(regions, grid, options.field, _size(mapped, options.memory)):
            name = _part(some)
            if name not in journal.done:
                result: dict[str, Any] = _RegionSums.empty(mapped, some).filled().results()
                np.savez(parts / name, **result)
                journal.add(name, note=int((result["pixels"] > 0).sum()))
            found += journal.done[name] or 0
            done += len(some)
            progress(done, max(total, done))
            may_stop()
    if not found:
        journal.done.clear()  # the polygons have to be others: nothing of this run can be resumed
        raise SceneError(
            f"no polygon of {regions} holds the centre of a mapped pixel of {mapped.product.name}; check its "
            "coordinates and their reference system"
        )


def _part(some: Regions) -> str:
    """Name of the file with the results of some polygons."""
    return f"{some.first}-{len(some)}.npz"


@dataclass(frozen=True)
class _RegionSums:
    """Sums over the pixels of some polygons, one row each."""

    mapped: MappedScene
    shapes: NDArray[Any]
    pixels: Array  # (region,), whose centre is inside
    classed: Array  # (region,), area of those that have a class
    counted: Array  # (region, class), area by the most probable class
    expected: Array  # (region, class)
    own: Array  # (region, class), Σ a² P (1 − P)
    shared: Array  # (region, class), what of it is common to pixels, and not overlap
    products: Array  # (region, class, class)
    draws: Array  # (region, draw, class), worlds and then models

    @classmethod
    def empty(cls, mapped: MappedScene, regions: Regions) -> _RegionSums:
        n, K, D = len(regions), len(mapped.product.names), mapped.mapper.product.drawn
        shapes = [(n,), (n,), (n, K), (n, K), (n, K), (n, K), (n, K, K), (n, D, K)]
        return cls(mapped, regions.shapes, *(np.zeros(shape) for shape in shapes))

    def filled(self) -> _RegionSums:
        """With all units of the map that the polygons reach."""
        import shapely

        tree, grid, cache = shapely.STRtree(self.shapes), self.mapped.product.grid, TileCache()
        for window in grid.blocks(UNIT):
            bounds = shapely.box(*grid.crop(window).bounds)
            here = np.sort(tree.query(bounds, predicate="intersects"))
            if len(here):
                self._add_unit(window, here, cache)
        return self

    def _add_unit(self, window: Window, here: NDArray[np.intp], cache: TileCache) -> None:
        """Add the pixels of a unit: their layers, and of some of them what worlds and drawn models say."""
        product, area = self.mapped.product, np.broadcast_to(self._areas(window), window.shape).ravel()
        region, pixel = _inside(self.shapes, here, product.grid.crop(window))
        self.pixels[:] += np.bincount(region, minlength=len(self.pixels))
        numbers = product.class_numbers(window, cache).ravel()
        region, pixel = region[numbers[pixel] >= 0], pixel[numbers[pixel] >= 0]
        if not len(region):
            return
        rows, cols = np.divmod(pixel, window.width)
        P, a = product.probabilities(window, rows, cols, cache), area[pixel]
        P = P / P.sum(1, keepdims=True)  # they are stored in steps
        first = np.flatnonzero(np.diff(region, prepend=-1))
        mine = region[first]

        def add(into: Array, values: Array) -> None:
            into[mine] += np.add.reduceat(values, first, axis=0)

        add(self.classed, a)
        add(self.counted, np.eye(P.shape[1])[numbers[pixel]] * a[:, None])
        add(self.expected, P * a[:, None])
        add(self.own, P * (1 - P) * (a**2)[:, None])
        C = self.mapped.log_share_covariance
        by_shares = np.diag(C) - 2 * P @ C + np.einsum("nj,jk,nk->n", P, C, P)[:, None]
        add(self.shared, P**2 * by_shares * (a**2)[:, None])
        for k in range(P.shape[1]):
            add(self.products[:, k], P * (P[:, k] * a)[:, None])
        self._add_draws(window, region, pixel, a)

    def _add_draws(self, window: Window, region: NDArray[np.intp], pixel: NDArray[np.intp], a: Array) -> None:
        """Add what worlds and models say of some pixels, which stand for all pixels of their region."""
        chosen, share = _spread(region)
        wanted = np.zeros(window.pixels, np.bool_)
        wanted[pixel[chosen]] = True
        places, drawn = self.mapped.draw(window, wanted.reshape(window.shape))
        if not len(places):
            return
        at = np.full(window.pixels, -1)
        at[places] = np.arange(len(places))
        there = at[pixel[chosen]] >= 0
        chosen, share = chosen[there], share[there]
        drawn = drawn[:, at[pixel[chosen]]][..., self.mapped.order]
        weighted = np.moveaxis(drawn * (a[chosen] * share)[:, None], 0, 1)  # (pixel, draw, class)
        first = np.flatnonzero(np.diff(region[chosen], prepend=-1))
        mine = region[chosen][first]
        self.draws[mine] += np.add.reduceat(weighted, first, axis=0)
        each = (part.var(0, ddof=1) for part in np.split(drawn, [self.mapped.worlds]) if len(part) > 1)
        apart = np.sum(list(each), axis=0) * (a[chosen] ** 2 * share)[:, None]
        self.shared[mine] += np.add.reduceat(apart, first, axis=0)

    def _areas(self, window: Window) -> Array:
        return pixel_areas(self.mapped.product.grid, window)

    def results(self) -> dict[str, NDArray[Any]]:
        """What is written of each region: areas in hectares or pixels, probabilities, uncertainties."""
        scale = 1.0 if self.mapped.product.grid.crs is None else 1e-4
        found = [self._of(i) for i in range(len(self.pixels))]
        whole = np.maximum(self.classed, np.finfo(float).tiny)
        dominant = self.expected.argmax(1)
        standard, parts = (np.stack(each) for each in zip(*found, strict=True))
        rows = np.arange(len(found))
        return {
            "pixels": self.pixels,
            "mapped": self.classed * scale,
            "dominant": np.where(self.classed > 0, dominant, -1),
            "probability": self.expected[rows, dominant] / whole,
            "u_probability": standard[rows, dominant] / whole,
            "parts": parts[rows, :, dominant] / whole[:, None],
            "counted": self.counted * scale,
            "expected": self.expected * scale,
            "standard": standard * scale,
        }

    def _of(self, i: int) -> tuple[Array, Array]:
        """Standard uncertainty of each area, and its parts (cause, class), of one region."""
        worlds, models = np.split(self.draws[i], [self.mapped.worlds])
        # Every pixel stands for its share: sums of draws are those of the whole region.
        own, sampled = np.maximum(self.own[i] - self.shared[i], 0.0), float(self.expected[i].sum())
        sums = AreaSums(self.expected[i], own, self.products[i], sampled, worlds, models)
        found = sums.uncertainty(self.mapped.log_share_covariance)
        return found.standard, np.stack([found.part(cause) for cause in _PARTS])


#: Causes that are written of the dominant class of a region.
_PARTS = ("measurement", "model", "class_shares", "overlap")
#: What centres are moved by, in pixels (row, column), so that none of them lies on the edge of a region.
_ASIDE = 1.0e-6, 0.7e-6


def _inside(
    shapes: NDArray[Any], here: NDArray[np.intp], grid: Grid
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Numbers of regions and of the pixels whose centres they hold, region by region.

    Of regions that meet at a centre exactly one holds it.
    """
    import shapely

    regions, pixels = [np.empty(0, np.intp)], [np.empty(0, np.intp)]
    for i in here:
        left, bottom, right, top = shapes[i].bounds
        rows, cols = grid.places(*np.array([(left, bottom), (left, top), (right, bottom), (right, top)]).T)
        low, high = (np.clip(np.floor(f(rows)), 0, grid.height) for f in (np.min, lambda v: np.max(v) + 1))
        west, east = (np.clip(np.floor(f(cols)), 0, grid.width) for f in (np.min, lambda v: np.max(v) + 1))
        lines, columns = np.arange(int(low), int(high)), np.arange(int(west), int(east))
        if not len(lines) or not len(columns):
            continue
        line, column = (each.ravel() for each in np.meshgrid(lines, columns, indexing="ij"))
        x, y = grid.coordinates(line + 0.5 + _ASIDE[0], column + 0.5 + _ASIDE[1])
        shapely.prepare(shapes[i])
        inside = np.flatnonzero(shapely.contains_xy(shapes[i], x, y))
        pixels.append(line[inside] * grid.width + column[inside])
        regions.append(np.full(len(inside), i, np.intp))
    return np.concatenate(regions), np.concatenate(pixels)


def _spread(region: NDArray[np.intp]) -> tuple[NDArray[np.intp], Array]:
    """Places of some pixels of each region, spread evenly, and how many pixels each of them stands for.

    >>> _spread(np.array([3, 3, 5]))
    (array([0, 1, 2]), array([1., 1., 1.]))
    """
    first = np.flatnonzero(np.diff(region, prepend=-1))
    count = np.diff(first, append=len(region))
    chosen, share = [], []
    for start, n in zip(first, count, strict=True):
        taken = min(int(n), _OF_REGION + int(n * _OF_UNIT / len(region)))
        chosen.append(start + ((np.arange(taken) + 0.5) * n / taken).astype(np.intp))
        share.append(np.full(taken, n / taken))
    return np.concatenate(chosen), np.concatenate(share)


# ---- files -----------------------------------------------------------------------------------------


def _write(
    mapped: MappedScene, regions: str | Path, options: RegionOptions, parts: Path, store: Path
) -> None:
    """Write the table and the GeoPackage from the parts, some thousands of polygons at a time."""
    require("pyogrio")
    names, empty, beyond, total = _columns(mapped), 0, 0, 0
    shutil.rmtree(store, ignore_errors=True)  # of a run that was killed: a GeoPackage would be added to
    store.mkdir(parents=True)
    with open(store / "regions.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for some in read_regions(regions, mapped.product.grid, options.field, _size(mapped, options.memory)):
            found, columns = _kept(parts / _part(some), mapped, some)
            empty += int((found["mapped"] <= 0).sum())
            beyond += int(((found["mapped"] > 0) & _beyond(some, mapped.product.grid)).sum())
            total += len(some)
            writer.writerows([_cell(value) for value in row] for row in zip(*columns, strict=True))
            values = dict(zip(names, columns, strict=True))
            write_package(store / "regions.gpkg", "regions", some.wkb, values, some.crs)
    if empty:
        warn(f"{empty:,} of {total:,} regions hold no centre of a mapped pixel: their rows are empty")
    if beyond:
        warn(
            f"{beyond:,} of {total:,} regions reach beyond the map: their rows are of the part on it, which "
            f"the column {names[3]} gives the size of"
        )


def _beyond(some: Regions, grid: Grid) -> NDArray[np.bool_]:
    """True for regions that reach more than a pixel beyond the map."""
    import shapely

    west, south, east, north = grid.bounds
    a, b, _, d, e, _ = grid.transform
    dx, dy = abs(a) + abs(b), abs(d) + abs(e)
    bounds = shapely.bounds(some.shapes)
    inside = (bounds[:, :2] >= (west - dx, south - dy)) & (bounds[:, 2:] <= (east + dx, north + dy))
    return np.asarray(~inside.all(axis=1))


@reader
def _kept(
    part: Path, mapped: MappedScene, some: Regions
) -> tuple[dict[str, NDArray[Any]], list[NDArray[Any]]]:
    """Results of regions in a part that a run has kept, and their columns."""
    with np.load(part) as file:
        found = dict(file)
    return found, _table(mapped, some, found)


def _columns(mapped: MappedScene) -> list[str]:
    unit = "pixels" if mapped.product.grid.crs is None else "ha"
    head = ["region", "name", "pixels", f"mapped_{unit}", "class", "probability", "u_probability"]
    each = (f"{kind}_{name}" for name in mapped.product.names for kind in (unit, f"u_{unit}"))
    return [*head, *(f"u_{cause}" for cause in _PARTS), *each]


def _table(mapped: MappedScene, some: Regions, found: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """Columns of some regions; NaN and an empty class where no pixel has one."""
    n = len(some)
    known = found["dominant"] >= 0
    names = np.array([*mapped.product.names, ""], dtype=object)[found["dominant"]]
    values = (
        np.full(n, "", object) if some.values is None else np.array([_text(v) for v in some.values], object)
    )
    numbers = [found["probability"], found["u_probability"], *found["parts"].T]
    numbers += [
        found[kind][:, k] for k in range(len(mapped.product.names)) for kind in ("expected", "standard")
    ]
    numbers = [np.where(known, column, np.nan) for column in numbers]
    first = [np.arange(some.first, some.first + n), values, found["pixels"].astype(np.int64)]
    return [*first, found["mapped"], names, *numbers]


def _text(value: Any) -> str:
    """The name of a region; none where the field has no value.

    >>> [_text(value) for value in ("A1", 7, None, np.nan)]
    ['A1', '7', '', '']
    """
    return "" if value is None or value != value else str(value)


def _cell(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.6g}"
    return value
