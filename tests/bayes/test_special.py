"""Special functions against arbitrary precision."""

import mpmath
import numpy as np
import pytest

from uncover.bayes.special import log_gamma_ratio, stirling_correction


@pytest.mark.parametrize("a", [1e-6, 0.5, 1.0, 1.5, 7.3, 31.9, 32.0, 33.5, 1e3, 5e5, 5e8, 1e12, 1e15])
@pytest.mark.parametrize("b", [0.0, 1e-3, 0.5, 1.0, 2.5, 250.0, 1e6, 5e8])
def test_log_gamma_ratio(a, b):
    with mpmath.workdps(60):
        exact = mpmath.loggamma(mpmath.mpf(a) + mpmath.mpf(b)) - mpmath.loggamma(mpmath.mpf(a))
    assert float(log_gamma_ratio(a, b)) == pytest.approx(float(exact), rel=4e-15, abs=1e-13)


def test_log_gamma_ratio_downwards():
    with mpmath.workdps(60):
        exact = mpmath.loggamma(mpmath.mpf("999.5")) - mpmath.loggamma(1000)
    assert float(log_gamma_ratio(1000.0, -0.5)) == pytest.approx(float(exact), rel=1e-14)


def test_log_gamma_ratio_broadcasts():
    table = log_gamma_ratio(np.array([[1.0], [50.0]]), np.array([0.5, 1.0, 2.0]))
    assert table.shape == (2, 3)
    assert table[1, 1] == pytest.approx(np.log(50.0), rel=1e-14)


@pytest.mark.parametrize("z", [32.0, 50.0, 1e4, 1e9])
def test_stirling_correction(z):
    with mpmath.workdps(60):
        m = mpmath.mpf(z)
        exact = mpmath.loggamma(m) - ((m - 0.5) * mpmath.log(m) - m + mpmath.log(2 * mpmath.pi) / 2)
    assert float(stirling_correction(z)) == pytest.approx(float(exact), rel=1e-13)
