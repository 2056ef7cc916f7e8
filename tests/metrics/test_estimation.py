"""Accuracy and area from samples: published examples, formulas written out unit by unit, coverage."""

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from uncover.metrics import (
    SampleCells,
    StratifiedSample,
    band_area,
    simple_random_sample,
    stratified_by_map,
)
from uncover.metrics.estimation import Estimate, clopper_pearson_interval, ratio_limits

# Olofsson et al. (2014), Table 8: deforestation, forest gain, stable forest, stable non-forest.
COUNTS = np.array([[66, 0, 5, 4], [0, 55, 8, 12], [1, 0, 153, 11], [2, 1, 9, 313]])
PIXELS = np.array([200_000, 150_000, 3_200_000, 6_450_000])
HECTARE = 0.09  # of a pixel of 30 m


@pytest.fixture
def olofsson():
    return stratified_by_map(COUNTS, PIXELS)


def test_areas_of_olofsson_2014(olofsson):
    area = olofsson.areas()
    assert np.round(area.value * HECTARE).tolist() == [21158, 11686, 285770, 581386]
    assert np.round(1.96 * area.error * HECTARE).tolist() == [6158, 3756, 15510, 16282]
    assert np.round(area.value[0]) == 235086 and np.round(1.96 * area.error[0]) == 68418


def test_accuracies_of_olofsson_2014(olofsson):
    overall, user, producer = (
        olofsson.overall_accuracy(),
        olofsson.users_accuracy(),
        olofsson.producers_accuracy(),
    )
    assert (overall.value.round(2), (1.96 * overall.error).round(2)) == (0.95, 0.02)
    assert user.value.round(2).tolist() == [0.88, 0.73, 0.93, 0.96]
    assert (1.96 * user.error).round(2).tolist() == [0.07, 0.10, 0.04, 0.02]
    assert producer.value.round(2).tolist() == [0.75, 0.85, 0.93, 0.96]
    # The paper prints 0.21, 0.23, 0.03, 0.01; its equation 7 gives 0.25 and 0.02 for the second and fourth.
    assert (1.96 * producer.error).round(2).tolist() == [0.21, 0.25, 0.03, 0.02]


def test_error_matrix_of_olofsson_2014(olofsson):
    """Table 9 of the paper, in shares of the area."""
    expected = [
        [0.0176, 0, 0.0013, 0.0011],
        [0, 0.0110, 0.0016, 0.0024],
        [0.0019, 0, 0.2967, 0.0213],
        [0.0040, 0.0020, 0.0179, 0.6212],
    ]
    assert_allclose(olofsson.matrix().value, expected, atol=5.1e-5)


def test_equations_of_olofsson_2014_written_out(olofsson):
    """Equations 5, 6, 7 and 10 of the paper, class by class."""
    weights, n = PIXELS / PIXELS.sum(), COUNTS.sum(axis=1)
    shares = weights[:, None] * COUNTS / n[:, None]
    user = np.diag(COUNTS) / n
    assert_allclose(olofsson.users_accuracy().error, np.sqrt(user * (1 - user) / (n - 1)))
    overall = np.sqrt(np.sum(weights**2 * user * (1 - user) / (n - 1)))
    assert_allclose(olofsson.overall_accuracy().error, overall)
    spread = (weights[:, None] * shares - shares**2) / (n - 1)[:, None]
    assert_allclose(olofsson.shares().error, np.sqrt(spread.sum(axis=0)))
    for j in range(4):
        column = PIXELS * COUNTS[:, j] / n
        p = column[j] / column.sum()
        others = [
            PIXELS[i] ** 2 * COUNTS[i, j] / n[i] * (1 - COUNTS[i, j] / n[i]) / (n[i] - 1)
            for i in range(4)
            if i != j
        ]
        first = PIXELS[j] ** 2 * (1 - p) ** 2 * user[j] * (1 - user[j]) / (n[j] - 1)
        expected = np.sqrt((first + p**2 * sum(others)) / column.sum() ** 2)
        assert_allclose(olofsson.producers_accuracy().error[j], expected)


