"""Laws of calibration: honest probabilities lie on the diagonal, overconfident ones do not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from uncover.metrics import Reliability, wilson_interval
from uncover.metrics.calibration import bin_of


def honest(rng, n=40_000, k=3):
    """Probabilities, and classes drawn from them."""
    p = rng.dirichlet(np.full(k, 0.7), size=n)
    y = (rng.random((n, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    return y, p


def test_honest_probabilities_come_true(rng):
    y, p = honest(rng)
    r = Reliability.of(y, p)
    assert r.top_label_error < 0.012 and r.class_wise_error < 0.008
    low, high = r.interval(0.999)
    there = r.count > 0
    inside = (low <= r.mean_probability) & (r.mean_probability <= high)
    assert inside[there].all()


def test_overconfidence_is_measured(rng):
    y, p = honest(rng)
    sharp = p**3 / (p**3).sum(axis=1, keepdims=True)
    r = Reliability.of(y, sharp)
    gap = sharp.max(axis=1).mean() - (sharp.argmax(axis=1) == y).mean()
    assert gap > 0.1
    assert_allclose(r.top_label_error, gap, atol=0.005)  # overconfident in every bin: the mean gap


def test_errors_are_their_definitions(rng):
    y, p = honest(rng, n=500)
    w = rng.random(500)
    r = Reliability.of(y, p, bins=7, weights=w)
    decided = p.argmax(axis=1)
    for curve in range(4):
        value = p.max(axis=1) if curve == 0 else p[:, curve - 1]
        true = decided == y if curve == 0 else y == curve - 1
        at = np.minimum((value * 7).astype(int), 6)
        expected = 0
        for b in range(7):
            m = at == b
            if m.any():
                weight = w[m].sum() / w.sum()
                expected += weight * abs(
                    np.average(true[m], weights=w[m]) - np.average(value[m], weights=w[m])
                )
        assert_allclose(r.calibration_error[curve], expected)
    assert_allclose(r.class_wise_error, r.calibration_error[1:].mean())
    assert r.count.sum(axis=1).tolist() == [500] * 4


def test_parts_add_up(rng):
    y, p = honest(rng, n=300)
    groups = rng.integers(5, size=300)
    whole = Reliability.of(y, p)
    by_group = Reliability.of(y, p, groups=groups, n_groups=6)
    halves = Reliability.of(y[:100], p[:100]) + Reliability.of(y[100:], p[100:])
    for other in (by_group.total(), halves, by_group.combined(np.ones(6))):
        assert_allclose(other.observed, whole.observed)
        assert_allclose(other.calibration_error, whole.calibration_error)
    scaled = by_group.scaled(np.full(6, 3.0)).total()
    assert_allclose(scaled.calibration_error, whole.calibration_error)
    assert_allclose(scaled.effective_count(), whole.effective_count())


def test_the_last_bin_holds_certainty():
    r = Reliability.of([0, 1], [[1.0, 0.0], [0.0, 1.0]], bins=4)
    assert r.count[0].tolist() == [0, 0, 0, 2]
    assert r.top_label_error == 0
    assert bin_of(np.array([0.0, 0.1, 0.7, 0.99, 1.0]), bins=10).tolist() == [0, 1, 7, 9, 9]


@pytest.mark.parametrize("p", [0.02, 0.3, 0.9])
def test_wilson_intervals_cover(p):
    """Exactly: the binomial probability of the counts whose interval holds p."""
    from scipy.stats import binom

    n = 60
    counts = np.arange(n + 1)
    low, high = wilson_interval(counts / n, n, level=0.9)
    cover = binom.pmf(counts, n, p)[(low <= p) & (p <= high)].sum()
    assert 0.85 < cover < 0.97
