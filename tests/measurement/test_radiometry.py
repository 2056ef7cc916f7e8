"""Radiometric uncertainty of Level 1C: the public tool's numbers, and what the scenes of its report have."""

import numpy as np
import pytest
from benchmarks.radiometry import TYPICAL, largest_differences, of_scene, stored

from uncover.measurement.radiometry import BANDS, RANDOM, Radiometry


def test_every_component_is_that_of_the_public_tool():
    worst = largest_differences(stored())
    assert len(worst) == 13
    assert max(worst.values()) < 1e-4  # the stored numbers have six digits


@pytest.mark.parametrize("name", TYPICAL)
def test_typical_scenes_have_the_published_mean_uncertainty(name):
    bands, total, quadrature = of_scene(name)
    published = TYPICAL[name][-1]
    assert total.mean() < published
    assert (quadrature < published).all(), dict(zip(bands, quadrature, strict=True))


def test_random_errors_follow_the_noise_model_in_counts():
    counts = np.array([100.0, 1000.0])
    red = Radiometry.of("S2A", ["B04"], 0.0)
    value = counts[None] / red.counts[:, None]
    noise = 0.65 * np.sqrt(0.437**2 + 9.51e-3 * counts)
    others = (0.12e-2 * counts) ** 2 + (0.4e-2 * counts) ** 2 + (0.5 / np.sqrt(3) / 1e4 * red.counts) ** 2
    expected = (noise**2 + others) / red.counts**2
    np.testing.assert_allclose(red.random_variance(value)[0], expected, rtol=1e-12)
    assert set(RANDOM) < set(red.components(value))


def test_negative_reflectance_counts_as_none():
    all_bands = Radiometry.of("S2C", BANDS, 60.0)
    below, none = (all_bands.components(np.full((13, 1), value)) for value in (-0.01, 0.0))
    for name, u in below.items():
        np.testing.assert_array_equal(u, none[name])
