"""Laws of class schemes and translation tables: complete, documented, told apart by every reader."""

import csv
import tomllib
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from uncover.labels import (
    LandClass,
    Rule,
    Scheme,
    Translation,
    load_scheme,
    load_translation,
    scheme_names,
    translation_names,
)
from uncover.labels.colours import distinct

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data"

# Simulated dichromacy in linear RGB: Machado, Oliveira and Fernandes (2009), severity 1.0.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def lab(colour, vision):
    """CIE L*a*b* (D65) of an sRGB colour as a simulated eye sees it."""
    c = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    seen = np.clip(VISION[vision] @ linear, 0, 1)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ seen / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def nearest_pair(colours, vision):
    seen = [lab(c, vision) for c in colours]
    return min(np.linalg.norm(a - b) for a, b in combinations(seen, 2))


@pytest.mark.parametrize("name", scheme_names())
def test_every_shipped_scheme_is_named_as_its_file_and_has_distinct_colours(name):
    scheme = load_scheme(name)
    assert scheme.name == name
    assert scheme.title and scheme.reference
    assert len({c.colour for c in scheme.classes}) == len(scheme.classes)
    assert Scheme.from_dict(scheme.as_dict()) == scheme


@pytest.mark.parametrize("vision", VISION)
def test_lulucf_colours_are_told_apart_by_every_eye(vision):
    assert nearest_pair([c.colour for c in load_scheme("lulucf").classes], vision) > 25


@pytest.mark.parametrize("vision", VISION)
def test_colours_for_nameless_classes_are_told_apart_up_to_nine(vision):
    assert nearest_pair(distinct(9), vision) > 15


def test_the_colour_test_can_fail():
    assert (
        nearest_pair(["#EECC66", "#99DD66"], "normal")
        > 25
        > nearest_pair(["#EECC66", "#99DD66"], "protanopia")
    )


@pytest.mark.parametrize("name", translation_names())
def test_every_shipped_table_gives_a_reason_for_every_class(name):
    table = load_translation(name)
    assert table.name == name
    assert table.reference
    for code in table.source.codes:
        assert len(table.why(code)) > 10


@pytest.mark.parametrize("name", translation_names())
def test_translation_covers_every_code_and_maps_nodata_to_none(name):
    table = load_translation(name)
    labels = table(np.array(table.source.codes))
    assert set(labels.tolist()) <= {0, *table.target.codes}
    assert not table(np.array(table.source.nodata)).any()


def test_ukceh_reaches_all_six_categories():
    table = load_translation("ukceh-lulucf")
    assert set(table(np.arange(1, 22)).tolist()) == {0, 1, 2, 3, 4, 5, 6}


def test_the_four_classes_of_the_study_are_those_of_lulucf():
    study, whole = load_scheme("lulucf-study"), load_scheme("lulucf")
    assert study.names == ("forest", "cropland", "grassland", "settlements")
    assert all(whole[entry.code] == entry for entry in study.classes)
    table = load_translation("ukceh-study")
    assert table.target == study
    labels = table(np.arange(1, 22))
    assert set(labels.tolist()) == {0, *study.codes}
    # Where the study's table gives a label, it is that of the full table.
    full = load_translation("ukceh-lulucf")(np.arange(1, 22))
    np.testing.assert_array_equal(labels[labels > 0], full[labels > 0])


@pytest.mark.parametrize("name", ["ukceh-lulucf", "ukceh-study"])
def test_tables_say_that_they_are_not_the_one_of_the_paper(name):
    assert "Table A3.4.4" in load_translation(name).note
    assert "could not be had" in load_translation(name).note


@pytest.mark.parametrize("name", ["ukceh-lulucf", "ukceh-study"])
def test_ukceh_scheme_and_table_against_the_published_grouping(name):
    path = SHARED / "ukceh" / "lcm21_to_lulucf.csv"
    if not path.exists():
        pytest.skip("needs ../shared/data/ukceh")
    table = load_translation(name)
    agrees = {"forest": "forest", "crop": "cropland", "grass": "grassland", "urban": "settlements"}
    with path.open() as file:
        for row in csv.DictReader(file):
            code, published = int(row["lcm_code"]), row["lulucf_name_nerc"]
            assert table.source[code].name == row["lcm_name"]
            assert table.source[code].parent == row["lcm_aggregate_name"]
            label = int(table(np.array([code]))[0])
            if published in agrees:
                assert table.target[label].name == agrees[published]
            elif label == 0 or table.target[label].name != published:
                assert "published grouping" in table.why(code)  # a departure is argued for


def test_corine_raster_values_follow_the_three_digit_codes():
    codes, grid = load_translation("corine-3-lulucf"), load_translation("corine-grid-lulucf")
    assert codes.source.names == grid.source.names
    assert sorted(codes.source.codes) == list(codes.source.codes)
    assert grid.source.codes == tuple(range(1, 45))
    np.testing.assert_array_equal(codes(np.array(codes.source.codes)), grid(np.array(grid.source.codes)))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.int32, np.float32])
