"""Top of the atmosphere to the surface and back: embedded 6SV look-up table, Sen2Cor, identity."""

from uncover.atmosphere.coefficients import Coefficients
from uncover.atmosphere.correction import BANDS, Correction, Identity, LookupTable
from uncover.atmosphere.state import Geometry, State

__all__ = ["BANDS", "Coefficients", "Correction", "Geometry", "Identity", "LookupTable", "State"]
