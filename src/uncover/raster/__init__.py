"""Scenes in, layers out: grids, reading by windows, masks, labels on a scene's grid, cubes.

rasterio, xarray, zarr, pyogrio and shapely (`pip install uncover[maps]`) are imported when something is
opened, not with this package.
"""

from uncover.measurement.bands import canonical_band
from uncover.raster.align import Aligned, align_raster, split_band
from uncover.raster.angles import Angles
from uncover.raster.area import window_of
from uncover.raster.classify import classify
from uncover.raster.cube import Cube, CubeBlock, CubeLayout, open_cube, write_cube
from uncover.raster.errors import OffsetWarning, ReadError, SceneError
from uncover.raster.executors import Cluster, Serial, Threads
from uncover.raster.grid import Grid, Window
from uncover.raster.mapper import Reader
from uncover.raster.observed import ObservedScene, PlainScene, SceneWithNoise, SceneWithWorlds, StoredWorlds
from uncover.raster.opening import open_scene
from uncover.raster.pixel_area import pixel_areas
from uncover.raster.product import Thresholds
from uncover.raster.quality import INCOMPLETE, UNUSABLE, Quality
from uncover.raster.realised import RealisedScene
from uncover.raster.safe import TEN_BANDS, MaskWarning
from uncover.raster.safe_metadata import BaselineWarning
from uncover.raster.samples import SampleBlock, Samples, open_samples, write_samples
from uncover.raster.scene import Atmosphere, Block, Scene, SceneOptions, scene_from_array
from uncover.raster.series import SceneSeries
from uncover.raster.uncertainty import Uncertainty, UncertaintyOptions, UncertaintyWarning, open_uncertainty
from uncover.raster.uncertainty_layers import UncertaintyBlock
from uncover.raster.vectors import Burned, burn_vector
