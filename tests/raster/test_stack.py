import numpy as np
import pytest
import rasterio
import shapely
from rasterio.transform import from_origin
from vector_files import write_vector

from safe_trees import shared, write_raster
from uncover.raster import (
    OffsetWarning,
    Quality,
    SceneError,
    SceneOptions,
    Window,
    align_raster,
    burn_vector,
    open_scene,
)


def stack(path, planes, names=None, scale=None, offset=None, nodata=None, crs="EPSG:32633"):
    count, height, width = planes.shape
    with rasterio.open(
        path, "w", driver="GTiff", count=count, height=height, width=width, dtype=planes.dtype, crs=crs,
        transform=from_origin(300000, 5000000, 10, 10), nodata=nodata,
    ) as dataset:  # fmt: skip
        dataset.write(planes)
        for i, name in enumerate(names or [], start=1):
            dataset.set_band_description(i, name)
        if scale is not None:
            dataset.scales, dataset.offsets = [scale] * count, [offset or 0.0] * count
    return path


@pytest.fixture
def planes():
    return np.random.default_rng(0).integers(1, 4000, (5, 70, 90)).astype(np.uint16)


NAMES = ("B2", "B3", "B4", "B8", "B12")


class TestAmazon:
    """A real file that still has the offset of baseline 04.00 in it."""

    def test_scaling_what_is_reflectance_already_is_noticed(self):
        with pytest.warns(OffsetWarning, match="leave out scale"):
            open_scene(shared("sen2_amazon") / "sen2.tif", SceneOptions(scale=1e-4, offset=-0.1))

    def test_without_the_offset_a_warning_names_it(self):
        with pytest.warns(OffsetWarning, match=r"BOA_ADD_OFFSET.*-1000.*--offset -0\.1"):
            scene = open_scene(shared("sen2_amazon") / "sen2.tif")
        assert scene.bands[:3] == ("B01", "B02", "B03")

    def test_with_the_offset_dark_water_is_near_zero(self):
        scene = open_scene(shared("sen2_amazon") / "sen2.tif", SceneOptions(offset=-0.1))
        labels = burn_vector(shared("sen2_amazon") / "trainingPolygons_sen2.gpkg", scene.grid, "class")
        water = scene.read().samples(labels.labels() == "water")
        infrared = [scene.bands.index(band) for band in ("B8A", "B11", "B12")]
        dark = np.median(water[:, infrared], axis=0)
        assert (np.abs(dark) < 0.03).all()

    def test_the_same_in_digital_numbers(self, tmp_path):
        with rasterio.open(shared("sen2_amazon") / "sen2.tif") as source:
            numbers = np.round(source.read() * 10000).astype(np.uint16)
            path = stack(tmp_path / "dn.tif", numbers, source.descriptions)
        with pytest.warns(OffsetWarning, match=r"near 1000.*--offset -1000"):
            open_scene(path, SceneOptions(scale=1))
        with pytest.warns(OffsetWarning, match=r"near 0.1.*--offset -0\.1"):
            open_scene(path, SceneOptions(scale=1e-4))

    def test_an_offset_taken_off_twice_is_noticed(self, tmp_path):
        with rasterio.open(shared("sen2_amazon") / "sen2.tif") as source:
            path = stack(tmp_path / "twice.tif", source.read() - 0.2, source.descriptions)
        with pytest.warns(OffsetWarning, match="taken off twice"):
            open_scene(path)

    def test_the_extracted_pixels_are_those_published(self):
        scene = open_scene(shared("sen2_amazon") / "sen2.tif", SceneOptions(offset=0.0))
        burned = burn_vector(shared("sen2_amazon") / "trainingPolygons_sen2.gpkg", scene.grid, "class")
        names, counts = np.unique(burned.labels()[burned.code > 0], return_counts=True)
        published = {"dryout": 204, "forest": 1056, "village": 614, "water": 496}
        assert dict(zip(names.tolist(), counts.tolist(), strict=True)) == published


@pytest.mark.parametrize("kind", ["TOA", "BOA"])
def test_a_real_scene_without_the_trap_is_not_accused(kind):
    folder = shared("toa_boa_pair")
    path = next(folder.glob(f"*_{kind}_10.tif"))
    scene = open_scene(path, SceneOptions(scale=1e-4))
    assert scene.read().valid.all()


