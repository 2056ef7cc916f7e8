"""Put what was measured into the documentation: `python -m benchmarks.into_docs`.

A line `% table: BENCHMARK/TABLE` stands before each table, `% findings: STUDY` and `% end of findings` stand
around what a study found; what follows, or lies between, is replaced. `--study NAME DIR` first takes the
findings of a folder of `uncover reproduce` into the results.
"""

import argparse
import json
import re
from pathlib import Path

from benchmarks.registry import Table
from benchmarks.speed_figures import draw

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"
_TABLE = re.compile(r"^% table: (?P<file>[\w-]+)/(?P<table>[^\n]+)\n+(?:\|[^\n]*\n)*\n*", re.MULTILINE)
_FINDINGS = re.compile(r"^% findings: (?P<study>[\w-]+)\n.*?^% end of findings\n", re.MULTILINE | re.DOTALL)


def results(name):
    """The tables of a benchmark's last run, by name."""
    document = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return {table["name"]: table for table in document["tables"]}


def take_study(name, folder):
    """Keep what a study found, and what it was, among the results."""
    facts = json.loads((folder / "study.json").read_text(encoding="utf-8"))
    findings = json.loads((folder / "findings.json").read_text(encoding="utf-8"))
    facts.pop("models")
    text = json.dumps({"study": facts, "findings": findings}, indent=2, ensure_ascii=False)
    (RESULTS / f"study-{name}.json").write_text(text + "\n", encoding="utf-8")


def findings_as_markdown(study):
    """Claim, verdict and numbers of each finding, as a list."""
    document = json.loads((RESULTS / f"study-{study}.json").read_text(encoding="utf-8"))
    return "\n".join(map(_item, document["findings"]))


def _item(finding):
    claim = f"**{'Ours: ' if finding['ours'] else ''}{finding['claim']}**"
    return f"- {claim} *{finding['verdict'].capitalize()}.* {finding['found']} {finding['why']}".rstrip()


def _table(match):
    found = results(match["file"]).get(match["table"])
    if found is None:  # the last run was of a version that had no such table
        return match[0]
    return f"% table: {match['file']}/{match['table']}\n\n{Table(**found).as_markdown()}\n\n"


def _findings(match):
    study = match["study"]
    return f"% findings: {study}\n\n{findings_as_markdown(study)}\n\n% end of findings\n"


def main(arguments=None):
    """Renew tables, findings and figure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--study", nargs=2, metavar=("NAME", "DIR"), action="append", default=[])
    for name, folder in parser.parse_args(arguments).study:
        take_study(name, Path(folder))
    for page in (ROOT / "docs").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        page.write_text(_FINDINGS.sub(_findings, _TABLE.sub(_table, text)), encoding="utf-8")
    draw(results("speed")["growth"], ROOT / "docs/images/speed-growth.png")


if __name__ == "__main__":
    main()
