"""Files as spreadsheets and GIS write them: encodings, separators, layers, archives, names with blanks."""

import shutil
import zipfile

import numpy as np
import pyogrio.raw
import pytest
import rasterio
import shapely
from rasterio.warp import transform

from map_cases import grid, reflectance, write_scene
from safe_trees import shared
from uncover.pipeline.tables import read_table

HERE = grid(45, 60)


def corners(top, left, bottom, right, crs=None):
    """A rectangle of pixels as a polygon, in the CRS of the scene or another."""
    a, _, c, _, e, f = HERE.transform
    x = [c + a * col for col in (left, right, right, left)]
    y = [f + e * row for row in (top, top, bottom, bottom)]
    return shapely.Polygon(list(zip(*(transform(HERE.crs, crs, x, y) if crs else (x, y)), strict=True)))


SQUARES = ((2, 2, 20, 25), (2, 35, 20, 58), (25, 2, 40, 25), (25, 35, 40, 58))
NAMES = ("Fels & Geröll", "Gewässer", "Fels & Geröll", "Gewässer")


def write_features(path, shapes, names, crs=HERE.crs, field="class", **options):
    pyogrio.raw.write(
        path,
        geometry=np.array([shapely.to_wkb(shape) for shape in shapes], dtype=object),
        field_data=[np.array(names, dtype=object)],
        fields=[field],
        geometry_type=options.pop("geometry_type", "Polygon"),
        crs=crs,
        **options,
    )
    return path


@pytest.fixture
def scene(tmp_path):
    return write_scene(tmp_path / "scene.tif", reflectance(45, 60))


def points(separator=",", decimal=".", header=("lon", "lat", "class")):
    lines = [separator.join(header)]
    for square, name in zip(SQUARES, NAMES, strict=True):
        shape = corners(*square, "EPSG:4326")
        inside = 0.6 * np.array(shape.exterior.coords)[:4] + 0.4 * np.array(shape.centroid.coords)
        for east, north in inside:
            lines.append(separator.join((*(f"{v:.7f}".replace(".", decimal) for v in (east, north)), name)))
    return "\r\n".join(lines) + "\r\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize(("separator", "decimal"), [(",", "."), (";", ","), (";", "."), ("\t", ",")])
def test_points_of_any_spreadsheet_are_the_same_labels(run, scene, tmp_path, encoding, separator, decimal):
    (tmp_path / "p.csv").write_bytes(points(separator, decimal).encode(encoding))
    made = run("labels", "p.csv", "--like", scene, "--out", "l.tif")
    assert made.exit_code == 0, made.output
    (tmp_path / "plain.csv").write_text(points(), "utf-8")
    made = run("labels", "plain.csv", "--like", scene, "--out", "plain.tif")
    assert made.exit_code == 0, made.output
    with rasterio.open(tmp_path / "l.tif") as one, rasterio.open(tmp_path / "plain.tif") as other:
        assert (one.read(1) == other.read(1)).all() and (one.read(1) > 0).sum() == 16
    assert "Gewässer: 8" in run("info", "l.tif").stdout


def test_letters_of_another_encoding_are_refused_with_the_remedy(refused, scene, tmp_path):
    (tmp_path / "p.csv").write_bytes(points().encode("cp1252"))
    said = 'p.csv is not text in UTF-8; save it in that encoding ("CSV UTF-8" in spreadsheets)'
    assert said in refused("fit", scene, "--labels", "p.csv", "--out", "m.uncover")
    assert said in refused("fit", "p.csv", "--out", "m.uncover")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize(("separator", "decimal"), [(";", ","), (";", "."), ("\t", "."), (",", ".")])
def test_samples_of_any_spreadsheet_are_the_same_table(tmp_path, encoding, separator, decimal):
    rows = ["B02,B8A,class", "0.031,0.4,Gewässer", "-0.002,3e-2,Röhricht", "1,2,Röhricht"]
    text = "\n".join(row.replace(",", separator).replace(".", decimal) for row in rows)
    (tmp_path / "t.csv").write_bytes(("# measured\n" + text).encode(encoding))
    table = read_table(tmp_path / "t.csv")
    assert table.bands == ("B02", "B8A") and table.classes.tolist() == ["Gewässer", "Röhricht", "Röhricht"]
    np.testing.assert_array_equal(table.values, [[0.031, 0.4], [-0.002, 0.03], [1, 2]])


def test_a_table_without_known_columns_is_described_and_refused_as_labels(run, refused, scene, tmp_path):
    (tmp_path / "p.csv").write_text(points(header=("Länge", "Breite", "Klasse")), "utf-8")
    said = refused("fit", scene, "--labels", "p.csv", "--out", "m.uncover")
    assert "a table of points has the columns lon and lat, or x and y" in said
    shown = run("info", "p.csv")
    assert shown.exit_code == 0
    assert "rows: 16" in shown.stdout and "columns: Länge, Breite, Klasse" in shown.stdout


