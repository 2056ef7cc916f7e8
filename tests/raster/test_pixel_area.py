"""Areas of pixels on the ellipsoid, in degrees and in any projection, against pyproj."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from uncover.metrics import radii
from uncover.raster import Grid, SceneError, Window, pixel_areas

PROJECTIONS = [
    ("EPSG:32630", 5e5, 57e5, 10),
    ("EPSG:32630", 2e5, 57e5, 10),
    ("EPSG:3857", 0, 6621293, 10),
    ("EPSG:3857", 2003e4, 1e7, 10),
    ("EPSG:2263", 987000, 213000, 33),  # feet
    ("EPSG:27700", 4e5, 3e5, 10),
    ("EPSG:27572", 6e5, 2.4e6, 10),  # grads from Paris
    ("EPSG:3413", 1e6, -1e6, 100),
    ("EPSG:6933", 1e6, 5e6, 100),
    ("+proj=sinu +R=6371007.181 +units=m", 1e6, 5e6, 500),
]


@pytest.mark.parametrize(("crs", "x", "y", "side"), PROJECTIONS)
def test_projected_pixels_against_geodesic_polygons(crs, x, y, side):
    pyproj = pytest.importorskip("pyproj")
    grid = Grid(crs, (side, 0, x, 0, -side, y), 300, 280)
    found = pixel_areas(grid)
    system = pyproj.CRS(crs)
    to_degrees = pyproj.Transformer.from_crs(system, system.geodetic_crs, always_xy=True)
    scale = np.degrees(system.geodetic_crs.axis_info[0].unit_conversion_factor)
    for row, col in ((0, 0), (140, 299), (279, 150)):
        edge = np.linspace(0, side, 9)
        corners_x = x + col * side + np.concatenate([edge, 0 * edge + side, edge[::-1], 0 * edge])
        corners_y = y - row * side - np.concatenate([0 * edge, edge, 0 * edge + side, edge[::-1]])
        lon, lat = to_degrees.transform(corners_x, corners_y)
        geod = system.get_geod()
        expected = abs(geod.polygon_area_perimeter(np.array(lon) * scale, np.array(lat) * scale)[0])
        assert_allclose(found[row, col], expected, rtol=2e-6)


def test_turned_grids_and_grids_without_a_place():
    turned = Grid("EPSG:3035", (8, 6, 4e6, 6, -8, 3e6), 3, 2)
    assert_allclose(pixel_areas(turned), 100, rtol=1e-9)
    assert pixel_areas(Grid(None, (2, 0, 0, 0, -2, 0), 3, 2)).tolist() == [[1.0] * 3] * 2  # pixels


def test_what_lies_beyond_the_edge_of_the_earth_has_no_area():
    grid = Grid("ESRI:54009", (1e5, 0, -18.1e6, 0, -1e5, 9.1e6), 362, 182)  # Mollweide, equal area
    areas = pixel_areas(grid)
    assert areas[0, 0] == 0
    assert_allclose(areas.sum(), 5.10065621724e14, rtol=0.01)  # but for pixels that the edge cuts


def test_windows_of_a_projection_have_the_areas_of_the_whole():
    grid = Grid("EPSG:3857", (10, 0, 0, 0, -10, 6621293), 300, 280)
    assert_allclose(pixel_areas(grid, Window(7, 130, 201, 90)), pixel_areas(grid)[7:208, 130:220], rtol=1e-14)


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
    north, east = radii(latitude)
    assert_allclose(pixel_areas(grid), 1e-4 * np.radians(1.0) ** 2 * north * east)


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
