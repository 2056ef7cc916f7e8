"""Moments merge exactly: every order of merging gives the moments of exact rational arithmetic."""

import itertools
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uncover.bayes.moments import Moments

KINDS = ["a million ± 1", "reflectance in float32", "mixed scales", "unit"]


def draw(kind, n, p, rng):
    x = rng.normal(size=(n, p))
    if kind == "a million ± 1":
        return 1e6 + x
    if kind == "reflectance in float32":
        return (0.2 + 0.02 * x).astype(np.float32)
    if kind == "mixed scales":
        return (3.0 + x) * 10.0 ** np.linspace(-8, 8, p)
    return x


def exact(x, weight):
    """Count, mean and scatter as fractions: floats are fractions, so this has no rounding at all."""
    rows = [[Fraction(float(v)) for v in row] for row in x]
    w = [Fraction(float(v)) for v in weight]
    n, p = sum(w), len(rows[0])
    mean = [sum(wi * row[j] for wi, row in zip(w, rows, strict=True)) / n for j in range(p)]
    scatter = [
        [
            sum(wi * (r[i] - mean[i]) * (r[j] - mean[j]) for wi, r in zip(w, rows, strict=True))
            for j in range(p)
        ]
        for i in range(p)
    ]
    return n, mean, scatter


def assert_exact(moments, x, weight):
    """1e-12 relative: entries of the scatter against their own diagonal, means against the spread."""
    n, mean, scatter = exact(x, weight)
    assert abs(float((Fraction(float(moments.count)) - n) / n)) < 1e-14
    spread = [float(scatter[j][j]) ** 0.5 for j in range(len(mean))]
    for j, expected in enumerate(mean):
        found = Fraction(float(moments.mean[j])) + Fraction(float(moments.residual[j]))
        assert abs(float(found - expected)) <= 1e-12 * max(spread[j], 1e-4 * abs(float(expected)))
    for i, row in enumerate(scatter):
        for j, expected in enumerate(row):
            found = Fraction(float(moments.scatter[i, j]))
            assert abs(float(found - expected)) <= 1e-12 * spread[i] * spread[j]


def tree(parts):
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return tree(parts[:middle]) + tree(parts[middle:])


@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(KINDS),
    sizes=st.lists(st.sampled_from([0, 1, 2, 5, 40]), min_size=1, max_size=7).filter(lambda s: sum(s) > 1),
    p=st.integers(1, 4),
    weighted=st.booleans(),
)
def test_merging_unequal_blocks_in_any_order_is_exact(seed, kind, sizes, p, weighted):
    rng = np.random.default_rng(seed)
    x = draw(kind, sum(sizes), p, rng)
    w = rng.uniform(0.1, 3.0, sum(sizes)) if weighted else np.ones(sum(sizes))
    edges = np.cumsum([0, *sizes])
    parts = [Moments.of(x[a:b], w[a:b] if weighted else None) for a, b in itertools.pairwise(edges)]
    assert_exact(reduce(add, parts), x, w)
    assert_exact(reduce(lambda a, b: b + a, reversed(parts)), x, w)
    assert_exact(tree(parts), x, w)
    shuffled = [parts[i] for i in rng.permutation(len(parts))]
    assert_exact(tree(shuffled), x, w)
    assert_exact(Moments.of(x, w if weighted else None), x, w)


def test_two_thousand_merges_of_single_samples_lose_nothing():
    rng = np.random.default_rng(1)
    x = 1e6 + rng.normal(size=(2000, 1))
    one_by_one = reduce(add, (Moments.of(x[i : i + 1]) for i in range(len(x))))
    # Exact, by integers: the samples are multiples of 2^-40 after this rounding-free scaling.
    whole = [int(v) for v in (x[:, 0] * 2.0**40).astype(object)]
    scatter = Fraction(len(whole) * sum(v * v for v in whole) - sum(whole) ** 2, len(whole)) / 4**40
    assert float(one_by_one.scatter[0, 0]) == pytest.approx(float(scatter), rel=1e-12)
    assert float(one_by_one.count) == 2000


def test_a_few_far_from_many():
    """A block of a billion and a block of one, far away: the scatter is that of exact arithmetic."""
    many = Moments(np.array(1e9), np.array([1e6]), np.array([[4e9]]), np.zeros(1))
    far = Moments.of([[1e6 + 3e5]])
    expected = Fraction(4 * 10**9) + Fraction(10**9, 10**9 + 1) * Fraction(300_000) ** 2
    assert float((many + far).scatter[0, 0]) == pytest.approx(float(expected), rel=1e-14)
    assert float((far + many).scatter[0, 0]) == pytest.approx(float(expected), rel=1e-14)


