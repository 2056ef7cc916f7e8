"""What the documentation says can be looked up: names in the code, numbers in the benchmarks' results."""

import json
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from benchmarks.__main__ import main as run_benchmarks
from benchmarks.into_docs import findings_as_markdown
from benchmarks.registry import BENCHMARKS, Table

import uncover

ROOT = Path(__file__).parents[1]


def _resolve(dotted):
    """Return the object of a dotted name below uncover; the longest importable part is the module."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(["uncover", *parts[:cut]]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name)
        return found
    raise AttributeError(dotted)


def _names_in(page):
    return sorted(set(re.findall(r"`((?:bayes|estimators|measurement|studies)\.[\w.]+)`", page)))


@pytest.mark.parametrize("name", _names_in((ROOT / "docs/maths.md").read_text(encoding="utf-8")))
def test_formulas_live_where_the_documentation_says(name):
    _resolve(name)


def test_every_public_name_is_in_the_reference():
    reference = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    missing = [
        name for name in uncover.__all__ if name != "__version__" and f"uncover.{name}" not in reference
    ]
    assert not missing


@pytest.mark.parametrize("name", ["realisations", "coverage"])
def test_tables_of_simulations_are_the_measured_ones(name):
    page = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
    results = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))
    assert results["command"] == f"python -m benchmarks {name}"
    for table in results["tables"]:
        assert Table(**table).as_markdown() in page, table["name"]


def test_tables_of_probabilities_are_the_measured_ones():
    page = (ROOT / "docs/probabilities.md").read_text(encoding="utf-8")
    results = json.loads((ROOT / "benchmarks/results/probabilities.json").read_text(encoding="utf-8"))
    tables = {table["name"]: Table(**table) for table in results["tables"]}
    assert results["command"] in page
    for name in ("against the best", "cross_entropy", "calibration_error", "calibration", "cost"):
        if name in tables:
            assert f"% table: probabilities/{name}\n\n{tables[name].as_markdown()}" in page, name


@pytest.mark.parametrize("name", ["speed", "map", "gpu"])
def test_tables_of_the_speed_page_are_the_measured_ones(name):
    page = (ROOT / "docs/speed.md").read_text(encoding="utf-8")
    results = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))
    assert results["command"].startswith(f"python -m benchmarks {name}")
    for table in results["tables"]:
        assert f"% table: {name}/{table['name']}\n\n{Table(**table).as_markdown()}" in page, table["name"]


def test_tables_of_the_embedded_scene_are_the_measured_ones():
    page = (ROOT / "docs/embedded-scene.md").read_text(encoding="utf-8")
    results = json.loads((ROOT / "benchmarks/results/embedded-scene.json").read_text(encoding="utf-8"))
    assert results["command"] in page
    tables = {table["name"]: Table(**table) for table in results["tables"]}
    for name in ("spread", "components", "dates"):
        assert f"% table: embedded-scene/{name}\n\n{tables[name].as_markdown()}" in page, name


@pytest.mark.parametrize("study", ["synthetic-standard", "landcover-standard"])
def test_findings_of_studies_are_those_of_the_results(study):
    page = (ROOT / "docs/studies.md").read_text(encoding="utf-8")
    assert f"% findings: {study}\n\n{findings_as_markdown(study)}\n\n% end" in page


def test_pages_do_not_name_machines():
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/results/*.json")]:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"/(tmp|home|work|root)/", text), page.name


def test_benchmarks_run_by_name_and_write_results(tmp_path, monkeypatch, capsys):
    table = Table("t", "A caption", {"kind": "", "score": ".2f"}, [["a", 0.125], ["b", 1.0]])
    monkeypatch.setattr("benchmarks.__main__.NAMES", ("tiny",))
    monkeypatch.setitem(sys.modules, "benchmarks.tiny", ModuleType("benchmarks.tiny"))
    monkeypatch.setitem(BENCHMARKS, "tiny", lambda quick: [table])
    assert run_benchmarks(["tiny", "--quick", "--out", str(tmp_path)]) == 0
    assert "A caption" in capsys.readouterr().out
    written = json.loads((tmp_path / "tiny.json").read_text(encoding="utf-8"))
    assert Table(**written["tables"][0]) == table
    assert {"processor", "cores", "python", "numpy"} <= set(written["machine"])
    assert table.as_markdown().splitlines()[-1] == "| b    | 1.00  |"


def test_an_unknown_benchmark_is_one_clear_line(capsys):
    with pytest.raises(SystemExit) as stop:
        run_benchmarks(["nonsense"])
    assert stop.value.code == 2
    assert "no benchmark is called nonsense" in capsys.readouterr().err
