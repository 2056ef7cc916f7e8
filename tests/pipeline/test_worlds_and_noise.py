"""Errors of single pixels beside worlds: the sensor's noise, files, what counts twice, in fit and map."""

import json
import tracemalloc

import numpy as np
import pytest
import rasterio
import xarray as xr
from scipy.special import entr
from test_effects import ALL, BANDS, GEOMETRY, scene

from fit_cases import safe_with_labels
from uncover.atmosphere import State
from uncover.measurement.effects_table import EffectsTable
from uncover.measurement.observation import Observation
from uncover.measurement.prediction import predict
from uncover.measurement.radiometry import Radiometry
from uncover.measurement.summary import corrected
from uncover.pipeline import MapOptions, RealiseOptions, realise_scene
from uncover.pipeline.map_product import MapProduct
from uncover.pipeline.prepared_map import PreparedMap
from uncover.pipeline.scene_sources import SourceOptions, observe
from uncover.raster import SceneError, UncertaintyOptions, Window, open_scene
from uncover.raster.tiles import TileCache
from uncover.viewer.viewed import ViewedMap

pytestmark = pytest.mark.filterwarnings("ignore::uncover.raster.MaskWarning")


def stated(path, name="gain", between_pixels="random", u=0.01):
    entry = {"bands": list(BANDS), "standard_uncertainty": [u] * len(BANDS), "units": "1", "name": name}
    path.write_text(json.dumps(entry | {"between_pixels": between_pixels}))
    return path


@pytest.mark.parametrize("level", ["L1C", "L2A"])
def test_noise_of_the_sensor_is_that_of_the_surface_by_finite_differences(level):
    sensor = ALL.__class__(effects=("radiometry",), aod=0.15, altitude=0.3, draws=6)
    observed = observe(scene(level, aot=0.15), SourceOptions(realise=sensor))
    realised, window = observed.source, Window(4, 100, 8, 40)
    reading = observed.read(window)
    part = next(iter(reading.parts(reading.complete)))
    pixels = reading.pixels(part)
    if level == "L1C":  # the mean world is that of the mean coefficients
        planes, factors = pixels.planes, pixels.coefficients.mean(axis=0, keepdims=True)
        mean = corrected(planes[0].astype(float), factors)[0]
    else:
        mean = pixels.realised().mean(axis=0).astype(float)
    table, state = realised.table, State(realised.draws.mean, 1.5, 320.0)
    toa = table.simulate(mean, state, GEOMETRY, band_axis=0)
    step = 1e-4
    up, down = (table.correct(toa + d, state, GEOMETRY, band_axis=0) for d in (step, -step))
    slope = (up - down) / (2 * step)
    expected = Radiometry.of("S2B", BANDS, 40.0).random_variance(toa) * slope**2
    np.testing.assert_allclose(pixels.noise.variances().T, expected, rtol=2e-3)


def test_a_file_adds_to_the_worlds_as_errors_of_the_scene_s_own_values(tmp_path):
    file = stated(tmp_path / "u.json")
    aod = ALL.__class__(aod=0.15, altitude=0.3, draws=6)
    for level in ("L1C", "L2A"):
        both = observe(scene(level, aot=0.15), SourceOptions(realise=aod, uncertainty=file))
        noise = both.read(Window(0, 0, 8, 8)).pixels(np.arange(64)).noise.variances()
        slope = np.sqrt(noise) / 0.01
        assert np.allclose(slope, 1.0) if level == "L2A" else ((slope > 1.0) & (slope < 2.0)).all()
    shared = stated(tmp_path / "s.json", between_pixels="systematic")
    found = observe(scene("L1C"), SourceOptions(realise=aod, uncertainty=shared))
    assert found.systematic.shape == (4, 4) and found.facts()["quantities"][-1]["name"] == "gain"


