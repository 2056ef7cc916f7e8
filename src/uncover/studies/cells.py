"""A study as a grid of cells that do not depend on each other: computed by anyone, in any order, once."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from uncover.files import read_text, typed, write_whole
from uncover.raster.cluster import connect_cluster
from uncover.raster.executors import one_thread_per_product
from uncover.studies.claims import Finding
from uncover.studies.tables import Tables, write_tables

Result = dict[str, Any]
Progress = Callable[[int, int], None]


class Cell(Protocol):
    """One independent piece of a study. It is pickled to whoever computes it."""

    @property
    def key(self) -> str:
        """Its name, and the name of its file."""

    @property
    def like(self) -> str:
        """Cells that take equally long have the same."""

    def compute(self) -> Result:
        """Its result, a JSON object; its random numbers depend on the seed and the key alone."""

    def probe(self) -> float:
        """Seconds that it will take, from computing a small part of it."""

    def complete(self, result: Result) -> bool:
        """Check that a result has all that the cell asks for; one of an earlier version may not."""


@dataclass(frozen=True)
class Workers:
    """Who computes: so many processes of this machine, or those of a dask.distributed scheduler.

    >>> Workers(0)
    Traceback (most recent call last):
    ...
    ValueError: 0 workers cannot compute anything; give at least 1
    """

    processes: int = 1
    scheduler: str | None = None

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise ValueError(f"{self.processes} workers cannot compute anything; give at least 1")


class CellStore:
    """A folder of finished cells, one file each, every file whole or not there.

    >>> import tempfile
    >>> store = CellStore(Path(tempfile.mkdtemp()), {"study": "tiny", "seed": 0})
    >>> store.save("a", {"f1": 0.9})
    >>> store.load("a"), store.load("b")
    ({'f1': 0.9}, None)
    """

    def __init__(self, out: Path, facts: Mapping[str, Any], *, read_only: bool = False) -> None:
        """Open the folder, begun with the same facts or new; nothing is written to one that is read only.

        Of a folder that is read only, only the facts that are given are compared.
        """
        self.folder = out / "cells"
        note = out / "study.json"
        text = json.dumps(facts, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        now = json.loads(text)
        if note.exists():
            before = _read(note)
            typed(before.get("models", {}), dict[str, Any], note)
            check_same(out, {k: v for k, v in before.items() if k in now or not read_only}, now)
        elif out.exists() and any(out.iterdir()):
            raise ValueError(f"{out} holds other files; choose a new or empty folder")
        if read_only:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if not note.exists() or before != now:  # further models
            write_whole(note, text)

    def load(self, key: str) -> Result | None:
        """The result of a cell, None if it has none yet."""
        file = self.folder / f"{key}.json"
        return _read(file) if file.exists() else None

    def missing(self, cells: Sequence[Cell]) -> list[Cell]:
        """Cells that are not there, or of which a part is lacking."""
        known = ((cell, self.load(cell.key)) for cell in cells)
        return [cell for cell, result in known if result is None or not cell.complete(result)]

    def save(self, key: str, result: Result) -> None:
        """Keep a result, on disk before this returns."""
        write_whole(self.folder / f"{key}.json", json.dumps(result))


def _read(file: Path) -> Result:
    """A JSON object, in which NaN may stand."""
    try:
        found = json.loads(read_text(file))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{file} is damaged; remove it: what it held is computed again")
    return found


def check_same(out: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to mix two studies in a folder; of models, only those that both have need be the same."""
    before, now = _with_common_models(before, now), _with_common_models(now, before)
    differs = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    if differs:
        name = differs[0]
        raise ValueError(
            f"{out} was begun with {name} = {_short(before.get(name))}, now it is {_short(now.get(name))}; "
            "remove it, or choose another folder"
        )


