"""Vector files: features in the CRS of a grid, burnt onto its pixels with the class that a field names."""

from __future__ import annotations

import errno
import os
import re
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.files import reader
from uncover.raster.errors import ReadError, SceneError, require
from uncover.raster.footprint import moved, outline
from uncover.raster.grid import Bounds, Grid, Window, same_crs, warn_of_unknown_crs
from uncover.raster.names import split_layer
from uncover.raster.points import is_points, point_fields, read_points, refuse_swapped

#: Why a feature of a vector file gives no label.
POLYGON_SMALL = "polygon(s) without a pixel centre"
POLYGON_OFF = "polygon(s) off the grid"
POLYGON_COVERED = "polygon(s) covered by later ones"
POINT_OFF = "point(s) off the grid"
POINT_COVERED = "point(s) in a pixel of a later one"


@dataclass(frozen=True)
class Feature:
    """One geometry, already in the grid's CRS, with the values of the fields that were asked for."""

    number: int
    shape: Any  # shapely geometry
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Burned:
    """Vector labels on a grid. `code` 0 is "no label"; `names` says what the others stand for.

    `feature` numbers the geometries from 1 on, 0 where there is none: what belongs to one polygon can be kept
    together when samples are split. `lost` counts what gives no label, by reason and class.

    >>> burned = Burned(np.array([[0, 2]]), np.array([[0, 7]]), {1: "forest", 2: "water"})
    >>> burned.labels().tolist()
    [['', 'water']]
    """

    code: NDArray[np.int32]  # (row, col)
    feature: NDArray[np.int32]  # (row, col)
    names: dict[int, str]
    lost: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def vanished(self) -> tuple[str, ...]:
        """Classes that the file has and no pixel."""
        present = set(np.unique(self.code).tolist())
        return tuple(name for code, name in self.names.items() if code not in present)

    def labels(self) -> NDArray[np.str_]:
        """Class names per pixel, empty where there is no label."""
        table = np.array([self.names.get(code, "") for code in range(max(self.names, default=0) + 1)])
        return table[self.code]


@reader
def read_features(path: str | Path, grid: Grid | None, fields: tuple[str, ...] = ()) -> list[Feature]:
    """All geometries of a vector file with those fields, in the CRS of a grid (their own without one).

    Only what lies near the grid is brought to another CRS, since far from its zone a projection folds back or
    fails. Shapes are cut in their own CRS, and empty where nothing is left; points elsewhere lie beside it.
    """
    meta, wkb, columns = _read(path, fields)
    import shapely

    if grid is not None and is_points(path):
        refuse_swapped(path, grid)

    if wkb is None or len(wkb) == 0:
        raise SceneError(f"{path} holds no geometry; a layer with polygons or points is needed")
    shapes = shapely.from_wkb(wkb)
    present = [i for i, shape in enumerate(shapes) if shape is not None and not shape.is_empty]
    own = meta["crs"]
    if grid is not None and not is_points(path):  # x and y of points are in the system of the scene
        warn_of_unknown_crs(path, own, grid)
    if own and grid is not None and grid.crs and not same_crs(own, grid.crs):
        shapes = _reproject(_near(shapes, own, grid), own, grid.crs, path)
    return [Feature(i + 1, shapes[i], tuple(column[i] for column in columns)) for i in present]


@dataclass(frozen=True)
class Regions:
    """Some polygons of a vector file: their geometry in its own CRS (WKB), and in that of a grid."""

    first: int  # number of the first of them in the file, from 1
    crs: str | None
    wkb: NDArray[Any]
    shapes: NDArray[Any]  # empty where nothing lies near the grid
    values: NDArray[Any] | None  # of the field that was asked for

    def __len__(self) -> int:
        return len(self.wkb)


def read_regions(
    path: str | Path, grid: Grid, field: str | None = None, size: int = 10_000
) -> Iterator[Regions]:
    """Polygons of a vector file, so many at a time; geometry that is none, or invalid, is refused."""
    require("pyogrio", "shapely", "rasterio")
    if field is not None and field not in (available := fields_of(path)):
        raise SceneError(f"{path} has no field {field!r}; its fields are {', '.join(available) or 'none'}")
    start = 0
    while some := _some_regions(path, grid, field, start, size):
        yield some
        start += len(some)


