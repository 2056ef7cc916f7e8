"""The uncertainty budget: its algebra for every kind of input, and its numbers against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from uncover import BayesianLDA, BayesianNB, BayesianQDA
from uncover.measurement.summary import Summariser

ESTIMATORS = [BayesianQDA, BayesianLDA, BayesianNB]
KINDS = ["pooled", "repeats", "draws", "shared"]
PARTS = ("model", "measurement", "overlap")


def assert_sound(budget, probability):
    for name in PARTS:
        assert (getattr(budget, name) >= 0).all(), name
    np.testing.assert_allclose(budget.total, stats.entropy(probability, axis=1), rtol=0, atol=1e-12)
    np.testing.assert_allclose(sum(getattr(budget, name) for name in PARTS), budget.total, rtol=0, atol=1e-9)


@pytest.mark.filterwarnings("ignore:the model was fitted with known noise:UserWarning")
@pytest.mark.filterwarnings("ignore:X has 1 realisation of each sample:UserWarning")
@pytest.mark.filterwarnings("ignore:taking the noise out of the spread:UserWarning")
@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=3)
@given(seed=st.integers(0, 2**32 - 1), R=st.integers(1, 4), spread=st.sampled_from([0.01, 1.0, 30.0]))
def test_parts_are_not_negative_and_add_up(cls, kind, seed, R, spread):
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 5))
    y = np.concatenate([[0, 0, 1, 1, 2, 2], rng.integers(0, 3, 14)])
    X = rng.normal(size=(20, 1, p)) + y[:, None, None] + 0.5 * rng.normal(size=(20, R, p))
    clf = cls(realisations=kind).fit(X, y)
    x = spread * rng.normal(size=(7, R, p)) + 1.0
    assert_sound(clf.uncertainty(x, n_draws=20, n_true_values=8), clf.predict_proba(x))
    assert_sound(clf.uncertainty(x[:, 0], n_draws=20, n_true_values=8), clf.predict_proba(x[:, 0]))
    if kind == "shared":
        apart = clf.uncertainty(x, paired=False, n_draws=20)
        assert_sound(apart, clf.predict_proba(x, paired=False))


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_certainty_costs_nothing(cls, rng):
    y = np.arange(400) % 2
    X = rng.normal(size=(400, 3)) + 20.0 * y[:, None]
    budget = cls().fit(X, y).uncertainty(X[:20])
    for name in ("total", *PARTS):
        assert (getattr(budget, name) >= 0).all()
        assert (getattr(budget, name) < 1e-6).all()


@pytest.mark.parametrize("kind", ["pooled", "repeats", "draws", "shared"])
def test_where_the_measurement_part_is_zero(kind, rng):
    """One value without covariance: measurement is 0, and the noise is in overlap."""
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 2)) + y[:, None]
    budget = BayesianQDA(realisations=kind).fit(X, y).uncertainty(X[:9])
    np.testing.assert_array_equal(budget.measurement, 0.0)


@pytest.mark.parametrize("kind", ["pooled", "shared"])
def test_measurement_part_of_averaged_realisations(kind, rng):
    """H of the mean minus the mean of H, from the probabilities of single realisations."""
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 1, 2)) + y[:, None, None] + 0.7 * rng.normal(size=(60, 5, 2))
    clf = BayesianQDA(realisations=kind).fit(X, y)
    if kind == "pooled":
        each = np.stack([clf.predict_proba(X[:9, r]) for r in range(5)])
    else:
        worlds = [BayesianQDA().fit(X[:, r], y) for r in range(5)]
        each = np.stack([world.predict_proba(X[:9, r]) for r, world in enumerate(worlds)])
    expected = stats.entropy(each.mean(0), axis=1) - stats.entropy(each, axis=2).mean(0)
    np.testing.assert_allclose(clf.uncertainty(X[:9]).measurement, expected, atol=1e-10)


# ---- brute force on one feature ------------------------------------------------------------------------

GROUPS = [np.array([0.1, 0.7, 0.4, -0.5]), np.array([1.0, 2.2, 1.9, 0.6, 2.9])]


def brute_force_model_part(groups, x, n_draws=300_000):
    """I(y; θ | x) with θ drawn from the posterior of textbooks, and weighed by what x says about it.

    Returns the parts and the Monte Carlo error of the model part.
    """
    rng = np.random.default_rng(17)
    K = len(groups)
    phi = rng.dirichlet([len(g) + 1 for g in groups], n_draws)
    joint = []
    for g in groups:
        N, v = len(g), g.var(ddof=1)
        psi = v / K**2 + (N - 1) * v
        variance = stats.invgamma((N + 3) / 2, scale=psi / 2).rvs(n_draws, random_state=rng)
        mean = g.mean() + np.sqrt(variance / N) * rng.standard_normal(n_draws)
        joint.append(stats.norm.pdf(x, mean, np.sqrt(variance)))
    joint = phi * np.stack(joint, axis=1)
    evidence = joint.sum(1)
    weight = evidence / evidence.sum()
    entropy_given_theta = stats.entropy(joint / evidence[:, None], axis=1)
    overlap = (weight * entropy_given_theta).sum()
    error = np.sqrt((weight**2 * (entropy_given_theta - overlap) ** 2).sum())
    total = stats.entropy(joint.sum(0) / joint.sum())
    return total, total - overlap, overlap, error


@pytest.mark.parametrize("x", [-0.5, 0.9, 1.5])
def test_model_part_by_brute_force(x):
    X, y = np.concatenate(GROUPS)[:, None], np.repeat([0, 1], [4, 5])
    total, model, overlap, error = brute_force_model_part(GROUPS, x)
    budget = BayesianQDA().fit(X, y).uncertainty([[x]], n_draws=10_000)
    assert budget.total[0] == pytest.approx(total, abs=0.003)
    assert budget.model[0] == pytest.approx(model, abs=5 * error + 0.006)
    assert budget.overlap[0] == pytest.approx(overlap, abs=5 * error + 0.006)
    assert model > 0.01  # so that the comparison says something


def test_the_model_part_with_few_draws_is_right_on_average():
    X, y = np.concatenate(GROUPS)[:, None], np.repeat([0, 1], [4, 5])
    _, model, _, _ = brute_force_model_part(GROUPS, 1.2)
    found = [BayesianQDA(random_state=s).fit(X, y).uncertainty([[1.2]]).model[0] for s in range(40)]
    assert np.mean(found) == pytest.approx(model, abs=0.01 + 4 * np.std(found) / np.sqrt(40))


def true_budget(x, means, deviations, noise):
    """Measurement and overlap of a measured value, for classes that are known exactly; on a grid."""
    chi = np.linspace(x - 12 * noise, x + 12 * noise, 40_001)
    prior = np.stack(
        [stats.norm.pdf(chi, m, s) for m, s in zip(means, deviations, strict=True)], axis=1
    ) / len(means)
    joint = prior * stats.norm.pdf(x, chi, noise)[:, None]
    joint /= joint.sum()
    total = stats.entropy(joint.sum(0))
    rows = joint.sum(1)
    overlap = (rows * stats.entropy(prior / prior.sum(1, keepdims=True), axis=1)).sum()
    return total, total - overlap, overlap


@pytest.mark.parametrize("cls", [BayesianQDA, BayesianNB])
def test_repeats_separate_the_measurement_from_the_overlap(cls):
    """Endless training data: the budget is that of the true classes, for any number of repeats."""
    rng = np.random.default_rng(3)
    means, deviations, noise, R, n = [0.0, 2.0], [0.6, 1.0], 1.2, 4, 20_000
    y = np.repeat([0, 1], n)
    truth = np.array(means)[y] + np.array(deviations)[y] * rng.standard_normal(2 * n)
    X = truth[:, None, None] + noise * rng.standard_normal((2 * n, R, 1))
    clf = cls(realisations="repeats").fit(X, y)
    for new_R in (1, 4, 20):
        for x in (0.4, 1.0, 1.8):
            budget = clf.uncertainty(np.full((1, new_R, 1), x), n_true_values=6000, n_draws=20)
            total, measurement, overlap = true_budget(x, means, deviations, noise / np.sqrt(new_R))
            assert budget.total[0] == pytest.approx(total, abs=0.01)
            assert budget.measurement[0] == pytest.approx(measurement, abs=0.015)
            assert budget.overlap[0] + budget.model[0] == pytest.approx(overlap, abs=0.015)
            assert budget.model[0] < 0.005


def test_repeats_of_a_shared_covariance():
    rng = np.random.default_rng(3)
    means, noise, R, n = [0.0, 2.0], 1.2, 4, 20_000
    y = np.repeat([0, 1], n)
    truth = np.array(means)[y] + 0.8 * rng.standard_normal(2 * n)
    X = truth[:, None, None] + noise * rng.standard_normal((2 * n, R, 1))
    clf = BayesianLDA(realisations="repeats").fit(X, y)
    budget = clf.uncertainty(np.full((1, 2, 1), 0.7), n_true_values=6000, n_draws=20)
    total, measurement, _ = true_budget(0.7, means, [0.8, 0.8], noise / np.sqrt(2))
    assert budget.total[0] == pytest.approx(total, abs=0.01)
    assert budget.measurement[0] == pytest.approx(measurement, abs=0.015)


def brute_force_repeats(X, y, x, n_draws=1000):
    """Measurement, model and overlap of one measured mean of repeats, few samples; loops over grids.

    The class model of true values is the posterior with the noise taken out of its scale; the noise is
    known. χ on a grid, θ drawn: I(y;χ|x) = H[y|x] − E H[y|χ], I(y;θ|χ) = E H[y|χ] − E H[y|χ,θ].
    """
    rng = np.random.default_rng(23)
    R = X.shape[1]
    s2 = X[..., 0].var(axis=1, ddof=1).mean()
    m = X[..., 0].mean(1)
    chi = np.linspace(-6, 8, 401)
    weights, thetas = [], []
    counts = np.array([(y == k).sum() for k in range(2)])
    for k in range(2):
        mine = m[y == k]
        N, v = len(mine), mine.var(ddof=1)
        nu = N + 3
        psi = v / 4 + (N - 1) * v - (nu - 2) * s2 / R
        t = stats.t(nu, mine.mean(), np.sqrt((N + 1) / (N * nu) * psi))
        weights.append((N + 1) * t.pdf(chi))
        variance = stats.invgamma(nu / 2, scale=psi / 2).rvs(n_draws, random_state=rng)
        mean = mine.mean() + np.sqrt(variance / N) * rng.standard_normal(n_draws)
        thetas.append(stats.norm.pdf(chi[:, None], mean, np.sqrt(variance)))
    at_chi = np.stack(weights, 1)
    p_chi = at_chi.sum(1) * stats.norm.pdf(x, chi, np.sqrt(s2 / R))
    p_chi /= p_chi.sum()
    given_chi = at_chi / at_chi.sum(1, keepdims=True)
    total = stats.entropy((p_chi[:, None] * given_chi).sum(0))
    after_measurement = (p_chi * stats.entropy(given_chi, axis=1)).sum()
    phi = rng.dirichlet(counts + 1, n_draws)
    joint = phi * np.stack(thetas, axis=2)  # (χ, θ, class)
    evidence = joint.sum(2)
    h = stats.entropy(joint / evidence[..., None], axis=2)
    overlap = (p_chi * (evidence * h).sum(1) / evidence.sum(1)).sum()
    return total, total - after_measurement, after_measurement - overlap, overlap


@pytest.mark.parametrize("x", [0.5, 1.1, 2.0])
def test_repeats_with_few_samples_by_brute_force(x):
    rng = np.random.default_rng(6)
    y = np.repeat([0, 1], [8, 12])
    truth = 2.0 * y + rng.standard_normal(20)
    X = truth[:, None, None] + 0.8 * rng.standard_normal((20, 3, 1))
    clf = BayesianQDA(realisations="repeats").fit(X, y)
    budget = clf.uncertainty(np.full((1, 3, 1), x), n_true_values=2000, n_draws=500)
    total, measurement, model, overlap = brute_force_repeats(X, y, x)
    # Total by the exact predictive of means; the brute force builds it from truth and noise: near, not equal.
    assert budget.total[0] == pytest.approx(total, abs=0.02)
    assert budget.measurement[0] == pytest.approx(measurement, abs=0.02)
    assert budget.model[0] == pytest.approx(model, abs=0.01)
    assert budget.overlap[0] == pytest.approx(overlap, abs=0.02)
    assert min(measurement, model, overlap) > 0.01


def test_more_samples_less_model_uncertainty(rng):
    found = []
    for n in (5, 50, 5000):
        y = np.repeat([0, 1], n)
        X = rng.normal(size=(2 * n, 2)) + y[:, None]
        found.append(BayesianQDA().fit(X, y).uncertainty([[0.5, 0.5]]).model[0])
    assert found[0] > 3 * found[1] > 9 * found[2]


def test_budgets_are_reproducible(rng):
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 3, 2)) + y[:, None, None]
    for kind in KINDS:
        clf = BayesianQDA(realisations=kind).fit(X, y)
        a, b = clf.uncertainty(X[:5]), clf.uncertainty(X[:5])
        np.testing.assert_array_equal(a.model, b.model)
        np.testing.assert_array_equal(a.measurement, b.measurement)


def test_the_budget_of_an_input_does_not_depend_on_its_batch(rng):
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 2)) + y[:, None]
    clf = BayesianQDA().fit(X, y, X_cov=[0.5, 0.5])
    alone = clf.uncertainty(X[7:8], [0.5, 0.5])
    often = clf.uncertainty(np.concatenate([X[:5], np.repeat(X[7:8], 50, axis=0)]), [0.5, 0.5])
    for name in PARTS:
        np.testing.assert_allclose(getattr(often, name)[5:], getattr(alone, name)[0], rtol=1e-9)


def test_drawn_models_are_asked_at_true_values_from_everywhere(rng):
    """The model part of one noisy feature; by every 64th of Sobol's points, which lie together, 0.1."""
    y = np.arange(90) % 3
    X = 1.5 * y[:, None] + np.sqrt(2.0) * rng.normal(size=(90, 1))
    clf = BayesianQDA().fit(X, y, X_cov=[1.0])
    found = []
    for clf.random_state in range(6):
        found.append(clf.uncertainty([[-1.0], [0.0], [0.5], [1.5], [3.0]], [1.0]).model)
    assert (np.std(found, axis=0, ddof=1) < 0.04 * np.mean(found, axis=0)).all()


