"""One overpass: sun, sensor, atmosphere and instrument; and its Level-1C product, a SAFE folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.atmosphere import Geometry, LookupTable, State
from uncover.atmosphere.grib import constant_aod
from uncover.bayes.streams import stream
from uncover.engines.threads import in_order
from uncover.measurement import aerosol_optical_depth
from uncover.raster.angles import AngleField
from uncover.raster.grid import Grid, middle_of
from uncover.raster.realised import CELL
from uncover.raster.safe_metadata import BAND_IDS
from uncover.studies.landscape.reflectance import BANDS, METRES

#: Upper left corner in UTM zone 30 N (EPSG:32630), within tile 30UXC: lowland England, about 52° N, 1° W.
CRS, TILE = "EPSG:32630", "30UXC"
ORIGIN = (620_000.0, 5_780_000.0)
LATITUDE, LONGITUDE = 52.07, -1.1
NODE = 5000.0  # metres between the nodes of the angle grids, as in products
#: Degrees of view zenith across a kilometre of ground: 20.6° over a swath of 290 km.
VIEW_SLOPE = 0.071

#: Signal-to-noise ratio required at a reference radiance in W/(m² sr µm) (ESA 2015, Sentinel-2 User Handbook,
#: issue 1 revision 2, table of spectral bands), and solar irradiance in W/(m² µm) (product metadata).
SNR = {
    "B02": (154, 128.0, 1959.7), "B03": (168, 128.0, 1823.2), "B04": (142, 108.0, 1512.1),
    "B05": (117, 74.5, 1424.6), "B06": (89, 68.0, 1287.6), "B07": (105, 67.0, 1162.1),
    "B08": (172, 103.0, 1041.6), "B8A": (72, 52.5, 955.3), "B11": (100, 4.0, 245.6), "B12": (100, 1.5, 85.3),
}  # fmt: skip


@dataclass(frozen=True)
class Overpass:
    """When, by which satellite, and under which sky as far as it is known."""

    platform: str  # S2A or S2B
    time: datetime
    orbit: int  # relative orbit
    absolute: int  # absolute orbit number, part of the datatake's name
    baseline: str
    view_zenith: float  # at the western edge, degrees
    view_azimuth: float
    reported_aod: float
    water_vapour: float  # cm
    ozone: float  # Dobson units
    in_series: bool = False  # one of several dates of its year

    @property
    def name(self) -> int | str:
        """What names its random numbers: the year, or the day where a year has several."""
        return f"{self.time:%Y-%m-%d}" if self.in_series else self.year

    @property
    def year(self) -> int:
        """Year of the overpass."""
        return self.time.year

    @property
    def datatake(self) -> str:
        """Identifier of the datatake, which decides which pixels share an error."""
        return f"G{self.platform}_{self.time:%Y%m%dT%H%M%S}_{self.absolute:06d}"

    def true_aod(self, seed: int) -> float:
        """The optical depth that really was: the report plus an error of its stated uncertainty."""
        stated = aerosol_optical_depth(self.reported_aod)
        return float(stated.draw(1, scene=f"truth {self.datatake}", seed=seed).values[0])

    def state(self, aod: float) -> State:
        """The atmosphere at an optical depth."""
        return State(aod, self.water_vapour, self.ozone)


OVERPASSES = {
    2020: Overpass(
        "S2A", datetime(2020, 6, 24, 11, 6, 31, tzinfo=UTC), orbit=137, absolute=26147, baseline="02.09",
        view_zenith=3.1, view_azimuth=286.0, reported_aod=0.12, water_vapour=2.1, ozone=335.0,
    ),
    2021: Overpass(
        "S2B", datetime(2021, 5, 31, 10, 56, 19, tzinfo=UTC), orbit=94, absolute=22110, baseline="03.00",
        view_zenith=8.4, view_azimuth=106.0, reported_aod=0.18, water_vapour=1.6, ozone=360.0,
    ),
}  # fmt: skip


def sun_position(time: datetime, latitude: float, longitude: float) -> tuple[float, float]:
    """Zenith and azimuth of the sun in degrees, to about 0.02° (low-precision formulas of the Almanac).

    Michalsky (1988), The Astronomical Almanac's algorithm for approximate solar position, Solar Energy 40.
    """
    days = (time - datetime(2000, 1, 1, 12, tzinfo=UTC)).total_seconds() / 86400
    longitude_mean, anomaly = 280.460 + 0.9856474 * days, np.radians(357.528 + 0.9856003 * days)
    ecliptic = np.radians(longitude_mean + 1.915 * np.sin(anomaly) + 0.020 * np.sin(2 * anomaly))
    obliquity = np.radians(23.439 - 4e-7 * days)
    ascension = np.arctan2(np.cos(obliquity) * np.sin(ecliptic), np.cos(ecliptic))
    declination = np.arcsin(np.sin(obliquity) * np.sin(ecliptic))
    sidereal = np.radians(15 * (18.697374558 + 24.06570982441908 * days) + longitude)
    angle, phi = sidereal - ascension, np.radians(latitude)
    east = -np.cos(declination) * np.sin(angle)
    north = np.cos(phi) * np.sin(declination) - np.sin(phi) * np.cos(declination) * np.cos(angle)
    up = np.sin(phi) * np.sin(declination) + np.cos(phi) * np.cos(declination) * np.cos(angle)
    return float(np.degrees(np.arccos(up))), float(np.degrees(np.arctan2(east, north)) % 360)


@dataclass(frozen=True)
class Directions:
    """Sun and view zenith and azimuth at the nodes of a product's angle grids, (row, col) in degrees."""

    sun_zenith: NDArray[np.float64]
    sun_azimuth: NDArray[np.float64]
    view_zenith: NDArray[np.float64]
    view_azimuth: NDArray[np.float64]

    @classmethod
    def of(cls, overpass: Overpass, metres: float) -> Directions:
        """Over a square of ground; the sun from time and place, the view from the place in the swath."""
        n = int(np.ceil(metres / NODE)) + 1
        row, col = np.indices((n, n)) * NODE / 1000  # km south and east of the corner
        sun = np.array([
            sun_position(overpass.time, LATITUDE - s / 111.2, LONGITUDE + e / 68.4)
            for s, e in zip(row.ravel(), col.ravel(), strict=True)
        ]).reshape(n, n, 2)  # fmt: skip
        # Going east, one leaves a sensor in the west behind and comes nearer to one in the east.
        slope = VIEW_SLOPE if overpass.view_azimuth > 180 else -VIEW_SLOPE
        view = overpass.view_zenith + slope * col
        azimuth = np.full((n, n), overpass.view_azimuth)
        parts = (sun[..., 0], sun[..., 1], view, azimuth)
        return cls(*(part.round(4) for part in parts))

    def at(self, east: float, south: float) -> Geometry:
        """Angles at a place, interpolated as a reader of the product does."""
        x, y = np.array([east]), np.array([-south])
        origin, step = (0.0, 0.0), (NODE, NODE)
        sun = AngleField.from_degrees(self.sun_zenith, self.sun_azimuth, origin, step).at(x, y)
        view = AngleField.from_degrees(self.view_zenith, self.view_azimuth, origin, step).at(x, y)
        angles = [float(part[0]) for part in (*sun, *view)]
        return Geometry.from_azimuths((angles[0], angles[1]), (angles[2], angles[3]))


