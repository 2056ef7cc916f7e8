"""The table of areas of a map: each class on clear land, under flags, and in each world."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uncover.labels import Scheme
from uncover.metrics import spread_over_worlds
from uncover.raster.product import AREA_ROWS

#: Name of the row of pixels that are of no trained class.
NONE = "none of the classes"


def area_table(
    areas: NDArray[np.float64],
    pairs: ArrayLike,
    scheme: Scheme,
    georeferenced: bool,
    without_spread: str | None = None,
) -> str:
    """CSV text; areas in hectares, or in pixels where the map has no reference system.

    `areas` has the rows `AREA_ROWS` and then one for each world, (row, class); `pairs` says which draws make
    a world. The spread over the worlds is empty where `without_spread` says why there is none.
    """
    unit, scale = ("ha", 1e-4) if georeferenced else ("pixels", 1.0)
    of = dict(zip(AREA_ROWS, areas, strict=False))
    worlds = areas[len(AREA_ROWS) :] * scale if without_spread is None else areas[:0]
    n, total = len(worlds), of["area"].sum()
    entries = [(entry.code, entry.name) for entry in scheme.classes]
    if areas.shape[1] > len(entries):  # its area is expected: it is no pixel's most probable class
        entries.append((0, NONE))
    sd, error = spread_over_worlds(worlds, np.asarray(pairs)[:n])
    rows, note = [], areas_note(unit, n, without_spread)
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
                "flagged_pixels": int(here["flagged_pixels"]),
                f"flagged_{unit}": f"{here['flagged_area'] * scale:.9g}",
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
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _note_of_none(unit: str) -> str:
    return (
        f"expected_{unit} adds up P(none), and in the rows above P(class) times 1 - P(none): the column adds "
        f"up to clear land; area_{unit} of the rows above counts all of it by its most probable class."
    )


def none_of(rows: Sequence[Mapping[str, str]]) -> dict[str, float]:
    """Expected area of none of the classes, its share of clear land, its spread over worlds; {} without.

    >>> none_of([{"code": "0", "class": NONE, "expected_ha": "3", "share": "0.1", "sd_over_worlds_ha": ""}])
    {'expected_ha': 3.0, 'share': 0.1}
    """
    if not rows or (rows[-1]["code"], rows[-1]["class"]) != ("0", NONE):
        return {}
    names = ("expected_ha", "expected_pixels", "share", "sd_over_worlds_ha", "sd_over_worlds_pixels")
    return {name: float(rows[-1][name]) for name in names if rows[-1].get(name)}


def areas_note(unit: str, worlds: int, without_spread: str | None = None) -> str:
    """One sentence on what is in the numbers, and what is not."""
    meant = (
        f"area_{unit} counts pixels of clear land by their most probable class and expected_{unit} adds up "
        "their probabilities; "
    )
    if without_spread is not None:
        return f"{meant}no spread is given, because {without_spread}."
    return (
        f"{meant}sd_over_worlds_{unit} is the standard deviation of area_{unit} over {worlds} worlds of the "
        "measurement's shared error and holds nothing else: not misclassification, not the uncertainty of "
        "the model or of the shares of classes, no classes that were never trained; its Monte Carlo error is "
        "an upper limit."
    )


def left_out(rows: Sequence[Mapping[str, str]]) -> str | None:
    """Sentence on the classified area that is flagged, from the rows of a table; None where nothing is.

    >>> left_out([{"area_ha": "3", "flagged_ha": "1", "flagged_pixels": "100"}])
    '1 ha (25 % of what has a class) are flagged as cloud, shadow, snow or saturated, and not counted'
    """
    unit = "ha" if "flagged_ha" in rows[0] else "pixels"
    flagged, clear = (sum(float(row[f"{name}_{unit}"]) for row in rows) for name in ("flagged", "area"))
    if not flagged:
        return None
    return (
        f"{flagged:,.6g} {unit} ({100 * flagged / (flagged + clear):.3g} % of what has a class) are flagged "
        "as cloud, shadow, snow or saturated, and not counted"
    )
