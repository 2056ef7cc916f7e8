"""Level-1C products: a SAFE folder with JPEG 2000 bands and the metadata that a reader needs."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from uncover.atmosphere.grib import constant_aod
from uncover.raster.grid import Grid, middle_of
from uncover.raster.safe_metadata import BAND_IDS
from uncover.studies.landscape.acquisition import CRS, NODE, ORIGIN, TILE, Directions, Overpass
from uncover.studies.landscape.spectra import METRES

BLOCK = {10: 1024, 20: 640}  # tiles of real products
_SIMULATED = "Simulated by uncover (studies/landscape): not measured by any satellite."
_NAMESPACE = "https://psd-14.sentinel2.eo.esa.int/PSD"


def write_product(folder: Path, numbers: Mapping[str, NDArray[np.uint16]], overpass: Overpass) -> Path:
    """Write the bands of an overpass into `folder` as one product, and return where it is."""
    stamp = f"{overpass.time:%Y%m%dT%H%M%S}"
    baseline = overpass.baseline.replace(".", "")
    name = f"{overpass.platform}_MSIL1C_{stamp}_N{baseline}_R{overpass.orbit:03d}_T{TILE}_{stamp}.SAFE"
    product = folder / name
    granule = product / "GRANULE" / f"L1C_T{TILE}_A{overpass.absolute:06d}_{stamp}"
    for part in ("IMG_DATA", "QI_DATA", "AUX_DATA"):
        (granule / part).mkdir(parents=True, exist_ok=True)
    size = numbers["B02"].shape[0]
    (granule / "AUX_DATA" / "AUX_CAMSFO").write_bytes(_forecast(overpass, size))
    (granule / "MTD_TL.xml").write_text(_tile_xml(overpass, size), "utf-8")
    (granule / "QI_DATA" / "MSK_CLOUDS_B00.gml").write_text(_NO_CLOUDS, "utf-8")
    images = [f"{granule.relative_to(product).as_posix()}/IMG_DATA/T{TILE}_{stamp}_{b}" for b in numbers]
    (product / "MTD_MSIL1C.xml").write_text(_product_xml(overpass, name, images), "utf-8")
    (product / "manifest.safe").write_text(_manifest(images), "utf-8")

    def write(band: str) -> None:
        write_band(granule / "IMG_DATA" / f"T{TILE}_{stamp}_{band}.jp2", numbers[band], METRES[band])

    with ThreadPoolExecutor() as pool:
        list(pool.map(write, numbers))
    return product


def _forecast(overpass: Overpass, size: int) -> bytes:
    """The reported optical depth as products carry the forecast of CAMS: here the same everywhere."""
    east, north = middle_of(Grid(CRS, (10.0, 0.0, ORIGIN[0], 0.0, -10.0, ORIGIN[1]), size, size))
    return constant_aod(overpass.reported_aod, overpass.time, east - 1, north - 1, east + 1, north + 1)


def write_band(path: Path, numbers: NDArray[np.uint16], metres: int) -> None:
    """One band as lossless JPEG 2000, in tiles as real products have them."""
    import rasterio
    from rasterio.transform import from_origin

    # rasterio drops the block size unless the file is said to be tiled.
    options = {"tiled": "YES", "blockxsize": BLOCK[metres], "blockysize": BLOCK[metres]}
    with rasterio.open(
        path, "w", driver="JP2OpenJPEG", width=numbers.shape[1], height=numbers.shape[0], count=1,
        dtype="uint16", crs=CRS, transform=from_origin(*ORIGIN, metres, metres), QUALITY="100",
        REVERSIBLE="YES", **options,
    ) as dataset:  # fmt: skip
        dataset.write(numbers, 1)


def _product_xml(overpass: Overpass, name: str, images: list[str]) -> str:
    time = f"{overpass.time:%Y-%m-%dT%H:%M:%S}.024Z"
    files = "".join(f"<IMAGE_FILE>{image}</IMAGE_FILE>" for image in images)
    special = "".join(
        f"<Special_Values><SPECIAL_VALUE_TEXT>{text}</SPECIAL_VALUE_TEXT>"
        f"<SPECIAL_VALUE_INDEX>{number}</SPECIAL_VALUE_INDEX></Special_Values>"
        for text, number in (("NODATA", 0), ("SATURATED", 65535))
    )
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<!-- {_SIMULATED} -->
<n1:Level-1C_User_Product xmlns:n1="{_NAMESPACE}/User_Product_Level-1C.xsd">
  <n1:General_Info>
    <Product_Info>
      <PRODUCT_START_TIME>{time}</PRODUCT_START_TIME>
      <PRODUCT_STOP_TIME>{time}</PRODUCT_STOP_TIME>
      <PRODUCT_URI>{name}</PRODUCT_URI>
      <PROCESSING_LEVEL>Level-1C</PROCESSING_LEVEL>
      <PRODUCT_TYPE>S2MSI1C</PRODUCT_TYPE>
      <PROCESSING_BASELINE>{overpass.baseline}</PROCESSING_BASELINE>
      <GENERATION_TIME>{time}</GENERATION_TIME>
      <Datatake datatakeIdentifier="{overpass.datatake}_N{overpass.baseline}">
        <SPACECRAFT_NAME>Sentinel-{overpass.platform[1:]}</SPACECRAFT_NAME>
        <DATATAKE_TYPE>INS-NOBS</DATATAKE_TYPE>
        <DATATAKE_SENSING_START>{time}</DATATAKE_SENSING_START>
        <SENSING_ORBIT_NUMBER>{overpass.orbit}</SENSING_ORBIT_NUMBER>
        <SENSING_ORBIT_DIRECTION>DESCENDING</SENSING_ORBIT_DIRECTION>
      </Datatake>
      <Product_Organisation><Granule_List>
        <Granule imageFormat="JPEG2000">{files}</Granule>
      </Granule_List></Product_Organisation>
    </Product_Info>
    <Product_Image_Characteristics>
      {special}
      <QUANTIFICATION_VALUE unit="none">10000</QUANTIFICATION_VALUE>
    </Product_Image_Characteristics>
  </n1:General_Info>
</n1:Level-1C_User_Product>
"""