def observe(
    surface: NDArray[np.float32], overpass: Overpass, seed: int, *, noise: bool = True
) -> dict[str, NDArray[np.uint16]]:
    """Digital numbers of every band at its own resolution, as the instrument would deliver them.

    Surface reflectance (band, row, col) at 10 m goes up through the embedded table at the true optical depth,
    is averaged to 20 m where the band has 20 m, gets the instrument's noise and is rounded to 1e-4.
    """
    size = surface.shape[1]
    table = LookupTable(overpass.platform, BANDS)
    state = overpass.state(overpass.true_aod(seed))
    directions = Directions.of(overpass, 10.0 * size)
    numbers = {b: np.empty((size * 10 // METRES[b],) * 2, np.uint16) for b in BANDS}

    def row_of_cells(top: int) -> None:
        rows = slice(top, min(top + CELL, size))
        seen = np.empty((len(BANDS), rows.stop - top, size), np.float32)
        for left in range(0, size, CELL):
            cell = np.ascontiguousarray(surface[:, rows, left : left + CELL])
            middle = (min(left + CELL // 2, size - 1) + 0.5, min(top + CELL // 2, size - 1) + 0.5)
            geometry = directions.at(10 * middle[0], 10 * middle[1])
            seen[:, :, left : left + CELL] = table.simulate(cell, state, geometry, band_axis=0)
        rng = stream(seed, "landscape", "noise", overpass.name, top)
        for band, plane in zip(BANDS, seen, strict=True):
            factor = METRES[band] // 10
            averaged = plane.reshape(plane.shape[0] // factor, factor, -1, factor).mean((1, 3))
            sigma = noise_of(band, averaged) if noise else 0.0
            measured = averaged + sigma * rng.standard_normal(averaged.shape, dtype=np.float32)
            target = numbers[band][top // factor : top // factor + len(averaged)]
            target[...] = np.clip(np.rint(1e4 * measured), 1, 65534)

    list(in_order(row_of_cells, range(0, size, CELL)))
    return numbers


def noise_of(band: str, reflectance: NDArray[np.float32]) -> NDArray[np.float32]:
    """Standard deviation of the instrument's noise: that of the requirement, growing as photons do."""
    ratio, radiance, irradiance = SNR[band]
    reference = np.pi * radiance / (irradiance * np.cos(np.radians(33)))
    return np.asarray(reference / ratio * np.sqrt(np.maximum(reflectance, 0.01) / reference), np.float32)


BLOCK = {10: 1024, 20: 640}  # tiles of real products
_SIMULATED = "Simulated by uncover (studies/landscape): not measured by any satellite."


def write_product(
    folder: Path,
    numbers: Mapping[str, NDArray[np.uint16]],
    overpass: Overpass,
    cloudy: NDArray[np.bool_] | None = None,
) -> Path:
    """Write the bands of an overpass into `folder` as one product, and return where it is.

    `cloudy` are the pixels of 10 m that its mask of clouds has.
    """
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
    (granule / "QI_DATA" / "MSK_CLOUDS_B00.gml").write_text(_clouds(cloudy), "utf-8")
    images = [f"{granule.relative_to(product).as_posix()}/IMG_DATA/T{TILE}_{stamp}_{b}" for b in numbers]
    (product / "MTD_MSIL1C.xml").write_text(_product_xml(overpass, name, images), "utf-8")
    (product / "manifest.safe").write_text(_manifest(images), "utf-8")

    def write(band: str) -> None:
        file, metres = granule / "IMG_DATA" / f"T{TILE}_{stamp}_{band}.jp2", METRES[band]
        # Lossless, in tiles as real products have them; rasterio drops them unless said to be tiled.
        tiles = {"tiled": "YES", "blockxsize": BLOCK[metres], "blockysize": BLOCK[metres]}
        lossless = {"driver": "JP2OpenJPEG", "QUALITY": "100", "REVERSIBLE": "YES"}
        write_raster(file, {band: numbers[band]}, metres, **lossless, **tiles)

    list(in_order(write, list(numbers)))
    return product


def _forecast(overpass: Overpass, size: int) -> bytes:
    """The reported optical depth as products carry the forecast of CAMS: here the same everywhere."""
    east, north = middle_of(Grid(CRS, (10.0, 0.0, ORIGIN[0], 0.0, -10.0, ORIGIN[1]), size, size))
    return constant_aod(overpass.reported_aod, overpass.time, east - 1, north - 1, east + 1, north + 1)


def write_raster(path: Path, planes: dict[str, NDArray[Any]], metres: float, **options: Any) -> Path:
    """Write planes (row, col) of the scene's ground by their names, which JPEG 2000 does not keep."""
    import rasterio
    from rasterio.transform import from_origin

    first = next(iter(planes.values()))
    with rasterio.open(
        path, "w", width=first.shape[1], height=first.shape[0], count=len(planes), dtype=first.dtype, crs=CRS,
        transform=from_origin(*ORIGIN, metres, metres), **{"driver": "GTiff", **options},
    ) as dataset:  # fmt: skip
        for i, plane in enumerate(planes.values(), start=1):
            dataset.write(plane, i)
        if dataset.driver == "GTiff":
            dataset.descriptions = tuple(planes)
    return path


def _filled(template: str, **values: object) -> str:
    """The text of a template of this package with its values."""
    text = resources.files(__package__).joinpath(f"templates/{template}").read_text("utf-8")
    return Template(text).substitute(values)


def _product_xml(overpass: Overpass, name: str, images: list[str]) -> str:
    return _filled(
        "product.xml",
        time=f"{overpass.time:%Y-%m-%dT%H:%M:%S}.024Z",
        name=name,
        baseline=overpass.baseline,
        datatake=overpass.datatake,
        satellite=overpass.platform[1:],
        orbit=overpass.orbit,
        files="".join(f"<IMAGE_FILE>{image}</IMAGE_FILE>" for image in images),
    )


def _tile_xml(overpass: Overpass, size: int) -> str:
    angles = Directions.of(overpass, 10.0 * size)
    view = _grid("Zenith", angles.view_zenith) + _grid("Azimuth", angles.view_azimuth)
    views = "".join(
        f'<Viewing_Incidence_Angles_Grids bandId="{number}" detectorId="6">{view}'
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
    return _filled(
        "tile.xml",
        platform=overpass.platform,
        absolute=f"{overpass.absolute:06d}",
        tile=TILE,
        baseline=overpass.baseline,
        time=f"{overpass.time:%Y-%m-%dT%H:%M:%S}.024Z",
        crs=CRS,
        sizes=sizes,
        sun_zenith=_grid("Zenith", angles.sun_zenith),
        sun_azimuth=_grid("Azimuth", angles.sun_azimuth),
        views=views,
    )


def _grid(name: str, values: NDArray[np.float64]) -> str:
    rows = "".join(f"<VALUES>{' '.join(f'{v:.4f}' for v in row)}</VALUES>" for row in values)
    step = f'<COL_STEP unit="m">{NODE:.0f}</COL_STEP><ROW_STEP unit="m">{NODE:.0f}</ROW_STEP>'
    return f"<{name}>{step}<Values_List>{rows}</Values_List></{name}>"


def _clouds(cloudy: NDArray[np.bool_] | None) -> str:
    """The mask of clouds: polygons around the pixels, as products before baseline 04.00 have them."""
    from rasterio.features import shapes
    from rasterio.transform import from_origin

    head = '<?xml version="1.0" encoding="UTF-8"?>'
    spaces = 'xmlns:eop="http://www.opengis.net/eop/2.0" xmlns:gml="http://www.opengis.net/gml/3.2"'
    if cloudy is None:
        return f"{head}\n<!-- {_SIMULATED} No cloud was simulated. -->\n<eop:Mask {spaces}/>\n"
    found = shapes(cloudy.astype(np.uint8), cloudy, 4, from_origin(*ORIGIN, 10, 10))
    members = "".join(_cloud(shape["coordinates"]) for shape, _ in found)
    return (
        f"{head}\n<!-- {_SIMULATED} -->\n<eop:Mask {spaces}><eop:maskMembers>{members}</eop:maskMembers>"
        "</eop:Mask>\n"
    )


def _cloud(rings: list[list[tuple[float, float]]]) -> str:
    """A polygon with its holes."""
    sides = ["exterior", *["interior"] * (len(rings) - 1)]
    corners = [" ".join(f"{x:.0f} {y:.0f}" for x, y in ring) for ring in rings]
    parts = "".join(
        f'<gml:{side}><gml:LinearRing><gml:posList srsDimension="2">{text}</gml:posList></gml:LinearRing>'
        f"</gml:{side}>"
        for side, text in zip(sides, corners, strict=True)
    )
    return (
        "<eop:MaskFeature><eop:maskType>OPAQUE</eop:maskType><eop:extentOf><gml:Polygon>"
        f"{parts}</gml:Polygon></eop:extentOf></eop:MaskFeature>"
    )


def _manifest(images: list[str]) -> str:
    files = "".join(
        f'<dataObject ID="{image.rsplit("_", 1)[-1]}"><byteStream mimeType="application/octet-stream">'
        f'<fileLocation locatorType="URL" href="./{image}.jp2"/></byteStream></dataObject>\n'
        for image in images
    )
    return _filled("manifest.xml", files=files)
