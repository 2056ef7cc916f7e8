"""Put what was measured into the documentation: `python -m benchmarks.into_docs`.

A line `% table: BENCHMARK/TABLE` stands before each table, `% findings: STUDY` and `% end of findings` stand
around what a study found; what follows, or lies between, is replaced. `--study NAME DIR` first takes the
findings of a folder of `uncover reproduce` into the results, and for a land cover study of one date its table
`study-NAME/Brier`.
"""

import argparse
import json
import re
from pathlib import Path

import pandas as pd

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
    tables = [_brier_table(folder).as_dict()] if facts["study"] == "landcover" else []
    kept = {"study": facts, "findings": findings, "tables": tables}
    text = json.dumps(kept, indent=2, ensure_ascii=False)
    (RESULTS / f"study-{name}.json").write_text(text + "\n", encoding="utf-8")


def _brier_table(folder):
    """Normalised Brier score by training pixels and model, mean over pairs of dates."""
    scores = pd.read_csv(folder / "tables/scores.csv", keep_default_na=False)
    scores = scores.sort_values("ours", kind="stable")  # the paper's first
    names = {n: f"{n} (ours)" if ours else n for n, ours in zip(scores["model"], scores["ours"], strict=True)}
    scores = scores[scores["metric"] == "brier_norm"].astype({"value": float})
    means = scores.pivot_table("value", "pixels", "model")
    columns = {"training pixels": ",", **dict.fromkeys(names.values(), ".3f")}
    rows = [
        [int(pixels), *("–" if pd.isna(row.get(name)) else float(row[name]) for name in names)]
        for pixels, row in means.iterrows()
    ]
    return Table("Brier", "Normalised Brier score; – could not be trained", columns, rows)


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
