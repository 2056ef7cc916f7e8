"""Where uncertainty comes from: values with their covariances, and quantities that a scene shares."""

from typing import TYPE_CHECKING

from uncover.lazy import lazy_names

if TYPE_CHECKING:
    from uncover.measurement.features import Features as Features
    from uncover.measurement.quantity import Draws as Draws
    from uncover.measurement.quantity import Quantity as Quantity
    from uncover.measurement.quantity import aerosol_optical_depth as aerosol_optical_depth
    from uncover.measurement.quantity import cams_uncertainty as cams_uncertainty
    from uncover.measurement.quantity import dark_vegetation_uncertainty as dark_vegetation_uncertainty

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "uncover.measurement.features": "Features",
        "uncover.measurement.quantity": "Draws Quantity aerosol_optical_depth cams_uncertainty "
        "dark_vegetation_uncertainty",
    },
)
