"""One map of several tiles: each is mapped as it is alone, and the best of them counts at every pixel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.measurement.dates import dates_of
from uncover.measurement.formulas import Formula, bands_needed
from uncover.models.record import ModelRecord
from uncover.pipeline.prepared_map import MapOptions, PreparedMap, read_model
from uncover.pipeline.series_sources import grid_of_date
from uncover.progress import in_units
from uncover.raster.area import transform_bounds, window_of
from uncover.raster.errors import SceneError
from uncover.raster.executors import ComputePlan
from uncover.raster.grid import Grid, Progress, Window, finest_grid, same_crs
from uncover.raster.journal import Journal, fingerprint
from uncover.raster.loose_files import SceneSource, SeveralScenes, files_of
from uncover.raster.mapper import Mapper, Parts
from uncover.raster.model_checks import model_bands
from uncover.raster.pixel_area import pixel_areas
from uncover.raster.product import Layer, Product, Unit
from uncover.raster.quality import Quality
from uncover.raster.resample import read_nearest
from uncover.raster.scene import Scene, SceneOptions
from uncover.raster.scratch import Scratch, open_scratch
from uncover.raster.series import SceneSeries
from uncover.raster.tiles import TileCache
from uncover.warn import warn

#: Number of the tile that a pixel is taken from, counted from 1 as in the record.
TILE = Layer("tile", ("tile",), "uint16", 0, resampling="nearest", title="tile that the pixel is taken from")
#: Pixels of the product for each pixel of the tiles, above which tiles are too far apart.
_SPARSE = 25
#: Scenes that share more than this of the smaller one's area show one place.
_SAME_PLACE = 0.5


def prepare_map(
    model_file: str | Path, scene: SceneSource | SeveralScenes, options: MapOptions
) -> PreparedMap | Mosaic:
    """Open everything; several scenes are dates of one place or tiles, as the model was trained."""
    tiles: list[SceneSource | SeveralScenes] = [scene]
    known = None
    if isinstance(scene, SeveralScenes) and Path(model_file).is_file():
        known = read_model(model_file)
        dated = dates_of(model_bands(known[1]) or ())
        tiles = [*scene.scenes]
        if dated is not None:
            tiles = _places(scene, options.source.scene, bands_needed([Formula(each) for each in dated[1]]))
    if len(tiles) == 1 and options.crs is None:
        return PreparedMap.of(model_file, scene, options, known)
    _check_options(options, len(tiles))
    return Mosaic.of([_prepared(model_file, tile, options, known) for tile in tiles], options)


def _prepared(
    model_file: str | Path,
    tile: SceneSource | SeveralScenes,
    options: MapOptions,
    known: tuple[bytes, ModelRecord] | None,
) -> PreparedMap:
    try:
        made = PreparedMap.of(model_file, tile, options, known)
    except SceneError as error:
        name = Path(files_of(tile)[0].rstrip("/")).name
        raise error if name in str(error) else SceneError(f"{name}: {error}") from error
    for scene in made.scenes:
        scene.cache.limit(0)  # until it is its turn
    return made


def _check_options(options: MapOptions, tiles: int) -> None:
    if "estimate" in (options.unknown_share, options.class_shares):
        raise SceneError(
            f"{tiles} tiles make one map, and estimated shares would differ between them; state the shares, "
            "or map the tiles one by one"
        )
    if options.digits is not None:
        raise SceneError(
            f"{tiles} tiles make one map, and --draws auto may need another number of worlds in each; map "
            "one of them by it, and give the number that its report states"
        )
    if options.source.scene.scene_id is not None:
        raise SceneError(f"--scene-id names one scene, and {tiles} tiles came; leave it out")


def _places(
    scene: SeveralScenes, options: SceneOptions, needed: tuple[str, ...]
) -> list[SceneSource | SeveralScenes]:
    """Scenes of several dates by their place; one place where no two scenes share theirs."""
    grids = [grid_of_date(source, options, needed) for source in scene.scenes]
    places: list[list[int]] = []
    for i, grid in enumerate(grids):
        mine = [place for place in places if any(_same_place(grid, grids[j]) for j in place)]
        places = [place for place in places if place not in mine]
        places.append(sorted([i, *(j for place in mine for j in place)]))
    if max(map(len, places)) == 1:
        return [scene]  # as far as it can be told these are dates, and not of one place: which is refused
    return [SeveralScenes(tuple(scene.scenes[j] for j in place)) for place in places]


def _same_place(one: Grid, other: Grid) -> bool:
    try:
        common = window_of(one, other.bounds, other.crs), window_of(other, one.bounds, one.crs)
    except SceneError:
        return False
    shares = (part.pixels / grid.window.pixels for part, grid in zip(common, (one, other), strict=True))
    return max(shares) > _SAME_PLACE


@dataclass(frozen=True)
class Mosaic:
    """A map of several tiles, in an order that does not depend on that of the arguments."""

    tiles: tuple[PreparedMap, ...]
    keys: tuple[str, ...]  # of the tiles
    product: Product
    options: MapOptions

    @classmethod
    def of(cls, tiles: Sequence[PreparedMap], options: MapOptions) -> Mosaic:
        """Tiles on one grid, in the order of their names and places."""
        keyed = sorted(
            ((tile.identity, tile.product.grid.bounds, tile.key()), i) for i, tile in enumerate(tiles)
        )
        keys, tiles = tuple(facts[-1] for facts, _ in keyed), [tiles[i] for _, i in keyed]
        again = next((tile for tile, key in zip(tiles, keys, strict=True) if keys.count(key) > 1), None)
        if again is not None:
            raise SceneError(f"{again.identity} is given twice; each tile counts once: leave one out")
        first = tiles[0]
        for tile in tiles[1:]:
            same = tile.product.worlds == first.product.worlds
            if not same or not np.array_equal(tile.mapper.world_pairs, first.mapper.world_pairs):
                raise SceneError(
                    f"{tile.identity} is read in {tile.product.worlds} worlds and {first.identity} in "
                    f"{first.product.worlds}, because one of them trained the model; give --unpaired"
                )
        grid = mosaic_grid([tile.product.grid for tile in tiles], options.crs)
        alike = [
            (a, b)
            for i, a in enumerate(tiles)
            for b in tiles[:i]
            if _same_place(a.product.grid, b.product.grid)
        ]
        if alike:
            names = " and ".join(tile.identity for tile in alike[0][::-1])
            warn(
                f"{names} show one place, and the model takes one of them at a pixel: that of the lowest "
                "uncertainty counts (uncover fit --as features uses all dates)",
            )
        product = replace(first.product, grid=grid, layers=(*first.product.layers, TILE))
        return cls(tuple(tiles), keys, product, options)

    @property
    def mapper(self) -> Mapper:
        """Mapper of the first tile."""
        return self.tiles[0].mapper

    @property
    def model_file(self) -> Path:
        """File of the model."""
        return self.tiles[0].model_file

    @property
    def model_content(self) -> bytes:
        """Content of the file."""
        return self.tiles[0].model_content

    @property
    def plan(self) -> ComputePlan:
        """Threads and memory: tiles are computed one after the other."""
        return max((tile.plan for tile in self.tiles), key=lambda plan: plan.bytes_needed)

    @property
    def scenes(self) -> tuple[Scene | SceneSeries, ...]:
        """Scenes of all tiles."""
        return tuple(scene for tile in self.tiles for scene in tile.scenes)

    @property
    def identity(self) -> str:
        """Number of tiles, and the first and last of their names."""
        names = sorted({tile.identity for tile in self.tiles})
        return f"{len(self.tiles)} tiles, {names[0]}" + (f" to {names[-1]}" if len(names) > 1 else "")

    def record(self) -> dict[str, Any]:
        """Record of the first tile, and what the tiles differ in."""
        records = [tile.record() for tile in self.tiles]
        same = {key: value for key, value in records[0].items() if all(r.get(key) == value for r in records)}
        facts = [{key: value for key, value in record.items() if key not in same} for record in records]
        sources = {record["measurement_uncertainty"]["source"] for record in records}
        return {
            "measurement_uncertainty": {"source": " and ".join(sorted(sources))},
            **same,
            "scene": self.identity,
            "paired": all(record["paired"] for record in records),
            "overlaps": "most clear dates, then lowest total uncertainty",
            "tiles": [
                {"tile": number, "scene": tile.identity, "paired": record["paired"], **own}
                for number, (tile, record, own) in enumerate(zip(self.tiles, records, facts, strict=True), 1)
            ],
        }

    def measurement_error(self) -> dict[str, Any]:
        """That of the first tile."""
        return self.tiles[0].measurement_error()

    def when(self) -> dict[str, Any]:
        """The time of all tiles, or from the first to the last; none where one of them states none."""
        each = [tile.when() for tile in self.tiles]
        begin = [when.get("start_datetime") or when["datetime"] for when in each]
        end = [when.get("end_datetime") or when["datetime"] for when in each]
        if all(when == each[0] for when in each) or None in begin:
            return {"datetime": None} if None in begin else each[0]
        return {"datetime": None, "start_datetime": min(begin), "end_datetime": max(end)}

    def key(self) -> str:
        """Hash of all tiles, the grid and the options."""
        return fingerprint({"tiles": self.keys, "grid": asdict(self.product.grid)})

    # ---- computing -----------------------------------------------------------------------------------

    def compute(self, scratch: Scratch, progress: Progress) -> NDArray[np.float64]:
        """Map the tiles, put them together, and return the areas of the pixels that were taken of each."""
        sizes = [tile.product.grid.window.pixels for tile in self.tiles]
        with ExitStack() as stack:
            may_stop = stack.enter_context(in_units())
            parts = []
            for number, tile in enumerate(self.tiles):
                mine = stack.enter_context(self._scratch(scratch, number, tile.product, "map"))

                def here(done: int, _total: int, before: int = sum(sizes[:number])) -> None:
                    progress(before + done, sum(sizes))

                try:
                    _computed(tile, mine, here)
                finally:
                    if mine.journal.done:  # work that is kept
                        scratch.journal.add(f"tile {number + 1}")
                parts.append(mine)
            self._put_together(parts, scratch, may_stop)
            return np.sum([self._areas(i, part, scratch, may_stop) for i, part in enumerate(parts)], axis=0)

    def _scratch(
        self, beside: Scratch, number: int, product: Product, name: str
    ) -> AbstractContextManager[Scratch]:
        """Scratch of a tile beside that of the product."""
        place = beside.folder.parent / f"tile-{number + 1}-{name}"
        place.mkdir(exist_ok=True)
        return open_scratch(place, product, Journal(place / "journal", self.keys[number]))

    def _put_together(self, parts: Sequence[Scratch], scratch: Scratch, may_stop: Callable[[], None]) -> None:
        """Fill the units that are missing from the maps of the tiles."""
        cache = TileCache(0)
        reaches = [_reach(self.product.grid, part.product.grid) for part in parts]
        try:
            for number in scratch.missing(iter(range(len(scratch.units)))):
                window = scratch.units[number]
                out = {layer.name: layer.empty(*window.shape) for layer in self.product.layers}
                out["quality"][:] = int(Quality.NODATA)
                best = np.full((2, *window.shape), -1.0)  # clear dates (0 measured, no class), minus entropy
                for tile, part in enumerate(parts, start=1):
                    if (reaches[tile - 1] & window).pixels:
                        self._take(tile, part, window, best, out, cache)
                areas = np.zeros((len(scratch.areas_of(number)), self.product.area_columns))
                scratch.put(Unit(number, out, areas))
                may_stop()
        finally:
            scratch.sync()

    def _take(
        self,
        tile: int,
        part: Scratch,
        window: Window,
        best: NDArray[np.float64],
        out: dict[str, NDArray[Any]],
        cache: TileCache,
    ) -> None:
        """Take the pixels of a tile that are better than what was taken before."""
        planes, inside = {}, np.zeros(window.shape, np.bool_)
        for layer in part.product.layers:
            source = _Planes(part, layer)
            planes[layer.name], inside = read_nearest(source, self.product.grid, window, cache)
        classed = planes["class"][0] > 0
        dates = planes["dates_used"][0] if "dates_used" in planes else np.ones(window.shape)
        entropy = planes["uncertainty"][0].astype(np.float64)
        shown = np.where(planes["quality"][0] & np.uint16(Quality.NODATA) > 0, -0.5, 0.0)
        rank = np.stack([np.where(classed, dates, shown), np.where(classed, -entropy, 0.0)])
        better = (rank[0] > best[0]) | ((rank[0] == best[0]) & (rank[1] > best[1]))
        taken = inside & better
        best[:, taken] = rank[:, taken]
        for name, values in planes.items():
            out[name][:, taken] = values[:, taken]
        out[TILE.name][0, taken] = np.where(shown[taken] < 0, 0, tile)

    def _areas(
        self, tile: int, part: Scratch, scratch: Scratch, may_stop: Callable[[], None]
    ) -> NDArray[np.float64]:
        """Areas of the pixels taken of a tile: units of which all were are known, others computed again."""
        prepared = self.tiles[tile]
        grid, mine = self.product.grid, part.product.grid
        alike = grid.aligned_with(mine) and grid.resolution == mine.resolution
        whole = []

        def parts_of(number: int) -> Parts:
            return self._parts(tile + 1, part.units[number], mine, scratch)

        classes = next(layer for layer in part.product.layers if layer.name == "class")
        for number, window in enumerate(part.units if alike else ()):
            count = parts_of(number).count[part.read(classes, window)[0] > 0]
            whole += [number] if (count == 1).all() else []
        product = replace(prepared.product, layers=())
        with self._scratch(scratch, tile, product, "taken") as taken:
            for number in set(whole) - set(map(int, taken.journal.done)):
                taken.put(Unit(number, {}, part.areas_of(number)))
            numbers = [
                number for number in taken.missing(iter(range(len(part.units)))) if number not in whole
            ]
            try:
                for unit in prepared.executor().run(prepared.mapper, numbers, parts_of):
                    taken.put(Unit(unit.number, {}, unit.areas))
                    may_stop()
            finally:
                taken.sync()
            return taken.areas()

    def _parts(self, tile: int, window: Window, grid: Grid, scratch: Scratch) -> Parts:
        """Pixels of a window of a tile's grid that the product took, how often, and their area there."""
        found = np.zeros((2, *window.shape))
        try:
            reach = _reach(self.product.grid, grid.crop(window))
        except SceneError:
            return Parts(*found)
        for here in reach.cut((256, 256)):
            (row, col), inside = read_nearest(_Places(grid), self.product.grid, here, TileCache(0))
            row, col = row - window.row, col - window.col
            inside = inside & (row >= 0) & (row < window.height) & (col >= 0) & (col < window.width)
            inside &= scratch.read(TILE, here)[0] == tile
            at = row[inside], col[inside]
            np.add.at(found[0], at, 1.0)
            np.add.at(found[1], at, pixel_areas(self.product.grid, here)[inside])
        return Parts(*found)


