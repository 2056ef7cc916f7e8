"""Appearance of each kind of ground at the two dates: canopy, what is below it, and how both vary."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.streams import stream
from uncover.studies.landscape.geography import Geography
from uncover.studies.landscape.kinds import CODE
from uncover.studies.landscape.settlements import STRUCTURES
from uncover.studies.landscape.spectra import BANDS, MATERIALS

Floats = NDArray[np.float64]

SOIL = "soil"  # stands for the field's own soil, between the dark and the light one
MODES = ("cover", "brightness", "moisture")
#: What water in leaves and soil does to a spectrum, relative to it: most in the shortwave infrared.
MOISTURE = -np.array([0.25, 0.25, 0.3, 0.3, 0.2, 0.2, 0.2, 0.25, 0.8, 1.0])


@dataclass(frozen=True)
class Stage:
    """A kind of ground at a date: canopy over background.

    The canopy lies between `early` and `late`; how far is drawn for each field from a beta distribution (both
    parameters below one: fields are either or). `cover` is the share of the ground that the canopy hides. The
    spreads are standard deviations, between fields and within: of the cover, of the brightness (relative), of
    the moisture.
    """

    early: str
    late: str
    lateness: tuple[float, float]
    below: str
    cover: float
    between: tuple[float, float, float]
    within: tuple[float, float, float]


def _crop(early: str, late: str, lateness: tuple[float, float], cover: float) -> Stage:
    return Stage(early, late, lateness, SOIL, cover, (0.06, 0.05, 0.12), (0.05, 0.035, 0.06))


#: 24 June 2020, after the sunniest spring on record: barley turns, rape is in pod, meadows are dry.
JUNE_2020 = {
    "broadleaved trees": Stage(
        "broadleaf trees", "broadleaf trees", (1, 1), "litter", 0.92, (0.05, 0.09, 0.08), (0.05, 0.11, 0.05)
    ),
    "conifers": Stage("conifers", "conifers", (1, 1), "litter", 0.9, (0.07, 0.1, 0.08), (0.06, 0.13, 0.05)),
    "bare soil": Stage(
        "improved grass", "rough grass", (1, 1), SOIL, 0.06, (0.05, 0.08, 0.2), (0.04, 0.04, 0.1)
    ),
    "winter cereals": _crop("green cereals", "ripe cereals", (0.55, 1.1), 0.93),
    "oilseed rape": _crop("rape in pod", "ripe cereals", (1.2, 6), 0.93),
    "spring crops": _crop("green cereals", "broad-leaved crops", (0.5, 0.8), 0.85),
    "root crops and maize": _crop("broad-leaved crops", "green cereals", (0.7, 1.2), 0.5),
    "improved grass": Stage(
        "improved grass", "rough grass", (1.3, 4.5), SOIL, 0.92, (0.05, 0.06, 0.1), (0.05, 0.04, 0.06)
    ),
    "rough grass": Stage(
        "rough grass", "improved grass", (1.2, 3), "cut grass", 0.85, (0.1, 0.08, 0.12), (0.08, 0.06, 0.07)
    ),
    "cut grass": Stage(
        "cut grass", "improved grass", (0.9, 1.4), SOIL, 0.88, (0.07, 0.08, 0.12), (0.05, 0.05, 0.06)
    ),
    "fen": Stage(
        "reed and sedge", "rough grass", (1.2, 6), "wet peat", 0.8, (0.08, 0.08, 0.15), (0.1, 0.08, 0.08)
    ),
    "river": Stage(
        "river water", "lake water", (1.5, 4), "wet peat", 0.99, (0.005, 0.1, 0.05), (0.004, 0.05, 0.02)
    ),
    "lake": Stage(
        "lake water", "river water", (1.5, 4), "wet peat", 0.995, (0.004, 0.12, 0.05), (0.003, 0.05, 0.02)
    ),
    "building sites": Stage(
        "light soil", "concrete", (0.7, 0.9), "dark soil", 0.55, (0.15, 0.1, 0.1), (0.18, 0.1, 0.08)
    ),
    "hedge": Stage("broadleaf trees", "rough grass", (2, 3), "rough grass", 0.8, (0.1, 0.1, 0.1), (0, 0, 0)),
}
#: 31 May 2021, after a cold April and a wet May: cereals are green, rape still flowers, roots just emerge.
MAY_2021 = JUNE_2020 | {
    "winter cereals": _crop("green cereals", "ripe cereals", (1.0, 16), 0.92),
    "oilseed rape": _crop("rape in flower", "rape in pod", (0.8, 0.9), 0.92),
    "spring crops": _crop("green cereals", "broad-leaved crops", (0.5, 0.8), 0.6),
    "root crops and maize": _crop("broad-leaved crops", "green cereals", (0.7, 1.2), 0.15),
    "improved grass": replace(JUNE_2020["improved grass"], lateness=(1.0, 9.0), cover=0.95),
    "rough grass": replace(JUNE_2020["rough grass"], lateness=(1.6, 2.4)),
    "cut grass": replace(JUNE_2020["cut grass"], lateness=(1.1, 1.1)),
}
STAGES = {2020: JUNE_2020, 2021: MAY_2021}
#: Structures in settlements look the same in both years; gardens and parks follow the grass.
STRUCTURE_STAGES = {
    "tiles": Stage("tiles", "tiles", (1, 1), "slate", 0.88, (0.08, 0.14, 0.03), (0.06, 0.07, 0.02)),
    "slate": Stage("slate", "tiles", (1, 8), "asphalt", 0.88, (0.06, 0.16, 0.03), (0.05, 0.07, 0.02)),
    "bright roofs": Stage(
        "bright roofs", "slate", (0.8, 1.4), "asphalt", 0.85, (0.08, 0.15, 0.03), (0.05, 0.07, 0.02)
    ),
    "asphalt": Stage(
        "asphalt", "concrete", (1, 7), "rough grass", 0.85, (0.05, 0.12, 0.03), (0.06, 0.06, 0.02)
    ),
    "concrete": Stage(
        "concrete", "asphalt", (1, 2), "improved grass", 0.85, (0.08, 0.12, 0.03), (0.06, 0.06, 0.02)
    ),
    "gardens": Stage(
        "improved grass", "broadleaf trees", (0.8, 1.0), "concrete", 0.8, (0.1, 0.1, 0.08), (0.08, 0.08, 0.05)
    ),
}


@dataclass(frozen=True)
class Looks:
    """Mean spectrum of every surface, and what one unit of each mode adds to it within the surface."""

    mean: NDArray[np.float32]  # (index, band); index counts surfaces, then the same with a hedge
    modes: NDArray[np.float32]  # (mode, index, band)


def draw_looks(land: Geography, kinds: NDArray[np.uint8], year: int, seed: int) -> Looks:
    """Draw the look of every surface in a year: each field has its lateness, cover, brightness, moisture.

    >>> from uncover.studies.landscape.geography import draw_geography
    >>> land = draw_geography(100, seed=0)
    >>> looks = draw_looks(land, land.kind, 2020, seed=0)
    >>> looks.mean.shape == (2 * land.count, 10), bool((looks.mean > 0).all())
    (True, True)
    """
    stages = STAGES[year]
    mean, modes = np.zeros((land.count, len(BANDS))), np.zeros((len(MODES), land.count, len(BANDS)))
    groups = {name: (kinds == CODE[name]) & (land.structure < 0) for name in stages if name in CODE}
    groups |= {name: land.structure == number for number, name in enumerate(STRUCTURES)}
    # Surfaces in towns are the same ones in both years: their stream has no year.
    for name, members in groups.items():
        stage = stages["improved grass"] if name == "parks" else (STRUCTURE_STAGES | stages)[name]
        rng = stream(seed, "landscape", "looks", name, *([] if name in STRUCTURE_STAGES else [year]))
        mean[members], modes[:, members] = _draw(stage, land.soil[members], rng)
    hedge, _ = _draw(stages["hedge"], land.soil, stream(seed, "landscape", "looks", "hedge"))
    hedged = np.concatenate([mean, (mean + hedge) / 2])
    return Looks(hedged.astype(np.float32), np.tile(modes, (1, 2, 1)).astype(np.float32))


def _draw(stage: Stage, soil: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Means (surface, band) and modes (mode, surface, band) of surfaces at one stage."""
    n = len(soil)
    late = rng.beta(*stage.lateness, n)[:, None]
    canopy = (1 - late) * MATERIALS[stage.early].values + late * MATERIALS[stage.late].values
    below = _soil(soil) if stage.below == SOIL else np.tile(MATERIALS[stage.below].values, (n, 1))
    spread = rng.standard_normal((3, n, 1)) * np.array(stage.between)[:, None, None]
    cover = np.clip(stage.cover + spread[0], 0.0, 1.0)
    mixed = cover * canopy + (1 - cover) * below
    mean = mixed * np.exp(spread[1]) * np.exp(spread[2] * MOISTURE)
    own = np.exp(0.02 * rng.standard_normal(mean.shape))  # what no mode explains
    mean = np.clip(mean * own, 0.001, 0.95)
    within = np.array(stage.within)
    return mean, np.stack([within[0] * (canopy - below), within[1] * mean, within[2] * mean * MOISTURE])


def _soil(position: Floats) -> Floats:
    share = position[:, None]
    return np.asarray(share * MATERIALS["light soil"].values + (1 - share) * MATERIALS["dark soil"].values)
