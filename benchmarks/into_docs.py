"""Put what was measured into the documentation: `python -m benchmarks.into_docs`.

A line `% table: BENCHMARK/TABLE` stands before each table, `% findings: STUDY[/FIGURE …]` and
`% end of findings` stand around what a study found (all, or what can be seen on these figures),
`% paper: KIND` and `% end of paper` around the items of the paper, `% study: synthetic` and
`% end of study` around the section of that study; what follows, or lies between, is replaced.
`--study NAME DIR` first takes the findings and some tables of a folder of `uncover reproduce` into the
results, `study-NAME`; with `--figures`, its figures into docs/images.
"""

import argparse
import json
import re
import textwrap
from pathlib import Path

from benchmarks.gaps import draw_shares
from benchmarks.paper_page import STUDIES, findings_of, paper_table
from benchmarks.registry import Table
from benchmarks.sampling import draw_training
from benchmarks.speed_figures import draw
from benchmarks.study_page import synthetic_page
from benchmarks.unknown import draw_reliability

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"
_TABLE = re.compile(r"^% table: (?P<file>[\w-]+)/(?P<table>[^\n]+)\n+(?:\|[^\n]*\n)*\n*", re.MULTILINE)
_FINDINGS = re.compile(r"^% findings: (?P<what>[^\n]+)\n.*?^% end of findings\n", re.MULTILINE | re.DOTALL)
_STUDY = re.compile(r"^% study: synthetic\n.*?^% end of study\n", re.MULTILINE | re.DOTALL)
_PAPER = re.compile(r"^% paper: (?P<kind>\w+)\n.*?^% end of paper\n", re.MULTILINE | re.DOTALL)


def results(name):
    """The tables of a benchmark's last run, by name."""
    document = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return {table["name"]: table for table in document["tables"]}


def findings_as_markdown(what):
    """Claim, section, verdict and numbers of each finding, as a list; `STUDY/FIGURE …`: those of figures."""
    study, _, figures = what.partition("/")
    chosen = [f for f in findings_of(study) if not figures or (f.get("figure") or "none") in figures.split()]
    return "\n".join(map(_item, chosen))


def _item(finding):
    place = f" (§ {finding['section']})" if finding.get("section") else ""
    claim = f"**{'Ours: ' if finding['ours'] else ''}{finding['claim']}**{place}"
    text = f"- {claim} *{finding['verdict'].capitalize()}.* {finding['found']} {finding['why']}".rstrip()
    return textwrap.fill(text, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _table(match):
    found = results(match["file"]).get(match["table"])
    if found is None:  # the last run was of a version that had no such table
        return match[0]
    return f"% table: {match['file']}/{match['table']}\n\n{Table(**found).as_markdown()}\n\n"


def _findings(match):
    what = match["what"]
    return f"% findings: {what}\n\n{findings_as_markdown(what)}\n\n% end of findings\n"


def _study(match):
    return f"% study: synthetic\n\n{synthetic_page()}\n\n% end of study\n"


def _paper(match):
    kind = match["kind"]
    return f"% paper: {kind}\n\n{paper_table(kind)}\n\n% end of paper\n"


def main(arguments=None):
    """Renew tables, findings and figure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--study", nargs=2, metavar=("NAME", "DIR"), action="append", default=[])
    parser.add_argument("--figures", action="store_true", help="take the figures of these studies, too")
    options = parser.parse_args(arguments)
    if options.study:
        from benchmarks.study_results import take_figures, take_study
    for name, folder in options.study:
        take_study(name, Path(folder))
        if options.figures:
            take_figures(STUDIES[name], Path(folder))
    for page in (ROOT / "docs").glob("*.md"):
        text = _STUDY.sub(_study, page.read_text(encoding="utf-8"))
        text = _FINDINGS.sub(_findings, _TABLE.sub(_table, text))
        page.write_text(_PAPER.sub(_paper, text), encoding="utf-8")
    if (RESULTS / "gaps.json").exists():
        draw_shares(results("gaps"), ROOT / "docs/images/gaps.png")
    if "training-steps" in results("sampling"):
        draw_training(results("sampling")["training-steps"], ROOT / "docs/images/sampling.png")
    draw(results("speed")["growth"], ROOT / "docs/images/speed-growth.png")
    draw_reliability(results("unknown")["reliability by data"], ROOT / "docs/images/unknown-reliability.png")


if __name__ == "__main__":
    main()
