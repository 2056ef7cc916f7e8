"""The server of the viewer: values of the files bit by bit, and one status for everything else."""

import gzip
import hashlib
import http.client
import json
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace
from urllib.parse import urlsplit

import numpy as np
import pyogrio.raw
import pytest
import rasterio
import shapely
from click.testing import CliRunner
from rasterio.transform import Affine

import uncover
from map_products import world, write_item, write_product
from report_cases import HEIGHT, WIDTH, write_scene_cube
from uncover import pipeline
from uncover.cli import main
from uncover.pipeline import contents
from uncover.pipeline.map_product import MapProduct, StoredLayer
from uncover.pipeline.mapping import MapOptions
from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window
from uncover.raster.map_formats import cog_options
from uncover.raster.product import UNCERTAINTY, Layer
from uncover.raster.quality import Quality
from uncover.raster.resample import move
from uncover.raster.tiles import ArrayPlanes, describe
from uncover.viewer import open_maps, view
from uncover.viewer.areas import areas_of
from uncover.viewer.export import export_page, places_by_degrees
from uncover.viewer.planes import SIDE, ThinnedPlane, level_shape, levels_of, open_files, plane_of
from uncover.viewer.server import Maps, Server, static_file
from uncover.viewer.viewed import ViewedMap


def get(shown, path, token=None, method="GET", **headers):
    """Status and content of an answer."""
    parts = urlsplit(shown.address)
    base = parts.path if token is None else token
    with closing(http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)) as connection:
        connection.request(method, base + path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def description(shown):
    page = get(shown, "")[1].decode()
    return json.loads(page.split('id="data">')[1].split("</script>")[0])


def base_of(shown, number=0):
    return f"data/{number}/{description(shown)['maps'][number]['version']}"


FILES = {"class": ("class", 1), "quality": ("quality", 1)}
FILES |= {name: ("uncertainty", i) for i, name in enumerate(UNCERTAINTY, start=1)}
FILES |= {f"p{i}": ("probability", i) for i in (1, 2, 3)}


@pytest.fixture(scope="module")
def holed(case, tmp_path_factory):
    """The map of the same scene with clouds, a shadow, and without data in parts."""
    folder = tmp_path_factory.mktemp("holed")
    values, quality = case.values.copy(), np.zeros((HEIGHT, WIDTH), np.uint16)
    quality[:24, :32], quality[40:60, 50:], quality[60:, 50:] = Quality.NODATA, Quality.CLOUD, Quality.SHADOW
    values[:, :, :24, :32] = np.nan
    write_scene_cube(folder / "cube.zarr", values, quality)
    options = MapOptions(threads=1, paired=True)
    pipeline.map_scene(case.folder / "model.uncover", folder / "cube.zarr", folder / "map", options)
    return folder / "map"


def test_values_are_those_of_the_files_at_a_thousand_pixels(holed):
    """Of every layer, bit by bit; about a third of the pixels are masked or have no data."""
    rng = np.random.default_rng(0)
    rows, cols = rng.integers(0, HEIGHT, 1000), rng.integers(0, WIDTH, 1000)
    with view(holed) as shown:
        base, few = base_of(shown), list(zip(rows[:40], cols, strict=False))
        stories = [json.loads(get(shown, f"{base}/story/{r}-{c}")[1])["numbers"] for r, c in few]
        for layer, (file, band) in FILES.items():
            with rasterio.open(holed / f"{file}.tif") as dataset:
                stored = dataset.read(band)
            status, body = get(shown, f"{base}/{layer}/0/0-0")
            tile = np.frombuffer(body, stored.dtype).reshape(SIDE, SIDE)
            assert status == 200
            np.testing.assert_array_equal(tile[rows, cols], stored[rows, cols])
            assert [story[layer] for story in stories] == stored[rows[:40], cols[:40]].tolist()
            assert (tile[HEIGHT:] == tile[-1, -1]).all()  # beyond the map: nodata
            if layer == "class":
                assert (stored[rows, cols] == 0).sum() > 300
        largest = np.frombuffer(get(shown, f"{base}/largest/0/0-0")[1], np.uint16).reshape(SIDE, SIDE)
        cloudy = json.loads(get(shown, f"{base}/story/50-60")[1])
    with rasterio.open(holed / "probability.tif") as dataset:
        p = dataset.read()
    expected = np.where(p == 65535, 0, p).max(axis=0)
    expected[(p == 65535).all(axis=0)] = 65535
    np.testing.assert_array_equal(largest[:HEIGHT, :WIDTH], expected)
    assert cloudy["flags"] == ["cloud"] and cloudy["numbers"]["class"] == 0


@pytest.mark.parametrize("format", ["zarr", "netcdf"])
def test_datasets_show_the_numbers_of_geotiffs(case, tmp_path, format):
    options = MapOptions(threads=1, paired=True, format=format)
    pipeline.map_scene(case.folder / "model.uncover", case.folder / "cube.zarr", tmp_path / "map", options)
    tif, other = ViewedMap(case.folder), ViewedMap(tmp_path / "map")
    for layer in FILES:
        np.testing.assert_array_equal(
            tif.tile(layer, 0, 0, 0)[:, :HEIGHT, :WIDTH], other.tile(layer, 0, 0, 0)[:, :HEIGHT, :WIDTH]
        )


def test_overviews_are_those_of_the_file_and_all_else_is_thinned_alike(tmp_path):
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 10_000, (1, 1100, 1300)).astype(np.uint16)
    numbers[:, 200:500, 300:900] = 65535
    grid = Grid("EPSG:32633", (10, 0, 0, 0, -10, 0), 1300, 1100)
    plain, cog = tmp_path / "plain.tif", tmp_path / "cog.tif"
    profile = {"width": 1300, "height": 1100, "count": 1, "dtype": "uint16", "crs": grid.crs, "nodata": 65535}
    with rasterio.open(plain, "w", driver="GTiff", transform=Affine(*grid.transform), **profile) as file:
        file.write(numbers)
    rasterio.shutil.copy(
        plain, cog, driver="COG", **cog_options(Layer("total", ("total",), "uint16", 65535, 1e-4))
    )
    files = open_files()
    stored = [StoredLayer(describe(path).bands(1), "uint16", 65535, 1e-4) for path in (plain, cog)]
    thinned, of_file = (plane_of(layer, files) for layer in stored)
    assert isinstance(thinned, ThinnedPlane) and not isinstance(of_file, ThinnedPlane)
    assert levels_of(grid) == 3 and level_shape(grid, 2) == (275, 325)
    with rasterio.open(cog, overview_level=1) as dataset:
        np.testing.assert_array_equal(of_file.read(2, Window(0, 0, 275, 325)), dataset.read())
    mine, theirs = (p.read(1, Window(0, 0, 550, 650)).astype(int) for p in (thinned, of_file))
    assert ((mine == 65535) == (theirs == 65535)).mean() > 0.99
    there = (mine != 65535) & (theirs != 65535)
    assert np.abs(mine - theirs)[there].max() <= 1  # GDAL rounds half up
    files.close()