# Stehman (2014), Table 2: ten pixels in each of four strata that are not the map's classes.
STRATA = np.repeat([0, 1, 2, 3], 10)
MAPPED = np.array(["ABCD".index(c) for c in "AAAAAAABBBABBBBBBBBBBBCCCCCCBBDDDDDDDDDD"])
TRUE = np.array(["ABCD".index(c) for c in "AAAAACBABCABBBBBAABBCCCCCDDBBADDDDDDDCCB"])
SIZES = np.array([40_000, 30_000, 20_000, 10_000])


@pytest.fixture
def stehman():
    cells = SampleCells.of(MAPPED, TRUE, STRATA, classes=4, n_strata=4)
    return StratifiedSample(cells, SIZES, units=SIZES)


def test_example_of_stehman_2014(stehman):
    shares, overall = stehman.shares(), stehman.overall_accuracy()
    user, producer = stehman.users_accuracy(), stehman.producers_accuracy()
    assert_allclose(shares.value[[0, 2]], [0.35, 0.20])
    assert shares.error[[0, 2]].round(3).tolist() == [0.082, 0.064]
    assert (overall.value.round(2), overall.error.round(3)) == (0.63, 0.085)
    assert (user.value[1].round(3), user.error[1].round(3)) == (0.574, 0.125)
    assert producer.value[1].round(3) == 0.794
    # Printed as 0.114 in the paper; equation 28 with the data of its Table 2 gives 0.117 (see the next test).
    assert producer.error[1].round(3) == 0.117
    assert_allclose(stehman.matrix().value[1, 2], 0.08)


def unit_by_unit(y, x, strata, sizes, correct):
    """Ratio of two means and its standard error from single units: equations 24 to 28 of Stehman (2014)."""
    totals = {"y": 0.0, "x": 0.0}
    for h, size in enumerate(sizes):
        totals["y"] += size * y[strata == h].mean()
        totals["x"] += size * x[strata == h].mean()
    ratio, variance = totals["y"] / totals["x"], 0.0
    for h, size in enumerate(sizes):
        a, b = y[strata == h], x[strata == h]
        n = a.size
        spread = a.var(ddof=1) + ratio**2 * b.var(ddof=1) - 2 * ratio * np.cov(a, b)[0, 1]
        variance += size**2 * (1 - correct * n / size) * spread / n
    return ratio, np.sqrt(variance) / totals["x"]


@pytest.mark.parametrize("correct", [True, False])
def test_estimators_against_units(stehman, correct):
    sample = StratifiedSample(stehman.cells, SIZES, SIZES if correct else None)
    one = np.ones(40)
    for k in range(4):
        mapped, true = (np.equal(v, k).astype(float) for v in (MAPPED, TRUE))
        both, wrong = mapped * true, mapped * (1 - true)
        for estimate, y, x in (
            (sample.users_accuracy(), both, mapped),
            (sample.producers_accuracy(), both, true),
            (sample.false_positive_rate(), wrong, 1 - true),
            (sample.shares(), true, one),
        ):
            expected = unit_by_unit(y, x, STRATA, SIZES, correct)
            assert_allclose((estimate.value[k], estimate.error[k]), expected)
            assert estimate.count[k] == x.sum()


def test_strata_of_the_map_are_the_special_case(olofsson):
    i, j = np.nonzero(COUNTS)
    i, j = (np.repeat(v, COUNTS[COUNTS > 0]) for v in (i, j))
    general = StratifiedSample(SampleCells.of(i, j, i, classes=4, n_strata=4), PIXELS)
    for name in ("overall_accuracy", "users_accuracy", "producers_accuracy", "areas", "matrix"):
        assert_allclose(getattr(general, name)().value, getattr(olofsson, name)().value)
        assert_allclose(getattr(general, name)().error, getattr(olofsson, name)().error)


