"""Areas of classes in regions: against the whole map, its layers, and 200 repeated measurements."""

import csv
import json
import warnings
from pathlib import Path

import numpy as np
import pyogrio
import pytest
import rasterio
import rasterio.warp
import shapely

from map_cases import BANDS, CLASSES, MEANS, SPREAD, fitted, save_model, write_scene
from uncover.pipeline import MapOptions, RegionOptions, SourceOptions, areas_of_regions, map_scene
from uncover.pipeline.mapped import MappedScene
from uncover.pipeline.regions import _inside
from uncover.raster import Grid, UncertaintyOptions
from uncover.raster.errors import SceneError
from uncover.raster.uncertainty import UncertaintyWarning
from uncover.raster.vectors import write_package

SHAPE = (90, 300)  # two units
LEFT, TOP = 300000.0, 5000000.0


def box(row, col, height, width):
    """A rectangle of whole pixels."""
    x, y = LEFT + 10.0 * col, TOP - 10.0 * row
    return shapely.box(x, y - 10.0 * height, x + 10.0 * width, y)


def write_regions(path, shapes, names=None, crs="EPSG:32633"):
    names = [f"parcel {i}" for i in range(len(shapes))] if names is None else names
    pyogrio.raw.write(
        path, geometry=np.array([shapely.to_wkb(each) for each in shapes], object),
        field_data=[np.array(names, object)], fields=["name"], geometry_type="Unknown", crs=crs,
    )  # fmt: skip
    return path


