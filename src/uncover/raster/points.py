"""Points in CSV files: coordinates in columns, in degrees or in any reference system."""

from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.files import TextTable, not_unicode
from uncover.raster.errors import SceneError
from uncover.raster.footprint import moved
from uncover.raster.grid import Grid

_SUFFIXES = (".csv", ".tsv")
#: Pairs of columns that hold coordinates; the first two are longitude and latitude.
_PAIRS = (
    ("lon", "lat"), ("longitude", "latitude"), ("long", "lat"), ("lng", "lat"),
    ("x", "y"), ("easting", "northing"), ("coord_x", "coord_y"), ("xcoord", "ycoord"),
)  # fmt: skip
_DEGREES = 4
_CRS = ("crs", "epsg", "srid")
_DATES = ("date", "year", "datetime")
_NUMBERS = ("id", "fid", "index")


@lru_cache(maxsize=8)
def _table(path: str, _changed: int) -> tuple[list[str], list[list[str]]]:
    """Header and rows; lines that begin with # are comments."""
    try:
        written = TextTable.of(path)
        with open(path, newline="", encoding=written.encoding) as file:
            lines = [line for line in file if not line.startswith("#")]
    except UnicodeDecodeError:
        raise SceneError(str(not_unicode(path))) from None
    except OSError as error:
        raise SceneError(f"{path} cannot be read as a table of points: {error}") from None
    rows = list(csv.reader(lines, delimiter=written.separator))
    return (rows[0], [row for row in rows[1:] if row]) if rows else ([], [])


def _read(path: str | Path) -> tuple[list[str], list[list[str]]]:
    return _table(str(path), Path(path).stat().st_mtime_ns)


def _pair(header: list[str]) -> tuple[int, int, bool] | None:
    """Columns of x and y, and whether they are degrees."""
    names = [name.strip().lower() for name in header]
    for i, (x, y) in enumerate(_PAIRS):
        if x in names and y in names:
            return names.index(x), names.index(y), i < _DEGREES
    return None


def is_points(path: str | Path) -> bool:
    """True for a CSV file with columns of coordinates: lon and lat, x and y, easting and northing."""
    file = Path(path)
    return file.suffix.lower() in _SUFFIXES and file.is_file() and _pair(_read(file)[0]) is not None


def point_fields(path: str | Path) -> list[str]:
    """Columns that are neither coordinates nor their reference system, dates or row numbers."""
    header, _ = _read(path)
    known = {name for pair in _PAIRS for name in pair} | {*_CRS, *_DATES, *_NUMBERS}
    return [name for name in header if name.strip().lower() not in known]


def point_dates(path: str | Path) -> list[str]:
    """Dates of the points, where a column states them."""
    header, rows = _read(path)
    names = [name.strip().lower() for name in header]
    at = next((names.index(name) for name in _DATES if name in names), None)
    return [] if at is None else [row[at].strip() for row in rows]


def read_points(path: str | Path, fields: tuple[str, ...]) -> tuple[dict[str, Any], Any, list[Any]]:
    """Reference system, points (WKB) and columns; x and y without a column `crs` are in that of the scene."""
    import shapely

    header, rows = _read(path)
    for field in fields:
        if field not in header:
            raise SceneError(f"{path} has no column {field!r}; its columns are {', '.join(header)}")
    short = next((i for i, row in enumerate(rows, start=1) if len(row) < len(header)), None)
    if short is not None:
        raise SceneError(f"{path}: row {short} has fewer values than the header; mend or remove it")
    xy = _coordinates(path)
    columns = [_column([row[header.index(field)].strip() for row in rows]) for field in fields]
    return {"crs": _crs(path)}, shapely.to_wkb(shapely.points(xy)), columns


def _column(texts: list[str]) -> list[Any]:
    """Whole numbers where all are, else text; None where there is none."""
    if all(text.lstrip("-").isdigit() for text in texts):
        return [int(text) for text in texts]
    return [text or None for text in texts]


def _coordinates(path: str | Path) -> NDArray[np.float64]:
    header, rows = _read(path)
    pair = _pair(header)
    assert pair is not None
    x, y, degrees = pair
    comma = TextTable.of(path).decimal

    def number(text: str) -> float:
        return float(text.replace(comma, "."))

    try:
        xy = np.array([(number(row[x]), number(row[y])) for row in rows]).reshape(-1, 2)
    except (ValueError, IndexError) as error:
        raise SceneError(f"{path}: a coordinate is no number ({error}); mend or remove the row") from None
    if degrees and np.abs(xy[:, 1]).max(initial=0) > 90:
        raise SceneError(
            f"{path}: latitudes ({header[y]}) reach {np.abs(xy[:, 1]).max():g}, beyond 90: the columns "
            f"{header[x]} and {header[y]} are swapped; exchange their names"
        )
    return xy


def _crs(path: str | Path) -> str | None:
    header, rows = _read(path)
    names = [name.strip().lower() for name in header]
    at = next((names.index(name) for name in _CRS if name in names), None)
    if at is None:
        pair = _pair(header)
        return "EPSG:4326" if pair is not None and pair[2] else None
    stated = {row[at].strip() for row in rows}
    if len(stated) != 1:
        raise SceneError(
            f"{path} states {len(stated)} reference systems; points of one file have one: split it"
        )
    text = stated.pop()
    return f"EPSG:{text}" if text.isdigit() else text


def refuse_swapped(path: str | Path, grid: Grid) -> None:
    """Refuse points of which none lies on a grid, and some would with their coordinates swapped."""
    xy, crs = _coordinates(path), _crs(path)
    if _on(grid, xy, crs):
        return
    if crs is None and grid.crs is not None and (degrees := _on(grid, xy, "EPSG:4326")):
        raise SceneError(
            f"{path}: no point lies on the scene, and {degrees} of {len(xy)} would if x and y were degrees; "
            "call the columns lon and lat, or add a column crs with 4326"
        )
    if not (swapped := _on(grid, xy[:, ::-1], crs)):
        return
    raise SceneError(
        f"{path}: no point lies on the scene, and {swapped} of {len(xy)} would with the two coordinates "
        "swapped; exchange the names of the columns"
    )


def _on(grid: Grid, xy: NDArray[np.float64], crs: str | None) -> int:
    """Number of points on a grid."""
    from rasterio.crs import CRS

    if crs is not None and CRS.from_user_input(crs).is_geographic and np.abs(xy[:, 1]).max(initial=0) > 90:
        return 0
    there = xy if crs is None or grid.crs is None else moved(xy.copy(), crs, grid.crs)
    if there is None:
        return 0
    row, col = grid.places(*there.T)
    with np.errstate(invalid="ignore"):
        return int(((row >= 0) & (col >= 0) & (row < grid.height) & (col < grid.width)).sum())
