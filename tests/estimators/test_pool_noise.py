"""The recommended classifier with known noise, missing features, weights and class shares."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from uncover import BayesianClassifier, BayesianQDA, Measured, load_model
from uncover.bayes.covariances import Covariances
from uncover.measurement.observation import Observation
from uncover.measurement.pool_prediction import PoolPrediction
from uncover.measurement.prediction import predict
from uncover.models.pool import TrainingNoise

pytestmark = pytest.mark.filterwarnings("ignore:feature .* same units")
NOISE = np.array([0.16, 0.16])


def draw(rng, n):
    y = np.arange(n) % 2
    side = np.where(y == 1, rng.choice([-2.0, 2.0], n), 0.0)
    truth = np.stack([side, 0.5 * y], axis=1) + 0.5 * rng.normal(size=(n, 2))
    return truth, truth + 0.4 * rng.normal(size=(n, 2)), y


@pytest.fixture(scope="module")
def problem():
    return draw(np.random.default_rng(3), 160)


@pytest.fixture(scope="module")
def clf(problem):
    _, X, y = problem
    return BayesianClassifier(missing="marginalise").fit(X, y, X_cov=NOISE)


@pytest.fixture(scope="module")
def plain(problem):
    _, X, y = problem
    return BayesianClassifier(missing="marginalise").fit(X, y)


def test_members_are_asked_at_draws_of_the_true_value(clf, problem):
    """The probabilities of a member are the mean of what it says of draws of the true value."""
    _, X, _ = problem
    found = predict(clf.model_, Observation(X[:3], Covariances.read(NOISE, 3, 2)))
    i, member = next((i, m) for i, m in enumerate(clf.model_.members) if m.reading == "draws")
    chi = found.true_values
    assert chi.shape == (3, 128, 2)
    joint = member.model.log_joint(chi.reshape(-1, 2)).reshape(3, 128, 2) / member.temperature
    P = np.exp(joint - np.logaddexp.reduce(joint, axis=2, keepdims=True)).mean(1)
    assert_allclose(found.probabilities[i], P, atol=1e-12)


def test_so_many_draws_are_enough(clf, problem):
    """Errors of probabilities by as many draws as are asked for, against 8,192, and by 128 alone."""
    _, X, _ = problem
    found = clf.predict_proba(X, NOISE)
    seen = Observation(X, Covariances.read(NOISE, len(X), 2))
    few, many = (PoolPrediction(clf.model_, seen, asked=n) for n in (128, 8192))
    many = many.probability()
    few = few.pool.answers(few.probabilities, few.gates)[0]
    assert np.sqrt(np.mean((found - many) ** 2)) < 1e-3
    assert np.abs(found - many).max() < 0.5 * np.abs(few - many).max()


def test_what_is_said_of_a_sample_does_not_depend_on_the_others(clf, problem, monkeypatch):
    _, X, _ = problem
    X = X[:20].copy()
    X[3, 0] = np.nan
    together = clf.predict_proba(X, NOISE)
    monkeypatch.setattr("uncover.measurement.pool_prediction._DRAWN_NUMBERS", 128 * 4 * 7)  # blocks of 7
    assert_allclose(clf.predict_proba(X, NOISE), together, atol=1e-12)
    assert_allclose(clf.predict_proba(X[[5]], NOISE), together[[5]], atol=1e-12)


def test_it_is_better_to_know_the_noise(clf, plain):
    """Also where the noise of new inputs is another one, which only the one that knows it can see."""
    truth, _, y = draw(np.random.default_rng(4), 600)
    rng = np.random.default_rng(5)

    def loss(P):
        return -np.log(P[np.arange(len(y)), y]).mean()

    for deviation, least in ((0.4, -0.02), (0.1, 0.0), (1.0, 0.05)):
        X = truth + deviation * rng.normal(size=truth.shape)
        told = loss(clf.predict_proba(X, np.full(2, deviation**2)))
        assert loss(plain.predict_proba(X)) - told > least


def test_members_learn_through_noise(clf):
    """A class of two components is described by them alone, and no kernels ignore the noise."""
    assert {"BayesianMDA", "kernels by relevance"} <= set(clf.members_)
    assert not {"BayesianQDA", "kernels by relevance, noise ignored"} & set(clf.members_)


def test_members_that_ignore_the_noise_are_heard_at_equal_noise():
    training = TrainingNoise(np.array([0.1, 0.2]), np.array([0.1, 0.4]), np.array([1.0, 1.0]))
    same = np.array([[0.1, 0.2], [0.1, 0.3], [0.1, 0.4]])
    assert_array_equal(training.resemblance(same), 1.0)
    other = training.resemblance(np.array([[0.1, 0.5], [0.1, 1.0], [0.1, 9.0], [0.0, 0.2], [0.0, 0.0]]))
    assert (np.diff(other[:3]) < 0).all() and other[2] < 0.01
    assert (other[3:] > 0.7).all() and (other < 1).all()


def test_uncertainties_that_tell_the_class_are_used(rng):
    y = np.arange(200) % 2
    deviation = np.where(y, 0.3, 0.6)[:, None] * np.exp(0.2 * rng.normal(size=(200, 2)))
    X = rng.normal(size=(200, 2)) + deviation * rng.normal(size=(200, 2))
    clf = BayesianClassifier().fit(X, y, X_cov=deviation**2)
    assert any(member.reading == "uncertainties" for member in clf.model_.members)
    assert (clf.predict(X, deviation**2) == y).mean() > 0.8
    assert all("with uncertainties" in n for n, m in zip(clf.members_, clf.model_.members, strict=True)
               if m.reading == "uncertainties")  # fmt: skip
    more, n = 4.0 * deviation[:5] ** 2, len(clf.members_)
    gates = clf.model_.gates([np.zeros((5, 1, 2))] * n, more)
    bare = replace(clf.model_, noise=None).gates([np.zeros((5, 1, 2))] * n, more)
    heard = [m.reading == "uncertainties" for m in clf.model_.members]
    assert_allclose(gates[heard], bare[heard] * clf.model_.noise.resemblance(more) ** 0.25)


@pytest.mark.parametrize("kind", ["draws", "repeats"])
def test_realisations_that_tell_the_noise_are_values_with_noise(kind, rng):
    """Nearly as with the covariance that they were drawn with, and in another number at prediction."""
    y = np.arange(90) % 2
    truth = rng.normal(size=(90, 2)) + 2.0 * y[:, None]
    measured = truth + 0.5 * rng.normal(size=(90, 2))
    if kind == "draws":
        X, known = measured[:, None] + 0.5 * rng.normal(size=(90, 40, 2)), 0.25
        X += (measured - X.mean(1))[:, None]
    else:
        X, known = truth[:, None] + rng.normal(size=(90, 4, 2)), 0.25
        measured = X.mean(1)
    found = BayesianClassifier(realisations=kind).fit(X, y)
    stated = BayesianClassifier().fit(measured, y, X_cov=[known, known])
    expected = stated.predict_proba(measured, [known, known])
    assert np.abs(found.predict_proba(X) - expected).mean() < 0.05
    fewer = found.predict_proba(X[:, :2])
    assert fewer.shape == (90, 2) and np.isfinite(fewer).all()
    assert len({m.reading for m in found.model_.members}) > 1


def test_noise_in_prediction_only(plain, problem):
    """Training values are taken as true; all members see the noise of the new input."""
    _, X, _ = problem
    sure, unsure = plain.predict_proba(X), plain.predict_proba(X, X_cov=[1.0, 1.0])
    assert unsure.max(1).mean() < sure.max(1).mean() - 0.05
    budget = plain.uncertainty(X[:20], [1.0, 1.0], n_draws=50, n_true_values=128)
    assert (budget.measurement > 0).all()
    assert_allclose(budget.measurement + budget.model + budget.overlap, budget.total, atol=1e-12)


def test_noise_in_training_only(clf, problem):
    """The new value is exact, and said so; members that know noisy values only lose weight."""
    truth, _, _ = problem
    with pytest.warns(UserWarning, match="taken as exact"):
        P = clf.predict_proba(truth)
    assert_allclose(P, clf.predict_proba(truth, X_cov=[1e-12, 1e-12]), atol=1e-4)


def test_huge_noise_leaves_the_class_shares(clf, plain, problem):
    _, X, _ = problem
    for model in (clf, plain):
        assert_allclose(model.predict_proba(X[:5], X_cov=np.full(2, 1e10)), 0.5, atol=1e-6)


@pytest.mark.parametrize("noise", [NOISE, None])
def test_huge_noise_leaves_uneven_class_shares(noise, rng):
    y = np.repeat([0, 1, 2], [88, 27, 5])
    X = rng.normal(size=(120, 2)) + 2.0 * y[:, None]
    clf = BayesianClassifier(missing="marginalise").fit(X, y, X_cov=noise)
    shares = np.array([89, 28, 6]) / 123
    assert_allclose(clf.predict_proba([[1.0, 1.0]], X_cov=np.full(2, 1e10))[0], shares, atol=1e-6)
    with pytest.warns(UserWarning, match="no feature"):
        assert_allclose(clf.predict_proba([[np.nan, np.nan]], X_cov=noise)[0], shares, atol=1e-6)


@pytest.mark.slow
def test_the_measurement_part_where_noise_is_larger_than_the_classes():
    """Against the information of the true value by simulation, the true classes being known."""
    rng, variance, found, expected = np.random.default_rng(5), 2.0, [], []

    def sample(n):
        y = np.arange(n) % 2
        truth = rng.normal(size=(n, 2)) + 1.5 * y[:, None]
        return truth + np.sqrt(variance) * rng.normal(size=(n, 2)), y, truth

    def entropy_of(x, spread):  # of the class, for equal covariances: P(second class) by its log odds
        P = expit((1.5 * x.sum(1) - 2.25) / spread)
        return -(P * np.log(P) + (1 - P) * np.log1p(-P)).mean()

    for _ in range(3):
        X, y, _ = sample(600)
        new, _, truth = sample(20_000)
        clf = BayesianClassifier().fit(X, y, X_cov=[variance] * 2)
        found.append(clf.uncertainty(new[:300], X_cov=[variance] * 2).measurement.mean())
        expected.append(entropy_of(new, 1.0 + variance) - entropy_of(truth, 1.0))
    assert np.mean(found) == pytest.approx(np.mean(expected), rel=0.25)


@pytest.mark.parametrize("lacking", [[0], [1], [0, 1]])
def test_a_missing_feature_is_one_of_endless_noise(clf, plain, problem, lacking):
    _, X, _ = problem
    X, noise = X[:10].copy(), np.tile(NOISE, (10, 1))
    noise[:, lacking] = 1e9
    expected = clf.predict_proba(np.where(noise > 1, 0.0, X), noise)
    X[:, lacking] = np.nan
    with pytest.warns(UserWarning, match="no feature") if len(lacking) == 2 else _nothing():
        found, of_plain = clf.predict_proba(X, NOISE), plain.predict_proba(X)
    assert_allclose(found, expected, atol=0.02)
    assert np.isfinite(of_plain).all()
    if len(lacking) == 2:
        assert_allclose(of_plain, 0.5, atol=0.06)


def _nothing():
    from contextlib import nullcontext

    return nullcontext()


def test_missing_features_agree_with_the_closed_form(rng):
    y = np.arange(200) % 2
    X = rng.normal(size=(200, 3)) + 1.5 * y[:, None]
    new = X[:60].copy()
    new[:, 1] = np.nan
    ours = BayesianClassifier(missing="marginalise").fit(X, y).predict_proba(new)
    closed = BayesianQDA(prior="evidence", missing="marginalise").fit(X, y).predict_proba(new)
    assert np.abs(ours - closed).mean() < 0.06


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        (np.ones(3), "does not fit"),
        (np.ones((4, 2)), "does not fit"),
        (-np.ones(2), "negative"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "indefinite"),
        (np.array([1.0, np.nan]), "NaN"),
    ],
)
def test_covariances_that_are_none_are_refused(noise, words, clf, problem):
    _, X, y = problem
    with pytest.raises(ValueError, match=words):
        BayesianClassifier().fit(X, y, X_cov=noise)
    with pytest.raises(ValueError, match=words):
        clf.predict_proba(X, X_cov=noise)


def test_ten_samples_with_noise(rng):
    y = np.arange(10) % 2
    X = rng.normal(size=(10, 2)) + 2.0 * y[:, None]
    P = BayesianClassifier().fit(X, y, X_cov=[0.2, 0.2]).predict_proba(X, [0.2, 0.2])
    assert np.isfinite(P).all() and (P[np.arange(10), y] > 0.5).mean() > 0.6


def test_groups_of_one_class_with_noise(problem):
    _, X, y = problem
    groups = 10 * y + np.arange(160) // 32
    P = BayesianClassifier().fit(X, y, X_cov=NOISE, groups=groups).predict_proba(X, NOISE)
    assert np.isfinite(P).all()


def test_a_class_prior_shifts_the_log_odds(problem, plain):
    _, X, y = problem
    shifted = BayesianClassifier(class_prior=[1e6, 1.0]).fit(X, y)
    expected = np.log((80 + 1e6) / 81) - np.log(81 / 81)
    odds = np.diff(plain.predict_log_proba(X) - shifted.predict_log_proba(X))
    assert_allclose(odds, expected, atol=1e-6)
    same = plain.predict_proba(X, class_prior=[80 + 1e6, 81])
    assert_allclose(same, shifted.predict_proba(X), rtol=1e-6)
    assert_allclose(plain.predict_proba(X, class_prior=[1, 1]), plain.predict_proba(X), atol=1e-12)
    with pytest.raises(ValueError, match="class_prior"):
        plain.predict_proba(X, class_prior=[1.0, 1.0, 1.0])
    budget = shifted.uncertainty(X[:4], n_draws=50, n_true_values=64)
    assert_allclose(budget.measurement + budget.model + budget.overlap, budget.total, atol=1e-12)


def test_weights_of_samples(problem):
    _, X, y = problem
    none = np.where(np.arange(160) < 100, 1.0, 0.0)
    left = BayesianClassifier().fit(X[:100], y[:100], X_cov=NOISE)
    zero = BayesianClassifier().fit(X, y, none, X_cov=NOISE)
    assert_array_equal(zero.predict_proba(X, NOISE), left.predict_proba(X, NOISE))
    ones = BayesianClassifier().fit(X[:100], y[:100], np.ones(100), X_cov=NOISE)
    assert_allclose(ones.predict_proba(X, NOISE), left.predict_proba(X, NOISE), atol=1e-9)
    rare = BayesianClassifier().fit(X, y, np.where(y == 1, 0.1, 1.0))
    assert_allclose(rare.class_count_, [80, 8])
    assert (
        rare.predict_proba(X)[:, 1].mean()
        < BayesianClassifier().fit(X, y).predict_proba(X)[:, 1].mean() - 0.1
    )


def test_weights_must_leave_two_classes(problem):
    _, X, y = problem
    with pytest.raises(ValueError, match="only class 0 has samples"):
        BayesianClassifier().fit(X, y, (y == 0).astype(float))


@pytest.mark.parametrize("kind", ["covariance", "draws", "repeats", "shared"])
def test_model_files_keep_every_kind(kind, problem, rng, tmp_path):
    _, X, y = problem
    X, y, noise = X[:60], y[:60], None
    if kind == "covariance":
        noise = 0.1 * np.exp(rng.normal(size=X.shape))
    else:
        X = X[:, None] + 0.4 * rng.normal(size=(60, 3, 2))
    options = {} if noise is not None else {"realisations": kind}
    clf = BayesianClassifier(class_prior=[1.0, 3.0], **options).fit(X, y, X_cov=noise)
    clf.save(tmp_path / "model.uncover")
    again = load_model(tmp_path / "model.uncover")
    assert_array_equal(again.predict_proba(X, noise), clf.predict_proba(X, noise))
    assert_array_equal(again.members_, clf.members_)
    assert_array_equal(again.typicality(X, noise), clf.typicality(X, noise))


def test_other_worlds_are_noise_for_all_members():
    """An error that samples share cancels within the scene, and counts between scenes."""
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X = rng.normal(size=(80, 1, 2)) + 2.0 * y[:, None, None] + rng.normal(size=(1, 6, 2))
    clf = BayesianClassifier(realisations="shared").fit(X, y)
    assert {type(m.model).__name__ for m in clf.model_.members} > {"GaussianMember"}
    here, there = clf.predict_proba(X), clf.predict_proba(X, paired=False)
    assert here.max(1).mean() > there.max(1).mean() + 0.03


def test_a_measured_is_the_same(clf, problem):
    _, X, _ = problem
    assert_allclose(clf.predict_proba(Measured(X, NOISE)), clf.predict_proba(X, NOISE))


def test_what_missing_features_would_tell_is_overlap(clf, plain, problem):
    """As with Gaussian classes: a perfect measurement of the others would not bring them back."""
    _, X, _ = problem
    some, lacking = X[:40], X[:40].copy()
    lacking[:20, 1] = np.nan
    budget = plain.uncertainty(lacking)
    assert_allclose(budget.measurement, 0.0, atol=1e-12)
    assert budget.overlap[:20].mean() > plain.uncertainty(some).overlap[:20].mean()
    noisy, alone = clf.uncertainty(lacking, NOISE), clf.uncertainty(lacking[:20], NOISE)
    assert_allclose(noisy.measurement[20:], clf.uncertainty(some, NOISE).measurement[20:], rtol=1e-6)
    assert_allclose(noisy.measurement[:20], alone.measurement, rtol=1e-6)
    one = BayesianClassifier().fit(X[:, :1], problem[2], X_cov=NOISE[:1])
    expected = one.uncertainty(some[:20, :1], NOISE[:1]).measurement
    assert noisy.measurement[:20].mean() == pytest.approx(expected.mean(), rel=0.25)