def values(seed=0):
    rng = np.random.default_rng(seed)
    classes = np.kron(rng.integers(0, 3, (9, 30)), np.ones((10, 10), int))
    image = MEANS[classes] + rng.normal(size=(*classes.shape, 4)) * 4 * SPREAD
    return np.moveaxis(image, 2, 0).astype(np.float32)


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A map of a scene whose systematic error is stated, in a folder."""
    folder = tmp_path_factory.mktemp("regions")
    scene = write_scene(folder / "scene.tif", values(), nodata=np.nan)
    model = fitted()
    rng, y = np.random.default_rng(1), np.arange(600) % 3
    model.fit(MEANS[y] + rng.normal(size=(600, 4)) * 4 * SPREAD, np.array(CLASSES)[y])
    model.feature_names_in_ = np.array(BANDS, dtype=object)
    save_model(folder / "model.uncover", model)
    (folder / "u.csv").write_text("band,u\n" + "".join(f"{band},0.01\n" for band in BANDS))
    how = UncertaintyOptions(between_pixels="systematic")
    source = SourceOptions(uncertainty=str(folder / "u.csv"), uncertainty_options=how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncertaintyWarning)  # nothing is stated of the training samples
        map_scene(folder / "model.uncover", scene, folder / "map", MapOptions(source=source, threads=1))
    return folder


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_whole_map_is_a_region(case, tmp_path):
    """Its areas and their uncertainty are those of areas.csv, but for the pixels that worlds were read at."""
    shapes = [box(0, 0, *SHAPE), box(20, 240, 30, 40), box(20, 250, 5, 5), box(200, 0, 5, 5)]
    regions = write_regions(tmp_path / "r.gpkg", shapes)
    with pytest.warns(UserWarning, match="1 of 4 regions hold no centre of a mapped pixel"):
        areas_of_regions(case / "map", regions, tmp_path / "out", RegionOptions(field="name"))
    found, whole = rows_of(tmp_path / "out/regions.csv"), rows_of(case / "map/areas.csv")
    for name, row in zip(CLASSES, whole, strict=False):
        assert float(found[0][f"ha_{name}"]) == pytest.approx(float(row["expected_ha"]), rel=1e-3)
        stated = float(row["standard_uncertainty_ha"])
        assert float(found[0][f"u_ha_{name}"]) == pytest.approx(stated, rel=0.15)
    assert [row["name"] for row in found] == [f"parcel {i}" for i in range(4)]
    assert [int(row["pixels"]) for row in found] == [27000, 1200, 25, 0]
    assert found[3]["class"] == "" and found[3]["u_probability"] == ""
    with rasterio.open(case / "map/probability.tif") as file:
        P = file.read()[:, 20:50, 240:280] / 1e4
    assert float(found[1]["probability"]) == pytest.approx(P.mean((1, 2)).max(), abs=1e-3)
    assert found[1]["class"] == CLASSES[P.mean((1, 2)).argmax()]
    parts = [float(found[1][f"u_{c}"]) for c in ("measurement", "model", "class_shares", "overlap")]
    assert float(found[1]["u_probability"]) == pytest.approx(np.hypot.reduce(parts), rel=1e-4)
    # of fewer pixels the overlap averages out less; what they share is the same
    assert float(found[2]["u_overlap"]) > 4 * float(found[1]["u_overlap"])
    assert 0.3 < float(found[2]["u_measurement"]) / float(found[1]["u_measurement"]) < 3
    meta, _, _, data = pyogrio.raw.read(tmp_path / "out/regions.gpkg")
    assert meta["crs"] == "EPSG:32633" and len(data[0]) == 4
    ha = data[list(meta["fields"]).index("ha_forest")]
    assert ha[0] == pytest.approx(float(found[0]["ha_forest"]), rel=1e-5) and np.isnan(ha[3])


def test_parts_of_a_place_share_its_pixels():
    """Of parcels whose edges and corners lie on centres of pixels each pixel is in exactly one."""
    squares = [box(i + 0.5, j + 0.5, 10, 10) for i in range(0, 80, 10) for j in range(0, 290, 10)]
    halves = [
        shapely.Polygon([(left, bottom), (right, top), corner])
        for left, bottom, right, top in (square.bounds for square in squares)
        for corner in ((left, top), (right, bottom))
    ]
    grid = Grid("EPSG:32633", (10.0, 0.0, LEFT, 0.0, -10.0, TOP), SHAPE[1], SHAPE[0])
    for shapes in (squares, halves):
        region, pixel = _inside(np.array(shapes), np.arange(len(shapes)), grid)
        assert len(pixel) == len(np.unique(pixel)) == 80 * 290
        assert len(np.unique(region)) == len(shapes)


def test_of_one_pixel_no_more_is_unknown_than_its_class(case, tmp_path):
    """u² of a class that is there or not is p (1 − p), whatever the causes; of two like pixels never more."""
    shapes = [box(r, c, 1, 1 + (c % 2)) for r in range(0, 90, 3) for c in range(0, 300, 7)]
    areas_of_regions(case / "map", write_regions(tmp_path / "r.gpkg", shapes), tmp_path / "out")
    rows = rows_of(tmp_path / "out/regions.csv")
    pixels = np.array([int(row["pixels"]) for row in rows])
    p, u = (np.array([float(row[name]) for row in rows]) for name in ("probability", "u_probability"))
    most, one = np.sqrt(p * (1 - p)), pixels == 1
    assert one.sum() > 300 and (u <= most * (1 + 1e-4) + 1e-6).all()
    doubtful = one & (p < 0.99)
    assert doubtful.sum() > 100
    np.testing.assert_allclose(u[doubtful], most[doubtful], rtol=1e-3)


def test_a_map_on_a_grid_of_its_own(case, tmp_path):
    """A map made with --crs: its pixels are read again in the scene's grid, where each was taken from."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncertaintyWarning)
        how = UncertaintyOptions(between_pixels="systematic")
        source = SourceOptions(uncertainty=str(case / "u.csv"), uncertainty_options=how)
        options = MapOptions(source=source, threads=1, crs="EPSG:3035")
        map_scene(case / "model.uncover", case / "scene.tif", tmp_path / "map", options)
    one, other = MappedScene.open(case / "map"), MappedScene.open(tmp_path / "map")
    window = other.product.grid.window
    wanted = np.zeros(window.shape, bool)
    wanted[::9, ::11] = True
    places, drawn = other.draw(window, wanted)
    assert len(places) > 200
    rows, cols = np.divmod(places, window.width)
    x, y = other.product.grid.coordinates(rows + 0.5, cols + 0.5)
    x, y = rasterio.warp.transform("EPSG:3035", "EPSG:32633", x, y)
    mine = tuple(np.floor(each).astype(int) for each in one.product.grid.places(np.array(x), np.array(y)))
    asked = np.zeros(SHAPE, bool)
    asked[mine] = True
    same, expected = one.draw(one.product.grid.window, asked)
    at = np.searchsorted(same, mine[0] * SHAPE[1] + mine[1])
    assert (same[at] == mine[0] * SHAPE[1] + mine[1]).mean() > 0.99  # but for centres at an edge
    np.testing.assert_allclose(np.median(np.abs(drawn - expected[:, at])), 0, atol=1e-12)
    moved = rasterio.warp.transform_geom("EPSG:32633", "EPSG:3035", box(10, 10, 70, 280).__geo_interface__)
    regions = write_regions(tmp_path / "r.gpkg", [shapely.geometry.shape(moved)], crs="EPSG:3035")
    areas_of_regions(case / "map", regions, tmp_path / "a")
    areas_of_regions(tmp_path / "map", regions, tmp_path / "b")
    (a,), (b,) = rows_of(tmp_path / "a/regions.csv"), rows_of(tmp_path / "b/regions.csv")
    for name in CLASSES:
        assert float(b[f"ha_{name}"]) == pytest.approx(float(a[f"ha_{name}"]), rel=0.03)
        assert float(b[f"u_ha_{name}"]) == pytest.approx(float(a[f"u_ha_{name}"]), rel=0.15)


