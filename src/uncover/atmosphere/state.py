"""Input of an atmospheric correction: the state of the atmosphere and the angles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class State:
    """One state of the atmosphere, or one per realisation.

    Every field is a number, or an array with one value per realisation (a *world*: the error is shared by all
    bands and pixels of a scene). The optical depth is that above the pixel. Water vapour and ozone are
    columns down to sea level; what lies below a pixel at altitude is left out, by the profiles of 6S.

    The last fields are what a scene may have in each realisation: an error of the height of the ground (and
    so of the pressure there), a kind of aerosol, and an error of the sensor. ``signal`` is gain and offset,
    (realisation, band) each, that turn measured reflectance at the top of the atmosphere into what it may
    have been.
    """

    aod: npt.ArrayLike  # aerosol optical depth at 550 nm
    water_vapour: npt.ArrayLike = 2.0  # cm of precipitable water, the same number as g/cm2
    ozone: npt.ArrayLike = 330.0  # Dobson units
    height: npt.ArrayLike = 0.0  # km, added to the altitude of the ground
    aerosol: npt.ArrayLike = 0  # number of one of the table's aerosol models
    signal: tuple[Array, Array] | None = None

    def __post_init__(self) -> None:
        for name, remedy in _REMEDIES.items():
            values = np.asarray(getattr(self, name), dtype=float)
            _check(name, values, remedy)
            object.__setattr__(self, name, values)
        object.__setattr__(self, "height", np.asarray(self.height, dtype=float))
        object.__setattr__(self, "aerosol", np.asarray(self.aerosol, dtype=int))
        if len(self._sizes) > 1:
            raise ValueError(
                f"the fields of a state have {' and '.join(map(str, sorted(self._sizes)))} realisations; "
                "give each field one number or the same number of realisations"
            )

    @property
    def realisations(self) -> int | None:
        """Number of realisations, or None for a single state."""
        return next(iter(self._sizes), None)

    @property
    def _sizes(self) -> set[int]:
        fields = [getattr(self, name) for name in (*_REMEDIES, "height", "aerosol")]
        signal = () if self.signal is None else (len(self.signal[0]),)
        return {np.size(each) for each in fields if np.ndim(each)} | set(signal)

    def of(self, realisation: int) -> State:
        """One of the realisations, without an error of the sensor."""
        names = (*_REMEDIES, "height", "aerosol")
        fields: dict[str, Any] = {name: np.asarray(getattr(self, name)) for name in names}
        return State(**{name: each[realisation] if each.ndim else each for name, each in fields.items()})


_REMEDIES = {
    "aod": "an aerosol optical depth is 0 or more. Choose a rule for negative draws, or give --aod",
    "water_vapour": "a water vapour column in cm is 0 or more. Divide kg/m2 by 10",
    "ozone": "an ozone column in Dobson units is 0 or more. Divide kg/m2 by 2.1415e-5",
}


def _check(name: str, values: Array, remedy: str) -> None:
    if values.ndim > 1:
        raise ValueError(f"{name} has {values.ndim} dimensions; give one number, or one per realisation")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} is missing (not a number); {remedy}")
    if (values < 0).any():
        raise ValueError(f"{name} is {values.min():g}; {remedy}")


@dataclass(frozen=True)
class Geometry:
    """Angles in degrees and altitude in km, each one number or one per pixel.

    Azimuths are counted as in Sentinel-2 metadata, from the pixel towards the sun and towards the sensor: a
    relative azimuth of 0 has the sensor on the side of the sun (backscatter), 180 opposite. Any difference of
    two azimuths will do; it is folded into 0-180.
    """

    sun_zenith: npt.ArrayLike
    view_zenith: npt.ArrayLike
    relative_azimuth: npt.ArrayLike
    altitude: npt.ArrayLike = 0.0

    def __post_init__(self) -> None:
        names = ("sun_zenith", "view_zenith", "relative_azimuth", "altitude")
        values = [np.asarray(getattr(self, name), dtype=float) for name in names]
        for name, value in zip(names, values, strict=True):
            if not np.isfinite(value).all():
                raise ValueError(f"{name} is missing (not a number); give a finite value for every pixel")
        values[2] = np.asarray(np.abs((values[2] + 180) % 360 - 180))
        shape = np.broadcast_shapes(*(value.shape for value in values))
        for name, value in zip(names, values, strict=True):
            object.__setattr__(self, name, value if value.ndim == 0 else np.broadcast_to(value, shape))

    @classmethod
    def from_azimuths(
        cls,
        sun: tuple[npt.ArrayLike, npt.ArrayLike],
        view: tuple[npt.ArrayLike, npt.ArrayLike],
        altitude: npt.ArrayLike = 0.0,
    ) -> Geometry:
        """From (zenith, azimuth) of the sun and of the sensor."""
        difference = np.asarray(sun[1], dtype=float) - np.asarray(view[1], dtype=float)
        return cls(sun[0], view[0], difference, altitude)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the pixels, () where every angle is one number."""
        return np.broadcast_shapes(*(np.shape(value) for value in self._fields()))

    def flat(self) -> Geometry:
        """The same with the pixels on one axis."""
        return Geometry(*(np.reshape(v, -1) if np.ndim(v) else v for v in self._fields()))

    def block(self, pixels: slice | Array) -> Geometry:
        """Some of the pixels of a flat geometry."""
        return Geometry(*(np.asarray(v)[pixels] if np.ndim(v) else v for v in self._fields()))

    def _fields(self) -> tuple[npt.ArrayLike, ...]:
        return self.sun_zenith, self.view_zenith, self.relative_azimuth, self.altitude
