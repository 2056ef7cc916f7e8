"""Mapping of a scene with a model: planned, computed unit by unit, finished in one step."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from uncover.files import check_new, check_place, in_use, read_json
from uncover.pipeline.map_files import Finish
from uncover.pipeline.map_product import is_map
from uncover.pipeline.mosaic import Mosaic, prepare_map
from uncover.pipeline.prepared_map import MapOptions, PreparedMap
from uncover.pipeline.scene_sources import files_with, source_record
from uncover.raster.errors import SceneError
from uncover.raster.executors import MEGABYTE, Threads
from uncover.raster.fingerprints import unchanged
from uncover.raster.grid import Progress
from uncover.raster.journal import Journal, unfinished, writing
from uncover.raster.loose_files import SceneSource, SeveralScenes, files_of
from uncover.raster.product import UNIT
from uncover.raster.scratch import open_scratch


def map_scene(
    model_file: str | Path,
    scene: SceneSource | SeveralScenes,
    out: str | Path,
    options: MapOptions | None = None,
    progress: Progress | None = None,
    phase: Callable[[str], None] = lambda name: None,
) -> Path:
    """Map a scene with a model, or scenes of several dates or tiles; the folder `out` appears at the end.

    Until then the work lies in `OUT.partial`. A run that was stopped goes on with `resume`, provided that
    inputs, model and options are the same; the product does not differ by a byte. `phase` is told what goes
    on.
    """
    clock = [time.time()]
    chosen = options or MapOptions()
    goal = Path(out)
    _check_goal(goal, chosen, model_file, *files_of(scene))
    phase("opening")
    with unchanged(*files_with(scene, chosen.source), apart=goal) as check:
        prepared = prepare_map(model_file, scene, chosen)
        key = prepared.key()
        if goal.exists() and not chosen.overwrite:
            return _already(goal, key)
        with (
            unfinished(goal, key, chosen.resume, chosen.overwrite, check) as (store, journal),
            _resumable(journal),
        ):
            # Scratch is kept until the product has its name: whoever goes on before that needs it.
            place = store.parent / "scratch"
            with writing(goal), open_scratch(place, prepared.product, journal) as scratch:
                clock.append(time.time())
                phase("mapping")
                areas = prepared.compute(scratch, progress or (lambda done, total: None))
                clock.append(time.time())
                finish = Finish(
                    prepared.mapper,
                    prepared.product,
                    prepared.identity,
                    prepared.scenes,
                    prepared.model_content,
                    prepared.record() | prepared.measurement_error(),
                    prepared.when(),
                    key,
                    chosen.format,
                    prepared.plan.threads,
                    prepared.tiles[0].doubts,
                )
                phase("writing")
                finish.write(store, scratch, areas)
                clock.append(time.time())
                finish.run_file(store, _run_facts(prepared, scene, clock))
    return goal


def _check_goal(goal: Path, options: MapOptions, *inputs: str | Path) -> None:
    """Find out before the work whether its result can be written, and nothing is lost by it."""
    check_place(goal)
    if not goal.exists() or (options.resume and goal.is_dir() and not options.overwrite):
        return
    check_new(goal, overwrite=options.overwrite)
    if not is_map(goal):
        raise SceneError(f"{goal} is no map, and --overwrite replaces maps only; write somewhere else")
    if any(Path(each).resolve().is_relative_to(goal.resolve()) for each in inputs):
        raise SceneError(f"an input lies in {goal}, which --overwrite would replace; write somewhere else")


def _already(goal: Path, key: str) -> Path:
    """A run that goes on and is finished already, if it is the same."""
    try:
        known = read_json(goal / "item.json", dict[str, Any])["properties"]["uncover:run"]
    except (OSError, ValueError, LookupError, TypeError):
        known = None
    if known != key:
        raise SceneError(f"{goal} holds another map (other inputs, model or options); write somewhere else")
    partial = Path(f"{goal}.partial")
    if partial.is_dir() and not in_use(partial):
        shutil.rmtree(partial, ignore_errors=True)
    return goal


@contextmanager
def _resumable(journal: Journal) -> Iterator[None]:
    """Say that finished work is kept, where there is some."""
    try:
        yield
    except SceneError as error:
        if journal.done and "resume" not in str(error):
            raise SceneError(f"{error}; finished work is kept, go on with --resume") from error
        raise


def _run_facts(
    prepared: PreparedMap | Mosaic, scene: SceneSource | SeveralScenes, clock: Sequence[float]
) -> dict[str, Any]:
    """Facts that have no influence on the product: the machine, the clock, the paths."""
    import platform
    from importlib.metadata import version

    stages = {
        name: round(end - begin, 3)
        for name, (begin, end) in zip(("open", "compute", "write"), pairwise(clock), strict=True)
    }
    return {
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(clock[0])),
        "seconds": round(clock[-1] - clock[0], 3),
        "stages": stages,
        "host": platform.node(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("uncover", "numpy", "scipy", "rasterio")},
        "model": str(prepared.model_file),
        "scene": _recorded(scene),
        "folder": str(Path.cwd()),
        "source": source_record(prepared.options.source),
        "threads": prepared.plan.threads,
        "block": prepared.options.block,
        "scheduler": prepared.options.scheduler,
        "memory": prepared.options.memory,
    }


def _recorded(scene: SceneSource | SeveralScenes) -> Any:
    """A source for the record: a path, the files of one scene, or a list of such lists."""
    if isinstance(scene, SeveralScenes):
        return [files_of(each) for each in scene.scenes]
    return str(scene) if isinstance(scene, str | Path) else files_of(scene)


# Seconds of units that are computed for a forecast: enough of them, and not another time after so many.
_ENOUGH, _LONG = 1.0, 10.0
# Seconds of what follows the last unit: for the picture and the records, and for each megabyte of layers.
_FINISH, _PER_MEGABYTE = 1.3, 1 / 40


@dataclass(frozen=True)
class Forecast:
    """Estimated cost of a map.

    >>> print(Forecast(4, 2, 300, 40, 9.0).text())
    units of 256 x 256 pixels   4
    threads                     2
    memory                      300 MB
    disk                        40 MB while it runs
    time                        9 s, if the machine is as busy as now
    """

    units: int
    threads: int
    megabytes: int
    disk: int
    seconds: float

    def text(self) -> str:
        """Lines for people."""
        minutes = f"{self.seconds / 60:.0f} min" if self.seconds > 120 else f"{self.seconds:.0f} s"
        lines = [
            (f"units of {UNIT} x {UNIT} pixels", str(self.units)),
            ("threads", str(self.threads)),
            ("memory", f"{self.megabytes} MB"),
            ("disk", f"{self.disk} MB while it runs"),
            ("time", f"{minutes}, if the machine is as busy as now"),
        ]
        return "\n".join(f"{name:<28}{value}" for name, value in lines)


def forecast(
    model_file: str | Path, scene: SceneSource | SeveralScenes, options: MapOptions | None = None
) -> Forecast:
    """Estimate the cost of a map: from the time it takes to open, and from one unit for each thread."""
    began = time.monotonic()
    prepared = prepare_map(model_file, scene, options or MapOptions())
    seconds = time.monotonic() - began
    units = disk = 0
    for tile in prepared.tiles:
        once, rate = _pace(tile)
        pixels = tile.product.grid.window.pixels
        seconds += once + pixels / rate
        units += len(tile.mapper.units)
        disk += pixels * tile.product.bytes_per_pixel
    layers = prepared.product.grid.window.pixels * prepared.product.bytes_per_pixel
    seconds += _FINISH + layers / MEGABYTE * _PER_MEGABYTE
    # Disk for scratch, and about as much again while the files are made from it.
    disk += layers if len(prepared.tiles) == 1 else 2 * layers
    memory = prepared.plan.bytes_needed // MEGABYTE
    return Forecast(units, prepared.plan.threads, memory, round(disk / MEGABYTE), seconds)


def _pace(prepared: PreparedMap) -> tuple[float, float]:
    """Seconds of what is made once with the first units, and pixels per second from then on.

    As many units as there are threads are computed at a time, from the middle of the map, and then again.
    """
    mapper, plan = prepared.mapper, prepared.plan
    first = max(0, (len(mapper.units) - plan.threads) // 2)
    numbers = range(len(mapper.units))[first : first + plan.threads]
    took: list[float] = []
    while len(took) < 2 or sum(took[1:]) < _ENOUGH:
        began = time.monotonic()
        for _ in Threads(plan.threads, plan.ahead).run(mapper, numbers):
            pass
        took.append(max(time.monotonic() - began, 1e-6))
        if sum(took) > _LONG:
            break
    pixels, each = sum(mapper.units[n].pixels for n in numbers), float(np.mean(took[1:] or took))
    return max(took[0] - each, 0.0), pixels / each