def test_degrees_in_columns_x_and_y_are_recognised(refused, scene, tmp_path):
    (tmp_path / "p.csv").write_text(points(header=("X", "Y", "class")), "utf-8")
    said = refused("fit", scene, "--labels", "p.csv", "--out", "m.uncover")
    assert "16 of 16 would if x and y were degrees; call the columns lon and lat" in said


def test_a_layer_of_a_geopackage_is_named(run, refused, scene, tmp_path):
    squares = [corners(*square) for square in SQUARES]
    path = write_features(tmp_path / "site.gpkg", squares, NAMES, layer="training", driver="GPKG")
    write_features(path, squares[:2], NAMES[:2], layer="check 2020", driver="GPKG", append=True)
    said = refused("fit", scene, "--labels", "site.gpkg", "--out", "m.uncover")
    assert "2 layers with geometries (training, check 2020); name one of them, site.gpkg:training" in said
    said = refused("fit", scene, "--labels", "site.gpkg:check", "--out", "m.uncover")
    assert "site.gpkg has no layer 'check'; it has 2 layers with geometries (training, check 2020)" in said
    shown = run("info", "site.gpkg")
    assert shown.stderr == "" and "training\n      features: 4" in shown.stdout
    assert "features: 2" in run("info", "site.gpkg:check 2020").stdout
    found = {}
    for layer in ("training", "check 2020"):
        made = run("fit", scene, "--labels", f"site.gpkg:{layer}", "--out", f"{layer}.uncover")
        assert made.exit_code == 0, made.output
        found[layer] = sum(int(line.split()[-1]) for line in made.stdout.splitlines() if "ewässer" in line)
    assert found == {"training": 23 * 18 + 23 * 15, "check 2020": 23 * 18}
    refused("labels", "site.gpkg:training", "--like", scene, "--out", "site.gpkg", "--overwrite")


def test_a_zipped_shapefile_with_capital_letters_is_read(run, scene, tmp_path):
    folder = tmp_path / "Ordner mit Leerzeichen äöü"
    folder.mkdir()
    write_features(tmp_path / "a.shp", [corners(*s) for s in SQUARES], NAMES, driver="ESRI Shapefile")
    with zipfile.ZipFile(folder / "A.zip", "w") as bundle:
        for file in tmp_path.glob("a.*"):
            shutil.copy(file, folder / f"A{file.suffix.upper()}")
            bundle.write(file, file.name)
    shutil.copy(scene, folder / "SZENE.TIF")
    assert "features: 4" in run("info", folder / "A.zip").stdout
    shown = set()
    for name in ("A.SHP", "A.zip"):
        made = run(
            *("fit", folder / "SZENE.TIF", "--labels", folder / name, "--model", "published", "--overwrite"),
            *("--out", folder / "Modell ß.uncover"),
        )
        assert made.exit_code == 0, made.output
        shown.add(made.stdout)
    assert len(shown) == 1 and "Gewässer" in shown.pop()
    made = run("map", folder / "Modell ß.uncover", folder / "SZENE.TIF", "--out", folder / "Karte ä")
    assert made.exit_code == 0, made.output
    assert run("report", folder / "Karte ä").exit_code == 0


def test_heights_and_numbers_of_features_that_come_twice_do_not_matter(run, scene, tmp_path):
    flat = [corners(*square, "EPSG:4326") for square in SQUARES]
    write_features(tmp_path / "flat.geojson", flat, NAMES, "EPSG:4326", driver="GeoJSON")
    high = [shapely.force_3d(shape, 700.0) for shape in flat]
    path = tmp_path / "high.geojson"
    write_features(path, high, NAMES, "EPSG:4326", driver="GeoJSON", geometry_type="Polygon Z")
    path.write_text(path.read_text("utf-8").replace('"Feature", ', '"Feature", "id": 1, '), "utf-8")
    assert path.read_text("utf-8").count('"id": 1') == 4
    said = [
        run("fit", scene, "--labels", f"{kind}.geojson", "--out", f"{kind}.uncover")
        for kind in ("flat", "high")
    ]
    assert said[0].exit_code == 0, said[0].output
    assert said[0].output == said[1].output


def test_labels_without_a_reference_system_are_said_to_take_that_of_the_scene(run, scene, tmp_path):
    path = tmp_path / "a.shp"
    write_features(path, [corners(*s) for s in SQUARES], NAMES, driver="ESRI Shapefile")
    path.with_suffix(".prj").unlink()
    codes = np.kron([[1, 2]], np.ones((45, 30), np.uint8))[None]
    write_scene(tmp_path / "l.tif", codes, names=None, crs=None)
    for name in ("a.shp", "l.tif"):
        made = run("fit", scene, "--labels", name, "--overwrite", "--out", "m.uncover")
        assert made.exit_code == 0, made.output
        said = f"Warning: {name} states no reference system; that of the scene is taken, {HERE.crs}"
        assert made.stderr.count(said) == 1


