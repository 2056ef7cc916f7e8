"""Realisations of a scene at drawn optical depths: by the look-up table, by Sen2Cor, or made elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from uncover.atmosphere.grib import aod_at
from uncover.atmosphere.lookup_table import (
    AEROSOL_MODELS,
    HIGHEST,
    LOWEST,
    OZONE_LIMIT,
    WATER_LIMIT,
    LookupTable,
)
from uncover.atmosphere.sen2cor import Installation, PerturbedCams, Sen2Cor, Sen2CorError
from uncover.files import check_place
from uncover.measurement import Draws, Quantity, aerosol_optical_depth
from uncover.measurement.quantity import (
    EFFECTS,
    Choice,
    Impossible,
    Method,
    draw_together,
    water_vapour_uncertainty,
)
from uncover.measurement.radiometry import REFINED, SATELLITE_FACTORS, Radiometry
from uncover.raster.align import align_raster
from uncover.raster.angles import AngleGrids
from uncover.raster.cube import Cube, CubeBlock, CubeLayout, time_text, write_cube
from uncover.raster.errors import SceneError
from uncover.raster.fingerprints import unchanged
from uncover.raster.grid import Grid, Progress, Window, middle_of
from uncover.raster.loose_files import SceneSource, files_of
from uncover.raster.opening import open_scene
from uncover.raster.realised import RealisedScene
from uncover.raster.scene import CACHE_BYTES, Atmosphere, Scene, SceneOptions
from uncover.raster.tiles import TileCache
from uncover.warn import warn

#: The last optical depth of the look-up table: draws stay below it.
HIGHEST_AOD = 2.0
#: Columns where neither the user nor the product says: a mid-latitude summer day.
WATER_VAPOUR, OZONE = 2.0, 330.0


#: Standard uncertainty of the altitude in km (1 % of the pressure, as weather changes it), and of ozone as
#: a share of the column (S2-L2A-RUT).
ALTITUDE_UNCERTAINTY, OZONE_SHARE = 0.08, 0.03
#: Effects whose standard uncertainty can be stated, with the fields that have it.
_UNCERTAINTIES = {
    "aod": "uncertainty",
    "water-vapour": "water_vapour_uncertainty",
    "ozone": "ozone_uncertainty",
    "altitude": "altitude_uncertainty",
    "geolocation": "geolocation_uncertainty",
}


#: Effects that "all" leaves out: nobody has published how probable the kinds of aerosol are.
ASKED = ("aerosol-model",)


def checked_effects(names: Sequence[str]) -> tuple[str, ...]:
    """Names of effects, in the order of `EFFECTS`; "all" is all of them but those of `ASKED`.

    >>> checked_effects(["ozone", "aod"])
    ('aod', 'ozone')
    >>> ["aerosol-model" in checked_effects(names) for names in (["all"], ["all", "aerosol-model"])]
    [False, True]
    """
    unknown = [name for name in names if name not in (*EFFECTS, "all")]
    if unknown or not names:
        raise ValueError(
            f"there is no effect {unknown[0]!r}; choose among {', '.join(EFFECTS)} and all"
            if unknown
            else f"no effect came; choose among {', '.join(EFFECTS)} and all"
        )
    return tuple(name for name in EFFECTS if name in names or ("all" in names and name not in ASKED))


@dataclass(frozen=True)
class RealiseOptions:
    """Options of the realisations of a scene: the draws, and the correction.

    effects
        Names of `EFFECTS`: what is drawn. Those that are not are at their estimate in all worlds.
    aod, uncertainty
        Optical depth at 550 nm and its standard uncertainty; the product's own value, and the uncertainty
        that follows from how it was retrieved, where they are None.
    product_aod_value
        Optical depth at which an L2A product was corrected, where it does not state it: it is undone.
    product_aod
        An L1C product's own value is the CAMS forecast that it carries; False refuses to take it unasked.
    draws, method, impossible, seed
        How many worlds, and how they are drawn; see `uncover.measurement.Quantity`.
    blocks
        Numbers of the blocks of so many worlds each, which are drawn by themselves. A map with
        `--draws auto` has more than the first.
    altitude, dem, water_vapour, ozone
        Of the scene: km (or a raster of heights in metres), cm and Dobson units; the columns are the
        product's where they are None.
    aerosol_models
        Models of 6S, of which the effect "aerosol-model" draws one for each world, with equal probability.
    altitude_uncertainty, water_vapour_uncertainty, ozone_uncertainty
        Standard uncertainties in the same units. That of the altitude stands for the pressure at the ground.
    geolocation_uncertainty
        Of the place of a pixel, along rows and along columns, in metres; 1.5 where it is None.
    angles
        Sun zenith, view zenith and relative azimuth in degrees, for scenes that carry none.
    """

    effects: tuple[str, ...] = ("aod",)
    aod: float | None = None
    uncertainty: float | None = None
    product_aod_value: float | None = None
    draws: int = 25
    blocks: tuple[int, ...] = (0,)
    method: Method = "quantile"
    impossible: Impossible = "truncate"
    seed: int = 0
    altitude: float = 0.0
    dem: str | None = None
    water_vapour: float | None = None
    ozone: float | None = None
    aerosol_models: tuple[str, ...] = AEROSOL_MODELS
    altitude_uncertainty: float | None = None
    water_vapour_uncertainty: float | None = None
    ozone_uncertainty: float | None = None
    geolocation_uncertainty: float | None = None
    angles: tuple[float, float, float] | None = None
    product_aod: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "effects", checked_effects(self.effects))
        _aerosols(self.aerosol_models)
        if self.aerosol_models != AEROSOL_MODELS and "aerosol-model" not in self.effects:
            raise ValueError(
                f"--aerosol-models {','.join(self.aerosol_models)} came, and --effects "
                f"{','.join(self.effects)} does not draw it; add aerosol-model to --effects, or leave it out"
            )
        given = {effect: getattr(self, field) for effect, field in _UNCERTAINTIES.items()}
        idle = [name for name, u in given.items() if u is not None and name not in self.effects]
        if idle:
            raise ValueError(
                f"--{idle[0]}-uncertainty {given[idle[0]]:g} came, and --effects {','.join(self.effects)} "
                f"does not draw it; add {idle[0]} to --effects, or leave it out"
            )
        metres = self.geolocation_uncertainty
        if metres is not None and not 0 <= metres < np.inf:
            raise ValueError(f"--geolocation-uncertainty is {metres:g}; give metres, 0 or more")


def optical_depth(scene: Scene, options: RealiseOptions) -> Quantity:
    """The optical depth of a scene with its uncertainty; with none where it is not among the effects."""
    known = scene.atmosphere
    own = own_optical_depth(scene) if options.aod is None else options.aod
    own = options.product_aod_value if own is None else own
    if own is None and scene.aerosol_forecast is not None and not options.product_aod:
        raise ValueError(
            "the aerosol optical depth is missing; give --aod, or --product-aod to take the CAMS forecast "
            "that the product carries"
        )
    return aerosol_optical_depth(
        forecast_aod(scene) if own is None and scene.level == "L1C" else own,
        retrieval=known.aot_method or "CAMS",
        standard_uncertainty=options.uncertainty if "aod" in options.effects else 0.0,
        highest=HIGHEST_AOD,
        impossible=options.impossible,
    )


def own_optical_depth(scene: Scene) -> float | None:
    """The optical depth that a product states, else the mean of its AOT band; None where it has neither."""
    stated = scene.atmosphere.aot
    return scene.mean_aot() if stated is None else stated


def _corrected_at(scene: Scene, estimate: float, stated: float | None) -> float:
    """The optical depth at which an L2A product was made, whatever the draws are around."""
    if scene.level != "L2A":
        if stated is not None:
            raise ValueError(
                f"--product-aod-value {stated:g} came, and scene {scene.identity} is not corrected (L1C); "
                "leave it out, or say --level L2A"
            )
        return estimate
    own = own_optical_depth(scene)
    if own is not None and stated is not None:
        raise ValueError(
            f"--product-aod-value {stated:g} came, and scene {scene.identity} states its own, {own:.4g}; "
            "leave it out (--aod states the optical depth that is right)"
        )
    if own is None and stated is None:
        warn(
            f"scene {scene.identity} does not say at which optical depth it was corrected (its metadata are "
            f"silent, and no AOT band has a value); it is taken to be that of --aod, {estimate:g} "
            "(--product-aod-value states another)",
        )
    return next(depth for depth in (own, stated, estimate) if depth is not None)


def quantity_record(draws: Draws, options: RealiseOptions, units: str, source: str) -> dict[str, Any]:
    """A quantity that a scene shares, for a record: as stated, as its distribution has it, and as drawn."""
    assert draws.quantity is not None
    return {
        **draws.quantity.record(),
        "units": units,
        "draws": {
            "number": len(draws.values),
            "method": options.method,
            "mean": draws.mean,
            "standard_deviation": draws.standard_deviation,
        },
        "between_pixels": "systematic",
        "between_scenes": "independent",
        "source": source,
    }


def depth_record(scene: Scene, options: RealiseOptions, draws: Draws) -> dict[str, Any]:
    """The optical depth as an input quantity."""
    method = scene.atmosphere.aot_method or "CAMS"
    said = "--aod" if options.aod is not None else f"the product ({method})"
    by_default = f", uncertainty by default: the formula of {method}"
    said += by_default if options.uncertainty is None else ", --aod-uncertainty"
    return {**quantity_record(draws, options, "1", said), "name": "aerosol optical depth at 550 nm"}


def forecast_aod(scene: Scene) -> float:
    """The CAMS forecast that an L1C product carries, in the middle of the scene, when it was taken."""
    if scene.aerosol_forecast is None or scene.sensing_time is None:
        raise ValueError(
            "the aerosol optical depth is missing; give --aod, as the product carries no CAMS forecast "
            "(AUX_DATA/AUX_CAMSFO; from baseline 04.00)"
        )
    return aod_at(scene.aerosol_forecast, *middle_of(scene.grid), scene.sensing_time)


def realise_scene(scene: Scene, options: RealiseOptions) -> RealisedScene:
    """The realisations of a scene, made when they are read."""
    aod, known = optical_depth(scene, options), scene.atmosphere
    if options.dem is not None:
        _warn_of_voids(scene, options.dem)
    if options.angles is not None:
        scene = replace(scene, angle_grids=AngleGrids.everywhere(*options.angles))
    water = _first(options.water_vapour, known.water_vapour, WATER_VAPOUR)
    ozone = _first(options.ozone, known.ozone, OZONE)
    drawn = _drawn(scene, options, (aod, *_columns(options, water, ozone)))
    _warn_of_bounds(drawn, options)
    own = drawn.pop("aod")
    records = [depth_record(scene, options, own)] if "aod" in options.effects else []
    records += [
        {**quantity_record(drawn[name], options, units, _said(option, name, options, known)),
         "name": option.replace("-", " ")}
        for option, name, units in _UNITS
        if name in drawn
    ]  # fmt: skip
    if "aerosol_model" in drawn:
        said = "embedded table of 6SV; the product's own correction is taken to be continental"
        kind = quantity_record(drawn["aerosol_model"], options, "1", said) | {"name": "aerosol model"}
        of_numbers = ("mean", "standard_deviation")
        kind["draws"] = {key: value for key, value in kind["draws"].items() if key not in of_numbers}
        records.append(kind)
    realised = RealisedScene(
        scene=scene,
        table=LookupTable(scene.platform or "S2A", scene.bands),
        draws=own,
        aod=_corrected_at(scene, aod.estimate, options.product_aod_value),
        water_vapour=water,
        ozone=ozone,
        others=drawn,
        misplaced=_first(options.geolocation_uncertainty, REFINED)
        if "geolocation" in options.effects
        else None,
        altitude=options.altitude,
        dem=options.dem,
        quantities=tuple(records),
    )
    return _with_radiometry(realised, options) if "radiometry" in options.effects else realised


def _said(option: str, name: str, options: RealiseOptions, known: Atmosphere) -> str:
    """Where the estimate of a quantity beside the optical depth and its uncertainty come from."""
    value = "default"
    if name == "height":
        value = "--dem" if options.dem is not None else "--altitude, or sea level"
    elif getattr(options, name) is not None:
        value = f"--{option}"
    elif getattr(known, name) is not None:
        value = "the product"
    stated = getattr(options, _UNCERTAINTIES[option]) is not None
    return f"{value}, " + (f"--{option}-uncertainty" if stated else "uncertainty by default")


def _warn_of_bounds(drawn: Mapping[str, Draws], options: RealiseOptions) -> None:
    """Say where bounds cut off much of a distribution whose uncertainty was stated."""
    names = {"aod": "aod", **{option: name for option, name, _ in _UNITS}}
    for option, name in names.items():
        quantity = drawn[name].quantity if name in drawn else None
        if getattr(options, _UNCERTAINTIES[option]) is None or quantity is None:
            continue
        found, u = quantity.record(), quantity.standard_uncertainty
        if found["distribution_standard_deviation"] < 0.5 * u:
            warn(
                f"--{option}-uncertainty {u:g} is wide for a quantity from {quantity.lowest:g} to "
                f"{quantity.highest:g}, where its distribution is cut off: its mean is "
                f"{found['distribution_mean']:.3g} and its standard deviation "
                f"{found['distribution_standard_deviation']:.3g}; give the standard uncertainty (k = 1)",
            )


#: Option, name of the draws, and units of quantities beside the optical depth.
_UNITS = (("water-vapour", "water_vapour", "cm"), ("ozone", "ozone", "DU"), ("altitude", "height", "km"))


def _columns(options: RealiseOptions, water: float, ozone: float) -> list[Quantity]:
    """Quantities of the effects beside the optical depth: errors of height and sensor lie about zero."""
    u = {
        "water_vapour": _first(options.water_vapour_uncertainty, float(water_vapour_uncertainty(water))),
        "ozone": _first(options.ozone_uncertainty, OZONE_SHARE * ozone),
        "height": _first(options.altitude_uncertainty, ALTITUDE_UNCERTAINTY),
    }
    found = {
        "water_vapour": Quantity("water_vapour", water, u["water_vapour"], highest=WATER_LIMIT),
        "ozone": Quantity("ozone", ozone, u["ozone"], highest=OZONE_LIMIT),
        "height": Quantity("height", 0.0, u["height"], *_room(options, u["height"])),
        "aerosol_model": Choice.of("aerosol_model", _aerosols(options.aerosol_models)),
    }
    names = [name for effect in options.effects if effect != "aod" for name in EFFECTS[effect]]
    return [found.get(name) or Quantity(name, 0.0, 1.0, lowest=-np.inf) for name in names]


def _room(options: RealiseOptions, u: float) -> tuple[float, float]:
    """How far, in km, the ground may be below and above its altitude, where the table ends within 5 u."""
    below, above = min(LOWEST - options.altitude, 0.0), max(HIGHEST - options.altitude, 0.0)
    known = options.dem is None
    return below if known and -below < 5 * u else -np.inf, above if known and above < 5 * u else np.inf


def _aerosols(names: Sequence[str]) -> dict[str, int]:
    """Numbers of aerosol models by name, in the order of the table."""
    unknown = [name for name in names if name not in AEROSOL_MODELS]
    if unknown or not names:
        came = f"there is no aerosol model {unknown[0]!r}" if unknown else "no aerosol model came"
        raise ValueError(f"{came}; choose among {', '.join(AEROSOL_MODELS)}")
    return {name: number for number, name in enumerate(AEROSOL_MODELS) if name in names}


def _drawn(scene: Scene, options: RealiseOptions, quantities: Sequence[Quantity]) -> dict[str, Draws]:
    """Draws of all quantities by name; errors of the satellite are the same in all its scenes."""
    of_satellite = [each for each in quantities if each.name in SATELLITE_FACTORS]
    of_scene = [each for each in quantities if each.name not in SATELLITE_FACTORS]
    groups = (of_scene, scene.source_id), (of_satellite, scene.platform or "S2A")
    n, seed, method = options.draws, options.seed, options.method
    found: dict[str, Draws] = {}
    for some, name in groups:
        blocks = [
            draw_together(some, n, scene=_of_block(name, block), seed=seed, method=method)
            for block in options.blocks
        ]
        found |= {each.name: Draws.joined([block[each.name] for block in blocks]) for each in some}
    return found


def _of_block(name: str, block: int) -> str:
    """Name by which a block of worlds is drawn; the first has that of the scene."""
    return f"{name}, block {block}" if block else name


def _with_radiometry(realised: RealisedScene, options: RealiseOptions) -> RealisedScene:
    """With the errors of the sensor in each world, and their records."""
    scene, here = realised.scene, realised.middle
    if scene.platform is None:
        raise SceneError(
            f"scene {scene.identity} does not say which satellite measured it, and --effects radiometry "
            "needs to know; give --sensor S2A, S2B or S2C"
        )
    found = Radiometry.of(scene.platform, scene.bands, np.asarray(here.sun_zenith).item(), scene.sensing_time)
    blocks = [scene.read(window) for window in scene.grid.spots(64, 16)]
    values = np.concatenate([block.samples(block.valid) for block in blocks])
    if not len(values):
        raise SceneError(
            f"no clear pixel of scene {scene.identity} has a value to take its stray light from; leave "
            "radiometry out of --effects"
        )
    mean = values.mean(axis=0, dtype=np.float64)
    if scene.level == "L2A":
        mean = realised.table.simulate(mean, realised.product_state, here)
    names = [_of_block(scene.source_id, block) for block in options.blocks]
    dark = np.concatenate([found.draw_dark_signal(options.draws, name, options.seed) for name in names])
    factors = {name: draws.values for name, draws in realised.others.items()}
    records = (*realised.quantities, *found.records())
    signal = found.signal(factors, dark, mean)
    return replace(realised, signal=signal, radiometry=found, quantities=records)


def warn_of_geolocation(options: RealiseOptions, where: str) -> None:
    """Say that worlds alone have no errors of geolocation."""
    if "geolocation" in options.effects:
        warn(
            f"{where} worlds alone, and errors of geolocation, which are those of single pixels beside "
            "worlds, do not count; leave geolocation out of --effects, or fit and map one scene as it is",
        )


def _warn_of_voids(scene: Scene, dem: str) -> None:
    """Say how much of a scene has no height, by 64 x 64 places on it."""
    grid = scene.grid
    height, width = (min(length, 64) for length in grid.shape)
    a, b, c, d, e, f = grid.transform
    down, across = grid.height / height, grid.width / width
    coarse = Grid(grid.crs, (a * across, b * down, c, d * across, e * down, f), width, height)
    share = float(align_raster(dem, coarse).valid.mean())
    if share < 0.99:  # a rim of pixels is lost by every warp
        warn(
            f"{dem} has heights on about {share:.0%} of the scene; a cell of 128 x 128 pixels takes "
            "the mean of those it has",
        )


def write_realisations(
    source: SceneSource,
    out: str | Path,
    options: RealiseOptions,
    scene_options: SceneOptions | None = None,
    *,
    resume: bool = False,
    progress: Progress | None = None,
    scheduler: str | None = None,
) -> Cube:
    """Write the realisations of a scene to a cube, with the optical depth of each and where it came from.

    The workers of a dask.distributed `scheduler`, which see the same files, make them where one is named.
    """
    check_place(out)
    with unchanged(*files_of(source), *_beside(scene_options), options.dem, apart=out) as check:
        realised = realise_scene(open_scene(source, scene_options), options)
        warn_of_geolocation(options, "a cube stores")
        inputs = {"scene": realised.scene.facts(), "options": asdict(options)}
        how: dict[str, Any] = {"resume": resume, "progress": progress, "check": check, "scheduler": scheduler}
        return write_cube(out, realised.layout, realised.read, inputs=inputs, **how)


def _beside(options: SceneOptions | None) -> tuple[str | Path | None, ...]:
    return () if options is None else (options.aoi, options.mask)


def _first(*values: float | None) -> float:
    return next(float(value) for value in values if value is not None)


#: Decoded tiles that are kept for each product: those of ten bands at one place, with their neighbours.
_TILES_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class CorrectedScenes:
    """Scenes that are corrections of one and the same, read together.

    A pixel has the quality bits of all of them: it is usable where it is usable in every world.
    """

    scenes: tuple[Scene, ...]

    @classmethod
    def open(cls, sources: Sequence[str | Path], options: SceneOptions) -> CorrectedScenes:
        """Open the products, and refuse those that do not belong together."""
        if len(sources) < 2:
            raise SceneError(
                f"{len(sources)} product came with --as worlds; give one for each world, at least 2"
            )
        twice = next((name for i, name in enumerate(sources) if name in sources[:i]), None)
        if twice is not None:
            raise SceneError(f"{twice} came twice; give each world once")
        cache = TileCache(max(CACHE_BYTES, _TILES_BYTES * len(sources)))
        scenes = tuple(replace(open_scene(source, options), cache=cache) for source in sources)
        for source, scene in zip(sources, scenes, strict=True):
            _check_alike(scenes[0], scene, Path(sources[0]).name, Path(source).name)
        return cls(scenes)

    def layout(self, draws: Draws, attributes: Mapping[str, Any]) -> CubeLayout:
        """The cube that holds them."""
        first = self.scenes[0]
        return CubeLayout(
            first.grid,
            first.bands,
            realisations=len(self.scenes),
            identity=first.identity,
            coordinates={"aod": draws.values, "weight": draws.weights},
            attributes={
                **attributes,
                "features": first.features.as_dict(),
                "sensing_time": time_text(first.sensing_time),
            },
        )

    def read(self, window: Window) -> CubeBlock:
        """All worlds of a window."""
        blocks = [scene.read(window) for scene in self.scenes]
        quality = np.bitwise_or.reduce([block.quality for block in blocks])
        return CubeBlock(window, np.stack([block.reflectance for block in blocks]), quality)


def _check_alike(first: Scene, scene: Scene, name: str, other: str) -> None:
    if scene.level != "L2A":
        raise SceneError(
            f"{other} is not an L2A product ({scene.level or 'no level is stated'}); --as worlds takes "
            "corrected products: correct it first, or realise it alone"
        )
    if scene.identity != first.identity:
        raise SceneError(
            f"{other} is of scene {scene.identity} and {name} of {first.identity}; worlds are corrections of "
            "one scene: give each scene a cube of its own"
        )
    if scene.bands != first.bands:
        raise SceneError(
            f"{other} has the bands {', '.join(scene.bands)}, {name} has {', '.join(first.bands)}"
        )
    if scene.grid != first.grid:
        raise SceneError(
            f"{other} lies on another grid than {name} ({_words(scene)}, {_words(first)}); worlds are "
            "corrections of one product: give those of one tile and resolution"
        )


def _words(scene: Scene) -> str:
    grid, (_, _, x, _, _, y) = scene.grid, scene.grid.transform
    return f"{grid.crs}, {grid.height} x {grid.width} pixels from {x:.10g} {y:.10g}"


def write_worlds(
    sources: Sequence[str | Path],
    out: str | Path,
    scene_options: SceneOptions | None = None,
    *,
    resume: bool = False,
    progress: Progress | None = None,
    scheduler: str | None = None,
) -> Cube:
    """Write a cube of L2A products that were corrected elsewhere, each at an optical depth of its own."""
    check_place(out)
    with unchanged(*sources, *_beside(scene_options), apart=out) as check:
        worlds = CorrectedScenes.open(sources, scene_options or SceneOptions())
        depths = [scene.atmosphere.aot for scene in worlds.scenes]
        values = np.array([np.nan if depth is None else depth for depth in depths])
        draws = Draws(values, np.full(len(depths), 1 / len(depths)))
        attributes = {"correction": "products corrected elsewhere"}
        how: dict[str, Any] = {"resume": resume, "progress": progress, "check": check, "scheduler": scheduler}
        return _write(worlds, draws, attributes, out, {}, **how)


@dataclass(frozen=True)
class Sen2CorOptions:
    """Options of Sen2Cor runs.

    path
        Its folder or its L2A_Process; the one on the PATH where it is None.
    workers
        Runs at a time.
    keep
        Keep the L2A products beside the cube, in OUT.sen2cor.
    """

    path: str | None = None
    workers: int = 1
    keep: bool = False


@dataclass(frozen=True)
class _Runs:
    """Sen2Cor runs of a scene at its drawn optical depths, which are those that the table takes.

    `missing` says why they can only be planned, and is empty where Sen2Cor is installed.
    """

    scene: Scene
    quantity: Quantity
    draws: Draws
    found: Installation
    driver: Sen2Cor
    source: Path
    folder: Path
    missing: str = ""

    @classmethod
    def of(
        cls,
        source: str | Path,
        out: str | Path,
        options: RealiseOptions,
        scene_options: SceneOptions,
        how: Sen2CorOptions,
        *,
        planned: bool = False,
    ) -> _Runs:
        """Runs to start, or only to plan: then Sen2Cor need not be there."""
        scene = open_scene(source, scene_options)
        _check_l1c_folder(source, scene)
        if how.workers < 1:
            raise SceneError(f"--workers is {how.workers}; it is 1 or more")
        aod = optical_depth(scene, options)
        draws = aod.draw(options.draws, scene=scene.source_id, seed=options.seed, method=options.method)
        missing = ""
        try:
            found = Installation.find(how.path)
        except Sen2CorError as error:
            if not planned:
                raise
            found, missing = _NOT_INSTALLED, str(error)
        mode = PerturbedCams(found.gipp, found.ac_gipp, forecast_aod(scene), installed=not missing)
        driver = Sen2Cor(mode, found.executable, processes=how.workers)
        folder = Path(f"{out}.sen2cor")
        return cls(scene, aod, draws, found, driver, Path(source).absolute(), folder, missing)


#: Names that stand for a program and files that are not there.
_NOT_INSTALLED = Installation(
    Path("L2A_Process"), "", Path("Sen2Cor/cfg/L2A_GIPP.xml"), Path("Sen2Cor/cfg/L2A_CAL_AC_GIPP.xml")
)


def _check_l1c_folder(source: str | Path, scene: Scene) -> None:
    """Refuse what Sen2Cor does not take."""
    if scene.level == "L2A":
        raise SceneError(
            f"{source} is an L2A product, corrected to the surface already; Sen2Cor corrects L1C products: "
            "give that of the same scene, or draw around this correction with --correction table"
        )
    if scene.level != "L1C" or not Path(source).is_dir():
        remedy = "unzip it" if scene.level == "L1C" else "give the .SAFE folder of the scene"
        raise SceneError(f"{source} is not the folder of an L1C product, which Sen2Cor corrects; {remedy}")


def plan_sen2cor(
    source: str | Path,
    out: str | Path,
    options: RealiseOptions,
    scene_options: SceneOptions | None = None,
    how: Sen2CorOptions | None = None,
) -> list[str]:
    """Every file that `write_sen2cor` would write, and every command that it would run.

    Where Sen2Cor is missing, they are those of an installation by its usual names, and the last line says so.
    """
    scene_options, how = scene_options or SceneOptions(), how or Sen2CorOptions()
    runs = _Runs.of(source, out, options, scene_options, how, planned=True)
    depths = runs.draws.values.tolist()
    lines = runs.driver.plan(runs.source, depths, runs.folder, installed=not runs.missing)
    cube = f"{len(runs.draws.values)} worlds of {len(runs.scene.bands)} bands, {_words(runs.scene)}"
    lines.append(f"# writes {Path(out).absolute()}: {cube}")
    return [*lines, f"# cannot be run yet: {runs.missing}"] if runs.missing else lines


def write_sen2cor(
    source: str | Path,
    out: str | Path,
    options: RealiseOptions,
    scene_options: SceneOptions | None = None,
    how: Sen2CorOptions | None = None,
    *,
    resume: bool = False,
    correcting: Progress | None = None,
    progress: Progress | None = None,
) -> Cube:
    """Correct an L1C product with Sen2Cor once per drawn optical depth, and write the worlds to a cube.

    Its L2A products lie in OUT.sen2cor until the cube is complete; a run that was stopped goes on there.
    """
    check_place(out)
    how, scene_options = how or Sen2CorOptions(), scene_options or SceneOptions()
    runs = _Runs.of(source, out, options, scene_options, how)
    if Path(out).exists():
        raise SceneError(f"{out} exists already; remove it, or write somewhere else")
    if runs.folder.exists() and not resume:
        raise SceneError(f"{runs.folder} is an unfinished run; go on with --resume, or remove it")
    made = runs.driver.realise(runs.source, runs.draws.values.tolist(), runs.folder, correcting)
    worlds = CorrectedScenes.open(made.products, scene_options)
    _check_same_place(runs.scene, worlds.scenes[0])
    attributes = {
        "correction": f"Sen2Cor {runs.found.version}, optical depth of CAMS shifted",
        "aod_estimate": runs.quantity.estimate,
        "quantities": [depth_record(runs.scene, options, runs.draws)],
        "aod_reached": list(made.reached),
        "level": "L1C",
    }
    inputs = {"scene": runs.scene.facts(), "options": asdict(options)}
    cube = _write(worlds, runs.draws, attributes, out, inputs, resume=resume, progress=progress)
    if not how.keep:
        shutil.rmtree(runs.folder)
    return cube


def _check_same_place(scene: Scene, world: Scene) -> None:
    """Sen2Cor's product is of the scene that the optical depths were drawn for."""
    if scene.grid != world.grid or scene.identity != world.identity:
        raise SceneError(
            f"Sen2Cor wrote {world.identity} on {_words(world)}, the scene is {scene.identity} on "
            f"{_words(scene)}; correct the whole product: Region_Of_Interest in L2A_GIPP.xml must be OFF"
        )


def _write(
    worlds: CorrectedScenes,
    draws: Draws,
    attributes: Mapping[str, Any],
    out: str | Path,
    inputs: Mapping[str, Any],
    **how: Any,
) -> Cube:
    facts = {**inputs, "worlds": [scene.facts() for scene in worlds.scenes]}
    layout = worlds.layout(draws, attributes)
    return write_cube(out, layout, worlds.read, inputs=facts, **how)
