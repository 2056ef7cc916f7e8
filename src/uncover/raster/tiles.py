"""Reading pixels of files tile by tile: each tile decoded once, by one thread, and never as silent zeros."""

from __future__ import annotations

import re
import struct
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from uncover import remote
from uncover.files import check_file
from uncover.raster.errors import ReadError, SceneError, damaged, require
from uncover.raster.fingerprints import opened
from uncover.raster.grid import Grid, Window
from uncover.raster.names import split_vsizip
from uncover.raster.npy import as_vrt, is_npy, npy_file

Array = NDArray[Any]

#: Tiles of files that are cut finer than this are read in multiples of their own blocks.
READ_SIZE = 512

#: With several threads GDAL decodes several JPEG 2000 tiles at once, and returns zeros for those it cannot
#: decode. One thread here, and one tile per call; several blocks may still be read by several threads.
#: Tiles are kept here and not by GDAL, whose own cache would grow to a share of the machine's memory.
GDAL_CACHE_BYTES = 64 * 1024 * 1024
#: The virtual rasters of NumPy files name files that lie anywhere.
GDAL_OPTIONS: dict[str, Any] = {
    "GDAL_NUM_THREADS": "1",
    "GDAL_CACHEMAX": GDAL_CACHE_BYTES,
    "GDAL_VRT_RAWRASTERBAND_ALLOWED_SOURCE": "ALL",
}

#: Decoded tiles that a cache keeps where nobody says how many.
CACHE_BYTES = 64 * 1024 * 1024
#: Files that a cache keeps open for the next who asks.
SPARE_FILES = 32

_opening = threading.Lock()


def limit_caches(nbytes: int) -> None:
    """Keep at most so many bytes of decoded tiles in each cache made from now on, and in GDAL's."""
    global CACHE_BYTES
    CACHE_BYTES = GDAL_OPTIONS["GDAL_CACHEMAX"] = nbytes


