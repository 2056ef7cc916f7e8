"""Known noise in training and prediction, through the estimators."""

import warnings

import numpy as np
import pytest
from benchmarks.known_noise import coverage, excess_log_loss
from scipy import stats

from uncover import BayesianLDA, BayesianNB, BayesianQDA, Measured, load_model
from uncover.bayes.covariances import Covariances

ESTIMATORS = [BayesianQDA, BayesianLDA, BayesianNB]


@pytest.fixture
def problem(rng):
    """Three classes of four features, measured with a noise of each sample's own."""
    n, p = 180, 4
    y = np.arange(n) % 3
    truth = 1.5 * rng.standard_normal((3, p))[y] + rng.standard_normal((n, p)) @ rng.standard_normal((p, p))
    variance = rng.uniform(0.05, 1.5, (n, p))
    return truth + np.sqrt(variance) * rng.standard_normal((n, p)), y, variance


def covariances(variance, correlation=0.4):
    p = variance.shape[-1]
    deviation = np.sqrt(variance)
    unit = np.full((p, p), correlation) + (1 - correlation) * np.eye(p)
    return deviation[..., :, None] * unit * deviation[..., None, :]


# ---- zero noise, and the forms of one noise --------------------------------------------------------


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_zero_noise_reproduces_the_plain_fit(cls, problem):
    X, y, _ = problem
    plain, through = cls().fit(X, y), cls().fit(X, y, X_cov=np.zeros(4))
    np.testing.assert_allclose(through.means_, plain.means_, atol=1e-7)
    np.testing.assert_allclose(through.covariances_, plain.covariances_, atol=1e-6)
    np.testing.assert_allclose(
        through.predict_log_proba(X, X_cov=np.zeros(4)), plain.predict_log_proba(X), atol=1e-5
    )


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_a_new_input_without_noise_gets_the_plain_probabilities(cls, problem):
    X, y, _ = problem
    clf = cls().fit(X, y)
    found = clf.predict_log_proba(X, X_cov=np.zeros_like(X))
    np.testing.assert_allclose(found, clf.predict_log_proba(X), rtol=0, atol=1e-10)
    np.testing.assert_allclose(clf.score_samples(X, X_cov=np.zeros(4)), clf.score_samples(X), atol=1e-10)
    plain = clf.predict_log_proba(X)
    gap = [np.abs(clf.predict_log_proba(X, X_cov=v * np.ones(4)) - plain).max() for v in (1e-3, 1e-5)]
    assert 0 < gap[1] < 0.02 * gap[0]


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_every_form_of_one_noise_gives_one_model(cls, problem):
    X, y, _ = problem
    variance = np.array([0.5, 0.1, 0.0, 0.9])
    forms = [
        variance,
        np.tile(variance, (len(X), 1)),
        np.diag(variance),
        np.tile(np.diag(variance), (len(X), 1, 1)),
    ]
    each = [cls().fit(X, y, X_cov=form) for form in forms]
    for clf, form in zip(each[1:], forms[1:], strict=True):
        np.testing.assert_allclose(clf.means_, each[0].means_, atol=1e-9)
        np.testing.assert_allclose(
            clf.predict_proba(X, X_cov=form), each[0].predict_proba(X, X_cov=variance), atol=1e-9
        )
        np.testing.assert_array_equal(clf.predict_proba(Measured(X, form)), clf.predict_proba(X, X_cov=form))


@pytest.mark.parametrize("cls", [BayesianQDA, BayesianLDA])
@pytest.mark.parametrize("method", ["exact", "fast"])
def test_multiples_of_one_matrix_equal_the_general_path(cls, method, problem, rng):
    X, y, _ = problem
    base = covariances(np.array([0.5, 0.1, 0.2, 0.9]))
    multiples = rng.uniform(0.1, 2.0, len(X))[:, None, None] * base
    short = Covariances.read(multiples, *X.shape)
    assert short.own is None
    general = Measured(X, Covariances(None, None, multiples))
    one, two = cls().fit(X, y, X_cov=multiples), cls().fit(general, y)
    np.testing.assert_allclose(one.covariances_, two.covariances_, atol=1e-8)
    np.testing.assert_allclose(
        one.predict_proba(X, X_cov=multiples, method=method),
        two.predict_proba(general, method=method),
        atol=1e-8,
    )


