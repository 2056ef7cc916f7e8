"""The head of a plain TIFF: no compression, every tile at a place that is known before it is written."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

import numpy as np

_PAGE = 4096  # tiles begin at whole pages of memory
_SHORT, _LONG, _OFFSET = 3, 4, 16
_FORMATS = {_SHORT: "<u2", _LONG: "<u4", _OFFSET: "<u8"}
_KINDS = {"u": 1, "i": 2, "f": 3}


@dataclass(frozen=True)
class PlainTiff:
    """Bands of one type in square tiles, one band after the other within a tile (BigTIFF, little-endian).

    Tiles at the right and at the bottom are whole, too: what lies outside the raster does not count.

    >>> tiff = PlainTiff(height=300, width=10, bands=2, dtype="uint16", tile=256)
    >>> tiff.tiles, tiff.place(1) - tiff.place(0) == tiff.tile_bytes
    (2, True)
    """

    height: int
    width: int
    bands: int
    dtype: str
    tile: int

    @property
    def tiles(self) -> int:
        """How many tiles there are, row by row."""
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
        """What the file begins with."""
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
