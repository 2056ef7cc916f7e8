"""The viewer in a real browser: wide and narrow, by mouse and by keyboard, silent, and alone."""

import functools
import http.server
import io
import json
import re
import shutil
import threading
from itertools import pairwise

import numpy as np
import pytest
import rasterio
from rasterio.transform import Affine

from browsers import CHROMIUM, FLAGS, NO_BROWSER
from map_products import world, write_item, write_product
from report_cases import HEIGHT, WIDTH
from uncover.pipeline.map_product import MapProduct
from uncover.raster.grid import Grid
from uncover.raster.resample import move
from uncover.viewer import view
from uncover.viewer.export import export_page
from uncover.viewer.viewed import ViewedMap

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER)
SIZES = [(1280, 800), (390, 844)]


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def look(browser, served):
    """Open the page; afterwards nothing may have been said on the console or asked of another host."""
    opened = []

    def open_page(width=1280, height=800, scheme="light", view="", address=None, allowed=None):
        size = {"width": width, "height": height}
        context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
        tab, said, asked = context.new_page(), [], []
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda request: asked.append(request.url))
        home = address or served.address
        tab.goto(home + view)
        tab.wait_for_selector("body[data-ready]")
        opened.append((context, said, asked, home, allowed))
        return tab

    yield open_page
    for context, said, asked, home, allowed in opened:
        context.close()
        assert [words for words in said if not (allowed and allowed in words)] == []
        assert [url for url in asked if not url.startswith((home, "data:"))] == []


def picture(tab):
    """Colours of the map as it is seen, (row, col, 3)."""
    from PIL import Image

    tab.evaluate(
        "() => new Promise(done => { report.map.once('rendercomplete', done); report.map.render(); })"
    )
    return np.asarray(Image.open(io.BytesIO(tab.locator("#map").screenshot())).convert("RGB")).astype(int)


def place_of(tab, row, col):
    """Where a pixel is on the screen."""
    x, y = tab.evaluate(f"() => report.map.getPixelFromCoordinate([{col + 0.5}, {-(row + 0.5)}])")
    box = tab.locator("#map").bounding_box()
    return box["x"] + x, box["y"] + y


def click(tab, row, col):
    tab.mouse.click(*place_of(tab, row, col))
    tab.wait_for_selector(f'.pixel[data-pixel="{row},{col}"][aria-busy="false"]')
    return json.loads(tab.get_attribute(".pixel", "data-numbers"))


def colours(case):
    product = MapProduct.open(case.folder / "map")
    numbers = product.numbered(product.pixels("class", np.arange(HEIGHT), np.arange(WIDTH)))
    return product, numbers


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_page_fits_and_the_map_has_the_colours_of_its_classes(look, served, case, width, height, scheme):
    tab = look(width, height, scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 22, 26)")
    shot, (_, numbers) = picture(tab), colours(case)
    classes = [c["colour"] for c in json.loads(tab.inner_text("#data"))["maps"][0]["classes"]]
    seen = [(shot == [int(c[i : i + 2], 16) for i in (1, 3, 5)]).all(axis=2).sum() for c in classes]
    expected = [(numbers == k + 1).mean() for k in range(len(classes))]
    np.testing.assert_allclose(np.array(seen) / sum(seen), expected, atol=0.03)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_click_tells_the_numbers_of_the_pixel_under_it(look, case, width, height):
    tab = look(width, height)
    product, numbers = colours(case)
    for row, col in ((40, 50), (70, 90)):
        found = click(tab, row, col)
        assert found["class"] == numbers[row, col]
        P = product.pixels("probability", np.array([row]), np.array([col]))[:, 0, 0]
        assert [found[f"p{k}"] for k in (1, 2, 3)] == np.rint(P * 1e4).tolist()
        assert f"Row {row}, column {col}" in tab.inner_text(".where")
    assert tab.locator('[data-chapter="spectrum"] path.world').count() == 4
    assert tab.locator('[data-chapter="probability"] .track b').count() == 12  # 3 classes in 4 worlds
    total = sum(float(v) for v in tab.locator('[data-chapter="probability"] dd').all_inner_texts())
    assert total == pytest.approx(1.0, abs=0.002)


