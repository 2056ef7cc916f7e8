"""The quality bits of a pixel: one enumeration for scenes, cubes and maps, and masks by their names."""

from enum import IntFlag
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Quality(IntFlag):
    """Fixed bits of a quality layer (uint16). The values are part of the file format and never change.

    Those up to 32 and the last two come from scenes and their masks; the others are added by a map.

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
    MASKED = 1024  #: a mask of the user's own leaves the pixel out
    NO_CLEAR_DATE = 2048  #: no date of a series shows the pixel


#: No bit at all.
CLEAR = Quality(0)

#: Pixels with any of these bits have no complete measurement that is wanted: they never get a class.
INCOMPLETE = Quality.NODATA | Quality.PARTIAL | Quality.MASKED | Quality.NO_CLEAR_DATE

#: Pixels with any of these bits show no land: by default they do not train and get no class.
FLAGGED = Quality.CLOUD | Quality.SHADOW | Quality.SNOW | Quality.SATURATED

#: Pixels with any of these bits are left out by default.
UNUSABLE = INCOMPLETE | FLAGGED

#: Scene classification of Sen2Cor. Dark areas (2) and unclassified (7) are measurements like others.
SCL_MEANING = (
    (1, Quality.SATURATED),
    (3, Quality.SHADOW),
    (8, Quality.CLOUD),
    (9, Quality.CLOUD),
    (10, Quality.CLOUD),
    (11, Quality.SNOW),
)

#: Reasons why a pixel has no class, in the order in which they are asked, and the names of their rows.
REASONS = {
    Quality.NODATA: "no data",
    Quality.NO_CLEAR_DATE: "no clear date",
    Quality.MASKED: "own mask",
    Quality.CLOUD: "cloud",
    Quality.SHADOW: "cloud shadow",
    Quality.SNOW: "snow",
    Quality.SATURATED: "saturated",
    Quality.PARTIAL: "some bands are missing",
    Quality.NO_UNCERTAINTY: "no stated uncertainty",
}


def mask_bits(names: str) -> Quality:
    """Bits of masked classes by their names between commas: cloud, shadow, snow, saturated; none, all.

    >>> mask_bits("cloud, snow") == Quality.CLOUD | Quality.SNOW, mask_bits("none") == CLEAR
    (True, True)
    >>> mask_bits("fog")
    Traceback (most recent call last):
    ...
    ValueError: there is no mask class 'fog'; choose among cloud, shadow, snow, saturated, or say none or all
    """
    known = {str(bit.name).lower(): bit for bit in Quality if bit & FLAGGED}
    words = [word.strip().lower() for word in names.split(",") if word.strip()]
    if words in (["none"], ["all"]):
        return CLEAR if words == ["none"] else FLAGGED
    for word in words:
        if word not in known:
            listed = ", ".join(known)
            raise ValueError(f"there is no mask class {word!r}; choose among {listed}, or say none or all")
    found = CLEAR
    for word in words:
        found |= known[word]
    return found


def mask_names(bits: Quality) -> list[str]:
    """Names of masked classes, which `mask_bits` takes."""
    return [str(bit.name).lower() for bit in Quality if bit & bits & FLAGGED]


def mask_values(text: str) -> dict[int, Quality]:
    """Meaning of the numbers of a user's mask: numbers and ranges to leave out, or scl for Sen2Cor's codes.

    >>> sorted(mask_values("3,8-10"))
    [3, 8, 9, 10]
    >>> mask_values("scl") == dict(SCL_MEANING)
    True
    """
    if text.strip().lower() == "scl":
        return dict(SCL_MEANING)
    found: dict[int, Quality] = {}
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or not (last or first).isdigit() or int(last or first) < int(first):
            raise ValueError(f"--mask-values {text}: {part!r} is no number or range; give 3,8-10, or scl")
        found |= dict.fromkeys(range(int(first), int(last or first) + 1), Quality.MASKED)
    return found


def reasons(
    quality: NDArray[np.uint16], masked: Quality, weight: NDArray[np.float64] | None = None
) -> dict[str, Any]:
    """Count pixels without a class by the first of the `REASONS`; or add up their weights.

    >>> reasons(np.array([1, 5, 4, 12, 32], np.uint16), FLAGGED)
    {'no data': 2, 'cloud': 2, 'saturated': 1}
    """
    found: dict[str, Any] = {}
    rest = np.ones(quality.shape, np.bool_)
    for bit, name in REASONS.items():
        if bit & FLAGGED and not bit & masked:
            continue
        mine = rest & (quality & np.uint16(bit) > 0)
        if mine.any():
            found[name] = int(mine.sum()) if weight is None else float(weight[mine].sum())
            rest &= ~mine
    return found


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
        """Pixels fit for training by default: valid, and no cloud, shadow, snow or saturation."""
        return without(self.quality, UNUSABLE)


def flag_attributes() -> dict[str, object]:
    """CF attributes that make the bits readable by other programs."""
    return {
        "flag_masks": [int(bit) for bit in Quality],
        "flag_meanings": " ".join(str(bit.name).lower() for bit in Quality),
    }
