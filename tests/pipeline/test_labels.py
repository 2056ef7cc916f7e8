"""Laws of collecting labels from files: what arrays give, on any grid, in any blocks, whole or not at all."""

import json
import os
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
import rasterio
import shapely
from numpy.testing import assert_array_equal
from rasterio.warp import transform

from command_lines import replaced
from label_maps import GRID, patchy, write_map
from uncover.labels import Criteria, load_translation, screen
from uncover.pipeline import (
    Area,
    HoldOut,
    LabelOptions,
    collect_labels,
    hold_out,
    label_collection,
    open_labels,
)
from uncover.raster import Grid

LULUCF = LabelOptions(scheme="ukceh-lulucf")
ALL = LabelOptions(scheme="ukceh-lulucf", criteria=Criteria(0.94, purity=0.5, window=5, erosion=1))


def polygons(path, boxes, classes, crs="EPSG:32630", field="class"):
    import pyogrio.raw

    shapes = np.array([shapely.to_wkb(shapely.box(*box)) for box in boxes])
    pyogrio.raw.write(
        path, shapes, [np.array(classes)], [field], geometry_type="Polygon", crs=crs, driver="GPKG"
    )
    return path


def test_labels_from_files_are_those_from_arrays(years):
    translate = load_translation("ukceh-lulucf")
    expected = screen([translate(c) for c in years.codes], years.percent, ALL.criteria, scales=[100] * 3)
    found = collect_labels(years.files, years.probabilities, ALL)
    assert_array_equal(found.codes, expected.labels)
    assert_array_equal(found.report.left, expected.report.left)
    assert 0 < found.report.kept.sum() < found.report.left[0].sum()
    assert found.grid == GRID


@pytest.mark.parametrize("block", [7, 16, 1000])
def test_labels_do_not_depend_on_blocks(years, monkeypatch, block):
    whole = collect_labels(years.files, years.probabilities, ALL)
    monkeypatch.setattr(label_collection, "_BLOCK", block)
    parts = collect_labels(years.files, years.probabilities, ALL)
    assert_array_equal(parts.codes, whole.codes)
    assert_array_equal(parts.report.left, whole.report.left)


def test_maps_in_another_crs_come_by_nearest_neighbour(tmp_path):
    """Each pixel centre, taken through both reference systems, lies in the pixel whose code it gets."""
    other = Grid("EPSG:27700", (25, 0, 330750, 0, -25, 173000), width=60, height=60)
    codes = patchy(2, other.shape, np.arange(1, 22), patch=2)
    path = write_map(tmp_path / "osgb.tif", codes, grid=other)
    x, y = GRID.centres(GRID.window)
    east, north = (
        np.array(v).reshape(GRID.shape) for v in transform(GRID.crs, other.crs, x.ravel(), y.ravel())
    )
    rows, columns = np.floor((173000 - north) / 25).astype(int), np.floor((east - 330750) / 25).astype(int)
    inside = (rows >= 0) & (rows < 60) & (columns >= 0) & (columns < 60)
    expected = np.where(inside, codes[np.clip(rows, 0, 59), np.clip(columns, 0, 59)], 0)
    found = collect_labels([path], options=LabelOptions(scheme="ukceh-lulucf", like=GRID))
    assert inside.mean() > 0.5 and not inside.all()
    assert_array_equal(found.codes, load_translation("ukceh-lulucf")(expected))


def test_a_coarser_map_repeats_its_pixels(tmp_path):
    coarse = Grid("EPSG:32630", (20, 0, 500000, 0, -20, 5700000), width=30, height=23)
    codes = patchy(3, coarse.shape, [1, 3], patch=1)
    path = write_map(tmp_path / "coarse.tif", codes, grid=coarse)
    found = collect_labels([path], options=LabelOptions(scheme="ukceh-lulucf", like=GRID))
    expected = load_translation("ukceh-lulucf")(np.kron(codes, np.ones((2, 2), int))[:45, :60])
    assert_array_equal(found.codes, expected)


def test_a_map_of_a_part_leaves_the_rest_unlabelled(years, tmp_path):
    part = Grid("EPSG:32630", (10, 0, 500100, 0, -10, 5700000), width=20, height=45)
    small = write_map(tmp_path / "part.tif", years.codes[0][:, 10:30], grid=part)
    found = collect_labels([years.files[0], small], options=LULUCF)
    assert found.codes[:, 10:30].any() and not found.codes[:, :10].any() and not found.codes[:, 30:].any()