def test_numbers_come_before_the_spectrum_for_which_the_scene_is_read(look, monkeypatch):
    ready, measured = threading.Event(), ViewedMap.measured
    monkeypatch.setattr(ViewedMap, "measured", lambda *asked: (ready.wait(30), measured(*asked))[1])
    tab = look()
    tab.mouse.click(*place_of(tab, 40, 50))
    tab.wait_for_selector('.pixel[data-pixel="40,50"][aria-busy="true"]')
    assert "Row 40, column 50" in tab.inner_text(".where")
    assert tab.inner_text('[data-chapter="spectrum"] .body') == "Reading the scene …"
    assert tab.locator('[data-chapter="budget"] dd').count() == 4
    ready.set()
    tab.wait_for_selector('.pixel[aria-busy="false"]')
    assert tab.locator('[data-chapter="spectrum"] path.world').count() == 4


def test_layers_colours_and_single_classes_change_the_picture(look):
    tab = look()
    shots = [picture(tab)]
    for choice, value in (
        *(("left", name) for name in ("0/faded", "0/total", "0/p1", "0/quality", "0/true")),
        *(("ramp", "cividis"), ("left", "0/typicality"), ("left", "0/class"), ("palette", "safe")),
        ("over", "0/agreement1"),
    ):
        tab.select_option(f"#{choice}", value)
        shots.append(picture(tab))
    tab.fill("#find", "wat")
    shots.append(picture(tab))
    assert tab.get_attribute('.legend button:has-text("water")', "aria-pressed") == "true"
    same = [i for i, (a, b) in enumerate(pairwise(shots)) if (a == b).all()]
    assert same == [5]  # a ramp does not change a picture in true colour


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_edge_between_two_layers_moves(look, width, height):
    tab = look(width, height, view="#left=0/class&right=0/total")
    before = picture(tab)
    box = tab.locator(".divider").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x - 80, y, steps=3)
    tab.mouse.up()
    after = picture(tab)
    middle = before.shape[1] // 2
    changed = (before != after).any(axis=(0, 2))
    assert changed[middle - 75 : middle - 20].any() and not changed[middle + 40 :].any()
    tab.focus(".divider")
    share = int(tab.get_attribute(".divider", "aria-valuenow"))
    tab.keyboard.press("ArrowRight")
    assert int(tab.get_attribute(".divider", "aria-valuenow")) == share + 2


@pytest.mark.parametrize("resolution", [0.1, 1])
def test_single_labels_keep_the_colours_of_right_and_wrong_near_and_far(look, case, resolution):
    tab = look(view=f"#over=0/agreement1&at=48,36,{resolution}")
    shot = picture(tab)
    seen = [(shot == colour).all(axis=2).sum() for colour in ((0, 114, 178), (213, 94, 0))]
    _, mapped = colours(case)
    with rasterio.open(case.folder / "labels.tif") as dataset:
        labels = dataset.read(1)
    counted = [((labels > 0) & same).sum() for same in (labels == mapped, labels != mapped)]
    assert seen[1] / counted[1] > (50 if resolution < 1 else 4)  # pixels on the screen for each label
    assert seen[0] > counted[0]


def test_the_page_has_the_numbers_of_the_files_at_a_thousand_pixels(look, tmp_path):
    """Of a map of several tiles, a third of it without a class, read as the page reads them."""
    _, p, mapped = world(shape=(700, 1100), nodata=0.3)
    grid = Grid("EPSG:32633", (10, 0, 300000, 0, -10, 5000000), width=1100, height=700)
    write_product(tmp_path / "map", mapped, p, grid=grid)
    write_item(tmp_path / "map")
    rng = np.random.default_rng(0)
    rows, cols = rng.integers(0, 700, 1000), rng.integers(0, 1100, 1000)
    with view(tmp_path / "map") as shown:
        tab = look(address=shown.address)
        found = tab.evaluate(
            """async (places) => {
                const [tileOf, { layers }, S] = [report.tileStore(), report.data.maps[0], report.SIDE];
                const tile = (layer, ...at) => tileOf(0, layer, 0, ...at.map((n) => Math.floor(n / S)));
                const number = async (layer, [row, col]) =>
                    (await tile(layer, row, col))[(row % S) * S + (col % S)];
                const one = async (layer) =>
                    [layer.name, await Promise.all(places.map((place) => number(layer, place)))];
                return Object.fromEntries(await Promise.all(layers.map(one)));
            }""",
            np.stack([rows, cols], axis=1).tolist(),
        )
        row, col = np.argwhere(mapped >= 0)[0]
        tab.fill("#place", f"row {row} column {col}")
        tab.press("#place", "Enter")
        tab.wait_for_selector('[data-chapter="budget"]:has-text("no layers of uncertainty")')
    with rasterio.open(tmp_path / "map" / "probability.tif") as file:
        stored = {f"p{k}": file.read(k) for k in file.indexes} | {"largest": file.read().max(axis=0)}
    with rasterio.open(tmp_path / "map" / "class.tif") as file:
        stored["class"] = file.read(1)
    assert found.keys() == stored.keys()
    for name, numbers in stored.items():
        np.testing.assert_array_equal(found[name], numbers[rows, cols])
    assert 200 < found["class"].count(0) < 400


