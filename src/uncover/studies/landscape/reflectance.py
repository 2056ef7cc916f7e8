"""Surface reflectance of every pixel: materials, kinds of ground at the two dates, and pixels that mix them.

No spectrum here was measured for this project, and none is copied from a data file: they are typical values,
to two or three digits, of the kind and level that the sources in docs/embedded-scene.md show.
Vegetation is that of a closed canopy seen from above, not of a leaf: leaves in libraries are brighter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from uncover.bayes.streams import stream
from uncover.engines.threads import in_order
from uncover.studies.landscape.fields import Field, texture
from uncover.studies.landscape.geography import FINE, Geography
from uncover.studies.landscape.kinds import CLASSES, CODE, class_codes
from uncover.studies.landscape.settlements import STRUCTURES

BANDS = ("B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B11", "B12")
#: Ground sampling of each band in metres.
METRES = dict.fromkeys(BANDS, 20) | dict.fromkeys(("B02", "B03", "B04", "B08"), 10)

#: Typical surface reflectance of materials; docs/embedded-scene.md names the source of each spectrum.
_SPECTRA = {
    #                       B02    B03    B04    B05    B06    B07    B08    B8A    B11    B12
    "broadleaf trees":    (0.024, 0.048, 0.025, 0.083, 0.265, 0.345, 0.365, 0.380, 0.190, 0.086),
    "conifers":           (0.018, 0.032, 0.018, 0.050, 0.130, 0.165, 0.175, 0.185, 0.090, 0.038),
    "green cereals":      (0.028, 0.060, 0.030, 0.095, 0.330, 0.430, 0.460, 0.475, 0.200, 0.095),
    "ripe cereals":       (0.065, 0.105, 0.135, 0.185, 0.250, 0.285, 0.310, 0.330, 0.320, 0.215),
    "rape in pod":        (0.040, 0.080, 0.050, 0.125, 0.300, 0.370, 0.400, 0.415, 0.220, 0.115),
    "rape in flower":     (0.045, 0.135, 0.115, 0.185, 0.310, 0.370, 0.400, 0.405, 0.220, 0.110),
    "broad-leaved crops": (0.030, 0.075, 0.035, 0.120, 0.390, 0.500, 0.530, 0.540, 0.240, 0.120),
    "improved grass":     (0.030, 0.065, 0.035, 0.110, 0.310, 0.390, 0.420, 0.430, 0.220, 0.110),
    "rough grass":        (0.045, 0.075, 0.070, 0.120, 0.220, 0.260, 0.285, 0.300, 0.260, 0.155),
    "cut grass":          (0.060, 0.095, 0.105, 0.155, 0.230, 0.260, 0.285, 0.300, 0.310, 0.210),
    "litter":             (0.040, 0.060, 0.070, 0.090, 0.140, 0.170, 0.200, 0.210, 0.240, 0.160),
    "reed and sedge":     (0.030, 0.055, 0.045, 0.085, 0.170, 0.205, 0.225, 0.235, 0.140, 0.068),
    "wet peat":           (0.030, 0.040, 0.050, 0.060, 0.070, 0.075, 0.080, 0.085, 0.060, 0.035),
    "lake water":         (0.030, 0.035, 0.022, 0.018, 0.014, 0.013, 0.011, 0.010, 0.006, 0.004),
    "river water":        (0.045, 0.060, 0.048, 0.040, 0.026, 0.025, 0.020, 0.018, 0.008, 0.005),
    "light soil":         (0.100, 0.140, 0.180, 0.205, 0.230, 0.250, 0.270, 0.285, 0.360, 0.310),
    "dark soil":          (0.050, 0.070, 0.090, 0.105, 0.125, 0.140, 0.150, 0.160, 0.210, 0.175),
    "tiles":              (0.065, 0.085, 0.135, 0.160, 0.180, 0.195, 0.205, 0.215, 0.245, 0.220),
    "slate":              (0.070, 0.078, 0.082, 0.087, 0.092, 0.097, 0.102, 0.105, 0.130, 0.120),
    "bright roofs":       (0.240, 0.265, 0.280, 0.290, 0.295, 0.300, 0.305, 0.305, 0.320, 0.290),
    "asphalt":            (0.075, 0.085, 0.093, 0.099, 0.106, 0.112, 0.117, 0.120, 0.150, 0.145),
    "concrete":           (0.150, 0.180, 0.205, 0.220, 0.235, 0.245, 0.250, 0.255, 0.295, 0.280),
}  # fmt: skip
MATERIALS = {name: np.array(values) for name, values in _SPECTRA.items()}  # (band,)

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


def draw_looks(
    land: Geography,
    kinds: NDArray[np.uint8],
    when: int | str,
    seed: int,
    stages: Mapping[str, Stage] | None = None,
) -> Looks:
    """Draw the look of every surface: each field has its lateness, cover, brightness and moisture.

    `when` is a year, whose stages are known, or names another date, with its `stages`.
    """
    stages = STAGES[int(when)] if stages is None else stages
    mean, modes = np.zeros((land.count, len(BANDS))), np.zeros((len(MODES), land.count, len(BANDS)))
    groups = {name: (kinds == CODE[name]) & (land.structure < 0) for name in stages if name in CODE}
    groups |= {name: land.structure == number for number, name in enumerate(STRUCTURES)}
    # Surfaces in towns are the same ones in both years: their stream has no year.
    for name, members in groups.items():
        stage = stages["improved grass"] if name == "parks" else {**STRUCTURE_STAGES, **stages}[name]
        rng = stream(seed, "landscape", "looks", name, *([] if name in STRUCTURE_STAGES else [when]))
        mean[members], modes[:, members] = _draw(stage, land.soil[members], rng)
    hedge, _ = _draw(stages["hedge"], land.soil, stream(seed, "landscape", "looks", "hedge"))
    hedged = np.concatenate([mean, (mean + hedge) / 2])
    return Looks(hedged.astype(np.float32), np.tile(modes, (1, 2, 1)).astype(np.float32))


def _draw(stage: Stage, soil: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Means (surface, band) and modes (mode, surface, band) of surfaces at one stage."""
    n = len(soil)
    late = rng.beta(*stage.lateness, n)[:, None]
    canopy = (1 - late) * MATERIALS[stage.early] + late * MATERIALS[stage.late]
    below = _soil(soil) if stage.below == SOIL else np.tile(MATERIALS[stage.below], (n, 1))
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
    return np.asarray(share * MATERIALS["light soil"] + (1 - share) * MATERIALS["dark soil"])


