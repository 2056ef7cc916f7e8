"""Uncertainty of the radiometry of Sentinel-2 Level 1C, after the public Radiometric Uncertainty Tool.

Formulas and numbers are those of OMPC.ACR.MEM.052 (algorithms) and OMPC.ACR.MEM.41 (error sources), 2025.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.streams import stream
from uncover.measurement.bands import canonical_band

Array = NDArray[np.float64]

BANDS = ("B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B09", "B10", "B11", "B12")
#: Of each band: counts per W m⁻² sr⁻¹ µm⁻¹; solar irradiance in W m⁻² µm⁻¹ (product metadata); α and β of the
#: noise model in counts; standard uncertainty of the diffuser's reflectance in per cent.
_SATELLITES = {
    "S2A": (
        (4.1, 3.76, 4.19, 4.52, 5.21, 4.87, 4.54, 6.16, 5.14, 8.53, 55.37, 35.38, 106.46),
        (1884.69, 1959.66, 1823.24, 1512.06, 1424.64, 1287.61, 1162.08, 1041.63, 955.32, 812.92,
         367.15, 245.59, 85.25),
        (0.241, 0.529, 0.435, 0.437, 0.551, 0.549, 0.538, 0.534, 0.537, 0.243, 0.498, 0.668, 0.729),
        (0.000164, 0.0104, 0.00906, 0.00951, 0.0056, 0.00623, 0.00515, 0.0131, 0.00979, 0.000829,
         0.00144, 0.00243, 0.00237),
        (1.09, 1.08, 0.84, 0.73, 0.68, 0.97, 0.83, 0.81, 0.88, 0.97, 1.39, 1.39, 1.58),
    ),
    "S2B": (
        (4.02456458, 3.85904196, 4.27535219, 4.81753489, 5.23206138, 5.13300778, 4.81001173,
         6.88556205, 5.81163355, 9.45586641, 56.299593, 37.102072, 108.56237),
        (1874.3, 1959.75, 1824.93, 1512.79, 1425.78, 1291.13, 1175.57, 1041.28, 953.93, 817.58,
         365.41, 247.08, 87.75),
        (0.23983, 0.52093, 0.42808, 0.44495, 0.54075, 0.53454, 0.53097, 0.53093, 0.53054, 0.24203,
         0.48941, 0.65615, 0.71003),
        (0.00016189, 0.01042, 0.00904, 0.00946, 0.00562, 0.00624, 0.00512, 0.01307, 0.00976,
         0.00082, 0.0014, 0.0024, 0.0024),
        (1.16, 1, 0.79, 0.7, 0.85, 0.77, 0.8, 0.8, 0.85, 0.66, 1.7, 1.46, 2.13),
    ),
    "S2C": (
        (4.64909934, 5.08599834, 4.98541597, 6.43171006, 7.0211546, 7.76824223, 7.03624823,
         8.96315843, 7.72180994, 12.2866144, 69.34169398, 40.04336319, 112.4862393),
        (1914.61, 1972.03, 1822.48, 1506.74, 1410.66, 1287.62, 1154.97, 1037.17, 957.92, 807.65,
         367.88, 246.31, 86.94),
        (0.235, 0.50025, 0.36421, 0.36986, 0.54774, 0.5315, 0.53638, 0.50556, 0.52634, 0.2297,
         0.4829, 0.61647, 0.66988),
        (0.0001991, 0.01287, 0.01119, 0.01173, 0.00683, 0.00755, 0.00618, 0.01619, 0.01184,
         0.0009932, 0.0013914, 0.00239, 0.00238),
        (0.86, 0.79, 0.79, 0.63, 0.74, 0.73, 0.69, 0.59, 0.66, 0.61, 1.59, 1.44, 1.89),
    ),
}  # fmt: skip
#: The same for all satellites. Per cent of the counts: stray light of single pixels, non-linearity.
_STRAY = (0.1, 0.1, 0.08, 0.12, 0.44, 0.16, 0.2, 0.2, 0.04, 0.8, 0.0, 0.0, 0.0)
_NON_LINEARITY = (0.4,) * 9 + (0.6,) * 4
#: Counts.
_DARK = (0.1,) * 10 + (0.24, 0.12, 0.16)
#: Per cent: stray light of the scene, of its mean counts; angle of the diffuser, its stray light and ageing.
_SCENE_STRAY, _COSINE, _DIFFUSER_STRAY, _AGEING = 0.3, 0.4, 0.3, 1.0
#: What resampling to the grid of Level 1C leaves of the noise; W m⁻² sr⁻¹ µm⁻¹; counts; steps of reflectance.
_RESAMPLING, _CROSSTALK, _ADC, _STEPS = 0.65, 0.01, 0.5, 10_000
#: Metres by which pixels may be misplaced, and sides of pixels of the bands in metres.
REFINED, UNREFINED = 1.5, 3.0
SIDES = (60, 10, 10, 10, 20, 20, 20, 10, 20, 60, 60, 20, 20)
_SHORT_WAVE = ("B10", "B11", "B12")

#: Independent between pixels, and shared by a scene; the rest is negligible by MEM.052 and not counted.
RANDOM = ("noise", "stray light of pixels", "non-linearity", "quantisation")
SHARED = (
    "stray light of the scene",
    "dark signal",
    "diffuser, absolute",
    "diffuser, angle",
    "diffuser, stray light",
)
#: Errors in standard units, as they are drawn: of a scene, and of a satellite, which all its scenes share
#: (of the diffuser's reflectance in each focal plane, and of its angle and stray light in all bands).
SCENE_FACTORS = ("stray_light",)
SATELLITE_FACTORS = ("diffuser_vnir", "diffuser_swir", "diffuser")


_TOOL = "Sentinel-2 Radiometric Uncertainty Tool (OMPC.ACR.MEM.052, 2025)"


def earth_sun_factor(date: datetime | None) -> float:
    """Irradiance on a day over that at the mean distance of the sun; 1 where the day is not known.

    >>> round(earth_sun_factor(datetime(2025, 2, 28)), 2), earth_sun_factor(None)
    (1.02, 1.0)
    """
    if date is None:
        return 1.0
    return float((1 - 0.01673 * np.cos(np.radians(0.9856 * (date.timetuple().tm_yday - 4)))) ** -2)


@dataclass(frozen=True)
class Radiometry:
    """Radiometric uncertainty of some bands of a satellite at one height of the sun.

    >>> red = Radiometry.of("S2A", ["B04"], sun_zenith=30.0)
    >>> parts = red.components(np.array([[0.1]]))
    >>> {name: float(parts[name].round(5).item()) for name in ("noise", "diffuser, absolute")}
    {'noise': 0.00049, 'diffuser, absolute': 0.00073}
    """

    satellite: str
    bands: tuple[str, ...]
    counts: Array  # (band,), of a reflectance of one
    constants: Array  # (5, band), as in the table

    @classmethod
    def of(
        cls, satellite: str, bands: Sequence[str], sun_zenith: float, date: datetime | None = None
    ) -> Radiometry:
        """Return that of Sentinel-2A, 2B or 2C (S2A, S2B, S2C)."""
        short = f"S2{satellite.strip()[-1:].upper()}"
        names = tuple(canonical_band(band) for band in bands)
        unknown = [band for band in names if band not in BANDS]
        if short not in _SATELLITES or unknown:
            what = f"bands {', '.join(unknown)}" if unknown else f"satellite {satellite!r}"
            raise ValueError(
                f"the radiometric uncertainty of {what} is not known, only that of the bands of S2A, S2B and "
                "S2C; state your own by --uncertainty, or leave radiometry out of --effects"
            )
        table = np.array(_SATELLITES[short])[:, [BANDS.index(band) for band in names]]
        light = table[0] * table[1] * earth_sun_factor(date) * np.cos(np.radians(sun_zenith)) / np.pi
        return cls(short, names, light, table)

    def components(
        self,
        reflectance: Array,
        gradient: Array | None = None,
        mean: Array | None = None,
        misplaced: float = REFINED,
    ) -> dict[str, Array]:
        """Standard uncertainty of each cause, in reflectance at the top of the atmosphere: (band, ...).

        ``gradient`` is the length of the gradient of the reflectance per pixel of the band (no "geolocation"
        without it), ``mean`` that of the scene, (band,), by default that of the values, and ``misplaced`` how
        far pixels are, in metres.
        """
        column = (slice(None),) + (None,) * (np.ndim(reflectance) - 1)
        per = self.counts[column]
        Z = np.maximum(reflectance, 0.0) * per
        if mean is None:
            mean = np.nanmean(Z.reshape(len(Z), -1), axis=1) / self.counts
        at = [BANDS.index(band) for band in self.bands]
        stray, dark, bent = (np.array(each)[at][column] for each in (_STRAY, _DARK, _NON_LINEARITY))
        gain, _, alpha, beta, diffuser = self.constants[(slice(None), *column)]
        one = np.ones_like(Z)
        found = {
            "noise": _RESAMPLING * np.sqrt(alpha**2 + beta * Z),
            "stray light of pixels": stray / 100 * Z,
            "non-linearity": bent / 100 * Z,
            "quantisation": 0.5 / np.sqrt(3) / _STEPS * per * one,
            "stray light of the scene": _SCENE_STRAY / 100 * np.maximum(mean, 0.0)[column] * per * one,
            "dark signal": dark * one,
            "diffuser, absolute": diffuser / 100 * Z,
            "diffuser, angle": _COSINE / 100 * Z,
            "diffuser, stray light": _DIFFUSER_STRAY / 100 * Z,
            "diffuser, ageing": _AGEING / 100 * Z,
            "cross-talk": gain * _CROSSTALK * one,
            "conversion to counts": _ADC / np.sqrt(3) * one,
        }
        if gradient is not None:
            side = np.array(SIDES, float)[at][column]
            found["geolocation"] = misplaced / side * gradient * per
        return {name: each / per for name, each in found.items()}

    def random_variance(self, reflectance: Array) -> Array:
        """Variance of the errors that are independent between pixels and between bands: (band, ...)."""
        at, column = (
            [BANDS.index(band) for band in self.bands],
            (slice(None),) + (None,) * (reflectance.ndim - 1),
        )
        stray, bent = (np.array(each)[at] for each in (_STRAY, _NON_LINEARITY))
        per, (alpha, beta) = self.counts, self.constants[2:4]
        constant = (_RESAMPLING * alpha / per) ** 2 + (0.5 / np.sqrt(3) / _STEPS) ** 2
        linear, square = _RESAMPLING**2 * beta / per, (stray**2 + bent**2) / 1e4
        value = np.maximum(reflectance, 0.0)
        return np.asarray((square[column] * value + linear[column]) * value + constant[column])

    def total(self, reflectance: Array, gradient: Array | None = None, mean: Array | None = None) -> Array:
        """Standard uncertainty as the tool combines it: stray light of the scene is added linearly."""
        parts = self.components(reflectance, gradient, mean)
        squares = [parts[name] ** 2 for name in (*RANDOM, *SHARED[1:], "geolocation") if name in parts]
        return np.asarray(parts[SHARED[0]] + np.sqrt(np.sum(squares, axis=0)))

    def draw_dark_signal(self, n: int, scene: str, seed: int) -> Array:
        """Errors of the dark signal of a scene in standard units: (realisation, band)."""
        at = [BANDS.index(band) for band in self.bands]
        draws = [stream(seed, "dark signal", scene, r).standard_normal(len(BANDS))[at] for r in range(n)]
        return np.array(draws)

    def signal(self, factors: Mapping[str, Array], dark: Array, mean: Array) -> tuple[Array, Array]:
        """Gain and offset of the reflectance in each world, (realisation, band) each.

        Errors of the diffuser are gains: of its reflectance, one in each focal plane; of its angle and its
        stray light, one in all bands. Stray light is an offset in proportion to the mean of the scene, one in
        all bands; the dark signal is an offset of its own in each.

        Parameters
        ----------
        factors : mapping of str to array of shape (realisation,)
            Draws of `SCENE_FACTORS` and `SATELLITE_FACTORS`, in standard units.
        dark : array of shape (realisation, band)
            Draws of the dark signal, in standard units.
        mean : array of shape (band,)
            Mean reflectance of the scene.
        """
        at = [BANDS.index(band) for band in self.bands]
        short_wave = np.array([band in _SHORT_WAVE for band in self.bands])
        near, far, both = (factors[name][:, None] for name in SATELLITE_FACTORS)
        gain = self.constants[4] * np.where(short_wave, far, near) + np.hypot(_COSINE, _DIFFUSER_STRAY) * both
        stray = _SCENE_STRAY / 100 * np.maximum(mean, 0.0) * factors[SCENE_FACTORS[0]][:, None]
        return 1.0 + gain / 100, stray + dark * np.array(_DARK)[at] / self.counts

    def random_record(self, mean: Array) -> dict[str, Any]:
        """The errors of single pixels as an input quantity, at a mean reflectance (band,)."""
        u = np.sqrt(self.random_variance(mean[:, None])[:, 0])
        return {
            "name": "radiometry of single pixels",
            "estimate": 0.0,
            "standard_uncertainty": [float(f"{each:.4g}") for each in u],
            "standard_uncertainty_is": f"of the mean of the scene; the sum of {', '.join(RANDOM)}",
            "units": "1",
            "distribution": "Gaussian",
            "between_pixels": "random",
            "between_bands": np.eye(len(u)).tolist(),
            "source": _TOOL,
        }

    def records(self) -> list[dict[str, Any]]:
        """The effects as input quantities, for a record."""

        def record(name: str, units: str, u: Any, **others: str) -> dict[str, Any]:
            found = {"name": name, "units": units, "standard_uncertainty": u, "distribution": "Gaussian"}
            return {**found, **others, "source": _TOOL}

        of_scene = {"between_pixels": "systematic", "between_scenes": "independent"}
        of_satellite = {
            "between_pixels": "systematic",
            "between_scenes": f"common to {self.satellite}, counted as independent",
        }
        planes, all_bands = {"between_bands": "full in each focal plane"}, {"between_bands": "full"}
        dark = [_DARK[BANDS.index(band)] for band in self.bands]
        return [
            record("diffuser, absolute", "%", self.constants[4].tolist(), **of_satellite, **planes),
            record("diffuser, angle", "%", _COSINE, **of_satellite, **all_bands),
            record("diffuser, stray light", "%", _DIFFUSER_STRAY, **of_satellite, **all_bands),
            record("stray light of the scene", "% of its mean", _SCENE_STRAY, **of_scene, **all_bands),
            record("dark signal", "counts", dark, **of_scene, between_bands="none"),
        ]
