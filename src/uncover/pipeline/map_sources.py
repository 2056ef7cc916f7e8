"""Where the pixels of a map come from: scenes and cubes, with the uncertainty that the user names."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from uncover.atmosphere import LookupTable, State
from uncover.measurement import aerosol_optical_depth
from uncover.pipeline.stores import is_zarr, zarr_kind
from uncover.raster.cube import open_cube
from uncover.raster.errors import SceneError
from uncover.raster.evidence import Aerosol, Evidence, Exact, Noisy, Stored
from uncover.raster.matching import model_bands
from uncover.raster.opening import open_scene
from uncover.raster.options import SceneOptions, canonical_band
from uncover.raster.scene import Scene
from uncover.raster.uncertainty import UncertaintyOptions, open_uncertainty

#: The largest optical depth of the embedded table.
_HIGHEST_AOD = 2.0


@dataclass(frozen=True)
class AerosolOptions:
    """An uncertain aerosol optical depth.

    aod
        The estimate at 550 nm; None takes that of the product.
    uncertainty
        Its standard uncertainty; by default what is known of the way in which it was retrieved.
    draws, seed
        How many worlds; the seed and the scene's identity decide them.
    angles
        Sun zenith, view zenith and relative azimuth in degrees, where the product has none.
    altitude
        Of the ground, in km.

    >>> AerosolOptions(aod=0.12).draws
    25
    """

    aod: float | None = None
    uncertainty: float | None = None
    draws: int = 25
    seed: int = 0
    angles: tuple[float, float, float] | None = None
    altitude: float = 0.0


@dataclass(frozen=True)
class SourceOptions:
    """How a scene is read, and where its uncertainty comes from; at most one source of it.

    >>> SourceOptions().aerosol is None
    True
    """

    scene: SceneOptions = field(default_factory=SceneOptions)
    aerosol: AerosolOptions | None = None
    uncertainty: str | Path | None = None
    uncertainty_options: UncertaintyOptions = field(default_factory=UncertaintyOptions)


def open_evidence(source: str | Path, model: Any, options: SourceOptions) -> Evidence:
    """Open a scene or a cube with the bands of a model, and its uncertainty."""
    if options.aerosol is not None and options.uncertainty is not None:
        raise SceneError("an AOD and an uncertainty file came; a map takes one source of uncertainty")
    if is_zarr(source) and zarr_kind(source) == "cube":
        return _cube(source, model, options)
    scene = _scene(source, model, options.scene)
    if options.uncertainty is not None:
        found = open_uncertainty(options.uncertainty, scene.grid, scene.bands, options.uncertainty_options)
        return Noisy.of(scene, found)
    if options.aerosol is not None:
        return _aerosol(scene, options.aerosol)
    return Exact(scene)


def _scene(source: str | Path, model: Any, options: SceneOptions) -> Scene:
    """The scene with the model's bands, by name; a stack without names needs the user's word."""
    wanted = model_bands(model)
    if options.bands is not None or wanted is None:
        return open_scene(source, options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        offered = open_scene(source, options)
    nameless = all(band.startswith("band_") for band in offered.bands)
    if nameless or offered.bands == wanted:
        return open_scene(source, options)
    return open_scene(source, replace(options, bands=wanted))


def _cube(source: str | Path, model: Any, options: SourceOptions) -> Stored:
    if options.aerosol is not None or options.uncertainty is not None:
        raise SceneError(f"{source} is a cube and has its uncertainty in its realisations; give no other")
    cube = open_cube(source)
    if options.scene.bbox is not None or options.scene.aoi is not None:
        raise SceneError("a cube is mapped as a whole; give --bbox and --aoi when it is made")
    names = options.scene.bands or model_bands(model) or cube.bands
    wanted = [canonical_band(band) for band in names]
    if not all(band in cube.bands for band in wanted):
        return Stored(cube)
    return Stored(cube, choice=tuple(cube.bands.index(band) for band in wanted))


def _aerosol(scene: Scene, options: AerosolOptions) -> Aerosol:
    """Worlds of a scene whose optical depth is uncertain."""
    if scene.level is None:
        raise SceneError(
            f"scene {scene.identity} does not say whether it is L1C or L2A, and an AOD needs to know; "
            "give a SAFE product or a STAC item"
        )
    if scene.platform is None:
        raise SceneError(f"scene {scene.identity} does not say which satellite measured it")
    own = scene.atmosphere
    aod = own.aot if options.aod is None else options.aod
    retrieval = own.aot_method or "CAMS"
    quantity = aerosol_optical_depth(
        aod, retrieval=retrieval, standard_uncertainty=options.uncertainty, highest=_HIGHEST_AOD
    )
    draws = quantity.draw(options.draws, scene=scene.identity, seed=options.seed)
    columns = {
        name: value
        for name, value in (("water_vapour", own.water_vapour), ("ozone", own.ozone))
        if value is not None
    }
    product = None
    if scene.level == "L2A":
        if own.aot is None and options.aod is None:
            raise SceneError(f"scene {scene.identity} has no AOT in its metadata; give --aod")
        product = State(aod=own.aot if own.aot is not None else options.aod or 0.0, **columns)
    return Aerosol(
        scene=scene,
        correction=LookupTable(scene.platform, scene.bands),
        state=State(aod=draws.values, **columns),
        product=product,
        angles=options.angles,
        altitude=options.altitude,
        description={
            "estimate": quantity.estimate,
            "standard uncertainty": quantity.standard_uncertainty,
            "retrieval": retrieval,
            "seed": options.seed,
            **columns,
        },
    )
