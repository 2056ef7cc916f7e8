"""The normal-inverse-Wishart against its definition, quadrature, arbitrary precision and its own draws."""

import equicorrelation
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW, DiagonalNIW

CHANCE = 1e-4


def spd(p, rng, dof=3):
    a = rng.normal(size=(p, p + dof))
    return a @ a.T / p


def random_niw(p, rng):
    return NIW(rng.normal(size=p), rng.uniform(0.1, 5.0), spd(p, rng), p - 1 + rng.uniform(0.5, 9.0))


def log_density(niw, mu, sigma):
    """Of (μ, Σ), by SciPy."""
    wishart = stats.invwishart(float(niw.dof), niw.scale).logpdf(sigma)
    normal = stats.multivariate_normal(niw.mean, sigma / float(niw.strength)).logpdf(mu)
    return float(np.squeeze(wishart + normal))


@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 5), n=st.integers(1, 12))
def test_bayes_theorem_holds_at_any_parameters(seed, p, n):
    """prior · likelihood = posterior · evidence, each factor but the last two by SciPy."""
    rng = np.random.default_rng(seed)
    prior, x = random_niw(p, rng), rng.normal(size=(n, p))
    moments = Moments.of(x)
    posterior, evidence = prior.update(moments), float(prior.log_evidence(moments))
    for _ in range(3):
        mu, sigma = rng.normal(size=p), spd(p, rng)
        likelihood = stats.multivariate_normal(mu, sigma).logpdf(x).sum()
        left = log_density(prior, mu, sigma) + likelihood
        assert left == pytest.approx(log_density(posterior, mu, sigma) + evidence, rel=1e-10, abs=1e-9)


@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 5), n=st.integers(1, 12))
def test_evidence_is_the_product_of_predictives(seed, p, n):
    rng = np.random.default_rng(seed)
    prior, x = random_niw(p, rng), rng.normal(size=(n, p))
    chain, state = 0.0, prior
    for row in x:
        t = state.predictive()
        scale = t.root @ t.root.T
        chain += float(stats.multivariate_t(t.location, scale, df=float(t.dof)).logpdf(row))
        state = state.update(Moments.of(row[None]))
    assert float(prior.log_evidence(Moments.of(x))) == pytest.approx(chain, rel=1e-10, abs=1e-9)
    whole = prior.update(Moments.of(x))
    for name in ("mean", "strength", "scale", "dof"):
        np.testing.assert_allclose(getattr(state, name), getattr(whole, name), rtol=1e-10, atol=1e-12)


def test_evidence_and_predictive_by_numerical_integration():
    """p = 1: integrate likelihood times prior over mean and log variance."""
    prior = NIW([0.3], 0.7, [[1.4]], 3.0)
    x = np.array([0.1, 0.9, -0.4, 1.3])
    variance_prior = stats.invgamma(1.5, scale=0.7)

    def integral(data):
        """Trapezoid over log v and u = (μ − 0.5)/√v, which both fall off fast."""
        log_v, u = np.linspace(-14, 16, 1201)[:, None], np.linspace(-14, 14, 561)
        v = np.exp(log_v)
        mu = 0.5 + np.sqrt(v) * u
        density = variance_prior.pdf(v) * v * np.sqrt(v) * stats.norm.pdf(mu, 0.3, np.sqrt(v / 0.7))
        for value in data:
            density = density * stats.norm.pdf(value, mu, np.sqrt(v))
        return density.sum() * (30 / 1200) * (28 / 560)

    evidence = integral(x)
    assert float(prior.log_evidence(Moments.of(x[:, None]))) == pytest.approx(np.log(evidence), abs=1e-8)
    new = 1.9
    predictive = prior.update(Moments.of(x[:, None])).predictive()
    assert float(predictive.log_prob([new])) == pytest.approx(
        np.log(integral([*x, new]) / evidence), abs=1e-8
    )


