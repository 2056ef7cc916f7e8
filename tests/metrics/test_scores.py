"""Laws of the scores: their definitions written out, sums that merge, zeros that are not hidden."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.metrics import confusion_matrix as sklearn_confusion
from sklearn.metrics import fbeta_score, log_loss

from uncover.metrics import (
    SCORE_NAMES,
    Bootstrap,
    Outcomes,
    ScoreSums,
    f_beta,
    joined_groups,
    overall_accuracy,
    percentile_interval,
    score,
    score_replicates,
)


def score_interval(name, y, p, groups=None, bootstrap=None, level=0.95):
    """Interval of a score by resampling samples, or groups of them."""
    numbers = joined_groups(
        np.arange(len(y)) if groups is None else groups, seed=getattr(bootstrap, "seed", 0)
    )
    sums = ScoreSums.of(y, p, groups=numbers)
    how = bootstrap or Bootstrap.of_groups(len(sums.weight))
    return percentile_interval(score_replicates(sums, np.ones(p.shape[1]), how)[name], level)


def problem(rng, n=300, k=4, skill=1.5):
    """Reference classes, and probabilities that know something about them."""
    y = rng.choice(k, size=n, p=np.arange(1, k + 1) / np.arange(1, k + 1).sum())
    logits = rng.normal(size=(n, k)) + skill * np.eye(k)[y]
    p = np.exp(logits)
    return y, p / p.sum(axis=1, keepdims=True)


def test_scores_are_their_definitions(rng):
    y, p = problem(rng)
    n, k = p.shape
    q = np.array([0.1, 0.2, 0.3, 0.4])
    one = np.eye(k)[y]
    found = score(y, p, q)
    assert_allclose(found.cross_entropy, -sum(np.sum(one[i] * np.log(p[i])) for i in range(n)) / n)
    assert_allclose(found.brier, sum(np.sum((one[i] - p[i]) ** 2) for i in range(n)) / (n * k))
    xe = sum(np.sum(one[i] * np.log(p[i])) / np.sum(q * np.log(q)) for i in range(n)) / n
    bs = sum(np.sum((one[i] - p[i]) ** 2) / np.sum(q * (1 - q)) for i in range(n)) / n
    assert_allclose([found.cross_entropy_norm, found.brier_norm], [xe, bs])
    decided = p.argmax(axis=1)
    for beta, value in ((1, found.f1), (2, found.f2)):
        total = 0
        for c in range(k):
            tp = np.sum((decided == c) & (y == c))
            fn, fp = np.sum((decided != c) & (y == c)), np.sum((decided == c) & (y != c))
            total += q[c] * (beta**2 + 1) * tp / ((beta**2 + 1) * tp + beta**2 * fn + fp)
        assert_allclose(value, total)


def test_scores_are_those_of_scikit_learn(rng):
    y, p = problem(rng)
    shares = np.bincount(y) / y.size  # scikit-learn weights by what it was given
    found = score(y, p, shares)
    assert_allclose(found.cross_entropy, log_loss(y, p))
    assert_allclose(found.f1, fbeta_score(y, p.argmax(axis=1), beta=1, average="weighted"))
    assert_allclose(found.f2, fbeta_score(y, p.argmax(axis=1), beta=2, average="weighted"))
    confusion = sklearn_confusion(y, p.argmax(axis=1)).T
    assert_allclose(overall_accuracy(confusion), np.mean(p.argmax(axis=1) == y))


def test_the_prior_itself_scores_one(rng):
    y, _ = problem(rng)
    shares = np.bincount(y) / y.size
    found = score(y, np.tile(shares, (y.size, 1)), shares)
    assert_allclose([found.cross_entropy_norm, found.brier_norm], 1)


def test_a_perfect_classifier(rng):
    y, _ = problem(rng)
    found = score(y, np.eye(4)[y], [1, 1, 1, 1])
    assert_allclose([found.f1, found.f2], 1)
    assert_allclose([found.cross_entropy, found.brier, found.cross_entropy_norm, found.brier_norm], 0)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 60))
def test_sums_of_parts_are_the_sums_of_all(seed, cut):
    rng = np.random.default_rng(seed)
    y, p = problem(rng, n=60)
    p[rng.random(p.shape) < 0.05] = 0
    w = rng.random(60)
    whole = ScoreSums.of(y, p, weights=w)
    parts = ScoreSums.of(y[:cut], p[:cut], weights=w[:cut]) + ScoreSums.of(y[cut:], p[cut:], weights=w[cut:])
    for name in ("weight", "log_loss", "impossible", "squares", "zeros", "confusion"):
        assert_allclose(getattr(parts, name), getattr(whole, name), atol=1e-12)


def test_groups_add_up_and_combine(rng):
    y, p = problem(rng)
    groups = rng.integers(7, size=y.size)
    by_group = ScoreSums.of(y, p, groups=groups, n_groups=9)
    assert by_group.confusion.shape == (9, 4, 4)
    assert_allclose(by_group.total().scores([1, 1, 1, 1]).f2, score(y, p, [1, 1, 1, 1]).f2)
    factors = rng.integers(3, size=(2, 9)).astype(float)
    again = by_group.combined(factors).scores([1, 1, 1, 1])
    for draw in range(2):
        repeated = np.repeat(np.arange(y.size), factors[draw, groups].astype(int))
        expected = score(y[repeated], p[repeated], [1, 1, 1, 1])
        for name in SCORE_NAMES:
            assert_allclose(getattr(again, name)[draw], getattr(expected, name))


def test_a_probability_of_zero_is_infinite_and_counted():
    y, p = np.array([0, 1, 1]), np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]])
    found = score(y, p, [1, 1])
    assert np.isinf(found.cross_entropy) and np.isinf(found.cross_entropy_norm)
    assert found.zeros == 1
    floored = score(y, p, [1, 1], floor=1e-3)
    assert_allclose(floored.cross_entropy, -(np.log(1e-3) + np.log(0.5)) / 3)
    assert (floored.zeros, floored.floor) == (1, 1e-3)
    assert_allclose(floored.brier, found.brier)
    assert np.isfinite(floored.f1)


def test_infinite_scores_stay_infinite_in_their_interval():
    y = np.zeros(400, int)
    p = np.tile([0.9, 0.1], (400, 1))
    p[0] = 0, 1
    low, high = score_interval("cross_entropy", y, p)
    # The one sample is left out of a share (1 − 1/400)^399 ≈ e⁻¹ of the draws.
    assert np.isfinite(low) and np.isinf(high)


def test_logarithms_tell_more_than_probabilities_that_underflow():
    y, logs = np.array([0, 1]), np.array([[-900.0, 0.0], [-1000.0, 0.0]])
    p = np.exp(logs)
    assert np.isinf(score(y, p, [1, 1]).cross_entropy)
    found = score(y, p, [1, 1], log_probabilities=logs)
    assert_allclose(found.cross_entropy, 450)
    assert found.zeros == 1


def test_classes_that_never_occur():
    confusion = np.array([[8.0, 1.0, 0.0], [2.0, 9.0, 0.0], [0.0, 0.0, 0.0]])
    assert np.isnan(Outcomes.of(confusion).f_beta(1)[2])
    assert_allclose(f_beta(confusion, 1, [1, 1, 1]), f_beta(confusion[:2, :2], 1, [1, 1]))
    missed = np.array([[8.0, 1.0], [0.0, 0.0]])  # class 1 is there and never mapped
    assert_allclose(Outcomes.of(missed).f_beta(1)[1], 0)


def test_rates_of_two_classes_mirror_each_other(rng):
    seen = Outcomes.of(rng.integers(1, 50, size=(2, 2)))
    assert_allclose(seen.true_positive_rate[0], seen.true_negative_rate[1])
    assert_allclose(seen.false_positive_rate[0], seen.false_negative_rate[1])
    assert_allclose(seen.true_positive_rate + seen.false_negative_rate, 1)
    assert_allclose(seen.true_negative_rate + seen.false_positive_rate, 1)


@pytest.mark.parametrize(
    ("reference", "p", "message"),
    [
        ([0, 2], [[0.5, 0.5]] * 2, "from 0 to 1"),
        ([0.0, 1.0], [[0.5, 0.5]] * 2, "whole numbers"),
        ([0], [[0.5, 0.5]] * 2, "1 reference classes and 2 rows"),
        ([0, 1], [[-0.7, -0.7]] * 2, "logarithms"),
        ([0, 1], [0.5, 0.5], "shape"),
    ],
)
def test_bad_input_is_refused(reference, p, message):
    with pytest.raises(ValueError, match=message):
        score(reference, p, [1, 1])


def test_shares_are_refused_where_they_are_none():
    with pytest.raises(ValueError, match="prior class shares"):
        score([0, 1], [[0.5, 0.5]] * 2, [0, 0])


def test_bootstrap_spreads_as_the_mean_does(rng):
    """The rescaled bootstrap has the variance s²/n, also of few groups and by stratum."""
    values = rng.normal(size=8)
    factors = Bootstrap.of_groups(8, draws=20_000).factors()
    assert_allclose((factors @ values / 8).std(), values.std(ddof=1) / np.sqrt(8), rtol=0.03)
    strata = np.array([0, 0, 0, 1, 1, 1, 1, 1])
    means = Bootstrap(strata, draws=20_000).factors() @ (values * np.where(strata == 0, 1 / 3, 1 / 5))
    parts = values[:3].var(ddof=1) / 3 + values[3:].var(ddof=1) / 5
    assert_allclose(means.std(), np.sqrt(parts), rtol=0.03)


def test_bootstrap_intervals_cover():
    """Nominal 90 % intervals of the Brier score hold the truth in 90 % of the cases, samples or groups."""
    hits = {"samples": 0, "groups": 0, "ignored": 0}
    repeats = 200
    for i in range(repeats):
        rng = np.random.default_rng(i)
        # 40 fields of 10 pixels; all pixels of a field are right or wrong together: P(right) = 0.7.
        right = np.repeat(rng.random(40) < 0.7, 10)
        p = np.where(right[:, None], [0.7, 0.3], [0.3, 0.7])
        y = np.zeros(400, int)
        truth = 0.7 * 0.3**2 + 0.3 * 0.7**2
        alone = rng.random(400) < 0.7
        p_alone = np.where(alone[:, None], [0.7, 0.3], [0.3, 0.7])
        for name, prob, groups in (
            ("samples", p_alone, None),
            ("groups", p, np.repeat(np.arange(40), 10)),
            ("ignored", p, None),
        ):
            n = 400 if groups is None else 40
            how = Bootstrap.of_groups(n, draws=200, seed=i)
            low, high = score_interval("brier", y, prob, groups, how, level=0.9)
            hits[name] += low <= truth <= high
    assert 0.84 < hits["samples"] / repeats < 0.95
    assert 0.82 < hits["groups"] / repeats < 0.95
    assert hits["ignored"] / repeats < 0.6  # what happens to those who take pixels for samples


def test_joining_groups_keeps_the_spread(rng):
    y, p = problem(rng, n=6000)
    groups = joined_groups(np.arange(6000))
    assert groups.max() == 1999
    low, high = score_interval("brier", y, p)
    losses = ((np.eye(4)[y] - p) ** 2).sum(axis=1) / 4
    assert_allclose(high - low, 2 * 1.96 * losses.std(ddof=1) / np.sqrt(6000), rtol=0.08)


def test_percentiles_do_not_mix_numbers_with_infinity():
    low, high = percentile_interval(np.r_[np.arange(97.0), [np.inf] * 3])
    assert (low, high) == (2, np.inf)
