"""Kernel mixtures against their definition, sample by sample."""

import numpy as np

from uncover.bayes.kernel_mixture import KernelMixture, median_square
from uncover.engines import members
from uncover.engines.members import FastKernelMixture


def by_definition(centres, share, h, x):
    kernel = (1.0 + ((x - centres) ** 2).sum(1) / h**2) ** -6
    return np.log(kernel @ share)


def test_the_joint_is_its_definition(rng):
    centres, share, x = rng.normal(size=(30, 3)), rng.uniform(size=(30, 2)), rng.normal(size=(7, 3))
    found = KernelMixture(centres, share, 0.7).log_joint(x)
    np.testing.assert_allclose(found, [by_definition(centres, share, 0.7, row) for row in x], rtol=1e-9)


def test_leaving_out_is_a_mixture_without(rng):
    centres, share = rng.normal(size=(30, 3)), np.eye(3)[np.arange(30) % 3]
    mixture, groups = KernelMixture(centres, share, 0.5), np.arange(30) // 4
    rows = np.array([0, 13, 29])
    own = np.arange(30)
    one = mixture.held_out(centres[rows], rows, own)
    whole = mixture.held_out(centres[rows], groups[rows], groups)
    for j, i in enumerate(rows):
        kept = np.arange(30) != i
        np.testing.assert_allclose(one[j], by_definition(centres[kept], share[kept], 0.5, centres[i]))
        kept = groups != groups[i]
        np.testing.assert_allclose(whole[j], by_definition(centres[kept], share[kept], 0.5, centres[i]))


def test_many_points_are_read_in_blocks(rng):
    centres = rng.normal(size=(3000, 2))
    mixture = KernelMixture(centres, np.eye(2)[np.arange(3000) % 2], 0.3)
    x = rng.normal(size=(1000, 2))
    np.testing.assert_allclose(mixture.log_joint(x)[700:703], mixture.log_joint(x[700:703]), rtol=1e-9)


def test_machine_code_says_the_same(rng, monkeypatch):
    centres, share = rng.normal(size=(70, 3)), 1.5 * np.eye(3)[np.arange(70) % 3]
    mixture, x = FastKernelMixture(centres, share, 0.4), rng.normal(size=(130, 3))
    x[0] = 1e6
    plain = mixture.log_joint(x)
    monkeypatch.setattr(members, "FEW_DIFFERENCES", 0)
    np.testing.assert_allclose(mixture.log_joint(x), plain, rtol=1e-9)
    np.testing.assert_allclose(mixture.log_joint(x[5:9]), plain[5:9], rtol=1e-9)
    soft = FastKernelMixture(centres, rng.uniform(size=(70, 3)), 0.4)
    np.testing.assert_allclose(
        soft.log_joint(x[3:4])[0], by_definition(centres, soft.share, 0.4, x[3]), rtol=1e-9
    )


def test_the_variance_is_that_of_the_weights(rng):
    centres, share = rng.normal(size=(30, 2)), np.eye(2)[np.arange(30) % 2] * rng.uniform(size=(30, 1))
    x = rng.normal(size=(5, 2))
    _, variance = KernelMixture(centres, share, 0.5).log_joint_and_variance(x)
    kernels = (1 + ((x[:, None] - centres) ** 2).sum(-1) / 0.25) ** -6.0
    each = kernels[..., None] * share
    np.testing.assert_allclose(variance, (each**2).sum(1) / each.sum(1) ** 2)


def test_single_precision_is_right_near_and_far(rng, monkeypatch):
    centres, share = 3.0 + rng.normal(size=(70, 3)), np.eye(3)[np.arange(70) % 3]
    mixture, x = FastKernelMixture(centres, share, 0.1), 3.0 + rng.normal(size=(130, 3))
    x[:3] = [[1e2], [1e4], [1e6]]
    plain = mixture.log_joint_and_variance(x)
    monkeypatch.setattr(members, "FEW_DIFFERENCES", 0)
    found = mixture.log_joint_and_variance(x, single=True)
    assert (found[0] != plain[0]).any()
    np.testing.assert_allclose(found[0], plain[0], atol=1e-3)
    np.testing.assert_allclose(found[1], plain[1], atol=1e-3)


def test_the_median_is_that_of_all_pairs(rng):
    x = rng.normal(size=(40, 3))
    pairs = [((x[i] - x[j]) ** 2).sum() for i in range(40) for j in range(i)]
    assert np.isclose(median_square(x), np.median(pairs))
    assert median_square(np.zeros((5, 2))) == 1.0
