"""Descriptions for `uncover info` of models, scenes, cubes, labels, tables, schemes, maps and evaluations."""

from __future__ import annotations

import csv
import json
import math
import warnings
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uncover.files import check_file, in_use, read_json, reader
from uncover.labels import Scheme, Translation, load_scheme, load_translation, scheme_names, translation_names
from uncover.measurement.dates import dates_of
from uncover.measurement.features import Features
from uncover.pipeline.evaluation import read_facts
from uncover.pipeline.file_kinds import EVALUATION_FILES
from uncover.pipeline.label_sources import codes_in, is_vector, scheme_in
from uncover.pipeline.map_facts import MapFacts, shares_in_words
from uncover.pipeline.map_product import FORMATS, ITEM, MapProduct, is_map
from uncover.pipeline.map_table import NONE, UNCERTAIN, none_of, uncertainty_columns
from uncover.pipeline.tables import is_table, read_frame, read_table
from uncover.raster.align import RasterBand
from uncover.raster.cube import is_zarr, open_cube, zarr_kind
from uncover.raster.errors import NoScaleError, OffsetWarning, SceneError, damaged, require
from uncover.raster.grid import Grid
from uncover.raster.loose_files import SceneSource, source_name
from uncover.raster.map_formats import LAYER_TAG
from uncover.raster.names import split_layer
from uncover.raster.npy import is_npy
from uncover.raster.opening import open_scene
from uncover.raster.points import is_points, point_dates, read_points
from uncover.raster.safe import TEN_BANDS, bands_in, is_safe, metadata_of
from uncover.raster.samples import open_samples
from uncover.raster.scene import Scene, SceneOptions
from uncover.raster.scene_file import StatedFacts
from uncover.raster.tiles import RasterInfo, describe
from uncover.raster.vectors import fields_of, open_layer, read_features

if TYPE_CHECKING:
    from uncover.models.sets import WithSets

Facts = dict[str, Any]


@dataclass(frozen=True)
class Description:
    """Kind of a file, facts about it, and a page of text where there is more to say.

    >>> print(Description("labels", {"classes": {"forest": 3}, "crs": "EPSG:32633"}).text())
    labels
      classes
        forest: 3
      crs: EPSG:32633
    """

    kind: str
    facts: Facts
    page: str = ""

    def text(self) -> str:
        """Facts as indented lines, and the page."""
        return "\n".join([self.kind, *_lines(self.facts, "  "), *([self.page.rstrip()] if self.page else [])])


@reader
def describe_file(name: SceneSource, options: SceneOptions | None = None) -> Description:
    """Describe a file or folder; `schemes` lists the class schemes, a scheme's name shows it.

    >>> describe_file("lulucf").facts["classes"]["1"]
    'forest'
    """
    if not isinstance(name, str | Path):
        return _described(name, options or SceneOptions())
    text, path = str(name), Path(name)
    if text == "schemes":
        return Description("schemes", _shipped())
    if text in translation_names():
        return _translation(load_translation(text))
    if text in scheme_names():
        return _scheme(load_scheme(text))
    if "://" not in text:
        check_file(path)
    folder = describe_folder(path)
    if folder is not None:
        return folder
    if is_npy(text):
        return _raster_or_scene(path, options or SceneOptions())
    if "://" in text:
        return _described(text, options or SceneOptions())
    if not Path(split_layer(text)[0]).exists():
        raise SceneError(f"{name} does not exist; check the path, or try `uncover info schemes`")
    for is_kind, describe_kind in _KINDS:
        if is_kind(path):
            return describe_kind(path)
    return _raster_or_scene(path, options or SceneOptions())


def describe_folder(path: Path) -> Description | None:
    """Describe a folder that a command wrote; None where it is not one of them."""
    unfinished = Path(f"{path}.partial")
    if not path.exists() and unfinished.is_dir():
        return _unfinished(unfinished)
    if path.name in ("map.zarr", "map.nc", ITEM) and is_map(path.parent):
        path = path.parent
    if not path.is_dir():
        return None
    if (path / "journal").is_file():
        return _unfinished(path)
    if (path / "evaluation.json").is_file():
        return _evaluation(path)
    return _map(path) if is_map(path) else None