def test_other_draws_change_a_part_by_less_than_a_twentieth(rng):
    """The measurement part of known noise, and the model part without."""
    y = np.arange(200) % 2
    X = rng.normal(size=(200, 2)) + y[:, None]
    noisy, plain = BayesianQDA().fit(X, y, X_cov=[1.0, 1.0]), BayesianQDA().fit(X, y)
    found = []
    for seed in range(12):
        noisy.random_state = plain.random_state = seed
        parts = noisy.uncertainty([[0.5, 0.5]], [1.0, 1.0]).measurement, plain.uncertainty([[0.5, 0.5]]).model
        found.append(np.concatenate(parts))
    found = np.array(found)
    assert (found.std(0, ddof=1) < 0.05 * found.mean(0)).all()  # 0.17 of independent draws


@pytest.mark.parametrize(("prior", "p"), [("weak", 1), ("weak", 4), ("evidence", 4)])
def test_the_model_part_of_maps_is_that_of_draws_from_15_samples_a_class_on(prior, p, rng):
    closed, drawn = [], []
    for _ in range(6):
        y = np.repeat([0, 1, 2], 15)
        centre = 1.8 / np.sqrt(p) * rng.normal(size=(3, p))
        clf = BayesianQDA(prior=prior).fit(centre[y] + rng.normal(size=(45, p)), y)
        x = centre[y] + rng.normal(size=(45, p))
        closed.append(Summariser(clf).summarise(x.T[None]).model.mean())
        drawn.append(clf.uncertainty(x, n_draws=800).model.mean())
    assert np.mean(closed) == pytest.approx(np.mean(drawn), rel=0.1)  # 1.36 times before


