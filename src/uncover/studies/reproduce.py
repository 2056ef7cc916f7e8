"""Both studies from their options to tables and findings in a folder."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from uncover import __version__
from uncover.files import write_whole
from uncover.pipeline.tables import is_table
from uncover.studies.cells import (
    Cell,
    CellStore,
    Progress,
    Result,
    Workers,
    forecast,
    missing_cells,
    run_cells,
)
from uncover.studies.claims_landcover import land_cover_findings
from uncover.studies.claims_synthetic import synthetic_findings
from uncover.studies.findings import Finding
from uncover.studies.landcover import (
    LAND_COVER_SCALES,
    LandCoverCell,
    SavedData,
    land_cover_cells,
    land_cover_tables,
)
from uncover.studies.landcover_data import LandCoverData, read_tables_of_years, year_name
from uncover.studies.models import MODELS, study_models
from uncover.studies.synthetic_study import (
    SCALES,
    SyntheticScale,
    noise_free_cells,
    synthetic_cells,
    synthetic_facts,
    synthetic_tables,
)
from uncover.studies.tables import Tables, write_tables

#: Pixels along a side of the small scene from which the times of the embedded one are estimated.
_SKETCH = 300


class Study(Protocol):
    """Interface that both studies have in common."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Facts that decide the results: a JSON object, the same for the same study."""

    def cells(self, out: Path) -> Sequence[Any]:
        """Its cells; what they need is put below the folder."""

    def tables(self, cells: Sequence[Any], results: Mapping[str, Result]) -> Tables:
        """Results as tables."""

    def findings(self, tables: Tables) -> list[Finding]:
        """Findings of the tables about each claim."""

    def extras(self, out: Path) -> None:
        """Write whatever else the figures need."""


@dataclass(frozen=True)
class SyntheticStudy:
    """The synthetic study at a scale.

    Attributes
    ----------
    data_sets : int or None
        Most data sets of each number of features that are computed and summarised now; the folder can be
        finished with all of them later.
    every_model : bool
        Leave out data sets on which a model of the paper has an F₁ below 0.9 without noise; else BQDA alone
        decides. What is computed of the others stays in the folder.

    Examples
    --------
    >>> SyntheticStudy("quick").facts["realisations"]
    6
    >>> len(SyntheticStudy("standard", data_sets=1).cells(Path()))
    87
    """

    scale: str = "quick"
    seed: int = 0
    data_sets: int | None = None
    every_model: bool = False
    further: bool = False  # with the models that are computed on request

    def __post_init__(self) -> None:
        if self.data_sets is not None and self.data_sets < 1:
            raise ValueError(f"{self.data_sets} data sets say nothing; give at least 1 with --data-sets")

    @property
    def facts(self) -> dict[str, Any]:
        """Scale, seed, version."""
        return _facts("synthetic", self.scale, synthetic_facts(self._scale, self.seed), self.further)

    @property
    def _scale(self) -> SyntheticScale:
        return SCALES[self.scale]

    def cells(self, out: Path) -> Sequence[Any]:
        """All cells; they need no files."""
        scale = self._scale.first(self.data_sets)
        extra = noise_free_cells(scale, self.seed) if self.every_model else []
        return [*synthetic_cells(scale, self.seed, self.further), *extra]

    def tables(self, cells: Sequence[Any], results: Mapping[str, Result]) -> Tables:
        """Scores, their means, training and cost."""
        return synthetic_tables(cells, results)

    def findings(self, tables: Tables) -> list[Finding]:
        """Findings of the tables about each claim."""
        return synthetic_findings(
            tables, {"points a class": self._scale.points, "realisations": self._scale.realisations}
        )

    def extras(self, out: Path) -> None:
        """Nothing else is needed."""


