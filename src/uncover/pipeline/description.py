"""Facts about a file or folder, and how they are shown; who collects them lives elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from uncover.raster.grid import Grid

Facts = dict[str, Any]


@dataclass(frozen=True)
class Description:
    """What a file is, the facts about it, and a page of text where it has more to say.

    >>> print(Description("labels", {"classes": {"forest": 3}, "crs": "EPSG:32633"}).text())
    labels
      classes
        forest: 3
      crs: EPSG:32633
    """

    kind: str
    facts: Facts
    page: str = ""

    def text(self) -> str:
        """Facts as indented lines, and the page."""
        return "\n".join([self.kind, *_lines(self.facts, "  "), *([self.page.rstrip()] if self.page else [])])


def grid_facts(grid: Grid) -> Facts:
    """Size, reference system and bounds.

    >>> grid_facts(Grid("EPSG:32633", (10, 0, 300000, 0, -10, 5000000), width=3, height=2))["size"]
    '3 x 2 pixels of 10 x 10'
    """
    return {
        "size": f"{grid.width} x {grid.height} pixels of {grid.resolution[0]:g} x {grid.resolution[1]:g}",
        "crs": grid.crs,
        "bounds": [float(value) for value in grid.bounds],
    }


def _lines(facts: Mapping[str, Any], indent: str) -> list[str]:
    lines: list[str] = []
    for key, value in facts.items():
        if isinstance(value, Mapping):
            lines += [f"{indent}{key}", *_lines(value, indent + "  ")]
        elif isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
            for i, each in enumerate(value, start=1):
                lines += [f"{indent}{key} {i}", *_lines(each, indent + "  ")]
        elif isinstance(value, list | tuple) and value and isinstance(value[0], list | tuple):
            lines.append(f"{indent}{key}: {len(value)} x {len(value[0])} numbers")
        else:
            shown = ", ".join(str(v) for v in value) if isinstance(value, list | tuple) else value
            lines.append(f"{indent}{key}: {shown}")
    return lines
