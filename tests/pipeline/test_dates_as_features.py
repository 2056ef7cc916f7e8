"""Several dates as features from the command line: gaps, other years, other sources, bad input."""

import json
import shutil
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import rasterio
from scipy.stats import multivariate_t

from map_cases import contents, grid, write_scene
from safe_trees import shared
from series_cases import BANDS, CLASSES, DATES, Place, values
from uncover import load_model
from uncover.pipeline import (
    FitOptions,
    MapOptions,
    SceneOptions,
    SeveralScenes,
    SourceOptions,
    fit_model,
    map_scene,
    mask_values,
)
from uncover.raster import Quality, open_scene
from uncover.studies.landscape import LandscapeOptions
from uncover.studies.landscape import write_scene as write_landscape

PUBLISHED = ["--model", "published"]


@pytest.fixture
def place(tmp_path):
    """Four dates with 30 % clouds."""
    return Place(tmp_path, share=0.3)


@pytest.fixture
def small_units(monkeypatch):
    """Units of 64 pixels: several in a small scene."""
    monkeypatch.setattr("uncover.raster.product.UNIT", 64)
    monkeypatch.setattr("uncover.raster.scratch.UNIT", 64)


def read(path):
    with rasterio.open(path) as file:
        return file.read()


def predicted(model, X):
    """Probabilities in the order of the codes of the classes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        found = model.set_params(missing="marginalise").predict_proba(X)
    return found[:, [list(model.classes_).index(name) for name in CLASSES]]


def done(result):
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def fit_and_map(run, place, *more, out="map", model="m.uncover", scenes=None):
    scenes = place.scenes if scenes is None else scenes
    fitted = done(
        run("fit", *scenes, "--as", "features", *PUBLISHED, *place.label_options, *place.masked, *more,
            "--out", model)
    )  # fmt: skip
    mapped = done(run("map", model, *scenes, *place.masked, "--out", out))
    return fitted, mapped


# ---- what a map says -----------------------------------------------------------------------------


def test_any_order_of_the_scenes_gives_the_same_bytes(run, place, tmp_path):
    fit_and_map(run, place)
    first = (tmp_path / "m.uncover").read_bytes()
    (tmp_path / "m.uncover").unlink()  # a product knows the name of its model file
    fit_and_map(run, place, out="other", scenes=[place.scenes[i] for i in (2, 0, 3, 1)])
    assert (tmp_path / "m.uncover").read_bytes() == first
    assert contents(tmp_path / "map") == contents(tmp_path / "other")


def test_gaps_are_left_out_and_counted(run, place, tmp_path):
    _, mapped = fit_and_map(run, place)
    clear = (~np.array(place.clouds)).sum(axis=0)
    used, classes = read(tmp_path / "map" / "dates_used.tif")[0], read(tmp_path / "map" / "class.tif")[0]
    np.testing.assert_array_equal(used, clear)
    np.testing.assert_array_equal(classes == 0, clear == 0)
    quality = read(tmp_path / "map" / "quality.tif")[0]
    np.testing.assert_array_equal(quality & 2048 > 0, clear == 0)
    assert f"no clear date {int((clear == 0).sum())} (" in mapped.stderr
    item = json.loads((tmp_path / "map" / "item.json").read_text())["properties"]
    assert item["uncover:facts"]["unmapped_pixels"] == {"no clear date": int((clear == 0).sum())}
    assert [each["day"] for each in item["uncover:dates"]] == list(DATES)
    assert item["start_datetime"].startswith(DATES[0]) and item["end_datetime"].startswith(DATES[-1])
    # Fewer dates, more doubt; and better than chance wherever there is one.
    overlap = read(tmp_path / "map" / "uncertainty.tif")[3]
    means = [overlap[clear == n].mean() for n in (1, 2, 4)]
    assert means[0] > means[1] > means[2]
    assert (classes == place.truth + 1)[clear == 4].mean() > 0.97
    assert (classes == place.truth + 1)[clear == 1].mean() > 0.6


def test_probabilities_are_those_of_the_marginal_densities(run, place, tmp_path):
    """Against the marginal of each class's Student t, whose rows and columns are struck out (SciPy)."""
    labels = ["--as", "features", *PUBLISHED, *place.label_options, "--out", "m.uncover"]
    done(run("fit", *place.scenes, *labels))  # of whole pixels, some of them clouds
    model = load_model(tmp_path / "m.uncover")
    done(run("map", "m.uncover", *place.scenes, *place.masked, "--out", "fine", "--dtype", "float32"))
    found = read(tmp_path / "fine" / "probability.tif").reshape(len(CLASSES), -1).T
    X = place.features()
    clear = np.isfinite(X).any(axis=1)
    np.testing.assert_allclose(found[clear], predicted(model, X[clear]), atol=2e-6)
    order = [list(model.classes_).index(name) for name in CLASSES]
    log_prior, t = model.model_.log_prior, model.model_.known_posterior(None).predictive()
    scale = t.root @ np.swapaxes(t.root, -1, -2)
    some = np.flatnonzero(clear)[::97]
    assert len({tuple(np.isfinite(X[i])) for i in some}) > 6
    for i in some:
        has = np.isfinite(X[i])
        logs = np.array([
            log_prior[k]
            + multivariate_t.logpdf(
                X[i, has], t.location[k, has], scale[k][np.ix_(has, has)], t.dof[k]
            )
            for k in range(len(order))
        ])  # fmt: skip
        expected = np.exp(logs - logs.max())
        np.testing.assert_allclose(found[i], (expected / expected.sum())[order], atol=2e-6)