def test_translation_does_not_depend_on_the_type_of_the_codes(dtype):
    table = load_translation("ukceh-lulucf")
    codes = np.arange(22).reshape(2, 11)
    np.testing.assert_array_equal(table(codes.astype(dtype)), table(codes))


@pytest.mark.parametrize("code", [22, 200, -3, 70_000])
def test_an_unknown_code_is_refused_by_name_and_number(code):
    said = rf"LCM2020\.tif has the class code {code} \(in at least 2 pixels\).*'ukceh'.*--scheme"
    with pytest.raises(ValueError, match=said):
        load_translation("ukceh-lulucf")(np.array([1, code, code]), "LCM2020.tif")


def test_a_probability_layer_given_as_labels_is_refused():
    with pytest.raises(ValueError, match=r"holds the value 0\.5.*probability"):
        load_translation("ukceh-lulucf")(np.array([0.5, 1.0]))


def test_identity_keeps_codes_and_refuses_others():
    same = load_translation("lulucf")
    np.testing.assert_array_equal(same(np.arange(7)), np.arange(7))
    with pytest.raises(ValueError, match="class code 7"):
        same(np.array([7]))


@pytest.mark.parametrize("text", ["Bog", " bog", "11"])
def test_vector_classes_translate_by_name_or_by_code_as_text(text):
    assert load_translation("ukceh-lulucf").of_name(text) == 4


OWN = """
name = "mine"
target = "lulucf"
[source]
name = "fields"
[[source.classes]]
code = 300
name = "wheat"
[[source.classes]]
code = 7
name = "hedge"
[[rules]]
from = 300
to = "cropland"
[[rules]]
from = [7]
to = 0
why = "too narrow"
"""


def test_a_users_own_table_works_like_the_shipped_ones(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(OWN)
    np.testing.assert_array_equal(load_translation(path)(np.array([300, 7, 0])), [2, 0, 0])


def test_a_users_own_table_may_name_a_scheme_beside_it(tmp_path):
    (tmp_path / "fields.toml").write_text('name = "fields"\n[[classes]]\ncode = 3\nname = "maize"\n')
    own = 'name = "mine"\nsource = "fields.toml"\ntarget = "lulucf"\n[[rules]]\nfrom = [3]\nto = 2\n'
    (tmp_path / "mine.toml").write_text(own)
    np.testing.assert_array_equal(load_translation(tmp_path / "mine.toml")(np.array([3])), [2])


def test_a_users_own_scheme_alone_keeps_its_codes(tmp_path):
    (tmp_path / "fields.toml").write_text('name = "fields"\n[[classes]]\ncode = 3\nname = "maize"\n')
    np.testing.assert_array_equal(load_translation(tmp_path / "fields.toml")(np.array([3, 0])), [3, 0])


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (("from = [7]", "from = [8]"), "names the code 8"),
        (("from = [7]", "from = [7, 300]"), "more than one rule for the code 300"),
        (("from = [7]", "from = []"), "no rule for the code 7"),
        (('to = "cropland"', 'to = "crops"'), "no class called 'crops'"),
        (('to = "cropland"', "to = 9"), "target 9"),
        (('target = "lulucf"', ""), "has no 'target'"),
        (('name = "wheat"', 'colour = "#000000"'), "has no name"),
        (('name = "wheat"', 'name = "hedge"'), "more than one class"),
        (("code = 300", "code = 0"), "both for a class and for nodata"),
        (('name = "wheat"', 'name = "wheat"\ncolour = "green"'), "six hexadecimal digits"),
        (('name = "mine"', "name = "), "not a readable TOML file"),
    ],
)
def test_a_faulty_table_is_refused_with_its_fault(tmp_path, edit, complaint):
    path = tmp_path / "mine.toml"
    assert edit[0] in OWN
    path.write_text(OWN.replace(*edit, 1))
    with pytest.raises(ValueError, match=complaint):
        load_translation(path)


def test_an_unknown_table_lists_the_shipped_ones():
    with pytest.raises(ValueError, match=r"'corine'.*corine-1-lulucf.*ukceh-lulucf.*TOML"):
        load_translation("corine")


def test_a_target_beyond_eight_bits_is_refused():
    with pytest.raises(ValueError, match=r"code 311.*1 to 254"):
        Translation.identity(load_scheme("corine-3"))


def test_gdal_forms_of_a_scheme_agree_with_its_classes():
    scheme = Scheme("s", (LandClass(2, "b", "#010203"), LandClass(1, "a", "#FFFFFF")))
    assert scheme.category_names() == ["", "a", "b"]
    assert scheme.colour_table()[2] == (1, 2, 3, 255)
    assert scheme.colour_table()[0][3] == 0


def test_table_files_say_what_each_rule_is_about():
    folder = Path(__file__).parents[2] / "src" / "uncover" / "labels" / "tables"
    for path in folder.glob("*.toml"):
        values = tomllib.loads(path.read_text("utf-8"))
        assert Rule((1,), 1).why == "" and all(rule["why"] for rule in values["rules"]), path
