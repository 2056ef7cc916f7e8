"""A map that could be made: model, scene and options checked against each other, and nothing written yet."""

from __future__ import annotations

import hashlib
import warnings
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uncover import __version__
from uncover.bayes.population import UnknownShare
from uncover.engines.machine import machine_code
from uncover.measurement.pooled import PoolSummariser
from uncover.models.record import ModelRecord
from uncover.pipeline.adaptive_draws import AdaptiveDraws, settle_draws
from uncover.pipeline.class_shares import MappedShares, with_class_shares
from uncover.pipeline.file_kinds import check_model_first
from uncover.pipeline.map_files import time_of
from uncover.pipeline.map_table import Doubts
from uncover.pipeline.scene_sources import Offered, SourceOptions, offered, open_observed
from uncover.progress import in_units
from uncover.raster.classification import make_mapper
from uncover.raster.errors import SceneError, require
from uncover.raster.executors import Cluster, ComputePlan, Executor, Threads
from uncover.raster.fingerprints import fingerprint_of
from uncover.raster.grid import Progress
from uncover.raster.journal import fingerprint
from uncover.raster.loose_files import SceneSource, SeveralScenes, files_of, source_name
from uncover.raster.mapper import Device, Mapper, Method, Missing, Reader
from uncover.raster.model_checks import check_match, is_namesake, trained_on
from uncover.raster.observed import ObservedScene, SceneWithNoise
from uncover.raster.product import CHUNK, UNIT, DType, Product, Thresholds
from uncover.raster.quality import mask_names
from uncover.raster.scene import Scene, prefetch
from uncover.raster.scratch import Scratch
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
        "cpu", or "cuda" to compute on a GPU of NVIDIA; probabilities agree to 1e-5, of a pool to 1e-3.
    unknown_share
        Share of pixels of none of the classes: a number in [0, 1], or "estimate" for that of the scene. The
        map then has the probability of none of the classes as a further layer; None: it has not.
    class_shares
        Class shares of the place: "training", "estimate" for those of the scene, or such as
        "forest=0.6,water=0.4", or the path of a table (class, share).
    shares
        Split the measurement part by effect: a layer, a table and a figure of the report.
    digits
        Add blocks of worlds until so many significant digits of areas' uncertainties and of the mean
        measurement part are stable; None: the number of worlds is that of `source.realise`.
    crs
        Reference system of the product; None: that of the scene, or of most tiles.
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
    shares: bool = False
    digits: int | None = None
    crs: str | None = None
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

    def __post_init__(self) -> None:
        if self.digits not in (None, 1, 2, 3):
            raise SceneError(f"--draws auto:{self.digits} came; it takes 1, 2 or 3 significant digits")


