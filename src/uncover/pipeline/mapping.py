"""Mapping of a scene with a model: planned, computed unit by unit, finished in one step."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from uncover import __version__
from uncover.bayes.population import UnknownShare
from uncover.engines.machine import machine_code
from uncover.files import check_new, check_place, read_json
from uncover.measurement.pooled import PoolSummariser
from uncover.models.record import ModelRecord
from uncover.pipeline.class_shares import MappedShares, with_class_shares
from uncover.pipeline.file_kinds import check_model_first
from uncover.pipeline.map_files import Finish, time_of
from uncover.pipeline.map_product import is_map
from uncover.pipeline.scene_sources import SourceOptions, files_with, offered, open_observed, source_record
from uncover.progress import in_units
from uncover.raster.classification import make_mapper
from uncover.raster.errors import SceneError, require
from uncover.raster.executors import MEGABYTE, Cluster, ComputePlan, Executor, Threads
from uncover.raster.fingerprints import fingerprint_of, unchanged
from uncover.raster.grid import Progress
from uncover.raster.journal import Journal, fingerprint, unfinished, writing
from uncover.raster.loose_files import SceneSource, SeveralScenes, files_of, source_name
from uncover.raster.mapper import Device, Mapper, Method, Missing, Reader
from uncover.raster.model_checks import check_match, is_namesake, trained_on
from uncover.raster.observed import ObservedScene, SceneWithNoise
from uncover.raster.product import CHUNK, UNIT, DType, Thresholds
from uncover.raster.quality import mask_names
from uncover.raster.scene import prefetch
from uncover.raster.scratch import Scratch, open_scratch
from uncover.raster.series import SceneSeries
from uncover.warn import warn

Format = Literal["cog", "zarr", "netcdf"]


@dataclass(frozen=True)
class MapOptions:
    """Options of a map. Those from `memory` on have no influence on the product.

    source
        How the scene is read and where its uncertainty comes from.
    paired
        Whether the scene trained the model; None takes the model's word.
    missing
        Pixels that lack bands: "nodata", or "marginalise" to classify them by the bands that they have. Of
        several dates a date that lacks a band is left out of the pixel, or its other bands count.
    method
        Pixels whose noise is known: "fast" by the Student t of matched covariance, or "exact".
    device
        "cpu", or "cuda" to compute on a GPU of NVIDIA; probabilities agree to 1e-5.
    unknown_share
        Share of pixels of none of the classes: a number in [0, 1], or "estimate" for that of the scene. The
        map then has the probability of none of the classes as a further layer; None: it has not.
    class_shares
        Class shares of the place: "training", "estimate" for those of the scene, or such as
        "forest=0.6,water=0.4", or the path of a table (class, share).
    dtype, format
        Numbers of the probability and uncertainty layers; the kind of files.
    thresholds
        When quality bits are set.
    date
        When a scene that does not say it was measured: a time, day, month, year, or two with a slash between.
    memory, threads, block, scheduler
        Bytes to stay below, threads, side of the blocks in which units follow one another, address of a
        dask scheduler.
    resume
        Go on with a run that was stopped.
    overwrite
        Replace a map that is there, once the new one is finished.
    """

    source: SourceOptions = field(default_factory=SourceOptions)
    paired: bool | None = None
    missing: Missing = "nodata"
    method: Method = "fast"
    device: Device = "cpu"
    unknown_share: float | Literal["estimate"] | None = None
    class_shares: str = "training"
    dtype: DType = "uint16"
    format: Format = "cog"
    thresholds: Thresholds = field(default_factory=Thresholds)
    date: str | None = None
    memory: int = 1 << 30
    threads: int | None = None
    block: int = 1024
    scheduler: str | None = None
    resume: bool = False
    overwrite: bool = False


@dataclass(frozen=True)
class PreparedMap:
    """A map that could be made: what it takes is known, nothing is written yet."""

    mapper: Mapper
    model_file: Path
    model_content: bytes  # of the file, which is read once
    plan: ComputePlan
    options: MapOptions
    estimated: UnknownShare | None = None  # share of none of the classes, where it is not stated
    shares: MappedShares | None = None  # of the classes, where they are not those of the training samples

    @classmethod
    def of(
        cls, model_file: str | Path, scene: SceneSource | SeveralScenes, options: MapOptions
    ) -> PreparedMap:
        """Open everything, and check that it fits together."""
        require("rasterio")
        for name, number in (("--block", options.block), ("--threads", options.threads)):
            if number is not None and number < 1:
                raise SceneError(f"{name} is {number}; give 1 or more")
        if options.device == "cuda" and options.scheduler is not None:
            raise SceneError("--device cuda computes on this machine, and --scheduler elsewhere; give one")
        check_model_first(model_file, files_of(scene)[0])
        opened = offered(scene, options.source) if Path(model_file).is_file() else None
        # Libraries that the model needs take seconds to import: long enough to decode part of the scene.
        with nullcontext() if opened is None else prefetch(opened.scene, options.memory // 4):
            from uncover.models.files import load_fitted, read_content

            content = read_content(model_file)
            model = load_fitted(model_file, content)
            whole = options.missing == "nodata"
            observed = open_observed(scene, model, options.source, opened, whole=whole)
            check_match(model, observed)
            reader = Reader(missing=options.missing, method=options.method, device=options.device)
            unknown_share, masked = _stated(options.unknown_share), options.source.mask_classes
            reader = replace(reader, unknown_share=unknown_share, masked=masked)
            mapper = make_mapper(model, observed, options.paired, reader, options.thresholds, options.dtype)
        if options.method == "exact" and isinstance(mapper.summariser, PoolSummariser):
            raise SceneError(
                "--method exact is for models of one kind (uncover fit --model published, lda, nb or mda); a "
                "pool has one way to read pixels with noise: leave it out"
            )
        mapper, shares = with_class_shares(mapper, options.class_shares)
        found = mapper.estimate_unknown() if options.unknown_share == "estimate" else None
        if found is not None:
            mapper = replace(mapper, reader=replace(mapper.reader, unknown_share=found.checked()))
        if options.paired is None and not mapper.reader.paired:
            _warn_of_namesake(model, observed, scene)
        plan = ComputePlan.of(options.memory, observed, mapper.product, options.threads)
        if observed.own_scene is not None:
            observed.own_scene.cache.capacity = plan.cache_bytes
        prepared = cls(mapper, Path(model_file), content, plan, options, found, shares)
        prepared.when()  # says what is wrong with the date before anything is computed
        return prepared

    @property
    def observed(self) -> ObservedScene:
        """Source of the pixels."""
        return self.mapper.observed

    def record(self) -> dict[str, Any]:
        """Record of how the product was made; no clock, no path."""
        sets = self.mapper.model.sets_
        return {
            "paired": self.mapper.reader.paired,
            "trained_on": trained_on(self.mapper.model),
            "scene": self.observed.identity,
            "measurement_uncertainty": self.observed.facts(),
            "worlds": self.mapper.product.worlds,
            "missing": self.options.missing,
            "mask_classes": mask_names(self.options.source.mask_classes),
            **({"dates": records} if (records := _dates(self.observed)) else {}),
            **({"mask_buffer_m": metres} if (metres := self.options.source.scene.mask_buffer) else {}),
            "method": self.options.method,
            **({} if (said := self.mapper.summariser.approximation) is None else {"approximation": said}),
            **({} if self.options.device == "cpu" else {"device": self.options.device}),
            "thresholds": asdict(self.options.thresholds),
            **({} if sets is None else {"coverage": float(sets.coverage)}),
            **self._unknown_facts(),
            **({} if self.shares is None else self.shares.as_facts()),
        }

    def _unknown_facts(self) -> dict[str, Any]:
        share = self.mapper.reader.unknown_share
        if share is None:
            return {}
        if self.estimated is None:
            return {"unknown_share": share}
        return {"unknown_share": share, "unknown_share_uncertainty": self.estimated.standard_uncertainty}

    def measurement_error(self) -> dict[str, Any]:
        """Error of the measurement layer by its number of points, for the record; none without points."""
        if self.observed.realisations == 1 and not isinstance(self.observed, SceneWithNoise):
            return {}
        found = self.mapper.measurement_error()
        return {} if found is None else {"measurement_error": found}

    def when(self) -> dict[str, Any]:
        """Time properties of the product's items: from the scene, or from the options."""
        scene, own = self.observed.own_scene, self.observed.sensing_time
        stated = self.options.date
        if stated is None and own is None and scene is not None:
            stated = scene.date
        if own is not None and stated == self.options.source.scene.date:
            stated = None  # compared when the scene was opened
        return time_of(own, stated)

    def key(self) -> str:
        """Hash of inputs, model and options: whether two runs make the same product."""
        scene = self.observed.own_scene
        facts = {
            "record": self.record(),
            "when": self.when(),
            "scene": None if scene is None else scene.facts(),
            "content": fingerprint_of(self.observed),
            "model": hashlib.sha256(self.model_content).hexdigest(),
            "dtype": self.options.dtype,
            "format": self.options.format,
            "version": [__version__, UNIT, CHUNK],
            "kernels": self._engine(),  # their last bits differ
        }
        return fingerprint(facts)

    def _engine(self) -> str:
        if self.options.device == "cuda":
            return "CUDA"
        return "NumPy" if machine_code() is None else "machine code"

    def executor(self) -> Executor:
        """Threads of this machine, or a cluster."""
        if self.options.scheduler is not None:
            return Cluster(self.options.scheduler)
        return Threads(self.plan.threads, self.plan.ahead)


