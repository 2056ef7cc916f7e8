"""What the documentation says can be looked up: names in the code, numbers in the benchmarks' results."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import nbformat
import numpy as np
import pytest
import rasterio
from benchmarks.__main__ import NAMES
from benchmarks.__main__ import main as run_benchmarks
from benchmarks.into_docs import findings_as_markdown
from benchmarks.paper_page import EQUATIONS, paper_table
from benchmarks.registry import BENCHMARKS, Table, renew_results
from click.testing import CliRunner
from tools.notebooks import notebook
from tools.notebooks import run as run_notebook

import uncover
from map_products import write_polygons
from safe_trees import shared, write_raster
from uncover.cli import main
from uncover.labels import load_scheme
from uncover.raster import Grid
from uncover.studies.landscape import LandscapeOptions, write_scene

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


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("realisations", "realisations"), ("coverage", "coverage"), ("coverage-effects", "coverage"),
        ("weighted-worlds", "coverage"),
    ],
)  # fmt: skip
def test_tables_of_simulations_are_the_measured_ones(name, page):
    page = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
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


@pytest.mark.parametrize("name", ["speed", "map", "gpu", "first-seconds", "many-classes"])
def test_tables_of_the_speed_page_are_the_measured_ones(name):
    page = (ROOT / "docs/speed.md").read_text(encoding="utf-8")
    results = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))
    assert results["command"].startswith(f"python -m benchmarks {name}")
    for table in results["tables"]:
        assert f"% table: {name}/{table['name']}\n\n{Table(**table).as_markdown()}" in page, table["name"]


def test_the_table_of_the_viewer_is_the_measured_one():
    results = json.loads((ROOT / "benchmarks/results/view.json").read_text(encoding="utf-8"))
    assert results["command"] == "python -m benchmarks view"
    page = (ROOT / "docs/view.md").read_text(encoding="utf-8")
    assert f"% table: view/view\n\n{Table(**results['tables'][0]).as_markdown()}" in page


@pytest.mark.parametrize("name", ["map-areas", "change"])
def test_tables_of_the_page_on_areas_are_the_measured_ones(name):
    page = (ROOT / "docs/areas.md").read_text(encoding="utf-8")
    results = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))
    assert results["command"] == f"python -m benchmarks {name}"
    assert results["command"] in page
    for table in results["tables"]:
        assert f"% table: {name}/{table['name']}\n\n{Table(**table).as_markdown()}" in page, table["name"]


CHECKS = (ROOT / "docs/checks.md").read_text(encoding="utf-8")
OF_CHECKS = [
    "statistics", "statistics-details", "strata", "gates", "areas", "worlds", "stated-uncertainty",
    "class-shares", "radiometry", "effects", "match-ups", "l2a-totals", "sampling",
]  # fmt: skip
#: Tables of which the page has a figure.
DRAWN = ["training-steps"]


@pytest.mark.parametrize("name", OF_CHECKS)
def test_tables_of_the_checks_are_the_measured_ones(name):
    results = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))
    assert results["command"] == f"python -m benchmarks {name}"
    assert results["command"] in CHECKS
    for table in (each for each in results["tables"] if each["name"] not in DRAWN):
        assert f"% table: {name}/{table['name']}\n\n{Table(**table).as_markdown()}" in CHECKS, table["name"]


def test_every_table_of_the_checks_is_compared():
    shown = re.findall(r"(?m)^% table: ([\w-]+)/", CHECKS)
    assert set(shown) == set(OF_CHECKS)


def test_tests_and_commands_named_by_the_checks_exist():
    for path in re.findall(r"tests/[\w/]+\.py", CHECKS):
        assert (ROOT / path).exists(), path
    code = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("tests/*/test_*.py"))
    for name in re.findall(r"`(test_\w+)`", CHECKS):
        assert f"def {name}(" in code, name
    for name in re.findall(r"python -m benchmarks ([\w-]+)", CHECKS):
        assert name in NAMES, name


def test_selections_named_by_the_checks_find_a_test():
    """`pytest FILE -k "one or another"`: each word is part of the name of a test in that file."""
    for path, chosen in re.findall(r"pytest (tests/[\w/]+\.py) -k (\w+|\"[^\"]+\")", CHECKS):
        names = re.findall(r"def (test_\w+)", (ROOT / path).read_text(encoding="utf-8"))
        for word in chosen.strip('"').split(" or "):
            assert any(word in name for name in names), (path, word)


def test_tables_of_the_embedded_scene_are_the_measured_ones():
    page = (ROOT / "docs/embedded-scene.md").read_text(encoding="utf-8")
    results = json.loads((ROOT / "benchmarks/results/embedded-scene.json").read_text(encoding="utf-8"))
    assert results["command"] in page
    tables = {table["name"]: Table(**table) for table in results["tables"]}
    for name in ("spread", "components", "dates"):
        assert f"% table: embedded-scene/{name}\n\n{tables[name].as_markdown()}" in page, name


@pytest.mark.parametrize("study", ["synthetic-standard", "landcover-standard"])
def test_findings_of_studies_are_those_of_the_results(study):
    """Every finding stands on the page once, as it is in the results."""
    page = (ROOT / "docs/studies.md").read_text(encoding="utf-8")
    parts = re.findall(rf"^% findings: ({study}[^\n]*)\n\n(.*?)\n\n% end of findings$", page, re.M | re.S)
    for what, text in parts:
        assert text == findings_as_markdown(what), what
    shown = [line for _, text in parts for line in text.splitlines()]
    assert sorted(shown) == sorted(findings_as_markdown(study).splitlines())


def test_tables_of_studies_are_those_of_the_results():
    page = (ROOT / "docs/studies.md").read_text(encoding="utf-8")
    shown = re.findall(r"^% table: (study-[\w-]+)/([^\n]+)\n\n((?:\|[^\n]*\n)+)", page, re.M)
    assert {name for name, *_ in shown} >= {"study-statlog", "study-amazon", "study-landcover-further"}
    for name, table, text in shown:
        results = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))
        kept = next(each for each in results["tables"] if each["name"] == table)
        assert text == Table(**kept).as_markdown() + "\n", (name, table)


@pytest.mark.parametrize("kind", ["equations", "figures", "claims", "filter"])
def test_the_page_of_the_paper_is_made_from_the_results(kind):
    page = (ROOT / "docs/paper.md").read_text(encoding="utf-8")
    assert f"% paper: {kind}\n\n{paper_table(kind)}\n\n% end of paper" in page


def test_every_equation_of_the_paper_has_its_row():
    """All numbers from the first of a section to the last, as the paper has them."""
    last = {"1": 1, "2": 12, "3": 1, "4": 6, "A": 13, "B": 9}
    rows = [row[0] for row in EQUATIONS]
    found = []
    for part in ", ".join(rows).split(", "):
        first, _, end = part.partition(" – ")
        section, number = first.split(".")
        until = int((end or first).split(".")[1])
        found += [(section, n) for n in range(int(number), until + 1)]
    assert sorted(found) == sorted((s, n) for s, count in last.items() for n in range(1, count + 1))


def test_what_the_page_calls_the_same_differs_by_rounding_only():
    formulas, slips = (
        json.loads((ROOT / "benchmarks/results/paper.json").read_text(encoding="utf-8"))["tables"][i]["rows"]
        for i in (0, 1)
    )
    apart = {number: value for number, _, value in formulas if value > 1e-12}
    assert set(apart) == {"2.12"}  # a limit
    assert slips[0][1] == pytest.approx(0.19, abs=0.01)
    series = json.loads((ROOT / "benchmarks/results/convergence.json").read_text(encoding="utf-8"))
    gaps = [row[-1] for row in series["tables"][0]["rows"]]
    assert gaps == sorted(gaps, reverse=True) and gaps[-1] < 0.1 * gaps[0]


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_say_nothing_twice_and_headings_stand_apart(page):
    prose = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))
    assert re.findall(r"[^\n]\n#+ .*", prose) == []
    parts = [" ".join(part.split()) for part in re.split(r"\n\n|\n(?=- )", prose)]
    long = [part for part in parts if len(part) > 100]
    assert sorted(long) == sorted(set(long))


def test_the_readme_lists_every_page():
    listed = re.findall(r"\(docs/([\w-]+\.md)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    elsewhere = {"index.md", "contributing.md", "changelog.md"}  # they include files of the root
    assert {page.name for page in PAGES[1:]} - elsewhere <= set(listed)


def test_the_landing_page_has_a_card_for_every_page():
    cards = (ROOT / "docs/index.md").read_text(encoding="utf-8").split("## Tutorials")[1]
    listed = re.findall(r"^- \[.*\]\(([\w-]+\.md)\)", cards, re.MULTILINE)
    assert sorted({page.name for page in PAGES[1:]} - {"index.md", "install.md"}) == sorted(listed)


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
    new, more = (Table(name, "Another", {"kind": ""}, [["c"]]) for name in "tu")
    renew_results(tmp_path, "tiny", [new])
    renew_results(tmp_path, "tiny", [more])
    again = json.loads((tmp_path / "tiny.json").read_text(encoding="utf-8"))
    assert [Table(**each) for each in again["tables"]] == [new, more] and again["machine"] == written[
        "machine"
    ]


def test_an_unknown_benchmark_is_one_clear_line(capsys):
    with pytest.raises(SystemExit) as stop:
        run_benchmarks(["nonsense"])
    assert stop.value.code == 2
    assert "no benchmark is called nonsense" in capsys.readouterr().err


_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")


def _agree(said, printed):
    """The same words (... stands for any) and nearly the same numbers in two lines."""
    pattern = re.escape(_NUMBER.sub("#", said)).replace(r"\.\.\.", ".*").replace(r"\ ", " +")
    found = re.fullmatch(pattern.replace(r"\#", f"({_NUMBER.pattern})"), printed)
    numbers, expected = (
        [float(text.replace(",", "")) for text in texts]
        for texts in (found.groups() if found else (), _NUMBER.findall(said))
    )
    return found is not None and numbers == pytest.approx(expected, rel=0.1, abs=0.02)


def test_lines_agree_by_words_and_numbers():
    assert _agree("mean 0.21 of 1,000 ...", "mean  0.22 of 1,001 pixels")
    assert not _agree("mean 0.21 of 1,000", "mean 0.31 of 1,000")
    assert not _agree("mean 0.21 of 1,000", "median 0.21 of 1,000")
    assert not _agree("mean 0.21", "mean 0.21 of all")


@pytest.mark.parametrize("page", ["tutorial-first-map", "tutorial-kepler", "tutorial-two-years"])
def test_notebooks_are_made_from_their_pages(page):
    name = page.removeprefix("tutorial-")
    kept = (ROOT / f"docs/notebooks/{name}.ipynb").read_text(encoding="utf-8")
    assert json.loads(kept) == json.loads(nbformat.writes(notebook(page)))
    assert f"[This page as a notebook](notebooks/{name}.ipynb)" in (ROOT / f"docs/{page}.md").read_text(
        "utf-8"
    )


def _whole_tile(folder):
    """The bands of the part of T11UPT that is here, as files of the whole tile, without data elsewhere."""
    data = shared("tile_t11upt")
    goal = folder / "test/data"
    shutil.copytree(data, goal / "landcover", ignore=shutil.ignore_patterns("*60m.tif"))
    with rasterio.open(data / "reflectance_60m.tif") as file:
        planes = dict(zip(file.descriptions, file.read(), strict=True))
        column, row = (file.bounds.left - 600000) / 60, (5800020 - file.bounds.top) / 60
    for name in ("SCL", "AOT", "WVP"):
        with rasterio.open(data / f"{name.lower()}_60m.tif") as file:
            planes[name] = file.read(1)
    for name, plane in planes.items():
        whole = np.zeros((1, 1830, 1830), plane.dtype)
        whole[0, int(row) :, int(column) :][: plane.shape[0], : plane.shape[1]] = plane
        path = goal / f"sentinel/T11UPT_20200804T183919_{name}_60m.jp2"
        write_raster(path, whole, (600000, 5800020), 60, "EPSG:32611", 1024)


def _koi(folder):
    (folder / "cumulative.csv.gz").symlink_to(shared("kepler_koi") / "cumulative.csv.gz")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("page", "bring"),
    [
        pytest.param("tutorial-kepler", _koi, marks=pytest.mark.slow),
        pytest.param("tutorial-first-map", _whole_tile, marks=pytest.mark.slow),
        pytest.param("tutorial-two-years", lambda folder: None, marks=pytest.mark.slow),
    ],
    ids=["kepler", "first-map", "two-years"],
)
def test_notebooks_print_what_their_pages_say(page, bring, tmp_path, monkeypatch):
    """Numbers to 10 %: libraries and processors differ. Figures are those that the page shows."""
    bring(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for printed, said in run_notebook(notebook(page), tmp_path):
        for line in (said or "").splitlines():
            if line.strip() not in ("", "..."):
                assert any(_agree(line, other) for other in printed.splitlines()), (line, printed)
    name = page.removeprefix("tutorial-")
    shown = re.findall(rf"images/({name}[\w-]*\.png)", (ROOT / f"docs/{page}.md").read_text(encoding="utf-8"))
    assert {path.name for path in tmp_path.glob("*.png")} == set(shown)


def _commands_of(page):
    """The indented lines of a page that begin with a command or are part of one."""
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))
    return [line.strip() for line in re.findall(r"(?m)^    (\S.*)$", text.replace("\\\n", ""))]


def test_commands_of_the_readme_run(tmp_path, monkeypatch):
    """On a small scene, with fewer worlds, and polygons from the truth."""
    files = write_scene(tmp_path / "scene", LandscapeOptions(size=120))
    (tmp_path / "SCENE").symlink_to(files.product(2020).resolve())
    with rasterio.open(files.truth(2020)) as dataset:
        truth, crs, transform = dataset.read(1), dataset.crs, tuple(dataset.transform)[:6]
    names = load_scheme("lulucf")
    boxes = [(row, col, row + 6, col + 6) for row in range(0, 120, 6) for col in range(0, 120, 6)]
    pure = [box for box in boxes if np.ptp(truth[box[0] : box[2], box[1] : box[3]]) == 0]
    found = [names[int(truth[row, col])].name for row, col, *_ in pure]
    write_polygons(tmp_path / "polygons.gpkg", pure, found, Grid(crs.to_string(), transform, 120, 120))
    monkeypatch.chdir(tmp_path)
    commands = [line for line in _commands_of(ROOT / "README.md") if line.startswith("uncover ")]
    assert len(commands) == 8
    for command in commands:
        words = ["3" if word == "25" else word for word in shlex.split(command)[1:]]
        words += ["--export", "site"] if words[0] == "view" else []
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, (command, result.output)
    assert Path("map/report.html").stat().st_size > 100_000


@pytest.mark.slow
def test_commands_of_the_tutorial_on_maps_run(tmp_path):
    script = "\n".join(_commands_of(ROOT / "docs/tutorial-map.md"))
    script = script.replace("uncover demo", "uncover demo --size 200")
    program = f'uncover() {{ "{sys.executable}" -m uncover.cli "$@"; }}'
    subprocess.run(["bash", "-euc", f"{program}\n{script}"], cwd=tmp_path, check=True)
    assert (tmp_path / "report.html").exists()


def test_commands_of_the_page_on_several_dates_run(tmp_path, monkeypatch):
    """Those on the simulated year, on a smaller scene; four dates are better than one."""
    monkeypatch.chdir(tmp_path)
    lines = _commands_of(ROOT / "docs/time-series.md")
    commands = lines[: next(i for i, line in enumerate(lines) if "A/SCL.tif" in line)]
    for line in commands:
        if re.fullmatch(r"[A-Z]+=\S+", line):
            monkeypatch.setenv(*line.split("="))
            continue
        words = [os.path.expandvars(word) for word in shlex.split(line.replace("--size 300", "--size 200"))]
        given = [
            path
            for word in words
            for path in (sorted(map(str, Path().glob(word))) if "*" in word else [word])
        ]
        result = CliRunner().invoke(main, given[1:])
        assert result.exit_code == 0, (line, result.output)
    assert sum(line.startswith("uncover ") for line in commands) == 7
    item = json.loads(Path("seasons/item.json").read_text(encoding="utf-8"))["properties"]
    assert [each["date"] for each in item["uncover:dates"]] == ["MAM", "JJA", "SON"]
    found = json.loads(Path("evaluation/evaluation.json").read_text(encoding="utf-8"))
    assert found["accuracy"]["overall accuracy"]["value"] > 0.8


def test_the_gallery_makes_its_figures(tmp_path):
    tool = [sys.executable, ROOT / "tools/gallery_pictures.py", tmp_path]
    subprocess.run(tool, check=True)
    made = {path.name for path in tmp_path.iterdir()}
    shown = re.findall(
        r"images/(gallery-[\w-]+\.png)", (ROOT / "docs/gallery.md").read_text(encoding="utf-8")
    )
    assert made == set(shown) and len(shown) > 3


def test_figures_of_the_first_pages_exist_and_are_small():
    for page in (ROOT / "README.md", ROOT / "docs/index.md", ROOT / "docs/gallery.md"):
        for name in re.findall(r"\]\((?:docs/)?(images/[\w-]+\.png)\)", page.read_text(encoding="utf-8")):
            assert (ROOT / "docs" / name).stat().st_size < 400_000, (page.name, name)


def test_the_reference_of_commands_names_every_option():
    """Every command is a section and every option an entry, with its default."""
    spec = importlib.util.spec_from_file_location("commands", ROOT / "docs/_ext/commands.py")
    extension = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(extension)
    text = extension.as_markdown("uncover.cli:main")
    for name, command in main.commands.items():
        section = text.split(f"## uncover {name}\n", 1)[1].split("\n## ", 1)[0]
        for option in command.params:
            if option.param_type_name == "option":
                assert re.search(rf"(?m)^````\{{option\}} .*{option.opts[0]}\b", section), (name, option.name)
    assert "\\[default: 25\\]" in text


def test_versions_of_the_citation_and_the_package_agree():
    cited = re.search(r"(?m)^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited[1] == uncover.__version__
