"""Maps through an uncertain atmosphere: worlds made on the fly are those of the correction itself."""

import warnings

import numpy as np
import pytest
import rasterio
from scipy import stats

from uncover import BayesianQDA
from uncover.pipeline import RealiseOptions, SourceOptions, write_realisations
from uncover.pipeline.scene_sources import open_observed
from uncover.raster import SceneError, SceneOptions, Serial, StoredWorlds, Threads, classify
from uncover.raster.classification import make_mapper
from uncover.raster.observed import probe

TEN = ("B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B11", "B12")


def trained(pixels, realisations="pooled", worlds=None):
    rng = np.random.default_rng(0)
    y = np.arange(400) % 3
    typical = np.median(pixels, axis=0)
    X = typical * (0.7 + 0.3 * y[:, None]) + rng.normal(0, 0.02, (400, 10))
    if worlds:
        X = X[:, None, :] + rng.normal(0, 0.005, (1, worlds, 10))
    model = BayesianQDA(realisations=realisations).fit(X, np.array(["a", "b", "c"])[y])
    model.feature_names_in_ = np.array(TEN, dtype=object)
    return model


@pytest.fixture(params=["L1C_03.01", "L2A_02.12"])
def product(request, made_products):
    return made_products(request.param).path


def observed_of(product, options, model=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return open_observed(product, model or trained(np.full((1, 10), 0.1)), SourceOptions(realise=options))


def worlds_of(reading, where):
    """All realisations of some pixels: (realisation, band, pixel)."""
    out = None
    for part in reading.parts(where):
        made = reading.pixels(part).realised()
        out = np.full((*made.shape[:2], len(where)), np.nan) if out is None else out
        out[..., np.searchsorted(where, part)] = made
    return out


@pytest.mark.filterwarnings("ignore::uncover.raster.MaskWarning")
@pytest.mark.filterwarnings("ignore:scene .* does not say at which optical depth")
def test_worlds_are_those_of_the_cube(product, tmp_path):
    options = RealiseOptions(aod=0.15, draws=4, seed=3)
    observed = observed_of(product, options)
    cube = write_realisations(product, tmp_path / "cube.zarr", options, SceneOptions(bands=TEN))
    stored = StoredWorlds(cube)
    window = observed.grid.window
    here, there = observed.read(window), stored.read(window)
    where = np.flatnonzero(here.present().all(axis=0).ravel())
    np.testing.assert_array_equal(here.quality, there.quality)
    worlds = worlds_of(here, where)
    np.testing.assert_allclose(worlds, worlds_of(there, where), rtol=3e-7, atol=1e-7)
    assert worlds.shape == (4, 10, len(where))


@pytest.mark.parametrize("kind", ["pooled", "shared"])
def test_the_map_is_the_average_over_worlds(product, kind):
    options = RealiseOptions(aod=0.15, draws=3)
    pixels = probe(observed_of(product, options))
    model = trained(pixels, kind, worlds=3 if kind == "shared" else None)
    observed = observed_of(product, options, model)
    layers = classify(observed, model, paired=True, executor=Serial())
    reading = observed.read(observed.grid.window)
    where = np.flatnonzero(reading.present().all(axis=0).ravel())
    X = np.moveaxis(worlds_of(reading, where), 2, 0).astype(float)
    del model.feature_names_in_
    P = model.predict_proba(X)
    stored = layers["probability"].reshape(3, -1)[:, where]
    np.testing.assert_allclose(stored * 1e-4, P.T, atol=6e-5)
    model.feature_names_in_ = np.array(TEN, dtype=object)
    again = classify(observed, model, paired=True, executor=Threads(2))
    for name, planes in layers.items():
        np.testing.assert_array_equal(planes, again[name])


def test_what_was_assumed_is_on_record(product):
    facts = observed_of(product, RealiseOptions(aod=0.15, draws=3, seed=2)).facts()
    assert facts["source"] == "aerosol optical depth"
    (quantity,) = facts["quantities"]
    assert quantity["estimate"] == 0.15 and quantity["name"] == "aerosol optical depth at 550 nm"
    u = quantity["standard_uncertainty"]
    asked = np.array([1, 3, 5]) / 6  # midpoints of thirds of the probability
    drawn = stats.truncnorm.ppf(asked, -0.15 / u, (2 - 0.15) / u, loc=0.15, scale=u)
    np.testing.assert_allclose(np.sort(facts["worlds"]), drawn, rtol=1e-9)
    assert quantity["draws"]["mean"] == pytest.approx(drawn.mean())
    assert quantity["distribution_mean"] == pytest.approx(
        stats.truncnorm.mean(-0.15 / u, (2 - 0.15) / u, loc=0.15, scale=u), abs=1e-5
    )
    assert facts["seed"] == 2
    assert len(facts["worlds"]) == 3
    assert facts["aerosol_model"] == "6S continental"


def test_a_scene_that_does_not_say_its_level_is_refused(tmp_path):
    from map_cases import fitted, reflectance, write_scene

    scene = write_scene(tmp_path / "s.tif", reflectance(20, 20))
    with rasterio.open(scene, "r+") as file:
        file.update_tags(PROCESSING_LEVEL="")
    with pytest.raises(SceneError, match="L1C"):
        open_observed(scene, fitted(), SourceOptions(realise=RealiseOptions(aod=0.1)))


def test_paired_worlds_need_the_same_number(product):
    model = trained(np.full((1, 10), 0.1), "shared", worlds=4)
    observed = observed_of(product, RealiseOptions(aod=0.1, draws=3), model)
    with pytest.raises(SceneError, match="--draws 4"):
        make_mapper(model, observed, paired=True)


def test_one_draw_of_another_scene_is_refused(product):
    """It has no spread, so that the stated uncertainty would be left out."""
    model = trained(np.full((1, 10), 0.1), "shared", worlds=4)
    observed = observed_of(product, RealiseOptions(aod=0.1, draws=1), model)
    with pytest.raises(SceneError, match=r"--draws 1\), which has no spread.* give --draws 2 or more"):
        make_mapper(model, observed)
    exact = observed_of(product, RealiseOptions(aod=0.1, uncertainty=0.0, draws=1), model)
    assert make_mapper(model, exact).observed is exact
