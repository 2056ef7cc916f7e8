"""Scenes of a STAC API on this machine: listed, written as items, fitted to and mapped."""

import json
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
import rasterio

import map_cases
import series_cases
from file_server import serving
from uncover import remote
from uncover.pipeline import ItemSearch, find_items
from uncover.raster import SceneError, open_scene
from uncover.raster.tiles import TileCache, describe

CLOUDS = (80.0, 5.0, 30.0, None)
PLACE = ("--bbox", "12", "45", "13", "46")
CONFORMS = [f"https://api.stacspec.org/v1.0.0/{name}" for name in ("core", "item-search", "ogcapi-features")]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(remote, "PAUSES", (0.01, 0.01))


class Api:
    """A STAC API with two items a page, of the scenes of a small place on four dates."""

    def __init__(self, server, place):
        self.server, self.asked, self.broken = server, [], None
        self.items = [self.item(*each) for each in zip(place.days, place.scenes, CLOUDS, strict=True)]
        server.pages |= {"/api": self.landing, "/api/search": self.search}

    def item(self, day, scene, cloud):
        said = {"datetime": f"{day}T10:00:00Z", "platform": "camera", "eo:cloud_cover": cloud}
        if cloud is None:
            del said["eo:cloud_cover"]
        name = f"scene-{day}"
        assets = {
            band: {"href": f"{self.server.url}/{band}-{day}.tif", "roles": ["data"]}
            for band in series_cases.BANDS
        }
        box = [12.0, 45.0, 12.1, 45.1]
        return {
            "type": "Feature", "stac_version": "1.0.0", "stac_extensions": [], "id": name, "bbox": box,
            "collection": "sentinel-2-l2a", "geometry": None, "properties": said, "assets": assets,
            "links": [{"rel": "self", "href": f"{self.server.url}/items/{name}.json"}],
        }  # fmt: skip

    def landing(self, _):
        links = [
            {"rel": "self", "href": f"{self.server.url}/api"},
            {"rel": "root", "href": f"{self.server.url}/api"},
            {"rel": "search", "href": f"{self.server.url}/api/search", "type": "application/geo+json"},
        ]
        page = {"type": "Catalog", "id": "here", "stac_version": "1.0.0", "description": "here"}
        return 200, "application/json", json.dumps({**page, "conformsTo": CONFORMS, "links": links}).encode()

    def search(self, request):
        query = {key: values[0] for key, values in parse_qs(urlsplit(request.path).query).items()}
        if request.command == "POST":
            query |= json.loads(request.body)
        self.asked.append(query)
        first = int(query.get("token", 0))
        if self.broken is not None and first >= 2:
            return self.broken
        begin, end = query.get("datetime", "0000/9999").split("/")
        fit = [i for i in self.items if begin <= i["properties"]["datetime"] <= end]
        links = []
        if first + 2 < len(fit):
            link = {"rel": "next", "href": f"{self.server.url}/api/search", "method": "POST", "merge": True}
            links = [{**link, "body": {**query, "token": str(first + 2)}}]
        page = {"type": "FeatureCollection", "features": fit[first : first + 2], "links": links}
        return 200, "application/geo+json", json.dumps(page).encode()