def _computed(tile: PreparedMap, scratch: Scratch, progress: Progress) -> None:
    """Map a tile, whose decoded pixels are kept meanwhile."""
    for scene in tile.scenes:
        scene.cache.limit(tile.plan.cache_bytes)
    tile.compute(scratch, progress)
    for scene in tile.scenes:
        scene.cache.limit(0)


def _reach(grid: Grid, other: Grid) -> Window:
    """Window of a grid in which another one can have pixels; a pixel more on each side."""
    return window_of(grid, other.bounds, other.crs).grown(1, 1) & grid.window


@dataclass(frozen=True)
class _Planes:
    """A layer of a tile's map as a source of pixels."""

    scratch: Scratch
    layer: Layer

    @property
    def grid(self) -> Grid:
        return self.scratch.product.grid

    @property
    def name(self) -> str:
        return self.layer.name

    @property
    def tile(self) -> tuple[int, int]:
        return self.grid.shape

    def read(self, window: Window, cache: TileCache) -> NDArray[Any]:
        return self.scratch.read(self.layer, window)


@dataclass(frozen=True)
class _Places:
    """Row and column of every pixel of a grid as a source of pixels."""

    grid: Grid
    name: str = "places"

    @property
    def tile(self) -> tuple[int, int]:
        return self.grid.shape

    def read(self, window: Window, cache: TileCache) -> NDArray[Any]:
        rows, cols = np.mgrid[window.slices]
        return np.stack([rows, cols])


