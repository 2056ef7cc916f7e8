import numpy as np
import pytest
from vector_files import write_json

from safe_trees import write_raster
from uncover.raster import OffsetWarning, Quality, ReadError, SceneError, SceneOptions, open_scene

KEYS = ("blue", "green", "red", "rededge1", "rededge2", "rededge3", "nir", "nir08", "swir16", "swir22")
BANDS = ("B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B11", "B12")
ORIGIN = (300000, 5000000)


@pytest.fixture
def numbers():
    """Digital numbers of baseline 04.00 on: a dark scene with the offset in, ten bands at 10 m."""
    return np.random.default_rng(0).integers(1010, 4000, (10, 40, 60)).astype(np.uint16)


def item(folder, numbers, keys=KEYS, properties=None, asset=None, extra=None):
    assets = dict(extra or {})
    for key, plane in zip(keys, numbers, strict=True):
        write_raster(folder / f"{key}.tif", plane[None], ORIGIN, 10, "EPSG:32633", 64)
        assets[key] = {"href": f"./{key}.tif", "roles": ["data"], **(asset or {})}
    said = {"datetime": "2023-06-25T10:20:30Z", "platform": "sentinel-2a", **(properties or {})}
    content = {
        "type": "Feature",
        "stac_version": "1.0.0",
        "id": "S2A_X",
        "properties": said,
        "assets": assets,
    }
    return write_json(folder / "item.json", content)


RASTER = {"raster:bands": [{"nodata": 0, "scale": 0.0001, "offset": -0.1}]}
NEW_RASTER = {"raster:scale": 0.0001, "raster:offset": -0.1, "nodata": 0}


@pytest.mark.parametrize("asset", [RASTER, NEW_RASTER, {"bands": [NEW_RASTER]}])
def test_scale_and_offset_of_the_item(tmp_path, numbers, asset):
    scene = open_scene(item(tmp_path, numbers, asset=asset, properties={"s2:datatake_id": "GS2A_1_2_N05.09"}))
    assert scene.bands == BANDS
    assert scene.identity == "GS2A_1_2"
    assert scene.sensing_time.isoformat() == "2023-06-25T10:20:30+00:00"
    np.testing.assert_allclose(scene.read().reflectance, numbers * 1e-4 - 0.1, atol=1e-7)


@pytest.mark.parametrize(("baseline", "offset"), [("05.09", -0.1), ("02.12", 0.0)])
def test_a_silent_item_is_read_by_its_baseline(tmp_path, numbers, baseline, offset):
    numbers = numbers if offset else numbers - 1000
    path = item(tmp_path, numbers, properties={"s2:processing_baseline": baseline})
    np.testing.assert_allclose(open_scene(path).read().reflectance, numbers * 1e-4 + offset, atol=1e-7)


def test_an_offset_that_the_catalogue_has_applied(tmp_path, numbers):
    said = {"earthsearch:boa_offset_applied": True}
    scene = open_scene(item(tmp_path, numbers - 1000, asset=RASTER, properties=said))
    np.testing.assert_allclose(scene.read().reflectance, (numbers - 1000) * 1e-4, atol=1e-7)


def test_a_catalogue_that_says_the_wrong_thing_is_noticed(tmp_path, numbers):
    dark = np.clip(numbers - 1000, 1, 600).astype(np.uint16)
    with pytest.warns(OffsetWarning, match="taken off twice"):
        open_scene(item(tmp_path, dark, asset=RASTER))


def test_keys_with_resolution_and_masks(tmp_path, numbers):
    scl = np.full((1, 20, 30), 4, np.uint8)
    scl[0, 0, 0] = 9
    write_raster(tmp_path / "SCL.tif", scl, ORIGIN, 20, "EPSG:32633", 64)
    write_raster(tmp_path / "AOT.tif", np.full((1, 40, 60), 150, np.uint16), ORIGIN, 10, "EPSG:32633", 64)
    extra = {
        "SCL_20m": {"href": "SCL.tif"},
        "AOT_10m": {"href": "AOT.tif"},
        "B02_60m": {"href": "missing.tif"},
        "visual": {"href": "missing.tif", "roles": ["visual"]},
    }
    keys = tuple(f"{band}_{20 if band in BANDS[3:6] else 10}m" for band in BANDS)
    scene = open_scene(item(tmp_path, numbers, keys=keys, asset=RASTER, extra=extra))
    block = scene.read()
    assert (block.quality[:2, :2] == Quality.CLOUD).all()
    assert block.quality.astype(bool).sum() == 4
    np.testing.assert_allclose(scene.aot(), 0.15, rtol=1e-6)
    np.testing.assert_allclose(block.reflectance, numbers * 1e-4 - 0.1, atol=1e-7)


def test_an_item_of_another_sensor(tmp_path, numbers):
    path = item(
        tmp_path,
        numbers[:4],
        keys=("red", "nir", "swir", "x"),
        asset=RASTER,
        properties={"platform": "other"},
    )
    assert open_scene(path).bands == ("red", "nir", "swir", "x")
    assert open_scene(path, SceneOptions(bands=("nir",))).bands == ("nir",)


def test_bad_items(tmp_path, numbers):
    path = item(tmp_path, numbers[:3], keys=KEYS[:3], asset=RASTER)
    with pytest.raises(SceneError, match="no asset for band B05"):
        open_scene(path)
    content = path.read_text()
    path.write_text(content[: len(content) // 2])
    with pytest.raises(ReadError, match="truncated"):
        open_scene(path)
    with pytest.raises(SceneError, match="not a STAC item"):
        open_scene(write_json(tmp_path / "c.json", {"type": "Collection"}))
    gone = item(tmp_path, numbers, asset=RASTER)
    (tmp_path / "red.tif").unlink()
    with pytest.raises(SceneError, match=r"red\.tif does not exist"):
        open_scene(gone)


def test_layers_that_cannot_be_reached_are_done_without(tmp_path, numbers, monkeypatch):
    """Nobody listens at port 9 of this machine."""
    monkeypatch.setattr("uncover.remote.PAUSES", ())
    far = {"aot": {"href": "http://127.0.0.1:9/AOT.tif"}, "wvp": {"href": "http://127.0.0.1:9/WVP.tif"}}
    with pytest.warns(UserWarning, match="S2A_X is read without its layers AOT and WVP"):
        scene = open_scene(item(tmp_path, numbers, asset=RASTER, extra=far))
    assert scene.aot() is None and scene.read().valid.all()
    near = {"aot": {"href": "./AOT.tif"}}
    with pytest.raises(SceneError, match="AOT"):
        open_scene(item(tmp_path, numbers, asset=RASTER, extra=near))


def test_probabilities_of_cloud_of_an_item(tmp_path, numbers):
    share = np.arange(600, dtype=np.uint8).reshape(1, 20, 30) % 100
    write_raster(tmp_path / "cld.tif", share, ORIGIN, 20, "EPSG:32633", 64)
    path = item(tmp_path, numbers, asset=RASTER, extra={"cloud": {"href": "./cld.tif"}})
    quality = open_scene(path, SceneOptions(cloud_probability=60)).read().quality
    np.testing.assert_array_equal(quality == Quality.CLOUD, (share[0] >= 60).repeat(2, 0).repeat(2, 1))
    assert not open_scene(path).read().quality.any()
    bare = item(tmp_path, numbers, asset=RASTER)
    with pytest.raises(SceneError, match="no asset cloud"):
        open_scene(bare, SceneOptions(cloud_probability=60))