def test_coarse_levels_of_stores_are_the_same_at_once_and_in_steps():
    numbers = np.random.default_rng(0).integers(0, 5, (1, 5000, 4100)).astype(np.uint8)
    numbers[numbers < 4] = 0
    grid = Grid(None, (1, 0, 0, 0, -1, 0), 4100, 5000)
    source = ArrayPlanes(numbers, grid)
    plane = ThinnedPlane(grid, lambda w: source.read(w, None), "largest")
    shape = level_shape(grid, 4)
    padded = np.pad(numbers[0], [(0, -n % 16) for n in numbers.shape[1:]])
    expected = padded.reshape(shape[0], 16, shape[1], 16).max(axis=(1, 3))
    np.testing.assert_array_equal(plane.read(4, Window(0, 0, *shape))[0], expected)


@pytest.mark.parametrize("path", ["", "view.js", "data/0/0123456789ab/class/0/0-0"])
@pytest.mark.parametrize("token", ["/", "/wrong/", "//", "/../", "/%2e%2e/"])
def test_without_the_token_nothing_is_told(served, path, token):
    status, body = get(served, path, token)
    assert status == 403 and body.count(b"\n") == 1


def test_another_host_name_is_refused(served):
    assert get(served, "", Host="evil.example:80")[0] == 403
    assert get(served, "", Host="localhost")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "../../../etc/passwd",
        "..%2f..%2fetc/passwd",
        "/etc/passwd",
        "data/0/../../item.json",
        "static/view.js",
        "index.html",
        "data/7/{version}/class/0/0-0",
        *(
            "data/0/{version}/" + rest
            for rest in (
                *("class/0/9-9", "class/9/0-0", "nothing/0/0-0", "class/0/-1-0"),
                *("errors/5", "class/0/0-0.tif", "class/0/0-0/"),
            )
        ),
    ],
)
def test_whatever_is_not_of_the_product_is_not_found(served, path):
    status, body = get(served, path.format(version=base_of(served).split("/")[-1]))
    assert status == 404 and body.count(b"\n") == 1


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (f"story/{HEIGHT}-0", "outside the map"),
        ("areas", "row,col;row,col"),
        ("areas?outline=1,2;3", "row,col;row,col"),
        ("areas?outline=nan,1;2,2;3,3", "row,col;row,col"),
        ("areas?outline=" + ";".join(["1,1"] * 3000), "corners"),
    ],
)
def test_bad_questions_are_answered_in_one_line_and_the_server_stays_up(served, path, words):
    base = base_of(served)
    status, body = get(served, f"{base}/{path}")
    assert status == 400 and words in body.decode() and body.count(b"\n") == 1
    assert get(served, f"{base}/class/0/0-0")[0] == 200