@reader
def _some_regions(path: str | Path, grid: Grid, field: str | None, start: int, size: int) -> Regions | None:
    """Polygons from a number on; None after the last."""
    meta, wkb, columns = _read(path, () if field is None else (field,), (start, size))
    if wkb is None or len(wkb) == 0:
        if start == 0:
            raise SceneError(f"{path} holds no geometry; a layer with polygons is needed")
        return None
    shapes = _valid_polygons(path, wkb, start)
    own = meta["crs"]
    if own and grid.crs and not same_crs(own, grid.crs):
        shapes = _reproject(_near(shapes, own, grid), own, grid.crs, path)
    return Regions(start + 1, own or grid.crs, wkb, shapes, columns[0] if columns else None)


def _valid_polygons(path: str | Path, wkb: NDArray[Any], before: int) -> NDArray[Any]:
    import shapely

    shapes = np.asarray(shapely.from_wkb(wkb))
    missing = np.array([shape is None or shape.is_empty for shape in shapes])
    wrong = missing | ~np.isin(shapely.get_type_id(shapes), (3, 6)) | ~shapely.is_valid(shapes)
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        why = "has no geometry" if missing[i] else f"is a {shapes[i].geom_type}"
        if not missing[i] and not shapely.is_valid(shapes[i]):
            why = f"is invalid ({shapely.is_valid_reason(shapes[i])})"
        raise SceneError(
            f"feature {before + i + 1} of {path} {why}; regions are valid polygons: remove or mend it "
            "(in QGIS: Fix geometries)"
        )
    return shapes


def read_polygons(path: str | Path, grid: Grid) -> list[Any]:
    """Polygons of a vector file that lie near a grid, in its CRS; an error where there is none."""
    shapes = [feature.shape for feature in read_features(path, grid)]
    # A shape that was cut away is empty, and no longer says that it was a polygon.
    polygons = [shape for shape in shapes if shape.is_empty or "Polygon" in shape.geom_type]
    found = [shape for shape in polygons if not shape.is_empty]
    if not polygons:
        raise SceneError(f"{path} holds no polygon; an area of interest needs one")
    if not found:
        raise SceneError(
            f"the area of {path} lies outside the scene, whose bounds are {grid.bounds} ({grid.crs}); check "
            "its coordinates and its CRS"
        )
    return found


def _read(
    path: str | Path, fields: tuple[str, ...], part: tuple[int, int] | None = None
) -> tuple[Any, Any, list[Any]]:
    """Metadata, geometries and fields, of all features or of a part: the first, and how many."""
    if is_points(path):
        return read_points(path, fields)
    file, layer = open_layer(path)
    available = fields_of(path)
    if lacking := [name for name in fields if name not in available]:
        raise SceneError(
            f"{path} has no field {lacking[0]!r}; its fields are {', '.join(available) or 'none'}"
        )
    import pyogrio
    from pyogrio.errors import DataSourceError

    try:
        some = {} if part is None else {"skip_features": part[0], "max_features": part[1]}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Several features with id", RuntimeWarning)
            meta, _, wkb, data = pyogrio.raw.read(
                file, layer=layer, columns=list(fields), force_2d=True, **some
            )
    except DataSourceError as error:
        raise ReadError(f"{path} cannot be read as a vector file: {error}") from error
    order = list(meta["fields"])
    return meta, wkb, [data[order.index(name)] for name in fields]


@reader
def fields_of(path: str | Path) -> list[str]:
    """Names of the fields of a vector file, or of the columns of a table of points but coordinates."""
    if is_points(path):
        return point_fields(path)
    file, layer = open_layer(path)
    import pyogrio

    return [str(name) for name in pyogrio.read_info(file, layer=layer)["fields"]]


