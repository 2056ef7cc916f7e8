"""Areas on the ellipsoid against pyproj's geodesic polygons, which are computed in another way."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from uncover.metrics import WGS84, band_area, radii

pyproj = pytest.importorskip("pyproj")


def polygon_area(geod, west, south, east, north, points=400):
    """Geodesics cut corners of circles of latitude: many points along them."""
    x = np.linspace(west, east, points)
    lon = np.concatenate([x, x[::-1]])
    lat = np.concatenate([np.full(points, south), np.full(points, north)])
    return abs(geod.polygon_area_perimeter(lon, lat)[0])


@pytest.mark.parametrize("south", [-80.0, -33.3, 0.0, 51.2, 89.0])
@pytest.mark.parametrize("step", [1e-4, 0.01, 1.0])
def test_cells_against_geodesic_polygons(south, step):
    geod = pyproj.Geod(ellps="WGS84")
    expected = polygon_area(geod, 10, south, 10 + step, south + step)
    assert_allclose(band_area(south, south + step, step), expected, rtol=1e-6)


@pytest.mark.parametrize(("name", "axes"), [("airy", (6377563.396, 299.3249646)), ("sphere", (6370997.0, 0))])
def test_other_ellipsoids(name, axes):
    expected = polygon_area(pyproj.Geod(ellps=name), 0, 50, 1, 51)
    assert_allclose(band_area(50, 51, 1, axes), expected, rtol=1e-6)


def test_bands_add_up():
    edges = np.linspace(-90, 90, 181)
    assert_allclose(band_area(edges[:-1], edges[1:], 360).sum(), band_area(-90, 90, 360))
    assert_allclose(band_area(-90, 90, 360), 5.10065621724e14, rtol=1e-11)


def test_the_radii_are_those_of_the_smallest_bands():
    for latitude in (-60, 0, 45):
        cell = band_area(latitude - 5e-4, latitude + 5e-4, 1e-3, WGS84)
        north, east = radii(latitude)
        assert_allclose(np.radians(1e-3) ** 2 * north * east, cell, rtol=1e-9)