@pytest.mark.parametrize("options", [{"threads": 3, "block": 64}, {"threads": 2, "block": 150}])
def test_bytes_do_not_depend_on_threads_and_blocks(run, place, tmp_path, small_units, options):
    fit_and_map(run, place)
    scenes = SeveralScenes(tuple(place.scenes))
    source = SourceOptions(
        scene=SceneOptions(mask=place.mask, mask_values=mask_values("scl"), mask_buffer=15)
    )
    map_scene("m.uncover", scenes, "one", MapOptions(source=source, threads=1))
    map_scene("m.uncover", scenes, "two", MapOptions(source=source, **options))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_killed_map_goes_on(run, place, tmp_path, small_units, monkeypatch):
    fit_and_map(run, place)
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "raster"))
    import watched_runs

    phases = list(watched_runs.PHASES)
    phases.insert(phases.index("quality.tif") + 1, "dates_used.tif")
    monkeypatch.setattr(watched_runs, "PHASES", tuple(phases))

    command = ("map", tmp_path / "m.uncover", *place.scenes, *place.masked, "--threads", 1)
    for phase in ("units", "items"):
        watched_runs.killed_in(phase, 0.0, *command, "--out", tmp_path / "again", "--resume")
        assert not (tmp_path / "again").exists()
    done(run(*command, "--out", tmp_path / "again", "--resume"))
    assert contents(tmp_path / "again") == contents(tmp_path / "map")
    sys.modules.pop("watched_runs", None)


def test_info_shows_the_dates(run, place):
    fit_and_map(run, place, "--features", "bands,NDVI")
    shown = done(run("info", "m.uncover")).stdout
    assert f"dates: {', '.join(DATES)}" in shown
    assert f"features of each date: {', '.join(BANDS)}, NDVI" in shown


# ---- computed features ---------------------------------------------------------------------------


def test_indices_are_features_of_fits_and_maps(run, place, tmp_path):
    fit_and_map(run, place, "--features", "B08,NDVI,B12/B08")
    model = load_model(tmp_path / "m.uncover")
    names = [f"{when}:{each}" for when in DATES for each in ("B08", "NDVI", "B12/B08")]
    assert list(model.feature_names_in_) == names
    X = place.features().reshape(-1, 4, 4)
    _, red, nir, far = np.moveaxis(X, 2, 0)
    computed = np.stack([nir, (nir - red) / (nir + red), far / nir], axis=2).reshape(len(X), -1)
    known = np.isfinite(computed).any(axis=1)
    found = read(tmp_path / "map" / "probability.tif").reshape(len(CLASSES), -1).T[known]
    np.testing.assert_allclose(found * 1e-4, predicted(model, computed[known]), atol=7e-5)


def test_one_scene_with_indices(run, place, tmp_path):
    scene = place.scenes[2]
    done(
        run("fit", scene, "--features", "bands,NDVI", *PUBLISHED, *place.label_options, "--out", "m.uncover")
    )
    done(run("map", "m.uncover", scene, "--out", "map"))
    planes = read(scene).astype(float)
    ndvi = (planes[2] - planes[1]) / (planes[2] + planes[1])
    X = np.concatenate([planes, ndvi[None]]).reshape(5, -1).T
    found = read(tmp_path / "map" / "probability.tif").reshape(len(CLASSES), -1).T * 1e-4
    np.testing.assert_allclose(found, predicted(load_model("m.uncover"), X), atol=7e-5)
    assert not (tmp_path / "map" / "dates_used.tif").exists()


