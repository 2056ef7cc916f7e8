import pickle
import shutil
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from safe_trees import PRODUCTS, TEN, write_raster
from uncover.raster import (
    TEN_BANDS,
    MaskWarning,
    Quality,
    ReadError,
    SceneError,
    SceneOptions,
    Window,
    open_scene,
)
from uncover.raster.quality import CLEAR

pytestmark = pytest.mark.filterwarnings("ignore::uncover.raster.MaskWarning")

OFFSET = {"L1C_03.01": 0, "L2A_02.12": 0, "L2A_04.00": -1000, "L2A_05.09": -1000}


def expected(tree, offset, size=240):
    """Reflectance from the digital numbers, by the formula of the product specification."""
    planes = []
    for band in TEN_BANDS:
        numbers = tree.numbers[band].astype(np.float64)
        numbers = numbers.repeat(size // len(numbers), axis=0).repeat(size // len(numbers), axis=1)
        planes.append(np.where(numbers == 0, np.nan, (numbers + offset) / 10000))
    return np.stack(planes)


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


class TestMasks:
    def test_scl(self, own_product):
        tree = own_product("L2A_05.09")
        scl = np.arange(12, dtype=np.uint8).repeat(10)[None].repeat(120, axis=0)
        tree.write("SCL", scl)
        found = open_scene(tree.path).read().quality[0, ::20]
        meaning = {1: Quality.SATURATED, 3: Quality.SHADOW, 11: Quality.SNOW}
        meaning |= dict.fromkeys((8, 9, 10), Quality.CLOUD)
        assert found.tolist() == [meaning.get(value, CLEAR) for value in range(12)]

    def test_classi_of_new_l1c(self, own_product):
        tree = own_product("L1C_03.01")
        planes = np.zeros((3, 40, 40), np.uint8)
        planes[0, 0, 0] = planes[1, 0, 1] = planes[2, 0, 2] = 1
        tree.write_mask("MSK_CLASSI_B00.jp2", planes, 60)
        quality = open_scene(tree.path).read().quality
        assert (quality[:6, :12] == Quality.CLOUD).all()
        assert (quality[:6, 12:18] == Quality.SNOW).all()
        assert (quality[6:] == 0).all()

    def test_gml_clouds_of_old_l1c(self, own_product):
        tree = own_product("L1C_03.01")
        x, y = tree.origin
        box = [(x, y), (x + 100, y), (x + 100, y - 50), (x, y - 50), (x, y)]
        tree.write_gml("MSK_CLOUDS_B00.gml", ("OPAQUE", box))
        quality = open_scene(tree.path).read().quality
        assert (quality[:5, :10] == Quality.CLOUD).all()
        assert quality.astype(bool).sum() == 50

    def test_gml_defects_of_one_band(self, own_product):
        tree = own_product("L1C_03.01")
        x, y = tree.origin
        lost = [(x, y), (x + 40, y), (x + 40, y - 40), (x, y - 40), (x, y)]
        full = [(px + 100, py) for px, py in lost]
        fixed = [(px + 200, py) for px, py in lost]
        tree.write_gml(
            "MSK_NODATA_B03.gml", ("QT_NODATA_PIXELS", lost), ("QT_PARTIALLY_CORRECTED_PIXELS", fixed)
        )
        tree.write_gml("MSK_SATURA_B04.gml", ("QT_SATURATED_PIXELS_L1A", full))
        block = open_scene(tree.path).read()
        assert (block.quality[:4, :4] == Quality.PARTIAL).all()
        assert np.isnan(block.reflectance[1, :4, :4]).all()
        assert np.isfinite(block.reflectance[0]).all()
        assert (block.quality[:4, 10:14] == Quality.SATURATED).all()
        assert block.quality.astype(bool).sum() == 32

    def test_qualit(self, own_product):
        tree = own_product("L2A_05.09")
        planes = np.zeros((8, 240, 240), np.uint8)
        planes[2, 0, 0] = planes[5, 0, 1] = planes[7, 0, 2] = planes[4, 0, 3] = 1
        planes[[0, 1, 3, 6], 0, 4] = (
            1  # ancillary data, degraded packets, corrected crosstalk: still a measurement
        )
        tree.write_mask("MSK_QUALIT_B08.jp2", planes, 10)
        quality = open_scene(tree.path).read().quality
        wanted = [Quality.PARTIAL, Quality.PARTIAL, Quality.SATURATED, Quality.SATURATED, CLEAR]
        assert quality[0, :5].tolist() == wanted
        assert (open_scene(tree.path, SceneOptions(detector_masks=False)).read().quality == 0).all()

    def test_numbers_that_mean_no_data_and_saturation(self, own_product):
        tree = own_product("L2A_05.09")
        for band in TEN:
            numbers = tree.numbers[band].copy()
            numbers[:3] = 0
            tree.write(band, numbers)
        numbers = tree.numbers["B02"].copy()
        numbers[20, 0], numbers[21, 0] = 0, 65535
        tree.write("B02", numbers)
        block = open_scene(tree.path).read()
        assert (block.quality[:3] == Quality.NODATA).all()
        assert np.isnan(block.reflectance[:, :3]).all()
        assert (block.quality[3:6] == Quality.PARTIAL).all()  # the 20 m bands reach further
        assert block.quality[20, 0] == Quality.PARTIAL
        assert block.quality[21, 0] == Quality.PARTIAL | Quality.SATURATED
        assert not block.valid[:6].any()
        assert np.isfinite(block.samples()).all()
        assert len(block.samples()) == block.valid.sum() == 240 * 234 - 2

    def test_a_negative_reflectance_is_a_measurement(self, own_product):
        tree = own_product("L2A_05.09")
        tree.write("B02", np.full((240, 240), 1, np.uint16))
        block = open_scene(tree.path).read()
        np.testing.assert_allclose(block.reflectance[0], -0.0999, atol=1e-7)
        assert block.valid.all()

    @pytest.mark.parametrize("crs", ["same", "EPSG:4326"])
    def test_a_mask_of_the_users_own(self, made_products, tmp_path, crs):
        tree = made_products("L2A_05.09")
        scene = open_scene(tree.path)
        path = tmp_path / "mask.tif"
        values = np.zeros((1, 240, 240), np.uint8)
        values[0, 100:150, 20:90] = 1
        values[0, 0, 0] = 2
        write_raster(path, values, tree.origin, 10, tree.crs, 64)
        if crs != "same":
            path = warped(path, crs, tmp_path)
        block = open_scene(tree.path, SceneOptions(mask=path)).read()
        assert (block.quality[102:148, 22:88] == Quality.CLOUD).all()
        assert (block.quality[152:] == 0).all()
        meant = open_scene(tree.path, SceneOptions(mask=path, mask_values={1: Quality.SHADOW})).read()
        assert (meant.quality[102:148, 22:88] == Quality.SHADOW).all()
        np.testing.assert_array_equal(block.reflectance, scene.read().reflectance)

    def test_no_cloud_mask_is_said(self, own_product):
        with pytest.warns(MaskWarning, match="no cloud mask"):
            open_scene(own_product("L1C_03.01").path)


def warped(path, crs, folder):
    import rasterio
    from rasterio.vrt import WarpedVRT

    with rasterio.open(path) as source, WarpedVRT(source, crs=crs) as view:
        out = folder / "warped.tif"
        with rasterio.open(out, "w", **{**view.profile, "driver": "GTiff"}) as target:
            target.write(view.read())
    return out


class TestBadInput:
    def check(self, path, *words, options=None, kind=SceneError):
        with pytest.raises(kind) as error:
            open_scene(path, options)
        message = str(error.value)
        assert "\n" not in message
        for word in words:
            assert word in message

    def test_a_missing_band(self, own_product):
        tree = own_product("L2A_05.09")
        tree.band_file("B8A").unlink()
        self.check(tree.path, "B8A", "fetch the product again")
        assert open_scene(tree.path, SceneOptions(bands=("B02", "B11"))).bands == ("B02", "B11")

    @pytest.mark.parametrize("baseline", ["07.00", "abc", ""])
    def test_an_unknown_baseline(self, own_product, baseline):
        tree = own_product("L2A_05.09")
        tree.edit("<PROCESSING_BASELINE>05.09<", f"<PROCESSING_BASELINE>{baseline}<")
        self.check(tree.path, repr(baseline), "scale and offset")
        scene = open_scene(tree.path, SceneOptions(scale=1e-4, offset=-0.1))
        np.testing.assert_allclose(scene.read().reflectance, expected(tree, -1000), atol=1e-7)

    def test_a_new_baseline_whose_offset_is_not_stated(self, own_product):
        tree = own_product("L2A_04.00")
        tree.edit("<BOA_ADD_OFFSET_VALUES_LIST>.*</BOA_ADD_OFFSET_VALUES_LIST>", "")
        self.check(tree.path, "BOA_ADD_OFFSET", "--offset -0.1")
        np.testing.assert_allclose(
            open_scene(tree.path, SceneOptions(offset=-0.1)).read().reflectance,
            expected(tree, -1000),
            atol=1e-7,
        )

    @pytest.mark.parametrize("share", [0.97, 0.5])
    def test_a_truncated_band(self, own_product, share):
        tree = own_product("L1C_03.01")
        file = tree.band_file("B04")
        content = file.read_bytes()
        file.write_bytes(content[: int(len(content) * share)])
        self.check(tree.path, "B04", "truncated", kind=ReadError)

    @pytest.mark.parametrize("share", [0.97, 0.5])
    def test_a_truncated_band_in_a_zip(self, own_product, share):
        tree = own_product("L1C_03.01")
        file = tree.band_file("B04")
        content = file.read_bytes()
        file.write_bytes(content[: int(len(content) * share)])
        self.check(tree.zipped(), "B04", "truncated", kind=ReadError)

    @pytest.mark.parametrize("share", [0.97, 0.5])
    def test_a_truncated_zip(self, own_product, share):
        archive = own_product("L1C_03.01").zipped()
        content = archive.read_bytes()
        archive.write_bytes(content[: int(len(content) * share)])
        self.check(archive, "truncated", kind=ReadError)

    def test_a_zip_of_something_else(self, tmp_path):
        path = tmp_path / "letters.zip"
        with zipfile.ZipFile(path, "w") as bundle:
            bundle.writestr("letter.txt", "dear reader")
        self.check(path, "no Sentinel-2 product metadata")

    def test_truncated_metadata(self, own_product):
        tree = own_product("L1C_03.01")
        file = tree.path / "MTD_MSIL1C.xml"
        file.write_bytes(file.read_bytes()[:20000])
        self.check(tree.path, "not complete XML", kind=ReadError)

    @pytest.mark.parametrize(
        ("pattern", "garbage"),
        [
            (r"(<QUANTIFICATION_VALUE[^>]*>)10000", r"\1ten thousand"),
            (r"(<PRODUCT_START_TIME>)[^<]*", r"\1yesterday"),
            (r"(<SPECIAL_VALUE_INDEX>)0", r"\1none"),
        ],
    )
    def test_garbled_metadata(self, own_product, pattern, garbage):
        tree = own_product("L1C_03.01")
        tree.edit(pattern, garbage)
        self.check(tree.path, "MTD_MSIL1C.xml", "damaged", kind=ReadError)

    @pytest.mark.parametrize(
        ("text", "garbage"),
        [("<VALUES>27.2006", "<VALUES>x"), ("<ULX>4", "<ULX>x4"), ('bandId="4"', 'bandId="44"')],
    )
    def test_garbled_tile_metadata(self, own_product, text, garbage):
        tree = own_product("L1C_03.01")
        file = next(tree.path.glob("GRANULE/*/MTD_TL.xml"))
        content = file.read_text()
        assert text in content
        file.write_text(content.replace(text, garbage))
        self.check(tree.path, "MTD_TL.xml", "damaged", kind=ReadError)

    @pytest.mark.parametrize(
        "text", ["<eop:Mask", "<a><MaskFeature><maskType>OPAQUE</maskType><Polygon/></MaskFeature></a>"]
    )
    def test_garbled_polygons(self, own_product, text):
        tree = own_product("L1C_03.01")
        tree.write_gml("MSK_CLOUDS_B00.gml")
        file = next(tree.path.glob("GRANULE/*/QI_DATA/MSK_CLOUDS_B00.gml"))
        file.write_text(text)
        self.check(tree.path, "MSK_CLOUDS_B00.gml", "damaged", kind=ReadError)

    def test_a_zip_whose_content_is_damaged(self, own_product):
        archive = own_product("L1C_03.01").zipped()
        content = bytearray(archive.read_bytes())
        with zipfile.ZipFile(archive) as bundle:
            entry = next(e for e in bundle.infolist() if e.filename.endswith("MTD_MSIL1C.xml"))
        middle = entry.header_offset + entry.compress_size // 2
        content[middle : middle + 200] = bytes(200)
        archive.write_bytes(content)
        self.check(archive, "MTD_MSIL1C.xml", "damaged", kind=ReadError)

    def test_missing_metadata(self, own_product):
        tree = own_product("L1C_03.01")
        next(tree.path.glob("GRANULE/*/MTD_TL.xml")).unlink()
        self.check(tree.path, "MTD_TL.xml")
        (tree.path / "MTD_MSIL1C.xml").unlink()
        self.check(tree.path, "not a complete SAFE product")

    def test_several_tiles(self, own_product):
        tree = own_product("L1C_03.01")
        granules = tree.path / "GRANULE"
        shutil.copytree(granules / tree.granule, granules / tree.granule.replace("T46RER", "T46RFR"))
        self.check(tree.path, "T46RER", "T46RFR", "granule=")
        scene = open_scene(tree.path, SceneOptions(granule="T46RER"))
        np.testing.assert_allclose(scene.read().reflectance, expected(tree, 0), atol=1e-7)

    def test_another_level(self, own_product):
        tree = own_product("L1C_03.01")
        tree.edit("Level-1C<", "Level-1B<")
        self.check(tree.path, "Level-1B", "Level-1C or Level-2A")

    @pytest.mark.parametrize("bbox", [(10, 50, 10.1, 50.1), (-179.9, -10, -179.8, -9.9), (-88, -5, -86, 5)])
    def test_an_area_elsewhere(self, made_products, bbox):
        self.check(made_products("L1C_03.01").path, "outside the scene", options=SceneOptions(bbox=bbox))

    def test_an_area_in_the_wrong_units_or_order(self, made_products):
        path = made_products("L1C_03.01").path
        self.check(path, "not in degrees", options=SceneOptions(bbox=(500000, 3000000, 500100, 3000100)))
        self.check(path, "is empty", options=SceneOptions(bbox=(93.1, 28.0, 93.0, 28.1)))


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
