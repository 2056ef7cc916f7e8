"""The three numbers between surface and top of atmosphere, and the arithmetic with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from uncover.bayes.inversion import surface_reflectance

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Coefficients:
    """ρ_toa = A + B·ρ/(1−S·ρ), hence ρ = y/(B+S·y) with y = ρ_toa − A (Vermote et al. 1997).

    For a Lambertian, uniform surface. The arrays have the axes (realisation, band, pixel), an axis of length
    one where nothing varies along it. The verbs write into ``out`` and ``scratch``, where given, and make no
    other array: in a loop over blocks that is most of the speed.
    """

    path: Array  # A: reflectance of the atmosphere over a black surface
    slope: Array  # B: transmittance from the sun to the surface and up to the sensor
    albedo: Array  # S: spherical albedo of the atmosphere, seen from below

    def astype(self, dtype: npt.DTypeLike) -> Coefficients:
        """The same in another floating-point type."""
        return Coefficients(*(a.astype(dtype, copy=False) for a in (self.path, self.slope, self.albedo)))

    def of_signal(self, gain: Array, offset: Array) -> Coefficients:
        """Those that correct gain·ρ_toa + offset, with (realisation, band) of each; the form is the same."""
        gain, offset = gain[..., None], offset[..., None]
        return Coefficients((self.path - offset) / gain, self.slope / gain, self.albedo)

    def simulate(self, surface: Array, out: Array | None = None, scratch: Array | None = None) -> Array:
        """Top-of-atmosphere reflectance: (band, pixel) to (realisation, band, pixel)."""
        denominator = np.multiply(surface, self.albedo, out=scratch)
        np.subtract(1, denominator, out=denominator)
        y = np.multiply(surface, self.slope, out=out)
        np.divide(y, denominator, out=y)
        return np.add(y, self.path, out=y)

    def correct(self, toa: Array, out: Array | None = None, scratch: Array | None = None) -> Array:
        """Surface reflectance: (band, pixel) to (realisation, band, pixel)."""
        return surface_reflectance(toa, self.path, self.slope, self.albedo, out, scratch)