def test_a_table_of_dates_maps_scenes(run, place, tmp_path):
    names = [f"{when}:{band}" for when in DATES for band in BANDS]
    X, y = place.features(), np.array(CLASSES)[place.truth.ravel()]
    whole = np.flatnonzero(np.isfinite(X).all(axis=1))[::3]
    rows = [",".join([*(f"{x:.7g}" for x in X[i]), y[i]]) for i in whole]
    (tmp_path / "pixels.csv").write_text("\n".join([",".join([*names, "class"]), *rows]))
    done(run("fit", "pixels.csv", "--level", "L2A", *PUBLISHED, "--out", "m.uncover"))
    done(run("map", "m.uncover", *place.scenes, *place.masked, "--out", "map"))
    right = read(tmp_path / "map" / "class.tif")[0]
    codes = {name: code for code, name in enumerate(sorted(CLASSES), start=1)}
    truth = np.array([codes[name] for name in CLASSES])[place.truth]
    assert (right == truth)[right > 0].mean() > 0.85


# ---- other years ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "named, mapped",
    [
        (["--dates", "season"], []),
        (["--dates", "03,05,07,10"], []),
        (["--dates", "2024-03,2024-05,2024-07,2024-10"], ["--dates", "2023-03,2023-05,2023-07,2023-10"]),
        ([], ["--dates", "2023-03,2023-05,2023-07,2023-10"]),
    ],
)
def test_a_model_of_one_year_maps_another(run, place, tmp_path, named, mapped):
    first = 1 if "season" in named else 0  # March and May are of one season
    command = ("fit", *place.scenes[first:], "--as", "features", *PUBLISHED, *named, *place.label_options)
    done(run(*command, *place.masked, "--out", "m.uncover"))
    (tmp_path / "2023").mkdir()
    others = []
    for i, day in list(enumerate(DATES))[first:]:
        moved = f"2023-{day[5:8]}{int(day[8:]) - 3:02d}"
        planes = values(i, place.truth, seed=9)
        others.append(write_scene(tmp_path / "2023" / f"scene-{moved}.tif", planes, place.grid, BANDS))
    done(run("map", "m.uncover", *others, *mapped, "--out", "map"))
    found = read(tmp_path / "map" / "class.tif")[0]
    assert (found == place.truth + 1).mean() > 0.95


def test_a_date_without_a_scene_is_a_gap(run, place, tmp_path):
    fit_and_map(run, place)
    lacking = done(run("map", "m.uncover", *place.scenes[:3], *place.masked, "--out", "three"))
    assert f"no scene of {DATES[3]} came" in lacking.stderr and "features of that date" in lacking.stderr
    fewer = done(run("map", "m.uncover", *place.scenes[:2], *place.masked, "--out", "two"))
    assert "features of those dates are missing in every pixel" in fewer.stderr
    shown = done(run("info", "two")).stdout
    assert f"    scene: {place.scenes[0]}, {place.scenes[1]}\n" in shown and "worlds" not in shown
    write_scene(
        place.folder / f"mask-{DATES[3]}.tif",
        np.full((1, *place.truth.shape), 9, np.uint8),
        place.grid,
        ["SCL"],
    )
    done(run("map", "m.uncover", *place.scenes, *place.masked, "--out", "hidden"))
    for layer in ("class", "probability", "uncertainty", "dates_used"):
        three, hidden = (read(tmp_path / name / f"{layer}.tif") for name in ("three", "hidden"))
        np.testing.assert_array_equal(three, hidden)


def test_undated_scenes_are_named_in_their_order(run, place, tmp_path):
    names = []
    for i, scene in enumerate(place.scenes):
        names.append(shutil.copy(scene, tmp_path / f"scene{'abcd'[i]}.tif"))
    command = ("fit", *names, "--as", "features", *PUBLISHED, *place.label_options, "--out", "m.uncover")
    assert "does not say when it was measured" in run(*command).stderr
    done(run(*command, "--dates", "2024-03,2024-05,2024-07,2024-10"))
    assert "2024-05:B08" in load_model("m.uncover").feature_names_in_


