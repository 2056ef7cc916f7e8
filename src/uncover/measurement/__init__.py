"""Where the uncertainty of the measurement comes from: quantities that a scene shares, and draws of them."""

from uncover.measurement.aod import aerosol_optical_depth, cams_uncertainty, dark_vegetation_uncertainty
from uncover.measurement.quantity import Draws, Quantity

__all__ = ["Draws", "Quantity", "aerosol_optical_depth", "cams_uncertainty", "dark_vegetation_uncertainty"]