@pytest.mark.parametrize(
    ("name", "effects", "words"),
    [
        ("u_aod", ("aod",), "states the effect 'u_aod', and --effects draws aod: it would count twice"),
        ("aerosol model", ("aod", "ozone"), "--effects draws aod"),
        ("aerosol kind", ("aerosol-model",), "--effects draws aerosol-model"),
        ("O3 column", ("ozone",), "--effects draws ozone"),
        ("L1C noise", ("radiometry",), "--effects draws radiometry"),
        ("diffuser, absolute", ("radiometry",), "--effects draws radiometry"),
        ("dark signal", ("radiometry",), "--effects draws radiometry"),
        ("u_geolocation", ("geolocation",), "--effects draws geolocation"),
    ],
)
def test_effects_that_count_twice_are_refused(tmp_path, name, effects, words):
    options = ALL.__class__(aod=0.15, altitude=0.3, draws=6, effects=effects)
    with pytest.raises(SceneError, match=words) as caught:
        observe(scene(), SourceOptions(realise=options, uncertainty=stated(tmp_path / "u.json", name)))
    assert "\n" not in str(caught.value)


def test_a_correlation_that_cannot_be_is_refused_beside_worlds(tmp_path):
    file, one = stated(tmp_path / "u.json"), np.eye(len(BANDS))
    one[:3, :3] = [[1.0, 0.9, 0.9], [0.9, 1.0, -0.9], [0.9, -0.9, 1.0]]
    file.write_text(json.dumps(json.loads(file.read_text()) | {"correlation": one.tolist()}))
    words = r"is indefinite \(smallest eigenvalue -0.8\), .* Check its entries"
    with pytest.raises(ValueError, match=words) as caught:
        observe(scene(), SourceOptions(realise=ALL, uncertainty=file))
    assert "\n" not in str(caught.value)


def test_effects_common_to_scenes_do_not_go_with_worlds(tmp_path):
    file = stated(tmp_path / "u.json", between_pixels="systematic")
    how = UncertaintyOptions(between_scenes="common")
    with pytest.raises(SceneError, match="has effects common to all scenes, which do not go with worlds"):
        observe(scene(), SourceOptions(realise=ALL, uncertainty=file, uncertainty_options=how))


def test_fit_and_map_carry_the_noise_and_say_so(run, tmp_path):
    tree, maps, _ = safe_with_labels(tmp_path, "L1C_03.01")
    worlds = ("--aod", 0.12, "--draws", 3, "--effects")
    fit = ("--labels", maps[0], "--scheme", "ukceh-lulucf", "--model", "published", "--count", 3000)
    four, plain = (*worlds, "aod,radiometry"), (*worlds, "aod")
    for command in (
        ("fit", tree.path, *fit, *four, "--out", "noise.uncover"),
        ("fit", tree.path, *fit, *plain, "--out", "plain.uncover"),
        ("map", "noise.uncover", tree.path, *four, "--unpaired", "--out", "map"),
    ):
        made = run(*command)
        assert made.exit_code == 0, made.output
    record = json.loads((tmp_path / "map" / "item.json").read_text())["properties"]
    names = [each["name"] for each in record["uncover:measurement_uncertainty"]["quantities"]]
    assert names[0] == "aerosol optical depth at 550 nm" and names[-1] == "radiometry of single pixels"
    trained = record["uncover:trained_on"][0]["quantities"]
    assert [each["name"] for each in trained] == names
    crossed = run("map", "plain.uncover", tree.path, *four, "--unpaired", "--out", "crossed")
    assert "count twice" in " ".join(crossed.output.split()), crossed.output
    parts = rasterio.open(tmp_path / "map" / "uncertainty.tif").read().astype(int)
    assert np.abs(parts[1:4].sum(0) - parts[0])[parts[0] < 65535].max() <= 2


