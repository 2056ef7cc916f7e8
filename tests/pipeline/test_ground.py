"""Distances on the ground against geodesics of pyproj: blocks, spacing, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from uncover.labels import Report, Scheme
from uncover.pipeline.ground import Squares, pixel_metres, steady_pixel_metres
from uncover.pipeline.label_collection import LabelOptions, Labels, _thin
from uncover.raster import Grid, SceneError

pyproj = pytest.importorskip("pyproj")

GRIDS = {
    "UTM": Grid("EPSG:32630", (10, 0, 6e5, 0, -10, 57e5), 200, 300),
    "web Mercator at 51° N": Grid("EPSG:3857", (10, 0, 0, 0, -10, 6621293), 200, 300),
    "web Mercator at 70° N, turned": Grid("EPSG:3857", (8, 6, 0, 6, -8, 11068715), 200, 300),
    "degrees": Grid("EPSG:4326", (2e-4, 0, 10, 0, -1e-4, 60), 200, 300),
    "British grid": Grid("EPSG:27700", (10, 0, 4e5, 0, -10, 3e5), 200, 300),
    "feet": Grid("EPSG:2263", (33, 0, 987000, 0, -33, 213000), 200, 300),
}


def places(grid, rows, cols):
    """Longitudes and latitudes on the grid's own ellipsoid, and its geodesics."""
    crs = pyproj.CRS(grid.crs)
    a, b, c, d, e, f = grid.transform
    x, y = a * cols + b * rows + c, d * cols + e * rows + f
    to_degrees = pyproj.Transformer.from_crs(crs, crs.geodetic_crs, always_xy=True)
    return (*to_degrees.transform(x, y), crs.get_geod())


@pytest.mark.parametrize("name", GRIDS)
def test_sides_of_pixels_against_geodesics(name):
    grid = GRIDS[name]
    rows, cols = np.meshgrid(np.linspace(1, 299, 9), np.linspace(1, 199, 9))
    lon, lat, geod = places(grid, rows.ravel(), cols.ravel())
    down = geod.inv(lon, lat, *places(grid, rows.ravel() + 1, cols.ravel())[:2])[2]
    across = geod.inv(lon, lat, *places(grid, rows.ravel(), cols.ravel() + 1)[:2])[2]
    height, width = pixel_metres(grid)
    assert_allclose([height, width], [np.min(down), np.min(across)], rtol=3e-3)
    assert height <= np.min(down) * (1 + 1e-6) and width <= np.min(across) * (1 + 1e-6)


@pytest.mark.parametrize("name", GRIDS)
def test_labels_are_as_far_apart_on_the_ground_as_asked(name):
    grid = GRIDS[name]
    codes = np.ones(grid.shape, np.uint8)
    labels = Labels(codes, grid, Scheme.of_names(["wheat"]), Report.start(codes))
    rows, cols = np.nonzero(_thin(labels, LabelOptions(spacing=200)).codes)
    lon, lat, geod = places(grid, rows + 0.5, cols + 0.5)
    i, j = np.triu_indices(len(lon), 1)
    distances = geod.inv(lon[i], lat[i], lon[j], lat[j])[2]
    assert 200 * (1 - 1e-3) <= distances.min() < 220


def test_a_block_has_its_size_everywhere():
    assert Squares.of(GRIDS["UTM"], 1000).sides == (100, 100)
    assert Squares.of(GRIDS["web Mercator at 51° N"], 1000).sides == (159, 159)  # 624 m would be 100 of them
    coarse = Grid("EPSG:32630", (60, 0, 500_000, 0, -60, 5_700_000), width=200, height=200)
    assert Squares.of(coarse, 800).sides == (14, 14)  # 13 are 780 m
    tall = Grid("EPSG:4326", (0.01, 0, 0, 0, -0.01, 60), width=1000, height=6000)
    rows, cols = Squares.of(tall, 100_000).sides
    lon, lat, geod = places(tall, np.zeros(2), np.array([0, cols]))
    assert geod.inv(lon[0], lat[0], lon[1], lat[1])[2] > 99_000  # in the north, where pixels are narrow
    lon, lat, geod = places(tall, np.array([0, rows]) + 3000, np.zeros(2))
    assert geod.inv(lon[0], lat[0], lon[1], lat[1])[2] > 99_000


def test_distances_are_refused_where_pixels_differ():
    with pytest.raises(SceneError, match="such as UTM"):
        steady_pixel_metres(Grid("EPSG:3857", (1000, 0, 0, 0, -1000, 8e6), width=10, height=4000))
    with pytest.raises(SceneError, match="no place on the ground"):
        pixel_metres(Grid("EPSG:3035", (1e6, 0, 1e9, 0, -1e6, 1e9), width=3, height=3))


def test_squares_tile_the_grid_from_its_corner():
    squares = Squares(Grid(None, (10, 0, 0, 0, -10, 0), width=9, height=10), (4, 3))
    numbers = squares.numbers(squares.grid.window)
    assert squares.shape == (3, 3) and np.unique(numbers).tolist() == list(range(9))
    for i, j in np.ndindex(numbers.shape):
        assert numbers[i, j] == numbers[i // 4 * 4, j // 3 * 3]
