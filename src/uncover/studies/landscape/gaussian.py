"""The well-specified scene: every pixel is of one class, and the spectra of a class are Gaussian."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.streams import stream
from uncover.studies.landscape.geography import FINE, Geography
from uncover.studies.landscape.kinds import CLASSES
from uncover.studies.landscape.spectra import BANDS, MATERIALS, METRES

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
OWN = 0.15  # relative standard deviation of each band by itself


def class_gaussian(name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean (band,) and covariance (band, band) of a class: materials come and go, and each band varies.

    >>> mean, covariance = class_gaussian("forest")
    >>> bool(np.linalg.eigvalsh(covariance).min() > 0)
    True
    """
    shares, spreads = MIXTURES[name]
    mean = sum(share * MATERIALS[material].values for material, share in shares.items())
    assert isinstance(mean, np.ndarray)
    covariance = np.diag((OWN * mean) ** 2)
    for material, spread in spreads.items():
        direction = spread * (MATERIALS[material].values - mean)
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