def test_simple_random_sampling_is_binomial():
    counts = np.array([[45, 5, 1], [10, 40, 2], [0, 3, 14]])
    sample = simple_random_sample(counts, size=1000.0)
    n, share = counts.sum(), counts.sum(axis=0) / counts.sum()
    right = np.trace(counts) / n
    assert_allclose(sample.overall_accuracy().error, np.sqrt(right * (1 - right) / (n - 1)))
    assert_allclose(sample.areas().value, 1000 * share)
    assert_allclose(sample.areas().error, 1000 * np.sqrt(share * (1 - share) / (n - 1)))
    user = np.diag(counts) / counts.sum(axis=1)
    # A ratio of two random counts: binomial in the number that was met, up to n/(n−1).
    binomial = np.sqrt(user * (1 - user) / counts.sum(axis=1) * n / (n - 1))
    assert_allclose(sample.users_accuracy().error, binomial)


def test_weights_that_are_equal_do_not_matter(stehman):
    heavy = SampleCells.of(MAPPED, TRUE, STRATA, classes=4, n_strata=4, weights=np.full(40, 7.5))
    assert_allclose(
        StratifiedSample(heavy, SIZES).producers_accuracy().error,
        StratifiedSample(stehman.cells, SIZES).producers_accuracy().error,
    )


def test_cells_of_parts_add_up(stehman):
    parts = [
        SampleCells.of(MAPPED[s], TRUE[s], STRATA[s], classes=4, n_strata=4)
        for s in (slice(13), slice(13, 40))
    ]
    assert_allclose((parts[0] + parts[1]).count, stehman.cells.count)


def population(rng, rows=300, columns=300):
    """A map of three classes with errors that depend on the class, and strata that are neither."""
    truth = rng.choice(3, size=(rows, columns), p=[0.1, 0.3, 0.6])
    wrong = rng.random(truth.shape) < np.array([0.3, 0.2, 0.1])[truth]
    mapped = np.where(wrong, rng.integers(3, size=truth.shape), truth)
    strata = np.where(rng.random(truth.shape) < 0.7, mapped, rng.integers(3, size=truth.shape))
    return truth.ravel(), mapped.ravel(), strata.ravel()


def draw(rng, strata, per_stratum):
    return np.concatenate([rng.choice(np.flatnonzero(strata == h), per_stratum, False) for h in range(3)])


@pytest.fixture
def few_draws(monkeypatch):
    monkeypatch.setattr("uncover.metrics.estimation.DRAWS", 1000)


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize("design", ["random", "by map", "by other strata"])
def test_intervals_cover(design):
    """Nominal 95 % intervals of areas and accuracies hold the truth of a known map at least so often."""
    rng = np.random.default_rng(7)
    truth, mapped, other = population(rng)
    strata = {"random": np.zeros_like(truth), "by map": mapped, "by other strata": other}[design]
    sizes = np.bincount(strata).astype(float)
    area = np.bincount(truth) / truth.size
    producer = np.array([np.mean(mapped[truth == k] == k) for k in range(3)])
    user = np.array([np.mean(truth[mapped == k] == k) for k in range(3)])
    hits, repeats, values = np.zeros((3, 3)), 300, []
    for _ in range(repeats):
        u = rng.choice(truth.size, 450, False) if design == "random" else draw(rng, strata, 150)
        cells = SampleCells.of(mapped[u], truth[u], strata[u], classes=3, n_strata=sizes.size)
        sample = StratifiedSample(cells, sizes, by_map=design == "by map")
        values.append(sample.shares().value)
        estimates = sample.shares(), sample.producers_accuracy(), sample.users_accuracy()
        for row, (estimate, goal) in enumerate(zip(estimates, (area, producer, user), strict=True)):
            low, high = estimate.interval(0.95)
            hits[row] += (low <= goal) & (goal <= high)
    assert (hits / repeats > 0.92).all() and hits.mean() / repeats < 0.985, hits / repeats
    bias = (np.mean(values, axis=0) - area) / (np.std(values, axis=0) / np.sqrt(repeats))
    assert (np.abs(bias) < 4).all()


