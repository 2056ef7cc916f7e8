"""Land cover maps of the years before, as an agency makes them: mostly right, and saying how sure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter
from scipy.special import expit, ndtr

from uncover.bayes.streams import stream
from uncover.studies.landscape.fields import Field, smooth_field, texture
from uncover.studies.landscape.kinds import CODE, KINDS, ukceh_codes

#: What a map takes one UKCEH class for where it is wrong, with equal chances.
MISTAKEN = {
    1: (2, 5, 21), 2: (1, 1, 5), 3: (4, 4, 5, 20), 4: (3, 3, 5, 21), 5: (4, 4, 8, 3, 1),
    8: (5, 5, 14), 14: (8, 2), 20: (21, 21, 3), 21: (20, 4, 1),
}  # fmt: skip
#: Log-odds of being right in the middle of a large field, by kind: fen and rough grass are hard, woods easy.
SURENESS = {
    "broadleaved trees": 2.25, "conifers": 2.45,
    "bare soil": 2.05, "winter cereals": 2.3, "oilseed rape": 2.45, "spring crops": 2.15,
    "root crops and maize": 2.05,
    "improved grass": 2.38, "rough grass": 1.78, "cut grass": 2.08,
    "fen": 1.0, "river": 2.0, "lake": 3.0,
    "roofs": 2.3, "asphalt and paving": 2.0, "gardens": 2.1, "building sites": 1.0,
}  # fmt: skip
LASTING, YEARLY, GRAIN = 0.75, 0.55, 0.35  # spread of the log-odds: of places, of a year's maps, of pixels
MIXED = 4.0  # log-odds lost where all the ground around is another class's


def lasting_sureness(size: int, seed: int) -> Field:
    """Log-odds, the same for all maps, that make a place easy or hard to map in every year."""
    rng = stream(seed, "landscape", "previous maps")
    return np.asarray(LASTING * smooth_field(rng, size, 10.0 * size, _patch(260, size)), np.float32)


def _patch(metres: float, size: int) -> float:
    """Size of patches that are easy or hard to map: less in small scenes, so that each has some of both."""
    return min(metres, 10.0 * size / 14)


def draw_map(
    kinds: NDArray[np.uint8], share: Field, lasting: Field, year: int, seed: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """UKCEH codes and percent of one year, from the kinds of that year and the share of each pixel's class.

    The percent are honest: a pixel that says 90 is wrong in one of ten cases, and mistakes come in patches.

    >>> kinds, share = np.full((200, 200), CODE["conifers"], np.uint8), np.ones((200, 200), np.float32)
    >>> codes, percent = draw_map(kinds, share, lasting_sureness(200, 0), 2018, seed=0)
    >>> bool(abs((codes == 2).mean() - percent.mean() / 100) < 0.03)
    True
    """
    size = len(kinds)
    rng = stream(seed, "landscape", "previous maps", year)
    odds = _sureness()[kinds] + lasting + YEARLY * smooth_field(rng, size, 10.0 * size, _patch(180, size))
    odds -= MIXED * (1 - uniform_filter(share, 3, mode="nearest"))
    odds += GRAIN * rng.standard_normal((size, size), dtype=np.float32)
    probability = expit(odds)
    # A field of patches, made uniform by its own distribution: wrong where it passes the probability.
    wrong = ndtr(texture(rng, size, 3.0, 0.8)) > probability
    codes = ukceh_codes()[kinds]
    right = codes.copy()
    luck = rng.integers(0, 60, (size, size), dtype=np.uint8)
    for code, others in MISTAKEN.items():
        mine = wrong & (right == code)
        codes[mine] = np.array(others, np.uint8)[luck[mine] % len(others)]
    return codes, np.clip(np.rint(100 * probability), 1, 100).astype(np.uint8)


def sure_map(kinds: NDArray[np.uint8], seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """A map without mistakes that is sure of one pixel in half of the squares of 20 m, whatever their class.

    One, because the pixels of a square share what bands of 20 m measured: two would count it twice.

    >>> _, percent = sure_map(np.full((100, 100), 11, np.uint8), seed=0)
    >>> bool(0.10 < (percent > 95).mean() < 0.15)
    True
    """
    rng = stream(seed, "landscape", "sure pixels")
    rows, cols = np.nonzero(rng.random((len(kinds) // 2, len(kinds) // 2)) < 0.5)
    percent = np.full(kinds.shape, 50, np.uint8)
    corner = rng.integers(0, 2, (2, len(rows)))
    percent[2 * rows + corner[0], 2 * cols + corner[1]] = 99
    return ukceh_codes()[kinds], percent


def write_map(
    path: Path, codes: NDArray[np.uint8], percent: NDArray[np.uint8], crs: str, origin: tuple[float, float]
) -> Path:
    """Band 1 the class, band 2 the percent, as UKCEH has them."""
    import rasterio
    from rasterio.transform import from_origin

    with rasterio.open(
        path, "w", driver="GTiff", width=codes.shape[1], height=codes.shape[0], count=2, dtype="uint8",
        crs=crs, transform=from_origin(*origin, 10, 10), nodata=0, tiled=True, blockxsize=512,
        blockysize=512, compress="deflate", zlevel=1,
    ) as dataset:  # fmt: skip
        dataset.write(codes, 1)
        dataset.write(percent, 2)
        dataset.descriptions = ("class", "probability in percent")
    return path


def _sureness() -> NDArray[np.float32]:
    table = np.zeros(256, np.float32)
    for kind in KINDS:
        table[CODE[kind.name]] = SURENESS[kind.name]
    return table
