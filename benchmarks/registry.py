"""Benchmarks by name, and the one form that their results take: tables."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.machine import describe_machine

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Table:
    """Numbers with a caption that says how they were made.

    ``columns`` gives the format of each column by its heading; values that are text pass as they are.
    """

    name: str
    caption: str
    columns: dict[str, str]
    rows: list[list]

    def as_markdown(self):
        """Return the table as it stands in the documentation."""
        cells = self._cells()
        width = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        lines = [
            "| " + " | ".join(c.ljust(w) for c, w in zip(row, width, strict=True)) + " |" for row in cells
        ]
        rule = "|" + "|".join("-" * (w + 1) + (":" if i else "-") for i, w in enumerate(width)) + "|"
        return "\n".join([lines[0], rule, *lines[1:]])

    def as_text(self):
        """Return the table for a terminal, its caption first."""
        cells = self._cells()
        width = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        lines = [
            "  ".join(
                cell.rjust(w) if i else cell.ljust(w)
                for i, (cell, w) in enumerate(zip(row, width, strict=True))
            )
            for row in cells
        ]
        return "\n".join([self.caption, "", lines[0], "-" * len(lines[0]), *lines[1:]])

    def _cells(self):
        formats = list(self.columns.values())
        body = [
            [v if isinstance(v, str) else format(v, f) for v, f in zip(row, formats, strict=True)]
            for row in self.rows
        ]
        return [list(self.columns), *body]

    def as_dict(self):
        """Return what goes into the JSON file."""
        return asdict(self)


BENCHMARKS: dict[str, Callable[[bool], list[Table]]] = {}


def benchmark(name):
    """Register a function under a name: it takes ``quick`` (small sizes) and returns tables."""

    def register(function):
        BENCHMARKS[name] = function
        return function

    return register


def write_results(folder, name, tables, seconds, quick=False):
    """Write one benchmark's JSON file and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.json"
    document = {
        "benchmark": name,
        "command": f"python -m benchmarks {name}" + (" --quick" if quick else ""),
        "seconds": round(seconds, 1),
        "machine": describe_machine(),
        "tables": [table.as_dict() for table in tables],
    }
    file.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return file


def renew_results(folder, name, tables):
    """Replace some tables of a benchmark's JSON file, or add them, and leave the others as they are."""
    file = folder / f"{name}.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    kept = {table["name"]: table for table in document["tables"]}
    document["tables"] = [*(kept | {table.name: table.as_dict() for table in tables}).values()]
    file.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return file
