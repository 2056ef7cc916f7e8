"""Noise known by a few draws or repeats: true classes are found whatever their number."""

import numpy as np
import pytest
from scipy.special import softmax

from uncover import NIW, BayesianLDA, BayesianNB, BayesianQDA, load_model
from uncover.bayes.covariances import Covariances
from uncover.bayes.noise import log_prob_with_noise
from uncover.measurement.summary import Summariser
from uncover.models.drawn_noise import DrawnNoise

ESTIMATORS = [BayesianQDA, BayesianLDA, BayesianNB]


def drawn(rng, n, p, R, deviation=1.0):
    """Draws around measurements whose noise is that of the draws; true values have the covariance I."""
    y = np.arange(n) % 2
    size = np.broadcast_to(deviation, n)[:, None]
    measured = (
        rng.standard_normal((n, p)) + 2.0 * y[:, None] / np.sqrt(p) + size * rng.standard_normal((n, p))
    )
    return measured[:, None] + size[:, None] * rng.standard_normal((n, R, p)), y


@pytest.mark.parametrize(("p", "R"), [(1, 5), (1, 2), (4, 3), (4, 25), (10, 5)])
def test_noise_as_large_as_the_class_is_taken_out(p, R, rng):
    """The variance came out as 1.50 (p = 1, R = 5), 1.96 (p = 10, R = 5) and 1.21 (p = 4, R = 25)."""
    X, y = drawn(rng, 3000, p, R)
    clf = BayesianQDA(realisations="draws").fit(X, y)
    assert np.diagonal(clf.covariances_, axis1=1, axis2=2).mean() == pytest.approx(1.0, abs=0.08)
    assert not clf.statistics_.noise_of_each_class  # all have the same noise
    assert np.ptp(clf.statistics_.drawn.of_classes(X)[0].variances(), axis=0).max() < 0.3


def test_noise_that_differs_between_samples_is_told_apart(rng):
    size = np.where(rng.random(1500) < 0.5, 0.3, 1.5)
    X, y = drawn(rng, 1500, 3, 12, size)
    clf = BayesianQDA(realisations="draws").fit(X, y)
    found = DrawnNoise.of(X).of_classes(X)[0].variances().mean(1)
    assert found[size == 0.3].mean() < 0.3 < 1.8 < found[size == 1.5].mean()
    assert np.diagonal(clf.covariances_, axis1=1, axis2=2).mean() == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize(("p", "R"), [(10, 3), (10, 5), (4, 3)])
def test_few_draws_of_noise_that_differs_do_not_widen_the_classes(p, R, rng):
    """Variances differ tenfold; 0.25, 0.18 and 0.10 lay between the class variances, the truth being 1.

    Now 0.040 ± 0.010 for p = 4, R = 3 and 0.020 ± 0.002 for p = 10, R = 3, over 12 problems each.
    """
    beyond = []
    for _ in range(4):
        size = np.exp(0.5 * rng.uniform(np.log(0.3), np.log(3.0), 1500))
        X, y = drawn(rng, 1500, p, R, size)
        known = BayesianQDA().fit(X.mean(1), y, X_cov=(1.0 + 1.0 / R) * size[:, None] ** 2 * np.ones(p))
        models = BayesianQDA(realisations="draws").fit(X, y), known
        found, wanted = (np.diagonal(m.covariances_, axis1=1, axis2=2).mean() for m in models)
        beyond.append(found - wanted)
    assert abs(np.mean(beyond)) < 0.08


def excess_of_variances(X, y, size):
    """Class variances found by draws, less those found where the noise is known: (class,)."""
    R, p = X.shape[1:]
    known = BayesianQDA().fit(X.mean(1), y, X_cov=(1.0 + 1.0 / R) * size[:, None] ** 2 * np.ones(p))
    models = BayesianQDA(realisations="draws").fit(X, y), known
    found, wanted = (np.diagonal(model.covariances_, axis1=1, axis2=2).mean(1) for model in models)
    return found - wanted


@pytest.mark.parametrize(("p", "R"), [(1, 3), (4, 3), (1, 25)])
def test_noise_that_differs_between_classes(p, R, rng):
    """Standard deviations of 0.25 and 1; variances of 0.75 and 1.54 were found in a like problem, not 1."""
    excess = []
    for _ in range(4):
        size = np.array([0.25, 1.0])[np.arange(600) % 2]
        excess.append(excess_of_variances(*drawn(rng, 600, p, R, size), size))
    assert np.abs(np.mean(excess, axis=0)).max() < 0.1


def test_noise_of_two_sizes_at_random(rng):
    """Ten times apart in variance, p = 1, R = 3: 0.09 to 0.16 too much was found."""
    excess = []
    for _ in range(8):
        size = np.sqrt(np.where(rng.random(800) < 0.5, 0.1, 1.0))
        excess.append(excess_of_variances(*drawn(rng, 800, 1, 3, size), size).mean())
    assert abs(np.mean(excess)) < 0.06


