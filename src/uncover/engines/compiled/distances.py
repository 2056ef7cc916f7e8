"""Points less the centre of the classes, and their squared distances: sums that stay in registers."""

from numba import njit

from uncover.engines.compiled.functions import surface_reflectance
from uncover.engines.compiled.simd import INNER, full, load, number, simd_width, store


@njit(**INNER)
def centre_points(source, coefficients, centre, x):
    """Values less the common centre (two numbers a feature: what the first loses is in the second).

    With coefficients (3, feature) the values are at the top of the atmosphere, and become those of the
    surface: y/(B + S·y) with y = value − A.
    """
    p, n = x.shape
    for j in range(p):
        c, low = centre[0, j], centre[1, j]
        if coefficients.shape[0] > 0:
            path, slope, albedo = coefficients[0, j], coefficients[1, j], coefficients[2, j]
            for b in range(0, n, simd_width(x)):
                surface = surface_reflectance(load(source, (j, b)), path, slope, albedo)
                store(x, (j, b), (surface - c) - low)
        else:
            for b in range(0, n, simd_width(x)):
                store(x, (j, b), (load(source, (j, b)) - c) - low)


@njit(**INNER)
def _four_rows(x, W, shift, i, b):
    """Sum of squares of rows i … i+3 of Wx − shift: each number that is loaded is used four times."""
    z0, z1 = full(-number(shift, (i,))), full(-number(shift, (i + 1,)))
    z2, z3 = full(-number(shift, (i + 2,))), full(-number(shift, (i + 3,)))
    for j in range(i):
        at = load(x, (j, b))
        z0 += number(W, (i, j)) * at
        z1 += number(W, (i + 1, j)) * at
        z2 += number(W, (i + 2, j)) * at
        z3 += number(W, (i + 3, j)) * at
    x0, x1, x2, x3 = load(x, (i, b)), load(x, (i + 1, b)), load(x, (i + 2, b)), load(x, (i + 3, b))
    z0 += number(W, (i, i)) * x0
    z1 += number(W, (i + 1, i)) * x0
    z2 += number(W, (i + 2, i)) * x0
    z3 += number(W, (i + 3, i)) * x0
    z1 += number(W, (i + 1, i + 1)) * x1
    z2 += number(W, (i + 2, i + 1)) * x1
    z3 += number(W, (i + 3, i + 1)) * x1
    z2 += number(W, (i + 2, i + 2)) * x2
    z3 += number(W, (i + 3, i + 2)) * x2
    z3 += number(W, (i + 3, i + 3)) * x3
    return (z0 * z0 + z1 * z1) + (z2 * z2 + z3 * z3)


@njit(**INNER)
def _two_rows(x, W, shift, i, b):
    """The same of the last two rows, where there are two beside the fours."""
    z0, z1 = full(-number(shift, (i,))), full(-number(shift, (i + 1,)))
    for j in range(i):
        at = load(x, (j, b))
        z0 += number(W, (i, j)) * at
        z1 += number(W, (i + 1, j)) * at
    x0, x1 = load(x, (i, b)), load(x, (i + 1, b))
    z0 += number(W, (i, i)) * x0
    z1 += number(W, (i + 1, i)) * x0
    z1 += number(W, (i + 1, i + 1)) * x1
    return z0 * z0 + z1 * z1


@njit(**INNER)
def squared_distance(x, W, shift, q):
    """q = |Wx − shift|² of points x (feature, point), W lower triangular; the number of features is even."""
    p, n = x.shape
    fours = p - p % 4
    for b in range(0, n, simd_width(x)):
        total = full(q.dtype.type(0))
        for i in range(0, fours, 4):
            total += _four_rows(x, W, shift, i, b)
        if fours < p:
            total += _two_rows(x, W, shift, fours, b)
        store(q, (b,), total)
