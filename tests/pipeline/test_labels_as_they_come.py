"""Labels as people have them: odd nodata, legends, points in CSV files, names without a scheme."""

import csv
import re

import numpy as np
import pyogrio.raw
import pytest
import rasterio
from numpy.testing import assert_array_equal
from rasterio.warp import transform

from label_maps import GRID, write_map
from map_cases import BANDS, grid, reflectance, write_scene
from map_products import GRID as MAP_GRID
from map_products import NAMES, world, write_points, write_polygons, write_product
from uncover.labels import Scheme, load_scheme
from uncover.labels.scheme import LandClass
from uncover.pipeline import EvaluateOptions, LabelOptions, collect_labels, evaluate_map, open_labels
from uncover.raster import SceneError

CODES = np.tile(np.arange(1, 4, dtype=np.int16), (45, 20))  # three stripes that repeat


def collected(path, **options):
    return collect_labels([path], options=LabelOptions(**options))


@pytest.mark.parametrize("value", [-999, 255])
def test_usual_nodata_is_no_class_and_listed_with_the_option_that_settles_it(tmp_path, value):
    codes = CODES.copy()
    codes[:5] = value
    codes[5:8] = 0
    path = write_map(tmp_path / "lcm.tif", codes)
    first, second = sorted([f"{value} (300 pixels)", "0 (180 pixels)"], key=lambda said: int(said.split()[0]))
    some = ",".join(said.split()[0] for said in (first, second))
    said = re.escape(f"codes {first}, {second} are taken to be no class; --ignore {some} says so")
    with pytest.warns(UserWarning, match=said):
        found = collected(path)
    assert_array_equal(found.codes, np.where((codes == value) | (codes < 0), 0, codes))
    assert found.scheme.names == ("class 1", "class 2", "class 3")
    assert_array_equal(collected(path, ignore=(str(value), "0")).codes, found.codes)  # and is silent


def test_code_0_is_said_once_where_nobody_says_that_it_is_no_class(run, tmp_path):
    """Neither the file's nodata, nor a legend that calls it so, nor a rule of a table needs a line."""
    codes = CODES.astype(np.uint8)
    codes[:5] = 0
    for nodata, legend, said in ((None, None, True), (0, None, False), (None, CATEGORIES, False)):
        path = write_map(tmp_path / "lcm.tif", codes, nodata=nodata)
        (tmp_path / "lcm.tif.aux.xml").unlink(missing_ok=True)
        if legend:
            (tmp_path / "lcm.tif.aux.xml").write_text(legend)
        made = run("labels", path, "--overwrite", "--out", "labels.tif")
        assert made.exit_code == 0, made.output
        assert made.stderr.count("codes 0 (300 pixels) are taken to be no class") == said


def test_codes_that_classes_does_not_name_are_listed(run, tmp_path):
    path = write_map(tmp_path / "lcm.tif", CODES)
    made = run("labels", path, "--classes", "3=Wood,2=Town", "--out", "kept.tif")
    assert "codes 1 (900 pixels) are taken to be no class; --ignore 1 says so" in made.stderr
    made = run(
        "labels", path, "--classes", "3=Wood,2=Town", "--ignore", 1, "--overwrite", "--out", "kept.tif"
    )
    assert made.stderr == ""


@pytest.mark.parametrize("kind", ["raster", "polygons", "table"])
def test_values_that_match_nothing_are_named(run, tmp_path, kind):
    scene = write_scene(tmp_path / "scene.tif", reflectance(45, 60))
    holds = "forest, water"
    if kind == "table":
        rows = "\n".join(f"0.0{i},0.2{i},{('forest', 'water')[i % 2]}" for i in range(1, 9))
        (tmp_path / "t.csv").write_text(f"B2,B3,class\n{rows}\n")
        command, some = ("fit", "t.csv"), ("forest", "water")
    elif kind == "polygons":
        points(tmp_path / "p.csv", grid(45, 60))
        command, some = ("fit", scene, "--labels", "p.csv"), ("forest", "water")
    else:
        labels = np.kron([[1, 2]], np.ones((45, 30), np.uint8))[None]
        write_scene(tmp_path / "l.tif", labels, names=None)
        command, some, holds = ("fit", scene, "--labels", "l.tif"), (1, 2), "1, 2"
    made = run(*command, "--ignore", "9,cloud", "--out", "m.uncover")
    assert made.exit_code == 0, made.output
    assert re.search(
        rf"Warning: --ignore names 9, cloud, which .* does not hold \(it holds {holds}\)", made.stderr
    )
    classes = f"{some[0]}=a,{some[1]}=b,77=c"
    made = run(*command, "--classes", classes, "--overwrite", "--out", "m.uncover")
    assert made.exit_code == 0, made.output
    assert re.search(rf"--classes names 77, which .* does not hold \(it holds {holds}\)", made.stderr)
    made = run(*command, "--classes", "77=c,78=d", "--overwrite", "--out", "m.uncover")
    assert made.exit_code == 1
    assert f"holds {holds}, and none of them is left a class; check --classes and --ignore" in made.stderr