def test_draws_are_no_worse_than_ignoring_noise_that_differs_between_classes(rng):
    """Where each class has one noise, an input has that of the class in question: 0.539 before."""
    size = np.array([0.5, 2.0])
    (X, y), (new, truth) = (drawn(rng, n, 1, 3, size[np.arange(n) % 2]) for n in (800, 4000))
    P = BayesianQDA(realisations="draws").fit(X, y).predict_proba(new)
    Q = BayesianQDA().fit(X.mean(1), y).predict_proba(new.mean(1))
    loss, ignored = (-np.log(one[np.arange(4000), truth]).mean() for one in (P, Q))
    assert loss == pytest.approx(ignored, abs=0.005)


def test_maps_read_noise_of_each_class_as_predictions_do(rng):
    X, y = drawn(rng, 200, 2, 4, np.array([0.2, 1.0])[np.arange(200) % 2])
    clf = BayesianQDA(realisations="draws").fit(X, y)
    assert clf.statistics_.noise_of_each_class
    P = clf.predict_proba(X[:20])
    found = Summariser(clf).summarise(X[:20].transpose(1, 2, 0))
    np.testing.assert_allclose(found.probability.T, P, atol=1e-9)
    fast = Summariser(clf, method="fast").summarise(X[:20].transpose(1, 2, 0))
    np.testing.assert_allclose(fast.probability.T, P, atol=0.02)


def test_inputs_that_lack_a_feature_have_the_noise_of_the_others(rng):
    X, y = drawn(rng, 300, 2, 4, np.exp(rng.uniform(-2.0, 1.0, 300)))
    clf = BayesianQDA(realisations="draws", missing="marginalise").fit(X, y)
    lacking = X[:10].copy()
    lacking[..., 1] = np.nan
    predictive = clf.posterior_.select_features([0]).predictive()
    marginal = [predictive[k] for k in range(2)]
    noise = clf.statistics_.drawn.select_features([0]).of_classes(lacking[..., :1])[0].variances()
    each = [log_prob_with_noise(t, lacking.mean(1)[:, :1], Covariances(None, None, noise)) for t in marginal]
    wanted = softmax(np.log(clf.class_posterior_) + np.stack(each, axis=1), axis=1)
    np.testing.assert_allclose(clf.predict_proba(lacking), wanted, atol=1e-9)


def test_noise_whose_shape_differs_between_samples_is_told_apart(rng):
    first = rng.random(1500) < 0.5
    y, deviation = np.arange(1500) % 2, np.where(first[:, None], [0.3, 1.5], [1.5, 0.3])
    X = 2.0 * y[:, None, None] + rng.normal(size=(1500, 1, 2))
    X = X + deviation[:, None] * rng.normal(size=(1500, 12, 2))
    found = DrawnNoise.of(X).of_classes(X)[0].variances()
    ratio = found[:, 0] / found[:, 1]
    assert np.median(ratio[first]) < 0.2
    assert np.median(ratio[~first]) > 5.0


def test_the_distance_of_the_mean_of_draws_from_the_truth(rng):
    """(1 + 1/R) S: the measurement's own error, and that of the mean of R draws around it."""
    truth = np.zeros((20_000, 2))
    root = np.array([[1.0, 0.0], [0.5, 0.3]])
    measured = truth + rng.standard_normal((20_000, 2)) @ root.T
    X = measured[:, None] + rng.standard_normal((20_000, 3, 2)) @ root.T
    noise = DrawnNoise.of(X).of_classes(X)[0].matrices()
    np.testing.assert_allclose(noise.mean(0), np.cov(X.mean(1).T), rtol=0.05)


def test_draws_that_never_vary_in_a_feature_are_exact_there(rng):
    X, y = drawn(rng, 200, 3, 4)
    X[..., 2] = X[:, :1, 2]
    clf = BayesianQDA(realisations="draws").fit(X, y)
    assert np.isfinite(clf.predict_proba(X)).all()
    still = np.repeat(X[:, :1], 4, axis=1)
    plain = BayesianQDA().fit(X[:, 0], y)
    exact = BayesianQDA(realisations="draws").fit(still, y)
    np.testing.assert_allclose(exact.predict_proba(still), plain.predict_proba(X[:, 0]), atol=1e-6)


def test_what_an_input_is_told_does_not_depend_on_the_others(rng):
    X, y = drawn(rng, 300, 2, 4, rng.uniform(0.2, 1.5, 300))
    clf = BayesianQDA(realisations="draws").fit(X, y)
    np.testing.assert_allclose(clf.predict_proba(X[:5]), clf.predict_proba(X)[:5], rtol=1e-12)


