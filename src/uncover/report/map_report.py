"""The report of a map: what stands in which section, from a summary to a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from uncover import __version__
from uncover.files import reader, whole_or_nothing
from uncover.pipeline.contents import Contents
from uncover.pipeline.evaluation import StoredEvaluation
from uncover.pipeline.file_kinds import check_apart
from uncover.pipeline.map_facts import shares_in_words
from uncover.progress import step
from uncover.raster.fingerprints import sha256_of
from uncover.report.figures import (
    area_parts_table,
    areas_figure,
    bands_figure,
    claims_figure,
    claims_table,
    components_figure,
    confusion_figure,
    detection_figure,
    detection_table,
    detection_words,
    overlap_table,
    rates_table,
    reliability_figure,
    scores_table,
    shares_figure,
    worlds_figure,
)
from uncover.report.page import Fragment, Headline, Note, Page, Part, Section, Table, Text, page_goal, render
from uncover.report.plots import percent
from uncover.report.style import look_alikes, require_report
from uncover.report.summary import Summary, summarise
from uncover.report.traceability import traceability_section
from uncover.report.viewer import indexed_png, photograph, viewer


@reader
def make_report(
    folder: str | Path,
    out: str | Path | None = None,
    *,
    labels: str | Path | None = None,
    class_field: str | None = None,
    evaluations: Sequence[str | Path] = (),
) -> Path:
    """Write the report of a folder as one HTML file, `report.html` in it by default.

    Parameters
    ----------
    folder
        What `uncover map` wrote; or a folder with such a map in `map/` and, beside it, `labels.tif`,
        `evaluation/` and `scene/`, as `uncover demo` makes it.
    out
        The file to write.
    labels, class_field, evaluations
        Training labels (of a vector file: the field with the class), and folders that `uncover evaluate`
        wrote, where they lie elsewhere.

    Examples
    --------
    >>> make_report("nowhere")
    Traceback (most recent call last):
    ...
    ValueError: nowhere is not a folder; give one that ... wrote
    """
    require_report("jinja2", "matplotlib", "PIL")
    contents = Contents.of(folder, labels, evaluations, class_field)
    check_apart(out, folder, labels, *evaluations)
    goal = page_goal(contents.folder / "report.html" if out is None else out)
    with whole_or_nothing(goal) as path:
        path.write_text(render(map_page(summarise(contents), _hashes(contents))), "utf-8")
    return goal


def map_page(summary: Summary, hashes: Mapping[str, str] | None = None) -> Page:
    """The page of a summary."""
    fragment, data = viewer(summary)
    makers: tuple[Callable[[Summary], Section | None], ...] = (
        _scene_section,
        _model_section,
        lambda summary: Section("map", "The map and its uncertainty", _map_lead(summary), (fragment,)),
        _beside_section,
        _accuracy_section,
        _areas_section,
        _unknown_section,
        lambda summary: traceability_section(summary, _quantities(summary)),
        lambda summary: _provenance_section(summary, hashes or {}),
    )
    sections = []
    for number, make in enumerate(makers):
        step("drawing", number, len(makers))
        sections.append(make(summary))
    height, width = summary.grid.shape
    return Page(
        title=f"Land cover of {summary.identity}",
        subtitle=(
            f"{width:,} × {height:,} pixels {summary.pixel}, {len(summary.classes)} classes, each with its "
            f"probability and an account of how uncertain it is and why. {summary.remark}"
        ),
        sections=tuple(section for section in sections if section is not None),
        headlines=_headlines(summary),
        warnings=tuple(f"Warning: {each}." for each in summary.facts.warnings()),
        data={"viewer": data},
        styles=("viewer.css",),
        scripts=("story.js", "viewer.js"),
        footer=f"Made by uncover {__version__}. This file needs no network and no other file.",
    )


def _headlines(summary: Summary) -> tuple[Headline, ...]:
    largest = max(range(len(summary.names)), key=lambda k: float(summary.areas.share[k]))
    share = percent(float(summary.areas.share[largest]))
    found = [Headline(share, f"{summary.names[largest]}, the largest class", "of the mapped area")]
    mine = [each for each in summary.evaluations if each.facts["map"] == summary.evaluations[0].facts["map"]]
    for evaluation in mine[:2]:
        entry = evaluation.facts["accuracy"]["overall accuracy"]
        what = f"overall accuracy of {evaluation.population(summary.names)}"
        ends = f"{percent(entry['lower'])} to {percent(entry['upper'])}"
        found.append(Headline(percent(entry["value"]), what, ends))
    for evaluation in mine[:1]:
        error = evaluation.facts["calibration error"]["top label"]
        what = f"calibration error of {evaluation.population(summary.names)}"
        found.append(Headline(f"{error['value']:.3f}", what, "promised against what came true"))
    total = summary.facts.mean_uncertainty["total"]
    found.append(
        Headline(
            f"{total:.3f}", "mean uncertainty, nats", f"at most {math.log(max(len(summary.names), 2)):.2f}"
        )
    )
    if total > 0:
        part = percent(summary.facts.mean_uncertainty["measurement"] / total)
        found.append(Headline(part, "of it from the measurement"))
    found.append(Headline(percent(summary.facts.unlike), "unlike anything trained", "of the mapped area"))
    mapped = percent(summary.facts.mapped_pixels / summary.facts.pixels)
    lost = ", ".join(summary.facts.unmapped_pixels)
    found.append(Headline(mapped, "of all pixels are mapped", f"the others: {lost}" if lost else ""))
    return tuple(found)


def _scene_section(summary: Summary) -> Section:
    parts: list[Part] = []
    pictures = summary.pictures
    if pictures.colours is not None:
        parts.append(_scene_picture(summary))
    parts.append(shares_figure(summary))
    parts += _notes(summary, "scene", "labels")
    alike = look_alikes(summary.colours)
    if alike:
        pairs = ", ".join(f"{summary.names[i]} and {summary.names[j]} ({who})" for i, j, who in alike)
        parts.append(
            Note(
                f"Some class colours are hard to tell apart: {pairs}.",
                "They are those of the product's class scheme. Figures add marks and names, and a click on "
                "the map names the class.",
            )
        )
    return Section("scene", "The scene and its labels", "", tuple(parts))


def _scene_picture(summary: Summary) -> Fragment:
    pictures = summary.pictures
    assert pictures.colours is not None
    bands = ", ".join(pictures.colour_bands)
    there = sum(summary.label_counts.values())
    reading = f"Bands {bands} in red, green and blue, brightened."
    if there:
        reading += f" On top are {there:,} labelled pixels; the model is trained on these or on some of them."
    counts = ", ".join(f"{name} {n:,}" for name, n in summary.label_counts.items())
    return Fragment(
        "scene.html",
        {
            "title": "The scene" + (" and its labelled pixels" if there else ""),
            "colours": photograph(pictures.colours),
            "alt": f"The scene {summary.identity} in colours of the bands {bands}.",
            "labels": None if pictures.labels is None else indexed_png(pictures.labels, summary.colours),
            "labels_alt": f"Labelled pixels: {counts}.",
            "classes": summary.classes,
            "reading": reading,
        },
    )


def _model_section(summary: Summary) -> Section | None:
    if summary.model is None:
        return None
    parts: list[Part | None] = [bands_figure(summary), components_figure(summary), overlap_table(summary)]
    counts = zip(summary.names, summary.model.count, strict=True)
    lead = (
        f"{summary.model.kind} ({summary.model.realisations} realisations), trained on "
        + ", ".join(f"{n:,.0f} of {name}" for name, n in counts)
        + "."
    )
    return Section("model", "What the model learned", lead, tuple(p for p in parts if p is not None))


def _map_lead(summary: Summary) -> str:
    worlds = summary.areas.worlds.shape[1]
    source = summary.item["properties"].get("uncover:measurement_uncertainty", {}).get("source", "none")
    step = summary.pictures.step
    lead = f"Measurement uncertainty: {source}" + (f", {worlds} worlds. " if worlds > 1 else ". ")
    if worlds > 1 and summary.item["properties"].get("uncover:paired"):
        lead += "The scene trained the model itself: the error that all its pixels share cancels, mostly. "
    if step > 1:
        lead += f"One pixel of the pictures stands for {step} × {step} pixels of the map; "
        return lead + "stories are of single pixels of the map, at full resolution."
    return lead + "The pictures have the map's own resolution."


def _beside_section(summary: Summary) -> Section | None:
    """Models side by side: what each claims of the same pixels, and what came true."""
    if not summary.beside:
        return None
    population = summary.beside[0][2].population(summary.names)
    lead = (
        f"Several models on the same {population}. The mean probability of the mapped class is what a map "
        "claims to have right, the share that is right is what came true; over-statement is their difference."
    )
    parts = (claims_figure(summary.beside), claims_table(summary.beside))
    return Section("claims", "Claims and outcomes", lead, parts)


def _accuracy_section(summary: Summary) -> Section:
    parts: list[Part] = []
    for i, evaluation in enumerate(summary.evaluations, start=1):
        compared = _compared(evaluation, evaluation.population(summary.names))
        parts.append(Text(f"{evaluation.facts['map']}: {evaluation.name}", compared))
        said = "; ".join(evaluation.facts.get("warnings", ()))
        if said:
            parts.append(Note(f"Beware: {said}."))
        parts += [confusion_figure(evaluation, i), reliability_figure(evaluation, summary, i)]
        parts += [scores_table(evaluation), rates_table(evaluation)]
    parts += _notes(summary, "evaluation")
    several = "Each comparison of a map with a reference, the ones of this map first."
    lead = several if len(summary.evaluations) > 1 else ""
    return Section("accuracy", "How good it is", lead, tuple(parts))


def _compared(evaluation: StoredEvaluation, population: str) -> str:
    reference, design = evaluation.facts["reference"], evaluation.facts["design"]["name"]
    how = f"a {design} sample" if design else "no probability sample"
    return f"Compared with {reference['name']}: {reference['samples']:,} samples, {population}; {how}."


def _areas_section(summary: Summary) -> Section:
    spread = worlds_figure(summary)
    causes = area_parts_table(summary)
    parts: list[Part] = [areas_figure(summary), *([] if causes is None else [causes])]
    parts += [] if spread is None else [spread]
    if not any(evaluation.areas for evaluation in summary.evaluations):
        parts.append(
            Note(
                "These are areas on the map; they carry the map's errors of classification.",
                "With a probability sample as reference (uncover evaluate --design …) they can be "
                "corrected, and get intervals.",
            )
        )
    facts = summary.facts
    rows = tuple(
        (name, f"{n:,}", f"{facts.unmapped_area[name]:,.1f}") for name, n in facts.unmapped_pixels.items()
    )
    if rows:
        header = ("why", "pixels", f"area, {facts.unit}")
        parts.append(Table("Without a class, in no area above", header, rows, wide=False))
    lead = _areas_lead(summary.areas.note, summary.areas.unit)
    if (shares := shares_in_words(summary.item.get("properties", {}))) is not None:
        lead += f" Class shares of the place are {shares}."
    return Section("areas", "Areas", lead, tuple(parts))


def _areas_lead(note: str, unit: str) -> str:
    """The note of the table of areas, in words in the place of names of columns.

    >>> _areas_lead("area_ha counts pixels; sd_over_worlds_ha is the standard deviation of area_ha.", "ha")
    'The mapped area counts pixels; sd over the worlds is the standard deviation of the mapped area.'
    """
    words = {
        f"sd_over_worlds_{unit}": "sd over the worlds",
        f"standard_uncertainty_{unit}": "the standard uncertainty",
        f"expected_{unit}": "the expected area",
        f"area_{unit}": "the mapped area",
    }
    for name, word in words.items():
        note = note.replace(name, word)
    return note[0].upper() + note[1:]


def _unknown_section(summary: Summary) -> Section:
    unlike = percent(summary.facts.unlike)
    lead = (
        f"{unlike} of the mapped area looks like nothing that the model was trained on.{_none_words(summary)}"
    )
    if summary.detection is None:
        return Section("unknown", "The unknown", lead, tuple(_notes(summary, "truth")))
    found = summary.detection
    parts = (detection_figure(found), detection_table(found))
    return Section("unknown", "The unknown", f"{lead} {detection_words(found)}", parts)


def _none_words(summary: Summary) -> str:
    """Sentence on the expected area of none of the classes; empty where the map has no such layer."""
    areas = summary.areas
    if not areas.none:
        return ""
    unit, item = areas.unit, summary.item.get("properties", {})
    spread = areas.none.get(f"sd_over_worlds_{unit}")
    within = "" if spread is None else f" ± {spread:.3g} (over the worlds)"
    estimated = "estimated" if "uncover:unknown_share_uncertainty" in item else "stated"
    return (
        f" None of the classes is expected on {areas.none[f'expected_{unit}']:,.4g}{within} {unit}, "
        f"{percent(areas.none['share'])} of mapped land, with a share of "
        f"{item.get('uncover:unknown_share', math.nan):.3g} {estimated} beforehand."
    )


def _provenance_section(summary: Summary, hashes: Mapping[str, str]) -> Section:
    item, run = summary.item.get("properties", {}), summary.run
    made = {
        "run": item.get("uncover:run"),
        "scene": item.get("uncover:scene"),
        "sensed": item.get("datetime"),
        "model trained on": ", ".join(_scene_words(scene) for scene in item.get("uncover:trained_on", ())),
        "the scene trained the model": "yes" if item.get("uncover:paired") else "no",
        "reference system": item.get("proj:code"),
        "lineage": item.get("processing:lineage"),
        "thresholds": ", ".join(f"{k} {v:g}" for k, v in item.get("uncover:thresholds", {}).items()),
        "coverage of the sets of classes": item.get("uncover:coverage"),
        **{f"version of {name}": number for name, number in run.get("versions", {}).items()},
        "report made by": f"uncover {__version__}",
        **{f"SHA-256 of {name}": value for name, value in hashes.items()},
    }
    rows = tuple((key, str(value)) for key, value in made.items() if value not in (None, ""))
    parts: list[Part] = [Table("How it was made", ("what", "value"), rows, words=True)]
    if not (item.get("uncover:measurement_uncertainty") or {}).get("quantities"):
        parts += _quantities(summary)  # of the training scenes alone
    for title, facts in (
        ("Measurement uncertainty", item.get("uncover:measurement_uncertainty", {})),
        ("Training", summary.provenance),
    ):
        facts = {key: value for key, value in (facts or {}).items() if key != "quantities"}
        if "sources" in facts:  # their uncertainty is in the table of quantities
            facts["sources"] = [_source_in_words(source) for source in facts["sources"]]
        if facts:
            parts.append(Table(title, ("what", "value"), tuple(_flat(facts)), words=True))
    return Section("provenance", "Provenance", "", tuple(parts))


def _quantities(summary: Summary) -> list[Part]:
    return quantity_tables(summary.item.get("properties", {}), summary.provenance)


def _scene_words(scene: Mapping[str, Any]) -> str:
    """Name and identity of a scene.

    >>> _scene_words({"name": "june.tif", "identity": "sha256:1f"}), _scene_words({"name": "GS2A"})
    ('june.tif (sha256:1f)', 'GS2A')
    """
    name, identity = scene.get("name"), scene.get("identity")
    return str(name) if identity in (None, name) else f"{name} ({identity})"


def _source_in_words(source: Mapping[str, Any]) -> str:
    """A training scene with the samples of each class.

    >>> _source_in_words({"name": "june", "identity": "june", "drawn": {"forest": 9}, "used": {"forest": 7}})
    'june: samples used forest 7, of forest 9 drawn'
    """
    used, drawn = (source.get(key) or {} for key in ("used", "drawn"))
    return f"{_scene_words(source)}: samples used {_short(used)}" + (
        f", of {_short(drawn)} drawn" if drawn != used else ""
    )


def quantity_tables(item: Mapping[str, Any], provenance: Mapping[str, Any] | None) -> list[Part]:
    """Tables of the input quantities of the map and of the training scenes, with all that is recorded."""
    scenes = [("this scene", item.get("uncover:measurement_uncertainty") or {})]
    scenes += [
        (_training_scene(source.get("name"), item), source.get("uncertainty") or {})
        for source in (provenance or {}).get("sources", ())
    ]
    rows = [
        (str(quantity.get("name")), where, *_quantity(quantity))
        for where, facts in scenes
        for quantity in facts.get("quantities", ())
    ]
    words = ("estimate", "standard uncertainty", "units", "distribution", "correlation", "source")
    header = ("quantity", "of", *words)
    return [Table("Input quantities", header, tuple(rows), words=True)] if rows else []


def _training_scene(name: Any, item: Mapping[str, Any]) -> str:
    """By its name, and whether it is the map's: files of one name may be of two scenes."""
    same = name is not None and name == item.get("uncover:scene")
    if same and item.get("uncover:paired"):
        return "training scene, which is this one"
    return f"training scene {name}" + (", another one" if same else "")