def test_the_page_is_shown_in_the_cell_of_a_notebook(browser, served):
    tab = browser.new_page()
    tab.set_content(f"<h1>Notebook</h1>{served._repr_html_()}")
    frame = next(each for each in tab.frames if each.url.startswith(served.address))
    frame.wait_for_selector("body[data-ready]")
    frame.focus("#map")
    tab.keyboard.press("Enter")
    frame.wait_for_selector(".pixel[data-pixel]")
    tab.close()


def test_a_map_that_is_replaced_or_removed_is_said_in_the_page(look, case, tmp_path):
    folder = tmp_path / "map"
    shutil.copytree(case.folder / "map", folder)
    with view(folder) as shown:
        tab = look(address=shown.address, allowed="Failed to load resource")
        shutil.copytree(folder, tmp_path / "new")
        shutil.rmtree(folder)
        tab.mouse.click(*place_of(tab, 40, 50))
        tab.wait_for_selector(".message:has-text('the map is not there any more')")
        (tmp_path / "new").rename(folder)
        tab.mouse.click(*place_of(tab, 40, 50))
        tab.wait_for_selector(".message:has-text('the map was replaced; load the page again')")
        tab.reload()
        tab.wait_for_selector("body[data-ready]")
        click(tab, 40, 50)


@pytest.mark.parametrize("kind", ["Rectangle", "Polygon"])
def test_a_drawn_outline_gives_areas(look, kind):
    tab = look()
    tab.click(f'[data-draw="{kind}"]')
    corners = [(20, 20), (50, 60)] if kind == "Rectangle" else [(20, 20), (20, 60), (50, 60)]
    for row, col in corners:
        tab.mouse.click(*place_of(tab, row, col))
        tab.wait_for_timeout(350)  # two clicks, not one double click
    if kind == "Polygon":
        tab.mouse.dblclick(*place_of(tab, 50, 20))
    tab.wait_for_selector(".areas table")
    pixels = int(re.match(r"([\d,]+) pixels", tab.inner_text(".areas .result"))[1].replace(",", ""))
    assert pixels == pytest.approx(30 * 40, rel=0.05)
    assert not tab.locator(".pixel").is_visible()  # drawing chooses no pixel


def test_a_rectangle_can_be_dragged_and_the_map_stays(look):
    tab = look()
    centre = tab.evaluate("() => report.map.getView().getCenter()")
    for ends in (((20, 20), (50, 60)), ((60, 70), (66, 80))):
        tab.click('[data-draw="Rectangle"]')
        tab.mouse.move(*place_of(tab, *ends[0]))
        tab.mouse.down()
        tab.mouse.move(*place_of(tab, *ends[1]), steps=4)
        tab.mouse.up()
        inside = (ends[1][0] - ends[0][0]) * (ends[1][1] - ends[0][1])
        tab.wait_for_selector('[data-draw="Rectangle"][aria-pressed="false"]')
        tab.wait_for_function("() => document.querySelector('.areas table')")
        pixels = int(re.match(r"([\d,]+) pixels", tab.inner_text(".areas .result"))[1].replace(",", ""))
        assert pixels == pytest.approx(inside, rel=0.35 if inside < 100 else 0.05)
        tab.click("#clear")
    assert tab.evaluate("() => report.map.getView().getCenter()") == centre


def test_an_outline_that_crosses_itself_is_one_line(look):
    tab = look()
    tab.click('[data-draw="Polygon"]')
    for row, col in ((20, 20), (50, 60), (20, 60)):
        tab.mouse.click(*place_of(tab, row, col))
        tab.wait_for_timeout(350)
    tab.mouse.dblclick(*place_of(tab, 50, 20))
    tab.wait_for_selector(".areas .result:has-text('crosses itself')")