def test_percent_and_share_are_told_apart_by_their_type(years, tmp_path):
    share = [
        write_map(tmp_path / f"p{i}.tif", (p / 100).astype(np.float32)) for i, p in enumerate(years.percent)
    ]
    one = collect_labels(years.files, years.probabilities, LULUCF)
    assert_array_equal(collect_labels(years.files, share, LULUCF).codes, one.codes)


def test_nodata_of_a_map_is_no_label_and_of_a_probability_no_certainty(tmp_path):
    codes = np.full(GRID.shape, 3, np.uint8)
    codes[0] = 99
    sure = np.full(GRID.shape, 100, np.uint8)
    sure[1] = 255
    path = write_map(tmp_path / "a.tif", codes, nodata=99)
    layer = write_map(tmp_path / "p.tif", sure, nodata=255)
    found = collect_labels([path], [layer], LULUCF)
    assert not found.codes[:2].any() and (found.codes[2:] == 2).all()


def test_an_area_of_interest_cuts_and_masks(years, tmp_path):
    box = Area(bbox=(500100, 5699700, 500400, 5699900), bbox_crs="EPSG:32630")
    whole = collect_labels(years.files, options=LULUCF)
    cut = collect_labels(years.files, options=LabelOptions(scheme="ukceh-lulucf", area=box))
    assert cut.grid.shape == (20, 30)
    assert_array_equal(cut.codes, whole.codes[10:30, 10:40])
    triangle = tmp_path / "aoi.geojson"
    corners = [[500100, 5699700], [500400, 5699700], [500400, 5699900], [500100, 5699700]]
    longitude, latitude = transform("EPSG:32630", "EPSG:4326", *zip(*corners, strict=True))
    ring = [list(p) for p in zip(longitude, latitude, strict=True)]
    shape = {"type": "Polygon", "coordinates": [ring]}
    triangle.write_text(
        json.dumps(
            {
                "type": "FeatureCollection",
                "features": [{"type": "Feature", "properties": {}, "geometry": shape}],
            }
        )
    )
    masked = collect_labels(years.files, options=LabelOptions(scheme="ukceh-lulucf", area=Area(aoi=triangle)))
    assert masked.grid.shape == (20, 30)
    x, y = masked.grid.centres(masked.grid.window)
    below = (y - 5699700) < (x - 500100) * 200 / 300
    assert_array_equal(masked.codes, np.where(below, cut.codes, 0))


@pytest.fixture
def fields(tmp_path):
    boxes = [
        (500000, 5699800, 500200, 5700000),
        (500200, 5699800, 500400, 5700000),
        (500100, 5699600, 500300, 5699700),
    ]
    return polygons(tmp_path / "fields.gpkg", boxes, ["wheat", "wood", "wheat"])


def test_polygons_become_labels_on_the_grid(fields):
    found = collect_labels([fields], options=LabelOptions(class_field="class", like=GRID))
    assert found.scheme.names == ("wheat", "wood")
    expected = np.zeros(GRID.shape, int)
    expected[:20, :20], expected[:20, 20:40], expected[30:40, 10:30] = 1, 2, 1
    assert_array_equal(found.codes, expected)


def test_polygons_are_translated_by_name(tmp_path):
    path = polygons(tmp_path / "f.gpkg", [(500000, 5699800, 500200, 5700000)], ["Bog"])
    found = collect_labels([path], options=LabelOptions("ukceh-lulucf", class_field="class", like=GRID))
    assert set(np.unique(found.codes)) == {0, 4} and found.scheme.name == "lulucf"


def test_erosion_takes_the_edges_of_polygons_even_within_a_class(tmp_path):
    boxes = [(500000, 5699800, 500200, 5700000), (500200, 5699800, 500400, 5700000)]
    path = polygons(tmp_path / "f.gpkg", boxes, ["wheat", "wheat"])
    options = LabelOptions(class_field="class", like=GRID, criteria=Criteria(erosion=2))
    found = collect_labels([path], options=options).codes
    assert found[:18, :18].all() and found[:18, 22:38].all()
    assert not found[:, 18:22].any() and not found[18:].any()


