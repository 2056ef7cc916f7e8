import numpy as np
import pytest
import rasterio
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from rasterio.transform import from_origin
from rasterio.warp import transform
from vector_files import write_vector

from uncover.raster import Grid, ReadError, SceneError, Window, align_raster, burn_vector
from uncover.raster.resample import _positions, positions

UTM = Grid("EPSG:32630", (10.0, 0.0, 618320.0, 0.0, -10.0, 5778690.0), 150, 120)


def label_raster(path, crs, origin, metres, side=400, nodata=0, bands=2):
    values = np.random.default_rng(0).integers(0, 22, (bands, side, side)).astype(np.uint8)
    with rasterio.open(
        path, "w", driver="GTiff", count=bands, width=side, height=side, dtype="uint8", crs=crs,
        nodata=nodata, transform=from_origin(*origin, metres, metres), tiled=True,
        blockxsize=64, blockysize=64,
    ) as dataset:  # fmt: skip
        dataset.write(values)
    return path, values


@pytest.fixture(scope="module")
def british(tmp_path_factory):
    """Labels on the British National Grid around the grid of the tests."""
    x, y = transform(UTM.crs, "EPSG:27700", [UTM.bounds[0]], [UTM.bounds[3]])
    path = tmp_path_factory.mktemp("labels") / "lcm.tif"
    return label_raster(path, "EPSG:27700", (round(x[0], -1) - 1000, round(y[0], -1) + 1000), 10)


def by_hand(grid, window, path, band):
    """Exact: each pixel centre through both CRSs."""
    x, y = grid.centres(window)
    with rasterio.open(path) as dataset:
        moved = transform(grid.crs, dataset.crs, x.ravel(), y.ravel())
        cols, rows = np.array([~dataset.transform @ point for point in zip(*moved, strict=True)]).T
        inside = (rows >= 0) & (rows < dataset.height) & (cols >= 0) & (cols < dataset.width)
        values = dataset.read(band)
        at = (np.where(inside, rows, 0).astype(int), np.where(inside, cols, 0).astype(int))
        picked = np.where(inside, values[at], 0)
    return picked.reshape(window.shape), inside.reshape(window.shape)


@pytest.mark.parametrize("band", [1, 2])
def test_labels_come_from_the_pixel_that_the_centre_lies_in(british, band):
    path, _ = british
    aligned = align_raster(f"{path}:{band}", UTM)
    values, inside = by_hand(UTM, UTM.window, path, band)
    np.testing.assert_array_equal(aligned.filled(0), np.where(inside, values, 0))
    np.testing.assert_array_equal(aligned.valid, inside & (values != 0))
    assert aligned.values.dtype == np.uint8


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 119), st.integers(0, 149), st.integers(1, 120), st.integers(1, 150))
def test_labels_do_not_depend_on_the_window(british, row, col, height, width):
    path, _ = british
    window = Window(row, col, height, width) & UTM.window
    whole, part = align_raster(path, UTM), align_raster(path, UTM, window)
    np.testing.assert_array_equal(part.values, whole.values[window.slices])
    np.testing.assert_array_equal(part.valid, whole.valid[window.slices])


@pytest.mark.parametrize("metres", [10.0, 300.0, 20000.0])
def test_positions_between_crs_are_right_to_a_thousandth_of_a_pixel(metres):
    grid = Grid("EPSG:32630", (metres, 0.0, 400000.0, 0.0, -metres, 5800000.0), 40, 30)
    source = Grid("EPSG:4326", (metres / 1e5, 0.0, -10.0, 0.0, -metres / 1e5, 60.0), 1000, 1000)
    found = _positions(grid, grid.window, source)
    exact = positions(grid, np.arange(30)[:, None] + 0.5, np.arange(40)[None, :] + 0.5, source)
    for mine, true in zip(found, exact, strict=True):
        assert np.abs(mine - true).max() < 1e-3


def test_a_grid_that_the_other_crs_does_not_reach_everywhere(tmp_path):
    world = Grid("EPSG:4326", (10.0, 0.0, -180.0, 0.0, -10.0, 90.0), 36, 18)
    path, _ = label_raster(tmp_path / "a.tif", "EPSG:32630", (0, 9000000), 50000, side=20, nodata=None)
    aligned = align_raster(path, world)
    expected, inside = by_hand(world, world.window, path, 1)
    assert 0 < inside.sum() < 20
    np.testing.assert_array_equal(aligned.valid, inside)
    np.testing.assert_array_equal(aligned.filled(0), expected)


def test_the_same_grid_is_a_copy_and_a_coarser_one_repeats(tmp_path):
    path, values = label_raster(tmp_path / "a.tif", UTM.crs, (618320, 5778690), 10, side=160)
    np.testing.assert_array_equal(align_raster(path, UTM).values, values[0, :120, :150])
    path, values = label_raster(tmp_path / "b.tif", UTM.crs, (618320, 5778690), 30, side=60)
    expected = values[0].repeat(3, 0).repeat(3, 1)[:120, :150]
    np.testing.assert_array_equal(align_raster(path, UTM).values, expected)