def test_everything_works_by_keyboard(look):
    tab = look(view="#right=0/total")
    tab.focus("#map")
    tab.keyboard.press("Enter")
    tab.wait_for_selector(".pixel[data-pixel]")
    row, col = map(int, tab.get_attribute(".pixel", "data-pixel").split(","))
    assert abs(row - HEIGHT / 2) <= 1 and abs(col - WIDTH / 2) <= 1
    tab.keyboard.press("Shift+ArrowDown")
    tab.wait_for_selector(f'.pixel[data-pixel="{row + 1},{col}"]')
    resolution = "() => report.map.getView().getResolution()"
    before = tab.evaluate(resolution)
    tab.keyboard.press("+")
    tab.wait_for_timeout(400)
    assert tab.evaluate(resolution) < before
    tab.keyboard.press("0")
    assert tab.evaluate(resolution) == pytest.approx(before, rel=0.01)
    tab.focus("#in-view")
    tab.keyboard.press("Enter")
    tab.wait_for_selector(".areas table")
    assert f"{HEIGHT * WIDTH:,} pixels" in tab.inner_text(".areas .result")
    tab.focus("#place")
    tab.keyboard.type("row 10 column 12")
    tab.keyboard.press("Enter")
    tab.wait_for_selector('.pixel[data-pixel="10,12"]')
    tab.evaluate("() => { document.querySelector('#place').value = ''; }")
    tab.focus("#place")
    tab.keyboard.type("300205, 4999895")
    tab.keyboard.press("Enter")
    tab.wait_for_selector('.pixel[data-pixel="10,20"]')
    tab.focus("#next")
    tab.keyboard.press("Enter")
    tab.wait_for_selector(".labels .error:has-text('1 of ')")
    unreachable = tab.evaluate(
        """() => [...document.querySelectorAll("button, select, input, summary")]
        .filter((x) => x.offsetParent !== null && x.tabIndex < 0).map((x) => x.outerHTML)"""
    )
    nameless = tab.evaluate(
        """() => [...document.querySelectorAll("button, select, input, [role=slider]")]
        .filter((x) => !(x.getAttribute("aria-label") || x.closest("label") || x.textContent.trim()))
        .map((x) => x.outerHTML)"""
    )
    assert unreachable == nameless == []


def test_labels_are_counted_in_the_first_view(look):
    look().wait_for_selector(".labels .counts:has-text('labelled pixels right')")


def test_a_row_that_is_no_whole_number_is_refused(look):
    tab = look()
    tab.fill("#place", "row 0.5 column 3")
    tab.press("#place", "Enter")
    tab.wait_for_selector(".message:has-text('whole numbers')")
    assert not tab.locator(".pixel").is_visible()


@pytest.mark.parametrize("view", ["#left=9/class", "#pixel=9999,9999"])
def test_a_link_to_what_is_not_here_says_so(look, view):
    assert "names a map, layer or pixel that is not here" in look(view=view).inner_text(".message")


def test_a_link_holds_the_view(look):
    tab = look()
    tab.select_option("#left", "0/total")
    tab.select_option("#right", "0/class")
    click(tab, 40, 70)
    tab.evaluate("() => report.map.getView().setResolution(0.1)")
    picture(tab)
    tab.wait_for_timeout(500)
    link = tab.evaluate("location.hash")
    other = look(view=link)
    other.wait_for_selector('.pixel[data-pixel="40,70"]')
    assert other.input_value("#left") == "0/total" and other.input_value("#right") == "0/class"
    assert other.evaluate("() => report.map.getView().getResolution()") == pytest.approx(0.1)


def test_what_a_link_says_wrongly_is_as_if_it_were_not_said(look, served):
    wrong = "left=foo&right=0/none&over=0/class&ramp=red&palette=x&only=tundra&share=a&opacity=-3&at=0,0,0"
    for link in (f"#{wrong}&pixel=9999,1", "#of=7&pixel=1,1", "#pixel=x", "#at=1e99,2,3", "#%zz"):
        tab = look(view=link)
        assert tab.input_value("#left") == "0/class" and tab.input_value("#opacity") == "100"
        assert not tab.locator(".pixel").is_visible()
        assert 0 < tab.evaluate("() => report.map.getView().getResolution()") < 1