@dataclass(frozen=True)
class LandCoverStudy:
    """The land cover study of some data, limited as the scale says."""

    data: LandCoverData
    scale: str = "quick"
    seed: int = 0
    sketched: int | None = None  # the data stand in for those of the same size, in so many realisations
    further: bool = False  # with the models that are computed on request

    @classmethod
    def of(cls, data: LandCoverData, scale: str, seed: int) -> LandCoverStudy:
        """Keep as much of the data as the scale says."""
        limits = LAND_COVER_SCALES[scale]
        return cls(data.limited(limits.pixels, limits.realisations, seed), scale, seed)

    @classmethod
    def embedded(cls, scale: str, seed: int) -> LandCoverStudy:
        """Of the embedded scene, as large and in as many worlds as the scale says."""
        from uncover.studies.landcover_rasters import embedded_scene

        how = LAND_COVER_SCALES[scale]
        return cls.of(embedded_scene(how.scene_size, how.scene_draws, seed), scale, seed)

    @classmethod
    def sketch(cls, scale: str, seed: int) -> LandCoverStudy:
        """A stand-in for the embedded scene, for its times: pixels of a small one, repeated to its size."""
        from uncover.studies.landcover_rasters import embedded_scene

        how = LAND_COVER_SCALES[scale]
        small = embedded_scene(min(how.scene_size, _SKETCH), 2, seed)
        times = max(round((how.scene_size / _SKETCH) ** 2), 1)
        full = small.select(np.tile(np.arange(small.pixels), times))
        return cls(full, scale, seed, sketched=how.scene_draws)

    @property
    def facts(self) -> dict[str, Any]:
        """Scale, seed, version, and what the data are; of a sketch, what it has in common with the scene."""
        data = self.data
        known = {
            "seed": self.seed,
            "data": data.name,
            "years": list(data.years),
            "realisations": self.sketched or data.realisations,
            "bands": list(data.bands),
            "classes": list(data.classes),
        }
        if self.sketched is None:
            known |= {"pixels": data.pixels, "notes": list(data.notes), "checksum": _checksum(data)}
        return _facts("landcover", self.scale, known, self.further)

    def cells(self, out: Path) -> list[LandCoverCell]:
        """All cells, which read the pixels from below the folder."""
        saved = SavedData.save(self.data, out / "data")
        found = land_cover_cells(self.data, saved, self.seed, self.further)
        return [replace(cell, realisations=self.sketched or cell.realisations) for cell in found]

    def tables(self, cells: Sequence[Any], results: Mapping[str, Result]) -> Tables:
        """Scores, confusion, cost, and what the data look like."""
        return land_cover_tables(self.data, cells, results)

    def findings(self, tables: Tables) -> list[Finding]:
        """Findings of the tables about each claim."""
        return land_cover_findings(
            tables, {"pixels": self.data.pixels, "realisations": self.data.realisations}
        )

    def extras(self, out: Path) -> None:
        """The scene, for its figure; the pixels are no longer needed."""
        if self.data.picture is not None:
            np.savez_compressed(out / "scene.npz", rgb=self.data.picture.rgb, labels=self.data.picture.labels)
        shutil.rmtree(out / "data", ignore_errors=True)


def _facts(study: str, scale: str, more: Mapping[str, Any], further: bool) -> dict[str, Any]:
    names = study_models(further)
    models = {name: {"title": MODELS[name].title, "ours": MODELS[name].ours} for name in names}
    return {"study": study, "scale": scale, "uncover": __version__, "models": models, **more}


def _checksum(data: LandCoverData) -> str:
    """Of all that decides scores and their intervals."""
    digest = hashlib.sha256()
    groups = () if data.groups is None else (data.groups,)
    for array in (data.codes, *data.values, *groups):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Plan:
    """A study in its folder, what of it is done, and how long the rest will take.

    Examples
    --------
    >>> Plan(10, 4, 7200.0, Workers(2)).text()
    '6 of 10 cells to compute, about 2.0 CPU-hours: 60.0 minutes with 2 workers'
    """

    cells: int
    done: int
    cpu_seconds: float
    workers: Workers = field(default_factory=Workers)

    def text(self) -> str:
        """One line for a person."""
        missing, cost = self.cells - self.done, _duration(self.cpu_seconds, "CPU-")
        what = f"{missing} of {self.cells} cells to compute, about {cost}"
        if self.workers.scheduler is not None:
            return f"{what}, divided by the workers of {self.workers.scheduler}"
        n = self.workers.processes
        return f"{what}: {_duration(self.cpu_seconds / n)} with {n} worker{'s' if n > 1 else ''}"