def _quantity(quantity: Mapping[str, Any]) -> tuple[str, ...]:
    """Estimate, standard uncertainty, units, distribution, correlation and source of a quantity, in words."""
    u, units = quantity.get("standard_uncertainty"), str(quantity.get("units", ""))
    said = "–" if u is None else _short(u)
    if "expanded_uncertainty" in quantity:
        k = _short(quantity["coverage_factor"])
        said += f" (from U = {_short(quantity['expanded_uncertainty'])}, k = {k})"
    if quantity.get("standard_uncertainty_is"):
        said += f" ({quantity['standard_uncertainty_is']})"
    shape = str(quantity.get("distribution", ""))
    if "distribution_mean" in quantity:
        spread = quantity["distribution_standard_deviation"]
        shape += f": mean {quantity['distribution_mean']:.4g}, standard deviation {spread:.4g}"
    draws = quantity.get("draws")
    if draws:
        shape += f"; {draws['number']} draws"
        if "mean" in draws:
            shape += f": {draws['mean']:.4g}, {draws['standard_deviation']:.4g}"
    shared = f"{quantity.get('between_pixels')} between pixels"
    if quantity.get("between_scenes"):
        shared += f", {quantity['between_scenes']} between scenes"
    matrix = quantity.get("between_bands")
    if isinstance(matrix, str):
        shared += f", between bands {matrix}"
    elif matrix is not None:
        off = [abs(r) for i, row in enumerate(matrix) for j, r in enumerate(row) if i != j]
        shared += f", between bands up to {max(off):.2g}" if any(off) else ", none between bands"
    source = str(quantity.get("source") or "")
    if "source_sha256" in quantity:
        source += f" (SHA-256 {quantity['source_sha256']})"
    estimate = "–" if quantity.get("estimate") is None else _short(quantity["estimate"])
    return estimate, said, units, shape, shared, source