@pytest.mark.parametrize(
    ("outline", "words"),
    [
        ("1,1;2,2", "three or more"),
        ("1,1;9,9;9,1;1,9", "crosses itself"),
        ("-9,-9;-9,-5;-5,-5", "outside the map"),
        ("1.1,1.1;1.1,1.4;1.4,1.4;1.4,1.1", "middle of no pixel"),
    ],
)
def test_an_outline_without_an_area_is_answered_in_words(served, outline, words):
    status, body = get(served, f"{base_of(served)}/areas?outline={outline}")
    assert status == 200 and words in json.loads(body)["refused"]


@pytest.mark.parametrize(("token", "status"), [(None, 405), ("/", 403), ("/wrong/", 403)])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_the_page_is_only_read(served, method, token, status):
    assert get(served, "", token, method=method)[0] == status
    assert get(served, "", token, method="HEAD") == (200 if token is None else 403, b"")


def test_a_file_that_is_cut_short_is_said(case, tmp_path):
    shutil.copytree(case.folder / "map", tmp_path / "map")
    file = tmp_path / "map" / "probability.tif"
    with rasterio.open(file) as dataset:  # the header is whole, and the tiles are not
        offset = int(dataset.tags(1, ns="TIFF").get("BLOCK_OFFSET_0_0") or file.stat().st_size - 100)
    with file.open("r+b") as opened:
        opened.truncate(offset)
    with view(tmp_path / "map") as shown:
        status, body = get(shown, f"{base_of(shown)}/p1/0/0-0")
        assert status == 500 and b"damaged or cut short; make the map again" in body
        assert get(shown, f"{base_of(shown)}/total/0/0-0")[0] == 200


def test_a_map_that_is_removed_or_replaced_is_said(case, tmp_path):
    folder = tmp_path / "map"
    shutil.copytree(case.folder / "map", folder)
    with view(folder) as shown:
        base = base_of(shown)
        assert get(shown, f"{base}/class/0/0-0")[0] == 200
        time.sleep(0.01)
        moved = shutil.copytree(folder, tmp_path / "other")
        shutil.rmtree(folder)
        assert get(shown, f"{base}/class/0/0-0")[0] == 410
        moved.rename(folder)
        assert get(shown, f"{base}/class/0/0-0")[0] == 409
        again = base_of(shown)
        assert again != base and get(shown, f"{again}/class/0/0-0")[0] == 200