class TileCache:
    """Decoded tiles, the least recently used dropped first; shared by the threads that read a scene.

    Blocks of a map and tiles of a file rarely coincide (Sentinel-2 has tiles of 1,024, 640 and 192 pixels at
    10, 20 and 60 m): without it most tiles would be decoded several times.
    """

    def __init__(self, capacity: int | None = None, spare: int = SPARE_FILES) -> None:
        self.capacity, self.spare = CACHE_BYTES if capacity is None else capacity, spare
        self._tiles: OrderedDict[object, Future[Array]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self._spare: list[tuple[tuple[str, int], Any]] = []  # open files that nobody reads now

    @property
    def nbytes(self) -> int:
        """Bytes of all tiles in it."""
        return self._bytes

    def __reduce__(self) -> tuple[type[TileCache], tuple[int, int]]:
        return TileCache, (self.capacity, self.spare)

    def get(self, key: object, load: Callable[[], Array]) -> Array:
        """The tile of that key, loaded by the first who asks; others wait for it.

        >>> cache = TileCache(capacity=100)
        >>> first = cache.get("a", lambda: np.zeros(3, np.uint8))
        >>> cache.get("a", lambda: np.ones(3, np.uint8)) is first
        True
        """
        with self._lock:
            tile = self._tiles.get(key)
            mine = tile is None
            if tile is None:
                tile = self._tiles[key] = Future()
            else:
                self._tiles.move_to_end(key)
        if not mine:
            return tile.result()
        try:
            array = load()
        except BaseException as error:
            with self._lock:
                del self._tiles[key]
            tile.set_exception(error)
            raise
        array.flags.writeable = False
        tile.set_result(array)
        self._keep(array.nbytes)
        return array

    @contextmanager
    def opened(self, path: str, level: int = 0) -> Iterator[Any]:
        """A raster for one reader at a time: opening it may take longer than decoding a tile.

        At level 0 it has its full resolution, at others that of its overviews.
        """
        with self._lock:
            place = next((i for i, (key, _) in enumerate(self._spare) if key == (path, level)), None)
            spare = None if place is None else self._spare.pop(place)[1]
        with _gdal(path):
            dataset = _open(path, level) if spare is None else spare
            try:
                yield dataset
            except BaseException:
                dataset.close()
                raise
        with self._lock:
            self._spare.append(((path, level), dataset))
        self.close(self.spare)

    def close(self, kept: int = 0) -> None:
        """Close the open files that nobody reads now, but for some."""
        with self._lock:
            count = max(len(self._spare) - kept, 0)
            too_many = self._spare[:count]
            del self._spare[:count]
        for _, dataset in too_many:
            dataset.close()

    def limit(self, capacity: int) -> None:
        """Keep so many bytes at most from now on."""
        self.capacity = capacity
        self._keep(0)

    def _keep(self, nbytes: int) -> None:
        with self._lock:
            self._bytes += nbytes
            while self._bytes > self.capacity and len(self._tiles) > 1:
                oldest = next((k for k, tile in self._tiles.items() if tile.done()), None)
                if oldest is None:
                    return
                self._bytes -= self._tiles.pop(oldest).result().nbytes


class Source(Protocol):
    """Where raw numbers come from: planes on one grid."""

    @property
    def grid(self) -> Grid:
        """Where the pixels lie."""

    @property
    def name(self) -> str:
        """Name for messages."""

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns that are read at a time."""

    def read(self, window: Window, cache: TileCache) -> Array:
        """Raw numbers of a window inside the grid, (plane, row, col)."""


@dataclass(frozen=True, eq=False)
class ArrayPlanes:
    """Planes that are in memory already, (plane, row, col)."""

    planes: Array
    grid: Grid
    name: str = "array"

    @property
    def tile(self) -> tuple[int, int]:
        """All of it."""
        return self.grid.shape

    def read(self, window: Window, cache: TileCache) -> Array:
        """A view of a window."""
        return self.planes[:, *window.slices]


@dataclass(frozen=True)
class BandFile:
    """Some bands of one GDAL raster, read tile by tile. `indexes` count from 1."""

    path: str
    indexes: tuple[int, ...]
    grid: Grid
    tile: tuple[int, int]

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.path.rsplit("/", 1)[-1]

    def read(self, window: Window, cache: TileCache) -> Array:
        """Raw numbers of a window, (band, row, col)."""
        with ExitStack() as stack:
            opened: list[Any] = []

            def load(tile: Window) -> Array:
                if remote.is_address(self.path):
                    return remote.tried_again(lambda: self._fetched(tile, cache), ReadError)
                if not opened:
                    opened.append(stack.enter_context(cache.opened(self.path)))
                return self._load(opened[0], tile)

            def get(tile: Window) -> Array:
                return cache.get((self.path, self.indexes, tile), lambda: load(tile))

            return assemble(window, self.grid, self.tile, get)

    def _fetched(self, tile: Window, cache: TileCache) -> Array:
        """A tile from far away; a file that failed is opened anew the next time."""
        with cache.opened(self.path) as dataset:
            return self._load(dataset, tile)

    def _load(self, dataset: Any, tile: Window) -> Array:
        from rasterio.errors import RasterioError
        from rasterio.windows import Window as RasterioWindow

        where = RasterioWindow(tile.col, tile.row, tile.width, tile.height)
        try:
            array: Array = dataset.read(list(self.indexes), window=where)
        except RasterioError as error:
            why = str(error.__cause__ or error).splitlines()[0]
            raise ReadError(
                f"{self.name}: rows {tile.row}-{tile.row + tile.height}, columns {tile.col}-"
                f"{tile.col + tile.width} cannot be decoded ({why}); {_remedy(self.path)}"
            ) from error
        return array


def _remedy(path: str) -> str:
    if remote.is_address(path):
        return f"the server of {path} failed, or the file is damaged: try again later"
    return "the file is damaged, fetch it again"


def assemble(window: Window, grid: Grid, tile: tuple[int, int], get: Callable[[Window], Array]) -> Array:
    """Put a window together from the tiles that it touches.

    >>> data = np.arange(16).reshape(1, 4, 4)
    >>> grid = Grid(None, (1, 0, 0, 0, -1, 0), 4, 4)
    >>> assemble(Window(1, 1, 2, 2), grid, (2, 3), lambda w: data[:, *w.slices])
    array([[[ 5,  6],
            [ 9, 10]]])
    """
    if (window & grid.window) != window or window.pixels == 0:
        raise SceneError(f"{window} does not lie inside a raster of {grid.height} rows, {grid.width} columns")
    out: Array | None = None
    for part in _tiles_of(window, tile):
        piece = part & grid.window
        pixels = get(piece)
        if out is None:
            out = np.empty((pixels.shape[0], *window.shape), pixels.dtype)
        common = piece & window
        inside = common.shifted(-piece.row, -piece.col).slices
        out[:, *common.shifted(-window.row, -window.col).slices] = pixels[:, *inside]
    assert out is not None
    return out


def _tiles_of(window: Window, tile: tuple[int, int]) -> Iterator[Window]:
    height, width = tile
    for row in range(window.row // height * height, window.row + window.height, height):
        for col in range(window.col // width * width, window.col + window.width, width):
            yield Window(row, col, height, width)


@contextmanager
def open_raster(path: str) -> Iterator[Any]:
    """Open a GDAL raster for reading with the options that make errors errors."""
    with _gdal(path), _open(path) as dataset:
        yield dataset


def _gdal(path: str) -> Any:
    """GDAL's options for a raster: whoever opens or reads needs them."""
    require("rasterio")
    import rasterio

    return rasterio.Env(**GDAL_OPTIONS, **(remote.gdal_settings() if remote.is_address(path) else {}))


def _open(path: str, level: int = 0) -> Any:
    import rasterio
    from rasterio.errors import RasterioError

    opened(path)
    with no_place_needed():
        try:
            name = as_vrt(path) if is_npy(path) else remote.gdal_name(path)
            dataset = rasterio.open(name, **({"overview_level": level - 1} if level else {}))
            for part in dataset.files if dataset.driver == "VRT" else ():
                opened(part)
            return dataset
        except RasterioError as error:
            reason = str(error).splitlines()[0] if str(error) else "unknown format"
            remedy = f"; {_remedy(path)}" if remote.is_address(path) else ""
            raise ReadError(f"{path} cannot be opened as a raster: {reason}{remedy}") from error


@contextmanager
def no_place_needed() -> Iterator[None]:
    """Let rasterio open what has no place on Earth without a word; by one thread at a time."""
    from rasterio.errors import NotGeoreferencedWarning

    # The warning filter is one for all threads: hence the lock.
    with _opening, warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        yield


@dataclass(frozen=True)
class RasterInfo:
    """Metadata of a raster."""

    path: str
    grid: Grid
    dtype: str
    names: tuple[str | None, ...]
    nodata: tuple[float | None, ...]
    scales: tuple[float, ...]
    offsets: tuple[float, ...]
    tile: tuple[int, int]
    tags: dict[str, str]

    @property
    def count(self) -> int:
        """Number of bands."""
        return len(self.names)

    def bands(self, *indexes: int) -> BandFile:
        """Those bands, counted from 1, as a source."""
        for index in indexes:
            if not 1 <= index <= self.count:
                raise SceneError(f"{self.path} has {self.count} band(s); band {index} was asked for")
        return BandFile(self.path, indexes, self.grid, self.tile)


def check_exists(name: str) -> None:
    """Refuse a path or an address that is not there; GDAL's own names (/vsizip/…) are left to GDAL."""
    if remote.is_address(name):
        try:
            found = remote.state_of(name)
        except remote.RemoteError as error:
            raise ReadError(str(error)) from None
        if found is None:
            raise SceneError(f"{name} does not exist; check the address")
        return
    path = npy_file(name)[0] if is_npy(name) else Path(name)
    check_file(path)
    if not re.match(r"/vsi|[A-Za-z][A-Za-z0-9_+]+:", name) and not path.exists():
        raise SceneError(f"{name} does not exist; check the path")
    if path.is_file() and path.stat().st_size == 0:
        raise SceneError(f"{name} is empty, 0 bytes; fetch it again")


def describe(path: str | Path) -> RasterInfo:
    """Read what a raster says of itself, and refuse a JPEG 2000 file that has been cut."""
    name = str(path)
    check_exists(name)
    if name.lower().endswith((".jp2", ".j2k")):
        check_jp2(name)
    if remote.is_address(name):
        return remote.tried_again(lambda: _described(name), ReadError)
    return _described(name)


def _described(name: str) -> RasterInfo:
    with open_raster(name) as dataset:
        if dataset.count == 0:
            raise SceneError(f"{name} holds several datasets and no band of its own; name one of them")
        return RasterInfo(
            path=name,
            grid=Grid.of(dataset),
            dtype=str(dataset.dtypes[0]),
            names=tuple(dataset.descriptions),
            nodata=tuple(dataset.nodatavals),
            scales=tuple(dataset.scales),
            offsets=tuple(dataset.offsets),
            tile=_unit(dataset),
            tags={**dataset.tags()},
        )


def _unit(dataset: Any) -> tuple[int, int]:
    """One block of a JPEG 2000 file; elsewhere enough blocks to be worth a call."""
    height, width = dataset.block_shapes[0]
    if dataset.driver.startswith("JP2"):
        return int(height), int(width)
    return -(-READ_SIZE // height) * height, -(-READ_SIZE // width) * width


def check_jp2(path: str) -> None:
    """Refuse a JPEG 2000 file that ends before its own boxes or its end-of-codestream marker."""
    with damaged(path):
        if path.startswith("/vsizip/"):
            archive, member = split_vsizip(path)
            with ZipFile(archive) as bundle, bundle.open(member) as stream:
                _check_boxes(stream, bundle.getinfo(member).file_size, path)
        elif Path(path).exists():
            with open(path, "rb") as stream:
                _check_boxes(stream, Path(path).stat().st_size, path)


def _check_boxes(stream: IO[bytes], size: int, path: str) -> None:
    def cut(why: str) -> ReadError:
        return ReadError(f"{path} is truncated ({why}); fetch it again")

    position = 0
    while position < size:
        stream.seek(position)
        header = stream.read(16)
        if len(header) < 8:
            raise cut("it ends inside a box header")
        length, kind = struct.unpack(">I4s", header[:8])
        if length == 1 and len(header) == 16:
            length = struct.unpack(">Q", header[8:])[0]
        if position == 0 and kind != b"jP  ":
            return  # a bare codestream: reading tile by tile finds what is missing
        end = size if length == 0 else position + length
        if end > size:
            raise cut(f"{size} bytes, its boxes need {end}")
        if kind == b"jp2c" and length == 0:
            stream.seek(size - 2)
            if stream.read(2) != b"\xff\xd9":
                raise cut("the end-of-codestream marker is missing")
        if end <= position:
            raise ReadError(f"{path} is damaged: a box of length {length}; fetch it again")
        position = end
