"""Colours for classes that bring none of their own: told apart by eyes that confuse red and green, too."""

import colorsys

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


def _by_turn(i: int) -> str:
    hue, lightness = (i * _GOLDEN_ANGLE) % 1.0, _LIGHTNESS[i % len(_LIGHTNESS)]
    return "#" + "".join(f"{round(255 * v):02X}" for v in colorsys.hls_to_rgb(hue, lightness, 0.6))