def test_naive_bayes_is_one_problem_for_each_feature(problem):
    """Against QDA of each single feature, which has the same prior but for K^(2/p)."""
    X, y, variance = problem
    prior = BayesianNB().fit(X, y, X_cov=variance).prior_
    nb = BayesianNB().fit(X, y, X_cov=variance)
    for j in range(4):
        alone = BayesianQDA(prior=prior.select_features([j])).fit(X[:, [j]], y, X_cov=variance[:, [j]])
        np.testing.assert_allclose(nb.means_[:, [j]], alone.means_, atol=1e-10)
        np.testing.assert_allclose(nb.covariances_[:, j, j], alone.covariances_[:, 0, 0], rtol=1e-8)
    with pytest.raises(ValueError, match="takes variances as X_cov"):
        BayesianNB().fit(X, y, X_cov=covariances(variance))
    with pytest.raises(ValueError, match="takes variances as X_cov"):
        BayesianNB().fit(X, y).predict_proba(X, X_cov=covariances(variance))


def test_draws_are_the_path_of_known_noise(problem, rng):
    X, y, variance = problem
    draws = X[:, None, :] + np.sqrt(variance)[:, None, :] * rng.standard_normal((len(X), 30, 4))
    centre = draws.mean(1)
    own = np.stack([np.cov(sample.T) for sample in draws])
    one = BayesianQDA(realisations="draws").fit(draws, y)
    shape, (share,) = one.statistics_.drawn.weight, one.statistics_.drawn.sizes
    assert shape < 100  # variances differ between samples
    trace = 29 * np.einsum("ij,nji->n", np.linalg.inv(own.mean(0)), own)
    sizes = np.geomspace(1e-3, 1e3, len(share))
    likelihood = stats.gamma(2 * 29, scale=2 * sizes).pdf(trace[:, None])  # of χ²(4 · 29) times the size
    expected = (likelihood * share @ sizes) / (likelihood @ share)
    noise = (1 + 1 / 30) * (shape * expected[:, None, None] * own.mean(0) + 29 * own) / (shape + 29)
    two = BayesianQDA().fit(centre, y, X_cov=noise)
    np.testing.assert_allclose(one.means_, two.means_, atol=1e-9)
    np.testing.assert_allclose(one.covariances_, two.covariances_, atol=1e-9)
    np.testing.assert_allclose(one.predict_proba(draws), two.predict_proba(centre, X_cov=noise), atol=1e-10)


# ---- the statistics --------------------------------------------------------------------------------


def test_posterior_covers_the_truth_through_unequal_noise():
    """A short run of `benchmarks.known_noise.coverage`; the bounds are three standard errors."""
    found = coverage(n_fits=60, p=4, n=500)
    assert found["checks"] == 480
    assert found["variance"] == pytest.approx(0.9, abs=0.041)
    assert found["mean"] == pytest.approx(0.9, abs=0.041)
    assert found["region"] == pytest.approx(0.9, abs=0.082)
    assert coverage(n_fits=100, p=4, n=500, ignore=True)["variance"] < 0.3


@pytest.mark.slow
def test_coverage_over_two_thousand_checks():
    found = coverage(n_fits=1000, p=4, n=500, seed=1)
    for what in ("mean", "region", "variance"):
        assert 0.88 <= found[what] <= 0.92, what


def test_log_loss_with_other_noise_than_in_training():
    found = excess_log_loss(n_problems=1, n_test=20_000)
    assert found["noise known"] < 0.005
    assert found["noise ignored"] > 10 * found["noise known"]


# ---- uncertainty -----------------------------------------------------------------------------------


