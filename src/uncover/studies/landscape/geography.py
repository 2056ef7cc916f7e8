"""The land: the surface at every position of a 5 m grid, its kind of ground, and its use in each year."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt, label

from uncover.bayes.streams import stream
from uncover.studies.landscape.fields import Canvas, Field, cell_hash, edges, enlarge, fractal_field, ribbon
from uncover.studies.landscape.kinds import CODE, CROPS
from uncover.studies.landscape.parcels import Parcels, draw_parcels
from uncover.studies.landscape.settlements import STRUCTURES, build, draw_roads, place_towns

WETLANDS = 0.03  # share of the ground that is fen
LAKES = 0.010  # share of the ground that is lake
COARSE = 4  # distances are computed on every fourth position, and interpolated


@dataclass(frozen=True)
class Waters:
    """Masks on the fine grid, and the distance to the river in metres."""

    river: NDArray[np.bool_]
    lake: NDArray[np.bool_]
    fen: NDArray[np.bool_]
    distance: Field


def draw_waters(canvas: Canvas, seed: int) -> Waters:
    """A river from west to east with a tributary, lakes near it, and fen where the ground is low and near."""
    metres = canvas.metres
    main = _meander(metres, stream(seed, "landscape", "river"))
    # The tributary starts in the north or south and ends where it meets the river.
    tributary = _tributary(main, metres, stream(seed, "landscape", "tributary"))
    width = float(np.clip(metres / 450, 22, 45))
    # One drawing with two widths: the tributary is half as wide.
    river = canvas.paint([ribbon(main, width), ribbon(tributary, max(width / 2, 10))])
    coarse = distance_transform_edt(~river[::COARSE, ::COARSE]) * canvas.step * COARSE
    distance = enlarge(coarse.astype(np.float32), COARSE, canvas.points)
    lake = _lakes(canvas, distance, seed) & ~river
    low = fractal_field(stream(seed, "landscape", "wet ground"), canvas.points, metres, 700, 4)
    low -= np.minimum(distance, 4000) / 330
    low[river | lake] = -np.inf
    fen = low > np.quantile(low, 1 - WETLANDS)
    return Waters(river, lake, fen, distance)


def _meander(metres: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """A sine-generated curve (Langbein and Leopold 1966): its direction is a sine of the way along it."""
    length, wave = 2.4 * metres, min(1900.0, metres / 3)
    way = np.arange(-0.2 * metres, length, 20.0)
    swing = np.radians(62) * (1 + 0.35 * np.sin(2 * np.pi * way / (3.7 * wave) + rng.uniform(0, 6)))
    direction = swing * np.sin(2 * np.pi * way / wave + rng.uniform(0, 6))
    direction += np.radians(16) * np.sin(2 * np.pi * way / (5.3 * wave) + rng.uniform(0, 6))
    place = np.cumsum(20.0 * np.stack([np.cos(direction), np.sin(direction)], axis=1), axis=0)
    place[:, 0] -= place[:, 0].min() + 30
    inside = place[:, 0] < metres
    place[:, 1] += metres * rng.uniform(0.35, 0.65) - place[inside, 1].mean()
    return place[place[:, 0] < metres + 60]


def _tributary(main: NDArray[np.float64], metres: float, rng: np.random.Generator) -> NDArray[np.float64]:
    mouth = main[int(len(main) * rng.uniform(0.45, 0.6))]
    source = np.array([metres * rng.uniform(0.2, 0.8), -30.0 if rng.random() < 0.5 else metres + 30.0])
    t = np.linspace(0, 1, 400)[:, None]
    across = np.array([-(mouth - source)[1], (mouth - source)[0]]) / np.linalg.norm(mouth - source)
    wiggle = np.sin(t * 2 * np.pi * 9 + 2 * np.sin(t * 13)) * min(110.0, metres / 60)
    return source + t * (mouth - source) + wiggle * np.sin(np.pi * t) * across


def _lakes(canvas: Canvas, distance: Field, seed: int) -> NDArray[np.bool_]:
    """Rounded hollows in a rough field, most of them in the valley."""
    hollow = fractal_field(stream(seed, "landscape", "lakes"), canvas.points, canvas.metres, 380, 4)
    hollow -= np.abs(distance - 500) / 2500
    hollow[distance < 60] = -np.inf
    return np.asarray(hollow > np.quantile(hollow, 1 - LAKES))


PIXEL = 10.0  # metres
FINE = 2  # positions along a pixel's side: mixed pixels are averages of four
#: Shares of the farmed and wooded ground, near those of lowland Britain (UK: about 13 % of the land is wood).
WOOD, ARABLE, ROUGH = 0.135, 0.43, 0.27  # rough is a share of the grass
VARIETIES = 48  # surfaces of each structure in settlements
LANES = 0.3  # share of the edges between farms with a lane beside


@dataclass(frozen=True)
class Geography:
    """Surfaces on the fine grid, and what is known of each surface."""

    size: int
    surface: NDArray[np.uint16]  # number at each fine position; with a hedge, that of the field plus `count`
    count: int
    kind: NDArray[np.uint8]  # of ground, before any year's crops: fields say "winter cereals" or a grass
    soil: NDArray[np.float64]  # where it lies between the dark (0) and the light one (1)
    farmed: NDArray[np.bool_]  # fields: they rotate, are mown, and may change
    near_town: NDArray[np.bool_]
    structure: NDArray[np.int8]  # index of STRUCTURES in settlements, -1 elsewhere


def draw_geography(size: int, seed: int) -> Geography:
    """Draw the land of size × size pixels."""
    canvas = Canvas(FINE * size, PIXEL * size)
    waters = draw_waters(canvas, seed)
    parcels = draw_parcels(canvas.points, canvas.metres, seed)
    wet = waters.river | waters.lake
    towns = place_towns(canvas, wet | waters.fen, seed)
    book = _Book(parcels.count)
    surface = parcels.field.astype(np.int32)
    hedge = edges(parcels.field) & _hedged(parcels, seed)
    _paint_woods(canvas, parcels, waters, surface, book, seed)
    _paint_waters(parcels, waters, surface, book)
    hedge &= surface < parcels.count
    built = build(canvas, towns, ~wet, seed)
    hedge[built.rows, built.cols] = False
    near = _town_fields(parcels, surface, built.rows, built.cols)
    base = book.add([_KIND_OF[name] for name in STRUCTURES for _ in range(VARIETIES)])
    surface[built.rows, built.cols] = (
        base + built.structure.astype(np.int32) * VARIETIES + built.variety % VARIETIES
    )
    lane = edges(parcels.farm) & _lanes(parcels, seed) & (surface < parcels.count)
    road = draw_roads(canvas, towns, seed) | lane
    asphalt = base + STRUCTURES.index("asphalt") * VARIETIES
    surface[road] = asphalt + (parcels.farm[road] % VARIETIES)
    hedge &= ~road
    book.kind[: parcels.count] = _use(canvas, parcels, waters, surface, seed)
    return _bound(size, surface, hedge, book, near, canvas, seed)


_KIND_OF = {
    "tiles": "roofs",
    "slate": "roofs",
    "bright roofs": "roofs",
    "asphalt": "asphalt and paving",
    "concrete": "asphalt and paving",
    "gardens": "gardens",
    "parks": "improved grass",
}


class _Book:
    """Surfaces in the order of their numbers."""

    def __init__(self, fields: int) -> None:
        self.kind = np.zeros(fields, np.uint8)
        self.fields = fields

    def add(self, kinds: list[str]) -> int:
        """Add surfaces; returns the number of the first one."""
        first = len(self.kind)
        self.kind = np.concatenate([self.kind, np.array([CODE[name] for name in kinds], np.uint8)])
        return first


def _hedged(parcels: Parcels, seed: int) -> NDArray[np.bool_]:
    """Most fields have hedges; the field to the left or above decides."""
    chosen = cell_hash(seed + 4, np.arange(parcels.count)) % 100 < 75
    return np.asarray(chosen[parcels.field])


def _lanes(parcels: Parcels, seed: int) -> NDArray[np.bool_]:
    """Lanes run along some edges between farms: decided for each pair of farms."""
    other = parcels.farm.copy()
    other[:, :-1] = np.where(
        parcels.farm[:, :-1] != parcels.farm[:, 1:], parcels.farm[:, 1:], parcels.farm[:, :-1]
    )
    below = np.vstack([parcels.farm[1:], parcels.farm[-1:]])
    other = np.where(other == parcels.farm, below, other)
    pair = np.minimum(other, parcels.farm).astype(np.int64), np.maximum(other, parcels.farm).astype(np.int64)
    return np.asarray(cell_hash(seed + 5, *pair) / 2**32 < LANES)


def _paint_woods(
    canvas: Canvas, parcels: Parcels, waters: Waters, surface: NDArray[np.int32], book: _Book, seed: int
) -> None:
    """Old woods and copses with ragged edges, and trees along the river: one surface for each farm."""
    ragged = fractal_field(stream(seed, "landscape", "copses"), canvas.points, canvas.metres, 380, 5)
    copse = ragged > np.quantile(ragged, 0.972)
    bank = (waters.distance > 0) & (waters.distance < 35) & (ragged > 0.3)
    first = book.add(["broadleaved trees"] * parcels.farms)
    woods = copse | bank
    surface[woods] = first + parcels.farm[woods]


def _paint_waters(parcels: Parcels, waters: Waters, surface: NDArray[np.int32], book: _Book) -> None:
    """Fen by farms, each lake and the river as one."""
    first = book.add(["fen"] * parcels.farms)
    surface[waters.fen] = first + parcels.farm[waters.fen]
    lakes, count = label(waters.lake)
    first = book.add(["lake"] * count)
    surface[waters.lake] = first + lakes[waters.lake] - 1
    surface[waters.river] = book.add(["river"])


def _town_fields(
    parcels: Parcels, surface: NDArray[np.int32], rows: NDArray[np.intp], cols: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Fields that a settlement has eaten into: where it grows next."""
    touched = np.bincount(parcels.field[rows, cols], minlength=parcels.count) > 0
    left = np.bincount(surface.ravel()[surface.ravel() < parcels.count], minlength=parcels.count) > 400
    return np.asarray(touched & left)