def test_regions_in_degrees_and_in_parts(case, tmp_path, monkeypatch):
    """Polygons in another reference system, and few at a time, have the same areas."""
    from rasterio.warp import transform_geom

    import uncover.pipeline.regions as module

    shapes = [box(10 * i, 20 * j, 10, 20) for i in range(9) for j in range(15)]
    moved = [
        shapely.geometry.shape(transform_geom("EPSG:32633", "EPSG:4326", shapely.geometry.mapping(each)))
        for each in shapes
    ]
    write_regions(tmp_path / "metres.gpkg", shapes)
    write_regions(tmp_path / "degrees.gpkg", moved, crs="EPSG:4326")
    areas_of_regions(case / "map", tmp_path / "metres.gpkg", tmp_path / "whole")
    monkeypatch.setattr(module, "_size", lambda mapped, memory: 40)
    areas_of_regions(case / "map", tmp_path / "degrees.gpkg", tmp_path / "parts")
    one, other = (rows_of(tmp_path / name / "regions.csv") for name in ("whole", "parts"))
    assert len(one) == len(other) == 135
    for a, b in zip(one, other, strict=True):
        assert abs(int(a["pixels"]) - int(b["pixels"])) <= 4
        assert float(a["ha_water"]) == pytest.approx(float(b["ha_water"]), abs=0.06)


def test_a_stopped_run_goes_on_to_the_same_bytes(case, tmp_path, monkeypatch):
    import uncover.pipeline.regions as module

    regions = write_regions(
        tmp_path / "r.gpkg", [box(10 * i, 20 * j, 10, 20) for i in range(9) for j in range(9)]
    )
    monkeypatch.setattr(module, "_size", lambda mapped, memory: 30)
    areas_of_regions(case / "map", regions, tmp_path / "whole")
    calls, plain = [], module._RegionSums.results

    def stops(self):
        calls.append(1)
        if len(calls) == 2:
            raise OSError("no room")
        return plain(self)

    monkeypatch.setattr(module._RegionSums, "results", stops)
    with pytest.raises(OSError, match="no room"):
        areas_of_regions(case / "map", regions, tmp_path / "again")
    with pytest.raises(SceneError, match="go on with --resume"):
        areas_of_regions(case / "map", regions, tmp_path / "again")
    areas_of_regions(case / "map", regions, tmp_path / "again", RegionOptions(resume=True))
    assert len(calls) == 4  # the first part was not computed again
    texts = [(tmp_path / name / "regions.csv").read_bytes() for name in ("whole", "again")]
    assert texts[0] == texts[1]


def test_uncertainty_is_that_of_repeated_measurements(case):
    """The spread over 200 scenes with their own systematic error is the measurement part that is stated.

    Random errors of single pixels would say next to nothing of it: they average out, and this does not.
    """
    from uncover.pipeline.mapped import MappedScene

    mapped = MappedScene.open(case / "map")
    model, rng = mapped.mapper.model.model_, np.random.default_rng(5)
    pixels = np.moveaxis(values()[:, 20:40, 40:80], 0, 2).reshape(-1, 4).astype(float)
    from uncover.measurement.observation import Observation
    from uncover.measurement.prediction import predict

    systematic = mapped.mapper.observed.systematic

    def mean(shift):
        seen = Observation(pixels + shift, None, systematic)
        return predict(model, seen, paired=False, method="fast").probability().mean(0)

    errors = rng.multivariate_normal(np.zeros(4), systematic, 200)
    spread = np.std([mean(error) for error in errors], axis=0, ddof=1)
    wanted = np.zeros(SHAPE, bool)
    wanted[20:40, 40:80] = True
    _, drawn = mapped.mapper.draw(mapped.mapper.product.grid.window, wanted)
    stated = drawn[: mapped.worlds].mean(1).std(0, ddof=1)
    np.testing.assert_allclose(stated, spread, rtol=0.3)
    P = drawn[: mapped.worlds]
    naive = np.sqrt((P.var(0, ddof=1)).sum(0)) / P.shape[1]
    assert (naive < 0.1 * stated).all()


BOWTIE = shapely.Polygon([(LEFT, TOP), (LEFT + 100, TOP - 100), (LEFT + 100, TOP), (LEFT, TOP - 100)])