def test_nan_is_no_class(tmp_path):
    codes = CODES.astype(np.float32)
    codes[:5] = np.nan
    assert_array_equal(collected(write_map(tmp_path / "lcm.tif", codes)).codes[:5], 0)


def test_unknown_codes_are_listed_with_all_their_counts(run, tmp_path):
    codes = CODES.copy()
    codes[0, :7] = 70
    codes[44, :9] = 99
    path = write_map(tmp_path / "lcm.tif", codes)
    made = run("labels", path, "--scheme", "lulucf", "--out", "labels.tif")
    assert made.exit_code == 1
    assert "the class code 70 (in 7 pixels), 99 (in 9 pixels), which the scheme 'lulucf'" in made.stderr
    assert "--ignore 70,99" in made.stderr
    made = run("labels", path, "--scheme", "lulucf", "--ignore", "70,99", "--out", "labels.tif")
    assert made.exit_code == 0, made.output


def test_classes_are_named_on_the_spot(run, tmp_path):
    path = write_map(tmp_path / "lcm.tif", CODES - 1)  # with a class of code 0
    made = run("labels", path, "--classes", "0=Built,1=Green,2=Built", "--out", "labels.tif")
    assert made.exit_code == 0, made.output
    found = open_labels(tmp_path / "labels.tif")
    assert found.scheme.names == ("Built", "Green")
    with rasterio.open(tmp_path / "labels.tif") as dataset:
        assert_array_equal(dataset.read(1), np.where(CODES == 2, 2, 1))
    path = write_map(tmp_path / "own.tif", CODES)
    made = run("labels", path, "--classes", "3=Wood,2=Town", "--out", "kept.tif")  # classes keep their codes
    assert made.exit_code == 0, made.output
    with rasterio.open(tmp_path / "kept.tif") as dataset:
        assert_array_equal(dataset.read(1), np.where(CODES > 1, CODES, 0))
    made = run("labels", path, "--classes", "1", "--out", "x.tif")
    assert made.exit_code == 2
    assert "write VALUE=NAME" in made.stderr
    both = ("--classes", "1=a", "--scheme", "lulucf")
    assert "give one of them" in run("labels", path, *both, "--out", "x.tif").stderr


CATEGORIES = (
    '<PAMDataset><PAMRasterBand band="1"><CategoryNames><Category>nodata</Category><Category>Water</Category>'
    "<Category>Wood</Category><Category>Town</Category></CategoryNames></PAMRasterBand></PAMDataset>"
)
ATTRIBUTES = (
    '<PAMDataset><PAMRasterBand band="1"><GDALRasterAttributeTable>'
    '<FieldDefn index="0"><Name>Value</Name><Type>0</Type><Usage>5</Usage></FieldDefn>'
    '<FieldDefn index="1"><Name>Landuse</Name><Type>2</Type><Usage>2</Usage></FieldDefn>'
    '<Row index="0"><F>1</F><F>Water</F></Row><Row index="1"><F>2</F><F>Wood</F></Row>'
    '<Row index="2"><F>3</F><F>Town</F></Row></GDALRasterAttributeTable></PAMRasterBand></PAMDataset>'
)