@pytest.mark.parametrize(("p", "n"), [(1, 15), (4, 15), (10, 15), (10, 30)])
def test_the_model_part_of_maps_with_one_covariance_by_brute_force(p, n):
    """Pixel by pixel and on average, against precisions drawn by SciPy and weighed by what x says of them."""
    rng = np.random.default_rng(p + n)
    y = np.repeat([0, 1, 2], n)
    centre = 1.8 / np.sqrt(p) * rng.normal(size=(3, p))
    clf = BayesianLDA().fit(centre[y] + rng.normal(size=(3 * n, p)), y)
    x = centre[np.arange(30) % 3] + rng.normal(size=(30, p))
    posterior, draws = clf.posterior_, 20_000
    precision = stats.wishart(posterior.dof[0], np.linalg.inv(posterior.scale[0])).rvs(
        draws, random_state=rng
    )
    precision = precision.reshape(draws, p, p)
    root = np.linalg.cholesky(np.linalg.inv(precision))
    log_joint = np.log(rng.dirichlet(clf.class_posterior_, draws))[:, None, :] * np.ones((1, 30, 1))
    for k in range(3):
        z = rng.standard_normal((draws, p)) / np.sqrt(posterior.strength[k])
        mean = posterior.mean[k] + np.einsum("dij,dj->di", root, z)
        away = x[None] - mean[:, None]
        log_joint[..., k] -= 0.5 * np.einsum("dni,dij,dnj->dn", away, precision, away)
    joint = np.exp(log_joint) * np.sqrt(np.linalg.det(precision))[:, None, None]
    weight = joint.sum(-1) / joint.sum((0, -1))
    overlap = (weight * stats.entropy(joint, axis=-1)).sum(0)
    expected = stats.entropy(joint.sum(0), axis=-1) - overlap
    found = Summariser(clf).summarise(x.T[None]).model
    assert found.mean() == pytest.approx(expected.mean(), rel=0.06)  # 1.05 to 1.45 times before
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.25 * expected.mean())