def _shipped() -> Facts:
    return {
        "class schemes": {name: load_scheme(name).title for name in scheme_names()},
        "translation tables": {name: load_translation(name).title for name in translation_names()},
    }


def _scheme(scheme: Scheme) -> Description:
    classes = {str(c.code): c.name + (f" ({c.parent})" if c.parent else "") for c in scheme.classes}
    facts: Facts = {"title": scheme.title, "reference": scheme.reference, "classes": classes}
    return Description(f"class scheme {scheme.name}", facts)


def _translation(table: Translation) -> Description:
    target = {c.code: c.name for c in table.target.classes} | {0: "no label"}
    rules = {
        f"{', '.join(str(c) for c in rule.codes)} {' / '.join(table.source[c].name for c in rule.codes)}": (
            target[rule.target] + (f" — {rule.why}" if rule.why else "")
        )
        for rule in table.rules
    }
    facts: Facts = {"title": table.title, "reference": table.reference, "note": table.note or None}
    facts |= {"from": table.source.name, "to": table.target.name, "rules": rules}
    return Description(f"translation table {table.name}", _known(facts))


def _table(path: Path) -> Description:
    try:
        table = read_table(path)
    except ValueError as error:
        if is_points(path):
            return _points(path)
        frame = read_frame(path)
        found: Facts = {"rows": len(frame), "columns": [str(column) for column in frame.columns]}
        return Description("table", found | {"note": str(error)})
    names, counts = np.unique(table.classes, return_counts=True)
    facts: Facts = {
        "samples": len(table),
        "realisations": table.realisations,
        "bands": list(table.bands),
        "classes": {str(name): int(n) for name, n in zip(names, counts, strict=True)},
    }
    columns = {"dates": table.dates, "groups": table.groups}
    facts |= {what: len(np.unique(column)) for what, column in columns.items() if column is not None}
    return Description("sample table", facts)


def _points(path: Path) -> Description:
    points = read_features(path, None)
    dates = sorted({date[:10] for date in point_dates(path)})
    facts: Facts = {"points": len(points), "columns": fields_of(path), "crs": read_points(path, ())[0]["crs"]}
    return Description("points", _known(facts | {"dates": dates or None}))


def _is_model(path: Path) -> bool:
    if path.suffix == ".uncover":
        return True
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as file:
        return "model.json" in file.namelist()


def _model(path: Path) -> Description:
    from uncover.estimators.describe import page_of
    from uncover.models.files import load_fitted

    model = load_fitted(path)
    sets = model.sets_
    names = range(model.n_features_in_) if model.feature_names_in_ is None else model.feature_names_in_
    counts = zip(model.classes_, model.class_count_, strict=True)
    facts: Facts = {
        "estimator": model.estimator_name,
        "classes": {str(name): int(count) if count == int(count) else float(count) for name, count in counts},
        **_bands([str(name) for name in names]),
        "units": model.units_,
        "features": None if model.features_ is None else str(Features.from_dict(model.features_)),
        "realisations": model.realisations,
        **({} if sets is None else {"sets of classes": _sets(model.classes_, sets)}),
        "provenance": _brief(model.provenance_, set(map(str, model.classes_))),
    }
    return Description("model", facts, "\n" + page_of(model))


def _bands(names: list[str]) -> Facts:
    """Features of a model; of several dates, these and what it takes of each."""
    try:
        dated = dates_of(names)
    except ValueError:  # a table may have other features at each date
        dated = None
    if dated is None:
        return {"bands": names}
    return {"dates": list(dated[0]), "features of each date": list(dated[1])}


def _sets(classes: Any, sets: WithSets) -> Facts:
    """Coverage of the sets, and how many samples of each class were kept from the model for them."""
    kept = {str(name): len(scores) for name, scores in zip(classes, sets.scores, strict=True)}
    return {"coverage": sets.coverage, "calibrated with": kept}


def _brief(provenance: Any, known: set[str]) -> Any:
    """Provenance with its class scheme in one line per class that the model knows."""
    if not isinstance(provenance, Mapping) or not provenance.get("scheme"):
        return provenance
    scheme = Scheme.from_dict(provenance["scheme"])
    classes = {str(c.code): c.name for c in scheme.classes if c.name in known}
    return {**provenance, "scheme": {"name": scheme.name, "classes": classes}}