def _flat(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and short texts of a record."""
    rows = []
    for key, value in facts.items():
        if value is None:
            continue
        text = _short(value)
        if key == "scheme" and isinstance(value, Mapping):
            text = f"{value.get('name')}: " + ", ".join(str(c["name"]) for c in value.get("classes", ()))
        rows.append((str(key), text if len(text) <= 400 else text[:400] + " …"))
    return rows


def _short(value: Any) -> str:
    """A value in few letters: numbers with four digits, lists and records in a line.

    >>> _short([0.123456, {"draws": 25}])
    '0.1235, draws 25'
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_short(each)}" for key, each in value.items() if each is not None)
    if isinstance(value, list | tuple):
        return ", ".join(_short(each) for each in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _notes(summary: Summary, *names: str) -> list[Part]:
    return [Note(*summary.missing[name]) for name in names if name in summary.missing]


def _hashes(contents: Contents) -> dict[str, str]:
    """Hashes of the files that the report rests on."""
    folder = contents.map
    names = (
        "class.tif",
        "probability.tif",
        "uncertainty.tif",
        "quality.tif",
        "sets.tif",
        "map.nc",
        "model.uncover",
    )
    files = [folder / name for name in names]
    files += [] if contents.labels is None else [Path(contents.labels)]
    return {path.name: sha256_of(path) for path in files if path.is_file()}