def test_real_l1c_is_not_accused(tmp_path):
    reflectance = np.load(shared("s2_l1c_reference") / "l1c_reflectance.npy")
    for i, date in enumerate(reflectance):
        planes = np.moveaxis(np.delete(date, 10, axis=-1), -1, 0).astype(np.float32)  # without cirrus
        block = open_scene(stack(tmp_path / f"{i}.tif", planes)).read()
        np.testing.assert_array_equal(block.reflectance, planes)
        assert block.valid.all()


def test_scale_and_offset_of_the_file(tmp_path, planes):
    planes[0, 0, 0] = 0
    path = stack(tmp_path / "a.tif", planes, NAMES, scale=1e-4, offset=-0.05, nodata=0)
    scene = open_scene(path)
    block = scene.read()
    assert scene.bands == ("B02", "B03", "B04", "B08", "B12")
    assert block.quality[0, 0] == Quality.PARTIAL
    np.testing.assert_allclose(block.reflectance[1:], planes[1:] * 1e-4 - 0.05, atol=1e-7)


def test_the_users_word_counts_more(tmp_path, planes):
    path = stack(tmp_path / "a.tif", planes, NAMES, scale=1e-4, offset=-0.05)
    scene = open_scene(path, SceneOptions(scale=1e-3, offset=0.5, nodata=7))
    expected = np.where(planes == 7, np.nan, planes * 1e-3 + 0.5)
    np.testing.assert_allclose(scene.read().reflectance, expected, atol=1e-6)


def test_bands_are_chosen_or_named(tmp_path, planes):
    named = stack(tmp_path / "named.tif", planes, NAMES)
    chosen = open_scene(named, SceneOptions(bands=("B12", "b02"), scale=1))
    np.testing.assert_array_equal(chosen.read().reflectance, planes[[4, 0]])
    bare = stack(tmp_path / "bare.tif", planes)
    assert open_scene(bare, SceneOptions(scale=1)).bands == tuple(f"band_{i}" for i in range(1, 6))
    assert open_scene(bare, SceneOptions(scale=1, bands=tuple("vwxyz"))).bands == tuple("vwxyz")
    with pytest.raises(SceneError, match="no band v"):
        open_scene(bare, SceneOptions(scale=1, bands=("v",)))
    with pytest.raises(SceneError, match="no band B11"):
        open_scene(named, SceneOptions(scale=1, bands=("B02", "B11")))


def test_integers_without_a_scale_are_refused(tmp_path, planes):
    with pytest.raises(SceneError, match=r"without a scale.*--scale 0\.0001"):
        open_scene(stack(tmp_path / "a.tif", planes))


def test_a_list_of_files_of_different_resolutions(tmp_path, planes):
    fine, coarse = planes[0], planes[1, :35, :45]
    write_raster(tmp_path / "scene_B02_10m.tif", fine[None], (300000, 5000000), 10, "EPSG:32633", 64)
    write_raster(tmp_path / "scene_B11_20m.tif", coarse[None], (300000, 5000000), 20, "EPSG:32633", 64)
    files = [tmp_path / "scene_B11_20m.tif", tmp_path / "scene_B02_10m.tif"]
    scene = open_scene(files, SceneOptions(scale=1e-4, offset=0))
    assert scene.bands == ("B11", "B02")
    assert scene.grid.shape == (70, 90)
    np.testing.assert_allclose(
        scene.read().reflectance[0], coarse.repeat(2, 0).repeat(2, 1) * 1e-4, atol=1e-7
    )
    with pytest.raises(SceneError, match="empty"):
        open_scene([])


def test_files_in_different_crs_are_refused(tmp_path, planes):
    write_raster(tmp_path / "B02.tif", planes[:1], (300000, 5000000), 10, "EPSG:32633", 64)
    write_raster(tmp_path / "B03.tif", planes[:1], (300000, 5000000), 20, "EPSG:32632", 64)
    with pytest.raises(SceneError, match="another grid"):
        open_scene([tmp_path / "B02.tif", tmp_path / "B03.tif"], SceneOptions(scale=1, offset=0)).read()


