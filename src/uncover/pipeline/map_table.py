"""The table of areas of a map: each class, in each world, and what has no class and why."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uncover.labels import Scheme
from uncover.metrics import spread_over_worlds
from uncover.pipeline.map_facts import MapFacts
from uncover.raster.product import AREA_ROWS

#: Name of the row of pixels that are of no trained class.
NONE = "none of the classes"


def area_table(
    areas: NDArray[np.float64],
    pairs: ArrayLike,
    scheme: Scheme,
    facts: MapFacts,
    without_spread: str | None = None,
) -> str:
    """CSV text; areas in hectares, or in pixels where the map has no reference system.

    `areas` has the rows `AREA_ROWS` and then one for each world, (row, class); `pairs` says which draws make
    a world. The spread over the worlds is empty where `without_spread` says why there is none. Pixels
    without a class have a row for each reason in the `facts`.
    """
    unit, scale = facts.unit, 1e-4 if facts.unit == "ha" else 1.0
    of = dict(zip(AREA_ROWS, areas, strict=False))
    worlds = areas[len(AREA_ROWS) :] * scale if without_spread is None else areas[:0]
    n, total = len(worlds), of["area"].sum()
    entries = [(entry.code, entry.name) for entry in scheme.classes]
    if areas.shape[1] > len(entries):  # its area is expected: it is no pixel's most probable class
        entries.append((0, NONE))
    sd, error = spread_over_worlds(worlds, np.asarray(pairs)[:n])
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
    )
    if without_spread is not None:
        return f"{meant}no spread is given, because {without_spread}."
    return (
        f"{meant}sd_over_worlds_{unit} is the standard deviation of area_{unit} over {worlds} worlds of the "
        "measurement's shared error and holds nothing else: not misclassification, not the uncertainty of "
        "the model or of the shares of classes, no classes that were never trained; its Monte Carlo error is "
        "an upper limit."
    )
