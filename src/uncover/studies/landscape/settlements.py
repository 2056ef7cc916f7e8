"""Towns, villages and the roads between them: where they are, and what stands on each position within."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import minimum_spanning_tree

from uncover.bayes.streams import stream
from uncover.studies.landscape.fields import Canvas, cell_hash, edges, fractal_field, ribbon
from uncover.studies.landscape.parcels import Cells

SHARE = 0.075  # of the ground, without the roads outside
BLOCK = 115.0  # metres between streets
#: Plots within a block: frontage and depth in metres.
PLOT = (11.0, 38.0)


@dataclass(frozen=True)
class Town:
    """A settlement: its middle in metres, its radius, and the direction of its streets."""

    x: float
    y: float
    radius: float
    angle: float
    stretch: float  # villages are drawn out along their main street


def place_towns(canvas: Canvas, wet: NDArray[np.bool_], seed: int) -> list[Town]:
    """One town, some small ones, many villages: sizes after Zipf, apart from each other and not in water."""
    rng = stream(seed, "landscape", "towns")
    count = max(1, round(60 * (canvas.metres / 20_000) ** 2))
    weights = np.arange(1, count + 1) ** -1.05
    radii = np.sqrt(weights / weights.sum() * SHARE * canvas.metres**2 / np.pi)
    towns: list[Town] = []
    for radius in radii:
        reach = min(radius, canvas.metres / 4)
        best, best_score = (canvas.metres / 2, canvas.metres / 2), -np.inf
        for x, y in rng.uniform(0.8 * reach, canvas.metres - 0.8 * reach, (60, 2)):
            gap = min((np.hypot(x - t.x, y - t.y) - t.radius - radius for t in towns), default=1e4)
            drowned = wet[int(y / canvas.step), int(x / canvas.step)]
            score = min(gap, 1500.0) * rng.uniform(0.5, 1) - 1e4 * drowned
            if score > best_score:
                best, best_score = (x, y), score
        stretch = rng.uniform(1.0, 1.5 if radius < 500 else 1.15)
        angle = rng.uniform(0, np.pi)
        towns.append(Town(float(best[0]), float(best[1]), float(radius), float(angle), float(stretch)))
    return towns


def draw_roads(canvas: Canvas, towns: list[Town], seed: int) -> NDArray[np.bool_]:
    """Roads along the shortest tree between the towns, some shortcuts, and four roads out of the scene."""
    rng = stream(seed, "landscape", "roads")
    middle = np.array([[t.x, t.y] for t in towns])
    lines = [(middle[i], middle[j], 7.0) for i, j in _links(middle)]
    for side in range(4):
        at = rng.uniform(0.1, 0.9) * canvas.metres
        end = np.array([[at, -20], [at, canvas.metres + 20], [-20, at], [canvas.metres + 20, at]][side])
        lines.append((middle[np.argmin(np.hypot(*(middle - end).T))], end, 11.0))
    return canvas.paint([ribbon(_winding(a, b, rng), width) for a, b, width in lines])


def _links(middle: NDArray[np.float64]) -> list[tuple[int, int]]:
    distance = np.hypot(*(middle[:, None] - middle[None]).transpose(2, 0, 1))
    tree = set(zip(*minimum_spanning_tree(distance).nonzero(), strict=True))
    near = np.argsort(distance, axis=1)[:, 1:3]
    short = {(min(i, j), max(i, j)) for i, row in enumerate(near.tolist()) for j in row}
    return sorted({(min(int(i), int(j)), max(int(i), int(j))) for i, j in tree} | short)


def _winding(a: NDArray[Any], b: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float64]:
    """A line from a to b by midpoint displacement, then smoothed."""
    line = np.array([a, b], float)
    while np.hypot(*(line[1] - line[0])) > 150:
        step = np.diff(line, axis=0)
        aside = np.stack([-step[:, 1], step[:, 0]], axis=1) * rng.normal(0, 0.09, (len(step), 1))
        line = np.insert(line, np.arange(1, len(line)), (line[:-1] + line[1:]) / 2 + aside, axis=0)
    for _ in range(2):  # corner cutting (Chaikin 1974)
        inner = np.stack([0.75 * line[:-1] + 0.25 * line[1:], 0.25 * line[:-1] + 0.75 * line[1:]], axis=1)
        line = np.concatenate([line[:1], inner.reshape(-1, 2), line[-1:]])
    return line


#: What stands in a settlement, in the order of the codes that `build` returns.
STRUCTURES = ("tiles", "slate", "bright roofs", "asphalt", "concrete", "gardens", "parks")


@dataclass(frozen=True)
class Built:
    """Positions in settlements: where, what stands there (index of STRUCTURES), and a number for variety."""

    rows: NDArray[np.intp]
    cols: NDArray[np.intp]
    structure: NDArray[np.uint8]
    variety: NDArray[np.uint32]


def build(canvas: Canvas, towns: list[Town], dry: NDArray[np.bool_], seed: int) -> Built:
    """Streets around blocks; plots with a house, a drive and a garden; halls, a centre, parks."""
    ragged = fractal_field(stream(seed, "landscape", "outskirts"), canvas.points, canvas.metres, 320, 4)
    nearest = np.full(ragged.shape, -1, np.int16)
    inward = np.full(ragged.shape, 2.0, np.float32)
    for number, town in enumerate(towns):
        window = _window(canvas, town)
        y, x = canvas.axis[window[0], None] - town.y, canvas.axis[window[1]] - town.x
        along, aside = (
            x * np.cos(town.angle) + y * np.sin(town.angle),
            y * np.cos(town.angle) - x * np.sin(town.angle),
        )
        round_ = np.hypot(along / town.stretch, aside * town.stretch) / np.float32(town.radius)
        share = round_.astype(np.float32) - 0.36 * ragged[window]
        mine = share < np.minimum(inward[window], 1.0)
        nearest[window][mine] = number
        inward[window][mine] = share[mine]
    rows, cols = np.nonzero((nearest >= 0) & dry)
    return _fill(canvas, towns, rows, cols, nearest[rows, cols], inward[rows, cols], seed)


def _window(canvas: Canvas, town: Town) -> tuple[slice, slice]:
    reach = 1.9 * town.radius
    spans = ((town.y - reach, town.y + reach), (town.x - reach, town.x + reach))
    rows, cols = (
        slice(*np.clip([a / canvas.step, b / canvas.step + 1], 0, canvas.points).astype(int))
        for a, b in spans
    )
    return rows, cols


def _fill(
    canvas: Canvas,
    towns: list[Town],
    rows: NDArray[np.intp],
    cols: NDArray[np.intp],
    number: NDArray[np.int16],
    inward: NDArray[np.float32],
    seed: int,
) -> Built:
    x, y = canvas.axis[cols], canvas.axis[rows]
    angle = np.array([t.angle for t in towns], np.float32)[number]
    u, v = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
    cells = Cells.over(2 * canvas.metres, BLOCK, stream(seed, "landscape", "blocks"))
    block = cells.nearest(u + canvas.metres / 2, v + canvas.metres / 2)
    grid = np.full((canvas.points, canvas.points), -1, np.int32)
    grid[rows, cols] = block
    street = edges(grid)[rows, cols]
    size = np.array([t.radius for t in towns], np.float32)[number]
    luck = cell_hash(seed + 1, block.astype(np.int64)) / np.float32(2**32)
    centre = (inward < 0.22) & (size > 350)
    halls = ~centre & (inward > 0.45) & (luck < 0.16) & (size > 350)
    park = ~centre & ~halls & (luck > 0.955)
    plot = np.floor(u / PLOT[0]).astype(np.int64), np.floor(v / PLOT[1]).astype(np.int64)
    variety = cell_hash(seed + 2, *plot, block.astype(np.int64))
    structure = _houses(v, variety, luck)
    structure = np.where(halls, _halls(u, v, block, seed), structure)
    structure = np.where(centre, _centre(variety), structure)
    structure = np.where(park, 6, structure)
    structure = np.where(street, 3, structure)
    return Built(rows, cols, structure.astype(np.uint8), variety)


def _houses(v: NDArray[Any], variety: NDArray[np.uint32], luck: NDArray[Any]) -> NDArray[Any]:
    """A house on most plots, a drive before half of them, a garden behind; a street shares its roofs."""
    depth = v % PLOT[1]
    number = variety / np.float32(2**32)
    house = (depth < 11) & (number < 0.82)
    drive = (depth >= 11) & (depth < 17) & (number < 0.5)
    roof = np.where(luck * 7 % 1 < 0.55, 0, 1)
    return np.where(house, roof, np.where(drive, np.where(number < 0.15, 4, 3), 5))


def _halls(u: Any, v: Any, block: NDArray[np.int32], seed: int) -> NDArray[Any]:
    cell = np.floor(u / 55).astype(np.int64), np.floor(v / 38).astype(np.int64)
    number = cell_hash(seed + 3, *cell, block.astype(np.int64)) / np.float32(2**32)
    return np.select([number < 0.2, number < 0.42, number < 0.55, number < 0.85], [2, 1, 4, 3], 5)


def _centre(variety: NDArray[np.uint32]) -> NDArray[Any]:
    number = variety / np.float32(2**32)
    return np.select(
        [number < 0.3, number < 0.52, number < 0.6, number < 0.85, number < 0.93], [0, 1, 2, 3, 4], 5
    )
