"""Small map products as `uncover map` writes them, and reference files, for tests."""

import json

import numpy as np
import pyogrio.raw
import rasterio
import shapely
from rasterio.transform import Affine

from uncover.labels import Scheme
from uncover.raster import Grid
from uncover.raster.map_formats import class_tags

GRID = Grid("EPSG:32630", (10, 0, 500000, 0, -10, 5700000), width=120, height=90)
NAMES = ("cropland", "forest", "water")


def write_product(folder, numbers, p, names=NAMES, grid=GRID, scheme=None, dtype="uint16"):
    """A product of class numbers (−1: nodata) and probabilities (class, row, col)."""
    folder.mkdir()
    codes = np.arange(1, len(names) + 1) if scheme is None else [scheme.code_of(name) for name in names]
    layer = np.where(numbers >= 0, np.asarray(codes)[numbers], 0).astype(np.uint8)
    profile = {"driver": "GTiff", "crs": grid.crs, "transform": Affine(*grid.transform), "tiled": True}
    profile |= {"width": grid.width, "height": grid.height, "blockxsize": 64, "blockysize": 64}
    with rasterio.open(folder / "class.tif", "w", count=1, dtype="uint8", nodata=0, **profile) as dataset:
        dataset.write(layer, 1)
        if scheme is not None:
            dataset.update_tags(**class_tags(scheme))
    whole = dtype == "uint16"
    stored = np.round(p * 1e4).astype(np.uint16) if whole else p.astype(dtype)
    nodata = 65535 if whole else np.nan
    stored = np.where(numbers >= 0, stored, np.asarray(nodata).astype(dtype))
    with rasterio.open(
        folder / "probability.tif", "w", count=len(names), dtype=dtype, nodata=nodata, **profile
    ) as dataset:
        dataset.write(stored)
        dataset.descriptions = names
        if whole:
            dataset.scales = [1e-4] * len(names)
    return folder


def write_item(folder, names=NAMES):
    """The least item of a map: its classes and their colours."""
    classes = [{"value": k, "name": n, "color_hint": "112233"} for k, n in enumerate(names, start=1)]
    item = {"properties": {}, "assets": {"class": {"classification:classes": classes}}}
    (folder / "item.json").write_text(json.dumps(item))


def world(seed=0, shape=GRID.shape, k=3, nodata=0.0):
    """True classes, probabilities that know them fairly well (class, row, col), and the classes mapped."""
    rng = np.random.default_rng(seed)
    coarse = rng.choice(k, size=(-(-shape[0] // 6), -(-shape[1] // 6)))
    truth = np.kron(coarse, np.ones((6, 6), int))[: shape[0], : shape[1]]
    logits = rng.normal(size=(k, *shape)) + 2.0 * (truth == np.arange(k)[:, None, None])
    p = np.exp(logits)
    p /= p.sum(axis=0)
    mapped = p.argmax(axis=0)
    mapped[rng.random(shape) < nodata] = -1
    return truth, p, mapped


def write_points(path, rows, cols, classes, grid=GRID, crs=None, **fields):
    """Points in the middle of pixels, with a field `class` and others."""
    a, b, c, d, e, f = grid.transform
    cols, rows = np.asarray(cols) + 0.5, np.asarray(rows) + 0.5
    x, y = a * cols + b * rows + c, d * cols + e * rows + f
    if crs is not None:
        from rasterio.warp import transform

        x, y = (np.array(v) for v in transform(grid.crs, crs, x, y))
    columns = {"class": np.asarray(classes), **{name: np.asarray(v) for name, v in fields.items()}}
    columns = {n: v.astype(object) if v.dtype.kind == "U" else v for n, v in columns.items()}
    pyogrio.raw.write(
        path,
        shapely.to_wkb(shapely.points(x, y)),
        list(columns.values()),
        list(columns),
        geometry_type="Point",
        crs=crs or grid.crs,
        driver="GPKG",
    )
    return path


def write_polygons(path, boxes, classes, grid=GRID):
    """Boxes given by pixels (top, left, bottom, right), with a field `class`."""
    a, _, c, _, e, f = grid.transform
    shapes = [
        shapely.box(c + a * left, f + e * bottom, c + a * right, f + e * top)
        for top, left, bottom, right in boxes
    ]
    pyogrio.raw.write(
        path,
        shapely.to_wkb(shapes),
        [np.asarray(classes, dtype=object)],
        ["class"],
        geometry_type="Polygon",
        crs=grid.crs,
        driver="GPKG",
    )
    return path


SCHEME = Scheme.of_names(["water", "forest", "ice", "cropland"], name="test")
