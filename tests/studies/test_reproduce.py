"""`uncover reproduce`: from the command to tables, figures and a report; the same tables every time."""

import json
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from study_cases import CLASSES, TINY, pixel_table
from uncover.cli import main
from uncover.report import study_figures
from uncover.studies import cells
from uncover.studies.cells import CellStore
from uncover.studies.landcover import LandCoverStudy
from uncover.studies.landcover_data import LandCoverData
from uncover.studies.synthetic import SCALES, SyntheticScale
from uncover.studies.tables import read_tables

MEASURED = ("cost",)  # times are not the same in two runs


def _some_figures(tables, every=study_figures.synthetic_figures):
    """The six figures of scores are drawn by the same lines: one of them will do."""
    first, *_, ours, cost = every(tables)
    return [first, ours, cost]


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory, small_models):
    out = tmp_path_factory.mktemp("synthetic") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SCALES, "quick", TINY)
        patch.setattr(study_figures, "synthetic_figures", _some_figures)
        arguments = ["reproduce", "synthetic", "--out", str(out), "--workers", "1"]
        yield out, CliRunner().invoke(main, arguments), arguments


@pytest.fixture(scope="module")
def landcover(tmp_path_factory, small_models):
    folder = tmp_path_factory.mktemp("landcover")
    pixel_table(pixels=300).to_parquet(folder / "pixels.parquet")
    out = folder / "out"
    arguments = [
        "reproduce",
        "landcover",
        "--data",
        str(folder / "pixels.parquet"),
        "--out",
        str(out),
        "--workers",
        "1",
    ]
    return out, CliRunner().invoke(main, arguments), arguments


def test_the_synthetic_study_runs_from_command_to_report(synthetic):
    out, result, _ = synthetic
    assert result.exit_code == 0, result.output
    assert "cells to compute, about" in result.stderr
    figures = {path.stem for path in (out / "figures").glob("*.svg")}
    assert (
        figures
        == {"scores-p2-gaussian", "ours-brier", "cost"}
        == {path.stem for path in (out / "figures").glob("*.png")}
    )
    every = {f.name for f in _some_figures.__defaults__[0](read_tables(out / "tables"))}
    assert {f"scores-p{p}-{kind}" for p in (2, 10, 50) for kind in ("gaussian", "uniform")} <= every
    findings = json.loads((out / "findings.json").read_text("utf-8"))
    for finding in findings:
        assert finding["verdict"] == "too small to say"
        assert finding["claim"] in result.stdout


def test_the_land_cover_study_runs_from_command_to_report(landcover):
    out, result, _ = landcover
    assert result.exit_code == 0, result.output
    figures = {path.stem for path in (out / "figures").glob("*.svg")}
    pairs = {f"scores-{a}-{b}" for a in (2020, 2021) for b in (2020, 2021)}
    assert {"class-shares", "components", "bands", "confusion", "cost", *pairs} <= figures
    assert not (out / "data").exists()
    tables = read_tables(out / "tables")
    assert set(tables["scores"]["train_year"]) == set(tables["scores"]["test_year"]) == {"2020", "2021"}
    counts = tables["confusion"].groupby(["train_year", "test_year", "fraction", "model"])["count"].sum()
    assert (counts == 270).all()  # the test set is 90 % of the pixels