@pytest.mark.usefixtures("few_draws")
def test_pixels_of_different_area():
    """Pixels drawn with equal chance in degrees, classes by latitude: areas are those on the ground."""
    rng = np.random.default_rng(3)
    north = np.linspace(70, 50, 201)
    row_area = band_area(north[1:], north[:-1], 0.1)
    area = np.repeat(row_area, 200)
    truth = (rng.random(area.size) < np.repeat(np.linspace(0.9, 0.1, 200), 200)).astype(int)
    mapped = np.where(rng.random(area.size) < 0.15, 1 - truth, truth)
    goal = area[truth == 1].sum()
    hits, naive, repeats = 0, 0, 400
    sizes = np.bincount(mapped, area)
    for _ in range(repeats):
        u = np.concatenate([rng.choice(np.flatnonzero(mapped == k), 200, False) for k in (0, 1)])
        for weights in (area[u], None):
            cells = SampleCells.of(mapped[u], truth[u], mapped[u], classes=2, n_strata=2, weights=weights)
            low, high = StratifiedSample(cells, sizes).areas().interval()
            inside = low[1] <= goal <= high[1]
            hits, naive = (hits + inside, naive) if weights is not None else (hits, naive + inside)
    assert abs(hits / repeats - 0.95) < 0.035, hits / repeats
    assert naive / repeats < 0.9  # what equal weights would give


def test_intervals_without_errors_are_those_of_the_samples():
    """Ten right of ten support no less than 0.69, whatever ninety of ninety do in a small stratum."""
    sample = stratified_by_map([[10, 0], [0, 90]], [0.9, 0.1])
    clopper_pearson = 0.025 ** (1 / np.array([10, 90]))
    low, high = sample.users_accuracy().interval()
    assert_allclose(low, clopper_pearson, rtol=0.02)
    assert (high == 1).all() and sample.users_accuracy().error.tolist() == [0, 0]
    overall = sample.overall_accuracy()
    assert 0.9 * clopper_pearson[0] + 0.09 < overall.interval()[0] < 0.9 * clopper_pearson[0] + 0.1
    assert overall.interval()[1] == 1
    low, high = sample.areas().interval()
    assert low[0] < 0.66 and high[1] > 0.34
    low, high = sample.areas().normal_interval()
    assert_allclose(high - low, 0)  # the usual interval, by its own name


@pytest.mark.parametrize("x", [0, 3, 10])
def test_intervals_of_shares_are_those_of_clopper_and_pearson(x):
    ends = scipy.stats.binomtest(x, 10).proportion_ci(0.95, "exact")
    assert_allclose(clopper_pearson_interval(x / 10, 10), (ends.low, ends.high))
    error = np.sqrt(x * (10 - x) / 1000)  # of ten independent samples
    estimate = Estimate(np.array(x / 10), np.array(error), np.array(10.0))
    assert_allclose(estimate.share_interval(), (ends.low, ends.high))


@pytest.mark.parametrize("x", [0, 1, 3, 12])
def test_one_stratum_has_the_interval_of_clopper_and_pearson(x):
    sample = simple_random_sample([[20 - x, x], [0, 0]])
    low, high = sample.users_accuracy().interval(0.9)
    ends = scipy.stats.binomtest(20 - x, 20).proportion_ci(0.9, "exact")
    assert_allclose((low[0], high[0]), (ends.low, ends.high), atol=0.006)
    low, high = sample.users_accuracy().complement().interval(0.9)
    assert_allclose((low[0], high[0]), (1 - ends.high, 1 - ends.low), atol=0.006)