def _use(
    canvas: Canvas, parcels: Parcels, waters: Waters, surface: NDArray[np.int32], seed: int
) -> NDArray[np.uint8]:
    """Wood, arable or grass for each field, by how well it suits and until the shares are reached."""
    n = parcels.count
    flat = parcels.field.ravel()
    area = np.bincount(flat, minlength=n)
    rows = np.repeat(np.arange(canvas.points), canvas.points)
    y = np.bincount(flat, rows, minlength=n) / area
    x = np.bincount(flat, np.tile(np.arange(canvas.points), canvas.points), minlength=n) / area
    at = np.clip(y.astype(int), 0, canvas.points - 1), np.clip(x.astype(int), 0, canvas.points - 1)
    left = np.bincount(surface.ravel()[surface.ravel() < n], minlength=n)
    rng = stream(seed, "landscape", "use")

    def score(name: str, scale: float, own: float) -> NDArray[np.float64]:
        field = fractal_field(stream(seed, "landscape", name), canvas.points, canvas.metres, scale, 2)[at]
        return np.asarray(field + own * rng.standard_normal(n))

    valley = np.exp(-waters.distance[at] / 900)
    kind = np.full(n, CODE["improved grass"], np.uint8)
    wood = _best(score("wood", 1800, 0.95) - 0.5 * valley + 1.5 * (area < 80), left, WOOD)
    conifer = wood & _best(score("conifer", 2500, 0.3), left * wood, 0.42)
    arable = ~wood & _best(score("arable", 4200, 0.9) - 1.3 * valley - 9 * wood, left, ARABLE)
    grass = ~wood & ~arable
    rough = grass & _best(score("rough", 1500, 0.9) + 0.8 * valley, left * grass, ROUGH)
    kind[wood], kind[conifer] = CODE["broadleaved trees"], CODE["conifers"]
    kind[arable], kind[rough] = CODE["winter cereals"], CODE["rough grass"]
    return kind