def test_large_input_is_read_in_blocks_and_stays_exact():
    rng = np.random.default_rng(2)
    x = (3000 + 3 * rng.normal(size=(300_000, 2))).astype(np.float32)
    reference = x.astype(np.longdouble)
    centred = reference - reference.mean(0)
    scatter = np.array([[(centred[:, i] * centred[:, j]).sum() for j in range(2)] for i in range(2)])
    np.testing.assert_allclose(Moments.of(x).scatter, scatter.astype(float), rtol=1e-11)
    np.testing.assert_allclose(Moments.of(x).variance, [9.0, 9.0], rtol=0.02)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_batches_are_computed_one_by_one(batch, rng):
    x = rng.normal(size=(*batch, 7, 2))
    w = rng.uniform(size=(*batch, 7))
    together = Moments.of(x, w)
    assert together.count.shape == batch
    for index in np.ndindex(batch):
        alone = Moments.of(x[index], w[index])
        np.testing.assert_allclose(together[index].mean, alone.mean, rtol=1e-14)
        np.testing.assert_allclose(together[index].scatter, alone.scatter, rtol=1e-13, atol=1e-15)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(0, 60), weighted=st.booleans())
def test_groups_are_the_moments_of_their_members(seed, n, weighted):
    rng = np.random.default_rng(seed)
    x, group = rng.normal(size=(n, 3)), rng.integers(0, 4, n)
    w = rng.uniform(size=n) if weighted else None
    groups = Moments.by_group(x, group, 5, w)
    for k in range(5):
        mine = group == k
        alone = Moments.of(x[mine], None if w is None else w[mine])
        np.testing.assert_allclose(groups.count[k], alone.count)
        np.testing.assert_allclose(groups.mean[k], alone.mean, rtol=1e-14)
        np.testing.assert_allclose(groups.scatter[k], alone.scatter, rtol=1e-12, atol=1e-15)
    assert groups.count[4] == 0
    everything = Moments.of(x, w)
    np.testing.assert_allclose(groups.sum(-1).scatter, everything.scatter, rtol=1e-12, atol=1e-14)


def test_groups_of_batches(rng):
    x, group = rng.normal(size=(4, 20, 2)), rng.integers(0, 3, 20)
    groups = Moments.by_group(x, group, 3)
    assert groups.count.shape == (4, 3)
    for world in range(4):
        alone = Moments.by_group(x[world], group, 3)
        np.testing.assert_allclose(groups[world].scatter, alone.scatter, rtol=1e-13)


def test_nothing_is_the_neutral_element(rng):
    some = Moments.of(rng.normal(size=(5, 2)) + 1e6)
    for total in (some + Moments.empty(2), Moments.empty(2) + some):
        for name in ("count", "mean", "scatter", "residual"):
            np.testing.assert_array_equal(getattr(total, name), getattr(some, name))
    nothing = Moments.empty(2) + Moments.of(np.empty((0, 2)))
    assert nothing.count == 0
    assert not nothing.scatter.any()


def test_samples_of_weight_zero_do_not_count(rng):
    x = rng.normal(size=(6, 2))
    x[3] = 1e9
    w = np.array([1.0, 1, 1, 0, 1, 1])
    some, all_ = Moments.of(np.delete(x, 3, 0)), Moments.of(x, w)
    np.testing.assert_allclose(all_.mean, some.mean, rtol=1e-14)
    np.testing.assert_allclose(all_.scatter, some.scatter, rtol=1e-14)


def test_weights_are_repetitions(rng):
    x, w = rng.normal(size=(9, 2)), rng.integers(1, 5, 9)
    repeated = Moments.of(np.repeat(x, w, axis=0))
    np.testing.assert_allclose(Moments.of(x, w).scatter, repeated.scatter, rtol=1e-13)


def test_covariance_is_that_of_numpy(rng):
    x = rng.normal(size=(30, 3))
    moments = Moments.of(x)
    np.testing.assert_allclose(moments.covariance, np.cov(x.T), rtol=1e-13)
    np.testing.assert_allclose(moments.variance, x.var(0, ddof=1), rtol=1e-13)
    assert np.isnan(Moments.of(x[:1]).covariance).all()
    assert np.isnan(Moments.empty(3).variance).all()


def test_selecting_features_and_summing_batches(rng):
    x = rng.normal(size=(4, 10, 3))
    moments = Moments.of(x)
    np.testing.assert_allclose(
        moments.select_features(np.array([2, 0])).scatter, Moments.of(x[..., [2, 0]]).scatter, rtol=1e-13
    )
    np.testing.assert_allclose(moments.sum(0).scatter, Moments.of(x.reshape(-1, 3)).scatter, rtol=1e-12)
    stacked = Moments.stack([moments, moments], axis=-1)
    assert stacked.count.shape == (4, 2)
    np.testing.assert_array_equal(stacked[:, 1].scatter, moments.scatter)
