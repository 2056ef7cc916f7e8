"""The fast path of maps: distances to all classes by one matrix product, tail probabilities from a table."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincc, betainccinv

from uncover.bayes.student_t import StudentT

Array = NDArray[np.float64]

# Steps of the table of p-values, and the smallest p-value that it holds: beyond, it says 0.
_STEPS = 8192
_SMALLEST = 1e-8


@dataclass(frozen=True, eq=False)
class Lens:
    """Student t densities of several classes, arranged for very many points.

    Everything follows from v = log(1 + q/ν): the log density is linear in it, and the p-value of a class is
    a smooth function of √v alone, so that a table with linear interpolation gives it to 1e-6.

    Examples
    --------
    >>> t = StudentT.from_scale([[0.0, 0.0], [3.0, 3.0]], np.eye(2), [5.0, 8.0])
    >>> lens, points = Lens.of(t), np.array([[0.5, 0.0], [3.0, 2.0]])
    >>> q = lens.squared_distance(points)
    >>> v = lens.depth(q)
    >>> bool(np.allclose(lens.log_prob(v), t.log_prob(points)))
    True
    >>> bool(np.abs(lens.typicality(v) - t.typicality(points)).max() < 1e-6)
    True
    """

    centre: Array  # (feature,)
    whitening: Array  # (feature, class · feature)
    shift: Array  # (class · feature,)
    log_constant: Array  # (class,)
    dof: Array  # (class,)
    scale: Array  # (class,), steps of the table per unit of √v
    table: Array  # (class, step), p-values

    @classmethod
    def of(cls, densities: StudentT) -> "Lens":
        """Arrange the densities of a batch of shape (class,)."""
        K, p = densities.batch_shape[0], densities.n_features
        location = np.broadcast_to(densities.location, (K, p))
        whitening = np.broadcast_to(densities.whitening, (K, p, p))
        dof = np.broadcast_to(densities.dof, (K,))
        centre = location.mean(0)
        scale, table = zip(*(_table(p, float(nu)) for nu in dof), strict=True)
        return cls(
            centre=centre,
            whitening=np.ascontiguousarray(whitening.reshape(K * p, p).T),
            shift=np.einsum("kij,kj->ki", whitening, location - centre).ravel(),
            log_constant=np.broadcast_to(densities._log_constant, (K,)),
            dof=dof,
            scale=np.array(scale),
            table=np.stack(table),
        )

    def squared_distance(self, points: NDArray[np.floating]) -> Array:
        """q of each point and class: (point, class)."""
        n, p = points.shape
        with np.errstate(over="ignore", invalid="ignore"):
            z = (points - self.centre) @ self.whitening
            z -= self.shift
            z = z.reshape(n, -1, p)
            q = np.einsum("nkp,nkp->nk", z, z)
        return np.nan_to_num(q, copy=False, nan=1e300, posinf=1e300)

    def depth(self, squared_distance: Array) -> Array:
        """v = log(1 + q/ν): (point, class)."""
        v = squared_distance / self.dof
        return np.log1p(v, out=v)

    def log_prob(self, depth: Array) -> Array:
        """Log densities: (point, class)."""
        return self.log_constant - (0.5 * (self.dof + len(self.centre))) * depth

    def typicality(self, depth: Array) -> Array:
        """p-values from the table: (point, class)."""
        place = np.sqrt(depth)
        place *= self.scale
        np.minimum(place, _STEPS - 1.0, out=place)
        left = place.astype(np.intp)
        place -= left
        left += np.arange(len(self.dof)) * (_STEPS + 1)
        before = self.table.ravel().take(left)
        left += 1
        after = self.table.ravel().take(left)
        return before + place * (after - before)


def _table(p: int, dof: float) -> tuple[float, Array]:
    """Steps per unit of √v, and the p-values at the steps; past the last they are below what is shown."""
    x = float(betainccinv(0.5 * p, 0.5 * dof, _SMALLEST))
    furthest = np.sqrt(-np.log1p(-min(x, 1 - 1e-15)))
    v = np.linspace(0.0, furthest, _STEPS) ** 2
    p_values = betaincc(0.5 * p, 0.5 * dof, -np.expm1(-v))
    return (_STEPS - 1) / furthest, np.append(p_values, 0.0)
