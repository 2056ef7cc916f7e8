"""Evaluations as `uncover evaluate` wrote them, read back for a report."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """A reliability curve: what was promised and what came true, by bins that hold samples."""

    name: str
    promised: Floats
    observed: Floats
    lower: Floats
    upper: Floats
    samples: NDArray[np.int64]


@dataclass(frozen=True)
class Judged:
    """One evaluation.

    `facts` is its JSON file: numbers there have the keys value, lower and upper.
    """

    name: str
    facts: Mapping[str, Any]
    curves: tuple[Curve, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """Classes of map and reference."""
        return tuple(self.facts["classes"])

    @property
    def counts(self) -> NDArray[np.int64]:
        """Samples by true class (row) and map class (column)."""
        counts = self.facts["confusion (map class, reference class)"]["counts"]
        return np.asarray(counts, np.int64).T

    @property
    def areas(self) -> Mapping[str, Mapping[str, float]]:
        """Estimated areas in hectares or pixels by class; empty where none could be estimated."""
        size = 1e4 if self.facts["unit of areas"] == "m2" else 1.0
        found = self.facts.get("estimated area") or {}
        return {
            name: {key: value / size for key, value in entry.items() if value is not None}
            for name, entry in found.items()
        }

    @classmethod
    def read(cls, folder: Path) -> Judged:
        """Read a folder that `uncover evaluate` wrote."""
        try:
            facts = json.loads((folder / "evaluation.json").read_text("utf-8"))
            found = cls(folder.name, facts, tuple(_curves(folder / "reliability.csv")))
            if found.counts.shape != (len(found.classes),) * 2:
                raise ValueError("its confusion matrix does not fit its classes")
        except (ValueError, KeyError, TypeError, OSError) as error:
            what = f"it has no {error}" if isinstance(error, KeyError) else error
            raise ValueError(f"{folder} is not a readable evaluation: {what}") from None
        return found


def _curves(path: Path) -> list[Curve]:
    bins: dict[str, list[list[float]]] = {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if int(row["samples"]):
                columns = ("mean_probability", "observed_frequency", "lower", "upper", "samples")
                numbers = [float(row[column] or "nan") for column in columns]
                bins.setdefault(row["curve"], []).append(numbers)
    curves = []
    for name, rows in bins.items():
        promised, observed, lower, upper, samples = np.array(rows).T
        curves.append(Curve(name, promised, observed, lower, upper, samples.astype(np.int64)))
    return curves
