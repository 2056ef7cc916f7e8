"""Labels that are lost are counted and named; labels finer than a scene count by majority."""

import numpy as np
import pytest

from label_maps import GRID, patchy, write_map
from map_products import write_points, write_polygons
from uncover.labels import load_scheme
from uncover.pipeline.label_sources import open_labels, write_labels
from uncover.raster import Grid
from uncover.raster.tiles import TileCache

LEFT, TOP = 500000, 5700000
CACHE = TileCache(1 << 20)


def labels_of(path, grid=GRID, **how):
    return open_labels(path, **how).on(grid).labels(grid.window, CACHE)


def box(col, row, width, height):
    return row, col, row + height, col + width


def test_polygons_without_a_label_are_named(tmp_path):
    shapes = [box(2, 2, 5, 5), box(20.6, 20.6, 0.8, 0.8), box(30, 30, 2, 2), box(-90, 3, 5, 5)]
    shapes += [box(30, 30, 3, 3), box(50.1, 5.1, 0.3, 0.3)]
    kinds = ["wheat", "pond", "wheat", "wheat", "wood", "wheat"]
    path = tmp_path / "f.gpkg"
    write_polygons(path, shapes, kinds, grid=GRID)
    with pytest.warns(UserWarning) as said:
        codes = labels_of(path, class_field="class")
    assert len(said) == 1
    text = str(said[0].message)
    assert "2 polygon(s) without a pixel centre (pond 1, wheat 1)" in text
    assert "1 polygon(s) covered by later ones (wheat 1)" in text
    assert "1 polygon(s) off the grid (wheat 1)" in text
    assert text.endswith("no label is left of the class 'pond'")
    assert (codes > 0).sum() == 25 + 9


def test_points_without_a_label_are_named(tmp_path):
    rows, cols = [3, 3, 10, 200, 12], [4, 4, 5, 5, 5]
    path = tmp_path / "p.gpkg"
    write_points(path, rows, cols, ["a", "b", "b", "a", "c"], grid=GRID)
    with pytest.warns(UserWarning) as said:
        codes = labels_of(path, class_field="class")
    text = str(said[0].message)
    assert "1 point(s) off the grid (a 1)" in text and "1 point(s) in a pixel of a later one (a 1)" in text
    assert text.endswith("no label is left of the class 'a'")
    assert (codes > 0).sum() == 3


def test_nothing_is_said_where_nothing_is_lost(tmp_path):
    path = tmp_path / "f.gpkg"
    write_polygons(path, [box(2, 2, 5, 5)], ["wheat"], grid=GRID)
    assert (labels_of(path, class_field="class") > 0).sum() == 25


def coarse(factor):
    return Grid(GRID.crs, (10 * factor, 0, LEFT, 0, -10 * factor, TOP), 60 // factor, 45 // factor)


def by_majority(codes, factor, purity=0.0):
    """Pixel by pixel: the most frequent code, the lowest of equals."""
    rows, cols = (n // factor for n in codes.shape)
    out = np.zeros((rows, cols), np.uint8)
    for i in range(rows):
        for j in range(cols):
            part = codes[i * factor : (i + 1) * factor, j * factor : (j + 1) * factor]
            found, counts = np.unique(part, return_counts=True)
            if counts.max() >= purity * part.size:
                out[i, j] = found[counts.argmax()]
    return out


@pytest.mark.parametrize("factor", [2, 3, 5])
@pytest.mark.parametrize("purity", [0.0, 0.7])
def test_labels_finer_than_the_scene_count_by_majority(tmp_path, factor, purity):
    codes = patchy(3, GRID.shape, [0, 1, 2, 5], patch=4, noise=0.3)
    path = write_map(tmp_path / "fine.tif", codes, nodata=0)
    found = labels_of(path, coarse(factor), purity=purity)
    np.testing.assert_array_equal(found, by_majority(codes, factor, purity))
    middle = codes[factor // 2 :: factor, factor // 2 :: factor]
    assert (found != middle[: found.shape[0], : found.shape[1]]).mean() > 0.1  # what one point would say


def test_majority_in_another_reference_system(tmp_path):
    """Blocks of 6 × 6 pixels of one class: whatever the grid, most of a pixel inside one is of it."""
    codes = patchy(3, (240, 240), [1, 2, 3], patch=40, noise=0.2)
    fine = Grid("EPSG:4326", (1e-4, 0, -3.0, 0, -1e-4, 51.4), 240, 240)
    path = write_map(tmp_path / "fine.tif", codes, grid=fine)
    place = Grid("EPSG:32630", (60, 0, 500100, 0, -60, 5693900), 20, 30)
    found = labels_of(path, place)
    clean = write_map(tmp_path / "clean.tif", patchy(3, (240, 240), [1, 2, 3], patch=40, noise=0), grid=fine)
    assert (found == labels_of(clean, place))[found > 0].mean() > 0.97


def test_coarser_labels_are_taken_as_they_are(tmp_path):
    codes = patchy(3, (15, 20), [1, 2])
    path = write_map(tmp_path / "coarse.tif", codes, grid=coarse(3))
    np.testing.assert_array_equal(labels_of(path), np.kron(codes, np.ones((3, 3), np.uint8)))


def test_a_map_that_does_not_cover_the_scene(tmp_path):
    """Codes of a scheme that has no 0: what lies outside has no label, and is no unknown code."""
    half = Grid(GRID.crs, GRID.transform, 30, 45)
    write_map(tmp_path / "half.tif", np.full(half.shape, 10, np.uint8), grid=half)
    found = labels_of(tmp_path / "half.tif", scheme="worldcover-lulucf")
    assert (found[:, :30] > 0).all() and (found[:, 30:] == 0).all()


def test_a_purity_that_is_no_share(tmp_path):
    write_labels(tmp_path / "l.tif", np.ones(GRID.shape, np.uint8), GRID, load_scheme("lulucf"))
    with pytest.raises(ValueError, match="between 0 and 1"):
        open_labels(tmp_path / "l.tif", purity=1.5)
