"""p-values of pixels with known noise in machine code, against the reference in NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import f as f_distribution

from uncover.bayes.class_densities_with_noise import DensityWithNoise
from uncover.bayes.components import Components
from uncover.bayes.covariances import Covariances
from uncover.bayes.hotelling import TypicalityReference
from uncover.bayes.second_order import LogDensityVariance
from uncover.bayes.student_t import StudentT
from uncover.engines.class_densities_with_noise import FastClassDensitiesWithNoise
from uncover.engines.kernels import load


def matrices(rng, n, p, size):
    root = rng.normal(size=(n, p, p)) / np.sqrt(p)
    return size * root @ root.swapaxes(1, 2)


def problem(p, K, own, common):
    """Densities of K classes; of noise in the samples (``own``) and in all pixels (``common``)."""
    rng = np.random.default_rng((p, K))
    scale, location = matrices(rng, K, p, 1.0) + 0.3 * np.eye(p), rng.normal(size=(K, p))
    density = StudentT.from_scale(location, scale, rng.uniform(20.0, 400.0, K))
    reference = TypicalityReference(
        StudentT.from_scale(location + 0.05, 1.1 * scale, rng.uniform(3.0, 300.0, K)),
        matrices(rng, K, p, own),
    )
    measured = DensityWithNoise(density, matrices(rng, K, p, common))
    variance = LogDensityVariance(*np.zeros((3, K)), dof=np.ones(K))
    prior = np.log(np.full(K, 1.0 / K))
    return FastClassDensitiesWithNoise(
        measured, measured, prior, variance, 16, Components.single(K), reference
    )


def expected(densities, planes, covariances):
    """p-values by the reference, class by class."""
    noises = covariances + densities.measured.noise[:, None]
    x = planes[0].T
    return [
        densities.reference.p_value(
            k, x, Covariances.read(np.broadcast_to(noise, (len(x), *noise.shape[1:])), *x.shape)
        )
        for k, noise in enumerate(noises)
    ]


@pytest.mark.parametrize(("own", "common"), [(0.2, 0.0), (0.0, 0.0), (0.2, 0.1)])
@pytest.mark.parametrize(("p", "K"), [(1, 2), (2, 3), (5, 4), (10, 8)])
def test_p_values_are_those_of_the_reference(p, K, own, common):
    densities, rng = problem(p, K, own, common), np.random.default_rng(5)
    planes = 1.5 * rng.normal(size=(1, p, 101))
    planes[..., 0] = 1e6
    each = matrices(rng, 101, p, 0.2) * np.exp(rng.normal(size=(101, 1, 1)))
    each[50:60] = densities.reference.noise[0]  # as noisy as the samples of the first class
    for covariances in (each, each[:1], each[50:51], np.zeros((1, p, p))):
        found = densities.read(planes, covariances=covariances).typicality
        assert_allclose(found, expected(densities, planes, covariances), rtol=0, atol=1e-9)
        assert found.max() > 0.1 and found[:, 0].max() < 1e-6


def test_noise_common_to_all_pixels_is_that_of_each():
    densities, rng = problem(4, 3, 0.2, 0.0), np.random.default_rng(6)
    planes, one = rng.normal(size=(1, 4, 77)), matrices(rng, 1, 4, 0.3)
    together = densities.read(planes, covariances=one)
    alone = densities.read(planes, covariances=np.repeat(one, 77, axis=0))
    for first, second in zip(together, alone, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("dof", [0.7, 5.0, 61.3, 1e4, 1e8])
@pytest.mark.parametrize("features", [1.0, 2.7, 10.0])
def test_the_tail_of_f(features, dof):
    ratio = np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 41)])
    found = np.empty(len(ratio))
    load().f_tails(features * ratio, np.full_like(ratio, features), np.full_like(ratio, dof), found)
    assert_allclose(found, f_distribution.sf(ratio, features, dof), rtol=1e-7, atol=1e-12)
    assert found[0] == 1.0
