"""The report of a study: reads the folder that `uncover reproduce` filled, draws figures, writes the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from uncover.files import read_json, reader, whole_or_nothing
from uncover.pipeline.file_kinds import check_apart
from uncover.report.page import Figure, Fragment, Headline, Note, Page, Section, Table, page_goal, render
from uncover.report.study_style import StudyFigure
from uncover.report.style import figure_style, inline_svg, require_report, save_figure

_TITLES = {"synthetic": "The synthetic study", "landcover": "The land cover study"}
_FIGURES = "figures"


@reader
def write_study_report(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write the figures (SVG and PNG) and the page of a finished study, `report.html` or `out`; its path."""
    require_report("matplotlib", "jinja2", "pandas")
    import pandas as pd

    place = Path(folder)
    if not (place / "findings.json").is_file():
        raise ValueError(f"{folder} holds no finished study; make one with `uncover reproduce`")
    check_apart(out, folder)
    facts = read_json(place / "study.json", dict[str, Any])
    findings = read_json(place / "findings.json", list[dict[str, Any]])
    tables = {file.stem: pd.read_parquet(file) for file in sorted((place / "tables").glob("*.parquet"))}
    (place / _FIGURES).mkdir(exist_ok=True)
    sections = _sections(facts, tables, place)
    goal = page_goal(place / "report.html" if out is None else out)
    with whole_or_nothing(goal) as path:
        path.write_text(render(_page(facts, findings, sections)), "utf-8")
    return goal


def _sections(facts: Mapping[str, Any], tables: Mapping[str, Any], place: Path) -> tuple[Section, ...]:
    from uncover.report import study_figures as of

    synthetic = facts["study"] == "synthetic"
    figures = of.synthetic_figures(tables) if synthetic else of.land_cover_figures(tables, place)
    made = {figure.name: _made(figure, place / _FIGURES) for figure in figures}
    return _synthetic_sections(facts, made) if synthetic else _land_cover_sections(facts, tables, made)


def _made(figure: StudyFigure, folder: Path) -> Figure:
    """Draw a figure, write its files, and return it as a part of a page."""
    with figure_style():
        drawing = figure.draw()
        drawing.draw_without_rendering()
        drawing.set_layout_engine("none")  # laid out once, not for each file
        for suffix in (".svg", ".png"):
            save_figure(drawing, folder / f"{figure.name}{suffix}")
        svg = inline_svg(drawing, figure.alternative)
    words = figure.reading, figure.alternative, figure.numbers, figure.wide
    return Figure(figure.name, figure.title, svg, *words)


def _land_cover_sections(
    facts: Mapping[str, Any], tables: Mapping[str, Any], figures: Mapping[str, Any]
) -> tuple[Section, ...]:
    """Figures in the order of the page."""
    data = [figures[name] for name in ("scene", "class-shares", "components", "bands") if name in figures]
    sizes = ", ".join(f"{size:,}" for size in sorted(tables["training"]["pixels"].unique()))
    years = " and ".join(year for year in facts["years"] if year)
    scores = tuple(figure for name, figure in figures.items() if name.startswith("scores"))
    return (
        Section(
            "pixels",
            "The data",
            f"{facts['data']}: {facts['pixels']:,} pixels with "
            f"{facts['realisations']} realisations of {len(facts['bands'])} "
            f"bands{f' in {years}' if years else ''}. Training sets of {sizes} pixels, nested; the test set "
            "is the same 90 % of the pixels for all.",
            tuple(data),
        ),
        Section("confusion-section", "Confusion", "", (figures["confusion"],)),
        Section("scores-section", "Scores", "", scores),
        Section("cost-section", "Computing cost", "", (figures["cost"],)),
    )


def _synthetic_sections(facts: Mapping[str, Any], figures: Mapping[str, Any]) -> tuple[Section, ...]:
    """Figures in the order of the page."""
    scores = tuple(part for name, part in figures.items() if name.startswith("scores-"))
    return (
        Section(
            "noise",
            "Scores against noise",
            f"{facts['points'] * 4:,} points in 4 classes, {facts['realisations']} realisations of each, "
            "four fifths for training. F₁ and F₂ are means over the classes; intervals are Student's over "
            "the data sets.",
            scores,
        ),
        Section("ours", "Further models", "Not in the paper.", (figures["ours-brier"],)),
        Section("cost-section", "Computing cost", "", (figures["cost"],)),
    )


_WAY = {
    "synthetic": "Differences are taken data set by data set, with Student's 95 % interval over them.",
    "landcover": "Intervals are of 95 %, by resampling test pixels (or their groups) for both models alike; "
    "they do not hold the luck of one draw of training pixels. Where claims differ from the paper's, mind "
    "that these are other data, with other classes and other shares of them.",
}


def _page(
    facts: Mapping[str, Any], findings: Sequence[Mapping[str, Any]], sections: tuple[Section, ...]
) -> Page:
    counts = Counter(finding["verdict"] for finding in findings)
    return Page(
        title=_TITLES[facts["study"]],
        subtitle="of Bilson, McCrory and Pustogvar (2025), An uncertainty-aware Bayesian framework for "
        f"machine learning classification models, repeated at the scale “{facts['scale']}” with the seed "
        f"{facts['seed']}.",
        headlines=tuple(
            Headline(str(counts.get(verdict, 0)), f"claims: {verdict}")
            for verdict in ("holds", "does not hold", "undecided", "too small to say")
            if verdict in counts or verdict != "too small to say"
        ),
        sections=(_claims(facts, findings), *sections, _models(facts)),
        footer=f"Made by uncover {facts['uncover']}. The tables behind all numbers are in the folder tables, "
        "as Parquet and CSV; figures are in the folder figures, as SVG and PNG.",
    )


def _claims(facts: Mapping[str, Any], findings: Sequence[Mapping[str, Any]]) -> Section:
    notes = [Note(note[0].upper() + note[1:] + ".") for note in facts.get("notes", ())]
    if facts["scale"] == "quick":
        notes.append(
            Note(
                "This is the quick scale, a small part of the study: intervals are wide, and claims that "
                "need many realisations or pixels may not show.",
                "Use --scale standard or --scale paper.",
            )
        )
    return Section(
        "claims",
        "Claim by claim",
        "What the paper found, and what was found here. A claim holds where the numbers support it with "
        "their intervals, does not hold where they contradict it, and is undecided where they do neither; a "
        "study that is smaller than a claim needs is too small to say. Numbers after § are sections of the "
        "paper. " + _WAY[facts["study"]],
        (*notes, Fragment("claims.html", {"findings": list(findings)})),
    )


def _models(facts: Mapping[str, Any]) -> Section:
    rows = tuple(
        (name, model["title"], "ours" if model["ours"] else "the paper's")
        for name, model in facts["models"].items()
    )
    return Section(
        "models",
        "The models",
        "All of scikit-learn with its defaults but for what is named, one thread. Models of one realisation "
        "each: model r predicts realisation π(r) of the test data, π a random permutation, and probabilities "
        "are averaged.",
        (Table("Models", ("name", "what it is", "whose"), rows),),
    )