def mosaic_grid(grids: Sequence[Grid], crs: str | None = None) -> Grid:
    """One grid for several: in a reference system, or in that of most of them, with their finest pixels.

    >>> west = Grid("EPSG:32633", (10, 0, 300000, 0, -10, 5000000), width=100, height=100)
    >>> east = Grid("EPSG:32633", (10, 0, 300900, 0, -10, 5000500), width=100, height=100)
    >>> found = mosaic_grid([west, east])
    >>> found.transform, found.shape
    ((10, 0, 300000, 0, -10, 5000500), (150, 190))
    """
    if len({grid.crs is None for grid in grids}) > 1:
        raise SceneError("some tiles have a reference system and some have none; georeference them all")
    groups = [[grid for grid in grids if same_crs(grid.crs, each.crs)] for each in grids]
    if crs is None:
        anchor = finest_grid(max(groups, key=len))
    else:
        here = [grid for grid in grids if same_crs(grid.crs, _known(crs))]
        anchor = finest_grid(here) if here else _warped(finest_grid(grids), crs)
    corners = np.concatenate([_corners(anchor, grid) for grid in grids], axis=1)
    top, left = np.floor(np.round(corners.min(axis=1), 6)).astype(int)
    bottom, right = np.ceil(np.round(corners.max(axis=1), 6)).astype(int)
    if (bottom - top) * (right - left) > _SPARSE * sum(grid.window.pixels for grid in grids):
        raise SceneError(
            f"the tiles lie so far apart that a map of all would have {right - left:,} x {bottom - top:,} "
            "pixels, most of them empty; map them one by one"
        )
    a, b, _, d, e, _ = anchor.transform
    x, y = anchor.coordinates(int(top), int(left))
    return Grid(anchor.crs, (a, b, x, d, e, y), int(right - left), int(bottom - top))


