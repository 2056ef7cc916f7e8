"""Change between two maps: probabilities against the truth, areas with intervals, files and bad input."""

import csv
import json
import re
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import rasterio

from map_cases import BANDS, CLASSES, MEANS, SPREAD, contents, fitted, save_model, write_scene
from uncover.metrics.calibration import unexplained_share
from uncover.pipeline import ChangeOptions, MapOptions, SourceOptions, change_of_maps, map_scene
from uncover.pipeline.change import TwoMaps
from uncover.raster import UncertaintyOptions
from uncover.raster.errors import SceneError
from uncover.raster.uncertainty import UncertaintyWarning

SHAPE = (96, 288)  # two units
NOISE = 2.0  # by which the classes overlap


def truth():
    """Classes before and after: every tenth patch of 4 × 4 pixels is another class after."""
    rng = np.random.default_rng(0)
    before = rng.choice(3, (24, 72), p=[0.5, 0.3, 0.2])
    other = (before + rng.integers(1, 3, before.shape)) % 3
    after = np.where(rng.random(before.shape) < 0.1, other, before)
    return tuple(np.kron(each, np.ones((4, 4), int)) for each in (before, after))


def image(classes, seed):
    noise = np.random.default_rng(seed).normal(size=(*classes.shape, 4))
    return np.moveaxis(MEANS[classes] + NOISE * SPREAD * noise, 2, 0).astype(np.float32)


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """Maps of two years by one model, whose scenes have a systematic error each."""
    folder = tmp_path_factory.mktemp("change")
    rng, y, model = np.random.default_rng(1), np.arange(3000) % 3, fitted()
    model.fit(MEANS[y] + rng.normal(size=(3000, 4)) * NOISE * SPREAD, np.array(CLASSES)[y])
    model.feature_names_in_ = np.array(BANDS, dtype=object)
    save_model(folder / "model.uncover", model)
    (folder / "u.csv").write_text("band,u\n" + "".join(f"{band},0.002\n" for band in BANDS))
    how = UncertaintyOptions(between_pixels="systematic")
    source = SourceOptions(uncertainty=str(folder / "u.csv"), uncertainty_options=how)
    for i, (name, classes) in enumerate(zip(("before", "after"), truth(), strict=True)):
        scene = write_scene(folder / f"{name}.tif", image(classes, 2 + i), nodata=np.nan)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UncertaintyWarning)  # nothing is stated of the training samples
            options = MapOptions(source=source, threads=1, date=f"202{i}-06-01")
            map_scene(folder / "model.uncover", scene, folder / f"map-{name}", options)
    change_of_maps(folder / "map-before", folder / "map-after", folder / "change")
    return folder


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def layer(path):
    with rasterio.open(path) as file:
        return file.read()


def test_change_is_told_from_error(case):
    """P(change) is calibrated, and far better than the comparison of the two maps."""
    before, after = truth()
    changed, P = before != after, layer(case / "change/change.tif")[0] / 1e4
    compared = layer(case / "map-before/class.tif")[0] != layer(case / "map-after/class.tif")[0]
    assert np.mean((P - changed) ** 2) < 0.5 * np.mean((compared * 1.0 - changed) ** 2)
    assert P.mean() == pytest.approx(changed.mean(), abs=0.02)
    for low in (0.0, 0.25, 0.5, 0.75):
        some = np.digitize(P, (low, low + 0.25)) == 1
        assert P[some].mean() == pytest.approx(changed[some].mean(), abs=0.1)
    transition = layer(case / "change/transition.tif")[0]
    certain = layer(case / "change/change.tif")[1] > 9900
    right = transition == 3 * before + after + 1
    assert certain.sum() > 1000 and right[certain].mean() > 0.97


def test_areas_of_transitions_cover_the_truth(case):
    before, after = truth()
    rows = rows_of(case / "change/change.csv")
    total = sum(float(row["expected_ha"]) for row in rows)
    assert total == pytest.approx(before.size / 100, rel=2e-3)
    inside = 0
    for row in rows:
        i, j = CLASSES.index(row["from"]), CLASSES.index(row["to"])
        right = ((before == i) & (after == j)).sum() / 100
        inside += float(row["lower_ha"]) <= right <= float(row["upper_ha"])
        parts = [float(row[f"u_{each}_ha"]) for each in ("common", "overlap", "unexplained")]
        assert float(row["standard_uncertainty_ha"]) == pytest.approx(np.hypot.reduce(parts), rel=1e-4)
    assert inside >= 8  # of nine
    facts = json.loads((case / "change/item.json").read_text())["properties"]["uncover:change"]
    share = (before != after).mean()
    assert facts["changed"]["lower"] < share < facts["changed"]["upper"] < 2 * share
    assert facts["same_model"] and not facts["same_worlds"]
    assert facts["doubts"] == [] and max(facts["unexplained"]) < 0.05


