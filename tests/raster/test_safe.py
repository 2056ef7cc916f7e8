"""Sentinel-2 products as scenes: their numbers, their metadata, and reading them by windows."""

import pickle
import shutil
from dataclasses import replace

import numpy as np
import pytest

from safe_trees import PRODUCTS, TEN, expected
from uncover.raster import (
    TEN_BANDS,
    Quality,
    SceneOptions,
    Window,
    open_scene,
)

pytestmark = pytest.mark.filterwarnings("ignore::uncover.raster.MaskWarning")

OFFSET = {"L1C_03.01": 0, "L1C_05.11": -1000, "L2A_02.12": 0, "L2A_04.00": -1000, "L2A_05.09": -1000}


def with_radio_offset(tree):
    """The L1C product as baseline 04.00 would state it."""
    listed = "".join(f'<RADIO_ADD_OFFSET band_id="{i}">-1000</RADIO_ADD_OFFSET>' for i in range(13))
    added = f"<Radiometric_Offset_List>{listed}</Radiometric_Offset_List>"
    tree.edit("(<QUANTIFICATION_VALUE)", rf"{added}\1")
    tree.edit("<PROCESSING_BASELINE>03.01<", "<PROCESSING_BASELINE>04.00<")


@pytest.mark.parametrize("product", PRODUCTS)
def test_reflectance_of_every_baseline(made_products, product):
    tree = made_products(product)
    scene = open_scene(tree.path)
    block = scene.read()
    np.testing.assert_allclose(block.reflectance, expected(tree, OFFSET[product]), atol=1e-7)
    assert block.reflectance.dtype == np.float32
    assert scene.bands == TEN_BANDS
    assert scene.level == product[:3]
    assert scene.baseline == product[4:]
    assert scene.grid.resolution == (10, 10)
    assert scene.grid.crs == tree.crs


def test_l1c_with_an_offset(own_product):
    tree = own_product("L1C_03.01")
    with_radio_offset(tree)
    np.testing.assert_allclose(open_scene(tree.path).read().reflectance, expected(tree, -1000), atol=1e-7)


@pytest.mark.parametrize("product", ["L1C_03.01", "L2A_05.09"])
def test_a_zip_is_the_folder(own_product, product):
    tree = own_product(product)
    folder = open_scene(tree.path).read(Window(30, 50, 90, 70))
    archive = tree.zipped()
    shutil.rmtree(tree.path)
    scene = open_scene(archive)
    block = scene.read(Window(30, 50, 90, 70))
    np.testing.assert_array_equal(block.reflectance, folder.reflectance)
    np.testing.assert_array_equal(block.quality, folder.quality)
    assert scene.sensing_time is not None


def test_the_long_names_of_the_first_years(own_product):
    tree = own_product("L1C_03.01")
    now = open_scene(tree.path).read()
    x, y = tree.origin
    box = [(x, y), (x + 100, y), (x + 100, y - 50), (x, y - 50), (x, y)]
    long = "SGS__20160905T073438_A006291_T53HMA"
    tree.write_gml(f"S2A_OPER_MSK_CLOUDS_{long}_B00_MSIL1C.gml", ("OPAQUE", box))
    tree.write_gml(f"S2A_OPER_MSK_NODATA_{long}_B12_MSIL1C.gml", ("QT_NODATA_PIXELS", box))
    granule = tree.path / "GRANULE" / f"S2A_OPER_MSI_L1C_TL_{long}_N02.04"
    (tree.path / "GRANULE" / tree.granule).rename(granule)
    (granule / "MTD_TL.xml").rename(granule / f"S2A_OPER_MTD_L1C_TL_{long}.xml")
    for image in (granule / "IMG_DATA").iterdir():
        image.rename(image.with_name(f"S2A_OPER_MSI_L1C_TL_{long}_{image.stem[-3:]}.jp2"))
    product = "S2A_OPER_MTD_SAFL1C_PDMC_20160905T104813_R002_V20160905T005712_20160905T010424.xml"
    (tree.path / "MTD_MSIL1C.xml").rename(tree.path / product)
    then = open_scene(tree.path).read()
    clear = then.quality == 0
    np.testing.assert_array_equal(then.reflectance[:, clear], now.reflectance[:, clear])
    assert (then.quality[:5, :10] == Quality.CLOUD | Quality.PARTIAL).all()
    assert (~clear).sum() == 50


def test_identity_is_the_datatake_and_not_the_path(own_product, made_products, tmp_path):
    scene = open_scene(made_products("L2A_05.09").path)
    assert scene.identity == "GS2A_20230625T234621_041826"
    assert open_scene(own_product("L2A_05.09").path).identity == scene.identity
    named = open_scene(made_products("L2A_05.09").path, SceneOptions(scene_id="mine"))
    assert named.identity == "mine"


def test_atmosphere_and_time_come_from_the_metadata(made_products):
    scene = open_scene(made_products("L2A_05.09").path)
    assert scene.atmosphere.aot == 0.165903
    assert scene.atmosphere.water_vapour == 1.128304
    assert scene.atmosphere.ozone == 339.248796
    assert scene.atmosphere.aot_method == "CAMS"
    assert scene.platform == "Sentinel-2A"
    assert scene.sensing_time.isoformat().startswith("2023-06-25T23:47:55")
    assert open_scene(made_products("L1C_03.01").path).atmosphere.aot is None


