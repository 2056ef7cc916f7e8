"""The Student t seen through known noise: the quadrature against integrals done in another way."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.linalg import eigh
from scipy.special import gammaln, logsumexp

from uncover.bayes.covariances import Covariances
from uncover.bayes.niw import NIW
from uncover.bayes.noise import log_prob_with_noise
from uncover.bayes.student_t import IndependentT, StudentT

laws = settings(derandomize=True, deadline=None, max_examples=60)


def each(matrices):
    """One covariance for each point, taken as it is: no short cut is found."""
    return Covariances(None, None, np.asarray(matrices, float))


def fine_trapezoid(location, scale, dof, x, noise):
    """log ∫ N(x; m, νS/g + Σ) Gamma(g; ν/2, rate ½) dg, with 4001 nodes, by generalised eigenvalues.

    The integrand is looked for on a grid that is dense about the mode of the Gamma density and reaches sixty
    e-folds to the left, and followed until it has fallen by e⁻⁵⁰.
    """
    variance, axes = eigh(noise, scale)  # axesᵀ S axes = 1, axesᵀ Σ axes = diag(variance)
    variance, z = np.maximum(variance, 0.0), axes.T @ (x - location)
    half, p = 0.5 * dof, len(location)
    if half < 1e4:
        constant = half * np.log(half) - half - gammaln(half)
    else:  # Stirling's series
        constant = 0.5 * np.log(half / (2 * np.pi)) - 1 / (12 * half) + 1 / (360 * half**3)
    constant -= 0.5 * np.linalg.slogdet(scale)[1] + 0.5 * p * np.log(2 * np.pi)

    def height(t):  # t = log(g/ν)
        total = np.exp(-t)[:, None] + variance
        # e^t − 1 − t by its series where it is small
        excess = np.where(np.abs(t) < 1e-3, t**2 / 2 + t**3 / 6 + t**4 / 24 + t**5 / 120, np.expm1(t) - t)
        return constant - half * excess - 0.5 * (z**2 / total + np.log(total)).sum(1)

    side = np.geomspace(1e-7, 60.0, 400)
    scan = np.concatenate([-side[::-1], [0.0], side[side < 6]])
    f = height(scan)
    inside = np.flatnonzero(f > f.max() - 50)
    low, high = scan[max(inside[0] - 1, 0)], scan[min(inside[-1] + 1, len(scan) - 1)]
    t = np.linspace(low, high, 4001)
    return logsumexp(height(t)) + np.log(t[1] - t[0])


def problem(p, rng, size, rank):
    """A scale matrix, a noise matrix of a given rank, and points out to ten standard deviations."""
    a = rng.standard_normal((p, 2 * p + 2))
    b = rng.standard_normal((p, rank))
    scale, noise = a @ a.T / p, size * b @ b.T / max(rank, 1)
    noise = 0.5 * (noise + noise.T)
    direction = rng.standard_normal((4, p))
    # The distance is that under the covariance of the sum.
    white = np.linalg.solve(np.linalg.cholesky(scale + noise), direction.T).T
    x = direction / np.linalg.norm(white, axis=1)[:, None] * np.array([0.1, 1.0, 4.0, 10.0])[:, None]
    return scale, noise, x


@pytest.mark.parametrize("p", [1, 2, 10, 50])
@pytest.mark.parametrize("dof", [1.0, 2.0, 4.0, 9.0, 30.0, 1e3, 1e6, 1e9])
def test_out_to_ten_sigma(p, dof, rng):
    for size in (1e-4, 1.0, 1e4):
        for rank in {1, max(1, p // 2), p}:
            scale, noise, x = problem(p, rng, size, rank)
            t = StudentT.from_scale(np.zeros(p), scale, dof)
            found = log_prob_with_noise(t, x, each([noise] * len(x)))
            exact = [fine_trapezoid(np.zeros(p), scale, dof, point, noise) for point in x]
            np.testing.assert_allclose(found, exact, rtol=0, atol=1e-8)


@pytest.mark.parametrize("dof", [1.0, 3.0, 8.0])
@pytest.mark.parametrize("p", [10, 50])
@pytest.mark.parametrize("far", [20.0, 60.0, 300.0])
def test_two_modes(dof, p, far):
    """Precise and far out in one feature, noisy in the others: the spread may be large, or the point odd."""
    scale, noise = np.eye(p), np.diag([0.0] + [1e4] * (p - 1))
    x = np.zeros(p)
    x[0] = far
    t = StudentT.from_scale(np.zeros(p), scale, dof)
    found = log_prob_with_noise(t, x[None], each([noise]))[0]
    assert found == pytest.approx(fine_trapezoid(np.zeros(p), scale, dof, x, noise), abs=1e-8)


@pytest.mark.parametrize(("dof", "x"), [(1.0, (0.5, -1.0)), (3.0, (12.0, 7.0)), (50.0, (0.0, 30.0))])
@pytest.mark.parametrize("rank", [1, 2])
def test_two_features_in_thirty_digits(dof, x, rank):
    """A trapezoid of spacing 0.02 over log g, with determinants written out."""
    s = np.array([[2.0, 0.3], [0.3, 0.5]])
    noise = np.array([[4.0, 2.0], [2.0, 1.0]]) if rank == 1 else np.array([[4.0, 1.0], [1.0, 1.0]])
    with mpmath.workdps(30):
        v = mpmath.mpf(dof)

        def integrand(u):
            g = mpmath.exp(u)
            a, b, d = (v / g * mpmath.mpf(s[i]) + mpmath.mpf(noise[i]) for i in ((0, 0), (0, 1), (1, 1)))
            det = a * d - b * b
            q = (d * x[0] ** 2 - 2 * b * x[0] * x[1] + a * x[1] ** 2) / det
            gamma = mpmath.exp((v / 2) * u - g / 2) / (2 ** (v / 2) * mpmath.gamma(v / 2))
            return gamma * mpmath.exp(-q / 2) / (2 * mpmath.pi * mpmath.sqrt(det))

        centre = mpmath.log(v)
        nodes = (centre + mpmath.mpf(k) / 50 for k in range(-3000, 300))
        exact = float(mpmath.log(sum(integrand(u) for u in nodes) / 50))
    t = StudentT.from_scale(np.zeros(2), s, dof)
    found = log_prob_with_noise(t, np.array([x]), Covariances.read(noise, 1, 2))
    assert found[0] == pytest.approx(exact, abs=1e-8)


@laws
@given(
    seed=st.integers(0, 2**32 - 1),
    p=st.sampled_from([1, 2, 10, 50]),
    log_dof=st.floats(0.0, 9.0),
    far=st.floats(0.0, 10.0),
)
def test_no_noise_is_the_student_t(seed, p, log_dof, far):
    rng = np.random.default_rng(seed)
    scale, _, x = problem(p, rng, 1.0, 1)
    t = StudentT.from_scale(rng.standard_normal(p), scale, 10.0**log_dof)
    found = log_prob_with_noise(t, far * x, Covariances.read(np.zeros(p), len(x), p))
    np.testing.assert_allclose(found, t.log_prob(far * x), rtol=0, atol=1e-10)


@laws
@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 6), dof=st.floats(1.0, 1e4))
def test_noise_that_vanishes_leaves_the_student_t(seed, p, dof):
    """The difference falls with the noise, in proportion."""
    rng = np.random.default_rng(seed)
    scale, noise, x = problem(p, rng, 1.0, p)
    t = StudentT.from_scale(np.zeros(p), scale, dof)
    noise /= np.linalg.eigvalsh(np.linalg.solve(scale, noise)).max()
    gap = [
        np.abs(log_prob_with_noise(t, x, Covariances.read(e * noise, len(x), p)) - t.log_prob(x)).max()
        for e in (1e-3, 1e-5, 1e-7)
    ]
    assert gap[0] < 1e-3 * (p + dof) * 110
    assert gap[1] < 0.02 * gap[0] + 1e-10
    assert gap[2] < 0.02 * gap[1] + 1e-10


@laws
@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 8), dof=st.floats(1.0, 1e6))
def test_multiples_of_one_matrix_equal_the_general_path(seed, p, dof):
    rng = np.random.default_rng(seed)
    scale, noise, x = problem(p, rng, 10.0 ** rng.uniform(-3, 3), int(rng.integers(1, p + 1)))
    t = StudentT.from_scale(np.zeros(p), scale, dof)
    factor = np.array([0.0, 0.3, 1.0, 7.0])
    general = each(factor[:, None, None] * noise)
    common = Covariances.read(factor[:, None, None] * noise, len(x), p)
    assert common.own is None
    for method in ("exact", "fast"):
        np.testing.assert_allclose(
            log_prob_with_noise(t, x, common, method),
            log_prob_with_noise(t, x, general, method),
            rtol=0,
            atol=1e-9,
        )


def test_average_over_the_posterior(rng):
    """Draw (μ, Σ) from the NIW with SciPy, and average N(x; μ, Σ + Σ_new)."""
    p, n = 3, 60_000
    a = rng.standard_normal((p, p + 3))
    niw = NIW(rng.standard_normal(p), 4.0, a @ a.T, p + 5.0)
    noise = np.diag([0.0, 1.0, 9.0])
    noise[1, 2] = noise[2, 1] = 2.0
    sigma = stats.invwishart(float(niw.dof), niw.scale).rvs(n, random_state=1)
    normal = rng.standard_normal((n, p, 1))
    mu = niw.mean + (np.linalg.cholesky(sigma / niw.strength) @ normal)[..., 0]
    x = niw.mean + 3.0 * rng.standard_normal((5, p))
    root = np.linalg.cholesky(sigma + noise)
    for point, found in zip(x, log_prob_with_noise(niw.predictive(), x, each([noise] * 5)), strict=True):
        z = np.linalg.solve(root, (point - mu)[..., None])[..., 0]
        log_density = -0.5 * (z**2).sum(1) - np.log(np.diagonal(root, axis1=1, axis2=2)).sum(1)
        density = np.exp(log_density - 0.5 * p * np.log(2 * np.pi))
        assert abs(np.exp(found) - density.mean()) < 4.5 * density.std() / np.sqrt(n)


@pytest.mark.parametrize("dof", [1.0, 4.0, 100.0])
def test_the_density_integrates_to_one(dof):
    t = StudentT.from_scale([1.0], [[2.0]], dof)
    u = np.linspace(-np.pi / 2, np.pi / 2, 20_001)[1:-1]
    x = 1.0 + 3.0 * np.tan(u)  # a heavy tail in few nodes
    density = np.exp(log_prob_with_noise(t, x[:, None], Covariances.read([0.7], len(x), 1)))
    assert (density * 3.0 / np.cos(u) ** 2).sum() * (u[1] - u[0]) == pytest.approx(1.0, abs=2e-4)


def test_the_fast_way_has_a_small_error_that_falls_with_the_degrees_of_freedom(rng):
    p, gaps = 4, []
    scale, noise, _ = problem(p, rng, 1.0, p)
    for dof in (5.0, 50.0, 500.0):
        t = StudentT.from_scale(np.zeros(p), scale, dof)
        x = t.sample(2000, rng) + rng.multivariate_normal(np.zeros(p), noise, 2000)
        known = Covariances.read(noise, 2000, p)
        gap = log_prob_with_noise(t, x, known, "fast") - log_prob_with_noise(t, x, known)
        gaps.append(np.abs(gap).mean())
    assert gaps[0] < 0.25
    assert gaps[1] < 0.2 * gaps[0]
    assert gaps[2] < 0.2 * gaps[1]


def test_independent_features_are_a_product(rng):
    t = IndependentT(np.array([0.0, 1.0]), np.array([1.0, 2.0]), np.array([4.0, 9.0]))
    x, variance = rng.standard_normal((6, 2)), rng.uniform(0.1, 3.0, (6, 2))
    found = log_prob_with_noise(t, x, Covariances.read(variance, 6, 2))
    parts = [
        log_prob_with_noise(
            StudentT.from_scale([t.location[j]], [[t.scale[j] ** 2]], t.dof[j]),
            x[:, [j]],
            Covariances.read(variance[:, [j]], 6, 1),
        )
        for j in range(2)
    ]
    np.testing.assert_allclose(found, parts[0] + parts[1], atol=1e-12)
