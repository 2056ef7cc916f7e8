"""Colours for classes that bring none of their own: told apart by eyes that confuse red and green, too."""

import colorsys
import re
from collections.abc import Sequence

# Paul Tol's "muted" scheme (SRON technical note SRON/EPS/TN/09-002), made for colour-blind readers.
MUTED = ("#CC6677", "#332288", "#DDCC77", "#117733", "#88CCEE", "#882255", "#44AA99", "#999933", "#AA4499")
_GOLDEN_ANGLE = 0.381966  # of a full turn: successive hues never cluster
_LIGHTNESS = (0.35, 0.75, 0.55, 0.85)


def distinct(count: int) -> tuple[str, ...]:
    """Return `count` colours: up to nine are safe for colour-blind readers, more differ by hue and lightness.

    >>> distinct(2)
    ('#CC6677', '#332288')
    >>> len(set(distinct(60)))
    60
    """
    if count <= len(MUTED):
        return MUTED[:count]
    return MUTED + tuple(_by_turn(i) for i in range(count - len(MUTED)))


#: Words in names of classes, and the colour of MUTED that people expect; the first that fits counts.
_NATURAL = {
    "water": "#332288", "river": "#332288", "lake": "#332288", "sea": "#332288", "ocean": "#332288",
    "forest": "#117733", "wood": "#117733", "tree": "#117733", "vegetation": "#117733",
    "wetland": "#44AA99", "marsh": "#44AA99",
    "grass": "#999933", "shrub": "#999933", "crop": "#DDCC77", "cultivated": "#DDCC77", "arable": "#DDCC77",
    "urban": "#CC6677", "village": "#CC6677", "settlement": "#CC6677", "artificial": "#CC6677",
    "built": "#CC6677", "snow": "#88CCEE", "ice": "#88CCEE",
}  # fmt: skip


def natural(names: Sequence[str], taken: Sequence[str] = ()) -> tuple[str, ...]:
    """Colours for named classes: water is blue and forest green where the name says so; all differ.

    None is one of those `taken`.

    >>> natural(["dryout", "forest", "water"])
    ('#CC6677', '#117733', '#332288')
    >>> natural(["Non-forest", "forest"])
    ('#CC6677', '#117733')
    """
    chosen: list[str | None] = [None] * len(names)
    gone = {colour.upper() for colour in taken}
    for i, name in enumerate(names):
        words = re.findall(r"[a-z]+", name.lower())
        fits = [colour for word, colour in _NATURAL.items() if any(w.startswith(word) for w in words)]
        fits *= not {"no", "non", "not"} & set(words)
        chosen[i] = next((colour for colour in fits if colour not in chosen and colour not in gone), None)
    every = distinct(2 * len(names) + len(MUTED) + len(gone))
    rest = (colour for colour in every if colour not in chosen and colour not in gone)
    return tuple(next(rest) if colour is None else colour for colour in chosen)


def _by_turn(i: int) -> str:
    hue, lightness = (i * _GOLDEN_ANGLE) % 1.0, _LIGHTNESS[i % len(_LIGHTNESS)]
    return "#" + "".join(f"{round(255 * v):02X}" for v in colorsys.hls_to_rgb(hue, lightness, 0.6))
