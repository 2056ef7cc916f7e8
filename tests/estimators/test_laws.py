"""Laws that hold whatever the data: splits, permutations, scales, weights."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uncover import NIW, BayesianLDA, BayesianNB, BayesianQDA

ESTIMATORS = [BayesianQDA, BayesianLDA, BayesianNB]
KINDS = ["pooled", "repeats", "draws", "shared"]

every_estimator = pytest.mark.parametrize("cls", ESTIMATORS)
every_kind = pytest.mark.parametrize("kind", KINDS)
every_kind_in_parts = pytest.mark.parametrize("kind", ["pooled", "repeats", "shared"])  # draws need fit
pytestmark = [
    pytest.mark.filterwarnings("ignore:class\\(es\\) .* have no variance of their own:UserWarning"),
    pytest.mark.filterwarnings("ignore:feature\\(s\\) .* are constant and are ignored:UserWarning"),
    pytest.mark.filterwarnings("ignore:every feature has been constant so far:UserWarning"),
]


def draw(rng, n=24, R=3, p=3, K=3, scale=None, shift=0.0):
    """Samples in random order with at least two of each class, new samples, and labels."""
    y = np.concatenate([np.repeat(np.arange(K), 2), rng.integers(0, K, n - 2 * K)])
    y = rng.permutation(y)
    X = rng.normal(size=(n, 1, p)) + y[:, None, None] + 0.3 * rng.normal(size=(n, R, p))
    new = rng.normal(size=(6, R, p)) * 1.5 + 1
    return X, y, new


def assert_same_model(a, b, x, atol=1e-10):
    np.testing.assert_array_equal(a.classes_, b.classes_)
    np.testing.assert_allclose(a.class_count_, b.class_count_, rtol=1e-13)
    np.testing.assert_allclose(a.predict_proba(x), b.predict_proba(x), rtol=0, atol=atol)
    np.testing.assert_allclose(a.score_samples(x), b.score_samples(x), rtol=0, atol=10 * atol)
    np.testing.assert_allclose(a.typicality(x), b.typicality(x), rtol=0, atol=atol)
    for name in ("prior_", "posterior_"):
        for field in ("mean", "strength", "scale", "dof"):
            one, other = getattr(getattr(a, name), field), getattr(getattr(b, name), field)
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10)


@every_estimator
@every_kind_in_parts
@settings(max_examples=4)
@given(
    seed=st.integers(0, 2**32 - 1),
    cuts=st.lists(st.integers(1, 23), max_size=6, unique=True),
    weighted=st.booleans(),
    empty_class=st.booleans(),
)
def test_partial_fit_over_any_split_is_fit(cls, kind, seed, cuts, weighted, empty_class):
    rng = np.random.default_rng(seed)
    X, y, new = draw(rng)
    w = rng.uniform(0.5, 2.0, len(y)) if weighted else None
    classes = [0, 1, 2, 7] if empty_class else [0, 1, 2]
    whole = cls(realisations=kind).partial_fit(X, y, classes=classes, sample_weight=w)
    parts = cls(realisations=kind)
    for rows in np.split(np.arange(len(y)), sorted(cuts)):
        parts.partial_fit(X[rows], y[rows], classes=classes, sample_weight=None if w is None else w[rows])
    assert_same_model(parts, whole, new)
    if not empty_class:
        assert_same_model(cls(realisations=kind).fit(X, y, sample_weight=w), whole, new)


@every_estimator
def test_partial_fit_one_sample_at_a_time(cls, rng):
    X, y, new = draw(rng, R=1)
    parts = cls()
    for i in range(len(y)):
        parts.partial_fit(X[[i], 0], y[[i]], classes=[0, 1, 2])
    assert_same_model(parts, cls().fit(X[:, 0], y), new[:, 0])


@every_estimator
@every_kind_in_parts
def test_fit_starts_afresh_and_partial_fit_goes_on(cls, kind, rng):
    X, y, new = draw(rng)
    whole = cls(realisations=kind).fit(X, y)
    used = cls(realisations=kind).fit(rng.normal(size=(9, 2, 3)), np.arange(9) % 3)
    assert_same_model(used.fit(X, y), whole, new)
    clf = cls(realisations=kind).fit(X[:20], y[:20]).partial_fit(X[20:], y[20:])
    assert_same_model(clf, whole, new)


@every_estimator
@every_kind_in_parts
def test_a_class_without_samples_is_defined(cls, kind, rng):
    X, y, new = draw(rng)
    with_empty = cls(realisations=kind).partial_fit(X, y, classes=[0, 1, 2, 3])
    probability = with_empty.predict_proba(new)
    np.testing.assert_array_equal(probability[:, 3], 0.0)
    np.testing.assert_allclose(probability.sum(1), 1.0)
    assert (with_empty.predict(new) != 3).all()
    assert (with_empty.predict_log_proba(new)[:, 3] == -np.inf).all()
    np.testing.assert_array_equal(with_empty.typicality(new, per_class=True)[:, 3], 0.0)
    budget = with_empty.uncertainty(new, n_draws=10, n_true_values=4)
    np.testing.assert_allclose(budget.total, budget.model + budget.measurement + budget.overlap, atol=1e-9)
    draws = with_empty.sample_posterior(5)
    assert np.isnan(draws.mu[:, 3]).all()
    assert np.isfinite(draws.mu[:, :3]).all()
    assert (draws.phi[:, 3] > 0).all()


def test_a_class_without_samples_has_the_prior_where_one_is_given(rng):
    prior = NIW([0.0, 0.0, 0.0], 0.5, np.eye(3), 6.0)
    X, y, new = draw(rng, R=1)
    clf = BayesianQDA(prior=prior).partial_fit(X[:, 0], y, classes=[0, 1, 2, 3])
    probability = clf.predict_proba(new[:, 0])
    assert (probability[:, 3] > 0).all()
    log_odds = np.log(probability[:, 3] / probability[:, 0])
    t = clf.posterior_[0].predictive().log_prob(new[:, 0])
    expected = np.log(1 / (1 + (y == 0).sum())) + prior.predictive().log_prob(new[:, 0]) - t
    np.testing.assert_allclose(log_odds, expected, rtol=1e-10)


@every_estimator
@every_kind
@settings(max_examples=4)
@given(seed=st.integers(0, 2**32 - 1), order=st.permutations([0, 1, 2, 3]))
def test_permuting_classes_permutes_columns(cls, kind, seed, order):
    X, y, new = draw(np.random.default_rng(seed), K=4)
    names = np.array(order)
    a, b = cls(realisations=kind).fit(X, y), cls(realisations=kind).fit(X, names[y])
    np.testing.assert_allclose(b.predict_proba(new)[:, names], a.predict_proba(new), atol=1e-11)
    np.testing.assert_allclose(
        b.typicality(new, per_class=True)[:, names], a.typicality(new, per_class=True), atol=1e-11
    )


@every_estimator
@every_kind
@settings(max_examples=4)
@given(
    seed=st.integers(0, 2**32 - 1), width=st.sampled_from([0.0, 1.0, 8.0]), far=st.sampled_from([0.0, 1e3])
)
def test_shifting_and_rescaling_features_changes_nothing(cls, kind, seed, width, far):
    """Scales of 1e-8 … 1e8, each feature its own; shifts of up to 1000 standard deviations."""
    rng = np.random.default_rng(seed)
    X, y, new = draw(rng)
    scale = 10.0 ** rng.uniform(-width, width, 3)
    shift = far * rng.normal(size=3)
    a = cls(realisations=kind).fit(X, y)
    b = cls(realisations=kind).fit(scale * (X + shift), y)
    moved = scale * (new + shift)
    np.testing.assert_allclose(b.predict_proba(moved), a.predict_proba(new), rtol=0, atol=1e-9)
    np.testing.assert_allclose(b.typicality(moved), a.typicality(new), rtol=0, atol=1e-9)
    density = b.score_samples(moved) + np.log(scale).sum()
    np.testing.assert_allclose(density, a.score_samples(new), rtol=0, atol=1e-8)


@every_estimator
@every_kind
@settings(max_examples=4)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_row_twice_is_a_row_of_weight_two(cls, kind, seed):
    rng = np.random.default_rng(seed)
    X, y, new = draw(rng)
    weight = rng.integers(0, 4, len(y))
    weight[[np.flatnonzero(y == k)[0] for k in range(3)]] = 2
    twice = cls(realisations=kind).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    weighed = cls(realisations=kind).fit(X, y, sample_weight=weight)
    assert_same_model(weighed, twice, new)


@every_estimator
@every_kind
def test_the_order_of_samples_does_not_matter(cls, kind, rng):
    X, y, new = draw(rng, n=200)
    order = rng.permutation(200)
    assert_same_model(cls(realisations=kind).fit(X[order], y[order]), cls(realisations=kind).fit(X, y), new)


@every_estimator
@every_kind
def test_predictions_do_not_depend_on_the_company(cls, kind, rng):
    X, y, new = draw(rng)
    clf = cls(realisations=kind).fit(X, y)
    many = np.concatenate([new] * 50)
    np.testing.assert_allclose(clf.predict_proba(many)[:6], clf.predict_proba(new), atol=1e-13)


@pytest.mark.filterwarnings("ignore:X has 1 realisation of each sample")
@every_estimator
@every_kind
def test_one_realisation_is_none(cls, kind, rng):
    X, y, new = draw(rng, R=1)
    with_axis, without = cls(realisations=kind).fit(X, y), cls(realisations=kind).fit(X[:, 0], y)
    plain = cls().fit(X[:, 0], y)
    for x in (new, new[:, 0]):
        np.testing.assert_array_equal(with_axis.predict_proba(x), without.predict_proba(x))
        np.testing.assert_allclose(with_axis.predict_proba(x), plain.predict_proba(x), atol=1e-13)


@every_estimator
def test_float32_stays_float32(cls, rng):
    X, y, new = draw(rng, R=1)
    narrow = cls().fit(X[:, 0].astype(np.float32), y)
    probability = narrow.predict_proba(new[:, 0].astype(np.float32))
    assert probability.dtype == np.float32
    wide = cls().fit(X[:, 0].astype(np.float32).astype(float), y)
    expected = wide.predict_proba(new[:, 0].astype(np.float32).astype(float))
    np.testing.assert_allclose(probability, expected, atol=2e-7)


@every_estimator
@every_kind
def test_log_probabilities_are_exact_where_probabilities_vanish(cls, kind, rng):
    X, y, _ = draw(rng, n=600, K=2)
    X = X + 60.0 * y[:, None, None]
    clf = cls(realisations=kind).fit(X, y)
    logs, probability = clf.predict_log_proba(X[:50]), clf.predict_proba(X[:50])
    assert np.isfinite(logs).all()
    assert (logs.min(1) < -200).all()
    np.testing.assert_allclose(np.exp(logs), probability, atol=1e-15)
