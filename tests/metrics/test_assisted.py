"""Areas from a sample and a map together: unbiased, with intervals that cover, and shorter by a good map."""

import numpy as np
import pytest

from uncover.metrics.assisted import AssistedAreas, AssistedSums

N, K = 20_000, 3


def population(seed=0, sharpness=2.0, wrong=0.0):
    """Classes, and probabilities of a map; `wrong` overstates the first class."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(size=(N, K)) * sharpness
    P = np.exp(odds) / np.exp(odds).sum(1, keepdims=True)
    y = (P.cumsum(1) < rng.random((N, 1))).sum(1)
    biased = np.exp(odds + wrong * (np.arange(K) == 0))
    return y, biased / biased.sum(1, keepdims=True)


def estimates(y, P, strata, per_stratum, repeats, seed=1):
    rng, H = np.random.default_rng(seed), strata.max() + 1
    sizes = np.bincount(strata, minlength=H).astype(float)
    mapped, spread = P.sum(0), (P * (1 - P)).sum(0)
    places = [np.flatnonzero(strata == h) for h in range(H)]
    for _ in range(repeats):
        some = np.concatenate([rng.choice(place, per_stratum, replace=False) for place in places])
        sums = AssistedSums.of(y[some], P[some], strata[some], n_strata=H)
        yield AssistedAreas(sums, sizes, mapped, spread)


@pytest.mark.parametrize("wrong", [0.0, 1.5])
@pytest.mark.parametrize("stratified", [False, True])
def test_estimates_are_unbiased_and_intervals_cover(wrong, stratified):
    y, P = population(wrong=wrong)
    strata = P.argmax(1) if stratified else np.zeros(N, int)
    truth = np.bincount(y, minlength=K)
    found = list(estimates(y, P, strata, 50 if stratified else 150, 600))
    values = np.array([each.value for each in found])
    standard = values.std(axis=0)
    assert (np.abs(values.mean(0) - truth) < 0.12 * standard).all()  # 3 standard errors of the mean
    inside = np.array([(low <= truth) & (truth <= high) for low, high in (e.interval() for e in found)])
    assert 0.925 <= inside.mean() <= 0.975
    np.testing.assert_allclose(np.mean([each.error for each in found], axis=0), standard, rtol=0.12)


def test_a_good_map_makes_intervals_shorter_and_a_useless_one_no_longer():
    for sharpness, most in ((4.0, 0.75), (0.0, 1.02)):
        y, P = population(sharpness=sharpness)
        found = list(estimates(y, P, np.zeros(N, int), 150, 200))
        alone = np.sqrt(np.bincount(y) / N * (1 - np.bincount(y) / N) / 150) * N
        assert (np.mean([each.error for each in found], axis=0) / alone).max() < most


def test_a_census_is_the_truth():
    y, P = population(wrong=2.0)
    found = AssistedAreas(AssistedSums.of(y, P, np.zeros(N, int), n_strata=1), np.array([N]), P.sum(0), P[0])
    np.testing.assert_allclose(found.value, np.bincount(y))


def test_sums_merge():
    y, P = population()
    h = P.argmax(1)
    whole = AssistedSums.of(y, P, h, n_strata=K)
    parts = [AssistedSums.of(y[i::2], P[i::2], h[i::2], n_strata=K) for i in range(2)]
    for name, value in vars(parts[0] + parts[1]).items():
        np.testing.assert_allclose(value, getattr(whole, name))


def test_a_map_that_is_too_sure_has_intervals_that_cover():
    """One pixel of a hundred is wrong, of a thousand by what the map says: most samples meet few errors."""
    rng, shares = np.random.default_rng(0), [0.84, 0.15, 0.01]
    y = rng.choice(K, 100_000, p=shares)
    mapped, wrong = y.copy(), rng.random(len(y)) < 0.01
    mapped[wrong] = rng.integers(0, K, wrong.sum())
    P = np.where(np.arange(K) == mapped[:, None], 0.999, 0.0005)
    found, truth = list(estimates(y, P, mapped, 40, 200)), np.bincount(y)
    inside = np.array([(low <= truth) & (truth <= high) for low, high in (e.interval() for e in found)])
    assert inside.mean(axis=0).min() > 0.93
    alone = np.sqrt(truth / len(y) * (1 - truth / len(y)) / 120) * len(y)
    assert (np.mean([each.error for each in found], axis=0)[:2] / alone[:2]).max() < 0.5  # and still short
