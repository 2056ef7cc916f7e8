"""Reflectance of materials in the ten bands of Sentinel-2, and where each number comes from.

No spectrum here was measured for this project, and none is copied from a data file: they are typical values,
to two or three digits, of the kind and level that the named libraries and papers show. Vegetation is that of
a closed canopy seen from above, not of a leaf: leaves in libraries are brighter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BANDS = ("B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B11", "B12")
#: Ground sampling of each band in metres.
METRES = dict.fromkeys(BANDS, 20) | dict.fromkeys(("B02", "B03", "B04", "B08"), 10)


@dataclass(frozen=True)
class Library:
    """A source of typical values."""

    name: str
    reference: str


USGS = Library("USGS", "Kokaly et al. (2017), USGS Spectral Library Version 7, doi:10.3133/ds1035")
ECOSTRESS = Library(
    "ECOSTRESS",
    "Meerdink, Hook, Roberts and Abbott (2019), The ECOSTRESS spectral library version 1.0, "
    "doi:10.1016/j.rse.2019.05.015",
)
PROSAIL = Library(
    "PROSAIL",
    "Jacquemoud et al. (2009), PROSPECT + SAIL models: a review of use for vegetation characterization, "
    "doi:10.1016/j.rse.2008.01.026",
)
IMMITZER = Library(
    "Immitzer",
    "Immitzer, Vuolo and Atzberger (2016), First experience with Sentinel-2 data for crop and tree species "
    "classifications in central Europe, doi:10.3390/rs8030166",
)
DANDRIMONT = Library(
    "d'Andrimont",
    "d'Andrimont et al. (2020), Detecting flowering phenology in oil seed rape parcels with Sentinel-1 and "
    "-2 time series, doi:10.1016/j.rse.2020.111660",
)
HEIDEN = Library(
    "Heiden",
    "Heiden, Segl, Roessner and Kaufmann (2007), Determination of robust spectral features for "
    "identification of urban surface materials in hyperspectral remote sensing data, RSE 111, 537-552",
)
TOMING = Library(
    "Toming",
    "Toming et al. (2016), First experiences in mapping lake water quality parameters with Sentinel-2 MSI "
    "imagery, doi:10.3390/rs8080640",
)


@dataclass(frozen=True)
class Material:
    """Typical surface reflectance in the ten bands.

    >>> MATERIALS["asphalt"].reflectance[0]
    0.075
    """

    reflectance: tuple[float, ...]
    source: Library
    remark: str

    @property
    def values(self) -> NDArray[np.float64]:
        """The reflectance as an array (band,)."""
        return np.array(self.reflectance)


#: Order of the numbers:   B02    B03    B04    B05    B06    B07    B08    B8A    B11    B12
MATERIALS: dict[str, Material] = {
    "broadleaf trees": Material(
        (0.024, 0.048, 0.025, 0.083, 0.265, 0.345, 0.365, 0.380, 0.190, 0.086),
        IMMITZER,
        "beech and oak in summer; crowns and the shade between them",
    ),
    "conifers": Material(
        (0.018, 0.032, 0.018, 0.050, 0.130, 0.165, 0.175, 0.185, 0.090, 0.038),
        IMMITZER,
        "spruce: darker in every band, most in the shortwave infrared",
    ),
    "green cereals": Material(
        (0.028, 0.060, 0.030, 0.095, 0.330, 0.430, 0.460, 0.475, 0.200, 0.095),
        PROSAIL,
        "closed canopy, leaf area index 4-5, before ripening",
    ),
    "ripe cereals": Material(
        (0.065, 0.105, 0.135, 0.185, 0.250, 0.285, 0.310, 0.330, 0.320, 0.215),
        IMMITZER,
        "golden, chlorophyll gone and leaves dry",
    ),
    "rape in pod": Material(
        (0.040, 0.080, 0.050, 0.125, 0.300, 0.370, 0.400, 0.415, 0.220, 0.115),
        DANDRIMONT,
        "after flowering: pods instead of leaves on top",
    ),
    "rape in flower": Material(
        (0.045, 0.135, 0.115, 0.185, 0.310, 0.370, 0.400, 0.405, 0.220, 0.110),
        DANDRIMONT,
        "yellow: green and red high, blue low",
    ),
    "broad-leaved crops": Material(
        (0.030, 0.075, 0.035, 0.120, 0.390, 0.500, 0.530, 0.540, 0.240, 0.120),
        PROSAIL,
        "sugar beet, potatoes, beans: flat leaves, bright in the near infrared",
    ),
    "improved grass": Material(
        (0.030, 0.065, 0.035, 0.110, 0.310, 0.390, 0.420, 0.430, 0.220, 0.110),
        ECOSTRESS,
        "lawn and ley; level lowered to a sward of leaf area index 3",
    ),
    "rough grass": Material(
        (0.045, 0.075, 0.070, 0.120, 0.220, 0.260, 0.285, 0.300, 0.260, 0.155),
        USGS,
        "green and dry grass mixed about half and half",
    ),
    "cut grass": Material(
        (0.060, 0.095, 0.105, 0.155, 0.230, 0.260, 0.285, 0.300, 0.310, 0.210),
        USGS,
        "after hay or silage: mostly dry stems",
    ),
    "litter": Material(
        (0.040, 0.060, 0.070, 0.090, 0.140, 0.170, 0.200, 0.210, 0.240, 0.160),
        USGS,
        "dead leaves and undergrowth between trees",
    ),
    "reed and sedge": Material(
        (0.030, 0.055, 0.045, 0.085, 0.170, 0.205, 0.225, 0.235, 0.140, 0.068),
        USGS,
        "fen and marsh; typical values only, standing water below keeps the infrared low",
    ),
    "wet peat": Material(
        (0.030, 0.040, 0.050, 0.060, 0.070, 0.075, 0.080, 0.085, 0.060, 0.035),
        ECOSTRESS,
        "dark organic soil under water films; typical value",
    ),
    "lake water": Material(
        (0.030, 0.035, 0.022, 0.018, 0.014, 0.013, 0.011, 0.010, 0.006, 0.004),
        TOMING,
        "moderately clear lake",
    ),
    "river water": Material(
        (0.045, 0.060, 0.048, 0.040, 0.026, 0.025, 0.020, 0.018, 0.008, 0.005),
        TOMING,
        "turbid lowland river: silt brightens the red",
    ),
    "light soil": Material(
        (0.100, 0.140, 0.180, 0.205, 0.230, 0.250, 0.270, 0.285, 0.360, 0.310),
        ECOSTRESS,
        "dry sandy loam",
    ),
    "dark soil": Material(
        (0.050, 0.070, 0.090, 0.105, 0.125, 0.140, 0.150, 0.160, 0.210, 0.175),
        ECOSTRESS,
        "moist clay",
    ),
    "tiles": Material(
        (0.065, 0.085, 0.135, 0.160, 0.180, 0.195, 0.205, 0.215, 0.245, 0.220),
        HEIDEN,
        "weathered red clay roof tiles, shaded side included",
    ),
    "slate": Material(
        (0.070, 0.078, 0.082, 0.087, 0.092, 0.097, 0.102, 0.105, 0.130, 0.120),
        HEIDEN,
        "slate and dark concrete tiles",
    ),
    "bright roofs": Material(
        (0.240, 0.265, 0.280, 0.290, 0.295, 0.300, 0.305, 0.305, 0.320, 0.290),
        HEIDEN,
        "metal and gravel roofs of halls",
    ),
    "asphalt": Material(
        (0.075, 0.085, 0.093, 0.099, 0.106, 0.112, 0.117, 0.120, 0.150, 0.145),
        USGS,
        "old road",
    ),
    "concrete": Material(
        (0.150, 0.180, 0.205, 0.220, 0.235, 0.245, 0.250, 0.255, 0.295, 0.280),
        USGS,
        "paving and yards",
    ),
}
