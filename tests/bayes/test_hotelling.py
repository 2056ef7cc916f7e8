"""Densities that typicality is measured by: their degrees of freedom, and points of another noise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from uncover.bayes.covariances import Covariances
from uncover.bayes.hotelling import TypicalityReference, reference_of_classes
from uncover.bayes.moments import Moments
from uncover.bayes.student_t import StudentT


def test_a_class_of_many_samples_has_its_own_scatter_and_one_of_few_the_heaviest_tail(rng):
    moments = Moments.by_group(rng.normal(size=(23, 3)), np.repeat([0, 1], [20, 3]), 2)
    assert reference_of_classes(moments).predictive().dof.tolist() == [17.0, 2.0]  # n − p, and n − 1


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_points_are_as_far_as_their_own_noise_says(noise):
    """A variance of 2 that is known well, half of it noise: 2 lies 2/√(1 + noise) deviations away."""
    density = StudentT.from_scale([[0.0]], [[[2.0]]], [1e6])
    of_points = Covariances.read([noise], n_samples=1, n_features=1)
    found = TypicalityReference(density, np.ones((1, 1, 1))).p_value(0, [[2.0]], of_points)
    assert_allclose(found, 2 * norm.sf(2 / np.sqrt(1 + noise)), rtol=1e-3)
