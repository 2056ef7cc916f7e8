"""The shell of pages: everything inside, nothing from outside, and no text that becomes markup."""

import base64
import json
import re

import numpy as np
import pytest

from uncover.report import Figure, Fragment, Headline, Note, Page, Section, Table, Text, render
from uncover.report.page import packed

NASTY = '<script>alert("1")</script> & \u2028 {{ 12345 * 2 }}'


def nasty_page():
    figure = Figure("f", NASTY, "<svg></svg>", NASTY, NASTY, Table(NASTY, (NASTY, NASTY), ((NASTY, NASTY),)))
    parts = (figure, Note(NASTY, NASTY), Text(NASTY, NASTY), Table(NASTY, (NASTY,), ((NASTY,),)))
    sections, headlines = (Section("s", NASTY, NASTY, parts),), (Headline(NASTY, NASTY),)
    return Page(NASTY, NASTY, sections, headlines, warnings=(NASTY,), data={"x": NASTY})


def test_text_stays_text():
    html = render(nasty_page())
    assert "<script>alert" not in html
    assert "24690" not in html
    assert html.count("&lt;script&gt;") >= 16


def test_data_come_back_as_they_were():
    html = render(nasty_page())
    inside = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert json.loads(inside.group(1)) == {"x": NASTY}


def test_nothing_is_loaded_from_elsewhere():
    html = render(nasty_page())
    addresses = re.findall(r'(?:src|href)="([^"#][^"]*)"', html)
    assert all(address.startswith("data:") for address in addresses)
    assert "default-src 'none'" in html
    assert not re.search(r"https?://(?!www\.w3\.org)", html)


def test_every_figure_has_a_reading_and_a_text_alternative():
    html = render(Page("t", "s", (Section("a", "A", parts=(Figure("f", "F", "<svg/>", "READ", "ALT"),)),)))
    assert "<figcaption>READ</figcaption>" in html
    assert "<p>ALT</p>" in html


def test_two_parts_of_one_name_are_refused():
    with pytest.raises(ValueError, match="'a' names two parts"):
        render(Page("t", "s", (Section("a", "A"), Section("a", "B"))))


def test_a_fragment_has_its_own_template():
    values = {"layers": [], "identity": "x"}
    assert 'id="viewer"' in render(
        Page("t", "s", (Section("a", "A", parts=(Fragment("viewer.html", values),)),))
    )


@pytest.mark.parametrize("kind", ["uint8", "int8", "uint16", "int16", "int32", "float32"])
def test_packed_arrays_are_little_endian_bytes(kind):
    array = np.arange(-3 if kind[0] != "u" else 0, 9).astype(kind)
    found = packed(array.astype(array.dtype.newbyteorder(">")))
    assert found["type"] == kind and found["shape"] == [len(array)]
    little = np.frombuffer(base64.b64decode(found["bytes"]), np.dtype(kind).newbyteorder("<"))
    np.testing.assert_array_equal(little, array)