def test_predictive_by_drawing_from_the_posterior(rng):
    """p = 3: the average of Gaussian densities over draws made by SciPy."""
    posterior = random_niw(3, rng).update(Moments.of(rng.normal(size=(6, 3))))
    sigma = stats.invwishart(float(posterior.dof), posterior.scale).rvs(20_000, random_state=3)
    root = np.linalg.cholesky(sigma / float(posterior.strength))
    mu = posterior.mean + np.einsum("nij,nj->ni", root, rng.normal(size=(20_000, 3)))
    for x in rng.normal(size=(4, 3)):
        z = np.linalg.solve(np.linalg.cholesky(sigma), (x - mu)[..., None])[..., 0]
        log_det = np.linalg.slogdet(sigma)[1]
        density = np.exp(-0.5 * (z**2).sum(1) - 0.5 * log_det - 1.5 * np.log(2 * np.pi))
        error = density.std() / np.sqrt(len(density))
        assert abs(np.exp(posterior.predictive().log_prob(x)) - density.mean()) < 4 * error


# ---- numerically sound at every size and scale -------------------------------------------------------


@pytest.mark.parametrize("p", [1, 10, 500])
@pytest.mark.parametrize("n", [1.0, 7.0, 1e4, 1e9])
def test_posterior_and_predictive_in_arbitrary_precision(p, n):
    """Scales of 1e-8 … 1e8 in one matrix; counts of 1 … 1e9; correlation 0.95 in the data.

    Prior D·D; scatter (n−1)·D(0.05 I + 0.95·11ᵀ)D.
    """
    rng = np.random.default_rng(p)
    scale = 10.0 ** np.linspace(-8, 8, p) if p > 1 else np.array([1e8])
    prior = NIW(np.zeros(p), 0.0, equicorrelation.matrix(1.0, 0.0, scale), p + 2.0)
    a, b = 1.0 + (n - 1.0) * 0.05, (n - 1.0) * 0.95
    scatter = equicorrelation.matrix((n - 1.0) * 0.05, b, scale)
    moments = Moments(np.array(n), 3.0 * scale, scatter, np.zeros(p))
    predictive = prior.update(moments).predictive()
    x = 3.0 * scale + 2.0 * scale * rng.normal(size=p)
    with mpmath.workdps(equicorrelation.DIGITS):
        stretch = mpmath.mpf(n + 1) / (mpmath.mpf(n) * (mpmath.mpf(n) + 3))
        deviation = [mpmath.mpf(float(v)) - mpmath.mpf(float(3.0 * s)) for v, s in zip(x, scale, strict=True)]
        exact = equicorrelation.student_t_log_prob(
            [float(d) for d in deviation], a * stretch, b * stretch, scale, n + 3
        )
    assert float(predictive.log_prob(x)) == pytest.approx(float(exact), rel=1e-12, abs=1e-10 * p)


@pytest.mark.parametrize("p", [1, 10, 500])
@pytest.mark.parametrize("n", [1.0, 7.0, 1e4, 1e9])
def test_evidence_in_arbitrary_precision(p, n):
    scale = 10.0 ** np.linspace(-8, 8, p) if p > 1 else np.array([1e-8])
    dof, strength = p + 2.5, 0.3
    prior = NIW(scale, strength, equicorrelation.matrix(1.0, 0.0, scale), dof)
    a, b = (n - 1.0) * 0.05, (n - 1.0) * 0.95
    # Data whose mean is that of the prior plus one scale: the outer product has the same shape, D11ᵀD.
    moments = Moments(np.array(n), 2 * scale, equicorrelation.matrix(a, b, scale), np.zeros(p))
    with mpmath.workdps(equicorrelation.DIGITS):
        N, v, k = mpmath.mpf(n), mpmath.mpf(dof), mpmath.mpf(strength)
        halves = [(mpmath.mpf(v) - j) / 2 for j in range(p)]
        gammas = mpmath.fsum(mpmath.loggamma(h + N / 2) - mpmath.loggamma(h) for h in halves)
        before = equicorrelation.log_det(1, 0, scale)
        after = equicorrelation.log_det(1 + mpmath.mpf(a), mpmath.mpf(b) + k * N / (k + N), scale)
        exact = (
            gammas
            + v / 2 * before
            - (v + N) / 2 * after
            + p * (mpmath.log(k) - mpmath.log(k + N)) / 2
            - N * p / 2 * mpmath.log(mpmath.pi)
        )
    # Terms of the size N·p·20 cancel (the log scales): the rounding is relative to those.
    assert float(prior.log_evidence(moments)) == pytest.approx(float(exact), abs=1e-14 * (n + p) * p * 40)


