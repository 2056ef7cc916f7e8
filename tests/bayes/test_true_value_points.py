"""Points in the place of true values, and how many of them a pixel and a component get."""

import numpy as np
from numpy.testing import assert_allclose

from uncover.bayes.class_densities_with_noise import (
    points_of_components,
    points_of_pixels,
    true_value_points,
)


def test_points_have_the_moments_of_a_standard_normal():
    points = true_value_points(16, 3)
    z = points.z[:, points.first[16] : points.first[16] + 16]
    assert_allclose(z @ z.T / 16, np.eye(3), atol=1e-12)
    assert_allclose(z.sum(axis=1), 0, atol=1e-12)


def test_the_less_sure_the_more_points():
    assert points_of_pixels(np.array([0.0, 0.1, 0.7]), 192).tolist() == [48, 96, 192]


def test_probable_components_have_more_points_and_negligible_ones_none():
    counts = points_of_components(np.array([[0.64], [0.36], [0.0]]), 32)
    assert counts.ravel().tolist() == [18, 14, 0]