def _is_vector(path: Path) -> bool:
    return is_vector(path) and path.suffix.lower() != ".json"


def _vector(path: Path) -> Description:
    require("pyogrio")
    import pyogrio

    file, asked = split_layer(path)
    names = [str(name) for name, kind in pyogrio.list_layers(file) if kind is not None]
    if asked is None and len(names) > 1:
        return Description("vector file", {"layers": {n: _layer_facts(f"{file}:{n}") for n in names}})
    return Description("vector file", _layer_facts(path))


def _layer_facts(name: str | Path) -> Facts:
    import pyogrio

    file, layer = open_layer(name)
    info = pyogrio.read_info(file, layer=layer)
    facts: Facts = {"features": int(info["features"]), "geometry": info["geometry_type"], "crs": info["crs"]}
    return facts | {"fields": fields_of(name)}


def _cube(path: Path) -> Description:
    cube = open_cube(path)
    facts: Facts = {"scene": cube.identity, "realisations": cube.realisations, "bands": list(cube.bands)}
    facts |= {name: np.asarray(values).tolist() for name, values in cube.coordinates.items()}
    return Description("cube", facts | dict(cube.attributes) | grid_facts(cube.grid))


def _samples(path: Path) -> Description:
    samples = open_samples(path)
    facts: Facts = {
        "samples": samples.count,
        "realisations": samples.realisations,
        "bands": list(samples.bands),
        "columns": list(samples.columns),
    }
    return Description("sample cube", facts | dict(samples.attributes))


def _raster_or_scene(path: Path, options: SceneOptions) -> Description:
    others = (".json", ".nc", ".nc4", ".h5")
    if path.is_file() and not is_safe(path) and path.suffix.lower() not in others:
        info = describe(path)
        if LAYER_TAG in info.tags:
            return Description("layer of a map", _layer(info))
        scheme = scheme_in(info)
        if scheme is not None:
            return Description("labels", _labels(info, scheme))
        silent = info.count == 1 or StatedFacts.beside(path) == StatedFacts()
        if (
            silent
            and options == SceneOptions()
            and all(s == 1 for s in info.scales)
            and info.dtype[0] in "ui"
        ):
            return Description("raster", _raster(info))
    return _product(path, options) if is_safe(path) else _described(path, options)


def _described(source: SceneSource, options: SceneOptions) -> Description:
    """A scene; where its numbers lack a scale, with a note on what it needs."""
    try:
        return _scene(open_scene(source, options))
    except NoScaleError as error:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OffsetWarning)
            found = _scene(open_scene(source, replace(options, assumed=(1.0, 0.0, "nobody"))))
        return Description(found.kind, {**found.facts, "note": f"{error}; --write-scene keeps it"})


def _product(path: Path, options: SceneOptions) -> Description:
    """A Sentinel-2 product; where images are missing, with those that it has."""
    found = bands_in(path, options)
    missing = [band for band in TEN_BANDS if band not in found]
    others = [band for band in found if band not in TEN_BANDS]
    notes = _known({"other bands": others or None, "missing bands": missing or None})
    try:
        with warnings.catch_warnings():
            if missing:
                warnings.filterwarnings("ignore", message=".* has no image of ")  # listed here
            scene = _scene(open_scene(path, options))
    except SceneError as error:
        product, tile = metadata_of(path, options)
        when = tile.sensing_time or product.start_time
        known = _known(
            {
                "identity": product.datatake,
                "level": product.level,
                "platform": product.platform,
                "processing baseline": product.baseline,
                "sensing time": None if when is None else when.isoformat(),
                "bands": list(found),
            }
        )
        return Description("scene", {**known, **notes, "note": f"{error}"})
    return Description(scene.kind, {**scene.facts, **notes})


def _layer(info: RasterInfo) -> Facts:
    facts: Facts = {"layer": info.tags[LAYER_TAG], "bands": _band_names(info), "type": info.dtype}
    facts |= {"scale": info.scales[0], "nodata": info.nodata[0]}
    scheme = scheme_in(info)
    return facts | (grid_facts(info.grid) if scheme is None else _labels(info, scheme))


