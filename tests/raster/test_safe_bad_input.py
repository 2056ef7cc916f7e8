"""Products that are damaged, incomplete or not what they seem: one clear line each."""

import shutil
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner

from safe_trees import expected
from uncover.cli import main
from uncover.raster import BaselineWarning, ReadError, SceneError, SceneOptions, open_scene

pytestmark = pytest.mark.filterwarnings("ignore::uncover.raster.MaskWarning")


def check(path, *words, options=None, kind=SceneError):
    with pytest.raises(kind) as error:
        open_scene(path, options)
    message = str(error.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_a_missing_band(own_product):
    tree = own_product("L2A_05.09")
    tree.band_file("B8A").unlink()
    with pytest.raises(SceneError, match=r"no image of band B8A .* fetch the product again"):
        open_scene(tree.path, SceneOptions(bands=("B02", "B8A")))
    assert open_scene(tree.path, SceneOptions(bands=("B02", "B11"))).bands == ("B02", "B11")
    with pytest.warns(UserWarning, match="no image of B8A; it is read with the bands B02, B03, .*B11, B12"):
        assert "B8A" not in open_scene(tree.path).bands


@pytest.mark.parametrize("baseline", ["abc", ""])
def test_an_unknown_baseline(own_product, baseline):
    tree = own_product("L2A_05.09")
    tree.edit("<PROCESSING_BASELINE>05.09<", f"<PROCESSING_BASELINE>{baseline}<")
    check(tree.path, repr(baseline), "scale and offset")
    scene = open_scene(tree.path, SceneOptions(scale=1e-4, offset=-0.1))
    np.testing.assert_allclose(scene.read().reflectance, expected(tree, -1000), atol=1e-7)


def test_a_newer_baseline_is_read_as_its_metadata_say(own_product):
    tree = own_product("L2A_05.09")
    tree.edit("<PROCESSING_BASELINE>05.09<", "<PROCESSING_BASELINE>06.00<")
    with pytest.warns(BaselineWarning, match="baseline 06.00, newer than those known") as said:
        scene = open_scene(tree.path)
    assert len(said) == 1
    np.testing.assert_allclose(scene.read().reflectance, expected(tree, -1000), atol=1e-7)


def test_a_new_baseline_whose_offset_is_not_stated(own_product):
    tree = own_product("L2A_04.00")
    tree.edit("<BOA_ADD_OFFSET_VALUES_LIST>.*</BOA_ADD_OFFSET_VALUES_LIST>", "")
    check(tree.path, "BOA_ADD_OFFSET", "--offset -0.1")
    np.testing.assert_allclose(
        open_scene(tree.path, SceneOptions(offset=-0.1)).read().reflectance,
        expected(tree, -1000),
        atol=1e-7,
    )


@pytest.mark.parametrize("share", [0.97, 0.5])
def test_a_truncated_band(own_product, share):
    tree = own_product("L1C_03.01")
    file = tree.band_file("B04")
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * share)])
    check(tree.path, "B04", "truncated", kind=ReadError)


@pytest.mark.parametrize("share", [0.97, 0.5])
def test_a_truncated_band_in_a_zip(own_product, share):
    tree = own_product("L1C_03.01")
    file = tree.band_file("B04")
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * share)])
    check(tree.zipped(), "B04", "truncated", kind=ReadError)


@pytest.mark.parametrize("share", [0.97, 0.5])
def test_a_truncated_zip(own_product, share):
    archive = own_product("L1C_03.01").zipped()
    content = archive.read_bytes()
    archive.write_bytes(content[: int(len(content) * share)])
    check(archive, "truncated", kind=ReadError)


def test_a_zip_of_something_else(tmp_path):
    path = tmp_path / "letters.zip"
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr("letter.txt", "dear reader")
    check(path, "no Sentinel-2 product metadata")


def test_truncated_metadata(own_product):
    tree = own_product("L1C_03.01")
    file = tree.path / "MTD_MSIL1C.xml"
    file.write_bytes(file.read_bytes()[:20000])
    check(tree.path, "not complete XML", kind=ReadError)


