"""What is in a folder that a command wrote: a map, an evaluation, or a run that was not finished."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uncover.pipeline.description import Description, Facts, grid_facts
from uncover.pipeline.evaluation import FILES as EVALUATION_FILES
from uncover.pipeline.map_product import CLASS_FILE, DATASETS, MapProduct
from uncover.pipeline.map_table import left_out
from uncover.raster.errors import damaged
from uncover.raster.unfinished import in_use

_FORMATS = {CLASS_FILE: "Cloud-Optimised GeoTIFF", "map.zarr": "Zarr", "map.nc": "NetCDF"}


def describe_folder(path: Path) -> Description | None:
    """What a folder of ours holds; None where it is not one of them."""
    unfinished = Path(f"{path}.partial")
    if not path.exists() and unfinished.is_dir():
        return _unfinished(unfinished)
    if path.name in (*DATASETS, "item.json") and _is_map(path.parent):
        path = path.parent
    if not path.is_dir():
        return None
    if (path / "journal").is_file():
        return _unfinished(path)
    if (path / "evaluation.json").is_file():
        return _evaluation(path)
    return _map(path) if _is_map(path) else None


def _is_map(path: Path) -> bool:
    return (path / "item.json").is_file() and any((path / name).exists() for name in _FORMATS)


def _read(path: Path) -> dict[str, Any]:
    with damaged(str(path)):
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def _map(path: Path) -> Description:
    item = _read(path / "item.json")
    said = {k.removeprefix("uncover:"): v for k, v in item["properties"].items() if k.startswith("uncover:")}
    product = MapProduct.open(path)
    facts: Facts = {
        "scene": said.get("scene"),
        "format": next(title for name, title in _FORMATS.items() if (path / name).exists()),
        **_areas(path / "areas.csv"),
        "measurement uncertainty": said.get("measurement_uncertainty"),
        "worlds": said.get("worlds"),
        "trained on": [source["name"] for source in said.get("trained_on", ())],
        "paired": said.get("paired"),
        "pixels that lack bands": said.get("missing"),
        "coverage of sets of classes": said.get("coverage"),
        "made by": item["properties"].get("processing:software"),
        **grid_facts(product.grid),
    }
    if (path / "run.json").is_file():
        run = _read(path / "run.json")
        facts["run"] = {key: run.get(key) for key in ("began", "seconds", "model", "scene")}
    lacking = [a["href"] for a in item["assets"].values() if not (path / a["href"]).exists()]
    if lacking:
        facts["lacks"] = lacking
    return Description("map", {key: value for key, value in facts.items() if value is not None})


def _areas(path: Path) -> Facts:
    """Pixels and area of each class, and what the worlds do to it."""
    if not path.is_file():
        return {"lacks": [path.name]}
    with damaged(str(path)), open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
        unit = "ha" if "area_ha" in rows[0] else "pixels"
        columns = ["pixels", f"area_{unit}", "share", f"expected_{unit}"]
        if int(rows[0]["worlds"]) > 1:
            columns += [f"sd_over_worlds_{unit}", f"sd_over_worlds_mc_error_{unit}"]
        found: Facts = {key: {f"{r['code']} {r['class']}": _number(r[key]) for r in rows} for key in columns}
        found["areas"] = rows[0]["note"]
        lost = left_out(rows)
        return found if lost is None else {**found, "left out": lost}


def _number(text: str) -> float | int | None:
    return None if not text else int(text) if text.isdigit() else float(text)


def _evaluation(path: Path) -> Description:
    found = _read(path / "evaluation.json")
    with damaged(str(path / "evaluation.json")):
        facts: Facts = {
            "map": found["map"],
            "reference": found["reference"],
            "design": found["design"]["name"] or "none: not a probability sample",
            "classes": found["classes"],
            "overall accuracy": _interval(found["accuracy"]["overall accuracy"]),
            "scores": {name: _interval(v) for name, v in found["scores"].items() if _is_result(v)},
            "calibration error": {name: _interval(v) for name, v in found["calibration error"].items()},
        }
        if found["estimated area"]:
            unit = found["unit of areas"]
            facts[f"estimated area, {unit}"] = {k: _interval(v) for k, v in found["estimated area"].items()}
        facts["warnings"] = found["warnings"]
    lacking = [name for name in EVALUATION_FILES if not (path / name).is_file()]
    return Description("evaluation", facts | ({"lacks": lacking} if lacking else {}))


def _is_result(value: Any) -> bool:
    return isinstance(value, Mapping) and "lower" in value


def _interval(found: Mapping[str, Any]) -> str:
    def show(value: Any) -> str:
        return f"{value:.4g}" if isinstance(value, float | int) else str(value or "unknown")

    if found["value"] is not None and found["lower"] is None:
        return f"{show(found['value'])} (no interval)"
    return f"{show(found['value'])} ({show(found['lower'])} to {show(found['upper'])})"


def _unfinished(path: Path) -> Description:
    """How far a run came, and how it goes on."""
    goal = str(path).removesuffix(".partial")
    lines = (
        (path / "journal").read_text("utf-8", "replace").splitlines() if (path / "journal").exists() else []
    )
    pieces = [line for line in lines[1:] if line.startswith('{"piece"')]
    done = [json.loads(line)["piece"] for line in pieces if line.endswith("}")]
    blocks = [piece for piece in done if piece.isdigit()]
    is_map = (path / "scratch").is_dir() or len(blocks) < len(done)
    command = "uncover map MODEL SCENE" if is_map else "uncover realise SCENE"
    facts: Facts = {"blocks finished": len(blocks)}
    if is_map:
        facts["files finished"] = [piece for piece in done if not piece.isdigit()]
    if in_use(path):
        facts["state"] = "a run is working on it"
    else:
        facts["to go on"] = f"{command} --out {goal} --resume, with the same inputs and options"
        facts["to begin anew"] = f"remove {path}"
    return Description(f"unfinished {'map' if is_map else 'cube'}", facts)