@dataclass(frozen=True)
class PreparedMap:
    """A map of one scene, a series or a cube: what it takes is known, nothing is written yet."""

    mapper: Mapper
    model_file: Path
    model_content: bytes  # of the file, which is read once
    plan: ComputePlan
    options: MapOptions
    estimated: UnknownShare | None = None  # share of none of the classes, where it is not stated
    shares: MappedShares | None = None  # of the classes, where they are not those of the training samples
    settled: AdaptiveDraws | None = None  # how many worlds it took, where that was not stated

    @classmethod
    def of(
        cls,
        model_file: str | Path,
        scene: SceneSource | SeveralScenes,
        options: MapOptions,
        known: tuple[bytes, ModelRecord] | None = None,
    ) -> PreparedMap:
        """Open everything, and check that it fits together; the model may have been read before."""
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
            content, model = known or read_model(model_file)
            whole = options.missing == "nodata"
            observed = open_observed(scene, model, options.source, opened, whole=whole)
            check_match(model, observed)
            reader = Reader(missing=options.missing, method=options.method, device=options.device)
            unknown_share, masked = _stated(options.unknown_share), options.source.mask_classes
            reader = replace(reader, unknown_share=unknown_share, masked=masked, shares=options.shares)
            mapper = make_mapper(model, observed, options.paired, reader, options.thresholds, options.dtype)
        settled = None
        if options.digits is not None:
            few = mapper.observed.realisations
            again = _Again(scene, model, options, replace(reader, shares=False, unknown_share=None), opened)
            again.check(mapper)
            settled = settle_draws(again.mapper, options.digits, few)
            options = again.with_blocks(tuple(range(len(settled.blocks))))
            observed = again.observed(options)
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
            observed.own_scene.cache.limit(plan.cache_bytes)
        prepared = cls(mapper, Path(model_file), content, plan, options, found, shares, settled)
        prepared.when()  # says what is wrong with the date before anything is computed
        return prepared

    @property
    def observed(self) -> ObservedScene:
        """Source of the pixels."""
        return self.mapper.observed

    @property
    def tiles(self) -> tuple[PreparedMap, ...]:
        """Itself."""
        return (self,)

    @property
    def product(self) -> Product:
        """Grid and layers."""
        return self.mapper.product

    @property
    def identity(self) -> str:
        """Name of the scene."""
        return self.observed.identity

    @property
    def scenes(self) -> tuple[Scene | SceneSeries, ...]:
        """The scene; none for a cube."""
        own = self.observed.own_scene
        return () if own is None else (own,)

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
            **({"split_by": list(names)} if (names := self.mapper.product.share_names) else {}),
            **self._unknown_facts(),
            **({} if self.settled is None else {"adaptive_draws": self.settled.facts(self._class_names)}),
            **({} if self.shares is None else self.shares.as_facts()),
        }

    @property
    def _class_names(self) -> list[str]:
        return [str(name) for name in self.mapper.model.classes_]

    def _unknown_facts(self) -> dict[str, Any]:
        share = self.mapper.reader.unknown_share
        if share is None:
            return {}
        if self.estimated is None:
            return {"unknown_share": share}
        return {"unknown_share": share, "unknown_share_uncertainty": self.estimated.standard_uncertainty}

    @property
    def doubts(self) -> Doubts:
        """Shares that were estimated, for the uncertainty of areas."""
        return Doubts.of(None if self.shares is None else self.shares.estimate, self.estimated)

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

    def compute(self, scratch: Scratch, progress: Progress) -> NDArray[np.float64]:
        """Compute the units that are missing, and return the areas of all."""
        numbers = scratch.missing(self.product.order(self.options.block))
        total = self.product.grid.window.pixels
        done = total - sum(scratch.units[number].pixels for number in numbers)
        progress(done, total)
        try:
            with in_units() as may_stop:
                for unit in self.executor().run(self.mapper, numbers):
                    scratch.put(unit)
                    done += scratch.units[unit.number].pixels
                    progress(done, total)
                    may_stop()
        finally:
            scratch.sync()
        return scratch.areas()


@dataclass(frozen=True)
class _Again:
    """A scene that is opened in one block of worlds after the other, by the same model and options."""

    scene: SceneSource | SeveralScenes
    model: ModelRecord
    options: MapOptions
    reader: Reader
    opened: Offered | None

    def check(self, mapper: Mapper) -> None:
        """Refuse where the number of worlds is not free."""
        if self.options.source.realise is None:
            raise SceneError("--draws auto adds worlds, and none are drawn: give --aod or --product-aod")
        if mapper.reader.paired and self.model.realisations == "shared":
            raise SceneError(
                f"scene {mapper.observed.identity} trained the model, and is read in the worlds that did; "
                f"--draws auto is for other scenes: give --draws {self.model.model_.n_realisations}"
            )

    def with_blocks(self, blocks: tuple[int, ...]) -> MapOptions:
        """The options with these blocks of worlds."""
        assert self.options.source.realise is not None
        realise = replace(self.options.source.realise, blocks=blocks)
        return replace(self.options, source=replace(self.options.source, realise=realise))

    def observed(self, options: MapOptions) -> ObservedScene:
        """The scene, without repeating what was said when it was opened first."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole = options.missing == "nodata"
            return open_observed(self.scene, self.model, options.source, self.opened, whole=whole)

    def mapper(self, blocks: tuple[int, ...]) -> Mapper:
        """The mapper of some blocks."""
        options = self.with_blocks(blocks)
        observed = self.observed(options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return make_mapper(self.model, observed, options.paired, self.reader, options.thresholds)


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


def read_model(file: str | Path) -> tuple[bytes, ModelRecord]:
    """Content of a model file, and the model."""
    from uncover.models.files import load_fitted, read_content

    content = read_content(file)
    return content, load_fitted(file, content)