def _band_names(info: RasterInfo) -> list[str]:
    return [name or f"band {i}" for i, name in enumerate(info.names, start=1)]


def _labels(info: RasterInfo, scheme: Scheme) -> Facts:
    counts = codes_in(RasterBand(info, 1))
    classes = {f"{c.code} {c.name}": counts.get(c.code, 0) for c in scheme.classes}
    none = info.grid.window.pixels - sum(classes.values())
    return {"scheme": scheme.name, "pixels": classes, "unlabelled": none, **grid_facts(info.grid)}


def _raster(info: RasterInfo) -> Facts:
    note = "whole numbers without a scale: as a scene it needs --scale (and perhaps --offset)"
    facts: Facts = {"bands": _band_names(info), "type": info.dtype, "nodata": info.nodata[0], "note": note}
    codes = codes_in(RasterBand(info, 1)) if info.count == 1 else {}
    if 0 < len(codes) <= _MOST_CODES:
        facts |= {
            "codes": {str(code): n for code, n in codes.items()},
            "note": f"as labels it has codes; {note}",
        }
    return facts | grid_facts(info.grid)


def _scene(scene: Scene) -> Description:
    atmosphere = scene.atmosphere
    facts: Facts = {
        "identity": scene.identity,
        "level": scene.level,
        "platform": scene.platform,
        "processing baseline": scene.baseline,
        "sensing time": None if scene.sensing_time is None else scene.sensing_time.isoformat(),
        "date": scene.date if scene.sensing_time is None else None,
        "date stated by": None if scene.dated_by == "metadata" else scene.dated_by,
        "bands": list(scene.bands),
        "scale and offset": _calibrations(scene),
        "layers": _layers_of(scene) or None,
        "aerosol optical thickness": atmosphere.aot,
        "retrieved by": atmosphere.aot_method,
        "water vapour, cm": atmosphere.water_vapour,
        "ozone, DU": atmosphere.ozone,
        **grid_facts(scene.grid),
    }
    return Description("scene", _known(facts))


def _calibrations(scene: Scene) -> str:
    found = {(c.scale, c.offset) for group in scene.groups for c in group.calibrations}
    listed = "; ".join(f"{scale:g}, {offset:g}" for scale, offset in sorted(found))
    return f"{listed} (stated by {scene.calibrated_by})"


def _layers_of(scene: Scene) -> list[str]:
    """Masks and layers of the atmosphere that come with a scene."""
    sources = [getattr(mask, "source", None) for mask in scene.masks]
    sources += [layer.source for layer in (scene.aot_layer, scene.water_vapour_layer) if layer is not None]
    return [
        each.name
        + (" (other pixel size: nearest neighbour)" if each.grid.resolution != scene.grid.resolution else "")
        for each in sources
        if each is not None
    ]


def _read(path: Path) -> dict[str, Any]:
    return read_json(path, dict[str, Any])


def _map(path: Path) -> Description:
    item = _read(path / "item.json")
    said = {k.removeprefix("uncover:"): v for k, v in item["properties"].items() if k.startswith("uncover:")}
    product, known = MapProduct.open(path), MapFacts.in_item(item)
    facts: Facts = {
        "scene": said.get("scene"),
        **known.lines(),
        "warnings": known.warnings() or None,
        "format": next(title for name, title in FORMATS.items() if (path / name).exists()),
        **_areas(path / "areas.csv", said),
        "measurement uncertainty": said.get("measurement_uncertainty"),
        "worlds": said["worlds"] if said.get("worlds", 1) > 1 else None,  # else there is one measurement
        "trained on": [source["name"] for source in said.get("trained_on", ())],
        "paired": said.get("paired"),
        "pixels that lack bands": said.get("missing"),
        "class shares": shares_in_words(item["properties"]),
        "coverage of sets of classes": said.get("coverage"),
        "made by": item["properties"].get("processing:software"),
        **grid_facts(product.grid),
    }
    if (path / "run.json").is_file():
        run = _read(path / "run.json")
        scenes = run["scene"] if isinstance(run.get("scene"), list) else [run.get("scene", "")]
        facts["run"] = {key: run.get(key) for key in ("began", "seconds", "model")}
        facts["run"]["scene"] = [source_name(each) for each in scenes]
    lacking = [a["href"] for a in item["assets"].values() if not (path / a["href"]).exists()]
    if lacking:
        facts["lacks"] = lacking
    return Description("map", _known(facts))


