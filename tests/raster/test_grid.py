import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uncover.raster import Grid, SceneError, Window

sizes = st.integers(1, 60)
grids = st.builds(
    lambda w, h, a, e, x, y: Grid("EPSG:32633", (a, 0.0, x, 0.0, -e, y), w, h),
    sizes, sizes, st.sampled_from([10.0, 20.0, 0.5]), st.sampled_from([10.0, 60.0]),
    st.integers(-1000, 1000), st.integers(-1000, 1000),
)  # fmt: skip


def windows_in(grid):
    return st.builds(
        lambda top, left, bottom, right: Window(top, left, bottom - top + 1, right - left + 1),
        st.integers(0, grid.height - 1),
        st.integers(0, grid.width - 1),
        st.just(grid.height - 1),
        st.just(grid.width - 1),
    )


@given(grids, st.integers(1, 70), st.integers(-100, 100), st.integers(-100, 100))
def test_blocks_cover_every_pixel_once(grid, size, row, col):
    seen = np.zeros(grid.shape, int)
    for window in grid.blocks(size, origin=(row, col)):
        assert window.pixels > 0
        assert max(window.shape) <= size
        seen[window.slices] += 1
    assert (seen == 1).all()


@given(grids, st.integers(1, 70), st.integers(-100, 100))
def test_blocks_are_cut_at_the_origin_modulo_their_size(grid, size, origin):
    starts = {window.col for window in grid.blocks(size, origin=(0, origin))} - {0}
    assert all((start - origin) % size == 0 for start in starts)


@given(st.data(), grids)
def test_a_crop_of_a_crop_is_a_crop(data, grid):
    outer = data.draw(windows_in(grid))
    cropped = grid.crop(outer)
    inner = data.draw(windows_in(cropped))
    assert cropped.crop(inner) == grid.crop(inner.shifted(outer.row, outer.col))
    assert cropped.offset_in(grid) == (outer.row, outer.col)


@given(st.data(), grids)
def test_centres_of_a_crop_are_centres_of_the_grid(data, grid):
    window = data.draw(windows_in(grid))
    for mine, whole in zip(
        grid.crop(window).centres(Window(0, 0, *window.shape)), grid.centres(window), strict=True
    ):
        np.testing.assert_allclose(mine, whole)


@given(grids, grids)
def test_relation_maps_pixel_coordinates(one, other):
    a, b, c, d, e, f = one.relation(other)
    x, y = one.centres(one.window)
    rows, cols = np.indices(one.shape) + 0.5
    oa, _, oc, _, oe, of = other.transform
    np.testing.assert_allclose(oa * (a * cols + b * rows + c) + oc, x, atol=1e-6)
    np.testing.assert_allclose(oe * (d * cols + e * rows + f) + of, y, atol=1e-6)


def test_windows_intersect():
    assert (Window(0, 0, 4, 4) & Window(10, 10, 4, 4)).pixels == 0
    assert Window(0, 0, 4, 4) & Window(0, 0, 4, 4) == Window(0, 0, 4, 4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Grid(None, (1, 0, 0, 0, -1, 0), 0, 5),
        lambda: Grid(None, (0, 0, 0, 0, 0, 0), 5, 5),
        lambda: Grid(None, (1, 0, 0, 0, -1, 0), 5, 5).crop(Window(0, 0, 6, 1)),
        lambda: list(Grid(None, (1, 0, 0, 0, -1, 0), 5, 5).blocks(0)),
    ],
)
def test_impossible_grids_are_refused_in_one_line(make):
    with pytest.raises(SceneError) as error:
        make()
    assert "\n" not in str(error.value)
