"""Scenes behind HTTP: ranges of files on a server of this machine, which fails when it is told to."""

import json
from dataclasses import replace

import numpy as np
import pytest
import rasterio
from vector_files import write_json

from file_server import serving
from map_cases import contents, fitted, reflectance, save_model, write_scene
from uncover import remote
from uncover.pipeline import MapOptions, map_scene
from uncover.raster import ReadError, SceneError, SceneOptions, open_scene
from uncover.raster.fingerprints import content_identity, fingerprint_of, unchanged

BANDS = ("B02", "B03", "B04", "B8A")
SIDE = 1024


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(remote, "PAUSES", (0.01, 0.01))


@pytest.fixture(scope="module")
def numbers():
    """Noise, which does not compress: the files are as large as their pixels."""
    return np.random.default_rng(0).integers(1, 9000, (len(BANDS), SIDE, SIDE)).astype(np.uint16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, numbers):
    """An item, and its bands as Cloud-Optimised GeoTIFFs."""
    found, assets = tmp_path_factory.mktemp("served"), {}
    profile = {
        "driver": "COG",
        "dtype": "uint16",
        "count": 1,
        "height": SIDE,
        "width": SIDE,
        "blocksize": 256,
    }
    place = {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 300000, 0, -10, 5000000)}
    for band, plane in zip(BANDS, numbers, strict=True):
        with rasterio.open(found / f"{band}.tif", "w", **profile, **place, compress="deflate") as file:
            file.write(plane, 1)
        assets[band] = {"href": f"{band}.tif", "roles": ["data"]}
    said = {"datetime": "2023-06-25T10:20:30Z", "platform": "camera"}
    content = {"type": "Feature", "stac_version": "1.0.0", "id": "X", "properties": said, "assets": assets}
    for asset in assets.values():
        asset["raster:bands"] = [{"scale": 0.0001, "offset": 0, "nodata": 0}]
    write_json(found / "item.json", content)
    return found


@pytest.fixture
def server(folder):
    with serving(folder) as running:
        yield running


def test_an_item_at_an_address_is_the_item_on_disk(folder, server):
    near, far = open_scene(folder / "item.json"), open_scene(f"{server.url}/item.json")
    np.testing.assert_array_equal(near.read().reflectance, far.read().reflectance)
    assert far.bands == BANDS


def test_only_what_is_needed_is_sent(folder, server):
    """A part of 256² of 1,024² pixels: one tile of each band, and the headers."""
    scene = open_scene(f"{server.url}/item.json", SceneOptions(offset=0.0))  # no look at its numbers
    window = scene.grid.window
    scene.read(type(window)(300, 300, 16, 16))
    each = sum(n for name, n in server.sent.items() if name.endswith(".tif")) / len(BANDS)
    size = (folder / "B02.tif").stat().st_size
    assert each < 0.45 * size, f"{each:.0f} of {size} bytes were sent"


@pytest.mark.parametrize("fault", [503, "cut", "drop"])
def test_a_failure_that_passes_is_not_noticed(folder, server, fault):
    """Every third request fails, in the middle of a body, or before it."""
    server.fault = lambda request: fault if request.number % 3 == 0 else None
    far = open_scene(f"{server.url}/item.json").read()
    server.fault = lambda request: None
    np.testing.assert_array_equal(open_scene(folder / "item.json").read().reflectance, far.reflectance)


@pytest.mark.parametrize("fault", [503, "cut", "drop"])
def test_a_server_that_stops_in_the_middle_is_one_line(server, fault):
    scene = open_scene(f"{server.url}/item.json", SceneOptions(offset=0.0))
    server.fault = lambda request: fault
    with pytest.raises(ReadError, match=r"B02\.tif.* try again later") as caught:
        scene.read()
    assert "\n" not in str(caught.value)
    server.fault = lambda request: None
    assert scene.read().valid.all()  # nothing of the failure is kept


