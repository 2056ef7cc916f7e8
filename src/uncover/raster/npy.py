"""Arrays of NumPy files (.npy) as rasters of GDAL, read where they lie: (row, col, band), dates before."""

from __future__ import annotations

import re
from html import escape
from math import prod
from pathlib import Path

import numpy as np
from numpy.lib import format as npy_format

from uncover.raster.errors import ReadError, SceneError

#: Bands of an array by their number: those of Level-1C products, and of Level-2A, in their order.
_L1C = ("B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B09", "B10", "B11", "B12")
_BANDS = {13: _L1C, 12: tuple(band for band in _L1C if band != "B10")}
_TYPES = {
    "b1": "Byte", "u1": "Byte", "i1": "Int8", "u2": "UInt16", "i2": "Int16", "u4": "UInt32", "i4": "Int32",
    "u8": "UInt64", "i8": "Int64", "f4": "Float32", "f8": "Float64",
}  # fmt: skip


def is_npy(name: str | Path) -> bool:
    """True for `FILE.npy` and `FILE.npy:DATE`."""
    return re.search(r"\.npy(:\d+)?$", str(name), re.IGNORECASE) is not None


def npy_file(name: str | Path) -> tuple[Path, int | None]:
    """File and date (from 1) of `FILE.npy:DATE`."""
    match = re.fullmatch(r"(.*\.npy)(?::(\d+))?", str(name), re.IGNORECASE)
    assert match is not None
    return Path(match.group(1)), None if match.group(2) is None else int(match.group(2))


def stem(name: str | Path) -> str:
    """Name of a file without its ending; of an array with its date.

    >>> stem("a/scene.tif"), stem("a/dates.npy:3")
    ('scene', 'dates:3')
    """
    path, date = npy_file(name) if is_npy(name) else (Path(name), None)
    return path.stem if date is None else f"{path.stem}:{date}"


def as_vrt(name: str | Path) -> str:
    """The array as a virtual raster of GDAL, which reads the file itself."""
    path, date = npy_file(name)
    shape, dtype, start = _header(path)
    dates, (height, width, bands) = 1, (*shape, 1)[:3]
    if len(shape) == 4:
        dates, height, width, bands = shape
    if len(shape) == 4 and date is None and dates > 1:
        raise SceneError(f"{path} has {dates} dates; choose one: {path}:1 to {path}:{dates}")
    if date is not None and not 1 <= date <= dates:
        raise SceneError(f"{path} has {dates} date(s); date {date} was asked for")
    size = dtype.itemsize
    start += ((date or 1) - 1) * prod((height, width, bands)) * size
    names = _BANDS.get(bands, ("",) * bands)
    order = "MSB" if dtype.byteorder == ">" else "LSB"
    planes = "".join(
        f'<VRTRasterBand dataType="{_TYPES[dtype.str[1:]]}" band="{i + 1}" subClass="VRTRawRasterBand">'
        + (f"<Description>{band}</Description>" if band else "")
        + f'<SourceFilename relativeToVRT="0">{escape(str(path.absolute()))}</SourceFilename>'
        f"<ImageOffset>{start + i * size}</ImageOffset><PixelOffset>{bands * size}</PixelOffset>"
        f"<LineOffset>{width * bands * size}</LineOffset><ByteOrder>{order}</ByteOrder></VRTRasterBand>"
        for i, band in enumerate(names)
    )
    return f'<VRTDataset rasterXSize="{width}" rasterYSize="{height}">{planes}</VRTDataset>'


def _header(path: Path) -> tuple[tuple[int, ...], np.dtype[np.generic], int]:
    """Shape and type of the array, and the byte at which its numbers begin."""
    try:
        with open(path, "rb") as stream:
            version = npy_format.read_magic(stream)
            read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
            shape, by_columns, dtype = read(stream)
            start = stream.tell()
    except (OSError, ValueError) as error:
        raise ReadError(f"{path} cannot be read as a NumPy array: {error}") from error
    if not 2 <= len(shape) <= 4 or by_columns or dtype.str[1:] not in _TYPES:
        raise SceneError(
            f"{path} is an array of shape {shape} and type {dtype}; (row, col), (row, col, band) or "
            "(date, row, col, band) of plain numbers in C order is needed: save "
            "numpy.ascontiguousarray(array, 'float32')"
        )
    if path.stat().st_size < start + prod(shape) * dtype.itemsize:
        raise ReadError(f"{path} is truncated; fetch it again")
    return shape, dtype, start