def test_a_run_that_was_stopped_and_what_is_no_map_are_refused(tmp_path):
    (tmp_path / "map.partial").mkdir()
    with pytest.raises(SceneError, match="is not finished"):
        open_maps([tmp_path / "map"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no map"):
        open_maps([tmp_path / "empty"])
    with pytest.raises(ValueError, match="no map came"):
        open_maps([])


def test_a_map_is_shown_while_another_run_writes_the_one_that_will_replace_it(case, tmp_path):
    shutil.copytree(case.folder / "map", tmp_path / "map")
    (tmp_path / "map.partial").mkdir()
    with view(tmp_path / "map") as shown:
        base = base_of(shown)
        shutil.copy(case.folder / "map" / "class.tif", tmp_path / "map.partial")
        assert get(shown, f"{base}/class/0/0-0")[0] == 200
        shutil.rmtree(tmp_path / "map")  # a run without its own map: nothing half-written is shown
        status, body = get(shown, f"{base}/class/0/0-0")
        assert status == 410 and b"was removed" in body and body.count(b"\n") == 1


def test_a_port_in_use_is_one_line(served, case):
    port = urlsplit(served.address).port
    with pytest.raises(OSError, match=f"port {port} is not free"):
        Server(open_maps([case.folder]), port)


def test_a_story_has_worlds_whose_mean_is_the_probability(served, case):
    base = base_of(served)
    for row, col in ((20, 30), (50, 70), (3, 3)):
        parts = (get(served, f"{base}/{part}/{row}-{col}") for part in ("story", "measured"))
        story = {key: value for _, body in parts for key, value in json.loads(body).items()}
        np.testing.assert_allclose(story["realised"], case.values[:, :, row, col], rtol=1e-6)
        stored = [story["numbers"][f"p{k}"] * 1e-4 for k in (1, 2, 3)]
        np.testing.assert_allclose(np.mean(story["worlds"], axis=0), stored, atol=1e-3)
        assert story["x"] == 300000 + 10 * (col + 0.5) and story["y"] == 5000000 - 10 * (row + 0.5)


def test_numbers_of_a_pixel_need_no_scene(case):
    viewed = ViewedMap(case.folder)
    assert viewed.story(20, 30)["numbers"]["class"] > 0 and "_opened" not in vars(viewed)
    viewed.close()


def test_clicks_read_no_masks_of_detectors(case, monkeypatch):
    """A tile of them at 10 m takes 8 MB and half a second for each band: the map has their flags."""
    asked, here = [], threading.get_ident()

    def opened(source, model, options):
        if threading.get_ident() == here:  # not for a viewer that another test has served
            asked.append(options.scene)

    monkeypatch.setattr(contents, "open_observed", opened)
    viewed = ViewedMap(case.folder)
    for for_clicks in (True, False):
        with pytest.raises(AttributeError):  # of the scene that is not opened
            contents.reopen(viewed.contents, None, viewed.grid, for_clicks=for_clicks)
    assert [options.detector_masks for options in asked] == [False, True]
    viewed.close()


def test_the_address_without_its_last_slash_leads_to_the_page(served):
    parts = urlsplit(served.address)
    with closing(http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)) as connection:
        connection.request("GET", parts.path.rstrip("/"))
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Location"]) == (301, parts.path)


def test_a_place_by_latitude_and_longitude_is_the_pixel_that_tells_it(served):
    base = base_of(served)
    for row, col in ((0, 0), (40, 50), (HEIGHT - 1, WIDTH - 1)):
        longitude, latitude = json.loads(get(served, f"{base}/story/{row}-{col}")[1])["place"]
        found = json.loads(get(served, f"{base}/place/{latitude:.9f},{longitude:.9f}")[1])
        assert found == pytest.approx({"row": row + 0.5, "col": col + 0.5}, abs=1e-4)
    far = json.loads(get(served, f"{base}/place/0,0")[1])
    assert not far or not (0 <= far["row"] < HEIGHT and 0 <= far["col"] < WIDTH)


@pytest.mark.parametrize(
    ("crs", "transform", "size", "error"),
    [
        ("EPSG:32633", (10, 0, 399960, 0, -10, 5300040), 10980, 1e-3),
        ("EPSG:32701", (10, 0, 159960, 0, -10, 8200040), 10980, 1e-3),  # across the antimeridian
        ("EPSG:4326", (0.01, 0, 10, 0, -0.01, 50), 1000, 1e-3),
        ("ESRI:54008", (5000, 0, -2e6, 0, -5000, 6e6), 800, 0.1),  # sinusoidal, 4,000 km
    ],
)
def test_places_of_an_export_are_those_of_the_map(crs, transform, size, error):
    grid = Grid(crs, transform, size, size)
    fitted = places_by_degrees(grid)
    rng = np.random.default_rng(0)
    rows, cols = rng.uniform(0, size, (2, 500))
    longitude, latitude = move(crs, "EPSG:4326", *grid.coordinates(rows, cols))
    east = (longitude - fitted["middle"][1] + 180) % 360 - 180
    u, v = (latitude - fitted["middle"][0]) / fitted["half"][0], east / fitted["half"][1]
    terms = np.array([u**i * v**j for i, j in fitted["powers"]])
    assert max(np.abs(fitted["row"] @ terms - rows).max(), np.abs(fitted["col"] @ terms - cols).max()) < error


def test_an_export_without_a_reference_system_or_of_half_the_world_knows_no_degrees():
    assert places_by_degrees(Grid(None, (1, 0, 0, 0, -1, 0), 100, 100)) is None
    assert places_by_degrees(Grid("ESRI:54009", (20000, 0, -9e6, 0, -20000, 8e6), 900, 800)) is None


def test_areas_are_sums_over_the_pixels_inside(served, case):
    found = json.loads(get(served, f"{base_of(served)}/areas?outline=20,10;20,60;50,60;50,10")[1])
    product = MapProduct.open(case.folder / "map")
    rows, cols = np.arange(20, 50), np.arange(10, 60)
    classes = product.numbered(product.pixels("class", rows, cols))
    P = product.pixels("probability", rows, cols)
    assert found["pixels"] == 1500 and found["step"] == 1
    assert found["area"] == pytest.approx(15.0, rel=2e-3)  # 1,500 pixels of 100 m²
    for k, each in enumerate(found["classes"]):
        assert each["counted"] / found["area"] == pytest.approx((classes == k + 1).mean(), abs=1e-5)
        assert each["expected"] / found["area"] == pytest.approx(P[k].mean(), abs=1e-5)
        spread = np.sqrt((P[k] * (1 - P[k])).sum()), np.sqrt(P[k] * (1 - P[k])).sum()
        np.testing.assert_allclose(
            [each["least"], each["most"]], np.array(spread) * found["area"] / 1500, rtol=1e-4
        )
    assert found["budget"]["total"] == pytest.approx(
        np.nanmean(product.pixels("total", rows, cols)), rel=1e-4
    )


def test_large_outlines_are_answered_from_overviews_alike():
    rng = np.random.default_rng(2)
    p = np.kron(rng.dirichlet([1, 1], (34, 34)).transpose(2, 0, 1), np.ones((1, 64, 64)))
    grid = Grid(None, (1, 0, 0, 0, -1, 0), *p.shape[:0:-1])
    layers = {
        "class": StoredLayer(
            ArrayPlanes((p.argmax(0) + 1).astype(np.uint8)[None], grid), "uint8", 0, 1.0, True
        ),
        "probability": StoredLayer(
            ArrayPlanes(np.rint(p * 1e4).astype(np.uint16), grid), "uint16", 65535, 1e-4
        ),
    }
    product, files = MapProduct("made", layers, ("a", "b"), (1, 2)), open_files()
    planes = {name: plane_of(layer, files) for name, layer in layers.items()}
    found = areas_of(product, planes, [(0, 0), (0, 2176), (2176, 2176), (2176, 0)])
    assert found["step"] == 2 and found["unit"] == "pixels" and found["pixels"] == found["area"] == 2176**2
    for k, each in enumerate(found["classes"]):
        assert each["counted"] == (p.argmax(0) == k).sum()
        assert each["expected"] == pytest.approx(p[k].sum(), rel=1e-4)
        assert each["least"] == pytest.approx(np.sqrt((p[k] * (1 - p[k])).sum()), rel=1e-3)


def test_errors_are_the_labels_that_the_map_contradicts(served, case):
    found = json.loads(get(served, f"{base_of(served)}/errors/0")[1])
    with rasterio.open(case.folder / "labels.tif") as dataset:
        labels = dataset.read(1)
    with rasterio.open(case.folder / "map" / "class.tif") as dataset:
        mapped = dataset.read(1)
    wrong = (labels > 0) & (mapped > 0) & (labels != mapped)
    assert found["wrong"] == wrong.sum() and found["right"] == ((labels > 0) & (labels == mapped)).sum()
    sure = [each["p"] for each in found["errors"]]
    assert sure == sorted(sure, reverse=True) and len(sure) > 0
    for each in found["errors"]:
        assert wrong[each["row"], each["col"]]
        assert (each["mapped"], each["label"]) == (
            mapped[each["row"], each["col"]],
            labels[each["row"], each["col"]],
        )


def test_labels_of_a_class_that_the_map_lacks_are_neither_right_nor_wrong(case):
    viewed = ViewedMap(case.folder, [str(case.folder / "truth.tif")])
    with rasterio.open(case.folder / "map" / "class.tif") as dataset:
        mapped = dataset.read(1)
    found = viewed.errors(0)
    lacking = case.truth == 4
    assert (found["unknown"], found["lacking"]) == (lacking.sum(), ["snow"])
    assert viewed.description()["labels"] == [{"name": "truth.tif", "remedy": ""}]
    assert found["right"] + found["wrong"] + found["unmapped"] == (~lacking).sum()
    expected = np.where(case.truth == mapped, 1, 4)
    expected[lacking] = 3
    expected[mapped == 0] = 2
    np.testing.assert_array_equal(viewed.tile("agreement1", 0, 0, 0)[0, :HEIGHT, :WIDTH], expected)
    viewed.close()


def test_labels_may_be_points(case):
    viewed = ViewedMap(case.folder, [str(case.folder / "points.gpkg")], "class")
    found = viewed.errors(0)
    _, _, points, (names,) = pyogrio.raw.read(case.folder / "points.gpkg")
    x, y = shapely.get_coordinates(shapely.from_wkb(points)).T
    rows, cols = ((5000000 - y) // 10).astype(int), ((x - 300000) // 10).astype(int)
    product = viewed.product
    mapped = product.numbered(viewed.tile("class", 0, 0, 0)[0])[rows, cols]
    said = np.array([*product.names, "no class"])[mapped.astype(int) - 1]
    counts = (said == names).sum(), ((said != names) & (names != "snow")).sum(), (names == "snow").sum()
    assert (found["right"], found["wrong"], found["unknown"]) == counts and counts[1] > 0
    viewed.close()


def test_labels_without_names_are_not_all_wrong(case, tmp_path):
    with rasterio.open(case.folder / "truth.tif") as dataset:
        profile = {"crs": dataset.crs, "transform": dataset.transform, "width": WIDTH, "height": HEIGHT}
    with rasterio.open(tmp_path / "codes.tif", "w", count=1, dtype="uint8", nodata=0, **profile) as file:
        file.write(case.truth.astype(np.uint8), 1)
    viewed = ViewedMap(case.folder, [str(tmp_path / "codes.tif")])
    found = viewed.errors(0)
    assert (found["right"], found["wrong"], found["unknown"]) == (0, 0, HEIGHT * WIDTH)
    assert found["lacking"] == ["class 1", "class 2", "class 3", "class 4"]
    assert "uncover labels codes.tif --classes 1=forest" in viewed.description()["labels"][0]["remedy"]
    viewed.close()


def test_the_scene_is_shown_where_it_was_measured(served):
    body = get(served, f"{base_of(served)}/true/0/0-0")[1]
    picture = np.frombuffer(body, np.uint8).reshape(3, SIDE, SIDE)
    assert (picture[:, :HEIGHT, :WIDTH] > 0).all() and not picture[:, HEIGHT:].any()
    assert len(np.unique(picture[0, :HEIGHT, :WIDTH])) > 20


def test_many_requests_at_once_get_the_same_bytes(served):
    path = f"{base_of(served)}/total/0/0-0"
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: get(served, path), range(24)))
    assert {status for status, _ in found} == {200} and len({body for _, body in found}) == 1


