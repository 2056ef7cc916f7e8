"""Typicality is an exact p-value for each class of samples enough, and a safe one for the others."""

import warnings

import numpy as np
import pytest
from scipy import stats

from uncover import NIW, BayesianLDA, BayesianNB, BayesianQDA, load_model
from uncover.measurement.summary import Summariser

ESTIMATORS = [BayesianQDA, BayesianLDA, BayesianNB]


def fit(cls, rng, p=4):
    y = np.repeat([0, 1, 2], [3, 8, 40])
    root = rng.normal(size=(p, p))
    X = rng.normal(size=(len(y), p)) @ root.T + 2.0 * y[:, None]
    return cls().fit(X, y)


PRIORS = ["weak", "evidence", "jeffreys", NIW(np.full(3, 9.0), 5.0, 40.0 * np.eye(3), 30.0)]


def hotelling(X, x):
    """p-values of points x for a class of samples X, by scipy's F distribution."""
    n, p = X.shape
    d = x - X.mean(0)
    square = n / (n + 1) * np.einsum("ij,jk,ik->i", d, np.linalg.inv(np.cov(X.T)), d)
    return stats.f.sf((n - p) / (p * (n - 1)) * square, p, n - p)


@pytest.mark.parametrize("prior", PRIORS, ids=["weak", "evidence", "jeffreys", "given"])
def test_a_class_of_more_samples_than_features_has_hotellings_p_value(prior, rng):
    y = np.repeat([0, 1], [6, 25])
    X = rng.normal(size=(31, 3)) @ rng.normal(size=(3, 3)) + 3.0 * y[:, None]
    clf = BayesianQDA(prior=prior).fit(X, y)
    x = 4.0 * rng.normal(size=(50, 3))
    wanted = np.stack([hotelling(X[y == k], x) for k in (0, 1)], axis=1)
    np.testing.assert_allclose(clf.typicality(x, per_class=True), wanted, rtol=0.06)


def flagged(make, sizes, p, sets, level, rng, spread=1.0):
    """Share of new members of each class that is below the level, over training sets too."""
    count = np.zeros(len(sizes))
    roots = [
        spread**k * np.linalg.cholesky(0.9 * np.ones((p, p)) + 0.1 * np.eye(p)) for k in range(len(sizes))
    ]
    y = np.repeat(np.arange(len(sizes)), sizes)
    for _ in range(sets):
        X = np.stack([roots[k] @ rng.normal(size=p) for k in y]) + 4.0 * y[:, None]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf = make().fit(X, y)
        for k, root in enumerate(roots):
            x = 4.0 * k + rng.normal(size=(20, p)) @ root.T
            count[k] += (clf.typicality(x, per_class=True)[:, k] < level).sum()
    return count / (20 * sets)


@pytest.mark.parametrize(
    ("make", "p"),
    [
        (lambda: BayesianQDA(), 4),
        (lambda: BayesianQDA(prior="evidence"), 4),
        (lambda: BayesianLDA(), 4),
        (lambda: BayesianNB(), 1),
    ],
)
def test_as_many_new_members_as_stated_are_below_a_p_value(make, p):
    found = flagged(make, [6, 12], p, 300, 0.05, np.random.default_rng(3))
    np.testing.assert_allclose(found, 0.05, atol=0.015)


@pytest.mark.parametrize("prior", ["weak", "evidence"])
@pytest.mark.parametrize("sizes", [[2, 8, 30], [4, 4, 4]])
def test_a_class_of_few_samples_is_never_flagged_too_often(prior, sizes):
    rng = np.random.default_rng(4)
    few = np.array(sizes) <= 8
    for level in (0.05, 0.01):
        found = flagged(lambda: BayesianQDA(prior=prior), sizes, 8, 150, level, rng, spread=2.0)
        assert (found[few] <= level).all()