def test_values_of_a_field_that_classes_does_not_name_are_listed(run, scene, tmp_path):
    write_features(tmp_path / "a.gpkg", [corners(*s) for s in SQUARES], ["a", "b", "c", "d"], driver="GPKG")
    fit = ("fit", scene, "--labels", "a.gpkg", "--overwrite", "--out", "m.uncover", "--classes", "a=x,b=y")
    said = "a.gpkg: c, d of field 'class' are taken to be no class; --ignore says so"
    assert said in run(*fit).stderr
    assert said not in run(*fit, "--ignore", "c,d").stderr


def test_a_picture_in_the_place_of_labels_is_no_codes(run, refused, scene, tmp_path):
    picture = np.stack([np.kron([[200, 0]], np.ones((45, 30)))] * 3).astype(np.uint8)
    write_scene(tmp_path / "rgb.tif", picture, names=None)
    said = refused("fit", scene, "--labels", "rgb.tif", "--out", "m.uncover")
    assert "rgb.tif has 3 bands, as pictures have; labels are one band of class codes" in said
    codes = ("--labels", "rgb.tif:1", "--classes", "0=dark,200=red")
    assert run("fit", scene, *codes, "--out", "m.uncover").exit_code == 0


@pytest.mark.parametrize("missing", [None, " "])
def test_features_without_a_class_are_counted(refused, scene, tmp_path, missing):
    write_features(
        tmp_path / "a.gpkg", [corners(*s) for s in SQUARES], ["a", missing, "b", missing], driver="GPKG"
    )
    said = refused("fit", scene, "--labels", "a.gpkg", "--out", "m.uncover")
    assert "a.gpkg: 2 of 4 features have no value in field 'class'; fill it in or remove them" in said


def test_codes_below_one_of_a_field_are_ignored_or_named(run, refused, scene, tmp_path):
    path = tmp_path / "a.gpkg"
    pyogrio.raw.write(
        path,
        geometry=np.array([shapely.to_wkb(corners(*s)) for s in SQUARES], dtype=object),
        field_data=[np.array([-1, 0, 1, 2])],
        fields=["class"],
        geometry_type="Polygon",
        crs=HERE.crs,
        driver="GPKG",
    )
    fit = ("fit", scene, "--labels", "a.gpkg", "--out")
    said = refused(*fit, "m.uncover")
    assert "holds -1,0, and class codes start at 1: --ignore -1,0 leaves these out, --classes -1=NAME" in said
    found = {}
    for name, options in {"two": ("--ignore", "-1,0"), "four": ("--classes", "-1=A,0=B,1=C,2=D")}.items():
        made = run(*fit, f"{name}.uncover", *options)
        assert made.exit_code == 0, made.output
        rows = [line.split() for line in made.stdout.splitlines()[2:6]]
        found[name] = {row[0]: int(row[2]) for row in rows if len(row) == 3 and row[2].isdigit()}
    n = [(b - t) * (r - left) for t, left, b, r in SQUARES]
    assert found == {"two": dict(zip("12", n[2:], strict=True)), "four": dict(zip("ABCD", n, strict=True))}


def test_a_vector_file_without_a_field_is_refused(refused, scene, tmp_path):
    (tmp_path / "a.geojson").write_text('{"type": "FeatureCollection", "features": []}')
    assert "has no field that names classes" in refused(
        "fit", scene, "--labels", "a.geojson", "--out", "m.uncover"
    )


def test_a_folder_in_the_place_of_labels_is_called_so(refused, scene, tmp_path):
    (tmp_path / "labels").mkdir()
    said = refused("fit", scene, "--labels", "labels", "--out", "m.uncover")
    assert "labels is a folder, not a label map" in said


def test_parts_of_a_product_lead_to_the_product(run, refused, tmp_path):
    (product,) = shared("safe_l2a_real").glob("*.SAFE")
    (tmp_path / "p.SAFE").symlink_to(product)
    assert run("info", "p.SAFE/MTD_MSIL2A.xml").stdout == run("info", "p.SAFE").stdout
    (granule,) = (tmp_path / "p.SAFE/GRANULE").iterdir()
    for folder in ("p.SAFE/GRANULE", f"p.SAFE/GRANULE/{granule.name}"):
        assert f"{folder} is a part of the product p.SAFE; give the product" in refused("info", folder)
    assert run("info", f"p.SAFE/GRANULE/{granule.name}/IMG_DATA").exit_code == 0  # band files are a scene


def test_a_box_with_latitude_first_is_told_the_order(refused, scene):
    line = refused("fit", scene, "--labels", scene, "--bbox", 52, -114, 52.1, -113.9, "--out", "m.uncover")
    assert "is not in degrees, longitude before latitude" in line
