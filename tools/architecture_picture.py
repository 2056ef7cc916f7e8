"""The drawing of docs/architecture.md: `python tools/architecture_picture.py SVG`."""

import sys
from html import escape
from pathlib import Path
from typing import NamedTuple

WIDTH, HEIGHT = 960, 430
#: Colours of the folders: fill and edge.
INPUT, CENTRE, OUTPUT = ("#eef3f8", "#5b7c99"), ("#fdf3dc", "#b07a12"), ("#edf5ea", "#5f8a4e")


class Box(NamedTuple):
    """A value, the folder that it lives in, and where it stands (centre)."""

    title: str
    folder: str
    x: int
    y: int
    colours: tuple[str, str] = INPUT
    width: int = 168
    height: int = 58


BOXES = {
    "table": Box("Table: X, X_cov", "estimators/", 110, 60),
    "scene": Box("Scene or cube", "raster/", 110, 165),
    "effects": Box("Effects and their errors", "measurement/, atmosphere/", 110, 270, width=196),
    "labels": Box("Labels", "labels/", 110, 375),
    "observation": Box("Observation", "measurement/", 350, 165, CENTRE),
    "statistics": Box("Statistics", "models/", 350, 375, CENTRE),
    "predict": Box("predict(model, observation)", "measurement/, engines/", 600, 165, CENTRE, width=236),
    "model": Box("Fitted model", "models/", 600, 375, CENTRE),
    "file": Box("Model file", "models/", 850, 375, OUTPUT),
    "answers": Box("Estimator methods", "estimators/", 850, 60, OUTPUT),
    "prediction": Box("Prediction", "measurement/", 850, 165, CENTRE),
    "layers": Box("Layers, areas, report", "raster/, pipeline/, report/", 850, 270, OUTPUT, width=190),
}

ARROWS = [
    ("table", "observation", ""),
    ("scene", "observation", ""),
    ("effects", "observation", ""),
    ("observation", "statistics", "add up"),
    ("labels", "statistics", ""),
    ("statistics", "model", "fit"),
    ("model", "predict", ""),
    ("model", "file", "save, load"),
    ("observation", "predict", ""),
    ("predict", "prediction", ""),
    ("prediction", "answers", ""),
    ("prediction", "layers", ""),
]


def edge(box: Box, towards: Box) -> tuple[float, float]:
    """Where the line to another box leaves this one."""
    dx, dy = towards.x - box.x, towards.y - box.y
    scale = min(
        0.5 * box.width / abs(dx) if dx else float("inf"), 0.5 * box.height / abs(dy) if dy else float("inf")
    )
    return box.x + scale * dx, box.y + scale * dy


def draw_arrow(start: Box, end: Box, label: str) -> str:
    """A line with its label beside the middle."""
    (x1, y1), (x2, y2) = edge(start, end), edge(end, start)
    line = f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" marker-end="url(#tip)"/>'
    steep = abs(x2 - x1) < 40
    x, y = 0.5 * (x1 + x2) + (8 if steep else 0), 0.5 * (y1 + y2) + (4 if steep else -7)
    anchor = "start" if steep else "middle"
    text = f'<text class="label" x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(label)}</text>'
    return line + (text if label else "")


def draw_box(box: Box) -> str:
    """A rounded box with its title and its folder."""
    fill, stroke = box.colours
    left, top = box.x - box.width / 2, box.y - box.height / 2
    return (
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{box.width}" height="{box.height}" rx="7" fill="{fill}" '
        f'stroke="{stroke}"/><text class="title" x="{box.x}" y="{box.y - 3}">{escape(box.title)}</text>'
        f'<text class="folder" x="{box.x}" y="{box.y + 17}">{escape(box.folder)}</text>'
    )


def main(goal: str) -> None:
    """Write the drawing."""
    style = (
        "text{font-family:Helvetica,Arial,sans-serif;fill:#222}.title{font-size:13.5px;text-anchor:middle;"
        "font-weight:600}.folder{font-size:12px;text-anchor:middle;fill:#555}.label{font-size:12px;fill:#555}"
        "line{stroke:#777;stroke-width:1.5}rect{stroke-width:1.5}"
    )
    tip = (
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#777"/></marker>'
    )
    parts = [draw_arrow(BOXES[a], BOXES[b], label) for a, b, label in ARROWS]
    parts += [draw_box(box) for box in BOXES.values()]
    Path(goal).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-label="How a pixel and a sample flow from measurement to answer">'
        f"<style>{style}</style><defs>{tip}</defs>"
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>' + "\n".join(parts) + "</svg>\n",
        "utf-8",
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