@pytest.mark.filterwarnings("ignore:class.es. .* have no variance")
@pytest.mark.parametrize("cls", [BayesianQDA, BayesianNB])
def test_a_class_of_one_sample_is_not_flagged_too_often(cls):
    """Standard deviations of classes differ by exp(±0.5): 0.16 (NB) lay below 0.05, 0.09 below 0.01."""
    rng, p, below = np.random.default_rng(5), 5, []
    y = np.r_[np.repeat([0, 1, 2], 50), 3]
    for _ in range(60):
        deviation, centre = np.exp(0.5 * rng.choice([-1.0, 1.0], 4)), 20 * rng.normal(size=(4, p))
        clf = cls().fit(centre[y] + deviation[y][:, None] * rng.normal(size=(151, p)), y)
        new = centre[3] + deviation[3] * rng.normal(size=(40, p))
        p_value = clf.typicality(new, per_class=True)[:, 3]
        below.append([(p_value < level).mean() for level in (0.05, 0.01)])
        assert clf.typicality(centre[3] + [[100.0] * p], per_class=True)[0, 3] < 0.05
    assert (np.mean(below, axis=0) <= [0.05, 0.01]).all()


def test_a_feature_that_was_constant_counts_when_it_changes(rng):
    X = np.column_stack([rng.normal(size=99), np.full(99, 7.0)])
    with pytest.warns(UserWarning, match="constant"):
        clf = BayesianQDA().fit(X, np.arange(99) % 2)
    same, other = clf.typicality([[0.0, 7.0], [0.0, 7.1]])
    assert same > 0.5
    assert other == pytest.approx(0.01)  # the only one of 100 that differs
    planes = np.array([[[0.0, 0.0], [7.0, 7.1]]])
    np.testing.assert_allclose(Summariser(clf).summarise(planes).typicality, [same, other])


@pytest.mark.parametrize("cls", [BayesianQDA, BayesianLDA, BayesianNB])
def test_a_constant_feature_under_a_given_prior_varies_as_the_prior_says(cls, rng):
    X, y = rng.normal(size=(20, 2)), np.repeat([0, 1], 10)
    X[:, 1] = 0.5
    model = cls(prior=NIW(np.zeros(2), 1.0, np.eye(2), 5.0)).fit(X, y)
    near, far = model.typicality([[0.0, 0.5], [0.0, 50.0]])
    assert near > 0.3 and far < 0.01


@pytest.mark.filterwarnings("ignore:feature.s. .* are constant")
def test_a_constant_beside_a_copy_leaves_typicality_of_the_weak_prior(rng):
    """The weak prior keeps the copy; before, the correlations of the features in use could not be solved."""
    x, y = rng.normal(size=(99, 1)), np.arange(99) % 2
    X = np.c_[x, x, np.full(99, 7.0)]
    found = BayesianQDA().fit(X, y).typicality(X + np.array([0.0, 0.0, 0.1]))
    expected = BayesianQDA().fit(X[:, :2], y).typicality(X[:, :2])
    np.testing.assert_allclose(found, np.minimum(expected, 0.01))


