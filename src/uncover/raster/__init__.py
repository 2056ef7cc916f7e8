"""Scenes in, layers out: grids, reading by windows, masks, labels on a scene's grid, cubes.

rasterio, xarray, zarr, pyogrio and shapely (`pip install uncover[maps]`) are imported when something is
opened, not with this package.
"""

from uncover.raster.align import Aligned, align_raster, split_band
from uncover.raster.angles import Angles
from uncover.raster.area import window_of
from uncover.raster.cube import Cube, CubeBlock, CubeLayout, open_cube, write_cube
from uncover.raster.errors import OffsetWarning, ReadError, SceneError
from uncover.raster.grid import Grid, Window
from uncover.raster.opening import open_scene
from uncover.raster.options import SceneOptions, canonical_band
from uncover.raster.pixel_area import pixel_areas
from uncover.raster.quality import INCOMPLETE, UNUSABLE, Quality
from uncover.raster.safe import TEN_BANDS, MaskWarning
from uncover.raster.samples import SampleBlock, Samples, open_samples, write_samples
from uncover.raster.scene import Atmosphere, Block, Scene, scene_from_array
from uncover.raster.vectors import Burned, burn_vector

__all__ = [
    "INCOMPLETE",
    "TEN_BANDS",
    "UNUSABLE",
    "Aligned",
    "Angles",
    "Atmosphere",
    "Block",
    "Burned",
    "Cube",
    "CubeBlock",
    "CubeLayout",
    "Grid",
    "MaskWarning",
    "OffsetWarning",
    "Quality",
    "ReadError",
    "SampleBlock",
    "Samples",
    "Scene",
    "SceneError",
    "SceneOptions",
    "Window",
    "align_raster",
    "burn_vector",
    "canonical_band",
    "open_cube",
    "open_samples",
    "open_scene",
    "pixel_areas",
    "scene_from_array",
    "split_band",
    "window_of",
    "write_cube",
    "write_samples",
]