def test_a_map_goes_on_where_the_server_stopped(tmp_path, server):
    """A server dies after some tiles; what was computed is kept, and not a byte differs."""
    scene = write_scene(
        server.folder / "scene.tif", reflectance(512, 512), tiled=True, blockxsize=256, blockysize=256
    )
    model, far = save_model(tmp_path / "m.uncover", fitted()), f"{server.url}/{scene.name}"
    options = MapOptions(block=256, threads=1)
    whole = map_scene(model, far, tmp_path / "whole", options)
    enough = server.asked["/scene.tif"] // 2
    server.asked.clear()
    server.fault = lambda request: "drop" if server.asked["/scene.tif"] > enough else None
    with pytest.raises(SceneError, match=r"scene\.tif.*finished work is kept, go on with --resume"):
        map_scene(model, far, tmp_path / "map", options)
    assert not (tmp_path / "map").exists()
    server.fault = lambda request: None
    server.asked.clear()
    found = map_scene(model, far, tmp_path / "map", replace(options, resume=True))
    assert contents(found) == contents(whole)
    assert server.asked["/scene.tif"] < 2 * enough  # what was finished is not fetched again


def test_addresses_that_are_wrong(server, folder):
    with pytest.raises(SceneError, match=r"gone\.tif does not exist; check the address"):
        open_scene(f"{server.url}/gone.tif")
    with pytest.raises((ValueError, OSError), match="does not exist"):
        open_scene(f"{server.url}/gone.json")
    server.pages["/login.tif"] = lambda _: (200, "text/html", b"<html>please log in</html>")
    with pytest.raises(ReadError, match="answers with a web page"):
        open_scene(f"{server.url}/login.tif")
    server.fault = lambda request: 403
    with pytest.raises(ReadError, match=r"answered 403 Forbidden; check the address and your access"):
        open_scene(f"{server.url}/B02.tif")
    server.fault = lambda request: None
    server.pages["/page.json"] = lambda _: (200, "text/html", b"<html>an error</html>")
    with pytest.raises(ReadError, match="answers with a web page"):
        open_scene(f"{server.url}/page.json")
    server.pages["/half.json"] = lambda _: (200, "application/json", b'{"type": "Feature", "assets"')
    with pytest.raises(ReadError, match=r"half\.json is damaged, or not the JSON it should be"):
        open_scene(f"{server.url}/half.json")


def test_relative_and_absolute_names_of_assets(server, folder, tmp_path):
    """An item of this machine may name assets elsewhere, one of elsewhere names them beside itself."""
    content = json.loads((folder / "item.json").read_text())
    for band, asset in content["assets"].items():
        asset["href"] = f"{server.url}/{band}.tif"
    scene = open_scene(write_json(tmp_path / "item.json", content))
    assert scene.read().valid.all()
    assert remote.beside("https://host/a/item.json", "../b/x.tif") == "https://host/b/x.tif"
    assert remote.beside("https://host/a/item.json", "s3://bucket/x.tif") == "s3://bucket/x.tif"
    assert remote.beside("s3://bucket/a/item.json", "x.tif") == "s3://bucket/a/x.tif"


def test_other_content_at_the_same_address_is_another_scene(folder, tmp_path):
    """What a run goes on with, and whether it may, is decided by the server's entity tag."""
    own = tmp_path / "own"
    own.mkdir()
    for file in folder.iterdir():
        (own / file.name).write_bytes(file.read_bytes())
    with serving(own) as server:
        scene = open_scene(f"{server.url}/item.json")
        before = fingerprint_of(scene), content_identity(scene)
        assert before == (fingerprint_of(scene), content_identity(scene))
        with unchanged() as check:
            open_scene(f"{server.url}/item.json").read()
            check()
            (own / "B03.tif").write_bytes((folder / "B04.tif").read_bytes())
            with pytest.raises(SceneError, match=r"B03\.tif changed while it was read"):
                check()
        assert before[0] != fingerprint_of(scene) and before[1] != content_identity(scene)