# ---- other sources -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["nc", "zarr"])
def test_one_dataset_with_a_time_axis(run, place, tmp_path, kind):
    xarray = pytest.importorskip("xarray")
    fit_and_map(run, place)
    x, y = place.grid.axes()
    time = np.array(DATES, "datetime64[ns]")
    data = np.stack([read(scene) for scene in place.scenes])
    cube = xarray.Dataset(
        {"reflectance": (("time", "band", "y", "x"), data)},
        {"time": time, "band": list(BANDS), "y": y, "x": x, "spatial_ref": 0},
    )
    from pyproj import CRS

    cube["spatial_ref"].attrs["crs_wkt"] = CRS(place.grid.crs).to_wkt()
    cube["reflectance"].attrs["grid_mapping"] = "spatial_ref"
    path = tmp_path / f"cube.{kind}"
    if kind == "zarr":
        cube.to_zarr(path, zarr_format=2)
    else:
        cube.to_netcdf(path, engine="h5netcdf")
    assert "has 4 dates" in run("fit", path, *PUBLISHED, *place.label_options, "--out", "x.uncover").stderr
    options = ["--level", "L2A", *place.masked]
    done(
        run("fit", path, "--as", "features", *PUBLISHED, *place.label_options, *options, "--out", "c.uncover")
    )
    done(run("map", "c.uncover", path, *options, "--out", "cube-map"))
    for layer in ("class", "probability", "dates_used"):
        one, other = (read(tmp_path / name / f"{layer}.tif") for name in ("map", "cube-map"))
        np.testing.assert_array_equal(one, other)


@pytest.fixture(scope="module")
def twin(tmp_path_factory):
    """Four simulated products of one year, nearly clear."""
    return write_landscape(tmp_path_factory.mktemp("twin"), LandscapeOptions(size=120, dates=4, clouds=0.1))


def test_products_of_a_year_are_mapped_better_than_one_of_them(run, twin, tmp_path):
    labels = ["--labels", twin.truth(2020), "--ignore", "0,5", "--fraction", "0.3", *PUBLISHED]
    clouds = str(twin.folder / "series" / "clouds-{date}.tif")
    masked = ["--mask", clouds, "--mask-values", "scl"]
    done(run("fit", *twin.series, "--as", "features", *labels, *masked, "--out", "m.uncover"))
    done(run("map", "m.uncover", *twin.series[::-1], *masked, "--out", "map"))
    done(run("fit", twin.series[2], *labels, "--mask", clouds.format(date="2020-08-08"),
             "--mask-values", "scl", "--out", "one.uncover"))  # fmt: skip
    done(run("map", "one.uncover", twin.series[2], "--out", "one"))
    truth = read(twin.truth(2020))[0]
    several, single = (read(tmp_path / name / "class.tif")[0] for name in ("map", "one"))
    here = (several > 0) & (single > 0) & np.isin(truth, (1, 2, 3))
    assert here.mean() > 0.5
    right, alone = ((each == truth)[here].mean() for each in (several, single))
    assert right > alone


def test_worlds_of_products_are_drawn_for_each_date(run, twin, tmp_path):
    labels = ["--labels", twin.truth(2020), "--ignore", "0,5", "--fraction", "0.2", *PUBLISHED]
    aod = ["--aod", "0.12", "--draws", "3"]
    done(
        run(
            "fit",
            *twin.series[:2],
            "--as",
            "features",
            *aod,
            "--realisations",
            "shared",
            *labels,
            "--out",
            "m.uncover",
        )
    )
    done(run("map", "m.uncover", *twin.series[:2], *aod, "--out", "map"))
    record = json.loads((tmp_path / "map" / "item.json").read_text())["properties"]
    assert record["uncover:paired"] is True and record["uncover:worlds"] == 3
    worlds = record["uncover:measurement_uncertainty"]["dates"]
    one, other = (each["worlds"] for each in worlds.values())
    assert sorted(one) == sorted(other) and len(one) == 3


# ---- bad input -----------------------------------------------------------------------------------


def fit_words(place, *scenes, out="x.uncover", more=()):
    return ["fit", *scenes, "--as", "features", *PUBLISHED, *place.label_options, *more, "--out", out]