@pytest.mark.filterwarnings("ignore:feature.s. .* follow from the others")
@pytest.mark.parametrize("prior", ["evidence", "jeffreys"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_members_that_keep_a_dependence_keep_their_p_values(prior, dtype, rng):
    """Only an input whose sum is no sum any more is new: before, every one had at most 1/121."""
    y = np.arange(120) % 3
    x = (rng.normal(size=(240, 2)) + 3 * np.r_[y, y][:, None]).astype(dtype)
    X = np.c_[x, x.sum(1)]
    clf = BayesianQDA(prior=prior).fit(X[:120], y)
    expected = BayesianQDA(prior=prior).fit(x[:120], y).typicality(x)
    np.testing.assert_allclose(clf.typicality(X), expected, rtol=1e-6)
    np.testing.assert_allclose(Summariser(clf).summarise(X.T[None]).typicality, expected, rtol=1e-4)
    broken = X + np.array([0, 0, 1e-3], dtype)
    np.testing.assert_allclose(clf.typicality(broken), np.minimum(expected, 1 / 121), rtol=1e-6)
    assert (clf.typicality(broken, per_class=True) <= 1 / 121 + 1e-9).all()


@pytest.mark.filterwarnings("ignore:feature.s. .* (follow from the others|are constant)")
def test_a_missing_value_breaks_no_dependence_but_hides_no_other(rng):
    x = rng.normal(size=(90, 2))
    X = np.c_[x, x.sum(1), np.full(90, 7.0)]
    clf = BayesianQDA(prior="evidence", missing="marginalise").fit(X, np.arange(90) % 2)
    same, other = clf.typicality([[0.0, np.nan, 5.0, 7.0], [0.0, np.nan, 5.0, 8.0]])
    assert same > 0.5
    assert other == pytest.approx(1 / 91)


def test_features_that_depend_on_each_other_have_a_typicality(rng):
    X = rng.normal(size=(60, 2))
    X = np.column_stack([X, X.sum(1)])
    clf = BayesianQDA().fit(X, np.arange(60) % 2)
    typical = clf.typicality(X)
    assert (typical < 0.05).mean() <= 0.05
    assert clf.typicality([[30.0, 30.0, 60.0]]) < 1e-3


def test_the_largest_over_the_classes_is_the_typicality(rng):
    clf = fit(BayesianQDA, rng)
    x = 3 * rng.normal(size=(9, 4))
    np.testing.assert_array_equal(clf.typicality(x), clf.typicality(x, per_class=True).max(1))


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("kind", ["pooled", "repeats", "draws", "shared"])
def test_what_looks_like_nothing_is_seen(cls, kind, rng):
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 4, 2)) * 0.2 + y[:, None, None] + rng.normal(size=(90, 1, 2))
    clf = cls(realisations=kind).fit(X, y)
    far, near = clf.typicality(np.full((1, 4, 2), 100.0)), clf.typicality(np.full((1, 4, 2), 1.0))
    assert far < 1e-6
    assert near > 0.3
    everything = clf.typicality(X, per_class=True)
    assert ((everything >= 0) & (everything <= 1)).all()


def test_of_realisations_the_mean_is_taken(rng):
    clf = fit(BayesianQDA, rng)
    x = 3 * rng.normal(size=(5, 7, 4))
    each = np.stack([clf.typicality(x[:, r], per_class=True) for r in range(7)])
    np.testing.assert_allclose(clf.typicality(x, per_class=True), each.mean(0), rtol=1e-12)


def test_repeats_are_typical_at_any_number_of_repeats():
    """New members measured with fewer or more repeats than the training data: still near uniform."""
    rng = np.random.default_rng(5)
    y = np.repeat([0, 1], 3000)
    truth = rng.normal(size=(6000, 2)) + 2.0 * y[:, None]
    X = truth[:, None, :] + 1.0 * rng.normal(size=(6000, 4, 2))
    clf = BayesianQDA(realisations="repeats").fit(X, y)
    new = rng.normal(size=(8000, 2))
    for R in (1, 2, 4, 8, 50):
        x = new[:, None, :] + 1.0 * rng.normal(size=(8000, R, 2))
        p_value = clf.typicality(x, per_class=True)[:, 0]
        for a in (0.05, 0.5):
            assert (p_value <= a).mean() == pytest.approx(a, abs=0.02)


def noisy_class(rng, n=12, p=3):
    y = np.repeat([0, 1], n)
    return rng.normal(size=(2 * n, p)) @ rng.normal(size=(p, p)) + 3.0 * y[:, None], y


@pytest.mark.parametrize("prior", ["weak", "evidence"])
@pytest.mark.parametrize("size", [1e-12, 0.3, 5.0])
@pytest.mark.filterwarnings("ignore:feature .* typical standard uncertainty")
@pytest.mark.filterwarnings("ignore:taking the noise out")
def test_inputs_as_noisy_as_the_samples_have_hotellings_p_value(prior, size, rng):
    """With the same noise they are exchangeable with the samples, whatever part of the spread is noise."""
    X, y = noisy_class(rng)
    x, noise = 4.0 * rng.normal(size=(30, 3)), size * np.array([1.0, 2.0, 0.5])
    clf = BayesianQDA(prior=prior).fit(X, y, X_cov=noise)
    wanted = np.stack([hotelling(X[y == k], x) for k in (0, 1)], axis=1)
    np.testing.assert_allclose(clf.typicality(x, X_cov=noise, per_class=True), wanted, rtol=1e-8)