#: Range in pixels and share of the correlated part of each mode's variation within a field.
TEXTURES = {"cover": (4.0, 0.7), "brightness": (1.2, 0.45), "moisture": (7.0, 0.85)}
OWN = 0.012  # relative standard deviation of each band and pixel that no mode explains
#: The optics blur more than a pixel's own square does: a Gaussian of so many pixels on top (MTF about 0.25).
BLUR = 0.42
LOWEST = 0.0005


def render(
    land: Geography, looks: Looks, year: int, seed: int, when: int | str | None = None
) -> NDArray[np.float32]:
    """Reflectance (band, row, col) on the 10 m grid.

    Within fields it varies by patterns of the year, the same at all of its dates; `when` names the rest.
    """
    size = land.size
    fields = [_mode_field(mode, size, year, seed) for mode in MODES]
    image = np.empty((looks.mean.shape[1], size, size), np.float32)

    def fill(band: int) -> None:
        plane = image[band]
        plane[...] = _mixed(land.surface, looks.mean[:, band])
        for field, table in zip(fields, looks.modes, strict=True):
            plane += field * _mixed(land.surface, table[:, band])
        own = stream(seed, "landscape", "own", year if when is None else when, band).standard_normal(
            (size, size), dtype=np.float32
        )
        plane *= 1 + np.float32(OWN) * own
        gaussian_filter(plane, BLUR, output=plane, mode="nearest")
        np.maximum(plane, np.float32(LOWEST), out=plane)

    list(in_order(fill, range(len(image))))
    return image


def _mode_field(mode: str, size: int, year: int, seed: int) -> Field:
    return texture(stream(seed, "landscape", "texture", mode, year), size, *TEXTURES[mode])


def _mixed(surface: NDArray[np.uint16], table: NDArray[np.float32]) -> Field:
    """Mean over the positions of each pixel of what the table says of their surface."""
    total = np.take(table, surface[::FINE, ::FINE])
    for row in range(FINE):
        for col in range(FINE):
            if row or col:
                total += np.take(table, surface[row::FINE, col::FINE])
    total /= FINE * FINE
    return total