@pytest.mark.parametrize(
    ("pattern", "garbage"),
    [
        (r"(<QUANTIFICATION_VALUE[^>]*>)10000", r"\1ten thousand"),
        (r"(<PRODUCT_START_TIME>)[^<]*", r"\1yesterday"),
        (r"(<SPECIAL_VALUE_INDEX>)0", r"\1none"),
    ],
)
def test_garbled_metadata(own_product, pattern, garbage):
    tree = own_product("L1C_03.01")
    tree.edit(pattern, garbage)
    check(tree.path, "MTD_MSIL1C.xml", "damaged", kind=ReadError)


@pytest.mark.parametrize(
    ("text", "garbage"),
    [("<VALUES>27.2006", "<VALUES>x"), ("<ULX>4", "<ULX>x4"), ('bandId="4"', 'bandId="44"')],
)
def test_garbled_tile_metadata(own_product, text, garbage):
    tree = own_product("L1C_03.01")
    file = next(tree.path.glob("GRANULE/*/MTD_TL.xml"))
    content = file.read_text()
    assert text in content
    file.write_text(content.replace(text, garbage))
    check(tree.path, "MTD_TL.xml", "damaged", kind=ReadError)


@pytest.mark.parametrize(
    "text", ["<eop:Mask", "<a><MaskFeature><maskType>OPAQUE</maskType><Polygon/></MaskFeature></a>"]
)
def test_garbled_polygons(own_product, text):
    tree = own_product("L1C_03.01")
    tree.write_gml("MSK_CLOUDS_B00.gml")
    file = next(tree.path.glob("GRANULE/*/QI_DATA/MSK_CLOUDS_B00.gml"))
    file.write_text(text)
    check(tree.path, "MSK_CLOUDS_B00.gml", "damaged", kind=ReadError)


def test_a_zip_whose_content_is_damaged(own_product):
    archive = own_product("L1C_03.01").zipped()
    content = bytearray(archive.read_bytes())
    with zipfile.ZipFile(archive) as bundle:
        entry = next(e for e in bundle.infolist() if e.filename.endswith("MTD_MSIL1C.xml"))
    middle = entry.header_offset + entry.compress_size // 2
    content[middle : middle + 200] = bytes(200)
    archive.write_bytes(content)
    check(archive, "MTD_MSIL1C.xml", "damaged", kind=ReadError)


def test_missing_metadata(own_product):
    tree = own_product("L1C_03.01")
    next(tree.path.glob("GRANULE/*/MTD_TL.xml")).unlink()
    check(tree.path, "MTD_TL.xml")
    (tree.path / "MTD_MSIL1C.xml").unlink()
    check(tree.path, "not a complete SAFE product")


def test_several_tiles(own_product):
    tree = own_product("L1C_03.01")
    granules = tree.path / "GRANULE"
    shutil.copytree(granules / tree.granule, granules / tree.granule.replace("T46RER", "T46RFR"))
    check(tree.path, "T46RER", "T46RFR", "--granule T46RER")
    shown = CliRunner().invoke(main, ["info", str(tree.path), "--granule", "T46RER"])
    assert shown.exit_code == 0 and "B8A" in shown.stdout, shown.output
    scene = open_scene(tree.path, SceneOptions(granule="T46RER"))
    np.testing.assert_allclose(scene.read().reflectance, expected(tree, 0), atol=1e-7)


def test_another_level(own_product):
    tree = own_product("L1C_03.01")
    tree.edit("Level-1C<", "Level-1B<")
    check(tree.path, "Level-1B", "Level-1C or Level-2A")


@pytest.mark.parametrize("bbox", [(10, 50, 10.1, 50.1), (-179.9, -10, -179.8, -9.9), (-88, -5, -86, 5)])
def test_an_area_elsewhere(made_products, bbox):
    check(made_products("L1C_03.01").path, "outside the scene", options=SceneOptions(bbox=bbox))


def test_an_area_in_the_wrong_units_or_order(made_products):
    path = made_products("L1C_03.01").path
    check(path, "not in degrees", options=SceneOptions(bbox=(500000, 3000000, 500100, 3000100)))
    check(path, "is empty", options=SceneOptions(bbox=(93.1, 28.0, 93.0, 28.1)))
