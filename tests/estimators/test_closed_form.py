"""Class probabilities are the closed expression of the method, and that expression is Bayes' theorem."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from uncover import NIW, BayesianLDA, BayesianNB, BayesianQDA


def closed_expression(X, y, x, K):
    """(N_k+1) T(x | x̄_k, (N_k+1)/(N_k(N_k+3)) Ψ_k, N_k+3), Ψ_k = diag(C_k)/K^(2/p) + (N_k−1) C_k."""
    p, columns = X.shape[1], []
    for k in np.unique(y):
        mine = X[y == k]
        N = len(mine)
        C = np.atleast_2d(np.cov(mine.T))
        Psi = np.diag(np.diag(C)) / K ** (2 / p) + (N - 1) * C
        t = stats.multivariate_t(mine.mean(0), (N + 1) / (N * (N + 3)) * Psi, df=N + 3)
        columns.append(np.log(N + 1) + t.logpdf(x).reshape(len(x)))
    logs = np.stack(columns, axis=1)
    weight = np.exp(logs - logs.max(1, keepdims=True))
    return weight / weight.sum(1, keepdims=True)


@given(
    seed=st.integers(0, 2**32 - 1),
    p=st.integers(1, 8),
    counts=st.lists(st.integers(2, 15), min_size=2, max_size=5),
    R=st.integers(1, 6),
    new_R=st.integers(1, 4),
)
def test_probabilities_are_the_closed_expression(seed, p, counts, R, new_R):
    """Pooled realisations are observations; at prediction the probabilities are averaged."""
    rng = np.random.default_rng(seed)
    K = len(counts)
    y = np.repeat(np.arange(K), counts)
    X = rng.normal(size=(len(y), 1, p)) + 0.7 * y[:, None, None] + 0.4 * rng.normal(size=(len(y), R, p))
    x = 1.5 * rng.normal(size=(5, new_R, p))
    clf = BayesianQDA().fit(X if R > 1 else X[:, 0], y)
    rows, labels = X.reshape(-1, p), np.repeat(y, R)
    expected = np.mean([closed_expression(rows, labels, x[:, r], K) for r in range(new_R)], axis=0)
    np.testing.assert_allclose(clf.predict_proba(x), expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(x)), expected, rtol=0, atol=1e-10)
    np.testing.assert_array_equal(clf.class_count_, R * np.array(counts))


def test_class_prior_adds_to_the_counts(rng):
    X, y = rng.normal(size=(20, 2)), np.repeat([0, 1], [5, 15])
    x = rng.normal(size=(4, 2))
    flat = BayesianQDA().fit(X, y).predict_proba(x)
    tilted = BayesianQDA(class_prior=[10.0, 2.5]).fit(X, y).predict_proba(x)
    odds = (tilted[:, 0] / tilted[:, 1]) / (flat[:, 0] / flat[:, 1])
    np.testing.assert_allclose(odds, ((5 + 10) / (15 + 2.5)) / (6 / 16), rtol=1e-12)


def test_density_of_the_whole_model(rng):
    X, y = rng.normal(size=(30, 2)), np.repeat([0, 1, 2], 10)
    clf = BayesianQDA().fit(X, y)
    area = np.linspace(-40, 40, 1601)
    grid = np.stack(np.meshgrid(area, area), axis=-1).reshape(-1, 2)
    total = np.exp(clf.score_samples(grid)).sum() * 0.05**2
    assert total == pytest.approx(1.0, abs=1e-4)


def test_shared_covariance_closed_form(rng):
    """BayesianLDA: Ψ = diag(pooled C)/K^(2/p) + ΣS_k and ν = N+p+2, written out."""
    K, p = 3, 2
    y = np.repeat(np.arange(K), [4, 7, 2])
    X, x = rng.normal(size=(13, p)) + y[:, None], rng.normal(size=(6, p))
    means = np.stack([X[y == k].mean(0) for k in range(K)])
    S = (X - means[y]).T @ (X - means[y])
    Psi = np.diag(np.diag(S / (13 - K))) / K ** (2 / p) + S
    dof = 13 + p + 2 - p + 1
    columns = []
    for k, N in enumerate([4, 7, 2]):
        t = stats.multivariate_t(means[k], (N + 1) / (N * dof) * Psi, df=dof)
        columns.append((N + 1) * t.pdf(x))
    expected = np.stack(columns, 1) / np.sum(columns, 0)[:, None]
    np.testing.assert_allclose(BayesianLDA().fit(X, y).predict_proba(x), expected, atol=1e-10)


def test_independent_features_closed_form(rng):
    """BayesianNB: each feature its own Student t, of the diagonal of the closed expression."""
    K, p = 2, 3
    y = np.repeat(np.arange(K), [4, 9])
    X, x = rng.normal(size=(13, p)) + y[:, None], rng.normal(size=(6, p))
    columns = []
    for k, N in enumerate([4, 9]):
        mine = X[y == k]
        v = mine.var(0, ddof=1)
        Psi = v / K ** (2 / p) + (N - 1) * v
        scale = np.sqrt((N + 1) / (N * (N + 3)) * Psi)
        columns.append((N + 1) * stats.t(N + 3, mine.mean(0), scale).pdf(x).prod(1))
    expected = np.stack(columns, 1) / np.sum(columns, 0)[:, None]
    np.testing.assert_allclose(BayesianNB().fit(X, y).predict_proba(x), expected, atol=1e-10)


# ---- brute force ------------------------------------------------------------------------------------


def integrate_class(data, x, mean, strength, scale, dof):
    """∫∫ Π N(x_i|μ,v) p(μ,v) dμ dv and the same with one more point, on a grid; strength 0: flat in μ."""
    log_v = np.linspace(-16, 14, 1501)[:, None]
    u = np.linspace(-14, 14, 701)
    v = np.exp(log_v)
    mu = data.mean() + np.sqrt(v) * u
    prior = stats.invgamma(dof / 2, scale=scale / 2).pdf(v)
    # Strength 0: the limit of N(μ | μ₀, v/λ)/√λ.
    prior = prior * (stats.norm.pdf(mu, mean, np.sqrt(v / strength)) if strength else 1 / np.sqrt(v))
    joint = prior * v**1.5  # dv = v dlog v, dμ = √v du
    for value in data:
        joint = joint * stats.norm.pdf(value, mu, np.sqrt(v))
    evidence = joint.sum()
    return np.array([(joint * stats.norm.pdf(point, mu, np.sqrt(v))).sum() / evidence for point in x])


def test_weak_prior_by_quadrature_over_mean_and_variance():
    """One feature, two classes of few samples: the posterior integrated on a grid, no conjugacy used."""
    groups = [np.array([0.1, 0.7, 0.4]), np.array([1.0, 2.2, 1.9, 1.1, 3.0])]
    X, y = np.concatenate(groups)[:, None], np.repeat([0, 1], [3, 5])
    x = np.array([-1.0, 0.4, 1.0, 2.5])
    columns = [(len(g) + 1) * integrate_class(g, x, None, 0.0, g.var(ddof=1) / 2**2, 3.0) for g in groups]
    expected = np.stack(columns, 1) / np.sum(columns, 0)[:, None]
    np.testing.assert_allclose(BayesianQDA().fit(X, y).predict_proba(x[:, None]), expected, atol=1e-7)


def test_given_prior_by_quadrature_over_mean_and_variance():
    groups = [np.array([0.1, 0.7, 0.4]), np.array([1.0, 2.2])]
    X, y = np.concatenate(groups)[:, None], np.repeat([0, 1], [3, 2])
    x = np.array([-1.0, 0.4, 1.0, 2.5])
    prior = NIW([0.5], 0.3, [[0.8]], 2.5)
    columns = [(len(g) + 1) * integrate_class(g, x, 0.5, 0.3, 0.8, 2.5) for g in groups]
    expected = np.stack(columns, 1) / np.sum(columns, 0)[:, None]
    clf = BayesianQDA(prior=prior).fit(X, y)
    np.testing.assert_allclose(clf.predict_proba(x[:, None]), expected, atol=1e-7)


def test_predictive_by_importance_sampling_from_the_prior():
    """Two features: draw classes from the prior, weigh them by the likelihood of the data."""
    rng = np.random.default_rng(8)
    n_draws = 400_000
    prior = NIW([0.0, 0.0], 0.5, [[1.0, 0.3], [0.3, 1.0]], 5.0)
    groups = [np.array([[0.2, -0.1], [0.5, 0.4], [-0.3, 0.1]]), np.array([[1.0, 0.8], [1.4, 1.5]])]
    x = np.array([[0.3, 0.2], [0.9, 0.9], [1.5, 0.2]])
    sigma = stats.invwishart(5.0, prior.scale).rvs(n_draws, random_state=3)
    root = np.linalg.cholesky(sigma)
    mu = np.einsum("nij,nj->ni", root, rng.normal(size=(n_draws, 2))) / np.sqrt(0.5)

    def density(point):
        z = np.linalg.solve(root, (point - mu)[..., None])[..., 0]
        return np.exp(-0.5 * (z**2).sum(1)) / (2 * np.pi * root[:, 0, 0] * root[:, 1, 1])

    found = BayesianQDA(prior=prior).fit(np.concatenate(groups), [0, 0, 0, 1, 1])
    log_density = found.posterior_.predictive().log_prob(x)
    for k, data in enumerate(groups):
        weight = np.prod([density(row) for row in data], axis=0)
        weight /= weight.sum()
        assert 1 / (weight**2).sum() > 1000  # enough draws matter
        for i, point in enumerate(x):
            d = density(point)
            estimate = (weight * d).sum()
            error = np.sqrt((weight**2 * (d - estimate) ** 2).sum())
            assert abs(np.exp(log_density[i, k]) - estimate) < 4 * error
            assert error < 0.05 * estimate