@pytest.mark.parametrize("crs", ["EPSG:32633", "EPSG:4326", "EPSG:3035"])
def test_an_area_of_interest_by_polygon_in_any_crs(tmp_path, planes, crs):
    from rasterio.warp import transform

    path = stack(tmp_path / "a.tif", planes, NAMES)
    triangle = np.array([(300100, 4999900), (300700, 4999900), (300100, 4999400)], float)
    corners = np.column_stack(transform("EPSG:32633", crs, *triangle.T))
    aoi = write_vector(tmp_path / "aoi.gpkg", [shapely.Polygon(corners)], {"a": [1]}, crs=crs)
    whole = open_scene(path, SceneOptions(scale=1, offset=0))
    scene = open_scene(path, SceneOptions(scale=1, offset=0, aoi=aoi))
    block = scene.read()
    row, col = scene.grid.offset_in(whole.grid)
    assert (abs(row - 10) <= 1) and (abs(col - 10) <= 1)
    x, y = scene.grid.centres(scene.grid.window)
    signed = (4999900 - y) / 500 + (x - 300100) / 600
    inside = (x > 300110) & (y < 4999890) & (signed < 0.97)
    outside = (x < 300095) | (y > 4999905) | (signed > 1.03)
    assert block.valid[inside].all()
    assert (block.quality[outside] == Quality.NODATA).all()
    same = whole.read(Window(row, col, *scene.grid.shape))
    np.testing.assert_array_equal(block.reflectance[:, inside], same.reflectance[:, inside])


def test_areas_that_cannot_be_used(tmp_path, planes):
    path = stack(tmp_path / "a.tif", planes, NAMES)
    points = write_vector(tmp_path / "points.gpkg", [shapely.Point(15, 45)])
    far = write_vector(tmp_path / "far.gpkg", [shapely.box(100, 10, 101, 11)])
    for aoi, words in (
        (points, "no polygon"),
        (far, "outside the scene"),
        (tmp_path / "no.gpkg", "does not exist"),
    ):
        with pytest.raises(SceneError, match=words):
            open_scene(path, SceneOptions(scale=1, offset=0, aoi=aoi))


def test_no_crs_one_pixel_and_rotated_rasters(tmp_path):
    one = np.full((4, 1, 1), 0.2, np.float32)
    path = stack(tmp_path / "one.tif", one, crs=None)
    assert open_scene(path).read().valid.all()
    with rasterio.open(
        tmp_path / "rotated.tif", "w", driver="GTiff", count=1, width=20, height=10, dtype="float32",
        transform=rasterio.Affine(7, 7, 300000, 7, -7, 5000000), crs="EPSG:32633",
    ) as dataset:  # fmt: skip
        dataset.write(np.arange(200, dtype=np.float32).reshape(1, 10, 20))
    scene = open_scene(tmp_path / "rotated.tif")
    np.testing.assert_array_equal(scene.read(Window(2, 3, 4, 5)).reflectance[0, 0], [43, 44, 45, 46, 47])


def test_a_scene_that_is_all_nodata(tmp_path):
    path = stack(tmp_path / "a.tif", np.full((4, 20, 20), np.nan, np.float32))
    block = open_scene(path).read()
    assert (block.quality == Quality.NODATA).all()
    assert block.samples().shape == (0, 4)


def test_two_bands_of_one_name_are_refused(tmp_path, planes):
    path = stack(tmp_path / "a.tif", planes[:2], ("B2", "B02"))
    with pytest.raises(SceneError, match="a name of its own"):
        open_scene(path, SceneOptions(scale=1, offset=0))
    with pytest.raises(SceneError, match="a name of its own"):
        open_scene(path, SceneOptions(scale=1, offset=0, bands=("B02", "B02")))


def test_names_that_only_gdal_knows(tmp_path, planes):
    path = stack(tmp_path / "a.tif", planes, NAMES)
    scene = open_scene(f"GTIFF_RAW:{path}", SceneOptions(scale=1, offset=0))
    np.testing.assert_array_equal(scene.read().reflectance, planes)


def test_a_missing_library_is_named(monkeypatch, tmp_path, planes):
    path = stack(tmp_path / "a.tif", planes, NAMES)
    monkeypatch.setitem(__import__("sys").modules, "rasterio", None)
    with pytest.raises(SceneError, match=r"rasterio is not installed.*uncover\[maps\]"):
        open_scene(path)


def test_facts_are_plain_and_stable(tmp_path, planes):
    import json

    path = stack(tmp_path / "a.tif", planes, NAMES)
    options = SceneOptions(scale=1e-4, offset=-0.1)
    facts = open_scene(path, options).facts()
    assert json.loads(json.dumps(facts))["sources"][1]["band"] == "B03"
    assert facts == open_scene(path, options).facts()
    assert facts != open_scene(path, SceneOptions(scale=1e-4, offset=0)).facts()


def test_labels_of_a_stack_line_up(tmp_path, planes):
    path = stack(tmp_path / "a.tif", planes, NAMES)
    scene = open_scene(path, SceneOptions(scale=1, offset=0))
    window = Window(10, 20, 30, 40)
    aligned = align_raster(f"{path}:3", scene.grid, window)
    np.testing.assert_array_equal(aligned.values, scene.read(window).reflectance[2])
