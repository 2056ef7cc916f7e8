"""Shift one field of a GRIB file by a constant, by its reference value alone. No decoding of the packed data.

Packed values are y·10^D = R + X·2^E (WMO Manual on Codes 306), so adding a constant to a field is adding
constant·10^D to R. That holds for simple, complex and JPEG 2000 packing, and for both editions of GRIB.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

# Aerosol optical depth at 550 nm as ECMWF codes it: parameter 207 of table 210; and in WMO's own table of
# edition 2: discipline 0 (meteorology), category 20 (constituents), number 102 (optical thickness).
AOD_EDITION_1 = (210, 207)
AOD_EDITION_2 = ((192, 210, 207), (0, 20, 102))


@dataclass(frozen=True)
class Field:
    """Where a field keeps its reference value: ``smallest`` is the least value of the field.

    >>> Field(offset=0, edition=2, reference=50.0, decimal_scale=3).smallest
    0.05
    """

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
    """The fields of aerosol optical depth at 550 nm in a GRIB file.

    >>> aod_fields(b"no grib here")
    []
    """
    return [field for field in _fields(content) if field is not None]


def shift_aod(content: bytes, constant: float) -> bytes:
    """The file with a constant added to the aerosol optical depth.

    >>> shift_aod(b"no grib here", 0.1)
    Traceback (most recent call last):
    ...
    ValueError: no field of aerosol optical depth at 550 nm in the GRIB file; ...
    """
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


def _fields(content: bytes) -> Iterator[Field | None]:
    start = content.find(b"GRIB")
    while start >= 0:
        edition = content[start + 7]
        yield _edition_1(content, start) if edition == 1 else _edition_2(content, start)
        length = (
            int.from_bytes(content[start + 4 : start + 7], "big")
            if edition == 1
            else int.from_bytes(content[start + 8 : start + 16], "big")
        )
        start = content.find(b"GRIB", start + max(length, 8))


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
    value = int.from_bytes(octets, "big")
    return value if value < 0x8000 else 0x8000 - value


def decode_ibm(octets: bytes) -> float:
    """A 32-bit IBM hexadecimal float: (−1)^s · 16^(e−64) · f/2^24.

    >>> decode_ibm(bytes.fromhex("c276a000"))
    -118.625
    """
    word = int.from_bytes(octets, "big")
    sign = -1.0 if word >> 31 else 1.0
    return sign * (word & 0xFFFFFF) / 2.0**24 * 16.0 ** ((word >> 24 & 0x7F) - 64)


def encode_ibm(value: float) -> bytes:
    """The 32-bit IBM hexadecimal float nearest to a value.

    >>> encode_ibm(-118.625).hex()
    'c276a000'
    """
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
