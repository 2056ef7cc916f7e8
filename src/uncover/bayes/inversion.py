"""From the top of the atmosphere to the surface: the inversion of ρ_toa = A + B·ρ/(1 − S·ρ)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def surface_reflectance(
    toa: Array,
    path: Array,
    slope: Array,
    albedo: Array,
    out: Array | None = None,
    scratch: Array | None = None,
) -> Array:
    """ρ = y/(B + S·y) with y = ρ_toa − A (Vermote et al. 1997); arrays are broadcast against each other.

    Results go into ``out``, and ``scratch`` is used on the way, where given: no other array is made then.
    """
    y = np.subtract(toa, path, out=out)
    denominator = np.multiply(y, albedo, out=scratch)
    np.add(denominator, slope, out=denominator)
    return np.divide(y, denominator, out=y)