def test_bad_input_of_fits_is_one_line(refused, place, tmp_path):
    a, b, *_ = place.scenes
    same_day = shutil.copy(a, tmp_path / f"other-{DATES[0]}.tif")
    assert f"both of {DATES[0]}" in refused(*fit_words(place, a, b, same_day))
    assert f"both of {DATES[0]}" in refused(*fit_words(place, a, a))
    assert "is one date" in refused(*fit_words(place, a))
    copy = shutil.copy(a, tmp_path / "scene-2024-12-24.tif")
    assert "is given twice" in refused(*fit_words(place, a, copy))
    season = refused(*fit_words(place, a, b, more=["--dates", "season"]))
    assert "both of MAM" in season and "shorter spans" in season
    assert "--dates has 2024-03, 2024-07" in refused(
        *fit_words(place, a, b, more=["--dates", "2024-03,2024-07"])
    )
    assert "'June' is no date" in refused(*fit_words(place, a, b, more=["--dates", "June"]))
    assert "needs the band nir" in refused(*fit_words(place, a, b, more=["--features", "nir/B04"]))
    assert "divides by 0" in refused(*fit_words(place, a, b, more=["--features", "B04/0"]))
    for features, complaint in (
        ("", "--features names no feature"),
        ("NBR,NDMI", "the feature NDMI needs the band B11: "),
        ("B08**B04", "has an exponent that is no number; write one, as in B08**2"),
    ):
        assert complaint in refused(*fit_words(place, a, b, more=["--features", features]))
    assert "is no formula" in refused(*fit_words(place, a, b, more=["--features", "open('x')"]))
    assert "--date 2024" in refused(*fit_words(place, a, b, more=["--date", "2024"]))
    assert "--dates came without --as features" in refused(
        "fit", a, *PUBLISHED, *place.label_options, "--dates", "season", "--out", "x.uncover"
    )
    (tmp_path / "t.csv").write_text("B03,class\n0.1,a\n")
    assert "t.csv is no scene" in refused(*fit_words(place, a, tmp_path / "t.csv"))


def test_scenes_that_do_not_go_together_are_one_line(refused, place, tmp_path):
    a, b, *_ = place.scenes
    planes = read(a)
    fewer = write_scene(tmp_path / "fewer-2024-06-01.tif", planes[:3], place.grid, BANDS[:3])
    assert "fewer-2024-06-01.tif has no band B12" in refused(*fit_words(place, a, b, fewer))
    away = grid(70, 130, "EPSG:32633").crop(grid(70, 130).window)
    away = type(away)(away.crs, (10.0, 0.0, 900000.0, 0.0, -10.0, 1000000.0), 130, 70)
    far = write_scene(tmp_path / "far-2024-06-01.tif", planes, away, BANDS)
    assert "far-2024-06-01.tif does not overlap" in refused(*fit_words(place, a, b, far))
    other = write_scene(tmp_path / "mask.tif", np.zeros((1, 70, 130), np.uint8), away, None)
    assert "does not overlap the scene" in refused(*fit_words(place, a, b, more=["--mask", other]))
    assert "mask-" in refused(*fit_words(place, a, b, more=["--mask", tmp_path / "mask-{date}-x.tif"]))
    noise = tmp_path / "noise.csv"
    noise.write_text("band,u\nB03,0.1\n")
    words = ["--uncertainty", noise, "--between-pixels", "random"]
    assert "has no band" in refused(*fit_words(place, a, b, more=words))


def test_maps_of_other_dates_are_one_line(run, refused, place, tmp_path):
    fit_and_map(run, place)
    planes = read(place.scenes[0])
    later = write_scene(tmp_path / "later-2025-03-10.tif", planes, place.grid, BANDS)
    wrong = refused("map", "m.uncover", later, *place.scenes[1:], "--out", "x")
    assert "later-2025-03-10.tif is of 2025-03-10, and the model was trained on 2024-03-10" in wrong
    same = shutil.copy(place.scenes[0], tmp_path / f"again-{DATES[0]}.tif")
    assert f"both of {DATES[0]}" in refused("map", "m.uncover", same, *place.scenes, "--out", "x")
    assert "--dates names 2 dates" in refused(
        "map", "m.uncover", *place.scenes, "--dates", "2024-03,2024-05", "--out", "x"
    )
    done(run("fit", place.scenes[0], *PUBLISHED, *place.label_options, "--out", "one.uncover"))
    assert "show one place" in done(run("map", "one.uncover", *place.scenes[:2], "--out", "best")).stderr
    assert "trained on one date" in refused(
        "map", "one.uncover", place.scenes[0], "--dates", "06", "--out", "x"
    )
    fewer = write_scene(tmp_path / f"fewer-{DATES[1]}.tif", planes[:3], place.grid, BANDS[:3])
    assert "has no band B12" in refused("map", "m.uncover", place.scenes[0], fewer, "--out", "x")
    assert "--mask-buffer is -5" in refused(
        "map", "m.uncover", *place.scenes, "--mask-buffer", "-5", "--out", "x"
    )