def test_maps_of_other_systems_are_not_shown_together(tmp_path):
    _, p, mapped = world()
    viewed = []
    square, flat, coarse = (10, 0, 0, 0, -10, 0), (10, 0, 0, 0, -20, 0), (20, 0, 40, 0, -20, -60)
    cases = {"a": (square, 30), "b": (square, 31), "c": (flat, 30), "d": (coarse, 30)}
    for name, (transform, zone) in cases.items():
        crs = f"EPSG:326{zone}"
        write_product(tmp_path / name, mapped, p, grid=Grid(crs, transform, 120, 90))
        write_item(tmp_path / name)
        viewed.append(lambda name=name: ViewedMap(tmp_path / name))
    with pytest.raises(SceneError, match="one reference system"):
        Maps(viewed[:2])
    with pytest.raises(SceneError, match="turned or stretched"):
        Maps([viewed[0], viewed[2]])
    assert Maps([viewed[0], viewed[3]]).description()["maps"][1]["relation"] == [2.0, 4.0, 6.0]


def test_an_export_holds_the_same_tiles_every_time(case, tmp_path):
    export_page([case.folder], tmp_path / "site")
    viewed = ViewedMap(case.folder)
    body = gzip.decompress((tmp_path / "site/data/0/files/total/0/0-0.bin").read_bytes())
    assert body == viewed.tile("total", 0, 0, 0).tobytes()
    first = {
        p.relative_to(tmp_path): p.read_bytes() for p in sorted((tmp_path / "site").rglob("*")) if p.is_file()
    }
    with pytest.raises(ValueError, match="exists already"):
        export_page([case.folder], tmp_path / "site")
    export_page([case.folder], tmp_path / "site", overwrite=True)
    assert first == {
        p.relative_to(tmp_path): p.read_bytes() for p in sorted((tmp_path / "site").rglob("*")) if p.is_file()
    }
    with pytest.raises(ValueError, match="is no page of the viewer"):
        export_page([case.folder], case.folder / "map", overwrite=True)


