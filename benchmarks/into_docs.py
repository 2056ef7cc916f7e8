"""Put what was measured into the documentation: `python -m benchmarks.into_docs`.

A line `% table: BENCHMARK/TABLE` stands before each table, `% findings: STUDY[/FIGURE …]` and
`% end of findings` stand around what a study found (all, or what can be seen on these figures),
`% paper: KIND` and `% end of paper` around the items of the paper; what follows, or lies between, is
replaced. `--study NAME DIR` first takes the findings of a folder of `uncover reproduce` into the results,
and of a land cover study its table `study-NAME/Brier`; with `--figures`, its figures into docs/images.
"""

import argparse
import json
import re
from pathlib import Path

import pandas as pd

from benchmarks.paper_page import STUDIES, findings_of, paper_table
from benchmarks.registry import Table
from benchmarks.speed_figures import draw

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"
_TABLE = re.compile(r"^% table: (?P<file>[\w-]+)/(?P<table>[^\n]+)\n+(?:\|[^\n]*\n)*\n*", re.MULTILINE)
_FINDINGS = re.compile(r"^% findings: (?P<what>[^\n]+)\n.*?^% end of findings\n", re.MULTILINE | re.DOTALL)
_PAPER = re.compile(r"^% paper: (?P<kind>\w+)\n.*?^% end of paper\n", re.MULTILINE | re.DOTALL)


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


def take_figures(name, folder):
    """Copy the figures of a study, as PNG of 256 colours."""
    from PIL import Image

    study = STUDIES[name].replace(" ", "-")
    for file in sorted((folder / "figures").glob("*.png")):
        with Image.open(file) as image:
            small = image.convert("RGB")
            small.thumbnail((1400, 1400))
            few = small.quantize(256, kmeans=2, dither=Image.Dither.NONE)
            few.save(ROOT / f"docs/images/study-{study}-{file.name}", optimize=True)


def findings_as_markdown(what):
    """Claim, section, verdict and numbers of each finding, as a list; `STUDY/FIGURE …`: those of figures."""
    study, _, figures = what.partition("/")
    chosen = [f for f in findings_of(study) if not figures or (f.get("figure") or "none") in figures.split()]
    return "\n".join(map(_item, chosen))


def _item(finding):
    place = f" (§ {finding['section']})" if finding.get("section") else ""
    claim = f"**{'Ours: ' if finding['ours'] else ''}{finding['claim']}**{place}"
    return f"- {claim} *{finding['verdict'].capitalize()}.* {finding['found']} {finding['why']}".rstrip()


def _table(match):
    found = results(match["file"]).get(match["table"])
    if found is None:  # the last run was of a version that had no such table
        return match[0]
    return f"% table: {match['file']}/{match['table']}\n\n{Table(**found).as_markdown()}\n\n"


def _findings(match):
    what = match["what"]
    return f"% findings: {what}\n\n{findings_as_markdown(what)}\n\n% end of findings\n"


def _paper(match):
    kind = match["kind"]
    return f"% paper: {kind}\n\n{paper_table(kind)}\n\n% end of paper\n"


def main(arguments=None):
    """Renew tables, findings and figure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--study", nargs=2, metavar=("NAME", "DIR"), action="append", default=[])
    parser.add_argument("--figures", action="store_true", help="take the figures of these studies, too")
    options = parser.parse_args(arguments)
    for name, folder in options.study:
        take_study(name, Path(folder))
        if options.figures:
            take_figures(name, Path(folder))
    for page in (ROOT / "docs").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        page.write_text(
            _PAPER.sub(_paper, _FINDINGS.sub(_findings, _TABLE.sub(_table, text))), encoding="utf-8"
        )
    draw(results("speed")["growth"], ROOT / "docs/images/speed-growth.png")


if __name__ == "__main__":
    main()
