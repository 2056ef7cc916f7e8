import re

import numpy as np
import pytest

from safe_trees import PRODUCTS, shared
from uncover.raster import Grid, Window
from uncover.raster.angles import AngleField
from uncover.raster.safe import TEN_BANDS
from uncover.raster.safe_metadata import read_tile


def tile_of(product):
    return next((shared("s2_metadata") / PRODUCTS[product]).glob("GRANULE/*/MTD_TL.xml"))


@pytest.mark.parametrize("product", PRODUCTS)
def test_angles_at_the_nodes_are_those_of_the_metadata(product):
    text = tile_of(product).read_bytes()
    tile = read_tile(text, "MTD_TL.xml")
    angles = tile.angles(TEN_BANDS)
    sun = re.search(rb"<Sun_Angles_Grid>.*?</Sun_Angles_Grid>", text, re.DOTALL).group()
    rows = [row.split() for row in re.findall(rb"<VALUES>(.*?)</VALUES>", sun)]
    zenith, azimuth = np.array(rows, dtype=float).reshape(2, 23, 23)
    x, y = np.meshgrid(tile.origin[0] + 5000.0 * np.arange(23), tile.origin[1] - 5000.0 * np.arange(23))
    found = angles.sun.at(x, y)
    np.testing.assert_allclose(found[0], zenith, atol=1e-9)
    np.testing.assert_allclose(found[1], azimuth, atol=1e-9)


@pytest.mark.parametrize("product", PRODUCTS)
def test_view_angles_are_physical_everywhere(product):
    tile = read_tile(tile_of(product).read_bytes(), "MTD_TL.xml")
    x, y = tile.origin
    grid = Grid("EPSG:32646", (100.0, 0.0, x, 0.0, -100.0, y), 1098, 1098)
    angles = tile.angles(TEN_BANDS).on(grid, grid.window)
    assert np.isfinite(angles.view_azimuth).all()
    assert angles.view_zenith.max() < 13
    assert angles.view_zenith.min() >= 0
    assert angles.relative_azimuth.min() >= 0
    assert angles.relative_azimuth.max() <= 180


def test_detectors_are_merged_and_gaps_filled_from_the_nearest_node():
    nan = np.nan
    zenith = np.array([[[4.0, 4.0, nan]], [[nan, 6.0, nan]]])
    field = AngleField.from_degrees(zenith, np.full_like(zenith, 100.0), (0.0, 0.0), (10.0, 10.0))
    found, _ = field.at(np.array([0.0, 10.0, 20.0]), np.zeros(3))
    np.testing.assert_allclose(found, [4, 5, 5], atol=1e-9)


def test_azimuths_are_averaged_across_north():
    azimuth = np.array([[[350.0]], [[20.0]]])
    field = AngleField.from_degrees(np.full_like(azimuth, 8.0), azimuth, (0.0, 0.0), (10.0, 10.0))
    np.testing.assert_allclose(field.at(np.zeros(1), np.zeros(1))[1], [5.0], atol=1e-9)


def test_angles_do_not_depend_on_the_window():
    tile = read_tile(tile_of("L1C_03.01").read_bytes(), "MTD_TL.xml")
    x, y = tile.origin
    grid = Grid("EPSG:32646", (10.0, 0.0, x, 0.0, -10.0, y), 900, 900)
    angles = tile.angles(TEN_BANDS)
    window = Window(450, 333, 100, 200)
    whole, part = angles.on(grid, grid.window), angles.on(grid, window)
    np.testing.assert_array_equal(part.view_azimuth, whole.view_azimuth[window.slices])
    np.testing.assert_array_equal(part.sun_zenith, whole.sun_zenith[window.slices])