def test_print_shows_map_legend_and_pixel_without_controls(look):
    tab = look(view="#pixel=40,50")
    tab.wait_for_selector(".pixel[data-pixel]")
    tab.emulate_media(media="print")
    assert tab.locator("#map").is_visible() and tab.locator(".legends").is_visible()
    assert tab.locator(".where").is_visible()
    assert not tab.locator("#left").is_visible() and not tab.locator("#go").is_visible()


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_paper_is_white_and_holds_the_whole_picture(look, width, height):
    tab = look(width, height, "dark", view="#right=0/total")
    size = tab.evaluate("() => report.map.getSize()")
    tab.emulate_media(media="print", color_scheme="dark")
    tab.wait_for_timeout(300)
    box = tab.locator(".stage").bounding_box()
    assert box["width"] <= 700 and box["height"] <= 630
    assert box["width"] / box["height"] == pytest.approx(size[0] / size[1], rel=0.02)
    assert tab.evaluate("() => report.map.getSize()") == size
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_story_comes_into_sight_below_or_beside_the_map(look, width, height):
    tab = look(width, height)
    click(tab, 40, 50)
    story, shown = tab.locator(".where").bounding_box(), tab.locator("#map").bounding_box()
    assert story["y"] + story["height"] < height
    assert story["y"] >= shown["y"] + shown["height"] if width == 390 else story["x"] > shown["width"]


def test_a_class_that_no_map_has_is_said(look):
    tab = look()
    tab.fill("#find", "tundra")
    assert "No class begins with “tundra”; there are forest, grassland, water" in tab.inner_text(".message")
    tab.fill("#find", "gra")
    assert tab.inner_text(".message") == ""


def test_a_server_that_has_stopped_is_said(look, case):
    with view(case.folder) as shown:
        tab = look(address=shown.address, allowed="net::ERR_")
    tab.mouse.click(*place_of(tab, 40, 50))
    tab.wait_for_selector(".message:has-text('the server has stopped; run uncover view again')")


def test_an_export_works_from_a_plain_file_server(look, case, tmp_path):
    export_page([case.folder], tmp_path / "site")
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    handler = functools.partial(quiet, directory=tmp_path / "site")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tab = look(address=f"http://127.0.0.1:{server.server_port}/")
        product, numbers = colours(case)
        found = click(tab, 40, 50)
        assert found["class"] == numbers[40, 50]
        total = product.pixels("total", np.array([40]), np.array([50]))[0, 0]
        assert found["total"] == round(float(total) * 1e4)
        assert "not in this export" in tab.inner_text('[data-chapter="spectrum"]')
        tab.click("#next")
        tab.wait_for_selector(".labels .error:has-text('1 of ')")
        grid = product.grid
        longitude, latitude = move(grid.crs, "EPSG:4326", *map(np.atleast_1d, grid.coordinates(60.5, 7.5)))
        tab.fill("#place", f"{latitude[0]:.6f}, {longitude[0]:.6f}")
        tab.press("#place", "Enter")
        tab.wait_for_selector('.pixel[data-pixel="60,7"]')
        told = [float(n) for n in tab.get_attribute(".pixel", "data-place").split(",")]
        np.testing.assert_allclose(told, [latitude[0], longitude[0]], rtol=0, atol=2e-6)
        tab.fill("#place", "0, 0")
        tab.press("#place", "Enter")
        tab.wait_for_selector(".message:has-text('no place on the map')")
        server.shutdown()


