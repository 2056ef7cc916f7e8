"""Sums by pattern of gaps, filling in, and draws: against sample by sample, and optimisation."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.linalg import block_diag

from uncover.bayes.deconvolved import GappyDiagonal, GappyNIW
from uncover.bayes.evidence import evidence_tied_prior
from uncover.bayes.gaps import Gaps, Missing, fill_in
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW, DiagonalNIW
from uncover.bayes.student_t import StudentT

K, P = 2, 3


@pytest.fixture
def problem(rng):
    """Samples of two classes, a third of their values missing, with weights; some lack all."""
    y = np.arange(60) % K
    X = rng.normal(size=(K, P))[y] + rng.normal(size=(60, P)) @ rng.normal(size=(P, P))
    return np.where(rng.random(X.shape) < 0.33, np.nan, X), y, rng.uniform(0.2, 2.0, 60)


def parts(y, w):
    return [(np.flatnonzero(y == k), w[y == k]) for k in range(K)]


def covariances(rng):
    roots = rng.normal(size=(K, P, P))
    return roots @ roots.swapaxes(1, 2) + np.eye(P)


def test_completed_moments_are_those_of_each_sample_filled_in(problem, rng):
    X, y, w = problem
    mean, sigma = rng.normal(size=(K, P)), covariances(rng)
    found = Gaps.of(X, parts(y, w)).completed(mean, sigma)
    for k in range(K):
        filled, added = [], np.zeros((P, P))
        for x, weight in zip(X[y == k], w[y == k], strict=True):
            o, m = ~np.isnan(x), np.isnan(x)
            slopes = sigma[k][np.ix_(m, o)] @ np.linalg.inv(sigma[k][np.ix_(o, o)])
            whole = x.copy()
            whole[m] = mean[k][m] + slopes @ (x[o] - mean[k][o])
            added[np.ix_(m, m)] += weight * (sigma[k][np.ix_(m, m)] - slopes @ sigma[k][np.ix_(o, m)])
            filled.append(whole)
        expected = Moments.of(np.array(filled), w[y == k])
        np.testing.assert_allclose(found.count[k], expected.count, rtol=1e-12)
        np.testing.assert_allclose(found.mean[k], expected.mean, atol=1e-12)
        np.testing.assert_allclose(found.scatter[k], expected.scatter + added, atol=1e-11)


def test_sums_of_parts_are_those_of_all(problem, rng):
    X, y, w = problem
    X, y, w = (np.concatenate([a] * 6) for a in (X, y, w))  # enough rows of one pattern to be made fewer
    X = X + rng.normal(size=X.shape)
    whole, cut = Gaps.of(X, parts(y, w)), rng.random(len(y)) < 0.4
    one, two = (Gaps.of(X[c], parts(y[c], w[c])) for c in (cut, ~cut))
    mean, sigma = rng.normal(size=(K, P)), covariances(rng)
    expected = whole.completed(mean, sigma)
    for total in (one + two, two + one):
        np.testing.assert_array_equal(total.lacking, whole.lacking)
        np.testing.assert_allclose(total.pair_counts, whole.pair_counts, rtol=1e-12)
        found = total.completed(mean, sigma)
        np.testing.assert_allclose(found.mean, expected.mean, atol=1e-12)
        np.testing.assert_allclose(found.scatter, expected.scatter, rtol=1e-11, atol=1e-10)
        assert len(total.rows) <= 2 * P * len(total.count)


def test_samples_without_gaps_and_their_moments_are_the_same(problem, rng):
    _, y, w = problem
    X = 1e4 + rng.normal(size=(60, P))
    moments = Moments.by_group(X, y, K, w)
    again = Gaps.of_moments(moments).completed(rng.normal(size=(K, P)), covariances(rng))
    np.testing.assert_allclose(again.mean, moments.mean, rtol=1e-14)
    np.testing.assert_allclose(again.scatter, moments.scatter, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("strength", [0.0, 3.0])
@pytest.mark.parametrize("tied", [False, True])
def test_filling_in_maximises_the_posterior(strength, tied, problem):
    """Against direct maximisation of the likelihood of what is there, times the prior.

    log p(x_o | μ, Σ) − ½(ν−p−1) log|Σ| − ½ tr ΨΣ⁻¹ − ½λ(μ−μ₀)ᵀΣ⁻¹(μ−μ₀): the one whose maximum, without
    gaps, is the posterior mean of Σ.
    """
    X, y, w = problem
    scale = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.2], [0.0, 0.2, 0.5]])
    batch = 1 if tied else K
    prior = NIW(np.ones((K, P)), np.full(K, strength), np.stack([scale] * batch), np.full(batch, P + 3.0))
    gaps = Gaps.of(X, parts(y, w))

    def conclude(moments, _):
        return prior, prior.update_tied(moments) if tied else prior.update(moments)

    _, _, posterior, converged = fill_in(gaps, gaps.start(), conclude, tolerance=1e-11)
    assert converged
    lower, patterns = np.tril_indices(P), [o for o in np.unique(~np.isnan(X), axis=0) if o.any()]

    def unpack(theta):
        roots = np.zeros((batch, P, P))
        roots[:, lower[0], lower[1]] = theta[K * P :].reshape(batch, -1)
        return theta[: K * P].reshape(K, P), roots @ roots.swapaxes(1, 2)

    def loss(theta):
        mean, sigma = unpack(theta)
        total = 0.0
        for k, o in itertools.product(range(K), patterns):
            rows = (y == k) & (~np.isnan(X) == o).all(axis=1)
            own = sigma[0 if tied else k][np.ix_(o, o)]
            total -= w[rows] @ np.atleast_1d(stats.multivariate_normal(mean[k][o], own).logpdf(X[rows][:, o]))
        for b in range(batch):
            inverse = np.linalg.inv(sigma[b])
            total += 0.5 * 2.0 * np.linalg.slogdet(sigma[b])[1] + 0.5 * np.trace(scale @ inverse)
            for k in range(K) if tied else [b]:
                total += 0.5 * strength * (mean[k] - 1.0) @ inverse @ (mean[k] - 1.0)
        return total

    start = np.concatenate([np.zeros(K * P), np.tile(np.eye(P)[lower], batch)])
    best = optimize.minimize(loss, start, method="BFGS", options={"gtol": 1e-7})
    mean, sigma = unpack(best.x)
    np.testing.assert_allclose(posterior.mean, mean, atol=3e-5)
    np.testing.assert_allclose(posterior.expected_covariance, sigma, atol=1e-4)


@pytest.mark.parametrize("keep", [[0, 1, 2], [0, 2], [1]])
@pytest.mark.parametrize("diagonal", [False, True])
def test_pairs_that_all_count_alike_are_a_plain_niw(keep, diagonal, rng):
    scale = covariances(rng)[0] * (np.eye(P) if diagonal else 1.0)
    plain = (DiagonalNIW if diagonal else NIW)(rng.normal(size=P), 4.0, scale, 9.0)
    sigma = plain.expected_covariance
    kind = GappyDiagonal if diagonal else GappyNIW
    gappy = kind.of(plain.mean, sigma, sigma / 4.0, np.full((P, P), 9.0 - P - 1.0))
    points = rng.normal(size=(5, len(keep)))
    expected = plain.select_features(keep).predictive()
    found = gappy.select_features(keep).predictive()
    # The covariance of the predictive is (λ+1)/λ E[Σ] for both; so are location and degrees of freedom.
    np.testing.assert_allclose(found.log_prob(points), expected.log_prob(points), rtol=1e-12)


def test_what_few_samples_show_together_is_known_less(rng):
    weight = np.array([[30.0, 5.0], [5.0, 30.0]])
    both = GappyNIW.of(np.zeros(2), np.eye(2), 0.1 * np.eye(2), weight)
    assert both.dof - 3 == pytest.approx(1.0 / np.mean(1.0 / weight))
    assert both.select_features([0]).dof - 2 == pytest.approx(30.0)


def test_draws_of_what_is_missing_have_its_distribution(rng):
    """The conditional of a multivariate t is a t; components by their probabilities."""
    root = np.linalg.cholesky(covariances(rng))
    t = StudentT(rng.normal(size=(K, P)), root, np.array([5.0, 9.0]))
    x, there = np.array([[0.3, np.nan, np.nan], [2.0, np.nan, np.nan]]), np.array([True, False, False])
    n = 40_000
    for k, P_k in enumerate(np.eye(K)):
        drawn = Missing(t, there).draw(x, np.tile(P_k, (2, 1)), rng.random((n, 2 + P)))
        assert (drawn[:, :, 0] == x[:, :1]).all()
        S, m, dof = root[k] @ root[k].T, t.location[k], t.dof[k]
        for i in range(2):
            q = (x[i, 0] - m[0]) ** 2 / S[0, 0]
            left = (S[1:, 1:] - np.outer(S[1:, 0], S[0, 1:]) / S[0, 0]) * (dof + q) / (dof + 1)
            centre = m[1:] + S[1:, 0] / S[0, 0] * (x[i, 0] - m[0])
            for j in range(2):
                own = stats.t(dof + 1, centre[j], np.sqrt(left[j, j]))
                assert stats.kstest(drawn[i, :, 1 + j], own.cdf).pvalue > 1e-3
            correlation = np.corrcoef(drawn[i, :, 1:].T)[0, 1]
            assert correlation == pytest.approx(left[0, 1] / np.sqrt(left[0, 0] * left[1, 1]), abs=0.06)
    mixed = Missing(t, there).draw(x[:1], np.array([[0.25, 0.75]]), rng.random((n, 2 + P)))[0, :, 1]
    parts = [Missing(t, there).draw(x[:1], one[None], rng.random((n, 2 + P)))[0, :, 1] for one in np.eye(K)]
    expected = 0.25 * parts[0].mean() + 0.75 * parts[1].mean()
    assert mixed.mean() == pytest.approx(expected, abs=5 * mixed.std() / np.sqrt(n))


# ---- blocks that are missing together --------------------------------------------------------------


def kullback(found, truth):
    """Kullback–Leibler divergence of centred Gaussians, in nats."""
    ratio = np.linalg.solve(found, truth)
    return 0.5 * (np.trace(ratio) - len(truth) - np.linalg.slogdet(ratio)[1])


def of_blocks(truth, rng, n=40):
    """Classes of n samples in all with one covariance, whose dates of 3 bands are hidden by 40 %."""
    x = rng.multivariate_normal(np.zeros(len(truth)), truth, n)
    gone = rng.random((n, len(truth) // 3)) < 0.4
    gone[np.arange(n), rng.integers(gone.shape[1], size=n)] = False
    x[np.repeat(gone, 3, axis=1)] = np.nan
    halves = np.arange(n) % 2
    return Gaps.of(x, [(np.flatnonzero(halves == k), np.ones(n // 2)) for k in range(2)])


def expected(gaps):
    """Expected common covariance after samples with gaps."""

    def conclude(moments, covariance):
        prior = evidence_tied_prior(moments, seen=gaps.seen(moments, covariance))
        return prior, prior.update_tied(moments)

    return fill_in(gaps, gaps.start(), conclude, 1e-3)[2].expected_covariance[0]


def test_dates_with_the_same_bands_are_learned_from_together(rng):
    dates = 0.9 ** np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    bands = np.array([[1.0, 0.8, -0.3], [0.8, 1.0, 0.0], [-0.3, 0.0, 1.0]])
    truth = np.kron(dates, bands)
    gaps = of_blocks(truth, rng)
    alone = replace(gaps)
    vars(alone)["blocks"] = None
    assert kullback(expected(gaps), truth) < 0.5 * kullback(expected(alone), truth)


def test_blocks_that_have_nothing_in_common_lose_nothing(rng):
    roots = np.random.default_rng(3).normal(size=(4, 3, 3))
    truth = block_diag(*(root @ root.T + 0.1 * np.eye(3) for root in roots))
    gaps = of_blocks(truth, rng)
    alone = replace(gaps)
    vars(alone)["blocks"] = None
    assert kullback(expected(gaps), truth) < 1.05 * kullback(expected(alone), truth)
