"""Cloud-Optimised GeoTIFFs from the scratch of a map: made in one go, read back, compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from uncover.labels import Scheme
from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid
from uncover.raster.product import Layer
from uncover.raster.scratch import Scratch
from uncover.raster.tiles import GDAL_OPTIONS, open_raster

_GDAL_TYPES = {"uint8": "Byte", "uint16": "UInt16", "float32": "Float32"}
_ROWS = 512
SCHEME_TAG = "UNCOVER_SCHEME"


def write_cog(path: Path, scratch: Scratch, layer: Layer, tags: Mapping[str, str]) -> None:
    """Write one layer with overviews, statistics, names and georeferencing, and compare what was written."""
    import rasterio
    import rasterio.shutil
    from rasterio.errors import RasterioError

    description = scratch.folder / f"{layer.name}.vrt"
    description.write_text(_vrt(scratch, layer, tags), "utf-8")
    options = {
        "compress": "DEFLATE",
        "predictor": {"uint8": "NO", "uint16": "STANDARD", "float32": "FLOATING_POINT"}[layer.dtype],
        "blocksize": 512,
        "overview_resampling": layer.resampling.upper(),
        "overview_predictor": "NO",
        "statistics": "YES",
        "bigtiff": "IF_SAFER",
        "num_threads": 1,
    }
    path.unlink(missing_ok=True)
    try:
        with rasterio.Env(**GDAL_OPTIONS, GDAL_PAM_ENABLED="NO"):
            rasterio.shutil.copy(description, path, driver="COG", **options)
        _compare(path, scratch, layer)
    except (RasterioError, OSError) as error:
        why = str(error.__cause__ or error).splitlines()[0]
        raise OSError(f"{path.name} was not written whole ({why})") from error


def _compare(path: Path, scratch: Scratch, layer: Layer) -> None:
    """Read a file back: GDAL does not report every write that a full disk refuses."""
    with open_raster(str(path)) as dataset:
        height = dataset.height
        for start in range(0, height, _ROWS):
            stop = min(start + _ROWS, height)
            found = dataset.read(window=((start, stop), (0, dataset.width)))
            wanted = scratch.rows(layer, start, stop)
            if found.tobytes() != wanted.tobytes():
                raise OSError(f"rows {start} to {stop} differ from what was computed; is the disk full?")
        levels = len(dataset.overviews(1))
    for level in range(levels):
        _read_overview(path, level)


def _read_overview(path: Path, level: int) -> None:
    import rasterio

    with rasterio.open(path, overview_level=level) as dataset:
        for start in range(0, dataset.height, _ROWS):
            stop = min(start + _ROWS, dataset.height)
            dataset.read(window=((start, stop), (0, dataset.width)))


def _vrt(scratch: Scratch, layer: Layer, tags: Mapping[str, str]) -> str:
    """The plain file of a layer, described for GDAL."""
    grid = scratch.product.grid
    bands = "".join(_band(scratch, layer, i) for i in range(len(layer.bands)))
    items = "".join(f"<MDI key={quoteattr(key)}>{escape(value)}</MDI>" for key, value in sorted(tags.items()))
    return (
        f'<VRTDataset rasterXSize="{grid.width}" rasterYSize="{grid.height}">'
        f"{_georeference(grid)}<Metadata>{items}</Metadata>{bands}</VRTDataset>"
    )


def _georeference(grid: Grid) -> str:
    a, b, c, d, e, f = (repr(float(value)) for value in grid.transform)
    place = f"<GeoTransform>{c}, {a}, {b}, {f}, {d}, {e}</GeoTransform>"
    if grid.crs is None:
        return place
    from rasterio.crs import CRS

    wkt = CRS.from_user_input(grid.crs).to_wkt()
    return f'<SRS dataAxisToSRSAxisMapping="{_axes(grid.crs)}">{escape(wkt)}</SRS>{place}'


def _axes(crs: str) -> str:
    """GDAL's word for "x first": geographic systems of EPSG put latitude first by themselves."""
    from rasterio.crs import CRS

    found = CRS.from_user_input(crs)
    return "2,1" if found.is_geographic and found.to_epsg() else "1,2"


def _band(scratch: Scratch, layer: Layer, i: int) -> str:
    grid, size = scratch.product.grid, layer.itemsize
    parts = [f"<Description>{escape(layer.bands[i])}</Description>"]
    if layer.nodata is not None:
        parts.append(f"<NoDataValue>{'nan' if np.isnan(layer.nodata) else int(layer.nodata)}</NoDataValue>")
    if layer.scale != 1.0:
        parts.append(f"<Offset>0</Offset><Scale>{layer.scale!r}</Scale>")
    if layer.name == "class":
        parts.append(_colours(scratch.product.scheme))
    return (
        f'<VRTRasterBand dataType="{_GDAL_TYPES[layer.dtype]}" band="{i + 1}" subClass="VRTRawRasterBand">'
        f"{''.join(parts)}"
        f'<SourceFilename relativeToVRT="1">{scratch.path(layer.name).name}</SourceFilename>'
        f"<ImageOffset>{i * grid.window.pixels * size}</ImageOffset><PixelOffset>{size}</PixelOffset>"
        f"<LineOffset>{grid.width * size}</LineOffset><ByteOrder>LSB</ByteOrder></VRTRasterBand>"
    )


def _colours(scheme: Scheme) -> str:
    table = scheme.colour_table()
    entries = "".join(_entry(table.get(code, (0, 0, 0, 0))) for code in range(256))
    return f"<ColorInterp>Palette</ColorInterp><ColorTable>{entries}</ColorTable>"


def _entry(colour: tuple[int, ...]) -> str:
    red, green, blue, *alpha = colour
    return f'<Entry c1="{red}" c2="{green}" c3="{blue}" c4="{alpha[0] if alpha else 255}"/>'


def class_tags(scheme: Scheme) -> dict[str, str]:
    """Tags that carry the class scheme."""
    return {SCHEME_TAG: json.dumps(scheme.as_dict(), ensure_ascii=True)}


def category_names(scheme: Scheme) -> str:
    """GDAL's own side file with the name of each code; TIFF itself has no place for them."""
    names = "".join(f"      <Category>{escape(name)}</Category>\n" for name in scheme.category_names())
    return (
        '<PAMDataset>\n  <PAMRasterBand band="1">\n    <CategoryNames>\n'
        f"{names}    </CategoryNames>\n  </PAMRasterBand>\n</PAMDataset>\n"
    )


def statistics(path: Path) -> list[dict[str, float]]:
    """Minimum, maximum, mean and standard deviation of each band, as the file says; empty where it is."""
    with open_raster(str(path)) as dataset:
        found = []
        for i in range(1, dataset.count + 1):
            tags: dict[str, Any] = dataset.tags(i)
            keys = {name: f"STATISTICS_{name.upper()}" for name in ("minimum", "maximum", "mean", "stddev")}
            found.append({name: float(tags[key]) for name, key in keys.items() if key in tags})
        return found


def check_written(path: Path) -> None:
    """Raise where a product file is not there."""
    if not path.exists():
        raise SceneError(f"{path} is missing; resume the run, or start it again")