def open_layer(path: str | Path) -> tuple[str, str]:
    """File and layer of `FILE` or `FILE:LAYER`; an error where the file has several and none is named.

    Tables without geometries, such as the styles of QGIS, do not count.
    """
    require("pyogrio", "shapely", "rasterio")
    import pyogrio
    from pyogrio.errors import DataSourceError

    file, asked = split_layer(path)
    if not file.startswith("/vsi") and not Path(file).exists():
        raise SceneError(f"{file} does not exist; check the path")
    try:
        layers = [str(name) for name, kind in pyogrio.list_layers(file) if kind is not None]
    except DataSourceError as error:
        raise ReadError(f"{file} cannot be read as a vector file: {error}") from error
    if asked in layers or (asked is None and len(layers) == 1):
        return file, asked or layers[0]
    listed = f"{len(layers)} layers with geometries ({', '.join(layers)})"
    if asked is not None:
        raise SceneError(f"{file} has no layer {asked!r}; it has {listed}")
    raise SceneError(f"{file} has {listed}; name one of them, {file}:{layers[0] if layers else 'LAYER'}")


def class_field_of(path: str | Path, asked: str | None) -> str:
    """The field that holds the class: the one asked for, one called like it, or the only one."""
    if asked is not None:
        return asked
    fields = fields_of(path)
    if not fields:
        raise SceneError(f"{path} has no field that names classes; give its features one")
    named = [name for name in fields if name.lower() in CLASS_FIELDS]
    if len(named) == 1 or len(fields) == 1:
        return (named or fields)[0]
    listed = ", ".join(_with_values(path, name) for name in fields)
    raise SceneError(f"{path} has the fields {listed}; say with --class-field which of them holds the class")


#: Names that fields of classes usually have.
CLASS_FIELDS = ("class", "classes", "label", "labels", "land_cover", "landcover", "class_name", "classname")


def _with_values(path: str | Path, field: str) -> str:
    """A field with some of its values, to be recognised by."""
    found = (f.values[0] for f in read_features(path, None, (field,)))
    values = list(dict.fromkeys(str(v) for v in found if v is not None and v == v))
    return f"{field} ({', '.join(values[:3]) or 'empty'}{', …' if len(values) > 3 else ''})"


def _near(shapes: Any, crs: str, grid: Grid) -> Any:
    """Geometries cut to the bounds of a grid in their CRS, with a margin; as they are where it has none."""
    import shapely
    from rasterio.crs import CRS

    turn = 360.0 if CRS.from_user_input(crs).is_geographic else 0.0
    bounds = _bounds_nearby(grid, crs, turn)
    if bounds is None:
        return shapes
    left, bottom, right, top = bounds
    boxes = shapely.union_all([shapely.box(left + t, bottom, right + t, top) for t in (-turn, 0.0, turn)])

    def draw(points: NDArray[np.float64]) -> NDArray[np.float64]:
        if turn:
            points[:, 0] += turn * np.round(((left + right) / 2 - points[:, 0]) / turn)
        return np.clip(points, bounds[:2], bounds[2:])

    found, size = shapes.copy(), shapely.get_dimensions(shapes)
    found[size == 0] = shapely.transform(shapes[size == 0], draw)
    beyond = np.flatnonzero((size > 0) & ~shapely.covered_by(shapely.envelope(shapes), boxes))
    for i in beyond:
        cut = shapely.intersection(shapely.make_valid(shapes[i]), boxes)
        parts = shapely.get_parts(shapely.get_parts(cut))
        parts = parts[shapely.get_dimensions(parts) == size[i]]
        empty = shapely.MultiPolygon() if size[i] == 2 else shapely.MultiLineString()
        found[i] = shapely.union_all(parts) if len(parts) else empty
    return found


def _bounds_nearby(grid: Grid, crs: str, turn: float) -> Bounds | None:
    """Bounds of a grid in another CRS and a tenth of its size around them; None where it has no such place.

    In degrees longitudes run on beyond 180, and bounds around a pole reach it at all longitudes.
    """
    there = outline(grid, 64, crs)
    if there is None:
        return None
    own = outline(grid, 64, str(grid.crs))
    back = moved(there, crs, str(grid.crs))
    if own is None or back is None or not np.allclose(back, own, rtol=0.0, atol=0.1 * max(grid.resolution)):
        return None  # the projection folds back there
    if turn:
        there[:, 0] = np.unwrap(there[:, 0], period=turn)
    low, high = there.min(axis=0), there.max(axis=0)
    if turn and abs(there[-1, 0] - there[0, 0]) > turn / 2:
        low[0], high[0] = -turn, turn
        low[1], high[1] = (low[1], 90.0) if there[:, 1].mean() > 0 else (-90.0, high[1])
    margin = 0.1 * (high - low)
    left, bottom, right, top = (float(value) for value in (*(low - margin), *(high + margin)))
    return left, bottom, right, top