def covered(mapped_shares, reference, n, repeats, rng):
    """Share of intervals that hold areas, producer's and overall accuracy; strata are the map's classes."""
    W, P, K = np.asarray(mapped_shares), np.asarray(reference), len(mapped_shares)
    area, right = W @ P, W * np.diag(P)
    hits = np.zeros((repeats, 2 * K + 1))
    for hit in hits:
        sample = stratified_by_map([rng.multinomial(n, p) for p in P], W)
        estimates = sample.shares(), sample.producers_accuracy(), sample.overall_accuracy()
        low, high = np.hstack([np.vstack(e.interval()).reshape(2, -1) for e in estimates])
        truth = np.concatenate([area, right / area, [right.sum()]])
        hit[:] = np.isnan(low) | (low - 1e-9 <= truth) & (truth <= high + 1e-9)
    return hits.mean(axis=0)


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize("n", [10, 25, 100])
def test_intervals_cover_on_a_map_that_is_nearly_right(n):
    """Value ± z·error held the areas in 0.14 to 0.83 of the cases."""
    reference = 0.99 * np.eye(3) + 0.005 * (1 - np.eye(3))
    assert (covered([0.1, 0.3, 0.6], reference, n, 100, np.random.default_rng(n)) > 0.92).all()


@pytest.mark.usefixtures("few_draws")
def test_intervals_cover_a_rare_class_with_omissions_in_large_ones():
    """Value ± z·error held its area in 0.30 of the cases, Wilson's interval its accuracy in 0.03 to 0.27."""
    reference = [[0.8, 0.1, 0.1], [0.002, 0.968, 0.03], [0.002, 0.03, 0.968]]
    assert (covered([0.01, 0.39, 0.6], reference, 50, 100, np.random.default_rng(1)) > 0.9).all()


def exact_coverage(sizes, n, p):
    """Probability that the interval of Σ W_h p_h holds it; all of it is in one stratum: a binomial sum."""
    sizes, shares = np.asarray(sizes), np.zeros(len(sizes))
    shares[0] = p
    samples = np.broadcast_to(n, sizes.shape).astype(float)
    held = 0.0
    for x in range(int(samples[0]) + 1):
        chance = scipy.stats.binom.pmf(x, samples[0], p)
        if chance > 1e-4:
            part = np.zeros_like(samples)
            part[0] = x
            possible = np.array([[True], [True], [False]]) & (sizes > 0)
            low, high = ratio_limits(np.stack([part, samples - part, 0 * part]), possible, sizes, 0.95)
            held += chance * (low <= sizes @ shares <= high)
    return held


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize(
    ("sizes", "n", "p"),
    [
        *(([0.3] + 14 * [0.05], 50, p) for p in (0.04, 0.045, 0.05)),
        ([0.4] + 10 * [0.06], 50, 0.05),
        ([0.5] + 5 * [0.1], 50, 0.055),
        ([0.5] + 5 * [0.1], 30, 0.1),
        ([0.01, 0.39, 0.6], 50, 0.98),  # area of a rare class that is mapped well and never left out
    ],
)
def test_intervals_cover_what_lies_in_one_stratum(sizes, n, p):
    """With an unseen error shared out over all strata: 0.856 to 0.932, and 0.636 for the last."""
    assert exact_coverage(sizes, n, p) > 0.95


@pytest.mark.usefixtures("few_draws")
def test_areas_and_accuracy_cover_errors_of_the_largest_class():
    """Through the estimators: 15 classes, errors of the first one going to the second."""
    W, n, p, held = np.array([0.3] + 14 * [0.05]), 50, 0.04, np.zeros(3)
    for x in range(12):
        counts = n * np.eye(15)
        counts[0, :2] = n - x, x
        sample = stratified_by_map(counts, W)
        low, high = np.hstack(
            [sample.shares().interval(), np.array([sample.overall_accuracy().interval()]).T]
        )
        truth = np.concatenate([W + 0.3 * p * np.eye(15)[1] - 0.3 * p * np.eye(15)[0], [1 - 0.3 * p]])
        held += scipy.stats.binom.pmf(x, n, p) * ((low <= truth) & (truth <= high))[[0, 1, 15]]
    assert (held > 0.95).all(), held