@pytest.fixture
def cli(run):
    def command(*arguments, code=0):
        result = run(*arguments)
        assert result.exit_code == code, result.output
        return result

    return command


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A place whose scenes are files of one band each, with clouds left in."""
    folder = tmp_path_factory.mktemp("place")
    place = series_cases.Place(folder, share=0.2)
    for day, scene in zip(place.days, place.scenes, strict=True):
        with rasterio.open(scene) as file:
            for band, plane in zip(series_cases.BANDS, file.read(), strict=True):
                map_cases.write_scene(folder / f"{band}-{day}.tif", plane[None], place.grid, [band])
    return place


@pytest.fixture
def api(place):
    with serving(place.folder) as server:
        yield Api(server, place)


@pytest.fixture
def url(api):
    return f"{api.server.url}/api"


def test_items_are_listed_and_written(cli, api, url, tmp_path, place):
    found = cli("scenes", "--stac", url, *PLACE, "--dates", "2024-03/2024-12", "--out", tmp_path / "items")
    assert [line.split()[0] for line in found.stdout.splitlines()] == [f"scene-{day}" for day in place.days]
    assert "cloud  80.0 %" in found.stdout and "cloud not stated" in found.stdout
    asked = api.asked[0]
    assert asked["datetime"] == "2024-03-01T00:00:00Z/2024-12-31T23:59:59Z"
    assert asked["collections"] == ["sentinel-2-l2a"] and asked["bbox"] == [12, 45, 13, 46]
    files = sorted((tmp_path / "items").iterdir())
    assert [file.stem for file in files] == sorted(item["id"] for item in api.items)
    assert json.loads(files[0].read_text())["properties"] == api.items[0]["properties"]


def test_clouds_dates_and_nothing(cli, url, place):
    few = cli("scenes", "--stac", url, *PLACE, "--max-cloud", "30").stdout
    assert place.days[0] not in few and all(day in few for day in place.days[1:])
    one = cli("scenes", "--stac", url, *PLACE, "--dates", "2024-05").stdout
    assert one.split()[0] == f"scene-{place.days[1]}" and len(one.splitlines()) == 1
    assert "no scene matches" in cli("scenes", "--stac", url, *PLACE, "--dates", "2019").stderr


def test_relative_assets_lie_beside_the_item(api, url):
    for item in api.items:
        item["assets"] = {"B04": {"href": "../B04.tif"}}
    found = find_items(url, ItemSearch(bbox=(12, 45, 13, 46)))
    assert found[0].content["assets"]["B04"]["href"] == f"{api.server.url}/B04.tif"


def test_what_is_listed_is_fitted_and_mapped_from_afar(cli, url, place, tmp_path):
    """The map of items whose bands lie behind HTTP is the map of the files."""
    cli("scenes", "--stac", url, *PLACE, "--out", tmp_path / "items")
    items = sorted((tmp_path / "items").iterdir())
    np.testing.assert_array_equal(
        open_scene(items[0]).read().reflectance, open_scene(place.scenes[0]).read().reflectance
    )
    options = ["--as", "features", *place.masked, "--level", "L2A", "--scale", "1"]
    for name, scenes in (("near", place.scenes), ("far", items)):
        model = tmp_path / f"{name}.uncover"
        fit = ["fit", *scenes, *options, *place.label_options, "--model", "published", "--out", model]
        cli(*fit)
        cli("map", model, *scenes, *options[2:], "--out", tmp_path / name)
    for layer in ("class", "probability", "dates_used"):
        near, far = (describe(tmp_path / name / f"{layer}.tif") for name in ("near", "far"))
        assert near.tags.pop("UNCOVER_RUN") != far.tags.pop("UNCOVER_RUN")  # the inputs have other names
        assert near.tags == far.tags
        np.testing.assert_array_equal(*(all_of(info) for info in (near, far)))


def all_of(info):
    bands = info.bands(*range(1, info.count + 1))
    return bands.read(info.grid.window, TileCache())


ERROR_PAGE = (502, "text/html", b"<html><body>\nBad gateway\n</body></html>")


@pytest.mark.parametrize(
    "answer",
    [
        ERROR_PAGE,
        (200, *ERROR_PAGE[1:]),
        (200, "application/json", b'{"type": "Feature'),
        (200, "application/json", b'{"features": [{"id": "../../x", "properties": {}}]}'),
    ],
)
def test_an_api_that_answers_with_an_error_page(cli, api, url, tmp_path, answer):
    """The second page is no answer: one line, and no item of the first is written."""
    api.broken = answer
    failed = cli("scenes", "--stac", url, *PLACE, "--out", tmp_path / "items", code=1)
    assert failed.stderr.count("\n") == 1 and "nothing was written" in failed.stderr
    assert not (tmp_path / "items").exists()
    api.server.pages["/api"] = lambda _: answer
    assert "nothing was written" in cli("scenes", "--stac", url, *PLACE, code=1).stderr


def test_bad_queries(cli, url):
    search = ItemSearch(bbox=(12, 45, 13, 46), limit=3)
    with pytest.raises(SceneError, match="more than 3 scenes match; narrow the search, or raise --limit"):
        find_items(url, search)
    box = cli("scenes", "--stac", url, "--bbox", "12", "46", "13", "45", code=1)
    assert "--bbox is 12 46 13 45; give WEST SOUTH EAST NORTH" in box.stderr
    assert "--max-cloud is 120" in cli("scenes", "--stac", url, *PLACE, "--max-cloud", "120", code=1).stderr
    assert "is no date" in cli("scenes", "--stac", url, *PLACE, "--dates", "spring", code=1).stderr


def test_one_run_at_a_time_writes_items(tmp_path):
    from uncover.files import only_run_in
    from uncover.pipeline import write_items
    from uncover.pipeline.catalogue import FoundItem

    with only_run_in(tmp_path), pytest.raises(ValueError, match="wait for it"):
        write_items([FoundItem({"id": "a", "properties": {}})], tmp_path)
    assert not list(tmp_path.iterdir())
