"""Top of the atmosphere to the surface and back: embedded 6SV look-up table, Sen2Cor."""

from uncover.atmosphere.coefficients import Coefficients
from uncover.atmosphere.lookup_table import BANDS, LookupTable, recorrect
from uncover.atmosphere.sen2cor import ConstantVisibility, PerturbedCams, Sen2Cor, Sen2CorError
from uncover.atmosphere.state import Geometry, State
