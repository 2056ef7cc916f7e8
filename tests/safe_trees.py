"""Small Sentinel-2 SAFE trees for tests: real metadata, made-up JPEG 2000 bands beside it."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import rasterio
from rasterio.transform import from_origin

from uncover.raster import TEN_BANDS

SHARED = Path(__file__).parents[2] / "shared" / "data"

#: A short name for each of the real products whose metadata we have.
PRODUCTS = {
    "L1C_03.01": "S2A_MSIL1C_20210908T042701_N0301_R133_T46RER_20210908T070248.SAFE",
    "L1C_05.11": "S2C_MSIL1C_20250228T031721_N0511_R118_T48PVS_20250228T065233.SAFE",
    "L2A_02.12": "S2A_MSIL2A_20190212T192651_N0212_R013_T07HFE_20201007T160857.SAFE",
    "L2A_04.00": "S2B_MSIL2A_20220413T150759_N0400_R025_T33XWJ_20220414T082126.SAFE",
    "L2A_05.09": "S2A_MSIL2A_20230625T234621_N0509_R073_T01WCP_20230626T022157.SAFE",
}
TEN = {
    "B02": 10,
    "B03": 10,
    "B04": 10,
    "B08": 10,
    "B05": 20,
    "B06": 20,
    "B07": 20,
    "B8A": 20,
    "B11": 20,
    "B12": 20,
}


def shared(name: str) -> Path:
    """A folder of the shared data; the test is skipped where it is absent."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs ../shared/data/{name}, which is not here")
    return path


def write_raster(
    path: Path, planes: np.ndarray, origin: tuple[float, float], metres: float, crs: str, tile: int
) -> None:
    """A lossless raster, JPEG 2000 or GeoTIFF by its name; planes (plane, row, col)."""
    options = {"driver": "GTiff"}
    if path.suffix == ".jp2":
        options = {"driver": "JP2OpenJPEG", "QUALITY": "100", "REVERSIBLE": "YES", "YCBCR420": "NO"}
        # rasterio drops the block size unless the file is said to be tiled.
        options |= {"tiled": "YES", "blockxsize": tile, "blockysize": tile}
    path.parent.mkdir(parents=True, exist_ok=True)
    count, height, width = planes.shape
    with rasterio.open(
        path, "w", width=width, height=height, count=count, dtype=planes.dtype, crs=crs,
        transform=from_origin(*origin, metres, metres), **options,
    ) as dataset:  # fmt: skip
        dataset.write(planes)


@dataclass
class SafeTree:
    """A made product: where it lies, and the digital numbers that it holds at their own resolution."""

    path: Path
    granule: str
    stem: str
    origin: tuple[float, float]
    crs: str
    size: int
    tile: int
    numbers: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def level(self) -> str:
        return "L1C" if "MSIL1C" in self.path.name else "L2A"

    def band_file(self, band: str) -> Path:
        images = self.path / "GRANULE" / self.granule / "IMG_DATA"
        metres = TEN.get(band, 20)
        if self.level == "L1C":
            return images / f"{self.stem}_{band}.jp2"
        return images / f"R{metres}m" / f"{self.stem}_{band}_{metres}m.jp2"

    def write(self, band: str, numbers: np.ndarray) -> None:
        metres = TEN.get(band, 20)
        self.numbers[band] = numbers
        write_raster(self.band_file(band), numbers[None], self.origin, metres, self.crs, self.tile)

    def write_mask(self, name: str, planes: np.ndarray, metres: float) -> None:
        file = self.path / "GRANULE" / self.granule / "QI_DATA" / name
        write_raster(file, planes, self.origin, metres, self.crs, self.tile)

    def write_gml(self, name: str, *features: tuple[str, list[tuple[float, float]]]) -> None:
        members = "".join(
            f"<eop:MaskFeature><eop:maskType>{kind}</eop:maskType><eop:extentOf><gml:Polygon><gml:exterior>"
            f'<gml:LinearRing><gml:posList srsDimension="2">{" ".join(f"{x} {y}" for x, y in ring)}'
            "</gml:posList></gml:LinearRing></gml:exterior></gml:Polygon></eop:extentOf></eop:MaskFeature>"
            for kind, ring in features
        )
        text = (
            '<eop:Mask xmlns:eop="http://www.opengis.net/eop/2.0" xmlns:gml="http://www.opengis.net/gml/3.2">'
            f"<eop:maskMembers>{members}</eop:maskMembers></eop:Mask>"
        )
        file = self.path / "GRANULE" / self.granule / "QI_DATA" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def edit(self, pattern: str, replacement: str) -> None:
        """Change the product's metadata."""
        file = self.path / f"MTD_MSI{self.level}.xml"
        file.write_text(re.sub(pattern, replacement, file.read_text(), flags=re.DOTALL))

    def zipped(self) -> Path:
        archive = shutil.make_archive(str(self.path), "zip", self.path.parent, self.path.name)
        return Path(archive)


def build_safe(folder: Path, product: str, size: int = 240, tile: int = 64, seed: int = 0) -> SafeTree:
    """A product of size x size pixels at 10 m with random numbers in its ten bands, and no cloud."""
    source = shared("s2_metadata") / PRODUCTS[product]
    path = folder / source.name
    shutil.copytree(source, path)
    for entry in [path, *path.rglob("*")]:
        entry.chmod(0o755 if entry.is_dir() else 0o644)
    tile_xml = next(path.glob("GRANULE/*/MTD_TL.xml"))
    text = tile_xml.read_text()
    origin = tuple(float(re.search(rf"<{key}>(\d+)</{key}>", text).group(1)) for key in ("ULX", "ULY"))
    crs = re.search(r"EPSG:\d+", text).group()
    _, _, taken, _, _, place, _ = source.stem.split("_")
    tree = SafeTree(path, tile_xml.parent.name, f"{place}_{taken}", origin, crs, size, tile)
    rng = np.random.default_rng(seed)
    for band, metres in TEN.items():
        side = size * 10 // metres
        tree.write(band, rng.integers(1, 5000, (side, side)).astype(np.uint16))
    if tree.level == "L2A":
        tree.write("SCL", np.full((size // 2, size // 2), 4, np.uint8))
    return tree


def expected(tree, offset, size=240):
    """Reflectance from the digital numbers, by the formula of the product specification."""
    planes = []
    for band in TEN_BANDS:
        numbers = tree.numbers[band].astype(np.float64)
        numbers = numbers.repeat(size // len(numbers), axis=0).repeat(size // len(numbers), axis=1)
        planes.append(np.where(numbers == 0, np.nan, (numbers + offset) / 10000))
    return np.stack(planes)
