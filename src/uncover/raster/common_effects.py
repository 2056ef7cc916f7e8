"""Systematic effects that all scenes have in common: what of them cancels between a model and a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.raster.errors import SceneError

Array = NDArray[np.float64]

#: Correlations between bands that differ by more are those of two effects; published ones have two decimals.
_SAME_CORRELATION = 0.01 + 1e-9


@dataclass(frozen=True, eq=False)
class CommonEffect:
    """An effect that all scenes share, as one of model and map states it.

    covariance
        Of its errors, at the values of that scene, (band, band).
    fraction
        Standard uncertainty of each band in per cent of the value; None where it is absolute.
    correlation
        Between bands, as stated.
    """

    name: str
    covariance: Array
    fraction: Array | None
    correlation: Array

    def without(self, other: CommonEffect) -> Array:
        """Covariance of the difference of the two errors, which are one error z of sizes u and u′.

        (u − u′) z remains: R ∘ (u − u′)(u − u′)ᵀ. In per cent the difference of the percentages counts, at
        the values of this scene: two scenes of other brightness have the same gain.

        >>> gain, same = (CommonEffect("gain", np.full((1, 1), u**2), None, np.eye(1)) for u in (0.5, 0.25))
        >>> gain.without(same)
        array([[0.0625]])
        """
        if np.abs(self.correlation - other.correlation).max() > _SAME_CORRELATION:
            raise SceneError(
                f"the effect {self.name!r} of model and map has two correlations between bands: state the "
                "same one for both, or give the effects two names"
            )
        if self.fraction is not None and other.fraction is not None and np.all(self.fraction > 0):
            share = _difference(self.fraction, other.fraction) / self.fraction
            return self.covariance * (share[:, None] * share)
        mine, theirs = np.sqrt(np.diagonal(self.covariance)), np.sqrt(np.diagonal(other.covariance))
        left = _difference(mine, theirs)
        return self.correlation * (left[:, None] * left)


def _difference(one: Array, other: Array) -> Array:
    """The difference of two sizes, 0 where it is rounding."""
    return np.where(np.isclose(one, other, rtol=1e-6, atol=0), 0.0, one - other)


def common_of(
    matrices: Mapping[str, Any], quantities: Sequence[Mapping[str, Any]]
) -> dict[str, CommonEffect]:
    """Effects by name, from their covariances and the records of input quantities."""
    records = {str(quantity.get("name")): quantity for quantity in quantities}
    found = {}
    for name, matrix in matrices.items():
        covariance, record = np.asarray(matrix, np.float64), records.get(name, {})
        percent = record.get("standard_uncertainty") if record.get("units") == "%" else None
        known = percent is not None and None not in percent
        u = np.sqrt(np.diagonal(covariance))
        own = np.divide(covariance, u[:, None] * u, out=np.eye(len(u)), where=u[:, None] * u > 0)
        correlation = np.asarray(record.get("between_bands", own), np.float64)
        found[name] = CommonEffect(name, covariance, np.asarray(percent) if known else None, correlation)
    return found