def test_labels_written_are_labels_read(years, tmp_path):
    found = collect_labels(years.files, years.probabilities, LULUCF)
    found.write(tmp_path / "labels.tif")
    with rasterio.open(tmp_path / "labels.tif") as file:
        assert file.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
        assert (file.dtypes, file.nodata, file.crs.to_epsg()) == (("uint8",), 0, 32630)
        assert_array_equal(file.read(1), found.codes)
        for c in found.scheme.classes:
            assert file.colormap(1)[c.code][:3] == c.rgb
    names = ElementTree.parse(tmp_path / "labels.tif.aux.xml").findall(".//Category")
    assert [n.text or "" for n in names] == ["", *found.scheme.names]
    again = collect_labels([tmp_path / "labels.tif"])
    assert again.scheme == found.scheme
    assert_array_equal(again.codes, found.codes)


def test_large_label_rasters_have_nearest_overviews(tmp_path):
    grid = Grid("EPSG:32630", (10, 0, 500000, 0, -10, 5700000), width=1200, height=1100)
    found = collect_labels(
        [write_map(tmp_path / "a.tif", patchy(0, grid.shape, [1, 20], 40), grid=grid)], options=LULUCF
    )
    found.write(tmp_path / "labels.tif")
    with rasterio.open(tmp_path / "labels.tif") as file:
        assert file.overviews(1)
        small = file.read(1, out_shape=(550, 600))
    assert set(np.unique(small)) <= set(np.unique(found.codes))


def test_a_raster_without_a_scheme_keeps_its_codes(tmp_path):
    codes = patchy(1, GRID.shape, [2, 7])
    found = collect_labels([write_map(tmp_path / "own.tif", codes)])
    assert_array_equal(found.codes, codes)
    assert found.scheme.names == ("class 2", "class 7")


def test_spacing_is_kept_and_counted(years):
    options = LabelOptions(scheme="ukceh-lulucf", spacing=35, seed=3)
    found = collect_labels(years.files, options=options)
    rows, columns = np.nonzero(found.codes)
    apart = np.hypot(rows[:, None] - rows, columns[:, None] - columns) * 10 + 1e9 * np.eye(len(rows))
    assert apart.min() >= 35
    assert found.report.steps[-1] == "spacing"
    assert_array_equal(np.bincount(found.codes.ravel(), minlength=256)[1:], found.report.kept[1:])
    assert_array_equal(collect_labels(years.files, options=options).codes, found.codes)
    other = collect_labels(years.files, options=LabelOptions(scheme="ukceh-lulucf", spacing=35, seed=4))
    assert (other.codes != found.codes).any()


@pytest.mark.parametrize("by", ["pixel", "block"])
def test_what_is_held_out_is_not_trained_on(years, by):
    labels = collect_labels(years.files, options=LULUCF)
    train, test = hold_out(labels, HoldOut(0.3, by, block=100, buffer=0), seed=1)
    assert not ((train.codes > 0) & (test.codes > 0)).any()
    assert_array_equal(train.codes + test.codes, labels.codes)
    # Each class is within half a pixel, or half a block of 100 pixels, of its share.
    classes = len(np.unique(labels.codes)) - 1
    near = classes * (0.5 if by == "pixel" else 50)
    assert abs((test.codes > 0).sum() - 0.3 * (labels.codes > 0).sum()) <= near
    if by == "block":
        of_block = np.kron(np.arange(5 * 6).reshape(5, 6), np.ones((10, 10), int))[:45, :60]
        assert not set(of_block[train.codes > 0]) & set(of_block[test.codes > 0])


def test_polygons_are_held_out_whole(fields):
    labels = collect_labels([fields], options=LabelOptions(class_field="class", like=GRID))
    train, test = hold_out(labels, HoldOut(0.4, "polygon"))
    for part in (np.s_[:20, :20], np.s_[:20, 20:40], np.s_[30:40, 10:30]):
        assert len({bool(c) for c in test.codes[part].ravel()}) == 1
    assert test.codes.any() and train.codes.any()


def test_rasters_have_no_polygons_to_split_by(years):
    with pytest.raises(ValueError, match="no polygons to split by"):
        hold_out(collect_labels(years.files, options=LULUCF), HoldOut(0.3, "polygon"))


# ---- the command line ------------------------------------------------------------------------------


