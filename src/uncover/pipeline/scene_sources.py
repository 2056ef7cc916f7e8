"""Scenes and cubes to fit to or to map, with the uncertainty that the user names."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from uncover.files import reader
from uncover.measurement.bands import canonical_band
from uncover.measurement.dates import dates_of
from uncover.models.record import ModelRecord
from uncover.pipeline.realisations import RealiseOptions, realise_scene, warn_of_geolocation
from uncover.pipeline.series_sources import is_computed, series_of_model, with_formulas
from uncover.raster.arrays import moments
from uncover.raster.cube import is_zarr, open_cube, zarr_kind
from uncover.raster.errors import NoScaleError, SceneError
from uncover.raster.loose_files import SceneSource, SeveralScenes, files_of
from uncover.raster.model_checks import FROM_MODEL, model_bands, model_features
from uncover.raster.observed import ObservedScene, PlainScene, SceneWithNoise, SceneWithWorlds, StoredWorlds
from uncover.raster.opening import open_scene
from uncover.raster.quality import FLAGGED, Quality
from uncover.raster.realised import RealisedScene
from uncover.raster.scene import Scene, SceneOptions
from uncover.raster.series import RealisedSeries, SceneSeries, day_of
from uncover.raster.series_uncertainty import SeriesUncertainty
from uncover.raster.uncertainty import Uncertainty, UncertaintyOptions, open_uncertainty
from uncover.raster.world_noise import WorldNoise
from uncover.warn import warn


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Options of a scene: how it is read, and where its uncertainty comes from.

    scene
        How scenes are read: bands, area, scale and offset where metadata are silent.
    realise
        Make realisations of the scene at drawn optical depths; None: one measurement of each pixel.
    uncertainty, uncertainty_options
        File that states the standard uncertainty of the values, and how it is read. In training, random
        effects are taken out of the spread of the classes; systematic ones count where the model meets
        another scene. With `realise` they are added to what the worlds have.
    mask_classes
        Pixels with any of these quality bits neither train nor get a class; `mask_bits` makes them of names.
    features
        Features of a scene to fit to: "bands,NDVI,B08/B04"; None for its bands.
    dates
        Names of the dates of several scenes that are features: "season", or dates between commas.
    """

    scene: SceneOptions = field(default_factory=SceneOptions)
    realise: RealiseOptions | None = None
    uncertainty: str | Path | None = None
    uncertainty_options: UncertaintyOptions = field(default_factory=UncertaintyOptions)
    mask_classes: Quality = FLAGGED
    features: str | None = None
    dates: str | None = None


def files_with(source: SceneSource | SeveralScenes, options: SourceOptions) -> list[str | Path]:
    """A source, and the files that its options name."""
    scene, dem = options.scene, None if options.realise is None else options.realise.dem
    beside = (scene.aoi, scene.mask, dem, options.uncertainty, options.uncertainty_options.correlation)
    return [*files_of(source), *(file for file in beside if file is not None)]


def source_record(options: SourceOptions) -> dict[str, Any]:
    """The options as plain values, for the record of a run; `source_options` makes options of them again.

    >>> source_options(source_record(SourceOptions(uncertainty="noise.csv"))).uncertainty
    'noise.csv'
    """

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(key): plain(each) for key, each in value.items()}
        if isinstance(value, tuple):
            return [plain(each) for each in value]
        return str(value) if isinstance(value, Path) else value

    return {key: plain(value) for key, value in asdict(options).items()}


#: Options of scenes that are numbers.
_NUMBERS = ("scale", "offset", "nodata", "assumed_nodata", "mask_buffer", "cloud_probability", "moment")


@reader
def source_options(record: Mapping[str, Any]) -> SourceOptions:
    """Options from the record of a run."""

    def values(name: str) -> dict[str, Any]:
        given = record.get(name) or {}
        return {key: tuple(each) if isinstance(each, list) else each for key, each in given.items()}

    scene = values("scene")
    for name in _NUMBERS:
        if not isinstance(scene.get(name), int | float | None):
            raise ValueError(f"{name.replace('_', ' ')} in its record is no number")
    if scene.get("mask_values"):
        scene["mask_values"] = {int(key): Quality(bits) for key, bits in scene["mask_values"].items()}
    return SourceOptions(
        scene=SceneOptions(**scene),
        realise=RealiseOptions(**values("realise")) if record.get("realise") else None,
        uncertainty=record.get("uncertainty"),
        uncertainty_options=UncertaintyOptions(**values("uncertainty_options")),
        mask_classes=Quality(record.get("mask_classes", FLAGGED)),
        features=record.get("features"),
        dates=record.get("dates"),
    )


