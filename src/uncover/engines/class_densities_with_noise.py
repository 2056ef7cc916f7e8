"""Class densities of pixels with known noise by machine code; the references are in :mod:`uncover.bayes`."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.class_densities import ClassDensities
from uncover.bayes.class_densities_with_noise import (
    CERTAIN,
    FILL,
    KNOWN,
    SMALL,
    UNSURE,
    ClassDensitiesWithNoise,
    NoisyScores,
    true_value_points,
)
from uncover.bayes.hotelling import TypicalityReference
from uncover.bayes.student_t import StudentT
from uncover.bayes.worlds_with_noise import WorldDensitiesWithNoise
from uncover.engines.class_densities import ComponentNumbers, DensityNumbers, FastClassDensities
from uncover.engines.machine import machine_code

Array = NDArray[np.float64]


class ReferenceNumbers(NamedTuple):
    """TypicalityReference of p-values, as machine code takes it; without components where it is not needed.

    In the coordinates T(x − location) the covariance of a component's samples is I, their noise diagonal.
    """

    transform: Array  # (component, feature, feature), T
    location: Array  # (component, feature), less the centre
    own: Array  # (component, feature), mean noise of the samples: the diagonal
    common: Array  # (component, feature, feature), noise that all pixels have in common
    free: Array  # (component,), degrees of freedom of the covariance

    @classmethod
    def of(cls, reference: TypicalityReference | None, common: Array, centre: Array) -> ReferenceNumbers:
        """Arrange a reference of Student t densities."""
        p = len(centre)
        if reference is None:
            none = np.zeros((0, p, p))
            return cls(none, np.zeros((0, p)), np.zeros((0, p)), none, np.zeros(0))
        density = reference.density
        assert isinstance(density, StudentT), "densities of independent features have no machine code"
        C = len(reference.noise)
        dof = np.broadcast_to(density.dof, (C,))
        free = dof + p - 1.0
        whitening = density.whitening * np.sqrt(free / dof)[:, None, None]
        own, axes = np.linalg.eigh(whitening @ reference.noise @ whitening.swapaxes(1, 2))
        transform = np.ascontiguousarray(axes.swapaxes(1, 2) @ whitening)
        location = np.broadcast_to(density.location, (C, p)) - centre
        common = np.ascontiguousarray(transform @ common @ transform.swapaxes(1, 2))
        return cls(transform, location, np.ascontiguousarray(own), common, free)


class FastClassDensitiesWithNoise(ClassDensitiesWithNoise):
    """Class densities of pixels with known noise, with machine code: the same numbers as the reference."""

    of_densities: ClassVar[type[ClassDensities]] = FastClassDensities

    def read(
        self,
        planes: NDArray[Any],
        *,
        coefficients: Array | None = None,
        covariances: Array | None = None,
        spread: bool = False,
    ) -> NoisyScores:
        """Scores of planes (realisation, feature, pixel), as in :meth:`ClassDensitiesWithNoise.read`."""
        code, given = machine_code(), {"coefficients": coefficients, "covariances": covariances}
        if code is None:
            return super().read(planes, **given, spread=spread)
        out = self._allocate(planes.shape[2])
        plain = _fast(self.plain).numbers(np.float64, p_values=self.reference is None)
        code.read_with_noise(
            planes, *_arrays(planes, coefficients, covariances), spread, self.numbers, plain,
            self._truth_numbers, ComponentNumbers.of(self.components), self._reference_numbers,
            true_value_points(self.n_points, planes.shape[1]), (CERTAIN, SMALL, UNSURE, KNOWN, FILL), out,
        )  # fmt: skip
        return out

    @cached_property
    def _truth_numbers(self) -> DensityNumbers:
        """Densities of the true values, about the centre of those of the measured values."""
        true = _fast(self.true)
        shift = np.einsum("kij,kj->ki", true.whitening[0], true.location[0] - self.plain.centre)
        return true.numbers(np.float64)._replace(shift=np.pad(shift, [(0, 0), (0, len(shift.T) % 2)])[None])

    @cached_property
    def _reference_numbers(self) -> ReferenceNumbers:
        return ReferenceNumbers.of(self.reference, self.measured.noise, self.plain.centre)


class FastWorldDensitiesWithNoise(WorldDensitiesWithNoise):
    """Class densities of several worlds, with machine code: the same classes as the reference."""

    of_densities: ClassVar[type[ClassDensities]] = FastClassDensities

    def _find_best(
        self,
        planes: NDArray[Any],
        coefficients: Array | None,
        covariances: Array | None,
        spread: bool,
        pairs: NDArray[np.int64],
        found: NDArray[np.uint8],
    ) -> None:
        code = machine_code()
        if code is None:
            super()._find_best(planes, coefficients, covariances, spread, pairs, found)
            return
        code.best_in_worlds(
            planes, *_arrays(planes, coefficients, covariances), spread, self.numbers,
            _fast(self.densities).numbers(np.float64), ComponentNumbers.of(self.components), pairs, found,
        )  # fmt: skip


def _fast(densities: ClassDensities) -> FastClassDensities:
    assert isinstance(densities, FastClassDensities)
    return densities


def _arrays(
    planes: NDArray[Any], coefficients: Array | None, covariances: Array | None
) -> tuple[Array, Array]:
    """Coefficients and covariances as machine code takes them: empty where there are none."""
    p = planes.shape[1]
    return (
        np.zeros((0, 3, p)) if coefficients is None else np.asarray(coefficients, np.float64),
        np.zeros((0, p, p)) if covariances is None else np.asarray(covariances, np.float64),
    )
