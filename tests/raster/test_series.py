"""Scenes of several dates as one: gaps, grids, worlds and noise, each against the single scenes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from map_cases import grid
from series_cases import BANDS, DATES, Place, clouds, values
from uncover.bayes.covariances import Covariances
from uncover.measurement.formulas import Formula
from uncover.pipeline import RealiseOptions, SceneOptions, SourceOptions, UncertaintyOptions, realise_scene
from uncover.pipeline.scene_sources import observe
from uncover.raster import Grid, SceneError, Window, open_scene, scene_from_array
from uncover.raster.layers import BufferedMask, PlaneBits
from uncover.raster.observed import PlainScene
from uncover.raster.quality import FLAGGED, Quality
from uncover.raster.series import RealisedSeries, SceneSeries, aligned
from uncover.raster.tiles import ArrayPlanes, TileCache

SHAPE = (40, 60)


def one(date, cloudy=None, **options):
    """A scene in memory, with clouds in its quality and a saturated and an empty corner."""
    planes = values(date, np.zeros(SHAPE, int) + date % 4)
    quality = np.zeros(SHAPE, np.uint16)
    quality[clouds(date, SHAPE) if cloudy is None else cloudy] = Quality.CLOUD
    planes[:, 0, 0] = np.nan
    planes[1, 5, date] = np.nan  # one band is missing
    return scene_from_array(planes, grid(*SHAPE), BANDS, quality=quality, identity=DATES[date], **options)


def series(formulas=BANDS, count=3, **options):
    scenes = tuple(one(date) for date in range(count))
    return SceneSeries(scenes, DATES[:count], tuple(Formula(each) for each in formulas), **options)


@pytest.mark.parametrize("whole", [True, False])
def test_features_are_those_of_the_dates_and_missing_where_a_date_is_clouded(whole):
    found = series(whole=whole).read()
    assert found.bands == tuple(f"{when}:{band}" for when in DATES[:3] for band in BANDS)
    clear = np.zeros(SHAPE, int)
    lacking = np.zeros(SHAPE, bool)
    for i in range(3):
        block = one(i).read()
        gap = block.quality & (Quality.NODATA | Quality.CLOUD) > 0
        if whole:
            gap |= ~np.isfinite(block.reflectance).all(axis=0)
        expected = np.where(gap, np.nan, block.reflectance)
        np.testing.assert_array_equal(found.reflectance[4 * i : 4 * i + 4], expected)
        clear += np.isfinite(expected).any(axis=0)
        lacking |= ~np.isfinite(expected).all(axis=0)
    nowhere = np.zeros(SHAPE, bool)
    nowhere[0, 0] = True
    assert (found.quality[nowhere] == Quality.NODATA).all()
    hidden = (clear == 0) & ~nowhere
    assert hidden.any()
    assert (found.quality[hidden] & Quality.NO_CLEAR_DATE > 0).all()
    assert (found.quality[hidden] & Quality.CLOUD > 0).any()
    assert (found.quality[(clear > 0) & lacking] == Quality.PARTIAL).all()
    assert (found.quality[(clear > 0) & ~lacking] == 0).all()


def test_masked_classes_decide_what_is_a_gap():
    everything = series(masked=Quality(0)).read()
    assert not (everything.quality & Quality.NO_CLEAR_DATE).any()
    assert (everything.quality & Quality.CLOUD > 0).any()  # said, and not left out


def test_a_pixel_does_not_depend_on_the_window():
    for case in (series(), series(("B04", "NDVI")), series(whole=False)):
        whole = case.read()
        window = Window(11, 7, 13, 29)
        part = case.read(window)
        np.testing.assert_array_equal(part.reflectance, whole.reflectance[:, *window.slices])
        np.testing.assert_array_equal(part.quality, whole.quality[window.slices])
        np.testing.assert_array_equal(case.crop(window).read().reflectance, part.reflectance)


def test_a_date_without_a_scene_is_missing_everywhere():
    given = series(count=2)
    lacking = SceneSeries((*given.parts, None), DATES[:3], given.formulas)
    found = lacking.read()
    np.testing.assert_array_equal(found.reflectance[:8], given.read().reflectance)
    assert np.isnan(found.reflectance[8:]).all()
    assert not (found.quality == 0).any()


def test_computed_features_of_one_scene_keep_its_quality():
    scene = one(0)
    found = SceneSeries((scene,), ("",), (Formula("B08"), Formula("NDVI"))).read()
    block = scene.read()
    nir, red = block.reflectance[2].astype(float), block.reflectance[1].astype(float)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(found.reflectance[1], (nir - red) / (nir + red), rtol=1e-6)
    assert found.bands == ("B08", "NDVI")
    assert (found.quality & FLAGGED == block.quality & FLAGGED).all()
    assert found.quality[5, 0] & Quality.PARTIAL


def test_scenes_of_other_grids_are_brought_onto_the_finest():
    fine = one(0)
    coarse_grid = Grid("EPSG:32633", (20.0, 0, 299900.0, 0, -20.0, 5000000.0), 30, 20)
    planes = np.arange(4 * 20 * 30, dtype=np.float32).reshape(4, 20, 30)
    coarse = scene_from_array(planes, coarse_grid, BANDS, identity="coarse")
    first, second = aligned([("fine", fine), ("coarse", coarse)], TileCache())
    assert first.grid == second.grid == fine.grid
    found = second.read().reflectance
    # Ten pixels of 10 m to the east of the coarse grid's corner, which ends after 50 of them.
    np.testing.assert_array_equal(found[:, :, :50], planes.repeat(2, 1).repeat(2, 2)[:, :, 10:])
    assert np.isnan(found[:, :, 50:]).all()
    far = scene_from_array(
        planes, Grid("EPSG:32633", (20.0, 0, 0, 0, -20.0, 0), 30, 20), BANDS, identity="far"
    )
    with pytest.raises(SceneError, match="far does not overlap"):
        aligned([("fine", fine), ("far", far)], TileCache())
    zone = Grid("EPSG:32632", (20.0, 0, 771900.0, 0, -20.0, 5002800.0), 30, 30)
    other = scene_from_array(np.zeros((4, 30, 30), np.float32), zone, BANDS, identity="other")
    with pytest.raises(SceneError, match="another grid"):
        aligned([("fine", fine), ("other", other)], TileCache())


# ---- masks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("crs, size", [("EPSG:32633", (10, 10)), (None, (20, 10)), ("EPSG:4326", None)])
def test_masks_grow_by_metres_whatever_the_window(crs, size):
    rng = np.random.default_rng(0)
    transform = (10.0, 0, 300000.0, 0, -10.0, 5000000.0)
    if crs is None:
        transform = (10.0, 0, 0, 0, -20.0, 0)
    if crs == "EPSG:4326":
        transform, size = (1e-4, 0, 10.0, 0, -1e-4, 60.0), (11.14, 5.58)  # at 60° north
    place = Grid(crs, transform, 50, 40)
    bits = np.where(rng.random((40, 50)) < 0.01, Quality.CLOUD, 0).astype(np.uint16)
    bits[20, 25] |= np.uint16(Quality.SHADOW | Quality.MASKED)
    mask = BufferedMask((PlaneBits(ArrayPlanes(bits[None], place)),), 35.0)
    found = mask.flags(place, place.window, TileCache())
    row, col = np.indices(place.shape)
    for bit in (Quality.CLOUD, Quality.SHADOW, Quality.MASKED):
        at = np.argwhere(bits & np.uint16(bit))
        near = np.zeros(place.shape, bool)
        for r, c in at:
            near |= np.hypot((row - r) * size[0], (col - c) * size[1]) <= (
                35.0 if bit != Quality.MASKED else 0
            )
        np.testing.assert_array_equal(found & np.uint16(bit) > 0, near)
    window = Window(7, 13, 20, 21)
    np.testing.assert_array_equal(mask.flags(place, window, TileCache()), found[window.slices])


# ---- worlds --------------------------------------------------------------------------------------


def worlds_of(level, formulas=BANDS, draws=4):
    bands = ("B03", "B04", "B08", "B12")
    planes = [np.clip(values(i, np.full(SHAPE, i)), 0.02, 0.6) for i in range(2)]
    scenes = []
    for i, each in enumerate(planes):
        where = clouds(i, SHAPE).astype(np.uint16) * np.uint16(Quality.CLOUD)
        scene = scene_from_array(each, grid(*SHAPE), bands, quality=where, identity=f"GS2A_2024060{i}")
        scenes.append(replace(scene, level=level, date=f"2024-0{6 + 2 * i}"))
    options = RealiseOptions(aod=0.15, draws=draws, angles=(40.0, 5.0, 100.0))
    given = SceneSeries(tuple(scenes), ("2024-06", "2024-08"), tuple(map(Formula, formulas)))
    return given, options, RealisedSeries.of(given, lambda scene: realise_scene(scene, options))


@pytest.mark.filterwarnings("ignore:scene .* does not say at which optical depth")
@pytest.mark.parametrize("level", ["L1C", "L2A"])
def test_worlds_of_each_date_are_those_of_its_scene_alone_and_go_through_formulas(level):
    given, options, found = worlds_of(level, ("B08", "NDVI"))
    block = found.read()
    assert block.values.shape == (4, 4, *SHAPE)
    for i, scene in enumerate(given.parts):
        alone = realise_scene(scene, options).read()
        clear = alone.quality == 0
        nir, red = (alone.values[:, 2].astype(float), alone.values[:, 1].astype(float))
        np.testing.assert_array_equal(block.values[:, 2 * i][:, clear], alone.values[:, 2][:, clear])
        np.testing.assert_allclose(
            block.values[:, 2 * i + 1][:, clear], ((nir - red) / (nir + red))[:, clear], rtol=1e-5
        )
        assert np.isnan(block.values[:, 2 * i : 2 * i + 2][:, :, ~clear]).all()
    first, second = found.worlds.values()
    assert sorted(first) == sorted(second) and first != second  # the same distribution, drawn apart


def test_draws_of_two_dates_are_independent():
    _, _, found = worlds_of("L1C", draws=400)
    first, second = (np.array(each) for each in found.worlds.values())
    assert abs(np.corrcoef(first, second)[0, 1]) < 3 / np.sqrt(400)


def test_worlds_made_as_pixels_are_classified_are_those_that_train():
    given, options, found = worlds_of("L1C")
    observed = observe(given, SourceOptions(realise=options))
    assert observed.source.direct
    reading, stored = observed.read(given.grid.window), found.read()
    np.testing.assert_array_equal(reading.quality, stored.quality)
    for part in reading.parts(np.flatnonzero(reading.quality.ravel() & Quality.NO_CLEAR_DATE == 0)):
        made = reading.pixels(part).realised()
        expected = stored.values.reshape(*stored.values.shape[:2], -1)[..., part]
        np.testing.assert_allclose(made, expected, rtol=2e-5, atol=1e-6)


# ---- noise ---------------------------------------------------------------------------------------


def write_effects(folder, rows, name="noise.csv"):
    (folder / name).write_text("band,u\n" + "".join(f"{band},{u}\n" for band, u in rows.items()))
    return folder / name


def noisy(folder, formulas, kind, scenes=None, **how):
    path = write_effects(folder, {"B03": 0.01, "B04": 0.02, "B08": 0.03, "B12": 0.01})
    options = UncertaintyOptions(between_pixels=kind, **how)
    given = series(formulas, 2)
    return given, observe(given, SourceOptions(uncertainty=path, uncertainty_options=options))


def test_random_errors_are_independent_between_dates_and_go_through_derivatives(tmp_path):
    given, observed = noisy(tmp_path, ("B08", "NDVI"), "random")
    reading = observed.read(given.grid.window)
    whole = reading.complete[:50]
    found = reading.pixels(whole).noise
    assert isinstance(found, Covariances)
    matrices = found.matrices()
    assert matrices.shape == (50, 4, 4)
    assert not matrices[:, :2, 2:].any()
    rng = np.random.default_rng(0)
    for i, scene in enumerate(given.parts):
        red, nir = (scene.read().reflectance[b].ravel()[whole].astype(float) for b in (1, 2))
        for pixel in (0, 17, 49):
            r, n = (x + 1e-3 * u * rng.normal(size=400_000) for x, u in ((red[pixel], 20), (nir[pixel], 30)))
            small = 0.05  # of the error: what is not linear is small then
            r, n = red[pixel] + small * (r - red[pixel]), nir[pixel] + small * (n - nir[pixel])
            simulated = np.cov([n, (n - r) / (n + r)]) / small**2
            np.testing.assert_allclose(
                matrices[pixel, 2 * i : 2 * i + 2, 2 * i : 2 * i + 2], simulated, rtol=0.03
            )


def test_a_date_that_is_missing_needs_no_uncertainty(tmp_path):
    given, observed = noisy(tmp_path, BANDS, "random")
    reading = observed.read(given.grid.window)
    partial = np.flatnonzero(reading.quality.ravel() == Quality.PARTIAL)
    pixels = reading.pixels(partial)
    assert pixels.known.all() and np.isfinite(pixels.noise.matrices()).all()


def test_systematic_errors_are_those_of_each_date_and_common_ones_tie_dates(tmp_path):
    _, own = noisy(tmp_path, BANDS, "systematic")
    expected = np.diag(np.array([0.01, 0.02, 0.03, 0.01] * 2) ** 2)
    np.testing.assert_allclose(own.systematic, expected)
    _, tied = noisy(tmp_path, BANDS, "systematic", between_scenes="common", effect_name="gain")
    (common,) = tied.uncertainty.common.values()
    np.testing.assert_allclose(np.diag(common), np.diag(expected))
    np.testing.assert_allclose(np.diag(common, 4), np.array([0.01, 0.02, 0.03, 0.01]) ** 2)  # the same error
    assert common[0, 5] == 0  # bands are independent in it
    np.testing.assert_allclose(tied.with_common({}).systematic, common)


def test_a_map_refuses_what_a_series_lacks(tmp_path):
    place = Place(tmp_path)
    undated = Path(place.scenes[0]).rename(tmp_path / "scene.tif")
    with pytest.raises(SceneError, match=r"names files by the day.*states none; --date does"):
        open_scene(undated, SceneOptions(mask=place.mask))
    assert PlainScene(series()).dates == DATES[:3]
