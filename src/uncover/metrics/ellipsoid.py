"""Areas and lengths on the Earth's ellipsoid. Numbers only, no grids."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

#: Semi-major axis in metres and inverse flattening of WGS 84 (NIMA TR8350.2).
WGS84 = (6378137.0, 298.257223563)


def band_area(
    south: ArrayLike, north: ArrayLike, width: ArrayLike, ellipsoid: tuple[float, float] = WGS84
) -> Any:
    """Area in m² between two latitudes over a width of longitude, all in degrees: exact, for any size.

        A = Δλ·b²/2 · [ sin φ/(1 − e² sin² φ) + artanh(e sin φ)/e ] between the latitudes

    (Snyder 1987, USGS Professional Paper 1395, eq. 3-12). An inverse flattening of 0 means a sphere.
    """
    a, inverse = ellipsoid
    f = 1 / inverse if inverse else 0.0
    e2 = f * (2 - f)
    factor = np.radians(width) * a**2 * (1 - e2) / 2
    return factor * (_authalic(north, e2) - _authalic(south, e2))


def _authalic(latitude: ArrayLike, e2: float) -> Any:
    s = np.sin(np.radians(latitude))
    if e2 == 0:
        return 2 * s
    e = np.sqrt(e2)
    return s / (1 - e2 * s**2) + np.arctanh(e * s) / e


def radii(latitude: ArrayLike, ellipsoid: tuple[float, float] = WGS84) -> tuple[Any, Any]:
    """Metres of a radian of latitude and of longitude at a latitude in degrees.

        M = a(1 − e²)/W³,   N cos φ = a cos φ/W,   W² = 1 − e² sin² φ

    (Snyder 1987, eq. 4-18 and 4-20).
    """
    a, inverse = ellipsoid
    f = 1 / inverse if inverse else 0.0
    e2 = f * (2 - f)
    phi = np.radians(latitude)
    w = np.sqrt(1 - e2 * np.sin(phi) ** 2)
    return a * (1 - e2) / w**3, a * np.cos(phi) / w
