"""`scene.toml`: what the metadata of a scene do not say, stated once beside the data for all commands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from uncover.files import read_toml, typed
from uncover.raster.angles import AngleGrids
from uncover.raster.errors import SceneError
from uncover.raster.loose_files import SceneSource
from uncover.raster.names import instant, span
from uncover.raster.npy import is_npy, npy_file
from uncover.raster.scene import Level, Scene, SceneOptions
from uncover.warn import warn

SCENE_FILE = "scene.toml"


@dataclass(frozen=True)
class StatedFacts:
    """Contents of a scene.toml; None where it is silent. `source` names the file or folder it is about."""

    source: str | None = None
    level: Level | None = None
    sensor: str | None = None
    date: str | None = None
    angles: tuple[float, float, float] | None = None
    scale: float | None = None
    offset: float | None = None
    nodata: float | None = None
    bands: tuple[str, ...] | None = None
    scene_id: str | None = None

    @classmethod
    def beside(cls, source: SceneSource) -> StatedFacts:
        """Facts in the folder of a scene, or in that which its files lie in; silent where there is none."""
        path = scene_file_of(source)
        if not path.is_file():
            return cls()
        try:
            values = read_toml(path)
        except ValueError as error:
            raise SceneError(str(error)) from None
        found = cls._checked(values, path)
        if found.source in (None, own_name(source)):
            return found
        if not (path.parent / str(found.source)).exists():
            warn(
                f"{path} has source = {found.source!r}, and no such file is beside it: it counts for "
                "nothing; correct the name, or remove the line to speak of the whole folder",
            )
        return cls()

    @classmethod
    def _checked(cls, values: Mapping[str, Any], path: Path) -> StatedFacts:
        known = [field.name for field in fields(cls)]
        unknown = [key for key in values if key not in known]
        if unknown:
            raise SceneError(f"{path} has the key {unknown[0]!r}; it may have {', '.join(known)}")
        for key, value in values.items():
            kind, wanted = _KINDS.get(key, (str, "a text in quotes"))
            if key != "date" and (not isinstance(value, kind) or isinstance(value, bool)):
                raise SceneError(f"{path}: {key} = {_toml(value)} is not {wanted}; write it so")
        if values.get("level") not in (None, "L1C", "L2A") or values.get("sensor") not in (None, *SENSORS):
            raise SceneError(f"{path}: level is L1C or L2A, and sensor one of {', '.join(SENSORS)}")
        if values.get("scale") == 0:
            raise SceneError(
                f"{path}: scale is 0, which makes all values alike; 0.0001 is that of Sentinel-2"
            )
        angles = values.get("angles", [0, 0, 0])
        if len(angles) != 3 or not all(isinstance(angle, int | float) for angle in angles):
            raise SceneError(
                f"{path}: angles are three: sun zenith, view zenith, relative azimuth in degrees"
            )
        plain: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
        if "date" in values:
            plain["date"] = _date_text(values["date"])
            span(plain["date"], f"{path}: date")
        return typed(plain, cls, path)

    def into(self, options: SceneOptions) -> SceneOptions:
        """Options of reading with what only the file states; bands name those of a stack."""
        stated = self.scale is not None or self.offset is not None
        assumed = (
            (1.0 if self.scale is None else self.scale, self.offset or 0.0, SCENE_FILE) if stated else None
        )
        return replace(
            options,
            assumed=assumed or options.assumed,
            assumed_nodata=self.nodata,
            scene_id=options.scene_id or self.scene_id,
            band_names=self.bands or options.band_names,
        )

    def text(self) -> str:
        """The file."""
        lines = [
            f"{field.name} = {_toml(value)}"
            for field in fields(self)
            if (value := getattr(self, field.name)) is not None
        ]
        return "\n".join(
            ["# Facts that the data do not state; read by every command of uncover.", *lines, ""]
        )


SENSORS = ("S2A", "S2B", "S2C")
_NUMBER = ((int, float), "a number without quotes")
#: What the values of keys are, where they are not text.
_KINDS: dict[str, tuple[Any, str]] = {
    "angles": (list, "a list of three numbers, such as [35.0, 5.0, 120.0]"),
    "bands": (list, 'a list of names, such as ["B02", "B03"]'),
    **dict.fromkeys(("scale", "offset", "nodata"), _NUMBER),
}


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _date_text(value: Any) -> str:
    """A date of TOML, which has a type for it, as text."""
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return text.replace("+00:00", "Z")


def scene_file_of(source: SceneSource) -> Path:
    """Place of the scene.toml of a source: in its folder, or beside its file or product."""
    path = Path(source if isinstance(source, str | Path) else source[0])
    path = npy_file(path)[0] if is_npy(path) else path
    is_folder = path.is_dir() and path.suffix.lower() not in (".safe", ".zarr")
    return (path if is_folder else path.parent) / SCENE_FILE


def own_name(source: SceneSource) -> str | None:
    """Name that `source` of a scene.toml must have: the file's, or None for a folder and several files."""
    if not isinstance(source, str | Path):
        return None
    return Path(source).name if scene_file_of(source).parent != Path(source) else None