@dataclass(frozen=True)
class Offered:
    """A scene with its own bands, before it is known which a model takes; and what was said on opening it."""

    scene: Scene
    said: tuple[warnings.WarningMessage, ...] = ()

    @classmethod
    def of(cls, source: SceneSource, options: SceneOptions) -> Offered:
        """Open the scene, and keep the warnings: they hold only if its bands are those that are taken."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            scene = open_scene(source, options)
        return cls(scene, tuple(said))

    def taken(self) -> Scene:
        """The scene as it is."""
        for each in self.said:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
        return self.scene


def offered(source: SceneSource | SeveralScenes, options: SourceOptions) -> Offered | None:
    """The scene of a source, to be read ahead; None for cubes, dates, and where a scale is missing."""
    if isinstance(source, SeveralScenes) or is_cube(source):
        return None
    if isinstance(source, str | Path) and moments(source) > 1:
        return None
    try:
        return Offered.of(source, options.scene)
    except NoScaleError:
        return None  # the model may know it


def is_cube(source: SceneSource | SeveralScenes) -> bool:
    """True for a cube of realisations."""
    return isinstance(source, str | Path) and is_zarr(source) and zarr_kind(source) == "cube"


def open_observed(
    source: SceneSource | SeveralScenes,
    model: ModelRecord,
    options: SourceOptions,
    opened: Offered | None = None,
    *,
    whole: bool = True,
) -> ObservedScene:
    """Open a scene, scenes of several dates or a cube with the features of a model, and its uncertainty.

    `whole` leaves out a date of a pixel that lacks one band; else its other bands count.
    """
    names = model_bands(model)
    trained = None if names is None else dates_of(names)
    if trained is not None:
        sources = source.scenes if isinstance(source, SeveralScenes) else (source,)
        if any(is_cube(each) for each in sources):
            raise SceneError("the model takes scenes of several dates; give the scenes and --aod, not cubes")
        known = _calibration_of(model)
        found = series_of_model(
            sources, options.scene, options.dates, trained, known, options.mask_classes, whole
        )
        return observe(found, options)
    if options.dates is not None:
        raise SceneError(f"--dates {options.dates} came, and the model was trained on one date; leave it out")
    if isinstance(source, SeveralScenes):
        raise SceneError(f"{len(source.scenes)} scenes came, of which the model takes one at a time")
    if is_cube(source):
        assert isinstance(source, str | Path)
        return _cube(source, model, options)
    own = () if opened is None else opened.scene.bands
    if names is not None and options.scene.bands is None and any(is_computed(each, own) for each in names):
        scene = open_scene(source, options.scene)
        return observe(with_formulas(scene, source, names, options.scene, options.mask_classes), options)
    return observe(_scene(source, model, options.scene, opened), options)


#: Words in the names of stated effects that say which drawn effect they are.
_SAME_EFFECT = {
    "aod": {"aod", "aot", "aerosol", "aerosols"},
    "water-vapour": {"vapour", "vapor", "wv", "wvp", "tcwv"},
    "ozone": {"ozone", "o3"},
    "altitude": {"altitude", "elevation", "pressure"},
    "radiometry": {"radiometry", "radiometric", "l1c", "rut", "diffuser", "stray", "dark"},
    "aerosol-model": {"aerosol", "aerosols"},
    "geolocation": {"geolocation", "geometric", "registration", "misregistration"},
}


def _check_counted_once(stated: Uncertainty, effects: Sequence[str], file: str) -> None:
    """Refuse a file with an effect that the worlds have too."""
    for quantity in stated.facts()["quantities"]:
        words = set(re.split("[^a-z0-9]+", str(quantity["name"]).lower()))
        twice = next((effect for effect in effects if words & _SAME_EFFECT[effect]), None)
        if twice is not None:
            raise SceneError(
                f"{file} states the effect {quantity['name']!r}, and --effects draws {twice}: it would count "
                f"twice; leave {twice} out of --effects, or the effect out of the file"
            )


def observe(scene: Scene | SceneSeries, options: SourceOptions) -> ObservedScene:
    """The scene with its uncertainty, as the options state it: stated in a file, worlds, or none.

    Worlds of a series, and errors that its scenes share, are independent between dates.
    """
    if options.uncertainty is not None and options.realise is None:
        if isinstance(scene, Scene):
            return SceneWithNoise.of(scene, _stated(scene, options))
        stated = tuple(None if part is None else _stated(part, options) for part in scene.parts)
        return SceneWithNoise.of(scene, SeriesUncertainty(scene, stated))
    realise = options.realise
    if realise is None:
        return PlainScene(scene)
    how_drawn = {
        "seed": realise.seed,
        "method": realise.method,
        "angles": None if realise.angles is None else list(realise.angles),
    }
    if isinstance(scene, Scene):
        realised = realise_scene(scene, realise)
        return SceneWithWorlds(realised, how_drawn, _noise_beside(realised, options))
    if options.uncertainty is not None:
        raise SceneError(
            "--aod and --uncertainty came with several dates, which take one of them; leave one out"
        )
    warn_of_geolocation(realise, "several dates have")
    return SceneWithWorlds(RealisedSeries.of(scene, lambda part: realise_scene(part, realise)), how_drawn)


def _noise_beside(realised: RealisedScene, options: SourceOptions) -> WorldNoise | None:
    """Errors beside those of the worlds: of single pixels by the sensor, and what a file states."""
    assert options.realise is not None
    stated = None
    if options.uncertainty is not None:
        name = Path(options.uncertainty).name
        stated = _stated(realised.scene, options)
        _check_counted_once(stated, options.realise.effects, name)
        if stated.common:
            raise SceneError(
                f"{name} has effects common to all scenes, which do not go with worlds; say --between-scenes "
                "independent, or leave out --aod"
            )
    if stated is None and realised.radiometry is None and realised.misplaced is None:
        return None
    return WorldNoise(realised, realised.radiometry, stated)


def _stated(scene: Scene, options: SourceOptions) -> Uncertainty:
    """Uncertainty of a scene, from a file that may be that of its day."""
    assert options.uncertainty is not None
    path = str(options.uncertainty)
    path = path.replace("{date}", day_of(scene)) if "{date}" in path else path
    return open_uncertainty(path, scene.grid, scene.bands, options.uncertainty_options, scene)


def _scene(source: SceneSource, model: ModelRecord, options: SceneOptions, opened: Offered | None) -> Scene:
    """The scene with the bands of the model; with its scale and offset where nobody states them."""
    known = _calibration_of(model)
    if opened is None and (known is None or options.scale is not None):
        opened = Offered.of(source, options)  # or says that a scale is missing
    if known is not None and (opened is None or (opened.scene.calibrated_by == "nobody" and known[0] == 1)):
        options = replace(options, assumed=known)
        opened = Offered.of(source, options)
    assert opened is not None
    wanted, own = model_bands(model), opened.scene.bands
    if wanted is not None and options.bands is None and all(band.startswith("band_") for band in own):
        if len(wanted) == len(own) and not all(band.startswith("band_") for band in wanted):
            warn(
                f"scene {opened.scene.identity} does not name its bands; they are taken to be those of the "
                f"model in its order, {', '.join(wanted)} (--bands states others)",
            )
            return open_scene(source, replace(options, band_names=wanted))
    elif options.bands is None and wanted is not None and own != wanted:
        return open_scene(source, replace(options, bands=wanted))
    return opened.taken()


def _calibration_of(model: ModelRecord) -> tuple[float, float, str] | None:
    """Scale and offset of the training scenes, where all their bands have the same."""
    found = model_features(model)
    if found is None or len(set(found.scales)) != 1 or len(set(found.offsets)) != 1:
        return None
    return found.scales[0], found.offsets[0], FROM_MODEL


def _cube(source: str | Path, model: ModelRecord, options: SourceOptions) -> StoredWorlds:
    if options.realise is not None or options.uncertainty is not None:
        raise SceneError(f"{source} is a cube and has its uncertainty in its realisations; give no other")
    cube = replace(open_cube(source), level=options.scene.level)
    names = ("bbox", "aoi", "scale", "offset", "mask", "cloud_probability", "scene_id")
    given = [name for name in names if getattr(options.scene, name) is not None]
    given += ["mask_buffer"] if options.scene.mask_buffer else []
    if given:
        came = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise SceneError(f"{source} is a cube and mapped as it is; give {came} when it is made")
    bands = options.scene.bands or model_bands(model) or cube.bands
    wanted = [canonical_band(band) for band in bands]
    if not all(band in cube.bands for band in wanted):
        return StoredWorlds(cube)
    return StoredWorlds(cube, choice=tuple(cube.bands.index(band) for band in wanted))