def test_a_study_of_one_band_is_a_study(tmp_path, small_models, monkeypatch):
    monkeypatch.setattr("uncover.report.study.write_study_report", lambda folder: folder)
    frame = pixel_table(pixels=120, realisations=1, years=(2020,))
    frame[["B08", "date", "class"]].to_csv(tmp_path / "pixels.csv", index=False)
    arguments = ["reproduce", "landcover", "--data", str(tmp_path / "pixels.csv"), "--workers", "1"]
    result = CliRunner().invoke(main, [*arguments, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    tables = read_tables(tmp_path / "out" / "tables")
    assert set(tables["bands"]["band"]) == {"B08"} and "components" not in tables
    assert set(tables["scores"]["model"]) >= {"BQDA", "QDA", "RF", "NN", "LDA"}


def test_a_dry_run_refuses_what_the_run_would_refuse(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    arguments = ["reproduce", "synthetic", "--out", str(tmp_path), "--dry-run"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1 and "holds other files" in result.stderr


class _Ids(HTMLParser):
    def __init__(self):
        super().__init__()
        self.ids, self.links = [], []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found[name] for name in ("src", "href") if found.get(name)]


@pytest.mark.parametrize("which", ["synthetic", "landcover"])
def test_the_report_is_one_file_with_every_claim_and_figure(which, request):
    out, *_ = request.getfixturevalue(which)
    text = (out / "report.html").read_text("utf-8")
    page = _Ids()
    page.feed(text)
    assert len(page.ids) == len(set(page.ids))
    assert all(link.startswith(("#", "data:")) for link in page.links)
    for finding in json.loads((out / "findings.json").read_text("utf-8")):
        assert f"claim-{finding['name']}" in page.ids
    assert {path.stem for path in (out / "figures").glob("*.svg")} <= set(page.ids)
    assert str(out) not in text


@pytest.mark.parametrize("which", ["synthetic", "landcover"])
def test_tables_are_the_same_in_both_formats(which, request):
    out, *_ = request.getfixturevalue(which)
    for file in (out / "tables").glob("*.parquet"):
        table = pd.read_parquet(file)
        text = pd.read_csv(file.with_suffix(".csv"), keep_default_na=False, na_values=[""])
        assert list(text.columns) == list(table.columns) and len(text) == len(table)


def test_report_draws_a_study_again(landcover, tmp_path, monkeypatch):
    out, *_ = landcover
    monkeypatch.setattr("uncover.report.study._sections", lambda *_: ())  # figures are drawn above
    result = CliRunner().invoke(main, ["report", str(out), "--out", str(tmp_path / "again.html")])
    assert result.exit_code == 0, result.output
    assert "Claim by claim" in (tmp_path / "again.html").read_text("utf-8")


def test_the_same_command_goes_on_and_computes_nothing_twice(synthetic, monkeypatch):
    monkeypatch.setattr("uncover.report.study.write_study_report", lambda folder: folder)
    out, _, arguments = synthetic
    before = {path: path.read_bytes() for path in (out / "tables").iterdir()}
    stamps = {path.name: path.stat().st_mtime_ns for path in (out / "cells").iterdir()}
    lost = next((out / "cells").glob("*BQDA-and-others.json"))
    lost.unlink()
    dry = CliRunner().invoke(main, [*arguments, "--dry-run"])
    assert dry.stdout.startswith("1 of") and not lost.exists()
    again = CliRunner().invoke(main, arguments)
    assert again.exit_code == 0 and "1 of" in again.stderr
    after = {path.name: path.stat().st_mtime_ns for path in (out / "cells").iterdir()}
    assert {name for name in stamps if stamps[name] != after[name]} == {lost.name}
    same = [path for path in before if path.stem not in MEASURED]
    assert {path: path.read_bytes() for path in same} == {path: before[path] for path in same}
    other = CliRunner().invoke(main, [*arguments, "--seed", "1"])
    assert other.exit_code == 1 and "was begun with seed = 0, now it is 1" in other.stderr


def test_a_dry_run_estimates_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setitem(SCALES, "paper", SyntheticScale({2: 50}, (0.5,), (), points=40, realisations=40))
    monkeypatch.setattr(cells.tempfile, "tempdir", str(tmp_path))
    arguments = ["reproduce", "synthetic", "--scale", "paper", "--out", str(tmp_path / "out"), "--dry-run"]
    result = CliRunner().invoke(main, [*arguments, "--workers", "4"])
    assert result.exit_code == 0 and "with 4 workers" in result.stdout
    assert not list(tmp_path.iterdir())


def test_a_dry_run_of_the_embedded_scene_makes_a_small_one(tmp_path, monkeypatch):
    """It has the cells and the facts of the whole, and finds those that are done."""
    asked = []

    def scene(size, draws, seed):
        asked.append((size, draws))
        rng = np.random.default_rng(0)
        values = tuple(rng.random((400, draws, 2)) for _ in range(2))
        codes = np.arange(400) % 4
        return LandCoverData("scene", ("2020", "2021"), values, codes, CLASSES, ("B02", "B03"))

    monkeypatch.setattr("uncover.studies.landcover.embedded_scene", scene)
    whole, sketch = LandCoverStudy.embedded("paper", 0), LandCoverStudy.sketch("paper", 0)
    assert asked[0] == (2000, 25) and asked[1][0] <= 300
    assert sketch.data.pixels == pytest.approx(400 * (2000 / asked[1][0]) ** 2, rel=0.02)
    known = sketch.facts
    assert known == {name: whole.facts[name] for name in known} and "checksum" not in known
    mine, theirs = (study.cells(tmp_path / name) for study, name in ((whole, "a"), (sketch, "b")))
    assert {c.key for c in mine} <= {c.key for c in theirs}  # 0.1 % of 400 pixels are no training set
    assert {c.realisations for c in mine} == {c.realisations for c in theirs} == {25}
    out = tmp_path / "out"
    store = CellStore(out, whole.facts)
    for cell in theirs:
        if cell.models != ("RF",):
            store.save(cell.key, {"models": [{"model": name} for name in cell.models]})
    monkeypatch.setattr("uncover.studies.landcover.cpu_seconds", lambda *_: (1.0, 1.0))
    arguments = ["reproduce", "landcover", "--scale", "paper", "--out", str(out), "--dry-run"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"10 of {len(theirs)} cells to compute") and asked[2][0] <= 300


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--workers", "0"], "0 workers cannot compute"),
        (["--data", "pixels.csv"], "--data came for the synthetic study"),
        (["--data-sets", "0"], "0 data sets say nothing"),
    ],
)
def test_bad_options_are_one_clear_line(tmp_path, more, message):
    out = tmp_path / "out"
    result = CliRunner().invoke(main, ["reproduce", "synthetic", "--out", str(out), *more])
    assert result.exit_code == 1 and message in result.stderr
    assert len(result.stderr.splitlines()) == 1 and not out.exists()