def _corners(anchor: Grid, grid: Grid) -> NDArray[np.float64]:
    """Row and column in another grid of what bounds a grid: (2, corner)."""
    bounds = grid.bounds
    if grid.crs is not None and anchor.crs is not None and not same_crs(grid.crs, anchor.crs):
        bounds = transform_bounds(grid.crs, anchor.crs, bounds)
    left, bottom, right, top = bounds
    x, y = np.array([(x, y) for x in (left, right) for y in (bottom, top)]).T
    return np.stack(anchor.places(x, y))


def _known(crs: str) -> str:
    from rasterio.crs import CRS
    from rasterio.errors import CRSError

    try:
        return str(CRS.from_user_input(crs).to_string())
    except CRSError:
        raise SceneError(f"--crs {crs} is not known; give such as EPSG:3035") from None


def _warped(grid: Grid, crs: str) -> Grid:
    """A grid in another reference system, whose pixels are as large and begin at a multiple of their size."""
    from rasterio.crs import CRS
    from rasterio.warp import calculate_default_transform

    if grid.crs is None:
        raise SceneError(f"--crs {crs} came, and the tiles have no reference system; georeference them")
    metric = all(
        CRS.from_user_input(name).linear_units in ("metre", "meter", "m") for name in (grid.crs, crs)
    )
    if metric:
        size = grid.resolution[0]
    else:
        size = calculate_default_transform(grid.crs, crs, grid.width, grid.height, *grid.bounds)[0].a
    left, _, _, top = transform_bounds(grid.crs, _known(crs), grid.bounds)
    x, y = size * np.floor(left / size), size * np.ceil(top / size)
    return Grid(_known(crs), (size, 0.0, float(x), 0.0, -size, float(y)), 1, 1)
