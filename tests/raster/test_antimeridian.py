"""Bounding boxes across the antimeridian: west lies east of east, as in RFC 7946."""

import numpy as np
import pytest
from pyproj import Transformer

from uncover.raster import Grid, SceneError, window_of

FIJI = (179.95, -16.6, -179.95, -16.4)


@pytest.mark.parametrize(("crs", "left"), [("EPSG:32760", 799980), ("EPSG:32701", 99960)])
@pytest.mark.parametrize("box", [FIJI, (-179.99, -16.6, -179.9, -16.5), (179.85, -16.6, 179.99, -16.5)])
def test_a_box_is_where_pyproj_says(crs, left, box):
    grid = Grid(crs, (10, 0, left, 0, -10, 8200000), width=10980, height=10980)
    west, south, east, north = box
    longitude = np.linspace(west, east if east > west else east + 360, 401)
    longitude, latitude = np.meshgrid(longitude, np.linspace(south, north, 401))
    there = Transformer.from_crs("EPSG:4326", crs, always_xy=True)
    x, y = there.transform((longitude + 180) % 360 - 180, latitude)
    col, row = (x - left) / 10, (8200000 - y) / 10
    found = window_of(grid, box, "EPSG:4326")
    edges = [found.col, found.row, found.col + found.width, found.row + found.height]
    expected = [np.floor(col.min()), np.floor(row.min()), np.ceil(col.max()), np.ceil(row.max())]
    np.testing.assert_allclose(edges, expected, atol=1)


@pytest.mark.parametrize("left", [179.0, -181.0])
def test_a_grid_in_degrees_may_count_either_way(left):
    grid = Grid("EPSG:4326", (0.01, 0, left, 0, -0.01, -16), width=200, height=100)
    found = window_of(grid, (179.5, -16.5, -179.5, -16.2), "EPSG:4326")
    assert (found.row, found.col, found.height, found.width) == (20, 50, 30, 100)


def test_west_and_east_are_not_mistaken_for_each_other():
    grid = Grid("EPSG:32633", (10, 0, 300000, 0, -10, 5000000), width=100, height=100)
    with pytest.raises(SceneError, match="is empty"):
        window_of(grid, (12.46, 45.12, 12.45, 45.13), "EPSG:4326")


def test_a_box_on_the_other_side_of_the_world_is_outside():
    grid = Grid("EPSG:32633", (10, 0, 300000, 0, -10, 5000000), width=100, height=100)
    with pytest.raises(SceneError, match="lies outside the scene"):
        window_of(grid, FIJI, "EPSG:4326")