@pytest.mark.parametrize(
    ("shapes", "options", "said"),
    [
        ([box(0, 0, 5, 5), BOWTIE], {}, r"feature 2 of .* is invalid \(Self-intersection"),
        ([shapely.Point(LEFT, TOP)], {}, "feature 1 of .* is a Point; regions are valid polygons"),
        ([box(5000, 5000, 5, 5)], {}, "no polygon of .* holds the centre of a mapped pixel"),
        ([box(0, 0, 5, 5)], {"field": "owner"}, "has no field 'owner'; its fields are name"),
        ([box(0, 0, 5, 5)], {"memory": 1 << 20}, "1 MB are too few; give --memory"),
    ],
)
def test_bad_regions_are_one_line(case, tmp_path, shapes, options, said):
    regions = write_regions(tmp_path / "r.gpkg", shapes)
    with pytest.raises(SceneError, match=said):
        areas_of_regions(case / "map", regions, tmp_path / "out", RegionOptions(**options))
    assert [each.name for each in tmp_path.iterdir()] == ["r.gpkg"]  # nothing that would have to be resumed


def test_an_invalid_region_is_found_before_anything_is_computed(case, tmp_path, monkeypatch):
    import uncover.pipeline.regions as module

    regions = write_regions(tmp_path / "r.gpkg", [box(0, 0, 5, 5), box(9, 9, 5, 5), BOWTIE])
    monkeypatch.setattr(module, "_size", lambda mapped, memory: 1)
    monkeypatch.setattr(module._RegionSums, "results", lambda self: pytest.fail("a part was computed"))
    with pytest.raises(SceneError, match=r"feature 3 of .* is invalid"):
        areas_of_regions(case / "map", regions, tmp_path / "out")
    assert [each.name for each in tmp_path.iterdir()] == ["r.gpkg"]


def test_what_regions_do_not_say_is_said(case, tmp_path):
    """No reference system, no name, a part beyond the map: nothing is taken for granted in silence."""
    regions = tmp_path / "r.gpkg"
    wkb, names = shapely.to_wkb([box(0, -30, 20, 60), box(0, 0, 5, 5)]), np.array(["a", None], object)
    write_package(regions, "r", wkb, {"name": names}, None)
    with pytest.warns(UserWarning) as said:
        areas_of_regions(case / "map", regions, tmp_path / "out", RegionOptions(field="name"))
    texts = [str(each.message) for each in said]
    assert len(texts) == 2
    assert "states no reference system: its coordinates are taken for those of" in texts[0]
    assert "1 of 2 regions reach beyond the map" in texts[1] and "column mapped_ha" in texts[1]
    first, second = rows_of(tmp_path / "out/regions.csv")
    assert first["pixels"] == "600" and float(first["mapped_ha"]) == pytest.approx(6.0, rel=0.01)
    assert (first["name"], second["name"]) == ("a", "")
    assert pyogrio.read_info(tmp_path / "out/regions.gpkg")["crs"] == "EPSG:32633"


def test_a_lost_scene_and_a_lost_file_are_one_line(case, tmp_path, run):
    import shutil

    shutil.copytree(case / "map", tmp_path / "map")
    record = json.loads((tmp_path / "map/run.json").read_text())
    record["scene"] = "gone.tif"
    (tmp_path / "map/run.json").write_text(json.dumps(record))
    regions = write_regions(tmp_path / "r.gpkg", [box(0, 0, 5, 5)])
    out = str(tmp_path / "out")
    lost = run("areas", str(tmp_path / "map"), "--regions", str(regions), "--out", out)
    assert lost.exit_code == 1 and "gone.tif is not where it was when the map was made" in lost.stderr
    none = run("areas", str(case / "map"), "--regions", str(tmp_path / "no.gpkg"), "--out", out)
    assert none.exit_code == 1 and "no.gpkg does not exist" in none.stderr
    whole = run("areas", str(case / "map"), "--regions", str(regions), "--out", out)
    assert whole.exit_code == 0 and (Path(out) / "regions.gpkg").is_file()


def test_a_map_without_worlds_says_so(case, tmp_path):
    map_scene(case / "model.uncover", case / "scene.tif", tmp_path / "map", MapOptions(threads=1))
    regions = write_regions(tmp_path / "r.gpkg", [box(0, 0, 5, 5)])
    with pytest.warns(UserWarning, match="has no worlds: no world was drawn and evaluated; the uncertainty"):
        areas_of_regions(tmp_path / "map", regions, tmp_path / "out")
    assert float(rows_of(tmp_path / "out/regions.csv")[0]["u_measurement"]) == 0