def _dates(observed: ObservedScene) -> list[dict[str, Any]]:
    """Each date of a series with its scene and day."""
    return observed.own_scene.date_records() if isinstance(observed.own_scene, SceneSeries) else []


def _stated(share: float | Literal["estimate"] | None) -> float | None:
    """Check a share of none of the classes; one that is to be estimated begins at one half."""
    if share is None or isinstance(share, str):
        return None if share is None else 0.5
    if not 0 <= share <= 1:
        raise SceneError(f'--unknown-share is {share}; give a number from 0 to 1, or "estimate"')
    return float(share)


def _warn_of_namesake(
    model: ModelRecord, observed: ObservedScene, scene: SceneSource | SeveralScenes
) -> None:
    """Say that a scene is not taken for the one that trained the model, where it may be the same."""
    if isinstance(scene, SeveralScenes):
        return
    file = Path(source_name(scene).rstrip("/")).name
    if len(trained_on(model)) == 1 and is_namesake(model, observed, file):
        warn(
            f"{file} has the name of the scene that trained the model, and not its content or --scene-id: it "
            "is taken for another scene, whose errors are its own; say --paired if it is the same",
        )


def map_scene(
    model_file: str | Path,
    scene: SceneSource | SeveralScenes,
    out: str | Path,
    options: MapOptions | None = None,
    progress: Progress | None = None,
    phase: Callable[[str], None] = lambda name: None,
) -> Path:
    """Map a scene with a model, or scenes of several dates; the folder `out` appears when all is finished.

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
        prepared = PreparedMap.of(model_file, scene, chosen)
        key = prepared.key()
        if goal.exists() and not chosen.overwrite:
            return _already(goal, key)
        with (
            unfinished(goal, key, chosen.resume, chosen.overwrite, check) as (store, journal),
            _resumable(journal),
        ):
            # Scratch is kept until the product has its name: whoever goes on before that needs it.
            place = store.parent / "scratch"
            with writing(goal), open_scratch(place, prepared.mapper.product, journal) as scratch:
                clock.append(time.time())
                _compute(prepared, scratch, progress, phase)
                clock.append(time.time())
                finish = Finish(
                    prepared.mapper,
                    prepared.model_content,
                    prepared.record() | prepared.measurement_error(),
                    prepared.when(),
                    key,
                    chosen.format,
                    prepared.plan.threads,
                )
                phase("writing")
                finish.write(store, scratch)
                clock.append(time.time())
                finish.run_file(store, _run_facts(prepared, scene, clock))
    return goal


def _compute(
    prepared: PreparedMap, scratch: Scratch, progress: Progress | None, phase: Callable[[str], None]
) -> None:
    """Compute the units that are missing."""
    product = prepared.mapper.product
    numbers = scratch.missing(product.order(prepared.options.block))
    total = product.grid.window.pixels
    done = total - sum(scratch.units[number].pixels for number in numbers)
    phase("mapping")
    if progress is not None:
        progress(done, total)
    try:
        with in_units() as may_stop:
            for unit in prepared.executor().run(prepared.mapper, numbers):
                scratch.put(unit)
                done += scratch.units[unit.number].pixels
                if progress is not None:
                    progress(done, total)
                may_stop()
    finally:
        scratch.sync()


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
    shutil.rmtree(f"{goal}.partial", ignore_errors=True)
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
    prepared: PreparedMap, scene: SceneSource | SeveralScenes, clock: Sequence[float]
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
    prepared = PreparedMap.of(model_file, scene, options or MapOptions())
    opening, (once, rate) = time.monotonic() - began, _pace(prepared)
    product, plan = prepared.mapper.product, prepared.plan
    pixels = product.grid.window.pixels
    megabytes = pixels * product.bytes_per_pixel / MEGABYTE
    seconds = opening + once + pixels / rate + _FINISH + megabytes * _PER_MEGABYTE
    # Disk for scratch, and about as much again while the files are made from it.
    disk, memory = round(2 * megabytes), plan.bytes_needed // MEGABYTE
    return Forecast(len(prepared.mapper.units), plan.threads, memory, disk, seconds)


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
