"""The report in a real browser: it loads alone and silently, and what should react does."""

import io
import re
from itertools import pairwise

import numpy as np
import pytest

from browsers import CHROMIUM, FLAGS, NO_BROWSER
from uncover.pipeline.contents import Contents
from uncover.pipeline.map_product import MapProduct

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER)


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def look(browser, page):
    """Open the report; afterwards nothing may have been said on the console or asked of the network."""
    opened = []

    def open_page(width=1280, height=800, scheme="light", **more):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, **more
        )
        tab, said, asked = context.new_page(), [], []
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(page.as_uri())
        tab.wait_for_selector("#viewer[data-ready]")
        opened.append((context, said, asked))
        return tab

    yield open_page
    for context, said, asked in opened:
        context.close()
        assert said == []
        assert [url for url in asked if not url.startswith("data:")] == [page.as_uri()]


def pixels(shot):
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(shot)).convert("RGB")).astype(int)


def view_of(tab):
    return tab.get_attribute("#viewer", "data-view")


def canvases(tab):
    return [tab.locator(f'.pane[data-side="{side}"] canvas') for side in ("left", "right")]


def settle(tab):
    tab.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_page_fits_and_is_not_blank(look, width, height, scheme):
    tab = look(width, height, scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    whole = pixels(tab.screenshot())
    background = [255, 255, 255] if scheme == "light" else [0x14, 0x16, 0x1A]
    blank = (whole == background).all(axis=2)
    assert blank[5:30, 5:10].all() and 0.2 < blank.mean() < 0.97


def test_map_is_drawn_in_the_colours_of_the_product(look, case):
    tab = look()
    shot = pixels(canvases(tab)[0].screenshot())
    product = MapProduct.open(case.folder / "map")
    numbers = product.numbered(product.thinned("class", 1))
    seen = []
    for k, entry in enumerate(Contents.of(case.folder).classes(product.names), start=1):
        share = (shot == list(entry.rgb)).all(axis=2).sum()
        seen.append((share, (numbers == k).sum()))
    seen = np.array(seen, float)
    shares = seen / seen.sum(axis=0)
    np.testing.assert_allclose(shares[:, 0], shares[:, 1], atol=0.02)


def test_a_click_tells_the_story_of_the_pixel_under_it(look, case):
    tab = look()
    left, _ = canvases(tab)
    box = left.bounding_box()
    scale = min(box["width"] / 96, box["height"] / 72)
    before = tab.inner_text(".where")
    for row, col in ((4, 5), (60, 80)):
        x = box["width"] / 2 + (col + 0.5 - 48) * scale
        y = box["height"] / 2 + (row + 0.5 - 36) * scale
        left.click(position={"x": x, "y": y})
        after = tab.inner_text(".where")
        assert after != before
        before = after
        found_row, found_col = (int(n) for n in re.match(r"Row (\d+), column (\d+)", after).groups())
        assert abs(found_row - row) <= 1 and abs(found_col - col) <= 1
    assert "outside domain" not in before
    assert tab.locator('[data-chapter="spectrum"] path.world').count() == 4
    total = sum(float(v) for v in tab.locator('[data-chapter="probability"] dd').all_inner_texts())
    assert total == pytest.approx(1.0, abs=0.002)
    parts = [float(v.split()[0]) for v in tab.locator('[data-chapter="budget"] dd').all_inner_texts()]
    assert sum(parts[:3]) == pytest.approx(parts[3], abs=0.002)


def test_snow_is_told_to_be_unlike_anything(look):
    tab = look()
    box = canvases(tab)[0].bounding_box()
    scale = min(box["width"] / 96, box["height"] / 72)
    where = {"x": box["width"] / 2 + (4.5 - 48) * scale, "y": box["height"] / 2 + (4.5 - 36) * scale}
    canvases(tab)[0].click(position=where)
    assert "outside domain" in tab.inner_text(".where")


def test_both_maps_pan_and_zoom_together(look):
    tab = look()
    left, right = canvases(tab)
    whole = view_of(tab)
    shots = [pixels(c.screenshot()) for c in (left, right)]
    tab.click('button[data-zoom="1.6"]')
    settle(tab)
    zoomed = view_of(tab)
    assert zoomed.split()[2] == "1.60" and zoomed != whole
    assert all((pixels(c.screenshot()) != s).any() for c, s in zip((left, right), shots, strict=True))
    box = right.bounding_box()
    shots = [pixels(c.screenshot()) for c in (left, right)]
    tab.mouse.move(box["x"] + 200, box["y"] + 150)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 150, box["y"] + 120, steps=4)
    tab.mouse.up()
    settle(tab)
    panned = view_of(tab)
    assert float(panned.split()[0]) > float(zoomed.split()[0])
    assert all((pixels(c.screenshot()) != s).any() for c, s in zip((left, right), shots, strict=True))
    tab.click('button[data-zoom="0"]')
    assert view_of(tab) == whole


