"""Areas of pixels: by the transform in metres, on the ellipsoid in degrees."""

import pytest
from numpy.testing import assert_allclose

from uncover.metrics import area_element
from uncover.raster import Grid, SceneError, Window, pixel_areas


def test_projected_pixels_are_those_of_the_transform():
    assert pixel_areas(Grid("EPSG:32630", (10, 0, 5e5, 0, -20, 57e5), 3, 2)).tolist() == [[200.0] * 3] * 2
    turned = Grid("EPSG:32630", (8, 6, 5e5, 6, -8, 57e5), 3, 2)
    assert_allclose(pixel_areas(turned), 100)
    feet = Grid("EPSG:2263", (1, 0, 0, 0, -1, 0), 3, 2)
    assert_allclose(pixel_areas(feet), 0.3048006096**2)
    assert pixel_areas(Grid(None, (2, 0, 0, 0, -2, 0), 3, 2)).tolist() == [[1.0] * 3] * 2  # pixels


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:4277", "OGC:CRS84"])
def test_rows_in_degrees_against_pyproj(crs):
    pyproj = pytest.importorskip("pyproj")
    grid = Grid(crs, (0.002, 0, 8.0, 0, -0.001, 60.0), width=5, height=4000)
    rows = pixel_areas(grid)
    assert rows.shape == grid.shape
    geod = pyproj.CRS(crs).get_geod()
    for row in (0, 1999, 3999):
        top = 60 - 0.001 * row
        corners = [8, 8.002, 8.002, 8], [top, top, top - 0.001, top - 0.001]
        assert_allclose(rows[row, 0], abs(geod.polygon_area_perimeter(*corners)[0]), rtol=1e-6)


def test_windows_have_the_areas_of_the_whole():
    grid = Grid("EPSG:4326", (0.01, 0, 0, 0, -0.01, 50), width=30, height=40)
    assert_allclose(pixel_areas(grid, Window(7, 3, 11, 5)), pixel_areas(grid)[7:18, 3:8])


def test_a_grid_that_runs_north_has_the_same_areas():
    down = Grid("EPSG:4326", (0.01, 0, 0, 0, -0.01, 50), width=3, height=40)
    up = Grid("EPSG:4326", (0.01, 0, 0, 0, 0.01, 49.6), width=3, height=40)
    assert_allclose(pixel_areas(up), pixel_areas(down)[::-1])


def test_turned_grids_in_degrees():
    grid = Grid("EPSG:4326", (0.008, 0.006, 0, 0.006, -0.008, 50), width=6, height=4)
    _, latitude = grid.centres(grid.window)
    assert_allclose(pixel_areas(grid), 1e-4 * area_element(latitude))


def test_what_lies_beyond_the_pole_has_no_area():
    grid = Grid("EPSG:4326", (0.5, 0, 0, 0, -0.5, 90.25), width=720, height=361)
    assert_allclose(pixel_areas(grid).sum(), 5.10065621724e14, rtol=1e-10)


def test_what_has_no_area_is_refused():
    with pytest.raises(SceneError, match="latitudes"):
        pixel_areas(Grid("EPSG:4326", (10, 0, 5e5, 0, -10, 57e5), 3, 2))
    with pytest.raises(SceneError, match="grad"):
        pixel_areas(Grid("EPSG:4807", (0.1, 0, 0, 0, -0.1, 50), 3, 2))


def test_areas_add_up_to_the_ground():
    fine = Grid("EPSG:4326", (0.01, 0, 0, 0, -0.01, 50), width=10, height=100)
    coarse = Grid("EPSG:4326", (0.1, 0, 0, 0, -1, 50), width=1, height=1)
    assert_allclose(pixel_areas(fine).sum(), pixel_areas(coarse)[0, 0])