def test_no_clear_pixel_at_all_is_said(run, place, tmp_path):
    fit_and_map(run, place)
    everything = write_scene(
        tmp_path / "all.tif", np.ones((1, *place.truth.shape), np.uint8), place.grid, None
    )
    result = done(run("map", "m.uncover", *place.scenes, "--mask", everything, "--out", "empty"))
    assert "no pixel" in result.stderr
    assert not read(tmp_path / "empty" / "class.tif").any()


def test_training_pixels_may_lack_dates_and_are_counted(place):
    options = FitOptions(
        model="published", labels=str(place.labels), as_features=True,
        scene=SceneOptions(mask=place.mask, mask_values=mask_values("scl")),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record = fit_model(place.scenes, options).provenance["sources"][0]
    labelled = read(place.labels)[0] > 0
    clear = (~np.array(place.clouds)).sum(axis=0)
    assert record["not used"] == {"no clear date": int((labelled & (clear == 0)).sum())}
    assert sum(record["used"].values()) == int((labelled & (clear > 0)).sum())
    assert [each["date"] for each in record["dates"]] == list(DATES)


def test_options_that_no_source_takes_are_one_line(refused, place, tmp_path):
    scene = place.scenes[0]
    wanted = ["--labels", place.labels, "--out", "x.uncover", *PUBLISHED]
    assert "no probabilities of cloud" in refused("fit", scene, *wanted, "--cloud-probability", "40")
    assert "--mask-buffer is -1" in refused("fit", scene, *wanted, "--mask-buffer", "-1")
    (tmp_path / "t.csv").write_text("B03,class\n0.1,a\n0.2,a\n0.5,b\n0.6,b\n")
    assert "--features computes features of scenes" in refused(
        "fit", "t.csv", "--features", "B03**2", *PUBLISHED, "--out", "x.uncover"
    )


def test_probabilities_of_cloud_of_a_real_product():
    source = next(shared("safe_l2a_real").glob("*.SAFE"))
    options = SceneOptions(bands=("B02", "B04"))
    plain = open_scene(source, options)
    (probable,) = source.glob("GRANULE/*/QI_DATA/MSK_CLDPRB_60m.jp2")
    window = plain.grid.middle(200)
    before = plain.read(window).quality & Quality.CLOUD > 0
    after = (
        open_scene(source, replace(options, cloud_probability=20)).read(window).quality & Quality.CLOUD > 0
    )
    with rasterio.open(probable) as file:
        share = file.read(1)
    rows, cols = (np.arange(200)[:, None] + window.row, np.arange(200)[None] + window.col)
    factor = plain.grid.resolution[0] / 60
    at = [((index + 0.5) * factor).astype(int) for index in (rows, cols)]
    np.testing.assert_array_equal(after, before | (share[at[0], at[1]] >= 20))


def test_a_report_shows_several_dates(run, place):
    fit_and_map(run, place)
    done(run("report", "map", "--labels", place.labels, "--out", "report.html"))
    page = Path("report.html").read_text("utf-8")
    assert "4 dates 2024-03-10/2024-10-05" in page
    assert "cannot be opened again" not in page and "is not where it was" not in page


# ---- masks of one scene ------------------------------------------------------------------------------------


def test_one_scene_takes_the_mask_of_its_day(place):
    how = {"mask": place.mask, "mask_values": mask_values("scl")}
    scene = open_scene(place.scenes[1], SceneOptions(date=place.days[1], **how))
    quality = scene.read(scene.grid.window).quality
    np.testing.assert_array_equal((quality & Quality.CLOUD) > 0, place.clouds[1])
    named = open_scene(place.scenes[1], SceneOptions(**how))  # by the day in the name of the file
    np.testing.assert_array_equal(named.read(scene.grid.window).quality, quality)
    undated = Path(place.scenes[1]).rename(place.folder / "scene.tif")
    with pytest.raises(ValueError, match="states none; --date does"):
        open_scene(undated, SceneOptions(**how))


def test_a_buffer_without_a_mask_is_said_and_hides_nothing(place):
    with pytest.warns(UserWarning, match="no mask that --mask-buffer could widen"):
        scene = open_scene(place.scenes[0], SceneOptions(mask_buffer=50.0))
    assert scene.masks == ()
