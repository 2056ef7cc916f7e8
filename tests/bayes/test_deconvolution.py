"""Class models learned through known noise: against the plain update, a Gibbs sampler, sums written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from uncover.bayes.covariances import Covariances
from uncover.bayes.deconvolution import NoisySamples, deconvolve, expectation_maximisation
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW

laws = settings(derandomize=True, deadline=None, max_examples=25)


def samples_of(x, noise, group=None, weight=None):
    x = np.asarray(x, float)
    group = np.zeros(len(x), dtype=np.intp) if group is None else group
    weight = np.ones(len(x)) if weight is None else weight
    return NoisySamples(x, Covariances.read(noise, *x.shape), weight, group, int(group.max()) + 1)


def prior_of(p, strength=0.0, dof=None, size=1.0):
    return NIW(np.zeros((1, p)), np.full(1, strength), size * np.eye(p)[None], np.full(1, dof or p + 2.0))


def simulate(rng, n, p, most=3.0, band=None):
    """A class, measured with noise that differs between samples and much between bands."""
    a = rng.standard_normal((p, p + 3))
    sigma, mean = a @ a.T / p, rng.standard_normal(p)
    band = np.geomspace(0.05, 1.0, p) if band is None else band
    b = rng.standard_normal((n, p, p + 2)) * (most * band * np.sqrt(np.diagonal(sigma)))[:, None]
    noise = b @ np.swapaxes(b, 1, 2) / (p + 2) * rng.uniform(0.05, 1.0, n)[:, None, None]
    x = mean + rng.standard_normal((n, p)) @ np.linalg.cholesky(sigma).T
    return x + np.einsum("nij,nj->ni", np.linalg.cholesky(noise), rng.standard_normal((n, p))), noise


@laws
@given(
    seed=st.integers(0, 2**32 - 1), n=st.integers(1, 30), p=st.integers(1, 5), strength=st.floats(0.0, 20.0)
)
def test_without_noise_it_is_the_plain_update(seed, n, p, strength):
    rng = np.random.default_rng(seed)
    x = 3.0 + rng.standard_normal((n, p)) @ rng.standard_normal((p, p))
    prior = prior_of(p, strength, p + 2.0 + 5 * rng.random(), 0.5)
    plain = prior.update(Moments.stack([Moments.of(x)], axis=0))
    found = deconvolve(samples_of(x, np.zeros(p)), prior)
    for name in ("mean", "strength", "dof", "scale"):
        np.testing.assert_allclose(getattr(found, name), getattr(plain, name), rtol=1e-7, atol=1e-7)
    for mine, theirs in zip(found.variance_marginal(), plain.variance_marginal(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-7)
    for one, two in (
        (found.predictive(), plain.predictive()),
        (found.mean_marginal(), plain.mean_marginal()),
    ):
        np.testing.assert_allclose(one.root @ one.root.mT, two.root @ two.root.mT, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(one.dof, two.dof, rtol=1e-9)


@laws
@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 4))
def test_an_invertible_map_of_the_features_maps_the_class_model(seed, p):
    rng = np.random.default_rng(seed)
    x, noise = simulate(rng, 80, p)
    a, shift = rng.standard_normal((p, p)) + 2 * np.eye(p), 10.0 * rng.standard_normal(p)
    prior = prior_of(p)
    mapped = NIW(shift[None], prior.strength, a @ prior.scale @ a.T, prior.dof)
    one = deconvolve(samples_of(x, noise), prior)
    two = deconvolve(samples_of(x @ a.T + shift, a @ noise @ a.T), mapped)
    unit = np.sqrt(np.diagonal(two.expected_covariance[0]))
    np.testing.assert_allclose((one.mean @ a.T + shift - two.mean) / unit, 0.0, atol=1e-5)
    gap = (a @ one.expected_covariance @ a.T - two.expected_covariance) / (unit[:, None] * unit)
    np.testing.assert_allclose(gap, 0.0, atol=1e-4)


def test_weights_are_counts(rng):
    x, noise = simulate(rng, 60, 3)
    weight = rng.integers(1, 4, 60).astype(float)
    often = np.repeat(np.arange(60), weight.astype(int))
    one = deconvolve(samples_of(x, noise, weight=weight), prior_of(3))
    two = deconvolve(samples_of(x[often], noise[often]), prior_of(3))
    for name in one.parameters():
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-5, atol=1e-6)


def test_acceleration_ends_where_plain_iterations_end(rng):
    x, noise = simulate(rng, 200, 3)
    samples, prior = samples_of(x, noise), prior_of(3)
    mean, covariance = expectation_maximisation(samples, prior, 5000)
    found = deconvolve(samples, prior)
    assert found.converged.all()
    np.testing.assert_allclose(found.mean, mean, atol=1e-5)
    np.testing.assert_allclose(found.expected_covariance[0], covariance, atol=1e-5)


def test_plain_iterations_are_the_published_ones(rng):
    """One step of extreme deconvolution with the NIW prior, written out sample by sample."""
    p = 3
    x, noise = simulate(rng, 40, p)
    prior = prior_of(p, strength=2.0, dof=p + 4.0)
    samples = samples_of(x, noise)
    mean, sigma = (part for part in expectation_maximisation(samples, prior, 3))
    mean_after, sigma_after = expectation_maximisation(samples, prior, 4)
    total, precision, pull = prior.scale[0].copy(), 2.0 * np.linalg.inv(sigma), np.zeros(p)
    total += 2.0 * np.outer(mean[0], mean[0])
    pull -= 2.0 * np.linalg.solve(sigma, mean[0])
    for xi, si in zip(x, noise, strict=True):
        inverse = np.linalg.inv(sigma + si)
        b = mean[0] + sigma @ inverse @ (xi - mean[0])
        total += np.outer(b - mean[0], b - mean[0]) + sigma - sigma @ inverse @ sigma
        precision += inverse
        pull += inverse @ (xi - mean[0])
    np.testing.assert_allclose(sigma_after, total / (p + 4.0 + 40 - p - 1), rtol=1e-10)
    np.testing.assert_allclose(mean_after[0], mean[0] + np.linalg.solve(precision, pull), rtol=1e-10)


def gibbs(x, noise, prior, n_draws, rng, burn=300):
    """Draws of (μ, Σ) by data augmentation: χ_i | μ, Σ, x_i, then (μ, Σ) | χ from the NIW."""
    n, p = x.shape
    precision_noise = np.linalg.inv(noise)
    weighted = np.einsum("nij,nj->ni", precision_noise, x)
    sigma, mu = np.cov(x.T).reshape(p, p), x.mean(0)
    mus, sigmas = np.empty((n_draws, p)), np.empty((n_draws, p, p))
    for i in range(-burn, n_draws):
        inverse = np.linalg.inv(sigma)
        cov = np.linalg.inv(precision_noise + inverse)
        centre = np.einsum("nij,nj->ni", cov, weighted + inverse @ mu)
        chi = centre + np.einsum("nij,nj->ni", np.linalg.cholesky(cov), rng.standard_normal((n, p)))
        bar = chi.mean(0)
        scatter = (chi - bar).T @ (chi - bar)
        sigma = np.atleast_2d(
            stats.invwishart(float(prior.dof[0]) + n, prior.scale[0] + scatter).rvs(random_state=rng)
        )
        mu = bar + np.linalg.cholesky(sigma / n) @ rng.standard_normal(p)
        if i >= 0:
            mus[i], sigmas[i] = mu, sigma
    return mus, sigmas


def test_counts_of_directions_agree_with_a_gibbs_sampler(rng):
    """Bands whose noise differs by twenty: posterior standard deviations of μ and Σ_jj, and their means.

    One count for both bands would be wrong here by a factor: the clean band is known as well as by all
    samples, the noisy one as by a tenth of them, m. The mean of a noisy variance differs by design: an
    inverse-Wishart prior pulls a variance that is barely seen towards zero, by up to √(8/m) of its standard
    deviation.
    """
    p, n = 2, 250
    x, noise = simulate(rng, n, p, most=3.0, band=np.array([0.05, 1.0]))
    prior = prior_of(p, size=0.3)
    mus, sigmas = gibbs(x, noise, prior, 6000, rng)
    found = deconvolve(samples_of(x, noise), prior)
    deviation = np.sqrt(np.diagonal(found.mean_covariance[0]))
    np.testing.assert_allclose((found.mean[0] - mus.mean(0)) / mus.std(0), 0.0, atol=0.15)
    np.testing.assert_allclose(deviation / mus.std(0), 1.0, atol=0.1)
    drawn = np.diagonal(sigmas, axis1=1, axis2=2)
    dof, scale = (value[0] for value in found.variance_marginal())
    assert dof[0] > 4 * dof[1]
    mean, spread = scale / (dof - 2), scale / (dof - 2) / np.sqrt(0.5 * (dof - 4))
    shift = (mean - drawn.mean(0)) / drawn.std(0)
    assert np.all(shift > -0.25)
    assert np.all(shift < np.sqrt(8 / dof) + 0.25)
    np.testing.assert_allclose(spread / drawn.std(0), 1.0, atol=0.2)


def test_the_common_mean_without_noise_in_a_group_of_its_own(rng):
    """Groups share Σ and keep their own means: as the tied update where there is no noise."""
    x = rng.standard_normal((50, 2)) + np.repeat([[0.0, 0.0], [5.0, 1.0]], [20, 30], axis=0)
    group = np.repeat([0, 1], [20, 30]).astype(np.intp)
    prior = NIW(np.zeros((2, 2)), np.zeros(2), 0.2 * np.eye(2)[None], np.full(1, 4.0))
    plain = prior.update_tied(Moments.by_group(x, group, 2))
    found = deconvolve(samples_of(x, np.zeros(2), group), prior)
    np.testing.assert_allclose(found.mean, plain.mean, atol=1e-7)
    np.testing.assert_allclose(found.expected_covariance, plain.expected_covariance, rtol=1e-7)


def test_many_features_count_along_axes(rng, monkeypatch):
    """The short cut for many features gives nearly the counts of the full information."""
    from uncover.bayes import deconvolution

    x, noise = simulate(rng, 400, 5)
    full = deconvolve(samples_of(x, noise), prior_of(5))
    monkeypatch.setattr(deconvolution, "FULL_INFORMATION_UP_TO", 0)
    short = deconvolve(samples_of(x, noise), prior_of(5))
    np.testing.assert_allclose(short.variance_dof, full.variance_dof, rtol=0.25)


def test_what_did_not_come_to_rest_says_so(rng):
    x, noise = simulate(rng, 50, 3, most=10.0)
    assert not deconvolve(samples_of(x, noise), prior_of(3), max_iterations=3).converged.any()


def test_a_class_learned_through_noise_refuses_to_lose_it_again(rng):
    x, noise = simulate(rng, 50, 2)
    with pytest.raises(TypeError, match="no noise left"):
        deconvolve(samples_of(x, noise), prior_of(2)).exchange_noise(np.eye(2), 1.0, 0.0)