def with_stated(scene: Scene, options: SceneOptions, stated: StatedFacts) -> Scene:
    """The scene with the level, sensor, date and angles that its metadata lack: by the user, or the file.

    Metadata win. A scene.toml that contradicts them gives a warning, an option an error.
    """
    if options.date is not None:
        span(options.date)
    sensor = None if scene.platform is None else f"S2{scene.platform[-1].upper()}"
    date = scene.date or (None if scene.sensing_time is None else f"{scene.sensing_time:%Y-%m-%dT%H:%M:%SZ}")
    known = {"level": scene.level, "sensor": sensor, "date": date}
    chosen: dict[str, Any] = {}
    for key, own in known.items():
        asked, written = getattr(options, key), getattr(stated, key)
        if own is not None and asked is not None and not _agree(key, own, asked):
            raise SceneError(
                f"scene {scene.identity} has the {key} {own} by its metadata and --{key} {asked} came; "
                "leave it out"
            )
        if own is not None and written is not None and not _agree(key, own, written):
            contradicted(scene, key, written, own)
        chosen[key] = own if own is not None else asked or written
    angles = options.angles or stated.angles
    grids = scene.angle_grids
    if grids is not None and options.angles is None and stated.angles is not None:
        contradicted(scene, "angles", stated.angles, "the angles of each pixel")
    elif angles is not None:
        grids = AngleGrids.everywhere(*angles)
    _check_calibration(scene, options, stated)
    return replace(
        scene,
        level=chosen["level"],
        platform=scene.platform
        or (None if chosen["sensor"] is None else f"Sentinel-2{chosen['sensor'][-1]}"),
        sensing_time=scene.sensing_time or instant(chosen["date"]),
        date=chosen["date"],
        angle_grids=grids,
    )


def _agree(key: str, one: str, other: str) -> bool:
    return one == other or (key == "date" and "/" not in other and one.startswith(other.rstrip("Z")))


def _check_calibration(scene: Scene, options: SceneOptions, stated: StatedFacts) -> None:
    """Say where the file states another scale, offset or nodata than metadata do."""
    for key in ("scale", "offset", "nodata") if scene.calibrated_by == "metadata" else ("nodata",):
        written = getattr(stated, key)
        if written is None or getattr(options, key) is not None:
            continue
        own = {getattr(c, key) for g in scene.groups for c in g.calibrations} - {None}
        if any(abs(v - written) > 1e-9 or v != v for v in own):
            contradicted(scene, key, written, ", ".join(f"{v:g}" for v in sorted(own)))


def contradicted(scene: Scene, key: str, written: Any, own: Any) -> None:
    """Say that metadata win over a scene.toml."""
    shown = f"{written:g}" if isinstance(written, float) else written
    warn(
        f"{SCENE_FILE} states {key} = {shown}, and the metadata of scene {scene.identity} {own}: the "
        "metadata are taken; correct or remove the line",
    )
