"""Where uncertainty comes from: values with their covariances, and quantities that a scene shares."""

from uncover.measurement.features import Features
from uncover.measurement.quantity import (
    Draws,
    Quantity,
    aerosol_optical_depth,
    cams_uncertainty,
    dark_vegetation_uncertainty,
)
