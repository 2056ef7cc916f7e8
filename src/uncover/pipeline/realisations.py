"""Realisations of a scene whose optical depth is uncertain, made on the fly or stored in a cube."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from uncover.atmosphere import LookupTable
from uncover.atmosphere.grib import aod_at
from uncover.files import check_place
from uncover.measurement import Draws, Quantity, aerosol_optical_depth
from uncover.measurement.quantity import Impossible, Method
from uncover.raster.align import align_raster
from uncover.raster.angles import AngleField, AngleGrids
from uncover.raster.cube import Cube, write_cube
from uncover.raster.grid import Grid, middle_of
from uncover.raster.opening import open_scene
from uncover.raster.realised import RealisedScene
from uncover.raster.scene import Scene, SceneOptions

Progress = Callable[[int, int], None]

#: The last optical depth of the look-up table: draws stay below it.
HIGHEST_AOD = 2.0
#: Columns where neither the user nor the product says: a mid-latitude summer day.
WATER_VAPOUR, OZONE = 2.0, 330.0


@dataclass(frozen=True)
class RealiseOptions:
    """Options of the realisations of a scene: the draws, and the correction.

    aod, uncertainty
        Optical depth at 550 nm and its standard uncertainty; the product's own value, and the uncertainty
        that follows from how it was retrieved, where they are None.
    product_aod
        An L1C product's own value is the CAMS forecast that it carries; False refuses to take it unasked.
    draws, method, impossible, seed
        How many worlds, and how they are drawn; see `uncover.measurement.Quantity`.
    altitude, dem, water_vapour, ozone
        Of the scene: km (or a raster of heights in metres), cm and Dobson units; the columns are the
        product's where they are None.
    angles
        Sun zenith, view zenith and relative azimuth in degrees, for scenes that carry none.

    >>> RealiseOptions(aod=0.12).draws
    25
    """

    aod: float | None = None
    uncertainty: float | None = None
    draws: int = 25
    method: Method = "quantile"
    impossible: Impossible = "truncate"
    seed: int = 0
    altitude: float = 0.0
    dem: str | None = None
    water_vapour: float | None = None
    ozone: float | None = None
    angles: tuple[float, float, float] | None = None
    product_aod: bool = True


def optical_depth(scene: Scene, options: RealiseOptions) -> Quantity:
    """The optical depth of a scene with its uncertainty."""
    known = scene.atmosphere
    own = own_optical_depth(scene) if options.aod is None else options.aod
    if own is None and scene.aerosol_forecast is not None and not options.product_aod:
        raise ValueError(
            "the aerosol optical depth is missing; give --aod, or --product-aod to take the CAMS forecast "
            "that the product carries"
        )
    return aerosol_optical_depth(
        forecast_aod(scene) if own is None and scene.level == "L1C" else own,
        retrieval=known.aot_method or "CAMS",
        standard_uncertainty=options.uncertainty,
        highest=HIGHEST_AOD,
        impossible=options.impossible,
    )


def own_optical_depth(scene: Scene) -> float | None:
    """The optical depth that a product states, else the mean of its AOT band; None where it has neither."""
    stated = scene.atmosphere.aot
    return scene.mean_aot() if stated is None else stated


def _corrected_at(scene: Scene, estimate: float) -> float:
    """The optical depth at which an L2A product was made, whatever the draws are around."""
    own = own_optical_depth(scene) if scene.level == "L2A" else estimate
    if own is None:
        warnings.warn(
            f"scene {scene.identity} does not say at which optical depth it was corrected (its metadata are "
            f"silent, and no AOT band has a value); it is taken to be that of --aod, {estimate:g}",
            stacklevel=4,
        )
    return estimate if own is None else own


def depth_record(quantity: Quantity, scene: Scene, options: RealiseOptions, draws: Draws) -> dict[str, Any]:
    """The optical depth as an input quantity: as stated, as its distribution has it, and as drawn."""
    given = options.uncertainty is not None
    return {
        **quantity.record(),
        "name": "aerosol optical depth at 550 nm",
        "units": "1",
        "draws": {
            "number": len(draws.values),
            "method": options.method,
            "mean": draws.mean,
            "standard_deviation": draws.standard_deviation,
        },
        "between_pixels": "systematic",
        "between_scenes": "independent",
        "source": (
            "--aod" if options.aod is not None else f"the product ({scene.atmosphere.aot_method or 'CAMS'})"
        )
        + (", --aod-uncertainty" if given else ", uncertainty by its retrieval"),
    }


def forecast_aod(scene: Scene) -> float:
    """The CAMS forecast that an L1C product carries, in the middle of the scene, when it was taken."""
    if scene.aerosol_forecast is None or scene.sensing_time is None:
        raise ValueError(
            "the aerosol optical depth is missing; give --aod, as the product carries no CAMS forecast "
            "(AUX_DATA/AUX_CAMSFO; from baseline 04.00)"
        )
    return aod_at(scene.aerosol_forecast, *middle_of(scene.grid), scene.sensing_time)


def realise_scene(scene: Scene, options: RealiseOptions) -> RealisedScene:
    """The realisations of a scene, made when they are read.

    >>> import numpy as np
    >>> from uncover.raster import Grid, scene_from_array
    >>> grid = Grid("EPSG:32633", (10, 0, 300000, 0, -10, 5000000), width=4, height=3)
    >>> scene = scene_from_array(np.full((1, 3, 4), 0.1, np.float32), grid, ("B02",))
    >>> realise_scene(scene, RealiseOptions(aod=0.12))
    Traceback (most recent call last):
    ...
    uncover.raster.errors.SceneError: scene ... does not say whether it is L1C ... or L2A ...
    """
    aod, known = optical_depth(scene, options), scene.atmosphere
    if options.dem is not None:
        _warn_of_voids(scene, options.dem)
    if options.angles is not None:
        sun, view, between = options.angles
        scene = replace(scene, angle_grids=AngleGrids(_everywhere(sun, 0.0), _everywhere(view, between)))
    draws = aod.draw(options.draws, scene=scene.source_id, seed=options.seed, method=options.method)
    return RealisedScene(
        scene=scene,
        table=LookupTable(scene.platform or "S2A", scene.bands),
        draws=draws,
        aod=_corrected_at(scene, aod.estimate),
        water_vapour=_first(options.water_vapour, known.water_vapour, WATER_VAPOUR),
        ozone=_first(options.ozone, known.ozone, OZONE),
        altitude=options.altitude,
        dem=options.dem,
        quantities=(depth_record(aod, scene, options, draws),),
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
        warnings.warn(
            f"{dem} has heights on about {share:.0%} of the scene; a cell of 128 x 128 pixels takes "
            "the mean of those it has",
            stacklevel=3,
        )


def write_realisations(
    source: str | Path,
    out: str | Path,
    options: RealiseOptions,
    scene_options: SceneOptions | None = None,
    *,
    resume: bool = False,
    progress: Progress | None = None,
) -> Cube:
    """Write the realisations of a scene to a cube, with the optical depth of each and where it came from."""
    check_place(out)
    realised = realise_scene(open_scene(source, scene_options), options)
    inputs = {"scene": realised.scene.facts(), "options": asdict(options)}
    return write_cube(out, realised.layout, realised.read, inputs=inputs, resume=resume, progress=progress)


def _everywhere(zenith: float, azimuth: float) -> AngleField:
    """One direction for all pixels."""
    nodes = np.ones((2, 2))
    return AngleField.from_degrees(zenith * nodes, azimuth * nodes, (0.0, 0.0), (1.0, 1.0))


def _first(*values: float | None) -> float:
    return next(float(value) for value in values if value is not None)
