"""Scratch of an unfinished map: every unit has its fixed place in plain files, and a line in a journal."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.raster.grid import Window
from uncover.raster.journal import Journal
from uncover.raster.product import UNIT, Layer, Product, Unit
from uncover.raster.tiles import assemble

#: Waiting for the disk takes as long for one unit as for many.
SECONDS_BETWEEN_SYNCS = 1.0

_PAGE = 4096  # tiles begin at whole pages of memory
_SHORT, _LONG, _OFFSET = 3, 4, 16
_FORMATS = {_SHORT: "<u2", _LONG: "<u4", _OFFSET: "<u8"}
_KINDS = {"u": 1, "i": 2, "f": 3}


class Scratch:
    """Layers of a product as plain TIFFs, of which each unit is a tile; and the areas of each unit.

    Where a unit's numbers lie depends on the product alone. They are on disk before the journal says so: a
    run that is stopped at any moment loses the last second of its work, and nothing else.
    """

    def __init__(self, folder: Path, product: Product, journal: Journal) -> None:
        self.folder, self.product, self.journal = folder, product, journal
        self.units = product.units()
        self._written: list[str] = []
        self._synced = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        self.tiffs = {layer.name: self._tiff(layer) for layer in product.layers}
        self._files = {name: self._open(name, tiff.size) for name, tiff in self.tiffs.items()}
        for name, tiff in self.tiffs.items():
            write_at(self._files[name], tiff.head(), 0)
        self._areas = self._open("areas", len(self.units) * self._areas_bytes)

    def _tiff(self, layer: Layer) -> PlainTiff:
        return PlainTiff(*self.product.grid.shape, len(layer.bands), layer.dtype, UNIT)

    def _open(self, name: str, size: int) -> int:
        file = os.open(self.path(name), os.O_RDWR | os.O_CREAT, 0o666)
        if os.fstat(file).st_size != size:
            os.ftruncate(file, size)
        return file

    def close(self) -> None:
        """Let go of the files."""
        for file in (*self._files.values(), self._areas):
            os.close(file)

    def path(self, name: str) -> Path:
        """The plain file of a layer."""
        return self.folder / f"{name}.raw"

    @property
    def _areas_bytes(self) -> int:
        return 8 * self.product.area_rows * self.product.area_columns

    def missing(self, order: Iterator[int]) -> list[int]:
        """Units that are not there yet, in that order."""
        return [number for number in order if str(number) not in self.journal.done]

    def put(self, unit: Unit) -> None:
        """Write a unit to its place; every now and then, all that was written goes into the journal."""
        for layer in self.product.layers:
            self._put_layer(layer, unit.number, unit.layers[layer.name])
        write_at(self._areas, unit.areas.astype("<f8").tobytes(), unit.number * self._areas_bytes)
        self._written.append(str(unit.number))
        if time.monotonic() - self._synced >= SECONDS_BETWEEN_SYNCS:
            self.sync()

    def sync(self) -> None:
        """Bring what was written onto the disk, and then into the journal."""
        if not self._written:
            return
        for file in (*self._files.values(), self._areas):
            os.fdatasync(file)
        self.journal.add(*self._written)
        self._written, self._synced = [], time.monotonic()

    def _put_layer(self, layer: Layer, number: int, planes: NDArray[Any]) -> None:
        tiff = self.tiffs[layer.name]
        tile = np.ascontiguousarray(planes, np.dtype(layer.dtype).newbyteorder("<"))
        if tile.nbytes < tiff.tile_bytes:  # at the right and at the bottom
            tile = np.pad(tile, [(0, 0), *((0, tiff.tile - side) for side in tile.shape[1:])])
        write_at(self._files[layer.name], tile.data.cast("B"), tiff.place(number))

    def read(self, layer: Layer, window: Window, bands: Sequence[int] | None = None) -> NDArray[Any]:
        """A window of a layer, all bands or those counted from 0: (band, row, col)."""
        chosen = range(len(layer.bands)) if bands is None else bands
        side = self.tiffs[layer.name].tile
        return assemble(window, self.product.grid, (side, side), lambda w: self._unit(layer, w, chosen))

    def _unit(self, layer: Layer, window: Window, bands: Sequence[int]) -> NDArray[Any]:
        tiff, file = self.tiffs[layer.name], self._files[layer.name]
        number = tiff.number(window.row, window.col)
        if list(bands) == list(range(tiff.bands)):
            content = os.pread(file, tiff.tile_bytes, tiff.place(number))
        else:
            planes = [os.pread(file, tiff.plane_bytes, tiff.place(number, band)) for band in bands]
            content = b"".join(planes)
        tile: NDArray[Any] = np.frombuffer(content, np.dtype(layer.dtype).newbyteorder("<"))
        return tile.reshape(-1, tiff.tile, tiff.tile)[:, : window.height, : window.width]

    def strips(self, rows: int) -> Iterator[Window]:
        """Windows of the whole width, from top to bottom."""
        return self.product.grid.window.cut((rows, self.product.grid.width))

    def areas(self) -> NDArray[np.float64]:
        """Areas of the whole map, (row of `AREA_ROWS` + world, class), added up unit by unit."""
        total: NDArray[np.float64] = sum(
            (self.areas_of(number) for number in range(1, len(self.units))), self.areas_of(0)
        )
        return total

    def areas_of(self, number: int) -> NDArray[np.float64]:
        """Areas of one unit."""
        content = os.pread(self._areas, self._areas_bytes, number * self._areas_bytes)
        return np.frombuffer(content, "<f8").reshape(-1, self.product.area_columns)


def write_at(file: int, content: bytes | memoryview, offset: int) -> None:
    """Write all of it, or raise OSError."""
    while content:
        written = os.pwrite(file, content, offset)
        content, offset = content[written:], offset + written


@contextmanager
def open_scratch(folder: Path, product: Product, journal: Journal) -> Iterator[Scratch]:
    """Scratch that lets go of its files."""
    scratch = Scratch(folder, product, journal)
    try:
        yield scratch
    finally:
        scratch.close()


@dataclass(frozen=True)
class PlainTiff:
    """Bands of one type in square tiles, one band after the other within a tile (BigTIFF, little-endian).

    Tiles at the right and at the bottom are whole, too: what lies outside the raster does not count.
    """

    height: int
    width: int
    bands: int
    dtype: str
    tile: int

    @property
    def tiles(self) -> int:
        """Number of tiles."""
        return self.number(self.height - 1, self.width - 1) + 1

    def number(self, row: int, col: int) -> int:
        """Number of the tile in which a pixel lies."""
        return row // self.tile * -(-self.width // self.tile) + col // self.tile

    @property
    def plane_bytes(self) -> int:
        """Bytes of one band of a tile."""
        return int(self.tile**2 * np.dtype(self.dtype).itemsize)

    @property
    def tile_bytes(self) -> int:
        """Bytes of all bands of a tile."""
        return self.bands * self.plane_bytes

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.place(self.tiles)

    @cached_property
    def _first(self) -> int:
        return -(-len(self._tags(0)) // _PAGE) * _PAGE

    def place(self, number: int, band: int = 0) -> int:
        """Where a tile begins, or a band of it."""
        return self._first + number * self.tile_bytes + band * self.plane_bytes

    def head(self) -> bytes:
        """Header of the file."""
        return self._tags(self._first)

    def _tags(self, first: int) -> bytes:
        """The tags, with tiles from that place on; longer ones follow the list of all."""
        one = np.ones(self.bands, np.int64)
        kind = np.dtype(self.dtype)
        bands, tiles = np.ogrid[: self.bands, : self.tiles]
        starts = first + self.plane_bytes * bands + self.tile_bytes * tiles
        tags = [
            (256, _LONG, np.array([self.width])),
            (257, _LONG, np.array([self.height])),
            (258, _SHORT, 8 * kind.itemsize * one),
            (259, _SHORT, one[:1]),  # not compressed
            (262, _SHORT, one[:1]),  # numbers, not colours
            (277, _SHORT, np.array([self.bands])),
            (284, _SHORT, 2 * one[:1]),  # bands apart
            (322, _LONG, np.array([self.tile])),
            (323, _LONG, np.array([self.tile])),
            (324, _OFFSET, starts.ravel()),
            (325, _OFFSET, np.full(starts.size, self.plane_bytes)),
            (338, _SHORT, 0 * one[1:]),
            (339, _SHORT, _KINDS[kind.kind] * one),
        ]
        tags = [tag for tag in tags if len(tag[2])]
        end = 16 + 8 + 20 * len(tags) + 8
        entries, rest = [struct.pack("<2sHHHQQ", b"II", 43, 8, 0, 16, len(tags))], b""
        for number, form, values in tags:
            content = values.astype(_FORMATS[form]).tobytes()
            if len(content) > 8:
                place = struct.pack("<Q", end + len(rest))
                rest += content + b"\0" * (-len(content) % 8)
                content = place
            entries.append(struct.pack("<HHQ8s", number, form, len(values), content))
        return b"".join(entries) + struct.pack("<Q", 0) + rest
