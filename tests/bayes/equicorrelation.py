"""Reference in arbitrary precision for matrices D(aI + b11ᵀ)D: inverse and determinant are known."""

import mpmath
import numpy as np

DIGITS = 50


def matrix(a, b, scale):
    """D(aI + b11ᵀ)D in floating point."""
    p = len(scale)
    return (a * np.eye(p) + b) * scale * scale[:, None]


def squared_distance(deviation, a, b, scale):
    """dᵀ(D(aI + b11ᵀ)D)⁻¹d, by Sherman and Morrison."""
    a, b = mpmath.mpf(a), mpmath.mpf(b)
    z = [mpmath.mpf(float(d)) / mpmath.mpf(float(s)) for d, s in zip(deviation, scale, strict=True)]
    p = len(z)
    return (mpmath.fsum(v * v for v in z) - b * mpmath.fsum(z) ** 2 / (a + p * b)) / a


def log_det(a, b, scale):
    """log |D(aI + b11ᵀ)D|."""
    a, b, p = mpmath.mpf(a), mpmath.mpf(b), len(scale)
    logs = mpmath.fsum(mpmath.log(mpmath.mpf(float(s))) for s in scale)
    return (p - 1) * mpmath.log(a) + mpmath.log(a + p * b) + 2 * logs


def student_t_log_prob(deviation, a, b, scale, dof):
    """Log density of a Student t whose scale matrix is D(aI + b11ᵀ)D."""
    p, dof = len(scale), mpmath.mpf(dof)
    constant = mpmath.loggamma((dof + p) / 2) - mpmath.loggamma(dof / 2) - p * mpmath.log(dof * mpmath.pi) / 2
    q = squared_distance(deviation, a, b, scale)
    return constant - log_det(a, b, scale) / 2 - (dof + p) / 2 * mpmath.log1p(q / dof)