@pytest.mark.parametrize("cls", [BayesianQDA, BayesianLDA])
def test_inputs_of_very_large_noise_have_the_p_value_of_the_noise(cls, rng):
    X, y = noisy_class(rng)
    x, noise = 3e4 * rng.normal(size=(30, 3)), 1e8 * np.array([1.0, 4.0, 9.0])
    clf = cls().fit(X, y, X_cov=np.full(3, 0.1))
    wanted = stats.chi2.sf((x**2 / noise).sum(1), 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = clf.typicality(x, X_cov=noise, per_class=True)
    np.testing.assert_allclose(found, np.stack([wanted, wanted], axis=1), atol=2e-3)


@pytest.mark.parametrize(
    ("cls", "n", "factor", "low"),
    [
        (BayesianQDA, 30, 0.5, 0.035),
        (BayesianQDA, 30, 3.0, 0.035),
        (BayesianQDA, 8, 0.0, 0.0),
        (BayesianQDA, 8, 2.0, 0.035),
        (BayesianLDA, 8, 2.0, 0.035),
        (BayesianNB, 30, 2.0, 0.035),
    ],
)
def test_as_many_new_members_as_stated_are_below_a_p_value_with_noise(cls, n, factor, low):
    """Noise as large as the class; 0.003 to 0.21 lay below 0.05. Exact inputs may be below more rarely."""
    rng, y, below = np.random.default_rng(6), np.repeat([0, 1], n), []
    for _ in range(120):
        X = np.sqrt(2.0) * rng.normal(size=(2 * n, 3)) + 4.0 * y[:, None]
        x = np.sqrt(1.0 + factor) * rng.normal(size=(40, 3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf = cls().fit(X, y, X_cov=np.ones(3))
            below.append(clf.typicality(x, X_cov=np.full(3, factor), per_class=True)[:, 0] < 0.05)
    assert low <= np.mean(below) <= 0.065


@pytest.mark.parametrize(("p", "n"), [(1, 2), (1, 3), (3, 4)])
def test_few_samples_do_not_flag_more_noisy_members_than_stated(p, n):
    """0.111, 0.078 and 0.069 lay below 0.05, because the samples may lie close by chance."""
    rng, y, below = np.random.default_rng(7), np.repeat([0, 1], [n, 20]), []
    for _ in range(300):
        X = np.sqrt(1.1) * rng.normal(size=(n + 20, p)) + 3.0 * y[:, None]
        x = np.sqrt(1.2) * rng.normal(size=(20, p))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf = BayesianQDA().fit(X, y, X_cov=np.full(p, 0.1))
            below.append(clf.typicality(x, X_cov=np.full(p, 0.2), per_class=True)[:, 0] < 0.05)
    assert 0.005 < np.mean(below) <= 0.055


def test_an_input_without_noise_is_read_as_one_of_next_to_none(rng):
    """Two ways: one density for all inputs, matched at 0.01, and the distribution of each input."""
    y = np.arange(80) % 2
    X = rng.normal(size=(80, 3)) + 3.0 * y[:, None]
    clf, x = BayesianQDA().fit(X, y, X_cov=np.full(3, 0.2)), rng.normal(size=(200, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact = clf.typicality(x, per_class=True)
        nearly = clf.typicality(x, X_cov=np.full(3, 1e-12), per_class=True)
    np.testing.assert_allclose(exact, nearly, atol=0.03)


def test_a_model_file_keeps_the_noise_of_its_samples(rng, tmp_path):
    X, y = noisy_class(rng)
    noise = rng.uniform(0.1, 1.0, (24, 3))
    clf = BayesianQDA().fit(X, y, X_cov=noise)
    clf.save(tmp_path / "m.uncover")
    again = load_model(tmp_path / "m.uncover")
    np.testing.assert_array_equal(clf.typicality(X, X_cov=noise), again.typicality(X, X_cov=noise))
