"""The weak prior: what it is made of, and what it borrows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uncover.bayes.moments import Moments
from uncover.bayes.priors import Spread, weak_prior, weak_tied_prior


@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 6), K=st.integers(2, 5))
def test_weak_prior_is_the_choice_of_fraley_and_raftery(seed, p, K):
    rng = np.random.default_rng(seed)
    group = np.concatenate([np.repeat(np.arange(K), 2), rng.integers(0, K, 12)])
    x = rng.normal(size=(len(group), p)) * 10.0 ** rng.uniform(-8, 8, p)
    prior = weak_prior(Moments.by_group(x, group, K))
    np.testing.assert_array_equal(prior.strength, 0.0)
    np.testing.assert_array_equal(prior.dof, p + 2.0)
    for k in range(K):
        mine = x[group == k]
        np.testing.assert_allclose(prior.mean[k], mine.mean(0), rtol=1e-12)
        expected = np.diag(mine.var(0, ddof=1)) / K ** (2 / p)
        np.testing.assert_allclose(prior.scale[k], expected, rtol=1e-11)


def test_tied_prior_takes_the_pooled_variance(rng):
    x, group = rng.normal(size=(30, 3)), np.repeat([0, 1, 2], [5, 10, 15])
    prior = weak_tied_prior(Moments.by_group(x, group, 3))
    pooled = sum(((x[group == k] - x[group == k].mean(0)) ** 2).sum(0) for k in range(3)) / (30 - 3)
    np.testing.assert_allclose(prior.scale[0], np.diag(pooled) / 3 ** (2 / 3), rtol=1e-12)
    assert prior.scale.shape == (1, 3, 3)
    assert prior.mean.shape == (3, 3)


def test_a_class_of_one_sample_borrows_the_pooled_variance():
    x = np.array([[0.0], [2.0], [10.0], [16.0], [50.0]])
    spread = Spread.of(Moments.by_group(x, [0, 0, 1, 1, 2], 3))
    np.testing.assert_array_equal(spread.borrowed.ravel(), [False, False, True])
    np.testing.assert_allclose(spread.variance.ravel(), [2.0, 18.0, 10.0])  # (2 + 18) / (5 − 3)


def test_only_the_missing_entries_are_borrowed():
    x = np.array([[1.0, 0.0], [1.0, 4.0], [2.0, 0.0], [4.0, 2.0]])
    spread = Spread.of(Moments.by_group(x, [0, 0, 1, 1], 2))
    np.testing.assert_array_equal(spread.borrowed, [[True, False], [False, False]])
    np.testing.assert_allclose(spread.variance, [[1.0, 8.0], [2.0, 2.0]])  # 2/(4−2) borrowed


def test_where_no_class_varies_the_total_variance_stands_in():
    x = np.array([[1.0], [1.0], [3.0], [3.0]])
    spread = Spread.of(Moments.by_group(x, [0, 0, 1, 1], 2))
    np.testing.assert_allclose(spread.variance.ravel(), 4 / 3)
    assert spread.borrowed.all()
    assert not spread.constant.any()


@pytest.mark.parametrize("value", [0.0, 1.0, 1e6, 1e-12, 0.1])
def test_a_constant_feature_is_recognised_at_any_size(value, rng):
    """By a relative tolerance: 0.1 summed up is not 0.1, and a varying feature of 1e-12 is not constant."""
    x = np.column_stack([np.full(3000, value), 1e-12 * rng.normal(size=3000)])
    spread = Spread.of(Moments.by_group(x, rng.integers(0, 2, 3000), 2))
    np.testing.assert_array_equal(spread.constant, [True, False])


def test_a_small_spread_about_a_large_value_is_a_spread(rng):
    x = 1e6 + 1e-6 * rng.normal(size=(100, 1))
    spread = Spread.of(Moments.by_group(x, rng.integers(0, 2, 100), 2))
    assert not spread.constant.any()
    assert not spread.borrowed.any()


def test_an_empty_class_has_a_prior(rng):
    x = rng.normal(size=(10, 2)) + 5
    moments = Moments.by_group(x, np.arange(10) % 2, 3)
    prior = weak_prior(moments)
    np.testing.assert_allclose(prior.mean[2], x.mean(0))
    np.testing.assert_allclose(np.diagonal(prior.scale[2]), Spread.of(moments).pooled / 3)