def _reproject(shapes: Any, source: str, target: str, path: str | Path) -> Any:
    """Geometries in another CRS, with points along their edges: a straight line of one is a curve in another.

    Between points a kilometre apart the curve is off by a few centimetres, below a metre at 85° of latitude.
    """
    import shapely
    from rasterio.crs import CRS

    crs = CRS.from_user_input(source)
    shapes = shapely.segmentize(shapes, 0.01 if crs.is_geographic else 1000.0 / crs.linear_units_factor[1])

    def move(points: NDArray[np.float64]) -> NDArray[np.float64]:
        found = moved(points, source, target)
        if found is None:
            raise SceneError(
                f"{path} ({source}) reaches places that {target}, the CRS of the scene, does not; cut it to "
                "the scene, or save it in that CRS"
            )
        return found

    return shapely.transform(shapes, move)


def burn_vector(path: str | Path, grid: Grid, field: str, *, keep_codes: bool = True) -> Burned:
    """Labels of a vector file on a grid: polygons by pixel centre, points by pixel.

    Whole numbers are codes themselves, which must be positive; text, and without `keep_codes` all, is
    numbered from 1 in sorted order. Where features overlap, the later one counts. Features without a value
    in `field` are an error.
    """
    features = read_features(path, grid, (field,))
    if not features:
        raise SceneError(f"{path} holds no feature; labels need points or polygons")
    texts = texts_of((feature.values[0] for feature in features), path, field)
    codes, names = _codes(texts, path, field, keep_codes)
    shapes = [(feature.shape, feature.number) for feature in features if not feature.shape.is_empty]
    burnt = burn(shapes, grid)
    if not burnt.any():
        raise SceneError(
            f"no feature of {path} covers a pixel of the scene, whose bounds are {grid.bounds} ({grid.crs}); "
            "check that they overlap"
        )
    table = np.zeros(max(feature.number for feature in features) + 1, np.int32)
    table[[feature.number for feature in features]] = codes
    lost: dict[str, dict[str, int]] = {}
    for feature, code in zip(features, codes, strict=True):
        for reason, n in _lost_of(feature, burnt, grid).items():
            by_class = lost.setdefault(reason, {})
            by_class[names[code]] = by_class.get(names[code], 0) + n
    return Burned(table[burnt], burnt, names, lost)


def texts_of(values: Iterable[Any], path: str | Path, field: str) -> list[str]:
    """Values of a field as text, whole numbers without a decimal point; refused where some are missing."""
    listed = list(values)
    if any(isinstance(value, np.ndarray | list | dict) for value in listed):
        raise SceneError(f"{path}: field {field!r} holds lists; give each feature one value")
    missing = sum(value is None or value != value or str(value).strip() == "" for value in listed)
    if missing:
        raise SceneError(
            f"{path}: {missing:,} of {len(listed):,} features have no value in field {field!r}; fill it in "
            "or remove them"
        )
    numbers = all(isinstance(v, int | float | np.number) and not isinstance(v, bool) for v in listed)
    if numbers and all(isinstance(value, int) or float(value).is_integer() for value in listed):
        return [str(int(value)) for value in listed]
    return [str(value) for value in listed]


def _codes(texts: list[str], path: str | Path, field: str, keep: bool) -> tuple[list[int], dict[int, str]]:
    """Codes of values, their own ones to keep or numbers from 1 on; and what they stand for."""
    if keep and all(re.fullmatch(r"-?\d+", text) for text in texts):
        codes = [int(text) for text in texts]
        if max(codes, default=0) >= 2**31:
            largest = str(max(codes))[:20]
            raise SceneError(f"{path}: field {field!r} holds {largest}; class codes are small numbers")
        if min(codes) < 1:
            raise SceneError(
                f"{path}: field {field!r} holds {min(codes)}; class codes start at 1, 0 means no label"
            )
        return codes, {code: str(code) for code in sorted(set(codes))}
    names = {name: code for code, name in enumerate(sorted(set(texts)), start=1)}
    return [names[text] for text in texts], {code: name for name, code in names.items()}