def _best(score: NDArray[np.float64], area: NDArray[np.int64], share: float) -> NDArray[np.bool_]:
    """The best of them until their area reaches the share of the total."""
    order = np.argsort(-np.where(area > 0, score, -np.inf))
    reached = np.cumsum(area[order]) <= share * area.sum()
    chosen = np.zeros(len(score), bool)
    chosen[order[reached]] = True
    return chosen


def _bound(
    size: int,
    surface: NDArray[np.int32],
    hedge: NDArray[np.bool_],
    book: _Book,
    near: NDArray[np.bool_],
    canvas: Canvas,
    seed: int,
) -> Geography:
    """Number the surfaces that are really there without gaps."""
    flat = surface.ravel()
    area = np.bincount(flat, minlength=len(book.kind))
    there = area > 0
    number = (np.cumsum(there) - 1).astype(np.uint16)
    count = int(there.sum())
    if 2 * count > np.iinfo(np.uint16).max:
        raise ValueError(f"the land has {count} surfaces, more than 16 bits hold; make a smaller scene")
    soils = fractal_field(stream(seed, "landscape", "soils"), canvas.points, canvas.metres, 5000, 4)
    soil = _mean(soils, flat, area)[there]
    own = stream(seed, "landscape", "own soil").normal(0, 0.25, count)
    farmed = there.copy()
    farmed[book.fields :] = False
    close = np.zeros(len(book.kind), bool)
    close[: book.fields] = near
    structure = np.full(len(book.kind), -1, np.int8)
    structure[-VARIETIES * len(STRUCTURES) :] = np.repeat(np.arange(len(STRUCTURES)), VARIETIES)
    numbers = number[surface]
    numbers[hedge] += np.uint16(count)
    return Geography(
        size=size,
        surface=numbers,
        count=count,
        kind=book.kind[there],
        soil=np.clip(0.5 + 0.28 * soil + 0.3 * own, 0, 1),
        farmed=farmed[there],
        near_town=close[there],
        structure=structure[there],
    )


def _mean(field: Field, flat: NDArray[np.int32], area: NDArray[np.int64]) -> NDArray[np.float64]:
    total = np.bincount(flat, field.ravel(), minlength=len(area))
    return np.asarray(total / np.maximum(area, 1))


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
    """Five years of the land; without `change` every field keeps its class, though not its crop."""
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
