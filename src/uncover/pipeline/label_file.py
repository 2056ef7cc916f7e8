"""Label rasters as files: 8-bit codes in a Cloud-Optimised GeoTIFF that carries its class scheme with it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from uncover.files import whole_or_nothing
from uncover.labels import Scheme
from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid
from uncover.raster.map_formats import SCHEME_TAG, category_names, class_tags
from uncover.raster.tiles import RasterInfo

NODATA = 0


def write_labels(path: str | Path, labels: NDArray[np.uint8], grid: Grid, scheme: Scheme) -> None:
    """Write labels as a Cloud-Optimised GeoTIFF with colours and names; whole, or not at all.

    The names go where each reader looks: into a tag of the file, and as GDAL category names into the
    `.aux.xml` file beside it.

    >>> import tempfile
    >>> from uncover.labels import load_scheme
    >>> grid = Grid("EPSG:32630", (10, 0, 500000, 0, -10, 5700000), width=2, height=1)
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_labels(folder / "labels.tif", np.array([[1, 5]], np.uint8), grid, load_scheme("lulucf"))
    >>> sorted(path.name for path in folder.iterdir())
    ['labels.tif', 'labels.tif.aux.xml']
    """
    import rasterio
    import rasterio.shutil
    from rasterio.errors import RasterioError

    scheme.check_labels()
    with whole_or_nothing(path) as out:
        plain = out.with_name("plain.tif")
        try:
            with rasterio.open(plain, "w", **_profile(grid)) as dataset:
                dataset.write(labels, 1)
                dataset.write_colormap(1, scheme.colour_table())
                dataset.update_tags(**class_tags(scheme))
            rasterio.shutil.copy(
                plain, out, driver="COG", compress="DEFLATE", blocksize=512, overview_resampling="nearest"
            )
        except RasterioError as error:
            raise SceneError(f"{path} cannot be written: {error}") from error
        plain.unlink()
        out.with_name(out.name + ".aux.xml").write_text(category_names(scheme), "utf-8")


def scheme_in(info: RasterInfo) -> Scheme | None:
    """The scheme that a label raster carries, None where it carries none."""
    text = info.tags.get(SCHEME_TAG)
    if text is None:
        return None
    try:
        return Scheme.from_dict(json.loads(text))
    except (ValueError, TypeError) as error:
        raise SceneError(f"{info.path} carries a class scheme that cannot be read: {error}") from error


def _profile(grid: Grid) -> dict[str, object]:
    from affine import Affine

    return {
        "driver": "GTiff",
        "width": grid.width,
        "height": grid.height,
        "count": 1,
        "dtype": "uint8",
        "nodata": NODATA,
        "crs": grid.crs,
        "transform": Affine(*grid.transform),
        "tiled": True,
        "compress": "deflate",
        "photometric": "palette",
    }