def test_aot_and_water_vapour_layers(own_product):
    tree = own_product("L2A_05.09")
    aot = np.full((120, 120), 166, np.uint16)
    aot[0, 0] = 0
    tree.write("AOT", aot)
    tree.write("WVP", np.full((120, 120), 1128, np.uint16))
    scene = open_scene(tree.path)
    window = Window(0, 0, 6, 6)
    np.testing.assert_allclose(scene.aot(window)[2:, 2:], 0.166, rtol=1e-6)
    assert np.isnan(scene.aot(window)[:2, :2]).all()
    np.testing.assert_allclose(scene.water_vapour(window), 1.128, rtol=1e-6)
    bare = open_scene(made := own_product_without_layers(tree))
    assert made.exists()
    assert bare.aot(window) is None


def own_product_without_layers(tree):
    for layer in ("AOT", "WVP"):
        tree.band_file(layer).unlink()
    return tree.path


@pytest.mark.parametrize("product", PRODUCTS)
def test_angles_are_there_for_every_pixel(made_products, product):
    scene = open_scene(made_products(product).path)
    window = Window(10, 20, 30, 40)
    angles = scene.angles(window)
    assert angles.view_azimuth.shape == angles.sun_zenith.shape == (30, 40)
    assert np.isfinite(angles.view_zenith).all()


@pytest.mark.parametrize("method", ["nearest", "bilinear", "cubic"])
@pytest.mark.parametrize("size", [37, 64, 240])
def test_a_scene_does_not_depend_on_its_blocks(own_product, method, size):
    tree = own_product("L2A_05.09")
    numbers = tree.numbers["B05"].copy()
    numbers[10:14, 10:14] = 0
    tree.write("B05", numbers)
    scene = open_scene(tree.path, SceneOptions(resampling=method))
    whole = scene.read()
    for window in scene.grid.blocks(size):
        block = scene.read(window)
        np.testing.assert_array_equal(block.reflectance, whole.reflectance[:, *window.slices])
        np.testing.assert_array_equal(block.quality, whole.quality[window.slices])


def test_blocks_follow_the_tiles_of_the_files_also_in_a_crop(made_products):
    scene = open_scene(made_products("L2A_05.09").path)
    cropped = scene.crop(Window(50, 100, 100, 100))
    starts = {window.col + 100 for window in cropped.blocks(64)} - {100}
    assert starts == {128, 192}
    window = Window(3, 5, 20, 30)
    np.testing.assert_array_equal(
        cropped.read(window).reflectance, scene.read(window.shifted(50, 100)).reflectance
    )


def test_only_the_tiles_of_the_window_are_decoded(made_products, monkeypatch):
    from uncover.raster import tiles

    decoded = []
    load = tiles.BandFile._load
    monkeypatch.setattr(
        tiles.BandFile,
        "_load",
        lambda self, dataset, tile: decoded.append(self.name) or load(self, dataset, tile),
    )
    scene = open_scene(made_products("L2A_05.09").path)
    assert decoded == []
    scene.read(Window(0, 0, 64, 64))
    assert len(decoded) == len(set(decoded)) == len(TEN) + 1  # one tile of each band, and of SCL


def test_threads_read_what_one_reads(made_products):
    from concurrent.futures import ThreadPoolExecutor

    scene = open_scene(made_products("L2A_05.09").path, SceneOptions(resampling="cubic"))
    windows = list(scene.grid.blocks(50))
    fresh = replace(scene, cache=pickle.loads(pickle.dumps(scene.cache)))
    with ThreadPoolExecutor(4) as pool:
        blocks = list(pool.map(fresh.read, windows))
    for window, block in zip(windows, blocks, strict=True):
        np.testing.assert_array_equal(block.reflectance, scene.read(window).reflectance)


def test_a_scene_travels_to_another_process(made_products):
    scene = open_scene(made_products("L2A_05.09").path)
    window = Window(0, 0, 10, 10)
    scene.read(window)
    copy = pickle.loads(pickle.dumps(scene))
    np.testing.assert_array_equal(copy.read(window).reflectance, scene.read(window).reflectance)


def test_an_area_next_to_the_antimeridian(made_products):
    from rasterio.warp import transform_bounds

    scene = open_scene(made_products("L2A_05.09").path)
    wanted = scene.grid.crop(Window(50, 60, 30, 40))
    bbox = transform_bounds(scene.grid.crs, "EPSG:4326", *wanted.bounds)
    left, bottom, right, top = open_scene(
        made_products("L2A_05.09").path, SceneOptions(bbox=bbox)
    ).grid.bounds
    assert left <= wanted.bounds[0] < wanted.bounds[2] <= right
    assert bottom <= wanted.bounds[1] < wanted.bounds[3] <= top


def test_an_area_of_interest_by_bounding_box(made_products):
    tree = made_products("L1C_03.01")
    whole = open_scene(tree.path)
    x, y = tree.origin
    exact = SceneOptions(bbox=(x + 300, y - 900, x + 800, y - 400), bbox_crs=tree.crs)
    scene = open_scene(tree.path, exact)
    assert scene.grid == whole.grid.crop(Window(40, 30, 50, 50))
    np.testing.assert_array_equal(scene.read().reflectance, whole.read(Window(40, 30, 50, 50)).reflectance)

    from rasterio.warp import transform_bounds

    degrees = transform_bounds(tree.crs, "EPSG:4326", *scene.grid.bounds)
    again = open_scene(tree.path, replace(exact, bbox=degrees, bbox_crs="EPSG:4326"))
    left, bottom, right, top = again.grid.bounds
    assert left <= x + 300 < x + 800 <= right
    assert bottom <= y - 900 < y - 400 <= top
    assert again.grid.width <= 54