def test_land_that_looks_different_is_not_believed_to_have_changed(case, tmp_path, run):
    """Nothing changed, and the other year is brighter: the interval holds no change, and a line says why."""
    before, _ = truth()
    bright = image(before, 5) + 3 * NOISE * SPREAD[:, None, None].astype(np.float32)
    scene = write_scene(tmp_path / "bright.tif", bright, nodata=np.nan)
    map_scene(case / "model.uncover", scene, tmp_path / "bright", MapOptions(threads=1))
    made = run("change", str(case / "map-before"), str(tmp_path / "bright"), "--out", str(tmp_path / "out"))
    assert made.exit_code == 0 and "not to be believed" in made.stderr.splitlines()[-1], made.output
    line = next(each for each in made.stderr.splitlines() if "do not believe the change" in each)
    assert re.search(r"does not explain at least \S+ % of map-before and [2-9]\S+ % of bright, so that", line)
    assert re.search(r"most of it from \w+ to \w+ \(\S+ %; the other way \S+ %\)", line)
    facts = json.loads((tmp_path / "out/item.json").read_text())["properties"]["uncover:change"]
    found, (one, other) = facts["changed"], facts["unexplained"]
    assert one < 0.05 < 0.2 < other and found["share"] > 0.1
    assert found["lower"] < 0.02 and found["standard_uncertainty"] > (other - 0.02) / np.sqrt(3)
    stays = [row for row in rows_of(tmp_path / "out/change.csv") if row["from"] == row["to"]]
    right = [(before == CLASSES.index(row["from"])).sum() / 100 for row in stays]
    assert all(float(row["upper_ha"]) > each for row, each in zip(stays, right, strict=True))
    assert "Do not believe the change" in (tmp_path / "out/report.html").read_text()


def test_maps_of_two_models_say_so(case, tmp_path):
    other = fitted(seed=7)
    save_model(tmp_path / "other.uncover", other)
    map_scene(tmp_path / "other.uncover", case / "after.tif", tmp_path / "map", MapOptions(threads=1))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        maps = TwoMaps.open(case / "map-before", tmp_path / "map")
    line = next(str(each.message) for each in said if "two models" in str(each.message))
    assert re.search(r"\(.*map-before: \w{8} trained on .*; .*map: \w{8} trained on .*\): their errors", line)
    assert not maps.same_model and len({each["model"] for each in maps.models}) == 2


def test_a_share_that_is_not_explained_is_found():
    """Of one part in four with other values at least that part, less what the model explains of it."""
    rng = np.random.default_rng(0)
    own, strange = rng.random(30_000), rng.beta(0.3, 5, 10_000)
    assert 0.15 < unexplained_share(np.r_[own, strange]) < 0.25
    assert unexplained_share(own) == 0 == unexplained_share(np.sqrt(own))


def test_errors_that_maps_share_cancel(case):
    """By one model, and in the worlds of one scene, draws are the same in both maps."""
    maps = TwoMaps.open(case / "map-before", case / "map-before")
    assert maps.same_worlds and maps.same_model
    window = maps.before.mapper.product.units()[0]
    wanted = np.zeros(window.shape, bool)
    wanted[::20, ::20] = True
    (_, one), (_, other) = (each.mapper.draw(window, wanted) for each in (maps.before, maps.after))
    joint = [maps._joint_draws(maps.before, one, way) for way in ("before", "after")]
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(*joint)
    apart = TwoMaps.open(case / "map-before", case / "map-after")
    moved = [apart._joint_draws(apart.before, one, way) for way in ("before", "after")]
    assert np.abs(moved[0] - moved[1]).max() > 0.01  # worlds of two scenes are independent


def test_files_are_whole_and_say_what_they_are(case, run):
    item = json.loads((case / "change/item.json").read_text())
    assert item["properties"]["start_datetime"].startswith("2020-06-01")
    for asset in item["assets"].values():
        assert (case / "change" / asset["href"]).is_file()
    classes = item["assets"]["transition"]["classification:classes"]
    assert [c["title"] for c in classes[1:4]] == ["forest", "forest to grassland", "forest to water"]
    with rasterio.open(case / "change/transition.tif") as file:
        assert file.colormap(1)[2] == file.colormap(1)[8]  # to grassland, whatever it was before
    assert "forest to water" in (case / "change/transition.qml").read_text()
    assert (case / "change/change.qml").is_file()
    out = str(case / "again")
    made = run("change", str(case / "map-before"), str(case / "map-after"), "--out", out)
    assert made.exit_code == 0 and "of the mapped land" in made.stderr, made.output
    report = Path(out, "report.html").read_text()
    assert "P(change)" in report and "forest to grassland" in report
    Path(out, "report.html").unlink()
    assert contents(out) == contents(case / "change")


