"""Scenes in, layers out: grids, reading by windows, masks, labels on a scene's grid, cubes.

rasterio, xarray, zarr, pyogrio and shapely (`pip install uncover[maps]`) are imported when something is
opened, not with this package.
"""

from uncover.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