def _with_common_models(facts: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    models, theirs = facts.get("models", {}), other.get("models", {})
    return {**facts, "models": {name: about for name, about in models.items() if name in theirs}}


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def run_cells(
    cells: Sequence[Cell], store: CellStore, workers: Workers | None = None, progress: Progress | None = None
) -> dict[str, Result]:
    """Compute the cells that the store does not have yet; results of all of them, in the order given."""
    missing = store.missing(cells)
    done, report = len(cells) - len(missing), progress or (lambda done, total: None)
    report(done, len(cells))
    for key, result in _computed(missing, workers or Workers()):
        store.save(key, result)
        done += 1
        report(done, len(cells))
    return {cell.key: store.load(cell.key) or {} for cell in cells}


def forecast(cells: Sequence[Cell]) -> float:
    """CPU seconds of all cells, by probing one of each kind: the most that one worker would take.

    >>> @dataclass(frozen=True)
    ... class Nap:
    ...     key: str
    ...     like: str = "nap"
    ...     def probe(self): return 2.0
    >>> forecast([Nap("a"), Nap("b")])
    4.0
    """
    seconds: dict[str, float] = {}
    with one_thread_per_product():
        for cell in cells:
            if cell.like not in seconds:
                seconds[cell.like] = cell.probe()
    return float(sum(seconds[cell.like] for cell in cells))


def extended(seconds: Mapping[tuple[float, float], float]) -> Callable[[float, float], float]:
    """Seconds by rows n and realisations r from few measurements: c₀ + c₁n + c₂r + c₃nr, no term below zero.

    >>> at = extended({(n, r): 1.0 + 0.5 * n * r for n in (1, 3) for r in (1, 2)})
    >>> round(at(100, 25), 6)
    1251.0
    """
    from scipy.optimize import nnls

    terms = [[1.0, n, r, n * r] for n, r in seconds]
    scale = np.abs(terms).max(axis=0)
    found = nnls(np.asarray(terms) / scale, np.maximum(list(seconds.values()), 0.0))[0] / scale
    return lambda n, r: float(found @ [1.0, n, r, n * r])


def _computed(cells: Sequence[Cell], workers: Workers) -> Iterator[tuple[str, Result]]:
    """Keys and results, as they come."""
    if not cells:
        return
    if workers.scheduler is not None:
        yield from _on_cluster(cells, workers.scheduler)
    elif workers.processes == 1:
        yield from (compute(cell) for cell in cells)
    else:
        yield from _in_processes(cells, workers.processes)


def compute(cell: Cell) -> tuple[str, Result]:
    """Compute one cell, in a process whose libraries stay with one thread each."""
    with one_thread_per_product():
        return cell.key, cell.compute()


def _in_processes(cells: Sequence[Cell], processes: int) -> Iterator[tuple[str, Result]]:
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    with ProcessPoolExecutor(min(processes, len(cells)), mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(compute, cell) for cell in cells]
        try:
            for future in as_completed(waiting):
                yield future.result()
        except BrokenProcessPool as error:
            raise ValueError(
                "a worker died, perhaps for lack of memory; what is finished is kept: run the command again, "
                "with fewer --workers"
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _on_cluster(cells: Sequence[Cell], address: str) -> Iterator[tuple[str, Result]]:
    with connect_cluster(address) as client:
        from distributed import KilledWorker, as_completed

        futures = [client.submit(compute, cell, pure=False, retries=2) for cell in cells]
        try:
            for future in as_completed(futures, loop=client.loop):
                yield future.result()
        except KilledWorker as error:
            raise ValueError(f"the cluster lost a cell ({error}); look at its workers") from error


class Study(Protocol):
    """Interface that both studies have in common."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Facts that decide the results: a JSON object, the same for the same study."""

    def cells(self, out: Path) -> Sequence[Any]:
        """Its cells; what they and the figures need is written below the folder."""

    def tables(self, cells: Sequence[Any], results: Mapping[str, Result]) -> Tables:
        """Results as tables."""

    def findings(self, tables: Tables) -> list[Finding]:
        """Findings of the tables about each claim."""


def plan_in_words(cells: int, missing: int, cpu_seconds: float, workers: Workers) -> str:
    """How much of a study is left to compute, and how long that will take.

    >>> plan_in_words(10, 6, 7200.0, Workers(2))
    '6 of 10 cells to compute, about 2.0 CPU-hours: 60.0 minutes with 2 workers'
    """
    what = f"{missing} of {cells} cells to compute, about {_duration(cpu_seconds, 'CPU-')}"
    if workers.scheduler is not None:
        return f"{what}, divided by the workers of {workers.scheduler}"
    n = workers.processes
    return f"{what}: {_duration(cpu_seconds / n)} with {n} worker{'s' if n > 1 else ''}"


def _duration(seconds: float, unit: str = "") -> str:
    for size, name in ((3600, "hours"), (60, "minutes")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}{name}"
    return f"{seconds:.0f} {unit}seconds"


@dataclass(frozen=True)
class Run:
    """A study that has begun in a folder: plan it, then compute it.

    >>> from uncover.studies.synthetic import SyntheticStudy
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
        return self.store.missing(self.cells)

    def plan(self) -> str:
        """Probe how long the missing cells will take, and say it in a line."""
        missing = self.missing()
        return plan_in_words(len(self.cells), len(missing), forecast(missing), self.workers)

    def compute(self, progress: Progress | None = None) -> tuple[Tables, list[Finding]]:
        """Compute what is missing; write tables and findings."""
        began = time.time()
        results = run_cells(self.cells, self.store, self.workers, progress)
        tables = self.study.tables(self.cells, results)
        findings = self.study.findings(tables)
        write_tables(tables, self.out / "tables")
        text = json.dumps([asdict(f) for f in findings], indent=2, ensure_ascii=False)
        write_whole(self.out / "findings.json", text + "\n")
        shutil.rmtree(self.out / "data", ignore_errors=True)  # cells need it no more
        record = {"seconds": time.time() - began, "workers": self.workers.scheduler or self.workers.processes}
        write_whole(self.out / "run.json", json.dumps(record, indent=2) + "\n")
        return tables, findings


def dry_plan(study: Study, out: Path, workers: Workers) -> str:
    """Estimate the time of a study, or of what is left of it in a folder; nothing is changed there."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run.begin(study, Path(folder), workers)
        if out.exists() and any(out.iterdir()):
            run = replace(run, store=CellStore(out, study.facts, read_only=True))
        return run.plan()