@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 8), n=st.sampled_from([1, 3, 50]))
def test_rescaling_features_changes_densities_by_the_scales_alone(seed, p, n):
    rng = np.random.default_rng(seed)
    prior, x, new = random_niw(p, rng), rng.normal(size=(n, p)), rng.normal(size=(3, p))
    d = 10.0 ** rng.uniform(-8, 8, p)
    scaled = NIW(d * prior.mean, prior.strength, prior.scale * d * d[:, None], prior.dof)
    plain_posterior = prior.update(Moments.of(x))
    scaled_posterior = scaled.update(Moments.of(d * x))
    log_d = np.log(d).sum()
    np.testing.assert_allclose(
        scaled_posterior.predictive().log_prob(d * new) + log_d,
        plain_posterior.predictive().log_prob(new),
        rtol=1e-9,
        atol=1e-9,
    )
    np.testing.assert_allclose(
        scaled.log_evidence(Moments.of(d * x)) + n * log_d,
        prior.log_evidence(Moments.of(x)),
        rtol=1e-9,
        atol=1e-9 * n,
    )


def test_data_far_from_zero_keep_their_digits():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 2))
    x = np.round(x * 2**20) / 2**20  # so that adding 2^20 is exact
    prior = NIW([0.2, 0.1], 1.0, np.eye(2), 4.0)
    far = NIW(prior.mean + 2.0**20, 1.0, np.eye(2), 4.0)
    shifted = far.update(Moments.of(x + 2.0**20))
    np.testing.assert_allclose(shifted.scale, prior.update(Moments.of(x)).scale, rtol=1e-9)


# ---- draws ------------------------------------------------------------------------------------------


def test_moments_of_the_draws(rng):
    p, n = 3, 100_000
    niw = NIW([1.0, -2.0, 0.5], 4.0, spd(3, rng), 11.0)
    mu, sigma = niw.sample(n, rng)
    expected = niw.scale / (11.0 - p - 1)
    assert_mean(sigma, expected)
    assert_mean(np.linalg.inv(sigma), 11.0 * np.linalg.inv(niw.scale))
    assert_mean(mu, niw.mean)
    deviation = mu - niw.mean
    assert_mean(deviation[:, :, None] * deviation[:, None, :], expected / 4.0)
    # Given Σ, the mean is Gaussian with covariance Σ/λ: q is chi-squared whatever Σ is.
    q = np.einsum("ni,ni->n", deviation, np.linalg.solve(sigma, deviation[..., None])[..., 0])
    assert stats.kstest(4.0 * q, stats.chi2(p).cdf).pvalue > CHANCE


def assert_mean(draws, expected):
    error = draws.std(0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(0) - expected) < 4.5 * error).all()


@pytest.mark.parametrize("dof", [1.5, 2.0, 30.0])
def test_drawn_covariances_are_distributed_as_those_of_scipy(dof, rng):
    """Also between p − 1 and p degrees of freedom."""
    scale = np.array([[2.0, 0.9], [0.9, 1.0]])
    _, mine = NIW([0.0, 0.0], 1.0, scale, dof).sample(20_000, rng)
    # A diagonal entry is inverse gamma; and the log determinant is a sum of log chi-squared.
    entry = stats.invgamma((dof - 1) / 2, scale=scale[1, 1] / 2)
    assert stats.kstest(mine[:, 1, 1], entry.cdf).pvalue > CHANCE
    ratio = np.exp(np.linalg.slogdet(scale)[1] - np.linalg.slogdet(mine)[1])
    product = stats.chi2(dof).rvs(20_000, random_state=1) * stats.chi2(dof - 1).rvs(20_000, random_state=2)
    assert stats.ks_2samp(ratio, product).pvalue > CHANCE


def test_marginal_of_the_mean_is_that_of_the_draws(rng):
    niw = random_niw(3, rng)
    mu, _ = niw.sample(40_000, rng)
    assert stats.kstest(niw.mean_marginal().typicality(mu), "uniform").pvalue > CHANCE


def test_drawn_gaussians_evaluate_themselves(rng):
    niw = random_niw(4, rng)
    drawn = niw.draw(5, rng)
    x = rng.normal(size=(6, 4))
    for s in range(5):
        expected = stats.multivariate_normal(drawn.mean[s], drawn.covariance[s]).logpdf(x)
        np.testing.assert_allclose(drawn.log_prob(x)[:, s], expected, rtol=1e-9)


