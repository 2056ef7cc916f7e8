"""Small land cover maps for tests."""

import numpy as np
import rasterio
from rasterio.transform import Affine

from uncover.raster import Grid

GRID = Grid("EPSG:32630", (10, 0, 500000, 0, -10, 5700000), width=60, height=45)


def write_map(path, *planes, grid=GRID, nodata=None, **options):
    """A GeoTIFF with those planes; returns its path."""
    first = np.asarray(planes[0])
    profile = {
        "driver": "GTiff",
        "count": len(planes),
        "dtype": first.dtype,
        "nodata": nodata,
        "crs": grid.crs,
    }
    profile |= {"width": grid.width, "height": grid.height, "transform": Affine(*grid.transform), **options}
    with rasterio.open(path, "w", **profile) as dataset:
        for i, plane in enumerate(planes, start=1):
            dataset.write(plane, i)
    return path


def patchy(seed, shape, classes, patch=6, noise=0.1):
    """Patches of codes with some noise, uint8."""
    rng = np.random.default_rng(seed)
    coarse = rng.choice(classes, (shape[0] // patch + 1, shape[1] // patch + 1))
    base = np.kron(coarse, np.ones((patch, patch), int))[: shape[0], : shape[1]]
    return np.where(rng.random(shape) < noise, rng.choice(classes, shape), base).astype(np.uint8)
