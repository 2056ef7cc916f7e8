"""Land use of each place and year: crops rotate, meadows are mown, a little land changes its use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.streams import stream
from uncover.studies.landscape.geography import Geography
from uncover.studies.landscape.kinds import CODE, CROPS

MAPPED = (2020, 2021)
YEARS = (2017, 2018, 2019, 2020, 2021)

#: Usual rotations of lowland England; each field has one, and starts somewhere in it.
ROTATIONS = (
    ("winter cereals", "oilseed rape", "winter cereals", "spring crops"),
    ("winter cereals", "winter cereals", "oilseed rape", "winter cereals"),
    ("winter cereals", "root crops and maize", "spring crops", "winter cereals"),
    ("winter cereals", "spring crops", "bare soil", "winter cereals"),
    ("root crops and maize", "root crops and maize", "winter cereals", "spring crops"),
)
ROTATION_SHARES = (0.38, 0.24, 0.18, 0.12, 0.08)
MOWN = 0.22  # share of improved grass that was cut in the weeks before
#: Share of the fields that change their class from one year to the next.
PLOUGHED, SOWN, BUILT = 0.004, 0.004, 0.02  # grass to crop, crop to grass, fields at a town's edge to houses


@dataclass(frozen=True)
class History:
    """Kind of ground of every surface in every year."""

    kinds: NDArray[np.uint8]  # (year, surface)

    def of(self, year: int) -> NDArray[np.uint8]:
        """Kinds in one year, (surface,)."""
        return np.asarray(self.kinds[YEARS.index(year)])


def draw_history(land: Geography, seed: int, *, change: bool = True) -> History:
    """Five years of the land; without `change` every field keeps its class, though not its crop.

    >>> from uncover.studies.landscape.geography import draw_geography
    >>> from uncover.studies.landscape.kinds import class_codes
    >>> history = draw_history(draw_geography(200, seed=0), seed=0, change=False)
    >>> classes = class_codes()[history.kinds]
    >>> bool((classes == classes[0]).all()), bool((history.of(2020) != history.of(2021)).any())
    (True, True)
    """
    base = land.kind.copy()
    rng = stream(seed, "landscape", "rotation")
    rotation = rng.choice(len(ROTATIONS), size=land.count, p=ROTATION_SHARES)
    start = rng.integers(0, 4, land.count)
    crops = np.array([[CODE[name] for name in names] for names in ROTATIONS], np.uint8)
    rows = []
    for number, year in enumerate(YEARS):
        if change and number:
            base = _changed(base, land, stream(seed, "landscape", "change", year))
        kinds = base.copy()
        arable = np.isin(base, CROPS)
        kinds[arable] = crops[rotation, (start + number) % 4][arable]
        mown = stream(seed, "landscape", "mowing", year).random(land.count) < MOWN
        kinds[land.farmed & (base == CODE["improved grass"]) & mown] = CODE["cut grass"]
        rows.append(kinds)
    return History(np.stack(rows))


def _changed(base: NDArray[np.uint8], land: Geography, rng: np.random.Generator) -> NDArray[np.uint8]:
    chance = rng.random(land.count)
    arable = np.isin(base, CROPS)
    grass = land.farmed & (base == CODE["improved grass"])
    after = base.copy()
    after[grass & (chance < PLOUGHED)] = CODE["winter cereals"]
    after[arable & (chance < SOWN)] = CODE["improved grass"]
    after[land.near_town & (grass | arable) & (chance > 1 - BUILT)] = CODE["building sites"]
    return after