@pytest.mark.parametrize("p", [1, 500])
def test_draws_with_mixed_scales_are_finite(p, rng):
    scale = 10.0 ** np.linspace(-8, 8, p)
    niw = NIW(scale, 1e9, equicorrelation.matrix(0.05e9, 0.95e9, scale), 1e9)
    drawn = niw.draw(2, rng)
    # With 1e9 degrees of freedom a draw is the expectation, but for 1e-4.
    deviation = np.sqrt(np.diagonal(drawn.covariance, axis1=1, axis2=2))
    np.testing.assert_allclose(deviation / scale, 1.0, atol=5e-4)
    assert np.isfinite(drawn.log_prob(scale[None])).all()


# ---- classes that share a covariance -----------------------------------------------------------------


def test_tied_update_is_one_update_of_a_longer_chain(rng):
    """Classes with a common covariance: collecting scatter class by class is Bayes' theorem too."""
    p, K = 2, 3
    x = [rng.normal(size=(n, p)) for n in (4, 1, 6)]
    prior = NIW(rng.normal(size=(K, p)), np.array([0.5, 1.0, 2.0]), spd(p, rng)[None], np.array([4.0]))
    posterior = prior.update_tied(Moments.stack([Moments.of(part) for part in x]))
    sigma_a, sigma_b = spd(p, rng), spd(p, rng)

    def log_joint(niw, sigma, means):
        value = stats.invwishart(float(niw.dof[0]), niw.scale[0]).logpdf(sigma)
        for k in range(K):
            value += stats.multivariate_normal(niw.mean[k], sigma / niw.strength[k]).logpdf(means[k])
        return value

    def gap(sigma, means):
        likelihood = sum(stats.multivariate_normal(means[k], sigma).logpdf(x[k]).sum() for k in range(K))
        return log_joint(prior, sigma, means) + likelihood - log_joint(posterior, sigma, means)

    # The evidence does not depend on the parameters.
    gaps = [gap(sigma, rng.normal(size=(K, p))) for sigma in (sigma_a, sigma_b)]
    assert gaps[0] == pytest.approx(gaps[1], abs=1e-9)


def test_tied_draws_share_their_covariance(rng):
    niw = NIW(np.zeros((3, 2)), np.array([1.0, 2.0, 3.0]), np.eye(2)[None], np.array([9.0]))
    mu, sigma = niw.sample(20, rng)
    assert mu.shape == (20, 3, 2)
    assert sigma.shape == (20, 3, 2, 2)
    np.testing.assert_array_equal(sigma[:, 0], sigma[:, 2])
    assert len(np.unique(mu[:, :, 0])) == 60
    drawn = niw.draw(20_000, rng)
    z = np.sqrt(niw.strength)[:, None] * np.einsum(
        "nkij,nkj->nki", np.broadcast_to(drawn.whitening, (20_000, 3, 2, 2)), drawn.mean
    )
    assert stats.kstest((z**2).sum(-1).ravel(), stats.chi2(2).cdf).pvalue > CHANCE


# ---- independent features ----------------------------------------------------------------------------


def test_diagonal_niw_is_a_product_over_features(rng):
    p = 3
    diagonal = DiagonalNIW(rng.normal(size=p), 0.8, spd(p, rng), 5.5)
    x = rng.normal(size=(7, p))
    chain, state = 0.0, diagonal
    for row in x:
        t = state.predictive()
        chain += stats.t(t.dof, t.location, t.scale).logpdf(row).sum()
        state = state.update(Moments.of(row[None]))
    assert float(diagonal.log_evidence(Moments.of(x))) == pytest.approx(chain, rel=1e-11)
    assert not (state.scale * (1 - np.eye(p))).any()


def test_draws_of_a_diagonal_niw(rng):
    niw = DiagonalNIW([0.0, 5.0], 2.0, np.diag([1.0, 100.0]), 6.0)
    mu, sigma = niw.sample(40_000, rng)
    for j, psi in enumerate([1.0, 100.0]):
        marginal = stats.invgamma((6.0 - 2 + 1) / 2, scale=psi / 2)
        assert stats.kstest(sigma[:, j, j], marginal.cdf).pvalue > CHANCE
    assert not sigma[:, 0, 1].any()
    assert stats.kstest(niw.mean_marginal().typicality(mu), "uniform").pvalue > CHANCE


