"""The kind of features: reflectance at the top of the atmosphere or at the surface, and how it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from uncover.warn import warn

Level = Literal["L1C", "L2A"]
#: None where nobody has said which it is.
Quantity = Literal["top-of-atmosphere reflectance", "surface reflectance"]

QUANTITY_OF: dict[str, Quantity] = {"L1C": "top-of-atmosphere reflectance", "L2A": "surface reflectance"}
#: The correction of Level-2A products, and the embedded one.
SEN2COR, EMBEDDED = "Sen2Cor", "look-up table of 6SV 1.1"


@dataclass(frozen=True)
class Features:
    """Meaning of the values of some bands; None where it is not stated.

    bands
        Names, in order.
    quantity
        Top-of-atmosphere or surface reflectance.
    level
        Processing level of the product that the values come from.
    correction
        The atmospheric correction that they went through.
    scales, offsets
        Of each band: value = scale · number + offset; empty where not known, or not the same in all sources.

    >>> Features.of_level(("B02", "B03"), "L1C").quantity
    'top-of-atmosphere reflectance'
    >>> print(Features.of_level(("B02",), None))
    reflectance, not stated whether at the top of the atmosphere or at the surface (--level)
    """

    bands: tuple[str, ...]
    quantity: Quantity | None = None
    level: Level | None = None
    correction: str | None = None
    scales: tuple[float, ...] = ()
    offsets: tuple[float, ...] = ()

    @classmethod
    def of_level(
        cls,
        bands: Sequence[str],
        level: Level | None,
        scales: Sequence[float] = (),
        offsets: Sequence[float] = (),
        correction: str | None = None,
    ) -> Features:
        """Values as a product of that level has them."""
        quantity = None if level is None else QUANTITY_OF[level]
        return cls(tuple(bands), quantity, level, correction, tuple(scales), tuple(offsets))

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Features:
        """From the record of a file."""
        plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in record.items()}
        return cls(**plain)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}

    def corrected(self, correction: str) -> Features:
        """The same values brought to the surface.

        >>> str(Features.of_level(("B02",), "L1C").corrected(EMBEDDED))
        'surface reflectance (L1C, look-up table of 6SV 1.1)'
        """
        return replace(self, quantity="surface reflectance", correction=correction)

    def chosen(self, bands: Sequence[str]) -> Features:
        """Some of the bands, or the same ones by other names."""
        places = [self.bands.index(band) for band in bands] if set(bands) <= set(self.bands) else None
        if places is None:
            return replace(self, bands=tuple(bands), scales=(), offsets=())
        scales, offsets = (tuple(v[i] for i in places) if v else () for v in (self.scales, self.offsets))
        return replace(self, bands=tuple(bands), scales=scales, offsets=offsets)

    def __str__(self) -> str:
        if self.quantity is None:
            return "reflectance, not stated whether at the top of the atmosphere or at the surface (--level)"
        made = ", ".join(part for part in (self.level, self.correction) if part)
        return f"{self.quantity} ({made})" if made else self.quantity


def common_features(kinds: Mapping[str, Features]) -> Features:
    """Features that samples of several sources, by name, share; refuse quantities that do not go together.

    >>> air, ground = Features.of_level(("B02",), "L1C"), Features.of_level(("B02",), "L2A")
    >>> common_features({"a.SAFE": air, "b.SAFE": ground})
    Traceback (most recent call last):
    ...
    ValueError: a.SAFE has top-of-atmosphere reflectance and b.SAFE surface reflectance; a model takes ...
    """
    stated = {name: kind for name, kind in kinds.items() if kind.quantity is not None}
    silent = [name for name in kinds if name not in stated]
    if not stated:
        return _joined(list(kinds.values()))
    first, example = next(iter(stated.items()))
    for name, kind in stated.items():
        if kind.quantity != example.quantity:
            raise ValueError(
                f"{first} has {example.quantity} and {name} {kind.quantity}; a model takes one of them: give "
                "--aod, which corrects Level-1C scenes to the surface, or fit to scenes of one level"
            )
    if silent:
        warn(
            f"{', '.join(silent)}: not stated whether at the top of the atmosphere or at the surface; taken "
            f"to be {example.quantity} as in {first} (--level L1C or L2A says what it is)",
        )
    corrections = sorted({kind.correction for kind in stated.values() if kind.correction})
    if len(corrections) > 1:
        warn(
            f"the scenes were corrected to the surface by {' and by '.join(corrections)}, which do not "
            "agree; fit to scenes of one correction if you can",
        )
    return _joined(list(stated.values()))


def _joined(kinds: list[Features]) -> Features:
    """The first, without what the others have otherwise."""
    first, rest = kinds[0], kinds[1:]
    same = {name: all(getattr(k, name) == getattr(first, name) for k in rest) for name in asdict(first)}
    corrections = sorted({kind.correction for kind in kinds if kind.correction})
    return replace(
        first,
        level=first.level if same["level"] else None,
        correction=" and ".join(corrections) or None,
        scales=first.scales if same["scales"] else (),
        offsets=first.offsets if same["offsets"] else (),
    )
