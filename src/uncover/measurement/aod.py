"""Aerosol optical depth at 550 nm: how uncertain it is, by the way it was retrieved."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from uncover.measurement.quantity import Impossible, Quantity

Array = npt.NDArray[Any]


def cams_uncertainty(aod: npt.ArrayLike) -> Array:
    """Standard uncertainty of the CAMS forecast: u = (0.1τ+0.03) + |−0.46τ+0.09|.

    The requirement on the product plus the offset found in its validation (Sentinel-2 L2A data quality
    report, OMPC.CS.DQR.002.12-2022; the same as in Bilson, McCrory and Pustogvar 2025).

    >>> float(cams_uncertainty(0.1).round(3))
    0.084
    """
    return _requirement(aod) + np.abs(-0.46 * np.asarray(aod, dtype=float) + 0.09)


def dark_vegetation_uncertainty(aod: npt.ArrayLike) -> Array:
    """Standard uncertainty of Sen2Cor's dark vegetation retrieval: u = (0.1τ+0.03) + |−0.56τ+0.07|.

    As in the public uncertainty tool of the L2A product (S2-L2A-RUT, Gorroño).

    >>> float(dark_vegetation_uncertainty(0.1).round(3))
    0.054
    """
    return _requirement(aod) + np.abs(-0.56 * np.asarray(aod, dtype=float) + 0.07)


def _requirement(aod: npt.ArrayLike) -> Array:
    return np.asarray(0.1 * np.asarray(aod, dtype=float) + 0.03)


# The values of AOT_RETRIEVAL_METHOD in L2A metadata. DEFAULT (a start visibility) has no validation of its
# own; the uncertainty tool treats it as dark vegetation.
RETRIEVAL_METHODS = {
    "CAMS": cams_uncertainty,
    "SEN2COR_DDV": dark_vegetation_uncertainty,
    "DEFAULT": dark_vegetation_uncertainty,
}


def aerosol_optical_depth(
    aod: float | None,
    *,
    retrieval: str = "CAMS",
    standard_uncertainty: float | None = None,
    highest: float = np.inf,
    impossible: Impossible = "truncate",
) -> Quantity:
    """The optical depth of a scene as a quantity with uncertainty, ready to draw worlds from.

    Parameters
    ----------
    aod : float
        The estimate at 550 nm.
    retrieval : str
        AOT_RETRIEVAL_METHOD of the metadata: CAMS, SEN2COR_DDV or DEFAULT.
    standard_uncertainty : float, optional
        Your own, instead of the one that follows from the retrieval.
    highest : float
        The largest value that can be corrected for, such as the last node of the look-up table.
    impossible : str
        What becomes of draws below zero; see :class:`Quantity`.

    Examples
    --------
    >>> aod = aerosol_optical_depth(0.12)
    >>> round(aod.standard_uncertainty, 4)
    0.0768
    >>> aod.draw(25, scene="my-scene", seed=0).values.shape
    (25,)
    >>> aerosol_optical_depth(None)
    Traceback (most recent call last):
    ...
    ValueError: the aerosol optical depth is missing; give --aod, as the metadata have none
    """
    if aod is None or np.isnan(aod):
        raise ValueError("the aerosol optical depth is missing; give --aod, as the metadata have none")
    if retrieval not in RETRIEVAL_METHODS:
        known = ", ".join(RETRIEVAL_METHODS)
        raise ValueError(
            f"retrieval method {retrieval!r} has no known uncertainty; it is one of {known}, or give u"
        )
    u = float(RETRIEVAL_METHODS[retrieval](aod)) if standard_uncertainty is None else standard_uncertainty
    return Quantity("aod", float(aod), u, highest=highest, impossible=impossible)