# ---- noise exchanged ---------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 5))
def test_exchanging_noise_moves_the_expected_covariance(seed, p):
    rng = np.random.default_rng(seed)
    noise = 0.1 * spd(p, rng)
    dof = p + 30.0
    niw = NIW(np.zeros(p), 9.0, (spd(p, rng) + 3 * noise + np.eye(p)) * (dof - p - 1), dof)
    changed = niw.exchange_noise(noise, present=0.5, wanted=0.1)
    np.testing.assert_allclose(
        changed.expected_covariance, niw.expected_covariance - 0.4 * noise, rtol=1e-9, atol=1e-10
    )
    back = niw.exchange_noise(noise, present=0.5, wanted=0.5)
    np.testing.assert_allclose(back.scale, niw.scale, rtol=1e-10, atol=1e-10)


def test_removing_more_noise_than_there_is_leaves_one_observations_worth(rng):
    niw = NIW([0.0, 0.0], 9.0, np.diag([20.0, 20.0]), 20.0)
    left = niw.exchange_noise(np.diag([100.0, 0.1]), present=1.0, wanted=0.0)
    np.testing.assert_allclose(left.scale, np.diag([20.0 / 20.0, 20.0 - 17 * 0.1]), rtol=1e-12)


# ---- refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"mean": [0.0, 0.0], "strength": 1.0, "scale": np.eye(2), "dof": 1.0},
            r"dof > 1 for 2 features, got 1\. Raise dof",
        ),
        (
            {"mean": [0.0], "strength": -1.0, "scale": [[1.0]], "dof": 3.0},
            "strength must be at least 0, got -1",
        ),
        (
            {"mean": [0.0], "strength": 1.0, "scale": [[0.0]], "dof": 3.0},
            "not positive definite: its diagonal",
        ),
        (
            {"mean": [0.0, 0.0], "strength": 1.0, "scale": [[1, 2], [2, 1]], "dof": 3.0},
            "not positive definite: its smallest",
        ),
        ({"mean": [0.0, 0.0], "strength": 1.0, "scale": [[1, 0.5], [0, 1]], "dof": 3.0}, "not symmetric"),
        ({"mean": [0.0, 0.0], "strength": 1.0, "scale": np.eye(3), "dof": 3.0}, r"got \(2,\) and \(3, 3\)"),
        ({"mean": [np.nan], "strength": 1.0, "scale": [[1.0]], "dof": 3.0}, "mean has NaN or infinity"),
        ({"mean": [0.0], "strength": 1.0, "scale": [[np.inf]], "dof": 3.0}, "scale has NaN or infinity"),
        ({"mean": 0.0, "strength": 1.0, "scale": 1.0, "dof": 3.0}, "mean of shape"),
        (
            {"mean": np.zeros((2, 1)), "strength": np.ones(3), "scale": [[1.0]], "dof": 3.0},
            "batch shapes that do not fit",
        ),
    ],
)
def test_bad_parameters_are_refused_with_the_reason(arguments, words):
    with pytest.raises(ValueError, match=words):
        NIW(**arguments)


def test_what_a_free_mean_cannot_have():
    flat = NIW([0.0], 0.0, [[1.0]], 3.0)
    some = Moments.of([[1.0], [2.0]])
    with pytest.raises(ValueError, match="evidence does not exist for strength 0"):
        flat.log_evidence(some)
    with pytest.raises(ValueError, match="no predictive distribution: its mean is free"):
        flat.predictive()
    with pytest.raises(ValueError, match="no distribution to draw from"):
        flat.draw(1, np.random.default_rng(0))
    assert np.isfinite(flat.update(some).predictive().log_prob([0.0]))


def test_parameters_cannot_be_changed():
    niw = NIW([0.0], 1.0, [[1.0]], 3.0)
    with pytest.raises(ValueError, match="read-only"):
        niw.mean[0] = 1.0
    given_scale = np.eye(1)
    other = NIW([0.0], 1.0, given_scale, 3.0)
    given_scale[0, 0] = -1.0
    assert other.scale[0, 0] == 1.0