def test_parts_of_the_uncertainty_by_brute_force(rng):
    """One feature: P(k|χ), p(χ|x) on a fine grid, with the densities of SciPy."""
    y = np.repeat([0, 1], [40, 60])
    X = np.where(y == 0, -1.0, 1.2)[:, None] + rng.standard_normal((100, 1))
    clf = BayesianQDA().fit(X, y)
    predictive = [stats.t(t.dof, t.location[0], t.root[0, 0]) for t in clf.posterior_.predictive()]
    share = clf.class_posterior_ / clf.class_posterior_.sum()
    chi = np.linspace(-40, 40, 40_001)
    joint = np.stack([share[k] * predictive[k].pdf(chi) for k in range(2)], axis=1)
    at_truth = stats.entropy(joint, axis=1)
    for x, variance in ((0.1, 0.5), (1.5, 4.0), (-0.5, 0.01)):
        weight = joint * stats.norm.pdf(x, chi, np.sqrt(variance))[:, None]
        P = weight.sum(0) / weight.sum()
        np.testing.assert_allclose(clf.predict_proba([[x]], X_cov=[variance])[0], P, atol=1e-7)
        measurement = stats.entropy(P) - (weight.sum(1) / weight.sum()) @ at_truth
        budget = clf.uncertainty([[x]], X_cov=[variance], n_draws=200, n_true_values=4000)
        assert budget.total[0] == pytest.approx(stats.entropy(P), abs=1e-7)
        assert budget.measurement[0] == pytest.approx(measurement, abs=0.01)
        # the rest is split at the draws of χ as it is split for exact inputs
        rows = weight.sum(1) / weight.sum()
        some = rng.choice(len(chi), 400, p=rows / rows.sum())
        inner = clf.uncertainty(chi[some][:, None], n_draws=200)
        assert budget.model[0] == pytest.approx(inner.model.mean(), rel=0.2, abs=1e-4)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_parts_are_never_negative_and_add_up(cls, problem):
    X, y, variance = problem
    clf = cls().fit(X, y, X_cov=variance)
    budget = clf.uncertainty(X, X_cov=variance, n_draws=20, n_true_values=8)
    parts = np.stack([budget.measurement, budget.model, budget.overlap])
    assert np.all(parts >= 0)
    np.testing.assert_allclose(parts.sum(0), budget.total, atol=1e-12)
    np.testing.assert_allclose(
        budget.total, stats.entropy(clf.predict_proba(X, X_cov=variance), axis=1), atol=1e-12
    )
    hazier = clf.uncertainty(X, X_cov=9 * variance, n_draws=20, n_true_values=8)
    assert hazier.measurement.mean() > 1.5 * budget.measurement.mean()


# ---- systematic errors -----------------------------------------------------------------------------


def test_a_systematic_error_is_not_in_the_spread(problem):
    X, y, variance = problem
    shared = covariances(np.array([0.3, 0.8, 0.2, 0.5]), 0.9)
    plain = BayesianQDA().fit(Measured(X, variance), y)
    with_systematic = BayesianQDA().fit(Measured(X, variance, systematic=shared), y)
    for name in plain.posterior_.parameters():
        np.testing.assert_array_equal(
            getattr(plain.posterior_, name), getattr(with_systematic.posterior_, name)
        )
    new = Measured(X, variance, systematic=shared)
    np.testing.assert_array_equal(
        with_systematic.predict_proba(new), plain.predict_proba(Measured(X, variance))
    )


