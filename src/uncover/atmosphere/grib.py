"""The aerosol optical depth in a GRIB file: shifted by a constant, and read at a place and time.

Packed values are y·10^D = R + X·2^E (WMO Manual on Codes 306), so adding a constant to a field is adding
constant·10^D to R, without decoding X. That holds for simple, complex and JPEG 2000 packing, and for both
editions of GRIB. Values are read from edition 1 with simple packing, which is what AUX_CAMSFO has.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from uncover.files import reader

Array = npt.NDArray[Any]

# Aerosol optical depth at 550 nm as ECMWF codes it: parameter 207 of table 210; and in WMO's own table of
# edition 2: discipline 0 (meteorology), category 20 (constituents), number 102 (optical thickness).
AOD_EDITION_1 = (210, 207)
AOD_EDITION_2 = ((192, 210, 207), (0, 20, 102))

#: A field that is further away in time does not say anything about a scene: CAMS has one every 1 or 3 hours.
LONGEST = timedelta(hours=3)
#: A field of the whole Earth at 0.1 degrees has 6.5 million nodes.
_MOST_NODES = 1 << 23
#: Minutes of the units in which forecast times are coded (table 4 of edition 1).
_MINUTES = {0: 1, 1: 60, 2: 1440, 10: 180, 11: 360, 12: 720}


@dataclass(frozen=True)
class Field:
    """Where a field keeps its reference value: ``smallest`` is the least value of the field."""

    offset: int
    edition: int
    reference: float
    decimal_scale: int

    @property
    def smallest(self) -> float:
        """The least value of the field: that of X = 0."""
        return self.reference / 10.0**self.decimal_scale

    def shifted(self, constant: float) -> bytes:
        """The four bytes of the reference value after a shift."""
        reference = self.reference + constant * 10.0**self.decimal_scale
        return encode_ibm(reference) if self.edition == 1 else struct.pack(">f", reference)


def aod_fields(content: bytes) -> list[Field]:
    """The fields of aerosol optical depth at 550 nm in a GRIB file."""
    fields = (_field(content, start) for start in _messages(content))
    return [field for field in fields if field is not None]


@reader
def shift_aod(content: bytes, constant: float) -> bytes:
    """The file with a constant added to the aerosol optical depth."""
    fields = aod_fields(content)
    if not fields:
        raise ValueError(
            "no field of aerosol optical depth at 550 nm in the GRIB file; "
            "use the visibility mode, which needs no CAMS field"
        )
    changed = bytearray(content)
    for field in fields:
        changed[field.offset : field.offset + 4] = field.shifted(constant)
    return bytes(changed)


@dataclass(frozen=True)
class AodGrid:
    """Optical depth on a grid of latitudes and longitudes (degrees) at one time."""

    time: datetime
    latitudes: Array  # (row,)
    longitudes: Array  # (col,), ascending or descending without a jump at 180°
    values: Array  # (row, col)

    def at(self, longitude: float, latitude: float) -> float:
        """The value at a place, bilinear between the four nodes around it."""
        middle = self.longitudes[len(self.longitudes) // 2]
        longitude = middle + (longitude - middle + 180.0) % 360.0 - 180.0
        row, down = _between(self.latitudes, latitude, "latitude")
        col, across = _between(self.longitudes, longitude, "longitude")
        (a, b), (c, d) = self.values[row : row + 2, col : col + 2]
        upper, lower = a + across * (b - a), c + across * (d - c)
        return float(upper + down * (lower - upper))


def _between(nodes: Array, value: float, name: str) -> tuple[int, float]:
    """The node before a value, and how far it lies on the way to the next.

    The field of a tile reaches from its north-western to its south-eastern corner by latitude and longitude.
    Edges of the tile lie a little outside: they take the value at the edge of the field.
    """
    outside = max(nodes.min() - value, value - nodes.max())
    if outside > abs(nodes[1] - nodes[0]):
        raise ValueError(
            f"the field of aerosol optical depth covers {name}s from {nodes.min():g} to {nodes.max():g}; the "
            f"scene is at {value:.3f}: it is the file of another place"
        )
    place = float(np.interp(value, *_ascending(nodes)))
    first = min(int(place), len(nodes) - 2)
    return first, place - first


def _ascending(nodes: Array) -> tuple[Array, Array]:
    order = np.argsort(nodes)
    return nodes[order], order.astype(float)


@reader
def aod_at(content: bytes, longitude: float, latitude: float, time: datetime) -> float:
    """The aerosol optical depth at 550 nm at a place and time, from a GRIB file.

    Bilinear in place; linear in time between the fields before and after, the nearest field where there is
    none before or after, if it is within three hours.
    """
    fields = sorted(aod_grids(content), key=lambda field: field.time)
    if not fields:
        raise ValueError("there is no field of aerosol optical depth at 550 nm in the GRIB file; give --aod")
    before = [field for field in fields if field.time <= time]
    after = [field for field in fields if field.time >= time]
    first, last = (before or after)[-1 if before else 0], (after or before)[0 if after else -1]
    nearest = min((first, last), key=lambda field: abs(field.time - time))
    if abs(nearest.time - time) > LONGEST:
        raise ValueError(
            f"the forecast of aerosol optical depth is for {nearest.time:%Y-%m-%d %H:%M} and the scene was "
            f"taken at {time:%Y-%m-%d %H:%M} UTC: it is the file of another date; give --aod"
        )
    start, end = first.at(longitude, latitude), last.at(longitude, latitude)
    span = (last.time - first.time).total_seconds()
    return start + (end - start) * ((time - first.time).total_seconds() / span if span else 0.0)


def aod_grids(content: bytes) -> list[AodGrid]:
    """The fields of aerosol optical depth at 550 nm of a GRIB file, decoded."""
    found = []
    for start in _messages(content):
        field = _field(content, start)
        if field is not None and field.edition != 1:
            raise ValueError(
                "the field of aerosol optical depth is in edition 2 of GRIB; edition 1 is read, as "
                "AUX_CAMSFO has it: give --aod"
            )
        if field is not None:
            found.append(_decoded(content, start, field))
    return found


def constant_aod(value: float, time: datetime, west: float, south: float, east: float, north: float) -> bytes:
    """A GRIB file of one optical depth, to four decimals, in a rectangle of longitudes and latitudes."""
    century, year = divmod(time.year - 1, 100)
    moment = [year + 1, time.month, time.day, time.hour, time.minute, 0, 0, 0, 0, 0, 0, 0, century + 1, 0]
    table, parameter = AOD_EDITION_1
    product = bytes([0, 0, 28, table, 98, 0, 255, 0x80, parameter, 1, 0, 0, *moment, 0, 4])
    corners = [round(1000 * degrees) for degrees in (north, west, south, east)]
    first, last = (b"".join(_signed_octets(each) for each in pair) for pair in (corners[:2], corners[2:]))
    grid = b"\x00\x00\x20\x00\xff\x00\x00\x02\x00\x02" + first + b"\x00" + last + bytes(9)
    data = b"\x00\x00\x10\x08\x00\x00" + encode_ibm(round(value * 1e4)) + b"\x08" + bytes(5)  # X = 0, 8 bits
    sections = product + grid + data + b"7777"
    return b"GRIB" + (8 + len(sections)).to_bytes(3, "big") + b"\x01" + sections


def _signed_octets(value: int) -> bytes:
    """Three octets, the first bit being the sign."""
    return (abs(value) | (0x800000 if value < 0 else 0)).to_bytes(3, "big")


def _decoded(content: bytes, start: int, field: Field) -> AodGrid:
    """A field of edition 1: where its nodes lie, when it is valid, and its values."""
    product = start + 8
    grid = product + _length_3(content, product)
    flags, kind, data = content[product + 7], content[grid + 5], field.offset - 6
    if not flags & 0x80 or flags & 0x40 or kind != 0 or content[data + 3] & 0xF0:
        raise ValueError(
            "the field of aerosol optical depth is not a full grid of latitudes and longitudes in simple "
            "packing, as AUX_CAMSFO has it; give --aod"
        )
    cols, rows = (int.from_bytes(content[grid + at : grid + at + 2], "big") for at in (6, 8))
    if rows * cols > _MOST_NODES or min(rows, cols) < 2:
        raise ValueError(f"the field of aerosol optical depth has {rows} x {cols} nodes; it is damaged")
    first, last = (
        [_sign_magnitude(content[grid + at + i : grid + at + i + 3]) / 1000.0 for i in (0, 3)]
        for at in (10, 17)
    )
    scanning = content[grid + 27]
    if not scanning & 0x80 and last[1] < first[1]:  # eastwards, across 180 degrees
        last[1] += 360.0
    packed = _unpacked(content, data, rows * cols)
    scale = 2.0 ** _sign_magnitude(content[data + 4 : data + 6])
    values = (field.reference + packed * scale) / 10.0**field.decimal_scale
    shaped = values.reshape(cols, rows).T if scanning & 0x20 else values.reshape(rows, cols)
    latitudes, longitudes = np.linspace(first[0], last[0], rows), np.linspace(first[1], last[1], cols)
    return AodGrid(_valid_time(content, product), latitudes, longitudes, shaped)


def _unpacked(content: bytes, data: int, count: int) -> Array:
    """The whole numbers X of a section of packed data."""
    bits = content[data + 10]
    octets = content[data + 11 : data + _length_3(content, data)]
    if 8 * len(octets) < count * bits:
        raise ValueError("the field of aerosol optical depth is cut short; fetch the product again")
    digits = np.unpackbits(np.frombuffer(octets, np.uint8))[: count * bits].reshape(count, bits)
    powers: Array = 2.0 ** np.arange(bits - 1, -1, -1)
    numbers: Array = digits @ powers
    return numbers


def _valid_time(content: bytes, product: int) -> datetime:
    """When a field of edition 1 is valid: its reference time and how far ahead it was forecast."""
    year, month, day, hour, minute, unit, first, second, meaning = content[product + 12 : product + 21]
    century = content[product + 24]
    if meaning not in (0, 1, 10) or unit not in _MINUTES:
        raise ValueError("the field of aerosol optical depth is not of one moment; give --aod")
    ahead = {0: first, 1: 0, 10: 256 * first + second}[meaning]
    start = datetime(100 * (century - 1) + year, month, day, hour, minute, tzinfo=UTC)
    return start + timedelta(minutes=ahead * _MINUTES[unit])


def _field(content: bytes, start: int) -> Field | None:
    return _edition_1(content, start) if content[start + 7] == 1 else _edition_2(content, start)


def _messages(content: bytes) -> Iterator[int]:
    """Where the messages of a file begin."""
    start = content.find(b"GRIB")
    while start >= 0:
        first, last = (4, 7) if content[start + 7 : start + 8] == b"\x01" else (8, 16)
        end = start + max(int.from_bytes(content[start + first : start + last], "big"), 16)
        if end > len(content):
            raise ValueError("the GRIB file is cut short; fetch the product again")
        yield start
        start = content.find(b"GRIB", end)


def _edition_1(content: bytes, start: int) -> Field | None:
    product = start + 8
    if (content[product + 3], content[product + 8]) != AOD_EDITION_1:
        return None
    decimal_scale = _sign_magnitude(content[product + 26 : product + 28])
    flags, position = content[product + 7], product + _length_3(content, product)
    for present in (flags & 0x80, flags & 0x40):  # the grid and the bit map are optional
        position += _length_3(content, position) if present else 0
    offset = position + 6
    return Field(offset, 1, decode_ibm(content[offset : offset + 4]), decimal_scale)


def _edition_2(content: bytes, start: int) -> Field | None:
    discipline, position = content[start + 6], start + 16
    wanted = False
    while content[position : position + 4] != b"7777":
        length, number = int.from_bytes(content[position : position + 4], "big"), content[position + 4]
        if length < 5 or position + length > len(content):
            raise ValueError("the GRIB file is damaged: a section's length is wrong; fetch the product again")
        if number == 4:
            wanted = (discipline, content[position + 9], content[position + 10]) in AOD_EDITION_2
        if number == 5 and wanted:
            (reference,) = struct.unpack(">f", content[position + 11 : position + 15])
            return Field(position + 11, 2, reference, _sign_magnitude(content[position + 17 : position + 19]))
        position += length
    return None


def _length_3(content: bytes, position: int) -> int:
    return int.from_bytes(content[position : position + 3], "big")


def _sign_magnitude(octets: bytes) -> int:
    value, sign = int.from_bytes(octets, "big"), 1 << 8 * len(octets) - 1
    return value if value < sign else sign - value


def decode_ibm(octets: bytes) -> float:
    """A 32-bit IBM hexadecimal float: (−1)^s · 16^(e−64) · f/2^24."""
    word = int.from_bytes(octets, "big")
    sign = -1.0 if word >> 31 else 1.0
    return sign * (word & 0xFFFFFF) / 2.0**24 * 16.0 ** ((word >> 24 & 0x7F) - 64)


def encode_ibm(value: float) -> bytes:
    """The 32-bit IBM hexadecimal float nearest to a value."""
    if value == 0:
        return bytes(4)
    exponent, fraction = 64, abs(value)
    while fraction >= 1:
        exponent, fraction = exponent + 1, fraction / 16
    while fraction < 1 / 16:
        exponent, fraction = exponent - 1, fraction * 16
    mantissa = round(fraction * 2**24)
    if mantissa == 1 << 24:
        exponent, mantissa = exponent + 1, 1 << 20
    return ((0x80 if value < 0 else 0) << 24 | exponent << 24 | mantissa).to_bytes(4, "big")