def test_where_the_labels_end(tmp_path):
    path, _ = label_raster(tmp_path / "a.tif", UTM.crs, (618320 + 500, 5778690), 10, side=400, nodata=None)
    aligned = align_raster(path, UTM)
    assert not aligned.valid[:, :50].any()
    assert aligned.valid[:, 50:].all()
    assert not align_raster(path, UTM, Window(0, 0, 5, 5)).valid.any()


def test_label_rasters_that_cannot_be_used(tmp_path):
    far, _ = label_raster(tmp_path / "far.tif", "EPSG:27700", (100000, 900000), 10, side=50)
    near, _ = label_raster(tmp_path / "near.tif", UTM.crs, (618320, 5778690), 10, side=50)
    cases = [(far, "does not overlap"), (tmp_path / "no.tif", "does not exist"), (f"{near}:7", "2 band")]
    for name, words in cases:
        with pytest.raises(SceneError, match=words) as error:
            align_raster(name, UTM)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("crs", ["EPSG:32630", "EPSG:27700", "EPSG:4326"])
def test_polygons_are_burnt_by_pixel_centre(tmp_path, crs):
    left, _, _, top = UTM.bounds
    boxes = [(left, top - 300, left + 200, top), (left + 504, top - 296, left + 696, top - 104)]
    shapes = [
        shapely.transform(
            shapely.segmentize(shapely.box(*box), 20),
            lambda points: np.column_stack(transform(UTM.crs, crs, points[:, 0], points[:, 1])),
        )
        for box in boxes
    ]
    path = write_vector(tmp_path / "a.gpkg", shapes, {"cover": ["water", "forest"]}, crs=crs)
    burned = burn_vector(path, UTM, "cover")
    expected = np.zeros(UTM.shape, int)
    expected[0:30, 0:20] = 2
    expected[10:30, 50:70] = 1
    clear = np.ones(UTM.shape, bool)  # a box in another CRS has edges that are not quite straight
    clear[29:31], clear[:, 19:21] = False, False
    clear[0], clear[:, 0] = False, False
    np.testing.assert_array_equal(burned.code[clear], expected[clear])
    assert burned.names == {1: "forest", 2: "water"}
    assert set(burned.feature[burned.code == 2]) == {1}


def test_points_and_integer_codes(tmp_path):
    left, _, _, top = UTM.bounds
    points = [shapely.Point(left + 15, top - 25), shapely.Point(left + 105, top - 5)]
    path = write_vector(tmp_path / "a.gpkg", points, {"code": np.array([7, 3])}, crs=UTM.crs)
    burned = burn_vector(path, UTM, "code")
    assert burned.code[2, 1] == 7
    assert burned.code[0, 10] == 3
    assert (burned.code > 0).sum() == 2
    assert burned.labels()[2, 1] == "7"


def test_a_file_with_several_layers(tmp_path):
    import pyogrio

    box = shapely.box(*UTM.bounds)
    path = write_vector(tmp_path / "a.gpkg", [box], {"code": np.array([1])}, crs=UTM.crs)
    table = {"field_data": [np.array(["blue"])], "fields": ["style"], "geometry": None}
    pyogrio.raw.write(str(path), layer="layer_styles", driver="GPKG", geometry_type=None, **table)
    assert (burn_vector(path, UTM, "code").code == 1).all()
    write_vector(path, [box], {"code": np.array([2])}, crs=UTM.crs, layer="more")
    with pytest.raises(SceneError, match="2 layers"):
        burn_vector(path, UTM, "code")


def test_vector_labels_that_cannot_be_used(tmp_path):
    box = shapely.box(*UTM.bounds)
    good = write_vector(tmp_path / "good.gpkg", [box], {"code": np.array([1])}, crs=UTM.crs)
    zero = write_vector(tmp_path / "zero.gpkg", [box], {"code": np.array([0])}, crs=UTM.crs)
    gaps = write_vector(
        tmp_path / "gaps.gpkg", [box, box], {"code": np.array(["a", None], dtype=object)}, crs=UTM.crs
    )
    far = write_vector(tmp_path / "far.gpkg", [shapely.box(100, 10, 101, 11)], {"code": np.array([1])})
    text = tmp_path / "text.gpkg"
    text.write_text("no vector file")
    cases = [
        (good, "class", "no field 'class'; its fields are code"),
        (zero, "code", "class codes start at 1"),
        (gaps, "code", "no value in field 'code'"),
        (far, "code", "check that they overlap"),
        (tmp_path / "none.gpkg", "code", "does not exist"),
        (text, "code", "cannot be read as a vector file"),
    ]
    for path, field, words in cases:
        with pytest.raises(SceneError, match=words) as error:
            burn_vector(path, UTM, field)
        assert "\n" not in str(error.value)
    with pytest.raises(ReadError):
        burn_vector(text, UTM, "code")