def test_in_a_notebook_the_page_is_a_frame(case):
    with uncover.view(case.folder) as shown:
        assert f'src="{shown.address}"' in shown._repr_html_()
        assert get(shown, "")[0] == 200


def test_the_map_library_is_the_published_file_with_the_licences_of_its_parts():
    digest = "b89af8ec3b76f564d515fd07fed3ec414aecf8f33f685b77b607451cb0c2029f"
    assert hashlib.sha256(static_file("ol.js")).hexdigest() == digest
    licences = static_file("ol-LICENSE.md").decode()
    assert all(f"## {name}" in licences for name in ("earcut", "pbf", "quickselect", "rbush"))


@pytest.mark.parametrize("browser", [True, False])
def test_the_command_serves_until_it_is_interrupted(case, monkeypatch, browser):
    asked, opened = [], []

    def wait(server):
        asked.append(get(SimpleNamespace(address=server.address), "")[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "wait", wait)
    monkeypatch.setattr("webbrowser.open", lambda address: bool(opened.append(address)))
    monkeypatch.setattr("uncover.viewer.server.spare_memory", lambda: None)  # of the tests' own process
    words = ["view", str(case.folder), *([] if browser else ["--no-browser"])]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0 and asked == [200]
    assert result.stdout.startswith("http://127.0.0.1:") and len(opened) == browser
    assert ("no browser could be started" in result.stderr) == browser


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "nowhere is not a folder"),
        ([".", "--export", "site", "--port", "8000"], "--port came for a page that is served"),
        (["."], "holds no map"),
    ],
)
def test_what_the_command_cannot_show_is_one_line(tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["view", *words])
    assert result.exit_code == 1 and said in result.stderr and result.stderr.count("\n") == 1


def test_numbers_of_dates_are_shown_where_a_map_has_them(case, tmp_path):
    folder = tmp_path / "map"
    shutil.copytree(case.folder / "map", folder)
    dates = np.random.default_rng(0).integers(0, 6, (HEIGHT, WIDTH)).astype(np.uint8)
    with rasterio.open(folder / "class.tif") as dataset:
        profile = {"crs": dataset.crs, "transform": dataset.transform, "width": WIDTH, "height": HEIGHT}
    with rasterio.open(folder / "dates_used.tif", "w", count=1, dtype="uint8", nodata=255, **profile) as file:
        file.write(dates, 1)
    viewed = ViewedMap(folder)
    np.testing.assert_array_equal(viewed.tile("dates_used", 0, 0, 0)[0, :HEIGHT, :WIDTH], dates)
    assert viewed.layers["dates_used"].about["top"] == 5
