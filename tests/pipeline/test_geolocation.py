"""Errors of geolocation: what a misplaced pixel would have measured, beside the worlds of a scene."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import ndimage
from test_effects import BANDS, GRID, scene

from fit_cases import safe_with_labels
from uncover.atmosphere import State
from uncover.measurement.formulas import Formula
from uncover.pipeline import RealiseOptions
from uncover.pipeline.scene_sources import SourceOptions, observe
from uncover.raster import Window
from uncover.raster.layers import BandGroup, Calibration
from uncover.raster.series import SceneSeries
from uncover.raster.tiles import ArrayPlanes

ALONE = RealiseOptions(effects=("geolocation",), aod=0.15, altitude=0.3, draws=2)


def smooth_values(p=4):
    """Reflectance that is nearly linear within a few pixels, and differs between bands."""
    noise = np.random.default_rng(3).normal(size=(p, *GRID.shape))
    fields = np.stack([ndimage.gaussian_filter(plane, 6.0) for plane in noise])
    return 0.2 + 0.04 * fields / fields.std(axis=(1, 2), keepdims=True)


def of_values(values, level="L1C"):
    group = BandGroup(ArrayPlanes(values.astype(np.float32), GRID), BANDS, (Calibration(),) * len(BANDS))
    return replace(scene(level, aot=0.15), groups=(group,))


def noise_of(made, window, options=ALONE):
    reading = observe(made, SourceOptions(realise=options)).read(window)
    parts = [reading.pixels(part) for part in reading.parts(reading.complete)]
    return np.concatenate([part.noise.matrices() for part in parts]), parts


@pytest.mark.parametrize("level", ["L2A", "L1C"])
@pytest.mark.parametrize("metres", [1.5, 3.0])
def test_the_covariance_is_that_of_scenes_shifted_by_fractions_of_a_pixel(level, metres):
    values, window = smooth_values(), Window(8, 16, 24, 100)
    options = replace(ALONE, geolocation_uncertainty=metres)
    observed = observe(of_values(values, level), SourceOptions(realise=options))
    realised = observed.source
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)  # a Gaussian shift along each axis
    weights, moved = np.outer(weights, weights).ravel() / weights.sum() ** 2, []
    for shift in np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2) * metres / 10:
        planes = np.stack([ndimage.shift(plane, shift, order=3, mode="nearest") for plane in values])
        planes = planes[(slice(None), *window.slices)]
        if level == "L1C":
            state = State(0.15, realised.water_vapour, realised.ozone)
            planes = realised.table.correct(planes, state, realised.middle, band_axis=0)
        moved.append(planes.reshape(len(BANDS), -1))
    errors = np.array(moved) - np.einsum("s,sbn->bn", weights, moved)
    expected = np.einsum("s,sbn,scn->nbc", weights, errors, errors)
    noise = observed.noise.read(window, realised.read(window).values.mean(axis=0)).covariances.matrices()
    size = np.sqrt(np.einsum("nii->ni", expected))
    difference = (noise - expected) / (size[:, :, None] * size[:, None, :]).mean(axis=0)
    assert np.abs(difference).mean() < 0.02, np.abs(difference).mean()
    assert np.abs(difference).max() < 0.25, np.abs(difference).max()


def test_one_shift_moves_all_bands_of_a_pixel():
    plane = smooth_values(1)[0]
    noise, _ = noise_of(
        of_values(np.stack([plane, 2 * plane, 0.6 - plane, 0 * plane + 0.3])), Window(5, 5, 20, 90)
    )
    noise = noise[noise[:, 0, 0] > 1e-12]
    sd = np.sqrt(np.diagonal(noise, axis1=1, axis2=2))
    correlation = noise[:, :3, :3] / (sd[:, :3, None] * sd[:, None, :3])
    signs = np.array([1, 1, -1])
    np.testing.assert_allclose(correlation * np.outer(signs, signs), 1.0, atol=1e-4)
    assert np.allclose(noise[:, 3], 0, atol=1e-14)
    assert (np.linalg.eigvalsh(noise) > -1e-12).all()


def test_a_ramp_has_the_tool_s_uncertainty_also_at_edges_and_beside_gaps():
    across = np.broadcast_to(np.arange(GRID.width) * 0.002, GRID.shape)
    values = np.stack([across] * 4) + 0.1
    values[:, 20, 60] = np.nan
    noise, _ = noise_of(of_values(values, "L2A"), GRID.window)
    expected = (1.5 / 10 * 0.002) ** 2  # metres over the side of a pixel, times the change per pixel
    assert len(noise) == GRID.window.pixels - 1
    np.testing.assert_allclose(noise, expected, rtol=2e-4)


def test_a_pixel_has_the_same_errors_in_every_window():
    made, both = of_values(smooth_values()), replace(ALONE, effects=("aod", "geolocation", "radiometry"))
    observed = observe(made, SourceOptions(realise=both))

    def read(window):
        mean = observed.source.read(window).values.mean(axis=0)
        return observed.noise.read(window, mean).covariances.matrices().reshape(*window.shape, 4, 4)

    whole = read(GRID.window)
    for window in (Window(0, 0, 7, 13), Window(13, 120, 27, 30), Window(20, 77, 1, 1)):
        np.testing.assert_array_equal(read(window), whole[window.slices])


def test_differences_reach_as_far_as_the_band_s_own_pixels():
    coarse = replace(GRID, transform=(60, 0, 300000, 0, -60, 5000000), width=25, height=7)
    ramp = np.broadcast_to(np.arange(25) * 0.01 + 0.05, coarse.shape)[None].repeat(4, axis=0)
    group = BandGroup(ArrayPlanes(ramp.astype(np.float32), coarse), BANDS, (Calibration(),) * 4)
    made = replace(scene("L2A", aot=0.15), groups=(group,))
    noise, _ = noise_of(made, Window(5, 10, 30, 120))
    np.testing.assert_allclose(noise, (1.5 / 60 * 0.01) ** 2, rtol=2e-4)


def test_it_is_off_unless_named_recorded_and_added_to_other_noise():
    made, window = of_values(smooth_values()), Window(5, 5, 10, 10)
    assert observe(made, SourceOptions(realise=RealiseOptions(aod=0.15))).noise is None
    named = {"g": ("geolocation",), "r": ("radiometry",), "both": ("geolocation", "radiometry")}
    parts = {name: noise_of(made, window, replace(ALONE, effects=some))[0] for name, some in named.items()}
    np.testing.assert_allclose(parts["both"], parts["g"] + parts["r"], rtol=1e-3, atol=1e-9)
    record = observe(made, SourceOptions(realise=ALONE)).facts()["quantities"][-1]
    assert (record["name"], record["units"], record["standard_uncertainty"]) == (
        "geolocation of single pixels",
        "m",
        1.5,
    )
    for metres in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"--geolocation-uncertainty is .*; give metres, 0 or more"):
            replace(ALONE, geolocation_uncertainty=metres)
    with pytest.raises(ValueError, match="add geolocation to --effects, or leave it out"):
        RealiseOptions(aod=0.1, geolocation_uncertainty=3.0)


def test_a_cube_says_that_it_does_not_count(run, tmp_path):
    tree = safe_with_labels(tmp_path, "L1C_03.01")[0]
    effects = ("--aod", 0.12, "--effects", "aod,geolocation", "--draws", 2)
    made = run("realise", tree.path, *effects, "--out", "cube.zarr")
    assert made.exit_code == 0 and "leave geolocation out of --effects" in " ".join(made.output.split())


def test_several_dates_say_that_it_does_not_count():
    two = replace(scene(), date="2024-06-03"), replace(scene(seed=1), date="2024-08-03")
    both = SceneSeries(two, ("2024-06", "2024-08"), tuple(map(Formula, BANDS)))
    with pytest.warns(UserWarning, match="several dates have worlds alone, .* leave geolocation out"):
        assert observe(both, SourceOptions(realise=ALONE)).noise is None


def test_maps_are_the_same_for_any_block(run, tmp_path):
    tree, maps, _ = safe_with_labels(tmp_path, "L1C_03.01")
    effects = ("--aod", 0.12, "--effects", "aod,geolocation", "--draws", 2)
    fit = ("--labels", maps[0], "--scheme", "ukceh-lulucf", "--model", "published", "--count", 2000)
    made = run("fit", tree.path, *fit, *effects, "--out", "m.uncover")
    assert made.exit_code == 0, made.output
    for block in (256, 512):
        made = run(
            "map", "m.uncover", tree.path, *effects, "--unpaired", "--block", block, "--out", f"{block}"
        )
        assert made.exit_code == 0, made.output
    for file in ("class.tif", "probability.tif", "uncertainty.tif", "areas.csv"):
        assert (tmp_path / "256" / file).read_bytes() == (tmp_path / "512" / file).read_bytes(), file
