"""Where the water is: a meandering river, lakes, and the wet ground beside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt

from uncover.bayes.streams import stream
from uncover.studies.landscape.fields import Field, fractal_field
from uncover.studies.landscape.shapes import Canvas, enlarge, ribbon

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
    """A river from west to east with a tributary, lakes near it, and fen where the ground is low and near.

    >>> waters = draw_waters(Canvas(400, 4000), seed=0)
    >>> bool(0.02 < waters.fen.mean() < 0.04), bool(waters.river[:, 0].any())
    (True, True)
    """
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