@pytest.mark.parametrize("n", [20, 5000])
def test_errors_of_two_scenes_add_up_and_do_not_average_out(n, rng):
    """One feature: class densities convolved with N(0, S_training + S_new) on a fine grid, whatever n is."""
    y = np.repeat([0, 1], n)
    X = rng.normal(np.where(y == 0, 0.0, 3.0), np.where(y == 0, 1.0, 0.5))[:, None]
    new = np.array([[-4.0], [1.0], [2.2], [7.0]])
    chi = np.linspace(-60, 60, 60_001)
    for train_error, new_error in ((0.36, None), (0.36, 0.64), (None, 0.64)):
        clf = BayesianQDA().fit(Measured(X, systematic=None if train_error is None else [train_error]), y)
        found = clf.predict_proba(
            Measured(new, systematic=None if new_error is None else [new_error]), paired=False
        )
        deviation = np.sqrt((train_error or 0.0) + (new_error or 0.0))
        t = clf.posterior_.predictive()
        density = [stats.t(t.dof[k], t.location[k, 0], t.root[k, 0, 0]).pdf(chi) for k in range(2)]
        joint = np.array([[d @ stats.norm.pdf(x, chi, deviation) for d in density] for x in new[:, 0]])
        np.testing.assert_allclose(found, joint / joint.sum(1, keepdims=True), atol=1e-7)


def test_a_systematic_error_agrees_with_worlds(rng):
    """A covariance of a common error against draws of that error as worlds, in eight batches."""
    n, p, R = 150, 2, 125
    y = np.arange(2 * n) % 2
    truth = rng.standard_normal((2 * n, p)) + np.where(y[:, None] == 0, 0.0, [1.5, 1.0])
    new = rng.standard_normal((60, p)) + np.array([0.7, 0.5])
    a, b = np.array([[0.5, 0.3], [0.3, 0.4]]), np.array([[0.2, -0.1], [-0.1, 0.3]])
    batches = []
    for _ in range(8):
        train_error, new_error = (rng.multivariate_normal(np.zeros(p), c, R) for c in (a, b))
        worlds = BayesianQDA(realisations="shared").fit(truth[:, None] - train_error, y)
        batches.append(worlds.predict_proba(new[:, None] - new_error, paired=False))
    reference, error = np.mean(batches, axis=0), np.std(batches, axis=0, ddof=1) / np.sqrt(8)
    clf = BayesianQDA().fit(Measured(truth, systematic=a), y)
    found = clf.predict_proba(Measured(new, systematic=b), paired=False)
    assert error.max() < 0.03
    # The typical gap is the error of the reference; no single one is far outside.
    assert np.sqrt(((found - reference) ** 2).mean()) < 1.5 * np.sqrt((error**2).mean()) + 0.01
    assert np.all(np.abs(found - reference) < 6 * error + 0.015)
    paired = clf.predict_proba(Measured(new, systematic=b), paired=True)
    np.testing.assert_array_equal(paired, BayesianQDA().fit(truth, y).predict_proba(new))


# ---- bad input -------------------------------------------------------------------------------------