def burn(shapes: list[tuple[Any, int]], grid: Grid) -> NDArray[np.int32]:
    """Numbers of shapes on the pixels whose centres they hold; the later one counts, 0 is none."""
    from affine import Affine
    from rasterio.features import rasterize

    place = {"out_shape": grid.shape, "transform": Affine(*grid.transform)}
    return np.asarray(rasterize(shapes, fill=0, dtype="int32", **place))


def _lost_of(feature: Feature, burnt: NDArray[np.int32], grid: Grid) -> dict[str, int]:
    """Number of points of a feature, or polygons, that gave no pixel, by the reason."""
    import shapely

    if "Point" in feature.shape.geom_type:
        rows, cols, inside = pixels_of(grid, shapely.get_coordinates(feature.shape))
        later = int((burnt[rows[inside], cols[inside]] != feature.number).sum())
        found = {POINT_OFF: int((~inside).sum()), POINT_COVERED: later}
        return {reason: n for reason, n in found.items() if n}
    if feature.shape.is_empty:
        return {POLYGON_OFF: 1}
    left, top, right, bottom = _rectangle(feature.shape, grid)
    here = Window(top, left, bottom - top, right - left) & grid.window
    if here.pixels == 0:
        return {POLYGON_OFF: 1}
    if (burnt[here.slices] == feature.number).any():
        return {}
    return {POLYGON_COVERED if burn([(feature.shape, 1)], grid.crop(here)).any() else POLYGON_SMALL: 1}


def _rectangle(shape: Any, grid: Grid) -> tuple[int, int, int, int]:
    """First column and row, and those after the last, of the pixels that the bounds of a shape touch."""
    left, bottom, right, top = shape.bounds
    corners = np.array([(left, bottom), (left, top), (right, bottom), (right, top)])
    place = np.clip(np.column_stack(grid.places(*corners.T)[::-1]), -1, max(grid.shape) + 1)
    (x, y), (far_x, far_y) = np.floor(place.min(axis=0)), np.floor(place.max(axis=0)) + 1
    return int(x), int(y), int(far_x), int(far_y)


def pixels_of(
    grid: Grid, xy: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]:
    """Row and column that points lie in, and whether they lie on the grid.

    >>> grid = Grid(None, (10, 0, 0, 0, -10, 0), width=2, height=1)
    >>> [part.tolist() for part in pixels_of(grid, np.array([[15.0, -5.0], [25.0, -5.0]]))]
    [[0, 0], [1, 0], [True, False]]
    """
    row, col = grid.places(*np.transpose(xy))
    with np.errstate(invalid="ignore"):
        inside = (row >= 0) & (col >= 0) & (row < grid.height) & (col < grid.width)
    rows, cols = (np.where(inside, place, 0).astype(np.intp) for place in (row, col))
    return rows, cols, inside


def write_package(
    path: Path,
    layer: str,
    wkb: NDArray[Any],
    fields: Mapping[str, Any],
    crs: str | None,
    kind: str = "Unknown",
) -> None:
    """Write features to a GeoPackage, or add them to it: in their own CRS, and without the time of day."""
    import pyogrio

    pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": "2000-01-01T00:00:00.000Z"})  # the same bytes
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "'crs' was not provided")  # a map may have none
            pyogrio.raw.write(
                str(path),
                geometry=wkb,
                field_data=list(fields.values()),
                fields=list(fields),
                geometry_type=kind,
                crs=crs,
                driver="GPKG",
                layer=layer,
                append=path.exists(),
            )
    except Exception as error:  # SQLite says nothing of the disk, or that something else is not there
        if shutil.disk_usage(path.parent).free < 1 << 20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        raise
    finally:
        pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": None})
