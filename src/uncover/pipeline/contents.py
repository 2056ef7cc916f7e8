"""Contents of the folder of a report: a map, and beside it labels, model, evaluations and scenes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from uncover.files import read_json, typed
from uncover.labels.scheme import LandClass
from uncover.models.record import ModelRecord
from uncover.pipeline.evaluation import BESIDE, StoredEvaluation
from uncover.pipeline.map_product import ITEM, check_finished, is_map
from uncover.pipeline.scene_sources import open_observed, source_options
from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid
from uncover.raster.loose_files import SceneSource, SeveralScenes, files_of
from uncover.raster.model_checks import check_match
from uncover.raster.names import split_band
from uncover.raster.observed import ObservedScene

#: Bytes of decoded tiles that a scene keeps whose pixels are read one by one.
_FEW_BYTES = 16 << 20


# Parts of documents that are relied upon.
class _Item(TypedDict):
    properties: dict[str, Any]
    assets: NotRequired[dict[str, dict[str, Any]]]


class _Band(TypedDict):
    name: str


class _Bands(TypedDict):
    bands: NotRequired[list[_Band]]


_Inputs = TypedDict("_Inputs", {"mlm:input": NotRequired[list[_Bands]]})


class _ModelItem(TypedDict):
    properties: NotRequired[_Inputs]


class _SceneFacts(TypedDict):
    years: NotRequired[dict[str, dict[str, Any]]]


@dataclass(frozen=True)
class Contents:
    """Paths of what is there; None or empty where it is not.

    >>> Contents.of("nowhere")
    Traceback (most recent call last):
    ...
    ValueError: nowhere is not a folder; give one that `uncover map`, `uncover demo` or ... wrote
    """

    folder: Path  # of the report
    map: Path  # the map product in it, or the folder itself
    labels: str | None = None  # those that trained the model
    class_field: str | None = None  # that has the class, of a vector file of labels
    model: Path | None = None
    evaluations: tuple[Path, ...] = ()  # folders that `uncover evaluate` wrote
    scene: Path | None = None  # folder with the scenes

    @classmethod
    def of(
        cls,
        folder: str | Path,
        labels: str | Path | None = None,
        evaluations: Sequence[str | Path] = (),
        class_field: str | None = None,
    ) -> Contents:
        """Look into a folder; labels and evaluations that lie elsewhere are named."""
        place = Path(folder)
        check_finished(folder)
        if not place.is_dir():
            raise ValueError(
                f"{folder} is not a folder; give one that `uncover map`, `uncover demo` or "
                "`uncover reproduce` wrote"
            )
        if (place / "evaluation.json").is_file():
            raise ValueError(
                f"{folder} is an evaluation; give the folder of its map (`uncover report` shows both: "
                f"--evaluation {folder})"
            )
        product = next((p for p in (place, place / "map") if is_map(p)), None)
        found = tuple(Path(e) for e in evaluations) or _evaluations(place)
        for each in found:
            if not (each / "evaluation.json").is_file():
                raise ValueError(f"{each} holds no evaluation.json; give a folder of `uncover evaluate`")
        if product is None:
            raise ValueError(
                f"{folder} holds no map: neither it nor its folder map/ has the {ITEM} and the layers of a "
                "finished product; make one with `uncover map`"
            )
        return cls(
            folder=place,
            map=product,
            labels=_labels(labels, place),
            class_field=class_field,
            model=_file(product / "model.uncover") or _file(place / "model.uncover"),
            evaluations=found,
            scene=place / "scene" if (place / "scene").is_dir() else None,
        )

    def item(self) -> dict[str, Any]:
        """The STAC item of the map: what it is, and what was assumed."""
        return _read_json(self.map, ITEM, _Item)

    def classes(self, names: Sequence[str]) -> tuple[LandClass, ...]:
        """Classes with their colours, as the item lists them, in the order of `names`."""
        entries = (asset.get("classification:classes") for asset in self.item().get("assets", {}).values())
        found = {
            str(e.get("title") or e["name"]): e
            for e in next(filter(None, entries), ())
            if not e.get("nodata")
        }
        if not found:
            raise SceneError(
                f"{self.map / ITEM} lists no classes; it is not the item of a map, make it again"
            )
        if sorted(found) != sorted(names):
            raise SceneError(
                f"the probabilities in {self.map} are of {', '.join(names)}, its item.json lists "
                f"{', '.join(found)}; make the map again"
            )
        return tuple(LandClass(int(found[n]["value"]), n, f"#{found[n]['color_hint']}") for n in names)

    def run(self) -> dict[str, Any]:
        """The record of the run that made the map; empty where it is lost."""
        return _read_json(self.map, "run.json")

    def model_bands(self) -> tuple[str, ...]:
        """Bands that the model reads, as its item lists them; empty where it is lost."""
        inputs = _read_json(self.map, "model.json", _ModelItem).get("properties", {}).get("mlm:input", ())
        return tuple(band["name"] for each in inputs for band in each.get("bands", ()))

    def truth(self) -> Path | None:
        """A raster of the true classes where they are known: that of a made scene, or a file truth.tif.

        The finest one that there is: kinds of ground below the classes tell more.
        """
        identity = self.item().get("properties", {}).get("uncover:scene")
        years = self.scene_facts().get("years", {})
        mine = [year for year, facts in years.items() if facts.get("datatake") == identity]
        names = [f"scene/truth-{year}{kind}.tif" for year in mine for kind in ("-kinds", "")]
        places = [self.folder / name for name in (*names, "truth.tif")]
        return next((place for place in places if place.is_file()), None)

    def beside(self) -> tuple[tuple[str, str, StoredEvaluation], ...]:
        """Evaluations to be shown side by side: place, model and evaluation; empty without the file."""
        path = self.folder / BESIDE
        if not path.is_file():
            return ()
        try:
            found = read_json(path, list[dict[str, str]])
            entries = [(e["place"], e["model"], e["evaluation"]) for e in found]
        except (ValueError, KeyError):
            raise ValueError(f"{path} is not a list of place, model and evaluation; remove it") from None
        return tuple((place, model, StoredEvaluation.read(self.folder / e)) for place, model, e in entries)

    def scene_facts(self) -> dict[str, Any]:
        """Facts that lie beside the scenes; empty where there are none."""
        return _read_json(self.scene, "scene.json", _SceneFacts)


def _evaluations(folder: Path) -> tuple[Path, ...]:
    """Folders called evaluation… with results in them or one below."""
    found = [path.parent for path in folder.glob("evaluation*/evaluation.json")]
    found += [path.parent for path in folder.glob("evaluation*/*/evaluation.json")]
    return tuple(sorted(found))


def _file(path: Path) -> Path | None:
    return path if path.is_file() else None


def _labels(given: str | Path | None, folder: Path) -> str | None:
    """Labels that were named (with a band, perhaps), or those that lie in the folder."""
    if given is None:
        found = _file(folder / "labels.tif")
        return None if found is None else str(found)
    if not Path(split_band(given)[0]).exists():
        raise ValueError(f"{given} does not exist; give the labels that trained the model")
    return str(given)


def _read_json(folder: Path | None, name: str, kind: Any = dict) -> dict[str, Any]:
    if folder is None or not (folder / name).is_file():
        return {}
    found = read_json(folder / name, dict[str, Any])
    typed(found, kind, folder / name)
    return found


def reopen(
    contents: Contents,
    model: ModelRecord,
    grid: Grid,
    *,
    for_clicks: bool = False,
    other_grid: bool = False,
) -> tuple[ObservedScene | None, str]:
    """Open the scene of a map again, the same on the same grid; or say why that cannot be.

    ``for_clicks``: pixels are read one by one. Little is kept in memory, and values are not compared with
    those that the model was trained on, as the map's run has done it. Of a single scene the masks of
    detectors are not read, whose tiles are larger than those of all bands: the map has their flags.
    ``other_grid``: the scene may be on a grid of its own, as that of a map with `--crs` is.
    """
    run = contents.run()
    if "source" not in run or not isinstance(run.get("scene"), str | list):
        return None, "run.json does not say how the scene was read"
    source, lost = _located(run["scene"], Path(run.get("folder", ".")), contents)
    if lost or not source:
        return None, f"the scene {', '.join(lost)} is not where it was when the map was made"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the map's run has said them
            options = source_options(run["source"])
            if for_clicks:
                several = isinstance(source, SeveralScenes)  # the map does not flag their single dates
                masks = options.scene.detector_masks and several
                few = replace(options.scene, cache_bytes=_FEW_BYTES, detector_masks=masks)
                options = replace(options, scene=few)
            evidence = open_observed(source, model, options)
            if not for_clicks:
                check_match(model, evidence)
    except (ValueError, TypeError, OSError, ImportError) as error:
        return None, f"the scene cannot be opened again: {error}"
    properties = contents.item().get("properties", {})
    identity, tiles = properties.get("uncover:scene"), properties.get("uncover:tiles")
    if other_grid and tiles is not None and len(tiles) == 1:
        identity = tiles[0]["scene"]
    else:
        other_grid = False
    if evidence.identity != identity or not (other_grid or evidence.grid.shape == grid.shape):
        name = Path(files_of(source)[0]).name
        return None, f"{name} is not the scene that was mapped ({identity})"
    return evidence, ""


def _located(
    recorded: str | list[Any], working: Path, contents: Contents
) -> tuple[SceneSource | SeveralScenes, list[str]]:
    """The source of a run: a path, the files of one scene, or those of several; and what is not there."""
    if isinstance(recorded, str):
        path = _locate(recorded, working, contents)
        return (path or "", [] if path else [Path(recorded).name])
    each = [_located(part, working, contents) for part in recorded if isinstance(part, str | list)]
    lost = [name for _, names in each for name in names]
    parts = tuple(source for source, _ in each)
    if not all(isinstance(part, list) for part in recorded):
        return [path for part in parts for path in files_of(part)], lost
    single = tuple(files[0] if len(files) == 1 else files for files in map(files_of, parts))
    return SeveralScenes(single), lost


def _locate(scene: str, working: Path, contents: Contents) -> Path | None:
    """Path of the scene, from the folder of the run, from here, or among the scenes of the report."""
    for path in (working / scene, Path(scene)):
        if path.exists():
            return path
    name = Path(scene.rstrip("/")).name
    beside = [contents.folder, *([contents.scene] if contents.scene else [])]
    for folder in beside:
        for pattern in (name, f"*/{name}"):
            found = next(iter(sorted(folder.glob(pattern))), None)
            if found is not None:
                return found
    return None