@pytest.mark.parametrize("legend", [CATEGORIES, ATTRIBUTES, "dbf"])
def test_the_legend_of_a_raster_is_used(tmp_path, legend):
    path = write_map(tmp_path / "lcm.tif", CODES.astype(np.uint8))
    with rasterio.open(path, "r+") as dataset:
        dataset.write_colormap(1, {1: (0, 0, 255, 255), 2: (0, 128, 0, 255), 3: (200, 0, 0, 255)})
    if legend == "dbf":
        pyogrio.raw.write(
            tmp_path / "lcm.tif.vat.dbf",
            geometry=None,
            field_data=[np.array([1, 2, 3]), np.array(["Water", "Wood", "Town"], dtype=object)],
            fields=["Value", "Class_Name"],
            geometry_type=None,
            driver="ESRI Shapefile",
        )
    else:
        (tmp_path / "lcm.tif.aux.xml").write_text(legend)
    scheme = collected(path).scheme
    assert scheme.names == ("Water", "Wood", "Town")
    assert scheme[1].colour == "#0000FF"


def test_a_legend_that_calls_0_a_class_is_refused_with_the_remedy(tmp_path):
    path = write_map(tmp_path / "lcm.tif", CODES)
    (tmp_path / "lcm.tif.aux.xml").write_text(CATEGORIES.replace("nodata", "Sea"))
    with pytest.raises(SceneError, match=r"calls the code 0 'Sea' .* --classes 0=Sea,1=Water"):
        collected(path)


def test_a_label_raster_elsewhere_is_one_line(refused, tmp_path):
    scene = write_scene(tmp_path / "scene.tif", reflectance(45, 60))
    labels = write_map(tmp_path / "lcm.tif", CODES.astype(np.uint8))
    line = refused("fit", scene, "--labels", labels, "--out", "m.uncover")
    assert "lcm.tif does not overlap the scene" in line