def test_bad_covariances_are_refused_in_fit_and_prediction(problem):
    X, y, variance = problem
    clf = BayesianQDA().fit(X, y)
    asymmetric, indefinite = np.eye(4), np.eye(4)
    asymmetric[0, 1], indefinite[0, 1], indefinite[1, 0] = 0.5, 2.0, 2.0
    for bad, message in (
        (asymmetric, "not symmetric"),
        (indefinite, "is indefinite"),
        (np.ones(3), "does not fit 180 samples of 4 features"),
        (np.ones((7, 4)), "does not fit"),
        (-variance, "must not be negative"),
        (np.full(4, np.nan), "NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            BayesianQDA().fit(X, y, X_cov=bad)
        with pytest.raises(ValueError, match=message):
            clf.predict_proba(X, X_cov=bad)


def test_units_that_differ_are_named(problem):
    X, y, variance = problem
    frame = pytest.importorskip("pandas").DataFrame(X, columns=["blue", "green", "red", "nir"])
    message = r"feature \w+ has a standard deviation of [\d.]+ in the data and a typical standard uncertainty"
    with pytest.warns(UserWarning, match=message):
        BayesianQDA().fit(frame, y, X_cov=1e8 * variance)  # digital numbers against reflectance
    with pytest.warns(UserWarning, match="same units"):
        BayesianQDA().fit(X, y, X_cov=1e-10 * variance)
    clf = BayesianQDA().fit(X, y)
    with pytest.warns(UserWarning, match="same units") as said:
        clf.predict_proba(X, X_cov=1e8 * variance)
    assert [each.filename for each in said] == [__file__]
    with pytest.warns(UserWarning, match="same units") as said:
        clf.unknown_proba(X, X_cov=1e8 * variance)
    assert [each.filename for each in said] == [__file__]  # once, at the line of the user


def test_one_feature_that_is_known_very_well_rings_no_alarm(problem):
    """A period of days known to seconds, beside quantities known to some per cent."""
    X, y, variance = problem
    precise = np.broadcast_to(variance, X.shape).copy()
    precise[:, 0] = 1e-16
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = BayesianQDA().fit(X, y, X_cov=precise)
        clf.predict_proba(X, X_cov=precise)
        clf.predict_proba(X, X_cov=1e-12 * variance)  # said in training, if at all


def test_what_does_not_go_together_is_refused(problem):
    X, y, variance = problem
    with pytest.raises(ValueError, match="leave out X_cov"):
        BayesianQDA().fit(Measured(X, variance), y, X_cov=variance)
    with pytest.raises(ValueError, match="whose spread is their noise here"):
        BayesianQDA(realisations="draws").fit(X[:, None, :], y, X_cov=variance)
    with pytest.raises(ValueError, match="one value of each sample"):
        BayesianQDA(realisations="shared").fit(X, y, X_cov=variance)
    with pytest.raises(ValueError, match="partial_fit cannot take known noise"):
        BayesianQDA().partial_fit(Measured(X, variance), y, classes=[0, 1, 2])
    clf = BayesianQDA().fit(X, y, X_cov=variance)
    with pytest.raises(ValueError, match="fitted with known noise; partial_fit cannot add"):
        clf.partial_fit(X, y)
    with pytest.warns(UserWarning, match="describes true values; X has no X_cov and is taken as exact"):
        clf.predict_proba(X)
    with pytest.raises(ValueError, match='method must be "exact" or "fast"'):
        clf.predict_proba(X, X_cov=variance, method="quick")


def test_the_page_of_a_model_says_that_its_noise_was_known(problem):
    X, y, variance = problem
    text = BayesianQDA().fit(X, y, X_cov=variance).describe()
    assert "its noise is part of the spread" not in text
    assert "Known noise of each sample" in text


# ---- model files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("known", ["noise", "labels"])
def test_a_saved_model_predicts_the_same_bits(cls, known, problem, tmp_path):
    X, y, variance = problem
    if known == "noise":
        train = Measured(X, variance, systematic=covariances(np.array([0.3, 0.1, 0.2, 0.1])))
        clf = cls().fit(train, y)
    else:
        train = Measured(X, systematic=[0.1, 0.1, 0.1, 0.2])
        clf = cls(label_noise=np.full((3, 3), 0.1) + 0.7 * np.eye(3)).fit(train, y)
        assert clf.label_confusion_.shape == (3, 3)
    clf.save(tmp_path / "m.uncover")
    loaded = load_model(tmp_path / "m.uncover")
    some = train[:20]
    for options in ({}, {"paired": False, "method": "fast"}):
        np.testing.assert_array_equal(
            loaded.predict_proba(some, **options), clf.predict_proba(some, **options)
        )
    np.testing.assert_array_equal(getattr(loaded, "label_confusion_", 0), getattr(clf, "label_confusion_", 0))
    np.testing.assert_array_equal(loaded.systematic_, clf.systematic_)
    for name in clf.posterior_.parameters():
        np.testing.assert_array_equal(getattr(loaded.posterior_, name), getattr(clf.posterior_, name))
    one, two = clf.uncertainty(some, n_draws=5), loaded.uncertainty(some, n_draws=5)
    np.testing.assert_array_equal(one.measurement, two.measurement)
    loaded.save(tmp_path / "again.uncover")
    assert (tmp_path / "again.uncover").read_bytes() == (tmp_path / "m.uncover").read_bytes()
