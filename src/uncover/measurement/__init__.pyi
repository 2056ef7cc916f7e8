from uncover.measurement.features import Features as Features
from uncover.measurement.quantity import Draws as Draws
from uncover.measurement.quantity import Quantity as Quantity
from uncover.measurement.quantity import aerosol_optical_depth as aerosol_optical_depth
from uncover.measurement.quantity import cams_uncertainty as cams_uncertainty
from uncover.measurement.quantity import dark_vegetation_uncertainty as dark_vegetation_uncertainty
