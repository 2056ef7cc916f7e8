"""Priors by evidence, against chains of predictive densities, Monte Carlo and SciPy's optimiser."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats
from scipy.special import logsumexp

from uncover.bayes.evidence import (
    ScatterEvidence,
    common_covariance,
    evidence_independent_prior,
    evidence_prior,
    evidence_tied_prior,
    log_evidence_tied,
)
from uncover.bayes.jeffreys import JeffreysPrior
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW


def classes(rng, n=(9, 14, 30), p=3, spread=1.0):
    """Samples of classes whose covariances differ by the factor ``spread`` from one to the next."""
    x = np.concatenate(
        [rng.normal(size=(m, p)) @ rng.normal(size=(p, p)) * spread**k + k for k, m in enumerate(n)]
    )
    return x, np.repeat(np.arange(len(n)), n)


def chain_of_predictives(x, target, weight):
    """Σ log p(x_i | x_1 … x_{i−1}) by SciPy; the first sample only gives the mean, which is flat."""
    p = x.shape[1]
    state = NIW(x[0], 1.0, weight * target, weight + p + 1.0)
    total = 0.0
    for row in x[1:]:
        t = state.predictive()
        total += stats.multivariate_t(t.location, t.root @ t.root.T, df=float(t.dof)).logpdf(row)
        state = state.update(Moments.of(row[None]))
    return total


@given(seed=st.integers(0, 2**32 - 1), weight=st.floats(0.01, 1e4), p=st.integers(1, 4))
@settings(max_examples=10)
def test_evidence_is_the_chain_of_predictives_after_the_first_sample(seed, weight, p):
    rng = np.random.default_rng(seed)
    x, a = rng.normal(size=(8, p)), rng.normal(size=(p, p + 2))
    target = a @ a.T
    expected = chain_of_predictives(x, target, weight)
    assert ScatterEvidence.of(Moments.of(x), target).at(weight) == pytest.approx(expected, abs=1e-8)


def test_evidence_is_the_integral_over_covariances(rng):
    """Monte Carlo over Σ ~ IW of the density of the deviations, the flat mean integrated by hand."""
    x, target, weight = rng.normal(size=(6, 2)), np.array([[1.0, 0.3], [0.3, 2.0]]), 7.0
    sigma = stats.invwishart(weight + 3, weight * target).rvs(200_000, random_state=rng)
    S, n = Moments.of(x).scatter, len(x)
    precision = np.linalg.inv(sigma)
    log_det = np.linalg.slogdet(sigma)[1]
    log_density = -0.5 * (n - 1) * (log_det + 2 * np.log(2 * np.pi)) - 0.5 * np.einsum(
        "nij,ji->n", precision, S
    )
    log_density -= np.log(n)  # of ∫ over the mean, (2π/n)^(p/2) |Σ|^½ with p = 2
    estimate = logsumexp(log_density) - np.log(len(log_density))
    share = np.exp(log_density - estimate)
    error = share.std() / np.sqrt(len(share))
    assert error < 0.01
    assert abs(ScatterEvidence.of(Moments.of(x), target).at(weight) - estimate) < 5 * error


def test_the_weight_maximises_the_sum_of_log_predictives(rng):
    """Against SciPy on the chain of predictive densities, which shares no code with the closed form."""
    x, y = classes(rng, spread=1.3)
    moments = Moments.by_group(x, y, 3)
    C = common_covariance(moments)
    found = evidence_prior(moments)

    def loss(u):
        return -sum(chain_of_predictives(x[y == k], C, np.exp(u)) for k in range(3))

    best = optimize.minimize_scalar(loss, bounds=(-3, 10), method="bounded", options={"xatol": 1e-7})
    assert np.log(found.dof[0] - 4.0) == pytest.approx(best.x, abs=1e-4)
    np.testing.assert_allclose(found.scale, np.broadcast_to((found.dof[0] - 4.0) * C, (3, 3, 3)))


@pytest.mark.parametrize("make", [evidence_tied_prior, evidence_independent_prior])
def test_weights_of_the_other_families_maximise_their_predictives(make, rng):
    x, y = classes(rng, p=2, spread=1.2)
    moments = Moments.by_group(x, y, 3)
    D = np.diag(np.diagonal(common_covariance(moments)))

    def tied(weight):
        """One scatter for all classes: the deviations of each class in turn, about one prior."""
        state = NIW(np.zeros((1, 2)), np.ones(1), weight * D[None], np.array([weight + 3.0]))
        total = 0.0
        for k in range(3):
            own = x[y == k]
            state = NIW(own[:1], np.ones(1), state.scale, state.dof)
            for row in own[1:]:
                total += float(state.predictive().log_prob(row[None])[0, 0])
                state = state.update(Moments.stack([Moments.of(row[None])]))
        return total

    def independent(weight):
        return sum(
            chain_of_predictives(x[y == k][:, [j]], D[j : j + 1, j : j + 1], weight)
            for k in range(3)
            for j in range(2)
        )

    log_predictive = tied if make is evidence_tied_prior else independent
    options = {"bounds": (-3, 13.8), "method": "bounded", "options": {"xatol": 1e-7}}
    best = optimize.minimize_scalar(lambda u: -log_predictive(np.exp(u)), **options)
    weight = float(make(moments).dof.flat[0]) - 3.0
    assert -1e-6 < log_predictive(weight) + best.fun < 1e-4


def test_evidence_slides_between_common_and_separate_covariances(rng):
    x = rng.normal(size=(3000, 4)) @ rng.normal(size=(4, 4))
    y = np.arange(3000) % 3
    alike = evidence_prior(Moments.by_group(x, y, 3))
    assert alike.dof[0] > 1000
    unlike = evidence_prior(Moments.by_group(x * np.array([[0.1], [1.0], [10.0]])[y], y, 3))
    assert unlike.dof[0] < 12


def test_evidence_stays_within_its_bounds(rng):
    same = np.concatenate([rng.normal(size=(50, 2))] * 3)
    assert evidence_prior(Moments.by_group(same, np.repeat(np.arange(3), 50), 3)).dof[0] <= 1e6


def test_a_singular_common_covariance_is_drawn_towards_its_diagonal(rng):
    x, y = rng.normal(size=(10, 20)), np.arange(10) % 2
    moments = Moments.by_group(x, y, 2)
    C = common_covariance(moments)
    assert np.linalg.eigvalsh(C).min() > 0
    whole = moments.scatter.sum(0) / 8
    off = ~np.eye(20, dtype=bool)
    ratio = C[off] / whole[off]
    np.testing.assert_allclose(ratio, ratio[0])
    assert 0 < ratio[0] < 1


def test_samples_of_several_equal_rows_count_once(rng):
    x, y = classes(rng)
    one, five = Moments.by_group(x, y, 3), Moments.by_group(np.repeat(x, 5, axis=0), np.repeat(y, 5), 3)
    once, often = evidence_prior(one), evidence_prior(five, rows_per_sample=5.0)
    assert (often.dof[0] - 4.0) / 5.0 == pytest.approx(once.dof[0] - 4.0, rel=1e-6)
    np.testing.assert_allclose(often.expected_covariance, once.expected_covariance, rtol=1e-9)


def test_tied_evidence_is_bayes_theorem(rng):
    """prior · likelihood = posterior · evidence at any parameters, by SciPy."""
    x, y = classes(rng, n=(4, 6), p=2)
    mean, strength = rng.normal(size=(2, 2)), np.array([0.7, 2.0])
    prior = NIW(mean, strength, np.array([[[2.0, 0.4], [0.4, 1.0]]]), np.array([4.5]))
    posterior = prior.update_tied(Moments.by_group(x, y, 2))

    def log_density(niw, mu, sigma):
        wishart = stats.invwishart(float(niw.dof[0]), niw.scale[0]).logpdf(sigma)
        return wishart + sum(
            stats.multivariate_normal(niw.mean[k], sigma / niw.strength[k]).logpdf(mu[k]) for k in range(2)
        )

    mu, sigma = rng.normal(size=(2, 2)), np.array([[1.5, -0.2], [-0.2, 0.8]])
    likelihood = sum(stats.multivariate_normal(mu[k], sigma).logpdf(x[y == k]).sum() for k in range(2))
    expected = log_density(prior, mu, sigma) + likelihood - log_density(posterior, mu, sigma)
    assert float(log_evidence_tied(prior, Moments.by_group(x, y, 2))) == pytest.approx(expected, abs=1e-9)
    with pytest.raises(ValueError, match="does not exist for strength 0"):
        log_evidence_tied(NIW(mean, 0.0, np.eye(2), 4.0), Moments.by_group(x, y, 2))


def test_jeffreys_gives_the_classical_prediction_interval(rng):
    """In one dimension: x̄ ± t_{N−1} s √(1+1/N), for all families."""
    x = rng.normal(size=(7, 1))
    moments = Moments.stack([Moments.of(x)])
    prior = JeffreysPrior.of(moments)
    t = stats.t(6, x.mean(), x.std(ddof=1) * np.sqrt(1 + 1 / 7))
    for posterior in (prior.update(moments), prior.update_tied(moments), prior.update_independent(moments)):
        np.testing.assert_allclose(posterior.predictive().log_prob([[0.3]])[0, 0], t.logpdf(0.3), rtol=1e-12)


def test_jeffreys_posterior_is_that_of_the_density(rng):
    """log posterior − log likelihood is −(p+1)/2 log|Σ| up to a constant, with densities by SciPy."""
    x = rng.normal(size=(9, 3))
    posterior = JeffreysPrior.of(Moments.stack([Moments.of(x)])).update(Moments.stack([Moments.of(x)]))

    def difference():
        a = rng.normal(size=(3, 5))
        mu, sigma = rng.normal(size=3), a @ a.T
        log_posterior = stats.invwishart(float(posterior.dof[0]), posterior.scale[0]).logpdf(sigma)
        log_posterior += stats.multivariate_normal(posterior.mean[0], sigma / posterior.strength[0]).logpdf(
            mu
        )
        likelihood = stats.multivariate_normal(mu, sigma).logpdf(x).sum()
        return log_posterior - likelihood + 0.5 * (3 + 1) * np.linalg.slogdet(sigma)[1]

    values = [difference() for _ in range(4)]
    np.testing.assert_allclose(values, values[0], rtol=1e-9)