# ---- draws from the posterior ----------------------------------------------------------------------------


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_posterior_draws_have_the_expected_means(cls, rng):
    y = np.repeat([0, 1], [12, 30])
    X = rng.normal(size=(42, 2)) + y[:, None]
    clf = cls().fit(X, y)
    phi, mu, sigma = clf.sample_posterior(20_000, random_state=1)
    for draws, expected in (
        (phi, np.array([13, 31]) / 44),
        (mu, clf.means_),
        (sigma, clf.covariances_),
    ):
        error = draws.std(0) / np.sqrt(len(draws))
        assert (np.abs(draws.mean(0) - expected) <= 4.5 * error + 1e-12).all()
    again = clf.sample_posterior(3, random_state=1)
    np.testing.assert_array_equal(again.mu, clf.sample_posterior(3, random_state=1).mu)


def test_posterior_draws_over_worlds(rng):
    y = np.repeat([0, 1], 500)
    error = np.array([-5.0, 0.0, 5.0])
    X = (rng.normal(size=1000) + y)[:, None, None] + error[None, :, None]
    clf = BayesianQDA(realisations="shared").fit(X, y)
    mu = clf.sample_posterior(3000).mu[:, 0, 0]
    near = np.abs(mu[:, None] - error).argmin(1)
    assert stats.chisquare(np.bincount(near)).pvalue > 1e-4
