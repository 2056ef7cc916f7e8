"""Random fields on a square of ground, from named streams: smooth ones, textures, and hashes of cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

Field = NDArray[np.float32]


def smooth_field(rng: np.random.Generator, points: int, metres: float, scale: float) -> Field:
    """A smooth field of mean 0 and variance 1 on points × points positions across `metres` of ground.

    White noise on a lattice of spacing `scale`, interpolated by cubic B-splines along both axes.

    >>> field = smooth_field(np.random.default_rng(0), 200, 20_000, 500)
    >>> bool(abs(field.std() - 1) < 0.1), bool(np.abs(np.diff(field, axis=0)).max() < 1)
    (True, True)
    """
    nodes = int(np.ceil(metres / scale)) + 4
    weights = _b_spline(np.linspace(0, metres / scale, points, endpoint=False), nodes)
    field = weights @ rng.standard_normal((nodes, nodes)).astype(np.float32) @ weights.T
    # Each weight vector has its own norm: divided out, every position has variance one.
    norm = np.sqrt((weights**2).sum(1))
    field /= norm[:, None]
    field /= norm[None, :]
    return field


def fractal_field(rng: np.random.Generator, points: int, metres: float, scale: float, octaves: int) -> Field:
    """Smooth fields of ever smaller scale and weight added up, variance 1: hills, soils, ragged edges.

    >>> fractal_field(np.random.default_rng(0), 50, 5000, 2000, 3).shape
    (50, 50)
    """
    weights = 0.5 ** np.arange(octaves)
    total = np.zeros((points, points), np.float32)
    for octave, weight in enumerate(weights / np.sqrt((weights**2).sum())):
        total += np.float32(weight) * smooth_field(rng, points, metres, scale / 2**octave)
    return total


def texture(rng: np.random.Generator, size: int, pixels: float, share: float) -> Field:
    """Variance 1 from pixel to pixel: a `share` of it correlated over some pixels, the rest white.

    >>> bool(abs(texture(np.random.default_rng(0), 300, 2.0, 0.6).var() - 1) < 0.1)
    True
    """
    correlated = gaussian_filter(rng.standard_normal((size, size), dtype=np.float32), pixels, mode="wrap")
    correlated *= np.float32(np.sqrt(share) * 2 * pixels * np.sqrt(np.pi))
    correlated += np.float32(np.sqrt(1 - share)) * rng.standard_normal((size, size), dtype=np.float32)
    return correlated


def cell_hash(seed: int, *cells: NDArray[np.int64]) -> NDArray[np.uint32]:
    """A number per cell that depends on the cell's coordinates alone, evenly spread over 32 bits.

    >>> cell_hash(1, np.array([3, 3]), np.array([4, 5])).tolist() == cell_hash(1, np.array([3]),
    ...     np.array([4])).tolist() * 2
    False
    """
    mixed = np.full(np.broadcast_shapes(*(c.shape for c in cells)), seed & 0xFFFFFFFF, np.uint32)
    for cell in cells:
        mixed = (mixed ^ cell.astype(np.uint32)) * np.uint32(0x9E3779B1)
        mixed ^= mixed >> np.uint32(15)
        mixed *= np.uint32(0x85EBCA6B)
        mixed ^= mixed >> np.uint32(13)
    return mixed


def _b_spline(position: NDArray[np.float64], nodes: int) -> Field:
    """Weights of the cubic B-spline at each position, (position, node); node 0 lies at -1."""
    weights = np.zeros((len(position), nodes), np.float32)
    whole = np.floor(position).astype(int)
    t = position - whole
    parts = ((1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3)
    for offset, part in enumerate(parts):
        weights[np.arange(len(position)), whole + offset] = part / 6
    return weights
