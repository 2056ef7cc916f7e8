"""The quality bits of a pixel: one enumeration for scenes, cubes and maps."""

from enum import IntFlag

import numpy as np
from numpy.typing import NDArray


class Quality(IntFlag):
    """Fixed bits of a quality layer (uint16). The values are part of the file format and never change.

    The first six come from the scene; the last four are added by a map.

    >>> Quality.CLOUD | Quality.SNOW
    <Quality.CLOUD|SNOW: 20>
    >>> Quality(33)
    <Quality.NODATA|SATURATED: 33>
    """

    NODATA = 1  #: no band has a value, or the pixel lies outside the area of interest
    PARTIAL = 2  #: some bands have a value and some have none
    CLOUD = 4  #: cloud or cirrus
    SHADOW = 8  #: cloud shadow
    SNOW = 16  #: snow or ice
    SATURATED = 32  #: at least one band is saturated or defective
    OUTSIDE_DOMAIN = 64  #: the pixel looks like nothing the model was trained on
    DISAGREE = 128  #: the realisations do not agree on the class
    LOW_MARGIN = 256  #: the runner-up is nearly as probable as the class
    NO_UNCERTAINTY = 512  #: the pixel has values, and no stated uncertainty: it gets no class


#: No bit at all.
CLEAR = Quality(0)

#: Pixels with any of these bits have no complete measurement: they never get a class of their own.
INCOMPLETE = Quality.NODATA | Quality.PARTIAL

#: Pixels with any of these bits may have a class, but it is not that of the land: areas leave them out.
FLAGGED = Quality.CLOUD | Quality.SHADOW | Quality.SNOW | Quality.SATURATED

#: Pixels with any of these bits are left out of training; maps classify and flag those that are complete.
UNUSABLE = INCOMPLETE | FLAGGED


def without(quality: NDArray[np.uint16], bits: Quality) -> NDArray[np.bool_]:
    """Which pixels have none of those bits.

    >>> without(np.array([0, 1, 4], np.uint16), Quality.CLOUD).tolist()
    [True, True, False]
    """
    free: NDArray[np.bool_] = (quality & np.uint16(bits)) == 0
    return free


class Flagged:
    """Pixels with quality bits: which of them are whole, and which are fit for training."""

    quality: NDArray[np.uint16]  # (row, col), bits of Quality

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Pixels with a value in every band, (row, col)."""
        return without(self.quality, INCOMPLETE)

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Pixels fit for training: valid, and no cloud, shadow, snow or saturation."""
        return without(self.quality, UNUSABLE)


def flag_attributes() -> dict[str, object]:
    """CF attributes that make the bits readable by other programs."""
    return {
        "flag_masks": [int(bit) for bit in Quality],
        "flag_meanings": " ".join(str(bit.name).lower() for bit in Quality),
    }
