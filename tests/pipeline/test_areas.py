"""Tables of areas: mapped and masked land, counted and expected, and what is said of them."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import rasterio

from map_cases import BANDS, CLASSES, MEANS, SPREAD, fitted, grid, reflectance, save_model, write_scene
from uncover import BayesianClassifier, BayesianQDA
from uncover.pipeline import EvaluateOptions, MapOptions, SceneOptions, SourceOptions, evaluate_map, map_scene
from uncover.pipeline.info import describe_folder
from uncover.raster import CubeBlock, CubeLayout, Quality, pixel_areas, write_cube

SHAPE = (60, 80)


@pytest.fixture
def case(tmp_path, monkeypatch):
    """A map whose left quarter lies under a cloud, and the folder that it is in."""
    monkeypatch.chdir(tmp_path)
    scene = write_scene("scene.tif", reflectance(*SHAPE))
    cloud = np.zeros((1, *SHAPE), np.uint8)
    cloud[:, :, :20] = 7
    write_scene("cloud.tif", cloud, names=None)
    save_model("model.uncover", fitted())
    options = SourceOptions(scene=SceneOptions(mask="cloud.tif", mask_values={7: Quality.CLOUD}))
    map_scene("model.uncover", scene, "map", MapOptions(source=options, threads=1))
    return Path("map")


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def layer(path):
    with rasterio.open(path) as file:
        return file.read()


def test_clouds_have_no_class_and_a_row_of_their_own(case):
    codes, clear = layer(case / "class.tif")[0], np.arange(SHAPE[1]) >= 20
    nodata = layer(case / "quality.tif")[0] & Quality.NODATA > 0
    np.testing.assert_array_equal(codes > 0, clear & ~nodata)
    area = pixel_areas(grid(*SHAPE)) / 1e4
    probability = layer(case / "probability.tif") / 1e4
    rows = rows_of(case / "areas.csv")
    for k, row in enumerate(rows[: len(CLASSES)]):
        mine = codes == int(row["code"])
        assert int(row["pixels"]) == mine.sum() > 0
        assert float(row["area_ha"]) == pytest.approx(area[mine].sum())
        assert float(row["share"]) == pytest.approx(area[mine].sum() / area[codes > 0].sum())
        expected = (probability[k] * area)[codes > 0].sum()
        assert float(row["expected_ha"]) == pytest.approx(expected, rel=1e-3)  # layers have steps of 1e-4
    lost = {row["class"]: row for row in rows[len(CLASSES) :]}
    assert list(lost) == ["no class: no data", "no class: cloud"] if nodata.any() else ["no class: cloud"]
    cloud = lost["no class: cloud"]
    assert int(cloud["pixels"]) == (~clear & ~nodata).sum() and cloud["share"] == ""
    assert float(cloud["area_ha"]) == pytest.approx(area[~clear & ~nodata].sum())


def test_a_class_under_clouds_on_request(case, run):
    """--mask-classes none maps clouds as land, and counts them; shadow alone leaves clouds in too."""
    write_scene(
        "codes.tif",
        np.where(np.arange(SHAPE[1]) < 20, 9, 4)[None, None] * np.ones((1, *SHAPE), np.uint8),
        names=None,
    )
    common = ("map", "model.uncover", "scene.tif", "--level", "L2A", "--mask", "codes.tif", "--mask-values")
    for i, classes in enumerate(("none", "shadow,snow")):
        made = run(*common, "scl", "--mask-classes", classes, "--out", f"all{i}")
        assert made.exit_code == 0, made.output
        assert not [row for row in rows_of(f"all{i}/areas.csv") if "cloud" in row["class"]]
        item = json.loads(Path(f"all{i}/item.json").read_text())["properties"]
        assert item["uncover:mask_classes"] == [] if classes == "none" else ["shadow", "snow"]
    whole = layer("all0/class.tif")
    np.testing.assert_array_equal(whole[..., 20:], layer(case / "class.tif")[..., 20:])
    assert (whole[..., :20] > 0).sum() > (layer(case / "class.tif")[..., :20] > 0).sum() == 0
    assert "there is no mask class 'fog'" in run(*common, "scl", "--mask-classes", "fog", "--out", "m").output
    assert "--mask-values came without --mask" in run("info", "scene.tif", "--mask-values", "3").output


def test_every_map_ends_with_what_it_is_worth(case, run):
    """Terminal, info, item and report have the same facts; outside the training domain a warning."""
    made = run("map", "model.uncover", "scene.tif", "--level", "L2A", "--out", "plain")
    assert "mapped  " in made.stderr and "time  " in made.stderr and "Warning" not in made.stderr
    assert "the scene has no mask of clouds" in made.stderr
    write_scene("strange.tif", 0.9 - reflectance(*SHAPE))
    made = run("map", "model.uncover", "strange.tif", "--level", "L2A", "--out", "strange")
    said = "100 % of the mapped area is unlike anything the model was trained on: do not believe"
    assert f"Warning: {said}" in made.stderr
    facts = describe_folder(Path("strange")).facts
    assert facts["warnings"][0].startswith(said) and facts["unlike"] in made.stderr
    item = json.loads(Path("strange/item.json").read_text())["properties"]["uncover:facts"]
    assert item["unlike"] == 1 and item["warnings"] == facts["warnings"]
    total = layer("strange/uncertainty.tif")[0] / 1e4
    mean = total[layer("strange/class.tif")[0] > 0].mean()
    assert item["mean_uncertainty"]["total"] == pytest.approx(mean, rel=1e-4)
    assert run("report", "strange").exit_code == 0
    assert said in Path("strange/report.html").read_text().split("<main")[0]


def test_nothing_is_said_of_worlds_that_were_not_evaluated(case):
    rows = rows_of(case / "areas.csv")
    assert {row["sd_over_worlds_ha"] for row in rows} == {""}
    assert {row["sd_over_worlds_mc_error_ha"] for row in rows} == {""}
    assert not [name for name in rows[0] if name.startswith("world_")]
    assert "no world was drawn" in rows[0]["note"]


def test_info_says_what_is_in_the_numbers_and_what_is_left_out(case):
    facts = describe_folder(case).facts
    assert "expected_ha adds up their probabilities" in facts["areas"]
    assert facts["no class"].startswith("of all pixels: cloud 1,200 (25.0 %)")
    assert "sd_over_worlds_ha" not in facts


@pytest.mark.parametrize("kind", ["cog", "zarr", "netcdf"])
@pytest.mark.filterwarnings("ignore:no sample is wrong:UserWarning")
def test_evaluate_weighs_strata_by_mapped_land(case, kind, tmp_path):
    """A stratified sample of the whole scene: strata have the area of mapped land, clouds no samples."""
    if kind != "cog":
        pytest.importorskip("h5netcdf" if kind == "netcdf" else "zarr")
        options = SourceOptions(scene=SceneOptions(mask="cloud.tif", mask_values={7: Quality.CLOUD}))
        map_scene("model.uncover", "scene.tif", "other", MapOptions(source=options, threads=1, format=kind))
    truth = np.maximum(layer(case / "class.tif"), 1)
    write_scene("truth.tif", truth, names=None, nodata=0)
    chosen = EvaluateOptions(draws=20, design="stratified")
    with pytest.warns(UserWarning, match=r"25 % of the observed area is masked .* 1200 samples"):
        found = evaluate_map("map" if kind == "cog" else "other", "truth.tif", chosen)
    own = [float(row["area_ha"]) for row in rows_of(case / "areas.csv") if row["share"]]
    np.testing.assert_allclose(found.mapped / 1e4, own, rtol=1e-6)
    np.testing.assert_allclose(
        [found.results["estimated area", n].value / 1e4 for n in found.classes], own, rtol=1e-6
    )
    assert found.facts["reference"]["on masked pixels"] == 1200
    found.write("evaluation")
    said = json.loads(Path("evaluation/evaluation.json").read_text())
    assert said["masked area"] == pytest.approx(1200 * 100, rel=1e-3)


def shared_model(kind):
    rng = np.random.default_rng(1)
    y = np.arange(150) % 3
    X = MEANS[y][:, None] + rng.normal(size=(150, 1, 4)) * SPREAD + rng.normal(size=(1, 4, 4)) * 0.003
    model = kind(realisations="shared").fit(X, np.array(CLASSES)[y])
    model.feature_names_in_ = np.array(BANDS, dtype=object)
    return model


def spread_of(model, scene, *options, run):
    """Columns of worlds that are filled in the table of areas of a map, and the note."""
    save_model("shared.uncover", model)
    result = run("map", "shared.uncover", scene, "--level", "L2A", *options, "--out", "map-of-worlds")
    assert result.exit_code == 0, result.output
    rows = rows_of("map-of-worlds/areas.csv")
    assert "no spread is given, because" not in rows[0]["note"] or rows[0]["worlds"] == "0"
    return {row["sd_over_worlds_ha"] for row in rows}, rows[0]["note"]


def cube_of(values):
    """A cube of another scene, in four worlds."""
    shift = np.linspace(-0.01, 0.01, 4, dtype=np.float32)[:, None, None, None]

    def produce(window):
        block = values[(slice(None), *window.slices)]
        return CubeBlock(window, block[None] + shift, np.zeros(window.shape, np.uint16))

    layout = CubeLayout(grid(*SHAPE), BANDS, 4, "another", coordinates={"aod": np.arange(4) / 10})
    write_cube("cube.zarr", layout, produce)
    return "cube.zarr"


@pytest.mark.slow
def test_another_scene_by_an_averaging_classifier_has_no_spread(case, run):
    cube = cube_of(np.nan_to_num(reflectance(*SHAPE), nan=0.1).astype(np.float32))
    filled, note = spread_of(shared_model(BayesianQDA), cube, run=run)
    assert "" not in filled and note.endswith("its Monte Carlo error is an upper limit.")
    assert run("report", "map-of-worlds").exit_code == 0  # with more worlds than realisations
    shutil.rmtree("map-of-worlds")
    filled, note = spread_of(shared_model(BayesianClassifier), cube, run=run)
    assert filled == {""}
    assert "because a BayesianClassifier reads the worlds of another scene together" in note


def test_systematic_effects_from_a_file_leave_the_spread_empty(case, run):
    """The worlds of the model alone would leave out what the scene's own effects do."""
    Path("u.csv").write_text("band,u\n" + "".join(f"{band},0.01\n" for band in BANDS))
    stated = ("--uncertainty", "u.csv", "--between-pixels", "systematic")
    filled, note = spread_of(shared_model(BayesianQDA), "scene.tif", *stated, run=run)
    assert filled == {""}
    assert "because systematic effects from a file are not drawn as worlds" in note
