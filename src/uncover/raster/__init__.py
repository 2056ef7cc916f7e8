"""Scenes in, layers out: grids, reading by windows, masks, labels on a scene's grid, cubes.

rasterio, xarray, zarr, pyogrio and shapely (`pip install uncover[maps]`) are imported when something is
opened, not with this package.
"""

from typing import TYPE_CHECKING

from uncover.lazy import lazy_names

if TYPE_CHECKING:
    from uncover.measurement.bands import canonical_band as canonical_band
    from uncover.raster.align import Aligned as Aligned
    from uncover.raster.align import align_raster as align_raster
    from uncover.raster.align import split_band as split_band
    from uncover.raster.angles import Angles as Angles
    from uncover.raster.area import window_of as window_of
    from uncover.raster.classification import classify as classify
    from uncover.raster.cube import Cube as Cube
    from uncover.raster.cube import CubeBlock as CubeBlock
    from uncover.raster.cube import CubeLayout as CubeLayout
    from uncover.raster.cube import open_cube as open_cube
    from uncover.raster.cube import write_cube as write_cube
    from uncover.raster.errors import OffsetWarning as OffsetWarning
    from uncover.raster.errors import ReadError as ReadError
    from uncover.raster.errors import SceneError as SceneError
    from uncover.raster.executors import Cluster as Cluster
    from uncover.raster.executors import Serial as Serial
    from uncover.raster.executors import Threads as Threads
    from uncover.raster.grid import Grid as Grid
    from uncover.raster.grid import Window as Window
    from uncover.raster.mapper import Reader as Reader
    from uncover.raster.observed import ObservedScene as ObservedScene
    from uncover.raster.observed import PlainScene as PlainScene
    from uncover.raster.observed import SceneWithNoise as SceneWithNoise
    from uncover.raster.observed import SceneWithWorlds as SceneWithWorlds
    from uncover.raster.observed import StoredWorlds as StoredWorlds
    from uncover.raster.opening import open_scene as open_scene
    from uncover.raster.pixel_area import pixel_areas as pixel_areas
    from uncover.raster.product import Thresholds as Thresholds
    from uncover.raster.quality import INCOMPLETE as INCOMPLETE
    from uncover.raster.quality import UNUSABLE as UNUSABLE
    from uncover.raster.quality import Quality as Quality
    from uncover.raster.realised import RealisedScene as RealisedScene
    from uncover.raster.safe import TEN_BANDS as TEN_BANDS
    from uncover.raster.safe import MaskWarning as MaskWarning
    from uncover.raster.safe_metadata import BaselineWarning as BaselineWarning
    from uncover.raster.samples import SampleBlock as SampleBlock
    from uncover.raster.samples import Samples as Samples
    from uncover.raster.samples import open_samples as open_samples
    from uncover.raster.samples import write_samples as write_samples
    from uncover.raster.scene import Atmosphere as Atmosphere
    from uncover.raster.scene import Block as Block
    from uncover.raster.scene import Scene as Scene
    from uncover.raster.scene import SceneOptions as SceneOptions
    from uncover.raster.scene import scene_from_array as scene_from_array
    from uncover.raster.series import SceneSeries as SceneSeries
    from uncover.raster.uncertainty import Uncertainty as Uncertainty
    from uncover.raster.uncertainty import UncertaintyOptions as UncertaintyOptions
    from uncover.raster.uncertainty import UncertaintyWarning as UncertaintyWarning
    from uncover.raster.uncertainty import open_uncertainty as open_uncertainty
    from uncover.raster.uncertainty_layers import UncertaintyBlock as UncertaintyBlock
    from uncover.raster.vectors import Burned as Burned
    from uncover.raster.vectors import burn_vector as burn_vector

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "uncover.measurement.bands": "canonical_band",
        "uncover.raster.align": "Aligned align_raster split_band",
        "uncover.raster.angles": "Angles",
        "uncover.raster.area": "window_of",
        "uncover.raster.classification": "classify",
        "uncover.raster.cube": "Cube CubeBlock CubeLayout open_cube write_cube",
        "uncover.raster.errors": "OffsetWarning ReadError SceneError",
        "uncover.raster.executors": "Cluster Serial Threads",
        "uncover.raster.grid": "Grid Window",
        "uncover.raster.mapper": "Reader",
        "uncover.raster.observed": "ObservedScene PlainScene SceneWithNoise SceneWithWorlds StoredWorlds",
        "uncover.raster.opening": "open_scene",
        "uncover.raster.pixel_area": "pixel_areas",
        "uncover.raster.product": "Thresholds",
        "uncover.raster.quality": "INCOMPLETE UNUSABLE Quality",
        "uncover.raster.realised": "RealisedScene",
        "uncover.raster.safe": "TEN_BANDS MaskWarning",
        "uncover.raster.safe_metadata": "BaselineWarning",
        "uncover.raster.samples": "SampleBlock Samples open_samples write_samples",
        "uncover.raster.scene": "Atmosphere Block Scene SceneOptions scene_from_array",
        "uncover.raster.series": "SceneSeries",
        "uncover.raster.uncertainty": "Uncertainty UncertaintyOptions UncertaintyWarning open_uncertainty",
        "uncover.raster.uncertainty_layers": "UncertaintyBlock",
        "uncover.raster.vectors": "Burned burn_vector",
    },
)