def _tile_xml(overpass: Overpass, size: int) -> str:
    angles = Directions.of(overpass, 10.0 * size)
    views = "".join(
        f'<Viewing_Incidence_Angles_Grids bandId="{number}" detectorId="6">'
        f"{_grid('Zenith', angles.view_zenith)}{_grid('Azimuth', angles.view_azimuth)}"
        "</Viewing_Incidence_Angles_Grids>\n"
        for number in range(len(BAND_IDS))
    )
    sizes = "".join(
        f'<Size resolution="{m}"><NROWS>{-(-10 * size // m)}</NROWS>'
        f"<NCOLS>{-(-10 * size // m)}</NCOLS></Size>"
        f'<Geoposition resolution="{m}"><ULX>{ORIGIN[0]:.0f}</ULX><ULY>{ORIGIN[1]:.0f}</ULY>'
        f"<XDIM>{m}</XDIM><YDIM>-{m}</YDIM></Geoposition>\n"
        for m in (10, 20, 60)
    )
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<!-- {_SIMULATED} -->
<n1:Level-1C_Tile_ID xmlns:n1="{_NAMESPACE}/S2_PDI_Level-1C_Tile_Metadata.xsd">
  <n1:General_Info>
    <TILE_ID>{overpass.platform}_OPER_MSI_L1C_TL_SIMU_A{overpass.absolute:06d}_T{TILE}_N{overpass.baseline}</TILE_ID>
    <SENSING_TIME>{overpass.time:%Y-%m-%dT%H:%M:%S}.024Z</SENSING_TIME>
  </n1:General_Info>
  <n1:Geometric_Info>
    <Tile_Geocoding>
      <HORIZONTAL_CS_NAME>WGS84 / UTM zone 30N</HORIZONTAL_CS_NAME>
      <HORIZONTAL_CS_CODE>{CRS}</HORIZONTAL_CS_CODE>
      {sizes}
    </Tile_Geocoding>
    <Tile_Angles>
      <Sun_Angles_Grid>
        {_grid("Zenith", angles.sun_zenith)}
        {_grid("Azimuth", angles.sun_azimuth)}
      </Sun_Angles_Grid>
      {views}
    </Tile_Angles>
  </n1:Geometric_Info>
</n1:Level-1C_Tile_ID>
"""


def _grid(name: str, values: NDArray[np.float64]) -> str:
    rows = "".join(f"<VALUES>{' '.join(f'{v:.4f}' for v in row)}</VALUES>" for row in values)
    step = f'<COL_STEP unit="m">{NODE:.0f}</COL_STEP><ROW_STEP unit="m">{NODE:.0f}</ROW_STEP>'
    return f"<{name}>{step}<Values_List>{rows}</Values_List></{name}>"


_NO_CLOUDS = f"""<?xml version="1.0" encoding="UTF-8"?>
<!-- {_SIMULATED} No cloud was simulated. -->
<eop:Mask xmlns:eop="http://www.opengis.net/eop/2.0" xmlns:gml="http://www.opengis.net/gml/3.2"/>
"""


def _manifest(images: list[str]) -> str:
    files = "".join(
        f'<dataObject ID="{image.rsplit("_", 1)[-1]}"><byteStream mimeType="application/octet-stream">'
        f'<fileLocation locatorType="URL" href="./{image}.jp2"/></byteStream></dataObject>\n'
        for image in images
    )
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<!-- {_SIMULATED} -->
<xfdu:XFDU xmlns:xfdu="urn:ccsds:schema:xfdu:1"><dataObjectSection>
{files}</dataObjectSection></xfdu:XFDU>
"""