def test_layers_can_be_chosen(look):
    tab = look()
    _, right = canvases(tab)
    shots = {}
    for name in ("total", "measurement", "margin", "typicality", "scene", "flags"):
        tab.select_option('.pane[data-side="right"] select', name)
        settle(tab)
        shots[name] = right.screenshot()
        assert tab.get_attribute('.pane[data-side="right"] canvas', "aria-label")
    assert len(set(shots.values())) == len(shots)


@pytest.mark.parametrize("mode", ["swipe", "fade"])
def test_the_slider_moves_from_one_layer_to_the_other(look, mode):
    tab = look()
    tab.click(f'button[data-mode="{mode}"]')
    slider = tab.locator(".slider input")
    left, _ = canvases(tab)
    shots = []
    for value in (0, 50, 100):
        slider.fill(str(value))
        settle(tab)
        shots.append(pixels(left.screenshot()))
    changed = [(shots[i] != shots[j]).any(axis=2) for i, j in ((0, 1), (1, 2))]
    assert all(change.any() for change in changed)
    if mode == "swipe":  # half of it: only the right half is the other layer
        half = shots[0].shape[1] // 2
        assert not changed[0][:, : half - 4].any() and not changed[1][:, half + 4 :].any()


def test_theme_follows_the_system_and_the_button(look):
    tab = look(scheme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    assert tab.evaluate(paper) == "rgb(20, 22, 26)"
    assert tab.get_attribute("#theme", "aria-pressed") == "true"
    tab.click("#theme")
    assert tab.evaluate(paper) == "rgb(255, 255, 255)"
    assert tab.get_attribute("#theme", "aria-pressed") == "false"
    ink = tab.evaluate("getComputedStyle(document.querySelector('#class-shares svg')).color")
    assert ink == "rgb(26, 28, 33)"


def test_keyboard_walks_from_pixel_to_pixel(look):
    tab = look()
    canvases(tab)[0].focus()
    first = int(tab.get_attribute("#viewer", "data-pixel"))
    tab.keyboard.press("ArrowRight")
    assert int(tab.get_attribute("#viewer", "data-pixel")) == first + 1
    tab.keyboard.press("+")
    assert view_of(tab).split()[2] == "1.60"
    tab.keyboard.press("Shift+ArrowLeft")
    assert view_of(tab).split()[2] == "1.60"
    tab.keyboard.press("0")
    assert view_of(tab).split()[2] == "1.00"


def test_everything_that_reacts_has_a_name_and_can_be_reached(look):
    tab = look()
    nameless = tab.evaluate(
        """() => [...document.querySelectorAll("button, select, input, canvas, summary, a")]
        .filter((x) => !(x.getAttribute("aria-label") || x.closest("label") || x.textContent.trim()))
        .map((x) => x.outerHTML)"""
    )
    assert nameless == []
    unreachable = tab.evaluate(
        """() => [...document.querySelectorAll("button, select, input, canvas, summary")]
        .filter((x) => x.offsetParent !== null && x.tabIndex < 0).map((x) => x.outerHTML)"""
    )
    assert unreachable == []
    assert [tab.locator(name).count() for name in ("header", "nav", "main", "footer", "h1")] == [1] * 5
    levels = tab.evaluate("() => [...document.querySelectorAll('h1, h2, h3, h4')].map((h) => +h.tagName[1])")
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_labels_can_be_hidden(look):
    tab = look()
    assert tab.locator("#labels-picture").is_visible()
    tab.uncheck("#labels-shown")
    assert not tab.locator("#labels-picture").is_visible()


def test_without_scripts_all_layers_are_there_as_pictures(browser, page):
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(page.as_uri())
    assert tab.locator("#layer-total").is_visible() and tab.locator("#layer-class").is_visible()
    assert not tab.locator("#viewer canvas").first.is_visible()
    context.close()


def test_a_finger_chooses_a_pixel(look):
    tab = look(390, 844, has_touch=True, is_mobile=True)
    before = tab.inner_text(".where")
    canvas = canvases(tab)[0]
    canvas.scroll_into_view_if_needed()
    canvas.tap(position={"x": 60, "y": 140})
    assert tab.inner_text(".where") != before
