"""Put measured tables and curves into the documentation: `python -m benchmarks.into_docs`.

A line `% table: BENCHMARK/TABLE` in docs/speed.md stands before each table; what follows it is replaced.
"""

import json
import re
from pathlib import Path

from benchmarks.registry import Table
from benchmarks.speed_figures import draw

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/speed.md"
_PLACE = re.compile(r"^% table: (?P<file>[\w-]+)/(?P<table>[^\n]+)\n+(?:\|[^\n]*\n)*\n*", re.MULTILINE)


def results(name):
    """The tables of a benchmark's last run, by name."""
    document = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))
    return {table["name"]: table for table in document["tables"]}


def _filled(match):
    table = Table(**results(match["file"])[match["table"]])
    return f"% table: {match['file']}/{match['table']}\n\n{table.as_markdown()}\n\n"


def main():
    """Renew tables and figure."""
    PAGE.write_text(_PLACE.sub(_filled, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    draw(results("speed")["growth"], ROOT / "docs/images/speed-growth.png")


if __name__ == "__main__":
    main()