def _duration(seconds: float, unit: str = "") -> str:
    for size, name in ((3600, "hours"), (60, "minutes")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}{name}"
    return f"{seconds:.0f} {unit}seconds"


@dataclass(frozen=True)
class Run:
    """A study that has begun in a folder: plan it, then compute it.

    Examples
    --------
    >>> import tempfile
    >>> run = Run.begin(SyntheticStudy("quick"), Path(tempfile.mkdtemp()) / "new", Workers(2))
    >>> len(run.cells), len(run.missing())
    (261, 261)
    """

    study: Study
    out: Path
    workers: Workers
    store: CellStore
    cells: Sequence[Cell]

    @classmethod
    def begin(cls, study: Study, out: Path, workers: Workers) -> Run:
        """Make the folder, or open the one where the same study was begun."""
        store = CellStore(out, study.facts)
        return cls(study, out, workers, store, study.cells(out))

    def missing(self) -> list[Cell]:
        """Cells that are not computed yet."""
        return missing_cells(self.cells, self.store)

    def plan(self) -> Plan:
        """Probe how long the missing cells will take."""
        missing = self.missing()
        return Plan(len(self.cells), len(self.cells) - len(missing), forecast(missing), self.workers)

    def compute(self, progress: Progress | None = None) -> tuple[Tables, list[Finding]]:
        """Compute what is missing; write tables and findings."""
        began = time.time()
        results = run_cells(self.cells, self.store, self.workers, progress)
        tables = self.study.tables(self.cells, results)
        findings = self.study.findings(tables)
        write_tables(tables, self.out / "tables")
        text = json.dumps([f.as_dict() for f in findings], indent=2, ensure_ascii=False)
        write_whole(self.out / "findings.json", text + "\n")
        self.study.extras(self.out)
        record = {"seconds": time.time() - began, "workers": self.workers.scheduler or self.workers.processes}
        write_whole(self.out / "run.json", json.dumps(record, indent=2) + "\n")
        return tables, findings


def dry_plan(study: Study, out: Path, workers: Workers) -> Plan:
    """Estimate the time of a study, or of what is left of it in a folder; nothing is changed there."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run.begin(study, Path(folder), workers)
        if out.exists() and any(out.iterdir()):
            run = replace(run, store=CellStore(out, study.facts, read_only=True))
        return run.plan()


def _refuse_product(path: str | Path) -> None:
    """A product has no realisations yet: say which command makes them."""
    from uncover.raster.safe import is_safe

    if Path(path).exists() and is_safe(path):
        taken = re.search(r"_(\d{4})\d{4}T\d{6}_", Path(path).name)
        cube = f"{taken.group(1) if taken else Path(path).stem}.zarr"
        raise ValueError(
            f"{path} is a Sentinel-2 product, and the study takes cubes of realisations; make one first: "
            f"uncover realise {path} --product-aod --draws 25 --out {cube}"
        )


def read_data(
    paths: Sequence[str | Path], labels: str | None = None, class_field: str | None = None
) -> LandCoverData:
    """Labelled pixels of a user's own files: tables, or a cube for each year with a file of labels."""
    for path in paths:
        _refuse_product(path)
    kinds = {is_table(path) for path in paths}
    if len(kinds) > 1:
        raise ValueError("--data mixes tables and cubes; give tables only, or cubes only")
    names = [year_name(path) for path in paths]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(
            f"--data has several files called {twice}; years are called after their files: rename one"
        )
    if kinds == {True}:
        if labels is not None:
            raise ValueError("--labels came with tables, whose classes are in a column; leave it out")
        return read_tables_of_years(paths, class_field)
    from uncover.studies.landcover_rasters import read_cubes_of_years

    return read_cubes_of_years(paths, labels, class_field)
