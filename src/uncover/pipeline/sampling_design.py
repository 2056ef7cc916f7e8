"""Sampling designs of references: the strata and their areas."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from uncover.pipeline.references import Legend, Reference

DesignName = Literal["random", "poststratified", "stratified"]
Floats = NDArray[np.float64]

_UNITS = {"area_m2": 1.0, "area_ha": 1e4, "area_km2": 1e6}


@dataclass(frozen=True)
class Design:
    """A sampling design, and where its strata come from: none, the map's classes, or a field of the points.

    >>> Design("random").strata
    'none'
    """

    name: DesignName | None = None  # None: not a probability sample, as far as anybody said
    strata: Literal["none", "map", "field"] = "none"
    areas_file: str | Path | None = None

    @classmethod
    def of(
        cls, name: DesignName | None, reference: Reference, areas_file: str | Path | None = None
    ) -> Design:
        """The design that the options state, refused where the reference cannot have it."""
        by_field = bool(reference.strata)
        if by_field and name not in (None, "stratified"):
            raise ValueError(
                f"a stratum field is given, and the design is {name!r}; it would be 'stratified'"
            )
        if areas_file is not None and not by_field:
            raise ValueError(
                "areas of strata are given; say with --stratum-field which field holds the strata"
            )
        if name is not None and reference.kind == "polygons":
            raise ValueError(
                f"{reference.name} holds polygons, whose pixels are no independent sample; a {name} design "
                f"needs points or single pixels"
            )
        if by_field:
            return cls("stratified", "field", areas_file)
        return cls(name, "none" if name in (None, "random") else "map")

    def names(self, legend: Legend, reference: Reference) -> tuple[str, ...]:
        """Names of the strata."""
        if self.strata == "none":
            return ("all",)
        return legend.names[: legend.mapped] if self.strata == "map" else reference.strata

    def sizes(
        self, legend: Legend, reference: Reference, mapped: Floats, pixels: Floats
    ) -> tuple[Floats, str | None]:
        """Areas of the strata in m², and what has to be said about them."""
        if self.strata == "none":
            return np.array([mapped.sum()]), None
        if self.strata == "map":
            return mapped[: legend.mapped], None
        if self.areas_file is not None:
            sizes = _read_areas(self.areas_file, reference.strata, float(mapped.sum() / pixels.sum()))
            part = sizes.sum() / mapped.sum()
            if abs(part - 1) < 0.01:
                return sizes, None
            return sizes, (
                f"the strata of {Path(self.areas_file).name} cover {part:.3g} times the area of the map; "
                f"estimates are for the strata"
            )
        numbers = [legend.number(stratum) for stratum in reference.strata]
        unknown = [
            s for s, n in zip(reference.strata, numbers, strict=True) if n is None or n >= legend.mapped
        ]
        if unknown:
            raise ValueError(
                f"the stratum {unknown[0]!r} is no class of the map, and its area is not known: give a table "
                f"with the columns stratum and area_ha (--stratum-areas)"
            )
        return mapped[np.array(numbers)], (
            "areas of the strata are taken from this map: right only if the sample was drawn from its classes"
        )


def check_strata(names: Sequence[str], sizes: Floats, counts: Floats) -> NDArray[np.bool_]:
    """Strata that exist; an error where one of them has no sample."""
    there = sizes > 0
    for name, size, count in zip(names, sizes, counts, strict=True):
        if size > 0 and count == 0:
            raise ValueError(
                f"the stratum {name!r} has {size / 1e4:,.0f} ha and no reference sample, so that nothing can "
                f"be estimated for it; add samples, or use --design random where the sample was drawn so"
            )
        if size <= 0 and count > 0:
            raise ValueError(
                f"the stratum {name!r} has samples and an area of 0; mend the areas of the strata"
            )
    return there


def _read_areas(path: str | Path, strata: Sequence[str], pixel: float) -> Floats:
    """Areas in m² of the strata, from a CSV file with a column `stratum` and one of areas or pixels."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read as a CSV table: {error}") from None
    units = {**_UNITS, "pixels": pixel}
    column = next((name for name in units if rows and name in rows[0]), None)
    if column is None or "stratum" not in rows[0]:
        raise ValueError(
            f"{path} needs a column 'stratum' and one of {', '.join(units)}; it has "
            f"{', '.join(rows[0]) if rows else 'no rows'}"
        )
    try:
        found = {str(row["stratum"]).strip(): float(row[column]) * units[column] for row in rows}
    except (TypeError, ValueError):
        raise ValueError(f"{path}: the column {column!r} holds something that is no number") from None
    missing = [name for name in strata if name.strip() not in found]
    if missing:
        raise ValueError(f"{path} has no row for the stratum {missing[0]!r}; it has {', '.join(found)}")
    unsampled = [name for name in found if name not in {s.strip() for s in strata}]
    if unsampled:
        raise ValueError(
            f"{path} names the stratum {unsampled[0]!r}, which has no reference sample on the map: nothing "
            f"can be estimated for it; join it with another"
        )
    return np.array([found[name.strip()] for name in strata])
