"""Maps through an uncertain atmosphere: worlds made on the fly are those of the correction itself."""

import warnings

import numpy as np
import pytest

from uncover import BayesianQDA
from uncover.atmosphere import Geometry, LookupTable, State, recorrect
from uncover.pipeline import AerosolOptions, SourceOptions
from uncover.pipeline.map_sources import open_evidence
from uncover.raster import SceneError, Serial, Threads, classify
from uncover.raster.evidence import probe

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


def evidence_of(product, aerosol, model=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return open_evidence(product, model or trained(np.full((1, 10), 0.1)), SourceOptions(aerosol=aerosol))


def test_worlds_are_those_of_the_correction(product):
    evidence = evidence_of(product, AerosolOptions(aod=0.15, draws=4, seed=3))
    scene, window = evidence.scene, evidence.grid.window
    reading = evidence.read(window)
    where = np.flatnonzero(reading.present.all(axis=0).ravel())[:50]
    found = reading.pixels(where).values
    assert found.shape == (4, 50, 10)
    values = scene.read(window).reflectance.reshape(10, -1)[:, where]
    middle = scene.angles(window)
    row, col = window.height // 2, window.width // 2
    names = ("sun_zenith", "view_zenith", "relative_azimuth")
    geometry = Geometry(*(float(getattr(middle, name)[row, col]) for name in names))
    table = LookupTable(scene.platform, TEN)
    assert isinstance(evidence.state, State)
    if scene.level == "L1C":
        wanted = table.correct(values, evidence.state, geometry, band_axis=0)
    else:
        wanted = recorrect(table, values, evidence.product, evidence.state, geometry, band_axis=0)
    np.testing.assert_array_equal(found, np.swapaxes(wanted, 1, 2))


def test_worlds_depend_on_seed_and_scene_alone(product):
    first, again, other = (
        np.asarray(evidence_of(product, AerosolOptions(aod=0.15, draws=5, seed=seed)).state.aod)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("kind", ["pooled", "shared"])
def test_the_map_is_the_average_over_worlds(product, kind):
    aerosol = AerosolOptions(aod=0.15, draws=3)
    pixels = probe(evidence_of(product, aerosol))
    model = trained(pixels, kind, worlds=3 if kind == "shared" else None)
    evidence = evidence_of(product, aerosol, model)
    layers = classify(evidence, model, paired=True, executor=Serial())
    reading = evidence.read(evidence.grid.window)
    where = np.flatnonzero(reading.present.all(axis=0).ravel())
    X = np.moveaxis(reading.pixels(where).values, 0, 1).astype(float)
    del model.feature_names_in_
    P = model.predict_proba(X)
    stored = layers["probability"].reshape(3, -1)[:, where]
    np.testing.assert_allclose(stored * 1e-4, P.T, atol=6e-5)
    model.feature_names_in_ = np.array(TEN, dtype=object)
    again = classify(evidence, model, paired=True, executor=Threads(2))
    for name, planes in layers.items():
        np.testing.assert_array_equal(planes, again[name])


def test_what_was_assumed_is_on_record(product):
    facts = evidence_of(product, AerosolOptions(aod=0.15, draws=3, seed=2)).facts()
    assert facts["source"] == "aerosol optical depth"
    assert facts["estimate"] == 0.15
    assert facts["seed"] == 2
    assert len(facts["worlds"]) == 3
    assert "continental" in facts["correction"] or "LookupTable" in facts["correction"]


def test_a_scene_that_does_not_say_its_level_is_refused(tmp_path):
    from map_cases import fitted, reflectance, write_scene

    scene = write_scene(tmp_path / "s.tif", reflectance(20, 20))
    with pytest.raises(SceneError, match="L1C or L2A"):
        open_evidence(scene, fitted(), SourceOptions(aerosol=AerosolOptions(aod=0.1)))


def test_paired_worlds_need_the_same_number(product):
    model = trained(np.full((1, 10), 0.1), "shared", worlds=4)
    evidence = evidence_of(product, AerosolOptions(aod=0.1, draws=3), model)
    with pytest.raises(SceneError, match="--draws 4"):
        from uncover.raster.classify import make_mapper

        make_mapper(model, evidence, paired=True)


def test_two_sources_of_uncertainty_are_refused():
    options = SourceOptions(aerosol=AerosolOptions(aod=0.1), uncertainty="noise.csv")
    with pytest.raises(SceneError, match="one source"):
        open_evidence("scene.tif", None, options)
