"""What a report says is what the files say: classes, areas, stories, labels, and what is missing."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import rasterio
from scipy.stats import norm

from map_cases import BANDS, CLASSES, fitted
from report_cases import HEIGHT, WIDTH, WORLDS
from uncover import load_model, pipeline
from uncover.pipeline.contents import Contents
from uncover.pipeline.map_product import MapProduct, block_means, crossing
from uncover.pipeline.scene_sources import SourceOptions, source_options, source_record
from uncover.raster import Quality, SceneOptions, UncertaintyOptions, pixel_areas
from uncover.report.detection import LEVELS, Detection
from uncover.report.figures import bhattacharyya
from uncover.report.summary import summarise
from uncover.report.viewer import stories_data


@pytest.fixture(scope="module")
def summary(case):
    return summarise(Contents.of(case.folder))


def layer(case, name):
    with rasterio.open(case.folder / "map" / f"{name}.tif") as file:
        return file.read()


def test_stories_are_pixels_of_the_map(case, summary):
    stories = summary.stories
    at = np.ix_(stories.rows, stories.cols)
    np.testing.assert_array_equal(stories.classes, layer(case, "class")[0][at])  # codes are 1 to K here
    np.testing.assert_allclose(stories.probability, layer(case, "probability")[:, *at] * 1e-4, atol=1e-7)
    np.testing.assert_allclose(stories.uncertainty, layer(case, "uncertainty")[:, *at] * 1e-4, atol=1e-7)
    np.testing.assert_array_equal(stories.quality, layer(case, "quality")[0][at])
    values = case.values[:, :, *at]  # (world, band, row, col)
    np.testing.assert_array_equal(stories.spectra.realisations, np.moveaxis(values, (0, 1), (2, 3)))


def test_worlds_of_a_story_are_what_the_model_says_of_each_world(case, summary):
    """The share of worlds that decide otherwise is the one that sets the flag of the map."""
    worlds, classes = summary.stories.spectra.worlds, summary.stories.classes
    assert worlds.shape == (*classes.shape, WORLDS)
    disagreement = (worlds != classes[..., None]).mean(axis=2)
    flagged = summary.stories.quality & np.uint16(Quality.DISAGREE) > 0
    np.testing.assert_array_equal(flagged, disagreement > 0.1)
    assert flagged.any() and not flagged.all()


def test_packed_stories_give_back_the_realisations(summary):
    from base64 import b64decode

    data, spectra = stories_data(summary.stories), summary.stories.spectra
    mean = np.frombuffer(b64decode(data["mean"]["bytes"]), "<f4").reshape(data["mean"]["shape"])
    away = np.frombuffer(b64decode(data["away"]["bytes"]), "i1").reshape(data["away"]["shape"])
    found = mean[:, :, None, :] + away * np.array(data["unit"])
    assert np.abs(found - spectra.realisations).max() <= max(data["unit"]) / 2 + 1e-7


def test_pictures_are_the_layers(case, summary):
    assert summary.pictures.step == 1
    np.testing.assert_array_equal(summary.pictures.classes, layer(case, "class")[0])
    np.testing.assert_allclose(
        summary.pictures.layers["total"], layer(case, "uncertainty")[0] * 1e-4, atol=1e-7
    )
    assert summary.pictures.colours.shape == (HEIGHT, WIDTH, 3)
    assert summary.pictures.colour_bands == ("B04", "B03", "B02")


def test_block_means_leave_out_what_is_missing():
    values = np.arange(15, dtype=np.float32).reshape(1, 3, 5)
    values[0, 0, 0] = np.nan
    found = block_means(values, 2)
    np.testing.assert_allclose(found[0], [[(1 + 5 + 6) / 3, 5, 6.5], [10.5, 12.5, 14]])


def test_labels_are_counted_and_shown(case, summary):
    with rasterio.open(case.folder / "labels.tif") as file:
        codes = file.read(1)
    assert summary.label_counts == {name: int((codes == i).sum()) for i, name in enumerate(CLASSES, start=1)}
    np.testing.assert_array_equal(summary.pictures.labels, codes)


def test_labelled_sample_holds_values_of_labelled_pixels(case, summary):
    with rasterio.open(case.folder / "labels.tif") as file:
        codes = file.read(1)
    for k in (1, 2, 3):
        own = case.values[:, :, codes == k].mean(axis=0).T
        mine = summary.sample.values[summary.sample.classes == k]
        assert len(mine) == (codes[summary.stories.rows] == k).sum()
        assert all(np.abs(own - value).sum(axis=1).min() < 1e-6 for value in mine[:20])


def test_model_parameters_are_the_models(case, summary):
    model = load_model(case.folder / "model.uncover")
    np.testing.assert_allclose(summary.model.mean, model.means_)
    np.testing.assert_allclose(summary.model.deviation**2, [np.diag(c) for c in model.covariances_])
    assert summary.model.bands == BANDS


def test_true_areas_count_the_truth(case, summary):
    hectares = pixel_areas(summary.grid) / 1e4
    for k, name in enumerate(CLASSES, start=1):
        assert summary.true_areas[name] == pytest.approx(hectares[case.truth == k].sum())


def test_detection_counts_flags_by_true_class(case, summary):
    flagged = layer(case, "quality")[0] & np.uint16(Quality.OUTSIDE_DOMAIN) > 0
    snow = case.truth == 4
    found = summary.detection
    assert (found.unknown.pixels, found.unknown.flagged) == (snow.sum(), flagged[snow].sum())
    assert (found.known.pixels, found.known.flagged) == ((~snow).sum(), flagged[~snow].sum())
    assert found.unknown.share == 1.0 and found.known.share < 0.05
    assert found.by_class[0].name == "snow"


def test_detection_curve_is_the_share_below_each_level(rng):
    typicality, truth = rng.random(1000), rng.integers(1, 3, 1000)
    found = Detection.of(typicality, typicality < 0.1, truth, {1: "a", 2: "b"}, {1}, 0.1)
    for i in (5, 20, 40):
        assert found.true_positive[i] == (typicality[truth == 2] < LEVELS[i]).mean()
        assert found.false_positive[i] == (typicality[truth == 1] < LEVELS[i]).mean()
    assert Detection.of(typicality, typicality < 0.1, truth, {1: "a", 2: "b"}, {1, 2}, 0.1) is None


def test_likeness_of_classes_is_the_integral_of_the_root_of_both_densities():
    mean, sigma = np.array([[0.0], [1.5]]), np.array([1.0, 2.0])
    x = np.linspace(-20, 20, 200_001)
    f, g = (norm(m, s).pdf(x) for m, s in zip(mean[:, 0], sigma, strict=True))
    expected = np.trapezoid(np.sqrt(f * g), x)
    found = bhattacharyya(mean, (sigma**2).reshape(2, 1, 1))
    assert found[0, 1] == pytest.approx(expected, rel=1e-6)


def test_likeness_leaves_out_bands_in_which_nothing_varies(rng):
    """The alpha band of a picture, and a band that is the sum of two others, tell nothing of classes."""
    mean, root = rng.normal(size=(3, 2)), rng.normal(size=(3, 2, 4))
    covariance = root @ root.swapaxes(1, 2)
    more = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [1e3, 1e3]])
    found = bhattacharyya(mean @ more.T, more @ covariance @ more.T)
    np.testing.assert_allclose(found, bhattacharyya(mean, covariance), rtol=1e-6)


@pytest.mark.parametrize("kind", ["zarr", "netcdf"])
def test_datasets_give_the_same_summary(case, summary, tmp_path, kind):
    options = pipeline.MapOptions(threads=1, format=kind, paired=True)
    pipeline.map_scene(case.folder / "model.uncover", case.folder / "cube.zarr", tmp_path / "map", options)
    other = summarise(Contents.of(tmp_path / "map"))
    assert other.classes == summary.classes
    np.testing.assert_array_equal(other.pictures.classes, summary.pictures.classes)
    for name, plane in summary.pictures.layers.items():
        np.testing.assert_allclose(other.pictures.layers[name], plane, atol=1e-6)
    np.testing.assert_array_equal(other.stories.quality, summary.stories.quality)
    np.testing.assert_allclose(other.stories.probability, summary.stories.probability, atol=1e-6)
    assert other.grid.shape == summary.grid.shape
    np.testing.assert_allclose(other.grid.transform, summary.grid.transform)


@pytest.fixture
def moved(case, tmp_path):
    """The product alone, without the scene that it was made of."""
    shutil.copytree(case.folder / "map", tmp_path / "map")
    run = json.loads((tmp_path / "map" / "run.json").read_text())
    run |= {"scene": "gone.zarr", "folder": str(tmp_path)}
    (tmp_path / "map" / "run.json").write_text(json.dumps(run))
    return tmp_path / "map"


def test_without_its_scene_a_map_is_reported_and_that_is_said(moved, summary):
    found = summarise(Contents.of(moved))
    assert found.stories.spectra is None and found.pictures.colours is None and found.sample is None
    np.testing.assert_array_equal(found.pictures.classes, summary.pictures.classes)
    assert "gone.zarr is not where it was" in found.missing["scene"][0]
    assert set(found.missing) == {"scene", "labels", "evaluation", "truth"}


def test_a_scene_that_was_moved_with_its_folder_is_found(moved, case):
    run = json.loads((moved / "run.json").read_text())
    (moved / "run.json").write_text(json.dumps(run | {"scene": "elsewhere/cube.zarr"}))
    shutil.copytree(case.folder / "cube.zarr", moved / "cube.zarr")
    assert summarise(Contents.of(moved)).stories.spectra is not None


def test_another_scene_in_its_place_is_not_taken_for_it(moved, case):
    item = json.loads((moved / "item.json").read_text())
    item["properties"]["uncover:scene"] = "another"
    (moved / "item.json").write_text(json.dumps(item))
    run = json.loads((moved / "run.json").read_text()) | {"scene": str(case.folder / "cube.zarr")}
    (moved / "run.json").write_text(json.dumps(run))
    assert "is not the scene that was mapped" in summarise(Contents.of(moved)).missing["scene"][0]


def test_large_scenes_are_thinned(case):
    product = MapProduct.open(case.folder / "map")
    codes = layer(case, "class")[0]
    thin = product.thinned("class", 4)
    assert thin.shape == (18, 24)
    blocks = codes.reshape(18, 4, 24, 4).transpose(0, 2, 1, 3).reshape(18, 24, 16)
    assert (blocks == thin[..., None]).any(axis=2).all()
    total = product.thinned("total", 4)
    means = layer(case, "uncertainty")[0].reshape(18, 4, 24, 4).mean(axis=(1, 3)) * 1e-4
    np.testing.assert_allclose(total, means, atol=2e-4)


def test_lattices_stay_within_their_number():
    for shape in ((2000, 2000), (10, 4000), (3, 3)):
        rows, cols = crossing(shape, 4096)
        assert len(rows) * len(cols) <= 4096
        assert rows[-1] < shape[0] and cols[-1] < shape[1]


def test_options_of_a_source_survive_their_record():
    options = SourceOptions(
        scene=SceneOptions(
            bands=("B02", "B03"), scale=1e-4, bbox=(1, 2, 3, 4), mask_values={1: Quality.CLOUD}
        ),
        realise=pipeline.RealiseOptions(aod=0.12, draws=7, seed=3, angles=(40.0, 5.0, 120.0)),
        uncertainty_options=UncertaintyOptions(between_pixels="random", exclude_flags=("a",)),
    )
    assert source_options(json.loads(json.dumps(source_record(options)))) == options
    assert source_options(source_record(replace(options, realise=None))).realise is None


@pytest.mark.filterwarnings("ignore:the model was fitted without --uncertainty")
def test_known_noise_of_a_pixel_is_in_its_story(tmp_path):
    from map_cases import reflectance, save_model, write_scene

    scene = write_scene(tmp_path / "scene.tif", reflectance(40, 50))
    noise = "".join(f"{band},{0.001 * i}\n" for i, band in enumerate(BANDS, start=1))
    (tmp_path / "noise.csv").write_text(f"band,standard_uncertainty\n{noise}")
    model = save_model(tmp_path / "m.uncover", fitted())
    source = SourceOptions(
        uncertainty=tmp_path / "noise.csv",
        uncertainty_options=UncertaintyOptions(between_pixels="random", units="1"),
    )
    pipeline.map_scene(model, scene, tmp_path / "map", pipeline.MapOptions(source=source, threads=1))
    spectra = summarise(Contents.of(tmp_path / "map")).stories.spectra
    assert spectra.worlds is None
    np.testing.assert_allclose(spectra.deviation[3, 4], [0.001, 0.002, 0.003, 0.004], rtol=1e-5)
