"""Drawing on the fine grid: polygons, ribbons along lines, edges between numbered areas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.studies.landscape.fields import Field


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
        """Positions whose centre lies in any of the shapes.

        >>> import shapely
        >>> int(Canvas(10, 100).paint([shapely.box(0, 0, 50, 20)]).sum())
        10
        """
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
    """Positions whose right or lower neighbour has another number: edges of one position's width.

    >>> edges(np.array([[1, 1, 2], [1, 1, 2]])).astype(int).tolist()
    [[0, 1, 0], [0, 1, 0]]
    """
    found = np.zeros(numbers.shape, bool)
    found[:, :-1] = numbers[:, :-1] != numbers[:, 1:]
    found[:-1] |= numbers[:-1] != numbers[1:]
    return found


def enlarge(coarse: Field, factor: int, points: int) -> Field:
    """Bilinear interpolation of a coarse field to points × points.

    >>> enlarge(np.array([[0, 1], [2, 3]], np.float32), 2, 4)[0].tolist()
    [0.0, 0.5, 1.0, 1.0]
    """
    position = np.minimum(np.arange(points) / factor, coarse.shape[0] - 1)
    low = np.minimum(position.astype(int), coarse.shape[0] - 2)
    t = (position - low).astype(np.float32)
    rows = coarse[low] * (1 - t[:, None]) + coarse[low + 1] * t[:, None]
    return np.asarray(rows[:, low] * (1 - t) + rows[:, low + 1] * t)
