"""The report of a comparison of two maps: a picture of P(change), and the areas of the transitions."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from uncover.files import read_json
from uncover.raster.tiles import open_raster
from uncover.report.page import Figure, Headline, Page, Section, Table, render
from uncover.report.plots import percent
from uncover.report.style import figure_style, inline_svg, new_figure

#: Rows and columns of the picture, at most.
_SIDE = 400


def write_change_report(folder: str | Path) -> str:
    """Write report.html into a folder of `uncover change`; returns one line on what changed."""
    place = Path(folder)
    facts = read_json(place / "item.json", dict[str, Any])["properties"]["uncover:change"]
    with open(place / "change.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    before, after = facts["maps"]
    found = facts["changed"]
    share = f"{percent(found['share'])} ({percent(found['lower'])} to {percent(found['upper'])})"
    lead = (
        f"From {before} to {after}, {share} of the mapped land changed, at 95 %. The classes of both dates "
        "are read together, with the shares of the transitions that are most likely for the scene. "
        + (
            "The maps share their model"
            if facts["same_model"]
            else "The maps are of two models, whose differences count as change"
        )
        + (
            " and the worlds of one scene."
            if facts["same_worlds"]
            else "; their measurements are independent."
        )
    )
    doubts = " ".join(f"{each[0].upper()}{each[1:]}." for each in facts["doubts"])
    sections = (
        *((Section("doubts", "Reasons for doubt", doubts, ()),) if doubts else ()),
        Section("change", "P(change)", lead, (_picture(place),)),
        Section("transitions", "Areas of transitions", _READING, (_table(rows),)),
    )
    headline = Headline(percent(found["share"]), "of the mapped land changed", share)
    if doubts.startswith("Do not"):
        ends = f"{percent(found['lower'])} to {percent(found['upper'])}"
        headline = Headline(
            ends, "of the mapped land changed: not to be believed", "see the reasons for doubt"
        )
    page = Page("Change between two maps", f"{before} and {after}", sections, (headline,))
    (place / "report.html").write_text(render(page), "utf-8")
    doubt = "; not to be believed" if doubts.startswith("Do not") else ""
    return f"changed      {share} of the mapped land{doubt}"


_READING = (
    "The expected area is the sum of the probabilities; counted is the area of pixels whose most probable "
    "transition it is. The interval holds what the pixels share (worlds, drawn models), what the overlap of "
    "the classes hides, and what the model does not explain of the two dates."
)


def _table(rows: list[dict[str, str]]) -> Table:
    unit = "ha" if "expected_ha" in rows[0] else "pixels"
    header = ("transition", f"expected, {unit}", "standard uncertainty", "95 % interval", f"counted, {unit}")
    cells = tuple(
        (
            row["from"] if row["from"] == row["to"] else f"{row['from']} to {row['to']}",
            _amount(row[f"expected_{unit}"]),
            _amount(row[f"standard_uncertainty_{unit}"]),
            f"{_amount(row[f'lower_{unit}'])} – {_amount(row[f'upper_{unit}'])}",
            _amount(row[f"area_{unit}"]),
        )
        for row in rows
    )
    return Table("Areas of transitions", header, cells)


def _amount(text: str) -> str:
    value = float(text)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _picture(place: Path) -> Figure:
    """P(change), thinned by the mean."""
    from rasterio.enums import Resampling

    with open_raster(str(place / "change.tif")) as file:
        step = max(1.0, max(file.shape) / _SIDE)
        shape = tuple(max(1, round(side / step)) for side in file.shape)
        values = file.read(1, out_shape=shape, resampling=Resampling.average, masked=True) * file.scales[0]
    with figure_style():
        figure = new_figure(4.0)
        axes = figure.subplots()
        shown = axes.imshow(np.ma.filled(values, np.nan), vmin=0, vmax=1, cmap="magma")
        axes.set_axis_off()
        figure.colorbar(shown, ax=axes, label="P(change)", shrink=0.8)
        svg = inline_svg(figure, "Probability of change")
    changed = float((values > 0.5).mean()) if values.count() else 0.0
    return Figure(
        "change-figure",
        "Probability of change",
        svg,
        "Bright is change. Pixels without a class in one of the maps are white.",
        f"{percent(changed)} of the picture has a probability of change above one half.",
    )
