"""Several tiles as one map: where they do not overlap it is theirs, byte for byte, whatever their order."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
import rasterio

import map_cases
import series_cases
from uncover.cli import main
from uncover.pipeline import MapOptions, SeveralScenes, SourceOptions, map_scene
from uncover.raster import Grid, SceneError, SceneOptions, Window
from uncover.raster.executors import Threads
from uncover.raster.pixel_area import pixel_areas

SIDE, STEP = 300, 260  # pixels along a tile, and from one tile to the next
LAYERS = ("class", "probability", "uncertainty", "quality")


def place(row, col, crs="EPSG:32633", x=300000.0):
    return Grid(crs, (10.0, 0.0, x + 10.0 * col, 0.0, -10.0, 5000000.0 - 10.0 * row), SIDE, SIDE)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return map_cases.save_model(tmp_path_factory.mktemp("model") / "m.uncover", map_cases.fitted())


@pytest.fixture(scope="module")
def tiles(tmp_path_factory):
    """Four tiles with overlaps, each with noise of its own, and a hole in the first."""
    folder = tmp_path_factory.mktemp("tiles")
    found = []
    for i, (row, col) in enumerate([(0, 0), (0, STEP), (STEP, 0), (STEP, STEP)]):
        values = map_cases.reflectance(SIDE, SIDE, seed=i)
        if i == 0:
            values[:, 270:290, 270:290] = np.nan
        path = folder / f"tile{i}_2024-06-0{i + 1}.tif"
        found.append(map_cases.write_scene(path, values, place(row, col)))
    return found


@pytest.fixture(scope="module")
def alone(tiles, model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    return [map_scene(model, tile, folder / str(i)) for i, tile in enumerate(tiles)]


@pytest.fixture(scope="module")
def mosaic(tiles, model, tmp_path_factory):
    return map_scene(model, SeveralScenes(tuple(tiles)), tmp_path_factory.mktemp("mosaic") / "map")


def read(folder, layer):
    with rasterio.open(folder / f"{layer}.tif") as file:
        return file.read()


def areas(folder):
    with open(folder / "areas.csv", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_mosaic_is_its_tiles_where_they_do_not_overlap(mosaic, alone):
    taken = read(mosaic, "tile")[0]
    inner = np.zeros(taken.shape, int)
    for row, col in [(0, 0), (0, STEP), (STEP, 0), (STEP, STEP)]:
        inner[row : row + SIDE, col : col + SIDE] += 1
    for i, folder in enumerate(alone):
        row, col = STEP * (i // 2), STEP * (i % 2)
        mine = np.s_[row : row + SIDE, col : col + SIDE]
        single = inner[mine] == 1
        assert single.sum() > 60_000
        for layer in LAYERS:
            whole, part = read(mosaic, layer)[:, *mine], read(folder, layer)
            np.testing.assert_array_equal(whole[:, single], part[:, single])
            own = taken[mine] == i + 1  # in the overlaps, too, a pixel is that of the tile it names
            np.testing.assert_array_equal(whole[:, own], part[:, own])


def test_overlaps_take_the_lowest_uncertainty_and_a_class_before_none(mosaic, alone):
    left, right = (read(folder, "uncertainty")[0].astype(float) for folder in alone[:2])
    left[read(alone[0], "class")[0] == 0] = np.inf
    left, right = left[:STEP, STEP:], right[:STEP, : SIDE - STEP]
    np.testing.assert_array_equal(read(mosaic, "tile")[0][:STEP, STEP:SIDE], np.where(right < left, 2, 1))
    hole = read(mosaic, "class")[0][270:290, 270:290]
    assert (hole > 0).all()


def test_areas_are_those_of_the_pixels(mosaic):
    classes = read(mosaic, "class")[0]
    expected = read(mosaic, "probability") * 1e-4
    expected[:, classes == 0] = 0
    rows = areas(mosaic)
    for k, row in enumerate(rows[:3], start=1):
        assert int(row["pixels"]) == (classes == k).sum()
        np.testing.assert_allclose(float(row["area_ha"]), 0.01 * (classes == k).sum(), rtol=2e-3)  # UTM scale
        np.testing.assert_allclose(float(row["expected_ha"]), 0.01 * expected[k - 1].sum(), rtol=2e-3)
    total = sum(float(row["area_ha"]) for row in rows[:3])
    np.testing.assert_allclose(sum(float(row["expected_ha"]) for row in rows[:3]), total, rtol=1e-6)


def test_the_order_of_the_tiles_is_no_part_of_the_product(mosaic, tiles, model, tmp_path):
    sources = SeveralScenes(tuple(tiles[i] for i in (3, 1, 0, 2)))
    other = map_scene(model, sources, tmp_path / "map", MapOptions(threads=1, block=256))
    assert map_cases.contents(other) == map_cases.contents(mosaic)


def test_the_record_names_every_tile(mosaic):
    item = json.loads((mosaic / "item.json").read_text("utf-8"))["properties"]
    assert [tile["tile"] for tile in item["uncover:tiles"]] == [1, 2, 3, 4]
    assert item["start_datetime"] < item["end_datetime"]
    assert "tile0" in item["uncover:tiles"][0]["scene"]


@pytest.mark.parametrize("after", [1, 9])
def test_a_mosaic_that_was_stopped_goes_on(mosaic, tiles, model, tmp_path, monkeypatch, after):
    """In the middle of a tile, and while the areas of overlaps are computed again."""
    run, seen = Threads.run, []

    def stopping(self, *arguments):
        for unit in run(self, *arguments):
            yield unit
            seen.append(unit.number)
            if len(seen) == 2 * after:
                raise SceneError("stopped")

    out, sources = tmp_path / "map", SeveralScenes(tuple(tiles))
    with monkeypatch.context() as patch:
        patch.setattr(Threads, "run", stopping)
        with pytest.raises(SceneError, match="--resume"):
            map_scene(model, sources, out)
    assert not out.exists()
    map_scene(model, sources, out, MapOptions(resume=True))
    assert map_cases.contents(out) == map_cases.contents(mosaic)


def test_tiles_of_two_zones_lie_on_one_grid(model, tmp_path):
    """Values that say where they are come out where they are; areas are those on the ground."""
    from rasterio.warp import transform

    west = place(0, 0, "EPSG:32632", 785000.0)  # 18.6 km east of the border at 12 degrees
    (x,), (y,) = transform("EPSG:32632", "EPSG:32633", [west.bounds[2]], [west.bounds[3]])
    east = Grid("EPSG:32633", (10.0, 0.0, round(x, -1) - 600, 0.0, -10.0, round(y, -1)), SIDE, SIDE)
    values = map_cases.reflectance(SIDE, SIDE)
    sources = [
        map_cases.write_scene(tmp_path / f"{name}_2024-06-01.tif", values + shift, grid)
        for name, grid, shift in (("west", west, 0.0), ("east", east, np.float32(0.001)))
    ]
    for number, crs in enumerate(("EPSG:3035", "EPSG:32632")):
        out = map_scene(model, SeveralScenes(tuple(sources)), tmp_path / str(number), MapOptions(crs=crs))
        with rasterio.open(out / "tile.tif") as file:
            taken, grid = file.read(1), Grid.of(file)
        assert grid.crs == crs
        assert set(np.unique(taken)) == {0, 1, 2}
        share = (taken > 0).sum() / (2 * SIDE**2)
        assert 0.7 < share < 1.0  # they overlap by a fifth
        classes = read(out, "class")[0]
        assert sum(int(row["pixels"]) for row in areas(out)[:3]) == (classes > 0).sum()
        ground = 1e-4 * pixel_areas(grid)[classes > 0].sum()
        np.testing.assert_allclose(sum(float(row["area_ha"]) for row in areas(out)[:3]), ground, rtol=1e-9)
        rows, cols = np.nonzero(taken == 1)
        some = np.random.default_rng(0).integers(len(rows), size=200)
        rows, cols = rows[some], cols[some]
        names = json.loads((out / "item.json").read_text("utf-8"))["properties"]["uncover:tiles"]
        source, whole = (sources[1], east) if "east" in names[0]["scene"] else (sources[0], west)
        single = tmp_path / "single" / source.stem
        if not single.exists():
            single.parent.mkdir(exist_ok=True)
            map_scene(model, source, single)
        xs, ys = transform(grid.crs, whole.crs, *grid.coordinates(rows + 0.5, cols + 0.5))
        r, c = whole.places(np.array(xs), np.array(ys))
        edge = np.minimum(np.abs(r - np.round(r)), np.abs(c - np.round(c))) > 0.01  # positions err by 0.001
        there = read(single, "class")[0][r.astype(int), c.astype(int)]
        np.testing.assert_array_equal(classes[rows, cols][edge], there[edge])


def test_dates_are_grouped_by_their_place(tmp_path):
    """A model of four dates maps two places; where a pixel has more clear dates in one, it is taken."""
    here = series_cases.Place(tmp_path)
    folder = tmp_path / "beside"
    folder.mkdir()
    series_cases.Place(folder, share=0.1)
    moved = Grid(here.grid.crs, (10.0, 0.0, 300000.0 + 10 * 110, 0.0, -10.0, 5000000.0), 130, 70)
    for path in folder.glob("*.tif"):
        with rasterio.open(path, "r+") as file:
            file.transform = rasterio.Affine(*moved.transform)
    arguments = ["--as", "features", *here.label_options, *here.masked, "--model", "qda"]
    fitted = tmp_path / "m.uncover"
    assert (
        main([*map(str, ["fit", *here.scenes, *arguments, "--out", fitted])], standalone_mode=False) is None
    )
    beside = [folder / path.name for path in here.scenes]
    # The masks of both places have one name each: a mask of its own for each place.
    for path in folder.glob("mask-*.tif"):
        with rasterio.open(path) as own, rasterio.open(tmp_path / path.name) as first:
            both = np.full((70, 240), 4, np.uint8)
            both[:, :130], both[:, 110:] = first.read(1), np.minimum(own.read(1), 9)
            both[:, 110:130] = np.minimum(first.read(1)[:, 110:], own.read(1)[:, :20])
        wide = Grid(here.grid.crs, here.grid.transform, 240, 70)
        map_cases.write_scene(tmp_path / f"wide-{path.name}", both[None], wide, ["SCL"])
    mask = ["--mask", tmp_path / "wide-mask-{date}.tif", "--mask-values", "scl"]

    def mapped(name, *scenes):
        out = tmp_path / name
        assert main([*map(str, ["map", fitted, *scenes, *mask, "--out", out])], standalone_mode=False) is None
        return out

    both = mapped("both", *beside[::-1], *here.scenes)
    each = mapped("first", *here.scenes), mapped("second", *beside)
    np.testing.assert_array_equal(read(both, "class")[0][:, :110], read(each[0], "class")[0][:, :110])
    np.testing.assert_array_equal(read(both, "class")[0][:, 130:], read(each[1], "class")[0][:, 20:])
    dates = [read(folder, "dates_used")[0].astype(int) for folder in each]
    most = np.maximum(dates[0][:, 110:], dates[1][:, :20])
    np.testing.assert_array_equal(read(both, "dates_used")[0][:, 110:130], most)


def test_dates_of_items_need_only_the_bands_of_the_model(tmp_path, run):
    """The other assets of the items are not there; the places are told apart all the same."""
    items = []
    for number, (row, col) in enumerate([(0, 0), (0, 110)]):
        here = series_cases.grid(70, 130, "EPSG:32633").crop(Window(0, 0, 70, 130))
        here = replace(here, transform=(10.0, 0.0, 300000.0 + 10 * col, 0.0, -10.0, 5000000.0 - 10 * row))
        for date in (0, 1):
            day, truth = series_cases.DATES[date], series_cases.classes(seed=number)
            assets = {f"B{band:02}": {"href": "https://nowhere.invalid/x.tif"} for band in (2, 5, 6, 7, 11)}
            for band, plane in zip(series_cases.BANDS, series_cases.values(date, truth), strict=True):
                name = f"{number}-{day}-{band}.tif"
                map_cases.write_scene(tmp_path / name, plane[None], here, [band])
                assets[band] = {"href": name, "raster:bands": [{"scale": 1.0, "offset": 0.0}]}
            said = {"datetime": f"{day}T10:00:00Z", "platform": "sentinel-2a"}
            item = {"type": "Feature", "id": f"S2A_{number}_{day}", "properties": said, "assets": assets}
            items.append(tmp_path / f"{number}-{day}.json")
            items[-1].write_text(json.dumps(item))
        labels = (truth + 1).astype(np.uint8)[None]
        map_cases.write_scene(tmp_path / "labels.tif", labels, here, None)
    words = ["--level", "L2A", "--bands", ",".join(series_cases.BANDS), "--out", "m.uncover"]
    run("fit", *items[2:], "--as", "features", "--model", "published", "--labels", "labels.tif", *words)
    done = run("map", "m.uncover", *items, "--level", "L2A", "--out", "map")
    assert done.exit_code == 0, done.output
    assert read(tmp_path / "map", "class").shape == (1, 70, 240)


def test_bad_mosaics_are_refused_in_one_line(tiles, model, tmp_path):
    def refused(match, *scenes, **options):
        with pytest.raises(SceneError, match=match):
            map_scene(model, SeveralScenes(scenes), tmp_path / "map", MapOptions(**options))
        assert not list(tmp_path.glob("map*"))

    refused("is given twice", tiles[0], tiles[0])
    copy = tmp_path / tiles[0].name
    copy.write_bytes(tiles[0].read_bytes())
    refused("is given twice", tiles[0], copy)
    far = map_cases.write_scene(tmp_path / "far.tif", map_cases.reflectance(64, 64), place(0, 3_000_000))
    refused("so far apart", tiles[0], far)
    refused("--crs 42 is not known", tiles[0], tiles[1], crs="42")
    refused("estimated shares would differ", tiles[0], tiles[1], class_shares="estimate")
    named = SourceOptions(scene=SceneOptions(scene_id="one"))
    refused("--scene-id names one scene", tiles[0], tiles[1], source=named)
    fewer = map_cases.write_scene(
        tmp_path / "fewer.tif", map_cases.reflectance(64, 64)[:3], None, map_cases.BANDS[:3]
    )
    refused("fewer.tif|B08", tiles[0], fewer)
    nowhere = map_cases.write_scene(tmp_path / "nowhere.tif", map_cases.reflectance(64, 64), crs=None)
    refused("some tiles have a reference system", tiles[0], nowhere)
