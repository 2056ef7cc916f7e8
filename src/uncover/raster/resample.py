"""From a file's pixels to another grid's, axis by axis; a pixel's value never depends on the window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window

Resampling = Literal["nearest", "bilinear", "cubic"]

_TAPS = {"nearest": (0, 1), "bilinear": (0, 2), "cubic": (-1, 3)}


@dataclass(frozen=True)
class Axis:
    """For every target pixel of one axis: the source pixel it lies in, and the taps of the interpolation."""

    nearest: NDArray[np.int64]  # (target,)
    taps: NDArray[np.int64]  # (tap, target)
    weights: NDArray[np.float64]  # (tap, target)
    inside: NDArray[np.bool_]  # (target,)

    @property
    def span(self) -> tuple[int, int]:
        """First and one past the last source pixel that is needed."""
        return int(self.taps.min()), int(self.taps.max()) + 1


def axis(scale: float, shift: float, start: int, count: int, size: int, method: Resampling) -> Axis:
    """Taps and weights along one axis: target pixel t has its centre at source coordinate scale·(t+½)+shift.

    >>> a = axis(0.5, 0.0, 0, 4, 2, "bilinear")
    >>> a.nearest.tolist(), a.weights[1].tolist()
    ([0, 0, 1, 1], [0.75, 0.25, 0.75, 0.25])
    """
    if method not in get_args(Resampling):
        raise SceneError(f"resampling {method!r} is not known; use one of {', '.join(get_args(Resampling))}")
    centre = scale * (np.arange(start, start + count) + 0.5) + shift
    nearest = np.floor(centre).astype(np.int64)
    low, high = _TAPS[method]
    base = nearest if method == "nearest" else np.floor(centre - 0.5).astype(np.int64)
    taps = base + np.arange(low, high)[:, None]
    distance = centre - 0.5 - base
    inside = (nearest >= 0) & (nearest < size)
    return Axis(
        np.clip(nearest, 0, size - 1),
        np.clip(taps, 0, size - 1),  # beyond the edge the edge pixel goes on
        _weights(distance, method),
        inside,
    )


def _weights(t: NDArray[np.float64], method: Resampling) -> NDArray[np.float64]:
    if method == "nearest":
        return np.ones((1, t.size))
    if method == "bilinear":
        return np.stack([1 - t, t])
    # Catmull-Rom: passes through the samples and reproduces straight lines.
    return 0.5 * np.stack(
        [-t + 2 * t**2 - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, -(t**2) + t**3]
    )


@dataclass(frozen=True)
class Resampler:
    """How a window of one grid is filled from another grid that runs the same way."""

    rows: Axis
    cols: Axis

    @classmethod
    def between(cls, target: Grid, window: Window, source: Grid, method: Resampling, name: str) -> Resampler:
        """The resampler for a window of `target` from `source`; `name` is for the message."""
        if not target.aligned_with(source):
            raise SceneError(
                f"{name} lies on another grid (its CRS {source.crs}, needed {target.crs}, same orientation); "
                "warp it to the scene's CRS first"
            )
        return _between(target, window, source, method)

    @cached_property
    def needed(self) -> Window:
        """The source window that holds everything needed."""
        (top, bottom), (left, right) = self.rows.span, self.cols.span
        return Window(top, left, bottom - top, right - left)

    @cached_property
    def inside(self) -> NDArray[np.bool_]:
        """Which target pixels lie on the source, (row, col)."""
        return self.rows.inside[:, None] & self.cols.inside[None, :]

    @cached_property
    def everywhere(self) -> bool:
        """Whether all of them do."""
        return bool(self.rows.inside.all() and self.cols.inside.all())

    @cached_property
    def _is_copy(self) -> bool:
        """Whether the nearest pixels are those needed, one by one."""
        rows, cols = self.rows.nearest - self.needed.row, self.cols.nearest - self.needed.col
        return _counts_up(rows, self.needed.height) and _counts_up(cols, self.needed.width)

    @property
    def copies(self) -> bool:
        """Whether interpolating is copying, pixel by pixel."""
        return self._is_copy and len(self.rows.weights) == 1

    def nearest(self, planes: NDArray[Any]) -> NDArray[Any]:
        """The value of the source pixel that each target pixel's centre lies in; planes (..., row, col)."""
        if self._is_copy:
            return planes
        window = self.needed
        rows, cols = self.rows.nearest - window.row, self.cols.nearest - window.col
        picked: NDArray[Any] = planes[..., rows[:, None], cols[None, :]]
        return picked

    def interpolate(self, planes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Interpolated values; NaN stays NaN, and next to NaN the nearest value is taken."""
        nearest: NDArray[np.float64] = self.nearest(planes)
        if len(self.rows.weights) == 1:
            return nearest
        window = self.needed
        half = _weighted(planes, self.rows.taps - window.row, self.rows.weights, axis=-2)
        full = _weighted(half, self.cols.taps - window.col, self.cols.weights, axis=-1)
        usable = np.isfinite(full) & np.isfinite(nearest)
        return np.where(usable, full, nearest)


@lru_cache(maxsize=64)
def _between(target: Grid, window: Window, source: Grid, method: Resampling) -> Resampler:
    """Bands of one scene mostly lie on one grid: what fills a window from it is found once."""
    a, _, c, _, e, f = target.relation(source)
    return Resampler(
        axis(e, f, window.row, window.height, source.height, method),
        axis(a, c, window.col, window.width, source.width, method),
    )


def _counts_up(index: NDArray[np.int64], size: int) -> bool:
    return index.size == size and bool((index == np.arange(size)).all())


def _weighted(
    planes: NDArray[np.float64], taps: NDArray[np.int64], weights: NDArray[np.float64], axis: int
) -> NDArray[np.float64]:
    shape = (-1, 1) if axis == -2 else (-1,)
    total: NDArray[np.float64] = np.take(planes, taps[0], axis=axis) * weights[0].reshape(shape)
    for tap, weight in zip(taps[1:], weights[1:], strict=True):
        total += np.take(planes, tap, axis=axis) * weight.reshape(shape)
    return total