def test_a_dataset_has_its_own_effects_table(run, tmp_path):
    tree, maps, _ = safe_with_labels(tmp_path, "L1C_03.01")
    worlds = ("--aod", 0.12, "--effects", "aod,ozone,radiometry")
    fit = ("--labels", maps[0], "--scheme", "ukceh-lulucf", "--model", "published", "--count", 2000)
    made = run("fit", tree.path, *fit, *worlds, "--out", "m.uncover")
    assert made.exit_code == 0, made.output
    found = {}
    for kind, file in (("netcdf", "map.nc"), ("zarr", "map.zarr")):
        made = run("map", "m.uncover", tree.path, *worlds, "--unpaired", "--format", kind, "--out", kind)
        assert made.exit_code == 0, made.output
        path = tmp_path / kind / file
        opened = xr.open_dataset(path, engine="h5netcdf") if kind == "netcdf" else xr.open_zarr(path)
        with opened as dataset:
            table = EffectsTable.read(dataset, variable="scene_mean")
            assert [effect.name for effect in table.effects] == [
                "u_aod",
                "u_ozone",
                "u_radiometry",
                "u_radiometry_noise",
            ]
            assert dataset.u_aod.attrs["err_corr_2_form"] == dataset.u_aod.attrs["err_corr_dim2_form"]
            assert dataset.u_radiometry_noise.attrs["err_corr_2_form"] == "random"
            found[kind] = {
                name: dataset[f"u_{name}"].values
                for name in ("aod", "ozone", "radiometry", "radiometry_noise")
            }
            mean, bands = dataset.scene_mean.values, list(dataset.band.values)
            land = dataset["class"].values > 0
            names = ("aod", "ozone", "radiometry")
            correlations = {name: dataset[f"err_corr_{name}"].values for name in names}
    for name, u in found["zarr"].items():
        np.testing.assert_allclose(found["netcdf"][name], u, rtol=1e-12)
        assert (u < 0.2 * np.abs(mean) + 0.02).all()
    for effect in ("aod", "ozone", "radiometry"):  # against many worlds of each alone
        many = RealiseOptions(aod=0.12, effects=(effect,), draws=400)
        alone = realise_scene(open_scene(tree.path), many)
        places = [alone.bands.index(name) for name in bands]
        pixels = alone.read().values[:, :, land].mean(axis=2, dtype=float)[:, places]
        u = pixels.std(axis=0, ddof=1)
        np.testing.assert_allclose(found["zarr"][effect], u, rtol=0.12, atol=2e-6)
        R = np.corrcoef(pixels[:, u > 2e-6], rowvar=False)
        told = correlations[effect][np.ix_(u > 2e-6, u > 2e-6)]
        assert np.abs(told - R).max() < 0.1, (effect, np.abs(told - R).max())


def test_the_measurement_part_is_split_by_effect_in_every_format(run, monkeypatch, tmp_path):
    tree, maps, _ = safe_with_labels(tmp_path, "L1C_03.01")
    worlds = ("--aod", 0.12, "--draws", 4, "--effects", "aod,ozone")
    fit = ("--labels", maps[0], "--scheme", "ukceh-lulucf", "--model", "published", "--count", 2000)
    made = run("fit", tree.path, *fit, *worlds, "--out", "m.uncover")
    assert made.exit_code == 0, made.output
    found = {}
    for kind in ("cog", "zarr"):
        words = ("map", "m.uncover", tree.path, *worlds, "--unpaired", "--shares", "--format", kind)
        made = run(*words, "--out", kind)
        assert made.exit_code == 0, made.output
        product = MapProduct.open(tmp_path / kind)
        names = [name for name in product.layers if name.startswith("measurement_")]
        assert names == ["measurement_aod", "measurement_ozone"]
        window = product.grid.window
        read = [product.layers[name] for name in ("measurement", *names)]
        values = [layer.values(layer.source.read(window, TileCache()))[0] for layer in read]
        found[kind] = np.stack(values)
        known = np.isfinite(values[0])
        assert known.any() and np.abs(sum(values[1:]) - values[0])[known].max() <= 2.1e-4  # of rounding
    np.testing.assert_array_equal(found["cog"], found["zarr"])
    table = (tmp_path / "cog" / "shares.csv").read_text().splitlines()
    assert table[1].startswith("aod") and table[2].startswith("ozone")
    shown = ViewedMap(tmp_path / "cog").layers
    assert shown["measurement_aod"].about["title"] == "… from the measurement: aod"
    refused = run("map", "m.uncover", tree.path, "--shares", "--out", "none")
    assert refused.exit_code == 1 and len([x for x in refused.stderr.splitlines() if "Error" in x]) == 1
    drawn = RealiseOptions(effects=("aod", "ozone"), aod=0.12, draws=25, blocks=(0, 1))
    options = MapOptions(source=SourceOptions(realise=drawn), shares=True, paired=False)
    check_memory_of_split(PreparedMap.of(tmp_path / "m.uncover", tree.path, options).mapper, monkeypatch)


