"""Observations as members of a pool see them."""

import numpy as np

from uncover import Measured, MeasuredLog
from uncover.bayes.covariances import Covariances
from uncover.measurement.observation import Observation


def test_logarithms_are_those_of_the_transform(rng):
    """Values and covariances, below the floor too; covariances there by the general J Σ Jᵀ."""
    X, A = rng.uniform(0.1, 2.0, (30, 3)), rng.normal(size=(30, 3, 3))
    noise = 0.01 * A @ np.swapaxes(A, 1, 2)
    log = MeasuredLog().fit(X)
    new = X - 0.3
    expected = log.transform(Measured(new, noise))
    found = Observation(new, Covariances.read(noise, *new.shape)).log(log.floor_)
    np.testing.assert_allclose(found.X, expected.X, rtol=1e-14)
    np.testing.assert_allclose(found.noise.matrices(), expected.covariances.matrices(), rtol=1e-12)
    worlds = np.stack([X, new], axis=1)
    np.testing.assert_allclose(Observation(worlds).log(log.floor_).X, log.transform(worlds), rtol=1e-14)
