"""The scene that a map was made of, opened again as the record of the run says; and what to say if not."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uncover.pipeline.map_sources import open_evidence, source_options
from uncover.raster.evidence import Evidence
from uncover.raster.grid import Grid
from uncover.raster.model_checks import check_match
from uncover.report.contents import Contents


@dataclass(frozen=True)
class Reopened:
    """The evidence of a map, or the reason why there is none."""

    evidence: Evidence | None
    reason: str = ""


def reopen(contents: Contents, model: Any, grid: Grid) -> Reopened:
    """Open the scene of a map again; it must be the same scene on the same grid."""
    run = contents.run()
    if "source" not in run or "scene" not in run:
        return Reopened(None, "run.json does not say how the scene was read")
    path = _locate(str(run["scene"]), Path(run.get("folder", ".")), contents)
    if path is None:
        return Reopened(
            None, f"the scene {Path(run['scene']).name} is not where it was when the map was made"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the map's run has said them
            evidence = open_evidence(path, model, source_options(run["source"]))
            check_match(model, evidence)
    except (ValueError, TypeError, OSError, ImportError) as error:
        return Reopened(None, f"the scene cannot be opened again: {error}")
    identity = contents.item().get("properties", {}).get("uncover:scene")
    if evidence.identity != identity or evidence.grid.shape != grid.shape:
        return Reopened(None, f"{path.name} is not the scene that was mapped ({identity})")
    return Reopened(evidence)


def _locate(scene: str, working: Path, contents: Contents) -> Path | None:
    """Return the path of a scene: as given, from the run's folder or from here, else beside the report."""
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
