"""Cubic splines as linear weights on their nodes, so that interpolation is a matrix product."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Spline:
    """The cubic spline through values at fixed nodes, written as weights: s(x) = Σ_j w_j(x) f_j.

    Not-a-knot ends (de Boor 1978, *A Practical Guide to Splines*, ch. IV). Because a spline is linear in its
    values, the weights serve every band, sensor and realisation at once.

    >>> import numpy as np
    >>> nodes = np.linspace(0.0, 2.0, 6)
    >>> bool(abs(Spline(nodes).weights(0.33) @ nodes**3 - 0.33**3) < 1e-12)
    True
    """

    nodes: Array  # (node,), increasing, at least four
    slopes: Array = field(init=False, repr=False)  # (node, node): slopes at the nodes, per value

    def __post_init__(self) -> None:
        object.__setattr__(self, "slopes", _slopes(self.nodes))

    def weights(self, x: npt.ArrayLike) -> Array:
        """Weights of the nodes at x: (..., node)."""
        x = np.asarray(x, dtype=float)
        left = np.clip(np.searchsorted(self.nodes, x, side="right") - 1, 0, len(self.nodes) - 2)
        width = (self.nodes[1:] - self.nodes[:-1])[left]
        t = (x - self.nodes[left]) / width
        value, slope = _hermite(t), _hermite_slope(t)
        unit = np.eye(len(self.nodes))
        return (
            value[0][..., None] * unit[left]
            + value[1][..., None] * unit[left + 1]
            + (width * slope[0])[..., None] * self.slopes[left]
            + (width * slope[1])[..., None] * self.slopes[left + 1]
        )


def _hermite(t: Array) -> tuple[Array, Array]:
    """Weights of the two end values on the unit interval."""
    right = t * t * (3 - 2 * t)
    return 1 - right, right


def _hermite_slope(t: Array) -> tuple[Array, Array]:
    """Weights of the two end slopes on the unit interval."""
    return t * (1 - t) ** 2, t * t * (t - 1)


def _slopes(nodes: Array) -> Array:
    """Slopes of the not-a-knot spline at its nodes, as a matrix acting on the values."""
    n, h = len(nodes), np.diff(nodes)
    left, right = np.zeros((n, n)), np.zeros((n, n))
    for i in range(1, n - 1):  # the second derivative is continuous
        left[i, i - 1 : i + 2] = h[i], 2 * (h[i - 1] + h[i]), h[i - 1]
        rise = 3 * h[i] / h[i - 1], 3 * h[i - 1] / h[i]
        right[i, i - 1 : i + 2] = -rise[0], rise[0] - rise[1], rise[1]
    for i, (a, b) in ((0, (0, 1)), (n - 1, (n - 2, n - 3))):  # so is the third, one node in
        _not_a_knot(left, right, i, h[a], h[b], inward=1 if i == 0 else -1)
    return np.linalg.solve(left, right)


def _not_a_knot(left: Array, right: Array, i: int, outer: float, inner: float, *, inward: int) -> None:
    """Fill the row of an end: one cubic across the first (or last) inner node."""
    j, k, total = i + inward, i + 2 * inward, outer + inner
    left[i, i], left[i, j] = inner, total
    steep = (outer + 2 * total) * inner / total / outer
    gentle = outer**2 / total / inner
    right[i, i], right[i, j], right[i, k] = -inward * steep, inward * (steep - gentle), inward * gentle
