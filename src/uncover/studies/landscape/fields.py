"""On a square of ground: random fields from named streams, hashes of cells, and drawn shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

Field = NDArray[np.float32]


def smooth_field(rng: np.random.Generator, points: int, metres: float, scale: float) -> Field:
    """A smooth field of mean 0 and variance 1 on points × points positions across `metres` of ground.

    White noise on a lattice of spacing `scale`, interpolated by cubic B-splines along both axes.
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
    """Smooth fields of ever smaller scale and weight added up, variance 1: hills, soils, ragged edges."""
    weights = 0.5 ** np.arange(octaves)
    total = np.zeros((points, points), np.float32)
    for octave, weight in enumerate(weights / np.sqrt((weights**2).sum())):
        total += np.float32(weight) * smooth_field(rng, points, metres, scale / 2**octave)
    return total


def texture(rng: np.random.Generator, size: int, pixels: float, share: float) -> Field:
    """Variance 1 from pixel to pixel: a `share` of it correlated over some pixels, the rest white."""
    correlated = gaussian_filter(rng.standard_normal((size, size), dtype=np.float32), pixels, mode="wrap")
    correlated *= np.float32(np.sqrt(share) * 2 * pixels * np.sqrt(np.pi))
    correlated += np.float32(np.sqrt(1 - share)) * rng.standard_normal((size, size), dtype=np.float32)
    return correlated


def cell_hash(seed: int, *cells: NDArray[np.int64]) -> NDArray[np.uint32]:
    """A number per cell that depends on the cell's coordinates alone, evenly spread over 32 bits."""
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


@dataclass(frozen=True)
class Canvas:
    """A square of ground: points × points positions on so many metres, y down from the north edge."""

    points: int
    metres: float

    @property
    def step(self) -> float:
        """Metres between positions."""
        return self.metres / self.points

    @property
    def axis(self) -> Field:
        """Position of each row or column in metres."""
        return ((np.arange(self.points) + 0.5) * self.step).astype(np.float32)

    def paint(self, shapes: Sequence[Any]) -> NDArray[np.bool_]:
        """Positions whose centre lies in any of the shapes."""
        from rasterio.features import rasterize
        from rasterio.transform import Affine

        if not shapes:
            return np.zeros((self.points, self.points), bool)
        size = (self.points, self.points)
        step = Affine(self.step, 0, 0, 0, self.step, 0)
        return np.asarray(rasterize(shapes, size, transform=step, dtype="uint8") > 0)


def ribbon(line: NDArray[np.float64], width: float) -> Any:
    """The ground within half a width of a line."""
    import shapely

    return shapely.LineString(line).buffer(width / 2, quad_segs=3)


def edges(numbers: NDArray[Any]) -> NDArray[np.bool_]:
    """Positions whose right or lower neighbour has another number: edges of one position's width."""
    found = np.zeros(numbers.shape, bool)
    found[:, :-1] = numbers[:, :-1] != numbers[:, 1:]
    found[:-1] |= numbers[:-1] != numbers[1:]
    return found


def enlarge(coarse: Field, factor: int, points: int) -> Field:
    """Bilinear interpolation of a coarse field to points × points."""
    position = np.minimum(np.arange(points) / factor, coarse.shape[0] - 1)
    low = np.minimum(position.astype(int), coarse.shape[0] - 2)
    t = (position - low).astype(np.float32)
    rows = coarse[low] * (1 - t[:, None]) + coarse[low + 1] * t[:, None]
    return np.asarray(rows[:, low] * (1 - t) + rows[:, low + 1] * t)