def _areas(path: Path, said: Mapping[str, Any]) -> Facts:
    """Pixels and area of each class and of none, and what the worlds do to it."""
    if not path.is_file():
        return {"lacks": [path.name]}
    with damaged(str(path)), open(path, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["share"]]  # others have no class: said above
        unit = "ha" if "area_ha" in rows[0] else "pixels"
        columns = ["pixels", f"area_{unit}", "share", f"expected_{unit}"]
        if uncertainty_columns(rows, unit):
            columns += [f"{name}_{unit}" for name in UNCERTAIN]
        if int(rows[0]["worlds"]) > 1:
            columns += [f"sd_over_worlds_{unit}", f"sd_over_worlds_mc_error_{unit}"]
        found: Facts = {key: {f"{r['code']} {r['class']}": _number(r[key]) for r in rows} for key in columns}
        found["areas"] = rows[0]["note"]
        if none := none_of(rows):
            share = f"{said.get('unknown_share', math.nan):.3g}"
            if (error := said.get("unknown_share_uncertainty")) is not None:
                share = f"{share} ± {error:.2g}, estimated from the scene"
            found[NONE] = {**none, "share assumed before": share}
        return found


def _number(text: str) -> float | int | None:
    return None if not text else int(text) if text.isdigit() else float(text)


def _evaluation(path: Path) -> Description:
    found = read_facts(path)
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
    """Progress of a run that was stopped, and the command that resumes it."""
    goal = str(path).removesuffix(".partial")
    journal = path / "journal"
    lines = journal.read_text("utf-8", "replace").splitlines() if journal.exists() else []
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


def _known(facts: Facts) -> Facts:
    return {key: value for key, value in facts.items() if value is not None}


def grid_facts(grid: Grid) -> Facts:
    """Size, reference system and bounds."""
    return {
        "size": f"{grid.width} x {grid.height} pixels of {grid.resolution[0]:g} x {grid.resolution[1]:g}",
        "crs": grid.crs,
        "bounds": [float(value) for value in grid.bounds],
    }


def _lines(facts: Mapping[str, Any], indent: str) -> list[str]:
    lines: list[str] = []
    for key, value in facts.items():
        if isinstance(value, Mapping):
            lines += [f"{indent}{key}", *_lines(value, indent + "  ")]
        elif isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
            for i, each in enumerate(value, start=1):
                lines += [f"{indent}{key} {i}", *_lines(each, indent + "  ")]
        elif isinstance(value, list | tuple) and value and isinstance(value[0], list | tuple):
            lines.append(f"{indent}{key}: {len(value)} x {len(value[0])} numbers")
        else:
            shown = ", ".join(map(_shown, value)) if isinstance(value, list | tuple) else _shown(value)
            lines.append(f"{indent}{key}: {shown}")
    return lines


def _shown(value: Any) -> str:
    """A value for people: six digits of a number.

    >>> _shown(0.1234567890123), _shown(5790240.0), _shown("a"), _shown(3)
    ('0.123457', '5790240', 'a', '3')
    """
    if not isinstance(value, float) or not np.isfinite(value):
        return str(value)
    return np.format_float_positional(value, 6, fractional=False, trim="-")


#: Different numbers of a raster that may be class codes.
_MOST_CODES = 40

#: Kinds of files by what tells them apart, in the order in which they are tried.
_KINDS: tuple[tuple[Callable[[Path], bool], Callable[[Path], Description]], ...] = (
    (is_table, _table),
    (_is_model, _model),
    (lambda path: path.suffix.lower() == ".toml", lambda path: _translation(load_translation(path))),
    (_is_vector, _vector),
    (lambda path: is_zarr(path) and zarr_kind(path) == "cube", _cube),
    (lambda path: is_zarr(path) and zarr_kind(path) == "samples", _samples),
)
