"""Names of bands: one spelling of each, and bands found by name, never by place."""

import re
from collections.abc import Sequence


def canonical_band(name: str) -> str:
    """One spelling of a band's name: B2, b02 and B02 are the same band.

    >>> [canonical_band(name) for name in ("B2", "b8a", "B11", "nir")]
    ['B02', 'B8A', 'B11', 'nir']
    """
    match = re.fullmatch(r"[Bb]0*(\d{1,2})([Aa]?)", name.strip())
    if match is None:
        return name.strip()
    number, letter = match.groups()
    return f"B{number}{letter.upper()}" if letter else f"B{int(number):02d}"


def is_sentinel2(name: str) -> bool:
    """True for a band of Sentinel-2 in the one spelling of `canonical_band`.

    >>> is_sentinel2("B8A"), is_sentinel2("B2"), is_sentinel2("nir")
    (True, False, False)
    """
    return re.fullmatch(r"B\d\d|B8A", name) is not None


def places_of(wanted: Sequence[str], offered: Sequence[str], where: str) -> list[int]:
    """Where each wanted band stands among those offered; `where` names the source in the message.

    >>> places_of(["B02", "B8A"], ["B1", "B2", "B8A"], "unc.csv")
    [1, 2]
    >>> places_of(["B02", "B10"], ["B1", "B2"], "unc.csv")
    Traceback (most recent call last):
    ...
    ValueError: unc.csv has no band B10; it has B1, B2, and B02, B10 are needed.
    """
    names = [canonical_band(name) for name in offered]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{where} has band {', '.join(twice)} more than once; each needs a name of its own.")
    missing = [name for name in wanted if canonical_band(name) not in names]
    if missing:
        raise ValueError(
            f"{where} has no band {', '.join(missing)}; it has {', '.join(offered)}, "
            f"and {', '.join(wanted)} are needed."
        )
    return [names.index(canonical_band(name)) for name in wanted]