def arguments(years, *more):
    given = [a for p in years.probabilities for a in ("--probability", p)]
    usual = "--scheme", "ukceh-lulucf", "--out", "labels.tif"
    return ["labels", *years.files, *replaced(*given, *usual, *more)]


def test_the_command_writes_what_the_function_gives(run, years, tmp_path):
    result = run(*arguments(years, "--report", "report.json"))
    assert result.exit_code == 0, result.output
    assert result.stderr == ""  # quiet in a pipe
    expected = collect_labels(years.files, years.probabilities, LULUCF)
    with rasterio.open(tmp_path / "labels.tif") as file:
        assert_array_equal(file.read(1), expected.codes)
    assert json.loads((tmp_path / "report.json").read_text()) == expected.report.as_dict(expected.scheme)
    assert result.stdout.splitlines()[0].split() == ["found", "-stability", "-quality", "kept"]
    assert result.stdout.splitlines()[-1].startswith(
        "table ukceh-lulucf: not the table of the land cover study"
    )
    made = {p.name for p in tmp_path.iterdir()} - {f.name for f in years.files}
    assert made == {"labels.tif", "labels.tif.aux.xml", "report.json"}


def test_the_same_seed_gives_the_same_bytes(run, years, tmp_path):
    files = []
    for name in ("one", "two"):
        more = ["--spacing", 20, "--seed", 5, "--test-out", f"{name}_test.tif", "--block", 50]
        result = run(*(name + ".tif" if a == "labels.tif" else a for a in arguments(years, *more)))
        assert result.exit_code == 0, result.output
        files.append([(tmp_path / f"{name}{end}.tif").read_bytes() for end in ("", "_test")])
    assert files[0] == files[1]
    assert open_labels(tmp_path / "one_test.tif").scheme.name == "lulucf"


def test_maps_that_do_not_overlap_are_refused(refused, years, tmp_path):
    away = Grid("EPSG:32630", (10, 0, 700000, 0, -10, 5700000), width=60, height=45)
    far = write_map(tmp_path / "far.tif", years.codes[0], grid=away)
    line = refused("labels", years.files[0], far, "--scheme", "ukceh-lulucf", "--out", "labels.tif")
    assert "far.tif does not overlap" in line and "EPSG:32630" in line


def test_an_unknown_class_code_is_refused(refused, years, tmp_path):
    codes = years.codes[0].copy()
    codes[3, 4] = 77
    bad = write_map(tmp_path / "bad.tif", codes)
    line = refused("labels", years.files[0], bad, "--scheme", "ukceh-lulucf", "--out", "labels.tif")
    assert "bad.tif has the class code 77 (in 1 pixels), which the scheme 'ukceh'" in line


def test_a_vector_file_without_the_field_is_refused(refused, fields, tmp_path):
    like = write_map(tmp_path / "like.tif", np.ones(GRID.shape, np.uint8))
    line = refused("labels", fields, "--class-field", "crop", "--like", like, "--out", "labels.tif")
    assert "has no field 'crop'; its fields are class" in line
    assert "--like" in refused("labels", fields, "--class-field", "class", "--out", "labels.tif")


@pytest.mark.parametrize("share", [0.97, 0.5, 0.05])
@pytest.mark.parametrize("compress", ["none", "deflate"])
def test_a_truncated_raster_is_refused(refused, years, tmp_path, cut, share, compress):
    noise = np.random.default_rng(0).integers(1, 22, GRID.shape).astype(np.uint8)
    path = cut(write_map(tmp_path / "cut.tif", noise, compress=compress), share)
    line = refused("labels", years.files[0], path, "--scheme", "ukceh-lulucf", "--out", "labels.tif")
    assert "cut.tif" in line


