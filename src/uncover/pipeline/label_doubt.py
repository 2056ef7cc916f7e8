"""Labels that may be wrong, as `uncover fit` takes them: a probability of each, or a share of errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.raster.align import RasterBand, check_overlap
from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window
from uncover.raster.tiles import TileCache

Floats = NDArray[np.float64]
_CACHE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class LabelDoubt:
    """Knowledge of wrong labels; none by default.

    probability, scale
        `FILE` or `FILE:BAND` of the probability that each pixel's label is right, and the value that means
        certainty; None: 100 for whole numbers, 1 for others.
    meaning
        "certainty": judged without the scene, such as the probability of a land cover map of another year;
        "posterior": P(label | pixel), made from the scene itself.
    noise
        Share of the labels that are wrong, each other class equally often, or "learn".

    >>> LabelDoubt(noise=0.1).confusion(3)[0].tolist()
    [0.9, 0.05, 0.05]
    >>> LabelDoubt(noise=1.5)
    Traceback (most recent call last):
    ...
    ValueError: --label-noise is 1.5; it is the share of wrong labels, between 0 and 1, or "learn"
    """

    probability: str | Path | None = None
    scale: float | None = None
    meaning: str = "certainty"
    noise: float | str | None = None

    def __post_init__(self) -> None:
        if self.noise is not None and self.noise != "learn":
            object.__setattr__(self, "noise", _share(self.noise))
        if self.noise is not None and self.probability is not None:
            raise ValueError(
                "--label-probability says of each label how sure it is, and --label-noise of all of them; "
                "give one of the two"
            )

    def confusion(self, classes: int) -> Floats | str | None:
        """P(label j | class k) as `BayesianQDA` takes it: (class, class), "learn" or None."""
        if self.noise is None or self.noise == "learn":
            return self.noise
        share = _share(self.noise)
        matrix = np.full((classes, classes), share / (classes - 1))
        np.fill_diagonal(matrix, 1.0 - share)
        return matrix

    def check(self, model: str, calibrates: bool, coverage: float | None) -> None:
        """Refuse what does not go with labels that may be wrong."""
        came = "--label-probability" if self.probability is not None else "--label-noise"
        if self.probability is None and self.noise is None:
            return
        if model not in ("qda", "lda", "nb"):
            raise ValueError(f"{came} goes with --model qda, lda or nb; {model} takes labels as they are")
        if coverage is not None or (calibrates and self.meaning == "certainty"):
            other = "--calibrate" if coverage is None else "--coverage"
            raise ValueError(
                f"{other} compares predictions with labels, and {came} says that these may be wrong; leave "
                "one of them out"
            )

    def facts(self) -> dict[str, Any]:
        """Plain values for the provenance of a model; none where nothing is in doubt."""
        if self.noise is not None:
            return {"label noise": self.noise}
        if self.probability is None:
            return {}
        return {"label probability": {"file": Path(self.probability).name, "meaning": self.meaning}}


def _share(value: float | str) -> float:
    try:
        share = float(value)
    except ValueError:
        share = np.nan
    if not 0 < share < 1:
        raise ValueError(
            f'--label-noise is {value}; it is the share of wrong labels, between 0 and 1, or "learn"'
        )
    return share


@dataclass(frozen=True)
class Certainty:
    """The probability of the labels on a grid, read window by window."""

    layer: RasterBand
    grid: Grid
    scale: float
    cache: TileCache = field(default_factory=lambda: TileCache(_CACHE_BYTES))

    @classmethod
    def on(cls, grid: Grid, doubt: LabelDoubt) -> Certainty | None:
        """The layer by nearest neighbour on a grid that it overlaps; None where there is none."""
        if doubt.probability is None:
            return None
        layer = RasterBand.open(doubt.probability)
        check_overlap(layer.name, grid, layer.info.grid, "probabilities")
        return cls(layer, grid, doubt.scale or (100.0 if layer.dtype.kind in "ui" else 1.0))

    def read(self, window: Window) -> Floats:
        """Probabilities (row, col) from 0 to 1, NaN where the layer has none."""
        values, known = self.layer.read(self.grid, window, self.cache)
        shares = np.where(known, values / self.scale, np.nan)
        wrong = (shares < 0) | (shares > 1)
        if wrong.any():
            raise SceneError(
                f"{self.layer.name} holds {values[wrong][0]:g}, and {self.scale:g} was taken to mean "
                "certainty; give the right value with --probability-scale"
            )
        return shares


def soft_labels(names: NDArray[np.str_], sure: Floats, classes: Sequence[str]) -> Floats:
    """Probability of each class for labels that are right with probability `sure`: (sample, class).

    The rest goes to the other classes, equally.

    >>> soft_labels(np.array(["b", "a"]), np.array([0.8, 1.0]), ["a", "b", "c"]).round(2).tolist()
    [[0.1, 0.8, 0.1], [1.0, 0.0, 0.0]]
    """
    own = names[:, None] == np.asarray(classes)[None, :]
    return np.where(own, sure[:, None], (1.0 - sure[:, None]) / (len(classes) - 1))