def points(path, grid, system="EPSG:4326", columns=("lon", "lat"), comment="", swapped=False, **more):
    """A CSV of the middles of some pixels, of the class of their column."""
    rows, cols = np.divmod(np.arange(0, grid.width * grid.height, 7), grid.width)
    a, _, c, _, e, f = grid.transform
    x, y = (c + a * (cols + 0.5)).tolist(), (f + e * (rows + 0.5)).tolist()
    if system != grid.crs:
        x, y = transform(grid.crs, system, x, y)
    names = np.array(["forest", "water"])[(cols >= grid.width // 2).astype(int)]
    with open(path, "w", newline="", encoding="utf-8") as file:
        file.write(comment)
        table = csv.writer(file)
        table.writerow([*columns, "class", *more])
        pairs = zip(y, x, strict=True) if swapped else zip(x, y, strict=True)
        table.writerows([*xy, name, *more.values()] for xy, name in zip(pairs, names, strict=True))
    return path, rows, cols, names


@pytest.mark.parametrize(
    ("crs", "columns", "more"),
    [
        ("EPSG:4326", ("lon", "lat"), {}),
        ("EPSG:4326", ("Longitude", "Latitude"), {"date": "2020-06-01"}),
        ("EPSG:32633", ("x", "y"), {}),
        ("EPSG:3035", ("x", "y"), {"epsg": 3035}),
        ("EPSG:3857", ("easting", "northing"), {"crs": "EPSG:3857"}),
    ],
)
def test_points_in_a_csv_are_labels(tmp_path, crs, columns, more):
    here = grid(45, 60)
    path, rows, cols, names = points(tmp_path / "p.csv", here, crs, columns, "# made up\n", **more)
    found = collect_labels([path], options=LabelOptions(like=here))
    assert (found.codes > 0).sum() == len(rows)
    assert_array_equal([found.scheme[int(c)].name for c in found.codes[rows, cols]], names)


def test_points_in_a_csv_train_and_judge(run, tmp_path):
    scene = write_scene(tmp_path / "scene.tif", reflectance(45, 60))
    path, rows, *_ = points(tmp_path / "p.csv", grid(45, 60), date="2019-06-01")
    made = run("fit", scene, "--labels", path, "--date", "2020-06-01T10:00:00Z", "--out", "m.uncover")
    assert made.exit_code == 0, made.output
    assert f"{len(rows)} of {len(rows)} points of {path} are of other years than the scene" in made.stderr
    assert "columns: class" in run("info", path).output
    made = run("fit", path, "--out", "other.uncover")
    assert "it is points: uncover fit SCENE --labels p.csv" in made.stderr


@pytest.mark.filterwarnings("ignore:.*probability sample:UserWarning")
def test_points_in_a_csv_are_a_reference(tmp_path):
    _, p, mapped = world()
    folder = write_product(tmp_path / "map", mapped, p)
    path, rows, *_ = points(tmp_path / "p.csv", MAP_GRID)
    found = evaluate_map(folder, path, EvaluateOptions(draws=20))
    assert found.counts.sum() == len(rows)


@pytest.mark.parametrize(("crs", "columns"), [("EPSG:4326", ("lon", "lat")), ("EPSG:32633", ("x", "y"))])
def test_swapped_coordinates_are_one_line(refused, tmp_path, crs, columns):
    scene = write_scene(tmp_path / "scene.tif", reflectance(45, 60))
    path, rows, *_ = points(tmp_path / "p.csv", grid(45, 60), crs, columns, swapped=True)
    line = refused("fit", scene, "--labels", path, "--out", "m.uncover")
    assert f"{len(rows)} of {len(rows)} would with the two coordinates swapped" in line


def test_latitudes_beyond_the_pole_are_swapped(refused, tmp_path):
    scene = write_scene(tmp_path / "scene.tif", reflectance(45, 60))
    (tmp_path / "p.csv").write_text("lon,lat,class\n45.1,-114.2,a\n45.2,-114.1,b\n")
    line = refused("fit", scene, "--labels", "p.csv", "--out", "m.uncover")
    assert "latitudes (lat) reach 114.2, beyond 90" in line


def test_the_only_field_or_one_called_class_needs_no_option(tmp_path):
    path = write_points(tmp_path / "p.gpkg", [3, 4], [5, 6], ["water", "forest"], grid=GRID)
    assert open_labels(path).scheme.names == ("forest", "water")


def test_the_fields_of_polygons_are_listed(tmp_path):
    here = np.array([b"\x01\x01\x00\x00\x00" + bytes(16)] * 2, dtype=object)
    columns = {"kind": np.array(["wood", "lake"], dtype=object), "number": np.array([1, 2])}
    columns["fid_1"] = np.array([np.nan, np.nan])
    path = tmp_path / "p.gpkg"
    how = {"geometry_type": "Point", "crs": "EPSG:4326", "driver": "GPKG"}
    pyogrio.raw.write(path, geometry=here, field_data=[*columns.values()], fields=[*columns], **how)
    with pytest.raises(
        SceneError,
        match=r"fields kind \(wood, lake\), number \(1, 2\), fid_1 \(empty\); say with --class-field",
    ):
        open_labels(path)


def test_two_spellings_of_a_class_are_one_line(refused, tmp_path):
    path = write_points(tmp_path / "p.gpkg", [3, 4, 5], [5, 6, 7], ["Forest", "forest ", "water"], grid=GRID)
    line = refused("labels", path, "--like", write_map(tmp_path / "g.tif", CODES), "--out", "l.tif")
    assert "one class is named in two spellings, 'Forest' and 'forest '" in line
    rows = "\n".join(f"0.{i},0.2,{name}" for i, name in enumerate(["Built-up", "built up", "water"]))
    (tmp_path / "t.csv").write_text(f"B2,B3,class\n{rows}\n")
    line = refused("fit", "t.csv", "--out", "m.uncover")
    assert "t.csv: one class is named in two spellings, 'Built-up' and 'built up'" in line


def test_a_scheme_without_colours_gets_distinct_ones():
    entries = [{"code": i, "name": name} for i, name in enumerate(("water", "rock", "forest", "x"), start=1)]
    entries[3]["colour"] = "#117733"  # that of forests is taken
    scheme = Scheme.from_dict({"name": "own", "classes": entries})
    colours = [c.colour for c in scheme.classes]
    assert len(set(colours)) == 4
    assert (colours[0], colours[3]) == ("#332288", "#117733")
    assert load_scheme("lulucf")[1].colour == "#117733" or isinstance(load_scheme("lulucf")[1], LandClass)


TABLE = """
name = "own"
target = {{name = "t", classes = [{{code = 1, name = "cropland"}}, {{code = 2, name = "forest"}}]}}
source = {{name = "s", classes = [{{code = 1, name = "cropland"}}, {{code = 2, name = "forest"}}, {}]}}
[[rules]]
from = 1
to = "cropland"
[[rules]]
from = 2
to = "forest"
[[rules]]
from = 3
to = 0
""".format('{code = 3, name = "water"}')


@pytest.mark.filterwarnings("ignore:.*probability sample:UserWarning")
@pytest.mark.filterwarnings("ignore:errors rest on:UserWarning")
@pytest.mark.filterwarnings("ignore:.*values that are no class:UserWarning")
@pytest.mark.parametrize("kind", ["points", "polygons"])
def test_a_table_that_gives_no_label_is_accepted_by_evaluate(tmp_path, kind):
    truth, p, mapped = world()
    folder = write_product(tmp_path / "map", mapped, p)
    (tmp_path / "own.toml").write_text(TABLE)
    rows, cols = np.divmod(np.arange(0, truth.size, 11), truth.shape[1])
    names = np.array(NAMES)[truth[rows, cols]]
    if kind == "points":
        path = write_points(tmp_path / "p.gpkg", rows, cols, names)
    else:
        path = write_polygons(tmp_path / "p.gpkg", [(1, 1, 5, 5), (20, 20, 25, 25)], ["water", "forest"])
        names = np.array(["water", "forest"])
    found = evaluate_map(folder, path, EvaluateOptions(scheme=str(tmp_path / "own.toml"), draws=20))
    lost = int((names == "water").sum())
    assert any(f"{lost} features of {path} are of values that are no class" in w for w in found.warnings)
    if kind == "points":
        assert found.counts.sum() == len(rows) - lost


def test_a_table_says_which_columns_it_took(run, tmp_path):
    rows = "\n".join(f"{i},0.0{i},0.2{i},{'ab'[i % 2]}" for i in range(1, 9))
    (tmp_path / "t.csv").write_text(f"# made by hand\n# twice\nID,B2,B3,class\n{rows}\n")
    made = run("fit", "t.csv", "--out", "m.uncover")
    assert made.exit_code == 0, made.output
    assert "class: column class; features: columns B02, B03; not used: ID" in made.output


def test_a_stack_without_names_takes_those_of_the_model(run, tmp_path):
    values = reflectance(60, 70)
    named = write_scene(tmp_path / "named.tif", values)
    bare = write_scene(tmp_path / "bare.tif", values, names=None)
    labels = np.kron([[1, 2]], np.ones((60, 35), np.uint8))[None].astype(np.uint8)
    write_scene(tmp_path / "labels.tif", labels, names=None)
    assert run("fit", named, "--labels", "labels.tif", "--out", "m.uncover").exit_code == 0
    made = run("map", "m.uncover", bare, "--out", "map")
    assert made.exit_code == 0, made.output
    assert f"taken to be those of the model in its order, {', '.join(BANDS)}" in made.stderr


def test_a_table_with_the_offset_left_in_is_refused_by_map(run, tmp_path):
    values = reflectance(60, 70)
    scene = write_scene(tmp_path / "scene.tif", values)
    flat = np.moveaxis(values, 0, 2).reshape(-1, 4)[::3]
    codes = (flat[:, 3] > 0.15).astype(int)
    lines = [
        f"{','.join(f'{v + 0.1:.4f}' for v in row)},{'ab'[c]}" for row, c in zip(flat, codes, strict=True)
    ]
    (tmp_path / "t.csv").write_text("\n".join([",".join((*BANDS, "class")), *lines]))
    made = run("fit", "t.csv", "--level", "L2A", "--out", "wrong.uncover")
    made = run("map", "wrong.uncover", scene, "--out", "map")
    assert made.exit_code == 1
    assert "with 0.1 added: the offset of Sentinel-2 from baseline 04.00 on was left in" in made.stderr
    made = run("fit", "t.csv", "--level", "L2A", "--offset", -0.1, "--out", "right.uncover")
    assert made.exit_code == 0, made.output
