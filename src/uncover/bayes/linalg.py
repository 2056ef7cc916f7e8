"""Small linear algebra on batches of matrices, with errors that name the culprit."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Share of the variance of a feature; less, and it follows from others.
_LEAST_VARIANCE_LEFT = 1e-10


def slices(n: int, size: int) -> list[slice]:
    """Cut n rows into slices of a size.

    >>> slices(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def cholesky(matrix: Array, what: str) -> Array:
    """Lower Cholesky factor of each matrix of a batch.

    Needs no scaling of its own: its error does not change when features are rescaled
    (Higham 2002, Accuracy and Stability of Numerical Algorithms, section 10.1).

    >>> cholesky(np.array([[4.0]]), "a variance")
    array([[2.]])
    >>> cholesky(np.array([[1.0, 2.0], [2.0, 1.0]]), "Ψ")
    Traceback (most recent call last):
        ...
    ValueError: Ψ is not positive definite: its smallest eigenvalue, after scaling to unit diagonal, is -1...
    """
    try:
        return np.asarray(np.linalg.cholesky(matrix), np.float64)
    except np.linalg.LinAlgError:
        raise ValueError(_why_not_positive_definite(matrix, what)) from None


def _why_not_positive_definite(matrix: Array, what: str) -> str:
    diagonal = np.diagonal(matrix, axis1=-2, axis2=-1)
    if np.any(diagonal <= 0):
        return f"{what} is not positive definite: its diagonal has the value {diagonal.min():.6g}."
    scale = np.sqrt(diagonal)
    unit = matrix / (scale[..., :, None] * scale[..., None, :])
    smallest = np.linalg.eigvalsh(unit).min()
    return (
        f"{what} is not positive definite: its smallest eigenvalue, after scaling to unit diagonal, "
        f"is {smallest:.3g}. Remove features that others determine, or add to the diagonal."
    )


def invert_triangle(root: Array) -> Array:
    """Inverse of each lower triangular matrix of a batch.

    >>> invert_triangle(np.array([[2.0, 0.0], [1.0, 1.0]]))
    array([[ 0.5,  0. ],
           [-0.5,  1. ]])
    """
    p = root.shape[-1]
    inverse = np.zeros(root.shape)
    for i in range(p):  # forward substitution, on the whole batch at once
        row = -root[..., i : i + 1, :i] @ inverse[..., :i, :]
        row[..., 0, i] += 1.0
        inverse[..., i, :] = row[..., 0, :] / root[..., i, i, None]
    return inverse


def log_det_of_root(root: Array) -> Array:
    """log |L| of each triangular matrix: half the log determinant of LLᵀ.

    >>> float(log_det_of_root(np.diag([1.0, np.e])))
    1.0
    """
    return np.asarray(np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(-1))


def independent_features(covariance: Array) -> NDArray[np.bool_]:
    """Which features do not follow from those before them, as a sum or a scaled copy does: (feature,).

    A feature follows from others where these leave less than 10⁻¹⁰ of its variance.

    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> independent_features(np.cov(np.c_[x, x.sum(1), 3 * x[:, 0]].T))
    array([ True,  True, False, False])
    """
    unit = np.sqrt(np.diagonal(covariance))
    unit = np.where(unit > 0, unit, 1.0)
    left = covariance / (unit[:, None] * unit)
    keep = np.zeros(len(left), dtype=bool)
    for j in range(len(left)):  # Gaussian elimination, one feature after the other
        if left[j, j] > _LEAST_VARIANCE_LEFT:
            keep[j] = True
            left = left - np.outer(left[:, j], left[j]) / left[j, j]
    return keep
