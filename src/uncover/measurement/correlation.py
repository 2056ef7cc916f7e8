"""Correlation matrices as people publish them: checked, and repaired where only rounding broke them."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uncover.warn import warn

Array = NDArray[np.float64]

#: Published matrices have two decimals: each entry is off by at most half of the last one.
ROUNDING = 0.005

_NEGLIGIBLE = 1e-9  # eigenvalues and asymmetries below this are rounding of the arithmetic


class CorrelationWarning(UserWarning):
    """A correlation matrix was repaired; the message says by how much."""


def read_correlation(matrix: ArrayLike, name: str = "the correlation matrix") -> Array:
    """Check a correlation matrix, and repair one that rounding to two decimals has made indefinite.

    Rounding moves no entry by more than 0.005, so a true correlation matrix lies within 0.005·√(p(p−1)) in
    the Frobenius norm, and the nearest one is no farther. Up to there the matrix is replaced by the nearest
    correlation matrix, with a :class:`CorrelationWarning`; beyond, it is an error. ``name`` is for messages.
    """
    array = np.array(matrix, dtype=np.float64)
    _check(array, name)
    array = (array + array.T) / 2
    np.fill_diagonal(array, 1.0)
    smallest = float(np.linalg.eigvalsh(array)[0])
    if smallest >= -_NEGLIGIBLE:
        return array
    return _repaired(array, smallest, name)


def _check(array: Array, name: str) -> None:
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.size:
        raise ValueError(f"{name} has shape {array.shape}; it needs as many rows as columns, one per band.")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} has NaN or infinity; every number must be finite.")
    if np.any(np.abs(array) > 1 + _NEGLIGIBLE):
        i, j = np.unravel_index(int(np.argmax(np.abs(array))), array.shape)
        raise ValueError(
            f"{name} has {array[i, j]:.6g} in entry ({i + 1}, {j + 1}); correlations lie in [-1, 1]. "
            "(A covariance is divided by the product of both standard deviations first.)"
        )
    if np.any(np.abs(np.diagonal(array) - 1) > _NEGLIGIBLE):
        k = int(np.argmax(np.abs(np.diagonal(array) - 1)))
        raise ValueError(f"{name} has {array[k, k]:.6g} on its diagonal, in row {k + 1}; it needs 1 there.")
    if np.any(np.abs(array - array.T) > _NEGLIGIBLE):
        i, j = np.unravel_index(int(np.argmax(np.abs(array - array.T))), array.shape)
        raise ValueError(
            f"{name} is not symmetric: entry ({i + 1}, {j + 1}) is {array[i, j]:.6g} and entry "
            f"({j + 1}, {i + 1}) is {array[j, i]:.6g}."
        )


def _repaired(array: Array, smallest: float, name: str) -> Array:
    p = len(array)
    nearest = nearest_correlation(array)
    allowed = ROUNDING * np.sqrt(p * (p - 1))
    distance = float(np.linalg.norm(nearest - array))
    change = float(np.abs(nearest - array).max())
    if distance > allowed:
        raise ValueError(
            f"{name} is indefinite (smallest eigenvalue {smallest:.3g}), and rounding to two decimals cannot "
            f"explain it: the nearest correlation matrix differs by up to {change:.3g}. Check its entries."
        )
    warn(
        f"{name} is indefinite by rounding (smallest eigenvalue {smallest:.3g}); the nearest correlation "
        f"matrix is used, entries change by up to {change:.3g}.",
        CorrelationWarning,
    )
    return nearest


def nearest_correlation(matrix: ArrayLike, tolerance: float = 1e-12, max_iter: int = 10_000) -> Array:
    """The correlation matrix nearest to a symmetric matrix in the Frobenius norm.

    Alternating projections with Dykstra's correction: onto the matrices without negative eigenvalues, then
    onto those with ones on the diagonal (Higham 2002, IMA Journal of Numerical Analysis 22, 329-343).
    """
    result = np.array(matrix, dtype=np.float64)
    correction = np.zeros_like(result)
    for _ in range(max_iter):
        shifted = result - correction
        projected = _without_negative(shifted)
        correction = projected - shifted
        following = projected.copy()
        np.fill_diagonal(following, 1.0)
        step = float(np.linalg.norm(following - result))
        result = following
        if step <= tolerance:
            break
    # One last projection, scaled back to a unit diagonal: exactly of the kind that was asked for.
    projected = _without_negative(result)
    scale = np.sqrt(np.diagonal(projected))
    result = projected / (scale[:, None] * scale)
    np.fill_diagonal(result, 1.0)
    return (result + result.T) / 2


def _without_negative(matrix: Array) -> Array:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T