@pytest.fixture(scope="module")
def two(case, tmp_path_factory):
    """The map, and one of other classes and larger pixels that begins at row 20 and column 40 of it."""
    folder = tmp_path_factory.mktemp("two") / "coarse"
    there = Grid("EPSG:32633", (20, 0, 300400, 0, -20, 4999800), width=30, height=20)
    _, p, mapped = world(shape=there.shape)
    write_product(folder, mapped, p, grid=there)
    parts = np.stack([-(p * np.log(p)).sum(axis=0)] * 6)
    profile = {"crs": there.crs, "transform": Affine(*there.transform), "width": 30, "height": 20}
    with rasterio.open(folder / "uncertainty.tif", "w", count=6, dtype="float32", **profile) as file:
        file.write(parts.astype(np.float32))
        file.descriptions = ("total", "measurement", "model", "overlap", "margin", "typicality")
    write_item(folder)
    with view(case.folder, folder) as shown:
        yield shown, folder


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_click_tells_the_map_under_it_and_names_it(look, case, two, width, height):
    shown, folder = two
    tab = look(width, height, address=shown.address)
    products = [MapProduct.open(case.folder / "map"), MapProduct.open(folder)]

    def said(i, row, col):
        where = np.array([row]), np.array([col])
        k = int(products[i].numbered(products[i].pixels("class", *where))[0, 0])
        p = products[i].pixels("probability", *where)[k - 1, 0, 0]
        return f"{products[i].names[k - 1]}, {p:.3f}"

    def told(i, row, col):
        tab.wait_for_selector(f'.pixel[data-map="{i}"][data-pixel="{row},{col}"]')
        name, p = said(i, row, col).split(", ")
        assert f"Row {row}, column {col}" in tab.inner_text(".where")
        assert f"{name}, with probability {p}" in tab.inner_text(".where")
        return tab.inner_text(".whose"), tab.inner_text(".others")

    tab.mouse.click(*place_of(tab, 40, 60))
    assert told(1, 10, 10) == ("On coarse", f"map here: {said(0, 40, 60)}")
    tab.click(".others button")
    assert told(0, 40, 60) == ("On map", f"coarse here: {said(1, 10, 10)}")
    tab.click(".others button")
    tab.focus("#map")
    tab.keyboard.press("Shift+ArrowRight")
    assert told(1, 10, 11)[0] == "On coarse"
    tab.mouse.click(*place_of(tab, 30, 44))
    assert told(0, 30, 44) == ("On map", f"coarse here: {said(1, 5, 2)}")
    tab.mouse.click(*place_of(tab, 5, 70))
    assert told(0, 5, 70) == ("On map", "coarse here: outside")


def test_layers_legends_scales_and_areas_are_of_each_map(look, two):
    tab = look(address=two[0].address)
    assert tab.locator(".sides span").all_inner_texts() == [
        f"{n}: Most probable class" for n in ("map", "coarse")
    ]
    heads = tab.locator(".legends h3").all_inner_texts()
    assert heads == ["Left: map: Most probable class", "Right: coarse: Most probable class"]
    tops = "() => report.data.maps.map(({ layers }) => layers.find(({ name }) => name === 'total').top)"
    one, other = tab.evaluate(tops)
    assert one == other > 0.6
    tab.click("#in-view")
    tab.wait_for_selector(".areas table")
    assert tab.locator(".areas .result h3").all_inner_texts() == ["map", "coarse"]
    words = tab.locator(".areas .result p").all_inner_texts()
    counted = [w.split(" pixels")[0] for w in words if " pixels, " in w]
    assert counted == [f"{HEIGHT * WIDTH:,}", "600"]
    tab.fill("#find", "crop")  # a class that the second map alone has
    assert tab.get_attribute('.legend button:has-text("cropland")', "aria-pressed") == "true"
    edge = place_of(tab, 40, 99)  # beyond the first map, and on the screen
    tab.mouse.click(*edge)
    tab.wait_for_selector('.pixel[data-map="1"][data-pixel="10,29"]')


def test_an_error_is_seen_on_the_map_that_it_is_on(look, two):
    tab = look(address=two[0].address, view="#left=1/total")
    tab.select_option("#label-source", "0/0")
    tab.click("#next")
    tab.wait_for_selector(".labels .error:has-text('1 of ')")
    assert tab.input_value("#left") == "0/total"
    tab.wait_for_selector('.pixel[data-map="0"]')


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize(
    "name", ["Principally occupied by agriculture, with natural vegetation " * 2, "w" * 60]
)
def test_long_names_wrap_and_leave_room_for_numbers(look, width, height, name):
    tab = look(width, height)
    click(tab, 40, 50)
    tab.click("#in-view")
    tab.wait_for_selector(".areas table")
    tab.evaluate(
        """(name) => document.querySelectorAll(".bars dt, .legend button, .areas tbody th, .where, .whose")
        .forEach((each) => { each.append(name); })""",
        name,
    )
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert tab.locator('[data-chapter="probability"] .track').first.bounding_box()["width"] > 80
    assert (
        tab.evaluate("(({ scrollWidth: a, clientWidth: b }) => a - b)(document.querySelector('.scroll'))")
        == 0
    )


def test_two_maps_are_swiped(look, case):
    with view(case.folder, case.folder / "map") as shown:
        tab = look(address=shown.address)
        assert tab.input_value("#right") == "1/class"
        tab.select_option("#right", "1/total")
        both = picture(tab)
        tab.select_option("#right", "")
        alone = picture(tab)
        changed = np.flatnonzero((both != alone).any(axis=(0, 2))) / both.shape[1]
        assert changed.max() > 0.7  # the second map is on the right; on the left is the name of the layer