def test_many_strata_without_errors_do_not_add_up_to_many():
    """One unseen error in all, not one in each stratum: 100 right of 100."""
    low, _ = stratified_by_map(10 * np.eye(10), np.ones(10)).overall_accuracy().interval()
    assert 0.955 < low < 0.97  # of a simple random sample 0.964


def test_weights_and_finite_populations_change_the_samples_that_count(stehman):
    whole = StratifiedSample(stehman.cells, SIZES, units=np.full(4, 10))  # all pixels were looked at
    low, high = whole.overall_accuracy().interval()
    assert_allclose((low, high), 0.63, atol=1e-3)
    unequal = np.where(np.arange(40) % 2 == 0, 1.0, 3.0)
    cells = SampleCells.of(MAPPED, TRUE, STRATA, classes=4, n_strata=4, weights=unequal)
    width = np.diff(StratifiedSample(cells, SIZES).overall_accuracy().interval())
    assert width > np.diff(StratifiedSample(stehman.cells, SIZES).overall_accuracy().interval())


def test_classes_that_were_not_met_have_no_accuracy():
    counts = np.array([[20, 3, 0], [2, 30, 0], [0, 0, 0]])
    sample = simple_random_sample(counts)
    for estimate in (sample.users_accuracy(), sample.producers_accuracy()):
        assert np.isnan(estimate.value[2]) and np.isnan(estimate.error[2])
        assert np.isfinite(estimate.value[:2]).all()
        assert np.isnan(estimate.interval()).any(axis=0).tolist() == [False, False, True]
    assert sample.shares().value[2] == 0 < sample.shares().interval()[1][2] < 0.1


def test_a_mapped_class_that_the_reference_lacks_is_wrong_there_and_has_no_producers_accuracy():
    """Strata are the map's classes; the third was looked at five times and was another class each time."""
    sample = stratified_by_map([[20, 3, 0], [2, 30, 0], [4, 1, 0]], [0.5, 0.3, 0.2])
    users, producers, shares = sample.users_accuracy(), sample.producers_accuracy(), sample.shares()
    low, high = users.interval()
    assert (users.value[2], low[2]) == (0, 0)
    assert high[2] == pytest.approx(
        scipy.stats.beta.ppf(0.975, 1, 5), abs=0.01
    )  # Clopper and Pearson, 0 of 5
    assert np.isnan([producers.value[2], producers.error[2], *np.array(producers.interval())[:, 2]]).all()
    assert np.isfinite(producers.interval()).all(axis=0).tolist() == [True, True, False]
    assert shares.value[2] == 0 < shares.interval()[1][2]
    assert_allclose(shares.value.sum(), 1)


def test_a_map_of_one_class_is_right_everywhere():
    sample = simple_random_sample([[20]])
    for estimate in (sample.overall_accuracy(), sample.users_accuracy(), sample.shares()):
        assert np.ravel(estimate.interval()).tolist() == [1, 1]


def test_strata_without_samples_are_refused():
    with pytest.raises(ValueError, match="stratum 1 has no sample"):
        stratified_by_map([[20, 1], [0, 0]], [100, 900])
    with pytest.raises(ValueError, match="above 0"):
        stratified_by_map([[20, 1], [1, 5]], [100, 0])
    with pytest.warns(UserWarning, match="stratum 1 has one sample"):
        sample = stratified_by_map([[20, 1], [0, 1]], [100, 900])
    assert np.isnan(sample.overall_accuracy().error)
    low, high = sample.overall_accuracy().interval()
    assert low < 0.15 and high > 0.999  # the stratum of nine tenths has one sample
