"""Surface reflectance of every pixel: surfaces mixed within it, varied, blurred by the optics."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from uncover.bayes.streams import stream
from uncover.studies.landscape.fields import Field, texture
from uncover.studies.landscape.geography import FINE, Geography
from uncover.studies.landscape.kinds import class_codes
from uncover.studies.landscape.stages import MODES, Looks

#: Range in pixels and share of the correlated part of each mode's variation within a field.
TEXTURES = {"cover": (4.0, 0.7), "brightness": (1.2, 0.45), "moisture": (7.0, 0.85)}
OWN = 0.012  # relative standard deviation of each band and pixel that no mode explains
#: The optics blur more than a pixel's own square does: a Gaussian of so many pixels on top (MTF about 0.25).
BLUR = 0.42
LOWEST = 0.0005


def render(land: Geography, looks: Looks, year: int, seed: int) -> NDArray[np.float32]:
    """Reflectance (band, row, col) on the 10 m grid."""
    size = land.size
    fields = [_mode_field(mode, size, year, seed) for mode in MODES]
    image = np.empty((looks.mean.shape[1], size, size), np.float32)

    def fill(band: int) -> None:
        plane = image[band]
        plane[...] = _mixed(land.surface, looks.mean[:, band])
        for field, table in zip(fields, looks.modes, strict=True):
            plane += field * _mixed(land.surface, table[:, band])
        own = stream(seed, "landscape", "own", year, band).standard_normal((size, size), dtype=np.float32)
        plane *= 1 + np.float32(OWN) * own
        gaussian_filter(plane, BLUR, output=plane, mode="nearest")
        np.maximum(plane, np.float32(LOWEST), out=plane)

    with ThreadPoolExecutor() as pool:
        list(pool.map(fill, range(len(image))))
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
