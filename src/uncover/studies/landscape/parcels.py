"""Fields: farms as warped Voronoi cells, cut into fields by lines that follow the farm's own direction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.streams import stream
from uncover.engines.threads import in_order
from uncover.studies.landscape.fields import Field, smooth_field

DEPTH = 5  # cuts from a farm to its smallest field
LEAVES = 1 << DEPTH
STRIP = 128  # rows computed together: a few arrays of a strip stay in the cache


@dataclass(frozen=True)
class Cells:
    """A lattice of jittered seeds; each position belongs to the nearest one."""

    spacing: float
    seeds: NDArray[np.float32]  # (row, col, xy), with a margin of one cell around the ground

    @classmethod
    def over(cls, metres: float, spacing: float, rng: np.random.Generator) -> Cells:
        """Seeds for a square of ground and a margin."""
        n = int(np.ceil(metres / spacing)) + 4
        corner = (np.arange(n) - 2) * spacing
        grid = np.stack(np.meshgrid(corner, corner, indexing="xy"), axis=-1)
        return cls(spacing, (grid + spacing * rng.uniform(0.08, 0.92, grid.shape)).astype(np.float32))

    @property
    def count(self) -> int:
        """Number of seeds."""
        return self.seeds.shape[0] * self.seeds.shape[1]

    def nearest(self, x: Field, y: Field) -> NDArray[np.int32]:
        """Number of the nearest seed: the own cell and the eight around it are searched."""
        n = self.seeds.shape[0]
        row = np.clip(np.floor(y / self.spacing).astype(np.int32) + 2, 1, n - 2)
        col = np.clip(np.floor(x / self.spacing).astype(np.int32) + 2, 1, n - 2)
        flat_x, flat_y = self.seeds[..., 0].ravel(), self.seeds[..., 1].ravel()
        best = np.full(x.shape, np.inf, np.float32)
        found = np.zeros(x.shape, np.int32)
        for step in ((r, c) for r in (-1, 0, 1) for c in (-1, 0, 1)):
            candidate = (row + step[0]) * n + (col + step[1])
            distance = (flat_x[candidate] - x) ** 2 + (flat_y[candidate] - y) ** 2
            nearer = distance < best
            best[nearer] = distance[nearer]
            found[nearer] = candidate[nearer]
        return found


@dataclass(frozen=True)
class Cuts:
    """For each farm a binary tree of cutting lines: a·u + b·v > t goes to the second half."""

    a: Field  # (farm, node), nodes as in a heap
    b: Field
    t: Field

    @classmethod
    def draw(cls, farms: int, reach: float, field_hectares: NDArray[np.float64], seed: int) -> Cuts:
        """Cut the longer side, near its middle, nearly at a right angle, until fields are small enough."""
        rng = stream(seed, "landscape", "cuts")
        nodes = LEAVES - 1
        a, b = np.zeros((farms, nodes)), np.zeros((farms, nodes))
        t = np.full((farms, nodes), np.inf)
        low, high = np.zeros((farms, 2 * LEAVES, 2)), np.zeros((farms, 2 * LEAVES, 2))
        low[:, 0], high[:, 0] = -reach, reach
        for node in range(nodes):
            side = high[:, node] - low[:, node]
            axis = np.argmax(side, axis=1)
            farm = np.arange(farms)
            where = low[farm, node, axis] + side[farm, axis] * rng.uniform(0.35, 0.65, farms)
            tilt = np.radians(rng.normal(0, 5, farms))
            cut = side.prod(1) > 1e4 * field_hectares * rng.uniform(0.9, 2.2, farms)
            middle = (low[farm, node, 1 - axis] + high[farm, node, 1 - axis]) / 2
            normal = np.stack([np.cos(tilt), np.sin(tilt)])
            a[:, node] = np.where(axis == 0, normal[0], normal[1])
            b[:, node] = np.where(axis == 0, normal[1], normal[0])
            t[:, node] = np.where(cut, where * normal[0] + middle * normal[1], np.inf)
            for child, bound in ((2 * node + 1, high), (2 * node + 2, low)):
                low[:, child], high[:, child] = low[:, node], high[:, node]
                bound[farm, child, axis] = where
        return cls(*(part.astype(np.float32) for part in (a, b, t)))

    def leaf(self, farm: NDArray[np.int32], u: Field, v: Field) -> NDArray[np.int32]:
        """Number of the field within its farm, 0 to LEAVES - 1."""
        node = np.zeros(farm.shape, np.int32)
        first = farm * (LEAVES - 1)
        a, b, t = self.a.ravel(), self.b.ravel(), self.t.ravel()
        for _ in range(DEPTH):
            at = first + node
            node = 2 * node + 1 + (a[at] * u + b[at] * v > t[at])
        return node - (LEAVES - 1)


@dataclass(frozen=True)
class Parcels:
    """Farms and fields at every position: numbers from 0."""

    farm: NDArray[np.int32]  # (row, col)
    field: NDArray[np.int32]  # (row, col)
    count: int
    farms: int


def draw_parcels(points: int, metres: float, seed: int) -> Parcels:
    """Farms of about 50 ha, cut into fields of about 2 to 12 ha, on points × points positions."""
    spacing = min(720.0, metres / 2)
    farms = Cells.over(metres, spacing, stream(seed, "landscape", "farms"))
    rng = stream(seed, "landscape", "farm directions")
    angle = rng.uniform(0, np.pi, farms.count)
    hectares = np.exp(rng.normal(np.log(5.0), 0.4, farms.count))
    cuts = Cuts.draw(farms.count, 0.62 * spacing, hectares, seed)
    warp = [45 * smooth_field(stream(seed, "landscape", "warp", axis), points, metres, 420) for axis in "xy"]
    position = ((np.arange(points) + 0.5) * metres / points).astype(np.float32)
    farm = np.empty((points, points), np.int32)
    leaf = np.empty((points, points), np.int32)
    centre = farms.seeds.reshape(-1, 2)
    cosine, sine = (part.astype(np.float32) for part in (np.cos(angle), np.sin(angle)))

    def fill(top: int) -> None:
        rows = slice(top, top + STRIP)
        x, y = position + warp[0][rows], position[rows, None] + warp[1][rows]
        farm[rows] = mine = farms.nearest(x, y)
        x -= centre[mine, 0]
        y -= centre[mine, 1]
        u, v = x * cosine[mine] + y * sine[mine], y * cosine[mine] - x * sine[mine]
        leaf[rows] = cuts.leaf(mine, u, v)

    list(in_order(fill, range(0, points, STRIP)))
    return _numbered(farm, leaf, farms.count)


def _numbered(farm: NDArray[np.int32], leaf: NDArray[np.int32], farms: int) -> Parcels:
    """Numbers without gaps."""
    key = farm * LEAVES + leaf
    found = np.bincount(key.ravel(), minlength=farms * LEAVES) > 0
    number = np.cumsum(found, dtype=np.int32) - 1
    return Parcels(farm, number[key], int(found.sum()), farms)