def test_errors_of_single_pixels_are_split_by_cause(run, tmp_path):
    """What each cause hides, against the information of draws of its errors, where errors are small."""
    tree, maps, _ = safe_with_labels(tmp_path, "L1C_03.01")
    worlds = ("--aod", 0.12, "--draws", 8, "--effects", "aod,radiometry,geolocation")
    fit = ("--labels", maps[0], "--scheme", "ukceh-lulucf", "--model", "published", "--count", 2000)
    made = run("fit", tree.path, *fit, *worlds, "--out", "m.uncover")
    assert made.exit_code == 0, made.output
    drawn = RealiseOptions(effects=("aod", "radiometry", "geolocation"), aod=0.12, draws=8)
    source = SourceOptions(realise=drawn)
    options = MapOptions(source=source, shares=True, paired=False)
    mapper = PreparedMap.of(tmp_path / "m.uncover", tree.path, options).mapper
    assert mapper.product.share_names == ("aod", "radiometry", "radiometry-noise", "geolocation")
    reading = mapper.read(0)
    where = next(iter(reading.parts(reading.complete)))[::40]
    pixels, causes = reading.pixels(where), dict(mapper._noise_by_cause(reading, where))
    np.testing.assert_allclose(sum(causes.values()), pixels.noise.of_each(len(where)), rtol=1e-9)
    small = {name: C * 1e-4 for name, C in causes.items()}
    split = mapper._of_causes(pixels, None, small)
    np.testing.assert_allclose(split.sum(axis=0), 1.0)
    rng, x = np.random.default_rng(0), pixels.realised().mean(axis=0).T.astype(float)
    told = []
    for C in small.values():
        errors = np.einsum(
            "nij,dnj->dni",
            np.linalg.cholesky(C + 1e-14 * np.eye(C.shape[1])),
            rng.normal(size=(400, *x.shape)),
        )
        P = np.stack(
            [predict(mapper.model.model_, Observation(x + e), paired=False).probability() for e in errors]
        )
        told.append(entr(P.mean(axis=0)).sum(axis=1) - entr(P).sum(axis=2).mean(axis=0))
    share = told[0] / sum(told)
    sure = entr(P.mean(axis=0)).sum(axis=1) > 0.05
    assert sure.sum() > 20 and np.abs(share - split[0])[sure].max() < 0.1


def check_memory_of_split(mapper, monkeypatch, n=500):
    """Few pixels are in memory in all of their worlds, and the split is the same."""
    reading, found = mapper.read(0), []
    pixels = reading.pixels(next(iter(reading.parts(reading.complete)))[:n])
    for limit in (1 << 20, 1 << 30):
        monkeypatch.setattr("uncover.raster.mapper.SPLIT_BYTES", limit)
        tracemalloc.start()
        found.append((mapper._shares(pixels, None, np.ones(n)), tracemalloc.get_traced_memory()[1]))
        tracemalloc.stop()
    (few, little), (whole, much) = found
    np.testing.assert_allclose(few, whole, rtol=1e-9, atol=1e-12)
    assert little < 3 << 20 < much, (little, much)
