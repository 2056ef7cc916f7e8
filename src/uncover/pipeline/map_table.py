"""The table of areas of a map: each class, in each world, and what has no class and why."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uncover.labels import Scheme
from uncover.metrics import spread_over_worlds
from uncover.metrics.class_areas import CAUSES, AreaSums, AreaUncertainty
from uncover.pipeline.map_facts import MapFacts
from uncover.raster.product import AREA_ROWS, Product

if TYPE_CHECKING:
    from uncover.bayes.class_shares import ClassShares
    from uncover.bayes.population import UnknownShare
    from uncover.models.gaussian import GaussianClasses
    from uncover.models.pool import Pool

#: Columns of the uncertainty of an expected area, without their unit: combined, 95 % interval, parts.
UNCERTAIN = ("standard_uncertainty", "lower", "upper", *(f"u_{cause}" for cause in CAUSES))
#: Name of the row of pixels that are of no trained class.
NONE = "none of the classes"


def area_table(
    areas: NDArray[np.float64],
    pairs: NDArray[np.int64],
    scheme: Scheme,
    facts: MapFacts,
    without_spread: str | None = None,
    uncertainty: AreaUncertainty | None = None,
) -> str:
    """CSV text; areas in hectares, or in pixels where the map has no reference system.

    `areas` has the rows `AREA_ROWS` and then one for each world, (row, class); `pairs` says which draws make
    a world. The spread over the worlds is empty where `without_spread` says why there is none. Pixels
    without a class have a row for each reason in the `facts`. The uncertainty is that of expected areas.
    """
    unit, scale = facts.unit, 1e-4 if facts.unit == "ha" else 1.0
    of = dict(zip(AREA_ROWS, areas, strict=False))
    worlds = areas[len(AREA_ROWS) :][: len(pairs)] * scale if without_spread is None else areas[:0]
    n, total = len(worlds), of["area"].sum()
    entries = [(entry.code, entry.name) for entry in scheme.classes]
    if areas.shape[1] > len(entries):  # its area is expected: it is no pixel's most probable class
        entries.append((0, NONE))
    sd, error = spread_over_worlds(worlds, pairs[:n])
    rows: list[dict[str, Any]] = []
    note = areas_note(unit, n, without_spread)
    for k, (code, name) in enumerate(entries):
        here = {key: float(row[k]) for key, row in of.items()}
        counted = here["expected"] if name == NONE and code == 0 else here["area"]
        rows.append(
            {
                "code": code,
                "class": name,
                "pixels": int(here["pixels"]),
                f"area_{unit}": f"{here['area'] * scale:.9g}",
                "share": f"{counted / total if total else 0.0:.9g}",
                f"expected_{unit}": f"{here['expected'] * scale:.9g}",
                **_uncertain(uncertainty, k, unit, scale),
                "worlds": n,
                f"sd_over_worlds_{unit}": "" if np.isnan(sd[k]) else f"{sd[k]:.6g}",
                f"sd_over_worlds_mc_error_{unit}": "" if np.isnan(error[k]) else f"{error[k]:.6g}",
                "note": _note_of_none(unit) if name == NONE and code == 0 else "" if k else note,
                **{
                    f"world_{i}_{unit}": "" if np.isnan(v) else f"{v:.9g}"
                    for i, v in enumerate(worlds[:, k], start=1)
                },
            }
        )
    for name, pixels in facts.unmapped_pixels.items():
        area = f"{facts.unmapped_area[name]:.9g}"
        rows.append({"code": 0, "class": f"no class: {name}", "pixels": pixels, f"area_{unit}": area})
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def uncertainty_of(
    areas: NDArray[np.float64], product: Product, model: GaussianClasses | Pool, given: Doubts
) -> AreaUncertainty | None:
    """The uncertainty of expected areas, from the table of areas that units add up to; None without draws."""
    from uncover.measurement.class_shares import log_share_covariance
    from uncover.measurement.common_errors import MODELS

    if not product.drawn:
        return None
    sums = AreaSums.of_rows(areas[len(AREA_ROWS) + product.worlds :], MODELS)
    found = given.shares
    if found is None:
        return sums.uncertainty(log_share_covariance(model), unknown=given.unknown)
    none = np.zeros_like(found.covariance)
    of_model, of_worlds = (none if each is None else each for each in (found.of_model, found.of_worlds))
    parts = found.covariance - of_model - of_worlds, of_model, of_worlds
    return sums.uncertainty(shares=parts, unknown=given.unknown)


@dataclass(frozen=True)
class Doubts:
    """Estimated class shares, and the standard uncertainty of the log odds of none of the classes."""

    shares: ClassShares | None = None
    unknown: float = 0.0

    @classmethod
    def of(cls, shares: ClassShares | None, unknown: UnknownShare | None) -> Doubts:
        """What was estimated from the scene, if anything was."""
        if unknown is None or not 0 < unknown.share < 1:
            return cls(shares)
        return cls(shares, unknown.standard_uncertainty / (unknown.share * (1 - unknown.share)))


def _uncertain(found: AreaUncertainty | None, k: int, unit: str, scale: float) -> dict[str, str]:
    """Columns of the uncertainty of one class."""
    if found is None:
        return {}
    numbers = (found.standard, *found.interval(), *(found.part(cause) for cause in CAUSES))
    columns = zip(UNCERTAIN, numbers, strict=True)
    return {f"{name}_{unit}": f"{scale * values[k]:.6g}" for name, values in columns}


def uncertainty_columns(rows: Sequence[Mapping[str, str]], unit: str) -> dict[str, NDArray[np.float64]]:
    """Columns of the uncertainty of some rows of a table by their names without the unit; {} without them."""
    if f"{UNCERTAIN[0]}_{unit}" not in rows[0]:
        return {}
    return {name: np.array([float(row[f"{name}_{unit}"] or "nan") for row in rows]) for name in UNCERTAIN}


def _note_of_none(unit: str) -> str:
    return (
        f"expected_{unit} adds up P(none), and in the rows above P(class) times 1 - P(none): the column adds "
        f"up to mapped land; area_{unit} of the rows above counts all of it by its most probable class."
    )


def none_of(rows: Sequence[Mapping[str, str]]) -> dict[str, float]:
    """Expected area of none of the classes, its share of mapped land, its spread over worlds; {} without.

    >>> none_of([{"code": "0", "class": NONE, "expected_ha": "3", "share": "0.1", "sd_over_worlds_ha": ""}])
    {'expected_ha': 3.0, 'share': 0.1}
    """
    found = next((row for row in rows if (row["code"], row["class"]) == ("0", NONE)), {})
    names = ("expected_ha", "expected_pixels", "share", "sd_over_worlds_ha", "sd_over_worlds_pixels")
    return {name: float(found[name]) for name in names if found.get(name)}


def areas_note(unit: str, worlds: int, without_spread: str | None = None) -> str:
    """One sentence on what is in the numbers, and what is not."""
    meant = (
        f"area_{unit} counts mapped pixels by their most probable class, expected_{unit} adds up their "
        "probabilities, and share is of the mapped area, which masked pixels (rows no class) are no part of; "
        f"standard_uncertainty_{unit} and the 95 % interval are those of expected_{unit} as far as the model "
        "is right: a reference sample (uncover evaluate) corrects it where it is not; "
    )
    if without_spread is not None:
        return f"{meant}no spread is given, because {without_spread}."
    return (
        f"{meant}sd_over_worlds_{unit} is the standard deviation of area_{unit} over {worlds} worlds of the "
        "measurement's shared error and holds nothing else: not misclassification, not the uncertainty of "
        "the model or of the shares of classes, no classes that were never trained; its Monte Carlo error is "
        "an upper limit."
    )