def test_a_stopped_run_goes_on_to_the_same_bytes(case, tmp_path, monkeypatch):
    import uncover.pipeline.change as module

    calls, plain = [], module._unit

    def stops(*arguments):
        calls.append(arguments[2])
        if len(calls) == 2:
            raise OSError("no room")
        return plain(*arguments)

    monkeypatch.setattr(module, "_unit", stops)
    maps, out = (case / "map-before", case / "map-after"), tmp_path / "change"
    with pytest.raises(OSError, match="no room"):
        change_of_maps(*maps, out)
    with pytest.raises(SceneError, match="go on with --resume"):
        change_of_maps(*maps, out)
    change_of_maps(*maps, out, ChangeOptions(resume=True))
    assert calls == [0, 1, 1]
    assert contents(out) == contents(case / "change")


def test_maps_on_a_grid_of_their_own_are_compared(case, tmp_path):
    """Maps made with --crs are read again in the grids of their scenes."""
    folders = []
    for name in ("before", "after"):
        options = MapOptions(threads=1, crs="EPSG:3035", date="2020-06-01")
        folders.append(map_scene(case / "model.uncover", case / f"{name}.tif", tmp_path / name, options))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # no worlds
        change_of_maps(*folders, tmp_path / "change")
    facts = json.loads((tmp_path / "change/item.json").read_text())["properties"]["uncover:change"]
    before, after = truth()
    assert facts["changed"]["share"] == pytest.approx((before != after).mean(), abs=0.02)
    assert facts["pixels"] > 0.95 * before.size


def test_maps_that_cannot_be_compared_are_one_line(case, tmp_path):
    with pytest.raises(SceneError, match="1 MB are too few; give --memory 400MB"):
        change_of_maps(case / "map-before", case / "map-after", tmp_path / "c", ChangeOptions(memory=1 << 20))
    small = write_scene(tmp_path / "small.tif", image(truth()[0][:64], 5), nodata=np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        map_scene(case / "model.uncover", small, tmp_path / "small", MapOptions(threads=1))
    grids = (
        r"are not on the same grid \(EPSG:32633, \(96, 288\) pixels, .* and EPSG:32633, \(64, 288\) pixels"
    )
    with pytest.raises(SceneError, match=grids):
        change_of_maps(case / "map-before", tmp_path / "small", tmp_path / "c")
    other = fitted()
    rng, y = np.random.default_rng(1), np.arange(600) % 3
    other.fit(MEANS[y] + rng.normal(size=(600, 4)) * SPREAD, np.array(["heath", "grassland", "water"])[y])
    other.feature_names_in_ = np.array(BANDS, dtype=object)
    save_model(tmp_path / "other.uncover", other)
    map_scene(tmp_path / "other.uncover", case / "after.tif", tmp_path / "heath", MapOptions(threads=1))
    with pytest.raises(SceneError, match="change is between maps of the same classes and codes"):
        change_of_maps(case / "map-before", tmp_path / "heath", tmp_path / "c")
    shutil.copytree(case / "map-after", tmp_path / "recoded")
    with rasterio.open(tmp_path / "recoded/class.tif", "r+", IGNORE_COG_LAYOUT_BREAK="YES") as file:
        scheme = json.loads(file.tags()["UNCOVER_SCHEME"])
        for each in scheme["classes"]:
            each["code"] += 10
        file.update_tags(UNCOVER_SCHEME=json.dumps(scheme))
    codes = (
        r"forest \(1\), grassland \(2\), water \(3\) and .* forest \(11\), grassland \(12\), water \(13\);"
    )
    with pytest.raises(SceneError, match=codes):
        change_of_maps(case / "map-before", tmp_path / "recoded", tmp_path / "c")
    shutil.copytree(case / "map-after", tmp_path / "lost")
    record = json.loads((tmp_path / "lost/run.json").read_text())
    (tmp_path / "lost/run.json").write_text(json.dumps(record | {"scene": "gone.tif"}))
    with pytest.raises(SceneError, match=r"gone.tif is not where it was when the map was made"):
        change_of_maps(case / "map-before", tmp_path / "lost", tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_a_map_without_worlds_says_so(case, tmp_path):
    map_scene(case / "model.uncover", case / "after.tif", tmp_path / "plain", MapOptions(threads=1))
    with pytest.warns(UserWarning, match="plain has no worlds: no world was drawn and evaluated"):
        change_of_maps(case / "map-before", tmp_path / "plain", tmp_path / "change")