@pytest.mark.parametrize("share", [0.9, 0.3])
def test_a_truncated_vector_file_is_refused(refused, fields, tmp_path, cut, share):
    like = write_map(tmp_path / "like.tif", np.ones(GRID.shape, np.uint8))
    line = refused(
        "labels", cut(fields, share), "--class-field", "class", "--like", like, "--out", "labels.tif"
    )
    assert "fields.gpkg" in line


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (["--scheme", "lcm"], "there is no translation table or class scheme 'lcm'"),
        (["--bbox", 10, 50, 11, 51], "lies outside"),
        (["--threshold", 95], "95 % is 0.95"),
        (["--window", 4], "odd number"),
        (["--threshold", 1.0], "no pixel meets all criteria"),
        (["--probability-scale", 1], "holds probabilities from 93 to 100"),
        (["--out", "nowhere/labels.tif"], "there is no folder"),
        (["--test-out", "t.tif", "--block", 1e6], "leaves one side empty"),
        (["--test-out", "t.tif", "--test-share", 2], "lies between 0 and 1"),
        (["--aoi", "nowhere.gpkg"], "nowhere.gpkg does not exist"),
        (["--like", "nowhere.tif"], "nowhere.tif does not exist"),
        (["--probability", "lcm2018.tif:2"], "3 label maps and 4 probability layers"),
    ],
)
def test_other_bad_input_is_refused(refused, years, more, complaint):
    assert complaint in refused(*arguments(years, *more))


def test_missing_files_and_bands_are_refused(refused, years):
    assert "nowhere.tif does not exist" in refused("labels", "nowhere.tif", "--out", "labels.tif")
    line = refused("labels", f"{years.files[0]}:3", "--scheme", "ukceh-lulucf", "--out", "labels.tif")
    assert "has 2 band(s); band 3 was asked for" in line


def test_a_probability_layer_given_as_a_map_is_refused(refused, tmp_path):
    layer = write_map(tmp_path / "p.tif", np.full(GRID.shape, 0.5, np.float32))
    assert "is this a probability layer, or a scene?" in refused(
        "labels", layer, "--scheme", "ukceh", "--out", "labels.tif"
    )


def test_a_failed_run_leaves_the_old_output_alone(refused, run, years, tmp_path, cut):
    assert run(*arguments(years)).exit_code == 0
    before = (tmp_path / "labels.tif").read_bytes()
    cut(years.files[2], 0.5)
    refused(*arguments(years))
    assert (tmp_path / "labels.tif").read_bytes() == before


def test_as_a_program_it_prints_one_line_and_no_traceback(tmp_path):
    command = [sys.executable, "-m", "uncover.cli", "labels", "nowhere.tif", "--out", "labels.tif"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert result.returncode == 1
    assert result.stderr.splitlines() == ["Error: nowhere.tif does not exist; check the path"]
    assert list(tmp_path.iterdir()) == []


def test_progress_shows_on_a_terminal(years, tmp_path):
    """The same command with its error stream on a terminal: a bar that reaches 100 %."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "uncover.cli", *map(str, arguments(years))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, cwd=tmp_path) as program:
        program.communicate()
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    assert program.returncode == 0
    assert b"labels" in shown and b"100%" in shown


def test_a_second_output_that_cannot_be_written_is_found_before_the_first_is(refused, years):
    line = refused(*arguments(years, "--test-out", "test.tif", "--report", "nowhere/report.json"))
    assert "nowhere/report.json cannot be written" in line


def test_a_vector_file_that_has_changed_is_read_again(tmp_path):
    box = (500000, 5699800, 500200, 5700000)
    options = LabelOptions(class_field="class", like=GRID)
    one = collect_labels([polygons(tmp_path / "f.gpkg", [box], ["wheat"])], options=options)
    (tmp_path / "f.gpkg").unlink()
    two = collect_labels([polygons(tmp_path / "f.gpkg", [box], ["wood"])], options=options)
    assert (one.scheme.names, two.scheme.names) == (("wheat",), ("wood",))


def test_distances_are_metres_where_coordinates_are_degrees(tmp_path):
    """On a grid of degrees labels are spaced in metres: measured in UTM, to a per cent."""
    grid = Grid("EPSG:4326", (0.0002, 0, -3.01, 0, -0.0001, 52.0), width=60, height=60)
    path = write_map(tmp_path / "degrees.tif", np.full(grid.shape, 3, np.uint8), grid=grid)
    found = collect_labels([path], options=LabelOptions(scheme="ukceh-lulucf", spacing=60))
    x, y = grid.centres(grid.window)
    where = found.codes > 0
    east, north = (np.array(v) for v in transform("EPSG:4326", "EPSG:32630", x[where], y[where]))
    apart = np.hypot(east[:, None] - east, north[:, None] - north) + 1e9 * np.eye(len(east))
    assert 60 * 0.99 < apart.min() < 60 * 1.1
    _, test = hold_out(found, HoldOut(0.3, "block", block=200))
    assert test.codes.any()
