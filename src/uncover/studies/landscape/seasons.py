"""Several dates of one year: how the ground changes through it, and the clouds above.

Dates and stages are those of the books on crops of lowland England that docs/embedded-scene.md names: roughly
right to a week or two, and not measured anywhere.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.streams import stream
from uncover.studies.landscape.acquisition import Overpass
from uncover.studies.landscape.fields import Field, fractal_field
from uncover.studies.landscape.geography import PIXEL
from uncover.studies.landscape.reflectance import JUNE_2020, Stage

#: Month and day of the dates that there can be, and optical depth, water vapour (cm) and ozone (DU) of each.
DATES = (
    (3, 26, 0.10, 1.0, 380.0), (4, 20, 0.14, 1.3, 385.0), (5, 15, 0.11, 1.6, 370.0),
    (6, 14, 0.16, 2.3, 345.0), (7, 14, 0.13, 2.4, 330.0), (8, 8, 0.20, 2.7, 315.0),
    (9, 17, 0.12, 2.0, 295.0), (10, 12, 0.08, 1.4, 285.0),
)  # fmt: skip
FEWEST, MOST = 4, len(DATES)

_GREEN, _RIPE, _LEAVES = "green cereals", "ripe cereals", "broad-leaved crops"
_POD, _FLOWER, _IMPROVED, _ROUGH, _CUT = (
    "rape in pod", "rape in flower", "improved grass", "rough grass", "cut grass",
)  # fmt: skip
_TREES, _LITTER, _REED = "broadleaf trees", "litter", "reed and sedge"
_EARLY, _EVEN, _LATE = (1.0, 8.0), (0.9, 0.9), (6.0, 1.0)

#: Canopy of each kind at each date: between which two materials, how late fields are, and its cover.
_THROUGH_THE_YEAR: dict[str, tuple[tuple[str, str, tuple[float, float], float], ...]] = {
    "broadleaved trees": (
        (_LITTER, _TREES, _EARLY, 0.8), (_LITTER, _TREES, _EVEN, 0.85),
        (_TREES, _LITTER, _EARLY, 0.92), (_TREES, _TREES, _EVEN, 0.92),
        (_TREES, _TREES, _EVEN, 0.92), (_TREES, _TREES, _EVEN, 0.92),
        (_TREES, _ROUGH, _EARLY, 0.9), (_TREES, _LITTER, (1.2, 1.6), 0.88),
    ),
    "winter cereals": (
        (_GREEN, _RIPE, _EARLY, 0.4), (_GREEN, _RIPE, _EARLY, 0.75),
        (_GREEN, _RIPE, _EARLY, 0.93), (_GREEN, _RIPE, (1.0, 3.0), 0.93),
        (_RIPE, _GREEN, _EARLY, 0.93), (_RIPE, _RIPE, _EVEN, 0.5),
        (_RIPE, _IMPROVED, _EARLY, 0.15), (_GREEN, _RIPE, _EARLY, 0.12),
    ),
    "oilseed rape": (
        (_POD, _LEAVES, _EARLY, 0.6), (_FLOWER, _POD, _EARLY, 0.88),
        (_FLOWER, _POD, _EVEN, 0.93), (_POD, _FLOWER, _EARLY, 0.93),
        (_POD, _RIPE, _LATE, 0.93), (_RIPE, _RIPE, _EVEN, 0.3),
        (_POD, _LEAVES, _EARLY, 0.15), (_POD, _LEAVES, _EARLY, 0.45),
    ),
    "spring crops": (
        (_GREEN, _LEAVES, _EVEN, 0.03), (_GREEN, _LEAVES, _EVEN, 0.15),
        (_GREEN, _LEAVES, _EVEN, 0.5), (_GREEN, _LEAVES, _EVEN, 0.85),
        (_GREEN, _RIPE, _EVEN, 0.93), (_RIPE, _GREEN, _EARLY, 0.85),
        (_RIPE, _RIPE, _EVEN, 0.25), (_GREEN, _RIPE, _EARLY, 0.08),
    ),
    "root crops and maize": (
        (_GREEN, _LEAVES, _EVEN, 0.04), (_GREEN, _LEAVES, _EVEN, 0.03),
        (_LEAVES, _GREEN, _EVEN, 0.08), (_LEAVES, _GREEN, _EVEN, 0.35),
        (_LEAVES, _GREEN, _EVEN, 0.85), (_LEAVES, _GREEN, _EVEN, 0.95),
        (_LEAVES, _RIPE, _EARLY, 0.85), (_RIPE, _LEAVES, _EVEN, 0.3),
    ),
    "improved grass": (
        (_IMPROVED, _ROUGH, (2.0, 4.0), 0.85), (_IMPROVED, _ROUGH, _EARLY, 0.92),
        (_IMPROVED, _ROUGH, _EARLY, 0.95), (_IMPROVED, _ROUGH, _EARLY, 0.93),
        (_IMPROVED, _ROUGH, _EVEN, 0.9), (_IMPROVED, _ROUGH, _EVEN, 0.88),
        (_IMPROVED, _ROUGH, _EARLY, 0.92), (_IMPROVED, _ROUGH, _EARLY, 0.93),
    ),
    "rough grass": (
        (_LITTER, _ROUGH, (1.5, 1.0), 0.85), (_ROUGH, _LITTER, _EVEN, 0.85),
        (_ROUGH, _IMPROVED, _EVEN, 0.87), (_ROUGH, _IMPROVED, _EARLY, 0.87),
        (_ROUGH, _CUT, _EARLY, 0.85), (_ROUGH, _CUT, _EVEN, 0.83),
        (_ROUGH, _IMPROVED, _EARLY, 0.85), (_ROUGH, _LITTER, _EVEN, 0.85),
    ),
    "cut grass": (
        (_IMPROVED, _ROUGH, (2.0, 4.0), 0.85), (_IMPROVED, _ROUGH, _EARLY, 0.92),
        (_IMPROVED, _CUT, _EVEN, 0.93), (_CUT, _IMPROVED, _EARLY, 0.9),
        (_CUT, _IMPROVED, _EVEN, 0.9), (_IMPROVED, _CUT, _EVEN, 0.9),
        (_IMPROVED, _CUT, _EVEN, 0.9), (_IMPROVED, _ROUGH, _EARLY, 0.92),
    ),
    "fen": (
        (_LITTER, _REED, _EARLY, 0.6), (_LITTER, _REED, _EVEN, 0.65),
        (_REED, _LITTER, _EARLY, 0.75), (_REED, _ROUGH, _EARLY, 0.8),
        (_REED, _ROUGH, _EARLY, 0.82), (_REED, _ROUGH, _EARLY, 0.82),
        (_REED, _ROUGH, _EVEN, 0.8), (_REED, _LITTER, _EVEN, 0.7),
    ),
}  # fmt: skip


def stages_at(number: int) -> dict[str, Stage]:
    """Stage of every kind of ground at a date, by its number in `DATES`; others stay as in June.

    >>> stages_at(0)["root crops and maize"].cover, stages_at(5)["root crops and maize"].cover
    (0.04, 0.95)
    """
    found = dict(JUNE_2020)
    for kind, dates in _THROUGH_THE_YEAR.items():
        early, late, lateness, cover = dates[number]
        found[kind] = replace(found[kind], early=early, late=late, lateness=lateness, cover=cover)
    trees = found["broadleaved trees"]
    found["hedge"] = replace(found["hedge"], early=trees.early, late=trees.late, lateness=trees.lateness)
    return found


def season_numbers(count: int) -> list[int]:
    """Numbers of so many dates, spread over the year.

    >>> season_numbers(4)
    [0, 2, 5, 7]
    """
    return [int(number) for number in np.linspace(0, MOST - 1, count).round()]


def overpass_at(number: int, year: int) -> Overpass:
    """The overpass of a date: of two satellites in turn, from two orbits."""
    month, day, aod, vapour, ozone = DATES[number]
    first = number % 2 == 0
    return Overpass(
        platform="S2A" if first else "S2B",
        time=datetime(year, month, day, 11 if first else 10, 6 if first else 56, 31, tzinfo=UTC),
        orbit=137 if first else 94,
        absolute=26000 + 100 * number,
        baseline="02.09",
        view_zenith=3.1 if first else 8.4,
        view_azimuth=286.0 if first else 106.0,
        reported_aod=aod,
        water_vapour=vapour,
        ozone=ozone,
        in_series=True,
    )


#: Shares of the dates' clouds, relative to their mean: some days are clear, others hidden.
_CLOUDINESS = (0.9, 0.5, 1.4, 0.7, 1.1, 0.4, 1.3, 1.7)
#: Reflectance of a thick cloud, in the order of the bands; and what a shadow leaves of the light.
_CLOUD = np.array([0.62, 0.60, 0.60, 0.60, 0.60, 0.60, 0.60, 0.60, 0.42, 0.34])
_SHADE = np.array([0.55, 0.5, 0.45, 0.42, 0.4, 0.4, 0.38, 0.38, 0.35, 0.35])
_THICKNESS = 0.35  # of the field of a cloud, from its edge to where the ground is hidden
_HEIGHT = 400.0  # metres, of the clouds above the ground
#: Codes of Sen2Cor's scene classification.
CLEAR, SHADOW, CLOUD = 4, 3, 9


def cover_with_clouds(
    surface: NDArray[np.float32],
    overpass: Overpass,
    number: int,
    share: float,
    seed: int,
    sun: tuple[float, float],
) -> NDArray[np.uint8]:
    """Put clouds and their shadows onto a surface (band, row, col), and return where, as SCL says it.

    `share` is the mean over all dates; `sun` its zenith and azimuth in degrees. What is thinner than a half
    is not in the mask: masks miss the edges of clouds.
    """
    size = surface.shape[1]
    mine = min(share * _CLOUDINESS[number], 0.98)
    codes = np.full((size, size), CLEAR, np.uint8)
    if mine <= 0:
        return codes
    rng = stream(seed, "landscape", "clouds", overpass.name)
    field = fractal_field(rng, size, PIXEL * size, min(1500.0, PIXEL * size / 3), 4)
    opacity = np.clip((field - np.quantile(field, 1 - mine)) / _THICKNESS + 0.5, 0, 1).astype(np.float32)
    shade = _cast(opacity, sun)
    for band in range(len(surface)):
        lit = surface[band] * (1 - shade * np.float32(1 - _SHADE[band]))
        surface[band] = lit * (1 - opacity) + opacity * np.float32(_CLOUD[band])
    codes[shade > 0.5] = SHADOW
    codes[opacity > 0.5] = CLOUD
    return codes


def _cast(opacity: Field, sun: tuple[float, float]) -> Field:
    """The shadow of clouds, in whole pixels; those beyond an edge are taken to be those at the other one."""
    away = _HEIGHT * np.tan(np.radians(sun[0])) / PIXEL
    down, across = away * np.cos(np.radians(sun[1])), -away * np.sin(np.radians(sun[1]))
    return np.roll(opacity, (round(float(down)), round(float(across))), axis=(0, 1))
