"""Sun and view directions per pixel, from the coarse grids of a product's metadata."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window


@dataclass(frozen=True)
class Angles:
    """Directions per pixel in degrees, (row, col): zenith from the vertical, azimuth clockwise from north.

    >>> one = np.full((1, 1), 30.0)
    >>> Angles(one, one + 110, one - 25, one + 70).relative_azimuth.item()
    40.0
    """

    sun_zenith: NDArray[np.float64]
    sun_azimuth: NDArray[np.float64]
    view_zenith: NDArray[np.float64]
    view_azimuth: NDArray[np.float64]

    @property
    def relative_azimuth(self) -> NDArray[np.float64]:
        """Between sun and sensor, folded into 0-180°; 0 where both stand on the same side."""
        difference = np.abs(self.sun_azimuth - self.view_azimuth) % 360.0
        return np.minimum(difference, 360.0 - difference)


@dataclass(frozen=True)
class AngleField:
    """Unit vectors towards the sun or the sensor on a coarse grid of nodes; NaN-free.

    The first node lies on the upper left corner of the tile. Interpolating vectors instead of angles keeps
    azimuths right across north and near the zenith.

    >>> azimuths = np.array([[350.0, 10.0]] * 2)
    >>> field = AngleField.from_degrees(np.full((2, 2), 40.0), azimuths, (0, 0), (5000, 5000))
    >>> zenith, azimuth = field.at(np.array([2500.0]), np.array([-2500.0]))
    >>> bool(abs((azimuth.item() + 180) % 360 - 180) < 1e-9)
    True
    """

    vectors: NDArray[np.float64]  # (3, node row, node col): east, north, up
    origin: tuple[float, float]
    step: tuple[float, float]

    @classmethod
    def from_degrees(
        cls,
        zenith: NDArray[np.float64],
        azimuth: NDArray[np.float64],
        origin: tuple[float, float],
        step: tuple[float, float],
    ) -> AngleField:
        """From angles per node, (..., node row, node col): leading axes are averaged, ignoring NaN.

        Nodes that no detector saw take the value of the nearest node that one saw.
        """
        vectors = _directions(zenith, azimuth).reshape(3, -1, *zenith.shape[-2:])
        seen = np.isfinite(vectors).all(axis=0)
        count = seen.sum(axis=0)
        if not count.any():
            raise SceneError("the angle grids of the metadata hold no value; the product is incomplete")
        total = np.where(seen, vectors, 0.0).sum(axis=1)
        with np.errstate(invalid="ignore"):
            mean = total / np.linalg.norm(total, axis=0)
        filled = _fill_from_nearest(mean, count > 0)
        # At least two nodes along each axis, so that every position lies between two.
        padding = [(0, 0)] + [(0, 1 if size == 1 else 0) for size in filled.shape[1:]]
        return cls(np.pad(filled, padding, mode="edge"), origin, step)

    def at(
        self, x: NDArray[np.float64], y: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Zenith and azimuth in degrees at those coordinates, bilinear between the nodes."""
        i, r = self._rows(y)
        j, c = self._cols(x)
        top = self.vectors[:, i, j] * (1 - c) + self.vectors[:, i, j + 1] * c
        bottom = self.vectors[:, i + 1, j] * (1 - c) + self.vectors[:, i + 1, j + 1] * c
        return _angles(top * (1 - r) + bottom * r)

    def _rows(self, y: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return _cell((self.origin[1] - y) / self.step[1], self.vectors.shape[1])

    def _cols(self, x: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return _cell((x - self.origin[0]) / self.step[0], self.vectors.shape[2])


def _angles(vectors: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    east, north, up = vectors
    zenith = np.degrees(np.arctan2(np.hypot(east, north), up))
    return zenith, np.degrees(np.arctan2(east, north)) % 360.0


def _cell(position: NDArray[np.float64], count: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The node before a position, and how far on it lies; beyond the last node the last value goes on."""
    inside = np.clip(position, 0, count - 1)
    low = np.minimum(np.floor(inside).astype(np.int64), count - 2)
    return low, inside - low


def _directions(zenith: NDArray[np.float64], azimuth: NDArray[np.float64]) -> NDArray[np.float64]:
    theta, phi = np.radians(zenith), np.radians(azimuth)
    return np.stack([np.sin(theta) * np.sin(phi), np.sin(theta) * np.cos(phi), np.cos(theta)])


def _fill_from_nearest(values: NDArray[np.float64], known: NDArray[np.bool_]) -> NDArray[np.float64]:
    if known.all():
        return values
    from scipy.ndimage import distance_transform_edt

    nearest = distance_transform_edt(~known, return_distances=False, return_indices=True)
    filled: NDArray[np.float64] = values[:, nearest[0], nearest[1]]
    return filled


@dataclass(frozen=True)
class AngleGrids:
    """Sun and view direction of a tile, for any window of any grid in the tile's CRS."""

    sun: AngleField
    view: AngleField

    @classmethod
    def everywhere(cls, sun: float, view: float, relative: float) -> AngleGrids:
        """One geometry for all pixels: sun zenith, view zenith and relative azimuth in degrees."""
        if not (0 <= sun < 90 and 0 <= view < 90 and abs(relative) <= 360):
            raise SceneError(
                f"angles {sun:g}, {view:g}, {relative:g}: zenith angles go from 0 to 90 degrees, the "
                "relative azimuth to 360; give sun zenith, view zenith, relative azimuth"
            )
        nodes = np.ones((2, 2))
        fields = [
            AngleField.from_degrees(zenith * nodes, azimuth * nodes, (0.0, 0.0), (1.0, 1.0))
            for zenith, azimuth in ((sun, 0.0), (view, relative))
        ]
        return cls(*fields)

    def at(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> Angles:
        """Angles at coordinates."""
        return Angles(*self.sun.at(x, y), *self.view.at(x, y))

    def on(self, grid: Grid, window: Window) -> Angles:
        """Angles at the pixel centres of a window."""
        return self.at(*grid.centres(window))