def test_a_model_file_keeps_what_is_known_of_the_noise(rng, tmp_path):
    X, y = drawn(rng, 100, 2, 4, np.where(np.arange(100) % 2, rng.uniform(0.2, 1.5, 100), 0.1))
    clf = BayesianQDA(realisations="draws").fit(X, y)
    assert clf.statistics_.noise_of_each_class
    clf.save(tmp_path / "model.uncover")
    again = load_model(tmp_path / "model.uncover")
    assert again.statistics_.drawn.weight == clf.statistics_.drawn.weight
    np.testing.assert_array_equal(again.predict_proba(X[:20]), clf.predict_proba(X[:20]))


@pytest.mark.parametrize("kind", ["draws", "repeats"])
def test_one_realisation_has_no_spread_and_that_is_said(kind, rng):
    X, y = drawn(rng, 40, 2, 1)
    with pytest.warns(
        UserWarning, match=f'1 realisation .* realisations="{kind}" takes the noise from their spread'
    ):
        clf = BayesianQDA(realisations=kind).fit(X, y)
    plain = BayesianQDA().fit(X[:, 0], y)
    np.testing.assert_allclose(clf.predict_proba(X), plain.predict_proba(X[:, 0]), rtol=1e-9)


# ---- repeats, with a prior of one's own ------------------------------------------------------------

PRIOR = NIW([0.0], 0.25, [[4.0]], 6.0)


def repeated(rng, n=12, R=2):
    """True values of two classes drawn from PRIOR, each measured R times with noise of variance 1."""
    variance = 4.0 / rng.chisquare(6.0, 2)
    mean, y = rng.standard_normal(2) * np.sqrt(variance / 0.25), np.arange(n) % 2
    truth = mean[y] + np.sqrt(variance[y]) * rng.standard_normal(n)
    return truth[:, None, None] + rng.standard_normal((n, R, 1)), y


def density_by_integration(x, new, noise):
    """Predictive density of new means, by numerical integration over Σ; the mean is integrated out."""
    sigma = np.exp(np.linspace(np.log(0.01), np.log(100.0), 400))
    total, prior_variance = sigma + noise, sigma / 0.25
    precision = len(x) / total + 1.0 / prior_variance
    mean = x.sum() / total / precision
    log_weight = -0.5 * len(x) * np.log(total) - 0.5 * ((x**2).sum() / total - precision * mean**2)
    log_weight += -0.5 * np.log(prior_variance * precision) - 3.0 * np.log(sigma) - 2.0 / sigma
    weight = np.exp(log_weight - log_weight.max())
    spread = total + 1.0 / precision
    return np.exp(-0.5 * (new[:, None] - mean) ** 2 / spread) / np.sqrt(spread) @ (weight / weight.sum())


def test_a_prior_of_true_values_is_not_one_of_noisy_means(rng):
    """Applied to the means it was off by up to 0.126 in probability."""
    worst = []
    for _ in range(20):
        X, y = repeated(rng, n=72)
        X, y, new = X[:12], y[:12], X[12:]
        clf = BayesianQDA(prior=PRIOR, realisations="repeats").fit(X, y)
        seen, noise = X.mean(1)[:, 0], clf.statistics_.noise[0, 0] / 2
        density = [density_by_integration(seen[y == k], new.mean(1)[:, 0], noise) for k in range(2)]
        exact = density[0] / (density[0] + density[1])
        worst.append(np.abs(clf.predict_proba(new)[:, 0] - exact).max())
    assert np.mean(worst) < 0.025 and np.max(worst) < 0.06, (np.mean(worst), np.max(worst))


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_repeats_are_known_noise_where_a_prior_is_given(cls, rng):
    y = np.arange(40) % 2
    X = rng.standard_normal((40, 1, 2)) + y[:, None, None] + 0.7 * rng.standard_normal((40, 3, 2))
    prior = NIW([0.0, 0.0], 1.0, 2.0 * np.eye(2), 5.0)
    clf = cls(prior=prior, realisations="repeats").fit(X, y)
    noise = clf.statistics_.noise * np.eye(2) if cls is BayesianNB else clf.statistics_.noise
    given = np.diagonal(noise) / 3 if cls is BayesianNB else noise / 3
    known = cls(prior=prior).fit(X.mean(1), y, X_cov=given)
    np.testing.assert_allclose(clf.covariances_, known.covariances_, rtol=1e-6)
    new = rng.standard_normal((10, 5, 2))
    wanted = known.predict_proba(new.mean(1), X_cov=given * 3 / 5)
    np.testing.assert_allclose(clf.predict_proba(new), wanted, atol=1e-6)
    halves = cls(prior=prior, realisations="repeats").partial_fit(X[:15], y[:15], classes=[0, 1])
    halves.partial_fit(X[15:], y[15:])
    np.testing.assert_allclose(halves.predict_proba(new), clf.predict_proba(new), atol=1e-7)
    assert np.isfinite(cls(prior=prior, realisations="repeats", calibration="loo").fit(X, y).temperature_)