def majority(land: Geography, kinds: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8], Field]:
    """Class and kind that cover most of each pixel, and the share of the class; hedges count as their field.

    The kind is the most frequent one of the class that won. Ties go to the lower code.
    """
    by_index = np.concatenate([kinds, kinds])
    parts = [
        np.take(by_index, land.surface[row::FINE, col::FINE]) for row in range(FINE) for col in range(FINE)
    ]
    to_class = class_codes()
    kind, _ = _most([(code, parts) for code in np.unique(kinds)])
    groups = [np.take(to_class, part) for part in parts]
    best, count = _most([(code, groups) for code in np.unique(to_class[kinds])])
    # Where the most frequent kind belongs to another class, take any kind of the class that won.
    stray = to_class[kind] != best
    for part, group in zip(parts, groups, strict=True):
        use = stray & (group == best)
        kind[use] = part[use]
        stray &= ~use
    share = count.astype(np.float32)
    share /= len(parts)
    return best, kind, share


def _most(
    votes: list[tuple[np.uint8, list[NDArray[np.uint8]]]],
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    shape = votes[0][1][0].shape
    best, most = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
    for code, parts in votes:
        count = np.zeros(shape, np.uint8)
        for part in parts:
            count += part == code
        better = count > most
        best[better] = code
        np.maximum(most, count, out=most)
    return best, most


#: Mean and what spreads it: mixtures of materials per class, wide enough that the classes overlap.
MIXTURES = {
    "forest": ({"broadleaf trees": 0.6, "conifers": 0.4}, {"broadleaf trees": 0.22, "litter": 0.10}),
    "cropland": (
        {"green cereals": 0.45, "ripe cereals": 0.2, "light soil": 0.15, "dark soil": 0.2},
        {"green cereals": 0.30, "ripe cereals": 0.2, "light soil": 0.2},
    ),
    "grassland": ({"improved grass": 0.6, "rough grass": 0.4}, {"improved grass": 0.22, "rough grass": 0.18}),
    "settlements": (
        {"tiles": 0.25, "asphalt": 0.3, "improved grass": 0.35, "concrete": 0.1},
        {"tiles": 0.2, "concrete": 0.2, "improved grass": 0.25},
    ),
    "wetlands": ({"lake water": 0.6, "reed and sedge": 0.4}, {"lake water": 0.1, "reed and sedge": 0.1}),
}
GAUSSIAN_OWN = 0.15  # relative standard deviation of each band by itself


def class_gaussian(name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean (band,) and covariance (band, band) of a class: materials come and go, and each band varies."""
    shares, spreads = MIXTURES[name]
    mean = sum(share * MATERIALS[material] for material, share in shares.items())
    assert isinstance(mean, np.ndarray)
    covariance = np.diag((GAUSSIAN_OWN * mean) ** 2)
    for material, spread in spreads.items():
        direction = spread * (MATERIALS[material] - mean)
        covariance = covariance + np.outer(direction, direction)
    return mean, covariance


def pure_land(land: Geography) -> Geography:
    """The same land with one surface in every square of 20 m: no pixel of any band is mixed."""
    step = 2 * FINE
    whole = land.surface[: land.surface.shape[0] // step * step, : land.surface.shape[1] // step * step]
    corner = whole[::step, ::step] % land.count
    return replace(land, surface=np.repeat(np.repeat(corner, step, 0), step, 1).astype(np.uint16))


def gaussian_reflectance(classes: NDArray[np.uint8], year: int, seed: int) -> NDArray[np.float32]:
    """Reflectance (band, row, col) with exactly Gaussian classes.

    Bands of 20 m have one value in four pixels: it is drawn first, and the bands of 10 m given it, so that
    every pixel by itself follows its class.
    """
    coarse = np.array([METRES[band] == 20 for band in BANDS])
    squares = classes[::2, ::2]
    image = np.empty((len(BANDS), *classes.shape), np.float32)
    for name in MIXTURES:
        mean, covariance = class_gaussian(name)
        rng = stream(seed, "landscape", "gaussian", year, name)
        root = np.linalg.cholesky(covariance[np.ix_(coarse, coarse)])
        wide = rng.standard_normal((*squares.shape, int(coarse.sum()))) @ root.T
        gain = np.linalg.solve(covariance[np.ix_(coarse, coarse)], covariance[np.ix_(coarse, ~coarse)])
        rest = covariance[np.ix_(~coarse, ~coarse)] - covariance[np.ix_(~coarse, coarse)] @ gain
        fine = rng.standard_normal((*classes.shape, int((~coarse).sum()))) @ np.linalg.cholesky(rest).T
        wide = np.repeat(np.repeat(wide, 2, 0), 2, 1)
        here = classes == CLASSES.code_of(name)
        values = np.empty((*classes.shape, len(BANDS)))
        values[..., coarse], values[..., ~coarse] = wide, fine + wide @ gain
        image[:, here] = (values[here] + mean).T
    return image
