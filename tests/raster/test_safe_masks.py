"""Masks of Sentinel-2 products, old and new, and of the user: which pixels they flag."""

import os
import shutil

import numpy as np
import pytest
import rasterio

from safe_trees import TEN, shared, write_raster
from uncover.raster import MaskWarning, Quality, SceneOptions, Window, open_scene
from uncover.raster.quality import CLEAR

pytestmark = pytest.mark.filterwarnings("ignore::uncover.raster.MaskWarning")


def test_scl(own_product):
    tree = own_product("L2A_05.09")
    scl = np.arange(12, dtype=np.uint8).repeat(10)[None].repeat(120, axis=0)
    tree.write("SCL", scl)
    found = open_scene(tree.path).read().quality[0, ::20]
    meaning = {1: Quality.SATURATED, 3: Quality.SHADOW, 11: Quality.SNOW}
    meaning |= dict.fromkeys((8, 9, 10), Quality.CLOUD)
    assert found.tolist() == [meaning.get(value, CLEAR) for value in range(12)]


def test_classi_of_new_l1c(own_product):
    tree = own_product("L1C_03.01")
    planes = np.zeros((3, 40, 40), np.uint8)
    planes[0, 0, 0] = planes[1, 0, 1] = planes[2, 0, 2] = 1
    tree.write_mask("MSK_CLASSI_B00.jp2", planes, 60)
    quality = open_scene(tree.path).read().quality
    assert (quality[:6, :12] == Quality.CLOUD).all()
    assert (quality[:6, 12:18] == Quality.SNOW).all()
    assert (quality[6:] == 0).all()


def test_gml_clouds_of_old_l1c(own_product):
    tree = own_product("L1C_03.01")
    x, y = tree.origin
    box = [(x, y), (x + 100, y), (x + 100, y - 50), (x, y - 50), (x, y)]
    tree.write_gml("MSK_CLOUDS_B00.gml", ("OPAQUE", box))
    quality = open_scene(tree.path).read().quality
    assert (quality[:5, :10] == Quality.CLOUD).all()
    assert quality.astype(bool).sum() == 50


def test_gml_defects_of_one_band(own_product):
    tree = own_product("L1C_03.01")
    x, y = tree.origin
    lost = [(x, y), (x + 40, y), (x + 40, y - 40), (x, y - 40), (x, y)]
    full = [(px + 100, py) for px, py in lost]
    fixed = [(px + 200, py) for px, py in lost]
    tree.write_gml("MSK_NODATA_B03.gml", ("QT_NODATA_PIXELS", lost), ("QT_PARTIALLY_CORRECTED_PIXELS", fixed))
    tree.write_gml("MSK_SATURA_B04.gml", ("QT_SATURATED_PIXELS_L1A", full))
    block = open_scene(tree.path).read()
    assert (block.quality[:4, :4] == Quality.PARTIAL).all()
    assert np.isnan(block.reflectance[1, :4, :4]).all()
    assert np.isfinite(block.reflectance[0]).all()
    assert (block.quality[:4, 10:14] == Quality.SATURATED).all()
    assert block.quality.astype(bool).sum() == 32


def test_qualit(own_product):
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


def test_numbers_that_mean_no_data_and_saturation(own_product):
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


def test_a_negative_reflectance_is_a_measurement(own_product):
    tree = own_product("L2A_05.09")
    tree.write("B02", np.full((240, 240), 1, np.uint16))
    block = open_scene(tree.path).read()
    np.testing.assert_allclose(block.reflectance[0], -0.0999, atol=1e-7)
    assert block.valid.all()


@pytest.mark.parametrize("crs", ["same", "EPSG:4326"])
def test_a_mask_of_the_users_own(made_products, tmp_path, crs):
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
    assert (block.quality[102:148, 22:88] == Quality.MASKED).all()
    assert not block.valid[102:148, 22:88].any()
    assert (block.quality[152:] == 0).all()
    meant = open_scene(tree.path, SceneOptions(mask=path, mask_values={1: Quality.SHADOW})).read()
    assert (meant.quality[102:148, 22:88] == Quality.SHADOW).all()
    np.testing.assert_array_equal(block.reflectance[:, 152:], scene.read().reflectance[:, 152:])


def test_no_cloud_mask_is_said(own_product):
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


@pytest.mark.slow
def test_masks_of_a_real_product_agree_on_cloud_as_far_as_the_page_says(tmp_path):
    """Its scene classification against MSK_CLASSI, which stands in for it."""
    (real,) = shared("safe_l2a_real").glob("*.SAFE")
    product = tmp_path / real.name
    shutil.copytree(real, product, copy_function=os.symlink, ignore=shutil.ignore_patterns("*SCL*"))
    one, other = (open_scene(each, SceneOptions(bands=("B02",))).read().quality for each in (real, product))
    land = (one & Quality.NODATA) == 0
    by_scl, by_classi = ((each[land] & Quality.CLOUD) > 0 for each in (one, other))
    both = (by_scl & by_classi).sum()
    found = (by_scl == by_classi).mean(), both / by_scl.sum(), both / by_classi.sum()
    np.testing.assert_allclose(found, (0.950, 0.932, 0.983), atol=0.002)


def test_the_masks_of_a_real_product_are_read_as_rasterio_reads_them(tmp_path):
    """Without its scene classification a real product of 04.00 falls back on MSK_CLASSI."""
    (real,) = shared("safe_l2a_real").glob("*.SAFE")
    product = tmp_path / real.name
    shutil.copytree(real, product, copy_function=os.symlink, ignore=shutil.ignore_patterns("*SCL*"))
    scene = open_scene(product, SceneOptions(bands=("B02",)))
    window = Window(0, 0, 400, 1830)
    quality = scene.read(window).quality
    (path,) = product.glob("GRANULE/*/QI_DATA/MSK_CLASSI_B00.jp2")
    with rasterio.open(path) as dataset:
        opaque, cirrus, snow = dataset.read(window=((0, 400), (0, 1830)))
    np.testing.assert_array_equal((quality & Quality.CLOUD) > 0, (opaque + cirrus) > 0)
    np.testing.assert_array_equal((quality & Quality.SNOW) > 0, snow > 0)
    assert opaque.any()
    assert not (quality & Quality.SATURATED).any()
